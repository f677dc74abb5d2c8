"""Both sides of a secure release of Private Gram: a party computes its part, the coordinator makes figures of all.

Party    what it is told, what it checks, and what it computes and releases of its own rows.
         Leaves, through the gate: noisy sums of its own rows, masked rows, and corrections under noise.
Coordinator   the Gram matrix, class sums, and the answer with its remarks, from what has left before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring import Ring, add_products, add_squares
from colonnade.kernels.ring_products import gram as own_products
from colonnade.methods.gram.design import OWN, Figures, Name, grid, label_bound, noise_sd, own_count, sums_weights
from colonnade.methods.gram.integer_rows import IntegerRows, entry_bounds
from colonnade.methods.gram.messages import Diagonal, Parts, Prepare, SendDiagonal, Widths
from colonnade.methods.gram.rule import RowFrame
from colonnade.methods.gram.secure_design import MOST_BITS, Design, Layout
from colonnade.methods.gram.secure_products import GRAM, Losses, Stage, collect, upload, whole_table
from colonnade.model.job import Job
from colonnade.model.release import Sums
from colonnade.privacy.block import LARGEST, Block, clean_cells
from colonnade.privacy.events import Audience, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Packed, Private
from colonnade.runtime.program import COORDINATOR, Inbox, Post, Program, ask_one, expect, receive
from colonnade.runtime.wire import public_digest

ROOM = 1e-9  # of the longest column's square


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
    """The rows [a, τ·y] of one party in units, a few at a time."""

    design: Design
    prepared: Prepared
    block: Block
    gate: Gate

    def __post_init__(self) -> None:
        job, figures, me = self.design.job, self.prepared.figures, self.gate.node
        self.rows, self.holder = self.prepared.rows(self.block, me), me == job.roster.label
        self.width = width = self.rows.columns + self.holder
        self.products, self.sums = np.zeros((width, width), np.int64), np.zeros(width, np.int64)
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
        return self.width - (self.holder and self.design.job.problem.loss.classifies)


def release_gram(
    design: Design, prepared: Prepared, matrix: OwnMatrix, seeds: dict[str, bytes], losses: Losses
) -> Program[Parts]:
    """Its squared lengths, then masked rows in the rings that these give, then all the rest: one mechanism."""
    gate, figures, layout = matrix.gate, prepared.figures, prepared.layout
    me, sensitivity, width = gate.node, design.sensitivity(prepared.figures), matrix.width
    diagonal, triangle, column_sums = layout.weights(me)
    yield from receive(COORDINATOR, SendDiagonal)
    squares = np.zeros(width, np.int64)
    for first, count in whole_table(design.stage(figures, prepared.digest)):
        add_squares(matrix.read(first, count), squares)
    sent = matrix.squares_sent
    if design.exact:
        released = gate.exact(_packed(squares[:sent], OWN.mask))
    else:
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
    matrix.rows.shortened = 0  # they are read, and counted, again
    corrections = yield from upload(stage, gate, seeds, matrix.add_up, matrix.bound, losses)
    values = (matrix.products[np.triu_indices(width, 1)], matrix.sums, *corrections.values())
    masks: tuple[Any, ...] = (OWN.mask, OWN.mask, *(stage.masks(pair) for pair in corrections))
    if design.exact:
        return Parts(gate.exact(*(_packed(part, mask) for part, mask in zip(values, masks, strict=True))))
    weights = (triangle, column_sums, *(layout.cross_weights(pair) for pair in corrections))
    return Parts(gate.the_rest(Private(values, sensitivity), weights, masks))


def _packed(part: Integers, mask: Any) -> Packed:
    """Integers in their rings, as they are."""
    limit = np.asarray(mask, np.uint64)
    return Packed(np.array(part).astype(np.uint64) & limit, max(1, int(limit.max(initial=1)).bit_length()))


@dataclass
class SumsOfRows:
    """What a party adds up for class sums: squares of its columns that are not binary, class sums, the class size."""

    design: Design
    prepared: Prepared
    block: Block
    gate: Gate
    rows: IntegerRows
    labels: Floats  # noisy ones, where class sums go by them

    def __post_init__(self) -> None:
        design, figures, me = self.design, self.prepared.figures, self.gate.node
        job = design.job
        self.holder, self.squared = me == job.roster.label, squared_columns(job, me)
        self.squares, self.sums = (
            np.zeros(int(self.squared.sum()), np.int64),
            np.zeros((self.rows.columns, 2), np.int64),
        )
        self.count, self.classes = np.zeros(1, np.int64), None
        self.bound = _entry(self.rows, self.holder, figures.label)
        if design.labels is not None:
            self.classes = class_weights(job, design.labels.cut_to(self.labels), figures.label)  # cut again, here
        elif self.holder:
            self.classes = class_weights(job, self.block.own_labels(), figures.label)

    def read(self, first: int, number: int) -> Integers:
        """Add up some rows; what of them is multiplied with other parties' columns."""
        # Where nothing is masked the zeros of a sparse table need not be looked at.
        rows, classes = self.rows, self.classes
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


def release_sums(
    design: Design, prepared: Prepared, sums: SumsOfRows, seeds: dict[str, bytes], losses: Losses
) -> Program[Parts]:
    """Squares of its columns that are not binary; class sums, by itself or with the label holder; the class size."""
    figures, gate = prepared.figures, sums.gate
    stage = design.stage(figures, prepared.digest)
    corrections = yield from upload(stage, gate, seeds, sums.read, sums.bound, losses)
    own = sums.own()
    parts = gate.integers(
        Private((*own, *corrections.values()), design.sensitivity(figures)),
        (*sums_weights(figures, len(own)), *(1.0 for _ in corrections)),
        (*(OWN.mask for _ in own), *(stage.masks(pair) for pair in corrections)),
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
    figures = Figures(names[name], told.step, told.bits, norm2, widths, told.constant, told.label, job.roster.rows)
    if sums:  # all of it is public: every party works it out for itself
        agreed = figures == design.sums and told.keep.size == every
        agreed = agreed and not told.centre.any() and bool((told.scale == 1).all())
    else:
        agreed = min(told.constant, told.label) >= 1
    if not agreed:
        raise ProtocolError(f"{COORDINATOR!r} described another release than the one that was agreed")
    frame = RowFrame(told.keep, told.centre, told.scale, np.zeros(len(parties)), np.zeros(told.keep.size))
    return Prepared(figures, Layout(job, figures, frame), _digest(design, told))


def _digest(design: Design, told: Prepare) -> bytes:
    """What the parties of a stage must have been told alike: the whole message, and what they approved."""
    job, privacy = design.approved, design.approved.privacy
    agreed = None if privacy is None else sorted(map(repr, asdict(privacy).items()))  # in any order of parties
    # The whole roster: from what its schemas say of both parties follow units, and so the noise of a product.
    return public_digest(told, (agreed, job.problem, job.roster, design.settings))


def check_widths(layout: Layout, told: Widths) -> Integers:
    """The rings as they were told. Whatever they are, noise in them hides what it hides."""
    fits = told.bits.dtype.kind == "i" and told.bits.shape == layout.owner.shape
    if not (fits and ((told.bits >= 1) & (told.bits <= MOST_BITS)).all()):
        raise ProtocolError(f"{COORDINATOR!r} described rings that columns cannot have")
    return told.bits


# ------------------------------------------------------------------------------------------------ the coordinator


class Lifting(Protocol):
    """What makes whole products of what they are in their rings."""

    def lift(self, product: Any, rows: Integers, columns: Integers) -> Any: ...


@dataclass(frozen=True)
class Collected:
    """What came of one release, of those who were not lost: each party's own parts, and the products of each pair."""

    own: Mapping[str, tuple[Integers, ...]]
    cross: Mapping[tuple[str, str], Integers]


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


def collect_sums(design: Design, prepared: Prepared, gate: Gate, losses: Losses) -> Program[Collected]:
    """Class sums; in a consortium noised here, before anything else is done with them."""
    job, figures = design.job, prepared.figures
    stage = design.stage(figures, prepared.digest)
    own = {name: own_count(job, figures, name) for name in job.roster.parties}
    totals = yield from collect(stage, own, losses)
    got, ring = Collected(totals.parts, totals.products()), Ring(figures.bits)
    losses.came(totals.parts, "class sums")
    if design.audience is Audience.ALL:
        return replace(got, cross={pair: ring.signed(part) for pair, part in got.cross.items()})
    weights = [w for parts in got.own.values() for w in sums_weights(figures, len(parts))] + [1.0] * len(got.cross)
    exact, masks = _flat(got, stage)
    privately = Private(exact, design.sensitivity(figures))
    released = gate.integers(privately, tuple(weights), masks, rho=design.rho("sums"), scope=Scope.JOINT)
    got = _like(got, [part.value.values for part in released])
    return replace(got, cross={pair: ring.signed(part) for pair, part in got.cross.items()})


def collect_gram(design: Design, prepared: Prepared, gate: Gate, losses: Losses) -> Program[Floats]:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps²: squared lengths first, then the rest in rings that fit.

    Of those who are lost its rows and columns are zeros.
    """
    job, figures, layout = design.job, prepared.figures, prepared.layout
    parties, inside = losses.rest(job.roster.parties), design.audience is not Audience.ALL
    fixed = job.problem.loss.classifies
    squares = Diagonals({name: figures.widths[name] - (fixed and name == job.roster.label) for name in parties})
    losses.hear((yield Post(dict.fromkeys(parties, SendDiagonal()), parties, fold=squares)), GRAM)
    losses.came(squares.values, "squared lengths")
    parties = losses.rest(parties)
    sensitivity, weights = design.sensitivity(figures), {name: layout.weights(name) for name in parties}
    lengths = dict(squares.values)
    if inside:
        released = gate.integers(
            Private(tuple(lengths.values()), sensitivity),
            tuple(weights[name][0][: squares.widths[name]] for name in parties),
            tuple(OWN.mask for _ in parties),
            rho=design.rho("joint"),
            scope=Scope.JOINT,
            more=True,
        )
        # Beside the fold, which is saved as it came: a replay must give the gate the same numbers again.
        lengths = {name: part.value.values for name, part in zip(parties, released, strict=True)}
    diagonal = np.zeros(layout.owner.size)
    for name, values in lengths.items():
        diagonal[layout.mine(name)[: values.size]] = OWN.signed(values)
    # Without noise: beside products there is room for what floats of them are rounded by.
    room = ROOM * float(diagonal.max(initial=0.0))
    rings = layout.fit(diagonal, room if design.exact else noise_sd(sensitivity, design.rho("joint"), 1.0))
    stage = design.stage(figures, prepared.digest, layout.by_party(rings.bits))
    yield Post(dict.fromkeys(parties, Widths(rings.bits)), ())
    totals = yield from collect(stage, dict.fromkeys(parties, 2), losses)
    got = Collected(totals.parts, totals.products())
    if inside:
        exact, masks = _flat(got, stage)
        own = [weight for name in got.own for weight in weights[name][1:]]
        cross = [layout.cross_weights(pair) for pair in got.cross]
        released = gate.the_rest(Private(exact, sensitivity), (*own, *cross), masks)
        got = _like(got, [part.value.values for part in released])
    return gram_matrix(layout, rings, diagonal, got)


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


def gram_matrix(layout: Layout, rings: Lifting, diagonal: Floats, got: Collected) -> Floats:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps², from parts in units."""
    roster, figures = layout.job.roster, layout.figures
    units, s = layout.units.astype(float), layout.owner.size - 1
    # Columns of all parties first, then the constant, then the label, which stands with its holder's columns.
    order = np.cumsum(np.arange(s + 1) != layout.label) - 1
    order[layout.label] = s + 1
    matrix = np.zeros((s + 2, s + 2))
    matrix[order, order] = diagonal * units**2
    matrix[s, s] = roster.rows * figures.constant**2
    if layout.job.problem.loss.classifies:
        matrix[s + 1, s + 1] = roster.rows * figures.label**2
    for name, parts in got.own.items():
        at, unit = order[layout.mine(name)], units[layout.mine(name)]
        upper, sums = map(OWN.signed, parts)
        i, j = np.triu_indices(at.size, 1)
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper * unit[i] * unit[j]
        matrix[at, s] = matrix[s, at] = sums * unit
    for (k, m), product in got.cross.items():
        rows, columns = layout.mine(k), layout.mine(m)
        whole = rings.lift(product, rows, columns) * np.outer(units[rows], units[columns])
        matrix[np.ix_(order[rows], order[columns])] = whole
        matrix[np.ix_(order[columns], order[rows])] = whole.T
    return matrix


def class_sums(design: Design, got: Collected, labels: Floats) -> Sums:
    """Class sums in the columns' own units; zeros for those who are lost."""
    job, figures, owner = design.job, design.sums, design.columns.owner
    assert figures is not None
    label, unit = job.roster.label, figures.step / figures.label
    sd = noise_sd(design.sensitivity(figures), design.rho("sums"), unit)
    both, squares, noise = np.zeros((owner.size, 2)), np.zeros(owner.size), np.full(owner.size, sd)
    for k, name in enumerate(job.roster.parties):
        if name not in got.own:
            continue
        at = np.flatnonzero(owner == k)
        squares[at[squared_columns(job, name)]] = OWN.signed(got.own[name][0]) * figures.step**2 / 2.0
        if name == label or figures.alone:
            both[at] = OWN.signed(got.own[name][1]) * unit
        elif at.size:
            first = (name, label) in got.cross
            both[at] = (got.cross[name, label] if first else got.cross[label, name].T) * unit
            noise[at] = sd * design.shares**0.5
    square_noise = np.full(owner.size, sd)
    if design.labels is None:
        count = float(OWN.signed(got.own[label][2])[0]) / figures.label
        return Sums(both[:, 0], both[:, 1], count, squares, noise, sd, square_noise)
    # By noisy labels: half the sum and half the difference, the latter made whole again; and the labels' own noise.
    kept, bound = design.labels.kept, label_bound(job)
    half, apart = (both[:, 0] + both[:, 1]) / 2.0, (both[:, 0] - both[:, 1]) / (2.0 * kept)
    size = np.where(design.columns.binary, np.abs(2.0 * half), 2.0 * np.abs(squares))
    spread = np.hypot(noise * math.sqrt((1.0 + kept**-2) / 2.0), np.sqrt(size) / (2.0 * kept))
    count = (job.roster.rows + design.labels.total(labels) / (kept * bound)) / 2.0
    around = math.sqrt(job.roster.rows) / (2.0 * kept)
    return Sums(half + apart, half - apart, count, squares, spread, around, square_noise)
