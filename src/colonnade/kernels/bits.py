"""Integers packed at any width from 1 to 64 bits, least significant bit first.

The packed bytes, read as one little-endian integer, are the sum of value i times 2^(i·bits). The kernels move whole
64-bit words, and widths that are words of the machine are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import int64 as i64
from numba import njit
from numba import uint64 as u64
from numpy.typing import NDArray

MACHINE_WORDS = (8, 16, 32, 64)


@njit(cache=True)
def _pack(values, bits, mask, words):  # type: ignore[no-untyped-def]  # numba infers the types
    word = u64(0)
    filled = u64(0)
    at = 0
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
        at = position >> u64(6)
        shift = position & u64(63)
        v = words[at] >> shift
        if shift + bits > u64(64):
            v |= words[at + u64(1)] << (u64(64) - shift)
        out[i] = v & mask


@njit(cache=True, nogil=True)
def _pack_rows(values, mask, bits, words):  # type: ignore[no-untyped-def]  # numba infers the types
    """Every row of `values + mask`, column j in its low bits[j] bits."""
    word = u64(0)
    filled = u64(0)
    at = 0
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
    offset = np.empty(bits.size, np.uint64)
    low = np.empty(bits.size, np.uint64)
    total = u64(0)
    for j in range(bits.size):
        offset[j] = total
        low[j] = u64(0xFFFFFFFFFFFFFFFF) >> (u64(64) - u64(bits[j]))
        total += u64(bits[j])
    for i in range(out.shape[0]):
        row = out[i]
        start = u64(first) + u64(i) * total
        for j in range(bits.size):
            position = start + offset[j]
            at = position >> u64(6)
            shift = position & u64(63)
            # In two shifts, since one by 64 would not be defined; there is a word to spare at the end.
            row[j] = ((words[at] >> shift) | ((words[at + u64(1)] << (u64(63) - shift)) << u64(1))) & low[j]


@njit(cache=True, nogil=True)
def _unpack_residues(words, first, bits, out, left):  # type: ignore[no-untyped-def]  # numba infers the types
    """The same as floats, each the residue nearest to zero, in the columns of `out` from `left` on."""
    offset = np.empty(bits.size, np.uint64)
    unused = np.empty(bits.size, np.int64)
    total = u64(0)
    for j in range(bits.size):
        offset[j] = total
        unused[j] = 64 - bits[j]
        total += u64(bits[j])
    for i in range(out.shape[0]):
        row = out[i, left : left + bits.size]
        start = u64(first) + u64(i) * total
        for j in range(bits.size):
            position = start + offset[j]
            at = position >> u64(6)
            shift = position & u64(63)
            word = (words[at] >> shift) | ((words[at + u64(1)] << (u64(63) - shift)) << u64(1))
            row[j] = (i64(word) << unused[j]) >> unused[j]


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
    words = np.empty((size + 7) // 8, np.uint64)
    _pack_rows(values, mask, bits, words)
    return words.astype("<u8", copy=False).view(np.uint8)[:size]


class PackedRows:
    """What `pack_rows` made, to be read a few rows at a time."""

    def __init__(self, packed: bytes, rows: int, bits: NDArray[np.int64]) -> None:
        size = rows_size(rows, bits)
        self._a_row = int(bits.sum())
        self._bits = bits
        # Where they lie, but for the last rows: behind these there is no word to spare, so they are copied.
        words = np.frombuffer(packed, "<u8", size // 8)
        self._most = min(rows, 64 * max(0, words.size - 1) // max(1, self._a_row))
        self._begin = self._most * self._a_row // 64
        rest = np.zeros(size // 8 - self._begin + 2, "<u8")
        tail = size - 8 * self._begin
        rest.view(np.uint8)[:tail] = np.frombuffer(packed, np.uint8, tail, 8 * self._begin)
        rest.setflags(write=False)  # as the others are: one kernel for both
        self._words = words.astype(np.uint64, copy=False)
        self._rest = rest.astype(np.uint64, copy=False)

    def words(self, first: int, out: NDArray[np.unsignedinteger[Any]]) -> None:
        """Rows from `first` on, as many as `out` has, modulo 2^bits[j]."""
        for words, bit, here in self._where(first, len(out)):
            _unpack_rows(words, bit, self._bits, out[here])

    def residues(self, first: int, out: NDArray[np.float64], left: int) -> None:
        """The same as the residues nearest to zero, in the columns of `out` from `left` on."""
        for words, bit, here in self._where(first, len(out)):
            _unpack_residues(words, bit, self._bits, out[here], left)

    def _where(self, first: int, rows: int) -> Iterator[tuple[NDArray[np.uint64], int, slice]]:
        """The words and the bit in them where those rows begin, and which of the rows they are."""
        direct = min(max(0, self._most - first), rows)
        if direct:
            yield self._words, first * self._a_row, slice(0, direct)
        if direct < rows:
            yield self._rest, (first + direct) * self._a_row - 64 * self._begin, slice(direct, rows)


def unpack_rows(packed: bytes, rows: int, bits: NDArray[np.int64]) -> NDArray[np.unsignedinteger[Any]]:
    """The inverse of `pack_rows`: entries modulo 2^bits[j]."""
    out = np.empty((rows, bits.size), np.uint32 if bits.max(initial=1) <= 32 else np.uint64)
    PackedRows(packed, rows, bits).words(0, out)
    return out
