"""Noise for releases, exact in law: discrete Gaussian numbers and exponential-mechanism choices.

Claim    every draw follows its stated law exactly, given uniform bits: no floating-point number decides
         an outcome, so nothing hides in low bits (Mironov, CCS 2012). Scales are rounded up, first.
Source   Karney, ACM TOMS 42 (2016), algorithm D, with the Bernoulli(exp(-γ)) of Canonne, Kamath and
         Steinke, NeurIPS 2020, algorithm 1; base-2 exponential mechanism: Ilvento, CCS 2020.
Leaves   nothing by itself: the gate adds these numbers to integer statistics and pays.
Price    Gaussian ρ = Δ²/(2σ²), Δ the L2 sensitivity in grid steps.
         Choice   ρ = Δ²/(2b²) a pick, Δ = how far one score can move (`gumbel_scale` pays for the grid).

Discrete Gaussian, P(i) ∝ exp(-i²/2σ²), σ = s/m with integers s, m. Draw k ≥ 0 with P(k) ∝ exp(-k²/2), a
sign, and an integer i uniformly among the ⌈σ⌉ integers from ⌈kσ⌉ on; refuse it unless x = (im - ks)/s < 1, and
refuse -0; accept with probability exp(-x(2k+x)/2). Since i/σ = k + x, every integer is kept in proportion
to exp(-k²/2) exp(-kx - x²/2) = exp(-i²/2σ²). All coins are Bernoulli(integer/integer): with γ ≤ 1,
Bernoulli(exp(-γ)) is "count successes of Bernoulli(γ/1), Bernoulli(γ/2), ... until one fails; true if even",
and the γ needed here are products of p/s, j/(2k+2) and 1/K, drawn as independent coins.

Choice, P(i) ∝ 2^(-gap_i/M), gaps in whole grid steps h = a power of two, M = ⌈b·ln2/h⌉: this is
exp(score/b') with b' = M·h/ln2 ≥ b. Scores are cut toward zero to multiples of h, which is exact, and two
scores at distance Δ stay within ⌈Δ/h⌉ steps. Gaps are then capped at DEPTH·M below the best score; both the
score and that floor move by at most ⌈Δ/h⌉ steps, so capping costs no privacy, and an outcome it touches has
probability below 2^-DEPTH. Propose gap band q (all gaps in [qM, (q+1)M)) in proportion to its size times
2^-q, an integer weight; a member uniformly; accept with probability 2^(-r/M), r = gap - qM:
exp(-ln2·r/M), where Bernoulli(ln2) = Σ 2^-k/k is "toss until tails, k tosses; then one chance in k".

One choice by several parties: party k draws one of its own candidates by its own law, P(i | k) = w_i / W_k, and says
W_k = Σ w_i; then somebody draws the party, P(k) = W_k / Σ W. The product is w_i / Σ W: one sample of the central
mechanism at the price of one, ρ = Δ²/(2b²), however many parties (docs/understand/privacy/mechanisms.md).
W_k is an exact figure about the party's data: it may be shown to those only who are trusted with the data, and neither
it nor the losing picks may be published. A mass is a whole number of grid steps, best + M·log2 Σ w_i to the nearest:
the sum is correctly rounded and its terms are good to 2^-46, so what is said differs from the truth by less than one
step, which `shared_scale` pays for. Parties are drawn without any cap.

The time a draw takes depends on the draw, and the time of a choice on the scores: see the threat model.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import InvalidInput

BYTES_A_DRAW = 40  # a little more than one discrete Gaussian number takes on average
SIGMA_BITS = 24  # σ keeps this many bits, rounded up: at most 1.2e-7 too much noise
LARGEST_SIGMA = 2**50  # 64-bit integers hold (k+2)·σ's numerator for k < 2^12
SMALLEST_SIGMA = Fraction(1, 2**10)  # a smaller σ is raised to this; the noise is 0 either way
GRID_BITS = 40  # a choice sees scores in steps of at most scale·2^-40
DEPTH = 128  # a choice treats all candidates below 2^-128 of the best weight as equally unlikely
FARTHEST = 2.0**61  # scores are capped at this many grid steps, so that gaps fit 64 bits
LN2_UP = Fraction(0xB17217F7D1CF79ABD, 2**68)  # ln 2 to 68 bits, rounded up
SLACK = 2.0**-20  # of the sensitivity: more than the two steps by which a mass may be wrong on two neighbours
LEAST_RHO = 2.0**-36  # below it the steps of a mass would not be small against the sensitivity

Stream = NDArray[np.uint8]
Cursor = NDArray[np.int64]


class Noise(Protocol):
    """Where the randomness of releases comes from. Everything follows from `uniform_bytes`."""

    private: bool  # False: whoever knows the seed can subtract the noise; statements then say so

    def uniform_bytes(self, count: int) -> bytes:
        """Independent uniform bytes.

        Parameters
        ----------
        count
            How many.
        """
        ...

    def at(self, place: str) -> Noise:  # noqa: ARG002  only repeatable noise depends on the place
        """The source for the release at a place of a run.

        Parameters
        ----------
        place
            The node and the number of its release.
        """
        return self

    def discrete_gaussian(self, size: int, sigma: Fraction | float) -> NDArray[np.int64]:
        """Independent integers, P(i) ∝ exp(-i²/2σ²), σ first rounded up by `rational_sigma`.

        Parameters
        ----------
        size
            How many.
        sigma
            Their standard deviation in grid steps, above 0.
        """
        return _discrete_gaussian(self, size, rational_sigma(sigma))

    def gumbel_argmax(self, scores: NDArray[np.float64], scale: float) -> int:
        """One index, P(i) ∝ exp(scores[i]/scale): the exponential mechanism.

        Parameters
        ----------
        scores
            One finite score a candidate.
        scale
            How far two scores must differ to tell them apart; `gumbel_scale` gives it from a price.
        """
        _check_choice(scores, scale)
        grid, steps = choice_grid(scale)
        heights = _whole_steps(scores, grid)
        return _pick(self, heights.max() - heights, steps)


class SystemNoise(Noise):
    """Noise for releases, from the operating system. It has no seed: noise that can be replayed can be subtracted."""

    private = True

    def uniform_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SeededNoise(Noise):
    """The same laws from a seed, for tests and published figures. Not private.

    Parameters
    ----------
    seed
        Whoever knows it can subtract the noise, and every statement of such a run says so.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generator = np.random.default_rng(seed)

    def at(self, place: str) -> SeededNoise:
        """A stream of its own for each node, and for each release of a node.

        Parameters
        ----------
        place
            The node and the number of its release.
        """
        return SeededNoise(int.from_bytes(hashlib.sha256(f"{self._seed}/{place}".encode()).digest()[:8], "little"))

    @property
    def seed(self) -> int:
        """The seed it was made from."""
        return self._seed

    def __repr__(self) -> str:
        return f"SeededNoise({self._seed})"

    def uniform_bytes(self, count: int) -> bytes:
        """Bytes that the seed fixes.

        Parameters
        ----------
        count
            How many.
        """
        return self._generator.bytes(count)


def signed_argmax(noise: Noise, scores: NDArray[np.float64], scale: float) -> tuple[int, int]:
    """One of the 2·size candidates (+scores, -scores): its index and its sign, +1 or -1."""
    winner = noise.gumbel_argmax(np.concatenate([scores, np.negative(scores)]), scale)
    return winner % len(scores), 1 if winner < len(scores) else -1


# Scales, always rounded up --------------------------------------------------------------------


def rational_sigma(sigma: Fraction | float) -> Fraction:
    """The least σ' ≥ σ with SIGMA_BITS significant bits, a whole number from 2^SIGMA_BITS on."""
    if not 0 < sigma <= LARGEST_SIGMA:  # also refuses nan
        raise InvalidInput(
            f"sigma is {float(sigma):g} grid steps; it must lie above 0 and at most 2^50. "
            "Use a coarser grid for a larger sigma, and no noise mechanism at all for sigma 0."
        )
    exact = max(Fraction(sigma), SMALLEST_SIGMA)
    denominator = 2 ** max(0, SIGMA_BITS - math.frexp(exact)[1])
    return Fraction(math.ceil(exact * denominator), denominator)


def gaussian_sigma(sensitivity: float, rho: float) -> float:
    """Δ/√(2ρ), rounded up: the least float whose Gaussian costs no more than ρ."""
    _check_price(sensitivity, rho)
    sigma = math.nextafter(sensitivity / math.sqrt(2 * rho), 0)
    while 2 * Fraction(rho) * Fraction(sigma) ** 2 < Fraction(sensitivity) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def tail_from(sigma: float, chance: float) -> int:
    """A whole number that a discrete Gaussian reaches with at most this chance; the least one to within 3 %."""
    # P(Z ≥ k) ≤ exp(-k²/2σ²) / (1 - exp(-(2k + 1)/2σ²)) / max(1, σ√2π): each further term is smaller than the one
    # before by more than that factor, and the sum of all is at least its term at zero, and the integral (Poisson).
    if not 0.0 < chance < 0.5:
        raise InvalidInput(f"chance={chance:g} of a tail must lie between 0 and .5.")

    def log_bound(k: int) -> float:
        first = -(k**2) / (2.0 * sigma**2)
        ratio = -math.expm1(-(2.0 * k + 1.0) / (2.0 * sigma**2))
        return first - math.log(ratio) - math.log(max(1.0, sigma * math.sqrt(2.0 * math.pi)))

    goal = math.log(chance) - 1e-9  # over the rounding of a few terms
    high = 1
    while log_bound(high) > goal:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_bound(middle) <= goal else (middle, high)
    return high


def gumbel_scale(sensitivity: float, rho: float) -> float:
    """Δ/√(2ρ), rounded up so that a pick on the grid, Δ + scale·2^-40, costs no more than ρ."""
    _check_price(sensitivity, rho)
    step = Fraction(1, 2**GRID_BITS)
    if 2 * Fraction(rho) <= (2 * step) ** 2:
        raise InvalidInput(f"rho={rho:g} a pick is below the resolution of the choice; spend at least 1e-23.")
    scale = sensitivity / (math.sqrt(2 * rho) - float(step))
    while 2 * Fraction(rho) * Fraction(scale) ** 2 < (Fraction(sensitivity) + step * Fraction(scale)) ** 2:
        scale = math.nextafter(scale, math.inf)
    return scale


def rounded_sensitivity(sensitivity: float, grid: float, size: int) -> float:
    """Δ + h√p: the L2 sensitivity of p real numbers after `quantise_vector` with step h, rounded up."""
    # Over the rounding of the three operations.
    return (sensitivity + grid * math.sqrt(size)) * (1 + 2**-50)


def _check_price(sensitivity: float, rho: float) -> None:
    if not (2.0**-500 <= sensitivity <= 2.0**500 and 2.0**-500 <= rho <= 2.0**500):  # also refuses nan
        raise InvalidInput(
            f"sensitivity={sensitivity:g} and rho={rho:g} must be positive and finite: "
            "state a bound for the data, and a price for the release."
        )


# From real numbers to whole grid steps --------------------------------------------------------


def quantise_vector(values: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """Numbers in whole grid steps, to the nearest; `rounded_sensitivity` says what that costs."""
    if not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise InvalidInput(f"grid={grid!r} is not a power of two; use grid_below({grid!r}) so that division is exact.")
    if not np.isfinite(values).all():
        raise InvalidInput("values must be finite: a missing or infinite number cannot be put on a grid.")
    # An overflow is capped on the same line, like any number out of range.
    with np.errstate(over="ignore"):
        return np.clip(np.rint(np.asarray(values, dtype=np.float64) / grid), -FARTHEST, FARTHEST).astype(np.int64)


def grid_below(step: float) -> float:
    """The largest power of two that does not exceed `step`."""
    if not 0 < step < math.inf:
        raise InvalidInput(f"a grid step must be positive and finite, not {step!r}.")
    return math.ldexp(0.5, math.frexp(step)[1])


# Discrete Gaussian ----------------------------------------------------------------------------


def weighted_gaussian(
    noise: Noise, shape: tuple[int, ...], sigma: Fraction, weight: float | NDArray[np.float64]
) -> NDArray[np.int64]:
    """Discrete Gaussians of sd weight·sigma, entry by entry."""
    weights = np.broadcast_to(weight, shape)
    drawn = np.zeros(shape, np.int64)
    for one in np.unique(weights):
        here = weights == one
        drawn[here] = noise.discrete_gaussian(int(here.sum()), sigma * Fraction(float(one)))
    return drawn


def _discrete_gaussian(noise: Noise, size: int, sigma: Fraction) -> NDArray[np.int64]:
    out = np.empty(size, dtype=np.int64)
    done = 0
    stream = np.empty(0, dtype=np.uint8)
    while done < size:
        # A draw cut short by the end of the stream starts again on the SAME bytes with more behind them:
        # fresh ones would prefer draws that need few bytes, and bend the law.
        fresh = noise.uniform_bytes(min(512 + BYTES_A_DRAW * (size - done), 2**22))
        stream = np.concatenate([stream, np.frombuffer(fresh, dtype=np.uint8)])
        more, used = _gaussian_kernel(stream, out[done:], sigma.numerator, sigma.denominator, math.ceil(sigma))
        done = done + more
        stream = stream[used:]
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba's njit carries no types
def _below(stream: Stream, at: Cursor, n: int) -> int:
    """Uniform on 0 … n-1, 1 ≤ n ≤ 2^50. Out of bytes: n-1, with the cursor past the end."""
    bits = 0
    while n > 1 << bits:
        bits += 1
    while at[0] + (bits + 7) // 8 <= stream.size:
        value = np.int64(0)
        for _ in range((bits + 7) // 8):
            value = value << 8 | np.int64(stream[at[0]])
            at[0] += 1
        value &= (1 << bits) - 1
        if value < n:
            return int(value)
    at[0] = stream.size + 1
    return n - 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _exp_half(stream: Stream, at: Cursor) -> bool:
    """Bernoulli(exp(-1/2))."""
    k = 1
    while _below(stream, at, 2 * k) == 0:
        k += 1
    return k % 2 == 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _exp_product(stream: Stream, at: Cursor, p: int, s: int, k: int) -> bool:
    """Bernoulli(exp(-γ)), γ = x(2k + x)/(2k + 2) with x = p/s in [0, 1)."""
    count = 1
    while True:
        if _below(stream, at, s) >= p:  # x
            break
        part = _below(stream, at, 2 * k + 2)  # (2k + x)/(2k + 2)
        if part == 2 * k + 1 or (part == 2 * k and _below(stream, at, s) >= p):
            break
        if _below(stream, at, count) != 0 or at[0] > stream.size:  # 1/count
            break
        count += 1
    return count % 2 == 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gaussian_one(stream: Stream, at: Cursor, s: int, m: int, width: int) -> int:
    """One draw with σ = s/m, width = ⌈σ⌉; meaningless if the cursor ends past the stream."""
    while at[0] <= stream.size:
        k = 0
        while at[0] <= stream.size and _exp_half(stream, at):
            k += 1
        kept = True  # P(k) ∝ exp(-k/2) exp(-k(k-1)/2)
        for _ in range(k * (k - 1)):
            if at[0] > stream.size or not _exp_half(stream, at):
                kept = False
                break
        if not kept:
            continue
        # k reaches 2^12 with probability below exp(-2^23), never in other words; below it all fits 63 bits.
        negative = _below(stream, at, 2) == 1
        i = (k * s + m - 1) // m + _below(stream, at, width)
        p = i * m - k * s
        if p >= s or (negative and i == 0):
            continue
        for _ in range(k + 1):
            if not _exp_product(stream, at, p, s, k):
                kept = False
                break
        if kept:
            return int(-i if negative else i)
    return 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gaussian_kernel(stream: Stream, out: NDArray[np.int64], s: int, m: int, width: int) -> tuple[int, int]:
    """Fills `out` while bytes last: how many draws are finished, how many bytes they used."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    for done in range(out.size):
        out[done] = _gaussian_one(stream, at, s, m, width)
        if at[0] > stream.size:
            return done, used
        used = at[0]
    return out.size, used


# Choice ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def choice_grid(scale: float) -> tuple[float, int]:
    """The step h ≤ scale·2^-40, a power of two, and M = ⌈scale·ln2/h⌉: weights are 2^(-gap/M)."""
    grid = grid_below(math.ldexp(scale, -GRID_BITS))
    return grid, math.ceil(Fraction(scale) * LN2_UP / Fraction(grid))


def _whole_steps(scores: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """Scores in grid steps, cut toward zero: distances grow to the next whole step at most."""
    # What overflows is capped, what underflows is cut to 0.
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.trunc(np.asarray(scores, dtype=np.float64) / grid), -FARTHEST, FARTHEST).astype(np.int64)


def _pick(noise: Noise, gaps: NDArray[np.int64], steps: int) -> int:
    """One index, P ∝ 2^(-gap/steps), gaps capped at DEPTH·steps."""
    bands = np.minimum(gaps // steps, DEPTH)
    weights = [size << (DEPTH - band) for band, size in enumerate(np.bincount(bands).tolist())]
    total = sum(weights)
    while True:
        band = 0
        ticket = _uniform(noise, total)
        while ticket >= weights[band]:
            ticket -= weights[band]
            band += 1
        winner = int(np.flatnonzero(bands == band)[ticket >> (DEPTH - band)])
        beyond = 0 if band == DEPTH else int(gaps[winner]) - band * steps
        if _power_of_half(noise, beyond, steps):
            return winner


def _power_of_half(noise: Noise, p: int, q: int) -> bool:
    """Bernoulli(2^(-p/q)) = Bernoulli(exp(-γ)), γ = ln2·p/q < 1."""
    k = 1
    while _uniform(noise, q) < p and _ln_two(noise) and _uniform(noise, k) == 0:
        k += 1
    return k % 2 == 1


def _ln_two(noise: Noise) -> bool:
    """Bernoulli(ln 2) = Σ 2^-k/k."""
    k = 1
    while _uniform(noise, 2) == 0:
        k += 1
    return _uniform(noise, k) == 0


def _uniform(noise: Noise, n: int) -> int:
    """Uniform on 0 … n-1 for any size of n."""
    bits = (n - 1).bit_length()
    size = -(-bits // 8)
    while True:
        value = int.from_bytes(noise.uniform_bytes(size), "little") >> (8 * size - bits)
        if value < n:
            return value


def _check_choice(scores: NDArray[np.float64], scale: float) -> None:
    if not 2.0**-500 <= scale <= 2.0**500:
        raise InvalidInput(f"scale={scale:g} cannot be used for a choice; gumbel_scale gives one from a price.")
    if np.ndim(scores) != 1 or len(scores) == 0:
        raise InvalidInput(f"cannot choose from scores of shape {np.shape(scores)}; pass one score a candidate.")
    if not np.isfinite(scores).all():
        raise InvalidInput("scores must be finite: leave out a candidate that may not win.")


# One choice by several parties ---------------------------------------------------------------


def shared_scale(sensitivity: float, rho: float) -> float:
    """b for a choice that costs at most ρ in all, the rounding of the masses included."""
    if not rho >= LEAST_RHO:
        raise InvalidInput(f"rho={rho:g} a choice is too little for a shared one; spend at least {LEAST_RHO:g}.")
    return gumbel_scale(sensitivity * (1.0 + SLACK), rho)


def own_part(noise: Noise, scores: NDArray[np.float64], scale: float) -> tuple[int, int, int]:
    """One of this party's signed candidates, by their own law: index, sign, and the mass of all, in grid steps."""
    grid, steps = choice_grid(scale)
    heights = _whole_steps(np.concatenate([scores, np.negative(scores)]), grid)
    best = int(heights.max())
    gaps = best - heights
    winner = _pick(noise, gaps, steps)
    total = math.fsum(np.exp2(-np.minimum(gaps / steps, DEPTH)))
    return winner % len(scores), 1 if winner < len(scores) else -1, best + round(steps * math.log2(total))


def draw_party(noise: Noise, masses: Sequence[int], scale: float) -> int:
    """The number of the party whose pick is taken, P(k) ∝ 2^(mass_k/M): whole powers as weights, then a coin."""
    _, steps = choice_grid(scale)
    best = max(masses)
    powers, rests = zip(*(divmod(best - mass, steps) for mass in masses), strict=True)
    weights = [1 << (max(powers) - power) for power in powers]
    while True:
        number = 0
        ticket = _uniform(noise, sum(weights))
        while ticket >= weights[number]:
            ticket -= weights[number]
            number += 1
        if _power_of_half(noise, rests[number], steps):
            return number
