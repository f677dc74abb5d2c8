"""The plots, as plain plotly figures without colours of text and background: the page sets those to the reader's scheme.

Party colours are of medium lightness, so that they stand out (3 to 1 and more) on white and on the dark page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.report.traffic import left_by_round
from colonnade.result import Fit

Figure = dict[str, Any]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B8618F", "#7570B3", "#A6761D")
LARGEST = 20  # coefficients in the bar chart


def party_colours(parties: Sequence[str]) -> dict[str, str]:
    return {party: COLOURS[place % len(COLOURS)] for place, party in enumerate(parties)}


def coefficient_bars(largest: Sequence[tuple[str, str, float]], colours: Mapping[str, str]) -> Figure:
    """Horizontal bars, the largest on top; `largest` holds (party, feature, coefficient)."""
    order = [f"{party}: {feature}" for party, feature, _ in largest]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": party,
            "y": [f"{party}: {feature}" for owner, feature, _ in largest if owner == party],
            "x": [value for owner, _, value in largest if owner == party],
            "marker": {"color": colours[party]},
            "hovertemplate": "%{y}<br>%{x:.4g}<extra></extra>",
        }
        for party in dict.fromkeys(party for party, _, _ in largest)
    ]
    yaxis = {"categoryorder": "array", "categoryarray": order[::-1], "automargin": True, "ticks": ""}
    # Names without the party: its colour and the legend say it, and a phone has no room.
    yaxis |= {"tickmode": "array", "tickvals": order, "ticktext": [feature for _, feature, _ in largest]}
    height = 110 + 24 * len(order)
    return _figure(traces, xaxis={"title": {"text": "coefficient"}}, yaxis=yaxis, height=height)


def history_lines(fit: Fit, name: str, title: str, *, log: bool) -> Figure | None:
    """One figure of the history against the round, or None where the run released none."""
    points = [(note.get("round"), note.get(name)) for note in fit.notes]
    kept = [(t, v) for t, v in points if isinstance(v, float) and math.isfinite(v) and (v > 0.0 or not log)]
    if not kept:
        return None
    line = {
        "type": "scatter",
        "mode": "lines" if len(kept) > 1 else "markers",
        "x": [t for t, _ in kept],
        "y": [v for _, v in kept],
        "line": {"color": COLOURS[0], "width": 2.5},
        "hovertemplate": f"round %{{x}}<br>{title} %{{y:.4g}}<extra></extra>",
    }
    yaxis: Figure = {"title": {"text": title}, "automargin": True}
    if log:
        yaxis |= {"type": "log", "dtick": "D2", "tickformat": "~g"}
    return _figure([line], xaxis={"title": {"text": "round"}}, yaxis=yaxis, legend=False)


def bytes_by_round(fit: Fit, colours: Mapping[str, str]) -> Figure:
    """What left each party, round by round, stacked."""
    traces = []
    for party, colour in colours.items():
        own = left_by_round(fit, party)
        traces.append(
            {
                "type": "bar",
                "name": party,
                "x": list(own),
                "y": list(own.values()),
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertemplate": f"{party}, round %{{x}}<br>%{{y:,}} bytes<extra></extra>",
            }
        )
    yaxis = {"title": {"text": "bytes that left"}, "automargin": True, "exponentformat": "SI", "ticksuffix": "B"}
    return _figure(traces, xaxis={"title": {"text": "round"}}, yaxis=yaxis, barmode="stack", bargap=0.1)


def bytes_so_far(fit: Fit) -> Figure:
    """Everything on the wires up to a round, by direction."""
    lines = fit.communication.by("direction", "round").sort("round").to_dicts()
    names = {"up": "from the parties", "down": "to the parties", "across": "between parties"}
    traces = []
    for place, (direction, name) in enumerate(names.items()):
        own = [line for line in lines if line["direction"] == direction]
        if own:
            totals, total = [], 0
            for line in own:
                total += line["bytes"]
                totals.append(total)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": [line["round"] for line in own],
                    "y": totals,
                    "line": {
                        "shape": "hv",
                        "width": 2.5,
                        "color": COLOURS[place],
                        "dash": ("solid", "dash", "dot")[place],
                    },
                    "hovertemplate": f"{name}, up to round %{{x}}<br>%{{y:,}} bytes<extra></extra>",
                }
            )
    yaxis = {
        "title": {"text": "bytes so far"},
        "automargin": True,
        "exponentformat": "SI",
        "ticksuffix": "B",
        "rangemode": "tozero",
    }
    return _figure(traces, xaxis={"title": {"text": "round"}}, yaxis=yaxis)


def _figure(
    traces: list[Figure], *, xaxis: Figure, yaxis: Figure, height: int = 320, legend: bool = True, **layout: Any
) -> Figure:
    return {
        "data": traces,
        "layout": {
            "xaxis": {"automargin": True, **xaxis},
            "yaxis": yaxis,
            "height": height,
            "margin": {"l": 8, "r": 16, "t": 36 if legend else 12, "b": 8},
            "showlegend": legend,
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
            "dragmode": False,
            **layout,
        },
    }
