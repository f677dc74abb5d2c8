"""ADMM over split features as it was published, and the gradient method that it was compared with: whole runs, for figures.

Claim    none of ours; the convergence and the privacy that the papers state do not hold (docs/understand/methods/admm.md, papers/findings.md).
Source   ParallelSharing   Hu et al., "Learning privately over distributed features", NeurIPS 2020, algorithm 1, equations 6 to 9.
         FeatureSGD        Hu, Niu, Yang, Zhou, "FDML", KDD 2019, without staleness: the baseline of figures 1 and 2 there.
Leaves   nothing: blocks, labels and a generator in, coefficients out, one list an epoch.
Price    unknown. There is no gate and no ledger here, so nothing in this file can spend a budget or take part in a fit.

Both minimise loss(Σ D_m x_m, y) + ridge/2 Σ ‖x_m‖², with the losses' own 1/n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem import Loss
from colonnade.problem.nearest import NearestRidge


@dataclass(frozen=True)
class ParallelSharing:
    """All parties move at once, each against the full coupling: with many correlated parties it need not converge.

    penalty   the paper's rho.
    sigma     standard deviation of the noise on coefficients, equation 7; 0 for none.
    """

    ridge: float
    penalty: float
    sigma: float = 0.0

    def __post_init__(self) -> None:
        _positive(ridge=self.ridge, penalty=self.penalty)
        if not 0 <= self.sigma < math.inf:
            raise InvalidInput(f"sigma must be 0 (no noise) or a finite number above it, got {self.sigma}.")

    def epochs(self, blocks: Sequence[Any], y: Floats, loss: Loss, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """The parties' coefficients after each epoch, for ever."""
        rho, solvers = self.penalty, [NearestRidge(D, self.ridge) for D in blocks]
        predictions = [np.zeros(y.size) for _ in blocks]
        dual, z = np.zeros(y.size), np.zeros(y.size)
        while True:
            coupling = np.asarray(sum(predictions)) - z  # line 3
            x = []
            for own, solve in zip(predictions, solvers, strict=True):
                others = coupling - own  # line 4
                exact = solve(-(others + dual / rho), rho)  # equation 6
                x.append(exact + self.sigma * rng.standard_normal(exact.size))  # equation 7
            predictions = [np.asarray(D @ own) for D, own in zip(blocks, x, strict=True)]  # line 6
            total = np.asarray(sum(predictions))
            z = loss.prox(total + dual / rho, y, 1.0 / rho)  # equation 8
            dual = dual + rho * (total - z)  # equation 9
            yield x


@dataclass(frozen=True)
class FeatureSGD:
    """Mini-batch gradient steps: parties send their scores of a batch, the label holder sends back the slopes."""

    ridge: float
    rate: float
    batch: int = 100

    def __post_init__(self) -> None:
        _positive(ridge=self.ridge, rate=self.rate, batch=self.batch)

    def epochs(self, blocks: Sequence[Any], y: Floats, loss: Loss, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """The parties' coefficients after each pass over the rows, for ever; they start at small random numbers."""
        x = [0.01 * rng.standard_normal(D.shape[1]) for D in blocks]
        while True:
            for rows in np.array_split(rng.permutation(y.size), math.ceil(y.size / self.batch)):
                parts = [D[rows] for D in blocks]
                scores = np.asarray(sum(D @ own for D, own in zip(parts, x, strict=True)))
                slopes = loss.slope(scores, y[rows])  # of the mean over the batch
                x = [
                    own - self.rate * (np.asarray(D.T @ slopes) + self.ridge * own)
                    for D, own in zip(parts, x, strict=True)
                ]
            yield x


def _positive(**figures: float) -> None:
    for name, value in figures.items():
        if not 0 < value < math.inf:
            raise InvalidInput(f"{name} must be a finite number above 0, got {value}.")
