"""Claims about what every method says of itself, and where a public one is known without being listed again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

import colonnade as co
from colonnade.methods import load_all
from colonnade.methods.method import GraphMethod, Method, MethodBase
from colonnade.methods.node_setup import from_plain, known_methods, protocol_of, to_plain
from colonnade.runs.config import accepted
from colonnade.runtime.program import BY_TYPE
from tests.helpers.contract import EVERY_METHOD

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


def spoken(kind: type[MethodBase]) -> str:
    """A digest of all that its nodes may ask and answer: numbers, names and fields of messages."""
    both = {one for pair in kind.REPLIES.items() for one in pair if one is not None}
    shapes = sorted(
        (BY_TYPE[one].code, one.__name__, *((f.name, f.declared) for f in BY_TYPE[one].fields)) for one in both
    )
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:8]


PROTOCOLS = {
    "BlockFrankWolfe": (1, "8f94ad46"),
    "CentralFrankWolfe": (1, "50ef1ba1"),
    "DistributedFrankWolfe": (1, "ef605130"),
    "GraphADMM": (1, "530bbd7d"),
    "GraphFrankWolfe": (1, "097e3278"),
    "GraphGram": (1, "10ffb880"),
    "GraphKernelFrankWolfe": (1, "097e3278"),
    "GraphRidge": (1, "4e83d88d"),
    "GraphTLS": (1, "2f8cbe8f"),
    "GraphZerothOrder": (1, "3eb95d3f"),
    "KernelFrankWolfe": (1, "464c3df7"),
    "MaskedScores": (1, "f97fd19e"),
    "PrivateBlockFrankWolfe": (1, "ae2ce502"),
    "PrivateGram": (1, "af8d9085"),
    "PrivateSharingADMM": (1, "6b42b9cd"),
    "SharingADMM": (1, "558ed609"),
}


def test_whoever_changes_what_nodes_say_raises_the_protocol():
    """A new digest wants a new number: nodes of two releases would misunderstand each other. Also of the methods that
    stand in for public ones on a graph or for another problem."""
    load_all()
    found, kinds = {}, [MethodBase]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("colonnade.") and not kind.__abstractmethods__:
            found[kind.__name__] = (kind.PROTOCOL, spoken(kind))
    assert found == PROTOCOLS


def test_a_comment_keeps_nodes_together_and_a_protocol_keeps_them_apart(monkeypatch):
    before = protocol_of(co.PrivateGram())
    assert before != protocol_of(co.SharingADMM())
    monkeypatch.setattr(co.PrivateGram, "PROTOCOL", co.PrivateGram.PROTOCOL + 1)
    assert protocol_of(co.PrivateGram()) != before
