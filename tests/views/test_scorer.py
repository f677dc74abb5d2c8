"""The scorer that is exported needs Python alone, and reads a cell as a schema does."""

from __future__ import annotations

import ast
import datetime as dt
import math
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.views import scorer

SOURCE = Path(scorer.__file__).read_text(encoding="utf-8")


def test_the_scorer_imports_the_standard_library_alone():
    named = [
        name
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    ]
    assert {name.partition(".")[0] for name in named} <= set(sys.stdlib_module_names)


def level(levels: tuple[str, ...], **more: object) -> dict[str, object]:
    """A column of levels as a card has it, the place after the last for any other."""
    plain = {"key": "x", "kind": "level", "levels": {name: k for k, name in enumerate(levels)}}
    return plain | {"floats": {}, "other": len(levels), "gap": None} | more


@pytest.mark.parametrize(
    "cells", [["1", "2", "x"], [1, 2, 7], [1.0, 2.0, 2.5], [True, False, True], [dt.date(2020, 1, 1)] * 3]
)
def test_a_cell_falls_on_the_level_that_the_schema_finds(cells):
    """Texts, whole numbers, numbers with a point, booleans and days: each compared as the schema compares it."""
    levels = ("1", "2", "2.5", "true", "2020-01-01")
    matrix = co.Schema((co.Categorical("x", levels),)).encode(pl.DataFrame({"x": cells})).matrix
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    wanted = [int(row.argmax()) if row.any() else len(levels) for row in dense]
    assert [scorer.places({"x": cell}, {"columns": [level(levels)]})[0] for cell in cells] == wanted


def test_a_level_written_with_a_point_is_the_number_it_means():
    column = level(("1.0", "2"), floats={"1": 0})
    assert scorer.places({"x": 1.0}, {"columns": [column]}) == [0]
    assert scorer.places({"x": "1"}, {"columns": [column]}) == [2]  # as a text it is another level


@pytest.mark.parametrize("value", [29.999, 30, "30.0", -5, 1e9, np.inf])
def test_a_value_at_an_edge_falls_above_it(value):
    column = {"key": "x", "kind": "number", "edges": [30.0], "gap": None}
    assert scorer.places({"x": value}, {"columns": [column]}) == [int(float(value) >= 30.0)]


def test_gaps_have_their_line_their_stand_in_or_are_refused():
    number = {"key": "x", "kind": "number", "edges": [30.0]}
    for gap in (None, float("nan")):
        assert scorer.places({"x": gap}, {"columns": [number | {"gap": 2}]}) == [2]
        assert scorer.places({"x": gap}, {"columns": [number | {"gap": [44.0]}]}) == [1]
        with pytest.raises(ValueError, match="'x' is missing"):
            scorer.places({"x": gap}, {"columns": [number | {"gap": None}]})
    day = {"key": "x", "kind": "month", "format": "%d.%m.%Y", "levels": {}, "floats": {}, "gap": ["2020-07-31"]}
    assert scorer.places({"x": None}, {"columns": [day]}) == [6]
    for value in ("24.12.2019", dt.date(2019, 12, 24), dt.datetime(2019, 12, 24, 23)):
        assert scorer.places({"x": value}, {"columns": [day]}) == [11]
    assert scorer.places({"x": "24.12.2019"}, {"columns": [day | {"kind": "weekday"}]}) == [1]


# ------------------------------------------------------------------------------------------------ by hand

COLUMNS = [
    {"key": "age", "kind": "number", "edges": [30.0], "gap": 2, "points": [5, 40, 0], "best": 40},
    {"key": "owner", "kind": "flag", "gap": None, "points": [0, 20], "best": 20},
    {"key": "loans", "kind": "number", "edges": [1.0], "gap": None, "points": [30, 10], "best": 30},
]
CARD = {
    "base": 500,
    "scale": 600.0,
    "odds": 50.0,
    "double": 20.0,
    "good": -1,
    "link": [2.0, 1.0, 0.25, 0.4, 0.1, 0.05, 0.9],
    "columns": [{"title": column["key"], "names": ["a", "b", "gap"], **column} for column in COLUMNS],
}


def test_points_and_reasons_are_those_of_the_lines_a_row_falls_on():
    row = {"age": 25, "owner": 0, "loans": 3}
    assert scorer.points(row, CARD) == 500 + 5 + 0 + 10
    lost = [("age", "a", 35), ("owner", "a", 20), ("loans", "b", 20)]  # equal ones in the card's order
    assert scorer.reasons(row, card=CARD) == lost
    for most in (0, 1, 2, 3):
        assert scorer.reasons(row, most, CARD) == lost[:most]
    assert scorer.reasons({"age": 35, "owner": True, "loans": 0}, card=CARD) == []
    for half in (0.5, "0.25", 2, "yes"):
        with pytest.raises(ValueError, match="'owner' holds a value that is"):
            scorer.points(row | {"owner": half}, CARD)


@pytest.mark.parametrize(("total", "log_odds"), [(600.0, math.log(50.0)), (660.0, math.log(400.0)), (400.0, None)])
def test_a_probability_is_the_links_at_the_score_that_the_points_mean(total, log_odds):
    """Score s with 2s + 1 the log-odds of +1: a quarter of the sigmoid's, the rest .4 + s/10 between .05 and .9."""
    log_odds = math.log(50.0 / 2**10) if log_odds is None else log_odds
    for good in (-1, 1):
        line = log_odds * good
        straight = min(max(0.4 + 0.1 * (line - 1.0) / 2.0, 0.05), 0.9)
        chance = 0.25 / (1.0 + math.exp(-line)) + 0.75 * straight
        assert scorer.probability(total, CARD | {"good": good}) == pytest.approx(chance if good < 0 else 1.0 - chance)


def test_an_empty_cell_of_a_file_is_a_gap_and_no_reason_is_a_formula(tmp_path, monkeypatch, capsys):
    titles = ("@age", "owner", "loans")
    columns = [column | {"title": title} for column, title in zip(CARD["columns"], titles, strict=True)]
    for name, value in (CARD | {"columns": columns}).items():
        monkeypatch.setitem(scorer.CARD, name, value)
    (tmp_path / "rows.csv").write_text("age,owner,loans\n,1,0\n30,0,0\n40,1,0\n")
    assert scorer.main([str(tmp_path / "rows.csv")]) == 0
    head, *rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert head == ["age", "owner", "loans", "points", "probability_bad", "reasons"]
    assert [(row[3], row[5]) for row in rows] == [("550", "'@age: gap (-40)"), ("570", "owner: a (-20)"), ("590", "")]
