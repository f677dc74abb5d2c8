"""Public random projections of columns: J is m × n, made from a seed; what a party sends is J·a instead of a.

J        has `entries` nonzeros ±1/√entries in every column, one in each stratum of m/entries rows. They never fall
         on the same place, and with 1, 4 or 16 of them the values are powers of two: every column of J has norm
         exactly 1. J is hashed from (key, row), never stored; applying it costs O(entries) a nonzero.
Claim    E (J a)·(J b) = a·b; the standard deviation is about √((‖a‖²‖b‖² + (a·b)²)/m).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats


@njit(cache=True)
def _hash(key: np.uint64, place: np.uint64) -> np.uint64:
    """64 mixed bits of (key, place): Stafford's finaliser of a Weyl sequence, twice."""
    z = key + (place + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z


@njit(cache=True)
def _spot(key: np.uint64, row: int, k: int, entries: int, stratum: int) -> tuple[int, float]:
    """Place and sign of nonzero k in the column of J that belongs to a row."""
    bits = _hash(key, np.uint64(row * entries + k))
    sign = 1.0 if bits & np.uint64(1) else -1.0
    return k * stratum + int((bits >> np.uint64(1)) % np.uint64(stratum)), sign


@njit(cache=True)
def sparse_sketch(key: np.uint64, entries: int, rows: NDArray[np.int64], values: Floats, out: Floats) -> None:
    """out = J a, for a column a with `values` at `rows`; out.size is a multiple of `entries`."""
    out[:] = 0.0
    weight = 1.0 / np.sqrt(entries)
    stratum = out.size // entries
    for i in range(rows.size):
        for k in range(entries):
            place, sign = _spot(key, rows[i], k, entries, stratum)
            out[place] += sign * weight * values[i]


@njit(cache=True)
def sparse_lift(key: np.uint64, entries: int, sketch: Floats, out: Floats) -> None:
    """out = Jᵀ sketch: one entry a row, unbiased and very noisy."""
    weight = 1.0 / np.sqrt(entries)
    stratum = sketch.size // entries
    for row in range(out.size):
        total = 0.0
        for k in range(entries):
            place, sign = _spot(key, row, k, entries, stratum)
            total += sign * sketch[place]
        out[row] = weight * total


def sketch_key(seed: bytes) -> np.uint64:
    """The key of a sparse sketch: the first eight bytes of a public seed."""
    return np.uint64(int.from_bytes(seed[:8], "little"))
