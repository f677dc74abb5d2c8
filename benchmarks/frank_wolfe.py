"""Distributed Frank-Wolfe on real data to a relative gap of 1e-3, beside one machine with all columns.

Same objective for both. The one-machine baseline is a path: scikit-learn solves the penalised form, so its penalty is
bisected until the l1 norm of the answer is the radius (Lasso for least squares, liblinear for logistic), and both the
time of the whole search and that of its last fit alone are printed. Relative gap: the certified gap over the objective at
zero, for both, computed from the coefficients by the same formula.

Also: what travels for a given gap on star, tree and graph, beside the paper's baselines at the same number of columns; kernel
machines over 10 to 1,000 nodes; what a round costs beside one product with the whole table. `main(quick=False)` has the papers' sizes.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

import colonnade as co
from benchmarks.timing import data_folder
from colonnade.kernels.columns import csc_rmatvec
from papers.baselines import local_coresets, random_atoms

GAP = 1e-3


def relative_gap(problem: co.Problem, X: Any, y: np.ndarray, x: np.ndarray) -> float:
    scores = np.asarray(X @ x)
    gradient = np.asarray(X.T @ problem.loss.slope(scores, y))
    assert problem.constraint is not None
    return problem.constraint.gap(x, gradient) / problem.loss.value(np.zeros(y.size), y)


def bisected(
    fit: Callable[[float], np.ndarray], radius: float, low: float, high: float
) -> tuple[np.ndarray, float, float, int]:
    """The penalty whose answer has l1 norm `radius`: the answer, seconds in all, seconds of the last fit, fits."""
    began = time.perf_counter()
    x, last, fits = np.zeros(0), 0.0, 0
    for fits in range(1, 41):  # noqa: B007  the count is part of the result
        middle = float(np.sqrt(low * high))
        start = time.perf_counter()
        x = fit(middle)
        last = time.perf_counter() - start
        norm = float(np.abs(x).sum())
        if abs(norm / radius - 1.0) < 1e-3:
            break
        low, high = (middle, high) if norm > radius else (low, middle)
    return x * min(1.0, radius / max(float(np.abs(x).sum()), 1e-300)), time.perf_counter() - began, last, fits


def compare(name: str, X: Any, y: np.ndarray, problem: co.Problem, parties: int, baseline: Callable[[], Any]) -> None:
    tolerance = GAP * problem.loss.value(np.zeros(y.size), y)
    federation = co.Federation.split(X, y, parties=parties)
    print(f"{name}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} nonzeros, {parties} parties, {problem.constraint}")
    co.fit(federation, problem, co.DistributedFrankWolfe(rounds=2, tolerance=0.0))  # compile
    began = time.perf_counter()
    fit = co.fit(federation, problem, co.DistributedFrankWolfe(rounds=5000, tolerance=tolerance))
    ours = time.perf_counter() - began
    gap = relative_gap(problem, X, y, np.concatenate(list(fit.coefficients.values())))
    sent = fit.communication
    print(
        f"  distributed Frank-Wolfe  {ours:8.2f} s  relative gap {gap:.1e}  {len(fit.notes)} rounds  "
        f"{sent.messages:,} messages  {sent.bytes / 1e6:.2f} MB  (all columns raw: {X.nnz * 12 / 1e6:.1f} MB)"
    )
    x, total, last, fits = baseline()
    gap = relative_gap(problem, X, y, x)
    print(f"  one machine, path of {fits:2} fits {total:8.2f} s (last fit {last:.2f} s)  relative gap {gap:.1e}")
    print(f"  ratio: {ours / total:.1f}x the path's time, {ours / last:.1f}x its last fit's")


def dorothea_table() -> tuple[Any, np.ndarray] | None:
    folder = data_folder("dorothea")
    if folder is None:
        return None
    X = sparse.csc_array(sparse.load_npz(folder / "X_train.npz"), dtype=np.float64)
    return X, np.load(folder / "y_train.npy").astype(np.float64)


def dorothea(radius: float) -> None:
    table = dorothea_table()
    if table is None:
        return
    from sklearn.linear_model import Lasso

    X, y = table

    def lasso(alpha: float) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Lasso(alpha=alpha, fit_intercept=False, max_iter=2000, tol=1e-5)
            return np.asarray(model.fit(X, y).coef_)

    top = float(np.abs(X.T @ y).max()) / y.size
    problem = co.Problem(co.LeastSquares(), co.L1Ball(radius))
    compare("dorothea, lasso", X, y, problem, 100, lambda: bisected(lasso, radius, 1e-5 * top, top))


def rcv1(radius: float) -> None:
    folder = data_folder("rcv1")
    if folder is None:
        return
    from sklearn.linear_model import LogisticRegression

    X = sparse.csr_array(sparse.load_npz(folder / "X.npz"), dtype=np.float64)
    y = np.load(folder / "y.npy").astype(np.float64)
    X, y = sparse.csc_array(X[y != 0]), y[y != 0]

    def liblinear(alpha: float) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(
                l1_ratio=1.0, C=1.0 / (alpha * y.size), solver="liblinear", fit_intercept=False, tol=1e-4
            )
            return np.asarray(model.fit(sparse.csr_matrix(X), y).coef_).ravel()

    top = float(np.abs(X.T @ y).max()) / (2 * y.size)
    problem = co.Problem(co.Logistic(), co.L1Ball(radius))
    compare("rcv1, logistic", X, y, problem, 8, lambda: bisected(liblinear, radius, 1e-4 * top, top))


# ------------------------------------------------------------------------------------------------ what travels


def traffic(radius: float, nodes: int = 100, rounds: int = 100) -> None:
    """Objective against what travelled: three networks, and the paper's baselines at the same number of columns."""
    table = dorothea_table()
    if table is None:
        return
    X, y = table
    problem = co.Problem(co.LeastSquares(), co.L1Ball(radius))
    federation = co.Federation.split(X, y, parties=nodes, label="party0")
    start = problem.loss.value(np.zeros(y.size), y)
    print(
        f"dorothea, lasso, beta = {radius:g}, {nodes} nodes: numbers (MB) that travel until the gap is so much of the start"
    )
    networks: dict[str, co.Topology | None] = {
        "star": None,
        "tree": co.Topology.tree(nodes),
        "graph, degree 4": co.Topology.random(nodes, degree=4),
    }
    fits = {
        name: co.fit(federation, problem, co.DistributedFrankWolfe(rounds, 0.0, co.LineSearch(), topology))
        for name, topology in networks.items()
    }
    for share in (0.5, 0.2, 0.1):
        shown = []
        for name, fit in fits.items():
            try:
                sent = fit.communication.to_reach(share * start)
                shown.append(f"{name} {sum(sent.numbers):,} ({sent.bytes / 1e6:.2f}), {sent.rounds} rounds")
            except co.InvalidInput:
                shown.append(f"{name}: not in {rounds} rounds")
        print(f"  {share:4.2f}  {';  '.join(shown)}")
    baselines(problem, X, y, fits["star"], nodes)


def baselines(problem: co.Problem, X: Any, y: np.ndarray, fit: co.Fit, nodes: int) -> None:
    A = X.toarray()
    parts = [part.tolist() for part in np.array_split(np.arange(X.shape[1]), nodes)]
    corrective = co.fit(co.Federation.split(X, y, parties=nodes), problem, co.DistributedFrankWolfe(100, 1e-12))
    print("  objective once so many columns have left:")
    for columns in (10, 30, 100):
        drawn = [random_atoms(problem, A, y, columns, seed).objective for seed in range(3)]
        ours = [objective_after(f, columns) for f in (fit, corrective)]
        print(
            f"  {columns:4} columns: line search {ours[0]:.4f}, corrective {ours[1]:.4f}, random atoms "
            f"{np.mean(drawn):.4f} (3 draws)"
        )
    each = local_coresets(problem, A, y, parts, 1).objective
    print(f"  {nodes:4} columns: local coresets, one column a node {each:.4f}")


def objective_after(fit: co.Fit, columns: int) -> float:
    """The objective when so many columns had been sent up, or at the end."""
    atoms = fit.communication.by("type", "round").to_dicts()
    sent, last = 0, fit.communication.rounds
    for line in sorted((line for line in atoms if line["type"] == "Atom"), key=lambda line: line["round"]):
        sent += line["messages"]
        if sent >= columns:
            last = line["round"]
            break
    later = [note["objective"] for note in fit.notes if note["round"] > last + 1]
    if later:
        return float(later[0])
    assert fit.objective is not None
    return fit.objective


# ------------------------------------------------------------------------------------------------ one round


def one_round(nodes: int = 100, rounds: int = 50) -> None:
    """A round's time beside one product with the whole table and the cost of the same messages over empty columns."""
    table = dorothea_table()
    if table is None:
        return
    X, y = table
    problem = co.Problem(co.LeastSquares(), co.L1Ball(16.0))
    method = co.DistributedFrankWolfe(rounds, 0.0, co.LineSearch())
    full = co.Federation.split(X, y, parties=nodes)
    empty = co.Federation.split(sparse.csc_array(X.shape), y, parties=nodes)
    out, r = np.empty(X.shape[1]), y / y.size
    once = co.DistributedFrankWolfe(1, 0.0, co.LineSearch())
    product = timed(lambda: [csc_rmatvec(X.data, X.indices, X.indptr, r, out) for _ in range(20)]) / 20

    def per_round(federation: co.Federation) -> float:
        whole, start = (timed(partial(co.fit, federation, problem, m)) for m in (method, once))
        return (whole - start) / (rounds - 1)

    ours, messages = per_round(full), per_round(empty)
    ratio = ours / (product + messages)
    print(
        f"dorothea, {nodes} nodes: a round {1e3 * ours:.2f} ms; one product with all of A {1e3 * product:.2f} ms plus the "
        f"same messages over empty columns {1e3 * messages:.2f} ms; ratio {ratio:.2f} (bar 2)"
    )


def timed(work: Callable[[], Any], repeats: int = 3) -> float:
    """Least CPU time of a call: other work on the machine only adds."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def corrective_a9a(rounds: int = 80) -> None:
    """Rounds with a corrective step on dense columns, beside one product with the table a round."""
    folder = data_folder("a9a")
    if folder is None:
        return
    parts = ("train", "test")
    X = sparse.vstack([sparse.load_npz(folder / f"X_{part}.npz") for part in parts]).toarray().astype(np.float64)
    y = np.concatenate([np.load(folder / f"y_{part}.npy") for part in parts]).astype(np.float64)
    problem = co.Problem(co.Logistic(), co.L1Ball(20.0), intercept=True)
    federation = co.Federation.split(X, y, parties=2)
    co.fit(federation, problem, co.DistributedFrankWolfe(2, 0.0))  # compile
    cpu = time.process_time()
    fit = co.fit(federation, problem, co.DistributedFrankWolfe(rounds, 0.0))
    cpu = time.process_time() - cpu
    scores = np.zeros(y.size)
    with threadpool_limits(limits=1):
        plain = timed(lambda: X.T @ problem.loss.slope(scores, y)) * rounds
    print(
        f"a9a, logistic, {rounds} corrective rounds: {cpu:.1f} s of CPU, objective {fit.objective:.10f}, gap {fit.gap:.1e}; "
        f"{rounds} times the slope of all rows and its product with the table, in one place by BLAS: {plain:.1f} s ({cpu / plain:.1f} x)"
    )


# ------------------------------------------------------------------------------------------------ kernel machines


def kernel_a9a(nodes: int, rounds: int = 200) -> None:
    folder = data_folder("a9a")
    if folder is None:
        return
    from sklearn.metrics import roc_auc_score

    X = sparse.csc_array(sparse.load_npz(folder / "X_train.npz"), dtype=np.float64)
    y = np.load(folder / "y_train.npy").astype(np.float64)
    test = sparse.csc_array(sparse.load_npz(folder / "X_test.npz"), dtype=np.float64)
    held_out = np.load(folder / "y_test.npy")
    test.resize((test.shape[0], X.shape[1]))
    problem, federation = co.KernelSVM(co.RBF(0.05), 1.0), co.Federation.split(X, y, parties=nodes, by="rows")
    co.fit(federation, problem, co.DistributedFrankWolfe(1, 0.0, co.LineSearch()))  # compile
    wall, cpu = time.perf_counter(), time.process_time()
    fit = co.fit(federation, problem, co.DistributedFrankWolfe(rounds, 0.0, co.LineSearch()))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    auc = roc_auc_score(held_out, fit.scores(co.Federation.split(test, None, parties=1)))
    print(
        f"a9a, kernel SVM, {y.size:,} examples, {nodes:,} nodes, {rounds} rounds: {wall:.1f} s ({cpu:.1f} s of CPU; bar 30), objective "
        f"{fit.objective:.5f}, gap {fit.gap:.2e}, {fit.communication.bytes / 1e6:.1f} MB, held-out AUC {auc:.3f}"
    )


def kernel_million(examples: int = 1_000_000, nodes: int = 100, rounds: int = 100) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(examples, 10))
    y = np.where((X[:, :3] ** 2).sum(axis=1) > 2.4, 1.0, -1.0)
    federation = co.Federation.split(X, y, parties=nodes, by="rows")
    problem = co.KernelSVM(co.RBF(0.2), 10.0)
    wall = time.perf_counter()
    fit = co.fit(federation, problem, co.DistributedFrankWolfe(rounds, 0.0, co.LineSearch()))
    wall = time.perf_counter() - wall
    tracemalloc.start()  # all that a run allocates on top of the data, NumPy's arrays included
    co.fit(federation, problem, co.DistributedFrankWolfe(5, 0.0, co.LineSearch()))
    more = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"{examples:,} synthetic examples, {nodes} nodes, {rounds} rounds: {wall:.1f} s, gap {fit.gap:.2e}, peak memory over that of the "
        f"data {more / 1e6:.0f} MB = {more / examples:.0f} bytes an example (one column of kernel values: 8; a table of them: {8 * examples:,})"
    )


def main(quick: bool = True) -> int:
    dorothea(4.0)
    rcv1(100.0)
    traffic(4.0)
    one_round()
    corrective_a9a()
    for nodes in (10, 100) if quick else (10, 100, 1000):
        kernel_a9a(nodes)
    if not quick:
        dorothea(16.0)
        rcv1(500.0)
        for radius in (16.0, 24.0):
            traffic(radius)
        kernel_million()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
