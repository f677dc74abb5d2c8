"""Claims about distributed Frank-Wolfe without a coordinator, about groups, and about what travels."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso

import colonnade as co
from colonnade.methods.frank_wolfe.graph import Best, Wave
from colonnade.privacy.events import EXACT
from colonnade.runtime.wire import Letter, decode, encode
from tests.helpers.contract import gate
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

T = co.Topology
NETWORKS = {
    "tree": T.tree,
    "line": T.line,
    "star as a graph": T.star,
    "ring": T.ring,
    "complete": T.complete,
    "random": lambda n: T.random(n, degree=3, seed=1),
}
STEPS = [co.Corrective(), co.LineSearch(), co.OpenLoop()]
LEAST = co.Problem(co.LeastSquares(), co.L1Ball(1.5))


def table(rows: int = 30, columns: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, X[:, 0] - X[:, 5] + 0.3 * rng.normal(size=rows)


def joined(fit: co.Fit, fed: co.Federation) -> np.ndarray:
    x = np.zeros(sum(p.block.columns for p in fed.parties.values()))
    for party, own in fit.coefficients.items():
        x[fed.parties[party].block.positions] = own
    return x


# ---------------------------------------------------------------- the same walk everywhere


@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("ball", [co.L1Ball(1.5), co.Simplex(1.5)], ids=lambda ball: type(ball).__name__)
def test_with_one_party_the_rounds_are_algorithms_1_and_2_line_by_line(ball, loss):
    """From 0, which is no point of a simplex: there the first step goes all the way, and the first gap bounds nothing."""
    X, y = table()
    y = np.where(y > 0.0, 1.0, -1.0) if loss.classifies else y
    fed, method = co.Federation.split(X, y, parties=1), co.DistributedFrankWolfe(20, 0.0, co.OpenLoop())
    fit, x = co.fit(fed, co.Problem(loss, ball), method), np.zeros(12)
    for k in range(21):
        gradient, vertex = X.T @ loss.slope(X @ x, y), np.zeros(12)
        steepest = np.abs(gradient).argmax() if isinstance(ball, co.L1Ball) else gradient.argmin()
        vertex[steepest] = -1.5 * np.sign(gradient[steepest]) if isinstance(ball, co.L1Ball) else 1.5
        if k < 20:
            gap = (x - vertex) @ gradient if k or isinstance(ball, co.L1Ball) else math.inf
            assert fit.history["gap"][k] == pytest.approx(gap, rel=1e-9)
            x = x + 2 / (k + 2) * (vertex - x)
    np.testing.assert_allclose(joined(fit, fed), x, rtol=0, atol=1e-12)
    assert fit.gap == pytest.approx((x - vertex) @ gradient, rel=1e-9)


@pytest.mark.parametrize("network", NETWORKS)
@settings(max_examples=3)
@given(
    nodes=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
    step=st.sampled_from(STEPS),
    loss=st.sampled_from([co.LeastSquares(), co.Logistic()]),
    ball=st.sampled_from([co.L1Ball(1.5), co.Simplex(1.0), co.GroupL1Ball(1.5, [(j,) for j in range(12)])]),
    own_labels=st.booleans(),
    stored=st.sampled_from([np.asarray, sparse.csc_array]),
)
def test_the_iterates_are_those_of_one_machine_on_every_network(
    network, nodes, seed, step, loss, ball, own_labels, stored
):
    X, y = table(12, 12, seed)
    X = np.round(X) if seed % 2 else X  # rounded, equal scores and equal columns become likely
    y = np.where(y > np.median(y), 1.0, -1.0) if loss.classifies else y
    problem = co.Problem(loss, ball, intercept=bool(seed % 3 == 0))
    label = {"label": "party0"} if own_labels else {}
    fed = co.Federation.split(stored(X), y, parties=nodes, **label)
    alone = co.Federation.split(stored(X), y, parties=1)
    size = nodes + (not own_labels)
    told = {"rounds": 8, "tolerance": 1e-9, "step": step}
    fit = co.fit(fed, problem, co.DistributedFrankWolfe(topology=NETWORKS[network](size), **told))
    for other, data in (
        (co.fit(alone, problem, co.DistributedFrankWolfe(**told)), alone),
        (co.fit(fed, problem, co.DistributedFrankWolfe(**told)), fed),
    ):
        np.testing.assert_array_equal(joined(other, data), joined(fit, fed))
        assert (other.objective, other.gap, other.intercept, other.status) == (
            fit.objective,
            fit.gap,
            fit.intercept,
            fit.status,
        )
        if other.notes:
            assert other.history["gap"].to_list() == fit.history["gap"].to_list()


@pytest.mark.parametrize("network", ["tree", "ring"])
def test_a_gap_within_the_tolerance_certifies_a_run_on_a_graph(network):
    X, y = table()
    fed = co.Federation.split(X, y, parties=4)
    fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(tolerance=1e-5, topology=NETWORKS[network](5)))
    x = cp.Variable(12)
    best = confident(cp.Problem(cp.Minimize(cp.sum_squares(X @ x - y) / 60), [cp.norm1(x) <= 1.5]))
    assert fit.status is co.Status.CERTIFIED
    assert -1e-7 <= fit.objective - best <= fit.gap + 1e-7
    assert fit.gap <= 1e-5


def test_agents_of_a_tree_talk_along_its_edges_only():
    tap, tree = co.Tap(co.InProcess()), T.tree(5)
    X, y = table()
    co.fit(co.Federation.split(X, y, parties=4), LEAST, co.DistributedFrankWolfe(rounds=3, topology=tree), engine=tap)
    names = ["party0", "party1", "party2", "party3", "labels"]
    links = {frozenset((names[i], names[j])) for i, j in tree.edges}
    assert links == {frozenset((letter.sender, letter.receiver)) for letter in tap.letters}


@pytest.mark.parametrize("nodes", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_thousand_nodes_work(nodes):
    rng = np.random.default_rng(0)
    X = sparse.random_array((20, nodes), density=0.1, rng=rng, format="csc")
    fed = co.Federation.split(X, rng.normal(size=20), parties=nodes, label="party0")
    told = {"rounds": 1, "tolerance": 0.0, "step": co.LineSearch()}
    star = co.fit(fed, LEAST, co.DistributedFrankWolfe(**told))
    tree = co.fit(fed, LEAST, co.DistributedFrankWolfe(topology=T.tree(nodes), **told))
    np.testing.assert_array_equal(joined(star, fed), joined(tree, fed))


@pytest.mark.slow
def test_defaults_reach_their_certificate_with_a_thousand_parties():
    """A lasso lies on the sphere of its own norm, and is the best in that ball."""
    rng, true = np.random.default_rng(0), np.zeros(3000)
    true[::300] = rng.choice([-1.0, 1.0], 10)
    X = rng.normal(size=(200, 3000))
    y = X @ true + 0.5 * rng.normal(size=200)
    best = Lasso(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    fed = co.Federation.split(X, y, parties=1000)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(float(np.abs(best).sum()))), co.DistributedFrankWolfe())
    assert fit.status is co.Status.CERTIFIED
    assert fit.gap <= 1e-4
    assert -1e-9 <= fit.objective - co.LeastSquares().value(X @ best, y) <= fit.gap + 1e-9
    assert len(set(fit.coreset["party"])) > 10


@pytest.mark.parametrize("network", ["tree", "ring"])
def test_a_run_on_a_graph_that_was_cut_off_goes_on_to_the_same_end(tmp_path, network):
    X, y = table()
    fed = co.Federation.split(X, y, parties=4)
    method = co.DistributedFrankWolfe(rounds=4, tolerance=0.0, topology=NETWORKS[network](5))
    seen = []

    def pull_the_plug(letter):
        seen.append(letter)
        if len(seen) == 25:
            raise KeyboardInterrupt
        return (letter,)

    with pytest.raises(KeyboardInterrupt):
        co.fit(fed, LEAST, method, engine=co.Faults(co.InProcess(), pull_the_plug), store=tmp_path)
    resumed, fresh = co.fit(fed, LEAST, method, store=tmp_path), co.fit(fed, LEAST, method)
    np.testing.assert_array_equal(joined(fresh, fed), joined(resumed, fed))
    assert fresh.communication.lines == resumed.communication.lines


# ---------------------------------------------------------------- groups


def group_optimum(X, y, ball) -> float:
    x = cp.Variable(X.shape[1])
    sizes = sum(cp.norm2(x[list(group)]) for group in ball.groups)
    return confident(cp.Problem(cp.Minimize(cp.sum_squares(X @ x - y) / (2 * len(y))), [sizes <= ball.radius]))


GROUPS = [(0, 1, 2), (3, 4), (5,), (6, 7, 8), (9, 10, 11)]


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 1.5]), st.sampled_from(STEPS), st.integers(1, 40))
def test_the_gap_over_groups_bounds_the_distance_to_the_optimum(seed, radius, step, rounds):
    X, y = table(15, 12, seed)
    ball = co.GroupL1Ball(radius, GROUPS)
    fed = co.Federation.split(X, y, parties=4)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), ball), co.DistributedFrankWolfe(rounds, 0.0, step))
    x = joined(fit, fed)
    assert ball.contains(x, 1e-12)
    objective = co.LeastSquares().value(X @ x, y)
    assert objective == pytest.approx(fit.objective, rel=1e-9)
    assert -1e-6 <= objective - group_optimum(X, y, ball) <= fit.gap + 1e-6


def test_a_group_of_a_sparse_table_travels_sparse():
    X = np.zeros((400, 4))
    X[:3, :2], X[5:7, 2:] = 1.0, 2.0
    X[0, 1] = 3.0
    problem = co.Problem(co.LeastSquares(), co.GroupL1Ball(1.0, [(0, 1), (2, 3)]))
    fed = co.Federation.split(sparse.csc_array(X), np.arange(400.0), parties=2)
    tap = co.Tap(co.InProcess())
    co.fit(fed, problem, co.DistributedFrankWolfe(rounds=2, tolerance=0.0), engine=tap)
    atoms = [m for letter in tap.letters if type(m := decode(letter.body)).__name__ == "Atom"]
    assert atoms
    assert all(sparse.issparse(atom.column.value) and atom.column.value.nnz <= 3 for atom in atoms)


# ---------------------------------------------------------------- what travels


def numbers_to_reach(rounds: int, nodes: int, rows: int, network: str | None) -> float:
    """Numbers on the wires until the gap of the paper's hardest problem is 1/(rows·rounds).

    min ‖Aα‖² over the simplex with orthonormal columns: after k rounds the best there is has k equal weights, and its
    gap is 1/(rows·k), so a gap takes rounds in proportion to its inverse, and each round finds a new column.
    """
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(rows, 64)))
    fed = co.Federation.split(Q, np.zeros(rows), parties=nodes, label="party0")
    graph = None if network is None else NETWORKS[network](nodes)
    method = co.DistributedFrankWolfe(100, 1.001 / (rows * rounds), co.LineSearch(), graph)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.Simplex(1.0)), method)
    assert fit.status is co.Status.CERTIFIED
    assert fit.communication.rounds == rounds
    return float(sum(fit.communication.to_reach(1.001 / (rows * rounds)).numbers))


def exponent(sizes, values) -> tuple[float, float]:
    """Slope of log value against log size, and its standard error."""
    a, b = np.log(sizes), np.log(values)
    (slope, _), covariance = np.polyfit(a, b, 1, cov="unscaled")
    residual = b - np.polyval(np.polyfit(a, b, 1), a)
    spread = math.sqrt(float(residual @ residual) / (len(a) - 2))
    return float(slope), spread * math.sqrt(covariance[0, 0])


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_near_the_optimum_of_the_hardest_problem_both_of_two_nodes_have_sent_much(step):
    """Claim 1 behind the lower bound: within 1/(6d) of the least ‖Aα‖², more than 3d/4 atoms, of d/2 a node more than d/4."""
    d = 24
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))
    fed = co.Federation.split(Q, np.zeros(d), parties=2, label="party0")
    least = 1 / (6 * d) / (2 * d)  # the loss is ‖Aα‖²/(2d)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.Simplex(1.0)), co.DistributedFrankWolfe(10_000, least, step))
    assert fit.objective - 1 / d / (2 * d) < least
    assert [np.count_nonzero(own) > d / 4 for own in fit.coefficients.values()] == [True, True]
    assert sum(np.count_nonzero(own) for own in fit.coefficients.values()) > 3 * d / 4


@pytest.mark.parametrize("network", [None, "tree"])
def test_what_a_star_and_a_tree_send_grows_in_proportion_to_nodes_times_rows_over_the_gap(network):
    """Theory: O(N d / eps), one column of d numbers to each of N nodes in each of the O(1/eps) rounds."""
    nodes, rows, rounds = [4, 8, 16], [200, 400, 800], [5, 10, 20]
    by_nodes = exponent(nodes, [numbers_to_reach(5, n, 400, network) for n in nodes])
    by_rows = exponent(rows, [numbers_to_reach(5, 4, d, network) for d in rows])
    by_gap = exponent(rounds, [numbers_to_reach(t, 4, 400, network) for t in rounds])
    for slope, error in (by_nodes, by_rows, by_gap):
        # Bids (two numbers a node and round) and the labels (one column more) bend a slope of 1 a little.
        assert abs(slope - 1.0) <= 0.1 + 3 * error


def test_what_a_graph_sends_is_edges_times_nodes_for_bids_and_edges_times_rows_for_columns():
    """Theory: O(M (N + d) / eps). On a ring M = N and the bids need N/2 hops, so bids grow as N² and columns as N·d."""
    nodes = [8, 16, 32]
    bids, columns = [], []
    for n in nodes:
        X, y = table(40, 64)
        fed = co.Federation.split(X, y, parties=n, label="party0")
        fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(2, 0.0, co.LineSearch(), T.ring(n)))
        table_ = dict(fit.communication.by("type").select("type", "numbers").rows())
        bids.append(table_["Best"])
        columns.append(table_["Wave"])
    slope, error = exponent(nodes, bids)
    assert abs(slope - 2.0) <= 0.02 + 3 * error
    slope, error = exponent(nodes, columns)
    assert abs(slope - 1.0) <= 0.1 + 3 * error
    bound = [
        2 * 2 * n * n / 2 * 4 for n in nodes
    ]  # two numbers a bid, both ways over M = n edges, n/2 hops, 4 elections
    assert bids == bound


@pytest.mark.parametrize("network", ["ring", "complete", "random"])
def test_a_column_crosses_an_edge_of_a_graph_at_most_once(network):
    X, y = table()
    graph, tap = NETWORKS[network](7), co.Tap(co.InProcess())
    fed = co.Federation.split(X, y, parties=7, label="party0")
    co.fit(fed, LEAST, co.DistributedFrankWolfe(4, 0.0, co.LineSearch(), graph), engine=tap)
    waves = [letter for letter in tap.letters if isinstance(decode(letter.body), Wave)]
    passes = [(frozenset((w.sender, w.receiver)), w.body) for w in waves]
    assert len(passes) == len(set(passes))
    per_column = {body: sum(b == body for _, b in passes) for _, body in passes}
    assert all(6 <= times <= len(graph.edges) for times in per_column.values())


def test_a_sparse_column_travels_sparse_on_a_graph():
    X = sparse.csc_array((np.ones(3), ([0, 1, 2], [0, 1, 2])), shape=(500, 3))
    fed = co.Federation.split(X, np.arange(500.0), parties=3)
    fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(2, 0.0, topology=T.line(4)))
    waves = fit.communication.by("type", "round").filter(type="Wave")
    labels, columns = waves["numbers"].to_list()[0], waves["numbers"].to_list()[1:]
    assert labels > 500
    assert max(columns) <= 3 * (2 + 2 + 2)  # three edges: place and score, one entry, and the word that ends the run


def test_the_traffic_to_reach_a_gap_ends_with_the_round_that_shows_it():
    X, y = table()
    fit = co.fit(co.Federation.split(X, y, parties=3), LEAST, co.DistributedFrankWolfe(60, 0.0, co.LineSearch()))
    gaps = fit.history["gap"].to_list()
    wanted = sorted(gaps)[len(gaps) // 2]
    first = next(k for k, gap in enumerate(gaps) if gap <= wanted) + 1
    found = fit.communication.to_reach(wanted)
    lines = [line for line in fit.communication.lines if line[3] <= first]
    assert found.rounds == first
    assert found.bytes == sum(line[5] for line in lines) < fit.communication.bytes
    assert sum(found.numbers) < sum(fit.communication.numbers)
    assert fit.communication.to_reach(min(*gaps, fit.gap)).rounds <= fit.communication.rounds


def test_the_traffic_to_reach_a_gap_that_was_never_reached_is_refused_with_the_least_one():
    X, y = table()
    fit = co.fit(co.Federation.split(X, y, parties=3), LEAST, co.DistributedFrankWolfe(3, 0.0, co.OpenLoop()))
    with pytest.raises(co.InvalidInput, match=r"never fell to 1e-30; its least was .* more rounds"):
        fit.communication.to_reach(1e-30)


def test_the_numbers_reported_are_those_in_the_messages(tmp_path):
    tap = co.Tap(co.InProcess())
    X, y = table()
    X[X < 0.5] = 0.0
    fed = co.Federation.split(sparse.csc_array(X), y, parties=3)
    fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(5, 0.0), engine=tap)

    def size(value) -> int:
        value = getattr(value, "value", value)
        if sparse.issparse(value):
            return 2 * value.nnz
        return value.size if isinstance(value, np.ndarray) else 1

    messages = [decode(letter.body) for letter in tap.letters]
    wanted = sum(size(getattr(m, name)) for m in messages for name in m.__dataclass_fields__)
    assert wanted == sum(fit.communication.numbers) == fit.communication.by("type")["numbers"].sum()
    fit.save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").communication == fit.communication


# ---------------------------------------------------------------- input that cannot be, and peers that lie


def test_a_graph_that_falls_apart_is_refused():
    with pytest.raises(co.InvalidInput, match="falls into separate parts"):
        co.DistributedFrankWolfe(topology=T.from_edges([(0, 1), (2, 3)]))


def test_a_graph_of_another_size_is_refused_before_anything_is_sent():
    tap = co.Tap(co.InProcess())
    X, y = table()
    with pytest.raises(co.InvalidInput, match="7 nodes for 4 parties"):
        co.fit(co.Federation.split(X, y, parties=3), LEAST, co.DistributedFrankWolfe(topology=T.ring(7)), engine=tap)
    assert tap.letters == []


def test_something_that_is_no_graph_is_refused():
    with pytest.raises(co.InvalidInput, match=r"co\.Topology\.ring"):
        co.DistributedFrankWolfe(topology=[(0, 1)])


@pytest.mark.parametrize("topology", [None, T.line(4)])
def test_a_group_split_over_parties_is_refused_with_both_names(topology):
    X, y = table(10, 6)
    problem = co.Problem(co.LeastSquares(), co.GroupL1Ball(1.0, [(0, 1), (2, 3, 4), (5,)]))
    with pytest.raises(co.InvalidInput, match=r"group 1 is split: 'party0' and 'party1'.*one group at each party"):
        co.fit(
            co.Federation.split(X, y, parties={"party0": [0, 1, 2], "party1": [3, 4], "c": [5]}),
            problem,
            co.DistributedFrankWolfe(topology=topology),
        )


@pytest.mark.parametrize(
    ("groups", "advice"),
    [
        ([(0, 1), (2, 3)], "column 4 of party 'party1' is in no group"),
        ([(0, 1, 2, 3, 4, 5), (6,)], "leave out the groups"),
    ],
)
def test_groups_that_do_not_fit_the_columns_are_refused(groups, advice):
    X, y = table(10, 6)
    fed = co.Federation.split(X, y, parties={"party0": [0, 1, 2, 3], "party1": [4, 5]})
    fed = co.Federation.split(X, y, parties=1) if len(groups[0]) == 6 else fed
    with pytest.raises(co.InvalidInput, match=advice):
        co.fit(fed, co.Problem(co.LeastSquares(), co.GroupL1Ball(1.0, groups)))


@pytest.mark.parametrize("topology", [None, T.ring(4)])
def test_equal_columns_and_columns_of_zeros_do_no_harm(topology):
    X = np.zeros((8, 6))
    X[:, 1] = X[:, 4] = np.arange(8.0)
    y = 0.1 * np.arange(8.0)
    fed = co.Federation.split(X, y, parties=3)
    fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(rounds=50, tolerance=1e-9, topology=topology))
    assert fit.status is co.Status.CERTIFIED
    x = joined(fit, fed)
    assert x[4] == 0.0  # of equal columns the first is taken
    assert x[1] == pytest.approx(0.1)
    zero = co.fit(co.Federation.split(X * 0.0, y, parties=3), LEAST, co.DistributedFrankWolfe(topology=topology))
    assert zero.gap == 0.0


def lying(change):
    def fault(letter):
        told = change(decode(letter.body))
        if told is None:
            return (letter,)
        body = encode(told, guarded=False)
        return (Letter(letter.sender, letter.receiver, letter.sequence, letter.round, body),)

    return co.Faults(co.InProcess(), fault)


def told(value):
    return gate().exact(value)


LIES = {
    "a score that is no number": (Best, lambda m: Best(m.place, told(math.nan))),
    "a short column": (Wave, lambda m: Wave(m.place, m.score, told(np.ones(3)))),
    "two columns": (Wave, lambda m: Wave(m.place, m.score, told(sparse.csc_array(np.ones((30, 2)))))),
    "nothing instead of the labels": (Wave, lambda m: Wave(m.place, m.score, told(sparse.csc_array((30, 0))))),
}


@pytest.mark.parametrize("topology", [T.tree(4), T.ring(4)], ids=["tree", "ring"])
@pytest.mark.parametrize("lie", LIES)
def test_a_neighbour_that_lies_ends_the_run_with_an_error_of_ours(lie, topology):
    kind, other = LIES[lie]
    X, y = table()
    engine = lying(lambda m: other(m) if type(m) is kind else None)
    with pytest.raises((co.ProtocolError, co.InvalidInput)):
        co.fit(
            co.Federation.split(X, y, parties=3), LEAST, co.DistributedFrankWolfe(3, topology=topology), engine=engine
        )


def test_every_exact_release_on_a_graph_is_in_the_plan_and_a_strict_party_refuses():
    X, y = table()
    for party in ("party1", "labels"):
        fed = co.Federation.split(X, y, parties=3, policies={party: co.Policy(exact=False)})
        tap = co.Tap(co.InProcess())
        with pytest.raises(co.PolicyRefused, match="Nothing was sent"):
            co.fit(fed, LEAST, co.DistributedFrankWolfe(3, topology=T.tree(4)), engine=tap)
        assert tap.letters == []
    assert math.isinf(EXACT.rho)


def test_the_coreset_lists_the_columns_in_use_with_their_weights():
    X, y = table()
    fed = co.Federation.split(X, y, parties=3)
    fit = co.fit(fed, LEAST, co.DistributedFrankWolfe(tolerance=1e-6))
    x = joined(fit, fed)
    listed = {(row["party"], row["index"]): row["weight"] for row in fit.coreset.to_dicts()}
    wanted = {}
    for name, party in fed.parties.items():
        wanted |= {(name, k): x[j] for k, j in enumerate(party.block.positions.tolist()) if x[j]}
    assert wanted == listed
    assert fit.coreset["name"].to_list() == [f"x{j}" for j in np.flatnonzero(x)]
