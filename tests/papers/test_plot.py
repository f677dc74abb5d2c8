"""Drawings: what the values say is what the SVG shows, word for word, and the same values give the same file."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from papers.commands import app
from papers.looks import COLOURS, METHODS, SHADES, apart, contrast, ink, shade
from papers.plot import Panel, Plot, from_values, to_svg, values

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).resolve().parents[2]


def drawn(*panels: Panel, **options) -> ET.Element:
    return ET.fromstring(to_svg(Plot("a title", list(panels), **options), "a foot"))


def texts(svg: ET.Element) -> list[str]:
    return ["".join(element.itertext()).strip() for element in svg.iter(f"{SVG}text")]


def curve(svg: ET.Element, number: int = 0) -> list[list[tuple[float, float]]]:
    """The pieces of one curve, in the picture's own units."""
    (found,) = [group for group in svg.iter(f"{SVG}g") if group.get("id") == f"curve{number}"]
    pieces: list[list[tuple[float, float]]] = []
    for letter, x, y in re.findall(r"([ML]) (\S+) (\S+)", found.find(f"{SVG}path").get("d")):
        if letter == "M":
            pieces.append([])
        pieces[-1].append((float(x), float(y)))
    return pieces


def test_a_power_law_is_a_straight_line_on_log_axes():
    panel = Panel(log="xy")
    panel.line([1, 10, 100, 1000], [1.0, 0.1, 0.01, 0.001], "a")
    (line,) = curve(drawn(panel))
    (x0, y0), (x1, y1), _, (x3, y3) = line
    assert x0 < x1 < x3
    assert y0 < y1 < y3  # downwards is larger in SVG
    assert (x3 - x0, y3 - y0) == pytest.approx((3 * (x1 - x0), 3 * (y1 - y0)), abs=0.4)


def test_ticks_stand_at_their_values():
    panel = Panel()
    panel.line([0, 1], [2.0, 4.0], "a")
    svg = drawn(panel)
    ends = curve(svg)[0]
    labels = {
        element.text: (float(element.get("x")), float(element.get("y")))
        for element in svg.iter(f"{SVG}text")
        if element.get("x") and re.fullmatch(r"[\d.]+", element.text or "")
    }
    middle = labels["3.00"][1] - (ends[0][1] + ends[1][1]) / 2
    assert labels["2.00"][1] - ends[0][1] == pytest.approx(middle, abs=0.11)  # places are rounded to a tenth
    assert labels["4.00"][1] - ends[1][1] == pytest.approx(middle, abs=0.11)  # places are rounded to a tenth
    assert [labels["0.0"][0], labels["1.0"][0]] == pytest.approx(
        [ends[0][0], ends[1][0]], abs=0.11
    )  # places are rounded to a tenth


def test_ticks_of_a_log_axis_are_powers_of_ten():
    panel = Panel(log="y")
    panel.line([0, 1], [1.0, 1e-8], "a")
    told = [re.sub(r"\s", "", text) for text in texts(drawn(panel))]
    assert "1" in told
    assert any(text in ("10−8", "10-8") for text in told), told


@pytest.mark.parametrize("gap", [0.0, None, math.nan])
def test_what_cannot_be_shown_breaks_the_line_and_nothing_else(gap):
    panel = Panel(log="y")
    panel.line([0, 1, 2, 3, 4], [1.0, 0.1, gap, 0.1, 1.0], "a")
    assert [len(piece) for piece in curve(drawn(panel))] == [2, 2]


def test_panels_levels_and_names_are_drawn_as_they_are_written():
    left, right = Panel("left <1>", x="rows $n$", y="loss"), Panel("right & more")
    left.line([1, 2], [1, 2], "a <1> & $2")
    left.level(1.5, "least")
    right.line([1, 2], [2, 3], "a <1> & $2")
    right.line([1, 2], [3, 4], "b", joined=False)
    told = texts(drawn(left, right, columns=2))
    assert {"a title", "left <1>", "right & more", "rows $n$", "loss", "least", "b", "a foot"} <= set(told)
    assert told.count("a <1> & $2") == 2  # beside its curve, in each panel


def test_panels_with_the_same_vertical_axis_show_a_value_at_the_same_height():
    left, right = Panel(), Panel()
    left.line([1, 2], [1, 2], "a")
    right.line([1, 2], [2, 30], "a")
    svg = drawn(left, right, columns=2, same_y=True)
    assert curve(svg, 0)[0][1][1] == pytest.approx(curve(svg, 1)[0][0][1], abs=0.11)  # places are rounded to a tenth


def test_bars_are_as_long_as_their_values_and_named_from_the_top_down():
    panel = Panel(x="epsilon", bars={"shown": [1.0, 4.0], "claimed": [2.0, 0.5]}, names=["upper", "lower"])
    svg = drawn(panel)
    found = []
    for path in svg.iter(f"{SVG}path"):
        numbers = [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path.get("d") or "")]
        if path.get("clip-path") and len(numbers) == 4 and "stroke" not in path.get("style", ""):
            xs, ys = zip(*numbers, strict=True)
            found.append((sum(ys) / 4, max(xs) - min(xs)))
    lengths = [length for _, length in sorted(found)]
    assert [length / lengths[0] for length in lengths] == pytest.approx([1.0, 2.0, 4.0, 0.5], rel=1e-3)
    told = texts(svg)
    assert told.index("upper") < told.index("lower")
    assert {"shown", "claimed"} <= set(told)


def test_a_table_shows_every_cell():
    table = {"name": ["rcv1", "url"], "times $": ["19.4", "10.0"]}
    assert {"name", "times $", "rcv1", "url", "19.4", "10.0"} <= set(texts(drawn(table=table)))


def test_no_two_curves_of_a_panel_share_a_colour_or_a_dash_and_a_ninth_is_refused():
    panel = Panel()
    for k in range(8):
        panel.line([0, 1], [k, k], f"setting {k}", "D-ZOA" if k % 2 else str(k))
    assert len({line.colour for line in panel.lines}) == 8
    assert len({line.dash for line in panel.lines}) == 8
    with pytest.raises(co.InvalidInput, match="would be curve 9 of a panel"):
        panel.line([0, 1], [0, 1], "one more")


def test_a_method_has_its_colour_wherever_it_stands():
    first, second = Panel(), Panel()
    first.line([0, 1], [0, 1], "D-ZOA")
    for name in ("DP-ADMM", "D-ZOA", "DPSGD"):
        second.line([0, 1], [0, 1], name)
    assert first.lines[0].colour == second.lines[1].colour == COLOURS[METHODS["D-ZOA"]]


def test_every_colour_stands_out_on_white_and_for_the_colour_blind():
    """3 to 1 against white; and no two as near as 15 of 255 after what deuteranopia leaves of them."""

    def linear(colour):
        parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)

    blind = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])  # Machado et al. 2009
    for colour in COLOURS:
        assert 1.05 / (0.05 + linear(colour) @ [0.2126, 0.7152, 0.0722]) >= 3.0, colour
    seen = [np.clip(blind @ linear(colour), 0, 1) ** (1 / 2.4) * 255 for colour in COLOURS]
    assert min(np.linalg.norm(a - b) for k, a in enumerate(seen) for b in seen[:k]) > 15.0


def test_every_shade_stands_out_on_white_and_is_its_own():
    for colour in COLOURS:
        shades = [shade(colour, turn) for turn in range(len(SHADES))]
        assert shades[0] == colour
        assert len(set(shades)) == len(SHADES)
        assert all(contrast([int(one[k : k + 2], 16) for k in (1, 3, 5)]) >= 3.0 for one in shades)


def test_words_are_as_dark_as_words_must_be_whatever_the_shade_of_their_curve():
    """4.5 to 1 against white, which WCAG 2 asks of text; what is dark enough stays as it is."""
    for colour in COLOURS:
        for turn in range(len(SHADES)):
            word = ink(shade(colour, turn))
            parts = [int(word[k : k + 2], 16) for k in (1, 3, 5)]
            assert contrast(parts) >= 4.5
    assert contrast([255, 255, 255]) == pytest.approx(1.0)
    assert contrast([0, 0, 0]) == pytest.approx(21.0)
    assert ink("#1A1A1A") == "#1A1A1A"


def test_names_are_pushed_apart_and_keep_their_order():
    placed = apart([0.5, 0.5, 0.52, 0.0, 1.0], [0.1] * 5)
    order = sorted(range(5), key=lambda k: placed[k])
    assert [k for k in order if k in (2, 3, 4)] == [3, 2, 4]
    assert all(placed[b] - placed[a] >= 0.1 - 1e-12 for a, b in pairwise(order))
    assert min(placed) >= 0.05 - 1e-12
    assert max(placed) <= 0.95 + 1e-12


def test_a_plot_that_is_kept_as_values_is_drawn_alike():
    panel = Panel("one", x="a", log="y")
    panel.line([1, 2, 3], [1.0, None, 0.25], "c", steps=True)
    panel.level(0.5, "bar")
    bars = Panel(bars={"d": [1.0, 2.0]}, names=["e", "f"])
    plot = Plot("t", [panel, bars], columns=2)
    again = from_values(json.loads(json.dumps(values(plot))))
    assert to_svg(plot, "foot") == to_svg(again, "foot")


@pytest.mark.slow
def test_the_same_values_give_the_same_file_in_any_process():
    """Without a date, a version or a random id; small enough to be kept."""
    script = (
        "from papers.plot import *; p = Panel('one', x='a', y='b', log='y'); p.line([1, 2], [1, 0.1], 'c', marks=True); "
        "print(to_svg(Plot('t', [p], table={'h': ['x']}), 'foot'), end='')"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) < 20_000
    assert not re.search(rb"\d{4}-\d\d-\d\d|atplotlib v", runs[0])


def test_without_matplotlib_a_run_is_refused_before_its_work_and_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("papers.plot.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["run", "lou-2", "--results", str(tmp_path / "out")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Try: pip install -e '.[papers]'" in done.stderr
    assert not (tmp_path / "out").exists()
