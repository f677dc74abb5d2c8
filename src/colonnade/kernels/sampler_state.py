"""What the exact sampler keeps: light and heavy columns, envelopes above their weights, and where a run stands.

Claim    nothing here draws; `samplers` does, and says what light, heavy, hot and cool columns are. An envelope, a whole
         number, is never below the weight that it stands for until its horizon has passed (`score_bounds`).
Source   ours.
Leaves   nothing: the state of a run holds its data and its stream.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from colonnade.kernels import coins
from colonnade.kernels import score_bounds as table
from colonnade.kernels.arrays import Array, Csc, Floats, Indices
from colonnade.kernels.column_scores import BLOCK, all_slopes, score_from_slopes, two_full_sums
from colonnade.kernels.score_bounds import Law, Rows, Ties, log_bound, log_bounds, measure, note
from colonnade.kernels.sparse_fw import LossCode, exp_negative
from colonnade.kernels.stream import Stream

MARGIN = 1.0 + 2.0**-40  # far above the few ulps by which two calls of exp may disagree about which is larger

THETA = 0.5  # a column is light if c·|its score| can never exceed this: one envelope serves all of them
EAGER = 3.0  # heavy columns that could weigh exp(3), and a fair share of the light ones, are seen before the first pick
COOL_SHARE = 4.6  # cool columns together weigh exp(-4.6) = 1 % of the total
NEEDED = 4.0  # columns that may weigh exp(-4) of the total are seen in a snapshot: others are seldom proposed
CUT = 44.0  # exp(-44) of the largest envelope is below the one unit that every envelope has: 2^62·exp(-44) < 1
FIRST_HORIZON = 4.0  # steps that the first envelopes are made to last
LARGEST_TOTAL = 2.0**61

Bends = tuple[float, float]  # of all rows: their sum, the largest


@njit(inline="always")
def _note(x: int, total: int, trend: float, bends: Bends, law: Law, clock: Floats, heavy: Floats) -> None:
    bend = min(heavy[x, table.TOP] * bends[0], heavy[x, table.NORM] * bends[1])
    note(x, total * law.grid, trend, bend, clock, heavy)


@njit(cache=True)
def see_column(csc: Csc, k: int, x: int, rows: Rows, bends: Bends, law: Law, clock: Floats, heavy: Floats) -> None:
    """The score of column k, in place x of the table, from the slopes of all rows."""
    data, indices, indptr = csc
    full = heavy[x, table.FULL] == 1.0
    steps = 1.0 / law.grid
    total, trend = score_from_slopes(
        data, indices, indptr[k], indptr[k + 1], full, rows.slope, rows.lean, law.bound, steps
    )
    _note(x, total, trend, bends, law, clock, heavy)


@njit(cache=True)
def _keep(csc: Csc, k: int, x: int, law: Law, ties: Ties, clock: Floats, heavy: Floats) -> Any:
    """What was just seen, as part of a new snapshot; returns c times its size."""
    if ties.columns[0] >= 0:
        table.follow(csc, k, x, law, ties, clock[table.EPOCH], heavy)
    heavy[x, table.SNAPSHOT] = heavy[x, table.SCORE]
    heavy[x, table.TAKEN] = clock[table.EPOCH]
    return law.c * abs(heavy[x, table.SCORE])


@njit(cache=True)
def see_needed(
    csc: Csc,
    which: Indices,
    ceiling: Floats,
    least: float,
    rows: Rows,
    ties: Ties,
    bends: Bends,
    law: Law,
    clock: Floats,
    now: Floats,
    heavy: Floats,
) -> Any:
    """A new snapshot: scores of all columns that may matter beside the largest that it finds.

    least: what the logarithm of all weights is at least. Returns the nonzeros read and the columns looked at.
    """
    data, _, indptr = csc
    n = rows.y.size
    read = 0
    x = 0
    first = -1
    # with ties a snapshot lasts long, and columns that are not in it have none
    share = math.log(which.size) + COOL_SHARE if ties.columns[0] >= 0 else NEEDED
    while x < which.size and ceiling[x] >= least - share:
        if log_bound(heavy, x, now, now, law.c) >= least - share:
            k = which[x]
            read += indptr[k + 1] - indptr[k]
            if heavy[x, table.MEASURED] == 0.0:
                measure(csc, k, n, law, x, heavy)
            if heavy[x, table.FULL] == 0.0:
                see_column(csc, k, x, rows, bends, law, clock, heavy)
                least = max(least, _keep(csc, k, x, law, ties, clock, heavy))
            elif first < 0:
                first = x  # waits for another one: two full columns are read in little more time than one
            else:
                other = which[first]
                a = data[indptr[other] : indptr[other] + n]
                b = data[indptr[k] : indptr[k] + n]
                sums = two_full_sums(a, b, rows.slope, rows.lean, law.bound, 1.0 / law.grid)
                _note(first, sums[0], sums[1], bends, law, clock, heavy)
                _note(x, sums[2], sums[3], bends, law, clock, heavy)
                least = max(least, _keep(csc, other, first, law, ties, clock, heavy))
                least = max(least, _keep(csc, k, x, law, ties, clock, heavy))
                first = -1
        x += 1
    if first >= 0:
        see_column(csc, which[first], first, rows, bends, law, clock, heavy)
        _keep(csc, which[first], first, law, ties, clock, heavy)
    return read, x


@njit(cache=True)
def heavy_columns(indptr: Array, light_nnz: int) -> Any:
    """Columns with more than light_nnz nonzeros, the long ones roughly first: what is hot lies close together."""
    d = indptr.size - 1
    found = np.empty(min(d, indptr[d] // (light_nnz + 1)), dtype=np.int64)  # there cannot be more
    place = np.zeros(8 * 64 + 1, dtype=np.int64)
    count = 0
    for j in range(d):
        nnz = indptr[j + 1] - indptr[j]
        if nnz > light_nnz:
            found[count] = j
            count += 1
            place[8 * 64 - int(8.0 * math.log2(nnz))] += 1
    for g in range(1, place.size):
        place[g] += place[g - 1]
    which = np.empty(count, dtype=np.int64)
    for i in range(count - 1, -1, -1):
        g = 8 * 64 - int(8.0 * math.log2(indptr[found[i] + 1] - indptr[found[i]]))
        place[g] -= 1
        which[place[g]] = found[i]
    return which


@njit(inline="always", error_model="numpy")
def scaled_cosh(a: float, ref: float) -> Any:
    """cosh(a)·exp(-ref) for a >= 0, ref >= 0 and |a - ref| < 700; free of branches."""
    return 0.5 * exp_negative(ref - a) * (1.0 + exp_negative(2.0 * a))


@njit(inline="always")
def whole_above(value: float) -> Any:
    """The next whole number above a value from 0 to 2^62."""
    return uint64(np.int64(value)) + uint64(1)


@njit(cache=True, error_model="numpy")
def _units_of(scratch: Floats, ref: float) -> None:
    """Log bounds, none above ref, become envelopes; 0 below exp(-CUT) of the largest, where the one unit suffices."""
    for i in range(scratch.size):
        a = scratch[i]
        scratch[i] = MARGIN * scaled_cosh(a, ref) if a - ref > -CUT else 0.0


@njit(cache=True)
def small_cosh(a: float) -> Any:
    """cosh(a) for |a| <= THETA to the last ulps: the first term left out is a^14/14! < 1e-15."""
    s = a * a
    return 1.0 + s / 2.0 * (1.0 + s / 12.0 * (1.0 + s / 30.0 * (1.0 + s / 56.0 * (1.0 + s / 90.0 * (1.0 + s / 132.0)))))


@njit(cache=True)
def ceilings(heavy: Floats, c: float) -> Any:
    """[x] = what no score from place x on in the table can ever exceed; one more entry, 0, ends it."""
    ceiling = np.zeros(heavy.shape[0] + 1)
    for x in range(heavy.shape[0] - 1, -1, -1):
        ceiling[x] = max(ceiling[x + 1], c * (heavy[x, table.CAP] + heavy[x, table.PAD]) * (1.0 + table.SLACK))
    return ceiling


@njit(cache=True)
def select_hot(
    heavy: Floats,
    c: float,
    cut: float,
    ceiling: Floats,
    horizon: Floats,
    now: Floats,
    old: Indices,
    scratch: Floats,
    hot: Indices,
) -> Any:
    """Lists the columns that may reach the cut until the far horizon.

    Returns their number, a bound of the others, and the number of columns looked at.
    """
    for i in range(old.size):
        heavy[old[i], table.HOT] = 0.0
    looked = ceiling.size - 1 - np.searchsorted(ceiling[:-1][::-1], cut)  # beyond, no column can reach the cut
    count = 0
    cool_top = ceiling[looked]
    for x in range(looked):
        scratch[x] = log_bound(heavy, x, horizon, now, c)
        if scratch[x] >= cut:
            hot[count] = x
            heavy[x, table.HOT] = 1.0
            count += 1
        elif scratch[x] > cool_top:
            cool_top = scratch[x]
    return count, cool_top, looked


@njit(cache=True)
def rebuild_envelopes(
    heavy: Floats,
    horizon: Floats,
    now: Floats,
    c: float,
    light: float,
    cool: int,
    cool_top: float,
    shift: int,
    hot: Indices,
    scratch: Floats,
    envelope: NDArray[np.uint64],
    groups: NDArray[np.uint64],
) -> Any:
    """New integer envelopes; returns (ref, size, total of light columns, envelope of a cool column, total).

    An envelope is floor(MARGIN·size·cosh(bound)·exp(-ref)) + 1, a weight the real number size·cosh(cα)·exp(-ref):
    rounding moves the first by far less than MARGIN, so the envelope is not below the weight, and it is never 0.
    """
    ref = max(THETA, cool_top, log_bounds(heavy, hot, horizon, now, c, scratch))
    sum_light = light * exp_negative(ref)
    # size is at most 2^62, so that below exp(-CUT) of the largest one unit is enough: no exponential needed
    cool_one = MARGIN * scaled_cosh(cool_top, ref) if cool > 0 and cool_top - ref > -CUT else 0.0
    total = sum_light + cool * cool_one
    _units_of(scratch[: hot.size], ref)
    for i in range(hot.size):
        total += scratch[i]
    size = LARGEST_TOTAL / total
    groups[: (hot.size >> shift) + 1] = uint64(0)
    light_total = whole_above(sum_light * size)
    cool_each = whole_above(cool_one * size)
    all_total = light_total + uint64(cool) * cool_each
    for i in range(hot.size):
        envelope[i] = whole_above(scratch[i] * size)
        groups[i >> shift] += envelope[i]
        all_total += envelope[i]
    return ref, size, light_total, cool_each, all_total


@njit(cache=True)
def locate(r: Any, envelope: NDArray[np.uint64], groups: NDArray[np.uint64], shift: int) -> Any:
    """The place in the list of hot columns in whose envelope the integer r falls."""
    g = 0
    while r >= groups[g]:
        r -= groups[g]
        g += 1
    i = g << shift
    while r >= envelope[i]:
        r -= envelope[i]
        i += 1
    return i


@njit(cache=True)
def has_passed(clock: Floats, horizon: Floats) -> Any:
    passed = False
    for g in range(table.CLOCKS):
        passed = passed or clock[g] > horizon[g]
    return passed


@njit(cache=True)
def set_horizon(clock: Floats, pace: Floats, t: int, length: float, out: Floats) -> None:
    """Where the clocks should be after `length` more steps like the last ones."""
    for g in range(table.CLOCKS):
        out[g] = clock[g] + length * pace[g]
    out[table.EPOCH] = clock[table.EPOCH]
    ahead = t + 1.2 * length
    out[table.AGE] = clock[table.AGE] * (ahead * (ahead + 1.0)) / (t * (t + 1.0))


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
    envelope = small_cosh(THETA) * MARGIN
    light = Light(int(min(THETA / unit, float(n))), unit, envelope, d * envelope)
    which = heavy_columns(csc[2], light.nnz)
    count = which.size
    room = n if law.loss == LossCode.LOGISTIC and count > 0 else 0
    slopes = np.zeros((room, table.TIES), np.float32)
    recent = np.zeros(table.RECENT, np.int64)
    ties = Ties(np.full(table.TIES, -1), np.zeros(room), np.zeros(room), slopes, recent, np.zeros(table.RECENT))
    heavy = np.zeros((count, table.WIDTH))
    eager = max(EAGER, math.log(0.25 * light.total / max(count, 1)))
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
    reals[[REF, SIZE, LENGTH, FAR]] = 0.0, 2.0**60 / light.total, FIRST_HORIZON, 40.0
    reals[[CHANCE, DOUBT]] = 1.0 / envelope, coins.DOUBT
    reals[SNAPSHOT_COST] = math.inf
    reals[[BEND_SUM, BEND_TOP]] = bends
    return Sampler(
        csc, law, rows, ties, light,
        which, heavy, ceilings(heavy, law.c),
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
            see_column(csc, k, j, rows, bends, law, clock, heavy)
            heavy[j, table.CAP] = min(
                heavy[j, table.CAP], heavy[j, table.NORM] * law.reach + abs(heavy[j, table.SCORE])
            )
            heavy[j, table.SNAPSHOT] = heavy[j, table.SCORE]
            read += nnz
        else:
            table.assume(nnz, law, j, heavy)
    return read
