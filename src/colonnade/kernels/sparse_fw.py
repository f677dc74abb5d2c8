"""Frank-Wolfe on a sparse matrix: its losses, its scores, and a model as the list of its picks.

Solves   min Σ_i loss(x_i·w, y_i)  subject to  ‖w‖₁ ≤ radius,   X (n × d) in CSC form.
Source   Raff, Khanna, Lu, "Scaling up differentially private lasso regularized logistic regression via faster
         Frank-Wolfe iterations" (NeurIPS 2023), algorithm 1, with argmax for its argmin and with the
         predictions v = Xw kept up to date instead of recomputed.
Leaves   nothing: arrays in, arrays out.

Steps are 2/(t+2) for t = 1, 2, …, so after T picks the weight of pick t is 2(t+1)/((T+1)(T+2)): a model *is* its
list of picks, and v = m·u with m = 2·radius/((T+1)(T+2)) and u a sum of whole multiples of columns. That closed
form gives `model_of_picks`, and is the state that the private sampler keeps.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats, Indices

LOGISTIC = 0
SQUARED = 1
SQUARED_HINGE = 2


class LossCode(IntEnum):
    """Losses as numbers that numba can branch on; labels are ±1 for the two classification losses."""

    LOGISTIC = LOGISTIC  # log(1 + exp(-y s))
    SQUARED = SQUARED  # (s - y)² / 2
    SQUARED_HINGE = SQUARED_HINGE  # max(0, 1 - y s)² / 2


class Picks(NamedTuple):
    """What a run chose: the coordinate and the sign of its gradient, pick by pick (the vertex is the opposite)."""

    columns: Indices
    signs: NDArray[np.int8]


def check_problem(
    data: Array, indices: Array, indptr: Array, y: Floats, loss: LossCode, radius: float, rounds: int
) -> None:
    """Refuses what no kernel can use. Looks at sizes, labels and settings only: O(n), never O(nnz)."""
    if data.size != indices.size or indptr.size < 2 or int(indptr[-1]) != data.size:
        raise InvalidInput(f"not a CSC matrix: {data.size} values, {indices.size} row indices, {indptr.size} pointers.")
    if y.dtype != np.float64 or not 0 < y.size <= 2**25:
        raise InvalidInput(f"labels must be float64, from 1 to 2^25 of them; got {y.size} of type {y.dtype}.")
    if not np.isfinite(y).all():
        raise InvalidInput("labels must be finite; clean them first.")
    if loss != LossCode.SQUARED and not (np.abs(y) == 1.0).all():
        raise InvalidInput("a classification loss needs labels -1.0 and +1.0; map the two classes to them first.")
    if not (math.isfinite(radius) and radius > 0.0) or not 1 <= rounds < 2**30:
        raise InvalidInput(f"radius must be positive and finite, rounds from 1 to 2^30; got {radius} and {rounds}.")


# error_model="numpy": a division that cannot fail is not checked, which lets loops over rows use vector instructions.
# No fast-math flags: every number must come out the same in scalar and in vector code, in every kernel.


@njit(inline="always", error_model="numpy")
def exp_negative(a: float) -> Any:
    """exp(-a) for a >= 0 to 2 ulps, free of branches and calls; from a = 700 on it stays at exp(-700).

    exp(-a) = 2^k·exp(r): adding 1.5·2^52 rounds to the whole number k and leaves it in the low bits, from where it is
    shifted into the exponent; |r| <= ln(2)/2, and the first term left out of the series is r^13/13! < 2e-16.
    """
    x = -a if a < 700.0 else -700.0
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    s = r * r
    f = s * s
    low = (1.0 + r) + s * (1 / 2 + r * (1 / 6))
    mid = (1 / 24 + r * (1 / 120)) + s * (1 / 720 + r * (1 / 5040))
    top = (1 / 40320 + r * (1 / 362880)) + s * ((1 / 3628800 + r * (1 / 39916800)) + s * (1 / 479001600))
    p = low + f * (mid + f * top)
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


@njit(inline="always", error_model="numpy")
def logistic_slope(v: float, y: float) -> Any:
    """-y·sigmoid(-y·v), for y = ±1."""
    z = y * v
    e = exp_negative(abs(z))
    return -y * (1.0 if z < 0.0 else e) / (1.0 + e)


@njit(inline="always", error_model="numpy")
def residual_slope(loss: int, v: float, y: float, limit: float) -> Any:
    """Derivative of the squared loss or the squared hinge at prediction v, clipped to ±limit."""
    z = y - v if loss == SQUARED else max(0.0, 1.0 - y * v) * y
    return -min(max(z, -limit), limit)


@njit(cache=True)
def loss_value(loss: int, v: float, y: float) -> Any:
    """The loss itself (not clipped)."""
    if loss == LOGISTIC:
        return max(-y * v, 0.0) + math.log1p(math.exp(-abs(v)))
    if loss == SQUARED:
        return 0.5 * (v - y) * (v - y)
    z = max(0.0, 1.0 - y * v)
    return 0.5 * z * z


@njit(cache=True)
def column_dot(data: Array, indices: Array, start: int, stop: int, q: Floats) -> Any:
    """<column, q>, one sequential sum: the same number wherever it is computed."""
    total = 0.0
    for z in range(start, stop):
        total += data[z] * q[indices[z]]
    return total


@njit(cache=True, error_model="numpy")
def slopes(loss: int, limit: float, y: Floats, v: Floats, out: Floats) -> None:
    """out[i] = the slope of row i at prediction v[i]."""
    if loss == LOGISTIC:
        for i in range(y.size):
            out[i] = logistic_slope(v[i], y[i])
    else:
        for i in range(y.size):
            out[i] = residual_slope(loss, v[i], y[i], limit)


@njit(cache=True)
def shrink_rows(loss: int, limit: float, factor: float, y: Floats, v: Floats, q: Floats) -> Any:
    """v *= factor, q = slopes at v; returns Σ v_i q_i, the part of the gap that does not depend on the pick."""
    for i in range(y.size):
        v[i] *= factor
    slopes(loss, limit, y, v, q)
    inner = 0.0
    for i in range(y.size):
        inner += v[i] * q[i]
    return inner


@njit(cache=True)
def push_column(data: Array, indices: Array, start: int, stop: int, step: float, v: Floats) -> None:
    """v += step · column."""
    for z in range(start, stop):
        v[indices[z]] += step * data[z]


def model_of_picks(picks: Picks, *, radius: float, columns: int) -> Floats:
    """The coefficients after the last pick, from the closed form of the weights."""
    rounds = picks.columns.size
    weight = 2.0 * np.arange(2, rounds + 2) / ((rounds + 1.0) * (rounds + 2.0))
    w = np.zeros(columns)
    np.add.at(w, picks.columns, -radius * weight * picks.signs)
    return w
