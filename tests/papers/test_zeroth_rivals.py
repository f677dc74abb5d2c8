"""Claims about published zeroth-order methods and subgradients: they find the centralised answer, as fast as they say."""

from __future__ import annotations

import warnings
from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from papers.published.row_problems import MatrixProblem, RowProblem, error
from papers.published.subgradient import subgradient
from papers.published.zeroth_order import Intrinsic, ZerothADMM, guessed_slopes
from papers.published.zeroth_rivals import online_admm, optimal_rate

pytestmark = pytest.mark.slow

GRAPH = co.Topology.ring(4)


def rows(seed=0, agents=4, each=12, columns=3, **weights):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(agents, each, columns)) / np.sqrt(each)
    b = A @ rng.normal(size=columns) + 0.1 * rng.normal(size=(agents, each))
    return RowProblem(A, b, **weights)


def after(iterates, rounds):
    return next(islice(iterates, rounds - 1, None))


# ---------------------------------------------------------------- the problems


@pytest.mark.parametrize(
    "own",
    [
        rows(ridge=0.5),
        rows(l1=0.4),
        rows(l1=0.4, ridge=0.3),
        rows(1, columns=5, l1=0.6, F=np.diff(np.eye(5), axis=0)),
    ],
    ids=["ridge", "lasso", "both", "generalised lasso"],
)
def test_the_centralised_answer_is_that_of_an_interior_point_solver(own):
    x = cp.Variable(own.columns)
    F = np.eye(own.columns) if own.F is None else own.F
    loss = sum(cp.sum_squares(A @ x - b) for A, b in zip(own.A, own.b, strict=True))
    cp.Problem(cp.Minimize(loss + own.l1 * cp.norm1(F @ x) + own.ridge * cp.sum_squares(x))).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    np.testing.assert_allclose(own.answer, x.value, atol=1e-5)


def test_the_centralised_matrix_is_that_of_an_interior_point_solver():
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(3, 8, 4)), rng.normal(size=(3, 8, 2))
    own, X = MatrixProblem(A, B, 6.0), cp.Variable((4, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the conic solver warns where it stops a digit early
        cp.Problem(cp.Minimize(cp.sum_squares(A.reshape(-1, 4) @ X - B.reshape(-1, 2)) + 6.0 * cp.normNuc(X))).solve(
            solver=cp.CLARABEL
        )
    np.testing.assert_allclose(own.answer.reshape(4, 2), X.value, atol=1e-4)


@given(seed=st.integers(0, 1000), l1=st.floats(0, 1), ridge=st.floats(0, 1))
@settings(max_examples=25)
def test_values_are_those_of_the_rows_and_slopes_are_their_derivatives(seed, l1, ridge):
    own, rng = rows(seed, l1=l1, ridge=ridge), np.random.default_rng(seed)
    x = rng.normal(size=(4, 2, 3))
    for i in range(4):
        for j in range(2):
            r = own.A[i] @ x[i, j] - own.b[i]
            wanted = r @ r + l1 / 4 * np.abs(x[i, j]).sum() + ridge / 4 * x[i, j] @ x[i, j]
            assert own.values(x)[i, j] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    step = 1e-6 * rng.normal(size=(4, 3))
    moved = own.values((x[:, 0] + step)[:, None]) - own.values((x[:, 0] - step)[:, None])
    np.testing.assert_allclose(moved[:, 0], 2 * (own.slopes(x[:, 0]) * step).sum(axis=1), atol=1e-9)


@pytest.mark.parametrize(
    "own",
    [
        rows(ridge=0.5),
        rows(l1=0.4),
        rows(1, columns=5, l1=0.6, F=np.diff(np.eye(5), axis=0)),
        MatrixProblem(*np.random.default_rng(4).normal(size=(2, 3, 8, 4)), 6.0),
    ],
    ids=["ridge", "lasso", "generalised lasso", "matrix"],
)
def test_a_difference_is_that_of_two_values_and_keeps_its_digits_where_they_lose_theirs(own):
    rng = np.random.default_rng(5)
    x, v = rng.normal(size=(2, own.agents, 3, own.columns))
    np.testing.assert_allclose(own.differences(x, v), own.values(x + v) - own.values(x), rtol=1e-9)
    quotients = [own.differences(x, step * v) / step for step in (1e-6, 1e-9)]
    np.testing.assert_allclose(*quotients, rtol=2e-4, atol=1e-4)


@given(seed=st.integers(0, 1000), l1=st.floats(0, 2))
@settings(max_examples=25)
def test_the_nearest_point_leaves_no_slope(seed, l1):
    own, rng = rows(seed, l1=l1), np.random.default_rng(seed)
    centres, weights = rng.normal(size=(4, 3)), rng.uniform(0.5, 5, size=4)
    x = own.near(centres, weights)
    slope = own.slopes(x) - l1 / 4 * np.sign(x) + weights[:, None] * (x - centres)  # of the smooth part
    bound = np.where(x == 0, l1 / 4, 0.0)
    wanted = np.where(x == 0, 0.0, -l1 / 4 * np.sign(x))
    assert np.all(np.abs(slope - wanted) <= bound + 1e-9)


# ---------------------------------------------------------------- the methods


def test_subgradients_find_the_centralised_answer():
    """Nedić and Ozdaglar: with steps of 1/√k the distance goes to zero; a tenth from 30 to 3,000 rounds is the least expected."""
    own = rows(l1=0.4)
    points = subgradient(own.slopes, GRAPH, 3, 1.0 / own.curvature)
    near = {k + 1: error(x, own.answer) for k, x in enumerate(islice(points, 3000)) if k + 1 in (30, 3000)}
    assert near[3000] < 1e-3
    assert near[3000] < near[30] / 10


def test_the_guess_of_a_linear_function_is_right_on_average():
    """E[<c, n> n] = c; 20,000 guesses know an entry to √((‖c‖² + c²)/20,000): five of them, once in a million runs an entry."""
    c, m = np.array([[1.0, -2.0, 0.5]]), 20_000
    guess = guessed_slopes(
        lambda _, v: np.einsum("njp,np->nj", v, c),
        np.zeros((1, 1, 3)),
        1,
        draws=m,
        smoothing=1.0,
        rng=np.random.default_rng(0),
    )
    assert np.all(np.abs(guess[0, 0] - c[0]) <= 5 * np.sqrt((c @ c.T + c**2)[0] / m))


@pytest.mark.parametrize(
    "how", [{"draws": 20}, {"draws": 2, "loops": 10}], ids=["guesses averaged", "descents averaged"]
)
def test_zeroth_order_admm_comes_near_the_centralised_answer(how):
    """Seeded. Inner loops start at 0 and end after 100 steps, so what is left does not go to zero."""
    own = rows(l1=0.4)
    step = 0.6 / (own.curvature + 2 * 0.5 * 2)
    method = ZerothADMM(penalty=0.5, step=step, steps=100, **how)
    points = list(islice(method.rounds(own.differences, GRAPH, 3, np.random.default_rng(1)), 60))
    assert error(points[-1], own.answer) < 0.01 * error(0 * points[0], own.answer)


def test_zeroth_order_admm_with_exact_descents_is_consensus_admm():
    """A descent replaced by the argmin of the same function: the dual then sums to zero and the answer is the centralised one."""
    own = rows(ridge=0.5)

    class Exact(ZerothADMM):
        def descend(self, differences, linear, square, rng):
            hessian = 2 * own.gram + 2 * square[:, :, None] * np.eye(3)
            return np.linalg.solve(hessian, (2 * own.pull - linear)[..., None])[..., 0]

    points = Exact(penalty=0.3, step=1.0).rounds(own.differences, GRAPH, 3, np.random.default_rng(0))
    assert error(after(points, 300), own.answer) < 1e-12


@pytest.mark.parametrize("name", ["OR-ZO", "ZOO-ADMM"])
def test_centralised_zeroth_order_methods_find_the_answer(name):
    """Seeded."""
    own = rows(agents=1, each=48, l1=0.2)
    smooth, rng = RowProblem(own.A, own.b), np.random.default_rng(2)
    common = {"step": 0.5 / own.curvature, "draws": 10, "smoothing": 1.0, "rng": rng}
    points = (
        optimal_rate(own.differences, 3, **common)
        if name == "OR-ZO"
        else online_admm(smooth.values, 3, l1=own.l1, penalty=1.0, **common)
    )
    assert error(after(points, 2000)[None], own.answer) < 1e-3


# ---------------------------------------------------------------- the claimed privacy


def test_the_intrinsic_epsilon_is_equation_4_13():
    P, T, M, V, rho, R, norm, J, delta = 10, 100, 20, 2, 4.0, 1.7, 2.0, 30, 1e-3
    s1, s2 = sum(1 / t for t in range(1, T + 1)), sum(t**-1.5 for t in range(1, T + 1))
    inside = 0.5 * R**2 * 0.54**2 / np.log(2 * P) * (s1 * (1 + np.log(P)) + s2) - 4 * norm**2 / T
    printed = 1 / (rho * V * M) * np.sqrt(2.1 * J * P * np.log(1.25 / delta) / inside)
    value = Intrinsic(P, T, M, V, rho, R, norm)
    assert value.statements(J, 200, delta)[0].epsilon == pytest.approx(printed)
    assert value.draws(printed, delta) == J
    with pytest.raises(co.InvalidInput, match="raise steps"):
        Intrinsic(P, 2, M, V, rho, 0.1, norm).deviation(1)


def test_the_settings_of_the_thesis_give_the_5_85_that_it_prints_for_equation_4_14():
    """With R = ‖x‖/1.18, which is how the figures choose R."""
    s1, s2 = sum(1 / t for t in range(1, 101)), sum(t**-1.5 for t in range(1, 101))
    assert 4 * 1.18**2 * np.log(20) / (0.5 * 0.54**2 * (s1 * (1 + np.log(10)) + s2)) == pytest.approx(5.85, abs=0.05)
