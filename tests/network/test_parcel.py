"""Claims about parcels: what is packed comes back, whatever was packed or read before it."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.network.questions import (
    LAST_ROUND,
    Parcel,
    letters_in,
    letters_out,
    name_in,
    names_in,
    pack,
    text_in,
    unpack,
)
from colonnade.runtime.wire import Letter

simple = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -1.0]) | st.text(max_size=3)
values = simple | st.lists(st.text(max_size=3), max_size=2).map(tuple) | st.lists(simple, max_size=2)
heads = st.dictionaries(st.sampled_from(["a", "b", "letters"]), values, max_size=3)


def plain(value):
    """As JSON gives it back, with the type of every value: 1, 1.0 and True are equal and not the same."""
    items = [plain(item) for item in value] if isinstance(value, list | tuple) else value
    return type(items), items


@given(st.lists(st.tuples(heads, st.lists(st.binary(max_size=4), max_size=3)), max_size=8))
def test_every_parcel_comes_back_whatever_was_sent_before_it(sent):
    for head, blobs in sent:
        found = unpack(pack(head, blobs))
        assert {name: plain(value) for name, value in found.head.items()} == {
            name: plain(value) for name, value in head.items()
        }
        assert found.blobs == tuple(blobs)


def test_a_head_that_is_remembered_cannot_be_changed():
    raw = pack({"letters": (("a", "b", ""),)}, [b"x"])
    with pytest.raises(TypeError):
        unpack(raw).head["letters"] = ()
    assert unpack(raw).head == {"letters": (("a", "b", ""),)}


def test_a_large_head_does_not_stay_in_memory():
    """A call may carry the coefficients to begin from; a hub that proposes hundreds of those must not keep them all."""
    size, runs = 1 << 20, 40
    tracemalloc.start()
    try:
        for run in range(runs):
            pack({"what": "reserve", "run": f"run-{run}", "call": "1" * size})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < runs * size / 10


@pytest.mark.parametrize(
    "addresses", [[], "ab", ((1, "b", ""),), (("a", "b"),), ({"a": "b"},), (("a", "b" * 201, ""),)]
)
def test_letters_without_proper_addresses_are_refused(addresses):
    _, parts = letters_out([Letter("a", "b", 0, 1, b"content")], "run")
    with pytest.raises(co.WireError, match=r"address"):
        letters_in(addresses, parts, "run")


def test_a_letter_of_the_last_round_is_read_and_of_a_later_one_refused():
    """A receiver counts on from the number that a letter carries."""
    for number in (LAST_ROUND, LAST_ROUND + 1):
        addresses, parts = letters_out([Letter("a", "b", 0, number, b"content")], "run")
        if number == LAST_ROUND:
            assert letters_in(addresses, parts, "run")[0].round == number
        else:
            with pytest.raises(co.WireError, match="a round that no run reaches"):
                letters_in(addresses, parts, "run")


def test_letters_and_addresses_must_match():
    addresses, parts = letters_out([Letter("a", "b", 0, 1, b"content")], "run")
    for wrong in ((), addresses * 2):
        with pytest.raises(co.WireError, match="do not match"):
            letters_in(wrong, parts, "run")


def raw(head, behind=b"", magic=b"clp1", length=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return magic + (len(text) if length is None else length).to_bytes(4, "little") + text + behind


@pytest.mark.parametrize("more", [{}, {"letters": []}], ids=["read", "remembered"])
def test_a_parcel_is_read_only_if_its_lengths_add_up_to_the_last_byte(more):
    assert unpack(raw({**more, "blobs": [2, 0, 1]}, b"abc")).blobs == (b"ab", b"", b"c")
    bad = [([2, 1], b"abcd"), ([2, 2], b"abc"), ([4, -1], b"abc"), ([True, 2], b"abc"), ([3.0], b"abc"), (3, b"abc")]
    for sizes, behind in bad:
        with pytest.raises(co.WireError):
            unpack(raw({**more, "blobs": sizes}, behind))
    for wrong in (
        raw(more),
        raw({**more, "blobs": []}, magic=b"clp2"),
        raw({**more, "blobs": []}, length=1000),
        b"clp1",
    ):
        with pytest.raises(co.WireError):
            unpack(wrong)


def test_a_head_is_read_up_to_the_largest_that_its_reader_allows():
    body = raw({"a": "x" * 50, "blobs": []}, b"")
    assert unpack(body, len(body) - 8).head == {"a": "x" * 50}
    with pytest.raises(co.WireError, match="not a parcel"):
        unpack(body, len(body) - 9)


def test_a_name_that_the_hub_chose_leads_nowhere():
    """It becomes a key of records and the name of a file."""
    for name in ("a", "A-9", "0" * 64):
        assert name_in(Parcel({"run": name}), "run") == name
    for name in ("", "-a", "a/b", "../a", "a.db", "a b", "a\n", "a\0", "é", "0" * 65, 7, None):
        with pytest.raises(co.WireError, match=r"a question (whose run is|without run)"):
            name_in(Parcel({"run": name}), "run")


def test_names_in_a_question_are_texts_and_each_stands_once():
    assert names_in(Parcel({"peers": ["b", "a"]}), "peers") == ["b", "a"]
    for wrong, says in (
        (["a", "a"], "a name twice"),
        ("ab", "without peers"),
        ([1], "without peers"),
        (None, "without"),
    ):
        with pytest.raises(co.WireError, match=says):
            names_in(Parcel({"peers": wrong}), "peers")
    for wrong in ("", 7, None):
        with pytest.raises(co.WireError, match="without peer"):
            text_in(Parcel({"peer": wrong}), "peer")
