"""Driving hosts that are somewhere else: whoever has mail gets a turn, many at once, until all have finished.

How a host is reached is the engine's business: it gives a function that asks a host and promises its answer. When
the promise breaks because the host's process died (`Lost`), the engine brings the host back from its transcript and
everybody says again how far they have come: what was on its way is sent again, and nothing is computed or paid twice.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, TypeVarTuple, runtime_checkable

from colonnade.errors import ColonnadeError, PeerFailed
from colonnade.privacy.store import Log
from colonnade.runtime.hosted_node import HostedNode, Joined, Outcome, Turn, check_finished
from colonnade.runtime.node import LOST, Listener, NodeSetup, old_copy
from colonnade.runtime.program import NodeId
from colonnade.runtime.wire import Letter, Traffic

GLANCE = 1.0  # seconds between two looks at who is at work
LOAD = 48 << 20  # bytes of letters that one turn brings
MOST = 4096  # letters that one turn brings: the addresses of more would not fit into a parcel's head
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Lost(Exception):
    """The host's process died and is there again, or the line to it was cut: it must join anew."""


class HostedNodes(Protocol):
    """The hosts of one run, wherever they are."""

    def ask(self, what: Callable[[HostedNode, *Ts], T], to: Mapping[NodeId, tuple[*Ts]]) -> dict[NodeId, T]:
        """What a method of each host named returns for its arguments; the first error after all have answered."""
        ...

    def drive(self) -> Outcome: ...

    def close(self) -> None:
        """The run is over, or stops here for now."""
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


class Promise(Protocol):
    """An answer that will come: a Future, or what is made of one."""

    def result(self) -> Any:
        """The answer, or its error; waits for it."""
        ...

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        """Let somebody know when it is there."""
        ...


Ask = Callable[..., Promise]  # (host, a method of HostedNode, *arguments)


class Computed:
    """What becomes of an answer once it is there: made once, by the thread that asks for it first.

    Not a Future: every message of every round makes a promise, and a Future costs as much as reading the message.
    """

    __slots__ = ("_compute", "_error", "_promised", "_value")

    def __init__(self, promised: Promise, compute: Callable[[Promise], Any]) -> None:
        self._promised: Promise | None = promised
        self._compute = compute
        self._value: Any = None
        self._error: BaseException | None = None

    def result(self) -> Any:
        promised, self._promised = self._promised, None  # what it was made of is not kept: answers are large
        if promised is not None:
            try:
                self._value = self._compute(promised)
            except BaseException as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self._value

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        if self._promised is None:
            tell(self)
        else:
            self._promised.add_done_callback(lambda _: tell(self))


class Answered:
    """A promise that is kept at once."""

    __slots__ = ("_answer",)

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._answer = Computed(self, lambda _: compute())
        with contextlib.suppress(BaseException):
            self._answer.result()

    def result(self) -> Any:
        return self._answer.result()

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        tell(self)


def wait_for_all(promised: Iterable[Promise]) -> None:
    """Wait until nobody is at work any more, whatever came of it."""
    for promise in promised:
        with contextlib.suppress(Exception):
            promise.result()


def gather_answers(promised: Mapping[NodeId, Promise]) -> dict[NodeId, Any]:
    """All answers, or the first error once nobody is at work any more."""
    wait_for_all(promised.values())
    return {name: promise.result() for name, promise in promised.items()}


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

    def __init__(self, names: Sequence[NodeId], ask: Ask, listener: Listener, sparing: Sparing | None = None) -> None:
        self._names = tuple(names)
        self.ask = ask
        self.listener = listener
        self.sparing = sparing or Nobody()
        self.mail: dict[NodeId, list[Letter]] = {}
        self.busy: dict[NodeId, Promise] = {}
        self.over: SimpleQueue[tuple[NodeId, Promise]] = SimpleQueue()  # turns that have ended, as they end
        self.done: dict[NodeId, Turn] = {}  # the last turn of each host
        self.noted: Counter[NodeId] = Counter()
        self.failure: ColonnadeError | None = None

    def run(self) -> Outcome:
        self.meet()
        while True:
            self.drive()
            try:
                found = gather_answers({name: self.ask(name, HostedNode.outcome) for name in self.names})
                break
            except Lost:  # after its last turn: it joins, and finds in its transcript that it has finished
                self.meet()
            except ColonnadeError as error:
                if not self.sparing.give_up(error):
                    raise
        traffic, results = Traffic(), dict[NodeId, Any].fromkeys(self.sparing.lost)
        for name, (result, sent) in found.items():
            results[name] = result
            traffic.add(sent)
        return Outcome(results, traffic)

    @property
    def names(self) -> tuple[NodeId, ...]:
        """Who takes part, without those who are lost."""
        return tuple(name for name in self._names if name not in self.sparing.lost)

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
        held: list[Letter] = []  # of those who are lost, who cannot send them again
        while True:
            ended: dict[NodeId, Turn] = {}  # whoever is at work finishes: its letters are in its transcript
            for name, promise in self.busy.items():
                with contextlib.suppress(Exception):
                    ended[name] = promise.result()
            held += [letter for waiting in self.mail.values() for letter in waiting]
            held += [letter for turn in ended.values() for letter in turn.letters]
            self.busy, self.mail = {}, defaultdict(list)
            for name, turn in ended.items():
                self.hear(name, turn)
            try:
                joined = gather_answers({name: self.ask(name, HostedNode.join) for name in self.names})
                check_records(joined)
                received = {s: _missed(s, joined) for s in self.names}
                again = gather_answers({name: self.ask(name, HostedNode.resend, received[name]) for name in self.names})
                break
            except Lost:
                continue
            except ColonnadeError as error:  # whoever failed has ended the run, and does not join it again
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
        mail, missing = self.mail[name], self.done[name].missing
        return len(mail) >= max(1, len(missing)) and missing <= {letter.sender for letter in mail}

    def post(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            if letter.receiver not in self.sparing.lost and not (
                letter.receiver in self.done and self.done[letter.receiver].finished
            ):
                self.mail[letter.receiver].append(letter)

    def give(self, name: NodeId) -> None:
        letters: list[Letter] = []
        size, waiting = 0, self.mail[name]
        for letter in waiting[:MOST]:
            if letters and size + len(letter.body) > LOAD:
                break
            size += len(letter.body)
            letters.append(letter)
        del waiting[: len(letters)]
        self.busy[name] = turn = self.ask(name, HostedNode.turn, letters)
        turn.add_done_callback(lambda ended: self.over.put((name, ended)))
