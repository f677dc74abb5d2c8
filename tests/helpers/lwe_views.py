"""Tables for products under learning with errors, and what every node sees of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import colonnade as co
from colonnade.methods.gram import lattice as gram_lattice
from colonnade.methods.gram import products as gram_products
from colonnade.methods.gram.products import Collected
from colonnade.methods.gram.rows import Layout
from colonnade.methods.gram.rule import GramRule, PublicColumns, RowFrame, prepare
from colonnade.model.job import Job, Sums
from colonnade.privacy.events import unprotected
from colonnade.privacy.exchange import Exchange, Mechanism, Side, settle
from colonnade.privacy.gate import Gate, Weights
from colonnade.privacy.values import Private
from colonnade.runs.call import blocks_with_labels
from colonnade.runs.fit import RunDriver
from colonnade.runtime.run_store import MemoryStore
from tests.helpers.gram_runs import NoNoise, running

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
NUMBERS = co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True)
TERMS = co.Privacy(1.0, 1e-6, trust="parties", row_norm=3.0, feature_bound=2.0)
PARTIES = {"a": [0, 1, 5], "b": [2], "c": [3, 4]}  # c sends to a and receives from b


def table(seed: int = 0, rows: int = 150) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(rows, 6)), -2, 2)
    return X, np.where(X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)


def federation(data: tuple[np.ndarray, np.ndarray] | None = None) -> co.Federation:
    X, y = data or table()
    return co.Federation.split(X, y, parties=PARTIES, label="b")


Parts = tuple[np.ndarray, ...]


class Views:
    """What every party gave its gate to noise, in one run without noise."""

    def __init__(
        self,
        fed: co.Federation,
        problem: co.Problem,
        terms: co.Privacy,
        monkeypatch: pytest.MonkeyPatch,
        like: Views | None = None,
    ) -> None:
        self.given: list[tuple[str, Parts, tuple[Weights, ...], float]] = []  # party, numbers, weights, sensitivity
        self.exchanges: list[Exchange] = []
        self.frame: RowFrame | None = None
        self.sums: Sums | None = None
        integers, rest = Gate.integers, Gate.the_rest

        def note(gate: Gate, exact: Private[Parts], weights: tuple[Weights, ...]) -> None:
            self.given.append((gate.node, exact.value, weights, exact.sensitivity))

        def look(gate: Gate, exact: Private[Parts], weights: tuple[Weights, ...], masks: Any, **more: Any) -> Any:
            note(gate, exact, weights)
            return integers(gate, exact, weights, masks, **more)

        def look_on(gate: Gate, exact: Private[Parts], weights: tuple[Weights, ...], masks: Any) -> Any:
            note(gate, exact, weights)
            return rest(gate, exact, weights, masks)

        def settled(sides: Mapping[str, Side], pairs: tuple[tuple[str, str], ...], mechanism: Mechanism) -> Exchange:
            self.exchanges.append(settle(sides, pairs, mechanism))
            return self.exchanges[-1]

        gram_matrix = gram_products.gram_matrix

        def matrix(layout: Layout, got: Collected) -> np.ndarray:
            self.figures, self.matrix = layout.figures, gram_matrix(layout, got)
            return self.matrix

        def remember(rule: GramRule, columns: PublicColumns, rows: int, sums: Sums | None) -> tuple[GramRule, RowFrame]:
            self.sums = sums
            rule, self.frame = prepare(rule, columns, rows, like.sums if like else sums)
            return rule, self.frame

        with monkeypatch.context() as patch:
            patch.setattr(Gate, "integers", look)
            patch.setattr(Gate, "the_rest", look_on)
            patch.setattr(Gate, "lattice_seed", lambda gate, digest: (gate.node.encode() * 32)[:32])
            patch.setattr(gram_lattice, "settle", settled)
            patch.setattr(gram_products, "gram_matrix", matrix)
            patch.setattr(gram_products, "prepare", remember)
            self.job, method = Job(problem, fed.roster(), terms), co.PrivateGram()
            method.check(self.job)
            plans = {name: unprotected(plan) for name, plan in method.price(self.job).items()}
            blocks = blocks_with_labels(fed, self.job)
            driver = RunDriver("run", fed, self.job, method, plans, blocks, MemoryStore(), lambda _: None, NoNoise(0))
            with driver.hosted(co.InProcess()):
                self.fit = running.drive_and_save(driver)

    def distance(self, other: Views) -> float:
        """How far all that is seen has moved, each number by the weight of its noise: own sums, and what senders open.

        Answers are left out, uniform numbers to whoever does not open them.
        """
        total = 0.0
        for (_, values, weights, _), (_, others, _, _) in zip(self.given, other.given, strict=True):
            for one, two, weight in zip(values, others, weights, strict=True):
                if one.dtype != np.uint64:
                    total += float((((one - two).astype(float)) ** 2 / np.square(weight)).sum())
        return math.sqrt(total)
