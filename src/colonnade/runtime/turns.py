"""Driving hosts that are somewhere else: whoever has mail gets a turn, many at once, until all have finished.

How a host is reached is the engine's business: it gives a `Host`, which promises its answers (host.py). When a promise
breaks because the host's process died (`Lost`), the engine brings the host back from its transcript and everybody says
again how far they have come: what was on its way is sent again, and nothing is computed or paid twice.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from colonnade.errors import ColonnadeError, PeerFailed
from colonnade.runtime.host import Host, Lost, Promise, gather_answers
from colonnade.runtime.hosted_node import Joined, Outcome, Turn, check_finished
from colonnade.runtime.node import LOST, Listener, old_copy
from colonnade.runtime.program import NodeId
from colonnade.runtime.wire import Letter, Traffic

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
        with threadpool_limits(limits=1):  # as in one process: results must not depend on threads of linear algebra
            return self._run()

    def _run(self) -> Outcome:
        self.meet()
        while True:
            self.drive()
            try:
                found = gather_answers({name: self.hosts[name].outcome() for name in self.names})
                break
            except Lost:  # after its last turn: it joins, and finds in its transcript that it has finished
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
        held: list[Letter] = []  # of those who are lost, who cannot send them again
        while True:
            ended: dict[NodeId, Turn] = {}  # whoever is at work finishes: its letters are in its transcript
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
