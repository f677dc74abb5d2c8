"""What the hub and a party say to each other: a small table of texts and numbers, and blobs behind it.

    "clp1" | length of the head (4 bytes, little-endian) | head, JSON | the blobs, one behind the other

The head's "blobs" are their lengths. Any bytes at all end in a parcel or a WireError; nothing is executed or imported.
A turn's head is nearly always that of the turn before, so short ones are remembered; no other head is, since it may be
large or hold what should not stay in memory.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from colonnade.errors import WireError
from colonnade.runtime.wire import Letter

_MAGIC = b"clp1"
_LENGTH = struct.Struct("<4sI")
LARGEST_HEAD = 16 << 20
LAST_ROUND = 1 << 32  # no run gets there; a receiver counts on from the number that a letter carries
LONGEST_NAME = 200
_FEW = 64  # blobs of a head that is remembered when it is written
_SHORT = 8 << 10  # bytes of a head that is remembered when it is read
# Names that the hub chooses become keys of records and names of files, so they are letters, digits and dashes.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class Parcel(NamedTuple):
    """One question, or its answer."""

    head: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a parcel. Tuples in the head hold texts only: heads are cached, and 1 and True are the same key."""
    sizes = tuple(map(len, blobs))
    try:
        write = _remembered if "letters" in head and len(sizes) <= _FEW else _written
        start = write(tuple(head.items()), sizes, tuple(map(type, head.values())))
    except TypeError:  # a table in it, which cannot be a key
        start = _written(tuple(head.items()), sizes)
    return b"".join((start, *blobs))


def _written(head: tuple[tuple[str, Any], ...], sizes: tuple[int, ...], _: tuple[type, ...] = ()) -> bytes:
    text = json.dumps({**dict(head), "blobs": sizes}).encode()
    return _LENGTH.pack(_MAGIC, len(text)) + text


_remembered = lru_cache(maxsize=256)(_written)


def unpack(raw: bytes, largest: int = LARGEST_HEAD) -> Parcel:
    try:
        magic, length = _LENGTH.unpack_from(raw)
        start = _LENGTH.size + length
        if magic != _MAGIC or length > min(len(raw) - _LENGTH.size, largest):
            raise WireError("not a parcel of this version of colonnade")
        text = raw[_LENGTH.size : start]
        head, sizes = _recalled(text) if b'"letters"' in text[:_SHORT] and length <= _SHORT else _read(text)
        if sum(sizes) != len(raw) - start:
            raise WireError("a parcel whose contents do not add up")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"a malformed parcel: {type(error).__name__}") from error
    blobs, at = [], start
    for size in sizes:
        blobs.append(raw[at : at + size])
        at += size
    return Parcel(head, tuple(blobs))


def _read(text: bytes) -> tuple[Mapping[str, Any], tuple[int, ...]]:
    """A head, and the lengths of what stands behind it."""
    head = json.loads(str(text, "utf-8"))
    sizes = tuple(head.pop("blobs"))
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise WireError("a parcel whose contents do not add up")
    if isinstance(addresses := head.get("letters"), list):
        head["letters"] = tuple(tuple(x) if isinstance(x, list) else x for x in addresses)
    return MappingProxyType(head), sizes


_recalled = lru_cache(maxsize=256)(_read)


def letters_out(letters: Sequence[Letter], run: str) -> tuple[tuple[tuple[str, str, str], ...], list[bytes]]:
    """Addresses for the head; for the blobs of each letter the head of its frame, and the body."""
    parts = [part for x in letters for part in (x.head(run), x.body)]
    return tuple([(x.sender, x.receiver, x.inside) for x in letters]), parts


def letters_in(addresses: Any, parts: Sequence[bytes], run: str) -> list[Letter]:
    """The letters of a parcel, each frame checked against its digest and its run."""
    if not (type(addresses) is tuple and 2 * len(addresses) == len(parts)):
        raise WireError("letters and addresses do not match")
    letters = []
    for place, address in enumerate(addresses):
        sender, receiver, inside = _address(address)
        letter = Letter.read(sender, receiver, inside, parts[2 * place], parts[2 * place + 1], run)
        if letter.round > LAST_ROUND:
            raise WireError("a letter of a round that no run reaches")
        letters.append(letter)
    return letters


def _address(raw: Any) -> tuple[str, str, str]:
    if type(raw) is not tuple or list(map(type, raw)) != [str, str, str]:
        raise WireError("a letter without an address")
    if max(map(len, raw)) > LONGEST_NAME:
        raise WireError("a letter with an address that is too long")
    return raw


def plain_heads(heads: Mapping[str, tuple[int, bytes]]) -> dict[str, list[Any]]:
    """Where ledgers stand, as a head says it."""
    return {peer: [count, at.hex()] for peer, (count, at) in heads.items()}


def text_in(asked: Parcel, name: str) -> str:
    value = asked.head.get(name)
    if not (isinstance(value, str) and value):
        raise WireError(f"a question without {name}")
    return value


def names_in(asked: Parcel, name: str) -> list[str]:
    value: Any = asked.head.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(f"a question without {name}")
    if len(set(value)) != len(value):
        raise WireError(f"a question with a name twice in {name}")
    return list(value)


def is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def name_in(asked: Parcel, name: str) -> str:
    value = text_in(asked, name)
    if not is_name(value):
        raise WireError(f"a question whose {name} is not a name: letters, digits and dashes, 64 at most")
    return value
