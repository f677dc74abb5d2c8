"""What values show of themselves in a notebook: a title, facts by name, tables, a remark or two.

Every room has values that are shown, so this file stands below all of them and knows none. What comes from outside is
escaped here, once. Colours and lines are those of the page around, so that light and dark need nothing else, and the
text stays a readable table where a page takes all style away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

MOST_ROWS = 20  # of a table; the rest is counted
LINE = "1px solid rgba(128,128,128,.4)"
CELL = f"padding:.2em .8em;border-bottom:{LINE};vertical-align:top"
AROUND = "color:inherit;font-size:inherit;line-height:1.45;overflow-x:auto"
GRID = "border-collapse:collapse;background:none;margin:.3em 0 .6em;color:inherit"


class Grid(NamedTuple):
    """A table: its caption, its head, its rows, of which the last `numbers` cells are figures."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers: int = 0


def shown(
    title: str, facts: Mapping[str, object] | None = None, grids: Iterable[Grid] = (), remarks: Iterable[str] = ()
) -> str:
    """HTML for a notebook; facts that are empty are left out."""
    told = {name: value for name, value in (facts or {}).items() if value not in (None, "")}
    parts = [f"<strong>{escape(title)}</strong>"]
    if told:
        parts.append(_grid(Grid("", (), list(told.items()))))
    parts += [_grid(grid) for grid in grids if grid.rows]
    parts += [f'<div style="margin:.2em 0">{escape(remark)}</div>' for remark in remarks]
    return f'<div class="colonnade" style="{AROUND}">{"".join(parts)}</div>'


def bar(title: str, done: float, total: float | None, figures: str) -> str:
    """A progress bar; without a total it only says that something goes on."""
    ends = "" if total is None else f' max="{float(total):g}" value="{min(done, total):g}"'
    count = f"{done:,.0f}" if total is None else f"{done:,.0f}/{total:,.0f}"
    words = " ".join(filter(None, (title, count, figures)))
    return f'<div class="colonnade" style="{AROUND}"><progress{ends}></progress> {escape(words)}</div>'


def _grid(grid: Grid) -> str:
    width = max(len(row) for row in grid.rows)
    head = "".join(_cell("th", name, place, width, grid.numbers) for place, name in enumerate(grid.head))
    lines = [
        "".join(_cell("td", cell, place, width, grid.numbers) for place, cell in enumerate(row))
        for row in grid.rows[:MOST_ROWS]
    ]
    more = len(grid.rows) - MOST_ROWS
    caption = grid.caption + (f" ({more:,} more rows)" if more > 0 else "")
    top = f'<caption style="text-align:left;color:inherit">{escape(caption)}</caption>' if caption else ""
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    return (
        f'<table style="{GRID}">{top}{f"<thead><tr>{head}</tr></thead>" if head else ""}<tbody>{body}</tbody></table>'
    )


def _cell(kind: str, value: object, place: int, width: int, numbers: int) -> str:
    side = "right" if width - place <= numbers else "left"
    return f'<{kind} style="{CELL};text-align:{side}">{escape(str(value))}</{kind}>'
