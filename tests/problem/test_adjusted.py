"""A loss whose rows have offsets and weights: against sums of single rows, repeated rows, and its parts among each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from colonnade.errors import InvalidInput
from colonnade.problem import Absolute, Huber, LeastSquares, Logistic, Poisson, Quantile, SquaredHinge
from colonnade.problem.adjusted import Adjusted, ClassWeighted, check_offset, check_weight

LOSSES = [
    *(LeastSquares(), Logistic(), SquaredHinge(), Huber(0.7), Absolute(), Quantile(0.3), Poisson()),
    ClassWeighted(Logistic(), 0.5, 3.0),
]


def on_every_loss(test):
    generated = settings(deadline=None, max_examples=25)(given(seed=st.integers(0, 10_000))(test))
    return pytest.mark.parametrize("plain", LOSSES, ids=str)(generated)


def problem(plain, seed, count=9):
    """The loss, scores, labels, offsets and weights of some rows, both classes among them."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=count)
    if plain.classifies:
        y = np.where(np.arange(count) % 3 == 0, 1.0, -1.0)
    elif isinstance(plain, Poisson):
        y = 1.0 + rng.poisson(2.0, size=count)
    offset, weight = rng.normal(size=count), rng.uniform(0.05, 20.0, size=count)
    return Adjusted.of(plain, count, offset, weight), 2 * rng.normal(size=count), y, offset, weight


def one_by_one(plain, scores, y, offset, weight):
    """(1/Σw) Σ w·φ(s + o, y), a row at a time: the plain loss of one row is φ."""
    each = [
        w * plain.value(np.array([s + o]), np.array([t])) for s, t, o, w in zip(scores, y, offset, weight, strict=True)
    ]
    return math.fsum(each) / math.fsum(weight)


@on_every_loss
def test_the_value_is_the_weighted_mean_of_shifted_rows(plain, seed):
    loss, s, y, offset, weight = problem(plain, seed)
    assert loss.value(s, y) == pytest.approx(one_by_one(plain, s, y, offset, weight), rel=1e-12)
    direction = np.random.default_rng(seed + 1).normal(size=y.size)
    line = loss.value(s, y) + loss.slope(s, y) @ direction
    assert line <= loss.value(s + direction, y) + 1e-12 * (1.0 + abs(line))  # a subgradient
    if plain.smooth and not isinstance(plain, SquaredHinge | Huber):  # those have kinks in their slope
        h = 1e-5  # the error is h² times a fourth derivative (that of exp: below 1e4 here), and rounding over h
        bend = (loss.slope(s + h * direction, y) - loss.slope(s - h * direction, y)) @ direction / (2 * h)
        assert bend == pytest.approx(float(loss.curvature(s, y) @ direction**2), rel=1e-5, abs=1e-8)


@on_every_loss
def test_a_weight_of_three_is_three_rows(plain, seed):
    _, s, y, offset, _ = problem(plain, seed)
    weight = 1.0 + np.arange(y.size) % 3
    often = np.repeat(np.arange(y.size), weight.astype(int))
    once = Adjusted.of(plain, y.size, offset, weight)
    repeated = Adjusted.of(plain, often.size, offset[often], None)
    assert once.value(s, y) == pytest.approx(repeated.value(s[often], y[often]), rel=1e-12)
    # Where a loss is flat several intercepts are best; they are worth the same.
    best, other = once.best_intercept(s, y), repeated.best_intercept(s[often], y[often])
    assert once.value(s + best, y) == pytest.approx(once.value(s + other, y), rel=1e-12, abs=1e-12)


@on_every_loss
def test_the_prox_is_where_a_slope_balances_the_distance(plain, seed):
    loss, v, y, _, _ = problem(plain, seed)
    step = 10.0 ** (seed % 5 - 2)
    s = loss.prox(v, y, step)

    def objective(point):
        return loss.value(point, y) + float(np.sum((point - v) ** 2)) / (2 * step)

    rng = np.random.default_rng(seed)
    rivals = [s + scale * rng.normal(size=s.size) for scale in (1e-4, 1e-2, 1.0) for _ in range(5)]
    # Strongly convex with 1/step, so that every other point is worse by its squared distance over 2·step.
    for rival in rivals:
        worse = float(np.sum((rival - s) ** 2)) / (2 * step)
        assert objective(rival) >= objective(s) + worse - 1e-12 * (1.0 + abs(objective(s)) + worse)


@on_every_loss
def test_slope_and_conjugate_meet_in_fenchel_youngs_equality(plain, seed):
    loss, s, y, _, _ = problem(plain, seed)
    u = loss.slope(s, y)
    size = 1.0 + float(np.sum(np.abs(u) * (np.abs(s) + np.abs(y) + 10.0))) + abs(loss.value(s, y))
    assert float(u @ s) == pytest.approx(loss.value(s, y) + loss.conjugate(u, y), abs=1e-12 * size)
    other = 2 * np.random.default_rng(seed + 1).normal(size=y.size)
    assert float(u @ other) <= loss.value(other, y) + loss.conjugate(u, y) + 1e-12 * size


@on_every_loss
def test_no_other_point_of_the_line_nor_intercept_is_better(plain, seed):
    loss, s, y, _, _ = problem(plain, seed)
    direction = np.random.default_rng(seed + 1).normal(size=y.size)

    def along(t):
        return loss.value(s + t * direction, y)

    def shifted(b):
        return loss.value(s + b, y)

    best, b = loss.minimise_along(s, direction, y), loss.best_intercept(s, y)
    rival = minimize_scalar(shifted, bounds=(-50, 50), method="bounded").x
    assert along(best) <= min(along(t) for t in np.linspace(0, 1, 41)) + 1e-12 * (1.0 + abs(along(best)))
    assert shifted(b) <= min(map(shifted, (rival, b - 1e-3, b + 1e-3))) + 1e-12 * (1.0 + abs(shifted(b)))


@on_every_loss
def test_weights_that_are_all_alike_change_nothing(plain, seed):
    _, s, y, _, _ = problem(plain, seed)
    alike = Adjusted.of(plain, y.size, None, np.full(y.size, 7.0))
    assert alike.value(s, y) == pytest.approx(plain.value(s, y), rel=1e-14)
    assert alike.prox(s, y, 2.0) == pytest.approx(plain.prox(s, y, 2.0), rel=1e-13, abs=1e-13)
    assert alike.smoothness == plain.smoothness
    assert alike.link(s).tolist() == plain.link(s).tolist()


@pytest.mark.parametrize(
    ("check", "values", "advice"),
    [
        (check_offset, [0.0, -np.inf, np.nan], "2 of 3 offsets .* leave rows without exposure out"),
        (check_offset, ["a", "b"], "one number for each row"),
        (check_weight, [1.0, 0.0, -2.0], "2 of 3 weights .* leave rows of weight 0 out"),
        (check_weight, [[1.0], [2.0]], "one number for each row"),
    ],
    ids=["no offset", "text", "no weight", "a table"],
)
def test_offsets_and_weights_that_are_none_are_counted_and_refused(check, values, advice):
    with pytest.raises(InvalidInput, match=advice):
        check(np.asarray(values))


@pytest.mark.parametrize("steps", [np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.ones(3)], ids=str)
def test_steps_by_row_are_one_positive_number_each(steps):
    with pytest.raises(InvalidInput, match="steps of"):
        LeastSquares().prox(np.zeros(2), np.ones(2), steps)
