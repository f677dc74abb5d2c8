"""Claims about fields of files and questions: the first that is wrong is named with what it must be, an example and what was
found; names that nobody knows are refused; nothing is turned into another kind.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from colonnade.data.text_file import at_line
from colonnade.errors import InvalidInput
from colonnade.fields import (
    Count,
    Finite,
    Length,
    Name,
    Number,
    Positive,
    Table,
    Text,
    Wrong,
    check,
    check_names,
    check_version,
    inside,
    must,
    read,
    shown,
    wanted,
    without_password,
)
from colonnade.network.party_file import PartyFile
from colonnade.privacy.events import Policy


class Inner(Table):
    source: Annotated[str, must("a file", "stays.csv", min_length=1)]
    port: Annotated[int, must("the number of a port", 9464, ge=0, le=65_535)] | None = None
    way: Literal["a", "b"] = "a"
    pair: Annotated[tuple[str, int], must("a pair", ["patient", 5])] | None = None
    names: list[Text] | None = None
    flag: bool = False


class Outer(Table):
    inner: Inner
    other: Inner | None = None
    many: list[Inner] | None = None
    named: dict[str, Inner] | None = None

    def __post_init__(self) -> None:
        if self.other == self.inner:
            raise InvalidInput("inner and other say the same")


@dataclass(frozen=True)
class Value:
    name: Name
    parts: tuple[Value, ...] = ()
    weight: Annotated[float, must("a weight", 0.5, ge=0.0)] = 0.0
    free: Any = None

    def __post_init__(self) -> None:
        check(self)


GOOD = {"source": "s"}
WRONG = [
    ({}, "it needs inner, a table"),
    ([], "it must be a table; got []"),
    ({"inner": 3}, "inner must be a table; got 3"),
    ({"inner": {}}, 'inner needs source, a file, as in source = "stays.csv"'),
    ({"inner": {"source": ""}}, "inner.source must be a file, as in source = \"stays.csv\"; got ''"),
    ({"inner": {**GOOD, "port": "9"}}, "inner.port must be the number of a port, as in port = 9464; got '9'"),
    ({"inner": {**GOOD, "port": 65_536}}, "inner.port must be the number of a port, as in port = 9464; got 65536"),
    ({"inner": {**GOOD, "port": 1.0}}, "inner.port must be the number of a port, as in port = 9464; got 1.0"),
    ({"inner": {**GOOD, "port": True}}, "inner.port must be the number of a port, as in port = 9464; got True"),
    ({"inner": {**GOOD, "prt": 1}}, "inner.prt is unknown; the nearest name is 'port'; there are source, port, way"),
    ({"inner": {**GOOD, "x\ny": 1}}, 'inner."x\\ny" is unknown; there are source'),
    ({"inner": {**GOOD, "way": "c"}}, "inner.way must be one of 'a', 'b'; got 'c'"),
    (
        {"inner": {**GOOD, "pair": ["a", 1.5]}},
        'inner.pair must be a pair, as in pair = ["patient", 5]; got a list of 2',
    ),
    ({"inner": {**GOOD, "names": ["a", 1]}}, "inner.names must be a list, each a text; got ['a', 1]"),
    ({"inner": {**GOOD, "flag": 1}}, "inner.flag must be true or false; got 1"),
    ({"inner": GOOD, "other": GOOD}, "inner and other say the same"),
    ({"inner": GOOD, "many": [{"source": "t"}, {}]}, "many[1] needs source, a file"),
    ({"inner": GOOD, "named": {"a b": {**GOOD, "port": -1}}}, 'named."a b".port must be the number of a port'),
]


@pytest.mark.parametrize(("raw", "says"), WRONG, ids=[says[:40] for _, says in WRONG])
def test_the_first_field_that_is_wrong_is_named_in_one_line(raw, says):
    with pytest.raises(Wrong) as caught:
        read(raw, Outer)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_what_is_right_is_read():
    raw = {"inner": {**GOOD, "pair": ["a", 2]}, "many": [GOOD], "named": {"a": GOOD}}
    made = read(raw, Outer)
    assert made == Outer(Inner("s", pair=("a", 2)), many=[Inner("s")], named={"a": Inner("s")})


NAN, INF = float("nan"), float("inf")
NUMBERS = {
    "count": (Count, [0, 1, 2**53], [-1, 2**53 + 1, 1.0, True, "1", None, NAN, 10**400]),
    "finite": (Finite, [0, -1.5, 1e308, -(2**53)], [NAN, INF, -INF, 2**60, 10**400, True, "1", None]),
    "number": (Number, [0, NAN, INF, -INF], [2**60, True, "1", None]),
    "length": (Length, [0, 0.0, 3, 1e308], [-1e-9, -1, NAN, INF, True]),
    "positive": (Positive, [1, 1e-9], [0, 0.0, -1, NAN, INF, True]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_of_its_kind_and_within_its_bounds(name):
    kind, good, bad = NUMBERS[name]
    for value in good:
        found = read(value, kind, name)
        assert type(found) is type(value)
        assert found == value or value != value
    for value in bad:
        with pytest.raises(Wrong, match=f"^{name} must be "):
            read(value, kind, name)


def test_figures_of_a_list_are_counted_and_not_shown():
    """Those of a model are nobody's business."""
    with pytest.raises(Wrong, match=r"got a list of 2$"):
        read([0.123, "x"], list[Finite], "values")
    with pytest.raises(Wrong, match=r"got a table of 1$"):
        read({"a": 0.123}, list[Finite], "values")


def test_a_frozen_value_is_checked_when_it_is_made_and_when_it_is_read():
    assert read({"name": "a", "parts": [{"name": "b"}], "weight": 1}, Value) == Value("a", (Value("b"),), 1.0)
    for name, weight in (("a b", 0.0), ("a", -1.0), (3, 0.0), ("a", NAN)):
        with pytest.raises(Wrong):
            Value(name, (), weight)
    with pytest.raises(Wrong, match=r"weigth is unknown; the nearest name is 'weight'"):
        read({"name": "a", "weigth": 1}, Value)
    with pytest.raises(Wrong, match=r"parts\[0\]\.nam is unknown"):
        read({"name": "a", "parts": [{"name": "b", "nam": 1}]}, Value)
    with pytest.raises(Wrong, match="it needs name, a name: letters, digits and dashes"):
        read({}, Value)


@pytest.mark.parametrize("name", ["", "-a", "a" * 65, "a\n", "a.b", "ä"])
def test_a_name_of_a_run_is_one_of_a_record_and_of_a_file(name):
    with pytest.raises(Wrong):
        read(name, Name)
    assert read("a" * 64, Name)


@pytest.mark.parametrize("version", [None, 2, 0, True, 1.0, "1"])
def test_another_version_is_told_before_anything_else(version):
    check_version({"version": 1, "more": 3}, 1)
    with pytest.raises(Wrong, match=r"^version is .*; this Colonnade reads version = 1\. Write that, or install"):
        check_version({"version": version, "more": 3}, 1)


def test_a_mistake_inside_a_table_is_told_with_the_place_of_the_table():
    with pytest.raises(Wrong, match=r"^parties\.lab\.rows is unknown") as caught, inside("parties.lab"):
        check_names({"rows": 1}, ["name"])
    assert caught.value.place == "parties.lab.rows"
    with pytest.raises(Wrong, match=r"^parties\.lab is not right: so it is") as caught, inside("parties.lab"):
        raise InvalidInput("so it is")
    assert caught.value.place == "parties.lab"


def test_words_of_a_field_are_those_that_it_was_given():
    assert wanted(Finite | None) == "a finite number"
    assert wanted(str) == ""


def test_lists_in_lists_without_end_are_told_and_do_not_fill_the_line():
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(Wrong) as caught:
        read({"inner": {"source": deep}}, Outer)
    assert len(str(caught.value)) < 400
    with pytest.raises(Wrong) as caught:
        read(json.loads('{"inner": {"source": "' + "x" * 99_999 + '", "port": "' + "y" * 99_999 + '"}}'), Outer)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("postgresql://u:hush@h/db", "postgresql://u@h/db"),
        ('source = "postgresql://u:hush@h:1/db?sslmode=require"', 'source = "postgresql://u@h:1/db?sslmode=require"'),
        ("postgresql://h/db?user=u&password=hush&x=1", "postgresql://h/db?user=u&password=&x=1"),
        ("a ratio of 3:4 at 10:30, key@host", "a ratio of 3:4 at 10:30, key@host"),
    ],
)
def test_an_address_is_shown_without_its_password(text, says):
    assert without_password(text) == says
    assert "hush" not in shown(text) + shown([text, 1])


def test_a_number_that_python_does_not_write_out_is_told_in_words():
    assert shown(int("f" * 5000, 16)) == "a number of thousands of digits"
    with pytest.raises(Wrong, match="version is a number of thousands of digits"):
        check_version({"version": int("f" * 5000, 16)}, 1)
    for huge in (10**400, int("f" * 5000, 16)):
        with pytest.raises(InvalidInput, match="a budget needs a finite epsilon"):
            Policy(epsilon=huge, delta=1e-6)
        with pytest.raises(InvalidInput, match="a budget needs 0 < delta"):
            Policy(epsilon=1.0, delta=huge)


def test_the_line_of_a_file_that_an_error_quotes_shows_no_password():
    error = at_line("study.toml", 'source = "postgresql://u:hush@localhost:1/db"', "source", "cannot be read")
    assert 'study.toml, line 1 (source = "postgresql://u@localhost:1/db"): source cannot be read' in str(error)


def test_no_error_of_a_partys_file_shows_the_password_of_its_database(tmp_path):
    secret = "postgresql://u:hush@localhost:1/db"
    lines = (
        f'[data]\nsorce = "{secret}"',
        f'data = {{ source = "{secret}", labls = "x" }}',
        f'[data]\nsource = ["{secret}"]',
        f'data = "{secret}"',
    )
    for line in lines:
        (path := tmp_path / "party.toml").write_text(f'federation = "federation.toml"\nname = "lab"\n{line}\n')
        with pytest.raises(InvalidInput) as refused:
            PartyFile.load(path)
        assert "hush" not in str(refused.value)
