"""Claims about driving stations that are somewhere else, without any stations."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future

import pytest

import colonnade as co
from colonnade.engines.station import Turn
from colonnade.engines.turns import Kept, Then, Turns, gathered, settled
from colonnade.errors import PeerFailed


def failing(error: Exception) -> Turn:
    return Turn((), True, (), (), 0, error)


def test_of_many_who_heard_of_a_failure_the_first_is_told_and_before_all_of_them_the_failure():
    turns = Turns(["a", "b", "c"], lambda *_: Kept(lambda: None), lambda *_: None)
    turns.mail = defaultdict(list)
    turns.take("b", failing(PeerFailed("a stopped")))
    turns.take("c", failing(PeerFailed("b stopped")))
    assert str(turns.failure) == "a stopped"
    turns.take("a", failing(co.InvalidInput("no such column")))
    assert str(turns.failure) == "no such column"
    turns.take("c", failing(PeerFailed("a stopped")))
    assert str(turns.failure) == "no such column"


def test_what_becomes_of_an_answer_is_made_once_and_not_before_somebody_asks():
    asked: Future[int] = Future()
    seen, told = [], []

    def doubled(answer):
        seen.append(answer.result())
        return 2 * seen[-1]

    promise = Then(asked, doubled)
    promise.add_done_callback(told.append)
    assert told == []
    asked.set_result(21)
    assert told == [promise]
    assert seen == []
    assert [promise.result(), promise.result()] == [42, 42]
    assert seen == [21]


def test_an_error_is_the_answer_as_often_as_it_is_asked_for():
    tried = []

    def fails(_):
        tried.append(1)
        raise co.ProtocolError("no")

    for promise in (Then(Kept(lambda: 1), fails), Kept(lambda: fails(None))):
        for _ in range(2):
            with pytest.raises(co.ProtocolError, match="no"):
                promise.result()
    assert len(tried) == 2


def test_the_first_error_is_told_when_everybody_has_answered():
    seen = []

    def answer(value):
        seen.append(value)
        if value == 1:
            raise co.ProtocolError("one")
        return value

    promised = {str(k): Then(Kept(lambda k=k: k), lambda found: answer(found.result())) for k in range(3)}
    with pytest.raises(co.ProtocolError, match="one"):
        gathered(promised)
    assert seen == [0, 1, 2]
    settled(promised.values())
    assert seen == [0, 1, 2]
