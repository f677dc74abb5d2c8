"""Squared loss with any penalty over split columns by dual consensus ADMM, as it was published.

Solves   min ‖Σ Aᵢxᵢ − y‖² + Σ rᵢ(xᵢ), as  min Σ rᵢ(xᵢ) + ‖z‖²  subject to  Σ Aᵢxᵢ − z = y,  on whose multiplier μ the agents agree.
Source   Chang, Hong and Wang, "Multi-agent distributed optimization via inexact consensus ADMM", IEEE TSP 2015, DC-ADMM with exact
         steps, [49] of Gratton's thesis; y is divided among all agents, as there. The residual z is a variable of one agent. With a
         share zᵢ, Σ zᵢ = z, at every agent the same iteration IS algorithm 6 of the thesis (5.23 to 5.26, with the sign of θ mended).
Update   cᵢ ← vᵢ − ρ Σⱼ (μᵢ + μⱼ),  h = 1/(4ρ|Vᵢ| + [i has a share of z]/B)
         xᵢ ← argmin rᵢ(x) + h ‖Aᵢx − cᵢ − y/N‖²,  μᵢ ← 2h (Aᵢxᵢ − cᵢ − y/N),  vᵢ ← vᵢ + ρ Σⱼ (μᵢ − μⱼ).
Leaves   μᵢ in full, one number a row: rows × degree numbers an agent and round. Everybody knows y.
Price    exact, for figures only: no gate and no ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Penalty, Topology
from papers.published.graph_rounds import Estimates, adjacency, check_blocks, check_positive, local_step


def dc_admm(
    blocks: Sequence[Floats],
    y: Floats,
    graph: Topology,
    *,
    penalty: Penalty,
    rho: float,
    holders: Sequence[int],
) -> Estimates:
    """The agents' coefficients after each round; `penalty` is every agent's, `holders` are those with a share of z."""
    check_blocks(blocks, y, graph)
    check_positive(rho=rho)
    links = adjacency(graph)
    degrees = links.sum(axis=1)
    shares = np.zeros(graph.size)
    shares[list(holders)] = 1.0 / len(holders)
    h = 1.0 / (4 * rho * degrees + shares)
    solvers = [local_step(A, penalty) for A in blocks]
    mu, v = (np.zeros((graph.size, y.size)) for _ in range(2))
    while True:
        targets = v - rho * (degrees[:, None] * mu + links @ mu) + y / graph.size  # cᵢ + y/N
        x = [solve(target, 2 * k) for solve, target, k in zip(solvers, targets, h, strict=True)]
        scores = np.stack([A @ own for A, own in zip(blocks, x, strict=True)])
        mu = 2 * h[:, None] * (scores - targets)
        v = v + rho * (degrees[:, None] * mu - links @ mu)
        yield x
