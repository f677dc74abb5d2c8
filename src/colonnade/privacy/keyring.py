"""A party's keys in one run: who it is, what it shares with each other party, messages only one of them can read, and
one-time masks.

Solves   parties on a star talk to each other through a coordinator that must learn nothing from what it carries.
Keys     each party has a signing key, pinned in the federation file, and one X25519 key a run, signed by it. Two
         parties derive from X25519 whatever they share: a key for each direction, and secrets for masks, each under its
         own name.
Sealing  content is encrypted once under a key of its own, and that key is wrapped for each receiver: AES-256-GCM twice.
         Keys are derived, not drawn, so that a message repeated after a crash is the same bytes; every key encrypts
         once.
Masks    a seed stands for a uniform matrix, of which any rows can be made when they are needed. A value plus its row of
         the mask is uniform to whoever lacks the seed, and the difference of two values masked alike is not: a mask
         covers a row once. `Gate.masked` counts the rows; the stage and everything its parties agreed on are part of
         the label, so that another stage, or parties that were told different things, never meet on one mask.
Leaves   the run's public X25519 key and its signature. The private half is a secret of the run, erased when it closes:
         what is left of sealed messages on a disk can then be read by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Integers
from colonnade.kernels.ring import MaskStream, Ring, uniform

_NONCE = bytes(12)  # every key encrypts one message, ever


class Keyring:
    """The keys of one party in one run. Peers who were told something else of the run than `told` are not met."""

    def __init__(
        self, run: str, me: str, identity: bytes, pinned: Mapping[str, bytes], secret: bytes, told: str = ""
    ) -> None:
        self._run = run
        self._me = me
        self._pinned = dict(pinned)
        self._secret = secret
        self._told = told
        self._identity = Ed25519PrivateKey.from_private_bytes(identity)
        self._private = X25519PrivateKey.from_private_bytes(derive(secret, "x25519", run, me))
        self._shared: dict[str, bytes] = {}

    # ------------------------------------------------------------------------ meeting

    @cached_property
    def hello(self) -> tuple[bytes, bytes]:
        """This run's public key, and its signature by the pinned one."""
        public = self._private.public_key().public_bytes_raw()
        return public, self._identity.sign(self._statement(self._me, public))

    def meet(self, peer: str, public: bytes, signature: bytes) -> None:
        """Take a peer's key of this run, if it is signed by the key pinned for that peer."""
        pinned = self._pinned.get(peer)
        if pinned is None:
            raise ProtocolError(f"{peer!r} has no key in the federation file, so it cannot be told from an impostor.")
        try:
            Ed25519PublicKey.from_public_bytes(pinned).verify(signature, self._statement(peer, public))
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except (InvalidSignature, ValueError) as error:
            raise ProtocolError(
                f"the key that came for {peer!r} is not signed by the key pinned for it, or for another job under the "
                "same name. Nothing was sent to it; compare the federation files of both parties, and ask who sent it."
            ) from error
        self._shared[peer] = derive(shared, "pair", self._run, *sorted((self._me, peer)))

    def _statement(self, party: str, public: bytes) -> bytes:
        return derive(public, "hello", self._run, party, self._told)

    # ------------------------------------------------------------------------ using

    def shared(self, peer: str, *purpose: object) -> bytes:
        """32 secret bytes that this party and `peer`, and nobody else, derive for a purpose."""
        return derive(self._with(peer), "shared", *map(str, purpose))

    def seal(self, places: Mapping[str, int], body: bytes, name: str) -> dict[str, tuple[bytes, bytes]]:
        """For each receiver a wrapped key, and the content, which is the same for all."""
        # `places` says which message on its edge this is for each receiver, so that a copy opens nowhere else; `name`
        # tells this content from all others of the run.
        key = derive(self._secret, "content", self._run, self._me, name)
        content = AESGCM(key).encrypt(_NONCE, body, None)
        edges = {peer: self._edge(self._me, peer, peer, place) for peer, place in places.items()}
        return {peer: (edge.encrypt(_NONCE, key, None), content) for peer, edge in edges.items()}

    def open(self, sender: str, place: int, wrapped: bytes, content: bytes) -> bytes:
        """What `sender` sealed for this party as message number `place` on their edge."""
        try:
            key = self._edge(sender, self._me, sender, place).decrypt(_NONCE, wrapped, None)
            return AESGCM(key).decrypt(_NONCE, content, None)
        except (InvalidTag, ValueError) as error:
            raise ProtocolError(
                f"a sealed message of {sender!r} does not open: it was changed on the way, repeated at another place, "
                "or meant for somebody else. Nothing of it was used."
            ) from error

    def _edge(self, sender: str, receiver: str, peer: str, place: int) -> AESGCM:
        return AESGCM(derive(self._with(peer), "edge", sender, receiver, str(place)))

    def _with(self, peer: str) -> bytes:
        if peer not in self._shared:
            raise ProtocolError(f"{self._me!r} has not met {peer!r} in this run: nothing can be sealed between them.")
        return self._shared[peer]


def public_key(identity: bytes) -> bytes:
    """The public half of a signing key."""
    return Ed25519PrivateKey.from_private_bytes(identity).public_key().public_bytes_raw()


def derive(secret: bytes, *purpose: str) -> bytes:
    """32 bytes for one purpose: HKDF-SHA256, every word framed by its length so that no two purposes read alike."""
    info = b"".join(len(word.encode()).to_bytes(4, "little") + word.encode() for word in ("colonnade", *purpose))
    return HKDF(SHA256(), 32, None, info).derive(secret)


# ------------------------------------------------------------------------ one-time masks


@dataclass(frozen=True, slots=True)
class Pad:
    """A mask of `columns` columns and as many rows as are asked for."""

    seed: bytes
    label: tuple[str, ...]
    columns: int
    ring: Ring

    @property
    def key(self) -> bytes:
        """What tells this mask from every other."""
        return derive(self.seed, "pad", *self.label, str(self.columns), str(self.ring.bits))

    def rows(self, first: int, count: int) -> NDArray[Any]:
        """Rows `first` to `first + count` of the mask."""
        return uniform(self.key, b"pad", first, count, self.columns, self.ring)


@dataclass
class ColumnPad:
    """A mask with a ring for each column: whole words, of which the low bits[j] bits of column j count."""

    seed: bytes
    label: tuple[str, ...]
    bits: Integers
    _made: tuple[int, int, Any] = field(default=(0, 0, None), init=False)  # the rows that were made last
    _stream: MaskStream | None = field(default=None, init=False)  # where it goes on

    @cached_property
    def key(self) -> bytes:
        """What tells this mask from every other."""
        return derive(self.seed, "column pad", *self.label, ",".join(map(str, self.bits.tolist())))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint32 if self.bits.max(initial=1) <= 32 else np.uint64)

    def rows(self, first: int, count: int) -> NDArray[Any]:
        """Rows `first` to `first + count` of the mask; asked for twice in a row, they are made once."""
        if self._made[:2] != (first, count) or self._made[2] is None:
            if self._stream is None or self._stream.row != first:
                words = Ring(8 * self.dtype.itemsize)
                self._stream = MaskStream(self.key, b"column pad", first, self.bits.size, words)
            self._made = (first, count, self._stream.next(count))
        return np.asarray(self._made[2])
