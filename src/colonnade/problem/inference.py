"""Intervals and tests of a linear model from one noisy Gram matrix: pure post-processing, in numpy.

Given    the Gram matrix of rows [a, 1, t] (columns, the constant, the target), each entry with independent normal noise
         of known sd, 0 where it is exact. Scales of columns do not matter; to move a column would tie entries' noise.
Solves   the best linear predictor of t: β̂ = G·b̃, G = (M̃ + R)⁻¹, where the ridge R = S(G), S(Y) = E[E·Y·E], takes
         away what the noise E adds to the inverse on average (E M̃⁻¹ is larger than M⁻¹).
Spread   u(β) = b̃ − M̃β has mean 0 at the truth and covariance V(β) + σ²M: V follows from the known noise, exactly, and
         depends on β; the sampling part assumes residuals that spread alike in all rows. An interval keeps every value
         that a test with the noise under that very value does not refuse (Fieller): it is unbounded where the noise
         leaves the value open.
Index    ξ in [0, 1): how near the noise comes to drowning M. Up to 0.2 determined, up to 0.5 weak, above not.
Without noise all of it is least squares with its t and F tests. docs/use/inference.md derives every line.

Two      values of a target, l and h: how residuals spread over rows, as far as sums of products tell. Given p = w'β the
values   target has the variance (h − p)(p − l): with p = m + δ, m its mean, that is σ² + (h + l − 2m)·δ and −δ² + E δ²,
         which has mean 0 and is left out. So n·E[r²·w·w'] = σ²M + (h + l − 2m)·n·E[w·w'·δ]. With z = w − E w and
         k = E[z·δ], E[w_i·w_j·δ] = μ_i·k_j + μ_j·k_i + E[z_i·z_j·δ]. The last is (1 − 2μ_i)·k_i for i = j and a column
         of zeros and ones, and −μ_i·k_j − μ_j·k_i for two levels of one list, of which a row has one. For all other
         pairs it is a third moment that no Gram matrix has, taken as 0, as it is for columns that lie evenly about
         their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices, Integers


@dataclass(frozen=True, eq=False)
class TwoValues:
    """A target with two values, and which columns that explain it are zeros and ones."""

    low: float
    high: float
    flags: NDArray[np.bool_]  # by column, without the constant
    lists: Integers  # by column: the list of levels that it belongs to; −1: none

    def score_spread(self, M: Floats, beta: Floats, variance: float) -> Floats:
        """n·E[r²·w·w'] at coefficients β, for residuals of this variance; M of [a, 1], positive definite.

        In no direction less than for equal variances, so that a third moment that was left out shortens nothing; and no
        row's variance is over (h − l)²/4.
        """
        if not variance > 0.0:
            return np.zeros(M.shape)
        rows = M[-1, -1]
        mean = M[:-1, -1] / rows
        k = M[:-1, :-1] @ beta[:-1] / rows - mean * float(mean @ beta[:-1])
        pairs = np.outer(mean, k)
        third = np.where((self.lists[:, None] == self.lists) & (self.lists >= 0), -pairs - pairs.T, 0.0)
        np.fill_diagonal(third, np.where(self.flags, (1.0 - 2.0 * mean) * k, 0.0))
        T = np.zeros(M.shape)
        T[:-1, :-1] = pairs + pairs.T + third
        T[:-1, -1] = k
        T[-1, :-1] = k
        lean = self.high + self.low - 2.0 * float(beta[-1] + mean @ beta[:-1])
        L = np.linalg.cholesky(M)
        inside = np.linalg.solve(L, np.linalg.solve(L, T).T)
        values, vectors = np.linalg.eigh((inside + inside.T) / 2.0)
        most = max((self.high - self.low) ** 2 / (4.0 * variance), 1.0)
        times = np.clip(1.0 + rows * lean / variance * values, 1.0, most)
        along = L @ vectors
        return np.asarray(variance * (along * times) @ along.T)


# ξ up to which intervals have their length, and up to which they are valid
DETERMINED = 0.2
WEAK = 0.5
# what columns are left out until: ξ, and the noise of a coefficient's own curvature
KEPT_XI = 0.1
KEPT_DOUBT = 0.05
# of the ridge: at most, and how near it comes
ROUNDS = 60
CLOSE = 1e-10
AT_ONCE = 64  # of so many columns one is left out at a time
# where it is only asked which columns to keep
FEW_ROUNDS = 30
ROUGH = 1e-4
STEP = 0.7  # of a round: the map has slopes from −ξ/(1 − ξ) to 0, so that wherever intervals are valid errors shrink to
# 0.4 of what they were, or faster: 10⁻¹⁰ takes 25 rounds
NORMAL = 1e9  # degrees of freedom from which Student's law is the normal one
LEAST_RESIDUAL = 1e-3  # of the target's own squares: less than this is believed only where the noise is smaller


class Intervals(NamedTuple):
    """Estimates of linear functions of β, with what the budget leaves open."""

    estimate: Floats
    low: Floats  # −inf and inf where the budget does not determine it
    high: Floats
    error: Floats  # standard error at the estimate
    pvalue: Floats  # of the value that was asked about, 0 by default; nan where it is not determined
    sampling: Floats  # the share of the variance that sampling has; the rest is the noise's

    @property
    def determined(self) -> NDArray[np.bool_]:
        return np.isfinite(self.low) & np.isfinite(self.high)


class Test(NamedTuple):
    """A test of several equations at once.

    Parameters
    ----------
    statistic
        About χ² with `df` degrees of freedom where they hold.
    df
        Degrees of freedom.
    pvalue
        The chance of as large a statistic where they hold.
    """

    statistic: float
    df: int
    pvalue: float


class Share(NamedTuple):
    """R² and its interval.

    Parameters
    ----------
    estimate
        Of the share of variance that is explained.
    low
        The interval's lower end.
    high
        Its upper end.
    """

    estimate: float
    low: float
    high: float


# ------------------------------------------------------------------------------------------------ the noise


def spread_by_noise(variance: Floats, Y: Floats) -> Floats:
    """S(Y) = E[E·Y·E] for a symmetric E of independent entries."""
    out = variance * Y
    np.fill_diagonal(out, variance @ np.diag(Y))
    return out


def score_noise(variance: Floats, gamma: Floats) -> Floats:
    """V: the covariance of E·γ, γ = (β, −1), without its last entry, the target's."""
    return spread_by_noise(variance, np.outer(gamma, gamma))[:-1, :-1]


def quadratic_variance(variance: Floats, H: Floats) -> float:
    """The variance of Σ E_ij·H_ij for a symmetric H."""
    squares = np.square(H) * variance
    return float(2.0 * squares.sum() - np.trace(squares))


def level_units(noise: Floats) -> Floats:
    """Units d of the columns in which the noise of all entries is about alike: sd_ij·d_i·d_j about 1."""
    d = np.ones(len(noise))
    if not noise.any():
        return d
    for _ in range(4):
        load = (noise @ d) / len(noise)
        d = np.where(load > 0.0, np.sqrt(d / np.where(load > 0.0, load, 1.0)), d)
    return d


@dataclass(frozen=True)
class Ridge:
    """The self-consistent ridge R and G = (M̃ + R)⁻¹."""

    added: Floats
    inverse: Floats
    found: bool  # whether R = S(G) was reached; else the noise rules


def self_consistent_ridge(
    M: Floats, variance: Floats, start: Floats | None = None, *, rounds: int = ROUNDS, close: float = CLOSE
) -> Ridge:
    """R = S((M̃ + R)⁻¹) with M̃ + R positive definite; `start`: an R to begin from."""
    if not variance.any():
        return Ridge(np.zeros(M.shape), _inverse_without_noise(M), True)
    if start is None or (factor := _factor(M + start)) is None:
        even = _even_ridge(M, float(variance.mean()))
        R = even.added
        G = even.inverse
    else:
        R = start
        G = _inverse_of(factor)
    for _ in range(rounds):
        step = STEP
        aim = spread_by_noise(variance, G)
        while (factor := _factor(M + R + step * (aim - R))) is None:
            step /= 2.0
            if step < 1e-6:
                return Ridge(R, G, False)
        moved = step * (aim - R)
        R = R + moved
        G = _inverse_of(factor)
        if np.abs(moved).max() <= close * np.abs(R).max():
            return Ridge(R, G, True)
    return Ridge(R, G, False)


def _even_ridge(M: Floats, mean: float) -> Ridge:
    """r·I, r = v̄·Σ 1/(λ + r): the left side rises with r and the right one falls. It exists also where noise rules,
    that is where v̄·Σ 1/(λ + r)², the slope there, is over 1: then it is not `found`."""
    values, vectors = np.linalg.eigh(M)
    low = max(-float(values[0]), 0.0) + 1e-12 * max(1.0, abs(float(values[-1])))
    high = low + 4.0 * math.sqrt(mean * len(M))
    while mean * float(np.sum(1.0 / (values + high))) > high:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if mean * float(np.sum(1.0 / (values + middle))) > middle:
            low = middle
        else:
            high = middle
    slope = mean * float(np.sum(np.square(1.0 / (values + high))))
    return Ridge(high * np.eye(len(M)), (vectors / (values + high)) @ vectors.T, slope <= 1.0)


def _inverse_without_noise(M: Floats) -> Floats:
    length = np.sqrt(np.maximum(np.diag(M), 0.0))
    if not length.all() or (factor := _factor(M / np.outer(length, length))) is None:
        raise InvalidInput(
            "columns of the model depend on each other exactly, or one is zero everywhere: leave one of them out."
        )
    return np.asarray(_inverse_of(factor) / np.outer(length, length))


def _factor(M: Floats) -> Floats | None:
    """The lower Cholesky factor, or None where there is none."""
    factor, wrong = lapack.dpotrf(M, lower=1)
    return None if wrong else np.asarray(factor)


def _inverse_of(factor: Floats) -> Floats:
    root = np.tril(
        lapack.dtrtri(factor, lower=1)[0]
    )  # dpotri takes OpenBLAS' threads for any size: 15 ms where they wait
    return np.asarray(root.T @ root)


def weakness(G: Floats, variance: Floats) -> float:
    """ξ = x/(1 + x), x the spectral radius of Y ↦ G·S(Y)·G, which keeps positive matrices positive."""
    Y = G / np.trace(G)
    x = 0.0
    for _ in range(200):
        Z = G @ spread_by_noise(variance, Y) @ G
        size = float(np.trace(Z))
        if size <= 0.0:
            return 0.0
        Y = Z / size
        before = x
        x = size
        if abs(x - before) <= 1e-6 * x:
            break
    return x / (1.0 + x)


# ------------------------------------------------------------------------------------------------ the model


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The model of the last column by all others, the last of which is the constant.

    matrix, noise   of [a, 1, t], in any units: the released Gram matrix, and the sd of every entry's noise.
    rows            how many rows it sums over.
    robust          what the sampling part is multiplied by: over 1 where residuals spread more where columns are large.
    two             of a target with two values: its residuals spread unevenly, which is counted in; None: alike.
    """

    matrix: Floats
    noise: Floats
    rows: int
    robust: float = 1.0
    two: TwoValues | None = None

    def __post_init__(self) -> None:
        if self.rows <= self.size:
            raise InvalidInput(f"{self.size} coefficients from {self.rows:,} rows: take fewer columns than rows.")
        if not 1.0 <= self.robust < math.inf:
            raise InvalidInput(f"robust={self.robust!r}: give a factor of at least 1, as in robust=1.5.", "robust")

    @property
    def size(self) -> int:
        """Coefficients, that of the constant included."""
        return len(self.matrix) - 1

    @cached_property
    def variance(self) -> Floats:
        return np.square(self.noise)

    @cached_property
    def ridge(self) -> Ridge:
        p = self.size
        d = level_units(self.noise)[:-1]
        units = np.outer(d, d)
        found = self_consistent_ridge(self.matrix[:p, :p] * units, self.variance[:p, :p] * np.square(units))
        return Ridge(found.added / units, found.inverse * units, found.found)

    @cached_property
    def xi(self) -> float:
        """The index of weakness; 1 where no ridge was found."""
        p = self.size
        return weakness(self.ridge.inverse, self.variance[:p, :p]) if self.ridge.found else 1.0

    @cached_property
    def beta(self) -> Floats:
        """The coefficients, in units of the matrix; the constant's is the last."""
        return np.asarray(self.ridge.inverse @ self.matrix[:-1, -1])

    @cached_property
    def gamma(self) -> Floats:
        return np.append(self.beta, -1.0)

    @cached_property
    def tss(self) -> float:
        """Squares of the target around its mean."""
        total = self.matrix[-2, -1]
        rows = self.matrix[-2, -2]
        return float(self.matrix[-1, -1] - (total**2 - self.variance[-2, -1]) / rows)

    @cached_property
    def rss(self) -> float:
        """Squares of the residuals, without what the noise of b̃ takes off them; noise may make it negative."""
        own = float(np.diag(self.ridge.inverse) @ self.variance[:-1, -1])
        return float(self.matrix[-1, -1] - self.matrix[:-1, -1] @ self.beta) + own

    @cached_property
    def rss_noise(self) -> float:
        """The sd of the noise in `rss`."""
        return math.sqrt(quadratic_variance(self.variance, np.outer(self.gamma, self.gamma)))

    @cached_property
    def residual_variance(self) -> float:
        least = min(LEAST_RESIDUAL * max(self.tss, 0.0), self.rss_noise)
        return max(self.rss, least) / (self.rows - self.size)

    @cached_property
    def _sampling(self) -> Floats:
        return self._score_spread(self.beta, self.residual_variance)

    def _score_spread(self, beta: Floats, variance: float) -> Floats:
        """n·E[r²·w·w'] for residuals that spread alike, or as those of two values do."""
        M = self.matrix[:-1, :-1] + self.ridge.added
        spread = variance * M if self.two is None else self.two.score_spread(M, beta, variance)
        return np.asarray(self.robust * spread)

    def _covariance(self, beta: Floats) -> Floats:
        G = self.ridge.inverse
        return np.asarray(G @ (score_noise(self.variance, np.append(beta, -1.0)) + self._sampling) @ G)

    @cached_property
    def covariance(self) -> Floats:
        """Of the coefficients, noise and sampling, at the estimate."""
        return self._covariance(self.beta)

    def _degrees(self, sampling: Floats) -> Floats:
        """Degrees of freedom of a variance of which this share is estimated (Satterthwaite): rows − size of all."""
        doubt = 2.0 / (self.rows - self.size)
        if self.residual_variance > 0.0:
            doubt += (self.rss_noise / (self.residual_variance * (self.rows - self.size))) ** 2
        every = np.full(sampling.shape, np.inf)
        return np.asarray(np.divide(2.0 / doubt, np.square(sampling), out=every, where=sampling > 0.0))

    # ------------------------------------------------------------------------ intervals

    def intervals(
        self, H: Floats | None = None, level: float = 0.95, *, null: Floats | float = 0.0, tests: int = 1
    ) -> Intervals:
        """Intervals of the rows h of H (default: every coefficient), and tests of h'β = null.

        `tests`: intervals that hold for so many at once (Bonferroni).
        """
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level={level!r}: give a share between 0 and 1, as in level=0.95.", "level")
        H = np.eye(self.size) if H is None else np.atleast_2d(H)
        zero = np.zeros(len(H))
        v = self.variance
        C = self.covariance
        A = np.column_stack([H @ self.ridge.inverse, zero])
        t0 = H @ self.beta
        CH = H @ C
        k0 = np.sum(CH * H, axis=1)
        sampling = np.sum((A[:, :-1] @ self._sampling) * A[:, :-1], axis=1) / np.where(k0 > 0.0, k0, 1.0)
        D = np.column_stack([CH / np.where(k0 > 0.0, k0, 1.0)[:, None], zero])  # how β follows when h'β is moved by 1
        off = v - np.diag(np.diag(v))
        AD = A * D
        A2 = np.square(A) @ v
        k1 = 2.0 * (np.sum(((A * self.gamma) @ off) * AD, axis=1) + np.sum(A2 * (self.gamma * D), axis=1))
        k2 = np.sum((AD @ off) * AD, axis=1) + np.sum(A2 * np.square(D), axis=1)
        df = self._degrees(sampling)
        z2 = np.square(_quantile((1.0 - level) / (2.0 * tests), df))
        a = 1.0 - z2 * k2
        b = -z2 * k1
        c = -z2 * k0
        open_ends = (a <= 0.0) | (self.xi > WEAK)
        root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
        twice = np.where(open_ends, 1.0, 2.0 * a)
        low = np.where(open_ends, -np.inf, t0 + (-b - root) / twice)
        high = np.where(open_ends, np.inf, t0 + (-b + root) / twice)
        away = t0 - null
        at_null = np.maximum(k0 - k1 * away + k2 * np.square(away), 0.0)
        ratio = np.divide(np.abs(away), np.sqrt(at_null), out=np.full(t0.shape, np.inf), where=at_null > 0.0)
        pvalue = np.where(open_ends, np.nan, 2.0 * _tail(ratio, df))
        return Intervals(t0, low, high, np.sqrt(k0), pvalue, sampling)

    # ------------------------------------------------------------------------ tests

    def joint(self, L: Floats, r: Floats | None = None) -> Test:
        """Test L·β = r, with the noise that β has under it. Only where the model is determined or weak."""
        L = np.atleast_2d(L)
        e = L @ self.beta - (np.zeros(len(L)) if r is None else np.asarray(r, np.float64))
        if self.xi > WEAK:
            raise InvalidInput(
                f"the budget does not determine this model (its index of weakness is {self.xi:.2f}, over {WEAK}), and "
                "joint tests do not keep their size then: test a whole vector by anderson_rubin, or take fewer columns."
            )
        C = self.covariance
        for _ in range(3):
            x = _solved(L @ C @ L.T, e)
            C = self._covariance(self.beta - C @ L.T @ x)
        D = L @ C @ L.T
        x = _solved(D, e)
        G = self.ridge.inverse
        share = float(np.trace(np.linalg.solve(D, L @ G @ self._sampling @ G @ L.T))) / len(L)
        statistic = float(e @ x)
        df = float(self._degrees(np.array([share]))[0])
        far = chdtrc(len(L), statistic) if df > NORMAL else fdtrc(len(L), df, statistic / len(L))
        return Test(statistic, len(L), float(far))

    def anderson_rubin(self, slopes: Floats, constant: float | None = None) -> Test:
        """Test all slopes at once (and the constant, where it is given) by their score: valid whatever ξ is."""
        p = self.size
        M = self.matrix[:-1, :-1]
        b = self.matrix[:-1, -1]
        free = constant is None
        level = (b[-1] - M[-1, :-1] @ slopes) / M[-1, -1] if constant is None else constant
        beta = np.append(slopes, level)
        u = b - M @ beta
        V = score_noise(self.variance, np.append(beta, -1.0))
        rss = float(self.matrix[-1, -1] - 2.0 * b @ beta + beta @ M @ beta)
        Omega = V + self._score_spread(beta, max(rss, 0.0) / self.rows)
        # The constant was taken from the data: what its own score does to the others is taken off.
        if free:
            T = np.column_stack([np.eye(p - 1), -M[:-1, -1] / M[-1, -1]])
            u = T @ u
            Omega = T @ Omega @ T.T
        if u.size == 0:  # of the constant alone nothing is asked
            return Test(0.0, 0, 1.0)
        values, vectors = np.linalg.eigh(Omega)
        statistic = float(np.sum(np.square(vectors.T @ u) / np.maximum(values, 1e-9 * values[-1])))
        return Test(statistic, u.size, float(chdtrc(u.size, statistic)))

    def overall(self) -> Test:
        """Test that all slopes are 0."""
        if self.noise.any() or self.size == 1:
            return self.anderson_rubin(np.zeros(self.size - 1))
        return self.joint(np.eye(self.size)[:-1])

    def r_squared(self, level: float = 0.95) -> Share:
        """R² and its interval: all values at which RSS − (1 − R²)·TSS is small beside its spread under them.

        The noise's part is that of two quadratic forms of the matrix, the sampling part that of normal rows.
        """
        if self.tss <= 0.0:
            raise InvalidInput("the noise hides how much the target varies: R² is not determined at this budget.")
        around = np.zeros(self.size + 1)
        around[-2:] = -self.matrix[-2, -1] / self.matrix[-2, -2], 1.0
        residual = np.outer(self.gamma, self.gamma)
        total = np.outer(around, around)
        z2 = float(np.square(ndtri((1.0 - level) / 2.0)))
        learnt = self.ridge.inverse @ score_noise(self.variance, self.gamma)
        # The variance of u'Gu, which fitting the noise u takes off RSS.
        fitted = 2.0 * float(np.sum(learnt * learnt.T))

        def beyond(share: float) -> bool:
            noise = quadratic_variance(self.variance, residual - (1.0 - share) * total)
            sampling = self.tss**2 * 4.0 * share * (1.0 - share) ** 2 / self.rows
            return (self.rss - (1.0 - share) * self.tss) ** 2 > z2 * (noise + fitted + sampling)

        estimate = 1.0 - self.rss / self.tss
        middle = min(max(estimate, 0.0), 1.0)
        return Share(estimate, _edge(beyond, middle, 0.0), _edge(beyond, middle, 1.0))


def _edge(beyond: Callable[[float], bool], inside: float, end: float) -> float:
    """Where what is kept ends, on the way from a point inside to an end."""
    if not beyond(end):
        return end
    for _ in range(50):
        middle = (inside + end) / 2.0
        inside, end = (inside, middle) if beyond(middle) else (middle, end)
    return inside


def _quantile(share: float, df: Floats) -> Floats:
    """What Student's law exceeds with this probability."""
    return np.asarray(-np.where(df > NORMAL, ndtri(share), stdtrit(np.minimum(df, NORMAL), share)))


def _tail(values: Floats, df: Floats) -> Floats:
    """The probability with which Student's law exceeds a value."""
    return np.asarray(np.where(df > NORMAL, ndtr(-values), stdtr(np.minimum(df, NORMAL), -values)))


def _solved(D: Floats, e: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(D, e))
    except np.linalg.LinAlgError as error:
        raise InvalidInput("the equations of the test depend on each other: leave one out.") from error


# ------------------------------------------------------------------------------------------------ which columns


def determined_columns(matrix: Floats, noise: Floats, protect: Collection[int] = ()) -> tuple[Indices, list[int]]:
    """Columns to keep, of rows [a, 1], and those to leave out, the least determined first.

    It goes by the columns' own Gram matrix and never by the target, so that tests need no correction for it. A column's
    weakness is the noise of its own curvature, where coefficients are alike in units in which the noise is alike.
    """
    d = level_units(noise)
    M = matrix * np.outer(d, d)
    variance = np.square(noise * np.outer(d, d))
    keep = list(range(len(M) - 1))
    left_out = list[int]()
    ridge: Ridge | None = None
    while True:
        ridge, doubt, clear = _how_clear(M, variance, keep, None if ridge is None else ridge.added)
        free = [i for i, j in enumerate(keep) if j not in protect]
        if clear or not free:
            break
        worst = sorted(free, key=lambda i: -float(doubt[i]))[: max(1, len(keep) // AT_ONCE)]
        left_out += [keep[i] for i in worst]
        keep = [j for i, j in enumerate(keep) if i not in worst]
        rest = np.delete(np.delete(ridge.added, worst, 0), worst, 1)
        ridge = replace(ridge, added=rest) if ridge.found else None
    # What was left out beside columns that are out by now may be clear without them.
    for j in left_out[-2 : -AT_ONCE - 2 : -1] if clear else []:
        if _how_clear(M, variance, sorted([*keep, j]), None)[2]:
            keep = sorted([*keep, j])
            left_out.remove(j)
    return np.array(keep, dtype=np.int64), left_out


def _how_clear(M: Floats, variance: Floats, keep: list[int], start: Floats | None) -> tuple[Ridge, Floats, bool]:
    """The ridge of some columns, beside the constant; how weak each is; and whether all of them are determined."""
    at = np.ix_([*keep, len(M) - 1], [*keep, len(M) - 1])
    v = variance[at]
    ridge = _even_ridge(M[at], float(v.mean())) if start is None and v.any() else None
    # Where noise rules, rounds without end would follow rounding errors.
    if ridge is None or ridge.found:
        ridge = self_consistent_ridge(M[at], v, start, rounds=FEW_ROUNDS, close=ROUGH)
    doubt = _curvature_doubt(ridge.inverse, v)[:-1]
    clear = ridge.found and doubt.max(initial=0.0) <= KEPT_DOUBT and weakness(ridge.inverse, v) <= KEPT_XI
    return ridge, doubt, clear


def _curvature_doubt(G: Floats, variance: Floats) -> Floats:
    """k₂ of every coefficient with S(I) in place of V: the relative noise variance of what it is divided by."""
    C = G @ spread_by_noise(variance, np.eye(len(G))) @ G
    own = np.diag(C)
    D = C / np.where(own > 0.0, own, 1.0)[:, None]
    off = variance - np.diag(np.diag(variance))
    AD = G * D
    return np.asarray(np.sum((AD @ off) * AD, axis=1) + np.sum((np.square(G) @ variance) * np.square(D), axis=1))


def holm(pvalues: Floats) -> Floats:
    """p-values that hold for all of them at once; nan where a value is not determined."""
    out = np.full(pvalues.shape, np.nan)
    known = np.flatnonzero(~np.isnan(pvalues))
    order = known[np.argsort(pvalues[known], kind="stable")]
    out[order] = np.minimum(1.0, np.maximum.accumulate(pvalues[order] * (pvalues.size - np.arange(order.size))))
    return out
