"""Columns without declared figures: their cells until somebody has looked, what counts of them say, what they become.

Each cell is read by itself, from its own value: one that is not of the column's kind, or that is no number, is missing.
So replacing a row moves one count of a column down by one and one up by one, whatever the row holds.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema import cells
from colonnade.data.schema.cells import CellKind, Gaps, Missing
from colonnade.data.schema.column import Column, features_of, indicator
from colonnade.data.schema.columns import Categorical, Date, Numeric
from colonnade.data.schema.infer import look
from colonnade.data.schema.table import Encoded, Schema, Source
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.curves import DEEPEST
from colonnade.kernels.histograms import Range
from colonnade.model.job import Sought

if TYPE_CHECKING:
    import polars as pl

KINDS = ("numeric", "date", "categorical")  # that a column of unknown kind may turn out to be, in the order of counts
EPOCH = dt.date(1970, 1, 1)
DAYS = 2_932_896  # from there to the last day that a date can be
FIRST_DAY = (dt.date.min - EPOCH).days
ISO = "%Y-%m-%d"
WITH_COMMA = r"^([+-]?\d+),(\d{1,2}|\d{4,})$"  # a decimal comma; before three digits it may stand between thousands


def sought_in(schema: Schema) -> tuple[Sought, ...]:
    """The columns of a schema that are looked at, the label last."""
    found = [Sought(column.name, column.kind()) for column in schema.columns if not column.declared]
    label = schema.label
    return (*found, *((Sought(label.name, "numeric", True),) if label is not None and not label.declared else ()))


@dataclass(frozen=True, eq=False)
class SoughtCells:
    """The cells of a party's columns, in the order of its rows; printing it shows its size only."""

    frame: pl.DataFrame
    schema: Schema

    def __repr__(self) -> str:
        return f"SoughtCells({self.frame.height:,} rows x {self.frame.width:,} columns)"

    def gather(self, places: NDArray[np.int64], further: SoughtCells | None = None) -> SoughtCells:
        """These rows, of its own and of those that follow them."""
        import polars as pl

        whole = self.frame if further is None else pl.concat([self.frame, further.frame])
        return replace(self, frame=whole[places])

    def digest(self) -> str:
        """A hash of every cell, and of what was declared."""
        import polars as pl

        text = hashlib.sha256(repr(self.schema).encode("utf-8", "surrogatepass"))
        for values in self.frame:
            times = values.dtype.is_temporal()  # as what they count: some are beyond any calendar
            written = (values.to_physical() if times else values).cast(pl.String)
            text.update(json.dumps([values.name, str(values.dtype), written.to_list()]).encode())
        return text.hexdigest()

    # ------------------------------------------------------------------------ counts

    def kind_counts(self, name: str) -> Integers:
        """How many cells of a column can be read as a number, as a day, and as neither."""
        values = self.frame[name]
        numbers = ~np.isnan(numbers_of(values))
        days = ~np.isnan(days_of(values, ISO))  # nothing is both
        there = (~texts_of(values).is_null()).to_numpy()
        return np.array([numbers.sum(), days.sum(), (there & ~numbers & ~days).sum()], np.int64)

    def numbers(self, name: str, kind: str) -> Floats:
        """The cells of a column as numbers, days counted from 1970; NaN where one is missing or of another kind."""
        if kind == "numeric":
            return numbers_of(self.frame[name])
        declared = next(column for column in self.schema.columns if column.name == name)
        return days_of(self.frame[name], getattr(declared, "format", ISO))

    def level_counts(self, name: str) -> tuple[tuple[str, ...], Integers, int]:
        """The levels of a column, sorted, how many rows have each, and how many have none."""
        texts = texts_of(self.frame[name]).alias("level")
        counted = texts.drop_nulls().value_counts(name="rows").sort("level")
        return tuple(counted["level"].to_list()), counted["rows"].to_numpy().astype(np.int64), texts.null_count()

    # ------------------------------------------------------------------------ encoding

    def read_off(self) -> Schema:
        """The schema with the figures of these very rows: for a run without privacy, which no private one takes."""
        columns = tuple(one if one.declared else _read_off(self.frame[one.name], one) for one in self.schema.columns)
        label = self.schema.label if self.schema.label is None or self.schema.label.declared else None
        return replace(self.schema, columns=columns, label=label, source=Source.DATA)

    def encoded(self, schema: Schema) -> Encoded:
        """The rows under a schema that a look has filled in; no cell of a column that was looked at is refused."""
        asked = {column.name for column in self.schema.columns if not column.declared}
        table = self.frame.with_columns(
            [_readable(self.frame[column.name], column) for column in schema.columns if column.name in asked]
        )
        return schema.encode(table)


def _readable(values: pl.Series, column: Column) -> pl.Series:
    import polars as pl

    if isinstance(column, Categorical):
        return texts_of(values)
    if isinstance(column, Date):
        days = pl.Series(values.name, days_of(values, column.format), nan_to_null=True)
        return days.cast(pl.Int32).cast(pl.Date)
    return pl.Series(values.name, numbers_of(values), nan_to_null=True)


def _read_off(values: pl.Series, column: Column) -> Column:
    """A column with the figures of its cells; one of unknown kind is what all of them are."""
    import polars as pl

    if column.kind() == "unknown":
        if values.dtype != pl.String or not texts_of(values).count():
            return next(iter(look([values.to_frame()]))).column()
        kind_counts = SoughtCells(values.to_frame(), Schema((column,))).kind_counts(values.name).tolist()
        column = as_kind(
            column, next((k for k, n in zip(KINDS, kind_counts, strict=True) if n == sum(kind_counts)), KINDS[2])
        )
    readable_cells = _readable(values, column)
    (seen,) = look([readable_cells.to_frame()])
    if seen.kind is CellKind.NOTHING:
        return replace(column.stand_in(), missing=Gaps.INDICATOR)  # type: ignore[call-arg]  # these three kinds have it
    gaps: Any = Gaps.INDICATOR if seen.missing and column.missing == Gaps.REFUSE else column.missing
    if isinstance(column, Numeric):
        low, high = seen.bounds()
        return replace(column, low=low, high=high, missing=gaps)
    if isinstance(column, Date):
        more = dt.timedelta(days=int(seen.low == seen.high))
        return replace(column, low=seen.low - more, high=seen.high + more, missing=gaps)
    return Categorical(column.name, tuple(readable_cells.drop_nulls().unique().sort().to_list()), missing=gaps)


def numbers_of(values: pl.Series) -> Floats:
    """Each cell as a number; NaN where it is none."""
    import polars as pl

    if cells.holds_numbers(values.dtype):
        read = values
    elif values.dtype in (pl.String, pl.Categorical, pl.Enum):
        read = values.cast(pl.String).str.strip_chars(" \t").str.replace(WITH_COMMA, "${1}.${2}")
    else:
        return np.full(values.len(), np.nan)
    return np.array(read.cast(pl.Float64, strict=False).to_numpy(), np.float64)


def days_of(values: pl.Series, written: str) -> Floats:
    """Each cell as a day, counted from 1970; NaN where it is none."""
    import polars as pl

    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        values = values.cast(pl.String).str.strip_chars(" \t").str.to_date(written, strict=False)
    elif isinstance(values.dtype, pl.Datetime):
        values = _in_calendar(values).dt.date()
    elif values.dtype != pl.Date:
        return np.full(values.len(), np.nan)
    days = np.array(values.to_physical().cast(pl.Float64).to_numpy(), np.float64)
    days[np.abs(days) > DAYS] = np.nan
    return days


def texts_of(values: pl.Series) -> pl.Series:
    """Each cell as a text; null where there is none, or half a character."""
    import polars as pl

    if not readable(values.dtype):
        return pl.Series(values.name, [None] * values.len(), dtype=pl.String)
    texts = cells.texts_of(values.name, _in_calendar(values))
    return texts.set(texts == "", None)


def _in_calendar(values: pl.Series) -> pl.Series:
    """Days and times without those that no calendar names: to write one of these ends in an error."""
    import polars as pl

    if values.dtype == pl.Date:
        a_day = 1
    elif isinstance(values.dtype, pl.Datetime):
        a_day = 86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[values.dtype.time_unit]
    else:
        return values
    far = values.to_physical().cast(pl.Float64).abs() > float(DAYS * a_day)
    return pl.select(pl.when(far).then(None).otherwise(values)).to_series().alias(values.name)


def readable(kind: Any) -> bool:
    """Whether a look can read the cells of a column of this type."""
    import polars as pl

    return cells.holds_levels(kind) and not isinstance(kind, pl.Duration)


def with_texts(frame: Any, schema: Schema | None) -> Any:
    """A pandas frame whose objects are texts, each by itself, in columns that wait for a look.

    One odd cell makes objects of a column of numbers, or ends in an error of pandas.
    """
    if schema is None or schema.declared or cells.is_frame(frame) or not hasattr(frame, "dtypes"):
        return frame
    names = {column.name for column in schema.columns if not column.declared}
    if len(set(frame.columns)) < len(frame.columns):  # refused further on
        return frame
    frame = frame.copy(deep=False)
    for label in frame.columns:
        if str(label) in names and getattr(frame[label].dtype, "kind", "O") == "O":
            frame[label] = np.array([*_texts_of_objects(frame[label]), None], object)[:-1]
    return frame


def _texts_of_objects(column: Any) -> list[str | None]:
    import polars as pl

    gaps = column.isna().to_numpy(dtype=bool).tolist()
    values = [None if gap else value for gap, value in zip(gaps, column.astype(object).tolist(), strict=True)]
    numbers = pl.Series(
        [float(one) if isinstance(one, float | np.floating) else None for one in values], dtype=pl.Float64
    )
    floats = cells.texts_of("", numbers).to_list()
    return [text if text is not None else _text_of_object(one) for text, one in zip(floats, values, strict=True)]


def _text_of_object(value: Any) -> str | None:
    """A cell as a text; None where it is nothing that a look can read."""
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case dt.datetime():
            return value.date().isoformat()
        case dt.date():
            return value.isoformat()
        case str() if not any("\ud800" <= letter <= "\udfff" for letter in value):
            return str(value)
        case Integral() | Decimal():
            return str(value)
    return None


def check_cells(frame: pl.DataFrame, schema: Schema) -> None:
    """Refuse a table before a look is paid: by types that nothing can read, and by what was declared."""
    for column in schema.columns:
        if not column.declared and not readable(kind := frame[column.name].dtype):
            raise cells.wrong(column.name, f"it holds {kind}, which no look can read. Convert it to numbers or texts.")
    declared = tuple(column for column in schema.columns if column.declared)
    if declared:
        replace(schema, columns=declared, label=None).encode(frame)


# ------------------------------------------------------------------------------------------------ what becomes of it


def number_found(column: Column, found: Range, rises: Floats, missing: bool) -> Column | None:
    """A number or a day with the figures that a look found: `rises` are the least value, its quantiles, the largest."""
    if column.kind() == "date":
        ends = np.clip([np.floor(rises[0]), np.ceil(rises[-1])], FIRST_DAY, DAYS).tolist()  # of a grid that goes beyond
        first, last = (EPOCH + dt.timedelta(days=int(day)) for day in ends)
        if not first < last:
            return None
        day = column if isinstance(column, Date) else Date(column.name)
        return replace(day, low=first, high=last, missing=Gaps.INDICATOR if missing else first + (last - first) / 2)
    low, *inner, high = (round_to(value, found.high - found.low) for value in rises.tolist())
    if not low < high:
        return None
    if not _rising(low, inner, high):  # near zero they lie closer than a range over many octaves is rounded
        low, *inner, high = rises.tolist()
    rising = _rising(low, inner, high)
    like = column if isinstance(column, Numeric) else Numeric(column.name)
    gaps: Missing = Gaps.INDICATOR if missing else (low + high) / 2.0
    return replace(like, low=low, high=high, missing=gaps, quantiles=tuple(inner) if rising else None)


def _rising(low: float, inner: Sequence[float], high: float) -> bool:
    return all(a < b for a, b in pairwise([low, *inner, high]))


def round_to(value: float, span: float) -> float:
    """A figure as people write it: to about a millionth of the range."""
    return float(round(value, int(6 - np.floor(np.log10(span))))) + 0.0


def levels_found(column: Column, names: Sequence[str], missing: bool) -> Column | None:
    """A column of levels with those that a look named; None: it named none, and gaps are no level either."""
    if not names:
        return None
    return Categorical(column.name, tuple(names), Gaps.INDICATOR if missing else Gaps.OTHER)


def with_own_names(columns: Sequence[Column], looked: Set[str]) -> tuple[Column, ...]:
    """The columns, of which no two features share a name: what a look has found gives way, as levels have any name."""
    firm = [_without_indicator(column) if column.name in looked else column for column in columns]
    taken = {
        feature.name
        for column in firm
        if not (column.name in looked and isinstance(column, Categorical))
        for feature in features_of(column.with_curve_depth(DEEPEST))
    }
    own = []
    for column, bare in zip(columns, firm, strict=True):
        if column.name not in looked:
            own.append(column)
            continue
        if isinstance(bare, Categorical):
            levels = tuple(level for level in bare.levels if f"{column.name}={level}" not in taken)
            taken |= {f"{column.name}={level}" for level in levels}
            if not levels:
                continue
            bare = replace(bare, levels=levels)
            column = replace(bare, missing=column.missing)
        gaps = indicator(column.name).name
        own.append(bare if gaps in taken else column)
        taken |= {feature.name for feature in features_of(own[-1])}
    return tuple(own)


def _without_indicator(column: Column) -> Column:
    if column.missing != Gaps.INDICATOR:
        return column
    if isinstance(column, Numeric):
        return replace(column, missing=(column.low + column.high) / 2.0)
    if isinstance(column, Date):
        return replace(column, missing=column.low + (column.high - column.low) / 2)
    return replace(column, missing=Gaps.OTHER) if isinstance(column, Categorical) else column


def as_kind(column: Column, kind: str) -> Column:
    """A column of unknown kind as the kind that it turned out to be."""
    kinds: dict[str, Any] = {"numeric": Numeric, "date": Date, "categorical": Categorical}
    return column if column.kind() != "unknown" else kinds[kind](column.name)
