"""What figures were lacking, each on a problem of a few rows: it runs, and does what its page says."""

from __future__ import annotations

from itertools import islice

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

import colonnade as co
from papers import published
from papers.figures import bellet_svm, gratton_4_normal, lou_sensitivity
from papers.published.block_frank_wolfe import SLOPES
from papers.published.boyd_sharing import GRID

LABELS = np.where(np.arange(30) % 3 == 0, 1.0, -1.0)


@pytest.mark.parametrize(("rho", "relaxation"), GRID)
def test_admm_goes_to_the_lasso_of_scikit_learn_with_every_setting_of_the_grid(rho, relaxation):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 9))
    y = A @ rng.normal(size=9) + rng.normal(size=40)
    blocks = [sparse.csc_array(part) for part in np.split(A, 3, axis=1)]
    steps = published.boyd_sharing(blocks, y, co.LeastSquares(), co.Lasso(0.3), rho=rho, relaxation=relaxation)
    *_, x = islice(steps, 300)
    expected = Lasso(alpha=0.3, fit_intercept=False, tol=1e-10).fit(A, y).coef_
    assert np.concatenate(x) == pytest.approx(expected, abs=1e-6)


def test_a_relaxation_of_two_is_refused():
    with pytest.raises(co.InvalidInput, match="between 0 and 2"):
        next(published.boyd_sharing([np.eye(2)], np.ones(2), co.LeastSquares(), co.Lasso(1.0), rho=1.0, relaxation=2.0))


@pytest.mark.parametrize("loss", list(SLOPES))
def test_the_first_step_of_table_v_goes_to_the_steepest_column_of_every_party(loss):
    """At x = 0 the sketch says nothing, and the slopes are exact."""
    A = np.random.default_rng(1).uniform(-1, 1, size=(30, 8))
    claim = published.PublishedBlockFrankWolfe(1.0, 0.05, parties=2, rounds=1, radius=3.0, loss=loss)
    start, x = claim.iterates(A, LABELS, 5, np.random.default_rng(0), noise=0.0)
    slope = A.T @ (-LABELS * (0.5 if loss == "logistic" else 1.0)) / 30
    expected = np.zeros(8)
    for own in (slice(0, 4), slice(4, 8)):
        best = own.start + int(np.abs(slope[own]).argmax())
        expected[best] = -3.0 * np.sign(slope[best])
    assert start.tolist() == [0.0] * 8
    assert x == pytest.approx(expected)


@pytest.mark.parametrize("loss", list(SLOPES))
def test_the_slopes_of_table_v_are_those_of_its_losses(loss):
    values = {
        "logistic": lambda s: np.logaddexp(0.0, -LABELS * s),
        "smoothed hinge": lambda s: np.maximum(0.0, 1.0 - LABELS * s) ** 2 / 2,
    }[loss]
    s = np.linspace(-3, 3, 30)
    numeric = (values(s + 1e-6) - values(s - 1e-6)) / 2e-6
    assert SLOPES[loss](s, LABELS) == pytest.approx(numeric, abs=1e-5)


def test_another_loss_is_refused_with_the_names_of_those_of_table_v():
    with pytest.raises(co.InvalidInput, match="least squares, logistic and smoothed hinge"):
        published.PublishedBlockFrankWolfe(1.0, 0.05, loss="huber")


def test_one_guess_of_a_slope_has_the_heavy_tails_of_a_product():
    """Of two independent normal numbers the excess kurtosis is 6, of a square 12; a run of 2,000 is below 1 less than once in 10^6."""
    rows = gratton_4_normal.run(inner=3, outer=2, seed=0, trials=2_000)
    assert rows[0]["J"] == 1
    assert rows[0]["excess_kurtosis"] > 1.0
    assert {row["kind"] for row in rows} == {"histogram", "QQ", "test"}
    table = pl.DataFrame(rows)
    assert gratton_4_normal.refuted(table, 1)
    assert gratton_4_normal.told(table).startswith("normality is refuted at J = 1")
    assert max(gratton_4_normal.counts(table)) == rows[0]["most"] > rows[0]["middle"] > 1


@pytest.mark.parametrize("cut", ["uniform", "weighted", "similar"])
def test_every_example_goes_to_one_node(cut):
    X = sparse.csr_array(np.random.default_rng(0).integers(0, 2, size=(40, 6)).astype(float))
    parts = bellet_svm.shared_out(X, cut, 5, seed=1)
    assert len(parts) == 5
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))


def test_the_sensitivity_of_verdicts_is_looked_at_one_setting_at_a_time():
    for case in lou_sensitivity.cases(True):
        changed = {key for key, usual in lou_sensitivity.USUAL.items() if case[key] != usual}
        assert changed <= {case["what"]}
