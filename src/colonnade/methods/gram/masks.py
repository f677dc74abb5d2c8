"""Products of columns held by different parties, computed on masked numbers: a blind coordinator multiplies.

Solves   XₖᵀXₗ for pairs of parties, entry (i, j) modulo 2^min(wᵢ, wⱼ), plus what each party adds to its correction.
Source   ours: Beaver's multiplication with the roles turned. No dealer: parties draw masks for each other, and the
         coordinator, who knows none, multiplies what is masked. An upload serves all partners.
Steps    every party tells its partners, sealed, the seed of its mask Uₖ and what it was told of the stage; it goes on
         when all of them were told the same. Eₖ = Xₖ + Uₖ goes to the coordinator, a block of rows at a time. It adds
         EₖᵀEₗ to a total and forgets Eₖ. Party k < l then sends -XₖᵀUₗ - Dₖₗ + R, l sends -UₖᵀXₗ - Dₗₖ - R, each with
         its noise; Dₖₗ + Dₗₖ = UₖᵀUₗ, k takes the even blocks of rows. Total and corrections give XₖᵀXₗ and the noise.
Why      a stage is one mechanism. Its noise is for all who were told of it, so that whatever part of it leaves, under
         whatever pretext, is a part of what was paid for: docs/understand/privacy/secure-products.md.
Leaves   Eₖ, uniform to whoever lacks Uₖ (the coordinator); corrections, uniform but for their sum to whoever lacks R
         (the coordinator). Both sealed: whoever knows Uₖ or R (a partner) may never see them.
Assumes  all follow the protocol, and the coordinator pools nothing with a party: together with one it reads the columns
         of that party's partners. docs/understand/privacy/secure-products.md, Secure products.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Integers
from colonnade.kernels.bits import rows_size
from colonnade.kernels.ring import Ring, add_squares
from colonnade.kernels.ring_products import Pair, PairProducts, Side, ring_masks
from colonnade.methods.gram.plan import OWN, Figures, PlannedGram, RunPlan, StageName, noise_sd
from colonnade.methods.gram.products import (
    STAGES,
    Collected,
    Diagonal,
    Masked,
    Next,
    Outcome,
    Parts,
    SendDiagonal,
    SendParts,
    Widths,
    charges,
    check_widths,
    collect_in_stages,
    own_count,
    release_in_stages,
    sums_weights,
)
from colonnade.methods.gram.rows import MOST_BITS, OwnMatrix, Prepared, SumsOfRows
from colonnade.methods.meeting import Losses
from colonnade.methods.method import Finish
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, MASKED, Audience, Charge, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import ColumnPad
from colonnade.privacy.values import Packed, Private
from colonnade.runtime.program import COORDINATOR, Inbox, Post, Program, ask_one, expect, receive
from colonnade.runtime.wire import public_digest

Rows = Callable[[int, int], Integers]  # first row, how many: those rows as integers
BLOCK_BYTES = 3 << 20  # of the masked messages that all parties send for one block of rows
AHEAD = 2  # masked blocks that a party may be asked for before the first has come
ROOM = 1e-9  # of the longest column's square
JOINT_EXACT = "the exact Gram matrix of all columns, constant and labels"


@dataclass(frozen=True)
class Stage:
    """One exchange: its public figures. Masks of different stages never meet, and neither do those of parties that were
    told different figures."""

    name: StageName
    rows: int
    bits: Mapping[str, Integers]  # by party, in roster order: the ring of each column of its matrix
    pairs: tuple[Pair, ...]  # who multiplies with whom, the first one before the second in the roster
    digest: bytes  # of all that the parties were told of it

    @classmethod
    def of(cls, plan: RunPlan, figures: Figures, digest: bytes, bits: Mapping[str, Integers] | None = None) -> Stage:
        """The exchange that a release takes; the rings of joint follow from what left before, those of a release before
        which no lengths have left are all the same."""
        if bits is None:
            bits = {party: np.full(width, figures.bits, np.int64) for party, width in figures.widths.items()}
        return cls(figures.name, figures.rows, bits, figures.pairs(plan.job), digest)

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


# ------------------------------------------------------------------------------------------------ a party


def release_gram(
    plan: RunPlan, prepared: Prepared, matrix: OwnMatrix, seeds: Mapping[str, bytes], losses: Losses
) -> Program[Parts]:
    """Its squared lengths, then masked rows in the rings that these give, then all the rest: one mechanism."""
    gate = matrix.gate
    layout = prepared.layout
    me = gate.node
    sensitivity = plan.sensitivity(prepared.figures)
    width = matrix.width
    diagonal, triangle, column_sums = layout.weights(me)
    yield from receive(COORDINATOR, SendDiagonal)
    squares = np.zeros(width, np.int64)
    for first, count in whole_table(Stage.of(plan, prepared.figures, prepared.digest)):
        add_squares(matrix.read(first, count), squares)
    sent = matrix.squares_sent
    if plan.exact:
        released = gate.exact(_packed(squares[:sent], OWN.mask))
    else:
        (released,) = gate.integers(
            Private((squares[:sent],), sensitivity),
            (diagonal[:sent],),
            (OWN.mask,),
            rho=plan.rho(StageName.JOINT),
            scope=Scope.JOINT,
            audience=plan.audience,
            more=True,
        )
    told = yield from ask_one(COORDINATOR, Diagonal(released), Widths)
    stage = Stage.of(plan, prepared.figures, prepared.digest, layout.by_party(check_widths(layout, told)))
    matrix.rows.shortened = 0  # they are read, and counted, again
    corrections = yield from upload(stage, gate, seeds, matrix.add_up, matrix.bound, losses)
    values = (matrix.products[np.triu_indices(width, 1)], matrix.sums, *corrections.values())
    masks: tuple[Any, ...] = (OWN.mask, OWN.mask, *(stage.masks(pair) for pair in corrections))
    if plan.exact:
        return Parts(gate.exact(*(_packed(part, mask) for part, mask in zip(values, masks, strict=True))))
    weights = (triangle, column_sums, *(layout.cross_weights(pair) for pair in corrections))
    return Parts(gate.the_rest(Private(values, sensitivity), weights, masks))


def release_sums(
    plan: RunPlan, prepared: Prepared, sums: SumsOfRows, seeds: Mapping[str, bytes], losses: Losses
) -> Program[Parts]:
    """Squares of its columns that are not binary; class sums, by itself or with the label holder; the class size."""
    figures = prepared.figures
    gate = sums.gate
    stage = Stage.of(plan, prepared.figures, prepared.digest)
    corrections = yield from upload(stage, gate, seeds, sums.read, sums.bound, losses)
    own = sums.own()
    parts = gate.integers(
        Private((*own, *corrections.values()), plan.sensitivity(figures)),
        (*sums_weights(figures, len(own)), *(1.0 for _ in corrections)),
        (*(OWN.mask for _ in own), *(stage.masks(pair) for pair in corrections)),
        rho=plan.rho(StageName.SUMS),
        scope=Scope.JOINT,
        audience=plan.audience,
    )
    return Parts(parts)


def _packed(part: Integers, mask: Any) -> Packed:
    """Integers in their rings, as they are."""
    limit = np.asarray(mask, np.uint64)
    return Packed(np.array(part).astype(np.uint64) & limit, max(1, int(limit.max(initial=1)).bit_length()))


def upload(
    stage: Stage, gate: Gate, seeds: Mapping[str, bytes], matrix: Rows, bound: int, losses: Losses
) -> Program[dict[Pair, Integers]]:
    """Masked rows to the coordinator, block after block; its correction of each pair, without noise, once the
    coordinator asks for parts and has said who is lost.

    `matrix` is asked for every block of rows once, in order; `bound` is the public bound of its entries. A correction
    has the rows of the pair's first party.
    """
    me = gate.node
    corrections = Corrections(stage, gate, seeds)
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
    # Else nothing is left out, and the coordinator has waited for nobody since seeds were due.
    if stage.pairs:
        losses.told(request.lost, me, STAGES[stage.name])
    return corrections.covered(losses.lost)


class Corrections:
    """What a party subtracts from the coordinator's totals: -XₖᵀUₗ - Dₖₗ for each of its partners l."""

    def __init__(self, stage: Stage, gate: Gate, seeds: Mapping[str, bytes]) -> None:
        self.stage = stage
        self.gate = gate
        self.me = gate.node
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
            between = self.stage.between(self.gate, pair)
            total = -self.totals[partner].view(np.uint64)
            found[pair] = (total + between if pair[0] == self.me else total.T - between) & self.stage.masks(pair)
        return found


def whole_table(stage: Stage) -> list[tuple[int, int]]:
    """Blocks of rows where nobody has a partner: a party reads its table all the same."""
    size = block_rows(64 * max((bits.size for bits in stage.bits.values()), default=1))
    return [(first, min(size, stage.rows - first)) for first in range(0, stage.rows, size)]


# ------------------------------------------------------------------------------------------------ the coordinator


def collect_sums(plan: RunPlan, prepared: Prepared, gate: Gate, losses: Losses) -> Program[Collected]:
    """Class sums; in a consortium noised here, before anything else is done with them."""
    job = plan.job
    figures = prepared.figures
    stage = Stage.of(plan, prepared.figures, prepared.digest)
    ring = Ring(figures.bits)
    own = {name: own_count(job, figures, name) for name in job.roster.parties}
    totals = yield from collect(stage, own, losses)
    got = Collected(totals.parts, totals.products())
    losses.came(totals.parts, "class sums")
    if plan.audience is not Audience.ALL:
        weights = [w for parts in got.own.values() for w in sums_weights(figures, len(parts))] + [1.0] * len(got.cross)
        exact, masks = _flat(got, stage)
        privately = Private(exact, plan.sensitivity(figures))
        released = gate.integers(privately, tuple(weights), masks, rho=plan.rho(StageName.SUMS), scope=Scope.JOINT)
        got = _like(got, [part.value.values for part in released])
    return replace(got, cross={pair: ring.signed(part) for pair, part in got.cross.items()})


def collect_gram(plan: RunPlan, prepared: Prepared, gate: Gate, losses: Losses) -> Program[Collected]:
    """The Gram matrix: squared lengths first, then the rest in rings that fit."""
    job = plan.job
    figures = prepared.figures
    layout = prepared.layout
    parties = losses.rest(job.roster.parties)
    fixed = job.problem.loss.classifies
    squares = Diagonals({name: figures.widths[name] - (fixed and name == job.roster.label) for name in parties})
    losses.hear((yield Post(dict.fromkeys(parties, SendDiagonal()), parties, fold=squares)), STAGES[StageName.JOINT])
    losses.came(squares.values, "squared lengths")
    parties = losses.rest(parties)
    lengths = dict(squares.values)
    if plan.audience is not Audience.ALL:
        # Beside the fold, which is saved as it came: a replay must give the gate the same numbers again.
        lengths = _noised_lengths(plan, prepared, gate, squares, parties)
    diagonal = np.zeros(layout.owner.size)
    for name, values in lengths.items():
        diagonal[layout.mine(name)[: values.size]] = OWN.signed(values)
    # Without noise: beside products there is room for what floats of them are rounded by.
    room = ROOM * float(diagonal.max(initial=0.0))
    rho = plan.rho(StageName.JOINT)
    rings = layout.fit(diagonal, room if plan.exact else noise_sd(plan.sensitivity(figures), rho, 1.0))
    stage = Stage.of(plan, prepared.figures, prepared.digest, layout.by_party(rings.bits))
    yield Post(dict.fromkeys(parties, Widths(rings.bits)), ())
    totals = yield from collect(stage, dict.fromkeys(parties, 2), losses)
    got = Collected(totals.parts, totals.products())
    if plan.audience is not Audience.ALL:
        got = _noised_rest(plan, prepared, gate, got, stage)
    cross = {(k, m): rings.lift(part, layout.mine(k), layout.mine(m)) for (k, m), part in got.cross.items()}
    return Collected({name: (lengths[name], *parts) for name, parts in got.own.items()}, cross)


def _noised_lengths(
    plan: RunPlan, prepared: Prepared, gate: Gate, squares: Diagonals, parties: tuple[str, ...]
) -> dict[str, Integers]:
    """In a consortium: the squared lengths of all columns, with noise."""
    weights = [prepared.layout.weights(name)[0][: squares.widths[name]] for name in parties]
    released = gate.integers(
        Private(tuple(squares.values.values()), plan.sensitivity(prepared.figures)),
        tuple(weights),
        tuple(OWN.mask for _ in parties),
        rho=plan.rho(StageName.JOINT),
        scope=Scope.JOINT,
        more=True,
    )
    return {name: part.value.values for name, part in zip(parties, released, strict=True)}


def _noised_rest(plan: RunPlan, prepared: Prepared, gate: Gate, got: Collected, stage: Stage) -> Collected:
    """In a consortium: all other parts, of the same mechanism."""
    layout = prepared.layout
    exact, masks = _flat(got, stage)
    own = [weight for name in got.own for weight in layout.weights(name)[1:]]
    between = [layout.cross_weights(pair) for pair in got.cross]
    released = gate.the_rest(Private(exact, plan.sensitivity(prepared.figures)), (*own, *between), masks)
    return _like(got, [part.value.values for part in released])


def _flat(got: Collected, stage: Stage) -> tuple[tuple[Integers, ...], tuple[Any, ...]]:
    """All parts of a release in a row, and their rings."""
    own = [part for parts in got.own.values() for part in parts]
    masks = (*(OWN.mask for _ in own), *(stage.masks(pair) for pair in got.cross))
    return (*own, *got.cross.values()), masks


def _like(got: Collected, values: Sequence[Integers]) -> Collected:
    """Other values in the form of `got`."""
    one = iter(values)
    own = {name: tuple(next(one) for _ in parts) for name, parts in got.own.items()}
    return Collected(own, {pair: next(one) for pair in got.cross})


@dataclass
class Diagonals:
    """The squared lengths of all columns: noisy, or inside a consortium exact, and then not kept either."""

    widths: Mapping[str, int]  # by party: how many it has to tell
    values: dict[str, Integers] = field(default_factory=dict)
    name: str = "diagonals"

    def add(self, inbox: Inbox) -> None:
        for party in inbox:
            came = expect(inbox, party, Diagonal).squares.value.values
            if came.shape != (self.widths[party],):
                raise ProtocolError(f"{party!r} sent {came.size} squared lengths for {self.widths[party]} columns")
            self.values[party] = came

    def save(self) -> tuple[Any, ...]:
        return tuple(self.values), tuple(self.values.values())

    def load(self, saved: tuple[Any, ...]) -> None:
        self.values = dict(zip(*saved, strict=True))


@dataclass
class Totals:
    """What the coordinator adds up in one stage. It keeps neither a masked row nor a single correction."""

    stage: Stage
    own: Mapping[str, int]  # by party: how many parts it computes alone
    lost: tuple[str, ...] = ()  # whom parties were told to leave out of their parts
    parts: dict[str, tuple[Integers, ...]] = field(default_factory=dict)  # of each party, those that it computed alone
    cross: dict[Pair, Integers] = field(init=False)  # totals; with both corrections the products and their noise

    def __post_init__(self) -> None:
        self.blocks = self.stage.blocks()
        self.done = 0
        self._products = PairProducts(self.stage.bits, self.stage.pairs)
        self.cross = self._products.totals

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
        self._products.add(came, count)

    def _correct(self, party: str, parts: list[Packed]) -> None:
        own = self.own[party]
        partners = [p for p in self.stage.partners(party) if p not in self.lost]
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
    totals = Totals(stage, own)
    blocks = len(stage.blocks())
    when = STAGES[stage.name]
    for _ in range(min(AHEAD - 1, blocks)):
        yield Post(dict.fromkeys(losses.rest(stage.uploading), Next()), ())
    for number in range(blocks):
        here = losses.rest(stage.uploading)
        more = dict.fromkeys(here, Next()) if number + AHEAD <= blocks else {}
        losses.hear((yield Post(more, here, fold=totals)), when)
    totals.lost = tuple(losses.lost)
    parties = losses.rest(losses.roster.parties)
    losses.hear((yield Post(dict.fromkeys(parties, SendParts(losses.places)), parties, fold=totals)), when)
    return totals


# ------------------------------------------------------------------------------------------------ the form


@dataclass(frozen=True)
class Masks:
    """The form for trust "secure" and "consortium", and for exact runs."""

    plan: RunPlan
    spares: ClassVar[bool] = True

    @property
    def remarks(self) -> tuple[str, ...]:
        return ()

    def check(self) -> None:
        """Rings grow as they must."""

    def fits(self, planned: PlannedGram) -> bool:  # noqa: ARG002  whatever is planned
        return True

    def with_plan(self, plan: RunPlan) -> Masks:
        return Masks(plan)

    def price(self) -> dict[str, Plan]:
        """Masked rows at the most that they can be."""
        roster = self.plan.job.roster
        stages = len(self.plan.stages)
        widths = sum(len(places) + 2 for places in roster.positions.values())
        blocks = stages * -(-roster.rows // block_rows(widths * MOST_BITS))
        hidden = Charge(MASKED, blocks, "its columns under one-time masks, to the coordinator only, who has no mask")
        if not self.plan.exact:
            return charges(self.plan, hidden)
        plans: dict[str, Plan] = dict.fromkeys(roster.parties, (Charge(EXACT, 2, JOINT_EXACT), hidden))
        if self.plan.asks_largest:
            largest = Charge(EXACT, 1, "a power of two above all labels")
            plans[roster.label] = (largest, *plans[roster.label])
        return plans

    def release(self, block: Block, gate: Gate) -> Program[tuple[Finish, int]]:
        return release_in_stages(self, block, gate)

    def collect(self, gate: Gate) -> Program[Outcome]:
        return collect_in_stages(self, gate)

    def partners(self, told: Prepared, me: str) -> tuple[str, ...]:
        return told.partners(me)

    def release_stage(
        self, told: Prepared, own: SumsOfRows | OwnMatrix, seeds: Mapping[str, bytes], losses: Losses
    ) -> Program[Parts]:
        if isinstance(own, SumsOfRows):
            return release_sums(self.plan, told, own, seeds, losses)
        return release_gram(self.plan, told, own, seeds, losses)

    def collect_stage(self, told: Prepared, gate: Gate, losses: Losses) -> Program[Collected]:
        return (collect_sums if told.figures.name == StageName.SUMS else collect_gram)(self.plan, told, gate, losses)
