"""Block coordinate descent for a penalised least-squares target: arrays in, arrays out.

Solves   min_x  rho/2 ‖A x − t‖² + l2/2 ‖x‖² + Σ_g limit_g ‖x_g‖₂, groups side by side; a group of one column is an ℓ1
         term.
Source   textbook: with H = rho·‖A_g‖² + l2, which bounds the curvature of the smooth part, each group takes the
         proximal step x_g ← shrink(x_g − ∇_g/H, limit_g/H); for one column that is the exact minimiser.
Cost     one pass over the stored entries a sweep; the residual is kept up to date.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


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
