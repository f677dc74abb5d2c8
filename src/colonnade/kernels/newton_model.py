"""The Newton model of an ℓ1-constrained problem, minimised over chosen columns and the intercept.

Solves   min q·Δ + ½ Σ h_i Δ_i² over w and b with ‖w‖₁ ≤ radius, Δ = X(w − w₀) + b − b₀, on the active columns alone.
Serves   over an ℓ1 ball or a simplex, from a point that is nearly right: inside Newton steps. `quadratic_minimum` takes
         any small quadratic, also one that is not convex, and gives no bound; problem/quadratic.py gives one.
Source   coordinate descent on the Lagrangian + mu·‖w‖₁; mu is steered by the secant until ‖w‖₁ meets the radius.
         Where that crawls, as along nearly collinear columns, an active-set walk from face to face, also of a simplex.
Price    few columns: their matrix of products once, then O(columns²) a sweep, O(columns³) a face. Many: O(their
         nonzeros + rows) a sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import linalg

from colonnade.kernels.arrays import Csc, Floats, Indices
from colonnade.kernels.sparse_fw import LOGISTIC, SQUARED, exp_negative

FEW_COLUMNS = 400  # up to here the matrix of products is worth its making
SWEEPS = 500  # at most, over columns of the matrix
CHEAP_SWEEPS = 500  # at most, over the matrix of products
RIDGE = 1e-12  # of the diagonal: it makes faces of collinear columns solvable
EPSILON = 2.0**-52
NORM = -1  # what stops a walk where no coordinate does


@njit(cache=True, error_model="numpy")
def row_curvatures(loss: int, floor: float, y: Floats, s: Floats, v: Floats, b: float, out: Floats) -> Any:
    """out[i] = s_i times row i's second derivative at v_i + b, at least `floor` times the mean; returns Σ."""
    mean = 0.0
    for i in range(y.size):
        if loss == LOGISTIC:
            e = exp_negative(abs(v[i] + b))
            out[i] = e / ((1.0 + e) * (1.0 + e))
        elif loss == SQUARED:
            out[i] = 1.0
        else:
            out[i] = 1.0 if y[i] * (v[i] + b) < 1.0 else 0.0
        mean += out[i] / y.size
    least = max(floor * mean, 1e-300)  # so that the model has a minimum
    total = 0.0
    for i in range(y.size):
        out[i] = s[i] * max(out[i], least)
        total += out[i]
    return total


@njit(cache=True)
def products(csc: Csc, active: Indices, h: Floats) -> Any:
    """XᵀHX over the active columns and, last, the intercept's column of ones."""
    data, indices, indptr = csc
    last = active.size
    out = np.zeros((last + 1, last + 1))
    weighted = np.zeros(h.size)
    for i in range(h.size):
        out[last, last] += h[i]
    for a in range(last):
        start = indptr[active[a]]
        stop = indptr[active[a] + 1]
        for z in range(start, stop):
            weighted[indices[z]] = data[z] * h[indices[z]]
            out[a, last] += weighted[indices[z]]
        for c in range(a + 1):
            total = 0.0
            for z in range(indptr[active[c]], indptr[active[c] + 1]):
                total += data[z] * weighted[indices[z]]
            out[a, c] = out[c, a] = total
        for z in range(start, stop):
            weighted[indices[z]] = 0.0
        out[last, a] = out[a, last]
    return out


@njit(cache=True)
def column_slopes(csc: Csc, active: Indices, q: Floats) -> Any:
    """Xᵀq over the active columns and, last, Σq for the intercept."""
    data, indices, indptr = csc
    out = np.zeros(active.size + 1)
    for a in range(active.size):
        for z in range(indptr[active[a]], indptr[active[a] + 1]):
            out[a] += data[z] * q[indices[z]]
    for i in range(q.size):
        out[-1] += q[i]
    return out


@njit(cache=True)
def _shrunk(u: float, cut: float) -> Any:
    """u, moved by `cut` towards 0 and not beyond."""
    return u - cut if u > cut else (u + cut if u < -cut else 0.0)


@njit(cache=True)
def _next_multiplier(mu: float, norm: float, radius: float, target: float, loose: float, settled: Floats) -> Any:
    """mu rises while ‖w‖₁ is over the radius and falls while there is room.

    ‖w‖₁ falls with mu, linearly on one support: the slope is learnt from the last two settled points.
    settled: that slope, and mu and ‖w‖₁ of the last settled point.
    """
    give, last_mu, last_norm = settled
    slope = loose if give == 0.0 else give
    if last_mu >= 0.0 and (norm - last_norm) * (mu - last_mu) < 0.0:
        slope = min(max((last_norm - norm) / (mu - last_mu), 0.25 * slope), 4.0 * slope)
    settled[0] = slope
    settled[1] = mu
    settled[2] = norm
    if slope > 0.0:
        mu = min(max(mu + (norm - radius) / slope, 0.5 * mu), 2.0 * mu + 1e-3 * target / radius)
    else:
        mu *= 0.5
    return 0.0 if mu * radius < 1e-3 * target and norm < radius else mu


@njit(cache=True)
def _misfit(mu: float, norm: float, radius: float) -> Any:
    """What complementarity adds to the model's gap: mu·|radius − ‖w‖₁|."""
    return mu * abs(radius - norm) if mu > 0.0 or norm <= radius else np.inf


@njit(cache=True)
def solve_few(gram: Floats, radius: float, mu: float, target: float, x: Floats, g: Floats) -> Any:
    """Minimises the model by its matrix of products; x holds the coefficients and, last, the change of b; g the slopes.

    Ends when the model's own gap is below the target. Returns mu, or -1 where it would take too many sweeps.
    """
    last = x.size - 1
    settled = np.array([0.0, -1.0, 0.0])
    for _ in range(CHEAP_SWEEPS):
        worst = 0.0
        norm = 0.0
        loose = 0.0
        for j in range(x.size):
            bend = gram[j, j]
            if bend <= 0.0:
                continue
            new = _shrunk(x[j] - g[j] / bend, mu / bend if j < last else 0.0)
            change = new - x[j]
            if change != 0.0:
                x[j] = new
                worst = max(worst, abs(change) * bend)
                for k in range(x.size):
                    g[k] += change * gram[j, k]
            if j < last:
                norm += abs(new)
                loose += 1.0 / bend if new != 0.0 else 0.0
        off = _misfit(mu, norm, radius)
        if radius * worst + off <= target:
            return mu
        if radius * worst <= 0.1 * max(off, target):  # settled at this mu
            mu = _next_multiplier(mu, norm, radius, target, loose, settled)
    return -1.0


@njit(cache=True)
def _sweep(
    csc: Csc, active: Indices, live: NDArray[np.bool_], curvature: Floats, h: Floats, mu: float, w: Floats, tilt: Floats
) -> Any:
    """One step for each live column; returns (largest violation, ‖w‖₁, Σ 1/curvature over the nonzero ones)."""
    data, indices, indptr = csc
    worst = 0.0
    norm = 0.0
    loose = 0.0
    for a in range(active.size):
        k = active[a]
        if curvature[a] <= 0.0 or not live[a]:
            continue
        g = 0.0
        for z in range(indptr[k], indptr[k + 1]):
            g += data[z] * tilt[indices[z]]
        new = _shrunk(w[k] - g / curvature[a], mu / curvature[a])
        change = new - w[k]
        live[a] = new != 0.0
        if change != 0.0:
            w[k] = new
            worst = max(worst, abs(change) * curvature[a])
            for z in range(indptr[k], indptr[k + 1]):
                tilt[indices[z]] += change * data[z] * h[indices[z]]
        norm += abs(new)
        loose += 1.0 / curvature[a] if new != 0.0 else 0.0
    return worst, norm, loose


@njit(cache=True)
def solve_many(
    csc: Csc, active: Indices, h: Floats, mass: float, radius: float, mu: float, target: float, w: Floats, tilt: Floats
) -> Any:
    """Minimises the model by sweeps over columns; tilt: its slope in the rows, mass = Σh. Returns (mu, change of b).

    Sweeps over all active columns alternate with sweeps over the nonzero ones.
    """
    data, indices, indptr = csc
    curvature = np.zeros(active.size)
    for a in range(active.size):
        for z in range(indptr[active[a]], indptr[active[a] + 1]):
            curvature[a] += np.float64(data[z]) * data[z] * h[indices[z]]
    live = np.ones(active.size, dtype=np.bool_)
    settled = np.array([0.0, -1.0, 0.0])
    moved = 0.0
    everything = True
    for _ in range(SWEEPS):
        slope = tilt.sum()
        if mass > 0.0:
            moved -= slope / mass
            for i in range(tilt.size):
                tilt[i] -= slope / mass * h[i]
        worst, norm, loose = _sweep(csc, active, live, curvature, h, mu, w, tilt)
        worst = max(worst, abs(slope) * 1e-3)
        off = _misfit(mu, norm, radius)
        if radius * worst + off <= target:
            if everything:
                break
            everything = True
        else:
            everything = False
            if radius * worst <= 0.1 * max(off, target):
                mu = _next_multiplier(mu, norm, radius, target, loose, settled)
        if everything:
            live[:] = True
    return mu, moved


# ------------------------------------------------------------------------------------------------ from face to face


def quadratic_minimum(hessian: Floats, linear: Floats, radius: float, start: Floats, *, signed: bool = True) -> Floats:
    """argmin ½uᵀHu + cᵀu over ‖u‖₁ ≤ radius, or over u ≥ 0 with Σu = radius; from a point there.

    A face is given by the signs of its coordinates and by whether the norm is at the radius. u walks towards the best
    point of its face, until a coordinate comes to 0 or the norm to the radius. Where nothing stops it, the vertex that
    promises most joins, or 0 does: until the gap is rounding. Where H is not positive, the answer is no worse than u.
    """
    u = start.copy()
    diagonal = np.diag(hessian)
    if float(diagonal.max()) <= 0.0:
        return u
    ridge = RIDGE * np.where(diagonal > 0.0, diagonal, diagonal.max())
    # the ridge is around u: no bias
    bent = hessian + np.diag(ridge)
    pull = ridge * u - linear
    sign = np.sign(u)
    joined = NORM - 1
    gap = np.inf
    inside = signed and float(np.abs(u).sum()) < radius * (1.0 - 1e-12)
    for _ in range(10 * u.size + 100):
        used = np.flatnonzero(sign)
        goal = np.zeros(u.size)
        try:
            goal[used] = _best_on_face(bent[np.ix_(used, used)], pull[used], sign[used], None if inside else radius)
        except linalg.LinAlgError:
            break
        share, stop = _first_stop(sign * u, sign * goal, radius if inside else np.inf)
        u = u + share * (goal - u)
        leap = np.where(sign * goal > 0.0, goal, 0.0)
        if np.count_nonzero(sign * goal < 0.0) > 1 and leap.any():
            leap = back_within(leap, radius, signed)  # all that would come to 0, at once: if that is not worse
            if leap @ (0.5 * (bent @ leap) - pull) < u @ (0.5 * (bent @ u) - pull):
                u = leap
                sign = np.sign(leap)
                inside = signed and float(np.abs(u).sum()) < radius * (1.0 - 1e-12)
                continue
        if share < 1.0:
            if share == 0.0 and stop == joined:  # it promised no more than rounding
                break
            inside = inside and stop != NORM
            if stop != NORM:
                u[stop] = sign[stop] = 0.0
            continue
        slope = hessian @ u + linear
        last = gap
        pull = ridge * u - linear
        gap = float(u @ slope) + radius * float(np.abs(slope).max() if signed else -slope.min())
        size = float((np.abs(hessian) @ np.abs(u) + np.abs(linear)).max())
        if gap <= 8.0 * EPSILON * radius * size:
            break
        level = 0.0 if inside else float(sign @ slope) / used.size  # of the slope in every coordinate of the face
        promise = np.where(sign == 0.0, np.abs(slope) if signed else -slope, -np.inf)
        joined = int(np.argmax(promise))
        if signed and level > max(promise[joined], 0.0):
            inside = True
            joined = NORM
        elif promise[joined] > -level:
            sign[joined] = -np.sign(slope[joined]) if signed else 1.0
        elif gap > 0.5 * last:  # else the ridge was in the way: once more, around this point
            break
    return back_within(u, radius, signed)


def _best_on_face(hessian: Floats, pull: Floats, sign: Floats, norm: float | None) -> Floats:
    """argmin ½uᵀHu − pull·u, with sign·u = norm where one is given."""
    if not sign.size:
        return pull
    free, push = linalg.cho_solve(linalg.cho_factor(hessian), np.column_stack([pull, sign])).T
    best: Floats = free if norm is None else free - (float(sign @ free) - norm) / float(sign @ push) * push
    return best


def _first_stop(here: Floats, goal: Floats, radius: float) -> tuple[float, int]:
    """How far from here to the goal nothing becomes negative and the sum stays within the radius; what stops it."""
    falling = np.flatnonzero(goal < 0.0)
    shares = here[falling] / (here[falling] - goal[falling])
    first = int(np.argmin(shares)) if falling.size else 0
    share, stop = (float(shares[first]), int(falling[first])) if falling.size else (1.0, NORM)
    growth = float(goal.sum() - here.sum())
    room = max(radius - float(here.sum()), 0.0)
    return (room / growth, NORM) if growth * share > room else (share, stop)


def back_within(u: Floats, radius: float, signed: bool) -> Floats:
    """u, which rounding may have taken out of the ball or off the simplex by a hair, scaled back; zeros stay zeros."""
    norm = float(np.abs(u).sum())
    return u * (radius / norm) if norm > radius or not signed else u


def newton_move(gram: Floats, slopes: Floats, u: Floats, radius: float, *, signed: bool = True) -> Floats:
    """How far the best point of a Newton model at u is; a coordinate more than u has, the last, is a free intercept."""
    size = u.size
    hessian = gram[:size, :size]
    slope = slopes[:size]
    tilt = gram[-1, :size]
    mass = float(gram[-1, -1])
    free = slopes.size > size and mass > 0.0
    if free:  # whatever u does, the intercept moves by −(its slope + tilt·move)/mass: a model of u is left
        hessian = hessian - np.outer(tilt, tilt) / mass
        slope = slope - tilt * (slopes[-1] / mass)
    move = quadratic_minimum(hessian, slope - hessian @ u, radius, u, signed=signed) - u
    whole = np.zeros(slopes.size)
    whole[:size] = move
    if free:
        whole[-1] = -(slopes[-1] + float(tilt @ move)) / mass
    return whole
