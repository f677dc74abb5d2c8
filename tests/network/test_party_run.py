"""Claims about one run at a party, part by part and without a hub: whom it meets, what it answers, what it keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.errors import ProtocolError, WireError
from colonnade.network import party_run
from colonnade.network.hub_run import read_outcome
from colonnade.network.party_run import PartyRun, Proposal, absence_in_words
from colonnade.network.party_service import PartyService
from colonnade.network.questions import Based, Counted, Sent, encode_answer, letters_in, pack, read_as
from colonnade.runtime.host import MOST
from colonnade.runtime.hosted_node import Turn
from colonnade.runtime.program import Direct
from colonnade.runtime.wire import Communication, Letter, Traffic, encode

pytestmark = pytest.mark.chance(0, "names of files alone are drawn: no claim depends on them")


def run_of(quorum: int = 0, members: str = "abcd", **more: Any) -> PartyRun:
    """A run at `a`; `b` holds the labels. Whom it takes for lost is listed as host.gone."""
    gone: list[str] = []
    setup = SimpleNamespace(name="a", quorum=quorum)
    host = SimpleNamespace(setup=setup, gone=gone, give_up=gone.append, **more)
    data = SimpleNamespace(file=SimpleNamespace(members=dict.fromkeys(members), label=("b", "y")))
    proposal = SimpleNamespace(run="run", agreement=None, told="")
    return PartyRun(proposal, host, None, SimpleNamespace(data=data))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("peers", "quorum", "gone"),
    [
        ("bcd", 0, ""),
        ("dbc", 4, ""),
        ("bd", 3, "c"),
        ("b", 2, "cd"),
        ("bd", 4, None),
        ("bd", 0, None),
        ("cd", 2, None),  # without whoever holds the labels
        ("", 1, None),
        ("bbd", 3, None),
        ("bb", 2, None),
        ("bbcd", 0, None),
        ("abcd", 0, None),
        ("abd", 3, None),
        ("bcx", 3, None),
        ("bcdx", 0, None),
    ],
)
def test_a_party_meets_every_other_of_its_file_once_and_those_whom_its_policies_spare_are_lost(peers, quorum, gone):
    one = run_of(quorum)
    if gone is None:
        with pytest.raises(ProtocolError, match="once"):
            one.meet(list(peers), [])
    else:
        one.meet(list(peers), [])
    assert (one.met, "".join(one.host.gone)) == (gone is not None, gone or "")


@pytest.mark.parametrize("blobs", [[b"one too many"], [b""] * 3])
def test_what_a_party_did_not_ask_for_it_does_not_read(blobs):
    one = run_of()
    with pytest.raises(ProtocolError, match="once"):
        one.meet(list("bcd"), blobs)
    assert not one.met


def letters(*sizes: int) -> tuple[Letter, ...]:
    return tuple(Letter("a", "b", place, 1, bytes(size)) for place, size in enumerate(sizes))


def test_an_answer_has_its_room_and_nobody_is_finished_while_letters_wait(monkeypatch):
    monkeypatch.setattr(party_run, "PARCEL", 10)
    one = run_of()
    done = Turn(letters(4, 6, 1, 25, 5), True, ("b",), ({"n": 1},), 3, ProtocolError("no"))
    one.keep_turn(done)
    said = []
    while True:
        found = one.say_turn(done, None)
        sizes = [len(x.body) for x in letters_in(found.letters, "run")]
        said.append((sizes, found.more, found.finished))
        assert (found.wait, found.notes, found.told, found.failure > 0) == (("b",), ({"n": 1},), 3, True)
        if not found.more:
            break
    assert said == [([4, 6], True, False), ([1], True, False), ([25], True, False), ([5], False, True)]
    assert one.say_again(None) == Sent(letters=(), more=False)  # an answer without a turn says nothing of one


def test_nobody_is_finished_while_notes_wait():
    one = run_of()
    done = Turn((), True, (), ({"n": 1},), more=True)
    assert [
        (said.more, said.finished) for said in (one.say_turn(done, None), one.say_turn(done._replace(more=False), None))
    ] == [(True, False), (False, True)]


def test_an_answer_has_no_more_letters_than_a_hub_reads():
    one = run_of()
    one.waiting = [Letter("a", "b", place, 1, b"") for place in range(2 * MOST + 1)]
    found = [one.say_again(None) for _ in range(3)]
    assert [(len(said.letters), said.more) for said in found] == [(MOST, True), (MOST, True), (1, False)]


@pytest.mark.parametrize(("name", "most"), [("a", 1000), ("a" * 200, 153)])
def test_what_was_sent_in_however_many_rounds_fits_into_one_answer_with_every_byte_counted(name, most, monkeypatch):
    """Here in a thousand lines of 100 kB, whichever is less."""
    assert (party_run.LINES, party_run.LARGEST) == (1 << 19, 64 << 20)
    monkeypatch.setattr(party_run, "LINES", 1000)
    monkeypatch.setattr(party_run, "LARGEST", 100_000)
    rounds = 5 * most
    kinds = {"Bid": [1, 40, 3], "Finish": [2, 5, 0]}
    lines = {(name, "coordinator", kind, t): counts for t in range(rounds) for kind, counts in kinds.items()}
    one = run_of(node=SimpleNamespace(finished=True, result=None), run="run", outcome=lambda: (None, Traffic(lines)))
    one.host.setup.remark = lambda _: ""
    one.host.ledger = SimpleNamespace(tell_operator=lambda *_: None)
    raw = encode_answer(one.outcome())
    _, told = read_outcome(name, read_as(Counted, raw))
    assert len(raw) <= 100_000
    assert most / 2 <= len(told.lines) <= most
    assert Communication.of(told).rounds == rounds - 1
    for kind, counts in kinds.items():
        found = [told.lines[line] for line in told.lines if line[2] == kind]
        assert [sum(figures) for figures in zip(*found, strict=True)] == [rounds * count for count in counts]


def test_rounds_stand_together_under_their_last_and_the_beginning_alone():
    sent = Traffic(
        {("a", to, "Bid", t): [1, 10 + t, 1] for t in (0, 1, 2, 3, 4, 7) for to in "bc" if t != 3 or to == "b"}
    )
    assert sent.in_lines(11) is sent
    by_two = {0: [1, 10, 1], 2: [2, 23, 2], 4: [2, 27, 2], 7: [1, 17, 1]}
    found = sent.in_lines(10)
    assert {line[3]: counts for line, counts in found.lines.items() if line[1] == "b"} == by_two
    assert {line[3] for line in found.lines if line[1] == "c"} == {0, 2, 4, 7}
    assert len(sent.in_lines(4).lines) == 4
    assert len(sent.in_lines(1).lines) == 4  # the rounds of an edge, and what came before them: there is no less


def test_only_what_was_sent_again_takes_the_hub_and_all_of_it_does():
    taken: list[tuple[int, bool]] = []

    def send(_run, letter, *, again):
        taken.append((letter.sequence, again))
        return letter

    body = encode(Direct(bytes(16)), guarded=False)
    sent = [Letter("a", "b", place, 1, body) for place in range(3)]
    one = run_of(resend=lambda _: sent[:2])
    one.cover = SimpleNamespace(seal=lambda *_: {"b": (b"", b"content")})  # type: ignore[assignment]
    one.resend({})
    one.waiting += sent[2:]
    one.say_again(SimpleNamespace(send=send))  # type: ignore[arg-type]
    assert taken == [(0, True), (1, True), (2, False)]


@pytest.mark.parametrize(("failure", "kept"), [(None, True), (ProtocolError("no"), False)])
def test_a_result_is_written_down_once_and_none_of_a_run_that_failed(failure, kept):
    one, written = run_of(), []
    one._keep_result = lambda: written.append(setattr(one, "kept", True))  # type: ignore[method-assign]
    one.keep_turn(Turn((), False, ()))
    assert written == []
    for _ in range(2):
        one.keep_turn(Turn((), True, (), failure=failure))
    assert len(written) == kept


def test_a_run_keeps_its_call_and_its_rows():
    calls = [SimpleNamespace(to_json=lambda text=text: text) for text in ("call", "other")]
    agreements = [SimpleNamespace(session="s"), SimpleNamespace(session="t"), None]
    first, again = (Proposal("run", calls[0], agreements[0], "code") for _ in range(2))  # type: ignore[arg-type]
    assert first.is_same(again)
    others = [Proposal("run", *about, "code") for about in zip((calls[1], *calls[:1] * 2), agreements, strict=True)]  # type: ignore[arg-type]
    assert not any(first.is_same(other) for other in others)
    assert len({one.content for one in (first, *others)}) == 4
    assert len({one.told for one in (first, others[0], Proposal("run 2", calls[0], None, ""))}) == 3  # type: ignore[arg-type]


def test_what_happens_when_a_party_falls_silent_is_said_as_the_file_has_it():
    file = SimpleNamespace(members=dict.fromkeys("abcd"), deadline=90.0)
    kept = "goes on while 3 of 4 parties are left, the label holder among them"
    assert absence_in_words(file, 3) == f"if a party is silent for 90 seconds, the run {kept}"  # type: ignore[arg-type]
    file.deadline = None
    ends = "if a party is silent longer than the coordinator's patience, the run ends"
    assert absence_in_words(file, 0) == ends  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ what it is told


def learned(folder, basis: str, *, begun: bool = True, over: bool = False) -> None:
    log = SimpleNamespace(rows=lambda *_: [1] if begun else [], holds=lambda *_: over)
    service = SimpleNamespace(log=log, run_store=SimpleNamespace(folder=folder))
    PartyService.learned(service, Based(what="learned", run="run", basis=basis))  # type: ignore[arg-type]


def test_a_basis_is_kept_once_and_of_an_open_run_alone(tmp_path):
    (tmp_path / "fits").mkdir()
    kept, basis = tmp_path / "fits" / "run.basis", "0123456789abcdef" * 4
    for wrong in (basis[1:], f"{basis}0", f"{basis}\n", basis.upper(), f"/{basis[1:]}"):
        with pytest.raises(WireError, match="basis"):
            read_as(Based, pack({"what": "learned", "run": "run", "basis": wrong}))
    for state in ({"begun": False}, {"over": True}):
        with pytest.raises(ProtocolError, match="a basis is told once"):
            learned(tmp_path, basis, **state)
    assert not kept.exists()
    for _ in range(2):
        learned(tmp_path, basis)
    with pytest.raises(ProtocolError, match="a basis is told once"):
        learned(tmp_path, basis[::-1])
    assert kept.read_text() == basis
    assert kept.stat().st_mode & 0o077 == 0
