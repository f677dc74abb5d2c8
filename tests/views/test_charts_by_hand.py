"""Charts put every bar, step, dot, tick and line of the grid where hand arithmetic puts it."""

from __future__ import annotations

import re

import pytest

from colonnade.views.chart import Axis, Curve, _nice, lines, stacked_bars

NUMBER = r"(-?[\d.]+)"


def test_parts_of_three_parties_stand_one_above_the_other():
    """Bars of 1 + 2 + 3 and 4 + 0 + 1: the axis reaches 4 % beyond 6, and a bar takes 84 % of its place."""
    drawn = stacked_bars({"a": [1, 4], "b": [2, 0], "c": [3, 1]}, [0, 1], Axis("round"), Axis("bytes"), label="")
    inside = drawn[: drawn.index("legend")]
    boxes = re.findall(rf'<rect x="{NUMBER}" y="{NUMBER}" width="{NUMBER}" height="{NUMBER}"', inside)
    scale = 1000 / 6.24
    wanted = [(0, 0, 1), (1, 0, 4), (0, 1, 2), (0, 3, 3), (1, 4, 1)]  # place, floor, part; party by party
    assert len(boxes) == len(wanted)
    for box, (place, floor, part) in zip(boxes, wanted, strict=True):
        left = 1000 * (place - 0.42 + 0.5) / 2
        expected = (left, 1000 - scale * (floor + part), 420.0, scale * part)
        assert [float(number) for number in box] == pytest.approx(expected, abs=0.06)


def test_a_value_holds_until_the_next_one_comes():
    x, y = Axis("round", low=0.0, high=10.0), Axis("bytes", low=0.0, high=10.0)
    drawn = lines([Curve("a", [(0, 2), (5, 4), (10, 8)], "#000", steps=True)], x, y, label="")
    points = re.search('points="([^"]+)"', drawn).group(1).split()
    assert points == ["0.0,800.0", "500.0,800.0", "500.0,600.0", "1000.0,600.0", "1000.0,200.0"]


def test_dots_ticks_and_grid_stand_at_their_values():
    x, y = Axis("predicted", low=0.0, high=1.0), Axis("found", low=0.0, high=10.0)
    drawn = lines([Curve("a", [(0.25, 2.0), (0.5, 9.0)], "#000", marks=True)], x, y, label="")
    assert re.findall('<circle cx="([^"]+)" cy="([^"]+)"', drawn) == [("25.00%", "80.00%"), ("50.00%", "10.00%")]
    beside = re.findall(r'<text x="0" y="([\d.]+)%"[^>]*>([^<]+)<', drawn)
    assert beside == [(f"{100 - 10 * tick:.2f}", f"{tick}") for tick in (0, 2, 4, 6, 8, 10)]
    below = re.findall(r'<text x="([\d.]+)%" y="100%"[^>]*>([^<]+)<', drawn)
    assert below == [(f"{100 * tick:.2f}", f"{tick:g}") for tick in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    grid = re.findall(r'<line x1="0" x2="100%" y1="([\d.]+)%" y2="([\d.]+)%"/>', drawn)
    assert [float(a) for a, b in grid if a == b][:-1] == [100.0, 80.0, 60.0, 40.0, 20.0, 0.0]


def test_an_axis_of_bytes_and_one_of_powers_say_what_stands_there():
    span = (0.0, 4e6)
    ticks = Axis("bytes", bytes=True).ticks(span)
    assert [(share, text) for share, text in ticks] == [
        (0.0, "0 B"),
        *((k / 4, f"{k} MB") for k in (1, 2, 3, 4)),
    ]
    powers = Axis("gap", log=True)
    assert powers.span([1e-4, 1.0]) == pytest.approx((-4.16, 0.16))
    assert [text for _, text in powers.ticks((-4.0, 0.0))] == ["0.0001", "0.001", "0.01", "0.1", "1"]
    assert [share for share, _ in powers.ticks((-4.0, 0.0))] == pytest.approx([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    ("high", "step"),
    [(0.7, 0.2), (1.0, 0.2), (1.0000000000000002, 0.2), (1.6, 0.5), (3.1, 1.0), (5.0, 1.0), (6.0, 2.0), (30.0, 10.0)],
)
def test_ticks_are_one_two_or_five_times_a_power_of_ten_apart_and_at_most_six(high, step):
    """A fifth of the axis, rounded up: .14, .2, .2 but for a rounding, .32, .62, 1, 1.2 and 6."""
    shares = [share for share, _ in Axis("x").ticks((0.0, high))]
    assert shares == pytest.approx([k * step / high for k in range(1 + int(high / step + 1e-9))])
    whole = [text for _, text in Axis("x", whole=True).ticks((0.0, high))]
    assert whole == [f"{k * max(step, 1.0):g}" for k in range(1 + int(high / max(step, 1.0) + 1e-9))]


def test_a_step_is_the_next_of_one_two_and_five_and_itself_where_it_is_one():
    steps = {
        1.0: 1,
        1.01: 2,
        2.0: 2,
        2.01: 5,
        4.9: 5,
        5.0: 5,
        5.01: 10,
        9.9: 10,
        10.0: 10,
        0.3: 0.5,
        0.06: 0.1,
        250: 500,
    }
    for step, nice in steps.items():
        assert _nice(step) == pytest.approx(nice, rel=1e-12)
    assert _nice(2.0 * (1 + 1e-12)) == 2.0  # a rounding is no step
