"""Figures that `colonnade init` proposes: round ones around the rows, or those that a name alone says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from colonnade.data.schema.column import BY_NAME, ROUNDED, meant_by, outward, propose, whole_months
from colonnade.data.schema.infer import look

number = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(number, number, st.booleans())
def test_round_figures_hold_the_rows_and_are_no_more_than_half_wider(one: float, other: float, whole: bool) -> None:
    low, high = sorted(map(round, (one, other)) if whole else (one, other))
    assume(high - low > 1e-6)
    least, most = outward(float(low), float(high), whole)
    assert least <= low < high <= most
    # A step is at most 2.5 tenths of the way, on either side; of whole numbers it is at least 1.
    room = max(Decimal(1) * whole, (Decimal(high) - Decimal(low)) / 4)
    assert Decimal(low) - Decimal(least) < room + Decimal("1e-6")
    assert Decimal(most) - Decimal(high) < room + Decimal("1e-6")


@pytest.mark.parametrize(
    ("ends", "whole", "found"),
    [
        ((18, 89), True, (10, 90)),
        ((0.0, 26.3), False, (0, 30)),
        ((-5234.5, 9120.2), False, (-6000, 10000)),
        ((1, 4), True, (1, 4)),
        ((0.12, 0.31), False, (0.12, 0.32)),
        ((-9.9e17, 9.9e17), False, (-1e18, 1e18)),
    ],
)
def test_round_figures_are_those_of_a_ruler(ends: tuple[float, float], whole: bool, found: tuple[float, float]) -> None:
    assert outward(*ends, whole) == found


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("age", (0, 120)),
        ("patientAge", (0, 120)),
        ("Age in years", (0, 120)),
        ("account_age", None),
        ("age_months", None),
        ("loan_pct", (0, 100)),
        ("month", (1, 12)),
        ("months", None),
        ("wage", None),
        ("", None),
    ],
)
def test_a_name_says_bounds_only_where_its_figures_can_be_no_others(
    name: str, bounds: tuple[float, float] | None
) -> None:
    assert meant_by(name) == bounds


def test_bounds_by_name_do_not_follow_the_rows_and_say_if_these_lie_outside() -> None:
    frame = pl.DataFrame(
        {
            "age": [30, 41],
            "share_pct": [10.0, 250.0],
            "paid": [3.0, 17.0],
            "month": [2.0, 4.5],
            "at": [dt.date(2020, 2, 3)] * 2,
        }
    )
    frame = frame.with_columns(paid_last_month="paid")
    proposed = {column.name: (column, why) for column, why in map(propose, look([frame]))}
    assert (proposed["age"][0].low, proposed["age"][0].high, proposed["age"][1]) == (0, 120, BY_NAME)
    assert (proposed["share_pct"][0].high, "but cells lie outside" in proposed["share_pct"][1]) == (100, True)
    assert (proposed["paid"][0].low, proposed["paid"][0].high, proposed["paid"][1]) == (2, 18, ROUNDED)
    other = proposed["paid_last_month"]
    assert (other[0].low, other[0].high, other[1]) == (2, 18, ROUNDED)
    assert (proposed["month"][0].low, proposed["month"][0].high, proposed["month"][1]) == (1, 12, BY_NAME)
    assert (proposed["at"][0].low, proposed["at"][0].high) == (dt.date(2020, 2, 1), dt.date(2020, 2, 29))


def test_a_mark_for_a_gap_among_numbers_does_not_make_each_number_a_level() -> None:
    """Levels are published: those of a column of amounts would be the amounts."""
    amounts = [f"{k}.5" for k in range(30)]
    frame = pl.DataFrame({"paid": [*amounts, "?"], "code": [*amounts[:27], "V1", "V2", "V3", "V4"]})
    (paid, why), (code, _) = map(propose, look([frame]))
    assert paid is None
    assert why == "holds numbers, and '?'. If that says that a number is missing, leave these cells empty."
    assert code is not None
    assert len(code.levels) == 31


def test_days_become_whole_months_or_years() -> None:
    assert whole_months(dt.date(2005, 3, 4), dt.date(2019, 5, 6)) == (dt.date(2005, 1, 1), dt.date(2019, 12, 31))
    assert whole_months(dt.date(2019, 3, 4), dt.date(2020, 5, 6)) == (dt.date(2019, 3, 1), dt.date(2020, 5, 31))
