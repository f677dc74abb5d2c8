"""Descent by sweeps over coordinates and with momentum: arrays in, arrays out.

Serves   two solvers, which know where to begin and when to stop: problem/nearest.py has columns (Blocks),
         problem/quadratic.py their products (Gram); both take steps with momentum where they have no sweep.
Blocks   min_x  rho/2 ‖A x − t‖² + l2/2 ‖x‖² + Σ_g limit_g ‖x_g‖₂, groups side by side; a group of one column is an ℓ1
         term. Textbook: with H = rho·‖A_g‖² + l2, which bounds the curvature of the smooth part, each group takes the
         proximal step x_g ← shrink(x_g − ∇_g/H, limit_g/H); for one column that is the exact minimiser. One pass over
         the stored entries a sweep; the residual is kept up to date.
Gram     min_x ½x'Gx − b'x + l1‖x‖₁ + l2/2‖x‖², one coordinate at a time, each exactly: O(d) for a coordinate that
         moves, O(1) for one that stays, because the slope b − Gx is kept up to date in place.

Momentum how far ahead of its last point a proximal gradient looks: Nesterov 1983, Beck and Teboulle 2009; begun anew
         where it turned back, O'Donoghue and Candès 2015.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from colonnade.kernels.arrays import Floats

ACTIVE_PASSES = 20  # over the coordinates that are not zero, after each pass over all


@njit(cache=True)
def block_descent(data, indices, indptr, starts, limits, norms, l2, rho, x, residual, tolerance, sweeps):  # type: ignore[no-untyped-def]  # numba infers the types
    """Sweeps over the groups starts[g] … starts[g+1]−1 of a CSC block, in place on x and on residual = t − A x.

    Stops after a sweep in which no group moved its prediction by more than `tolerance`; returns the sweeps made.
    norms[g] is ‖A_g‖², the square of the largest singular value.
    """
    point = np.empty(x.size)
    for sweep in range(sweeps):
        farthest = 0.0
        for g in range(starts.size - 1):
            if norms[g] == 0.0:  # columns of zeros: their coefficients stay at 0, where they start
                continue
            curvature = rho * norms[g] + l2
            length = 0.0
            for j in range(starts[g], starts[g + 1]):
                pull = 0.0
                for k in range(indptr[j], indptr[j + 1]):
                    pull += data[k] * residual[indices[k]]
                point[j] = x[j] + (rho * pull - l2 * x[j]) / curvature
                length += point[j] * point[j]
            length = math.sqrt(length)
            kept = max(0.0, 1.0 - limits[g] / (curvature * length)) if length > 0.0 else 0.0
            moved = 0.0
            for j in range(starts[g], starts[g + 1]):
                change = kept * point[j] - x[j]
                if change != 0.0:
                    x[j] += change
                    moved += change * change
                    for k in range(indptr[j], indptr[j + 1]):
                        residual[indices[k]] -= change * data[k]
            farthest = max(farthest, math.sqrt(moved * norms[g]))
        if farthest <= tolerance:
            return sweep + 1
    return sweeps


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


def look_ahead(x: Floats, ahead: Floats, new: Floats, momentum: float) -> tuple[Floats, float]:
    """Where to step from next, and the momentum there: x led to `ahead`, and a step from there to `new`."""
    change = new - x
    if float(np.vdot(ahead - new, change)) > 0.0:  # it turned back: start the momentum anew
        momentum = 1.0
    grown = 0.5 + math.sqrt(0.25 + momentum * momentum)
    return new + (momentum - 1.0) / grown * change, grown
