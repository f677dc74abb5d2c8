"""Ways to share columns out over parties, for experiments: each returns {party: columns}, as Federation.split takes it.

Source   Bellet et al., arXiv:1404.2644, section on unbalanced partitions: uniform, weighted (party sizes in proportion to
         |N(0, 1)|), and by similarity, where a party's columns resemble each other and local choices mislead most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Indices

Parties = dict[str, list[int]]
NEAREST = (
    "By similarity each goes to the node whose random one it resembles most; the paper draws nodes with such weights."
)


def uniform(d: int, parties: int, seed: int = 0) -> Parties:
    """Every column to a party drawn at random, sizes as equal as they can be."""
    rng = _checked(d, parties, seed)
    return _named(rng.permutation(np.arange(d) % parties), parties)


def weighted(d: int, parties: int, seed: int = 0) -> Parties:
    """Every column to a party drawn with weights |N(0, 1)|: some parties hold most, each at least one column."""
    rng = _checked(d, parties, seed)
    weights = np.abs(rng.standard_normal(parties))
    owners = rng.choice(parties, size=d, p=weights / weights.sum())
    owners[rng.choice(d, size=parties, replace=False)] = np.arange(parties)
    return _named(owners, parties)


def similar(A: Any, parties: int, seed: int = 0) -> Parties:
    """Every column to the one of `parties` random columns that it resembles most (largest |cosine|)."""
    d = int(A.shape[1])
    rng = _checked(d, parties, seed)
    centres = rng.choice(d, size=parties, replace=False)
    products = A.T @ A[:, centres]
    cosines = np.abs(products.toarray() if sparse.issparse(products) else np.asarray(products))
    norms = np.sqrt(np.asarray((A[:, centres] * A[:, centres]).sum(axis=0)).ravel())
    owners = np.argmax(cosines / np.where(norms > 0.0, norms, 1.0), axis=1)
    owners[centres] = np.arange(parties)
    return _named(owners, parties)


def _named(owners: Indices, parties: int) -> Parties:
    return {f"party{k}": np.flatnonzero(owners == k).tolist() for k in range(parties)}


def _checked(d: int, parties: int, seed: int) -> np.random.Generator:
    if not 1 <= parties <= d:
        raise InvalidInput(f"{parties} parties for {d} columns: each needs at least one column.")
    return np.random.default_rng(seed)
