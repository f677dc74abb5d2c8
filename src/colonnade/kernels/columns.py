"""Products with a block of columns, its best decision stump, and rows against one row: each one sequential sum.

Nothing is reassociated: no fast-math, no BLAS, no threads. So a column's product is the same to the bit whichever party
holds it and whether the block is stored dense or sparse, and a split of columns over parties changes nothing; a kernel
value is the same whichever node holds the row, and a row against itself has distance 0 exactly.

A stump says +1 where x > threshold and -1 elsewhere, or the opposite. A cut is given by how many rows lie below it: cut
0 says the same of every row. Entries that are not stored are zeros and enter as one run, so a sparse block costs its
nonzeros. Ties go to the column that comes first in `order`, then to the lower cut.
"""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True)
def csc_rmatvec(data, indices, indptr, r, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[j] = <column j, r>, for a CSC block."""
    for j in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            total += data[k] * r[indices[k]]
        out[j] = total


@njit(cache=True)
def dense_rmatvec(block, r, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[j] = <column j, r>, for a C-ordered block: rows outside, so that columns are summed side by side."""
    out[:] = 0.0
    rows, columns = block.shape
    for i in range(rows):
        for j in range(columns):
            out[j] += block[i, j] * r[i]


@njit(cache=True)
def csr_rmatvec(data, indices, indptr, r, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[j] = <column j, r>, for a CSR block: as `dense_rmatvec`, without its zeros."""
    out[:] = 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            out[indices[k]] += data[k] * r[i]


@njit(cache=True)
def csc_matvec(data, indices, indptr, x, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out = block @ x, for a CSC block, column after column."""
    out[:] = 0.0
    for j in range(indptr.size - 1):
        if x[j] != 0.0:
            for k in range(indptr[j], indptr[j + 1]):
                out[indices[k]] += data[k] * x[j]


@njit(cache=True)
def dense_matvec(block, x, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out = block @ x, for a C-ordered block, column after column in each row."""
    rows, columns = block.shape
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            if x[j] != 0.0:
                total += block[i, j] * x[j]
        out[i] = total


@njit(cache=True)
def add_scaled(rows, values, weight, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[rows] += weight * values, for one sparse column."""
    for k in range(rows.size):
        out[rows[k]] += weight * values[k]


@njit(cache=True)
def scatter_rows(data, indices, indptr, chosen, scale, first, cursor, out):  # type: ignore[no-untyped-def]  # numba
    """out[j, i - first] += scale[i] * column chosen[j] in row i, for the rows that `out` has room for.

    cursor[j] is where that column's next row stands, and moves on. False if rows are out of order.
    """
    stop = first + out.shape[1]
    for j in range(chosen.size):
        k = cursor[j]
        end = indptr[chosen[j] + 1]
        while k < end and indices[k] < stop:
            if indices[k] < first:
                return False
            out[j, indices[k] - first] += scale[indices[k]] * data[k]
            k += 1
        cursor[j] = k
    return True


@njit(cache=True)
def best_stump(values, rows, indptr, order, r):  # type: ignore[no-untyped-def]  # numba infers the types
    """(column, cut, edge) with the largest |edge|, edge = <stump, r>; values are sorted within each column."""
    n = r.size
    total = 0.0
    for i in range(n):
        total += r[i]
    best = -math.inf
    where = 0
    at = 0
    edge = 0.0
    for j in order:
        stored = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            stored += r[rows[k]]
        zeros = n - (indptr[j + 1] - indptr[j])
        k = indptr[j]
        below = 0.0
        cut = 0
        while True:
            if abs(total - 2.0 * below) > best:
                best = abs(total - 2.0 * below)
                where = j
                at = cut
                edge = total - 2.0 * below
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


@njit(cache=True)
def csc_squared_norms(data, indices, indptr, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[i] = |row i|^2, for a CSC block."""
    out[:] = 0.0
    for j in range(indptr.size - 1):
        for k in range(indptr[j], indptr[j + 1]):
            out[indices[k]] += data[k] * data[k]


@njit(cache=True)
def dense_squared_norms(block, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[i] = |row i|^2, for a C-ordered block."""
    rows, columns = block.shape
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            total += block[i, j] * block[i, j]
        out[i] = total


@njit(cache=True)
def squared_norm(z):  # type: ignore[no-untyped-def]  # numba infers the types
    """|z|^2."""
    total = 0.0
    for value in z:
        total += value * value
    return total


@njit(cache=True)
def rbf_column(products, norms, norm, gamma, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[i] = exp(-gamma |x_i - z|^2), from <x_i, z>, |x_i|^2 and |z|^2."""
    for i in range(products.size):
        out[i] = math.exp(-gamma * max(norms[i] + norm - 2.0 * products[i], 0.0))


@njit(cache=True)
def step_towards(gradient, column, y, label, step):  # type: ignore[no-untyped-def]  # numba infers the types
    """gradient <- (1 - step) gradient + step y_i label (column_i + 1), in place."""
    for i in range(gradient.size):
        gradient[i] = (1.0 - step) * gradient[i] + step * (y[i] * label * (column[i] + 1.0))
