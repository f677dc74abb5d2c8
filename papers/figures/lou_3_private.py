"""What figures 3 to 9 of Lou and Cheung share: their algorithm 2 round by round, the central method it is compared with, and ours.

as published            algorithm 2 with the printed noise (papers/published/block_frank_wolfe.py, whose last iterate a test compares)
    noise off           the same rounds without any noise
    vertices averaged   as published, but each party's vertex counts 1/K, so that x stays in the ball
central, as published   Talwar, Thakurta and Zhang: Laplace noise on every slope, scale √(8T ln(1/δ))/(n ε)
ours                    PrivateBlockFrankWolfe with the calibration of docs/understand/privacy/frank-wolfe.md, by co.fit; its last iterate

Losses are 1/(2n) ‖y − A x‖² over that at x = 0. Noise is seeded, so that a figure can be repeated: such runs protect nobody.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.problem import PublicLabels
from papers.figure import Row, stated
from papers.plot import Panel
from papers.published import PublishedBlockFrankWolfe, SketchedColumns
from papers.published.dense_sketch import gaussian_sketch

if TYPE_CHECKING:
    import polars as pl

PAPER = "Lou & Cheung 2020"
RADIUS, ROUNDS = 1.0, 20  # neither is given in the paper
CLIP = 3.0  # ours clips features to this public bound, labels to three of the standard deviations that the tables are made with
NAMES = {
    "fw": "Frank-Wolfe, not private",
    "central": "central DP-FW, as published",
    "published": "DP-BCFW as published",
    "off": "DP-BCFW, noise off",
    "averaged": "DP-BCFW, vertices averaged",
    "nobody": "ours, trust nobody",
    "consortium": "ours, trust consortium",
    "bound": "least in the ball",
}
NOISE = (
    "The printed scale of the noise on the index is 8·radius·√(2T ln(2/δ))/(n ε), whatever K is, and the largest of thousands of "
    "Laplace draws is about nine scales: above the steepest slope at these sizes, most often far above, so that most picks are chance."
)
BALL = (
    "Line 12 adds one vertex of the ball for each party, so that ‖x‖₁ reaches K·radius: the loss falls below the least that any x in the ball can have. "
    "With each vertex counted 1/K, x stays in the ball and more parties do no better."
)
ROW, SEEDED = "one row, replaced", "The noise here is seeded, so that these very runs are not private."
PUBLISHED_PRIVACY = stated(
    "as published",
    epsilon="1, or as its legend says",
    delta="1/n",
    unit=ROW,
    trust="nobody",
    guarantee="claimed by the papers, for DP-BCFW refuted (papers/findings.md)",
)
PRIVACY = " ".join(
    (
        PUBLISHED_PRIVACY,
        stated(
            "Ours",
            epsilon="1",
            delta="1/n",
            unit=ROW,
            trust="nobody (all who see a message; labels are public) or consortium (readers of the model only)",
            guarantee="proven for the mechanism",
            note=SEEDED,
        ),
    )
)
PUBLISHED_ONLY = f"{PUBLISHED_PRIVACY} {SEEDED}"


def published_iterates(
    A: Any, y: Floats, claim: PublishedBlockFrankWolfe, sketch_rows: int, rng: np.random.Generator, **how: float
) -> Iterator[Floats]:
    """Algorithm 2 of the paper: x before every round, and after the last.

    index_share   of epsilon goes to the index, the rest to the sketch; the paper's is one half
    noise         multiplies all noise; 0 turns it off
    weight        of each party's vertex; 1 as published, 1/K to stay in the ball
    """
    share, noise, weight = how.get("index_share", 0.5), how.get("noise", 1.0), how.get("weight", 1.0)
    n, d = A.shape
    sketch = gaussian_sketch(rng.bytes(32), sketch_rows, n)
    sketched = np.asarray((A.T @ sketch.T).T)
    parties, rounds, radius = claim.parties, claim.rounds, claim.radius * weight
    sigma = noise * SketchedColumns(2 * (1 - share) * claim.epsilon, claim.delta, parties, rounds).sigma(sketch)
    index = PublishedBlockFrankWolfe(2 * share * claim.epsilon, claim.delta, parties, rounds, claim.radius)
    scale, moment = noise * index.index_scale(n), np.asarray(A.T @ y) / n
    x, q = np.zeros(d), np.zeros(sketch_rows)
    for t in range(rounds):
        yield x
        step, vertex, moved = 2 / (t + 2), np.zeros(d), np.zeros(sketch_rows)
        for own in np.array_split(np.arange(d), parties):
            gradient = sketched[:, own].T @ q - moment[own]  # line 6
            noisy = gradient + scale * rng.laplace(size=own.size)  # line 7
            best = int(np.abs(noisy).argmax())  # line 8
            column = sketched[:, own[best]] + sigma * rng.standard_normal(sketch_rows)  # line 9
            vertex[own[best]] -= radius * np.sign(noisy[best])  # line 12
            moved -= np.sign(noisy[best]) * radius / n * column
        x = (1 - step) * x + step * vertex  # line 13
        q = (1 - step) * q + step * moved  # line 14
    yield x


def central_iterates(A: Any, y: Floats, scale: float, rng: np.random.Generator) -> Iterator[Floats]:
    """Frank-Wolfe over the ball of radius RADIUS, Laplace noise of this scale on every slope; 0 for none."""
    n, d = A.shape
    x, prediction = np.zeros(d), np.zeros(n)
    for t in range(ROUNDS):
        yield x
        noisy = np.asarray(A.T @ (prediction - y)) / n + scale * rng.laplace(size=d)
        best, step = int(np.abs(noisy).argmax()), 2 / (t + 2)
        weight = -RADIUS * float(np.sign(noisy[best]))
        x = (1 - step) * x
        x[best] += step * weight
        prediction = (1 - step) * prediction + step * weight * A[:, [best]].toarray().ravel()
    yield x


def central_scale(rows: int, epsilon: float) -> float:
    return math.sqrt(8 * ROUNDS * math.log(rows)) / (rows * epsilon)  # delta = 1/n


def ours(A: Any, y: Floats, trust: str, label_bound: float, seed: int, feature_bound: float = CLIP) -> Floats:
    """The model that the library fits at epsilon = 1, delta = 1/n, on values clipped to public bounds."""
    clipped = A.copy()
    clipped.data = np.clip(clipped.data, -feature_bound, feature_bound)
    labels = np.clip(y, -label_bound, label_bound)
    method = co.PrivateBlockFrankWolfe(rounds=ROUNDS, labels=PublicLabels(labels) if trust == "nobody" else None)
    terms = co.Privacy(
        1.0, 1 / y.size, trust, feature_bound=feature_bound, label_bound=label_bound, allow_large_delta=True
    )  # the paper's delta, which the library asks to be told of
    federation = co.Federation.split(clipped, labels, parties=4)
    with tempfile.TemporaryDirectory() as store:
        problem = co.Problem(co.LeastSquares(), co.L1Ball(RADIUS))
        fit = co.fit(federation, problem, method, terms, store=store, noise=co.SeededNoise(seed))
    return np.concatenate([fit.coefficients[name] for name in federation.parties if name in fit.coefficients])


class Losses:
    """Loss over that at zero, and rows of it."""

    def __init__(self, A: Any, y: Floats) -> None:
        self._A, self._y, self._zero = A, y, float(y @ y)

    def __call__(self, x: Floats) -> float:
        residual = self._A @ x - self._y
        return float(residual @ residual) / self._zero

    def least(self) -> float:
        """No x in the ball has a smaller loss: by convexity it lies above its tangent at 0."""
        return 1.0 - 2.0 * RADIUS * float(np.abs(self._A.T @ self._y).max()) / self._zero

    def rows(self, iterates: Iterator[Floats], **about: float | str) -> list[Row]:
        return [self.row(x, t, **about) for t, x in enumerate(iterates)]

    def row(self, x: Floats, t: int, /, **about: float | str) -> Row:
        return {**about, "round": t, "loss": self(x), "norm": float(np.abs(x).sum())}


# ------------------------------------------------------------------------------------------------ data, checks, curves


def real_table(name: str) -> tuple[Any, Floats]:
    """Rows and ±1 labels of a real data set, features within ±1 (the published noise is made for that)."""
    from colonnade.data.readers import read

    files = {"colon-cancer": "X.npz", "leukemia": "X_train.npz", "rcv1": "X.npz"}
    folder = Path(os.environ.get("COLONNADE_DATA", "")) / name
    if not (folder / files[name]).is_file():
        raise InvalidInput(f"{name} is not there: set COLONNADE_DATA to the folder that holds {name}/{files[name]}.")
    X, y = read(folder / files[name])
    A = sparse.csr_array(X)[y != 0].tocsc()
    A.data = np.clip(A.data if name == "rcv1" else A.data / CLIP, -1.0, 1.0)
    return A, np.where(y[y != 0] > 0, 1.0, -1.0)


def last(table: pl.DataFrame, column: str, /, **which: float | str) -> Floats:
    """The figure of the last round, one number a repeat."""
    own = table.filter(round=ROUNDS, **which).sort("seed")
    return np.asarray(own[column].to_numpy(), dtype=np.float64)


def mean(table: pl.DataFrame, **which: float | str) -> float:
    return float(last(table, "loss", **which).mean())


def gained(table: pl.DataFrame, **which: float | str) -> float:
    """How much of what the method without noise takes off the loss is taken off with the printed noise."""
    return (1 - mean(table, method="published", **which)) / (1 - mean(table, method="off", **which))


def curve(own: pl.DataFrame) -> tuple[list[float], list[float]]:
    import polars as pl

    means = own.group_by("round").agg(pl.col("loss").mean()).sort("round")
    return means["round"].to_list(), means["loss"].to_list()


def add_curves(panel: Panel, table: pl.DataFrame, methods: list[str]) -> None:
    """One curve a method; a method of which only the end is known is a mark."""
    for method in methods:
        x, y = curve(table.filter(method=method))
        panel.line(x, y, NAMES[method], joined=len(x) > 1)
