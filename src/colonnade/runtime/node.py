"""A node: one program with its gate, and what it writes down of every step; and nothing of how bytes travel.

The same node runs on every engine. An engine hands it letters, calls `step`, and sends what comes back. What the node
holds a program to:

- messages go to neighbours only, and reads name a neighbour;
- a guarded node (one that holds data or labels) sends only released fields, and only the one reply its method declares
  for what it was asked (`REPLIES`): a choice between two kinds of answer would leak a bit. `REPLIES[None]`, where
  given, is the kind of message it may send unasked;
- a letter seen before is dropped if it is the same and refused if it is not;
- what goes to a node that is reached through another one (`relayed`) is sealed here and opened there, and nothing that
  comes from such a node is read unless it was sealed;
- messages of the kinds that only the coordinator may read (`sealed`) go to it alone, and sealed.

Its transcript and its receipts are in the same log as its ledger: what came, what was heard, what was sent. One step is
one transaction: what came in, what the gate released, what goes out. Only then is anything sent. Reading the steps back
gives exactly what a replay needs. Of a message that was sent and is not short only kind, length and hash are kept,
since a replay makes it again; large ones that came in are files, gone when the run closes.

A step is recorded when the program has read what came, so a process that dies in between has seen messages of which its
transcript says nothing. If a sender's file is then an old copy, it draws its noise anew, for the same charge, and
whoever has seen both subtracts. So where noise is drawn a receiver first writes a receipt, place and digest of every
letter, and when the run is taken up again nobody may have heard more, or something else, than its sender remembers.

Kinds of rows: `in` and `out` (key: the other node), `folded` (place and hash of what came and was added to something),
`step` (the order of the inbox), `got` (a receipt; tick: the letter's place on its edge; key: sender and receiver).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from colonnade.errors import LeakError, LedgerDamaged, ProtocolError, ReplayDiverged
from colonnade.privacy.events import Event, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import Log
from colonnade.privacy.values import Released, decode_value, encode_value, released_body
from colonnade.runtime.program import (
    COORDINATOR,
    Failed,
    FailureCode,
    Fold,
    NodeId,
    Note,
    Post,
    Program,
    Sealed,
    is_lost,
)
from colonnade.runtime.wire import HEADER_SIZE, Letter, decode, encode, type_name

Replies = Mapping[type | None, type]
Listener = Callable[[NodeId, Note], None]


@dataclass(frozen=True, eq=False)
class NodeSetup:
    """What makes a node, apart from its records: a value that can be sent to where the node shall live."""

    name: NodeId
    make: Callable[[Gate], Program[Any]]
    neighbours: tuple[NodeId, ...]
    guarded: bool
    replies: Replies
    policy: Policy
    relayed: tuple[NodeId, ...] = ()  # neighbours that are reached through a third node, who must not read along
    sealing: bool = False  # whether its gate needs keys that it shares with other nodes
    noise: SeededNoise | None = None  # for tests and published figures only
    remark: Callable[[Any], str] = field(default=lambda _: "")  # what its operator should read about its result
    sealed: tuple[type, ...] = ()  # kinds of message that only the coordinator may read
    receipts: bool = False  # whether what comes is written down before it is read: where others draw noise or keys
    quorum: int = 0  # parties that must be left for the run to go on when others are lost; 0: it ends then


class Node:
    """One program, driven step by step."""

    def __init__(
        self,
        setup: NodeSetup,
        gate: Gate,
        transcript: Transcript,
        listener: Listener | None = None,
        receipts: Receipts | None = None,
    ) -> None:
        self.name = setup.name
        self.guarded = setup.guarded
        self.gate = gate
        self.receipts = receipts
        self.neighbours = frozenset(setup.neighbours)
        self.wait: tuple[NodeId, ...] = ()
        self.finished = False
        self.result = None
        self._relayed = frozenset(setup.relayed)
        self._sealed_kinds = setup.sealed
        # What the messages are added to that it waits for.
        self._fold: Fold | None = None
        # Folds that a replay has filled with what was saved.
        self._loaded: set[str] = set()
        self._replies = setup.replies
        self._make = setup.make
        self._program: Program[Any] | None = None  # until it is replayed
        self._transcript = transcript
        self._listener = listener
        self._tick = 0
        self._round = 0
        # Of those it waits for, who has not sent yet.
        self._missing: set[NodeId] = set()
        self._inbox: dict[NodeId, deque[Letter]] = defaultdict(deque)
        self._unnoted: list[Letter] = []  # that came and have no receipt yet
        self._seen: dict[NodeId, dict[int, bytes]] = defaultdict(dict)
        # Who was given up: nothing more of it is taken.
        self._lost: set[NodeId] = set()
        # Place of the next letter to be sent, by receiver.
        self._next: Counter[NodeId] = Counter()
        self._inside: dict[NodeId, str] = {}  # by receiver: what this step seals for it
        # The kind of the message each node sent last.
        self._asked: dict[NodeId, type] = {}

    # ------------------------------------------------------------------------ for engines

    def deliver(self, letter: Letter) -> None:
        """Take one letter from a neighbour: in order, once."""
        sender = letter.sender
        place = letter.sequence
        if sender not in self.neighbours:
            raise ProtocolError(f"{sender!r} is not a neighbour of {self.name!r}; its message was refused")
        seen = self._seen[sender]
        if sender in self._lost:
            return
        if place in seen:
            if seen[place] != letter.check:
                raise ProtocolError(f"{sender!r} sent other bytes for message {place} of this run; refused")
            return
        if place != len(seen):
            raise ProtocolError(f"{sender!r} sent message {place} where {len(seen)} was due; one was lost")
        seen[place] = letter.check
        if letter.body == LOST:
            self._lost.add(sender)
        self._inbox[sender].append(letter)
        self._unnoted.append(letter)
        self._missing.discard(sender)

    def acknowledge(self) -> None:
        """Write receipts for what came, before anything of it is read."""
        came = self._unnoted
        self._unnoted = []
        if self.receipts is not None:
            self.receipts.note(came)

    def heard_from(self, sender: NodeId) -> int:
        """How many letters of a neighbour this node has, or had in an earlier life and did not get to record."""
        known = {} if self.receipts is None else self.receipts.counts()
        return max(self.received_from(sender) - (sender in self._lost), known.get((sender, self.name), 0))

    def received_from(self, sender: NodeId) -> int:
        """How many letters of a neighbour this node has."""
        return len(self._seen[sender])

    def check_senders(self, sent: Mapping[Edge, int]) -> None:
        """Nobody may have received more than its sender remembers: an old copy would draw its noise anew."""
        for sender in self.neighbours:
            heard = self.heard_from(sender)
            remembered = sent.get((sender, self.name), 0)
            if heard > remembered:
                raise old_copy(sender, self.name, heard, remembered)

    @property
    def missing(self) -> frozenset[NodeId]:
        """Of those it waits for, who has not sent yet."""
        return frozenset(self._missing)

    @property
    def ready(self) -> bool:
        """Whether the program can go on now."""
        return self._program is not None and not self.finished and not self._missing

    def replay(self) -> list[Letter]:
        """Begin: run the program again on the recorded inboxes, at first on none; all that was sent, for peers that
        missed it."""
        self._program = self._make(self.gate)
        letters = list[Letter]()
        for step in self._transcript.steps(self.name):
            received = {node: step.received[node] for node in step.order}
            for sender, letter in received.items():
                self._seen[sender][letter.sequence] = letter.check
                if letter.body == LOST:
                    self._lost.add(sender)
            inbox = self._reload(received) if self._fold else self._inbox_of(received)
            sent = self._letters(self._advance(inbox, received, step.releases))
            if {x.receiver: recorded_form(x) for x in sent} != step.sent:
                raise ReplayDiverged(
                    f"{self.name!r}, step {step.tick}: the replay sends other bytes than were recorded. Data, code or "
                    "settings changed since: restore them and repeat the call."
                )
            letters += sent
        return letters

    def step(self) -> list[Letter]:
        """Resume the program once. What it sends is recorded before it is returned."""
        self.acknowledge()
        received = {node: self._inbox[node].popleft() for node in self.wait}
        inbox = self._inbox_of(received)
        fold = self._fold
        if fold is not None:
            lost = {node: came for node, came in inbox.items() if is_lost(came)}
            fold.add({node: came for node, came in inbox.items() if node not in lost})
            inbox = lost
        letters = self._letters(self._advance(inbox, received, None))
        self._transcript.record(self._tick - 1, received, letters, self.gate, fold)
        return letters

    def farewell(self, code: int) -> list[Letter]:
        """Tell all neighbours that this node stops; final for the run."""
        self.finished = True
        body = encode(Failed(int(code)), guarded=False)
        return self._letters(dict.fromkeys(sorted(self.neighbours), body))

    # ------------------------------------------------------------------------ inside

    def _inbox_of(self, received: Mapping[NodeId, Letter]) -> dict[NodeId, Any]:
        return {node: self._open(letter) for node, letter in received.items()}

    def _reload(self, received: Mapping[NodeId, Letter]) -> dict[NodeId, Any]:
        """What a replayed step gets that folded its messages: who was lost; the fold is filled as it was saved last."""
        assert self._fold is not None
        kept = {node: letter for node, letter in received.items() if letter.body}
        if any(letter.body != LOST for letter in kept.values()):
            raise ReplayDiverged(f"{self.name!r}: the record holds messages where the program adds them up.")
        if self._fold.name not in self._loaded:
            self._loaded.add(self._fold.name)
            self._transcript.load(self._fold)
        return self._inbox_of(kept)

    def _advance(
        self,
        inbox: Mapping[NodeId, Any],
        received: Mapping[NodeId, Letter],
        recorded: dict[int, tuple[Event, bytes]] | None,
    ) -> dict[NodeId, bytes]:
        program = self._program
        assert program is not None, "a node begins by its replay"
        self._round = max([self._round, *(letter.round for letter in received.values())])
        self.gate.begin(self._tick, self._round, recorded)
        try:
            # Whatever the process asks of NumPy, a cell too small to be squared ends no step, which others would see.
            with np.errstate(under="ignore" if self.guarded else None):
                post = program.send(inbox) if self._tick else next(program)
        except StopIteration as stop:
            self.result = stop.value
            self.finished = True
            post = Post()
        self.wait = post.wait
        self._fold = post.fold
        self._tick = self._tick + 1
        self._missing = {node for node in post.wait if not self._inbox[node]}
        self._check_edges(post)
        if post.note is not None:
            self._tell(post.note)
        return self._encode(post)

    def _tell(self, note: Note) -> None:
        self._round += 1
        if self.guarded:
            figures = {name: self._check_released(value) for name, value in note.items()}
            note = {"round": self._round, "party": self.name, **figures}
        if self._listener is not None:
            self._listener(self.name, note)

    def _check_released(self, value: Any) -> Any:
        if type(value) is not Released:
            raise LeakError(f"{self.name!r} writes a bare value into a note; use the gate. Nothing was sent.")
        released_body(value)  # a Released that no gate made is refused
        return value.value

    def _open(self, letter: Letter) -> Any:
        sender = letter.sender
        received = decode(letter.body)
        sealed = isinstance(received, Sealed)
        if sealed:
            received = decode(self.gate.keyring.open(sender, letter.sequence, received.key, received.content))
        hidden = sender in self._relayed or isinstance(received, self._sealed_kinds)
        if hidden and not sealed and not isinstance(received, Failed):
            raise ProtocolError(f"{sender!r} sent {type(received).__name__} unsealed; refused")
        self._asked[sender] = type(received)
        return received

    def _check_edges(self, post: Post) -> None:
        if strangers := (set(post.to) | set(post.wait)) - self.neighbours:
            raise ProtocolError(f"{self.name!r} is not connected to {', '.join(map(repr, sorted(strangers)))}")
        if len(set(post.wait)) != len(post.wait):
            raise ProtocolError(f"{self.name!r} waits twice for the same node in one step")

    def _encode(self, post: Post) -> dict[NodeId, bytes]:
        bodies: dict[int, bytes] = {}  # a broadcast is encoded once
        for receiver, message in post.to.items():
            if isinstance(message, self._sealed_kinds) and receiver != COORDINATOR:
                raise LeakError(
                    f"{self.name!r} addresses {type(message).__name__} to {receiver!r}, and nobody but the coordinator "
                    "may see it. Nothing was sent."
                )
            if self.guarded:
                self._check_reply(receiver, type(message))
            if id(message) not in bodies:
                bodies[id(message)] = encode(message, guarded=self.guarded)
        hidden = [r for r, message in post.to.items() if r in self._relayed or isinstance(message, self._sealed_kinds)]
        return self._seal({receiver: bodies[id(message)] for receiver, message in post.to.items()}, hidden)

    def _seal(self, outbox: dict[NodeId, bytes], hidden: Iterable[NodeId]) -> dict[NodeId, bytes]:
        """The same bodies, those for `hidden` encrypted for their receivers: each content once."""
        # By content, since a broadcast is one object.
        places: dict[int, dict[NodeId, int]] = {}
        for receiver in hidden:
            self._inside[receiver] = type_name(outbox[receiver])
            places.setdefault(id(outbox[receiver]), {})[receiver] = self._next[receiver]
        for number, (content, receivers) in enumerate(places.items()):
            body = next(outbox[receiver] for receiver in receivers)
            assert id(body) == content
            for receiver, parts in self.gate.keyring.seal(receivers, body, f"{self._tick}/{number}").items():
                outbox[receiver] = encode(Sealed(*parts), guarded=False)
        return outbox

    def _check_reply(self, receiver: NodeId, kind: type) -> None:
        asked = self._asked.pop(receiver, None)
        # Where some nodes are reached through a third one, what is sent unasked is for them: never for the one between.
        unasked = self._replies.get(None) if not self._relayed or receiver in self._relayed else None
        declared = None if asked is None else self._replies.get(asked)
        if kind not in (declared, unasked):
            question = asked.__name__ if asked else "nothing"
            raise LeakError(
                f"{self.name!r} answers {kind.__name__} to {question}, which its method does not declare in REPLIES: "
                "a choice of answers tells about data. Nothing was sent. Declare it there, if it is the only answer."
            )

    def _letters(self, outbox: Mapping[NodeId, bytes]) -> list[Letter]:
        letters: list[Letter] = []
        for receiver, body in outbox.items():
            place = self._next[receiver]
            inside = self._inside.pop(receiver, "")
            if letters and letters[-1].body is body:
                letters.append(letters[-1].again(receiver, place, inside))
            else:
                letters.append(Letter(self.name, receiver, place, self._round, body, inside))
            self._next[receiver] = place + 1
        return letters


# ------------------------------------------------------------------------------------------------ what it writes down


Edge = tuple[str, str]  # sender and receiver
SHORT = 1 << 10
_FAREWELL = encode(Failed(0), guarded=False)[:HEADER_SIZE]
LOST = encode(Failed(int(FailureCode.LOST)), guarded=False)  # what stands in the place of a lost node's next message
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
        self._log = log
        self._run = run

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
                whole = fold is None or letter.body == LOST
                kind, kept = ("in", letter.body) if whole else ("folded", letter.sha256)
                self._log.append(self._run, tick, kind, sender, header + kept)
            if fold is not None:
                self._log.keep(self._run, f"fold: {fold.name}", encode_value(fold.save()))
            for letter in sent:
                self._log.append(self._run, tick, "out", letter.receiver, recorded_form(letter))
            self._log.append(self._run, tick, "step", "", _names_as_json(tuple(received)))

    def load(self, fold: Fold) -> None:
        """Make a fold what it was when its last step was recorded."""
        fold.load(decode_value(self._log.kept(self._run, f"fold: {fold.name}")))

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


@lru_cache(maxsize=256)
def _names_as_json(names: tuple[str, ...]) -> bytes:
    return json.dumps(names).encode()


def recorded_form(letter: Letter) -> bytes:
    """What the record holds of a message that was sent: all of it, or kind, length and hash if it is not short."""
    body = letter.body
    if len(body) < SHORT:
        return body
    return b"".join((_HASHED, body[:HEADER_SIZE], len(body).to_bytes(8, "little"), letter.sha256))


def header_and_length(start: bytes, length: int) -> tuple[bytes, int]:
    """The head and the length of a sent message, from the first bytes of what is kept of it."""
    if not start.startswith(_HASHED):
        return start[:HEADER_SIZE], length
    at = len(_HASHED) + HEADER_SIZE
    return start[len(_HASHED) : at], int.from_bytes(start[at : at + 8], "little")


class Receipts:
    """Which letters came in one run, by edge and place."""

    def __init__(self, log: Log, run: str, *, kept: bool) -> None:
        """kept  False where messages follow from what was heard: an old copy says the same again."""
        self._log = log
        self._run = run
        self._kept = kept and log.durable
        self._known: dict[Edge, dict[int, bytes]] | None = None

    def note(self, came: Iterable[Letter]) -> None:
        """Write down what is new; other bytes for a place that is known mean that its sender's record is an old copy.

        A farewell is in no record of its sender's, and says nothing of data. That a sender is lost is said by whoever
        carries its letters, and says nothing of its record: what came of it before this node died may be gone.
        """
        if not self._kept:
            return
        new: dict[tuple[Edge, int], bytes] = {}
        for letter in came:
            edge = (letter.sender, letter.receiver)
            place = letter.sequence
            known = self._heard()[edge].get(place)
            if known not in (None, letter.check) and letter.body != LOST:
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
