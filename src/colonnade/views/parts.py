"""Pieces of a page that the report and the live view share: tables, figures, folded parts, the frame around them.

Whatever comes from outside (names of parties, columns, runs) is escaped here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files


class Markup(str):
    """Text that is HTML already, made by this package."""

    __slots__ = ()


def as_html(value: str) -> str:
    """Any text as HTML; what is HTML already stays."""
    return value if isinstance(value, Markup) else escape(value)


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: int = 0,
    bars: bool = False,
    total: Sequence[str] | None = None,
) -> Markup:
    """A table whose last `numbers` columns are figures, with `bars` before a column of bars.

    It has no head where the first column names the values.
    """

    def line(cells: Sequence[str], scope: str) -> str:
        parts = []
        for place, cell in enumerate(cells):
            names = place == 0 or scope == "col"  # a cell that names its row or its column
            kind = "th" if names else "td"
            marks = f' scope="{scope}"' if names else ""
            marks += ' class="n"' if 0 < len(cells) - bars - place <= numbers else ""
            parts.append(f"<{kind}{marks}>{as_html(cell)}</{kind}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line(row, "row") for row in rows)
    top = f"<thead>{line(head, 'col')}</thead>" if head else ""
    kind = "scroll" + " bars" * bars + " facts" * (not head)
    foot = f"<tfoot>{line(total, 'row')}</tfoot>" if total else ""
    # A table wider than the screen scrolls inside this region, which the keyboard can reach.
    region = f'<div class="{kind}" role="region" aria-label="{escape(caption)}" tabindex="0">'
    inside = f"<caption>{escape(caption)}</caption>{top}<tbody>{body}</tbody>{foot}"
    return Markup(f"{region}<table>{inside}</table></div>")


def facts(caption: str, values: Mapping[str, str]) -> Markup:
    """A table of names and values."""
    return table(caption, (), list(values.items()))


def cards(values: Mapping[str, str]) -> Markup:
    """A few figures that catch the eye."""
    inside = "".join(f"<div><dt>{as_html(name)}</dt><dd>{as_html(value)}</dd></div>" for name, value in values.items())
    return Markup(f'<dl class="figures">{inside}</dl>')


def paragraph(text: str, kind: str = "") -> Markup:
    return Markup(f'<p class="{kind}">{as_html(text)}</p>' if kind else f"<p>{as_html(text)}</p>")


def folded_part(summary: str, inside: str) -> Markup:
    return Markup(f"<details><summary>{as_html(summary)}</summary>{as_html(inside)}</details>")


def figure(chart: str, caption: str, data: str) -> Markup:
    """A chart with its caption, and the same figures as a table for whoever cannot see it."""
    figures = folded_part("The figures as a table", data)
    return Markup(f"<figure>{as_html(chart)}<figcaption>{escape(caption)}</figcaption>{figures}</figure>")


def section(key: str, title: str, body: str) -> str:
    head = f'<h2 id="{key}-title">{escape(title)}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">{head}{body}</section>\n'


def style() -> str:
    """The style sheet of both."""
    return (files("colonnade.views") / "style.css").read_text(encoding="utf-8")
