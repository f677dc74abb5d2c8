"""Losses whose rows count by weights: of each row, beside an offset, (1/Σw) Σ wᵢ·φ(sᵢ + oᵢ, yᵢ), or of its class,
1/n Σ w(yᵢ)·φ(sᵢ, yᵢ), w(+1) = positive, w(−1) = negative.

An offset is a known part of the score: log(exposure) where counts grow with it. A weight says how many rows a row
stands for. The sum is divided by that of the weights: weights that are all alike change nothing, and a penalty keeps
its strength whatever the unit of the weights.
Source   with cᵢ = n·wᵢ/Σw, f(s) = g(s + o) and g = (1/n) Σ cᵢ φ: f*(u) = g*(u) − <u, o>, and the prox of f at v is that
         of g at v + o, less o, row i with the step cᵢ·step. A loss with kinks is homogeneous in (s, y): cᵢ·φ(s, y) is
         φ(cᵢs, cᵢy), so its line searches are the plain ones.
It holds data: it is made inside a run, by whoever has the labels, and is no value that a problem could name.

Classes  the rows of a class are a problem of their own with n_c rows: f(s) = Σ_c (w_c·n_c/n)·f_c(s_c), f_c the plain
         loss of class c. So value, prox and conjugate are the plain ones of each class at another step and scale.
Privacy  one row moves the slope by up to max w times as much as without weights. The private methods derive their
         sensitivities for the plain losses and refuse those of classes; see docs/use/notebook.md, Weights of classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import positive as above_zero
from colonnade.problem.loss import Loss, RowLoss


def check_offset(values: Any) -> Floats:
    """Offsets as float64, or InvalidInput with the number of those that are none."""
    offset = _numbers(values, "offset")
    if missing := int(np.count_nonzero(~np.isfinite(offset))):
        raise InvalidInput(
            f"{missing:,} of {offset.size:,} offsets are NaN or infinite: an offset is a part of the score, such as "
            "log(exposure) for counts; leave rows without exposure out."
        )
    return offset


def check_weight(values: Any) -> Floats:
    """Weights as float64, or InvalidInput with the number of those that are none."""
    weight = _numbers(values, "weight")
    if odd := int(np.count_nonzero(~(np.isfinite(weight) & (weight > 0.0)))):
        raise InvalidInput(
            f"{odd:,} of {weight.size:,} weights are not finite numbers above 0: a weight says how many rows a row "
            "stands for; leave rows of weight 0 out."
        )
    return weight


def _numbers(values: Any, what: str) -> Floats:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise InvalidInput(f"the column of the {what} holds {array.dtype}: give one number for each row.")
    return array.astype(np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Adjusted(Loss):
    """(1/n) Σ cᵢ·φ(sᵢ + oᵢ, yᵢ), for the rows that offset o and weights w belong to; c = n·w/Σw."""

    loss: RowLoss
    offset: Floats
    weight: Floats  # c: their mean is 1

    @classmethod
    def of(cls, loss: RowLoss, rows: int, offset: Floats | None, weight: Floats | None) -> Adjusted:
        """From what stands beside the labels."""
        even = np.ones(rows) if weight is None else weight / (math.fsum(weight) / rows)
        return cls(loss, np.zeros(rows) if offset is None else offset, even)

    def __repr__(self) -> str:
        return f"{self.loss!r} with an offset or a weight in each of {self.weight.size:,} rows"

    @property
    def smooth(self) -> bool:
        return self.loss.smooth

    @property
    def smoothness(self) -> float:
        return float(self.weight.max()) * self.loss.smoothness

    @property
    def classifies(self) -> bool:
        return self.loss.classifies

    def check(self, y: Any) -> Floats:
        return self.loss.check(y)

    def value(self, scores: Floats, y: Floats) -> float:
        return self.loss.value(scores + self.offset, y, self.weight)

    def slope(self, scores: Floats, y: Floats) -> Floats:
        return self.weight * self.loss.slope(scores + self.offset, y)

    def curvature(self, scores: Floats, y: Floats) -> Floats:
        return self.weight * self.loss.curvature(scores + self.offset, y)

    def prox(self, v: Floats, y: Floats, step: float) -> Floats:
        shifted = v + self.offset
        return v + (
            self.loss.prox(shifted, y, step * self.weight) - shifted
        )  # a row that does not move stays to the bit

    def conjugate(self, u: Floats, y: Floats) -> float:
        return self.loss.conjugate(u, y, self.weight) - float(np.sum(u * self.offset))

    def link(self, scores: Floats) -> Floats:
        return self.loss.link(scores)

    def minimise_along(
        self, scores: Floats, direction: Floats, y: Floats, low: float = 0.0, high: float = 1.0
    ) -> float:
        if self.smooth:
            return super().minimise_along(scores, direction, y, low, high)
        c = self.weight
        return self.loss.minimise_along(c * (scores + self.offset), c * direction, c * y, low, high)

    def best_intercept(self, scores: Floats, y: Floats) -> float:
        if self.smooth:
            return super().best_intercept(scores, y)
        return self.minimise_along(scores, np.ones_like(scores), y, -math.inf, math.inf)


@dataclass(frozen=True)
class ClassWeighted(RowLoss):
    """1/n Σ w(y)·φ for a loss φ of two classes."""

    loss: RowLoss
    negative: float
    positive: float
    classifies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.loss, Loss) and self.loss.classifies and self.loss.smooth):
            raise InvalidInput(f"{self.loss!r} has no two classes to weigh; give co.Logistic() or co.SquaredHinge().")
        for name in ("negative", "positive"):
            advice = "A row of that class counts as so many rows."
            object.__setattr__(self, name, above_zero(name, getattr(self, name), advice))

    @property
    def smooth(self) -> bool:
        return self.loss.smooth

    @property
    def smoothness(self) -> float:
        return max(self.negative, self.positive) * self.loss.smoothness

    def check(self, y: Any) -> Floats:
        return self.loss.check(y)

    def value(self, scores: Floats, y: Floats, weight: Floats | None = None) -> float:
        return sum(
            share * self.loss.value(scores[rows], y[rows], _of(rows, weight)) for rows, share in self._classes(y)
        )

    def slope(self, scores: Floats, y: Floats) -> Floats:
        return self._weights(y) * self.loss.slope(scores, y)

    def curvature(self, scores: Floats, y: Floats) -> Floats:
        return self._weights(y) * self.loss.curvature(scores, y)

    def prox(self, v: Floats, y: Floats, step: float | Floats) -> Floats:
        out = np.empty_like(v)
        for rows, share in self._classes(y):
            out[rows] = self.loss.prox(v[rows], y[rows], share * (step[rows] if isinstance(step, np.ndarray) else step))
        return out

    def conjugate(self, u: Floats, y: Floats, weight: Floats | None = None) -> float:
        return sum(
            share * self.loss.conjugate(u[rows] / share, y[rows], _of(rows, weight)) for rows, share in self._classes(y)
        )

    def link(self, scores: Floats) -> Floats:
        return self.loss.link(scores)

    def _weights(self, y: Floats) -> Floats:
        return np.where(y > 0, self.positive, self.negative)

    def _classes(self, y: Floats) -> Iterator[tuple[Any, float]]:
        """The rows of each class, and w_c·n_c/n."""
        for rows, weight in ((y > 0, self.positive), (y <= 0, self.negative)):
            count = int(np.count_nonzero(rows))
            if count:
                yield rows, weight * count / y.size


def _of(rows: Any, weight: Floats | None) -> Floats | None:
    return None if weight is None else weight[rows]
