"""What a private run would spend its budget on for nothing: columns and labels of one party that carry nothing.

Said before that run reserves anything, to whoever holds the data and to nobody else: in process to the caller, who
holds all tables, as a warning; between organisations to the party's own operator, in its log and at the question
whether to take part. A declared level that no row has, in a column that is otherwise in order, is information and no
warning (`about_levels`): said to the same, and calmly. Counts, names of columns and settings, never a value.
docs/understand/privacy/accounting.md ("Who is told that a budget would buy nothing") derives who may see what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.schema.cells import Gaps
from colonnade.data.schema.column import Column, spans_of
from colonnade.data.schema.table import Schema
from colonnade.model.job import Job
from colonnade.privacy.block import Block

LOOK = 1 << 10  # rows in which most columns show that they hold more than one value
MOST = 6  # columns of which some is in vain that are named; a wide table may have many
UNSPENT = "Nothing more is spent before this is said; a run that goes on pays for it."
ABSENT = "declared levels that no row has"
KEEP = "A run pays for them as for others; keep those that new rows may have."
SAME = "the labels of all rows are the same: there is nothing to learn"


def about_columns(schema: Schema | None, block: Block) -> tuple[str, ...]:
    """Columns that are the same in all rows once encoded, then those of which some levels or cells are in vain.

    Of a plain matrix, if all columns are the same in all rows.
    """
    if not _readable(block):
        return ()
    same = _same_in_all_rows(block.matrix)
    if schema is None:
        every = f"all {block.columns:,} columns" if block.columns > 1 else "its one column"
        return (f"{every} hold one value in all {block.rows:,} rows",) if same.all() else ()
    filled = _count_filled(block.matrix)
    nothing = []
    little = []
    for column, features in spans_of(schema.columns):
        if same[features].all():
            nothing.append(_nothing(column, block.rows, filled[features]))
        elif column.levels_of():
            little += _levels_in_vain(column, block.rows, filled[features])
        elif beyond := block.beyond.get(column.name, 0):
            little += _beyond_bounds(column, beyond, block.matrix[:, features])
    more = (f"and {len(little) - MOST:,} more like these",) if len(little) > MOST else ()
    return (*nothing, *little[:MOST], *more)


def about_levels(schema: Schema | None, block: Block) -> tuple[str, ...]:
    """Declared levels that no row has, of columns that `about_columns` does not name: one line for all, or none.

    Rare levels may be absent from a table that is in order, so this is information and no warning.
    """
    if schema is None or not _readable(block):
        return ()
    filled = _count_filled(block.matrix)
    few = []
    for column, features in spans_of(schema.columns):
        own = filled[features]
        levels = len(column.levels_of())
        if levels and not np.isin(own, (0, block.rows)).all():
            empty, stray = _empty_and_stray(levels, block.rows, own)
            if empty and not _in_vain(levels, empty, stray):
                few.append(f"{column.name!r} ({empty:,} of {levels:,})")
    more = f" and {len(few) - MOST:,} more" if len(few) > MOST else ""
    return (f"{ABSENT}: column {', '.join(few[:MOST])}{more}",) if few else ()


def about_new_rows(schema: Schema | None, block: Block) -> tuple[str, ...]:
    """Cells of rows to be scored that a model does not take as they are: said to whoever holds the rows."""
    if schema is None or not _readable(block):
        return ()
    filled = _count_filled(block.matrix)
    found = list[str]()
    for column, features in spans_of(schema.columns):
        levels = len(column.levels_of())
        if levels and (stray := _empty_and_stray(levels, block.rows, filled[features])[1]):
            found.append(_strays(column, stray, block.rows))
        elif beyond := block.beyond.get(column.name, 0):
            found.append(f"column {column.name!r}: {_outside(beyond, block.rows)}")
    return tuple(found)


def _readable(block: Block) -> bool:
    """Whether there are cells to look at; a shard stays in its file until it is used."""
    return "matrix" in vars(block) and 0 not in block.matrix.shape


def _empty_and_stray(levels: int, rows: int, filled: NDArray[np.int64]) -> tuple[int, int]:
    """Levels that no cell has, and cells that no level covers."""
    return int(np.count_nonzero(filled[:levels] == 0)), rows - int(filled.sum())


def _in_vain(levels: int, empty: int, stray: int) -> bool:
    """Whether empty levels hint at a mistake: beside cells that no level covers, or more than half of all."""
    return bool(stray) or 2 * empty > levels


def _levels_in_vain(column: Column, rows: int, filled: NDArray[np.int64]) -> list[str]:
    """Cells that no level covers, and levels that no cell has where that hints at a mistake."""
    levels = len(column.levels_of())
    empty, stray = _empty_and_stray(levels, rows, filled)
    said = empty and _in_vain(levels, empty, stray)
    found = [f"column {column.name!r}: {empty:,} of its {levels:,} declared levels are in no row"] if said else []
    return [*found, _strays(column, stray, rows)] if stray else found


def _strays(column: Column, stray: int, rows: int) -> str:
    levels = len(column.levels_of())
    none = f"{stray:,} of its {rows:,} values are none of its {levels:,} declared levels and count as zeros"
    return f"column {column.name!r}: {none}"


def _outside(beyond: int, rows: int) -> str:
    return f"{beyond:,} of its {rows:,} values lie outside the declared bounds and count as the nearer one"


def _beyond_bounds(column: Column, beyond: int, features: Any) -> list[str]:
    """A number or date of which most cells lie outside the bounds, or none between them; filled gaps are cells."""
    low, high = column.entry_ends()
    cells = features.toarray() if sparse.issparse(features) else features
    known = cells[:, -1] == 0 if column.missing == Gaps.INDICATOR else np.ones(cells.shape[0], dtype=bool)
    between = np.count_nonzero((cells[known, 0] > low) & (cells[known, 0] < high))
    if between and 2 * beyond <= cells.shape[0]:
        return []
    outside = _outside(beyond, cells.shape[0])
    return [f"column {column.name!r}: {outside}{'' if between else ', and none between them'}"]


def _nothing(column: Column, rows: int, filled: NDArray[np.int64]) -> str:
    what = f"all {rows:,} values are missing, or the same once they are cut to the declared bounds"
    if levels := len(column.levels_of()):
        what = f"all {rows:,} values are one and the same level, or missing"
        if not filled.any():
            none = f"none of its {rows:,} values is one of its {levels:,} declared levels"
            what = f"{none}. Are they written as the schema writes them?"
    return f"column {column.name!r}: {what}"


def _same_in_all_rows(matrix: Any) -> NDArray[np.bool_]:
    """For each column whether it holds one value."""
    if not sparse.issparse(matrix):
        same: NDArray[np.bool_] = (matrix[:LOOK] == matrix[:1]).all(axis=0)
        same[same] = (matrix[:, same] == matrix[:1, same]).all(axis=0)  # few are left
        return same
    columns = sparse.csc_array(matrix)
    filled = _count_filled(matrix)
    same = filled == 0
    for j in np.flatnonzero(filled == matrix.shape[0]):
        entries = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        same[j] = bool((entries == entries[0]).all())
    return same


def _count_filled(matrix: Any) -> NDArray[np.int64]:
    """How many entries of each column are not zero."""
    held = np.diff(sparse.csc_array(matrix).indptr) if sparse.issparse(matrix) else np.count_nonzero(matrix, axis=0)
    return np.asarray(held, dtype=np.int64)


class LabelCounts(NamedTuple):
    """What is counted about labels: the different ones, how many rows have each, and how many have none."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    gaps: int

    @property
    def rows(self) -> int:
        return int(self.counts.sum()) + self.gaps


def count_labels(y: Any) -> LabelCounts | None:
    """The different labels, of which `about_labels` counts some; None where they are no numbers."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf" or labels.size == 0:
        return None
    # A warning that is an error would end what others see.
    with np.errstate(over="ignore", invalid="ignore"):
        values, counts = np.unique(labels.astype(np.float64), return_counts=True)
    known = ~np.isnan(values)
    return LabelCounts(values[known], counts[known].astype(np.int64), int(counts[~known].sum()))


def about_labels(labels: LabelCounts | None, job: Job) -> tuple[str, ...]:
    """LabelCounts that a private run takes for something else than they seem to be, or that are all the same."""
    if job.privacy is None or labels is None:
        return ()
    values = labels.values
    if values.size <= 1:
        return (SAME,)
    if not job.problem.loss.classifies:
        middle = job.privacy.label_middle
        reach = job.privacy.label_reach
        return () if reach is None else about_range(labels, middle - reach, middle + reach)
    above = int(np.count_nonzero(values > 0))
    if above in (0, values.size):
        sides = f"all {values.size:,} different labels are {'above 0' if above else '0 or below'}"
        return (f"{sides}, so all rows are of one class: write the other as 0 or −1",)
    if values.size > 2:
        split = f"{above:,} of them are above 0, and {values.size - above:,} are not"
        advice = "Make a column of 0 and 1 if another split is meant"
        return (f"the {values.size:,} different labels become two classes: {split}. {advice}",)
    return ()


def about_range(labels: LabelCounts, low: float, high: float) -> tuple[str, ...]:
    """Numeric labels of which the declared range leaves little: the same ones, or most of them clipped or missing."""
    beyond = int(labels.counts[(labels.values < low) | (labels.values > high)].sum())
    found = []
    if 2 * beyond > labels.rows:
        outside = f"{beyond:,} of {labels.rows:,} labels lie outside their declared range and count as its nearer end"
        found.append(f"{outside}: declare the range that they may have")
    if 2 * labels.gaps > labels.rows:
        found.append(f"{labels.gaps:,} of {labels.rows:,} labels are no numbers and count as the middle of their range")
    middle = [(low + high) / 2.0] * (labels.gaps > 0)
    if np.unique(np.append(np.clip(labels.values, low, high), middle)).size <= 1:
        found.append(SAME)
    return tuple(found)


def about_classes(found: Sequence[object], listed: Sequence[object]) -> tuple[str, ...]:
    """Declared classes that no row has, and rows that have none of them."""
    counts = Counter(found)
    empty = sum(not counts[label] for label in listed)
    stray = {label: count for label, count in counts.items() if label not in set(listed)}
    notices = []
    if empty:
        notices.append(f"no row has a label of {empty:,} of the {len(listed):,} declared classes")
    if stray:
        others = "the first of the two" if len(listed) == 2 else "none of them"
        labels = f"{sum(stray.values()):,} of {len(found):,} labels, {len(stray):,} different ones"
        notices.append(f"{labels}, are not in classes= and count as {others}")
    return tuple(notices)


def about_rows(rows: Any) -> tuple[str, ...]:
    """Rows of a CSR matrix that are all the same, as a private estimator takes them; drops its stored zeros."""
    rows.eliminate_zeros()
    count = rows.shape[0]
    each = np.diff(rows.indptr)
    if count < 2 or (each != each[0]).any():
        return ()
    if all((part.reshape(count, -1) == part[: each[0]]).all() for part in (rows.indices, rows.data)):
        return (f"all {count:,} rows are the same once entries are cut to ±feature_bound and missing ones are 0",)
    return ()
