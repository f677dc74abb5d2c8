"""A node's transcript and its receipts, in the same log as its ledger: what came, what was heard, what was sent.

One step is one transaction: what came in, what the gate released, what goes out. Only then is anything sent. Reading
the steps back gives exactly what a replay needs. Of a message that was sent and is not short only kind, length and hash
are kept, since a replay makes it again; large ones that came in are files, gone when the run closes.

A step is recorded when the program has read what came, so a process that dies in between has seen messages of which its
transcript says nothing. If a sender's file is then an old copy, it draws its noise anew, for the same charge, and
whoever has seen both subtracts. So where noise is drawn a receiver first writes a receipt, place and digest of every
letter, and when the run is taken up again nobody may have heard more, or something else, than its sender remembers.

Kinds of rows: `in` and `out` (key: the other node), `folded` (place and hash of what came and was added to something),
`step` (the order of the inbox), `got` (a receipt; tick: the letter's place on its edge; key: sender and receiver).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from colonnade.errors import LedgerDamaged
from colonnade.privacy.events import Event
from colonnade.privacy.gate import Gate
from colonnade.privacy.store import Log
from colonnade.privacy.values import decode_value, encode_value
from colonnade.runtime.messages import Failed
from colonnade.runtime.program import Fold
from colonnade.runtime.wire import HEADER_SIZE, Letter, encode

Edge = tuple[str, str]  # sender and receiver
SHORT = 1 << 10
_FAREWELL = encode(Failed(0), guarded=False)[:HEADER_SIZE]
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

    def record(
        self,
        tick: int,
        received: Mapping[str, Letter],
        sent: Iterable[Letter],
        gate: Gate,
        fold: Fold | None = None,
    ) -> None:
        """Make one step durable: after this its messages may be sent. What came into a fold is not kept."""
        with self._log.atomic():
            gate.flush()
            if not self._log.durable:
                return
            for sender, letter in received.items():
                header = letter.sequence.to_bytes(8, "little") + letter.round.to_bytes(8, "little")
                kind, kept = ("in", letter.body) if fold is None else ("folded", letter.sha256)
                self._log.append(self._run, tick, kind, sender, header + kept)
            if fold is not None:
                self._log.keep(self._run, _name_of(fold), encode_value(fold.save()))
            for letter in sent:
                self._log.append(self._run, tick, "out", letter.receiver, recorded_form(letter))
            self._log.append(self._run, tick, "step", "", _names_as_json(tuple(received)))

    def load(self, fold: Fold) -> None:
        """Make a fold what it was when its last step was recorded."""
        fold.load(decode_value(self._log.kept(self._run, _name_of(fold))))

    def steps(self, node: str = "") -> Iterator[Step]:
        """All recorded steps in order, with letters to `node`, one in memory at a time; a `step` row ends it."""
        step = Step(0)
        for row in self._log.walk(self._run):
            if row.tick < 0:
                continue
            step.tick = row.tick
            match row.kind:
                case "in" | "folded":
                    place, number = (int.from_bytes(row.body[i : i + 8], "little") for i in (0, 8))
                    body, digest = (row.body[16:], b"") if row.kind == "in" else (b"", row.body[16:])
                    step.received[row.key] = Letter(row.key, node, place, number, body, _sha256=digest)
                case "out":
                    step.sent[row.key] = row.body
                case "event":
                    step.releases[int(row.key)] = (Event.from_json(row.body), b"")
                case "release":
                    event, _ = step.releases[int(row.key)]
                    step.releases[int(row.key)] = (event, row.body)
                case "step":
                    step.order = tuple(json.loads(row.body))
                    yield step
                    step = Step(0)


def _name_of(fold: Fold) -> str:
    return f"fold: {fold.name}"


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


class Receipts:
    """Which letters came in one run, by edge and place."""

    def __init__(self, log: Log, run: str, *, kept: bool) -> None:
        """kept  False where messages follow from what was heard: an old copy says the same again."""
        self._log, self._run = log, run
        self._kept = kept and log.durable
        self._known: dict[Edge, dict[int, bytes]] | None = None

    def note(self, came: Iterable[Letter]) -> None:
        """Write down what is new; other bytes for a place that is known mean that its sender's record is an old copy.

        A farewell is in no record of its sender's, and says nothing of data.
        """
        if not self._kept:
            return
        new: dict[tuple[Edge, int], bytes] = {}
        for letter in came:
            edge, place = (letter.sender, letter.receiver), letter.sequence
            known = self._heard()[edge].get(place)
            if known not in (None, letter.check):
                raise old_copy(*edge, place + 1, place)
            if known is None and not letter.body.startswith(_FAREWELL):
                new[edge, place] = letter.check
        if not new:
            return
        with self._log.atomic():
            for (edge, place), check in new.items():
                self._log.append(self._run, place, "got", json.dumps(edge), check)
        for (edge, place), check in new.items():
            self._heard()[edge][place] = check

    def counts(self) -> dict[Edge, int]:
        """How many letters have come on each edge, in all lives of this node."""
        return {edge: len(places) for edge, places in self._heard().items()} if self._kept else {}

    def _heard(self) -> dict[Edge, dict[int, bytes]]:
        if self._known is None:
            self._known = defaultdict(dict)
            for row in self._log.rows(self._run, "got"):
                sender, receiver = json.loads(row.key)
                self._known[sender, receiver][row.tick] = row.body
        return self._known


def old_copy(sender: str, receiver: str, heard: int, recorded: int) -> LedgerDamaged:
    """The sender of a message does not remember it as its receiver does."""
    return LedgerDamaged(
        f"{receiver!r} received {heard:,} messages from {sender!r}, whose record holds {recorded:,} of them: "
        f"the record of {sender!r} is an old copy, and would draw its noise anew. Nothing was sent; restore "
        "the newest copy of its store."
    )
