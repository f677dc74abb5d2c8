"""Frank-Wolfe without noise, looking only at the columns that might win: the picks of algorithm 1, sooner.

Claim    the picks, signs and gaps equal those of `sparse_fw.argmax_picks`, bit for bit, for every number of rounds.
Source   ours. Rows are exact (O(n) a step), columns lazy: with q the slopes now, q⁰ those of the last snapshot and
         p the length of the path that q has gone since column k was last evaluated,
         |<x_k, q>| ≤ min(|<x_k, q⁰>| + ‖x_k‖·‖q − q⁰‖,  |last score| + ‖x_k‖·p).
Leaves   nothing: arrays in, arrays out. Not private.
Price    O(n) a step and a few columns; a full pass for each snapshot.

Margins. A computed score is one sequential sum of at most `most` products, so it differs from the exact one by at
most most·2^-52·‖x_k‖·‖q‖ (Cauchy-Schwarz); two of them are compared, and norms carry relative errors of at most n·2^-52:
`rounding`·‖q‖ is added to both distances and norms are inflated. A column whose bound ties with the best
is evaluated too, and of equal scores the lowest index wins, as in a scan from left to right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.sparse_fw import (
    Floats,
    Ints,
    Loss,
    Picks,
    check_problem,
    column_dot,
    push_column,
    scores,
    shrink_rows,
    total_loss,
)


@njit(cache=True)
def column_norms(data: NDArray[Any], indptr: NDArray[Any], inflate: float, out: Floats) -> None:
    """out[k] = ‖column k‖₂ · inflate."""
    for k in range(indptr.size - 1):
        total = 0.0
        for z in range(indptr[k], indptr[k + 1]):
            total += np.float64(data[z]) * data[z]
        out[k] = math.sqrt(total) * inflate


@njit(cache=True, fastmath={"reassoc", "contract"})
def _distances(q: Floats, last: Floats, snapshot: Floats) -> Any:
    """(‖q − last‖, ‖q − snapshot‖, ‖q‖), and last = q. The order of these sums is free: margins cover it."""
    moved, away, size = 0.0, 0.0, 0.0
    for i in range(q.size):
        a = q[i] - last[i]
        b = q[i] - snapshot[i]
        moved += a * a
        away += b * b
        size += q[i] * q[i]
        last[i] = q[i]
    return math.sqrt(moved), math.sqrt(away), math.sqrt(size)


@njit(cache=True)
def _lazy_kernel(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    loss: int,
    radius: float,
    tolerance: float,
    norms: Floats,
    index: Ints,
    sign: NDArray[np.int8],
    gap: Floats,
    work: Ints,
) -> Any:
    """Returns how many picks were made; work counts (evaluations, nonzeros read by them, snapshots)."""
    n = y.size
    d = indptr.size - 1
    most = 0
    for k in range(d):
        most = max(most, indptr[k + 1] - indptr[k])
    rounding = (2.0 * most + 2.0 * n + 64.0) * 2.0**-52
    nnz = indptr[d]
    v, q, last = np.zeros(n), np.empty(n), np.zeros(n)
    inner = shrink_rows(loss, math.inf, 1.0, y, v, q)
    snapshot = q.copy()
    _, _, size = _distances(q, last, snapshot)
    at_snapshot, candidates, seen, stamp, bound = (
        np.empty(d),
        np.empty(d, dtype=np.int64),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    count, path, away, spent = 0, 0.0, 0.0, 0.0
    reach = 0.02 * size
    fresh = True
    for t in range(1, index.size + 1):
        if fresh or away > reach or spent > nnz:
            if not fresh:
                # too far too soon: let the next snapshot last longer; too much work: let it be tighter
                reach *= 1.5 if away > reach else 0.6
                snapshot[:] = q
            scores(data, indices, indptr, q, at_snapshot)
            work[2] += 1
            fresh, away, spent = False, 0.0, 0.0
            floor = 0.0
            margin = reach + 2.0 * rounding * size
            for k in range(d):
                floor = max(floor, abs(at_snapshot[k]) - norms[k] * margin)
            count = 0
            for k in range(d):
                if abs(at_snapshot[k]) + norms[k] * margin >= floor:
                    candidates[count] = k
                    seen[count] = abs(at_snapshot[k])
                    stamp[count] = path
                    count += 1
        for x in range(count):
            k = candidates[x]
            far = away + rounding * size
            near = path - stamp[x] + rounding * size
            bound[x] = min(abs(at_snapshot[k]) + norms[k] * far, seen[x] + norms[k] * near)
        best, best_k, best_sign = -1.0, -1, 1
        while True:
            top, x = -1.0, -1
            for i in range(count):
                if bound[i] > top:
                    top, x = bound[i], i
            if x < 0 or top < best:
                break
            k = candidates[x]
            score = column_dot(data, indices, indptr[k], indptr[k + 1], q)
            spent += indptr[k + 1] - indptr[k]
            work[0] += 1
            work[1] += indptr[k + 1] - indptr[k]
            seen[x], stamp[x], bound[x] = abs(score), path, -1.0
            if abs(score) > best or (abs(score) == best and k < best_k):
                best, best_k, best_sign = abs(score), k, 1 if score >= 0.0 else -1
        index[t - 1] = best_k
        sign[t - 1] = best_sign
        gap[t - 1] = inner + radius * best
        if gap[t - 1] <= tolerance:
            return t - 1
        eta = 2.0 / (t + 2.0)
        step = -best_sign * radius * eta / (1.0 - eta)
        push_column(data, indices, indptr[best_k], indptr[best_k + 1], step, v)
        inner = shrink_rows(loss, math.inf, 1.0 - eta, y, v, q)
        moved, away, size_now = _distances(q, last, snapshot)
        inflate = 1.0 + (n + 8) * 2.0**-51
        path = (path + moved * inflate) * (1.0 + 2.0**-51)
        away *= inflate
        size = max(size, size_now)
    return index.size


def lazy_picks(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: Loss,
    radius: float,
    rounds: int,
    tolerance: float = 0.0,
) -> tuple[Picks, Floats]:
    """Picks and gaps as `argmax_picks` gives them; stops before the first pick whose gap is at most `tolerance`.

    The last entry of the gaps belongs to the model made of the picks returned if the run stopped early.
    """
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    if not tolerance >= 0.0:
        raise InvalidInput(f"tolerance must be 0 (use all rounds) or positive; got {tolerance}.")
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    gap = np.empty(rounds)
    norms = np.empty(indptr.size - 1)
    column_norms(data, indptr, 1.0 + (y.size + 8) * 2.0**-51, norms)
    work = np.zeros(3, dtype=np.int64)
    made = _lazy_kernel(
        data, indices, indptr, y, int(loss), radius, tolerance, norms, picks.columns, picks.signs, gap, work
    )
    return Picks(picks.columns[:made], picks.signs[:made]), gap[: min(made + 1, rounds)]


def objective(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], y: Floats, w: Floats, *, loss: Loss
) -> float:
    """Σ loss at the model w."""
    v = np.zeros(y.size)
    for k in np.flatnonzero(w):
        push_column(data, indices, indptr[k], indptr[k + 1], w[k], v)
    return float(total_loss(int(loss), v, y))
