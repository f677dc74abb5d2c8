"""How far a column's score can have moved since it was last seen: clocks, and what they cost to keep.

Claim    |score of column k now| ≤ `log_bound`/c, in real arithmetic and in every rounding of it.
Source   ours.
Leaves   nothing: arrays in, arrays out.
Price    one pass over the picked column a step, 30 doubles a heavy column.

The state is v = m·u. A step shrinks all of v by 1 − eta and adds eta·radius·x where the picked column is. With κ =
max|q'|, a score moves by at most the smaller of
  shrinking + jumps, where
    shrinking is min(Σ|x|·worst row, max|x|·all rows), or, by the trend seen at the last evaluation and the factor r
    by which m fell since, a known line with an error of ½·((1 − r)/r)²·bend (see `column_scores`);
    jumps are min(max|x|·all rows, Σ|x|·worst row, ‖x‖·their lengths);
  κ·‖x_k‖·(length of the path of v since then);
and it is within κ·‖x_k‖·‖v − v⁰‖ of its value at the last snapshot, which knows that steps cancel, and within Σ|x|·cap
of 0. By Taylor it is also, with v⁰ the predictions at the snapshot and h_j the steps of tied columns x_j since, within
  ½·CURVE·max|x|·‖v − v⁰‖² + the jumps of columns that are not tied
of the line  score⁰ + (m/m⁰ − 1)·trend⁰ + m·Σ_j h_j <x∘q'(v⁰), x_j>,  whose products are taken once at the snapshot.

Bounds may never be broken by rounding; with eps = 2^-53 each has its margin:
- v_i is computed as fl(m·u_i), m = fl(2·radius/((t+1)(t+2))): three roundings of m, one of the product, and one
  of u_i at each pick that touches row i, all relative to |v_i|: less than DRIFT = 2^-49 a step. It acts like a
  little more shrinking of v_i, so the clocks that pay for shrinking count (step + DRIFT); beside the trend, which has
  |v·q'(v)| < 1/4, it costs Σ|x|·DRIFT a step, and DUST counts the steps.
- a computed slope is within 8·eps·cap of the true one (exp to an ulp, four operations), a product within
  eps·bound·cap, and cutting shifts a product by less than a grid step: between two evaluations a score can
  move by nnz_k·pad more than the true score, pad = grid + 32·eps·bound·cap. It is added once to every bound.
- sums of up to 2^25 non-negative terms (column norms, jumps, bends) lose at most 2^25·eps < SLACK = 1e-8, relatively,
  in whatever order they are taken.
- a product <x∘q'(v⁰), x_j> is within TIE_ERROR·Σ|x|·bound of the true one, and predictions within DRIFT·radius·bound a
  step of what the line supposes: BLUR counts both.
- clocks only grow, and every addition is rounded up by the factor 1 + 2^-51.
- Σ|u_i|, Σu_i² and Σu_i·v⁰_i (v⁰ the predictions at the last snapshot) are kept incrementally; their rounding error
  is bounded at every pick and added, with a FLOOR for squares too small for a double's relative error.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.arrays import Csc, Floats, Indices
from colonnade.kernels.column_scores import CURVE, clipped, is_full, score_from_slopes, sizes, tie_sums
from colonnade.kernels.sparse_fw import LOGISTIC, LossCode

DRIFT = 2.0**-49
SLACK = 1e-8
TIE_ERROR = 3e-8  # of a tie, beside Σ|x|·bound: single precision, 2^-26, and a sum in any order
ROUND_UP = 1.0 + 2.0**-51
FLOOR = 2.0**-1060  # over what a product below the normal numbers, and all that is done with it, is rounded by

# columns of the table of heavy columns. PAD: what rounding may add to the score; the stamps are the clocks' STAMPS
# first. SNAPSHOT, SLOPE and the ties from TIE on: score, trend and <x∘q'(v), tied column> at snapshot number TAKEN
(SCORE, TREND, BEND, SNAPSHOT, TAKEN, CAP, NORM, TOP, ROOT, PAD, MEASURED, FULL, HOT, STAMP, SLOPE, TIE, WIDTH) = (
    *range(14),
    21,
    22,
    30,
)

# clocks. Shrinking: worst row, all rows; jumps: all rows, worst row, their lengths; the path of v; 1/m (its stamp is m)
# and the number of steps, for the trend; without a stamp, the distance of v from the last snapshot
SHRINK_TOP, SHRINK_SUM, JUMP_SUM, JUMP_TOP, JUMP_PATH, PATH, AGE, DUST, AWAY = range(9)
STAMPS = 8
CLOCKS = 9
EPOCH = 9  # not a clock, but kept with them: the number of the last snapshot

# running sums over rows: Σ|u|, max|v|, Σu² and its error, Σu·v⁰ and its error, Σ(v⁰)²; and what the last step did
MASS, TOP_V, ENERGY, ENERGY_ERROR, CROSS, CROSS_ERROR, PAST, LAST_PATH, LAST_JUMP = range(9)
# since the last snapshot: its m; Σ|step| times length, Σ|x| and max|x| of the columns picked that are not tied; and the
# steps of each tied one
M_THEN, REST_LENGTH, REST_SUM, REST_TOP, STEPS = range(9, 14)
TIES = 8
SUMS = STEPS + TIES

# what is known now of how far all scores are from the last snapshot, beside the clocks: the factor of the slope, of the
# error of second order, of the columns that are not tied, of rounding; and of each tie
LINE, CURVED, NOW_LENGTH, NOW_SUM, NOW_TOP, BLUR, PULL = range(10, 17)
NOW = PULL + TIES
RECENT = 128  # picks by which the columns to tie are chosen
COVERED = 0.75  # of the lengths of recent steps: what tied columns must have made


class Law(NamedTuple):
    """What is public and stays: the scale c, bounds of features and residuals, `constants`, the grid of scores."""

    loss: int
    radius: float
    c: float
    bound: float
    limit: float
    curvature: float
    sway: float
    cap: float
    span: float
    reach: float
    grid: float


class Rows(NamedTuple):
    """What is kept of all rows. Slopes and leans are those of one step, v is scratch."""

    pairs: Floats  # u_i beside y_i: one cache line serves both
    y: Floats
    past: Floats
    v: Floats
    slope: Floats
    lean: Floats


class Ties(NamedTuple):
    """The columns that most recent steps went to: their effect on all scores is followed to second order."""

    columns: Indices  # -1 where there is none
    then: Floats  # slopes and leans of all rows at the last snapshot
    lean: Floats
    slopes: NDArray[np.float32]  # q'(v⁰)·x/bound of each, row by row: single precision spans them whatever the bound
    recent: Indices  # scratch
    share: Floats


def constants(loss: LossCode, residual_bound: float, largest_label: float) -> tuple[float, float, float, float, float]:
    """(curvature, sway, cap, span, reach): max of |q'|, |v·q'(v)|, |q|, the width of q's range, |q − q(0)|."""
    r = residual_bound
    if loss == LossCode.LOGISTIC:
        return 0.25, 0.2239, 1.0, 1.0, 0.5  # max of v·sigmoid'(v) is 0.22387…
    if loss == LossCode.SQUARED:
        return 1.0, r + largest_label, r, 2.0 * r, 2.0 * r
    return 1.0, max(1.0, r - 1.0), r, r, r


# rows of the table are named by number: a view of one would be counted in and out, atomically, at every call


@njit(cache=True)
def measure(csc: Csc, k: int, rows: int, law: Law, x: int, heavy: Floats) -> None:
    """Puts what is known of column k before any score into row x of the table: upper bounds of its sizes."""
    data, indices, indptr = csc
    start = indptr[k]
    stop = indptr[k + 1]
    norm, top, square = sizes(data, start, stop, law.bound)
    heavy[x, NORM] = norm * (1.0 + SLACK)
    heavy[x, TOP] = top
    heavy[x, ROOT] = math.sqrt(square) * (1.0 + SLACK)
    heavy[x, CAP] = heavy[x, NORM] * law.cap
    heavy[x, FULL] = 1.0 if is_full(indices, start, stop, rows) else 0.0
    heavy[x, MEASURED] = 1.0


@njit(cache=True)
def assume(nnz: int, law: Law, x: int, heavy: Floats) -> None:
    """The same from the number of nonzeros alone."""
    heavy[x, NORM] = law.bound * nnz
    heavy[x, TOP] = law.bound
    heavy[x, ROOT] = law.bound * math.sqrt(nnz) * (1.0 + SLACK)
    heavy[x, CAP] = heavy[x, NORM] * law.cap
    heavy[x, SCORE] = heavy[x, SNAPSHOT] = heavy[x, CAP]


@njit(cache=True)
def note(x: int, value: float, trend: float, bend: float, clock: Floats, heavy: Floats) -> None:
    """A heavy column was evaluated now."""
    heavy[x, SCORE] = value
    heavy[x, TREND] = trend
    heavy[x, BEND] = bend * (1.0 + SLACK)
    for g in range(STAMPS):
        heavy[x, STAMP + g] = clock[g]
    heavy[x, STAMP + AGE] = 1.0 / clock[AGE]


# written out, and told that nothing is NaN: the built-in min and max cost branches, three times this


@njit(inline="always")
def _less(a: float, b: float) -> Any:
    return a if a < b else b


@njit(inline="always")
def _followed(heavy: Floats, x: int, horizon: Floats, now: Floats) -> Any:
    """A bound from the last snapshot: its line and second-order error until now, and the clocks from now on."""
    norm = heavy[x, NORM]
    top = heavy[x, TOP]
    root = heavy[x, ROOT]
    line = heavy[x, SNAPSHOT] + now[LINE] * heavy[x, SLOPE]
    for g in range(TIES):
        line += now[PULL + g] * heavy[x, TIE + g]
    rest = _less(root * now[NOW_LENGTH], _less(top * now[NOW_SUM], norm * now[NOW_TOP]))
    shrinks = _less(
        norm * (horizon[SHRINK_TOP] - now[SHRINK_TOP]),
        top * (horizon[SHRINK_SUM] - now[SHRINK_SUM]),
    )
    jumps = _less(
        root * (horizon[JUMP_PATH] - now[JUMP_PATH]),
        _less(top * (horizon[JUMP_SUM] - now[JUMP_SUM]), norm * (horizon[JUMP_TOP] - now[JUMP_TOP])),
    )
    ahead = _less(shrinks + jumps, root * (horizon[PATH] - now[PATH]))
    return abs(line) + top * now[CURVED] + rest + norm * now[BLUR] + ahead


@njit(inline="always")
def _bound(heavy: Floats, x: int, horizon: Floats, now: Floats, c: float) -> Any:
    norm = heavy[x, NORM]
    top = heavy[x, TOP]
    root = heavy[x, ROOT]
    seen = abs(heavy[x, SCORE])
    shrunk = seen + _less(
        norm * (horizon[SHRINK_TOP] - heavy[x, STAMP + SHRINK_TOP]),
        top * (horizon[SHRINK_SUM] - heavy[x, STAMP + SHRINK_SUM]),
    )
    # with r = m at the horizon / m when last seen, over = (1 - r)/r is at least 1 - r: a line is largest at one of its
    # ends, and to follow it a little farther than needed spares a division
    over = horizon[AGE] * heavy[x, STAMP + AGE] - 1.0
    end = abs(heavy[x, SCORE] - over * heavy[x, TREND])
    line = seen if seen > end else end
    curved = line + 0.5 * over * over * heavy[x, BEND] + norm * (SLACK * over + DRIFT * (horizon[DUST] + 2.0))
    jumped = _less(
        root * (horizon[JUMP_PATH] - heavy[x, STAMP + JUMP_PATH]),
        _less(
            top * (horizon[JUMP_SUM] - heavy[x, STAMP + JUMP_SUM]),
            norm * (horizon[JUMP_TOP] - heavy[x, STAMP + JUMP_TOP]),
        ),
    )
    along = seen + root * (horizon[PATH] - heavy[x, STAMP + PATH])
    most = _less(heavy[x, CAP], _less(_less(shrunk, curved) + jumped, along))
    if heavy[x, TAKEN] == horizon[EPOCH]:
        most = _less(most, abs(heavy[x, SNAPSHOT]) + root * horizon[AWAY])
        if now[CURVED] >= 0.0:
            most = _less(most, _followed(heavy, x, horizon, now))
    return c * (most + heavy[x, PAD]) * (1.0 + SLACK)


@njit(cache=True, fastmath={"nnan", "nsz"})
def log_bound(heavy: Floats, x: int, horizon: Floats, now: Floats, c: float) -> Any:
    """An upper bound of c·|score| of heavy column x that holds until the horizon."""
    return _bound(heavy, x, horizon, now, c)


@njit(cache=True, fastmath={"nnan", "nsz"})
def log_bounds(heavy: Floats, members: Indices, horizon: Floats, now: Floats, c: float, out: Floats) -> Any:
    """The same for several columns; returns the largest, or 0."""
    top = 0.0
    for i in range(members.size):
        out[i] = _bound(heavy, members[i], horizon, now, c)
        top = out[i] if out[i] > top else top
    return top


@njit(cache=True, error_model="numpy", fastmath={"reassoc"})
def _push(csc: Csc, k: int, step: float, slope: float, law: Law, rows: Rows) -> Any:
    """u += step·column. Returns Σ over its rows of the change of |u|, of u², of x·u, x·v⁰, and its jumps."""
    data, indices, indptr = csc
    past = rows.past
    pairs = rows.pairs
    change = 0.0
    energy = 0.0
    along = 0.0
    along_past = 0.0
    jumps = 0.0
    for z in range(indptr[k], indptr[k + 1]):
        x = clipped(data[z], law.bound)
        i = indices[z]
        u = pairs[i, 0]
        now = u + step * x
        pairs[i, 0] = now
        change += abs(now) - abs(u)
        energy += step * x * (now + u)
        along += x * u
        along_past += x * past[i]
        jumps += min(law.span, slope * abs(x))
    return change, energy, along, along_past, jumps


@njit(cache=True)
def advance(csc: Csc, k: int, t: int, s: int, law: Law, rows: Rows, tied: Indices, sums: Floats, clock: Floats) -> None:
    """Step t: v shrinks by 1 - eta everywhere and loses eta·radius·s·x where the column is; clocks follow."""
    data, _, indptr = csc
    start = indptr[k]
    stop = indptr[k + 1]
    curvature = law.curvature
    radius = law.radius
    eta = 2.0 / (t + 2.0)
    old_m = 1.0 / clock[AGE]
    m = 2.0 * radius / ((t + 1.0) * (t + 2.0))
    step = -s * (t + 1.0)
    norm, top, square = sizes(data, start, stop, law.bound)
    slope = curvature * eta * radius
    change, energy_change, along, along_past, jumps = _push(csc, k, step, slope, law, rows)
    rounding = (stop - start + 8) * 2.0**-51
    clock[SHRINK_TOP] = (clock[SHRINK_TOP] + shrinking(t, law, sums)) * ROUND_UP
    clock[SHRINK_SUM] = (clock[SHRINK_SUM] + curvature * (eta + DRIFT) * old_m * sums[MASS]) * ROUND_UP
    clock[JUMP_SUM] = (clock[JUMP_SUM] + jumps * (1.0 + SLACK)) * ROUND_UP
    clock[JUMP_TOP] = (clock[JUMP_TOP] + min(law.span, slope * top) * (1.0 + SLACK)) * ROUND_UP
    # |change of v|² = eta²·|v + radius·s·x|²: shrinking and jumping may cancel
    length_v = old_m * math.sqrt(sums[ENERGY] + sums[ENERGY_ERROR]) * (1.0 + SLACK)
    length_x = radius * math.sqrt(square) * (1.0 + SLACK)
    sums[LAST_JUMP] = curvature * eta * length_x * (1.0 + SLACK)
    clock[JUMP_PATH] = (clock[JUMP_PATH] + sums[LAST_JUMP]) * ROUND_UP
    move = length_v * length_v + length_x * length_x
    move += 2.0 * radius * s * old_m * along + rounding * 2.0 * length_v * length_x
    sums[LAST_PATH] = curvature * ((eta + DRIFT) * math.sqrt(max(move, 0.0)) * (1.0 + SLACK) + DRIFT * length_v)
    clock[PATH] = (clock[PATH] + sums[LAST_PATH]) * ROUND_UP
    clock[AGE] = 1.0 / m
    clock[DUST] = t
    place = -1
    for g in range(TIES):
        place = g if tied[g] == k else place
    if place >= 0:
        sums[STEPS + place] += step
    else:
        sums[REST_LENGTH] += abs(step) * math.sqrt(square)
        sums[REST_SUM] += abs(step) * norm
        sums[REST_TOP] += abs(step) * top
    sums[MASS] += change + (sums[MASS] + abs(step) * norm) * rounding
    floor = (stop - start + 8) * FLOOR
    sums[ENERGY_ERROR] += rounding * (sums[ENERGY] + abs(energy_change) + (abs(step) * length_x / radius) ** 2) + floor
    sums[ENERGY] += energy_change
    sums[TOP_V] = (sums[TOP_V] * (1.0 - eta) + eta * radius * top) * (1.0 + SLACK)
    # |v - past|² from three sums, each with its error
    sums[CROSS] += step * along_past
    sums[CROSS_ERROR] += rounding * (abs(sums[CROSS]) + abs(step) * math.sqrt(square * sums[PAST])) + abs(step) * floor
    sums[CROSS_ERROR] += 2.0**-51 * math.sqrt((sums[ENERGY] + sums[ENERGY_ERROR]) * sums[PAST])  # u is rounded too
    away = m * m * (sums[ENERGY] + sums[ENERGY_ERROR]) + sums[PAST] - 2.0 * m * (sums[CROSS] - sums[CROSS_ERROR])
    away += 2.0**-49 * (m * m * sums[ENERGY] + sums[PAST]) + FLOOR
    clock[AWAY] = curvature * (math.sqrt(max(away, 0.0)) * (1.0 + SLACK) + (t + 1) * DRIFT * (length_v + length_x))


@njit(cache=True)
def shrinking(t: int, law: Law, sums: Floats) -> Any:
    """How far the shrinking of step t can move the slope of any one row."""
    eta = 2.0 / (t + 2.0)
    return min(law.sway * (DRIFT - math.log1p(-eta)), law.curvature * (eta + DRIFT) * sums[TOP_V])


@njit(cache=True, fastmath={"reassoc"})
def settle(m: float, rows: Rows, sums: Floats, clock: Floats) -> None:
    """A new snapshot, past = v: the sums over rows are taken afresh, and the distance from it is 0."""
    past = rows.past
    pairs = rows.pairs
    mass = 0.0
    energy = 0.0
    past_energy = 0.0
    for i in range(past.size):
        u = pairs[i, 0]
        past[i] = m * u
        mass += abs(u)
        energy += u * u
        past_energy += past[i] * past[i]
    relative = (past.size + 8) * 2.0**-51
    floor = (past.size + 8) * FLOOR
    sums[MASS] = mass * (1.0 + SLACK)
    sums[ENERGY] = energy
    sums[ENERGY_ERROR] = energy * relative + floor
    sums[PAST] = past_energy * (1.0 + relative) + floor
    sums[CROSS] = energy * m
    sums[CROSS_ERROR] = energy * m * relative + m * floor + floor
    sums[M_THEN:SUMS] = 0.0
    sums[M_THEN] = m
    clock[AWAY] = 0.0
    clock[EPOCH] += 1.0


@njit(cache=True)
def tie(csc: Csc, picks: Indices, law: Law, rows: Rows, ties: Ties) -> Any:
    """At a snapshot, ties the columns that recent steps went to, if few made most of them; whether it did."""
    data, indices, indptr = csc
    for g in range(TIES):
        if ties.columns[g] >= 0:
            for z in range(indptr[ties.columns[g]], indptr[ties.columns[g] + 1]):
                ties.slopes[indices[z], g] = 0.0
            ties.columns[g] = -1
    if law.loss != LOGISTIC:
        return False
    count = 0
    total = 0.0
    for t in range(max(picks.size - RECENT, 0), picks.size):
        k = picks[t]
        place = 0
        while place < count and ties.recent[place] != k:
            place += 1
        if place == count:
            ties.recent[place] = k
            ties.share[place] = 0.0
            count += 1
        length = math.sqrt(indptr[k + 1] - indptr[k])
        ties.share[place] += length
        total += length
    left = total
    chosen = min(count, TIES)
    entries = 0
    for g in range(chosen):
        place = int(np.argmax(ties.share[:count]))
        left -= ties.share[place]
        ties.share[place], ties.columns[g] = -1.0, ties.recent[place]
        entries += indptr[ties.columns[g] + 1] - indptr[ties.columns[g]]
    if left > (1.0 - COVERED) * total or entries > rows.y.size:
        ties.columns[:] = -1
        return False
    for i in range(rows.slope.size):
        ties.then[i] = rows.slope[i]
        ties.lean[i] = rows.lean[i]
    for g in range(chosen):
        for z in range(indptr[ties.columns[g]], indptr[ties.columns[g] + 1]):
            q = abs(rows.slope[indices[z]])
            ties.slopes[indices[z], g] = q * (1.0 - q) * (clipped(data[z], law.bound) / law.bound)
    return chosen > 0


@njit(cache=True)
def follow(csc: Csc, k: int, x: int, law: Law, ties: Ties, epoch: float, heavy: Floats) -> None:
    """Puts score, trend and ties of column k at the last snapshot into row x of the table."""
    data, indices, indptr = csc
    start = indptr[k]
    stop = indptr[k + 1]
    full = heavy[x, FULL] == 1.0
    steps, trend = score_from_slopes(data, indices, start, stop, full, ties.then, ties.lean, law.bound, 1.0 / law.grid)
    heavy[x, SNAPSHOT] = steps * law.grid
    heavy[x, SLOPE] = trend
    heavy[x, TAKEN] = epoch
    found = tie_sums(data, indices, start, stop, ties.slopes, law.bound)
    for g in range(TIES):
        heavy[x, TIE + g] = law.bound * found[g]


@njit(cache=True)
def look_at_now(t: int, m: float, law: Law, tied: Indices, sums: Floats, clock: Floats, now: Floats) -> None:
    """now: how far all scores can be from their lines at the last snapshot, and where the clocks are."""
    for g in range(CLOCKS + 1):
        now[g] = clock[g]
    now[CURVED] = -1.0
    if tied[0] < 0:
        return
    away = clock[AWAY] / law.curvature
    now[LINE] = m / sums[M_THEN] - 1.0
    now[CURVED] = 0.5 * CURVE * away * away * (1.0 + SLACK)
    now[NOW_LENGTH] = law.curvature * m * sums[REST_LENGTH] * (1.0 + SLACK)
    now[NOW_SUM] = law.curvature * m * sums[REST_SUM] * (1.0 + SLACK)
    now[NOW_TOP] = law.curvature * m * sums[REST_TOP] * (1.0 + SLACK)
    pulls = 0.0
    for g in range(TIES):
        now[PULL + g] = m * sums[STEPS + g]
        pulls += abs(now[PULL + g])
    drift = law.curvature * law.radius * DRIFT * (t + 2.0)
    now[BLUR] = law.bound * (TIE_ERROR * pulls + drift) + SLACK * (abs(now[LINE]) + 1e-6)
