"""Claims about ridge on a graph, and about consensus as such."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co
from colonnade.errors import ProtocolError
from colonnade.methods.graph.consensus import Accord, Links, read_shares
from tests.helpers.graph_cases import GRAPHS, joined, off, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def closed_form(X, y, a, intercept=False):
    if intercept:
        X, y = X - X.mean(axis=0), y - y.mean()
    return np.linalg.solve(X.T @ X / len(y) + a * np.eye(X.shape[1]), X.T @ y / len(y))


def ridge(a, intercept=False):
    return co.Problem(co.LeastSquares(), penalty=co.Ridge(a), intercept=intercept)


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("agents", [2, 6])
def test_the_agents_find_the_ridge_answer(name, agents):
    X, y = table(agents, 40, 3 * agents)
    fit = co.fit(
        co.Federation.split(X, y, parties=agents, label="party0"), ridge(0.1), co.GraphRidge(GRAPHS[name](agents))
    )
    assert fit.status is co.Status.AGREED
    assert off(joined(fit), closed_form(X, y, 0.1)) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("agents", [20, 50])
def test_many_agents_find_the_ridge_answer(name, agents):
    a = 1.0
    X, y = table(agents, 100, 2 * agents)
    fed = co.Federation.split(X, y, parties=agents, label="party0")
    fit = co.fit(fed, ridge(a), co.GraphRidge(GRAPHS[name](agents), rounds=20_000))
    assert off(joined(fit), closed_form(X, y, a)) <= 1e-6


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.booleans(),
    st.booleans(),
)
def test_units_and_splits_do_not_matter_and_the_gap_bounds_the_excess(
    seed, parties, unit_x, unit_y, intercept, compressed
):
    rng = np.random.default_rng(seed)
    X, y = table(seed, int(rng.integers(4, 20)), int(rng.integers(parties, 10)))
    X, y, a = unit_x * X, unit_y * y, 0.1 * unit_x**2
    held = sparse.csc_array(X) if compressed else X
    fit = co.fit(co.Federation.split(held, y, parties=parties), ridge(a, intercept), co.GraphRidge())
    x = closed_form(X, y, a, intercept)
    b = float(np.mean(y - X @ x)) if intercept else 0.0
    best = np.sum((X @ x + b - y) ** 2) / (2 * len(y)) + a / 2 * x @ x
    rounding = 1e-12 * unit_y**2
    assert off(joined(fit), x) <= 1e-6
    assert fit.intercept == pytest.approx(b, abs=1e-5 * unit_y)
    assert -rounding <= fit.objective - best <= fit.gap + rounding


@pytest.mark.parametrize(("rows", "columns"), [(30, 12), (8, 24), (12, 12)])
def test_more_columns_than_rows_and_columns_that_depend_on_each_other_are_no_problem(rows, columns):
    X, y = table(1, rows, columns)
    X[:, 1] = X[:, 0]
    X[:, -1] = 0.0
    fit = co.fit(co.Federation.split(X, y, parties=3), ridge(0.2), co.GraphRidge())
    assert off(joined(fit), closed_form(X, y, 0.2)) <= 1e-6


def test_one_agent_alone_has_nobody_to_ask():
    X, y = table(2, 20, 5)
    fit = co.fit(co.Federation.split(X, y, parties=1, label="party0"), ridge(0.1), co.GraphRidge())
    assert off(joined(fit), closed_form(X, y, 0.1)) <= 1e-9
    assert fit.communication.messages == 0


def test_all_rounds_are_used_when_the_tolerance_is_zero():
    X, y = table(3, 20, 4)
    fit = co.fit(co.Federation.split(X, y, parties=2), ridge(0.1), co.GraphRidge(rounds=37, tolerance=0.0))
    assert fit.status is co.Status.ALL_ROUNDS
    assert len(fit.history) == 37


def test_too_few_rounds_are_said_to_be_too_few():
    X, y = table(3, 20, 4)
    fit = co.fit(co.Federation.split(X, y, parties=2), ridge(0.1), co.GraphRidge(rounds=4))
    assert fit.status is co.Status.OUT_OF_ROUNDS
    assert fit.gap > 0.0


def with_penalty(network, value):
    class Fixed(network):
        def __init__(self, *given):
            super().__init__(*given)
            self.penalty = value

    return Fixed


def rounds_taken(a, method):
    X, y = table(4, 60, 12)
    return len(co.fit(co.Federation.split(X, y, parties=6, label="party0"), ridge(a), method).notes)


def rounds_with_fixed_penalties(a, method, grid, monkeypatch):
    from colonnade.methods.graph import consensus
    from colonnade.methods.graph import ridge as graph_ridge

    monkeypatch.setattr(consensus, "MOST_CHANGES", 0)
    for value in grid:
        monkeypatch.setattr(graph_ridge, "Network", with_penalty(consensus.Network, float(value)))
        yield rounds_taken(a, method)


def test_the_penalty_of_a_weak_ridge_is_near_the_best_fixed_one(monkeypatch):
    """The rate of an affine iteration does not depend on the labels; a rule that compares sizes of vectors makes it."""
    method = co.GraphRidge(co.Topology.ring(6), rounds=1000, tolerance=1e-8)
    automatic = rounds_taken(1e-5, method)
    assert automatic <= 2 * min(rounds_with_fixed_penalties(1e-5, method, (0.2, 0.4, 0.8), monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.1, 10.0])
def test_the_automatic_penalty_needs_at_most_twice_the_rounds_of_the_best_fixed_one(name, a, monkeypatch):
    """Over a grid of fixed penalties, two a decade; both from the same start to the same residuals."""
    method = co.GraphRidge(GRAPHS[name](6), rounds=2000, tolerance=1e-8)
    automatic, grid = rounds_taken(a, method), 10.0 ** np.arange(-1.5, 1.51, 0.5)
    assert automatic <= 2 * min(rounds_with_fixed_penalties(a, method, grid, monkeypatch))


@pytest.mark.parametrize("a", [1e-4, 1.0])
def test_over_relaxation_saves_rounds_and_changes_no_answer(a, monkeypatch):
    """Weight 1/2 is the thesis' ADMM."""
    from colonnade.methods.graph import ridge as graph_ridge

    X, y = table(7, 40, 10)
    fed, method = co.Federation.split(X, y, parties=5, label="party0"), co.GraphRidge(co.Topology.ring(5))
    relaxed = co.fit(fed, ridge(a), method)
    monkeypatch.setattr(graph_ridge, "Links", lambda *given: Links(*given, relaxation=0.5))
    plain = co.fit(fed, ridge(a), method)
    assert len(relaxed.notes) < len(plain.notes)
    for fit in (relaxed, plain):
        assert off(joined(fit), closed_form(X, y, a)) <= 1e-6


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("intercept", [False, True])
def test_a_start_at_the_answer_ends_at_once_on_every_link_of_the_graph(intercept):
    """Multipliers too are where they must be: from the coefficients alone the agents would have to find those again."""
    X, y = table(8, 40, 10)
    fed, method = co.Federation.split(X, y, parties=5, label="party3"), co.GraphRidge(co.Topology.ring(5))
    cold = co.fit(fed, ridge(0.1, intercept), method)
    warm = co.fit(fed, ridge(0.1, intercept), co.GraphRidge(method.topology, start=cold))
    assert len(warm.notes) <= len(cold.notes) / 4
    assert off(joined(warm), closed_form(X, y, 0.1, intercept)) <= 1e-6


def test_a_start_near_the_answer_saves_rounds_and_changes_no_answer():
    X, y = table(8, 40, 10)
    fed, line = co.Federation.split(X, y, parties=5), co.Topology.line(6)
    before = co.fit(fed, ridge(0.1), co.GraphRidge(line)).coefficients
    cold, warm = (co.fit(fed, ridge(0.102), co.GraphRidge(line, start=given)) for given in (None, before))
    assert len(warm.notes) < len(cold.notes)
    assert off(joined(warm), closed_form(X, y, 0.102)) <= 1e-6


@pytest.mark.parametrize("kind", [co.GraphRidge, co.GraphADMM, co.SharingADMM])
@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"party0": np.zeros(2)}, "has none for 'party1'"),
        ({"party0": np.zeros(2), "party1": np.zeros(3)}, r"shape \(3,\), or .* for 'party1', .* shape \(2,\)"),
        ({"party0": np.zeros(2), "party1": np.array([0.0, np.nan])}, "value that is no number"),
        ({"party0": np.zeros(2), "party1": np.zeros(2), "clinic": np.zeros(1)}, "'clinic', which has no columns here"),
        ({"party0": np.zeros(2), "party1": "wrong"}, "is no earlier fit"),
        ({"party0": [0.0, 0.0], "party1": [0.0, 0.0]}, "is no earlier fit"),
        (7, "start=int is no earlier fit: give a Fit"),
    ],
    ids=["a party is missing", "another shape", "not a number", "a stranger", "a text", "lists", "no mapping"],
)
def test_a_start_that_cannot_be_is_refused(kind, start, told):
    X, y = table(8, 20, 4)
    with pytest.raises(co.InvalidInput, match=told):
        co.fit(co.Federation.split(X, y, parties=2), ridge(0.1), kind(start=start))


@pytest.mark.parametrize("kind", [co.GraphRidge, co.GraphADMM, co.SharingADMM])
def test_a_start_prints_as_a_digest_of_all_of_it_and_does_not_travel(kind):
    """A stored run is found again by what its settings print, which ledgers keep: not the values, and no two alike."""
    from colonnade.methods.node_setup import to_plain

    zeros = {"a": np.zeros(5000), "b": np.zeros(3)}
    other = {**zeros, "a": np.eye(1, 5000, 2500)[0]}
    one, two, same = kind(start=zeros), kind(start=other), kind(start={name: x.copy() for name, x in zeros.items()})
    assert repr(one) == repr(same) != repr(two)
    assert len(repr(one)) < 200
    with pytest.raises(co.InvalidInput, match="cannot be sent"):
        to_plain(one)


def test_a_fit_whose_parties_keep_their_coefficients_is_no_start():
    from colonnade.model.facts import Coefficients

    with pytest.raises(co.HeldByParty):
        co.GraphRidge(start=Coefficients({"a": np.zeros(2)}, elsewhere=("b",)))


# ---------------------------------------------------------------- links that rest


@pytest.mark.parametrize(
    "graph",
    [
        co.Changing(5, (((0, 1), (2, 3)), ((1, 2), (3, 4)))),
        co.Changing(5, tuple(((k, k + 1),) for k in range(4))),
        co.Changing.silent(co.Topology.ring(5), {2: range(3, 10)}, period=20),
    ],
    ids=["two halves of a line in turn", "one link at a time", "an agent that is silent for seven rounds of twenty"],
)
def test_links_that_rest_change_the_rounds_and_not_the_answer(graph):
    X, y = table(5, 40, 10)
    tap = co.Tap(co.InProcess())
    fed = co.Federation.split(X, y, parties=5, label="party0")
    fit = co.fit(fed, ridge(0.1), co.GraphRidge(graph, rounds=8000), engine=tap)
    assert fit.status is co.Status.AGREED
    assert off(joined(fit), closed_form(X, y, 0.1)) <= 1e-6
    shares = [letter for letter in tap.letters if letter.round <= 8]
    meetings = sum(2 * len(graph.rounds[t % len(graph.rounds)]) for t in range(8))
    assert len(shares) == meetings


def test_a_changing_graph_that_never_connects_is_refused():
    with pytest.raises(co.InvalidInput, match="separate parts"):
        co.Changing(4, (((0, 1),), ((2, 3),)))
    with pytest.raises(co.InvalidInput, match="at least one round"):
        co.Changing(4, ())


def test_the_longest_rest_of_a_link_counts_over_the_end_of_the_pattern():
    assert co.Changing(2, (((0, 1),), (), (), ((0, 1),), (), ())).longest_rest == 3
    assert co.Changing(2, (((0, 1),),)).longest_rest == 1


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "problem",
    [
        co.Problem(co.Logistic(), penalty=co.Ridge(1.0)),
        co.Problem(co.LeastSquares(), penalty=co.Lasso(1.0)),
        co.Problem(co.LeastSquares()),
        co.Problem(co.LeastSquares(), co.L1Ball(1.0)),
    ],
)
def test_another_problem_is_sent_to_the_method_that_solves_it(problem):
    X, y = table(6, 20, 4, classes=True)
    with pytest.raises(co.InvalidInput, match="GraphADMM"):
        co.fit(co.Federation.split(X, y, parties=2), problem, co.GraphRidge())


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"rounds": 2.5}, {"rounds": True}, {"tolerance": -1.0}, {"tolerance": np.nan}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    for method in (co.GraphRidge, co.GraphADMM, co.GraphTLS):
        with pytest.raises(co.InvalidInput, match=next(iter(wrong))):
            method(**wrong)


def test_a_budget_is_refused_where_exact_values_would_leave(tmp_path):
    X, y = table(6, 20, 4)
    with pytest.raises(co.InvalidInput, match="no finite epsilon"):
        co.fit(
            co.Federation.split(X, y, parties=2),
            co.Problem(co.LeastSquares()),
            co.GraphTLS(),
            co.Privacy(epsilon=1.0, delta=1e-6, row_norm=1.0, label_bound=1.0),
            store=tmp_path,
        )


def share(values):
    return SimpleNamespace(values=SimpleNamespace(value=values))


def test_an_estimate_of_another_shape_ends_the_run():
    links = Links(("a",), (3,), 1.0)
    with pytest.raises(ProtocolError, match="shape"):
        links.meet(np.zeros(3), {"a": np.zeros(4)})
    with pytest.raises(ProtocolError, match="residuals"):
        Accord(1, 1e-6).hear([np.zeros(3)])
    with pytest.raises(ProtocolError, match="6 numbers where 3 and 4 residuals are due"):
        read_shares({"a": share(np.zeros(6))}, (3,), 4)


def test_an_array_on_the_wire_is_the_estimate_and_behind_it_the_residuals():
    estimates, floods = read_shares({"a": share(np.arange(10.0)), "b": share(np.ones(10))}, (3, 2), 4)
    np.testing.assert_array_equal(estimates["a"], np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(floods, [[6.0, 7.0, 8.0, 9.0], np.ones(4)])


def test_changing_the_penalty_keeps_the_multipliers():
    """At the fixed point w = x − λ/ρ: after ρ ← 4ρ it must be x − λ/(4ρ)."""
    x, multiplier = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    links = Links(("a",), (2,), 2.0)
    links.pairs[0, 0], links.pairs[1, 0], links.middle[0] = x - multiplier / 2.0, x + multiplier / 2.0, x
    links.scale(4.0)
    np.testing.assert_allclose(links.pairs[0, 0], x - multiplier / 8.0)
    np.testing.assert_allclose(links.pairs[1, 0], x + multiplier / 8.0)
