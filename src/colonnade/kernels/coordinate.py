"""Coordinate descent for a quadratic with absolute values: arrays in, arrays out.

Solves   min_x ½x'Gx − b'x + l1‖x‖₁ + l2/2‖x‖², one coordinate at a time, each exactly.
Cost     O(d) for a coordinate that moves, O(1) for one that stays: the slope b − Gx is kept up to date in place.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from colonnade.kernels.arrays import Floats

ACTIVE_PASSES = 20  # over the coordinates that are not zero, after each pass over all


@njit(cache=True)
def _sweep(G: Floats, l1: float, l2: float, x: Floats, slope: Floats, everywhere: bool) -> float:
    """One sweep; x and slope change in place. The largest change, in units of the objective's root."""
    largest = 0.0
    for j in range(x.size):
        old = x[j]
        curvature = G[j, j] + l2
        if (old == 0.0 and not everywhere) or curvature <= 0.0:
            continue
        pull = slope[j] + G[j, j] * old
        new = 0.0
        if pull > l1:
            new = (pull - l1) / curvature
        elif pull < -l1:
            new = (pull + l1) / curvature
        move = new - old
        if move != 0.0:
            x[j] = new
            for i in range(x.size):
                slope[i] -= move * G[j, i]  # G is symmetric: a row lies together in memory
            largest = max(largest, move * move * curvature)
    return float(np.sqrt(largest))


@njit(cache=True)
def coordinate_descent(G: Floats, l1: float, l2: float, x: Floats, slope: Floats) -> None:
    """A sweep over all coordinates, then sweeps over those in use until they settle; x and slope change in place."""
    first = _sweep(G, l1, l2, x, slope, True)
    for _ in range(ACTIVE_PASSES):
        if _sweep(G, l1, l2, x, slope, False) <= 1e-3 * first:
            break
