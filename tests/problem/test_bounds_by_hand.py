"""Radii, supports, domains and constants that certificates rest on, by hand arithmetic on small cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

import colonnade as co
from colonnade.problem.adjusted import Adjusted
from colonnade.problem.losses import Logistic, SquaredHinge
from colonnade.problem.penalties import NuclearNorm
from colonnade.problem.topology import Changing
from colonnade.problem.weighted import ClassWeighted
from colonnade.problem.within import REACH, Free, Within, dual_figures


@pytest.mark.parametrize(("low", "high", "radius"), [(-1.0, 3.0, 3.0), (-4.0, 1.0, 4.0), (2.0, 5.0, 5.0)])
def test_the_radius_of_a_box_is_its_farther_end(low, high, radius):
    box = co.Box(low, high)
    assert box.radius == radius
    assert box.support(np.array([1.0, -2.0])) == low - 2 * high
    assert box.gap(np.array([low, low]), np.array([1.0, -2.0])) == pytest.approx(2 * (high - low))


def test_a_cone_certifies_nothing_where_the_gradient_falls():
    cone = co.NonNegative()
    assert cone.support(np.array([0.0, 2.0])) == 0.0
    assert cone.support(np.array([-1e-9, 2.0])) == -math.inf
    assert cone.gap(np.array([1.0, 3.0]), np.array([0.5, 2.0])) == 6.5
    assert cone.gap(np.array([1.0, 3.0]), np.array([-0.5, 2.0])) == math.inf


def test_blocks_of_parties_hold_all_their_columns():
    product = co.Product(co.L1Ball(2.0), blocks="parties").over([[0, 3], [], [1, 2, 4]])
    assert product.blocks == ((0, 3), (1, 2, 4))
    gradient = np.array([1.0, -5.0, 2.0, -3.0, 4.0])
    assert product.support(gradient) == -2.0 * 3.0 - 2.0 * 5.0
    assert product.contains(np.array([2.0, 0.0, -2.0, 0.0, 0.0]))
    assert not product.contains(np.array([1.5, 0.0, 0.0, 1.0, 0.0]))


def test_the_nuclear_norm_of_blocks_looks_at_the_largest_of_all():
    penalty = NuclearNorm(2.0, ((0, 1), (2, 3)))
    u = np.vstack([np.diag([3.0, 1.0]), np.diag([0.5, 0.25])])
    assert penalty.value(u) == pytest.approx(2.0 * 4.75)
    assert penalty.conjugate(u) == math.inf
    assert penalty.shrink(u) == pytest.approx(2 / 3)
    assert penalty.conjugate(penalty.shrink(u) * u) == 0.0
    assert penalty.shrink(u[::-1]) == pytest.approx(2 / 3)


def test_the_heaviest_row_and_the_heaviest_class_set_the_constant():
    weights = np.array([0.5, 3.0, 0.5, 0.0 + 0.5])
    adjusted = Adjusted.of(Logistic(), 4, None, weights)
    assert adjusted.smoothness == pytest.approx(0.25 * 3.0 / 1.125)
    assert ClassWeighted(SquaredHinge(), 0.5, 4.0).smoothness == 4.0
    assert ClassWeighted(SquaredHinge(), 6.0, 4.0).smoothness == 6.0


def test_without_a_bound_a_certificate_reaches_ten_times_as_far_as_what_was_found():
    A, pull = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([3.0, -4.0])
    assert REACH == 10.0
    assert dual_figures(Free(), A, np.array([6.0, 8.0]), pull) == (0.0, 1.0, pytest.approx(10 * 10 * 5))
    unit = math.sqrt(2) / 5  # moves scores by 1 in the root of the mean square
    assert dual_figures(Free(), A, np.zeros(2), pull)[2] == pytest.approx(10 * unit * 5)
    assert dual_figures(Free(signed=False), A, np.array([6.0, 8.0]), pull)[2] == pytest.approx(10 * 10 * 3)


@pytest.mark.parametrize("u", [np.array([3.0, -1.0]), np.array([-0.5, 0.2])])
def test_the_conjugate_over_a_set_is_the_best_of_a_grid(u):
    axis = np.linspace(-1, 1, 401)
    grid = np.array([(a, b) for a in axis for b in axis])
    inside = grid[np.abs(grid).sum(axis=1) <= 1.0 + 1e-12]
    for penalty, cost in (
        (co.Ridge(2.0), lambda x: np.sum(x**2, axis=1)),
        (co.ElasticNet(0.3, 2.0), lambda x: 0.3 * np.abs(x).sum(axis=1) + np.sum(x**2, axis=1)),
        (co.Lasso(0.3), lambda x: 0.3 * np.abs(x).sum(axis=1)),
        (None, lambda x: np.zeros(len(x))),
    ):
        found = Within(co.L1Ball(1.0), penalty).conjugate(u)
        assert found == pytest.approx(float(np.max(inside @ u - cost(inside))), abs=1e-4)


def test_a_link_rests_from_its_last_use_in_a_period_to_its_first_in_the_next():
    late, early = ((1, 2),), ((0, 1),)
    assert Changing(3, (late, late, early)).longest_rest == 3
    assert Changing(3, (late, early, late, early, late, late)).longest_rest == 4
    assert Changing(2, (early, early)).longest_rest == 1
