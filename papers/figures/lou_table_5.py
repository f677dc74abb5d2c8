"""Table V of Lou and Cheung: algorithm 2 for logistic and smoothed hinge loss, whose slopes are read off the sketch row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colonnade.kernels.arrays import Floats
from papers.figure import Case, Claim, Figure, Row, Verdict
from papers.figures.lou_1_2 import paper_table
from papers.figures.lou_3_private import NOISE, PAPER, PUBLISHED_ONLY
from papers.plot import Panel, Plot
from papers.published import PublishedBlockFrankWolfe
from papers.published.block_frank_wolfe import SLOPES

if TYPE_CHECKING:
    import polars as pl

ROWS, COLUMNS, SPARSITY, PARTIES, ROUNDS = 400, 2_000, 0.05, 4, 40
LOSSES: dict[str, Callable[[Floats, Floats], float]] = {
    "least squares": lambda s, y: float(np.mean((s - y) ** 2) / 2),
    "logistic": lambda s, y: float(np.mean(np.logaddexp(0.0, -y * s))),
    "smoothed hinge": lambda s, y: float(np.mean(np.maximum(0.0, 1.0 - y * s) ** 2) / 2),
}
EXACT, OFF, PRINTED = "Frank-Wolfe, not private", "DP-BCFW, noise off", "DP-BCFW as published"


def cases(quick: bool) -> list[Case]:
    return [{"loss": loss, "seed": seed} for loss in LOSSES for seed in range(3 if quick else 20)]


def run(loss: str, seed: int) -> list[Row]:
    A, scores, truth = paper_table(ROWS, COLUMNS, SPARSITY, SPARSITY, seed)
    dense, y = A.toarray(), np.where(scores > 0, 1.0, -1.0)
    radius = float(np.abs(truth).sum()) / PARTIES  # K vertices reach the truth
    claim = PublishedBlockFrankWolfe(1.0, 1 / ROWS, PARTIES, ROUNDS, radius, loss)
    value, rows = LOSSES[loss], list[Row]()
    ways = {
        EXACT: _exact(dense, y, claim),
        OFF: claim.iterates(dense, y, ROWS // 10, np.random.default_rng(seed), noise=0.0),
        PRINTED: claim.iterates(dense, y, ROWS // 10, np.random.default_rng(seed)),
    }
    for method, iterates in ways.items():
        for t, x in enumerate(iterates):
            ratio = value(dense @ x, y) / value(np.zeros(ROWS), y)
            rows.append({"loss": loss, "method": method, "seed": seed, "round": t, "ratio": ratio})
    return rows


def _exact(A: Floats, y: Floats, claim: PublishedBlockFrankWolfe) -> list[Floats]:
    """The same rounds with exact predictions in the place of the sketch's, and no noise."""
    x, found = np.zeros(A.shape[1]), []
    for t in range(claim.rounds):
        found.append(x)
        scores = A @ x
        slopes = A.T @ (scores - y if claim.loss == "least squares" else SLOPES[claim.loss](scores, y)) / y.size
        vertex, step = np.zeros(x.size), 2 / (t + 2)
        for own in np.array_split(np.arange(x.size), claim.parties):
            best = own[int(np.abs(slopes[own]).argmax())]
            vertex[best] -= claim.radius * np.sign(slopes[best])
        x = (1 - step) * x + step * vertex
    return [*found, x]


def end(table: pl.DataFrame, loss: str, method: str) -> float:
    own = table.filter(loss=loss, method=method, round=ROUNDS)["ratio"].to_numpy()
    return float(own.mean())


def draw(table: pl.DataFrame) -> Plot:
    import polars as pl

    panels = []
    for loss in LOSSES:
        panels.append(panel := Panel(loss, x="round", log="y"))
        for method in (EXACT, OFF, PRINTED):
            own = table.filter(loss=loss, method=method).group_by("round").agg(pl.col("ratio").mean()).sort("round")
            name = "exact predictions, no noise" if method == EXACT else method
            panel.line(own["round"], own["ratio"], name, method)
        panel.level(1.0, "x = 0")
    panels[0].y = "loss / at zero"
    return Plot("DP-BCFW for the losses of table V, in a ball whose K vertices reach the truth", panels, columns=3)


def suffices(table: pl.DataFrame) -> Verdict:
    shares = {
        loss: (1 - end(table, loss, OFF)) / (1 - end(table, loss, EXACT)) for loss in ("logistic", "smoothed hinge")
    }
    least = (1 - end(table, "least squares", OFF)) / (1 - end(table, "least squares", EXACT))
    words = ", ".join(f"{loss} {share:.0%}" for loss, share in shares.items())
    return Verdict(
        min(shares.values()) > 0.5,
        f"of what exact predictions take off the loss, sketched ones do: {words}; least squares {least:.0%}",
    )


def private(table: pl.DataFrame) -> Verdict:
    found = {loss: end(table, loss, PRINTED) for loss in LOSSES}
    words = ", ".join(f"{loss} {value:.2f}" for loss, value in found.items())
    return Verdict(max(found.values()) < 1.0, f"loss at the end over that at x = 0: {words}")


FIGURE = Figure(
    name="lou-table-5",
    paper=PAPER,
    title="Private block Frank-Wolfe for logistic and smoothed hinge loss",
    setting=f"n = {ROWS}, d = {COLUMNS:,}, sparsity 5 %, labels the signs of the paper's own, K = {PARTIES}, {ROUNDS} rounds, n/10 sketch rows, (ε, δ) = (1, 1/n): "
    "the paper has the formulas and no figure. 20 repeats, 3 in a quick run.",
    cases=cases,
    run=run,
    draw=draw,
    claims=(
        Claim(
            "to apply algorithm 2 to the other losses it suffices to switch the partial gradient",
            suffices,
            "means over the repeats, noise off; half of what the same rounds with exact predictions take off the loss at zero would count",
            reproduces=False,
            finding="A prediction read off the sketch for one row has an error of ‖Ax‖/√m, more than three times its size where m = n/10. Once predictions are as large as the labels that "
            "decides, and for least squares, which needs products alone, the sketch's error decides as well (lou-8).",
        ),
        Claim(
            "with the printed noise it ends below x = 0 for every loss of table V",
            private,
            "means over the repeats, every loss",
            reproduces=False,
            finding=NOISE,
        ),
    ),
    privacy=PUBLISHED_ONLY,
)
