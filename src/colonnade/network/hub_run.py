"""One run at the hub: the coordinator's program here, if the method has one, and every party at the end of a line.

The hub proposes a run; each party prices it and approves it; when all have said that they would take part, each
reserves; then letters go round in turns (runtime/turns.py). A party that was restarted gets the same proposal again,
finds its run in its own books, and goes on from its transcript.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from colonnade.errors import PeerFailed, ProtocolError, WireError
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import Call
from colonnade.network.answers import (
    introductions,
    read_count,
    read_joined,
    read_notes,
    read_outcome,
    read_promise,
    read_standing,
)
from colonnade.network.bounds import RUNS
from colonnade.network.parcel import Parcel, letters_in, letters_out
from colonnade.network.questions import Question
from colonnade.network.refusals import PeerBroken, PeerRefused, refusal, told_to_others
from colonnade.network.run_log import RunLog
from colonnade.runtime.hosted_node import Head, HostedNode, Turn
from colonnade.runtime.inprocess import Outcome
from colonnade.runtime.messages import Direct, FailureCode
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import COORDINATOR, NodeId
from colonnade.runtime.turns import Answered, Computed, Lost, NodeLogs, Promise, Turns, gather_answers, wait_for_all
from colonnade.runtime.wire import HEADER_SIZE, Letter, encode

if TYPE_CHECKING:
    from colonnade.network.hub import Grpc

FAREWELL = 5.0  # seconds to wait for an answer when a run has failed
LOSSES = 1000  # how often a party may begin anew in one run
_NOTE = encode(Direct(b""), guarded=False)[:HEADER_SIZE]  # how a note begins that a letter went over a line

log = logging.getLogger("colonnade.network.hub")


class HubRun:
    """The hosts of one run, as fit.py asks them."""

    def __init__(
        self, hub: Grpc, run: str, setups: Mapping[NodeId, NodeSetup], books: NodeLogs, listener: Listener, call: Call
    ) -> None:
        self.hub, self.run, self.listener, self.call = hub, run, listener, call
        self.names = list(setups)
        self.parties = {name: RemoteParty(self, name) for name in setups if name != COORDINATOR}
        here = COORDINATOR in setups
        self.local = HostedNode(setups[COORDINATOR], run, books.log(COORDINATOR)) if here else None
        self.code = ""  # of the method, as this hub has it
        self.said: dict[NodeId, Parcel] = {}  # what each party answered when the run was proposed
        self.process: dict[NodeId, str | None] = {}  # which process of a party that was
        # Whether any party was asked to reserve; in an earlier life of this hub, all were before the coordinator did.
        self.reserving = self.local is not None and bool(self.local.log.rows(run, "open"))
        self.run_log = RunLog(run, alone=not here)
        self.patience: float | None = None  # with an answer; None: as the hub has
        self.losses: Counter[NodeId] = Counter()
        self.carried: Counter[bool] = Counter()  # letters between parties, by whether they had a line of their own

    def ask(self, what: Callable[..., Any], to: Mapping[NodeId, tuple[Any, ...]]) -> dict[NodeId, Any]:
        """What fit.py asks of all hosts; the parties find terms, plans and keys in their own books."""
        if what == HostedNode.reserve:
            terms = next(iter(to.values()))[0]
            self.code = terms.fingerprint
            self.run_log.proposed(terms.method, len(self.parties))
            self.introduce(list(self.parties))
        if what == HostedNode.close:
            self.run_log.over(*next(iter(to.values())))
            if ("finished",) not in to.values():  # whoever made the run fail may not answer at all
                self.patience = min(self.hub.patience, FAREWELL)
        unknown = what == HostedNode.remember and not self.reserving  # parties keep nothing of what they never began
        if what == HostedNode.reserve or unknown:
            to = {name: arguments for name, arguments in to.items() if name == COORDINATOR}
        while True:
            try:
                return gather_answers({name: self.promise(name, what, *arguments) for name, arguments in to.items()})
            except Lost:  # asked again, a party's books answer the same
                continue

    def promise(self, name: NodeId, what: Callable[..., Any], *arguments: Any) -> Promise:
        if name == COORDINATOR:
            return Answered(lambda: what(self.local, *arguments))
        return self.parties[name].methods[what](*arguments)

    def drive(self) -> Outcome:
        self.run_log.reserved()
        found = Turns(self.names, self.promise, self.listener).run()
        self.run_log.traffic = found.traffic
        if self.carried:
            told = {"direct": self.carried[True], "relayed": self.carried[False]}
            log.info("letters between parties", extra={"run": self.run, **told})
        return found

    def close(self) -> None:
        """The line stays open for the next run."""
        self.run_log.left()

    # ------------------------------------------------------------------------ proposing

    def introduce(self, names: Sequence[NodeId]) -> None:
        """Propose the run; when all would take part, let them reserve; and tell each of them what all others said."""
        proposal = {"run": self.run, "call": self.call.to_json(), "code": self.code, "session": self.hub.session}
        while True:
            self.process |= {name: self.hub.process(name) for name in names}
            try:
                _check_willing({name: self.propose(name, Question.CONSIDER, proposal) for name in names})
                for name in names:
                    if not self.hub.listens(name, self.process[name]):
                        raise Lost(name)  # whoever begins anew has forgotten its operator's yes, and may now hear a no
                self.reserving = True
                answers = gather_answers({name: self.propose(name, Question.RESERVE, proposal) for name in names})
                self.said |= {name: read_promise(name, answer) for name, answer in answers.items()}
                gather_answers({name: self.let_meet(name) for name in names})
                return
            except Lost as lost:
                self.count(lost)

    def let_meet(self, name: NodeId) -> Promise:
        others = [peer for peer in self.parties if peer != name]
        blobs = introductions([self.said[peer] for peer in others])
        return self.hub.ask(name, Question.MEET, {"run": self.run, "peers": others}, blobs)

    def propose(self, name: NodeId, question: Question, proposal: Mapping[str, Any]) -> Promise:
        """Ask one party; what helps where it refuses scores is other than where it refuses a fit."""
        asked = self.hub.ask(name, question, proposal)

        def read(answer: Promise) -> Any:
            try:
                return answer.result()
            except PeerRefused as error:
                raise refusal(name, question, int(FailureCode.REFUSED) + 1, scores=True) from error

        return Computed(asked, read) if isinstance(self.call.method, MaskedScores) else asked

    def count(self, lost: Lost) -> None:
        """A party begins anew: as often as machines fail, and not for ever."""
        name = str(lost)
        self.process.pop(name, None)  # whatever it was told, it has forgotten
        self.losses[name] += 1
        if self.losses[name] > LOSSES:
            raise PeerBroken(f"{name!r} began anew {LOSSES:,} times in this run; its own log says why.") from lost


class RemoteParty:
    """One party of a run as the hub reaches it: the methods of a HostedNode, each a promise of what it would return."""

    def __init__(self, run: HubRun, name: NodeId) -> None:
        self.run, self.name = run, name
        self.places: Counter[NodeId] = Counter()  # by receiver, where the next letter stands at least
        self.methods: Mapping[Callable[..., Any], Callable[..., Promise]] = {
            HostedNode.verify: partial(self._ask, Question.VERIFY),
            HostedNode.standing: partial(self._ask, Question.STANDING),
            HostedNode.vouch: self.vouch,
            HostedNode.remember: self.remember,
            HostedNode.close: self.close,
            HostedNode.settle: self.settle,
            HostedNode.join: self.join,
            HostedNode.resend: self.resend,
            HostedNode.turn: self.turn,
            HostedNode.outcome: partial(self._ask, Question.OUTCOME),
        }
        self.readers: dict[Question, Callable[[Parcel], Any]] = {
            Question.STANDING: lambda found: read_standing(found.head, run.parties),
            Question.JOIN: lambda found: read_joined(name, found.head),
            Question.RESEND: lambda found: tuple(self.letters(found)),
            Question.TURN: self.read_turn,
            Question.OUTCOME: lambda found: read_outcome(name, found.head),
        }

    def vouch(self, heads: Mapping[NodeId, Head]) -> Promise:
        return self._ask(Question.VOUCH, {"heads": _plain_heads(heads)})

    def remember(self, when: str, heads: Mapping[NodeId, Head]) -> Promise:
        return self._ask(Question.REMEMBER, {"when": when, "heads": _plain_heads(heads)})

    def close(self, how: str) -> Promise:
        return self._ask(Question.OVER, {"how": told_to_others(how)})

    def settle(self, over: Mapping[str, str]) -> Promise:
        last = list(over.items())[-RUNS:]  # of older ones nobody is still waiting to hear
        return self._ask(Question.SETTLE, {"over": {run: told_to_others(how) for run, how in last}})

    def join(self) -> Promise:
        if self._is_another_process():
            self.run.introduce([self.name])  # it must hear of the run again
        return self._ask(Question.JOIN)

    def resend(self, since: Mapping[NodeId, int]) -> Promise:
        return self._ask(Question.RESEND, {"since": dict(since)})

    def turn(self, letters: Sequence[Letter]) -> Promise:
        if self._is_another_process():  # with its process died the letters that it held and had not read
            return self._then(Question.TURN, Answered(lambda: _lose(self.name)))
        self.run.run_log.carried(letters)
        addresses, frames = letters_out(letters, self.run.run)
        return self._ask(Question.TURN, {"letters": addresses}, frames)

    def _is_another_process(self) -> bool:
        return self.run.process.get(self.name) != self.run.hub.process(self.name)

    def _ask(self, question: Question, head: Mapping[str, Any] | None = None, blobs: Sequence[bytes] = ()) -> Promise:
        head = {"run": self.run.run, **(head or {})}
        return self._then(question, self.run.hub.ask(self.name, question, head, blobs, self.run.patience))

    def _then(self, question: Question, asked: Promise) -> Promise:
        def read(found: Promise) -> Any:
            try:
                return self.read(question, found.result())
            except Lost as lost:
                self.run.count(lost)
                raise

        return Computed(asked, read)

    # ------------------------------------------------------------------------ its answers

    def read(self, question: Question, found: Parcel) -> Any:
        """An answer as the value that a HostedNode would have returned."""
        reader = self.readers.get(question)
        if reader is None:
            return None
        if question is Question.JOIN:
            self.places.clear()
        try:
            return reader(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WireError(f"the answer of {self.name!r} to {question} is not one: {type(error).__name__}") from error

    def read_turn(self, found: Parcel) -> Turn:
        head, sent = found.head, tuple(self.letters(found))
        finished, more = head["finished"], head["more"]
        if type(finished) is not bool or type(more) is not bool or (more and not sent):
            raise ValueError("whoever has more to send sends something")
        wait = tuple(peer for peer in head["wait"] if peer in self.run.names)
        failed = refusal(self.name, Question.TURN, head["failure"]) if head["failure"] else None
        return Turn(sent, finished, wait, read_notes(head["notes"]), read_count(head["told"]), failed, more)

    def letters(self, found: Parcel) -> list[Letter]:
        """What a party sends: in its own name, to somebody here, and nothing twice."""
        run, name = self.run, self.name
        letters = letters_in(found.head["letters"], found.blobs, run.run)
        for letter in letters:
            if letter.sender != name or letter.receiver not in run.names:
                raise ProtocolError(f"{name!r} sent a letter as {letter.sender!r} for {letter.receiver!r}; refused")
            if letter.sequence < self.places[letter.receiver]:
                raise ProtocolError(f"{name!r} sends the same letter to {letter.receiver!r} over and over; refused")
            self.places[letter.receiver] = letter.sequence + 1
            if letter.receiver != COORDINATOR:
                direct = letter.body.startswith(_NOTE)
                run.carried[direct] += 1
                run.hub.metrics.letter(direct=direct)
        if run.local is not None:  # before anything of them is read here, or carried on
            run.local.receipts.note(letters)
        return letters


def _lose(party: str) -> NoReturn:
    raise Lost(party)


def _plain_heads(heads: Mapping[str, Head]) -> dict[str, list[Any]]:
    return {peer: [count, head.hex()] for peer, (count, head) in heads.items()}


def _check_willing(answers: Mapping[NodeId, Promise]) -> None:
    """All would take part; or the error of one that would not, before the loss of another: an operator says no once."""
    wait_for_all(answers.values())
    lost: list[Lost] = []
    refused: dict[NodeId, PeerFailed] = {}
    for name, answer in answers.items():
        try:
            answer.result()
        except Lost as error:
            lost.append(error)
        except PeerFailed as error:
            refused[name] = error
    if refused:
        first, *others = refused
        more = f" Nor do these take part: {', '.join(map(repr, others))}." if others else ""
        raise type(refused[first])(f"{refused[first]}{more}") from refused[first]
    if lost:
        raise lost[0]
