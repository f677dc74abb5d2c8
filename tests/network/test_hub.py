"""Claims about the hub's questions before a run, without lines: who speaks of the same, whose rows, who may be away."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

import colonnade as co
from colonnade.data.federation_file import new_key
from colonnade.errors import InvalidInput, PeerFailed, ProtocolError, ReplayDiverged, StoreError, WireError
from colonnade.network import hub
from colonnade.network.hub import Grpc, read_answer
from colonnade.network.party_service import DIVERGED, OK, PROTOCOL, UNAVAILABLE, UNDECIDED, UNKNOWN
from colonnade.network.questions import Greeting, Question, Reached, pack
from colonnade.network.refusals import PeerBroken, PeerSilent, PeerUndecided
from colonnade.network.transport.envelope import PartyRestarted, PeerTimeout
from colonnade.privacy.keyring import public_key
from colonnade.runtime.host import Lost
from colonnade.runtime.program import COORDINATOR

SAID = {"protocol": PROTOCOL, "version": "1", "file": "this", "clock": 1000.0}


def file_of(*names: str, quorum: int | None = None, **more: Any) -> Any:
    members = {name: SimpleNamespace(policy=co.Policy(quorum=quorum), address=None, pin=None) for name in names}
    return SimpleNamespace(members=members, digest="this", label=(names[0], "y"), on="key", keys={}, **more)


def hub_of(file: Any, **answers: dict[str, Any]) -> Grpc:
    """A hub to which each party says this of itself."""
    made = Grpc.__new__(Grpc)
    made._file, made.session, made.rows, made.patience, made.absent = file, "", 0, 1.0, {}
    made.hello = lambda _file, **_: {n: Greeting(**{**SAID, **said}) for n, said in answers.items()}  # type: ignore
    return made


# ------------------------------------------------------------------------------------------------ the same of everybody


def test_the_check_names_clocks_that_are_off_either_way_and_who_speaks_or_holds_another(monkeypatch):
    monkeypatch.setattr(hub.time, "time", lambda: 1000.0)
    clocks = {"a": 1060.0, "b": 939.0, "c": 1061.0, "d": 940.0}
    made = hub_of(file_of(*clocks), **{name: {"clock": clock} for name, clock in clocks.items()})
    assert made.check(made._file) == [
        "the clock of b differs by -61 seconds",
        "the clock of c differs by +61 seconds",
    ]
    others = {"a": {"protocol": PROTOCOL - 1}, "b": {"protocol": PROTOCOL + 1}, "c": {"file": "another"}}
    assert hub_of(made._file, **others).check(made._file) == [
        f"a speaks protocol {PROTOCOL - 1}, this hub {PROTOCOL}: update one",
        f"b speaks protocol {PROTOCOL + 1}, this hub {PROTOCOL}: update one",
        "c holds another federation file: give all the same one, and start them again",
    ]


NEVER: dict[str, Any] = {}
KEPT, OTHER = {"session": "s", "rows": 7}, {"session": "other", "rows": 7}
# What three parties say of their rows; which session is then agreed on, None where none need be; or the error.
ROWS = [
    ((KEPT, KEPT, KEPT), None),
    ((NEVER, NEVER, NEVER), ()),
    ((KEPT, NEVER, KEPT), ("s",)),  # a hub died when some had agreed
    (({"begun": "s"}, NEVER, NEVER), ("s",)),
    (({"begun": "s"}, KEPT, NEVER), ("s",)),
    ((KEPT, OTHER, NEVER), "a, b have one"),
    (({"begun": "other"}, KEPT, NEVER), "a, b have one"),
    ((KEPT, OTHER, KEPT), "a, b, c have one"),
    ((KEPT, {"session": "s", "rows": 8}, KEPT), "a, b, c have one"),
]


@pytest.mark.parametrize(("said", "agreed"), ROWS)
def test_rows_are_agreed_on_once_and_by_a_session_that_was_begun(said, agreed, monkeypatch):
    joined = []
    monkeypatch.setattr(hub, "align", lambda _each, _file, *kept: joined.append(kept) or ("s", 7))
    monkeypatch.setattr(hub.Federation, "elsewhere", lambda *given: given)
    file = file_of("a", "b", "c")
    made = hub_of(file, **dict(zip("abc", said, strict=True)))
    if isinstance(agreed, str):
        with pytest.raises(ProtocolError, match=agreed):
            made.meet(SimpleNamespace(away=file))  # type: ignore[arg-type]
        return
    assert made.meet(SimpleNamespace(away=file)) == (file, 7, "s")  # type: ignore[arg-type]
    assert joined == ([] if agreed is None else [agreed])
    assert (made.session, made.rows) == ("s", 7)


@pytest.mark.parametrize(
    ("here", "quorum", "spared", "goes_on"),
    [
        ("abc", None, True, True),
        ("ab", 2, True, True),
        ("ab", 3, True, False),
        ("ab", None, True, False),
        ("bc", 2, True, False),  # the label holder is away
        ("ab", 2, False, False),
        ("a", 2, True, False),
    ],
)
def test_a_run_begins_with_as_many_as_all_policies_let_go_on_and_the_label_holder(here, quorum, spared, goes_on):
    late, asked = PeerTimeout("nobody came"), []

    def wait_for(names, _timeout):
        if set(names) - set(here):
            raise late

    file = file_of("a", "b", "c", quorum=quorum)
    made = hub_of(file)
    del made.hello
    made.open = lambda _: SimpleNamespace(wait_for=wait_for, connected=lambda: {*here, "stranger"})  # type: ignore
    made._ask_all = lambda names, what: asked.append((names, what)) or {n: Greeting(**SAID) for n in names}  # type: ignore
    if not goes_on:
        with pytest.raises(PeerTimeout, match="nobody came"):
            made.hello(file, spared=spared)
        return
    assert list(made.hello(file, spared=spared)) == list(here)
    assert asked == [(list(here), Question.HELLO)]
    assert made.absent == {name: late for name in "abc" if name not in here}


def test_a_line_is_there_when_both_ends_say_so():
    file = file_of("a", "b", "c", listener=lambda one, other: None if {one, other} == {"a", "c"} else other)
    file.members["b"].address = "b:1"
    made, up = hub_of(file), {"a": ["b", "c"], "b": ["a", "c"], "c": []}
    made._ask_all = lambda names, _: {name: Reached(up=up[name]) for name in names}  # type: ignore[method-assign]
    assert made.roads(file) == {("a", "b"): True, ("b", "c"): False}
    file.members["b"].address = None
    assert made.roads(file) == {("a", "b"): False, ("b", "c"): False}
    for wrong in ("a", [1], ["a", None], {"a": 1}, None):
        with pytest.raises(WireError, match="the answer of 'c' to 'reach' is not one"):
            read_answer("c", Question.REACH, pack({"code": OK, "up": wrong}))


def greeted(head):
    return read_answer("a", Question.HELLO, pack({"code": OK, **head}))


@pytest.mark.parametrize("name", SAID)
def test_a_greeting_has_every_word_and_each_of_its_kind(name):
    assert greeted({**SAID, **KEPT, "begun": "s"}).rows == 7
    without = {key: value for key, value in SAID.items() if key != name}
    for head in (without, {**SAID, name: None}, {**SAID, "session": "s"}, {**SAID, "rows": 7}, {**SAID, "begun": 1}):
        with pytest.raises(WireError, match="the answer of 'a' to 'hello' is not one"):
            greeted(head)


# ------------------------------------------------------------------------------------------------ one question


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (UNKNOWN, Lost),
        (UNDECIDED, PeerUndecided),
        (UNAVAILABLE, StoreError),
        (DIVERGED, ReplayDiverged),
        (3, PeerFailed),
    ],
)
def test_every_code_of_an_answer_is_an_error_of_its_own(code, kind):
    assert read_answer("a", Question.SHARE, pack({"code": OK, "x": 1}, (b"y",))).blobs == (b"y",)
    with pytest.raises(kind, match="a"):
        read_answer("a", Question.TURN, pack({"code": code}))


@pytest.mark.parametrize(
    ("error", "kind"), [(PartyRestarted("x"), Lost), (PeerTimeout("x"), PeerSilent), (PeerFailed("x"), PeerBroken)]
)
def test_a_question_has_the_patience_it_was_given_or_the_hubs(error, kind):
    made, given = hub_of(file_of("a")), []

    def ask(_party, _raw, timeout):
        found = Future[bytes]()
        found.set_exception(error)
        given.append(timeout)
        return found

    made._board = SimpleNamespace(ask=ask, connected=lambda: {"a"}, session=lambda _: "1")  # type: ignore
    for patience in (None, 0.0, 5.0):
        with pytest.raises(kind):
            made.ask("a", Question.TURN, patience=patience).result()
    assert given == [1.0, 0.0, 5.0]
    assert [made.listens(*asked) for asked in (("a", "1"), ("a", "2"), ("b", "1"))] == [True, False, False]


def test_a_party_that_began_anew_is_asked_again_as_often_as_machines_fail(monkeypatch):
    monkeypatch.setattr(hub, "LOSSES", 3)
    made, tries = hub_of(file_of("a")), []

    def ask(name, *_):
        tries.append(name)
        raise Lost(name)

    made.ask = ask  # type: ignore[method-assign]
    with pytest.raises(PeerBroken, match="began anew 3 times when it was asked 'hello'"):
        made._ask_each({"a": (Question.HELLO, {}, ())})
    assert len(tries) == 3


def test_an_operator_is_waited_for_as_long_as_the_hubs_patience(monkeypatch):
    now, slept = 100.0, []
    monkeypatch.setattr(hub, "time", SimpleNamespace(monotonic=lambda: now, sleep=slept.append))
    made = hub_of(file_of("a"))
    made.await_decision(PeerUndecided("a"), 99.0)
    assert slept == [hub.GLANCE]
    with pytest.raises(PeerSilent, match="'a'"):
        made.await_decision(PeerUndecided("a"), 98.9)


def test_the_coordinator_seals_under_the_key_that_the_federation_file_pins(monkeypatch, tmp_path):
    (_, private), (_, other) = new_key(), new_key()
    file = file_of("a")
    file.keys = {COORDINATOR: public_key(private)}
    made = hub_of(file)
    made.tls = SimpleNamespace(certificate=tmp_path / "coordinator.pem")  # type: ignore[assignment]
    monkeypatch.setattr(hub, "read_key", lambda path, _: {hub.SIGNING_KEY: private}[path.name])
    assert made.identity() == private
    monkeypatch.setattr(hub, "read_key", lambda *_: other)
    with pytest.raises(InvalidInput, match="is not the key that the federation file pins"):
        made.identity()
