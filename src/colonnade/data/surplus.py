"""Rows of people who have more than a unit may: kept beside a federation for another order of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.privacy.block import Block

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Surplus:
    """The rows that were left out, encoded like the others."""

    keys: pl.Series
    people: pl.Series  # whom rows are about: first those that stayed, then these
    matrices: Mapping[str, Any]  # by party
    labels: NDArray[Any] | None

    def digest(self) -> str:
        """A hash of the cells and labels: a private run may learn from any of these rows."""
        labels = np.zeros(0) if self.labels is None else self.labels
        blocks = [Block(matrix, np.arange(matrix.shape[1]), labels) for matrix in self.matrices.values()]
        return " ".join(block.digest() for block in blocks)


def take_rows(first: Any, then: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of a matrix that is followed by another, or by none, in this order."""
    if sparse.issparse(first):
        whole = first if then is None else sparse.vstack([first, then])
        rows = sparse.csc_array(sparse.csr_array(whole)[places])
        rows.sort_indices()
        return rows
    if then is None:
        return first[places]
    here = places < len(first)
    rows = np.empty((places.size, *first.shape[1:]), np.result_type(first, then))
    rows[here], rows[~here] = first[places[here]], then[places[~here] - len(first)]
    return rows
