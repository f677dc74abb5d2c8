"""Rows against one row: squared norms and the Gaussian kernel, each one sequential sum in column order.

Nothing is reassociated, so a kernel value is the same to the bit whichever node holds the row; a row against itself has
distance 0 exactly, because its norm and its product are the same sum.
"""

from __future__ import annotations

import math

from numba import njit


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
