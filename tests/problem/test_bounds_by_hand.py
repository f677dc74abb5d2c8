"""Radii, supports, domains and constants that certificates rest on, by hand arithmetic on small cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.problem import sampling
from colonnade.problem.adjusted import Adjusted, ClassWeighted, check_offset, check_weight
from colonnade.problem.boosting import LogMeanExp, Stumps
from colonnade.problem.checks import same_shape
from colonnade.problem.inference import TwoValues
from colonnade.problem.loss import Derivative, rising_zero, unbounded_zero
from colonnade.problem.losses import Logistic, SquaredHinge
from colonnade.problem.penalties import REACH, Free, NuclearNorm, Within, dual_figures
from colonnade.problem.problem import PublicLabels
from colonnade.problem.quadratic import blocks_of
from colonnade.problem.topology import Changing, Topology


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


def test_a_pattern_repeats_and_a_silent_node_neither_speaks_nor_hears():
    graph = Changing.silent(Topology.line(3), {0: range(1), 2: range(1, 3)}, 3)
    assert graph.rounds == (((1, 2),), ((0, 1),), ((0, 1),))
    assert graph.first_uses == 2
    assert [graph.active(1, t) for t in range(6)] == 2 * [(2,), (0,), (0,)]
    assert Changing(1, ((),)).longest_rest == 1
    assert Changing(1, ((),)).first_uses == 0
    with pytest.raises(InvalidInput, match="at least one round"):
        Changing(3, ())


# ------------------------------------------------------------------------------------------------ edges


def test_a_rounding_beyond_the_edge_lies_on_it():
    """Of a set, up to a share of its radius; of a conjugate's domain, up to 10⁻¹² of its size."""
    over = 1.0 + 1e-10
    assert co.L1Ball(2.0).contains(np.array([-2.0 * over, 0.0]))
    assert co.Box(-1.0, 4.0).contains(np.array([-1.0 - 3e-9, 4.0 + 3e-9]))
    assert not co.Box(-1.0, 4.0).contains(np.array([0.0, 4.1]))
    assert co.NonNegative().contains(np.array([-1e-10, 3.0]))
    assert not co.NonNegative().contains(np.array([-1e-8, 3.0]))
    assert not co.GroupL1Ball(1.0, ((0, 1), (2,))).contains(np.array([0.0, 1.0, 1.0]))
    near, far = 1.0 + 5e-13, 1.0 + 1e-11
    for term, u in (
        (co.Lasso(0.3), np.array([-0.3, 0.1])),
        (co.GroupLasso(0.5, ((0, 1),)), np.array([0.3, 0.4]) * math.sqrt(2.0)),
        (NuclearNorm(2.0), np.diag([2.0, 1.0])),
        (Within(co.NonNegative(), co.Lasso(0.3)), np.array([-50.0, 0.3])),
    ):
        assert term.conjugate(near * u) == 0.0
        assert term.conjugate(far * u) == math.inf
        assert term.shrink(2.0 * u) == pytest.approx(0.5, rel=1e-12)
    y = np.array([1.0, -1.0])
    for loss, u in ((Logistic(), y), (co.Hinge(), y), (co.Huber(0.7), 0.7 * y), (co.Absolute(), y)):
        assert math.isfinite(loss.conjugate(-near * u / 2.0, y))
        assert loss.conjugate(-far * u / 2.0, y) == math.inf
    counts = np.array([3.0, 0.0])
    assert co.Poisson().conjugate(-near * counts / 2.0, counts) == 0.0  # p log p − p at p = 0
    assert co.Poisson().conjugate(-far * counts / 2.0, counts) == math.inf
    assert SquaredHinge().conjugate(np.array([1e-11, 0.0]), y) == math.inf  # a row cannot pull away from its class


def test_penalties_over_sets_are_refused_where_prox_and_projection_do_not_chain():
    assert Within(co.Box(0.0, 1.0), co.Lasso(0.1)).prox(np.array([0.05, 3.0]), 1.0).tolist() == [0.0, 1.0]
    assert Free(signed=False).prox(np.array([-1.5, 0.0, 2.0]), 1.0).tolist() == [0.0, 0.0, 2.0]
    for hole in (co.Box(-2.0, -1.0), co.Box(1.0, 2.0)):
        assert Within(hole, co.Ridge(0.1)).value(np.array([1.0])) == 0.05
        with pytest.raises(InvalidInput, match="a box that leaves out 0"):
            Within(hole, co.Lasso(0.1))
    with pytest.raises(InvalidInput, match="GroupLasso with L2Ball"):
        Within(co.Product(co.L2Ball(1.0), ((0, 1),)), co.GroupLasso(0.1, ((0, 1),)))


def test_blocks_of_a_product_name_every_column_and_nobody_elses():
    product = co.Product(co.L1Ball(1.0), ((0, 1), (2,)))
    assert product.over([[0, 1], [2]]) == product
    with pytest.raises(InvalidInput, match="2 columns lies at several parties"):
        product.over([[0], [1, 2]])
    with pytest.raises(InvalidInput, match="several parties"):
        product.over([[0, 1], [3]])  # of column 2 nobody knows
    with pytest.raises(InvalidInput, match="name 3 columns and there are 4"):
        product.support(np.ones(4))
    for low, high in ((1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(InvalidInput, match="is no range"):
            co.Box(low, high)


# ------------------------------------------------------------------------------------------------ losses and rows


def test_scores_of_no_row_and_a_single_number_are_refused():
    for one in (np.zeros(0), np.zeros((0, 2)), np.array(1.0)):
        with pytest.raises(InvalidInput, match="make them equal"):
            same_shape(one, one)


def test_the_constant_of_a_loss_is_the_steepest_that_its_slope_rises():
    """Of one row, over scores that lie close together."""
    scores = np.linspace(-3.0, 3.0, 6001)
    for loss, most in ((co.LeastSquares(), 1.0), (Logistic(), 0.25), (SquaredHinge(), 1.0), (co.Huber(0.5), 1.0)):
        assert loss.smoothness == most
        slope = loss.slope(scores, np.ones(scores.size)) * scores.size
        assert np.diff(slope).max() / 0.001 == pytest.approx(most, rel=1e-6)


def test_a_large_temperature_bends_less_and_a_stump_says_no_at_its_threshold():
    scores, y = np.array([0.0, 0.0]), np.array([1.0, -1.0])
    assert LogMeanExp(0.5).curvature(scores, y) == pytest.approx([2.0, 2.0])  # ½/T²
    assert LogMeanExp(0.5).link(np.array([-0.1, 0.0, 0.1])).tolist() == [-1.0, 1.0, 1.0]
    stumps = Stumps(np.array([0]), np.array([2.0]), np.array([-1.0]), np.array([0.25]))
    assert stumps.scores(np.array([[1.0], [2.0], [3.0]])).tolist() == [0.25, 0.25, -0.25]


def test_offsets_and_weights_are_one_finite_number_a_row():
    for bad in (math.inf, -math.inf, math.nan):
        with pytest.raises(InvalidInput, match="1 of 2 offsets"):
            check_offset([0.0, bad])
        with pytest.raises(InvalidInput, match="1 of 2 weights"):
            check_weight([1.0, bad])
    for check in (check_offset, check_weight):
        with pytest.raises(InvalidInput, match="one number for each row"):
            check(np.ones((2, 2)))


def test_a_line_search_of_a_loss_with_kinks_counts_offsets_and_weights():
    """Weights 3 and 1: the median of kinks 5 − 2 − 1 = 2 and 9 − 4 = 5 is the heavier one."""
    loss = Adjusted.of(co.Absolute(), 2, np.array([2.0, 4.0]), np.array([3.0, 1.0]))
    y, scores, ones = np.array([5.0, 9.0]), np.array([1.0, 0.0]), np.ones(2)
    assert loss.minimise_along(scores, ones, y, -10.0, 10.0) == 2.0
    assert loss.best_intercept(scores, y) == 2.0


def test_public_labels_stay_what_their_hash_names():
    given = np.array([1.0, -1.0])
    labels = PublicLabels(given)
    given[0] = 7.0
    assert labels.values.tolist() == [1.0, -1.0]
    with pytest.raises(ValueError, match="read-only"):
        labels.values[0] = 7.0
    for bad in (np.ones((2, 1)), [1.0, math.inf], [1.0, math.nan]):
        with pytest.raises(InvalidInput, match="one finite number for each row"):
            PublicLabels(bad)
    with pytest.raises(InvalidInput, match="true or false, got 2"):
        co.Problem(co.LeastSquares(), intercept=2)
    assert co.Problem(co.LeastSquares(), intercept=np.True_).intercept


def test_a_row_of_two_values_varies_by_a_quarter_of_their_distance_at_most():
    """A flag that a tenth has, p = .5 with it and 0 without: rows with it spread by 1/4, all others as the mean, .025.

    From σ² + (h + l − 2m)·δ alone those with it would have .025 + .9·.45 = .43.
    """
    n, flag = 1000.0, np.array([[1.0, 1.0], [1.0, 1.0]])
    M = n * np.array([[0.1, 0.1], [0.1, 1.0]])
    two = TwoValues(0.0, 1.0, np.array([True]), np.array([-1]))
    found = two.score_spread(M, np.array([0.5, 0.0]), 0.025)
    assert found == pytest.approx(n * (0.1 * 0.25 * flag + 0.9 * 0.025 * np.diag([0.0, 1.0])), rel=1e-12)


def test_rows_of_a_flag_spread_as_two_values_with_its_probabilities_do():
    """p = .7 with the flag that .4 have, .2 without: p(1 − p) = .21 and .16, and .18 on average.

    σ² + (1 − 2·.4)·δ is .18 + .2·(.3, −.2) = .24 and .14, of which nothing is below .18.
    """
    M = np.array([[0.4, 0.4], [0.4, 1.0]])
    found = TwoValues(0.0, 1.0, np.array([True]), np.array([-1])).score_spread(M, np.array([0.5, 0.2]), 0.18)
    assert found == pytest.approx(0.4 * 0.24 * np.ones((2, 2)) + 0.6 * 0.18 * np.diag([0.0, 1.0]), rel=1e-12)


# ------------------------------------------------------------------------------------------------ searches


def test_a_search_ends_where_the_function_passes_zero_or_at_the_nearer_end():
    def line(zero):
        return lambda t: Derivative(t - zero, 1.0, 0.0)

    assert rising_zero(line(0.3), 0.0, 1.0) == pytest.approx(0.3)
    assert rising_zero(line(-5.0), 0.0, 1.0) == 0.0
    assert rising_zero(line(5.0), 0.0, 1.0) == 1.0
    for low, high in ((1.0, 0.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0)):
        with pytest.raises(InvalidInput, match="finite low <= high"):
            rising_zero(line(0.0), low, high)
    for broken in (0.0, 1.0):
        with pytest.raises(InvalidInput, match="is NaN"):
            rising_zero(lambda t, at=broken: Derivative(math.nan if t == at else t - 0.5, 1.0, 0.0), 0.0, 1.0)
    for zero in (-1e6, -0.3, 0.0, 0.3, 1e6):
        assert unbounded_zero(line(zero)) == pytest.approx(zero, rel=1e-12)
        flat = unbounded_zero(lambda t, zero=zero: Derivative(math.copysign(1.0, t - zero), 0.0, 0.0))
        assert flat == pytest.approx(zero, abs=1e-9 * (1.0 + abs(zero)))
    with pytest.raises(InvalidInput, match="falls without end"):
        unbounded_zero(lambda t: Derivative(-1.0, 0.0, 0.0))


# ------------------------------------------------------------------------------------------------ blocks and rounds


def test_hats_belong_to_the_number_before_them():
    blocks = blocks_of(np.array([0, 1, 2, 2, 0, 0, 1]), np.array([1, 0, 0, 0, 0, -1, 0]))
    assert [(at.tolist(), sign) for at, sign in blocks] == [([0, 1, 2, 3], 1), ([5, 6], -1)]


def test_chances_of_blocks_are_those_of_their_draws():
    owners, rng = np.array([0, 0, 0, 1]), np.random.default_rng(5)
    for kind, chances in (
        (sampling.Nice(3), [0.75] * 4),
        (sampling.Nice(4), [1.0] * 4),
        (sampling.PerParty(2), [2 / 3, 2 / 3, 2 / 3, 1.0]),
        (sampling.Independent((0.2, 0.4, 0.6, 1.0)), [0.2, 0.4, 0.6, 1.0]),
        (sampling.Elementary(), [1.0] * 4),
    ):
        assert kind.probabilities(owners) == pytest.approx(chances)
        assert sampling.least_probability(kind, owners) == pytest.approx(min(chances))
        drawn = [kind.draw(owners, rng) for _ in range(400)]
        assert all(np.array_equal(one, np.unique(one)) for one in drawn)
        found = np.bincount(np.concatenate(drawn), minlength=4) / 400
        assert np.abs(found - chances).max() <= 6.0 * 0.5 / 20.0  # six sds of a fair coin, at most
    for broken in (0.0, -0.5, 1.5, (0.5, 0.0), "x"):
        with pytest.raises(InvalidInput, match="above 0 and at most 1"):
            sampling.Independent(broken)
    for count in (2, 5):
        with pytest.raises(InvalidInput, match="4 blocks: one each"):
            sampling.Independent((0.5,) * count).probabilities(owners)
    with pytest.raises(InvalidInput, match="choose tau of at most 4"):
        sampling.Nice(5).probabilities(owners)
