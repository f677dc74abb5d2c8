"""Rows of real numbers as whole steps of a grid, none longer than a public bound: one pass.

Claim    row r becomes round((a - centre)·factor), every entry within its bounds; and if its squares, each times the
         square of its column's unit, sum to more than `norm2`, it is shortened toward zero until they do not.
Why      row by row and in this order, so that no row tells about another; the last check is in integers.
Leaves   nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def whole_rows(values, keep, centre, factor, low, high, unit, most, largest, norm2, out):  # type: ignore[no-untyped-def]  # numba
    """`out` gets the rows of `values[:, keep]` on the grid; returns how many were over the bound.

    A cell that is no number counts as zero, one over `largest` as that: whatever it holds, all that follows is finite.
    `most` is ⌊√norm2⌋ in units. The caller makes sure that columns · norm2 < 2^63: squares of entries within that
    cannot wrap and look short.
    """
    shortened = 0
    for r in range(values.shape[0]):
        far, squares = False, 0
        for j in range(keep.size):
            cell = values[r, keep[j]]
            cell = 0.0 if math.isnan(cell) else min(max(cell, -largest), largest)
            real = np.rint((cell - centre[j]) * factor[j])
            whole = low[j] if real <= low[j] else high[j] if real >= high[j] else np.int64(real)
            if whole > most[j] or whole < -most[j]:
                far, whole = True, most[j] if whole > 0 else -most[j]
            out[r, j] = whole
            squares += (whole * unit[j]) ** 2
        if far or squares > norm2:
            shortened += 1
        part = math.sqrt(norm2 / max(squares, 1))
        while squares > norm2:
            total = 0
            for j in range(keep.size):
                total += (np.int64(out[r, j] * part) * unit[j]) ** 2  # cut toward zero
            if total <= norm2:
                for j in range(keep.size):
                    out[r, j] = np.int64(out[r, j] * part)
                squares = total
            part *= 1.0 - 2.0**-40  # a hair of rounding is left; try again
    return shortened


@njit(cache=True, nogil=True)
def add_squares(rows, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[j] += the sum of squares of column j."""
    for r in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[j] += np.int64(rows[r, j]) * np.int64(rows[r, j])


@njit(cache=True, nogil=True)
def add_products(rows, weights, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out += rowsᵀ·weights, for a few columns of weights."""
    for r in range(rows.shape[0]):
        for k in range(weights.shape[1]):
            weight = np.int64(weights[r, k])
            for j in range(rows.shape[1]):
                out[j, k] += np.int64(rows[r, j]) * weight
