"""A plotly figure as a plain SVG: lines, markers, bands, bars, whiskers and tables, on linear, log and named axes.

Plotly itself needs a browser to write SVG, so what the figures of this package use is drawn here. Colours of text and grid follow
the reader's scheme, light or dark, by a style sheet inside the file. A kind of trace that is not drawn is named in the picture.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from colonnade.report.colours import COLOURS

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDTH, LEFT, RIGHT = 960.0, 74.0, 18.0
LINE = 17.0  # height of a line of text
DASHES = {"dash": "8 5", "dot": "2 4", "dashdot": "8 4 2 4", "longdash": "14 5", "longdashdot": "14 4 2 4"}
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #1b1f24; }
.title { font-size: 15px; font-weight: 600; } .soft { fill: #545d68; font-size: 11px; }
.page { fill: #ffffff; } .grid { stroke: #d4d9df; stroke-width: 1; } .frame { stroke: #8a939e; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee; } .soft { fill: #a5afbb; } .page { fill: #14181f; } .grid { stroke: #38414d; }
  .frame { stroke: #707a86; }
}
"""
Place = Callable[[Any], float | None]


def to_svg(figure: go.Figure, foot: str = "") -> str:
    """The whole picture; `foot` stands below it, such as what privacy the curves have."""
    title = _lines(_text(figure.layout.title.text), 105)
    tables = [trace for trace in figure.data if trace.type == "table"]
    plotted = [trace for trace in figure.data if trace.type in ("scatter", "scattergl", "bar")]
    others = sorted({trace.type for trace in figure.data} - {"table", "scatter", "scattergl", "bar"})
    legend = _legend(plotted)
    notes = [*_lines(foot, 150), *(f"traces of the kind {kind!r} are in the HTML page only" for kind in others)]
    top = 14.0 + LINE * len(title) + 22.0
    height = float(figure.layout.height or 520) if plotted else 20.0
    body, below = [], top + height + 48.0
    if plotted:
        body += _panels(figure, plotted, top, height)
        body += _placed(legend, below)
        below += LINE * (max((row for row, *_ in legend), default=-1) + 1)
    for table in tables:
        drawn, below = _table(table, below)
        body += drawn
    body += [_label(LEFT - 56, below + 8 + LINE * k, note, "soft") for k, note in enumerate(notes)]
    total = below + 14 + LINE * len(notes)
    head = [_label(18, 24 + LINE * k, line, "title") for k, line in enumerate(title)]
    name = escape(" ".join(title) or "figure")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {total:.0f}" role="img" aria-label="{name}">'
        f"<title>{name}</title><style>{STYLE}</style>"
        f'<rect class="page" width="{WIDTH:g}" height="{total:.0f}"/>' + "\n".join([*head, *body]) + "</svg>\n"
    )


# ------------------------------------------------------------------------------------------------ axes


@dataclass
class _Axis:
    """One axis: how values become positions between `start` and `end`, in pixels."""

    layout: Any
    start: float = 0.0
    end: float = 1.0
    values: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def log(self) -> bool:
        return bool(self.layout.type == "log")

    def learn(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, str):
                if value not in self.names:
                    self.names.append(value)
            elif (number := _number(value, self.log)) is not None:
                self.values.append(number)

    def order(self) -> None:
        wanted = [str(name) for name in self.layout.categoryarray or () if str(name) in self.names]
        self.names = [*wanted, *(name for name in self.names if name not in wanted)]

    def span(self) -> tuple[float, float]:
        """Smallest and largest shown value; of logarithms on a log axis."""
        if self.names:
            return -0.5, len(self.names) - 0.5
        if self.layout.range is not None and None not in self.layout.range:
            low, high = map(float, self.layout.range)
            return low, high
        if not self.values:
            return 0.0, 1.0
        low, high = min(self.values), max(self.values)
        if self.layout.rangemode == "tozero" and not self.log:
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.04 * (high - low) or abs(high) * 0.1 or 0.5
        return low - room, high + room

    def place(self, value: Any) -> float | None:
        number = float(self.names.index(value)) if isinstance(value, str) and value in self.names else None
        if number is None:
            number = _number(value, self.log)
        if number is None:
            return None
        low, high = self.span()
        return self.start + (number - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Values in data units, with what is written beside them."""
        if self.names:
            return [(k, name) for k, name in enumerate(self.names)]
        low, high = sorted(self.span())
        if self.layout.tickvals is not None and self.layout.tickmode != "auto":
            told = self.layout.ticktext if self.layout.ticktext is not None else map(_shown, self.layout.tickvals)
            both = zip(self.layout.tickvals, told, strict=False)
            found = [(_number(value, self.log), _text(str(text))) for value, text in both]
            return [(value, text) for value, text in found if value is not None and low <= value <= high]
        if self.log:
            decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
            marks = [float(k) for k in decades[:: max(1, math.ceil(len(decades) / 7))]]
            if len(decades) < 3:
                fine = (k + math.log10(m) for k in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5))
                marks = [mark for mark in fine if low <= mark <= high]
            return [(mark, _shown(10**mark)) for mark in marks]
        step = _nice((high - low) / 5)
        first = math.ceil(low / step - 1e-9)
        return [(k * step, _shown(round(k * step, 12))) for k in range(first, math.floor(high / step + 1e-9) + 1)]

    def at(self, number: float) -> float:
        """The position of a tick, whose logarithm was already taken."""
        low, high = self.span()
        return self.start + (number - low) / (high - low) * (self.end - self.start)


def _panels(figure: go.Figure, traces: Sequence[Any], top: float, height: float) -> list[str]:
    """Every pair of axes with its grid, traces, lines and notes."""
    pairs = dict.fromkeys((trace.xaxis or "x", trace.yaxis or "y") for trace in traces)
    axes: dict[str, _Axis] = {}
    for x, y in pairs:
        for name in (x, y):
            layout = figure.layout[f"{name[0]}axis{name[1:]}"]
            low, high = layout.domain or (0.0, 1.0)
            if name[0] == "x":
                start, end = (LEFT + share * (WIDTH - LEFT - RIGHT) for share in (low, high))
            else:
                start, end = (top + (1.0 - share) * height for share in (low, high))
            axes.setdefault(name, _Axis(layout, start, end))
    for trace in traces:
        own_x, own_y = axes[trace.xaxis or "x"], axes[trace.yaxis or "y"]
        own_x.learn(_values(trace.x))
        own_y.learn(_values(trace.y))
        if trace.type == "bar":
            (own_x if trace.orientation == "h" else own_y).learn([0.0])
        if trace.type != "bar" and (error := _whisker(trace)) is not None:
            own_y.learn(y + s * e for y, e in zip(_values(trace.y), error, strict=False) for s in (1, -1))
    for name, axis in axes.items():  # axes that are said to match show the same span
        if axis.layout.matches in axes and axis.layout.matches != name:
            root = axes[axis.layout.matches]
            root.values += axis.values
            root.learn(axis.names)
    for axis in axes.values():
        root = axes.get(axis.layout.matches or "", axis)
        axis.values, axis.names = root.values, root.names
        axis.order()
    drawn: list[str] = []
    for number, (x, y) in enumerate(pairs):
        across, up = axes[x], axes[y]
        drawn += _frame(across, up)
        left, right = sorted((across.start, across.end))
        high, low = sorted((up.start, up.end))
        box = f'x="{left:.1f}" y="{high:.1f}" width="{right - left:.1f}" height="{low - high:.1f}"'
        own = [
            (trace, place)
            for place, trace in enumerate(traces)
            if (trace.xaxis or "x", trace.yaxis or "y") == (x, y) and trace.visible not in (False, "legendonly")
        ]
        inside = [*_bars(own, across, up, figure.layout.barmode), *_curves(own, across, up)]
        drawn.append(f'<clipPath id="panel{number}"><rect {box}/></clipPath><g clip-path="url(#panel{number})">')
        drawn += [*inside, "</g>"]
    drawn += _marks(figure, axes, top, height)
    return drawn


def _frame(across: _Axis, up: _Axis) -> list[str]:
    drawn = []
    for value, text in across.ticks():
        at = across.at(value)
        drawn.append(_stroke([(at, up.start), (at, up.end)], 'class="grid"'))
        if across.layout.showticklabels is not False:
            drawn.append(_label(at, up.start + 16, text, anchor="middle"))
    for value, text in up.ticks():
        at = up.at(value)
        drawn.append(_stroke([(across.start, at), (across.end, at)], 'class="grid"'))
        if up.layout.showticklabels is not False:
            drawn.append(_label(across.start - 6, at + 4, text, anchor="end"))
    corners = [(across.start, up.start), (across.end, up.start), (across.end, up.end), (across.start, up.end)]
    drawn.append(_stroke([*corners, corners[0]], 'class="frame"'))
    if name := _text(across.layout.title.text):
        drawn.append(_label((across.start + across.end) / 2, up.start + 34, name, anchor="middle"))
    if name := _text(up.layout.title.text):
        x, y = across.start - 52, (up.start + up.end) / 2
        drawn.append(
            f'<text text-anchor="middle" transform="translate({x:.1f} {y:.1f}) rotate(-90)">{escape(name)}</text>'
        )
    return drawn


# ------------------------------------------------------------------------------------------------ traces


def _curves(own: Sequence[tuple[Any, int]], across: _Axis, up: _Axis) -> list[str]:
    drawn: list[str] = []
    before: list[tuple[float, float]] = []
    for trace, place in own:
        if trace.type == "bar":
            continue
        colour, mode = _colour(trace, place), trace.mode or "lines"
        pieces = _pieces(trace, across, up)
        points = [point for piece in pieces for point in piece]
        if trace.fill in ("toself", "tonexty") and points:
            ring = points if trace.fill == "toself" else [*before, *reversed(points)]
            paint = f'fill="{escape(trace.fillcolor)}"' if trace.fillcolor else f'fill="{colour}" fill-opacity="0.18"'
            drawn.append(f'<polygon points="{_path(ring)}" {paint}/>')
        width = trace.line.width if trace.line.width is not None else 2
        if "lines" in mode and width > 0:
            dash = f' stroke-dasharray="{DASHES[trace.line.dash]}"' if trace.line.dash in DASHES else ""
            look = f'fill="none" stroke="{colour}" stroke-width="{width:g}"{dash}'
            drawn += [_stroke(piece, look) for piece in pieces if len(piece) > 1]
        if "markers" in mode:
            drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        if (error := _whisker(trace)) is not None:
            drawn += _whiskers(zip(_values(trace.x), _values(trace.y), error, strict=False), across.place, up, colour)
        before = points
    return drawn


def _bars(own: Sequence[tuple[Any, int]], across: _Axis, up: _Axis, barmode: str | None) -> list[str]:
    bars = [(trace, place) for trace, place in own if trace.type == "bar"]
    drawn, stacked = [], barmode in ("stack", "relative", "overlay")
    for rank, (trace, place) in enumerate(bars):
        flat = trace.orientation == "h"
        along, upright = (up, across) if flat else (across, up)
        keys, sizes = (_values(trace.y), _values(trace.x)) if flat else (_values(trace.x), _values(trace.y))
        seats = sorted({p for key in keys if (p := along.place(key)) is not None})
        room = min((b - a for a, b in pairwise(seats)), default=0.0) * 0.8
        room = room or 0.5 * abs(along.end - along.start) / max(1, len(seats))
        thick = room if stacked else room / len(bars)
        zero = upright.place(0.0) if not upright.log else upright.start
        for key, size in zip(keys, sizes, strict=False):
            seat, tip = along.place(key), upright.place(size)
            if seat is None or tip is None or zero is None:
                continue
            near = seat - room / 2 + (0.0 if stacked else rank * thick)
            x, y, w, h = (near, min(zero, tip), thick, abs(tip - zero))
            if flat:
                x, y, w, h = min(zero, tip), near, abs(tip - zero), thick
            look = f'width="{w:.1f}" height="{h:.1f}" fill="{_colour(trace, place)}"'
            drawn.append(f'<rect x="{x:.1f}" y="{y:.1f}" {look}/>')
            drawn += [] if flat or _whisker(trace) is None else _bar_whisker(trace, key, size, x + w / 2, up)
    return drawn


def _bar_whisker(trace: Any, key: Any, size: Any, x: float, up: _Axis) -> list[str]:
    error = dict(zip(_values(trace.x), _whisker(trace) or [], strict=False)).get(key)
    return _whiskers([(key, size, error)], lambda _: x, up, "#808080") if error else []


def _whiskers(points: Iterable[Any], across: Place, up: _Axis, colour: str) -> list[str]:
    drawn = []
    for x, y, error in points:
        at, top, foot = across(x), up.place(y + error), up.place(y - error)
        if at is not None and top is not None:
            low = foot if foot is not None else up.start  # below zero on a log axis
            drawn.append(_stroke([(at, low), (at, top)], f'fill="none" stroke="{colour}"'))
    return drawn


def _pieces(trace: Any, across: _Axis, up: _Axis) -> list[list[tuple[float, float]]]:
    """Runs of points that can be shown; a gap in the values, or a 0 on a log axis, breaks the line."""
    pieces: list[list[tuple[float, float]]] = [[]]
    last = None
    for x, y in zip(_values(trace.x), _values(trace.y), strict=False):
        at, height = across.place(x), up.place(y)
        if at is None or height is None:
            pieces.append([])
            continue
        if trace.line.shape == "hv" and last is not None and pieces[-1]:
            pieces[-1].append((at, last))
        pieces[-1].append((at, height))
        last = height
    return [piece for piece in pieces if piece]


def _marks(figure: go.Figure, axes: dict[str, _Axis], top: float, height: float) -> list[str]:
    """Lines and words laid over the panels: thresholds and the names of panels."""

    def seat(letter: str, ref: str | None, value: float, *, words: bool) -> float | None:
        name, _, domain = (ref or "paper").partition(" ")
        if name == "paper":
            return LEFT + value * (WIDTH - LEFT - RIGHT) if letter == "x" else top + (1.0 - value) * height
        axis = axes.get(name)
        if axis is None:
            return None
        if domain:
            return axis.start + value * (axis.end - axis.start)
        return axis.at(value) if words and axis.log else axis.place(value)

    drawn = []
    for shape in figure.layout.shapes or ():
        if shape.type != "line":
            continue
        xs = [seat("x", shape.xref or "x", value, words=False) for value in (shape.x0, shape.x1)]
        ys = [seat("y", shape.yref or "y", value, words=False) for value in (shape.y0, shape.y1)]
        ends = [(x, y) for x, y in zip(xs, ys, strict=True) if x is not None and y is not None]
        if len(ends) == 2:
            dash = f' stroke-dasharray="{DASHES[shape.line.dash]}"' if shape.line.dash in DASHES else ""
            drawn.append(_stroke(ends, f'fill="none" stroke="{escape(shape.line.color or "#808080")}"{dash}'))
    for note in figure.layout.annotations or ():
        x = seat("x", note.xref, note.x, words=True)
        y = seat("y", note.yref, note.y, words=True)
        if x is not None and y is not None and top - 30 <= y <= top + height:  # the foot is written apart
            anchor = {"left": "start", "right": "end"}.get(note.xanchor or "", "middle")
            drawn.append(_label(x, y - 5, _text(note.text), anchor=anchor))
    return drawn


# ------------------------------------------------------------------------------------------------ words


def _legend(traces: Sequence[Any]) -> list[tuple[int, float, str, str, str]]:
    """(row, x, colour, dash, name) of every named trace, once."""
    entries: dict[str, tuple[str, str]] = {}
    for place, trace in enumerate(traces):
        if trace.name and trace.showlegend is not False:
            dash = DASHES.get(trace.line.dash or "", "") if trace.type != "bar" else ""
            entries.setdefault(_text(trace.name), (_colour(trace, place), dash))
    placed, row, x = [], 0, LEFT
    for name, (colour, dash) in entries.items():
        needs = 44 + 6.6 * len(name)
        if x + needs > WIDTH - RIGHT and x > LEFT:
            row, x = row + 1, LEFT
        placed.append((row, x, colour, dash, name))
        x += needs
    return placed


def _placed(legend: Sequence[tuple[int, float, str, str, str]], below: float) -> list[str]:
    drawn = []
    for row, x, colour, dash, name in legend:
        y = below + row * LINE
        look = f'stroke="{colour}" stroke-width="3" fill="none"' + (f' stroke-dasharray="{dash}"' if dash else "")
        drawn += [_stroke([(x, y - 4), (x + 24, y - 4)], look), _label(x + 30, y, name)]
    return drawn


def _table(trace: Any, below: float) -> tuple[list[str], float]:
    heads = [_text(str(_first(cell))) for cell in trace.header["values"] or ()]
    columns = [[_text(str(cell)) for cell in column] for column in trace.cells["values"] or ()]
    widths = [max(map(len, [head, *column])) for head, column in zip(heads, columns, strict=True)]
    total, drawn, x = max(1, sum(widths) + 2 * len(widths)), [], LEFT - 56
    room = WIDTH - RIGHT - x
    for head, column, width in zip(heads, columns, widths, strict=True):
        drawn.append(_label(x, below + LINE, head, "title"))
        drawn += [_label(x, below + LINE * (k + 2.2), cell) for k, cell in enumerate(column)]
        x += room * (width + 2) / total
    return drawn, below + LINE * (max((len(column) for column in columns), default=0) + 3)


def _first(cell: Any) -> Any:
    return cell[0] if isinstance(cell, list | tuple) and cell else cell


def _label(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(text)}</text>'


def _stroke(points: Sequence[tuple[float, float]], look: str) -> str:
    return f'<polyline points="{_path(points)}" {look}/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _colour(trace: Any, place: int) -> str:
    own = trace.marker.color if trace.type == "bar" else trace.line.color or trace.marker.color
    return escape(own) if isinstance(own, str) else COLOURS[place % len(COLOURS)]


def _whisker(trace: Any) -> list[float] | None:
    given = trace.error_y.array if trace.error_y.visible is not False else None
    return None if given is None else [float(value) for value in given]


def _values(given: Any) -> list[Any]:
    return [] if given is None else [value.item() if hasattr(value, "item") else value for value in given]


def _number(value: Any, log: bool) -> float | None:
    """The value on a linear axis, its logarithm on a log one; None where it cannot be shown."""
    if value is None or isinstance(value, str) or not math.isfinite(value) or (log and value <= 0):
        return None
    return math.log10(value) if log else float(value)


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * 0.999)


def _shown(value: float) -> str:
    size = abs(value)
    if size and (size >= 1e5 or size < 1e-3):
        mantissa, _, power = f"{value:.0e}".partition("e")
        return f"10^{int(power)}" if mantissa == "1" else f"{mantissa}e{int(power)}"
    return f"{value:,.10g}"


def _text(given: str | None) -> str:
    plain = re.sub(r"</?(?:b|i|em|sub|sup|span|a|u|s)(?:\s[^<>]*)?>", "", re.sub(r"<br\s*/?>", "\n", given or ""))
    return unescape(plain).strip()


def _lines(text: str, width: int) -> list[str]:
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]
