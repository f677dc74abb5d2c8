"""Claims about letters that go from party to party without the hub: the same model, the same counts, the same safety, and a
line that is down costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
from dataclasses import replace
from unittest import mock

import msgspec
import pytest
from typer.testing import CliRunner

grpc = pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

import colonnade as co  # noqa: E402
from colonnade.cli import app  # noqa: E402
from colonnade.data.federation_file import FederationFile  # noqa: E402
from colonnade.errors import InvalidInput, ProtocolError, StoreError, WireError  # noqa: E402
from colonnade.network.neighbours import (  # noqa: E402
    LETTER,
    LONGEST,
    DirectLetter,
)
from colonnade.network.party_file import PartyFile  # noqa: E402
from colonnade.network.party_service import OK, UNAVAILABLE, UNKNOWN  # noqa: E402
from colonnade.network.questions import letters_in, pack, read_as  # noqa: E402
from colonnade.network.transport.metrics import Metrics  # noqa: E402
from colonnade.runtime.host import Computed  # noqa: E402
from colonnade.runtime.program import Direct, Sealed  # noqa: E402
from colonnade.runtime.wire import Letter, decode, encode  # noqa: E402
from tests.helpers.contract import RIDGE, Case, federation  # noqa: E402
from tests.helpers.frames import with_letters  # noqa: E402
from tests.helpers.freshness import (  # noqa: E402
    RunLog,
    one_key_both_ways,
    one_place_on_an_edge,
)
from tests.helpers.organisations import Organisations, free_port, same_arrays  # noqa: E402
from tests.helpers.parties_at_work import at_work as in_threads  # noqa: E402
from tests.helpers.streams import eventually  # noqa: E402
from tests.helpers.stub_hub import (  # noqa: E402
    BREAKS,
    Straw,
    failing_turn,
    met,
    run_of,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LINE = Case(co.GraphRidge(co.Topology.line(4), rounds=6), RIDGE)
RING = Case(
    co.GraphADMM(co.Topology.ring(4), rounds=6), co.Problem(co.LeastSquares(), penalty=co.Lasso(0.05), intercept=True)
)
NAMES = ("party0", "party1", "party2", "labels")
PATIENCE = 60.0


def organisations(folder, listening=NAMES) -> Organisations:
    return Organisations.of(federation(LINE), folder, listening=listening)


@contextlib.contextmanager
def overheard(hub):
    """Every letter that the hub carries between two parties, by its edge."""
    seen, ask = {}, hub.ask

    def listening(party, what, *rest):
        def noted(answer):
            found = answer.result()
            if what in ("turn", "resend"):
                for x in letters_in(found.letters, rest[0]["run"]):
                    seen.setdefault((x.sender, x.receiver), []).append(x)
            return found

        return Computed(ask(party, what, *rest), noted)

    with mock.patch.object(hub, "ask", listening):
        yield seen


def run(made: Organisations, hub, case: Case, name: str) -> co.Fit:
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value=name):
        return co.fit(made.federation, case.problem, case.method, engine=hub, store=made.folder / "hub")


def reference(case: Case, name: str) -> co.Fit:
    """The same run in one process; public randomness follows from its name."""
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value=name):
        return co.fit(federation(case), case.problem, case.method)


def assert_same(there: co.Fit, here: co.Fit, made: Organisations) -> None:
    assert here.status == there.status
    order = ["round", "sender", "receiver", "type"]
    assert here.communication.table().sort(order).equals(there.communication.table().sort(order))
    for party, x in here.coefficients.items():
        assert same_arrays(x, made.part(party, here.run)["coefficients"])


# ------------------------------------------------------------------------------------------------ the same model


@pytest.mark.parametrize("listening", [NAMES, ("party1",)], ids=["all", "some"])
def test_either_road_gives_the_same_model_and_the_hub_sees_no_direct_letter(listening, tmp_path):  # noqa: F811
    """In processes on a network, as in one process. (None of them directly: test_grpc.py.)"""
    made = organisations(tmp_path, listening)
    with made.hub() as hub, made.at_work(hub.port):
        hub._board.wait_for(NAMES, PATIENCE)
        roads = hub.roads(made.file)  # waits for the lines
        assert {frozenset(pair) for pair in itertools.combinations(NAMES, 2) if set(pair) & set(listening)} == {
            frozenset(pair) for pair, up in roads.items() if up
        }
        for case, name in ((LINE, "line"), (RING, "ring")):
            before = (hub.metrics.letters_direct, hub.metrics.letters_relayed)
            with overheard(hub) as seen:
                fit = run(made, hub, case, name)
            assert_same(fit, reference(case, name), made)
            counts = [0, 0]
            for edge, frames in seen.items():
                direct = bool(set(edge) & set(listening))
                counts[not direct] += len(frames)
                assert {type(decode(frame.body)) for frame in frames} == {Direct if direct else Sealed}, edge
            after = (hub.metrics.letters_direct, hub.metrics.letters_relayed)
            assert [new - old for new, old in zip(after, before, strict=True)] == counts
            assert sum(counts) == fit.communication.messages


def test_a_party_that_is_killed_in_mid_run_comes_back_and_the_model_is_the_same(tmp_path):  # noqa: F811
    """By SIGKILL, first one that listens to all others, then one that dials them all."""
    made = organisations(tmp_path)
    with made.hub() as hub, made.at_work(hub.port):
        turns, ask = itertools.count(), hub.ask

        def failing(party, what, *rest):
            if what == "turn" and (at := next(turns)) in (12, 24):
                victim = {12: "party0", 24: "labels"}[at]
                made.kill(victim)
                made.start(victim, hub.port)
            return ask(party, what, *rest)

        with mock.patch.object(hub, "ask", failing):
            fit = run(made, hub, RING, "killed")
        assert next(turns) > 24
    assert_same(fit, reference(RING, "killed"), made)


# ------------------------------------------------------------------------------------------------ another road


@contextlib.contextmanager
def straw(made: Organisations, walled: str | None = None, patience: float = PATIENCE):
    """A hub without a network, and parties in this process that have lines between them; one may be behind a wall."""
    with contextlib.ExitStack() as last:
        hub, lines = last.enter_context(Straw(made)), {}
        for name in made.names:
            options = {"listen": "127.0.0.1:0"} if name == walled else {}
            found = last.enter_context(made.neighbours(name, patience=patience, **options))
            hub.services[name].neighbours, lines[name] = found, found.lines._lines
        for one, other in itertools.permutations(made.names, 2):
            if other in lines[one] and walled in (one, other):
                lines[one][other].since -= patience  # it has been down for long
            elif other in lines[one]:
                hub.services[one].neighbours.lines.wait_for([other], PATIENCE)
        yield hub


def forms(hub: Straw) -> dict:
    """By edge: the kinds of message that the hub carried."""
    found: dict = {}
    for (sender, receiver, _), bodies in hub.wire.items():
        found.setdefault((sender, receiver), set()).update(type(decode(body)) for body in bodies)
    return found


def test_letters_go_through_the_hub_where_a_line_is_down(tmp_path, caplog):  # noqa: F811
    """Nobody is at the address that the file gives for the first party: it listens behind a wall."""
    made = organisations(tmp_path, ("party0", "party2"))
    with caplog.at_level(logging.INFO, "colonnade.network.hub"), straw(made, "party0") as hub:
        fit = run_of(hub, RING, tmp_path / "hub")
        direct, relayed = hub.metrics.letters_direct, hub.metrics.letters_relayed
        told = [hub.services[name].neighbours.metrics for name in NAMES]
    assert_same(fit, reference(RING, "run"), made)
    kinds = forms(hub)
    assert {Sealed} == kinds["party0", "party1"] == kinds["party1", "party0"] == kinds["labels", "party0"]
    assert {Direct} == kinds["party1", "party2"] == kinds["party2", "party1"] == kinds["labels", "party2"]
    assert (direct, relayed) == (sum(m.letters_direct for m in told), sum(m.letters_relayed for m in told))
    assert direct + relayed == fit.communication.messages
    (said,) = [record for record in caplog.records if record.message == "letters between parties"]
    assert (said.run, said.direct, said.relayed) == ("run", direct, relayed)


def test_a_letter_that_is_lost_on_a_line_is_sent_again_through_the_hub(tmp_path):  # noqa: F811
    """The line took it and broke: the receiver waits, says so, and everybody says how far it has come."""
    made = organisations(tmp_path)
    with straw(made, patience=2.0) as hub:
        lines = hub.services["party1"].neighbours.lines
        send, sent = lines.send, itertools.count()
        lines.send = lambda peer, message: next(sent) == 4 or send(peer, message)
        fit = run_of(hub, RING, tmp_path / "hub")
        relayed, direct = hub.metrics.letters_relayed, hub.metrics.letters_direct
    assert next(sent) > 5
    assert_same(fit, reference(RING, "run"), made)
    twice = [bodies for bodies in hub.wire.values() if len(bodies) > 1]  # as a note of it, and as the letter
    assert 1 <= len(twice) <= relayed < direct
    assert all({type(decode(body)) for body in bodies} == {Direct, Sealed} and len(bodies) == 2 for bodies in twice)
    for bodies in twice:  # the same bytes on both roads: one key never seals two contents
        told, sealed = sorted(bodies, key=lambda body: type(decode(body)).__name__)
        assert decode(told).digest == hashlib.sha256(sealed).digest()[:16]


def test_a_party_that_dies_with_unread_letters_gets_them_again(tmp_path):  # noqa: F811
    made = organisations(tmp_path)
    with straw(made) as hub:
        ask, lines = hub.ask, {name: service.neighbours for name, service in hub.services.items()}
        turns = itertools.count()

        def failing(party, what, *rest):
            answer = ask(party, what, *rest)
            if what == "turn" and next(turns) in (5, 12, 20, 29):
                hub.die(party)
                hub.services[party].neighbours = lines[party]  # the same port; the letters of the run are forgotten
            return answer

        hub.ask = failing
        fit = run_of(hub, RING, tmp_path / "hub")
        assert sum(hub.lives.values()) == 4
    assert_same(fit, reference(RING, "run"), made)


def test_a_hub_that_is_stopped_in_mid_run_goes_on_while_letters_wait_at_the_parties(tmp_path):  # noqa: F811
    made = organisations(tmp_path)
    with straw(made) as hub:
        ask, turns = hub.ask, itertools.count()

        def dying(party, what, *rest):
            if what == "turn" and next(turns) == 15:
                raise KeyboardInterrupt
            return ask(party, what, *rest)

        hub.ask = dying
        with pytest.raises(KeyboardInterrupt):
            run_of(hub, RING, tmp_path / "hub")
        fit = run_of(hub, RING, tmp_path / "hub")
    assert_same(fit, reference(RING, "run"), made)


def test_a_farewell_takes_a_line_only_when_the_run_is_over_in_the_books(tmp_path):  # noqa: F811
    """It is in no transcript: if the run could go on, another letter would be covered by the key that covered the farewell."""
    made = organisations(tmp_path)
    with straw(made) as hub:
        met(hub, RING)
        service = hub.services["party0"]
        with (
            mock.patch.object(service.ledger, "close_run", side_effect=StoreError("the disk is full")),
            mock.patch.object(service.neighbours.lines, "send") as sent,
        ):
            assert failing_turn(hub, ProtocolError("one was lost")).head == {"code": UNAVAILABLE}
        assert sent.call_count == 0
        assert service.ledger.open_runs() == {"run"}


# ------------------------------------------------------------------------------------------------ what is refused


def letter(sender="party1", receiver="party0", place=0, body=b"sealed") -> Letter:
    return Letter(sender, receiver, place, 0, body, "Share")


def message(sent: Letter, run: str = "run", frame_run: str | None = None) -> bytes:
    return msgspec.msgpack.encode(DirectLetter(run, sent.frame(frame_run or run)))


def note(sent: Letter) -> Letter:
    """What the hub carries in a letter's stead."""
    return sent.with_body(encode(Direct(sent.check), guarded=False), sent.inside)


@pytest.fixture
def mailbox(tmp_path):  # noqa: F811
    """The letters of one party, without a network."""
    found = organisations(tmp_path, ("party1",)).neighbours("party0", patience=0.1)
    found.begin("run")
    return found


def test_a_letter_comes_once_however_often_it_is_sent(mailbox):
    for sent in (letter(), letter(place=1, body=b"next")):
        for _ in range(3):
            mailbox._take("party1", message(sent))
    assert mailbox.fetch("run", note(letter())) == letter()
    assert mailbox.fetch("run", note(letter())) is None
    assert mailbox.fetch("run", note(letter(place=1, body=b"next"))).body == b"next"
    assert mailbox._held["party1"] == 0


REFUSED = {
    "in another's name": message(letter(sender="labels")),
    "for somebody else": message(letter(receiver="party2")),
    "other bytes for the same place": message(letter(body=b"forged")),
    "a damaged frame": message(letter())[:-1] + b"x",
    "a frame of another run": message(letter(), frame_run="b"),
    "no letter": msgspec.msgpack.encode(["run"]),
    "more than a letter": msgspec.msgpack.encode(["run", letter().frame("run"), [[]] * 5000]),
    "a run that is no name": msgspec.msgpack.encode([["run"], letter().frame("run")]),
    "a table": pack({"run": "run", "letter": letter().frame("run")}),
    "not a message": b"confidential",
    "nothing": b"",
}


@pytest.mark.parametrize("forged", REFUSED.values(), ids=REFUSED)
def test_a_letter_that_is_not_the_neighbours_own_is_refused(forged, mailbox):
    mailbox._take("party1", message(letter()))
    with pytest.raises(WireError):
        mailbox._take("party1", forged)
    assert mailbox.fetch("run", note(letter())) == letter()


def test_letters_of_a_run_that_is_not_on_here_are_dropped(mailbox):
    mailbox._take("party1", message(letter(), run="another"))
    mailbox.end("run")
    mailbox._take("party1", message(letter()))
    mailbox.begin("run")
    assert mailbox.fetch("run", note(letter())) is None
    assert mailbox.metrics.refused == {"run": 2}


def test_a_neighbour_that_never_stops_sending_fills_its_own_room_and_no_more(mailbox):
    with mock.patch("colonnade.network.neighbours.HELD", 4 * (400 + LETTER)):
        for place in range(5):
            mailbox._take("party1", message(letter(place=place, body=bytes(400))))
            mailbox._take("labels", message(letter(sender="labels", place=place)))
    assert mailbox.metrics.refused == {"full": 1}
    assert mailbox._held == {"party1": 4 * (400 + LETTER), "labels": 5 * (6 + LETTER)}
    assert mailbox.fetch("run", note(letter(place=3, body=bytes(400)))) is not None
    assert mailbox._held["party1"] == 0


def test_letters_without_a_body_fill_the_room_of_a_neighbour_too(mailbox):
    """What is kept of a letter is more than its bytes: a thousand million empty ones would fill any memory."""
    with mock.patch("colonnade.network.neighbours.HELD", 100 * LETTER):
        for place in range(300):
            mailbox._take("party1", message(letter(place=place, body=b"")))
    assert mailbox.metrics.refused == {"full": 200}
    mailbox.end("run")
    assert mailbox._held["party1"] == 0


def test_a_neighbour_that_says_something_now_and_then_keeps_nobody_waiting_for_ever(mailbox):
    """A note without its letter, and a word of the sender before each patience ends: a party hangs in it for every run."""
    clock = mock.Mock(side_effect=range(1000))  # a second passes at every look
    mailbox.patience = 10.0
    with (
        mock.patch("colonnade.network.neighbours.time", mock.Mock(monotonic=clock)),
        mock.patch.object(mailbox.lines, "heard", side_effect=lambda _: float(clock.call_count)),
        mock.patch.object(mailbox._arrived, "wait"),
    ):
        assert mailbox.fetch("run", note(letter())) is None
    assert clock.call_count <= LONGEST * mailbox.patience + 2


def test_a_hub_cannot_pass_off_one_letter_for_another(tmp_path):  # noqa: F811
    made = organisations(tmp_path)
    with straw(made) as hub:
        met(hub, RING)
        assert hub.raw("party1", "turn", {"run": "run", "letters": []}).head["code"] == OK
        service = hub.services["party0"]
        eventually(lambda: bool(service.neighbours._letters["run"]))
        service.neighbours.patience = 0.2  # only now: a line that says nothing for so long may still be up
        for forged, code in (
            (letter(body=b"something else"), BREAKS),  # another digest
            (letter(place=1), UNKNOWN),  # it never came
            (letter(sender="nobody"), BREAKS),
        ):
            assert hub.raw("party0", "turn", with_letters([note(forged)])).head == {"code": code}
        assert service.runs["run"].host.join().received["party1"] == 0


# ------------------------------------------------------------------------------------------------ the files


def test_who_dials_follows_from_the_federation_file_alone(tmp_path):  # noqa: F811
    file = organisations(tmp_path, ("party1", "party2")).file
    expected = {
        ("party0", "party1"): "party1",
        ("party1", "party2"): "party1",  # both have an address: the first in the file listens
        ("party2", "labels"): "party2",
        ("party0", "labels"): None,
    }
    assert expected == {pair: file.listener(*pair) for pair in expected}
    assert expected == {pair: file.listener(*reversed(pair)) for pair in expected}
    file.save(tmp_path / "federation.toml")
    assert FederationFile.load(tmp_path / "federation.toml") == file


def test_two_copies_of_the_file_that_differ_in_an_address_are_not_the_same(tmp_path):  # noqa: F811
    made = organisations(tmp_path, ("party1",)).file
    moved = {**made.members, "party1": replace(made.members["party1"], address="elsewhere.example:1")}
    none = {**made.members, "party1": replace(made.members["party1"], address=None)}
    digests = [made.digest, replace(made, members=moved).digest, replace(made, members=none).digest]
    assert len(set(digests)) == 3


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:port", "host:1;rm", "a b:1", 7], ids=repr)
def test_an_address_that_is_none_is_refused(address, tmp_path):  # noqa: F811
    made = organisations(tmp_path, ()).file
    with pytest.raises(InvalidInput, match="host:port"):
        replace(made.members["party1"], address=address)


@pytest.mark.parametrize(("name", "listen"), [("party1", None), ("party0", "127.0.0.1:0")])
def test_a_port_is_opened_only_where_the_federation_and_the_party_both_say_so(name, listen, tmp_path):  # noqa: F811
    with pytest.raises(InvalidInput, match="either both are there, or none"):
        organisations(tmp_path, ("party1",)).neighbours(name, listen=listen)


def test_a_partys_file_says_where_it_listens(tmp_path):  # noqa: F811
    organisations(tmp_path, ("party1",)).file.save(tmp_path / "federation.toml")
    lines = [
        "version = 1",
        'name = "party1"',
        'federation = "federation.toml"',
        'hub = "localhost:1"',
        'store = "store"',
    ]
    lines += ['key = "signing.key"', 'certs = "certs"', "{}", "[data]", 'source = "table.npy"']
    file = tmp_path / "party.toml"
    file.write_text("\n".join(lines).format('listen = "127.0.0.1:0"'))
    with PartyFile.load(file).neighbours(Metrics()) as neighbours:
        assert neighbours.lines.port > 0
        assert neighbours.lines.neighbours == ("party0", "party2", "labels")
    file.write_text("\n".join(lines).format("listen = 7444"))
    with pytest.raises(InvalidInput, match="must be a text"):
        PartyFile.load(file)


# ------------------------------------------------------------------------------------------------ before a run


def test_the_check_says_which_parties_are_connected_directly_and_which_should_be(tmp_path):  # noqa: F811
    made, port = organisations(tmp_path, ("party1", "labels")), free_port()
    made.file.save(tmp_path / "federation.toml")
    with contextlib.ExitStack() as last:
        lines = {name: last.enter_context(made.neighbours(name, patience=0.5)) for name in NAMES if name != "labels"}
        lines["labels"] = None  # it has not opened its port
        for one, other in (("party0", "party1"), ("party2", "party1")):
            lines[one].lines.wait_for([other], PATIENCE)
            lines[other].lines.wait_for([one], PATIENCE)
        last.enter_context(in_threads(made, port, lines))
        options = ["--certs", str(tmp_path / "certs"), "--listen", f"127.0.0.1:{port}"]
        checked = CliRunner().invoke(app, ["federation", "check", str(tmp_path / "federation.toml"), *options])
    assert checked.exit_code == 1
    assert "party0 and party1 are connected directly\n" in checked.output
    assert "party1 and party2 are connected directly\n" in checked.output
    for other in ("party0", "party1", "party2"):
        assert f"not in order: {other} and labels are not connected" in checked.output


# ------------------------------------------------------------------------------------------------ keys on the lines


@contextlib.contextmanager
def written_down(hub: Straw):
    """Wrapped key and content of every letter that went over a line, by run, edge and place."""
    seen: dict = {}
    with contextlib.ExitStack() as last:
        for name, service in hub.services.items():
            lines = service.neighbours.lines

            def noted(receiver, message, name=name, send=lines.send):
                sent = read_as(DirectLetter, message)
                body = decode(sent.letter.body)
                seen[sent.run, name, receiver, sent.letter.sequence] = (body.key, body.content)
                return send(receiver, message)

            last.enter_context(mock.patch.object(lines, "send", noted))
        yield seen


def test_letters_on_real_lines_share_no_key_nonce_or_cover_over_two_runs(tmp_path, monkeypatch):  # noqa: F811
    """Agents with gRPC lines between them: every letter of two runs over a ring goes directly, each under keys of its own."""
    run_log, made = RunLog(monkeypatch), organisations(tmp_path)
    with straw(made) as hub, written_down(hub) as seen:
        for name in ("one", "two"):
            run(made, hub, RING, name)
        assert set().union(*forms(hub).values()) == {Direct}
    assert {found[0] for found in seen} == {"one", "two"}
    assert len(seen) > 100
    covers = [part for pair in seen.values() for part in pair]
    assert len(set(covers)) == len(covers)
    assert len(run_log.sealed) >= 2 * len(seen)  # a content and its wrapped key each
    sealed = {out for *_, out in run_log.sealed}
    assert set(covers) <= sealed  # what went over the lines is what was written down
    run_log.check()


@pytest.mark.parametrize("plant", [one_place_on_an_edge, one_key_both_ways], ids=lambda value: value.__name__)
def test_a_key_that_serves_twice_on_a_line_is_found(plant, tmp_path, monkeypatch):  # noqa: F811
    plant(monkeypatch)
    run_log, made = RunLog(monkeypatch), organisations(tmp_path)
    with straw(made, patience=2.0) as hub, contextlib.suppress(co.ColonnadeError):
        run(made, hub, LINE, "planted")
    with pytest.raises(AssertionError, match="one key sealed two things"):
        run_log.check()
