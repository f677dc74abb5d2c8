"""Claims about what a hub reads of a party's answers and what it tells the parties, part by part and without a run."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed, ProtocolError, WireError
from colonnade.network import hub_run
from colonnade.network.hub import read_answer
from colonnade.network.hub_run import HubRun, LostParties, RemoteParty, RunLog, introductions
from colonnade.network.questions import RUNS, Promised, Question, Said, Sent, letters_out, pack
from colonnade.network.refusals import PeerBroken, PeerRefused, PeerUndecided
from colonnade.privacy.events import ABORTED, FINISHED, Ending, How
from colonnade.runtime.host import Answered, Lost
from colonnade.runtime.program import COORDINATOR, Direct
from colonnade.runtime.wire import Letter, encode
from tests.helpers.hosts import answering

NAMES = [COORDINATOR, "a", "b"]


def failing(error: BaseException) -> Answered:
    return Answered(lambda: (_ for _ in ()).throw(error))


# ------------------------------------------------------------------------------------------------ letters and turns


def party(**more: Any) -> RemoteParty:
    letters: list[bool] = []
    metrics = SimpleNamespace(letter=lambda direct: letters.append(direct), letters=letters)
    hub = SimpleNamespace(metrics=metrics)
    found = {"run": "run", "names": NAMES, "parties": {}, "hub": hub, "local": None, **more}
    return RemoteParty(SimpleNamespace(carried=hub_run.Counter(), **found), "a")  # type: ignore[arg-type]


def sent(*letters: Letter) -> Sent:
    return Sent(letters=letters_out(letters, "run"), more=False)


def from_a(receiver: str, place: int, body: bytes = b"\1\0\0", sender: str = "a") -> Letter:
    return Letter(sender, receiver, place, 1, body)


@pytest.mark.parametrize(
    ("letters", "why"),
    [
        ([from_a("b", 0, sender="b")], "'a' sent a letter as 'b' for 'b'"),
        ([from_a(COORDINATOR, 0), from_a("b", 0, sender=COORDINATOR)], "'a' sent a letter as 'coordinator' for 'b'"),
        ([from_a("c", 0)], "'a' sent a letter as 'a' for 'c'"),
        ([from_a("b", 3), from_a("b", 3)], "over and over"),
        ([from_a("b", 3), from_a("b", 2)], "over and over"),
    ],
)
def test_a_party_sends_in_its_own_name_to_somebody_of_the_run_and_nothing_twice(letters, why):
    with pytest.raises(ProtocolError, match=why):
        party().letters(sent(*letters))


def test_letters_of_either_road_are_counted_where_they_go_from_party_to_party():
    one, note = party(), encode(Direct(bytes(16)), guarded=False)
    letters = [from_a(COORDINATOR, 0), from_a("b", 0, note), from_a("b", 1), from_a("b", 2)]
    assert one.letters(sent(*letters)) == letters
    assert (one.run.carried, one.run.hub.metrics.letters) == ({True: 1, False: 2}, [True, False, False])


def turn(**head: Any) -> Any:
    told = {"finished": False, "more": False, "wait": [], "notes": [], "told": 0, "failure": 0, "letters": [], **head}
    one = party(patience=None)
    one.run.hub.ask = lambda *_: Answered(lambda: read_answer("a", Question.TURN, pack({"code": 0, **told})))
    return one._ask(Question.TURN, one.read_turn).result()


def test_more_may_be_letters_or_notes():
    note = {"round": 1, "party": "a"}
    assert turn(notes=[note], more=True).more


def test_of_those_whom_a_party_says_it_waits_for_strangers_are_left_out():
    assert turn(wait=["b", "x\x1b[2J", COORDINATOR]).wait == ("b", COORDINATOR)


@pytest.mark.parametrize(
    "head", [{"more": True}, {"more": True, "finished": True}, {"more": 1}, {"finished": 0}, {"told": True}]
)
def test_a_turn_says_yes_or_no_and_has_letters_where_more_are_to_come(head):
    with pytest.raises(ColonnadeError, match="'a' to 'turn' is not one"):
        turn(**head)


# ------------------------------------------------------------------------------------------------ figures and words


def test_every_entry_of_every_note_is_a_number_or_a_short_word():
    good = {"round": 1, "party": "a", "gap": 0.5, "what": "x" * 100, "none": None, "n" * 100: True}
    assert turn(notes=[good, good]).notes == (good, good)
    many = {**good, **{f"n{k}": k for k in range(64 - len(good))}}
    assert turn(notes=[many]).notes == (many,)
    for bad in ({"a": []}, {"what": "x" * 101}, {"n" * 101: ""}, {**many, "one more": 1}):
        for notes in ([bad], [good, bad], [{**good, **bad}]):
            with pytest.raises(WireError, match="is not one"):
                turn(notes=notes)


@pytest.mark.parametrize(
    "bad",
    [
        {"party": "b"},  # in another's name
        {"party": COORDINATOR},
        {"round": -1},
        {"round": 1.0},
        {"round": True},
        {"round": "1"},
        {"gap": "0.5"},
        {"gap": True},
        {"objective": "low"},
    ],
    ids=str,
)
def test_a_note_is_its_senders_and_figures_of_a_run_are_numbers(bad):
    """The fit is made of them: what else stood there would end the hub's call once all is spent."""
    good = {"round": 1, "party": "a", "gap": None, "objective": 2}
    assert turn(notes=[good]).notes == (good,)
    with pytest.raises(WireError, match="is not one"):
        turn(notes=[{**good, **bad}])
    if bad.keys() & {"party", "round"}:
        with pytest.raises(WireError, match="is not one"):
            turn(notes=[{name: value for name, value in good.items() if name not in bad}])


def test_a_count_is_a_whole_number_that_a_float_still_has():
    assert [turn(told=count).told for count in (0, 2**53)] == [0, 2**53]
    for wrong in (-1, 2**53 + 1, True, 1.0, "1", None):
        with pytest.raises(WireError, match="is not one"):
            turn(told=wrong)


def test_all_keys_stand_before_all_confirmations():
    said = [
        Promised(covers=True, confirms=True, blobs=(b"key", b"sign", b"rows")),
        Promised(covers=False, confirms=True, blobs=(b"rows 2",)),
        Promised(covers=True, confirms=False, blobs=(b"key 3", b"sign 3")),
    ]
    assert introductions(said) == [b"key", b"sign", b"key 3", b"sign 3", b"rows", b"rows 2"]
    for found in said:
        assert hub_run.check_promise("a", found) is found
        for blobs in (found.blobs[1:], (*found.blobs, b"more")):
            with pytest.raises(ColonnadeError, match="'a' promises"):
                hub_run.check_promise("a", replace(found, blobs=blobs))


# ------------------------------------------------------------------------------------------------ what parties hear


def heads_of(ask: Any, **run: Any) -> list[dict]:
    """What a party is told, as heads of questions."""
    one, heads = party(patience=None, **run), []
    one.run.hub.ask = lambda _name, _what, head, *_: Answered(lambda: heads.append(head) or Said())
    ask(one).result()
    return heads


def test_of_an_end_parties_hear_no_more_than_that_another_node_failed():
    ends = {Ending(How.FAILED, "PeerRefused"): "failed/PeerFailed", FINISHED: "finished", ABORTED: "aborted"}
    for how, said in ends.items():
        assert heads_of(lambda one, how=how: one.close(how)) == [{"run": "run", "how": said}]
        assert heads_of(lambda one, how=how: one.settle({"r": how})) == [{"run": "run", "over": {"r": said}}]


def test_of_very_many_ends_the_newest_are_told():
    (head,) = heads_of(lambda one: one.settle({f"run {n}": FINISHED for n in range(RUNS + 2)}))
    assert (len(head["over"]), next(iter(head["over"])), list(head["over"])[-1]) == (RUNS, "run 2", f"run {RUNS + 1}")


@pytest.mark.parametrize("reserving", [False, True])
def test_of_a_run_that_was_never_begun_parties_keep_nothing(reserving):
    told = {"run": "run", "when": "end", "heads": {"b": (1, "00")}}
    assert heads_of(lambda one: one.remember("end", {"b": (1, b"\0")}), reserving=reserving) == [told] * reserving


def test_who_began_anew_is_lost_before_it_is_asked_anything():
    one, counted = party(process={"a": "1"}, count=lambda lost: counted.append(str(lost))), []
    one.run.hub.process = lambda _: "2"
    with pytest.raises(Lost, match="a"):
        one.turn([]).result()
    assert counted == ["a"]


def told_of_a_basis(answers: dict[str, list[BaseException | None]]) -> list[tuple[str, str, str]]:
    """Who is told, as each answers."""
    told = []

    def ask(name, what, head, *_):
        told.append((name, what, head["basis"]))
        error = answers[name].pop(0)
        return Answered(lambda: None) if error is None else failing(error)

    one = SimpleNamespace(run="run", parties=answers, hub=SimpleNamespace(ask=ask))
    HubRun.announce_release_digest(one, "digest")  # type: ignore[arg-type]
    return told


def test_every_party_is_told_of_a_basis_though_one_begins_anew_and_one_cannot_hear(caplog):
    lost = Lost("b")
    with caplog.at_level(logging.WARNING):
        told = told_of_a_basis({"a": [None], "b": [lost, lost, None], "c": [PeerFailed("no")], "d": [lost] * 3})
    assert told == [(name, Question.LEARNED, "digest") for name in "abbbcddd"]
    assert [record.party for record in caplog.records] == ["c", "d"]


@pytest.mark.parametrize(("how", "said"), [(FINISHED, "left behind"), (ABORTED, "aborted")])
def test_every_party_that_was_lost_hears_that_the_run_is_over_if_it_is_there(how, said):
    told = []

    def ask(name, what, head, *_):
        told.append((name, what, head))
        return failing(Lost(name) if name == "b" else PeerFailed("no"))

    lost = SimpleNamespace(lost=["b", "c"], run=SimpleNamespace(run="run", hub=SimpleNamespace(ask=ask)))
    LostParties.tell_over(lost, how)  # type: ignore[arg-type]
    assert told == [(name, Question.OVER, {"run": "run", "how": said}) for name in "bc"]


# ------------------------------------------------------------------------------------------------ who takes part


def test_a_no_is_told_before_a_lost_party_and_the_first_who_said_no_before_the_others():
    willing = Answered(lambda: None)
    for later in (Lost("a"), PeerUndecided("a")):
        with pytest.raises(type(later)):
            hub_run._check_willing({"a": failing(later), "b": willing})
        answers = {"a": failing(later), "b": failing(PeerRefused("b says no.")), "c": failing(PeerBroken("c broke."))}
        with pytest.raises(PeerRefused, match=r"^b says no\. Nor do these take part: 'c'\.$"):
            hub_run._check_willing(answers)
    hub_run._check_willing({"a": willing})


def test_a_party_begins_anew_as_often_as_machines_fail_and_its_process_is_forgotten(monkeypatch):
    monkeypatch.setattr(hub_run, "LOSSES", 2)
    one = SimpleNamespace(process={"a": "1", "b": "2"}, losses=hub_run.Counter())
    for _ in range(2):
        HubRun.count(one, Lost("a"))  # type: ignore[arg-type]
    assert one.process == {"b": "2"}
    with pytest.raises(PeerBroken, match="'a' began anew 2 times"):
        HubRun.count(one, Lost("a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("alone", "round_"), [(True, 7), (False, 3)])
def test_rounds_are_the_coordinators_or_those_of_the_parties_where_there_is_none(alone, round_):
    run_log = RunLog("run", alone=alone)
    run_log.carried([Letter(COORDINATOR, "a", 0, 3, b""), Letter("b", "a", 0, 7, b"")])
    run_log.carried([Letter(COORDINATOR, "a", 1, 2, b""), Letter("b", "a", 1, 1, b"")])
    assert run_log.round == round_


# ------------------------------------------------------------------------------------------------ what is asked of all


def run_of(**hub: Any) -> Any:
    """A run of a and b, b lost; what it asks of each host is listed."""
    one, asked = HubRun.__new__(HubRun), []
    one.hub = SimpleNamespace(keys={"pinned": b"key"}, patience=60.0, **hub)  # type: ignore[assignment]
    one.run, one.call, one.code, one.reserving, one.patience = "run", "call", "", False, None  # type: ignore[assignment]
    one.parties = {"a": None, "b": None}  # type: ignore[dict-item]
    one.local = SimpleNamespace(reserve=lambda *terms: asked.append((COORDINATOR, "reserve", *terms)))  # type: ignore
    one.all_hosts = answering(NAMES, lambda *question: asked.append(question))  # type: ignore[assignment]
    one.sparing = SimpleNamespace(lost=["b"], tell_over=lambda how: asked.append(("lost", how)))  # type: ignore
    one.run_log = RunLog("run", alone=False)
    one.introduce = lambda names: asked.append(("introduced", list(names)))  # type: ignore[method-assign]
    return one, asked


def test_the_coordinator_reserves_with_the_keys_that_the_file_pins_and_not_with_those_that_were_said():
    one, asked = run_of()
    terms = SimpleNamespace(protocol="code", method="method")
    one.reserve(terms, "plans", {"said": b"key"})
    reserve = (COORDINATOR, "reserve", terms, "plans", {"pinned": b"key"})
    assert (one.code, asked) == ("code", [("introduced", ["a"]), reserve])


@pytest.mark.parametrize(("how", "patience"), [(FINISHED, None), (ABORTED, hub_run.FAREWELL)])
def test_of_a_run_that_failed_nobody_waits_long_for_an_answer(how, patience):
    one, asked = run_of()
    one.close(how)
    assert asked == [("lost", how), *((name, "close", how) for name in (COORDINATOR, "a"))]
    assert (one.patience, one.run_log.ended) == (patience, True)


@pytest.mark.parametrize(("sealing", "pinned"), [(False, False), (False, True), (True, True), (True, False)])
def test_the_coordinators_node_signs_with_the_pinned_key_where_parties_seal_to_it(sealing, pinned, monkeypatch):
    one, _ = run_of(identity=lambda: b"identity")
    one.hub.keys = {COORDINATOR: b"key"} if pinned else {}
    one.call = SimpleNamespace(to_json=lambda: "call")
    monkeypatch.setattr(hub_run, "HostedNode", lambda *_, identity, told: (identity, told.startswith("run/")))
    setup, logs = SimpleNamespace(sealing=sealing), SimpleNamespace(log=lambda _: None)
    if sealing and not pinned:
        with pytest.raises(InvalidInput, match="does not pin its key"):
            one.host(setup, logs)
    else:
        assert one.host(setup, logs) == (b"identity" if sealing else None, True)


@pytest.mark.parametrize("there", [True, False])
def test_who_began_anew_since_it_said_yes_reserves_nothing(there):
    asked = []

    def ask(name, what, *_):
        asked.append((name, what))
        return Answered(lambda: Promised(covers=False, confirms=False))

    one, _ = run_of(ask=ask, listens=lambda name, process: (name, process) != ("b", "2") or there)
    one.process, one.said, one.call = {"a": "1", "b": "2"}, {}, SimpleNamespace(method=None)
    considered = [(name, Question.CONSIDER) for name in "ab"]
    if there:
        one.let_reserve(["a", "b"], {})
        later = [(name, what) for what in (Question.RESERVE, Question.MEET) for name in "ab"]
        assert (asked, one.reserving) == ([*considered, *later], True)
    else:
        with pytest.raises(Lost, match="b"):
            one.let_reserve(["a", "b"], {})
        assert (asked, one.reserving) == (considered, False)
