"""Algorithm 1 of Raff, Khanna and Lu: Frank-Wolfe that recomputes every score at every step. The honest baseline.

Source   Raff, Khanna, Lu (NeurIPS 2023), algorithm 1, with argmax for its argmin and with v = Xw kept up to date.
Leaves   `argmax_picks` is not private. `noisy_max_picks` draws from the law of the exponential mechanism, but with
         floating-point Gumbel noise: a yardstick for `colonnade.kernels.samplers`, never for a release.
Price    O(nnz + n + d) a step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.columns import csc_rmatvec
from colonnade.kernels.sparse_fw import LossCode, Picks, check_problem, push_column, shrink_rows
from colonnade.kernels.stream import Stream, open_uniform


@njit(cache=True)
def _largest(alpha: Floats) -> Any:
    best = -1.0
    at = 0
    for k in range(alpha.size):
        if abs(alpha[k]) > best:
            best = abs(alpha[k])
            at = k
    return at


@njit(cache=True)
def _noisy_largest(alpha: Floats, c: float, stream: Stream) -> Any:
    """Gumbel-max over the 2d signed coordinates: (coordinate, sign) with probability ∝ exp(c·sign·alpha)."""
    best = -math.inf
    at = 0
    sign = 1
    for k in range(alpha.size):
        up = c * alpha[k] - math.log(-math.log(open_uniform(stream)))
        down = -c * alpha[k] - math.log(-math.log(open_uniform(stream)))
        if up > best:
            best, at, sign = up, k, 1
        if down > best:
            best, at, sign = down, k, -1
    return at, sign


@njit(cache=True)
def _argmax_kernel(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    loss: int,
    radius: float,
    index: Indices,
    sign: NDArray[np.int8],
    gap: Floats,
) -> None:
    v = np.zeros(y.size)
    q = np.empty(y.size)
    alpha = np.empty(indptr.size - 1)
    inner = shrink_rows(loss, math.inf, 1.0, y, v, q)
    for t in range(1, index.size + 1):
        csc_rmatvec(data, indices, indptr, q, alpha)
        k = _largest(alpha)
        s = 1 if alpha[k] >= 0.0 else -1
        index[t - 1] = k
        sign[t - 1] = s
        gap[t - 1] = inner + radius * abs(alpha[k])
        eta = 2.0 / (t + 2.0)
        push_column(data, indices, indptr[k], indptr[k + 1], -s * radius * eta / (1.0 - eta), v)
        inner = shrink_rows(loss, math.inf, 1.0 - eta, y, v, q)


@njit(cache=True)
def _noisy_max_kernel(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    loss: int,
    radius: float,
    limit: float,
    c: float,
    stream: Stream,
    index: Indices,
    sign: NDArray[np.int8],
) -> None:
    v = np.zeros(y.size)
    q = np.empty(y.size)
    alpha = np.empty(indptr.size - 1)
    shrink_rows(loss, limit, 1.0, y, v, q)
    for t in range(1, index.size + 1):
        csc_rmatvec(data, indices, indptr, q, alpha)
        k, s = _noisy_largest(alpha, c, stream)
        index[t - 1] = k
        sign[t - 1] = s
        eta = 2.0 / (t + 2.0)
        push_column(data, indices, indptr[k], indptr[k + 1], -s * radius * eta / (1.0 - eta), v)
        shrink_rows(loss, limit, 1.0 - eta, y, v, q)


def argmax_picks(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: LossCode,
    radius: float,
    rounds: int,
) -> tuple[Picks, Floats]:
    """Algorithm 1 without noise: the picks, and before each pick the gap that bounds f(w) − f*. Not private."""
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    gap = np.empty(rounds)
    _argmax_kernel(data, indices, indptr, y, int(loss), radius, picks.columns, picks.signs, gap)
    return picks, gap


def noisy_max_picks(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: LossCode,
    radius: float,
    rounds: int,
    scale: float,
    stream: Stream,
    residual_bound: float = 1.0,
) -> Picks:
    """Algorithm 1 with Gumbel noise of scale 1/`scale` on the 2d signed scores, all recomputed at every step."""
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    _noisy_max_kernel(
        data, indices, indptr, y, int(loss), radius, residual_bound, scale, stream, picks.columns, picks.signs
    )
    return picks
