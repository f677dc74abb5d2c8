"""Keys of a run: who is who, what two parties share, and what only a receiver can read."""

from __future__ import annotations

import pytest

from colonnade.errors import ProtocolError
from colonnade.privacy.keyring import Keyring, derive, public_key

NAMES = ("bank", "clinic", "lab")


def keys_of(name, run="run", pinned=None, secret=None, told=""):
    keys = {n: derive(n.encode(), "identity") for n in NAMES}
    pins = pinned or {n: public_key(key) for n, key in keys.items()}
    return Keyring(run, name, keys[name], pins, secret or derive(name.encode(), "secret"), told)


def met(run="run"):
    rings = {name: keys_of(name, run) for name in NAMES}
    for me, mine in rings.items():
        for peer in NAMES:
            if peer != me:
                mine.meet(peer, *rings[peer].hello)
    return rings


def test_two_parties_derive_the_same_secret_and_a_third_another():
    rings = met()
    assert rings["bank"].shared("clinic", "mask", 1) == rings["clinic"].shared("bank", "mask", 1)
    assert rings["bank"].shared("clinic", "mask", 1) != rings["bank"].shared("lab", "mask", 1)


def test_every_purpose_run_and_pair_has_its_own_secret():
    found = [met(run)[a].shared(b, *purpose) for run in ("r1", "r2") for a, b in (("bank", "clinic"), ("bank", "lab"))
             for purpose in (("mask", 1), ("mask", 2), ("m", "ask1"), ("mask1",))]  # fmt: skip
    assert len(set(found)) == len(found)


def test_a_sealed_message_opens_at_its_receiver_and_place_only():
    rings = met()
    (key, content), (other, same) = rings["bank"].seal({"clinic": 3, "lab": 0}, b"body", "7/0").values()
    assert content == same  # encrypted once
    assert rings["clinic"].open("bank", 3, key, content) == b"body"
    assert rings["lab"].open("bank", 0, other, content) == b"body"
    for who, sender, place in (("clinic", "bank", 4), ("lab", "bank", 0), ("clinic", "lab", 3)):
        with pytest.raises(ProtocolError, match="does not open"):
            rings[who].open(sender, place, key, content)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("place", [0, -1])
def test_one_changed_bit_is_refused(part, place):
    rings = met()
    parts = [bytearray(part) for part in rings["bank"].seal({"clinic": 0}, b"body", "0/0")["clinic"]]
    parts[part][place] ^= 1
    with pytest.raises(ProtocolError, match="does not open"):
        rings["clinic"].open("bank", 0, *map(bytes, parts))


def test_a_repeated_seal_is_the_same_bytes():
    assert met()["bank"].seal({"lab": 0}, b"body", "0/0") == met()["bank"].seal({"lab": 0}, b"body", "0/0")


def test_a_key_that_its_pinned_key_did_not_sign_is_refused():
    mine, impostor = keys_of("bank"), keys_of("lab")
    with pytest.raises(ProtocolError, match="not signed by the key pinned"):
        mine.meet("clinic", *impostor.hello)
    with pytest.raises(ProtocolError, match="not signed"):
        mine.meet("clinic", *keys_of("clinic", run="another run").hello)
    with pytest.raises(ProtocolError, match="not signed"):
        mine.meet("clinic", bytes(32), keys_of("clinic").hello[1])


def test_a_party_without_a_pinned_key_is_refused():
    with pytest.raises(ProtocolError, match="no key in the federation file"):
        keys_of("bank", pinned={"bank": bytes(32)}).meet("lab", *keys_of("lab").hello)


def test_nothing_is_sealed_for_a_party_that_was_not_met():
    with pytest.raises(ProtocolError, match="has not met"):
        keys_of("bank").seal({"lab": 0}, b"body", "0/0")


def test_a_key_is_signed_for_its_party_its_run_and_what_that_party_was_told():
    """Even where two parties pin one signing key, as a mistake of whoever wrote the file would have it."""
    pins = {
        "bank": bytes(32),
        "clinic": public_key(derive(b"lab", "identity")),
        "lab": public_key(derive(b"lab", "identity")),
    }
    mine = keys_of("bank", pinned=pins, told="one job")
    mine.meet("lab", *keys_of("lab", told="one job").hello)
    for peer, other in (
        ("clinic", keys_of("lab", told="one job")),
        ("lab", keys_of("lab", told="another job")),
        ("lab", keys_of("lab", run="another run", told="one job")),
    ):
        with pytest.raises(ProtocolError, match="not signed"):
            mine.meet(peer, *other.hello)


def test_no_two_messages_are_ever_encrypted_under_one_key(monkeypatch):
    """Over runs of one secret, both directions of an edge, receivers, places and names: the nonce is fixed, so keys differ."""
    from colonnade.privacy import keyring

    used = []

    class Watched:
        def __init__(self, key, cipher=keyring.AESGCM):
            self.key, self.cipher = key, cipher(key)

        def encrypt(self, nonce, body, about):
            used.append((self.key, nonce))
            return self.cipher.encrypt(nonce, body, about)

    monkeypatch.setattr(keyring, "AESGCM", Watched)
    sealed = 0
    for run in ("r1", "r2"):
        rings = met(run)
        for name in ("0/0", "0/1", "1/0"):
            for sender in NAMES:
                receivers = [peer for peer in NAMES if peer != sender]
                place = {"0/0": 0, "0/1": 1, "1/0": 2}[name]
                rings[sender].seal(dict.fromkeys(receivers, place), b"body", name)
                sealed += 1 + len(receivers)
    assert len(used) == sealed
    assert len(set(used)) == sealed
