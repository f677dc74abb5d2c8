"""Figures 5 to 8 of Lou and Cheung: what K, ε, the division of ε and the length of the sketch change; n = 800, d = 8,000."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from papers.figure import Claim, Figure, Row, Verdict
from papers.figures.lou_1_2 import paper_table
from papers.figures.lou_3_private import (
    BALL,
    NAMES,
    NOISE,
    PAPER,
    PUBLISHED_ONLY,
    RADIUS,
    ROUNDS,
    Losses,
    central_iterates,
    central_scale,
    curve,
    gained,
    last,
    mean,
    published_iterates,
)
from papers.plot import Panel, Plot
from papers.published import PublishedBlockFrankWolfe

if TYPE_CHECKING:
    import polars as pl

Check = Callable[["pl.DataFrame"], Verdict]
ROWS, COLUMNS, SPARSITY = 800, 8_000, 0.01
LONG = 100  # rounds of the run in a ball that holds the truth, where predictions are as large as the labels
KS, EPSILONS, SHARES, SKETCHES = (
    (2, 4, 8, 16),
    (0.001, 0.01, 0.1, 1.0, 10.0),
    (0.1, 0.3, 0.5, 0.7, 0.9),
    (8, 40, 80, 200, 400),
)
SETTING = (
    f"n = {ROWS}, d = {COLUMNS:,}, sparsity 1 %, δ = 1/n; unless varied K = 4, ε = 1, halved between index and sketch, and {ROWS // 10} sketch "
    f"rows; radius {RADIUS:g} and {ROUNDS} rounds are ours. 20 repeats, 4 in a quick run."
)


def run(what: str, seed: int) -> list[Row]:
    """All values of the parameter `what` on one table, so that they differ in nothing else."""
    A, y, x = paper_table(ROWS, COLUMNS, SPARSITY, SPARSITY, seed)
    losses = Losses(A, y)

    def fresh() -> np.random.Generator:
        return np.random.default_rng(seed)

    rows = losses.rows(central_iterates(A, y, 0.0, fresh()), method="fw", seed=seed, value=0.0)
    rows += losses.rows(
        central_iterates(A, y, central_scale(ROWS, 1.0), fresh()), method="central", seed=seed, value=0.0
    )
    rows.append(
        {"method": "bound", "seed": seed, "value": 0.0, "round": ROUNDS, "loss": losses.least(), "norm": RADIUS}
    )
    values: Sequence[float] = {"parties": KS, "epsilon": EPSILONS, "share": SHARES, "sketch": SKETCHES}[what]
    for value in values:
        parties = int(value) if what == "parties" else 4
        epsilon = value if what == "epsilon" else 1.0
        share = value if what == "share" else 0.5
        sketch_rows = int(value) if what == "sketch" else ROWS // 10
        claim = PublishedBlockFrankWolfe(epsilon, 1 / ROWS, parties, ROUNDS, RADIUS)
        variants: dict[str, dict[str, float]] = {"published": {}, "off": {"noise": 0.0}}
        if what == "parties":
            variants["averaged"] = {"noise": 0.0, "weight": 1 / parties}
        for method, how in variants.items():
            iterates = published_iterates(A, y, claim, sketch_rows, fresh(), index_share=share, **how)
            rows += losses.rows(iterates, method=method, seed=seed, value=float(value))
        if what == "sketch":
            wide = PublishedBlockFrankWolfe(epsilon, 1 / ROWS, parties, LONG, float(np.abs(x).sum()) / parties)
            *_, point = published_iterates(A, y, wide, sketch_rows, fresh(), noise=0.0)
            rows.append(losses.row(point, LONG, method="wide", seed=seed, value=float(value)))
    return rows


def drawer(name: Callable[[float], str], title: str) -> Callable[[pl.DataFrame], Plot]:
    def draw(table: pl.DataFrame) -> Plot:
        panels = []
        for shown in ("published", "off", "averaged"):
            own = table.filter(method=shown)
            if own.is_empty():
                continue
            words = NAMES[shown] + (", noise off" if shown == "averaged" else "")
            panels.append(panel := Panel(words, x="round"))
            for method in ("fw", "central"):
                panel.line(*curve(table.filter(method=method)), NAMES[method])
            for value in own["value"].unique(maintain_order=True):
                panel.line(*curve(own.filter(value=value)), name(value), NAMES[shown])
            panel.level(mean(table, method="bound"), "least in the ball")
        panels[0].y = "loss / at zero"
        return Plot(title, panels, columns=len(panels), same_y=True)

    return draw


def named(table: pl.DataFrame, method: str, values: Sequence[float]) -> list[float]:
    return [mean(table, method=method, value=float(value)) for value in values]


def shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _more_parties(method: str, wanted: str) -> Check:
    def check(table: pl.DataFrame) -> Verdict:
        found = named(table, method, KS)
        falls = all(a > b + 0.01 for a, b in pairwise(found))
        norm = max(last(table, "norm", method=method))
        return Verdict(falls, f"{wanted}, K = 2, 4, 8, 16: {shown(found)}; ‖x‖₁ up to {norm:.1f}")

    return check


def _unharmed(values: Sequence[float]) -> Check:
    def check(table: pl.DataFrame) -> Verdict:
        shares = [gained(table, value=float(value)) for value in values]
        words = ", ".join(f"{value:g}: {share:.0%}" for value, share in zip(values, shares, strict=True))
        return Verdict(min(shares) > 0.5, f"part of the noise-free decrease that is left, {words}")

    return check


def _alike(method: str, values: Sequence[float]) -> Check:
    def check(table: pl.DataFrame) -> Verdict:
        found = named(table, method, values)
        return Verdict(max(found) - min(found) < 0.03, f"loss at the end: {shown(found)}")

    return check


def _alike_in_a_wide_ball(table: pl.DataFrame) -> Verdict:
    found = [float(np.mean(table.filter(method="wide", value=float(m))["loss"].to_numpy())) for m in SKETCHES]
    words = ", ".join(f"m = {m}: {v:.2f}" for m, v in zip(SKETCHES, found, strict=True))
    return Verdict(max(found) < 1.25 * min(found), f"after {LONG} rounds without noise, {words}")


def figure_of(number: int, what: str, title: str, draw: Callable[[pl.DataFrame], Plot], *claims: Claim) -> Figure:
    return Figure(
        name=f"lou-{number}",
        paper=PAPER,
        title=title,
        setting=SETTING,
        cases=lambda quick: [{"what": what, "seed": seed} for seed in range(4 if quick else 20)],
        run=run,
        draw=draw,
        claims=claims,
        privacy=PUBLISHED_ONLY,
    )


REPEATS = "means over the repeats"
HALF = "means over the repeats; half of the noise-free decrease for every value would count"
FIGURES = (
    figure_of(
        5,
        "parties",
        "Private block Frank-Wolfe by the number of parties",
        drawer(lambda k: f"K = {k:g}", "More parties do better by leaving the ball, and only with the noise off"),
        Claim(
            "more parties do better",
            _more_parties("published", "with the printed noise"),
            REPEATS + "; 1 % of the loss at zero from each K to the next would count",
            reproduces=False,
            finding=NOISE,
        ),
        Claim("with the noise turned off, more parties do better", _more_parties("off", "noise off"), REPEATS),
        Claim(
            "more parties do better on the ball of the given radius",
            _more_parties("averaged", "noise off, vertices averaged"),
            REPEATS,
            reproduces=False,
            finding=BALL,
        ),
    ),
    figure_of(
        6,
        "epsilon",
        "Private block Frank-Wolfe by epsilon",
        drawer(lambda e: f"ε = {e:g}", "With the printed noise, the loss hardly falls at any ε up to 10"),
        Claim(
            "from ε = 0.001 to 10 the decrease of the loss is almost unaffected",
            _unharmed(EPSILONS),
            HALF,
            reproduces=False,
            finding=NOISE
            + " The scale is proportional to 1/ε, so that it differs ten thousandfold between the two ends; curves that "
            "agree there can only be curves in which the noise plays no part, or in which there is nothing else.",
        ),
    ),
    figure_of(
        7,
        "share",
        "Private block Frank-Wolfe by the division of epsilon",
        drawer(lambda s: f"{s:.0%} on the index", "How ε is divided changes nothing, since nothing is learnt"),
        Claim(
            "the division of ε between index and sketch makes no difference",
            _alike("published", SHARES),
            REPEATS + "; 3 %",
        ),
        Claim("the method converges under every division", _unharmed(SHARES), HALF, reproduces=False, finding=NOISE),
    ),
    figure_of(
        8,
        "sketch",
        "Private block Frank-Wolfe by the length of the sketch",
        drawer(lambda m: f"m = {m:g}", "The sketch's length does not matter where predictions are small"),
        Claim("sketches of 1 % of the rows do as well, noise or not", _alike("published", SKETCHES), REPEATS + "; 3 %"),
        Claim("the same with the noise turned off", _alike("off", SKETCHES), REPEATS + "; 3 %"),
        Claim(
            "the same where the ball holds the truth and the rounds suffice to get near it",
            _alike_in_a_wide_ball,
            REPEATS + "; a quarter",
            reproduces=False,
            finding=(
                "Products come from sketches, with an error of ‖a‖·‖A x‖/√m each. In a ball of radius 1 predictions are small beside the "
                "labels, so that slopes hardly depend on them; where K vertices reach the truth (radius ‖x‖₁/K) the error of short sketches decides."
            ),
        ),
    ),
)
