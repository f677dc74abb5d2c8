"""What else a noisy Gram matrix says: correlations, components, odds of yes-or-no columns, and which model predicts.

As in inference.py the matrix is of [a, 1], or of [a, 1, t], in any units, and every entry has independent normal noise
of known sd. Each figure comes with an interval, or with the reason why the noise leaves none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from colonnade.kernels.arrays import Floats
from colonnade.problem.inference import LinearModel, quadratic_variance, score_noise, spread_by_noise
from colonnade.problem.penalties import ElasticNet, Lasso, Ridge
from colonnade.problem.quadratic import minimise

LOUD = 0.15  # of a variance: more noise than this leaves its root, and so correlations, open
APART = 0.25  # of the distance to the next variance: more noise than this turns a component
LOG_ODDS = 12.0  # beyond this no odds ratio of interest lies
GRID = 97  # log odds that are tried first
ZOOMS = 5  # rounds, each ten times finer, by which the likeliest is found among them


class Correlations(NamedTuple):
    """By pair; nan, −1 and 1 where the noise hides how much one of both varies."""

    estimate: Floats
    low: Floats
    high: Floats
    determined: NDArray[np.bool_]  # by column


def correlations(matrix: Floats, noise: Floats, rows: int, level: float = 0.95) -> Correlations:
    """Of all columns of [a, 1]: every r is kept at which r̂ − r is small beside its spread under r.

    The noise's part of the spread is that of S_ij − r·√(S_ii·S_jj), exact to first order in the released entries; the
    sampling part is that of normal rows, (1 − r²)²/n.
    """
    s = len(matrix) - 1
    v = np.square(noise)
    mean = matrix[:s, s] / rows
    of_mean = v[:s, s]
    of_square = np.diag(v)[:s]
    S = matrix[:s, :s] - rows * np.outer(mean, mean)
    own = np.diag(S)
    known = (own > 0.0) & (np.sqrt(of_square + 4.0 * np.square(mean) * of_mean) <= LOUD * own)
    own = np.where(known, own, 1.0)
    size = np.sqrt(np.outer(own, own))
    both = np.outer(known, known)
    r = np.where(both, S / size, 0.0)
    # The spread is A + B·r + C·r²: by the entry (i, j); by (i, i) and (j, j); by the sums of i and of j.
    a_i = -mean[None, :] / size
    c_i = (mean / own)[:, None] + np.zeros((s, s))
    A = v[:s, :s] / size**2 + np.square(a_i) * of_mean[:, None] + np.square(a_i.T) * of_mean[None, :]
    B = 2.0 * (a_i * c_i * of_mean[:, None] + (a_i * c_i).T * of_mean[None, :])
    C = np.add.outer(*[of_square / (4.0 * own**2)] * 2)
    C = C + np.square(c_i) * of_mean[:, None] + np.square(c_i.T) * of_mean[None, :]
    z2 = float(np.square(ndtri((1.0 - level) / 2.0)))
    a = 1.0 - z2 * C
    half = r + z2 * B / 2.0
    ends = []
    for side in (-1.0, 1.0):
        end = np.clip(r, -1.0, 1.0)
        # The sampling part is that of the end itself.
        for _ in range(30):
            inside = np.square(half) - a * (np.square(r) - z2 * (A + np.square(1.0 - np.square(end)) / rows))
            end = np.clip((half + side * np.sqrt(np.maximum(inside, 0.0))) / np.where(a > 0.0, a, 1.0), -1.0, 1.0)
        ends.append(np.where(a > 0.0, end, side))
    off = ~np.eye(s, dtype=bool)
    low, high = (np.where(off, np.where(both, end, side), 1.0) for end, side in zip(ends, (-1.0, 1.0), strict=True))
    return Correlations(np.where(off, np.where(both, np.clip(r, -1.0, 1.0), np.nan), 1.0), low, high, known)


class Components(NamedTuple):
    """Principal components, the largest first; only those whose direction the noise does not turn."""

    variance: Floats
    low: Floats
    high: Floats
    share: Floats  # of the variance of all columns
    loadings: Floats  # (columns, components), of length 1
    errors: Floats  # of the loadings: the noise's part
    every: int  # components that there are


def components(matrix: Floats, noise: Floats, rows: int, level: float = 0.95) -> Components:
    """Of the covariance of the columns of [a, 1], in the units of the matrix."""
    s = len(matrix) - 1
    v = np.square(noise)
    mean = matrix[:s, s] / rows
    S = matrix[:s, :s] - rows * np.outer(mean, mean)
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    values = values[::-1]
    vectors = vectors[:, ::-1]
    # A centred row along u is [a, 1]·(u, −mean'u): noise reaches products of two directions through both.
    wide = np.vstack([vectors, -mean @ vectors])
    found: list[tuple[float, float, Floats, Floats]] = []
    loudest = 2.0 * math.sqrt(float(v[:s, :s].sum(axis=1).max()))
    for k in range(s):
        gaps = values[k] - np.delete(values, k)
        if s > 1 and loudest > APART * float(np.abs(gaps).min()):
            continue
        if values[k] <= loudest:
            continue
        V = wide.T @ spread_by_noise(v, np.outer(wide[:, k], wide[:, k])) @ wide
        others = np.arange(s) != k
        shift = float(np.sum(np.diag(V)[others] / gaps))
        spread = quadratic_variance(v, np.outer(wide[:, k], wide[:, k])) + 2.0 * values[k] ** 2 / rows
        turn = np.zeros((s, s))
        turn[:, others] = vectors[:, others] / gaps
        error = np.sqrt(np.maximum(np.sum(turn @ V * turn, axis=1), 0.0))
        found.append((float(values[k]) - shift, math.sqrt(spread), vectors[:, k], error))
    z = -float(ndtri((1.0 - level) / 2.0))
    total = max(float(np.trace(S)), 1e-300)
    size, spreads = (np.array([one[k] for one in found]) for k in (0, 1))
    loads, errors = (np.array([one[k] for one in found]).reshape(-1, s).T for k in (2, 3))
    low = np.maximum(size - z * spreads, 0.0)
    high = size + z * spreads
    return Components(size / rows, low / rows, high / rows, size / total, loads, errors, s)


# ------------------------------------------------------------------------------------------------ odds


class Odds(NamedTuple):
    """An odds ratio with its interval; (nan, 0, inf) where the noise leaves it open."""

    estimate: float
    low: float
    high: float


def odds_ratio(counts: Floats, covariance: Floats, rows: int, level: float = 0.95) -> Odds:
    """Of two yes-or-no columns, from noisy sums: of the first, of both together, of the second.

    A value ψ is kept where some share r₀ of the second among rows without the first makes both N₁₁ − r₁·N₁ and
    N₀₁ − r₀·N₀ small beside what noise and sampling bring under it, r₁ the share that ψ and r₀ give. Both are linear in
    the released sums, so that nothing is divided by a small noisy count.
    """
    most = float(np.square(ndtri((1.0 - level) / 2.0)))
    x = counts
    V = covariance
    without = max(rows - float(x[0]), 1.0)
    about = (x[2] - x[1]) / without
    spread = math.sqrt(float(np.trace(V)) + without) / without
    fine = about + spread * np.linspace(-8.0, 8.0, 321)
    coarse = expit(np.linspace(-9.0, 9.0, 91))
    shares = np.clip(np.append(fine, coarse), 1e-6, 1.0 - 1e-6)[None, :]
    grid = np.linspace(-LOG_ODDS, LOG_ODDS, GRID)

    def distance(log_odds: Floats) -> Floats:
        r0 = shares
        r1 = expit(np.log(r0 / (1.0 - r0)) + log_odds[:, None])
        t1 = x[1] - r1 * x[0]
        t0 = x[2] - x[1] - r0 * (rows - x[0])
        # The weights of (first, both, second) are (−r₁, 1, 0) in the one and (r₀, −1, 1) in the other.
        v11 = V[1, 1] - 2.0 * r1 * V[0, 1] + np.square(r1) * V[0, 0] + max(x[0], 1.0) * r1 * (1.0 - r1)
        v00 = np.square(r0) * V[0, 0] + V[1, 1] + V[2, 2] + 2.0 * (r0 * (V[0, 2] - V[0, 1]) - V[1, 2])
        v00 = v00 + without * r0 * (1.0 - r0)
        v10 = -r0 * r1 * V[0, 0] + r1 * (V[0, 1] - V[0, 2]) + r0 * V[0, 1] - V[1, 1] + V[1, 2]
        det = v11 * v00 - np.square(v10)
        quadratic = (v00 * np.square(t1) - 2.0 * v10 * t1 * t0 + v11 * np.square(t0)) / det
        return np.asarray(quadratic.min(axis=1))

    best = float(grid[int(np.argmin(distance(grid)))])
    width = 2.0 * LOG_ODDS / (GRID - 1)
    # An interval may lie between two points of the grid.
    for _ in range(ZOOMS):
        inner = best + width * np.linspace(-1.0, 1.0, 21)
        best = float(inner[int(np.argmin(distance(inner)))])
        width = width / 10.0
    points = np.unique(np.append(grid, best))
    kept = distance(points) <= most
    if kept[0] or kept[-1] or not kept.any():
        return Odds(math.nan, 0.0, math.inf)
    first, last = np.flatnonzero(kept)[[0, -1]]
    ends = [_crossing(distance, most, points[a], points[b]) for a, b in ((first - 1, first), (last + 1, last))]
    return Odds(math.exp(best), math.exp(ends[0]), math.exp(ends[1]))


def _crossing(distance: object, most: float, outside: float, inside: float) -> float:
    """Where the distance passes `most`, between a value beyond it and one within."""
    assert callable(distance)
    for _ in range(30):
        middle = (outside + inside) / 2.0
        if float(distance(np.array([middle]))[0]) <= most:
            inside = middle
        else:
            outside = middle
    return outside


# ------------------------------------------------------------------------------------------------ which model


class Choice(NamedTuple):
    """Models of one target, and how well each would predict other rows."""

    error: Floats  # expected squared error a row, or the criterion that was asked for
    doubt: Floats  # sd that the noise leaves of its distance to the best
    size: NDArray[np.float64]  # effective number of coefficients
    beta: Floats  # (candidates, columns + 1)
    best: int


Term = Ridge | Lasso | ElasticNet | NDArray[np.int64]


def choose_model(model: LinearModel, terms: Sequence[Term], *, per_coefficient: float = 2.0) -> Choice:
    """The candidate with the least expected error: penalties, or sets of columns by their places.

    Cp with a term for the noise: β = K·b̃ learns the noise of its own Gram matrix, and by Stein's identity its error
    looks smaller by 2·tr(K·V(β)) than it is. `per_coefficient`: 2, or log n for BIC.
    """
    scores = []
    sizes = []
    betas = []
    q = float(model.matrix[-1, -1])
    b = model.matrix[:-1, -1]
    M = model.matrix[:-1, :-1]
    for term in terms:
        beta, K = _solution(model, term)
        seen = q - 2.0 * float(b @ beta) + float(beta @ M @ beta)
        learnt = 2.0 * float(np.sum(K * score_noise(model.variance, np.append(beta, -1.0))))
        size = float(np.sum(K * (M + model.ridge.added)))
        scores.append((seen + learnt + per_coefficient * model.residual_variance * size) / model.rows)
        sizes.append(size)
        betas.append(beta)
    best = int(np.argmin(scores))
    gammas = [np.append(beta, -1.0) for beta in betas]
    pairs = [np.outer(g, g) - np.outer(gammas[best], gammas[best]) for g in gammas]
    doubt = np.array([math.sqrt(quadratic_variance(model.variance, pair)) for pair in pairs]) / model.rows
    return Choice(np.array(scores), doubt, np.array(sizes), np.array(betas), best)


def _solution(model: LinearModel, term: Term) -> tuple[Floats, Floats]:
    """β and K, how it follows b̃; columns that are out, or in no set, have zeros."""
    p = model.size
    n = model.rows
    whole = model.matrix[:-1, :-1] + model.ridge.added
    b = model.matrix[:-1, -1]
    bend = np.zeros(p)
    pull = np.zeros(p)
    if isinstance(term, np.ndarray):
        used = np.append(term, p - 1)
    elif isinstance(term, Ridge):
        used = np.arange(p)
        bend[:-1] = n * term.a
    else:
        l1, l2 = (term.a, 0.0) if isinstance(term, Lasso) else (term.l1, term.l2)
        centred = whole[:-1, :-1] - np.outer(whole[:-1, -1], whole[-1, :-1]) / whole[-1, -1]
        found = minimise(centred / n, (b[:-1] - whole[:-1, -1] * b[-1] / whole[-1, -1]) / n, term).x
        used = np.append(np.flatnonzero(found), p - 1)
        bend[:-1] = n * l2
        pull[:-1] = n * l1 * np.sign(found)
    at = np.ix_(used, used)
    K = np.zeros((p, p))
    K[at] = np.linalg.inv(whole[at] + np.diag(bend[used]))
    return np.asarray(K @ (b - pull)), K
