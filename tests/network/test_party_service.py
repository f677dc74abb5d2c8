"""Claims about a party's service and the hub against each other: whatever one of them says, the other gives no more than it should.

Offices live in this process and a hub of straw asks them directly, so that it can ask anything in any order, lose a party at
any question, and answer anything in a party's place.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import math
import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import colonnade as co
from colonnade.cli.runs import list_runs
from colonnade.data.alignment import bitmap
from colonnade.errors import ColonnadeError, PeerFailed, ProtocolError, StoreError, WireError
from colonnade.methods import gatekeeper
from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network import refusals
from colonnade.network.hub import Grpc, read_answer
from colonnade.network.hub_run import RunLog
from colonnade.network.party_data import PartyData
from colonnade.network.party_file import Limits
from colonnade.network.party_run import Request
from colonnade.network.party_service import DIVERGED, OK, UNAVAILABLE, UNKNOWN, PartyService
from colonnade.network.questions import Parcel, Question, Said, pack, unpack
from colonnade.network.transport.envelope import PeerTimeout
from colonnade.privacy.block import Unit
from colonnade.privacy.events import Ending, How
from colonnade.runtime.host import Answered
from colonnade.runtime.hosted_node import FINAL
from colonnade.runtime.program import Failed, FailureCode
from colonnade.runtime.wire import Letter, decode, encode
from tests.helpers import stub_hub
from tests.helpers.contract import EVERY_METHOD, Case, federation, fitted
from tests.helpers.frames import letters_of, with_letters
from tests.helpers.organisations import Organisations, same_arrays
from tests.helpers.spending import own_spent
from tests.helpers.stub_hub import (
    BREAKS,
    GRAPH,
    NOISY,
    REFUSES,
    SECURE,
    STAR,
    STOPS,
    Straw,
    entries,
    failing_turn,
    keyed,
    met,
    proposal,
    run_of,
    straw_hub,
)

tmp_path = stub_hub.tmp_path

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


# ------------------------------------------------------------------------------------------------ a refusal in words


def test_every_refusal_says_why_it_may_be_what_to_do_and_what_was_spent():
    """Whatever the question and the code, also one that no version knows; and a code is all that decides."""
    for what, code in itertools.product(Question, [*(int(code) + 1 for code in FailureCode), 99, None, "text"]):
        with pytest.raises(PeerFailed) as raised:
            read_answer("bank", Question(what), pack({"code": code}))
        text = str(raised.value)
        assert text.startswith(f"'bank' refused {what!r} (")
        assert any(word in text for word in ("Ask ", "ask its operator", "Check ", "Let every party", "Install "))
        assert any(word in text for word in ("spends nothing", "nothing was spent", "gets back"))


def test_what_a_refused_reservation_costs_is_as_its_message_says(tmp_path):
    """Nothing at who refused; at who had agreed, its own part returns and the others' part stays counted.

    By a hub that does not ask first whether all would take part (test_consider.py: by one that does)."""
    with straw_hub(SECURE, tmp_path, co.Policy(epsilon=10.0, delta=1e-5)) as straw:
        first, *_, last = straw.made.names
        straw.services[last].approve = lambda _: False
        ask = straw.ask
        straw.ask = lambda party, what, *rest: (
            Answered(lambda: Said()) if what == "consider" else ask(party, what, *rest)
        )
        with pytest.raises(PeerFailed, match="Whoever had reserved already gets back its own part, and goes on"):
            co.fit(
                straw.made.federation,
                SECURE.problem,
                SECURE.method,
                SECURE.privacy,
                engine=straw,
                store=tmp_path / "hub",
            )
        spent = {name: service.ledger for name, service in straw.services.items()}
        assert spent[last].row_spent() == 0
        assert own_spent(spent[first]) == 0
        assert spent[first].row_spent() > 0
        assert not straw.wire


class Board:
    """The lines of a hub, on which party0 answers one question so, or with an error of the network."""

    def __init__(self, straw: Straw, what: str, said: bytes | ColonnadeError) -> None:
        self.straw, self.what, self.said = straw, what, said

    def connected(self) -> set[str]:
        return self.straw.connected()

    def ask(self, party: str, request: bytes, *, timeout: float) -> Answered:
        if (party, unpack(request).head["what"]) != ("party0", self.what):
            return Answered(lambda: self.straw.services[party].answer(request))
        return Answered(lambda: self.said if isinstance(self.said, bytes) else (_ for _ in ()).throw(self.said))


@pytest.mark.parametrize("what", ["consider", "turn"])
@pytest.mark.parametrize(
    ("said", "state"),
    [
        (PeerTimeout("no answer"), "failed: a party did not answer in time"),
        (PeerFailed("it has stopped"), "failed: a party could not go on"),
        (pack({"code": STOPS}), "failed: a party could not go on"),
        (pack({"code": REFUSES}), "refused: a party's policy, budget or operator said no"),
    ],
    ids=["silent", "gone", "failed", "refused"],
)
def test_the_list_of_runs_says_whether_a_party_was_silent_failed_or_refused(what, said, state, tmp_path):
    """At the coordinator; other parties hear that another node was the reason, and not which of the three it was."""
    with straw_hub(STAR, tmp_path) as straw:
        straw._board = Board(straw, what, said)
        straw.ask = functools.partial(Grpc.ask, straw)
        with pytest.raises(PeerFailed):
            run_of(straw, STAR, tmp_path / "hub")
    assert {"run": state} == {line["run"]: line["state"] for line in list_runs(tmp_path / "hub")}
    coarse = (
        {"run": "the hub says: failed: another node refused, could not go on or did not answer"}
        if what == "turn"
        else {}
    )
    assert coarse == {line["run"]: line["state"] for line in list_runs(tmp_path / "party1")}


@pytest.mark.parametrize("said", [PeerTimeout("no answer"), pack({"code": UNAVAILABLE})], ids=["silent", "unavailable"])
def test_a_finished_run_gives_its_fit_though_a_party_cannot_be_told_that_it_is_over(said, tmp_path, caplog):
    """An error would say to repeat the call, which begins and pays another run; the party is told before the next one."""
    with straw_hub(STAR, tmp_path) as straw:
        straw._board = Board(straw, "over", said)
        straw.ask = functools.partial(Grpc.ask, straw)
        fit = run_of(straw, STAR, tmp_path / "hub", "first")
        assert ("first", co.load(tmp_path / "hub" / "fits" / "first.json").objective) == (fit.run, fit.objective)
        assert {line["run"]: line["state"] for line in list_runs(tmp_path / "hub")} == {"first": "finished"}
        assert straw.services["party0"].ledger.open_runs() == {"first"}
        assert "over, and not everybody could be told" in caplog.text
        straw._board = Board(straw, "", said)
        run_of(straw, STAR, tmp_path / "hub", "second")
        assert straw.services["party0"].ledger.open_runs() == set()


def test_how_a_run_ended_has_words_for_every_error_that_ends_one_and_keeps_what_it_does_not_know():
    for kind in (*FINAL, PeerFailed, refusals.PeerSilent, refusals.PeerRefused, refusals.PeerBroken):
        assert kind.__name__ not in Ending(How.REFUSED, kind.__name__).words
    assert Ending(How.FAILED, "KeyError").words == "failed: KeyError"
    assert Ending(How.REFUSED, by_hub=True).words == "the hub says: refused"
    assert Ending(How.REFUSED, "PeerFailed", by_hub=True).words.startswith("the hub says: failed: another node")


# ------------------------------------------------------------------------------------------------ the coordinator's log


def told(caplog) -> list[tuple[str, dict]]:
    """Words and named figures of the coordinator's lines about runs."""
    usual = {*vars(logging.makeLogRecord({})), "message"}
    lines = [record for record in caplog.records if record.name == "colonnade.network.hub"]
    return [(line.message, {name: v for name, v in vars(line).items() if name not in usual}) for line in lines]


@pytest.mark.parametrize("case", [STAR, GRAPH], ids=["star", "graph"])
def test_the_coordinators_log_tells_how_a_run_goes_in_counts(case, tmp_path, caplog):
    caplog.set_level(logging.INFO, "colonnade.network.hub")
    with straw_hub(case, tmp_path) as straw, mock.patch("colonnade.network.hub_run.PAUSE", 0.0):
        fit = run_of(straw, case, tmp_path / "hub")
    (first, proposed), (second, began), *middle, (last, ended) = [
        (said, {**figures, "seconds": type(figures.get("seconds"))})
        for said, figures in told(caplog)
        if said != "letters between parties"
    ]
    sent = fit.communication
    assert (first, second, last) == ("proposed", "reserved by all", "over")
    assert proposed == {
        "run": "run",
        "method": case.method.TITLE,
        "parties": len(straw.made.names),
        "seconds": type(None),
    }
    assert began == {"run": "run", "seconds": int}
    counts = {"rounds": sent.rounds, "messages": sent.messages, "bytes": sent.bytes}
    assert ended == {"run": "run", "how": "finished", **counts, "seconds": int}
    rounds = [figures.pop("round") for _, figures in middle]
    assert {said for said, _ in middle} == {"under way"}
    assert all(figures == {"run": "run", "seconds": int} for _, figures in middle)
    assert rounds == sorted(rounds)
    assert 0 < rounds[-1] <= sent.rounds


def test_the_coordinators_log_tells_of_a_run_that_is_refused_stopped_and_gone_on_with(tmp_path, caplog):
    caplog.set_level(logging.INFO, "colonnade.network.hub")
    with straw_hub(STAR, tmp_path) as straw:
        straw.services["party0"].approve = lambda _: False
        with pytest.raises(PeerFailed):
            run_of(straw, STAR, tmp_path / "hub", "refused")
        assert [said for said, _ in told(caplog)] == ["proposed", "over"]
        caplog.clear()
        straw.services["party0"].approve = lambda _: True
        with contextlib.ExitStack() as full:
            for service in straw.services.values():
                full.enter_context(mock.patch.dict(service.handlers, {"turn": mock.Mock(side_effect=OSError())}))
            full.enter_context(pytest.raises(StoreError))
            run_of(straw, STAR, tmp_path / "hub")
        assert [said for said, _ in told(caplog)] == ["proposed", "reserved by all", "not over"]
        caplog.clear()
        run_of(straw, STAR, tmp_path / "hub")
        assert [said for said, _ in told(caplog)] == ["proposed", "reserved by all", "over"]


def test_a_run_of_many_rounds_does_not_fill_the_coordinators_log(caplog):
    """A turn every second for an hour: one line in ten seconds, and no more."""
    caplog.set_level(logging.INFO, "colonnade.network.hub")
    now = mock.Mock(return_value=0.0)
    with mock.patch("colonnade.network.hub_run.time.monotonic", now):
        run_log = RunLog("run", alone=False)
        run_log.reserved()
        for second in range(1, 3601):
            now.return_value = float(second)
            others = Letter("party0", "party1", 0, 10**6, b"", "")  # what a party says of rounds does not count
            run_log.carried([Letter("coordinator", "party0", 0, 2 * second, b"", ""), others])
    said = [figures for words, figures in told(caplog) if words == "under way"]
    assert [(20 * n, 10 * n) for n in range(1, 361)] == [(f["round"], f["seconds"]) for f in said]


# ------------------------------------------------------------------------------------------------ a party dies


def check_losses(case: Case, folder: Path, reference: co.Fit, undisturbed: co.Fit, calm: dict, lose: dict) -> None:
    with straw_hub(case, folder, lose=lose) as straw:
        fit = run_of(straw, case, folder / "hub")
        assert {len(forms) for forms in straw.wire.values()} == {1}, lose
        for name, service in straw.services.items():
            found = entries(service)
            assert found == calm[name], (name, lose)
            assert service.ledger.open_runs() == set()
            if name in reference.coefficients:
                assert same_arrays(reference.coefficients[name], straw.made.part(name)["coefficients"]), lose
        assert fit.communication == undisturbed.communication


@pytest.mark.parametrize("case", [STAR, GRAPH, SECURE], ids=["star", "graph", "secure"])
def test_a_party_that_dies_at_any_question_changes_nothing(case, tmp_path):
    """Thirty moments, spread over the run: before the answer, after it, heard or not, and without the hub's knowledge."""
    reference = fitted(case)
    with straw_hub(case, tmp_path / "calm") as straw:
        undisturbed = run_of(straw, case, tmp_path / "calm" / "hub")
        calm, questions = {name: entries(service) for name, service in straw.services.items()}, straw.asked
    ways = itertools.cycle(("before", "silently", "after", "idle"))
    moments = list(zip(np.linspace(1, questions, 30).astype(int).tolist(), ways, strict=False))
    for number in range(3):  # ten deaths a run
        check_losses(case, tmp_path / str(number), reference, undisturbed, calm, dict(moments[number::3]))


def test_a_party_that_begins_anew_for_ever_ends_the_run(tmp_path):
    with straw_hub(STAR, tmp_path) as straw, mock.patch("colonnade.network.hub_run.LOSSES", 20):
        service = straw.services["party0"]
        answer = service.answer
        service.answer = lambda raw: pack({"code": UNKNOWN}) if unpack(raw).head["what"] == "turn" else answer(raw)
        with pytest.raises(PeerFailed, match="began anew 20 times"):
            run_of(straw, STAR, tmp_path / "hub")


def test_what_the_hub_ended_before_it_died_is_closed_when_it_is_back(tmp_path):
    """It dies between its own end of a run and telling the parties: the next run tells them."""
    with straw_hub(SECURE, tmp_path, co.Policy(exact=True)) as straw:
        ask = straw.ask
        straw.ask = lambda party, what, *rest: (
            (_ for _ in ()).throw(SystemExit) if what == "over" else ask(party, what, *rest)
        )
        with pytest.raises(SystemExit):
            run_of(straw, SECURE, tmp_path / "hub", "first")
        assert {run for service in straw.services.values() for run in service.ledger.open_runs()} == {"first"}
        straw.ask = ask
        run_of(straw, SECURE, tmp_path / "hub", "second")
        for service in straw.services.values():
            assert service.ledger.open_runs() == set()
            assert service.log.unerased() <= {"node"}
            assert {"first", "second"} == set(service.run_store.ended())


def test_a_full_disk_stops_a_run_that_then_goes_on(tmp_path):
    reference = fitted(STAR)
    with straw_hub(STAR, tmp_path) as straw:
        log, full = straw.services["party1"].log, iter(range(1000))
        append = log.append

        def failing(*row):
            if next(full) == 12:
                raise StoreError("disk full")
            append(*row)

        log.append = failing
        with pytest.raises(StoreError, match="cannot write to its store"):
            run_of(straw, STAR, tmp_path / "hub")
        fit = run_of(straw, STAR, tmp_path / "hub")
        assert {len(forms) for forms in straw.wire.values()} == {1}
    assert all(same_arrays(x, fit.coefficients[name]) for name, x in reference.coefficients.items())


# ------------------------------------------------------------------------------------------------ a hostile hub: runs

WILD = [
    "../../../outside",
    "a/b",
    "owner",
    "align",
    "node",
    "store",
    "x" * 65,
    "",
    "a\x00b",
    b"\xff",
    ".",
    "align/00",
    7,
    None,
    [],
]


@pytest.mark.parametrize("run", WILD, ids=repr)
def test_a_run_has_a_name_that_is_no_path_and_nothing_else_in_the_books(run, tmp_path):
    """A run called "owner" would share rows with the limits that the owner sets; one with a slash, files with anything."""
    with straw_hub(STAR, tmp_path) as straw:
        before = sorted(tmp_path.rglob("*"))
        rows = straw.services["party0"].log.length()
        for what in ("consider", "reserve", "over", "turn", "remember"):
            asked = {**proposal(STAR), "run": run, "how": "finished", "when": "start", "heads": {}, "letters": []}
            assert straw.raw("party0", what, asked).head == {"code": BREAKS}
        assert before == sorted(tmp_path.rglob("*"))
        assert rows == straw.services["party0"].log.length()


@pytest.mark.parametrize("alive", [True, False])
def test_a_run_keeps_the_call_that_was_approved(alive, tmp_path):
    """Method, terms and price are the same: only the problem is another one. Nobody was asked about it."""
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        if not alive:
            straw.die("party0")
        other = proposal(STAR, problem=co.Problem(co.LeastSquares(), co.L1Ball(3.0)))
        assert straw.raw("party0", "reserve", other).head["code"] in (BREAKS, DIVERGED)
        assert straw.raw("party0", "reserve", proposal(STAR)).head["code"] == OK


def test_a_run_keeps_the_table_it_began_with(tmp_path):
    with straw_hub(NOISY, tmp_path) as straw:
        met(straw, NOISY)
        straw.made.tables["party0"] = straw.made.tables["party0"] + 1.0
        straw.die("party0")
        assert straw.raw("party0", "reserve", proposal(NOISY)).head == {"code": DIVERGED}


def test_whether_a_run_is_refused_does_not_depend_on_the_labels(tmp_path):
    """The loss would not accept these labels: a party that lets no exact value leave says no before it looks."""
    answers = set()
    for labels in (np.array([1.0] * 30), np.array([1.0, -1.0] * 15), np.linspace(0, 1, 30)):
        made = Organisations.of(federation(SECURE), tmp_path / str(len(answers)) / str(labels[1]), co.Policy())
        made.labels = {"labels": labels}
        with Straw(made) as straw:
            asked = proposal(replace(SECURE, privacy=None, method=co.SharingADMM(rounds=2)))
            answers |= {straw.raw("labels", what, asked).head["code"] for what in ("consider", "reserve")}
    assert answers == {REFUSES}


def test_a_price_above_the_epsilon_that_is_named_is_refused(tmp_path):
    with straw_hub(NOISY, tmp_path) as straw, mock.patch.object(gatekeeper, "row_rho", return_value=1e9):
        assert straw.raw("party0", "reserve", proposal(NOISY)).head == {"code": REFUSES}


@pytest.mark.parametrize("delta", [0.999, 0.1, 2e-5])
def test_a_limit_on_epsilon_is_not_passed_by_a_large_delta(delta):
    fed, privacy = federation(NOISY), co.Privacy(epsilon=1.0, delta=delta, row_norm=3.0, label_bound=2.0)
    from colonnade.methods.node_setup import terms_of
    from colonnade.model.job import Job

    job = Job(NOISY.problem, fed.roster(), privacy)
    asked = Request(
        "run",
        "party0",
        terms_of(job, NOISY.method),
        Call(NOISY.method, NOISY.problem, privacy),
        NOISY.method.price(job),
        30,
        job.units,
    )
    assert Limits(("PrivateSharingADMM",), 1.0).objection(asked)
    assert not Limits(("PrivateSharingADMM",), 1.0, delta).objection(asked)


def test_nothing_leaves_before_the_parties_have_met(tmp_path):
    with straw_hub(GRAPH, tmp_path) as straw:
        assert straw.raw("party0", "reserve", proposal(GRAPH)).head["code"] == OK
        for what in ("turn", "resend", "outcome"):
            assert straw.raw("party0", what, {"run": "run", "letters": [], "since": {}}).head == {"code": UNKNOWN}
        for peers in ([], ["party1"], ["party1"] * 3, ["party1", "party2", "nobody"]):
            assert straw.raw("party0", "meet", {"run": "run", "peers": peers}).head == {"code": BREAKS}
        assert straw.raw("party0", "turn", {"run": "run", "letters": []}).head == {"code": UNKNOWN}


def test_a_run_that_is_over_gives_nothing_more(tmp_path):
    with straw_hub(NOISY, tmp_path) as straw:
        met(straw, NOISY)
        assert straw.raw("party0", "over", {"run": "run", "how": "finished"}).head["code"] == OK
        assert straw.raw("party0", "turn", {"run": "run", "letters": []}).head == {"code": UNKNOWN}
        assert straw.raw("party0", "reserve", proposal(NOISY)).head == {"code": DIVERGED}


def out_of_order(straw: Straw) -> Parcel:
    """The neighbour's second letter without its first."""
    sent = letters_of(straw.raw("party1", "turn", {"run": "run", "letters": []}).head)
    moved = [replace(x, sequence=x.sequence + 1) for x in sent if x.receiver == "party0"]
    assert moved
    return straw.raw("party0", "turn", with_letters(moved))


def test_a_letter_that_was_moved_on_its_edge_opens_nowhere(tmp_path):
    with straw_hub(GRAPH, tmp_path) as straw:
        met(straw, GRAPH)
        assert out_of_order(straw).head == {"code": BREAKS}


@pytest.mark.parametrize("error", [ProtocolError("one was lost"), ZeroDivisionError()], ids=["final", "unforeseen"])
def test_a_step_that_fails_is_never_tried_again(error, tmp_path):
    """Tried again it would draw its noise again, and use the keys of the farewell for another letter."""
    with straw_hub(GRAPH, tmp_path) as straw:
        met(straw, GRAPH)
        answer = failing_turn(straw, error)
        assert answer.head["code"] == (OK if isinstance(error, ProtocolError) else STOPS)
        if isinstance(error, ProtocolError):
            assert answer.head["failure"] == BREAKS
            assert len(answer.head["letters"]) == 2  # a farewell to each neighbour, covered
        assert straw.services["party0"].ledger.open_runs() == set()
        straw.die("party0")
        assert straw.raw("party0", "reserve", proposal(GRAPH)).head == {"code": DIVERGED}


def test_a_letter_of_a_round_that_nobody_reaches_is_refused(tmp_path):
    """The receiver counts on from it: past 64 bits it could send nothing any more."""
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        letter = Letter("coordinator", "party0", 0, 2**64 - 1, encode(Failed(0), guarded=False))
        assert straw.raw("party0", "turn", with_letters([letter])).head == {"code": BREAKS}


def test_the_outcome_is_told_at_the_end_only(tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        rows = straw.services["party0"].log.length()
        assert straw.raw("party0", "outcome", {"run": "run"}).head == {"code": BREAKS}
        assert rows == straw.services["party0"].log.length()


# ------------------------------------------------------------------------------------------------ a hostile hub: the ledger


@pytest.mark.parametrize("what", ["over", "settle"])
def test_a_hub_that_says_refused_does_not_give_back_what_others_may_have_spent(what, tmp_path):
    with straw_hub(NOISY, tmp_path, co.Policy(exact=False, epsilon=2.0, delta=1e-6)) as straw:
        asked = proposal(NOISY, seeded=False)
        assert straw.raw("party0", "reserve", asked).head["code"] == OK
        ledger = straw.services["party0"].ledger
        reserved, own = ledger.row_spent(), own_spent(ledger)
        assert 0 < own < reserved
        ended = {"run": "run", "how": "refused", "over": {"run": "refused", "another": "finished", "owner": "finished"}}
        assert straw.raw("party0", what, ended).head["code"] == OK
        assert math.isclose(
            ledger.row_spent(), reserved - own
        )  # its own part was not used, and nobody knows of the others'


@pytest.mark.parametrize(
    "how", ["failed/BudgetExhausted", "refused/PolicyRefused", "refused", "hub/refused", "refused/PeerFailed"]
)
def test_what_a_hub_says_of_an_end_is_not_listed_as_the_partys_own_refusal(how, tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        assert straw.raw("party0", "over", {"run": "run", "how": how}).head["code"] == OK
    (line,) = list_runs(tmp_path / "party0")
    assert line["state"] == replace(Ending.of(how), by_hub=True).words
    assert line["state"].startswith("the hub says: ")


def test_a_hubs_question_writes_no_line_of_its_own_into_a_partys_log_and_does_not_fill_it(tmp_path, caplog):
    with straw_hub(STAR, tmp_path) as straw:
        assert straw.raw("party0", f"\x1b[2J\n12:00:00 reserved run=other {'x' * 10**6}").head == {"code": BREAKS}
    (line,) = caplog.text.splitlines()
    assert line.isprintable()
    assert len(line) < 300


@pytest.mark.parametrize(
    "how",
    [
        "",
        "x" * 101,
        "refused/" + "x" * 81,
        "\x1b[2Jfinished",
        "fini\nshed",
        "over",
        "failed/a b",
        None,
        3,
        ["finished"],
    ],
    ids=repr,
)
def test_a_run_ends_with_a_short_printable_word(how, tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        for what in ("over", "settle"):
            assert straw.raw("party0", what, {"run": "run", "how": how, "over": {"run": how}}).head == {"code": BREAKS}
        assert straw.services["party0"].ledger.open_runs() == {"run"}


HEADS = [
    {"party1": [2**64 - 1, "00" * 32]},
    {"party1": [-1, "00" * 32]},
    {"party1": [True, "00" * 32]},
    {"party1": [1.5, "00" * 32]},
    {"party1": [1, "00"]},
    {"party1": [1, "zz"]},
    {"party1": 1},
    ["party1"],
    None,
]


@pytest.mark.parametrize("heads", HEADS, ids=repr)
def test_heads_that_are_none_are_refused(heads, tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        rows = straw.services["party0"].log.length()
        for what in ("vouch", "remember"):
            assert straw.raw("party0", what, {"run": "run", "when": "start", "heads": heads}).head == {"code": BREAKS}
        assert rows == straw.services["party0"].log.length()


def test_heads_are_kept_twice_a_run_and_not_as_often_as_a_hub_likes(tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        met(straw, STAR)
        rows = straw.services["party0"].log.length()
        for run, when in itertools.product(("run", "unknown"), ("start", "start", "end", "again")):
            straw.raw("party0", "remember", {"run": run, "when": when, "heads": {"party1": [1, "00" * 32]}})
        strange = {"run": "run", "when": "end", "heads": {"stranger": [1, "00" * 32]}}
        assert straw.raw("party0", "remember", strange).head == {"code": BREAKS}
        assert rows + 2 == straw.services["party0"].log.length()


def test_an_old_copy_is_still_noticed_by_what_others_remember(tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        run_of(straw, STAR, tmp_path / "hub", "first")
        seen = straw.raw("party0", "standing").head["heads"][""]
        assert straw.raw("party0", "vouch", {"heads": {"labels": seen}}).head["code"] == OK
        longer = {"labels": [seen[0] + 1, seen[1]]}
        assert straw.raw("party0", "vouch", {"heads": longer}).head == {"code": DIVERGED}


def standings(folder: Path, scale: float) -> tuple[list, int, str]:
    """What the hub hears of a party's records in a private run, how much its outcome adds, what its operator reads."""
    made = Organisations.of(federation(SECURE), folder)
    made.tables = {name: scale * table for name, table in made.tables.items()}
    told, added = [], []
    with Straw(made) as straw:
        ask, log = straw.ask, straw.services["party0"].log

        def curious(party, what, *rest):
            length, answer = log.length(), ask(party, what, *rest)
            told.append(tuple(straw.raw("party0", "standing").head["heads"][""]))
            assert told[-1][1] != log.head_at(told[-1][0]).hex() or not told[-1][0]
            added.extend([log.length() - length] if (party, what) == ("party0", "outcome") else [])
            return answer

        straw.ask = curious
        run_of(straw, SECURE, folder / "hub")
        ((_, note),) = straw.services["party0"].ledger.operator_notes()
    return told, *added, note


def test_what_the_hub_hears_of_a_ledger_says_nothing_about_the_data(tmp_path):
    """Rows over the bound are counted for the operator, in the ledger. Its length must not tell whether there are any;
    nor its head how many, which is keyed, since a hub could hash every count there is and compare."""
    _, few, none = standings(tmp_path / "small", 1e-6)
    told, many, all_ = standings(tmp_path / "large", 1e6)
    assert none == "no rows were over the public bound"
    assert all_.startswith("30 of 30 rows")
    assert few == many == 1
    assert len(set(told)) > 10


# ------------------------------------------------------------------------------------------------ a hostile hub: alignment


class Aligned:
    """An alignment that a hub of straw drives step by step."""

    def __init__(self, straw: Straw, session: str) -> None:
        self.straw, self.session, self.names = straw, session, straw.made.names
        self.keys = {name: self.ask(name, "greet").blobs for name in self.names}
        shares = {name: self.ask(name, "share", self.keys[self.other(name)]).blobs for name in self.names}
        self.given = {name: [*self.keys[self.other(name)], *shares[self.other(name)]] for name in self.names}
        self.offers = {name: self.ask(name, "offer", self.given[name]).blobs[0] for name in self.names}

    def other(self, name: str) -> str:
        return next(peer for peer in self.names if peer != name)

    def ask(self, name: str, what: str, blobs=()) -> Parcel:
        return self.straw.raw(name, what, {"session": self.session, "peers": [self.other(name)]}, list(blobs))

    def bits(self, name: str, without: int = 0) -> bytes:
        mine, theirs = (
            {self.offers[party][at : at + 16] for at in range(0, len(self.offers[party]), 16)}
            for party in (name, self.other(name))
        )
        common = sorted(mine & theirs)[without:]
        places = [at for at, digest in enumerate(sorted(mine)) if digest in common]
        return bitmap(np.array(places, np.int64), len(mine))

    def agreed(self, name: str, without: int = 0) -> int:
        return self.ask(name, "agreed", [*self.given[name], self.bits(name, without)]).head["code"]


def test_a_party_agrees_on_its_rows_once_however_many_alignments_were_prepared(tmp_path):
    """Two agreements that differ in one row show what that row contributes."""
    with Straw(keyed(tmp_path)) as straw:
        first, second = Aligned(straw, "first"), Aligned(straw, "second")
        assert [first.agreed(name) for name in first.names] == [OK, OK]
        kept_ = straw.services["bank"].agreement()
        assert second.agreed("bank", without=1) == REFUSES
        assert second.ask("bank", "share", second.keys["shop"]).head == {"code": REFUSES}
        assert first.agreed("bank", without=1) == BREAKS
        assert straw.services["bank"].agreement() == kept_


def test_an_alignment_below_the_least_number_of_rows_is_refused(tmp_path):
    with Straw(keyed(tmp_path, least=8)) as straw:
        aligned = Aligned(straw, "session")
        assert aligned.agreed("bank", without=1) == REFUSES
        assert straw.services["bank"].agreement() is None


@pytest.mark.parametrize("session", ["../x", "", "a b", "x" * 65, 3, None], ids=repr)
def test_a_session_has_a_name_that_is_no_path(session, tmp_path):
    with Straw(keyed(tmp_path)) as straw:
        for what in ("greet", "share", "offer", "agreed"):
            assert straw.raw("bank", what, {"session": session, "peers": ["shop"]}).head == {"code": BREAKS}


def test_an_alignment_that_a_hub_left_half_done_is_ended_by_the_next(tmp_path):
    with Straw(keyed(tmp_path)) as straw:
        assert Aligned(straw, "session").agreed("bank") == OK
        assert straw.services["shop"].agreement() is None
        met_ = straw.meet(straw.made.federation)
        assert (straw.session, met_.rows) == ("session", 8)
        assert straw.services["shop"].agreement().rows == 8


def test_parties_that_are_told_different_things_under_one_run_do_not_meet(tmp_path):
    """Or each would approve its own half of something that nobody has approved."""
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    with Straw(keyed(tmp_path)) as straw:
        straw.meet(straw.made.federation)
        said = {}
        for name, rounds in (("bank", 20), ("shop", 21)):
            call = Call(co.SharingADMM(rounds=rounds), problem, None)
            head = {"run": "run", "call": call.to_json(), "code": protocol_of(call.method), "session": straw.session}
            said[name] = straw.raw(name, "reserve", head)
            assert said[name].head["code"] == OK
        for name, other in (("bank", "shop"), ("shop", "bank")):
            answer = straw.raw(name, "meet", {"run": "run", "peers": [other]}, said[other].blobs)
            assert answer.head == {"code": BREAKS}


@pytest.mark.parametrize("name", ["graph admm", "private gram, secure"])
def test_keys_of_parties_that_were_told_different_things_are_not_taken(name, tmp_path):
    """On a graph, and where parties talk through the hub: also if rows need no agreement."""
    case = EVERY_METHOD[name]
    with straw_hub(case, tmp_path) as straw:
        ask = straw.ask

        def told(party, what, head=None, blobs=(), *_):
            if (party, what) == ("party1", "reserve"):
                call = json.loads(head["call"])
                call["noise"] = 2  # of many things that may differ
                head = {**head, "call": json.dumps(call)}
            return ask(party, what, head, blobs)

        straw.ask = told
        with pytest.raises(ColonnadeError):
            run_of(straw, case, tmp_path / "hub")
        kinds = {type(decode(body)).__name__ for forms in straw.wire.values() for body in forms}
        assert kinds <= {"Failed", "RunKey"}  # nothing has left but keys, and that they were not taken


def test_what_a_party_keeps_beside_its_ledger_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with Straw(keyed(tmp_path)) as straw:
            fit = co.fit(
                straw.made.federation,
                co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
                co.SharingADMM(rounds=3),
                engine=straw,
                store=tmp_path / "hub",
            )
            co.score(fit, straw.made.federation, engine=straw, store=tmp_path / "hub")
        files = [path for name in straw.made.names for path in (tmp_path / name).rglob("*") if path.is_file()]
    finally:
        os.umask(before)
    kept_ = {path.name.split(".", 1)[-1]: path.stat().st_mode & 0o077 for path in files if path.parent.name != "nodes"}
    assert {"json", "part.json", "parquet"} <= kept_.keys()
    assert {name: mode for name, mode in kept_.items() if name in ("json", "part.json", "parquet")} == {
        "json": 0,
        "part.json": 0,
        "parquet": 0,
    }


# ------------------------------------------------------------------------------------------------ a hostile party


class Liar:
    """In the place of a party's service: it answers as the party does, and then changes the answer."""

    def __init__(self, service: PartyService, lies) -> None:
        self.service, self.lies = service, lies

    def answer(self, raw: bytes) -> bytes:
        asked, found = unpack(raw).head, unpack(self.service.answer(raw))
        lie = self.lies.get(asked["what"])
        return pack(*((found.head, found.blobs) if lie is None else lie(dict(found.head), list(found.blobs))))

    def close(self) -> None:
        self.service.close()


def changed(**entries):
    return lambda head, blobs: ({**head, **entries}, blobs)


def dropped(*names):
    return lambda head, blobs: ({name: value for name, value in head.items() if name not in names}, blobs)


LIES = {
    "more without letters": {"turn": lambda head, _: ({**head, "letters": [], "more": True}, [])},
    "more for ever": {"turn": changed(more=True)},
    "told a word": {"turn": changed(told="0")},
    "told below zero": {"turn": changed(told=-1)},
    "notes that are none": {"turn": changed(notes=[3])},
    "a note with a list": {"turn": changed(notes=[{"a": [1] * 10**5}])},
    "a giant note": {"turn": changed(notes=[{"a": "x" * 10**6}])},
    "finished in words": {"turn": changed(finished="yes")},
    "a failure without a code": {"turn": changed(failure=[1])},
    "waits for a number": {"turn": changed(wait=3)},
    "another sender": {
        "turn": lambda head, blobs: ({**head, "letters": [[x[0], "party1", *x[2:]] for x in head["letters"]]}, blobs)
    },
    "a stranger as receiver": {
        "turn": lambda head, blobs: ({**head, "letters": [[*x[:2], "x", *x[3:]] for x in head["letters"]]}, blobs)
    },
    "letters without frames": {"turn": changed(letters=[["party0", "coordinator", ""]])},
    "frames of another run": {
        "turn": lambda head, blobs: ({**head, "letters": [[bytes(16), *x[1:]] for x in head["letters"]]}, blobs)
    },
    "received in words": {"join": changed(received={"coordinator": "many"})},
    "received without end": {"join": changed(received={"coordinator": math.inf})},
    "sent as a list": {"join": changed(sent=[1])},
    "traffic of another": {"outcome": changed(traffic=[["party1", "coordinator", "Bid", 1, 1, 1, 1]])},
    "traffic without end": {"outcome": changed(traffic=[["party0", "coordinator", "Bid", 1, math.inf, 1, 1]])},
    "traffic below zero": {"outcome": changed(traffic=[["party0", "coordinator", "Bid", 1, -1, 1, 1]])},
    "an unknown status": {"outcome": changed(status="SPLENDID")},
    "heads that are none": {"standing": changed(heads={"": [1, "zz"]})},
    "no heads": {"standing": dropped("heads")},
    "a head beyond numbers": {"standing": changed(heads={"": [2**64 - 1, "00" * 32]})},
    "keys that are not there": {"reserve": changed(covers=True)},
    "a word that is not there": {"reserve": changed(confirms=True)},
    "hello without a file": {"hello": dropped("file")},
    "hello with a list as session": {"hello": changed(session=[1], rows=3)},
    "hello without a clock": {"hello": dropped("clock")},
    "no code": {"turn": dropped("code")},
    "a code in words": {"turn": changed(code="ok")},
}


@pytest.mark.parametrize("lies", LIES.values(), ids=LIES)
def test_a_party_that_lies_stops_the_run_and_not_the_hub(lies, tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        straw.services["party0"] = Liar(straw.services["party0"], lies)
        with pytest.raises(ColonnadeError):
            run_of(straw, STAR, tmp_path / "hub")
        straw.services["party0"] = straw.services["party0"].service
        run_of(straw, STAR, tmp_path / "hub", "another")


def test_a_party_that_repeats_its_letters_is_stopped(tmp_path):
    """With `more` it would be asked for ever."""
    said: list = []

    def again(head, blobs):
        said[:] = said or ([(head, blobs)] if head.get("letters") else [])
        return ({**said[0][0], "more": True}, said[0][1]) if said else (head, blobs)

    with straw_hub(STAR, tmp_path) as straw:
        straw.services["party0"] = Liar(straw.services["party0"], {"turn": again})
        with pytest.raises(ProtocolError, match="over and over"):
            run_of(straw, STAR, tmp_path / "hub")


def test_no_answer_of_a_party_service_carries_a_word(tmp_path):
    """Whatever goes wrong: a number, and the details in the party's own log."""
    with straw_hub(STAR, tmp_path) as straw:
        for error in (StoreError("row 17 holds 3.5"), OSError("3.5"), KeyError("3.5"), MemoryError(), RecursionError()):
            with mock.patch.dict(straw.services["party0"].handlers, {"hello": mock.Mock(side_effect=error)}):
                head = straw.raw("party0", "hello").head
            assert head.keys() == {"code"}
            assert head["code"] in (UNAVAILABLE, STOPS)
        deep = json.dumps({**proposal(STAR), "what": "reserve", "call": "[" * 100_000})
        assert straw.raw("party0", "reserve", json.loads(deep)).head == {"code": STOPS}
        assert straw.raw("party0", "hello").head["code"] == OK


def test_a_letter_inside_a_cover_is_not_readable_by_the_hub(tmp_path):
    with straw_hub(GRAPH, tmp_path) as straw:
        run_of(straw, GRAPH, tmp_path / "hub")
        kinds = {type(decode(body)).__name__ for forms in straw.wire.values() for body in forms}
    assert kinds == {"Sealed"}


def test_a_party_service_with_another_key_does_not_open(tmp_path):
    made = Organisations.of(federation(STAR), tmp_path)
    party_data = PartyData(made.file, "party0", made.tables["party0"], None)
    with pytest.raises(co.InvalidInput, match="the federation file pins another signing key"):
        PartyService(party_data, tmp_path / "party0", made.keys["party1"], lambda _: True)


def test_a_wire_error_of_a_party_names_it(tmp_path):
    with straw_hub(STAR, tmp_path) as straw:
        straw.services["party0"] = Liar(straw.services["party0"], {"turn": dropped("wait")})
        with pytest.raises(WireError, match="the answer of 'party0' to 'turn'"):
            run_of(straw, STAR, tmp_path / "hub")


# ------------------------------------------------------------------------------------------------ one unit a ledger


@pytest.mark.chance(0, "units, refusals and what was spent: nothing that was drawn is compared")
def test_between_organisations_a_ledger_has_one_unit_and_another_is_refused_with_advice(tmp_path, caplog):
    """A federation file that protects people follows one that protects rows, over the same stores: nothing is paid or sent."""
    with straw_hub(NOISY, tmp_path, co.Policy(epsilon=10.0, delta=1e-5)) as straw:

        def run() -> co.Fit:
            return co.fit(
                straw.made.federation, NOISY.problem, NOISY.method, NOISY.privacy, engine=straw, store=tmp_path / "hub"
            )

        assert run().privacy.unit == "one row"
        rows = straw.made.file
        before = {name: (entries(service), service.ledger.row_spent()) for name, service in straw.services.items()}
        straw.made.file = straw._file = replace(rows, unit=Unit("patient", 3), people=rows.label[0])
        for name in straw.made.names:
            straw.die(name)
        with pytest.raises(PeerFailed, match="nothing was spent"):
            run()
        assert {
            name: (entries(service), service.ledger.row_spent()) for name, service in straw.services.items()
        } == before
        (why, *_) = [record.why for record in caplog.records if record.message == "refused"]
        assert "its ledger counts for one row, and this run is about one patient" in why
        assert "Ask for the unit one row, or keep runs about one patient" in why
        straw.made.file = straw._file = rows
        for name in straw.made.names:
            straw.die(name)
        run()  # about rows it goes on
        assert all(service.ledger.row_spent() > before[name][1] for name, service in straw.services.items())
