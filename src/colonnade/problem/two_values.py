"""How residuals of a target with two values spread over rows, as far as sums of products tell.

Given p = w'β, a target of the values l and h has the variance (h − p)(p − l): with p = m + δ, m its mean, that is
σ² + (h + l − 2m)·δ and −δ² + E δ², which has mean 0 and is left out. So n·E[r²·w·w'] = σ²M + (h + l − 2m)·n·E[w·w'·δ].

With z = w − E w and k = E[z·δ], E[w_i·w_j·δ] = μ_i·k_j + μ_j·k_i + E[z_i·z_j·δ]. The last is (1 − 2μ_i)·k_i for i = j
and a column of zeros and ones, and −μ_i·k_j − μ_j·k_i for two levels of one list, of which a row has one. For all other
pairs it is a third moment that no Gram matrix has, taken as 0, as it is for columns that lie evenly about their means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class TwoValues:
    """A target with two values, and which columns that explain it are zeros and ones."""

    low: float
    high: float
    flags: NDArray[np.bool_]  # by column, without the constant
    lists: Integers  # by column: the list of levels that it belongs to; −1: none

    def score_spread(self, M: Floats, beta: Floats, variance: float) -> Floats:
        """n·E[r²·w·w'] at coefficients β, for residuals of this variance; M of [a, 1], positive definite.

        In no direction less than for equal variances, so that a third moment that was left out shortens nothing; and no
        row's variance is over (h − l)²/4.
        """
        if not variance > 0.0:
            return np.zeros(M.shape)
        rows = M[-1, -1]
        mean = M[:-1, -1] / rows
        k = M[:-1, :-1] @ beta[:-1] / rows - mean * float(mean @ beta[:-1])
        pairs = np.outer(mean, k)
        third = np.where((self.lists[:, None] == self.lists) & (self.lists >= 0), -pairs - pairs.T, 0.0)
        np.fill_diagonal(third, np.where(self.flags, (1.0 - 2.0 * mean) * k, 0.0))
        T = np.zeros(M.shape)
        T[:-1, :-1] = pairs + pairs.T + third
        T[:-1, -1] = k
        T[-1, :-1] = k
        lean = self.high + self.low - 2.0 * float(beta[-1] + mean @ beta[:-1])
        L = np.linalg.cholesky(M)
        inside = np.linalg.solve(L, np.linalg.solve(L, T).T)
        values, vectors = np.linalg.eigh((inside + inside.T) / 2.0)
        most = max((self.high - self.low) ** 2 / (4.0 * variance), 1.0)
        times = np.clip(1.0 + rows * lean / variance * values, 1.0, most)
        along = L @ vectors
        return np.asarray(variance * (along * times) @ along.T)
