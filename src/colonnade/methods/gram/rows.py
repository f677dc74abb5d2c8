"""A party's rows as whole numbers within public bounds, and the matrices that parties multiply.

Rows     row r becomes round((a_r - centre)·scale / step) over the columns that are kept, each entry cut to its bound,
         and the whole row shortened (toward zero) if the sum of its squares is over `norm2` (kernels/ring.py). All of
         it is done row by row from public figures, and the last check is in integers: whatever the data, no row is
         longer than √norm2, so a sensitivity built on it is exact.
Units    a column of zeros and ones, one of class labels too, is a whole number of steps long or nothing: it enters as 0
         and 1 (labels as ±1), and its length in steps f, the unit, is kept aside. Noise shrinks with it: an entry of
         columns i and j in units has sd g/(fᵢfⱼ) where one in steps has g. Only where the schema proves that no row is
         over its bound, and rows are neither centred nor scaled: a row of ones that is shortened has no ones left.
Rings    column i is masked modulo 2^wᵢ, and a product of two columns is known modulo the lesser of both. |xᵢᵀxⱼ| is at
         most √(dᵢdⱼ), d the squared lengths, which leave with their noise before the rest; where xᵢ is zeros and ones
         also dᵢ times the largest entry of xⱼ; and eight sds of noise. A product that does not fit is wrong, and tells
         no more: noise modulo 2^w hides what noise hides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices, Integers
from colonnade.kernels.ring import add_products, add_squares, whole_rows
from colonnade.kernels.ring_products import gram as own_products
from colonnade.methods.gram.plan import HALF, Figures, RunPlan, StageName, cut_toward_zero, squares_within
from colonnade.methods.gram.rule import RowFrame
from colonnade.model.job import Job, entry_bounds, norms
from colonnade.privacy.block import LARGEST, Block, clean_cells
from colonnade.privacy.gate import Gate

SDS = 8.0  # of noise that fit beside a product on either side: it wraps once in 10^15 entries
MOST_BITS = 62  # of a column


@dataclass(frozen=True)
class Grid:
    """How one party's rows become whole numbers: all of it public."""

    keep: NDArray[np.int64]  # places among the party's columns
    centre: Floats
    scale: Floats
    low: Integers  # in steps, after centring and scaling
    high: Integers
    norm2: int  # the most that the squares of a row may sum to, in steps
    step: float
    unit: Integers  # the steps that a 1 in each column stands for; entries and their bounds are in units
    toward: NDArray[np.bool_] | None = None  # zero: how entries of a curve are rounded; None, others: to the nearest

    @property
    def cut(self) -> NDArray[np.bool_]:
        """Whose entries are cut toward zero."""
        return np.zeros(self.keep.size, bool) if self.toward is None else self.toward


class IntegerRows:
    """The rows of a block on a grid, a few at a time."""

    def __init__(self, block: Block, grid: Grid) -> None:
        self.grid = grid
        self.count = block.rows
        self.columns = int(grid.keep.size)
        # Rows are read in blocks: a compressed matrix is cut and turned once, so that a slice of rows is cheap.
        self._sparse = sparse.issparse(block.matrix)
        self._matrix = block.matrix
        if self._sparse:
            with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
                self._matrix = sparse.csr_array(block.matrix[:, grid.keep], dtype=np.float64, copy=True)
                # What is stored twice at one place is one entry.
                self._matrix.sum_duplicates()
            self._matrix.data = clean_cells(self._matrix.data)
        # Rows that were over the bound: for this party's operator, never for anybody else.
        self.shortened = 0

    def rows(self, first: int, count: int, *beside: Integers) -> Integers:
        """Rows `first` to `first + count`, as integers; `beside` has the same rows of columns behind them."""
        grid = self.grid
        check_room(self.columns, grid.norm2)
        part: Any = self._matrix[first : first + count]
        with np.errstate(over="ignore", invalid="ignore"):  # as in `clean_cells`
            dense = np.asarray(part.toarray() if self._sparse else part, np.float64)
        keep = np.arange(self.columns) if self._sparse else grid.keep  # a sparse table was cut to them before
        reach = math.isqrt(grid.norm2)
        factor = grid.scale / grid.step / grid.unit
        whole = np.empty((len(dense), self.columns + len(beside)), np.int32 if reach < 1 << 31 else np.int64)
        for place, column in enumerate(beside, self.columns):
            whole[:, place] = column
        self.shortened += whole_rows(
            *(dense, keep, grid.centre, factor, grid.low, grid.high),
            *(grid.unit, reach // grid.unit, grid.cut, LARGEST, grid.norm2, whole),
        )
        return whole

    @property
    def stay_sparse(self) -> bool:
        """Whether zeros stay zeros, so that rows may be read without them: from public figures and the kind of
        table."""
        return self._sparse and not self.grid.centre.any()

    def sparse_rows(self, first: int, count: int) -> Any:
        """The same rows as `rows` gives, as a compressed matrix of integers."""
        grid = self.grid
        check_room(self.columns, grid.norm2)
        part = self._matrix[first : first + count]
        place = part.indices
        row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        real = part.data * (grid.scale / grid.step)[place]
        real = np.where(grid.cut[place], np.trunc(real), np.rint(real))
        whole = np.clip(real, grid.low[place], grid.high[place]).astype(np.int64)
        reach = math.isqrt(grid.norm2)
        far = np.bincount(row, np.abs(whole) > reach, part.shape[0]) > 0
        whole = np.clip(whole, -reach, reach)

        def squares(entries: Integers) -> Any:
            total = np.zeros(part.shape[0], np.int64)
            filled = np.flatnonzero(np.diff(part.indptr))
            if filled.size:
                total[filled] = np.add.reduceat(entries**2, part.indptr[filled])
            return total

        long = squares(whole)
        self.shortened += int(np.count_nonzero(far | (long > grid.norm2)))
        factor = np.where(long > grid.norm2, np.sqrt(grid.norm2 / np.maximum(long, 1)), 1.0)
        while True:
            shorter = np.where(factor[row] < 1.0, np.trunc(whole * factor[row]), whole).astype(np.int64)
            left = squares(shorter) > grid.norm2
            if not left.any():
                return sparse.csr_array((shorter, place, part.indptr), shape=part.shape)
            factor[left] *= 1.0 - 2.0**-40  # a hair of rounding is left; try again


def check_room(width: int, norm2: int) -> None:
    """Squares of a row must not wrap round, or a long row would look short; from public figures alone."""
    if width * norm2 >= 1 << 63:
        raise InvalidInput(
            f"squares of {width:,} entries within a length of {math.isqrt(norm2):,} steps do not fit 63 bits: lower "
            "row_norm."
        )


def grid(
    job: Job, party: str, figures: Figures, keep: Indices, centre: Floats, scale: Floats, unit: Indices, *, whole: bool
) -> Grid:
    """How a party makes its rows: entries within what its schema says, rows within √norm2.

    `whole`: no row may be shortened, so entries stay within their bounds also after rounding.
    """
    bound, binary, nonnegative = entry_bounds(job, party)
    low = np.where(nonnegative, 0.0, -bound)[keep]
    bound = bound[keep]
    # No entry is longer than its row; and a number that large fits an integer.
    reach = math.isqrt(figures.norm2[party])
    ends = [(end - centre) * scale / figures.step / unit for end in (low, bound)]
    low, high = (np.trunc(end * (1 + 1e-12)) if whole else np.rint(end) for end in ends)
    low, high = (np.clip(end, -reach, reach).astype(np.int64) for end in (low, high))
    # A block of a curve is no longer than its number alone, and stays so if its entries are cut toward zero.
    plain = not centre.any() and bool((scale == 1.0).all())
    toward = np.full(keep.size, plain and cut_toward_zero(job, party, figures)) & ~binary[keep]
    return Grid(keep, centre, scale, low, high, figures.norm2[party], figures.step, unit, toward)


# ------------------------------------------------------------------------------------------------ matrices


@dataclass(frozen=True)
class Layout:
    """The matrices that the parties multiply, one after another: the kept columns of each, and the label's with its
    holder."""

    job: Job
    figures: Figures
    frame: RowFrame  # of all columns

    @cached_property
    def owner(self) -> Integers:
        """Of each column of all matrices: the number of its party."""
        widths = [self.figures.widths[party] for party in self.job.roster.parties]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def label(self) -> int:
        """The place of the label's column: behind those of its holder."""
        holder = self.job.roster.parties.index(self.job.roster.label)
        return int(np.flatnonzero(self.owner == holder)[-1])

    def mine(self, party: str) -> Integers:
        """The places of a party's columns, among them the label's."""
        return np.flatnonzero(self.owner == self.job.roster.parties.index(party))

    @cached_property
    def kept(self) -> dict[str, Integers]:
        """By party: which columns of the frame are its."""
        ends = np.cumsum([len(places) for places in self.job.roster.positions.values()])
        number = np.searchsorted(ends, self.frame.keep, side="right")
        return {party: np.flatnonzero(number == k) for k, party in enumerate(self.job.roster.parties)}

    def places(self, party: str) -> Integers:
        """The kept columns of a party as places among its own."""
        roster = self.job.roster
        before = sum(len(roster.positions[name]) for name in roster.parties[: roster.parties.index(party)])
        return self.frame.keep[self.kept[party]] - before

    def whole(self, party: str) -> bool:
        """Whether columns of zeros and ones enter as they are: rows are as the schema has them, and within bounds.

        Without a schema: whether no row within the declared bound of entries is shortened.
        """
        roster = self.job.roster
        here = self.kept[party]
        plain = not self.frame.centre[here].any() and bool((self.frame.scale[here] == 1.0).all())
        if not here.size or not plain:
            return False
        bound, binary, _ = entry_bounds(self.job, party)
        step = self.figures.step
        norm2 = self.figures.norm2[party]
        if party not in roster.known:
            most = np.trunc(bound[self.places(party)] / step * (1 + 1e-12))  # in steps, as `grid` has it
            return float(np.square(most).sum()) <= norm2
        known = roster.known[party]
        uncut = known.proven and norms(self.job)[party] >= known.norm and bool((bound >= known.bounds).all())
        ones = step <= 1.0 or not binary.any()  # a 1 is at least a step
        return uncut and ones and squares_within(known.norm, step) <= norm2

    @cached_property
    def units(self) -> Integers:
        """f: the steps that a 1 in each column stands for."""
        units = np.ones(self.owner.size, np.int64)
        for party in self.job.roster.with_columns:
            if self.whole(party):
                here = self.mine(party)[: self.kept[party].size]
                units[here[self._of_columns(party, 1)]] = round(1.0 / self.figures.step)
        if self.job.problem.loss.classifies:
            units[self.label] = self.figures.label
        return units

    def _of_columns(self, party: str, which: int) -> NDArray[np.bool_]:
        """Of the kept columns: whether they are binary (1), or not negative (2)."""
        return np.asarray(entry_bounds(self.job, party)[which][self.places(party)], bool)

    @cached_property
    def kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which columns are zeros and ones, and which have no entry below zero."""
        binary = np.zeros(self.owner.size, bool)
        nonnegative = np.zeros(self.owner.size, bool)
        for party in self.job.roster.with_columns:
            here = self.mine(party)[: self.kept[party].size]
            nonnegative[here] = self._of_columns(party, 2) & (self.frame.centre[self.kept[party]] <= 0.0)
            binary[here] = self._of_columns(party, 1) & (self.units[here] > 1)
        return binary, nonnegative

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """Which columns have no entry below zero."""
        return self.kinds[1]

    @cached_property
    def entries(self) -> Floats:
        """How far an entry of each column can be from zero, in units."""
        most = np.full(self.owner.size, float(self.figures.label))
        for party in self.job.roster.with_columns:
            here = self.kept[party]
            places = self.mine(party)
            bound = entry_bounds(self.job, party)[0][self.places(party)]
            ends = (np.where(self._of_columns(party, 2), 0.0, -bound), bound)
            far = np.maximum(*(np.abs((end - self.frame.centre[here]) * self.frame.scale[here]) for end in ends))
            most[places[: here.size]] = np.minimum(far / self.figures.step + 1.0, self.figures.norm2[party] ** 0.5)
        return np.asarray(most / self.units)

    # ------------------------------------------------------------------------ noise

    def weights(self, party: str) -> tuple[Floats, Floats, Floats]:
        """Of the noise of a party's diagonal, of its upper triangle, of its sums."""
        unit = self.units[self.mine(party)].astype(float)
        i, j = np.triu_indices(unit.size, 1)
        return _up(1.0 / unit**2), _up(HALF / (unit[i] * unit[j])), _up(HALF / unit)

    def cross_weights(self, pair: tuple[str, str]) -> Floats:
        """Of the noise that either party of a pair adds to their product."""
        one, other = (self.units[self.mine(party)].astype(float) for party in pair)
        return _up(HALF / np.outer(one, other))

    # ------------------------------------------------------------------------ rings

    def fit(self, diagonal: Floats, g: float) -> Rings:
        """The ring of every column, from the noisy squared lengths of all of them and the noise g."""
        units = self.units.astype(float)
        lengths = np.maximum(diagonal, 0.0) + SDS * g / units**2 + 1.0
        if self.units[self.label] > 1:
            lengths[self.label] = self.job.roster.rows
        binary, nonnegative = self.kinds
        most = np.sqrt(np.outer(lengths, lengths))
        # As many as there are ones, times the largest entry beside them: 0 where a party's rows are under a step.
        ones = np.where(binary[:, None], np.outer(lengths, self.entries), np.inf)
        most = np.minimum(most, np.minimum(ones, ones.T))
        spread = SDS * g / np.outer(units, units)
        low = np.floor(np.where(np.outer(nonnegative, nonnegative), 0.0, -most) - spread)
        apart = self.owner[:, None] != self.owner
        needed = np.ceil(np.log2(np.ceil(most + spread) - low + 1.0))
        bits = np.where(apart, needed, 1.0).max(axis=1, initial=1.0)
        return Rings(np.minimum(bits, MOST_BITS).astype(np.int64), low.astype(np.int64))

    def by_party(self, bits: Integers) -> dict[str, Integers]:
        return {party: bits[self.mine(party)] for party in self.job.roster.parties}


@dataclass(frozen=True)
class Rings:
    """The bits of each column, and the least that a product of two of them, with its noise, can be."""

    bits: Integers
    low: Integers

    def lift(self, product: Integers, rows: Integers, columns: Integers) -> Integers:
        """The products of some columns, from what they are in their rings."""
        low = self.low[np.ix_(rows, columns)]
        ring = np.minimum.outer(self.bits[rows], self.bits[columns]).astype(np.uint64)
        mask = np.uint64(2**64 - 1) >> (np.uint64(64) - ring)
        return np.asarray(low + ((product.astype(np.uint64) - low.astype(np.uint64)) & mask).astype(np.int64))


def _up(weights: Floats) -> Floats:
    return np.nextafter(weights * (1.0 + 2.0**-50), np.inf)  # noise is never less than priced


@dataclass(frozen=True)
class Prepared:
    """A release as a party was told it, checked."""

    figures: Figures
    layout: Layout
    digest: bytes

    def partners(self, me: str) -> tuple[str, ...]:
        return tuple(b if a == me else a for a, b in self.figures.pairs(self.layout.job) if me in (a, b))

    def rows(self, block: Block, me: str) -> IntegerRows:
        """A party's rows on the grid."""
        layout = self.layout
        frame = self.layout.frame
        here = self.layout.kept[me]
        joint = self.figures.name == StageName.JOINT
        unit = layout.units[layout.mine(me)[: here.size]] if joint else np.ones(here.size, int)
        of = layout.places(me), frame.centre[here], frame.scale[here], unit
        whole = joint and layout.whole(me)
        return IntegerRows(block, grid(layout.job, me, self.figures, *of, whole=whole))


# ------------------------------------------------------------------------------------------------ a party's own


@dataclass
class OwnMatrix:
    """The rows [a, τ·y] of one party in units, a few at a time."""

    plan: RunPlan
    prepared: Prepared
    block: Block
    gate: Gate

    def __post_init__(self) -> None:
        job = self.plan.job
        figures = self.prepared.figures
        me = self.gate.node
        self.rows = self.prepared.rows(self.block, me)
        self.holder = me == job.roster.label
        self.width = width = self.rows.columns + self.holder
        self.products = np.zeros((width, width), np.int64)
        self.sums = np.zeros(width, np.int64)
        self.constant = np.full(job.roster.rows, figures.constant)
        # Divided before labels are multiplied by it: a quotient of doubles over 2^53 would be past its bound, for some.
        label = figures.label // self.label_unit
        self.bound = _entry(self.rows, self.holder, label)
        self._labels = [label_steps(job, self.block.own_labels(), label)] if self.holder else []

    @cached_property
    def label_unit(self) -> int:
        layout = self.prepared.layout
        return int(layout.units[layout.label])

    def read(self, first: int, count: int) -> Integers:
        return self.rows.rows(first, count, *(y[first : first + count] for y in self._labels))

    def add_up(self, first: int, count: int) -> Integers:
        """The same rows, whose products and sums are added to its own."""
        rows = self.read(first, count)
        self.products += own_products(rows, bound=self.bound)
        add_products(rows, self.constant[first : first + count, None], self.sums[:, None])
        return rows

    @property
    def squares_sent(self) -> int:
        """y'y = n·τ² is public for classes, and not sent."""
        return self.width - (self.holder and self.plan.job.problem.loss.classifies)


@dataclass
class SumsOfRows:
    """What a party adds up for class sums: squares of its columns that are not binary, class sums, the class size."""

    plan: RunPlan
    prepared: Prepared
    block: Block
    gate: Gate
    rows: IntegerRows
    labels: Floats  # noisy ones, where class sums go by them

    def __post_init__(self) -> None:
        plan = self.plan
        figures = self.prepared.figures
        me = self.gate.node
        job = plan.job
        self.holder = me == job.roster.label
        self.squared = squared_columns(job, me)
        self.squares, self.sums = (
            np.zeros(int(self.squared.sum()), np.int64),
            np.zeros((self.rows.columns, 2), np.int64),
        )
        self.count = np.zeros(1, np.int64)
        self.classes = None
        self.bound = _entry(self.rows, self.holder, figures.label)
        if plan.labels is not None:
            self.classes = class_weights(job, plan.labels.cut_to(self.labels), figures.label)  # cut again, here
        elif self.holder:
            self.classes = class_weights(job, self.block.own_labels(), figures.label)

    def read(self, first: int, number: int) -> Integers:
        """Add up some rows; what of them is multiplied with other parties' columns."""
        # Where nothing is masked the zeros of a sparse table need not be looked at.
        rows = self.rows
        classes = self.classes
        alone = self.prepared.figures.alone and rows.stay_sparse
        own = (rows.sparse_rows if alone else rows.rows)(first, number)
        if classes is not None:
            weights = classes[first : first + number]
        if sparse.issparse(own):
            self.squares += np.asarray((own[:, self.squared] ** 2).sum(axis=0)).ravel()
            self.sums += np.asarray(own.T @ weights)
        else:
            every = np.zeros(rows.columns, np.int64)
            add_squares(own, every)
            self.squares += every[self.squared]
            if classes is not None:
                add_products(own, weights, self.sums)
        if classes is None:
            return own
        self.count += weights[:, 0].sum()
        return weights

    def own(self) -> tuple[Integers, ...]:
        """What it computed by itself."""
        sized = self.holder and not self.prepared.figures.alone
        return (self.squares, *([self.sums] if self.classes is not None else []), *([self.count] if sized else []))


def label_steps(job: Job, labels: Integers, size: int) -> Integers:
    """Labels in whole steps: ±size for classes, the nearest step within ±size otherwise."""
    return np.rint(_cut(job, labels) * size).astype(np.int64)


def class_weights(job: Job, labels: Integers, top: int) -> Integers:
    """For each row its weight in either class, together `top`: (top, 0) or (0, top) for classes."""
    up = np.rint((1.0 + _cut(job, labels)) / 2.0 * top).astype(np.int64)
    return np.column_stack([up, top - up])


def _cut(job: Job, labels: Integers) -> Floats:
    """Labels relative to their bound, within ±1 whatever they are."""
    return clean_cells(labels, job.label_bound) / job.label_bound


def squared_columns(job: Job, name: str) -> NDArray[np.bool_]:
    """Which columns of a party have a sum of squares of their own: those that are not zeros and ones."""
    return ~entry_bounds(job, name)[1] if job.roster.positions[name] else np.zeros(0, bool)


def _entry(rows: IntegerRows, holder: bool, label: int) -> int:
    """The public bound of an entry of its matrix."""
    ends = np.concatenate([np.abs(rows.grid.low), np.abs(rows.grid.high), [1]])
    return max(int(ends.max()), label if holder else 1)
