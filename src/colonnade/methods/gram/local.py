"""Private Gram where nobody computes with anybody: each party releases what it can by itself. Trust "nobody".

Solves   as private_gram.py, from less: products of columns of different parties are left out (`none`), or taken from
         noisy sketches of all columns (`sketch`). Either way a cross-party product costs an error of order √n, which no
         division of the budget repairs: that is what `secure` is for.
Leaves   none    the labels with Gaussian noise, cut again; then from each party the noisy Gram matrix of its own
                 columns beside the constant and those labels.
         sketch  from each party its columns (and labels), added with public random signs into m buckets, plus noise.
Price    none    LABELS·rho for the labels, the rest over the parties in proportion to their sensitivities squared
         sketch  rho over the parties in proportion to their sensitivities squared; docs/understand/privacy/gram.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring_products import gram as own_products
from colonnade.methods.gram.answer import Curves, chosen_weight, finish_all, gram_answer, released_gram
from colonnade.methods.gram.design import (
    HALF,
    OWN,
    Figures,
    NoisyLabels,
    grid,
    label_bound,
    plan_joint,
    public_columns,
)
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows, directions
from colonnade.methods.gram.rule import Gram, GramRule, PublicColumns, RowFrame, as_they_are, whole_frame
from colonnade.methods.gram.solve import solve
from colonnade.methods.method import Done, Finish, Labels, SendLabels, finish_party
from colonnade.model.answer import Answer, Own
from colonnade.model.job import Job
from colonnade.model.release import Solving
from colonnade.privacy.block import Block, clean_cells
from colonnade.privacy.events import Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.values import Packed, Private, Released
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, message, public_bytes, receive, tell

LABELS = 0.3  # share of the budget that noisy labels take
ROWS_AT_A_TIME = 1 << 14
APART = "products between columns of different parties were left out; trust='secure' computes them on masked numbers"


@message(127)
class Products:
    """Coordinator → party: release the Gram matrix of your columns, the constant and these labels."""

    labels: Integers


@message(128)
class SendSketch:
    """Coordinator → party: release your columns in buckets."""

    buckets: int


@message(129)
class LocalParts:
    """Party → coordinator: noisy sums of its own."""

    parts: tuple[Released[Packed], ...]


@dataclass(frozen=True)
class Local:
    """What everybody can work out before anything is sent."""

    job: Job
    sketch: bool

    @cached_property
    def columns(self) -> PublicColumns:
        return public_columns(self.job)

    @cached_property
    def frame(self) -> RowFrame:
        return whole_frame(self.columns)

    @cached_property
    def rule(self) -> GramRule:
        return as_they_are(self.columns.owner.size, self.job.rho / self.job.roster.unit.rows**2)

    @cached_property
    def figures(self) -> Figures:
        """Steps and ring as for a joint release; the constant and the label are set by party."""
        return plan_joint(self.job, self.columns, self.frame, self.rule, self.job.rho)[0]

    @property
    def label_rho(self) -> float:
        return 0.0 if self.sketch else LABELS * self.job.rho

    def beside(self, party: str) -> tuple[int, int]:
        """Constant and label beside a party's rows, in steps."""
        norm2, rule = max(1, self.figures.norm2[party]), self.rule
        if self.sketch:
            return 0, self.figures.label if party == self.job.roster.label else 0
        constant, label = (math.sqrt(share * norm2) for share in (rule.constant_share, rule.label_share))
        return max(1, round(constant)), max(1, round(label))

    def sensitivity(self, party: str) -> float:
        """How far a party's release moves when one unit is replaced."""
        constant, label = self.beside(party)
        whole = self.figures.norm2[party] + constant**2 + label**2
        moved = 2.0 * math.sqrt(whole) if self.sketch else math.sqrt(2.0) * whole
        return math.nextafter(moved * self.job.roster.unit.rows * (1 + 2**-50), math.inf)

    @property
    def releasing(self) -> tuple[str, ...]:
        roster = self.job.roster
        return tuple(p for p in roster.parties if roster.positions[p] or (self.sketch and p == roster.label))

    def rho(self, party: str) -> float:
        """A party's share of the budget: noise is then the same at all of them."""
        total = math.fsum(self.sensitivity(p) ** 2 for p in self.releasing)
        return (self.job.rho - self.label_rho) * self.sensitivity(party) ** 2 / total

    @property
    def sigma(self) -> float:
        """The noise of an entry, in steps (of a sketch) or steps squared."""
        party = self.releasing[0]
        return gaussian_sigma(self.sensitivity(party), self.rho(party))

    @property
    def buckets(self) -> int:
        """m = n·mean(a²)/σ², with mean(a²) ≤ C²/d: where the noise of more buckets outweighs what they add."""
        whole = sum(self.figures.norm2.values()) / self.columns.owner.size
        return int(min(max(self.job.roster.rows * whole / self.sigma**2, 2.0), self.job.roster.rows))

    def plans(self) -> dict[str, Plan]:
        what = "its columns in noisy buckets" if self.sketch else "the noisy Gram matrix of its own columns"
        plans: dict[str, Plan] = {self.job.roster.label: (self.labels.charge,)} if self.label_rho else {}
        for party in self.releasing:
            if not (self.figures.norm2[party] or any(self.beside(party))):
                norm = self.columns.norms[list(self.job.roster.parties).index(party)]
                raise InvalidInput(
                    f"party {party!r}: rows of length {norm:g} or less round to nothing in steps of "
                    f"{self.figures.step:g}, so that it would have nothing to release. Raise its row_norm, or leave "
                    "the party out."
                )
            own = Charge(Event(Mechanism.LATTICE, self.rho(party), math.inf), 1, what)
            plans[party] = (*plans.get(party, ()), own)
        return plans

    @cached_property
    def labels(self) -> NoisyLabels:
        return NoisyLabels(self.job, self.label_rho, cut=1.0 if self.job.problem.loss.classifies else 3.0)


# ------------------------------------------------------------------------------------------------ what a party releases


def own_products_release(local: Local, block: Block, gate: Gate, labels: Integers) -> tuple[LocalParts, int]:
    """The Gram matrix of a party's columns beside the constant and the public labels; and rows that were shortened."""
    me = gate.node
    rows, (constant, label) = _rows(local, block, me), local.beside(me)
    beside = _beside(local.labels.cut_to(labels) / local.labels.limit, label)
    own = np.zeros((rows.columns, rows.columns), np.int64)
    sums, tied = np.zeros(rows.columns, np.int64), np.zeros(rows.columns, np.int64)
    bound = int(np.abs([rows.grid.low, rows.grid.high]).max(initial=1))
    for first in range(0, rows.count, ROWS_AT_A_TIME):
        count = min(ROWS_AT_A_TIME, rows.count - first)
        a = rows.rows(first, count)
        own += own_products(a, bound=bound)
        sums += constant * a.sum(axis=0)
        tied += a.T @ beside[first : first + count]
    parts = (np.diag(own), own[np.triu_indices(rows.columns, 1)], sums, tied)
    exact: Private[tuple[Integers, ...]] = Private(parts, local.sensitivity(me))
    weights = (1.0, HALF, HALF, HALF)
    released = gate.integers(exact, weights, (OWN.mask,) * 4, rho=local.rho(me), scope=Scope.OWN)
    return LocalParts(released), rows.shortened


def sketch_release(local: Local, block: Block, gate: Gate, count: int) -> tuple[LocalParts, int]:
    """A party's columns, and the labels where it holds them, in buckets; and rows that were shortened."""
    job, me = local.job, gate.node
    if count != local.buckets:
        raise ProtocolError(f"a peer asked for {count} buckets where {local.buckets} were agreed")
    rows, (_, label) = _rows(local, block, me), local.beside(me)
    buckets = Buckets(public_bytes(gate.run, "buckets"), job.roster.rows, count)
    total = buckets.of(rows, None)(0, count)
    if label:
        y = _beside(block.bounded_labels(label_bound(job)) / label_bound(job), label)
        total = np.column_stack([total, buckets.of_column(y, None)])
    exact: Private[tuple[Integers, ...]] = Private((total,), local.sensitivity(me))
    released = gate.integers(exact, (1.0,), (OWN.mask,), rho=local.rho(me), scope=Scope.OWN)
    return LocalParts(released), rows.shortened


def _beside(labels: Floats, size: int) -> Integers:
    """Labels as a column of the nearest whole numbers, cut to ±size here, whoever sent them and whatever they are."""
    return np.rint(clean_cells(labels, 1.0) * size).astype(np.int64)


def _rows(local: Local, block: Block, me: str) -> IntegerRows:
    width = block.columns
    plain = np.arange(width), np.zeros(width), np.ones(width), np.ones(width, np.int64)
    return IntegerRows(block, grid(local.job, me, local.figures, *plain, whole=False))


# ------------------------------------------------------------------------------------------------ at the coordinator


def from_products(local: Local, labels: Floats, got: dict[str, LocalParts]) -> Gram:
    """The Gram matrix of [a, 1, y] with nothing between parties, from their own."""
    job, columns, step = local.job, local.columns, local.figures.step
    d, n = columns.owner.size, job.roster.rows
    matrix, noise = np.zeros((d + 2, d + 2)), np.zeros((d + 2, d + 2))
    cut = local.labels.cut_to(labels) / local.labels.kept
    spread = local.labels.limit / local.labels.kept  # of one label around its own, at most
    for k, party in enumerate(job.roster.parties):
        if party not in got:
            continue
        at, (constant, label) = np.flatnonzero(columns.owner == k), local.beside(party)
        diagonal, upper, sums, tied = (OWN.signed(part.value.values) for part in got[party].parts)
        i, j = np.triu_indices(at.size, 1)
        if [diagonal.size, upper.size, sums.size, tied.size] != [at.size, i.size, at.size, at.size]:
            raise ProtocolError(f"{party!r} sent parts of other sizes than its {at.size:,} columns ask for")
        g = local.sigma * step**2
        matrix[at, at], noise[at, at] = diagonal * step**2, g
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper * step**2
        noise[at[i], at[j]] = noise[at[j], at[i]] = g * HALF
        matrix[at, d] = matrix[d, at] = sums * step / constant
        noise[at, d] = noise[d, at] = g * HALF / (step * constant)
        unit = step * local.labels.limit / (label * local.labels.kept)
        matrix[at, d + 1] = matrix[d + 1, at] = tied * unit
        of_labels = spread * np.sqrt(np.maximum(matrix[at, at], 0.0))  # what the noise in the labels brings
        noise[at, d + 1] = noise[d + 1, at] = np.hypot(local.sigma * HALF * unit, of_labels)
    bound = label_bound(job)
    squares = float(cut @ cut) - n * local.labels.sd**2
    matrix[d, d], matrix[d, d + 1] = n, cut.sum()
    matrix[d + 1, d] = matrix[d, d + 1]
    matrix[d + 1, d + 1] = n if job.problem.loss.classifies else min(max(squares, 0.0), n * bound**2)
    noise[d, d + 1] = noise[d + 1, d] = math.sqrt(n) * spread
    return Gram(matrix, noise)


def from_sketches(local: Local, run: str, got: dict[str, LocalParts]) -> Gram:
    """The Gram matrix of [a, 1, y] from noisy buckets: products of buckets, less the noise's own square."""
    job, columns, step = local.job, local.columns, local.figures.step
    d, n, m = columns.owner.size, job.roster.rows, local.buckets
    z = np.zeros((m, d + 2))
    z[:, d] = Buckets(public_bytes(run, "buckets"), n, m).of_column(np.ones(n, np.int64), None)
    for k, party in enumerate(job.roster.parties):
        if party not in got:
            continue
        at, (_, label) = np.flatnonzero(columns.owner == k), local.beside(party)
        (part,) = (OWN.signed(part.value.values) for part in got[party].parts)
        if part.shape != (m, at.size + bool(label)):
            raise ProtocolError(f"{party!r} sent buckets of shape {part.shape} for {at.size:,} columns")
        z[:, at] = part[:, : at.size] * step
        if label:
            z[:, d + 1] = part[:, -1] * label_bound(job) / label
    sds = np.full(d + 2, local.sigma * step)
    sds[d], sds[d + 1] = 0.0, local.sigma * label_bound(job) / local.beside(job.roster.label)[1]
    matrix = z.T @ z - m * np.diag(sds**2)
    # An entry's error: noise times noise, noise times the other column, and rows that met in a bucket.
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    noise = np.hypot(math.sqrt(m) * np.outer(sds, sds), np.hypot(np.outer(sds, size), np.outer(size, sds)))
    noise = np.hypot(noise, np.outer(size, size) / math.sqrt(m))
    matrix[d, d], noise[d, d] = n, 0.0
    if job.problem.loss.classifies:
        matrix[d + 1, d + 1], noise[d + 1, d + 1] = n, 0.0
    return Gram(matrix, noise)


# ------------------------------------------------------------------------------------------------ programs


LocalRequest = SendLabels | Products | SendSketch | Finish


def local_coordinator(local: Local, gate: Gate, select: bool) -> Program[Answer]:
    job, releasing = local.job, local.releasing
    if local.sketch:
        parts = yield from ask(releasing, SendSketch(local.buckets), LocalParts)
        gram = from_sketches(local, gate.run, parts)
    else:
        labels = (yield from ask_one(job.roster.label, SendLabels(), Labels)).values.value
        gram = from_products(local, labels, (yield from ask(releasing, Products(labels), LocalParts)))
    bound, every = label_bound(job), local.columns.owner.size
    known = gram, local.frame, local.rule, job.problem
    curves = Curves(local.columns.level, directions(job), flags=local.columns.binary)
    solved = solve(*known, rows=job.roster.rows, columns=every, label_bound=bound, curves=curves, select=select)
    doubt = f"products between parties {'come from sketches' if local.sketch else 'were left out'}"
    cross = "sketch" if local.sketch else "none"
    release = released_gram(job, gram, local.frame, local.rule.name, cross, local.figures, proven=False)
    release = replace(release, solving=Solving(local.rule.ridge, local.frame.doubt, None, curves.choose, select))
    remarks = (() if local.sketch else (APART,)) + ((chosen_weight(solved),) if select else ())
    answer = gram_answer(job, solved, release, remarks, doubt)
    yield from tell(finish_all(job, answer), Done)
    return answer


def local_party(local: Local, block: Block, gate: Gate) -> Program[Own]:
    shortened, request = 0, (yield from receive(COORDINATOR, LocalRequest))
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = local.labels.release(block, gate)
            case Products(labels) if not local.sketch:
                answer, shortened = own_products_release(local, block, gate, labels)
            case SendSketch(buckets) if local.sketch:
                answer, shortened = sketch_release(local, block, gate, buckets)
            case _:  # what is asked for decides the sensitivity, so only what was agreed is answered
                raise ProtocolError(f"{COORDINATOR!r} asked for {type(request).__name__}, which was not agreed")
        request = yield from ask_one(COORDINATOR, answer, LocalRequest)
    return (yield from finish_party(block, gate, request, shortened))
