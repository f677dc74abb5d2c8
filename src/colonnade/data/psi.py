"""Private set intersection over P-256: which keys two parties share, and nothing about the others (alignment.py).

The label holder blinds its keys (`psi_request`), the party blinds them again (`psi_respond`) and sends its own, blinded
(`psi_setup`); the label holder compares (`psi_common`). Messages have public sizes (`psi_fill`).
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.alignment import RowOffer
from colonnade.data.row_order import DIGEST, Places, canonical, checked_secret
from colonnade.errors import InvalidInput, PolicyRefused, ProtocolError, WireError
from colonnade.privacy.keyring import derive

if TYPE_CHECKING:
    import polars as pl

_FILL = b"p"  # the mark of words that stand for no key
_FRAMED = 35  # bytes of a point in a message; a message has a few more of its own
_POINT = 33  # bytes of a point on P-256, compressed: 2 or 3, then its x


def psi_key(secret: bytes, session: str, peer: str) -> bytes:
    """A private key for one intersection with one peer, grown from a party's stored secret."""
    grown = derive(checked_secret(secret), "align", "psi", session, peer)
    return bytes([grown[0] & 0x7F]) + grown[1:]  # below the order of P-256, so that no draw is ever refused


def psi_words(keys: pl.Series, offered: RowOffer) -> list[bytes]:
    """The keys that a party offers, in the order of their digests: `psi_common` then finds places of the offer."""
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

    given = [*words, *[None] * (size - len(words))]
    return [filling(at) if word is None else word for at, word in enumerate(given)]


def psi_request(words: Sequence[bytes], key: bytes) -> bytes:
    """Label holder → party: its keys (`canonical`), blinded."""
    given = _distinct(words)
    asked = [given[at] for at in _secret_order(words, key)]
    return bytes(_psi().client.CreateFromKey(key, True).CreateRequest(asked).SerializeToString())


def psi_setup(words: Sequence[bytes], key: bytes) -> bytes:
    """Party → label holder: its own keys, blinded and sorted. The structure is exact: no row is common by chance."""
    psi = _psi()
    given = _distinct(words)
    setup = psi.server.CreateFromKey(key, True).CreateSetupMessage(1e-12, len(given), given, psi.DataStructure.RAW)
    return bytes(setup.SerializeToString())


def psi_respond(request: bytes, key: bytes, *, most: int) -> bytes:
    """Party → label holder: the label holder's blinded keys, blinded again, if there are at most so many.

    Whoever may ask about every key there is learns the whole column: `most` is what the label holder's table can hold.
    """
    psi = _psi()
    asked = _parse(psi.Request, request, most)
    _within(len(asked.encrypted_elements), most)
    _each_once(asked.encrypted_elements)
    try:
        return bytes(psi.server.CreateFromKey(key, True).ProcessRequest(asked).SerializeToString())
    except RuntimeError as error:  # points that are not on the curve
        raise WireError("a request that is none: its elements cannot be blinded. Nothing was sent.") from error


def psi_common(words: Sequence[bytes], key: bytes, setup: bytes, response: bytes, *, most: int) -> Places:
    """At the label holder: which of its keys the party has, if the party brought at most so many."""
    psi = _psi()
    given, answered = _parse(psi.ServerSetup, setup, most), _parse(psi.Response, response, len(words))
    if given.WhichOneof("data_structure") != "raw":  # a filter could be made to say yes to every key
        raise WireError("the party's keys did not come one by one, so they cannot be compared.")
    _within(len(given.raw.encrypted_elements), most)
    if len(answered.encrypted_elements) != len(words):
        answers = len(answered.encrypted_elements)
        raise ProtocolError(f"{len(words):,} keys were asked about, {answers:,} were answered.")
    _each_once(answered.encrypted_elements)
    _each_once(given.raw.encrypted_elements)
    try:
        found = psi.client.CreateFromKey(key, True).GetIntersection(given, answered)
    except RuntimeError as error:
        raise WireError("an answer that is none: its elements cannot be unblinded.") from error
    order = np.asarray(_secret_order(words, key), np.int64)
    places = np.unique(order[np.asarray(found, np.int64)])
    if any(words[place].startswith(_FILL) for place in places):
        departs = "the party is said to have words that nobody else can have: it departs from the protocol"
        raise ProtocolError(f"{departs}. Nobody was told any row.")
    return places


def _within(count: int, most: int) -> None:
    if count > most:
        raise PolicyRefused(
            f"the other party brings {count:,} keys, more than the {most:,} that its table can hold. Nothing was sent. "
            "Agree on a larger bound only if its table is that large: whoever brings every key there is learns the "
            "whole column."
        )


def _each_once(elements: Sequence[bytes]) -> None:
    """Refuse repeats: one answer given for every key would make all rows common wherever that one is."""
    if not all(len(element) == _POINT and element[0] in (2, 3) for element in elements):
        raise WireError("elements of a private set intersection that are no points, or not in their one form.")
    if len(set(elements)) != len(elements):
        raise WireError("the same element twice in a private set intersection: each key may stand once.")


def _secret_order(words: Sequence[bytes], key: bytes) -> list[int]:
    """The order of a request. That of digests would show to whoever has the pepper about where a key stands."""
    mark = derive(key, "align", "order of a request")
    marks = [hashlib.blake2b(word, digest_size=DIGEST, key=mark).digest() for word in words]
    return sorted(range(len(words)), key=marks.__getitem__)


def _distinct(words: Sequence[bytes]) -> list[str]:
    if not words or len(set(words)) != len(words):
        raise InvalidInput("each key may stand once, and there must be one. Aggregate the rows. Nothing was sent.")
    return [word.decode() for word in words]


def psi_ready() -> bool:
    """Whether this machine can take part in a private set intersection."""
    try:
        _psi()
    except InvalidInput:
        return False
    return True


def _psi() -> Any:
    try:
        return importlib.import_module("private_set_intersection.python")
    except ImportError as error:
        needs = "private set intersection needs the package openmined-psi: pip install 'colonnade[psi]'"
        raise InvalidInput(f"{needs}. Without it, align by keyed digests.") from error


def _parse(shape: Any, body: bytes, most: int) -> Any:
    if len(body) > _FRAMED * (most + most // 8) + 4096:  # elements without a byte take 25 times their length to read
        raise WireError(f"a message of a private set intersection is longer than {most:,} keys can make it.")
    message = shape()
    try:
        message.ParseFromString(body)
    except Exception as error:  # protobuf's DecodeError, which cannot be named without importing protobuf
        raise WireError("bytes that are no message of a private set intersection.") from error
    return message
