"""Claims about the steps of a private set intersection: the common keys are found, and nothing else is shown."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data import psi
from colonnade.data.row_order import canonical
from colonnade.errors import InvalidInput, ProtocolError, WireError
from colonnade.kernels.curve25519 import A, P
from tests.helpers.intersection import OTHER, PEPPER, SALT, intersect_privately, split

ORDER = 2**252 + 27742317777372353535851937790883648493  # of the large subgroup


def on_curve(u: bytes) -> bool:
    x = int.from_bytes(u, "little")
    return pow(x**3 + A * x * x + x, (P - 1) // 2, P) == 1


def points(*blocks: bytes) -> list[bytes]:
    return [block[at : at + psi.POINT] for block in blocks for at in range(0, len(block), psi.POINT)]


@given(
    client=st.lists(st.integers(0, 60), min_size=1, unique=True),
    server=st.lists(st.integers(0, 60), min_size=1, unique=True),
)
def test_a_private_intersection_finds_the_common_keys(client, server):
    found, _ = intersect_privately(canonical(pl.Series(client)), canonical(pl.Series(server)))
    assert set(client) & set(server) == {client[i] for i in found}


def test_more_words_than_a_block_holds_are_compared_block_by_block(monkeypatch):
    monkeypatch.setattr(psi, "BLOCK", 7)
    client, server = canonical(pl.Series(range(30))), canonical(pl.Series(range(20, 41)))
    found, sent = intersect_privately(client, server)
    assert found.tolist() == list(range(20, 30))
    assert [len(points(block)) for block in sent] == [7, 7, 7, 7, 2] + [7] * 3 + [7, 7, 7, 7, 2]


def test_everything_on_the_way_is_on_the_curve_and_in_its_large_subgroup():
    """Curve or twist, and the part of small order, would each tell something of the key below the secret."""
    words = canonical(pl.Series(range(60)))
    _, sent = intersect_privately(words, words[:30])
    assert all(on_curve(point) for point in points(*sent))
    assert all(is_nothing(ORDER, point) for point in points(*sent)[:20])
    assert not any(is_nothing(8, point) for point in points(*sent)[:20])


def is_nothing(scalar: int, u: bytes) -> bool:
    """Whether nothing is left of a point times a number, by Montgomery's ladder and without X25519's rules."""
    x = int.from_bytes(u, "little")
    one, two = (1, 0), (x, 1)
    for bit in bin(scalar)[2:]:
        one, two = ladder(two, one, x)[::-1] if bit == "1" else ladder(one, two, x)
    return one[1] == 0


def ladder(a: tuple[int, int], b: tuple[int, int], x: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """2a and a + b, where b − a is the point x."""
    (ax, az), (bx, bz) = a, b
    double = ((ax * ax - az * az) ** 2 % P, 4 * ax * az * (ax * ax + A * ax * az + az * az) % P)
    added = (4 * (ax * bx - az * bz) ** 2 % P, 4 * x * (ax * bz - az * bx) ** 2 % P)
    return double, added


def test_blinding_is_multiplication_in_any_order():
    word, (a, b) = [b"i17"], (psi.psi_key(p, "s", "lab") for p in (PEPPER, OTHER))
    one = psi.blind_again(psi.blind(word, a, SALT), b, 1)
    assert one == psi.blind_again(psi.blind(word, b, SALT), a, 1)
    assert one != psi.blind_again(psi.blind(word, a, b"t" * 32), b, 1)


def test_the_bytes_of_a_private_intersection_come_again_after_a_crash_and_differ_between_sessions():
    words = canonical(pl.Series(range(9)))
    one, again_, other = (intersect_privately(words, words, session)[1] for session in ("s1", "s1", "s2"))
    assert one == again_
    assert not set(points(*one)) & set(points(*other))


def test_every_session_with_every_peer_is_blinded_by_a_key_of_its_own():
    """Two peers who saw a column under one key could compare what they saw."""
    keys = {psi.psi_key(p, s, peer) for p in (PEPPER, OTHER) for s in ("s1", "s2") for peer in ("lab", "bank")}
    assert len(keys) == 8


def test_what_is_sent_does_not_stand_in_the_order_of_its_words():
    """It is the same for every order of the words: nobody can tell from a place which word stands there."""
    words, key = canonical(pl.Series(range(20))), psi.psi_key(PEPPER, "s1", "lab")
    assert split(words, key) == split(words[::-1], key)
    assert psi.secret_order(words, key).tolist() != psi.secret_order(words, psi.psi_key(OTHER, "s1", "lab")).tolist()


def test_so_many_points_are_read_as_were_agreed_on_and_no_other_number():
    """A request for every key there is would show the whole column."""
    key = psi.psi_key(PEPPER, "s1", "lab")
    sent = psi.blind(canonical(pl.Series(range(3))), key, SALT)
    for size, block in ((2, sent), (4, sent), (3, sent[:-1]), (3, sent + b"x"), (1, b"")):
        with pytest.raises(WireError, match="points were expected"):
            psi.blind_again(block, key, size)
    for at in (-1, 1, 2**60):
        with pytest.raises(ProtocolError, match="no block"):
            psi.block_size(3, at)


SMALL = [0, 1, P - 1, 325606250916557431795983626356110631294008115727848805560023387167927233504]


@pytest.mark.parametrize("u", SMALL)
def test_a_point_of_small_order_gets_no_answer(u):
    with pytest.raises(WireError, match=r"small order.*Nothing was sent"):
        psi.blind_again(u.to_bytes(32, "little"), psi.psi_key(PEPPER, "s1", "lab"), 1)


@pytest.mark.parametrize("u", [P, P + 1, P + 9, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1])
def test_a_point_has_one_form(u):
    """In another form the same point would not be seen to stand twice."""
    with pytest.raises(WireError, match="one form"):
        psi.blind_again(u.to_bytes(32, "little"), psi.psi_key(PEPPER, "s1", "lab"), 1)


def test_the_largest_coordinate_in_its_one_form_is_read():
    twist = (P - 2).to_bytes(32, "little")
    private = X25519PrivateKey.from_private_bytes(key := psi.psi_key(PEPPER, "s1", "lab"))
    assert psi.blind_again(twist, key, 1) == private.exchange(X25519PublicKey.from_public_bytes(twist))


def test_an_answer_to_one_key_cannot_stand_for_all():
    """A party that has one of the keys would otherwise make all rows common, and be told the digests of all of them."""
    words = canonical(pl.Series([1, 2, 3]))
    one, rest = points(psi.blind(words, PEPPER, SALT))[:2]
    order = np.arange(3)
    for theirs, answered in ((one, one * 3), (one * 2, one + rest + bytes(32))):
        with pytest.raises(WireError, match="the same point twice"):
            psi.common(theirs, answered, order, words)
    with pytest.raises(ProtocolError, match="3 keys were asked about, 2 were answered"):
        psi.common(one, one + rest, order, words)


def test_an_answer_that_has_a_party_hold_what_nobody_has_is_refused():
    words = psi.psi_fill(canonical(pl.Series([1])), 2, PEPPER)
    sent = psi.blind(words, PEPPER, SALT)
    with pytest.raises(ProtocolError, match="nobody else can have"):
        psi.common(sent, sent, np.arange(2), words)
    assert psi.common(sent[:32], sent, np.arange(2), words).tolist() == [0]


@given(words=st.lists(st.one_of(st.none(), st.integers(1, 99)), max_size=9, unique_by=lambda w: w or object()))
def test_words_are_filled_up_with_ones_that_nobody_else_has(words):
    given_ = [None if word is None else b"i%d" % word for word in words]
    filled, other = (psi.psi_fill(given_, 12, psi.psi_key(p, "s1", "lab")) for p in (PEPPER, OTHER))
    assert len(filled) == len(set(filled)) == 12
    assert [word for word in given_ if word] == [f for f, word in zip(filled, given_, strict=False) if word]
    assert {word for word in given_ if word} == set(filled) & set(other)
    with pytest.raises(InvalidInput, match=r"more than the 8.*Nothing was sent"):
        psi.psi_fill([None] * 9, 8, PEPPER)


def test_filling_up_is_the_same_work_however_many_words_there_are(monkeypatch):
    """Or the time of an answer would tell the hub how long a table is, and how many rows are left in a chain."""
    made, blake2b = [], psi.hashlib.blake2b
    monkeypatch.setattr(psi.hashlib, "blake2b", lambda *given_, **more: made.append(1) or blake2b(*given_, **more))
    work = set()
    for held in (0, 1, 9):
        made.clear()
        psi.psi_fill([b"i%d" % at for at in range(held)], 9, PEPPER)
        work.add(len(made))
    assert work == {9}


@pytest.mark.parametrize("words", [[b"i1", b"i1"], []])
def test_a_repeated_key_enters_no_private_intersection(words):
    with pytest.raises(InvalidInput, match=r"stand once.*Nothing was sent"):
        psi.secret_order(words, PEPPER)
