"""Claims about what every method says of itself, and where a public one is known without being listed again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import colonnade as co
from colonnade.methods.method import GraphMethod, Method, MethodBase
from colonnade.methods.node_setup import from_plain, known_methods, to_plain
from colonnade.runs.config import accepted
from contract import EVERY_METHOD

PUBLIC = {name: getattr(co, name) for name in co.__all__ if hasattr(getattr(co, name), "price")}
SOURCE = Path(co.__file__).parent


def test_every_public_method_is_in_the_contract_table():
    assert set(PUBLIC.values()) == {type(case.method) for case in EVERY_METHOD.values()}


def test_exporting_a_method_is_enough_for_job_files_and_parties_elsewhere():
    assert known_methods() == PUBLIC
    assert set(accepted()["method"]) == set(PUBLIC.values())
    for case in EVERY_METHOD.values():
        assert from_plain(to_plain(case.method)) == case.method


@pytest.mark.parametrize("kind", PUBLIC.values(), ids=PUBLIC)
def test_a_public_method_is_a_frozen_value_of_one_of_two_kinds(kind):
    assert issubclass(kind, Method) != issubclass(kind, GraphMethod)
    assert kind() == kind()
    assert kind.TITLE
    assert kind.REPLIES
    assert set(kind.SPLITS) <= {"columns", "rows"}


def test_a_method_without_its_programs_cannot_be_made():
    @dataclass(frozen=True)
    class Half(Method):
        def check(self, job):
            """Any job will do."""

    with pytest.raises(TypeError, match="abstract"):
        Half()


def test_nobody_looks_for_an_attribute_that_a_method_may_or_may_not_have():
    """What is read of a method is declared by `MethodBase`, so a misspelt word is an error, not a default."""
    declared = [name for name in vars(MethodBase) if not name.startswith("_")]
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in declared for look in ("getattr", "hasattr") if f'{look}(method, "{name}"' in text]


def test_the_fingerprint_covers_all_that_decides_what_leaves(monkeypatch):
    """Not the method's folder alone: curves, schemas, noise and solvers elsewhere change what a run releases too."""
    from colonnade.methods import node_setup

    package = Path(node_setup.__file__).parents[1]
    before = node_setup.source_of(co.PrivateGram())
    for name in (
        "kernels/curves.py",
        "data/schema/table.py",
        "problem/cone.py",
        "privacy/gate.py",
        "methods/method.py",
    ):
        changed = (package / name).read_bytes() + b"\n"
        read = Path.read_bytes
        monkeypatch.setattr(
            Path, "read_bytes", lambda self, n=name, c=changed, r=read: c if self == package / n else r(self)
        )
        node_setup._hashed.cache_clear()
        assert node_setup.source_of(co.PrivateGram()) != before, name
        monkeypatch.undo()
    node_setup._hashed.cache_clear()
    assert node_setup.source_of(co.PrivateGram()) == before != node_setup.source_of(co.SharingADMM())
