"""Integers packed at any width from 1 to 64 bits, least significant bit first.

The packed bytes, read as one little-endian integer, are the sum of value i times 2^(i·bits). The kernels move whole
64-bit words, and widths that are words of the machine are copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba import uint64 as u64
from numpy.typing import NDArray

MACHINE_WORDS = (8, 16, 32, 64)


@njit(cache=True)
def _pack(values, bits, mask, words):  # type: ignore[no-untyped-def]  # numba infers the types
    word, filled, at = u64(0), u64(0), 0
    for value in values:
        v = u64(value) & mask
        word |= v << filled
        filled += bits
        if filled >= u64(64):
            words[at] = word
            at += 1
            filled -= u64(64)
            word = v >> (bits - filled) if filled else u64(0)  # a shift by 64 would not be defined
    if filled:
        words[at] = word


@njit(cache=True)
def _unpack(words, bits, mask, out):  # type: ignore[no-untyped-def]  # numba infers the types
    for i in range(out.size):
        position = u64(i) * bits
        at, shift = position >> u64(6), position & u64(63)
        v = words[at] >> shift
        if shift + bits > u64(64):
            v |= words[at + u64(1)] << (u64(64) - shift)
        out[i] = v & mask


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` integers take at `bits` bits each."""
    return (count * bits + 7) // 8


def pack(values: NDArray[np.unsignedinteger[Any]], bits: int) -> NDArray[np.uint8]:
    """The low `bits` bits of every value, one after another."""
    if bits in MACHINE_WORDS:
        return values.astype(f"<u{bits // 8}").view(np.uint8)
    size = packed_size(values.size, bits)
    words = np.zeros((size + 7) // 8, np.uint64)
    _pack(values, np.uint64(bits), np.uint64((1 << bits) - 1), words)
    return words.astype("<u8", copy=False).view(np.uint8)[:size]


def unpack(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint64]:
    """The inverse of `pack`."""
    size = packed_size(count, bits)
    if bits in MACHINE_WORDS:
        return packed[:size].view(f"<u{bits // 8}").astype(np.uint64)
    words = np.zeros((size + 7) // 8, "<u8")
    words.view(np.uint8)[:size] = packed[:size]
    out = np.empty(count, np.uint64)
    _unpack(words.astype(np.uint64, copy=False), np.uint64(bits), np.uint64((1 << bits) - 1), out)
    return out
