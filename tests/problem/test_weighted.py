"""A weighted loss against its definition, and its parts against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from colonnade.errors import InvalidInput
from colonnade.problem import Absolute, LeastSquares, Logistic, SquaredHinge
from colonnade.problem.adjusted import ClassWeighted

EPS = np.finfo(np.float64).eps


def any_weights(test):
    """On generated rows, for both losses."""
    weight = st.floats(0.05, 20.0)
    generated = given(seed=st.integers(0, 10_000), negative=weight, positive=weight)(test)
    return pytest.mark.parametrize("plain", [Logistic(), SquaredHinge()], ids=str)(
        settings(deadline=None, max_examples=30)(generated)
    )


def rows(seed: int, count: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(count) % 3 == 0, 1.0, -1.0)
    return 2 * rng.normal(size=count), rng.normal(size=count), y


def one_by_one(plain, negative, positive, scores, y):
    """Σ w(y)·φ/n, a row at a time: the plain loss of one row is φ."""
    return math.fsum(
        (positive if label > 0 else negative) * plain.value(np.array([s]), np.array([label]))
        for s, label in zip(scores, y, strict=True)
    ) / len(y)


@any_weights
def test_every_row_counts_by_its_class(plain, seed, negative, positive):
    loss = ClassWeighted(plain, negative, positive)
    s, d, y = rows(seed)
    assert loss.value(s, y) == pytest.approx(one_by_one(plain, negative, positive, s, y), rel=1e-13)
    h = 1e-6  # the error of a central difference is h² times a third derivative, below 20 here, and rounding over h
    slope = (loss.value(s + h * d, y) - loss.value(s - h * d, y)) / (2 * h)
    assert slope == pytest.approx(float(loss.slope(s, y) @ d), abs=1e-8 * (1 + loss.value(s, y)))
    if plain == Logistic():  # a hinge has a kink in its slope
        bend = (loss.slope(s + h * d, y) - loss.slope(s - h * d, y)) @ d / (2 * h)
        assert bend == pytest.approx(float(loss.curvature(s, y) @ d**2), abs=1e-8 * (1 + loss.value(s, y)))
    assert loss.curvature(s, y).max() * y.size <= loss.smoothness * (1 + 4 * EPS)


@any_weights
def test_the_prox_is_where_the_slope_balances_the_distance(plain, seed, negative, positive):
    loss, step = ClassWeighted(plain, negative, positive), 10.0 ** (seed % 5 - 2)
    v, _, y = rows(seed)
    s = loss.prox(v, y, step)
    assert np.abs(step * loss.slope(s, y) + s - v).max() <= 1e-9 * (1 + step * loss.smoothness / y.size) * (
        1 + np.abs(v).max()
    )


@any_weights
def test_the_conjugate_meets_the_value_at_the_slope_and_bounds_it_elsewhere(plain, seed, negative, positive):
    loss = ClassWeighted(plain, negative, positive)
    s, d, y = rows(seed)
    u = loss.slope(s, y)
    assert loss.conjugate(u, y) == pytest.approx(float(u @ s) - loss.value(s, y), abs=1e-11 * (1 + loss.value(s, y)))
    assert loss.conjugate(u, y) >= float(u @ (s + d)) - loss.value(s + d, y) - 1e-11
    assert math.isinf(loss.conjugate(-100 * max(negative, positive) * u, y))


@any_weights
def test_lines_and_intercepts_are_searched_to_their_minimum(plain, seed, negative, positive):
    loss = ClassWeighted(plain, negative, positive)
    s, d, y = rows(seed)
    along = minimize_scalar(
        lambda t: loss.value(s + t * d, y), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
    )
    t = loss.minimise_along(s, d, y)
    assert 0.0 <= t <= 1.0
    assert loss.value(s + t * d, y) <= along.fun + 1e-12 * (1 + along.fun)
    b = loss.best_intercept(s, y)
    assert abs(loss.slope(s + b, y).sum()) <= 1e-12 * np.abs(loss.slope(s + b, y)).sum() + 1e-15


def test_a_loss_without_classes_and_a_weight_that_is_none_are_refused():
    for plain in (LeastSquares(), Absolute()):
        with pytest.raises(InvalidInput, match="has no two classes to weigh"):
            ClassWeighted(plain, 1.0, 1.0)
    for bad in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidInput, match="positive"):
            ClassWeighted(Logistic(), 1.0, bad)
    with pytest.raises(InvalidInput, match="the same class"):
        ClassWeighted(Logistic(), 1.0, 2.0).best_intercept(np.zeros(3), np.ones(3))
