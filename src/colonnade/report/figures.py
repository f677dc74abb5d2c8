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


def coefficient_bars(largest: Sequence[tuple[str, str, float, float]], colours: Mapping[str, str]) -> Figure:
    """Horizontal bars, the largest on top; `largest` holds (party, feature, coefficient, standard error or 0)."""
    order = [f"{party}: {feature}" for party, feature, *_ in largest]
    traces = []
    for party in dict.fromkeys(entry[0] for entry in largest):
        own = [entry for entry in largest if entry[0] == party]
        bar = {
            "type": "bar",
            "orientation": "h",
            "name": party,
            "y": [f"{party}: {feature}" for _, feature, *_ in own],
            "x": [value for *_, value, _ in own],
            "marker": {"color": colours[party]},
            "hovertemplate": "%{y}<br>%{x:.4g}<extra></extra>",
        }
        lengths = [2.0 * error if math.isfinite(error) else None for *_, error in own]
        if any(lengths):
            bar["error_x"] = {"type": "data", "array": lengths, "thickness": 1, "width": 3}
        traces.append(bar)
    yaxis = {"categoryorder": "array", "categoryarray": order[::-1], "automargin": True, "ticks": ""}
    # Names without the party: its colour and the legend say it, and a phone has no room.
    yaxis |= {"tickmode": "array", "tickvals": order, "ticktext": [feature for _, feature, *_ in largest]}
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


def objective_by_bytes(fits: Mapping[str, Fit], entries: int) -> Figure:
    """How far the objective was from the optimum at most, against all bytes so far, for runs on the same problem.

    The optimum is bounded from below by the best certificate among the runs. Beside them stands the least that any
    deterministic method must send in the worst case, Ω(d/ε) for columns of d = `entries` numbers: drawn as 8·d bytes over
    the share ε of the first distance that is left. Its constant is not known, so only its slope can be compared.
    """
    bound = max(fit.objective - fit.gap for fit in fits.values() if fit.objective is not None and fit.gap is not None)
    traces, reach, first = [], [math.inf, 0.0], 0.0
    for place, (name, fit) in enumerate(fits.items()):
        sizes = {line["round"]: line["bytes"] for line in fit.communication.by("round").to_dicts()}
        rows = [(note["round"], note["objective"]) for note in fit.notes if note.get("objective") is not None]
        assert fit.objective is not None
        rows.append((fit.communication.rounds, fit.objective))
        points = [(sum(b for t, b in sizes.items() if t <= k), value - bound) for k, value in rows]
        kept = [(x, y) for x, y in points if math.isfinite(y) and y > 0.0]
        reach = [min([reach[0], *(x for x, _ in kept)]), max([reach[1], *(x for x, _ in kept)])]
        first = max([first, *(y for _, y in kept)])
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": [x for x, _ in kept],
                "y": [y for _, y in kept],
                "line": {"color": COLOURS[place % len(COLOURS)], "width": 2.5},
                "hovertemplate": f"{name}<br>%{{x:,}} bytes<br>%{{y:.3g}} above the bound<extra></extra>",
            }
        )
    lower = {
        "type": "scatter",
        "mode": "lines",
        "name": "lower bound Ω(d/ε), up to its constant",
        "x": reach,
        "y": [first * min(1.0, 8.0 * entries / x) if x else first for x in reach],
        "line": {"color": "#808080", "width": 2, "dash": "dash"},
        "hovertemplate": "d/ε numbers<extra></extra>",
    }
    xaxis = {"title": {"text": "bytes so far"}, "type": "log", "exponentformat": "SI", "ticksuffix": "B"}
    yaxis = {"title": {"text": "objective above the best lower bound"}, "type": "log", "automargin": True}
    return _figure([*traces, lower], xaxis=xaxis, yaxis=yaxis)


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
