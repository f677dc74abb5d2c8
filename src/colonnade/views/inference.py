"""A table of coefficients with intervals and tests, as text, as HTML, and as a section of the report with its plot."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.views import chart
from colonnade.views.chart import party_colours
from colonnade.views.parts import Markup, paragraph, table

WIDTH = 118  # of a line of text
NOT_DETERMINED = "not determined at this budget"


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
    words = "".join(paragraph(text) for text in (facts.title, *facts.about))
    return Markup(words + _drawn(facts) + "".join(map(paragraph, (*facts.closing, *facts.warnings))))


def _drawn(facts: InferenceFacts) -> Markup:
    """The table with its intervals side by side, each in its party's colour and over its column's declared range; those
    not determined, and the constant, have no line."""
    shown = [row for row in facts.rows if row.determined and row.across]
    ends = [row.across * end for row in shown for end in (row.low, row.high)]
    span = (min(0.0, *ends), max(0.0, *ends)) if len(ends) > 1 else (0.0, 1.0)
    colours = party_colours(list(dict.fromkeys(row.party for row in facts.rows)))
    heads = (*_heads(facts)[:-1], "sampling / noise", Markup('<span class="wide">over its range</span>'))

    def line(row: CoefficientRow) -> Sequence[str]:
        value, low, high = (row.across * end for end in (row.estimate, row.low, row.high))
        return (*_cells(row), chart.interval(value, low, high, span, colours[row.party]) if row in shown else "")

    about = "Coefficients with their intervals, which are drawn for a move over each column's range"
    return table(about, heads, map(line, facts.rows), numbers=4, bars=True)


def inference_section(facts: InferenceFacts | str) -> str:
    """The section of the report: a table with its plot, or why there is none."""
    return paragraph(facts[:1].upper() + facts[1:]) if isinstance(facts, str) else as_html(facts)
