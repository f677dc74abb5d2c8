"""Private Gram without a coordinator: the same bits at every party and as with one, beside `secure` in bytes, time and AUC.

    python -m benchmarks graph_gram           2, 4 and 8 parties of 1,000 rows; credit-default
    python -m benchmarks graph_gram --full    2 to 16 parties; flights, a9a and credit-default

Graphs   ring, tree and random graph of so many parties with 3 columns each. Noise, secrets and public matrices are drawn
         by the order of a party's releases from a seed, so that a run with a coordinator (trust "parties") draws the
         same: its Gram matrix and coefficients must be those of every party on every graph, bit by bit, or it fails.
         CPU s of all nodes in one process, megabytes that all nodes sent, and messages; beside them trust "secure".
AUC      of held-out rows at epsilon 1: the parties of the data set on a ring, and with trust "secure", on the same splits,
         with noise of their own. It fails if they differ by more than 4 standard errors and .002.
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import colonnade as co
from benchmarks.gram import DELTA, PROBLEM, auc, load, splits
from colonnade.methods.gram import graph as gram_graph
from colonnade.methods.gram.lattice import Products
from colonnade.model.job import Own
from colonnade.privacy.mechanisms import SeededNoise

SIZES = (2, 4, 8, 16)
SPLITS = {"credit-default": 10, "a9a": 10, "flights": 3}
GRAPHS = {"ring": co.Topology.ring, "tree": co.Topology.tree, "random": co.Topology.random}
TERMS = co.Privacy(1.0, 1e-6, trust="parties", row_norm=3.0, feature_bound=2.0)
APART, ERRORS = 0.002, 4.0  # of AUC, and of its standard errors: the most that a graph may be off


def main(quick: bool = True) -> int:
    with threadpool_limits(limits=1):
        passed = [size(count) for count in SIZES[: 3 if quick else 4]]
        for name, count in SPLITS.items():
            if name == "credit-default" or not quick:
                passed.append(held_out(name, count))
    return int(not all(passed))


# ------------------------------------------------------------------------------------------------ the same bits


class InOrder(SeededNoise):
    """Noise by the order in which a party asks for it, not by its place in a run."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._asked = 0

    def at(self, place: str) -> SeededNoise:
        if not re.fullmatch(r"\d+/\d+|lattice .*", place):
            return InOrder(super().at(place).seed)
        self._asked += 1
        return super().at(f"release {self._asked}")


def stage_key(products: Products) -> bytes:
    """What the public matrix grows from: the same in every run."""
    return hashlib.sha256(repr(sorted(products.exchange.sides)).encode() + bytes([products.exchange.cut])).digest()


@contextmanager
def watched() -> Iterator[dict[str, Own]]:
    """What every party of a run on a graph ended with."""
    found: dict[str, Own] = {}
    peer, public = gram_graph.peer, Products.public

    def look(form: Any, block: Any, gate: Any, topology: Any) -> Any:
        own = yield from peer(form, block, gate, topology)
        found[gate.node] = own
        return own

    gram_graph.peer, Products.public = look, property(stage_key)  # type: ignore[assignment,method-assign]
    try:
        yield found
    finally:
        gram_graph.peer, Products.public = peer, public  # type: ignore[method-assign]


def table(parties: int, rows: int = 1_000, columns: int = 3) -> co.Federation:
    rng = np.random.default_rng(parties)
    X = np.clip(rng.normal(size=(rows, parties * columns)), -2, 2)
    y = np.where(X[:, 0] - X[:, -1] + rng.normal(size=rows) > 0, 1.0, -1.0)
    held = {f"p{k:02d}": slice(columns * k, columns * (k + 1)) for k in range(parties)}
    return co.Federation.split(X, y, parties=held, label="p00")


def run(fed: co.Federation, method: Any, terms: co.Privacy, noise: SeededNoise | None) -> tuple[co.Fit, str]:
    with tempfile.TemporaryDirectory() as store:
        began = time.process_time()
        fit = co.fit(fed, PROBLEM, method, terms, store=store, noise=noise)
        sent = fit.communication
        return fit, f"{time.process_time() - began:6.1f} s {sent.bytes / 1e6:8.2f} MB {sent.messages:6,} messages"


def size(parties: int) -> bool:
    fed = table(parties)
    print(f"{parties} parties of 3 columns, {fed.rows:,} rows, epsilon 1")
    print(f"  secure    {run(fed, co.PrivateGram(), replace(TERMS, trust='secure'), None)[1]}")
    with watched() as found:
        star, cost = run(fed, co.PrivateGram(), TERMS, InOrder(0))
        print(f"  with a coordinator {cost[2:]}")
        right = True
        for name, graph in GRAPHS.items():
            if parties < 4 and name == "random":
                continue
            found.clear()
            fit, cost = run(fed, co.PrivateGram(topology=graph(parties)), TERMS, InOrder(0))
            same = all(_same(own, star) for own in found.values()) and len(found) == parties
            right = right and same and np.array_equal(fit.release.matrix, star.release.matrix)
            print(f"  {name:8s}  {cost}   the same bits at all parties, and as with a coordinator: {same}")
    return right


def _same(own: Own, fit: co.Fit) -> bool:
    assert own.answer is not None
    assert own.answer.release is not None
    known = all(np.array_equal(own.answer.coefficients[name], x) for name, x in fit.coefficients.items())
    return known and own.answer.intercept == fit.intercept


# ------------------------------------------------------------------------------------------------ beside `secure`


def held_out(name: str, count: int) -> bool:
    data = load(name)
    if data is None:
        return True
    ring, areas, costs = co.Topology.ring(len(data.parties)), [], []
    ways = {"secure": co.PrivateGram(), "parties": co.PrivateGram(topology=ring)}
    for train, test in splits(data, count):
        fed, found = data.federation(train), []
        for trust, method in ways.items():
            fit, cost = run(fed, method, co.Privacy(1.0, DELTA, trust=trust), None)
            x = np.concatenate([fit.coefficients[party] for party in data.parties])
            found.append(auc(data.y[test], data.with_curve_depth(fit.depth).matrix[test] @ x))
            costs.append(f"  {trust:8s} {found[-1]:.4f}  {cost}")
        areas.append(found)
    both = np.array(areas)
    apart = both[:, 1] - both[:, 0]
    error = float(apart.std(ddof=1)) / math.sqrt(count)
    mean = both.mean(axis=0)
    print(f"{name}: {len(data.parties)} parties on a ring, {data.matrix.shape[0]:,} rows, epsilon 1, {count} splits")
    print("\n".join(costs))
    print(f"  AUC secure {mean[0]:.4f}, ring {mean[1]:.4f}: {apart.mean():+.4f} ± {error:.4f}", flush=True)
    return bool(abs(apart.mean()) <= max(APART, ERRORS * error))
