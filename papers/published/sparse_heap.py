"""Algorithm 2 of Raff et al. with the queue of their algorithm 3, counting what it does; and algorithm 1 beside it.

Source   Raff, Khanna, Lu, "Scaling up differentially private lasso ...", algorithms 1 to 3, not private. Slips that keep the text
         from running are mended as in papers/published/sparse_kernel.py. An indexed binary heap stands for the Fibonacci heap: the same
         items come off the top, so that the number of pops is the same.
Counts   a floating-point operation is an addition or a multiplication. Algorithm 1 needs 4·nnz + 6·n + 2·d of them a step (v = Xw,
         α = Xᵀq, the gap); algorithm 2 needs that once, then 4 for every nonzero of a row that it touches, 8 a row, and log₂ d a pop.
Exact    `true_gap` recomputes everything: what algorithm 2 believes of its own gap is not used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.sparse_fw import (
    LossCode,
    Picks,
    check_problem,
    column_dot,
    logistic_slope,
    model_of_picks,
    slopes,
)

Sparse = tuple[Any, Any, Any]  # data, indices, indptr


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _rise(heap: Indices, place: Indices, key: Floats, k: int) -> None:
    """Item k, whose key grew, towards the top."""
    at = place[k]
    while at > 0:
        above = (at - 1) // 2
        if key[heap[above]] >= key[k]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = k
    place[k] = at


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _sink(heap: Indices, place: Indices, key: Floats, k: int, size: int) -> None:
    """Item k, whose key fell, towards the bottom."""
    at = place[k]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and key[heap[below + 1]] > key[heap[below]]:
            below += 1
        if key[heap[below]] <= key[k]:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = k
    place[k] = at


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _next(heap: Indices, place: Indices, key: Floats, alpha: Floats) -> Any:
    """Algorithm 3: (the steepest column, pops). A key bounds |α| from above; what is popped goes back with its true |α|."""
    best, pops = -1, 0
    while True:
        top = heap[0]
        if best >= 0 and abs(alpha[best]) >= key[top]:  # the true size of the best is above all bounds that are left
            return best, pops
        pops += 1
        if best < 0 or abs(alpha[top]) > abs(alpha[best]):
            best = top
        key[top] = abs(alpha[top])
        _sink(heap, place, key, top, heap.size)


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _rise_all(heap: Indices, place: Indices, key: Floats, grown: Indices) -> None:
    """Every item whose key grew, from the top down: what lies above the one that rises is a heap again."""
    for at in np.sort(place[grown]):
        _rise(heap, place, key, heap[at])


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _heap_kernel(
    csc: Sparse,
    csr: Sparse,
    order: Indices,
    y: Floats,
    radius: float,
    index: Indices,
    sign: NDArray[np.int8],
    pops: Indices,
    work: Indices,
) -> None:
    """`csr` has the columns by their places in `order`; `csc` as they are."""
    data, indices, indptr = csc
    row_data, row_columns, row_start = csr
    d = order.size
    u, q, both = np.zeros(y.size), -0.5 * y, np.empty((d, 2))  # α and its key side by side: one look into memory
    alpha, key = both[:, 0], both[:, 1]
    for k in range(d):
        alpha[k] = column_dot(data, indices, indptr[order[k]], indptr[order[k] + 1], q)
    key[:] = np.abs(alpha)
    heap = np.argsort(-key)
    place = np.empty(d, np.int64)
    for at in range(d):
        place[heap[at]] = at
    grown, seen = np.empty(d, np.int64), np.zeros(d, np.int32)
    for t in range(1, index.size + 1):
        k, pops[t - 1] = _next(heap, place, key, alpha)
        s = 1 if alpha[k] >= 0.0 else -1
        column = order[k]
        index[t - 1], sign[t - 1] = column, s
        m = 2.0 * radius / ((t + 1.0) * (t + 2.0))
        many = 0
        for z in range(indptr[column], indptr[column + 1]):  # lines 22 to 28: other rows keep their old slopes
            i = indices[z]
            u[i] -= s * (t + 1.0) * data[z]
            change = logistic_slope(m * u[i], y[i]) - q[i]
            q[i] += change
            for e in range(row_start[i], row_start[i + 1]):
                j = row_columns[e]
                now = both[j, 0] + change * row_data[e]
                both[j, 0] = now
                if abs(now) > both[j, 1]:
                    both[j, 1] = abs(now)
                    if seen[j] != t:  # the heap is put in order once a step: its items and their keys are the same
                        seen[j] = t
                        grown[many] = j
                        many += 1
            work[t - 1] += 4 * (row_start[i + 1] - row_start[i]) + 8
        _rise_all(heap, place, key, grown[:many])


def heap_picks(csc: Sparse, csr: Sparse, y: Floats, *, radius: float, rounds: int) -> tuple[Picks, Indices, Indices]:
    """(picks, pops of each step, operations of each step without those of the heap); csc and csr are (data, indices, indptr)."""
    check_problem(*csc, y, LossCode.LOGISTIC, radius, rounds)
    picks = Picks(np.empty(rounds, np.int64), np.empty(rounds, np.int8))
    pops, work = np.zeros(rounds, np.int64), np.zeros(rounds, np.int64)
    order = np.argsort(
        -np.diff(csc[2]), kind="stable"
    )  # common columns side by side: memory near the processor holds them
    place = np.empty(order.size, csr[1].dtype)
    place[order] = np.arange(order.size)
    _heap_kernel(csc, (csr[0], place[csr[1]], csr[2]), order, y, radius, picks.columns, picks.signs, pops, work)
    return picks, pops, work


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _gap(csc: Sparse, y: Floats, v: Floats, radius: float) -> Any:
    q = np.empty(y.size)
    slopes(0, math.inf, y, v, q)
    inner, steepest = 0.0, 0.0
    for i in range(y.size):
        inner += v[i] * q[i]
    for k in range(csc[2].size - 1):
        steepest = max(steepest, abs(column_dot(csc[0], csc[1], csc[2][k], csc[2][k + 1], q)))
    return inner + radius * steepest


def true_gap(csc: Sparse, X: Any, y: Floats, picks: Picks, t: int, radius: float) -> float:
    """The Frank-Wolfe gap of the model that the first t picks make, everything recomputed."""
    w = model_of_picks(Picks(picks.columns[:t], picks.signs[:t]), radius=radius, columns=X.shape[1])
    return float(_gap(csc, y, X @ w, radius))


def step_cost(rows: int, columns: int, nonzeros: int) -> int:
    """Operations of one step of algorithm 1."""
    return 4 * nonzeros + 6 * rows + 2 * columns
