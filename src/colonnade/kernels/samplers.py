"""Private Frank-Wolfe on sparse data: an exact draw of the exponential mechanism that never keeps the scores.

Claim    pick t is one draw of the exponential mechanism over the 2d signed coordinates, P(k, s) ∝ exp(c·s·α_k),
         α = Xᵀq the sum gradient at the current model: weight 2cosh(cα_k) for k, then the sign s with
         probability sigmoid(2cα_k). The sign is the gradient's; the vertex taken is its opposite.
Source   ours. Rejection: propose k from an upper bound of its weight, compute α_k in one pass over column k,
         accept in proportion. Every attempt accepts k in proportion to its true weight, so bounds may be
         tightened between attempts and the law stays what it is.
Leaves   the picks, and nothing else, may leave. The counters and the running time depend on the data.
Price    ρ = Δ²c²/2 a pick, Δ = 2·feature_bound·cap, cap = 1 (logistic) or residual_bound (the others).

Sensitivity is exact. Values are clipped to ±feature_bound where they are read, slopes are within ±cap, and every
product x·q is cut *towards zero* to a whole number of grid steps before it is added as an int64: a row moves a
score by at most feature_bound·cap whatever the rounding, and the score does not depend on the order of addition.
The cut moves a score by less than nnz_k·grid (grid = 2^-61 times the largest score that n rows
could give, rounded up to a power of two: public).

How far from the ideal law. Proposals among heavy columns are uniform integers below a sum of integer envelopes:
no rounding there. What is left: (1) a heavy weight is cosh(cα) in double precision, relative error at most
(c|α| + 64)·2^-52, then cut to an integer, at most heavy + 2 units of a total kept above 2^54; (2) a light column is
accepted by comparing a uniform double (k + ½)/2^52 with a probability, and so is the sign, each off by at most
2^-51. In total variation, one pick is within 2·(c·max|α| + 64)·2^-52 + (heavy + 2)·2^-54 + 2^-49 of the exponential
mechanism on the scores above: 1e-11 for a million heavy columns and c|α| = 10,000, to be multiplied by the
number of picks and added to delta. Randomness is a ChaCha20 stream.

Bounds may never be broken by rounding; with eps = 2^-53 each has its margin:
- v_i is computed as fl(m·u_i), m = fl(2·radius/((t+1)(t+2))): three roundings of m, one of the product, and one
  of u_i at each pick that touches row i, all relative to |v_i|: less than DRIFT = 2^-49 a step. It acts like a
  little more shrinking of v_i, so the clocks that pay for shrinking count (step + DRIFT).
- a computed slope is within 8·eps·cap of the true one (exp to an ulp, four operations), a product within
  eps·bound·cap, and cutting shifts a product by less than a grid step: between two evaluations a score can
  move by nnz_k·pad more than the true score, pad = grid + 32·eps·bound·cap. pad is added once to every stored score.
- sums of up to 2^25 non-negative terms (column norms, jumps) lose at most 2^25·eps < SLACK = 1e-8, relatively.
- clocks only grow, and every addition is rounded up by the factor 1 + 2^-51.
- Σ|u_i|, Σu_i² and Σu_i·v⁰_i (v⁰ the predictions at the last snapshot) are kept incrementally; their rounding error
  is bounded at every pick and added.

Four ways to bound a score, with κ = max|q'|: its value when last seen plus the smaller of
  shrinking: min(Σ|x|·worst row, max|x|·all rows)  +  jumps: min(max|x|·all rows, Σ|x|·worst row),
  κ·‖x_k‖·(length of the path of v since then);
its value at the last snapshot plus κ·‖x_k‖·‖v − v⁰‖, which knows that steps cancel; and Σ|x|·cap. The sums that
this needs cost one pass over the picked column a step. A snapshot, the scores of all columns that matter, is taken
when as much work has been wasted on rejected proposals as it costs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.kernels.sparse_fw import (
    LOGISTIC,
    Floats,
    Ints,
    Loss,
    Picks,
    check_problem,
    exp_negative,
    logistic_slope,
    residual_slope,
    slopes,
)
from colonnade.kernels.stream import Stream, below, open_uniform

DRIFT = 2.0**-49
SLACK = 1e-8
ROUND_UP = 1.0 + 2.0**-51
MARGIN = 1.0 + 2.0**-40  # far above the few ulps by which two calls of exp may disagree about which is larger

THETA = 0.5  # a column is light if c·|its score| can never exceed this: one envelope serves all of them
EAGER = 3.0  # heavy columns that could weigh exp(3) are evaluated before the first pick
CUT = 44.0  # exp(-44) of the largest envelope is below one unit of the integers: 2^62·exp(-44) < 1
FAR = 60.0  # columns below exp(-60) of the largest envelope are left alone until a farther horizon
FIRST_HORIZON = 4.0  # steps that the first envelopes are made to last
LARGEST_TOTAL = 2.0**61

# columns of the table of heavy columns; five stamps follow STAMP
SCORE, CAP, NORM, TOP, ROOT, SNAPSHOT, MEASURED, NEAR, STAMP, WIDTH = 0, 1, 2, 3, 4, 5, 6, 7, 8, 13

# what things cost, in nonzeros read: an evaluation needs an exponential for each, a rebuild one for each column
EVALUATE, REBUILD = 3, 3

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


@njit(inline="always")
def _clipped(x: Any, bound: float) -> Any:
    """x within ±bound, as a double; comparisons are written so that NaN becomes `bound`."""
    below_top = np.float64(x) if np.float64(x) < bound else bound
    return below_top if below_top > -bound else -bound


@njit(cache=True, error_model="numpy")
def _score(
    data: NDArray[Any],
    indices: NDArray[Any],
    start: int,
    stop: int,
    rows: Floats,
    m: float,
    loss: int,
    limit: float,
    bound: float,
    steps: float,
) -> Any:
    """The column's score as a whole number of grid steps; `steps` is one over the grid, a power of two."""
    total = np.int64(0)
    for z in range(start, stop):
        x = _clipped(data[z], bound)
        i = indices[z]
        u = rows[i, 0]
        y = rows[i, 1]
        q = logistic_slope(m * u, y) if loss == LOGISTIC else residual_slope(loss, m * u, y, limit)
        total += np.int64(x * q * steps)
    return total


@njit(cache=True)
def _score_from_slopes(
    data: NDArray[Any], indices: NDArray[Any], start: int, stop: int, q: Floats, bound: float, steps: float
) -> Any:
    """The same number as `_score`, when the slopes of all rows are at hand."""
    total = np.int64(0)
    for z in range(start, stop):
        total += np.int64(_clipped(data[z], bound) * q[indices[z]] * steps)
    return total


@njit(cache=True)
def _measure(data: NDArray[Any], start: int, stop: int, bound: float, x: int, heavy: Floats) -> None:
    """Puts upper bounds of Σ|x|, max|x| and (Σx²)^½ of a column into its row of the table."""
    norm = 0.0
    top = 0.0
    square = 0.0
    for z in range(start, stop):
        a = abs(_clipped(data[z], bound))
        norm += a
        square += a * a
        top = max(top, a)
    heavy[x, NORM] = norm * (1.0 + SLACK)
    heavy[x, TOP] = top
    heavy[x, ROOT] = math.sqrt(square) * (1.0 + SLACK)
    heavy[x, MEASURED] = 1.0


@njit(cache=True)
def _snapshot(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    rows: Floats,
    m: float,
    loss: int,
    limit: float,
    bound: float,
    grid: float,
    pad: float,
    which: Ints,
    clock: Floats,
    q: Floats,
    past: Floats,
    heavy: Floats,
) -> Any:
    """Evaluates the near columns; past = v. Returns Σ|u|, Σu² and Σv²."""
    steps = 1.0 / grid
    mass, energy, energy_v = 0.0, 0.0, 0.0
    for i in range(past.size):
        past[i] = m * rows[i, 0]
    slopes(loss, limit, y, past, q)
    for i in range(past.size):
        u = rows[i, 0]
        mass += abs(u)
        energy += u * u
        energy_v += past[i] * past[i]
    for x in range(which.size):
        if heavy[x, NEAR] == 0.0:
            heavy[x, SNAPSHOT] = math.inf  # the point it was measured from is gone; its clocks remain
            continue
        start, stop = indptr[which[x]], indptr[which[x] + 1]
        if heavy[x, MEASURED] == 0.0:
            _measure(data, start, stop, bound, x, heavy)
        total = _score_from_slopes(data, indices, start, stop, q, bound, steps)
        heavy[x, SCORE] = abs(total) * grid + (stop - start) * pad
        heavy[x, SNAPSHOT] = heavy[x, SCORE]
        for g in range(5):
            heavy[x, STAMP + g] = clock[g]
    return mass, energy, energy_v


@njit(cache=True)
def _half_width(heavy: Floats, x: int, horizon: Floats) -> Any:
    """How far the score of heavy column x may have moved, from its stamps to the horizon."""
    shrunk = min(heavy[x, NORM] * (horizon[0] - heavy[x, STAMP]), heavy[x, TOP] * (horizon[1] - heavy[x, STAMP + 1]))
    jumped = min(
        heavy[x, TOP] * (horizon[2] - heavy[x, STAMP + 2]),
        heavy[x, NORM] * (horizon[3] - heavy[x, STAMP + 3]),
    )
    return min(shrunk + jumped, heavy[x, ROOT] * (horizon[4] - heavy[x, STAMP + 4]))


@njit(cache=True)
def _log_bound(heavy: Floats, x: int, horizon: Floats, c: float) -> Any:
    """An upper bound of c·|score| of heavy column x that holds until the horizon."""
    since_seen = heavy[x, SCORE] + _half_width(heavy, x, horizon)
    since_snapshot = heavy[x, SNAPSHOT] + heavy[x, ROOT] * horizon[5]
    return c * min(heavy[x, CAP], since_seen, since_snapshot) * (1.0 + SLACK)


@njit(cache=True, error_model="numpy")
def _scaled_cosh(a: float, ref: float) -> Any:
    """cosh(a)·exp(-ref) for a >= 0, ref >= 0 and |a - ref| < 700."""
    if a > 20.0:
        return 0.5 * exp_negative(ref - a)  # exp(-2a) is below an ulp of 1
    return 0.5 * exp_negative(ref - a) * (1.0 + exp_negative(2.0 * a))


@njit(cache=True)
def _small_cosh(a: float) -> Any:
    """cosh(a) for |a| <= THETA to the last ulps: the first term left out is a^14/14! < 1e-15."""
    s = a * a
    return 1.0 + s / 2.0 * (1.0 + s / 12.0 * (1.0 + s / 30.0 * (1.0 + s / 56.0 * (1.0 + s / 90.0 * (1.0 + s / 132.0)))))


@njit(cache=True)
def _select_near(
    heavy: Floats,
    horizon: Floats,
    far_horizon: Floats,
    c: float,
    near: Ints,
    envelope: NDArray[np.uint64],
    groups: NDArray[np.uint64],
) -> Any:
    """Lists the columns that matter; returns their number and the largest bound among the others.

    The others stay below exp(-FAR) of the largest envelope until the far horizon. Their envelopes are 0, as their
    weights would be after cutting to integers, and nobody looks at them until then.
    """
    top = THETA
    for x in range(heavy.shape[0]):
        top = max(top, _log_bound(heavy, x, horizon, c))
    envelope[:] = uint64(0)
    groups[:] = uint64(0)
    count = 0
    far_top = -math.inf
    for x in range(heavy.shape[0]):
        b = _log_bound(heavy, x, far_horizon, c)
        if b < top - FAR:
            heavy[x, NEAR] = 0.0
            far_top = max(far_top, b)
        else:
            heavy[x, NEAR] = 1.0
            near[count] = x
            count += 1
    return count, far_top


@njit(cache=True)
def _rebuild(
    heavy: Floats,
    horizon: Floats,
    c: float,
    light: float,
    shift: int,
    near: Ints,
    count: int,
    scratch: Floats,
    envelope: NDArray[np.uint64],
    groups: NDArray[np.uint64],
) -> Any:
    """New integer envelopes for the near columns; returns (ref, size, light total, total).

    An envelope is floor(MARGIN·size·cosh(bound)·exp(-ref)), a weight floor(size·cosh(cα)·exp(-ref)): cutting is
    monotone, so the envelope is not below the weight.
    """
    ref = THETA
    for i in range(count):
        scratch[i] = _log_bound(heavy, near[i], horizon, c)
        ref = max(ref, scratch[i])
    sum_light = light * math.exp(-ref)
    total = sum_light
    for i in range(count):
        # size is at most 2^62, so that below exp(-CUT) of the largest floor(...) is 0: no exponential needed
        scratch[i] = MARGIN * _scaled_cosh(scratch[i], ref) if scratch[i] - ref > -CUT else 0.0
        total += scratch[i]
    size = LARGEST_TOTAL / total
    groups[:] = uint64(0)
    light_total = uint64(sum_light * size)
    all_total = light_total
    for i in range(count):
        x = near[i]
        envelope[x] = uint64(scratch[i] * size)
        groups[x >> shift] += envelope[x]
        all_total += envelope[x]
    return ref, size, light_total, all_total


@njit(cache=True)
def _locate(r: Any, envelope: NDArray[np.uint64], groups: NDArray[np.uint64], shift: int) -> Any:
    """The heavy column in whose envelope the integer r falls."""
    g = 0
    while r >= groups[g]:
        r -= groups[g]
        g += 1
    x = g << shift
    while r >= envelope[x]:
        r -= envelope[x]
        x += 1
    return x


@njit(cache=True)
def _passed(clock: Floats, horizon: Floats) -> Any:
    passed = False
    for g in range(6):
        passed = passed or clock[g] > horizon[g]
    return passed


@njit(cache=True)
def _exact_kernel(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    loss: int,
    radius: float,
    c: float,
    bound: float,
    limit: float,
    constants: Floats,
    stream: Stream,
    index: Ints,
    sign: NDArray[np.int8],
    counts: Ints,
) -> None:
    curvature, sway, cap, span, reach, grid = constants
    n = y.size
    d = indptr.size - 1
    steps = 1.0 / grid
    pad = grid + 2.0**-48 * bound * cap
    rows = np.empty((n, 2))  # u_i beside y_i: one cache line serves both
    rows[:, 0] = 0.0
    rows[:, 1] = y
    past = np.zeros(n)  # predictions at the last snapshot, and the slopes there
    tilt = np.empty(n)
    slopes(loss, limit, y, past, tilt)
    # 0, 1: shrinking, worst row and all rows; 2, 3: jumps, all rows and worst row; 4: path of v; 5: v from the snapshot
    clock = np.zeros(6)
    horizon = np.full(6, -1.0)
    far_horizon = np.full(6, -1.0)
    pace = np.zeros(6)

    # light and heavy columns
    unit = c * bound * cap * (1.0 + SLACK)
    light_nnz = int(min(THETA / unit, float(n)))
    light_envelope = _small_cosh(THETA) * MARGIN
    light = d * light_envelope
    count = 0
    for j in range(d):
        if indptr[j + 1] - indptr[j] > light_nnz:
            count += 1
    counts[HEAVY] = count
    heavy = np.zeros((count, WIDTH))
    which = np.empty(count, dtype=np.int64)
    snapshot_cost = EVALUATE * n + 0.0
    x = 0
    for j in range(d):
        start, stop = indptr[j], indptr[j + 1]
        if stop - start <= light_nnz:
            continue
        which[x] = j
        if unit * (stop - start) > EAGER:
            _measure(data, start, stop, bound, x, heavy)
            alpha = abs(_score_from_slopes(data, indices, start, stop, tilt, bound, steps)) * grid
            counts[WORK] += stop - start
            heavy[x, SCORE] = alpha + (stop - start) * pad
            heavy[x, SNAPSHOT] = heavy[x, SCORE]
            heavy[x, CAP] = min(heavy[x, NORM] * cap, heavy[x, NORM] * reach + alpha) + (stop - start) * pad
        else:
            heavy[x, NORM] = bound * (stop - start)
            heavy[x, TOP] = bound
            heavy[x, ROOT] = bound * math.sqrt(stop - start)
            heavy[x, CAP] = heavy[x, NORM] * cap
            heavy[x, SCORE] = heavy[x, CAP]
            heavy[x, SNAPSHOT] = heavy[x, CAP]
        x += 1
    shift = 6
    while (1 << (2 * shift)) < count:
        shift += 1
    envelope = np.zeros(count, dtype=np.uint64)
    scratch = np.empty(count)
    near = np.empty(count, dtype=np.int64)
    near_count, far_top = count, -math.inf
    groups = np.zeros((count >> shift) + 1, dtype=np.uint64)

    ref, size = THETA, 1.0
    light_total = total = total_at_rebuild = uint64(1) << uint64(60)  # all columns light: no envelopes, no first draw
    length = FIRST_HORIZON
    wasted, rejections, spent, last_rebuild, last_jumps, last_path = 0.0, 0, 0.0, 0, 0.0, 0.0
    mass, top_v = 0.0, 0.0  # upper bounds of Σ|u_i| and max|v_i|
    energy, energy_error = 0.0, 0.0  # Σu_i²
    cross, cross_error = 0.0, 0.0  # Σ u_i·past_i
    past_energy = 0.0
    m = radius
    for t in range(1, index.size + 1):
        eta = 2.0 / (t + 2.0)
        shrink = min(sway * (DRIFT - math.log1p(-eta)), curvature * (eta + DRIFT) * top_v)
        stale = count > 0 and _passed(clock, horizon)
        if stale and t > 1 and wasted < near_count:
            length = min(1.6 * max(length, 0.5), 0.5 * t + 4.0)
        pulled = False
        while True:
            if spent > snapshot_cost:
                # enough was wasted to pay for knowing every score again
                mass, energy, past_energy = _snapshot(
                    data,
                    indices,
                    indptr,
                    y,
                    rows,
                    m,
                    loss,
                    limit,
                    bound,
                    grid,
                    pad,
                    which,
                    clock,
                    tilt,
                    past,
                    heavy,
                )
                mass *= 1.0 + SLACK
                energy_error = energy * n * 2.0**-51
                past_energy *= 1.0 + n * 2.0**-51
                cross, cross_error = energy * m, energy_error * m
                clock[5], spent, stale, pulled = 0.0, -2.0 * REBUILD * count, True, False
                far_horizon[:] = -1.0  # what was far from the old snapshot may not be far from this one
                counts[SNAPSHOTS] += 1
            if stale and not pulled:
                # where the clocks should be after `length` more steps like the last ones
                pace[0] = shrink + 1e-12
                pace[1] = 1.05 * (curvature * eta * m * mass + 1e-9)
                pace[2] = 1.5 * (clock[2] - last_jumps) / max(1, t - last_rebuild) + 1e-6
                pace[3] = curvature * eta * radius * bound
                pace[4] = 1.2 * last_path
                pace[5] = last_path
                for g in range(6):
                    horizon[g] = clock[g] + length * pace[g]
                wasted, rejections, last_rebuild, last_jumps = 0.0, 0, t, clock[2]
            if stale or total <= total_at_rebuild >> uint64(7):
                # the second case: the envelopes have shrunk below what integers of this size resolve
                select = _passed(clock, far_horizon)
                while True:
                    if select:
                        for g in range(6):
                            far_horizon[g] = horizon[g] + (4.0 + 4.0 * length + 0.05 * t) * pace[g]
                        near_count, far_top = _select_near(heavy, horizon, far_horizon, c, near, envelope, groups)
                        snapshot_cost = EVALUATE * n + 2.0 * REBUILD * count  # it makes all envelopes anew
                        for i in range(near_count):
                            snapshot_cost += indptr[which[near[i]] + 1] - indptr[which[near[i]]]
                        spent += REBUILD * count
                    ref, size, light_total, total = _rebuild(
                        heavy, horizon, c, light, shift, near, near_count, scratch, envelope, groups
                    )
                    spent += REBUILD * near_count
                    counts[REBUILDS] += 1
                    if select or ref >= far_top + CUT:
                        break
                    select = True  # the near columns have come down to where the others might be
                total_at_rebuild, stale = total, False
            r = below(stream, total) if count > 0 else uint64(0)
            if r < light_total:
                k = np.int64(below(stream, d))
                start, stop = indptr[k], indptr[k + 1]
                if stop - start > light_nnz:
                    continue
                target = open_uniform(stream) * light_envelope
                if target > _small_cosh(unit * (stop - start)) * MARGIN:
                    continue  # no score this column can have would be accepted
                alpha = c * grid * _score(data, indices, start, stop, rows, m, loss, limit, bound, steps)
                weight = _small_cosh(alpha)
                counts[EVALUATIONS] += 1
                counts[WORK] += stop - start
                if weight > light_envelope:
                    counts[VIOLATIONS] += 1
                if target <= weight:
                    break
                counts[REJECTED] += 1
                continue
            x = _locate(r - light_total, envelope, groups, shift)
            k = which[x]
            start, stop = indptr[k], indptr[k + 1]
            score = grid * _score(data, indices, start, stop, rows, m, loss, limit, bound, steps)
            alpha = c * score
            counts[EVALUATIONS] += 1
            counts[WORK] += stop - start
            weight_now = uint64(size * _scaled_cosh(abs(alpha), ref)) if abs(alpha) - ref > -CUT else uint64(0)
            old = envelope[x]
            if weight_now > old:
                counts[VIOLATIONS] += 1
            accepted = below(stream, old) < weight_now
            if heavy[x, MEASURED] == 0.0:
                _measure(data, start, stop, bound, x, heavy)
                heavy[x, CAP] = min(heavy[x, CAP], heavy[x, NORM] * cap + (stop - start) * pad)
            heavy[x, SCORE] = abs(score) + (stop - start) * pad
            for g in range(5):
                heavy[x, STAMP + g] = clock[g]
            new = _log_bound(heavy, x, horizon, c)
            envelope_now = uint64(MARGIN * size * _scaled_cosh(new, ref)) if new - ref > -CUT else uint64(0)
            if envelope_now < old:
                envelope[x] = envelope_now
                groups[x >> shift] -= old - envelope_now
                total -= old - envelope_now
            if accepted:
                break
            counts[REJECTED] += 1
            wasted += stop - start
            spent += EVALUATE * (stop - start)
            rejections += 1
            if wasted > near_count and ((wasted > 4.0 * near_count and rejections >= 2) or new - abs(alpha) > 2.0):
                # the horizon was too far: pull it in, or proposals go on being turned down
                length = 0.25 * length if length >= 2.0 else 0.0
                for g in range(6):
                    horizon[g] = clock[g] + (0.25 * (horizon[g] - clock[g]) if length > 0.0 else 0.0)
                stale = pulled = True
                wasted, rejections = 0.0, 0

        s = 1 if open_uniform(stream) <= 1.0 / (1.0 + math.exp(-2.0 * alpha)) else -1
        index[t - 1] = k
        sign[t - 1] = s

        # the step: v shrinks by 1 - eta everywhere and jumps by eta·radius·x where column k is
        old_m = m
        m = 2.0 * radius / ((t + 1.0) * (t + 2.0))
        step = -s * (t + 1.0)
        change, jumps, jump_top, norm, top = 0.0, 0.0, 0.0, 0.0, 0.0
        square, along, along_past, energy_change = 0.0, 0.0, 0.0, 0.0
        for z in range(indptr[k], indptr[k + 1]):
            xi = _clipped(data[z], bound)
            i = indices[z]
            u = rows[i, 0]
            u_now = u + step * xi
            rows[i, 0] = u_now
            change += abs(u_now) - abs(u)
            energy_change += (u_now - u) * (u_now + u)
            norm += abs(xi)
            top = max(top, abs(xi))
            square += xi * xi
            along += xi * u
            along_past += xi * past[i]
            jump = min(span, curvature * eta * radius * abs(xi)) * (1.0 + SLACK)
            jumps += jump
            jump_top = max(jump_top, jump)
        nnz = indptr[k + 1] - indptr[k]
        rounding = (nnz + 8) * 2.0**-51
        clock[0] = (clock[0] + shrink) * ROUND_UP
        clock[1] = (clock[1] + curvature * (eta + DRIFT) * old_m * mass) * ROUND_UP
        clock[2] = (clock[2] + jumps * (1.0 + SLACK)) * ROUND_UP
        clock[3] = (clock[3] + jump_top) * ROUND_UP
        # |change of v|² = eta²·|v + radius·s·x|²: shrinking and jumping may cancel
        length_v = old_m * math.sqrt(energy + energy_error) * (1.0 + SLACK)
        length_x = radius * math.sqrt(square) * (1.0 + SLACK)
        move = length_v * length_v + length_x * length_x
        move += 2.0 * radius * s * old_m * along + rounding * 2.0 * length_v * length_x
        last_path = curvature * ((eta + DRIFT) * math.sqrt(max(move, 0.0)) * (1.0 + SLACK) + DRIFT * length_v)
        clock[4] = (clock[4] + last_path) * ROUND_UP
        mass += change + (mass + abs(step) * norm) * rounding
        energy_error += rounding * (energy + abs(energy_change) + (abs(step) * length_x / radius) ** 2)
        energy += energy_change
        top_v = (top_v * (1.0 - eta) + eta * radius * top) * (1.0 + SLACK)
        # |v - past|² from three sums, each with its error
        cross += step * along_past
        cross_error += rounding * (abs(cross) + abs(step) * math.sqrt(square * past_energy))
        away = m * m * (energy + energy_error) + past_energy - 2.0 * m * (cross - cross_error)
        away += 2.0**-49 * (m * m * energy + past_energy)
        clock[5] = curvature * (math.sqrt(max(away, 0.0)) * (1.0 + SLACK) + (t + 1) * DRIFT * (length_v + length_x))


def _constants(loss: Loss, residual_bound: float, largest_label: float) -> tuple[float, float, float, float, float]:
    """(curvature, sway, cap, span, reach): max of |q'|, |v·q'(v)|, |q|, the width of q's range, |q − q(0)|."""
    r = residual_bound
    if loss == Loss.LOGISTIC:
        return 0.25, 0.2239, 1.0, 1.0, 0.5  # max of v·sigmoid'(v) is 0.22387…
    if loss == Loss.SQUARED:
        return 1.0, r + largest_label, r, 2.0 * r, 2.0 * r
    return 1.0, max(1.0, r - 1.0), r, r, r


def exact_picks(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: Loss,
    radius: float,
    rounds: int,
    scale: float,
    feature_bound: float,
    stream: Stream,
    residual_bound: float = 1.0,
) -> tuple[Picks, Counts]:
    """`rounds` picks of private Frank-Wolfe; `scale` is c = 1/b, b the Gumbel scale that the budget buys.

    Memory beside the matrix: 32 bytes a row, and 136 bytes for each heavy column.
    """
    check_problem(data, indices, indptr, y, loss, radius, rounds)
    for name, value in (
        ("scale", scale),
        ("feature_bound", feature_bound),
        ("residual_bound", residual_bound),
    ):
        if not (math.isfinite(value) and value > 0.0):
            raise InvalidInput(f"{name} must be positive and finite; got {value}. It must not come from the data.")
    largest_label = float(np.abs(y).max())
    constants = _constants(loss, residual_bound, largest_label)
    # the grid is public: it follows from the bounds and the number of rows, not from the longest column
    grid = 2.0 ** (math.ceil(math.log2(feature_bound * constants[2] * y.size)) - 61)
    picks = Picks(np.empty(rounds, dtype=np.int64), np.empty(rounds, dtype=np.int8))
    counts = np.zeros(7, dtype=np.int64)
    _exact_kernel(
        data,
        indices,
        indptr,
        y,
        int(loss),
        radius,
        scale,
        feature_bound,
        residual_bound,
        np.array([*constants, grid]),
        stream,
        picks.columns,
        picks.signs,
        counts,
    )
    if counts[VIOLATIONS]:
        raise ColonnadeError(
            "a score exceeded its bound: the picks are not draws of the mechanism and were discarded. This is a fault of "
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
