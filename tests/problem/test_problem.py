"""Problems, and the certificate of a penalised answer against a solver's optimum."""

from __future__ import annotations

import math
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from colonnade.errors import InvalidInput
from colonnade.problem import (
    Absolute,
    ElasticNet,
    GroupLasso,
    Huber,
    L1Ball,
    Lasso,
    LeastSquares,
    Logistic,
    Loss,
    NuclearNorm,
    Penalty,
    Problem,
    Quantile,
    Ridge,
    Simplex,
    SquaredHinge,
)
from papers.certificate import certificate

GROUPS = ((0, 3), (1,), (4, 2))
LOSSES = [LeastSquares(), Logistic(), SquaredHinge(), Huber(0.7), Absolute(), Quantile(0.3)]
PENALTIES = [Ridge(0.2), Lasso(0.05), ElasticNet(0.05, 0.1), GroupLasso(0.05, GROUPS)]


def rows(loss: Loss, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(12, 5))
    y = A @ np.array([1.0, 0.0, -2.0, 0.0, 0.5]) + rng.normal(size=12)
    if loss.classifies:
        y = np.where(y > np.median(y), 1.0, -1.0)
    return A, y


def solver_loss(loss: Loss, s: cp.Expression, y: np.ndarray) -> cp.Expression:
    r, n = s - y, len(y)
    match loss:
        case LeastSquares():
            return cp.sum_squares(r) / (2 * n)
        case Logistic():
            return cp.sum(cp.logistic(-cp.multiply(y, s))) / n
        case SquaredHinge():
            return cp.sum_squares(cp.pos(1 - cp.multiply(y, s))) / (2 * n)
        case Huber(delta):
            return cp.sum(cp.huber(r, delta)) / (2 * n)
        case Absolute():
            return cp.norm1(r) / n
        case Quantile(q):
            return cp.sum(cp.maximum(-q * r, (1 - q) * r)) / n
    raise AssertionError(loss)


def solver_penalty(penalty: Penalty, x: cp.Variable) -> cp.Expression:
    match penalty:
        case Ridge(a):
            return a / 2 * cp.sum_squares(x)
        case Lasso(a):
            return a * cp.norm1(x)
        case ElasticNet(l1, l2):
            return l1 * cp.norm1(x) + l2 / 2 * cp.sum_squares(x)
        case GroupLasso(a, groups):
            return a * sum(math.sqrt(len(g)) * cp.norm2(x[list(g)]) for g in groups)
    raise AssertionError(penalty)


def solved(loss: Loss, penalty: Penalty, A: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = cp.Variable(A.shape[1])
    problem = cp.Problem(cp.Minimize(solver_loss(loss, A @ x, y) + solver_penalty(penalty, x)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate" is the status checked below
        problem.solve(solver=cp.CLARABEL)
    assume(problem.status == cp.OPTIMAL)  # a reference that doubts itself says nothing about us
    return np.asarray(x.value)


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: type(p).__name__)
@settings(deadline=None, max_examples=4)
@given(seed=st.integers(0, 10**6))
def test_the_certificate_bounds_the_distance_to_the_optimum(loss, penalty, seed):
    """The solver's answer is no better than the optimum, so the bound needs no allowance for its accuracy."""
    A, y = rows(loss, seed)
    problem = Problem(loss, penalty=penalty)
    near = solved(loss, penalty, A, y)
    reference = problem.objective(A @ near, near, y)
    rng = np.random.default_rng(seed)
    for x in (np.zeros(5), rng.normal(size=5), near + 0.01 * rng.normal(size=5)):
        primal = problem.objective(A @ x, x, y)
        assert primal - reference <= certificate(loss, penalty, A, x, y) + 1e-13 * (1.0 + primal)


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("loss", LOSSES[:4], ids=lambda p: type(p).__name__)
def test_the_certificate_closes_on_the_way_to_the_optimum_of_a_smooth_loss(loss, penalty):
    """Proximal gradient descent: its own steps use slope, smoothness and prox, so they are tested together."""
    A, y = rows(loss, 5)
    step = len(y) / (loss.smoothness * np.linalg.norm(A, 2) ** 2)
    x = np.zeros(5)
    for _ in range(5000):
        x = penalty.prox(x - step * (A.T @ loss.slope(A @ x, y)), step)
    assert -1e-14 <= certificate(loss, penalty, A, x, y) <= 1e-11


def test_the_certificate_holds_for_a_matrix_under_the_nuclear_norm():
    rng = np.random.default_rng(2)
    A, Y = rng.normal(size=(15, 4)), rng.normal(size=(15, 3))
    penalty, loss = NuclearNorm(0.1), LeastSquares()
    problem = Problem(loss, penalty=penalty)
    X, gaps, values = np.zeros((4, 3)), [], []
    for _ in range(3000):
        gaps.append(certificate(loss, penalty, A, X, Y))
        values.append(problem.objective(A @ X, X, Y))
        X = penalty.prox(
            X - 15 / np.linalg.norm(A, 2) ** 2 * (A.T @ loss.slope(A @ X, Y)), 15 / np.linalg.norm(A, 2) ** 2
        )
    assert all(v - values[-1] <= g + 1e-13 for v, g in zip(values, gaps, strict=True))
    assert gaps[-1] <= 1e-12


def test_the_certificate_takes_sparse_features():
    A, y = rows(LeastSquares(), 1)
    x = np.ones(5)
    dense = certificate(LeastSquares(), Lasso(0.05), A, x, y)
    assert dense == pytest.approx(certificate(LeastSquares(), Lasso(0.05), scipy.sparse.csc_array(A), x, y), rel=1e-13)


def test_a_problem_adds_the_penalty_to_the_loss():
    scores, y, x = np.array([1.0, 3.0]), np.array([0.0, 1.0]), np.array([2.0, -1.0])
    assert Problem(LeastSquares()).objective(scores, x, y) == 1.25
    assert Problem(LeastSquares(), constraint=L1Ball(1.0)).objective(scores, x, y) == 1.25
    assert Problem(LeastSquares(), penalty=Lasso(0.5)).objective(scores, x, y) == 2.75


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"loss": "logistic"}, r"loss=Logistic\(\)"),
        ({"loss": Logistic}, r"loss=Logistic\(\)"),
        ({"loss": Logistic(), "constraint": Lasso(1.0)}, "constraint=L1Ball"),
        ({"loss": Logistic(), "constraint": 10.0}, "constraint=L1Ball"),
        ({"loss": Logistic(), "penalty": L1Ball(1.0)}, "penalty=Lasso"),
    ],
    ids=str,
)
def test_a_problem_of_wrong_parts_is_refused_with_an_example(arguments, advice):
    with pytest.raises(InvalidInput, match=advice):
        Problem(**arguments)


def test_problems_are_values():
    assert Problem(Huber(1.0), constraint=Simplex()) == Problem(Huber(1), constraint=Simplex(1))
    assert hash(Problem(Huber(1.0))) == hash(Problem(Huber(1)))
    with pytest.raises(AttributeError):
        Problem(Logistic()).intercept = True
