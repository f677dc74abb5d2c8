"""How far a smooth loss departs from its tangent over a product of sets, averaged over a sampling.

Expected curvature   C = sup over x, s in the set, γ in (0, 1] of  E_T (2/γ²)·(f(x + γ(s − x)_T) − f(x) − γ<(s − x)_T, ∇f(x)>)
Source   Lou and Cheung, definition 3, propositions 1 to 4, for losses (1/n) Σ φ: A becomes √(L/n)·A, L the smoothness of φ.
Bound    f lies below its tangent plus (L/2n)‖A·δ‖², so C ≤ sup E‖√(L/n)·A·δ_T‖² ≤ Σ_ij P(i, j in T)·M_ij, where M_ij bounds
         <A_i δ_i, A_j δ_j>·L/n. Over ℓ1 balls ‖δ_i‖₁ ≤ 2 r_i, and a bilinear form over them is largest at two vertices:
         M_ij = 4 r_i r_j (L/n)·max |a·b|, a a column of block i, b of block j.
Exact    for least squares over columns with |δ_i| ≤ 2 r_i it is the largest δ'(P∘A'A)δ/n: convex, hence at a corner.
Theorems `convergence_bound` is theorem 1, and with inexactness > 0 theorem 2. The published theorem 2 adds (D + |T|)·ϱ_g; the
         derivation in docs/understand/methods/frank-wolfe.md gives ϱ = |T|·(D·ϱ_g + ϱ_l), D the largest diameter of a block.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from colonnade.kernels.arrays import Floats, Indices
from colonnade.problem.checks import Groups
from colonnade.problem.loss import Loss
from colonnade.problem.sampling import Elementary, Independent, Nice, PerParty, Serial


def block_products(loss: Loss, A: Any, groups: Groups, radii: Floats) -> Floats:
    """M: for each pair of blocks, a bound of |<A_i δ_i, A_j δ_j>|·L/n over the set."""
    gram = A.T @ A
    size = np.abs(gram.toarray() if sparse.issparse(gram) else np.asarray(gram)) * loss.smoothness / A.shape[0]
    rows = np.stack([size[list(group)].max(axis=0) for group in groups])
    largest = np.stack([rows[:, list(group)].max(axis=1) for group in groups], axis=1)
    products: Floats = 4.0 * np.outer(radii, radii) * largest
    return products


def expected_curvature(products: Floats, pairs: Floats) -> float:
    """The bound for any sampling: pairs[i, j] = P(blocks i and j are both in a round), P(i) on the diagonal."""
    return float((products * pairs).sum())


def exact_curvature(A: Floats, radii: Floats, pairs: Floats) -> float:
    """Definition 3 itself, for least squares over |x_j| ≤ r_j: over all corners, so for few columns."""
    corners = np.array(list(itertools.product([-2.0, 2.0], repeat=radii.size))) * radii
    return float(np.einsum("ki,ij,kj->k", corners, pairs * (A.T @ A), corners).max() / A.shape[0])


def separable_curvature(A: Floats, radii: Floats, pairs: Floats) -> float:
    """Proposition 1: Σ p_i β_i D_i², β_i = min{σ'(P), σ'(A'A)}·‖A_i‖², σ' the largest eigenvalue after scaling to a unit diagonal."""
    gram = A.T @ A
    least = min(_scaled_eigenvalue(pairs), _scaled_eigenvalue(gram))
    return float((pairs.diagonal() * least * gram.diagonal() * (2.0 * radii) ** 2).sum() / A.shape[0])


def _scaled_eigenvalue(matrix: Floats) -> float:
    scale = np.sqrt(matrix.diagonal())
    return float(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[-1])


def in_pairs(sampling: Any, owners: Indices) -> Floats:
    """[i, j] = P(blocks i and j are both in a round); a user's own sampling brings its own `pairs`."""
    single = sampling.probabilities(owners)
    both: Floats = np.outer(single, single)
    match sampling:
        case Elementary() | Independent():
            np.fill_diagonal(both, single)
        case Serial():
            both = np.diag(single)
        case Nice(tau):
            both = _uniform_pairs(owners.size, tau)
        case PerParty(tau):
            for party in np.unique(owners):
                own = np.flatnonzero(owners == party)
                both[np.ix_(own, own)] = _uniform_pairs(own.size, min(tau, own.size))
        case _:
            return np.asarray(sampling.pairs(owners))
    return both


def _uniform_pairs(blocks: int, tau: int) -> Floats:
    together = tau * (tau - 1) / (blocks * (blocks - 1)) if blocks > 1 else 0.0
    both = np.full((blocks, blocks), together)
    np.fill_diagonal(both, tau / blocks)
    return both


def nice_curvature(products: Floats, tau: int) -> float:
    """Proposition 3."""
    apart = ~np.eye(len(products), dtype=bool)
    return tau * float(products.diagonal().max()) + tau * (tau - 1) * float(products[apart].max(initial=0.0))


def per_party_curvature(products: Floats, owners: Indices, tau: int) -> float:
    """Proposition 4: every one of K parties draws tau blocks."""
    parties = np.unique(owners).size
    same = owners[:, None] == owners[None, :]
    within, across = same & ~np.eye(owners.size, dtype=bool), ~same
    return (
        parties * tau * float(products.diagonal().max())
        + parties * tau * (tau - 1) * float(products[within].max(initial=0.0))
        + parties * (parties - 1) * tau**2 * float(products[across].max(initial=0.0))
    )


def convergence_bound(t: int, start: float, curvature: float, least: float, inexactness: float = 0.0) -> float:
    """E f(x_t) − min f ≤ 2(h₀ + (1 + ϱ)·C/p_min)/(p_min·t + 2): h₀ = start, ϱ = inexactness."""
    return 2.0 * (start + (1.0 + inexactness) * curvature / least) / (least * t + 2.0)


def inexactness(blocks: float, diameter: float, gradient_error: float, oracle_error: float, curvature: float) -> float:
    """ϱ = |T|·(D·ϱ_g + ϱ_l), where errors of size e·γ_t on gradient and oracle are ϱ = 2e/C in the paper's units."""
    return blocks * (diameter * gradient_error + oracle_error) * 2.0 / curvature
