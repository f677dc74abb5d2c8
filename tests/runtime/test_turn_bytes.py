"""Claims about turns as plain bytes: whatever a turn is, it comes out as it went in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.runtime import ray as turn_bytes
from colonnade.runtime.hosted_node import Turn
from colonnade.runtime.wire import Letter

names = st.text(max_size=6)
counts = st.integers(0, 2**53)
letters = st.lists(st.builds(Letter, names, names, counts, counts, st.binary(max_size=40), names), max_size=4).map(
    tuple
)
turns = st.builds(
    Turn,
    letters,
    st.booleans(),
    st.lists(names, max_size=3).map(tuple),
    notes=st.just(()),
    told=counts,
    failure=st.none(),
    more=st.booleans(),
    missing=st.frozensets(names, max_size=3),
)


@given(letters)
def test_the_letters_of_a_question_arrive(sent):
    assert list(sent) == turn_bytes.read_question(*turn_bytes.write_question(sent))


@given(turns)
def test_a_quiet_turn_travels_as_bytes(turn):
    raw = turn_bytes.write_answer(turn)
    assert isinstance(raw, bytes)
    assert turn == turn_bytes.read_answer(raw)


def test_a_turn_with_a_note_or_a_failure_travels_as_it_is():
    """Both can hold what has no bytes of ours."""
    for turn in (
        Turn((), True, (), notes=({"round": 1},)),
        Turn((), True, (), failure=co.LeakError("nothing was sent")),
    ):
        assert turn_bytes.read_answer(turn_bytes.write_answer(turn)) is turn
