"""What a party answers when the hub asks. Between organisations nobody else touches a party's data or ledger.

The hub proposes; the party decides from its own federation file, policy, ledger, data and keys. It prices a job itself
(party_run.py), and its operator or its policy approves the terms before anything is reserved. All parties `consider` a
run before any of them is asked to `reserve` it: a refusal then costs nobody anything. What is refused gets a fixed code
and no text, since text may carry data; what happened is in the party's own log, in counts and names.

The hub may ask anything in any order, and lie. So nothing is decided by what it says twice: a run keeps the call it was
approved for, an alignment the answer it had, and a run that failed here is over here, whatever the hub thinks of it.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from colonnade.data.alignment import Agreement
from colonnade.errors import (
    ColonnadeError,
    InvalidInput,
    LedgerDamaged,
    PolicyRefused,
    ProtocolError,
    ReplayDiverged,
    StoreError,
    WireError,
)
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.method import GraphMethod
from colonnade.methods.node_setup import Call, installed, neighbours, party_setup
from colonnade.network import bounds, party_run, questions
from colonnade.network.alignment import PartyAlignment, write_once
from colonnade.network.bounds import RateLimit
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_data import PartyData, Scoring, basis_path
from colonnade.network.party_run import Approve, PartyRun, Priced, Proposal, Request, Undecided, UnknownRun
from colonnade.network.questions import (
    Asked,
    Based,
    Brought,
    Counted,
    Ended,
    Greeting,
    Heads,
    Joining,
    Meeting,
    Missed,
    OfRun,
    Phase,
    Promised,
    Proposed,
    Question,
    Reached,
    Remembered,
    Said,
    Sent,
    Settled,
    Stood,
    Turned,
    Vouched,
    encode_answer,
)
from colonnade.network.replaced_ledger import keyed_head
from colonnade.network.score_order import is_order
from colonnade.privacy.events import Ending, How
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import Ledger, When
from colonnade.privacy.store import write_synced
from colonnade.privacy.tally import OWNER
from colonnade.runtime.hosted_node import FINAL, HostedNode, code_of
from colonnade.runtime.program import COORDINATOR, FailureCode
from colonnade.runtime.run_store import RunStore

PROTOCOL = 8  # since 8 questions and answers are msgpack
# Of runs that this process does not hold. One that is put off is proposed again, as one that nobody has decided on.
PROPOSALS_AT_ONCE = 200
PROPOSALS_A_SECOND = 5.0
# beside the codes of runtime/program.py
OK = 0
UNAVAILABLE = 16
DIVERGED = 17
UNKNOWN = 18
UNDECIDED = 19

_USED_NAMES = {OWNER, "node", "align", "store"}  # in the records they stand for something else than a run

log = logging.getLogger("colonnade.network.party_service")


class PartyService:
    """The party's side of every conversation with the hub."""

    def __init__(
        self,
        data: PartyData,
        store: str | Path,
        identity: bytes,
        approve: Approve,
        neighbours: Neighbours | None = None,
    ) -> None:
        if public_key(identity) != data.member.public_key:
            raise InvalidInput(f"the federation file pins another signing key for {data.name!r}. Use that one.")
        self.data = data
        self.name = data.name
        self.identity = identity
        self.approve = approve
        # True: who approves keeps its answers itself, and may think again until a run begins.
        self.asks_again = False
        # Of these runs nobody waits for an operator any more.
        self.withdraw: Callable[..., None] = lambda *_: None
        self.neighbours = neighbours  # None: all letters go through the hub
        self.run_store = RunStore(store)
        self.log = self.run_store.log(self.name)
        self.ledger = Ledger(self.log, self.name, data.member.policy, identity=identity)
        self.aligning = PartyAlignment(data, self.log, self.ledger, self.run_store.folder, identity)
        self.sizes = bounds.Sizes.of(data.file)
        self.runs: dict[str, PartyRun] = {}
        self.approvals = party_run.Approvals()
        self.pace = RateLimit(PROPOSALS_A_SECOND, PROPOSALS_AT_ONCE)
        self.put_off = 0  # proposals in a row
        self.scoring = Scoring(data, self.run_store.folder)
        self.handlers: dict[Question, Callable[..., Said]] = {
            one: getattr(self.aligning if one.phase is Phase.ALIGNING else self, one.value) for one in Question
        }

    def close(self) -> None:
        self.run_store.close()

    # ------------------------------------------------------------------------ questions and answers

    def answer(self, raw: bytes) -> bytes:
        """The answer to a question of the hub. Every error becomes a code."""
        what = "?"
        try:
            what = questions.name_of(raw)[:40]  # longer than every question; it is logged
            question = questions.BY_NAME.get(what)
            if question is None:
                raise ProtocolError(f"the hub asks {what!r}, which this version does not know")
            asked = questions.read_as(question.asked, raw)
            questions.check_sizes(asked, self.sizes)
            return encode_answer(self.handlers[question](asked))
        except UnknownRun:
            return encode_answer(Said(code=UNKNOWN))
        except Undecided:
            return encode_answer(Said(code=UNDECIDED))
        except tuple(FINAL) as error:
            return self._stop("refused", what, error, int(code_of(error)) + 1, logging.WARNING)
        except (ReplayDiverged, LedgerDamaged) as error:
            self.runs.clear()
            return self._stop("stopped", what, error, DIVERGED)
        except (StoreError, OSError, MemoryError) as error:
            # What is in memory may be ahead of the disk: begin again from there.
            self.runs.clear()
            return self._stop("unavailable", what, error, UNAVAILABLE)
        except Exception as error:
            # Nobody may end this process by asking; the text of a foreign error may carry data.
            self.runs.clear()
            log.error("broken", extra={"question": what, "error": type(error).__name__})
            return encode_answer(Said(code=int(FailureCode.STOPPED) + 1))

    def _stop(self, how: str, what: str, error: Exception, code: int, level: int = logging.ERROR) -> bytes:
        log.log(level, how, extra={"question": what, "error": type(error).__name__, "why": str(error)})
        return encode_answer(Said(code=code))

    def hello(self, _: Asked) -> Greeting:
        """Who is there: versions, the federation file, the clock, the rows agreed on."""
        file = self.data.file.digest
        clock = time.time()
        return Greeting(protocol=PROTOCOL, version=installed(), file=file, clock=clock, **self.aligning.standing())

    def reach(self, _: Asked) -> Reached:
        """To which other parties there is a line."""
        return Reached(up=() if self.neighbours is None else tuple(self.neighbours.reach()))

    def agreement(self) -> Agreement | None:
        return self.aligning.agreement()

    # ------------------------------------------------------------------------ before a run

    def consider(self, asked: Proposed) -> Said:
        """Refuse what `reserve` would refuse before it looks at the table, and write down nothing of the run.

        Others who said yes have reserved nothing yet, so one party's no costs nobody's budget.
        """
        proposal = self._proposal(asked)
        if self._run_of(proposal) is None:
            self._keep_pace()
            request = self._approve(proposal, self._price(proposal))
            if self.ledger.check_run(proposal.run, request.terms, request.plans):
                self._keep_to(proposal.run, "call", proposal.content)
            else:
                # Last: a yes that the ledger then refused must not make the next answer come faster.
                self.approvals.keep(proposal.run, *_shown(request, proposal))
            log.info("would take part", extra={"run": proposal.run, "method": request.terms.method})
        return Said()

    def reserve(self, asked: Proposed) -> Promised:
        """Look at the terms of a run, have them approved, and reserve its whole plan: or refuse."""
        proposal = self._proposal(asked)
        run = self._run_of(proposal)
        if run is None:
            if proposal.run not in self.approvals:
                self._keep_pace()
            priced = self._price(proposal)
            self._open(proposal, priced)
            run = self.runs[proposal.run] = self._begin(proposal, priced)
        return run.promise()

    def _keep_pace(self) -> None:
        """Each proposal is priced, and may be shown to somebody: a crowd of them is put off before either."""
        if self.pace.allow("proposals"):
            self.put_off += 1
            # Once a crowd: the hub chooses how often it asks.
            if self.put_off == 1:
                log.warning("too many proposals", extra={"at once": PROPOSALS_AT_ONCE, "a second": PROPOSALS_A_SECOND})
            raise Undecided
        self.put_off = 0

    def _proposal(self, asked: Proposed) -> Proposal:
        agreement = self.agreement()
        if (agreement.session if agreement else None) != (asked.session or None):
            raise ProtocolError("the hub speaks of another agreement on rows than this party keeps; align again")
        sizes = self.sizes if agreement is None else replace(self.sizes, rows=agreement.rows)
        bounds.check_call(asked.call, sizes)
        proposal = Proposal(_run_name(asked), Call.from_json(asked.call), agreement, asked.code)
        for run in self.ledger.open_runs() | self.log.unerased():
            if (ending := self.run_store.how_ended(run)) is not None:
                # A process died before it could close the ledger.
                self.ledger.close_run(run, ending)
        if (
            self.run_store.how_ended(proposal.run) is not None
        ):  # also one that its ledger never opened: a name is used once
            raise ReplayDiverged(f"run {proposal.run} is over at {self.name!r}. Start a new run.")
        return proposal

    def _run_of(self, proposal: Proposal) -> PartyRun | None:
        known = self.runs.get(proposal.run)
        if known is not None and not known.proposal.is_same(proposal):
            raise ProtocolError(f"run {proposal.run} was proposed with another call before; a run keeps its call")
        return known

    def _price(self, proposal: Proposal) -> Priced:
        return party_run.price(proposal.call, self.data.federation(proposal.agreement), self.data, self.scoring)

    def _approve(self, proposal: Proposal, priced: Priced) -> Request:
        """What is proposed, approved by the operator or the [limits]: once for the same proposal."""
        run = proposal.run
        request = party_run.request_for(run, proposal.call, priced, self.data, self.ledger.score_runs())
        request = replace(request, session=proposal.agreement.session if proposal.agreement else "")
        if request.terms.protocol != proposal.code:
            raise InvalidInput(
                "the hub has another release, or another protocol of the method; bring both to the same release"
            )
        # A run that goes on was approved when it began.
        known = self.log.rows(run, "open")
        if known or (not self.asks_again and self.approvals.has(run, *_shown(request, proposal))):
            return request
        for what in request.notices:
            log.warning("a private run would pay for nothing", extra={"run": run, "what": what})
        if not self.approve(request):
            raise PolicyRefused(f"the operator of {self.name!r} said no to run {run}. Nothing was sent.")
        return request

    def _open(self, proposal: Proposal, priced: Priced) -> None:
        """Approval and reservation: whether a run is refused here does not depend on a single row."""
        run = proposal.run
        request = self._approve(proposal, priced)
        known = bool(self.log.rows(run, "open"))
        with self.log.atomic():
            if not known and self.ledger.score_runs() != request.scored:
                raise PolicyRefused(
                    f"another process of {self.name!r} reserved scores while run {run} was being approved. Nothing was "
                    "sent. Run one process a store."
                )
            self.ledger.open_run(run, request.terms, request.plans)
            # The terms do not say what is solved: the operator approved this call, and no other under its name.
            self._keep_to(run, "call", proposal.content)
            # Last: what is refused is in no store, and before anything leaves the run is in both.
            self.run_store.adopt(run)
        self.approvals.forget(run)  # from here on its store says so
        self.withdraw(run)
        log.info("reserved", extra={"run": run, "method": request.terms.method, "known": known})

    def _keep_to(self, run: str, what: str, value: bytes) -> None:
        # Keyed: whoever reads the file when the run is over must not test guesses about the table.
        digest = hmac.digest(self.log.secret(run, "call", 32), value, "sha256")
        if not write_once(self.log, run, "call", what, digest):
            raise ReplayDiverged(
                f"run {run} began with another {what}. Repeat the original call on the original table."
            )

    def _begin(self, proposal: Proposal, priced: Priced) -> PartyRun:
        """The run at this party, with its table: after everything was approved and reserved."""
        job, method, _ = priced
        run = proposal.run
        told = proposal.told
        block = self.data.block(job, proposal.agreement, learns=not isinstance(method, MaskedScores))
        self._keep_to(run, "table", block.digest().encode())
        around = neighbours(job, method)[self.name]
        setup = party_setup(job, method, block, self.data.member.policy, proposal.call.noise, self.name, around)
        keys = self.data.file.keys
        cover = None
        if isinstance(method, GraphMethod):
            cover = Keyring(f"{run}/cover", self.name, self.identity, keys, self.log.secret(run, "cover", 32), told)
            if self.neighbours is not None:
                self.neighbours.begin(run)
        host = HostedNode(setup, run, self.log, ledger=self.ledger, keys=keys, identity=self.identity, told=told)
        return PartyRun(proposal, host, cover, self.scoring, depth=job.roster.depth)

    def meet(self, asked: Meeting) -> Said:
        self._run_asked(asked).meet(asked.peers, asked.blobs)
        return Said()

    # ------------------------------------------------------------------------ its ledger

    def verify(self, _: OfRun) -> Said:
        self.ledger.check()
        return Said()

    def standing(self, _: OfRun) -> Stood:
        """Where its ledger stands, and where it remembers others to stand."""
        self.ledger.check()
        length = self.log.length()
        heads = {"": (length, keyed_head(self.log, length)), **self.ledger.remembered()}
        return Stood(heads=questions.plain_heads(heads), replaced=tuple(self.ledger.replaced()))

    def vouch(self, asked: Vouched) -> Said:
        """Its ledger must hold every row that others saw as its last, in a chain that is whole: the hub need not have
        asked for that before."""
        self.ledger.check()
        for witness, (count, head) in _read_heads(asked.heads).items():
            if head != keyed_head(self.log, count):
                self.ledger.check_head(count, head, witness)
        return Said()

    def remember(self, asked: Remembered) -> Said:
        """Keep where other ledgers stand: at the start and at the end of a run that this party knows."""
        run = _run_name(asked)
        heads = _read_heads(asked.heads)
        if asked.when not in tuple(When) or not self.log.rows(run, "open"):
            raise ProtocolError("heads are kept at the start and at the end of a run")
        if strangers := heads.keys() - {COORDINATOR, *self.data.file.members}:
            raise ProtocolError(f"heads of {len(strangers)} nodes that are not in the federation file")
        self.ledger.remember(run, When(asked.when), heads)
        return Said()

    # ------------------------------------------------------------------------ one run

    def join(self, asked: OfRun) -> Joining:
        joined = self._run_asked(asked).host.join()
        heard = {sender: count for (sender, _), count in joined.heard.items()}
        return Joining(received=dict(joined.received), sent=dict(joined.sent), heard=heard)

    def resend(self, asked: Missed) -> Sent:
        run = self._met_run(asked)
        run.resend(asked.since)
        return run.say_again(self.neighbours)

    def turn(self, asked: Brought) -> Turned:
        run = self._met_run(asked)
        name = _run_name(asked)
        letters = run.incoming(asked.letters, self.neighbours)
        try:
            done = run.host.turn(letters)
        except (ColonnadeError, OSError, MemoryError):
            raise
        except Exception as error:
            self._end(name, Ending(How.FAILED, type(error).__name__))  # as below
            raise
        run.keep_turn(done)
        if done.failure is None:
            return run.say_turn(done, self.neighbours)
        log.warning("stopped", extra={"run": name, "error": type(done.failure).__name__, "why": str(done.failure)})
        # For good, and before anybody hears of it, on either road. A step that fails is not in the transcript: tried
        # again it would draw noise again, and its letters would be covered by keys that have covered the farewell.
        self._end(name, Ending(How.FAILED, type(done.failure).__name__))
        return structs.replace(run.say_turn(done, self.neighbours), finished=True, more=False)

    def outcome(self, asked: OfRun) -> Counted:
        return self._met_run(asked).outcome()

    def learned(self, asked: Based) -> Said:
        """What fallbacks of the run's model follow from: once, and while the run is open, as its coefficients came."""
        run = _run_name(asked)
        basis = asked.basis
        path = basis_path(self.run_store.folder, run)
        begun = bool(self.log.rows(run, "open")) and not self.log.holds(run, "close")
        if not begun or (path.exists() and path.read_text(encoding="ascii") != basis):
            raise ProtocolError("a basis is told once, of a run that is open")
        write_synced(path, basis.encode(), private=True)
        return Said()

    def over(self, asked: Ended) -> Said:
        """The run ended. Whether others sent nothing cannot be known here: their part of the price stays counted."""
        self._end(_run_name(asked), _read_ending(asked.how))
        return Said()

    def settle(self, asked: Settled) -> Said:
        """Runs that the hub ended and could not say so: its process died."""
        self.withdraw(*asked.over)
        for run in self.ledger.open_runs() & asked.over.keys():
            self._end(run, _read_ending(asked.over[run]))
        return Said()

    def _end(self, run: str, ending: Ending) -> None:
        """The run is over here; what it did not use returns. A standing order is ended by its party alone."""
        if is_order(self.log, run):
            return
        self.runs.pop(run, None)
        self.withdraw(run)
        if self.approvals.forget(run):
            log.info("not begun", extra={"run": run, "how": ending.words})
        if self.neighbours is not None:
            self.neighbours.end(run)
        if self.run_store.has_begun(run) and self.run_store.how_ended(run) is None:
            self.run_store.end(run, ending)
            log.info("over", extra={"run": run, "how": ending.words})
        self.ledger.close_run(run, ending)

    def _run_asked(self, asked: OfRun) -> PartyRun:
        run = self.runs.get(_run_name(asked))
        if run is None:
            raise UnknownRun("the hub speaks of a run that it has not proposed to this process")
        return run

    def _met_run(self, asked: OfRun) -> PartyRun:
        run = self._run_asked(asked)
        if not run.met:
            raise UnknownRun("the parties have not met in this run since this process began")
        return run


def _shown(request: Request, proposal: Proposal) -> tuple[object, ...]:
    """All that a yes was said to. Of the store only what the request shows: the ledger itself is asked again anyway."""
    return request.terms, proposal.content, request.rows, request.scored


def _run_name(asked: OfRun) -> str:
    if asked.run in _USED_NAMES:
        raise WireError("a question about a run with a name that stores use for something else")
    return asked.run


def _read_ending(code: str) -> Ending:
    """How a run ended by the word of the hub, which is never taken for this party's own."""
    try:
        return replace(Ending.of(code), by_hub=True)
    except ValueError as error:
        raise WireError("the end of a run without a code of how it ended") from error


def _read_heads(heads: Heads) -> Mapping[str, tuple[int, bytes]]:
    return {peer: (count, bytes.fromhex(head)) for peer, (count, head) in heads.items()}
