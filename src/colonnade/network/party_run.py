"""One run at a party: what the hub proposes, what it would cost, what the operator is shown of it; then its node.

Whatever is decided before a run follows from public figures, so no price and no refusal depends on a row.

Letters between parties pass the hub under keys that the hub does not have: those of graph methods are covered here,
those of methods that relay are sealed by the node itself. Where two agents of a graph have a line of their own, the
covered letter goes over it, and the hub carries a note of it (neighbours.py).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from colonnade.data.alignment import Agreement
from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import InvalidInput, PolicyRefused, ProtocolError
from colonnade.methods.gatekeeper import NotCovered, check_call
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import Call, conditions_of, quorum_for, terms_of
from colonnade.model.job import Job, Own, curves_in_words
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_data import PartyData, Scoring, part_path
from colonnade.network.questions import LINES, Counted, Frames, Promised, Sent, Turned, letters_in, letters_out
from colonnade.privacy.conditions import Condition
from colonnade.privacy.events import Plan
from colonnade.privacy.keyring import Keyring
from colonnade.privacy.ledger import Terms
from colonnade.privacy.store import write_synced
from colonnade.runtime.host import MOST
from colonnade.runtime.hosted_node import HostedNode, Turn, code_of
from colonnade.runtime.program import COORDINATOR, Sealed
from colonnade.runtime.wire import LARGEST, Letter, Traffic, decode, encode, type_name

_LINE = 52  # bytes of a line of what was sent, beside its names: they and four numbers in msgpack
PARCEL = 48 << 20  # bytes of letters that one answer carries; the rest waits for the next question
UNPINNED = (
    "this method seals masked rows to the coordinator, and the federation file does not pin its key. Nothing was sent. "
    "At the coordinator run `colonnade federation pin FEDERATION.toml --certs FOLDER`, then give all parties the new "
    "file."
)

log = logging.getLogger("colonnade.network.party_service")


@dataclass(frozen=True)
class Proposal:
    """A run, its call, the rows that it is about, and the hub's release and protocol of the method."""

    run: str
    call: Call
    agreement: Agreement | None
    code: object

    def is_same(self, other: Proposal) -> bool:
        """Whether both have the same call about the same rows."""
        return (self.call.to_json(), self.agreement) == (other.call.to_json(), other.agreement)

    @property
    def content(self) -> bytes:
        """What the run is about, and about which rows."""
        return f"{self.call.to_json()} {self.agreement.session if self.agreement else ''}".encode()

    @property
    def told(self) -> str:
        return told_of(self.run, self.call)


def told_of(run: str, call: Call) -> str:
    """A run and its call: nodes that were told different things under one name do not meet."""
    return f"{run}/{hashlib.sha256(call.to_json().encode()).hexdigest()}"


def check_pinned(file: FederationFile, method: Any, job: Job) -> None:
    """What is masked is sealed to the coordinator's key of a run, so its signing key must be pinned."""
    if method.SEALED and method.relays(job) and file.coordinator is None:
        raise InvalidInput(UNPINNED)


class Priced(NamedTuple):
    """A job, its method, and what it costs everybody."""

    job: Job
    method: Any
    plans: Mapping[str, Plan]


@dataclass(frozen=True)
class Request:
    """What an operator is asked to approve: everything that would leave, and what it costs."""

    run: str
    party: str
    terms: Terms
    call: Call
    plans: Mapping[str, Plan]
    rows: int
    scored: int = 0  # runs before this one that reserved a part of scores of the same rows
    new: bool = False  # whether the table is there to be scored, and nothing is learned from it
    conditions: tuple[Condition, ...] = ()  # of the statement that the run would make
    notices: tuple[str, ...] = ()  # what it would pay for nothing; of this party's data, and for its operator alone
    unused: tuple[str, ...] = ()  # declared levels that no row has; likewise
    curves: str = ""  # what the method would make of columns whose schema leaves it to it
    session: str = ""  # of the agreement on rows, where there is one
    absence: str = ""  # what happens when a party falls silent

    @property
    def own(self) -> Plan:
        return self.plans.get(self.party, ())


# The operator's yes or no. Whoever else refuses raises PolicyRefused and says why; Undecided leaves the question open.
Approve = Callable[[Request], bool]


class Undecided(Exception):  # no error of ours: the run is proposed again
    """The operator has not answered yet."""


def price(call: Call, federation: Federation, data: PartyData, scoring: Scoring) -> Priced:
    """The job as this party understands it, and what it would cost everybody."""
    if data.scoring and not isinstance(call.method, MaskedScores):
        raise PolicyRefused(f"the table of {data.name!r} is there to be scored, not to learn from. Nothing was sent.")
    method = call.method.variant(call.problem, call.privacy)
    if isinstance(method, MaskedScores):
        method = scoring.equip(method)
    try:
        _, job, plans = check_call(federation, call.problem, method, call.privacy, seeded=call.noise is not None)
    except NotCovered as error:
        # The hub says what may be spent, and a party reckons for itself.
        raise PolicyRefused(str(error)) from error
    data.check_width(job.roster)
    check_pinned(data.file, method, job)
    return Priced(job, method, plans)


def request_for(run: str, call: Call, priced: Priced, data: PartyData, scored: int) -> Request:
    """What an operator is shown of a proposal; `scored` counts the runs of scores before it."""
    job, method, plans = priced
    request = Request(run, data.name, terms_of(job, method), call, plans, job.roster.rows, scored, data.scoring)
    unused = () if job.privacy is None else data.seen.unused
    conditions = conditions_of(job, method, keyed=data.file.on is not None)
    request = replace(request, conditions=conditions, curves=curves_in_words(job.roster))
    absence = absence_in_words(data.file, quorum_for(job, method))
    return replace(request, notices=data.notices(job), unused=unused, absence=absence)


def absence_in_words(file: FederationFile, quorum: int) -> str:
    """When a party that does not answer is given up, and whether the run goes on without it."""
    patience = "longer than the coordinator's patience" if file.deadline is None else f"for {file.deadline:g} seconds"
    end = (
        f"goes on while {quorum} of {len(file.members)} parties are left, the label holder among them"
        if quorum
        else "ends"
    )
    return f"if a party is silent {patience}, the run {end}"


class Approvals:
    """What was approved and is not reserved yet, one a run: so that nobody is asked twice about one proposal.

    Between the two times that a run is proposed (party_service.py) a party keeps in memory a digest of everything that
    was shown when its operator, or its policy, said yes: another call, other rows, or one more run of scores since
    then, and the question is put again. The hub chooses how often it proposes, so only the newest few are kept.
    """

    MOST = 64

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, run: object) -> bool:
        return run in self._kept

    def has(self, run: str, *shown: object) -> bool:
        return self._kept.get(run) == _digest(shown)

    def keep(self, run: str, *shown: object) -> None:
        self.forget(run)
        self._kept[run] = _digest(shown)
        if len(self._kept) > self.MOST:
            del self._kept[next(iter(self._kept))]

    def forget(self, run: str) -> bool:
        """Whether there was one."""
        return self._kept.pop(run, None) is not None


def _digest(shown: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(shown).encode()).digest()


# ------------------------------------------------------------------------------------------------ while it goes on


class UnknownRun(ProtocolError):
    """This process has not heard of the run: it must be proposed again, and goes on from its store."""


@dataclass(eq=False)
class PartyRun:
    """One run, from its reservation to its end."""

    proposal: Proposal
    host: HostedNode
    cover: Keyring | None  # on a graph
    scoring: Scoring
    met: bool = False  # whether the others' keys, and their word on the rows, have been checked
    waiting: list[Letter] = field(default_factory=list)  # letters that did not fit into the last answer
    again: int = 0  # how many of them are sent again: through the hub, whatever became of them before
    kept: bool = False  # whether the result is written down
    depth: int = 0  # of the curves of columns that left it to the method

    @property
    def name(self) -> str:
        return self.host.setup.name

    def promise(self) -> Promised:
        """This party's keys and its word on the rows, for the others."""
        agreement = self.proposal.agreement
        blobs = list(self.cover.hello) if self.cover is not None else []
        if agreement is not None:
            blobs.append(agreement.confirmation(self.scoring.data.offer(agreement.pepper), self.proposal.told))
        return Promised(covers=self.cover is not None, confirms=agreement is not None, blobs=tuple(blobs))

    def meet(self, peers: Sequence[str], blobs: Sequence[bytes]) -> None:
        """The others' keys for covering letters, and their word that they hold the same rows in the same order."""
        agreement = self.proposal.agreement
        data = self.scoring.data
        each = 2 * (self.cover is not None) + (agreement is not None)
        missing = set(data.file.members) - {self.name, *peers}
        once = len(set(peers)) == len(peers) == len(data.file.members) - 1 - len(missing)
        if not (once and self.name not in peers and self._spares(missing) and len(blobs) == each * len(peers)):
            raise ProtocolError("to meet, a party needs to hear from every other party of the federation file, once")
        parts = list(blobs)
        if self.cover is not None:
            for peer in peers:
                self.cover.meet(peer, parts.pop(0), parts.pop(0))
        if agreement is not None:
            said = dict(zip(peers, parts, strict=True))
            agreement.check(data.offer(agreement.pepper), self.proposal.told, said)
        for peer in sorted(missing):
            self.host.give_up(peer)
        self.met = True

    def _spares(self, missing: set[str]) -> bool:
        """Whether the run may go on without these: they are then lost here, whatever the hub says of them later."""
        file = self.scoring.data.file
        quorum = self.host.setup.quorum
        enough = quorum > 0 and len(file.members) - len(missing) >= quorum and file.label[0] not in missing
        return not missing or enough

    def resend(self, since: Mapping[str, int]) -> None:
        self.waiting = list(self.host.resend(since))
        self.again = len(self.waiting)

    def incoming(self, frames: Frames, neighbours: Neighbours | None) -> list[Letter]:
        """The letters that a question brings, as its node reads them."""
        return [self._uncover(letter, neighbours) for letter in letters_in(frames, self.proposal.run)]

    def keep_turn(self, done: Turn) -> None:
        """Keep what a turn made."""
        self.waiting += done.letters
        if done.finished and not self.kept and done.failure is None:
            self._keep_result()

    def say_turn(self, done: Turn, neighbours: Neighbours | None) -> Turned:
        """The answer to a turn that was kept; nobody is finished while letters wait."""
        letters = self._outgoing(neighbours)
        more = bool(self.waiting) or done.more
        return Turned(
            letters=letters,
            more=more,
            finished=done.finished and not more,
            wait=done.wait,
            notes=tuple(map(dict, done.notes)),
            told=done.told,
            failure=0 if done.failure is None else int(code_of(done.failure)) + 1,
        )

    def say_again(self, neighbours: Neighbours | None) -> Sent:
        return Sent(letters=self._outgoing(neighbours), more=bool(self.waiting))

    def _outgoing(self, neighbours: Neighbours | None) -> Frames:
        """As many letters as one answer carries, at least one."""
        sent: list[Letter] = []
        size = 0
        while self.waiting and len(sent) < MOST and (not sent or size + len(self.waiting[0].body) <= PARCEL):
            letter = self.waiting.pop(0)
            if self.cover is not None and letter.receiver != COORDINATOR:
                letter = cover_letter(self.cover, letter)
            if neighbours is not None and self.cover is not None:
                letter = neighbours.send(self.proposal.run, letter, again=self.again > 0)
            self.again = max(0, self.again - 1)
            size += len(letter.body)
            sent.append(letter)
        return letters_out(sent, self.proposal.run)

    def _uncover(self, letter: Letter, neighbours: Neighbours | None) -> Letter:
        if letter.receiver != self.name:
            raise ProtocolError(f"a letter for {letter.receiver!r} was brought to {self.name!r}; refused")
        if self.cover is None or letter.sender == COORDINATOR:
            return letter
        if neighbours is not None:
            fetched = neighbours.fetch(self.proposal.run, letter)
            if fetched is None:
                log.warning("missing", extra={"run": self.proposal.run, "sender": letter.sender})
                raise UnknownRun(f"a letter of {letter.sender!r} did not come over the line to it")
            letter = fetched
        sealed = decode(letter.body)
        if not isinstance(sealed, Sealed):
            raise ProtocolError(f"a letter of {letter.sender!r} came open through the hub; refused")
        body = self.cover.open(letter.sender, letter.sequence, sealed.key, sealed.content)
        return letter.with_body(body, letter.inside)

    def outcome(self) -> Counted:
        """What was sent in all, by kind; and of the result nothing but why it ended."""
        host = self.host
        if not host.node.finished:
            raise ProtocolError("the hub asks for the outcome of a run that has not finished here")
        # One line for the operator, whatever it says: whether there is one would show in the length of the records.
        remark = host.setup.remark(host.node.result) or "no rows were over the public bound"
        host.ledger.tell_operator(host.run, remark)
        result, traffic = host.outcome()
        counts = traffic.in_lines(lines_in_answer(traffic)).table
        lines = tuple((*line, *found) for line, found in counts.items())
        answer = result.answer if isinstance(result, Own) else None
        return Counted(traffic=lines, status=None if answer is None else answer.status.name)

    def _keep_result(self) -> None:
        """Write down this party's part of the model, or the scores: they stay here."""
        own: object = self.host.node.result
        run = self.proposal.run
        if isinstance(own, np.ndarray):
            self.scoring.keep(run, own, self.proposal.agreement)
        if isinstance(own, Own):
            schema = self.scoring.data.member.schema and self.scoring.data.member.schema.with_curve_depth(self.depth)
            text = {
                "format": "colonnade part",
                "version": 1,
                "run": run,
                "party": self.name,
                "features": list(schema.features) if schema is not None else None,
                "coefficients": own.coefficients.tolist(),
                **{name: getattr(own.answer, name, None) for name in ("intercept", "objective", "gap")},
                "members": sorted(member.key for member in self.scoring.data.file.members.values()),
            }
            if self.proposal.agreement is not None:
                self.scoring.keep_rows(run, self.proposal.agreement)
            write_synced(part_path(self.scoring.store, run), json.dumps(text, indent=1).encode(), private=True)
        self.kept = True


def lines_in_answer(traffic: Traffic) -> int:
    """How many lines of what was sent an answer has room for, names being as long as they are."""
    names = {name for line in traffic.lines for name in line[:3]}
    longest = 3 * max((len(name.encode()) for name in names), default=0)
    return min(LINES, LARGEST // (longest + _LINE))


def cover_letter(cover: Keyring, letter: Letter) -> Letter:
    """A letter between parties as the hub may carry it."""
    receiver = letter.receiver
    place = letter.sequence
    sealed = cover.seal({receiver: place}, letter.body, f"{receiver}/{place}")[receiver]
    return letter.with_body(encode(Sealed(*sealed), guarded=False), type_name(letter.body))
