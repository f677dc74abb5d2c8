"""Proximal maps and projections, sweeps and momentum of the solvers that take them, and the logistic loss by row and
along a line: arrays in, arrays out.

Solves   prox of h·g at v = argmin_s g(s) + (s − v)²/(2h), and Euclidean projections (the prox of an indicator).
Source   soft thresholding and its group and spectral forms are textbook; the simplex projection is the
         sort-and-threshold rule; the bracket of the logistic prox is derived where it is used.
Cost     O(d log d) for the projections, O(d) for the rest, one thin SVD for matrices.

Blocks, Gram and Momentum serve two solvers, which know where to begin and when to stop: problem/nearest.py has columns
(Blocks), problem/quadratic.py their products (Gram); both take steps with momentum where they have no sweep.

Blocks   min_x  rho/2 ‖A x − t‖² + l2/2 ‖x‖² + Σ_g limit_g ‖x_g‖₂, groups side by side; a group of one column is an ℓ1
         term. Textbook: with H = rho·‖A_g‖² + l2, which bounds the curvature of the smooth part, each group takes the
         proximal step x_g ← shrink(x_g − ∇_g/H, limit_g/H); for one column that is the exact minimiser. One pass over
         the stored entries a sweep; the residual is kept up to date.
Gram     min_x ½x'Gx − b'x + l1‖x‖₁ + l2/2‖x‖², one coordinate at a time, each exactly: O(d) for a coordinate that
         moves, O(1) for one that stays, because the slope b − Gx is kept up to date in place.
Momentum how far ahead of its last point a proximal gradient looks: Nesterov 1983, Beck and Teboulle 2009; begun anew
         where it turned back, O'Donoghue and Candès 2015.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.sparse_fw import exp_negative

TERMS = 512  # rows in a block


def soft_threshold(v: Floats, lam: float) -> Floats:
    """prox of lam‖·‖₁ at v."""
    return v - np.clip(v, -lam, lam)


def group_norms(v: Floats, group: Indices, count: int) -> Floats:
    """‖v_g‖₂ for g = 0 … count − 1, where column j belongs to group[j]."""
    # Scaled by the largest entry, so that squares of very large or very small entries stay representable.
    scale = float(np.max(np.abs(v), initial=0.0))
    if scale == 0.0 or not math.isfinite(scale):
        return np.full(count, scale)
    return scale * np.sqrt(np.bincount(group, weights=np.square(v / scale), minlength=count))


def group_soft_threshold(v: Floats, group: Indices, lam: Floats) -> Floats:
    """prox of Σ_g lam_g ‖v_g‖₂ at v."""
    norms = group_norms(v, group, lam.size)
    kept = np.divide(np.maximum(norms - lam, 0.0), norms, out=np.zeros_like(norms), where=norms > 0.0)
    shrunk: Floats = v * kept[group]
    return shrunk


def singular_value_threshold(v: Floats, lam: float) -> Floats:
    """prox of lam‖·‖_* at the matrix v: soft thresholding of its singular values."""
    left, values, right = np.linalg.svd(v, full_matrices=False)
    shrunk: Floats = (left * np.maximum(values - lam, 0.0)) @ right
    return shrunk


def project_simplex(v: Floats, radius: float) -> Floats:
    """The nearest point to v with entries ≥ 0 that add up to radius."""
    # The answer does not change when a constant is added to v; with the largest entry at 0 the running
    # sums stay of the size of the radius, also when v is far away.
    shifted = v - v.max()
    nearest: Floats = np.maximum(shifted - _simplex_threshold(np.sort(shifted), radius), 0.0)
    return nearest


@njit(cache=True)
def _simplex_threshold(ascending: Floats, radius: float) -> Any:
    """What to take off every entry; entries above it stay."""
    total = 0.0
    active = 0
    thresholds = np.empty(ascending.size)
    for j in range(ascending.size):
        largest = ascending[ascending.size - 1 - j]
        total += largest
        thresholds[j] = (total - radius) / (j + 1)
        active += largest > thresholds[j]
    return thresholds[active - 1]


def project_l1(v: Floats, radius: float) -> Floats:
    """The nearest point to v with ‖·‖₁ ≤ radius."""
    size = np.abs(v)
    if float(np.sum(size)) <= radius:
        return v.copy()
    return np.copysign(project_simplex(size, radius), v)


def project_l2(v: Floats, radius: float) -> Floats:
    """The nearest point to v with ‖·‖₂ ≤ radius."""
    length = float(np.linalg.norm(v))
    return v if length <= radius else v * (radius / length)


def project_group_l1(v: Floats, group: Indices, count: int, radius: float) -> Floats:
    """The nearest point to v with Σ_g ‖·_g‖₂ ≤ radius: the norms are projected, the directions stay."""
    norms = group_norms(v, group, count)
    if float(np.sum(norms)) <= radius:
        return v.copy()
    kept = np.divide(project_simplex(norms, radius), norms, out=np.zeros_like(norms), where=norms > 0.0)
    return v * kept[group]


@njit(cache=True)
def logistic_prox(margins: Floats, steps: Floats, out: Floats) -> None:
    """out[i] = argmin_m log(1 + exp(−m)) + (m − margins[i])²/(2h), h = steps[i]: Newton inside a bracket."""
    for i in range(margins.size):
        v = margins[i]
        h = steps[i]
        # F(m) = m − v − h/(1 + exp(m)) rises; F(v) < 0 and F(v + h) > 0. At M = max(v, 0) + log(1 + h) we have
        # h/(1 + exp(M)) < h/(1 + h) ≤ log(1 + h) ≤ M − v, hence F(M) > 0: a short bracket also for large h.
        low = v
        high = min(v + h, max(v, 0.0) + math.log1p(h))
        m = high
        for _ in range(200):
            e = math.exp(-abs(m))
            tail = (e if m > 0.0 else 1.0) / (1.0 + e)  # 1/(1 + exp(m)) without overflow
            f = m - v - h * tail
            if f > 0.0:
                high = m
            else:
                low = m
            newton = m - f / (1.0 + h * e / (1.0 + e) ** 2)
            if newton == m:
                break
            if not low < newton < high:
                newton = 0.5 * (low + high)
                if newton in (low, high):  # neighbouring floats: nothing lies between
                    break
            m = newton
        out[i] = m


@njit(inline="always", error_model="numpy")
def _vanishing(a: float) -> Any:
    """exp(-a) for a >= 0: from a = 700 on nothing, and no number where a is none."""
    return exp_negative(a) if a < 700.0 else (0.0 if a >= 700.0 else a)


def logistic_slopes(scores: Floats, y: Floats) -> Floats:
    """phi' of every row."""
    out = np.empty(scores.shape)
    _slopes(scores.ravel(), y.ravel(), out.ravel())
    return out


def logistic_bends(scores: Floats) -> Floats:
    """phi'' of every row."""
    out = np.empty(scores.shape)
    _bends(scores.ravel(), out.ravel())
    return out


@njit(cache=True, error_model="numpy")
def _slopes(scores: Floats, y: Floats, out: Floats) -> None:
    for i in range(out.size):
        margin = y[i] * scores[i]
        e = _vanishing(abs(margin))
        out[i] = -y[i] * (e if margin >= 0.0 else 1.0) / (1.0 + e)


@njit(cache=True, error_model="numpy")
def _bends(scores: Floats, out: Floats) -> None:
    for i in range(out.size):
        e = _vanishing(abs(scores[i]))
        out[i] = e / ((1.0 + e) * (1.0 + e))


@njit(cache=True, error_model="numpy")
def logistic_along(scores, direction, y, t):  # type: ignore[no-untyped-def]  # numba infers the types
    """Sums over rows of d.phi'(s + t.d), of d^2.phi'' and of |d.phi'|."""
    # Terms by blocks, with vector instructions; sums one by one: the same bits on every processor.
    terms = np.empty(TERMS)
    bends = np.empty(TERMS)
    slope = curvature = size = 0.0
    for first in range(0, y.size, TERMS):
        count = min(TERMS, y.size - first)
        for i in range(count):
            d = direction[first + i]
            margin = y[first + i] * (scores[first + i] + t * d)
            e = exp_negative(abs(margin)) if margin == margin else margin  # NaN stays NaN
            likely = 1.0 / (1.0 + e)
            unlikely = e * likely
            terms[i] = -y[first + i] * d * (unlikely if margin >= 0.0 else likely)
            bends[i] = d * d * likely * unlikely
        for i in range(count):
            slope += terms[i]
            curvature += bends[i]
            size += abs(terms[i])
    return slope, curvature, size


ACTIVE_PASSES = 20  # over the coordinates that are not zero, after each pass over all


@njit(cache=True)
def block_descent(data, indices, indptr, starts, limits, norms, l2, rho, x, residual, tolerance, sweeps):  # type: ignore[no-untyped-def]  # numba infers the types
    """Sweeps over the groups starts[g] … starts[g+1]−1 of a CSC block, in place on x and on residual = t − A x.

    Stops after a sweep in which no group moved its prediction by more than `tolerance`; returns the sweeps made.
    norms[g] is ‖A_g‖², the square of the largest singular value.
    """
    point = np.empty(x.size)
    for sweep in range(sweeps):
        farthest = 0.0
        for g in range(starts.size - 1):
            if norms[g] == 0.0:  # columns of zeros: their coefficients stay at 0, where they start
                continue
            curvature = rho * norms[g] + l2
            length = 0.0
            for j in range(starts[g], starts[g + 1]):
                pull = 0.0
                for k in range(indptr[j], indptr[j + 1]):
                    pull += data[k] * residual[indices[k]]
                point[j] = x[j] + (rho * pull - l2 * x[j]) / curvature
                length += point[j] * point[j]
            length = math.sqrt(length)
            kept = max(0.0, 1.0 - limits[g] / (curvature * length)) if length > 0.0 else 0.0
            moved = 0.0
            for j in range(starts[g], starts[g + 1]):
                change = kept * point[j] - x[j]
                if change != 0.0:
                    x[j] += change
                    moved += change * change
                    for k in range(indptr[j], indptr[j + 1]):
                        residual[indices[k]] -= change * data[k]
            farthest = max(farthest, math.sqrt(moved * norms[g]))
        if farthest <= tolerance:
            return sweep + 1
    return sweeps


@njit(cache=True)
def _sweep(G: Floats, l1: float, l2: float, x: Floats, slope: Floats, everywhere: bool) -> float:
    """One sweep; x and slope change in place. The largest change, in units of the objective's root."""
    largest = 0.0
    for j in range(x.size):
        old = x[j]
        curvature = G[j, j] + l2
        if (old == 0.0 and not everywhere) or curvature <= 0.0:
            continue
        pull = slope[j] + G[j, j] * old
        new = 0.0
        if pull > l1:
            new = (pull - l1) / curvature
        elif pull < -l1:
            new = (pull + l1) / curvature
        move = new - old
        if move != 0.0:
            x[j] = new
            for i in range(x.size):
                slope[i] -= move * G[j, i]  # G is symmetric: a row lies together in memory
            largest = max(largest, move * move * curvature)
    return float(np.sqrt(largest))


@njit(cache=True)
def coordinate_descent(G: Floats, l1: float, l2: float, x: Floats, slope: Floats) -> None:
    """A sweep over all coordinates, then sweeps over those in use until they settle; x and slope change in place."""
    first = _sweep(G, l1, l2, x, slope, True)
    for _ in range(ACTIVE_PASSES):
        if _sweep(G, l1, l2, x, slope, False) <= 1e-3 * first:
            break


def look_ahead(x: Floats, ahead: Floats, new: Floats, momentum: float) -> tuple[Floats, float]:
    """Where to step from next, and the momentum there: x led to `ahead`, and a step from there to `new`."""
    change = new - x
    if float(np.vdot(ahead - new, change)) > 0.0:  # it turned back: start the momentum anew
        momentum = 1.0
    grown = 0.5 + math.sqrt(0.25 + momentum * momentum)
    return new + (momentum - 1.0) / grown * change, grown
