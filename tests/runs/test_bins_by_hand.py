"""Where bins end, by hand: of straight lines a bin's width is all that counts, so that every edge can be worked out."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co
from colonnade.runs import effects
from colonnade.runs.effects import Effect, bounds_of, in_whole_numbers, ranges


def line(low: float, high: float, **more) -> Effect:
    """From -1 at the lower bound to 1 at the upper one."""
    column = co.Numeric("x", low, high, **more)
    return Effect("a", column, 0, column.groups()[0], np.array([1.0] + [0.0] * (len(column.groups()[0]) - 1)))


def test_so_many_bins_as_were_asked_for_are_as_even_as_round_edges_allow():
    """A line over 10.5: four bins may be 10.5/4 wide, and a tenth more as often as it takes. Candidates are 0.2 apart, as
    10.5/64 is 0.16; bins of 2.6 are five, so they grow to 2.8, and the last one has what is left."""
    assert bounds_of(line(0, 10.5), 4, np.nan) == pytest.approx([0.0, 2.8, 5.6, 8.4, 10.5])
    assert bounds_of(line(0, 10.5), 1, np.nan) == [0.0, 10.5]
    most = bounds_of(line(0, 10.5), None, 1e-9)  # 20 at most: of 0.4 there would be 27
    assert most == pytest.approx([*0.6 * np.arange(18), 10.5])
    assert bounds_of(line(0, 10.5), None, 0.5) == pytest.approx([0.0, 5.2, 10.4, 10.5])  # half of 2·5.25/10.5 is 0.5
    flat = Effect("a", co.Numeric("x", 0, 10.5), 0, co.Numeric("x", 0, 10.5).groups()[0], np.zeros(1))
    assert bounds_of(flat, None, 0.5) == [0.0, 10.5]


@pytest.mark.parametrize(
    ("low", "high", "least", "values"),
    [
        (-0.5, 287.5, 0.0, 5.0 * np.arange(58)),  # 4.5 asks for 5
        (0.0, 10.0, 1.0, 1.0 * np.arange(1, 10)),  # whole numbers alone: no finer than 1
        (0.0, 64.0, 0.0, 1.0 * np.arange(1, 64)),  # a step that is round already is taken as it is
        (0.0, 80.0, 0.0, 2.0 * np.arange(1, 40)),
        (0.0, 6.4e-13, 0.0, 1e-14 * np.arange(1, 64)),
    ],
)
def test_candidates_are_multiples_of_1_2_or_5_and_about_64(low, high, least, values):
    assert effects._round_values(low, high, least) == pytest.approx(values.tolist(), rel=1e-9)


@pytest.mark.parametrize(
    ("effect", "edges", "whole"),
    [
        (line(0, 4), [0.5], True),
        (line(0, 3), [0.5], False),  # as close as bounds of ratios
        (line(0, 3, values=4), [0.5], True),  # but that says that it counts
        (line(0, 64), [0.5], True),
        (line(0, 65), [0.5], False),
        (line(0, 10), [0.5, 9.5], True),  # the last bin holds 10 alone
        (line(0, 10), [1.7], False),
        (line(0, 10), [1.2], False),
        (line(0, 10, values=11), [1.7, 4.0], True),
        (line(0, 10, values=11), [1.2, 1.7], False),  # none between them
        (line(0.5, 10), [1.5], False),
        (line(0, 10), [], False),
    ],
)
def test_bins_are_told_by_whole_numbers_where_each_holds_some(effect, edges, whole):
    assert in_whole_numbers(effect, edges) is whole


def test_unasked_edges_of_counts_lie_half_way():
    assert bounds_of(line(0, 4), None, 1e-9) == [0.0, 0.5, 1.5, 2.5, 3.5, 4.0]
    # Two of 32 at most would end at 31.5 and 63.5, so they may be a tenth wider: 35.2.
    assert bounds_of(line(0, 64), 2, np.nan) == [0.0, 34.5, 64.0]
    assert 0.5 not in bounds_of(line(0, 3), None, 0.1)


def test_of_whole_numbers_those_from_an_edge_to_the_next_count():
    """0 to 3, and 4 to 10, of a line from -1 to 1 over 0 to 10; of any numbers up to the edge itself."""
    assert ranges(line(0, 10, values=11), [0.0, 4.0, 10.0]) == pytest.approx(np.array([[-1.0, -0.4], [-0.2, 1.0]]))
    assert ranges(line(0, 10), [0.0, 4.0, 10.0]) == pytest.approx(np.array([[-1.0, -0.2], [-0.2, 1.0]]))


@pytest.mark.parametrize("edges", [[2.0, 2.0], [3.0, 2.0], [0.0, 2.0], [2.0, 10.0], [-1.0], [11.0]])
def test_edges_that_do_not_rise_within_the_bounds_are_refused(edges):
    with pytest.raises(co.InvalidInput, match="must rise and lie within its bounds, 0 and 10"):
        bounds_of(line(0, 10), edges, 0.1)
    assert bounds_of(line(0, 10), [2, 9.5], 0.1) == [0.0, 2.0, 9.5, 10.0]


@pytest.mark.parametrize("asked", [0, -1])
def test_a_number_has_a_bin(asked):
    with pytest.raises(co.InvalidInput, match="at least one bin"):
        bounds_of(line(0, 10), asked, 0.1)
