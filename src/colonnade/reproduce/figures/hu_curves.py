"""What figures 1 and 2 of Hu et al. share: training objective and test log loss against epochs, and how the curves are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.report.colours import COLOURS
from colonnade.reproduce.figure import Case, Row
from colonnade.reproduce.figures.hu_sharing import ALL, LOCAL, OURS, PUBLISHED, SGD, central, curve

if TYPE_CHECKING:
    import plotly.graph_objects as go
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


def draw(table: pl.DataFrame, title: str) -> go.Figure:
    import polars as pl
    from plotly.subplots import make_subplots

    figure = make_subplots(1, 2, subplot_titles=("training objective", "test log loss"))
    for place, method in enumerate(table["method"].unique(maintain_order=True)):
        own = table.filter(pl.col("method") == method).group_by("epoch").agg(pl.col("objective", "test_loss").mean())
        line = {"color": COLOURS[place % len(COLOURS)], "dash": "dot" if method in (ALL, LOCAL) else "solid"}
        for column, value in enumerate(("objective", "test_loss"), 1):
            points = own.sort("epoch")
            figure.add_scatter(
                x=points["epoch"].to_list(), y=points[value].to_list(), name=method, mode="lines", line=line,
                legendgroup=method, showlegend=column == 1, row=1, col=column,
            )  # fmt: skip
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="mean log loss + ridge", row=1, col=1)
    figure.update_yaxes(title_text="mean log loss", row=1, col=2)
    return figure.update_layout(title=title)
