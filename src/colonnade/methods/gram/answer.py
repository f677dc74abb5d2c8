"""The answer of Private Gram, with its remarks, and the release as a fit carries it: from what has left before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.methods.gram.design import Figures
from colonnade.methods.gram.integer_rows import uncut
from colonnade.methods.gram.rule import Gram, RowFrame, Sums
from colonnade.methods.gram.solve import GramSolution
from colonnade.methods.method import Answer, Finish, Job, ReleasedGram, Status, swamped

SURROGATE = (
    "solved as least squares on labels ±1, which the Gram matrix suffices for; a curve of its own turns "
    "scores into probabilities, so a score of 0 need not be an even chance"
)
CODING = (
    "the positive class (labels above 0 where classes have no names) counts as +1 and all else as -1; a private run "
    "cannot look"
)
COVER = (
    "standard errors hold sampling and noise, for labels within their range whose residuals spread alike in all rows"
)
DRAWN = "is predicted as the labels' released mean, which costs nothing and errs less"
CLEAR = 2.33  # sds of its noise that the covariance of scores and labels must exceed: noise alone does in 1 run of 100


def cut_short(job: Job) -> str | None:
    return None if uncut(job) else "no declared schemas prove that rows and entries stay as they are"


def released_gram(
    job: Job,
    gram: Gram,
    frame: RowFrame,
    rule: str,
    cross: str,
    figures: Figures,
    *,
    proven: bool,
    sums: Sums | None = None,
) -> ReleasedGram:
    """The release as a Fit carries it: what came, and public figures."""
    lengths = dict(zip(job.roster.parties, frame.norms.tolist(), strict=True))
    norms = {name: lengths[name] for name in job.roster.with_columns}
    of_rows = (frame.keep, frame.centre, frame.scale, norms)
    kept = None if sums is None else sums.of(frame.keep)
    return ReleasedGram(gram.matrix, gram.noise, *of_rows, proven, rule, cross, figures.step, figures.buckets, kept)


def doubts(solved: GramSolution) -> tuple[str, ...]:
    """What must be said first of scores that owe much to noise."""
    said: list[str] = []
    if solved.signal < CLEAR or solved.kept == 0.0 or (solved.link is not None and solved.link.slope == 0.0):
        said.append(swamped("what scores say of the labels lies within what noise alone would make of it"))
    if solved.kept == 0.0:
        said.append(f"every row {DRAWN}")
    elif solved.kept < 1.0:
        said.append(f"{1.0 - solved.kept:.0%} of what scores differ by is owed to noise: by that part a row {DRAWN}")
    return tuple(said)


def gram_answer(
    job: Job,
    solved: GramSolution,
    release: ReleasedGram,
    remarks: tuple[str, ...],
    doubt: str | None,
) -> Answer:
    """`doubt`: why standard errors would not cover, whatever was released; None: as far as is known, they may."""
    every = solved.coefficients.size
    if release.keep.size < every:
        remarks = (*remarks, f"{release.keep.size:,} of {every:,} columns were kept; of the others nothing is known")
    doubt = doubt or solved.uncovered
    remarks = (*doubts(solved), *remarks)
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
        spread=by_party(solved.errors) if doubt is None else None,
        path=None if solved.path is None else (solved.path.weights, by_party(solved.path.coefficients)),
        link=solved.link,
        remarks=(*about, *remarks, COVER if doubt is None else f"no standard errors: {doubt}"),
        release=release,
    )


def without(answer: Answer, absent: Mapping[str, str]) -> Answer:
    """The answer without what it says of parties that were lost, whose columns were not solved for."""

    def fewer(values: Mapping[str, Floats]) -> dict[str, Floats]:
        return {party: value for party, value in values.items() if party not in absent}

    return replace(
        answer,
        coefficients=fewer(answer.coefficients),
        spread=None if answer.spread is None else fewer(answer.spread),
        path=None if answer.path is None else (answer.path[0], fewer(answer.path[1])),
        absent=absent,
    )


def chosen_weight(solved: GramSolution) -> str:
    """What to say of a penalty that was chosen along its path."""
    assert solved.path is not None
    least, most = (figure(solved.path.weights) for figure in (np.min, np.max))
    return (
        f"{solved.penalty} was chosen for the error that it is expected to have on other rows, from what was released, "
        f"of weights from {least:.3g} to {most:.3g}: it cost nothing"
    )


def finish_all(job: Job, answer: Answer) -> dict[str, Finish]:
    """To every party its part of the model."""
    nothing = np.zeros(0)
    return {p: Finish(answer.coefficients.get(p, nothing), answer.intercept) for p in job.roster.parties}
