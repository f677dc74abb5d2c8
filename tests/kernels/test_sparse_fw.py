"""Algorithm 1, the lazy argmax, the corrective solver and the published scheme."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.errors import InvalidInput
from colonnade.kernels.corrective import SparseProblem, corrective_fit
from colonnade.kernels.lazy import lazy_picks
from colonnade.kernels.sparse_fw import LossCode, exp_negative, model_of_picks
from colonnade.kernels.stream import keyed_stream
from papers.published.algorithm_1 import argmax_picks
from papers.published.sparse_kernel import (
    _big_step_little_step,
    _log_sum,
    published_big_step_little_step,
    published_noisy_max,
)
from tests.helpers.reference import confident
from tests.helpers.sparse_problems import arrays, fresh_stream, slope, sparse_problem, value

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LOSSES = list(LossCode)


def optimum(X, y, loss, radius, intercept=False) -> float:
    w = cp.Variable(X.shape[1])
    v = X.astype(float) @ w + (cp.Variable() if intercept else 0.0)
    parts = {
        LossCode.LOGISTIC: lambda: cp.sum(cp.logistic(cp.multiply(-y, v))),
        LossCode.SQUARED: lambda: cp.sum_squares(v - y) / 2,
        LossCode.SQUARED_HINGE: lambda: cp.sum_squares(cp.pos(1 - cp.multiply(y, v))) / 2,
    }
    return confident(cp.Problem(cp.Minimize(parts[loss]()), [cp.norm1(w) <= radius]))


def test_the_fast_exponential_is_within_three_ulps():
    a = np.concatenate([np.linspace(0.0, 60.0, 20_001), np.linspace(60.0, 700.0, 1_001)])
    got = np.array([exp_negative(x) for x in a])
    assert np.abs(got / np.exp(-a) - 1.0).max() <= 3 * 2.0**-52


@pytest.mark.parametrize("loss", LOSSES)
def test_picks_are_those_of_a_plain_numpy_frank_wolfe(loss):
    X, y = sparse_problem(11, rows=120, columns=200, per_row=8)
    picks, gap = argmax_picks(*arrays(X), y, loss=loss, radius=7.0, rounds=40)
    w = np.zeros(X.shape[1])
    for t in range(1, 41):
        v = X.astype(float) @ w
        alpha = X.T.astype(float) @ slope(loss.name, v, y)
        k = int(picks.columns[t - 1])
        assert abs(alpha[k]) >= np.abs(alpha).max() - 1e-9
        assert gap[t - 1] == pytest.approx(w @ alpha + 7.0 * np.abs(alpha).max(), rel=1e-9)
        w *= 1.0 - 2.0 / (t + 2.0)
        w[k] -= 2.0 / (t + 2.0) * 7.0 * picks.signs[t - 1]
    np.testing.assert_allclose(model_of_picks(picks, radius=7.0, columns=200), w, rtol=0, atol=1e-13)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(40, 300, 6, 0), (300, 60, 8, 2), (150, 150, 10, 0)]),
    loss=st.sampled_from(LOSSES),
    radius=st.floats(0.1, 200.0),
    rounds=st.integers(1, 300),
)
def test_lazy_picks_are_algorithm_1s_for_every_number_of_rounds(seed, shape, loss, radius, rounds):
    X, y = sparse_problem(seed, shape[0], shape[1], shape[2], shape[3])
    expected, expected_gap = argmax_picks(*arrays(X), y, loss=loss, radius=radius, rounds=rounds)
    picks, gap = lazy_picks(*arrays(X), y, loss=loss, radius=radius, rounds=rounds)
    assert (expected.columns == picks.columns).all()
    assert (expected.signs == picks.signs).all()
    assert (expected_gap == gap).all()


def test_lazy_picks_break_ties_as_a_scan_from_the_left_does():
    """Every column twice: all scores tie in pairs, and the first of each pair must win."""
    X, y = sparse_problem(12, rows=60, columns=80, per_row=6)
    import scipy.sparse as sp

    twice = sp.hstack([X, X]).tocsc()
    picks, _ = lazy_picks(*arrays(twice), y, loss=LossCode.LOGISTIC, radius=5.0, rounds=200)
    expected, _ = argmax_picks(*arrays(twice), y, loss=LossCode.LOGISTIC, radius=5.0, rounds=200)
    assert picks.columns.max() < 80
    assert (expected.columns == picks.columns).all()


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    loss=st.sampled_from(LOSSES),
    radius=st.sampled_from([0.3, 3.0, 30.0]),
    rounds=st.integers(5, 80),
)
def test_the_gap_bounds_the_distance_to_the_optimum(seed, loss, radius, rounds):
    X, y = sparse_problem(seed, rows=50, columns=70, per_row=6)
    best = optimum(X, y, loss, radius)
    picks, gap = argmax_picks(*arrays(X), y, loss=loss, radius=radius, rounds=rounds)
    w = model_of_picks(picks._replace(columns=picks.columns[:-1], signs=picks.signs[:-1]), radius=radius, columns=70)
    slack = 1e-5 * (1.0 + best)  # the reference solver's own accuracy
    assert np.abs(w).sum() <= radius * (1 + 1e-12)
    assert -slack <= value(loss.name, X.astype(float) @ w, y) - best <= gap[-1] + slack


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    shape=st.sampled_from([(50, 70, 6, 0), (60, 400, 6, 0), (200, 30, 6, 3)]),
    loss=st.sampled_from(LOSSES),
    radius=st.sampled_from([0.3, 3.0, 30.0]),
)
@example(seed=379, shape=(60, 400, 6, 0), loss=LossCode.SQUARED, radius=30.0)  # its last step is shorter than 2^-12
def test_the_corrective_solver_reaches_its_certificate_and_the_certificate_is_true(seed, shape, loss, radius):
    X, y = sparse_problem(seed, *shape)
    problem = SparseProblem(*arrays(X), y, np.full(y.size, 1.0 / y.size), loss, radius)
    fit, _ = corrective_fit(problem, tolerance=1e-3, passes=100)
    best = optimum(X, y, loss, radius, intercept=True) / y.size
    slack = 1e-5 * (1.0 / y.size + best)
    assert np.abs(fit.w).sum() <= radius * (1 + 1e-12)
    found = value(loss.name, X.astype(float) @ fit.w + fit.b, y) / y.size
    assert fit.objective == pytest.approx(found, rel=1e-9, abs=1e-9)
    assert -slack <= found - best <= fit.gap + slack
    assert fit.gap <= 1e-3 * fit.objective or fit.objective < 1e-3


def test_big_step_little_step_draws_in_proportion_to_the_weights():
    """Chi-square at 1e-5: the baseline is given its due; fails by chance once in 100,000 runs."""
    weight = np.random.default_rng(5).normal(size=37) * 2.0
    width = 6
    group = np.array([_log_sum(weight, g, min(37, g + width)) for g in range(0, 37, width)])
    total = _log_sum(group, 0, group.size)
    stream = fresh_stream()
    counts = np.bincount(
        [_big_step_little_step(weight, group, width, total, stream) for _ in range(30_000)], minlength=37
    )
    assert stats.chisquare(counts, 30_000 * np.exp(weight - total)).pvalue > 1e-5


@pytest.mark.parametrize("published", [published_noisy_max, published_big_step_little_step])
def test_the_published_scheme_starts_like_algorithm_1_and_leaves_it_because_its_slopes_go_stale(published):
    """With noise so faint that the largest score wins, the first pick agrees; later ones drift away."""
    X, y = sparse_problem(14, rows=400, columns=300, per_row=10, dense=3)
    X.eliminate_zeros()
    R = X.tocsr()
    picks = published(
        arrays(X), (R.data, R.indices, R.indptr), y, radius=50.0, rounds=300, scale=1e6, stream=keyed_stream(bytes(32))
    )
    expected, _ = argmax_picks(*arrays(X), y, loss=LossCode.LOGISTIC, radius=50.0, rounds=300)
    assert expected.columns[0] == picks.columns[0]
    assert (expected.columns != picks.columns).any()


def test_a_matrix_that_is_not_csc_is_refused():
    X, y = sparse_problem(15, rows=20, columns=10, per_row=3)
    with pytest.raises(InvalidInput, match="not a CSC matrix"):
        argmax_picks(X.data[:-1], X.indices, X.indptr, y, loss=LossCode.LOGISTIC, radius=1.0, rounds=3)


def test_labels_that_are_not_plus_or_minus_one_are_refused_for_classification():
    X, y = sparse_problem(15, rows=20, columns=10, per_row=3)
    with pytest.raises(InvalidInput, match=r"labels -1.0 and \+1.0"):
        argmax_picks(*arrays(X), (y + 1) / 2, loss=LossCode.LOGISTIC, radius=1.0, rounds=3)
