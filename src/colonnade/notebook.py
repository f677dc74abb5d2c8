"""What values show of themselves in a session: in a notebook, and by `help`.

Notebook a title, facts by name, tables, a remark or two. What comes from outside is escaped here, once. Colours and
         lines are those of the page around, so that light and dark need nothing else, and the text stays a readable
         table where a page takes all style away.
Help     what solvers, nodes and engines call is explained once, at its protocol, and `help` shows it everywhere.

Every room has values that are shown, so this file stands below all of them and knows none.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

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


SECTIONS = "\n\nParameters\n----------\n"


def explain(face: type, *kinds: type) -> None:
    """Give the methods of these kinds the words of the face: all where they have none, else on the parameters."""
    for name in dir(face):
        at_face = _plain(face, name)
        if name.startswith("_") or not (said := inspect.getdoc(at_face)):
            continue
        for kind in kinds:
            own = _plain(kind, name)
            documented = isinstance(own, property | functools.cached_property) or inspect.isfunction(own)
            if documented and own is not at_face:
                own.__doc__ = joined(inspect.getdoc(own) or "", said)


def explain_by_bases(kind: type, module: str) -> None:
    """The same by those of its bases that this module defines, the nearest first: for `__init_subclass__`."""
    for face in kind.__mro__[1:]:
        if face.__module__ == module:
            explain(face, kind)


def joined(own: str, said: str) -> str:
    """A docstring of its own with the face's sections behind it, or the face's where it has none."""
    if not own:
        return f"{said}\n" if "\n" in said else said
    if SECTIONS in own or SECTIONS not in said:
        return f"{own}\n" if "\n" in own else own
    return f"{own}{SECTIONS}{said.partition(SECTIONS)[2]}\n"


def _plain(kind: type, name: str) -> Any:
    """The function or property that a class has under this name."""
    found = inspect.getattr_static(kind, name, None)
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found
