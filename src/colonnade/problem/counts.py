"""Counts: the Poisson loss, whose scores are logarithms of rates.

Solves   f(s) = (1/n) Σ exp(sᵢ) − yᵢ·sᵢ, the negative log-likelihood of counts yᵢ with mean exp(sᵢ), but for Σ log yᵢ!.
         With an offset log(exposure) and a weight (adjusted.py) it is that of claims in so many years.
Prox     s + h·exp(s) = t with t = v + h·y: ω = h·exp(s) is the Wright omega function of t + log h, so s = t − ω, or
         log(ω/h) where ω is not small, by which no digit is lost.
Domain   φ*(w) = p·log p − p with p = w + y ≥ 0: p is the rate at which the slope is w.
Slope    it grows without bound in s, so `smoothness` is infinite: a method that needs a bound refuses this loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, wrightomega, xlogy

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import EDGE, count_labels, same_shape
from colonnade.problem.loss import RowLoss, conjugate_of, each_of, mean_of, row_step

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
        with np.errstate(divide="ignore"):  # of an omega that is 0 the first form is taken
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
