"""What every kind of column can say of itself: the features it becomes, and all that files, pages and runs ask of it.

A kind is one frozen dataclass in one file of this folder. It says its features, how its values are encoded and what it
is in words; whatever else is asked has an answer here, that of a column of which no more is known. CONTRIBUTING.md, Add
a column kind.

Figures that `colonnade init` proposes for a column are such as one would print in a data dictionary:

Numbers   by the column's name, where a figure of that name can only be so large, whatever the rows hold: an age, a
          percentage; an hour or a month only while no cell lies outside, since "paid last month" is none. Else the
          least and the largest cell, rounded outward to a multiple of 1, 2 or 5 times a power of ten, of at least a
          tenth of the way between them: the range grows by half at most, in practice by a fifth.
Days      rounded outward to whole years, or months where the rows span less than two years.

Rounded figures tell less of single rows than the extremes do, but they still were read off the rows: they are to be
confirmed like all others.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cache
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from colonnade.data.schema import cells
from colonnade.data.schema.cells import LARGEST, OF_NUMBERS, CellKind, EncodedColumn, Gaps, Missing, wrong
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.notebook import explain_by_bases

if TYPE_CHECKING:
    import polars as pl

    from colonnade.data.schema.infer import Look


AS_THEY_ARE = "read off the rows"  # where proposed figures are from


@dataclass(frozen=True)
class Feature:
    """One encoded column, as far as it is public."""

    name: str
    bound: float | None  # of the absolute value; None where nothing is known
    nonnegative: bool
    binary: bool
    level: int = 0  # of a curve's hat; 0: no hat


# The features of a column come in groups: those of one group are together never longer than its largest bound. Of
# levels, or of a value and its indicator, one differs from zero; a number and its hats are no longer than 1.
Groups = tuple[tuple[Feature, ...], ...]


class Bins(NamedTuple):
    """What bins of a number must know."""

    knots: Floats  # where its effect may bend, the bounds included; days by their ordinals
    bounds: tuple[Any, Any]  # as cells have them
    whole: bool = False  # whether there are whole numbers only; days are
    apart: float | None = None  # how far the bounds are apart, where both are whole numbers
    day: bool = False


class Drawn(NamedTuple):
    """What a number adds to a score, less what it adds at the middle of its range."""

    grid: Floats
    effect: Floats
    missing: float | None


@dataclass(frozen=True)
class Column(ABC):
    """One declared column. A subclass is a kind; its name in files is that of the class in small letters.

    Parameters
    ----------
    name
        The column's.
    """

    name: str
    EXPECTS: ClassVar[str] = "numbers"  # of a table's cells, as errors say it
    CLIPS: ClassVar[bool] = False  # whether values beyond its bounds count as the nearer one
    HINTS: ClassVar[Mapping[str, str]] = {}  # lines that a proposal offers beside those it writes, and what they mean

    if TYPE_CHECKING:

        @property
        def missing(self) -> Any:
            """What stands in for a gap: a value, "refuse" or "indicator"."""

    def __init_subclass__(cls, **further: Any) -> None:
        super().__init_subclass__(**further)
        explain_by_bases(cls, __name__)

    def __post_init__(self) -> None:
        check_name(self.name)

    # ------------------------------------------------------------------------ what a kind must say

    @abstractmethod
    def groups(self) -> Groups:
        """The features it becomes, each with its public bound."""

    @abstractmethod
    def encode(self, values: pl.Series) -> EncodedColumn:
        """The values of those features, in the same order.

        Parameters
        ----------
        values
            The column's cells.
        """

    @abstractmethod
    def words(self) -> tuple[str, str]:
        """What it is taken as, and its figures, for the owner of the data."""

    @property
    def declared(self) -> bool:
        """Whether its figures are known; else a private run looks for them, and nothing else can be asked of it."""
        return True

    def stand_in(self) -> Column:
        """The same with made-up figures where none were declared."""
        return self

    def curve_scale(self, numbers: Floats) -> Floats:
        """Scaled numbers as its curve takes them.

        Parameters
        ----------
        numbers
            In [-1, 1].
        """
        return numbers

    # ------------------------------------------------------------------------ its file and its cells

    @classmethod
    def kind(cls) -> str:
        """Its name in files."""
        return cls.__name__.lower()

    def to_file(self) -> dict[str, Any]:
        """As text, numbers, days and lists: what files and digests are made from."""
        return {"type": self.kind()} | {key: value for key, value in asdict(self).items() if value is not None}

    def takes(self, cells_type: Any) -> bool:
        """Whether cells of this type of polars may be its values.

        Parameters
        ----------
        cells_type
            A type of polars.
        """
        return cells.holds_numbers(cells_type)

    def csv_type(self) -> Any:
        """How cells of a text file are read: levels as they are written, so that "01" stays "01"."""
        return self.cell_type()

    def cell_type(self) -> Any:
        """The type of polars that holds its values and gaps."""
        import polars as pl

        return pl.Float64

    # ------------------------------------------------------------------------ where it is proposed

    def propose(self, seen: Look) -> tuple[Column, str]:  # noqa: ARG002  for kinds that round
        """Itself with figures that one would print in a data dictionary, and where these are from.

        Parameters
        ----------
        seen
            What was seen of the column's cells.
        """
        return self, AS_THEY_ARE

    def unscaled(self) -> Column:
        """The same as a run without privacy takes it: numbers as they are."""
        return self

    # ------------------------------------------------------------------------ its effect on a score

    @property
    def bounded(self) -> bool:
        """Whether all its features have a public bound."""
        return all(feature.bound is not None for feature in features_of(self))

    def scaling(self) -> tuple[float, float]:
        """Middle and unit of its first feature: value = middle + unit·entry."""
        return 0.0, 1.0

    def entry_ends(self) -> tuple[float, float]:
        """Between which two numbers the entries of its first feature lie."""
        return -1.0, 1.0

    def bins(self) -> Bins | None:
        """What bins of it must know; None: it has none."""
        return None

    def levels_of(self, group: int = 0) -> tuple[str, ...]:  # noqa: ARG002
        """The levels that the features of a group stand for, in their order; none of a number.

        Parameters
        ----------
        group
            The number of the group.
        """
        return ()

    def covers(self, group: int) -> bool:  # noqa: ARG002
        """Whether every value has one of the group's levels.

        Parameters
        ----------
        group
            The number of the group.
        """
        return False

    def part(self, group: int) -> str:  # noqa: ARG002
        """The name of a group beside others of the column.

        Parameters
        ----------
        group
            The number of the group.
        """
        return ""

    def card(self, group: int) -> Mapping[str, Any]:  # noqa: ARG002
        """How a scorecard tells a group's values apart (views/scorer.py); nothing: it cannot.

        Parameters
        ----------
        group
            The number of the group.
        """
        return {}

    def noun(self) -> str:
        """What errors call it."""
        return self.kind()

    # ------------------------------------------------------------------------ its curve

    @property
    def monotone(self) -> Literal[-1, 1] | None:
        """1: its curve never falls; -1: it never rises."""
        return None

    @property
    def depth(self) -> int:
        """Of its curve; 0: it has none."""
        return 0

    @property
    def auto_curve_counts(self) -> int:
        """How deep a curve a method may make of it; 0: it may make none."""
        return 0

    def with_curve_depth(self, depth: int) -> Column:  # noqa: ARG002
        """The same with a curve of this depth, where it was left to the method.

        Parameters
        ----------
        depth
            How often its range is halved; 0: a line.
        """
        return self

    def as_line(self) -> Column:
        """The same without a curve."""
        return self

    def per_unit(self) -> float | None:
        """What a coefficient of a line is multiplied with for one unit more; None: it is no line."""
        return None

    def drawn(self, x: Floats) -> Drawn | None:  # noqa: ARG002
        """Its effect by the coefficients of its features; None: it is no number.

        Parameters
        ----------
        x
            One coefficient a feature.
        """
        return None


@cache
def kinds() -> dict[str, type[Column]]:
    """Every kind, by its name in files: those among the public names that live in this folder."""
    package = import_module("colonnade")
    homes = [name for name, home in package.HOMES.items() if home.startswith("colonnade.data.schema.")]
    found = [getattr(package, name) for name in homes]
    return {kind.kind(): kind for kind in found if issubclass(kind, Column)}


def features_of(column: Column) -> tuple[Feature, ...]:
    return tuple(feature for group in column.groups() for feature in group)


def spans_of(columns: Iterable[Column]) -> Iterator[tuple[Column, slice]]:
    """Each column, and which places among the encoded columns it takes."""
    start = 0
    for column in columns:
        stop = start + len(features_of(column))
        yield column, slice(start, stop)
        start = stop


def flag(name: str) -> Feature:
    """A feature of zeros and ones."""
    return Feature(name, 1.0, nonnegative=True, binary=True)


def indicator(name: str) -> Feature:
    """The feature that says where a column has gaps."""
    return flag(f"{name}=missing")


def with_indicator(value: Feature, missing: object) -> tuple[Feature, ...]:
    """A feature, and the one of its gaps if that was asked for."""
    return (value, indicator(value.name)) if missing == Gaps.INDICATOR else (value,)


# --- checks -------------------------------------------------------------------------------------------------


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a column is called {name!r}. Give it a name: text, not empty.")
    check_text(name)


def check_text(text: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidInput(f"{text!r} holds half a character (a lone surrogate). Write it in valid Unicode.")


def number(what: str, value: object) -> float:
    """A finite float, or an error that says what is wrong with the declared one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{what} is {value!r}. Write a number.")
    figure = cast("float", value)
    if not -LARGEST <= figure <= LARGEST:  # also refuses nan
        raise InvalidInput(f"{what} is {figure}. Write a number within ±{LARGEST:g}.")
    # -0.0 becomes 0.0: equal schemas have equal digests.
    return float(figure) + 0.0


def missing_number(name: str, value: object) -> Missing:
    """What stands in for a gap of numbers."""
    if value in OF_NUMBERS:
        return Gaps(cast("str", value))
    if isinstance(value, str):
        raise wrong(name, f'missing is {value!r}. Write "refuse", "indicator" or the number to use.')
    return number(f"column {name!r}: missing", value)


PEOPLE = {"client", "customer", "driver", "employee", "member", "patient", "person"}
AGES = {("age",), ("age", "years"), ("age", "in", "years"), *((one, "age") for one in PEOPLE)}
MEANT = {  # by the last word of a name: what a figure of that name can be
    "percent": (0.0, 100.0),
    "percentage": (0.0, 100.0),
    "pct": (0.0, 100.0),
    "probability": (0.0, 1.0),
    "proportion": (0.0, 1.0),
    "hour": (0.0, 23.0),
    "month": (1.0, 12.0),
}
OF_THE_CLOCK = (MEANT["hour"], MEANT["month"])
BY_NAME = "by its name"  # where figures are from
ROUNDED = "read off the rows, rounded outward"
LONG = dt.timedelta(days=730)


def propose(seen: Look) -> tuple[Column | None, str]:
    """The column that this looks like, with round figures, and where they are from; none, and why."""
    column, why = seen.proposal()
    return (None, why) if column is None else column.propose(seen)


def bounds_of(seen: Look, low: float, high: float) -> tuple[float, float, str]:
    """Round bounds of a number that is called so and lies between these two, and where they are from."""
    if (meant := meant_by(seen.name)) is not None:
        beyond = seen.low is not None and not meant[0] <= seen.low <= seen.high <= meant[1]
        if not (beyond and meant in OF_THE_CLOCK):
            return *meant, BY_NAME + ("; but cells lie outside: look" if beyond else "")
    return *outward(low, high, seen.kind is CellKind.INTEGER), ROUNDED


def meant_by(name: str) -> tuple[float, float] | None:
    """The bounds that a column's name alone says; None: it says none."""
    words = tuple(re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    return (0.0, 120.0) if words in AGES else MEANT.get(words[-1]) if words else None


def outward(low: float, high: float, whole: bool = False) -> tuple[float, float]:
    """Round figures around two; whole: no finer than 1."""
    least = Decimal(repr(low))
    most = Decimal(repr(high))
    tenth = (most - least) / 10
    power = Decimal(1).scaleb(tenth.adjusted())
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= tenth)
    step = max(step, Decimal(1)) if whole else step
    ends = float(math.floor(least / step) * step), float(math.ceil(most / step) * step)
    return ends if all(abs(end) <= LARGEST for end in ends) else (low, high)


def whole_months(low: dt.date, high: dt.date) -> tuple[dt.date, dt.date]:
    """The first day of the month, or year, of one day, and the last of that of another."""
    if high - low >= LONG:
        return dt.date(low.year, 1, 1), dt.date(high.year, 12, 31)
    return low.replace(day=1), high.replace(day=calendar.monthrange(high.year, high.month)[1])
