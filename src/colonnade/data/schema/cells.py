"""From the cells of a data frame to sparse columns of numbers, and from those to one matrix: compressed if most entries
are zero, else an array. Nothing here knows what was declared.

A table that comes in blocks of rows is kept as encoded blocks and copied into the answer one by one, each block being
freed as soon as it is copied: the memory is that of the answer and of a block or two, never of the table's cells.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput, unquoted
from colonnade.fields import Choice
from colonnade.kernels import curves
from colonnade.kernels.arrays import Floats

if TYPE_CHECKING:
    import polars as pl


class Gaps(Choice):
    """What becomes of a gap that no value stands in for."""

    REFUSE = "refuse"  # an error
    INDICATOR = "indicator"  # a column of its own
    OTHER = "other"  # of levels: none of them


class CardKind(Choice):
    """How a scorecard and a pipeline read a cell (views/scorer.py)."""

    NUMBER = "number"
    FLAG = "flag"
    LEVEL = "level"
    DAY = "day"
    MONTH = "month"
    WEEKDAY = "weekday"


class CellKind(Choice):
    """What the cells of a column look like."""

    NOTHING = "nothing"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    DATE = "date"
    OTHER = "other"


OF_NUMBERS = (Gaps.REFUSE, Gaps.INDICATOR)
Missing = str | float  # one of Gaps, or a number that stands in
Rows = NDArray[np.int64]
Sparse = tuple[Rows, Floats]  # one encoded column: increasing row numbers, and the values there

LARGEST = 1e100  # of a bound: squares and sums of squares stay finite
SPARSE_BELOW = 0.3  # density under which a compressed matrix is both smaller and faster than an array


class EncodedColumn(NamedTuple):
    """One column of a table as numbers, and how many of its values lay outside what was declared."""

    columns: list[Sparse]  # one for each feature, in the order of `Column.groups`
    outside: int = 0  # told to the owner as unknown levels, or as clipped values; of a kind with neither, not at all


@unquoted()
def as_frame(frame: Any, names: Sequence[str] | None = None) -> pl.DataFrame:
    """A polars or pandas DataFrame as polars, with the named columns (None: all) present."""
    import polars as pl

    table = frame if isinstance(frame, pl.DataFrame) else _from_pandas(frame, names)
    if absent := [name for name in names or () if name not in table.columns]:
        lacks = f"{len(absent):,} of the schema's {len(names or ()):,} columns, the first is {absent[0]!r}"
        raise InvalidInput(f"the table lacks {lacks}. Rename the table's column or take it out of the schema.")
    return table


def is_frame(table: Any) -> bool:
    import polars as pl

    return isinstance(table, pl.DataFrame)


def holds_numbers(kind: Any) -> bool:
    """Whether a column of this type is taken for numbers; one of nothing but gaps may be any."""
    import polars as pl

    return bool(kind.is_numeric()) or kind in (pl.Boolean, pl.Null)


def holds_days(kind: Any) -> bool:
    import polars as pl

    return kind in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Null) or isinstance(kind, pl.Datetime)


def holds_levels(kind: Any) -> bool:
    import polars as pl

    return not (kind.is_nested() or kind in (pl.Binary, pl.Object))


def wrong(name: str, what: str) -> InvalidInput:
    return InvalidInput(f"column {name!r}: {what}")


def _from_pandas(frame: Any, names: Sequence[str] | None) -> pl.DataFrame:
    import polars as pl

    if not (hasattr(frame, "to_numpy") and hasattr(frame, "columns")):
        raise InvalidInput(f"rows came as {type(frame).__name__}. Give a polars or pandas DataFrame.")
    frame = frame.rename(columns=str)
    if names is not None:
        # A column the schema does not name may hold anything: leave it out before converting.
        frame = frame[[name for name in frame.columns if name in set(names)]]
    try:
        # Of pyarrow, without which polars takes plain numbers only.
        with suppress(ImportError):
            return pl.from_pandas(frame)
        return pl.DataFrame([_from_pandas_column(name, frame[name]) for name in _once(frame.columns)])
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            "a pandas column mixes types that have no common one, or two columns share a name. Convert or rename it "
            "first, for example with frame.convert_dtypes() or astype(str)."
        ) from None


def _once(names: Any) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("two columns share a name")
    return list(names)


def _from_pandas_column(name: str, column: Any) -> pl.Series:
    """A pandas column as pyarrow would hand it over, but levels as what they name."""
    import polars as pl

    kind = getattr(column.dtype, "kind", "O")
    if isinstance(column.dtype, np.dtype) and kind in "biufM":
        return pl.Series(name, column.to_numpy(), nan_to_null=True)
    if zone := getattr(column.dtype, "tz", None):
        there = pl.Series(name, column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        return there.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
    if hasattr(column, "cat"):
        codes = pl.Series(column.cat.codes.to_numpy()).cast(pl.Int64)
        levels = _from_pandas_column(name, column.cat.categories.to_series())
        return levels.gather(codes.set(codes < 0, None))
    gaps = column.isna().to_numpy(dtype=bool)
    values = [None if gap else value for gap, value in zip(gaps, column.tolist(), strict=True)]
    number = {"b": pl.Boolean, "i": pl.Int64, "u": pl.UInt64, "f": pl.Float64}.get(kind)
    found = pl.Series(name, values, dtype=number, strict=True)
    return found.cast(pl.String) if found.dtype == pl.Null else found


def numbers_of(name: str, missing: Missing, values: pl.Series) -> tuple[Floats, Rows]:
    """A writable float copy with every gap filled, and the rows of the gaps."""
    import polars as pl

    if values.null_count() == values.len():  # then the type says nothing
        values = pl.Series(name, [None] * values.len(), dtype=pl.Float64)
    if not holds_numbers(values.dtype):
        advice = 'Convert it, or declare type = "categorical" with its levels.'
        raise InvalidInput(f"column {name!r} holds {values.dtype}, but the schema expects numbers. {advice}")
    numbers = np.array(values.cast(pl.Float64).to_numpy(), dtype=np.float64)  # nulls become nan
    gaps = np.flatnonzero(np.isnan(numbers))
    refuse_gaps(name, missing, gaps.size)
    numbers[gaps] = 0.0 if isinstance(missing, str) else missing
    return numbers, gaps


def days_of(name: str, written: str, missing: str | dt.date, values: pl.Series) -> tuple[pl.Series, Rows]:
    """The days of dates, times or texts, gaps filled where a date was declared for them; and the rows of the gaps."""
    import polars as pl

    if values.null_count() == values.len():
        values = pl.Series(name, [None] * values.len(), dtype=pl.Date)
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        texts = values.cast(pl.String)
        values = texts.str.to_date(written, strict=False)
        strange = (values.is_null() & texts.is_not_null()).to_numpy()
        if strange.any():
            count = np.count_nonzero(strange)
            row = int(np.argmax(strange)) + 1
            what = f"{count:,} of {texts.len():,} texts are no dates of the form {written!r}, the first in row {row:,}."
            other = "%Y-%m-%d" if written != "%Y-%m-%d" else "%d.%m.%Y"
            raise wrong(name, f'{what} Correct them, or write their form, as in format = "{other}", in the schema.')
    elif isinstance(values.dtype, pl.Datetime):
        # The day where the clock hangs, for times with a zone.
        values = values.dt.date()
    elif values.dtype != pl.Date:
        advice = 'Convert it to dates, or declare type = "numeric" with bounds.'
        raise InvalidInput(f"column {name!r} holds {values.dtype}, but the schema expects dates. {advice}")
    gaps = np.flatnonzero(values.is_null().to_numpy()).astype(np.int64)
    refuse_gaps(name, missing, gaps.size)
    return (values.fill_null(missing) if isinstance(missing, dt.date) else values), gaps


def refuse_gaps(name: str, missing: object, count: int) -> None:
    """An error if values are missing and nothing was declared for that."""
    if count and missing == Gaps.REFUSE:
        advice = 'Write missing = "indicator" for a column of their own, or missing = the value to use instead.'
        raise wrong(name, f"{count:,} values are missing. {advice}")


def texts_of(name: str, values: pl.Series) -> pl.Series:
    """Whole numbers lose their ".0" (pandas turns integers with gaps into floats), nan becomes a gap."""
    import polars as pl

    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = values.is_finite() & (values == values.round(0)) & (values.abs() < 2.0**53)
        integers = values.cast(pl.Int64, strict=False).cast(pl.String)
        return pl.select(pl.when(whole).then(integers).otherwise(values.cast(pl.String))).to_series()
    if not holds_levels(values.dtype):
        raise InvalidInput(f"column {name!r} holds {values.dtype}, which has no levels. Convert it to text.")
    return values.cast(pl.String)


def one_hot(codes: NDArray[np.int64], levels: int) -> list[Sparse]:
    """One column for each code from 0 on; the rows that have another code get no entry."""
    order = np.argsort(codes, kind="stable").astype(np.int64, copy=False)
    ends = np.searchsorted(codes[order], np.arange(levels + 1))
    return [ones(order[start:end]) for start, end in pairwise(ends)]


def ones(rows: Rows) -> Sparse:
    return rows, np.ones(rows.size)


def nonzeros(numbers: Floats) -> Sparse:
    rows = np.flatnonzero(numbers)
    return rows, numbers[rows]


def with_indicator(numbers: Floats, gaps: Rows, missing: object) -> list[Sparse]:
    """The column, and the one that says where it had gaps if that was asked for."""
    if missing != Gaps.INDICATOR:
        return [nonzeros(numbers)]
    numbers[gaps] = 0.0
    return [nonzeros(numbers), ones(gaps)]


def hats(numbers: Floats, depth: int, gaps: Rows) -> list[Sparse]:
    """The hats of numbers in [-1, 1], nothing in the rows of gaps."""
    found = curves.hats(numbers, depth)
    found[gaps] = 0.0
    return [nonzeros(found[:, j]) for j in range(found.shape[1])]


def scale_to_unit(numbers: Floats, low: float, high: float) -> Floats:
    """Numbers between the bounds to [-1, 1]. In this order every rounding is monotone: no value ends past -1 or 1."""
    return 2.0 * ((numbers - low) / (high - low)) - 1.0


def count_outside(numbers: Floats, low: float, high: float, gaps: Rows) -> int:
    """How many values clipping moves; what stands in for a gap is none."""
    outside = (numbers < low) | (numbers > high)
    outside[gaps] = False
    return int(np.count_nonzero(outside))


# ------------------------------------------------------------------------------------------------ one matrix


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


def columns_of(matrix: Any, j: int) -> Sparse:
    """Column j of an encoded matrix, as it went in."""
    if not sparse.issparse(matrix):
        return nonzeros(np.asarray(matrix[:, j], np.float64))
    part = slice(matrix.indptr[j], matrix.indptr[j + 1])
    return matrix.indices[part].astype(np.int64), matrix.data[part]


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
        whole = np.empty((self.rows, self._width))
        begin = 0
        while self._held:
            block = self._held.popleft()
            whole[begin : begin + block.shape[0]] = block.toarray() if sparse.issparse(block) else block
            begin += block.shape[0]
        return whole

    def _compressed(self) -> Any:
        counts = sum((_counts(block) for block in self._held), np.zeros(self._width, np.int64))
        ends = np.concatenate([[0], np.cumsum(counts)])
        index = np.int32 if max(self._stored, self.rows) <= np.iinfo(np.int32).max else np.int64
        indices = np.empty(ends[-1], index)
        data = np.empty(ends[-1])
        at = ends[:-1].copy()
        begin = 0
        while self._held:
            block = sparse.csc_array(self._held.popleft())
            found = np.diff(block.indptr)
            # Entry e of column j goes behind what earlier blocks put there.
            places = np.arange(block.nnz) + np.repeat(at - block.indptr[:-1], found)
            indices[places] = block.indices + index(begin)
            data[places] = block.data
            at += found
            begin += block.shape[0]
        return _csc(data, indices, ends, self.rows)


def _counts(block: Any) -> NDArray[np.int64]:
    if sparse.issparse(block):
        return np.asarray(np.diff(block.indptr), np.int64)
    return np.asarray(np.count_nonzero(block, axis=0), np.int64)
