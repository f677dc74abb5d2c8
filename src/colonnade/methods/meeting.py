"""How the parties of a run meet: keys of the run, signed by pinned ones; and who is lost on the way.

Lost     the label holder stays, parties with columns stay, and as many parties as every policy asks for (`quorum`).
         Whoever is lost stays lost. A party checks this for itself, from what it was told: a coordinator that gives up
         parties who are there can make it stop, and learns nothing more.
Leaves   public keys and their signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colonnade.errors import PartyLost, ProtocolError
from colonnade.model.job import Roster
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.runtime.program import COORDINATOR, Inbox, Post, Program, expect, is_lost, message, receive

MEETING = "before the first release"


@message(120)
class Introduce:
    """Coordinator → party: send your key of this run."""


@message(121)
class RunKey:
    """Party → coordinator, for the other parties: my public key of this run, signed by my pinned one."""

    key: Released[bytes]
    signature: Released[bytes]


@message(122)
class Meet:
    """Coordinator → party: the keys of all parties, in roster order; empty for those who are lost."""

    keys: tuple[bytes, ...]
    signatures: tuple[bytes, ...]


@message(140)
class CoordinatorKey:
    """Coordinator → party: my own public key of this run, signed by my pinned one; what is masked is sealed to it."""

    key: bytes
    signature: bytes


@message(141)
class Seed:
    """Party → party, sealed: the digest of the next stage as I was told it; to a partner also the seed of my mask."""

    digest: Released[bytes]
    seed: Released[bytes]


# ------------------------------------------------------------------------------------------------ who is lost


class Losses:
    """Who is lost to a run, as one node knows it."""

    def __init__(self, roster: Roster, *, tolerates_dropout: bool = True) -> None:
        """tolerates_dropout  whether the programs can go on without a party."""
        self.roster = roster
        self.quorum = roster.quorum if tolerates_dropout else 0
        self.lost: dict[str, str] = {}  # by party: when
        # By party: noisy figures that have come from it.
        self._came: dict[str, list[str]] = {}

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
        roster = self.roster
        rest = self.rest(self.roster.parties)
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


# ------------------------------------------------------------------------------------------------ meeting


def introduce(losses: Losses) -> Program[dict[str, tuple[bytes, bytes]]]:
    """The coordinator's part of the parties' meeting: it carries keys and their signatures, and can change none."""
    parties = losses.roster.parties
    inbox = yield Post(dict.fromkeys(parties, Introduce()), parties)
    losses.hear(inbox, MEETING)
    hellos = {party: expect(inbox, party, RunKey) for party in losses.rest(parties)}
    found = {party: (hello.key.value, hello.signature.value) for party, hello in hellos.items()}
    keys, signatures = zip(*(found.get(party, (b"", b"")) for party in parties), strict=True)
    yield Post(dict.fromkeys(found, Meet(keys, signatures)), ())
    return found


def meet(gate: Gate, losses: Losses) -> Program[None]:
    """A party's part: its own key, and everybody else's if their pinned keys signed them."""
    parties = losses.roster.parties
    yield from receive(COORDINATOR, Introduce)
    inbox = yield Post({COORDINATOR: RunKey(*gate.hello())}, (COORDINATOR,))
    met = expect(inbox, COORDINATOR, Meet)
    if not len(met.keys) == len(met.signatures) == len(parties):
        raise ProtocolError(f"{COORDINATOR!r} sent {len(met.keys)} keys for {len(parties)} parties")
    losses.told(tuple(place for place, key in enumerate(met.keys) if not key), gate.node, MEETING)
    for party, key, signature in zip(parties, met.keys, met.signatures, strict=True):
        if party != gate.node and party not in losses.lost:
            gate.keyring.meet(party, key, signature)


def introduce_itself(gate: Gate, losses: Losses) -> Program[None]:
    """The same, and the coordinator is met too: what only it may read is sealed to its own key of this run."""
    hellos = yield from introduce(losses)
    for party, hello in hellos.items():
        gate.keyring.meet(party, *hello)
    yield Post(dict.fromkeys(hellos, CoordinatorKey(*gate.keyring.hello)), ())


def meet_coordinator(gate: Gate, losses: Losses) -> Program[None]:
    """A party's part of that: nothing is sent to a coordinator whose pinned key did not sign its key of this run."""
    yield from meet(gate, losses)
    came = yield from receive(COORDINATOR, CoordinatorKey)
    gate.keyring.meet(COORDINATOR, came.key, came.signature)


def exchange_seeds(
    digest: bytes, partners: tuple[str, ...], gate: Gate, losses: Losses, when: str
) -> Program[dict[str, bytes]]:
    """Its own seed and its partners' of a stage, once all parties were told the same of it, partners or not.

    Before that a party releases nothing of the stage: a coordinator that told each party that the others' rows are
    nothing would have each of them noise its part for itself alone. Whoever is lost may be missing, and the label
    holder may not: whoever releases has its word, and it gives one word a stage.
    """
    others = tuple(p for p in losses.rest(losses.roster.parties) if p != gate.node)
    mine = Seed(*gate.seed(digest))
    for_the_rest = Seed(*gate.seed(digest, shown=False))
    inbox = yield Post({p: mine if p in partners else for_the_rest for p in others}, others)
    losses.hear(inbox, when)
    seeds = {gate.node: mine.seed.value}
    for other in losses.rest(others):
        came = expect(inbox, other, Seed)
        if came.digest.value != digest or len(came.seed.value) != (32 if other in partners else 0):
            raise ProtocolError(f"{COORDINATOR!r} told {other!r} something else of this release than us")
        if other in partners:
            seeds[other] = came.seed.value
    return seeds
