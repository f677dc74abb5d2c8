"""A hosted node: one node where it lives, with its ledger, its transcript and its program; and all in one process.

`InProcess` has all nodes in one process and drives them itself: a plain loop over generators. An engine moves
letters between nodes and resumes whoever has all it waits for; it knows no mathematics and no topology. Since programs
form a Kahn network the order in which it does so cannot change a result. What wraps an engine to listen, to disturb or
to lose parties has the same face (fault_tools.py), so tests and reports need no hooks inside.

Elsewhere a hosted node is asked (host.py): it joins a run, says what it has received and sent, sends again what a peer
has missed, and takes turns: letters in, steps, letters out (`Turns`). Everything that is asked and answered is plain
values, so it does not matter whether a call, a cluster or a network lies between.

There is one way to begin: by a replay of what is recorded, at first of nothing.

A host whose process died joins again from its transcript, and goes on to the bit; letters that were on their way
are made again, the same, by replay.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from threadpoolctl import threadpool_limits

from colonnade.errors import (
    BudgetExhausted,
    ColonnadeError,
    InvalidInput,
    LeakError,
    PeerFailed,
    PolicyRefused,
    ProtocolError,
    WireError,
)
from colonnade.notebook import explain
from colonnade.privacy.events import Ending, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import Ledger, Replaced, Terms, When
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.store import Log
from colonnade.runtime.node import LOST, Edge, Listener, Node, NodeSetup, Receipts, Transcript
from colonnade.runtime.program import FailureCode, NodeId, Note
from colonnade.runtime.wire import Letter, Traffic

# What ends a run for good. Anything else (a full disk, Ctrl-C, a damaged file) leaves it to be resumed.
FINAL: dict[type[ColonnadeError], FailureCode] = {
    PolicyRefused: FailureCode.REFUSED,
    BudgetExhausted: FailureCode.REFUSED,
    WireError: FailureCode.PROTOCOL,
    ProtocolError: FailureCode.PROTOCOL,
    LeakError: FailureCode.STOPPED,
    InvalidInput: FailureCode.STOPPED,
}

Head = tuple[int, bytes]  # how many rows a log has, and the hash over all of them


def code_of(error: ColonnadeError) -> FailureCode:
    """The code under which an error that ends a run is told to others."""
    return next(code for kind, code in FINAL.items() if isinstance(error, kind))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a host's records stand, and, where parties seal, the public half of the key that it signs with."""

    head: Head
    remembered: Mapping[NodeId, Head]
    key: bytes
    replaced: tuple[Replaced, ...] = ()  # ledgers that took the place of lost ones, as far as it knows


@dataclass(frozen=True, slots=True)
class Joined:
    """How far a host has come in a run: how many letters it has from and for each neighbour."""

    received: Mapping[NodeId, int]
    sent: Mapping[NodeId, int]
    heard: Mapping[Edge, int] = field(default_factory=dict)  # by its receipts: also what it did not get to record


NOTES = 1 << 16  # that one turn tells: whoever is started again tells all of a run


class Turn(NamedTuple):
    """What a host did with its letters."""

    letters: tuple[Letter, ...]
    finished: bool
    wait: tuple[NodeId, ...]
    notes: tuple[Note, ...] = ()
    told: int = 0  # how many notes came before these; a replay tells the old ones again
    failure: ColonnadeError | None = None  # why it stopped, where the engine may know
    more: bool = False  # whether letters or notes wait that did not fit into one answer
    missing: frozenset[NodeId] = frozenset()  # without a letter from each of these another turn would change nothing


class HostedNode:
    """One node of one run."""

    def __init__(
        self,
        setup: NodeSetup,
        run: str,
        log: Log,
        listener: Listener | None = None,
        *,
        ledger: Ledger | None = None,
        keys: Mapping[NodeId, bytes] | None = None,
        identity: bytes | None = None,
        told: str = "",
    ) -> None:
        """ledger, keys  of a party whose service opened the run: it is not reserved again."""
        self.setup = setup
        self.run = run
        self.log = log
        self._own_key = identity
        self._told_of = told
        self.ledger = ledger or Ledger(log, setup.name, setup.policy, holds_data=setup.guarded)
        self.receipts = Receipts(log, run, kept=setup.receipts)
        self._listener = listener or self._note
        self._keys = keys or {}
        self._notes: list[Note] = []
        self._node: Node | None = None
        self._traffic = Traffic()
        self._told = 0  # notes that turns have carried

    # ------------------------------------------------------------------------ its records

    def verify(self) -> None:
        """Its records must be whole."""
        self.ledger.check()

    def standing(self) -> Standing:
        """Where its records stand."""
        key = public_key(self._identity()) if self.setup.sealing else b""
        remembered = self.ledger.remembered()
        replaced = tuple(self.ledger.replaced())
        length = self.log.length()
        return Standing((length, self.log.head_at(length)), remembered, key, replaced)

    def vouch(self, seen: Mapping[NodeId, Head]) -> None:
        """Its ledger must hold every row that others saw as its last, in a chain that is whole."""
        self.ledger.check()
        for witness, (count, head) in seen.items():
            self.ledger.check_head(count, head, witness)

    def settle(self, over: Mapping[str, Ending]) -> set[str]:
        """Close what is still open of runs that are over: their process died before it could close every ledger. The
        others that are open, or not erased yet."""
        left = self.ledger.open_runs() | self.log.unerased()
        for run in left & over.keys():
            self.ledger.close_run(run, over[run])
        return left - over.keys()

    def same_unit(self, terms: Terms, plans: Mapping[str, Plan]) -> None:
        """Refuse a run that is about another unit than its ledger, before anybody reserves."""
        # One that goes on was let in before, and may have released: to call it refused would forget that.
        if self.run not in self.ledger.open_runs():
            self.ledger.check_unit(terms, plans)

    def has_begun(self) -> bool:
        """Whether its ledger has the run already."""
        return self.log.holds(self.run, "open")

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> None:
        """Reserve the run's whole plan, or refuse; `keys` are the public keys that the others sign with."""
        self._keys = keys
        self.ledger.open_run(self.run, terms, plans)

    def remember(self, when: When, heads: Mapping[NodeId, Head]) -> None:
        """Keep where other ledgers stand."""
        self.ledger.remember(self.run, when, heads)

    def close(self, ending: Ending) -> None:
        """The run is over; what it did not use returns."""
        self.ledger.close_run(self.run, ending)

    # ------------------------------------------------------------------------ its node

    def new_node(self) -> Node:
        """Its node before it has begun: whoever drives it begins by `Node.replay`."""
        setup = self.setup
        noise = SystemNoise() if setup.noise is None else setup.noise.at(setup.name)
        gate = Gate(self.ledger, self.run, noise, self._keyring() if setup.sealing else None)
        return Node(setup, gate, Transcript(self.log, self.run), self._listener, self.receipts)

    @property
    def node(self) -> Node:
        """Its node where its transcript ends."""
        if self._node is None:
            self._traffic = Traffic()
            self._notes = []
            self._told = 0
            node = self.new_node()
            self._count_traffic(node.replay())
            # Not before: half a replay must not go on live.
            self._node = node
        return self._node

    def _identity(self) -> bytes:
        return self._own_key or self.log.secret("node", "signing key", 32)

    def _keyring(self) -> Keyring:
        """Its keys in this run. The signing key lives with its ledger, the others know the public half."""
        secret = self.log.secret(self.run, "keyring", 32)
        return Keyring(self.run, self.setup.name, self._identity(), self._keys, secret, self._told_of)

    def _note(self, _: NodeId, note: Note) -> None:
        self._notes.append(note)

    # ------------------------------------------------------------------------ its turns

    def join(self) -> Joined:
        """How far it has come."""
        node = self.node
        sent = Counter[NodeId]()
        for line, count in self._traffic.messages.items():
            sent[line.receiver] += count
        received = {peer: node.received_from(peer) for peer in sorted(node.neighbours)}
        return Joined(received, dict(sent), self.receipts.counts())

    def resend(self, since: Mapping[NodeId, int]) -> tuple[Letter, ...]:
        """The letters for each neighbour from the place given; those recorded in an earlier life are made again."""
        if all(since.get(receiver, 0) >= count for receiver, count in self.join().sent.items()):
            return ()
        # Letters are not kept: a replay from the transcript makes the same ones again. It runs beside the node, not in
        # its place: the node may hold letters that it has not read, and has said that it has.
        notes = self._notes
        self._notes = []
        try:
            again = self.new_node().replay()
        finally:
            self._notes = notes
        return tuple(x for x in again if x.sequence >= since.get(x.receiver, 0))

    def give_up(self, peer: NodeId) -> None:
        """Take nothing more from a neighbour that is lost, and let the program know when it waits for it."""
        node = self.node
        node.deliver(Letter(peer, node.name, node.received_from(peer), 0, LOST))

    def turn(self, letters: Iterable[Letter]) -> Turn:
        """Take letters and go as far as they allow."""
        node = self.node
        sent = list[Letter]()
        failure = None
        try:
            for letter in letters:
                if not node.finished:
                    node.deliver(letter)
            node.acknowledge()
            while node.ready:
                sent += self._count_traffic(node.step())
        except tuple(FINAL) as error:
            failure = error
            sent += self._count_traffic(node.farewell(code_of(error)))
        notes = tuple(self._notes[:NOTES])
        self._notes = self._notes[NOTES:]
        told = self._told
        self._told = self._told + len(notes)
        more = bool(self._notes)
        return Turn(tuple(sent), node.finished, node.wait, notes, told, failure, more, node.missing)

    def outcome(self) -> tuple[Any, Traffic]:
        """What its program returned, and what it sent in all."""
        result = self.node.result
        self.remark_on(result)
        return result, self._traffic

    def remark_on(self, result: Any) -> None:
        """Write down what the operator should read about a result."""
        if (remark := self.setup.remark(result)) and self.log.durable:
            self.ledger.tell_operator(self.run, remark)

    def _count_traffic(self, letters: list[Letter]) -> list[Letter]:
        for letter in letters:
            self._traffic.count(letter)
        return letters


# ------------------------------------------------------------------------------------------------ all in one process


Carry = Callable[[Letter], Iterable[Letter]]


class Engine(Protocol):
    """Drives nodes to their end."""

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = ...) -> Outcome:
        """Drive every node to its end: their results, and what was sent.

        Parameters
        ----------
        nodes
            The nodes of a run, by name.
        carry
            From a letter that was sent to the letters that arrive; by default it alone.
        """
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What each node's program returned, and all that went over the wires."""

    results: dict[NodeId, Any]
    traffic: Traffic


def deliver_once(letter: Letter) -> Iterable[Letter]:
    """A wire that delivers what it is given."""
    return (letter,)


class InProcess:
    """Runs every node in this process, one step at a time, with one BLAS thread."""

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        with threadpool_limits(limits=1), _collect_seldom():
            return _Loop(nodes, carry, self.pick).run()

    def pick(self, ready: deque[NodeId]) -> NodeId:
        """Who goes next; any choice gives the same results.

        Parameters
        ----------
        ready
            The nodes that have all they wait for, the longest ready first; the one that is chosen leaves it.
        """
        return ready.popleft()


explain(Engine, InProcess)


@contextmanager
def _collect_seldom() -> Iterator[None]:
    """Look for cycles of garbage less often: a run makes many small objects that live on, and with a thousand nodes the
    search took a third of its time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Loop:
    def __init__(self, nodes: Mapping[NodeId, Node], carry: Carry, pick: Callable[[deque[NodeId]], NodeId]) -> None:
        self.nodes = nodes
        self.carry = carry
        self.pick = pick
        self.traffic = Traffic()
        self.ready: deque[NodeId] = deque()
        self.queued: set[NodeId] = set()
        self.lost: set[NodeId] = set()
        self.failure: ColonnadeError | None = None

    def run(self) -> Outcome:
        # Replay everybody before anything is delivered: a node must know what it has used before it is sent more.
        resent = [letter for node in self.nodes.values() for letter in node.replay()]
        sent = Counter((letter.sender, letter.receiver) for letter in resent)
        for node in self.nodes.values():
            node.check_senders(sent)
        for letter in resent:
            self.send(letter)
        for name in self.nodes:
            self.wake(name)
        while self.ready:
            name = self.pick(self.ready)
            self.queued.discard(name)
            try:
                letters = self.nodes[name].step()
            except tuple(FINAL) as error:
                letters = self.fail(self.nodes[name], error)
            for letter in letters:
                self.send(letter)
            self.wake(name)
        if self.failure is not None:
            raise self.failure
        left = {name: node for name, node in self.nodes.items() if name not in self.lost}
        check_finished({name: node.wait for name, node in left.items() if not node.finished})
        return Outcome({name: node.result for name, node in self.nodes.items()}, self.traffic)

    def fail(self, node: Node, error: ColonnadeError) -> list[Letter]:
        if self.failure is None or isinstance(self.failure, PeerFailed):
            self.failure = error
        return node.farewell(code_of(error))

    def send(self, letter: Letter) -> None:
        self.traffic.count(letter)
        for arriving in self.carry(letter):
            if arriving.body == LOST:
                self.lost.add(arriving.sender)
            receiver = self.nodes[arriving.receiver]
            if receiver.finished:
                continue
            try:
                receiver.deliver(arriving)
            except ProtocolError as error:
                for farewell in self.fail(receiver, error):
                    self.send(farewell)
            self.wake(arriving.receiver)

    def wake(self, name: NodeId) -> None:
        if name not in self.queued and name not in self.lost and self.nodes[name].ready:
            self.ready.append(name)
            self.queued.add(name)


def check_finished(waiting: Mapping[NodeId, tuple[NodeId, ...]]) -> None:
    """Nobody waits for anybody when nobody can go on."""
    if waiting:
        waits = "; ".join(f"{name!r} waits for {', '.join(map(repr, others))}" for name, others in waiting.items())
        raise ProtocolError(f"nobody can go on: {waits}")
