"""The lasso on Dorothea over 100 nodes, for the figures of Bellet et al.: distributed Frank-Wolfe, its rivals, what each sends.

Excess   what the curves show. For distributed Frank-Wolfe and the baselines loss(x) − the least loss in the ball of radius beta. ADMM
         solves the penalised form, and its iterates lie outside the ball: theirs is loss(x) + lam‖x‖₁ − its minimum, which is at
         most the former for a point of the ball, so the comparison never favours Frank-Wolfe.
lam      the largest |entry| of the gradient at the least loss in the ball: its multiplier, so that the penalised problem has the same
         solution, of l1 norm beta. (The paper goes the other way, from lam to the norm of its solution.)
Sent     numbers on all edges, as the paper counts: an entry of a sparse column is two, its place and its value. Labels are not counted.
         What the baselines choose reaches every node, as in the walk: up once, and down to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from papers import partition
from papers.baselines import random_atoms
from papers.figure import Row
from papers.figures.watched_runs import timed
from papers.published.boyd_sharing import boyd_sharing
from papers.registry import data_folder

if TYPE_CHECKING:
    import polars as pl

NODES, LOSS = 100, co.LeastSquares()
PARTITIONS: dict[str, Callable[[Any, int], dict[str, list[int]]]] = {
    "uniform": lambda X, seed: partition.uniform(X.shape[1], NODES, seed),
    "weighted": lambda X, seed: partition.weighted(X.shape[1], NODES, seed),
    "similar": lambda X, seed: partition.similar(X, NODES, seed),
}


@lru_cache(maxsize=1)
def dorothea() -> tuple[Any, Floats]:
    """800 rows, 100,000 sparse 0/1 columns, labels ±1: the examples whose labels are public, as they are."""
    folder = data_folder()
    if folder is None or not (folder / "dorothea").is_dir():
        raise InvalidInput("this figure reads dorothea: set COLONNADE_DATA to the folder that has it.")
    X = sparse.csc_array(sparse.load_npz(folder / "dorothea" / "X_train.npz"), dtype=np.float64)
    return X, np.array(np.lib.format.open_memmap(folder / "dorothea" / "y_train.npy", mode="r"), dtype=np.float64)


@dataclass(frozen=True)
class Reference:
    """The least loss in the ball, and the weight of the equivalent penalty."""

    loss: float
    lam: float


def reference(X: Any, y: Floats, beta: float, near: float) -> Reference:
    """By our own solver on one machine, until the certified gap is `near` times the objective at zero."""
    alone = co.Federation.split(X, y, parties=1)
    gap = near * LOSS.value(np.zeros(y.size), y)
    fit = co.fit(alone, co.Problem(LOSS, co.L1Ball(beta)), co.DistributedFrankWolfe(5000, gap))
    assert fit.objective is not None
    gradient = X.T @ LOSS.slope(X @ fit.coefficients["party0"], y)
    return Reference(fit.objective, float(np.abs(gradient).max()))


def walk(X: Any, y: Floats, beta: float, step: Any, rounds: int) -> tuple[co.Fit, list[Row]]:
    """Distributed Frank-Wolfe on a star: objective, what was sent and CPU seconds, round by round."""
    federation, seconds = co.Federation.split(X, y, parties=NODES), list[float]()
    method = timed(co.DistributedFrankWolfe(rounds, 0.0, step), seconds)
    fit = co.fit(federation, co.Problem(LOSS, co.L1Ball(beta)), method)
    return fit, followed(fit, seconds)


def admm(X: Any, y: Floats, lam: float, rounds: int, coupling: float | None = None) -> tuple[co.Fit, list[Row]]:
    """The library's sharing ADMM on the penalised form; rho is the coupling over n, or balanced by itself."""
    federation, seconds = co.Federation.split(X, y, parties=NODES), list[float]()
    method = timed(co.SharingADMM(rounds, 0.0, coupling), seconds)
    fit = co.fit(federation, co.Problem(LOSS, penalty=co.Lasso(lam)), method)
    return fit, [
        {**row, "round": int(row["round"] or 0) + 1} for row in followed(fit, seconds)
    ]  # a note follows its exchange


def published_admm(X: Any, y: Floats, lam: float, rounds: int, rho: float, relaxation: float) -> list[Row]:
    """The same by Boyd's form with a fixed rho and relaxation; what it sends is counted as 2 N n numbers a round."""
    blocks = [sparse.csc_array(X[:, own]) for own in np.array_split(np.arange(X.shape[1]), NODES)]
    penalty, rows = co.Lasso(lam), list[Row]()
    steps = boyd_sharing(blocks, y, LOSS, penalty, rho=rho, relaxation=relaxation)
    for t, x in enumerate(islice(steps, rounds), 1):
        scores = np.asarray(sum(block @ own for block, own in zip(blocks, x, strict=True)))
        objective = LOSS.value(scores, y) + sum(penalty.value(own) for own in x)
        numbers = 2 * NODES * y.size * t
        rows.append({"round": t, "objective": float(objective), "numbers": numbers, "bytes": 8 * numbers})
    return rows


def followed(fit: co.Fit, seconds: Sequence[float]) -> list[Row]:
    """Of every round its objective, and what had been sent and how long all nodes had worked when it was known."""
    spent = {line["round"]: line for line in fit.communication.by("round").to_dicts()}
    label = fit.communication.by("type", "round").to_dicts()
    labels = [line for line in label if line["type"] in ("Labels", "Begin", "SendLabels")]
    rows, numbers, size = list[Row](), 0, 0
    for note, taken in zip(fit.notes, seconds, strict=True):
        before = int(note["round"]) - 1  # the objective of a note is known before its round's messages leave
        if before in spent:
            own = [line for line in labels if line["round"] == before]
            numbers += spent[before]["numbers"] - sum(line["numbers"] for line in own)
            size += spent[before]["bytes"] - sum(line["bytes"] for line in own)
        row: Row = {"round": before, "objective": float(note["objective"]), "numbers": numbers, "bytes": size}
        rows.append({**row, "seconds": taken})
    return rows


def drawn_columns(owned: Mapping[str, Sequence[int]], each: int, seed: int) -> list[int]:
    """Every node draws so many of its columns at random."""
    rng = np.random.default_rng(seed)
    return [int(j) for own in owned.values() for j in rng.choice(own, min(each, len(own)), replace=False)]


def local_columns(X: Any, y: Floats, owned: Mapping[str, Sequence[int]], each: int, beta: float) -> list[int]:
    """Every node's own Frank-Wolfe, with line search, until it has met so many columns."""
    ball, found = co.L1Ball(beta), list[int]()
    for own in owned.values():
        block = X[:, list(own)].tocsc()
        scores, atoms = np.zeros(y.size), dict[int, None]()
        for _ in range(3 * each):  # a column may win again
            if len(atoms) == min(each, len(own)):
                break
            index, weight = ball.vertex(block.T @ LOSS.slope(scores, y))
            atoms[index] = None
            direction = weight * block[:, [index]].toarray().ravel() - scores
            scores = scores + LOSS.minimise_along(scores, direction, y) * direction
        found += [int(own[index]) for index in atoms]
    return found


def solved(X: Any, y: Floats, beta: float, chosen: Sequence[int]) -> tuple[float, int]:
    """The least loss on these columns, and how many numbers travel until every node has them."""
    block = X[:, sorted(set(chosen))].tocsc()
    best = random_atoms(co.Problem(LOSS, co.L1Ball(beta)), block.toarray(), y, block.shape[1], 0)
    return best.objective, NODES * 2 * int(block.nnz)


def drawn_rows(curve: pl.DataFrame) -> pl.DataFrame:
    """All rows of a short curve; of a long one the first hundred, and then every so many."""
    return curve[:100].vstack(curve[100:].gather_every(max(1, len(curve) // 100)))


def sent_until(table: pl.DataFrame, excess: float) -> float:
    """How many numbers a curve needs to come down to this excess; infinite where it does not."""
    return min((row["numbers"] for row in table.to_dicts() if row["excess"] <= excess), default=float("inf"))


def at_most(table: pl.DataFrame, sent: float) -> float:
    """The least excess of a curve within so many numbers; infinite where it has not begun."""
    return min((row["excess"] for row in table.to_dicts() if row["numbers"] <= sent), default=float("inf"))
