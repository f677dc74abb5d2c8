"""What a private run would spend its budget on for nothing: columns and labels of one party that carry nothing.

Said before anything is reserved, to whoever holds the data and to nobody else: in process to the caller, who holds all tables,
as a warning; between organisations to the party's own operator, in its log and at the question whether to take part.
Counts, names of columns and settings, never a value. docs/privacy.md ("Who is told that a budget would buy nothing") derives who may see what.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.algorithms.method import Job
from colonnade.privacy.block import Block
from colonnade.schema import Categorical, Column, Schema


def about_columns(schema: Schema | None, block: Block) -> tuple[str, ...]:
    """Columns that are the same in all rows once they are encoded; of a plain matrix, if all of them are."""
    if (
        not block.columns or "matrix" not in vars(block) or not block.rows
    ):  # the second: it stays in its file until it is used
        return ()
    same, filled = _same_in_all_rows(block.matrix)
    if schema is None:
        every = f"all {block.columns:,} columns" if block.columns > 1 else "its one column"
        return (f"{every} hold one value in all {block.rows:,} rows",) if same.all() else ()
    found, start = [], 0
    for column in schema.columns:
        features = slice(start, start + len(column.features()))
        start = features.stop
        if same[features].all():
            found.append(_nothing(column, block.rows, filled[features]))
    return tuple(found)


def _nothing(column: Column, rows: int, filled: NDArray[np.int64]) -> str:
    if isinstance(column, Categorical) and not filled.any():
        return (
            f"column {column.name!r}: none of its {rows:,} values is one of its {len(column.levels):,} declared levels. Are they "
            "written as the schema writes them?"
        )
    if isinstance(column, Categorical):
        return f"column {column.name!r}: all {rows:,} values are one and the same level, or missing"
    return (
        f"column {column.name!r}: all {rows:,} values are missing, or the same once they are cut to the declared bounds"
    )


def _same_in_all_rows(matrix: Any) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """For each column whether it holds one value, and how many entries are not zero."""
    rows = matrix.shape[0]
    if not sparse.issparse(matrix):
        return np.asarray((matrix == matrix[:1]).all(axis=0)), np.count_nonzero(matrix, axis=0).astype(np.int64)
    columns = sparse.csc_array(matrix)
    filled = np.diff(columns.indptr).astype(np.int64)
    same = filled == 0
    for j in np.flatnonzero(filled == rows):
        entries = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        same[j] = bool((entries == entries[0]).all())
    return same, filled


def different(y: Any) -> NDArray[np.float64] | None:
    """The different labels, of which `about_labels` counts some; None where they are no numbers."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf" or labels.size == 0:
        return None
    values = np.unique(labels.astype(np.float64))
    return values[np.isfinite(values)]


def about_labels(values: NDArray[np.float64] | None, job: Job) -> tuple[str, ...]:
    """Labels that a private run takes for something else than they seem to be, or that are all the same."""
    if job.privacy is None or values is None:
        return ()
    if values.size <= 1:
        return ("the labels of all rows are the same: there is nothing to learn",)
    if not job.problem.loss.classifies:
        return ()
    above = int(np.count_nonzero(values > 0))
    if above in (0, values.size):
        side = "above 0" if above else "0 or below"
        return (
            f"all {values.size:,} different labels are {side}, so all rows are of one class: write the other as 0 or −1",
        )
    if values.size > 2:
        return (
            f"the {values.size:,} different labels become two classes: {above:,} of them are above 0, and "
            f"{values.size - above:,} are not. Make a column of 0 and 1 if another split is meant",
        )
    return ()
