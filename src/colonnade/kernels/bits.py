"""Integers packed at any width from 1 to 64 bits, least significant bit first."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def _pack(values, bits, out):  # type: ignore[no-untyped-def]  # numba infers the types
    position = 0
    for value in values:
        left, v = bits, value
        while left > 0:
            shift = position & 7
            take = min(8 - shift, left)
            out[position >> 3] |= np.uint8((v & np.uint64((1 << take) - 1)) << np.uint64(shift))
            v >>= np.uint64(take)
            position += take
            left -= take


@njit(cache=True)
def _unpack(packed, bits, out):  # type: ignore[no-untyped-def]  # numba infers the types
    position = 0
    for i in range(out.size):
        got, v = 0, np.uint64(0)
        while got < bits:
            shift = position & 7
            take = min(8 - shift, bits - got)
            piece = (np.uint64(packed[position >> 3]) >> np.uint64(shift)) & np.uint64((1 << take) - 1)
            v |= piece << np.uint64(got)
            position += take
            got += take
        out[i] = v


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` integers take at `bits` bits each."""
    return (count * bits + 7) // 8


def pack(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint8]:
    """The low `bits` bits of every value, one after another."""
    out = np.zeros(packed_size(values.size, bits), np.uint8)
    _pack(values, bits, out)
    return out


def unpack(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint64]:
    """The inverse of `pack`."""
    out = np.empty(count, np.uint64)
    _unpack(packed, bits, out)
    return out
