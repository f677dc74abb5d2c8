"""The hosts of a run, as whoever drives it sees them: the same questions, wherever a host lives.

A `Host` is one node with its ledger and its transcript. It gives a `Promise` of an answer, since it may live in another
process or in another building; one that is here answers at once. `HostedNodes` are all hosts of one run, with what
concerns them all together: to reserve, to be driven to their end, to close. An engine whose hosts live elsewhere makes
them (`Distributed`); for every other engine `LocalNodes` keeps them in this process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from colonnade.privacy.ending import Ending
from colonnade.privacy.events import Plan
from colonnade.privacy.ledger import Terms
from colonnade.privacy.store import Log
from colonnade.runtime.hosted_node import Engine, Head, HostedNode, Joined, Outcome, Standing, Turn
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import NodeId
from colonnade.runtime.wire import Letter, Traffic

H = TypeVar("H")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Promise(Protocol[T_co]):
    """An answer that will come: a Future, or what is made of one."""

    def result(self) -> T_co:
        """The answer, or its error; waits for it."""
        ...

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        """Let somebody know when it is there."""
        ...


class Computed(Generic[T]):
    """What becomes of an answer once it is there: made once, by the thread that asks for it first.

    Not a Future: every message of every round makes a promise, and a Future costs as much as reading the message.
    """

    __slots__ = ("_compute", "_error", "_promised", "_value")

    def __init__(self, promised: Promise[S], compute: Callable[[Promise[S]], T]) -> None:
        self._promised: Promise[Any] | None = promised
        self._compute: Callable[[Promise[Any]], T] = compute
        self._value: Any = None
        self._error: BaseException | None = None

    def result(self) -> T:
        # what it was made of is not kept: answers are large
        promised = self._promised
        self._promised = None
        if promised is not None:
            try:
                self._value = self._compute(promised)
            except BaseException as error:
                self._error = error
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        if self._promised is None:
            tell(self)
        else:
            self._promised.add_done_callback(lambda _: tell(self))


class Answered(Generic[T]):
    """A promise that is kept at once."""

    __slots__ = ("_answer",)

    def __init__(self, compute: Callable[[], T]) -> None:
        self._answer: Computed[T] = Computed(self, lambda _: compute())
        with contextlib.suppress(Exception):  # Ctrl-C ends the asking at once
            self._answer.result()

    def result(self) -> T:
        return self._answer.result()

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        tell(self)


def wait_for_all(promised: Iterable[Promise[object]]) -> None:
    """Wait until nobody is at work any more, whatever came of it."""
    for promise in promised:
        with contextlib.suppress(Exception):
            promise.result()


def gather_answers(promised: Mapping[NodeId, Promise[T]]) -> dict[NodeId, T]:
    """All answers, or the first error once nobody is at work any more."""
    wait_for_all(promised.values())
    return {name: promise.result() for name, promise in promised.items()}


class Lost(Exception):
    """The host's process died and is there again, or the line to it was cut: it must join anew."""


class Host(Protocol):
    """One node of a run with its records; `HostedNode` says what each question means."""

    def has_begun(self) -> Promise[bool]: ...

    def verify(self) -> Promise[None]: ...

    def standing(self) -> Promise[Standing]: ...

    def vouch(self, seen: Mapping[NodeId, Head]) -> Promise[None]: ...

    def settle(self, over: Mapping[str, Ending]) -> Promise[set[str]]: ...

    def same_unit(self, terms: Terms, plans: Mapping[str, Plan]) -> Promise[None]: ...

    def remember(self, when: str, heads: Mapping[NodeId, Head]) -> Promise[None]: ...

    def join(self) -> Promise[Joined]: ...

    def resend(self, since: Mapping[NodeId, int]) -> Promise[tuple[Letter, ...]]: ...

    def turn(self, letters: Sequence[Letter]) -> Promise[Turn]: ...

    def outcome(self) -> Promise[tuple[Any, Traffic]]: ...

    def close(self, ending: Ending) -> Promise[None]: ...


class HostedNodes(Protocol):
    """The hosts of one run, wherever they are."""

    @property
    def hosts(self) -> Mapping[NodeId, Host]:
        """Those that take part; whoever was given up is not among them."""
        ...

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> None:
        """Every ledger reserves its whole plan, or the run is refused; `keys` are those that the nodes sign with."""
        ...

    def drive(self) -> Outcome:
        """Let the programs talk to their end."""
        ...

    def close(self, ending: Ending) -> None:
        """The run is over; what it did not use returns."""
        ...

    def leave(self) -> None:
        """Let go of the hosts, whether the run is over or stops here for now."""
        ...


@runtime_checkable
class Distributed(Protocol):
    """An engine whose hosts live elsewhere."""

    def hosted_nodes(
        self, run: str, setups: Mapping[NodeId, NodeSetup], logs: NodeLogs, listener: Listener, call: Any
    ) -> HostedNodes:
        """The hosts of a run.

        Parameters
        ----------
        run
            The run's id.
        setups
            What each node's host makes the node from, by node.
        logs
            Where each node's records are.
        listener
            Hears of every note a node writes.
        call
            What was asked for, for parties that make their own setups.
        """
        ...


class NodeLogs(Protocol):
    """What an engine needs of a store: where a node's records are."""

    durable: bool

    def log(self, node: NodeId) -> Log: ...

    def log_path(self, node: NodeId) -> Path | None: ...


def ask_hosts(hosts: Mapping[NodeId, H], ask: Callable[[NodeId, H], Promise[T]]) -> dict[NodeId, T]:
    """Every host's answer, or the first error once nobody is at work any more. One that died meanwhile is asked again:
    its records answer the same."""
    answers: dict[NodeId, T] = {}
    while missing := {name: host for name, host in hosts.items() if name not in answers}:
        promised = {name: ask(name, host) for name, host in missing.items()}
        wait_for_all(promised.values())
        for name, promise in promised.items():
            with contextlib.suppress(Lost):
                answers[name] = promise.result()
    return {name: answers[name] for name in hosts}


@dataclass(frozen=True, slots=True)
class AskedHost:
    """A host that one function reaches: it takes the name of a method of HostedNode and its arguments."""

    ask: Callable[..., Promise[Any]]

    def has_begun(self) -> Promise[bool]:
        return self.ask("has_begun")

    def verify(self) -> Promise[None]:
        return self.ask("verify")

    def standing(self) -> Promise[Standing]:
        return self.ask("standing")

    def vouch(self, seen: Mapping[NodeId, Head]) -> Promise[None]:
        return self.ask("vouch", seen)

    def settle(self, over: Mapping[str, Ending]) -> Promise[set[str]]:
        return self.ask("settle", over)

    def same_unit(self, terms: Terms, plans: Mapping[str, Plan]) -> Promise[None]:
        return self.ask("same_unit", terms, plans)

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> Promise[None]:
        return self.ask("reserve", terms, plans, keys)

    def remember(self, when: str, heads: Mapping[NodeId, Head]) -> Promise[None]:
        return self.ask("remember", when, heads)

    def join(self) -> Promise[Joined]:
        return self.ask("join")

    def resend(self, since: Mapping[NodeId, int]) -> Promise[tuple[Letter, ...]]:
        return self.ask("resend", since)

    def turn(self, letters: Sequence[Letter]) -> Promise[Turn]:
        return self.ask("turn", letters)

    def outcome(self) -> Promise[tuple[Any, Traffic]]:
        return self.ask("outcome")

    def close(self, ending: Ending) -> Promise[None]:
        return self.ask("close", ending)


def host_here(node: HostedNode) -> AskedHost:
    """A host in this process: it answers at once."""
    return AskedHost(lambda what, *arguments: Answered(lambda: getattr(node, what)(*arguments)))


class LocalNodes:
    """All hosts of a run in this process, driven by an engine that takes their nodes."""

    def __init__(
        self,
        run: str,
        setups: Mapping[NodeId, NodeSetup],
        logs: Mapping[NodeId, Log],
        engine: Engine,
        listener: Listener,
    ) -> None:
        self.nodes = {name: HostedNode(setup, run, logs[name], listener) for name, setup in setups.items()}
        self.hosts: Mapping[NodeId, Host] = {name: host_here(node) for name, node in self.nodes.items()}
        self.engine = engine

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], keys: Mapping[NodeId, bytes]) -> None:
        for node in self.nodes.values():  # one after another: behind the first that refuses nobody reserves
            node.reserve(terms, plans, keys)

    def drive(self) -> Outcome:
        done = self.engine.run({name: node.new_node() for name, node in self.nodes.items()})
        for name, node in self.nodes.items():
            node.remark_on(done.results[name])
        return done

    def close(self, ending: Ending) -> None:
        ask_hosts(self.hosts, lambda _, host: host.close(ending))

    def leave(self) -> None:
        """Nothing to let go: the store closes its logs."""
