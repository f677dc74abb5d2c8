"""Figures 4.2 to 4.5: is an entry of D-ZOA's stochastic slope normal? Histograms and QQ plots, the thesis' evidence that it is.

State    chapter 4's lasso, agent 2, inner iteration t of outer iteration m, reached by a run of D-ZOA; from there the slope g of equation
         2.19 is drawn again and again. The entry is the first one.
J        guesses averaged in a slope. The thesis does not say which J these figures have. Here: 1, the fewest that its tables use, and the J of
         equation 4.13 at epsilon 0.55 and delta 1e-3, the middle of its tables: the mean of more guesses is nearer to normal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colonnade.kernels.arrays import Floats
from papers.figure import Case, Claim, Figure, Row, Verdict
from papers.figures.gratton_4_common import (
    COLUMNS,
    GRAPH,
    PAPER,
    PENALTY,
    SETTING,
    intrinsic,
    problem,
    zeroth,
)
from papers.plot import Panel, Plot
from papers.published.graph_rounds import adjacency
from papers.published.row_problems import RowProblem
from papers.published.zeroth_order import guessed_slopes

if TYPE_CHECKING:
    import polars as pl

AGENT, ENTRY, AT_ONCE = 1, 0, 500
LEVEL = 1e-3
WAYS = {"one": "J = 1", "many": "J of equation 4.13 at epsilon 0.55"}


def run(inner: int, outer: int, draws: str, seed: int, trials: int) -> list[Row]:
    """A histogram of the drawn entries, their quantiles beside the normal's, and what a test of normality says."""
    from scipy.stats import kurtosis, norm, normaltest

    own = problem(seed, "l1")
    count = 1 if draws == "one" else intrinsic(own).draws(0.55, 1e-3)
    g = slopes(own, inner, outer, count, seed, trials)
    z = np.sort((g - g.mean()) / g.std())
    facts: Row = {"inner": inner, "outer": outer, "way": draws, "J": count, "seed": seed, "trials": trials}
    facts |= {"excess_kurtosis": float(kurtosis(g)), "p": float(normaltest(g).pvalue)}
    counts, edges = np.histogram(z, bins=60, range=(-5.0, 5.0))
    shares = counts / (z.size * (edges[1] - edges[0]))
    middles = (edges[:-1] + edges[1:]) / 2
    ranks = np.unique(
        np.concatenate([np.geomspace(1, z.size / 2, 40), z.size - np.geomspace(1, z.size / 2, 40)]).astype(int)
    )
    points = [("histogram", float(x), float(y), float(norm.pdf(x))) for x, y in zip(middles, shares, strict=True)]
    quantiles = norm.ppf((ranks + 0.5) / z.size)
    points += [("QQ", float(x), float(z[k]), float(x)) for x, k in zip(quantiles, ranks, strict=True) if k < z.size]
    return [facts | {"kind": kind, "x": x, "y": y, "normal": normal} for kind, x, y, normal in points]


def slopes(own: RowProblem, inner: int, outer: int, draws: int, seed: int, trials: int) -> Floats:
    """The entry of so many slopes of the agent at the point that its run has reached."""
    rng, method = np.random.default_rng([seed, 3]), zeroth(own, draws)
    links = adjacency(GRAPH)
    degrees = links.sum(axis=1)[:, None]
    x, dual = np.zeros((own.agents, COLUMNS)), np.zeros((own.agents, COLUMNS))
    for _ in range(outer - 1):  # as ZerothADMM.rounds, which keeps its multipliers to itself
        x = method.descend(own.values, dual - PENALTY * (degrees * x + links @ x), PENALTY * degrees, rng)
        dual = dual + PENALTY * (degrees * x - links @ x)
    pick = slice(AGENT, AGENT + 1)
    linear, square = (dual - PENALTY * (degrees * x + links @ x))[pick], PENALTY * degrees[pick]
    alone = RowProblem(own.A[pick], own.b[pick], l1=own.l1 / own.agents)

    def augmented(y: Floats) -> Floats:
        known = np.einsum("njp,np->nj", y, linear) + square * np.einsum("njp,njp->nj", y, y)
        return np.asarray(alone.values(y) + known)

    def guess(y: Floats, t: int) -> Floats:
        return guessed_slopes(augmented, y, t, draws=draws, smoothing=method.smoothing, rng=rng)

    y = np.zeros((1, 1, COLUMNS))
    for t in range(1, inner):
        y = y - method.step / np.sqrt(t) * guess(y, t)
    here = np.repeat(y, AT_ONCE, axis=1)
    return np.concatenate([guess(here, inner)[0, :, ENTRY] for _ in range(trials // AT_ONCE)])


def drawer(number: str, kind: str) -> Callable[[pl.DataFrame], Plot]:
    def draw(table: pl.DataFrame) -> Plot:
        panels = []
        for way, name in WAYS.items():
            own = table.filter(kind=kind, way=way, seed=table["seed"].min()).sort("x")
            title = f"{name}: J = {own['J'][0]}" if way == "many" else name
            panels.append(panel := Panel(title, x="normal quantile" if kind == "QQ" else "standardised entry of g"))
            if kind == "QQ":
                panel.line(own["x"], own["y"], "drawn slopes", "D-ZOA", joined=False)
                panel.line(own["x"], own["normal"], "normal", "normal distribution")
            else:
                panel.line(own["x"], own["y"], "drawn slopes", "D-ZOA", steps=True)
                panel.line(own["x"], own["normal"], "normal", "normal distribution")
        panels[0].y = "quantile of the drawn slopes" if kind == "QQ" else "density"
        return Plot(
            f"Figure {number}: an entry of the slope of D-ZOA at agent 2, {int(table['trials'][0]):,} draws",
            panels,
            columns=2,
        )

    return draw


def normal(way: str, reproduces: bool, finding: str, changed: str = "") -> Claim:
    def check(table: pl.DataFrame) -> Verdict:
        own = table.filter(way=way).unique("seed").sort("seed")
        p, tails, J = own["p"].to_list(), own["excess_kurtosis"].to_list(), own["J"].to_list()
        words = f"excess kurtosis {min(tails):.2f} to {max(tails):.2f}, the least p {min(p):.1g}"
        return Verdict(min(p) * len(p) >= LEVEL, f"J = {min(J)} to {max(J)}: {words}, in {len(p)} runs")

    told = (
        f"D'Agostino and Pearson's test on all draws of a run, every run: p at least {LEVEL:g} over the number of runs"
    )
    return Claim(
        f"the entries of the stochastic slope are normally distributed, with {WAYS[way]}",
        check,
        told,
        reproduces,
        finding,
        changed,
    )


WHY = (
    "A guess is a normal number times the slope along the same direction, a product of two normal numbers for every entry: its tails are far heavier than normal ones. "
    "The mean of J guesses has an excess kurtosis J times smaller, which a histogram hardly shows and a test of some thousand draws does."
)

MORE = "first run at the J of epsilon 0.95, the largest of the thesis' tables, with 20,000 draws in a quick run, where the test did not refute it."


def normality(number: str, kind: str, inner: int, outer: int) -> Figure:
    return Figure(
        name=f"gratton-{number}",
        paper=PAPER,
        title=f"{'QQ plot' if kind == 'QQ' else 'Histogram'} of an entry of D-ZOA's slope, t = {inner}, m = {outer}",
        setting=f"{SETTING} Agent 2, the first entry, inner iteration {inner} of outer iteration {outer}; draws from one state, 20,000 in each of 10 runs (quick: 4,000 in one); J is not said.",
        cases=lambda quick: [
            Case(inner=inner, outer=outer, draws=way, seed=seed, trials=4_000 if quick else 20_000)
            for seed in range(1 if quick else 10)
            for way in WAYS
        ],
        run=run,
        draw=drawer(number, kind),
        claims=(normal("one", False, WHY), normal("many", False, WHY, MORE)),
        privacy="none asked for: exact values, seeded directions",
    )


FIGURES = (
    normality("4.2", "histogram", 100, 50),
    normality("4.3", "QQ", 100, 50),
    normality("4.4", "histogram", 50, 150),
    normality("4.5", "QQ", 50, 150),
)
