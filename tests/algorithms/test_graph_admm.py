"""Claims about ADMM on a graph: every loss with every penalty, whoever holds the labels."""

from __future__ import annotations

import numpy as np
import pytest
from graph_cases import GRAPHS, LOSSES, joined, off, penalties, reference, table
from scipy import sparse

import colonnade as co

COLUMNS, PARTIES = 6, 3
LONG = {("absolute", "elastic net"), ("absolute", "ridge")}  # a few thousand rounds
LINEAR = {("absolute", "lasso"), ("quantile", "lasso"), ("absolute", "group lasso"), ("quantile", "group lasso")}
PAIRS = [(loss, penalty) for loss in LOSSES for penalty in penalties(COLUMNS, PARTIES)]


def solved(
    loss, penalty, graph, agents, rows, columns, seed, label="party0", intercept=False, rounds=5000, tolerance=1e-9
):
    """The agents' answer and the reference's."""
    X, y = table(seed, rows, columns, loss.classifies)
    problem = co.Problem(loss, penalty=penalty, intercept=intercept)
    fed = co.Federation.split(X, y, parties=agents, label=label)
    fit = co.fit(fed, problem, co.GraphADMM(graph, rounds=rounds, tolerance=tolerance))
    return fit, reference(X, y, problem)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [pytest.param(*pair, marks=pytest.mark.slow) if pair in LONG else pair for pair in PAIRS if pair not in LINEAR],
)
def test_every_loss_with_every_penalty_is_solved(loss, penalty):
    kind = penalties(COLUMNS, PARTIES)[penalty]
    fit, best = solved(LOSSES[loss], kind, co.Topology.line(3), 3, 24, COLUMNS, seed=7)
    assert off(joined(fit), best.x) <= best.room
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.parametrize(("loss", "penalty"), sorted(LINEAR))
def test_of_a_linear_program_the_gap_says_how_far_it_is(loss, penalty):
    """A piecewise linear loss with a penalty that has kinks at 0 only: ADMM gets there slowly, and says so."""
    kind = penalties(COLUMNS, PARTIES)[penalty]
    fit, best = solved(LOSSES[loss], kind, co.Topology.line(3), 3, 24, COLUMNS, seed=7, rounds=400)
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9
    assert fit.objective - best.objective <= 0.02 * best.objective


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("agents", [5, 20, 50])
@pytest.mark.parametrize(
    ("loss", "penalty"), [("logistic", "elastic net"), ("least squares", "lasso"), ("squared hinge", "ridge")]
)
def test_every_graph_with_many_agents_is_solved(name, agents, loss, penalty):
    columns = 2 * agents
    kind = penalties(columns, agents)[penalty]
    fit, best = solved(LOSSES[loss], kind, GRAPHS[name](agents), agents, 60, columns, seed=8, rounds=40_000)
    assert off(joined(fit), best.x) <= best.room
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_solved(name):
    fit, best = solved(co.Logistic(), co.ElasticNet(0.02, 0.1), GRAPHS[name](4), 4, 40, 8, seed=9)
    assert off(joined(fit), best.x) <= best.room


@pytest.mark.parametrize("label", [None, "party1"])
@pytest.mark.parametrize("loss", ["least squares", "logistic", "huber"])
def test_the_intercept_is_found_whoever_holds_the_labels(loss, label):
    fit, best = solved(
        LOSSES[loss], co.ElasticNet(0.02, 0.1), co.Topology.star(3), 3, 30, 6, seed=10, label=label, intercept=True
    )
    assert off(joined(fit), best.x) <= best.room
    assert fit.intercept == pytest.approx(best.intercept, abs=1e-5)
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_units_of_features_and_labels_do_not_matter(unit):
    X, y = table(11, 30, 6)
    best = reference(X, y, co.Problem(co.Huber(0.5), penalty=co.Lasso(0.05)))
    fed = co.Federation.split(X * unit, y * unit, parties=3)
    problem = co.Problem(co.Huber(0.5 * unit), penalty=co.Lasso(0.05 * unit**2))
    fit = co.fit(fed, problem, co.GraphADMM(tolerance=1e-9))
    assert off(joined(fit), best.x) <= best.room


@pytest.mark.parametrize("compressed", [False, True])
def test_more_columns_than_rows_and_columns_that_depend_on_each_other_are_no_problem(compressed):
    X, y = table(12, 10, 18)
    X[:, 1] = X[:, 0]
    X[:, -1] = 0.0
    problem = co.Problem(co.LeastSquares(), penalty=co.ElasticNet(0.05, 0.1))
    held = sparse.csc_array(X) if compressed else X
    fit = co.fit(co.Federation.split(held, y, parties=3), problem, co.GraphADMM(tolerance=1e-9))
    best = reference(X, y, problem)
    assert off(joined(fit), best.x) <= best.room


def test_a_penalty_that_leaves_nothing_gives_zeros():
    X, y = table(13, 20, 4)
    fit = co.fit(
        co.Federation.split(X, y, parties=2), co.Problem(co.LeastSquares(), penalty=co.Lasso(100.0)), co.GraphADMM()
    )
    assert not joined(fit).any()
    assert fit.gap == pytest.approx(0.0, abs=1e-9)


def test_the_labels_are_not_sent():
    """Unlike the thesis' version: what crosses is dual vectors, and at the end scores."""
    tap = co.Tap(co.InProcess())
    X, y = table(14, 20, 4)
    fed = co.Federation.split(X, y, parties=2)
    co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)), co.GraphADMM(rounds=50), engine=tap)
    assert tap.letters
    assert not any(y.tobytes() in letter.frame.body for letter in tap.letters)


def test_a_problem_without_a_penalty_or_with_a_group_over_two_parties_is_refused():
    X, y = table(15, 20, 4)
    fed = co.Federation.split(X, y, parties=2)
    with pytest.raises(co.InvalidInput, match=r"penalty=co\.Lasso"):
        co.fit(fed, co.Problem(co.LeastSquares()), co.GraphADMM())
    with pytest.raises(co.InvalidInput, match="split over parties"):
        co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.GroupLasso(1.0, ((0, 3), (1, 2)))), co.GraphADMM())


@pytest.mark.parametrize("method", [co.GraphRidge(rounds=8), co.GraphADMM(rounds=8)], ids=["ridge", "admm"])
def test_what_a_graph_method_releases_is_what_it_announced(method, tmp_path):
    from colonnade.algorithms.method import Job
    from colonnade.privacy.ledger import Ledger
    from colonnade.privacy.store import FileLog

    X, y = table(16, 20, 6)
    fed, problem = co.Federation.split(X, y, parties=3), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    co.fit(fed, problem, method, store=tmp_path)
    for party, plan in method.price(Job(problem, fed.roster())).items():
        log = FileLog(tmp_path / "nodes" / f"{party}.db")
        assert len(Ledger(log, party, co.Policy(exact=True)).entries()) == sum(charge.count for charge in plan)
        log.close()


@pytest.mark.parametrize("lost", [0, 7, 40])
def test_a_lost_letter_ends_the_run_of_all(lost):
    X, y = table(17, 20, 6)
    count = iter(range(10**6))
    engine = co.Faults(co.InProcess(), lambda letter: () if next(count) == lost else (letter,))
    with pytest.raises(co.ProtocolError):
        co.fit(
            co.Federation.split(X, y, parties=3),
            co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
            co.GraphADMM(rounds=20),
            engine=engine,
        )


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    X, y = table(18, 20, 6)
    fed, problem = co.Federation.split(X, y, parties=3), co.Problem(co.Logistic(), penalty=co.Lasso(0.01))
    fed = co.Federation.split(X, np.sign(y), parties=3)
    seen = []

    def pull_the_plug(letter):
        seen.append(letter)
        if len(seen) == 60:
            raise KeyboardInterrupt
        return (letter,)

    method = co.GraphADMM(rounds=15)
    with pytest.raises(KeyboardInterrupt):
        co.fit(fed, problem, method, engine=co.Faults(co.InProcess(), pull_the_plug), store=tmp_path)
    resumed, fresh = co.fit(fed, problem, method, store=tmp_path), co.fit(fed, problem, method)
    np.testing.assert_array_equal(joined(resumed), joined(fresh))
    assert resumed.communication.lines == fresh.communication.lines
    assert resumed.gap == fresh.gap


# ---------------------------------------------------------------- several responses


def responses(seed, rows, columns, count):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    low_rank = rng.normal(size=(columns, 1)) @ rng.normal(size=(1, count))
    return X, X @ low_rank + 0.3 * rng.normal(size=(rows, count))


@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Huber(0.5)], ids=["least squares", "huber"])
@pytest.mark.parametrize("kind", ["nuclear", "lasso", "ridge"])
def test_several_responses_are_solved(loss, kind, tmp_path):
    import cvxpy as cp

    X, Y = responses(19, 30, 6, 3)
    blocks = ((0, 1, 2), (3, 4, 5))
    penalty = {"nuclear": co.NuclearNorm(0.2, blocks), "lasso": co.Lasso(0.1), "ridge": co.Ridge(0.1)}[kind]
    fed = co.Federation.split(X, Y, parties=2)
    fit = co.fit(fed, co.Problem(loss, penalty=penalty), co.GraphADMM(tolerance=1e-9))
    B = cp.Variable((6, 3))
    miss = X @ B - Y
    value = cp.sum_squares(miss) / 60 if isinstance(loss, co.LeastSquares) else cp.sum(cp.huber(miss, loss.delta)) / 60
    cost = {
        "nuclear": 0.2 * (cp.normNuc(B[:3]) + cp.normNuc(B[3:])),
        "lasso": 0.1 * cp.sum(cp.abs(B)),
        "ridge": 0.05 * cp.sum_squares(B),
    }[kind]
    task = cp.Problem(cp.Minimize(value + cost))
    task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert off(np.vstack(list(fit.coefficients.values())), B.value) <= 1e-6
    assert -1e-9 <= fit.objective - task.value <= fit.gap + 1e-9
    if kind == "nuclear":
        assert np.linalg.matrix_rank(fit.coefficients["party0"], tol=1e-6) < 3
    fit.save(tmp_path / "fit.json")
    np.testing.assert_allclose(co.load(tmp_path / "fit.json").scores(fed), X @ B.value, atol=1e-5)


def test_several_responses_are_refused_where_they_cannot_be():
    X, Y = responses(20, 20, 4, 2)
    fed = co.Federation.split(X, Y, parties=2)
    with pytest.raises(co.InvalidInput, match="one label a row"):
        co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)), co.DistributedFrankWolfe())
    with pytest.raises(co.InvalidInput, match="blocks="):
        co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.NuclearNorm(1.0)), co.GraphADMM())
    with pytest.raises(co.InvalidInput, match="several responses"):
        co.fit(
            co.Federation.split(X, Y[:, 0], parties=2),
            co.Problem(co.LeastSquares(), penalty=co.NuclearNorm(1.0)),
            co.GraphADMM(),
        )
