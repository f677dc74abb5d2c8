"""How far what reaches the gate can move, by brute force: for neighbours placed at the bounds, against figures by hand.

Charges, weights and bounds here are written down from the formulas of docs/understand/privacy/, and never read back from the
code. For each kind of release (i) the code charges what the formula says, (ii) no neighbour moves further, and (iii) one that
is made for it moves nearly as far; where a charge cannot be reached, the test says why and how near one comes.

Messages and answers of the gate are fixed, so that both neighbours have the same past. A step, a constant and a label's size in
steps are units in which a release is counted; those are taken from the run, and lengths and charges are worked out from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.methods.admm.private_sharing import Couple, SendNoisyLabels, SendNoisyModel
from colonnade.methods.frank_wolfe.central import Choose
from colonnade.methods.frank_wolfe.private_block import HashedSketch, InsideOffer, InsideTurn, Slope
from colonnade.methods.gram.local import Local, Products
from colonnade.methods.gram.plan import RunPlan
from colonnade.methods.gram.rule import RowFrame, whole_frame
from colonnade.methods.method import Labels, SendLabels
from colonnade.model.job import Job
from colonnade.privacy.block import COLUMN, Block
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import SeededNoise, choice_grid, own_part, shared_scale
from colonnade.privacy.values import release
from colonnade.runtime.program import COORDINATOR
from tests.helpers import gram_runs
from tests.helpers.at_the_gate import Watched, handed

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TIGHT = 1e-3  # of a charge: what it may add for rounding
B, Y, R = 0.5, 2.0, 2.0  # bounds of an entry, a label, a residual
HALF = 0.5**0.5
UNITS = pytest.mark.parametrize("k", [1, 3], ids=["row", "person of 3"])


def job_of(
    problem: co.Problem, n: int, k: int, columns: dict[str, list[int]], label: str, unit: Any = None, **privacy: Any
):
    width = sum(map(len, columns.values()))
    unit = (np.arange(n) // k, k) if k > 1 else unit
    fed = co.Federation.split(np.zeros((n, width)), np.ones(n), parties=columns, label=label, unit=unit)
    return Job(problem, fed.roster(), co.Privacy(1.0, 1e-6, **{"trust": "nobody", **privacy}))


def block_of(job: Job, party: str, X: Any, y: Any) -> Block:
    own = X if sparse.issparse(X) else np.ascontiguousarray(X)
    return Block(own, np.array(job.roster.positions[party]), labels=y, unit=job.roster.unit)


def moves(method: Any, job: Job, party: str, tables: Any, messages: Any) -> list[tuple[float, float, Any]]:
    """(moved, charged, release) for every release of a party, between two tables (X, y)."""
    one, two = (handed(method, job, block_of(job, party, X, y), party, messages) for X, y in tables)
    assert [g.sensitivity for g in one] == [g.sensitivity for g in two]
    return [(a.apart(b), a.sensitivity, a) for a, b in zip(one, two, strict=True)]


def judge(found: tuple[float, float, Any], by_hand: float, nearly: float = 0.9) -> None:
    moved, charged, _ = found
    assert charged == pytest.approx(by_hand, rel=TIGHT)
    assert nearly * by_hand <= moved <= by_hand * (1 + 1e-9)


def logistic(t: float) -> float:
    return 1.0 / (1.0 + math.exp(-t))


# ---------------------------------------------------------------------------------------- central Frank-Wolfe


@UNITS
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [co.Logistic(), co.LeastSquares()], ids=["logistic", "squares"])
def test_a_pick_of_central_frank_wolfe_moves_as_far_as_its_slope_allows_and_no_further(loss, form, k):
    """Δ = 2·B·sigmoid(B‖x‖₁)·k, or 2·B·R·k: a row whose slope is the steepest turns one entry round."""
    n, radius = 9, 3.0
    job = job_of(
        co.Problem(loss, constraint=co.L1Ball(radius)), n, k, {"a": [0, 1, 2]}, "a", feature_bound=B, label_bound=R
    )
    method, messages = co.CentralFrankWolfe(rounds=3), [Choose(), Choose(), Choose()]
    # The script picks columns 1, then 2, both with sign +: x is negative there, and score y·a·x lowest for a = +B, y = +1.
    norms = [0.0, radius * 2 / 3, radius * 5 / 6]
    X, y = np.zeros((n, 3)), np.ones(n)
    X[:k], y[:k] = B, 1.0 if loss.classifies else R
    other = X.copy()
    other[:k, 0] = -B
    found = moves(method, job, "a", [(form(X), y), (form(other), y)], messages)
    for norm, one in zip(norms, found, strict=True):
        judge(one, 2.0 * B * k * (logistic(B * norm) if loss.classifies else R))
    rng = np.random.default_rng(0)
    for _ in range(20):  # and nobody moves further
        wild, labels = X.copy(), y.copy()
        wild[:k], labels[:k] = rng.choice([-B, 0, B, 9.0], (k, 3)), rng.choice([-1.0, 1.0]) * y[0]
        for norm, (moved, _, _) in zip(norms, moves(method, job, "a", [(X, y), (wild, labels)], messages), strict=True):
            assert moved <= 2.0 * B * k * (logistic(B * norm) if loss.classifies else R) * (1 + 1e-9)


# ---------------------------------------------------------------------------------------- private block Frank-Wolfe


def frank_wolfe(k: int, n: int, trust: str, parties: int = 2, loss: Any = None):
    columns = {name: [2 * i, 2 * i + 1] for i, name in enumerate("abcd"[:parties])}
    problem = co.Problem(loss or co.LeastSquares(), constraint=co.L1Ball(3.0))
    return job_of(problem, n, k, columns, "a", trust=trust, feature_bound=B, label_bound=Y)


@UNITS
@pytest.mark.parametrize("parties", [2, 4])
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
def test_labels_picks_and_sketches_of_block_frank_wolfe_move_as_charged(form, parties, k):
    """Labels 2·Y·k, a pick 2·B·k, a column and its product 2·B·√1.25·k.

    k rows of a person move k different labels, so in L2 by 2·Y·√k: the charge is the triangle inequality's, 1/√k of it is reached.
    """
    n = 9
    job = frank_wolfe(k, n, "nobody", parties)
    method = co.PrivateBlockFrankWolfe(
        rounds=1, sketch_rows=1
    )  # J is one row of signs: all rows can be turned along it
    signs = np.sign(HashedSketch("run", 1, n).lift(np.ones(1)))
    X, y = np.zeros((n, 2)), np.zeros(n)
    X[:k], y[:k] = B * signs[:k, None], Y
    messages = [SendLabels(), Slope(7.0 * signs, 1e5 * signs)]  # the sizes of what is sent play no part
    labels, pick, column = moves(method, job, "a", [(form(X), y), (form(-X), -y)], messages)
    judge(labels, 2.0 * Y * k, nearly=0.999 / math.sqrt(k))
    judge(pick, 2.0 * B * k)
    judge(column, 2.0 * B * math.sqrt(1.25) * k)
    rng = np.random.default_rng(0)
    for _ in range(20):
        wild, wild_y = X.copy(), y.copy()
        wild[:k], wild_y[:k] = rng.choice([-B, 0, B, 9.0], (k, 2)), rng.choice([-9.0, Y, 0.3], k)
        sent = [SendLabels(), Slope(rng.normal(size=n), rng.normal(size=n) * 10.0 ** rng.integers(-9, 9))]
        limits = (2.0 * Y * k, 2.0 * B * k, 2.0 * B * math.sqrt(1.25) * k)
        for sketched in (method, co.PrivateBlockFrankWolfe(rounds=1, sketch_rows=8)):
            for (moved, _, _), limit in zip(
                moves(sketched, job, "a", [(X, y), (wild, wild_y)], sent), limits, strict=True
            ):
                assert moved <= limit * (1 + 1e-9)


@UNITS
@pytest.mark.parametrize(
    "loss", [co.Logistic(), co.LeastSquares(), co.SquaredHinge()], ids=["logistic", "squares", "hinge"]
)
def test_a_part_of_a_consortiums_choice_moves_as_charged_whatever_slope_is_sent(loss, k):
    """Δ = 2·B·reach·k with reach = sigmoid(B·‖x‖₁), R or 1 + B·‖x‖₁ and ‖x‖₁ ≤ 3·(1 − 2/((t+1)(t+2))): slopes are cut to it."""
    n = 9
    job = frank_wolfe(k, n, "consortium", loss=loss)
    X = np.full((n, 2), B)
    other = X.copy()
    other[:k] = -B
    turns = [InsideTurn(release(np.full(n, 1e6)))] * 3
    found = moves(co.PrivateBlockFrankWolfe(rounds=3), job, "a", [(X, np.ones(n)), (other, np.ones(n))], turns)
    for norm, one in zip([0.0, 3 * 2 / 3, 3 * 5 / 6], found, strict=True):
        reach = {"Logistic": logistic(B * norm), "LeastSquares": Y, "SquaredHinge": 1.0 + B * norm}[type(loss).__name__]
        judge(one, 2.0 * B * reach * k)


def test_who_wins_a_consortiums_choice_is_drawn_at_the_same_charge():
    """The coordinator's end of the choice: Δ = 2·B·reach·k as at the parties, from masses that move by no more."""
    job = frank_wolfe(3, 9, "consortium")
    gate = Watched(COORDINATOR)
    charged = []
    gate.publish = lambda masses, rho: charged.append(masses.sensitivity) or release(0)
    program = co.PrivateBlockFrankWolfe(rounds=1).coordinator(job, gate)
    next(program)
    program.send({"a": Labels(release(np.ones(9)))})
    program.send({p: InsideOffer(release(0), release(1), release(5)) for p in "ab"})
    assert charged == [pytest.approx(2.0 * B * R * 3, rel=TIGHT)]
    rng, charge = np.random.default_rng(0), 2.0 * B * R * 3
    scale = shared_scale(charge, 0.01)
    grid, _ = choice_grid(scale)
    for scores, other in [(np.full(5, charge), np.zeros(5)), *(rng.normal(size=(30, 2, 5)))]:
        other = scores + np.clip(other - scores, -charge, charge)
        one, two = (own_part(SeededNoise(0), s, scale)[2] * grid for s in (scores, other))
        assert abs(one - two) <= charge * (1 + 2.0**-20)
    shifted = [own_part(SeededNoise(0), 9000.0 + s, scale)[2] * grid for s in (np.zeros(5), np.full(5, charge))]
    assert shifted[1] - shifted[0] >= 0.999 * charge


# ---------------------------------------------------------------------------------------- private sharing ADMM

RIDGE = 0.5
SPLIT = {"a": [0], "b": [1]}


def admm(n: int, k: int, radius: float, norm: float = 1.0, unit: Any = None, ridge: float = RIDGE):
    bounds = {"row_norm": {"a": norm, "b": 1.0}, "label_bound": Y, "feature_bound": B}
    job = job_of(co.Problem(co.LeastSquares(), penalty=co.Ridge(ridge)), n, k, SPLIT, "a", unit, **bounds)
    return job, co.PrivateSharingADMM(rounds=2, radius=radius)


def row_charges(n: int, k: int, C: float, c: float, reach: float, ridge: float = RIDGE) -> tuple[float, float]:
    """√((2Cc)² + G²/(λq)) and min(2c, 2G/λ), with q = 1/n and G = qC(Cc + reach); times k."""
    q = 1.0 / n
    G = q * C * (C * c + reach)
    return k * math.hypot(2 * C * c, G / math.sqrt(ridge * q)), k * min(2 * c, 2 * G / ridge)


@UNITS
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
def test_predictions_of_private_sharing_admm_move_as_charged_by_the_rows_that_stay(form, k):
    """Other rows weigh as much as the ridge, S = λ·n of them: there their predictions move by G/√(λq)."""
    n, reach = 200, 2 * Y
    c = 1.05 * k * reach / n / (2 * RIDGE)
    job, method = admm(n, k, c)
    X, w = np.zeros((n, 1)), np.zeros(n)
    X[:k], X[k : 100 + k], w[:k] = 1.0, 1.0, reach
    other = X.copy()
    other[:k] = -1.0
    y, flipped = np.full(n, Y), np.full(n, Y)
    flipped[:k] = -Y
    labels, prediction, _ = moves(
        method, job, "a", [(form(X), y), (form(other), flipped)], [SendNoisyLabels(), Couple(w), SendNoisyModel(w)]
    )
    judge(labels, 2.0 * Y * math.sqrt(k))
    judge(prediction, row_charges(n, k, 1.0, c, reach)[0])


def test_predictions_of_private_sharing_admm_move_as_charged_by_the_row_that_is_replaced():
    """Many rows pull x to the edge of a small ball: the row that turns round moves its own prediction by 2Cc."""
    n, c, ridge = 4000, 0.01, 100.0
    job, method = admm(n, 1, c, ridge=ridge)
    X, w = np.ones((n, 1)), np.full(n, -2 * Y)
    other = X.copy()
    other[0] = -1.0
    _, prediction, model = moves(
        method, job, "a", [(X, np.ones(n)), (other, np.ones(n))], [SendNoisyLabels(), Couple(w), SendNoisyModel(w)]
    )
    by_hand = row_charges(n, 1, 1.0, c, 2 * Y, ridge)
    judge(prediction, by_hand[0])
    assert model[0] <= by_hand[1]


@UNITS
def test_coefficients_of_private_sharing_admm_move_as_charged(k):
    """Rows that stand alone against the ridge: 2G/λ each; or a ball so small that 2c is all there is."""
    n, reach = 400, 2 * Y
    X, w = np.zeros((n, 1)), np.zeros(n)
    X[:k], w[:k] = 1.0, reach
    for c in (1.05 * k * reach / n / RIDGE, 1e-4):
        job, method = admm(n, k, c)
        *_, model = moves(method, job, "a", [(X, np.ones(n)), (-X, np.ones(n))], [SendNoisyLabels(), SendNoisyModel(w)])
        by_hand = row_charges(n, k, 1.0, c, reach)[1]
        # A ball is left once, however many rows a person has: its charge is k·2c, and 2c of that is reached.
        judge(model, by_hand, nearly=0.9 if c > 1e-3 else 0.999 / k)


@UNITS
def test_no_neighbour_moves_private_sharing_admm_further_than_by_hand(k):
    rng, n = np.random.default_rng(1), 12
    for trial in range(25):
        c, C = float(rng.choice([0.05, 1.0])), float(rng.choice([0.5, 1.0]))
        job, method = admm(n, k, c, C)
        X, y = rng.normal(size=(n, 1)), rng.choice([-9.0, 1.0, Y], n)
        other, others = X.copy(), y.copy()
        other[:k], others[:k] = rng.choice([-9.0, 9.0, 0.0, 1.0], (k, 1)), -y[:k]
        w = rng.normal(size=(2, n)) * rng.choice([0.1, 10.0])
        found = moves(
            method, job, "a", [(X, y), (other, others)], [SendNoisyLabels(), Couple(w[0]), SendNoisyModel(w[1])]
        )
        assert found[0][0] <= 2.0 * Y * math.sqrt(k)
        assert found[1][0] <= row_charges(n, k, C, c, min(np.abs(w[0]).max(), 2 * Y))[0] * (1 + 1e-9), trial
        seen = np.random.default_rng(0)  # the script of the gate: labels, then a prediction
        seen.normal(size=n)
        residual = np.clip(w[1] - seen.normal(size=n), -2 * Y, 2 * Y)
        assert found[2][0] <= row_charges(n, k, C, c, np.abs(residual).max())[1] * (1 + 1e-9), trial


def test_a_column_of_private_sharing_admm_moves_predictions_and_coefficients_as_charged():
    """Δ = ‖v‖κ²/(λ + qκ²) and ‖v‖/√(λq), v = q·r, κ = B√n: reached by a column along r in place of one across, or turned."""
    n = 16
    job, method = admm(n, 1, 1.0, unit=COLUMN)
    q, kappa2 = 1.0 / n, B**2 * n
    w = np.tile([1.0, -1.0], n // 2)
    v = q * math.sqrt(n)
    along, across = B * w[:, None], np.full((n, 1), B)
    _, prediction, _ = moves(
        method, job, "a", [(along, w), (across, w)], [SendNoisyLabels(), Couple(w), SendNoisyModel(np.zeros(n))]
    )
    judge(prediction, v * kappa2 / (RIDGE + q * kappa2))
    steep = min(B, math.sqrt(RIDGE / q / n)) * w[:, None]
    (_, model) = moves(method, job, "a", [(steep, w), (-steep, w)], [SendNoisyLabels(), SendNoisyModel(w)])
    # The steepest column would have entries of √λ = 0.71, beyond B = 0.5: 2·(B/(λ + B²))·‖v‖·√n of ‖v‖·√(n/λ) is reached.
    judge(model, v / math.sqrt(RIDGE * q), nearly=0.99 * 2 * B * math.sqrt(RIDGE) / (RIDGE + B**2))


# ---------------------------------------------------------------------------------------- Private Gram, nobody trusted


def gram_job(n: int, k: int, columns: dict[str, list[int]], C: float = 1.0, **more: Any):
    bounds = {"row_norm": dict.fromkeys(columns, C), "label_bound": Y, **more}
    return job_of(co.Problem(co.LeastSquares(), penalty=co.Ridge(1.0)), n, k, columns, "a", **bounds)


def squares(C: float, step: float) -> int:
    """N: the most that the squares of a row of length C may sum to, in steps."""
    return math.floor((C / step) ** 2 * (1 + 1e-9))


@UNITS
@pytest.mark.parametrize("form", [np.asarray, sparse.csc_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("parties", [2, 4])
def test_labels_and_own_products_move_as_charged(parties, form, k):
    """Labels 2·Y·k, of which 1/√k is reached; products √2(N + c² + τ²)·k, by rows [a, c, τ] and [a′, c, τ] at right angles."""
    n, columns = 12, {name: [2 * i, 2 * i + 1] for i, name in enumerate("abcd"[:parties])}
    job, method = gram_job(n, k, columns), co.PrivateGram(cross="none")
    local = Local(RunPlan.of(job, method))
    (c, tau), step = local.beside("a"), local.figures.step
    N = squares(1.0, step)
    turn = -(c**2 + tau**2) / N  # a·a′ = −(c² + τ²)
    X = np.zeros((n, 2))
    other = X.copy()
    X[:k], other[:k] = [1.0, 0.0], [turn, math.sqrt(1 - turn**2)]
    y, turned = np.full(n, Y), np.full(n, Y)
    turned[:k] = -Y
    tables = [(form(X), y), (form(other), turned)]
    labels, products = moves(method, job, "a", tables, [SendLabels(), Products(1e9 * y)])
    judge(labels, 2.0 * Y * k, nearly=0.999 / math.sqrt(k))
    judge(products, math.sqrt(2) * (N + c**2 + tau**2) * k)
    assert products[2].weights == pytest.approx((1.0, HALF, HALF, HALF), rel=1e-9)


# ---------------------------------------------------------------------------------------- Private Gram, on masked numbers


@dataclass(frozen=True)
class Split:
    """Parties with columns a, b, … of length at most 1, nonnegative by their schemas or of either sign without them."""

    parties: int
    positive: bool
    k: int
    width: int = 2

    def federation(self, X: np.ndarray, y: np.ndarray) -> co.Federation:
        names, n = "pqrs"[: self.parties], len(X)
        split = {p: list(range(self.width * i, self.width * (i + 1))) for i, p in enumerate(names)}
        people = np.arange(n) // self.k
        if not self.positive:
            unit = (people, self.k) if self.k > 1 else None
            return co.Federation.split(X, y, parties=split, label="p", unit=unit)
        frames = {
            p: pl.DataFrame({"key": np.arange(n), **{f"c{j}": X[:, j] for j in columns}})
            for p, columns in split.items()
        }
        frames["p"] = frames["p"].with_columns(pl.Series("y", y), pl.Series("person", people))
        schemas = {
            p: co.Schema(tuple(co.Numeric(f"c{j}", 0.0, 1.0, scale=False) for j in columns))
            for p, columns in split.items()
        }
        unit = ("person", self.k) if self.k > 1 else None
        return co.Federation.from_frames(frames, on="key", label=("p", "y"), schemas=schemas, unit=unit)

    trust: str = "secure"

    def run(
        self, X: np.ndarray, y: np.ndarray, method: Any, epsilon: float, monkeypatch: Any, loss: Any, frame: Any = None
    ) -> Any:
        """A run without noise; `told` has the weights and the charge that each gate was given, by node and release.

        Where class sums come first, what follows from them (centres, scales) is part of the past: the frame that is given, and
        without one rows stay as they are.
        """
        norms = dict.fromkeys("pqrs"[: self.parties], 1.0)
        privacy = co.Privacy(epsilon, 1e-6, trust=self.trust, row_norm=norms, label_bound=1.0)
        integers, the_rest, told = Gate.integers, Gate.the_rest, dict[str, list[tuple[tuple[Any, ...], float]]]()

        def spy(gate: Gate, exact: Any, weights: Any, masks: Any, **more: Any) -> Any:
            told.setdefault(gate.node, []).append((tuple(weights), exact.sensitivity))
            return integers(gate, exact, weights, masks, **more)

        def spy_rest(gate: Gate, exact: Any, weights: Any, masks: Any) -> Any:
            before, sensitivity = told[gate.node][-1]
            assert exact.sensitivity == sensitivity
            told[gate.node][-1] = ((*before, *weights), sensitivity)  # one mechanism
            return the_rest(gate, exact, weights, masks)

        with monkeypatch.context() as patch:
            patch.setattr(Gate, "integers", spy)
            patch.setattr(Gate, "the_rest", spy_rest)
            patch.setattr(gram_runs, "prepare", lambda rule, columns, *_: (rule, frame or whole_frame(columns)))
            seen = gram_runs.silent_run(self.federation(X, y), method, privacy, monkeypatch, loss=loss)
        seen.told = told
        return seen


def weighed(one: Any, two: Any, weights: list[Any]) -> float:
    assert len(one.parts) == len(two.parts) == len(weights)
    pairs = zip(one.parts, two.parts, weights, strict=True)
    return math.sqrt(sum(float((((a - b) / w).astype(float) ** 2).sum()) for (a, _), (b, _), w in pairs))


def compared(
    split: Split,
    tables: Any,
    method: Any,
    epsilon: float,
    monkeypatch: Any,
    name: str,
    loss: Any = None,
    frame: Any = None,
) -> Any:
    """The two releases of that name, its figures, and what each gate was told of it."""
    runs = [split.run(X, y, method, epsilon, monkeypatch, loss or co.Logistic(), frame) for X, y in tables]
    at = [figures.name for figures in runs[0].figures].index(name)
    told = {node: calls[at] for node, calls in runs[0].told.items()}
    return runs[0].releases[at], runs[1].releases[at], runs[0].figures[at], told


def agree(told: tuple[Any, ...], by_hand: list[Any]) -> None:
    """Noise is never less than by hand, and no more than rounding makes it."""
    assert len(told) == len(by_hand)
    for one, other in zip(told, by_hand, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
        assert (np.asarray(one) >= np.asarray(other) * (1 - 1e-15)).all()


def noised(
    told: Any, split: Split, charge: float, own: list[float], cross: float, holder: list[float] | None = None
) -> None:
    """Every gate adds the noise that the charge asks for, in the weights by hand: its own parts, then a part with each partner."""
    for node, (weights, charged) in told.items():
        assert charged == pytest.approx(charge, rel=TIGHT)
        if node == COORDINATOR:
            continue
        mine = holder if holder is not None and node == "p" else own
        partners = split.parties - 1 if holder is None or node == "p" else 1
        agree(weights, [*mine, *[cross] * partners * (cross > 0)])


@dataclass(frozen=True)
class GramWeights:
    """Of the joint release, by hand: columns i and j in units f have noise 1/f² on the diagonal, 1/(√2·f_i·f_j) off it, 1/(√2·f)
    beside the constant. The label is with the first party, behind its columns; its unit is τ for classes, whose squares are public.
    """

    parties: int
    width: int
    unit: float  # of the label
    sent: bool  # whether the label's square is

    def units(self, party: int) -> np.ndarray:
        return np.array([1.0] * self.width + [self.unit] * (party == 0))

    def own(self, party: int) -> list[np.ndarray]:
        f = self.units(party)
        i, j = np.triu_indices(f.size, 1)
        return [1.0 / f[: f.size - (party == 0 and not self.sent)] ** 2, HALF / (f[i] * f[j]), HALF / f]

    def cross(self, one: int, other: int) -> np.ndarray:
        return HALF / np.outer(self.units(one), self.units(other))

    def all(self) -> list[np.ndarray]:
        every = range(self.parties)
        own = [part for party in every for part in self.own(party)]
        return own + [self.cross(i, j) for i in every for j in every if i < j]

    def noised(self, told: Any, charge: float) -> None:
        every = range(self.parties)
        for node, (weights, charged) in told.items():
            assert charged == pytest.approx(charge, rel=TIGHT)
            if node == COORDINATOR:  # inside a consortium the noise is added there, once: squares first
                squares = [self.own(party)[0] for party in every]
                agree(
                    weights, squares + [part for p in every for part in self.own(p)[1:]] + self.all()[3 * len(every) :]
                )
                continue
            me = "pqrs".index(node)
            agree(weights, self.own(me) + [self.cross(*sorted((me, other))) for other in every if other != me])


SPLITS = pytest.mark.parametrize(
    "split",
    [
        Split(2, False, 1),
        Split(3, False, 3),
        Split(4, True, 1),
        Split(2, True, 3),
        Split(2, True, 1, trust="consortium"),
    ],
    ids=["2 parties, row", "3 parties, person", "4 nonnegative, row", "2 nonnegative, person", "consortium"],
)
RAW, SUMS = 400.0, 2.0  # epsilons: rows as they are, and class sums first


@SPLITS
@pytest.mark.parametrize("loss", [co.Logistic(), co.LeastSquares()], ids=["classes", "numbers"])
def test_the_joint_release_moves_as_charged(split, loss, monkeypatch):
    """Δ = √2(ΣN_k + c² + τ²)·k, weights 1 on the diagonal and 1/√2 off it, less in units: z = [a, c, τy] and z′ at right angles.

    z·z′ = a·a′ + c² − τ² is 0 for a suitable angle between a and a′; where no entry is negative and c² > τ² that is out of reach.
    """
    k, parties, n = split.k, split.parties, 12
    X, y = np.zeros((n, parties * split.width)), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    _, _, figures, _ = compared(split, [(X, y), (X, y)], co.PrivateGram(), RAW, monkeypatch, "joint", loss)
    N = squares(1.0, figures.step)
    c, tau = figures.constant, figures.label
    cosine = (tau**2 - c**2) / (parties * N)
    angle = math.acos(max(cosine, 0.0) if split.positive else cosine)
    X[:k] = np.tile([1.0, 0.0], parties)
    other, others = X.copy(), y.copy()
    other[:k], others[:k] = np.tile([math.cos(angle), math.sin(angle)], parties), -1.0
    one, two, _, told = compared(split, [(X, y), (other, others)], co.PrivateGram(), RAW, monkeypatch, "joint", loss)
    weights = gram_weights(split, loss, tau)
    charge = math.sqrt(2) * (parties * N + c**2 + tau**2) * k
    judge((weighed(one, two, weights.all()), one.sensitivity, None), charge)
    weights.noised(told, charge)
    assert (COORDINATOR in told) == (split.trust == "consortium")


def gram_weights(split: Split, loss: Any, tau: int) -> GramWeights:
    return GramWeights(split.parties, split.width, tau if loss.classifies else 1.0, not loss.classifies)


def sums_charge(split: Split, step: float, P: int) -> float:
    """√(Σ(2 or 4)P²N + (P/s)² + Σe²N(sP)²/2)·k, e = ⌈1/s⌉ the largest entry."""
    N = squares(1.0, step)
    each = (2.0 if split.positive else 4.0) * P**2 * N + math.ceil(1.0 / step) ** 2 * N * (step * P) ** 2 / 2.0
    return math.sqrt(split.parties * each + (P / step) ** 2) * split.k


def sums_weights(split: Split, step: float, P: int, alone: bool) -> list[float]:
    own = [2.0 / (step * P), 1.0]
    if alone:
        return own * split.parties
    return [*own, step] + [2.0 / (step * P)] * (split.parties - 1) + [1.0] * (split.parties - 1)


@SPLITS
@pytest.mark.parametrize(("loss", "P"), [(co.Logistic(), 1), (co.LeastSquares(), 64)], ids=["classes", "numbers"])
def test_class_sums_move_as_charged(split, loss, P, monkeypatch):
    """Nonnegative rows e_1 of one class and e_2 of the other reach all of it: sums, size and squares move together.

    Where entries have either sign the sums are charged 4P²N, for a row that turns round and keeps its label; then size and squares
    stay. 4K of 4K + 1 + K/2 is reached, with K parties.
    """
    k, parties, n = split.k, split.parties, 12
    X, y = np.zeros((n, parties * 2)), np.ones(n)
    X[:k] = np.tile([1.0, 0.0], parties)
    other, others = X.copy(), y.copy()
    if split.positive:
        other[:k], others[:k] = np.tile([0.0, 1.0], parties), -1.0
    else:
        other[:k] = -X[:k]
    one, two, figures, told = compared(
        split, [(X, y), (other, others)], co.PrivateGram(), SUMS, monkeypatch, "sums", loss
    )
    moved = weighed(one, two, sums_weights(split, figures.step, P, False))
    nearly = 0.97 if split.positive else 0.97 * math.sqrt(4 * parties / (4.5 * parties + 1))
    charge, square = sums_charge(split, figures.step, P), 2.0 / (figures.step * P)
    judge((moved, one.sensitivity, None), charge, nearly)
    noised(told, split, charge, [square], 1.0, holder=[square, 1.0, figures.step])


@SPLITS
@pytest.mark.parametrize("loss", [co.Logistic(), co.LeastSquares()], ids=["classes", "numbers"])
def test_the_joint_release_of_scaled_rows_after_class_sums_moves_as_charged(split, loss, monkeypatch):
    """Δ = √2(ΣN_k + c² + τ²)·k, N of the frame's length C and not of the rows' own: z = [(a − m)·s, c, τy] and z′ at right angles.

    Two columns a party, centres m = (¼, ½) and scales s = (3, ½), cut to C = ¼: a = m + C·(cos, sin)/s lies within [0, 1],
    and one that is thrice as far from m is cut to the same row.
    """
    k, parties, n, C = split.k, split.parties, 12, 0.25
    centre, scale = np.array([0.25, 0.5]), np.array([3.0, 0.5])
    every = 2 * parties
    told_frame = RowFrame(
        np.arange(every), np.tile(centre, parties), np.tile(scale, parties), np.full(parties, C), np.full(every, np.inf)
    )

    def row(angle: float) -> np.ndarray:
        return np.tile(centre + C * np.array([math.cos(angle), math.sin(angle)]) / scale, parties)

    X, y = np.tile(centre, (n, parties)), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    tables = [(X, y), (X, y)]
    _, _, figures, _ = compared(split, tables, co.PrivateGram(), SUMS, monkeypatch, "joint", loss, told_frame)
    N, c, tau = squares(C, figures.step), figures.constant, figures.label
    angle = math.acos((tau**2 - c**2) / (parties * N))
    X[:k], other, others = row(0.0), X.copy(), y.copy()
    X[:k, ::2] += 2 * C / scale[0]  # thrice as far, and cut
    other[:k], others[:k] = row(angle), -1.0
    tables = [(X, y), (other, others)]
    one, two, _, told = compared(split, tables, co.PrivateGram(), SUMS, monkeypatch, "joint", loss, told_frame)
    weights = gram_weights(split, loss, tau)
    charge = math.sqrt(2) * (parties * N + c**2 + tau**2) * k
    judge((weighed(one, two, weights.all()), one.sensitivity, None), charge)
    weights.noised(told, charge)


@pytest.mark.parametrize(
    "split", [Split(4, True, 1), Split(2, False, 3)], ids=["4 nonnegative, row", "2 parties, person"]
)
def test_class_sums_by_released_labels_move_as_charged(split, monkeypatch):
    """The class size is charged though nothing is sent for it: 2K + K/2 of 2K + 1 + K/2 is reached by nonnegative rows."""
    k, parties, n, P = split.k, split.parties, 12, 64
    X, y = np.zeros((n, parties * 2)), np.ones(n)
    X[:k] = np.tile([1.0, 0.0], parties)
    other = X.copy()
    other[:k] = np.tile([0.0, 1.0], parties) if split.positive else -X[:k]
    method = co.PrivateGram(labels="released")
    one, two, figures, told = compared(split, [(X, y), (other, y)], method, SUMS, monkeypatch, "sums")
    moved = weighed(one, two, sums_weights(split, figures.step, P, True))
    reached = (2.5 * parties) / (2.5 * parties + 1) if split.positive else 4 * parties / (4.5 * parties + 1)
    judge((moved, one.sensitivity, None), sums_charge(split, figures.step, P), 0.97 * math.sqrt(reached))
    noised(told, split, sums_charge(split, figures.step, P), [2.0 / (figures.step * P), 1.0], 0.0)


@pytest.mark.parametrize(("parties", "positive"), [(2, False), (2, True), (4, False), (4, True)])
def test_no_neighbour_of_a_secure_run_moves_further_than_by_hand(parties, positive, monkeypatch):
    """Random rows at and beyond their bounds, sparse ones among them."""
    rng, n = np.random.default_rng(parties), 8
    split = Split(parties, positive, 1)
    for epsilon, name in ((RAW, "joint"), (SUMS, "sums")):
        X, y = rng.uniform(0 if positive else -1, 1, (n, parties * 2)), rng.choice([-1.0, 1.0], n)
        other, others = X.copy(), y.copy()
        other[3], others[3] = rng.choice([0.0, 1.0] if positive else [-5.0, 0.0, 0.3, 5.0], parties * 2), -y[3]
        one, two, figures, _ = compared(split, [(X, y), (other, others)], co.PrivateGram(), epsilon, monkeypatch, name)
        if name == "joint":
            weights = gram_weights(split, co.Logistic(), figures.label).all()
            charge = math.sqrt(2) * (parties * squares(1.0, figures.step) + figures.constant**2 + figures.label**2)
        else:
            weights, charge = sums_weights(split, figures.step, 1, False), sums_charge(split, figures.step, 1)
        assert weighed(one, two, weights) <= charge


def test_the_party_of_a_neighbour_counts_every_row_of_a_person():
    """A unit of k rows is charged k times what a row is, wherever a charge is made (labels of ADMM: √k times)."""
    for k, factor in ((1, 1.0), (3, math.sqrt(3))):
        job, method = admm(12, k, 0.1)
        gate = handed(method, job, block_of(job, "a", np.zeros((12, 1)), np.ones(12)), "a", [SendNoisyLabels()])
        assert gate[0].sensitivity == pytest.approx(2 * Y * factor)
        assert replace(job.roster.unit).rows == k
