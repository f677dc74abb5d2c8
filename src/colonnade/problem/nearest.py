"""The x-update of ADMM: penalised coefficients whose prediction is near a target.

Solves   x(t, rho) = argmin_x  penalty(x) + rho/2 ‖A x − t‖², again and again for other targets, now and then for
         another rho.
Serves   where one block of columns meets many targets, so that it is factorised once: rounds of ADMM.
Ridge    one Cholesky factorisation for each rho, of the smaller of AᵀA and AAᵀ (Woodbury).
Ball     ridge within ‖x‖ ≤ radius, by one eigendecomposition for every rho: the multiplier of the ball joins the ridge.
Set      proximal gradients with momentum, restarted when they turn back, from the last answer on; the prox of a term
         over a set ends in the set, so that an answer always lies there.
Free     no penalty: the shortest of the nearest, by one eigendecomposition.
Others   block coordinate descent from the last answer; exact up to `PRECISION` of the target's length.
Matrix   for several responses X and T have a column each. Ridge, Lasso, ElasticNet: problems of their own. NuclearNorm:
         proximal gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.prox import block_descent, look_ahead, project_l2
from colonnade.problem.penalties import ElasticNet, Free, GroupLasso, Lasso, NuclearNorm, Penalty, Ridge, Within
from colonnade.problem.sets import L2Ball

PRECISION = 1e-9
SWEEPS = 500
STEPS = 2000  # of proximal gradients
EPS = float(np.finfo(np.float64).eps)
SHORTEST_STEP = 1e-12  # of the size of the answer: a step below it ends the search

Nearest = Callable[[Floats, float], Floats]  # target and rho in; remembers what makes the next answer cheaper


def nearest(matrix: Any, penalty: Penalty) -> Nearest:
    """The solver for a block (dense or CSC) and a penalty of its own columns."""
    match penalty:
        case Ridge(a):
            return NearestRidge(matrix, a)
        case Lasso(a):
            return NearestSparse(matrix, singles(matrix.shape[1]), np.full(matrix.shape[1], a), 0.0)
        case ElasticNet(l1, l2):
            return NearestSparse(matrix, singles(matrix.shape[1]), np.full(matrix.shape[1], l1), l2)
        case GroupLasso(a):
            groups = penalty.named
            return NearestSparse(matrix, groups, a * np.sqrt([len(group) for group in groups]), 0.0)
        case Free(signed=True):
            return NearestFree(matrix)
        case Within(L2Ball(radius), Ridge(a)):
            return NearestInBall(matrix, a, radius)
        case Within() | Free():
            return NearestByGradients(matrix, penalty, (matrix.shape[1],))
        case _:
            raise InvalidInput(f"no x-update for {type(penalty).__name__}: use Ridge, Lasso, ElasticNet or GroupLasso.")


def singles(columns: int) -> tuple[tuple[int, ...], ...]:
    """Every column a group of its own."""
    return tuple((j,) for j in range(columns))


class NearestRidge:
    """penalty = a/2 ‖x‖²."""

    def __init__(self, matrix: Any, a: float) -> None:
        self._matrix = matrix
        self._a = a
        self._rho = math.nan
        self._gram = smaller_gram(matrix)
        self._factor: Any = None

    def __call__(self, target: Floats, rho: float) -> Floats:
        if rho != self._rho:
            self._rho = rho
            self._factor = linalg.cho_factor(rho * self._gram + self._a * np.eye(len(self._gram)), overwrite_a=True)
        A = self._matrix
        if A.shape[1] <= A.shape[0]:
            answer = linalg.cho_solve(self._factor, rho * (A.T @ target))
        else:
            # (aI + rho AᵀA)⁻¹ Aᵀ = Aᵀ (aI + rho AAᵀ)⁻¹.
            answer = rho * (A.T @ linalg.cho_solve(self._factor, target))
        return np.asarray(answer, dtype=np.float64)


class NearestInBall:
    """penalty = a/2 ‖x‖², over ‖x‖ ≤ radius; radius may be inf."""

    def __init__(self, matrix: Any, a: float, radius: float) -> None:
        self._matrix = matrix
        self._a = a
        self._radius = radius
        values, self._vectors = linalg.eigh(smaller_gram(matrix))
        self._values = np.maximum(values, 0.0)

    def __call__(self, target: Floats, rho: float) -> Floats:
        A = self._matrix
        wide = self._matrix.shape[1] > self._matrix.shape[0]
        # In the eigenvectors' coordinates every multiplier mu ≥ a of ½‖x‖² gives x(mu) = pull/(mu + rho·values), up to
        # a rotation; its length falls with mu, so the ball is one number away.
        pull = rho * (self._vectors.T @ (target if wide else A.T @ target))
        weight = self._values if wide else np.ones(self._values.size)

        def length(mu: float) -> float:
            return float(np.sqrt(np.sum(weight * np.square(pull / (mu + rho * self._values)))))

        mu = self._a
        if length(mu) > self._radius:
            from scipy.optimize import brentq  # slow to load, and few need it

            high = self._a + math.sqrt(float(np.sum(weight * np.square(pull)))) / self._radius
            mu = float(brentq(lambda m: length(m) - self._radius, self._a, high, xtol=1e-300, rtol=1e-15))
        inside = self._vectors @ (pull / (mu + rho * self._values))
        x = np.asarray(A.T @ inside if wide else inside, dtype=np.float64)
        return project_l2(x, self._radius)  # the last bits of the root


class NearestFree:
    """penalty = 0: of the nearest, the shortest."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        gram = smaller_gram(matrix)
        values, vectors = linalg.eigh(gram)
        # A product of m·n numbers and its eigenvalues are off by up to (m + n)·eps·trace: below that, they may be 0.
        kept = values > sum(matrix.shape) * EPS * float(np.trace(gram))
        self._half = vectors[:, kept] / np.sqrt(values[kept])

    def __call__(self, target: Floats, rho: float) -> Floats:  # noqa: ARG002
        A = self._matrix
        if A.shape[1] <= A.shape[0]:
            return np.asarray(self._half @ (self._half.T @ (A.T @ target)), dtype=np.float64)
        return np.asarray(A.T @ (self._half @ (self._half.T @ target)), dtype=np.float64)


class NearestSparse:
    """penalty = Σ_g limit_g ‖x_g‖₂ + l2/2 ‖x‖²."""

    def __init__(self, matrix: Any, groups: tuple[tuple[int, ...], ...], limits: Floats, l2: float) -> None:
        self._order: Indices = np.array([j for group in groups for j in group], dtype=np.int64)
        self._block = sparse.csc_array(matrix[:, self._order])
        self._starts: Indices = np.cumsum([0, *map(len, groups)]).astype(np.int64)
        self._norms = _squared_norms(self._block, self._starts)
        self._limits, self._l2, self._x = np.asarray(limits, dtype=np.float64), l2, np.zeros(self._order.size)

    def __call__(self, target: Floats, rho: float) -> Floats:
        block = self._block
        residual = target - self._block @ self._x
        precision = PRECISION * float(np.linalg.norm(target))
        parts = block.data, block.indices, block.indptr, self._starts, self._limits, self._norms
        block_descent(*parts, self._l2, rho, self._x, residual, precision, SWEEPS)
        answer = np.empty(self._x.size)
        answer[self._order] = self._x
        return answer


def nearest_matrix(matrix: Any, penalty: Penalty, responses: int) -> Nearest:
    """The solver for a block (dense or CSC), a penalty of its own columns, and so many responses."""
    match penalty:
        case Ridge() | Lasso() | ElasticNet():
            return NearestResponses(matrix, penalty, responses)
        case NuclearNorm():
            return NearestByGradients(matrix, penalty, (matrix.shape[1], responses))
        case _:
            raise InvalidInput(f"no {type(penalty).__name__} of a matrix: use Ridge, Lasso, ElasticNet or NuclearNorm.")


class NearestResponses:
    """A penalty that is a sum over entries."""

    def __init__(self, matrix: Any, penalty: Penalty, responses: int) -> None:
        self._solvers = [nearest(matrix, penalty) for _ in range(responses)]

    def __call__(self, target: Floats, rho: float) -> Floats:
        return np.column_stack([solve(target[:, k].copy(), rho) for k, solve in enumerate(self._solvers)])


class NearestByGradients:
    """Any penalty, by its prox."""

    def __init__(self, matrix: Any, penalty: Penalty, shape: tuple[int, ...]) -> None:
        self._matrix = matrix
        self._penalty = penalty
        self._gram = dense(matrix.T @ matrix)
        self._bound = float(np.linalg.eigvalsh(self._gram)[-1]) * (1.0 + 1e-12)
        self._x = penalty.prox(np.zeros(shape), 1.0)

    def __call__(self, target: Floats, rho: float) -> Floats:
        if self._bound <= 0.0:  # columns of zeros
            return self._x
        x = self._x
        ahead = self._x
        momentum = 1.0
        pull = np.asarray(self._matrix.T @ target)
        for _ in range(STEPS):
            new = self._penalty.prox(ahead - (self._gram @ ahead - pull) / self._bound, 1.0 / (rho * self._bound))
            ahead, momentum = look_ahead(x, ahead, new, momentum)
            moved = float(np.linalg.norm(new - x))
            x = new
            if moved <= SHORTEST_STEP * float(np.linalg.norm(new)):
                break
        self._x = x
        return x


def smaller_gram(matrix: Any) -> Floats:
    """AᵀA, or AAᵀ where that is smaller."""
    return dense(matrix.T @ matrix if matrix.shape[1] <= matrix.shape[0] else matrix @ matrix.T)


def dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def _squared_norms(block: Any, starts: Indices) -> Floats:
    """Of every group of columns the square of its largest singular value."""
    norms = np.asarray(block.power(2).sum(axis=0), dtype=np.float64)[starts[:-1]]
    # Columns by themselves, often many, need no more.
    for group in np.flatnonzero(np.diff(starts) > 1):
        own = smaller_gram(block[:, starts[group] : starts[group + 1]])
        norms[group] = float(max(linalg.eigvalsh(own).max(), 0.0)) * (1.0 + 1e-12)
    return norms
