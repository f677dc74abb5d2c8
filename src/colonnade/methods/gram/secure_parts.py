"""A party's part of Private Gram: what it is told, what it checks, and the sums that it computes from its own rows.

Leaves   nothing by itself: private_gram.py adds the noise and sends what is made here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring import gram as own_products
from colonnade.methods.gram.design import (
    Figures,
    Name,
    label_bound,
)
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows, entry_bounds
from colonnade.methods.gram.secure_design import Design, fixed_labels
from colonnade.methods.gram.secure_products import (
    Deal,
    Rows,
    multiply,
)
from colonnade.methods.method import Job
from colonnade.privacy.block import LARGEST, Block, clean_cells
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.privacy.values import Packed
from colonnade.runtime.messages import message
from colonnade.runtime.program import COORDINATOR, Program, public_bytes

Computed = tuple[list[Integers], list[Integers]]  # its own parts, and a share with each partner


@message(125)
class Prepare:
    """Coordinator → party: how to make your rows of the next release; follows from public and released numbers."""

    name: str
    step: float
    bits: int
    norm2: Integers  # by party, in roster order
    widths: Integers
    constant: int
    label: int
    buckets: int
    keep: Integers  # places among the receiver's columns
    centre: Integers
    scale: Integers
    labels: Integers  # noisy ones, where class sums go by them; else none


@message(126)
class Parts:
    """Party → coordinator: its parts of the sums, noisy (inside a consortium exact), and shares of those that it
    computed with others."""

    parts: tuple[Released[Packed], ...]


def own_gram(job: Job, block: Block, gate: Gate, figures: Figures, deal: Deal, rows: IntegerRows) -> Program[Computed]:
    """Diagonal, upper triangle and column sums of its own rows [a, τ·y]; its share with each partner."""
    holder = gate.node == job.roster.label
    constant, bound = np.full(job.roster.rows, figures.constant), _entry(rows, figures, holder)
    labels = [label_steps(job, block.own_labels(), figures.label)] if holder else []
    read: Rows = rows.rows
    if figures.buckets:
        buckets = Buckets(public_bytes(gate.run, "buckets"), job.roster.rows, figures.buckets)
        read = buckets.of(rows, figures.bucketed(rows.grid.norm2))
        constant = buckets.of_column(constant, figures.bucketed(figures.constant**2))
        labels = [buckets.of_column(y, figures.bucketed(figures.label**2)) for y in labels]
        bound = math.isqrt(figures.bucketed(max(rows.grid.norm2, figures.label**2 if holder else 1)))
    width = rows.columns + holder
    own, sums = np.zeros((width, width), np.int64), np.zeros(width, np.int64)

    def matrix(first: int, count: int) -> Integers:
        z = np.column_stack([read(first, count), *(y[first : first + count] for y in labels)])
        own[:] += own_products(z, bound=bound)
        sums[:] += z.T @ constant[first : first + count]
        return z

    shares = yield from multiply(figures.stage(job), gate, deal, matrix, bound)
    last_one = width - (holder and fixed_labels(job, figures))  # y'y = n·τ²: public, not sent
    return [np.diag(own)[:last_one], own[np.triu_indices(width, 1)], sums], shares


def own_sums(
    design: Design, block: Block, gate: Gate, figures: Figures, deal: Deal, rows: IntegerRows, labels: Floats
) -> Program[Computed]:
    """Squares of its columns that are not binary; class sums, by itself or in shares; the label holder the class
    size."""
    job, holder, squared = design.job, gate.node == design.job.roster.label, squared_columns(design.job, gate.node)
    squares, sums = np.zeros(int(squared.sum()), np.int64), np.zeros((rows.columns, 2), np.int64)
    count, bound = np.zeros(1, np.int64), _entry(rows, figures, holder)
    classes = None
    if design.labels is not None:
        classes = class_weights(job, design.labels.cut_to(labels), figures.label)  # cut again, here
    elif holder:
        classes = class_weights(job, block.own_labels(), figures.label)

    def matrix(first: int, number: int) -> Integers:
        # Where nothing is masked the zeros of a sparse table need not be looked at.
        read = rows.sparse_rows if figures.alone and rows.stay_sparse else rows.rows
        a = read(first, number)
        squares[:] += np.asarray((a[:, squared] ** 2).sum(axis=0)).ravel()
        if classes is None:
            return a
        weights = classes[first : first + number]
        sums[:] += np.asarray(a.T @ weights)
        count[:] += weights[:, 0].sum()
        return weights

    shares = yield from multiply(figures.stage(job), gate, deal, matrix, bound)
    return [
        squares,
        *([sums] if classes is not None else []),
        *([count] if holder and not figures.alone else []),
    ], shares


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


def _entry(rows: IntegerRows, figures: Figures, holder: bool) -> int:
    """The public bound of an entry of its matrix, in steps."""
    ends = np.concatenate([np.abs(rows.grid.low), np.abs(rows.grid.high), [1]])
    return max(int(ends.max()), figures.label if holder else 1)


def check_prepare(design: Design, me: str, told: Prepare) -> Figures:
    """The figures as a party was told them, or an error: what is wrong here would be wrong in its release."""
    job = design.job
    parties, n = job.roster.parties, len(job.roster.parties)
    names: dict[str, Name] = {"sums": "sums", "joint": "joint"}
    if told.name not in names or not (told.norm2.shape == told.widths.shape == (n,)):
        raise ProtocolError(f"{COORDINATOR!r} described a release that this method does not have")
    if not (
        8 <= told.bits <= 64
        and 1.0 / LARGEST <= told.step <= LARGEST
        and (told.norm2 >= 0).all()
        and min(told.constant, told.label) >= 0
    ):
        raise ProtocolError(f"{COORDINATOR!r} described a release with figures out of range")
    if not told.keep.shape == told.centre.shape == told.scale.shape:
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by {told.keep.size} places and {told.scale.size} scales"
        )
    if not ((np.abs(told.centre) <= LARGEST).all() and ((told.scale > 0) & (told.scale <= LARGEST)).all()):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by centres or scales that are no numbers of a usual size"
        )
    width = len(job.roster.positions[me])
    if not (
        told.keep.dtype.kind == "i" and np.isin(told.keep, np.arange(width)).all() and (np.diff(told.keep) > 0).all()
    ):
        raise ProtocolError(f"{COORDINATOR!r} described columns that are not places among {width:,}")
    norm2, widths = (dict(zip(parties, map(int, values), strict=True)) for values in (told.norm2, told.widths))
    head = names[told.name], told.step, told.bits, norm2, widths, told.constant, told.label, job.roster.rows
    figures = Figures(*head, told.buckets)
    if figures.name == "sums":  # all of it is public: every party works it out for itself
        agreed = figures == design.sums and told.keep.size == width
        agreed = agreed and not told.centre.any() and bool((told.scale == 1).all())
    else:
        agreed = told.buckets == (design.settings.sketch_rows or 0) and min(told.constant, told.label) >= 1
        agreed = agreed and widths[me] == told.keep.size + (me == job.roster.label)
    if not agreed:
        raise ProtocolError(f"{COORDINATOR!r} described another release than the one that was agreed")
    return figures
