"""Claims about the nearest monotone curves: monotone, the best there are by another solver, and themselves if they are."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels import curves
from colonnade.problem.quadratic import blocks_of, nearest_monotone


def problem(seed, depths, others=3):
    """A positive Hessian, a point, and blocks of these depths between other columns."""
    rng = np.random.default_rng(seed)
    level, monotone = [0] * others, [0] * others
    for depth in depths:
        level += [0, *curves.levels(depth).tolist(), 0]
        monotone += [int(rng.choice([-1, 1])), *[0] * curves.count(depth), 0]
    A = rng.normal(size=(len(level) + 5, len(level)))
    return A.T @ A, rng.normal(size=len(level)), blocks_of(np.array(level), np.array(monotone))


@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_it_is_monotone_and_no_other_monotone_curve_is_nearer(seed, depths):
    hessian, x, blocks = problem(seed, depths)
    z = nearest_monotone(x, hessian, blocks)
    v = cp.Variable(x.size)
    bounds = [sign * curves.increments(at.size.bit_length() - 1) @ v[at] >= 0 for at, sign in blocks]
    best = cp.Problem(cp.Minimize(cp.quad_form(v - x, cp.psd_wrap(hessian))), bounds).solve(solver=cp.CLARABEL)
    assert (z - x) @ hessian @ (z - x) == pytest.approx(best, rel=1e-5, abs=1e-6)
    for at, sign in blocks:
        t = np.linspace(-1, 1, 401)
        assert (np.diff(sign * curves.values(t, z[at])) >= -1e-10).all()


def test_curves_that_are_monotone_stay_as_they_are():
    hessian, x, blocks = problem(3, [2])
    (at, sign), *_ = blocks
    x[at] = np.linalg.solve(curves.increments(2), sign * np.array([1.0, 0.0, 2.0, 0.5]))
    x[at] += 0.0
    again = nearest_monotone(x, hessian, blocks)
    assert curves.values(curves.knots(2), again[at]) == pytest.approx(curves.values(curves.knots(2), x[at]), abs=1e-9)


def test_a_block_is_a_number_and_the_hats_behind_it():
    level = np.array([0, 1, 2, 2, 0, 0, 1])
    found = blocks_of(level, np.array([1, 0, 0, 0, 0, -1, 0]))
    assert [(at.tolist(), sign) for at, sign in found] == [([0, 1, 2, 3], 1), ([5, 6], -1)]
    assert [at.tolist() for at, _ in blocks_of(np.zeros(3, int), np.array([0, 1, 0]))] == [[1]]
