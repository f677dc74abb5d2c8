"""Scores of columns in whole numbers: Σ x·q, each product cut towards zero to a whole number of grid steps.

Claim    replacing a row moves a score by at most 2·feature_bound·cap exactly, whatever the rounding, and a score does
         not depend on the order of addition: vector code, scalar code and cached slopes give the same integer.
Source   ours. Values are clipped to ±feature_bound where they are read, NaN becomes the bound.
Leaves   nothing: arrays in, arrays out.
Price    one pass over the column: with an exponential for each nonzero, or without where all slopes are at hand.

Beside a score s(v) = Σ x·q(v) comes its trend, Σ x·q'(v)·v, which says how it moves when all predictions shrink
together, and its bend, Σ |x|·min(BEND, CURVE·v²), which bounds how far from linear that is:
|s(r·v) − s(v) − (r − 1)·trend| ≤ ½·((1 − r)/r)²·bend for 0 < r ≤ 1, since |z²·q''(z)| ≤ min(BEND, CURVE·z²).
Trend and bend are floating-point sums in any order, within 1e-8·Σ|x| of the true ones: there may be 2^25 terms, each
within 1e-12·|x|. Only the logistic loss has a second derivative; for the others the trend is 0 and the bend so large
that it bounds nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.sparse_fw import LOGISTIC, logistic_slope, residual_slope, slopes

CURVE = 0.09623  # max of |q''| = 1/(6√3) = 0.096225…
BEND = 0.376  # max of |z²·q''(z)| = 0.37598…
NO_BEND = 1e150  # its products with other numbers stay finite
FARTHEST = 1000.0  # beyond this prediction q' is 0 and what is computed for it is rounding: kept from growing

BLOCK = 64  # nonzeros that are gathered before vector instructions take over
# 1.5·2^52 leaves a whole number of at most 2^51 in the low bits of its sum: a conversion that vector units have
WHOLE = 6755399441055744.0
WHOLE_BITS = np.float64(WHOLE).view(np.int64)


def grid_of(rows: int, largest: float) -> float:
    """The grid, public: 2^-61 of the largest score or 2^-51 of the largest product, rounded up to a power of two."""
    return float(2.0 ** (math.ceil(math.log2(largest)) + max(math.ceil(math.log2(rows)) - 61, -51)))


@njit(inline="always")
def clipped(x: Any, bound: float) -> Any:
    """x within ±bound, as a double; comparisons are written so that NaN becomes `bound`."""
    below_top = np.float64(x) if np.float64(x) < bound else bound
    return below_top if below_top > -bound else -bound


@njit(inline="always")
def whole(value: float) -> Any:
    """The value cut towards zero, as an integer, if it is within ±2^51."""
    return np.float64(np.trunc(value) + WHOLE).view(np.int64) - WHOLE_BITS


@njit(cache=True, error_model="numpy")
def score(
    data: Array,
    indices: Array,
    start: int,
    stop: int,
    rows: Floats,
    m: float,
    loss: int,
    limit: float,
    bound: float,
    steps: float,
) -> Any:
    """A short column's score in grid steps; `steps` is one over the grid. Row i is (u_i, y_i), its prediction m·u_i."""
    total = np.int64(0)
    for z in range(start, stop):
        x = clipped(data[z], bound)
        i = indices[z]
        u = rows[i, 0]
        y = rows[i, 1]
        q = logistic_slope(m * u, y) if loss == LOGISTIC else residual_slope(loss, m * u, y, limit)
        total += whole(x * q * steps)
    return total


# "reassoc" lets sums be taken in any order. A product is never regrouped into another value by it: in x·q·steps the
# last factor is a power of two. Slopes are computed by `slopes`, which is compiled without it.


@njit(cache=True, error_model="numpy")
def _block_slopes(loss: int, limit: float, width: int, block: Floats) -> None:
    if loss == LOGISTIC:
        for j in range(width):
            block[3, j] = logistic_slope(block[1, j], block[2, j])
    else:
        for j in range(width):
            block[3, j] = residual_slope(loss, block[1, j], block[2, j], limit)


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def _block_sums(width: int, block: Floats, steps: float) -> Any:
    total = np.int64(0)
    trend = 0.0
    bend = 0.0
    for j in range(width):
        x = block[0, j]
        v = block[1, j]
        q = block[3, j]
        total += whole(x * q * steps)
        near = min(max(v, -FARTHEST), FARTHEST)
        trend += x * (abs(q) * (1.0 - abs(q)) * near)
        bend += abs(x) * min(BEND, CURVE * v * v)
    return total, trend, bend


@njit(cache=True)
def score_and_trend(
    data: Array,
    indices: Array,
    start: int,
    stop: int,
    rows: Floats,
    m: float,
    loss: int,
    limit: float,
    bound: float,
    steps: float,
    block: Floats,
) -> Any:
    """(score in grid steps, trend, bend) of a column; block is scratch, 4 x BLOCK: x, v, y, q."""
    total = np.int64(0)
    trend = 0.0
    bend = 0.0
    for base in range(start, stop, BLOCK):
        width = min(BLOCK, stop - base)
        for j in range(width):
            i = indices[base + j]
            block[0, j] = clipped(data[base + j], bound)
            block[1, j] = m * rows[i, 0]
            block[2, j] = rows[i, 1]
        _block_slopes(loss, limit, width, block)
        a, b, c = _block_sums(width, block, steps)
        total += a
        trend += b
        bend += c
    return (total, trend, bend) if loss == LOGISTIC else (total, 0.0, NO_BEND)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "nnan", "nsz"})
def _leans(v: Floats, q: Floats, lean: Floats) -> Any:
    # predictions and slopes are finite, so that the maximum may assume it ("nnan") and use vector instructions
    total = 0.0
    top = 0.0
    for i in range(v.size):
        near = min(max(v[i], -FARTHEST), FARTHEST)
        lean[i] = abs(q[i]) * (1.0 - abs(q[i])) * near
        bend = min(BEND, CURVE * v[i] * v[i])
        total += bend
        top = max(top, bend)
    return total, top


@njit(cache=True, error_model="numpy")
def _predictions(rows: Floats, m: float, v: Floats) -> None:
    for i in range(v.size):
        v[i] = m * rows[i, 0]


@njit(cache=True)
def all_slopes(loss: int, limit: float, y: Floats, rows: Floats, m: float, v: Floats, q: Floats, lean: Floats) -> Any:
    """Predictions, slopes and leans q'(v)·v of all rows; returns (Σ, max) of the rows' bends."""
    _predictions(rows, m, v)
    slopes(loss, limit, y, v, q)
    if loss == LOGISTIC:
        return _leans(v, q, lean)
    lean[:] = 0.0
    return NO_BEND, NO_BEND


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def _full_sums(column: Array, q: Floats, lean: Floats, bound: float, steps: float) -> Any:
    total = np.int64(0)
    trend = 0.0
    for i in range(column.size):
        x = clipped(column[i], bound)
        total += whole(x * q[i] * steps)
        trend += x * lean[i]
    return total, trend


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def two_full_sums(one: Array, two: Array, q: Floats, lean: Floats, bound: float, steps: float) -> Any:
    """Score and trend of two full columns."""
    total = np.int64(0)
    trend = 0.0
    total_two = np.int64(0)
    trend_two = 0.0
    for i in range(one.size):
        x = clipped(one[i], bound)
        z = clipped(two[i], bound)
        total += whole(x * q[i] * steps)
        trend += x * lean[i]
        total_two += whole(z * q[i] * steps)
        trend_two += z * lean[i]
    return total, trend, total_two, trend_two


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def _gathered_sums(
    data: Array, indices: Array, start: int, stop: int, q: Floats, lean: Floats, bound: float, steps: float
) -> Any:
    total = np.int64(0)
    trend = 0.0
    for z in range(start, stop):
        x = clipped(data[z], bound)
        i = indices[z]
        total += whole(x * q[i] * steps)
        trend += x * lean[i]
    return total, trend


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def tie_sums(data: Array, indices: Array, start: int, stop: int, slopes: NDArray[np.float32], bound: float) -> Any:
    """Σ x·slopes[row, g] for g = 0 … 7."""
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    e = 0.0
    f = 0.0
    g = 0.0
    h = 0.0
    for z in range(start, stop):
        x = clipped(data[z], bound)
        i = indices[z]
        a += x * slopes[i, 0]
        b += x * slopes[i, 1]
        c += x * slopes[i, 2]
        d += x * slopes[i, 3]
        e += x * slopes[i, 4]
        f += x * slopes[i, 5]
        g += x * slopes[i, 6]
        h += x * slopes[i, 7]
    return a, b, c, d, e, f, g, h


@njit(cache=True)
def score_from_slopes(
    data: Array, indices: Array, start: int, stop: int, full: bool, q: Floats, lean: Floats, bound: float, steps: float
) -> Any:
    """(score, trend) as above, when the slopes of all rows are at hand; full: entry i of the column is row i."""
    if full:
        return _full_sums(data[start:stop], q, lean, bound, steps)
    return _gathered_sums(data, indices, start, stop, q, lean, bound, steps)


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def sizes(data: Array, start: int, stop: int, bound: float) -> Any:
    """(Σ|x|, max|x|, Σx²) of a column."""
    norm = 0.0
    square = 0.0
    top = np.int64(0)  # doubles that are not negative are ordered like their bits, which vector units compare freely
    for z in range(start, stop):
        a = abs(clipped(data[z], bound))
        norm += a
        square += a * a
        top = max(top, np.float64(a).view(np.int64))
    return norm, np.int64(top).view(np.float64), square


@njit(cache=True)
def is_full(indices: Array, start: int, stop: int, rows: int) -> Any:
    """Whether entry i of the column is row i, for all rows."""
    if stop - start != rows:
        return False
    same = True
    for i in range(rows):
        same = same and indices[start + i] == i
    return same
