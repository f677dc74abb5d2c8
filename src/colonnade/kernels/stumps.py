"""The best decision stump of a block: one pass over the sorted entries of every column.

A stump says +1 where x > threshold and -1 elsewhere, or the opposite. A cut is given by how many rows lie below it: cut
0 says the same of every row. Entries that are not stored are zeros and enter as one run, so a sparse block costs its
nonzeros. Ties go to the column that comes first in `order`, then to the lower cut.
"""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True)
def best_stump(values, rows, indptr, order, r):  # type: ignore[no-untyped-def]  # numba infers the types
    """(column, cut, edge) with the largest |edge|, edge = <stump, r>; values are sorted within each column."""
    n = r.size
    total = 0.0
    for i in range(n):
        total += r[i]
    best, where, at = -math.inf, 0, 0
    edge = 0.0
    for j in order:
        stored = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            stored += r[rows[k]]
        zeros = n - (indptr[j + 1] - indptr[j])
        k, below, cut = indptr[j], 0.0, 0
        while True:
            if abs(total - 2.0 * below) > best:
                best, where, at, edge = abs(total - 2.0 * below), j, cut, total - 2.0 * below
            if zeros > 0 and (k == indptr[j + 1] or values[k] > 0.0):  # the run of zeros
                below += total - stored
                cut += zeros
                zeros = 0
            elif k < indptr[j + 1]:  # the run of one stored value
                value = values[k]
                while k < indptr[j + 1] and values[k] == value:
                    below += r[rows[k]]
                    cut += 1
                    k += 1
            if cut == n:  # above the largest value nothing is left
                break
    return where, at, edge
