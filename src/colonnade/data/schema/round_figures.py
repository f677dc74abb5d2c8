"""Figures that `colonnade init` proposes for a column: such as one would print in a data dictionary.

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
from decimal import Decimal
from typing import TYPE_CHECKING

from colonnade.data.schema.cells import LARGEST

if TYPE_CHECKING:
    from colonnade.data.schema.column import Column
    from colonnade.data.schema.infer import Look

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
    return *outward(low, high, seen.kind == "integer"), ROUNDED


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
