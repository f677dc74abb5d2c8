"""Private set intersection on Curve25519: which keys two parties share, and nothing about the others.

Solves   label holder and party find their common keys without showing any to each other, or to who carries messages.
Steps    H takes a word onto the curve (kernels/curve25519.py), under a salt that both have; a and b are the secrets of
         label holder and party.
             party → label holder    b·H(y) of its words y
             label holder → party    a·H(x) of its words x
             party → label holder    b·(a·H(x)), in the order in which they came
             label holder            a·(b·H(y)), and compares
Order    each sends its words in an order that only its secret tells, block by block: so a block can be made, repeated
         after a crash and forgotten by itself.
Sizes    who has fewer words than the federation file allows it fills up with words that nobody else can have.
Rests on the decisional Diffie-Hellman assumption in the subgroup of prime order, H as a random oracle, and parties
         that follow the protocol. X25519 multiplies by multiples of 8: nothing of small order is left of a point, on
         the curve (cofactor 8) and on its twist (4), so no answer tells of a secret what a small subgroup would tell.
         A point of which nothing is left is refused.

docs/understand/alignment.md says who learns what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.data.alignment import RowOffer
from colonnade.data.row_order import DIGEST, Places, canonical, checked_secret
from colonnade.errors import InvalidInput, ProtocolError, WireError
from colonnade.kernels.curve25519 import P, onto_curve
from colonnade.privacy.keyring import derive

if TYPE_CHECKING:
    import polars as pl

POINT = 32  # bytes of a u-coordinate, lowest first
BLOCK = 1 << 15  # words in a message
_FILL = b"p"  # the mark of words that stand for no key
_TOP = np.frombuffer(P.to_bytes(POINT, "little"), np.uint8)

Points = NDArray[np.uint8]  # n × 32


def psi_key(secret: bytes, session: str, peer: str) -> bytes:
    """A private key for one intersection with one peer, grown from a party's stored secret."""
    return derive(checked_secret(secret), "align", "psi", session, peer)


def psi_words(keys: pl.Series, offered: RowOffer) -> list[bytes]:
    """The keys that a party offers, in the order of their digests: `common` then finds places of the offer."""
    words = canonical(keys)
    return [words[place] for place in offered.places]


def psi_fill(words: Sequence[bytes | None], size: int, key: bytes) -> list[bytes]:
    """So many words, whatever there is: each that is missing becomes one that nobody else can have.

    Blinded, nobody can tell them apart. So the size of a message is a public bound, and says neither how long a table
    is nor how many rows are left in a chain of intersections.
    """
    if len(words) > size:
        more = f"{len(words):,} keys are more than the {size:,} that this party may bring by the federation file."
        raise InvalidInput(f"{more} Nothing was sent. Raise its `most` there, with the agreement of all parties.")
    pad = derive(key, "align", "pad")

    def filling(at: int) -> bytes:
        return _FILL + hashlib.blake2b(str(at).encode(), digest_size=DIGEST, key=pad).hexdigest().encode()

    # All of them: else time would tell how many there are.
    made = [filling(at) for at in range(size)]
    given = [*words, *[None] * (size - len(words))]
    return [mine if word is None else word for word, mine in zip(given, made, strict=True)]


def secret_order(words: Sequence[bytes], key: bytes) -> Places:
    """In which order words are sent. That of a table, or of digests, would tell about where a key stands."""
    if not words or len(set(words)) != len(words):
        raise InvalidInput("each key may stand once, and there must be one. Aggregate the rows. Nothing was sent.")
    mark = derive(key, "align", "order of words")
    marks = [hashlib.blake2b(word, digest_size=DIGEST, key=mark).digest() for word in words]
    return np.asarray(sorted(range(len(words)), key=marks.__getitem__), np.int64)


def blocks(size: int) -> int:
    """In how many messages so many words travel."""
    return -(-size // BLOCK)


def block_size(size: int, at: int) -> int:
    """How many of so many words are in one of them."""
    if at not in range(blocks(size)):
        raise ProtocolError(f"there is no block {at:,} of {size:,} words in a private set intersection")
    return min(BLOCK, size - at * BLOCK)


def blind(words: Sequence[bytes], key: bytes, salt: bytes) -> bytes:
    """Words on the curve, times a secret."""
    uniform = b"".join([hashlib.blake2b(word, digest_size=POINT, key=salt).digest() for word in words])
    return _times(key, onto_curve(np.frombuffer(uniform, np.uint8).reshape(-1, POINT)).tobytes())


def blind_again(points: bytes, key: bytes, size: int) -> bytes:
    """What somebody else blinded, times a secret."""
    return _times(key, checked(points, size))


def checked(points: bytes, size: int) -> bytes:
    """Points of somebody else, if they are so many, all in their one form."""
    if len(points) != size * POINT:
        raise WireError(f"{len(points):,} bytes of a private set intersection where {size:,} points were expected")
    _check_form(_rows(points))
    return points


def common(theirs: bytes, answered: bytes, order: Places, words: Sequence[bytes]) -> Places:
    """At the label holder: which of its words the party has. `answered` is in the order of its own message."""
    if len(answered) != len(words) * POINT:
        raise ProtocolError(f"{len(words):,} keys were asked about, {len(answered) // POINT:,} were answered.")
    there = _each_once(theirs)
    mine = _each_once(answered)
    places = np.sort(order[np.isin(mine, there, assume_unique=True)])
    invented = np.fromiter((word.startswith(_FILL) for word in words), np.bool_, len(words))
    if invented[places].any():
        departs = "the party is said to have words that nobody else can have: it departs from the protocol"
        raise ProtocolError(f"{departs}. Nobody was told any row.")
    return places


def _times(key: bytes, points: bytes) -> bytes:
    secret = X25519PrivateKey.from_private_bytes(key)
    take = X25519PublicKey.from_public_bytes
    multiply = secret.exchange
    try:
        return b"".join([multiply(take(points[at : at + POINT])) for at in range(0, len(points), POINT)])
    except ValueError as error:
        # Nothing but zeros is left of a point of small order.
        raise WireError("a point of small order in a private set intersection. Nothing was sent.") from error


def _rows(points: bytes) -> Points:
    return np.frombuffer(points, np.uint8).reshape(-1, POINT)


def _check_form(points: Points) -> None:
    """Refuse coordinates from p on: two forms of one point would pass for two."""
    largest = (points[:, 1:-1] == _TOP[1:-1]).all(axis=1) & (points[:, -1] == _TOP[-1])
    if ((points[:, -1] > _TOP[-1]) | (largest & (points[:, 0] >= _TOP[0]))).any():
        raise WireError("points of a private set intersection that are not in their one form")


def _each_once(points: bytes) -> NDArray[np.bytes_]:
    """The points as one value each; repeats are refused: one answer for every key would make all rows common."""
    # All have 32 bytes, so trailing zeros cannot confuse.
    values = _rows(points).view(f"S{POINT}").ravel()
    if np.unique(values).size != values.size:
        raise WireError("the same point twice in a private set intersection: each key may stand once.")
    return values
