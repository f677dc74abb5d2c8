"""What the model says: its coefficients by party, what each number does to the score, its path along the penalty, and
coefficients with intervals and tests, as text, as HTML and as sections of the report.

A column's effect at a value is its part of the score there, less its part at the middle of its declared range, so that
0 is a value of which everybody knows where it lies. Between the knots of a curve effects are linear: `grid` has them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from colonnade.data.schema.cells import CardKind
from colonnade.data.schema.column import features_of, spans_of
from colonnade.errors import HeldByParty, InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.model.facts import FitFacts
from colonnade.problem.kernel import Support
from colonnade.views import chart
from colonnade.views.chart import INK, party_colours
from colonnade.views.parts import (
    count_noun,
    figure,
    folded_part,
    heading,
    joined,
    number,
    paragraph,
    piece,
    side_by_side,
    table,
    wide,
    with_error,
)

if TYPE_CHECKING:
    import polars as pl

LARGEST = 20  # coefficients shown with a bar
CURVES = 6  # of the path
SHOWN = 12  # curves drawn in a report, the widest first
# A notebook has no style sheet of ours: how large a plot is, and that its grid is faint.
NOTEBOOK = Markup(
    ".effect-curves .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); } "
    ".effect-curves .plot { display: block; overflow: visible; width: 70%; height: 12rem; margin: .2rem 1rem 1.5rem "
    "4.6rem; } .effect-curves .grid line { stroke: #8886; } .effect-curves text { fill: currentColor; }"
)
WIDTH = 118  # of a line of text
NOT_DETERMINED = "not determined at this budget"


class NonzeroCoefficient(NamedTuple):
    """One coefficient that is not zero."""

    party: str
    feature: str
    value: float
    error: float


def model_section(fit: FitFacts) -> str:
    counts, entries = _entries(fit)
    noun = "examples" if isinstance(fit.model, Support) else "columns"  # a kernel machine weighs examples
    parts: list[str] = [
        table(f"{noun.capitalize()} by party", ("party", noun, "used", "L1 norm"), counts, numbers=3),
        paragraph(f"The intercept is {number(fit.intercept)}."),
    ]
    if not entries:
        return joined([*parts, paragraph("All coefficients known here are zero.")])
    total = sum(x.size for x in fit.coefficients.local.values())
    parts.append(paragraph(f"{len(entries):,} of {count_noun(total, 'coefficient')} known here are not zero."))
    bent = {party: in_curves(fit, party) for party in fit.coefficients}
    alone = [entry for entry in entries if entry.feature not in bent[entry.party]]
    parts += [
        _bars(fit, alone[:LARGEST], len(alone), any(bent.values())) if alone else "",
        curves_part(fit),
        _path(fit),
    ]
    units = {party: per_unit(fit, party) for party in fit.coefficients}
    # Whether a coefficient may be of another unit than its column.
    own = any(units.values()) or any(bent.values())
    columns = [
        ("party", [e.party for e in entries]),
        ("column", [e.feature for e in entries]),
        ("coefficient", [number(e.value) if fit.spread is None else with_error(e.value, e.error) for e in entries]),
        ("for one unit more", [_for_one_unit(e, bent, units) for e in entries] if own else None),
    ]
    heads = [name for name, cells in columns if cells is not None]
    rows = list(zip(*(cells for _, cells in columns if cells is not None), strict=True))
    everything = table("Coefficients, largest first", heads, rows, numbers=len(heads) - 2)
    parts.append(folded_part(f"All {count_noun(len(entries), 'coefficient')} as a table", everything))
    return joined(parts)


def _for_one_unit(
    entry: NonzeroCoefficient, bent: Mapping[str, frozenset[str]], units: Mapping[str, Mapping[str, float]]
) -> str:
    """What a coefficient adds to the score for one more of the column's own unit."""
    if entry.feature in bent[entry.party]:
        return "its curve"
    return number(entry.value * units[entry.party].get(entry.feature, 1.0))


def _entries(fit: FitFacts) -> tuple[list[tuple[str, ...]], list[NonzeroCoefficient]]:
    """A line of counts for each party, and every coefficient known here that is not zero, the largest first."""
    counts: list[tuple[str, ...]] = []
    entries = []
    for party in fit.coefficients:
        try:
            x = fit.coefficients[party]
        except HeldByParty:
            counts.append((party, "held there", "held there", "held there"))
            continue
        counts.append((party, f"{len(x):,}", f"{np.count_nonzero(x):,}", number(float(np.abs(x).sum()))))
        errors = np.zeros(x.shape) if fit.spread is None else fit.spread[party]
        for place in zip(*np.nonzero(x), strict=True):
            name = str(fit.features[party][int(place[0])])
            name += f", response {place[1] + 1}" if len(place) > 1 else ""
            entries.append(NonzeroCoefficient(party, name, float(x[place]), float(errors[place])))
    return counts, sorted(entries, key=lambda entry: -abs(entry.value))


def _bars(fit: FitFacts, largest: Sequence[NonzeroCoefficient], count: int, beside: bool) -> Markup:
    """The chart is a table: each figure stands beside its bar."""
    colours = party_colours(list(fit.coefficients))
    lengths = [2.0 * entry.error if np.isfinite(entry.error) else 0.0 for entry in largest]
    reach = [e.value + s * length for e, length in zip(largest, lengths, strict=True) for s in (-1.0, 1.0)]
    span = (min(0.0, *reach), max(0.0, *reach))
    rows = []
    for entry, length in zip(largest, lengths, strict=True):
        shown = number(entry.value) if fit.spread is None else with_error(entry.value, entry.error)
        rows.append((entry.feature, entry.party, shown, chart.bar(entry.value, length, span, colours[entry.party])))
    caption = f"The {len(largest)} largest of {count:,} coefficients that are not zero"
    caption += ", those of curves apart" if beside else ""
    heads = ("column", "party", "coefficient", wide("beside each other"))
    bars = table(caption, heads, rows, numbers=1, bars=True)
    keys = chart.legend([(party, colours[party], None) for party in dict.fromkeys(e.party for e in largest)])
    note = ""
    if fit.spread is not None:
        note = paragraph(
            "± is one standard error, the lines show two: of sampling, and of the noise that privacy added. They are "
            "shown where about 19 of 20 such lines hold the truth, if residuals spread alike in all rows; "
            "docs/understand/methods/private-gram.md says how that is decided.",
            "soft",
        )
    return bars + keys + note


def _path(fit: FitFacts) -> str:
    """The coefficients along the penalty, where the run gave them."""
    if fit.path is None:
        return ""
    weights = fit.path.weights
    curves = []
    colours = party_colours(list(fit.coefficients))
    for party, rows in fit.path.coefficients.items():
        for j in np.flatnonzero(np.abs(rows).max(axis=0)).tolist():
            name = str(fit.features[party][j]) if party in fit.features else f"column {j + 1}"
            curves.append((f"{party}: {name}", rows[:, j], colours.get(party, INK)))
    curves.sort(key=lambda curve: -float(np.abs(curve[1]).max()))
    shown = [
        chart.Curve(name, list(zip(weights.tolist(), values.tolist(), strict=True)), colour, k)
        for k, (name, values, colour) in enumerate(curves[:CURVES])
    ]
    if not shown or weights.min() <= 0.0:
        return ""
    which = f"The {len(shown)} largest coefficients along the weight of the penalty (or the radius of the set)"
    caption = f"{which}: all from the same release, at no further price."
    drawn = chart.lines(shown, chart.Axis("weight", log=True), chart.Axis("coefficient"), label=caption)
    path = fit.path.table().rows()
    sizes = [(number(weight), f"{nonzero:,}", number(l1_norm)) for weight, nonzero, l1_norm in path]
    data = table("Size of the model along the penalty", ("weight", "not zero", "L1 norm"), sizes, numbers=3)
    return heading("Along the penalty") + figure(drawn, caption, data)


# ------------------------------------------------------------------------------------------------ what numbers say


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
        return piece("effect_curves", NOTEBOOK, curve_figures(self))


def curves_of(fit: FitFacts) -> EffectCurves:
    """The effects of a fit's numbers."""
    found = list[EffectCurve]()
    elsewhere = []
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
        for column, own in spans_of(schema.columns):
            if (drawn := column.drawn(x[own])) is not None:
                found.append(EffectCurve(party, column.name, *drawn))
    return EffectCurves(tuple(found), tuple(elsewhere))


def per_unit(fit: FitFacts, party: str) -> dict[str, float]:
    """By the name of a column that enters as a line: what a coefficient of it is multiplied with for one own unit."""
    schema = fit.schemas.get(party)
    each = [(column.name, column.per_unit()) for column in (schema.columns if schema is not None else ())]
    return {name: factor for name, factor in each if factor is not None}


def in_curves(fit: FitFacts, party: str) -> frozenset[str]:
    """The encoded columns of a party that only together are a curve."""
    schema = fit.schemas.get(party)
    bent = [column for column in (schema.columns if schema is not None else ()) if column.depth]
    return frozenset(f.name for column in bent for f in features_of(column) if not f.binary)


def curve_figures(curves: EffectCurves, parties: Sequence[str] = ()) -> Markup:
    """The widest effects, each drawn over its own unit, in its party's colour, beside its figures."""
    widest = sorted(curves.curves, key=lambda curve: -curve.reach)[:SHOWN]
    colours = chart.party_colours(list(dict.fromkeys([*parties, *(curve.party for curve in curves.curves)])))
    drawn = [_figure(curve, colours[curve.party]) for curve in widest if curve.reach > 0.0]
    return side_by_side(drawn) if drawn else Markup("")


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
    columns = [column for schema in fit.schemas.values() if schema is not None for column in schema.columns]
    if not any(column.card(0).get("kind") == CardKind.NUMBER for column in columns):
        return ""
    curves = curves_of(fit)
    if not (figures := curve_figures(curves, list(fit.coefficients))):
        return ""
    more = f" The {SHOWN} that move it most of {len(curves)}." if len(curves) > SHOWN else ""
    said = f"Each number's part of the score over its declared range, in its own unit, 0 at the middle of it.{more}"
    return heading("What numbers say") + paragraph(said, "soft") + figures


# ------------------------------------------------------------------------------------------------ intervals and tests


@dataclass(frozen=True)
class CoefficientRow:
    """One line of the table; `low` and `high` are infinite where the budget does not determine it."""

    name: str
    party: str
    estimate: float
    low: float
    high: float
    pvalue: float
    sampling: float  # its share of the variance
    across: float  # how far the column reaches, by which it is drawn: units differ; 0: it is not

    @property
    def determined(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class InferenceFacts:
    """What is said of one model: what it is about, its coefficients, what is known of it as a whole, and warnings."""

    title: str
    about: tuple[str, ...]
    level: float
    adjusted: str  # of p-values, as in "p (Holm)"
    rows: tuple[CoefficientRow, ...]
    closing: tuple[str, ...]
    warnings: tuple[str, ...]


def figure_of(value: float) -> str:
    """A number as tables show it: three digits that count, and no more zeros than it takes."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(places, 0)}f}" if -3 <= places <= 6 else f"{value:.2e}"


def probability(value: float) -> str:
    return "" if math.isnan(value) else "< .001" if value < 0.0005 else f"{value:.3f}".lstrip("0")


def _cells(row: CoefficientRow) -> tuple[str, ...]:
    if not row.determined:
        return (row.name, NOT_DETERMINED, "", "", "")
    interval = f"[{figure_of(row.low)}, {figure_of(row.high)}]"
    parts = f"{row.sampling:.0%} / {1.0 - row.sampling:.0%}"
    return (row.name, figure_of(row.estimate), interval, probability(row.pvalue), parts)


def _heads(facts: InferenceFacts) -> tuple[str, ...]:
    return (
        "column",
        "estimate",
        f"{100.0 * facts.level:.3g} % interval",
        facts.adjusted,
        "of the variance: sampling / noise",
    )


def as_text(facts: InferenceFacts) -> str:
    """The page as plain text."""
    lines = [_heads(facts), *map(_cells, facts.rows)]
    widths = [max(len(line[k]) for line in lines if k != 1 or line[k] != NOT_DETERMINED) for k in range(5)]
    body = []
    for cells in lines:
        if cells[1] == NOT_DETERMINED:
            body.append(f"{cells[0]:<{widths[0]}}  {NOT_DETERMINED}")
            continue
        rest = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True))
        body.append(f"{cells[0]:<{widths[0]}}  {rest}")
    above, below = (_wrapped(lines) for lines in ((facts.title, *facts.about), (*facts.closing, *facts.warnings)))
    return "\n".join([*above, "", *body, "", *below])


def _wrapped(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]


def as_html(facts: InferenceFacts) -> Markup:
    """The page for a notebook: the same words, with a line for every interval."""
    above = joined(paragraph(line) for line in (facts.title, *facts.about))
    below = joined(paragraph(line) for line in (*facts.closing, *facts.warnings))
    return above + _drawn(facts) + below


def _drawn(facts: InferenceFacts) -> Markup:
    """The table with its intervals side by side, each in its party's colour and over its column's declared range; those
    not determined, and the constant, have no line."""
    shown = [row for row in facts.rows if row.determined and row.across]
    ends = [row.across * end for row in shown for end in (row.low, row.high)]
    span = (min(0.0, *ends), max(0.0, *ends)) if len(ends) > 1 else (0.0, 1.0)
    colours = party_colours(list(dict.fromkeys(row.party for row in facts.rows)))
    heads = (*_heads(facts)[:-1], "sampling / noise", wide("over its range"))

    def line(row: CoefficientRow) -> Sequence[str]:
        value, low, high = (row.across * end for end in (row.estimate, row.low, row.high))
        return (*_cells(row), chart.interval(value, low, high, span, colours[row.party]) if row in shown else "")

    about = "Coefficients with their intervals, which are drawn for a move over each column's range"
    return table(about, heads, map(line, facts.rows), numbers=4, bars=True)


def inference_section(facts: InferenceFacts | str) -> str:
    """The section of the report: a table with its plot, or why there is none."""
    return paragraph(facts[:1].upper() + facts[1:]) if isinstance(facts, str) else as_html(facts)
