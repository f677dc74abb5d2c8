"""Claims about total least squares on a graph, against the singular value decomposition of the joined table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co
from colonnade.methods.graph.tls import spectrahedron
from colonnade.views.page import render_report
from tests.helpers.graph_cases import GRAPHS, joined, off

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.LeastSquares())


def noisy(seed, rows, columns, noise=0.3):
    """Errors in the features as in the labels."""
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=(rows, columns))
    y = clean @ rng.normal(size=columns) + noise * rng.normal(size=rows)
    return clean + noise * rng.normal(size=clean.shape), y


def by_svd(A, y):
    v = np.linalg.svd(np.column_stack([A, -y]))[2][-1]
    return v[:-1] / v[-1]


def objective(A, y, x):
    return float(np.sum((A @ x - y) ** 2) / (1 + x @ x) / (2 * len(y)))


@pytest.mark.parametrize("name", GRAPHS)
def test_split_rows_give_the_answer_of_the_joined_table(name):
    A, y = noisy(1, 80, 4)
    fit = co.fit(co.Federation.split(A, y, parties=5, by="rows"), PROBLEM, co.GraphTLS(GRAPHS[name](5), rounds=400))
    for x in fit.coefficients.values():
        assert off(x, by_svd(A, y)) <= 1e-12
    assert fit.objective == pytest.approx(objective(A, y, by_svd(A, y)), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "star", "complete", "random"])
@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_twenty_agents_are_at_the_answer_within_four_hundred_rounds(name, unit):
    A, y = noisy(0, 400, 9)
    fed = co.Federation.split(unit * A, unit * y, parties=20, by="rows")
    fit = co.fit(fed, PROBLEM, co.GraphTLS(GRAPHS[name](20), rounds=400))
    assert max(off(x, by_svd(A, y)) for x in fit.coefficients.values()) <= 1e-12


@pytest.mark.slow
def test_on_a_line_of_twenty_agents_the_default_rounds_are_enough():
    """The slowest graph: 400 rounds, 21 times its length, leave an error near 1e-6 there, at every fixed penalty
    too."""
    A, y = noisy(0, 400, 9)
    fed = co.Federation.split(A, y, parties=20, by="rows")
    fit = co.fit(fed, PROBLEM, co.GraphTLS(co.Topology.line(20)))
    assert max(off(x, by_svd(A, y)) for x in fit.coefficients.values()) <= 1e-12


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4), st.booleans(), st.sampled_from([1e-3, 1.0, 1e3])
)
def test_split_columns_give_the_answer_of_the_joined_table(seed, columns, parties, compressed, unit):
    A, y = noisy(seed, columns + 15, columns, noise=0.2)
    parties = min(parties, columns)
    held = sparse.csc_array(unit * A) if compressed else unit * A
    fit = co.fit(co.Federation.split(held, unit * y, parties=parties), PROBLEM, co.GraphTLS())
    # An error of rounding size in the table moves the singular vector by that over the relative gap.
    sigmas = np.linalg.svd(np.column_stack([A, -y]), compute_uv=False)
    room = 1e-12 * sigmas[0] ** 2 / (sigmas[-2] ** 2 - sigmas[-1] ** 2) * (1 + np.linalg.norm(by_svd(A, y)) ** 2)
    assert np.linalg.norm(joined(fit) - by_svd(A, y)) <= room
    assert fit.objective == pytest.approx(objective(unit * A, unit * y, by_svd(A, y)), rel=1e-8)
    assert fit.status is co.Status.AGREED


@pytest.mark.parametrize("name", GRAPHS)
def test_split_columns_take_at_most_one_sum_over_the_tree_for_each_column_and_one_more(name):
    A, y = noisy(3, 60, 12)
    fit = co.fit(co.Federation.split(A, y, parties=6), PROBLEM, co.GraphTLS(GRAPHS[name](7)))
    assert off(joined(fit), by_svd(A, y)) <= 1e-10
    links = 6  # of a tree of seven agents
    assert fit.communication.messages <= 2 * links * (12 + 2)


def test_too_few_rounds_are_said_to_be_too_few():
    A, y = noisy(3, 60, 12)
    fit = co.fit(co.Federation.split(A, y, parties=6), PROBLEM, co.GraphTLS(rounds=4))
    assert fit.status is co.Status.OUT_OF_ROUNDS
    fit = co.fit(co.Federation.split(A, y, parties=6, by="rows"), PROBLEM, co.GraphTLS(rounds=4))
    assert fit.status is co.Status.OUT_OF_ROUNDS
    assert fit.history["rank_one"].to_list()[-1] < 1 - 1e-6


@pytest.mark.parametrize("by", ["rows", "columns"])
def test_one_agent_alone_finds_the_answer(by):
    A, y = noisy(4, 30, 3)
    label = "party0" if by == "columns" else None
    fit = co.fit(co.Federation.split(A, y, parties=1, by=by, label=label), PROBLEM, co.GraphTLS())
    assert off(fit.coefficients["party0"], by_svd(A, y)) <= 1e-6


def test_features_that_depend_on_each_other_have_no_answer_over_split_rows_and_the_advice_is_ridge():
    A, y = noisy(5, 40, 4)
    A[:, 3] = A[:, 0]
    with pytest.raises(co.InvalidInput, match="GraphRidge"):
        co.fit(co.Federation.split(A, y, parties=2, by="rows"), PROBLEM, co.GraphTLS(rounds=2000))


def test_over_split_columns_equal_features_share_the_answer():
    """A rotation of the two equal columns leaves one column √2 times as long and one of zeros."""
    A, y = noisy(5, 40, 4)
    A[:, 3] = A[:, 0]
    fit = co.fit(co.Federation.split(A, y, parties=2), PROBLEM, co.GraphTLS())
    merged = by_svd(np.column_stack([np.sqrt(2) * A[:, 0], A[:, 1:3]]), y)
    wanted = np.array([merged[0] / np.sqrt(2), merged[1], merged[2], merged[0] / np.sqrt(2)])
    assert off(joined(fit), wanted) <= 1e-9


def test_a_problem_that_is_not_total_least_squares_is_refused():
    A, y = noisy(6, 30, 3)
    for problem in (co.Problem(co.Huber(1.0)), co.Problem(co.LeastSquares(), penalty=co.Ridge(1.0))):
        with pytest.raises(co.InvalidInput, match="without penalty"):
            co.fit(co.Federation.split(A, y, parties=2, by="rows"), problem, co.GraphTLS())


@pytest.mark.parametrize("by", ["rows", "columns"])
@pytest.mark.parametrize("columns", [8, 12])
def test_no_more_rows_than_columns_are_refused_since_every_label_can_then_be_explained(by, columns):
    A, y = noisy(7, 8, columns)
    with pytest.raises(co.InvalidInput, match=rf"8 rows for {columns} columns: .* use co\.GraphRidge"):
        co.fit(co.Federation.split(A, y, parties=2, by=by), PROBLEM, co.GraphTLS())


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_the_projection_is_the_nearest_density_matrix(seed, size):
    """A point of a convex set is nearest exactly if no other point of it lies further along M − X."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(size, size))
    M = M + M.T
    X, largest = spectrahedron(M)
    assert np.trace(X) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(X)[0] >= -1e-12
    assert largest == pytest.approx(np.linalg.eigvalsh(X)[-1])
    other = rng.normal(size=(size, size))
    other = other @ other.T
    assert np.sum((M - X) * (other / np.trace(other) - X)) <= 1e-10 * (1 + np.abs(M).max())


# ---------------------------------------------------------------- far from the answer


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("rounds", [1, 3, 10, 400])
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_no_gap_is_claimed_and_the_objective_is_that_of_the_model_however_far_it_is(by, rounds):
    """The best there is comes from the singular values of the joined table, which no agent has."""
    A, y = noisy(3, 60, 12)
    fed = co.Federation.split(A, y, parties=4, by=by)
    fit = co.fit(fed, PROBLEM, co.GraphTLS(co.Topology.line(len(fed.parties)), rounds=rounds))
    assert fit.gap is None
    assert "gap" not in fit.history.columns
    assert "<dt>gap to the best" not in render_report(fit)
    assert "gap" not in fit.status.value
    model = fit.coefficients[fed.label] if by == "rows" else np.concatenate(list(fit.coefficients.values()))
    best = float(np.linalg.svd(np.column_stack([A, -y]), compute_uv=False)[-1]) ** 2 / 120
    assert fit.objective == pytest.approx(objective(A, y, model), rel=1e-9)
    assert fit.objective >= best * (1 - 1e-12)
    far = fit.objective > best * (1 + 1e-9)
    assert far == (rounds <= 10)  # else nothing here could fail
    assert fit.status is (co.Status.OUT_OF_ROUNDS if far else co.Status.AGREED)
