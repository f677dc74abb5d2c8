"""Small charts as inline SVG: lines, stacked bars, and bars inside a table's cell. No script, no fonts.

Every picture of a page is drawn here, by hand: a page carries no script, so plotly cannot draw on it, and an SVG of
matplotlib has its text in outlines or fonts of its own, and neither stretches with the page nor takes its colours; it
would also be a dependency of every install for pictures that are a few lines each. What a user turns and zooms is drawn
by plotly: `fit.plot`, simulations and budgets (the extra [plot]). matplotlib draws the figures of papers/ alone.

A chart is as wide as the page. Lines and bars stretch with it; text does not, since it stands in the outer picture at
shares of the width. Text and grid take the page's colours, so that light, dark and print need nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from colonnade.errors import InvalidInput
from colonnade.views.parts import breakable, human_bytes

# A colour means one thing: a party (these), the model or the run as a whole (INK), or how a value looked when it left
# (style.css: masked, noisy, exact). All stand out on white and on the dark page (3 to 1 and more).
COLOURS = ("#2E74B5", "#A45FB8", "#5D7F92", "#7568C8", "#C0609A", "#3F86A6")
INK = "#6B7685"
MOST = 1e300  # so that differences of what is shown are finite
UNIT = 1000.0  # the inner picture's width and height
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "12 4")
Point = tuple[float, float]
Ticks = Sequence[tuple[float, str]]  # where they stand, as shares of the axis, and what is written there


@dataclass(frozen=True)
class Curve:
    """One curve."""

    name: str
    points: Sequence[Point]
    colour: str
    place: int = 0  # chooses the dash, so that colour is not all that tells curves apart
    steps: bool = False
    marks: bool = False


@dataclass(frozen=True)
class Axis:
    """What stands along one side: its name, its scale, its ends where they are given."""

    name: str
    log: bool = False
    bytes: bool = False
    low: float | None = None
    high: float | None = None
    whole: bool = False  # nothing lies between two whole numbers

    def span(self, values: Sequence[float]) -> tuple[float, float]:
        """The ends that show all values; of logarithms on a log axis."""
        scaled = [math.log10(value) if self.log else max(-MOST, min(value, MOST)) for value in values]
        low = min(scaled, default=0.0) if self.low is None else self.low
        high = max(scaled, default=1.0) if self.high is None else self.high
        if low == high:
            low = low - 0.5
            high = high + 0.5
        room = 0.04 * (high - low)
        return low - room * (self.low is None), high + room * (self.high is None)

    def share(self, value: float, span: tuple[float, float]) -> float:
        scaled = math.log10(value) if self.log else value
        return (scaled - span[0]) / (span[1] - span[0])

    def ticks(self, span: tuple[float, float]) -> Ticks:
        low, high = span
        values = self._decades(low, high) if self.log else []
        # No log axis, or one so short that it is almost even.
        if len(values) < 2:
            bottom, top = (10.0**low, 10.0**high) if self.log else (low, high)
            step = max(_nice((top - bottom) / 5), 1.0 if self.whole else 0.0)
            values = [k * step for k in range(math.ceil(bottom / step - 1e-9), math.floor(top / step + 1e-9) + 1)]
        return [(self.share(value, span), self._text(value)) for value in values]

    def _decades(self, low: float, high: float) -> list[float]:
        """Powers of ten, every so many of them; where there are few, also twice and five times these."""
        first = math.ceil(low)
        last = math.floor(high)
        if last - first >= 2:
            return [10.0**k for k in range(first, last + 1, math.ceil((last - first + 1) / 5))]
        fine = [m * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
        return [value for value in fine if low <= math.log10(value) <= high]

    def _text(self, value: float) -> str:
        if self.bytes:
            return human_bytes(round(value)).replace(".00 ", " ").replace(".0 ", " ")
        plain = f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
        return plain.replace("-", "−")


def lines(curves: Sequence[Curve], x: Axis, y: Axis, *, label: str, diagonal: bool = False) -> Markup:
    """Curves over common axes; values that a log axis cannot show must be left out before."""
    points = [point for curve in curves for point in curve.points]
    across = x.span([point[0] for point in points])
    up = y.span([point[1] for point in points])

    def at(point: Point) -> Point:
        return UNIT * x.share(point[0], across), UNIT * (1.0 - y.share(point[1], up))

    inner = []
    marks = []
    if diagonal:
        inner.append(_stroke([at((0.0, 0.0)), at((1.0, 1.0))], 'class="guide"'))
    for curve in curves:
        path = [at(point) for point in (_steps(curve.points) if curve.steps else curve.points)]
        dash = DASHES[curve.place % len(DASHES)]
        look = f'stroke="{curve.colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
        inner.append(_stroke(path, look))
        if curve.marks or len(path) == 1:
            marks += [_dot(at(point), curve.colour) for point in curve.points]
    keys = legend([(curve.name, curve.colour, DASHES[curve.place % len(DASHES)]) for curve in curves])
    return _frame(inner, marks, x, y, x.ticks(across), y.ticks(up), label) + keys


def stacked_bars(
    heights: Mapping[str, Sequence[float]], places: Sequence[int], x: Axis, y: Axis, *, label: str
) -> Markup:
    """Bars at `places`, the parts of each bar, by party, one above the other."""
    colours = party_colours(list(heights))
    totals = [sum(column) for column in zip(*heights.values(), strict=True)]
    width = min((b - a for a, b in pairwise(places)), default=1)
    across = (min(places, default=0) - 0.5 * width, max(places, default=0) + 0.5 * width)
    up = (0.0, max(totals, default=0.0) * 1.04 or 1.0)
    inner = []
    floors = [0.0] * len(places)
    wide = UNIT * 0.84 * width / (across[1] - across[0])
    for name, parts in heights.items():
        for number, (place, part) in enumerate(zip(places, parts, strict=True)):
            if not part:
                continue
            left = UNIT * (place - 0.42 * width - across[0]) / (across[1] - across[0])
            top = UNIT * (1.0 - (floors[number] + part) / up[1])
            tall = UNIT * part / up[1]
            box = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}"'
            inner.append(f'<rect {box} fill="{colours[name]}"/>')
            floors[number] += part
    keys = legend([(name, colours[name], None) for name in heights])
    return _frame(inner, [], x, y, x.ticks(across), y.ticks(up), label) + keys


def bar(value: float, error: float, span: tuple[float, float], colour: str) -> Markup:
    """A bar from zero inside a table's cell, with a whisker of `error` to either side; sized also where no style is."""

    def at(number: float) -> float:
        return 100.0 * (min(max(number, span[0]), span[1]) - span[0]) / (span[1] - span[0])

    left, right = sorted((at(0.0), at(value)))
    whisker = ""
    if error > 0.0 and math.isfinite(error):
        ends = f'x1="{at(value - error):.2f}%" x2="{at(value + error):.2f}%"'
        whisker = f'<line {ends} y1="50%" y2="50%" class="whisker"/>'
    return Markup(
        '<svg class="bar" width="240" height="18" aria-hidden="true" focusable="false">'
        f'<rect x="{left:.2f}%" y="15%" width="{max(right - left, 0.4):.2f}%" height="70%" fill="{colour}"/>'
        f'<line x1="{at(0.0):.2f}%" x2="{at(0.0):.2f}%" y1="0" y2="100%" class="zero"/>{whisker}</svg>'
    )


def interval(value: float, low: float, high: float, span: tuple[float, float], colour: str) -> Markup:
    """A dot with its interval inside a table's cell, and a line at zero; notebooks have no style of ours."""

    def at(number: float) -> float:
        return 100.0 * (number - span[0]) / (span[1] - span[0])

    return Markup(
        '<svg class="bar" width="240" height="18" aria-hidden="true" focusable="false">'
        f'<line x1="{at(0.0):.2f}%" x2="{at(0.0):.2f}%" y1="0" y2="100%" stroke="#888" class="zero"/>'
        f'<line x1="{at(low):.2f}%" x2="{at(high):.2f}%" y1="50%" y2="50%" stroke="{colour}" stroke-width="2.5"/>'
        f'<circle cx="{at(value):.2f}%" cy="50%" r="3.5" fill="{colour}"/></svg>'
    )


def legend(entries: Sequence[tuple[str, str, str | None]]) -> Markup:
    """Name, colour, and dash (None: an area) of what is drawn; nothing where there is only one thing."""
    if len(entries) < 2:
        return Markup("")
    keys = []
    for name, colour, dash in entries:
        mark = f'<rect width="18" height="12" fill="{colour}"/>'
        if dash is not None:
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            mark = f'<line x1="0" x2="18" y1="6" y2="6" stroke="{colour}" stroke-width="2.5"{dashes}/>'
        keys.append(f'<li><svg width="18" height="12" aria-hidden="true">{mark}</svg>{breakable(name)}</li>')
    return Markup(f'<ul class="legend">{"".join(keys)}</ul>')


def _frame(
    inner: Sequence[str], outer: Sequence[str], x: Axis, y: Axis, along: Ticks, upward: Ticks, label: str
) -> Markup:
    grid = []
    text = []
    for share, words in upward:
        at = 100.0 * (1.0 - share)
        grid.append(f'<line x1="0" x2="100%" y1="{at:.2f}%" y2="{at:.2f}%"/>')
        text.append(f'<text x="0" y="{at:.2f}%" dx="-8" dy="4" text-anchor="end">{escape(words)}</text>')
    for share, words in along:
        anchor = "end" if share > 0.97 else "middle"
        text.append(f'<text x="{100.0 * share:.2f}%" y="100%" dy="18" text-anchor="{anchor}">{escape(words)}</text>')
    return Markup(
        f'<p class="axis" aria-hidden="true">{breakable(y.name)}</p>'
        f'<svg class="plot" role="img" aria-label="{escape(label)}"><g class="grid">{"".join(grid)}'
        '<line x1="0" x2="0" y1="0" y2="100%"/><line x1="0" x2="100%" y1="100%" y2="100%"/></g>'
        f'<svg viewBox="0 0 {UNIT:g} {UNIT:g}" width="100%" height="100%" '
        f'preserveAspectRatio="none">{"".join(inner)}</svg>'
        f"{''.join(outer)}{''.join(text)}</svg>"
        f'<p class="axis right" aria-hidden="true">{breakable(x.name)}</p>'
    )


def _stroke(path: Sequence[Point], look: str) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
    return f'<polyline points="{points}" fill="none" vector-effect="non-scaling-stroke" stroke-width="2.5" {look}/>'


def _dot(at: Point, colour: str) -> str:
    return f'<circle cx="{at[0] / UNIT:.2%}" cy="{at[1] / UNIT:.2%}" r="3.5" fill="{colour}"/>'


def _steps(points: Sequence[Point]) -> list[Point]:
    """Each value holds until the next one comes."""
    path = list(points[:1])
    for before, after in pairwise(points):
        path += [(after[0], before[1]), after]
    return path


def _nice(step: float) -> float:
    """The next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-9))


def party_colours(parties: Sequence[str]) -> dict[str, str]:
    return {party: COLOURS[place % len(COLOURS)] for place, party in enumerate(parties)}


def plotly_objects() -> Any:
    """Plotly, which draws what a user turns and zooms, or an error that says how to get it."""
    try:
        import plotly.graph_objects
    except ModuleNotFoundError as error:
        needs = "this plot needs plotly: pip install 'colonnade[plot]'"
        raise InvalidInput(f"{needs}. The figures are there without it.") from error
    return plotly.graph_objects
