"""One direct line: what this end knows of a neighbour, and envelopes behind their lengths (4 bytes, little-endian)."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from colonnade.network.transport.envelope import ENVELOPE, Compressed, Malformed, Reason

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another party: where this one dials it (None: it dials), and its pinned key, if there is one."""

    address: str | None
    pin: bytes | None = None


@dataclass(eq=False, slots=True)
class Talk:
    """One connection, and how far both ends have come on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    serial: int  # of the neighbour's certificate
    sent: int = 0
    confirmed: int = 0
    received: int = 0
    told: int = 0  # of those received, how many this end has confirmed


@dataclass(eq=False, slots=True)
class DirectLine:
    """What this end knows of one neighbour, over all its connections."""

    name: str
    neighbour: Neighbour
    talk: Talk | None = None  # on the connection that counts; None: the line is down
    since: float = field(default_factory=time.monotonic)  # when it went up or down last
    heard: float = 0.0  # when the last envelope came
    unconfirmed: deque[Compressed] = field(default_factory=deque)
    held: int = 0
    greeted: tuple[bytes, int] = (b"", 0)  # session and attempt of the last greeting
    bell: asyncio.Event = field(default_factory=asyncio.Event)  # rung when there is something to say
    changes: int = 0  # how often it went up or down
    logged: tuple[float, int] = (0.0, 0)  # when that was told last, and how many there were then
    due: bool = False  # whether it is about to be told


class LineLost(Exception):  # not an error of ours: the reason to dial again
    """The connection is gone, or never was."""


async def read_envelope(reader: asyncio.StreamReader) -> bytes:
    """The next envelope; a length over the limit is refused before anything of it is read."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > ENVELOPE:
        raise Malformed(Reason.SIZE)
    return await reader.readexactly(length)


async def write_envelopes(writer: asyncio.StreamWriter, *parts: bytes) -> None:
    for part in parts:
        writer.write(_LENGTH.pack(len(part)))
        writer.write(part)
    await writer.drain()
