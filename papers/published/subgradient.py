"""D-SG: subgradient steps and averages over neighbours, the rival of zeroth-order ADMM where slopes are known.

Solves   min_x Σᵢ fᵢ(x), rows split; each agent knows a subgradient of its fᵢ.
Source   Nedić and Ozdaglar, "Distributed subgradient methods for multi-agent optimization", 2009; Gratton's [9].
             xᵢ ← Σⱼ Wᵢⱼ xⱼ − (α/√k) gᵢ(xᵢ),   W doubly stochastic: here Metropolis weights, which need degrees only.
Sends    its estimate to every neighbour, every round: |Vᵢ|·P numbers.
Claims   convergence for steps that go to zero, as log(k)/√k in the best objective so far; with a constant step to within
         a distance of its order. No privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.problem import Topology
from papers.published.graph_rounds import metropolis


def subgradient(slopes: Callable[[Floats], Floats], topology: Topology, columns: int, step: float) -> Iterator[Floats]:
    """The agents' estimates after each round, for ever: (agents, columns). `step` is α."""
    W, x, k = metropolis(topology), np.zeros((topology.size, columns)), 0
    while True:
        k += 1
        x = W @ x - step / math.sqrt(k) * slopes(x)
        yield x
