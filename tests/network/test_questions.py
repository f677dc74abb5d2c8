"""Claims about questions and answers as bytes: what is packed comes back, and nothing is built of what keeps no bound."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.network.questions import (
    Greeting,
    Question,
    Said,
    code_of_answer,
    is_name,
    letters_in,
    letters_out,
    name_of,
    pack,
    read_as,
    unpack,
)
from colonnade.runtime.wire import Letter

simple = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -1.0]) | st.text(max_size=3)
values = simple | st.lists(simple, max_size=2) | st.dictionaries(st.text(max_size=3), simple, max_size=2)
heads = st.dictionaries(st.sampled_from(["a", "b", "letters"]), values, max_size=3)


def plain(value):
    """With the type of every value: 1, 1.0 and True are equal and not the same."""
    items = [plain(item) for item in value] if isinstance(value, list) else value
    return type(items), items


@given(heads, st.lists(st.binary(max_size=4), max_size=3))
def test_what_is_packed_comes_back(head, blobs):
    found = unpack(pack(head, blobs))
    assert {name: plain(value) for name, value in found.head.items()} == {name: plain(v) for name, v in head.items()}
    assert found.blobs == tuple(blobs)


@given(st.sampled_from(Question), st.binary(max_size=80))
def test_any_bytes_are_a_question_an_answer_or_a_wire_error(question, raw):
    for kind in (question.asked, question.said):
        with pytest.raises(co.WireError):
            read_as(kind, raw)


def test_the_size_of_a_number_in_an_answer_says_nothing_of_it():
    """A note of an exact run is figures: in decimal digits their number would follow from the data."""
    sizes = {len(pack({"code": 0, "gap": value})) for value in (0.0, 1.0, 1 / 3, 1e-300, -1e300)}
    assert len(sizes) == 1


def test_letters_come_back_and_none_of_another_run():
    sent = [Letter("a", "b", place, 1, bytes([place]) * place, "kind") for place in range(4)]
    raw = pack({"what": "turn", "run": "run", "letters": letters_out(sent, "run")})
    found = read_as(Question.TURN.asked, raw)
    assert letters_in(found.letters, "run") == sent
    with pytest.raises(co.WireError, match="another run"):
        letters_in(found.letters, "other")


def test_a_question_without_its_fields_or_with_another_is_refused_and_nothing_of_it_is_quoted():
    good = {"what": "over", "run": "run", "how": "finished"}
    assert read_as(Question.OVER.asked, pack(good)).how == "finished"
    for wrong in (
        {"what": "over", "run": "run"},
        {**good, "secret": 1},
        {**good, "how": 3},
        {**good, "run": "sec/ret"},
    ):
        with pytest.raises(co.WireError, match="not a message as this version of colonnade has it") as refused:
            read_as(Question.OVER.asked, pack(wrong))
        assert "secret" not in str(refused.value)
        assert "sec/ret" not in str(refused.value)


def test_a_later_party_may_say_more_than_this_hub_knows():
    said = {"code": 0, "protocol": 7, "version": "2", "file": "f", "clock": 1.0}
    assert read_as(Greeting, pack({**said, "more": [1]})) == read_as(Greeting, pack(said))


def test_a_name_that_the_hub_chose_leads_nowhere():
    """It becomes a key of records and the name of a file."""
    for name in ("a", "A-9", "0" * 64):
        assert is_name(name)
        assert read_as(Question.JOIN.asked, pack({"what": "join", "run": name})).run == name
    for name in ("", "-a", "a/b", "../a", "a.db", "a b", "a\n", "a\0", "é", "0" * 65, 7, None):
        assert type(name) is not str or not is_name(name)
        with pytest.raises(co.WireError, match="run"):
            read_as(Question.JOIN.asked, pack({"what": "join", "run": name}))


def test_each_peer_stands_once():
    for what in (Question.MEET, Question.SHARE):
        asked = {"what": what, "peers": ["b", "a"], "run" if what is Question.MEET else "session": "x"}
        assert read_as(what.asked, pack(asked)).peers == ("b", "a")
        for wrong in (["a", "a"], "ab", [1], None):
            with pytest.raises(co.WireError, match="peers"):
                read_as(what.asked, pack({**asked, "peers": wrong}))


def test_a_code_or_a_name_is_read_of_anything_that_has_one():
    raw = pack({"what": "hello", "code": 3, "more": [[]] * 100})
    assert (name_of(raw), code_of_answer(raw)) == ("hello", 3)
    assert code_of_answer(msgspec.msgpack.encode({})) is None
    for wrong in (b"", b"\x90", pack({"code": [1], "what": 1})):
        for read in (name_of, code_of_answer):
            with pytest.raises(co.WireError):
                read(wrong)
    assert read_as(Said, raw).code == 3
