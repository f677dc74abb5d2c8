"""Where numbers lie, by counts over public cells: each number has one cell, and ranges and quantiles follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels import histograms
from colonnade.kernels.histograms import CELLS, HALF, PARTS, Range, cells_of, counts, quantiles, range_of, threshold

NUMBERS = st.floats(allow_nan=False)


def cell_by_definition(x: float) -> int:
    """The cell of the half octave that holds |x|, found one by one."""
    octave = 0
    for j in range(-40, 81):
        if abs(x) >= 2.0 ** (j / 2):
            octave = j + 41
    return HALF + octave if x > 0 else HALF - octave


@given(NUMBERS)
def test_every_number_is_in_the_cell_of_its_half_octave(x: float) -> None:
    assert cells_of(np.array([x]))[0] == cell_by_definition(x)


def test_the_ends_of_the_grid_take_what_lies_beyond_and_zero_what_is_nearer() -> None:
    far = np.array([-np.inf, -1e300, -(2.0**41), 2.0**41, np.inf])
    assert cells_of(far).tolist() == [0, 0, 0, CELLS - 1, CELLS - 1]
    near = np.array([-(2.0**-20.1), -0.0, 0.0, 5e-324, 2.0**-20.1])
    assert (cells_of(near) == HALF).all()
    assert cells_of(np.array([2.0**-20, -(2.0**-20)])).tolist() == [HALF + 1, HALF - 1]


@given(st.lists(NUMBERS, max_size=30))
def test_a_number_counts_once(numbers: list[float]) -> None:
    found = counts(np.array(numbers))
    assert found.shape == (CELLS,)
    assert found.sum() == len(numbers)


def test_the_range_runs_from_the_lowest_to_the_highest_cell_over_the_threshold() -> None:
    noisy = np.zeros(CELLS, np.int64)
    assert range_of(noisy, 5.0) is None
    noisy[HALF] = 9
    assert range_of(noisy, 5.0) is None  # zero alone says nothing
    noisy[HALF + 1 + 40 + 6] = 6  # [2^3, 2^3.5)
    found = range_of(noisy, 5.0)
    assert found is not None
    assert (found.low, found.high) == (0.0, 2.0**3.5)
    noisy[HALF - 1 - 40 - 2] = 6  # (-2^1.5, -2^1]
    found = range_of(noisy, 5.0)
    assert found is not None
    assert (found.low, found.high) == (-(2.0**1.5), 2.0**3.5)
    assert range_of(noisy, 6.0) is None


@pytest.mark.parametrize(("octaves", "logarithmic"), [(2.5, False), (3.0, False), (3.5, True), (9.0, True)])
def test_cells_are_equal_in_logarithms_where_a_side_spans_over_three_octaves(octaves: float, logarithmic: bool) -> None:
    noisy = np.zeros(CELLS, np.int64)
    noisy[[HALF + 50, HALF + 50 + round(2 * octaves) - 1]] = 10
    found = range_of(noisy, 5.0)
    assert found is not None
    assert found.high / found.low == pytest.approx(2.0**octaves)
    assert bool(found.unit) is logarithmic
    if logarithmic:
        assert found.unit == found.low


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.lists(st.floats(-2e6, 2e6), min_size=1, max_size=50))
def test_every_number_is_in_one_part_of_a_range(low: float, span: float, numbers: list[float]) -> None:
    for unit in (0.0, 1.0):
        found = Range(low, low + span, unit)
        parts = found.part_counts(np.array(numbers))
        assert parts.shape == (PARTS,)
        assert parts.sum() == len(numbers)


@pytest.mark.parametrize("unit", [0.0, 0.5, 100.0])
def test_the_scale_of_a_range_has_an_inverse(unit: float) -> None:
    found = Range(-300.0, 1e6, unit)
    x = np.linspace(-300.0, 1e6, 1001)
    assert found.unscaled(found.scaled(x)) == pytest.approx(x, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("law", ["normal", "lognormal", "uniform", "whole"])
def test_without_noise_quantiles_are_those_of_the_rows_within_a_part(law: str) -> None:
    rng = np.random.default_rng(7)
    n = 200_000
    x = {
        "normal": rng.normal(50.0, 10.0, n),
        "lognormal": np.exp(rng.normal(5.0, 1.0, n)),
        "uniform": rng.uniform(-3.0, 3.0, n),
        "whole": rng.integers(0, 100, n).astype(np.float64),
    }[law]
    found = range_of(counts(x), 200.0)
    assert found is not None
    between = quantiles(found, found.part_counts(x), 1.0, PARTS - 1)
    assert (np.diff(between) > 0).all()
    below = np.searchsorted(np.sort(x), between) / n
    wanted = np.concatenate([[0.005], 0.005 + 0.99 * np.arange(1, PARTS) / PARTS, [0.995]])
    # A part holds at most so many rows, and a hundredth of them is spread evenly.
    most = found.part_counts(x).max() / n
    assert np.abs(below - wanted).max() <= most + 0.01 + 0.005


def test_counts_within_the_noise_are_none_and_quantiles_rise_all_the_same() -> None:
    found = Range(0.0, 64.0, 0.0)
    noisy = np.full(PARTS, 3)
    noisy[10] = 1000
    between = quantiles(found, noisy, 4.0, PARTS - 1)
    assert between[0] >= 10.0
    assert between[-1] <= 11.0
    assert (np.diff(between) > 0).all()
    nothing = quantiles(found, np.zeros(PARTS, np.int64), 4.0, 3)
    assert nothing == pytest.approx([0.32, 16.16, 32.0, 47.84, 63.68])


def test_the_threshold_bounds_the_chance_of_all_empty_cells_together() -> None:
    """By the normal tail, which is at least that of the discrete Gaussian at whole numbers beyond the mean."""
    from scipy.stats import norm

    for columns in (1, 20, 3000):
        over = threshold(10.0, columns, 0.05) / 10.0
        assert norm.sf(over) * (CELLS + 1) * columns <= 0.05
    assert histograms.TAIL < histograms.SPREAD
