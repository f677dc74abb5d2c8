"""The Poisson loss against its definition in 60-digit arithmetic, and its parts against each other and CVXPY."""

from __future__ import annotations

import math

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.problem import Poisson

EPS = np.finfo(np.float64).eps
few = settings(deadline=None, max_examples=40)
LOSS = Poisson()


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores and counts of 1 to 8 rows, one of which has an event."""
    n = draw(st.integers(1, 8))
    scores = np.array(draw(st.lists(st.floats(-30, 12), min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.integers(0, 5).map(float) | st.floats(0, 1e4), min_size=n, max_size=n)))
    y[0] += 1.0
    return scores, y


@few
@given(of=rows())
def test_value_slope_and_curvature_are_those_of_the_definition(of):
    scores, y = of
    with mp.workdps(60):
        rates = [mp.exp(mp.mpf(s)) for s in scores]
        value = mp.fsum(r - mp.mpf(t) * mp.mpf(s) for r, s, t in zip(rates, scores, y, strict=True)) / len(y)
        slope = [float((r - mp.mpf(t)) / len(y)) for r, t in zip(rates, y, strict=True)]
        bend = [float(r / len(y)) for r in rates]
    size = float(np.max(np.exp(scores) + np.abs(y * scores) + y))
    assert float(value) == pytest.approx(LOSS.value(scores, y), abs=16 * EPS * size)
    assert slope == pytest.approx(LOSS.slope(scores, y).tolist(), abs=8 * EPS * size)
    assert bend == pytest.approx(LOSS.curvature(scores, y).tolist(), rel=8 * EPS)
    assert LOSS.link(scores).tolist() == pytest.approx([float(r) for r in rates], rel=8 * EPS)


@settings(deadline=None, max_examples=60)
@given(of=rows(), power=st.floats(-6, 8))
def test_the_prox_is_right_to_the_last_digits_for_steps_from_tiny_to_huge(of, power):
    v, y = of
    h = 10.0**power
    found = LOSS.prox(v, y, h * len(y))
    for i in range(len(y)):
        with mp.workdps(60):
            target = mp.mpf(v[i]) + mp.mpf(h) * mp.mpf(y[i])
            exact = target - mp.lambertw(mp.mpf(h) * mp.exp(target))
            # v, y, h and their sum are rounded a few times each; their size is that of what is added up
            size = abs(float(v[i])) + h * float(y[i]) + abs(math.log(h)) + abs(float(exact)) + 1.0
            slack = size if float(exact) < math.log(0.5 / h) else abs(math.log(h)) + abs(float(exact)) + 1.0
            # where omega is not small, an error of its argument t is an error of log(omega) that is t times smaller
            assert abs(float(exact - mp.mpf(float(found[i])))) <= 16 * EPS * slack


@few
@given(of=rows())
def test_slope_and_conjugate_meet_in_fenchel_youngs_equality(of):
    scores, y = of
    u = LOSS.slope(scores, y)
    size = float(np.max((np.exp(scores) + y + 1.0) * (np.abs(scores) + np.log1p(y) + 1.0)))
    # on the edge of the domain p·log p is only as flat as its logarithm: 1e-12 holds for every p that rounding leaves
    assert float(u @ scores) == pytest.approx(LOSS.value(scores, y) + LOSS.conjugate(u, y), abs=1e-12 * size)


@few
@given(of=rows(), data=st.data())
def test_value_plus_conjugate_is_never_below_the_product(of, data):
    scores, y = of
    p = np.array(data.draw(st.lists(st.floats(0, 100), min_size=len(y), max_size=len(y))))
    u = (p - y) / len(y)
    total = LOSS.value(scores, y) + LOSS.conjugate(u, y)
    size = float(np.max((np.exp(scores) + y + 1.0) * (np.abs(scores) + 1.0)))
    assert float(u @ scores) <= total + 1e-13 * size


def test_the_conjugate_is_infinite_where_a_rate_would_be_negative():
    y = np.array([2.0, 0.0])
    assert math.isfinite(LOSS.conjugate(np.array([-1.0, 0.0]), y))  # on the edge: rates of 0
    assert math.inf == LOSS.conjugate(np.array([-1.001, 0.0]), y)
    assert math.inf == LOSS.conjugate(np.array([0.0, -0.001]), y)
    assert math.inf == LOSS.conjugate(np.array([0.0, math.nan]), y)


@few
@given(of=rows(), data=st.data())
def test_no_point_of_the_segment_beats_the_line_search(of, data):
    scores, y = of
    direction = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=len(y), max_size=len(y))))

    def along(t: float) -> float:
        return LOSS.value(scores + t * direction, y)

    best = LOSS.minimise_along(scores, direction, y)
    assert 0.0 <= best <= 1.0
    size = float(np.max(np.exp(scores + best * direction) + y * (np.abs(scores) + 3.0))) + 1.0
    assert along(best) <= min(along(t) for t in np.linspace(0, 1, 41)) + 1e-12 * size


@few
@given(of=rows())
def test_rates_at_the_best_intercept_add_up_to_the_counts(of):
    scores, y = of
    rates = LOSS.link(scores + LOSS.best_intercept(scores, y))
    assert float(np.sum(rates)) == pytest.approx(float(np.sum(y)), rel=1e-13)


@pytest.mark.parametrize("step", [0.5, 5.0, 50.0])
def test_no_solver_finds_a_better_prox(step):
    rng = np.random.default_rng(7)
    v, y = rng.normal(size=5), rng.poisson(2.0, size=5).astype(float)
    s = cp.Variable(5)
    value = cp.sum(cp.exp(s) - cp.multiply(y, s)) / 5 + cp.sum_squares(s - v) / (2 * step)
    cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)

    def objective(point: np.ndarray) -> float:
        return LOSS.value(point, y) + float(np.sum((point - v) ** 2)) / (2 * step)

    ours = LOSS.prox(v, y, step)
    assert objective(ours) <= objective(s.value) + 1e-14
    assert objective(ours) == pytest.approx(objective(s.value), abs=1e-6)  # the solver's own accuracy


def test_scores_that_would_overflow_an_exponential_stay_finite():
    scores, y = np.array([1e4, 800.0, -1e4]), np.array([1.0, 0.0, 3.0])
    assert math.isfinite(LOSS.value(scores, y))
    assert np.isfinite(LOSS.slope(scores, y)).all()
    assert LOSS.minimise_along(np.zeros(3), scores, y) < 1e-2  # the step stops long before that
    assert np.isfinite(LOSS.prox(scores, y, 1e6)).all()


@pytest.mark.parametrize(
    ("y", "advice"),
    [
        ([0, 2, -1], "1 of 3 counts are below 0"),
        ([0, 0, 0], "all 3 counts are 0"),
        ([[1, 2], [3, 4]], "one count for each row"),
        ([1.0, np.nan], "1 of 2 labels"),
    ],
    ids=str,
)
def test_labels_that_are_no_counts_are_refused_with_advice(y, advice):
    with pytest.raises(InvalidInput, match=advice):
        co.Poisson().check(y)


def test_without_an_event_there_is_no_best_intercept():
    with pytest.raises(InvalidInput, match="all 3 counts are 0"):
        LOSS.best_intercept(np.zeros(3), np.zeros(3))


def test_the_slope_has_no_bound_and_says_so():
    assert LOSS.smooth
    assert math.inf == LOSS.smoothness
    assert not LOSS.classifies
