"""An alignment at the hub: it brings the parties' messages (alignment.py) to each other.

By "digests" it gets every party's keyed digests, finds those that all have, and forgets them; by "psi" it carries
sealed messages, and learns the count at the end.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from colonnade.data import psi
from colonnade.data.alignment import bitmap, intersect
from colonnade.data.federation_file import AlignBy, FederationFile
from colonnade.data.row_order import DIGEST
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.network.alignment import DECOYS
from colonnade.network.questions import Question, Said

Asked = tuple[Question, Mapping[str, Any], Sequence[bytes]]  # a question, its head and its blobs
Each = Callable[[Mapping[str, Asked]], dict[str, Any]]  # a question to each of several parties, all at once

log = logging.getLogger("colonnade.network.aligner")


def align(each: Each, file: FederationFile, begun: str | None = None) -> tuple[str, int]:
    """Have the parties agree on a pepper and on the rows that all have: the session, and the number of rows.

    `begun` is a session that some of them have ended, or are in the middle of: it gives the same rows again.
    """
    check_least(file)
    one = _Session(each, file, begun or secrets.token_hex(8))
    one.introduce()
    answers = one.by_psi() if file.align == AlignBy.PSI else one.by_digests()
    rows = {found.rows for found in one.ask(Question.AGREED, answers).values()}
    if len(rows) != 1:
        raise ProtocolError("the parties keep different numbers of rows. Let each run `colonnade party realign`.")
    count: int = rows.pop()
    log.info("aligned", extra={"session": one.session, "parties": len(one.names), "rows": count, "by": file.align})
    return one.session, count


def check_least(file: FederationFile) -> None:
    """Whether every party lets the number of common rows be known."""
    if closed := [name for name, member in file.members.items() if member.policy.least is None]:
        raise InvalidInput(
            f"the policy of {closed[0]!r} has no `least`: common rows may not be counted. Nothing was sent."
        )


class _Session:
    """One alignment, while the hub drives it."""

    def __init__(self, each: Each, file: FederationFile, session: str) -> None:
        self.each = each
        self.file = file
        self.session = session
        self.names = list(file.members)
        self.others = {name: [peer for peer in self.names if peer != name] for name in self.names}
        self.given: dict[str, list[bytes]] = {name: [] for name in self.names}  # the others' keys and shares

    def ask(self, what: Question, to: Mapping[str, Sequence[bytes]], **more: str | int) -> dict[str, Any]:
        """A question of this session to some parties: whatever others said for each, and these blobs."""
        return self.each({name: self.asked(name, what, blobs, **more) for name, blobs in to.items()})

    def asked(self, name: str, what: Question, blobs: Sequence[bytes], **more: str | int) -> Asked:
        head = {"session": self.session, "peers": self.others[name], **more}
        return what, head, [*self.given[name], *blobs]

    def introduce(self) -> None:
        """Every party's key to all others, then its part of the pepper."""
        greeted = self.ask(Question.GREET, dict.fromkeys(self.names, ()))
        keys = {name: _parts(name, found, 2) for name, found in greeted.items()}
        met = {name: [part for peer in self.others[name] for part in keys[peer]] for name in self.names}
        shares = {}
        for name, found in self.ask(Question.SHARE, met).items():
            parts = _parts(name, found, 2 * len(self.others[name]))
            shares[name] = {peer: parts[2 * at : 2 * at + 2] for at, peer in enumerate(self.others[name])}
        for name in self.names:
            self.given[name] = [part for peer in self.others[name] for part in (*keys[peer], *shares[peer][name])]

    def by_digests(self) -> dict[str, list[bytes]]:
        """For each party one bit a digest."""
        found = self.ask(Question.OFFER, dict.fromkeys(self.names, ()))
        offered = {name: _digests(name, answer) for name, answer in found.items()}
        least = max(member.policy.least or 1 for member in self.file.members.values())
        _, places = intersect(offered, least)
        return {name: [bitmap(places[name], len(offered[name]))] for name in self.names}

    def by_psi(self) -> dict[str, list[bytes]]:
        """For each party what the label holder tells it, sealed."""
        holder = self.file.label[0]
        peers = self.others[holder]
        for peer in peers:
            self._compare(holder, peer)
        *wrapped, content = _parts(holder, self.ask(Question.TELL, {holder: ()})[holder], len(peers) + 1)
        return {holder: [], **{peer: [key, content] for peer, key in zip(peers, wrapped, strict=True)}}

    def _compare(self, holder: str, peer: str) -> None:
        """Bring the blocks of label holder and party to each other; both are at work at the same time."""
        most = {name: self.file.members[name].most or 0 for name in (holder, peer)}
        sought = psi.blocks(most[holder] + DECOYS)
        shown = psi.blocks(most[peer])
        for at in range(max(sought, shown)):
            first: dict[str, Asked] = {}
            if at < shown:
                first[peer] = self.asked(peer, Question.SHOW, (), block=at)
            if at < sought:
                first[holder] = self.asked(holder, Question.SEEK, (), peer=peer, block=at)
            blocks = {name: _parts(name, found, 2) for name, found in self.each(first).items()}
            second: dict[str, Asked] = {}
            if at < shown:
                second[holder] = self.asked(holder, Question.KEEP, blocks[peer], peer=peer, block=at, part="setup")
            if at < sought:
                second[peer] = self.asked(peer, Question.BLIND, blocks[holder], block=at)
            answers = self.each(second)
            if at < sought:
                answer = _parts(peer, answers[peer], 2)
                self.ask(Question.KEEP, {holder: answer}, peer=peer, block=at, part="response")
            done = {"session": self.session, "party": peer, "block": at + 1, "of": max(sought, shown)}
            log.info("compared", extra=done)
        self.ask(Question.NARROW, {holder: ()}, peer=peer)


def _parts(party: str, found: Said, count: int) -> Sequence[bytes]:
    if len(found.blobs) != count:
        raise ProtocolError(f"{party!r} sent {len(found.blobs):,} parts of an alignment where {count:,} were expected")
    return found.blobs


def _digests(party: str, found: Said) -> np.ndarray[Any, np.dtype[np.uint8]]:
    (raw,) = _parts(party, found, 1)
    if len(raw) % DIGEST:
        raise ProtocolError(f"{party!r} sent no digests")
    return np.frombuffer(raw, np.uint8).reshape(-1, DIGEST)
