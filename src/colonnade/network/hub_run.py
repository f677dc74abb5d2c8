"""One run at the hub: the coordinator's program here, if the method has one, and every party at the end of a line.

The hub proposes a run; when all parties would take part, each reserves; then letters go round in turns
(runtime/host.py). A party that was restarted gets the same proposal again, and goes on from its transcript.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed, ProtocolError, WireError
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import Call
from colonnade.model.job import Answer, Status
from colonnade.network.party_run import UNPINNED, told_of
from colonnade.network.questions import (
    RUNS,
    Counted,
    Joining,
    Promised,
    Question,
    Said,
    Sent,
    Stood,
    Turned,
    letters_in,
    letters_out,
    plain_heads,
)
from colonnade.network.refusals import PeerBroken, PeerRefused, PeerSilent, PeerUndecided, for_others, refusal
from colonnade.network.replaced_ledger import is_replaced
from colonnade.privacy.events import FINISHED, Ending, How, Plan
from colonnade.privacy.ledger import ADMIN, Replaced, Terms, When
from colonnade.runtime.host import (
    Answered,
    Computed,
    Host,
    Lost,
    NodeLogs,
    Promise,
    Turns,
    ask_hosts,
    gather_answers,
    host_here,
    wait_for_all,
)
from colonnade.runtime.hosted_node import Head, HostedNode, Joined, Outcome, Standing, Turn
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import COORDINATOR, Direct, FailureCode, NodeId
from colonnade.runtime.wire import HEADER_SIZE, Communication, Letter, Traffic, TrafficRow, encode

if TYPE_CHECKING:
    from colonnade.network.hub import Grpc

FAREWELL = 5.0  # seconds to wait for an answer when a run has failed
PAUSE = 10.0  # seconds at least between two lines of the log about how far a run has come
LOSSES = 1000  # how often a party may begin anew in one run
_NOTE = encode(Direct(b""), guarded=False)[:HEADER_SIZE]  # how a note begins that a letter went over a line
T = TypeVar("T")

log = logging.getLogger("colonnade.network.hub")


class HubRun:
    """The hosts of one run: the coordinator's here, and the parties, each at the end of its line."""

    def __init__(
        self, hub: Grpc, run: str, setups: Mapping[NodeId, NodeSetup], logs: NodeLogs, listener: Listener, call: Call
    ) -> None:
        self.hub = hub
        self.run = run
        self.listener = listener
        self.call = call
        self.names = list(setups)
        self.parties = {name: RemoteParty(self, name) for name in setups if name != COORDINATOR}
        here = COORDINATOR in setups
        self.local = self.host(setups[COORDINATOR], logs) if here else None
        self.all_hosts: dict[NodeId, Host] = dict(self.parties)
        if self.local is not None:
            self.all_hosts = {COORDINATOR: host_here(self.local), **self.all_hosts}
        self.code = ""  # of the method, as this hub has it
        # What each party answered when the run was proposed.
        self.said: dict[NodeId, Promised] = {}
        self.process: dict[NodeId, str | None] = {}  # which process of a party that was
        # Whether any party was asked to reserve; in an earlier life of this hub, all were before the coordinator did.
        self.reserving = self.local is not None and bool(self.local.log.rows(run, "open"))
        self.run_log = RunLog(run, alone=not here)
        self.patience: float | None = hub.deadline  # with an answer; None: as the hub has
        self.sparing = LostParties(self, setups[COORDINATOR].quorum if here else 0)
        self.losses: Counter[NodeId] = Counter()
        # Letters between parties, by whether they had a line of their own.
        self.carried: Counter[bool] = Counter()

    def host(self, setup: NodeSetup, logs: NodeLogs) -> HostedNode:
        """The coordinator's own node; where parties seal to it, under the signing key that their files pin."""
        if setup.sealing and COORDINATOR not in self.hub.keys:
            raise InvalidInput(UNPINNED)
        identity = self.hub.identity() if setup.sealing else None
        told = told_of(self.run, self.call)
        return HostedNode(setup, self.run, logs.log(COORDINATOR), identity=identity, told=told)

    @property
    def hosts(self) -> Mapping[NodeId, Host]:
        return {name: host for name, host in self.all_hosts.items() if name not in self.sparing.lost}

    def reserve(self, terms: Terms, plans: Mapping[str, Plan], _: Mapping[NodeId, bytes]) -> None:
        """Parties find terms and plans in their own stores; keys are as the federation file pins them, not as anybody
        says."""
        self.code = terms.protocol
        self.run_log.proposed(terms.method, len(self.parties))
        self.introduce([name for name in self.parties if name not in self.sparing.lost])
        if self.local is not None:
            self.local.reserve(terms, plans, self.hub.keys)

    def announce_release_digest(self, basis: str) -> None:
        """Tell every party what fallbacks of the model follow from; who does not hear of it will approve none."""
        told = {"run": self.run, "basis": basis}
        for name in self.parties:
            for left in (2, 1, 0):  # a party may begin anew
                try:
                    self.hub.ask(name, Question.LEARNED, told, (), FAREWELL).result()
                    break
                except Lost:
                    if not left:
                        log.warning("not told of the basis", extra={"run": self.run, "party": name})
                except ColonnadeError as error:
                    # The result is there: nothing of it depends on this.
                    log.warning("not told of the basis", extra={"party": name, "error": type(error).__name__})
                    break

    def drive(self) -> Outcome:
        self.run_log.reserved()
        found = Turns(self.all_hosts, self.listener, self.sparing).run()
        self.run_log.traffic = found.traffic
        if self.carried:
            told = {"direct": self.carried[True], "relayed": self.carried[False]}
            log.info("letters between parties", extra={"run": self.run, **told})
        return found

    def close(self, ending: Ending) -> None:
        self.run_log.over(ending)
        # Whoever made the run fail may not answer at all.
        if ending != FINISHED:
            self.patience = min(self.hub.patience, FAREWELL)
        self.sparing.tell_over(ending)
        ask_hosts(self.hosts, lambda _, host: host.close(ending))

    def leave(self) -> None:
        """The line stays open for the next run."""
        self.run_log.left()

    def introduce(self, names: Sequence[NodeId]) -> None:
        """Propose the run; when all would take part, let them reserve; and tell each of them what all others said."""
        proposal = {"run": self.run, "call": self.call.to_json(), "code": self.code, "session": self.hub.session}
        began = time.monotonic()
        while True:
            self.process |= {name: self.hub.process(name) for name in names}
            try:
                # Two runs must not both be told that there is room, and one of them refused.
                with self.hub.alone():
                    self.let_reserve(names, proposal)
                return
            except Lost as lost:
                self.count(lost)
            except PeerUndecided as undecided:
                self.hub.await_decision(undecided, began)

    def let_reserve(self, names: Sequence[NodeId], proposal: Mapping[str, Any]) -> None:
        """Ask whether they would take part; then let them reserve, and meet."""
        _check_willing({name: self.propose(name, Question.CONSIDER, proposal) for name in names})
        for name in names:
            if not self.hub.listens(name, self.process[name]):
                # Whoever begins anew has forgotten its operator's yes, and may now hear a no.
                raise Lost(name)
        self.reserving = True
        answers = gather_answers({name: self.propose(name, Question.RESERVE, proposal) for name in names})
        self.said |= {name: check_promise(name, answer) for name, answer in answers.items()}
        gather_answers({name: self.let_meet(name) for name in names})

    def let_meet(self, name: NodeId) -> Promise[Said]:
        others = [peer for peer in self.parties if peer != name and peer not in self.sparing.lost]
        blobs = introductions([self.said[peer] for peer in others])
        return self.hub.ask(name, Question.MEET, {"run": self.run, "peers": others}, blobs)

    def propose(self, name: NodeId, question: Question, proposal: Mapping[str, Any]) -> Promise[Any]:
        """Ask one party; what helps where it refuses scores is other than where it refuses a fit."""
        asked = self.hub.ask(name, question, proposal)

        def read(answer: Promise[Any]) -> Any:
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


class LostParties:
    """Who is lost to a run: silent past the deadline, where all policies let the rest go on.

    The coordinator's log keeps it: whoever was given up stays out, whatever becomes of the hub's process.
    """

    def __init__(self, run: HubRun, quorum: int) -> None:
        self.run = run
        self.quorum = quorum
        # By party: when it was given its last turn.
        self.asked: dict[NodeId, float] = {}
        self._told: set[tuple[NodeId, float]] = set()
        here = run.local
        self.lost: list[NodeId] = [] if here is None else [row.key for row in here.log.rows(run.run, "lost")]
        absent = [name for name in run.hub.absent if name not in self.lost]
        if absent and not (run.reserving and self._spares(len(absent)) and run.hub.label not in absent):
            raise run.hub.absent[absent[0]]
        for party in absent:
            self._lose(party)

    def give_up(self, error: ColonnadeError) -> bool:
        return isinstance(error, PeerSilent) and error.party not in self.lost and self._lose(error.party)

    def _spares(self, more: int) -> bool:
        """Whether enough are left without so many more."""
        return self.quorum > 0 and len(self.run.parties) - len(self.lost) - more >= self.quorum

    def _lose(self, party: NodeId) -> bool:
        run = self.run
        left = len(self.run.parties) - len(self.lost) - 1
        if party == run.hub.label or not self._spares(1) or run.local is None:
            return False
        with run.local.log.atomic():
            run.local.log.append(run.run, ADMIN, "lost", party, b"")
        self.lost.append(party)
        log.warning("lost", extra={"run": run.run, "party": party, "left": left, "quorum": self.quorum})
        return True

    def look(self, busy: Collection[NodeId]) -> None:
        """Say once of a party that it is late, when half of its time is over."""
        deadline = self.run.hub.patience if self.run.patience is None else self.run.patience
        for party in busy:
            since = self.asked.get(party)
            if since is None or (party, since) in self._told or time.monotonic() - since < deadline / 2:
                continue
            self._told.add((party, since))
            spared = party != self.run.hub.label and self._spares(1)
            then = "the run goes on without it" if spared else "the run stops"
            waited = f"{time.monotonic() - since:.0f} s"
            log.warning(
                f"party {party!r} has not answered for {waited}; at {deadline:g} s {then}", extra={"run": self.run.run}
            )

    def tell_over(self, ending: Ending) -> None:
        """Let whoever is lost hear that the run is over, if it is there; else it hears so before the next run."""
        told = Ending(How.LEFT_BEHIND) if ending.finished else for_others(ending)
        for party in self.lost:
            head = {"run": self.run.run, "how": told.code}
            with contextlib.suppress(ColonnadeError, Lost):
                self.run.hub.ask(party, Question.OVER, head, (), FAREWELL).result()


class RemoteParty:
    """One party of a run as a Host: it is asked over its line."""

    def __init__(self, run: HubRun, name: NodeId) -> None:
        self.run = run
        self.name = name
        # By receiver, where the next letter stands at least.
        self.places: Counter[NodeId] = Counter()

    def has_begun(self) -> Promise[bool]:
        """It never returns what others reserved, so it need not be asked."""
        return Answered(lambda: False)

    def same_unit(self, _: Terms, __: Mapping[str, Plan]) -> Promise[None]:
        """It says so itself when it is asked whether it would take part."""
        return Answered(lambda: None)

    def verify(self) -> Promise[None]:
        return self._ask(Question.VERIFY, _nothing)

    def standing(self) -> Promise[Standing]:
        return self._ask(Question.STANDING, lambda found: read_standing(found, self.run.parties))

    def vouch(self, seen: Mapping[NodeId, Head]) -> Promise[None]:
        return self._ask(Question.VOUCH, _nothing, heads=plain_heads(seen))

    def settle(self, over: Mapping[str, Ending]) -> Promise[set[str]]:
        """Which runs are left open there it does not say."""
        # Of older ones nobody is still waiting to hear.
        last = list(over.items())[-RUNS:]
        told = {run: for_others(ending).code for run, ending in last}
        return self._ask(Question.SETTLE, lambda _: set[str](), over=told)

    def remember(self, when: When, heads: Mapping[NodeId, Head]) -> Promise[None]:
        # Of a run never begun parties keep nothing.
        if not self.run.reserving:
            return Answered(lambda: None)
        return self._ask(Question.REMEMBER, _nothing, when=when, heads=plain_heads(heads))

    def join(self) -> Promise[Joined]:
        if self._began_anew():
            self.run.introduce([self.name])
        return self._ask(Question.JOIN, self.read_joined)

    def resend(self, since: Mapping[NodeId, int]) -> Promise[tuple[Letter, ...]]:
        return self._ask(Question.RESEND, lambda found: tuple(self.letters(found)), since=dict(since))

    def turn(self, letters: Sequence[Letter]) -> Promise[Turn]:
        if self._began_anew():
            return Answered(self._lose)
        self.run.run_log.carried(letters)
        self.run.sparing.asked[self.name] = time.monotonic()
        return self._ask(Question.TURN, self.read_turn, letters=letters_out(letters, self.run.run))

    def outcome(self) -> Promise[tuple[Answer | None, Traffic]]:
        return self._ask(Question.OUTCOME, lambda found: read_outcome(self.name, found))

    def close(self, ending: Ending) -> Promise[None]:
        return self._ask(Question.OVER, _nothing, how=for_others(ending).code)

    # ------------------------------------------------------------------------ how it is asked

    def _ask(self, question: Question, read: Callable[[Any], T], **fields: object) -> Promise[T]:
        head = {"run": self.run.run, **fields}
        asked = self.run.hub.ask(self.name, question, head, (), self.run.patience)
        return Computed(asked, lambda found: self._read(question, read, found))

    def _read(self, question: Question, read: Callable[[Any], T], asked: Promise[Any]) -> T:
        try:
            found = asked.result()
        except Lost as lost:
            self.run.count(lost)
            raise
        try:
            return read(found)
        except (KeyError, ValueError) as error:
            why = type(error).__name__
            raise WireError(f"the answer of {self.name!r} to {question!r} is not one: {why}") from error

    def _began_anew(self) -> bool:
        """With a process died the letters that it held and had not read: it must hear of the run again, and join."""
        return self.run.process.get(self.name) != self.run.hub.process(self.name)

    def _lose(self) -> NoReturn:
        lost = Lost(self.name)
        self.run.count(lost)
        raise lost

    # ------------------------------------------------------------------------ what it answers

    def read_joined(self, found: Joining) -> Joined:
        self.places.clear()
        heard = {(peer, self.name): count for peer, count in found.heard.items()}
        return Joined(found.received, found.sent, heard)

    def read_turn(self, found: Turned) -> Turn:
        sent = tuple(self.letters(found))
        if found.more and not (sent or found.notes):
            raise ValueError("whoever has more to send sends something")
        wait = tuple(peer for peer in found.wait if peer in self.run.names)
        failed = refusal(self.name, Question.TURN, found.failure) if found.failure else None
        notes = tuple(_checked_note(note, self.name) for note in found.notes)
        return Turn(sent, found.finished, wait, notes, found.told, failed, found.more)

    def letters(self, found: Sent) -> list[Letter]:
        """What a party sends: in its own name, to somebody here, and nothing twice."""
        run = self.run
        name = self.name
        letters = letters_in(found.letters, run.run)
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
        # Before anything of them is read here, or carried on.
        if run.local is not None:
            run.local.receipts.note(letters)
        return letters


class RunLog:
    """One run, as the coordinator's log tells it: proposed, reserved, how far it has come now and then, how it ended.

    Counts, and whole seconds: what whoever runs the coordinator sees anyway. How long a step takes may depend on data,
    and no private run promises to hide it: keep the log as the coordinator's store is kept.
    """

    def __init__(self, run: str, *, alone: bool) -> None:
        # alone: the parties of a graph, without a coordinator
        self.run = run
        self.alone = alone
        self.round = 0
        self.traffic: Traffic | None = None
        self.began = self.told = time.monotonic()
        self.ended = False

    def proposed(self, method: str, parties: int) -> None:
        log.info("proposed", extra={"run": self.run, "method": method, "parties": parties})

    def reserved(self) -> None:
        """All parties have approved and reserved, now or before it was interrupted: from here on things leave them."""
        self.told = time.monotonic()
        log.info("reserved by all", extra={"run": self.run, "seconds": self._seconds})

    def carried(self, letters: Iterable[Letter]) -> None:
        """Letters on their way to a party: the coordinator's own count of rounds is taken, where there is one."""
        counted = [letter.round for letter in letters if self.alone or letter.sender == COORDINATOR]
        self.round = max([self.round, *counted])
        if time.monotonic() - self.told >= PAUSE:
            self.told = time.monotonic()
            log.info("under way", extra={"run": self.run, "round": self.round, "seconds": self._seconds})

    def over(self, ending: Ending) -> None:
        self.ended = True
        sent = {}
        if self.traffic is not None:
            found = Communication.of(self.traffic)
            sent = {"rounds": found.rounds, "messages": found.messages, "bytes": found.bytes}
        log.info("over", extra={"run": self.run, "how": ending.words, **sent, "seconds": self._seconds})

    def left(self) -> None:
        """The coordinator lets go of the run; one that is not over can be taken up again."""
        if not self.ended:
            log.info("not over", extra={"run": self.run, "round": self.round, "seconds": self._seconds})

    @property
    def _seconds(self) -> int:
        return round(time.monotonic() - self.began)


def _nothing(_: Said) -> None:
    """An answer that says no more than that there is one."""


def _check_willing(answers: Mapping[NodeId, Promise[Said]]) -> None:
    """All would take part; or the error of one that would not, before that of one that was lost or has not decided: an
    operator says no once."""
    wait_for_all(answers.values())
    later: list[Lost | PeerUndecided] = []
    refused: dict[NodeId, PeerFailed] = {}
    for name, answer in answers.items():
        try:
            answer.result()
        except (Lost, PeerUndecided) as error:
            later.append(error)
        except PeerFailed as error:
            refused[name] = error
    if refused:
        first, *others = refused
        more = f" Nor do these take part: {', '.join(map(repr, others))}." if others else ""
        raise type(refused[first])(f"{refused[first]}{more}") from refused[first]
    if later:
        raise later[0]


# ------------------------------------------------------------------------------------------------ answers


def _checked_note(note: Mapping[str, Any], party: NodeId) -> Mapping[str, Any]:
    """A row of the history: in the party's own name, of a round, and numbers where figures are due."""
    counted = type(note.get("round")) is int and note["round"] >= 0
    if note.get("party") != party or not counted:
        raise ValueError("a note is its sender's, and of a round")
    if any(type(note.get(figure, 0.0)) not in (int, float, type(None)) for figure in ("gap", "objective")):
        raise ValueError("a figure of a note is a number")
    return note


def read_standing(found: Stood, parties: Iterable[NodeId]) -> Standing:
    heads = {peer: (count, bytes.fromhex(at)) for peer, (count, at) in found.heads.items()}
    return Standing(heads.pop(""), heads, b"", read_replaced(found.replaced, parties))


def read_replaced(raw: Iterable[tuple[str, str, str]], names: Iterable[str]) -> tuple[Replaced, ...]:
    """Ledgers that a party says were replaced: they stand in statements, so in plain words."""
    found = [Replaced(*one) for one in raw]
    known = {COORDINATOR, *names}
    if not all(one.node in known and is_replaced(one) for one in found):
        raise ValueError("a node, a time and a mark for each ledger that was replaced")
    return tuple(found)


def read_outcome(party: NodeId, found: Counted) -> tuple[Answer | None, Traffic]:
    """Why a party's part ended, and what it sent."""
    traffic = Traffic()
    answer = None if found.status is None else Answer({}, 0.0, None, None, Status[found.status])
    for sender, receiver, kind, number, *counts in found.traffic:
        if sender != party:
            raise ValueError("a party counts what it sent, and nothing else")
        traffic.lines[TrafficRow(sender, receiver, kind, number)] = counts
    return answer, traffic


def check_promise(party: str, answer: Promised) -> Promised:
    """A party's keys and its word on the rows, as many as it says."""
    if len(answer.blobs) != 2 * answer.covers + answer.confirms:
        raise WireError(f"{party!r} promises to take part in a way that this hub does not know")
    return answer


def introductions(said: Sequence[Promised]) -> list[bytes]:
    """All keys first, then all confirmations: as a party reads them when it meets the others."""
    keys = [part for one in said if one.covers for part in one.blobs[:2]]
    return [*keys, *(one.blobs[-1] for one in said if one.confirms)]
