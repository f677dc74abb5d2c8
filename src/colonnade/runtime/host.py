"""The hosts of a run, as whoever drives it sees them: the same questions, wherever a host lives.

A `Host` is one node with its ledger and its transcript. It gives a `Promise` of an answer, since it may live in another
process or in another building; one that is here answers at once. `HostedNodes` are all hosts of one run, with what
concerns them all together: to reserve, to be driven to their end, to close. An engine whose hosts live elsewhere makes
them (`Distributed`); for every other engine `LocalNodes` keeps them in this process.

`Turns` drives hosts that are somewhere else: whoever has mail gets a turn, many at once, until all have finished. How a
host is reached is the engine's business. When a promise breaks because the host's process died (`Lost`), the engine
brings the host back from its transcript and everybody says again how far they have come: what was on its way is sent
again, and nothing is computed or paid twice.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from threadpoolctl import threadpool_limits

from colonnade.errors import ColonnadeError, PeerFailed
from colonnade.privacy.events import Ending, Plan
from colonnade.privacy.ledger import Terms, When
from colonnade.privacy.store import Log
from colonnade.runtime.hosted_node import Engine, Head, HostedNode, Joined, Outcome, Standing, Turn, check_finished
from colonnade.runtime.node import LOST, Listener, NodeSetup, old_copy
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

    def remember(self, when: When, heads: Mapping[NodeId, Head]) -> Promise[None]: ...

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

    def remember(self, when: When, heads: Mapping[NodeId, Head]) -> Promise[None]:
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
        # One after another: behind the first that refuses nobody reserves.
        for node in self.nodes.values():
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


GLANCE = 1.0  # seconds between two looks at who is at work
LOAD = 48 << 20  # bytes of letters that one turn brings
MOST = 4096  # letters that one turn brings: each takes room beside its bytes


def check_records(joined: Mapping[NodeId, Joined]) -> None:
    """Nobody may have received more than its sender remembers: an old copy would draw its noise anew."""
    for name, host in joined.items():
        heard = {(sender, name): count for sender, count in host.received.items()}
        for (sender, receiver), count in [*heard.items(), *host.heard.items()]:
            known = joined[sender].sent.get(receiver, 0) if sender in joined else count
            if count > known:
                raise old_copy(sender, receiver, count, known)


class Sparing(Protocol):
    """Who decides that a run goes on without a host, and remembers it."""

    @property
    def lost(self) -> Collection[NodeId]: ...

    def give_up(self, error: ColonnadeError) -> bool:
        """Whether the run goes on without whoever caused this error; it is then among the lost, for good."""
        ...

    def look(self, busy: Collection[NodeId]) -> None:
        """Nothing has come for a while, and these are at work."""
        ...


class Nobody:
    """No host is spared: an error is an error."""

    lost: Collection[NodeId] = ()

    def give_up(self, error: ColonnadeError) -> bool:  # noqa: ARG002
        return False

    def look(self, busy: Collection[NodeId]) -> None:
        """Nothing to say."""


def _missed(sender: NodeId, joined: Mapping[NodeId, Joined]) -> dict[NodeId, int]:
    """From which place on a host must send again, by receiver: to those who are lost nothing."""
    return {r: joined[r].received.get(sender, 0) if r in joined else n for r, n in joined[sender].sent.items()}


def _last_words(name: NodeId, peer: NodeId, place: int, held: Iterable[Letter]) -> list[Letter]:
    """What is here of a lost host's letters to another, from a place on, and behind it that it is lost."""
    words: list[Letter] = []
    for letter in held:
        if (letter.sender, letter.receiver, letter.sequence) == (name, peer, place + len(words)):
            words.append(letter)
    return [*words, Letter(name, peer, place + len(words), 0, LOST)]


class Turns:
    """One drive of all hosts to their end."""

    def __init__(self, hosts: Mapping[NodeId, Host], listener: Listener, sparing: Sparing | None = None) -> None:
        self.hosts = hosts
        self.listener = listener
        self.sparing = sparing or Nobody()
        self.mail: dict[NodeId, list[Letter]] = {}
        self.busy: dict[NodeId, Promise[Turn]] = {}
        self.over: SimpleQueue[tuple[NodeId, Promise[Turn]]] = SimpleQueue()  # turns that have ended, as they end
        self.done: dict[NodeId, Turn] = {}  # the last turn of each host
        self.noted: Counter[NodeId] = Counter()
        self.failure: ColonnadeError | None = None

    def run(self) -> Outcome:
        # As in one process: results must not depend on threads of linear algebra.
        with threadpool_limits(limits=1):
            return self._run()

    def _run(self) -> Outcome:
        self.meet()
        while True:
            self.drive()
            try:
                found = gather_answers({name: self.hosts[name].outcome() for name in self.names})
                break
            except Lost:
                # After its last turn: it joins, and finds in its transcript that it has finished.
                self.meet()
            except ColonnadeError as error:
                if not self.sparing.give_up(error):
                    raise
        traffic = Traffic()
        results = dict[NodeId, Any].fromkeys(self.sparing.lost)
        for name, (result, sent) in found.items():
            results[name] = result
            traffic.add(sent)
        return Outcome(results, traffic)

    @property
    def names(self) -> tuple[NodeId, ...]:
        """Who takes part, without those who are lost."""
        return tuple(name for name in self.hosts if name not in self.sparing.lost)

    def drive(self) -> None:
        """Turns, until nobody has mail."""
        while self.busy:
            try:
                name, turn = self.over.get(timeout=GLANCE)
            except Empty:
                self.sparing.look(self.busy.keys())
                continue
            if self.busy.get(name) is not turn:  # of a turn before everybody met again
                continue
            del self.busy[name]
            try:
                self.take(name, turn.result())
            except Lost:
                self.meet()
            except ColonnadeError as error:
                if not self.sparing.give_up(error):
                    raise
                self.meet()
        if self.failure is not None:
            raise self.failure
        left = {name: turn for name, turn in self.done.items() if name in self.names}
        check_finished({name: turn.wait for name, turn in left.items() if not turn.finished})

    def meet(self) -> None:
        """Let everybody say how far it has come, bring what is missing, and give each a turn."""
        # Of those who are lost, who cannot send them again.
        held: list[Letter] = []
        while True:
            # Whoever is at work finishes: its letters are in its transcript.
            ended: dict[NodeId, Turn] = {}
            for name, promise in self.busy.items():
                with contextlib.suppress(Exception):
                    ended[name] = promise.result()
            held += [letter for waiting in self.mail.values() for letter in waiting]
            held += [letter for turn in ended.values() for letter in turn.letters]
            self.busy = {}
            self.mail = defaultdict(list)
            for name, turn in ended.items():
                self.hear(name, turn)
            try:
                joined = gather_answers({name: self.hosts[name].join() for name in self.names})
                check_records(joined)
                received = {s: _missed(s, joined) for s in self.names}
                again = gather_answers({name: self.hosts[name].resend(received[name]) for name in self.names})
                break
            except Lost:
                continue
            except ColonnadeError as error:
                # Whoever failed has ended the run, and does not join it again.
                if self.sparing.give_up(error):
                    continue
                if self.failure is None:
                    raise
                raise self.failure from error
        for letters in again.values():
            self.post(letters)
        for name in self.sparing.lost:
            for peer in self.names:
                if name in joined[peer].received:
                    self.post(_last_words(name, peer, joined[peer].received[name], held))
        for name in self.names:
            self.give(name)

    def take(self, name: NodeId, turn: Turn) -> None:
        self.done[name] = turn
        self.hear(name, turn)
        self.post(turn.letters)
        if turn.more:
            self.give(name)
        for other in dict.fromkeys([name, *(letter.receiver for letter in turn.letters)]):
            if other in self.names and other not in self.busy and self.due(other):
                self.give(other)

    def hear(self, name: NodeId, turn: Turn) -> None:
        """What a turn tells once: no transcript holds it, and only a host that was started again would repeat it."""
        for place, note in enumerate(turn.notes, turn.told):
            if place >= self.noted[name]:
                self.noted[name] = place + 1
                self.listener(name, note)
        # Of somebody else's failure many hear: the first who says so is nearest to it.
        rumour = isinstance(turn.failure, PeerFailed)
        if turn.failure is not None and (self.failure is None or (isinstance(self.failure, PeerFailed) and not rumour)):
            self.failure = turn.failure

    def due(self, name: NodeId) -> bool:
        """Whether a host has mail with which it can go on: fewer turns, and the same steps."""
        mail = self.mail[name]
        missing = self.done[name].missing
        return len(mail) >= max(1, len(missing)) and missing <= {letter.sender for letter in mail}

    def post(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            if letter.receiver not in self.sparing.lost and not (
                letter.receiver in self.done and self.done[letter.receiver].finished
            ):
                self.mail[letter.receiver].append(letter)

    def give(self, name: NodeId) -> None:
        letters: list[Letter] = []
        size = 0
        waiting = self.mail[name]
        for letter in waiting[:MOST]:
            if letters and size + len(letter.body) > LOAD:
                break
            size += len(letter.body)
            letters.append(letter)
        del waiting[: len(letters)]
        self.busy[name] = turn = self.hosts[name].turn(letters)
        turn.add_done_callback(lambda ended: self.over.put((name, ended)))
