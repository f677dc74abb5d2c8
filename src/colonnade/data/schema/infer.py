"""A schema read off the data, block by block: for runs without privacy, and as a proposal that its owner rewrites.

What it finds are facts about the rows that were looked at, not public knowledge.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.schema.cells import CellKind, Gaps, as_frame
from colonnade.data.schema.column import Column
from colonnade.data.schema.columns import Binary, Categorical, Date, Numeric
from colonnade.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

MANY_LEVELS = 100  # from here on a text that is different in most rows is taken for an identifier
MOST_LEVELS = 1_000_000  # nothing is gained by remembering more of them
MOST_MARKS = 3  # so many different texts among many numbers may say that a number is missing
MOST_CODES = 20  # so many different whole numbers may be codes of something
FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y")  # of days, beside that of ISO 8601


@dataclass
class Look:
    """What was seen of one column so far."""

    name: str
    kind: CellKind = CellKind.NOTHING
    dtype: str = "Null"
    rows: int = 0
    missing: int = 0
    infinite: int = 0
    low: Any = None
    high: Any = None
    levels: set[str] = field(default_factory=set)
    codes: set[int] | None = field(default_factory=set)  # the different whole numbers; None: too many to be codes

    def add(self, values: pl.Series) -> None:
        """Look at more rows."""
        self.rows += values.len()
        gaps = int((values.is_null() | values.is_nan()).sum() if values.dtype.is_float() else values.null_count())
        self.missing += gaps
        if gaps == values.len():
            return
        self.dtype = str(values.dtype)
        self.kind = _common(self.kind, _kind(values.dtype))
        if self.kind is CellKind.TEXT and len(self.levels) <= MOST_LEVELS:
            import polars as pl

            self.levels |= set(values.cast(pl.String).drop_nulls().unique().to_list())
        elif self.kind in (CellKind.INTEGER, CellKind.REAL):
            self._extend(_finite(values))
            self._count_codes(values)
            self.infinite += int(values.is_infinite().sum()) if values.dtype.is_float() else 0
        elif self.kind is CellKind.DATE:
            self._extend(values.dt.date().drop_nulls())

    def _count_codes(self, values: pl.Series) -> None:
        if self.codes is not None and self.kind is CellKind.INTEGER:
            self.codes |= set(values.drop_nulls().unique().to_list())
        if self.kind is not CellKind.INTEGER or (self.codes is not None and len(self.codes) > MOST_CODES):
            self.codes = None

    def _extend(self, values: pl.Series) -> None:
        if values.len():
            self.low = values.min() if self.low is None else min(self.low, values.min())
            self.high = values.max() if self.high is None else max(self.high, values.max())

    def column(self) -> Column:
        """The column this looks like; an error if it looks like none."""
        missing = Gaps.INDICATOR if self.missing else Gaps.REFUSE
        match self.kind:
            case CellKind.NOTHING:
                return Numeric(self.name, -1.0, 1.0, missing=missing)
            case CellKind.BOOLEAN:
                return Binary(self.name, missing=missing)
            case CellKind.INTEGER | CellKind.REAL:
                return self._number(missing)
            case CellKind.TEXT:
                return self._text(missing)
            case CellKind.DATE:
                more = dt.timedelta(days=int(self.low == self.high))
                return Date(self.name, self.low - more, self.high + more, missing=missing)
        advice = "Turn it into numbers, dates or text, or drop it."
        raise InvalidInput(f"column {self.name!r} holds {self.dtype}, which has no encoding. {advice}")

    def proposal(self) -> tuple[Column | None, str]:
        """The column this looks like, or none and why."""
        if self.kind is CellKind.TEXT and (marks := self._marks_for_gaps()):
            shown = " and ".join(map(repr, marks))
            return None, f"holds numbers, and {shown}. If that says that a number is missing, leave these cells empty."
        try:
            return self.column(), ""
        except InvalidInput as error:
            return None, str(error).removeprefix(f"column {self.name!r} ")

    def _marks_for_gaps(self) -> list[str]:
        """The few texts of a column that holds many different numbers beside them."""
        if not MOST_CODES < len(self.levels) <= MOST_LEVELS:
            return []
        others = sorted(text for text in self.levels if not _is_number(text))
        return others if len(others) <= MOST_MARKS else []

    def _number(self, missing: Gaps) -> Column:
        if self.infinite:
            advice = "Replace them, or declare the column numeric with bounds, which clips them."
            raise InvalidInput(f"column {self.name!r} holds {self.infinite:,} infinite values. {advice}")
        if self.kind is CellKind.INTEGER and (self.low, self.high) == (0, 1):
            return Binary(self.name, missing=missing)
        low, high = self.bounds()
        few = self.kind is CellKind.INTEGER and self.low != self.high and high - low < MOST_CODES
        return Numeric(self.name, low, high, missing=missing, values=round(high - low) + 1 if few else None)

    def bounds(self) -> tuple[float, float]:
        """The least and the largest number seen; around a constant, which says nothing, so that it encodes as zero."""
        low, high = (-1.0, 1.0) if self.low is None else (float(self.low), float(self.high))
        return (low, high) if low < high else (low - max(1.0, abs(low)), high + max(1.0, abs(high)))

    def _text(self, missing: Gaps) -> Column:
        for written in FORMATS:
            if len(self.levels) <= MOST_LEVELS and (days := days_of(self.levels, written)):
                more = dt.timedelta(days=int(min(days) == max(days)))
                return Date(self.name, min(days) - more, max(days) + more, format=written, missing=missing)
        if (len(self.levels) > MANY_LEVELS and 2 * len(self.levels) > self.rows) or len(self.levels) > MOST_LEVELS:
            texts = f"column {self.name!r} has {len(self.levels):,} different texts in {self.rows:,} rows"
            advice = "Leave it out, or declare it categorical with the levels that matter."
            raise InvalidInput(f"{texts}: it looks like a name or a number of somebody. {advice}")
        return Categorical(self.name, tuple(sorted(self.levels)), missing=missing)


def days_of(texts: Iterable[str], written: str) -> list[dt.date]:
    """The days of texts that are all written so; empty if one is not."""
    try:
        return [dt.datetime.strptime(text, written).date() for text in texts]
    except ValueError:
        return []


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def look(frames: Iterable[Any]) -> list[Look]:
    """What all blocks of a table show of each of its columns."""
    looks: dict[str, Look] = {}
    for frame in frames:
        for values in as_frame(frame):
            looks.setdefault(values.name, Look(values.name)).add(values)
    if not looks or not next(iter(looks.values())).rows:
        raise InvalidInput("the table has no rows to read a schema off. Declare its columns instead.")
    return list(looks.values())


def _kind(dtype: Any) -> CellKind:
    import polars as pl

    if dtype == pl.Boolean:
        return CellKind.BOOLEAN
    if dtype.is_numeric():
        return CellKind.INTEGER if dtype.is_integer() else CellKind.REAL
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return CellKind.TEXT
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        return CellKind.DATE
    return CellKind.OTHER


def _common(first: CellKind, second: CellKind) -> CellKind:
    """One kind for what two blocks hold: only whole and other numbers go together."""
    if first in (CellKind.NOTHING, second):
        return second
    return CellKind.REAL if {first, second} == {CellKind.INTEGER, CellKind.REAL} else CellKind.OTHER


def _finite(values: pl.Series) -> pl.Series:
    import polars as pl

    numbers = values.cast(pl.Float64).drop_nulls()
    return numbers.filter(pl.Series(np.isfinite(numbers.to_numpy())))
