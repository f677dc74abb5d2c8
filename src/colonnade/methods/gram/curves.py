"""Curves in Private Gram: how deep, how heavy in a row, and how much of them a release bears out.

Basis    kernels/curves.py: a number's block [t, hats] is never longer than the number at its bound. Rows as they are
         thus cost no more privacy with hats than without. Centred rows do: their length is what columns vary by.
Depth    N = u·d says how many columns' Gram survives the noise (rule.py), L of them lines, c of them open to curves.
         N < L, or N < 36 (numbers: 100): lines. Else depth 1; depth k where L + c·k ≤ N/3 and all columns are N/2 or
         fewer, L + c·(2^k - 1), up to 4.
Weight   in centred rows a hat of level l weighs W·2^-((l-1)/2): all levels of a curve weigh the same, c·W² columns
         each. W = 1 where L and hats together count as N/3 columns or fewer, and hats as N²/1000 (numbers: N²/8000);
         else as much less as it takes, but hats may always count as a quarter of that, up to .15·L columns. So lines
         hardly pay for curves, and hats fade in as the budget grows.
Support  the released Gram is solved with lines only, and with hats that weigh ½ or 1, fading from level to level by 0,
         ½ or 1: a lighter hat is a stronger prior that there is no bend. The one that explains most of the label is
         taken, less what its noise has learnt, if it explains more than lines do by 1 sd of the noise of that
         difference (numbers: 2.5, since a wrong bend costs more where much is explained), and at most 1.1 times what
         there is to explain. Post-processing: free.
Chosen   N/3, .15, 1 and 2 sds, and ½, by looking at credit-default (whole and 3,000 rows), nhanes-diabetes, flights
         (30,000 rows) and 21 tables from generators: straight, bent, skewed, with rare classes, of 442 to 60,000 rows
         (benchmarks/curves.py). At N/2 straight tables lost up to .01 of AUC at epsilon 1, at N/4 bent ones gained a
         third less. With 327,000 flights depth 4 gained .001 on depth 3; elsewhere it gained and lost nothing.
         N²/1000 and 2.5 sds on the straight tables of benchmarks/battery.py, whose `price` prints what noise that is
         1 + h times as large costs lines: at most about 1.2·h·L/N^1.7 of AUC, so that h·L = N²/4000 costs .0007
         at N = 15 and .0016 at 256; with numbers more of R² where nearly all is explained, hence N²/8000: at N²/2000
         the battery's close table with heavy tails lost .07 at epsilon 1. Where .15·L was always allowed,
         500 rows lost .017 of AUC. 36 and 100: below, tables of the battery lost more than .003 of AUC or .01 of R²
         (500 rows at epsilon 4, N = 35; numbers of 2,000 rows at epsilon 4, N = 88), and few gained.
         1.1: at 1.0 noise alone put bends that explain nearly all beyond it in one run of twenty (6,000 rows of |x| at
         epsilon 2), and lines explain nothing of those; at 1.05 to 1.2 five tables of the battery did not change.
Leaves   nothing: arguments are public (schemas, rows, rho) or were released before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from colonnade.kernels.arrays import Floats, Indices
from colonnade.problem.cone import Block, blocks_of

ROOM = 3.0  # N over the columns that lines and hats together count as
ALWAYS = 0.15  # of the lines: as many columns hats may count in any case, and no more than
FEWEST = {True: 36.0, False: 100.0}  # N, for classes and for numbers
CARE = {True: 1000.0, False: 8000.0}  # N² over four times this, for classes and for numbers
MOST = 2.0  # N over all columns, each counted once
DEEPEST = 4  # that is chosen unasked
FADES = ((0.5, 0.0), (1.0, 0.0), (0.5, 0.5), (1.0, 0.5), (0.5, 1.0), (1.0, 1.0))  # of level 1, and from level to level
PROOF = {True: 1.0, False: 2.5}  # sds of its noise by which bends must explain more, for classes and for numbers
BEYOND = 1.1  # of the label's variance: bends that seem to explain more than this are noise


@dataclass(frozen=True)
class Curves:
    """What a solve should know of columns that are curves."""

    level: Indices  # (d,) of a hat, 1, 2, …; 0: no hat
    monotone: Indices | None = None  # (d,) 1 or -1 where a number never falls or rises, its hats behind it; else 0
    choose: bool = True  # whether only as much is made of hats, and of scores of numbers, as the release bears out

    def of(self, keep: Indices) -> Curves:
        """Of some columns."""
        return replace(self, level=self.level[keep], monotone=None if self.monotone is None else self.monotone[keep])

    def unbroken(self, keep: Indices) -> Indices:
        """Which of the kept columns may be used: of a number that has a direction it must be kept itself, and all hats
        of a level and of those before it, or nothing would say when it is monotone."""
        kept = np.isin(np.arange(self.level.size), keep)
        usable = np.ones(self.level.size, bool)
        for at, _ in self.blocks():
            lost = self.level[at[~kept[at]]]
            usable[at[self.level[at] >= lost.min(initial=self.level.size)]] = False
        return np.flatnonzero(usable[keep])

    def blocks(self) -> list[Block]:
        """Those that have a direction."""
        return [] if self.monotone is None else blocks_of(self.level, self.monotone)

    @property
    def doubt(self) -> str | None:
        """Why standard errors would not cover; None: not for curves."""
        if self.choose and self.level.any():
            return (
                "curves are as bent as the release bears out, which these errors leave out; smooth = false keeps lines"
            )
        return "curves were kept monotone, which these errors leave out" if self.blocks() else None


def choose_depth(surviving: float, lines: int, left_open: Sequence[int], classes: bool) -> int:
    """The depth of curves that are left to the method; `left_open`: how many columns may have depth 1, 2, …"""
    if not left_open or surviving < max(lines, FEWEST[classes]):
        return 0
    depth, heavy, columns = 1, lines + left_open[0], lines + left_open[0]
    for k, more in enumerate(left_open[1:DEEPEST], 2):
        heavy, columns = heavy + more, columns + (more << (k - 1))
        if heavy > surviving / ROOM or columns > surviving / MOST:
            break
        depth = k
    return depth


def weigh(surviving: float, level: Indices, classes: bool) -> Floats:
    """What each column weighs in centred rows, where labels are classes or numbers."""
    hats, lines = level > 0, int(np.count_nonzero(level == 0))
    relative = np.where(hats, np.exp2(-(level - 1.0) / 2.0), 0.0)
    spare = surviving**2 / CARE[classes]
    room = max(min(surviving / ROOM - lines, spare), min(ALWAYS * lines, spare / 4.0))
    most = math.sqrt(room / max(float(np.square(relative).sum()), 1e-300))
    return np.where(hats, min(1.0, most) * relative, 1.0)


def candidates(level: Indices) -> Iterator[Floats]:
    """What hats may weigh in a solve beside what they weigh in the rows, lines only first; 0: they are left out."""
    deepest, seen = int(level.max(initial=0)), set[tuple[float, ...]]()
    for first, fade in ((0.0, 0.0), *FADES):
        by_level = (1.0, *(first * fade ** (k - 1) for k in range(1, deepest + 1)))
        if by_level not in seen:
            seen.add(by_level)
            yield np.array(by_level)[level]
