"""What the hub and a party's office say to each other: a small table of texts and numbers, and blobs behind it.

    "clp1" | length of the head (4 bytes, little-endian) | head, JSON | the blobs, one behind the other

The head's "blobs" are their lengths. Any bytes at all end in a parcel or a WireError; nothing is executed or imported.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from colonnade.errors import WireError
from colonnade.runtime.node import Letter
from colonnade.runtime.wire import Frame

_MAGIC = b"clp1"
_LENGTH = struct.Struct("<4sI")
LARGEST_HEAD = 16 << 20
LAST_ROUND = 1 << 32  # no run gets there; a receiver counts on from the number that a letter carries
LONGEST_NAME = 200
# Names that the hub chooses become keys of records and names of files, so they are letters, digits and dashes.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class Parcel(NamedTuple):
    """One question, or its answer."""

    head: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    text = json.dumps({**head, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join([_LENGTH.pack(_MAGIC, len(text)), text, *blobs])


def unpack(raw: bytes, largest: int = LARGEST_HEAD) -> Parcel:
    try:
        magic, length = _LENGTH.unpack_from(raw)
        if magic != _MAGIC or length > min(len(raw) - _LENGTH.size, largest):
            raise WireError("not a parcel of this version of colonnade")
        head = json.loads(str(raw[_LENGTH.size : _LENGTH.size + length], "utf-8"))
        sizes = head.pop("blobs")
        if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(raw) - _LENGTH.size - length:
            raise WireError("a parcel whose contents do not add up")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"a malformed parcel: {type(error).__name__}") from error
    blobs, at = [], _LENGTH.size + length
    for size in sizes:
        blobs.append(raw[at : at + size])
        at += size
    return Parcel(head, tuple(blobs))


def letters_out(letters: Sequence[Letter], run: str) -> tuple[list[list[str]], list[bytes]]:
    """Addresses for the head; for the blobs of each letter the head of its frame, and the body."""
    parts = [part for x in letters for part in (x.frame.head(run), x.frame.body)]
    return [[x.sender, x.receiver, x.inside] for x in letters], parts


def letters_in(addresses: Any, parts: Sequence[bytes], run: str) -> list[Letter]:
    """The letters of a parcel, each frame checked against its digest and its run."""
    if not (isinstance(addresses, list) and 2 * len(addresses) == len(parts)):
        raise WireError("letters and addresses do not match")
    made = []
    for address, head, body in zip(addresses, parts[::2], parts[1::2], strict=True):
        if not (isinstance(address, list) and len(address) == 3 and all(isinstance(part, str) for part in address)):
            raise WireError("a letter without an address")
        if max(map(len, address)) > LONGEST_NAME:
            raise WireError("a letter with an address that is too long")
        read = Frame.read(head, body, run)
        if read.round > LAST_ROUND:
            raise WireError("a letter of a round that no run reaches")
        made.append(Letter(address[0], address[1], read, address[2]))
    return made


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
