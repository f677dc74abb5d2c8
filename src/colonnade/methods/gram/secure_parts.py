"""A party's part of Private Gram: what it is told, what it checks, and what it computes and releases of its own rows.

Leaves   through the gate: noisy sums of its own rows, masked rows, and corrections under noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.grid import add_products, add_squares
from colonnade.kernels.ring import gram as own_products
from colonnade.methods.gram.design import OWN, Figures, Name, grid, label_bound, sums_weights
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows, entry_bounds
from colonnade.methods.gram.rings import MOST_BITS, Layout
from colonnade.methods.gram.rule import RowFrame
from colonnade.methods.gram.secure_design import Design, fixed_labels
from colonnade.methods.gram.secure_products import (
    Diagonal,
    Parts,
    Rows,
    SendDiagonal,
    Widths,
    upload,
    whole_table,
)
from colonnade.methods.method import Job
from colonnade.privacy.block import LARGEST, Block, clean_cells
from colonnade.privacy.events import Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Private
from colonnade.runtime.messages import message
from colonnade.runtime.program import COORDINATOR, Program, ask_one, public_bytes, receive


@message(148)
class Prepare:
    """Coordinator → all parties, the same to each: how to make the rows of the next release; follows from public and
    released numbers."""

    name: str
    step: float
    bits: int
    norm2: Integers  # by party, in roster order
    constant: int
    label: int
    buckets: int
    keep: Integers  # places among all columns, in roster order
    centre: Floats
    scale: Floats
    labels: Floats  # noisy ones, where class sums go by them; else none


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
        layout, frame, here = self.layout, self.layout.frame, self.layout.kept[me]
        unit = layout.units[layout.mine(me)[: here.size]] if self.figures.name == "joint" else np.ones(here.size, int)
        of = layout.places(me), frame.centre[here], frame.scale[here], unit
        whole = self.figures.name == "joint" and layout.whole(me)
        return IntegerRows(block, grid(layout.job, me, self.figures, *of, whole=whole))


@dataclass
class OwnMatrix:
    """The rows [a, τ·y] of one party in units, or their buckets, a few at a time."""

    design: Design
    prepared: Prepared
    block: Block
    gate: Gate

    def __post_init__(self) -> None:
        job, figures, me = self.design.job, self.prepared.figures, self.gate.node
        self.rows, self.holder = self.prepared.rows(self.block, me), me == job.roster.label
        self.width = self.rows.columns + self.holder
        self.constant = np.full(job.roster.rows, figures.constant)
        # Divided before labels are multiplied by it: a quotient of doubles over 2^53 would be past its bound, for some.
        label = figures.label // self.label_unit
        self.bound = _entry(self.rows, self.holder, label)
        labels = [label_steps(job, self.block.own_labels(), label)] if self.holder else []
        self._read: Rows = self.rows.rows
        if figures.buckets:
            buckets = Buckets(public_bytes(self.gate.run, "buckets"), job.roster.rows, figures.buckets)
            self._read = buckets.of(self.rows, figures.bucketed(self.rows.grid.norm2))
            self.constant = buckets.of_column(self.constant, figures.bucketed(figures.constant**2))
            labels = [buckets.of_column(y, figures.bucketed(figures.label**2)) for y in labels]
            longest = max(self.rows.grid.norm2, figures.label**2 if self.holder else 1)
            self.bound = math.isqrt(figures.bucketed(longest))
        self._labels = labels

    @cached_property
    def label_unit(self) -> int:
        layout = self.prepared.layout
        return int(layout.units[layout.label])

    def read(self, first: int, count: int) -> Integers:
        rows = self._read(first, count)
        if not self.holder:
            return rows
        return np.column_stack([rows, self._labels[0][first : first + count].astype(rows.dtype)])

    @property
    def squares_sent(self) -> int:
        """y'y = n·τ² is public for classes, and not sent."""
        return self.width - (self.holder and fixed_labels(self.design.job, self.prepared.figures))


def release_gram(design: Design, prepared: Prepared, matrix: OwnMatrix, seeds: dict[str, bytes]) -> Program[Parts]:
    """Its squared lengths, then masked rows in the rings that these give, then all the rest: one mechanism."""
    gate, figures, layout = matrix.gate, prepared.figures, prepared.layout
    me, sensitivity, width = gate.node, design.sensitivity(prepared.figures), matrix.width
    diagonal, triangle, column_sums = layout.weights(me)
    yield from receive(COORDINATOR, SendDiagonal)
    squares = np.zeros(width, np.int64)
    for first, count in whole_table(design.stage(figures, prepared.digest)):
        add_squares(matrix.read(first, count), squares)
    sent = matrix.squares_sent
    (released,) = gate.integers(
        Private((squares[:sent],), sensitivity),
        (diagonal[:sent],),
        (OWN.mask,),
        rho=design.rho("joint"),
        scope=Scope.JOINT,
        audience=design.audience,
        more=True,
    )
    told = yield from ask_one(COORDINATOR, Diagonal(released), Widths)
    stage = design.stage(figures, prepared.digest, layout.by_party(check_widths(layout, told)))
    own, sums = np.zeros((width, width), np.int64), np.zeros(width, np.int64)
    if not figures.buckets:
        matrix.rows.shortened = 0  # they are read, and counted, again

    def read(first: int, count: int) -> Integers:
        rows = matrix.read(first, count)
        own[:] += own_products(rows, bound=matrix.bound)
        add_products(rows, matrix.constant[first : first + count, None], sums[:, None])
        return rows

    corrections = yield from upload(stage, gate, seeds, read, matrix.bound)
    pairs = [(me, p) if (me, p) in stage.pairs else (p, me) for p in stage.partners(me)]
    parts = gate.the_rest(
        Private((own[np.triu_indices(width, 1)], sums, *corrections), sensitivity),
        (triangle, column_sums, *(layout.cross_weights(pair) for pair in pairs)),
        (OWN.mask, OWN.mask, *(stage.masks(pair) for pair in pairs)),
    )
    return Parts(parts)


def release_sums(
    design: Design,
    prepared: Prepared,
    block: Block,
    gate: Gate,
    rows: IntegerRows,
    labels: Floats,
    seeds: dict[str, bytes],
) -> Program[Parts]:
    """Squares of its columns that are not binary; class sums, by itself or with the label holder; the class size."""
    job, figures, me = design.job, prepared.figures, gate.node
    holder, squared = me == job.roster.label, squared_columns(job, me)
    squares, sums = np.zeros(int(squared.sum()), np.int64), np.zeros((rows.columns, 2), np.int64)
    count, classes = np.zeros(1, np.int64), None
    if design.labels is not None:
        classes = class_weights(job, design.labels.cut_to(labels), figures.label)  # cut again, here
    elif holder:
        classes = class_weights(job, block.own_labels(), figures.label)

    def read(first: int, number: int) -> Integers:
        # Where nothing is masked the zeros of a sparse table need not be looked at.
        own = (rows.sparse_rows if figures.alone and rows.stay_sparse else rows.rows)(first, number)
        if classes is not None:
            weights = classes[first : first + number]
        if sparse.issparse(own):
            squares[:] += np.asarray((own[:, squared] ** 2).sum(axis=0)).ravel()
            sums[:] += np.asarray(own.T @ weights)
        else:
            every = np.zeros(rows.columns, np.int64)
            add_squares(own, every)
            squares[:] += every[squared]
            if classes is not None:
                add_products(own, weights, sums)
        if classes is None:
            return own
        count[:] += weights[:, 0].sum()
        return weights

    stage = design.stage(figures, prepared.digest)
    corrections = yield from upload(stage, gate, seeds, read, _entry(rows, holder, figures.label))
    own = [squares, *([sums] if classes is not None else []), *([count] if holder and not figures.alone else [])]
    pairs = [(me, p) if (me, p) in stage.pairs else (p, me) for p in stage.partners(me)]
    parts = gate.integers(
        Private((*own, *corrections), design.sensitivity(figures)),
        (*sums_weights(figures, len(own)), *(1.0 for _ in corrections)),
        (*(OWN.mask for _ in own), *(stage.masks(pair) for pair in pairs)),
        rho=design.rho("sums"),
        scope=Scope.JOINT,
        audience=design.audience,
    )
    return Parts(parts)


def label_steps(job: Job, labels: Integers, size: int) -> Integers:
    """Labels in whole steps: ±size for classes, the nearest step within ±size otherwise."""
    return np.rint(_cut(job, labels) * size).astype(np.int64)


def class_weights(job: Job, labels: Integers, top: int) -> Integers:
    """For each row its weight in either class, together `top`: (top, 0) or (0, top) for classes."""
    up = np.rint((1.0 + _cut(job, labels)) / 2.0 * top).astype(np.int64)
    return np.column_stack([up, top - up])


def _cut(job: Job, labels: Integers) -> Floats:
    """Labels relative to their bound, within ±1 whatever they are."""
    return clean_cells(labels, label_bound(job)) / label_bound(job)


def squared_columns(job: Job, name: str) -> NDArray[np.bool_]:
    """Which columns of a party have a sum of squares of their own: those that are not zeros and ones."""
    return ~entry_bounds(job, name)[1] if job.roster.positions[name] else np.zeros(0, bool)


def _entry(rows: IntegerRows, holder: bool, label: int) -> int:
    """The public bound of an entry of its matrix."""
    ends = np.concatenate([np.abs(rows.grid.low), np.abs(rows.grid.high), [1]])
    return max(int(ends.max()), label if holder else 1)


def check_prepare(design: Design, name: str, told: Prepare) -> Prepared:
    """The release as it was told, or an error: what is wrong here would be wrong in what a party releases."""
    job, parties = design.job, design.job.roster.parties
    names: dict[str, Name] = {"sums": "sums", "joint": "joint"}
    if told.name != name or told.norm2.shape != (len(parties),):
        raise ProtocolError(f"{COORDINATOR!r} described a release that is not the next one of this method")
    figures_fit = 8 <= told.bits <= 64 and 1.0 / LARGEST <= told.step <= LARGEST
    if not (figures_fit and (told.norm2 >= 0).all() and min(told.constant, told.label) >= 0):
        raise ProtocolError(f"{COORDINATOR!r} described a release with figures out of range")
    if not told.keep.shape == told.centre.shape == told.scale.shape == (told.keep.size,):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by {told.keep.size} places and {told.scale.size} scales"
        )
    if not ((np.abs(told.centre) <= LARGEST).all() and ((told.scale > 0) & (told.scale <= LARGEST)).all()):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by centres or scales that are no numbers of a usual size"
        )
    every = design.columns.owner.size
    rising = told.keep.dtype.kind == "i" and (np.diff(told.keep) > 0).all()
    if not (rising and np.isin(told.keep, np.arange(every)).all()):
        raise ProtocolError(f"{COORDINATOR!r} described columns that are not places among {every:,}")
    sums = names[name] == "sums"
    widths = {p: int((design.columns.owner[told.keep] == k).sum()) for k, p in enumerate(parties)}
    if sums:
        widths = {} if design.sums is None else dict(design.sums.widths)
    else:
        widths[job.roster.label] += 1
    norm2 = dict(zip(parties, map(int, told.norm2), strict=True))
    head = names[name], told.step, told.bits, norm2, widths, told.constant, told.label, job.roster.rows
    figures = Figures(*head, told.buckets)
    if sums:  # all of it is public: every party works it out for itself
        agreed = figures == design.sums and told.keep.size == every
        agreed = agreed and not told.centre.any() and bool((told.scale == 1).all())
    else:
        agreed = told.buckets == (design.settings.sketch_rows or 0) and min(told.constant, told.label) >= 1
    if not agreed:
        raise ProtocolError(f"{COORDINATOR!r} described another release than the one that was agreed")
    frame = RowFrame(told.keep, told.centre, told.scale, np.zeros(len(parties)), np.zeros(told.keep.size))
    return Prepared(figures, Layout(job, figures, frame), design.digest(told))


def check_widths(layout: Layout, told: Widths) -> Integers:
    """The rings as they were told. Whatever they are, noise in them hides what it hides."""
    fits = told.bits.dtype.kind == "i" and told.bits.shape == layout.owner.shape
    if not (fits and ((told.bits >= 1) & (told.bits <= MOST_BITS)).all()):
        raise ProtocolError(f"{COORDINATOR!r} described rings that columns cannot have")
    return told.bits
