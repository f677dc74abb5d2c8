"""ℓ1-AdaBoost as a problem: a convex combination of decision stumps, and the model it ends in.

Solves   min log( (1/n) Σ exp(−y_i s_i / T) )  with  s = Hα,  α in the unit simplex,  H the stumps of all columns, ±1
         each.
Source   Shen and Li, "On the dual formulation of boosting algorithms", 2010; Bellet et al., arXiv:1404.2644, equation
         6.
Mended   the gradient is −Hᵀ(y·w)/T with w the weights of the rows; the second paper drops the 1/T, and its gap is then
         wrong by that factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax

from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import class_labels, positive, same_shape
from colonnade.problem.loss import Along, Derivative, LossFacts, rising_zero
from colonnade.problem.sets import Simplex

TEMPERATURE = "It is the margin at which a row's weight has fallen by e: small looks at the hardest rows only."


@dataclass(frozen=True)
class LogMeanExp(LossFacts):
    """log( (1/n) Σ exp(−m/temperature) ): the exponential loss under a logarithm, so that rows compete for weight.

    It is no sum over rows, and no `Loss`: it has what Frank-Wolfe asks for, and no prox and no conjugate.
    """

    temperature: float
    smooth: ClassVar[bool] = True
    classifies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", positive("temperature", self.temperature, TEMPERATURE))

    def check(self, y: Any) -> Floats:
        return class_labels(y)

    def row_weights(self, scores: Floats, y: Floats) -> Floats:
        """How much each row counts: they add up to 1."""
        same_shape(scores, y)
        return np.asarray(softmax(-y * scores / self.temperature), dtype=np.float64)

    def value(self, scores: Floats, y: Floats) -> float:
        n = same_shape(scores, y)
        return float(logsumexp(-y * scores / self.temperature)) - float(np.log(n))

    def slope(self, scores: Floats, y: Floats) -> Floats:
        return -y * self.row_weights(scores, y) / self.temperature

    def curvature(self, scores: Floats, y: Floats) -> Floats:
        """A diagonal that bounds the second derivative (diag w − wwᵀ)/T² from above."""
        return self.row_weights(scores, y) / self.temperature**2

    def link(self, scores: Floats) -> Floats:
        return np.where(scores >= 0.0, 1.0, -1.0)

    def minimise_along(
        self, scores: Floats, direction: Floats, y: Floats, low: float = 0.0, high: float = 1.0
    ) -> float:
        return rising_zero(self._line(scores, direction, y), low, high)

    def _line(self, scores: Floats, direction: Floats, y: Floats) -> Along:
        same_shape(direction, y)
        margins = y * direction / self.temperature

        def along(t: float) -> Derivative:
            w = self.row_weights(scores + t * direction, y)
            mean = float(np.sum(w * margins))
            spread = float(np.sum(w * np.square(margins - mean)))
            rounding = 4.0 * np.finfo(np.float64).eps * float(np.sum(w * np.abs(margins)))
            return Derivative(-mean, spread, rounding)

        return along


@dataclass(frozen=True)
class AdaBoost:
    """A convex combination of decision stumps on the parties' columns.

    Parameters
    ----------
    temperature
        The margin at which a row's weight has fallen by e, above 0: a small one looks at the hardest rows only.
    """

    temperature: float = 1.0
    constraint: ClassVar[Simplex] = Simplex(1.0)
    penalty: ClassVar[None] = None
    intercept: ClassVar[bool] = False  # the stump that says the same of every row is one

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", positive("temperature", self.temperature, TEMPERATURE))

    @property
    def loss(self) -> LogMeanExp:
        """The exponential loss of the stumps' scores, under a logarithm."""
        return LogMeanExp(self.temperature)


@dataclass(frozen=True, eq=False)
class Stumps:
    """One party's part of a boosted model: its stumps, each with sign and weight."""

    columns: Any  # place in the party's block
    thresholds: Floats
    signs: Floats  # +1: says yes above the threshold
    weights: Floats

    def scores(self, matrix: Any) -> Floats:
        """The party's part of the scores: Σ weight·sign·(+1 above the threshold, −1 below)."""
        total = np.zeros(matrix.shape[0])
        matrix = sparse.csc_array(matrix) if sparse.issparse(matrix) else matrix
        for column, threshold, sign, weight in zip(
            self.columns, self.thresholds, self.signs, self.weights, strict=True
        ):
            values = matrix[:, [column]].toarray().ravel() if sparse.issparse(matrix) else matrix[:, column]
            total += sign * weight * np.where(values > threshold, 1.0, -1.0)
        return total
