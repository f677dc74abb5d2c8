"""Rows as a private fit sees them: entries clipped, bent by a power, brought to one length.

Everything here looks at one row at a time and at public figures. So a neighbour, who differs in one row, differs in one
row of what comes out, and that row has norm at most 1 whatever its entries were.

x → sign(x)·|x|^p keeps signs, so it needs no promise about them. p < 1 pulls up small values: with noise on every
column, that a word occurs tells more than how often. Entries that are not numbers count as zero: an error would tell
about a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.privacy.block import clean_cells


@dataclass(frozen=True)
class ClipMap:
    """From a raw row to the row a model of picks multiplies: entries clipped, and nothing else."""

    bound: float

    def __call__(self, X: Any) -> Any:
        return clipped(X, self.bound)


@dataclass(frozen=True)
class RowMap:
    """From a raw row to the row a model multiplies: clip, power, keep some columns, norm (a zero row stays zero)."""

    bound: float
    power: float
    kept: NDArray[np.int64] | None = None
    norm: float = 1.0

    def __call__(self, X: Any) -> Any:
        """The rows of X as CSR, each of norm `norm` or 0."""
        return self.unit(X) * self.norm

    def unit(self, X: Any) -> Any:
        """The rows of X as CSR, each of norm 1 or 0."""
        rows = unit_rows(clipped(X, self.bound), self.power)
        if self.kept is None:
            return rows
        outside = np.ones(rows.shape[1], dtype=bool)
        outside[self.kept] = False
        rows.data[outside[rows.indices]] = 0.0
        return unit_rows(rows, 1.0)


def as_doubles(X: Any) -> Any:
    """A frame of numbers and Booleans as one of doubles, with NaN for a missing cell; anything else as it is.

    Left to itself an array of a Boolean column with one missing cell would be of another type than one without: what is
    refused must follow from the types of the columns, never from a cell.
    """
    if hasattr(X, "dtypes") and hasattr(X, "astype"):  # pandas
        return X.astype(np.float64) if all(getattr(kind, "kind", "O") in "biuf" for kind in X.dtypes) else X
    if hasattr(X, "schema") and hasattr(X, "cast"):  # polars
        import polars as pl

        return X.cast(pl.Float64) if all(kind.is_numeric() or kind == pl.Boolean for kind in X.dtypes) else X
    return X


def clipped(X: Any, bound: float) -> Any:
    """X as CSR of doubles with every entry within ±bound, NaN as zero."""
    with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
        rows = sparse.csr_array(X, dtype=np.float64, copy=True)
        rows.sum_duplicates()
    rows.data = clean_cells(rows.data, bound)
    return rows


def unit_rows(rows: Any, power: float) -> Any:
    """sign(x)·|x|^power, then every row that is not zero to norm 1; `rows` is CSR and is changed in place."""
    rows.eliminate_zeros()
    counts = np.diff(rows.indptr)
    # Dividing by the largest entry first keeps squares of huge and tiny rows from over- or underflowing.
    _divide(rows, np.maximum.reduceat(np.append(np.abs(rows.data), 0.0), rows.indptr[:-1]), counts)
    rows.data = np.sign(rows.data) * np.abs(rows.data) ** power
    _divide(rows, np.sqrt(np.add.reduceat(np.append(rows.data**2, 0.0), rows.indptr[:-1])), counts)
    return rows


def _divide(rows: Any, by: NDArray[np.float64], counts: NDArray[Any]) -> None:
    """Each row over its own number; `reduceat` gives nonsense for an empty row, which has nothing to divide."""
    rows.data /= np.repeat(by, counts)


def norm_slack(rows: int, columns: int) -> float:
    """By how much a sum over rows may move further in doubles than on paper, as a factor.

    A row's norm is 1 up to (columns + 8)·2^-51. The sums over rows add γ_n of the sum of sizes: in L2, by the triangle
    inequality, at most γ_n·n row norms on either side, so a factor 1 + n·γ_n beside the exact movement of two norms.
    """
    unit = 2.0**-53
    return (1.0 + (columns + 8) * 2.0**-51) * (1.0 + (rows + 1) * ((rows + 1) * unit / (1.0 - (rows + 1) * unit)))
