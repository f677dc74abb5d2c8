"""Squared loss with any penalty over split columns with a centre that everybody hears: what graph methods are compared with.

Solves   min ‖Σ Aᵢxᵢ − y‖² + Σ rᵢ(xᵢ).
Source   Boyd, Parikh, Chu, Peleato and Eckstein, "Distributed optimization and statistical learning via ADMM", sharing over split
         features, [5] of Gratton's thesis, which calls it broadcast-based. co.SharingADMM is the method of this library.
Update   xᵢ ← argmin rᵢ(x) + ρ/2 ‖Aᵢx − Aᵢxᵢ − z̄ + ā + u‖², ā the mean of all Aᵢxᵢ;  z̄ ← (2y + ρ(ā + u))/(2N + ρ);  u ← u + ā − z̄.
Leaves   Aᵢxᵢ to the centre and z̄ − ā − u back to all: 2 × rows numbers for an agent and round, half of them sent by the centre.
Price    exact, for figures only: no gate and no ledger. No graph is used: a round is one message to the centre and one back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem import Penalty
from papers.published.graph_rounds import Estimates, check_positive, local_step


def broadcast_admm(blocks: Sequence[Floats], y: Floats, *, penalty: Penalty, rho: float) -> Estimates:
    """The agents' coefficients after each round; `penalty` is every agent's."""
    check_positive(rho=rho)
    if not blocks or any(A.shape[0] != y.size for A in blocks):
        raise InvalidInput(f"every agent needs a block with the {y.size} rows of the labels: align them first.")
    agents, solvers = len(blocks), [local_step(A, penalty) for A in blocks]
    scores = np.zeros((agents, y.size))
    told = np.zeros(y.size)  # z̄ − ā − u, what the centre broadcasts
    u = np.zeros(y.size)
    while True:
        x = [solve(own + told, rho) for solve, own in zip(solvers, scores, strict=True)]
        scores = np.stack([A @ own for A, own in zip(blocks, x, strict=True)])
        mean = scores.mean(axis=0)
        z = (2 * y + rho * (mean + u)) / (2 * agents + rho)  # argmin ‖N z − y‖² + N ρ/2 ‖z − ā − u‖²
        u = u + mean - z
        told = z - mean - u
        yield x
