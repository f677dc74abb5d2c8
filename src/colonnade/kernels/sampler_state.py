"""What the exact sampler keeps: light and heavy columns, their table, and where a run stands.

Claim    nothing here draws; `samplers` does, and says what light, heavy, hot and cool columns are.
Source   ours.
Leaves   nothing: the state of a run holds its data and its stream.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels import coins, envelopes
from colonnade.kernels import score_bounds as table
from colonnade.kernels.arrays import Csc, Floats, Indices
from colonnade.kernels.column_scores import BLOCK, all_slopes
from colonnade.kernels.envelopes import Bends
from colonnade.kernels.score_bounds import Law, Rows, Ties
from colonnade.kernels.sparse_fw import LossCode
from colonnade.kernels.stream import Stream

# counters
EVALUATIONS, REBUILDS, SNAPSHOTS, VIOLATIONS, HEAVY, WORK, PASSES, COUNTERS = range(8)
# envelopes in all, all light ones, each cool one, all when they were made, the one that an open coin is against
ALL, LIGHT, COOL_EACH, AT_REBUILD, AGAINST, TOTALS = range(6)
# where things stand, in whole numbers; KNOWN: the slopes at hand are this step's; READ: heavy nonzeros in this step
HOT_COUNT, LOOKED, COOL, REJECTIONS, LAST_REBUILD, STALE, PULLED, KNOWN, READ = range(9)
# of the pick under way: its number, how far it is (below), the column, the head of the coin
ROUND, STAGE, COLUMN, HEAD, WHOLES = range(9, 14)
# and in others; WASTED and SPENT: work on rejected proposals, since the last envelopes and since the last snapshot
REF, SIZE, LENGTH, WASTED, SPENT, SNAPSHOT_COST, LAST_JUMPS = range(7)
COOL_TOP, BEND_SUM, BEND_TOP, FAR, RENEWED, LAST_READ = range(7, 13)
# CHANCE: of a light column, over cosh(cα); ALPHA: cα of the column; DOUBT: see `coins`
CHANCE, ALPHA, DOUBT, REALS = range(13, 17)
# stages of a pick; a column or a sign is OPEN where its coin waits for exact arithmetic
PROPOSING, ACCEPTED, SIGNED, OPEN_COLUMN, OPEN_SIGN = range(5)


class Light(NamedTuple):
    """The light columns."""

    nnz: int  # nonzeros that one has at most
    unit: float  # what one of them can add to c times a score
    envelope: float
    total: float  # of their envelopes


class Sampler(NamedTuple):
    """All that the sampler keeps, as one argument of its kernels."""

    csc: Csc
    law: Law
    rows: Rows
    ties: Ties
    light: Light
    which: Indices  # heavy columns, and their table
    heavy: Floats
    ceiling: Floats
    hot: Indices  # places in the table, and their envelopes, summed in groups of 2^shift
    envelope: NDArray[np.uint64]
    groups: NDArray[np.uint64]
    shift: int
    clock: Floats
    pace: Floats
    horizon: Floats
    far_horizon: Floats
    now: Floats
    sums: Floats
    scratch: Floats
    block: Floats
    totals: NDArray[np.uint64]
    wholes: Indices
    reals: Floats
    counts: Indices
    stream: Stream


def make_sampler(csc: Csc, y: Floats, law: Law, stream: Stream) -> Sampler:
    """Light and heavy columns before the first pick; heavy ones that could outweigh the light ones are seen."""
    n = y.size
    d = csc[2].size - 1
    rows = Rows(np.column_stack([np.zeros(n), y]), y, np.zeros(n), np.empty(n), np.empty(n), np.empty(n))
    clock = np.zeros(table.CLOCKS + 1)
    sums = np.zeros(table.SUMS)
    counts = np.zeros(COUNTERS, dtype=np.int64)
    clock[table.AGE] = 1.0 / law.radius
    bends = all_slopes(law.loss, law.limit, y, rows.pairs, law.radius, rows.v, rows.slope, rows.lean)
    unit = law.c * law.bound * law.cap * (1.0 + table.SLACK)
    envelope = envelopes.small_cosh(envelopes.THETA) * envelopes.MARGIN
    light = Light(int(min(envelopes.THETA / unit, float(n))), unit, envelope, d * envelope)
    which = envelopes.heavy_columns(csc[2], light.nnz)
    count = which.size
    room = n if law.loss == LossCode.LOGISTIC and count > 0 else 0
    slopes = np.zeros((room, table.TIES), np.float32)
    recent = np.zeros(table.RECENT, np.int64)
    ties = Ties(np.full(table.TIES, -1), np.zeros(room), np.zeros(room), slopes, recent, np.zeros(table.RECENT))
    heavy = np.zeros((count, table.WIDTH))
    eager = max(envelopes.EAGER, math.log(0.25 * light.total / max(count, 1)))
    counts[HEAVY] = count
    counts[WORK] = _start_heavy(csc, which, unit, eager, rows, bends, law, clock, heavy)
    shift = 6
    while (1 << (2 * shift)) < count:
        shift += 1
    totals = np.zeros(TOTALS, np.uint64)
    wholes = np.zeros(WHOLES, np.int64)
    reals = np.zeros(REALS)
    totals[[ALL, LIGHT, AT_REBUILD]] = 2**60  # all columns light: no envelopes, no first draw
    wholes[[HOT_COUNT, LOOKED]] = count
    wholes[KNOWN] = 1
    reals[[REF, SIZE, LENGTH, FAR]] = 0.0, 2.0**60 / light.total, envelopes.FIRST_HORIZON, 40.0
    reals[[CHANCE, DOUBT]] = 1.0 / envelope, coins.DOUBT
    reals[SNAPSHOT_COST] = math.inf
    reals[[BEND_SUM, BEND_TOP]] = bends
    return Sampler(
        csc, law, rows, ties, light,
        which, heavy, envelopes.ceilings(heavy, law.c),
        np.arange(count), np.zeros(count, np.uint64), np.zeros((count >> shift) + 1, np.uint64), shift,
        clock, np.zeros(table.CLOCKS), np.full(table.CLOCKS + 1, -1.0), np.full(table.CLOCKS + 1, -1.0),
        np.full(table.NOW, -1.0), sums,
        np.empty(count), np.empty((4, BLOCK)), totals, wholes, reals, counts, stream,
    )  # fmt: skip


@njit(cache=True)
def _start_heavy(
    csc: Csc,
    which: Indices,
    unit: float,
    eager: float,
    rows: Rows,
    bends: Bends,
    law: Law,
    clock: Floats,
    heavy: Floats,
) -> Any:
    """Fills the table of heavy columns; those that could weigh exp(eager) are seen at once. Returns nonzeros read."""
    indptr = csc[2]
    read = 0
    for j in range(which.size):
        k = which[j]
        nnz = indptr[k + 1] - indptr[k]
        heavy[j, table.PAD] = nnz * (law.grid + 2.0**-48 * law.bound * law.cap)
        heavy[j, table.STAMP + table.AGE] = law.radius
        if unit * nnz > eager:
            table.measure(csc, k, rows.y.size, law, j, heavy)
            envelopes.see_column(csc, k, j, rows, bends, law, clock, heavy)
            heavy[j, table.CAP] = min(
                heavy[j, table.CAP], heavy[j, table.NORM] * law.reach + abs(heavy[j, table.SCORE])
            )
            heavy[j, table.SNAPSHOT] = heavy[j, table.SCORE]
            read += nnz
        else:
            table.assume(nnz, law, j, heavy)
    return read
