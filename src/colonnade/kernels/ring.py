"""Integers modulo 2^w: rows put on a grid, exact products of tall matrices, and masks that grow from a seed.

Claim    `whole_rows`: row r becomes round((a - centre)·factor), every entry within its bounds; and if its squares, each
         times the square of its column's unit, sum to more than `norm2`, it is shortened toward zero until they do not.
         Row by row and in this order, so that no row tells about another; the last check is in integers.
         `product` is aᵀb modulo 2^w, to the last bit, whatever the row blocks and the machine; kernels/ring_products.py
         has faster ones for rings of up to 32 bits.
Why      machine words wrap at 2^64, which 2^w divides, so x·y = x₀y₀ + 2^32 (x₀y₁ + x₁y₀) modulo 2^64 with 32-bit
         halves, and no sum is ever rounded. A public bound below 2^31 on an operand, added to it, leaves no upper half
         to multiply.
Leaves   nothing. A key and the mask grown from it are secrets; one key and label must mask one matrix only.
Price    `python -m benchmarks ring`. Memory beside arguments and result: a second result, `ROWS` rows of the operands.

Mask layout: word i·columns + j of the stream, little-endian, 4 bytes up to w = 32 and 8 above, cut to its low w bits,
is entry (i, j). The stream is AES-256 in counter mode from a counter of zero, under the key
HMAC-SHA256(key, "colonnade ring mask" ‖ w as 1 byte ‖ columns as 8 bytes, little-endian ‖ label).
Labels enter through the key, not the counter: streams of two labels cannot overlap.
"""

from __future__ import annotations

import hmac
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Integers

ROWS = 256  # rows multiplied at a time: two blocks of some hundred columns stay in a core's cache
STEP = 8  # rows a kernel takes in one pass: as many multipliers as fit in registers
LANES = 8  # columns of b are padded to whole vectors, so that none is left to a slow remainder loop
TILE = 256  # rows and columns of the result that stay in cache while a block of rows passes
NARROW = 1 << 31  # with a bound below this, entry + bound fits in 32 bits
AES_BLOCK = 16
CHUNK = bytes(1 << 16)


# ---------------------------------------------------------------------------------------------------- the ring


@dataclass(frozen=True, slots=True)
class Ring:
    """The integers modulo 2^bits, held as the smaller of uint32 and uint64 that they fit in."""

    bits: int

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 64:
            raise InvalidInput(f"a ring of {self.bits} bits; use 8 to 64, of which up to 32 are the fastest")

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint32 if self.bits <= 32 else np.uint64)

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def reduce(self, values: Integers) -> Integers:
        """Integers of any sign, as ring elements."""
        return self._cut(as_integers(values).astype(self.dtype))

    def signed(self, elements: Integers) -> NDArray[np.int64]:
        """The int64 of each ring element that is nearest to zero: from -2^(bits-1) to 2^(bits-1) - 1."""
        unused = 64 - self.bits
        high = as_integers(elements).astype(np.uint64) << np.uint64(unused)
        lifted: NDArray[np.int64] = high.view(np.int64) >> np.int64(unused)
        return lifted

    def add(self, a: Integers, b: Integers) -> Integers:
        return self._cut(np.add(as_integers(a), as_integers(b), dtype=self.dtype, casting="unsafe"))

    def subtract(self, a: Integers, b: Integers) -> Integers:
        return self._cut(np.subtract(as_integers(a), as_integers(b), dtype=self.dtype, casting="unsafe"))

    def _cut(self, words: Integers) -> Integers:
        """Drops the bits above the ring's, in place."""
        if self.bits < 8 * self.dtype.itemsize:
            words &= self.dtype.type(self.mask)
        return words


def as_integers(values: Any) -> Any:
    """The array, unless it holds anything else."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"ring arithmetic takes integers, got {array.dtype}; round to whole grid steps first")
    return array


# ---------------------------------------------------------------------------------------------------- masks


class MaskStream:
    """The mask of `key` and `label` from a row on: uniform ring elements, a few rows at a time."""

    def __init__(self, key: bytes, label: bytes, first_row: int, columns: int, ring: Ring) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        if len(key) != 32:
            raise InvalidInput(f"a mask grows from a key of 32 bytes, got {len(key)}; draw one with os.urandom(32)")
        # `row` is the next one
        self.row = first_row
        self._columns = columns
        self._ring = ring
        shape = bytes([ring.bits]) + columns.to_bytes(8, "little")
        stream_key = hmac.digest(key, b"colonnade ring mask" + shape + label, "sha256")
        counter, skip = divmod(first_row * columns * ring.dtype.itemsize, AES_BLOCK)
        self._stream = Cipher(algorithms.AES256(stream_key), modes.CTR(counter.to_bytes(AES_BLOCK, "big"))).encryptor()
        self._stream.update(CHUNK[:skip])

    def next(self, rows: int) -> Integers:
        """The next rows of the mask."""
        self.row += rows
        out = np.empty((rows, self._columns), self._ring.dtype.newbyteorder("<"))
        target = out.reshape(-1).view(np.uint8)
        for at in range(0, target.size, len(CHUNK)):
            part = target[at : at + len(CHUNK)]
            self._stream.update_into(CHUNK[: part.size], part.data)
        return self._ring._cut(out.astype(self._ring.dtype, copy=False))


def uniform(key: bytes, label: bytes, first_row: int, rows: int, columns: int, ring: Ring) -> Integers:
    """Rows first_row to first_row + rows of the mask of `key` and `label`: uniform ring elements, repeatable.

    Any block of rows is made by itself and equals that slice of the whole.
    """
    if min(first_row, rows, columns) < 0:
        raise InvalidInput(f"no mask has {rows} rows from row {first_row} on and {columns} columns; count from 0")
    return MaskStream(key, label, first_row, columns, ring).next(rows)


# ---------------------------------------------------------------------------------------------------- products


def product(
    a: Integers, b: Integers, ring: Ring, *, bound_a: int | None = None, bound_b: int | None = None
) -> Integers:
    """aᵀb modulo 2^bits, for integers a (rows x s) and b (rows x t).

    An integer and its ring element mean the same. A bound is a public limit of |entry| after the centred lift; it is
    checked, and below 2^31 it saves multiplications.
    """
    a = as_integers(a)
    b = as_integers(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[0]:
        raise InvalidInput(f"no product of {a.shape} and {b.shape}; it takes two matrices with the same rows")
    for bound in (bound_a, bound_b):
        if bound is not None and not 1 <= bound <= 1 << (ring.bits - 1):
            raise InvalidInput(
                f"a bound of {bound} in a ring of {ring.bits} bits; a bound is at least 1 and at most 2^{ring.bits - 1}"
            )
    return ring._cut(_product64(a, b, ring, bound_a, bound_b).astype(ring.dtype))


def _product64(a: Integers, b: Integers, ring: Ring, bound_a: int | None, bound_b: int | None) -> Integers:
    """With x = a + alpha and y = b + beta: aᵀb = xᵀy − alpha·1ᵀy − beta·xᵀ1 + rows·alpha·beta."""
    alpha, beta = (bound if bound is not None and bound < NARROW else 0 for bound in (bound_a, bound_b))
    # lower and upper halves
    x0 = _buffer(a, 1)
    x1 = _buffer(a, 1)
    y0 = _buffer(b, LANES)
    y1 = _buffer(b, LANES)
    low = np.zeros((x0.shape[1], y0.shape[1]), np.uint64)
    high = np.zeros(low.shape, np.uint32)
    sum_x = np.zeros(a.shape[1], np.uint64)
    sum_y = np.zeros(b.shape[1], np.uint64)
    for start in range(0, a.shape[0], ROWS):
        x = _shifted(_bounded(a[start : start + ROWS], bound_a, ring), alpha)
        y = _shifted(_bounded(b[start : start + ROWS], bound_b, ring), beta)
        _fill(x0, x)
        _fill(y0, y)
        _add_products(x0, y0, low)
        if alpha:  # x has no upper half
            sum_y += y.sum(axis=0)
        else:
            _fill(x1, x >> np.uint64(32))
            _add_products(x1, y0, high)
        if beta:
            sum_x += x.sum(axis=0)
        else:
            _fill(y1, y >> np.uint64(32))
            _add_products(x0, y1, high)
    low += high.astype(np.uint64) << np.uint64(32)
    out: Integers = low[:, : b.shape[1]] - np.uint64(alpha) * sum_y - np.uint64(beta) * sum_x[:, None]
    out += np.uint64(a.shape[0] * alpha * beta % (1 << 64))
    return out


# ---------------------------------------------------------------------------------------------------- blocks of rows


def _bounded(block: Integers, bound: int | None, ring: Ring) -> Integers:
    """The block, lifted and checked if there is a bound."""
    if bound is None:
        return block
    signed = lifted(block, ring)
    if signed.size and (int(signed.max()) > bound or int(signed.min()) < -bound):
        raise too_large(bound)
    return signed


def lifted(block: Integers, ring: Ring) -> Integers:
    """A block with the signs of its entries."""
    return block if block.dtype.kind == "i" and 8 * block.itemsize <= ring.bits else ring.signed(block)


def too_large(bound: int) -> InvalidInput:
    """Names the bound only: entries are private."""
    return InvalidInput(f"an entry is larger than the public bound {bound}; clip to the bound before multiplying")


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _buffer(matrix: Integers, unit: int) -> NDArray[np.uint32]:
    """Room for `ROWS` rows of the matrix, or for all if they are fewer, and for columns in whole units."""
    rows, columns = matrix.shape
    return np.zeros((min(ROWS, _padded(rows, STEP)), _padded(columns, unit)), np.uint32)


def _shifted(block: Integers, shift: int) -> NDArray[np.uint64]:
    words = block.astype(np.uint64, copy=False)
    return words + np.uint64(shift) if shift else words


def _fill(buffer: Integers, block: Integers) -> None:
    """The block modulo 2^32 into the corner of the buffer; rows and columns around it stay zero."""
    rows, columns = block.shape
    np.copyto(buffer[:rows, :columns], block, casting="unsafe")
    buffer[rows:] = 0


# ---------------------------------------------------------------------------------------------------- kernels


@njit(cache=True, nogil=True)
def _add_products(x, y, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out += xᵀy modulo 2^32 or 2^64, as wide as out, for uint32 and rows in eights.

    Numba multiplies in 64 bits, and the compiler narrows that for a uint32 out. Eight multipliers wait in registers for
    a row of out.
    """
    n, s = x.shape
    t = y.shape[1]
    for left in range(0, s, TILE):
        for top in range(0, t, TILE):
            end = min(top + TILE, t)
            for r in range(0, n, 8):
                y0 = y[r, top:end]
                y1 = y[r + 1, top:end]
                y2 = y[r + 2, top:end]
                y3 = y[r + 3, top:end]
                y4 = y[r + 4, top:end]
                y5 = y[r + 5, top:end]
                y6 = y[r + 6, top:end]
                y7 = y[r + 7, top:end]
                for i in range(left, min(left + TILE, s)):
                    x0 = x[r, i]
                    x1 = x[r + 1, i]
                    x2 = x[r + 2, i]
                    x3 = x[r + 3, i]
                    x4 = x[r + 4, i]
                    x5 = x[r + 5, i]
                    x6 = x[r + 6, i]
                    x7 = x[r + 7, i]
                    c = out[i, top:end]
                    for j in range(c.size):
                        first = x0 * y0[j] + x1 * y1[j] + x2 * y2[j] + x3 * y3[j]
                        c[j] += first + x4 * y4[j] + x5 * y5[j] + x6 * y6[j] + x7 * y7[j]


# ---------------------------------------------------------------------------------------------------- rows on a grid


@njit(cache=True, nogil=True)
def whole_rows(values, keep, centre, factor, low, high, unit, most, toward, largest, norm2, out):  # type: ignore[no-untyped-def]  # numba
    """`out` gets the rows of `values[:, keep]` on the grid; returns how many were over the bound.

    A cell that is no number counts as zero, one over `largest` as that: whatever it holds, all that follows is finite.
    `most` is ⌊√norm2⌋ in units; doubles hold `low` and `high`. Entries of columns with `toward` are cut toward zero
    instead of rounded. The caller makes sure that columns · norm2 < 2^63: squares of entries within that cannot wrap
    and look short.
    """
    width = keep.size
    shortened = 0
    least = low.astype(np.float64)
    highest = high.astype(np.float64)
    longest = most.astype(np.float64)
    straight = width > 0 and (keep == keep[0] + np.arange(width)).all()
    inside = ((least >= -longest) & (highest <= longest)).all()  # no entry is over the bound of rows by itself
    picked = np.empty(width)
    steps = np.empty(width)
    for r in range(values.shape[0]):
        if straight:  # read where they lie
            cells = values[r, keep[0] : keep[0] + width]
        else:
            for j in range(width):
                picked[j] = values[r, keep[j]]
            cells = picked
        far = 0
        squares = 0
        row = out[r]
        for j in range(width):  # in vectors: choices instead of branches, few arrays in a loop
            cell = cells[j]
            cell = 0.0 if math.isnan(cell) else cell
            cell = largest if cell > largest else cell
            cell = -largest if cell < -largest else cell
            real = (cell - centre[j]) * factor[j]
            real = np.trunc(real) if toward[j] else np.rint(real)
            real = least[j] if real < least[j] else real
            steps[j] = highest[j] if real > highest[j] else real
        if not inside:
            for j in range(width):
                real = steps[j]
                far += (real > longest[j]) | (real < -longest[j])
                real = longest[j] if real > longest[j] else real
                steps[j] = -longest[j] if real < -longest[j] else real
        for j in range(width):
            whole = np.int64(steps[j])
            row[j] = whole
            squares += (whole * unit[j]) * (whole * unit[j])
        if far or squares > norm2:
            shortened += 1
        part = math.sqrt(norm2 / max(squares, 1))
        while squares > norm2:
            total = 0
            for j in range(width):
                total += (np.int64(out[r, j] * part) * unit[j]) ** 2  # cut toward zero
            if total <= norm2:
                for j in range(width):
                    out[r, j] = np.int64(out[r, j] * part)
                squares = total
            part *= 1.0 - 2.0**-40  # a hair of rounding is left; try again
    return shortened


@njit(cache=True, nogil=True)
def add_squares(rows, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[j] += the sum of squares of column j."""
    for r in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[j] += np.int64(rows[r, j]) * np.int64(rows[r, j])


@njit(cache=True, nogil=True)
def add_products(rows, weights, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out += rowsᵀ·weights, for a few columns of weights."""
    for r in range(rows.shape[0]):
        for k in range(weights.shape[1]):
            weight = np.int64(weights[r, k])
            for j in range(rows.shape[1]):
                out[j, k] += np.int64(rows[r, j]) * weight
