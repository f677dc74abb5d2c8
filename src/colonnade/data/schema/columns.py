"""The kinds of columns that come with Colonnade: what is declared about each, its features, its values, its words."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from colonnade.data.schema import cells, column
from colonnade.data.schema.cells import OF_NUMBERS, CardKind, EncodedColumn, Gaps, Missing, wrong
from colonnade.data.schema.column import (
    Bins,
    Column,
    Drawn,
    Feature,
    Groups,
    check_text,
    flag,
    indicator,
    missing_number,
    number,
    with_indicator,
)
from colonnade.errors import InvalidInput
from colonnade.kernels import curves
from colonnade.kernels.arrays import Floats

if TYPE_CHECKING:
    import polars as pl

    from colonnade.data.schema.infer import Look

SMOOTH = 3  # the depth of smooth=True: seven bends
TO_LOOK = "not declared: a private run looks, at a price"
SOUGHT: Any = None  # of a figure that was not declared: nothing but a look asks for it (Column.declared)
CYCLES: dict[str, int] = {CardKind.MONTH: 12, CardKind.WEEKDAY: 7}  # parts of a date: January is 1, and so is Monday


@dataclass(frozen=True)
class Numeric(Column):
    """A number with public bounds; values outside are clipped.

    Parameters
    ----------
    name
        The column's.
    low
        The least value, as known beforehand and not read off the rows. Left out, with high: a private run looks for
        bounds at a price (`co.look`).
    high
        The largest, likewise. Tighter bounds need less noise in a private run.
    scale
        True: the bounds become −1 and 1. False keeps the units, and keeps zeros zero: for counts in wide sparse tables.
    missing
        What a gap becomes: "refuse", an error; "indicator", a column of its own beside the number; or a value within
        the bounds.
    smooth
        A curve instead of a line. None: the method decides, from public figures (Private Gram for prediction; to all
        others it is a line). False: a line. True: a curve of depth 3. 1 to 8: of that depth, which is linear between
        2^depth + 1 knots at equal distances.
    values
        How many different values there are, where that is public: no curve is deeper than they can show. As many as
        there are whole numbers between whole bounds means those.
    monotone
        1: the curve never falls; -1: it never rises. Private Gram keeps it so, whatever the noise.
    quantiles
        Between which values equally many rows lie, where that is public: 1, 3, 7, … of them, rising between low and
        high. Curves put their knots there; a look finds 63. None: knots lie at equal distances.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Numeric("age", low=18, high=90, smooth=2).knots()
    array([18., 36., 54., 72., 90.])
    """

    low: float = SOUGHT
    high: float = SOUGHT
    scale: bool = True
    missing: Missing = Gaps.REFUSE
    smooth: bool | int | None = None
    values: int | None = None
    monotone: Literal[-1, 1] | None = None
    quantiles: tuple[float, ...] | None = None
    CLIPS: ClassVar[bool] = True
    HINTS: ClassVar[Mapping[str, str]] = {  # where it is public: docs/use/curves.md
        "smooth = false": "a line; true or a depth, 1 to 8: a curve. Left out, the method decides",
        "values = 5": "it has no more different values than these",
        "monotone = 1": "never falls as it rises; -1: never rises",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.scale, bool):
            raise wrong(self.name, f"scale is {self.scale!r}. Write true or false.")
        object.__setattr__(self, "missing", missing_number(self.name, self.missing))
        if _check_declared(self):
            _check_bounds(self, number)
            _check_quantiles(self)
        _check_curve(self)

    @property
    def declared(self) -> bool:
        return self.low is not None

    def stand_in(self) -> Numeric:
        return self if self.declared else replace(self, low=-1.0, high=1.0)

    @property
    def deepest(self) -> int:
        """The depth beyond which a curve has knots without values."""
        if not self.scale:
            return 0
        shown = curves.DEEPEST if self.values is None else math.ceil(math.log2(self.values - 1))
        known = curves.DEEPEST if self.quantiles is None else len(self.quantiles).bit_length()
        return min(shown, known, curves.DEEPEST)

    @property
    def auto_curve_counts(self) -> int:
        return self.deepest if self.smooth is None else 0

    @property
    def whole(self) -> bool:
        """Whether its values are declared to be the whole numbers between its bounds."""
        return self._between_whole and self.values == self.high - self.low + 1.0

    @property
    def _between_whole(self) -> bool:
        return self.low.is_integer() and self.high.is_integer()

    @property
    def depth(self) -> int:
        asked = SMOOTH if self.smooth is True else int(self.smooth or 0)
        return min(asked, self.deepest)

    def with_curve_depth(self, depth: int) -> Numeric:
        return replace(self, smooth=depth) if self.smooth is None and min(depth, self.deepest) else self

    def as_line(self) -> Numeric:
        return replace(self, smooth=False)

    def knots(self) -> Floats:
        """Where the pieces of its curve meet, in its own unit, the bounds included."""
        if self.quantiles is None:
            return np.asarray(self.low + (curves.knots(self.depth) + 1.0) / 2.0 * (self.high - self.low))
        whole = (self.low, *self.quantiles, self.high)
        return np.array(whole[:: (len(whole) - 1) >> self.depth])

    def curve_scale(self, numbers: Floats) -> Floats:
        """Scaled numbers as its curve takes them: knots at equal distances."""
        if self.quantiles is None or not self.depth:
            return numbers
        low_to_high = self.low + (numbers + 1.0) / 2.0 * (self.high - self.low)
        return np.clip(np.interp(low_to_high, self.knots(), curves.knots(self.depth)), -1.0, 1.0)

    def bins(self) -> Bins:
        apart = self.high - self.low if self._between_whole else None
        return Bins(self.knots(), (self.low, self.high), self.whole, apart)

    def scaling(self) -> tuple[float, float]:
        return ((self.low + self.high) / 2.0, (self.high - self.low) / 2.0) if self.scale else (0.0, 1.0)

    def entry_ends(self) -> tuple[float, float]:
        return (-1.0, 1.0) if self.scale else (self.low, self.high)

    def per_unit(self) -> float | None:
        return 2.0 / (self.high - self.low) if self.scale and not self.depth else None

    def drawn(self, x: Floats) -> Drawn:
        hats = 1 << self.depth
        if self.scale:
            grid = self.knots()
            middle = float(curves.values(np.zeros(1), x[:hats])[0])
            effect = curves.values(curves.knots(self.depth), x[:hats]) - middle
        else:
            grid = np.array([self.low, self.high])
            middle = float(x[0] * grid.mean())
            effect = x[0] * (grid - grid.mean())
        return Drawn(grid, effect, float(x[hats]) - middle if self.missing == Gaps.INDICATOR else None)

    def card(self, group: int) -> Mapping[str, Any]:  # noqa: ARG002
        return {"kind": CardKind.NUMBER}

    def words(self) -> tuple[str, str]:
        return "number", f"{self.low:,.12g} to {self.high:,.12g}" if self.declared else TO_LOOK

    def propose(self, seen: Look) -> tuple[Numeric, str]:
        low, high, why = column.bounds_of(seen, self.low, self.high)
        # Still the whole numbers between its bounds.
        values = round(high - low) + 1 if self.whole else self.values
        return replace(self, low=low, high=high, values=values), why

    def unscaled(self) -> Plain:
        return _unscaled(self)

    def groups(self) -> Groups:
        bound = 1.0 if self.scale else max(abs(self.low), abs(self.high))
        value = Feature(self.name, bound, nonnegative=not self.scale and self.low >= 0.0, binary=False)
        own = zip(curves.levels(self.depth).tolist(), curves.heights(self.depth).tolist(), strict=True)
        hats = [Feature(f"{self.name}~{j}", height, True, False, level) for j, (level, height) in enumerate(own, 1)]
        return ((value, *hats, *with_indicator(value, self.missing)[1:]),)

    def encode(self, values: pl.Series) -> EncodedColumn:
        numbers, gaps = cells.numbers_of(self.name, self.missing, values)
        outside = cells.count_outside(numbers, self.low, self.high, gaps)
        numbers = np.clip(numbers, self.low, self.high)
        if self.scale:
            numbers = self.curve_scale(cells.scale_to_unit(numbers, self.low, self.high))
        hats = cells.hats(numbers, self.depth, gaps if self.missing == Gaps.INDICATOR else gaps[:0])
        value, *indicator = cells.with_indicator(numbers, gaps, self.missing)
        return EncodedColumn([value, *hats, *indicator], outside)


@dataclass(frozen=True)
class Date(Column):
    """A day with public bounds, as a number; days outside are clipped.

    Values may be dates, times (of which the day counts) or texts.

    Parameters
    ----------
    name
        The column's.
    low
        The first day, as a date or a text such as "2024-12-31". Left out, with high: a private run looks for bounds at
        a price (`co.look`).
    high
        The last day, likewise.
    parts
        Adds "month", "weekday" or both as levels.
    format
        How texts are written.
    missing
        What a gap becomes: "refuse", an error; "indicator", a column of its own; or a day within the bounds.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Schema((co.Date("admitted", "2024-01-01", "2024-12-31", parts=("weekday",)),)).features[:3]
    ('admitted', 'admitted.weekday=1', 'admitted.weekday=2')
    """

    low: dt.date = SOUGHT
    high: dt.date = SOUGHT
    parts: tuple[str, ...] = ()
    format: str = "%Y-%m-%d"
    missing: str | dt.date = Gaps.REFUSE
    EXPECTS: ClassVar[str] = "dates"
    CLIPS: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", _parts(self.name, self.parts))
        if not isinstance(self.format, str) or not self.format:
            raise wrong(self.name, f'format is {self.format!r}. Write for example "%d.%m.%Y".')
        check_text(self.format)
        if _check_declared(self):
            _check_bounds(self, _day)

    @property
    def declared(self) -> bool:
        return self.low is not None

    def stand_in(self) -> Date:
        return self if self.declared else replace(self, low=dt.date(2000, 1, 1), high=dt.date(2000, 12, 31))

    def groups(self) -> Groups:
        value = Feature(self.name, 1.0, nonnegative=False, binary=False)
        levels = {part: range(1, CYCLES[part] + 1) for part in self.parts}
        cycles = (tuple(flag(f"{self.name}.{part}={k}") for k in numbers) for part, numbers in levels.items())
        return (with_indicator(value, self.missing), *cycles)

    def encode(self, values: pl.Series) -> EncodedColumn:
        import polars as pl

        days, gaps = cells.days_of(self.name, self.format, self.missing, values)
        low, high = (float((bound - dt.date(1970, 1, 1)).days) for bound in (self.low, self.high))
        numbers = np.array(days.to_physical().cast(pl.Float64).fill_null(low).to_numpy(), dtype=np.float64)
        outside = cells.count_outside(numbers, low, high, gaps)
        columns = cells.with_indicator(cells.scale_to_unit(np.clip(numbers, low, high), low, high), gaps, self.missing)
        for part in self.parts:
            codes = days.dt.month() if part == CardKind.MONTH else days.dt.weekday()
            columns += cells.one_hot(codes.cast(pl.Int64).fill_null(0).to_numpy() - 1, CYCLES[part])
        return EncodedColumn(columns, outside)

    def takes(self, cells_type: Any) -> bool:
        return cells.holds_days(cells_type)

    def csv_type(self) -> Any:
        import polars as pl

        return pl.String

    def cell_type(self) -> Any:
        import polars as pl

        return pl.Date

    def bins(self) -> Bins:
        knots = np.array([self.low.toordinal(), self.high.toordinal()], np.float64)
        return Bins(knots, (self.low, self.high), whole=True, day=True)

    def scaling(self) -> tuple[float, float]:
        low = self.low.toordinal()
        high = self.high.toordinal()
        return (low + high) / 2.0, (high - low) / 2.0

    def per_unit(self) -> float:
        return 2.0 / (self.high - self.low).days

    def part(self, group: int) -> str:
        return self.parts[group - 1] if group else ""

    def levels_of(self, group: int = 0) -> tuple[str, ...]:
        return tuple(str(k) for k in range(1, CYCLES[self.parts[group - 1]] + 1)) if group else ()

    def covers(self, group: int) -> bool:
        return group > 0  # every day has its month

    def card(self, group: int) -> Mapping[str, Any]:
        return {"kind": CardKind(self.part(group) or CardKind.DAY), "format": self.format}

    def words(self) -> tuple[str, str]:
        return "day", f"{self.low} to {self.high}" if self.declared else TO_LOOK

    def propose(self, seen: Look) -> tuple[Date, str]:  # noqa: ARG002
        low, high = column.whole_months(self.low, self.high)
        return replace(self, low=low, high=high), column.ROUNDED


@dataclass(frozen=True)
class Binary(Column):
    """A column of zeros and ones, or of booleans.

    Parameters
    ----------
    name
        The column's.
    missing
        What a gap becomes: "refuse", an error; "indicator", a column of its own; or 0 or 1.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Schema((co.Binary("smoker", missing="indicator"),)).features
    ('smoker', 'smoker=missing')
    """

    missing: Missing = Gaps.REFUSE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "missing", missing_number(self.name, self.missing))
        if not isinstance(self.missing, str) and self.missing not in (0.0, 1.0):
            what = f"missing = {self.missing:g} in a binary column"
            raise wrong(self.name, f'{what}. Write 0, 1, "indicator" or "refuse".')

    def groups(self) -> Groups:
        return (with_indicator(flag(self.name), self.missing),)

    def encode(self, values: pl.Series) -> EncodedColumn:
        numbers, gaps = cells.numbers_of(self.name, self.missing, values)
        if strange := np.count_nonzero((numbers != 0.0) & (numbers != 1.0)):
            what = f"{strange:,} values are neither 0 nor 1, but the schema calls it binary."
            raise wrong(self.name, f'{what} Declare type = "numeric" with bounds, or type = "categorical" with levels.')
        return EncodedColumn(cells.with_indicator(numbers, gaps, self.missing))

    def csv_type(self) -> Any:
        import polars as pl

        return pl.Boolean

    def card(self, group: int) -> Mapping[str, Any]:  # noqa: ARG002
        return {"kind": CardKind.FLAG}

    def words(self) -> tuple[str, str]:
        return "yes or no", "0 or 1"

    def unscaled(self) -> Plain:
        return _unscaled(self)


@dataclass(frozen=True)
class Categorical(Column):
    """One of a public list of levels. Numbers may be levels too; they are compared as text.

    Parameters
    ----------
    name
        The column's.
    levels
        The list, as known beforehand: one read off the rows would show a level that only one row has. A value that is
        not listed counts as none of them. Left out: a private run looks for those that many rows have, at a price
        (`co.look`).
    missing
        What a gap becomes: "refuse", an error; "indicator", a level of its own; "other", none of the levels; or one of
        the levels.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Schema((co.Categorical("ward", ("A", "B"), missing="indicator"),)).features
    ('ward=A', 'ward=B', 'ward=missing')
    """

    levels: tuple[str, ...] = SOUGHT
    missing: str = Gaps.REFUSE
    EXPECTS: ClassVar[str] = "levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.declared:
            object.__setattr__(self, "levels", _levels(self.name, self.levels))
        if self.missing in tuple(Gaps):
            object.__setattr__(self, "missing", Gaps(self.missing))
        elif self.missing not in (self.levels or ()):
            choices = '"indicator", "other", "refuse" or one of its levels'
            raise wrong(self.name, f"missing = {self.missing!r}. Write {choices}.")

    @property
    def declared(self) -> bool:
        return self.levels is not None

    def stand_in(self) -> Categorical:
        return self if self.declared else replace(self, levels=("0", "1"))

    def groups(self) -> Groups:
        if not self.declared:
            raise wrong(self.name, f"its levels are {TO_LOOK}.")
        names = [f"{self.name}={level}" for level in self.levels]
        gaps = (indicator(self.name),) if self.missing == Gaps.INDICATOR else ()
        return ((*(flag(name) for name in names), *gaps),)

    def encode(self, values: pl.Series) -> EncodedColumn:
        """One sparse column per level; the rows that belong to none of them get no entry."""
        import polars as pl

        texts = cells.texts_of(self.name, values)
        # A number is written "1" or "1.0": the level that means it, unless both are levels.
        if values.dtype.is_float():
            texts = texts.replace({_whole(level): level for level in self.levels if _whole(level) not in self.levels})
        elif pointed := {f"{level}.0": level for level in self.levels if level.removeprefix("-").isdecimal()}:
            # So a file has whole numbers that somebody read as floats before, because of gaps.
            texts = texts.replace({text: level for text, level in pointed.items() if text not in self.levels})
        cells.refuse_gaps(self.name, self.missing, texts.null_count())
        if self.missing not in tuple(Gaps):
            texts = texts.fill_null(self.missing)
        known = texts.cast(pl.Enum(self.levels), strict=False)
        codes = known.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        columns = cells.one_hot(codes, len(self.levels))
        if self.missing == Gaps.INDICATOR:
            columns.append(cells.ones(np.flatnonzero(texts.is_null().to_numpy()).astype(np.int64)))
        return EncodedColumn(columns, known.null_count() - texts.null_count())

    def takes(self, cells_type: Any) -> bool:
        return cells.holds_levels(cells_type)

    def cell_type(self) -> Any:
        import polars as pl

        return pl.String

    def levels_of(self, group: int = 0) -> tuple[str, ...]:  # noqa: ARG002
        return self.levels

    def card(self, group: int) -> Mapping[str, Any]:  # noqa: ARG002
        places = {level: place for place, level in enumerate(self.levels)}
        whole = {_whole(level): place for level, place in places.items()}  # as a column of floats is read
        floats = {text: place for text, place in whole.items() if text not in places}
        return {"kind": CardKind.LEVEL, "levels": places, "floats": floats}

    def words(self) -> tuple[str, str]:
        return "one of", f"{len(self.levels):,} levels" if self.declared else TO_LOOK


@dataclass(frozen=True)
class Plain(Column):
    """A number taken exactly as it is. Its bounds are unknown, so it cannot enter a private run.

    Parameters
    ----------
    name
        The column's.
    missing
        What a gap becomes: "refuse", an error; "indicator", a column of its own; or a number.
    """

    missing: Missing = Gaps.REFUSE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "missing", missing_number(self.name, self.missing))

    def groups(self) -> Groups:
        return (with_indicator(Feature(self.name, None, nonnegative=False, binary=False), self.missing),)

    def encode(self, values: pl.Series) -> EncodedColumn:
        numbers, gaps = cells.numbers_of(self.name, self.missing, values)
        if infinite := np.count_nonzero(np.isinf(numbers)):
            advice = "Declare the column numeric with bounds, which clips them, or remove those rows."
            raise wrong(self.name, f"{infinite:,} values are infinite. {advice}")
        return EncodedColumn(cells.with_indicator(numbers, gaps, self.missing))

    def noun(self) -> str:
        return "number without bounds"

    def words(self) -> tuple[str, str]:
        return "number", "no bounds"

    def unscaled(self) -> Plain:
        return _unscaled(self)


@dataclass(frozen=True)
class Unknown(Column):
    """A column of which nobody said what it holds: a private run finds out whether numbers, days or levels, at a price.

    Parameters
    ----------
    name
        The column's.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Unknown("income").declared
    False
    """

    EXPECTS: ClassVar[str] = "numbers, days or levels"

    @property
    def declared(self) -> bool:
        return False

    def stand_in(self) -> Numeric:
        return Numeric(self.name, -1.0, 1.0)

    def groups(self) -> Groups:
        raise wrong(self.name, f"its kind is {TO_LOOK}.")

    def encode(self, values: pl.Series) -> EncodedColumn:  # noqa: ARG002  of no kind
        raise wrong(self.name, f"its kind is {TO_LOOK}.")

    def takes(self, cells_type: Any) -> bool:
        return cells.holds_levels(cells_type)

    def cell_type(self) -> Any:
        import polars as pl

        return pl.String

    def words(self) -> tuple[str, str]:
        return "unknown", TO_LOOK


def _unscaled(column: Column) -> Plain:
    """Its numbers as they are; a column with gaps gets one more, which says where they are."""
    return Plain(column.name, Gaps.REFUSE if column.missing == Gaps.REFUSE else Gaps.INDICATOR)


def _whole(level: str) -> str:
    """A level that writes a whole number with a decimal point, without it; any other as it is."""
    return re.sub(r"\A(-?[0-9]+)\.0*\Z", r"\1", level)


# --- checks -------------------------------------------------------------------------------------------------


def _check_declared(column: Numeric | Date) -> bool:
    """Whether it has bounds, both of them; without, it has no figure that they would explain."""
    if (column.low is None) != (column.high is None):
        raise wrong(column.name, "one bound without the other. Write low and high, or neither for a look at a price.")
    if column.declared:
        return True
    if column.missing not in ("refuse", "indicator"):
        raise wrong(column.name, "missing is a value, and there are no bounds for it to lie between. Write them, too.")
    if (getattr(column, "scale", True), getattr(column, "quantiles", None)) != (True, None):
        raise wrong(column.name, "scale and quantiles go with low and high. Write bounds, or leave these out, too.")
    return False


def _check_quantiles(column: Numeric) -> None:
    """Rising between the bounds, and as many as halving gives."""
    if column.quantiles is None:
        return
    given: object = column.quantiles
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong(column.name, f"quantiles is {given!r}. Write a list of numbers.")
    inner = tuple(number(f"column {column.name!r}: a quantile", value) for value in given)
    object.__setattr__(column, "quantiles", inner)
    whole = (column.low, *inner, column.high)
    if len(whole) < 3 or (len(whole) - 1) & (len(whole) - 2):
        raise wrong(column.name, f"there are {len(inner):,} quantiles. Write 1, 3, 7, 15, 31 or 63 of them.")
    if any(a >= b for a, b in pairwise(whole)) or not column.scale:
        raise wrong(column.name, "quantiles must rise between low and high, with scale = true.")


def _check_bounds(column: Numeric | Date, read: Callable[[str, object], Any]) -> None:
    """Both bounds, in order, and between them what stands in for a gap."""
    if gap := column.missing in OF_NUMBERS:
        object.__setattr__(column, "missing", Gaps(str(column.missing)))
    keys = ["low", "high"] + ([] if gap else ["missing"])
    for key in keys:
        object.__setattr__(column, key, read(f"column {column.name!r}: {key}", getattr(column, key)))
    ends: tuple[Any, Any, Any] = (column.low, column.high, getattr(column, keys[-1]))
    low, high, missing = ends
    texts = [f"{end:g}" if isinstance(end, float) else str(end) for end in ends]
    if not low < high:
        order = f"low = {texts[0]} is not below high = {texts[1]}"
        raise wrong(column.name, f"{order}. Write public bounds with low < high.")
    if not low <= missing <= high:
        outside = f"missing = {texts[2]} lies outside the bounds {texts[0]} to {texts[1]}"
        raise wrong(column.name, f"{outside}. Choose one between them.")


def _check_curve(column: Numeric) -> None:
    # Whole numbers of NumPy, too, as Python's: files are written of them.
    for key in ("smooth", "values", "monotone"):
        if isinstance(given := getattr(column, key), np.integer):
            object.__setattr__(column, key, int(given))
    smooth = column.smooth
    values = column.values
    monotone: object = column.monotone
    depth = isinstance(smooth, int) and (isinstance(smooth, bool) or 1 <= smooth <= curves.DEEPEST)
    if not (smooth is None or depth):
        raise wrong(column.name, f"smooth is {smooth!r}. Write true, false or a depth from 1 to {curves.DEEPEST}.")
    if smooth and not column.scale:
        raise wrong(column.name, "a curve needs a number that is scaled by its bounds. Leave scale = false out.")
    if values is not None and (isinstance(values, bool) or not isinstance(values, int) or values < 2):
        raise wrong(column.name, f"values is {values!r}. Write how many different values there are, 2 or more.")
    if monotone is not None and (type(monotone) is not int or monotone not in (-1, 1)):
        raise wrong(column.name, f"monotone is {monotone!r}. Write 1 where it never falls, -1 where it never rises.")


def _day(what: str, value: object) -> dt.date:
    if isinstance(value, str):
        try:
            value = dt.date.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{what} is {value!r}, which is no day. Write it as 2024-12-31.") from None
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise InvalidInput(f"{what} is {value!r}. Write a date as 2024-12-31, without a time.")
    return value


def _parts(name: str, parts: object) -> tuple[str, ...]:
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise wrong(name, f'parts is {parts!r}. Write a list, as in parts = ["month"].')
    listed = tuple(parts)
    if not set(listed) <= set(CYCLES) or len(set(listed)) < len(listed):
        raise wrong(name, f"parts is {list(listed)!r}. Name each of {', '.join(CYCLES)} at most once.")
    return listed


def _levels(name: str, levels: object) -> tuple[str, ...]:
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise wrong(name, f"levels is {levels!r}. Write a list of values.")
    texts = []
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, (str, int, np.integer)):
            raise wrong(name, f"the level {level!r} is not text. Write it as text.")
        texts.append(str(level))
        check_text(texts[-1])
    if not texts:
        raise wrong(name, "no levels. List the values it may take: levels = [...].")
    level, times = Counter(texts).most_common(1)[0]
    if times > 1:
        raise wrong(name, f"the level {level!r} is listed {times} times. List it once.")
    return tuple(texts)
