"""Private Gram, the free half: from a released Gram matrix to a model with error bars, a path and probabilities.

Solves   the problem's least-squares form from noisy [A, 1, y]'[A, 1, y] alone; nothing here sees a row.
         LeastSquares: as it is. SquaredHinge: without its hinge, least squares on labels ±1. Logistic: its quadratic
         model at the share of the positive class (one Newton step from the constant): ½·π(1−π)·x'Sx − ½·x'b.
How      Schur out the constant; cut negative eigenvalues; add the ridge k·g·√s, about half the spectral norm of the
         noise; then the asked penalty or set (quadratic.py).
Numbers  where the covariance of scores and labels is less than CERTAIN sds of its noise, scores are drawn to the mean
         of labels: times cov/var, which errs least on other rows, both less what noise has taught them, as far as that
         is known, else times USUAL: the mean of a normal around USUAL with sd APART, given that noisy factor. Not where
         standard errors cover, nor for inference. Classes have a link, which does the same to probabilities.
         USUAL and APART by looking at the tables of benchmarks/battery.py with 500 and 2,000 rows and numbers, epsilon
         .1 to 4; `python -m benchmarks gram_budgets` prints R² of some of them at 13 budgets.
Order    choose -> (class sums) -> prepare -> (JOINT release) -> Gram.of -> solve; the first half is in rule.py.
Leaves   nothing: every argument is public (schema, rows, rho) or released and paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import logit

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.methods.gram.answer import (
    BEYOND,
    PROOF,
    Curves,
    GramSolution,
    along,
    bent_by,
    candidates,
    path,
    spread_out,
    widen,
)
from colonnade.methods.gram.rule import Gram, GramRule, RowFrame, RuleName, expected_label_mean
from colonnade.model.job import Sums
from colonnade.problem import quadratic
from colonnade.problem.link import Link, mixed
from colonnade.problem.penalties import ElasticNet, Penalty, Ridge
from colonnade.problem.problem import Problem
from colonnade.problem.quadratic import nearest_monotone
from colonnade.problem.sets import Set, Simplex

MOST_NOISE = 0.2  # of the least eigenvalue: the noise's norm, where standard errors still cover
CERTAIN = 3.0  # sds of its noise: a covariance of scores and labels of which nothing is taken away
# mean and sd of the factor that makes scores of much noise err least
USUAL = 0.3
APART = 0.5
MOST_DRIFT = 0.25  # of a standard error: by so much a bias brings the cover of a 95 % interval down to 94.3 %


def solve(
    gram: Gram,
    frame: RowFrame,
    rule: GramRule,
    problem: Problem,
    *,
    rows: int,
    columns: int,
    label_bound: float,
    sums: Sums | None = None,
    curves: Curves | None = None,
    select: bool = False,
) -> GramSolution:
    """The problem's least-squares form, solved from released quantities alone.

    Errors are standard errors of the delta method around the answer: the noise of the release, whose sds are known, and
    sampling under equal variance of the residuals. They describe the spread of the answer, not its bias towards zero by
    the ridge or a penalty; and they hold given the columns in use: with an l1 penalty or a set they say nothing about
    which columns those should be (0 for columns that are out). `uncovered` says where they do not cover.

    `curves` says of all columns which are hats: as much is made of them as the release bears out (answer.py), and they
    are kept monotone where that is declared. Scores of numbers are drawn to their mean where `curves.choose` says so.
    `select`: of all weights along the penalty's path the one is taken whose error on other rows is expected to be
    least, what the model learnt of the noise counted in.
    """
    curves = curves or Curves(np.zeros(columns, np.int64), choose=False)
    if (usable := curves.unbroken(frame.keep)).size < frame.keep.size:
        gram, frame = _weighted(gram, frame, *_in_use(widen(np.ones(usable.size), usable, frame.keep.size)))
    curves = curves.of(frame.keep)
    doubt = curves.doubt
    attempt = _borne_out if curves.choose and bool(curves.level.any()) else _tried
    problems = along(problem) if select else [problem]
    known = rows, columns, label_bound, sums
    every = [(one, attempt(gram, frame, curves, rule, one, *known)) for one in problems]
    asked, (problem, tried) = _term(problem), min(every, key=lambda one: one[1].risk)
    frame, _, moments, model, found, x, spread, scores = tried
    uncovered = doubt or _uncovered(problem, rule, moments, x, spread, rows)
    kept = _kept(problem, scores) if curves.choose and uncovered is not None else 1.0
    intercept = _intercept(problem, moments, kept * x)
    signal = scores.signal
    return GramSolution(
        coefficients=widen(kept * x, frame.keep, columns),
        intercept=intercept,
        errors=widen(spread.errors[:-1], frame.keep, columns),
        uncovered=uncovered,
        intercept_error=float(spread.errors[-1]),
        privacy_errors=widen(spread.privacy[:-1], frame.keep, columns),
        path=None if asked is None else path(model.hessian, model.linear, asked, frame.keep, columns, tried.curves),
        penalty=problem.penalty,
        gap=found.gap,
        ridge=moments.ridge,
        link=_link(problem, tried) if problem.loss.classifies else None,
        kept=kept,
        signal=signal,
    )


class _Tried(NamedTuple):
    """One solve, and what led to it."""

    frame: RowFrame
    curves: Curves
    moments: _Moments
    model: _Model
    found: quadratic.Minimum
    x: Floats
    spread: _Spread
    scores: _ScoreMoments

    @property
    def ratio(self) -> float:
        """Times this, scores of the loss are least-squares scores of y."""
        return self.model.curvature / self.model.pull

    @property
    def risk(self) -> float:
        """What the scores' squared error on other rows is expected to be, less the label's variance."""
        return self.ratio * (self.ratio * self.scores.spread - 2.0 * self.scores.pull)

    @property
    def explained(self) -> float:
        """What the scores explain of the label's variance, less what they owe to noise."""
        spread = self.scores.spread + math.sqrt(self.scores.spread_noise2)
        return max(self.scores.pull, 0.0) ** 2 / spread if spread > 0.0 else 0.0


def _term(problem: Problem) -> Penalty | Set | None:
    return problem.constraint if problem.constraint is not None else problem.penalty


def _tried(
    gram: Gram,
    frame: RowFrame,
    curves: Curves,
    rule: GramRule,
    problem: Problem,
    rows: int,
    columns: int,
    label_bound: float,
    sums: Sums | None,
) -> _Tried:
    moments = _moments(gram, frame, rule, rows, label_bound, sums, problem.loss.classifies)
    term = _term(problem)
    model = _model(problem, moments)
    found = quadratic.minimise(*spread_out(model.hessian, model.linear, term, frame.keep, columns), term)
    x = found.x[frame.keep] if found.x.size != frame.keep.size else found.x
    if blocks := curves.blocks():
        x = nearest_monotone(x, bent_by(model.hessian, term), blocks)
    spread = _spread(problem, moments, model, x, rows)
    scores = _score_moments(moments, model, x, spread.inverse[:-1, :-1], rows)
    return _Tried(frame, curves, moments, model, found, x, spread, scores)


def _borne_out(
    gram: Gram, frame: RowFrame, curves: Curves, rule: GramRule, problem: Problem, rows: int, *known: Any
) -> _Tried:
    """Of solves with lighter and heavier hats the one that explains most, by more than its noise; see answer.py."""
    s = frame.keep.size
    best = None
    most = 0.0
    of_gram = np.square(gram.noise[:s, :s] / (rows * np.outer(frame.scale, frame.scale)))
    proof = PROOF[problem.loss.classifies]
    lines: tuple[_Tried, Floats] | None = None
    for weight in candidates(curves.level):
        at, own = _in_use(weight)
        tried = _tried(*_weighted(gram, frame, at, own), curves.of(at), rule, problem, rows, *known)
        x = widen(tried.ratio * tried.x, at, s)
        if lines is None:
            best = tried
            lines = (tried, x)
            continue
        # The noise of 2b'x − x'Sx, less that of the lines' own: both are made of the same release.
        apart = x - lines[1]
        products = np.outer(x, x) - np.outer(lines[1], lines[1])
        pulls = widen(np.square(tried.moments.pull_noise), at, s)
        doubt = 4.0 * float(np.square(apart) @ pulls) + 2.0 * float(np.sum(np.square(products) * of_gram))
        gained = tried.explained - lines[0].explained - proof * math.sqrt(doubt)
        whole = tried.moments.label_square - tried.moments.label_mean**2
        # What explains far more than there is explains noise.
        if most < gained and tried.explained <= BEYOND * whole:
            best = tried
            most = gained
    assert best is not None
    return best


def _in_use(weight: Floats) -> tuple[Indices, Floats]:
    """The columns that have a weight, and which; where none has, the first one, without any."""
    at = np.flatnonzero(weight)
    return (at, weight[at]) if at.size else (np.zeros(1, np.int64), np.zeros(1))


def _weighted(gram: Gram, frame: RowFrame, at: Indices, weight: Floats) -> tuple[Gram, RowFrame]:
    """The Gram of some of the frame's columns, each of this weight: a lighter one is held closer to 0 by the ridge."""
    both = np.append(at, [frame.keep.size, frame.keep.size + 1])
    beside = np.append(weight, [1.0, 1.0])
    matrix, noise = (part[np.ix_(both, both)] * np.outer(beside, beside) for part in (gram.matrix, gram.noise))
    fewer = replace(frame, keep=frame.keep[at], centre=frame.centre[at], doubt=frame.doubt[at])
    # A column that goes with nothing: its coefficient is 0.
    if not weight.any():
        matrix[0, 0] = abs(gram.matrix[at[0], at[0]]) + 1.0
        weight = np.ones(1)
    return Gram(matrix, noise), replace(fewer, scale=frame.scale[at] * weight)


# ------------------------------------------------------------------------------------------------ moments


@dataclass(frozen=True)
class _Moments:
    """The released quantities as means over rows, in the columns' own units (columns of the frame only)."""

    mean: Floats  # (s,) of a
    covariance: Floats  # (s, s) of a, noise and all
    pull: Floats  # (s,) covariance of a and y
    pull_noise: Floats  # (s,) its sd, the constant's noise included
    label_mean: float
    label_square: float  # mean of y²
    clipped: Floats  # (s, s) covariance without negative eigenvalues, plus the ridge
    ridge: float
    least: float  # the least eigenvalue of the centred sums, noise and all
    centre: Floats
    scale: Floats
    noise: Floats  # (s+2, s+2) sds of the sums over the frame's rows [z, 1, y]

    @property
    def share(self) -> float:
        """π from labels ±1."""
        return (1.0 + self.label_mean) / 2.0


def _moments(
    gram: Gram, frame: RowFrame, rule: GramRule, rows: int, label_bound: float, sums: Sums | None, classes: bool
) -> _Moments:
    s = frame.keep.size
    scale = frame.scale
    if gram.matrix.shape != (s + 2, s + 2) or gram.noise.shape != gram.matrix.shape:
        wrong = f"the Gram has shape {gram.matrix.shape} and its noise {gram.noise.shape} for {s} columns"
        raise InvalidInput(f"{wrong}: both must be {s + 2} x {s + 2}, the last two for the constant and the label.")
    variance = np.square(gram.noise)
    ones = gram.matrix[:s, s]
    pulls = gram.matrix[:s, s + 1]
    labels = float(gram.matrix[s, s + 1])
    # Rows were centred at released means whose error is known: their sum is near 0, which counts as a measurement.
    known = np.square(frame.doubt * scale * rows)
    ones = ones * _trust(variance[:s, s], known)
    variance[:s, s] = variance[s, :s] = variance[:s, s] * _trust(variance[:s, s], known)
    label_mean, label_doubt = _label_mean(labels / rows, float(gram.noise[s, s + 1]) / rows, rows, label_bound, sums)
    label_mean = label_bound * expected_label_mean(label_mean / label_bound, label_doubt / label_bound, classes)
    variance[s, s + 1] = variance[s + 1, s] = np.square(label_doubt * rows)
    pulls = pulls - label_mean * ones
    doubt_of_pulls = variance[:s, s + 1] + label_mean**2 * variance[:s, s]
    if sums is not None:
        relative = label_mean / label_bound, label_doubt / label_bound
        earlier, sd = (part[frame.keep] * scale * label_bound for part in sums.pull(*relative))
        believed = _trust(doubt_of_pulls, np.square(sd))
        pulls = believed * pulls + (1.0 - believed) * earlier
        doubt_of_pulls = believed * doubt_of_pulls
        variance[:s, s + 1] = variance[s + 1, :s] = believed * variance[:s, s + 1]
    centred = gram.matrix[:s, :s] - np.outer(ones, ones) / rows
    values, vectors = np.linalg.eigh((centred + centred.T) / 2.0)
    g = math.sqrt(2.0 * float(np.mean(variance[:s, :s])))  # g/√2 is the sd of a typical entry
    ridge = rule.ridge * g * math.sqrt(s)
    cut = (vectors * (np.maximum(values, 0.0) + ridge)) @ vectors.T
    units = rows * np.outer(scale, scale)
    return _Moments(
        mean=frame.centre + ones / (rows * scale),
        covariance=centred / units,
        pull=pulls / (rows * scale),
        pull_noise=np.sqrt(doubt_of_pulls) / (rows * scale),
        label_mean=label_mean,
        label_square=min(max(float(gram.matrix[s + 1, s + 1]) / rows, 0.0), label_bound**2),  # noise may take it out
        clipped=(cut + cut.T) / 2.0 / units,
        ridge=ridge,
        least=float(values.min()),
        centre=frame.centre,
        scale=scale,
        noise=np.sqrt(variance),
    )


def _label_mean(released: float, doubt: float, rows: int, label_bound: float, sums: Sums | None) -> tuple[float, float]:
    """The labels' mean from the Gram and, where class sums were released, from them too; and its sd."""
    if sums is None:
        return released, doubt
    before = label_bound * (2.0 * sums.count / rows - 1.0)
    trust = float(_trust(doubt**2, (label_bound * 2.0 * sums.count_noise / rows) ** 2))
    return trust * released + (1.0 - trust) * before, math.sqrt(trust) * doubt


def _trust(variance: Floats | float, other: Floats | float) -> Floats:
    """The weight of the first of two measurements of one thing; 1 where the second is unknown or both are exact."""
    first = np.asarray(variance, dtype=np.float64)
    second = np.asarray(other, dtype=np.float64)
    ratio = np.divide(first, second, out=np.zeros(np.broadcast(first, second).shape), where=second > 0.0)
    return np.asarray(1.0 / (1.0 + ratio))


# ------------------------------------------------------------------------------------------------ the quadratic


@dataclass(frozen=True)
class _Model:
    """The loss seen from 0: ½x'Hx − c'x, H = curvature·(covariance, about 0 without an intercept), c = pull·(…)."""

    hessian: Floats
    linear: Floats
    curvature: float
    pull: float


def _model(problem: Problem, m: _Moments) -> _Model:
    square = problem.loss.as_square(m.share if problem.intercept else 0.5)
    if square is None:
        wrong = f"{type(problem.loss).__name__} cannot be solved from a Gram matrix, which holds squares only"
        raise InvalidInput(f"{wrong}: use LeastSquares, or Logistic or SquaredHinge by their least-squares form.")
    curvature, pull = square
    hessian = m.clipped
    linear = m.pull
    if not problem.intercept:
        hessian = hessian + np.outer(m.mean, m.mean)
        linear = linear + m.mean * m.label_mean
    return _Model(curvature * hessian, pull * linear, curvature, pull)


def _intercept(problem: Problem, m: _Moments, x: Floats) -> float:
    if not problem.intercept:
        return 0.0
    level = float(logit(m.share)) if problem.loss.odds is not None else m.label_mean
    return level - float(m.mean @ x)


# ------------------------------------------------------------------------------------------------ error bars


@dataclass(frozen=True)
class _Spread:
    """Standard errors of (coefficients, intercept), and how the coefficients follow a push of the linear term."""

    errors: Floats  # (s + 1,)
    privacy: Floats  # (s + 1,)
    inverse: Floats  # (s + 1, s + 1) of the curvature of what is in use, 0 elsewhere
    level: float  # the intercept on the scale of y


def _spread(problem: Problem, m: _Moments, model: _Model, x: Floats, rows: int) -> _Spread:
    """The gradient's covariance, from the noise and from sampling, through the inverse curvature."""
    penalty = problem.penalty
    smooth = problem.constraint is None and (penalty is None or isinstance(penalty, Ridge))
    used = np.append(np.ones(x.size, bool) if smooth else x != 0.0, problem.intercept)
    curvature = model.curvature * _with_constant(m.clipped, m.mean)
    if isinstance(penalty, Ridge | ElasticNet):
        bend = penalty.a if isinstance(penalty, Ridge) else penalty.l2
        curvature[:-1, :-1] += bend * np.eye(x.size)
    inverse = np.zeros(curvature.shape)
    inverse[np.ix_(used, used)] = _inverse(curvature[np.ix_(used, used)])

    # Times this, scores of the loss are least-squares scores of y.
    ratio = model.curvature / model.pull
    level = m.label_mean - ratio * float(m.mean @ x) if problem.intercept else 0.0
    noise = _gradient_noise(m, ratio * x, level) / rows**2
    whole = m.label_square - m.label_mean**2
    variance = whole - 2.0 * ratio * float(m.pull @ x) + ratio**2 * float(x @ m.covariance @ x)
    variance = max(variance, 0.01 * whole, 0.0)  # noise may overstate the fit
    sampling = variance / max(rows - int(np.count_nonzero(used)), 1) * _with_constant(m.covariance, m.mean)

    def errors(of: Floats) -> Floats:
        return np.asarray(model.pull * np.sqrt(np.maximum(np.sum(inverse @ of * inverse, axis=1), 0.0)))

    return _Spread(errors(noise + sampling), errors(noise), inverse, level)


def _uncovered(problem: Problem, rule: GramRule, m: _Moments, x: Floats, spread: _Spread, rows: int) -> str | None:
    """Why intervals of these errors may miss the truth too often, or None; from released figures alone.

    The answer drifts from the truth: the ridge R draws it to 0, and the inverse of a noisy matrix is too large on
    average, E (M + R + E)^-1 ~ (M + R - S)^-1 with S = E[E·M^-1·E]. Both are worked out and compared with the errors.
    """
    if problem.loss.classifies:
        return "labels are classes, for which none are known to cover"
    if rule.name != RuleName.RAW:
        return "rows were centred, weighted and shortened by what was released first"
    if problem.constraint is not None or not (problem.penalty is None or isinstance(problem.penalty, Ridge)):
        return "the penalty or set chooses among the columns, which these errors leave out"
    s = x.size
    variance = np.square(m.noise)
    if 2.0 * math.sqrt(float(variance[:s, :s].sum(axis=1).max())) > MOST_NOISE * m.least:
        return "the noise is too large beside the least that columns vary together"
    own = variance[: s + 1, : s + 1] / rows**2
    bend = problem.penalty.a if problem.penalty is not None else 0.0
    swell = own * spread.inverse
    np.fill_diagonal(swell, own @ np.diag(spread.inverse))
    shrink = np.append(np.full(s, m.ridge / rows + bend), 0.0)
    drift = spread.inverse @ ((np.diag(shrink) - swell) @ np.append(x, spread.level))
    if (np.abs(drift[:s]) > MOST_DRIFT * spread.errors[:s]).any():
        return "the noise's ridge, or the penalty, moves a coefficient by more than a quarter of its error"
    return None


def _inverse(curvature: Floats) -> Floats:
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(curvature), np.eye(len(curvature))))
    except linalg.LinAlgError:
        # Without noise and ridge, columns may depend on each other.
        return np.asarray(np.linalg.pinv(curvature, hermitian=True), dtype=np.float64)


def _gradient_noise(m: _Moments, x: Floats, level: float) -> Floats:
    """Covariance of Σ noise of (a, 1)·(y − x·a − level): what the noise of the Gram brings into the gradient.

    On the frame's rows z = (a − centre)·scale it is (noise of the Gram)·weights; entry (i, j) reaches component i
    through weight j, and component j through weight i.
    """
    s = x.size
    weights = np.concatenate([x / m.scale, [float(m.centre @ x) + level, -1.0]])
    variance = np.square(m.noise)
    gradient = (variance * np.outer(weights, weights))[: s + 1, : s + 1]
    np.fill_diagonal(gradient, (variance @ np.square(weights))[: s + 1])
    back = np.eye(s + 1)
    back[:s, :s] /= m.scale[:, None]
    back[:s, s] = m.centre
    return np.asarray(back @ gradient @ back.T)


def _with_constant(covariance: Floats, mean: Floats) -> Floats:
    """Second moments of (a, 1)."""
    wide = np.append(mean, 1.0)
    second = np.outer(wide, wide)
    second[:-1, :-1] += covariance
    return second


# ------------------------------------------------------------------------------------------------ probabilities


@dataclass(frozen=True)
class _ScoreMoments:
    """Moments of the scores, less what they owe to noise."""

    pull: float  # covariance with the label
    spread: float  # variance
    pull_noise2: float  # variances of the noise that is left in either
    spread_noise2: float

    @property
    def signal(self) -> float:
        return self.pull / math.sqrt(self.pull_noise2) if self.pull_noise2 > 0.0 else math.inf


def _score_moments(m: _Moments, model: _Model, x: Floats, response: Floats, rows: int) -> _ScoreMoments:
    """Moments of the scores x'a, put right for the noise that x has learnt.

    That noise flatters the pull and lessens the spread; what it comes to on average is taken off. The noise of the pull
    is that of the release and, since the model is for other rows, that of sampling where columns say nothing. Pull
    p = b + e, e of covariance V, and x = c·R·p: p'x is too large by e'x, of mean c·tr(RV) and variance
    c²(b'RVRb + 2·tr((RV)²)), of which x'Vx + c²·tr((RV)²) is the mean (docs/understand/methods/private-gram.md).
    """
    s = x.size
    units = rows * np.square(m.scale)
    of_gram = np.square(m.noise[:s, :s] / (rows * np.outer(m.scale, m.scale)))
    sampling = max(m.label_square - m.label_mean**2, 0.0) / rows * (m.clipped - np.diag(m.ridge / units))
    doubt = np.diag(np.square(m.pull_noise)) + sampling
    x2 = np.square(x)
    own = np.diag(response)
    flattery = model.pull * response @ doubt
    pull = float(m.pull @ x) - float(np.trace(flattery))
    learnt = float(x2 @ of_gram @ own) + float(x @ (response * of_gram) @ x)
    spread = max(float(x @ m.covariance @ x) + 2.0 * model.curvature * learnt, 0.0)
    pull_noise2 = float(x @ doubt @ x) + float(np.sum(flattery * flattery.T))
    return _ScoreMoments(pull, spread, pull_noise2, 2.0 * float(x2 @ of_gram @ x2))


def _kept(problem: Problem, scores: _ScoreMoments) -> float:
    """What part of scores of numbers stands, so that their error on other rows is least: 0 says the mean of all."""
    if problem.loss.classifies or not problem.intercept or isinstance(problem.constraint, Simplex):
        return 1.0
    if scores.signal >= CERTAIN:
        return 1.0
    information = scores.spread**2 * APART**2 / scores.pull_noise2
    factor = scores.pull / scores.spread if scores.spread > 0.0 else 0.0
    return min(max((information * factor + USUAL) / (information + 1.0), 0.0), 1.0)


def _by_one_flag(x: Floats, variance: Floats, flags: NDArray[np.bool_] | None) -> float:
    """Σ v² of columns of zeros and ones over (Σ v)² of all, v the variance of a column's part of the scores: 1 if one
    such column is all of them."""
    part = np.square(x) * np.maximum(variance, 0.0)
    if flags is None or not part.any():
        return 0.0
    part = part / part.sum()
    return float(np.square(part[flags]).sum())


def _link(problem: Problem, tried: _Tried) -> Link:
    """The link of the model's scores, from their released moments; noise makes it flatter, never steeper."""
    m = tried.moments
    x = tried.x
    scores = tried.scores
    ratio = tried.ratio
    middle = float(m.mean @ x) + _intercept(problem, m, x)
    noise2 = ratio**2 * scores.pull_noise2, ratio**4 * scores.spread_noise2
    alone = _by_one_flag(x, np.diag(m.covariance), tried.curves.flags)
    found = mixed(m.share, ratio * middle, ratio * scores.pull, ratio**2 * scores.spread, *noise2, alone)
    return found._replace(slope=found.slope * ratio, rise=found.rise * ratio)
