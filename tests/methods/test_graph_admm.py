"""Claims about ADMM on a graph: every loss with every penalty, whoever holds the labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.methods.graph.anchored import AnchoredLinks, Epochs, Restarts
from colonnade.methods.graph.consensus import Accord
from tests.helpers.graph_cases import GRAPHS, LOSSES, joined, off, penalties, reference, table

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

COLUMNS, PARTIES = 6, 3
PAIRS = [(loss, penalty) for loss in LOSSES for penalty in penalties(COLUMNS, PARTIES)]
KINKS = [
    pair for pair in PAIRS if not LOSSES[pair[0]].smooth
]  # linear programs, or nearly: one to five thousand rounds
QUICK = [("absolute", "lasso"), ("quantile", "elastic net"), ("quantile", "group lasso")]
SLOW = [pair for pair in KINKS if pair not in QUICK]


def solved(
    loss, penalty, graph, agents, rows, columns, seed, label="party0", intercept=False, rounds=5000, tolerance=1e-9
):
    """The agents' answer and the reference's."""
    X, y = table(seed, rows, columns, loss.classifies)
    problem = co.Problem(loss, penalty=penalty, intercept=intercept)
    fed = co.Federation.split(X, y, parties=agents, label=label)
    fit = co.fit(fed, problem, co.GraphADMM(graph, rounds=rounds, tolerance=tolerance))
    return fit, reference(X, y, problem)


@pytest.mark.thinned("slow")
@pytest.mark.parametrize(
    ("loss", "penalty"), [pytest.param(*pair, marks=pytest.mark.slow) if pair in SLOW else pair for pair in PAIRS]
)
def test_every_loss_with_every_penalty_is_solved(loss, penalty):
    kind = penalties(COLUMNS, PARTIES)[penalty]
    fit, best = solved(LOSSES[loss], kind, co.Topology.line(3), 3, 24, COLUMNS, seed=7)
    assert fit.status is co.Status.AGREED
    assert off(joined(fit), best.x) <= best.room
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("loss", "penalty"), KINKS)
def test_kinks_are_solved_on_every_graph(name, loss, penalty):
    kind = penalties(10, 5)[penalty]
    fit, best = solved(LOSSES[loss], kind, GRAPHS[name](5), 5, 40, 10, seed=8, rounds=20_000)
    assert off(joined(fit), best.x) <= best.room
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("agents", "loss", "penalty"),
    [(20, loss, "elastic net") for loss in LOSSES if LOSSES[loss].smooth]
    + [(20, "least squares", penalty) for penalty in ("ridge", "lasso", "group lasso")]
    + [(50, "least squares", "elastic net")],
)
def test_every_graph_with_many_agents_is_solved(name, agents, loss, penalty):
    """Every smooth loss and every penalty at 20 agents, one pair at 50. A run of 20 takes some ten seconds."""
    columns = 2 * agents
    kind = penalties(columns, agents)[penalty]
    fit, best = solved(LOSSES[loss], kind, GRAPHS[name](agents), agents, 60, columns, seed=8, rounds=20_000)
    assert off(joined(fit), best.x) <= best.room
    assert -1e-9 <= fit.objective - best.objective <= fit.gap + 1e-9


@pytest.mark.parametrize(
    "graph",
    [
        co.Changing(4, (((0, 1), (2, 3)), ((1, 2),))),
        co.Changing.silent(co.Topology.ring(4), {2: range(3, 7)}, period=10),
    ],
    ids=["two parts of a line in turn", "an agent that is silent for four rounds of ten"],
)
def test_links_that_rest_change_the_rounds_and_not_the_answer(graph):
    fit, best = solved(co.Logistic(), co.Lasso(0.02), graph, 4, 30, 8, seed=21, rounds=8000)
    assert fit.status is co.Status.AGREED
    assert off(joined(fit), best.x) <= best.room


def test_all_agents_restart_in_the_same_rounds_with_the_same_penalty(monkeypatch):
    """Otherwise the two ends of a link would disagree about its vectors, and nothing would converge."""
    seen = {}
    restart = AnchoredLinks.restart

    def spied(links, factor):
        seen.setdefault(id(links), (links, []))[1].append((factor, links.ages[0]))
        restart(links, factor)

    monkeypatch.setattr(AnchoredLinks, "restart", spied)
    solved(co.LeastSquares(), co.Lasso(0.05), co.Topology.line(5), 5, 20, 10, seed=22, rounds=150, tolerance=0.0)
    histories = [history for _, history in seen.values()]
    assert len(histories) == 6  # five agents, and the labels inside one of them
    assert len(histories[0]) >= 3
    assert all(history == histories[0] for history in histories)


@pytest.mark.parametrize("unit", [1e-3, pytest.param(1e3, marks=pytest.mark.slow)])
def test_with_kinks_the_unit_of_the_labels_does_not_matter(unit):
    """The dual vector keeps its size and the predictions do not: the penalty must find its own."""
    X, y = table(23, 20, 4)
    best = reference(X, y, co.Problem(co.Quantile(0.3), penalty=co.ElasticNet(0.05, 0.1)))
    problem = co.Problem(co.Quantile(0.3), penalty=co.ElasticNet(0.05, 0.1 / unit))
    fit = co.fit(co.Federation.split(X, unit * y, parties=2), problem, co.GraphADMM(tolerance=1e-9))
    assert off(joined(fit), unit * best.x) <= best.room


def test_a_party_without_columns_is_refused_unless_it_holds_the_labels():
    X, y = table(24, 20, 4)
    with pytest.raises(co.InvalidInput, match=r"'empty' gets no columns; leave it out"):
        co.Federation.split(X, y, parties={"a": [0, 1, 2, 3], "empty": []}, label="a")
    problem = co.Problem(co.LeastSquares(), penalty=co.Lasso(0.05))
    fit = co.fit(co.Federation.split(X, y, parties=2), problem, co.GraphADMM(co.Topology.line(3), tolerance=1e-9))
    assert set(fit.coefficients) == {"party0", "party1"} or fit.coefficients["labels"].size == 0
    best = reference(X, y, problem)
    assert off(np.concatenate([fit.coefficients["party0"], fit.coefficients["party1"]]), best.x) <= best.room


def test_a_graph_in_parts_is_refused():
    with pytest.raises(co.InvalidInput, match="separate parts"):
        co.Topology.from_edges([(0, 1), (2, 3)])


def test_a_restart_keeps_the_multipliers_and_drops_the_anchor_where_it_is():
    """At the fixed point w = x − λ/ρ: after ρ ← 4ρ it must be x − λ/(4ρ)."""
    x, multiplier = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    links = AnchoredLinks(("a",), (2,), 2.0)
    links.pairs[0, 0], links.pairs[1, 0], links.now[0, 0] = x - multiplier / 2.0, x + multiplier / 2.0, x
    links.ages = [7]
    links.restart(4.0)
    np.testing.assert_allclose(links.pairs[0, 0], x - multiplier / 8.0)
    np.testing.assert_allclose(links.pairs[1, 0], x + multiplier / 8.0)
    np.testing.assert_array_equal(links.pairs, links.anchors)
    assert links.ages == [0]


def test_an_exchange_goes_part_of_the_way_back_to_the_anchor_and_both_ends_agree():
    rng = np.random.default_rng(25)
    mine, theirs = AnchoredLinks(("b",), (3,), 1.5), AnchoredLinks(("a",), (3,), 1.5)
    x, y = rng.normal(size=3), rng.normal(size=3)
    w, v = rng.normal(size=3), rng.normal(size=3)
    mine.anchors[0, 0], mine.anchors[1, 0] = theirs.anchors[1, 0], theirs.anchors[0, 0] = w, v
    mine.pairs[:], theirs.pairs[:] = mine.anchors, theirs.anchors
    for _ in range(3):
        before = mine.pairs.copy()
        mine.meet(x, {"b": y})
        theirs.meet(y, {"a": x})
    np.testing.assert_allclose(mine.pairs[0, 0], w / 4 + 3 / 4 * (2 * y - before[1, 0]))
    np.testing.assert_array_equal(mine.pairs[0], theirs.pairs[1])
    np.testing.assert_array_equal(mine.pairs[1], theirs.pairs[0])
    T = np.stack([2 * y - before[1, 0], 2 * x - before[0, 0]])
    assert mine.residuals[4] == pytest.approx(np.linalg.norm(T - before[:, 0]))


def test_an_estimate_of_another_shape_ends_the_run():
    with pytest.raises(co.ProtocolError, match="shape"):
        AnchoredLinks(("a",), (3,), 1.0).meet(np.zeros(3), {"a": np.zeros(4)})
    with pytest.raises(co.ProtocolError, match="residuals"):
        Accord(1, 1e-6, Restarts()).hear([np.zeros(4)])


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_is_solved(name):
    fit, best = solved(co.Logistic(), co.ElasticNet(0.02, 0.1), GRAPHS[name](4), 4, 40, 8, seed=9)
    assert off(joined(fit), best.x) <= best.room


@pytest.mark.thinned("slow")
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
    assert not any(y.tobytes() in letter.body for letter in tap.letters)


def test_a_problem_with_a_group_over_two_parties_is_refused():
    X, y = table(15, 20, 4)
    fed = co.Federation.split(X, y, parties=2)
    with pytest.raises(co.InvalidInput, match="split over parties"):
        co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.GroupLasso(1.0, ((0, 3), (1, 2)))), co.GraphADMM())


NEAR = {f"party{k}": np.ones(2) for k in range(3)}


@pytest.mark.parametrize(
    "method",
    [
        co.GraphRidge(rounds=8),
        co.GraphRidge(rounds=8, start=NEAR),
        co.GraphADMM(rounds=8),
        co.GraphADMM(rounds=8, start=NEAR),
    ],
    ids=["ridge", "ridge from a start", "admm", "admm from a start"],
)
def test_what_a_graph_method_releases_is_what_it_announced(method, tmp_path):
    from colonnade.model.job import Job
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


# ---------------------------------------------------------------- warm starts


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("label", [None, "party2"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["least squares", "logistic", "huber"])
def test_a_start_at_the_answer_ends_at_once(loss, intercept, label):
    """A lasso's dual vector does not tell the coefficients, but coefficients tell the dual vector and the
    multipliers."""
    X, y = table(26, 30, 8, LOSSES[loss].classifies)
    problem = co.Problem(LOSSES[loss], penalty=co.Lasso(0.05), intercept=intercept)
    fed, ring = co.Federation.split(X, y, parties=4, label=label), co.Topology.ring(4)
    cold = co.fit(fed, problem, co.GraphADMM(ring, tolerance=1e-9))
    warm = co.fit(fed, problem, co.GraphADMM(ring, tolerance=1e-7, start=cold))
    assert len(warm.notes) <= 20 < len(cold.notes) / 4
    assert off(joined(warm), joined(cold)) <= 1e-6


@pytest.mark.parametrize(
    "penalty",
    ["lasso", *(pytest.param(one, marks=pytest.mark.slow) for one in ("ridge", "elastic net", "group lasso"))],
)
def test_a_start_at_a_neighbouring_problem_saves_rounds_and_changes_no_answer(penalty):
    X, y = table(27, 40, 10)
    near, wanted = (scaled(penalties(10, 5)[penalty], factor) for factor in (1.02, 1.0))
    fed, line = co.Federation.split(X, y, parties=5, label="party0"), co.Topology.line(5)
    before = co.fit(fed, co.Problem(co.LeastSquares(), penalty=near), co.GraphADMM(line))
    problem = co.Problem(co.LeastSquares(), penalty=wanted)
    cold, warm = (co.fit(fed, problem, co.GraphADMM(line, start=given)) for given in (None, before))
    assert len(warm.notes) <= 0.8 * len(cold.notes)
    assert off(joined(warm), reference(X, y, problem).x) <= 1e-6


def scaled(penalty, factor):
    """The same penalty, `factor` times as heavy."""
    import dataclasses

    return dataclasses.replace(
        penalty,
        **{name: factor * value for name, value in dataclasses.asdict(penalty).items() if isinstance(value, float)},
    )


def test_several_responses_may_start_warm_too():
    X, Y = responses(28, 30, 6, 3)
    fed, problem = co.Federation.split(X, Y, parties=2), co.Problem(co.LeastSquares(), penalty=co.Lasso(0.1))
    cold = co.fit(fed, problem, co.GraphADMM(tolerance=1e-9))
    warm = co.fit(fed, problem, co.GraphADMM(tolerance=1e-7, start=cold))
    assert len(warm.notes) <= 20
    np.testing.assert_allclose(warm.coefficients["party1"], cold.coefficients["party1"], atol=1e-6)


@pytest.mark.parametrize(
    ("alternates", "residual", "ways"),
    [
        (False, lambda _: 1.0, {True}),
        (True, lambda _: 1.0, {True, False}),
        (True, lambda t: 0.8**t, {False}),
    ],
    ids=["on a graph", "nothing falls", "all is well"],
)
def test_epochs_change_their_way_only_where_they_may_and_the_residual_does_not_fall(alternates, residual, ways):
    epochs, seen = Epochs(anchored=not alternates, alternates=alternates), set()
    for t in range(1, 400):
        epochs.over(t, residual(t))
        seen.add(epochs.anchored)
    assert seen == ways


# ---------------------------------------------------------------- several responses


def responses(seed, rows, columns, count):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    low_rank = rng.normal(size=(columns, 1)) @ rng.normal(size=(1, count))
    return X, X @ low_rank + 0.3 * rng.normal(size=(rows, count))


@pytest.mark.thinned("slow")
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
    task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
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


def test_steps_are_halved_once_for_every_hundredfold_rise_and_only_where_links_rest():
    for rests, paces in ((True, [1.0, 1.0, 0.5, 0.5, 0.5, 0.25]), (False, [1.0] * 6)):
        rule, links, found = Restarts(rests=rests), AnchoredLinks(("a",), (1,), 1.0), []
        for t, residual in enumerate((1.0, 100.0, 101.0, 101.0, 10_100.0, 10_101.0)):
            rule.judge(t, np.array([0.0, 1.0, 0.0, 1.0, residual, 0.0, 0.0]), [links])
            found.append(links.pace)
        assert found == paces
