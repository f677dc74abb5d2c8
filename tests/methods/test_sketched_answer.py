"""Claims about what private block Frank-Wolfe makes of noisy sketches: its bounds hold, and more budget is no worse."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.methods.frank_wolfe import private_block
from colonnade.methods.frank_wolfe.private_block import (
    CHANCE,
    Estimates,
    HashedSketch,
    PrivateBlockFrankWolfe,
    Quadratic,
    best_on_ball,
)
from colonnade.methods.frank_wolfe.private_spend import PRODUCT
from colonnade.model.job import Job
from colonnade.privacy.block import Block

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RADIUS, LEAST = 3.0, Quadratic(1.0, 1.0)


def census(rows, seed, columns=24):
    """Columns of 0 and 1, from rare to nearly constant, as attributes of people are; labels ±1, a sixth of them +1."""
    rng = np.random.default_rng(seed)
    A = (rng.random((rows, columns)) < np.linspace(0.05, 0.95, columns)).astype(float)
    score = A @ rng.normal(size=columns) + rng.normal(size=rows)
    return A, np.where(score - score.mean() > score.std(), 1.0, -1.0)


def job_of(rows, columns, epsilon, parties=4):
    federation = co.Federation.split(np.zeros((rows, columns)), np.zeros(rows), parties=parties)
    terms = co.Privacy(epsilon, 1e-6, feature_bound=1.0, label_bound=1.0)
    return Job(co.Problem(co.LeastSquares(), co.L1Ball(RADIUS)), federation.roster(), terms)


def released(A, y, spend, run, rng):
    """Sketches with noise, and below them products with noisy labels: what a run would have released of all columns."""
    block = Block(A, np.arange(A.shape[1]), None)
    sketch, sigma = HashedSketch(run, spend.rows, A.shape[0]), spend.sigma(1)
    noisy = y + spend.label_sigma * rng.normal(size=y.size)
    label = float(np.abs(noisy).max())
    rows = np.stack([sketch.of(block, j) for j in range(A.shape[1])], axis=1)
    both = np.vstack([rows, PRODUCT / label * (noisy @ A)])
    return both + sigma * rng.normal(size=both.shape), label


@pytest.mark.parametrize("size", [32, 200, 2000], ids=["short", "long", "the whole table"])
def test_the_upper_bound_lies_above_the_truth(size):
    """Of everything that a run looks at and of what misleads most, the estimate's own least point: in 60 seeded draws
    it may fail in CHANCE of them, by its own count of chances."""
    A, y = census(2000, 0, columns=8)
    job = job_of(2000, 8, 20.0)
    spend = PrivateBlockFrankWolfe(rounds=2, sketch_rows=size).spend(job)
    failed = 0
    for draw in range(60):
        rng = np.random.default_rng([1, draw])
        columns, label = released(A, y, spend, f"run {draw}", rng)
        known = Estimates(columns, spend, label, job)
        tried = [quadratic_minimum(known.gram, -known.products, r, np.zeros(8)) for r in (0.3, 1.0, 3.0)]
        tried += list(rng.normal(size=(5, 8))) + list(np.eye(8))
        truth = [0.5 * x @ A.T @ A @ x - y @ A @ x for x in tried]
        failed += any(t > known.upper(x, LEAST) for t, x in zip(truth, tried, strict=True))
    assert failed <= 60 * CHANCE


def test_without_noise_and_hashing_the_bound_is_the_truth_and_the_answer_the_best_in_the_ball():
    A, y = census(400, 1, columns=6)
    job = job_of(400, 6, 1e9)
    spend = PrivateBlockFrankWolfe(rounds=6, sketch_rows=400).spend(job)
    columns, label = released(A, y, spend, "run", np.random.default_rng(0))
    x, best = best_on_ball(columns, spend, LEAST, label, job), quadratic_minimum(A.T @ A, -A.T @ y, RADIUS, np.zeros(6))
    np.testing.assert_allclose(x, best, atol=1e-2)
    assert Estimates(columns, spend, label, job).upper(best, LEAST) == pytest.approx(
        0.5 * best @ A.T @ A @ best - y @ A @ best, rel=1e-2
    )


def test_where_nothing_can_be_told_apart_the_answer_is_zero():
    A, y = census(400, 1, columns=6)
    job = job_of(400, 6, 0.01)
    spend = PrivateBlockFrankWolfe().spend(job)
    columns, label = released(A, y, spend, "run", np.random.default_rng(0))
    assert not best_on_ball(columns, spend, LEAST, label, job).any()


@pytest.mark.parametrize("parties", [2, 8])
def test_more_budget_is_never_worse_and_no_budget_is_worse_than_not_looking(parties, tmp_path, monkeypatch):
    """Noise and sketches are seeded. The excess over the best model in the ball, of that of x = 0: mean of four tables;
    a step up is at most two standard errors of its own."""
    monkeypatch.setattr(private_block, "public_bytes", lambda run, what: bytes(32))
    found = np.zeros((5, 4))
    for seed in range(4):
        A, y = census(20_000, seed)
        best = quadratic_minimum(A.T @ A, -A.T @ y, RADIUS, np.zeros(A.shape[1]))
        federation = co.Federation.split(A, y, parties=parties)
        for place, epsilon in enumerate((0.5, 1.0, 2.0, 4.0, 8.0)):
            terms = co.Privacy(epsilon, 1e-6, feature_bound=1.0, label_bound=1.0)
            fit = co.fit(
                federation,
                co.Problem(co.LeastSquares(), co.L1Ball(RADIUS)),
                PrivateBlockFrankWolfe(),
                terms,
                store=tmp_path / f"{seed}-{epsilon}",
                noise=co.SeededNoise(seed),
            )
            x = np.concatenate([fit.coefficients[f"party{k}"] for k in range(parties)])
            least, zero = np.square(A @ best - y).sum(), np.square(y).sum()
            found[place, seed] = (np.square(A @ x - y).sum() - least) / (zero - least)
    steps = np.diff(found, axis=0)
    assert found.max() <= 1.0 + 1e-9
    assert found[-1].mean() < found[0].mean()
    assert np.all(steps.mean(axis=1) <= 2 * steps.std(axis=1, ddof=1) / 2.0)
