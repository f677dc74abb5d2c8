"""The zero of a rising function of one variable: Newton inside a bracket, bisection when Newton fails.

Deterministic; stops at float resolution, or when the function is zero up to the rounding in its own sum.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from colonnade.errors import InvalidInput


class Derivative(NamedTuple):
    """A derivative along a line, its own derivative, and the rounding error it may carry."""

    value: float
    curvature: float
    rounding: float


Along = Callable[[float], Derivative]


def rising_zero(along: Along, low: float, high: float) -> float:
    """The point of [low, high] where `along` changes sign; an end when it does not."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"cannot search from low={low} to high={high}: give finite low <= high.")
    start = along(low)
    end = along(high)
    at_low = start.value
    at_high = end.value
    if math.isnan(at_low) or math.isnan(at_high):
        raise InvalidInput("the slope along this line is NaN: check scores and direction for NaN or infinity.")
    if at_low >= 0.0:
        return float(low)
    if at_high <= 0.0:
        return float(high)
    # The first guess is Newton's from whichever end is nearer to zero: both are paid for already.
    near, guess = (low, start) if abs(at_low) <= abs(at_high) else (high, end)
    point = near - guess.value / guess.curvature if guess.curvature > 0.0 else near
    if not low < point < high:
        point = 0.5 * (low + high)
    before = high - low
    for _ in range(2200):  # halving from the largest to the smallest float takes fewer
        value, curvature, rounding = along(point)
        if abs(value) <= rounding:
            return point
        if value < 0.0:
            low = point
        else:
            high = point
        step = value / curvature if curvature > 0.0 else float("inf")
        # A Newton step must stay inside and be half the step before; else the bracket is halved. Either
        # way the step shrinks by two each time, so the loop ends whatever the function looks like.
        if not low < point - step < high or abs(step) > 0.5 * before:
            step = point - 0.5 * (low + high)
        before = abs(step)
        following = point - step
        if following in (point, low, high):
            return following
        point = following
    return point


def unbounded_zero(along: Along) -> float:
    """The zero of `along` anywhere on the line: a bracket grows from 0, twice Newton's step first, at most 1."""
    along = cache(along)  # the ends of the bracket are looked at again
    value, curvature, rounding = along(0.0)
    if not abs(value) > rounding:  # also what is no number, which is refused there
        return rising_zero(along, 0.0, 0.0)
    newton = 2.0 * abs(value) / curvature if curvature > 0.0 else 1.0
    sign = math.copysign(1.0, value)
    far = newton if 0.0 < newton < 1.0 else 1.0
    while sign * along(-sign * far).value > 0.0:
        far *= 2.0
        if far > 0.25 * sys.float_info.max:
            raise InvalidInput("the objective falls without end along this line: it has no minimum.")
    return rising_zero(along, min(0.0, -sign * far), max(0.0, -sign * far))
