"""Cells of columns without figures: each is read by itself, whatever the others hold, and none is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as co
from colonnade.data.federation import Federation
from colonnade.data.schema.sought import SoughtCells, days_of, numbers_of, texts_of

OPEN = co.Schema((co.Numeric("x"), co.Categorical("c"), co.Unknown("u"), co.Date("d", format="%d.%m.%Y")))


def cells(**columns: Any) -> SoughtCells:
    return SoughtCells(pl.DataFrame(columns), OPEN)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("3", 3.0),
        (" 3.5\t", 3.5),
        ("3,5", 3.5),
        ("-1234,5678", -1234.5678),
        ("1,234", None),  # a thousand, or one and a bit: nobody knows
        ("1e300", 1e300),
        ("inf", np.inf),
        ("NaN", None),
        ("", None),
        (None, None),
        ("word", None),
        ("2024-01-01", None),
    ],
)
def test_a_text_is_a_number_or_missing(cell: str | None, number: float | None) -> None:
    found = numbers_of(pl.Series("x", ["7", cell], dtype=pl.String))
    assert found[0] == 7.0
    assert np.isnan(found[1]) if number is None else found[1] == number


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pl.Series([1, None, 3]), [1.0, None, 3.0]),
        (pl.Series([1.5, float("nan"), None]), [1.5, None, None]),
        (pl.Series([True, False, None]), [1.0, 0.0, None]),
        (pl.Series([dt.date(2024, 1, 1), None, None]), [None, None, None]),
        (pl.Series([[1], [2], None]), [None, None, None]),
        (pl.Series([None, None, None]), [None, None, None]),
    ],
)
def test_cells_of_every_type_are_numbers_or_missing(values: pl.Series, numbers: list[float | None]) -> None:
    found = [None if np.isnan(x) else x for x in numbers_of(values)]
    assert found == numbers


def test_days_are_counted_from_1970_and_odd_ones_are_missing() -> None:
    texts = pl.Series("d", ["01.01.1970", "29.02.2024", "30.02.2024", "2024-02-29", None, ""], dtype=pl.String)
    found = days_of(texts, "%d.%m.%Y")
    assert found[:2].tolist() == [0.0, 19_782.0]
    assert np.isnan(found[2:]).all()
    moments = pl.Series([dt.datetime(1970, 1, 2, 23, 59), None])
    assert days_of(moments, "%Y")[0] == 1.0


def test_levels_are_texts_and_whole_floats_lose_their_point() -> None:
    assert texts_of(pl.Series([1.0, 2.5, None])).to_list() == ["1", "2.5", None]
    assert texts_of(pl.Series(["1", "1.0", ""])).to_list() == ["1", "1.0", None]
    assert texts_of(pl.Series([[1]])).to_list() == [None]


def test_a_cell_counts_as_one_kind() -> None:
    found = cells(u=["7", "2024-02-29", "word", "", None, "1e5"]).kind_counts("u")
    assert found.tolist() == [2, 1, 1]
    moments = SoughtCells(pl.DataFrame({"u": [dt.date(2024, 1, 1)] * 3}), OPEN)
    assert moments.kind_counts("u").tolist() == [0, 3, 0]


def test_levels_are_counted_by_name() -> None:
    names, counts, missing = cells(c=["b", "a", None, "b", ""]).level_counts("c")
    assert (names, counts.tolist(), missing) == (("a", "b"), [1, 2], 2)


@pytest.mark.parametrize("odd", [None, "", "word", "inf", "1,5", "2024-01-01"])
@pytest.mark.parametrize("ending", ["csv", "frame", "pandas"])
def test_one_odd_cell_changes_how_no_other_is_read(odd: str | None, ending: str, tmp_path: Path) -> None:
    """A table of text as a file, a frame of text, and objects of pandas: the others' cells stay what they are."""
    plain = [str(k % 50) for k in range(400)]
    read = []
    for first in ("7", odd):
        frame = pl.DataFrame(
            {"id": range(400), "u": pl.Series([first, *plain[1:]], dtype=pl.String), "y": [0.0, 1.0] * 200}
        )
        table: Any = frame
        if ending == "csv":
            table = tmp_path / "a.csv"
            frame.write_csv(table)
        elif ending == "pandas":
            table = pd.DataFrame({"id": range(400), "u": frame["u"].to_list(), "y": frame["y"].to_list()})
        fed = Federation.from_frames(
            {"a": table}, on="id", label=("a", "y"), schemas={"a": co.Schema((co.Unknown("u"),))}
        )
        held = fed.parties["a"].block.cells
        read.append((held.kind_counts("u"), held.numbers("u", "numeric")[1:], held.level_counts("u")))
    assert np.abs(read[0][0] - read[1][0]).sum() <= 2
    assert read[0][1].tolist() == read[1][1].tolist()
    levels = [dict(zip(names, counts.tolist(), strict=True)) for _, _, (names, counts, _) in read]
    assert sum(abs(levels[0].get(k, 0) - levels[1].get(k, 0)) for k in levels[0].keys() | levels[1].keys()) <= 2


def test_a_schema_with_figures_encodes_what_was_kept_and_refuses_no_cell() -> None:
    held = cells(
        x=["1", "9", "word", None], c=["a", "b", None, "c"], u=["2024-01-01", "x", "2024-03-01", None], d=["x"] * 4
    )
    full = co.Schema(
        (
            co.Numeric("x", 0, 8, missing=4.0),
            co.Categorical("c", ("a", "b"), missing="other"),
            co.Date("u", "2024-01-01", "2024-12-31", missing="indicator"),
        )
    )
    matrix = held.encoded(full).matrix
    rows = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    assert rows[:, 0].tolist() == [-0.75, 1.0, 0.0, 0.0]
    assert rows[:, 1:3].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert rows[:, 4].tolist() == [0, 1, 0, 1]
    assert repr(held) == "SoughtCells(4 rows x 4 columns)"


def test_a_digest_tells_tables_and_declarations_apart() -> None:
    one = cells(x=["1", None])
    assert one.digest() == cells(x=["1", None]).digest()
    others = [cells(x=["1", ""]), cells(x=["1", "2"]), cells(x=[1, None]), cells(y=["1", None])]
    others.append(SoughtCells(one.frame, co.Schema((co.Numeric("x"),))))
    assert len({one.digest(), *(other.digest() for other in others)}) == 6
