"""A loss of two classes whose rows count by their class: 1/n Σ w(yᵢ)·φ(sᵢ, yᵢ), w(+1) = positive, w(−1) = negative.

Source   the rows of a class are a problem of their own with n_c rows: f(s) = Σ_c (w_c·n_c/n)·f_c(s_c), f_c the plain
         loss of class c. So value, prox and conjugate are the plain ones of each class at another step and scale.
Privacy  one row moves the slope by up to max w times as much as without weights. The private methods derive their
         sensitivities for the plain losses and refuse this one; see docs/use/notebook.md, Weights of classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import positive as above_zero
from colonnade.problem.loss import Loss, RowLoss


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
