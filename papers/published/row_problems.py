"""Problems whose rows are split over agents, as plain arrays: what the rivals on a graph of split rows are run on.

Solves   RowProblem     min_x Σᵢ fᵢ(x),  fᵢ(x) = ‖Aᵢx − bᵢ‖² + (l1/N) ‖Fx‖₁ + (ridge/N) ‖x‖²,  i = 1 … N   Gratton, (3.28), (4.20)
         MatrixProblem  min_X Σᵢ fᵢ(X),  fᵢ(X) = ‖AᵢX − Bᵢ‖² + (nuclear/N) ‖X‖_*,  X as one vector          Gratton, (3.29)
Kept     Aᵢ and bᵢ as Gᵢ = AᵢᵀAᵢ, cᵢ = Aᵢᵀbᵢ and ‖bᵢ‖²: values are exact but for rounding, and do not grow with the rows.
Leaves   nothing: these are functions of arrays, for figures and tests, never for data of anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from colonnade.kernels.arrays import Floats


@dataclass(frozen=True, eq=False)
class RowProblem:
    """Least squares with an l1 norm of Fx, or a ridge, or both; without `F` it is the l1 norm of x."""

    A: Floats  # (agents, rows, columns)
    b: Floats  # (agents, rows)
    l1: float = 0.0
    ridge: float = 0.0
    F: Floats | None = None

    @property
    def agents(self) -> int:
        return int(self.A.shape[0])

    @property
    def columns(self) -> int:
        return int(self.A.shape[2])

    @cached_property
    def gram(self) -> Floats:
        """Gᵢ with the agent's share of the ridge."""
        own = np.swapaxes(self.A, 1, 2) @ self.A
        return np.asarray(own + self.ridge / self.agents * np.eye(self.columns))

    @cached_property
    def pull(self) -> Floats:
        return np.asarray(np.einsum("nmp,nm->np", self.A, self.b))

    @cached_property
    def squares(self) -> Floats:
        return np.asarray((self.b**2).sum(axis=1))

    @cached_property
    def curvature(self) -> float:
        """The largest second derivative of any agent's smooth part."""
        return 2.0 * float(np.linalg.eigvalsh(self.gram)[:, -1].max())

    def values(self, x: Floats) -> Floats:
        """fᵢ at a stack of points of each agent: (agents, points, columns) to (agents, points)."""
        smooth = np.einsum("njp,njp->nj", x @ self.gram - 2.0 * self.pull[:, None], x) + self.squares[:, None]
        kinks = x if self.F is None else x @ self.F.T
        return np.asarray(smooth + self.l1 / self.agents * np.abs(kinks).sum(axis=-1)) if self.l1 else smooth

    def differences(self, x: Floats, v: Floats) -> Floats:
        """fᵢ(x + v) − fᵢ(x) at a stack of points and moves of each agent: vᵀG(2x + v) − 2cᵀv, and what the kinks add."""
        smooth = np.einsum("njp,njp->nj", (2.0 * x + v) @ self.gram - 2.0 * self.pull[:, None], v)
        if not self.l1:
            return np.asarray(smooth)
        here, there = (x, x + v) if self.F is None else (x @ self.F.T, (x + v) @ self.F.T)
        return np.asarray(smooth + self.l1 / self.agents * (np.abs(there) - np.abs(here)).sum(axis=-1))

    def slopes(self, x: Floats) -> Floats:
        """A subgradient of fᵢ at the point of each agent: (agents, columns)."""
        smooth = 2.0 * (np.einsum("npq,nq->np", self.gram, x) - self.pull)
        kinks = np.sign(x) if self.F is None else np.sign(x @ self.F.T) @ self.F
        return np.asarray(smooth + self.l1 / self.agents * kinks)

    def near(self, centres: Floats, weights: Floats) -> Floats:
        """argmin fᵢ(x) + wᵢ/2 ‖x − vᵢ‖² for each agent, F = I: proximal gradient steps until they come to rest."""
        assert self.F is None, "the l1 norm of Fx has no closed prox"
        hessian = 2.0 * self.gram + weights[:, None, None] * np.eye(self.columns)
        target = 2.0 * self.pull + weights[:, None] * centres
        x = np.asarray(np.linalg.solve(hessian, target[..., None])[..., 0], dtype=np.float64)
        if not self.l1:
            return x
        step = 1.0 / np.linalg.eigvalsh(hessian)[:, -1:]
        for _ in range(10_000):
            before = x
            point = x - step * (np.einsum("npq,nq->np", hessian, x) - target)
            x = np.sign(point) * np.maximum(np.abs(point) - step * self.l1 / self.agents, 0.0)
            if float(np.abs(x - before).max()) <= 1e-14 * (1.0 + float(np.abs(x).max())):
                break
        return x

    @cached_property
    def answer(self) -> Floats:
        """The centralised optimum: x = G⁻¹(c − Fᵀu/2) for the u in a box that makes G^(−1/2)(c − Fᵀu/2) shortest."""
        from scipy.linalg import solve_triangular
        from scipy.optimize import lsq_linear

        gram, pull = self.gram.sum(axis=0), self.pull.sum(axis=0)
        if not self.l1:
            return np.linalg.solve(gram, pull)
        root = np.linalg.cholesky(gram)
        F = np.eye(self.columns) if self.F is None else self.F
        left, right = solve_triangular(root, F.T / 2.0, lower=True), solve_triangular(root, pull, lower=True)
        u = lsq_linear(left, right, bounds=(-self.l1, self.l1), method="bvls", tol=1e-14, max_iter=1000).x
        return np.linalg.solve(gram, pull - F.T @ u / 2.0)


@dataclass(frozen=True, eq=False)
class MatrixProblem:
    """Reduced-rank regression: several responses, and a nuclear norm of which only values are used."""

    A: Floats  # (agents, rows, columns)
    B: Floats  # (agents, rows, responses)
    nuclear: float

    @property
    def agents(self) -> int:
        return int(self.A.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[2]), int(self.B.shape[2])

    @property
    def columns(self) -> int:
        """Entries of X, as one vector."""
        return self.shape[0] * self.shape[1]

    @cached_property
    def gram(self) -> Floats:
        return np.asarray(np.swapaxes(self.A, 1, 2) @ self.A)

    @cached_property
    def pull(self) -> Floats:
        return np.asarray(np.swapaxes(self.A, 1, 2) @ self.B)

    @cached_property
    def squares(self) -> Floats:
        return np.asarray((self.B**2).sum(axis=(1, 2)))

    @cached_property
    def curvature(self) -> float:
        return 2.0 * float(np.linalg.eigvalsh(self.gram)[:, -1].max())

    def values(self, x: Floats) -> Floats:
        """fᵢ at a stack of points of each agent: (agents, points, entries) to (agents, points)."""
        X = x.reshape(*x.shape[:2], *self.shape)
        smooth = np.einsum("njps,njps->nj", self.gram[:, None] @ X - 2.0 * self.pull[:, None], X)
        norms = np.linalg.svd(X, compute_uv=False).sum(axis=-1)
        return np.asarray(smooth + self.squares[:, None] + self.nuclear / self.agents * norms)

    def differences(self, x: Floats, v: Floats) -> Floats:
        """fᵢ(X + V) − fᵢ(X) at a stack of points and moves of each agent; the nuclear norms are two values."""
        both = np.stack([x, x + v]).reshape(2, *x.shape[:2], *self.shape)
        V = v.reshape(*v.shape[:2], *self.shape)
        smooth = np.einsum("njps,njps->nj", self.gram[:, None] @ (both[0] + both[1]) - 2.0 * self.pull[:, None], V)
        here, there = np.linalg.svd(both, compute_uv=False).sum(axis=-1)
        return np.asarray(smooth + self.nuclear / self.agents * (there - here))

    @cached_property
    def answer(self) -> Floats:
        """The centralised optimum, as one vector: proximal gradient steps until they come to rest."""
        gram, pull = self.gram.sum(axis=0), self.pull.sum(axis=0)
        step, X = 1.0 / (2.0 * np.linalg.eigvalsh(gram)[-1]), np.linalg.solve(gram, pull)
        for _ in range(100_000):
            before = X
            left, s, right = np.linalg.svd(X - step * 2.0 * (gram @ X - pull), full_matrices=False)
            X = (left * np.maximum(s - step * self.nuclear, 0.0)) @ right
            if float(np.abs(X - before).max()) <= 1e-15 * float(np.abs(X).max()):
                break
        return X.reshape(-1)


def error(estimates: Floats, answer: Floats) -> float:
    """Σᵢ ‖xᵢ − x‖² / ‖x‖²: the thesis' normalised error, a sum over agents and not their mean."""
    return float(((estimates - answer) ** 2).sum() / (answer @ answer))
