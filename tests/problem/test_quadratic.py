"""Quadratics with a penalty or over a set: against CVXPY, and the gap against the distance to its optimum."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso as SklearnLasso

from colonnade.errors import InvalidInput
from colonnade.problem import ElasticNet, GroupL1Ball, GroupLasso, L1Ball, Lasso, NuclearNorm, Ridge, Simplex
from colonnade.problem.quadratic import _homotopy, minimise, path
from tests.helpers.reference import confident

GROUPS = ((0, 3), (1,), (5, 2, 4))
TERMS = [
    None,
    Ridge(0.3),
    Lasso(0.2),
    Lasso(5.0),
    ElasticNet(0.2, 0.1),
    GroupLasso(0.15, GROUPS),
    L1Ball(0.7),
    L1Ball(30.0),
    Simplex(),
    GroupL1Ball(0.8, GROUPS),
]
every_term = pytest.mark.parametrize("term", TERMS, ids=lambda t: "none" if t is None else repr(t)[:18])
generated = settings(deadline=None, max_examples=12)


def problem(seed: int, rank: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """G of the given rank with condition about 10^spread, and b in its range, as every Gram of data has."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank, 6)) * (10.0 ** (spread * rng.uniform(-0.5, 0.5, size=6)))
    return rows.T @ rows / rank, rows.T @ rng.normal(size=rank) / np.sqrt(rank)


def optimum(G: np.ndarray, b: np.ndarray, term) -> float:
    """The same minimum by Clarabel."""
    values, vectors = np.linalg.eigh(G)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    x = cp.Variable(b.size)
    objective = 0.5 * cp.sum_squares(root @ x) - b @ x
    constraints = []
    match term:
        case Ridge():
            objective += 0.5 * term.a * cp.sum_squares(x)
        case Lasso():
            objective += term.a * cp.norm1(x)
        case ElasticNet():
            objective += term.l1 * cp.norm1(x) + 0.5 * term.l2 * cp.sum_squares(x)
        case GroupLasso():
            objective += term.a * sum(np.sqrt(len(g)) * cp.norm2(x[list(g)]) for g in term.groups)
        case L1Ball():
            constraints = [cp.norm1(x) <= term.radius]
        case Simplex():
            constraints = [x >= 0, cp.sum(x) == term.radius]
        case GroupL1Ball():
            constraints = [sum(cp.norm2(x[list(g)]) for g in term.groups) <= term.radius]
    return confident(cp.Problem(cp.Minimize(objective), constraints))


def objective(G: np.ndarray, b: np.ndarray, term, x: np.ndarray) -> float:
    penalty = term.value(x) if hasattr(term, "value") else 0.0
    return float(0.5 * x @ G @ x - b @ x) + penalty


@every_term
@generated
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 9), spread=st.sampled_from([0.0, 1.0, 3.0]))
def test_the_minimum_is_that_of_an_independent_solver_also_when_the_matrix_is_singular(term, seed, rank, spread):
    G, b = problem(seed, rank, spread)
    found = minimise(G, b, term)
    best = optimum(G, b, term)
    size = abs(found.value) + abs(b @ found.x)
    assert objective(G, b, term, found.x) == pytest.approx(found.value, abs=1e-9 * (1.0 + size))
    assert found.value == pytest.approx(best, abs=1e-6 * (1.0 + size))
    assert found.gap <= 1e-8 * size + 1e-12
    if hasattr(term, "contains"):
        assert term.contains(found.x, tolerance=1e-9)


@pytest.mark.parametrize("term", [Lasso(0.2), ElasticNet(0.2, 0.1), GroupLasso(0.15, GROUPS), L1Ball(0.7), Simplex()])
def test_the_gap_of_a_rough_answer_bounds_its_distance_to_the_optimum(term):
    """With a loose tolerance the answer is not the optimum; the bound must hold all the same."""
    for seed in range(20):
        G, b = problem(seed, 9, spread=2.0)
        rough, exact = minimise(G, b, term, tolerance=0.3), minimise(G, b, term)
        assert rough.value - exact.value <= rough.gap + 1e-9


def test_a_wide_lasso_is_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(400, 120)) + rng.normal(size=(400, 1))
    y = A[:, :5].sum(axis=1) + rng.normal(size=400)
    ours = minimise(A.T @ A / 400, A.T @ y / 400, Lasso(0.1)).x
    theirs = SklearnLasso(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, y).coef_
    assert theirs == pytest.approx(ours, abs=1e-6)
    assert np.flatnonzero(theirs).tolist() == np.flatnonzero(ours).tolist()


def test_a_path_holds_the_answers_of_its_single_problems():
    G, b = problem(5, 9)
    for terms in (
        [Lasso(a) for a in (2.0, 0.5, 0.1, 0.02)],
        [Ridge(a) for a in (2.0, 0.02)],
        [L1Ball(r) for r in (0.1, 0.5, 2.0, 50.0)],
        [L1Ball(r) for r in (2.0, 0.5)],
    ):
        along = path(G, b, terms)
        assert [minimise(G, b, term).value for term in terms] == pytest.approx([m.value for m in along], abs=1e-9)


def test_a_good_start_does_not_change_the_answer():
    G, b = problem(8, 9)
    for term in (Lasso(0.2), ElasticNet(0.2, 0.1), GroupLasso(0.15, GROUPS), L1Ball(0.7), Simplex()):
        cold = minimise(G, b, term)
        assert minimise(G, b, term, start=cold.x).value == pytest.approx(cold.value, abs=1e-9)


def test_without_a_bottom_there_is_an_error_that_says_what_to_add():
    G = np.diag([1.0, 0.0])
    for term in (None, Lasso(0.1), GroupLasso(0.1, ((0,), (1,)))):
        with pytest.raises(InvalidInput, match=r"rank 1 of 2.*Add a Ridge"):
            minimise(G, np.array([1.0, 1.0]), term)
    assert np.isfinite(minimise(G, np.array([1.0, 1.0]), L1Ball(2.0)).value)


@pytest.mark.parametrize(
    ("radius", "expected"), [(1.0, [1.0, 0.0]), (2.0, [2.0, 0.0]), (2.5, [2.25, -0.25]), (9.0, [3.0, -1.0])]
)
def test_the_lassos_path_is_left_where_it_meets_the_ball(radius, expected):
    """Of ½‖x‖² − 3x₁ + x₂ it runs from 0 to (2, 0), and on to (3, −1), whose norm is 4."""
    assert _homotopy(np.eye(2), np.array([3.0, -1.0]), radius) == pytest.approx(expected, abs=1e-12)


def test_what_is_not_a_quadratic_is_refused():
    with pytest.raises(InvalidInput, match="square matrix"):
        minimise(np.eye(3), np.ones(2))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        minimise(np.eye(2), np.array([np.nan, 0.0]))
    with pytest.raises(InvalidInput, match="symmetric"):
        minimise(np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones(2))
    with pytest.raises(InvalidInput, match="symmetric with no negative"):
        minimise(-np.eye(2), np.ones(2))
    with pytest.raises(InvalidInput, match="NuclearNorm is not solved"):
        minimise(np.eye(2), np.ones(2), NuclearNorm(1.0))
