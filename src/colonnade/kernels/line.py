"""The logistic loss along a line: slope, curvature and their size in one pass, one exponential per row."""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True)
def logistic_along(scores, direction, y, t):  # type: ignore[no-untyped-def]  # numba infers the types
    """Sums over rows of d.phi'(s + t.d), of d^2.phi'' and of |d.phi'|."""
    slope = curvature = size = 0.0
    for i in range(y.size):
        d = direction[i]
        moved = scores[i] + t * d
        e = math.exp(-abs(moved))
        likely = 1.0 / (1.0 + e)
        unlikely = e * likely
        term = -y[i] * d * (unlikely if y[i] * moved >= 0.0 else likely)
        slope += term
        curvature += d * d * likely * unlikely
        size += abs(term)
    return slope, curvature, size
