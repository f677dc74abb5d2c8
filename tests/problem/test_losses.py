"""Every loss against its definition in 60-digit arithmetic, and its parts against each other."""

from __future__ import annotations

import math

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from colonnade.errors import InvalidInput
from colonnade.problem import Absolute, Hinge, Huber, LeastSquares, Logistic, Loss, Quantile, SquaredHinge

EPS = np.finfo(np.float64).eps
SMOOTH = [LeastSquares(), Logistic(), SquaredHinge(), Huber(0.7)]
KINKED = [Absolute(), Quantile(0.3), Hinge()]
LOSSES = SMOOTH + KINKED
DIGITS = 60

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_smooth_loss = pytest.mark.parametrize("loss", SMOOTH, ids=str)
few = settings(deadline=None, max_examples=25)


def defined(loss: Loss, s: mp.mpf, y: float) -> mp.mpf:
    """One row's loss, written down from its definition."""
    r, m = s - mp.mpf(y), mp.mpf(y) * s
    match loss:
        case LeastSquares():
            return r**2 / 2
        case Logistic():
            return mp.log1p(mp.exp(-m))
        case SquaredHinge():
            return max(mp.mpf(0), 1 - m) ** 2 / 2
        case Hinge():
            return max(mp.mpf(0), 1 - m)
        case Huber(delta):
            return r**2 / 2 if abs(r) <= delta else delta * abs(r) - mp.mpf(delta) ** 2 / 2
        case Absolute():
            return abs(r)
        case Quantile(q):
            return -q * r if r <= 0 else (1 - mp.mpf(q)) * r
    raise AssertionError(f"add {type(loss).__name__} to `defined`: one row's loss, as its definition says it")


def difference(loss: Loss, s: mp.mpf, y: float) -> mp.mpf:
    """Central difference of the definition: off by at most smoothness times 1e-25."""
    h = mp.mpf(10) ** -25
    return (defined(loss, s + h, y) - defined(loss, s - h, y)) / (2 * h)


def second_difference(loss: Loss, s: mp.mpf, y: float) -> mp.mpf:
    """The same for the second derivative."""
    h = mp.mpf(10) ** -12
    return (defined(loss, s + h, y) - 2 * defined(loss, s, y) + defined(loss, s - h, y)) / h**2


def exact_prox(loss: Loss, v: float, y: float, h: float) -> mp.mpf:
    """The zero of the rising function slope(s) + (s − v)/h, by bisection."""
    with mp.workdps(DIGITS):
        pull = h * (abs(v) + abs(y) + 2)  # no slope between v and the answer is larger than pull/h
        low, high = v - mp.mpf(pull), v + mp.mpf(pull)
        while high - low > mp.mpf(10) ** -24:
            middle = (low + high) / 2
            if difference(loss, middle, y) + (middle - v) / h > 0:
                high = middle
            else:
                low = middle
        return low


def labels_for(loss: Loss) -> st.SearchStrategy[float]:
    return st.sampled_from([-1.0, 1.0]) if loss.classifies else st.floats(-20, 20)


@st.composite
def rows(draw: st.DrawFn, loss: Loss, least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels of 1 to 8 rows; both classes when there are two rows or more."""
    n = draw(st.integers(least, 8))
    scores = np.array(draw(st.lists(st.floats(-40, 40) | st.floats(-2, 2), min_size=n, max_size=n)))
    y = np.array(draw(st.lists(labels_for(loss), min_size=n, max_size=n)))
    if loss.classifies and n > 1:
        y[:2] = -1.0, 1.0
    return scores, y


@every_loss
@few
@given(data=st.data())
def test_the_value_is_the_mean_of_its_definition(loss, data):
    scores, y = data.draw(rows(loss))
    with mp.workdps(DIGITS):
        expected = mp.fsum(defined(loss, mp.mpf(s), t) for s, t in zip(scores, y, strict=True)) / len(y)
    assert float(expected) == pytest.approx(loss.value(scores, y), rel=1e-13, abs=1e-300)


@every_smooth_loss
@few
@given(data=st.data())
def test_the_slope_is_the_derivative_of_the_definition(loss, data):
    scores, y = data.draw(rows(loss))
    with mp.workdps(DIGITS):
        expected = [float(difference(loss, mp.mpf(s), t) / len(y)) for s, t in zip(scores, y, strict=True)]
    # 1e-24: the error of the central difference
    assert expected == pytest.approx(loss.slope(scores, y).tolist(), rel=1e-12, abs=1e-24)


@every_loss
@few
@given(data=st.data())
def test_the_slope_is_a_subgradient_everywhere(loss, data):
    scores, y = data.draw(rows(loss))
    elsewhere = np.array(data.draw(st.lists(st.floats(-40, 40), min_size=len(y), max_size=len(y))))
    at_a_kink = y.copy()
    for point in (scores, at_a_kink):
        line = loss.value(point, y) + loss.slope(point, y) @ (elsewhere - point)
        assert line <= loss.value(elsewhere, y) + 1e-12 * (1.0 + abs(line))


@every_smooth_loss
@few
@given(data=st.data())
def test_the_curvature_is_the_second_derivative_away_from_its_jumps(loss, data):
    scores, y = data.draw(rows(loss))
    beside = mp.mpf(10) ** -9
    with mp.workdps(DIGITS):
        for s, t, found in zip(scores, y, loss.curvature(scores, y), strict=True):
            s = mp.mpf(s)
            if abs(second_difference(loss, s + beside, t) - second_difference(loss, s - beside, t)) > 1e-3:
                continue  # it jumps here: where it does not, it moves by about 2e-9
            assert float(second_difference(loss, s, t) / len(y)) == pytest.approx(found, rel=1e-12, abs=1e-22)


def test_the_curvature_jumps_where_the_loss_changes_its_form():
    ones = np.ones(2)
    assert SquaredHinge().curvature(np.array([1 - 1e-9, 1 + 1e-9]), ones).tolist() == [0.5, 0.0]
    assert SquaredHinge().curvature(-np.array([1 - 1e-9, 1 + 1e-9]), -ones).tolist() == [0.5, 0.0]
    assert Huber(0.7).curvature(np.array([1.7 - 1e-9, 1.7 + 1e-9]), ones).tolist() == [0.5, 0.0]
    assert Huber(0.7).curvature(np.array([0.3 + 1e-9, 0.3 - 1e-9]), ones).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_a_loss_with_kinks_refuses_a_curvature_and_names_a_way_out(loss):
    with pytest.raises(InvalidInput, match="SquaredHinge" if loss.classifies else "Huber"):
        loss.curvature(np.zeros(3), np.ones(3))
    assert not loss.smooth
    assert math.inf == loss.smoothness


@every_smooth_loss
@few
@given(data=st.data())
def test_the_smoothness_bounds_how_fast_one_rows_slope_changes(loss, data):
    scores, y = data.draw(rows(loss))
    elsewhere = scores + np.array(data.draw(st.lists(st.floats(-5, 5), min_size=len(y), max_size=len(y))))
    change = len(y) * np.abs(loss.slope(scores, y) - loss.slope(elsewhere, y))
    assert np.all(change <= loss.smoothness * np.abs(scores - elsewhere) + 1e-13)


@every_smooth_loss
def test_the_smoothness_is_reached_so_no_smaller_constant_would_do(loss):
    y = np.array([1.0, -1.0])
    bend = np.zeros(2) if loss.classifies else y  # where it bends most, on one side of it or on both
    most = max(float(np.max(loss.curvature(bend + side, y))) for side in (-1e-9, 0.0, 1e-9))
    assert loss.smoothness == pytest.approx(2 * most, rel=1e-15)


@every_loss
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_the_prox_is_right_to_the_last_digits_for_steps_from_tiny_to_huge(loss, data):
    v, y = data.draw(rows(loss))
    h = 10.0 ** data.draw(st.floats(-6, 8))
    found = loss.prox(v, y, h * len(y))
    for i in range(len(y)):
        expected = exact_prox(loss, float(v[i]), float(y[i]), h)
        # Backward error: v, y, h/n and the sum are each rounded a few times, and the prox never amplifies v
        # nor y; where a step h·slope is subtracted from v, its rounding counts in full.
        moved = abs(float(expected) - v[i])
        room = 8 * EPS * (abs(v[i]) + abs(y[i]) + moved) + 1e-24
        assert abs(float(expected - mp.mpf(float(found[i])))) <= room


@pytest.mark.parametrize("h", [1e-6, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("v", [-1e9, -3e7, -800.0, -30.0, 0.0, 5.0, 40.0, 1e6])
def test_the_logistic_prox_stays_right_where_clamped_newton_failed(h, v):
    found = Logistic().prox(np.array([v]), np.array([1.0]), h)[0]
    with mp.workdps(DIGITS):
        low, high = mp.mpf(v), mp.mpf(v) + h
        while high - low > mp.mpf(10) ** -24:
            middle = (low + high) / 2
            if middle - v - h / (1 + mp.exp(middle)) > 0:
                high = middle
            else:
                low = middle
        assert abs(float(low - mp.mpf(float(found)))) <= 4 * EPS * (abs(v) + abs(float(low)) + 1e-300) + 1e-24


def cvxpy_value(loss: Loss, s: cp.Expression, y: np.ndarray) -> cp.Expression:
    r = s - y
    match loss:
        case LeastSquares():
            return cp.sum_squares(r) / (2 * len(y))
        case Logistic():
            return cp.sum(cp.logistic(-cp.multiply(y, s))) / len(y)
        case SquaredHinge():
            return cp.sum_squares(cp.pos(1 - cp.multiply(y, s))) / (2 * len(y))
        case Hinge():
            return cp.sum(cp.pos(1 - cp.multiply(y, s))) / len(y)
        case Huber(delta):
            return cp.sum(cp.huber(r, delta)) / (2 * len(y))
        case Absolute():
            return cp.norm1(r) / len(y)
        case Quantile(q):
            return cp.sum(cp.maximum(-q * r, (1 - q) * r)) / len(y)
    raise AssertionError(f"add {type(loss).__name__} to `cvxpy_value`: the mean of its rows, in cvxpy's words")


@every_loss
@pytest.mark.parametrize("step", [0.5, 5.0, 50.0])
def test_no_solver_finds_a_better_prox(loss, step):
    rng = np.random.default_rng(7)
    v, y = 3 * rng.normal(size=5), rng.choice([-1.0, 1.0], size=5)
    s = cp.Variable(5)
    solved = cp.Problem(cp.Minimize(cvxpy_value(loss, s, y) + cp.sum_squares(s - v) / (2 * step)))
    solved.solve(solver=cp.CLARABEL)

    def objective(point: np.ndarray) -> float:
        return loss.value(point, y) + float(np.sum((point - v) ** 2)) / (2 * step)

    ours = loss.prox(v, y, step)
    assert objective(ours) <= objective(s.value) + 1e-14
    assert objective(ours) == pytest.approx(solved.value, abs=1e-6)  # the solver's own accuracy


@every_loss
@few
@given(data=st.data())
def test_slope_and_conjugate_meet_in_fenchel_youngs_equality(loss, data):
    scores, y = data.draw(rows(loss))
    u = loss.slope(scores, y)
    scale = 1.0 + np.sum(np.abs(u * scores)) + np.sum(np.abs(u * y)) + len(y) * np.sum(u * u)
    assert float(u @ scores) == pytest.approx(loss.value(scores, y) + loss.conjugate(u, y), abs=1e-12 * scale)


@every_loss
@few
@given(data=st.data())
def test_value_plus_conjugate_is_never_below_the_product(loss, data):
    scores, y = data.draw(rows(loss))
    n = len(y)
    # Outside the domain, which ends at the slopes far away, the claim is empty.
    low, high = (np.clip(n * loss.slope(np.full(n, far), y), -1.0, 1.0) for far in (-1e9, 1e9))
    part = np.array(data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))
    u = (low + part * (high - low)) / n
    total = loss.value(scores, y) + loss.conjugate(u, y)
    assert math.isfinite(total)
    assert float(u @ scores) <= total + 1e-12 * (1.0 + abs(total))


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_every_dual_value_between_the_slopes_is_reached_at_the_kink(loss):
    y = np.array([1.0, 1.0, -1.0]) if loss.classifies else np.array([3.0, -2.0, 0.5])
    u = np.array([-0.29, 0.0, 0.69]) / 3
    assert float(u @ y) == pytest.approx(loss.conjugate(u, y), rel=1e-14)


@pytest.mark.parametrize(
    ("loss", "w"),
    [
        (Logistic(), 0.001),
        (Logistic(), -1.001),
        (SquaredHinge(), 0.001),
        (Hinge(), 0.001),
        (Hinge(), -1.001),
        (Huber(0.7), 0.701),
        (Huber(0.7), -0.701),
        (Absolute(), 1.001),
        (Quantile(0.3), -0.301),
        (Quantile(0.3), 0.701),
    ],
    ids=str,
)
def test_the_conjugate_is_infinite_outside_its_domain(loss, w):
    y = np.ones(4)
    inside = -0.2 * y / 4
    assert math.isfinite(loss.conjugate(inside, y))
    assert math.inf == loss.conjugate(np.append(inside[:3], w / 4), y)


def line_noise(loss: Loss, scores: np.ndarray, direction: np.ndarray, y: np.ndarray, t: float) -> float:
    """How far from zero the derivative at the exact minimiser may be computed, in floating point."""
    moved = np.abs(scores) + np.abs(t * direction) + np.abs(y)
    slope = np.abs(loss.slope(scores + t * direction, y))
    reach = loss.smoothness * (moved + np.abs(direction) * np.spacing(max(abs(t), 1e-300))) / len(y)
    # Relative errors hold down to the smallest normal number; below it a product keeps fewer digits, or none.
    return 16 * EPS * float(np.sum(np.abs(direction) * (slope + reach))) + len(y) * float(np.finfo(float).tiny)


@every_smooth_loss
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_the_line_search_stops_where_the_derivative_vanishes_or_at_an_end(loss, data):
    scores, y = data.draw(rows(loss))
    direction = np.array(data.draw(st.lists(st.floats(-30, 30), min_size=len(y), max_size=len(y))))
    t = loss.minimise_along(scores, direction, y)
    assert 0.0 <= t <= 1.0
    derivative = float(direction @ loss.slope(scores + t * direction, y))
    noise = line_noise(loss, scores, direction, y, t)
    assert derivative <= noise or t == 0.0
    assert derivative >= -noise or t == 1.0


@every_loss
@few
@given(data=st.data())
def test_no_point_of_the_segment_beats_the_line_search(loss, data):
    scores, y = data.draw(rows(loss))
    direction = np.array(data.draw(st.lists(st.floats(-30, 30), min_size=len(y), max_size=len(y))))
    low, high = sorted(data.draw(st.tuples(st.floats(-2, 2), st.floats(-2, 2))))

    def along(t: float) -> float:
        return loss.value(scores + t * direction, y)

    best = loss.minimise_along(scores, direction, y, low, high)
    assert low <= best <= high
    rivals = [*np.linspace(low, high, 41)]
    if high - low > 1e-6:
        rivals.append(minimize_scalar(along, bounds=(low, high), method="bounded").x)
    assert along(best) <= min(along(t) for t in rivals) + 1e-12 * (1.0 + along(best))


@every_loss
def test_a_direction_of_zero_leaves_the_line_search_where_it_starts(loss):
    y = np.array([1.0, -1.0])
    assert loss.minimise_along(np.array([0.3, 0.2]), np.zeros(2), y) == 0.0


@every_loss
def test_a_line_search_refuses_ends_in_the_wrong_order(loss):
    y = np.array([1.0, -1.0])
    with pytest.raises(InvalidInput, match="low <= high"):
        loss.minimise_along(np.zeros(2), y, y, low=1.0, high=0.0)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Huber(0.7)], ids=str)
def test_a_line_search_over_broken_scores_says_so(loss):
    y = np.array([1.0, -1.0])
    with pytest.raises(InvalidInput, match="NaN"):
        loss.minimise_along(np.array([np.nan, 0.0]), y, y)


@every_loss
@few
@given(data=st.data())
def test_no_other_intercept_is_better(loss, data):
    scores, y = data.draw(rows(loss, least=2))

    def shifted(b: float) -> float:
        return loss.value(scores + b, y)

    best = loss.best_intercept(scores, y)
    rival = minimize_scalar(shifted, bounds=(-100, 100), method="bounded").x
    nearby = [best + step for step in (-1.0, -1e-3, 1e-3, 1.0)]
    assert shifted(best) <= min(map(shifted, [rival, *nearby])) + 1e-12 * (1.0 + shifted(best))
    if loss.smooth:
        derivative = float(np.sum(loss.slope(scores + best, y)))
        assert abs(derivative) <= line_noise(loss, scores, np.ones_like(y), y, best)


def test_the_intercept_is_found_when_labels_are_far_from_the_scores():
    y = np.array([1e7, 1e7 + 1.0, 1e7 + 5.0])
    assert Absolute().best_intercept(np.zeros(3), y) == 1e7 + 1.0
    # at the middle label the two others pull with delta each, in opposite directions; 1e-8 is a few roundings of 1e7
    assert pytest.approx(Huber(0.5).best_intercept(np.zeros(3), y), rel=0, abs=1e-8) == 1e7 + 1.0


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=str)
def test_one_class_alone_has_no_best_intercept(loss):
    with pytest.raises(InvalidInput, match="other class"):
        loss.best_intercept(np.zeros(3), np.ones(3))


def test_logistic_survives_scores_that_would_overflow_an_exponential():
    scores, y = np.array([1e4, -1e4, 800.0, -800.0]), np.array([1.0, 1.0, -1.0, -1.0])
    assert Logistic().value(scores, y) == 2700.0
    assert np.array_equal([0.0, -0.25, 0.25, 0.0], Logistic().slope(scores, y))
    assert np.array_equal(np.zeros(4), Logistic().curvature(scores, y))


def test_links_give_values_probabilities_or_classes():
    scores = np.array([-2.0, 0.0, 3.0])
    assert SquaredHinge().link(scores).tolist() == Hinge().link(scores).tolist() == [-1.0, 1.0, 1.0]
    assert [1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-3))] == pytest.approx(Logistic().link(scores).tolist())
    for loss in (LeastSquares(), Huber(1.0), Absolute(), Quantile(0.9)):
        assert scores.tolist() == loss.link(scores).tolist()
        assert not loss.classifies


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=str)
@pytest.mark.parametrize(
    "y", [[0, 1, 1], [False, True, True], [-1, 1, 1], np.array([-1.0, 1, 1], dtype=object)], ids=str
)
def test_two_classes_are_read_as_minus_and_plus_one(loss, y):
    checked = loss.check(y)
    assert checked.tolist() == [-1.0, 1.0, 1.0]
    assert np.float64 == checked.dtype


@every_loss
@pytest.mark.parametrize(
    ("y", "advice"),
    [
        ([], "at least one row"),
        ([1.0, np.nan], "1 of 2 labels"),
        ([np.inf, 1.0, -np.inf], "2 of 3 labels"),
        (["yes", "no"], "convert"),
        ([1j, 2.0], "convert"),
        ([1.0, None, "x"], "convert"),
        (3.0, "one number for each row"),
    ],
    ids=str,
)
def test_labels_that_are_not_numbers_are_refused_with_advice(loss, y, advice):
    with pytest.raises(InvalidInput, match=advice):
        loss.check(y)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=str)
@pytest.mark.parametrize(
    ("y", "advice"),
    [
        ([1, 1, 1], "other class"),
        ([0, 0], "other class"),
        ([0, 1, 2], "map the two classes"),
        ([-1, 0, 1], "map the two classes"),
        ([[0], [1]], "one label for each row"),
    ],
    ids=str,
)
def test_labels_of_another_kind_are_no_classes(loss, y, advice):
    with pytest.raises(InvalidInput, match=advice):
        loss.check(y)


def test_refused_labels_are_counted_and_never_shown():
    with pytest.raises(InvalidInput) as refused:
        Logistic().check([41.5, 73.25, 41.5])
    assert "41" not in str(refused.value)
    assert "73" not in str(refused.value)


@every_loss
def test_a_column_against_a_row_is_refused_instead_of_broadcast(loss):
    with pytest.raises(InvalidInput, match="ravel"):
        loss.value(np.zeros(3), np.ones((3, 1)))


@pytest.mark.parametrize(
    "broken", [lambda: Huber(0.0), lambda: Huber(math.nan), lambda: Quantile(0.0), lambda: Quantile(1.0)]
)
def test_a_loss_with_a_meaningless_setting_cannot_be_made(broken):
    with pytest.raises(InvalidInput, match="It is the"):
        broken()


@every_loss
@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf])
def test_a_prox_needs_a_step_above_zero(loss, step):
    with pytest.raises(InvalidInput, match="step"):
        loss.prox(np.zeros(2), np.ones(2), step)


def test_several_responses_are_one_mean_over_rows():
    scores, y = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    assert pytest.approx(LeastSquares().value(scores, y)) == 0.5 * (1 + 0 + 1 + 4 + 9 + 16) / 3
    assert LeastSquares().slope(scores, y).shape == (3, 2)
