"""Private Gram where nobody computes with anybody: each party releases what it can by itself. Trust "nobody".

Solves   as private_gram.py, from less: products of columns of different parties are left out (cross="none"). From
         messages that each party protects by itself a product of two would cost an error of order √n, which no
         division of the budget repairs: that is what `secure` is for.
Leaves   the labels with Gaussian noise, cut again; then from each party the noisy Gram matrix of its own columns beside
         the constant and those labels.
Price    LABELS·rho for the labels, the rest over the parties in proportion to their sensitivities squared:
         docs/understand/privacy/gram.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring_products import gram as own_products
from colonnade.methods.gram.plan import HALF, OWN, Figures, NoisyLabels, RunPlan, plan_joint
from colonnade.methods.gram.products import Outcome
from colonnade.methods.gram.rows import IntegerRows, grid
from colonnade.methods.gram.rule import Gram, GramRule, PublicColumns, RowFrame, as_they_are, rule_rho, whole_frame
from colonnade.methods.method import Finish, Labels, SendLabels
from colonnade.model.job import Job
from colonnade.privacy.block import Block, clean_cells
from colonnade.privacy.events import Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.values import Packed, Private, Released
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, message, receive

LABELS = 0.3  # share of the budget that noisy labels take
ROWS_AT_A_TIME = 1 << 14
APART = "products between columns of different parties were left out; trust='secure' computes them on masked numbers"


@message(127)
class Products:
    """Coordinator → party: release the Gram matrix of your columns, the constant and these labels."""

    labels: Integers


@message(129)
class LocalParts:
    """Party → coordinator: noisy sums of its own."""

    parts: tuple[Released[Packed], ...]


LocalRequest = SendLabels | Products | Finish


@dataclass(frozen=True)
class Local:
    """The form for trust "nobody"."""

    plan: RunPlan
    spares: ClassVar[bool] = False

    @property
    def job(self) -> Job:
        return self.plan.job

    @property
    def columns(self) -> PublicColumns:
        return self.plan.columns

    @cached_property
    def frame(self) -> RowFrame:
        return whole_frame(self.columns)

    @cached_property
    def rule(self) -> GramRule:
        return as_they_are(self.columns.owner.size, rule_rho(self.job))

    @cached_property
    def figures(self) -> Figures:
        """Steps and ring as for a joint release; the constant and the label are set by party."""
        return plan_joint(self.job, self.columns, self.frame, self.rule, self.job.rho)[0]

    @property
    def label_rho(self) -> float:
        return LABELS * self.job.rho

    def beside(self, party: str) -> tuple[int, int]:
        """Constant and label beside a party's rows, in steps."""
        norm2 = max(1, self.figures.norm2[party])
        rule = self.rule
        constant, label = (math.sqrt(share * norm2) for share in (rule.constant_share, rule.label_share))
        return max(1, round(constant)), max(1, round(label))

    def sensitivity(self, party: str) -> float:
        """How far a party's release moves when one unit is replaced."""
        constant, label = self.beside(party)
        whole = self.figures.norm2[party] + constant**2 + label**2
        moved = math.sqrt(2.0) * whole
        return math.nextafter(moved * self.job.roster.unit.rows * (1 + 2**-50), math.inf)

    @property
    def releasing(self) -> tuple[str, ...]:
        return self.job.roster.with_columns

    def rho(self, party: str) -> float:
        """A party's share of the budget: noise is then the same at all of them."""
        total = math.fsum(self.sensitivity(p) ** 2 for p in self.releasing)
        return (self.job.rho - self.label_rho) * self.sensitivity(party) ** 2 / total

    @property
    def sigma(self) -> float:
        """The noise of an entry, in steps squared."""
        party = self.releasing[0]
        return gaussian_sigma(self.sensitivity(party), self.rho(party))

    def check(self) -> None:
        """Every party can release its own."""

    def price(self) -> dict[str, Plan]:
        plans: dict[str, Plan] = {self.job.roster.label: (self.labels.charge,)}
        for party in self.releasing:
            event = Event(Mechanism.LATTICE, self.rho(party), math.inf)
            plans[party] = (*plans.get(party, ()), Charge(event, 1, "the noisy Gram matrix of its own columns"))
        return plans

    @cached_property
    def labels(self) -> NoisyLabels:
        return NoisyLabels(self.job, self.label_rho, cut=1.0 if self.job.problem.loss.classifies else 3.0)

    def release(self, block: Block, gate: Gate) -> Program[tuple[Finish, int]]:
        """Labels, where it has them; then its own products."""
        shortened, request = 0, (yield from receive(COORDINATOR, LocalRequest))
        while not isinstance(request, Finish):
            match request:
                case SendLabels():
                    answer: object = self.labels.release(block, gate)
                case Products(labels):
                    answer, shortened = own_products_release(self, block, gate, labels)
            request = yield from ask_one(COORDINATOR, answer, LocalRequest)
        return request, shortened

    def collect(self, gate: Gate) -> Program[Outcome]:  # noqa: ARG002  it draws nothing
        labels = (yield from ask_one(self.job.roster.label, SendLabels(), Labels)).values.value
        gram = from_products(self, labels, (yield from ask(self.releasing, Products(labels), LocalParts)))
        doubt = "products between parties were left out"
        return Outcome(self.plan, gram, self.frame, self.rule, self.figures, doubt=doubt, first=(APART,))


# ------------------------------------------------------------------------------------------------ what a party releases


def own_products_release(local: Local, block: Block, gate: Gate, labels: Integers) -> tuple[LocalParts, int]:
    """The Gram matrix of a party's columns beside the constant and the public labels; and rows that were shortened."""
    me = gate.node
    rows, (constant, label) = _rows(local, block, me), local.beside(me)
    beside = _beside(local.labels.cut_to(labels) / local.labels.limit, label)
    own = np.zeros((rows.columns, rows.columns), np.int64)
    sums = np.zeros(rows.columns, np.int64)
    tied = np.zeros(rows.columns, np.int64)
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
    job = local.job
    columns = local.columns
    step = local.figures.step
    d = columns.owner.size
    n = job.roster.rows
    matrix = np.zeros((d + 2, d + 2))
    noise = np.zeros((d + 2, d + 2))
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
        matrix[at, at] = diagonal * step**2
        noise[at, at] = g
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper * step**2
        noise[at[i], at[j]] = noise[at[j], at[i]] = g * HALF
        matrix[at, d] = matrix[d, at] = sums * step / constant
        noise[at, d] = noise[d, at] = g * HALF / (step * constant)
        unit = step * local.labels.limit / (label * local.labels.kept)
        matrix[at, d + 1] = matrix[d + 1, at] = tied * unit
        of_labels = spread * np.sqrt(np.maximum(matrix[at, at], 0.0))  # what the noise in the labels brings
        noise[at, d + 1] = noise[d + 1, at] = np.hypot(local.sigma * HALF * unit, of_labels)
    bound = job.label_bound
    squares = float(cut @ cut) - n * local.labels.sd**2
    matrix[d, d] = n
    matrix[d, d + 1] = cut.sum()
    matrix[d + 1, d] = matrix[d, d + 1]
    matrix[d + 1, d + 1] = n if job.problem.loss.classifies else min(max(squares, 0.0), n * bound**2)
    noise[d, d + 1] = noise[d + 1, d] = math.sqrt(n) * spread
    return Gram(matrix, noise)
