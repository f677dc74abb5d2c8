"""Claims about parcels: what is packed comes back, whatever was packed or read before it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.between.parcel import letters_in, letters_out, pack, unpack
from colonnade.runtime.node import Letter
from colonnade.runtime.wire import Frame

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
    _, parts = letters_out([Letter("a", "b", Frame(0, 1, b"content"))], "run")
    with pytest.raises(co.WireError, match=r"address"):
        letters_in(addresses, parts, "run")
