"""What Private Gram's coordinator makes of a release: the Gram matrix, class sums, and the answer with its remarks.

Leaves   nothing: everything here has left before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring import Ring
from colonnade.methods.gram.design import OWN, label_bound, noise_sd, own_count, sums_weights
from colonnade.methods.gram.integer_rows import uncut
from colonnade.methods.gram.rings import Layout, Rings
from colonnade.methods.gram.rule import RowFrame, Sums
from colonnade.methods.gram.secure_design import Design, fixed_labels
from colonnade.methods.gram.secure_parts import Prepared, squared_columns
from colonnade.methods.gram.secure_products import Diagonals, SendDiagonal, Stage, Widths, collect
from colonnade.methods.gram.solve import GramSolution
from colonnade.methods.method import Answer, Job, Status, swamped
from colonnade.privacy.events import Audience, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Private
from colonnade.runtime.program import Post, Program

SURROGATE = "solved as least squares on labels ±1, which the Gram matrix suffices for, not as the loss that was asked"
CODING = "labels above 0 count as the positive class and all others as the negative one; a private run cannot look"
COVER = (
    "standard errors hold sampling and noise, for labels within their range whose residuals spread alike in all rows"
)
CLEAR = 2.33  # sds of its noise that the covariance of scores and labels must exceed: noise alone does in 1 run of 100


@dataclass(frozen=True)
class Collected:
    """What came of one release: each party's own parts, and the products of each pair, each entry in its ring."""

    own: Mapping[str, tuple[Integers, ...]]
    cross: Mapping[tuple[str, str], Integers]


def collect_sums(design: Design, prepared: Prepared, gate: Gate) -> Program[Collected]:
    """Class sums; in a consortium noised here, before anything else is done with them."""
    job, figures = design.job, prepared.figures
    stage = design.stage(figures, prepared.digest)
    own = {name: own_count(job, figures, name) for name in job.roster.parties}
    totals = yield from collect(stage, own, job.roster.parties)
    got = Collected(totals.parts, totals.products())
    if design.audience is Audience.ALL:
        return got
    weights = [w for parts in got.own.values() for w in sums_weights(figures, len(parts))] + [1.0] * len(got.cross)
    exact, masks = _flat(got, stage)
    privately = Private(exact, design.sensitivity(figures))
    released = gate.integers(privately, tuple(weights), masks, rho=design.rho("sums"), scope=Scope.JOINT)
    return _like(got, [part.value.values for part in released])


def collect_gram(design: Design, prepared: Prepared, gate: Gate) -> Program[Floats]:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps²: squared lengths first, then the rest in rings that fit."""
    job, figures, layout = design.job, prepared.figures, prepared.layout
    parties, inside, fixed = job.roster.parties, design.audience is not Audience.ALL, fixed_labels(job, figures)
    squares = Diagonals({name: figures.widths[name] - (fixed and name == job.roster.label) for name in parties})
    yield Post(dict.fromkeys(parties, SendDiagonal()), parties, fold=squares)
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
    rings = layout.fit(diagonal, noise_sd(sensitivity, design.rho("joint"), 1.0))
    stage = design.stage(figures, prepared.digest, layout.by_party(rings.bits))
    yield Post(dict.fromkeys(parties, Widths(rings.bits)), ())
    totals = yield from collect(stage, dict.fromkeys(parties, 2), parties)
    got = Collected(totals.parts, totals.products())
    if inside:
        exact, masks = _flat(got, stage)
        own = [weight for name in parties for weight in weights[name][1:]]
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


def gram_matrix(layout: Layout, rings: Rings, diagonal: Floats, got: Collected) -> Floats:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps², from parts in units."""
    roster, figures = layout.job.roster, layout.figures
    units, s = layout.units.astype(float), layout.owner.size - 1
    # Columns of all parties first, then the constant, then the label, which stands with its holder's columns.
    order = np.cumsum(np.arange(s + 1) != layout.label) - 1
    order[layout.label] = s + 1
    matrix = np.zeros((s + 2, s + 2))
    matrix[order, order] = diagonal * units**2
    matrix[s, s] = roster.rows * figures.constant**2
    if fixed_labels(layout.job, figures):
        matrix[s + 1, s + 1] = roster.rows * figures.label**2
    for name in roster.parties:
        at, unit = order[layout.mine(name)], units[layout.mine(name)]
        upper, sums = map(OWN.signed, got.own[name])
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
    """Class sums in the columns' own units."""
    job, figures, owner = design.job, design.sums, design.columns.owner
    assert figures is not None
    ring, label, unit = Ring(figures.bits), job.roster.label, figures.step / figures.label
    sd = noise_sd(design.sensitivity(figures), design.rho("sums"), unit)
    both, squares, noise = np.zeros((owner.size, 2)), np.zeros(owner.size), np.full(owner.size, sd)
    for k, name in enumerate(job.roster.parties):
        at = np.flatnonzero(owner == k)
        squares[at[squared_columns(job, name)]] = OWN.signed(got.own[name][0]) * figures.step**2 / 2.0
        if name == label or figures.alone:
            both[at] = OWN.signed(got.own[name][1]) * unit
        elif at.size:
            first = (name, label) in got.cross
            both[at] = ring.signed(got.cross[name, label] if first else got.cross[label, name].T) * unit
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


def cut_short(job: Job) -> str | None:
    return None if uncut(job) else "no declared schemas prove that rows and entries stay as they are"


def gram_answer(job: Job, solved: GramSolution, frame: RowFrame, remarks: tuple[str, ...], doubt: str | None) -> Answer:
    """`doubt`: why standard errors would not cover, whatever was released; None: as far as is known, they may."""
    every = solved.coefficients.size
    if frame.keep.size < every:
        remarks = (*remarks, f"{frame.keep.size:,} of {every:,} columns were kept; of the others nothing is known")
    doubt = doubt or solved.uncovered
    if solved.signal < CLEAR or (solved.link is not None and solved.link.slope == 0.0):
        remarks = (
            swamped("what scores say of the labels lies within what noise alone would make of it"),
            *remarks,
        )
    about = (SURROGATE, CODING) if job.problem.loss.classifies else ()
    splits = np.cumsum([len(places) for places in job.roster.positions.values()])[:-1]

    def by_party(values: Floats) -> dict[str, Floats]:
        parts = zip(job.roster.parties, np.split(values, splits, axis=-1), strict=True)
        return {name: part for name, part in parts if name in job.roster.with_columns}

    return Answer(
        by_party(solved.coefficients),
        solved.intercept,
        objective=None,  # the data's own objective was not paid for
        gap=None,
        status=Status.ONE_EXCHANGE,
        errors=by_party(solved.errors) if doubt is None else None,
        path=None if solved.path is None else (solved.path.weights, by_party(solved.path.coefficients)),
        link=solved.link,
        remarks=(*about, *remarks, COVER if doubt is None else f"no standard errors: {doubt}"),
    )
