"""What Private Gram's coordinator makes of a release: the Gram matrix, class sums, and the answer with its remarks.

Leaves   nothing: everything here has left before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.methods.gram.design import (
    OWN,
    Figures,
    label_bound,
    noise_sd,
)
from colonnade.methods.gram.integer_rows import uncut
from colonnade.methods.gram.rule import RowFrame, Sums
from colonnade.methods.gram.secure_design import Design
from colonnade.methods.gram.secure_parts import squared_columns
from colonnade.methods.gram.secure_products import (
    Stage,
)
from colonnade.methods.gram.solve import GramSolution
from colonnade.methods.method import Answer, Job, Status, swamped

SURROGATE = "solved as least squares on labels ±1, which the Gram matrix suffices for, not as the loss that was asked"
CODING = "labels above 0 count as the positive class and all others as the negative one; a private run cannot look"
COVER = (
    "standard errors hold sampling and noise, for labels within their range whose residuals spread alike in all rows"
)
CLEAR = 2.33  # sds of its noise that the covariance of scores and labels must exceed: noise alone does in 1 run of 100


@dataclass(frozen=True)
class Collected:
    """What came of one release: each party's own parts, and the products of each pair."""

    own: Mapping[str, tuple[Integers, ...]]
    cross: Mapping[tuple[str, str], Integers]


def gram_matrix(job: Job, figures: Figures, got: Collected) -> Floats:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps²."""
    roster, ring = job.roster, figures.ring
    s = sum(figures.widths.values()) - 1
    matrix = np.zeros((s + 2, s + 2))
    matrix[s, s], matrix[s + 1, s + 1] = roster.rows * figures.constant**2, roster.rows * figures.label**2
    start, places = 0, {}
    for name in roster.parties:
        width = figures.widths[name] - (name == roster.label)
        at = places[name] = np.array([*range(start, start + width), *([s + 1] if name == roster.label else [])], int)
        start += width
        diagonal, upper, sums = map(OWN.signed, got.own[name])
        matrix[at[: diagonal.size], at[: diagonal.size]] = diagonal
        i, j = np.triu_indices(at.size, 1)
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper
        matrix[at, s] = matrix[s, at] = sums
    for (k, m), both in got.cross.items():
        matrix[np.ix_(places[k], places[m])] = ring.signed(both)
        matrix[np.ix_(places[m], places[k])] = ring.signed(both).T
    return matrix


def class_sums(design: Design, got: Collected, labels: Floats) -> Sums:
    """Class sums in the columns' own units."""
    job, figures, owner = design.job, design.sums, design.columns.owner
    assert figures is not None
    ring, label, unit = figures.ring, job.roster.label, figures.step / figures.label
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


def check_parts(name: str, parts: list[Integers], own: int, stage: Stage) -> None:
    partners = stage.partners(name)
    if len(parts) != own + len(partners):
        raise ProtocolError(f"{name!r} sent {len(parts)} parts where {own + len(partners)} were due")
    for partner, share in zip(partners, parts[own:], strict=True):
        first, second = (name, partner) if (name, partner) in stage.pairs else (partner, name)
        if share.shape != (stage.widths[first], stage.widths[second]):
            raise ProtocolError(f"{name!r} sent a share of shape {share.shape} for its product with {partner!r}")


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
