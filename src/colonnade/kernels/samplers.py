"""Private Frank-Wolfe on sparse data: an exact draw of the exponential mechanism that never keeps the scores.

Claim    pick t is one draw of the exponential mechanism over the 2d signed coordinates, P(k, s) ∝ exp(c·s·α_k),
         α = Xᵀq the sum gradient at the current model: weight 2cosh(cα_k) for k, then the sign s with
         probability sigmoid(2cα_k). The sign is the gradient's; the vertex taken is its opposite.
Source   ours. Rejection: propose k from an upper bound of its weight, compute α_k in one pass over column k,
         accept in proportion. Every attempt accepts k in proportion to its true weight, so bounds may be
         tightened between attempts and the law stays what it is.
Leaves   the picks, and nothing else, may leave. The counters and the running time depend on the data.
Price    ρ = Δ²c²/2 a pick, Δ = 2·feature_bound·cap, cap = 1 (logistic) or residual_bound (the others).

Three classes of columns. *Light* ones can never reach c·|α| = THETA: one envelope for all. Of the others, the heavy
ones,
*hot* is what may matter until the far horizon, each with an envelope of its own from its bound (`score_bounds`);
the rest is *cool* and shares one envelope, together less than a hundredth of the total. Classes are drawn anew when a
clock passes the far horizon, hot envelopes when one passes the near horizon or proposals keep being turned down.
A snapshot, the scores of all hot columns at one time, is taken when as much work has been wasted on rejected proposals
as it costs. In a step that reads many nonzeros the slopes of all rows are computed once and serve all columns.

Sensitivity is exact: scores are whole numbers of grid steps (`column_scores`). The cut moves a score by less than
nnz_k·grid; the grid is 2^-61 of the largest score that n rows could give or 2^-51 of the largest product: public.

How far from the ideal law. Proposals among heavy columns are uniform integers below a sum of integer envelopes:
no rounding there. What is left: (1) a heavy weight is cosh(cα) in double precision, relative error at most
(c|α| + 64)·2^-52, then cut to an integer, at most heavy + 2 units of a total kept above 2^54; (2) a light column is
accepted by comparing a uniform double (k + ½)/2^52 with a probability, and so is the sign, each off by at most
2^-51. In total variation, one pick is within 2·(c·max|α| + 64)·2^-52 + (heavy + 2)·2^-54 + 2^-49 of the exponential
mechanism on the scores above: 1e-11 for a million heavy columns and c|α| = 10,000, to be multiplied by the
number of picks and added to delta. Randomness is a ChaCha20 stream.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.column_scores import BLOCK, all_slopes, grid_of, score, score_and_trend
from colonnade.kernels.envelopes import (
    COOL,
    CUT,
    EAGER,
    FIRST_HORIZON,
    MARGIN,
    THETA,
    Csc,
    ceilings,
    has_passed,
    heavy_columns,
    locate,
    rebuild_envelopes,
    scaled_cosh,
    see_all,
    see_column,
    select_hot,
    set_horizon,
    small_cosh,
)
from colonnade.kernels.score_bounds import (
    AGE,
    AWAY,
    CAP,
    CLOCKS,
    DUST,
    HOT,
    JUMP_PATH,
    JUMP_SUM,
    JUMP_TOP,
    LAST_JUMP,
    LAST_PATH,
    MASS,
    MEASURED,
    NORM,
    PAD,
    PATH,
    SCORE,
    SHRINK_SUM,
    SHRINK_TOP,
    SLACK,
    SNAPSHOT,
    STAMP,
    SUMS,
    WIDTH,
    advance,
    assume,
    constants,
    log_bound,
    log_bounds,
    measure,
    note,
    settle,
    shrinking,
)
from colonnade.kernels.sparse_fw import LossCode, Picks, check_problem
from colonnade.kernels.stream import Stream, below, open_uniform

# what things cost beside a nonzero read with its slope at hand: an exponential for a nonzero or a row, a new envelope
EVALUATE, REBUILD = 4, 6

# counters
EVALUATIONS, REJECTED, REBUILDS, SNAPSHOTS, VIOLATIONS, HEAVY, WORK = 0, 1, 2, 3, 4, 5, 6


class Counts(NamedTuple):
    """What a run cost. Depends on the data: for benchmarks and tests, never for a log that leaves."""

    evaluations: int  # columns whose score was computed
    rejected: int  # of these, proposals that were turned down
    rebuilds: int  # times all envelopes were made anew
    snapshots: int  # times all scores were computed
    heavy: int  # columns with an envelope of their own
    work: int  # nonzeros read


@njit(cache=True)
def _start_heavy(
    csc: Csc,
    which: Indices,
    unit: float,
    eager: float,
    radius: float,
    tilt: Floats,
    lean: Floats,
    bends: tuple[float, float],
    bound: float,
    cap: float,
    reach: float,
    grid: float,
    clock: Floats,
    heavy: Floats,
) -> Any:
    """Fills the table of heavy columns; those that could weigh exp(eager) are seen at once. Returns nonzeros read."""
    indptr = csc[2]
    members = np.empty(which.size, dtype=np.int64)
    seen = 0
    for j in range(which.size):
        nnz = indptr[which[j] + 1] - indptr[which[j]]
        heavy[j, PAD] = nnz * (grid + 2.0**-48 * bound * cap)
        heavy[j, STAMP + AGE] = radius
        if unit * nnz > eager:
            members[seen] = j
            seen += 1
        else:
            assume(nnz, bound, cap, j, heavy)
    read = see_all(csc, which, members[:seen], tilt, lean, bends, bound, cap, grid, clock, heavy)
    for i in range(seen):
        x = members[i]
        heavy[x, CAP] = min(heavy[x, CAP], heavy[x, NORM] * reach + heavy[x, SNAPSHOT])
    return read


@njit(cache=True)
def _set_pace(
    t: int,
    m: float,
    radius: float,
    bound: float,
    curvature: float,
    sway: float,
    jumps: tuple[float, int],
    sums: Floats,
    pace: Floats,
) -> None:
    """pace: how far each clock goes in a step like the last ones; jumps: the way since the last rebuild."""
    eta = 2.0 / (t + 2.0)
    pace[SHRINK_TOP] = shrinking(t, sway, curvature, sums) + 1e-12
    pace[SHRINK_SUM] = 1.05 * (curvature * eta * m * sums[MASS] + 1e-9)
    pace[JUMP_SUM] = 1.5 * jumps[0] / jumps[1] + 1e-6
    pace[JUMP_TOP] = curvature * eta * radius * bound
    pace[JUMP_PATH] = 1.2 * sums[LAST_JUMP]
    pace[PATH] = 1.2 * sums[LAST_PATH]
    pace[AWAY] = sums[LAST_PATH]
    pace[DUST] = 2.0


@njit(cache=True)
def _try_light(
    csc: Csc,
    k: int,
    rows: Floats,
    m: float,
    loss: int,
    limit: float,
    c: float,
    bound: float,
    unit: float,
    grid: float,
    envelope: float,
    stream: Stream,
    counts: Indices,
) -> Any:
    """Accepts light column k in proportion to its weight: (whether, c times its score)."""
    data, indices, indptr = csc
    start, stop = indptr[k], indptr[k + 1]
    target = open_uniform(stream) * envelope
    if target > small_cosh(unit * (stop - start)) * MARGIN:
        return False, 0.0  # no score this column can have would be accepted
    alpha = c * grid * score(data, indices, start, stop, rows, m, loss, limit, bound, 1.0 / grid)
    weight = small_cosh(alpha)
    counts[EVALUATIONS] += 1
    counts[WORK] += stop - start
    if weight > envelope:
        counts[VIOLATIONS] += 1
    if target > weight:
        counts[REJECTED] += 1
    return target <= weight, alpha


@njit(cache=True)
def _renew_envelopes(
    indptr: NDArray[Any],
    which: Indices,
    heavy: Floats,
    c: float,
    light: float,
    t: int,
    length: float,
    shift: int,
    clock: Floats,
    pace: Floats,
    horizon: Floats,
    far_horizon: Floats,
    ceiling: Floats,
    choice: tuple[int, int, int, float, float],
    spent: float,
    n: int,
    hot: Indices,
    scratch: Floats,
    envelope: NDArray[np.uint64],
    groups: NDArray[np.uint64],
    counts: Indices,
) -> Any:
    """New envelopes, and a new choice of hot columns where the old one has had its time.

    Returns the choice (hot columns, columns looked at, cool columns, their bound, the cost of a snapshot), the work
    spent
    so far and what `rebuild_envelopes` returns.
    """
    count = which.size
    hot_count, looked, cool, cool_top, snapshot_cost = choice
    select = has_passed(clock, far_horizon)
    while True:
        if select:
            set_horizon(clock, pace, t, 8.0 + 9.0 * length + 0.1 * t, far_horizon)
            cut = max(math.log(light), log_bounds(heavy, hot[:hot_count], horizon, c, scratch))
            cut -= math.log(count) + COOL
            hot_count, cool_top, looked = select_hot(heavy, c, cut, ceiling, far_horizon, hot[:hot_count], scratch, hot)
            cool = count if hot_count < count else 0
            snapshot_cost = float(EVALUATE * n + REBUILD * looked)
            for i in range(hot_count):
                snapshot_cost += indptr[which[hot[i]] + 1] - indptr[which[hot[i]]]
            spent += REBUILD * looked if length < 2.0 else 0.0
        made = rebuild_envelopes(
            heavy, horizon, c, light, cool, cool_top, shift, hot[:hot_count], scratch, envelope, groups
        )
        spent += REBUILD * hot_count if length < 2.0 else 0.0  # only short horizons are a waste
        counts[REBUILDS] += 1
        if select or uint64(cool) * made[3] <= made[4] >> uint64(3):
            break
        select = True  # the hot columns have come down to where the others might be
    return (hot_count, looked, cool, cool_top, snapshot_cost), spent, made


@njit(cache=True)
def _exact_kernel(
    csc: Csc,
    y: Floats,
    loss: int,
    radius: float,
    c: float,
    bound: float,
    limit: float,
    bounds: Floats,
    stream: Stream,
    index: Indices,
    sign: NDArray[np.int8],
    counts: Indices,
) -> None:
    data, indices, indptr = csc
    curvature, sway, cap, span, reach, grid = bounds
    n, d = y.size, indptr.size - 1
    steps = 1.0 / grid
    rows = np.empty((n, 2))  # u_i beside y_i: one cache line serves both
    rows[:, 0] = 0.0
    rows[:, 1] = y
    past, here, tilt, lean = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    block = np.empty((4, BLOCK))
    clock, pace = np.zeros(CLOCKS + 1), np.zeros(CLOCKS)
    horizon, far_horizon = np.full(CLOCKS + 1, -1.0), np.full(CLOCKS + 1, -1.0)
    clock[AGE] = 1.0 / radius
    sums = np.zeros(SUMS)
    bends = all_slopes(loss, limit, y, rows, radius, here, tilt, lean)
    known = True  # tilt and lean are those of the current step

    # light and heavy columns; heavy ones that could outweigh the light ones are seen at once
    unit = c * bound * cap * (1.0 + SLACK)
    light_nnz = int(min(THETA / unit, float(n)))
    light_envelope = small_cosh(THETA) * MARGIN
    light = d * light_envelope
    which = heavy_columns(indptr, light_nnz)
    count = which.size
    counts[HEAVY] = count
    heavy = np.zeros((count, WIDTH))
    eager = max(EAGER, math.log(0.25 * light / max(count, 1)))
    counts[WORK] += _start_heavy(
        csc, which, unit, eager, radius, tilt, lean, bends, bound, cap, reach, grid, clock, heavy
    )

    shift = 6
    while (1 << (2 * shift)) < count:
        shift += 1
    envelope, groups = np.zeros(count, dtype=np.uint64), np.zeros((count >> shift) + 1, dtype=np.uint64)
    scratch = np.empty(count)
    ceiling = ceilings(heavy, c)
    hot = np.arange(count)
    hot_count, looked, cool, cool_top = count, count, 0, 0.0

    ref, size = THETA, 1.0
    light_total = total = total_at_rebuild = uint64(1) << uint64(60)  # all columns light: no envelopes, no first draw
    cool_each = cool_total = uint64(0)
    length = FIRST_HORIZON
    wasted, rejections, spent, snapshot_cost, last_rebuild, last_jumps = 0.0, 0, 0.0, math.inf, 0, 0.0
    for t in range(1, index.size + 1):
        m = radius if t == 1 else 2.0 * radius / (t * (t + 1.0))
        # the far horizon may come first: near ones that were set since then may reach beyond it
        stale = count > 0 and (has_passed(clock, horizon) or has_passed(clock, far_horizon))
        if stale and t > 1 and wasted < hot_count:
            length = min(1.6 * max(length, 0.5), 0.5 * t + 4.0)
        pulled = False
        read = 0  # nonzeros of heavy columns read in this step
        while True:
            if spent > snapshot_cost:
                # enough was wasted to pay for knowing every score again
                if not known:
                    bends = all_slopes(loss, limit, y, rows, m, here, tilt, lean)
                    known = True
                settle(m, past, rows, sums, clock)
                counts[WORK] += see_all(csc, which, hot[:hot_count], tilt, lean, bends, bound, cap, grid, clock, heavy)
                counts[SNAPSHOTS] += 1
                spent, stale, pulled = -1.0 * REBUILD * looked, True, False
                far_horizon[:] = -1.0  # what was cool from the old snapshot may not be from this one
            if stale and not pulled:
                jumps = (clock[JUMP_SUM] - last_jumps, max(1, t - last_rebuild))
                _set_pace(t, m, radius, bound, curvature, sway, jumps, sums, pace)
                set_horizon(clock, pace, t, length, horizon)
                wasted, rejections, last_rebuild, last_jumps = 0.0, 0, t, clock[JUMP_SUM]
            if stale or total <= total_at_rebuild >> uint64(7):
                # the second case: the envelopes have shrunk below what integers of this size resolve
                choice, spent, made = _renew_envelopes(
                    indptr,
                    which,
                    heavy,
                    c,
                    light,
                    t,
                    length,
                    shift,
                    clock,
                    pace,
                    horizon,
                    far_horizon,
                    ceiling,
                    (hot_count, looked, cool, cool_top, snapshot_cost),
                    spent,
                    n,
                    hot,
                    scratch,
                    envelope,
                    groups,
                    counts,
                )
                hot_count, looked, cool, cool_top, snapshot_cost = choice
                ref, size, light_total, cool_each, total = made
                cool_total = uint64(cool) * cool_each
                total_at_rebuild, stale = total, False
            r = below(stream, total) if count > 0 else uint64(0)
            if r < light_total:
                k = np.int64(below(stream, d))
                if indptr[k + 1] - indptr[k] > light_nnz:
                    continue
                accepted, alpha = _try_light(
                    csc, k, rows, m, loss, limit, c, bound, unit, grid, light_envelope, stream, counts
                )
                if accepted:
                    break
                continue
            place = -1
            if r - light_total < cool_total:
                x = np.int64(below(stream, count))
                if heavy[x, HOT] == 1.0:
                    continue
                old = cool_each
            else:
                place = locate(r - light_total - cool_total, envelope, groups, shift)
                x = hot[place]
                old = envelope[place]
            k = which[x]
            start, stop = indptr[k], indptr[k + 1]
            if heavy[x, MEASURED] == 0.0:
                measure(data, indices, start, stop, bound, n, cap, x, heavy)
            read += stop - start
            if not known and 2 * read > n:
                bends = all_slopes(loss, limit, y, rows, m, here, tilt, lean)
                known = True
                spent += EVALUATE * n
            if known:
                see_column(csc, k, x, tilt, lean, bends, bound, grid, clock, heavy)
            else:
                whole_score, trend, bend = score_and_trend(
                    data, indices, start, stop, rows, m, loss, limit, bound, steps, block
                )
                note(x, whole_score * grid, trend, bend, clock, heavy)
            alpha = c * heavy[x, SCORE]
            counts[EVALUATIONS] += 1
            counts[WORK] += stop - start
            weight_now = uint64(size * scaled_cosh(abs(alpha), ref)) if abs(alpha) - ref > -CUT else uint64(0)
            if weight_now > old:
                counts[VIOLATIONS] += 1
            accepted = below(stream, old) < weight_now
            new = log_bound(heavy, x, horizon, c)
            if place >= 0:
                envelope_now = uint64(MARGIN * size * scaled_cosh(new, ref)) if new - ref > -CUT else uint64(0)
                if envelope_now < old:
                    envelope[place] = envelope_now
                    groups[place >> shift] -= old - envelope_now
                    total -= old - envelope_now
            if accepted:
                break
            counts[REJECTED] += 1
            wasted += stop - start
            spent += (1 if known else EVALUATE) * (stop - start)
            rejections += 1
            if wasted > hot_count and ((wasted > 4.0 * hot_count and rejections >= 2) or new - abs(alpha) > 2.0):
                # the horizon was too far: pull it in, or proposals go on being turned down
                length = 0.25 * length if length >= 2.0 else 0.0
                for g in range(CLOCKS):
                    horizon[g] = clock[g] + (0.25 * (horizon[g] - clock[g]) if length > 0.0 else 0.0)
                stale = pulled = True
                wasted, rejections = 0.0, 0

        s = 1 if open_uniform(stream) <= 1.0 / (1.0 + math.exp(-2.0 * alpha)) else -1
        index[t - 1] = k
        sign[t - 1] = s
        advance(
            data,
            indices,
            indptr[k],
            indptr[k + 1],
            bound,
            radius,
            t,
            s,
            (curvature, sway, span),
            past,
            rows,
            sums,
            clock,
        )
        known = False


def exact_picks(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: LossCode,
    radius: float,
    rounds: int,
    scale: float,
    feature_bound: float,
    stream: Stream,
    residual_bound: float = 1.0,
) -> tuple[Picks, Counts]:
    """`rounds` picks of private Frank-Wolfe; `scale` is c = 1/b, b the Gumbel scale that the budget buys.

    Memory beside the matrix: 48 bytes a row, and 232 bytes for each heavy column.
    """
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    for name, value in (
        ("scale", scale),
        ("feature_bound", feature_bound),
        ("residual_bound", residual_bound),
    ):
        if not (math.isfinite(value) and value > 0.0):
            raise InvalidInput(f"{name} must be positive and finite; got {value}. It must not come from the data.")
    bounds = constants(loss, residual_bound, float(np.abs(y).max()))
    # the grid is public: it follows from the bounds and the number of rows, not from the longest column
    grid = grid_of(y.size, feature_bound * bounds[2])
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    counts = np.zeros(7, dtype=np.int64)
    _exact_kernel(
        (data, indices, indptr),
        y,
        int(loss),
        radius,
        scale,
        feature_bound,
        residual_bound,
        np.array([*bounds, grid]),
        stream,
        picks.columns,
        picks.signs,
        counts,
    )
    if counts[VIOLATIONS]:
        raise ColonnadeError(
            "a score exceeded its bound: the picks are not draws of the mechanism and were discarded. This is a fault "
            "of "
            "the library; please report the sizes of the data."
        )
    return picks, Counts(
        int(counts[EVALUATIONS]),
        int(counts[REJECTED]),
        int(counts[REBUILDS]),
        int(counts[SNAPSHOTS]),
        int(counts[HEAVY]),
        int(counts[WORK]),
    )
