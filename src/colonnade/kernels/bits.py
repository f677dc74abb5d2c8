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


@njit(cache=True, nogil=True)
def _pack_rows(values, mask, bits, words):  # type: ignore[no-untyped-def]  # numba infers the types
    """Every row of `values + mask`, column j in its low bits[j] bits."""
    word, filled, at = u64(0), u64(0), 0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            width = u64(bits[j])
            v = (u64(values[i, j]) + u64(mask[i, j])) & (u64(0xFFFFFFFFFFFFFFFF) >> (u64(64) - width))
            word |= v << filled
            filled += width
            if filled >= u64(64):
                words[at] = word
                at += 1
                filled -= u64(64)
                word = v >> (width - filled) if filled else u64(0)  # a shift by 64 would not be defined
    if filled:
        words[at] = word


@njit(cache=True, nogil=True)
def _unpack_rows(words, first, bits, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """Rows from bit `first` on, in vectors: where an entry lies is known before the others are read."""
    offset, low, total = np.empty(bits.size, np.uint64), np.empty(bits.size, np.uint64), u64(0)
    for j in range(bits.size):
        offset[j], low[j] = total, u64(0xFFFFFFFFFFFFFFFF) >> (u64(64) - u64(bits[j]))
        total += u64(bits[j])
    for i in range(out.shape[0]):
        row, start = out[i], u64(first) + u64(i) * total
        for j in range(bits.size):
            position = start + offset[j]
            at, shift = position >> u64(6), position & u64(63)
            # In two shifts, since one by 64 would not be defined; there is a word to spare at the end.
            row[j] = ((words[at] >> shift) | ((words[at + u64(1)] << (u64(63) - shift)) << u64(1))) & low[j]


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


def rows_size(rows: int, bits: NDArray[np.int64]) -> int:
    """Bytes of so many rows whose column j takes bits[j] bits."""
    return packed_size(rows * int(bits.sum()), 1)


def pack_rows(values: NDArray[Any], mask: NDArray[Any], bits: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Rows of `values + mask`, column j modulo 2^bits[j], one entry after another."""
    size = rows_size(len(values), bits)
    words = np.zeros((size + 7) // 8, np.uint64)
    _pack_rows(values, mask, bits, words)
    return words.astype("<u8", copy=False).view(np.uint8)[:size]


def unpack_rows(
    packed: bytes, rows: int, bits: NDArray[np.int64], out: NDArray[np.unsignedinteger[Any]] | None = None
) -> NDArray[np.unsignedinteger[Any]]:
    """The inverse of `pack_rows`: entries modulo 2^bits[j], in an array of their own or in `out`."""
    size, a_row = rows_size(rows, bits), int(bits.sum())
    if out is None:
        out = np.empty((rows, bits.size), np.uint32 if bits.max(initial=1) <= 32 else np.uint64)
    # Where they lie, but for the last rows: behind these there is no word to spare, so they are copied.
    words = np.frombuffer(packed, "<u8", size // 8)
    most = min(rows, 64 * max(0, words.size - 1) // max(1, a_row))
    _unpack_rows(words.astype(np.uint64, copy=False), 0, bits, out[:most])
    begin = most * a_row // 64
    rest = np.zeros(size // 8 - begin + 2, "<u8")
    rest.view(np.uint8)[: size - 8 * begin] = np.frombuffer(packed, np.uint8, size - 8 * begin, 8 * begin)
    rest.setflags(write=False)  # as the others are: one kernel for both
    _unpack_rows(rest.astype(np.uint64, copy=False), most * a_row % 64, bits, out[most:])
    return out
