"""The losses: how far linear scores are from the labels, as small frozen values.

A loss is f(s) = (1/n) Σ φ(sᵢ, yᵢ) over n rows. Every method includes the 1/n; `smoothness` alone is that of φ.
Symbols  r = s − y is the residual, m = y·s the margin, h = step/n the step of one row's prox,
         w = n·u one row's dual value, so that f*(u) = (1/n) Σ φ*(wᵢ).

Loss           φ                              smooth   labels
LeastSquares   ½ r²                           yes      real
Logistic       log(1 + exp(−m))               yes      −1, +1
SquaredHinge   ½ max(0, 1 − m)²               yes      −1, +1
Hinge          max(0, 1 − m)                  no       −1, +1
Huber(delta)   ½ r², linear beyond delta      yes      real
Absolute       |r|                            no       real
Quantile(q)    q·(−r) below, (1−q)·r above    no       real
Poisson        exp(s) − y·s                   yes      counts or rates, ≥ 0; see below

A row may count c times as much as the mean row: (1/n) Σ cᵢ φ(sᵢ, yᵢ). Its conjugate is (1/n) Σ cᵢ φ*(wᵢ/cᵢ), and in the
prox every row has a step of its own, cᵢ·h. adjusted.py makes such weights and offsets one loss.

Poisson  scores are logarithms of rates: the negative log-likelihood of counts yᵢ with mean exp(sᵢ), but for Σ log yᵢ!.
         With an offset log(exposure) and a weight (adjusted.py) it is that of claims in so many years.
Prox     its s + h·exp(s) = t with t = v + h·y: ω = h·exp(s) is the Wright omega function of t + log h, so s = t − ω, or
         log(ω/h) where ω is not small, by which no digit is lost.
Domain   of its φ*(w) = p·log p − p, p = w + y ≥ 0: p is the rate at which the slope is w.
Slope    its own grows without bound in s, so `smoothness` is infinite: a method that needs a bound refuses this loss.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logsumexp, wrightomega, xlog1py, xlogy

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.prox import logistic_along, logistic_bends, logistic_prox, logistic_slopes
from colonnade.problem.checks import EDGE, count_labels, positive, same_shape
from colonnade.problem.link import PLAIN, Link
from colonnade.problem.loss import (
    Along,
    Derivative,
    RowLoss,
    check_both_classes,
    conjugate_of,
    each_of,
    mean_of,
    row_step,
    within,
)

Pulls = tuple[Floats, Floats]  # of each row: how steeply the loss falls below its label, and rises above it


@dataclass(frozen=True)
class LeastSquares(RowLoss):
    """1/(2n) Σ r².

    Examples
    --------
    >>> import colonnade as co
    >>> import numpy as np
    >>> co.LeastSquares().value(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    1.0
    """

    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    quadratic: ClassVar[bool] = True
    words: ClassVar[str] = "It predicts a number, and a miss counts by its square."

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        return 0.5 * np.square(scores - y)

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        return scores - y

    @each_of
    def curvature(self, scores: Floats, y: Floats) -> Floats:  # noqa: ARG002
        return np.ones(scores.shape)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        h = row_step(v, y, step)
        return (v + h * y) / (1.0 + h)

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats:
        return w * y + 0.5 * np.square(w)

    def minimise_along(
        self, scores: Floats, direction: Floats, y: Floats, low: float = 0.0, high: float = 1.0
    ) -> float:
        same_shape(scores, y)
        _check_order(low, high)
        scale = float(np.max(np.abs(direction)))
        if scale == 0.0:
            return float(low)
        # Else the squares of a tiny direction would vanish.
        unit = direction / scale
        best = float(np.sum(unit * (y - scores))) / (float(np.sum(np.square(unit))) * scale)
        return float(min(max(best, low), high))

    def best_intercept(self, scores: Floats, y: Floats) -> float:
        same_shape(scores, y)
        return float(np.mean(y - scores))

    def as_square(self, share: float) -> tuple[float, float]:  # noqa: ARG002
        return 1.0, 1.0

    def steepest(self, score: float, residual: float) -> float:  # noqa: ARG002
        return residual


@dataclass(frozen=True)
class Logistic(RowLoss):
    """1/n Σ log(1 + exp(−m)).

    Examples
    --------
    >>> import colonnade as co
    >>> import numpy as np
    >>> co.Logistic().link(np.array([0.0]))
    array([0.5])
    """

    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.25
    classifies: ClassVar[bool] = True
    odds: ClassVar[Link | None] = PLAIN
    words: ClassVar[str] = "It predicts the chance of a class."

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        margins = y * scores
        return np.maximum(-margins, 0.0) + np.log1p(np.exp(-np.abs(margins)))

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        return logistic_slopes(scores, y)

    @each_of
    def curvature(self, scores: Floats, y: Floats) -> Floats:  # noqa: ARG002
        return logistic_bends(scores)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        h = row_step(v, y, step)
        margins = np.empty(v.size)
        logistic_prox((y * v).ravel(), np.full(v.shape, h).ravel(), margins)
        return y * margins.reshape(v.shape)

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats | None:
        p = within(-w * y, 0.0, 1.0)
        return None if p is None else xlogy(p, p) + xlog1py(1.0 - p, -p)

    def link(self, scores: Floats) -> Floats:
        probability: Floats = expit(scores)
        return probability

    def along(self, scores: Floats, direction: Floats, y: Floats) -> Along:
        """By a kernel that goes over the rows once."""
        n = same_shape(direction, y)

        def fused(t: float) -> Derivative:
            slope, curvature, size = logistic_along(scores, direction, y, t)
            # one running sum: its rounding grows like the root of its length
            return Derivative(slope / n, curvature / n, np.finfo(np.float64).eps * n**0.5 * size / n)

        return fused

    def as_square(self, share: float) -> tuple[float, float]:
        return share * (1.0 - share), 0.5

    def steepest(self, score: float, residual: float) -> float:  # noqa: ARG002
        return float(expit(score)) * (1.0 + 2.0**-40)  # over the rounding of the scores


@dataclass(frozen=True)
class SquaredHinge(RowLoss):
    """1/(2n) Σ max(0, 1 − m)²."""

    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    classifies: ClassVar[bool] = True
    words: ClassVar[str] = "It tells two classes apart with a margin, and a miss counts by its square."

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        return 0.5 * np.square(np.maximum(1.0 - y * scores, 0.0))

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        return -y * np.maximum(1.0 - y * scores, 0.0)

    @each_of
    def curvature(self, scores: Floats, y: Floats) -> Floats:
        return np.where(y * scores < 1.0, 1.0, 0.0)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        h = row_step(v, y, step)
        return y * np.maximum(y * v, (y * v + h) / (1.0 + h))

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats | None:
        p = within(-w * y, 0.0, math.inf)
        return None if p is None else 0.5 * np.square(p) - p

    def as_square(self, share: float) -> tuple[float, float]:  # noqa: ARG002
        return 1.0, 1.0  # without its hinge

    def steepest(self, score: float, residual: float) -> float:  # noqa: ARG002
        return 1.0 + score


@dataclass(frozen=True)
class Huber(RowLoss):
    """1/n Σ ½ r² where |r| ≤ delta, delta·|r| − ½ delta² beyond: one wild label pulls with at most delta.

    Parameters
    ----------
    delta
        The residual beyond which a row counts as an outlier, in units of y, above 0.
    """

    delta: float
    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    words: ClassVar[str] = (
        "It predicts a number; small misses count by their square, large ones by their size: outliers weigh less."
    )

    def __post_init__(self) -> None:
        advice = "It is the residual beyond which a row counts as an outlier, in units of y."
        object.__setattr__(self, "delta", positive("delta", self.delta, advice))

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        distance = np.abs(scores - y)
        inside = np.minimum(distance, self.delta)
        return inside * (distance - 0.5 * inside)

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        return np.clip(scores - y, -self.delta, self.delta)

    @each_of
    def curvature(self, scores: Floats, y: Floats) -> Floats:
        return np.where(np.abs(scores - y) <= self.delta, 1.0, 0.0)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        # The least-squares prox, which may move no row further than h·delta.
        h = row_step(v, y, step)
        return np.clip((v + h * y) / (1.0 + h), v - h * self.delta, v + h * self.delta)

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats | None:
        inside = within(w, -self.delta, self.delta)
        return None if inside is None else inside * y + 0.5 * np.square(inside)


class _Kinked(RowLoss):
    """1/n Σ below·(y − s) where the score is below the label, above·(s − y) where it is above."""

    smooth: ClassVar[bool] = False
    smoothness: ClassVar[float] = math.inf

    @abstractmethod
    def _pulls(self, y: Floats) -> Pulls:
        """(below, above) of each row: all in which the three losses differ."""

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        below, above = self._pulls(y)
        missing = y - scores
        return np.maximum(below * missing, -above * missing)

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        below, above = self._pulls(y)
        return np.where(scores > y, above, np.where(scores < y, -below, 0.0))

    def curvature(self, scores: Floats, y: Floats) -> Floats:  # noqa: ARG002
        smooth = "SquaredHinge()" if self.classifies else "Huber(delta)"
        raise InvalidInput(f"{type(self).__name__} has kinks and no curvature: use prox, or the smooth {smooth}.")

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        h, (below, above) = row_step(v, y, step), self._pulls(y)
        return np.clip(y, v - h * above, v + h * below)

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats | None:
        below, above = self._pulls(y)
        inside = within(w, -below, above)
        return None if inside is None else inside * y

    def minimise_along(
        self, scores: Floats, direction: Floats, y: Floats, low: float = 0.0, high: float = 1.0
    ) -> float:
        return _kink_minimum(scores, direction, y, self._pulls(y), low, high)

    def best_intercept(self, scores: Floats, y: Floats) -> float:
        if self.classifies:
            check_both_classes(y)
        return _kink_minimum(scores, np.ones_like(scores), y, self._pulls(y), -math.inf, math.inf)


@dataclass(frozen=True)
class Absolute(_Kinked):
    """1/n Σ |r|: fits the median."""

    words: ClassVar[str] = "It predicts a number, the middle of what is likely: a miss counts by its size."

    def _pulls(self, y: Floats) -> Pulls:
        return np.ones_like(y), np.ones_like(y)


@dataclass(frozen=True)
class Hinge(_Kinked):
    """1/n Σ max(0, 1 − m): a row of class +1 pulls while it scores below 1, one of class −1 while above −1."""

    classifies: ClassVar[bool] = True
    words: ClassVar[str] = "It tells two classes apart with a margin, and a miss counts by its size."

    def _pulls(self, y: Floats) -> Pulls:
        return np.where(y > 0.0, 1.0, 0.0), np.where(y < 0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Quantile(_Kinked):
    """1/n Σ q·(y − s) where the score is below the label, (1 − q)·(s − y) above: fits the q-quantile.

    Parameters
    ----------
    q
        The quantile to fit, between 0 and 1: 0.5 is the median.
    """

    q: float
    words: ClassVar[str] = "It predicts a number that a given share of the labels lies below."

    def __post_init__(self) -> None:
        q = positive("q", self.q, "It is the quantile to fit, between 0 and 1: 0.5 is the median.")
        if q >= 1.0:
            raise InvalidInput(f"q must be below 1, got {q}. It is the quantile to fit: 0.5 is the median.", "q")
        object.__setattr__(self, "q", q)

    def _pulls(self, y: Floats) -> Pulls:
        return np.full_like(y, self.q), np.full_like(y, 1.0 - self.q)


def _check_order(low: float, high: float) -> None:
    if not low <= high:
        raise InvalidInput(f"cannot search from low={low} to high={high}: give low <= high.")


def _kink_minimum(scores: Floats, direction: Floats, y: Floats, pulls: Pulls, low: float, high: float) -> float:
    """Minimises the piecewise linear t → Σ φ(scores + t·direction), with slope −pulls[0] below y and pulls[1] above.

    The minimum is at a kink tᵢ = (yᵢ − sᵢ)/dᵢ: walk the sorted kinks until the slope stops being negative.
    """
    same_shape(scores, y)
    same_shape(direction, y)
    _check_order(low, high)
    moves = direction != 0.0
    d = direction[moves]
    if d.size == 0:
        return float(low)
    below, above = (pull[moves] for pull in pulls)
    # A row that hardly moves has its kink at infinity, which sorts rightly.
    with np.errstate(over="ignore"):
        kinks = (y[moves] - scores[moves]) / d
    order = np.argsort(kinks, kind="stable")
    slope_at_start = float(np.sum(np.where(d > 0.0, -below * d, above * d)))
    if slope_at_start >= 0.0 and math.isfinite(low):  # no row pulls upwards
        return float(low)
    slope_after = slope_at_start + np.cumsum((np.abs(d) * (below + above))[order])
    # Rounding may leave the last sum a hair below zero; the last kink is then the minimum.
    first = min(int(np.searchsorted(slope_after, 0.0)), d.size - 1)
    return float(min(max(float(kinks[order[first]]), low), high))


LARGEST_SCORE = 500.0  # a rate of 10²¹⁷: beyond it the rate stays there, so that sums over rows stay finite


@dataclass(frozen=True)
class Poisson(RowLoss):
    """1/n Σ exp(s) − y·s, for counts or rates y ≥ 0."""

    smooth: ClassVar[bool] = True
    smoothness: ClassVar[float] = math.inf
    counts: ClassVar[bool] = True
    two_labels: ClassVar[tuple[float, float]] = (0.0, 1.0)
    sklearn: ClassVar[str] = "PoissonRegressor"
    asks: ClassVar[str] = "How many events to expect by {label}"
    words: ClassVar[str] = "It predicts how many events to expect: a step of a column multiplies that by a factor."

    def check(self, y: Any) -> Floats:
        return count_labels(y)

    @mean_of
    def value(self, scores: Floats, y: Floats) -> Floats:
        return self.link(scores) - y * scores

    @each_of
    def slope(self, scores: Floats, y: Floats) -> Floats:
        return self.link(scores) - y

    @each_of
    def curvature(self, scores: Floats, y: Floats) -> Floats:  # noqa: ARG002
        return self.link(scores)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        h = row_step(v, y, step)
        target = v + h * y
        omega = np.asarray(wrightomega(target + np.log(h)), np.float64)
        # Of an omega that is 0 the first form is taken.
        with np.errstate(divide="ignore"):
            nearer: Floats = np.where(omega < 0.5, target - omega, np.log(omega) - np.log(h))
        return nearer

    @conjugate_of
    def conjugate(self, w: Floats, y: Floats) -> Floats | None:
        p = w + y
        if np.any(np.isnan(p)) or np.any(p < -EDGE * (1.0 + y)):
            return None
        p = np.maximum(p, 0.0)
        return np.asarray(xlogy(p, p) - p, np.float64)

    def link(self, scores: Floats) -> Floats:
        """The rate."""
        return np.exp(np.minimum(scores, LARGEST_SCORE))

    def best_intercept(self, scores: Floats, y: Floats) -> float:
        """The b at which rates and counts have the same sum."""
        same_shape(scores, y)
        check_some(y)
        return math.log(float(np.sum(y))) - float(logsumexp(scores))


def check_some(y: Any) -> None:
    if not np.any(y > 0.0):
        raise InvalidInput(f"all {y.size} counts are 0: the best rate is 0, and its logarithm has no end.")
