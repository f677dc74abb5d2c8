"""Ridge over split columns by diffusion: a gradient step of one's own, then an average with the neighbours.

Solves   min ‖Ax − y‖² + ridge ‖x‖², A = [A₁ … A_N], over f with xᵢ = Aᵢᵀf:   min Σᵢ ½ fᵀ(AᵢAᵢᵀ + ridge/N) f − [i holds y] fᵀy/B.
Source   Arablouei, Doğançay, Werner and Huang, "Model-distributed solution of regularized least-squares problem over sensor
         networks", ICASSP 2015, [35] of Gratton's thesis: adapt, then combine. The thesis prints no weights; Metropolis here.
Update   ψᵢ ← fᵢ − step ((AᵢAᵢᵀ + ridge/N) fᵢ − [i holds y] y/B),   fᵢ ← Σⱼ c_ij ψⱼ.
Leaves   ψᵢ in full, one number a row: rows × degree numbers an agent and round.
Price    exact, for figures only: no gate and no ledger. A constant step ends near the answer, not at it: the agents' gradients
         do not vanish there one by one, and averaging keeps them apart by a multiple of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Topology
from papers.published.graph_rounds import Estimates, check_blocks, check_positive, metropolis


def diffusion_ridge(
    blocks: Sequence[Floats], y: Floats, graph: Topology, *, ridge: float, step: float, holders: Sequence[int]
) -> Estimates:
    """The agents' coefficients after each round; `holders` are the agents that know y."""
    check_blocks(blocks, y, graph)
    check_positive(ridge=ridge, step=step)
    mix, share = metropolis(graph), np.zeros((graph.size, y.size))
    share[list(holders)] = y / len(holders)
    f = np.zeros_like(share)
    while True:
        products = np.stack([A @ (A.T @ own) for A, own in zip(blocks, f, strict=True)])
        f = mix @ (f - step * (products + ridge / graph.size * f - share))
        yield [A.T @ own for A, own in zip(blocks, f, strict=True)]
