"""Claims about kernel machines over examples that different nodes hold."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

import colonnade as co
from colonnade.methods.frank_wolfe import kernel_svm
from colonnade.methods.frank_wolfe.distributed import Bid
from colonnade.methods.frank_wolfe.kernel_svm import Example, Towards, Weigh
from colonnade.problem import kernel
from colonnade.problem.kernel import check_positive, check_table
from colonnade.runtime.wire import Letter, decode, encode
from tests.helpers.contract import gate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

T = co.Topology
STEPS = [co.Corrective(), co.LineSearch(), co.OpenLoop()]
NETWORKS = {"tree": T.tree, "line": T.line, "ring": T.ring, "complete": T.complete}


def table(rows: int = 24, columns: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, columns)), 2) * (rng.random((rows, columns)) < 0.8)
    y = np.where((X**2).sum(axis=1) > np.median((X**2).sum(axis=1)), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def dual_matrix(X, y, kernel, C) -> np.ndarray:
    return np.outer(y, y) * (kernel(X, X) + 1.0) + np.eye(len(y)) / C


def optimum(K: np.ndarray) -> float:
    """The dual by an independent solver."""
    a = cp.Variable(len(K), nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.quad_form(a, cp.psd_wrap(K))), [cp.sum(a) == 1])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return float(problem.value)


def weights(fit: co.Fit, fed: co.Federation) -> np.ndarray:
    alpha = np.zeros(fed.rows)
    for party, own in fit.coefficients.items():
        alpha[fed.places[party]] = own
    return alpha


def linear(X, Z):
    """A kernel of the user's: it sees tables as they are stored."""
    return X @ Z.T


# ---------------------------------------------------------------- the certificate


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from([co.RBF(0.5), co.RBF(20.0), linear]),
    C=st.sampled_from([0.1, 10.0]),
    step=st.sampled_from(STEPS),
    rounds=st.integers(1, 60),
    stored=st.sampled_from([np.asarray, sparse.csc_array]),
)
def test_the_gap_bounds_the_distance_to_the_optimum_of_the_dual(seed, kernel, C, step, rounds, stored):
    X, y = table(seed=seed)
    fed = co.Federation.split(stored(X), y, parties=3, by="rows")
    fit = co.fit(fed, co.KernelSVM(kernel, C), co.DistributedFrankWolfe(rounds, 0.0, step))
    alpha, K = weights(fit, fed), dual_matrix(X, y, kernel, C)
    assert alpha.min() >= 0.0
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    value = float(alpha @ K @ alpha)
    assert value == pytest.approx(fit.objective, rel=1e-10)
    gap = 2.0 * (value - float((K @ alpha).min()))
    assert gap == pytest.approx(fit.gap, abs=1e-10 * abs(K).max())
    assert -1e-6 * value <= value - optimum(K) <= fit.gap + 1e-6 * value


def test_the_objective_kept_from_step_to_step_does_not_drift():
    X, y = table(40)
    fed = co.Federation.split(X, y, parties=4, by="rows")
    fit = co.fit(fed, co.KernelSVM(co.RBF(0.5), 100.0), co.DistributedFrankWolfe(400, 0.0, co.OpenLoop()))
    mp.dps = 40
    alpha, K = weights(fit, fed), dual_matrix(X, y, co.RBF(0.5), 100.0)
    exact = sum(
        mpf(a) * mpf(b) * mpf(k) for a, row in zip(alpha, K, strict=True) for b, k in zip(alpha, row, strict=True)
    )
    assert fit.objective == pytest.approx(float(exact), rel=1e-11)


def test_a_corrective_run_reaches_the_optimum():
    X, y = table(60)
    fed = co.Federation.split(X, y, parties=4, by="rows")
    fit = co.fit(fed, co.KernelSVM(co.RBF(0.5), 10.0), co.DistributedFrankWolfe(tolerance=1e-9))
    assert fit.status is co.Status.CERTIFIED
    assert fit.objective == pytest.approx(optimum(dual_matrix(X, y, co.RBF(0.5), 10.0)), rel=1e-6)


# ---------------------------------------------------------------- the same walk everywhere


@pytest.mark.parametrize("network", NETWORKS)
@settings(max_examples=3)
@given(
    nodes=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
    step=st.sampled_from(STEPS),
    stored=st.sampled_from([np.asarray, sparse.csc_array]),
)
def test_the_iterates_are_those_of_one_machine_on_every_network(network, nodes, seed, step, stored):
    X, y = table(14, 3, seed)
    problem = co.KernelSVM(co.RBF(0.7), 5.0)
    fed = co.Federation.split(stored(X), y, parties=nodes, by="rows")
    alone = co.Federation.split(stored(X), y, parties=1, by="rows")
    told = {"rounds": 12, "tolerance": 1e-12, "step": step}
    graph = co.fit(fed, problem, co.DistributedFrankWolfe(topology=NETWORKS[network](nodes), **told))
    star, one = (co.fit(f, problem, co.DistributedFrankWolfe(**told)) for f in (fed, alone))
    for fit, of in ((star, fed), (one, alone)):
        np.testing.assert_array_equal(weights(fit, of), weights(graph, fed))
        assert (fit.objective, fit.gap, fit.status) == (graph.objective, graph.gap, graph.status)
        assert fit.history["gap"].to_list() == graph.history["gap"].to_list()


def test_an_example_travels_up_once_and_sparse():
    X = sparse.csc_array((np.ones(6), (range(6), range(6))), shape=(6, 3000))
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    fed = co.Federation.split(X, y, parties=3, by="rows")
    fit = co.fit(fed, co.KernelSVM(co.RBF(0.1), 10.0), co.DistributedFrankWolfe(40, 0.0, co.LineSearch()))
    sent = fit.communication.by("type").filter(type="Example")
    assert sent["messages"][0] == 6
    assert sent["numbers"][0] == 6 * 2 * 2  # a feature and the label, each with its place
    assert sent["bytes"][0] < 6 * 100


def test_what_a_node_keeps_of_kernel_values_changes_the_work_and_no_bit_of_the_answer(monkeypatch):
    """By default an example's values are made once, however many rounds change its weight; without room, in every round."""
    X, y = table(24)
    fed = co.Federation.split(X, y, parties=3, by="rows")
    made, values = [], kernel_svm.Examples._values
    monkeypatch.setattr(kernel_svm.Examples, "_values", lambda *given: made.append(1) or values(*given))
    found = {}
    for room in (kernel_svm.KEPT, 3 * 8, 0):
        monkeypatch.setattr(kernel_svm, "KEPT", room)
        made.clear()
        fit = co.fit(fed, co.KernelSVM(co.RBF(0.5), 10.0), co.DistributedFrankWolfe(12, 0.0))
        found[room] = weights(fit, fed).tolist(), fit.gap, len(made)
    assert len({(str(alpha), gap) for alpha, gap, _ in found.values()}) == 1
    chosen = sum(1 for weight in found[0][0] if weight > 0)
    most, some, none = (count for *_, count in found.values())
    assert 3 * chosen <= most <= 3 * 12
    assert most < some < none


def test_a_node_holds_a_few_numbers_an_example_and_no_table_of_kernel_values():
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    fed = co.Federation.split(X, y, parties=4, by="rows")
    problem, method = co.KernelSVM(co.RBF(1.0), 1.0), co.DistributedFrankWolfe(30, 0.0, co.LineSearch())
    co.fit(fed, problem, co.DistributedFrankWolfe(1))  # compile
    tracemalloc.start()
    co.fit(fed, problem, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Labels, gradient, norms, products, one column, weights, and copies of some on the way out; 30 columns would be
    # 240.
    assert peak < 20_000 * 8 * 20


# ---------------------------------------------------------------- using it


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("stored", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("topology", [None, T.line(3)])
def test_scores_of_new_rows_are_the_weighted_kernel_values_of_the_support(stored, topology, tmp_path):
    X, y = table(30)
    new, _ = table(11, seed=5)
    fed = co.Federation.split(stored(X), y, parties=3, by="rows")
    fit = co.fit(fed, co.KernelSVM(co.RBF(0.5), 10.0), co.DistributedFrankWolfe(tolerance=1e-3, topology=topology))
    alpha = weights(fit, fed)
    wanted = (rbf_kernel(new, X, gamma=0.5) + 1.0) @ (alpha * y)
    fit.save(tmp_path / "fit.json")
    for model in (fit, co.load(tmp_path / "fit.json")):
        for data in (
            co.Federation.split(stored(new), None, parties=2),
            co.Federation.split(new, None, parties={"b": [2, 0], "a": [1]}),
            co.Federation.split(stored(new), None, parties={"x": [10, *range(9)], "y": [9]}, by="rows"),
        ):
            np.testing.assert_allclose(model.scores(data), wanted, atol=1e-12)
    np.testing.assert_array_equal(
        np.where(wanted >= 0, 1.0, -1.0), fit.predict(co.Federation.split(new, None, parties=1))
    )
    assert sorted(fit.coreset["weight"]) == sorted(alpha[alpha > 0])
    assert {f"row {i}" for i in np.flatnonzero(alpha)} == set(fit.coreset["name"])


def test_a_frame_is_scored_as_it_was_encoded():
    import polars as pl

    X, y = table(20)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": ["u", "v"] * 10})
    fit = co.fit(co.Federation.split(frame, y, parties=2, by="rows"), co.KernelSVM(co.RBF(1.0)))
    assert fit.scores(frame).shape == (20,)
    np.testing.assert_array_equal(fit.scores(frame)[3:7], fit.scores(frame[3:7]))


def test_new_rows_of_another_width_are_refused():
    X, y = table()
    fit = co.fit(co.Federation.split(X, y, parties=2, by="rows"), co.KernelSVM(co.RBF(1.0)))
    with pytest.raises(co.InvalidInput, match="2 columns; the model was fitted on 3"):
        fit.scores(co.Federation.split(X[:, :2], None, parties=1))


def test_a_report_can_be_written(tmp_path):
    X, y = table()
    fit = co.fit(co.Federation.split(X, y, parties=2, by="rows"), co.KernelSVM(co.RBF(1.0)))
    assert "row " in fit.report(tmp_path / "r.html").read_text()


# ---------------------------------------------------------------- input that cannot be


def minus_distance(X, Z):
    return -((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)


def sine(X, Z):
    """Positive on the diagonal, and larger off it."""
    return 1.0 + np.abs(X.sum(axis=1)[:, None] - Z.sum(axis=1)[None, :])


def slightly_indefinite(X, Z):
    """Passes every test of two examples; three of them give a negative eigenvalue."""
    apart = np.abs(X[:, :1] - Z[:, :1].T)
    return np.where(apart < 0.5, 1.0, np.where(apart < 1.5, 0.95, -0.95))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("topology", [None, T.line(2)])
@pytest.mark.parametrize("kernel", [minus_distance, sine, lambda X, Z: -(X @ Z.T)])
def test_a_kernel_that_is_not_positive_is_refused(kernel, topology, step):
    X, y = table()
    fed = co.Federation.split(X, y, parties=2, by="rows")
    with pytest.raises(co.InvalidInput, match=r"not positive.*co\.RBF"):
        co.fit(fed, co.KernelSVM(kernel, 1e6), co.DistributedFrankWolfe(50, 0.0, step, topology))


@pytest.mark.parametrize("topology", [None, T.line(3)])
def test_a_kernel_whose_fault_no_pair_of_examples_shows_is_refused_once_three_are_chosen(topology):
    """x = 0, 1, 2: values .95, .95 and −.95 off the diagonal have eigenvalue −.7."""
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    assert np.linalg.eigvalsh(slightly_indefinite(X, X)).min() < -0.5
    fed = co.Federation.split(X, y, parties=3, by="rows")
    with pytest.raises(co.InvalidInput, match="not positive"):
        co.fit(fed, co.KernelSVM(slightly_indefinite, 0.5), co.DistributedFrankWolfe(50, 0.0, co.OpenLoop(), topology))


def test_what_no_positive_kernel_can_give_is_told_from_its_roundings():
    """Cauchy and Schwarz: k(x, z)² is at most k(x, x)·k(z, z); a table has no eigenvalue below 0 and two equal halves."""
    check_positive(np.array([2.0, -6.0]), np.array([1.0, 9.0]), 4.0)
    check_positive(np.array([2.0 * (1.0 + 1e-10)]), np.array([1.0]), 4.0)
    check_positive(np.zeros(1), np.zeros(1), 0.0)
    broken = [
        ([2.1, 0.0], [1.0, 9.0], 4.0),
        ([0.0, 6.1], [1.0, 9.0], 4.0),
        ([0.0], [1.0], -1.0),
        ([-1.0], [-2.0], -3.0),
    ]
    for column, diagonal, own in broken:
        with pytest.raises(co.InvalidInput, match="not positive"):
            check_positive(np.array(column), np.array(diagonal), own)
    # Three eigenvalues of -1e-13: below 0 beyond the rounding (2e-15) of any processor's library, within that of sums.
    rounded = np.outer(*[np.array([0.1, 0.7, -1.3, 2.9])] * 2) - 1e-13 * np.eye(4)
    assert np.linalg.eigvalsh(rounded)[0] < 0.0
    check_table(rounded)
    for table_ in ([[1.0, 0.5], [0.4, 1.0]], [[1.0, 1.1], [1.1, 1.0]]):
        with pytest.raises(co.InvalidInput, match="not positive"):
            check_table(np.array(table_))


def test_rows_are_scored_block_by_block_as_all_at_once(monkeypatch):
    """Five rows in blocks of two: Σ α·y·(x·z + 1) by hand."""
    monkeypatch.setattr(kernel, "ROWS_AT_ONCE", 2)
    support = kernel.Support(np.array([[1.0], [3.0]]), np.array([1.0, -1.0]), np.array([0.75, 0.25]))
    rows = np.array([[0.0], [1.0], [2.0], [-4.0], [8.0]])
    assert support.scores(linear, rows) == pytest.approx(np.full(5, 0.5))  # .75·z − .25·3·z + .75 − .25
    assert support.scores(lambda X, Z: (X @ Z.T) ** 2, rows[2:]) == pytest.approx(
        [0.5 - 1.5 * z * z for z in (2, 4, 8)]
    )


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (lambda X, Z: np.ones(3), "one value for each pair"),
        (lambda X, Z: np.ones((X.shape[0], Z.shape[0] + 1)), "one value for each pair"),
        (lambda X, Z: np.full((X.shape[0], Z.shape[0]), math.nan), "NaN or infinite"),
        (lambda X, Z: np.full((X.shape[0], Z.shape[0]), math.inf), "NaN or infinite"),
    ],
)
def test_a_kernel_that_gives_no_table_of_numbers_is_refused(kernel, advice):
    X, y = table()
    with pytest.raises(co.InvalidInput, match=advice):
        co.fit(co.Federation.split(X, y, parties=2, by="rows"), co.KernelSVM(kernel))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: co.KernelSVM("rbf"), r"co\.RBF\(gamma\) or a function"),
        (lambda: co.KernelSVM(co.RBF), r"co\.RBF\(gamma\) or a function"),
        (lambda: co.KernelSVM(co.RBF(1.0), C=0.0), "C must be a finite number above 0"),
        (lambda: co.RBF(-1.0), "gamma must be a finite number above 0"),
    ],
)
def test_a_problem_that_cannot_be_is_refused(make, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        make()


def test_three_classes_are_refused_and_what_the_refusal_advises_tells_them_apart():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 20)
    X = 0.3 * rng.normal(size=(60, 2)) + np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[classes]
    machine = co.KernelSVM(co.RBF(1.0), 10.0)
    with pytest.raises(co.InvalidInput, match=r"3 different labels.*learn two classes.*each class against the rest"):
        co.fit(co.Federation.split(X, classes, parties=3, by="rows"), machine)
    scores = []
    for one in range(3):
        fed = co.Federation.split(X, np.where(classes == one, 1.0, -1.0), parties=3, by="rows")
        scores.append(co.fit(fed, machine).scores(fed))
    assert np.mean(np.argmax(scores, axis=0) == classes) >= 0.95


def test_two_labels_that_are_no_signs_are_to_be_mapped():
    X, y = table()
    with pytest.raises(co.InvalidInput, match=r"map the two classes to -1 and \+1\.$"):
        co.fit(co.Federation.split(X, y + 3.0, parties=2, by="rows"), co.KernelSVM(co.RBF(1.0)))


def test_columns_split_over_parties_are_refused_with_what_to_do():
    X, y = table()
    with pytest.raises(co.InvalidInput, match="by='rows'"):
        co.fit(co.Federation.split(X, y, parties=2), co.KernelSVM(co.RBF(1.0)))


def test_a_method_for_linear_models_refuses_a_kernel_machine():
    X, y = table()
    fed = co.Federation.split(X, y, parties=1, label="party0")
    with pytest.raises(co.InvalidInput, match=r"does not solve a KernelSVM.*DistributedFrankWolfe"):
        co.fit(fed, co.KernelSVM(co.RBF(1.0)), co.CentralFrankWolfe(rounds=2))


def test_a_fit_with_a_function_of_the_user_cannot_be_saved_and_a_store_says_so_first(tmp_path):
    X, y = table()
    fed = co.Federation.split(X, y, parties=2, by="rows")
    with pytest.raises(co.InvalidInput, match="leave store out"):
        co.fit(fed, co.KernelSVM(linear), store=tmp_path)
    with pytest.raises(co.InvalidInput, match="cannot be saved"):
        co.fit(fed, co.KernelSVM(linear)).save(tmp_path / "fit.json")


def test_equal_examples_with_equal_and_with_opposite_labels_do_no_harm():
    X = np.array([[0.0, 1.0]] * 4 + [[0.0, 0.0]] * 2)
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    for step in STEPS:
        fed = co.Federation.split(X, y, parties=3, by="rows")
        fit = co.fit(fed, co.KernelSVM(co.RBF(1.0), 10.0), co.DistributedFrankWolfe(100, 0.0, step))
        best = optimum(dual_matrix(X, y, co.RBF(1.0), 10.0))
        assert -1e-7 <= fit.objective - best <= fit.gap + 1e-7


def test_a_strict_party_refuses_before_anything_is_sent():
    X, y = table()
    tap = co.Tap(co.InProcess())
    fed = co.Federation.split(X, y, parties=2, by="rows", policies={"party1": co.Policy(exact=False)})
    with pytest.raises(co.PolicyRefused, match=r"every example that wins a round.*Nothing was sent"):
        co.fit(fed, co.KernelSVM(co.RBF(1.0)), engine=tap)
    assert tap.letters == []


def released(value):
    return gate().exact(value)


LIES = {
    "an example of another width": (Example, lambda m: Example(released(np.ones(9)))),
    "a label that is no class": (Example, lambda m: Example(released(np.array([0.0, 0.0, 0.0, 3.0])))),
    "an example past the block": (Bid, lambda m: Bid(released(99), m.score)),
    "a score that is no number": (Bid, lambda m: Bid(m.index, released(math.nan))),
    "a step towards an example never sent": (Towards, lambda m: Towards(m.new, 99, m.step)),
    "too many weights": (Weigh, lambda m: Weigh(m.new, np.ones(99))),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_ends_the_run_with_an_error_of_ours(lie):
    kind, other = LIES[lie]

    def fault(letter):
        message = decode(letter.body)
        if type(message) is not kind:
            return (letter,)
        body = encode(other(message), guarded=False)
        return (Letter(letter.sender, letter.receiver, letter.sequence, letter.round, body),)

    X, y = table()
    step = co.LineSearch() if kind is Towards else co.Corrective()
    with pytest.raises((co.ProtocolError, co.InvalidInput)):
        co.fit(
            co.Federation.split(X, y, parties=2, by="rows"),
            co.KernelSVM(co.RBF(1.0)),
            co.DistributedFrankWolfe(5, 0.0, step),
            engine=co.Faults(co.InProcess(), fault),
        )
