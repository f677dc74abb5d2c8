"""Dense public random projections, as the papers use them: J is m × n, made from a seed.

Rademacher  ±1/√m: column norms are 1 up to rounding, O(mn) to make and to apply.
Gaussian    N(0, 1/m): column norms scatter about 1; what counts for privacy is the largest one.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.arrays import Floats


def rademacher_sketch(seed: bytes, m: int, n: int) -> Floats:
    """Entries ±1/√m."""
    signs = np.random.default_rng(int.from_bytes(seed, "little")).integers(0, 2, (m, n))
    dense: Floats = (2.0 * signs - 1.0) / np.sqrt(m)
    return dense


def gaussian_sketch(seed: bytes, m: int, n: int) -> Floats:
    """Entries N(0, 1/m)."""
    dense: Floats = np.random.default_rng(int.from_bytes(seed, "little")).standard_normal((m, n)) / np.sqrt(m)
    return dense


def largest_column_norm(sketch: Floats) -> float:
    """κ: how far a column's sketch moves when one entry of the column moves by 1."""
    return float(np.sqrt(np.square(sketch).sum(axis=0).max()))
