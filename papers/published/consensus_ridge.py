"""Ridge over split columns by consensus ADMM, as it was published: D-Ridge.

Solves   min ‖Ax − y‖² + ridge ‖x‖², A = [A₁ … A_N], over f with xᵢ = Aᵢᵀf (the sum that diffusion.py descends).
Source   Gratton, thesis, algorithm 5, equations 5.7 and 5.8. co.GraphRidge is its successor: labels at one agent, ρ agreed on,
         over-relaxed.
Update   λᵢ ← λᵢ + ρ Σⱼ (fᵢ − fⱼ),   fᵢ ← [AᵢAᵢᵀ + (ridge/N + 2ρ|Vᵢ|)]⁻¹ ([i holds y] y/B − λᵢ + ρ|Vᵢ| fᵢ + ρ Σⱼ fⱼ).
Leaves   fᵢ in full, one number a row: rows × degree numbers an agent and round.
Price    exact, for figures only: no gate and no ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Topology
from papers.published.graph_rounds import Estimates, adjacency, check_blocks, check_positive


def d_ridge(
    blocks: Sequence[Floats], y: Floats, graph: Topology, *, ridge: float, rho: float, holders: Sequence[int]
) -> Estimates:
    """The agents' coefficients after each round; `holders` are the agents that know y."""
    check_blocks(blocks, y, graph)
    check_positive(ridge=ridge, rho=rho)
    links = adjacency(graph)
    degrees = links.sum(axis=1, keepdims=True)
    share = np.zeros((graph.size, y.size))
    share[list(holders)] = y / len(holders)
    weights = (ridge / graph.size + 2 * rho * degrees).ravel()
    inverses = [np.linalg.inv(A @ A.T + k * np.eye(y.size)) for A, k in zip(blocks, weights, strict=True)]
    f, multipliers = np.zeros_like(share), np.zeros_like(share)
    while True:
        around, own = links @ f, degrees * f
        multipliers = multipliers + rho * (own - around)  # equation 5.7
        targets = share - multipliers + rho * (own + around)
        f = np.stack([inverse @ target for inverse, target in zip(inverses, targets, strict=True)])  # equation 5.8
        yield [A.T @ dual for A, dual in zip(blocks, f, strict=True)]
