"""Frank-Wolfe without noise, looking only at the columns that might win: the picks of algorithm 1, sooner.

Claim    the picks, signs and gaps equal those of a scan over all columns (`papers.published.algorithm_1`), bit for bit,
         for every number of rounds.
Source   ours. Rows are exact (O(n) a step), columns lazy: with q the slopes now, q⁰ those of the last snapshot and
         p the length of the path that q has gone since column k was last evaluated,
         |<x_k, q>| ≤ min(|<x_k, q⁰>| + ‖x_k‖·‖q − q⁰‖,  |last score| + ‖x_k‖·p).
Leaves   nothing: arrays in, arrays out. Not private.
Price    O(n + candidates) a step and a few columns; a full pass for each snapshot.

Margins. A computed score is one sequential sum of at most `most` products, so it differs from the exact one by at
most most·2^-52·‖x_k‖·‖q‖ (Cauchy-Schwarz); two of them are compared, and norms carry relative errors of at most
n·2^-52: `rounding`·‖q‖ is added to both distances and norms are inflated. A column whose bound ties with the best
is evaluated too, and of equal scores the lowest index wins, as in a scan from left to right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Array, Csc, Floats, Indices
from colonnade.kernels.columns import csc_rmatvec
from colonnade.kernels.sparse_fw import LossCode, Picks, check_problem, column_dot, push_column, shrink_rows


@njit(cache=True)
def column_norms(data: Array, indptr: Array, inflate: float, out: Floats) -> None:
    """out[k] = ‖column k‖₂ · inflate."""
    for k in range(indptr.size - 1):
        total = 0.0
        for z in range(indptr[k], indptr[k + 1]):
            total += np.float64(data[z]) * data[z]
        out[k] = math.sqrt(total) * inflate


@njit(cache=True, fastmath={"reassoc", "contract"})
def _distances(q: Floats, last: Floats, snapshot: Floats) -> Any:
    """(‖q − last‖, ‖q − snapshot‖, ‖q‖), and last = q. The order of these sums is free: margins cover it."""
    moved = 0.0
    away = 0.0
    size = 0.0
    for i in range(q.size):
        a = q[i] - last[i]
        b = q[i] - snapshot[i]
        moved += a * a
        away += b * b
        size += q[i] * q[i]
        last[i] = q[i]
    return math.sqrt(moved), math.sqrt(away), math.sqrt(size)


@njit(cache=True)
def _choose_candidates(
    at_snapshot: Floats, norms: Floats, margin: float, path: float, candidates: Indices, seen: Floats, stamp: Floats
) -> Any:
    """Lists the columns that can win while the slopes stay within the margin of the snapshot; returns their number."""
    floor = 0.0
    for k in range(norms.size):
        floor = max(floor, abs(at_snapshot[k]) - norms[k] * margin)
    count = 0
    for k in range(norms.size):
        if abs(at_snapshot[k]) + norms[k] * margin >= floor:
            candidates[count] = k
            seen[count] = abs(at_snapshot[k])
            stamp[count] = path
            count += 1
    return count


@njit(cache=True)
def _largest_score(
    csc: Csc, q: Floats, candidates: Indices, path: float, seen: Floats, stamp: Floats, bound: Floats, left: Indices
) -> Any:
    """(|score|, column, sign, nonzeros read) of the candidate with the largest score, from the top bound down."""
    data, indices, indptr = csc
    best = -1.0
    best_k = -1
    best_sign = 1
    read = 0
    count = 1
    done = 0
    left[0] = np.argmax(bound)
    while done < count:
        x = left[done]
        if bound[x] < best:
            break
        k = candidates[x]
        score = column_dot(data, indices, indptr[k], indptr[k + 1], q)
        read += indptr[k + 1] - indptr[k]
        seen[x] = abs(score)
        stamp[x] = path
        if abs(score) > best or (abs(score) == best and k < best_k):
            best = abs(score)
            best_k = k
            best_sign = 1 if score >= 0.0 else -1
        done += 1
        if done == 1:  # what the first one leaves, largest bound first: most steps leave little
            count = 1
            for i in range(candidates.size):
                if bound[i] >= best and i != x:
                    left[count] = i
                    count += 1
            rest = left[1:count]
            rest[:] = rest[np.argsort(-bound[rest])]
    return best, best_k, best_sign, read


@njit(cache=True)
def _lazy_kernel(
    csc: Csc, y: Floats, loss: int, radius: float, norms: Floats, index: Indices, sign: NDArray[np.int8], gap: Floats
) -> None:
    data, indices, indptr = csc
    n = y.size
    d = indptr.size - 1
    most = 0
    for k in range(d):
        most = max(most, indptr[k + 1] - indptr[k])
    rounding = (2.0 * most + 2.0 * n + 64.0) * 2.0**-52
    inflate = 1.0 + (n + 8) * 2.0**-51
    v = np.zeros(n)
    q = np.empty(n)
    last = np.zeros(n)
    at_snapshot = np.empty(d)
    bound = np.empty(d)
    candidates = np.empty(d, dtype=np.int64)
    left = np.empty(d, dtype=np.int64)
    seen = np.empty(d)
    stamp = np.empty(d)
    inner = shrink_rows(loss, math.inf, 1.0, y, v, q)
    snapshot = q.copy()
    _, _, size = _distances(q, last, snapshot)
    reach = 0.02 * size
    count = 0
    path = 0.0
    away = 0.0
    spent = 0.0
    for t in range(1, index.size + 1):
        if t == 1 or away > reach or spent > indptr[d]:
            if t > 1:
                # too far too soon: let the next snapshot last longer; too much work: let it be tighter
                reach *= 1.5 if away > reach else 0.6
                snapshot[:] = q
            csc_rmatvec(data, indices, indptr, q, at_snapshot)
            away = 0.0
            spent = 0.0
            count = _choose_candidates(at_snapshot, norms, reach + 2.0 * rounding * size, path, candidates, seen, stamp)
        far = away + rounding * size
        for x in range(count):
            k = candidates[x]
            near = path - stamp[x] + rounding * size
            bound[x] = min(abs(at_snapshot[k]) + norms[k] * far, seen[x] + norms[k] * near)
        best, k, s, read = _largest_score(csc, q, candidates[:count], path, seen, stamp, bound[:count], left)
        spent += read + count
        index[t - 1] = k
        sign[t - 1] = s
        gap[t - 1] = inner + radius * best
        eta = 2.0 / (t + 2.0)
        push_column(data, indices, indptr[k], indptr[k + 1], -s * radius * eta / (1.0 - eta), v)
        inner = shrink_rows(loss, math.inf, 1.0 - eta, y, v, q)
        moved, away, size_now = _distances(q, last, snapshot)
        path = (path + moved * inflate) * (1.0 + 2.0**-51)
        away *= inflate
        size = max(size, size_now)


def lazy_picks(
    data: Array, indices: Array, indptr: Array, y: Floats, *, loss: LossCode, radius: float, rounds: int
) -> tuple[Picks, Floats]:
    """The picks of algorithm 1 without noise, and before each pick the gap that bounds f(w) − f*. Not private."""
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    gap = np.empty(rounds)
    norms = np.empty(indptr.size - 1)
    column_norms(data, indptr, 1.0 + (y.size + 8) * 2.0**-51, norms)
    _lazy_kernel((data, indices, indptr), y, int(loss), radius, norms, picks.columns, picks.signs, gap)
    return picks, gap
