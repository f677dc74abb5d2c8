"""Residuals of a target with two values spread unevenly: against the sandwich, and against the truth they must cover."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from colonnade.problem.inference import LinearModel, TwoValues

FLAGS, LISTS = np.array([True, True, True, False]), np.array([-1, 0, 0, -1])
TRUTH = np.array([0.08, 0.03, 0.06, 0.01, 0.03])  # a flag, two levels of three, a number, the constant


def table(rng, rows, values=(0.0, 1.0)):
    """A rare class, more frequent where a flag is, in rows of a list and along a number."""
    level = rng.choice(3, rows, p=[0.7, 0.2, 0.1])
    X = np.column_stack([rng.random(rows) < 0.1, level == 1, level == 2, rng.uniform(-1, 1, rows), np.ones(rows)])
    happens = rng.random(rows) < X @ TRUTH
    return X.astype(float), np.where(happens, values[1], values[0])


def model(X, y, sd, two=None, rng=None):
    rows = np.column_stack([X, y])
    sds = np.full((6, 6), sd)
    sds[4, 4] = sds[5, 5] = 0.0
    noise = np.triu(rng.normal(size=sds.shape) * sds) if rng is not None else np.zeros((6, 6))
    return LinearModel(rows.T @ rows + noise + np.triu(noise, 1).T, sds, len(y), two=two)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0)])
def test_errors_are_those_of_the_sandwich_where_the_third_moments_are_known(values):
    X, y = table(np.random.default_rng(1), 400_000, values)
    two = TwoValues(*values, FLAGS, LISTS)
    ours, alike = (model(X, y, 1e-6, one).intervals().error for one in (two, None))
    sandwich = sm.OLS(y, X).fit(cov_type="HC0").bse
    assert (sandwich / alike).max() > 1.3  # what equal variances miss
    assert ours[:3] == pytest.approx(sandwich[:3], rel=0.05)
    assert (ours > 0.97 * sandwich).all()
    assert (ours >= alike * (1 - 1e-9)).all()


def test_a_half_and_half_class_without_effects_spreads_alike():
    rng = np.random.default_rng(2)
    X, y = table(rng, 50_000)[0], rng.integers(0, 2, 50_000).astype(float)
    ours, alike = (model(X, y, 1e-6, one).covariance for one in (TwoValues(0.0, 1.0, FLAGS, LISTS), None))
    assert ours == pytest.approx(alike, rel=0.05, abs=1e-2 * np.abs(alike).max())


def test_tests_of_a_rare_class_keep_their_size_where_equal_variances_do_not():
    rng, repeats, two = np.random.default_rng(3), 300, TwoValues(0.0, 1.0, FLAGS, LISTS)
    refused, alike, score, missed = 0, 0, 0, 0
    L, r = np.eye(5)[:3], TRUTH[:3]
    for _ in range(repeats):
        X, y = table(rng, 20_000)
        one = model(X, y, 5.0, two, rng)
        refused += one.joint(L, r).pvalue < 0.05
        alike += LinearModel(one.matrix, one.noise, one.rows).joint(L, r).pvalue < 0.05
        score += one.anderson_rubin(TRUTH[:-1]).pvalue < 0.05
        found = one.intervals()
        missed += np.sum((found.low > TRUTH) | (found.high < TRUTH)) / 5
    most = stats.binom.isf(1e-5, repeats, 0.06)  # 5 %, and 1 % for what is approximate
    assert refused <= most
    assert score <= most
    assert missed <= most
    assert alike > refused
