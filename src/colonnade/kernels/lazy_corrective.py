"""The ℓ1-constrained model to a certified gap, fast: Newton steps on the columns that matter.

Solves   min Σ_i loss(x_i·w, y_i)  subject to  ‖w‖₁ ≤ radius,   X in CSC form; not private.
Source   ours, from known parts: a corrective (active-set) Frank-Wolfe whose inner problem is a Newton model solved by
         coordinate descent for the Lagrangian + mu·‖w‖₁, with mu steered so that ‖w‖₁ meets the radius.
Claim    f(w) − f* ≤ gap, where gap = <w, ∇f> + radius·‖∇f‖∞ is computed over *all* columns at the w returned, and
         enlarged by the rounding error of the sums behind it. How w was found does not enter the certificate.
Price    one pass over the matrix for each certificate, sweeps over the active columns in between.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.sparse_fw import (
    LOGISTIC,
    SQUARED,
    Floats,
    Ints,
    Loss,
    check_problem,
    push_column,
    scores,
    slopes,
    total_loss,
)

FEWEST_COLUMNS = 32  # the first active set
SWEEPS = 300  # at most, for one Newton model
HALVINGS = 40  # near the optimum a Frank-Wolfe step of gap/curvature can be very short


class Certified(NamedTuple):
    """A feasible model and what is proven about it."""

    w: Floats
    objective: float
    gap: float
    passes: int  # passes over the whole matrix


@njit(cache=True)
def _inner(a: Floats, b: Floats) -> Any:
    """(Σ ab, Σ |ab|, Σ b²): one pass on one core, where a BLAS call would wake its threads."""
    total, sizes, square = 0.0, 0.0, 0.0
    for i in range(a.size):
        total += a[i] * b[i]
        sizes += abs(a[i] * b[i])
        square += b[i] * b[i]
    return total, sizes, square


@njit(cache=True)
def _curvatures(loss: int, y: Floats, v: Floats, q: Floats, out: Floats) -> None:
    """out[i] = second derivative of the loss of row i, kept away from 0 so that the model has a minimum."""
    for i in range(y.size):
        if loss == LOGISTIC:
            out[i] = max(abs(q[i]) * (1.0 - abs(q[i])), 1e-4)
        elif loss == SQUARED:
            out[i] = 1.0
        else:
            out[i] = 1.0 if y[i] * v[i] < 1.0 else 1e-4


@njit(cache=True)
def _column_curvatures(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], active: Ints, h: Floats, out: Floats
) -> None:
    for a in range(active.size):
        k = active[a]
        total = 0.0
        for z in range(indptr[k], indptr[k + 1]):
            total += np.float64(data[z]) * data[z] * h[indices[z]]
        out[a] = total


@njit(cache=True)
def _solve_model(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    active: Ints,
    curvature: Floats,
    h: Floats,
    radius: float,
    mu: float,
    target: float,
    w: Floats,
    tilt: Floats,
) -> Any:
    """Coordinate descent on the quadratic model over the active columns; tilt = its gradient in the rows.

    Sweeps over all active columns alternate with sweeps over the nonzero ones. Once the nonzero ones have settled,
    mu moves: up when ‖w‖₁ is over the radius, down when there is room, by the secant. Ends when the
    model's own gap, mu·|radius − ‖w‖₁| + radius·(largest violation), is below the target. Returns mu.
    """
    live = np.ones(active.size, dtype=np.bool_)
    give, last_mu, last_norm = 0.0, -1.0, 0.0
    everything = True
    for _ in range(SWEEPS):
        worst, norm, loose = 0.0, 0.0, 0.0
        for a in range(active.size):
            k = active[a]
            if curvature[a] <= 0.0 or not (everything or live[a]):
                continue
            g = 0.0
            for z in range(indptr[k], indptr[k + 1]):
                g += data[z] * tilt[indices[z]]
            u = w[k] - g / curvature[a]
            shrink = mu / curvature[a]
            new = u - shrink if u > shrink else (u + shrink if u < -shrink else 0.0)
            change = new - w[k]
            live[a] = new != 0.0
            if change != 0.0:
                w[k] = new
                worst = max(worst, abs(change) * curvature[a])
                for z in range(indptr[k], indptr[k + 1]):
                    tilt[indices[z]] += change * data[z] * h[indices[z]]
            norm += abs(new)
            if new != 0.0:
                loose += 1.0 / curvature[a]
        off = mu * abs(radius - norm) if mu > 0.0 or norm > radius else 0.0
        if radius * worst + off <= target:
            if everything:
                break
            everything = True
            continue
        everything = False
        if radius * worst > max(0.1 * off, 0.1 * target):
            continue
        # ‖w‖₁ falls with mu, linearly on one support: the slope is learnt from the last two settled points
        slope = loose if give == 0.0 else give
        if last_mu >= 0.0 and (norm - last_norm) * (mu - last_mu) < 0.0:
            slope = min(max((last_norm - norm) / (mu - last_mu), 0.25 * slope), 4.0 * slope)
        give, last_mu, last_norm = slope, mu, norm
        if give > 0.0:
            mu = min(max(mu + (norm - radius) / give, 0.5 * mu), 2.0 * mu + 1e-12 * radius)
        else:
            mu *= 0.5
    return mu


def corrective_fit(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    *,
    loss: Loss,
    radius: float,
    tolerance: float = 1e-4,
    passes: int = 100,
) -> Certified:
    """A model whose certified gap is at most `tolerance` times its objective, or the best after `passes` passes."""
    check_problem(data, indices, indptr, y, loss, radius, passes)
    if not tolerance > 0.0:
        raise InvalidInput(
            f"tolerance must be positive; got {tolerance}. 1e-4 is a tenth of a thousandth of the objective."
        )
    code = int(loss)
    n, d = y.size, indptr.size - 1
    most = int(np.diff(indptr).max())
    w, v, q, alpha = np.zeros(d), np.zeros(n), np.empty(n), np.empty(d)
    size = FEWEST_COLUMNS
    mu, last_gap, share = 0.0, 0.0, 0.3
    best: Certified | None = None
    for done in range(1, passes + 1):
        slopes(code, np.inf, y, v, q)
        scores(data, indices, indptr, q, alpha)
        value = float(total_loss(code, v, y))
        steepest = float(np.abs(alpha).max())
        inner, sizes, square = _inner(v, q)
        # |computed − exact| of a sum of m products is at most m·2^-52 times the sum of their sizes
        rounding = (n + 8) * 2.0**-51 * sizes + (most + 8) * 2.0**-51 * radius * math.sqrt(square * n)
        gap = max(inner + radius * steepest, 0.0) + rounding
        if best is None or gap < best.gap:
            best = Certified(w.copy(), value, gap, done)
        if gap <= tolerance * value or gap <= 2.0 * rounding:
            break
        support = np.flatnonzero(w)
        size = max(size, 2 * support.size)
        if size < d:
            top = np.argpartition(np.abs(alpha), d - size)[d - size :]
            active = np.union1d(support, top)
        else:
            active = np.arange(d)
        # the gap is radius·(steepest − least), and both meet at the optimum's mu
        least = max(-inner / radius, 0.0)
        mu = 0.5 * (least + steepest) if mu == 0.0 else min(max(mu, least), steepest)
        # a gap can be far larger than the excess it bounds: a model solved only to a share of it may lead uphill
        moved = None
        share = max(share, 1e-3)
        while moved is None and share > 1e-6:
            target = max(share * gap, 0.02 * tolerance * value)
            goal, mu = _newton_goal(data, indices, indptr, y, code, active, radius, mu, target, w, v, q)
            moved = _towards(data, indices, indptr, y, code, goal, w, v, q, value)
            share *= 1.0 if moved is not None else 0.1
        if gap > 0.5 * last_gap > 0.0:
            share *= 0.3
        last_gap = gap
        if moved is None:  # the model misled us: a Frank-Wolfe step always descends
            k = int(np.argmax(np.abs(alpha)))
            goal = np.zeros(d)
            goal[k] = -radius * np.sign(alpha[k])
            moved = _towards(data, indices, indptr, y, code, goal, w, v, q, value)
        if moved is None:
            break
        w, v = moved
    assert best is not None
    return best._replace(passes=done)


def _newton_goal(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    code: int,
    active: Ints,
    radius: float,
    mu: float,
    target: float,
    w: Floats,
    v: Floats,
    q: Floats,
) -> tuple[Floats, float]:
    """The minimum of the Newton model over the active columns and the ball, and its mu."""
    h, curvature = np.empty(y.size), np.empty(active.size)
    _curvatures(code, y, v, q, h)
    _column_curvatures(data, indices, indptr, active, h, curvature)
    goal = w.copy()
    mu = _solve_model(data, indices, indptr, active, curvature, h, radius, mu, target, goal, q.copy())
    norm = float(np.abs(goal).sum())
    if norm > radius:
        goal *= radius / norm * (1.0 - 1e-15)
    return goal, mu


def _towards(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Floats,
    code: int,
    goal: Floats,
    w: Floats,
    v: Floats,
    q: Floats,
    value: float,
) -> tuple[Floats, Floats] | None:
    """(w, v) after a step towards the goal that lowers the objective enough, or None; feasible by convexity."""
    v_goal = np.zeros(v.size)
    for k in np.flatnonzero(goal):
        push_column(data, indices, indptr[k], indptr[k + 1], goal[k], v_goal)
    descent = _inner(v_goal - v, q)[0]
    step = 1.0
    for _ in range(HALVINGS):
        v_new = v + step * (v_goal - v)
        if float(total_loss(code, v_new, y)) < value + 1e-4 * step * min(descent, 0.0):
            return w + step * (goal - w), v_new
        step *= 0.5
    return None
