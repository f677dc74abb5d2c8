"""`help` explains every public name, and its examples print what they show."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from colonnade.notebook import explain

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def docstrings() -> ModuleType:
    """docs/docstrings.py, which `make check` calls."""
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs/docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.chance(0, "ids of runs alone are drawn: no figure of an example depends on them")
def test_the_examples_of_public_names_print_what_they_show(docstrings: ModuleType) -> None:
    shown, told, tried = doctest.DocTestRunner(verbose=False), list[str](), set[str]()
    for place, thing in docstrings.public():
        text = inspect.getdoc(thing) or ""
        if ">>>" in text:
            tried.add(place)
            shown.run(doctest.DocTestParser().get_doctest(text, {}, place, None, 0), out=told.append)
    assert told == []
    assert tried >= docstrings.WITH_EXAMPLE


@pytest.mark.slow
def test_every_public_name_is_explained(docstrings: ModuleType) -> None:
    assert [(place, lack) for place, thing in docstrings.public() for lack in docstrings.lacks(place, thing)] == []


@dataclass
class Shape:
    """A shape of some size.

    Parameters
    ----------
    size
        How large it is.
    """

    size: int
    colour: str = "red"

    def scaled(self, by: float) -> float:
        """Its size, `by` times as large."""
        return self.size * by

    def named(self, name: str) -> str:
        return name * self.size


def test_a_parameter_that_no_docstring_names_is_found(docstrings: ModuleType) -> None:
    assert docstrings.lacks("Shape", Shape) == [("PR01", "Parameters {'colour'} not documented")]
    assert docstrings.lacks("Shape.scaled", Shape.scaled) == [("PR01", "Parameters {'by'} not documented")]
    assert [code for code, _ in docstrings.lacks("Shape.named", Shape.named)] == ["GL08"]


def test_members_are_walked_once_and_private_ones_are_not(docstrings: ModuleType) -> None:
    places = [place for place, _ in docstrings.public()]
    assert len(set(places)) == len(places)
    assert {"fit", "Fit.predict", "Federation.split", "L1Ball.project", "Schema.width"} <= set(places)
    assert not any("._" in place for place in places)


class Face:
    """What a shape can say."""

    def scaled(self, by: float) -> float:
        """The size of a larger one.

        Parameters
        ----------
        by
            How many times as large.
        """
        raise NotImplementedError

    def named(self, name: str) -> str:
        """Its name.

        Parameters
        ----------
        name
            What to call it.
        """
        raise NotImplementedError


def test_what_a_face_says_of_parameters_is_shown_at_every_value() -> None:
    class Square(Shape):
        def scaled(self, by: float) -> float:
            """Its side, `by` times as long."""
            return self.size * by

        def named(self, name: str) -> str:
            return name

    explain(Face, Square)
    explain(Face, Square)  # said once all the same
    text = inspect.getdoc(Square.scaled) or ""
    assert text.startswith("Its side, `by` times as long.\n\nParameters\n")
    assert text.count("How many times as large.") == 1
    assert inspect.getdoc(Square.named) == inspect.getdoc(Face.named)
