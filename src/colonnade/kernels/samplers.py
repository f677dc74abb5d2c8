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
ones, *hot* is what may matter until the far horizon, each with an envelope of its own from its bound (`score_bounds`);
the rest is *cool* and shares one envelope, together less than a hundredth of the total. Classes are drawn anew when a
clock passes the far horizon, hot envelopes when one passes the near horizon or proposals keep being turned down.
A snapshot, the scores of all columns that may matter at one time, is taken when as much work has been wasted on
rejected proposals as it costs. Where a few columns take most of the steps, as with little noise, they are tied to it:
what their steps do to every score is followed to second order. In a step that reads many nonzeros the slopes of all
rows are computed once and serve all columns.

Sensitivity is exact: scores are whole numbers of grid steps (`column_scores`). The cut moves a score by less than
nnz_k·grid; the grid is 2^-61 of the largest score that n rows could give or 2^-51 of the largest product: public.

The law is exact, given uniform words (a ChaCha20 stream). An attempt proposes by uniform integers below a sum of
integer envelopes, each above its column's weight, and accepts by a coin of chance weight/envelope, a real number that
no double decides (`coins`): it ends with k at probability size·cosh(cα_k)·exp(-ref)/total, the same size, ref and
total for every column, and so do all attempts: docs/understand/privacy/one-holder.md, sparse Frank-Wolfe picks.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.kernels import coins, sampler_state
from colonnade.kernels import score_bounds as table
from colonnade.kernels.arrays import Array, Floats, Indices
from colonnade.kernels.column_scores import all_slopes, grid_of, score, score_and_trend
from colonnade.kernels.sampler_state import (
    ACCEPTED,
    AGAINST,
    ALL,
    ALPHA,
    AT_REBUILD,
    BEND_SUM,
    BEND_TOP,
    CHANCE,
    COLUMN,
    COOL,
    COOL_EACH,
    COOL_TOP,
    DOUBT,
    EVALUATIONS,
    FAR,
    HEAD,
    HEAVY,
    HOT_COUNT,
    KNOWN,
    LAST_JUMPS,
    LAST_READ,
    LAST_REBUILD,
    LENGTH,
    LIGHT,
    LOOKED,
    OPEN_COLUMN,
    OPEN_SIGN,
    PASSES,
    PROPOSING,
    PULLED,
    READ,
    REBUILDS,
    REF,
    REJECTIONS,
    RENEWED,
    ROUND,
    SIGNED,
    SIZE,
    SNAPSHOT_COST,
    SNAPSHOTS,
    SPENT,
    STAGE,
    STALE,
    VIOLATIONS,
    WASTED,
    WORK,
    Sampler,
    make_sampler,
)
from colonnade.kernels.score_bounds import Law, constants
from colonnade.kernels.sparse_fw import LossCode, Picks, check_problem, exp_negative
from colonnade.kernels.stream import Stream, below

# what things cost beside a nonzero read with its slope at hand: an exponential for a nonzero or a row, a new envelope
EVALUATE = 4
REBUILD = 6

LARGEST = 2.0**100  # of a bound of features or residuals, and its square of radius and scale; and their inverses


class Counts(NamedTuple):
    """What a run cost. Depends on the data: for benchmarks and tests, never for a log that leaves."""

    evaluations: int  # columns whose score was computed
    rebuilds: int  # times all envelopes were made anew
    snapshots: int  # times all scores were computed
    heavy: int  # columns with an envelope of their own
    work: int  # nonzeros read
    passes: int  # times the slopes of all rows were computed


@njit(cache=True)
def _set_pace(t: int, m: float, law: Law, jumps: float, sums: Floats, pace: Floats) -> None:
    """pace: how far each clock goes in a step like the last ones; jumps: the way of one since the last rebuild."""
    eta = 2.0 / (t + 2.0)
    pace[table.SHRINK_TOP] = table.shrinking(t, law, sums) + 1e-12
    pace[table.SHRINK_SUM] = 1.05 * (law.curvature * eta * m * sums[table.MASS] + 1e-9)
    pace[table.JUMP_SUM] = jumps
    pace[table.JUMP_TOP] = law.curvature * eta * law.radius * law.bound
    pace[table.JUMP_PATH] = 1.2 * sums[table.LAST_JUMP]
    pace[table.PATH] = 1.2 * sums[table.LAST_PATH]
    pace[table.AWAY] = sums[table.LAST_PATH]
    pace[table.DUST] = 2.0


@njit(cache=True)
def _see_rows(s: Sampler, m: float) -> None:
    """The slopes of all rows in this step."""
    law = s.law
    rows = s.rows
    bends = all_slopes(law.loss, law.limit, rows.y, rows.pairs, m, rows.v, rows.slope, rows.lean)
    s.reals[BEND_SUM], s.reals[BEND_TOP] = bends
    s.wholes[KNOWN] = 1
    s.counts[PASSES] += 1


@njit(inline="always")
def _see_hot(s: Sampler, picks: Indices, t: int, m: float) -> None:
    """A new snapshot: the scores of all hot columns."""
    if s.wholes[KNOWN] == 0:
        _see_rows(s, m)
    table.settle(m, s.rows, s.sums, s.clock)
    table.tie(s.csc, picks, s.law, s.rows, s.ties)
    table.look_at_now(t, m, s.law, s.ties.columns, s.sums, s.clock, s.now)
    bends = (s.reals[BEND_SUM], s.reals[BEND_TOP])
    least = math.log(s.light.total)
    for i in range(s.wholes[HOT_COUNT]):
        x = s.hot[i]
        bound = table.log_bound(s.heavy, x, s.now, s.now, s.law.c)
        least = max(least, 2.0 * s.law.c * abs(s.heavy[x, table.SCORE]) - bound)
    read, s.wholes[LOOKED] = sampler_state.see_needed(
        s.csc, s.which, s.ceiling, least, s.rows, s.ties, bends, s.law, s.clock, s.now, s.heavy
    )
    s.counts[WORK] += read
    s.counts[SNAPSHOTS] += 1
    s.reals[SPENT] = -1.0 * REBUILD * s.wholes[LOOKED]
    s.reals[LAST_READ] = read
    s.wholes[STALE] = 1
    s.wholes[PULLED] = 0
    s.far_horizon[:] = -1.0  # what was cool from the old snapshot may not be from this one


@njit(inline="always")
def _choose_hot(s: Sampler, t: int) -> None:
    """A new choice of hot columns, until a new far horizon."""
    count = s.which.size
    hot = s.hot
    reals = s.reals
    wholes = s.wholes
    old = hot[: wholes[HOT_COUNT]]
    most = 8.0 + 9.0 * reals[LENGTH] + 0.1 * t
    # where most columns are hot anyway, choosing them sooner spares nothing
    if s.now[table.CURVED] < 0.0 or 2 * wholes[HOT_COUNT] > wholes[LOOKED]:
        reals[FAR] = most
    elif reals[RENEWED] > 2.0 * wholes[LOOKED]:
        reals[FAR] *= 0.7
    elif reals[RENEWED] < 0.5 * wholes[LOOKED]:
        reals[FAR] *= 1.4
    reals[FAR] = min(max(reals[FAR], 1.0), most)
    reals[RENEWED] = 0.0
    sampler_state.set_horizon(s.clock, s.pace, t, reals[FAR], s.far_horizon)
    cut = max(math.log(s.light.total), table.log_bounds(s.heavy, old, s.horizon, s.now, s.law.c, s.scratch))
    cut -= math.log(count) + sampler_state.COOL_SHARE
    heavy = s.heavy
    far = s.far_horizon
    scratch = s.scratch
    hot_count, cool_top, looked = sampler_state.select_hot(
        heavy, s.law.c, cut, s.ceiling, far, s.now, old, scratch, hot
    )
    wholes[HOT_COUNT] = hot_count
    wholes[LOOKED] = looked
    reals[COOL_TOP] = cool_top
    wholes[COOL] = count if hot_count < count else 0
    reals[SNAPSHOT_COST] = float(EVALUATE * s.rows.y.size + REBUILD * looked)
    for i in range(hot_count):
        k = s.which[hot[i]]
        reals[SNAPSHOT_COST] += s.csc[2][k + 1] - s.csc[2][k]
    if s.now[table.CURVED] >= 0.0:
        reals[SNAPSHOT_COST] += 3.0 * reals[LAST_READ]
    reals[SPENT] += REBUILD * looked if reals[LENGTH] < 2.0 and s.now[table.CURVED] < 0.0 else 0.0


@njit(inline="always")
def _renew_envelopes(s: Sampler, t: int, m: float) -> None:
    """New envelopes, and a new choice of hot columns where the old one has had its time."""
    reals = s.reals
    wholes = s.wholes
    totals = s.totals
    table.look_at_now(t, m, s.law, s.ties.columns, s.sums, s.clock, s.now)
    choose = sampler_state.has_passed(s.clock, s.far_horizon)
    while True:
        if choose:
            _choose_hot(s, t)
        cool = wholes[COOL]
        cool_top = reals[COOL_TOP]
        hot = s.hot[: wholes[HOT_COUNT]]
        reals[REF], reals[SIZE], totals[LIGHT], totals[COOL_EACH], totals[ALL] = sampler_state.rebuild_envelopes(
            s.heavy,
            s.horizon,
            s.now,
            s.law.c,
            s.light.total,
            cool,
            cool_top,
            s.shift,
            hot,
            s.scratch,
            s.envelope,
            s.groups,
        )
        reals[CHANCE] = (s.csc[2].size - 1) * reals[SIZE] * exp_negative(reals[REF]) / np.int64(totals[LIGHT])
        if reals[LENGTH] < 2.0 and s.now[table.CURVED] < 0.0:  # short horizons are a waste that a snapshot would end
            reals[SPENT] += REBUILD * hot.size
        s.counts[REBUILDS] += 1
        reals[RENEWED] += hot.size
        if choose or uint64(cool) * totals[COOL_EACH] <= totals[ALL] >> uint64(3):
            break
        choose = True  # the hot columns have come down to where the others might be
    totals[AT_REBUILD] = totals[ALL]
    wholes[STALE] = 0


@njit(inline="always")
def _refresh(s: Sampler, picks: Indices, t: int, m: float) -> None:
    """Whatever is due before the next proposal: a snapshot, a horizon, envelopes."""
    reals = s.reals
    wholes = s.wholes
    if reals[SPENT] > reals[SNAPSHOT_COST]:
        _see_hot(s, picks, t, m)  # enough was wasted to pay for knowing every score again
    if wholes[STALE] and not wholes[PULLED]:
        jumps = 1.5 * (s.clock[table.JUMP_SUM] - reals[LAST_JUMPS]) / max(1, t - wholes[LAST_REBUILD]) + 1e-6
        _set_pace(t, m, s.law, jumps, s.sums, s.pace)
        sampler_state.set_horizon(s.clock, s.pace, t, reals[LENGTH], s.horizon)
        reals[WASTED] = 0.0
        reals[LAST_JUMPS] = s.clock[table.JUMP_SUM]
        wholes[REJECTIONS] = 0
        wholes[LAST_REBUILD] = t
    if wholes[STALE] or s.totals[ALL] <= s.totals[AT_REBUILD] >> uint64(7):
        _renew_envelopes(s, t, m)


@njit(inline="always")
def _factor(radius: float, t: int) -> Any:
    """m before pick t: predictions are m times whole multiples of columns."""
    return radius if t == 1 else 2.0 * radius / (t * (t + 1.0))


@njit(inline="always")
def _try_light(s: Sampler, k: int, m: float) -> Any:
    """Accepts column k, if light, in proportion to its weight: (the answer, c times its score)."""
    data, indices, indptr = s.csc
    law = s.law
    light = s.light
    counts = s.counts
    start = indptr[k]
    stop = indptr[k + 1]
    if stop - start > light.nnz:
        return coins.NO, 0.0
    head = coins.head_of(s.stream)
    chance = s.reals[CHANCE]
    most = sampler_state.small_cosh(light.unit * (stop - start)) * sampler_state.MARGIN
    doubt = coins.doubt_of(0.0, s.reals[DOUBT])
    if coins.toss(head, chance * most, doubt) == coins.NO:
        return coins.NO, 0.0  # no score this column can have would be accepted
    steps = score(data, indices, start, stop, s.rows.pairs, m, law.loss, law.limit, law.bound, 1.0 / law.grid)
    alpha = law.c * law.grid * steps
    weight = sampler_state.small_cosh(alpha)
    counts[EVALUATIONS] += 1
    counts[WORK] += stop - start
    counts[VIOLATIONS] += weight > light.envelope
    s.totals[AGAINST] = s.totals[LIGHT]
    s.wholes[HEAD] = np.int64(head)
    return coins.toss(head, chance * weight, doubt), alpha


@njit(inline="always")
def _look(s: Sampler, k: int, x: int, m: float) -> None:
    """The score of heavy column k, in place x of the table."""
    data, indices, indptr = s.csc
    heavy = s.heavy
    reals = s.reals
    wholes = s.wholes
    law = s.law
    rows = s.rows
    n = rows.y.size
    start = indptr[k]
    stop = indptr[k + 1]
    if heavy[x, table.MEASURED] == 0.0:
        table.measure(s.csc, k, n, law, x, heavy)
    wholes[READ] += stop - start
    if wholes[KNOWN] == 0 and 2 * wholes[READ] > n:
        _see_rows(s, m)
        reals[SPENT] += EVALUATE * n
    if wholes[KNOWN]:
        sampler_state.see_column(s.csc, k, x, rows, (reals[BEND_SUM], reals[BEND_TOP]), law, s.clock, heavy)
    else:
        steps, trend, bend = score_and_trend(
            data, indices, start, stop, rows.pairs, m, law.loss, law.limit, law.bound, 1.0 / law.grid, s.block
        )
        table.note(x, steps * law.grid, trend, bend, s.clock, heavy)
    if s.now[table.CURVED] >= 0.0 and heavy[x, table.TAKEN] != s.clock[table.EPOCH]:
        table.follow(s.csc, k, x, law, s.ties, s.clock[table.EPOCH], heavy)
        s.counts[WORK] += stop - start
    s.counts[EVALUATIONS] += 1
    s.counts[WORK] += stop - start


@njit(inline="always")
def _envelope(bound: float, reals: Floats) -> Any:
    """The envelope of a column with this bound of c·|score|, in the units in force."""
    ref = reals[REF]
    size = reals[SIZE]
    if bound - ref <= -sampler_state.CUT:
        return uint64(1)
    # ref holds until the horizon as well; a bound by a new trend may lie so far above it that exp would overflow
    return sampler_state.whole_above(sampler_state.MARGIN * size * sampler_state.scaled_cosh(min(bound, ref), ref))


@njit(inline="always")
def _turn_down(nnz: int, excess: float, horizon: Floats, clock: Floats, reals: Floats, wholes: Indices) -> None:
    """A proposal was wasted; excess: how far its bound was above its score."""
    reals[WASTED] += nnz
    reals[SPENT] += (1 if wholes[KNOWN] else EVALUATE) * nnz
    wholes[REJECTIONS] += 1
    many = reals[WASTED] > 4.0 * wholes[HOT_COUNT] and wholes[REJECTIONS] >= 2
    if reals[WASTED] > wholes[HOT_COUNT] and (many or excess > 2.0):
        # the horizon was too far: pull it in, or proposals go on being turned down
        reals[LENGTH] = 0.25 * reals[LENGTH] if reals[LENGTH] >= 2.0 else 0.0
        for g in range(table.CLOCKS):
            horizon[g] = clock[g] + (0.25 * (horizon[g] - clock[g]) if reals[LENGTH] > 0.0 else 0.0)
        wholes[STALE] = wholes[PULLED] = 1
        reals[WASTED] = 0.0
        wholes[REJECTIONS] = 0


@njit(inline="always")
def _try_heavy(s: Sampler, r: Any, m: float) -> Any:
    """Proposes the heavy column in whose envelope r falls: (column, the answer, c times its score)."""
    heavy = s.heavy
    envelope = s.envelope
    totals = s.totals
    reals = s.reals
    wholes = s.wholes
    counts = s.counts
    cool_total = uint64(wholes[COOL]) * totals[COOL_EACH]
    place = -1
    old = totals[COOL_EACH]
    if r < cool_total:
        x = np.int64(below(s.stream, s.which.size))
        if heavy[x, table.HOT] == 1.0:
            return s.which[x], coins.NO, 0.0
    else:
        place = sampler_state.locate(r - cool_total, envelope, s.groups, s.shift)
        x = s.hot[place]
        old = envelope[place]
    k = s.which[x]
    _look(s, k, x, m)
    alpha = s.law.c * heavy[x, table.SCORE]
    weight = reals[SIZE] * sampler_state.scaled_cosh(abs(alpha), reals[REF])
    most = float(np.int64(old))
    head = coins.head_of(s.stream)
    totals[AGAINST] = old
    wholes[HEAD] = np.int64(head)
    answer = coins.toss(head, weight / most, coins.doubt_of(alpha, reals[DOUBT]))
    bound = table.log_bound(heavy, x, s.horizon, s.now, s.law.c)
    if place >= 0:
        new = _envelope(bound, reals)
        if new < old:
            envelope[place] = new
            s.groups[place >> s.shift] -= old - new
            totals[ALL] -= old - new
    # a weight far above ref overflows, and nothing is known to be below a ref that is NaN
    counts[VIOLATIONS] += not (abs(alpha) <= reals[REF] and weight <= most)
    if answer != coins.YES:
        nnz = s.csc[2][k + 1] - s.csc[2][k]
        _turn_down(nnz, bound - abs(alpha), s.horizon, s.clock, reals, wholes)
    return k, answer, alpha


@njit(inline="always")
def _accept(s: Sampler, picks: Indices, t: int, m: float) -> Any:
    """Proposes until a column is accepted, or its coin is open: (column, the answer, c times its score)."""
    reals = s.reals
    wholes = s.wholes
    totals = s.totals
    clock = s.clock
    count = s.which.size
    d = s.csc[2].size - 1
    if wholes[ROUND] != t:  # else it goes on where a coin was open
        # the far horizon may come first: near ones that were set since then may reach beyond it
        passed = sampler_state.has_passed(clock, s.horizon) or sampler_state.has_passed(clock, s.far_horizon)
        wholes[ROUND] = t
        wholes[STALE] = count > 0 and passed
        wholes[PULLED] = wholes[READ] = 0
        if wholes[STALE] and t > 1 and reals[WASTED] < wholes[HOT_COUNT]:
            reals[LENGTH] = min(1.6 * max(reals[LENGTH], 0.5), 0.5 * t + 4.0)
    while True:
        # the last case: the envelopes have shrunk to where their one unit might count
        wasteful = reals[SPENT] > reals[SNAPSHOT_COST]
        coarse = totals[ALL] <= totals[AT_REBUILD] >> uint64(7)
        if wholes[STALE] or wasteful or coarse:
            _refresh(s, picks, t, m)
        r = below(s.stream, totals[ALL]) if count > 0 else uint64(0)
        if r < totals[LIGHT]:
            k = np.int64(below(s.stream, d))
            answer, alpha = _try_light(s, k, m)
        else:
            k, answer, alpha = _try_heavy(s, r - totals[LIGHT], m)
        if answer != coins.NO:
            return k, answer, alpha


# _nrt=False: arrays are not counted in and out, atomically, wherever one is taken out of the sampler, which cost a
# fifth of the time. The kernel may therefore allocate nothing. What takes a sampler is inlined into it.
@njit(cache=True, _nrt=False)
def _exact_kernel(s: Sampler, index: Indices, sign: NDArray[np.int8]) -> Any:
    """Draws picks from where it stands to the last one; stops earlier, with True, where a coin is open."""
    law = s.law
    reals = s.reals
    wholes = s.wholes
    for t in range(max(wholes[ROUND], 1), index.size + 1):
        m = _factor(law.radius, t)
        if wholes[STAGE] == PROPOSING:
            wholes[COLUMN], answer, reals[ALPHA] = _accept(s, index[: t - 1], t, m)
            if answer == coins.OPEN:
                wholes[STAGE] = OPEN_COLUMN
                return True
        if wholes[STAGE] != SIGNED:
            alpha = reals[ALPHA]
            head = coins.head_of(s.stream)
            odds = exp_negative(2.0 * abs(alpha))
            answer = coins.toss(head, odds / (1.0 + odds), coins.doubt_of(alpha, reals[DOUBT]))
            if answer == coins.OPEN:
                wholes[STAGE] = OPEN_SIGN
                wholes[HEAD] = np.int64(head)
                return True
            sign[t - 1] = 1 if (answer == coins.NO) == (alpha >= 0.0) else -1
        k = index[t - 1] = wholes[COLUMN]
        wholes[STAGE] = PROPOSING
        table.advance(s.csc, k, t, sign[t - 1], law, s.rows, s.ties.columns, s.sums, s.clock)
        wholes[KNOWN] = 0
    return False


def _settle_coin(s: Sampler, sign: NDArray[np.int8]) -> None:
    """The answer to the coin that the kernel left open, from the score in whole steps."""
    data, indices, indptr = s.csc
    law = s.law
    wholes = s.wholes
    reals = s.reals
    t, k, head = (int(wholes[i]) for i in (ROUND, COLUMN, HEAD))
    start = indptr[k]
    stop = indptr[k + 1]
    m = _factor(law.radius, t)
    steps = score(data, indices, start, stop, s.rows.pairs, m, law.loss, law.limit, law.bound, 1.0 / law.grid)
    log_weight = Fraction(law.c) * Fraction(law.grid) * int(steps)
    if wholes[STAGE] == OPEN_SIGN:
        other = coins.settle(s.stream, head, coins.sign_between(log_weight))
        sign[t - 1] = -1 if other == (log_weight >= 0) else 1
        wholes[STAGE] = SIGNED
        return
    shares = indptr.size - 1 if stop - start <= s.light.nnz else 1  # light columns share one envelope
    factor = Fraction(float(reals[SIZE])) * shares / int(s.totals[AGAINST])
    between = coins.weight_between(log_weight, Fraction(float(reals[REF])), factor)
    wholes[STAGE] = ACCEPTED if coins.settle(s.stream, head, between) else PROPOSING


def exact_picks(
    data: Array,
    indices: Array,
    indptr: Array,
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

    No column may hold a row twice (`sum_duplicates`): it would count as two values, each within the bound.
    Memory beside the matrix: 48 bytes a row, and 296 bytes for each heavy column; with the logistic loss and heavy
    columns 48 bytes a row more.
    """
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    # within these limits squares and their products stay finite: a bound of a score that is NaN bounds nothing
    limits = {"radius": LARGEST**2, "scale": LARGEST**2, "feature_bound": LARGEST, "residual_bound": LARGEST}
    for (name, most), value in zip(limits.items(), (radius, scale, feature_bound, residual_bound), strict=True):
        if not 1.0 / most <= value <= most:
            raise InvalidInput(
                f"{name} must be between {1.0 / most:.0e} and {most:.0e}; got {value}. It must not come from the data."
            )
    bounds = constants(loss, residual_bound, float(np.abs(y).max()))
    # the grid is public: it follows from the bounds and the number of rows, not from the longest column
    grid = grid_of(y.size, feature_bound * bounds[2])
    settings = (radius, scale, feature_bound, residual_bound, *bounds, grid)
    sampler = make_sampler((data, indices, indptr), y, Law(int(loss), *map(float, settings)), stream)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    while _exact_kernel(sampler, picks.columns, picks.signs):
        _settle_coin(sampler, picks.signs)
    counts = sampler.counts.tolist()
    if counts[VIOLATIONS]:
        raise ColonnadeError(
            "a score exceeded its bound: the picks are not draws of the mechanism and were discarded. This is a fault "
            "of the library; please report the sizes of the data."
        )
    return picks, Counts(*(counts[i] for i in (EVALUATIONS, REBUILDS, SNAPSHOTS, HEAVY, WORK, PASSES)))
