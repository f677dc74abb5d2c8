"""The x-update of ADMM for several responses: coefficients are a matrix, one column for each response.

Solves   X(T, rho) = argmin_X  penalty(X) + rho/2 ‖A X − T‖², again and again for other targets.
Entries  Ridge, Lasso, ElasticNet: the responses are problems of their own (nearest.py).
Nuclear  proximal gradients with momentum, restarted when they turn back, from the last answer on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.nearest import Nearest, nearest
from colonnade.problem.penalties import ElasticNet, Lasso, NuclearNorm, Penalty, Ridge

STEPS = 2000
PRECISION = 1e-12  # of the size of the answer: a step below it ends the search


def nearest_matrix(matrix: Any, penalty: Penalty, responses: int) -> Nearest:
    """The solver for a block (dense or CSC), a penalty of its own columns, and so many responses."""
    match penalty:
        case Ridge() | Lasso() | ElasticNet():
            return NearestResponses(matrix, penalty, responses)
        case NuclearNorm():
            return NearestNuclear(matrix, penalty, responses)
        case _:
            raise InvalidInput(
                f"no {type(penalty).__name__} of a coefficient matrix: with several responses, use Ridge, Lasso, "
                "ElasticNet or NuclearNorm."
            )


class NearestResponses:
    """A penalty that is a sum over entries."""

    def __init__(self, matrix: Any, penalty: Penalty, responses: int) -> None:
        self._solvers = [nearest(matrix, penalty) for _ in range(responses)]

    def __call__(self, target: Floats, rho: float) -> Floats:
        return np.column_stack([solve(target[:, k].copy(), rho) for k, solve in enumerate(self._solvers)])


class NearestNuclear:
    """penalty = a Σ_b ‖X_b‖_*."""

    def __init__(self, matrix: Any, penalty: NuclearNorm, responses: int) -> None:
        gram = matrix.T @ matrix
        self._matrix, self._penalty = matrix, penalty
        self._gram = np.asarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)
        self._bound = float(np.linalg.eigvalsh(self._gram)[-1]) * (1.0 + 1e-12)
        self._x = np.zeros((matrix.shape[1], responses))

    def __call__(self, target: Floats, rho: float) -> Floats:
        if self._bound <= 0.0:  # columns of zeros
            return self._x
        x, ahead, momentum = self._x, self._x, 1.0
        pull = np.asarray(self._matrix.T @ target)
        for _ in range(STEPS):
            new = self._penalty.prox(ahead - (self._gram @ ahead - pull) / self._bound, 1.0 / (rho * self._bound))
            change = new - x
            if float(np.vdot(ahead - new, change)) > 0.0:
                momentum = 1.0
            grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
            ahead, x, momentum = new + (momentum - 1.0) / grown * change, new, grown
            if float(np.linalg.norm(change)) <= PRECISION * float(np.linalg.norm(new)):
                break
        self._x = x
        return x
