"""A private look at columns without declared figures: bounds, levels and quantiles, at a share of a run's budget.

Solves   which bounds a number has, between which values equally many rows lie, and which levels many rows have.
Source   approximate bounds from a noisy histogram on a public grid (Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo
         and Gipson, 2019) and levels over a threshold (Korolova, Kenthapadi, Mishra and Ntoulas, 2009), as one
         release in zero-concentrated differential privacy.
Steps    1 kinds: of columns of unknown kind, how many cells are numbers, days, or neither; the largest count decides.
         2 ranges and levels: counts over a grid of half octaves, and of levels over a threshold.
         3 quantiles: counts over 64 equal parts of each range.
         What a step asks follows from what was released before it, at the party as at the coordinator.
Leaves   noisy counts; names of levels that enough rows have. Nothing before all parties were told the same figures.
Price    docs/understand/privacy/look.md: the noise is set by all columns of all parties together, each party pays for
         its own, and what they pay adds up to the share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from colonnade.data.schema.column import Column
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.sought import KINDS, SoughtCells, as_kind, levels_found, number_found, with_own_names
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels import histograms
from colonnade.kernels.arrays import Array, Floats, Integers
from colonnade.kernels.histograms import CELLS, PARTS, Range, quantiles, range_of, threshold
from colonnade.methods.meeting import Introduce, Losses, RunKey, Seed, exchange_seeds, introduce, meet
from colonnade.methods.method import MethodBase, check_shape
from colonnade.model.job import Job, Sought
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import Block
from colonnade.privacy.conditions import Condition
from colonnade.privacy.events import Charge, Event, Mechanism, Plan
from colonnade.privacy.gate import Gate, Levels
from colonnade.privacy.mechanisms import gaussian_sigma, tail_from
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Private, Released
from colonnade.problem import LeastSquares
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Program, ask, last, message, receive
from colonnade.runtime.wire import public_digest

OF_KINDS = 0.1  # of a look's share, where columns are of unknown kind
OF_DELTA = 1.0 / 20.0  # of a run's delta, for levels
BY_CHANCE = 0.01  # that an empty cell, of any column, is taken for one that rows lie in
FAINT = 8.0  # cells over which rows may be spread evenly for a look to see them all
WHEN = "before anything was looked at"
THE_KINDS = "noisy counts of cells that are numbers, days or neither, of columns of unknown kind"
THE_RANGES = "noisy counts of cells of a public grid, and the levels that many rows have"
THE_PARTS = "noisy counts of 64 parts of each range"


@message(170)
class SendLook:
    """Coordinator → party: release the counts of your columns."""


@message(171)
class LookParts:
    """Party → coordinator: noisy counts of my columns, and the names of levels that many rows have."""

    kinds: tuple[Released[Array], ...]
    cells: tuple[Released[Array], ...]
    names: tuple[Released[tuple[tuple[str, ...], ...]], ...]
    counts: tuple[Released[tuple[Array, ...]], ...]
    parts: tuple[Released[Array], ...]


REPLIES: Replies = {Introduce: RunKey, None: Seed, SendLook: LookParts}


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Counts:
    """What a party has released: all that a store keeps of it."""

    kinds: Integers = field(default_factory=_none)
    cells: Integers = field(default_factory=_none)
    names: tuple[tuple[str, ...], ...] = ()
    counts: tuple[Integers, ...] = ()
    parts: Integers = field(default_factory=_none)

    @classmethod
    def of(cls, came: LookParts) -> Counts:
        kinds, cells, parts = (one[0].value if one else _none() for one in (came.kinds, came.cells, came.parts))
        names = came.names[0].value if came.names else ()
        counts = came.counts[0].value if came.counts else ()
        return cls(kinds, cells, names, counts, parts)

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        plain = {name: getattr(self, name).tolist() for name in ("kinds", "cells", "parts")}
        return {**plain, "names": list(map(list, self.names)), "counts": [one.tolist() for one in self.counts]}

    @classmethod
    def from_plain(cls, raw: Mapping[str, Any]) -> Counts:
        """What `to_plain` wrote."""
        whole = {name: np.array(raw[name], np.int64) for name in ("kinds", "cells", "parts")}
        names = tuple(tuple(map(str, own)) for own in raw["names"])
        return cls(**whole, names=names, counts=tuple(np.array(own, np.int64) for own in raw["counts"]))


# ------------------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class LookPlan:
    """What a look costs, and the noise of its counts: from public figures, the same at every node."""

    job: Job

    @property
    def sought(self) -> Mapping[str, tuple[Sought, ...]]:
        return self.job.roster.sought

    def count(self, *kinds: str, party: str | None = None) -> int:
        """How many columns are looked at that may be of such a kind, at one party or at all."""
        there = self.sought.values() if party is None else [self.sought.get(party, ())]
        return sum(one.kind in kinds for own in there for one in own)

    def numbers(self, party: str | None = None) -> int:
        return self.count("numeric", "date", "unknown", party=party)

    def levels(self, party: str | None = None) -> int:
        return self.count("categorical", "unknown", party=party)

    def all(self, party: str | None = None) -> int:
        return self.count(*KINDS, "unknown", party=party)

    def unknown(self, party: str | None = None) -> int:
        return self.count("unknown", party=party)

    @cached_property
    def delta(self) -> float:
        """What levels take of the run's delta."""
        assert self.job.privacy is not None
        return OF_DELTA * self.job.privacy.delta if self.levels() else 0.0

    @cached_property
    def rho(self) -> float:
        """The price of the whole look, all parties together."""
        privacy = self.job.privacy
        assert privacy is not None
        return privacy.look * rho_for(privacy.epsilon, privacy.delta - self.delta) * (1.0 - 1e-12)

    @cached_property
    def shares(self) -> tuple[float, float, float]:
        """What kinds, ranges and quantiles cost of it."""
        kinds = OF_KINDS * self.rho if self.unknown() else 0.0
        rest = self.rho - kinds
        return (kinds, rest / 2.0, rest / 2.0) if self.numbers() else (kinds, rest, 0.0)

    def prices(self, party: str) -> tuple[float, float, float]:
        """What a party pays of each: by its columns, so that noise is the same at all of them."""
        kinds, ranges, parts = self.shares
        return (
            kinds * self.unknown(party) / max(self.unknown(), 1),
            ranges * self.all(party) / max(self.all(), 1),
            parts * self.numbers(party) / max(self.numbers(), 1),
        )

    def delta_of(self, party: str) -> float:
        return self.delta * self.levels(party) / max(self.levels(), 1)

    def sensitivity(self, columns: int) -> float:
        """How far the counts of so many columns move when one unit is replaced."""
        return math.nextafter(self.job.roster.unit.rows * math.sqrt(2.0 * columns) * (1 + 2**-50), math.inf)

    def plan(self, party: str) -> Plan:
        kinds, ranges, parts = self.prices(party)
        lines = [
            (Event(Mechanism.HISTOGRAM, kinds, 0.0), THE_KINDS),
            (Event(Mechanism.HISTOGRAM, ranges, 0.0, delta=self.delta_of(party)), THE_RANGES),
            (Event(Mechanism.HISTOGRAM, parts, 0.0), THE_PARTS),
        ]
        return tuple(Charge(event, 1, what) for event, what in lines if event.rho)

    @cached_property
    def sigma(self) -> float:
        """The noise of a count of step 2."""
        return gaussian_sigma(self.sensitivity(self.all()), self.shares[1])

    @cached_property
    def sigma_of_parts(self) -> float:
        """The noise of a count of step 3."""
        return gaussian_sigma(self.sensitivity(self.numbers()), self.shares[2])

    @cached_property
    def over(self) -> float:
        """The count that a cell of the grid must be over for rows to lie there."""
        return threshold(self.sigma, self.all(), BY_CHANCE)

    def least(self, party: str) -> int:
        """What a noisy count must reach for its level to leave: by the noise that this party draws."""
        rows = self.job.roster.unit.rows
        sigma = gaussian_sigma(self.sensitivity(self.all(party)), self.prices(party)[1])
        return rows + tail_from(sigma, self.delta / (rows * self.levels()))

    def check(self) -> None:
        """Refuse a look that would see nothing, by public figures."""
        rows = self.job.roster.rows
        faint = {
            "numeric date unknown": (self.over, "bounds (low and high)"),
            "categorical": (max(map(self.least, filter(self.levels, self.sought)), default=0), "levels"),
        }
        for kinds, (count, figures) in faint.items():
            named = [one.name for own in self.sought.values() for one in own if one.kind in kinds.split()]
            if named and rows < FAINT * count:
                few = f"{rows:,} rows are too few for a look: it would see what {count:,.0f} rows have in common"
                listed = ", ".join(map(repr, named[:8])) + (f" and {len(named) - 8:,} more" if len(named) > 8 else "")
                advice = f"Declare {figures} of {listed}; or allow a larger epsilon, or a larger share with look=."
                raise InvalidInput(f"{few}, of at least {FAINT * count:,.0f}. Nothing was sent. {advice}")


# ------------------------------------------------------------------------------------------------ what was found


@dataclass(frozen=True)
class ColumnLook:
    """What a look released of one column, and what becomes of it."""

    name: str
    kind: str  # as declared, or as the counts of kinds say
    cells: Integers | None  # noisy counts of the grid, of a number or a day
    missing: int  # noisy count
    names: tuple[str, ...] = ()
    counts: Integers = field(default_factory=_none)  # noisy, of these levels
    range: Range | None = None
    parts: Integers | None = None  # noisy counts of the range's parts
    label: bool = False

    def column(self, declared: Column, plan: LookPlan) -> Column | None:
        """The column with its figures; None: it was too faint to see."""
        like = as_kind(declared, self.kind)
        gaps = self.missing > plan.over
        if self.kind == "categorical":
            return levels_found(like, self.names, gaps)
        if self.range is None or self.parts is None:
            return None
        return number_found(like, self.range, self.rises(plan), gaps)

    def rises(self, plan: LookPlan) -> Floats:
        """The least value, the quantiles, and the largest."""
        assert self.range is not None
        assert self.parts is not None
        return quantiles(self.range, self.parts, plan.sigma_of_parts, PARTS - 1)


@dataclass(frozen=True)
class PartyLook:
    """What a look found at one party."""

    schema: Schema  # with the figures of all its columns; those that were too faint are left out
    columns: tuple[ColumnLook, ...]
    left_out: tuple[str, ...]


def found_by(plan: LookPlan, party: str, schema: Schema, counts: Counts) -> PartyLook:
    """What the counts of a party say: worked out alike by the party and the coordinator."""
    looks = read_counts(plan, party, counts, whole=True)
    by_name = {look.name: look for look in looks if not look.label}
    made = [one if one.declared else by_name[one.name].column(one, plan) for one in schema.columns]
    columns = with_own_names([one for one in made if one is not None], by_name.keys())
    kept = {one.name for one in columns}
    label = schema.label
    if label is not None and not label.declared:
        own = next(look for look in looks if look.label)
        found = own.column(Numeric(label.name), plan)
        if found is None:
            raise InvalidInput(
                f"the look did not find where labels of {label.name!r} lie. Declare it: label_range=(low, high)."
            )
        assert isinstance(found, Numeric)
        label = Numeric(label.name, found.low, found.high)
    left_out = tuple(one.name for one in schema.columns if one.name not in kept)
    return PartyLook(replace(schema, columns=columns, label=label), looks, left_out)


def read_counts(plan: LookPlan, party: str, came: Counts, *, whole: bool = False) -> tuple[ColumnLook, ...]:
    """The counts of a party by column; not `whole`: those of parts may lack, as the party itself is on the way."""
    sought = plan.sought.get(party, ())
    _check(came.kinds, 3 * plan.unknown(party), party)
    kinds = kinds_by(sought, came.kinds)
    _check(came.cells, sum(1 if kind == "categorical" else CELLS + 1 for kind in kinds), party)
    if not len(came.names) == len(came.counts) == kinds.count("categorical"):
        raise ProtocolError(f"{party!r} sent levels of other columns than are looked at")
    looks = []
    at = 0
    levels = iter(zip(came.names, came.counts, strict=True))
    for one, kind in zip(sought, kinds, strict=True):
        if kind == "categorical":
            names, counts = next(levels)
            _check(counts, len(names), party)
            looks.append(ColumnLook(one.name, kind, None, int(came.cells[at]), names, counts))
        else:
            own = came.cells[at : at + CELLS]
            at += CELLS
            there = range_of(own, plan.over)
            looks.append(ColumnLook(one.name, kind, own, int(came.cells[at]), range=there, label=one.label))
        at += 1
    if not (whole or came.parts.size):
        return tuple(looks)
    _check(came.parts, PARTS * sum(look.range is not None for look in looks), party)
    counted = iter(came.parts.reshape(-1, PARTS))
    return tuple(look if look.range is None else replace(look, parts=next(counted)) for look in looks)


def kinds_by(sought: tuple[Sought, ...], counts: Integers) -> list[str]:
    """The kind of each column: as declared, or the one that most cells are of."""
    found = iter(counts.reshape(-1, 3))
    return [KINDS[int(np.argmax(next(found)))] if one.kind == "unknown" else one.kind for one in sought]


def _check(counts: Array, due: int, party: str) -> None:
    check_shape(counts, (due,), party)
    if counts.dtype != np.int64:
        raise ProtocolError(f"{party!r} sent counts that are no whole numbers")


# ------------------------------------------------------------------------------------------------ programs


def coordinator(plan: LookPlan) -> Program[dict[str, Counts]]:
    roster = plan.job.roster
    yield from introduce(Losses(roster, tolerates_dropout=False))
    came = yield from ask(roster.parties, SendLook(), LookParts)
    found = {party: Counts.of(came[party]) for party in roster.parties}
    for party, counts in found.items():
        read_counts(plan, party, counts, whole=True)  # refused before anything rests on it
    return found


def party(plan: LookPlan, block: Block, schema: Schema, gate: Gate) -> Program[PartyLook]:
    losses = Losses(plan.job.roster, tolerates_dropout=False)
    yield from meet(gate, losses)
    yield from exchange_seeds(public_digest(plan.sought, plan.job), (), gate, losses, WHEN)
    yield from receive(COORDINATOR, SendLook)
    parts = let_out(plan, block, gate)
    yield from last({COORDINATOR: parts})
    return found_by(plan, gate.node, schema, Counts.of(parts))


def let_out(plan: LookPlan, block: Block, gate: Gate) -> LookParts:
    """All three steps: what the next one asks follows from what the one before released."""
    me = gate.node
    sought = plan.sought.get(me, ())
    if not sought:
        return LookParts((), (), (), (), ())
    cells: SoughtCells = block.cells
    prices = plan.prices(me)

    def counted(values: Integers, columns: int, rho: float) -> Released[Array]:
        private = Private(values, plan.sensitivity(columns))
        return gate.histogram(private, (), 0, rho=rho)[0]

    kinds: tuple[Released[Array], ...] = ()
    if plan.unknown(me):
        own = [cells.kind_counts(one.name) for one in sought if one.kind == "unknown"]
        kinds = (counted(np.concatenate(own), plan.unknown(me), prices[0]),)
    known = kinds_by(sought, kinds[0].value if kinds else _none())

    grid = []
    levels = []
    numbers = []
    for one, kind in zip(sought, known, strict=True):
        if kind == "categorical":
            names, counts, missing = cells.level_counts(one.name)
            grid.append(np.array([missing], np.int64))
            levels.append(Levels(names, counts, plan.least(me)))
            continue
        values = block.own_labels().astype(np.float64) if one.label else cells.numbers(one.name, kind)
        there = values[~np.isnan(values)]
        numbers.append(there)
        grid.append(np.append(histograms.counts(there), values.size - there.size))
    private = Private(np.concatenate(grid), plan.sensitivity(plan.all(me)))
    rows = plan.job.roster.rows
    delta = plan.delta_of(me)
    noisy, names_left, counts_left = gate.histogram(private, levels, rows, rho=prices[1], delta=delta)
    so_far = LookParts(kinds, (noisy,), (names_left,), (counts_left,), ())

    looks = read_counts(plan, me, Counts.of(so_far))
    ranges = [look.range for look in looks if look.kind != "categorical"]
    parts = [found.part_counts(own) for found, own in zip(ranges, numbers, strict=True) if found is not None]
    if not parts:
        return so_far
    return replace(so_far, parts=(counted(np.concatenate(parts), plan.numbers(me), prices[2]),))


# ------------------------------------------------------------------------------------------------ the method


@dataclass(frozen=True)
class Look(MethodBase):
    """A look at the columns of a federation that nobody declared; `schemas` say which those are."""

    schemas: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    TITLE: ClassVar[str] = "a private look at columns"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares,)  # it learns no model: runs/look.py hands it this one
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/look.md"
    KEEPS_MONOTONE: ClassVar[bool] = True  # it learns no model

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return tuple(Trust)

    def check(self, job: Job) -> None:
        if job.privacy is None or not job.roster.sought:
            raise InvalidInput("a look is for columns without declared figures, and needs privacy=co.Privacy(...).")
        if job.roster.by_rows:
            raise InvalidInput(
                "a look is at split columns, and these parties hold different rows: declare the columns."
            )
        LookPlan(job).check()

    def price(self, job: Job) -> Mapping[str, Plan]:
        plan = LookPlan(job)
        return {party: plan.plan(party) for party in job.roster.parties}

    def rests_on(self, job: Job) -> tuple[Condition, ...]:  # noqa: ARG002  each party noises its own counts
        return ()

    def depends_on_row_order(self, job: Job) -> bool:  # noqa: ARG002  counts have none
        return False

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike: parties compare what they were told
        return True

    def coordinator(self, job: Job, gate: Gate) -> Program[dict[str, Counts]]:  # noqa: ARG002  it draws nothing
        return coordinator(LookPlan(job))

    def party(self, job: Job, block: Block, gate: Gate) -> Program[PartyLook]:
        return party(LookPlan(job), block, self.schemas[gate.node], gate)
