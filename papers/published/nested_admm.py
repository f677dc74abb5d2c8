"""Squared loss with any penalty over split columns, as the thesis that GraphADMM comes from prints it: two nested loops.

Solves   min ‖Σ Aᵢxᵢ − y‖² + Σ rᵢ(xᵢ).
Source   Gratton, thesis, algorithm 7, equations 5.45 to 5.50, for g = ‖·‖² and with the sign of θ mended (x = −θ). The inner loop
         starts from the last β and makes `sweeps` sweeps: without end it reaches the step of algorithm 6 (dual_consensus.py with z shared by
         all); the thesis makes 2. co.GraphADMM is its successor: exact steps, labels at one agent, ρ agreed on.
Update   cᵢ ← vᵢ − ρ Σⱼ (μᵢ + μⱼ);   sweep: xᵢ ← argmin rᵢ(x) + N ‖Aᵢx − cᵢ − β − y/N‖²,  β ← argmin ‖β‖²/(4ρ|Vᵢ|) + N ‖Aᵢxᵢ − cᵢ − β − y/N‖²;
         μᵢ ← β/(2ρ|Vᵢ|),  vᵢ ← vᵢ + ρ Σⱼ (μᵢ − μⱼ).
Leaves   μᵢ in full, one number a row: rows × degree numbers an agent and round. Everybody knows y.
Price    exact, for figures only: no gate and no ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Penalty, Topology
from papers.published.graph_rounds import Estimates, adjacency, check_blocks, check_positive, local_step


def feature_admm(
    blocks: Sequence[Floats], y: Floats, graph: Topology, *, penalty: Penalty, rho: float, sweeps: int
) -> Estimates:
    """The agents' coefficients after each round."""
    check_blocks(blocks, y, graph)
    check_positive(rho=rho, sweeps=sweeps)
    links, agents = adjacency(graph), graph.size
    degrees = links.sum(axis=1, keepdims=True)
    k = 4 * rho * degrees * agents
    solvers = [local_step(A, penalty) for A in blocks]
    mu, v, beta = (np.zeros((agents, y.size)) for _ in range(3))
    while True:
        fixed = v - rho * (degrees * mu + links @ mu) + y / agents  # cᵢ + y/N
        for _ in range(sweeps):
            x = [solve(t, 2.0 * agents) for solve, t in zip(solvers, fixed + beta, strict=True)]  # equation 5.45
            scores = np.stack([A @ own for A, own in zip(blocks, x, strict=True)])
            beta = k / (1 + k) * (scores - fixed)  # equation 5.46
        mu = beta / (2 * rho * degrees)  # equation 5.47
        v = v + rho * (degrees * mu - links @ mu)
        yield x
