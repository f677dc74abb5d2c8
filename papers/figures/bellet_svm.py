"""Kernel machines on a9a whose examples different nodes hold, for figure 2 of Bellet et al.

Problem  min αᵀK̃α over the unit simplex, the dual of the L2-loss SVM, RBF kernel exp(−‖x − z‖²/(2σ²)) with σ the mean distance between
         examples, C = 100 unless another one is given. The gap 2(αᵀK̃α − min_j (K̃α)_j) is taken over all examples, for all methods.
Sent     numbers on all edges: an entry of an example is two, its place and its value, and its label two more. What a baseline chooses
         reaches every node, as in the walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.problem.kernel import ROWS_AT_ONCE
from papers import partition
from papers.figure import Row
from papers.registry import data_folder

C = 100.0


@lru_cache(maxsize=1)
def adult() -> tuple[Any, Floats]:
    """32,561 examples of 123 binary features, labels ±1."""
    folder = data_folder()
    if folder is None or not (folder / "a9a").is_dir():
        raise InvalidInput("this figure reads a9a: set COLONNADE_DATA to the folder that has it.")
    X = sparse.csr_array(sparse.load_npz(folder / "a9a" / "X_train.npz"), dtype=np.float64)
    return X, np.array(np.lib.format.open_memmap(folder / "a9a" / "y_train.npy", mode="r"), dtype=np.float64)


@lru_cache(maxsize=1)
def kernel() -> co.RBF:
    """The paper's bandwidth: from the mean distance, here between 2,000 examples drawn at random."""
    X, _ = adult()
    some = X[np.random.default_rng(0).choice(X.shape[0], 2000, replace=False)].toarray()
    squares = (some**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2.0 * some @ some.T, 0.0))
    sigma = float(distances.sum()) / (2000 * 1999)
    return co.RBF(1.0 / (2.0 * sigma**2))


def walk(X: Any, y: Floats, nodes: int, rounds: int, cost: float = C) -> tuple[list[Row], Indices]:
    """Distributed Frank-Wolfe with line search on a star: gap and what had been sent, by round; and the examples chosen."""
    federation = co.Federation.split(sparse.csc_array(X), y, parties=nodes, by="rows")
    fit = co.fit(federation, co.KernelSVM(kernel(), cost), co.DistributedFrankWolfe(rounds, 0.0, co.LineSearch()))
    spent = {line["round"]: line["numbers"] for line in fit.communication.by("round").to_dicts()}
    rows, numbers = list[Row](), 0
    for note in fit.notes[1:]:  # before the first step there is no gap
        numbers += spent.get(int(note["round"]) - 1, 0)
        rows.append(_row(int(note["round"]) - 1, float(note["objective"]), float(note["gap"]), numbers))
    assert fit.objective is not None
    assert fit.gap is not None
    chosen = [federation.places[party][np.flatnonzero(own)] for party, own in fit.coefficients.items()]
    return [*rows, _row(rounds, fit.objective, fit.gap, numbers + spent.get(rounds, 0))], np.concatenate(chosen)


def _row(points: int, objective: float, gap: float, numbers: int) -> Row:
    return {"points": points, "objective": objective, "gap": gap, "numbers": numbers}


def shared_out(X: Any, cut: str, nodes: int, seed: int) -> list[Indices]:
    """The examples of every node: uniform, weighted or by similarity (partition.py, of which an example is a column here)."""
    made = {
        "uniform": lambda: partition.uniform(X.shape[0], nodes, seed),
        "weighted": lambda: partition.weighted(X.shape[0], nodes, seed),
        "similar": lambda: partition.similar(sparse.csc_array(X.T), nodes, seed),
    }[cut]()
    return [np.array(own) for own in made.values()]


def drawn(parts: Sequence[Indices], each: int, seed: int) -> Indices:
    """Every node draws so many of its examples at random."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.choice(own, min(each, own.size), replace=False) for own in parts])


def local(X: Any, y: Floats, parts: Sequence[Indices], each: int, cost: float = C) -> Indices:
    """Every node's own Frank-Wolfe, with line search, for so many rounds: the examples that it met."""
    found = list[int]()
    for own in parts:
        block, labels = X[own], y[own]
        gradient, value, met = np.zeros(own.size), 0.0, dict[int, None]()
        for t in range(each):
            index = int(gradient.argmin())
            column = dual_table(block, labels, block[[index]], labels[[index]])[:, 0]
            column[index] += 1.0 / cost
            bend = value - 2.0 * float(gradient[index]) + float(column[index])
            if t and bend <= 0.0:  # the only example of this node, met before
                break
            step = min(max((value - float(gradient[index])) / bend, 0.0), 1.0) if t else 1.0
            value = (
                (1 - step) ** 2 * value
                + 2 * step * (1 - step) * float(gradient[index])
                + step**2 * float(column[index])
            )
            gradient = (1 - step) * gradient + step * column
            met[index] = None
        found += own[sorted(met)].tolist()
    return np.array(found)


def dual_table(X: Any, y: Floats, Z: Any, labels: Floats) -> Floats:
    """y_i y_j (k(x_i, z_j) + 1): K̃ without its diagonal."""
    return np.asarray(y[:, None] * labels[None, :] * (kernel()(X, Z) + 1.0))


def solved(X: Any, y: Floats, chosen: Indices, nodes: int, cost: float = C) -> Row:
    """The best machine on these examples, its gap over all of them, and how many numbers travel until every node has them."""
    points, labels = X[chosen], y[chosen]
    K = dual_table(points, labels, points, labels) + np.eye(chosen.size) / cost
    alpha, nothing = np.full(chosen.size, 1.0 / chosen.size), np.zeros(chosen.size)
    alpha = quadratic_minimum(2.0 * K, nothing, 1.0, alpha, signed=False)
    value = float(alpha @ K @ alpha)
    gradient = np.empty(y.size)
    for start in range(0, y.size, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        gradient[rows] = dual_table(X[rows], y[rows], points, labels) @ alpha
    np.add.at(gradient, chosen, alpha / cost)
    return _row(
        int(chosen.size), value, 2.0 * (value - float(gradient.min())), nodes * 2 * int(points.nnz + chosen.size)
    )
