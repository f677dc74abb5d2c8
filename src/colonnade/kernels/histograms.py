"""Where numbers lie, told by counts over cells that are public: first their range, then their quantiles.

Grid      signed half octaves ±[2^(j/2), 2^((j+1)/2)), j from -40 to 80, and a cell for zero. What lies nearer to zero
          counts as zero, what lies beyond counts in the cell at the end: every number has a cell, by itself alone.
Range     from the lowest to the highest cell whose noisy count is over a threshold.
Quantiles of 64 equal cells inside the range the noisy counts add up to a distribution function. Cells are equal on the
          scale of the numbers, or of sign(x)·log2(1 + |x|/unit) where they span over three octaves on one side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from colonnade.kernels.arrays import Floats, Integers

FIRST = -40  # of the half octaves
LAST = 80
EDGES = np.exp2(np.arange(FIRST, LAST + 2) / 2.0)  # where they meet, of one sign
HALF = LAST - FIRST + 1  # cells of one sign
CELLS = 2 * HALF + 1  # of both, and the one of zero between them
PARTS = 64  # of a range
OCTAVES = 3.0  # that a range spans on one side before its cells are equal in logarithms
SPREAD = 0.01  # of all rows that are spread evenly, so that the distribution function rises everywhere
TAIL = 0.005  # of the rows that lie beyond each bound


def cells_of(x: Floats) -> Integers:
    """The cell of each number, from left to right; numbers may be infinite, and none may be NaN."""
    octave = np.searchsorted(EDGES, np.abs(x), side="right")  # 0: zero
    return np.asarray(HALF + np.sign(x).astype(np.int64) * np.minimum(octave, HALF))


def counts(x: Floats) -> Integers:
    """How many numbers each cell holds."""
    return np.bincount(cells_of(x), minlength=CELLS).astype(np.int64)


class Range(NamedTuple):
    """Where the cells lie that hold enough numbers."""

    low: float
    high: float
    unit: float  # of logarithms; 0: cells are equal on the scale of the numbers

    def scaled(self, x: Floats) -> Floats:
        """Numbers on the scale on which cells are equal."""
        if not self.unit:
            return x
        return np.asarray(np.sign(x) * np.log2(1.0 + np.abs(x) / self.unit))

    def unscaled(self, s: Floats) -> Floats:
        """The inverse of `scaled`."""
        if not self.unit:
            return s
        return np.asarray(np.sign(s) * self.unit * (np.exp2(np.abs(s)) - 1.0))

    def part_counts(self, x: Floats) -> Integers:
        """How many numbers lie in each of its equal parts; what lies outside counts in the one at the end."""
        low, high = self.scaled(np.array([self.low, self.high]))
        part = np.floor((self.scaled(np.clip(x, self.low, self.high)) - low) / (high - low) * PARTS)
        return np.bincount(np.clip(part, 0, PARTS - 1).astype(np.int64), minlength=PARTS).astype(np.int64)


def range_of(noisy: Integers, threshold: float) -> Range | None:
    """From the lowest to the highest cell over the threshold; None: there is none, or zero alone."""
    there = np.flatnonzero(noisy > threshold)
    if not there.size or (there == HALF).all():
        return None
    ends = np.concatenate([-EDGES[::-1], EDGES])  # of the cell of zero, too: it stands between -EDGES[0] and EDGES[0]
    low = 0.0 if there[0] == HALF else float(ends[there[0]])
    high = 0.0 if there[-1] == HALF else float(ends[there[-1] + 1])
    sides = (there[there > HALF], there[there < HALF])
    long = any(side.size and side[-1] - side[0] + 1 > 2 * OCTAVES for side in sides)
    nearest = min(int(np.abs(side - HALF).min()) for side in sides if side.size)
    return Range(low, high, float(EDGES[nearest - 1]) if long else 0.0)


def quantiles(found: Range, noisy: Integers, sigma: float, inner: int) -> Floats:
    """The least value, between which values equally many rows lie, and the largest; rising, by noisy counts of parts.

    The ends cut off TAIL of the rows each. So that all quantiles differ, SPREAD of the rows count as spread evenly.
    """
    held = np.where(noisy < sigma, 0, noisy).astype(np.float64)
    held = held / held.sum() if held.any() else np.full(PARTS, 1.0 / PARTS)
    low, high = found.scaled(np.array([found.low, found.high]))
    ends = low + (high - low) * np.arange(PARTS + 1) / PARTS
    rises = np.concatenate([[0.0], np.cumsum(held)])
    first, last = np.interp([TAIL, 1.0 - TAIL], rises / rises[-1], ends)
    even = (1.0 - SPREAD) * rises / rises[-1] + SPREAD * np.arange(PARTS + 1) / PARTS
    start, stop = np.interp([first, last], ends, even)
    shares = np.linspace(start, stop, inner + 2)[1:-1]
    between = np.concatenate([[first], np.interp(shares, even, ends), [last]])
    return np.clip(found.unscaled(between), found.low, found.high)


def threshold(sigma: float, columns: int, chance: float) -> float:
    """What no empty cell of so many columns, that of missing cells included, reaches but with this chance in all."""
    return sigma * math.sqrt(2.0 * math.log(2.0 * (CELLS + 1) * columns / chance))
