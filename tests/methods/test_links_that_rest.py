"""Claims about graphs whose links rest: no pattern of rests, place of the labels, graph or method changes an answer."""

from __future__ import annotations

import math
import warnings

import cvxpy as cp
import numpy as np
import pytest

import colonnade as co
from colonnade.methods.gram.graph import GraphGram
from colonnade.methods.graph import anchored
from colonnade.methods.graph.consensus import Accord, Links, ratio
from colonnade.problem import Changing, Topology
from tests.helpers.graph_cases import joined, off, reference, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SIZE = 5
RIDGE = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
LASSO = co.Problem(co.Logistic(), penalty=co.Lasso(0.02))
GRAPHS = {"line": Topology.line, "ring": Topology.ring, "star": Topology.star, "random": Topology.random}


def matchings(graph: Topology) -> Changing:
    """In no round has an agent more than one link."""
    rounds: list[list[tuple[int, int]]] = []
    for edge in graph.edges:
        free = (links for links in rounds if not {*edge} & {node for link in links for node in link})
        next(free, rounds.append([]) or rounds[-1]).append(edge)
    return Changing(graph.size, tuple(map(tuple, filter(None, rounds))))


def rare(graph: Topology) -> Changing:
    """The first link once, then all others thirty times: between two of its uses the two sides agree among themselves."""
    return Changing(graph.size, (graph.edges[:1], *(graph.edges[1:],) * 30))


ACTIVITY = {
    "matchings in turn": matchings,
    "one link a round": lambda graph: Changing(graph.size, tuple((edge,) for edge in graph.edges)),
    "one link a round, backwards": lambda graph: Changing(graph.size, tuple((edge,) for edge in graph.edges[::-1])),
    "nobody in the first round": lambda graph: Changing(graph.size, ((), graph.edges)),
    "the first agent wakes late": lambda graph: Changing.silent(graph, {0: range(7)}, 9),
    "the last agent wakes late": lambda graph: Changing.silent(graph, {graph.size - 1: range(7)}, 9),
    "a rare link": rare,
}


def ridge_answer(X, y):
    return np.linalg.solve(X.T @ X / len(y) + 0.1 * np.eye(X.shape[1]), X.T @ y / len(y))


def fit_ridge(graph, fed, X, y):
    fit = co.fit(fed, RIDGE, co.GraphRidge(graph, rounds=20_000))
    return fit, off(joined(fit), ridge_answer(X, y)), 1e-6


def fit_admm(graph, fed, X, y):
    fit, best = co.fit(fed, LASSO, co.GraphADMM(graph, rounds=20_000)), reference(X, y, LASSO)
    return fit, off(joined(fit), best.x), best.room


def fit_total(graph, fed, X, y):
    """The last right singular vector of [A −y]."""
    v = np.linalg.svd(np.column_stack([X, -y]))[2][-1]
    fit = co.fit(fed, co.Problem(co.LeastSquares()), co.GraphTLS(graph, rounds=5000, tolerance=1e-10))
    found = fit.coefficients.values() if fed.by_rows else [joined(fit)]
    return fit, max(off(x, v[:-1] / v[-1]) for x in found), 1e-6


def fit_values(graph, fed, X, y):
    """Of what there is to gain over zero: within the tolerance, one that random steps can reach."""
    settings = {"rounds": 1000, "steps": 10, "draws": 4, "seed": 1, "tolerance": 0.1}
    fit = co.fit(fed, RIDGE, co.GraphZerothOrder(graph, **settings))
    worth = [RIDGE.objective(X @ x, x, y) for x in (ridge_answer(X, y), np.zeros(X.shape[1]))]
    found = fit.coefficients.values() if fed.by_rows else [joined(fit)]
    excess = max(RIDGE.objective(X @ x, x, y) - worth[0] for x in found)
    return fit, excess / (worth[1] - worth[0]), settings["tolerance"]


METHODS = {
    "GraphRidge": (fit_ridge, "columns", False),
    "GraphADMM": (fit_admm, "columns", True),
    "GraphTLS, columns": (fit_total, "columns", False),
    "GraphTLS, rows": (fit_total, "rows", False),
    "GraphZerothOrder, columns": (fit_values, "columns", False),
    "GraphZerothOrder, rows": (fit_values, "rows", False),
}


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("label", ["party0", "party2", "party4", None])
@pytest.mark.parametrize("activity", ACTIVITY)
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_rest_of_any_link_changes_the_answer(method, label, activity, graph):
    """Without `label` it is a party of its own, in no pattern."""
    solve, by, classes = METHODS[method]
    X, y = table(5, 40, 2 * SIZE if by == "columns" else 4, classes)
    fed = co.Federation.split(X, y, parties=SIZE, **({"by": "rows"} if by == "rows" else {"label": label}))
    fit, error, room = solve(ACTIVITY[activity](GRAPHS[graph](SIZE)), fed, X, y)
    assert fit.status is co.Status.AGREED
    assert error <= room


@pytest.mark.parametrize(
    ("label", "activity"), [("party0", "the first agent wakes late"), ("party4", "the last agent wakes late")]
)
def test_where_whole_steps_grow_without_end_all_agents_take_shorter_ones(label, activity, monkeypatch):
    X, y = table(5, 40, 2 * SIZE, True)
    fed = co.Federation.split(X, y, parties=SIZE, label=label)
    graph = ACTIVITY[activity](Topology.random(SIZE))
    fit, error, room = fit_admm(graph, fed, X, y)
    assert fit.status is co.Status.AGREED
    assert error <= room
    monkeypatch.setattr(anchored, "RISE", math.inf)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert co.fit(fed, LASSO, co.GraphADMM(graph, rounds=6000)).status is co.Status.OUT_OF_ROUNDS


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("label", ["party0", "party2", "party4", None])
@pytest.mark.parametrize("graph", GRAPHS)
def test_frank_wolfe_refuses_rests_and_finds_the_answer_on_every_graph(label, graph):
    X, y = table(5, 40, 2 * SIZE)
    x = cp.Variable(X.shape[1])
    best = cp.Problem(cp.Minimize(cp.sum_squares(X @ x - y) / (2 * len(y))), [cp.norm1(x) <= 1.0]).solve(cp.CLARABEL)
    fed, problem = co.Federation.split(X, y, parties=SIZE, label=label), co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    fit = co.fit(fed, problem, co.DistributedFrankWolfe(200, 1e-9, topology=GRAPHS[graph](SIZE)))
    assert fit.status is co.Status.CERTIFIED
    assert fit.objective == pytest.approx(best, rel=1e-6)
    with pytest.raises(co.InvalidInput, match="is not a graph"):
        co.DistributedFrankWolfe(topology=ACTIVITY["a rare link"](GRAPHS[graph](SIZE)))


@pytest.mark.chance(1e-9, "66 entries within 7 sds: 66 * 2.6e-12")
@pytest.mark.thinned("slow")
@pytest.mark.parametrize("label", ["party0", "party4", None])
@pytest.mark.parametrize("activity", ["one link a round", "nobody in the first round"])
def test_with_a_budget_the_same_products_are_released(label, activity, tmp_path):
    """One exchange, in which no link rests. Seeded noise: against the matrix of the star, at most 7 sds apart."""
    X, y = table(5, 40, 2 * SIZE)
    terms = co.Privacy(20.0, 1e-6, trust="parties", row_norm=10.0, feature_bound=3.0, label_bound=9.0)
    fed = co.Federation.split(np.clip(X, -3, 3), np.clip(y, -9, 9), parties=SIZE, label=label)
    graph = GraphGram(topology=ACTIVITY[activity](Topology.line(SIZE)), purpose="inference")
    star, fit = (
        co.fit(fed, RIDGE, method, terms, store=tmp_path / str(k), noise=co.SeededNoise(k)).release
        for k, method in enumerate((co.PrivateGram(purpose="inference"), graph))
    )
    assert np.array_equal(fit.noise, star.noise)
    known = star.noise > 0
    assert np.all(np.abs(fit.matrix - star.matrix)[known] <= 7 * 2**0.5 * star.noise[known])


@pytest.mark.parametrize("label", ["party0", "party4", None])
@pytest.mark.parametrize("activity", ACTIVITY)
def test_ridge_on_a_line_agrees_on_the_answer_alone(activity, label):
    """Whoever holds the labels may rest while all others agree on 0."""
    X, y = table(5, 40, 2 * SIZE)
    fed = co.Federation.split(X, y, parties=SIZE, label=label)
    fit, error, room = fit_ridge(ACTIVITY[activity](Topology.line(SIZE)), fed, X, y)
    assert fit.status is co.Status.AGREED
    assert error <= room
    assert fit.gap <= 1e-9 * fit.objective


def test_total_least_squares_does_not_go_round_in_circles():
    """On this graph, one link a round, reflections of weight 0.95 never end: the error stays above 1."""
    X, y = table(5, 40, 4)
    fed = co.Federation.split(X, y, parties=SIZE, by="rows")
    fit, error, room = fit_total(ACTIVITY["one link a round"](Topology.random(SIZE)), fed, X, y)
    assert fit.status is co.Status.AGREED
    assert error <= room


def test_labels_of_zero_are_agreed_on_once_every_link_has_met():
    """Then 0 is the answer, and nothing ever moves: no run may wait for what does not come."""
    X, _ = table(5, 20, 2 * SIZE)
    graph = ACTIVITY["one link a round"](Topology.line(SIZE))
    fed = co.Federation.split(X, np.zeros(20), parties=SIZE, label="party4")
    for method in (co.GraphRidge(graph), co.GraphADMM(graph)):
        fit = co.fit(fed, RIDGE, method)
        assert (fit.status, fit.gap) == (co.Status.AGREED, 0.0)
        assert not joined(fit).any()
        assert graph.first_uses < len(fit.notes) < 100


# ---------------------------------------------------------------- what counts as agreed


def meet(links, **estimates):
    links.meet(np.ones(1), {name: np.array([float(x)]) for name, x in estimates.items()})


def test_the_residuals_of_an_agent_are_those_of_all_its_links_as_each_last_met():
    """Apart by 2 on one link and by 3 on the other: √(2² + 3²), whichever met last."""
    links = Links(("a", "b"), (1,), 1.0)
    assert np.isinf(links.residuals).all()
    meet(links, a=3)
    assert np.isinf(links.residuals).all()
    meet(links, b=4)
    assert links.residuals[0] == pytest.approx(13**0.5)
    meet(links, a=1)
    assert links.residuals[0] == pytest.approx(3.0)


def test_nobody_agrees_before_every_link_has_met_and_an_agent_alone_does():
    links, accord = Links(("a", "b"), (1,), 1.0), Accord(1, 1e-6)
    for _ in range(5):
        meet(links, a=1)
        accord.turn([links])
    assert (accord.agreed, accord.last) == (False, (np.inf, np.inf))
    for _ in range(5):
        meet(links, a=1, b=1)
        accord.turn([links])
    assert accord.agreed
    alone = Accord(1, 1e-6)
    for _ in range(2):
        alone.turn([Links((), (1,), 1.0)])
    assert alone.agreed


def test_a_difference_is_infinitely_large_beside_estimates_of_zero():
    """Of x and −x the middle is 0."""
    assert (ratio(0.0, 0.0), ratio(1.0, 0.0), ratio(1.0, 4.0)) == (0.0, np.inf, 0.25)


def test_a_run_that_ends_before_a_link_is_used_is_refused():
    X, y = table(5, 40, 2 * SIZE)
    graph = Changing(SIZE, (*(((0, 1), (1, 2), (2, 3)),) * 6, ((3, 4),)))
    assert graph.first_uses == 7
    columns, rows = co.Federation.split(X, y, parties=SIZE), co.Federation.split(X[:, :3], y, parties=SIZE, by="rows")
    plain = co.Problem(co.LeastSquares())
    for fed, problem, method in [
        (columns, RIDGE, co.GraphRidge),
        (columns, RIDGE, co.GraphADMM),
        (columns, RIDGE, co.GraphZerothOrder),
        (rows, plain, co.GraphTLS),
    ]:
        with pytest.raises(co.InvalidInput, match=r"in 6 rounds some links .* at least rounds=7"):
            co.fit(fed, problem, method(graph, rounds=6))
        assert co.fit(fed, problem, method(graph, rounds=7)).status in (co.Status.OUT_OF_ROUNDS, co.Status.ALL_ROUNDS)
