"""Probabilities are no worse with more budget: easy tables, nearly separable, at seven epsilons from .1 to 8.

Releases are simulated by benchmarks/gram.py, noise and all, from seeds. Log loss is on 4,000 other rows, over the labels'
entropy. Tables and the numbers behind the noise are the same at every epsilon, so that differences are paired.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import xlogy

from benchmarks.gram import PROBLEM, Release, log_loss
from colonnade.methods.gram.rule import PublicColumns
from colonnade.methods.gram.solve import _by_one_flag
from colonnade.problem.link import mixed

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
JUDGED, SEEDS, SURE = 4_000, 8, 3.1  # standard errors: 99.9 % for each pair
MATTERS = 0.01  # of the entropy


def flag(share, wrong=0.03):
    """One column of zeros and ones says the class, wrongly for a few; another goes with it; eight say nothing."""

    def draw(rng, rows):
        B = (rng.random((rows, 10)) < 0.5) * 1.0
        B[:, 0] = rng.random(rows) < share
        B[:, 1] = np.where(rng.random(rows) < 0.2, B[:, 1], B[:, 0])
        return B, (B[:, 0] > 0) != (rng.random(rows) < wrong)

    return draw


def majority(rng, rows):
    B = (rng.random((rows, 10)) < 0.5) * 1.0
    return B, (B[:, :3].sum(axis=1) >= 2) != (rng.random(rows) < 0.01)


def lamp(rng, rows):
    """A number that has nearly two values, and goes with the class but for a few."""
    y, X = rng.random(rows) < 0.5, 0.5 * rng.normal(size=(rows, 6))
    X[:, 0] = (y != (rng.random(rows) < 0.03)) + 0.05 * rng.normal(size=rows)
    return X, y


def normals(apart, wide=1.0, wrong=0.0):
    """Classes that are normal, one of them `wide` times as far spread, a few labels wrong."""

    def draw(rng, rows):
        y, way = rng.random(rows) < 0.5, np.linspace(1.0, 0.2, 8)
        X = rng.normal(size=(rows, 8)) * np.where(y, wide, 1.0)[:, None]
        return X + np.outer(y * apart, way / np.linalg.norm(way)), y != (rng.random(rows) < wrong)

    return draw


def tails(rng, rows):
    """A steep logistic truth over columns of heavy tails."""
    X, way = rng.standard_t(3, size=(rows, 8)), np.linspace(1.0, 0.2, 8) * (-1.0) ** np.arange(8)
    score = X @ way / (X @ way).std()
    return X, rng.random(rows) < 1.0 / (1.0 + np.exp(-10.0 * score))


TABLES = {
    "a flag": flag(0.5),
    "a rare flag": flag(0.1),
    "majority of flags": majority,
    "a lamp": lamp,
    "normal": normals(4.0),
    "normal, far apart": normals(6.0),
    "normal, unequal": normals(5.0, wide=2.5),
    "wrong labels": normals(10.0, wrong=0.03),
    "heavy tails": tails,
}


def losses(name, rows):
    """Log loss over the entropy, by seed and epsilon."""
    found = np.zeros((SEEDS, len(EPSILONS)))
    for seed in range(SEEDS):
        X, up = TABLES[name](np.random.default_rng([seed, rows]), rows + JUDGED)
        y, flags = np.where(up, 1.0, -1.0), bool(np.isin(X, (0.0, 1.0)).all())
        if not flags:
            low, high = np.quantile(X, (0.001, 0.999), axis=0)
            X = 2.0 * (np.clip(X, low, high) - low) / (high - low) - 1.0
        d = X.shape[1]
        owner, every = np.arange(d) * 2 // d, np.full(d, flags)
        norms, nothing = np.full(2, math.sqrt(d / 2)), np.zeros(d, np.int64)
        columns = PublicColumns(owner, norms, np.ones(d), every, every, nothing, np.ones(d))
        release = Release(sparse.csr_array(X[:rows]), y[:rows], columns, 0)
        for k, epsilon in enumerate(EPSILONS):
            _, solved = release.fit(PROBLEM, epsilon, np.random.default_rng([seed, rows, 1]))
            found[seed, k] = log_loss(y[rows:], solved.link(X[rows:] @ solved.coefficients + solved.intercept))
    return found


@pytest.mark.parametrize("rows", [2_000, 10_000])
@pytest.mark.parametrize("name", TABLES)
def test_log_loss_is_not_worse_with_more_budget(name, rows):
    """Of any two epsilons, by more than a hundredth of the entropy and what the draws leave open."""
    found = losses(name, rows)
    for k in range(len(EPSILONS)):
        more = found[:, k + 1 :] - found[:, [k]]
        error = more.std(axis=0, ddof=1) / math.sqrt(SEEDS)
        assert (more.mean(axis=0) <= MATTERS + SURE * error).all(), (EPSILONS[k], found.mean(axis=0).round(3))


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_flag_that_says_the_class_has_the_log_loss_of_its_two_shares(share):
    """What the flag leaves of the entropy: H(class | flag) = H(.03), over H(share·.97 + (1 − share)·.03)."""

    def entropy(p):
        return -float(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))

    best = entropy(0.03) / entropy(share * 0.97 + (1.0 - share) * 0.03)
    TABLES[name := f"alone {share}"] = flag(share)
    try:
        found = losses(name, 10_000)[:, -1]
    finally:
        del TABLES[name]
    error = found.std(ddof=1) / math.sqrt(SEEDS)
    assert abs(found.mean() - best) <= MATTERS + SURE * error


def test_a_score_of_one_flag_has_its_linear_probability_and_of_many_hardly_any_of_it():
    given = 0.5, 0.0, 0.6, 0.6, 0.0, 0.0
    whole, one = mixed(*given), mixed(*given, 1.0)
    assert whole.weight == pytest.approx(math.sqrt(0.6))
    assert one == whole._replace(weight=0.0)
    assert mixed(*given, 1 / 3).weight == pytest.approx(math.sqrt(0.6) * (1.0 - 1 / 81))
    scores = np.array([-0.5, 0.0, 0.5])
    assert one(scores) == pytest.approx([0.25, 0.5, 0.75])


def test_the_scores_of_one_flag_are_told_from_those_of_one_number():
    """By hand: parts of the scores vary by 4·.25, 1·.75 and 1·.25, halves and so on of them all."""
    x, variance = np.array([2.0, -1.0, 1.0]), np.array([0.25, 0.75, 0.25])
    assert _by_one_flag(x, variance, np.array([True, False, True])) == pytest.approx(0.5**2 + 0.125**2)
    assert _by_one_flag(x, variance, np.array([False, True, False])) == pytest.approx(0.375**2)
    assert _by_one_flag(x, variance, None) == _by_one_flag(0.0 * x, variance, np.ones(3, bool)) == 0.0
