"""Claims about what every method says of itself, and where a public one is known without being listed again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import colonnade as co
from colonnade.methods import load_all
from colonnade.methods.gatekeeper import check_call
from colonnade.methods.method import GraphMethod, Method, MethodBase
from colonnade.methods.node_setup import from_plain, known_methods, protocol_of, to_plain
from colonnade.runs.config import accepted
from colonnade.runtime.program import BY_TYPE
from tests.helpers.contract import EVERY_METHOD, federation

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


def lacking(*names: str, frozen: bool = True) -> GraphMethod:
    """A method that declares all but these."""

    class Bare(GraphMethod):
        def check(self, job):
            """Any job will do."""

        def price(self, job):
            return dict.fromkeys(job.roster.parties, ())

        def peer(self, job, block, gate, neighbours):
            yield

    for name in {"TITLE", "PROTOCOL", "REPLIES"} - set(names):
        setattr(Bare, name, getattr(co.GraphRidge, name))
    return dataclass(frozen=True)(Bare)() if frozen else Bare()


@pytest.mark.parametrize("name", ["TITLE", "PROTOCOL", "REPLIES"])
def test_a_method_that_leaves_out_what_it_must_say_is_refused_with_advice(name):
    case = EVERY_METHOD["graph ridge"]
    with pytest.raises(co.InvalidInput, match=f"Bare does not declare {name}.*CONTRIBUTING.md, Add a method"):
        co.fit(federation(case), case.problem, lacking(name))


def test_a_method_whose_settings_nobody_could_tell_is_refused():
    case = EVERY_METHOD["graph ridge"]
    with pytest.raises(co.InvalidInput, match=r"no frozen dataclass.*write @dataclass\(frozen=True\)"):
        co.fit(federation(case), case.problem, lacking(frozen=False))


def test_nobody_looks_for_an_attribute_that_a_method_may_or_may_not_have():
    """What is read of a method is declared by `MethodBase`, so a misspelt word is an error, not a default."""
    declared = [name for name in vars(MethodBase) if not name.startswith("_")]
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in declared for look in ("getattr", "hasattr") if f'{look}(method, "{name}"' in text]


def spoken(kind: type[MethodBase]) -> str:
    """A digest of all that its nodes may say: numbers, names and fields of messages, those that ask for no reply, too.

    They are declared in the files of those that do, or in the method's own.
    """
    both = {one for pair in kind.REPLIES.items() for one in pair if one is not None}
    files = {kind.__module__, *(one.__module__ for one in both)}
    shapes = sorted(
        (shape.code, one.__name__, *((f.name, f.declared) for f in shape.fields))
        for one, shape in BY_TYPE.items()
        if one.__module__ in files
    )
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:8]


PROTOCOLS = {
    "BlockFrankWolfe": (1, "8f94ad46"),
    "CentralFrankWolfe": (1, "dea2ee5c"),
    "DistributedFrankWolfe": (1, "ef605130"),
    "GraphADMM": (1, "530bbd7d"),
    "GraphFrankWolfe": (1, "097e3278"),
    "Look": (1, "453e9d25"),
    "GraphGram": (1, "10ffb880"),
    "GraphKernelFrankWolfe": (1, "9a095f60"),
    "GraphRidge": (1, "4e83d88d"),
    "GraphTLS": (1, "2f8cbe8f"),
    "GraphZerothOrder": (1, "3eb95d3f"),
    "KernelFrankWolfe": (1, "f641fcfa"),
    "MaskedScores": (1, "6ed54beb"),
    "PrivateBlockFrankWolfe": (1, "ae2ce502"),
    "PrivateGram": (1, "1073a100"),
    "PrivateSharingADMM": (1, "36bbb764"),
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
    changed = {name: both for name, both in found.items() if PROTOCOLS.get(name) != both}
    assert found == PROTOCOLS, f"PROTOCOLS lacks {changed}: raise the number of a method whose nodes say other things"


def with_a_derivation() -> list[type[MethodBase]]:
    load_all()
    found: list[type[MethodBase]] = []
    kinds = [MethodBase]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("colonnade.") and not kind.__abstractmethods__ and kind.DERIVATION is not None:
            found.append(kind)
    return found


def test_what_a_statement_rests_on_is_said_by_every_method_with_a_derivation_itself():
    """A derivation holds of some losses, and what leaves by a row's place rests on a keyed order: no default says so."""
    kinds = with_a_derivation()
    assert {co.PrivateGram, co.CentralFrankWolfe, co.PrivateBlockFrankWolfe, co.PrivateSharingADMM} <= set(kinds)
    for kind in kinds:
        assert object not in kind.LOSSES, kind
        assert kind.depends_on_row_order is not MethodBase.depends_on_row_order, kind


def test_a_loss_that_a_derivation_does_not_hold_for_is_refused():
    seen = set()
    for case in EVERY_METHOD.values():
        kind = type(case.method)
        if kind.DERIVATION is None or not isinstance(case.problem, co.Problem):
            continue
        fed = federation(case)
        check_call(fed, case.problem, case.method, case.privacy)
        with pytest.raises(co.InvalidInput):
            check_call(fed, replace(case.problem, loss=co.Huber(1.0)), case.method, case.privacy)
        seen.add(kind)
    assert len(seen) >= 4


def test_a_comment_keeps_nodes_together_and_a_protocol_keeps_them_apart(monkeypatch):
    before = protocol_of(co.PrivateGram())
    assert before != protocol_of(co.SharingADMM())
    monkeypatch.setattr(co.PrivateGram, "PROTOCOL", co.PrivateGram.PROTOCOL + 1)
    assert protocol_of(co.PrivateGram()) != before
