"""Sparse Frank-Wolfe on one machine: ours against named baselines, in the same run, on one core.

    python -m benchmarks sparse            RCV1's and News20's shapes, low noise, scaling (about two minutes)
    python -m benchmarks sparse --full     all shapes of the paper, rows scaled to memory, and KDDA's at full size

Data are generated here with the shapes of the paper's tables; real data are read from $COLONNADE_DATA. Algorithm 1 is
timed over a few steps and scaled, in two builds (strict sums and fast-math), of which the faster counts; it picks by
plain argmax, so that no private selection is charged to it. Times are CPU seconds, compilation excluded and shown apart.
The last table puts every measured ratio beside its bar.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.elsewhere import NotHere, ask
from colonnade.estimators.sparse import SparseClassifier
from colonnade.kernels.column_scores import BLOCK, all_slopes, grid_of, score_and_trend, score_from_slopes
from colonnade.kernels.lazy import lazy_picks
from colonnade.kernels.samplers import Counts, exact_picks
from colonnade.kernels.sparse_fw import LossCode, Picks, model_of_picks
from colonnade.kernels.stream import Stream, keyed_stream, next_word
from papers.published.algorithm_1 import argmax_picks
from papers.published.sparse_kernel import published_big_step_little_step, published_noisy_max

RADIUS = 50.0
RADII = (RADIUS, 500.0, 3_000.0)  # of the comparison with skglm
MATCHED = 1e-6  # by how much skglm's objective may be above ours, of ours
ROUNDS = 4_000
DELTA = 1e-6
BASELINE_STEPS = 50

Result = TypeVar("Result")


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
# times faster than Algorithm 1 at epsilon = 1 with CSC given, and with conversion charged to both
BARS = {"rcv1": (1_000, 190), "news20": (15_000, 600), "kdda": (10_000, 800), "web": (20_000, None), "url": (250, 165)}
TINY = Shape(2_000, 20_000, 20, 60.0, "text")  # of a smoke run
LONG = 20_000_000  # nonzeros from which baselines are timed over fewer steps


class Bar(NamedTuple):
    """A measured ratio beside what was asked of it."""

    what: str
    measured: float
    asked: float
    why: str = ""  # the reason, where it is missed
    baseline: str = "Algorithm 1"

    @property
    def met(self) -> bool:
        return self.measured >= self.asked

    def __str__(self) -> str:
        measured = f"{self.measured:,.0f}" if self.measured >= 100.0 else f"{self.measured:.1f}"
        if self.met:
            return f"{self.what}: {measured}x, bar {self.asked:,g}x: met"
        return (
            f"{self.what}: {measured}x, bar {self.asked:,g}x: missed by {self.asked / self.measured:.2f}x. {self.why}"
        )


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


def fresh_stream() -> Stream:
    return keyed_stream(os.urandom(32))


@njit
def _fill_words(stream: Stream, out: np.ndarray) -> None:
    for i in range(out.size):
        out[i] = next_word(stream)


def seconds(job: Callable[[], Result]) -> tuple[float, Result]:
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def generate(name: str, shape: Shape | None = None, seed: int = 1) -> Data:
    """Log-uniform column ranks (a text-like tail), log-normal row lengths, labels from a sparse model."""
    shape = shape or SHAPES[name]
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
    strict, _ = seconds(
        lambda: argmax_picks(*data.columns, data.y, loss=LossCode.LOGISTIC, radius=RADIUS, rounds=steps)
    )
    _fast_algorithm_1(*data.columns, data.y, RADIUS, 1)
    fast, _ = seconds(lambda: _fast_algorithm_1(*data.columns, data.y, RADIUS, steps))
    return min(strict, fast) / steps


def exact(data: Data, rounds: int, scale: float) -> tuple[Picks, Counts]:
    return exact_picks(
        *data.columns,
        data.y,
        loss=LossCode.LOGISTIC,
        radius=RADIUS,
        rounds=rounds,
        scale=scale,
        feature_bound=data.bound,
        stream=fresh_stream(),
    )


def theirs(data: Data, rounds: int, scale: float) -> Picks:
    return published_big_step_little_step(
        data.columns, data.rows, data.y, radius=RADIUS, rounds=rounds, scale=scale, stream=fresh_stream()
    )


def ours(data: Data, scale: float, rounds: int = ROUNDS) -> tuple[float, Picks, Counts]:
    """Median CPU seconds of three runs (of one, where one is long), and the last run's picks and counts."""
    job = partial(exact, data, rounds, scale)
    repeats = [seconds(job)]
    while len(repeats) < 3 and repeats[0][0] < 5.0:
        repeats.append(seconds(job))
    return float(np.median([t for t, _ in repeats])), *repeats[-1][1]


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
        run(data.columns, data.rows, data.y, radius=1.0, rounds=2, scale=0.1, stream=fresh_stream())
    lazy_picks(*data.columns, data.y, loss=LossCode.LOGISTIC, radius=1.0, rounds=2)
    SparseClassifier(radius=1.0).fit(data.csc, data.y)
    words = np.empty(1_000_000, dtype=np.uint64)
    stream = fresh_stream()
    _fill_words(stream, words)
    took, _ = seconds(lambda: _fill_words(stream, words))
    print(f"compile or load from cache: exact sampler {exact:.2f} s, everything {time.perf_counter() - start:.2f} s")
    print(f"ChaCha20 stream: {took * 1e3:.1f} ns a 64-bit word")


def charge(data: Data, picks: Picks, counts: Counts) -> str:
    """What picks of nearly full columns cost, in words."""
    nnz = np.diff(data.csc.indptr)
    wide = nnz > 0.5 * data.y.size
    hits = int(wide[picks.columns].sum())
    if hits == 0:
        return ""
    again = hits * int(nnz[wide].sum())
    return (
        f"{hits:,} picks fell on {int(wide.sum())} columns that are nearly full. Such a pick moves all their scores by more than 1/c, "
        f"and the next draw reads nearly all of them: at most {again / 1e9:.1f}e9 nonzeros, {counts.work / 1e9:.1f}e9 read, "
        f"as many as {counts.work / data.csc.nnz:,.0f} of Algorithm 1's steps"
    )


def rates() -> None:
    """Nanoseconds a nonzero, for the three ways to read a column."""
    n = 400_000
    rng = np.random.default_rng(0)
    data, indices = rng.random(n, dtype=np.float32), np.arange(n, dtype=np.int32)
    rows = np.column_stack([rng.standard_normal(n), rng.choice([-1.0, 1.0], n)])
    y = rows[:, 1].copy()
    v, q, lean, block = np.empty(n), np.empty(n), np.empty(n), np.empty((4, BLOCK))
    steps = 1.0 / grid_of(n, 1.0)
    took = [
        min(seconds(job)[0] for _ in range(20)) / n * 1e9
        for job in (
            lambda: score_and_trend(data, indices, 0, n, rows, 1.0, LossCode.LOGISTIC, 1.0, 1.0, steps, block),
            lambda: all_slopes(LossCode.LOGISTIC, 1.0, y, rows, 1.0, v, q, lean),
            lambda: score_from_slopes(data, indices, 0, n, False, q, lean, 1.0, steps),
            lambda: score_from_slopes(data, indices, 0, n, True, q, lean, 1.0, steps),
        )
    ]
    print(
        f"reading a column: {took[0]:.2f} ns a nonzero with its slope; slopes of all rows {took[1]:.2f} ns each, then "
        f"{took[2]:.2f} ns a nonzero, {took[3]:.2f} in a full column"
    )


def private_table(data: Data) -> list[Bar]:
    """Ours against Algorithm 1 and against the published scheme."""
    steps = BASELINE_STEPS if data.csc.nnz < LONG else 5
    step = algorithm_1(data, steps)
    n, d = data.csc.shape
    print(
        f"\n{data.name}: {n:,} x {d:,}, {data.csc.nnz:,} stored; Algorithm 1 {step * 1e3:.2f} ms a step ({steps} timed)"
    )
    bars = []
    for epsilon in (1.0, 0.1):
        scale = scale_of(epsilon, ROUNDS, data.bound)
        took, picks, counts = ours(data, scale)
        # over the same rounds for both: early rounds may cost another sum than late ones
        few = ROUNDS if data.csc.nnz < LONG else 5
        ours_few = took if few == ROUNDS else ours(data, scale, few)[0]
        published, _ = seconds(partial(theirs, data, few, scale))
        ratio = step * ROUNDS / took
        charged = (step * ROUNDS + data.conversion) / (took + data.conversion)
        print(
            f"  epsilon {epsilon:g}: ours {took:.4f} s, {ratio:,.0f}x Algorithm 1 ({charged:,.0f}x with {data.conversion:.2f} s "
            f"of conversion charged to both), {published / ours_few:,.1f}x Big-Step Little-Step over {few:,} rounds; "
            f"{counts.evaluations:,} evaluations, {counts.heavy:,} heavy, {counts.rebuilds:,} rebuilds, "
            f"{counts.work:,} nonzeros read, slopes of all rows {counts.passes:,} times",
            flush=True,
        )
        if epsilon == 1.0 and data.name in BARS:
            asked, asked_charged = BARS[data.name]
            why = charge(data, picks, counts) or f"{1e6 * took / ROUNDS:.1f} us a pick, setting up included"
            bars.append(Bar(f"{data.name}, CSC given", ratio, asked, why))
            if asked_charged is not None:
                ceiling = step * ROUNDS / data.conversion
                bars.append(
                    Bar(
                        f"{data.name}, with conversion",
                        charged,
                        asked_charged,
                        f"conversion alone allows {ceiling:,.0f}x; {why}",
                    )
                )
            what = f"{data.name}, Big-Step Little-Step"
            bars.append(Bar(what, published / ours_few, 6.0, baseline="Big-Step Little-Step"))
    return bars


def low_noise(data: Data, quick: bool) -> list[Bar]:
    """The regime where picks are far from uniform: the scale of epsilon = 1 times 10 to 10,000."""
    base = scale_of(1.0, ROUNDS, data.bound)
    print(f"\n{data.name}, less noise than epsilon = 1 buys ({ROUNDS:,} rounds):")
    for factor in (10, 100, 1_000, 10_000):
        step = algorithm_1(data, BASELINE_STEPS)
        took, picks, counts = ours(data, base * factor)
        few = 40 if quick else 400
        published, _ = seconds(partial(theirs, data, few, base * factor))
        ratio = step * ROUNDS / took
        print(
            f"  noise / {factor:,}: ours {took:.3f} s, {ratio:,.0f}x Algorithm 1, "
            f"{published * ROUNDS / few / took:,.1f}x Big-Step Little-Step; {counts.evaluations:,} evaluations, "
            f"{counts.rebuilds:,} rebuilds, {counts.snapshots:,} snapshots, {counts.work:,} nonzeros read",
            flush=True,
        )
    used = np.diff(data.csc.indptr)[picks.columns].mean()
    why = (
        f"a pick reads {counts.work / ROUNDS:,.0f} nonzeros beside the {used:,.0f} of its column: scores must be known to 1/c, "
        f"one in {base * factor * data.y.size * data.bound:,.0f} of their range, and every step moves all of them by more"
    )
    return [Bar(f"{data.name}, a ten-thousandth of the noise", ratio, 100.0, why)]


def not_private(data: Data, rounds: int) -> list[Bar]:
    """Lazy argmax: identical picks, and how much sooner."""
    check = min(rounds, 300)
    expected, _ = argmax_picks(*data.columns, data.y, loss=LossCode.LOGISTIC, radius=RADIUS, rounds=check)
    step = algorithm_1(data, BASELINE_STEPS)
    took, (picks, gap) = seconds(
        lambda: lazy_picks(*data.columns, data.y, loss=LossCode.LOGISTIC, radius=RADIUS, rounds=rounds)
    )
    same = bool((expected.columns == picks.columns[:check]).all())
    ratio = step * rounds / took if same else 0.0  # picks that differ are worth nothing
    print(
        f"\n{data.name}, not private, {rounds:,} rounds: lazy {took:.2f} s, {ratio:.1f}x Algorithm 1; "
        f"picks identical over the first {check}: {same}; gap {gap[-1]:.3g}"
    )
    return [Bar(f"{data.name}, not private", ratio, {"rcv1": 9.0, "news20": 40.0}[data.name])]


def scaling(full: bool) -> None:
    """One size times four at a time, at epsilon = 1: what the time follows."""
    base = Shape(10_000, 50_000, 40, 60.0, "text")
    print("\nscaling at epsilon = 1, each line changes one size:")
    for what, shape, rounds in (
        ("the base", base, ROUNDS),
        ("rows x 4", base._replace(rows=4 * base.rows), ROUNDS),
        ("columns x 4", base._replace(columns=4 * base.columns), ROUNDS),
        ("nonzeros x 4", base._replace(per_row=4 * base.per_row), ROUNDS),
        ("rounds x 4", base, 4 * ROUNDS),
        *((("all sizes x 4", Shape(40_000, 200_000, 160, 60.0, "text"), 4 * ROUNDS),) if full else ()),
    ):
        data = generate("scaling", shape)
        took, _, counts = ours(data, scale_of(1.0, rounds, data.bound), rounds)
        n, d = data.csc.shape
        print(
            f"  {what:<13} {n:>7,} x {d:>8,}, {data.csc.nnz:>10,} stored, {rounds:>6,} rounds: {took * 1e3:7.2f} ms "
            f"({1e6 * took / rounds:5.2f} us a pick, {counts.heavy:,} heavy); Algorithm 1 {algorithm_1(data, 10) * 1e3:6.2f} ms a step",
            flush=True,
        )


def compile_times() -> None:
    """A fresh process with an empty cache, and one with a full one."""
    job = (
        "import time, numpy as np; from colonnade.kernels.samplers import exact_picks; "
        "from colonnade.kernels.sparse_fw import LossCode; from colonnade.kernels.stream import keyed_stream; "
        "began = time.process_time(); "
        "exact_picks(np.ones(3, np.float32), np.arange(3, dtype=np.int32), np.array([0, 1, 3], np.int32), np.array([1., -1., 1.]), "
        "loss=LossCode.LOGISTIC, radius=1., rounds=2, scale=.1, feature_bound=1., stream=keyed_stream(bytes(32))); "
        "print(time.process_time() - began)"
    )
    with tempfile.TemporaryDirectory() as folder:
        took = [
            float(
                subprocess.run(
                    [sys.executable, "-c", job],
                    env=os.environ | {"NUMBA_CACHE_DIR": folder},
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(2)
        ]
    print(f"\nexact sampler in a fresh process: {took[0]:.1f} CPU seconds to compile, {took[1]:.2f} from the cache")


@njit
def _columns_at_once(rows: int, columns: int, per_row: float, head: float, room: int, seed: int) -> Any:
    """Column k holds each row with the probability that log-uniform ranks give it; gaps are geometric, so rows come sorted."""
    np.random.seed(seed)
    place = np.random.permutation(columns)
    indptr = np.empty(columns + 1, dtype=np.int64)
    indices = np.empty(room, dtype=np.int32)
    length = np.zeros(rows, dtype=np.int32)
    spread = math.log(columns / head + 1.0)
    z = 0
    for k in range(columns):
        indptr[k] = z
        share = min(0.99, per_row * math.log1p(1.0 / (place[k] + head)) / spread)
        slope = 1.0 / math.log1p(-share)
        i = math.log(1.0 - np.random.random()) * slope
        while i < rows and z < room:
            indices[z] = np.int32(i)
            length[np.int32(i)] += 1
            z += 1
            i = np.floor(i) + 1.0 + math.log(1.0 - np.random.random()) * slope
    indptr[columns] = z
    data = np.empty(z, dtype=np.float32)
    for e in range(z):
        data[e] = 1.0 / math.sqrt(length[indices[e]])
    return data, indices[:z], indptr


def giant() -> tuple[float, float, float, float]:
    """KDDA's shape at full size, straight into CSC; (GiB of the matrix, seconds to fit, ms a step of Algorithm 1, peak GiB)."""
    rows, columns, per_row = 8_407_752, 20_216_830, 36.35
    data, indices, indptr = _columns_at_once(rows, columns, per_row, 100.0, int(1.01 * per_row * rows), 1)
    rng = np.random.default_rng(1)
    margin = np.zeros(rows)
    for k in rng.choice(np.argsort(np.diff(indptr))[-20_000:], 200, replace=False):
        margin[indices[indptr[k] : indptr[k + 1]]] += rng.standard_normal()
    y = np.where(margin + rng.logistic(size=rows) > np.median(margin), 1.0, -1.0)
    matrix = (data, indices, indptr)
    tiny = (data[:3], np.arange(3, dtype=np.int32), np.array([0, 1, 3]))

    def fit(part: tuple[Any, Any, Any], labels: np.ndarray, rounds: int) -> tuple[Picks, Counts]:
        return exact_picks(
            *part,
            labels,
            loss=LossCode.LOGISTIC,
            radius=RADIUS,
            rounds=rounds,
            scale=scale_of(1.0, ROUNDS, 1.0),
            feature_bound=1.0,
            stream=fresh_stream(),
        )

    fit(tiny, y[:3], 1)  # column pointers of 64 bits: another build, compiled outside the clock
    took, (_, counts) = seconds(lambda: fit(matrix, y, ROUNDS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = sum(part.nbytes for part in matrix) / 2**30
    print(f"\nkdda at full size: {rows:,} x {columns:,}, {data.size:,} stored ({size:.2f} GiB)", flush=True)
    _fast_algorithm_1(*matrix, y, RADIUS, 1)
    step, _ = seconds(lambda: _fast_algorithm_1(*matrix, y, RADIUS, 2))
    print(
        f"  ours {took:.2f} s for {ROUNDS:,} picks, {step / 2 * ROUNDS / took:,.0f}x Algorithm 1 ({step / 2:.2f} s a step, fast-math); "
        f"{counts.heavy:,} heavy, {counts.evaluations:,} evaluations; peak memory {peak:.2f} GiB, generation included",
        flush=True,
    )
    return size, took, step / 2 * 1e3, peak


def certified(data: Data) -> list[Bar]:
    """What users call, to its certified gap, against the solvers people use on the penalised form at the same point.

    The penalty is ours at the end, the largest score of a column: with it the penalised problem has the solution of the
    constrained one. skglm stops at the loosest tolerance whose penalised objective is at most 1 + MATCHED times ours.
    Linear algebra has one thread everywhere.
    """
    print()
    with threadpool_limits(limits=1):
        fits = {radius: _fitted(data, radius) for radius in RADII}
        for solver, options in (("liblinear", {"max_iter": 100}), ("saga", {"max_iter": 50})):
            _against_scikit_learn(data, fits[RADIUS], solver, options)
    wanted = [{"alpha": fit.alpha, "target": (1.0 + MATCHED) * fit.penalised} for fit in fits.values()]
    arrays = {"X": data.csc.astype(np.float64), "y": data.y}
    try:
        found, _ = ask("skglm", ("skglm==0.5",), "skglm_program.py", arrays, {"fits": wanted})
    except NotHere as why:
        print(f"  skglm left out, its bars are not measured: {why}")
        return []
    bars = []
    for (radius, fit), its in zip(fits.items(), found["fits"], strict=True):
        above = its["objective"] / fit.penalised - 1.0
        print(
            f"  radius {radius:g}, skglm {found['version']}: {its['seconds']:.3f} s with tol={its['tolerance']:g}, ours takes "
            f"{fit.seconds / its['seconds']:.2f}x; its penalised objective is {above:+.1e} of ours"
        )
        if above > MATCHED:
            print(f"  not matched within {MATCHED:g}: the times do not compare, and there is no bar")
            continue
        what = f"{data.name}, radius {radius:g}, to a certified gap"
        bars.append(Bar(what, 5.0 * its["seconds"] / fit.seconds, 1.0, baseline=f"5 × skglm {found['version']}"))
    return bars


class Certified(NamedTuple):
    """Our fit inside one radius."""

    seconds: float  # CPU, the least of three
    objective: float  # mean loss
    alpha: float  # the penalty that belongs to the radius
    penalised: float  # the objective of the penalised problem


def _fitted(data: Data, radius: float) -> Certified:
    took, fit = min(
        (seconds(lambda: SparseClassifier(radius).fit(data.csc, data.y)) for _ in range(3)), key=lambda pair: pair[0]
    )
    objective = fit.history_[-1]["objective"]
    print(
        f"{data.name}, radius {radius:g}: ours {took:.3f} s to a relative gap of {fit.gap_ / objective:.1e} "
        f"({len(fit.history_)} passes, {np.count_nonzero(fit.coef_)} columns)"
    )
    slope = -data.y / (1.0 + np.exp(data.y * fit.decision_function(data.csr)))
    alpha = float(np.abs(data.csc.T @ slope).max()) / data.y.size
    return Certified(took, objective, alpha, objective + alpha * float(np.abs(fit.coef_).sum()))


def _against_scikit_learn(data: Data, fit: Certified, solver: str, options: dict[str, int]) -> None:
    """Its model is scaled into our ball."""
    import warnings

    from sklearn.linear_model import LogisticRegression

    C = 1.0 / (fit.alpha * data.y.size)
    model = LogisticRegression(C=C, l1_ratio=1.0, solver=solver, fit_intercept=True, tol=1e-3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        took, _ = seconds(lambda: model.fit(data.csr.astype(np.float64), data.y))
    w = model.coef_.ravel()
    w = w * min(1.0, RADIUS / max(np.abs(w).sum(), 1e-300))
    value = np.logaddexp(0.0, -data.y * (data.csr @ w + float(np.ravel(model.intercept_)[0]))).mean()
    print(
        f"  radius {RADIUS:g}, scikit-learn {solver}: {took:.3f} s, ours takes {fit.seconds / took:.2f}x; "
        f"its objective is {value / fit.objective - 1:+.1e} of ours"
    )


def learning(name: str) -> None:
    """Real data at real budgets, rounds from the budget, radius as everywhere here: speed, and what the model is worth."""
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
        took, (picks, counts) = seconds(partial(exact, data, rounds, scale))
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
                loss=LossCode.LOGISTIC,
                radius=RADIUS,
                rounds=ROUNDS * (1 if factor >= 10 else 10),
                scale=base * factor,
                feature_bound=data.bound,
                stream=fresh_stream(),
            )
            done += counts.evaluations
    print(f"\nbounds: 0 broken in {done:,} evaluations ({time.perf_counter() - start:.0f} s)")


def measured(data: Data, quick: bool) -> list[Bar]:
    """All ratios that a shape has a bar for, measured once."""
    bars = private_table(data)
    if data.name == "rcv1":
        bars += low_noise(data, quick)
        bars += certified(data)
    if data.name in ("rcv1", "news20"):
        bars += not_private(data, ROUNDS if data.name == "rcv1" else 1_000)
    return bars


def main(quick: bool = True) -> int:
    """Runs the tables; returns 1 if a bar is missed."""
    warm_up()
    rates()
    if not quick:
        compile_times()
    bars: list[Bar] = []
    for name in ("rcv1", "news20") if quick else tuple(SHAPES):
        data = generate(name)
        bars += measured(data, quick)
        if name == "rcv1":
            violations(data, 100_000 if quick else 10_000_000)
        del data
    scaling(full=not quick)
    for name in ("rcv1", "diabetes130"):
        learning(name)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.2f} GiB (generation and conversion included)")
    if not quick:
        # in a process of its own, so that the peak is its own
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            *_, most = pool.submit(giant).result()
        bars.append(Bar("kdda at full size, 24 GiB over the peak", 24.0 / most, 1.0))
    print("\nbars")
    for bar in bars:
        print(f"  {bar}")
    return 0 if all(bar.met for bar in bars) else 1


def smoke() -> None:
    """Every table of a quick run, on a tiny shape."""
    warm_up()
    rates()
    data = generate("rcv1", TINY)
    for bar in measured(data, quick=True):
        print(f"  {bar}")
    violations(data, 1_000)


if __name__ == "__main__":
    sys.exit(main("--full" not in sys.argv[1:]))
