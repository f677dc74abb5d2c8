"""Products of columns held by different parties, computed on masked numbers: a blind coordinator multiplies.

Solves   XₖᵀXₗ for pairs of parties, entry (i, j) modulo 2^min(wᵢ, wⱼ), plus what each party adds to its correction.
Source   ours: Beaver's multiplication with the roles turned. No dealer: parties draw masks for each other, and the
         coordinator, who knows none, multiplies what is masked. An upload serves all partners.
Steps    every party tells its partners, sealed, the seed of its mask Uₖ and what it was told of the stage; it goes on
         when all of them were told the same. Eₖ = Xₖ + Uₖ goes to the coordinator, a block of rows at a time. It adds
         EₖᵀEₗ to a total and forgets Eₖ. Party k < l then sends -XₖᵀUₗ - Dₖₗ + R, l sends -UₖᵀXₗ - Dₗₖ - R, each with
         its noise; Dₖₗ + Dₗₖ = UₖᵀUₗ, k takes the even blocks of rows. Total and corrections give XₖᵀXₗ and the noise.
Lost     the label holder stays, parties with columns stay, and as many parties as every policy asks for (`quorum`).
         Whoever is lost stays lost. A party checks this for itself, from what it was told and from whose word on the
         stage it has: a coordinator that gives up parties who are there can make it stop, and learns nothing more.
Why      a stage is one mechanism. Its noise is for all who were told of it, so that whatever part of it leaves, under
         whatever pretext, is a part of what was paid for: docs/understand/privacy/secure-products.md.
Leaves   Eₖ, uniform to whoever lacks Uₖ (the coordinator); corrections, uniform but for their sum to whoever lacks R
         (the coordinator). Both sealed: whoever knows Uₖ or R (a partner) may never see them.
Assumes  all follow the protocol, and the coordinator pools nothing with a party: together with one it reads the columns
         of that party's partners. docs/understand/privacy/secure-products.md, Secure products.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.errors import PartyLost, ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.bits import PackedRows, rows_size, unpack_rows
from colonnade.kernels.ring_products import FLOAT_ROWS, Cut, cross, is_thin, residues, ring_masks
from colonnade.methods.gram.messages import (
    CoordinatorKey,
    Introduce,
    Masked,
    Meet,
    Next,
    Parts,
    RunKey,
    Seed,
    SendParts,
)
from colonnade.model.job import Roster
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import ColumnPad
from colonnade.privacy.values import Packed
from colonnade.runtime.program import COORDINATOR, Inbox, Post, Program, ask_one, expect, is_lost, receive
from colonnade.runtime.wire import public_digest

Rows = Callable[[int, int], Integers]  # first row, how many: those rows as integers
Pair = tuple[str, str]
BLOCK_BYTES = 3 << 20  # of the masked messages that all parties send for one block of rows
MEETING, SUMS, GRAM = "before the first release", "while class sums were computed", "while the Gram matrix was computed"
STAGES = {"sums": SUMS, "joint": GRAM}
AHEAD = 2  # masked blocks that a party may be asked for before the first has come


@dataclass(frozen=True)
class Stage:
    """One exchange: its public figures. Masks of different stages never meet, and neither do those of parties that were
    told different figures."""

    name: str
    rows: int
    bits: Mapping[str, Integers]  # by party, in roster order: the ring of each column of its matrix
    pairs: tuple[Pair, ...]  # who multiplies with whom, the first one before the second in the roster
    digest: bytes  # of all that the parties were told of it

    @property
    def uploading(self) -> tuple[str, ...]:
        """Who has a partner, in roster order."""
        return tuple(party for party in self.bits if any(party in pair for pair in self.pairs))

    def partners(self, party: str) -> tuple[str, ...]:
        return tuple(b if a == party else a for a, b in self.pairs if party in (a, b))

    def masks(self, pair: Pair) -> Integers:
        """The ring of every entry of a pair's product, as the mask of its bits."""
        return ring_masks(self.bits[pair[0]], self.bits[pair[1]])

    def label(self) -> tuple[str, str]:
        """What every mask of the stage is derived from, beside its seed: the digest and all rings."""
        rings = public_digest([(name, bits.tolist()) for name, bits in self.bits.items()])
        return self.digest.hex(), rings.hex()

    def mask(self, party: str, seed: bytes, run: str) -> ColumnPad:
        """The mask of a party's matrix."""
        return ColumnPad(seed, ("columns", run, party, *self.label()), self.bits[party])

    def between(self, gate: Gate, pair: Pair) -> Integers:
        """R: what the first party of a pair adds to its correction and the second subtracts; from their own keys."""
        partner = pair[1] if pair[0] == gate.node else pair[0]
        masks = self.masks(pair)
        key = gate.keyring.shared(partner, "corrections", *self.label(), *pair, "product 0")
        return ColumnPad(key, ("R",), np.full(masks.shape[1], 64)).rows(0, len(masks)) & masks

    def blocks(self) -> list[tuple[int, int]]:
        """First row and number of rows of each masked message: the same for all parties."""
        size = block_rows(sum(int(bits.sum()) for bits in self.bits.values()))
        return [(first, min(size, self.rows - first)) for first in range(0, self.rows, size)] if self.pairs else []


def block_rows(bits: int) -> int:
    """Rows of so many bits, over all parties, that one block takes: the coordinator holds a few blocks at a time."""
    return max(1, 8 * BLOCK_BYTES // max(1, bits))


# ------------------------------------------------------------------------------------------------ who is lost


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


# ------------------------------------------------------------------------------------------------ a party's side


def exchange_seeds(
    digest: bytes, partners: tuple[str, ...], gate: Gate, losses: Losses, when: str
) -> Program[dict[str, bytes]]:
    """Its own seed and its partners' of a stage, once all parties were told the same of it, partners or not.

    Before that a party releases nothing of the stage: a coordinator that told each party that the others' rows are
    nothing would have each of them noise its part for itself alone. Whoever is lost may be missing, and the label
    holder may not: whoever releases has its word, and it gives one word a stage.
    """
    others = tuple(p for p in losses.rest(losses.roster.parties) if p != gate.node)
    mine, for_the_rest = Seed(*gate.seed(digest)), Seed(*gate.seed(digest, shown=False))
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


def upload(
    stage: Stage, gate: Gate, seeds: Mapping[str, bytes], matrix: Rows, bound: int, losses: Losses
) -> Program[dict[Pair, Integers]]:
    """Masked rows to the coordinator, block after block; its correction of each pair, without noise, once the
    coordinator asks for parts and has said who is lost.

    `matrix` is asked for every block of rows once, in order; `bound` is the public bound of its entries. A correction
    has the rows of the pair's first party.
    """
    me, corrections = gate.node, Corrections(stage, gate, seeds)
    request = yield from receive(COORDINATOR, Next | SendParts)
    for number, (first, count) in enumerate(stage.blocks() or whole_table(stage)):
        rows = matrix(first, count)
        if me in stage.uploading:
            if not isinstance(request, Next):
                raise ProtocolError(f"{COORDINATOR!r} asked for parts before all rows had come")
            masked = Masked(gate.masked(rows, corrections.masks[me]))
            corrections.add(number, first, rows, bound)
            request = yield from ask_one(COORDINATOR, masked, Next | SendParts)
    if not isinstance(request, SendParts):
        raise ProtocolError(f"{COORDINATOR!r} asked for more rows than there are")
    if stage.pairs:  # else nothing is left out, and the coordinator has waited for nobody since seeds were due
        losses.told(request.lost, me, STAGES[stage.name])
    return corrections.covered(losses.lost)


class Corrections:
    """What a party subtracts from the coordinator's totals: -XₖᵀUₗ - Dₖₗ for each of its partners l."""

    def __init__(self, stage: Stage, gate: Gate, seeds: Mapping[str, bytes]) -> None:
        self.stage, self.gate, self.me = stage, gate, gate.node
        # Of those who are lost there may be no seed.
        self.partners = {
            p: pair for pair in stage.pairs if self.me in pair for p in pair if p != self.me and p in seeds
        }
        self.masks = {party: stage.mask(party, seed, gate.run) for party, seed in seeds.items()}
        behind, before = (
            [p for p, pair in self.partners.items() if (pair[0] == self.me) == me] for me in (True, False)
        )
        self.sides = [Side([self.masks[p] for p in side], stage.bits[self.me]) for side in (behind, before)]
        self.totals = dict(zip(behind + before, self.sides[0].totals + self.sides[1].totals, strict=True))

    def add(self, number: int, first: int, rows: Integers, bound: int) -> None:
        """One block of rows. D: the first of a pair multiplies both masks of even blocks, the second of odd ones."""
        own = self.masks[self.me]
        for side, both in zip(self.sides, (number % 2 == 0, number % 2 == 1), strict=True):
            if side.masks:  # XᵀUₗ + UₖᵀUₗ = (X + Uₖ)ᵀUₗ
                side.add(first, rows, own.rows(first, len(rows)) if both else None, bound)

    def covered(self, lost: Collection[str] = ()) -> dict[Pair, Integers]:
        """With R, which the first of a pair adds and the second subtracts: without it the coordinator, who sees every
        masked row, could read rows off what it is sent."""
        found = {}
        for partner, pair in ((p, pair) for p, pair in self.partners.items() if p not in lost):
            between, total = self.stage.between(self.gate, pair), -self.totals[partner].view(np.uint64)
            found[pair] = (total + between if pair[0] == self.me else total.T - between) & self.stage.masks(pair)
        return found


class Side:
    """The partners behind a party in the roster, or those before it: products of its rows with their masks."""

    def __init__(self, masks: list[ColumnPad], bits: Integers) -> None:
        self.masks, self.bits = masks, bits
        self._theirs = np.concatenate([NO_COLUMNS, *(mask.bits for mask in masks)])
        self._ends = np.cumsum([mask.bits.size for mask in masks], dtype=int).tolist()
        self._total = np.zeros((bits.size, self._theirs.size), np.int64)
        self._room = np.empty((FLOAT_ROWS, bits.size)), np.empty((FLOAT_ROWS, self._theirs.size))
        self._cuts: dict[bool, Cut | None] = {}

    @property
    def totals(self) -> list[Integers]:
        """Of each partner, where its products are added up."""
        return [self._total[:, end - mask.bits.size : end] for mask, end in zip(self.masks, self._ends, strict=True)]

    def add(self, first: int, rows: Integers, own: Integers | None, bound: int) -> None:
        """The products of rows whose public bound is given, or of rows under their own mask."""
        known = own is None
        if known not in self._cuts:
            thin = is_thin(self.bits, self._theirs)
            self._cuts[known] = None if thin else Cut.of(self.bits, self._theirs, bound if known else None)
        if (cut := self._cuts[known]) is None:
            left = rows if own is None else np.add(rows, own, dtype=own.dtype, casting="unsafe")
            for mask, total in zip(self.masks, self.totals, strict=True):
                theirs = mask.rows(first, len(rows))
                total += cross(left, theirs, self.bits, mask.bits, bound_a=bound if known else None).view(np.int64)
            return
        x, y = self._room
        for block in cut.blocks(len(rows)):
            count = block.stop - block.start
            residues(rows[block], self.bits, x, mask=None if own is None else own[block])
            for mask, end in zip(self.masks, self._ends, strict=True):
                residues(mask.rows(first + block.start, count), mask.bits, y, end - mask.bits.size)
            cut.add(x[:count], 0, y[:count], self._total)


NO_COLUMNS = np.zeros(0, np.int64)


def whole_table(stage: Stage) -> list[tuple[int, int]]:
    """Blocks of rows where nobody has a partner: a party reads its table all the same."""
    size = block_rows(64 * max((bits.size for bits in stage.bits.values()), default=1))
    return [(first, min(size, stage.rows - first)) for first in range(0, stage.rows, size)]


# ------------------------------------------------------------------------------------------------ the coordinator


class First:
    """The first party of some pairs: its masked columns times those of the others, which lie side by side."""

    def __init__(self, stage: Stage, party: str, ends: Mapping[str, int]) -> None:
        others, bits = [other for first, other in stage.pairs if first == party], stage.bits
        begin, end = ends[others[0]] - bits[others[0]].size, ends[others[-1]]
        self._left, self._span = ends[party] - bits[party].size, slice(begin, end)
        theirs = np.concatenate([bits[name] for name, last in ends.items() if begin < last <= end])
        self._total = np.zeros((bits[party].size, end - begin), np.int64)
        self.totals: dict[Pair, Integers] = {  # of each pair, where its products are added up
            (party, other): self._total.view(np.uint64)[:, ends[other] - bits[other].size - begin : ends[other] - begin]
            for other in others
        }
        self.cut = None if is_thin(bits[party], theirs) else Cut.of(bits[party], theirs)

    def add(self, residues: Floats) -> None:
        """A few rows of all parties."""
        assert self.cut is not None
        self.cut.add(residues, self._left, residues[:, self._span], self._total)


@dataclass
class Totals:
    """What the coordinator adds up in one stage. It keeps neither a masked row nor a single correction."""

    stage: Stage
    own: Mapping[str, int]  # by party: how many parts it computes alone
    lost: tuple[str, ...] = ()  # whom parties were told to leave out of their parts
    parts: dict[str, tuple[Integers, ...]] = field(default_factory=dict)  # of each party, those that it computed alone
    cross: dict[Pair, Integers] = field(init=False)  # totals; with both corrections the products and their noise

    def __post_init__(self) -> None:
        bits, stage = self.stage.bits, self.stage
        self.blocks = stage.blocks()
        self.done = 0  # blocks
        self._ends = dict(
            zip(stage.uploading, np.cumsum([bits[p].size for p in stage.uploading]).tolist(), strict=True)
        )
        self._firsts = [First(stage, party, self._ends) for party in dict(stage.pairs)]
        self.cross = {pair: total for first in self._firsts for pair, total in first.totals.items()}
        cuts = [first.cut for first in self._firsts]
        self._as_residues = None not in cuts
        at_once = min((cut.rows for cut in cuts if cut is not None), default=0)
        self._room = np.empty((at_once, max(self._ends.values(), default=0)))

    @property
    def name(self) -> str:
        return f"totals of {self.stage.name}"

    def add(self, inbox: Inbox) -> None:
        """One block of masked rows of everybody, or everybody's parts."""
        if all(isinstance(came, Masked) for came in inbox.values()):
            self._multiply({party: came.rows.value for party, came in inbox.items()})
        else:
            for party in inbox:
                self._correct(party, [part.value for part in expect(inbox, party, Parts).parts])

    def _multiply(self, came: Mapping[str, bytes]) -> None:
        if self.done == len(self.blocks):
            raise ProtocolError(f"masked rows came after all {self.stage.rows:,} rows had come")
        _, count = self.blocks[self.done]
        self.done += 1
        for party, packed in came.items():
            if len(packed) != rows_size(count, self.stage.bits[party]):
                raise ProtocolError(f"{party!r} sent {len(packed):,} bytes for {count:,} masked rows")
        bits = self.stage.bits
        if not self._as_residues:
            words = {party: unpack_rows(packed, count, bits[party]) for party, packed in came.items()}
            for (k, m), total in self.cross.items():
                if k in words and m in words:
                    total += cross(words[k], words[m], bits[k], bits[m])
            return
        packed_rows = {party: PackedRows(packed, count, bits[party]) for party, packed in came.items()}
        at_once = len(self._room)
        for begin in range(0, count, at_once):
            part = self._room[: min(at_once, count - begin)]
            for party, end in self._ends.items():
                if party in packed_rows:
                    packed_rows[party].residues(begin, part, end - bits[party].size)
                else:
                    part[:, end - bits[party].size : end] = 0.0
            for first in self._firsts:
                first.add(part)

    def _correct(self, party: str, parts: list[Packed]) -> None:
        own, partners = self.own[party], [p for p in self.stage.partners(party) if p not in self.lost]
        if len(parts) != own + len(partners):
            raise ProtocolError(f"{party!r} sent {len(parts)} parts where {own + len(partners)} were due")
        self.parts[party] = tuple(part.values for part in parts[:own])
        for partner, part in zip(partners, parts[own:], strict=True):
            pair = (party, partner) if (party, partner) in self.cross else (partner, party)
            if part.values.shape != self.cross[pair].shape:
                raise ProtocolError(f"{party!r} sent a correction of shape {part.values.shape} for {partner!r}")
            self.cross[pair] += part.values

    def products(self) -> dict[Pair, Integers]:
        """The noisy products of every pair of which both sent their parts, each entry in its ring."""
        whole = {pair: total for pair, total in self.cross.items() if set(pair) <= self.parts.keys()}
        return {pair: total & self.stage.masks(pair) for pair, total in whole.items()}

    def save(self) -> tuple[Any, ...]:
        # It is written for every block: in half the bytes where no ring needs more.
        most = max((int(bits.max(initial=1)) for bits in self.stage.bits.values()), default=1)
        words = np.uint32 if most <= 32 else np.uint64
        totals = tuple(total.astype(words) for total in self.cross.values())
        return self.done, totals, tuple(self.parts), tuple(self.parts.values())

    def load(self, saved: tuple[Any, ...]) -> None:
        self.done, products, parties, parts = saved
        for total, product in zip(self.cross.values(), products, strict=True):
            total[:] = product
        self.parts = dict(zip(parties, parts, strict=True))  # none before all have come


def collect(stage: Stage, own: Mapping[str, int], losses: Losses) -> Program[Totals]:
    """Everybody's masked rows, block after block, and then everybody's parts: added up and forgotten."""
    totals, blocks, when = Totals(stage, own), len(stage.blocks()), STAGES[stage.name]
    for _ in range(min(AHEAD - 1, blocks)):
        yield Post(dict.fromkeys(losses.rest(stage.uploading), Next()), ())
    for number in range(blocks):
        here = losses.rest(stage.uploading)
        more = dict.fromkeys(here, Next()) if number + AHEAD <= blocks else {}
        losses.hear((yield Post(more, here, fold=totals)), when)
    totals.lost, parties = tuple(losses.lost), losses.rest(losses.roster.parties)
    losses.hear((yield Post(dict.fromkeys(parties, SendParts(losses.places)), parties, fold=totals)), when)
    return totals
