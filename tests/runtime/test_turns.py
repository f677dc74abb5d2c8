"""Claims about promises of answers, and about answers that come when everybody must meet again (runtime/host.py)."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import defaultdict
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import colonnade as co
from colonnade.cli import party
from colonnade.errors import LeakError, PeerFailed
from colonnade.network.questions import Question, letters_out, pack, read_as
from colonnade.runtime import hosted_node
from colonnade.runtime.host import (
    Answered,
    Computed,
    Lost,
    Turns,
    _last_words,
    _missed,
    check_records,
    gather_answers,
    wait_for_all,
)
from colonnade.runtime.hosted_node import FINAL, HostedNode, Joined, Turn, _Loop
from colonnade.runtime.node import LOST
from colonnade.runtime.program import FailureCode
from colonnade.runtime.wire import Letter, Traffic
from tests.helpers.hosts import answering, hosts, silent


class Raw:
    """An answer as it came: many megabytes."""


def test_an_answer_that_was_read_is_not_kept_beside_what_was_made_of_it():
    raw: Future[Raw] = Future()
    promise = Computed(Computed(raw, lambda found: [found.result()]), lambda found: len(found.result()))
    came = Raw()
    raw.set_result(came)
    held = weakref.ref(came)
    del raw, came
    assert promise.result() == 1
    assert held() is None
    assert promise.result() == 1


def test_a_promise_is_computed_once_and_tells_also_those_who_come_late():
    computed, told = [], []
    promise = Computed(Answered(lambda: 3), lambda found: computed.append(found.result()))
    promise.add_done_callback(told.append)
    assert computed == []  # by who asks for it, not by who tells
    promise.result()
    promise.result()
    promise.add_done_callback(told.append)
    assert (computed, told) == ([3], [promise, promise])


def test_an_error_stays_an_error():
    promise = Computed(Answered(lambda: 1 / 0), lambda found: found.result())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            promise.result()


def dies_while_the_other_says(first: Turn) -> tuple[Turns, list]:
    """Two hosts: `b` is lost in its first turn, when `a`, which lives on, has said something that it says once."""
    said, told = {"a": [first], "b": [None]}, []

    def answer(name: str, what, *_):
        if what != "turn":
            return {"join": Joined({}, {}), "resend": (), "outcome": (None, Traffic())}[what]
        turn = said[name].pop(0) if said[name] else Turn((), True, (), told=1)
        if turn is None:
            raise Lost(name)
        return turn

    return Turns(answering("ba", answer), lambda *note: told.append(note)), told


def test_a_note_of_a_station_that_lives_is_heard_though_another_died():
    turns, told = dies_while_the_other_says(Turn((), True, (), ({"round": 1},)))
    turns.run()
    assert told == [("a", {"round": 1})]


def test_the_failure_of_a_station_that_lives_ends_the_run_though_another_died():
    turns, _ = dies_while_the_other_says(Turn((), True, (), failure=LeakError("no")))
    with pytest.raises(LeakError):
        turns.run()


def test_the_failure_is_told_and_not_that_the_run_is_over_at_whoever_failed():
    turns, _ = dies_while_the_other_says(Turn((), True, (), failure=LeakError("no")))
    live = turns.hosts
    over = Answered(lambda: (_ for _ in ()).throw(co.ReplayDiverged("over")))
    turns.hosts = hosts(
        live, lambda name, what, *rest: over if turns.failure and what == "join" else live[name].ask(what, *rest)
    )
    with pytest.raises(LeakError):
        turns.run()


def test_a_sender_of_very_many_tiny_letters_does_not_make_a_question_that_its_receiver_must_refuse():
    """The receiver would be named for it: a question brings no more letters than it may."""
    letters = [Letter("b", "a", place, 0, b"\1\0\0", "\N{GRINNING FACE}" * 200) for place in range(8000)]
    asked: list[list[Letter]] = []
    turns = Turns(answering("ab", lambda _name, _what, given: asked.append(given)), lambda *_: None)
    turns.mail = defaultdict(list)
    turns.post(letters)
    while turns.mail["a"]:
        turns.give("a")
    assert [x for given in asked for x in given] == letters
    for given in asked:
        asked = pack({"what": "turn", "run": "run", "letters": letters_out(given, "run")})
        assert len(read_as(Question.TURN.asked, asked).letters) == len(given)


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_who_is_driven_has_one_thread_of_linear_algebra_and_what_there_was_comes_back():
    seen = []

    def answer(_name, what, *_):
        seen.extend(threads())
        return {"join": Joined({}, {}), "resend": (), "turn": Turn((), True, ()), "outcome": (None, Traffic())}[what]

    with threadpool_limits(limits=2):
        before = threads()
        Turns(answering("a", answer), lambda *_: None).run()
        assert (threads(), set(seen)) == (before, {1})


def test_a_party_serves_with_one_thread_of_linear_algebra(monkeypatch):
    seen, data = [], SimpleNamespace(rows=1, seen=SimpleNamespace(nothing=(), unused=()))
    service = SimpleNamespace(data=data, answer=None, close=lambda: None)
    settings = SimpleNamespace(name="a", hub="hub", tls=None, limits=None, metrics=None, approve="all")
    settings.neighbours, settings.service = lambda _: contextlib.nullcontext(), lambda *_: service
    monkeypatch.setattr(party.terminal, "until_stopped", threading.Event)
    monkeypatch.setattr("colonnade.network.transport.party.serve", lambda *_, **__: seen.extend(threads()))
    with threadpool_limits(limits=2):
        before = threads()
        party._answer_until_stopped(settings, True)
        assert (threads(), set(seen)) == (before, {1})


def failing(error: Exception) -> Turn:
    return Turn((), True, (), (), 0, error)


def test_of_many_who_heard_of_a_failure_the_first_is_told_and_before_all_of_them_the_failure():
    turns = Turns(silent("abc"), lambda *_: None)
    turns.mail = defaultdict(list)
    turns.take("b", failing(PeerFailed("a stopped")))
    turns.take("c", failing(PeerFailed("b stopped")))
    assert str(turns.failure) == "a stopped"
    turns.take("a", failing(co.InvalidInput("no such column")))
    assert str(turns.failure) == "no such column"
    turns.take("c", failing(PeerFailed("a stopped")))
    assert str(turns.failure) == "no such column"


def test_the_first_error_is_told_when_everybody_has_answered():
    seen = []

    def answer(value):
        seen.append(value)
        if value == 1:
            raise co.ProtocolError("one")
        return value

    promised = {str(k): Computed(Answered(lambda k=k: k), lambda found: answer(found.result())) for k in range(3)}
    with pytest.raises(co.ProtocolError, match="one"):
        gather_answers(promised)
    assert seen == [0, 1, 2]
    wait_for_all(promised.values())
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("told", ["received", "heard"])
def test_nobody_may_have_received_one_message_more_than_its_sender_remembers(told):
    """By what it read itself, or by what it wrote down when it came."""

    def joined(count: int) -> dict[str, Joined]:
        receiver = Joined({"a": count}, {}) if told == "received" else Joined({}, {}, {("a", "b"): count})
        return {"a": Joined({}, {"b": 3}), "b": receiver}

    check_records(joined(3))
    with pytest.raises(co.LedgerDamaged, match=r"'b' received 4 messages from 'a', whose record holds 3 of them"):
        check_records(joined(4))
    with pytest.raises(co.LedgerDamaged, match=r"holds 0 of them"):
        check_records({**joined(1), "a": Joined({}, {})})


def letter(sender: str, size: int = 1) -> Letter:
    return Letter(sender, "c", 0, 1, bytes(size))


def test_a_station_gets_a_turn_when_all_whom_it_waits_for_have_written():
    turns = Turns(silent("abc"), lambda *_: None)
    turns.mail = defaultdict(list)
    turns.done = {"c": Turn((), False, ("a", "b"), missing=frozenset({"a", "b"}))}
    for mail, due in (([], False), ("a", False), ("aa", False), ("ab", True), ("aab", True)):
        turns.mail["c"] = [letter(sender) for sender in mail]
        assert turns.due("c") is due
    turns.done = {"c": Turn((), False, ())}
    for mail, due in (("", False), ("a", True)):
        turns.mail["c"] = [letter(sender) for sender in mail]
        assert turns.due("c") is due


def test_a_turn_brings_no_more_bytes_than_a_message_may_have_unless_one_letter_is_longer(monkeypatch):
    monkeypatch.setattr("colonnade.runtime.host.LOAD", 10)
    asked: list[list[int]] = []

    def take(_name: str, _what, given: list[Letter]) -> None:
        asked.append([len(x.body) for x in given])

    turns = Turns(answering("c", take), lambda *_: None)
    turns.mail = defaultdict(list, {"c": [letter("a", size) for size in (4, 6, 1, 25, 5, 6)]})
    while turns.mail["c"]:
        turns.give("c")
    assert asked == [[4, 6], [1], [25], [5], [6]]


def test_what_a_host_sends_again_begins_where_each_receiver_stopped_and_nothing_goes_to_who_is_lost():
    joined = {"a": Joined({}, {"b": 3, "c": 5, "d": 2}), "b": Joined({"a": 2}, {"a": 1}), "d": Joined({}, {})}
    assert _missed("a", joined) == {"b": 2, "c": 5, "d": 0}


def test_of_a_lost_host_what_is_here_arrives_in_order_and_behind_it_that_it_is_lost():
    here = [Letter("a", "b", place, 1, bytes([place])) for place in (1, 2, 3, 5)]
    others = [Letter("a", "c", 4, 1, b"c"), Letter("b", "a", 4, 1, b"b")]
    found = _last_words("a", "b", 2, [others[0], *here, others[1]])
    assert found == [here[1], here[2], Letter("a", "b", 4, 0, LOST)]  # what came after the gap is of no use
    assert _last_words("a", "b", 4, here) == [Letter("a", "b", 4, 0, LOST)]


def test_what_is_here_of_a_lost_host_is_brought_with_the_next_turn():
    """What waits as mail, and what its last turn made that nobody has taken yet; the first was read before."""
    here = [Letter("c", "a", place, 1, b"\1\0\0") for place in range(4)]
    given: list[Letter] = []

    def answer(name, what, *arguments):
        if what == "join":
            return Joined({"c": 1}, {})
        if what == "turn":
            given.extend(arguments[0])
        return ()

    lost = SimpleNamespace(lost=["c"], give_up=lambda _: False)
    turns = Turns(answering("ac", answer), lambda *_: None, lost)
    turns.mail = defaultdict(list, {"a": here[:3]})
    turns.busy = {"c": Answered(lambda: Turn((here[3],), False, ()))}
    turns.meet()
    assert given == [*here[1:], Letter("c", "a", 4, 0, LOST)]


def test_whoever_has_more_to_send_gets_turns_until_all_has_gone():
    letters = [Letter("a", "b", place, 1, b"\1\0\0") for place in range(3)]
    said = {
        "a": [*(Turn((one,), False, (), more=True) for one in letters[:2]), Turn((letters[2],), True, ())],
        "b": [Turn((), False, ("a",))] * 3,
    }
    read: list[Letter] = []

    def answer(name, what, *arguments):
        if what != "turn":
            return {"join": Joined({}, {}), "resend": (), "outcome": (name, Traffic())}[what]
        read.extend(arguments[0])
        return Turn((), True, ()) if len(read) == 3 else said[name].pop(0)

    turns = Turns(answering("ab", answer), lambda *_: None)
    assert turns.run().results == {"a": "a", "b": "b"}
    assert read == letters


def test_a_note_is_told_once_wherever_a_turn_begins_to_tell():
    told: list[tuple[str, int]] = []
    turns = Turns(silent("ab"), lambda name, note: told.append((name, note["n"])))
    for first, last in ((0, 2), (2, 3), (1, 4), (0, 4)):  # the last two: of a host that began anew
        turns.hear("a", Turn((), False, (), tuple({"n": n} for n in range(first, last)), told=first))
    turns.hear("b", Turn((), False, (), ({"n": 0},)))
    assert told == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0)]


def test_nothing_is_kept_for_who_is_lost_or_has_finished_and_nobody_waits_for_the_lost():
    sparing = SimpleNamespace(lost=["b"])
    turns = Turns(silent("abc"), lambda *_: None, sparing)
    turns.mail = defaultdict(list)
    turns.done = {"a": Turn((), True, ()), "b": Turn((), False, ("a",))}
    letters = {name: Letter("x", name, 0, 1, b"") for name in "abc"}
    turns.post(letters.values())
    assert {name: mail for name, mail in turns.mail.items() if mail} == {"c": [letters["c"]]}
    turns.drive()
    turns.done["c"] = Turn((), False, ("a", "b"))
    with pytest.raises(co.ProtocolError, match=r"'c' waits for 'a', 'b'$"):
        turns.drive()


def test_who_is_at_work_is_looked_at_while_nothing_comes(monkeypatch):
    monkeypatch.setattr("colonnade.runtime.host.GLANCE", 0.0)
    late, looked = Future(), []

    def look(busy):
        looked.append(set(busy))
        late.set_result(Turn((), True, ()))

    turns = Turns(hosts("ab", lambda *_: late), lambda *_: None, SimpleNamespace(lost=[], look=look))
    turns.mail = defaultdict(list)
    turns.give("a")
    turns.drive()
    assert looked == [{"a"}]


def test_every_run_that_is_over_is_closed_and_the_others_are_told():
    closed = []
    ledger = SimpleNamespace(open_runs=lambda: {"1", "2", "3"}, close_run=lambda *how: closed.append(how))
    host = SimpleNamespace(ledger=ledger, log=SimpleNamespace(unerased=lambda: {"2", "4", "5"}))
    over = {"1": "aborted", "2": "finished", "4": "failed", "9": "aborted"}
    assert HostedNode.settle(host, over) == {"3", "5"}
    assert sorted(closed) == [("1", "aborted"), ("2", "finished"), ("4", "failed")]


def test_a_host_sends_again_what_any_receiver_missed_and_makes_nothing_again_where_none_did():
    letters = [Letter("h", "a", 0, 1, b""), Letter("h", "b", 0, 1, b""), Letter("h", "a", 1, 1, b"")]
    made = []

    def again():
        made.append(host._notes.append({"round": 1}))
        return SimpleNamespace(replay=lambda: letters)

    host = SimpleNamespace(join=lambda: Joined({}, {"a": 2, "b": 1}), new_node=again, _notes=[{"round": 7}])
    assert HostedNode.resend(host, {"a": 2, "b": 1}) == ()
    assert made == []
    for since, sent in (({"a": 2}, letters[1:2]), ({"a": 1, "b": 1}, letters[2:]), ({}, letters)):
        assert HostedNode.resend(host, since) == tuple(sent)
    assert host._notes == [{"round": 7}]  # a replay tells nothing anew


class Station:
    """A node that reads one letter a step, and says so in a note of its host."""

    name, wait, missing = "h", ("a",), frozenset({"a"})

    def __init__(self, notes):
        self.came, self.unread, self.receipts, self.notes = [], 0, 0, notes
        self.finished = False

    def deliver(self, letter):
        self.came.append(letter)
        self.unread += 1

    def acknowledge(self):
        self.receipts = len(self.came)

    @property
    def ready(self):
        return self.unread >= 2 and not self.finished

    def step(self):
        self.unread -= 2
        self.notes().append({"n": len(self.came)})
        return [Letter("h", "a", len(self.came) // 2 - 1, 1, b"")]

    def received_from(self, peer):
        return sum(letter.sender == peer for letter in self.came)


def test_a_turn_reads_what_it_can_has_receipts_for_all_and_tells_its_notes_once():
    host = SimpleNamespace(_notes=[], _told=0, _count_traffic=lambda letters: letters)
    host.node = station = Station(lambda: host._notes)
    sent = [Letter("a", "h", place, 1, b"") for place in range(7)]
    turns = [HostedNode.turn(host, sent[first:last]) for first, last in ((0, 4), (4, 5), (5, 7))]
    assert [len(turn.letters) for turn in turns] == [2, 0, 1]
    assert [(turn.told, [note["n"] for note in turn.notes]) for turn in turns] == [(0, [4, 4]), (2, []), (2, [7])]
    assert (station.came, station.receipts) == (sent, 7)
    assert [turn.missing for turn in turns] == [frozenset({"a"})] * 3
    HostedNode.give_up(host, "a")
    assert station.came[-1] == Letter("a", "h", 7, 0, LOST)
    station.finished = True
    assert HostedNode.turn(host, sent).finished
    assert len(station.came) == 8  # a node that has finished takes nothing more


def test_the_notes_of_a_long_run_are_told_in_as_many_turns_as_they_take(monkeypatch):
    """Whoever is started again tells all of them anew: more than an answer has room for."""
    monkeypatch.setattr(hosted_node, "NOTES", 2)
    host = SimpleNamespace(_notes=[{"n": n} for n in range(5)], _told=0, _count_traffic=lambda letters: letters)
    host.node = Station(lambda: host._notes)
    turns = [HostedNode.turn(host, []) for _ in range(4)]
    told = [(turn.told, [note["n"] for note in turn.notes], turn.more) for turn in turns]
    assert told == [(0, [0, 1], True), (2, [2, 3], True), (4, [4], False), (5, [], False)]


def test_in_one_process_too_the_reason_is_told_before_whoever_heard_of_it_and_the_first_of_several():
    said = []
    node = SimpleNamespace(farewell=lambda code: said.append(code) or [])
    loop = _Loop({}, None, None)
    for error, told in (("a", PeerFailed), ("b", co.InvalidInput), ("c", PeerFailed), ("d", LeakError)):
        loop.fail(node, told(error))
    assert str(loop.failure) == "b"
    assert said[1::2] == [FailureCode.STOPPED] * 2


def test_a_refusal_is_told_as_one_and_a_fault_as_one():
    codes = {"PolicyRefused": "REFUSED", "BudgetExhausted": "REFUSED", "WireError": "PROTOCOL"}
    codes |= {"ProtocolError": "PROTOCOL", "LeakError": "STOPPED", "InvalidInput": "STOPPED"}
    assert {kind.__name__: code.name for kind, code in FINAL.items()} == codes
