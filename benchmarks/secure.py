"""What a secure Gram matrix costs: seconds and megabytes by rows, columns and parties, beside the plain product.

The lower limit is AᵀA of the same integers by one BLAS call in one place. Seconds are those of one process on one core:
the coordinator's and all parties' work one after the other, masks, sealing, ledgers and transcripts included. Between
organisations the parties work at the same time, and the wire decides: megabytes are what a party sends up, once.
"""

from __future__ import annotations

import resource
import tempfile
import time

import numpy as np
from threadpoolctl import threadpool_limits

import colonnade as co

QUICK = [(10_000, 10, 2), (10_000, 50, 4), (100_000, 10, 2), (100_000, 50, 2)]
FULL = [(100_000, 200, 2), (100_000, 50, 8), (1_000_000, 10, 2), (1_000_000, 50, 4), (1_000_000, 200, 2)]
AIM = 60.0  # seconds for 800,000 rows, 3,000 columns screened to 300, two parties


def main(quick: bool) -> int:
    print(
        "rows × columns a party × parties: seconds in process, the plain product, MB that one party sends, peak memory"
    )
    for rows, columns, parties in [*QUICK, *([] if quick else FULL)]:
        _one(rows, columns, parties)
    return _screened(quick)


def _one(rows: int, columns: int, parties: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (rows, columns * parties)).astype(np.float64)
    y = np.where(X[:, 0] + X[:, -1] + rng.normal(size=rows) > 1.0, 1.0, -1.0)
    fed = co.Federation.split(X, y, parties=parties, label="party0")
    seconds, fit = _timed(fed, co.PrivateGram(), row_norm=float(np.sqrt(columns * parties)))
    plain = _plain(X)
    up = _sent(fit, "party1")
    print(
        f"{rows:>9,} × {columns:>3} × {parties}: {seconds:7.1f} s, plain {plain:6.2f} s ({seconds / plain:5.0f} ×), "
        f"{up / 1e6:8.1f} MB, {_peak():.1f} GB in all",
        flush=True,
    )


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
    keep = columns // 10
    seconds, fit = _timed(fed, co.PrivateGram(screen=keep, labels="released"), row_norm=8.0)
    used = sum(int(np.count_nonzero(x)) for x in fit.coefficients.values())
    met = seconds <= AIM
    print(
        f"{rows:,} rows, {columns:,} columns screened to {used}, two parties, labels released first: {seconds:.1f} s "
        f"(aim {AIM:g} s at full size: {'met' if met else 'missed'}), {_sent(fit, 'shop') / 1e6:.0f} MB a party, "
        f"{_peak():.1f} GB in all",
        flush=True,
    )
    return int(not met)


def _timed(fed: co.Federation, method: co.PrivateGram, row_norm: float) -> tuple[float, co.Fit]:
    terms = co.Privacy(1.0, 1e-6, trust="secure", row_norm=row_norm, feature_bound=1.0)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-6), intercept=True)
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        fit = co.fit(fed, problem, method, terms, store=store, progress=True)
        return time.perf_counter() - began, fit


def _plain(X: np.ndarray) -> float:
    with threadpool_limits(limits=1):
        began = time.perf_counter()
        X.T @ X
        return time.perf_counter() - began


def _sent(fit: co.Fit, party: str) -> int:
    """Bytes that leave a party on a star: what goes to several receivers goes up once."""
    lines = [line for line in fit.communication.lines if line[0] == party]
    across = {(line[2], line[3]): line[5] for line in lines if line[1] != "coordinator"}
    return sum(across.values()) + sum(line[5] for line in lines if line[1] == "coordinator")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
