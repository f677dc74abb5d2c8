"""Messages and letters as bytes.

A message is: version (1 byte), number in the table (2), then its fields in declared order (privacy/values.py). A letter
is what an edge carries: a message with its place on the edge and its round. Between organisations it travels as a
frame: a head with run, place, round and digest, then the message. A letter that comes twice is dropped by its place;
the same place with other bytes is refused.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from colonnade.errors import ColonnadeError, LeakError, WireError
from colonnade.privacy.values import Released, append_value, read_value
from colonnade.runtime.messages import BY_CODE, BY_TYPE, Failed, Sealed, Shape, check_fields

VERSION = 1
LARGEST = 64 << 20
SEALING = 1 << 10  # at most what sealing adds to a message: a key, two tags, and the form around them
_HEADER = struct.Struct("<BH")
HEADER_SIZE = _HEADER.size
_FRAME = struct.Struct("<4sB16sQQ16s")
_MAGIC = b"clnd"
_CHECK = 16  # bytes of a SHA-256, for which today's processors have instructions


def encode(message: Any, *, guarded: bool) -> bytes:
    """The bytes of a message. A guarded node (one that holds data) may only send fields that passed its gate."""
    shape = BY_TYPE.get(type(message))
    if shape is None:
        raise WireError(f"{type(message).__name__} is not in the table of messages; declare it with @message(number)")
    values = tuple(getattr(message, field.name) for field in shape.fields)
    if guarded and shape.cls is not Failed:
        _check_guard(shape, values)
    check_fields(shape, values)
    out: list[bytes | memoryview] = [_HEADER.pack(VERSION, shape.code)]
    for value in values:
        append_value(value, out)
    body = b"".join(out)
    if len(body) > _largest(shape.cls):
        raise WireError(f"{shape.cls.__name__} takes {len(body):,} bytes; over {LARGEST:,} must go as row blocks")
    return body


def _check_guard(shape: Shape, values: tuple[Any, ...]) -> None:
    for declared, value in zip(shape.fields, values, strict=True):
        items = value if type(value) is tuple else (value,)
        if not all(type(item) is Released for item in items):
            raise LeakError(
                f"{shape.cls.__name__}.{declared.name} holds a bare {type(value).__name__} and its sender holds data; "
                "pass it through the gate and declare the field Released. Nothing was sent."
            )


def public_digest(*said: object) -> bytes:
    """A hash of messages and public figures: what several nodes must have been told alike."""
    parts = [encode(one, guarded=False) if type(one) in BY_TYPE else repr(one).encode() for one in said]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


_recent: deque[tuple[bytes, Any]] = deque(maxlen=4)


def decode(body: bytes) -> Any:
    """The message of `body`. Never executes or imports anything; any bytes at all end in a message or a WireError."""
    # Messages are immutable, so the very same bytes object (a broadcast within one process) is decoded once.
    for known, message in tuple(_recent):
        if known is body:
            return message
    try:
        message = _decode(body)
    except ColonnadeError as error:
        raise error if isinstance(error, WireError) else WireError(f"malformed message: {error}") from error
    except (struct.error, ValueError, IndexError, OverflowError, MemoryError, TypeError) as error:
        raise WireError(f"malformed message: {type(error).__name__}") from error
    if type(body) is bytes:  # nothing that could change under the cache
        _recent.append((body, message))
    return message


def _decode(body: bytes) -> Any:
    view = memoryview(body).toreadonly()
    if len(view) > LARGEST + SEALING:
        raise WireError(f"a message of {len(view):,} bytes; over {LARGEST:,} must come as row blocks")
    if len(view) < _HEADER.size:
        raise WireError(f"a message of {len(view)} bytes is shorter than its header")
    version, code = _HEADER.unpack_from(view)
    if version != VERSION:
        raise WireError(f"wire version {version}, this side speaks {VERSION}; bring both sides to the same release")
    shape = BY_CODE.get(code)
    if shape is None:
        raise WireError(f"unknown message number {code}; bring both sides to the same release")
    if len(view) > _largest(shape.cls):
        raise WireError(f"a message of {len(view):,} bytes; over {LARGEST:,} must come as row blocks")
    at, values = _HEADER.size, []
    for _ in shape.fields:
        value, at = read_value(view, at)
        values.append(value)
    if at != len(view):
        raise WireError(f"{len(view) - at:,} bytes left over behind {shape.cls.__name__}")
    try:
        check_fields(shape, tuple(values))
    except LeakError as error:
        raise WireError(f"{shape.cls.__name__}: a field that must be released came unmarked") from error
    return shape.cls(*values)


def _largest(kind: type) -> int:
    """The most bytes of a message: whatever may be sent may also be sent sealed."""
    return LARGEST + SEALING if kind is Sealed else LARGEST


def type_name(body: bytes) -> str:
    """The name of the message type in `body`, without decoding it."""
    if len(body) < _HEADER.size:
        raise WireError(f"a message of {len(body)} bytes is shorter than its header")
    shape = BY_CODE.get(_HEADER.unpack_from(body)[1])
    if shape is None:
        raise WireError("unknown message number")
    return shape.cls.__name__


@dataclass(slots=True, repr=False)  # not frozen: to make one would take as long as to hash a short message
class Letter:
    """One message on its way: from whom to whom, its place on that edge, counted from 0, and its round."""

    sender: str
    receiver: str
    sequence: int
    round: int
    body: bytes
    inside: str = ""  # the kind of message that a sealed one holds: its sender knows, for the count of bytes
    _sha256: bytes = field(default=b"", compare=False)  # empty until it is asked for

    @property
    def sha256(self) -> bytes:
        """The hash of its body, computed once."""
        if not self._sha256:
            self._sha256 = hashlib.sha256(self.body).digest()
        return self._sha256

    @property
    def check(self) -> bytes:
        """16 bytes that stand for its body."""
        return self.sha256[:_CHECK]

    def again(self, receiver: str, sequence: int, inside: str) -> Letter:
        """The same message on another edge: a broadcast is hashed once for all its letters."""
        letter = Letter(self.sender, receiver, sequence, self.round, self.body, inside)
        letter._sha256 = self.sha256
        return letter

    def with_body(self, body: bytes, inside: str) -> Letter:
        """Other bytes at the same place: what it holds sealed, opened or told of."""
        return Letter(self.sender, self.receiver, self.sequence, self.round, body, inside)

    def head(self, run: str) -> bytes:
        """What goes before its body where a frame carries it."""
        return _FRAME.pack(_MAGIC, VERSION, run_key(run), self.sequence, self.round, self.sha256)

    @classmethod
    def read(cls, sender: str, receiver: str, inside: str, head: bytes, body: bytes, run: str) -> Letter:
        """The letter of a frame, if its head and its body belong together and to the run."""
        if len(head) != _FRAME.size:
            raise WireError(f"a frame's head of {len(head)} bytes instead of {_FRAME.size}")
        magic, version, key, sequence, number, check = _FRAME.unpack(head)
        if magic != _MAGIC or version != VERSION:
            raise WireError("not a frame of this version of colonnade")
        if key != run_key(run):
            raise WireError("a frame of another run")
        letter = cls(sender, receiver, sequence, number, body, inside)
        if letter.check != check:
            raise WireError("a frame whose content does not match its digest: damaged on the way")
        return letter


@lru_cache(maxsize=64)
def run_key(run: str) -> bytes:
    """16 bytes that stand for a run's id."""
    return hashlib.sha256(run.encode()).digest()[:_CHECK]
