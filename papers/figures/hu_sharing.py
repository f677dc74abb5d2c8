"""Logistic regression over split features on a9a and gisette, for the figures of Hu et al.: sharing ADMM, its rival, what noise does.

The paper prints neither the ridge nor rho nor the step sizes. Here: ridge 0.001 with the loss a mean over rows, raw values, no
intercept; the published form at rho = 0.1/n and 1/n, and steps of 0.01 and 0.1, batches of 100. An epoch is one exchange with every
party (ADMM) or one pass over the rows (SGD). a9a has the paper's rows. Of gisette's 7,000 rows only the 1,000 of its validation
file are at hand: every fifth of them tests, 800 train.
Sent     numbers on all edges: two a row and party in an epoch, up and down, for either method; SGD sends them in small batches.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from papers.figure import Row
from papers.published.sharing_admm import FeatureSGD, ParallelSharing
from papers.registry import data_folder

if TYPE_CHECKING:
    import polars as pl

Table = tuple[Any, Floats]
RIDGE, LOSS, DELTA = 1e-3, co.Logistic(), 1e-6
WIDTHS = {"a9a": (66, 57), "gisette": (2000, 2000, 1000)}
FOLDERS = {"a9a": "a9a", "gisette": "gisette-valid"}
OURS = "ours, rho by itself"
PUBLISHED = {"published, rho = 0.1/n": 0.1, "published, rho = 1/n": 1.0}
SGD = {"SGD, step 0.01": 0.01, "SGD, step 0.1": 0.1}
ALL, LOCAL = "scikit-learn, all columns", "scikit-learn, first party's columns"


@lru_cache(maxsize=2)
def tables(data: str) -> tuple[Table, Table]:
    """Training and test rows."""
    folder = data_folder()
    if folder is None or not (folder / FOLDERS[data]).is_dir():
        raise InvalidInput(f"this figure reads {FOLDERS[data]}: set COLONNADE_DATA to the folder that has it.")
    here = folder / FOLDERS[data]

    def read(features: str, labels: str) -> Table:
        y = np.array(np.lib.format.open_memmap(here / labels, mode="r"), dtype=np.float64)  # never unpickles
        return sparse.csr_array(sparse.load_npz(here / features), dtype=np.float64), y

    if data == "a9a":
        return read("X_train.npz", "y_train.npy"), read("X_test.npz", "y_test.npy")
    X, y = read("X.npz", "y.npy")
    held = np.arange(y.size) % 5 == 0
    return (X[~held], y[~held]), (X[held], y[held])


def shares(data: str) -> dict[str, slice]:
    ends = np.cumsum([0, *WIDTHS[data]]).tolist()
    return {f"party{k}": slice(*ends[k : k + 2]) for k in range(len(ends) - 1)}


def log_loss(table: Table, x: Floats, intercept: float = 0.0) -> float:
    X, y = table
    return float(np.mean(np.logaddexp(0.0, -y * (X @ x + intercept))))


def epochs(data: str, method: str, sigma: float, seed: int, count: int) -> Iterator[Floats]:
    """All coefficients after each epoch; sigma is the published form's noise on coefficients."""
    (X, y), _ = tables(data)
    if method == OURS:
        return iter(watched(data, count))
    blocks = [sparse.csr_array(X[:, share]) for share in shares(data).values()]
    rival = (
        FeatureSGD(RIDGE, SGD[method]) if method in SGD else ParallelSharing(RIDGE, PUBLISHED[method] / y.size, sigma)
    )
    steps = rival.epochs(blocks, y, LOSS, np.random.default_rng(seed))
    return (np.concatenate(x) for x in islice(steps, count))


def watched(data: str, count: int) -> list[Floats]:
    """Of a run by co.fit: each party's program is wrapped, and its x looked at whenever it has answered. The run is the same."""
    seen: dict[str, list[Floats]] = {name: [] for name in shares(data)}

    class Watched(co.SharingADMM):
        def party(self, job: Any, block: Any, gate: Any) -> Any:
            program: Any = super().party(job, block, gate)
            inbox = None
            while True:
                try:
                    post = program.send(inbox)
                except StopIteration as end:
                    return end.value
                now = inspect.getgeneratorlocals(program)
                if "figures" in now and len(seen[gate.node]) < count:
                    seen[gate.node].append(np.array(now["x"]))
                inbox = yield post

    federation = co.Federation.split(sparse.csc_array(tables(data)[0][0]), tables(data)[0][1], parties=shares(data))
    co.fit(federation, co.Problem(LOSS, penalty=co.Ridge(RIDGE)), Watched(count, 0.0))
    return [np.concatenate(x) for x in zip(*seen.values(), strict=True)]


def curve(data: str, method: str, seed: int, count: int, sigma: float = 0.0) -> list[Row]:
    """Training objective and test log loss, epoch by epoch, thinned to about a hundred rows."""
    train, test = tables(data)
    numbers, rows = 2 * len(WIDTHS[data]) * train[1].size, list[Row]()
    for t, x in enumerate(epochs(data, method, sigma, seed, count), 1):
        if t == count or t % max(1, count // 100) == 0:
            objective = log_loss(train, x) + RIDGE / 2 * float(x @ x)
            point: Row = {
                "epoch": t,
                "objective": objective,
                "test_loss": log_loss(test, x),
                "values_sent": t * numbers,
            }
            rows.append(_named(data, method, seed, sigma) | point)
    return rows


def _named(data: str, method: str, seed: int, sigma: float) -> Row:
    return {"data": data, "method": method, "seed": seed, "sigma": sigma}


def central(data: str, method: str) -> list[Row]:
    """scikit-learn on all columns or on the first party's: what the curves are to be compared with."""
    from sklearn.linear_model import LogisticRegression

    (X, y), test = tables(data)
    width = X.shape[1] if method == ALL else WIDTHS[data][0]
    model = LogisticRegression(C=1.0 / (RIDGE * y.size), fit_intercept=False, max_iter=5000, tol=1e-8)
    x = np.asarray(model.fit(X[:, :width], y).coef_[0])
    objective = log_loss((X[:, :width], y), x) + RIDGE / 2 * float(x @ x)
    loss = log_loss((test[0][:, :width], test[1]), x)
    point: Row = {"epoch": 1, "objective": objective, "test_loss": loss, "values_sent": None}
    return [_named(data, method, 0, 0.0) | point]


# ---------------------------------------------------------------- what the paper's calibration says


def claimed_noise(data: str, epsilon: float, count: int) -> float:
    """The noise that theorem 1, lemma 1 and corollary 1 ask for at a total (epsilon, DELTA) over so many epochs, rho = 1/n.

    Wherever they leave a choice, it is the one that asks for least: the party with most columns; the objective times n, where
    its multipliers are small beside its predictions; as b₁, the bound of all norms, that of the scores at the optimum alone.
    """
    each = brentq(lambda e: composed(e, count) - epsilon, 1e-12, 1.0) if composed(1.0, count) > epsilon else 1.0
    return math.sqrt(2 * math.log(1.25 / (DELTA / 2 / count))) * sensitivity(data) / float(each)


def claimed_epsilon(data: str, sigma: float, count: int) -> float:
    """The other way round, for one epoch: what theorem 1 says of noise whose standard deviation, on Dξ, is sigma times a row's norm."""
    X = tables(data)[0][0][:, : WIDTHS[data][0]]
    row = math.sqrt(float(X.multiply(X).sum(axis=1).max()))
    return math.sqrt(2 * math.log(1.25 / (DELTA / 2 / count))) * sensitivity(data) / (sigma * row)


def composed(each: float, count: int) -> float:
    """Corollary 1, equation 10, with half of DELTA for the composition."""
    return math.sqrt(2 * count * math.log(2 / DELTA)) * each + count * each * math.expm1(each)


@lru_cache(maxsize=2)
def sensitivity(data: str) -> float:
    """Lemma 1: 3/(d ρ) (λ c₁ + (1 + Mρ) b₁), with the loss a sum: ρ = 1, λ = RIDGE·n, c₁ = 1."""
    from sklearn.linear_model import LogisticRegression

    (X, y), _ = tables(data)
    model = LogisticRegression(C=1.0 / (RIDGE * y.size), fit_intercept=False, max_iter=5000, tol=1e-6)
    norm = float(np.linalg.norm(X @ model.fit(X, y).coef_[0]))
    return 3.0 / max(WIDTHS[data]) * (RIDGE * y.size + (1 + len(WIDTHS[data])) * norm)


# ---------------------------------------------------------------- reading the rows


def path(table: pl.DataFrame, method: str, data: str | None = None, sigma: float = 0.0) -> list[tuple[int, float]]:
    """(epoch, test log loss), the mean over seeds."""
    import polars as pl

    own = table.filter((pl.col("method") == method) & (pl.col("sigma") == sigma))
    own = own if data is None else own.filter(pl.col("data") == data)
    return [
        (int(t), float(v)) for t, v in own.group_by("epoch").agg(pl.col("test_loss").mean()).sort("epoch").iter_rows()
    ]


def reaches(steps: Sequence[tuple[int, float]], level: float) -> float:
    """The first epoch at which a curve is at or below a level, for good; inf if it never is."""
    above = [t for t, value in steps if not value <= level]
    later = [t for t, _ in steps if not above or t > above[-1]]
    return min(later, default=math.inf)
