"""Figures 4.2 to 4.5: is an entry of D-ZOA's stochastic slope normal? Histograms and QQ plots, the thesis' evidence that it is.

State    chapter 4's lasso, agent 2, inner iteration t of outer iteration m, reached by a run of D-ZOA with the J of equation 4.13 at epsilon
         0.55 and delta 1e-3, the middle of the thesis' tables; from there the slope g of equation 2.19 is drawn again and again. The entry is
         the first one.
J        guesses averaged in a slope. The thesis does not say which J these figures have, and the mean of more guesses is nearer to normal. So
         the verdict is taken at every J of a grid from 1 to the largest of its tables (equation 4.13 at epsilon 0.95 and delta 1e-2): the claim has
         to hold at all of them, and, asked in its favour, at the largest. The figure says at which J normality is refuted.
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
from papers.published.zeroth_order import guessed_slopes, with_square

if TYPE_CHECKING:
    import polars as pl

AGENT, ENTRY, AT_ONCE = 1, 0, 500
LEVEL = 1e-3
GRID = (1, 2, 5, 10, 20, 50, 100, 200, 500)
DRAWN = 20_000


def run(inner: int, outer: int, seed: int, trials: int) -> list[Row]:
    """For every J what a test of normality says; for the first, the state's and the last a histogram, and quantiles beside the normal's."""
    from scipy.stats import kurtosis, normaltest, skew

    own = problem(seed, "l1")
    middle, most = intrinsic(own).draws(0.55, 1e-3), intrinsic(own).draws(0.95, 1e-2)
    draw, found = slopes(own, inner, outer, middle, seed), list[Row]()
    for count in sorted({*(J for J in GRID if most > J), middle, most}):
        g = draw(count, trials)
        facts: Row = {"inner": inner, "outer": outer, "J": count, "middle": middle, "most": most, "seed": seed}
        facts |= {"trials": trials, "skewness": float(skew(g)), "excess_kurtosis": float(kurtosis(g))}
        facts |= {"p": float(normaltest(g).pvalue)}
        points = shape(g) if count in (1, middle, most) else [("test", 0.0, 0.0, 0.0)]
        found += [facts | {"kind": kind, "x": x, "y": y, "normal": normal} for kind, x, y, normal in points]
    return found


def shape(g: Floats) -> list[tuple[str, float, float, float]]:
    """A histogram of the standardised entries and their quantiles, each beside what a normal one has."""
    from scipy.stats import norm

    z = np.sort((g - g.mean()) / g.std())
    counts, edges = np.histogram(z, bins=60, range=(-5.0, 5.0))
    shares = counts / (z.size * (edges[1] - edges[0]))
    middles = (edges[:-1] + edges[1:]) / 2
    half = np.geomspace(1, z.size / 2, 40)
    ranks = np.unique(np.concatenate([half, z.size - half]).astype(int))
    points = [("histogram", float(x), float(y), float(norm.pdf(x))) for x, y in zip(middles, shares, strict=True)]
    quantiles = norm.ppf((ranks + 0.5) / z.size)
    return [*points, *(("QQ", float(x), float(z[k]), float(x)) for x, k in zip(quantiles, ranks, strict=True))]


def slopes(own: RowProblem, inner: int, outer: int, draws: int, seed: int) -> Callable[[int, int], Floats]:
    """The entry of so many slopes, of J guesses each, of the agent at the point that its run with `draws` guesses has reached."""
    rng, method = np.random.default_rng([seed, 3]), zeroth(own, draws)
    links = adjacency(GRAPH)
    degrees = links.sum(axis=1)[:, None]
    x, dual = np.zeros((own.agents, COLUMNS)), np.zeros((own.agents, COLUMNS))
    for _ in range(outer - 1):  # as ZerothADMM.rounds, which keeps its multipliers to itself
        x = method.descend(own.differences, dual - PENALTY * (degrees * x + links @ x), PENALTY * degrees, rng)
        dual = dual + PENALTY * (degrees * x - links @ x)
    pick = slice(AGENT, AGENT + 1)
    linear, square = (dual - PENALTY * (degrees * x + links @ x))[pick], PENALTY * degrees[pick]
    alone = RowProblem(own.A[pick], own.b[pick], l1=own.l1 / own.agents)
    augmented = with_square(alone.differences, linear, square)

    def guess(y: Floats, t: int, count: int) -> Floats:
        return guessed_slopes(augmented, y, t, draws=count, smoothing=method.smoothing, rng=rng)

    y = np.zeros((1, 1, COLUMNS))
    for t in range(1, inner):
        y = y - method.step / np.sqrt(t) * guess(y, t, draws)
    here = np.repeat(y, AT_ONCE, axis=1)
    return lambda count, trials: np.concatenate(
        [guess(here, inner, count)[0, :, ENTRY] for _ in range(trials // AT_ONCE)]
    )


def drawer(number: str, kind: str) -> Callable[[pl.DataFrame], Plot]:
    def draw(table: pl.DataFrame) -> Plot:
        own = table.filter(kind=kind, seed=table["seed"].min()).sort("x")
        panels = []
        for J in sorted(set(own["J"])):
            part = own.filter(J=J)
            title = f"J = {J}: normality {'refuted' if refuted(table, J) else 'not refuted'}, p = {part['p'][0]:.1g}"
            panels.append(panel := Panel(title, x="normal quantile" if kind == "QQ" else "standardised entry of g"))
            if kind == "QQ":
                panel.line(part["x"], part["y"], "drawn slopes", "D-ZOA", joined=False)
            else:
                panel.line(part["x"], part["y"], "drawn slopes", "D-ZOA", steps=True)
            panel.line(part["x"], part["normal"], "normal", "normal distribution")
        panels[0].y = "quantile of the drawn slopes" if kind == "QQ" else "density"
        title = (
            f"Figure {number}: an entry of the slope of D-ZOA at agent 2, {int(table['trials'][0]):,} draws from one state. The thesis does not say J: "
            f"{told(table)}"
        )
        return Plot(title, panels, columns=len(panels), same_y=kind != "QQ")

    return draw


def counts(table: pl.DataFrame) -> list[int]:
    """Every J that was looked at."""
    return sorted({int(J) for J in table["J"]})


def refuted(table: pl.DataFrame, J: int) -> bool:
    """Whether a run with this J refutes normality, at a level that allows for all tests of the figure."""
    return float(table.filter(J=J)["p"].to_numpy().min()) < LEVEL / table.select("J", "seed").n_unique()


def told(table: pl.DataFrame) -> str:
    wrong = [J for J in counts(table) if refuted(table, J)]
    right = [J for J in counts(table) if J not in wrong]
    words = f"normality is refuted at J = {', '.join(map(str, wrong))}" if wrong else "normality is refuted at no J"
    return words + (f", not at {', '.join(map(str, right))}" if wrong and right else "")


def normal_at(which: str) -> Callable[[pl.DataFrame], Verdict]:
    """`which` is "every" J of the grid, or the "largest" of the tables, which each run has for itself."""

    def check(table: pl.DataFrame) -> Verdict:
        import polars as pl

        own = table.filter(pl.col("J") == pl.col("most")) if which == "largest" else table
        several = own.unique(["J", "seed"])
        tails, skews = several["excess_kurtosis"].to_numpy(), several["skewness"].to_numpy()
        spread = (
            f"excess kurtosis {tails.min():.2f} to {tails.max():.2f}, skewness {skews.min():.2f} to {skews.max():.2f}"
        )
        runs = f"{table['seed'].n_unique()} runs of {int(table['trials'][0]):,} draws"
        return Verdict(not any(refuted(own, J) for J in counts(own)), f"{told(own)}; {spread}, in {runs}")

    return check


TEST = f"D'Agostino and Pearson's test on all draws of a run: p at least {LEVEL:g} over the number of tests"
WHY = (
    "A guess is a normal number times the slope along the same direction, a product of two normal numbers for every entry: its tails are far heavier than normal ones. "
    "The mean of J guesses has an excess kurtosis J times smaller, which a histogram hardly shows and a test of some thousand draws does."
)
CHANGED = "asked at J = 1 and at the J of epsilon 0.55 before; the thesis gives no J, so it is now asked at all of them and at the largest."
EVERY = Claim(
    "the entries of the stochastic slope are normally distributed, whichever J of its tables the thesis took",
    normal_at("every"),
    f"{TEST}, at every J of a grid from 1 to the largest",
    reproduces=False,
    finding=WHY,
    changed=CHANGED,
)


SKEWED = (
    "Said not to hold after a quick run, of one state, which refutes it: an entry in whose direction the function is steep is skewed, and the mean of J guesses "
    "is less so by the root of J only. The ten states of a full run share the level, and refute it at none."
)


def largest(quick: bool) -> Claim:
    """`quick`: whether the state of a quick run passes."""
    says = "the entries of the stochastic slope are normally distributed at the largest J of its tables, which favours the claim most"
    how = f"{TEST}, at the J of equation 4.13 for epsilon 0.95 and delta 1e-2"
    changed = CHANGED if quick else f"{CHANGED} {SKEWED}"
    return Claim(says, normal_at("largest"), how, changed=changed, quick=quick)


def normality(number: str, kind: str, inner: int, outer: int, normal: bool) -> Figure:
    """`normal`: whether the largest J passes in a quick run."""
    return Figure(
        name=f"gratton-{number}",
        paper=PAPER,
        title=f"{'QQ plot' if kind == 'QQ' else 'Histogram'} of an entry of D-ZOA's slope, t = {inner}, m = {outer}",
        setting=f"{SETTING} Agent 2, the first entry, inner iteration {inner} of outer iteration {outer}; {DRAWN:,} draws from one state, 10 runs (quick: 1); J is not said.",
        cases=lambda quick: [
            Case(inner=inner, outer=outer, seed=seed, trials=DRAWN) for seed in range(1 if quick else 10)
        ],
        run=run,
        draw=drawer(number, kind),
        claims=(EVERY, largest(normal)),
        privacy="none asked for: exact values, seeded directions",
        shares="gratton-4-normal",
    )


FIGURES = (
    normality("4.2", "histogram", 100, 50, True),
    normality("4.3", "QQ", 100, 50, True),
    normality("4.4", "histogram", 50, 150, False),
    normality("4.5", "QQ", 50, 150, False),
)
