"""Exact products of tall matrices of integers, each column in a ring of its own, at the speed of BLAS.

Claim    `cross` is aᵀb, entry (i, j) modulo 2^min(wᵢ, wⱼ), and `gram` is aᵀa, to the last bit, whatever the row blocks
         and the machine.
Why      float64 sums of products are exact up to 2^53, float32 ones up to 2^24. An integer is replaced by the residue
         of its ring that is nearest to zero; a column of a whose residues are too long for that is multiplied as
         x = x₀ + 2^h·x₁, both parts in one product (`Cut`). A few columns beside many: machine words wrap at 2^32, and
         no residue is needed. Wider rings: kernels/ring.py.
Leaves   nothing.
Price    `python -m benchmarks ring`. Memory beside arguments and result: a second result, `FLOAT_ROWS` rows of floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numba import int64 as i64
from numba import njit
from numba import uint32 as u32
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.bits import PackedRows, unpack_rows
from colonnade.kernels.ring import STEP, Ring, as_integers, lifted, product, too_large

EXACT_BITS = 53  # float64 sums of integers are exact up to 2^53
SINGLE_BITS = 24  # and float32 ones up to 2^24
FLOAT_ROWS = 512  # rows of floats multiplied at a time: two blocks of some hundred columns stay in a core's cache
FEWEST_ROWS = 128  # shorter blocks than this are no work for BLAS
FLOAT_BITS = 23  # two residues of so many bits: 2^22 · 2^22 · 512 rows = 2^53
PARALLEL = 1 << 24  # multiplications from which a second thread pays
THIN = 4  # columns of one operand up to which words are multiplied as they are


def cross(a: Integers, b: Integers, bits_a: Integers, bits_b: Integers, *, bound_a: int | None = None) -> Integers:
    """aᵀb with a ring for each column: entry (i, j) is modulo 2^min(bits_a[i], bits_b[j]), as uint64.

    An integer and its ring element mean the same. `bound_a` is a public limit of |entry| of a, which the caller keeps.
    """
    return _cross(a, b, bits_a, bits_b, bound_a) & ring_masks(bits_a, bits_b)


def _cross(a: Integers, b: Integers, bits_a: Integers, bits_b: Integers, bound_a: int | None = None) -> Integers:
    out = np.zeros((a.shape[1], b.shape[1]), np.int64)
    if not (a.size and b.size):
        return out.view(np.uint64)
    bits_a, bits_b = np.minimum(bits_a, bits_b.max()), np.minimum(bits_b, bits_a.max())  # no product needs more
    if is_thin(bits_a, bits_b):
        _add_thin(a, b, out) if a.shape[1] <= b.shape[1] else _add_thin(b, a, out.T)
    elif (cut := Cut.of(bits_a, bits_b, bound_a)) is not None:
        x = np.empty((cut.rows, a.shape[1]))
        y = np.empty((cut.rows, b.shape[1]))
        for rows in cut.blocks(len(a)):
            count = rows.stop - rows.start
            residues(a[rows], bits_a, x)
            residues(b[rows], bits_b, y)
            cut.add(x[:count], 0, y[:count], out)
    else:
        return _wide_cross(a, b, bits_a, bits_b)
    return out.view(np.uint64)


def _wide_cross(a: Integers, b: Integers, bits_a: Integers, bits_b: Integers) -> Integers:
    """Where one of two columns is narrow their product is needed modulo its few bits only; others in machine words."""
    out = np.empty((a.shape[1], b.shape[1]), np.uint64)
    few_a = np.minimum(bits_a, FLOAT_BITS)
    few_b = np.minimum(bits_b, FLOAT_BITS)
    narrow = np.flatnonzero(bits_a <= FLOAT_BITS)
    wide = np.flatnonzero(bits_a > FLOAT_BITS)
    narrow_b = np.flatnonzero(bits_b <= FLOAT_BITS)
    wide_b = np.flatnonzero(bits_b > FLOAT_BITS)
    out[narrow] = _cross(a[:, narrow], b, few_a[narrow], few_b)
    out[np.ix_(wide, narrow_b)] = _cross(a[:, wide], b[:, narrow_b], few_a[wide], few_b[narrow_b])
    out[np.ix_(wide, wide_b)] = _parallel_product(a[:, wide], b[:, wide_b])
    return out


def _parallel_product(a: Integers, b: Integers) -> Integers:
    """`product` modulo 2^64, on both halves of a's columns at once: the kernels let go of the interpreter."""
    if a.size * b.shape[1] < PARALLEL:
        return product(a, b, Ring(64))
    halves = np.array_split(np.arange(a.shape[1]), 2)
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda half: product(a[:, half], b, Ring(64)), halves))
    return np.concatenate(parts)


def ring_masks(bits_a: Integers, bits_b: Integers) -> NDArray[np.uint64]:
    """2^min(bits_a[i], bits_b[j]) − 1 for every two columns."""
    low = np.minimum.outer(bits_a, bits_b).astype(np.uint64)
    return np.uint64(2**64 - 1) >> (np.uint64(64) - low)


def is_thin(bits_a: Integers, bits_b: Integers) -> bool:
    """Whether words of 32 bits are multiplied as they are: few columns of one operand, and no ring wider."""
    widest = max(int(bits_a.max(initial=1)), int(bits_b.max(initial=1)))
    return widest <= 32 and min(bits_a.size, bits_b.size) <= THIN


@dataclass(frozen=True)
class Cut:
    """How residues of a are cut, and how many rows are multiplied at a time, so that no sum passes 2^53."""

    rows: int
    half: int  # x = x₀ + 2^half·x₁
    split: Integers  # the columns of a that are multiplied in two parts
    shape: tuple[int, int]  # columns of a and b

    @staticmethod
    def of(bits_a: Integers, bits_b: Integers, bound_a: int | None = None) -> Cut | None:
        """The one with the fewest parts, and then the most rows; None where rings are too wide."""
        far = int(bits_b.max(initial=1)) - 1  # entries of b are at most 2^far
        reach = bits_a - 1 if bound_a is None else np.minimum(bits_a - 1, bound_a.bit_length())
        best = None
        for rows in (FLOAT_ROWS, FLOAT_ROWS // 2, FEWEST_ROWS):
            room = EXACT_BITS - far - (rows.bit_length() - 1)
            split = np.flatnonzero(reach > room)
            half = -(-(int(reach[split].max(initial=-1)) + 1) // 2)  # both parts are at most 2^(half - 1)
            if half - 1 <= room and (best is None or split.size < best.split.size):
                best = Cut(rows, half, split, (bits_a.size, bits_b.size))
        return best

    def blocks(self, count: int) -> Iterator[slice]:
        """Of so many rows, those that are multiplied at a time."""
        return (slice(first, min(first + self.rows, count)) for first in range(0, count, self.rows))

    @cached_property
    def _room(self) -> tuple[Floats, Floats]:
        s, t = self.shape
        parts = s + self.split.size
        return np.empty((self.rows if self.split.size else 0, parts)), np.empty((parts, t))

    def add(self, a: Floats, left: int, b: Floats, total: NDArray[np.int64]) -> None:
        """total += aᵀb modulo 2^64, of residues, for the columns of a from `left` on: not more rows than `rows`."""
        x, sums = self._room
        if self.split.size:
            _in_parts(a, left, self.split, self.half, x, self.shape[0])
            x = x[: len(a)]
        else:
            x = a[:, left : left + self.shape[0]]
        np.matmul(x.T, b, out=sums)
        _add_whole(sums, self.split, self.half, total)


def residues(values: Integers, bits: Integers, out: Floats, left: int = 0, mask: Integers | None = None) -> None:
    """The low bits of every entry of values, or of values + mask, as the number nearest to zero that has them: in the
    first rows of `out`, in its columns from `left` on."""
    if mask is None:
        _near_zero(values, 64 - bits, out, left)
    else:
        _near_zero_masked(values, mask, 64 - bits, out, left)


def gram(a: Integers, *, bound: int) -> NDArray[np.int64]:
    """aᵀa exactly, for integers a (rows x s) with |entry| <= bound, a public limit.

    Float matrix products of row blocks so short that no sum is rounded: exact, and at the speed of BLAS.
    """
    a = as_integers(a)
    whole = Ring(64)
    if a.ndim != 2 or bound < 1:
        raise InvalidInput(
            f"no Gram matrix of {a.shape} with a bound of {bound}; it takes a matrix and a bound from 1 on"
        )
    if a.shape[0] * bound**2 >= 1 << 62:
        raise InvalidInput(
            f"{a.shape[0]:,} rows of entries up to {bound} may sum to {a.shape[0] * bound**2:.3g}, and exact sums stay "
            "below 2^62; quantise on a coarser grid"
        )
    single = (1 << SINGLE_BITS) // bound**2 >= FEWEST_ROWS
    rows = min((1 << (SINGLE_BITS if single else EXACT_BITS)) // bound**2, FLOAT_ROWS)
    if rows < STEP:  # entries too large for floats to pay
        return product(a, a, whole, bound_a=bound, bound_b=bound).view(np.int64)
    rows = max(1, min(rows, a.shape[0]))
    kind: Any = np.float32 if single else np.float64
    out = np.zeros((a.shape[1], a.shape[1]), np.int64)
    sums = np.empty((a.shape[1], a.shape[1]), kind)
    room = np.empty((rows, a.shape[1]), kind)
    for start in range(0, a.shape[0], rows):
        part = lifted(a[start : start + rows], whole)
        block = room[: len(part)]
        if _as_floats(part, bound, block):
            raise too_large(bound)
        np.matmul(block.T, block, out=sums)
        _add_whole(sums, NOTHING, 0, out)
    return out


NOTHING = np.zeros(0, np.int64)


# ---------------------------------------------------------------------------------------------------- kernels


@njit(cache=True, nogil=True)
def _near_zero(values, unused, out, left):  # type: ignore[no-untyped-def]  # numba infers the types
    """Every entry without its highest `unused` bits, as the number nearest to zero that has the others."""
    for i in range(values.shape[0]):
        row = values[i]
        near = out[i, left : left + unused.size]
        for j in range(unused.size):
            near[j] = (i64(row[j]) << unused[j]) >> unused[j]


@njit(cache=True, nogil=True)
def _near_zero_masked(values, mask, unused, out, left):  # type: ignore[no-untyped-def]  # numba infers the types
    """The same of values + mask."""
    for i in range(values.shape[0]):
        row = values[i]
        other = mask[i]
        near = out[i, left : left + unused.size]
        for j in range(unused.size):
            near[j] = ((i64(row[j]) + i64(other[j])) << unused[j]) >> unused[j]


@njit(cache=True, nogil=True)
def _in_parts(near, left, split, half, out, s):  # type: ignore[no-untyped-def]  # numba infers the types
    """Residues of s columns, those in `split` as x₀ + 2^half·x₁, each nearest to zero too: all x₁ behind all others."""
    k = split.size
    step = 2.0**half
    part = 2.0**-half
    for i in range(near.shape[0]):
        row = near[i, left : left + s]
        lower = out[i, :s]
        upper = out[i, s : s + k]
        if k == s:  # in vectors: a loop for each part, since both are written to one array
            for j in range(s):
                upper[j] = np.rint(row[j] * part)
            for j in range(s):
                lower[j] = row[j] - np.rint(row[j] * part) * step
        else:
            lower[:] = row
            for q in range(k):
                upper[q] = np.rint(row[split[q]] * part)
                lower[split[q]] -= upper[q] * step


@njit(cache=True, nogil=True)
def _add_whole(sums, split, half, total):  # type: ignore[no-untyped-def]  # numba infers the types
    """total += sums, of whole numbers; and 2^half times the sums of the second parts, which are the last rows."""
    s = total.shape[0]
    for i in range(s):
        for j in range(total.shape[1]):
            total[i, j] += i64(sums[i, j])
    for q in range(split.size):
        for j in range(total.shape[1]):
            total[split[q], j] += i64(sums[s + q, j]) << half


@njit(cache=True, nogil=True)
def _as_floats(values, bound, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """The entries as floats; returns how many are over the bound."""
    over = 0
    for i in range(values.shape[0]):
        row = values[i]
        real = out[i]
        for j in range(row.size):
            over += (row[j] > bound) | (row[j] < -bound)
            real[j] = row[j]
    return over


@njit(cache=True, nogil=True)
def _add_thin(few, many, total):  # type: ignore[no-untyped-def]  # numba infers the types
    """total += fewᵀ·many modulo 2^32, four rows at a time."""
    n, t = many.shape
    sums = np.zeros(t, np.uint32)
    for k in range(few.shape[1]):
        sums[:] = 0
        for r in range(0, n - n % 4, 4):
            x0 = u32(few[r, k])
            x1 = u32(few[r + 1, k])
            x2 = u32(few[r + 2, k])
            x3 = u32(few[r + 3, k])
            y0 = many[r]
            y1 = many[r + 1]
            y2 = many[r + 2]
            y3 = many[r + 3]
            for j in range(t):
                sums[j] += u32(x0 * u32(y0[j])) + u32(x1 * u32(y1[j])) + u32(x2 * u32(y2[j])) + u32(x3 * u32(y3[j]))
        for r in range(n - n % 4, n):
            x0 = u32(few[r, k])
            y0 = many[r]
            for j in range(t):
                sums[j] += u32(x0 * u32(y0[j]))
        for j in range(t):
            total[k, j] += i64(sums[j])


# ------------------------------------------------------------------------------------------------ side by side


Pair = tuple[str, str]
NO_COLUMNS = np.zeros(0, np.int64)


class Mask(Protocol):
    """One-time masks of a tall matrix, a few rows at a time."""

    @property
    def bits(self) -> Integers:
        """Of the ring of each column."""
        ...

    def rows(self, first: int, count: int) -> Integers: ...


class Side:
    """Products of a tall matrix with the masks of others, which lie side by side, a few rows at a time."""

    def __init__(self, masks: Sequence[Mask], bits: Integers) -> None:
        self.masks = masks
        self.bits = bits
        self._theirs = np.concatenate([NO_COLUMNS, *(mask.bits for mask in masks)])
        self._ends = np.cumsum([mask.bits.size for mask in masks], dtype=int).tolist()
        self._total = np.zeros((bits.size, self._theirs.size), np.int64)
        self._room = np.empty((FLOAT_ROWS, bits.size)), np.empty((FLOAT_ROWS, self._theirs.size))
        self._cuts: dict[bool, Cut | None] = {}

    @property
    def totals(self) -> list[Integers]:
        """Of each mask, where its products are added up."""
        return [self._total[:, end - mask.bits.size : end] for mask, end in zip(self.masks, self._ends, strict=True)]

    def add(self, first: int, rows: Integers, own: Integers | None, bound: int) -> None:
        """The products of rows whose public bound is given, or of rows under their own mask."""
        known = own is None
        if known not in self._cuts:
            thin = is_thin(self.bits, self._theirs)
            self._cuts[known] = None if thin else Cut.of(self.bits, self._theirs, bound if known else None)
        if (cut := self._cuts[known]) is None:
            left = rows if own is None else np.add(rows, own, dtype=own.dtype, casting="unsafe")
            for mask, total in zip(self.masks, self.totals, strict=True):
                theirs = mask.rows(first, len(rows))
                total += cross(left, theirs, self.bits, mask.bits, bound_a=bound if known else None).view(np.int64)
            return
        x, y = self._room
        for block in cut.blocks(len(rows)):
            count = block.stop - block.start
            residues(rows[block], self.bits, x, mask=None if own is None else own[block])
            for mask, end in zip(self.masks, self._ends, strict=True):
                residues(mask.rows(first + block.start, count), mask.bits, y, end - mask.bits.size)
            cut.add(x[:count], 0, y[:count], self._total)


class First:
    """The first of some pairs of matrices: its columns times those of the others, which lie side by side."""

    def __init__(
        self, pairs: Sequence[Pair], bits: Mapping[str, Integers], party: str, ends: Mapping[str, int]
    ) -> None:
        others = [other for first, other in pairs if first == party]
        begin = ends[others[0]] - bits[others[0]].size
        end = ends[others[-1]]
        self._left = ends[party] - bits[party].size
        self._span = slice(begin, end)
        theirs = np.concatenate([bits[name] for name, last in ends.items() if begin < last <= end])
        self._total = np.zeros((bits[party].size, end - begin), np.int64)
        self.totals: dict[Pair, Integers] = {  # of each pair, where its products are added up
            (party, other): self._total.view(np.uint64)[:, ends[other] - bits[other].size - begin : ends[other] - begin]
            for other in others
        }
        self.cut = None if is_thin(bits[party], theirs) else Cut.of(bits[party], theirs)

    def add(self, residues: Floats) -> None:
        """A few rows of all parties."""
        assert self.cut is not None
        self.cut.add(residues, self._left, residues[:, self._span], self._total)


class PairProducts:
    """Products of pairs of tall matrices, added up as their rows come, packed and a block at a time."""

    def __init__(self, bits: Mapping[str, Integers], pairs: Sequence[Pair]) -> None:
        self._bits = bits
        names = [name for name in bits if any(name in pair for pair in pairs)]
        self._ends = dict(zip(names, np.cumsum([bits[name].size for name in names]).tolist(), strict=True))
        self._firsts = [First(pairs, bits, name, self._ends) for name in dict(pairs)]
        self.totals = {pair: total for first in self._firsts for pair, total in first.totals.items()}
        cuts = [first.cut for first in self._firsts]
        self._as_residues = None not in cuts
        at_once = min((cut.rows for cut in cuts if cut is not None), default=0)
        self._room = np.empty((at_once, max(self._ends.values(), default=0)))

    def add(self, came: Mapping[str, bytes], count: int) -> None:
        """So many rows of everybody; of whoever is missing they are zeros."""
        bits = self._bits
        if not self._as_residues:
            words = {name: unpack_rows(packed, count, bits[name]) for name, packed in came.items()}
            for (k, m), total in self.totals.items():
                if k in words and m in words:
                    total += cross(words[k], words[m], bits[k], bits[m])
            return
        packed_rows = {name: PackedRows(packed, count, bits[name]) for name, packed in came.items()}
        at_once = len(self._room)
        for begin in range(0, count, at_once):
            part = self._room[: min(at_once, count - begin)]
            for name, end in self._ends.items():
                if name in packed_rows:
                    packed_rows[name].residues(begin, part, end - bits[name].size)
                else:
                    part[:, end - bits[name].size : end] = 0.0
            for first in self._firsts:
                first.add(part)
