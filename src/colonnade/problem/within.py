"""One party's term where its coefficients lie in a set, with a penalty or without; and where nothing bounds them.

Within     g(x) in the set, ∞ outside. Any set with Ridge or no penalty; Lasso and ElasticNet with L1Ball, L2Ball, Box
           around 0 and NonNegative; GroupLasso with L2Ball.
Prox       for these pairs, the penalty's prox and then the set's projection. Ridge only moves the point that is
           projected. Soft-thresholding comes first wherever the set's multiplier shrinks each entry (L1Ball, L2Ball) or
           cuts it (Box, NonNegative) without turning its sign; the ball of GroupLasso shrinks whole groups alike.
Conjugate  with a squared norm, at its maximiser, the projection of the unbounded one. Without, sup <u, x> − g(x) over
           the set is its support at what the threshold of g leaves of u: signs of u and x agree, and |x| costs a each.
Free       no penalty, over everything or x ≥ 0. The conjugate is 0 or ∞, and no answer of finitely many rounds reaches
           its domain: the bound is taken over coefficients of at most `REACH` times the length of those found, or of
           those that move scores by 1 in the root of the mean square. The gap then says how much better any such
           coefficients could be; those at k times that distance, at most about k times as much, since f is convex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.prox import soft_threshold
from colonnade.problem.checks import EDGE
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, Penalty, Ridge
from colonnade.problem.sets import Box, L1Ball, L2Ball, NonNegative, Product, Set

REACH = 10.0


@dataclass(frozen=True)
class Within:
    """A penalty, or none, over a set."""

    constraint: Set
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        each = self.constraint.each if isinstance(self.constraint, Product) else self.constraint
        known: tuple[type, ...] = (object,)
        match self.penalty:
            case Lasso() | ElasticNet():
                known = (L1Ball, L2Ball, Box, NonNegative)
            case GroupLasso():
                known = () if isinstance(self.constraint, Product) else (L2Ball,)
            case None if isinstance(each, NonNegative):
                known = ()  # that is Free
        hole = isinstance(each, Box) and not each.low <= 0.0 <= each.high
        if not isinstance(each, known) or (hole and isinstance(self.penalty, Lasso | ElasticNet)):
            where = "a box that leaves out 0" if hole else f"a {type(each).__name__}"
            raise InvalidInput(
                f"{type(self.penalty).__name__} over {where} is not offered: use Ridge or no penalty with any set; "
                "Lasso or ElasticNet with L1Ball, L2Ball, NonNegative or a Box around 0; GroupLasso with L2Ball."
            )

    def value(self, x: Floats) -> float:
        return 0.0 if self.penalty is None else self.penalty.value(x)

    def prox(self, v: Floats, step: float) -> Floats:
        return self.constraint.project(v if self.penalty is None else self.penalty.prox(v, step))

    def conjugate(self, u: Floats) -> float:
        match self.penalty:
            case Ridge(a):
                return self._at(u, u / a)
            case ElasticNet(l1, l2):
                return self._at(u, soft_threshold(u, l1) / l2)
            case Lasso(a) if isinstance(self.constraint, NonNegative):
                return 0.0 if float(np.max(u, initial=0.0)) <= a * (1.0 + EDGE) else math.inf
        return -self.constraint.support(-(u if self.penalty is None else self.penalty.prox(u, 1.0)))

    def _at(self, u: Floats, unbounded: Floats) -> float:
        """<u, x> − g(x) at the x of the set nearest to the maximiser over everything."""
        x = self.constraint.project(unbounded)
        return float(u @ x) - self.value(x)

    def shrink(self, u: Floats) -> float:
        if not (isinstance(self.penalty, Lasso) and isinstance(self.constraint, NonNegative)):
            return 1.0  # the set has an end, or the penalty grows faster than u
        largest = float(np.max(u, initial=0.0))
        return min(1.0, self.penalty.a / largest) if largest > 0.0 else 1.0


@dataclass(frozen=True)
class Free:
    """No penalty and no end: coefficients of any size, or of any size from 0 on."""

    signed: bool = True

    def value(self, x: Floats) -> float:  # noqa: ARG002
        return 0.0

    def prox(self, v: Floats, step: float) -> Floats:  # noqa: ARG002
        return v if self.signed else np.maximum(v, 0.0)

    def conjugate(self, u: Floats) -> float:
        return 0.0 if self.excess(u) == 0.0 else math.inf

    def shrink(self, u: Floats) -> float:  # noqa: ARG002
        return 1.0

    def excess(self, u: Floats) -> float:
        """How far u is from the domain of the conjugate."""
        return float(np.linalg.norm(u if self.signed else np.maximum(u, 0.0)))


def dual_figures(term: Penalty, matrix: Any, x: Floats, pull: Floats) -> tuple[float, float, float]:
    """What one party adds to a certificate: g(x), the factor for its pull −Aᵀv, and the conjugate there."""
    if isinstance(term, Free):
        size = math.sqrt(float(np.sum(np.square(matrix.data if hasattr(matrix, "indptr") else matrix))))
        unit = math.sqrt(matrix.shape[0]) / size if size > 0.0 else 0.0
        reach = REACH * max(float(np.linalg.norm(x)), unit)
        return 0.0, 1.0, reach * term.excess(pull)
    shrink = term.shrink(pull)
    return term.value(x), shrink, term.conjugate(shrink * pull)
