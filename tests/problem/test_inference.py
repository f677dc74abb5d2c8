"""Intervals and tests from a noisy Gram matrix: against least squares, closed forms, and the truth they must cover."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from colonnade.errors import InvalidInput
from colonnade.problem.inference import (
    WEAK,
    LinearModel,
    determined_columns,
    holm,
    quadratic_variance,
    score_noise,
    self_consistent_ridge,
    spread_by_noise,
    weakness,
)
from tests.helpers.noisy_grams import even_noise, gram, noise_of, table

# ------------------------------------------------------------------------------------------------ without noise


@pytest.mark.parametrize(("rows", "columns"), [(30, 4), (400, 12)])
def test_without_noise_it_is_ordinary_least_squares(rows, columns):
    X, y = table(np.random.default_rng(rows), rows, columns)
    theirs = sm.OLS(y, np.column_stack([X, np.ones(rows)])).fit()
    model = LinearModel(gram(X, y), np.zeros((columns + 2,) * 2), rows)
    found = model.intervals(level=0.9)
    assert found.estimate == pytest.approx(theirs.params, rel=1e-8)
    assert found.error == pytest.approx(theirs.bse, rel=1e-8)
    assert found.pvalue == pytest.approx(theirs.pvalues, rel=1e-8)
    assert np.column_stack([found.low, found.high]) == pytest.approx(theirs.conf_int(0.1), rel=1e-8)
    assert found.sampling == pytest.approx(np.ones(columns + 1))
    assert model.covariance == pytest.approx(theirs.cov_params(), rel=1e-7)
    assert model.r_squared().estimate == pytest.approx(theirs.rsquared, rel=1e-8)
    assert model.overall().pvalue == pytest.approx(theirs.f_pvalue, rel=1e-8)
    assert model.xi == 0.0


def test_without_noise_joint_tests_and_contrasts_are_those_of_least_squares():
    X, y = table(np.random.default_rng(5), 60, 5)
    theirs = sm.OLS(y, np.column_stack([X, np.ones(60)])).fit()
    model = LinearModel(gram(X, y), np.zeros((7, 7)), 60)
    L = np.array([[1.0, -1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0, 0.0, 1.0]])
    r = np.array([0.1, -0.2])
    expected = theirs.f_test((L, r))
    found = model.joint(L, r)
    assert (found.statistic / 2, found.df) == (pytest.approx(float(expected.fvalue), rel=1e-8), 2)
    assert found.pvalue == pytest.approx(float(expected.pvalue), rel=1e-8)
    one = theirs.t_test(L[:1])
    alone = model.intervals(L[:1])
    assert (alone.low[0], alone.high[0]) == pytest.approx(tuple(one.conf_int()[0]), rel=1e-8)


def test_a_model_of_the_constant_alone_is_the_mean():
    X, y = table(np.random.default_rng(4), 40, 2)
    for noise in (0.0, 1.0):
        sds = np.array([[0.0, noise], [noise, noise]])
        model = LinearModel(gram(X, y)[2:, 2:], sds, 40)
        assert model.beta[0] == pytest.approx(y.mean())
        assert model.overall().pvalue == 1.0


def test_robust_multiplies_the_sampling_variance():
    X, y = table(np.random.default_rng(6), 60, 3)
    plain, twice = (LinearModel(gram(X, y), np.zeros((5, 5)), 60, robust=h).intervals() for h in (1.0, 2.0))
    assert twice.error == pytest.approx(math.sqrt(2.0) * plain.error)


# ------------------------------------------------------------------------------------------------ closed forms


@given(st.floats(-3.0, 50.0), st.floats(0.1, 9.0))
def test_the_ridge_of_one_column_is_the_positive_root(m, v):
    """r = v/(m + r)."""
    found = self_consistent_ridge(np.array([[m]]), np.array([[v]]))
    root = (-m + math.sqrt(m * m + 4.0 * v)) / 2.0
    if found.found:
        assert found.added[0, 0] == pytest.approx(root, rel=1e-6)
    else:  # where it is not reached the noise rules: the slope of r ↦ v/(m + r) is over 1 in size
        assert v / (m + root) ** 2 > 0.9


def test_the_interval_of_one_column_is_fiellers_with_the_ridge_in_its_denominator():
    m, b, rows = 900.0, 350.0, 10**9
    sds = np.array([[40.0, 0.0, 25.0], [0.0, 0.0, 0.0], [25.0, 0.0, 0.0]])
    matrix = np.array([[m, 0.0, b], [0.0, rows, 0.0], [b, 0.0, b * b / m]])  # a target that the column explains whole
    model = LinearModel(matrix, sds, rows)
    found, z2 = model.intervals(), stats.norm.isf(0.025) ** 2
    ridge = (-m + math.sqrt(m * m + 4 * 1600.0)) / 2
    for end in (found.low[0], found.high[0]):  # its roots, but for a residual variance of about 0
        assert ((m + ridge) * end - b) ** 2 == pytest.approx(z2 * (625.0 + 1600.0 * end**2), rel=1e-4)


def test_noise_moves_scores_and_squares_as_their_formulas_say():
    rng = np.random.default_rng(7)
    sds, gamma = np.abs(rng.normal(size=(4, 4))), np.array([0.5, -2.0, 1.0, -1.0])
    sds, H, Y = (sds + sds.T) / 2, np.outer(gamma, gamma), np.diag([1.0, 2.0, 0.5, 0.1]) + 0.1
    draws = [noise_of(rng, sds) for _ in range(40_000)]
    scores = np.array([(E @ gamma)[:3] for E in draws])
    # Fourth moments of a normal: an entry of a covariance has relative sd of at most √(2/40,000), 0.7 %; 5 of them.
    assert np.cov(scores.T) == pytest.approx(score_noise(sds**2, gamma), rel=0.04, abs=0.04 * scores.var())
    assert np.var([float(np.sum(E * H)) for E in draws]) == pytest.approx(quadratic_variance(sds**2, H), rel=0.04)
    square = np.mean([E @ Y @ E for E in draws], axis=0)
    assert square == pytest.approx(spread_by_noise(sds**2, Y), abs=0.04 * np.abs(square).max())


def test_weakness_is_the_spectral_radius_of_its_map():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(5, 5))
    G, v = A @ A.T / 40.0, rng.uniform(0.1, 1.0, (5, 5))
    v = (v + v.T) / 2
    rows = [(G @ spread_by_noise(v, np.eye(25)[k].reshape(5, 5)) @ G).ravel() for k in range(25)]
    # On symmetric matrices the map is what its values on e_i·e_j' are, halved with their turned ones.
    turn = np.arange(25).reshape(5, 5).T.ravel()
    radius = np.abs(np.linalg.eigvals((np.array(rows) + np.array(rows)[turn]) / 2.0)).max()
    assert weakness(G, v) == pytest.approx(radius / (1.0 + radius), rel=1e-4)


def test_units_of_columns_change_nothing():
    rng = np.random.default_rng(9)
    X, y = table(rng, 4000, 4)
    sds = even_noise(6, 60.0)
    noisy, units = gram(X, y) + noise_of(rng, sds), np.array([100.0, 0.01, 3.0, 1.0, 7.0, 0.2])
    one = LinearModel(noisy, sds, 4000)
    other = LinearModel(noisy * np.outer(units, units), sds * np.outer(units, units), 4000)
    assert other.xi == pytest.approx(one.xi, rel=1e-4)
    a, b = one.intervals(), other.intervals()
    assert b.low * units[:-1] / units[-1] == pytest.approx(a.low, rel=1e-6)
    assert b.pvalue == pytest.approx(a.pvalue, rel=1e-5)
    assert other.overall().statistic == pytest.approx(one.overall().statistic, rel=1e-6)
    assert other.r_squared() == pytest.approx(one.r_squared(), rel=1e-6)


@given(st.integers(0, 2**32), st.floats(5.0, 120.0), st.floats(0.5, 0.99))
def test_an_interval_holds_0_exactly_where_its_test_does_not_refuse_0(seed, sd, level):
    rng = np.random.default_rng(seed)
    X, y = table(rng, 2000, 4)
    sds = even_noise(6, sd)
    found = LinearModel(gram(X, y) + noise_of(rng, sds), sds, 2000).intervals(level=level)
    inside = (found.low <= 0.0) & (found.high >= 0.0)
    clear = found.determined & (np.abs(found.pvalue - (1 - level)) > 1e-9)
    assert (inside[clear] == (found.pvalue > 1 - level)[clear]).all()
    assert np.isnan(found.pvalue[~found.determined]).all()


# ------------------------------------------------------------------------------------------------ what must be covered


def repeated(rng, rows, columns, sd, repeats):
    """Fresh rows and fresh noise each time, and the truth."""
    sds = even_noise(columns + 2, sd)
    for _ in range(repeats):
        X, y = table(rng, rows, columns)
        yield LinearModel(gram(X, y) + noise_of(rng, sds), sds, rows)


TRUTH = np.append(np.linspace(0.5, -0.3, 5), 0.2)


def test_intervals_cover_where_the_plain_inverse_is_inflated():
    repeats, hit, ours, plain = 600, [], [], []
    for model in repeated(np.random.default_rng(10), 3000, 5, 150.0, repeats):
        found = model.intervals()
        hit.append(((found.low <= TRUTH) & (found.high >= TRUTH)).mean())
        ours.append(found.estimate[0])
        plain.append(np.linalg.solve(model.matrix[:-1, :-1], model.matrix[:-1, -1])[0])
    # Chance: four standard errors, taken over independent repeats. Above 95 % it is conservative by construction.
    spread = 4.0 * np.std(hit) / math.sqrt(repeats)
    assert 0.95 - spread <= np.mean(hit) <= 0.98 + spread
    assert abs(np.mean(ours) - 0.5) <= 4.0 * np.std(ours) / math.sqrt(repeats) + 0.005
    assert np.mean(plain) - 0.5 > 4.0 * np.std(plain) / math.sqrt(repeats)  # what the ridge takes away


def test_residuals_lose_nothing_to_the_noise_on_average():
    rng, repeats = np.random.default_rng(18), 600
    X, y = table(rng, 3000, 5)
    exact, sds = gram(X, y), even_noise(7, 150.0)
    found = [LinearModel(exact + noise_of(rng, sds), sds, 3000).rss for _ in range(repeats)]
    truth = LinearModel(exact, np.zeros((7, 7)), 3000).rss
    assert np.mean(found) == pytest.approx(truth, abs=4.5 * np.std(found) / math.sqrt(repeats))


def test_tests_keep_their_size():
    repeats, joint, score, holds = 600, 0, 0, 0
    L, r = np.eye(6)[:3], TRUTH[:3]
    for model in repeated(np.random.default_rng(11), 3000, 5, 90.0, repeats):
        joint += model.joint(L, r).pvalue < 0.05
        score += model.anderson_rubin(TRUTH[:-1]).pvalue < 0.05
        share = model.r_squared()
        # Columns are uniform within ±1, the first has half of the last added.
        explained = TRUTH[:5] @ covariance() @ TRUTH[:5]
        holds += share.low <= explained / (explained + 1.0) <= share.high
    most = stats.binom.isf(1e-5, repeats, 0.06)  # 5 %, and 1 % for what is approximate
    assert joint <= most
    assert score <= most
    assert repeats - holds <= most


def test_the_interval_of_r_squared_counts_what_fitting_learns_of_the_noise():
    """At ξ of about 0.2: by first order alone it misses more often than this allows."""
    repeats, missed, first = 800, 0, 0
    explained = TRUTH[:5] @ covariance() @ TRUTH[:5]
    truth = explained / (explained + 1.0)
    for model in repeated(np.random.default_rng(17), 2000, 5, 150.0, repeats):
        share = model.r_squared()
        missed += not share.low <= truth <= share.high
        H = np.outer(model.gamma, model.gamma) / model.tss
        around = np.eye(7)[6] - model.matrix[5, 6] / 2000 * np.eye(7)[5]
        H -= model.rss / model.tss**2 * np.outer(around, around)
        sampling = 4 * max(share.estimate, 0) * (1 - share.estimate) ** 2 / 2000
        first += abs(share.estimate - truth) > 1.96 * math.sqrt(quadratic_variance(model.variance, H) + sampling)
    assert missed <= stats.binom.isf(1e-5, repeats, 0.06)
    assert first > missed


def covariance():
    C = np.eye(5) / 3.0
    C[0, 0] += 0.25 / 3.0
    C[0, 4] = C[4, 0] = 0.5 / 3.0
    return C


def test_where_the_noise_drowns_the_columns_only_whole_vectors_are_tested():
    repeats, refused = 400, 0
    for model in repeated(np.random.default_rng(12), 3000, 5, 1500.0, repeats):
        refused += model.anderson_rubin(TRUTH[:-1], TRUTH[-1]).pvalue < 0.05
        if model.xi > WEAK:
            assert not model.intervals().determined.any()
            with pytest.raises(InvalidInput, match="does not determine"):
                model.joint(np.eye(6)[:2])
    assert refused <= stats.binom.isf(1e-5, repeats, 0.06)
    assert model.xi > WEAK


def test_intervals_for_several_tests_at_once_are_bonferronis():
    model = next(repeated(np.random.default_rng(13), 3000, 5, 60.0, 1))
    assert model.intervals(tests=5).low == pytest.approx(model.intervals(level=0.99).low)


# ------------------------------------------------------------------------------------------------ which columns


def test_the_columns_that_the_noise_hides_are_left_out_first():
    rng = np.random.default_rng(14)
    X = rng.uniform(-1.0, 1.0, (4000, 6))
    X[:, 2] *= 0.01  # nothing of it is left
    X[:, 4] = X[:, 5] + 0.02 * rng.normal(size=4000)  # and these two are one
    matrix, sds = gram(X, X[:, 0])[:-1, :-1], even_noise(8, 60.0)[:-1, :-1]
    sds[-1, -1] = 0.0
    sds[-1, :-1] = sds[:-1, -1] = 60.0 / math.sqrt(2.0)
    keep, out = determined_columns(matrix + noise_of(rng, sds), sds)
    assert sorted([*keep, *out]) == list(range(6))
    assert 2 in out
    assert len({4, 5} & set(out)) == 1
    assert {0, 1, 3} <= set(keep)
    kept, left = determined_columns(matrix + noise_of(rng, sds), sds, protect={2, 4, 5})
    assert {2, 4, 5} <= set(kept)
    assert not {2, 4, 5} & set(left)


def test_columns_that_vary_less_are_less_determined_and_left_out_first():
    """Columns that go with nothing, under one noise: their squares alone decide, and the order is that of their sizes."""
    squares = np.array([4e4, 30.0, 2e4, 10.0, 3e4, 20.0])
    sds = np.full((7, 7), 10.0)
    sds[-1, -1] = 0.0
    keep, out = determined_columns(np.diag(np.append(squares, 5e4)), sds)
    assert (keep.tolist(), out) == ([0, 2, 4], [3, 5, 1])


@pytest.mark.parametrize(("x", "kept"), [(0.04, [0]), (0.08, [])])
def test_a_column_is_kept_whose_own_square_is_known_to_a_twentieth(x, kept):
    """x = v·g² with g·(1 + v·g) = 1, so that g = 1 − x; of .08 the weakness, .08/1.08, would still do."""
    sds = np.diag([1e4 * math.sqrt(x) / (1.0 - x), 0.0])
    keep, out = determined_columns(np.diag([1e4, 5e4]), sds)
    assert (keep.tolist(), out) == (kept, [j for j in (0,) if j not in kept])


def test_columns_are_kept_until_they_are_weak_together():
    """Alike ones under one noise: x = p·v·g², g = 1 − x, at most 1/9 where p·v is at most 9/64; v = .04 leaves three.

    Alone each has v·g² = .04·.9² = .03."""
    sds = np.full((13, 13), 0.2 * 1e4)
    sds[-1] = sds[:, -1] = 0.0
    keep, out = determined_columns(1e4 * np.diag([*(1.0 + 1e-3 * np.arange(12)), 5.0]), sds)
    assert (keep.tolist(), out) == ([9, 10, 11], list(range(9)))


def test_without_noise_no_column_is_left_out():
    X, y = table(np.random.default_rng(15), 50, 4)
    keep, out = determined_columns(gram(X, y)[:-1, :-1], np.zeros((5, 5)))
    assert (keep.tolist(), out) == ([0, 1, 2, 3], [])


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=12))
def test_holm_is_holms(pvalues):
    assert holm(np.array(pvalues)) == pytest.approx(multipletests(pvalues, method="holm")[1], rel=1e-9)


def test_holm_counts_what_is_not_determined_and_says_nothing_of_it():
    found = holm(np.array([0.01, np.nan, 0.02]))
    assert found[[0, 2]] == pytest.approx([0.03, 0.04])
    assert np.isnan(found[1])


# ------------------------------------------------------------------------------------------------ by hand


def test_a_perfect_fit_is_believed_up_to_a_thousandth_of_the_target_or_the_noise():
    """t = 2a + 1 over a = −1, 0, 1, 2: squares around the mean are 20, of the residuals 0."""
    a = np.array([-1.0, 0.0, 1.0, 2.0])
    matrix, noise = gram(a[:, None], 2.0 * a + 1.0), np.zeros((3, 3))
    assert LinearModel(matrix, noise, 4).residual_variance == pytest.approx(0.0, abs=1e-12)
    for sd, least in ((0.01, 0.01), (3.0, 0.02)):  # of the target's own square, which enters the residuals whole
        noise[-1, -1] = sd
        one = LinearModel(matrix, noise, 4)
        assert one.rss_noise == pytest.approx(sd)
        assert one.residual_variance == pytest.approx(least / 2.0, rel=1e-6)


@pytest.mark.parametrize("constant", [None, 0.0, 0.7])
def test_a_score_test_of_all_coefficients_is_the_share_of_squares_that_they_leave(constant):
    """Without noise: n·(RSS(β) − RSS(β̂))/RSS(β), the constant the best beside the slopes where it is not given."""
    X, y = table(np.random.default_rng(18), 60, 3)
    slopes = np.array([0.5, -0.2, 0.1])
    rest = y - X @ slopes
    rest = rest - (rest.mean() if constant is None else constant)
    least = float(np.square(sm.OLS(y, sm.add_constant(X)).fit().resid).sum())
    expected = 60.0 * (rest @ rest - least) / (rest @ rest)
    found = LinearModel(gram(X, y), np.zeros((5, 5)), 60).anderson_rubin(slopes, constant)
    assert found.statistic == pytest.approx(expected, rel=1e-8)
    assert found.df == 3 + (constant is not None)
    assert found.pvalue == pytest.approx(stats.chi2.sf(expected, found.df), rel=1e-6)


def test_beyond_a_weakness_of_a_half_nothing_is_said_of_a_coefficient():
    """A column whose noisy square came out as −¼, of variance 5/4: g·(−¼ + 5/4·g) = 1 at g = 1, x = 5/4·g², ξ = 5/9."""
    matrix = np.array([[-0.25, 0.0, 1.0], [0.0, 100.0, 0.0], [1.0, 0.0, 90.0]])
    noise = np.zeros((3, 3))
    noise[0, 0] = math.sqrt(1.25)
    one = LinearModel(matrix, noise, 100)
    assert one.ridge.inverse[0, 0] == pytest.approx(1.0)
    assert one.xi == pytest.approx(5 / 9)
    found = one.intervals()
    assert (found.low[0], found.high[0]) == (-math.inf, math.inf)
    assert np.isnan(found.pvalue[0])
    with pytest.raises(InvalidInput, match=r"index of weakness is 0\.56, over 0\.5"):
        one.joint(np.eye(2)[:1])


# ------------------------------------------------------------------------------------------------ refusals


def test_what_cannot_be_answered_is_refused():
    X, y = table(np.random.default_rng(16), 50, 3)
    exact, zero = gram(X, y), np.zeros((5, 5))
    with pytest.raises(InvalidInput, match="4 coefficients from 4 rows"):
        LinearModel(exact, zero, 4)
    with pytest.raises(InvalidInput, match="at least 1"):
        LinearModel(exact, zero, 50, robust=0.5)
    for level in (95, 1.0, 0.0, math.nan):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            LinearModel(exact, zero, 50).intervals(level=level)
    X[:, 1] = X[:, 0]
    with pytest.raises(InvalidInput, match="depend on each other"):
        LinearModel(gram(X, y), zero, 50).intervals()
    with pytest.raises(InvalidInput, match="leave one out"):
        LinearModel(exact, zero, 50).joint(np.ones((2, 4)))
    with pytest.raises(InvalidInput, match="not determined"):
        LinearModel(exact - np.diag([0, 0, 0, 0, 1e3]), zero, 50).r_squared()
