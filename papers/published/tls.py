"""Total least squares over split rows as it was published, three times: D-TLS, IPI-D-TLS and the two-loop DA-TLS.

Solves   min ‖Ax − y‖² / (1 + ‖x‖²): v/v_last for the eigenvector v of Σ Cᵢ with the least eigenvalue, Cᵢ = ZᵢᵀZᵢ, Zᵢ = [Aᵢ −yᵢ].
Source   d_tls      Bertrand and Moonen, "Consensus-based distributed total least squares estimation ...", IEEE TSP 2011, [14] of
                    Gratton's thesis: dual subgradient steps on min Σ <Cᵢ, vᵢvᵢᵀ> with vᵢvᵢᵀ equal over links.
         ipi_d_tls  the same authors, "Low-complexity distributed total least squares ...", IEEE TSP 2012, [21] there: one inverse power
                    iteration in place of the eigenvector. Both are written from their descriptions, signs and starts are ours.
         da_tls     Gratton, thesis, algorithm 3, equations 3.13 to 3.17, as printed: without a normalisation of X.
Update   d_tls      vᵢ ← least eigenvector of Rᵢ (from Cᵢ),  Rᵢ ← Rᵢ + step Σⱼ (vᵢvᵢᵀ − vⱼvⱼᵀ);   ipi_d_tls: vᵢ ← Rᵢ⁻¹vᵢ / ‖Rᵢ⁻¹vᵢ‖.
         da_tls     inner: Λᵢ ← Λᵢ + ρ Σⱼ (Xᵢ − Xⱼ),  Xᵢ ← [(ρ|Vᵢ|Xᵢ + ρ Σⱼ Xⱼ − Cᵢ + βᵢ − Λᵢ) / (2ρ|Vᵢ|)]₊;
                    outer: βᵢ ← <Cᵢ, Xᵢ> / tr Xᵢ, and X and Λ start again at 0.
Leaves   d_tls and ipi_d_tls: vᵢ, (P + 1) × degree numbers an agent and round; da_tls: Xᵢ, (P + 1)² × degree.
Price    exact, for figures only: no gate and no ledger.

Two faults of da_tls, both exact. ρ does nothing: X and Λ start at 0 and the cone X ⪰ 0 has no scale, so X is 1/ρ times what it is at
ρ = 1, and x and β do not change. And min <C − βI, X> over the cone is 0, at X = 0, for β up to the least eigenvalue and −∞ above it:
the inner loop has no answer vvᵀ to go to, and the outer loop starts it anew.
"""

from __future__ import annotations

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem import Topology
from papers.published.graph_rounds import Estimates, adjacency, check_positive


def tables(A: Floats, y: Floats, agents: int) -> Floats:
    """Cᵢ of each agent, rows shared out in order: (agents, P + 1, P + 1)."""
    if A.shape[0] != y.size or A.shape[0] < agents:
        raise InvalidInput(
            f"{A.shape[0]} rows, {y.size} labels and {agents} agents: give every agent at least one row."
        )
    return np.stack([Z.T @ Z for Z in np.array_split(np.column_stack([A, -y]), agents)])


def d_tls(C: Floats, graph: Topology, *, step: float) -> Estimates:
    """Every agent's estimate of all coefficients after each round."""
    R, laplacian = _start(C, graph, step=step)
    while True:
        v = np.linalg.eigh(R)[1][:, :, 0]
        R = R + step * np.tensordot(laplacian, v[:, :, None] * v[:, None, :], axes=1)
        yield list(v[:, :-1] / v[:, -1:])


def ipi_d_tls(C: Floats, graph: Topology, *, step: float) -> Estimates:
    """The same with one inverse power iteration a round, from each agent's own least eigenvector."""
    R, laplacian = _start(C, graph, step=step)
    v = np.linalg.eigh(R)[1][:, :, 0]
    while True:
        v = np.linalg.solve(R, v[:, :, None])[:, :, 0]
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
        R = R + step * np.tensordot(laplacian, v[:, :, None] * v[:, None, :], axes=1)
        yield list(v[:, :-1] / v[:, -1:])


def da_tls(C: Floats, graph: Topology, *, rho: float, inner: int) -> Estimates:
    """After each inner iteration; β is renewed, and X and Λ are put back to 0, after every `inner` of them."""
    start, laplacian = _start(C, graph, rho=rho, inner=inner)
    degrees = np.diag(laplacian)[:, None, None]
    one = np.eye(C.shape[1])
    beta = np.trace(C, axis1=1, axis2=2) / C.shape[1]
    while True:
        X, multipliers = np.zeros_like(start), np.zeros_like(start)
        for _ in range(inner):
            apart = np.tensordot(laplacian, X, axes=1)  # Σⱼ (Xᵢ − Xⱼ)
            multipliers = multipliers + rho * apart  # equation 3.14
            G = (rho * (2 * degrees * X - apart) - C + beta[:, None, None] * one - multipliers) / (2 * rho * degrees)
            values, vectors = np.linalg.eigh((G + G.transpose(0, 2, 1)) / 2)  # equation 3.16
            X = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)  # equation 3.17
            yield [_coefficients(own) for own in X]
        size = np.trace(X, axis1=1, axis2=2)
        quotient = np.einsum("ijk,ijk->i", C, X) / np.where(size > 0, size, 1.0)
        beta = np.where(size > 0, quotient, beta)


def _coefficients(X: Floats) -> Floats:
    """x of X/X_last: the top eigenvector of the upper left part, as long as its eigenvalue says, towards the last column."""
    if X[-1, -1] <= 0:
        return np.zeros(len(X) - 1)
    values, vectors = np.linalg.eigh(X[:-1, :-1] / X[-1, -1])
    x = np.sqrt(max(float(values[-1]), 0.0)) * vectors[:, -1]
    return np.asarray(x if x @ X[:-1, -1] >= 0 else -x)


def _start(C: Floats, graph: Topology, **settings: float) -> tuple[Floats, Floats]:
    """A copy of the tables, and the graph's Laplacian, which turns X into Σⱼ (Xᵢ − Xⱼ)."""
    check_positive(**settings)
    if len(C) != graph.size or graph.size < 2:
        raise InvalidInput(f"{len(C)} tables for a graph of {graph.size}: give every agent, of at least 2, a table.")
    links = adjacency(graph)
    return C.copy(), np.diag(links.sum(axis=1)) - links
