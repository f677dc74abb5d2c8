"""What a fit looks like: `fit.plot.coefficients()`, `.path()`, `.bytes()`, `.calibration(...)`, `.roc(...)`.

Figures of plotly, from the same facts as the report's; they need the extra [plot]. Calibration and ROC are about rows
that the caller hands over, and are a release about them: who draws them says that they are public, or paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.model.facts import left_by_round, parties_of
from colonnade.runs.evaluation import evaluate_fit
from colonnade.views.chart import party_colours, plotly_objects
from colonnade.views.verdict import Evaluation

if TYPE_CHECKING:
    from colonnade.runs.result import Fit

SHOWN = 20  # coefficients, or lines of a path
GUIDE = {"dash": "dot", "color": "#888"}


@dataclass(frozen=True)
class Plots:
    """The pictures of one fit, by plotly.

    Parameters
    ----------
    fit
        The model.
    """

    fit: Fit

    def coefficients(self, most: int = SHOWN) -> Any:
        """The largest coefficients by name, in the colours of their parties; with standard errors where they cover.

        Parameters
        ----------
        most
            How many are shown.
        """
        go = plotly_objects()
        fit = self.fit
        lines = list(fit.coefficients.table().iter_rows())
        errors = None if fit.spread is None else np.concatenate([fit.spread[party] for party in fit.coefficients.local])
        places = sorted((k for k, line in enumerate(lines) if line[2]), key=lambda k: -abs(lines[k][2]))[:most]
        names = {k: f"{lines[k][0]}: {lines[k][1]}" for k in places}
        drawn = go.Figure()
        for party, colour in party_colours(list(fit.coefficients)).items():
            if own := [k for k in places if lines[k][0] == party]:
                bars = None if errors is None else {"type": "data", "array": errors[own].tolist()}
                found = {"x": [lines[k][2] for k in own], "y": [names[k] for k in own], "error_x": bars}
                drawn.add_bar(**found, marker_color=colour, orientation="h", name=party)
        drawn.update_yaxes(categoryorder="array", categoryarray=[names[k] for k in reversed(places)])
        title = f"{len(places)} of {len(lines):,} coefficients, the largest first"
        drawn.update_yaxes(dtick=1, automargin=True)  # every bar has its name
        drawn.update_layout(height=160 + 22 * len(places))
        return drawn.update_layout(barmode="overlay", title=title, xaxis_title="per unit of the encoded column")

    def path(self, most: int = SHOWN) -> Any:
        """The largest coefficients of the same release at other weights of the penalty, or radii.

        Parameters
        ----------
        most
            How many lines are shown.
        """
        go = plotly_objects()
        fit = self.fit
        if fit.path is None:
            why = "co.PrivateGram with a penalty or a set gives one"
            raise InvalidInput(f"this fit has no path: {why}. fit.plot.coefficients() shows the model itself.")
        drawn = go.Figure()
        colours = party_colours(list(fit.coefficients))
        lines = [
            (party, str(name), values)
            for party, along in fit.path.coefficients.items()
            for name, values in zip(fit.features[party], np.asarray(along).T, strict=True)
        ]
        lines.sort(key=lambda line: -float(np.abs(line[2]).max()))
        for party, name, values in lines[:most]:
            look = {"name": f"{party}: {name}", "line_color": colours[party]}
            drawn.add_scatter(x=fit.path.weights.tolist(), y=values.tolist(), **look)
        radius = fit.problem.constraint is not None
        drawn.update_xaxes(type="log", title="radius" if radius else "weight of the penalty")
        return drawn.update_layout(title="The same release along its path, for nothing more", yaxis_title="coefficient")

    def bytes(self) -> Any:
        """What left each party, by round."""
        go = plotly_objects()
        fit = self.fit
        drawn = go.Figure()
        for party, colour in party_colours(parties_of(fit)).items():
            sent = left_by_round(fit, party)
            drawn.add_bar(x=list(sent), y=list(sent.values()), name=party, marker_color=colour)
        drawn.update_xaxes(dtick=1 if fit.communication.rounds < 10 else None)  # no half of a round
        return drawn.update_layout(
            barmode="stack", title="What left the parties", xaxis_title="round", yaxis_title="bytes"
        )

    def calibration(self, rows: Any, labels: Any, *, evaluation_is: str | None = None) -> Any:
        """Predicted beside found in ten groups of rows.

        Parameters
        ----------
        rows
            As in `Fit.scores`.
        labels
            One a row.
        evaluation_is
            "public", or "paid for", as in `Fit.report`.
        """
        go = plotly_objects()
        found = self._found(rows, labels, evaluation_is)
        if not found.groups:
            raise InvalidInput(found.remark)
        predicted, seen, sizes = (list(column) for column in zip(*found.groups, strict=True))
        ends = [min(*predicted, *seen), max(*predicted, *seen)]
        drawn = go.Figure()
        drawn.add_scatter(x=ends, y=ends, mode="lines", name="as predicted", line=GUIDE)
        drawn.add_scatter(x=predicted, y=seen, text=[f"{n:,} rows" for n in sizes], mode="markers+lines", name="found")
        title = f"Calibration on {found.rows:,} rows ({found.basis})"
        return drawn.update_layout(title=title, xaxis_title="predicted", yaxis_title="found")

    def roc(self, rows: Any, labels: Any, *, evaluation_is: str | None = None) -> Any:
        """The ROC: how many of a class are found, against how many of the other are taken for it.

        Parameters
        ----------
        rows
            As in `Fit.scores`.
        labels
            One a row.
        evaluation_is
            "public", or "paid for", as in `Fit.report`.
        """
        go = plotly_objects()
        found = self._found(rows, labels, evaluation_is)
        if not found.roc:
            raise InvalidInput("a ROC is of two classes, and this model predicts numbers: fit.plot.calibration(...).")
        accused, right = (list(column) for column in zip(*found.roc, strict=True))
        drawn = go.Figure()
        drawn.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="guessing", line=GUIDE)
        drawn.add_scatter(x=accused, y=right, mode="lines", name=f"AUC {found.figures['AUC'][0]:.3f}")
        title = f"ROC on {found.rows:,} rows ({found.basis})"
        return drawn.update_layout(title=title, xaxis_title="share of the others", yaxis_title="share of those found")

    def _found(self, rows: Any, labels: Any, basis: str | None) -> Evaluation:
        found = evaluate_fit(self.fit, (rows, labels), basis)
        assert found is not None, "rows were given"
        return found
