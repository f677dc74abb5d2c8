"""A drawing as plain values: panels with lines, levels and bars, or a table; and the same as SVG, drawn by matplotlib.

    panel = Panel(x="round", y="error", log="y")
    panel.line([1, 2, 3], [1.0, 0.1, 0.01], "ours")
    to_svg(Plot("Errors by round", [panel]), foot="Privacy: none")

Same     the same values give the same file: ids come from a fixed salt, and no date and no version are written into it.
Text     stays text, so that a picture can be searched and copied from. It is set for a wide font: others fit as well.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

from colonnade.errors import InvalidInput
from colonnade.views.chart import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTH, LEFT, RIGHT, ROW = 9.6, 0.85, 0.2, 0.19  # inches: of a picture, its margins, a line of text
LETTER = 0.076  # inches: a letter of a name, on average
GREY = "#888888"
DASHES = {"solid": "-", "dash": (0, (5, 2.5)), "dot": (0, (1, 1.8)), "longdash": (0, (9, 3))}
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
    "xtick.bottom": False,  # the grid says where a tick is
    "ytick.left": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
}


@dataclass(frozen=True)
class Line:
    """One curve. What cannot be shown (None, not a number, 0 on a log axis) is a gap in it."""

    x: list[float]
    y: list[float]
    name: str  # in the legend, once for all panels; an empty one is left out
    colour: str
    dash: str
    joined: bool  # by a line; else only marks
    marks: bool
    width: float


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
        name: str = "",
        colour: str = "",
        dash: str = "",
        *,
        joined: bool = True,
        marks: bool = False,
        width: float = 1.5,
    ) -> None:
        """Add a curve; without a colour or a dash it gets the next one."""
        turn, place = divmod(len(self.lines), len(COLOURS))
        look = colour or COLOURS[place], dash or list(DASHES)[turn % len(DASHES)]
        self.lines.append(Line(_numbers(x), _numbers(y), name, *look, joined, marks or not joined, width))

    def level(self, y: float, note: str = "") -> None:
        """Add a horizontal line, such as what was claimed."""
        self.levels.append((y, note))


@dataclass(frozen=True)
class Plot:
    """A picture: panels row by row, or a table."""

    title: str
    panels: Sequence[Panel] = ()
    columns: int = 1  # panels side by side
    height: float = 5.2  # inches, of all panels together
    same_y: bool = False  # all panels have the vertical axis of the first
    table: Mapping[str, Sequence[str]] = field(default_factory=dict)  # cells by heading

    @property
    def legend(self) -> list[str]:
        """The names of what is drawn, each once."""
        named = [name for panel in self.panels for name in (*(line.name for line in panel.lines), *panel.bars)]
        return [name for name in dict.fromkeys(named) if name]


def check_drawing() -> None:
    """InvalidInput where nothing can be drawn: to be asked before hours of work."""
    if find_spec("matplotlib") is None:
        raise InvalidInput("figures are drawn by matplotlib, which is not installed. Try: pip install -e '.[papers]'")


def to_svg(plot: Plot, foot: str = "") -> str:
    """The picture as SVG; `foot` stands below it, such as what privacy the curves have."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    title, notes = _lines(plot.title, 105), _lines(foot, 145)
    across = _legend_columns(plot.legend)
    listed = math.ceil(len(plot.legend) / across)
    rows = max((len(cells) for cells in plot.table.values()), default=0)
    above = 0.15 + 1.3 * ROW * len(title) + (0.3 if any(panel.title for panel in plot.panels) else 0.1)
    body = plot.height if plot.panels else 1.4 * ROW * (rows + 1)
    below = 0.6 + ROW * listed if plot.panels else 0.1
    height = above + body + below + ROW * len(notes) + 0.15
    with rc_context():
        rcdefaults()  # whatever a user's own settings say
        rcParams.update(LOOK)
        canvas = Canvas(figsize=(WIDTH, height), facecolor="white")
        FigureCanvasSVG(canvas)
        for k, text in enumerate(title):
            at = 1 - (0.25 + 1.3 * ROW * k) / height
            canvas.text(0.18 / WIDTH, at, text, fontsize=11, fontweight="bold", va="center", parse_math=False)
        for k, text in enumerate(notes):
            at = (ROW * (len(notes) - k - 0.5) + 0.1) / height
            canvas.text(0.18 / WIDTH, at, text, fontsize=8, color="#545d68", va="center", parse_math=False)
        if plot.panels:
            _draw_panels(canvas, plot, 1 - above / height, 1 - (above + body) / height)
            _draw_legend(canvas, plot, across, 1 - (above + body + 0.5) / height)
        if plot.table:
            _draw_table(canvas, plot.table, 1 - (above + body) / height, body / height)
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Title": plot.title})
    return _smaller(written.getvalue())


def _draw_panels(canvas: Canvas, plot: Plot, top: float, bottom: float) -> None:
    longest = max((len(name) for panel in plot.panels for name in panel.names), default=0)
    left = (LEFT + LETTER * longest) / WIDTH
    down = math.ceil(len(plot.panels) / plot.columns)
    grid = canvas.add_gridspec(
        down, plot.columns, left=left, right=1 - RIGHT / WIDTH, top=top, bottom=bottom,
        wspace=0.1 if plot.same_y else 0.22, hspace=0.35,
    )  # fmt: skip
    first: Axes | None = None
    number = 0
    for place, panel in enumerate(plot.panels):
        axes = canvas.add_subplot(grid[place // plot.columns, place % plot.columns], sharey=first)
        first = axes if plot.same_y and first is None else first
        axes.set_axisbelow(True)
        if "x" in panel.log:
            axes.set_xscale("log", nonpositive="mask")
        if "y" in panel.log:
            axes.set_yscale("log", nonpositive="mask")
        axes.set_title(panel.title, parse_math=False)
        axes.set_xlabel(panel.x, parse_math=False)
        axes.set_ylabel(panel.y, parse_math=False)
        if plot.same_y and place % plot.columns:
            axes.tick_params(labelleft=False)
        for line in panel.lines:
            _draw_line(axes, line, f"curve{number}")
            number += 1
        for value, note in panel.levels:
            axes.axhline(value, color=GREY, linestyle=DASHES["dot"], linewidth=1.2)
            if note:
                at_right = axes.get_yaxis_transform()
                axes.text(0.995, value, note, transform=at_right, ha="right", va="bottom", parse_math=False)
        _draw_bars(axes, panel)


def _draw_line(axes: Axes, line: Line, gid: str) -> None:
    axes.plot(
        line.x, line.y, color=line.colour, linestyle=DASHES[line.dash] if line.joined else "none",
        marker="o" if line.marks else "none", linewidth=line.width, label=line.name or "_", gid=gid,
    )  # fmt: skip


def _draw_bars(axes: Axes, panel: Panel) -> None:
    thick = 0.8 / max(1, len(panel.bars))
    for rank, (name, sizes) in enumerate(panel.bars.items()):
        seats = [k - 0.4 + (rank + 0.5) * thick for k in range(len(sizes))]
        axes.barh(seats, sizes, height=thick, color=COLOURS[rank % len(COLOURS)], label=name)
    if panel.bars:
        axes.set_yticks(range(len(panel.names)), list(panel.names), parse_math=False)
        axes.set_ylim(len(panel.names) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")


def _draw_legend(canvas: Canvas, plot: Plot, columns: int, top: float) -> None:
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    wanted = [handles[name] for name in plot.legend]
    if wanted:
        drawn = canvas.legend(
            wanted, plot.legend, loc="upper left", bbox_to_anchor=(0.18 / WIDTH, top), ncols=columns, frameon=False,
            borderpad=0.0, borderaxespad=0.0, labelspacing=0.3, columnspacing=1.2, handlelength=2.6,
        )  # fmt: skip
        for text in drawn.get_texts():
            text.set_parse_math(False)


def _draw_table(canvas: Canvas, table: Mapping[str, Sequence[str]], bottom: float, height: float) -> None:
    from matplotlib.transforms import Bbox

    axes = canvas.add_axes((0.18 / WIDTH, bottom, 1 - 0.36 / WIDTH, height))
    axes.set_axis_off()
    widths = [2 + max(map(len, (head, *cells))) for head, cells in table.items()]
    drawn = axes.table(
        [list(row) for row in zip(*table.values(), strict=True)], colLabels=list(table), cellLoc="left", colLoc="left",
        colWidths=[width / sum(widths) for width in widths], bbox=Bbox.unit(), edges="horizontal",
    )  # fmt: skip
    drawn.auto_set_font_size(False)
    for (row, _), cell in drawn.get_celld().items():
        cell.PAD = 0.02
        cell.set_edgecolor("#d4d9df")
        cell.get_text().set_parse_math(False)
        cell.get_text().set_fontweight("bold" if row == 0 else "normal")


def _legend_columns(names: Sequence[str]) -> int:
    """How many names fit beside each other."""
    needed = 0.55 + LETTER * max(map(len, names), default=1)
    return max(1, int((WIDTH - 0.36) / needed))


def _smaller(svg: str) -> str:
    """Places to a tenth of a point, no empty groups, no indentation; words, which stand between tags, are left alone."""
    places = re.sub(r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", tag[0]), svg)
    return re.sub(r"\n +", "\n", re.sub(r'\n *<g id="[xy]tick_\d+"/>', "", places))


def _numbers(given: Iterable[Any]) -> list[float]:
    return [math.nan if value is None else float(value) for value in given]


def _lines(text: str, width: int) -> list[str]:
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]
