"""Private Gram beside SPU, SecretFlow's engine for secure computation: two parties, the same columns, the same rows.

    python -m benchmarks peers           SPU with semi2k (a minute or two after the first run, which installs SPU)
    python -m benchmarks peers --full    SPU with Cheetah, too (six CPU minutes more)

Data     a9a in COLONNADE_DATA, with its own training and test rows. Either party has seven attributes, so that its rows
         have at most seven ones; the first has the labels.
Ours     co.fit with co.PrivateGram(cross="secure") at epsilon 1, records on the disk. Medians of three runs after one
         that compiles; AUC is their mean.
SPU      ten epochs of SGD as in SecretFlow's SSRegression (spu_program.py), batches of 1,024; the step is 1 instead of
         its 0.1, with which ten epochs fall short. One run; compilation and sharing of the inputs are left out.
Columns  CPU and wall seconds of the whole run, all parties together; each library in one process, without a network,
         one thread for linear algebra. Bytes that all parties send: ours by fit.communication, SPU's by its own link
         statistics, read from its log. Area under the ROC curve on the test rows. What is guaranteed.
semi2k   takes correlated randomness from the first party, who could undo all masks. SPU has it for tests; it is the
         cheapest that SPU can be. Cheetah makes that randomness between the parties.
Skips    with a reason where the data are absent, or SPU cannot be installed or run.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

import colonnade as co
from benchmarks.elsewhere import NotHere, ask
from benchmarks.gram import auc
from benchmarks.timing import data_folder

PARTS = {"first": slice(0, 60), "second": slice(60, 123)}  # between two attributes
ROW_NORM = math.sqrt(7.0)
EPSILON, DELTA = 1.0, 1e-6
SPU = ("spu==0.9.5",)
PROTOCOLS = {
    "SEMI2K": "no DP; secure computation, if the first party is trusted",
    "CHEETAH": "no DP; secure computation, if parties follow the protocol",
}
EPOCHS, BATCH, RATE = 10, 1024, 1.0


@dataclass(frozen=True)
class Rows:
    X: Any  # CSR
    y: np.ndarray  # -1 or 1


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    cpu: float
    wall: float
    sent: float  # bytes
    auc: float
    guarantee: str

    def __str__(self) -> str:
        return f"  {self.name:<34} {self.cpu:8.2f} {self.wall:8.2f} {self.sent / 1e6:9.1f} {self.auc:7.4f}  {self.guarantee}"


def load(folder: Path, part: str) -> Rows:
    X = sparse.csr_array(sparse.load_npz(folder / f"X_{part}.npz"), dtype=np.float64)
    return Rows(X, np.where(np.load(folder / f"y_{part}.npy") > 0, 1.0, -1.0))


def ours(train: Rows, test: Rows) -> Line:
    fed = co.Federation.split(train.X, train.y, PARTS, label="first")
    problem = co.Problem(co.Logistic(), intercept=True)
    privacy = co.Privacy(EPSILON, DELTA, trust="secure", row_norm=dict.fromkeys(PARTS, ROW_NORM), feature_bound=1.0)
    spent, areas = [], []
    for _ in range(4):
        with tempfile.TemporaryDirectory() as store, threadpool_limits(limits=1):
            wall, cpu = time.perf_counter(), time.process_time()
            fit = co.fit(fed, problem, co.PrivateGram(cross="secure"), privacy, store=store)
            spent.append((time.process_time() - cpu, time.perf_counter() - wall))
        areas.append(auc(test.y, test.X @ np.concatenate([fit.coefficients[party] for party in PARTS])))
    cpu, wall = np.median(spent[1:], axis=0).tolist()
    stated = fit.privacy
    guarantee = f"({stated.epsilon:g}, {stated.delta:g})-DP of the released model, {stated.guarantee}"
    name = f"Colonnade {version('colonnade')}, Private Gram"
    return Line(name, cpu, wall, fit.communication.bytes, float(np.mean(areas[1:])), guarantee)


def theirs(protocol: str, train: Rows, test: Rows) -> Line:
    X = train.X.toarray().astype(np.float32)
    arrays = {name: X[:, part] for name, part in PARTS.items()}
    arrays["labels"] = (train.y[:, None] > 0).astype(np.float32)
    arrays["weights"] = np.zeros((X.shape[1] + 1, 1), np.float32)
    request = {"protocol": protocol, "epochs": EPOCHS, "batch": BATCH, "rate": RATE}
    found, log = ask("spu", SPU, "spu_program.py", arrays, request)
    counts = [int(count) for count in re.findall(r"Link details: total send bytes (\d+)", log)]
    if len(counts) != 2 * EPOCHS:  # two parties
        raise NotHere(f"SPU logged its bytes {len(counts)} times instead of {2 * EPOCHS}")
    versions = found["versions"]
    print(f"  (the next is compiled in {found['compiled']:.1f} s, with jax {versions['jax']}, outside the clock)")
    name = f"SPU {versions['spu']}, {protocol.lower()}, {EPOCHS} epochs"
    area = auc(test.y, test.X @ np.array(found["weights"][:-1]))
    return Line(name, found["cpu"], found["wall"], sum(counts), area, PROTOCOLS[protocol])


def main(quick: bool = True) -> int:
    folder = data_folder("a9a")
    if folder is None:
        return 0
    train, test = load(folder, "train"), load(folder, "test")
    print(
        f"a9a: {train.y.size:,} training rows, {test.y.size:,} test rows, {train.X.shape[1]} columns of two parties",
        flush=True,
    )
    print(f"  {'':<34} {'CPU s':>8} {'wall s':>8} {'MB sent':>9} {'AUC':>7}  guarantee")
    lines = [ours(train, test)]
    print(lines[0], flush=True)
    for protocol in ("SEMI2K",) if quick else tuple(PROTOCOLS):
        try:
            lines.append(theirs(protocol, train, test))
        except NotHere as why:
            print(f"  SPU with {protocol.lower()} left out: {why}", flush=True)
        else:
            print(lines[-1], flush=True)
    for other in lines[1:]:
        print(
            f"  {other.name} takes {other.cpu / lines[0].cpu:,.0f} times our CPU seconds and sends "
            f"{other.sent / lines[0].sent:,.0f} times our bytes; its AUC is {other.auc - lines[0].auc:+.4f} of ours"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
