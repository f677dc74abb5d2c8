"""A party's office: what it answers when the hub asks. Between organisations nobody else touches a party's data or books.

The hub proposes; the party decides from its own copies. The federation file is its own, so are policy, ledger, data and
keys; it prices a job itself, and its operator or its policy approves the terms before anything is reserved. All parties
`consider` a run before any of them is asked to `reserve` it: a refusal then costs nobody anything. A question out of turn, a
job it does not know, a run that is over: refused, with a fixed code and no text, since text may carry data. What happened is
in its own log, in counts and names.

The hub may ask anything in any order, and lie. So nothing is decided by what it says twice: a run keeps the call it was
approved for, an alignment the answer it had, and a run that failed here is over here, whatever the hub thinks of it. A hub
that does not ask whether they would take part gets the same answers when it asks them to reserve.

Letters between parties pass the hub under keys that the hub does not have: those of graph methods are covered here, those
of methods that relay are sealed by the node itself. Where two agents of a graph have a line of their own, the covered letter
goes over it, and the hub carries a note of it (neighbours.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np

from colonnade.data.alignment import Agreement
from colonnade.data.federation import Federation
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
from colonnade.methods.method import GraphMethod, Job, Own
from colonnade.methods.node_setup import Call, assumptions, neighbours, party_setup, place_of, terms_of, variant
from colonnade.network.approvals import Approvals
from colonnade.network.bounds import Sizes, check_call, check_question
from colonnade.network.neighbours import Neighbours
from colonnade.network.parcel import Parcel, letters_in, letters_out, name_in, names_in, pack, text_in, unpack
from colonnade.network.party_alignment import PartyAlignment, written_once
from colonnade.network.party_data import PartyData
from colonnade.network.replaced_ledger import keyed_head
from colonnade.network.scoring import Scoring, part_path
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.events import Plan, row_rho, unprotected
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import OWNER, Ledger, Terms
from colonnade.privacy.run_prices import REFUSED
from colonnade.privacy.statement import Assumption, check_delta
from colonnade.privacy.store import write_synced
from colonnade.runtime.hosted_node import FINAL, HostedNode, code_of
from colonnade.runtime.messages import FailureCode, Sealed
from colonnade.runtime.node import Letter
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import HUB_SAYS, RunStore, ending_in_words
from colonnade.runtime.wire import Frame, decode, encode, type_name

PROTOCOL = 4
OK, UNAVAILABLE, DIVERGED, UNKNOWN = 0, 16, 17, 18  # beside the codes of runtime/messages.py
PARCEL = 48 << 20  # letters that one answer carries; the rest waits for the next question

# Names that stand in the books for something else.
_TAKEN = {OWNER, "node", "align", "store"}
_MANNER = re.compile(r"[ -~]{1,100}")
_LARGEST_COUNT = 2**53

log = logging.getLogger("colonnade.network.party_service")


@dataclass(frozen=True)
class Request:
    """What an operator is asked to approve: everything that would leave, and what it costs."""

    run: str
    party: str
    terms: Terms
    call: Call
    plans: Mapping[str, Plan]
    rows: int
    units: tuple[int, str]  # how many units there are at most, and of what: what a delta is compared with
    scored: int = 0  # runs before this one that reserved a part of scores of the same rows
    new: bool = False  # whether the table is there to be scored, and nothing is learned from it
    assumed: tuple[Assumption, ...] = ()  # what the statement of the run would rest on
    place: str = ""  # what makes two rows the same row in it
    notices: tuple[str, ...] = ()  # what it would pay for nothing; of this party's data, and for its operator alone
    unused: tuple[str, ...] = ()  # declared levels that no row has; likewise

    @property
    def own(self) -> Plan:
        return self.plans.get(self.party, ())


Approve = Callable[[Request], bool]  # the operator's yes or no; whoever else refuses raises PolicyRefused and says why


_Priced = tuple[Job, Any, Mapping[str, Plan]]  # a job, its method, and what it costs everybody


class UnknownRun(ProtocolError):
    """This process has not heard of the run: it must be proposed again, and goes on from the books."""


@dataclass(eq=False)
class _Desk:
    """One run at this party."""

    host: HostedNode
    call: str
    agreement: Agreement | None
    cover: Keyring | None
    met: bool = False  # whether the others' keys, and their word on the rows, have been checked
    waiting: list[Letter] = field(default_factory=list)  # letters that did not fit into the last answer
    again: int = 0  # how many of them are sent again: through the hub, whatever became of them before
    kept: bool = False


class PartyService:
    """The party's side of every conversation with the hub."""

    def __init__(
        self,
        holding: PartyData,
        store: str | Path,
        identity: bytes,
        approve: Approve,
        neighbours: Neighbours | None = None,
        *,
        models: Path | None = None,
    ) -> None:
        self.holding, self.name, self.approve = holding, holding.name, approve
        self.neighbours = neighbours  # None: all letters go through the hub
        self.identity, self.books = identity, RunStore(store)
        self.log = self.books.log(self.name)
        self.ledger = Ledger(self.log, self.name, holding.member.policy)
        self.aligning = PartyAlignment(holding, self.log, self.ledger, self.books.folder, identity)
        self.sizes = Sizes.of(holding.charter)
        self.desks: dict[str, _Desk] = {}
        self.approvals = Approvals()
        self.scoring = Scoring(holding, self.books.folder, models)
        if public_key(identity) != holding.member.public_key:
            raise InvalidInput(
                f"the signing key is not the one that the federation file pins for {self.name!r}. Use the key whose public "
                "half is in the file, or have the file changed at all parties."
            )

    def close(self) -> None:
        self.books.close()

    # ------------------------------------------------------------------------ questions and answers

    def answer(self, raw: bytes) -> bytes:
        """The answer to a question of the hub. Every error becomes a code."""
        what = "?"
        try:
            asked = unpack(raw, self.sizes.head)
            what = str(asked.head.get("what"))[:40]  # longer than every question; it is logged
            handler = _QUESTIONS.get(what)
            if handler is None:
                raise ProtocolError(f"the hub asks {what!r}, which this version does not know")
            check_question(what, asked, self.sizes)
            found = handler(self, asked)
            return pack({"code": OK, **found.head}, found.blobs)
        except UnknownRun:
            return pack({"code": UNKNOWN})
        except tuple(FINAL) as error:
            log.warning("refused", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            return pack({"code": int(code_of(error)) + 1})
        except (ReplayDiverged, LedgerDamaged) as error:
            log.error("stopped", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            self.desks.clear()
            return pack({"code": DIVERGED})
        except (StoreError, OSError, MemoryError) as error:
            log.error("unavailable", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            self.desks.clear()  # what is in memory may be ahead of the disk: begin again from there
            return pack({"code": UNAVAILABLE})
        except Exception as error:  # nobody may end this process by asking; the text of a foreign error may carry data
            log.error("broken", extra={"question": what, "error": type(error).__name__})
            self.desks.clear()
            return pack({"code": int(FailureCode.STOPPED) + 1})

    def hello(self, _: Parcel) -> Parcel:
        """Who is there: versions, the federation file, the clock, the rows agreed on."""
        return Parcel(
            {
                "protocol": PROTOCOL,
                "version": version("colonnade"),
                "file": self.holding.charter.digest,
                "clock": time.time(),
                **self.aligning.standing(),
            }
        )

    def reach(self, _: Parcel) -> Parcel:
        """To which other parties there is a line."""
        return Parcel({"up": [] if self.neighbours is None else self.neighbours.reach()})

    # ------------------------------------------------------------------------ rows in common

    def agreement(self) -> Agreement | None:
        return self.aligning.agreement()

    # ------------------------------------------------------------------------ one run

    def consider(self, asked: Parcel) -> Parcel:
        """Refuse what `reserve` would refuse before it looks at the table, and write down nothing of the run.

        Others who said yes have reserved nothing yet, so one party's no costs nobody's budget.
        """
        run, call, agreement = self._proposal(asked)
        if self._desk_for(run, call, agreement) is None:
            priced = self.priced(call, self.holding.federation(agreement))
            request = self._approved(run, call, agreement, priced, asked.head.get("code"))
            if self.ledger.check_run(run, request.terms, request.plans):
                self._keep_to(run, "call", _kept_call(call, agreement))
            else:
                # Last: a yes that the ledger then refused must not make the next answer come faster.
                self.approvals.keep(run, *_shown(request, agreement))
            log.info("would take part", extra={"run": run, "method": request.terms.method})
        return Parcel({})

    def reserve(self, asked: Parcel) -> Parcel:
        """Look at the terms of a run, have them approved, and reserve its whole plan: or refuse."""
        run, call, agreement = self._proposal(asked)
        desk = self._desk_for(run, call, agreement)
        if desk is None:
            priced = self.priced(call, self.holding.federation(agreement))
            self._open(run, call, agreement, priced, asked.head.get("code"))
            desk = self.desks[run] = self._seated(run, call, agreement, priced)
        blobs = list(desk.cover.hello) if desk.cover is not None else []
        if agreement is not None:
            blobs.append(agreement.confirmation(self.holding.offer(agreement.pepper), _proposed(run, desk.call)))
        return Parcel({"covers": desk.cover is not None, "confirms": agreement is not None}, tuple(blobs))

    def _proposal(self, asked: Parcel) -> tuple[str, Call, Agreement | None]:
        agreement = self._current(asked)
        sizes = self.sizes if agreement is None else replace(self.sizes, rows=agreement.rows)
        check_call(text := text_in(asked, "call"), sizes)
        proposed = _run(asked), Call.from_json(text), agreement
        over = self.books.ended()
        self._settle(over)
        if proposed[0] in over:  # also one that its ledger never opened: a name is used once
            raise ReplayDiverged(
                f"run {proposed[0]} is over at {self.name!r}; it releases nothing more. Start a new run."
            )
        return proposed

    def _desk_for(self, run: str, call: Call, agreement: Agreement | None) -> _Desk | None:
        desk = self.desks.get(run)
        if desk is not None and (desk.call, desk.agreement) != (call.to_json(), agreement):
            raise ProtocolError(f"run {run} was proposed with another call before; a run keeps its call")
        return desk

    def _current(self, asked: Parcel) -> Agreement | None:
        agreement = self.agreement()
        wanted = asked.head.get("session") or None
        if (agreement.session if agreement else None) != wanted:
            raise ProtocolError("the hub speaks of another agreement on rows than this party keeps; align again")
        return agreement

    def _approved(self, run: str, call: Call, agreement: Agreement | None, priced: _Priced, code: object) -> Request:
        """What is proposed, approved by the operator or the [limits]: once for the same proposal."""
        request = self.request(run, call, priced)
        if request.terms.fingerprint != code:
            raise InvalidInput("the hub has another version of the method's code; bring both to the same release")
        known = self.log.rows(run, "open")  # a run that goes on was approved when it began
        if known or self.approvals.has(run, *_shown(request, agreement)):
            return request
        for what in request.notices:
            log.warning("a private run would pay for nothing", extra={"run": run, "what": what})
        if not self.approve(request):
            raise PolicyRefused(f"the operator of {self.name!r} said no to run {run}. Nothing was sent.")
        return request

    def request(self, run: str, call: Call, priced: _Priced) -> Request:
        """What an operator is shown of a proposal."""
        job, method, plans = priced
        scored, new = self.ledger.score_runs(), self.holding.scoring
        place = place_of(job, method, keyed=self.holding.charter.on is not None)
        shown = (job.roster.rows, job.units, scored, new, assumptions(job, method), place, self.holding.notices(job))
        unused = () if job.privacy is None else self.holding.unused
        return Request(run, self.name, terms_of(job, method), call, plans, *shown, unused)

    def _open(self, run: str, call: Call, agreement: Agreement | None, priced: _Priced, code: object) -> None:
        """Approval and reservation: whether a run is refused here does not depend on a single row."""
        request, known = self._approved(run, call, agreement, priced, code), bool(self.log.rows(run, "open"))
        with self.log.atomic():
            if not known and self.ledger.score_runs() != request.scored:
                raise PolicyRefused(
                    f"another process of {self.name!r} reserved a run of scores while run {run} was being approved, and the "
                    "count that was approved is not true any more. Nothing was sent. Run one process a store."
                )
            self.ledger.open_run(run, request.terms, request.plans)
            # The terms do not say what is solved: the operator approved this call, and no other under its name.
            self._keep_to(run, "call", _kept_call(call, agreement))
            self.books.adopt(run)  # last: what is refused is in no book, and before anything leaves the run is in both
        self.approvals.forget(run)  # from here on its books say so
        log.info("reserved", extra={"run": run, "method": request.terms.method, "known": known})

    def _keep_to(self, run: str, what: str, value: bytes) -> None:
        # Keyed: whoever reads the file when the run is over must not test guesses about the table.
        digest = hmac.digest(self.log.secret(run, "call", 32), value, "sha256")
        if not written_once(self.log, run, "call", what, digest):
            raise ReplayDiverged(
                f"run {run} began with another {what}. Repeat the original call on the original table to resume it."
            )

    def priced(self, call: Call, federation: Federation) -> _Priced:
        """The job as this party understands it, and what it would cost everybody: from public figures alone."""
        if self.holding.scoring and not isinstance(call.method, MaskedScores):
            raise PolicyRefused(
                f"the table of {self.name!r} is there to be scored, not to learn from. Nothing was sent."
            )
        method = variant(call.method, call.problem)
        if isinstance(method, MaskedScores):
            method = self.scoring.equipped(method)
        job = Job(call.problem, federation.roster(), call.privacy)  # type: ignore[arg-type]  # as in fit: a method refuses a problem it does not know
        _check(call, method, federation.by_rows)
        method.check(job)
        plans: Mapping[str, Plan] = method.price(job)
        if call.privacy is not None:
            check_delta(call.privacy, *job.units)  # rows in common are public once they are agreed on
        if call.privacy is not None and row_rho(plans) > rho_for(call.privacy.epsilon, call.privacy.delta) * (1 + 1e-9):
            raise PolicyRefused(f"{method.TITLE} costs more than the epsilon that the hub names. Nothing was sent.")
        if call.noise is not None:
            if not self.holding.member.policy.exact:
                raise PolicyRefused(f"seeded noise protects nobody, and {self.name!r} lets no exact values leave")
            plans = {party: unprotected(plan) for party, plan in plans.items()}
        schemas = [member.schema for member in self.holding.charter.members.values() if member.schema]
        if call.privacy is not None and any(schema.source == "data" for schema in schemas):
            raise PolicyRefused("a schema was read off data: its bounds and levels tell about single rows")
        return job, method, plans

    def _seated(self, run: str, call: Call, agreement: Agreement | None, priced: _Priced) -> _Desk:
        """The run's place at this party, with its table: after everything was approved and reserved."""
        job, method, plans = priced
        block = self.holding.block(job, agreement, learns=not isinstance(method, MaskedScores))
        self._keep_to(run, "table", block.digest().encode())
        around = neighbours(job, method)[self.name]
        setup = party_setup(job, method, block, self.holding.member.policy, call.noise, self.name, around)
        keys = {name: member.public_key for name, member in self.holding.charter.members.items()}
        cover, told = None, _proposed(run, call.to_json())
        if isinstance(method, GraphMethod):
            cover = Keyring(f"{run}/cover", self.name, self.identity, keys, self.log.secret(run, "cover", 32), told)
            if self.neighbours is not None:
                self.neighbours.begin(run)
        host = HostedNode(setup, run, self.log, identity=self.identity, told=told)
        host.reserve(terms_of(job, method), plans, keys)
        return _Desk(host, call.to_json(), agreement, cover)

    def meet(self, asked: Parcel) -> Parcel:
        """The others' keys for covering letters, and their word that they hold the same rows in the same order."""
        desk, run, peers = self._desk(asked), _run(asked), names_in(asked, "peers")
        others = set(self.holding.charter.members) - {self.name}
        each = 2 * (desk.cover is not None) + (desk.agreement is not None)
        if set(peers) != others or len(asked.blobs) != each * len(peers):
            raise ProtocolError("to meet, a party needs to hear from every other party of the federation file, once")
        parts = list(asked.blobs)
        if desk.cover is not None:
            for peer in peers:
                desk.cover.meet(peer, parts.pop(0), parts.pop(0))
        if desk.agreement is not None:
            said = {peer: parts.pop(0) for peer in peers}
            desk.agreement.check(self.holding.offer(desk.agreement.pepper), _proposed(run, desk.call), said)
        desk.met = True
        return Parcel({})

    def verify(self, _: Parcel) -> Parcel:
        self.log.verify()
        return Parcel({})

    def standing(self, _: Parcel) -> Parcel:
        length = self.log.length()
        heads = {"": (length, self._head(length)), **self.ledger.remembered()}
        told = {peer: [count, head.hex()] for peer, (count, head) in heads.items()}
        return Parcel({"heads": told, "replaced": [list(one) for one in self.ledger.replaced()]})

    def _head(self, count: int) -> bytes:
        return keyed_head(self.log, count)

    def vouch(self, asked: Parcel) -> Parcel:
        for witness, (count, head) in _heads(asked).items():
            if head != self._head(count):
                self.ledger.check_head(count, head, witness)
        return Parcel({})

    def remember(self, asked: Parcel) -> Parcel:
        """Keep where other ledgers stand: at the start and at the end of a run that this party knows."""
        run, when, heads = _run(asked), text_in(asked, "when"), _heads(asked)
        if when not in ("start", "end") or not self.log.rows(run, "open"):
            raise ProtocolError("heads are kept at the start and at the end of a run")
        if strangers := heads.keys() - {COORDINATOR, *self.holding.charter.members}:
            raise ProtocolError(f"heads of {len(strangers)} nodes that are not in the federation file")
        self.ledger.remember(run, when, heads)
        return Parcel({})

    def join(self, asked: Parcel) -> Parcel:
        joined = self._desk(asked).host.join()
        heard = {sender: count for (sender, _), count in joined.heard.items()}
        return Parcel({"received": dict(joined.received), "sent": dict(joined.sent), "heard": heard})

    def resend(self, asked: Parcel) -> Parcel:
        desk, since = self._met_desk(asked), asked.head.get("since")
        if not (isinstance(since, dict) and all(type(count) is int for count in since.values())):
            raise WireError("resend wants a place for each neighbour")
        desk.waiting = list(desk.host.resend(since))
        desk.again = len(desk.waiting)
        return self._outgoing(desk, {})

    def turn(self, asked: Parcel) -> Parcel:
        desk, run = self._met_desk(asked), _run(asked)
        letters = [self._uncovered(desk, x) for x in letters_in(asked.head.get("letters"), asked.blobs, run)]
        try:
            done = desk.host.turn(letters)
        except (ColonnadeError, OSError, MemoryError):
            raise
        except Exception as error:
            self._end(run, f"failed: {type(error).__name__}")  # as below
            raise
        desk.waiting += done.letters
        if done.finished and not desk.kept and done.failure is None:
            self._keep(desk)
        head = {
            "finished": done.finished,
            "wait": done.wait,
            "notes": [dict(note) for note in done.notes] or (),
            "told": done.told,
            "failure": 0 if done.failure is None else int(code_of(done.failure)) + 1,
        }
        if done.failure is None:
            return self._outgoing(desk, head)
        log.warning("stopped", extra={"run": run, "error": type(done.failure).__name__, "why": str(done.failure)})
        # For good, and before anybody hears of it, on either road. A step that fails is not in the transcript: tried again
        # it would draw noise again, and its letters would be covered by keys that have covered the farewell.
        self._end(run, f"failed: {type(done.failure).__name__}")
        told = self._outgoing(desk, head)
        return Parcel({**told.head, "finished": True, "more": False}, told.blobs)

    def outcome(self, asked: Parcel) -> Parcel:
        """What was sent in all, by kind; and of the result nothing but why it ended."""
        host = self._met_desk(asked).host
        host.join()
        if not host.node.finished:
            raise ProtocolError("the hub asks for the outcome of a run that has not finished here")
        # One line for the operator, whatever it says: whether there is one would show in the length of the records.
        remark = host.setup.remark(host.node.result) or "no rows were over the public bound"
        self.ledger.tell_operator(host.run, remark)
        result, traffic = host.outcome()
        lines = [[*line, *counts] for line, counts in traffic.table.items()]
        answer = result.answer if isinstance(result, Own) else None
        return Parcel({"traffic": lines, "status": None if answer is None else answer.status.name})

    def over(self, asked: Parcel) -> Parcel:
        """The run ended. Whether others really sent nothing cannot be known here: their part of the price stays counted."""
        self._end(_run(asked), _told(asked.head.get("how")))
        return Parcel({})

    def settle(self, asked: Parcel) -> Parcel:
        """Runs that the hub ended and could not say so: its process died."""
        over = asked.head.get("over")
        if not isinstance(over, dict):
            raise WireError("settle wants the runs that are over")
        for run in self.ledger.open_runs() & over.keys():
            self._end(run, _told(over[run]))
        return Parcel({})

    def _end(self, run: str, how: str) -> None:
        """The run is over here; what it did not use returns."""
        self.desks.pop(run, None)
        if self.approvals.forget(run):
            log.info("not begun", extra={"run": run, "how": ending_in_words(how)})
        if self.neighbours is not None:
            self.neighbours.end(run)
        if run in dict(self.books.begun()) and run not in self.books.ended():
            self.books.end(run, how)
            log.info("over", extra={"run": run, "how": ending_in_words(how)})
        self.ledger.close_run(run, how)

    def _settle(self, over: Mapping[str, str]) -> None:
        """Close what is still open of runs that are over: a process died before it could close the ledger."""
        for run in (self.ledger.open_runs() | self.log.unerased()) & over.keys():
            self.ledger.close_run(run, over[run])

    def _desk(self, asked: Parcel) -> _Desk:
        desk = self.desks.get(_run(asked))
        if desk is None:
            raise UnknownRun("the hub speaks of a run that it has not proposed to this process")
        return desk

    def _met_desk(self, asked: Parcel) -> _Desk:
        desk = self._desk(asked)
        if not desk.met:
            raise UnknownRun("the parties have not met in this run since this process began")
        return desk

    def _outgoing(self, desk: _Desk, head: dict[str, Any]) -> Parcel:
        """As many letters as one answer carries, at least one; nobody is finished while letters wait."""
        taken: list[Letter] = []
        size = 0
        while desk.waiting and (not taken or size + len(desk.waiting[0].frame.body) <= PARCEL):
            letter = self._covered(desk, desk.waiting.pop(0))
            if self.neighbours is not None and desk.cover is not None:
                letter = self.neighbours.send(desk.host.run, letter, again=desk.again > 0)
            desk.again = max(0, desk.again - 1)
            size += len(letter.frame.body)
            taken.append(letter)
        addresses, frames = letters_out(taken, desk.host.run)
        more = bool(desk.waiting)
        if "finished" in head:
            head = {**head, "finished": head["finished"] and not more}
        return Parcel({**head, "letters": addresses, "more": more}, tuple(frames))

    # ------------------------------------------------------------------------ covers

    def _covered(self, desk: _Desk, letter: Letter) -> Letter:
        """A letter between parties as the hub may carry it."""
        if desk.cover is None or letter.receiver == COORDINATOR:
            return letter
        place, frame = {letter.receiver: letter.frame.sequence}, letter.frame
        name = f"{letter.receiver}/{frame.sequence}"
        sealed = Sealed(*desk.cover.seal(place, frame.body, name)[letter.receiver])
        covered = Frame(frame.sequence, frame.round, encode(sealed, guarded=False))
        return Letter(letter.sender, letter.receiver, covered, type_name(frame.body))

    def _uncovered(self, desk: _Desk, letter: Letter) -> Letter:
        if letter.receiver != self.name:
            raise ProtocolError(f"a letter for {letter.receiver!r} was brought to {self.name!r}; refused")
        if desk.cover is None or letter.sender == COORDINATOR:
            return letter
        if self.neighbours is not None:
            fetched = self.neighbours.fetch(desk.host.run, letter)
            if fetched is None:
                log.warning("missing", extra={"run": desk.host.run, "sender": letter.sender})
                raise UnknownRun(f"a letter of {letter.sender!r} did not come over the line to it")
            letter = fetched
        sealed, frame = decode(letter.frame.body), letter.frame
        if not isinstance(sealed, Sealed):
            raise ProtocolError(f"a letter of {letter.sender!r} came open through the hub; refused")
        body = desk.cover.open(letter.sender, frame.sequence, sealed.key, sealed.content)
        return Letter(letter.sender, letter.receiver, Frame(frame.sequence, frame.round, body), letter.inside)

    # ------------------------------------------------------------------------ its own copy of the model

    def _keep(self, desk: _Desk) -> None:
        """Write down this party's part of the model: it stays here."""
        own: object = desk.host.node.result
        if isinstance(own, np.ndarray):
            self.scoring.keep(desk.host.run, own, desk.agreement)
        if isinstance(own, Own):
            schema = self.holding.member.schema
            features = list(schema.features) if schema is not None else None
            answer = own.answer
            text = {
                "format": "colonnade part",
                "version": 1,
                "run": desk.host.run,
                "party": self.name,
                "features": features,
                "coefficients": own.coefficients.tolist(),
                "intercept": None if answer is None else answer.intercept,
                "objective": None if answer is None else answer.objective,
                "gap": None if answer is None else answer.gap,
            }
            write_synced(self.part_path(desk.host.run), json.dumps(text, indent=1).encode(), private=True)
        desk.kept = True

    def part_path(self, run: str) -> Path:
        """Where this party's part of a run's model is."""
        return part_path(self.books.folder, run)


def _check(call: Call, method: Any, by_rows: bool) -> None:
    from colonnade.problem import Problem

    if not isinstance(call.problem, getattr(method, "SOLVES", (Problem,))):
        raise InvalidInput(f"{method.TITLE} does not solve a {type(call.problem).__name__}")
    if ("rows" if by_rows else "columns") not in getattr(method, "SPLITS", ("columns",)):
        raise InvalidInput(f"{method.TITLE} does not work on what these parties hold")


def _shown(request: Request, agreement: Agreement | None) -> tuple[object, ...]:
    """All that a yes was said to. Of the books only what the request shows: the ledger itself is asked again anyway."""
    return request.terms, _kept_call(request.call, agreement), request.rows, request.scored


def _kept_call(call: Call, agreement: Agreement | None) -> bytes:
    """What a run is about, and about which rows."""
    return f"{call.to_json()} {agreement.session if agreement else ''}".encode()


def _proposed(run: str, call: str) -> str:
    """A run and what was proposed of it: parties that were told different things under one name do not meet."""
    return f"{run}/{hashlib.sha256(call.encode()).hexdigest()}"


def _run(asked: Parcel) -> str:
    run = name_in(asked, "run")
    if run in _TAKEN:
        raise WireError("a question about a run with a name that the books use for something else")
    return run


def _told(how: object) -> str:
    """How a run ended, in the hub's words: fit for a terminal, and never taken for this party's own refusal."""
    if not (isinstance(how, str) and _MANNER.fullmatch(how)):
        raise WireError("the end of a run without a short word on how it ended")
    return f"{HUB_SAYS}{how}" if how.startswith(REFUSED) or ending_in_words(how).startswith(REFUSED) else how


def _heads(asked: Parcel) -> dict[str, tuple[int, bytes]]:
    try:
        heads = {peer: (count, bytes.fromhex(head)) for peer, (count, head) in asked.head["heads"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError("a question without heads") from error
    if not all(
        type(count) is int and 0 <= count <= _LARGEST_COUNT and len(head) in (0, 32) for count, head in heads.values()
    ):
        raise WireError("heads are a number of rows and 32 bytes each")
    return heads


def _about_rows(name: str) -> Callable[[PartyService, Parcel], Parcel]:
    return lambda office, asked: cast(Parcel, getattr(office.aligning, name)(asked))


_QUESTIONS: dict[str, Callable[[PartyService, Parcel], Parcel]] = {
    name: getattr(PartyService, name)
    for name in (
        *(
            "hello",
            "reach",
            "consider",
            "reserve",
            "meet",
            "verify",
            "standing",
            "vouch",
            "remember",
            "join",
            "resend",
            "turn",
            "outcome",
        ),
        *("over", "settle"),
    )
} | {
    name: _about_rows(name) for name in ("greet", "share", "offer", "show", "seek", "blind", "narrow", "tell", "agreed")
}
