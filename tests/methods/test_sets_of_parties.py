"""Claims about ADMM over sets: each party's coefficients lie in its set, and the optimum is an independent solver's."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import colonnade as co
from colonnade.errors import InvalidInput
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

WIDTHS = (3, 2, 4)  # columns of the three parties
COLUMNS = sum(WIDTHS)
SPANS = [span.tolist() for span in np.split(np.arange(COLUMNS), np.cumsum(WIDTHS)[:-1])]

SETS: dict[str, Any] = {
    "everything": None,
    "box": co.Box(-0.1, 0.25),
    "box without 0": co.Box(0.05, 0.3),
    "box of columns": co.Product(co.L1Ball(0.2), "columns"),
    "x >= 0": co.NonNegative(),
    "ball a party": co.Product(co.L2Ball(0.3), "parties"),
    "l1 ball a party": co.Product(co.L1Ball(0.4), "parties"),
    "simplex a party": co.Product(co.Simplex(0.5), "parties"),
    "balls of groups": co.Product(co.L2Ball(0.2), ((0, 1), (2,), (3, 4), (5, 8), (6, 7))),
}
PENALTIES: dict[str, Any] = {
    "none": None,
    "ridge": co.Ridge(0.05),
    "lasso": co.Lasso(0.02),
    "elastic net": co.ElasticNet(0.02, 0.05),
    "group lasso": co.GroupLasso(0.02, tuple(map(tuple, SPANS))),
}
THRESHOLDS = {"box", "box of columns", "x >= 0", "ball a party", "l1 ball a party", "balls of groups"}
PAIRS = [
    (s, p)
    for s in SETS
    for p in PENALTIES
    if (s == "everything" and p == "none")
    or (s != "everything" and (p in ("none", "ridge") or (p != "group lasso" and s in THRESHOLDS)))
    or (s, p) == ("ball a party", "group lasso")
]
LOSSES: dict[str, Any] = {
    "least squares": co.LeastSquares(),
    "logistic": co.Logistic(),
    "hinge": co.Hinge(),
    "absolute": co.Absolute(),
}


def table(loss: Any, rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS)) + 0.7 * rng.normal(size=(rows, 1))
    y = X @ rng.normal(size=COLUMNS) / 3 + rng.normal(size=rows)
    return X, np.where(y > 0, 1.0, -1.0) if loss.classifies else y


def inside(constraint: Any, x: Any) -> list[Any]:
    """The set, in the words of another solver."""
    match constraint:
        case co.Box(low, high):
            return [x >= low, x <= high]
        case co.NonNegative():
            return [x >= 0]
        case co.Product(each, blocks):
            groups = {"parties": SPANS, "columns": [[j] for j in range(COLUMNS)]}.get(blocks, blocks)
            return [rule for group in groups for rule in inside(each, x[list(group)])]
        case co.L1Ball(radius):
            return [cp.norm1(x) <= radius]
        case co.L2Ball(radius):
            return [cp.norm(x) <= radius]
        case co.Simplex(radius):
            return [x >= 0, cp.sum(x) == radius]
    return []


def optimum(problem: co.Problem, X: np.ndarray, y: np.ndarray) -> float:
    x, b = cp.Variable(COLUMNS), cp.Variable()
    scores = X @ x + b
    loss = {
        co.LeastSquares: lambda: cp.sum_squares(scores - y) / 2,
        co.Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, scores))),
        co.Hinge: lambda: cp.sum(cp.pos(1 - cp.multiply(y, scores))),
        co.Absolute: lambda: cp.norm1(scores - y),
    }[type(problem.loss)]()
    cost = {
        type(None): lambda: 0,
        co.Ridge: lambda: problem.penalty.a / 2 * cp.sum_squares(x),
        co.Lasso: lambda: problem.penalty.a * cp.norm1(x),
        co.ElasticNet: lambda: problem.penalty.l1 * cp.norm1(x) + problem.penalty.l2 / 2 * cp.sum_squares(x),
        co.GroupLasso: lambda: problem.penalty.a * sum(np.sqrt(len(g)) * cp.norm(x[g]) for g in SPANS),
    }[type(problem.penalty)]()
    rules = inside(problem.constraint, x) + ([] if problem.intercept else [b == 0])
    return confident(cp.Problem(cp.Minimize(loss / y.size + cost), rules))


def cases() -> list[Any]:
    """Every pair on a star with a loss that curves, every loss with some; on a graph, and with kinks, some of them."""
    star, graph = co.SharingADMM(tolerance=1e-5), co.GraphADMM()
    curved, kinked, out = ["least squares", "logistic"], ["hinge", "absolute"], []
    for k, pair in enumerate(PAIRS):
        for method in (star, graph):
            for loss in LOSSES:
                quick = loss == curved[k % 2] and (method is star or k % 4 == 0)
                quick = quick or (loss == kinked[k % 2] and method is star and k % 7 == 0)
                quick = quick or (loss == "hinge" and method is graph and pair == ("box", "ridge"))
                name = " ".join((*pair, loss, "star" if method is star else "graph"))
                marks = () if quick else (pytest.mark.slow,)
                out.append(pytest.param(method, *pair, loss, k % 3 == 0, id=name, marks=marks))
    return out


@pytest.mark.parametrize(("method", "where", "cost", "loss", "intercept"), cases())
def test_the_optimum_over_sets_of_parties_is_another_solvers(
    method: Any, where: str, cost: str, loss: str, intercept: bool
) -> None:
    X, y = table(LOSSES[loss])
    problem = co.Problem(LOSSES[loss], SETS[where], PENALTIES[cost], intercept=intercept)
    fit = co.fit(federation(X, y), problem, method)
    x = np.concatenate(list(fit.coefficients.values()))
    if problem.constraint is not None:
        whole = problem.constraint
        assert (whole.over(SPANS) if isinstance(whole, co.Product) else whole).contains(x, 1e-9)
    value, best = problem.objective(X @ x + fit.intercept, x, y), optimum(problem, X, y)
    assert fit.objective == pytest.approx(value, abs=1e-9)
    assert best - 1e-6 <= value <= best + fit.gap + 1e-6
    assert fit.gap <= 2e-5, "the gap is certified"


def federation(X: np.ndarray, y: np.ndarray) -> co.Federation:
    return co.Federation.split(X, y, parties={f"party{k}": span for k, span in enumerate(SPANS)})


def test_a_set_that_ties_parties_together_is_refused_with_the_one_to_give() -> None:
    fed = federation(*table(co.LeastSquares()))
    for whole, remedy in ((co.L2Ball(2.0), "co.Product(co.L2Ball(2), blocks='parties')"), (co.Simplex(), "Frank")):
        with pytest.raises(InvalidInput, match="ties the parties together") as refused:
            co.fit(fed, co.Problem(co.LeastSquares(), whole), co.SharingADMM())
        assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("where", "cost"),
    [
        ("simplex a party", "lasso"),
        ("box", "group lasso"),
        ("box without 0", "lasso"),
        ("balls of groups", "group lasso"),
    ],
)
def test_a_penalty_whose_prox_and_projection_do_not_follow_each_other_is_refused(where: str, cost: str) -> None:
    fed = federation(*table(co.LeastSquares()))
    for method in (co.SharingADMM(), co.GraphADMM()):
        with pytest.raises(InvalidInput, match="is not offered"):
            co.fit(fed, co.Problem(co.LeastSquares(), SETS[where], PENALTIES[cost]), method)


@pytest.mark.parametrize("method", [co.DistributedFrankWolfe(), co.BlockFrankWolfe(), co.PrivateGram()])
def test_other_methods_refuse_a_set_beside_a_penalty(method: Any) -> None:
    X, y = table(co.LeastSquares())
    privacy = co.Privacy(epsilon=1.0, delta=1e-6, row_norm=3.0, label_range=(-1, 1))
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0), co.Ridge(1.0))
    with pytest.raises(InvalidInput, match="both were given"):
        co.fit(federation(X, y), problem, method, privacy if isinstance(method, co.PrivateGram) else None)


@pytest.mark.parametrize("where", ["box", "x >= 0", "ball a party"])
@pytest.mark.parametrize("method", [co.PrivateGram(), co.GraphADMM()], ids=["star", "graph"])
def test_a_set_that_no_gram_matrix_solves_is_refused_before_anything_is_spent(
    tmp_path: Any, where: str, method: Any
) -> None:
    X, y = table(co.LeastSquares())
    privacy = co.Privacy(epsilon=1.0, delta=1e-6, row_norm=3.0, label_range=(-1, 1))
    with pytest.raises(InvalidInput, match="is not solved from a Gram matrix"):
        co.fit(federation(X, y), co.Problem(co.LeastSquares(), SETS[where]), method, privacy, store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_set_and_without_a_penalty_the_answer_is_the_pooled_least_squares() -> None:
    X, y = table(co.LeastSquares())
    fit = co.fit(federation(X, y), co.Problem(co.LeastSquares(), intercept=True), co.SharingADMM(tolerance=1e-9))
    ours = np.append(np.concatenate(list(fit.coefficients.values())), fit.intercept)
    pooled = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    # f is strongly convex: f(x) − f* ≥ λ/2 ‖x − x*‖², λ the least eigenvalue of the Hessian
    least = np.linalg.eigvalsh(np.cov(X.T, bias=True))[0]
    assert np.linalg.norm(ours[:-1] - pooled[:-1]) <= np.sqrt(2 * 1e-9 / least)
