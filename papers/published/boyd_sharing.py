"""Sharing ADMM as Bellet et al. compare with: a fixed rho and over-relaxation, columns at different nodes. For figures only.

Solves   min loss(Σ A_m x_m, y) + Σ penalty(x_m)
Source   Boyd et al. 2011, section 7.3, with the over-relaxation of section 3.4.3: α A x + (1 − α) z stands for A x in the updates of z
         and u. Bellet et al. take the best over ρ ∈ {0.1, 1, 10} and α ∈ {1, 1.5}; their ρ is beside ½‖Ax − y‖², hence n times
         that beside a mean over n rows.
Sends    every node its prediction, and the coordinator one vector back to every node: 2 N n numbers a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem import Loss, Penalty
from colonnade.problem.nearest import nearest

GRID = tuple((rho, relaxation) for rho in (0.1, 1.0, 10.0) for relaxation in (1.0, 1.5))  # the paper's


def boyd_sharing(
    blocks: Sequence[Any], y: Floats, loss: Loss, penalty: Penalty, *, rho: float, relaxation: float = 1.0
) -> Iterator[list[Floats]]:
    """The nodes' coefficients after each round, for ever; `rho` is the paper's, beside a sum over rows."""
    if not (rho > 0.0 and 0.0 < relaxation < 2.0):
        raise InvalidInput(f"rho={rho} must be above 0 and relaxation={relaxation} between 0 and 2.")
    count, weight = len(blocks), rho / y.size
    solvers = [nearest(block, penalty) for block in blocks]
    z, u = np.zeros((count, y.size)), np.zeros(y.size)
    while True:
        x = [solve(own - u, weight) for solve, own in zip(solvers, z, strict=True)]
        predictions = np.stack([np.asarray(block @ own) for block, own in zip(blocks, x, strict=True)])
        relaxed = relaxation * predictions + (1.0 - relaxation) * z
        mean = relaxed.mean(axis=0)
        middle = loss.prox(count * (mean + u), y, count / weight) / count
        z, u = middle + relaxed - mean, u + mean - middle
        yield x
