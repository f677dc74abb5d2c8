"""Parties that are lost on the way: who they are, what had come from them, and whether a run may go on without them.

Rule     the label holder stays, parties with columns stay, and as many parties as every policy asks for (`quorum`).
         Whoever is lost stays lost. A party checks this for itself, from what it was told and from whose word on the
         stage it has: a coordinator that gives up parties who are there can make it stop, and learns nothing more.
Why      a stage is one mechanism. Its noise is for all who were told of it, so that whatever part of it leaves, under
         whatever pretext, is a part of what was paid for: docs/privacy.md, Parties that are lost.
Leaves   nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colonnade.errors import PartyLost, ProtocolError
from colonnade.methods.method import Roster
from colonnade.runtime.program import COORDINATOR, Inbox, is_lost

MEETING, SUMS, GRAM = "before the first release", "while class sums were computed", "while the Gram matrix was computed"
STAGES = {"sums": SUMS, "joint": GRAM}


class Losses:
    """Who is lost to a run, as one node knows it."""

    def __init__(self, roster: Roster, *, spares: bool = True) -> None:
        """spares  whether the programs can go on without a party."""
        self.roster, self.quorum = roster, roster.quorum if spares else 0
        self.lost: dict[str, str] = {}  # by party: when
        self._came: dict[str, list[str]] = {}  # by party: noisy figures that have come from it

    def rest(self, parties: Iterable[str]) -> tuple[str, ...]:
        """Those of them who are still there."""
        return tuple(party for party in parties if party not in self.lost)

    @property
    def places(self) -> tuple[int, ...]:
        """Who is lost, by place in the roster."""
        return tuple(place for place, party in enumerate(self.roster.parties) if party in self.lost)

    def hear(self, inbox: Inbox, when: str) -> None:
        """Take note of whoever was given up instead of heard; an error where the run must not go on."""
        self._add([node for node, came in inbox.items() if is_lost(came)], when)

    def told(self, places: tuple[int, ...], me: str, when: str) -> None:
        """Take note of whom the coordinator has given up: everybody of whom this party heard so, and perhaps more."""
        parties = self.roster.parties
        if not all(0 <= place < len(parties) for place in places):
            raise ProtocolError(f"{COORDINATOR!r} gave up parties that are none")
        named = [parties[place] for place in places]
        if me in named or set(self.lost) - set(named):
            raise ProtocolError(f"{COORDINATOR!r} gave up other parties than those of whom we heard so, or ourselves")
        self._add(named, when)

    def _add(self, names: Iterable[str], when: str) -> None:
        new = [name for name in names if name not in self.lost]
        self.lost |= dict.fromkeys(new, when)
        if new:
            self._check()

    def _check(self) -> None:
        roster, rest = self.roster, self.rest(self.roster.parties)
        gone = ", ".join(map(repr, self.lost))
        what = f"lost to this run, silent past the deadline: {gone}."
        spent = "The run ends here; what had left any party is spent, and in its ledger"
        if roster.label in self.lost:
            raise PartyLost(f"{what} {roster.label!r} holds the labels, and nothing goes on without them. {spent}.")
        if not self.quorum:
            why = "It needs a quorum in every party's policy, and trust 'secure' or 'consortium', to go on"
            raise PartyLost(f"{what} {why}. {spent}.")
        if len(rest) < self.quorum:
            raise PartyLost(f"{what} There are {len(rest)} left, and policies ask for {self.quorum}. {spent}.")
        if not set(rest) & set(roster.with_columns):
            raise PartyLost(f"{what} Nobody with columns is left. {spent}.")

    # ------------------------------------------------------------------------ in words, at the coordinator

    def came(self, parties: Iterable[str], what: str) -> None:
        """Noisy figures have come from these parties."""
        for party in parties:
            self._came.setdefault(party, []).append(what)

    def in_words(self) -> Mapping[str, str]:
        """By party: when it was lost, and what had come from it by then."""
        found = {}
        for party, when in self.lost.items():
            before = " and ".join(self._came.get(party, ()))
            found[party] = f"{when}, {f'after its {before} had come' if before else 'before anything noisy had come'}"
        return found
