"""Claims about the published methods on graphs: where they end, what they have in common, and which faults are theirs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.errors import InvalidInput
from papers.published.broadcast import broadcast_admm
from papers.published.consensus_ridge import d_ridge
from papers.published.diffusion import diffusion_ridge
from papers.published.dual_consensus import dc_admm
from papers.published.graph_rounds import adjacency, algebraic_connectivity, errors, metropolis, numbers_sent
from papers.published.nested_admm import feature_admm
from papers.published.tls import d_tls, da_tls, ipi_d_tls, tables

pytestmark = pytest.mark.slow

AGENTS, ROWS, COLUMNS = 4, 30, 2
EVERYBODY = range(AGENTS)
PENALTIES = [co.Ridge(2.0), co.Lasso(8.0), co.ElasticNet(5.0, 2.0)]
every_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
graphs = st.builds(co.Topology.random, st.integers(2, 9), seed=st.integers(0, 99))


def problem(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(ROWS, AGENTS * COLUMNS))
    y = A @ (rng.normal(size=A.shape[1]) * (rng.random(A.shape[1]) < 0.6)) + 0.3 * rng.normal(size=ROWS)
    return np.split(A, AGENTS, axis=1), y


def after(estimates, rounds):
    return next(islice(estimates, rounds - 1, None))


def off_the_optimum(blocks, y, penalty, x):
    """How far x is from the optimality conditions of ‖Ax − y‖² + penalty, against the size of the slopes at 0."""
    A, x = np.concatenate(blocks, axis=1), np.concatenate(x)
    slope = 2 * A.T @ (A @ x - y)
    if isinstance(penalty, co.Ridge):
        miss = slope + penalty.a * x
    else:
        l1, l2 = (penalty.a, 0.0) if isinstance(penalty, co.Lasso) else (penalty.l1, penalty.l2)
        pull = slope + l2 * x
        miss = np.where(x != 0, pull + l1 * np.sign(x), np.maximum(np.abs(pull) - l1, 0.0))
    return float(np.abs(miss).max() / np.abs(2 * A.T @ y).max())


# ---------------------------------------------------------------- over split columns


@every_penalty
@pytest.mark.parametrize("graph", [co.Topology.line(AGENTS), co.Topology.complete(AGENTS)], ids=["line", "complete"])
def test_every_admm_ends_at_the_centralised_answer(graph, penalty):
    blocks, y = problem()
    runs = {
        "DC-ADMM, residual at one": dc_admm(blocks, y, graph, penalty=penalty, rho=0.1, holders=[0]),
        "DC-ADMM, residual at all": dc_admm(blocks, y, graph, penalty=penalty, rho=0.1, holders=EVERYBODY),
        "algorithm 7": feature_admm(blocks, y, graph, penalty=penalty, rho=0.1, sweeps=2),
        "broadcast": broadcast_admm(blocks, y, penalty=penalty, rho=3.0),
    }
    for name, run in runs.items():
        assert off_the_optimum(blocks, y, penalty, after(run, 700)) < 1e-6, name


@pytest.mark.parametrize("holders", [[0], [1, 3], EVERYBODY])
def test_d_ridge_ends_at_the_centralised_answer_whoever_knows_the_labels(holders):
    blocks, y = problem()
    x = after(d_ridge(blocks, y, co.Topology.ring(AGENTS), ridge=1.0, rho=4.0, holders=holders), 800)
    assert off_the_optimum(blocks, y, co.Ridge(2.0), x) < 1e-8


def test_the_rate_of_d_ridge_does_not_depend_on_who_knows_the_labels():
    """The thesis' figure 5.3 says otherwise; the labels are in the constant term of an affine iteration only."""
    blocks, y = problem()
    A = np.concatenate(blocks, axis=1)
    answer = np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ y)

    def slope(holders):
        run = d_ridge(blocks, y, co.Topology.ring(AGENTS), ridge=1.0, rho=16.0, holders=holders)
        found = np.log(errors(run, lambda x: float(np.linalg.norm(np.concatenate(x) - answer)), 500))
        return (found[450] - found[150]) / 300

    assert slope([0]) == pytest.approx(slope(EVERYBODY), rel=0.05)


def test_diffusion_with_a_constant_step_stops_short_of_the_answer_in_proportion_to_the_step():
    blocks, y = problem()
    A = np.concatenate(blocks, axis=1)
    answer = np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ y)

    def miss(step, rounds):
        run = diffusion_ridge(blocks, y, co.Topology.ring(AGENTS), ridge=1.0, step=step, holders=[0])
        return np.linalg.norm(np.concatenate(after(run, rounds)) - answer)

    wide, narrow = miss(4e-3, 4000), miss(2e-3, 8000)
    assert miss(4e-3, 5000) == pytest.approx(wide, rel=1e-6)  # it has settled, and not at the answer
    assert wide > 1e-6
    assert narrow / wide == pytest.approx(0.5, rel=0.2)


@every_penalty
def test_dc_admm_with_the_residual_at_all_agents_is_the_thesis_own_algorithm(penalty):
    """Algorithm 7 with an inner loop that is run to its end, round by round: what it may 'outperform' is itself."""
    blocks, y = problem()
    graph = co.Topology.ring(AGENTS)
    ours = dc_admm(blocks, y, graph, penalty=penalty, rho=0.05, holders=EVERYBODY)
    theirs = feature_admm(blocks, y, graph, penalty=penalty, rho=0.05, sweeps=400)
    for one, other in islice(zip(ours, theirs, strict=False), 15):
        np.testing.assert_allclose(np.concatenate(one), np.concatenate(other), atol=1e-8)


def test_a_baseline_refuses_blocks_that_do_not_fit():
    blocks, y = problem()
    graph = co.Topology.ring(AGENTS)
    with pytest.raises(InvalidInput, match="give every agent"):
        next(d_ridge(blocks[:-1], y, graph, ridge=1.0, rho=1.0, holders=[0]))
    with pytest.raises(InvalidInput, match="align them first"):
        next(dc_admm(blocks, y[:-1], graph, penalty=co.Ridge(1.0), rho=1.0, holders=[0]))
    with pytest.raises(InvalidInput, match="align them first"):
        next(broadcast_admm(blocks, y[:-1], penalty=co.Ridge(1.0), rho=1.0))
    with pytest.raises(InvalidInput, match="step must be"):
        next(diffusion_ridge(blocks, y, graph, ridge=1.0, step=0.0, holders=[0]))


# ---------------------------------------------------------------- total least squares


def errors_in_variables(agents=4, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=(30 * agents, columns))
    y = clean @ rng.normal(size=columns) + 0.3 * rng.normal(size=len(clean))
    A = clean + 0.3 * rng.normal(size=clean.shape)
    v = np.linalg.svd(np.column_stack([A, -y]))[2][-1]
    return tables(A, y, agents), v[:-1] / v[-1]


@pytest.mark.parametrize("method", [d_tls, ipi_d_tls])
def test_the_subgradient_methods_end_at_the_singular_vector(method):
    C, answer = errors_in_variables()
    x = after(method(C, co.Topology.complete(4), step=0.5), 1500)
    for own in x:
        np.testing.assert_allclose(own, answer, rtol=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 999), rho=st.floats(0.1, 100.0))
def test_the_penalty_of_da_tls_changes_nothing(seed, rho):
    """It starts at 0 on a cone: the thesis' two curves for two penalties cannot be this algorithm."""
    C, _ = errors_in_variables(seed=seed)
    graph = co.Topology.ring(4)
    one, other = (after(da_tls(C, graph, rho=value, inner=5), 12) for value in (1.0, rho))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_an_outer_iteration_of_da_tls_throws_away_what_the_neighbours_said():
    """Its first estimate is then the agent's own: another's table does not enter but by beta, which is local too."""
    C, answer = errors_in_variables()
    found = errors(
        da_tls(C, co.Topology.ring(4), rho=1.0, inner=20), lambda x: float(np.abs(np.array(x) - answer).max()), 21
    )
    assert found[20] > 2 * found[19]


def test_total_least_squares_refuses_tables_that_do_not_fit():
    C, _ = errors_in_variables()
    with pytest.raises(InvalidInput, match="4 tables for a graph of 5"):
        next(d_tls(C, co.Topology.ring(5), step=1.0))
    with pytest.raises(InvalidInput, match="at least one row"):
        tables(np.ones((2, 1)), np.ones(2), 3)


# ---------------------------------------------------------------- graphs


@given(graph=graphs)
def test_metropolis_weights_average_over_neighbours_only(graph):
    weights = metropolis(graph)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert weights.min() >= -1e-15
    np.testing.assert_array_equal(
        weights[~np.eye(graph.size, dtype=bool)] > 0, adjacency(graph)[~np.eye(graph.size, dtype=bool)] > 0
    )


@given(graph=graphs, told=st.integers(1, 100))
def test_an_agent_sends_its_numbers_once_to_each_neighbour(graph, told):
    assert numbers_sent(graph, told).sum() == 2 * told * len(graph.edges)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_connectivity_is_that_of_the_known_spectra(n):
    assert algebraic_connectivity(co.Topology.complete(n)) == pytest.approx(n)
    assert algebraic_connectivity(co.Topology.star(n)) == pytest.approx(1.0)
    assert algebraic_connectivity(co.Topology.line(n)) == pytest.approx(2 - 2 * np.cos(np.pi / n))
    assert algebraic_connectivity(co.Topology.ring(n)) == pytest.approx(2 - 2 * np.cos(2 * np.pi / n))
