"""What the published methods on graphs share: who hears whom, how weights are mixed, and what a run is judged by.

A baseline is a generator over whole arrays: after each round it yields the agents' coefficients, for ever. It moves no
messages, so what its agents would send is counted by `numbers_sent`: an agent tells every neighbour the same vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.prox import coordinate_descent
from colonnade.problem import ElasticNet, Lasso, Penalty, Topology
from colonnade.problem.nearest import Nearest, nearest

SWEEPS, ROUNDING = 200, 1e-13  # of an agent's own problem: the most, and the change that ends them

Estimates = Iterator[list[Floats]]  # by agent, after each round


def adjacency(graph: Topology) -> Floats:
    """W with W_ij = 1 where i and j are neighbours."""
    links = np.zeros((graph.size, graph.size))
    for i, j in graph.edges:
        links[i, j] = links[j, i] = 1.0
    return links


def metropolis(graph: Topology) -> Floats:
    """Doubly stochastic weights of the links and of oneself: 1/(1 + the larger degree) for a link."""
    links = adjacency(graph)
    degrees = links.sum(axis=1)
    weights = links / (1.0 + np.maximum.outer(degrees, degrees))
    return np.asarray(weights + np.diag(1.0 - weights.sum(axis=1)))


def algebraic_connectivity(graph: Topology) -> float:
    """The second smallest eigenvalue of the graph's Laplacian: 0 where the graph falls apart, N where it is complete."""
    links = adjacency(graph)
    return float(np.linalg.eigvalsh(np.diag(links.sum(axis=1)) - links)[1]) if graph.size > 1 else 0.0


def numbers_sent(graph: Topology, told: int) -> NDArray[np.int64]:
    """By agent and round, where everybody tells each neighbour `told` numbers (8 bytes each)."""
    return told * np.array([graph.degree(node) for node in range(graph.size)], dtype=np.int64)


def errors(estimates: Iterable[list[Floats]], error: Callable[[list[Floats]], float], rounds: int) -> Floats:
    """The error after each of the first rounds."""
    return np.array([error(x) for x in islice(estimates, rounds)])


def local_step(A: Floats, penalty: Penalty) -> Nearest:
    """argmin penalty(x) + rho/2 ‖Ax − target‖², for many targets: over the Gram matrix where an agent has few columns."""
    if not isinstance(penalty, Lasso | ElasticNet) or A.shape[1] > A.shape[0]:
        return nearest(A, penalty)
    l1, l2 = (penalty.a, 0.0) if isinstance(penalty, Lasso) else (penalty.l1, penalty.l2)
    gram, x = A.T @ A, np.zeros(A.shape[1])

    def solve(target: Floats, rho: float) -> Floats:
        slope = rho * (A.T @ target - gram @ x)
        for _ in range(SWEEPS):
            before = x.copy()
            coordinate_descent(rho * gram, l1, l2, x, slope)
            if np.abs(x - before).max() <= ROUNDING * np.abs(x).max():
                break
        return x.copy()

    return solve


def check_blocks(blocks: Sequence[Floats], y: Floats, graph: Topology) -> None:
    """One block an agent, one row a label."""
    if len(blocks) != graph.size or graph.size < 2:
        raise InvalidInput(
            f"{len(blocks)} blocks for a graph of {graph.size}: give every agent, of at least 2, a block."
        )
    if wrong := [A.shape[0] for A in blocks if A.shape[0] != y.size]:
        raise InvalidInput(f"a block has {wrong[0]} rows where the labels have {y.size}: align them first.")


def check_positive(**figures: float) -> None:
    for name, value in figures.items():
        if not 0 < value < np.inf:
            raise InvalidInput(f"{name} must be a finite number above 0, got {value}.")
