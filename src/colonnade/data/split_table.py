"""One table cut into parties: by columns, or by rows where each party holds all columns of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.data.party import LABELS, OPEN, LazyNames, Party, list_names, require_party
from colonnade.data.row_order import rank_in_person
from colonnade.data.schema.cells import as_frame
from colonnade.data.schema.column import Column, spans_of
from colonnade.data.schema.table import Schema, Source
from colonnade.errors import InvalidInput
from colonnade.privacy.block import Block, Unit

if TYPE_CHECKING:
    import polars as pl

Columns = Sequence[int] | Sequence[str] | slice | range | NDArray[Any]
Places = dict[str, NDArray[np.int64]]  # by party: which rows of the table it holds


@dataclass(frozen=True, eq=False)
class NumberTable:
    """A table as numbers. A column of a frame may take several places in the matrix (one for each level)."""

    matrix: Any
    names: Sequence[str] | None = None  # of the places, where there are names
    columns: Mapping[str, tuple[Column, list[int]]] | None = None  # of a frame: how encoded, and at which places

    def column_names(self) -> Sequence[Any]:
        """Names of a frame's columns, or places in a matrix."""
        return range(self.matrix.shape[1]) if self.columns is None else list(self.columns)


def read_table(X: Any) -> NumberTable:
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InvalidInput("X holds complex numbers; give their real and imaginary parts as columns of their own.")
    if sparse.issparse(X):
        matrix = sparse.csc_array(X, dtype=np.float64)
        matrix.sum_duplicates()
        _check_matrix(matrix.shape, matrix.data)
        return NumberTable(matrix)
    if hasattr(X, "columns") and hasattr(X, "shape"):
        return _frame_table(as_frame(X))
    try:
        matrix = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            "X is not a table of numbers: some entries are text or objects, or its rows differ in length. Pass an "
            "array of numbers, a sparse matrix or a data frame, whose columns of text become levels."
        ) from None  # NumPy's message quotes an entry
    _check_matrix(matrix.shape, matrix)
    return NumberTable(matrix)


def _check_matrix(shape: tuple[int, ...], values: NDArray[np.float64]) -> None:
    if len(shape) != 2:
        raise InvalidInput(
            f"X needs two dimensions, rows and columns; it has {len(shape)}. A column: X.reshape(-1, 1)."
        )
    _check_shape(*shape)
    if bad := int(values.size - np.isfinite(values).sum()):
        raise InvalidInput(f"X holds {bad:,} values that are NaN or infinite; fill them in or leave those rows out.")


def _frame_table(frame: pl.DataFrame) -> NumberTable:
    """A frame: numbers stay as they are, text becomes one column for each of its values. A column with gaps gets one
    more, which says where they are, as in a schema that is read off the rows."""
    _check_shape(*frame.shape)
    kinds = tuple(kind.unscaled() for kind in Schema.infer(frame).columns)
    schema = Schema(kinds, source=Source.DATA)
    columns = {kind.name: (kind, list(range(own.start, own.stop))) for kind, own in spans_of(kinds)}
    return NumberTable(schema.encode(frame).matrix, schema.features, columns)


def _check_shape(rows: int, columns: int) -> None:
    if not (rows and columns):
        raise InvalidInput(f"X has {rows} rows and {columns} columns; it needs at least one of each.")


def split_columns(
    table: NumberTable, parties: int | Mapping[str, Columns], label: str | None, unit: Unit
) -> dict[str, Party]:
    """Some columns at each party, and the labels at a party of their own unless `label` names one."""
    holders = {}
    for name, columns in _shares(parties, table.column_names()).items():
        schema = None
        places = [column for column in columns if isinstance(column, int)]
        if table.columns is not None:
            kinds = [table.columns[str(column)] for column in columns]
            schema = Schema(tuple(kind for kind, _ in kinds), source=Source.DATA)
            places = [place for _, at in kinds for place in at]
        block = Block(_kernel_order(table.matrix[:, places]), np.asarray(places, np.int64), unit=unit)
        holders[name] = Party(name, block, LazyNames(table.names, places), OPEN, schema)
    if label is not None and label not in holders:
        raise InvalidInput(f"label={label!r} is not a party; there are {list_names(holders)}.")
    if label is None and LABELS not in holders:
        holders[LABELS] = labels_only(table.matrix.shape[0], unit)
    return holders


def labels_only(rows: int, unit: Unit) -> Party:
    """A party that holds labels and no column."""
    return Party(LABELS, Block(np.zeros((rows, 0)), np.zeros(0, np.int64), unit=unit), (), OPEN)


def split_rows(
    table: NumberTable, parties: int | Mapping[str, Columns], label: str | None, unit: Unit
) -> tuple[dict[str, Party], Places]:
    """All columns of some rows at each party, and which rows these are."""
    rows, width = table.matrix.shape
    # Rows are chosen as columns are: by place, slice or mask.
    shares = _shares(parties, range(rows), "rows")
    schema = None
    if table.columns is not None:
        schema = Schema(tuple(kind for kind, _ in table.columns.values()), source=Source.DATA)
    matrix = sparse.csr_array(table.matrix) if sparse.issparse(table.matrix) else table.matrix
    holders = {}
    for name, share in shares.items():
        block = Block(_kernel_order(matrix[share]), np.arange(width), unit=unit)
        holders[name] = Party(name, block, LazyNames(table.names, range(width)), OPEN, schema)
    if left := rows - sum(len(share) for share in shares.values()):
        raise InvalidInput(f"{left:,} of {rows:,} rows are at no party: give every row to one, or leave them out of X.")
    if label:
        require_party(label, holders, "label")
    return holders, {name: np.asarray(share, np.int64) for name, share in shares.items()}


def _shares(
    parties: int | Mapping[str, Columns], everything: Sequence[Any], what: str = "columns"
) -> dict[str, list[Any]]:
    """Which columns (or rows) each party gets: names of a frame's columns, or places in a matrix."""
    if not isinstance(parties, Mapping):
        if not (isinstance(parties, int | np.integer) and 1 <= parties <= len(everything)):
            most = f"the {len(everything)} {what}"
            raise InvalidInput(f"parties={parties!r}: give a whole number from 1 to {most}, or a dict.")
        parts = np.array_split(np.arange(len(everything)), int(parties))
        return {f"party{k}": [everything[i] for i in part] for k, part in enumerate(parts)}
    if not parties:
        raise InvalidInput(f"parties={{}} names nobody: give at least one party and its {what}.")
    shares = {name: _choose(name, columns, everything, what) for name, columns in parties.items()}
    counts = Counter(column for share in shares.values() for column in share)
    if twice := [column for column, times in counts.items() if times > 1]:
        given = f"{len(twice):,} {what} are given twice, the first is {twice[0]!r}; a {what[:-1]} lives at one party."
        raise InvalidInput(f"{given} Leave it out of all but one share.")
    return shares


def _choose(name: str, columns: Columns, everything: Sequence[Any], what: str) -> list[Any]:
    picks: list[Any]
    if isinstance(columns, slice | range):
        picks = list(range(len(everything))[columns] if isinstance(columns, slice) else columns)
    else:
        array = np.asarray(columns)
        if array.ndim != 1 or (array.dtype == bool and array.size != len(everything)):
            mask = f"a mask of all {len(everything):,} {what}"
            raise InvalidInput(f"party {name!r}: give a list of {what}, a slice, or {mask}.")
        picks = np.flatnonzero(array).tolist() if array.dtype == bool else array.tolist()
    chosen = []
    for pick in picks:
        if isinstance(pick, str) and pick in everything:
            chosen.append(pick)
        elif isinstance(pick, int) and -len(everything) <= pick < len(everything):
            chosen.append(everything[pick])
        else:
            raise InvalidInput(f"party {name!r}: X has no {what[:-1]} {pick!r}; it has {len(everything):,} {what}.")
    if not chosen:
        raise InvalidInput(f"party {name!r} gets no {what}; leave it out, or give it some.")
    return chosen


def _kernel_order(matrix: Any) -> Any:
    """As the kernels want it: CSC, or C-ordered."""
    if sparse.issparse(matrix):
        matrix = sparse.csc_array(matrix)
        matrix.sort_indices()
        return matrix
    return np.ascontiguousarray(matrix)


def check_labels(y: Any, rows: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim not in (1, 2) or len(labels) != rows or labels.size == 0:
        raise InvalidInput(f"X has {rows:,} rows, and y has shape {labels.shape}; give one label a row.")
    return labels


def cut_to_unit(X: Any, y: Any, unit: tuple[Any, int]) -> tuple[Any, Any, Unit, int]:
    """The rows of a table that stay when nobody may have more than so many: the first ones, a public rule."""
    import polars as pl

    who, most = unit
    if isinstance(who, str):
        frame = as_frame(X)
        if who not in frame.columns:
            raise InvalidInput(f"unit names the column {who!r}; X has {list_names(frame.columns)}.")
        people = frame[who]
        X = frame.drop(who)
        name = who
    else:
        people = pl.Series(np.asarray(who))
        name = "person"
        X = as_frame(X) if hasattr(X, "columns") else X
    y = np.asarray(y)
    if not len(people) == len(y) == X.shape[0]:
        raise InvalidInput(f"unit is about {len(people):,} rows; X has {X.shape[0]:,} rows and y {len(y):,}.")
    kept = np.flatnonzero((rank_in_person(people) < most).to_numpy())
    rows = X[kept] if not sparse.issparse(X) else sparse.csr_array(X)[kept]
    return rows, y[kept], Unit(name, most), len(people) - len(kept)
