"""All nodes in one process: a plain loop over generators.

An engine moves letters between nodes and resumes whoever has all it waits for; it knows no mathematics and no topology.
Since programs form a Kahn network the order in which it does so cannot change a result. `Tap` and `Faults` wrap an
engine and have the same face, so tests and reports need no hooks inside.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from colonnade.errors import ColonnadeError, PeerFailed, ProtocolError
from colonnade.privacy.store import Log
from colonnade.runtime.hosted_node import FINAL, HostedNode, code_of
from colonnade.runtime.node import Listener, Node, NodeSetup
from colonnade.runtime.program import NodeId
from colonnade.runtime.traffic import Traffic
from colonnade.runtime.transcript import old_copy
from colonnade.runtime.wire import Letter

Carry = Callable[[Letter], Iterable[Letter]]


class Engine(Protocol):
    """Drives nodes to their end."""

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = ...) -> Outcome: ...


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
        """Who goes next; any choice gives the same results."""
        return ready.popleft()


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


class LocalNodes:
    """All hosts of a run in this process, driven by an engine that takes their nodes."""

    def __init__(
        self,
        run: str,
        setups: Mapping[NodeId, NodeSetup],
        log: Callable[[NodeId], Log],
        engine: Engine,
        listener: Listener,
    ) -> None:
        self.hosts = {name: HostedNode(setup, run, log(name), listener) for name, setup in setups.items()}
        self.engine = engine

    def ask(self, what: Callable[..., Any], to: Mapping[NodeId, tuple[Any, ...]]) -> dict[NodeId, Any]:
        return {name: what(self.hosts[name], *arguments) for name, arguments in to.items()}

    def drive(self) -> Outcome:
        done = self.engine.run({name: host.node for name, host in self.hosts.items()})
        self.ask(HostedNode.outcome, dict.fromkeys(self.hosts, ()))
        return done

    def close(self) -> None:
        """Nothing to let go: the store closes its logs."""


class _Loop:
    def __init__(self, nodes: Mapping[NodeId, Node], carry: Carry, pick: Callable[[deque[NodeId]], NodeId]) -> None:
        self.nodes = nodes
        self.carry = carry
        self.pick = pick
        self.traffic = Traffic()
        self.ready: deque[NodeId] = deque()
        self.queued: set[NodeId] = set()
        self.failure: ColonnadeError | None = None

    def run(self) -> Outcome:
        # Replay everybody before anything is delivered: a node must know what it has used before it is sent more.
        resent = [letter for node in self.nodes.values() for letter in node.replay()]
        self.check_records(resent)
        for letter in resent:
            self.send(letter)
        for name in self.nodes:
            self.wake(name)
        while self.ready:
            name = self.pick(self.ready)
            self.queued.discard(name)
            for letter in self.advance(self.nodes[name]):
                self.send(letter)
            self.wake(name)
        if self.failure is not None:
            raise self.failure
        check_finished({name: node.wait for name, node in self.nodes.items() if not node.finished})
        return Outcome({name: node.result for name, node in self.nodes.items()}, self.traffic)

    def check_records(self, resent: Iterable[Letter]) -> None:
        """Nobody may have received more than its sender remembers: an old copy would draw its noise anew."""
        sent = Counter((letter.sender, letter.receiver) for letter in resent)
        for node in self.nodes.values():
            for sender in node.neighbours:
                if node.heard_from(sender) > sent[sender, node.name]:
                    raise old_copy(sender, node.name, node.heard_from(sender), sent[sender, node.name])

    def advance(self, node: Node) -> list[Letter]:
        try:
            return node.step()
        except tuple(FINAL) as error:
            return self.fail(node, error)

    def fail(self, node: Node, error: ColonnadeError) -> list[Letter]:
        if self.failure is None or isinstance(self.failure, PeerFailed):
            self.failure = error
        return node.farewell(code_of(error))

    def send(self, letter: Letter) -> None:
        self.traffic.count(letter)
        for arriving in self.carry(letter):
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
        if name not in self.queued and self.nodes[name].ready:
            self.ready.append(name)
            self.queued.add(name)


def check_finished(waiting: Mapping[NodeId, tuple[NodeId, ...]]) -> None:
    """Nobody waits for anybody when nobody can go on."""
    if waiting:
        waits = "; ".join(f"{name!r} waits for {', '.join(map(repr, others))}" for name, others in waiting.items())
        raise ProtocolError(f"nobody can go on: {waits}")


class Tap:
    """An engine that also keeps every letter that went over its wires."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.letters: list[Letter] = []

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        def listen(letter: Letter) -> Iterable[Letter]:
            self.letters.append(letter)
            return carry(letter)

        return self.engine.run(nodes, listen)


class Faults:
    """An engine whose wires do what `fault` says: lose, repeat, change or forge letters."""

    def __init__(self, engine: Engine, fault: Carry) -> None:
        self.engine, self.fault = engine, fault

    def run(self, nodes: Mapping[NodeId, Node], carry: Carry = deliver_once) -> Outcome:
        def disturbed(letter: Letter) -> Iterable[Letter]:
            for arriving in self.fault(letter):
                yield from carry(arriving)

        return self.engine.run(nodes, disturbed)
