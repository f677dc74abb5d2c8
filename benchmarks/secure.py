"""What a secure Gram matrix costs: processor seconds by role, and megabytes, by rows, columns and parties.

Baseline  the plain product: AᵀA of all columns in float64, in one place, by one BLAS call on one thread.
Seconds   of the processor, by role, all roles in one process with a store: masks, sealing, ledgers and transcripts
          included. The same run on 200 rows is shown apart: what ledgers, keys and the solver cost whatever the rows.
Megabytes as counted once: what goes up from one party, what goes up from all, what comes down from the coordinator.
"""

from __future__ import annotations

import functools
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import colonnade as co
from colonnade.runtime.hosted_node import deliver_once

QUICK = [(10_000, 50, 4), (100_000, 50, 2), (100_000, 50, 8)]
FULL = [(300_000, 200, 2), (1_000_000, 50, 4), (1_000_000, 200, 2)]
AIM = 60.0  # seconds for 800,000 rows, 3,000 columns screened to 300, two parties


def main(quick: bool) -> int:
    print("rows × columns a party × parties: processor seconds and ratios to the plain product")
    for rows, columns, parties in [*QUICK, *([] if quick else FULL)]:
        _one(rows, columns, parties)
    print("20,000 rows × 20 columns a party: megabytes by the number of parties")
    for parties in (2, 4, 8, 16, 32):
        _bytes(parties)
    _demo(quick)
    return _screened(quick)


class Clocked:
    """The engine in process, with the processor's seconds of each node."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def run(self, nodes: Mapping[str, Any], carry: Any = deliver_once) -> Any:
        for name, node in nodes.items():
            node.step = functools.partial(self._step, name, node.step)
        return co.InProcess().run(nodes, carry)

    def _step(self, name: str, step: Any) -> Any:
        began = time.process_time()
        try:
            return step()
        finally:
            self.seconds[name] += time.process_time() - began


def _table(rows: int, columns: int, parties: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (rows, columns * parties))
    return X, np.where(X[:, 0] + X[:, -1] + rng.normal(size=rows) > 0.0, 1.0, -1.0)


def _one(rows: int, columns: int, parties: int) -> None:
    X, y = _table(rows, columns, parties)
    fixed = min(_fit(X[:200], y[:200], parties)[0] for _ in range(2))  # the first may load kernels
    seconds, fit, engine = _fit(X, y, parties)
    plain, busiest = _plain(X), max(engine.seconds.values())
    role = max(engine.seconds, key=engine.seconds.__getitem__)
    print(
        f"{rows:>9,} × {columns:>3} × {parties}: {seconds:6.2f} s in all ({seconds / plain:4.1f} ×), busiest {role} "
        f"{busiest:5.2f} s ({busiest / plain:4.1f} ×); plain {plain:5.2f} s; 200 rows {fixed:4.2f} s; "
        f"{_megabytes(fit)}; peak {_peak():.2f} GB",
        flush=True,
    )


def _bytes(parties: int) -> None:
    X, y = _table(20_000, 20, parties)
    _, fit, _ = _fit(X, y, parties)
    print(f"  {parties:>2} parties: {_megabytes(fit)}", flush=True)


def _demo(quick: bool) -> None:
    """The rows that the demo learns from, as they are (what a run for inference takes) and centred, lines and curves."""
    from colonnade.cli import flights

    data = flights.load(20_000 if quick else None)
    party, column = flights.LABEL
    frames = {name: frame.filter(data.split()[0]) for name, frame in data.frames.items()}
    flat = {name: schema.as_lines() for name, schema in flights.SCHEMAS.items()}
    lines, curves = (
        co.Federation.from_frames(frames, on=flights.KEY, label=flights.LABEL, schemas=schemas)
        for schemas in (flat, flights.SCHEMAS)
    )
    print(f"the demo's tables, {lines.rows:,} rows, epsilon 1 ({party}: {column})")
    numbers, classes = (co.Problem(loss, intercept=True) for loss in (co.LeastSquares(), co.Logistic()))
    as_they_are = co.PrivateGram(purpose="inference")
    for title, fed, problem, method, label_range in (
        ("raw, lines", lines, numbers, as_they_are, (-1, 1)),
        ("centred, lines", lines, classes, co.PrivateGram(), None),
        ("centred, curves", curves, classes, co.PrivateGram(), None),
    ):
        privacy = co.Privacy(1.0, 1e-6, trust="secure", label_range=label_range)
        with tempfile.TemporaryDirectory() as store:
            began = time.process_time()
            fit = co.fit(fed, problem, method, privacy, store=store)
            print(f"  {title:15}: {_megabytes(fit)}; {time.process_time() - began:.2f} s of the processor", flush=True)


def _screened(quick: bool) -> int:
    """Wide and sparse, screened by noisy labels so that no column but the kept ones is ever masked."""
    from scipy import sparse

    rows, columns = (80_000, 600) if quick else (800_000, 3_000)
    rng = np.random.default_rng(1)
    ones = [np.unique(rng.integers(rows, size=rows // 100)) for _ in range(columns)]
    ends = np.concatenate([[0], np.cumsum([column.size for column in ones])])
    X = sparse.csc_array((np.ones(ends[-1]), np.concatenate(ones), ends), shape=(rows, columns))
    y = np.where(np.asarray(X[:, :20].sum(axis=1)).ravel() + rng.normal(size=rows) > 0.2, 1.0, -1.0)
    halves = {"bank": slice(0, columns // 2), "shop": slice(columns // 2, columns)}
    fed = co.Federation.split(X, y, parties=halves, label="bank")
    method = co.PrivateGram(screen=columns // 10, labels="released")
    began = time.perf_counter()
    _, fit, _ = _run(fed, method, row_norm=8.0)
    seconds = time.perf_counter() - began
    used, met = sum(int(np.count_nonzero(x)) for x in fit.coefficients.values()), seconds <= AIM
    print(
        f"{rows:,} rows, {columns:,} columns screened to {used}, two parties, labels released first: {seconds:.1f} s "
        f"(aim {AIM:g} s at full size: {'met' if met else 'missed'}), {_megabytes(fit)}, {_peak():.1f} GB in all",
        flush=True,
    )
    return int(not met)


def _fit(X: np.ndarray, y: np.ndarray, parties: int) -> tuple[float, co.Fit, Clocked]:
    fed = co.Federation.split(X, y, parties=parties, label="party0")
    return _run(fed, co.PrivateGram(), row_norm=float(np.sqrt(X.shape[1])))


def _run(fed: co.Federation, method: co.PrivateGram, row_norm: float) -> tuple[float, co.Fit, Clocked]:
    terms = co.Privacy(1.0, 1e-7, trust="secure", row_norm=row_norm, feature_bound=1.0)  # delta below 1 / rows
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-6), intercept=True)
    engine = Clocked()
    with tempfile.TemporaryDirectory() as store:
        began = time.process_time()
        fit = co.fit(fed, problem, method, terms, store=store, engine=engine)
        return time.process_time() - began, fit, engine


def _plain(X: np.ndarray) -> float:
    with threadpool_limits(limits=1):
        began = time.process_time()
        X.T @ X
        return time.process_time() - began


def _megabytes(fit: co.Fit) -> str:
    """From one party (the one that sends most), from all parties, from the coordinator: each letter counted once."""
    up: Counter[str] = Counter()
    down = 0
    for sender, *_, size in ((line[0], *line[1:6]) for line in fit.communication.lines):
        if sender == "coordinator":
            down += size
        else:
            up[sender] += size
    return f"{max(up.values()) / 1e6:.1f} MB up a party, {sum(up.values()) / 1e6:.1f} in all, {down / 1e6:.2f} down"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
