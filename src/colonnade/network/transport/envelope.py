"""The bytes of a stream between two organisations: envelopes, chunks, greetings; and their times.

A message is bytes; what they mean is not the transport's business. It travels as one or more envelopes:

    magic "clns" (4)  version (1)  kind (1)  code (2)  number (8)  offset (4)  length (4)  body

`number` counts the requests to a party from 1 on, and an answer carries its request's number; request n says that
answer n − 1 has arrived. `offset` is this body's place in the message, `length` the whole message's; `code` is the
reason of a refusal. Greetings (kinds 1 to 3) have version 0 and keep this form for ever, so that two programs that
share no version can still say so. Nothing is compressed: a length would then depend on what is sent.

Any bytes at all end in a message or in `Malformed`, whose reason is one of a fixed list and quotes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from colonnade.errors import ProtocolError, WireError
from colonnade.runtime.wire import LARGEST

METHOD = "/colonnade.Streams/Talk"
LIMIT = LARGEST + (1 << 20)  # the largest message of a program, with room for its seal, its frame and what is around it
ENVELOPE = 1 << 20  # the most bytes of one envelope, head included
GREETING_SECONDS = 10.0  # for either end to say who it is
# seconds before a lost connection is dialled again; it doubles in between
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
# the versions spoken here
LOWEST = 1
HIGHEST = 1
GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", ENVELOPE),
    ("grpc.max_send_message_length", ENVELOPE),
    ("grpc.keepalive_time_ms", 20_000),  # pings find a peer that vanished without closing
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]

_HEAD = struct.Struct("<4sBBHQII")
HEAD_SIZE = _HEAD.size
_CHUNK = ENVELOPE - HEAD_SIZE
_MAGIC = b"clns"
_HELLO = struct.Struct("<BB16sQ")
_WELCOME = struct.Struct("<B16sI")
_SPOKEN = struct.Struct("<BB")
_LONGEST_NAME = 1024


class EnvelopeKind(IntEnum):
    HELLO = 1  # party → hub: who I am, the versions I speak, my session
    WELCOME = 2  # hub → party: the version we speak, my session, the longest message I take
    REFUSED = 3  # hub → party: why not, as a code
    REQUEST = 4  # hub → party
    ANSWER = 5  # party → hub
    FAILED = 6  # party → hub: I could not answer, and stop


_KINDS = {int(kind): kind for kind in EnvelopeKind}


class Reason(IntEnum):
    """Why a stream was refused. The codes go over the wire, the names into logs and metrics."""

    VERSION = 1  # no version that both speak
    TLS = 2  # below TLS 1.3, or no certificate to be seen
    EXPIRED = 3
    REVOKED = 4
    FINGERPRINT = 5  # another key than the pinned one
    NAME = 6  # the certificate does not carry the name, or nobody here has it
    REPLACED = 7  # a later process of the same party has taken over
    REPLAYED = 8  # a later stream of the same process is known
    MALFORMED = 9  # not an envelope of ours
    KIND = 10  # an envelope that has no place here
    NUMBER = 11  # an answer to something that was not asked, a request out of turn
    REPEATED = 12  # a chunk out of place
    SIZE = 13  # over the limit
    BUSY = 14  # too many streams that have not greeted, or the hub is about to stop

    @property
    def word(self) -> str:
        return self.name.lower()


class Malformed(WireError):
    """Bytes that do not belong on a stream; `reason` is all that may be told about them."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"refused what came over a stream: {reason.word}")
        self.reason = reason


class PartyRestarted(ProtocolError):
    """The party's process is another one than that which was asked; whether it had answered is not known."""


class PeerTimeout(ProtocolError):
    """Nothing came within the time allowed."""


class HubRefused(ProtocolError):
    """The hub refuses this party, or the hub cannot be trusted; trying again would change nothing."""


class Head(NamedTuple):
    version: int
    kind: EnvelopeKind
    code: int
    number: int
    offset: int
    length: int


# ------------------------------------------------------------------------------------------------ out


def envelopes(kind: EnvelopeKind, number: int, message: bytes) -> Iterator[bytes]:
    """The envelopes of a message, each at most `ENVELOPE` bytes."""
    view = memoryview(message)
    for offset in range(0, len(message) or 1, _CHUNK):
        head = _HEAD.pack(_MAGIC, HIGHEST, kind, 0, number, offset, len(message))
        yield b"".join((head, view[offset : offset + _CHUNK]))


def failed(number: int) -> bytes:
    """The answer to a request that could not be answered."""
    return _HEAD.pack(_MAGIC, HIGHEST, EnvelopeKind.FAILED, 0, number, 0, 0)


# ------------------------------------------------------------------------------------------------ in


def parse(envelope: bytes, limit: int = LIMIT) -> tuple[Head, memoryview]:
    """Head and body of an envelope that keeps all rules that one envelope can keep."""
    if not HEAD_SIZE <= len(envelope) <= ENVELOPE:
        raise Malformed(Reason.MALFORMED)
    magic, version, kind, code, number, offset, length = _HEAD.unpack_from(envelope)
    if magic != _MAGIC:
        raise Malformed(Reason.MALFORMED)
    if kind not in _KINDS:
        raise Malformed(Reason.KIND)
    head = Head(version, _KINDS[kind], code, number, offset, length)
    body = memoryview(envelope)[HEAD_SIZE:]
    _check(head, len(body), limit)
    return head, body


def _check(head: Head, size: int, limit: int) -> None:
    if head.length > limit:
        raise Malformed(Reason.SIZE)
    if head.kind <= EnvelopeKind.REFUSED:
        fits = not (head.version or head.number or head.offset) and head.length == size
        fits = fits and (not head.code or head.kind == EnvelopeKind.REFUSED)
    elif not LOWEST <= head.version <= HIGHEST or head.code:
        fits = False
    elif not head.number:
        raise Malformed(Reason.NUMBER)
    elif head.kind == EnvelopeKind.FAILED:
        fits = not (size or head.offset or head.length)
    else:
        # Only the last chunk may be short: a message in crumbs would cost its receiver far more than its length.
        left = head.length - head.offset - size
        chunk = left == 0 or (left > 0 and size == _CHUNK)
        fits = chunk and (size > 0 or head.length == 0)
    if not fits:
        raise Malformed(Reason.MALFORMED)


class Assembler:
    """Puts the chunks of one message after another together; holds at most one unfinished message."""

    def __init__(self) -> None:
        self._parts: list[memoryview] = []
        self._got = 0
        self._first: Head | None = None

    def feed(self, head: Head, body: memoryview) -> bytes | None:
        """The message, when this was its last chunk."""
        first = self._first
        if first is None:
            if head.offset:
                raise Malformed(Reason.REPEATED)
            if len(body) == head.length:
                return bytes(body)
            self._first = head
        else:
            if head.number != first.number:
                raise Malformed(Reason.NUMBER)
            if head.offset != self._got:
                raise Malformed(Reason.REPEATED)
            if (head.kind, head.length) != (first.kind, first.length):
                raise Malformed(Reason.MALFORMED)
        self._parts.append(body)
        self._got += len(body)
        if self._got < head.length:
            return None
        whole = b"".join(self._parts)
        self._parts = []
        self._got = 0
        self._first = None
        return whole


# ------------------------------------------------------------------------------------------------ greetings


@dataclass(frozen=True, slots=True)
class PartyHello:
    """Who dials: its name, the versions it speaks, the id of its process, and which attempt this is."""

    name: str
    session: bytes
    attempt: int
    lowest: int = LOWEST
    highest: int = HIGHEST

    def envelope(self) -> bytes:
        fixed = _HELLO.pack(self.lowest, self.highest, self.session, self.attempt)
        return _greeting(EnvelopeKind.HELLO, 0, fixed + self.name.encode())

    @classmethod
    def read(cls, envelope: bytes) -> PartyHello:
        """The first envelope of whoever dials."""
        hello = greeting(*parse(envelope))
        if not isinstance(hello, cls):
            raise Malformed(Reason.KIND)
        return hello

    def check_version(self) -> None:
        if max(self.lowest, LOWEST) > min(self.highest, HIGHEST):
            raise Malformed(Reason.VERSION)


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the hub answers: the version to speak, the id of its process, and the longest message that it takes."""

    version: int
    session: bytes
    limit: int

    def envelope(self) -> bytes:
        return _greeting(EnvelopeKind.WELCOME, 0, _WELCOME.pack(self.version, self.session, self.limit))

    def check(self) -> None:
        if not LOWEST <= self.version <= HIGHEST or not 0 < self.limit <= LIMIT:
            raise Malformed(Reason.VERSION)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the hub answers instead; with the versions that it speaks."""

    reason: Reason
    lowest: int = LOWEST
    highest: int = HIGHEST

    def envelope(self) -> bytes:
        return _greeting(EnvelopeKind.REFUSED, self.reason, _SPOKEN.pack(self.lowest, self.highest))


def greeting(head: Head, body: memoryview) -> PartyHello | Welcome | Refusal:
    """Read a greeting."""
    try:
        match head.kind:
            case EnvelopeKind.HELLO if _HELLO.size < len(body) <= _HELLO.size + _LONGEST_NAME:
                lowest, highest, session, attempt = _HELLO.unpack_from(body)
                return PartyHello(bytes(body[_HELLO.size :]).decode(), session, attempt, lowest, highest)
            case EnvelopeKind.WELCOME:
                return Welcome(*_WELCOME.unpack(body))
            case EnvelopeKind.REFUSED:
                return Refusal(Reason(head.code), *_SPOKEN.unpack(body))
            case _:
                raise Malformed(Reason.KIND)
    except (struct.error, ValueError):
        raise Malformed(Reason.MALFORMED) from None


def _greeting(kind: EnvelopeKind, code: int, body: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, 0, kind, code, 0, 0, len(body)) + body
