"""Plots that a user turns and zooms: drawn by plotly, which is an extra of the package."""

from __future__ import annotations

from typing import Any

from colonnade.errors import InvalidInput


def plotly_objects() -> Any:
    """The module that draws, or an error that says how to get it."""
    try:
        import plotly.graph_objects
    except ModuleNotFoundError as error:
        needs = "this plot needs plotly: pip install 'colonnade[plot]'"
        raise InvalidInput(f"{needs}. The figures are there without it.") from error
    return plotly.graph_objects
