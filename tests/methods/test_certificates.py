"""Certificates far from the optimum: after 1, 3 and 10 rounds a gap bounds the true distance.

The optimum comes from another solver; objective and gap are worked out here from the model that the run gave, with
losses, gradients and conjugates written by hand. A bound alone would not see a gap that is too large, and Frank-Wolfe's
is often so loose that half of it would bound as well: so the figure itself is compared too.
"""

from __future__ import annotations

import math
from itertools import cycle, product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import colonnade as co
from colonnade.methods.admm.sharing import SharingDual
from colonnade.methods.graph.dual import DualPoint
from colonnade.runtime.wire import decode
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROUNDS = (1, 3, 10)
N, D = 24, 8
GROUPS = ((0, 1), (2,), (3, 4, 5), (6, 7))
LOSSES = {
    "least squares": co.LeastSquares(),
    "logistic": co.Logistic(),
    "squared hinge": co.SquaredHinge(),
    "huber": co.Huber(0.4),
}
SHARP = {"absolute": co.Absolute(), "quantile": co.Quantile(0.3)}


def table(seed: int, loss: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * rng.uniform(0.5, 2.0, D)
    y = X @ rng.normal(size=D) + 0.5 * rng.normal(size=N)
    return X, (np.where(y > np.median(y), 1.0, -1.0) if loss.classifies else y)


def joined(fit: co.Fit, fed: co.Federation) -> np.ndarray:
    first = next(iter(fit.coefficients.values()))
    x = np.zeros((D, *first.shape[1:]))
    for party, own in fit.coefficients.items():
        x[fed.parties[party].block.positions] = own
    return x


# ---------------------------------------------------------------- losses, written by hand


def rows_of(loss: Any, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of every row."""
    r, m = s - y, s * y
    match loss:
        case co.LeastSquares():
            return r**2 / 2
        case co.Logistic():
            return np.log1p(np.exp(-m))
        case co.SquaredHinge():
            return np.maximum(0.0, 1 - m) ** 2 / 2
        case co.Huber(d):
            return np.where(np.abs(r) <= d, r**2 / 2, d * np.abs(r) - d**2 / 2)
        case co.Absolute():
            return np.abs(r)
        case co.Quantile(q):
            return np.where(r < 0, -q * r, (1 - q) * r)
    raise AssertionError(loss)


def slope_of(loss: Any, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The slope of the mean loss in every score, by central differences of each row: no formula to copy a mistake
    from."""
    h = 1e-6
    return (rows_of(loss, s + h, y) - rows_of(loss, s - h, y)) / (2 * h * len(y))


def conjugate_of(loss: Any, u: np.ndarray, y: np.ndarray) -> float:
    """sup <u, s> − mean loss: row by row, n·u·s − loss(s) at its highest over a fine grid, or in closed form."""
    w, n = len(y) * u, len(y)
    match loss:
        case co.LeastSquares() | co.Huber():
            values = w * y + w**2 / 2
        case co.Logistic():
            p = np.clip(-w * y, 1e-300, 1 - 1e-16)
            values = p * np.log(p) + (1 - p) * np.log1p(-p)
        case co.SquaredHinge():
            p = -w * y
            values = p**2 / 2 - p
        case co.Absolute() | co.Quantile():
            values = w * y
    return float(np.sum(values)) / n


def convex(loss: Any, scores: Any, y: np.ndarray) -> Any:
    match loss:
        case co.LeastSquares():
            rows = cp.square(scores - y) / 2
        case co.Logistic():
            rows = cp.logistic(-cp.multiply(y, scores))
        case co.SquaredHinge():
            rows = cp.square(cp.pos(1 - cp.multiply(y, scores))) / 2
        case co.Huber(d):
            rows = cp.huber(scores - y, d) / 2
        case co.Absolute():
            rows = cp.abs(scores - y)
        case co.Quantile(q):
            rows = cp.maximum(q * (y - scores), (q - 1) * (y - scores))
    return cp.sum(rows) / len(y)


def optimum(loss: Any, X: np.ndarray, y: np.ndarray, intercept: bool, limits: Any = None, penalty: Any = None) -> float:
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    value = convex(loss, X @ x + (b if intercept else 0.0), y) + (penalty(x) if penalty else 0.0)
    return confident(cp.Problem(cp.Minimize(value), limits(x) if limits else []))


def check_bound(fit: co.Fit, objective: float, best: float) -> None:
    """The figure of the objective is the model's, and the gap bounds its distance."""
    room = 1e-6 * max(1.0, abs(best))  # the other solver's accuracy
    assert fit.objective == pytest.approx(objective, rel=1e-9, abs=1e-12)
    assert -room <= objective - best <= fit.gap + room


def check_history(fit: co.Fit, before: dict[int, co.Fit]) -> None:
    """The line of a round holds the figures of the model that this round began with: those of a shorter run's end."""
    for rounds, shorter in before.items():
        if rounds < len(fit.notes):
            note = fit.notes[rounds]
            assert (note["objective"], note["gap"]) == pytest.approx((shorter.objective, shorter.gap), rel=1e-9)


# ---------------------------------------------------------------- Frank-Wolfe over the usual sets

SETS = {"ball": co.L1Ball(1.7), "simplex": co.Simplex(1.3), "groups": co.GroupL1Ball(1.6, GROUPS)}
LIMITS = {
    "ball": lambda x: [cp.norm1(x) <= 1.7],
    "simplex": lambda x: [x >= 0, cp.sum(x) == 1.3],
    "groups": lambda x: [sum(cp.norm(x[list(g)]) for g in GROUPS) <= 1.6],
}


def lowest(name: str, g: np.ndarray) -> float:
    """The least <s, g> over the set: over its vertices, one by one."""
    if name == "ball":
        return min(sign * 1.7 * value for value in g for sign in (-1, 1))
    if name == "simplex":
        return min(1.3 * value for value in g)
    return min(-1.6 * math.sqrt(sum(g[j] ** 2 for j in group)) for group in GROUPS)


WAYS = cycle(
    product([None, co.Topology.tree(4), co.Topology.ring(4)], [co.Corrective(), co.LineSearch(), co.OpenLoop()])
)
CASES = [
    pytest.param(loss, name, seed % 2 == 1, way, seed, id=f"{loss}, {name}, {type(way[1]).__name__}{seed}")
    for seed, ((loss, name), way) in enumerate(zip(product(LOSSES, SETS), WAYS, strict=False))
]


@pytest.mark.parametrize(("loss", "name", "intercept", "way", "seed"), CASES)
def test_the_gap_of_frank_wolfe_holds_in_every_round(loss, name, intercept, way, seed):
    kind, (topology, step) = LOSSES[loss], way
    X, y = table(seed, kind)
    fed = co.Federation.split(X, y, parties=3)
    best = optimum(kind, X, y, intercept, LIMITS[name])
    fits = {}
    for rounds in ROUNDS:
        method = co.DistributedFrankWolfe(rounds, 0.0, step, topology=topology)
        fits[rounds] = fit = co.fit(fed, co.Problem(kind, SETS[name], intercept=intercept), method)
        x = joined(fit, fed)
        scores = X @ x + fit.intercept
        check_bound(fit, float(rows_of(kind, scores, y).mean()), best)
        gradient = X.T @ slope_of(kind, scores, y)
        assert fit.gap == pytest.approx(x @ gradient - lowest(name, gradient), rel=1e-4, abs=1e-6)  # of the differences
        assert SETS[name].contains(x)
    check_history(fits[10], fits)


BOXES = {
    "columns": (co.Product(co.L1Ball(0.4), "columns"), [(j,) for j in range(D)], lambda part: [cp.norm1(part) <= 0.4]),
    "groups": (co.Product(co.L1Ball(0.8), GROUPS), GROUPS, lambda part: [cp.norm1(part) <= 0.8]),
    "simplices": (co.Product(co.Simplex(0.7), GROUPS), GROUPS, lambda part: [part >= 0, cp.sum(part) == 0.7]),
}
SAMPLINGS = (co.PerParty(1), co.Nice(2), co.Independent(0.5))


@pytest.mark.chance(0, "the gap of the last model is worked out from that model: it holds for any blocks drawn")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize("loss", ["least squares", "logistic", "squared hinge"])
@pytest.mark.parametrize("box", BOXES)
def test_the_gap_of_block_frank_wolfe_holds_in_every_round_whatever_is_drawn(loss, box):
    kind, (constraint, blocks, limits) = LOSSES[loss], BOXES[box]
    X, y = table(7, kind)
    fed = co.Federation.split(X, y, {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]})
    best = optimum(kind, X, y, False, lambda x: [one for block in blocks for one in limits(x[list(block)])])
    for rounds, sampling in product(ROUNDS, SAMPLINGS):
        method = co.BlockFrankWolfe(sampling, rounds=rounds, tolerance=0.0)
        fit = co.fit(fed, co.Problem(kind, constraint), method)
        x = joined(fit, fed)
        check_bound(fit, float(rows_of(kind, X @ x, y).mean()), best)
        gradient, radius = X.T @ slope_of(kind, X @ x, y), constraint.each.radius
        signs = (1.0,) if isinstance(constraint.each, co.Simplex) else (1.0, -1.0)
        least = sum(min(sign * radius * gradient[j] for j in block for sign in signs) for block in blocks)
        assert fit.gap == pytest.approx(x @ gradient - least, rel=1e-4, abs=1e-6)


# ---------------------------------------------------------------- examples and stumps


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("topology", [None, co.Topology.tree(3), co.Topology.ring(3)], ids=["star", "tree", "ring"])
@pytest.mark.parametrize("step", [co.Corrective(), co.LineSearch(), co.OpenLoop()], ids=lambda s: type(s).__name__)
def test_the_gap_of_a_kernel_machine_holds_in_every_round(topology, step):
    X, y = table(3, co.Logistic())
    fed = co.Federation.split(X, y, parties=3, by="rows")
    K = np.outer(y, y) * (rbf_kernel(X, X, gamma=0.3) + 1.0) + np.eye(N) / 5.0
    a = cp.Variable(N, nonneg=True)
    best = confident(cp.Problem(cp.Minimize(cp.quad_form(a, cp.psd_wrap(K))), [cp.sum(a) == 1]))
    fits = {}
    for rounds in ROUNDS:
        method = co.DistributedFrankWolfe(rounds, 0.0, step, topology=topology)
        fits[rounds] = fit = co.fit(fed, co.KernelSVM(co.RBF(0.3), 5.0), method)
        alpha = np.zeros(N)
        for party, own in fit.coefficients.items():
            alpha[fed.places[party]] = own
        check_bound(fit, float(alpha @ K @ alpha), best)
        assert fit.gap == pytest.approx(2 * (alpha @ K @ alpha - min(K @ alpha)), rel=1e-7, abs=1e-10)
    check_history(fits[10], {rounds: fit for rounds, fit in fits.items() if rounds > 1})


@pytest.mark.parametrize("topology", [None, co.Topology.line(4)], ids=["star", "line"])
@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_the_gap_of_boosting_holds_in_every_round(topology, temperature):
    X, y = table(4, co.Logistic())
    fed = co.Federation.split(X, y, parties=3)
    stumps = []
    for values in X.T:
        levels = np.unique(values)
        for threshold in [-np.inf, *((levels[1:] + levels[:-1]) / 2)]:
            stumps += [np.where(values > threshold, 1.0, -1.0), np.where(values > threshold, -1.0, 1.0)]
    H = np.array(stumps).T
    a = cp.Variable(H.shape[1], nonneg=True)
    value = cp.log_sum_exp(-cp.multiply(y, H @ a) / temperature) - np.log(N)
    best = confident(cp.Problem(cp.Minimize(value), [cp.sum(a) == 1]))
    for rounds in ROUNDS:
        method = co.DistributedFrankWolfe(rounds, 0.0, topology=topology)
        fit = co.fit(fed, co.AdaBoost(temperature), method)
        margins = y * fit.scores(fed) / temperature
        check_bound(fit, math.log(np.exp(-margins).sum()) - math.log(N), best)
        gradient = -y * np.exp(-margins) / np.exp(-margins).sum() / temperature
        assert fit.gap == pytest.approx(fit.scores(fed) @ gradient - min(H.T @ gradient), rel=1e-7, abs=1e-9)


# ---------------------------------------------------------------- penalties, by their duals

PENALTIES = {
    "ridge": (co.Ridge(0.2), lambda x: 0.1 * cp.sum_squares(x)),
    "lasso": (co.Lasso(0.07), lambda x: 0.07 * cp.norm1(x)),
    "elastic net": (co.ElasticNet(0.05, 0.1), lambda x: 0.05 * cp.norm1(x) + 0.05 * cp.sum_squares(x)),
    "groups": (
        co.GroupLasso(0.06, GROUPS),
        lambda x: 0.06 * sum(math.sqrt(len(g)) * cp.norm(x[list(g)]) for g in GROUPS),
    ),
}


def penalty_of(name: str, x: np.ndarray) -> float:
    return {
        "ridge": lambda: 0.1 * np.sum(x**2),
        "lasso": lambda: 0.07 * np.abs(x).sum(),
        "elastic net": lambda: 0.05 * np.abs(x).sum() + 0.05 * np.sum(x**2),
        "groups": lambda: 0.06 * sum(math.sqrt(len(g)) * np.linalg.norm(x[list(g)]) for g in GROUPS),
    }[name]()


def dual_value(loss: Any, name: str, X: np.ndarray, y: np.ndarray, u: np.ndarray) -> float:
    """−loss*(fu) − penalty*(−X'fu), f the largest factor up to 1 at which both are finite: a lower bound of the
    optimum."""
    pull = -X.T @ u
    if name == "lasso":
        return (
            -conjugate_of(loss, min(1.0, 0.07 / np.abs(pull).max()) * u, y) if pull.any() else -conjugate_of(loss, u, y)
        )
    if name == "groups":
        worst = max(np.linalg.norm(pull[list(g)]) / (0.06 * math.sqrt(len(g))) for g in GROUPS)
        return -conjugate_of(loss, min(1.0, 1.0 / worst) * u if worst else u, y)
    over = np.maximum(np.abs(pull) - (0.05 if name == "elastic net" else 0.0), 0.0)
    return -conjugate_of(loss, u, y) - float(np.sum(over**2)) / (0.2 if name == "elastic net" else 0.4)


BLOCKS = {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7]}
PENALISED = [
    pytest.param(loss, name, place % 2 == 1, place, id=f"{loss}, {name}{', intercept' * (place % 2)}")
    for place, (loss, name) in enumerate(product(LOSSES | SHARP, PENALTIES))
]


@pytest.mark.thinned("slow")
@pytest.mark.parametrize(("loss", "name", "intercept", "seed"), PENALISED)
def test_the_gap_of_sharing_admm_is_the_distance_to_the_best_dual_value_so_far(loss, name, intercept, seed):
    kind, (penalty, written) = (LOSSES | SHARP)[loss], PENALTIES[name]
    X, y = table(seed, kind)
    parties = {"a": [0, 1], "b": [2], "c": [3, 4, 5], "d": [6, 7]} if name == "groups" else BLOCKS
    fed = co.Federation.split(X, y, parties)
    best = optimum(kind, X, y, intercept, penalty=written)
    for rounds in ROUNDS:
        tap = co.Tap(co.InProcess())
        problem = co.Problem(kind, penalty=penalty, intercept=intercept)
        fit = co.fit(fed, problem, co.SharingADMM(rounds=rounds, tolerance=0.0), engine=tap)
        x = joined(fit, fed)
        value = float(rows_of(kind, X @ x + fit.intercept, y).mean()) + penalty_of(name, x)
        check_bound(fit, value, best)
        told = [decode(letter.body) for letter in tap.letters if letter.receiver == "a"]
        points = [message.values for message in told if isinstance(message, SharingDual)]
        assert len(points) == rounds
        bound = max(dual_value(kind, name, X, y, point) for point in points)
        assert fit.gap == pytest.approx(value - bound, rel=1e-7, abs=1e-9)
        assert fit.notes[-1]["gap"] == fit.gap


GRAPHS = cycle([co.Topology.line(4), co.Topology.ring(4), co.Topology.star(4)])
ON_GRAPHS = [
    pytest.param(loss, name, place % 2 == 1, graph, place, id=f"{loss}, {name}{', intercept' * (place % 2)}")
    for place, ((loss, name), graph) in enumerate(zip(product(LOSSES | SHARP, PENALTIES), GRAPHS, strict=False))
]


@pytest.mark.thinned("slow")
@pytest.mark.parametrize(("loss", "name", "intercept", "graph", "seed"), ON_GRAPHS)
def test_the_gap_on_a_graph_is_the_distance_to_the_dual_value_that_was_asked_for(loss, name, intercept, graph, seed):
    kind, (penalty, written) = (LOSSES | SHARP)[loss], PENALTIES[name]
    X, y = table(seed, kind)
    parties = {"a": [0, 1], "b": [2, 6, 7], "c": [3, 4, 5]} if name == "groups" else BLOCKS
    fed = co.Federation.split(X, y, parties)
    best = optimum(kind, X, y, intercept, penalty=written)
    methods = [co.GraphADMM] + [co.GraphRidge] * (loss == "least squares" and name == "ridge")
    for method, rounds in product(methods, ROUNDS):
        tap = co.Tap(co.InProcess())
        problem = co.Problem(kind, penalty=penalty, intercept=intercept)
        fit = co.fit(fed, problem, method(graph, rounds=rounds, tolerance=0.0), engine=tap)
        x = joined(fit, fed)
        value = float(rows_of(kind, X @ x + fit.intercept, y).mean()) + penalty_of(name, x)
        check_bound(fit, value, best)
        told = [decode(letter.body) for letter in tap.letters]
        points = [message.point.value for message in told if isinstance(message, DualPoint)]
        assert len(points) == 3  # to every party but the one that holds the labels
        assert fit.gap == pytest.approx(value - dual_value(kind, name, X, y, points[0]), rel=1e-7, abs=1e-9)


def test_the_gap_of_several_responses_holds_on_a_graph():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, D))
    Y = X @ rng.normal(size=(D, 3)) + 0.5 * rng.normal(size=(N, 3))
    fed = co.Federation.split(X, Y, BLOCKS)
    blocks = tuple(tuple(block) for block in BLOCKS.values())
    x = cp.Variable((D, 3))
    norms = sum(cp.normNuc(x[list(block)]) for block in blocks)
    best = confident(cp.Problem(cp.Minimize(cp.sum_squares(X @ x - Y) / (2 * N) + 0.05 * norms)))
    for rounds in ROUNDS:
        problem = co.Problem(co.LeastSquares(), penalty=co.NuclearNorm(0.05, blocks))
        fit = co.fit(fed, problem, co.GraphADMM(co.Topology.line(4), rounds=rounds, tolerance=0.0))
        found = joined(fit, fed)
        sizes = sum(np.linalg.svd(found[list(block)], compute_uv=False).sum() for block in blocks)
        check_bound(fit, float(np.sum((X @ found - Y) ** 2)) / (2 * N) + 0.05 * sizes, best)


# ---------------------------------------------------------------- the estimators


@pytest.mark.filterwarnings("ignore:after .* the gap is")
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize(
    ("method", "loss"),
    [("auto", "least squares"), ("auto", "logistic"), ("auto", "squared hinge"), ("frank-wolfe", "logistic")],
)
def test_the_gap_of_an_estimator_holds_in_every_round(loss, rounds, method):
    kind = LOSSES[loss]
    X, y = table(11, kind)
    told = {"radius": 1.7, "rounds": rounds, "method": method}
    if loss == "least squares":
        model = co.SparseRegressor(**told).fit(X, y)
        x, b = model.coef_, float(model.intercept_)
    else:
        model = co.SparseClassifier(**told, loss=loss.replace(" ", "_")).fit(X, y)
        x, b = model.coef_[0], float(model.intercept_[0])
    scores = X @ x + b
    best = optimum(kind, X, y, method == "auto", LIMITS["ball"])
    value = float(rows_of(kind, scores, y).mean())
    assert value == pytest.approx(model.history_[-1]["objective"], rel=1e-9)
    assert -1e-6 <= value - best <= model.gap_ + 1e-6
    gradient = X.T @ slope_of(kind, scores, y)
    assert model.gap_ == pytest.approx(x @ gradient - lowest("ball", gradient), rel=1e-4, abs=1e-6)
    assert np.abs(x).sum() <= 1.7 * (1 + 1e-12)
