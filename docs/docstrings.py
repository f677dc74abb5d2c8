"""Checks that `help` explains every public name: what it is, and each parameter that a user may give.

    python docs/docstrings.py            name every place that lacks something; the exit code is 1 if there is one

numpydoc's rules, as far as they fit the house: `ASKED` says which, and why the others are left out. Parameters need no
type, since the annotation has it. What solvers, nodes and engines call is explained once, at its face, from where
`colonnade.notebook` copies it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import colonnade

# Left out: SS05 takes a noun in the plural for a verb, ES01 and SA01 ask for sections that most names do not need, and
# PR04, PR06 and RT02 for types that annotations have.
ASKED = {
    "GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10", "SS01", "SS02", "SS03", "SS04", "SS06",
    "PR01", "PR02", "PR03", "PR05", "PR07", "PR08", "PR09", "PR10", "RT01", "RT03", "RT04", "RT05", "YD01", "EX01",
}  # fmt: skip

# Values that a user holds and never makes by name, and the faces that a user's own loss, penalty or set may have.
HELD = (
    "attacks.lower_bound.Verdict",
    "data.party.Alignment",
    "data.schema.column.Column",
    "model.facts.Coefficients",
    "privacy.block.Unit",
    "problem.inference.Share",
    "problem.inference.Test",
    "problem.loss.Loss",
    "problem.penalties.Penalty",
    "problem.sampling.Sampling",
    "problem.sets.Set",
    "runs.explanation.Explanation",
    "runs.plots.Plots",
    "runs.release_tables.Selection",
    "runs.result.KeptScores",
    "runs.scorecard.Scorecard",
    "runs.simulate.Simulation",
    "runs.simulate.Trial",
)

# Where a first session begins: each shows how it is called.
WITH_EXAMPLE = {
    "Binary", "Categorical", "CentralFrankWolfe", "Date", "DistributedFrankWolfe", "FederatedClassifier",
    "FederatedRegressor", "Federation", "L1Ball", "Lasso", "LeastSquares", "Logistic", "Numeric", "Policy", "Privacy",
    "PrivateGram", "Problem", "Ridge", "Schema", "SparseClassifier", "SparseRegressor", "Topology", "fit", "load",
    "read", "score", "simulate",
}  # fmt: skip


class Ours(Validator):
    """Parameters that begin with an underscore are not for users."""

    def __init__(self, obj_name: Any) -> None:
        super().__init__(obj_name)

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        python_made = inspect.isclass(self.obj) and issubclass(self.obj, Enum)
        given = () if python_made else super().signature_parameters
        return tuple(name for name in given if not name.startswith("_"))


def main() -> int:
    """Print every place that lacks something, then the counts; 1 if there is one."""
    places = [f"{place}: {code} {text}" for place, thing in public() for code, text in lacks(place, thing)]
    given, unnamed = parameters()
    counted = f"{len(places)} places lack something; no docstring names {unnamed} of {given} parameters"
    sys.stdout.write("".join(f"{line}\n" for line in [*places, counted]))
    return 1 if places else 0


def lacks(place: str, thing: Any) -> list[tuple[str, str]]:
    """What numpydoc's rules find here, as far as they are asked."""
    found = validate(get_doc_object(thing, config={"show_class_members": False}), Ours)["errors"]
    return [(code, text) for code, text in found if code in ASKED and _applies(code, place, thing)]


def _applies(code: str, place: str, thing: Any) -> bool:
    if code == "EX01":
        return place in WITH_EXAMPLE
    if code == "RT01":  # the summary of a method says what it gives, and a function begins a session
        return "." not in place
    if code == "PR01" and inspect.isclass(thing):
        return not (issubclass(thing, BaseException) and "__init__" not in vars(thing)) and not _is_face(thing)
    return True


def _is_face(thing: Any) -> bool:
    return bool(getattr(thing, "_is_protocol", False))


@functools.cache
def public() -> tuple[tuple[str, Any], ...]:
    """Every public name, and every public member that is defined in Colonnade, with its place; each once."""
    things = [(name, getattr(colonnade, name)) for name in colonnade.__all__]
    for path in HELD:
        module, _, name = path.rpartition(".")
        things.append((name, getattr(importlib.import_module(f"colonnade.{module}"), name)))
    seen: set[int] = set()
    found = []
    for name, thing in things:
        if inspect.isclass(thing):
            found += [(name, thing), *((f"{name}.{member}", value) for member, value in members(thing, seen))]
        elif callable(thing):
            found.append((name, thing))
    return tuple(found)


def members(kind: type, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that are Colonnade's own and were not seen before."""
    for name in dir(kind):
        home = next((base for base in kind.__mro__ if name in vars(base)), None)
        if name.startswith("_") or home is None or not home.__module__.startswith("colonnade"):
            continue
        value = vars(home)[name]
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        value = getattr(value, "fn", value)  # scikit-learn's, where a method is there for some settings only
        if not (inspect.isfunction(value) or isinstance(value, property | functools.cached_property)):
            continue
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def parameters() -> tuple[int, int]:
    """How many parameters public names have, and how many of them no docstring names."""
    given = unnamed = 0
    for _, thing in public():
        if isinstance(thing, property | functools.cached_property) or _is_face(thing):
            continue
        doc = Ours(get_doc_object(thing, config={"show_class_members": False}))
        names = doc.signature_parameters
        given += len(names)
        unnamed += len(set(names) - set(doc.doc_all_parameters))
    return given, unnamed


if __name__ == "__main__":
    sys.exit(main())
