"""Claims about a party's inbox: an answer is for exactly what was shown, in its time, and questions do not pile up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import colonnade as co
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.methods.node_setup import Call
from colonnade.network import inbox as module
from colonnade.network.inbox import Inbox, OpenQuestion
from colonnade.network.party_file import Limits
from colonnade.network.party_run import Request, Undecided
from colonnade.privacy.events import EXACT, Charge
from tests.helpers.contract import TERMS

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CALL = Call(co.DistributedFrankWolfe(rounds=3), co.Problem(co.LeastSquares(), co.L1Ball(1.0)), None, None)
ASKED = Request("run-1", "lab", TERMS, CALL, {"lab": (Charge(EXACT, 3, "scores"),)}, 30, (30, "rows"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Inbox]:
    made = Inbox(tmp_path / "store", 1.0, lambda asked: f"terms of {asked.run}")
    yield made
    made.close()


def say(box: Inbox, run: str, answer: bool) -> OpenQuestion:
    """As an operator who has just looked."""
    return box.answer(next(one.name for one in box.questions(every=True) if one.run == run), answer)


def put(box: Inbox, asked: Request = ASKED) -> None:
    with pytest.raises(Undecided):
        box(asked)


def test_a_question_stays_open_until_it_is_answered_and_is_shown_once(box: Inbox, tmp_path: Path) -> None:
    put(box)
    put(box)
    (shown,) = box.questions()
    assert (shown.run, shown.shown, shown.state) == ("run-1", "terms of run-1", "open")
    operator = Inbox(tmp_path / "store")  # another process
    assert say(operator, "run-1", True).state == "approved"
    operator.close()
    assert box(ASKED)
    assert (box.questions(), box.counts()["approved"]) == ([], 1)
    assert box.path.stat().st_mode & 0o077 == 0


def test_a_no_is_kept_and_the_operator_may_think_again(box: Inbox) -> None:
    put(box)
    say(box, "run-1", False)
    assert [box(ASKED), box(ASKED)] == [False, False]
    say(box, "run-1", True)
    assert box(ASKED)


@pytest.mark.parametrize(
    "changed",
    [
        {"terms": replace(TERMS, method="another")},
        {"call": replace(CALL, method=co.DistributedFrankWolfe(rounds=4))},
        {"plans": {"lab": (Charge(EXACT, 4, "scores"),)}},
        {"rows": 31},
        {"scored": 1},
        {"session": "other rows"},
        {"new": True},
    ],
    ids=str,
)
def test_a_yes_is_for_exactly_what_was_shown(box: Inbox, changed: dict) -> None:
    put(box)
    say(box, "run-1", True)
    put(box, replace(ASKED, **changed))
    assert [one.state for one in box.questions()] == ["open"]


def test_a_yes_to_what_was_read_is_not_one_to_what_took_its_place(box: Inbox) -> None:
    put(box)
    (read,) = box.questions()
    put(box, replace(ASKED, rows=31))  # the hub proposes something else under the same name
    for name in (read.name, "run-1", "run-1:"):
        with pytest.raises(InvalidInput, match="is not the question about run run-1 that is open now"):
            box.answer(name, True)
    put(box, replace(ASKED, rows=31))
    put(box)  # and what was read again: read it again
    with pytest.raises(InvalidInput, match="is not the question"):
        box.answer(read.name, True)
    assert box.answer("run-1", False).state == "refused"  # a no is safe whatever it is said to


def test_a_yes_that_no_run_began_on_is_forgotten(box: Inbox) -> None:
    put(box)
    say(box, "run-1", True)
    with mock.patch("time.time", return_value=time.time() + 3599):
        assert box(ASKED)
    with mock.patch("time.time", return_value=time.time() + 3601):
        put(box)
        assert [one.state for one in box.questions()] == ["open"]


def test_what_nobody_answers_in_time_is_refused(box: Inbox) -> None:
    put(box)
    with mock.patch("time.time", return_value=time.time() + 3601):
        with pytest.raises(PolicyRefused, match="within 1 hours"):
            box(ASKED)
        with pytest.raises(InvalidInput, match="was open until"):
            say(box, "run-1", True)
        assert (box.questions(), box.counts()["expired"]) == ([], 1)


def test_a_flood_of_questions_is_refused_and_fills_nothing(box: Inbox) -> None:
    with mock.patch.multiple(module, MOST=3, KEPT=5):
        for place in range(3):
            put(box, replace(ASKED, run=f"run-{place}"))
        for place in range(3, 50):
            with pytest.raises(PolicyRefused, match=r"3 questions .* are open"):
                box(replace(ASKED, run=f"run-{place}"))
        assert len(box.questions()) == 3
        put(box, replace(ASKED, run="run-0", rows=31))  # a question that takes the place of its own
        for place in range(60, 90):
            box.answer(box.questions()[0].run, False)
            put(box, replace(ASKED, run=f"run-{place}"))
        assert len(box.questions(every=True)) <= 5 + 3


def test_the_newest_answers_stay_known(box: Inbox) -> None:
    with mock.patch.multiple(module, KEPT=3):
        for place in range(8):
            put(box, replace(ASKED, run=f"run-{place}"))
            say(box, f"run-{place}", False)
        put(box, replace(ASKED, run="last"))
        assert [one.run for one in box.questions(every=True)] == ["run-6", "run-7", "last"]


def test_a_run_that_is_over_takes_its_question_along(box: Inbox) -> None:
    put(box)
    put(box, replace(ASKED, run="run-2"))
    put(box, replace(ASKED, run="run-3"))
    box.withdraw("run-2", "never-heard-of", "run-3")
    with pytest.raises(InvalidInput, match="no question about run 'run-2'"):
        box.answer("run-2", True)
    assert [one.run for one in box.questions()] == ["run-1"]


def test_what_the_limits_let_pass_is_not_asked_about(box: Inbox) -> None:
    limits = Limits(("DistributedFrankWolfe",), float("inf"))
    assert limits.objection(ASKED) is None
    assert Limits().objection(ASKED) is not None
