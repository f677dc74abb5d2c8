"""The certificate of a penalised answer on one machine: how far it is from the best, by one formula for everybody.

Source   every u gives −loss*(u) − penalty*(−Aᵀu) ≤ minimum of loss(Ax) + penalty(x). The slope is the best u at the
         optimum; the domain of each loss* holds 0, so shrinking the slope into the penalty's domain does not leave the
         loss's. No intercept: with one, the bound does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Loss, Penalty
from colonnade.problem.penalties import dual_figures


def certificate(loss: Loss, penalty: Penalty, A: Any, x: Floats, y: Floats) -> float:
    """A bound on loss(Ax) + penalty(x) − its minimum over x; A is anything with A @ x and A.T @ u."""
    scores = np.asarray(A @ x)
    slope = loss.slope(scores, y)
    value, factor, conjugate = dual_figures(penalty, A, x, -np.asarray(A.T @ slope))
    return loss.value(scores, y) + value + loss.conjugate(factor * slope, y) + conjugate
