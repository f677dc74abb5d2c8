"""A node's transcript: every step's inbox and outbox, in the same log as its ledger.

One step is one transaction: what came in, what the gate released, what goes out. Only then is anything sent. Reading
the steps back gives exactly what a replay needs. Of a message that was sent and is not short only kind, length and hash
are kept, since a replay makes it again; large ones that came in are files, gone when the run closes.

Kinds of rows: `in` and `out` (key: the other node), `step` (the order of the inbox).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from colonnade.privacy.events import Event
from colonnade.privacy.gate import Gate
from colonnade.privacy.run_prices import recorded_event
from colonnade.privacy.store import Log
from colonnade.runtime.wire import HEADER_SIZE, Letter

SHORT = 1 << 10
_HASHED = b"sha256:"
LOOK = len(_HASHED) + HEADER_SIZE + 8  # so many bytes of what is kept tell kind and length


@dataclass
class Step:
    """One recorded step of a program."""

    tick: int
    order: tuple[str, ...] = ()
    received: dict[str, Letter] = field(default_factory=dict)
    sent: dict[str, bytes] = field(default_factory=dict)
    releases: dict[int, tuple[Event, bytes]] = field(default_factory=dict)


class Transcript:
    """The steps of one node in one run."""

    def __init__(self, log: Log, run: str) -> None:
        self._log, self._run = log, run

    def record(self, tick: int, received: Mapping[str, Letter], sent: Iterable[Letter], gate: Gate) -> None:
        """Make one step durable: after this its messages may be sent."""
        with self._log.atomic():
            gate.flush()
            if not self._log.durable:
                return
            for sender, letter in received.items():
                header = letter.sequence.to_bytes(8, "little") + letter.round.to_bytes(8, "little")
                self._log.append(self._run, tick, "in", sender, header + letter.body)
            for letter in sent:
                self._log.append(self._run, tick, "out", letter.receiver, recorded_form(letter))
            self._log.append(self._run, tick, "step", "", _names_as_json(tuple(received)))

    def steps(self, node: str = "") -> Iterator[Step]:
        """All recorded steps in order, with letters to `node`, one in memory at a time; a `step` row ends it."""
        step = Step(0)
        for row in self._log.walk(self._run):
            if row.tick < 0:
                continue
            step.tick = row.tick
            match row.kind:
                case "in":
                    place, number = (int.from_bytes(row.body[i : i + 8], "little") for i in (0, 8))
                    step.received[row.key] = Letter(row.key, node, place, number, row.body[16:])
                case "out":
                    step.sent[row.key] = row.body
                case "event":
                    step.releases[int(row.key)] = (recorded_event(row.body), b"")
                case "release":
                    event, _ = step.releases[int(row.key)]
                    step.releases[int(row.key)] = (event, row.body)
                case "step":
                    step.order = tuple(json.loads(row.body))
                    yield step
                    step = Step(0)


@lru_cache(maxsize=256)
def _names_as_json(names: tuple[str, ...]) -> bytes:
    return json.dumps(names).encode()


def recorded_form(letter: Letter) -> bytes:
    """What the record holds of a message that was sent: all of it, or kind, length and hash if it is not short."""
    body = letter.body
    if len(body) < SHORT:
        return body
    return b"".join((_HASHED, body[:HEADER_SIZE], len(body).to_bytes(8, "little"), letter.sha256))


def header_and_length(start: bytes, length: int) -> tuple[bytes, int] | None:
    """The head and the length of a sent message, from the first bytes of what is kept of it."""
    # None if they are not kept: earlier versions wrote of a large one its hash alone.
    if not start.startswith(_HASHED):
        return start[:HEADER_SIZE], length
    at = len(_HASHED) + HEADER_SIZE
    return (start[len(_HASHED) : at], int.from_bytes(start[at : at + 8], "little")) if length == LOOK + 32 else None
