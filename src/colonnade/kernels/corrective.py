"""A sparse linear model with an intercept to a certified gap, fast: Newton steps on the columns that matter.

Solves   min Σ_i s_i loss(x_i·w + b, y_i)  subject to  ‖w‖₁ ≤ radius,   b free, weights s_i that sum to 1; not private.
Source   ours, from known parts: a corrective (active-set) Frank-Wolfe whose inner problem is a Newton model
         (`newton_model`) over the steepest columns and the support.
Claim    f(w, b) − f* ≤ gap = <w, ∇_w f> + radius·‖∇_w f‖∞ over *all* columns, enlarged by the rounding error of its
         sums. The intercept adds nothing: b minimises f at the w returned, and f is convex in (w, b) together.
         How w was found does not enter the certificate.
Price    one pass over the matrix for each certificate, sweeps over the active columns in between. If the support is
         small, Newton steps on it alone take the answer to machine precision at the end, so that the order of rows
         and splits of weights cannot be seen in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from colonnade.kernels.arrays import Array, Csc, Floats, Indices
from colonnade.kernels.columns import csc_matvec, csc_rmatvec
from colonnade.kernels.newton_model import (
    FEW_COLUMNS,
    column_slopes,
    newton_move,
    products,
    row_curvatures,
    solve_few,
    solve_many,
)
from colonnade.kernels.sparse_fw import LOGISTIC, LossCode, logistic_slope, loss_value, residual_slope

FEWEST_COLUMNS = 32  # the first active set
HALVINGS = 40  # near the optimum a Frank-Wolfe step of gap/curvature can be very short
POLISHED_COLUMNS = 300  # Newton on the support solves dense systems of this size at most
POLISHED_WORK = 2_000_000_000  # products of entries for one such system at most
POLISHING_STEPS = 40
NEGLIGIBLE = 0.1  # an objective below this part of the one at the start counts as this part


@dataclass(frozen=True)
class SparseProblem:
    """Columns of the matrix (CSC), labels, row weights that sum to 1, and the ball."""

    data: Array
    indices: Array
    indptr: Array
    y: Floats
    s: Floats
    loss: LossCode
    radius: float

    @property
    def columns(self) -> Csc:
        return self.data, self.indices, self.indptr

    @property
    def width(self) -> int:
        return self.indptr.size - 1


@dataclass(frozen=True)
class Certified:
    """A feasible model with its scores v = Xw, what is proven about it, and where it may descend."""

    w: Floats
    b: float
    objective: float
    gap: float
    v: Floats
    q: Floats  # s_i times the slope of row i
    alpha: Floats  # the slope of each column

    def row(self, number: int) -> dict[str, float]:
        """What the history of a fit tells about it."""
        nonzeros = int(np.count_nonzero(self.w))
        return {"pass": number, "objective": self.objective, "gap": self.gap, "nonzeros": nonzeros}


# ------------------------------------------------------------------------------------------------ rows


@njit(cache=True, error_model="numpy")
def _weighted_slopes(loss: int, y: Floats, s: Floats, v: Floats, b: float, out: Floats) -> None:
    """out[i] = s_i times the slope of row i's loss at v_i + b."""
    for i in range(y.size):
        slope = logistic_slope(v[i] + b, y[i]) if loss == LOGISTIC else residual_slope(loss, v[i] + b, y[i], math.inf)
        out[i] = s[i] * slope


@njit(cache=True)
def _weighted_loss(loss: int, y: Floats, s: Floats, v: Floats, b: float) -> Any:
    """Σ s_i loss(v_i + b, y_i)."""
    total = 0.0
    for i in range(y.size):
        total += s[i] * loss_value(loss, v[i] + b, y[i])
    return total


@njit(cache=True)
def _best_intercept(loss: int, y: Floats, s: Floats, v: Floats, b: float) -> Any:
    """The b that minimises Σ s_i loss(v_i + b, y_i), from a guess: Newton steps kept within a bracket."""
    q = np.empty(y.size)
    h = np.empty(y.size)
    low = -math.inf
    high = math.inf
    reach = 1.0
    for _ in range(100):
        _weighted_slopes(loss, y, s, v, b, q)
        slope = q.sum()
        if slope == 0.0:
            break
        if slope > 0.0:
            high = b
        else:
            low = b
        bend = row_curvatures(loss, 0.0, y, s, v, b, h)
        new = b - slope / bend
        if abs(new - b) <= 2.0**-52 * max(abs(b), 2.0**-10):
            break
        if not low < new < high or abs(new - b) > reach:
            if math.isinf(high) or math.isinf(low):
                new = b + reach if slope < 0.0 else b - reach
                reach *= 2.0
            else:
                new = 0.5 * (low + high)
        if new in (low, high):
            break
        b = new
    return b


# ------------------------------------------------------------------------------------------------ certificates


def scores_of(problem: SparseProblem, w: Floats) -> Floats:
    """Xw, from the nonzero columns."""
    v = np.empty(problem.y.size)
    csc_matvec(*problem.columns, w, v)
    return v


def _value(problem: SparseProblem, v: Floats, b: float) -> float:
    return float(_weighted_loss(int(problem.loss), problem.y, problem.s, v, b))


def certify(problem: SparseProblem, w: Floats, v: Floats, b: float) -> Certified:
    """The model and its gap: a pass over all columns."""
    q = np.empty(problem.y.size)
    alpha = np.empty(problem.width)
    _weighted_slopes(int(problem.loss), problem.y, problem.s, v, b, q)
    csc_rmatvec(*problem.columns, q, alpha)
    steepest = float(np.abs(alpha).max(initial=0.0))
    # |computed − exact| of a sum of m products is at most m·2^-52 times the sum of their sizes
    longest = int(np.diff(problem.indptr).max(initial=0))
    rounding = (problem.y.size + 8) * float(np.abs(v) @ np.abs(q)) + (longest + 8) * problem.radius * steepest
    gap = max(float(w @ alpha) + problem.radius * steepest, 0.0) + 2.0**-51 * rounding
    return Certified(w, b, _value(problem, v, b), gap, v, q, alpha)


def _with_intercept(problem: SparseProblem, w: Floats, v: Floats, guess: float) -> Certified:
    """The model w with the best b."""
    if problem.loss is LossCode.SQUARED:
        return certify(problem, w, v, float(problem.s @ (problem.y - v)))
    return certify(problem, w, v, float(_best_intercept(int(problem.loss), problem.y, problem.s, v, guess)))


# ------------------------------------------------------------------------------------------------ the scheme


def corrective_fit(
    problem: SparseProblem, *, tolerance: float, passes: int, start: Floats | None = None
) -> tuple[Certified, list[dict[str, float]]]:
    """The model whose gap is at most `tolerance` times its objective, or the best of `passes` passes; and each pass."""
    w = np.zeros(problem.width) if start is None else _within(problem, start)
    here = best = _with_intercept(problem, w, scores_of(problem, w), 0.0)
    negligible = NEGLIGIBLE * here.objective
    history: list[dict[str, float]] = []
    size = FEWEST_COLUMNS
    mu = 0.0
    share = 0.1
    last_gap = math.inf
    while True:
        history.append(here.row(len(history) + 1))
        best = here if here.gap < best.gap else best
        if here.gap <= max(tolerance * max(here.objective, negligible), 1e-15) or len(history) == passes:
            break
        size = min(max(size, 2 * int(np.count_nonzero(here.w))), problem.width)
        found = None
        while found is None and share > 1e-7:
            target = max(share * here.gap, 0.01 * tolerance * here.objective)
            goal, goal_b, mu = _goal(problem, here, size, mu, target)
            found = _towards(problem, here, goal, goal_b)
            share *= 1.0 if found is not None else 0.1
        slow = here.gap > 0.5 * last_gap
        share = max(0.3 * max(share, 1e-4), 1e-6) if slow else max(share, 1e-4)
        last_gap = here.gap
        if found is None:  # the model misled us: a Frank-Wolfe step descends
            found = _towards(problem, here, _steepest_vertex(problem, here), here.b)
        if found is None:
            break
        here = _with_intercept(problem, *found, here.b)
        # coordinates crawl where columns and intercept are nearly collinear; a Newton step on the face does not
        faced = _face_step(problem, here, _near_the_face(problem, here.w)) if slow else None
        here = here if faced is None else faced
    return _polish(problem, best, history), history


def _within(problem: SparseProblem, w: Floats) -> Floats:
    """w, shrunk into the ball where it is outside."""
    norm = float(np.abs(w).sum())
    return w * (problem.radius / norm * (1.0 - 1e-15)) if norm > problem.radius else w


def _steepest_vertex(problem: SparseProblem, here: Certified) -> Floats:
    k = int(np.argmax(np.abs(here.alpha)))
    vertex = np.zeros(problem.width)
    vertex[k] = -problem.radius * np.sign(here.alpha[k])
    return vertex


def _goal(problem: SparseProblem, here: Certified, size: int, mu: float, target: float) -> tuple[Floats, float, float]:
    """The minimum of the Newton model over the support, the `size` steepest columns and b; and its multiplier."""
    slopes = np.abs(here.alpha)
    top = np.argpartition(slopes, problem.width - size)[problem.width - size :]
    active = np.union1d(np.flatnonzero(here.w), top)
    # the gap is radius·(steepest − least), and both meet at the optimum's mu
    least = max(-float(here.w @ here.alpha) / problem.radius, 0.0)
    steepest = float(slopes.max())
    mu = 0.5 * (least + steepest) if mu == 0.0 else min(max(mu, least), steepest)
    h = np.empty(problem.y.size)
    mass = row_curvatures(int(problem.loss), 1e-2, problem.y, problem.s, here.v, here.b, h)
    goal = here.w.copy()
    if active.size <= FEW_COLUMNS:
        x = np.append(goal[active], 0.0)
        gram = products(problem.columns, active, h)
        slope = column_slopes(problem.columns, active, here.q)
        mu = solve_few(gram, problem.radius, mu, target, x, slope.copy())
        if mu < 0.0:
            x = np.append(goal[active], 0.0) + newton_move(gram, slope, goal[active], problem.radius)
            mu = steepest
        goal[active] = x[:-1]
        shift = float(x[-1])
    else:
        mu, shift = solve_many(problem.columns, active, h, mass, problem.radius, mu, target, goal, here.q.copy())
    return _within(problem, goal), here.b + shift, float(mu)


def _towards(problem: SparseProblem, here: Certified, goal: Floats, goal_b: float) -> tuple[Floats, Floats] | None:
    """(w, v) after a step towards the goal that lowers the objective enough, or None; feasible by convexity."""
    away = scores_of(problem, goal) - here.v
    away_b = goal_b - here.b
    descent = float(here.q @ away) + float(here.q.sum()) * away_b
    step = 1.0
    for _ in range(HALVINGS):
        v = here.v + step * away
        if _value(problem, v, here.b + step * away_b) < here.objective + 1e-4 * step * min(descent, 0.0):
            return here.w + step * (goal - here.w), v
        step *= 0.5
    return None


# ------------------------------------------------------------------------------------------------ on the support


def _polish(problem: SparseProblem, best: Certified, history: list[dict[str, float]]) -> Certified:
    """Newton steps on the support, kept while they tighten the gap; whether the ball binds is tried both ways."""
    for _ in range(POLISHING_STEPS):
        binding = _near_the_face(problem, best.w)
        better = None
        for face in (binding, not binding):
            found = _face_step(problem, best, face)
            if found is not None and found.gap < best.gap:
                better = found
                break
        if better is None:
            break
        done = better.gap > 0.5 * best.gap and better.gap < 1e-9 * better.objective  # rounding is all that is left
        best = better
        history.append(best.row(len(history) + 1))
        if done:
            break
    return best


def _near_the_face(problem: SparseProblem, w: Floats) -> bool:
    return float(np.abs(w).sum()) >= problem.radius * (1.0 - 1e-3)


def _face_step(problem: SparseProblem, here: Certified, binding: bool) -> Certified | None:
    """After a Newton step on the support, along the face if the ball binds, up to the first sign that would flip.

    The step is halved until the objective does not rise; None if the support is too large or no step is found.
    """
    support = np.flatnonzero(here.w)
    stored = int((problem.indptr[support + 1] - problem.indptr[support]).sum())
    if not 0 < support.size <= POLISHED_COLUMNS or support.size * stored > POLISHED_WORK:
        return None
    change = _newton_step(problem, here, support, binding)
    with np.errstate(divide="ignore", invalid="ignore"):
        flips = -here.w[support] / change[:-1]
    flips = np.where(np.isfinite(flips) & (flips > 0.0), flips, np.inf)
    first = int(np.argmin(flips))
    step = min(1.0, float(flips[first]))
    for _ in range(HALVINGS):
        w = here.w.copy()
        w[support] += step * change[:-1]
        if step == float(flips[first]):
            w[support[first]] = 0.0
        w = _within(problem, w)
        v = scores_of(problem, w)
        b = here.b + step * float(change[-1])
        if _value(problem, v, b) <= here.objective * (1.0 + 1e-15):
            return _with_intercept(problem, w, v, b)
        step *= 0.5
    return None


def _newton_step(problem: SparseProblem, here: Certified, support: Indices, binding: bool) -> Floats:
    """The change of (w on the support, b) by one Newton step, along the face if the ball binds."""
    h = np.empty(problem.y.size)
    row_curvatures(int(problem.loss), 1e-10, problem.y, problem.s, here.v, here.b, h)
    size = support.size
    system = np.zeros((size + 2, size + 2))
    right = np.zeros(size + 2)
    system[: size + 1, : size + 1] = products(problem.columns, support, h)
    right[: size + 1] = -column_slopes(problem.columns, support, here.q)
    if binding:
        w = here.w[support]
        system[size + 1, :size] = system[:size, size + 1] = np.sign(w)
        right[size + 1] = problem.radius - float(np.abs(w).sum())
    else:
        system[size + 1, size + 1] = 1.0
    return np.asarray(np.linalg.lstsq(system, right, rcond=1e-13)[0][: size + 1])
