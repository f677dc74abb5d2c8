"""Claims about sharing ADMM: it solves what it takes, says how far it is off, and keeps coefficients home."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso, Ridge

import colonnade as co
from colonnade.kernels.arrays import Floats
from colonnade.methods.admm import sharing as sharing_admm
from colonnade.methods.admm.sharing import SharingADMM, SharingDual, SharingPart, balanced
from colonnade.problem.nearest import NearestInBall, NearestRidge, nearest
from colonnade.runtime.wire import decode
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LOSSES = [co.LeastSquares(), co.Logistic(), co.SquaredHinge(), co.Huber(0.5), co.Absolute(), co.Quantile(0.3)]
PENALTIES = ["ridge", "lasso", "elastic net", "group lasso"]


def table(loss: Any, rows: int, columns: int, shared: float = 0.5, seed: int = 0) -> tuple[Floats, Floats]:
    """Columns with a common factor; labels that the loss accepts."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(1 - shared) * rng.normal(size=(rows, columns)) + np.sqrt(shared) * rng.normal(size=(rows, 1))
    y = X @ (rng.normal(size=columns) * (rng.random(columns) < 0.6)) / np.sqrt(columns) + 0.3 * rng.normal(size=rows)
    return X, np.where(y > 0.1, 1.0, -1.0) if loss.classifies else y + 0.5


def penalty(kind: str, columns: int, width: int) -> Any:
    """`width` columns a party; groups of two that lie inside a party, not side by side where there is room."""
    pairs = [(j, j + width // 2) for j in range(width // 2)]
    groups = [tuple(start + j for j in pair) for start in range(0, columns, width) for pair in pairs]
    return {
        "ridge": lambda: co.Ridge(0.1),
        "lasso": lambda: co.Lasso(0.03),
        "elastic net": lambda: co.ElasticNet(0.02, 0.05),
        "group lasso": lambda: co.GroupLasso(0.02, groups),
    }[kind]()


def optimum(problem: co.Problem, X: Floats, y: Floats) -> float:
    """By another solver."""
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ x + b
    match problem.loss:
        case co.LeastSquares():
            loss = cp.sum_squares(scores - y) / 2
        case co.Logistic():
            loss = cp.sum(cp.logistic(-cp.multiply(y, scores)))
        case co.SquaredHinge():
            loss = cp.sum(cp.square(cp.pos(1 - cp.multiply(y, scores)))) / 2
        case co.Huber(delta):
            loss = cp.sum(cp.huber(scores - y, delta)) / 2
        case co.Absolute():
            loss = cp.norm1(scores - y)
        case co.Quantile(q):
            loss = cp.sum(cp.maximum(q * (y - scores), (1 - q) * (scores - y)))
    match problem.penalty:
        case co.Ridge(a):
            cost = a / 2 * cp.sum_squares(x)
        case co.Lasso(a):
            cost = a * cp.norm1(x)
        case co.ElasticNet(l1, l2):
            cost = l1 * cp.norm1(x) + l2 / 2 * cp.sum_squares(x)
        case co.GroupLasso(a, groups):
            cost = a * sum(np.sqrt(len(g)) * cp.norm(x[list(g)]) for g in groups)
    free = [] if problem.intercept else [b == 0]
    return confident(cp.Problem(cp.Minimize(loss / y.size + cost), free))


def objective(fit: co.Fit, problem: co.Problem, X: Floats, y: Floats) -> float:
    """From the coefficients that the parties hold."""
    x = np.concatenate([fit.coefficients[party] for party in fit.coefficients])
    return problem.objective(X @ x + fit.intercept, x, y)


# ---------------------------------------------------------------- it solves the problem


# Where the loss has kinks it takes hundreds of rounds: half of those are left to the slow run.
COMBINATIONS = [
    pytest.param(loss, kind, b, id=f"{type(loss).__name__}, {kind}{', intercept' * b}", marks=[pytest.mark.slow] * slow)
    for loss in LOSSES
    for kind in PENALTIES
    for b, slow in ((False, False), (True, not loss.smooth))
]


@pytest.mark.thinned("slow")
@pytest.mark.parametrize(("loss", "kind", "intercept"), COMBINATIONS)
def test_it_finds_the_optimum_of_every_loss_and_penalty(loss: Any, kind: str, intercept: bool) -> None:
    rows, columns, width = 40, 12, 4
    X, y = table(loss, rows, columns)
    problem = co.Problem(loss, penalty=penalty(kind, columns, width), intercept=intercept)
    best = optimum(problem, X, y)
    fed = co.Federation.split(X, y, parties=columns // width)
    fit = co.fit(fed, problem, SharingADMM(rounds=2000, tolerance=5e-7 * best))
    assert fit.status is co.Status.CERTIFIED
    found = objective(fit, problem, X, y)
    assert found == pytest.approx(fit.objective, rel=1e-12)
    assert -1e-7 * best <= found - best <= 1e-6 * best


@settings(max_examples=15, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(PENALTIES),
    intercept=st.booleans(),
    rounds=st.integers(1, 12),
    seed=st.integers(0, 2**16),
)
def test_the_gap_bounds_the_distance_to_the_optimum(
    loss: Any, kind: str, intercept: bool, rounds: int, seed: int
) -> None:
    X, y = table(loss, 20, 8, seed=seed)
    problem = co.Problem(loss, penalty=penalty(kind, 8, 4), intercept=intercept)
    fit = co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM(rounds=rounds, tolerance=0.0))
    excess = objective(fit, problem, X, y) - optimum(problem, X, y)
    assert -1e-6 <= excess <= fit.gap + 1e-6
    assert len(fit.history) == rounds


@pytest.mark.parametrize("kind", ["ridge", "elastic net"])
def test_ten_correlated_parties_are_no_obstacle(kind: str) -> None:
    X, y = table(co.LeastSquares(), 80, 40, shared=0.9)
    problem = co.Problem(co.LeastSquares(), penalty=penalty(kind, 40, 4))
    best = optimum(problem, X, y)
    fit = co.fit(co.Federation.split(X, y, parties=10), problem, SharingADMM(tolerance=1e-6 * best))
    assert fit.status is co.Status.CERTIFIED
    assert objective(fit, problem, X, y) - best <= 1e-6 * best


@pytest.mark.parametrize("parties", [20, pytest.param(50, marks=pytest.mark.slow)])
def test_many_correlated_parties_are_no_obstacle(parties: int) -> None:
    X, y = table(co.LeastSquares(), 60, 2 * parties, shared=0.9)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    best = optimum(problem, X, y)
    fit = co.fit(co.Federation.split(X, y, parties=parties), problem, SharingADMM(tolerance=1e-6 * best))
    assert fit.status is co.Status.CERTIFIED
    assert objective(fit, problem, X, y) - best <= 1e-6 * best


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ridge", "lasso"])
def test_defaults_reach_their_certificate_with_a_hundred_parties(kind: str) -> None:
    """30 columns each; the optimum is that of scikit-learn."""
    rng, true = np.random.default_rng(0), np.zeros(3000)
    true[::300] = rng.choice([-1.0, 1.0], 10)
    X = rng.normal(size=(200, 3000))
    y = X @ true + 0.5 * rng.normal(size=200)
    solvers = {"ridge": Ridge(20.0, fit_intercept=False), "lasso": Lasso(0.1, fit_intercept=False, tol=1e-12)}
    problem = co.Problem(co.LeastSquares(), penalty={"ridge": co.Ridge(0.1), "lasso": co.Lasso(0.1)}[kind])
    best = solvers[kind].fit(X, y).coef_
    fit = co.fit(co.Federation.split(X, y, parties=100), problem, SharingADMM())
    assert fit.status is co.Status.CERTIFIED
    assert fit.gap <= 1e-4
    assert -1e-9 <= objective(fit, problem, X, y) - problem.objective(X @ best, best, y) <= fit.gap + 1e-9


@pytest.mark.parametrize(("count", "most"), [(3, 1e-7), (10, 1e-4), (50, 1e-2)])
def test_smooth_problems_of_many_parties_are_not_held_back_by_an_anchor(count: int, most: float) -> None:
    """After 50 rounds, as a share of the way from x = 0; anchored from the first round on it was 2e-4, 2e-3 and
    3e-2."""
    rng, rows, columns = np.random.default_rng(0), 200, 4 * count
    X = np.sqrt(0.1) * rng.normal(size=(rows, columns)) + np.sqrt(0.9) * rng.normal(size=(rows, 1))
    y = X @ rng.normal(size=columns) / np.sqrt(columns) + 0.3 * rng.normal(size=rows)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    best = np.linalg.solve(X.T @ X / rows + 0.1 * np.eye(columns), X.T @ y / rows)
    low, high = (problem.objective(X @ x, x, y) for x in (best, np.zeros(columns)))
    fit = co.fit(co.Federation.split(X, y, parties=count), problem, SharingADMM(rounds=50, tolerance=0.0))
    assert (objective(fit, problem, X, y) - low) / (high - low) <= most


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic()], ids=["least squares", "logistic"])
def test_a_warm_start_at_a_neighbouring_problem_saves_rounds_and_changes_no_answer(
    loss: Any, kind: str, intercept: bool
) -> None:
    X, y = table(loss, 40, 12)
    fed = co.Federation.split(X, y, parties=3)
    wanted = penalty(kind, 12, 4)
    weights = {name: 1.01 * value for name, value in asdict(wanted).items() if isinstance(value, float)}
    near, problem = (co.Problem(loss, penalty=p, intercept=intercept) for p in (replace(wanted, **weights), wanted))
    best = optimum(problem, X, y)
    before = co.fit(fed, near, SharingADMM(tolerance=1e-8 * best))
    cold, warm = (
        co.fit(fed, problem, SharingADMM(tolerance=1e-7 * best, start=given)) for given in (None, before.coefficients)
    )
    assert len(warm.history) <= 0.8 * len(cold.history)
    for fit in (cold, warm):
        assert fit.status is co.Status.CERTIFIED
        assert objective(fit, problem, X, y) - best <= 2e-7 * best


def test_a_warm_start_at_the_answer_ends_with_the_second_round() -> None:
    X, y = table(co.Logistic(), 40, 12)
    fed, problem = co.Federation.split(X, y, parties=3), co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
    cold = co.fit(fed, problem, SharingADMM(tolerance=1e-12))
    warm = co.fit(fed, problem, SharingADMM(tolerance=1e-9, start=cold))
    assert len(warm.history) <= 2 < len(cold.history)
    assert warm.status is co.Status.CERTIFIED


@pytest.mark.parametrize("start", [None, {"party0": np.ones(4), "party1": np.ones(4)}], ids=["cold", "warm"])
def test_a_warm_start_releases_nothing_that_a_cold_one_does_not(start: Any, tmp_path: Any) -> None:
    from colonnade.model.job import Job
    from colonnade.privacy.ledger import Ledger
    from colonnade.privacy.store import FileLog

    X, y = table(co.LeastSquares(), 30, 8)
    fed, problem = co.Federation.split(X, y, parties=2), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    method = SharingADMM(rounds=5, tolerance=0.0, start=start)
    co.fit(fed, problem, method, store=tmp_path)
    for party, plan in method.price(Job(problem, fed.roster())).items():
        log = FileLog(tmp_path / "nodes" / f"{party}.db")
        count = len(Ledger(log, party, co.Policy(exact=True)).entries())
        log.close()
        assert count == sum(charge.count for charge in plan) == (1 if party == "labels" else 5)


def test_the_party_and_the_coordinator_keep_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """w is never sent: relaxed or anchored, over restarts and changes of rho, both must compute the same one."""
    from colonnade.methods.admm.sharing import Coupling

    X, y = table(co.Absolute(), 20, 8)
    seen: list[tuple[bool, Floats]] = []
    update = Coupling.update

    def spied(self: Coupling, t: int, predictions: Floats) -> None:
        update(self, t, predictions)
        seen.append((self.epochs.anchored, self.w - self.v / self.rho))

    monkeypatch.setattr(Coupling, "update", spied)
    targets: dict[float, list[Floats]] = {}
    solve = sharing_admm.nearest

    def watched(matrix: Any, cost: Any) -> Any:
        inner, first = solve(matrix, cost), float(matrix[0, 0])

        def closest(target: Floats, rho: float) -> Floats:
            targets.setdefault(first, []).append(target)
            return inner(target, rho)

        return closest

    monkeypatch.setattr(sharing_admm, "nearest", watched)
    problem = co.Problem(co.Absolute(), penalty=co.Lasso(0.03))
    tap = co.Tap(co.InProcess())
    co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM(rounds=200, tolerance=0.0), engine=tap)
    assert {way for way, _ in seen} == {False, True}
    duals = [m for letter in tap.letters if isinstance(m := decode(letter.body), SharingDual)][::2]
    for place, own in enumerate([targets[float(X[0, 0])], targets[float(X[0, 4])]]):
        for (_, z), dual, target in zip(seen, duals[1:], own[1:], strict=False):
            np.testing.assert_allclose(z[place] - dual.values / dual.rho, target, atol=1e-9)


COUPLINGS = [0.1, 1.0, 10.0, 100.0, 1000.0]


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_every_fixed_coupling_goes_towards_the_optimum_over_four_decades(coupling: float) -> None:
    """However far from a good one: the model is better than none, and the certified distance keeps falling."""
    X, y = table(co.LeastSquares(), 80, 40, shared=0.9)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    best, start = optimum(problem, X, y), co.LeastSquares().value(np.zeros(80), y)
    fed = co.Federation.split(X, y, parties=10)
    fit = co.fit(fed, problem, SharingADMM(rounds=100, tolerance=0.0, coupling=coupling))
    assert best <= objective(fit, problem, X, y) < start
    gaps = fit.history["gap"].to_numpy()
    assert gaps[99] < gaps[49] < gaps[9]


# ---------------------------------------------------------------- odd tables


def rank_deficient() -> Floats:
    X = np.random.default_rng(1).normal(size=(30, 8))
    X[:, 5], X[:, 2], X[:, 7] = X[:, 1], 2 * X[:, 0], 0.0
    return X


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("store", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "X",
    [rank_deficient(), np.random.default_rng(2).normal(size=(8, 24))],
    ids=["rank deficient", "more columns than rows"],
)
def test_dependent_columns_and_wide_tables_are_solved(X: Floats, store: Any, kind: str) -> None:
    y = np.random.default_rng(3).normal(size=len(X))
    problem = co.Problem(co.LeastSquares(), penalty=penalty(kind, X.shape[1], 4))
    best = optimum(problem, X, y)
    fit = co.fit(co.Federation.split(store(X), y, parties=2), problem, SharingADMM(tolerance=1e-6 * best))
    assert fit.status is co.Status.CERTIFIED
    assert objective(fit, problem, X, y) - best <= 1e-6 * best


def test_labels_may_live_with_a_party_that_has_no_columns_or_with_one_that_has() -> None:
    X, y = table(co.LeastSquares(), 30, 8)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    apart, inside = (
        co.fit(co.Federation.split(X, y, parties=2, label=label), problem, SharingADMM(tolerance=1e-9))
        for label in (None, "party1")
    )
    for party in ("party0", "party1"):
        np.testing.assert_array_equal(apart.coefficients[party], inside.coefficients[party])


def test_a_group_that_is_split_over_parties_is_refused_with_its_columns() -> None:
    X, y = table(co.LeastSquares(), 20, 4)
    problem = co.Problem(co.LeastSquares(), penalty=co.GroupLasso(0.1, ((0,), (1, 2), (3,))))
    with pytest.raises(co.InvalidInput, match=r"1 of 3 groups are split over parties, the first is \(1, 2\)"):
        co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM())


def test_columns_without_a_group_are_refused() -> None:
    X, y = table(co.LeastSquares(), 20, 4)
    problem = co.Problem(co.LeastSquares(), penalty=co.GroupLasso(0.1, ((0, 1), (2,))))
    with pytest.raises(co.InvalidInput, match="has 2 columns and the groups name 1"):
        co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM())


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        (co.Problem(co.Logistic(), co.L1Ball(1.0)), r"co\.Product\(co\.L1Ball\(1\), blocks='parties'\)"),
        (co.Problem(co.LeastSquares(), penalty=co.NuclearNorm(1.0)), r"penalty=co\.Ridge"),
    ],
    ids=["a set of all columns", "the nuclear norm"],
)
def test_a_problem_that_does_not_add_up_over_columns_is_refused(problem: co.Problem, remedy: str) -> None:
    X, y = table(problem.loss, 20, 4)
    with pytest.raises(co.InvalidInput, match=remedy):
        co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM())


@pytest.mark.parametrize("options", [{"rounds": 0}, {"tolerance": -1.0}, {"coupling": 0.0}, {"coupling": np.inf}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(co.InvalidInput, match=next(iter(options))):
        SharingADMM(**options)


# ---------------------------------------------------------------- what leaves


def test_coefficients_never_leave_a_party() -> None:
    """Not in a field of any message, in either direction; the Fit has them from the parties themselves."""
    X, y = table(co.LeastSquares(), 30, 8)
    tap = co.Tap(co.InProcess())
    fed = co.Federation.split(X, y, parties=2)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), SharingADMM(rounds=5), engine=tap)
    received = [decode(letter.body) for letter in tap.letters]
    assert {"SendLabels", "Labels", "SharingDual", "SharingPart", "Finish", "Done"} == {
        type(m).__name__ for m in received
    }
    for message in received:
        if isinstance(message, SharingPart):
            assert message.prediction.value.shape == (30,)
        if isinstance(message, SharingDual):
            assert message.values.shape == (30,)
        if type(message).__name__ == "Finish":
            assert message.coefficients.size == 0
    assert all(np.any(x) for x in fit.coefficients.values())


def test_a_round_costs_one_vector_up_and_one_down_for_each_party() -> None:
    X, y = table(co.LeastSquares(), 1000, 6)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    fit = co.fit(co.Federation.split(X, y, parties=3), problem, SharingADMM(rounds=10, tolerance=0.0))
    assert 2 * 10 * 3 * 8000 <= fit.communication.bytes <= 2 * 10 * 3 * 8100 + 8100


def test_a_run_with_a_budget_is_refused(tmp_path: Any) -> None:
    X, y = table(co.LeastSquares(), 30, 8)
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    with pytest.raises(co.InvalidInput, match="exact values"):
        co.fit(co.Federation.split(X, y, parties=2), problem, SharingADMM(), co.Privacy(1.0, 1e-6), store=tmp_path)


# ---------------------------------------------------------------- the pieces


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_a_balanced_vector_adds_up_to_zero_and_no_entry_grows(values: list[float]) -> None:
    v = np.array(values)
    even = balanced(v)
    assert abs(even.sum()) <= 1e-15 * v.size
    assert np.all(np.abs(even) <= np.abs(v))
    assert np.all(even * v >= 0)


@settings(deadline=None)
@given(
    rows=st.integers(1, 12), columns=st.integers(1, 12), rho=st.floats(1e-3, 1e3), radius=st.floats(0.01, 10.0),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_the_answer_in_a_ball_is_stationary_and_inside(
    rows: int, columns: int, rho: float, radius: float, seed: int
) -> None:
    """The conditions that the sensitivity's proof uses: x in the ball, and −gradient a multiple ≥ 0 of x at its
    edge."""
    rng = np.random.default_rng(seed)
    A, t = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    x = NearestInBall(A, 0.3, radius)(t, rho)
    gradient = 0.3 * x + rho * A.T @ (A @ x - t)
    size = np.linalg.norm(x)
    multiplier = max(0.0, -float(gradient @ x) / max(size**2, 1e-300)) if size >= radius * (1 - 1e-9) else 0.0
    assert size <= radius * (1 + 1e-12)
    scale = np.linalg.norm(rho * A.T @ t) + 1e-300
    assert np.linalg.norm(gradient + multiplier * x) <= 1e-8 * scale


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 10), st.integers(1, 10), st.floats(0.01, 100.0), st.integers(0, 2**16))
def test_ridge_answers_agree_whichever_side_is_factorised(rows: int, columns: int, rho: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, t = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    direct = np.linalg.solve(0.3 * np.eye(columns) + rho * A.T @ A, rho * A.T @ t)
    for answer in (NearestRidge(A, 0.3)(t, rho), NearestInBall(A, 0.3, np.inf)(t, rho)):
        np.testing.assert_allclose(answer, direct, rtol=1e-8, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(PENALTIES[1:]), st.floats(0.1, 10.0), st.integers(0, 2**16))
def test_coordinate_descent_ends_at_a_fixed_point_of_the_proximal_map(kind: str, rho: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, t, cost = rng.normal(size=(9, 4)), 3 * rng.normal(size=9), penalty(kind, 4, 4)
    x = nearest(A, cost)(t, rho)
    step = 1.0 / (rho * np.linalg.norm(A, 2) ** 2)
    np.testing.assert_allclose(cost.prox(x - step * rho * A.T @ (A @ x - t), step), x, atol=1e-6)
