"""A drawing as plain values: panels with lines, levels and bars, or a table; and the same as SVG, drawn by matplotlib.

    panel = Panel(x="round", y="error", log="y")
    panel.line([1, 2, 3], [1.0, 0.1, 0.01], "ours")
    to_svg(Plot("Errors by round", [panel]), foot="Privacy: none")

Told apart   a curve has a colour, a dash and a name beside its end (looks.py); a panel has at most eight.
Same         the same values give the same file: ids come from a fixed salt, and no date and no version are written into it.
Text         stays text, so that a picture can be searched and copied from. It is set for a wide font: others fit as well.
Kept         `values` is a plot as JSON, `from_values` the plot again: a kept one is drawn anew without running anything.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from colonnade.errors import InvalidInput
from papers.looks import COLOURS, DASHES, MOST, apart, ink, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTHS = {1: 9.6, 2: 10.8, 3: 13.2}  # inches: of a picture, by panels side by side
LEFT, RIGHT, ROW = 0.85, 0.1, 0.19  # inches: the margins, a line of text
BESIDE, BELOW = 0.6, 0.72  # inches between panels, for what stands at their axes
LETTER, NAME, NAMED = (
    0.076,
    0.073,
    24,
)  # inches: a letter of a bar's name and of a curve's; letters in a line of the latter
NOTED = 0.25  # of the width: how far a level's note reaches
GREY = "#6E6E6E"
HATCHES = ("", "////", "....", "xxxx")
LOOK: dict[Any, Any] = {
    "svg.hashsalt": "papers",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.edgecolor": "#8a939e",
    "axes.grid": True,
    "axes.xmargin": 0.04,
    "axes.formatter.min_exponent": 4,  # 0.6 and 20 rather than powers of ten
    "grid.color": "#d4d9df",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "xtick.bottom": False,  # the grid says where a tick is
    "ytick.left": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
}


@dataclass(frozen=True)
class Line:
    """One curve. What cannot be shown (None, not a number, 0 on a log axis) is a gap in it."""

    x: list[float]
    y: list[float]
    name: str  # beside its end
    method: str  # what it is a curve of: the colour follows it in every figure
    colour: str
    dash: int
    joined: bool  # by a line; else only marks
    marks: bool
    steps: bool  # constant around every x, as in a histogram


@dataclass
class Panel:
    """One pair of axes, and what is drawn in it."""

    title: str = ""
    x: str = ""  # what stands along the axis
    y: str = ""
    log: str = ""  # the logarithmic axes: "x", "y" or "xy"
    lines: list[Line] = field(default_factory=list)
    levels: list[tuple[float, str]] = field(default_factory=list)  # dotted from side to side, with a note
    bars: dict[str, list[float]] = field(default_factory=dict)  # by series; they lie, with `names` on the left
    names: Sequence[str] = ()  # of the bars, from the top down

    def line(
        self,
        x: Iterable[Any],
        y: Iterable[Any],
        name: str,
        method: str = "",
        *,
        joined: bool = True,
        marks: bool = False,
        steps: bool = False,
    ) -> None:
        """Add a curve; without a method, its name is one."""
        if len(self.lines) == MOST:
            raise InvalidInput(
                f"{name!r} would be curve {MOST + 1} of a panel: nobody can tell so many apart, split it."
            )
        met = [line.method for line in self.lines]
        colour, dash = look(method or name, met, [line.dash for line in self.lines])
        told = (name, method or name, colour, dash, joined, marks or not joined, steps)
        self.lines.append(Line(_numbers(x), _numbers(y), *told))

    def level(self, y: float, note: str = "") -> None:
        """Add a horizontal line, such as what was claimed."""
        self.levels.append((y, note))


@dataclass(frozen=True)
class Plot:
    """A picture: panels row by row, or a table."""

    title: str
    panels: Sequence[Panel] = ()
    columns: int = 1  # panels side by side
    height: float = 4.6  # inches, of all panels together
    same_y: bool = False  # all panels have the vertical axis of the first
    table: Mapping[str, Sequence[str]] = field(default_factory=dict)  # cells by heading


def check_drawing() -> None:
    """InvalidInput where nothing can be drawn: to be asked before hours of work."""
    if find_spec("matplotlib") is None:
        raise InvalidInput("figures are drawn by matplotlib, which is not installed. Try: pip install -e '.[papers]'")


# ------------------------------------------------------------------------------------------------ as values


def values(plot: Plot) -> dict[str, Any]:
    """The plot as JSON holds it, to five digits; what cannot be shown is null."""
    found = asdict(plot)
    for panel in found["panels"]:
        panel["levels"] = [[_short(y), note] for y, note in panel["levels"]]
        panel["bars"] = {name: [_short(v) for v in sizes] for name, sizes in panel["bars"].items()}
        for line in panel["lines"]:
            line["x"], line["y"] = [[_short(v) for v in line[axis]] for axis in ("x", "y")]
    return found


def from_values(kept: Mapping[str, Any]) -> Plot:
    """The plot that `values` was made of."""
    panels = []
    for said in kept["panels"]:
        lines = [Line(**{**line, "x": _numbers(line["x"]), "y": _numbers(line["y"])}) for line in said["lines"]]
        levels = [(float(y), str(note)) for y, note in said["levels"]]
        panels.append(Panel(**{**said, "lines": lines, "levels": levels}))
    return Plot(**{**kept, "panels": panels})


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


# ------------------------------------------------------------------------------------------------ drawing


def to_svg(plot: Plot, foot: str = "") -> str:
    """The picture as SVG; `foot` stands below it, such as what privacy the curves have."""
    written = StringIO()
    _drawn(plot, foot, written, "svg")
    return _smaller(written.getvalue())


def to_png(plot: Plot, foot: str = "") -> bytes:
    """The same for eyes that have no browser."""
    written = BytesIO()
    _drawn(plot, foot, written, "png")
    return written.getvalue()


def _drawn(plot: Plot, foot: str, target: Any, kind: str) -> None:
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    width = WIDTHS[min(plot.columns, max(WIDTHS))] if plot.panels else WIDTHS[1]
    title, notes = _lines(plot.title, int(11 * width)), _lines(foot, int(15 * width))
    rows = max((len(cells) for cells in plot.table.values()), default=0)
    above = 0.15 + 1.3 * ROW * len(title) + (0.3 if any(panel.title for panel in plot.panels) else 0.1)
    body = plot.height if plot.panels else 1.4 * ROW * (rows + 1)
    bars = any(panel.bars for panel in plot.panels)
    below = 0.6 + ROW * bars if plot.panels else 0.1
    height = above + body + below + ROW * len(notes) + 0.15
    with rc_context():
        rcdefaults()  # whatever a user's own settings say
        rcParams.update(LOOK)
        canvas = Canvas(figsize=(width, height), facecolor="white")
        (FigureCanvasSVG if kind == "svg" else FigureCanvasAgg)(canvas)
        for k, text in enumerate(title):
            at = 1 - (0.25 + 1.3 * ROW * k) / height
            canvas.text(0.18 / width, at, text, fontsize=11, fontweight="bold", va="center", parse_math=False)
        for k, text in enumerate(notes):
            at = (ROW * (len(notes) - k - 0.5) + 0.1) / height
            canvas.text(0.18 / width, at, text, fontsize=8, color="#545d68", va="center", parse_math=False)
        if plot.panels:
            _draw_panels(canvas, plot, width, height, above, body)
        if bars:
            _draw_legend(canvas, 0.18 / width, 1 - (above + body + 0.5) / height)
        if plot.table:
            _draw_table(canvas, plot.table, width, 1 - (above + body) / height, body / height)
        about = {"Date": None, "Creator": None, "Title": plot.title} if kind == "svg" else {"Software": None}
        canvas.savefig(target, format=kind, metadata=about, dpi=80)


def _draw_panels(canvas: Canvas, plot: Plot, width: float, height: float, above: float, body: float) -> None:
    """Every panel in its place, all in inches; then the names, which need to know where the axes end."""
    across, down = plot.columns, math.ceil(len(plot.panels) / plot.columns)
    longest = max((len(name) for panel in plot.panels for name in panel.names), default=0)
    left = LEFT + LETTER * longest
    beside = [_room(plot.panels[k::across]) for k in range(across)]
    apart_by = 0.2 if plot.same_y else BESIDE + (0.15 if any(panel.y for panel in plot.panels[1:]) else 0.0)
    wide = (width - left - RIGHT - sum(beside) - apart_by * (across - 1)) / across
    tall = (body - BELOW * (down - 1)) / down
    drawn: list[tuple[Axes, Panel]] = []
    for place, panel in enumerate(plot.panels):
        row, column = divmod(place, across)
        x = left + sum(beside[:column]) + column * (wide + apart_by)
        y = height - above - (row + 1) * tall - row * BELOW
        box = (x / width, y / height, wide / width, tall / height)
        axes = canvas.add_axes(box, sharey=drawn[0][0] if plot.same_y and drawn else None)
        _draw_panel(axes, panel, sum(len(one.lines) for _, one in drawn))
        if plot.same_y and column:
            axes.tick_params(which="both", labelleft=False)
        drawn.append((axes, panel))
    for axes, panel in drawn:
        _draw_notes(axes, panel)
        _draw_names(axes, panel, wide, tall)


def _draw_panel(axes: Axes, panel: Panel, number: int) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_axisbelow(True)
    if "x" in panel.log:
        axes.set_xscale("log", nonpositive="mask")
        axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # all nine would lie on each other in a small panel
    if "y" in panel.log:
        axes.set_yscale("log", nonpositive="mask")
    axes.set_title(panel.title, parse_math=False)
    axes.set_xlabel(panel.x, parse_math=False)
    axes.set_ylabel(panel.y, parse_math=False)
    for place, line in enumerate(panel.lines, number):
        axes.plot(
            line.x, line.y, color=line.colour, linestyle=_dash(line.dash) if line.joined else "none",
            drawstyle="steps-mid" if line.steps else "default", marker="o" if line.marks else "none", gid=f"curve{place}",
        )  # fmt: skip
    for value, _ in panel.levels:
        axes.axhline(value, color=GREY, linestyle=(0, (1, 1.8)), linewidth=1.2)
    _draw_bars(axes, panel)


def _draw_notes(axes: Axes, panel: Panel) -> None:
    """Above each level, at the side where curves are farther from it."""
    axes.autoscale_view()
    inside = axes.transData + axes.transAxes.inverted()
    shown = [(x, y) for line in panel.lines for x, y in zip(line.x, line.y, strict=True) if _shown(x, y, panel.log)]
    points: Any = inside.transform(shown) if shown else []
    for value, note in panel.levels:
        at = float(inside.transform((axes.get_xlim()[0], value))[1])
        room = [
            min((abs(y - at - 0.03) for x, y in points if low <= x <= low + NOTED), default=1.0)
            for low in (0.0, 1.0 - NOTED)
        ]
        right = room[1] > room[0]
        axes.text(
            0.99 if right else 0.01, value, note, transform=axes.get_yaxis_transform(), ha="right" if right else "left",
            va="bottom", fontsize=8, color=GREY, parse_math=False,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.4, "linewidth": 0},
        )  # fmt: skip


def _draw_names(axes: Axes, panel: Panel, wide: float, tall: float) -> None:
    """Beside the axes, at the height where each curve ends, with a thin line from its end."""
    ends = [_end(line, panel.log) for line in panel.lines]
    if not panel.lines:
        return
    axes.autoscale_view()
    inside = axes.transData + axes.transAxes.inverted()
    heights = [0.5 if end is None else min(max(float(inside.transform(end)[1]), 0.0), 1.0) for end in ends]
    told = [textwrap.wrap(line.name, NAMED) or [""] for line in panel.lines]
    placed = apart(heights, [0.15 * len(words) / tall for words in told])
    for line, end, words, at in zip(panel.lines, ends, told, placed, strict=True):
        start = (0.99, at) if end is None else end
        note = axes.annotate(
            "\n".join(words), xy=start, xycoords="data" if end is not None else "axes fraction",
            xytext=(1 + 0.12 / wide, at), textcoords="axes fraction", ha="left", va="center", fontsize=8, color=ink(line.colour),
            linespacing=1.1, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip
        note.set_parse_math(False)


def _end(line: Line, log: str) -> tuple[float, float] | None:
    """The last point that can be shown."""
    for x, y in zip(reversed(line.x), reversed(line.y), strict=True):
        if _shown(x, y, log):
            return x, y
    return None


def _shown(x: float, y: float, log: str) -> bool:
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or "x" not in log) and (y > 0 or "y" not in log)


def _room(panels: Sequence[Panel]) -> float:
    """Inches that the names of curves take beside these panels."""
    words = [part for panel in panels for line in panel.lines for part in textwrap.wrap(line.name, NAMED)]
    return 0.16 + NAME * max(map(len, words)) if words else 0.0


def _dash(place: int) -> Any:
    return (0, DASHES[place]) if DASHES[place] else "-"


def _draw_bars(axes: Axes, panel: Panel) -> None:
    thick = 0.8 / max(1, len(panel.bars))
    for rank, (name, sizes) in enumerate(panel.bars.items()):
        seats = [k - 0.4 + (rank + 0.5) * thick for k in range(len(sizes))]
        axes.barh(
            seats, sizes, height=thick, color=COLOURS[rank % len(COLOURS)], label=name,
            hatch=HATCHES[rank % len(HATCHES)], edgecolor="white", linewidth=0.0,
        )  # fmt: skip
    if panel.bars:
        axes.set_yticks(range(len(panel.names)), list(panel.names), parse_math=False)
        axes.set_ylim(len(panel.names) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")


def _draw_legend(canvas: Canvas, left: float, top: float) -> None:
    """Of bars: curves have their names beside them."""
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    drawn = canvas.legend(
        list(handles.values()), list(handles), loc="upper left", bbox_to_anchor=(left, top), ncols=len(handles),
        frameon=False, borderpad=0.0, borderaxespad=0.0, labelspacing=0.3, columnspacing=1.2, handlelength=2.6,
    )  # fmt: skip
    drawn.set_zorder(1)  # before the words below the picture, which come last
    for text in drawn.get_texts():
        text.set_parse_math(False)


def _draw_table(canvas: Canvas, table: Mapping[str, Sequence[str]], width: float, bottom: float, height: float) -> None:
    from matplotlib.transforms import Bbox

    axes = canvas.add_axes((0.18 / width, bottom, 1 - 0.36 / width, height))
    axes.set_axis_off()
    widths = [2 + max(map(len, (head, *cells))) for head, cells in table.items()]
    drawn = axes.table(
        [list(row) for row in zip(*table.values(), strict=True)], colLabels=list(table), cellLoc="left", colLoc="left",
        colWidths=[one / sum(widths) for one in widths], bbox=Bbox.unit(), edges="horizontal",
    )  # fmt: skip
    drawn.auto_set_font_size(False)
    for (row, _), cell in drawn.get_celld().items():
        cell.PAD = 0.02
        cell.set_edgecolor("#d4d9df")
        cell.get_text().set_parse_math(False)
        cell.get_text().set_fontweight("bold" if row == 0 else "normal")


def _smaller(svg: str) -> str:
    """Places to a tenth of a point, no empty groups, no indentation; words, which stand between tags, are left alone."""
    places = re.sub(r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", tag[0]), svg)
    return re.sub(r"\n +", "\n", re.sub(r'\n *<g id="[xy]tick_\d+"/>', "", places))


def _numbers(given: Iterable[Any]) -> list[float]:
    return [math.nan if value is None else float(value) for value in given]


def _lines(text: str, width: int) -> list[str]:
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width, break_on_hyphens=False)]
