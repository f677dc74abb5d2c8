"""Claims about the question that a party's operator is asked: what it shows, what counts as an answer, and how it ends without one.

The process is a real one, with a real terminal, real signals and a real hub.
"""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import colonnade as co
from colonnade.cli.party import PROMPT, SEEN, _ask, _cost, _read_reply, _show
from colonnade.errors import BudgetExhausted, PeerFailed, PolicyRefused
from colonnade.methods.node_setup import Call, terms_of
from colonnade.model.job import Job
from colonnade.network.party_run import Request, absence_in_words
from colonnade.privacy import accountant, events
from colonnade.privacy.accountant import Budget
from colonnade.privacy.events import SCORES, Charge, Event, Mechanism, Policy
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.statement import large_delta
from colonnade.runs import budgets as budget
from colonnade.runtime.run_store import RunStore
from tests.helpers.asking import SECONDS, SECURE, Asked, Screen
from tests.helpers.contract import federation
from tests.helpers.organisations import Organisations

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

NO_LIMIT = Budget(None, None, 1, 0.0, 0.0)


def request(epsilon: float | None = 1.0) -> Request:
    privacy = None if epsilon is None else replace(SECURE.privacy, epsilon=epsilon)
    method = SECURE.method if epsilon is not None else co.SharingADMM()
    job = Job(SECURE.problem, federation(SECURE).roster(), privacy)
    plans = method.price(job)
    return Request("run", "party0", terms_of(job, method), Call(method, SECURE.problem, privacy), plans, 30)


# ------------------------------------------------------------------------------------------------ what is shown


def shown(asked: Request, limit: Budget, capsys) -> str:
    _show(asked, limit)
    return " ".join(capsys.readouterr().err.split())


def test_the_terms_are_shown_in_words_and_exactly(capsys):
    asked = request()
    said = shown(asked, NO_LIMIT, capsys)
    assert "The model minimises the logistic loss plus the penalty ridge (weight 0.1), with a free intercept." in said
    assert "privacy epsilon 1 at delta 1e-06 (rho " in said
    for value in (asked.call.problem, asked.call.privacy, asked.call.method):
        assert f"exactly: {' '.join(repr(value).split())}" in said


def test_an_operator_is_shown_who_sees_what_would_leave(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    said = shown(asked := request(), NO_LIMIT, capsys)
    assert "seen by" in said
    assert f"the noisy Gram matrix of all columns, constant and labels │ {asked.own[-3].rho:.4g} │ everybody" in said
    assert "to the coordinator only, who has no mask │ 0 │ its receiver, as uniform numbers" in said
    inside = replace(asked.call.privacy, trust="consortium")
    job = Job(SECURE.problem, federation(SECURE).roster(), inside)
    asked = replace(asked, call=replace(asked.call, privacy=inside), plans=asked.call.method.price(job))
    said = shown(asked, NO_LIMIT, capsys)
    assert (
        f"(exact inside the consortium, noisy outside) │ {asked.own[-3].rho:.4g} │ the parties and their coordinator"
        in said
    )
    scored = replace(asked, plans={"party0": (Charge(SCORES, 1, "its part of the scores"),)})
    assert "its part of the scores │ 0 │ the label holder, in a sum with the others' parts" in shown(
        scored, NO_LIMIT, capsys
    )


def test_a_delta_is_compared_with_the_units_of_the_job_and_not_with_its_rows(capsys):
    """A delta of .1 is too large for 30 rows and for 12 columns, and small enough for 8 columns."""
    asked = request()
    privacy = replace(asked.call.privacy, delta=0.1, allow_large_delta=True)
    said = {
        count: shown(replace(asked, conditions=large_delta(privacy, count, what)), NO_LIMIT, capsys)
        for count, what in ((30, "rows"), (8, "columns"), (12, "columns"))
    }
    assert "delta=0.1 is not below 1/rows = 0.033" in said[30]
    assert "is not below" not in said[8]
    assert "delta=0.1 is not below 1/columns = 0.083" in said[12]


def test_exact_values_are_called_so(capsys):
    said = shown(request(None), Budget(2.0, 1e-6, 1, 0.0, 0.0), capsys)
    assert "privacy none: exact values leave" in said
    assert "as no epsilon holds for exact values: it will be refused" in said


def test_without_deadline_and_quorum_a_silent_party_ends_the_run_when_patience_does(tmp_path):
    file = Organisations.of(federation(SECURE), tmp_path).file
    assert absence_in_words(file, 0) == "if a party is silent longer than the coordinator's patience, the run ends"


@pytest.mark.parametrize("before", [0, 1])
def test_the_cost_is_told_in_the_figures_of_budget_show(before, tmp_path):
    """What the question promises is what `colonnade budget show` says when the run has been reserved."""
    asked = request()
    books = RunStore(tmp_path)
    ledger = Ledger(books.log("party0"), "party0", Policy(epsilon=2.0, delta=1e-6))
    for number in range(before):
        ledger.open_run(f"earlier{number}", asked.terms, asked.plans)
    told, spent = _cost(asked, ledger.budget()), ledger.budget().spent
    ledger.open_run("run", asked.terms, asked.plans)
    books.close()
    account = budget.account(tmp_path, "party0")
    assert told == (
        f"costs at most epsilon 1 of your limit 2 (delta 1e-06); {spent:.4g} is spent or reserved; "
        f"afterwards about {account.left:.4g} is left (epsilons do not simply add up)"
    )


@pytest.mark.parametrize("limit", [0.5, 0.9999, 1.0001, 1.2])
def test_the_question_says_that_a_run_will_be_refused_if_and_only_if_the_ledger_refuses_it(limit, tmp_path):
    asked = request()
    books = RunStore(tmp_path)
    ledger = Ledger(books.log("party0"), "party0", Policy(epsilon=limit, delta=1e-6))
    for number in range(2):
        foretold = "it will be refused" in _cost(asked, ledger.budget())
        try:
            ledger.open_run(f"run{number}", asked.terms, asked.plans)
            assert not foretold
        except BudgetExhausted:
            assert foretold
    books.close()


@pytest.mark.parametrize("part", [0.25, 0.9, 1.0])
def test_the_question_names_what_releases_take_of_a_delta_and_what_is_left_then(part, tmp_path, capsys):
    """Of the delta of limit and run; the ledger refuses what leaves too little to the noise."""
    asked = request(0.5)
    look = Event(Mechanism.HISTOGRAM, 0.001, 1.0, delta=part * 1e-6)
    asked = replace(asked, plans={**asked.plans, "party0": (*asked.plans["party0"], Charge(look, 1, "levels"))})
    books = RunStore(tmp_path)
    ledger = Ledger(books.log("party0"), "party0", Policy(epsilon=1.0, delta=1e-6))
    said = shown(asked, ledger.budget(), capsys)
    told = _cost(asked, ledger.budget())
    assert f"and delta {events.shown(look.delta)} beside it of your limit 1 (delta 1e-06); 0 is spent" in told
    assert f"and releases take {events.shown(look.delta)} of that delta for themselves)" in said
    assert "0.001 and delta" in said
    assert ("it will be refused" in told) == (part == 1.0)
    if part == 1.0:
        with pytest.raises(BudgetExhausted):
            ledger.open_run("run", asked.terms, asked.plans)
    else:
        ledger.open_run("run", asked.terms, asked.plans)
        left = accountant.epsilon(ledger.budget().left, 1e-6)
        assert told.endswith(f"afterwards about {left:.4g} is left (epsilons do not simply add up)")
    books.close()


def test_without_a_limit_or_a_price_nothing_is_made_up():
    assert _cost(request(), NO_LIMIT) == "there is no limit: `colonnade budget set` sets one"
    free = replace(request(), plans={"party0": ()})
    assert _cost(free, Budget(2.0, 1e-6, 1, 0.0, 0.0)) == "costs no epsilon"


# ------------------------------------------------------------------------------------------------ what is an answer


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (b"y\n", True),
        (b" YES \n", True),
        (b"y", True),  # and the end of the input
        (b"n\n", False),
        (b"\n", False),
        (b"", False),
        (b"perhaps\ny\n", False),  # typed before the question was put again
        (b"perhaps", False),
        (b"\xff\xfe", False),
    ],
)
def test_only_a_yes_is_a_yes_and_the_end_of_the_input_is_a_no(typed, answer):
    reads, writes = os.pipe()
    try:
        os.write(writes, typed)
        os.close(writes)
        assert _read_reply(reads, lambda: None) is answer
    finally:
        os.close(reads)


def test_something_else_than_yes_or_no_is_asked_about_again(capfd):
    reads, writes = os.pipe()
    looks = iter(range(100))

    def later() -> None:
        if next(looks) == 2:
            os.write(writes, b"yes\n")

    try:
        os.write(writes, b"perhaps\n")
        assert _read_reply(reads, later) is True
    finally:
        os.close(reads)
        os.close(writes)
    assert f"{PROMPT}Please answer y or n. {PROMPT}" in capfd.readouterr().err


def test_a_question_that_is_withdrawn_is_not_answered_by_what_comes_at_the_same_time():
    reads, writes = os.pipe()
    said = iter([None, "gone"])
    try:
        os.write(writes, b"y\n")
        assert _read_reply(reads, lambda: next(said)) == "gone"
    finally:
        os.close(reads)
        os.close(writes)


def test_where_there_is_no_terminal_nobody_is_asked_and_the_reason_is_told(monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(PolicyRefused, match=r"standard input is no terminal.*--yes"):
            _ask(request(), NO_LIMIT, lambda: None)


@pytest.mark.parametrize("typed", [b"\n", b"y\n", b"yes please\n"])
@pytest.mark.parametrize(("epsilon", "limit"), [(1.0, 0.5), (None, 2.0)])  # over the limit; exact values
def test_a_run_that_will_be_refused_is_shown_and_refused_and_nobody_is_asked(typed, epsilon, limit, monkeypatch, capfd):
    end, terminal = pty.openpty()
    try:
        with open(terminal, closefd=False) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr("termios.tcflush", lambda *_: os.write(end, typed))
            with pytest.raises(PolicyRefused, match=r"shown it and not asked.*budget set"):
                _ask(request(epsilon), Budget(limit, 1e-6, 1, 0.0, 0.0), lambda: None)
    finally:
        os.close(end)
        os.close(terminal)
    said = capfd.readouterr().err
    assert "it will be refused" in " ".join(said.split())
    assert said.endswith(SEEN)
    assert "Take part?" not in said


# ------------------------------------------------------------------------------------------------ a real process


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> Iterator[Asked]:
    made = Asked(tmp_path_factory.mktemp("asked"))
    yield made
    made.hub.close()


@pytest.mark.parametrize("how", ["Ctrl-C", signal.SIGINT, signal.SIGTERM])
def test_a_party_that_is_stopped_at_the_question_ends_with_the_code_it_promises_and_has_approved_nothing(how, asked):
    screen = Screen()
    with asked.party(screen) as process:
        asked.propose(f"run{how}")
        screen.until(PROMPT)
        if how == "Ctrl-C":
            screen.type(b"\x03")
        else:
            os.kill(process.pid, how)
        process.join(SECONDS)
        assert process.exitcode == 0
        ends = time.monotonic() + SECONDS
        while asked.hub.listens("party0", asked.hub.process("party0")):
            assert time.monotonic() < ends
            time.sleep(0.05)
    said = screen.close()
    assert f"the question is void, and nothing was approved run=run{how} why=the party was stopped" in said
    assert "would take part" not in said
    assert asked.reserved() == []


def test_an_operator_answers_each_question_and_what_was_typed_before_is_no_answer(asked):
    screen = Screen()
    with asked.party(screen) as process:
        screen.type(b"y\n")
        first = asked.propose("first")
        screen.until(PROMPT)
        screen.type(b"n\n")
        with pytest.raises(PeerFailed, match=r"refused 'consider' \(refused\)"):
            first.result()
        second = asked.propose("second")
        screen.until(PROMPT)
        screen.type(b"y\n")
        assert second.result().code == 0
        process.terminate()
        process.join(SECONDS)
        assert process.exitcode == 0
    said = screen.close()
    assert "why=the operator of 'party0' said no to run first. Nothing was sent." in said
    assert "costs at most epsilon 1 of your limit 2 (delta 1e-06); 0 is spent or reserved" in said
    many = len(asked.made.names)
    assert f"absence if a party is silent for 45 seconds, the run goes on while 2 of {many} parties are left" in said
    assert asked.reserved() == []
