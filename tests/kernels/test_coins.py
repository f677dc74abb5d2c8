"""Coins of real chances: what doubles decide is right, what they leave open is settled exactly, and so is the law."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import sparse, stats

from colonnade.kernels import coins, sampler_state, samplers
from colonnade.kernels.coins import NO, OPEN, YES
from colonnade.kernels.column_scores import grid_of
from colonnade.kernels.samplers import exact_picks
from colonnade.kernels.score_bounds import Law, constants
from colonnade.kernels.sparse_fw import LossCode, exp_negative
from colonnade.kernels.stream import BUFFER, keyed_stream
from tests.helpers.noises import NOISE, SHAPES, transform
from tests.helpers.sparse_problems import arrays, fresh_stream, sparse_problem

DIGITS = 60  # of mpmath, beside 53 bits of a double


def real(x):
    """A fraction, a double or an integer in mpmath, exactly as far as its digits go."""
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


def words(*drawn):
    """A stream whose next words are these, at most eight."""
    stream = keyed_stream(bytes(32))
    stream[BUFFER : BUFFER + len(drawn)] = np.array(drawn, dtype=np.uint64)
    stream[0] = 0
    return stream


# ------------------------------------------------------------------------------------------------ doubles and doubt


@settings(max_examples=300, deadline=None)
@given(
    scale=st.floats(1e-9, 1e3),
    steps=st.integers(0, 2**61),
    exponent=st.integers(-61, -20),
    gap=st.floats(0.0, 699.0),
    size=st.floats(1.0, 2.0**62),
    envelope=st.integers(1, 2**62),
)
def test_the_logarithm_of_a_heavy_chance_is_off_by_less_than_half_the_doubt(
    scale, steps, exponent, gap, size, envelope
):
    """Scores in whole steps beyond 2^53, which no double holds, beside 60 digits; a quarter of the doubt is not used up."""
    grid = 2.0**exponent
    alpha = scale * (steps * grid)
    assume(alpha < 1e9)
    ref = alpha + gap
    with mpmath.workdps(DIGITS):
        exact = real(Fraction(scale) * Fraction(grid) * steps)
        true = real(size) * mpmath.cosh(exact) * mpmath.exp(-real(ref)) / envelope
        found = real(size * sampler_state.scaled_cosh(alpha, ref) / float(envelope))
        off = abs(mpmath.log(found) - mpmath.log(true))
    assert off <= 0.5 * coins.doubt_of(alpha, coins.DOUBT)
    assert off <= 0.25 * abs(alpha) * coins.DOUBT + 2.0**-43


@settings(max_examples=200, deadline=None)
@given(scale=st.floats(1e-9, 1e3), steps=st.integers(-(2**61), 2**61), exponent=st.integers(-61, -20))
def test_the_logarithm_of_a_sign_is_off_by_less_than_half_the_doubt(scale, steps, exponent):
    grid = 2.0**exponent
    alpha = scale * (steps * grid)
    assume(abs(alpha) < 349.0)
    with mpmath.workdps(DIGITS):
        odds = mpmath.exp(-2 * abs(real(Fraction(scale) * Fraction(grid) * steps)))
        found = exp_negative(2.0 * abs(alpha))
        off = abs(mpmath.log(real(found / (1.0 + found))) - mpmath.log(odds / (1 + odds)))
    assert off <= 0.5 * coins.doubt_of(alpha, coins.DOUBT)


@pytest.mark.parametrize("beyond", [700.0, 701.0, 2_000.0, 1e6])
def test_where_the_exponential_stops_falling_both_chances_are_below_the_floor(beyond):
    """exp_negative stays at exp(-700): in heads that is below what a toss adds to a chance."""
    found = 2.0**62 * sampler_state.scaled_cosh(1.0, 1.0 + beyond) * 2.0**coins.HEAD
    assert 0.0 <= found < coins.FLOOR
    assert coins.toss(1.0, found, coins.doubt_of(1.0, coins.DOUBT)) == NO
    assert coins.toss(0.0, found, coins.doubt_of(1.0, coins.DOUBT)) == OPEN


@given(a=st.floats(-0.5, 0.5))
def test_the_short_series_of_cosh_is_good_to_the_last_bits(a):
    with mpmath.workdps(DIGITS):
        assert abs(real(sampler_state.small_cosh(a)) / mpmath.cosh(real(a)) - 1) < 2.0**-48


@given(a=st.floats(0.0, 699.9))
def test_the_exponential_is_good_to_the_last_bits(a):
    """The derivation allows 2^-49."""
    with mpmath.workdps(DIGITS):
        assert abs(real(exp_negative(a)) / mpmath.exp(-real(a)) - 1) < 2.0**-49


@settings(max_examples=300)
@given(
    chance=st.floats(2.0**-30, 0.5),
    doubt=st.floats(2.0**-20, 1.0),
    place=st.floats(-1.5, 1.5),
    slip=st.floats(-1.0, 1.0),
)
def test_an_answer_holds_for_every_chance_within_the_doubt(chance, doubt, place, slip):
    """For heads around the chance, u anywhere behind its head, and the true chance anywhere in exp(±doubt/2) times it."""
    head = min(math.floor(chance * 2.0**53 * math.exp(place * doubt)), 2**53 - 1)
    answer = coins.toss(float(head), chance, doubt)
    with mpmath.workdps(DIGITS):
        true = real(chance) * mpmath.exp(real(slip) * real(doubt) / 2)
        if answer == NO:
            assert mpmath.mpf(head) / 2**53 >= true
        if answer == YES:
            assert mpmath.mpf(head + 1) / 2**53 <= true
    if doubt > 0.5:
        assert answer == OPEN


def test_few_heads_are_left_open():
    """One and what the doubt covers: 2·doubt·heads on either side of nothing."""
    chance, doubt = 0.37, coins.doubt_of(50.0, coins.DOUBT)
    middle = chance * 2.0**53
    assert coins.toss(math.floor(middle * (1.0 - 2.0 * doubt)), chance, doubt) == YES
    assert coins.toss(math.floor(middle), chance, doubt) == OPEN
    assert coins.toss(math.ceil(middle * (1.0 + 2.0 * doubt)), chance, doubt) == NO


# ------------------------------------------------------------------------------------------------ settled exactly


@settings(max_examples=100, deadline=None)
@given(x=st.fractions(-2_000, 5), digits=st.integers(20, 120))
def test_two_fractions_enclose_the_exponential(x, digits):
    low, high = coins.exp_between(x, digits)
    with mpmath.workdps(digits + 30):
        true = mpmath.exp(real(x))
        assert real(low) < true < real(high)
        assert real(high) / real(low) - 1 < mpmath.mpf(10) ** (2 - digits)


def test_an_exponential_far_down_has_an_upper_bound_that_falls_with_the_digits():
    low, high = coins.exp_between(Fraction(-(10**9)), 40)
    assert low == 0 < high < Fraction(1, 10**17_000)
    assert coins.exp_between(Fraction(-(10**9)), 80)[1] < high
    assert coins.exp_between(Fraction(-39_999), 40)[0] > 0


def test_a_coin_is_settled_by_the_bit_in_which_it_differs_from_its_chance():
    """u shares 53, 117 or 181 bits with the chance, and then is just below it or just above."""
    log_weight, ref, factor = Fraction(3, 7), Fraction(2), Fraction(5, 4)
    between = coins.weight_between(log_weight, ref, factor)
    with mpmath.workdps(200):
        chance = real(factor) * mpmath.cosh(real(log_weight)) * mpmath.exp(-real(ref))
        for more in (1, 2, 3):
            bits = int(mpmath.floor(chance * mpmath.mpf(2) ** (53 + 64 * more)))
            head, rest = bits >> 64 * more, bits & ((1 << 64 * more) - 1)
            for move, answer in ((-1, True), (1, False)):
                drawn = [(rest + move) >> 64 * (more - 1 - i) & (2**64 - 1) for i in range(more)]
                stream = words(*drawn)
                assert coins.settle(stream, head, between) is answer
                assert stream[0] == more  # and no sooner, and no later


def test_the_sign_that_a_score_does_not_have_has_its_exact_chance():
    for log_weight in (Fraction(0), Fraction(-5, 3), Fraction(5, 3), Fraction(300)):
        low, high = coins.sign_between(log_weight)(80)
        with mpmath.workdps(100):
            true = 1 / (1 + mpmath.exp(2 * abs(real(log_weight))))
            assert real(low) < true < real(high)
            assert real(high) / real(low) - 1 < mpmath.mpf(10) ** -77


# ------------------------------------------------------------------------------------------------ the law, exactly


def tiny_problem():
    """200 rows, and columns of all three classes whose scores at w = 0 are known by hand: values in eighths, slopes ±½."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    columns = [np.zeros(200)]
    for lean, filled in ((1.0, 200), (0.96, 199), (0.9, 195), (-1.0, 198), (0.2, 20), (0.0, 12), (-1.0, 6), (1.0, 3)):
        column = np.where(rng.random(200) < (1.0 + lean) / 2.0, y, -y) * rng.integers(4, 9, 200) / 8.0
        columns.append(np.where(np.arange(200) < filled, column, 0.0))
    for row in (0, 1, 7):
        columns.append(np.where(np.arange(200) == row, 0.5, 0.0))
    X = np.column_stack(columns)
    scores = [sum(Fraction(float(x)) * Fraction(-float(t)) / 2 for x, t in zip(c, y, strict=True)) for c in X.T]
    return sparse.csc_matrix(X.astype(np.float32)), y, scores  # the types of the other tests: one kernel to compile


def state_of(X, y, c, stream):
    bounds = constants(LossCode.LOGISTIC, 1.0, 1.0)
    law = Law(0, 5.0, c, 1.0, 1.0, *bounds, grid_of(y.size, bounds[2]))
    return samplers.make_sampler((X.data, X.indices, X.indptr), y, law, stream)


def first_coin(X, y, c, drawn, monkeypatch):
    """The state, the class and the exact chance of the coin of the first attempt, for these words."""
    monkeypatch.setattr(coins, "DOUBT", 1.0)  # every coin is open
    s = state_of(X, y, c, words(*drawn))
    index, sign = np.zeros(1, np.int64), np.zeros(1, np.int8)
    assert samplers._exact_kernel(s, index, sign)
    found = []

    def settle(stream, head, between):
        found.append(between(DIGITS))
        return True

    monkeypatch.setattr(coins, "settle", settle)
    samplers._settle_coin(s, sign)
    assert samplers._exact_kernel(s, index, sign)  # the coin of the sign
    samplers._settle_coin(s, sign)
    assert not samplers._exact_kernel(s, index, sign)
    monkeypatch.undo()
    return s, index[0], sign[0], *found


def test_the_law_of_a_small_case_is_the_exponential_mechanism_to_fifty_digits(monkeypatch):
    """Every outcome of an attempt, light, cool and hot: the integers of its proposal times the chance of its coin."""
    X, y, scores = tiny_problem()
    d, c = len(scores), 0.24
    monkeypatch.setattr(coins, "DOUBT", 1.0)
    s = state_of(X, y, c, words(0, 0, 0))
    samplers._exact_kernel(s, np.zeros(1, np.int64), np.zeros(1, np.int8))
    monkeypatch.undo()
    every, light, each = (int(s.totals[i]) for i in (sampler_state.AT_REBUILD, sampler_state.LIGHT, 2))
    hot = s.hot[: s.wholes[sampler_state.HOT_COUNT]]
    sizes, count = [int(e) for e in s.envelope[: hot.size]], s.which.size
    assert 0 < hot.size < count < d
    assert light + count * each + sum(sizes) == every
    outcomes = [((0, k), Fraction(light, every * d)) for k in range(d) if k not in s.which]
    outcomes += [((light, x), Fraction(each, every)) for x in range(count) if x not in hot]
    starts = light + count * each + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(object)
    outcomes += [((int(r),), Fraction(e, every)) for r, e in zip(starts, sizes, strict=True)]
    mass, signs = {}, {}
    with mpmath.workdps(DIGITS):
        for drawn, proposed in outcomes:
            _, k, sign, chance, other = first_coin(X, y, c, (*drawn, 0, 0), monkeypatch)
            mass[k], signs[k] = real(proposed) * real(sum(chance) / 2), real(sum(other) / 2)
            assert 0 < chance[1] <= 1
            assert sign == (-1 if scores[k] >= 0 else 1)  # the coin said: the other one
        assert sorted(mass) == list(range(d))
        ideal = [mpmath.cosh(real(Fraction(c) * score)) for score in scores]
        whole, all_mass = sum(ideal), sum(mass.values())
        distance = sum(abs(mass[k] / all_mass - ideal[k] / whole) for k in range(d)) / 2
        assert distance < mpmath.mpf(10) ** -50
        for k in range(d):
            true = 1 / (1 + mpmath.exp(2 * abs(real(Fraction(c) * scores[k]))))
            assert abs(signs[k] / true - 1) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("noise", ["drowned", "faint"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_coin_of_a_run_has_the_answer_of_exact_arithmetic(shape, noise, monkeypatch):
    """All are left open and settled; doubles, asked as well, say the same wherever they answer."""
    X, y = sparse_problem(1, **SHAPES[shape])
    settled, asked = coins.settle, []

    def settle(stream, head, between):
        answer = settled(stream, head, between)
        asked.append((head, between, answer))
        return answer

    monkeypatch.setattr(coins, "settle", settle)
    monkeypatch.setattr(coins, "DOUBT", 1.0)
    checked, honest = [0, 0], samplers._settle_coin

    def settle_coin(s, sign):
        stage, alpha, doubt = s.wholes[sampler_state.STAGE], s.reals[sampler_state.ALPHA], 2.0**-50
        doubt = coins.doubt_of(alpha, doubt)
        k, size, ref = s.wholes[sampler_state.COLUMN], s.reals[sampler_state.SIZE], s.reals[sampler_state.REF]
        if stage == sampler_state.OPEN_SIGN:
            odds = exp_negative(2.0 * abs(alpha))
            chance = odds / (1.0 + odds)
        elif k in s.which:
            chance = size * sampler_state.scaled_cosh(abs(alpha), ref) / float(s.totals[sampler_state.AGAINST])
        else:
            chance = s.reals[sampler_state.CHANCE] * sampler_state.small_cosh(alpha)
        honest(s, sign)
        head, _, answer = asked[-1]
        said = coins.toss(float(head), chance, doubt)
        assert said == (YES if answer else NO)
        checked[int(stage == sampler_state.OPEN_SIGN)] += 1

    monkeypatch.setattr(samplers, "_settle_coin", settle_coin)
    exact_picks(
        *arrays(X),
        y,
        loss=LossCode.LOGISTIC,
        radius=20.0,
        rounds=60,
        scale=NOISE[noise],
        feature_bound=1.0,
        stream=keyed_stream(bytes(32)),
    )
    assert checked[0] >= checked[1] == 60


def test_light_columns_are_picked_alike_whoever_decides(monkeypatch):
    X, y = sparse_problem(1, **SHAPES["wide"])

    def picks():
        return exact_picks(
            *arrays(X),
            y,
            loss=LossCode.LOGISTIC,
            radius=20.0,
            rounds=300,
            scale=0.001,
            feature_bound=1.0,
            stream=keyed_stream(bytes(32)),
        )

    (by_doubles, counts) = picks()
    monkeypatch.setattr(coins, "DOUBT", 1.0)
    settled, _ = picks()
    assert counts.heavy == 0
    assert (by_doubles.columns == settled.columns).all()
    assert (by_doubles.signs == settled.signs).all()


@pytest.mark.chance(1e-7, "KS at 1e-7")
def test_a_run_that_settles_every_coin_has_the_law(monkeypatch):
    """The way back into the kernel, with columns and signs that were left open."""
    monkeypatch.setattr(coins, "DOUBT", 1.0)
    X, y = sparse_problem(1, **SHAPES["dense columns"])
    picks, _ = exact_picks(
        *arrays(X),
        y,
        loss=LossCode.LOGISTIC,
        radius=20.0,
        rounds=500,
        scale=0.3,
        feature_bound=1.0,
        stream=fresh_stream(),
    )
    u = transform(X, y, picks, loss=LossCode.LOGISTIC, radius=20.0, c=0.3, limit=1.0, rng=np.random.default_rng())
    assert stats.kstest(u, "uniform").pvalue > 1e-7


# ------------------------------------------------------------------------------------------------ envelopes


@pytest.mark.parametrize("bounds", ["tied", "at the cut", "one far above", "beyond all exponents", "spread", "light"])
def test_no_envelope_is_below_the_real_weight_nor_zero(bounds):
    """Whole envelopes of 50,000 columns beside 60 digits of their largest weights; their sum is the total."""
    count = 50_000
    logs = {
        "tied": np.full(count, 300.0),
        "at the cut": np.r_[500.0, np.full(count - 1, 500.0 - sampler_state.CUT)],
        "one far above": np.r_[10_000.0, np.full(count - 1, 1.0)],
        "beyond all exponents": np.r_[1e6, np.linspace(0.0, 1e6, count - 1)],
        "spread": np.linspace(100.0, 160.0, count),
        "light": np.linspace(0.0, 5.0, count),
    }[bounds]
    cool_top = 0.5 if bounds == "light" else 90.0
    heavy, scratch = np.zeros((count, sampler_state.table.WIDTH)), np.empty(count)
    heavy[:, sampler_state.table.SCORE] = heavy[:, sampler_state.table.CAP] = logs
    heavy[:, sampler_state.table.TAKEN] = -1.0  # in no snapshot
    envelope, groups, flat = np.zeros(count, np.uint64), np.zeros((count >> 8) + 1, np.uint64), np.zeros(30)
    hot, light = (
        np.arange(count),
        30e6 * (sampler_state.small_cosh(0.5) * sampler_state.MARGIN),
    )  # as make_sampler has it
    ref, size, all_light, each, every = sampler_state.rebuild_envelopes(
        heavy, flat, flat, 1.0, light, 7, cool_top, 8, hot, scratch, envelope, groups
    )
    assert int(envelope.min()) >= 1
    assert sum(map(int, envelope)) == sum(map(int, groups))
    assert int(every) == int(all_light) + 7 * int(each) + sum(map(int, envelope)) < 2**62
    with mpmath.workdps(DIGITS):
        for i in {0, 1, 2, count // 2, count - 2, count - 1, *range(0, count, 997)}:
            assert real(size) * mpmath.cosh(real(logs[i])) * mpmath.exp(-real(ref)) <= int(envelope[i])
        assert real(size) * mpmath.exp(-real(ref)) * 30_000_000 * mpmath.cosh(0.5) <= int(all_light)
        assert real(size) * mpmath.cosh(cool_top) * mpmath.exp(-real(ref)) <= int(each)


@pytest.mark.parametrize("above", [0.0, 0.3, 43.0, 709.9, 711.0, 1_500.0, 1e5, 1e9, float("inf")])
def test_an_envelope_from_a_bound_above_all_others_is_not_below_the_largest_weight(above):
    """A new trend may say less than the old one did: then the old envelope, at most that of ref, has to stand."""
    reals = np.zeros(sampler_state.REALS)
    for ref, size in ((0.5, 2.0**61), (300.0, 2.0**30), (2.0**29, 2.0**61)):
        reals[[sampler_state.REF, sampler_state.SIZE]] = ref, size
        with mpmath.workdps(DIGITS):
            largest = real(size) * mpmath.cosh(ref) * mpmath.exp(-real(ref))  # of a column whose c·|score| is ref
            assert largest <= int(_renewed(ref + above, reals)) < 2**62


@njit
def _renewed(bound, reals):
    return samplers._envelope(bound, reals)
