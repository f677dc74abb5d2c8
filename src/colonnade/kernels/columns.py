"""Products with a block of columns, each column one sequential sum in row order.

Nothing is reassociated: no fast-math, no BLAS, no threads. So a column's product is the same to the bit whichever party
holds it and whether the block is stored dense or sparse, and a split of columns over parties changes nothing.
"""

from __future__ import annotations

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
        k, end = cursor[j], indptr[chosen[j] + 1]
        while k < end and indices[k] < stop:
            if indices[k] < first:
                return False
            out[j, indices[k] - first] += scale[indices[k]] * data[k]
            k += 1
        cursor[j] = k
    return True
