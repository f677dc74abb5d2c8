"""Products of columns held by two parties, computed by the two alone: plain learning with errors, no third party.

Solves   XₖᵀXₗ for pairs of parties, with the noise that each of the two adds. Trust "parties".
Source   ours, from kernels/lwe.py: of two parties the one with fewer columns sends, the other one receives.
Steps    in lockstep, block of rows by block of rows: a sender gives every receiver its next rows under encryption, and
         a receiver says that it is ready for the next. Then a receiver answers every sender with W, the same for all,
         and B = bᵀ[r; Y] + noise, and a sender opens what it got, adds its own noise, and lets it leave: its own sums
         and its answers in one call of the gate, what it opened in a second one, of the same mechanism. The coordinator
         asks for everybody's parts, and reads products off what senders opened. It multiplies nothing.
Fits     what class sums advise may not fit under encryption (rows that are shorter or longer than they were). Rows as
         they are are known before a run: where they do not fit, nothing is sent and nothing is paid for; where only the
         advice does not, rows stay as they are.
Leaves   b and W, uniform numbers to whoever lacks the secrets; B, to which its receiver has added its full noise; and
         what a sender opened, to which it has added its own.
Assumes  nobody solves learning with errors with the hints that published sums give; all follow the protocol, and may
         pool what they have. docs/understand/privacy/lwe.md, products by LWE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Integers
from colonnade.kernels.lwe import hidden_size, inner, unpack_hidden
from colonnade.methods.gram.masks import BLOCK_BYTES, Rows
from colonnade.methods.gram.plan import HALF, OWN, Figures, PlannedGram, RunPlan, StageName, noise_sd
from colonnade.methods.gram.products import (
    Collected,
    Outcome,
    Parts,
    SendParts,
    charges,
    collect_in_stages,
    own_count,
    release_in_stages,
    sums_weights,
)
from colonnade.methods.gram.rows import Layout, OwnMatrix, Prepared, SumsOfRows
from colonnade.methods.gram.rule import whole_frame
from colonnade.methods.meeting import Losses
from colonnade.methods.method import Finish
from colonnade.model.job import Job
from colonnade.privacy.block import Block
from colonnade.privacy.events import HIDDEN, Charge, Plan, Scope
from colonnade.privacy.exchange import Exchange, Mechanism, Side, check_failure, fitting, secrets_of, settle
from colonnade.privacy.gate import Gate
from colonnade.privacy.lattice import TABLE, Blinding, Hiding, public_product
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Packed, Private, Released
from colonnade.runtime.program import COORDINATOR, Post, Program, ask, expect, message, public_bytes, receive

HELD = 1 << 23  # entries of a party's matrix that it holds at a time
SENT_BITS = {StageName.SUMS: 32, StageName.JOINT: 20}  # of a masked entry, about: what rings that fit come to
HIDDEN_BITS = 27  # of an encrypted one, about
FEWER = 8.0  # times fewer bytes: what makes up for its processor time, and for one more assumption
WORTH = 1e8  # bytes that masked columns take, from which any of it matters


@message(149)
class Across:
    """Party → party, sealed: to a receiver my next rows under encryption; to a sender that I am ready for more, and at
    the end my answer, W and B."""

    rows: Released[bytes]
    answer: tuple[Released[Packed], ...]


def block_rows(bits: int, widest: int) -> int:
    """Rows of one block: of so many bits over all senders, and of so many columns at the widest party."""
    return max(1, min(8 * BLOCK_BYTES // max(1, bits), HELD // max(1, widest)))


def blocks(exchange: Exchange) -> list[tuple[int, int]]:
    """First row and number of rows of each message: the same for all parties."""
    travel = exchange.lattice.bits - exchange.cut
    bits = travel * sum(exchange.sides[party].width for party in exchange.sending)
    rows = exchange.mechanism.rows
    size = block_rows(bits, max(side.width for side in exchange.sides.values()))
    return [(first, min(size, rows - first)) for first in range(0, rows, size)]


class Line(Protocol):
    """How a party's rows and answers come to its partners, and theirs to it: once a round, everybody in step. A party
    without partners takes part, too: it may stand between others."""

    def rows(self, rows: Released[bytes]) -> Program[dict[str, bytes]]:
        """Rows to receivers, or nothing where there is none; those of each sender."""
        ...

    def answers(
        self, blind: Released[Packed] | None, noisy: Mapping[str, Released[Packed]]
    ) -> Program[dict[str, tuple[Packed, ...]]]:
        """W and, by sender, B; of each receiver its W and the B that is for this party."""
        ...


@dataclass(frozen=True)
class Star:
    """Sealed messages from party to party, through the coordinator."""

    exchange: Exchange
    gate: Gate

    def rows(self, rows: Released[bytes]) -> Program[dict[str, bytes]]:
        me = self.gate.node
        nothing = Across(self.gate.nothing(), ())
        told = Across(rows, ())
        receivers = self.exchange.receivers(me)
        inbox = yield from self._swap({p: told if p in receivers else nothing for p in self.exchange.partners(me)})
        return {sender: inbox[sender].rows.value for sender in self.exchange.senders(me)}

    def answers(
        self, blind: Released[Packed] | None, noisy: Mapping[str, Released[Packed]]
    ) -> Program[dict[str, tuple[Packed, ...]]]:
        me = self.gate.node
        nothing = self.gate.nothing()
        told: dict[str, tuple[Released[Packed], ...]] = {}
        if blind is not None:
            told = {sender: (blind, one) for sender, one in noisy.items()}
        inbox = yield from self._swap({p: Across(nothing, told.get(p, ())) for p in self.exchange.partners(me)})
        return {r: tuple(part.value for part in inbox[r].answer) for r in self.exchange.receivers(me)}

    def _swap(self, to: Mapping[str, Across]) -> Program[dict[str, Across]]:
        if not to:
            return {}
        inbox = yield Post(to, tuple(to))
        return {partner: expect(inbox, partner, Across) for partner in to}


@dataclass
class Products:
    """One party's part of the products of a stage."""

    exchange: Exchange
    gate: Gate
    line: Line
    digest: bytes  # of all that the parties were told of the stage
    bound: int  # public, of the entries of its matrix
    answers: dict[str, NDArray[np.uint64]] = field(default_factory=dict)  # by sender: bᵀ[r; Y], before noise

    @property
    def me(self) -> str:
        return self.gate.node

    @cached_property
    def public(self) -> bytes:
        """The key that A grows from: another one for each run and stage."""
        return public_bytes(self.gate.run, "public matrix", self.digest.hex())

    @cached_property
    def hiding(self) -> Hiding:
        seed = self.gate.lattice_seed(self.digest)
        exchange = self.exchange
        return Hiding(seed, self.public, exchange.lattice, exchange.scales[self.me], exchange.cut)

    @cached_property
    def blinding(self) -> Blinding:
        seed = self.gate.lattice_seed(self.digest)
        exchange = self.exchange
        return Blinding(seed, self.public, exchange.lattice, exchange.sides[self.me].width)

    # ------------------------------------------------------------------------ rows

    def pass_rows(self, matrix: Rows) -> Program[None]:
        """Read all rows once; hide them for receivers, and multiply what senders hid."""
        receivers = self.exchange.receivers(self.me)
        key = self.gate.hidden(self.hiding) if receivers else self.gate.nothing()
        self._start((yield from self.line.rows(key)))
        for first, count in blocks(self.exchange):
            rows = matrix(first, count)
            hidden = self.gate.hidden(self.hiding, rows) if receivers else self.gate.nothing()
            self._multiply((yield from self.line.rows(hidden)), first, rows)

    def _start(self, came: Mapping[str, bytes]) -> None:
        lattice = self.exchange.lattice
        if came:
            width = self.exchange.sides[self.me].width
            self._product: NDArray[np.uint64] = np.zeros((lattice.dimension, width), np.uint64)
        for sender, packed in came.items():
            rows = self._unpacked(sender, packed, lattice.dimension, 0)
            self.answers[sender] = self.blinding.mix(rows).astype(np.uint64)

    def _multiply(self, came: Mapping[str, bytes], first: int, rows: Integers) -> None:
        lattice = self.exchange.lattice
        if came:
            self._product += public_product(rows, first, self.bound, self.public, lattice)
        for sender, packed in came.items():
            theirs = self._unpacked(sender, packed, len(rows), self.exchange.cut)
            self.answers[sender] += inner(rows, theirs, self.bound, lattice)

    def _unpacked(self, sender: str, packed: bytes, count: int, cut: int) -> NDArray[np.uint64]:
        lattice = self.exchange.lattice
        width = self.exchange.sides[sender].width
        if len(packed) != hidden_size(count * width, cut, lattice):
            raise ProtocolError(f"{sender!r} sent {len(packed):,} bytes for {count:,} encrypted rows")
        return unpack_hidden(packed, width, cut, lattice, count)

    # ------------------------------------------------------------------------ answers

    def answer(self, noisy: Mapping[str, Released[Packed]]) -> Program[list[Integers]]:
        """Send every sender its noisy B beside W; what the receivers' answers hold, opened, in their order."""
        exchange = self.exchange
        lattice = self.exchange.lattice
        blind = self.gate.blinded(self.blinding, self._product) if noisy else None
        came = yield from self.line.answers(blind, noisy)
        opened = []
        for receiver in exchange.receivers(self.me):
            parts = came[receiver]
            width = exchange.sides[receiver].width
            mine = exchange.sides[self.me].width
            fits = [part.values.shape for part in parts] == [(lattice.dimension, width), (mine, width)]
            if not fits or any(part.bits != lattice.bits for part in parts):
                raise ProtocolError(f"{receiver!r} sent an answer of other sizes than its {width:,} columns ask for")
            opened.append(self.hiding.reveal(*(part.values for part in parts)))
        return opened


# ------------------------------------------------------------------------------------------------ what fits


def exchange_of(plan: RunPlan, figures: Figures, layout: Layout) -> Exchange:
    """How the products of a stage are computed: from public figures and what left before; or an error."""
    return settle(*_known(plan, figures, layout))


def check_encrypted(plan: RunPlan) -> None:
    """Refuse a run of which a release does not fit under encryption, before any of them is paid for."""
    privacy = plan.job.privacy
    assert privacy is not None
    check_failure(privacy.epsilon, privacy.delta, len(plan.stages))
    if plan.sums is not None:
        exchange_of(plan, plan.sums, Layout(plan.job, plan.sums, whole_frame(plan.columns)))
    planned = plan.plain_gram()
    exchange_of(plan, planned.figures, Layout(plan.job, planned.figures, planned.frame))


def secrets(plan: RunPlan) -> int:
    """Of all its releases: at most so many."""
    first = 0 if plan.sums is None else secrets_of(plan.sums.widths, plan.sums.pairs(plan.job))
    return first + secrets_of(*exchanged(plan.job, StageName.JOINT))


def _known(
    plan: RunPlan, figures: Figures, layout: Layout
) -> tuple[dict[str, Side], tuple[tuple[str, str], ...], Mechanism]:
    sides = _sums_sides(plan, figures) if figures.name == StageName.SUMS else _joint_sides(plan, figures, layout)
    sigma = noise_sd(plan.sensitivity(figures), plan.rho(figures.name), 1.0)
    weight = 1.0 if figures.name == StageName.SUMS else HALF
    sensitivity = plan.bare_sensitivity(figures) / plan.job.roster.unit.rows
    mechanism = Mechanism(figures.rows, sigma, weight, sensitivity, secrets(plan))
    return sides, figures.pairs(plan.job), mechanism


def _joint_sides(plan: RunPlan, figures: Figures, layout: Layout) -> dict[str, Side]:
    found = {}
    for party in plan.job.roster.parties:
        here = layout.mine(party)
        norm2 = figures.norm2[party] + (figures.label**2 if party == plan.job.roster.label else 0)
        units = layout.units[here].astype(float)
        found[party] = Side(layout.entries[here], units, layout.nonnegative[here], float(norm2))
    return found


def _sums_sides(plan: RunPlan, figures: Figures) -> dict[str, Side]:
    found = {}
    columns = plan.columns
    for k, party in enumerate(plan.job.roster.parties):
        here = columns.owner == k
        if party == plan.job.roster.label:  # its weights of either class
            top = np.full(figures.widths[party], float(figures.label))
            found[party] = Side(top, np.ones(top.size), np.ones(top.size, bool), float(figures.label**2))
            continue
        most = np.minimum(columns.bound[here] / figures.step + 1.0, math.isqrt(figures.norm2[party]))
        found[party] = Side(most, np.ones(most.size), columns.nonnegative[here], float(figures.norm2[party]))
    return found


# ------------------------------------------------------------------------------------------------ a party


def own_parts(
    plan: RunPlan, prepared: Prepared, own: SumsOfRows | OwnMatrix, exchange: Exchange, line: Line
) -> Program[tuple[Any, ...]]:
    """What a party lets out in a stage."""
    if isinstance(own, SumsOfRows):
        return sums_parts(plan, prepared, own, exchange, line)
    return gram_parts(plan, prepared, own, exchange, line)


def gram_parts(
    plan: RunPlan, prepared: Prepared, matrix: OwnMatrix, exchange: Exchange, line: Line
) -> Program[tuple[Any, ...]]:
    """The Gram matrix of its own rows, and its part of the products with everybody else's: one mechanism."""
    gate = matrix.gate
    layout = prepared.layout
    width = matrix.width
    products = Products(exchange, gate, line, prepared.digest, matrix.bound)
    yield from products.pass_rows(matrix.add_up)
    diagonal, triangle, column_sums = layout.weights(gate.node)
    sent = matrix.squares_sent
    values = (np.diag(matrix.products)[:sent], matrix.products[np.triu_indices(width, 1)], matrix.sums)
    weights = (diagonal[:sent], triangle, column_sums)
    return (yield from _let_out(plan, prepared, products, values, weights))


def sums_parts(
    plan: RunPlan, prepared: Prepared, sums: SumsOfRows, exchange: Exchange, line: Line
) -> Program[tuple[Any, ...]]:
    """Squares and class sums of its own, and its part of the class sums that it computes with the label holder."""
    products = Products(exchange, sums.gate, line, prepared.digest, sums.bound)
    yield from products.pass_rows(sums.read)
    own = sums.own()
    weights = sums_weights(prepared.figures, len(own))
    return (yield from _let_out(plan, prepared, products, own, weights))


def _let_out(
    plan: RunPlan, prepared: Prepared, products: Products, own: tuple[Integers, ...], weights: tuple[Any, ...]
) -> Program[tuple[Any, ...]]:
    """Its own sums and its answers to senders, then what it opened of its receivers' answers: all with noise."""
    gate = products.gate
    exchange = products.exchange
    me = products.me
    sensitivity = plan.sensitivity(prepared.figures)
    ring = exchange.lattice.ring.mask
    senders = exchange.senders(me)
    released = gate.integers(
        Private((*own, *(products.answers[sender] for sender in senders)), sensitivity),
        (*weights, *(exchange.weights((sender, me)) for sender in senders)),
        (*(OWN.mask for _ in own), *(ring for _ in senders)),
        rho=plan.rho(prepared.figures.name),
        scope=Scope.JOINT,
        more=True,
    )
    opened = yield from products.answer(dict(zip(senders, released[len(own) :], strict=True)))
    rest: tuple[Any, ...] = ()
    if opened:
        routes = [(me, receiver) for receiver in exchange.receivers(me)]
        noise = tuple(exchange.weights(route) for route in routes)
        rest = gate.the_rest(Private(tuple(opened), sensitivity), noise, tuple(ring for _ in routes))
    return (*released[: len(own)], *rest)


# ------------------------------------------------------------------------------------------------ the coordinator


def own_counts(plan: RunPlan, figures: Figures) -> dict[str, int]:
    """By party: how many of its parts it computes alone; in joint the squared lengths are one more."""
    more = 1 if figures.name == StageName.JOINT else 0
    return {name: own_count(plan.job, figures, name) + more for name in plan.job.roster.parties}


def read_parts(
    plan: RunPlan, prepared: Prepared, exchange: Exchange, came: Mapping[str, Sequence[Packed]]
) -> Collected:
    """Everybody's parts; products in units, each pair's first party first."""
    parties = plan.job.roster.parties
    counts = own_counts(plan, prepared.figures)
    own = {}
    cross = {}
    for party in parties:
        parts = [part.values for part in came[party]]
        routes = [(party, receiver) for receiver in exchange.receivers(party)]
        if len(parts) != counts[party] + len(routes):
            raise ProtocolError(f"{party!r} sent {len(parts)} parts where {counts[party] + len(routes)} were due")
        own[party] = tuple(parts[: counts[party]])
        for route, part in zip(routes, parts[counts[party] :], strict=True):
            if part.shape != tuple(exchange.sides[end].width for end in route):
                raise ProtocolError(f"{party!r} sent products of shape {part.shape} with {route[1]!r}")
            lifted = exchange.lift(route, part)
            cross[route if route in exchange.pairs else route[::-1]] = lifted if route in exchange.pairs else lifted.T
    if prepared.figures.name == StageName.JOINT:
        _check_lengths(plan, prepared, own)
    return Collected(own, {pair: cross[pair] for pair in exchange.pairs})


def _check_lengths(plan: RunPlan, prepared: Prepared, own: Mapping[str, tuple[Integers, ...]]) -> None:
    fixed = plan.job.problem.loss.classifies
    for name, (squares, *_) in own.items():
        width = prepared.figures.widths[name]
        if squares.size != width - (fixed and name == plan.job.roster.label):
            raise ProtocolError(f"{name!r} sent {squares.size} squared lengths for {width} columns")


# ------------------------------------------------------------------------------------------------ masks or encryption


def exchanged(job: Job, stage: StageName) -> tuple[dict[str, int], tuple[tuple[str, str], ...]]:
    """Columns of each party's matrix before any is dropped, and whose are multiplied with whose."""
    roster = job.roster
    widths = {party: len(places) for party, places in roster.positions.items()}
    widths[roster.label] = 2 if stage == StageName.SUMS else widths[roster.label] + 1
    parties = [party for party, width in widths.items() if width]
    pairs = tuple((k, m) for i, k in enumerate(parties) for m in parties[i + 1 :])
    return widths, tuple(pair for pair in pairs if stage == StageName.JOINT or roster.label in pair)


def bytes_sent(job: Job, stages: tuple[StageName, ...]) -> tuple[float, float]:
    """About how many bytes of columns a run sends: under masks, once up; and under encryption, up and down again."""
    masked = 0.0
    hidden = 0.0
    for stage in stages:
        widths, pairs = exchanged(job, stage)
        uploading = {party for pair in pairs for party in pair}
        masked += SENT_BITS[stage] * sum(widths[party] for party in uploading)
        hidden += 2 * HIDDEN_BITS * sum(min(widths[k], widths[m]) for k, m in pairs)
    return masked * job.roster.rows / 8, hidden * job.roster.rows / 8


def narrow(job: Job, stages: tuple[StageName, ...]) -> bool:
    """Whether products had better go under encryption with trust "secure", too: where that sends far fewer bytes, since
    every partner is narrow. By public figures alone, so that all parties say the same."""
    masked, hidden = bytes_sent(job, stages)
    return masked >= WORTH and masked >= FEWER * hidden


# ------------------------------------------------------------------------------------------------ the form


@dataclass(frozen=True)
class Lattice:
    """The form for trust "parties"; and for trust "secure" where every partner is narrow."""

    plan: RunPlan
    spares: ClassVar[bool] = False

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a fit says where encryption took the place of masks."""
        asked = self.plan.approved.privacy
        if asked is None or asked.trust == Trust.PARTIES:
            return ()
        masked, hidden = bytes_sent(self.plan.job, self.plan.stages)
        return (
            "products were computed under lattice encryption, as with trust='parties', since every partner is narrow: "
            f"masked columns would have taken about {masked / hidden:.0f} times the bytes",
        )

    def check(self) -> None:
        check_encrypted(self.plan)

    def fits(self, planned: PlannedGram) -> bool:
        layout = Layout(self.plan.job, planned.figures, planned.frame)
        return fitting(*_known(self.plan, planned.figures, layout)) is not None

    def with_plan(self, plan: RunPlan) -> Lattice:
        return Lattice(plan)

    def price(self) -> dict[str, Plan]:
        """Encrypted rows at the most that they can be."""
        roster = self.plan.job.roster
        stages = len(self.plan.stages)
        widths = [len(places) + 2 for places in roster.positions.values()]
        size = block_rows(TABLE[-1].bits * sum(widths), max(widths))
        what = "its columns under lattice encryption, or what it answers to another party's"
        return charges(self.plan, Charge(HIDDEN, stages * (2 - (-roster.rows // size)), what), stages)

    def release(self, block: Block, gate: Gate) -> Program[tuple[Finish, int]]:
        return release_in_stages(self, block, gate)

    def collect(self, gate: Gate) -> Program[Outcome]:
        return collect_in_stages(self, gate)

    def partners(self, told: Prepared, me: str) -> tuple[str, ...]:  # noqa: ARG002  nobody has a mask
        return ()

    def release_stage(
        self,
        told: Prepared,
        own: SumsOfRows | OwnMatrix,
        seeds: Mapping[str, bytes],  # noqa: ARG002  none
        losses: Losses,  # noqa: ARG002  of those who are lost nobody is spared
    ) -> Program[Parts]:
        """To the coordinator: what `own_parts` has."""
        exchange = exchange_of(self.plan, told.figures, told.layout)
        parts = yield from own_parts(self.plan, told, own, exchange, Star(exchange, own.gate))
        yield from receive(COORDINATOR, SendParts)
        return Parts(parts)

    def collect_stage(self, told: Prepared, gate: Gate, losses: Losses) -> Program[Collected]:  # noqa: ARG002
        came = yield from ask(self.plan.job.roster.parties, SendParts(()), Parts)
        exchange = exchange_of(self.plan, told.figures, told.layout)
        parts = {name: [part.value for part in one.parts] for name, one in came.items()}
        return read_parts(self.plan, told, exchange, parts)
