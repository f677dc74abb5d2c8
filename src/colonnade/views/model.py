"""The sections about the model: its coefficients by party, its path along the penalty, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from colonnade.errors import HeldByParty
from colonnade.problem.kernel import Support
from colonnade.views import chart
from colonnade.views import parts as html
from colonnade.views.chart import INK, party_colours
from colonnade.views.curves import curves_part, in_curves, per_unit
from colonnade.views.fit_facts import BASES, Evaluation, FitFacts, Quality
from colonnade.views.parts import Markup, count_noun, figure, number, paragraph, table, with_error

LARGEST = 20  # coefficients shown with a bar
CURVES = 6  # of the path


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
        return "".join([*parts, paragraph("All coefficients known here are zero.")])
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
    own = any(units.values()) or any(bent.values())  # whether a coefficient may be of another unit than its column
    columns = [
        ("party", [e.party for e in entries]),
        ("column", [e.feature for e in entries]),
        ("coefficient", [number(e.value) if fit.spread is None else with_error(e.value, e.error) for e in entries]),
        ("for one unit more", [_for_one_unit(e, bent, units) for e in entries] if own else None),
    ]
    heads = [name for name, cells in columns if cells is not None]
    rows = list(zip(*(cells for _, cells in columns if cells is not None), strict=True))
    everything = table("Coefficients, largest first", heads, rows, numbers=len(heads) - 2)
    parts.append(html.folded_part(f"All {count_noun(len(entries), 'coefficient')} as a table", everything))
    return "".join(parts)


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
    heads = ("column", "party", "coefficient", Markup('<span class="wide">beside each other</span>'))
    bars = table(caption, heads, rows, numbers=1, bars=True)
    keys = chart.legend([(party, colours[party], None) for party in dict.fromkeys(e.party for e in largest)])
    note = ""
    if fit.spread is not None:
        note = paragraph(
            "± is one standard error, the lines show two: of sampling, and of the noise that privacy added. They are "
            "shown where about 19 of 20 such lines hold the truth, if residuals spread alike in all rows; "
            "docs/private-gram.md says how that is decided.",
            "soft",
        )
    return Markup(bars + keys + note)


def _path(fit: FitFacts) -> str:
    """The coefficients along the penalty, where the run gave them."""
    if fit.path is None:
        return ""
    weights, curves = fit.path.weights, []
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
    return "<h3>Along the penalty</h3>" + figure(drawn, caption, data)


# ------------------------------------------------------------------------------------------------ how good it is


def quality_section(evaluation: Evaluation | None, quality: Quality | None) -> str:
    """What was measured; nothing where nothing was."""
    parts: list[str] = []
    if quality is not None:
        rows = [(name, quality.shown(name)) for name in quality.values]
        caption = "The joint model, and others to compare it with"
        parts += [table(caption, ("model", quality.measure), rows, numbers=1), paragraph(quality.note, "soft")]
    if evaluation is None:
        return "".join(parts)
    parts.append(paragraph(f"On {count_noun(evaluation.rows, 'row')} given for this report. {BASES[evaluation.basis]}"))
    rows3 = [(name, with_error(value, error), meaning) for name, (value, error, meaning) in evaluation.figures.items()]
    known = any(error is not None for _, error, _ in evaluation.figures.values())
    caption = "Figures of quality" + ", ± one standard error of these rows" * known
    parts.append(table(caption, ("measure", "figure", "meaning"), rows3))
    parts += ['<div class="pair">', _roc(evaluation), _calibration(evaluation), "</div>", _contribution(evaluation)]
    return "".join(parts)


def _roc(evaluation: Evaluation) -> str:
    if not evaluation.roc:
        return ""
    caption = "ROC: positive rows found against negative rows accused, by threshold; on the grey line are guesses."
    x, y = (chart.Axis(name, low=0.0, high=1.0) for name in ("negative rows accused", "positive rows found"))
    drawn = chart.lines([chart.Curve("model", evaluation.roc, INK)], x, y, label=caption, diagonal=True)
    rows = [tuple(f"{share:.3f}" for share in evaluation.roc[k]) for k in html.evenly_spaced(len(evaluation.roc))]
    return figure(drawn, caption, table("Points of the ROC", (x.name, y.name), rows, numbers=2))


def _calibration(evaluation: Evaluation) -> str:
    if not evaluation.groups:
        return paragraph(evaluation.remark, "soft")
    caption = "Calibration: predicted against found, in groups of equal size; on the grey line both agree."
    points = [(predicted, found) for predicted, found, _ in evaluation.groups]
    low, high = (0.0, 1.0) if evaluation.roc else (min(map(min, points)), max(map(max, points)))
    x, y = (chart.Axis(name, low=low, high=high) for name in ("predicted", "found"))
    line = chart.Curve("model", points, INK, marks=True)
    drawn = chart.lines([line], x, y, label=caption, diagonal=bool(evaluation.roc))
    rows = [(f"{predicted:.4g}", f"{found:.4g}", f"{size:,}") for predicted, found, size in evaluation.groups]
    return figure(drawn, caption, table("Groups", ("predicted", "found", "rows"), rows, numbers=3))


def _contribution(evaluation: Evaluation) -> str:
    if not evaluation.without:
        return ""
    whole = evaluation.figures[evaluation.measure][0]
    rows = [("all parties", number(whole), "")]
    rows += [(f"without {p}", number(value), number(value - whole)) for p, value in evaluation.without.items()]
    parts = table("What each party adds", ("scores", evaluation.measure, "difference"), rows, numbers=2)
    return parts + paragraph(
        "A party's part of every score is left out and the rest stays as it is: what it adds to this model, not what a "
        "model without it could reach.",
        "soft",
    )
