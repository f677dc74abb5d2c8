"""A party's office: what it answers when the hub asks. Between organisations nobody else touches a party's data or books.

The hub proposes; the party decides from its own copies. The federation file is its own, so are policy, ledger, data and
keys; it prices a job itself, and its operator or its policy approves the terms before anything is reserved. A question
out of turn, a job it does not know, a run that is over: refused, with a fixed code and no text, since text may carry data.
What happened is in its own log, in counts and names.

Letters between parties pass the hub under keys that the hub does not have: those of graph methods are covered here, those
of methods that relay are sealed by the node itself.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from colonnade.algorithms.method import GraphMethod, Job, Own
from colonnade.alignment import Agreement, PepperShare, agree
from colonnade.between.holding import Holding
from colonnade.between.parcel import Parcel, letters_in, letters_out, pack, unpack
from colonnade.engines.station import FINAL, Station, code_of
from colonnade.errors import (
    InvalidInput,
    LedgerDamaged,
    PolicyRefused,
    ProtocolError,
    ReplayDiverged,
    StoreError,
    WireError,
)
from colonnade.privacy.events import Plan, unprotected
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import ADMIN, REFUSED, Ledger, Terms
from colonnade.privacy.store import write_synced
from colonnade.runbook import FolderStore
from colonnade.runtime.messages import Sealed
from colonnade.runtime.node import Letter
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import Frame, decode, encode, type_name
from colonnade.seats import Call, neighbours, party_seat, terms_of, variant

PROTOCOL = 1
OK, UNAVAILABLE, DIVERGED = 0, 16, 17  # beside the codes of runtime/messages.py
PARCEL = 48 << 20  # letters that one answer carries; the rest waits for the next question

log = logging.getLogger("colonnade.between.office")


@dataclass(frozen=True)
class Request:
    """What an operator is asked to approve: everything that would leave, and what it costs."""

    run: str
    party: str
    terms: Terms
    call: Call
    plans: Mapping[str, Plan]
    rows: int

    @property
    def own(self) -> Plan:
        return self.plans.get(self.party, ())


Approve = Callable[[Request], bool]


@dataclass(eq=False)
class _Desk:
    """One run at this party."""

    station: Station
    job: Job
    agreement: Agreement | None
    cover: Keyring | None
    met: bool = False  # whether the others' keys, and their word on the rows, have been checked
    waiting: list[Letter] = field(default_factory=list)  # letters that did not fit into the last answer
    kept: bool = False


class Office:
    """The party's side of every conversation with the hub."""

    def __init__(self, holding: Holding, store: str | Path, identity: bytes, approve: Approve) -> None:
        self.holding, self.name, self.approve = holding, holding.name, approve
        self.identity, self.books = identity, FolderStore(store)
        self.log = self.books.log(self.name)
        self.ledger = Ledger(self.log, self.name, holding.member.policy)
        self.desks: dict[str, _Desk] = {}
        if public_key(identity) != holding.member.public_key:
            raise InvalidInput(
                f"the signing key is not the one that the federation file pins for {self.name!r}. Use the key whose public "
                "half is in the file, or have the file changed at all parties."
            )

    def close(self) -> None:
        self.books.close()

    # ------------------------------------------------------------------------ questions and answers

    def answer(self, raw: bytes) -> bytes:
        """The answer to a question of the hub. Errors become codes; only an unknown one is raised."""
        what = "?"
        try:
            asked = unpack(raw)
            what = str(asked.head.get("what"))
            handler = _QUESTIONS.get(what)
            if handler is None:
                raise ProtocolError(f"the hub asks {what[:40]!r}, which this version does not know")
            found = handler(self, asked)
            return pack({"code": OK, **found.head}, found.blobs)
        except tuple(FINAL) as error:
            log.warning("refused", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            return pack({"code": int(code_of(error)) + 1})
        except (ReplayDiverged, LedgerDamaged) as error:
            log.error("stopped", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            return pack({"code": DIVERGED})
        except StoreError as error:
            log.error("unavailable", extra={"question": what, "error": type(error).__name__, "why": str(error)})
            self.desks.clear()  # what is in memory may be ahead of the disk: begin again from there
            return pack({"code": UNAVAILABLE})

    def hello(self, _: Parcel) -> Parcel:
        """Who is there: versions, the federation file, the clock, the rows agreed on."""
        agreement = self.agreement()
        agreed = {} if agreement is None else {"session": agreement.session, "rows": agreement.rows}
        return Parcel(
            {
                "protocol": PROTOCOL,
                "version": version("colonnade"),
                "file": self.holding.charter.digest,
                "clock": time.time(),
                **agreed,
            }
        )

    # ------------------------------------------------------------------------ rows in common

    def agreement(self) -> Agreement | None:
        path = self._agreement_path
        if self.holding.charter.on is None or not path.is_file():
            return None
        return Agreement.from_json(path.read_text(encoding="utf-8"))

    @property
    def _agreement_path(self) -> Path:
        return self.books.folder / "alignment.json"

    def greet(self, asked: Parcel) -> Parcel:
        """A key for one alignment, signed."""
        self._may_align(_text(asked, "session"))
        public, signature = self._aligner(_text(asked, "session")).hello
        return Parcel({}, (public, signature))

    def share(self, asked: Parcel) -> Parcel:
        """Its part of the pepper, sealed for each other party."""
        session, peers = _text(asked, "session"), _names(asked, "peers")
        keyring = self._met(session, peers, asked.blobs)
        sealed = self._share(session).sealed(keyring, dict.fromkeys(peers, 0))
        return Parcel({"peers": peers}, tuple(part for peer in peers for part in sealed[peer]))

    def offer(self, asked: Parcel) -> Parcel:
        """The keyed digests of its keys, if the others' parts of the pepper are genuine."""
        session, peers = _text(asked, "session"), _names(asked, "peers")
        self._may_align(session)
        pepper = self._pepper(session, peers, asked.blobs)
        offered = self.holding.offer(pepper)
        log.info("offer", extra={"session": session, "rows": len(offered.digests)})
        return Parcel({}, (offered.digests.tobytes(),))

    def agreed(self, asked: Parcel) -> Parcel:
        """Keep which rows all parties have."""
        session, peers = _text(asked, "session"), _names(asked, "peers")
        pepper = self._pepper(session, peers, asked.blobs[:-1])
        offered = self.holding.offer(pepper)
        parties = [*peers, self.name]
        made = Agreement.made(offered, asked.blobs[-1], pepper, session=session, party=self.name, parties=parties)
        # Another answer for the same session, run after run, would show what single rows contribute.
        self._once(session, "rows", made.bits)
        write_synced(self._agreement_path, made.to_json().encode())
        self.ledger.tell_operator(
            f"align/{session}",
            f"{made.rows:,} of {self.holding.rows:,} rows are common to all parties; keyed digests of their keys left",
        )
        log.info("agreed", extra={"session": session, "rows": made.rows, "of": self.holding.rows})
        return Parcel({"rows": made.rows})

    def _aligner(self, session: str) -> Keyring:
        pinned = {name: member.public_key for name, member in self.holding.charter.members.items()}
        secret = self.log.secret(f"align/{session}", "keyring", 32)
        return Keyring(f"align/{session}", self.name, self.identity, pinned, secret)

    def _share(self, session: str) -> PepperShare:
        share = PepperShare.grown(self.holding.keys, self.log.secret("align", "share", 32), session)
        self._once(session, "sort of key", share.kind.encode())  # one key must never seal two different shares
        return share

    def _once(self, session: str, what: str, value: bytes) -> None:
        """Keep what this party said or heard in a session; something else in the same session is refused."""
        with self.log.atomic():
            known = [row.body for row in self.log.rows(f"align/{session}", "session") if row.key == what]
            if not known:
                self.log.append(f"align/{session}", ADMIN, "session", what, value)
            elif known != [value]:
                raise ProtocolError(f"session {session} had another {what} before; begin another alignment")

    def _may_align(self, session: str) -> None:
        """A party agrees on rows once; its operator lets it do so again (`colonnade party realign`)."""
        agreement = self.agreement()
        if agreement is not None and agreement.session != session:
            raise PolicyRefused(
                "this party has agreed on its rows, and a coordinator that may ask again learns from the difference. Let its "
                "operator run `colonnade party realign`."
            )

    def _met(self, session: str, peers: Sequence[str], blobs: Sequence[bytes]) -> Keyring:
        keyring = self._aligner(session)
        for place, peer in enumerate(peers):
            keyring.meet(peer, blobs[2 * place], blobs[2 * place + 1])
        return keyring

    def _pepper(self, session: str, peers: Sequence[str], blobs: Sequence[bytes]) -> bytes:
        """From four blobs a peer: its key and signature, its share as sealed for this party."""
        if set(peers) != set(self.holding.charter.members) - {self.name} or len(blobs) != 4 * len(peers):
            raise ProtocolError("an alignment needs every party of the federation file, once")
        keyring = self._met(session, peers, [part for at in range(len(peers)) for part in blobs[4 * at : 4 * at + 2]])
        shares = {self.name: self._share(session)}
        for at, peer in enumerate(peers):
            shares[peer] = PepperShare.opened(keyring, peer, 0, *blobs[4 * at + 2 : 4 * at + 4])
        return agree(shares, session)

    # ------------------------------------------------------------------------ one run

    def reserve(self, asked: Parcel) -> Parcel:
        """Look at the terms of a run, have them approved, and reserve its whole plan: or refuse."""
        run, call = _text(asked, "run"), Call.from_json(_text(asked, "call"))
        agreement = self._current(asked)
        desk = self.desks.get(run)
        if desk is None:
            desk, terms, plans = self._prepared(run, call, agreement)
            if terms.fingerprint != asked.head.get("code"):
                raise InvalidInput("the hub has another version of the method's code; bring both to the same release")
            known = bool(self.log.rows(run, "open"))  # a run that goes on was approved when it began
            if not known and not self.approve(Request(run, self.name, terms, call, plans, desk.job.roster.rows)):
                raise PolicyRefused(f"the operator of {self.name!r} did not approve run {run}. Nothing was sent.")
            keys = {name: member.public_key for name, member in self.holding.charter.members.items()}
            desk.station.settle(self._over())
            desk.station.reserve(terms, plans, keys)
            self.books.adopt(run)
            self.desks[run] = desk
            log.info("reserved", extra={"run": run, "method": terms.method, "known": known})
        blobs = list(desk.cover.hello) if desk.cover is not None else []
        if agreement is not None:
            blobs.append(agreement.confirmation(self.holding.offer(agreement.pepper), run))
        return Parcel({"covers": desk.cover is not None, "confirms": agreement is not None}, tuple(blobs))

    def _current(self, asked: Parcel) -> Agreement | None:
        agreement = self.agreement()
        wanted = asked.head.get("session") or None
        if (agreement.session if agreement else None) != wanted:
            raise ProtocolError("the hub speaks of another agreement on rows than this party keeps; align again")
        return agreement

    def _prepared(self, run: str, call: Call, agreement: Agreement | None) -> tuple[_Desk, Terms, Mapping[str, Plan]]:
        federation = self.holding.federation(agreement)
        method, policy = variant(call.method, call.problem), self.holding.member.policy
        job = Job(call.problem, federation.roster(), call.privacy)  # type: ignore[arg-type]  # as in fit: a method refuses a problem it does not know
        _check(call, method, federation.by_rows)
        method.check(job)
        plans: Mapping[str, Plan] = method.price(job)
        if call.noise is not None:
            if not policy.exact:
                raise PolicyRefused(f"seeded noise protects nobody, and {self.name!r} lets no exact values leave")
            plans = {party: unprotected(plan) for party, plan in plans.items()}
        schemas = [member.schema for member in self.holding.charter.members.values() if member.schema]
        if call.privacy is not None and any(schema.source == "data" for schema in schemas):
            raise PolicyRefused("a schema was read off data: its bounds and levels tell about single rows")
        around = neighbours(job, method)[self.name]
        block = self.holding.block(job, agreement)
        seat = party_seat(job, method, block, policy, call.noise, self.name, around)
        cover = None
        if isinstance(method, GraphMethod):
            pinned = {name: member.public_key for name, member in self.holding.charter.members.items()}
            cover = Keyring(f"{run}/cover", self.name, self.identity, pinned, self.log.secret(run, "cover", 32))
        station = Station(seat, run, self.log, identity=self.identity)
        return _Desk(station, job, agreement, cover), terms_of(job, method), plans

    def _over(self) -> dict[str, str]:
        return self.books.ended()

    def meet(self, asked: Parcel) -> Parcel:
        """The others' keys for covering letters, and their word that they hold the same rows in the same order."""
        desk, run, peers = self._desk(asked), _text(asked, "run"), _names(asked, "peers")
        parts = list(asked.blobs)
        if desk.cover is not None:
            for peer in peers:
                desk.cover.meet(peer, parts.pop(0), parts.pop(0))
        if desk.agreement is not None:
            said = {peer: parts.pop(0) for peer in peers}
            desk.agreement.check(self.holding.offer(desk.agreement.pepper), run, said)
        desk.met = True
        return Parcel({})

    def verify(self, _: Parcel) -> Parcel:
        self.log.verify()
        return Parcel({})

    def standing(self, _: Parcel) -> Parcel:
        length = self.log.length()
        heads = {"": (length, self.log.head_at(length)), **self.ledger.remembered()}
        return Parcel({"heads": {peer: [count, head.hex()] for peer, (count, head) in heads.items()}})

    def vouch(self, asked: Parcel) -> Parcel:
        for witness, (count, head) in _heads(asked).items():
            self.ledger.check_head(count, head, witness)
        return Parcel({})

    def remember(self, asked: Parcel) -> Parcel:
        self.ledger.remember(_text(asked, "run"), _text(asked, "when"), _heads(asked))
        return Parcel({})

    def join(self, asked: Parcel) -> Parcel:
        joined = self._desk(asked).station.join()
        return Parcel({"received": dict(joined.received), "sent": dict(joined.sent)})

    def resend(self, asked: Parcel) -> Parcel:
        desk, since = self._desk(asked), asked.head.get("since")
        if not (isinstance(since, dict) and all(type(count) is int for count in since.values())):
            raise WireError("resend wants a place for each neighbour")
        desk.waiting = list(desk.station.resend(since))
        return self._outgoing(desk, {})

    def turn(self, asked: Parcel) -> Parcel:
        desk, run = self._desk(asked), _text(asked, "run")
        if not desk.met:
            raise ProtocolError("the hub gives a turn before the parties have met; refused")
        letters = [self._uncovered(desk, x) for x in letters_in(asked.head.get("letters"), asked.blobs, run)]
        done = desk.station.turn(letters)
        desk.waiting += done.letters
        if done.finished and not desk.kept and done.failure is None:
            self._keep(desk)
        if done.failure is not None:
            log.warning("stopped", extra={"run": run, "error": type(done.failure).__name__, "why": str(done.failure)})
        head = {
            "finished": done.finished,
            "wait": list(done.wait),
            "notes": [dict(note) for note in done.notes],
            "told": done.told,
            "failure": 0 if done.failure is None else int(code_of(done.failure)) + 1,
        }
        return self._outgoing(desk, head)

    def outcome(self, asked: Parcel) -> Parcel:
        """What was sent in all, by kind; and of the result nothing but why it ended."""
        result, traffic = self._desk(asked).station.outcome()
        lines = [
            [*line, traffic.messages[line], traffic.bytes[line], traffic.numbers[line]] for line in traffic.messages
        ]
        answer = result.answer if isinstance(result, Own) else None
        return Parcel({"traffic": lines, "status": None if answer is None else answer.status.name})

    def over(self, asked: Parcel) -> Parcel:
        """The run ended. Whether others really sent nothing cannot be known here: their part of the price stays counted."""
        run, how = _text(asked, "run"), _text(asked, "how")
        told = f"the hub says: {how}" if how.startswith(REFUSED) else how
        desk = self.desks.get(run)
        if desk is not None:
            desk.station.close(told)
        if run in dict(self.books.begun()) and run not in self.books.ended():
            self.books.end(run, told)
        return Parcel({})

    def _desk(self, asked: Parcel) -> _Desk:
        desk = self.desks.get(_text(asked, "run"))
        if desk is None:
            raise ProtocolError("the hub speaks of a run that it has not proposed to this process")
        return desk

    def _outgoing(self, desk: _Desk, head: dict[str, Any]) -> Parcel:
        """As many letters as one answer carries, at least one; nobody is finished while letters wait."""
        taken: list[Letter] = []
        size = 0
        while desk.waiting and (not taken or size + len(desk.waiting[0].frame.body) <= PARCEL):
            letter = desk.waiting.pop(0)
            size += len(letter.frame.body)
            taken.append(self._covered(desk, letter))
        addresses, frames = letters_out(taken, desk.station.run)
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
        sealed, frame = decode(letter.frame.body), letter.frame
        if not isinstance(sealed, Sealed):
            raise ProtocolError(f"a letter of {letter.sender!r} came open through the hub; refused")
        body = desk.cover.open(letter.sender, frame.sequence, sealed.key, sealed.content)
        return Letter(letter.sender, letter.receiver, Frame(frame.sequence, frame.round, body), letter.inside)

    # ------------------------------------------------------------------------ its own copy of the model

    def _keep(self, desk: _Desk) -> None:
        """Write down this party's part of the model: it stays here."""
        own: object = desk.station.node.result
        if isinstance(own, Own):
            schema = self.holding.member.schema
            features = list(schema.features) if schema is not None else None
            answer = own.answer
            text = {
                "format": "colonnade part",
                "version": 1,
                "run": desk.station.run,
                "party": self.name,
                "features": features,
                "coefficients": own.coefficients.tolist(),
                "intercept": None if answer is None else answer.intercept,
                "objective": None if answer is None else answer.objective,
                "gap": None if answer is None else answer.gap,
            }
            write_synced(self.part_path(desk.station.run), json.dumps(text, indent=1).encode())
        desk.kept = True

    def part_path(self, run: str) -> Path:
        """Where this party's part of a run's model is."""
        return self.books.folder / "fits" / f"{run}.part.json"


def _check(call: Call, method: Any, by_rows: bool) -> None:
    from colonnade.problem import Problem

    if not isinstance(call.problem, getattr(method, "SOLVES", (Problem,))):
        raise InvalidInput(f"{method.TITLE} does not solve a {type(call.problem).__name__}")
    if ("rows" if by_rows else "columns") not in getattr(method, "SPLITS", ("columns",)):
        raise InvalidInput(f"{method.TITLE} does not work on what these parties hold")


def _text(asked: Parcel, name: str) -> str:
    value = asked.head.get(name)
    if not (isinstance(value, str) and value):
        raise WireError(f"a question without {name}")
    return value


def _names(asked: Parcel, name: str) -> list[str]:
    value: Any = asked.head.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(f"a question without {name}")
    if len(set(value)) != len(value):
        raise WireError(f"a question with a name twice in {name}")
    return list(value)


def _heads(asked: Parcel) -> dict[str, tuple[int, bytes]]:
    try:
        raw = asked.head["heads"]
        return {str(peer): (int(count), bytes.fromhex(head)) for peer, (count, head) in raw.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError("a question without heads") from error


_QUESTIONS: dict[str, Callable[[Office, Parcel], Parcel]] = {
    name: getattr(Office, name)
    for name in (
        *("hello", "greet", "share", "offer", "agreed"),
        *("reserve", "meet", "verify", "standing", "vouch", "remember", "join", "resend", "turn", "outcome", "over"),
    )
}
