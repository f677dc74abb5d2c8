"""Claims about nodes: what a program is held to, whoever drives it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import colonnade as co
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Released
from colonnade.runtime.node import LOOK, Receipts, Transcript, header_and_length, recorded_form
from colonnade.runtime.program import Failed, Post, ask_one, last, message, public_bytes, receive
from colonnade.runtime.wire import HEADER_SIZE, Letter, decode, encode
from tests.helpers.contract import Toy, nodes
from tests.helpers.contract import gate as gate_of

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

HUB, PARTY = "hub", "party"


@message(920)
class Question:
    """Hub → party: say something."""

    number: int


@message(921)
class Reply:
    """Party → hub: the declared answer."""

    number: Released[int]


@message(922)
class Nay:
    """Party → hub: an answer nobody declared."""


@message(923)
class Stop:
    """Hub → party: enough."""


REPLIES = {Question: Reply, Stop: Nay}


def hub(gate):
    reply = yield from ask_one(PARTY, Question(1), Reply)
    return reply.number.value


def honest(gate):
    question = yield from receive(HUB, Question)
    yield from last({HUB: Reply(gate.exact(question.number + 1))})


def pair(party, hub=hub, replies=None):
    return {
        HUB: Toy(hub, (PARTY,)),
        PARTY: Toy(party, (HUB,), guarded=True, replies=REPLIES if replies is None else replies),
    }


def run(toys, engine=None):
    """The outcome, and every letter that went over the wires before it."""
    tap = co.Tap(engine or co.InProcess())
    try:
        return tap.run(nodes(toys)), tap.letters
    except co.ColonnadeError as error:
        return error, tap.letters


def from_party(letters):
    """What the party sent, save that it stops."""
    kinds = [decode(letter.body) for letter in letters if letter.sender == PARTY]
    return [kind for kind in kinds if not isinstance(kind, Failed)]


def test_an_honest_pair_finishes():
    outcome, letters = run(pair(honest))
    assert outcome.results[HUB] == 2
    assert len(letters) == 2


def answers(message_of):
    def party(gate):
        yield from receive(HUB, Question)
        yield from last({HUB: message_of(gate)})

    return party


def unprompted(gate):
    yield from last({HUB: Reply(gate.exact(1))})


def twice(gate):
    yield from receive(HUB, Question)
    yield from last({HUB: Reply(gate.exact(1))})
    yield from last({HUB: Reply(gate.exact(2))})


def to_a_stranger(gate):
    yield from receive(HUB, Question)
    yield from last({"stranger": Reply(gate.exact(1))})


def waits_for_a_stranger(gate):
    yield Post({}, ("stranger",))


def waits_twice(gate):
    yield Post({}, (HUB, HUB))


BREACHES = {
    "an undeclared kind": (
        answers(lambda gate: Nay()),
        co.LeakError,
        "answers Nay to Question.*REPLIES.*Nothing was sent",
    ),
    "its own failure": (answers(lambda gate: Failed(7)), co.LeakError, "answers Failed"),
    "the hub's own kind": (answers(lambda gate: Stop()), co.LeakError, "answers Stop"),
    "unprompted": (unprompted, co.LeakError, "answers Reply to nothing"),
    "a bare field": (answers(lambda gate: Reply(1)), co.LeakError, r"Reply\.number"),
    "a field of another kind": (answers(lambda gate: Reply(gate.exact(1.5))), co.WireError, r"Reply\.number"),
    "no message at all": (answers(lambda gate: 3), co.LeakError, "int"),
    "a stranger": (to_a_stranger, co.ProtocolError, "not connected to 'stranger'"),
    "waiting for a stranger": (waits_for_a_stranger, co.ProtocolError, "not connected to 'stranger'"),
    "waiting twice for one": (waits_twice, co.ProtocolError, "waits twice"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_refused_and_nothing_of_it_is_sent(name):
    program, kind, text = BREACHES[name]
    error, letters = run(pair(program))
    assert isinstance(error, kind)
    with pytest.raises(kind, match=text):
        raise error
    assert from_party(letters) == []


def test_a_second_answer_to_one_question_is_refused():
    error, letters = run(pair(twice))
    assert isinstance(error, co.LeakError)
    assert len(from_party(letters)) == 1


def test_a_node_with_data_cannot_send_a_message_of_bare_fields_even_where_its_method_declares_it():
    error, letters = run(pair(answers(lambda gate: Question(7)), replies={Question: Question}))
    assert isinstance(error, co.LeakError)
    assert from_party(letters) == []


def test_contents_that_go_through_a_third_node_are_sealed_under_names_of_their_own():
    """One name a content, whatever the step and however many contents the step has: a name stands for a key."""
    sealed = []

    class Stub:
        def seal(self, places, body, name):
            sealed.append((dict(places), name))
            return dict.fromkeys(places, (b"key", b"content"))

    def program(gate):
        same = Reply(gate.exact(3))
        yield from last({"a": Reply(gate.exact(1)), "b": Reply(gate.exact(2))})
        yield from last({"a": same, "b": same})
        yield from last({"a": Reply(gate.exact(4))})

    from colonnade.privacy.gate import Gate
    from colonnade.privacy.mechanisms import SystemNoise
    from colonnade.privacy.store import MemoryLog
    from colonnade.runtime.node import Node, NodeSetup
    from tests.helpers.contract import ledger

    log = MemoryLog()
    own = Gate(ledger(log=log), "run", SystemNoise(), Stub())
    setup = NodeSetup("a0", program, ("a", "b"), True, {None: Reply}, co.Policy(), relayed=("a", "b"))
    node = Node(setup, own, Transcript(log, "run"))
    node.replay()
    while not node.finished:
        node.step()
    assert [places for places, _ in sealed] == [{"a": 0}, {"b": 0}, {"a": 1, "b": 1}, {"a": 2}]
    assert len({name for _, name in sealed}) == 4


def test_a_message_declared_as_unprompted_may_be_sent_unasked():
    def listener(gate):
        return (yield from receive(PARTY, Reply)).number.value

    outcome, _ = run(pair(unprompted, hub=listener, replies={None: Reply}))
    assert outcome.results[HUB] == 1


def test_a_node_without_data_may_send_plain_messages_unasked():
    outcome, _ = run({HUB: Toy(hub, (PARTY,)), PARTY: Toy(plain, (HUB,))})
    assert outcome.results[HUB] == 4


def plain(gate):
    yield from receive(HUB, Question)
    yield from last({HUB: Reply(gate.exact(4))})


# ---------------------------------------------------------------- failure and deadlock


def test_the_first_real_error_surfaces_and_everybody_is_told():
    def broken(gate):
        yield from receive(HUB, Question)
        raise co.InvalidInput("the disk of my heart is full")

    error, letters = run(pair(broken))
    assert isinstance(error, co.InvalidInput)
    assert "heart" in str(error)
    told = [decode(letter.body) for letter in letters if letter.sender == PARTY]
    assert [message.code for message in told] == [0]


def test_a_failure_tells_nothing_but_a_code():
    def broken(gate):
        yield from receive(HUB, Question)
        raise co.InvalidInput("secret 42")

    _, letters = run(pair(broken))
    assert all(b"42" not in letter.body for letter in letters)


def test_a_deadlock_names_who_waits_for_whom():
    def waits(gate):
        yield from receive(HUB, Question)
        yield Post({}, (HUB,))

    error, _ = run(pair(waits))
    assert isinstance(error, co.ProtocolError)
    assert "'hub' waits for 'party'" in str(error)
    assert "'party' waits for 'hub'" in str(error)


def test_another_kind_than_expected_is_a_protocol_error():
    def wrong(gate):
        yield from ask_one(PARTY, Stop(), Reply)

    error, _ = run(pair(honest, hub=wrong))
    assert isinstance(error, co.ProtocolError)
    assert "sent Stop where Question was expected" in str(error)


# ---------------------------------------------------------------- wires that lose, repeat and forge


def rounds(gate):
    total = 0
    for number in range(5):
        reply = yield from ask_one(PARTY, Question(number), Reply)
        total += reply.number.value
    yield from last({PARTY: Stop()})
    return total


def talkative(gate):
    request = yield from receive(HUB, Question | Stop)
    while isinstance(request, Question):
        request = yield from ask_one(HUB, Reply(gate.exact(request.number)), Question | Stop)


def disturbed(fault):
    return run(pair(talkative, hub=rounds), co.Faults(co.InProcess(), fault))


def test_repeated_letters_are_dropped():
    outcome, _ = disturbed(lambda letter: (letter, letter, letter))
    assert outcome.results[HUB] == 10


@pytest.mark.parametrize("lost", [0, 2])
@pytest.mark.parametrize("sender", [HUB, PARTY])
def test_a_lost_letter_is_noticed(lost, sender):
    def fault(letter):
        return () if (letter.sender, letter.sequence) == (sender, lost) else (letter,)

    error, _ = disturbed(fault)
    assert isinstance(error, co.ProtocolError)


def test_a_letter_out_of_turn_is_noticed():
    def fault(letter):
        return (replace(letter, sequence=letter.sequence + 1),)

    error, _ = disturbed(fault)
    assert isinstance(error, co.ProtocolError)
    assert "one was lost" in str(error)


def test_the_same_place_with_other_bytes_is_refused():
    forged = encode(Question(99), guarded=False)

    def fault(letter):
        other = Letter(letter.sender, letter.receiver, letter.sequence, letter.round, forged)
        return (letter, other) if letter.sender == HUB else (letter,)

    error, _ = disturbed(fault)
    assert isinstance(error, co.ProtocolError)
    assert "other bytes" in str(error)


def test_changed_bytes_end_the_run():
    def fault(letter):
        body = letter.body[:-1] + bytes([letter.body[-1] ^ 1])
        return (Letter(letter.sender, letter.receiver, letter.sequence, 0, b"\x00" + body),)

    error, _ = disturbed(fault)
    assert isinstance(error, co.WireError)


def test_a_letter_from_a_stranger_is_refused():
    def fault(letter):
        return (replace(letter, sender="stranger"),)

    error, _ = disturbed(fault)
    assert isinstance(error, co.ProtocolError)
    assert "not a neighbour" in str(error)


# ---------------------------------------------------------------- replay of toy nodes


@pytest.fixture
def logs(tmp_path):
    made = {name: FileLog(tmp_path / f"{name}.db") for name in (HUB, PARTY)}
    yield made
    for log in made.values():
        log.close()


def test_a_replayed_run_sends_the_same_letters_again(logs):
    first, second = co.Tap(co.InProcess()), co.Tap(co.InProcess())
    one = first.run(nodes(pair(talkative, hub=rounds), logs))
    two = second.run(nodes(pair(talkative, hub=rounds), logs))
    assert one.results == two.results
    assert one.traffic == two.traffic
    key = lambda letter: (letter.sender, letter.receiver, letter.sequence)  # noqa: E731
    assert sorted(first.letters, key=key) == sorted(second.letters, key=key)


@pytest.mark.parametrize("stop", range(1, 11))
def test_a_run_interrupted_at_any_letter_goes_on(logs, stop):
    seen = []

    def interrupt(letter):
        seen.append(letter)
        if len(seen) == stop:
            raise KeyboardInterrupt
        return (letter,)

    with pytest.raises(KeyboardInterrupt):
        co.Faults(co.InProcess(), interrupt).run(nodes(pair(talkative, hub=rounds), logs))
    outcome = co.InProcess().run(nodes(pair(talkative, hub=rounds), logs))
    assert outcome.results[HUB] == 10
    assert sum(outcome.traffic.messages.values()) == 11


def test_a_replay_reads_an_inbox_in_the_order_in_which_it_was_waited_for(tmp_path):
    """Sums of floats depend on it: what is computed again must be the same to the bit."""
    names = ("hub", "z", "a", "m")
    logs = {name: FileLog(tmp_path / f"{name}.db") for name in names}

    def gathers(gate):
        first = yield Post({}, ("z", "a", "m"))
        second = yield Post({}, ("m", "z"))
        return [(name, one.number.value) for inbox in (first, second) for name, one in inbox.items()]

    def says(*numbers):
        def program(gate):
            for number in numbers:
                yield from last({HUB: Reply(gate.exact(number))})

        return program

    toys = {HUB: Toy(gathers, ("z", "a", "m")), "a": Toy(says(1), (HUB,), replies={None: Reply})}
    toys |= {"z": Toy(says(2, 3), (HUB,)), "m": Toy(says(4, 5), (HUB,))}
    first, again = (co.InProcess().run(nodes(toys, logs)).results[HUB] for _ in range(2))
    assert first == [("z", 2), ("a", 1), ("m", 4), ("m", 5), ("z", 3)]
    assert again == first
    steps = [step for step in Transcript(logs[HUB], "run").steps() if step.order]
    assert [step.order for step in steps] == [("z", "a", "m"), ("m", "z")]
    assert [{name: frame.sequence for name, frame in step.received.items()} for step in steps] == [
        {"z": 0, "a": 0, "m": 0},
        {"m": 1, "z": 1},
    ]
    for log in logs.values():
        log.close()


def test_a_recorded_letter_keeps_its_place_and_its_round_apart(tmp_path):
    log = FileLog(tmp_path / "a.db")
    received = {"b": Letter("b", "a", 3, 70_000, encode(Question(1), guarded=False))}
    door = gate_of(log=log)
    door.begin(0, 0, None)
    Transcript(log, "run").record(0, received, (), door)
    (step,) = Transcript(log, "run").steps("a")
    assert (step.received["b"].sequence, step.received["b"].round) == (3, 70_000)
    assert step.received == received
    log.close()


def test_a_program_that_changed_is_noticed(logs):
    def changed(gate):
        request = yield from receive(HUB, Question | Stop)
        while isinstance(request, Question):
            request = yield from ask_one(HUB, Reply(gate.exact(request.number + 1)), Question | Stop)

    co.InProcess().run(nodes(pair(talkative, hub=rounds), logs))
    with pytest.raises(co.ReplayDiverged):
        co.InProcess().run(nodes(pair(changed, hub=rounds), logs))


@message(924)
class Parcel:
    """Hub → party: as much as you like."""

    body: bytes


def generous(last_byte):
    def program(gate):
        yield from last({PARTY: Parcel(bytes(5_000) + last_byte)})

    return program


def quiet(gate):
    yield from receive(HUB, Parcel)


def test_of_a_longer_message_kind_length_and_hash_are_kept_and_a_change_is_still_noticed(logs):
    co.InProcess().run(nodes(pair(quiet, hub=generous(b"a")), logs))
    (sent,) = logs[HUB].rows(kind="out")
    body = encode(Parcel(bytes(5_000) + b"a"), guarded=False)
    assert header_and_length(sent.body[:LOOK], len(sent.body)) == (body[:HEADER_SIZE], len(body))
    assert sent.body.endswith(hashlib.sha256(body).digest())
    assert len(sent.body) == LOOK + 32
    co.InProcess().run(nodes(pair(quiet, hub=generous(b"a")), logs))
    with pytest.raises(co.ReplayDiverged, match=r"other bytes than were recorded"):
        co.InProcess().run(nodes(pair(quiet, hub=generous(b"b")), logs))


def test_of_a_short_message_the_record_tells_kind_and_length_and_of_an_earlier_hash_nothing():
    body = encode(Question(1), guarded=False)
    assert recorded_form(Letter("a", "b", 0, 0, body)) == body
    assert header_and_length(body[:LOOK], len(body)) == (body[:HEADER_SIZE], len(body))


def test_a_hub_that_changed_is_noticed(logs):
    def changed(gate):
        for number in range(5):
            yield from ask_one(PARTY, Question(number + 1), Reply)
        yield from last({PARTY: Stop()})

    co.InProcess().run(nodes(pair(talkative, hub=rounds), logs))
    with pytest.raises(co.ReplayDiverged, match=r"other bytes than were recorded"):
        co.InProcess().run(nodes(pair(talkative, hub=changed), logs))


def test_public_randomness_depends_on_run_and_label_only():
    assert public_bytes("run", "a", 1) == public_bytes("run", "a", 1)
    assert len({public_bytes(*labels) for labels in [("r", "a"), ("s", "a"), ("r", "b"), ("r", "a", 0)]}) == 4
    assert len(public_bytes("run")) == 32
    assert np.frombuffer(public_bytes("run"), np.uint8).size == 32


# ------------------------------------------------------------------------------------------------ rounds, and what was heard


def test_a_node_is_in_the_latest_round_that_it_has_heard_of():
    """A frame of an earlier round takes nobody back, and one of a later round takes its reader along."""

    def listener(gate):
        for _ in range(4):
            yield Post({HUB: Question(1)}, (HUB,))
        yield from last({HUB: Question(1)})

    node = nodes({PARTY: Toy(listener, (HUB,))})[PARTY]
    sent = node.replay()
    for place, number in enumerate((2, 7, 3, 7)):
        sent += node.step()
        node.deliver(Letter(HUB, PARTY, place, number, encode(Stop(), guarded=False)))
    sent += node.step()
    assert [letter.round for letter in sent] == [0, 2, 7, 7, 7]
    assert [letter.sequence for letter in sent] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("noted", "came", "heard"), [(3, 1, 3), (1, 3, 3), (0, 2, 2), (2, 0, 2)])
def test_a_node_has_heard_what_it_has_and_what_it_wrote_down_in_an_earlier_life(noted, came, heard, tmp_path):
    """A sender that remembers fewer is an old copy, and would draw its noise anew."""
    letters = [Letter(HUB, PARTY, place, 1, encode(Question(place), guarded=False)) for place in range(3)]
    log = FileLog(tmp_path / "party.db")
    Receipts(log, "run", kept=True).note(letters[:noted])
    node = nodes({PARTY: Toy(honest, (HUB,))}, {PARTY: log})[PARTY]
    for letter in letters[:came]:
        node.deliver(letter)
    assert (node.received_from(HUB), node.heard_from(HUB)) == (came, came)
    node.receipts = Receipts(log, "run", kept=True)
    assert (node.received_from(HUB), node.heard_from(HUB)) == (came, heard)
    log.close()


# ------------------------------------------------------------------------------------------------ unasked

BETWEEN, PEER = "between", "peer"
UNASKED = {None: Reply, Question: Reply}


@pytest.mark.parametrize(
    ("relayed", "receiver", "sent"),
    [
        ((), BETWEEN, True),
        ((), PEER, True),
        ((PEER,), PEER, True),
        ((PEER,), BETWEEN, False),  # what is sent unasked is never for the node in the middle
        ((PEER, "other"), BETWEEN, False),
    ],
)
def test_a_guarded_node_sends_unasked_only_what_is_declared_and_to_whom(relayed, receiver, sent):
    node = nodes({PARTY: Toy(honest, (BETWEEN, PEER, "other"), guarded=True, replies=UNASKED)})[PARTY]
    node._relayed = frozenset(relayed)
    if sent:
        node._check_reply(receiver, Reply)
    else:
        with pytest.raises(co.LeakError, match="answers Reply to nothing"):
            node._check_reply(receiver, Reply)
    with pytest.raises(co.LeakError, match="answers Nay to nothing"):
        node._check_reply(receiver, Nay)
    node._asked[receiver] = Question
    node._check_reply(receiver, Reply)  # asked, it answers anybody


def test_a_guarded_node_without_a_declared_message_sends_nothing_unasked():
    node = nodes(pair(honest))[PARTY]
    with pytest.raises(co.LeakError, match="answers Reply to nothing"):
        node._check_reply(HUB, Reply)


def test_a_recorded_step_keeps_place_and_round_of_what_came_and_who_came_first(tmp_path):
    log = FileLog(tmp_path / "node.db")
    came = {"b": Letter("b", "n", 3, 9, b"one"), "a": Letter("a", "n", 4, 7, b"two")}
    sent = [Letter("n", "b", 5, 9, b"three")]
    record = Transcript(log, "run")
    record.record(0, {}, [], SimpleNamespace(flush=lambda: None))
    record.record(1, came, sent, SimpleNamespace(flush=lambda: None))
    first, second = record.steps("n")
    assert (first.tick, first.order, first.received, first.sent) == (0, (), {}, {})
    assert (second.tick, second.order, second.sent) == (1, ("b", "a"), {"b": b"three"})
    found = {name: (x.sender, x.receiver, x.sequence, x.round, x.body) for name, x in second.received.items()}
    assert found == {"b": ("b", "n", 3, 9, b"one"), "a": ("a", "n", 4, 7, b"two")}
    log.close()


@pytest.mark.parametrize("bare", [3, 3.0, None, "3", True], ids=repr)
def test_of_a_party_nothing_but_what_was_released_stands_in_a_note(bare):
    """Notes are no messages: an engine tells them to whoever watches, so they pass the same gate."""
    told: list[tuple[str, dict]] = []

    def noting(also):
        def party(gate):
            yield from receive(HUB, Question)
            value = gate.exact(1)
            yield Post(note={"gap": value, **also})
            yield from last({HUB: Reply(value)})

        return party

    for also in ({}, {"bare": bare}):
        made = nodes(pair(noting(also)))
        for node in made.values():
            node._listener = lambda *note: told.append(note)
        if also:
            with pytest.raises(co.LeakError, match="bare value into a note"):
                co.InProcess().run(made)
        else:
            assert co.InProcess().run(made).results[HUB] == 1
    assert told == [(PARTY, {"round": 1, "party": PARTY, "gap": 1})]
