"""Claims about attacks: what they prove is true, they catch planted bugs, and they leave sound mechanisms alone.

Verdicts are asked for at an error probability of 1e-6, so the sound mechanisms below are accused less than once
in 50,000 runs of this file; the planted bugs are far enough over their claim to be missed less often still.
"""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.attacks.lower_bound import (
    Verdict,
    choice_log_ratio,
    clopper_pearson,
    epsilon_lower_bound,
)
from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise, gaussian_sigma, gumbel_scale, signed_argmax

DELTA = 1e-5
CONFIDENCE = 1 - 1e-6
SENSITIVITY = 1000  # whole grid steps
CLAIMS = (0.1, 1.0, 4.0)
SIGNED_IN, SIGNED_OUT = np.array([0.5, 0.0]), np.array([-0.5, 0.0])  # each score moves by 1


# ---------------------------------------------------------------- planted bugs


def test_noise_left_out_is_caught():
    scores = [np.full(1000, float(exact)) for exact in (SENSITIVITY, 0)]
    assert verdict(scores).violated


@pytest.mark.chance(1e-9, "either tail shows it, and each misses less than once in 10^5 (exact binomials)")
def test_a_sensitivity_stated_at_half_is_caught():
    sigma = gaussian_sigma(SENSITIVITY / 2, rho_for(1.0, DELTA))
    assert verdict(gaussian_scores(10**6, sigma)).violated


@pytest.mark.chance(1e-30, "80 of 1000 signs would do, and 531 are due")
def test_a_leaked_sign_is_caught():
    """The choice is made among |scores| and the exact sign goes with it."""
    noise, scale = SystemNoise(), gumbel_scale(1.0, rho_for(1.0, DELTA))

    def leaky(scores):
        index = noise.gumbel_argmax(np.abs(scores), scale)
        return float(np.sign(scores[index]))

    assert verdict([np.array([leaky(s) for _ in range(2000)]) for s in (SIGNED_IN, SIGNED_OUT)]).violated


def test_a_reused_seed_is_caught():
    """Who knows the stream subtracts it: here from one earlier release of a public number."""
    sigma = gaussian_sigma(SENSITIVITY, rho_for(1.0, DELTA))

    def difference(exact):
        public, release = (value + SeededNoise(7).discrete_gaussian(1, sigma)[0] for value in (0, exact))
        return float(release - public)

    assert verdict([np.array([difference(exact) for _ in range(1000)]) for exact in (SENSITIVITY, 0)]).violated


@pytest.mark.chance(1e-9, "either tail shows it, and each misses less than once in 10^5 (exact binomials)")
def test_four_releases_paid_as_one_are_caught():
    rounds = [sound_scores(1.0), *(gaussian_scores(10**6, sound_sigma(1.0)) for _ in range(3))]
    assert verdict([sum(column) for column in zip(*rounds, strict=True)]).violated


# ---------------------------------------------------------------- sound mechanisms


@pytest.mark.chance(1e-12, "the worst threshold is over its claim with 6e-14, exact binomials")
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_sound_gaussian_is_consistent_with_its_claim(claim):
    assert not verdict(sound_scores(claim), claim).violated


@pytest.mark.chance(1e-12, "rates of 2500 picks would have to be off by 8 sds")
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_sound_signed_choice_is_consistent_with_its_claim(claim):
    noise, scale = SystemNoise(), gumbel_scale(1.0, rho_for(claim, DELTA))
    both = [np.concatenate([s, -s]) for s in (SIGNED_IN, SIGNED_OUT)]

    def score(scores):
        index, sign = signed_argmax(noise, scores, scale)
        return choice_log_ratio(index + (sign < 0) * scores.size, *both, scale)

    assert not verdict([np.array([score(s) for _ in range(5000)]) for s in (SIGNED_IN, SIGNED_OUT)], claim).violated


def test_the_bound_comes_close_to_the_truth():
    """Randomised response at epsilon 1.5: the best attack is the answer itself, so little is lost.

    10^6 trials: hit and false rates are known to 0.4 % at this confidence, hence 0.03 of epsilon at the outside.
    """
    rng = np.random.default_rng(0)
    truth = 1 / (1 + math.exp(-1.5))
    scores = [(rng.random(10**6) < chance).astype(float) for chance in (truth, 1 - truth)]
    assert 1.45 < epsilon_lower_bound(*scores, delta=0.0, confidence=CONFIDENCE).epsilon <= 1.5


def test_the_error_probability_is_kept_even_for_the_worst_mechanism():
    """Randomised response meets its epsilon exactly, so false alarms are as frequent as they can be.

    At confidence 0.8, 300 audits raise 60 on average at most; 100 or more then have probability below 1e-7.
    """
    rng = np.random.default_rng(1)
    truth, audits = 1 / (1 + math.exp(-1.0)), 300
    alarms = 0
    for _ in range(audits):
        scores = [(rng.random(400) < chance).astype(float) for chance in (truth, 1 - truth)]
        alarms += epsilon_lower_bound(*scores, delta=0.0, confidence=0.8).epsilon > 1.0
    assert alarms < 100


def test_looking_for_the_best_threshold_raises_no_false_alarms():
    """Pure noise, epsilon 0: judged on the trials that chose the threshold, 167 of these 200 audits would alarm.

    At confidence 0.5 they may raise 100 on average; 136 or more then have probability below 1e-6.
    """
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(200):
        shown = epsilon_lower_bound(*rng.standard_normal((2, 2000)), delta=0.0, confidence=0.5)
        alarms += shown.against(0.0).violated
    assert alarms < 136


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("swapped", [False, True])
def test_an_attacker_need_not_know_which_way_the_score_points(turned, swapped):
    rng = np.random.default_rng(2)
    scores = [turned * (rng.random(20_000) < chance).astype(float) for chance in (0.2, 0.001)]
    shown = epsilon_lower_bound(*(scores[::-1] if swapped else scores), delta=0.0, confidence=CONFIDENCE)
    assert 3.5 < shown.epsilon < math.log(200)


def test_what_delta_allows_is_not_held_against_a_mechanism():
    """A release that gives everything away one time in a hundred is (0, 0.01)-private."""
    rng = np.random.default_rng(3)
    scores = [(rng.random(100_000) < chance).astype(float) for chance in (0.01, 0.0)]
    assert epsilon_lower_bound(*scores, delta=0.0, confidence=CONFIDENCE).epsilon > 3
    assert not epsilon_lower_bound(*scores, delta=0.01, confidence=CONFIDENCE).against(0.0).violated


def test_infinite_scores_are_scores():
    scores = [np.full(1000, math.inf), np.full(1000, -math.inf)]
    assert verdict(scores).violated


# ---------------------------------------------------------------- bounds and ratios


@settings(max_examples=100)
@given(trials=st.integers(1, 60), successes=st.integers(0, 60), confidence=st.floats(0.5, 0.999999))
def test_clopper_pearson_solves_the_binomial_tails(trials, successes, confidence):
    successes = min(successes, trials)
    low, high = (float(rates[0]) for rates in clopper_pearson(np.array([successes]), trials, (1 - confidence) / 2))
    tail = mpmath.mpf((1 - confidence) / 2)
    if successes > 0:
        assert float(at_least(successes, trials, low) / tail) == pytest.approx(1, rel=1e-6)
    else:
        assert low == 0
    if successes < trials:
        assert float((1 - at_least(successes + 1, trials, high)) / tail) == pytest.approx(1, rel=1e-6)
    else:
        assert high == 1


def test_the_ratio_of_choices_is_the_ratio_of_their_chances():
    inside, outside = np.array([1.0, 2.0, 800.0]), np.array([2.0, 1.0, 799.0])
    chances = [mpmath.exp(s[1] / 3) / sum(mpmath.exp(v / 3) for v in s) for s in (inside, outside)]
    assert choice_log_ratio(1, inside, outside, 3.0) == pytest.approx(float(mpmath.log(chances[0] / chances[1])))


# ---------------------------------------------------------------- verdicts


def test_a_verdict_says_what_it_means():
    assert Verdict(1.0, 2.5, 1000, 0.999).sentence.startswith("violated: epsilon is at least 2.5, the claim is 1")
    consistent = Verdict(1.0, 0.25, 1000, 0.999)
    assert consistent.sentence.startswith("consistent: proves nothing more than epsilon >= 0.25")
    assert "1,000 trials a side, error probability 0.001" in consistent.sentence


@pytest.mark.parametrize(
    "ask",
    [
        lambda: epsilon_lower_bound(np.zeros(3), np.zeros(4), 0.0, 0.9),
        lambda: epsilon_lower_bound(np.zeros((3, 1)), np.zeros(3), 0.0, 0.9),
        lambda: epsilon_lower_bound(np.zeros(1), np.zeros(1), 0.0, 0.9),
        lambda: epsilon_lower_bound(np.full(4, np.nan), np.zeros(4), 0.0, 0.9),
        lambda: epsilon_lower_bound(np.zeros(4), np.zeros(4), 1.0, 0.9),
        lambda: epsilon_lower_bound(np.zeros(4), np.zeros(4), 0.0, 1.0),
    ],
)
def test_an_audit_without_trials_or_error_probability_is_refused(ask):
    with pytest.raises(InvalidInput, match=r"as many trials|is nan|delta|0.999 is usual"):
        ask()


# ---------------------------------------------------------------- helpers


def verdict(scores, claim: float = 1.0) -> Verdict:
    return epsilon_lower_bound(*scores, delta=DELTA, confidence=CONFIDENCE).against(claim)


def sound_sigma(claim: float) -> float:
    return gaussian_sigma(SENSITIVITY, rho_for(claim, DELTA))


@cache
def sound_scores(claim: float) -> list[np.ndarray]:
    """A million releases with the noise that they should have."""
    return gaussian_scores(10**6, sound_sigma(claim))


def gaussian_scores(trials: int, sigma: float) -> list[np.ndarray]:
    """One number a trial: its log-ratio grows with it, so the number itself is the best score."""
    return [(exact + SystemNoise().discrete_gaussian(trials, sigma)).astype(float) for exact in (SENSITIVITY, 0)]


def at_least(successes: int, trials: int, rate: float) -> mpmath.mpf:
    rate = mpmath.mpf(rate)
    return mpmath.fsum(
        mpmath.binomial(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1)
    )
