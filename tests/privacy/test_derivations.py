"""Every derived key by hand, word for word: another word would part two versions, or bring two uses of a secret together."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.data import alignment, psi, row_order
from colonnade.kernels.ring import Ring, uniform
from colonnade.methods.gram.masks import Stage
from colonnade.privacy.keyring import ColumnPad, Keyring, Pad, derive, public_key

SECRET, OTHER, ONCE = bytes(range(32)), bytes(range(32, 64)), bytes(12)


def by_hand(secret: bytes, *words: str) -> bytes:
    """HKDF-SHA256 (RFC 5869) without salt, 32 bytes, over framed words."""
    info = b"".join(len(word.encode()).to_bytes(4, "little") + word.encode() for word in ("colonnade", *words))
    return hmac.digest(hmac.digest(bytes(32), secret, "sha256"), info + b"\1", "sha256")


@pytest.mark.parametrize("words", [(), ("a",), ("a", "b"), ("ab",), ("a", ""), ("é", "b" * 300)])
def test_a_key_for_a_purpose_is_hkdf_over_framed_words(words):
    assert derive(SECRET, *words) == by_hand(SECRET, *words)


def rings(run="run", told="told"):
    identities = {name: by_hand(name.encode(), "identity") for name in ("a", "b")}
    pins = {name: public_key(identity) for name, identity in identities.items()}
    secrets = {"a": SECRET, "b": OTHER}
    return {name: Keyring(run, name, identities[name], pins, secrets[name], told) for name in pins}, pins


def test_the_keys_of_a_run_are_derived_word_for_word():
    (made, pins), private = rings(), {}
    for name, secret in (("a", SECRET), ("b", OTHER)):
        private[name] = X25519PrivateKey.from_private_bytes(by_hand(secret, "x25519", "run", name))
        public, signature = made[name].hello
        assert public == private[name].public_key().public_bytes_raw()
        statement = by_hand(public, "hello", "run", name, "told")
        Ed25519PublicKey.from_public_bytes(pins[name]).verify(signature, statement)
    made["a"].meet("b", *made["b"].hello)
    made["b"].meet("a", *made["a"].hello)
    pair = by_hand(private["a"].exchange(private["b"].public_key()), "pair", "run", "a", "b")
    assert made["a"].shared("b", "mask", 1) == made["b"].shared("a", "mask", 1) == by_hand(pair, "shared", "mask", "1")
    ((wrapped, content),) = made["a"].seal({"b": 7}, b"body", "3/0").values()
    key = by_hand(SECRET, "content", "run", "a", "3/0")
    assert content == AESGCM(key).encrypt(ONCE, b"body", None)
    assert wrapped == AESGCM(by_hand(pair, "edge", "a", "b", "7")).encrypt(ONCE, key, None)


def test_a_pad_is_the_mask_of_a_key_that_names_its_label_width_and_ring():
    key = by_hand(SECRET, "pad", "columns", "run", "a", "3", "40")
    pad = Pad(SECRET, ("columns", "run", "a"), 3, Ring(40))
    assert pad.key == key
    assert np.array_equal(pad.rows(2, 4), uniform(key, b"pad", 2, 4, 3, Ring(40)))


def test_a_column_pad_is_the_mask_of_a_key_that_names_its_label_and_every_ring():
    for bits, word in (([3, 32], 32), ([3, 33], 64)):
        key = by_hand(SECRET, "column pad", "columns", "run", ",".join(map(str, bits)))
        pad = ColumnPad(SECRET, ("columns", "run"), np.array(bits))
        assert pad.key == key
        for first, count in ((2, 4), (2, 4), (6, 4), (0, 1)):
            assert np.array_equal(pad.rows(first, count), uniform(key, b"column pad", first, count, 2, Ring(word)))


class Door:
    """The gate of a party: what R is derived from."""

    def __init__(self, node: str, keyring: Keyring) -> None:
        self.node, self.keyring = node, keyring


def test_masks_of_a_stage_name_all_that_its_parties_were_told():
    bits = {"a": np.array([5, 40]), "b": np.array([40, 7, 64])}
    stage, words = Stage("sums", 9, bits, (("a", "b"),), OTHER), b"[('a', [5, 40]), ('b', [40, 7, 64])]"
    rings_digest = hashlib.sha256(len(words).to_bytes(8, "little") + words).hexdigest()
    label = OTHER.hex(), rings_digest
    assert stage.label() == label
    mask = stage.mask("b", SECRET, "run")
    assert (mask.seed, mask.label) == (SECRET, ("columns", "run", "b", *label))
    assert np.array_equal(mask.bits, bits["b"])
    made, _ = rings()
    made["a"].meet("b", *made["b"].hello)
    made["b"].meet("a", *made["a"].hello)
    key = made["a"].shared("b", "corrections", *label, "a", "b", "product 0")
    drawn = uniform(by_hand(key, "column pad", "R", "64,64,64"), b"column pad", 0, 2, 3, Ring(64))
    want = drawn & np.array([[31, 31, 31], [2**40 - 1, 127, 2**40 - 1]], np.uint64)
    for node in ("a", "b"):
        assert np.array_equal(stage.between(Door(node, made[node]), ("a", "b")), want)


def test_the_digests_and_the_order_of_rows_are_derived_word_for_word():
    keys = pl.Series(["x", "7", "7b", "007"])
    for use in ("row", "cut"):
        key = by_hand(SECRET, "align", use)
        want = [hashlib.blake2b(word, digest_size=16, key=key).digest() for word in (b"tx", b"i7", b"t7b", b"t007")]
        assert row_order.digests(keys, SECRET, use).tobytes() == b"".join(want)
    found = row_order.digests(keys, SECRET)
    assert found.tobytes() == row_order.digests(keys, SECRET, "row").tobytes()
    order = hmac.digest(by_hand(SECRET, "align", "order", "run"), found.tobytes(), "sha256")
    assert alignment.order_digest(found, SECRET, "run") == order


def test_a_pepper_is_the_hash_of_all_shares_in_the_order_of_names():
    shares = {
        name: alignment.PepperShare.from_secret(pl.Series([1]), secret, "s1")
        for name, secret in (("b", OTHER), ("a", SECRET))
    }
    contributions = [by_hand(secret, "align", "share", "s1") for secret in (SECRET, OTHER)]
    assert [shares[name].contribution for name in "ab"] == contributions
    mixed = hashlib.sha256(b"".join(contributions)).digest()
    assert alignment.agree(shares, "s1") == by_hand(mixed, "align", "pepper", "s1", "a", "b")


def test_what_a_party_keeps_and_confirms_of_an_agreement_is_derived_word_for_word():
    offered = alignment.offer(pl.Series([1, 2, 3]), SECRET, least=1)
    bits = alignment.bitmap(np.array([0, 2]), 3)
    made = alignment.Agreement.from_answer(offered, bits, SECRET, session="s1", party="b", parties=["b", "a"])
    assert made.column == hmac.digest(by_hand(SECRET, "align", "column"), offered.digests.tobytes(), "sha256")
    order = hmac.digest(by_hand(SECRET, "align", "order", "run"), offered.digests[[0, 2]].tobytes(), "sha256")
    said = {name: hmac.digest(by_hand(SECRET, "align", "confirm", name, "a", "b"), order, "sha256") for name in "ab"}
    assert made.confirmation(offered, "run") == said["b"]
    made.check(offered, "run", {"a": said["a"]})


def test_the_keys_of_a_private_intersection_are_derived_word_for_word():
    key = psi.psi_key(SECRET, "s1", "a")
    assert key == by_hand(SECRET, "align", "psi", "s1", "a")
    pad = by_hand(key, "align", "pad")
    digests = [hashlib.blake2b(str(at).encode(), digest_size=16, key=pad).hexdigest().encode() for at in range(3)]
    filled = psi.psi_fill([None, b"i7"], 3, key)
    assert [filled[0], filled[2]] == [psi._FILL + digests[0], psi._FILL + digests[2]]
    mark, words = by_hand(key, "align", "order of words"), [b"i1", b"i2", b"i3", b"i4"]
    marks = [hashlib.blake2b(word, digest_size=16, key=mark).digest() for word in words]
    assert psi.secret_order(words, key).tolist() == sorted(range(4), key=marks.__getitem__)
