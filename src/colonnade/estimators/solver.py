"""A sparse linear model with an intercept to a certified gap: not private.

Solves   min Σ_i s_i loss(x_i·w + b, y_i)  subject to  ‖w‖₁ ≤ radius,   b free, weights s_i that sum to 1.
Source   the corrective scheme of `kernels.lazy_corrective` (Newton models on an active set, solved by coordinate descent
         with a multiplier steered to the radius), extended by an intercept, row weights and a warm start.
Claim    f(w, b) − f* ≤ gap = <w, ∇_w f> + radius·‖∇_w f‖∞ over *all* columns. The intercept adds nothing to it, because b
         minimises f exactly at the w returned (its slope is zero to rounding): f is convex in (w, b) together.
Price    a pass over the matrix for each certificate. At the end, if the support is small, Newton steps on it alone take
         the answer to machine precision, so that the order of rows and splits of weights cannot be seen in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from colonnade.kernels.sparse_fw import Floats, Ints, Loss, push_column, scores

FEWEST_COLUMNS = 32  # the first active set
SWEEPS = 500  # at most, for one Newton model
SMALL, SMALL_SWEEPS = 400, 5000  # few columns are solved by their matrix of products, where a sweep is cheap
HALVINGS = 40
POLISHED_SUPPORT = 300  # Newton on the support solves dense systems of this size at most
POLISHED_ENTRIES = 20_000_000
POLISHING = 40
NEGLIGIBLE = 0.1  # an objective below this part of the one at the start counts as this part


@dataclass(frozen=True)
class Solution:
    """A feasible model, what is proven about it, and one row of figures for each pass."""

    w: Floats
    b: float
    objective: float
    gap: float
    history: list[dict[str, float]]


def row_slopes(loss: Loss, v: Floats, y: Floats) -> Floats:
    """Derivative of each row's loss at its score."""
    if loss is Loss.LOGISTIC:
        return np.asarray(-y * expit(-y * v))
    if loss is Loss.SQUARED:
        return v - y
    return -y * np.maximum(0.0, 1.0 - y * v)


def row_losses(loss: Loss, v: Floats, y: Floats) -> Floats:
    """Each row's loss at its score."""
    if loss is Loss.LOGISTIC:
        return np.asarray(np.logaddexp(0.0, -y * v))
    if loss is Loss.SQUARED:
        return np.asarray(0.5 * (v - y) ** 2)
    return np.asarray(0.5 * np.maximum(0.0, 1.0 - y * v) ** 2)


def _curvatures(loss: Loss, v: Floats, y: Floats, floor: float) -> Floats:
    """Second derivative of each row's loss, at least `floor` times the mean, so that the model has a minimum."""
    if loss is Loss.SQUARED:
        return np.ones(y.size)
    if loss is Loss.LOGISTIC:
        p = expit(-np.abs(v))
        bend = p * (1.0 - p)
    else:
        bend = (y * v < 1.0).astype(np.float64)
    return np.asarray(np.maximum(bend, max(floor * float(bend.mean()), 1e-300)))


def best_intercept(loss: Loss, v: Floats, y: Floats, s: Floats) -> float:
    """The b that minimises Σ s_i loss(v_i + b, y_i); both classes must have weight."""
    if loss is Loss.SQUARED:
        return float(s @ (y - v))
    from scipy.optimize import brentq

    def slope(b: float) -> float:
        return float(s @ row_slopes(loss, v + b, y))

    reach = 1.0
    while slope(-reach) > 0.0 or slope(reach) < 0.0:
        reach *= 2.0
    return float(brentq(slope, -reach, reach, xtol=1e-15, rtol=1e-15, maxiter=500))


@njit(cache=True)
def _solve_model(  # type: ignore[no-untyped-def]  # numba infers the types
    data, indices, indptr, active, curvature, h, mass, radius, mu, target, w, tilt
):
    """Coordinate descent on the Newton model over the active columns and the intercept; returns (mu, change of b).

    tilt is the model's gradient in the rows, h its curvature there, mass = Σh. mu rises while ‖w‖₁ is over the radius and
    falls while there is room; the slope of ‖w‖₁ in mu is learnt from settled points.
    """
    moved, last_mu, last_norm, give = 0.0, -1.0, 0.0, 0.0
    for _ in range(SWEEPS):
        slope = 0.0
        for i in range(tilt.size):
            slope += tilt[i]
        if mass > 0.0:
            shift = -slope / mass
            moved += shift
            for i in range(tilt.size):
                tilt[i] += shift * h[i]
        worst, norm, loose = abs(slope) * 1e-3, 0.0, 0.0
        for a in range(active.size):
            k = active[a]
            if curvature[a] <= 0.0:
                continue
            g = 0.0
            for z in range(indptr[k], indptr[k + 1]):
                g += data[z] * tilt[indices[z]]
            u = w[k] - g / curvature[a]
            cut = mu / curvature[a]
            new = u - cut if u > cut else (u + cut if u < -cut else 0.0)
            change = new - w[k]
            if change != 0.0:
                w[k] = new
                worst = max(worst, abs(change) * curvature[a])
                for z in range(indptr[k], indptr[k + 1]):
                    tilt[indices[z]] += change * data[z] * h[indices[z]]
            norm += abs(new)
            if new != 0.0:
                loose += 1.0 / curvature[a]
        off = mu * abs(radius - norm) if mu > 0.0 or norm <= radius else np.inf
        if radius * worst + off <= target:
            break
        if radius * worst > 0.1 * max(off, target):
            continue  # not settled at this mu
        slope_mu = loose if give == 0.0 else give
        if last_mu >= 0.0 and (norm - last_norm) * (mu - last_mu) < 0.0:
            slope_mu = min(max((last_norm - norm) / (mu - last_mu), 0.25 * slope_mu), 4.0 * slope_mu)
        give, last_mu, last_norm = slope_mu, mu, norm
        if give > 0.0:
            mu = min(max(mu + (norm - radius) / give, 0.5 * mu), 2.0 * mu + 1e-3 * target / radius)
        else:
            mu *= 0.5
        if mu * radius < 1e-3 * target and norm < radius:
            mu = 0.0
    return mu, moved


@njit(cache=True)
def _solve_small_model(gram, radius, mu, target, x, g):  # type: ignore[no-untyped-def]  # numba infers the types
    """The same on few columns, by their matrix of products: x holds the coefficients and the change of b, g its slopes."""
    last = x.size - 1
    last_mu, last_norm, give = -1.0, 0.0, 0.0
    for _ in range(SMALL_SWEEPS):
        worst, norm, loose = 0.0, 0.0, 0.0
        for j in range(x.size):
            bend = gram[j, j]
            if bend <= 0.0:
                continue
            u = x[j] - g[j] / bend
            cut = mu / bend if j < last else 0.0
            new = u - cut if u > cut else (u + cut if u < -cut else 0.0)
            change = new - x[j]
            if change != 0.0:
                x[j] = new
                worst = max(worst, abs(change) * bend)
                for k in range(x.size):
                    g[k] += change * gram[j, k]
            if j < last:
                norm += abs(new)
                loose += 1.0 / bend if new != 0.0 else 0.0
        off = mu * abs(radius - norm) if mu > 0.0 or norm <= radius else np.inf
        if radius * worst + off <= target:
            break
        if radius * worst > 0.1 * max(off, target):
            continue
        slope = loose if give == 0.0 else give
        if last_mu >= 0.0 and (norm - last_norm) * (mu - last_mu) < 0.0:
            slope = min(max((last_norm - norm) / (mu - last_mu), 0.25 * slope), 4.0 * slope)
        give, last_mu, last_norm = slope, mu, norm
        mu = (
            min(max(mu + (norm - radius) / give, 0.5 * mu), 2.0 * mu + 1e-3 * target / radius)
            if give > 0.0
            else 0.5 * mu
        )
        if mu * radius < 1e-3 * target and norm < radius:
            mu = 0.0
    return mu


@njit(cache=True)
def _column_curvatures(data, indices, indptr, active, h, out):  # type: ignore[no-untyped-def]
    """out[a] = Σ x² h over column active[a]."""
    for a in range(active.size):
        total = 0.0
        for z in range(indptr[active[a]], indptr[active[a] + 1]):
            total += np.float64(data[z]) * data[z] * h[indices[z]]
        out[a] = total


class _Problem:
    """The problem and a place to stand: w, b, and the scores v = Xw."""

    def __init__(self, X: Any, y: Floats, s: Floats, loss: Loss, radius: float) -> None:
        self.X, self.parts = X, (X.data, X.indices, X.indptr)
        self.y, self.s, self.loss, self.radius = y, s, loss, radius
        self.columns = int(X.shape[1])
        self.longest = int(np.diff(X.indptr).max(initial=0))

    def scores(self, w: Floats) -> Floats:
        data, indices, indptr = self.parts
        v = np.zeros(self.y.size)
        for k in np.flatnonzero(w):
            push_column(data, indices, indptr[k], indptr[k + 1], w[k], v)
        return v

    def value(self, v: Floats, b: float) -> float:
        return float(self.s @ row_losses(self.loss, v + b, self.y))

    def certificate(self, w: Floats, v: Floats, b: float) -> tuple[Floats, Floats, float]:
        """Row slopes, column slopes, and the gap with the rounding error of its sums."""
        q = self.s * row_slopes(self.loss, v + b, self.y)
        alpha = np.empty(self.columns)
        scores(*self.parts, q, alpha)
        steepest = float(np.abs(alpha).max(initial=0.0))
        n = self.y.size
        rounding = 2.0**-51 * ((n + 8) * float(np.abs(v) @ np.abs(q)) + (self.longest + 8) * self.radius * steepest)
        return q, alpha, max(float(w @ alpha) + self.radius * steepest, 0.0) + rounding


def solve(
    X: Any, y: Floats, s: Floats, *, loss: Loss, radius: float, tolerance: float, passes: int, start: Floats | None
) -> Solution:
    """The model whose gap is at most `tolerance` times its objective, or the best after `passes` passes."""
    problem = _Problem(X, y, s, loss, radius)
    w = (
        np.zeros(problem.columns)
        if start is None
        else start * min(1.0, radius / max(float(np.abs(start).sum()), 1e-300))
    )
    v = problem.scores(w)
    size, mu, share, zero = FEWEST_COLUMNS, 0.0, 0.1, 0.0
    history: list[dict[str, float]] = []
    best: Solution | None = None
    for number in range(1, passes + 1):
        b = best_intercept(loss, v, y, s)
        value = problem.value(v, b)
        q, alpha, gap = problem.certificate(w, v, b)
        history.append(_row(number, value, gap, w))
        zero = value if number == 1 else zero
        if best is None or gap < best.gap:
            best = Solution(w, b, value, gap, history)
        if gap <= tolerance * max(value, NEGLIGIBLE * zero) or gap <= 1e-15:
            break
        support = np.flatnonzero(w)
        size = min(max(size, 2 * support.size), problem.columns)
        top = np.argpartition(np.abs(alpha), problem.columns - size)[problem.columns - size :]
        active = np.union1d(support, top)
        steepest, least = float(np.abs(alpha).max()), max(-float(w @ alpha) / radius, 0.0)
        mu = 0.5 * (least + steepest) if mu == 0.0 else min(max(mu, least), steepest)
        moved = None
        while moved is None and share > 1e-7:
            target = max(share * gap, 0.01 * tolerance * value)
            goal, goal_b, mu = _goal(problem, active, mu, target, w, v, b, q)
            moved = _towards(problem, goal, goal_b, w, v, b, q, value)
            share *= 1.0 if moved is not None else 0.1
        share = max(share, 1e-4)
        slow = len(history) > 1 and gap > 0.5 * history[-2]["gap"]
        if slow:
            share = max(0.3 * share, 1e-6)
        if moved is None:  # the model misled us: a Frank-Wolfe step descends
            k = int(np.argmax(np.abs(alpha)))
            goal = np.zeros(problem.columns)
            goal[k] = -radius * np.sign(alpha[k])
            moved = _towards(problem, goal, b, w, v, b, q, value)
        if moved is None:
            break
        w, v = moved
        if (
            slow
        ):  # coordinates crawl where columns and intercept are nearly collinear; a Newton step on the face does not
            b = best_intercept(loss, v, y, s)
            faced = _face_step(problem, w, b, problem.value(v, b), _near_the_face(problem, w))
            w, v = (w, v) if faced is None else (faced, problem.scores(faced))
    assert best is not None
    return _polished(problem, best)


def certified(X: Any, y: Floats, s: Floats, w: Floats, *, loss: Loss, radius: float) -> Solution:
    """The model w without an intercept, and the gap of the problem without one."""
    problem = _Problem(X, y, s, loss, radius)
    v = problem.scores(w)
    _, _, gap = problem.certificate(w, v, 0.0)
    row = _row(1, problem.value(v, 0.0), gap, w)
    return Solution(w, 0.0, row["objective"], gap, [row])


def _goal(
    problem: _Problem, active: Ints, mu: float, target: float, w: Floats, v: Floats, b: float, q: Floats
) -> tuple[Floats, float, float]:
    """The minimum of the Newton model over the active columns, the ball and the intercept; and its multiplier."""
    h = problem.s * _curvatures(problem.loss, v + b, problem.y, 1e-2)
    goal = w.copy()
    if active.size <= SMALL:
        block = sparse.hstack([problem.X[:, active], np.ones((problem.y.size, 1))], format="csc")
        gram = (block.T @ (block * h[:, None]).tocsc()).toarray()
        x = np.append(w[active], 0.0)
        mu = _solve_small_model(gram, problem.radius, mu, target, x, block.T @ q)
        goal[active], shift = x[:-1], x[-1]
    else:
        curvature = np.empty(active.size)
        _column_curvatures(*problem.parts, active, h, curvature)
        mu, shift = _solve_model(
            *problem.parts, active, curvature, h, float(h.sum()), problem.radius, mu, target, goal, q.copy()
        )
    norm = float(np.abs(goal).sum())
    if norm > problem.radius:
        goal *= problem.radius / norm * (1.0 - 1e-15)
    return goal, b + float(shift), float(mu)


def _towards(
    problem: _Problem, goal: Floats, goal_b: float, w: Floats, v: Floats, b: float, q: Floats, value: float
) -> tuple[Floats, Floats] | None:
    """(w, v) after a step towards the goal that lowers the objective, or None; feasible by convexity."""
    aim = problem.scores(goal)
    descent = float(q @ (aim - v)) + float(q.sum()) * (goal_b - b)
    step = 1.0
    for _ in range(HALVINGS):
        moved = v + step * (aim - v)
        if problem.value(moved, b + step * (goal_b - b)) < value + 1e-4 * step * min(descent, 0.0):
            return w + step * (goal - w), moved
        step *= 0.5
    return None


def _polished(problem: _Problem, found: Solution) -> Solution:
    """Newton steps on the support, kept while they tighten the gap; whether the ball binds is tried both ways."""
    best = found
    for _ in range(POLISHING):
        binding = _near_the_face(problem, best.w)
        better = _stepped(problem, best, binding) or _stepped(problem, best, not binding)
        if better is None:
            break
        enough = better.gap > 0.5 * best.gap and better.gap < 1e-9 * better.objective
        best = better
        found.history.append(_row(len(found.history) + 1, best.objective, best.gap, best.w))
        if enough:  # rounding is all that is left
            break
    return best


def _stepped(problem: _Problem, best: Solution, binding: bool) -> Solution | None:
    """The solution after one Newton step on the support, if its gap is smaller."""
    w = _face_step(problem, best.w, best.b, best.objective, binding)
    if w is None:
        return None
    v = problem.scores(w)
    b = best_intercept(problem.loss, v, problem.y, problem.s)
    _, _, gap = problem.certificate(w, v, b)
    return Solution(w, b, problem.value(v, b), gap, best.history) if gap < best.gap else None


def _near_the_face(problem: _Problem, w: Floats) -> bool:
    return float(np.abs(w).sum()) >= problem.radius * (1.0 - 1e-3)


def _row(number: int, objective: float, gap: float, w: Floats) -> dict[str, float]:
    return {"pass": number, "objective": objective, "gap": gap, "nonzeros": int(np.count_nonzero(w))}


def _face_step(problem: _Problem, w: Floats, b: float, value: float, binding: bool) -> Floats | None:
    """w after a Newton step on its support, along the face if the ball binds, up to the first sign that would flip.

    The step is halved until the objective does not rise; None if the support is too large or no step is found.
    """
    support = np.flatnonzero(w)
    if not 0 < support.size <= min(POLISHED_SUPPORT, POLISHED_ENTRIES // problem.y.size):
        return None
    block = np.hstack([problem.X[:, support].toarray().astype(np.float64), np.ones((problem.y.size, 1))])
    change = _newton_step(problem, block, w[support], b, binding)
    with np.errstate(divide="ignore", invalid="ignore"):
        flips = -w[support] / change[:-1]
    flips = np.where(np.isfinite(flips) & (flips > 0.0), flips, np.inf)
    first = int(np.argmin(flips))
    step = min(1.0, float(flips[first]))
    for _ in range(HALVINGS):
        moved = w.copy()
        moved[support] += step * change[:-1]
        if step == float(flips[first]):
            moved[support[first]] = 0.0
        norm = float(np.abs(moved).sum())
        if norm > problem.radius:
            moved *= problem.radius / norm * (1.0 - 1e-15)
        if problem.value(problem.scores(moved), b + step * float(change[-1])) <= value * (1.0 + 1e-15):
            return moved
        step *= 0.5
    return None


def _newton_step(problem: _Problem, block: NDArray[Any], w: Floats, b: float, binding: bool) -> Floats:
    """The change of (w on the support, b) by one Newton step, along the face if the ball binds."""
    v = block[:, :-1] @ w
    q = problem.s * row_slopes(problem.loss, v + b, problem.y)
    h = problem.s * _curvatures(problem.loss, v + b, problem.y, 1e-10)
    size = w.size
    system = np.zeros((size + 2, size + 2))
    system[: size + 1, : size + 1] = block.T @ (block * h[:, None])
    right = np.zeros(size + 2)
    right[: size + 1] = -(block.T @ q)
    if binding:
        system[size + 1, :size] = system[:size, size + 1] = np.sign(w)
        right[size + 1] = problem.radius - float(np.abs(w).sum())
    else:
        system[size + 1, size + 1] = 1.0
    return np.asarray(np.linalg.lstsq(system, right, rcond=1e-13)[0][: size + 1])
