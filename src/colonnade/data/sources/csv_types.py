"""What the cells of a CSV column are: whole numbers, truth values, dates, times, numbers or text, whichever is first of
those that all of them can be read as; and the cells as such values.

A cell is missing if it is empty; in all but text also NA, N/A, NaN, null and their like.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

NULLS = ["NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null"]
NANS = ["NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
MISSING = ["", *NULLS, *NANS]
TRUE = ("1", "true", "True", "TRUE")
FALSE = ("0", "false", "False", "FALSE")
LED_BY_ZEROS = r"^\s*[+-]?0[0-9]"
NANOSECONDS = datetime(1677, 9, 21, 0, 12, 44), datetime(2262, 4, 11, 23, 47, 15)  # the seconds that 64 bits count
FIRST = 8  # cells that are tried before all others
MOMENT = r"^(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$"

Read = Callable[["pl.Series"], "pl.Series"]  # cells as values, null where a cell is none


def converted(cells: pl.Series, dtype: Any, decimal: str = ".") -> tuple[pl.Series, pl.Series]:
    """The cells as values of the type, and which of them are neither missing nor such a value."""
    import polars as pl

    if dtype == pl.String:
        return cells.replace("", None), pl.repeat(False, cells.len(), eager=True)
    if dtype == pl.Null:
        return pl.Series(cells.name, [None] * cells.len(), dtype=pl.Null), cells.is_not_null() & ~cells.is_in(MISSING)
    there = cells.set(cells.is_in(MISSING), None)
    values = _readers(decimal)[dtype](there)
    return values, values.is_null() & there.is_not_null()


class Guess:
    """The types that every cell so far can be read as, the best first."""

    def __init__(self, decimal: str = ".") -> None:
        self.decimal = decimal
        self.open = [*_readers(decimal)]
        self.seen = self.zeros = False

    @property
    def settled(self) -> bool:
        """Whether no further cell can change the type: it is text."""
        return not self.open

    def look(self, cells: pl.Series) -> None:
        there = cells.filter(cells.is_not_null() & ~cells.is_in(MISSING))
        if there.is_empty():
            return
        self.seen = True
        self.open = [dtype for dtype in self.open if self._all(there.head(FIRST), dtype) and self._all(there, dtype)]
        self.zeros = self.zeros or bool(there.str.contains(LED_BY_ZEROS).any())

    def dtype(self) -> Any:
        """The type; "007" is the name of something and 7 is another one, so whole numbers led by zeros are text."""
        import polars as pl

        if not self.seen:
            return pl.Null
        best = self.open[0] if self.open else pl.String
        return pl.String if best == pl.Int64 and self.zeros else best

    def _all(self, cells: pl.Series, dtype: Any) -> bool:
        return _readers(self.decimal)[dtype](cells).null_count() == 0


@cache
def _readers(decimal: str) -> dict[Any, Read]:
    import polars as pl

    return {
        pl.Int64: _whole,
        pl.Boolean: _truth,
        pl.Date: lambda cells: _trimmed(cells, r"^\d{4}-\d\d-\d\d$").str.to_date("%Y-%m-%d", strict=False),
        pl.Time: _time,
        pl.Datetime("ms"): lambda cells: _moment(cells, "ms", fraction=False, zone=False),
        pl.Datetime("ns"): lambda cells: _moment(cells, "ns", fraction=True, zone=False),
        pl.Datetime("ms", "UTC"): lambda cells: _moment(cells, "ms", fraction=False, zone=True),
        pl.Datetime("ns", "UTC"): lambda cells: _moment(cells, "ns", fraction=True, zone=True),
        pl.Float64: lambda cells: _number(cells, decimal),
    }


def _trimmed(cells: pl.Series, form: str) -> pl.Series:
    """The cells without blanks around them, null where they have not the form."""
    bare = cells.str.strip_chars(" \t")
    return bare.set(~bare.str.contains(form), None)


def _whole(cells: pl.Series) -> pl.Series:
    import polars as pl

    return _trimmed(cells, r"^-?\d+$").cast(pl.Int64, strict=False)


def _number(cells: pl.Series, decimal: str) -> pl.Series:
    import polars as pl

    if decimal != ".":
        cells = cells.set(cells.str.contains(".", literal=True), None).str.replace(decimal, ".", literal=True)
    return cells.str.strip_chars(" \t").cast(pl.Float64, strict=False)


def _truth(cells: pl.Series) -> pl.Series:
    import polars as pl

    yes = cells.is_in(TRUE)
    no = cells.is_in(FALSE)
    return yes.set(~(yes | no), None) if cells.len() else pl.Series(cells.name, [], dtype=pl.Boolean)


def _time(cells: pl.Series) -> pl.Series:
    bare = _trimmed(cells, r"^\d\d:\d\d(:\d\d)?$")
    return bare.str.replace(r"^(\d\d:\d\d)$", "${1}:00").str.to_time("%H:%M:%S", strict=False)


def _moment(cells: pl.Series, unit: Any, *, fraction: bool, zone: bool) -> pl.Series:
    """Dates with a time of day, and days in a column of such; all with a zone, or none."""
    import polars as pl

    frame = cells.to_frame("cell").select(pl.col("cell").str.extract_groups(MOMENT))
    day, hour, minute, second, part, offset = (pl.col("cell").struct[k] for k in range(6))
    filled = pl.concat_str(
        day, pl.lit(" "), hour.fill_null("00"), pl.lit(":"), minute.fill_null("00"), pl.lit(":"), second.fill_null("00")
    )
    moment = filled.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit=unit, strict=False)
    if fraction:
        digits = part.str.slice(1).str.pad_end(9, "0").cast(pl.Int64, strict=False).fill_null(0)
        moment = moment + pl.duration(nanoseconds=digits, time_unit="ns")
    fits = part.is_null() | pl.lit(fraction)
    if unit == "ns":  # 64 bits of them reach 292 years from 1970; polars would wrap round
        fits &= filled.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False).is_between(*NANOSECONDS)
    if zone:
        bare = offset.str.replace_all(r"[Z:+-]", "").str.pad_end(4, "0").cast(pl.Int64, strict=False)
        minutes = (bare // 100 * 60 + bare % 100) * pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
        moment = (moment - pl.duration(minutes=minutes, time_unit=unit)).dt.replace_time_zone("UTC")
        fits = fits & offset.is_not_null()
    else:
        fits = fits & offset.is_null()
    return frame.select(pl.when(fits).then(moment).alias(cells.name)).to_series()
