"""What the Frank-Wolfe family is compared with: ways to divide columns, baselines, and private block Frank-Wolfe as published."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import colonnade as co
from colonnade.problem.sets import Product
from papers.baselines import local_coresets, one_shot_sketches, random_atoms, replicated_blocks
from papers.partition import similar, uniform, weighted
from papers.published.block_frank_wolfe import PublishedBlockFrankWolfe
from tests.helpers.reference import confident

pytestmark = pytest.mark.slow


def table(rows, columns):
    X = np.random.default_rng(0).uniform(-1, 1, (rows, columns))
    return X, np.clip(X[:, 0] - X[:, 9], -1, 1)


@pytest.mark.parametrize(
    "make", [uniform, weighted, lambda d, k, seed: similar(np.random.default_rng(1).normal(size=(9, d)), k, seed)]
)
def test_a_partition_gives_every_column_to_one_party_and_a_federation_takes_it(make):
    parts = make(17, 4, 3)
    assert sorted(c for own in parts.values() for c in own) == list(range(17))
    assert all(parts.values())
    assert parts == make(17, 4, 3) != make(17, 4, 4)
    federation = co.Federation.split(np.ones((3, 17)), [0.0, 1.0, 2.0], parties=parts)
    assert [party.block.columns for party in federation.parties.values()][:4] == [len(own) for own in parts.values()]
    with pytest.raises(co.InvalidInput, match="at least one column"):
        make(3, 4, 0)


def test_partitions_differ_as_their_names_say():
    sizes = {make.__name__: [len(own) for own in make(400, 8, 0).values()] for make in (uniform, weighted)}
    assert set(sizes["uniform"]) == {50}
    assert max(sizes["weighted"]) > 2 * min(sizes["weighted"])
    rng = np.random.default_rng(2)
    A = np.repeat(rng.normal(size=(60, 3)), 20, axis=1) + 0.05 * rng.normal(size=(60, 60))
    cosines = np.abs(np.corrcoef(A.T))
    for seed in range(5):
        parts = similar(A, 3, seed).values()
        within = np.mean([cosines[np.ix_(own, own)].mean() for own in parts])
        assert within > 1.5 * cosines.mean()


def test_baselines_lie_between_the_optimum_and_zero_and_better_ones_are_better():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(80, 40))
    x = np.zeros(40)
    x[::8] = [1.0, -1.0, 0.5, -0.5, 1.0]
    y, ball, loss = A @ x, co.L1Ball(4.0), co.LeastSquares()
    variable = cp.Variable(40)
    best = confident(
        cp.Problem(cp.Minimize(cp.sum_squares(A @ variable - y) / 160), [cp.norm1(variable) <= ball.radius])
    )
    parts = list(uniform(40, 4, 0).values())
    problem = co.Problem(loss, ball)
    atoms = random_atoms(problem, A, y, count=12, seed=0)
    coresets = local_coresets(problem, A, y, parts, each=6)
    for made in (atoms, coresets):
        assert ball.contains(made.coefficients)
        assert loss.value(A @ made.coefficients, y) == pytest.approx(made.objective, rel=1e-9)
        assert best - 1e-7 <= made.objective < loss.value(0 * y, y)
    assert coresets.objective < atoms.objective
    assert coresets.values_sent <= 4 * 6 * (80 + 1)


def test_replicated_blocks_is_tau_nice_sampling_and_counts_the_copies():
    rng = np.random.default_rng(6)
    A = rng.normal(size=(30, 8))
    y = A @ rng.choice([-0.5, 0.5], 8)
    problem = co.Problem(co.LeastSquares(), Product(co.L1Ball(1.0)))
    made = replicated_blocks(problem, A, y, workers=4, tau=3, rounds=400, seed=0)
    box = Product(co.L1Ball(1.0)).over([range(8)])
    variable = cp.Variable(8)
    best = confident(cp.Problem(cp.Minimize(cp.sum_squares(A @ variable - y) / 60), [cp.norm_inf(variable) <= 1.0]))
    assert box.contains(made.coefficients)
    assert (
        made.objective - best
        <= box.gap(made.coefficients, A.T @ co.LeastSquares().slope(A @ made.coefficients, y)) + 1e-9
    )
    assert made.values_sent >= 3 * 30 * 8  # three of four workers lack their copy of the table


# ---------------------------------------------------------------- as published, and PRIDE


def test_the_published_version_leaves_the_ball_by_the_number_of_parties():
    X, y = table(200, 40)
    method = PublishedBlockFrankWolfe(epsilon=1.0, delta=1 / 200, parties=8, rounds=30, radius=1.0)
    x = method.fit(X, y, sketch_rows=40, rng=np.random.default_rng(0))
    assert 2.0 < np.abs(x).sum() <= 8.0 * (1 + 1e-12)
    assert method.statement.guarantee == "claimed"


def test_the_published_noise_on_a_column_is_too_small_by_about_the_number_of_rows():
    method = PublishedBlockFrankWolfe(epsilon=1.0, delta=1 / 200, parties=2, rounds=10, radius=1.0)
    assert method.true_epsilon(200, 20) > 100
    assert method.true_epsilon(800, 20) > 5 * method.true_epsilon(200, 20)


def test_one_shot_sketches_solve_least_squares_when_the_budget_is_large():
    X, y = table(400, 12)
    problem, parts = co.Problem(co.LeastSquares(), co.L1Ball(2.0)), [range(6), range(6, 12)]
    good = one_shot_sketches(problem, X, y, parts, rho=1e6, sketch_rows=300, seed=0)
    zero = co.LeastSquares().value(0 * y, y)
    assert good.objective < 0.2 * zero
    assert good.values_sent == 300 * 12
    with pytest.raises(co.InvalidInput, match="least squares"):
        one_shot_sketches(co.Problem(co.Logistic(), co.L1Ball(2.0)), X, y, parts, 1.0, 10, 0)
