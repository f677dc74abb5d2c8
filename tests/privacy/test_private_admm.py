"""Claims about private sharing ADMM: its sensitivities hold, its price is the budget, and attacks find what is wrong and nothing else.

Sensitivities are checked on generated neighbours against the bound itself. Verdicts of audits err with probability at most
1e-6 each; what must be violated is so far over its claim that it is missed less often still.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co
from colonnade.attacks import sharing_admm as audit_admm
from colonnade.attacks.lower_bound import epsilon_lower_bound
from colonnade.attacks.setting import CLAIMS
from colonnade.methods.admm import private_sharing as admm
from colonnade.methods.admm.private_sharing import PrivateSharingADMM, column_moves, noisy_prox, row_moves
from colonnade.methods.admm.sharing import SharingADMM
from colonnade.model.job import Job
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import COLUMN, Block
from colonnade.privacy.events import row_rho
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.problem.nearest import NearestInBall
from colonnade.runtime.wire import decode

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

audits = importlib.import_module("colonnade.attacks.run")
PRIVACY = co.Privacy(1.0, 1e-6, row_norm=2.0, label_bound=1.0)
PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))


def table(rows: int = 60, columns: int = 6, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, columns))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def private_fit(store: Path, method: PrivateSharingADMM | None = None, **options: Any) -> co.Fit:
    fed = options.pop("fed", None) or co.Federation.split(*table(), parties=3)
    problem, privacy = options.pop("problem", PROBLEM), options.pop("privacy", PRIVACY)
    return co.fit(fed, problem, method or PrivateSharingADMM(rounds=3), privacy, store=store, **options)


def entries(store: Path, party: str) -> list[Any]:
    log = FileLog(store / "nodes" / f"{party}.db")
    found = list(Ledger(log, party, co.Policy()).entries())
    log.close()
    return found


# ---------------------------------------------------------------- sensitivities

sizes = st.tuples(st.integers(2, 8), st.integers(1, 5))
scales = st.floats(0.01, 100.0)


def clipped(A: Any, norm: float) -> Any:
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return A * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))


@settings(max_examples=200, deadline=None)
@given(sizes, scales, scales, st.floats(0.01, 10.0), st.floats(0.1, 10.0), st.floats(0.01, 10.0), st.integers(0, 2**32))
def test_replacing_a_row_moves_prediction_and_coefficients_by_no_more_than_is_charged(
    size: tuple[int, int], rho: float, ridge: float, radius: float, norm: float, reach: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A = clipped(rng.normal(size=size) * 10.0 ** rng.uniform(-2, 2, (size[0], 1)), norm)
    other = A.copy()
    other[0] = -A[0] if rng.random() < 0.5 else clipped(10 * rng.normal(size=(1, size[1])), norm)[0]
    r = rng.uniform(-reach, reach, size[0])
    r[rng.random(size[0]) < 0.3] = reach
    x, moved = (NearestInBall(D, ridge, radius)(-r, rho) for D in (A, other))
    moves = row_moves(rho, ridge, radius, norm, float(np.abs(r).max()))
    assert np.linalg.norm(A @ x - other @ moved) <= moves.prediction * admm.SLACK
    assert np.linalg.norm(x - moved) <= moves.model * admm.SLACK


@settings(max_examples=200, deadline=None)
@given(sizes, scales, scales, st.floats(0.1, 10.0), st.integers(0, 2**32))
def test_replacing_a_column_moves_prediction_and_coefficients_by_no_more_than_is_charged(
    size: tuple[int, int], rho: float, ridge: float, norm: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A = clipped(rng.normal(size=size).T, norm).T
    r, other = rng.normal(size=size[0]), A.copy()
    other[:, 0] = norm * r / np.linalg.norm(r) if rng.random() < 0.5 else 0.0
    x, moved = (NearestInBall(D, ridge, math.inf)(-r, rho) for D in (A, other))
    moves = column_moves(rho, ridge, norm, float(np.linalg.norm(r)))
    assert np.linalg.norm(A @ x - other @ moved) <= moves.prediction * admm.SLACK
    assert np.linalg.norm(x - moved) <= moves.model * admm.SLACK


def test_the_bounds_are_nearly_reached() -> None:
    """Else noise is wasted: a row that turns round at the edge of the ball, and a column that was orthogonal before."""
    A = np.ones((40, 1))
    other = A.copy()
    other[0] = -1.0
    x, moved = (NearestInBall(D, 10.0, 0.1)(np.ones(40), 0.05) for D in (A, other))
    assert np.linalg.norm(A @ x - other @ moved) >= 0.6 * row_moves(0.05, 10.0, 0.1, 1.0, 1.0).prediction
    along, across = np.ones((8, 1)), np.tile([[1.0], [-1.0]], (4, 1))
    x, moved = (NearestInBall(D, 0.3, math.inf)(np.ones(8), 0.1) for D in (along, across))
    apart = np.linalg.norm(along @ x - across @ moved)
    assert apart == pytest.approx(column_moves(0.1, 0.3, math.sqrt(8), math.sqrt(8)).prediction, rel=1e-9)


@settings(max_examples=100)
@given(st.floats(-30, 30), st.floats(-20, 20), st.floats(0.01, 50.0))
def test_the_prox_with_a_noisy_label_is_stationary(v: float, label: float, step: float) -> None:
    """Of log(2cosh(s/2)) − label·s/2 + (s − v)²/(2·step), for one row."""
    job = Job(PROBLEM, co.Federation.split(*table(), parties=2).roster())
    s = noisy_prox(job, np.array([label]), step, np.array([v]))[0]
    slope = 0.5 * math.tanh(s / 2) - label / 2 + (s - v) / step
    assert abs(slope) <= 1e-9 * (1 + abs(label) + abs(v) / step)


def test_a_label_of_one_is_the_logistic_loss() -> None:
    job = Job(PROBLEM, co.Federation.split(*table(), parties=2).roster())
    y, v = np.array([1.0, -1.0, 1.0]), np.array([0.3, -2.0, 5.0])
    np.testing.assert_allclose(noisy_prox(job, y, 3.0, v), co.Logistic().prox(v, y, 3.0), rtol=1e-12)


@pytest.mark.parametrize("store", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
def test_rows_are_clipped_whatever_they_hold(store: Any) -> None:
    wild = np.array([[3.0, 4.0], [0.3, 0.4], [1e308, 1e308], [np.nan, 5e-324], [0.0, np.inf]])
    job = Job(PROBLEM, co.Federation.split(*table(5, 2), parties={"a": [0, 1]}).roster(), PRIVACY)
    terms = admm._terms(job, PrivateSharingADMM(1))
    clipped_block = terms.bounded(Block(store(wild), np.arange(2)), 2.0)
    assert sparse.issparse(clipped_block) is sparse.issparse(store(wild))
    lengths = np.linalg.norm(sparse.csc_array(clipped_block).toarray(), axis=1)
    np.testing.assert_allclose(lengths, [2.0, 0.5, 2.0, 0.0, 2.0], rtol=1e-12, atol=1e-300)


# ---------------------------------------------------------------- price


@pytest.mark.parametrize("rounds", [1, 2, 5, None])
@pytest.mark.parametrize("unit", [co.Federation.split(*table(), parties=2).unit, COLUMN], ids=["row", "column"])
def test_the_price_is_the_whole_budget(rounds: int | None, unit: Any) -> None:
    fed = replace(co.Federation.split(*table(), parties=3), unit=unit)
    privacy = replace(PRIVACY, feature_bound=1.0)
    price = row_rho(PrivateSharingADMM(rounds).price(Job(PROBLEM, fed.roster(), privacy)))
    assert price == pytest.approx(rho_for(1.0, 1e-6), rel=1e-12)


def test_more_budget_or_more_rows_buy_more_rounds() -> None:
    def rounds(rows: int, epsilon: float) -> int:
        fed = co.Federation.split(np.zeros((rows, 3)), np.zeros(rows), parties=3)
        privacy = co.Privacy(epsilon, 1e-6, row_norm=1.0)
        return admm._terms(Job(PROBLEM, fed.roster(), privacy), PrivateSharingADMM()).rounds

    assert rounds(1_000, 0.1) == 1
    assert rounds(1_000, 0.1) < rounds(100_000, 4.0) <= rounds(100_000, 16.0) <= admm.MOST


@pytest.mark.chance(0, "prices, counts and a status that no noise changes")
def test_a_run_releases_what_its_plan_says_and_its_statement_is_proven(tmp_path: Path) -> None:
    fit = private_fit(tmp_path)
    assert fit.privacy.guarantee == "proven"
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert (fit.objective, fit.gap, fit.status) == (None, None, co.Status.FIXED_ROUNDS)
    assert len(entries(tmp_path, "labels")) == 1
    for party in ("party0", "party1", "party2"):
        assert len(entries(tmp_path, party)) == 3
    spent = math.fsum(e.event.rho for p in ("labels", "party0", "party1", "party2") for e in entries(tmp_path, p))
    assert spent == pytest.approx(rho_for(1.0, 1e-6), rel=1e-12)


@pytest.mark.chance(0, "prices and texts: nothing that was drawn is compared")
def test_a_column_level_statement_names_its_unit(tmp_path: Path) -> None:
    fed = replace(co.Federation.split(*table(), parties=3), unit=COLUMN)
    fit = private_fit(tmp_path, fed=fed, privacy=co.Privacy(1.0, 1e-6, feature_bound=1.0))
    assert fit.privacy.unit == "one feature column"
    assert "rows and the label vector are not protected" in fit.privacy.sentence
    assert fit.privacy.epsilon == pytest.approx(1.0, rel=1e-6)


def test_a_person_with_three_rows_is_charged_for_all_of_them(tmp_path: Path) -> None:
    X, y = table()
    for name, unit in (("row", None), ("person", (np.arange(60) // 3, 3))):
        private_fit(tmp_path / name, fed=co.Federation.split(X, y, parties=3, unit=unit), noise=co.SeededNoise(1))
    for party, factor in (("labels", math.sqrt(3)), ("party0", 3)):
        one, three = (entries(tmp_path / name, party)[0].event.sensitivity for name in ("row", "person"))
        assert three == pytest.approx(factor * one, rel=1e-2)  # reach depends on the noise, the rest does not


# ---------------------------------------------------------------- the boundary


@pytest.mark.chance(0, "two readings of one draw are compared")
def test_the_model_of_the_fit_is_what_left_through_the_gate(tmp_path: Path) -> None:
    """Exact coefficients in a Fit would be a release that nobody paid for."""
    tap = co.Tap(co.InProcess())
    fit = private_fit(tmp_path, engine=tap)
    received = [(letter.sender, decode(letter.body)) for letter in tap.letters]
    models = {sender: m.coefficients.value for sender, m in received if type(m).__name__ == "NoisyModel"}
    assert set(models) == set(fit.coefficients)
    for party, x in fit.coefficients.items():  # projected on the ball of radius 1, by figures that left and no others
        length = float(np.linalg.norm(models[party]))
        np.testing.assert_array_equal(models[party] if length <= 1.0 else models[party] * (1.0 / length), x)


@pytest.mark.chance(0, "a warning by the table, and a status that no noise changes")
def test_labels_and_features_are_not_questioned(tmp_path: Path) -> None:
    """A refusal would tell: one class only, values far out of bounds."""
    X, y = table()
    X[3] = 1e300
    with pytest.warns(co.NothingToLearn):  # for the caller, who holds the table; nothing is refused
        fit = private_fit(tmp_path, fed=co.Federation.split(X, np.ones_like(y), parties=3))
    assert fit.status is co.Status.FIXED_ROUNDS


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"privacy": replace(PRIVACY, trust="secure")}, "trust model"),
        ({"privacy": replace(PRIVACY, row_norm=None)}, "row_norm=C"),
        ({"privacy": replace(PRIVACY, row_norm={"party0": 1.0})}, "no bound for party 'party1'"),
        ({"problem": co.Problem(co.Logistic(), penalty=co.Lasso(0.1))}, r"penalty=co\.Ridge"),
        ({"problem": co.Problem(co.Absolute(), penalty=co.Ridge(0.1))}, "LeastSquares"),
        (
            {
                "problem": co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
                "privacy": replace(PRIVACY, label_bound=None),
            },
            "label_range=.low, high.",
        ),
    ],
)
def test_what_the_derivation_does_not_cover_is_refused(change: dict[str, Any], advice: str, tmp_path: Path) -> None:
    with pytest.raises(co.InvalidInput, match=advice):
        private_fit(tmp_path, **change)


@pytest.mark.parametrize("options", [{"rounds": 0}, {"rounds": 2.5}, {"radius": 0.0}, {"radius": math.inf}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(co.InvalidInput, match=next(iter(options))):
        PrivateSharingADMM(**options)


@pytest.mark.chance(1e-30, "a square of noise that is 2e-5 on average (4e-5 at most in 8 runs) against 1e-2")
def test_with_a_huge_budget_it_finds_the_penalised_optimum(tmp_path: Path) -> None:
    """Noise aside it is sharing ADMM: with next to none, fifty rounds come within a per cent of its objective.

    At epsilon 1e8 noise adds some 2e-5 to the objective, by its square, so chance plays no part.
    """
    X, _ = table(200, 6)
    fed = co.Federation.split(X, X @ [1.0, 0, -1, 0, 0.5, 0], parties=3)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    privacy = co.Privacy(1e8, 1e-6, row_norm=2.5, label_bound=3.0)
    fit = private_fit(tmp_path, PrivateSharingADMM(50, radius=3.0), fed=fed, problem=problem, privacy=privacy)
    exact = co.fit(fed, problem, SharingADMM(tolerance=1e-8))
    x = np.concatenate([fit.coefficients[p] for p in fit.coefficients])
    assert problem.objective(X @ x, x, fed.labels) <= 1.01 * exact.objective


# ---------------------------------------------------------------- attacks

ATTACKS = {"rows": audit_admm.rows_seen, "models": audit_admm.models_seen, "columns": audit_admm.columns_seen}


def lower_bound(attack: Any, epsilon: float, trials: int) -> float:
    setting = audits.Setting(epsilon, 1e-5, seed=0)
    inside, outside = attack(setting, True, trials), attack(setting, False, trials)
    return float(epsilon_lower_bound(inside, outside, 1e-5, audits.CONFIDENCE).epsilon)


@pytest.mark.chance(1e-13, "if the claim holds, all of 50 runs a side are told apart: 5e-14 (binomials)")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_stays_below_the_claim(name: str) -> None:
    assert lower_bound(ATTACKS[name], 1.0, 100) <= 1.0


@pytest.mark.audit
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_stays_below_the_claim_in_a_full_audit(name: str, claim: float) -> None:
    assert lower_bound(ATTACKS[name], claim, 10_000) <= claim


def plant_no_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("colonnade.privacy.mechanisms.gaussian_sigma", lambda *_: 2.0**-20)


def plant_bounds_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admm._Terms, "bounded", lambda self, block, norm: block.matrix)


def plant_reach_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(audit_admm, "RADIUS", 1e-3)  # so that the residual is most of what a row adds to the gradient
    patch.setattr(admm, "row_moves", lambda rho, ridge, radius, norm, reach: row_moves(rho, ridge, radius, norm, 0.0))


def plant_a_hundredth_of_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admm, "SLACK", 0.01)


BUGS = [
    ("rows", plant_no_noise, 150),
    ("columns", plant_no_noise, 150),
    ("rows", plant_bounds_forgotten, 350),  # five standard deviations apart; the others are ten and more
    ("columns", plant_bounds_forgotten, 150),
    ("models", plant_reach_forgotten, 150),
    ("models", plant_a_hundredth_of_the_sensitivity, 150),
    ("columns", plant_a_hundredth_of_the_sensitivity, 150),
]


@pytest.mark.chance(1e-10, "16 of 75 lie beyond the first of 75 others, both ways: 4e-11; at 4.5 sds of 350: 14 sds")
@pytest.mark.thinned("audit")
@pytest.mark.parametrize(("name", "plant", "trials"), BUGS, ids=[f"{bug[0]}, {bug[1].__name__[6:]}" for bug in BUGS])
def test_a_planted_bug_is_caught(name: str, plant: Any, trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert lower_bound(ATTACKS[name], 1.0, trials) > 1.0


def test_a_budget_that_is_not_shared_out_over_rounds_is_refused_by_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = admm._terms

    def greedy(job: Any, chosen: Any) -> Any:
        terms = honest(job, chosen)
        return replace(terms, prediction_rho=terms.prediction_rho * (terms.rounds - 1))

    monkeypatch.setattr(admm, "_terms", greedy)
    with pytest.raises(co.BudgetExhausted):
        audit_admm.rows_seen(audits.Setting(1.0, 1e-5, 0), True, 1)


@pytest.mark.chance(0, "a refusal, whatever was drawn before")
def test_one_prediction_more_than_planned_does_not_leave() -> None:
    ask = audit_admm._holders(
        audits.Setting(1.0, 1e-5, 0), co.Privacy(1.0, 1e-5, row_norm=1.0), co.Federation.split(*table(), parties=2).unit,
        10.0, *audit_admm.row_table(True),
    )  # fmt: skip
    for _ in range(audit_admm.ROUNDS - 1):
        ask("one", admm.Couple(np.zeros(audit_admm.ROWS)))
    with pytest.raises(co.ColonnadeError, match="plan"):
        ask("one", admm.Couple(np.zeros(audit_admm.ROWS)))
