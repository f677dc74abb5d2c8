"""Products of two parties' columns under plain learning with errors (LWE) modulo q = 2^bits: arrays in, arrays out.

Solves   XᵀY for integers X (n × s) at a sender and Y (n × t) at a receiver, column i of X times a scale Δᵢ.
Source   Regev, STOC 2005; its use with one public matrix for many columns is that of SimplePIR (Henzinger et al. 2023);
         the receiver's rows r and errors e₂ make its answer an encryption, too (Lindner and Peikert, CT-RSA 2011).
Public   A, (λ + n) × λ, uniform modulo q, grown from a public key in blocks of rows and never held whole.
Steps    sender     b = A·S + e + [0; X·diag(Δ)], S and e small; of the last n rows only the top bits travel
         receiver   W = Aᵀ[r; Y] + e₂ and B = bᵀ[r; Y], r and e₂ small
         sender     B - SᵀW = diag(Δ)·XᵀY + (e + d)ᵀY + e₀ᵀr - Sᵀe₂
Claim    the last line holds to the last bit modulo q: d is what rounding moved, e₀ are the first λ rows of e. Rounding
         is to the nearest, ties to even: for uniform b it has mean 0, where cutting bits off or always rounding ties up
         would add a multiple of the column sums of Y.
Leaves   nothing here: privacy/lattice.py draws S, e, r, e₂, and says what may leave:
         docs/understand/privacy/lwe.md.
Price    `python -m benchmarks lwe`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import int64 as i64
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.bits import pack, packed_size, unpack
from colonnade.kernels.ring import Ring
from colonnade.kernels.ring_products import cross

SMALL = 127  # entries of S and r are below this: 20 standard deviations, passed once in 10^80 draws
CHUNK = 256  # rows of A that are held at a time: as bytes and as floats they stay near a core
ROWS = 256  # rows that are multiplied at a time
FEWEST_ROWS = 32  # below it two products of halves of A cost less than one of so few rows
FEW = 8  # columns of a secret up to which machine words are multiplied as they are
EXACT_BITS = 53  # float64 sums of integers are exact up to 2^53
BUFFER = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class Lattice:
    """Public parameters: the modulus 2^bits, the length of a secret, and the sd of secrets and errors."""

    bits: int
    dimension: int
    sigma: Fraction = Fraction(32, 5)

    @property
    def ring(self) -> Ring:
        return Ring(self.bits)

    def public(self, key: bytes, first: int, count: int, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """Rows `first` to `first + count` of A, of which the first `dimension` carry no plaintext; in `out`, if given.

        Row i is bits/8 bytes an entry of an AES-256 counter stream under `key`, one row after another: first the low 32
        bits of all entries, then all that is above them, little-endian.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter, skip = divmod(first * self.row_bytes, 16)
        stream = Cipher(algorithms.AES256(key), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
        stream.update(BUFFER[:skip])
        out = np.empty(count * self.row_bytes, np.uint8) if out is None else out[: count * self.row_bytes]
        for at in range(0, out.size, len(BUFFER)):
            part = out[at : at + len(BUFFER)]
            stream.update_into(BUFFER[: part.size], part.data)
        return out.reshape(count, self.row_bytes)

    @property
    def row_bytes(self) -> int:
        """Of one row of A: a whole number of AES blocks, for each line of the table."""
        return self.dimension * self.bits // 8

    def split(self, stream: NDArray[np.uint8]) -> tuple[Integers, Integers]:
        """The low 32 bits of every entry of some rows of A, and all above them: together numbers from -q/2 on."""
        low = stream[:, : 4 * self.dimension].view("<u4")
        if self.bits == 32:
            return low.view("<i4"), NO_BITS
        above = stream[:, 4 * self.dimension :].view("<i1" if self.bits == 40 else "<i2")
        return np.ascontiguousarray(low), np.ascontiguousarray(above)  # kernels read rows without gaps in vectors


NO_BITS = np.zeros((0, 0), np.int8)


@njit(cache=True, nogil=True)
def _lift(words, above, low_bits, low, high):  # type: ignore[no-untyped-def]  # numba infers the types
    """words + 2^32·above, with `low_bits` as low + 2^low_bits·high: all three as near to zero as they can be."""
    step = 2.0**low_bits
    part = 2.0**-low_bits
    for i in range(words.shape[0]):
        row = words[i]
        out = low[i]
        if above.size:
            upper = above[i]
            for j in range(row.size):
                out[j] = i64(row[j]) + (i64(upper[j]) << 32)
        else:
            for j in range(row.size):
                out[j] = row[j]
        if low_bits:
            rest = high[i]
            for j in range(row.size):
                rest[j] = np.rint(out[j] * part)
                out[j] -= rest[j] * step


@njit(cache=True, nogil=True)
def _add_shifted(sums, shift, total):  # type: ignore[no-untyped-def]  # numba infers the types
    """total += 2^shift·sums, of whole numbers."""
    for i in range(total.shape[0]):
        row = total[i]
        more = sums[i]
        for j in range(row.size):
            row[j] += i64(more[j]) << shift


@njit(cache=True, nogil=True)
def _times_few(words, above, columns, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """(words + 2^32·above) times each of a few columns, modulo 2^64, in machine words."""
    for i in range(words.shape[0]):
        row = words[i]
        for k in range(columns.shape[0]):
            column = columns[k]
            total = i64(0)
            if above.size:
                upper = above[i]
                for j in range(row.size):
                    total += (i64(row[j]) + (i64(upper[j]) << 32)) * column[j]
            else:
                for j in range(row.size):
                    total += i64(row[j]) * column[j]
            out[i, k] = total


class Room:
    """Where rows of A are made and become floats: for one thread, used again for the next rows."""

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self._stream = np.empty(0, np.uint8)
        self._parts = [np.empty((0, lattice.dimension))] * 2

    def public(self, key: bytes, first: int, count: int) -> NDArray[np.uint8]:
        """`Lattice.public`, until the next call."""
        if self._stream.size < count * self.lattice.row_bytes:
            self._stream = np.empty(count * self.lattice.row_bytes, np.uint8)
        return self.lattice.public(key, first, count, self._stream)

    def lifted(self, stream: NDArray[np.uint8], parts: int) -> list[tuple[Floats, int]]:
        """Rows of A as floats and the power of two that they stand before: in one part, or in two of half the bits."""
        for k in range(parts):
            if len(self._parts[k]) < len(stream):
                self._parts[k] = np.empty((len(stream), self.lattice.dimension))
        low, high = (part[: len(stream)] for part in (self._parts[0], self._parts[parts - 1]))
        half = 0 if parts == 1 else self.lattice.bits // 2
        _lift(*self.lattice.split(stream), half, low, high)
        return [(low, 0)] if parts == 1 else [(low, 0), (high, half)]


def rows_at_once(lattice: Lattice, bound: int, parts: int) -> int:
    """Of how many rows sums of products are exact: those of A in so many parts, times entries within a bound."""
    return (1 << EXACT_BITS) // (max(1, bound) << (lattice.bits // parts - 1))


def times_secret(
    public: NDArray[np.uint8], secret: Integers, lattice: Lattice, room: Room | None = None
) -> NDArray[np.uint64]:
    """A·S modulo 2^64, to the last bit."""
    total = np.zeros((len(public), secret.shape[1]), np.int64)
    if secret.shape[1] <= FEW:
        _times_few(*lattice.split(public), np.ascontiguousarray(secret.T, np.int64), total)
        return total.view(np.uint64)
    most = int(np.abs(secret).sum(axis=0).max(initial=1))  # sums of products are at most 2^(bits-1) times this
    small = secret.astype(np.float64)
    parts = 1 if rows_at_once(lattice, most, 1) else 2
    for part, shift in (room or Room(lattice)).lifted(public, parts):
        total += (part @ small).astype(np.int64) << shift
    return total.view(np.uint64)


class PublicProduct:
    """Aᵀ·rows modulo 2^64, some rows at a time, for rows with |entry| ≤ bound, a public limit that the caller keeps."""

    def __init__(self, lattice: Lattice, columns: int, bound: int) -> None:
        self.room = Room(lattice)
        self._parts = 1 if rows_at_once(lattice, bound, 1) >= FEWEST_ROWS else 2
        self._size = max(1, min(ROWS, rows_at_once(lattice, bound, self._parts)))
        self._total = np.zeros((columns, lattice.dimension), np.int64)
        self._sums = np.empty(self._total.shape)

    def add(self, rows: Integers, public: NDArray[np.uint8]) -> None:
        lifted = self.room.lifted(public, self._parts)
        for first in range(0, len(rows), self._size):
            own = rows[first : first + self._size].astype(np.float64).T
            for part, shift in lifted:
                np.matmul(own, part[first : first + self._size], out=self._sums)
                _add_shifted(self._sums, shift, self._total)

    @property
    def total(self) -> NDArray[np.uint64]:
        return self._total.view(np.uint64).T


def times_public(rows: Integers, public: NDArray[np.uint8], bound: int, lattice: Lattice) -> NDArray[np.uint64]:
    """The same of all rows at once."""
    product = PublicProduct(lattice, rows.shape[1], bound)
    product.add(rows, public)
    return product.total


def hide(
    public: NDArray[np.uint8],
    secret: Integers,
    error: Integers,
    scaled: Integers | None,
    lattice: Lattice,
    room: Room | None = None,
) -> NDArray[np.uint64]:
    """Some rows of b, as they are before rounding; `scaled` has the rows of X·diag(Δ), None for the first ones."""
    hidden = times_secret(public, secret, lattice, room) + error.astype(np.uint64)
    if scaled is not None:
        hidden += scaled.astype(np.uint64)
    return np.asarray(hidden & np.uint64(lattice.ring.mask))


def top_bits(values: NDArray[np.uint64], cut: int, lattice: Lattice) -> NDArray[np.uint64]:
    """The values in units of 2^cut, to the nearest, ties to even; modulo q."""
    if not cut:
        return values
    step = np.uint64(cut)
    odd = (values >> step) & np.uint64(1)
    near = (values + np.uint64((1 << (cut - 1)) - 1) + odd) >> step
    return np.asarray(near & np.uint64((1 << (lattice.bits - cut)) - 1))


def pack_hidden(values: NDArray[np.uint64], cut: int, lattice: Lattice) -> bytes:
    """Rows of b as they travel: the top bits of every entry."""
    return pack(top_bits(values, cut, lattice).ravel(), lattice.bits - cut).tobytes()


def hidden_size(entries: int, cut: int, lattice: Lattice) -> int:
    """Bytes that so many entries of b take."""
    return packed_size(entries, lattice.bits - cut)


def unpack_hidden(packed: bytes, columns: int, cut: int, lattice: Lattice, rows: int) -> NDArray[np.uint64]:
    """The inverse: entries are whole multiples of 2^cut."""
    top = unpack(np.frombuffer(packed, np.uint8), rows * columns, lattice.bits - cut)
    return np.asarray(top.reshape(rows, columns) << np.uint64(cut))


def inner(rows: Integers, other: Integers, bound: int, lattice: Lattice) -> Integers:
    """otherᵀ·rows modulo q, for rows with |entry| ≤ bound, a public limit that the caller keeps."""
    ring = np.full(rows.shape[1], lattice.bits), np.full(other.shape[1], lattice.bits)
    return np.ascontiguousarray(cross(rows, other, *ring, bound_a=max(1, bound)).T)


def open_answer(secret: Integers, blind: Integers, answer: Integers, lattice: Lattice) -> NDArray[np.int64]:
    """B - SᵀW: the number of each entry that is nearest to zero."""
    mixed = inner(secret, blind, SMALL, lattice).T
    return lattice.ring.signed((answer.astype(np.uint64) - mixed) & np.uint64(lattice.ring.mask))
