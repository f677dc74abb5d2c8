"""A party's block of columns, and its labels if it has them: what a node program computes with.

Everything here is exact and stays with the party; only the gate lets something out.

A guarded program computes with `clipped` blocks and `bounded_labels`: every cell becomes a number within a public bound
before anything is added up, so that no cell, whatever it holds, makes a sum over all rows overflow or lose its value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.kernels.columns import csc_matvec, csc_rmatvec, dense_matvec, dense_rmatvec

Column: TypeAlias = Any  # a dense array of length n, or a CSC block of n rows and one column
SOME = 64  # of so many rows one keys the hash of all
PIECE = 1 << 26  # bytes hashed at a time
LARGEST = 2.0**300  # of a cell where nothing less is declared: products of a few of them stay finite
SENSIBLE = 2.0**100  # of a public figure that sums are bounded by; and its inverse


def clean_cells(values: Any, bound: float = LARGEST) -> Floats:
    """Cells as doubles within ±bound: no number counts as zero, infinite or too large as the bound with its sign."""
    # Each cell by itself, before any sum: a warning, an error or a sum that is no number would tell about one row.
    with np.errstate(over="ignore", invalid="ignore"):  # wider floats, and NaNs that signal
        out = np.clip(np.asarray(values, dtype=np.float64), -bound, bound)
        out[np.isnan(out)] = 0.0
    return out


def sum_slack(rows: int) -> float:
    """By how much a sum of n rounded terms may move further than the exact one, as a factor: 1 + n·γ_n."""
    unit = 2.0**-53
    return 1.0 + rows * (rows * unit / (1.0 - rows * unit))


def check_sensible(**figures: float | None) -> None:
    """InvalidInput where a public figure is so large or so small that sums it bounds might not stay finite."""
    for name, value in figures.items():
        if value is not None and not (_is_figure(value) and 1.0 / SENSIBLE <= value <= SENSIBLE):
            raise InvalidInput(
                f"{name} must be a finite public figure above 0, between {1.0 / SENSIBLE:.0e} and {SENSIBLE:.0e}, got "
                f"{value}: sums must stay finite whatever the rows hold. Choose another unit for the columns.",
                name,
            )


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose privacy is protected: one row, or one person with at most so many rows.

    Parameters
    ----------
    name
        What one is called: "row", "patient".
    rows
        The most rows that one may have; a larger number needs more noise.
    """

    name: str = "row"
    rows: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.rows, int) or isinstance(self.rows, bool) or self.rows < 1:
            raise InvalidInput(f"a {self.name} must be allowed a whole number of rows, at least 1; got {self.rows!r}")
        if self.name == "row" and self.rows != 1:
            raise InvalidInput("a unit called 'row' is one row; name it after whom it is about, such as 'patient'")

    def __str__(self) -> str:
        return f"one {self.name}" + (f" (at most {self.rows} rows)" if self.rows > 1 else "")

    @property
    def neighbours(self) -> str:
        """Which two tables must look alike, in words."""
        return "replace one row" if self.name == "row" else f"replace the rows of one {self.name}"


ROW = Unit()


class FeatureColumn(Unit):  # a kind of Unit, so that terms and statements print it as they print the others
    """One feature column of one party: the unit of the papers on split features."""

    def __str__(self) -> str:
        return "one feature column"

    @property
    def neighbours(self) -> str:
        return "replace one feature column (rows and the label vector are not protected)"


COLUMN = FeatureColumn()


@dataclass(frozen=True, eq=False)
class Block:
    """Columns of one party, sparse (CSC) or dense (C-ordered); `positions` are their places in the joint table."""

    matrix: Any
    positions: NDArray[np.int64]
    labels: NDArray[Any] | None = None
    unit: Unit = ROW
    owner_notes: tuple[str, ...] = ()  # counts about the data that its owner may read, and nobody else
    beyond: Mapping[str, int] = field(default_factory=dict)  # of these: by column, values outside the declared bounds
    cells: Any = None  # of columns without declared figures, until somebody has looked (data/schema/sought.py)

    @property
    def rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def columns(self) -> int:
        return int(self.matrix.shape[1])

    def __repr__(self) -> str:
        return f"Block({self.rows:,} rows x {self.columns:,} columns)"  # its size, and nothing that it holds

    def own_labels(self) -> NDArray[Any]:
        """The labels, where this party holds them."""
        if self.labels is None:
            raise ProtocolError("a party was asked for labels that it does not hold")
        return self.labels

    @cached_property
    def by_position(self) -> NDArray[np.int64]:
        """The block's columns in the order of the joint table: ties are decided there, not by who holds what."""
        return np.argsort(self.positions, kind="stable")

    def correlations(self, r: Floats) -> Floats:
        """<column, r> for every column."""
        _check_size(r, self.rows, "rows")
        out = np.empty(self.columns)
        if sparse.issparse(self.matrix):
            csc_rmatvec(self.matrix.data, self.matrix.indices, self.matrix.indptr, r, out)
        else:
            dense_rmatvec(self.matrix, r, out)
        return out

    def scores(self, x: Floats) -> Floats:
        """The block's part of the linear scores."""
        _check_size(x, self.columns, "columns")
        out = np.empty(self.rows)
        if sparse.issparse(self.matrix):
            csc_matvec(self.matrix.data, self.matrix.indices, self.matrix.indptr, x, out)
        else:
            dense_matvec(self.matrix, x, out)
        return out

    def bounded_labels(self, bound: float) -> Floats:
        """The labels as numbers within ±bound, whatever they are."""
        return clean_cells(self.own_labels(), bound)

    def clipped(self, bound: float = LARGEST) -> Block:
        """The same block with every entry a number within ±bound, whatever the data."""
        if not sparse.issparse(self.matrix):
            return replace(self, matrix=np.ascontiguousarray(clean_cells(self.matrix, bound)))
        with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
            matrix = sparse.csc_array(self.matrix, dtype=np.float64, copy=True)
            # What is stored twice at one place is one entry.
            matrix.sum_duplicates()
        matrix.data = clean_cells(matrix.data, bound)
        return replace(self, matrix=matrix)

    def column(self, j: int) -> Column:
        """One column: as it is stored, so that a sparse one travels sparse."""
        if not 0 <= j < self.columns:
            raise ProtocolError(f"a party was asked for column {j} of its {self.columns:,}")
        if not sparse.issparse(self.matrix):
            return np.ascontiguousarray(self.matrix[:, j])
        ends = slice(self.matrix.indptr[j], self.matrix.indptr[j + 1])
        parts = (self.matrix.data[ends], self.matrix.indices[ends], np.array([0, ends.stop - ends.start]))
        return sparse.csc_array(parts, shape=(self.rows, 1))

    def digest(self) -> str:
        """A hash of everything in the block: a resumed run must find the same.

        SHA-256 of forms and of some cells keys GMAC over all of them, six times as fast: another table has the same one
        by chance once in 2^80, and whoever would make one must know those cells.
        """
        if sparse.issparse(self.matrix):
            arrays = [self.matrix.data, self.matrix.indices, self.matrix.indptr]
        else:
            arrays = [self.matrix]
        arrays += [self.positions, np.zeros(0) if self.labels is None else self.labels]
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array[::SOME]).data)
        cipher = AESGCM(digest.digest())
        number = 0
        for array in arrays:
            cells = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for at in range(0, cells.size, PIECE):
                digest.update(cipher.encrypt(number.to_bytes(12, "little"), b"", cells[at : at + PIECE].data))
                number += 1
        if self.cells is not None:
            digest.update(self.cells.digest().encode())
        return digest.hexdigest()[:32]


def _check_size(vector: Floats, wanted: int, what: str) -> None:
    # The kernels look at no bounds, and the vector may come from a peer.
    if vector.shape != (wanted,):
        raise ProtocolError(f"a vector of shape {vector.shape} was given for a block of {wanted:,} {what}")
