"""One run at a party: its node, the letters that wait, and the keys under which they pass the hub.

Letters between parties pass the hub under keys that the hub does not have: those of graph methods are covered here,
those of methods that relay are sealed by the node itself. Where two agents of a graph have a line of their own, the
covered letter goes over it, and the hub carries a note of it (neighbours.py).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.methods.method import Own
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_data import Scoring, part_path
from colonnade.network.proposals import Proposal
from colonnade.network.questions import Parcel, letters_in, letters_out
from colonnade.privacy.keyring import Keyring
from colonnade.privacy.store import write_synced
from colonnade.runtime.hosted_node import HostedNode, Turn, code_of
from colonnade.runtime.messages import Sealed
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import Letter, decode, encode, type_name

PARCEL = 48 << 20  # bytes of letters that one answer carries; the rest waits for the next question

log = logging.getLogger("colonnade.network.party_service")


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

    @property
    def name(self) -> str:
        return self.host.setup.name

    def promise(self) -> Parcel:
        """This party's keys and its word on the rows, for the others."""
        agreement = self.proposal.agreement
        blobs = list(self.cover.hello) if self.cover is not None else []
        if agreement is not None:
            blobs.append(agreement.confirmation(self.scoring.data.offer(agreement.pepper), self.proposal.told))
        return Parcel({"covers": self.cover is not None, "confirms": agreement is not None}, tuple(blobs))

    def meet(self, peers: Sequence[str], blobs: Sequence[bytes]) -> None:
        """The others' keys for covering letters, and their word that they hold the same rows in the same order."""
        agreement, data = self.proposal.agreement, self.scoring.data
        each = 2 * (self.cover is not None) + (agreement is not None)
        if set(peers) != set(data.file.members) - {self.name} or len(blobs) != each * len(peers):
            raise ProtocolError("to meet, a party needs to hear from every other party of the federation file, once")
        parts = list(blobs)
        if self.cover is not None:
            for peer in peers:
                self.cover.meet(peer, parts.pop(0), parts.pop(0))
        if agreement is not None:
            said = dict(zip(peers, parts, strict=True))
            agreement.check(data.offer(agreement.pepper), self.proposal.told, said)
        self.met = True

    def resend(self, since: Mapping[str, int]) -> None:
        self.waiting = list(self.host.resend(since))
        self.again = len(self.waiting)

    def incoming(self, asked: Parcel, neighbours: Neighbours | None) -> list[Letter]:
        """The letters that a question brings, as its node reads them."""
        letters = letters_in(asked.head.get("letters"), asked.blobs, self.proposal.run)
        return [self._uncover(letter, neighbours) for letter in letters]

    def keep_turn(self, done: Turn) -> dict[str, Any]:
        """Keep what a turn made; the head of the answer to it."""
        self.waiting += done.letters
        if done.finished and not self.kept and done.failure is None:
            self._keep_result()
        return {
            "finished": done.finished,
            "wait": done.wait,
            "notes": [dict(note) for note in done.notes] or (),
            "told": done.told,
            "failure": 0 if done.failure is None else int(code_of(done.failure)) + 1,
        }

    def outgoing(self, head: dict[str, Any], neighbours: Neighbours | None) -> Parcel:
        """As many letters as one answer carries, at least one; nobody is finished while letters wait."""
        sent: list[Letter] = []
        size = 0
        while self.waiting and (not sent or size + len(self.waiting[0].body) <= PARCEL):
            letter = self.waiting.pop(0)
            if self.cover is not None and letter.receiver != COORDINATOR:
                letter = cover_letter(self.cover, letter)
            if neighbours is not None and self.cover is not None:
                letter = neighbours.send(self.proposal.run, letter, again=self.again > 0)
            self.again = max(0, self.again - 1)
            size += len(letter.body)
            sent.append(letter)
        addresses, frames = letters_out(sent, self.proposal.run)
        more = bool(self.waiting)
        if "finished" in head:
            head = {**head, "finished": head["finished"] and not more}
        return Parcel({**head, "letters": addresses, "more": more}, tuple(frames))

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

    def outcome(self) -> Parcel:
        """What was sent in all, by kind; and of the result nothing but why it ended."""
        host = self.host
        host.join()
        if not host.node.finished:
            raise ProtocolError("the hub asks for the outcome of a run that has not finished here")
        # One line for the operator, whatever it says: whether there is one would show in the length of the records.
        remark = host.setup.remark(host.node.result) or "no rows were over the public bound"
        host.ledger.tell_operator(host.run, remark)
        result, traffic = host.outcome()
        lines = [[*line, *counts] for line, counts in traffic.table.items()]
        answer = result.answer if isinstance(result, Own) else None
        return Parcel({"traffic": lines, "status": None if answer is None else answer.status.name})

    def _keep_result(self) -> None:
        """Write down this party's part of the model, or the scores: they stay here."""
        own: object = self.host.node.result
        run = self.proposal.run
        if isinstance(own, np.ndarray):
            self.scoring.keep(run, own, self.proposal.agreement)
        if isinstance(own, Own):
            schema = self.scoring.data.member.schema
            text = {
                "format": "colonnade part",
                "version": 1,
                "run": run,
                "party": self.name,
                "features": list(schema.features) if schema is not None else None,
                "coefficients": own.coefficients.tolist(),
                **{name: getattr(own.answer, name, None) for name in ("intercept", "objective", "gap")},
            }
            write_synced(part_path(self.scoring.store, run), json.dumps(text, indent=1).encode(), private=True)
        self.kept = True


def cover_letter(cover: Keyring, letter: Letter) -> Letter:
    """A letter between parties as the hub may carry it."""
    receiver, place = letter.receiver, letter.sequence
    sealed = cover.seal({receiver: place}, letter.body, f"{receiver}/{place}")[receiver]
    return letter.with_body(encode(Sealed(*sealed), guarded=False), type_name(letter.body))
