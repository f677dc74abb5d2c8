"""Rows on a grid against a slow writing in big integers and fractions: no row is longer than its bound, whatever its cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.kernels.ring import add_squares, whole_rows

LARGEST = 1e100
WILD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-300, 3e9, -3e9, 1e18, 1e300, -1e300, np.inf, -np.inf, np.nan]


def slowly(values, keep, centre, factor, low, high, unit, norm2):
    """The same rows one number at a time, and which were over the bound."""
    rows, over = [], 0
    for source in values:
        cells = [0.0 if math.isnan(c) else min(max(c, -LARGEST), LARGEST) for c in (float(source[j]) for j in keep)]
        row, far = [], False
        for j, cell in enumerate(cells):
            real = float(np.rint((cell - centre[j]) * factor[j]))
            whole = int(min(max(real, int(low[j])), int(high[j])))
            most = math.isqrt(norm2) // int(unit[j])
            far |= abs(whole) > most
            row.append(min(max(whole, -most), most))
        squares = sum((x * int(f)) ** 2 for x, f in zip(row, unit, strict=True))
        over += far or squares > norm2
        part = math.sqrt(float(norm2) / float(max(squares, 1)))
        shorter = row
        while squares > norm2:
            shorter = [math.trunc(x * part) for x in row]
            squares = sum((x * int(f)) ** 2 for x, f in zip(shorter, unit, strict=True))
            part *= 1.0 - 2.0**-40
        rows.append(shorter)
    return np.array(rows, dtype=object).reshape(len(values), len(keep)), over


def made(values, keep, centre, factor, low, high, unit, norm2):
    out = np.empty((len(values), keep.size), np.int64)
    most = math.isqrt(norm2) // unit
    return out, whole_rows(
        values, keep, centre, factor, low, high, unit, most, np.zeros(keep.size, bool), LARGEST, norm2, out
    )


@settings(max_examples=40)
@given(
    st.integers(1, 5),
    st.integers(0, 10**9) | st.integers(2**53 - 9, 2**53 + 9) | st.integers(0, 2**60),
    st.integers(0, 2**32),
)
def test_rows_are_the_slow_ones_and_none_is_longer_than_its_bound(columns, norm2, seed):
    rng = np.random.default_rng(seed)
    values = rng.choice(WILD, (12, columns + 2)) * rng.choice([1.0, 100.0, 0.01])
    values[::3] = rng.normal(0, 30, (4, columns + 2))
    keep = np.sort(rng.choice(columns + 2, columns, replace=False))
    centre, factor = rng.choice([0.0, 0.5, -3.0], columns), rng.choice([1.0, 64.0, 2.0**-3], columns)
    high = rng.choice([0, 1, 9, 10**6, 2**62], columns)
    low = -high * rng.integers(0, 2, columns)
    unit = rng.choice([1, 1, 32, 1000], columns)
    given_ = values, keep, centre, factor, low, high, unit, norm2
    with np.errstate(all="ignore"):
        want, over = slowly(*given_)
    got, shortened = made(*given_)
    assert (want == got.astype(object)).all()
    assert shortened == over
    assert all(sum((int(x) * int(f)) ** 2 for x, f in zip(row, unit, strict=True)) <= norm2 for row in got)
    assert ((got >= np.minimum(low, 0)) & (got <= np.maximum(high, 0))).all()


def test_no_row_tells_about_another():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 5, (40, 4))
    rest = np.arange(4), np.zeros(4), np.full(4, 3.0), np.full(4, -99), np.full(4, 99), np.ones(4, int), 400
    together, _ = made(values, *rest)
    for r in range(40):
        np.testing.assert_array_equal(made(values[r : r + 1], *rest)[0][0], together[r])


@pytest.mark.parametrize("unit", [1, 7, 64])
def test_a_row_of_ones_at_its_bound_stays_and_one_over_it_is_shortened_to_nothing(unit):
    """A row that is cut has no ones left: why units are only used where the schema proves that none is."""
    ones = np.ones((1, 5))
    rest = np.arange(5), np.zeros(5), np.ones(5), np.zeros(5, int), np.ones(5, int), np.full(5, unit)
    assert made(ones, *rest, 5 * unit**2)[0].tolist() == [[1] * 5]
    got, shortened = made(ones, *rest, 5 * unit**2 - 1)
    assert (got.tolist(), shortened) == ([[0] * 5], 1)


@pytest.mark.parametrize("units", [(1, 1), (32, 32), (32, 1), (1, 1000)])
@pytest.mark.parametrize("length", [2**27, 2**29])
def test_a_bound_that_doubles_round_up_is_kept_in_whole_numbers(units, length):
    """The bound is one less than a sum of squares. As a double it is that sum, and to shorten the row once is too little."""
    unit = np.array(units)
    shorter = length // unit // 4 * 4
    norm2 = int(((shorter * unit) ** 2).sum()) - 1
    longer = shorter // 4 * 5
    once = longer * math.sqrt(float(norm2) / float(((longer * unit) ** 2).sum()))
    assert once.tolist() == shorter.tolist()
    rest = np.arange(2), np.zeros(2), np.ones(2), np.full(2, -(2**40)), np.full(2, 2**40), unit
    got, shortened = made(longer.astype(float)[None], *rest, norm2)
    assert got[0].tolist() == (shorter - 1).tolist()
    assert shortened == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_squares_of_columns_are_added_up_exactly(dtype):
    rows = np.array([[3, -(2**15)], [4, 2**15], [0, 1]], dtype)
    out = np.array([5, 0])
    add_squares(rows, out)
    assert out.tolist() == [30, 2**31 + 1]
