"""Claims about the noise. Laws are compared with exact probabilities at alpha = 1e-8 a test. The tail of a chi-square
of counts from 100 on is up to five times as heavy there as its law says: a sound sampler fails at most 5e-8 of them."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from benchmarks.noise import ReferenceNoise
from colonnade.attacks.lower_bound import epsilon_lower_bound
from colonnade.errors import InvalidInput
from colonnade.privacy import mechanisms
from colonnade.privacy.mechanisms import (
    SeededNoise,
    SystemNoise,
    choice_grid,
    gaussian_sigma,
    grid_below,
    gumbel_scale,
    quantise_vector,
    rational_sigma,
    rounded_sensitivity,
    signed_argmax,
)

ALPHA = 1e-8
SIGMAS = (0.3, 1.0, 7.5, 1000.0)
# The samplers of others, which the law above judges as well as ours: one width every time, all of them in an audit.
OF_THE_REFERENCE = [s if s == 7.5 else pytest.param(s, marks=pytest.mark.audit) for s in SIGMAS]
CANDIDATES = {
    "ties": [0.0, 0.0, 1.5, 1.5, 1.5],
    "gaps within one halving": [0.0, 0.1, 0.2, 0.65],
    "gaps over many halvings": [0.0, 2.0, 3.0, 5.0, 5.0 + math.log(2)],
    "one out of reach": [0.0, -1e6, 0.5],
    "huge and equal": [1e300, 1e300, 1e300],
    "alone": [3.0],
}
finite = st.floats(-1e12, 1e12, allow_nan=False)
positive = st.floats(1e-9, 1e9)


# ---------------------------------------------------------------- the discrete Gaussian


@cache
def ours(sigma):
    """A million draws, for all tests that look at such ones."""
    return SystemNoise().discrete_gaussian(10**6, sigma)


@cache
def theirs(sigma):
    return ReferenceNoise().discrete_gaussian(50_000, sigma)


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_vectorised_gaussian_follows_its_law(sigma):
    assert fits_gaussian(ours(sigma), sigma) > ALPHA


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
@pytest.mark.parametrize("sigma", OF_THE_REFERENCE)
def test_the_reference_follows_the_same_law(sigma):
    assert fits_gaussian(theirs(sigma), sigma) > ALPHA


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
@pytest.mark.parametrize("sigma", OF_THE_REFERENCE)
def test_vectorised_and_reference_draws_cannot_be_told_apart(sigma):
    edges = np.unique(np.quantile(ours(sigma), np.linspace(0.002, 0.998, 200)))
    table = [np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (ours(sigma), theirs(sigma))]
    table = np.array(table)[:, np.sum(table, axis=0) > 0]
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.chance(2e-8, "the level of a Kolmogorov-Smirnov test of a million draws: 1e-8")
@pytest.mark.parametrize("sigma", [2.0**24, 3e9, 2.0**49])
def test_wide_noise_is_normal_at_scale(sigma):
    """The law's discreteness is far below what 10^6 draws can see, so the continuous law is a fair reference."""
    draws = SystemNoise().discrete_gaussian(10**6, sigma)
    assert stats.kstest(draws / sigma, "norm").pvalue > ALPHA


@pytest.mark.chance(2e-8, "the level of a chi-square of 3,900 draws a cell: 1e-8")
def test_the_last_bits_of_wide_noise_are_uniform():
    draws = SystemNoise().discrete_gaussian(10**6, 2.0**40)
    assert stats.chisquare(np.bincount(draws & 255, minlength=256)).pvalue > ALPHA


@pytest.mark.chance(2e-8, "a chi-square of 250,000 draws a cell at 1e-8, and 6 sds of a correlation: 2e-9")
def test_signs_and_neighbouring_draws_are_independent():
    draws = SystemNoise().discrete_gaussian(10**6, 50.0)
    signs = (draws[draws != 0] > 0).astype(int)
    pairs = np.bincount(2 * signs[:-1:2][: signs.size // 2] + signs[1::2], minlength=4)
    assert stats.chisquare(pairs).pvalue > ALPHA
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 6.0 / math.sqrt(draws.size)  # 6 sd: 2e-9


@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.parametrize("sigma", [0.3, 12.5, 2.0**45])
def test_a_draw_cut_short_goes_on_with_the_bytes_it_had(sigma, piece):
    """Starting it again on fresh bytes would favour short draws; so the numbers depend on the stream alone."""
    stream = SeededNoise(5).uniform_bytes(40_000)
    whole = Replayed(stream, len(stream)).discrete_gaussian(100, sigma)
    assert whole.tolist() == Replayed(stream, piece).discrete_gaussian(100, sigma).tolist()


@settings(max_examples=100)
@given(sigma=st.floats(2.0**-9, 2.0**50))
def test_sigma_is_rounded_up_by_at_most_one_in_eight_million(sigma):
    rational = rational_sigma(sigma)
    assert Fraction(sigma) <= rational <= Fraction(sigma) * (1 + Fraction(1, 2**23))
    assert max(rational.numerator, rational.denominator) <= 2**50


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**51])
def test_an_impossible_sigma_is_refused_with_advice(sigma):
    with pytest.raises(InvalidInput, match="coarser grid"):
        SystemNoise().discrete_gaussian(3, sigma)


# ---------------------------------------------------------------- the choice


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
@pytest.mark.parametrize("scores", CANDIDATES.values(), ids=CANDIDATES)
def test_a_choice_follows_the_exponential_mechanism(scores):
    assert fits_choice(SystemNoise(), scores, scale=0.7, draws=15_000) > ALPHA


@pytest.mark.parametrize("name", [n if n == "ties" else pytest.param(n, marks=pytest.mark.audit) for n in CANDIDATES])
def test_a_choice_from_a_seed_follows_it_too(name):
    """The same code over other bytes: the case with equal scores every time, all of them in an audit."""
    assert fits_choice(SeededNoise(11), CANDIDATES[name], scale=0.7, draws=15_000) > ALPHA


@pytest.mark.audit
@pytest.mark.parametrize("scores", CANDIDATES.values(), ids=CANDIDATES)
def test_a_choice_follows_the_exponential_mechanism_a_million_times(scores):
    assert fits_choice(SystemNoise(), scores, scale=0.7, draws=10**6) > ALPHA


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
def test_the_reference_chooses_by_the_same_law():
    assert fits_choice(ReferenceNoise(), CANDIDATES["gaps over many halvings"], scale=0.7, draws=3_000) > ALPHA


@pytest.mark.chance(4e-8, "four exact binomial tests at 1e-8 each")
def test_the_coins_of_a_choice_have_their_probabilities():
    """The two Bernoulli factories on their own, where a small bias cannot hide behind other candidates."""
    noise, draws = SystemNoise(), 60_000
    chances = {math.log(2): lambda: mechanisms._ln_two(noise)}
    for p, q in ((1, 3), (1, 2), (999, 1000)):
        chances[2 ** (-p / q)] = lambda p=p, q=q: mechanisms._power_of_half(noise, p, q)
    for chance, toss in chances.items():
        assert stats.binomtest(sum(toss() for _ in range(draws)), draws, chance).pvalue > ALPHA


@pytest.mark.chance(5e-8, "a level of 1e-8, of which a chi-square's tail may make five times as much")
def test_a_signed_choice_is_one_choice_among_both_signs():
    scores, draws = np.array([1.0, -2.0, 0.0]), 15_000
    seen = Counter(signed_argmax(SystemNoise(), scores, 1.1) for _ in range(draws))
    outcomes = [(i, sign) for i in range(3) for sign in (1, -1)]
    weights = np.exp([sign * scores[i] / 1.1 for i, sign in outcomes])
    assert chi_square([seen[outcome] for outcome in outcomes], weights / weights.sum()) > ALPHA


@pytest.mark.chance(1e-8, "the level of an exact binomial test")
def test_a_million_candidates_are_chosen_from_by_weight():
    """Half of them are a factor 3 heavier; which half wins is then a coin of 3/4. A fair one fails 85 % of runs."""
    scores = np.where(np.arange(10**6) % 2 == 0, math.log(3), 0.0)
    wins = sum(SystemNoise().gumbel_argmax(scores, 1.0) % 2 == 0 for _ in range(160))
    assert stats.binomtest(wins, 160, 0.75).pvalue > ALPHA


@settings(max_examples=100)
@given(scale=st.floats(1e-100, 1e100))
def test_the_grid_of_a_choice_only_adds_noise(scale):
    grid, steps = choice_grid(scale)
    with mpmath.workdps(60):
        used = steps * mpmath.mpf(grid) / mpmath.log(2)
        assert scale <= used <= scale * (1 + mpmath.mpf(2) ** -38)
    assert Fraction(grid) <= Fraction(scale) / 2**40


@settings(max_examples=100)
@given(score=finite, other=finite, scale=st.floats(1e-6, 1e6))
def test_scores_at_a_distance_stay_within_that_many_whole_steps(score, other, scale):
    grid, _ = choice_grid(scale)
    here, there = mechanisms._whole_steps(np.array([score, other]), grid)
    assert abs(int(here) - int(there)) <= math.ceil(abs(Fraction(score) - Fraction(other)) / Fraction(grid))


@pytest.mark.parametrize(
    ("scores", "scale"),
    [([], 1.0), ([[1.0]], 1.0), ([1.0], 0.0), ([1.0], math.nan), ([math.nan], 1.0), ([math.inf], 1.0)],
)
def test_an_impossible_choice_is_refused(scores, scale):
    with pytest.raises(InvalidInput, match=r"gumbel_scale gives one|one score a candidate|leave out a candidate"):
        SystemNoise().gumbel_argmax(np.array(scores), scale)


# ---------------------------------------------------------------- prices


@settings(max_examples=100)
@given(sensitivity=positive, rho=st.floats(1e-12, 1e3))
def test_sigma_is_the_least_float_that_costs_no_more_than_its_price(sensitivity, rho):
    def cost_covered(sigma):
        return 2 * Fraction(rho) * Fraction(sigma) ** 2 >= Fraction(sensitivity) ** 2

    sigma = gaussian_sigma(sensitivity, rho)
    assert cost_covered(sigma)
    assert not cost_covered(math.nextafter(sigma, 0))


@settings(max_examples=100)
@given(sensitivity=positive, rho=st.floats(1e-12, 1e3))
def test_a_choice_on_the_grid_costs_no_more_than_its_price(sensitivity, rho):
    """The whole chain in exact arithmetic: sensitivity in grid steps, and the scale that is really used."""
    scale = gumbel_scale(sensitivity, rho)
    grid, steps = choice_grid(scale)
    moved = math.ceil(Fraction(sensitivity) / Fraction(grid))
    with mpmath.workdps(60):
        assert (moved * mpmath.log(2) / steps) ** 2 / 2 <= rho
    assert scale <= sensitivity / math.sqrt(2 * rho) * (1 + 2e-12 / math.sqrt(2 * rho) + 1e-14)


@settings(max_examples=100)
@given(sensitivity=positive, grid=positive, size=st.integers(1, 10**9))
def test_rounding_p_numbers_adds_a_step_times_the_root_of_p(sensitivity, grid, size):
    added = Fraction(rounded_sensitivity(sensitivity, grid, size)) - Fraction(sensitivity)
    assert added > 0
    assert added**2 >= Fraction(grid) ** 2 * size


@pytest.mark.parametrize("price", [gaussian_sigma, gumbel_scale])
@pytest.mark.parametrize(("sensitivity", "rho"), [(0.0, 1.0), (1.0, 0.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_release_without_bound_or_price_is_refused(price, sensitivity, rho):
    with pytest.raises(InvalidInput, match="state a bound"):
        price(sensitivity, rho)


def test_a_choice_too_cheap_for_its_grid_is_refused():
    with pytest.raises(InvalidInput, match="spend at least"):
        gumbel_scale(1.0, 1e-24)


# ---------------------------------------------------------------- whole grid steps


@settings(max_examples=100)
@given(values=arrays(np.float64, 5, elements=finite), exponent=st.integers(-20, 20))
def test_a_vector_goes_to_the_nearest_grid_point(values, exponent):
    grid = 2.0**exponent
    for value, step in zip(values, quantise_vector(values, grid), strict=True):
        assert abs(Fraction(value) - int(step) * Fraction(grid)) <= Fraction(grid) / 2


def test_a_grid_that_would_round_the_division_is_refused():
    with pytest.raises(InvalidInput, match=r"grid_below\(0.1\)"):
        quantise_vector(np.ones(1), 0.1)
    assert grid_below(0.1) == 0.0625
    assert grid_below(2.0) == 2.0


# ---------------------------------------------------------------- where the randomness comes from


@pytest.mark.chance(1e-70, "32 random bytes are the same twice: 2^-256")
def test_noise_for_releases_has_no_seed():
    assert not inspect.signature(SystemNoise).parameters
    assert SystemNoise().private
    assert SystemNoise().uniform_bytes(32) != SystemNoise().uniform_bytes(32)


def test_seeded_noise_repeats_itself_and_says_it_is_not_private():
    first, second = (SeededNoise(3).discrete_gaussian(100, 5.0).tolist() for _ in range(2))
    assert first == second
    assert SeededNoise(4).discrete_gaussian(100, 5.0).tolist() != first
    assert not SeededNoise(3).private


@pytest.mark.chance(1e-8, "the error of the epsilon that is proven, if it were 0.05; it is 0")
def test_the_low_bits_of_a_release_betray_nothing():
    """Mironov's attack: which neighbour could have produced these bits? Both values differ by a third of a step."""
    grid, sigma, trials = 2.0**-10, 64.0, 200_000
    scores, points = [], []
    for value in (0.2, 0.2 + grid / 3):
        steps = quantise_vector(np.full(trials, value), grid) + SystemNoise().discrete_gaussian(trials, sigma)
        release = steps * grid
        points.append(release / grid)
        scores.append((steps & 7).astype(float))
    assert all((p == np.rint(p)).all() for p in points)  # on the grid for both: nothing below it
    assert not epsilon_lower_bound(*scores, delta=0.0, confidence=1 - ALPHA).against(0.05).violated


@pytest.mark.chance(0, "whole steps of noise leave what is below a step as it was")
def test_the_same_attack_sees_a_value_that_was_not_rounded():
    """The planted bug: whole steps of noise on a value that is not on the grid."""
    grid, sigma, trials = 2.0**-10, 64.0, 2_000
    noise = SystemNoise()
    releases = [value + grid * noise.discrete_gaussian(trials, sigma) for value in (0.2, 0.2 + grid / 3)]
    scores = [np.round(release / grid % 1.0, 3) for release in releases]
    assert epsilon_lower_bound(*scores, delta=1e-5, confidence=1 - ALPHA).against(1.0).violated


# ---------------------------------------------------------------- helpers


class Replayed(SeededNoise):
    """A fixed stream of bytes, handed out in pieces."""

    def __init__(self, stream: bytes, piece: int) -> None:
        self._stream, self._piece = stream, piece

    def uniform_bytes(self, count: int) -> bytes:
        given, self._stream = self._stream[: self._piece], self._stream[self._piece :]
        assert given, "the stream of the test is too short"
        return given


def fits_gaussian(draws: np.ndarray, sigma: float) -> float:
    """p-value of the draws under the exact discrete law, cells of small expectation merged into the tails."""
    exact = float(rational_sigma(sigma))
    points = np.arange(-math.ceil(12 * exact) - 1, math.ceil(12 * exact) + 2)
    weights = np.exp(-(points**2) / (2 * exact**2))
    assert np.abs(draws).max() <= points[-1]
    return chi_square(np.bincount(draws - points[0], minlength=points.size), weights / weights.sum())


def fits_choice(noise: mechanisms.Noise, scores: list[float], scale: float, draws: int) -> float:
    picks = np.bincount([noise.gumbel_argmax(np.array(scores), scale) for _ in range(draws)], minlength=len(scores))
    weights = np.exp((np.array(scores) - max(scores)) / scale)
    return chi_square(picks, weights / weights.sum())


def chi_square(seen, chances) -> float:
    """p-value: of cells expected 100 times or more by chi-square, of all others together by the binomial law."""
    seen, chances = np.asarray(seen), np.asarray(chances)
    draws = int(np.sum(seen))
    rare = chances * draws < 100
    together = stats.binomtest(int(seen[rare].sum()), draws, min(float(chances[rare].sum()), 1.0)).pvalue
    seen, chances = seen[~rare], chances[~rare]
    apart = stats.chisquare(seen, chances * (seen.sum() / chances.sum())).pvalue if seen.size > 1 else 1.0
    return min(1.0, 2.0 * min(float(together), float(apart)))  # the worse of two looks


def test_the_logarithm_of_two_is_rounded_up_in_its_last_bit():
    """Weights 2^(-gap/M) with M from too small a logarithm would be sharper than was paid for."""
    import mpmath

    with mpmath.workdps(60):
        over = mpmath.mpf(mechanisms.LN2_UP.numerator) / mechanisms.LN2_UP.denominator - mpmath.log(2)
        assert 0 < over < mpmath.mpf(2) ** -68
