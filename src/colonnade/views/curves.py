"""What each number does to the score, in its own unit: a curve where the model has one, else a line.

A column's effect at a value is its part of the score there, less its part at the middle of its declared range, so that
0 is a value of which everybody knows where it lies. Between the knots of a curve effects are linear: `grid` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.schema.columns import Date, Numeric, features_of, spans_of
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.kernels.curves import knots, values
from colonnade.views import chart
from colonnade.views.parts import Markup, figure, number, paragraph, table

if TYPE_CHECKING:
    import polars as pl

    from colonnade.views.fit_facts import FitFacts

SHOWN = 12  # curves drawn in a report, the widest first
# A notebook has no style sheet of ours: how large a plot is, and that its grid is faint.
NOTEBOOK = (
    ".effect-curves .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); } "
    ".effect-curves .plot { display: block; overflow: visible; width: 70%; height: 12rem; margin: .2rem 1rem 1.5rem "
    "4.6rem; } .effect-curves .grid line { stroke: #8886; } .effect-curves text { fill: currentColor; }"
)


@dataclass(frozen=True, eq=False)
class EffectCurve:
    """One column's part of the score over its declared range."""

    party: str
    column: str
    grid: Floats  # in the column's own unit, both ends of its range included; effects are linear in between
    effect: Floats  # on the score, 0 at the middle of the range
    missing: float | None = None  # of a missing value, where there is a column for that
    low: Floats | None = None  # ends of the band around the effect, where the fit was made for inference
    high: Floats | None = None

    @property
    def reach(self) -> float:
        """From the least to the largest effect."""
        return float(self.effect.max() - self.effect.min())

    @property
    def slope(self) -> float | None:
        """The effect of one unit more, where it is the same everywhere; else None."""
        steps = np.diff(self.effect) / np.diff(self.grid)
        return float(steps[0]) if np.allclose(steps, steps[0], rtol=1e-9, atol=1e-12 * np.abs(steps).max()) else None

    def __call__(self, at: Any) -> Floats:
        """The effect at values in the column's own unit; those outside its range count as its ends."""
        return np.asarray(np.interp(np.asarray(at, dtype=np.float64), self.grid, self.effect))


@dataclass(frozen=True, eq=False)
class EffectCurves(Mapping[str, EffectCurve]):
    """The effects of all numbers that are known here, by column ("party.column" where two parties share a name)."""

    curves: tuple[EffectCurve, ...]
    elsewhere: tuple[str, ...] = ()  # parties that keep theirs

    def _names(self) -> dict[str, EffectCurve]:
        names = [curve.column for curve in self.curves]
        return {c.column if names.count(c.column) == 1 else f"{c.party}.{c.column}": c for c in self.curves}

    def __getitem__(self, name: str) -> EffectCurve:
        try:
            return self._names()[name]
        except KeyError:
            raise InvalidInput(
                f"no number {name!r} among the columns known here: {', '.join(self) or 'none'}."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self.curves)

    def table(self) -> pl.DataFrame:
        """One row for each value of each grid; `low` and `high` where there are bands."""
        import polars as pl

        parts = []
        for c in self.curves:
            ends = [None] * c.grid.size
            lows, highs = (ends if band is None else band.tolist() for band in (c.low, c.high))
            parts += [(c.party, c.column, *at) for at in zip(c.grid, c.effect, lows, highs, strict=True)]
        kinds: dict[str, Any] = {"party": pl.String, "column": pl.String}
        kinds |= dict.fromkeys(("value", "effect", "low", "high"), pl.Float64)
        return pl.DataFrame(parts, kinds, orient="row")

    def plot(self) -> Any:
        """All of them with plotly, one line a column; shown and hidden by a click on its name."""
        go = chart.plotly_objects()
        drawn = go.Figure()
        for name, curve in self.items():
            drawn.add_scatter(x=curve.grid, y=curve.effect, name=name, mode="lines", legendgroup=name)
            if curve.low is not None and curve.high is not None:
                around = {"x": [*curve.grid, *curve.grid[::-1]], "y": [*curve.high, *curve.low[::-1]]}
                drawn.add_scatter(
                    **around, name=f"band of {name}", fill="toself", mode="none", opacity=0.3, legendgroup=name
                )
        return drawn.update_layout(xaxis_title="value, in the column's own unit", yaxis_title="effect on the score")

    def __repr__(self) -> str:
        bent = sum(curve.slope is None for curve in self.curves)
        away = f"; at {', '.join(self.elsewhere)} and not known here: theirs" if self.elsewhere else ""
        return f"EffectCurves({len(self)} columns, {bent} of them bent{away})"

    def _repr_html_(self) -> str:
        return f'<div class="effect-curves"><style>{NOTEBOOK}</style>{curve_figures(self)}</div>'


def curves_of(fit: FitFacts) -> EffectCurves:
    """The effects of a fit's numbers."""
    found, elsewhere = list[EffectCurve](), []
    for party, schema in fit.schemas.items():
        if schema is None:
            continue
        try:
            x = np.asarray(fit.coefficients[party], np.float64)
        except HeldByParty:
            elsewhere.append(party)
            continue
        if x.ndim > 1:
            raise InvalidInput("curves are of one score, and this model gives several a row: look at each alone.")
        spans = spans_of(schema.columns)
        found += [_curve(party, column, x[own]) for column, own in spans if isinstance(column, Numeric)]
    return EffectCurves(tuple(found), tuple(elsewhere))


def _curve(party: str, column: Numeric, x: Floats) -> EffectCurve:
    hats = 1 << column.depth
    missing = None
    if not column.scale:
        grid = np.array([column.low, column.high])
        effect = x[0] * (grid - grid.mean())
        middle = float(x[0] * grid.mean())
    else:
        grid = column.knots()
        middle = float(values(np.zeros(1), x[:hats])[0])
        effect = values(knots(column.depth), x[:hats]) - middle
    if column.missing == "indicator":
        missing = float(x[hats]) - middle
    return EffectCurve(party, column.name, grid, effect, missing)


def per_unit(fit: FitFacts, party: str) -> dict[str, float]:
    """By the name of a column that enters as a line: what a coefficient of it is multiplied with for one own unit."""
    schema = fit.schemas.get(party)
    found = {}
    for column in schema.columns if schema is not None else ():
        if isinstance(column, Numeric) and column.scale and not column.depth:
            found[column.name] = 2.0 / (column.high - column.low)
        elif isinstance(column, Date):
            found[column.name] = 2.0 / (column.high - column.low).days
    return found


def in_curves(fit: FitFacts, party: str) -> frozenset[str]:
    """The encoded columns of a party that only together are a curve."""
    schema = fit.schemas.get(party)
    bent = [c for c in (schema.columns if schema is not None else ()) if isinstance(c, Numeric) and c.depth]
    return frozenset(f.name for column in bent for f in features_of(column) if not f.binary)


def curve_figures(curves: EffectCurves, parties: Sequence[str] = ()) -> Markup:
    """The widest effects, each drawn over its own unit, in its party's colour, beside its figures."""
    widest = sorted(curves.curves, key=lambda curve: -curve.reach)[:SHOWN]
    colours = chart.party_colours(list(dict.fromkeys([*parties, *(curve.party for curve in curves.curves)])))
    drawn = [_figure(curve, colours[curve.party]) for curve in widest if curve.reach > 0.0]
    return Markup('<div class="pair">' + "".join(drawn) + "</div>") if drawn else Markup("")


def _figure(curve: EffectCurve, colour: str) -> str:
    points = list(zip(curve.grid.tolist(), curve.effect.tolist(), strict=True))
    caption = f"{curve.party}: {curve.column}"
    if curve.slope is not None:
        caption += f", {number(curve.slope)} for one unit more"
    line = chart.Curve(curve.column, points, colour, 0)
    shown = chart.lines([line], chart.Axis(curve.column), chart.Axis("effect on the score"), label=caption)
    rows = [(number(value), number(effect)) for value, effect in points]
    rows += [] if curve.missing is None else [("missing", number(curve.missing))]
    return figure(shown, caption, table(caption, (curve.column, "effect"), rows, numbers=2))


def curves_part(fit: FitFacts) -> str:
    """What a report says of the numbers."""
    if not any(isinstance(c, Numeric) for schema in fit.schemas.values() if schema for c in schema.columns):
        return ""
    curves = curves_of(fit)
    if not (figures := curve_figures(curves, list(fit.coefficients))):
        return ""
    more = f" The {SHOWN} that move it most of {len(curves)}." if len(curves) > SHOWN else ""
    said = f"Each number's part of the score over its declared range, in its own unit, 0 at the middle of it.{more}"
    return "<h3>What numbers say</h3>" + paragraph(said, "soft") + figures
