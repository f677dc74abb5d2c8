"""Drawings: what the values say is what the SVG shows, word for word, and the same values give the same file."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from papers.commands import app
from papers.plot import Panel, Plot, to_svg

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
    panel.line([1, 10, 100, 1000], [1.0, 0.1, 0.01, 0.001])
    (line,) = curve(drawn(panel))
    (x0, y0), (x1, y1), _, (x3, y3) = line
    assert x0 < x1 < x3
    assert y0 < y1 < y3  # downwards is larger in SVG
    assert (x3 - x0, y3 - y0) == pytest.approx((3 * (x1 - x0), 3 * (y1 - y0)), abs=0.4)


def test_ticks_stand_at_their_values():
    panel = Panel()
    panel.line([0, 1], [2.0, 4.0])
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
    panel.line([0, 1], [1.0, 1e-8])
    told = [re.sub(r"\s", "", text) for text in texts(drawn(panel))]
    assert "1" in told
    assert any(text in ("10−8", "10-8") for text in told), told


@pytest.mark.parametrize("gap", [0.0, None, math.nan])
def test_what_cannot_be_shown_breaks_the_line_and_nothing_else(gap):
    panel = Panel(log="y")
    panel.line([0, 1, 2, 3, 4], [1.0, 0.1, gap, 0.1, 1.0])
    assert [len(piece) for piece in curve(drawn(panel))] == [2, 2]


def test_panels_levels_and_names_are_drawn_as_they_are_written():
    left, right = Panel("left <1>", x="rows $n$", y="loss"), Panel("right & more")
    left.line([1, 2], [1, 2], "a <1> & $2")
    left.level(1.5, "least")
    right.line([1, 2], [2, 3], "a <1> & $2")
    right.line([1, 2], [3, 4], "b", joined=False)
    told = texts(drawn(left, right, columns=2))
    assert {"a title", "left <1>", "right & more", "rows $n$", "loss", "least", "b", "a foot"} <= set(told)
    assert told.count("a <1> & $2") == 1  # once for both panels


def test_panels_with_the_same_vertical_axis_show_a_value_at_the_same_height():
    left, right = Panel(), Panel()
    left.line([1, 2], [1, 2])
    right.line([1, 2], [2, 30])
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


def test_more_lines_than_colours_differ_by_their_dashes():
    panel = Panel()
    for k in range(14):
        panel.line([0, 1], [k, k], str(k))
    assert len({(line.colour, line.dash) for line in panel.lines}) == 14


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
