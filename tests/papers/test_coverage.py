"""The table of all algorithms, theorems, figures and tables: nothing is left out, and every name in it is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import colonnade as co
from papers import record
from papers.attacks import TARGETS
from papers.coverage import ITEMS, unnamed
from papers.registry import discover

ROOT = Path(__file__).resolve().parents[2]


def test_every_figure_is_in_the_table_and_every_figure_of_the_table_exists():
    known = discover()
    assert unnamed(known) == set()
    assert {name for item in ITEMS for name in item.figures} <= set(known)


def test_a_figure_of_a_paper_stands_in_a_row_of_that_paper():
    for name, listed in discover().items():
        papers = {item.paper for item in ITEMS if name in item.figures}
        assert listed.figure.paper in papers or listed.figure.paper == "this project", name


def test_no_cell_is_blank_and_no_row_is_twice():
    assert len({(item.paper, item.what) for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.what
        assert item.call
        assert item.figures or (item.holds and item.fails and item.checked), item.what
    text = (ROOT / "papers" / "README.md").read_text()
    rows = [line for line in text.partition(record.START)[2].splitlines() if line.startswith("| ")]
    assert len(rows) > len(ITEMS)
    assert not [line for line in rows if re.search(r"\|\s*\|", line)]


def named(item):
    """What a row says one can call."""
    return re.findall(r"`((?:co|colonnade|papers)\.[\w.]+)`", item.call)


def cited(item):
    return [ROOT / path for path in re.findall(r"tests/[\w/]+\.py", item.checked)]


every_row = pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.paper}, {item.what}")


@every_row
def test_what_a_row_names_can_be_called_and_its_tests_are_there(item):
    for name in named(item):
        parts = name.split(".")
        found = co if parts[0] == "co" else importlib.import_module(parts[0])
        for k, part in enumerate(parts[1:], 2):
            if not hasattr(found, part):
                importlib.import_module(".".join(parts[:k]))
            found = getattr(found, part)
        assert callable(found), name
    for path in cited(item):
        assert path.is_file(), path
    assert set(re.findall(r"published-[\w-]+", item.checked)) <= set(TARGETS)


@every_row
def test_the_tests_of_a_row_speak_of_what_it_names(item):
    """Each of them names something of the row, and all that the row names is in one of them; `co.X` is not the papers' own X."""
    patterns = {
        name: rf"{r'(?<!co[.])' * name.startswith('papers.')}\b{name.rpartition('.')[2]}\b" for name in named(item)
    } | {path: rf"\b{Path(path).stem}\b" for path in re.findall(r"[\w/]+\.py", item.call)}
    said = {path.name: path.read_text() for path in cited(item)}
    for test, text in said.items():
        assert [name for name, pattern in patterns.items() if re.search(pattern, text)], test
    for name, pattern in patterns.items():
        assert not said or any(re.search(pattern, text) for text in said.values()), name
