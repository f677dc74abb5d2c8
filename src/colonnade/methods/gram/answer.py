"""What a released Gram matrix is solved into: curves as far as it bears them out, a path, and an answer with remarks.

Support  the released Gram is solved with lines only, and with hats that weigh ½ or 1, fading from level to level by 0,
         ½ or 1: a lighter hat is a stronger prior that there is no bend. The one that explains most of the label is
         taken, less what its noise has learnt, if it explains more than lines do by 1 sd of the noise of that
         difference (numbers: 2.5, since a wrong bend costs more where much is explained), and at most 1.1 times what
         there is to explain. Post-processing: free.
Chosen   N/3, .15, 1 and 2 sds, and ½, by looking at credit-default (whole and 3,000 rows), nhanes-diabetes, flights
         (30,000 rows) and 21 tables from generators: straight, bent, skewed, with rare classes, of 442 to 60,000 rows
         (benchmarks/curves.py). At N/2 straight tables lost up to .01 of AUC at epsilon 1, at N/4 bent ones gained a
         third less. With 327,000 flights depth 4 gained .001 on depth 3; elsewhere it gained and lost nothing.
         N²/1000 and 2.5 sds on the straight tables of benchmarks/battery.py, whose `price` prints what noise that is
         1 + h times as large costs lines: at most about 1.2·h·L/N^1.7 of AUC, so that h·L = N²/4000 costs .0007
         at N = 15 and .0016 at 256; with numbers more of R² where nearly all is explained, hence N²/8000: at N²/2000
         the battery's close table with heavy tails lost .07 at epsilon 1. Where .15·L was always allowed,
         500 rows lost .017 of AUC. 36 and 100: below, tables of the battery lost more than .003 of AUC or .01 of R²
         (500 rows at epsilon 4, N = 35; numbers of 2,000 rows at epsilon 4, N = 88), and few gained.
         1.1: at 1.0 noise alone put bends that explain nearly all beyond it in one run of twenty (6,000 rows of |x| at
         epsilon 2), and lines explain nothing of those; at 1.05 to 1.2 five tables of the battery did not change.
Path     the same release solved for lighter and heavier penalties, or smaller and larger sets.
Leaves   nothing: all of it follows from what was released and paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.methods.gram.plan import Figures
from colonnade.methods.gram.rule import Gram, RowFrame
from colonnade.methods.method import Finish
from colonnade.model.job import Answer, Job, ReleasedGram, Status, Sums, swamped
from colonnade.problem import quadratic
from colonnade.problem.link import Link
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, Penalty, Ridge
from colonnade.problem.problem import Problem
from colonnade.problem.quadratic import Block, blocks_of, nearest_monotone
from colonnade.problem.sets import GroupL1Ball, L1Ball, Set, Simplex

FADES = ((0.5, 0.0), (1.0, 0.0), (0.5, 0.5), (1.0, 0.5), (0.5, 1.0), (1.0, 1.0))  # of level 1, and from level to level
PROOF = {True: 1.0, False: 2.5}  # sds of its noise by which bends must explain more, for classes and for numbers
BEYOND = 1.1  # of the label's variance: bends that seem to explain more than this are noise
FACTORS = np.logspace(2.0, -2.0, 17)  # of the asked weight or radius, along a path
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


# ------------------------------------------------------------------------------------------------ curves


@dataclass(frozen=True)
class Curves:
    """What a solve should know of columns that are curves, and which are zeros and ones."""

    level: Indices  # (d,) of a hat, 1, 2, …; 0: no hat
    monotone: Indices | None = None  # (d,) 1 or -1 where a number never falls or rises, its hats behind it; else 0
    choose: bool = True  # whether only as much is made of hats, and of scores of numbers, as the release bears out
    flags: NDArray[np.bool_] | None = None  # (d,) which are zeros and ones, by their schemas; None: none is known to be

    def of(self, keep: Indices) -> Curves:
        """Of some columns."""
        monotone = None if self.monotone is None else self.monotone[keep]
        flags = None if self.flags is None else self.flags[keep]
        return replace(self, level=self.level[keep], monotone=monotone, flags=flags)

    def unbroken(self, keep: Indices) -> Indices:
        """Which of the kept columns may be used: of a number that has a direction it must be kept itself, and all hats
        of a level and of those before it, or nothing would say when it is monotone."""
        kept = np.isin(np.arange(self.level.size), keep)
        usable = np.ones(self.level.size, bool)
        for at, _ in self.blocks():
            lost = self.level[at[~kept[at]]]
            usable[at[self.level[at] >= lost.min(initial=self.level.size)]] = False
        return np.flatnonzero(usable[keep])

    def blocks(self) -> list[Block]:
        """Those that have a direction."""
        if self.monotone is None or not self.monotone.any():
            return []
        return blocks_of(self.level, self.monotone)

    @property
    def doubt(self) -> str | None:
        """Why standard errors would not cover; None: not for curves."""
        if self.choose and self.level.any():
            return (
                "curves are as bent as the release bears out, which these errors leave out; smooth = false keeps lines"
            )
        return "curves were kept monotone, which these errors leave out" if self.blocks() else None


def candidates(level: Indices) -> Iterator[Floats]:
    """What hats may weigh in a solve beside what they weigh in the rows, lines only first; 0: they are left out."""
    deepest = int(level.max(initial=0))
    seen = set[tuple[float, ...]]()
    for first, fade in ((0.0, 0.0), *FADES):
        by_level = (1.0, *(first * fade ** (k - 1) for k in range(1, deepest + 1)))
        if by_level not in seen:
            seen.add(by_level)
            yield np.array(by_level)[level]


# ------------------------------------------------------------------------------------------------ along a path


@dataclass(frozen=True)
class Path:
    """The same release solved along a grid of the penalty's weight (or the radius), the strongest first."""

    weights: Floats  # (m,) of ElasticNet, l1; l2 goes along in proportion
    coefficients: Floats  # (m, d)


def along(problem: Problem) -> list[Problem]:
    """The problem with each penalty of its path; its own is one of them."""
    assert problem.penalty is not None
    scaled = [_scale_term(problem.penalty, float(factor))[0] for factor in FACTORS]
    return [replace(problem, penalty=term) for term in scaled if isinstance(term, Penalty)]


def path(hessian: Floats, linear: Floats, term: Penalty | Set, keep: Indices, columns: int, curves: Curves) -> Path:
    # A larger radius is a weaker bound, a larger weight a stronger penalty: the strongest comes first in both.
    factors = FACTORS[::-1] if isinstance(term, Set) else FACTORS
    terms = [_scale_term(term, float(factor)) for factor in factors]
    found = quadratic.path(*spread_out(hessian, linear, term, keep, columns), [one for one, _ in terms])
    x = [one.x if one.x.size == columns else widen(one.x, keep, columns) for one in found]
    if blocks := curves.blocks():
        own = [
            nearest_monotone(one[keep], bent_by(hessian, term), blocks) for one, (term, _) in zip(x, terms, strict=True)
        ]
        x = [widen(one, keep, columns) for one in own]
    return Path(np.array([weight for _, weight in terms]), np.array(x))


def bent_by(hessian: Floats, term: Penalty | Set | None) -> Floats:
    """The Hessian of what was minimised, as far as it has one."""
    bend = term.a if isinstance(term, Ridge) else term.l2 if isinstance(term, ElasticNet) else 0.0
    return np.asarray(hessian + bend * np.eye(len(hessian)))


def spread_out(
    hessian: Floats, linear: Floats, term: Penalty | Set | None, keep: Indices, columns: int
) -> tuple[Floats, Floats]:
    """Groups name every column, so those that were not kept come back as columns without a say."""
    if not isinstance(term, GroupLasso | GroupL1Ball) or keep.size == columns:
        return hessian, linear
    whole = np.zeros((columns, columns))
    whole[np.ix_(keep, keep)] = hessian
    return whole, widen(linear, keep, columns)


def _scale_term(term: Penalty | Set, factor: float) -> tuple[Penalty | Set, float]:
    match term:
        case Ridge() | Lasso() | GroupLasso():
            return replace(term, a=term.a * factor), term.a * factor
        case ElasticNet():
            return replace(term, l1=term.l1 * factor, l2=term.l2 * factor), term.l1 * factor
        case L1Ball() | Simplex() | GroupL1Ball():
            return replace(term, radius=term.radius * factor), term.radius * factor
    raise InvalidInput(f"{type(term).__name__} is not solved from a Gram matrix.")


def widen(values: Floats, keep: Indices, columns: int) -> Floats:
    wide = np.zeros(columns)
    wide[keep] = values
    return wide


# ------------------------------------------------------------------------------------------------ the answer


@dataclass(frozen=True)
class GramSolution:
    """A model of all d columns in their own units, and how sure it is."""

    coefficients: Floats  # (d,) 0 for columns that were not kept
    intercept: float
    errors: Floats  # (d,) standard errors: sampling and privacy noise; see solve
    uncovered: str | None  # why intervals of these errors may miss the truth too often; None: they do not
    intercept_error: float
    privacy_errors: Floats  # (d,) the part of `errors` that the noise alone brings
    path: Path | None
    penalty: Penalty | None  # that was solved with: the problem's own, or the one of the path that was chosen
    gap: float  # duality gap of the quadratic problem that was solved
    ridge: float  # what the rule added to the diagonal of A'A (in the frame's units)
    link: Link | None  # classification only
    kept: float  # of the scores' size around their mean: below 1 where labels are numbers and scores owe much to noise
    signal: float  # covariance of score and label, in standard deviations of its noise


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
    return ReleasedGram(gram.matrix, gram.noise, *of_rows, proven, rule, cross, figures.step, kept)


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
