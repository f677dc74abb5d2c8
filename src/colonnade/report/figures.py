"""Colours that stand out on white and on the dark page (3 to 1 and more), and a comparison of runs as a plain plotly figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.result import Fit

Figure = dict[str, Any]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B8618F", "#7570B3", "#A6761D")


def party_colours(parties: Sequence[str]) -> dict[str, str]:
    return {party: COLOURS[place % len(COLOURS)] for place, party in enumerate(parties)}


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
