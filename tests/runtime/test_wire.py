"""Claims about bytes: everything a message can carry survives, nothing else gets in, nothing bare gets out."""

from __future__ import annotations

import hashlib
import random
import struct
import tracemalloc
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import colonnade as co
from colonnade.methods import load_all
from colonnade.privacy.values import DTYPES, Packed, Released, decode_value, encode_value
from colonnade.runtime.program import BY_CODE, BY_TYPE, Failed, message
from colonnade.runtime.wire import (
    LARGEST,
    LAST_ROUND,
    LAST_SEQUENCE,
    LONGEST_NAME,
    VERSION,
    Frame,
    Letter,
    decode,
    encode,
    type_name,
)
from tests.helpers.contract import gate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

load_all()  # every message of every method is tried
Array = np.ndarray
RUN = "20260101T000000-abc"


@message(910)
class Everything:
    """Tests → tests: one field of every kind."""

    whole: int
    real: float
    flag: bool
    text: str
    raw: bytes
    array: Array
    column: sparse.csc_array
    packed: Packed
    several: tuple[int, ...]


@message(911)
class Guarded:
    """Tests → tests: what a party may send."""

    array: Released[Array]
    either: Released[Array] | Released[sparse.csc_array]
    several: tuple[Released[float], ...]


@message(912)
class Plain:
    """Tests → tests: what only a node without data may send."""

    array: Array


@message(913)
class Empty:
    """Tests → tests: nothing but its kind."""


def same(a: object, b: object) -> bool:
    """Equal to the bit, type and shape included."""
    if isinstance(a, Released) or isinstance(b, Released):
        return isinstance(a, Released) and isinstance(b, Released) and same(a.value, b.value)
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        return (
            sparse.issparse(b)
            and a.shape == b.shape
            and a.data.tobytes() == b.data.tobytes()
            and np.array_equal(a.indices, b.indices)
            and np.array_equal(a.indptr, b.indptr)
        )
    if isinstance(a, Packed):
        return isinstance(b, Packed) and a.bits == b.bits and same(a.values, b.values)
    if isinstance(a, tuple):
        return type(b) is tuple and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return type(b) is float and struct.pack("<d", a) == struct.pack("<d", b)
    return type(a) is type(b) and a == b


# ---------------------------------------------------------------- strategies

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)


@st.composite
def columns(draw, widest=1):
    rows, width = draw(st.integers(0, 40)), draw(st.integers(min(1, widest % 2), widest))
    dense = draw(
        hnp.arrays(
            np.float64,
            (rows, width),
            elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, -1.0, 0.1, 2.0**-1074, 1e300, float("inf")]),
        )
    )
    return sparse.csc_array(dense)


@st.composite
def packed(draw):
    bits = draw(st.integers(1, 64))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
    return Packed(draw(hnp.arrays(np.uint64, shape, elements=st.integers(0, 2**bits - 1))), bits)


scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(max_size=60))
values = st.one_of(scalars, arrays, columns(), columns(4), packed())
nested = st.recursive(values, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=6)


# ---------------------------------------------------------------- there and back


@settings(max_examples=200)
@given(values)
def test_every_value_comes_back_equal_to_the_bit(value):
    assert same(value, decode_value(encode_value(value)))


@given(st.lists(st.lists(values, max_size=3).map(tuple), max_size=3).map(tuple))
def test_tuples_of_tuples_come_back(value):
    assert same(value, decode_value(encode_value(value)))


@given(arrays)
def test_order_in_memory_and_byte_order_do_not_show(array):
    turned = np.array(array, order="F")
    swapped = array.astype(array.dtype.newbyteorder(">"))
    assert encode_value(array) == encode_value(turned) == encode_value(swapped)


@given(st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(), arrays, columns(), packed())
def test_a_message_comes_back_field_by_field(whole, real, flag, text, array, column, pack):
    sent = Everything(whole, real, flag, text, b"\x00\xff", array, column, pack, (1, 2, whole))
    got = decode(encode(sent, guarded=False))
    assert type(got) is Everything
    for field in BY_TYPE[Everything].fields:
        assert same(getattr(sent, field.name), getattr(got, field.name)), field.name


@given(arrays, columns(), st.lists(st.floats(), max_size=3))
def test_released_fields_come_back_released(array, column, several):
    door = gate()
    sent = Guarded(door.exact(array), door.exact(column), tuple(door.exact(x) for x in several))
    got = decode(encode(sent, guarded=True))
    assert same(got.array, sent.array)
    assert same(got.either, sent.either)
    assert same(got.several, sent.several)
    assert encode(got, guarded=True) == encode(sent, guarded=True)


@given(arrays)
def test_what_is_decoded_cannot_be_written_to(array):
    got = decode_value(encode_value(array))
    if got.size:
        with pytest.raises(ValueError, match=r"read-only"):
            got[...] = 0
        with pytest.raises(ValueError, match=r"WRITEABLE"):
            got.flags.writeable = True


def test_a_decoded_sparse_column_cannot_be_written_to():
    got = decode_value(encode_value(sparse.csc_array(np.array([[0.0], [1.0], [2.0]]))))
    for part in (got.data, got.indices, got.indptr):
        with pytest.raises(ValueError, match=r"read-only"):
            part[0] = 0


# ---------------------------------------------------------------- compact


@settings(max_examples=50)
@given(st.integers(2, 100_000), st.floats(0.0, 0.2), st.integers(0, 2**32 - 1))
def test_a_binary_column_costs_its_row_numbers(rows, density, seed):
    places = np.flatnonzero(np.random.default_rng(seed).random(rows) < density)
    column = sparse.csc_array((np.ones(places.size), places, [0, places.size]), shape=(rows, 1))
    width = max(1, (rows - 1).bit_length())
    assert len(encode_value(column)) <= (places.size * width + 7) // 8 + 40
    assert same(column, decode_value(encode_value(column)))


@given(st.integers(1, 64), st.integers(0, 300))
def test_packed_integers_cost_their_bits(bits, count):
    assert len(encode_value(Packed(np.zeros(count, np.uint64), bits))) == 11 + (count * bits + 7) // 8


def test_a_value_too_wide_for_its_field_is_refused_and_not_cut():
    with pytest.raises(co.InvalidInput, match=r"more than 3 bits"):
        Packed(np.array([8], np.uint64), 3)


def test_values_that_fit_in_single_precision_travel_so():
    rng = np.random.default_rng(0)
    short = sparse.csc_array(rng.integers(1, 100, (1000, 1)) / 8.0)
    exact = sparse.csc_array(rng.random((1000, 1)))
    assert len(encode_value(exact)) - len(encode_value(short)) == 4 * 1000


# ---------------------------------------------------------------- refused on the way out


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        set(),
        object(),
        1j,
        np.array(["a"]),
        np.array([1j]),
        np.array([None]),
        2**63,
        -(2**63) - 1,
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_an_encoding_is_a_wire_error(value):
    with pytest.raises(co.WireError):
        encode_value(value)


def test_a_message_outside_the_table_is_refused():
    with pytest.raises(co.WireError, match=r"not in the table.*@message"):
        encode(object(), guarded=False)


def test_a_message_over_the_limit_is_refused_with_advice():
    with pytest.raises(co.WireError, match=r"row blocks"):
        encode(Plain(np.zeros(LARGEST // 8 + 1)), guarded=False)


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("field", ["array", "either", "several"])
def test_a_bare_value_in_a_released_field_is_a_leak_and_names_the_field(field, guarded):
    door = gate()
    fields = {"array": door.exact(np.zeros(2)), "either": door.exact(np.zeros(2)), "several": (door.exact(1.0),)}
    fields[field] = (1.0,) if field == "several" else np.zeros(2)
    with pytest.raises(co.LeakError, match=rf"Guarded\.{field}.*gate.*Nothing was sent"):
        encode(Guarded(**fields), guarded=guarded)


def test_one_bare_value_among_released_ones_is_a_leak():
    door = gate()
    one = door.exact(np.zeros(2))
    with pytest.raises(co.LeakError, match=r"Guarded\.several"):
        encode(Guarded(one, one, (door.exact(1.0), 2.0)), guarded=True)


def test_a_guarded_node_cannot_send_a_message_that_declares_bare_fields():
    with pytest.raises(co.LeakError, match=r"Plain\.array.*declare the field Released"):
        encode(Plain(np.zeros(2)), guarded=True)


def test_a_released_value_in_a_bare_field_does_not_pass_either():
    with pytest.raises(co.WireError, match=r"Plain\.array.*Released\[ndarray\]"):
        encode(Plain(gate().exact(np.zeros(2))), guarded=False)


def test_laundering_by_encoding_unguarded_and_decoding_is_refused():
    secret = np.arange(3.0)
    with pytest.raises(co.LeakError):
        encode(Guarded(secret, secret, ()), guarded=False)
    marked = struct.pack("<BH", VERSION, 911) + encode_value(secret) * 2 + encode_value(())
    with pytest.raises(co.WireError, match=r"unmarked"):
        decode(marked)


# ---------------------------------------------------------------- refused on the way in


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, 255])
def test_another_version_is_named(version):
    body = bytearray(encode(Empty(), guarded=False))
    body[0] = version
    with pytest.raises(co.WireError, match=f"version {version},.*same release"):
        decode(bytes(body))


def test_an_unknown_number_is_named():
    with pytest.raises(co.WireError, match=r"unknown message number 60000.*same release"):
        decode(struct.pack("<BH", VERSION, 60000))
    with pytest.raises(co.WireError):
        type_name(struct.pack("<BH", VERSION, 60000))


def test_bytes_behind_a_message_are_refused():
    with pytest.raises(co.WireError, match=r"left over"):
        decode(encode(Empty(), guarded=False) + b"x")


def test_a_field_of_another_kind_is_refused():
    body = struct.pack("<BH", VERSION, 912) + encode_value(1.0)
    with pytest.raises(co.WireError, match=r"Plain\.array"):
        decode(body)


BOMBS = {
    "marks in marks": b"R" * 100_000,
    "tuples in tuples": (b"(" + struct.pack("<I", 1)) * 100_000,
    "marks and tuples": (b"R(" + struct.pack("<I", 1)) * 50_000,
    "a long text": b"s" + struct.pack("<I", 2**32 - 1),
    "a long tuple": b"(" + struct.pack("<I", 2**32 - 1),
    "a large array": b"a\x00\x01" + struct.pack("<Q", 2**60),
    "a large flat array": b"a\x00\x02" + struct.pack("<QQ", 2**40, 2**40),
    "an empty array of absurd shape": b"a\x00\x08" + struct.pack("<8Q", 0, *[2**40] * 7),
    "an empty array past 2^64": b"a\x00\x02" + struct.pack("<QQ", 0, 2**64 - 1),
    "too many dimensions": b"a\x00\xff" + bytes(8 * 255),
    "an unknown array type": b"a\xff\x00",
    "many packed integers": b"p\x01\x01" + struct.pack("<Q", 2**62),
    "packed at no bits": b"p\x00\x01" + struct.pack("<Q", 2**62),
    "packed at 65 bits": b"p\x41\x01" + struct.pack("<Q", 1) + bytes(9),
    "many nonzeros": b"c" + struct.pack("<QQQB", 10, 1, 2**63, 0) + bytes(8),
    "many columns": b"c" + struct.pack("<QQQB", 10, 2**39, 0, 0) + bytes(8),
    "all nonzeros": b"c" + struct.pack("<QQQB", 10, 2, 2**64 - 1, 0) + bytes(64),
    "many rows": b"c" + struct.pack("<QQQB", 2**63, 1, 0, 0) + bytes(8),
    "more nonzeros than places": b"c" + struct.pack("<QQQB", 2, 1, 8 << 17, 0) + bytes((1 << 17) + 8),
    "an unknown form": b"c" + struct.pack("<QQQB", 2, 1, 0, 9),
    "a row out of range": b"c" + struct.pack("<QQQB", 5, 1, 1, 0) + b"\x07" + bytes(8),
    "a row just out of range": b"c" + struct.pack("<QQQB", 5, 1, 1, 0) + b"\x05" + bytes(8),
    "columns that end before the last nonzero": b"c" + struct.pack("<QQQB", 4, 2, 2, 0) + b"\x05\x04" + bytes(8),
    "columns that end behind it": b"c" + struct.pack("<QQQB", 4, 2, 2, 0) + b"\x0d\x04" + bytes(8),
    "columns that end in another order": b"c" + struct.pack("<QQQB", 4, 3, 2, 0) + b"\x26\x04" + bytes(8),
    "rows out of order": b"c" + struct.pack("<QQQB", 4, 1, 2, 0) + b"\x01" + bytes(8),
    "a row twice": b"c" + struct.pack("<QQQB", 4, 1, 2, 0) + b"\x05" + bytes(8),
    "half a truth": b"a" + bytes([10, 1]) + struct.pack("<Q", 1) + b"\x02",
    "no text": b"s" + struct.pack("<I", 1) + b"\xff",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_absurd_bytes_are_refused_and_nothing_large_is_made(body):
    whole = struct.pack("<BH", VERSION, 912) + body
    for body in samples():
        decode(body)  # loads the kernels, whose own memory is not the question
    tracemalloc.start()
    try:
        with pytest.raises(co.WireError):
            decode(whole)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(whole) + 200_000


# ---------------------------------------------------------------- fuzz: 110,000 inputs


def samples() -> list[bytes]:
    """One valid message of every registered type, with fields of the declared kinds."""
    door = gate()
    plain = {
        "int": 3,
        "float": 0.5,
        "bool": True,
        "str": "text",
        "bytes": b"raw",
        "Packed": Packed(np.arange(5, dtype=np.uint64), 3),
        "csc": sparse.csc_array(np.array([[0.0], [1.0], [2.5]])),
        "array": np.arange(6.0).reshape(2, 3),
    }
    made = []
    for shape in BY_CODE.values():
        fields = []
        for field in shape.fields:
            options = list(plain.values()) + [door.exact(v) for v in plain.values()]
            options += [(v,) for v in options] + [()]
            fields.append(next(v for v in options if field.accepts(v)))
        made.append(encode(shape.cls(*fields), guarded=False))
    return made


def outcome(body: bytes) -> object:
    """What decoding gives; a WireError is an answer, anything else is not."""
    try:
        return decode(body)
    except co.WireError as error:
        return error


SAID = {
    "absurd shape": ("many nonzeros", "all nonzeros", "many rows", "more nonzeros than places", "an unknown form"),
    "row index out of range": ("a row out of range", "a row just out of range"),
    "column ends do not fit": (
        "columns that end before the last nonzero",
        "columns that end behind it",
        "columns that end in another order",
    ),
    "row indices are not in order": ("rows out of order", "a row twice"),
    "a truth value other than 0 and 1": ("half a truth",),
    "not UTF-8": ("no text",),
    "packed integers of": ("packed at no bits", "packed at 65 bits"),
    "unknown array type": ("an unknown array type",),
}


@pytest.mark.parametrize(("said", "name"), [(said, name) for said, names in SAID.items() for name in names])
def test_what_is_wrong_with_a_value_is_found_by_the_check_for_it(said, name):
    """Not by chance further on, such as by a field of another kind."""
    with pytest.raises(co.WireError, match=said):
        decode_value(BOMBS[name])


def test_values_nest_so_deep_and_no_deeper():
    value: tuple = ()
    for depth in range(8):
        body = encode_value(value)
        if depth < 4:
            assert decode_value(body) == value
        else:
            with pytest.raises(co.WireError, match="nested more than 4 deep"):
                decode_value(body)
        value = (value,)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"p\x01\x01" + struct.pack("<Q", (1 << 27) + 1), "134,217,729 packed integers; over 134,217,728"),
        (b"a\x00\x02" + struct.pack("<QQ", 0, 2**40 + 1), "an empty array with an absurd shape"),
        (b"a\x00\x09" + bytes(72), "an array of 9 dimensions; at most 8"),
        (b"i" + bytes(7), "the message ends 1 bytes too early"),
        (b"b" + struct.pack("<I", 3) + b"ab", "the message ends 1 bytes too early"),
        (b"f" + bytes(9), "1 bytes left over behind a value"),
    ],
    ids=["packed", "empty", "dimensions", "integer", "bytes", "behind"],
)
def test_a_limit_is_where_it_is_said_to_be(body, said):
    with pytest.raises(co.WireError, match=said):
        decode_value(body)


@pytest.mark.parametrize("bits", [1, 7, 63])
def test_a_field_of_packed_integers_holds_all_its_bits_and_not_one_more(bits):
    largest = np.array([2**bits - 1], np.uint64)
    assert decode_value(encode_value(Packed(largest, bits))).values.tolist() == [2**bits - 1]
    with pytest.raises(co.InvalidInput, match="more than"):
        Packed(np.array([2**bits], np.uint64), bits)


def test_a_column_of_zeros_of_both_signs_keeps_them():
    column = sparse.csc_array((np.array([0.0, -0.0]), np.array([0, 2]), np.array([0, 2])), shape=(3, 1))
    found = decode_value(encode_value(column)).data
    assert np.signbit(found).tolist() == [False, True]


def test_every_registered_type_has_a_sample():
    assert {type_name(body) for body in samples()} == {shape.cls.__name__ for shape in BY_CODE.values()}


def test_random_bytes_end_in_a_message_or_a_wire_error():
    draw = random.Random(1)
    codes = [*BY_CODE]
    for _ in range(40_000):
        head = struct.pack("<BH", VERSION, draw.choice(codes))
        tags = bytes(draw.choice(b"Rtnifsb(acp\x00\x01\x02\xff") for _ in range(draw.randint(0, 12)))
        assert outcome(head + tags + draw.randbytes(draw.randint(0, 24))) is not None
    for _ in range(10_000):
        assert outcome(draw.randbytes(draw.randint(0, 40))) is not None


def test_changed_messages_end_in_a_message_or_a_wire_error():
    draw = random.Random(2)
    valid = samples()
    for _ in range(50_000):
        body = bytearray(draw.choice(valid))
        for _ in range(draw.randint(1, 3)):
            match draw.randint(0, 3):
                case 0:
                    body[draw.randrange(len(body))] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
                case 1:
                    del body[draw.randrange(len(body)) :]
                case 2:
                    at = draw.randrange(len(body))
                    body[at:at] = draw.randbytes(draw.randint(1, 9))
                case 3:
                    other = draw.choice(valid)
                    body = body[: draw.randrange(len(body) + 1)] + other[draw.randrange(len(other)) :]
            if not body:
                break
        assert outcome(bytes(body)) is not None


def test_every_truncation_of_a_valid_message_is_a_wire_error():
    for body in samples():
        for end in range(len(body)):
            assert isinstance(outcome(body[:end]), co.WireError)


@settings(max_examples=150)
@given(st.binary(max_size=80))
def test_a_message_that_decodes_encodes_to_something_that_decodes_to_the_same(tail):
    for code in (910, 911, 912):
        got = outcome(struct.pack("<BH", VERSION, code) + tail)
        if not isinstance(got, co.WireError):
            again = decode(encode(got, guarded=False))
            assert all(same(getattr(got, f.name), getattr(again, f.name)) for f in BY_CODE[code].fields)


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x01\x00"])
def test_the_type_of_a_stump_is_a_wire_error(body):
    with pytest.raises(co.WireError):
        type_name(body)


# ---------------------------------------------------------------- the table


def test_a_number_is_given_once():
    with pytest.raises(co.ProtocolError, match=r"910 belongs to Everything"):

        @message(910)
        class Second:
            """Tests → tests: takes a number that is taken."""


def test_a_message_without_a_docstring_is_refused():
    with pytest.raises(co.ProtocolError, match=r"needs a docstring"):

        @message(919)
        class Silent: ...


def test_a_field_that_cannot_be_sent_is_refused_when_it_is_declared():
    with pytest.raises(co.ProtocolError, match=r"Loose.field"):

        @message(918)
        class Loose:
            """Tests → tests: carries anything."""

            field: dict


def test_a_failure_carries_a_number_and_no_text():
    assert [field.declared for field in BY_TYPE[Failed].fields] == ["int"]


# ---------------------------------------------------------------- frames


def letter(sequence: int, number: int, body: bytes) -> Letter:
    return Letter("a", "b", sequence, number, body, "inside")


FRAMES = msgspec.msgpack.Decoder(Frame)


def read(frame: bytes, run: str = RUN) -> Letter:
    return Letter.read(FRAMES.decode(frame), run)


def framed(sent: Letter, **changes) -> bytes:
    return msgspec.msgpack.encode(msgspec.structs.replace(sent.frame(RUN), **changes))


@given(st.integers(0, LAST_SEQUENCE), st.integers(0, LAST_ROUND), st.binary(max_size=50))
def test_a_frame_comes_back(sequence, number, body):
    sent = letter(sequence, number, body)
    assert read(framed(sent)) == sent


def test_a_broadcast_is_hashed_once():
    """And one that goes nowhere is not hashed."""
    letter(0, 0, b"").frame(RUN)  # the run's own hash is remembered
    with mock.patch("colonnade.runtime.wire.hashlib.sha256", wraps=hashlib.sha256) as hashed:
        first = letter(0, 1, b"content")
        assert hashed.call_count == 0
        others = [first.again("c", place, "kind") for place in (4, 5)]
        assert len({sent.frame(RUN).check for sent in (first, *others)}) == 1
        assert hashed.call_count == 1
    assert others == [Letter("a", "c", place, 1, b"content", "kind") for place in (4, 5)]


def test_a_frame_of_another_run_is_refused():
    with pytest.raises(co.WireError, match=r"another run"):
        read(framed(letter(0, 0, b"x")), RUN + "x")


@pytest.mark.parametrize("place", range(16))
def test_every_byte_of_a_digest_counts(place):
    """A body damaged on the way, whose digest agrees in all bytes but one: only a comparison of all of them sees it."""
    sent = letter(3, 1, b"content")
    other = bytearray(sent.check)
    other[place] ^= 1
    with pytest.raises(co.WireError, match="does not match its digest"):
        read(framed(sent, check=bytes(other)))


TOO_MUCH = {
    "sender": "x" * (LONGEST_NAME + 1),
    "receiver": "x" * (LONGEST_NAME + 1),
    "inside": "x" * (LONGEST_NAME + 1),
    "sequence": LAST_SEQUENCE + 1,
    "round": LAST_ROUND + 1,
    "run": bytes(15),
    "check": bytes(17),
    "body": "text",
}


@pytest.mark.parametrize("field", TOO_MUCH)
def test_a_frame_keeps_its_bounds(field):
    """A receiver counts on from the round that a letter carries, so one of a round that no run reaches is refused, too."""
    names = dict.fromkeys(("sender", "receiver", "inside"), "x" * LONGEST_NAME)
    FRAMES.decode(framed(letter(3, LAST_ROUND, b"content"), **names))
    with pytest.raises(msgspec.ValidationError):
        FRAMES.decode(framed(letter(3, 1, b"content"), **{field: TOO_MUCH[field]}))
    with pytest.raises(msgspec.ValidationError):
        FRAMES.decode(framed(letter(3, 1, b"content"), sequence=-1))


@given(st.data())
def test_a_changed_frame_is_refused_or_differs_only_in_its_address_and_place(data):
    raw = bytearray(framed(letter(3, 1, b"content")))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    try:
        got = read(bytes(raw))
    except (co.WireError, ValueError):
        return
    assert got.body == b"content"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_refused(raw):
    with pytest.raises((co.WireError, ValueError)):
        read(raw)
