"""The contract tables: a new method or engine enters here and inherits every test that runs over them.

Also the small things that several test files build on: a federation, nodes without a federation, ledgers in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from unittest import mock

import numpy as np

import colonnade as co
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.runtime.node import Node, NodeSetup, Transcript
from colonnade.runtime.program import Program


@dataclass(frozen=True)
class Case:
    """A method with a problem that it solves in a moment."""

    method: Any
    problem: co.Problem | co.KernelSVM | co.AdaBoost
    privacy: co.Privacy | None = None  # None: it releases exact values, and Policy(exact=False) must refuse it
    parties: Any = 3
    label: str | None = None
    by: Literal["columns", "rows"] = "columns"  # what the parties hold


# On a star, over split columns: there is a coordinator, and the labels are with a party named "labels".
METHODS: dict[str, Case] = {
    "frank-wolfe, least squares": Case(
        co.DistributedFrankWolfe(rounds=6, tolerance=0.0), co.Problem(co.LeastSquares(), co.L1Ball(2.0))
    ),
    "frank-wolfe, logistic, simplex, intercept": Case(
        co.DistributedFrankWolfe(rounds=6, tolerance=0.0, step=co.OpenLoop()),
        co.Problem(co.Logistic(), co.Simplex(3.0), intercept=True),
    ),
    "frank-wolfe, groups": Case(
        co.DistributedFrankWolfe(rounds=4, tolerance=0.0, step=co.LineSearch()),
        co.Problem(co.SquaredHinge(), co.GroupL1Ball(2.0, groups=((0, 1), (2,), (3, 4), (5,), (6, 7)))),
    ),
    "adaboost": Case(co.DistributedFrankWolfe(rounds=4, tolerance=0.0), co.AdaBoost(0.5)),
    "central private frank-wolfe": Case(
        co.CentralFrankWolfe(rounds=4),
        co.Problem(co.Logistic(), co.L1Ball(2.0)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="nobody", feature_bound=1.0),
        parties={"holder": slice(None)},
        label="holder",
    ),
    "private gram, secure": Case(
        co.PrivateGram(),
        co.Problem(co.Logistic(), penalty=co.Ridge(0.1), intercept=True),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="secure", row_norm=3.0),
    ),
    "private gram, parties": Case(
        co.PrivateGram(),
        co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="parties", row_norm=3.0, label_bound=2.0),
    ),
    "private gram, labels apart": Case(
        co.PrivateGram(cross="none"),
        co.Problem(co.LeastSquares(), penalty=co.Lasso(0.1)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="nobody", row_norm=3.0, label_bound=2.0),
    ),
    "block frank-wolfe": Case(
        co.BlockFrankWolfe(co.PerParty(1), rounds=6, tolerance=0.0),
        co.Problem(co.LeastSquares(), co.Product(co.L1Ball(1.0), "columns")),
    ),
    "private block frank-wolfe": Case(
        co.PrivateBlockFrankWolfe(rounds=2),
        co.Problem(co.LeastSquares(), co.L1Ball(2.0)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="nobody", feature_bound=1.0, label_bound=2.0),
    ),
    "private block frank-wolfe, consortium": Case(
        co.PrivateBlockFrankWolfe(rounds=2),
        co.Problem(co.Logistic(), co.L1Ball(2.0)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="consortium", feature_bound=1.0),
    ),
    "sharing admm": Case(
        co.SharingADMM(rounds=6, tolerance=0.0),
        co.Problem(co.Logistic(), penalty=co.Lasso(0.05), intercept=True),
    ),
    "private sharing admm": Case(
        co.PrivateSharingADMM(rounds=3),
        co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="nobody", row_norm=3.0, label_bound=2.0),
    ),
}
# Without a coordinator, or over split rows, where every party holds the labels of its rows.
RIDGE = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
PLAIN = co.Problem(co.LeastSquares())
LASSO = co.Problem(co.LeastSquares(), co.L1Ball(2.0))
KERNEL = co.KernelSVM(co.RBF(0.5), 10.0)
WALK = partial(co.DistributedFrankWolfe, rounds=4, tolerance=0.0)
OTHER_METHODS: dict[str, Case] = {
    "frank-wolfe, tree": Case(WALK(topology=co.Topology.tree(4)), LASSO),
    "frank-wolfe, general graph": Case(WALK(topology=co.Topology.ring(4)), LASSO),
    "adaboost, tree": Case(WALK(topology=co.Topology.line(4)), co.AdaBoost(0.5)),
    "kernel svm": Case(WALK(), KERNEL, by="rows"),
    "kernel svm, tree": Case(WALK(topology=co.Topology.tree(3)), KERNEL, by="rows"),
    "kernel svm, general graph": Case(WALK(step=co.LineSearch(), topology=co.Topology.ring(3)), KERNEL, by="rows"),
    "private gram, ring": Case(
        co.PrivateGram(topology=co.Topology.ring(4)),
        co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1)),
        privacy=co.Privacy(epsilon=1.0, delta=1e-6, trust="parties", row_norm=3.0, label_bound=2.0),
    ),
    "graph ridge": Case(co.GraphRidge(co.Topology.line(4), rounds=6), RIDGE),
    "graph admm": Case(
        co.GraphADMM(co.Topology.ring(4), rounds=6), co.Problem(co.Logistic(), penalty=co.Lasso(0.05), intercept=True)
    ),
    "graph tls, columns": Case(co.GraphTLS(co.Topology.line(4)), PLAIN),
    "graph tls, rows": Case(co.GraphTLS(co.Topology.line(3), rounds=6), PLAIN, by="rows"),
    "graph zeroth order, columns": Case(co.GraphZerothOrder(co.Topology.line(4), rounds=4, steps=2, seed=1), RIDGE),
    "graph zeroth order, rows": Case(
        co.GraphZerothOrder(co.Topology.ring(3), rounds=4, steps=2, seed=1), PLAIN, by="rows"
    ),
}
EVERY_METHOD = METHODS | OTHER_METHODS  # what the contract of an engine goes through
# One of each kind: what an engine that is slow to start goes through in every run; `make faults` goes through all.
OF_EACH_KIND = (
    *("frank-wolfe, least squares", "adaboost", "private gram, secure", "private block frank-wolfe, consortium"),
    *("private sharing admm", "frank-wolfe, tree", "kernel svm", "graph admm", "graph zeroth order, rows"),
)
EXACT_METHODS = {name: case for name, case in METHODS.items() if case.privacy is None}
ENGINES: dict[str, Callable[[], Any]] = {"in process": co.InProcess}


def federation(case: Case, **options: Any) -> co.Federation:
    """Thirty rows, eight columns, labels that the case's loss accepts."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 8))
    y = X[:, 0] - X[:, 3] + 0.3 * rng.normal(size=30)
    y = np.sign(y) if case.problem.loss.classifies else y
    return co.Federation.split(X, y, parties=case.parties, label=case.label, by=case.by, **options)


def fitted(case: Case, engine: Any = None, store: Any = None, fed: co.Federation | None = None) -> co.Fit:
    """The case solved; private cases with repeatable noise, in a store of their own unless one is given."""
    noise = None if case.privacy is None else SeededNoise(1)
    # Public randomness follows from the run's id: the same id, the same run.
    with tempfile.TemporaryDirectory() as own, mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        folder = store or (own if case.privacy is not None else None)
        return co.fit(
            fed or federation(case), case.problem, case.method, case.privacy, engine=engine, store=folder, noise=noise
        )


# ------------------------------------------------------------------------------------------------ nodes without a
# federation

TERMS = Terms("toy", "toy()", "nobody", "one row", "replace one row", "0")
FREELY: Plan = (Charge(EXACT, 10_000, "anything"),)


def ledger(plan: Plan = FREELY, policy: co.Policy | None = None, log: Log | None = None, name: str = "a") -> Ledger:
    """A ledger that has opened the run "run" with this plan."""
    made = Ledger(log or MemoryLog(), name, policy or co.Policy(exact=True))
    made.open_run("run", TERMS, {name: plan})
    return made


def gate(plan: Plan = FREELY, policy: co.Policy | None = None, log: Log | None = None) -> Gate:
    """A gate over such a ledger."""
    return Gate(ledger(plan, policy, log), "run", SystemNoise())


@dataclass
class Toy:
    """A node to be: its program as a function of its gate."""

    program: Callable[[Gate], Program[Any]]
    neighbours: tuple[str, ...]
    guarded: bool = False
    replies: dict[type | None, type] = field(default_factory=dict)
    plan: Plan = FREELY


def nodes(toys: dict[str, Toy], logs: dict[str, FileLog] | None = None) -> dict[str, Node]:
    """Nodes that an engine can run; recorded where `logs` are given."""
    made = {}
    for name, toy in toys.items():
        log = logs[name] if logs else MemoryLog()
        own = Gate(ledger(toy.plan, log=log, name=name), "run", SystemNoise())
        setup = NodeSetup(name, toy.program, toy.neighbours, toy.guarded, toy.replies, co.Policy())
        made[name] = Node(setup, own, Transcript(log, "run"))
    return made
