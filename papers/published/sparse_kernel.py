"""Fast sparse Frank-Wolfe as its paper prints it: for comparison only. Neither exact nor private.

Claim    the paper's: the steps of algorithm 1 in less time. They are not its steps: α is renewed only for rows that
         contain the chosen column, although every row's prediction shrinks at every step (stale slopes).
Source   Raff, Khanna, Lu (NeurIPS 2023), algorithm 2 with line 8 of algorithm 1 ("noisy max") or with algorithm 4
         ("Big-Step Little-Step") as its queue. Slips that keep the text from running are mended: the largest and not
         the smallest score is sought, q⁽ⁱ⁾ for q⁽ʲ⁾, groups by division and not by remainder.
Leaves   the exact sign of the chosen score goes into the model: no finite epsilon holds. Nothing here may spend a budget.
Price    O(nnz of the rows that contain the chosen column) a step, plus O(d) (noisy max) or O(√d log d).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.columns import csc_rmatvec
from colonnade.kernels.sparse_fw import LossCode, Picks, check_problem, logistic_slope
from colonnade.kernels.stream import Stream, open_uniform

TINY = 1e-300  # the paper's own remedy against weights that underflow to 0


@njit(cache=True, error_model="numpy")
def _renew(
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    k: int,
    step: float,
    m: float,
    u: Floats,
    q: Floats,
    alpha: Floats,
) -> None:
    """Lines 22 to 28: u, q and alpha after column k changed; all other rows keep their old slopes."""
    data, indices, indptr = csc
    row_data, row_columns, row_start = csr
    for z in range(indptr[k], indptr[k + 1]):
        i = indices[z]
        u[i] += step * data[z]
        change = logistic_slope(m * u[i], y[i]) - q[i]
        q[i] += change
        for e in range(row_start[i], row_start[i + 1]):
            alpha[row_columns[e]] += change * row_data[e]


@njit(cache=True)
def _laplace_largest(alpha: Floats, noise: float, stream: Stream) -> Any:
    best, at = -1.0, 0
    for k in range(alpha.size):
        u = open_uniform(stream) - 0.5
        value = abs(alpha[k] - noise * math.copysign(math.log(1.0 - 2.0 * abs(u)), u))
        if value > best:
            best, at = value, k
    return at


@njit(cache=True)
def _noisy_max_kernel(
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    radius: float,
    c: float,
    stream: Stream,
    index: Indices,
    sign: NDArray[np.int8],
) -> None:
    u = np.zeros(y.size)
    q = -0.5 * y
    alpha = np.empty(csc[2].size - 1)
    csc_rmatvec(csc[0], csc[1], csc[2], q, alpha)
    for t in range(1, index.size + 1):
        k = _laplace_largest(alpha, 0.5 / c, stream)
        s = 1 if alpha[k] >= 0.0 else -1
        index[t - 1] = k
        sign[t - 1] = s
        _renew(csc, csr, y, k, -s * (t + 1.0), 2.0 * radius / ((t + 1.0) * (t + 2.0)), u, q, alpha)


@njit(cache=True)
def _log_sum(weight: Floats, start: int, stop: int) -> Any:
    top = -math.inf
    for k in range(start, stop):
        top = max(top, weight[k])
    total = 0.0
    for k in range(start, stop):
        total += math.exp(weight[k] - top)
    return math.log(total) + top


@njit(cache=True)
def _moved(total: float, old: float, new: float) -> Any:
    """Lines 34 and 35: a log-sum after one of its terms changed; NaN where the subtraction cancels."""
    inside = 1.0 - math.exp(old - total) + math.exp(new - total)
    return total + math.log(inside) if inside > 1e-6 else math.nan


@njit(cache=True)
def _big_step_little_step(weight: Floats, group: Floats, width: int, total: float, stream: Stream) -> Any:
    """Algorithm 4: one weighted draw by exponential jumps, over whole groups where they are short enough."""
    d = weight.size
    chosen = 0
    share = max(math.exp(weight[0] - total), TINY)
    threshold = math.log(open_uniform(stream)) / share
    passed = share  # weight of the part of the current group that lies behind
    k = 1
    while k < d:
        if k % width == 0:
            passed = 0.0
        jump = math.log(open_uniform(stream)) / threshold
        while k < d:
            rest = math.exp(group[k // width] - total) - passed
            if rest >= jump:
                break
            jump -= rest
            k = (k // width + 1) * width
            passed = 0.0
        end = min(d, (k // width + 1) * width)
        while k < end:
            share = max(math.exp(weight[k] - total), TINY)
            passed += share
            if share >= jump:
                chosen = k
                low = math.exp(share * threshold)
                threshold = math.log(low + (1.0 - low) * open_uniform(stream)) / share
                k += 1
                break
            jump -= share
            k += 1
    return chosen


@njit(cache=True)
def _big_step_kernel(
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    radius: float,
    c: float,
    stream: Stream,
    index: Indices,
    sign: NDArray[np.int8],
) -> None:
    data, indices, indptr = csc
    _, row_columns, row_start = csr
    d = indptr.size - 1
    u = np.zeros(y.size)
    q = -0.5 * y
    alpha = np.empty(d)
    csc_rmatvec(data, indices, indptr, q, alpha)
    width = max(1, int(math.sqrt(d)))
    weight = c * np.abs(alpha)
    group = np.empty((d + width - 1) // width)
    for g in range(group.size):
        group[g] = _log_sum(weight, g * width, min(d, (g + 1) * width))
    total = _log_sum(group, 0, group.size)
    for t in range(1, index.size + 1):
        k = _big_step_little_step(weight, group, width, total, stream)
        s = 1 if alpha[k] >= 0.0 else -1
        index[t - 1] = k
        sign[t - 1] = s
        _renew(csc, csr, y, k, -s * (t + 1.0), 2.0 * radius / ((t + 1.0) * (t + 2.0)), u, q, alpha)
        for z in range(indptr[k], indptr[k + 1]):
            i = indices[z]
            for e in range(row_start[i], row_start[i + 1]):
                j = row_columns[e]
                new = c * abs(alpha[j])
                if new != weight[j]:
                    old = weight[j]
                    weight[j] = new
                    g = j // width
                    group[g] = _moved(group[g], old, new)
                    # the printed update loses all digits when the heaviest term of a sum falls: sum it again
                    if math.isnan(group[g]):
                        group[g] = _log_sum(weight, g * width, min(d, (g + 1) * width))
                    total = _moved(total, old, new)
                    if math.isnan(total):
                        total = _log_sum(group, 0, group.size)


def _run(
    kernel: Any,
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    radius: float,
    rounds: int,
    scale: float,
    stream: Stream,
) -> Picks:
    check_problem(*csc, y, LossCode.LOGISTIC, radius, rounds)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    kernel(csc, csr, y, radius, scale, stream, picks.columns, picks.signs)
    return picks


def published_noisy_max(
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    *,
    radius: float,
    rounds: int,
    scale: float,
    stream: Stream,
) -> Picks:
    """Algorithm 2, brute-force noisy max: Laplace noise of scale 1/(2·`scale`). csc and csr are (data, indices, indptr)."""
    return _run(_noisy_max_kernel, csc, csr, y, radius, rounds, scale, stream)


def published_big_step_little_step(
    csc: tuple[Any, Any, Any],
    csr: tuple[Any, Any, Any],
    y: Floats,
    *,
    radius: float,
    rounds: int,
    scale: float,
    stream: Stream,
) -> Picks:
    """Algorithm 2 with algorithm 4: coordinate k with weight exp(`scale`·|α_k|), the sign exact."""
    return _run(_big_step_kernel, csc, csr, y, radius, rounds, scale, stream)
