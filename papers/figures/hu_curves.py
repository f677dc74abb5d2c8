"""What figures 1 and 2 of Hu et al. share: training objective and test log loss against epochs, and how the curves are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from papers.figure import Case, Row
from papers.figures.hu_sharing import ALL, LOCAL, OURS, PUBLISHED, SGD, central, curve
from papers.plot import Panel, Plot

if TYPE_CHECKING:
    import polars as pl


def cases(data: str, quick: bool) -> list[Case]:
    """Quick: 40 epochs, and only the step size of SGD that is the better one here."""
    count, steps = (40, list(SGD)[-1:]) if quick else (100, list(SGD))
    seeds = range(1 if quick else 5)
    curves: list[Case] = [{"data": data, "method": m, "seed": 0, "count": count} for m in (OURS, *PUBLISHED)]
    drawn: list[Case] = [{"data": data, "method": m, "seed": s, "count": count} for m in steps for s in seeds]
    return curves + drawn + [{"data": data, "method": m, "seed": 0, "count": count} for m in (ALL, LOCAL)]


def run(data: str, method: str, seed: int, count: int) -> list[Row]:
    if method not in (ALL, LOCAL):
        return curve(data, method, seed, count)
    return [row | {"epoch": t} for row in central(data, method) for t in (1, count)]  # a level line


def kind(method: str) -> str:
    """What a curve is one of, whatever its setting."""
    return "published" if method in PUBLISHED else "SGD" if method in SGD else method


def draw(table: pl.DataFrame, title: str) -> Plot:
    import polars as pl

    panels = {
        "objective": Panel("training objective", x="epoch", y="mean log loss + ridge"),
        "test_loss": Panel("test log loss", x="epoch", y="mean log loss"),
    }
    for method in table["method"].unique(maintain_order=True):
        own = table.filter(pl.col("method") == method).group_by("epoch").agg(pl.col("objective", "test_loss").mean())
        for value, panel in panels.items():
            points = own.sort("epoch")
            panel.line(points["epoch"], points[value], method, kind(method))
    return Plot(title, list(panels.values()), columns=2)
