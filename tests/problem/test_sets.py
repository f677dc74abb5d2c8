"""Every set: its oracle against all its vertices, its projection against the oracle and a solver."""

from __future__ import annotations

import math
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import InvalidInput
from colonnade.problem import Box, GroupL1Ball, L1Ball, L2Ball, Set, Simplex

GROUPS = ((0, 3), (1,), (5, 2, 4))
SETS = [L1Ball(2.5), L2Ball(2.5), Box(-1.0, 2.5), Simplex(), Simplex(4.0), GroupL1Ball(2.5, GROUPS)]
every_set = pytest.mark.parametrize("constraint", SETS, ids=lambda s: f"{type(s).__name__}-{s.radius:g}")
points = st.lists(st.floats(-5, 5), min_size=6, max_size=6).map(np.array)
generated = settings(deadline=None, max_examples=80)


def vertices(constraint: Set, gradient: np.ndarray) -> list[np.ndarray]:
    """All vertices; of each sphere, the axes, a fan of directions and the steepest one."""
    if isinstance(constraint, Box):
        return [np.array(corner) for corner in product((constraint.low, constraint.high), repeat=6)]
    axes = list(constraint.radius * np.eye(6))
    if isinstance(constraint, Simplex):
        return axes
    if isinstance(constraint, L1Ball):
        return axes + [-x for x in axes]
    rng = np.random.default_rng(0)
    found = axes + [-x for x in axes]
    for group in (range(6),) if isinstance(constraint, L2Ball) else GROUPS:
        for block in [*rng.normal(size=(50, len(group))), -gradient[list(group)]]:
            length = np.linalg.norm(block)
            if length > 1e-100:
                x = np.zeros(6)
                x[list(group)] = constraint.radius * block / length
                found.append(x)
    return found


@every_set
@generated
@given(gradient=points)
def test_no_vertex_goes_further_down_than_the_oracles(constraint, gradient):
    least = min(float(x @ gradient) for x in vertices(constraint, gradient))
    assert least == pytest.approx(constraint.support(gradient), rel=1e-13, abs=1e-15)
    if isinstance(constraint, L1Ball | Simplex):
        column, weight = constraint.vertex(gradient)
        assert constraint.contains(weight * np.eye(6)[column], tolerance=1e-14)
        assert least == pytest.approx(weight * gradient[column], rel=1e-13, abs=1e-15)


def test_ties_go_to_the_lowest_column():
    assert L1Ball(2.0).vertex(np.array([0.0, -3.0, 3.0])) == (1, 2.0)
    assert L1Ball(2.0).vertex(np.array([0.0, 3.0, -3.0])) == (1, -2.0)
    assert Simplex().vertex(np.array([1.0, -3.0, -3.0])) == (1, 1.0)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_gradient_still_gives_a_vertex(zero):
    gradient = np.full(6, zero)
    assert L1Ball(2.0).vertex(gradient) == (0, -2.0)
    assert Simplex(2.0).vertex(gradient) == (0, 2.0)


@every_set
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_broken_gradient_is_refused_with_advice(constraint, bad):
    gradient = np.zeros(6)
    gradient[4] = bad
    for use in (constraint.support, *((constraint.vertex,) if isinstance(constraint, L1Ball | Simplex) else ())):
        with pytest.raises(InvalidInput, match="missing values"):
            use(gradient)


@every_set
@generated
@given(v=points)
def test_the_projection_is_the_nearest_point_of_the_set(constraint, v):
    """p is nearest to v in a convex set iff no vertex z has <v − p, z − p> > 0."""
    p = constraint.project(v)
    assert constraint.contains(p, tolerance=1e-13)
    assert max(float((v - p) @ (z - p)) for z in vertices(constraint, p - v)) <= 1e-12


@every_set
def test_no_solver_finds_a_nearer_point(constraint):
    rng = np.random.default_rng(3)
    for scale in (0.1, 1.0, 10.0):
        v = scale * rng.normal(size=6)
        x = cp.Variable(6)
        match constraint:
            case L1Ball(radius):
                inside = [cp.norm1(x) <= radius]
            case L2Ball(radius):
                inside = [cp.norm2(x) <= radius]
            case Box(low, high):
                inside = [x >= low, x <= high]
            case Simplex(radius):
                inside = [x >= 0, cp.sum(x) == radius]
            case GroupL1Ball(radius, groups):
                inside = [sum(cp.norm2(x[list(g)]) for g in groups) <= radius]
        cp.Problem(cp.Minimize(cp.sum_squares(x - v)), inside).solve(solver=cp.CLARABEL)
        # 1e-5: an interior-point solution, accurate to about 1e-9 in the square of the distance
        assert constraint.project(v) == pytest.approx(x.value, abs=1e-5 * max(1.0, scale))


@every_set
@generated
@given(v=points)
def test_projecting_twice_changes_nothing(constraint, v):
    once = constraint.project(v)
    assert constraint.project(once) == pytest.approx(once, rel=0, abs=1e-14 * (5 + constraint.radius))


@every_set
@generated
@given(v=points, target=points, seed=st.integers(0, 2**32 - 1))
def test_the_gap_bounds_the_distance_to_the_optimum(constraint, v, target, seed):
    """For f = ½‖Bx − target‖² at a feasible x, against every vertex and random feasible points."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(6, 6))

    def f(point: np.ndarray) -> float:
        return 0.5 * float(np.sum((B @ point - target) ** 2))

    x = constraint.project(v)
    gap = constraint.gap(x, B.T @ (B @ x - target))
    corners = np.array(vertices(constraint, v))
    mixed = rng.dirichlet(np.full(len(corners), 0.1), size=20) @ corners
    best = min(f(z) for z in [*corners, *mixed])
    assert gap >= -1e-11
    assert f(x) - best <= gap + 1e-11 * (1.0 + f(x))


@every_set
def test_the_gap_closes_at_the_optimum(constraint):
    """The projection of v minimises ½‖x − v‖², so its gap there is zero up to rounding."""
    v = np.array([3.0, -2.0, 0.5, 1.0, 0.0, -4.0])
    p = constraint.project(v)
    assert abs(constraint.gap(p, p - v)) <= 1e-13


@pytest.mark.parametrize("constraint", [L1Ball(2.5), Simplex(4.0), GroupL1Ball(2.5, GROUPS)], ids=repr)
def test_the_start_is_a_point_of_the_set_with_at_most_one_entry(constraint):
    start = constraint.start(6)
    assert start.shape == (6,)
    assert constraint.contains(start, tolerance=0.0)
    assert np.count_nonzero(start) <= 1


def test_points_outside_are_not_contained():
    assert not L1Ball(1.0).contains(np.array([0.6, -0.5]))
    assert L1Ball(1.0).contains(np.array([0.6, -0.5]), tolerance=0.11)
    assert not Simplex().contains(np.array([1.1, -0.1]))
    assert not Simplex().contains(np.array([0.5, 0.4]))
    assert not GroupL1Ball(1.0, ((0, 1),)).contains(np.array([0.8, 0.7]))
    assert GroupL1Ball(1.0, ((0, 1),)).contains(np.array([0.6, 0.8]))


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf, "wide", None])
@pytest.mark.parametrize("kind", [L1Ball, Simplex, lambda r: GroupL1Ball(r, GROUPS)])
def test_a_radius_that_is_no_positive_number_is_refused_with_advice(kind, radius):
    with pytest.raises(InvalidInput, match="leave constraint out"):
        kind(radius)


def test_groups_that_do_not_fit_the_vector_are_refused_at_use():
    ball = GroupL1Ball(1.0, GROUPS)
    for use in (ball.support, ball.project, ball.contains):
        with pytest.raises(InvalidInput, match="every column needs one group"):
            use(np.ones(7))
    with pytest.raises(InvalidInput, match="every column needs one group"):
        ball.start(5)
