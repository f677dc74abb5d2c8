"""Sparse Frank-Wolfe on one machine: ours against named baselines, in the same run, on one core.

    python -m benchmarks.sparse            the papers' shapes, rows scaled to memory (about half an hour)
    python -m benchmarks.sparse --quick    RCV1's and News20's shapes (about three minutes)

Data are generated here with the shapes of the paper's tables; real data are read from $COLONNADE_DATA. Algorithm 1 is
timed over a few steps and scaled, in two builds (strict sums and fast-math), of which the faster counts; it picks by
plain argmax, so that no private selection is charged to it. Times are CPU seconds, compilation excluded and shown apart.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from colonnade.kernels.lazy import lazy_picks
from colonnade.kernels.lazy_corrective import corrective_fit
from colonnade.kernels.samplers import Counts, exact_picks
from colonnade.kernels.sparse_fw import Loss, argmax_picks, model_of_picks
from colonnade.kernels.sparse_fw_published import published_big_step_little_step, published_noisy_max
from colonnade.kernels.stream import fill_words, system_stream

RADIUS = 50.0
ROUNDS = 4_000
DELTA = 1e-6
BASELINE_STEPS = 50


class Shape(NamedTuple):
    rows: int
    columns: int
    per_row: int
    head: float  # rank at which column popularity starts to fall
    values: str
    dense: int = 0


SHAPES = {
    "rcv1": Shape(20_242, 47_236, 80, 60.0, "text"),
    "news20": Shape(19_996, 1_355_191, 455, 150.0, "text"),
    "url": Shape(400_000, 3_231_961, 48, 100.0, "binary", dense=67),
    "web": Shape(35_000, 16_609_143, 3_728, 4_000.0, "text"),
    "kdda": Shape(1_500_000, 20_216_830, 36, 100.0, "equal"),
}
# SPEED bars: times faster than Algorithm 1 at epsilon = 1 with CSC given, and with conversion charged to both
BARS = {"rcv1": (1_000, 190), "news20": (15_000, 600), "kdda": (10_000, 800), "web": (20_000, None), "url": (250, 165)}


class Data(NamedTuple):
    name: str
    csc: sp.csc_matrix
    csr: sp.csr_matrix
    y: np.ndarray
    conversion: float  # CPU seconds from CSR to CSC
    bound: float  # the largest value: fine for timing, but a real bound is public

    @property
    def columns(self) -> tuple[Any, Any, Any]:
        return self.csc.data, self.csc.indices, self.csc.indptr

    @property
    def rows(self) -> tuple[Any, Any, Any]:
        return self.csr.data, self.csr.indices, self.csr.indptr


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def generate(name: str, seed: int = 1) -> Data:
    """Log-uniform column ranks (a text-like tail), log-normal row lengths, labels from a sparse model."""
    shape = SHAPES[name]
    rng = np.random.default_rng(seed)
    length = np.clip(shape.per_row * np.exp(0.5 * rng.standard_normal(shape.rows) - 0.125), 3, 8 * shape.per_row)
    length = (1.1 * length).astype(np.int64)  # a tenth is lost to columns drawn twice
    indptr = np.concatenate([[0], np.cumsum(length)])
    spread = math.log(shape.columns / shape.head + 1.0)
    rank = (shape.head * np.expm1(spread * rng.random(indptr[-1], dtype=np.float32))).astype(np.int64)
    rank = np.minimum(rank, shape.columns - 1).astype(np.int32)
    place = rng.permutation(shape.columns).astype(np.int32)
    value = (
        np.log1p(rank / shape.head + 0.5).astype(np.float32)
        if shape.values == "text"
        else np.ones(rank.size, np.float32)
    )
    X = sp.csr_matrix((value, place[rank], indptr), shape=(shape.rows, shape.columns))
    del rank, value
    X.sum_duplicates()
    if shape.values == "binary":
        X.data[:] = 1.0
        block = sp.csr_matrix(rng.random((shape.rows, shape.dense), dtype=np.float32))
        X = sp.hstack([block, X[:, shape.dense :]], format="csr")
    else:
        norm = np.sqrt(np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1]))
        X.data /= np.repeat(norm, np.diff(X.indptr)).astype(np.float32)
    truth = np.zeros(shape.columns)
    truth[place[rng.integers(0, 20_000, 200)]] = 3.0 * rng.standard_normal(200)
    truth[: shape.dense] = 2.0 * rng.standard_normal(shape.dense)
    margin = X @ truth
    margin = 4.0 * (margin - np.median(margin)) / (margin.std() + 1e-12)
    y = np.where(rng.random(shape.rows) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    conversion, csc = seconds(X.tocsc)
    return Data(name, csc, X, y, conversion, float(np.abs(csc.data).max()))


def real(name: str) -> tuple[sp.csr_matrix, np.ndarray] | None:
    root = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    folder = root / name
    if not (folder / "X.npz").exists():
        print(f"{name}: skipped, no {folder / 'X.npz'}; set COLONNADE_DATA to the folder that holds it")
        return None
    X = sp.load_npz(folder / "X.npz").tocsr()
    y = np.load(folder / "y.npy").astype(np.float64)
    keep = y != 0
    return X[keep], np.where(y[keep] > 0, 1.0, -1.0)


def rho_of(epsilon: float, delta: float = DELTA) -> float:
    """The zCDP that (epsilon, delta) buys: bisection on the conversion by Rényi orders."""
    order = 1.0 + np.logspace(-3, 6, 2_000)

    def log_delta(rho: float) -> float:
        exponent = (order - 1.0) * (order * rho - epsilon) + order * np.log1p(-1.0 / order) - np.log(order - 1.0)
        return float(exponent.min())

    low, high = 0.0, 100.0
    for _ in range(100):
        mid = 0.5 * (low + high)
        low, high = (mid, high) if log_delta(mid) <= math.log(delta) else (low, mid)
    return low


def scale_of(epsilon: float, rounds: int, bound: float) -> float:
    """c = 1/b, b = 2·bound·√(rounds/(2·rho))."""
    return 1.0 / (2.0 * bound * math.sqrt(rounds / (2.0 * rho_of(epsilon))))


@njit(fastmath=True, error_model="numpy")
def _fast_algorithm_1(data: Any, indices: Any, indptr: Any, y: Any, radius: float, rounds: int) -> Any:
    """Algorithm 1 with every liberty that fast-math gives."""
    v = np.zeros(y.size)
    q = np.empty(y.size)
    last = 0
    for t in range(1, rounds + 1):
        for i in range(y.size):
            q[i] = -y[i] / (1.0 + math.exp(y[i] * v[i]))
        best, last, s = -1.0, 0, 1.0
        for k in range(indptr.size - 1):
            total = 0.0
            for z in range(indptr[k], indptr[k + 1]):
                total += data[z] * q[indices[z]]
            if abs(total) > best:
                best, last, s = abs(total), k, math.copysign(1.0, total)
        eta = 2.0 / (t + 2.0)
        for i in range(y.size):
            v[i] *= 1.0 - eta
        for z in range(indptr[last], indptr[last + 1]):
            v[indices[z]] -= eta * radius * s * data[z]
    return last


def algorithm_1(data: Data, steps: int) -> float:
    """CPU seconds a step of the faster build."""
    strict, _ = seconds(lambda: argmax_picks(*data.columns, data.y, loss=Loss.LOGISTIC, radius=RADIUS, rounds=steps))
    _fast_algorithm_1(*data.columns, data.y, RADIUS, 1)
    fast, _ = seconds(lambda: _fast_algorithm_1(*data.columns, data.y, RADIUS, steps))
    return min(strict, fast) / steps


def ours(data: Data, scale: float, rounds: int = ROUNDS) -> tuple[float, Counts]:
    def job() -> Any:
        return exact_picks(
            *data.columns,
            data.y,
            loss=Loss.LOGISTIC,
            radius=RADIUS,
            rounds=rounds,
            scale=scale,
            feature_bound=data.bound,
            stream=system_stream(),
        )

    repeats = [seconds(job) for _ in range(3)]
    return float(np.median([t for t, _ in repeats])), repeats[-1][1][1]


def warm_up() -> None:
    """Compiles everything outside the clock and says how long that took."""
    start = time.perf_counter()
    rng = np.random.default_rng(0)
    X = sp.random(200, 300, 0.05, format="csr", dtype=np.float32, random_state=0)
    data = Data("tiny", X.tocsc(), X, rng.choice([-1.0, 1.0], 200), 0.0, 1.0)
    ours(data, 0.1, 10)
    exact = time.perf_counter() - start
    algorithm_1(data, 2)
    for run in (published_noisy_max, published_big_step_little_step):
        run(data.columns, data.rows, data.y, radius=1.0, rounds=2, scale=0.1, stream=system_stream())
    lazy_picks(*data.columns, data.y, loss=Loss.LOGISTIC, radius=1.0, rounds=2)
    corrective_fit(*data.columns, data.y, loss=Loss.LOGISTIC, radius=1.0, passes=2)
    words = np.empty(1_000_000, dtype=np.uint64)
    stream = system_stream()
    fill_words(stream, words)
    took, _ = seconds(lambda: fill_words(stream, words))
    print(f"compile or load from cache: exact sampler {exact:.2f} s, everything {time.perf_counter() - start:.2f} s")
    print(f"ChaCha20 stream: {took * 1e3:.1f} ns a 64-bit word")


def private_table(data: Data) -> bool:
    """Ours against Algorithm 1 and against the published scheme; returns whether the bars at epsilon = 1 are met."""
    steps = BASELINE_STEPS if data.csc.nnz < 2e7 else 10
    step = algorithm_1(data, steps)
    n, d = data.csc.shape
    print(
        f"\n{data.name}: {n:,} x {d:,}, {data.csc.nnz:,} stored; Algorithm 1 {step * 1e3:.2f} ms a step ({steps} timed)"
    )
    met = True
    for epsilon in (1.0, 0.1):
        scale = scale_of(epsilon, ROUNDS, data.bound)
        took, counts = ours(data, scale)
        few = 400 if data.csc.nnz < 2e7 else 40  # a dense pick costs it a pass over the whole matrix
        published, _ = seconds(
            lambda scale=scale, few=few: published_big_step_little_step(
                data.columns, data.rows, data.y, radius=RADIUS, rounds=few, scale=scale, stream=system_stream()
            )
        )
        published *= ROUNDS / few
        ratio = step * ROUNDS / took
        charged = (step * ROUNDS + data.conversion) / (took + data.conversion)
        line = f"  epsilon {epsilon:g}: ours {took:.4f} s, {ratio:,.0f}x Algorithm 1 ({charged:,.0f}x with conversion charged)"
        line += f", {published / took:,.1f}x Big-Step Little-Step; {counts.evaluations:,} evaluations, {counts.heavy:,} heavy"
        if epsilon == 1.0 and data.name in BARS:
            bar, bar_charged = BARS[data.name]
            met = ratio >= bar and (bar_charged is None or charged >= bar_charged) and published >= 6.0 * took
            line += f"; bars {bar:,}x, {bar_charged or '-'}x, 6x: {'met' if met else 'MISSED'}"
        print(line, flush=True)
    return met


def low_noise(data: Data, quick: bool) -> bool:
    """The regime where picks are far from uniform: the scale of epsilon = 1 times 10 to 10,000."""
    step = algorithm_1(data, BASELINE_STEPS)
    base = scale_of(1.0, ROUNDS, data.bound)
    rounds = ROUNDS
    print(f"\n{data.name}, less noise than epsilon = 1 buys ({rounds:,} rounds):")
    at_bar = 0.0
    for factor in (10, 100, 1_000, 10_000):
        took, counts = ours(data, base * factor, rounds)
        few = 40 if quick else 400
        published, _ = seconds(
            lambda factor=factor, few=few: published_big_step_little_step(
                data.columns, data.rows, data.y, radius=RADIUS, rounds=few, scale=base * factor, stream=system_stream()
            )
        )
        ratio = step * rounds / took
        at_bar = ratio  # the last, 10,000 times less noise, is the bar's
        print(
            f"  noise / {factor:,}: ours {took:.3f} s, {ratio:,.0f}x Algorithm 1, "
            f"{published * rounds / few / took:,.1f}x Big-Step Little-Step; {counts.evaluations:,} evaluations, "
            f"{counts.rebuilds:,} rebuilds, {counts.snapshots:,} snapshots",
            flush=True,
        )
    print(f"  bar 100x Algorithm 1 at a ten-thousandth of the noise: {'met' if at_bar >= 100 else 'MISSED'}")
    return at_bar >= 100


def not_private(data: Data, rounds: int) -> bool:
    """Lazy argmax: identical picks, and how much sooner."""
    check = min(rounds, 300)
    expected, _ = argmax_picks(*data.columns, data.y, loss=Loss.LOGISTIC, radius=RADIUS, rounds=check)
    step = algorithm_1(data, BASELINE_STEPS)
    took, (picks, gap) = seconds(
        lambda: lazy_picks(*data.columns, data.y, loss=Loss.LOGISTIC, radius=RADIUS, rounds=rounds)
    )
    same = bool((expected.columns == picks.columns[:check]).all())
    bar = {"rcv1": 9.0, "news20": 40.0}[data.name]
    ratio = step * rounds / took
    print(
        f"\n{data.name}, not private, {rounds:,} rounds: lazy {took:.2f} s, {ratio:.1f}x Algorithm 1 (bar {bar:g}x: "
        f"{'met' if ratio >= bar else 'MISSED'}); picks identical over the first {check}: {same}; gap {gap[-1]:.3g}"
    )
    return same and ratio >= bar


def certified(data: Data) -> None:
    """To a relative gap of 1e-4, against the solvers people use, which solve the penalised form at the same point."""
    import warnings

    from sklearn.linear_model import LogisticRegression

    took, fit = min(
        (
            seconds(lambda: corrective_fit(*data.columns, data.y, loss=Loss.LOGISTIC, radius=RADIUS, tolerance=1e-4))
            for _ in range(3)
        ),
        key=lambda pair: pair[0],
    )
    print(
        f"\n{data.name}, radius {RADIUS:g}: ours {took:.3f} s to a relative gap of {fit.gap / fit.objective:.1e} "
        f"({fit.passes} passes, {np.count_nonzero(fit.w)} columns)"
    )
    slope = -data.y / (1.0 + np.exp(data.y * (data.csr @ fit.w)))
    mu = float(np.abs(data.csc.T @ slope).max())

    def report(name: str, time_taken: float, w: np.ndarray) -> None:
        w = w * min(1.0, RADIUS / max(np.abs(w).sum(), 1e-300))
        value = np.logaddexp(0.0, -data.y * (data.csr @ w)).sum()
        print(
            f"  {name}: {time_taken:.3f} s, ours takes {took / time_taken:.2f}x; its objective is {value / fit.objective - 1:+.1e} of ours"
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver, options in (("liblinear", {"max_iter": 100}), ("saga", {"max_iter": 50})):
            model = LogisticRegression(
                C=1.0 / mu, l1_ratio=1.0, solver=solver, fit_intercept=False, tol=1e-3, **options
            )
            elapsed, _ = seconds(lambda model=model: model.fit(data.csr.astype(np.float64), data.y))
            report(f"scikit-learn {solver}", elapsed, model.coef_.ravel())
        try:
            from skglm import SparseLogisticRegression
        except ImportError:
            print("  skglm: not installed, skipped (pip install skglm)")
            return
        X = data.csc.astype(np.float64)
        model = SparseLogisticRegression(alpha=mu / data.y.size, fit_intercept=False, tol=1e-6)
        model.fit(X, data.y)
        elapsed, _ = seconds(lambda: model.fit(X, data.y))
        report("skglm", elapsed, model.coef_.ravel())


def learning(name: str) -> None:
    """Real data at budgets where the private model learns; rounds from the budget."""
    from sklearn.metrics import roc_auc_score

    found = real(name)
    if found is None:
        return
    X, y = found
    X = X.astype(np.float32)
    X.data /= np.float32(np.abs(X.data).max())
    train = np.random.default_rng(0).random(y.size) < 0.8
    A = X[train]
    conversion, csc = seconds(A.tocsc)
    data = Data(name, csc, A, y[train], conversion, 1.0)
    n, d = csc.shape
    step = algorithm_1(data, 20)
    print(f"\n{name} (real): {n:,} x {d:,}, {csc.nnz:,} stored; Algorithm 1 {step * 1e3:.2f} ms a step")
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        # as many rounds as keep the largest of the 2d noises near a hundredth of n
        rounds = int(min(max(2.0 * rho_of(epsilon) * (n / (200.0 * math.log(2 * d))) ** 2, 10), ROUNDS))
        scale = scale_of(epsilon, rounds, 1.0)
        took, (picks, counts) = seconds(
            lambda rounds=rounds, scale=scale: exact_picks(
                *data.columns,
                data.y,
                loss=Loss.LOGISTIC,
                radius=RADIUS,
                rounds=rounds,
                scale=scale,
                feature_bound=1.0,
                stream=system_stream(),
            )
        )
        w = model_of_picks(picks, radius=RADIUS, columns=d)
        auc = roc_auc_score(y[~train], X[~train] @ w)
        print(
            f"  epsilon {epsilon:g}, {rounds} rounds: {took:.4f} s, {step * rounds / took:,.0f}x Algorithm 1; held-out AUC {auc:.3f}; "
            f"{counts.evaluations:,} evaluations, {counts.heavy:,} heavy",
            flush=True,
        )


def violations(data: Data, wanted: int) -> None:
    """exact_picks raises on the first broken bound, so reaching the number is the result."""
    base = scale_of(1.0, ROUNDS, data.bound)
    done = 0
    start = time.perf_counter()
    while done < wanted:
        for factor in (0.1, 1.0, 10.0, 100.0):
            _, counts = exact_picks(
                *data.columns,
                data.y,
                loss=Loss.LOGISTIC,
                radius=RADIUS,
                rounds=ROUNDS * (1 if factor >= 10 else 10),
                scale=base * factor,
                feature_bound=data.bound,
                stream=system_stream(),
            )
            done += counts.evaluations
    print(f"\nbounds: 0 broken in {done:,} evaluations ({time.perf_counter() - start:.0f} s)")


def main(quick: bool = True) -> int:
    """Runs the tables; returns 1 if a bar is missed."""
    warm_up()
    met = True
    for name in ("rcv1", "news20") if quick else tuple(SHAPES):
        data = generate(name)
        met &= private_table(data)
        if name == "rcv1":
            met &= low_noise(data, quick)
            violations(data, 100_000 if quick else 10_000_000)
            certified(data)
        if name in ("rcv1", "news20"):
            met &= not_private(data, ROUNDS if name == "rcv1" else 1_000)
        del data
    for name in ("rcv1", "diabetes130"):
        learning(name)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.2f} GiB (generation and conversion included)")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
