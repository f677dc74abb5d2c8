"""What passes at its bound and not beyond it: limits of a policy, a basis that is told once, letters that wait, a roster."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import ProtocolError
from colonnade.model.job import Roster
from colonnade.network import party_run
from colonnade.network.party_data import basis_path
from colonnade.network.party_file import Limits
from colonnade.network.party_run import PartyRun
from colonnade.network.party_service import PartyService
from colonnade.network.questions import Based
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.events import ABORTED, FINISHED, Charge, Event, Mechanism
from colonnade.runtime.hosted_node import HostedNode, Turn

pytestmark = pytest.mark.chance(0, "names of files alone are drawn: no claim depends on them")

GRAM = ("PrivateGram",)


def asked(rho: float, delta: float = 1e-6) -> SimpleNamespace:
    call = SimpleNamespace(method=co.PrivateGram(), privacy=co.Privacy(1.0, delta))
    plans = {"a": (Charge(Event(Mechanism.GAUSSIAN, rho / 2, 1.0), 2, "sums"),), "b": ()}
    return SimpleNamespace(party="a", run="r", plans=plans, call=call)


def test_a_run_passes_up_to_the_epsilon_and_the_delta_of_the_limits() -> None:
    price = epsilon(0.02, 1e-6)
    assert Limits(GRAM, price)(asked(0.02))
    assert Limits(GRAM, price * (1 + 1e-6), 1e-6)(asked(0.02))
    for limits, words in (
        (Limits(GRAM, price * (1 - 1e-6)), f"epsilon = {price:.4g} is over"),
        (Limits(GRAM, price, 0.99e-6), "delta = 1e-06 is over 9.9e-07"),
        (Limits(("SharingADMM",), price), "methods does not name PrivateGram"),
        (Limits(GRAM), "is over 0"),
    ):
        with pytest.raises(co.PolicyRefused, match=words):
            limits(asked(0.02))
    assert Limits(GRAM, np.inf)(asked(np.inf))
    with pytest.raises(co.PolicyRefused, match="exact values would leave, and epsilon is not inf"):
        Limits(GRAM, 1e9)(asked(np.inf))


def test_a_basis_is_told_once_and_while_its_run_is_open(tmp_path) -> None:
    run, first, other = "20260101T120000-0123456789ab", "a" * 64, "b" * 64
    held: set[str] = set()
    service = object.__new__(PartyService)
    service.run_store = SimpleNamespace(folder=tmp_path)
    service.log = SimpleNamespace(
        rows=lambda name, kind: [kind] * ((name, kind) == (run, "open")), holds=lambda name, kind: kind in held
    )
    (tmp_path / "fits").mkdir()

    def learned(basis: str, name: str = run) -> None:
        service.learned(Based(what="learned", run=name, basis=basis))

    with pytest.raises(ProtocolError, match="told once, of a run that is open"):
        learned(first, run[:-1] + "c")
    assert not basis_path(tmp_path, run).exists()
    learned(first)
    learned(first)  # the answer was lost
    with pytest.raises(ProtocolError, match="told once"):
        learned(other)
    held.add("close")
    with pytest.raises(ProtocolError, match="told once"):
        learned(first)
    assert basis_path(tmp_path, run).read_text() == first


def test_nobody_has_finished_while_letters_wait(monkeypatch) -> None:
    """Of three letters two fit into an answer; one that is too long for any goes alone."""
    monkeypatch.setattr(party_run, "PARCEL", 10)
    monkeypatch.setattr(party_run, "letters_out", lambda sent, _: [one.body for one in sent])
    run = object.__new__(PartyRun)
    run.cover, run.again, run.proposal = None, 0, SimpleNamespace(run="r")
    run.waiting = [SimpleNamespace(body=b"x" * size) for size in (4, 6, 11)]
    answers = [run.say_turn(Turn((), True, ()), None) for _ in range(2)]
    assert [[len(body) for body in one.letters] for one in answers] == [[4, 6], [11]]
    assert [(one.finished, one.more) for one in answers] == [(False, True), (True, False)]
    run.waiting = [SimpleNamespace(body=b"")]
    assert run.say_turn(Turn((), False, ()), None).finished is False


def test_runs_that_are_over_are_closed_and_the_others_are_named() -> None:
    """Open ones, and those whose secrets are not erased yet."""
    closed: dict[str, str] = {}
    node = object.__new__(HostedNode)
    node.ledger = SimpleNamespace(open_runs=lambda: {"a", "b"}, close_run=closed.__setitem__)
    node.log = SimpleNamespace(unerased=lambda: {"b", "c", "d"})
    assert node.settle({"a": FINISHED, "c": ABORTED, "e": FINISHED}) == {"b", "d"}
    assert closed == {"a": FINISHED, "c": ABORTED}


@pytest.mark.parametrize("place", range(5))
def test_a_schema_describes_as_many_columns_as_its_party_has(place: int) -> None:
    """Bounds, zeros and ones, signs, levels and directions; of the last two maybe none."""

    def roster(*lengths: int) -> Roster:
        names = ("bounds", "binary", "nonnegative", "level", "monotone")
        figures = {name: (0,) * length for name, length in zip(names, lengths, strict=True)}
        return Roster(9, {"a": (0, 1, 2)}, "a", known={"a": SimpleNamespace(**figures)})

    roster(3, 3, 3, 3, 3)
    roster(3, 3, 3, 0, 0)
    for wrong in (2, 4, *([0] if place < 3 else [])):
        lengths = [3] * 5
        lengths[place] = wrong
        with pytest.raises(co.InvalidInput, match=f"describes {wrong} encoded columns, and it has 3 places"):
            roster(*lengths)
