"""Driving one run: every ledger reserves its plan or refuses, then the programs talk, then the ledgers are closed.

Ledgers are compared before a run and remembered by others at its start and end, so that an old copy is noticed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, TypeVarTuple, runtime_checkable

from colonnade.data.federation import Federation
from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import GraphMethod, Job, Method
from colonnade.methods.node_setup import Call, coordinator_setup, neighbours, party_setup, terms_of
from colonnade.privacy.block import Block
from colonnade.privacy.events import Plan
from colonnade.privacy.ledger import REFUSED, Replaced
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.runs.progress import Progress
from colonnade.runtime.hosted_node import FINAL, Head, HostedNode
from colonnade.runtime.inprocess import Engine, LocalNodes, Outcome
from colonnade.runtime.node import NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId, Note
from colonnade.runtime.run_store import Store
from colonnade.runtime.turns import Distributed, HostedNodes

log = logging.getLogger("colonnade.runs.fit")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@runtime_checkable
class MeetingEngine(Protocol):
    """An engine whose parties run elsewhere and agree on their rows before a run."""

    def meet(self, federation: Federation) -> Federation: ...


def meet_parties(federation: Federation, engine: object) -> Federation:
    """The federation once its parties are there and have agreed on their rows."""
    if not isinstance(engine, MeetingEngine):
        what = "the parties of this federation run elsewhere: pass engine=co.Grpc(...)"
        here = "Federation.open(path, frames={party: frame})"
        raise InvalidInput(f"{what}, or open it with {here} to run it in this process.")
    return engine.meet(federation)


@dataclass(eq=False)
class RunDriver:
    """One run of one method, from its plans to the outcome of its programs."""

    run: str
    federation: Federation
    job: Job
    method: Method | GraphMethod | MaskedScores
    plans: Mapping[str, Plan]
    blocks: Mapping[str, Block]
    store: Store
    bar: Progress
    noise: SeededNoise | None
    call: Call | None = None
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    hosted_nodes: HostedNodes = field(init=False)
    replaced: list[Replaced] = field(default_factory=list)  # ledgers that took the place of lost ones

    def run_programs(self) -> Outcome:
        """Reserve, run, and close the run if that fails for good."""
        try:
            self.reserve()
        except tuple(FINAL) as error:
            with contextlib.suppress(PeerFailed):  # whoever refused this refuses what follows from it, too
                self.end(f"{REFUSED}: {type(error).__name__}")
            raise
        try:
            return self.hosted_nodes.drive()
        except tuple(FINAL) as error:
            with contextlib.suppress(PeerFailed):
                self.end(f"failed: {type(error).__name__}")
            raise

    @contextlib.contextmanager
    def hosted(self, engine: Engine | Distributed) -> Iterator[None]:
        """With a host for every node."""
        if isinstance(engine, Distributed):
            self.hosted_nodes = engine.hosted_nodes(self.run, self.setups(), self.store, self.listen, self.call)
        else:
            self.hosted_nodes = LocalNodes(self.run, self.setups(), self.store.log, engine, self.listen)
        try:
            yield
        finally:
            self.hosted_nodes.close()

    def ask_all(self, what: Callable[[HostedNode, *Ts], T], *arguments: *Ts) -> dict[NodeId, T]:
        """The same question to all hosts."""
        return self.hosted_nodes.ask(what, dict.fromkeys(self.nodes, arguments))

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        graph = isinstance(self.method, GraphMethod)
        return self.job.roster.parties if graph else (COORDINATOR, *self.job.roster.parties)

    def reserve(self) -> None:
        """Every ledger reserves its whole plan, or nothing is sent at all."""
        keys = self.check_heads()
        if over := self.store.ended():  # runs whose process died before it could close every ledger
            self.ask_all(HostedNode.settle, over)
        terms = terms_of(self.job, self.method)
        if self.federation.away is None:  # parties elsewhere are asked whether they would take part
            self.ask_all(HostedNode.same_unit, terms, self.plans)
        self.ask_all(HostedNode.reserve, terms, self.plans, keys)
        self.exchange_heads("start")

    def end(self, how: str) -> None:
        self.store.end(self.run, how)
        self.ask_all(HostedNode.close, how)
        self.exchange_heads("end")

    def finish(self) -> None:
        """The result is there. Parties elsewhere that cannot be told now are told before the next run: an error would
        have the caller repeat the call, which would begin and pay another run."""
        try:
            self.end("finished")
        except ColonnadeError as error:
            if self.federation.away is None or self.run not in self.store.ended():
                raise
            log.warning("over, and not everybody could be told", extra={"run": self.run, "error": type(error).__name__})

    def check_heads(self) -> dict[NodeId, bytes]:
        """Check that every chain is whole and lacks no row that another node saw; the keys the nodes sign with."""
        self.ask_all(HostedNode.verify)
        standing = self.ask_all(HostedNode.standing)
        self.replaced = [one for found in standing.values() for one in found.replaced]
        seen: dict[NodeId, dict[NodeId, Head]] = {name: {} for name in standing}
        for witness, found in standing.items():
            for peer, head in found.remembered.items():
                if peer in seen:
                    seen[peer][witness] = head
        self.hosted_nodes.ask(HostedNode.vouch, {name: (heads,) for name, heads in seen.items() if heads})
        return {name: found.key for name, found in standing.items() if found.key}

    def exchange_heads(self, when: str) -> None:
        """Let the coordinator remember where every ledger stands, and each party where the next one does."""
        if not self.store.durable:
            return
        heads = {name: found.head for name, found in self.ask_all(HostedNode.standing).items()}
        names = list(heads)
        peers = dict(zip(names, [*names[1:], names[0]], strict=True))
        news = {n: (when, heads if n == COORDINATOR else {peer: heads[peer]}) for n, peer in peers.items()}
        self.hosted_nodes.ask(HostedNode.remember, news)

    def setups(self) -> dict[NodeId, NodeSetup]:
        policies = {name: party.policy for name, party in self.federation.parties.items()}
        job, method, noise, setups = self.job, self.method, self.noise, dict[NodeId, NodeSetup]()
        if not isinstance(method, GraphMethod):
            setups[COORDINATOR] = coordinator_setup(job, method, noise)
        for name, around in neighbours(job, method).items():
            setups[name] = party_setup(job, method, self.blocks[name], policies[name], noise, name, around)
        return setups

    def listen(self, node: NodeId, note: Note) -> None:
        if node != COORDINATOR and not note.keys() - {"round", "party"}:
            return  # an agent that counts its rounds and has no figures to show
        # How long a round takes depends on the data: under privacy the history does not say.
        clock = {} if self.job.privacy else {"seconds": time.perf_counter() - self.began}
        self.notes.append({**note, **clock})
        self.bar.show(note)
