"""The scorer that is exported needs Python alone, and reads a cell as a schema does."""

from __future__ import annotations

import ast
import datetime as dt
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
