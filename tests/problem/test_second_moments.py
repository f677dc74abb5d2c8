"""Correlations, components, odds and the choice of a model from a noisy Gram matrix: closed forms, and what they cover."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import expit

from colonnade.problem import ElasticNet, Lasso, Ridge
from colonnade.problem.inference import LinearModel
from colonnade.problem.second_moments import choose_model, components, correlations, odds_ratio
from tests.helpers.noisy_grams import even_noise, gram, noise_of, table

MIX = np.array([[1.0, 0, 0, 0], [0.5, 0.8, 0, 0], [-0.3, 0.2, 0.6, 0], [0.9, 0, 0.1, 0.2]]) / 3.0


def rows_of(rng, count):
    return np.column_stack([rng.normal(size=(count, 4)) @ MIX.T + 0.3, np.ones(count)])


def most_misses(repeats, share=0.06):
    """5 %, and 1 % for what is approximate; exceeded once in 10^5 runs."""
    return stats.binom.isf(1e-5, repeats, share)


def test_without_noise_correlations_are_pearsons_with_fishers_interval():
    Z = rows_of(np.random.default_rng(1), 5000)
    found = correlations(Z.T @ Z, np.zeros((5, 5)), 5000)
    assert found.estimate == pytest.approx(np.corrcoef(Z[:, :4].T), rel=1e-8)
    fisher = np.tanh(np.arctanh(found.estimate[0, 1]) + np.array([-1, 1]) * 1.96 / math.sqrt(5000))
    assert (found.low[0, 1], found.high[0, 1]) == pytest.approx(tuple(fisher), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "sd"), [(3000, 20.0), (30_000, 200.0)])
def test_intervals_of_correlations_cover_also_near_1(rows, sd):
    rng, repeats = np.random.default_rng(rows), 400
    C = MIX @ MIX.T
    truth = C / np.sqrt(np.outer(np.diag(C), np.diag(C)))
    sds = even_noise(6, sd)[np.ix_([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])]
    sds[:4, 4] = sds[4, :4] = sd / math.sqrt(2.0)
    sds[4, 4] = 0.0
    missed = np.zeros((4, 4))
    for _ in range(repeats):
        Z = rows_of(rng, rows)
        found = correlations(Z.T @ Z + noise_of(rng, sds), sds, rows)
        missed += (found.low > truth + 1e-12) | (found.high < truth - 1e-12)
    assert missed.max() <= most_misses(repeats)


def test_columns_that_the_noise_hides_have_no_correlation():
    Z = rows_of(np.random.default_rng(2), 500)
    sds = np.full((5, 5), 40.0)
    found = correlations(Z.T @ Z, sds, 500)
    assert not found.determined.any()
    assert np.isnan(found.estimate[0, 1])
    assert (found.low[0, 1], found.high[0, 1]) == (-1.0, 1.0)


def test_without_noise_components_are_those_of_the_covariance():
    Z = rows_of(np.random.default_rng(3), 5000)
    found = components(Z.T @ Z, np.zeros((5, 5)), 5000)
    values, vectors = np.linalg.eigh(np.cov(Z[:, :4].T, bias=True))
    assert found.variance == pytest.approx(values[::-1], rel=1e-8)
    assert np.abs(np.sum(found.loadings * vectors[:, ::-1], axis=0)) == pytest.approx(np.ones(4))
    assert found.share.sum() == pytest.approx(1.0)


def test_variances_of_components_cover_and_their_loadings_spread_as_said():
    rng, rows, repeats, sd = np.random.default_rng(4), 4000, 400, 25.0
    values, vectors = np.linalg.eigh(MIX @ MIX.T)
    sds = np.full((5, 5), sd / math.sqrt(2.0))
    np.fill_diagonal(sds, sd)
    sds[4, 4] = 0.0
    missed, away, said = 0, [], []
    for _ in range(repeats):
        Z = rows_of(rng, rows)
        exact, noisy = Z.T @ Z, Z.T @ Z + noise_of(rng, sds)
        found = components(noisy, sds, rows)
        missed += not found.low[0] <= values[-1] <= found.high[0]
        own = components(exact, np.zeros((5, 5)), rows).loadings[:, 0]  # of these rows, so that noise alone turns
        away.append(
            found.loadings[:, 0] * np.sign(found.loadings[:, 0] @ vectors[:, -1]) - own * np.sign(own @ vectors[:, -1])
        )
        said.append(found.errors[:, 0])
    assert missed <= most_misses(repeats)
    # A standard deviation of 400 draws has a relative sd of 3.5 %: five of them, and the second order.
    assert np.std(away, axis=0) == pytest.approx(np.mean(said, axis=0), rel=0.2)
    loud = components(noisy, 40 * sds, rows)
    assert (loud.variance.size, loud.every) == (0, 4)


def test_without_noise_odds_are_those_of_the_table_with_its_score_interval():
    rng = np.random.default_rng(5)
    a, y = rng.random(3000) < 0.3, rng.random(3000) < 0.4
    found = odds_ratio(np.array([a.sum(), (a & y).sum(), y.sum()], float), np.zeros((3, 3)), 3000)
    theirs = sm.stats.Table2x2([[(a & y).sum(), (a & ~y).sum()], [(~a & y).sum(), (~a & ~y).sum()]])
    assert found.estimate == pytest.approx(theirs.oddsratio, rel=0.01)
    assert (found.low, found.high) == pytest.approx(theirs.oddsratio_confint(), rel=0.02)


@pytest.mark.parametrize("log_odds", [0.0, 0.1, 0.13, 1.2])
def test_odds_of_many_rows_are_found_between_the_values_that_are_tried_first(log_odds):
    rng = np.random.default_rng(9)
    a = rng.random(400_000) < 0.5
    y = rng.random(400_000) < expit(-1.0 + log_odds * a)
    theirs = sm.stats.Table2x2([[np.sum(i & j) for j in (y, ~y)] for i in (a, ~a)])
    found = odds_ratio(np.array([a.sum(), (a & y).sum(), y.sum()], float), np.zeros((3, 3)), 400_000)
    assert found.estimate == pytest.approx(theirs.oddsratio, rel=1e-3)
    assert (found.low, found.high) == pytest.approx(theirs.oddsratio_confint(), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "first", "second", "log_odds"),
    [(20_000, 0.5, 0.3, 1.0), (20_000, 0.05, 0.3, 0.0), (20_000, 0.02, 0.1, 1.0), (200_000, 0.01, 0.2, 0.0)],
)
def test_odds_cover_also_at_the_edge_of_what_is_determined(rows, first, second, log_odds):
    rng, repeats, g = np.random.default_rng(6), 300, 100.0
    missed = 0
    # As with labels ±1: the count of both carries half of the first's noise.
    T = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5]])
    for _ in range(repeats):
        a = rng.random(rows) < first
        y = rng.random(rows) < expit(math.log(second / (1 - second)) + log_odds * a)
        counts = np.array([a.sum(), (a & y).sum(), y.sum()]) + T @ (g * rng.normal(size=3))
        found = odds_ratio(counts, g**2 * T @ T.T, rows)
        missed += not found.low <= math.exp(log_odds) <= found.high
    assert missed <= most_misses(repeats)


def test_odds_that_the_noise_hides_are_left_open():
    found = odds_ratio(np.array([30.0, 10.0, 500.0]), 1e4 * np.eye(3), 2000)
    assert math.isnan(found.estimate)
    assert (found.low, found.high) == (0.0, math.inf)


# ------------------------------------------------------------------------------------------------ which model


def test_without_noise_the_criterion_is_mallows_cp():
    X, y = table(np.random.default_rng(7), 300, 5)
    model = LinearModel(gram(X, y), np.zeros((7, 7)), 300)
    sets = [np.array(columns) for columns in ([0], [0, 1], [0, 1, 2, 3, 4])]
    found = choose_model(model, sets)
    for place, columns in enumerate(sets):
        own = sm.OLS(y, np.column_stack([X[:, columns], np.ones(300)])).fit()
        expected = (own.ssr + 2.0 * model.residual_variance * (columns.size + 1)) / 300
        assert found.error[place] == pytest.approx(expected, rel=1e-8)
        assert found.size[place] == pytest.approx(columns.size + 1)
    assert found.beta[2] == pytest.approx(model.beta)


def test_without_noise_penalties_are_solved_as_problems_have_them():
    X, y = table(np.random.default_rng(8), 300, 5)
    model = LinearModel(gram(X, y), np.zeros((7, 7)), 300)
    found = choose_model(model, [Ridge(0.3), Lasso(0.05), ElasticNet(0.05, 0.2)])
    for beta, (l1, l2) in zip(found.beta, [(0.0, 0.3), (0.05, 0.0), (0.05, 0.2)], strict=True):
        slope = X.T @ (X @ beta[:-1] + beta[-1] - y) / 300 + l2 * beta[:-1]
        assert (np.abs(slope) <= l1 + 1e-8).all()
        assert slope[beta[:-1] != 0.0] == pytest.approx(-l1 * np.sign(beta[:-1][beta[:-1] != 0.0]), abs=1e-8)
        assert np.sum(X @ beta[:-1] + beta[-1] - y) == pytest.approx(0.0, abs=1e-6)


def test_the_criterion_counts_what_a_model_learns_of_the_noise():
    """Its mean is the error of the same model on the exact sums, plus what sampling adds; without the term it is not."""
    rng, rows, repeats = np.random.default_rng(9), 3000, 500
    X, y = table(rng, rows, 5)
    exact, sds = gram(X, y), even_noise(7, 60.0)
    terms = [Ridge(0.05), np.array([0, 1, 4]), np.arange(5)]
    true, said, plain = [], [], []
    for _ in range(repeats):
        model = LinearModel(exact + noise_of(rng, sds), sds, rows)
        found = choose_model(model, terms)
        M, b, q = exact[:-1, :-1], exact[:-1, -1], exact[-1, -1]
        fine = 2.0 * model.residual_variance * found.size / rows
        true.append([(q - 2 * b @ beta + beta @ M @ beta) / rows for beta in found.beta])
        said.append(found.error - fine)
        T, t = model.matrix[:-1, :-1], model.matrix[:-1, -1]
        plain.append([(model.matrix[-1, -1] - 2 * t @ beta + beta @ T @ beta) / rows for beta in found.beta])
    off, spread = np.mean(np.subtract(said, true), axis=0), np.std(np.subtract(said, true), axis=0) / math.sqrt(repeats)
    assert (np.abs(off) <= 4.5 * spread).all()
    assert (np.mean(np.subtract(plain, true), axis=0) < -4.5 * spread).all()
