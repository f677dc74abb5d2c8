"""Encoded columns into one matrix: compressed if most entries are zero, else an array.

A table that comes in blocks of rows is kept as encoded blocks and copied into the answer one by one, each block being
freed as soon as it is copied: the memory is that of the answer and of a block or two, never of the table's cells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.schema.cells import Sparse

SPARSE_BELOW = 0.3  # density under which a compressed matrix is both smaller and faster than an array


def assemble(columns: Sequence[Sparse], height: int) -> Any:
    """Encoded columns side by side: a CSC matrix with sorted indices, or a C-ordered array."""
    stored = sum(rows.size for rows, _ in columns)
    if stored < SPARSE_BELOW * height * len(columns):
        indptr = np.cumsum([0] + [rows.size for rows, _ in columns])
        indices, data = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return _csc(data, indices, indptr, height)
    dense = np.zeros((height, len(columns)))
    for j, (rows, values) in enumerate(columns):
        dense[rows, j] = values
    return dense


def _csc(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], height: int) -> Any:
    index = np.int32 if max(data.size, height) <= np.iinfo(np.int32).max else np.int64
    parts = (data, indices.astype(index, copy=False), indptr.astype(index))
    matrix = sparse.csc_array(parts, shape=(height, indptr.size - 1))
    matrix.has_sorted_indices = True
    return matrix


class Blocks:
    """Encoded blocks of rows, in order, until they are put together."""

    def __init__(self, width: int) -> None:
        self.rows = self._stored = 0
        self._width = width
        self._held: deque[Any] = deque()

    def add(self, columns: Sequence[Sparse], height: int) -> None:
        """The next rows."""
        self.rows += height
        self._stored += sum(rows.size for rows, _ in columns)
        self._held.append(assemble(columns, height))

    def together(self, dense: bool = True) -> Any:
        """All rows in one matrix, of the same form as if they had been encoded at once; compressed if not `dense`."""
        if len(self._held) == 1:
            return self._held.pop()
        if not dense or self._stored < SPARSE_BELOW * self.rows * self._width:
            return self._compressed()
        whole, begin = np.empty((self.rows, self._width)), 0
        while self._held:
            block = self._held.popleft()
            whole[begin : begin + block.shape[0]] = block.toarray() if sparse.issparse(block) else block
            begin += block.shape[0]
        return whole

    def _compressed(self) -> Any:
        counts = sum((_counts(block) for block in self._held), np.zeros(self._width, np.int64))
        ends = np.concatenate([[0], np.cumsum(counts)])
        index = np.int32 if max(self._stored, self.rows) <= np.iinfo(np.int32).max else np.int64
        indices, data = np.empty(ends[-1], index), np.empty(ends[-1])
        at, begin = ends[:-1].copy(), 0
        while self._held:
            block = sparse.csc_array(self._held.popleft())
            found = np.diff(block.indptr)
            # Entry e of column j goes behind what earlier blocks put there.
            places = np.arange(block.nnz) + np.repeat(at - block.indptr[:-1], found)
            indices[places], data[places] = block.indices + index(begin), block.data
            at += found
            begin += block.shape[0]
        return _csc(data, indices, ends, self.rows)


def _counts(block: Any) -> NDArray[np.int64]:
    if sparse.issparse(block):
        return np.asarray(np.diff(block.indptr), np.int64)
    return np.asarray(np.count_nonzero(block, axis=0), np.int64)
