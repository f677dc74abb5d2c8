"""Claims about the figures on graphs: what the thesis says of its curves is borne out, or found not to hold, as recorded."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co
from papers.figures import (
    gratton_5_elastic,
    gratton_5_ridge,
    gratton_5_rivals,
    gratton_graph,
    rounds_against_connectivity,
    total_least_squares_rounds,
)
from papers.figures.watched_runs import admm_estimate, ridge_estimate, tls_estimate, watched_fit
from papers.plot import to_svg

pytestmark = pytest.mark.slow

pl = pytest.importorskip("polars")
FIGURES = {
    figure.name: figure
    for figure in (
        *gratton_5_ridge.FIGURES,
        *gratton_5_elastic.FIGURES,
        *gratton_5_rivals.FIGURES,
        total_least_squares_rounds.FIGURE,
        rounds_against_connectivity.FIGURE,
    )
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_is_judged_as_recorded(name):
    figure = FIGURES[name]
    table = pl.DataFrame([row for case in figure.cases(True) for row in figure.run(**case)], infer_schema_length=None)
    assert to_svg(figure.draw(table))
    for claim in figure.claims:
        verdict = claim.check(table)
        assert verdict.held == claim.expected(quick=True), f"{claim.says}: {verdict.evidence}"
        assert claim.reproduces or claim.finding


def test_figures_5_2_to_5_18_are_all_there():
    assert {f"gratton-5.{number}" for number in range(2, 19)} < FIGURES.keys()


@pytest.mark.parametrize("figure", list(FIGURES.values()), ids=list(FIGURES))
def test_a_quick_run_is_a_part_of_the_full_one(figure):
    full = figure.cases(False)
    assert all(case in full for case in figure.cases(True))


@pytest.mark.parametrize("problem", list(gratton_graph.PENALTIES))
def test_the_centralised_answer_meets_the_optimality_conditions(problem):
    given = gratton_graph.task(problem, agents=4, rows=30, columns=3, graph="ring", holders=1, seed=0)
    A, x, penalty = np.concatenate(given.blocks, axis=1), given.answer, given.penalty
    slope = 2 * A.T @ (A @ x - given.y)
    if isinstance(penalty, co.Ridge):
        miss = slope + penalty.a * x
    else:
        l1, l2 = (penalty.a, 0.0) if isinstance(penalty, co.Lasso) else (penalty.l1, penalty.l2)
        pull = slope + l2 * x
        miss = np.where(x != 0, pull + l1 * np.sign(x), np.maximum(np.abs(pull) - l1, 0.0))
    assert np.abs(miss).max() < 1e-9 * np.abs(2 * A.T @ given.y).max()


@pytest.mark.parametrize("problem", list(gratton_graph.PENALTIES))
def test_ours_are_given_the_same_problem_as_the_published_methods(problem):
    rows = gratton_graph.run("ours", "GraphADMM", problem, 3, 40, 2, rounds=500, seed=1)
    assert rows[-1]["error"] < (1e-6 if problem == "elastic net" else 1e-2)


@pytest.mark.parametrize("graph", ["line", "ring"])
def test_what_an_agent_sends_is_counted(graph):
    """On every edge in either direction, a number for each of the 60 rows and a few of the rule of rho."""
    (row,) = rounds_against_connectivity.run(graph, 4, 0)
    assert row["numbers"] >= 60 * 2 * {"line": 3, "ring": 4}[graph] / 4
    assert row["bytes"] >= 8 * row["numbers"]


# ---------------------------------------------------------------- watching changes nothing


def watched_cases():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(24, 6))
    y = A @ rng.normal(size=6) + 0.3 * rng.normal(size=24)
    ring, squares = co.Topology.ring(3), co.LeastSquares()
    columns = co.Federation.split(A, y, parties=3, label="party1")
    yield (
        columns,
        co.Problem(squares, penalty=co.Ridge(0.1)),
        co.GraphRidge(ring, rounds=9, tolerance=0.0),
        ridge_estimate,
    )
    yield (
        columns,
        co.Problem(squares, penalty=co.Lasso(0.1)),
        co.GraphADMM(ring, rounds=9, tolerance=0.0),
        admm_estimate,
    )
    rows = co.Federation.split(A, y, parties=3, by="rows")
    yield rows, co.Problem(squares), co.GraphTLS(ring, rounds=9, tolerance=0.0), tls_estimate


@pytest.mark.parametrize("case", list(watched_cases()), ids=["ridge", "admm", "tls"])
def test_a_watched_run_is_the_same_run_and_ends_with_the_last_estimate(case):
    federation, problem, method, look = case
    plain = co.fit(federation, problem, method)
    watched, estimates = watched_fit(federation, problem, method, look)
    assert len(estimates) == 9
    assert plain.communication.bytes == watched.communication.bytes
    for party, last in zip(plain.coefficients, estimates[-1], strict=True):
        np.testing.assert_array_equal(plain.coefficients[party], watched.coefficients[party])
        np.testing.assert_array_equal(last, watched.coefficients[party])
