"""A host: one node where it lives, with its ledger, its transcript and its program.

An engine that keeps all hosts in one process drives their nodes itself (inprocess.py). Elsewhere a host is reached
by asking: it joins a run, says what it has received and sent, sends again what a peer has missed, and takes turns:
letters in, steps, letters out (turns.py). Everything that is asked and answered is plain values, so it does not matter
whether a call, a cluster or a network lies between.

A host whose process died joins again from its transcript, and goes on to the bit; letters that were on their way
are made again, the same, by replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colonnade.errors import (
    BudgetExhausted,
    ColonnadeError,
    InvalidInput,
    LeakError,
    PolicyRefused,
    ProtocolError,
    WireError,
)
from colonnade.privacy.events import Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import Ledger, Replaced, Terms
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.store import Log
from colonnade.runtime.messages import FailureCode
from colonnade.runtime.node import Listener, Node, NodeSetup
from colonnade.runtime.program import NodeId, Note
from colonnade.runtime.traffic import Traffic
from colonnade.runtime.transcript import Edge, Receipts, Transcript
from colonnade.runtime.wire import Letter

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


class Turn(NamedTuple):
    """What a host did with its letters."""

    letters: tuple[Letter, ...]
    finished: bool
    wait: tuple[NodeId, ...]
    notes: tuple[Note, ...] = ()
    told: int = 0  # how many notes came before these; a replay tells the old ones again
    failure: ColonnadeError | None = None  # why it stopped, where the engine may know
    more: bool = False  # whether letters wait that did not fit into one answer
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
        self.setup, self.run, self.log = setup, run, log
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
        self.log.verify()

    def standing(self) -> Standing:
        """Where its records stand."""
        length = self.log.length()
        head = (length, self.log.head_at(length))
        key = public_key(self._identity()) if self.setup.sealing else b""
        return Standing(head, self.ledger.remembered(), key, tuple(self.ledger.replaced()))

    def vouch(self, seen: Mapping[NodeId, Head]) -> None:
        """Its ledger must hold every row that others saw as its last."""
        for witness, (count, head) in seen.items():
            self.ledger.check_head(count, head, witness)

    def settle(self, over: Mapping[str, str]) -> None:
        """Close what is still open of runs that are over: their process died before it could close every ledger."""
        for run in (self.ledger.open_runs() | self.log.unerased()) & over.keys():
            self.ledger.close_run(run, over[run])

    def same_unit(self, terms: Terms, plans: Mapping[str, Plan]) -> None:
        """Refuse a run that is about another unit than its ledger, before anybody reserves."""
        # One that goes on was let in before, and may have released: to call it refused would forget that.
        if self.run not in self.ledger.open_runs():
            self.ledger.check_unit(terms, plans)

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> None:
        """Reserve the run's whole plan, or refuse; `keys` are the public keys that the others sign with."""
        self._keys = keys
        self.ledger.open_run(self.run, terms, plans)

    def remember(self, when: str, heads: Mapping[NodeId, Head]) -> None:
        """Keep where other ledgers stand."""
        self.ledger.remember(self.run, when, heads)

    def close(self, how: str) -> None:
        """The run is over; what it did not use returns."""
        self.ledger.close_run(self.run, how)

    # ------------------------------------------------------------------------ its node

    @property
    def node(self) -> Node:
        if self._node is None:
            self._node = self._make_node()
        return self._node

    def _make_node(self) -> Node:
        setup = self.setup
        noise = SystemNoise() if setup.noise is None else setup.noise.at(setup.name)
        gate = Gate(self.ledger, self.run, noise, self._keyring() if setup.sealing else None)
        return Node(setup, gate, Transcript(self.log, self.run), self._listener, self.receipts)

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
        self._arrive()
        sent: Counter[NodeId] = Counter()
        for line, count in self._traffic.messages.items():
            sent[line.receiver] += count
        received = {peer: self.node.received_from(peer) for peer in sorted(self.node.neighbours)}
        return Joined(received, dict(sent), self.receipts.counts())

    def resend(self, since: Mapping[NodeId, int]) -> tuple[Letter, ...]:
        """The letters for each neighbour from the place given; those recorded in an earlier life are made again."""
        if all(since.get(receiver, 0) >= count for receiver, count in self.join().sent.items()):
            return ()
        # Letters are not kept: a replay from the transcript makes the same ones again. It runs beside the node, not in
        # its place: the node may hold letters that it has not read, and has said that it has.
        notes, self._notes = self._notes, []
        try:
            again = self._make_node().replay()
        finally:
            self._notes = notes
        return tuple(x for x in again if x.sequence >= since.get(x.receiver, 0))

    def turn(self, letters: Iterable[Letter]) -> Turn:
        """Take letters and go as far as they allow."""
        self._arrive()
        node, sent, failure = self.node, [], None
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
        notes, self._notes = tuple(self._notes), []
        told, self._told = self._told, self._told + len(notes)
        return Turn(tuple(sent), node.finished, node.wait, notes, told, failure, missing=node.missing)

    def outcome(self) -> tuple[Any, Traffic]:
        """What its program returned, and what it sent in all."""
        self._arrive()
        if (remark := self.setup.remark(self.node.result)) and self.log.durable:
            self.ledger.tell_operator(self.run, remark)
        return self.node.result, self._traffic

    def _arrive(self) -> None:
        """Be where the transcript ends."""
        if self._node is not None:
            return
        self._traffic, self._notes, self._told = Traffic(), [], 0
        try:
            self._count_traffic(self.node.replay())
        except BaseException:
            self._node = None  # half a replay must not go on live
            raise

    def _count_traffic(self, letters: list[Letter]) -> list[Letter]:
        for letter in letters:
            self._traffic.count(letter)
        return letters
