"""What the tests of graph methods share: graphs, tables, references by an independent solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

import colonnade as co

GRAPHS: dict[str, Callable[[int], co.Topology]] = {
    "line": co.Topology.line,
    "ring": co.Topology.ring,
    "star": co.Topology.star,
    "complete": co.Topology.complete,
    "random": co.Topology.random,
}
LOSSES = {
    "least squares": co.LeastSquares(),
    "logistic": co.Logistic(),
    "squared hinge": co.SquaredHinge(),
    "huber": co.Huber(0.5),
    "absolute": co.Absolute(),
    "quantile": co.Quantile(0.3),
}


def table(seed: int, rows: int, columns: int, classes: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, half of the true coefficients zero, some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = X @ (rng.normal(size=columns) * (rng.random(columns) < 0.5)) + 0.5 * rng.normal(size=rows)
    return X, (np.where(y > np.median(y), 1.0, -1.0) if classes else y)


def penalties(columns: int, parties: int) -> dict[str, Any]:
    """One of each; the groups are the parties' columns as Federation.split cuts them."""
    groups = tuple(tuple(part.tolist()) for part in np.array_split(np.arange(columns), parties))
    return {
        "ridge": co.Ridge(0.1),
        "lasso": co.Lasso(0.05),
        "elastic net": co.ElasticNet(0.05, 0.1),
        "group lasso": co.GroupLasso(0.05, groups),
    }


@dataclass(frozen=True)
class Reference:
    """What an interior-point solver says, and how far its coefficients are to be trusted."""

    x: np.ndarray
    intercept: float
    objective: float
    room: float


def reference(X: np.ndarray, y: np.ndarray, problem: co.Problem) -> Reference:
    """Asked for twelve digits; where it says that it is not sure of them, its coefficients may be off by 1e-4."""
    n = len(y)
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ x + (b if problem.intercept else 0.0)
    match problem.loss:
        case co.LeastSquares():
            loss = cp.sum_squares(scores - y) / (2 * n)
        case co.Logistic():
            loss = cp.sum(cp.logistic(-cp.multiply(y, scores))) / n
        case co.SquaredHinge():
            loss = cp.sum_squares(cp.pos(1 - cp.multiply(y, scores))) / (2 * n)
        case co.Huber(delta):
            loss = cp.sum(cp.huber(scores - y, delta)) / (2 * n)
        case co.Absolute():
            loss = cp.norm1(scores - y) / n
        case co.Quantile(q):
            loss = cp.sum(cp.maximum(q * (y - scores), (q - 1) * (y - scores))) / n
    match problem.penalty:
        case co.Ridge(a):
            penalty = a / 2 * cp.sum_squares(x)
        case co.Lasso(a):
            penalty = a * cp.norm1(x)
        case co.ElasticNet(l1, l2):
            penalty = l1 * cp.norm1(x) + l2 / 2 * cp.sum_squares(x)
        case co.GroupLasso(a, groups):
            assert groups is not None
            penalty = a * sum(np.sqrt(len(group)) * cp.norm(x[list(group)]) for group in groups)
    task = cp.Problem(cp.Minimize(loss + penalty))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # it asks for more digits than it may get, and takes what there are
        task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    intercept = float(b.value) if problem.intercept else 0.0
    return Reference(np.asarray(x.value), intercept, float(task.value), 1e-6 if task.status == "optimal" else 1e-4)


def joined(fit: co.Fit) -> np.ndarray:
    """All coefficients, as Federation.split cut them."""
    return np.concatenate(list(fit.coefficients.values()))


def off(found: np.ndarray, wanted: np.ndarray) -> float:
    """The relative error."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
