"""What a configuration file declares of columns and labels: whose figures they are, and which are to be confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as co
from colonnade.data.text_file import from_table
from colonnade.fields import Wrong
from colonnade.runs.declared import Label, Mark, read_schemas, refuse_marks

HERE = Path()
X = {"type": "numeric", "name": "x", "low": 0.0, "high": 9.0}
Z = {"type": "numeric", "name": "z", "low": 0.0, "high": 1.0}


def test_a_schema_is_as_public_as_the_least_public_of_its_figures() -> None:
    parties = {
        "both": {"column": [{**X, "source": "public"}, {**Z, "source": "data"}]},
        "public": {"column": [X, {**Z, "source": "public"}]},
        "declared": {"column": [X, {**Z, "source": "declared"}]},
        "nothing": {},
    }
    schemas, marks = read_schemas(HERE, parties, Label("declared", "y"), public=False)
    assert {name: one.source for name, one in schemas.items()} == {
        "both": "data",
        "public": "public",
        "declared": "declared",
    }
    assert marks == [Mark("data.parties.both.column.source", "of 'z' is \"data\"", 1)]
    schemas, marks = read_schemas(HERE, parties, Label("declared", "y"), public=True)
    assert [one.source for one in schemas.values()] == ["public", "public", "declared"]
    assert marks == []


@pytest.mark.parametrize(("source", "marked"), [("data", True), ("public", False), ("declared", False)])
def test_the_range_of_the_label_belongs_to_its_holders_schema(source: str, marked: bool) -> None:
    label = Label.read({"party": "a", "column": "y", "low": 2, "high": 6, "source": source})
    schemas, marks = read_schemas(HERE, {"a": {"column": [X]}, "b": {"column": [Z]}}, label, public=False)
    assert schemas["a"].label == co.Numeric("y", 2, 6)
    assert (schemas["a"].source, schemas["b"].source) == (source, "declared")
    assert marks == [Mark("data.label.source", 'is "data"')] * marked
    with pytest.raises(Wrong, match="party 'a' has no schema; declare its columns"):
        read_schemas(HERE, {"a": {}, "b": {"column": [Z]}}, label, public=False)


def test_a_schema_in_a_file_that_was_read_off_the_rows_is_to_be_confirmed(tmp_path: Path) -> None:
    for source in ("declared", "data"):
        co.Schema((co.Numeric("x", 0, 9),), source=source).to_toml(tmp_path / f"{source}.toml")
    parties = {name: {"schema": f"{name}.toml"} for name in ("declared", "data")}
    schemas, marks = read_schemas(tmp_path, parties, Label("data", "y"), public=False)
    assert (schemas["declared"].source, schemas["data"].source) == ("declared", "data")
    assert [(one.place, one.table) for one in marks] == [("data.parties.data.schema", 0)]
    with pytest.raises(Wrong, match="keep one of them"):
        read_schemas(tmp_path, {"declared": {"schema": "declared.toml", "column": [X]}}, Label("declared", "y"), False)


def test_a_column_that_is_wrong_is_told_by_its_number() -> None:
    with pytest.raises(Wrong, match=r"data\.parties\.a\.column number 2: ") as caught:
        read_schemas(HERE, {"a": {"column": [X, {**Z, "high": -1.0}, X]}}, Label("a", "y"), public=False)
    assert caught.value.table == 1


@pytest.mark.parametrize(("count", "words"), [(1, "is it. These"), (2, "is it, and 1 more"), (3, "is it, and 2 more")])
def test_the_first_that_is_to_be_confirmed_is_named_and_the_others_are_counted(count: int, words: str) -> None:
    refuse_marks([])
    with pytest.raises(Wrong, match="Nothing was spent") as caught:
        refuse_marks([Mark("a.column", "is it", 3), Mark("b.column", "too"), Mark("c.column", "too")][:count])
    assert words in str(caught.value)
    assert (caught.value.place, caught.value.table) == ("a.column", 3)


def test_a_mistake_is_looked_for_from_its_table_on() -> None:
    """By its number from 0 on; lines stay where they are."""
    head, first, second = "[data]\n", '[[data.parties."a".column]]\nx = 1\n', "[[ data.parties.a.column ]]\nx = 2\n"
    text = head + first + second
    found = from_table(text, "data.parties.a.column.x", 1)
    assert found.lstrip() == second
    assert found.count("\n") == text.count("\n")
    assert from_table(text, "data.parties.a.column.x", 0) == "      \n" + first + second
    assert from_table(text, "data.parties.a.column.x", 2) == text


LABELS = [
    ({"party": "a"}, "data.label needs column, a text"),
    ({"party": "a", "column": "y", "positive": 1.5}, "data.label.positive must be a class"),
    ({"party": "a", "column": "y", "negative": "no"}, "needs positive"),
    ({"party": "a", "column": "y", "positive": "yes", "negative": "yes"}, "is the positive class"),
    ({"party": "a", "column": "y", "positive": "yes", "low": 0, "high": 1}, "leave one out"),
    ({"party": "a", "column": "y", "low": 0}, "data.label is not right"),
    ({"party": "a", "column": "y", "source": "hearsay"}, "data.label.source must be one of 'declared', 'data'"),
    ({"party": "a", "column": "y", "colour": 1}, "data.label.colour is unknown"),
    (["a"], "must be a pair"),
    (["a", 3], "must be a pair"),
]


@pytest.mark.parametrize(("raw", "words"), LABELS, ids=[words for _, words in LABELS])
def test_a_label_that_cannot_be_is_refused_at_its_place(raw: object, words: str) -> None:
    with pytest.raises(Wrong) as caught:
        Label.read(raw)
    assert words in str(caught.value)


def test_a_label_is_read_as_it_stands() -> None:
    assert Label.read(["a", "y"]) == Label("a", "y")
    found = Label.read({"party": "a", "column": "y", "positive": "yes", "negative": 0, "source": "public"})
    assert found == Label("a", "y", "yes", "0", None, "public")
