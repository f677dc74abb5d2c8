"""Pieces of a page that the report and the live view share: tables, figures, folded parts, the frame around them; and
figures and values of the problem, written for people.

Whatever comes from outside (names of parties, columns, runs) is escaped here, once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from colonnade.problem import Problem
from colonnade.runtime.program import BY_TYPE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class Markup(str):
    """Text that is HTML already, made by this package."""

    __slots__ = ()


def as_html(value: str) -> str:
    """Any text as HTML; what is HTML already stays."""
    return value if isinstance(value, Markup) else escape(value)


def breakable(cell: str) -> str:
    """Text as HTML, in which names of many letters may break after their marks."""
    if isinstance(cell, Markup):
        return cell
    return re.sub(r"[\w.:/=~-]{25,}", lambda long: re.sub(r"(?<=[_.:/=-])(?=\w)", "<wbr>", long[0]), escape(cell))


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: int = 0,
    bars: bool = False,
    folds: bool = False,
    total: Sequence[str] | None = None,
) -> Markup:
    """A table whose last `numbers` columns are figures, with `bars` before a column of bars; in one that `folds`
    heads and figures may take several lines, since it has many columns.

    It has no head where the first column names the values.
    """

    def line(cells: Sequence[str], scope: str) -> str:
        parts = []
        for place, cell in enumerate(cells):
            names = place == 0 or scope == "col"  # a cell that names its row or its column
            kind = "th" if names else "td"
            marks = f' scope="{scope}"' if names else ""
            marks += ' class="n"' if 0 < len(cells) - bars - place <= numbers else ""
            parts.append(f"<{kind}{marks}>{breakable(cell)}</{kind}>")
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line(row, "row") for row in rows)
    top = f"<thead>{line(head, 'col')}</thead>" if head else ""
    kind = "scroll" + " bars" * bars + " folds" * folds + " facts" * (not head)
    foot = f"<tfoot>{line(total, 'row')}</tfoot>" if total else ""
    # A table wider than the screen scrolls inside this region, which the keyboard can reach.
    region = f'<div class="{kind}" role="region" aria-label="{escape(caption)}" tabindex="0">'
    inside = f"<caption>{breakable(caption)}</caption>{top}<tbody>{body}</tbody>{foot}"
    return Markup(f"{region}<table>{inside}</table></div>")


def facts(caption: str, values: Mapping[str, str]) -> Markup:
    """A table of names and values."""
    return table(caption, (), list(values.items()))


def budget_table(lines: Sequence[Mapping[str, str]]) -> Markup:
    """What parties have spent and have left, without the columns that are empty in every row."""
    names = [name for name in lines[0] if any(line[name] for line in lines)]
    rows = [[line[name] for name in names] for line in lines]
    return table("What was spent, and what is left", names, rows, numbers=len(names) - 1, folds=True)


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
    return Markup(f"<figure>{as_html(chart)}<figcaption>{breakable(caption)}</figcaption>{figures}</figure>")


def section(key: str, title: str, body: str) -> str:
    head = f'<h2 id="{key}-title">{escape(title)}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">{head}{body}</section>\n'


def whole_page(title: str, below: str, nav: str, body: str) -> str:
    """A page that is one file: its style inside, no script, and a policy that forbids every request."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head = f"{policy}\n<title>{escape(title)} – Colonnade report</title>\n<style>{style()}</style>"
    return page_frame(head, f'<h1>{escape(title)}</h1>\n<p class="soft">{below}</p>', nav, body)


def page_frame(head: str, header: str, nav: str, body: str) -> str:
    """What goes around the parts of every page."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}
</head>
<body>
<header>{header}</header>
{nav}
<main>
{body}</main>
</body>
</html>
"""


def style() -> str:
    """The style sheet of both."""
    return (files("colonnade.views") / "style.css").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ words


def human_bytes(count: int) -> str:
    """1,234 B, 12.3 kB, 4.56 MB: decimal units, three digits."""
    if count < 1000:
        return f"{count:,} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000.0
        if value < 999.5 or unit == "PB":
            break
    return f"{value:#.3g}".rstrip(".") + f" {unit}"


def number(value: float | None) -> str:
    """Four significant digits; what is unknown or unbounded is said in words."""
    if value is None:
        return "not released"
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "no bound"
    return f"{value:.4g}".replace("-", "−")


def with_error(value: float, error: float | None) -> str:
    """A figure as exact as its standard error says, of which two digits are shown: 0.7213 ± 0.0023."""
    if error is None:
        return number(value)
    if not (math.isfinite(error) and error > 0.0 and math.isfinite(value)):
        return f"{number(value)} ± {number(error)}"
    places = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    if not -6 <= places <= 9:
        return f"{value:.3e} ± {error:.1e}".replace("-", "−")
    rounded = [f"{round(figure, places):.{max(places, 0)}f}" for figure in (value, error)]
    return " ± ".join(rounded).replace("-", "−")


def evenly_spaced(count: int) -> list[int]:
    """At most 12 of the places 0 to count - 1, for the rows of a table beside a chart."""
    places: list[int] = np.unique(np.linspace(0, count - 1, min(12, count)).astype(int)).tolist()
    return places


def join_names(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def count_noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_parties(count: int) -> str:
    return f"{count:,} {'party' if count == 1 else 'parties'}"


def message_words(name: str) -> str:
    """What a type of message means: the sentence its declaration begins with."""
    sentences = {cls.__name__: str(cls.__doc__).split("\n")[0] for cls in BY_TYPE}
    return sentences.get(name, "").rstrip(".")


LETTERS = {"a": "weight", "l1": "weight of the L1 norm", "l2": "weight of the squares", "q": "share"}
MEANINGS = {
    "LeastSquares": "It predicts a number, and a miss counts by its square.",
    "Logistic": "It predicts the chance of a class.",
    "SquaredHinge": "It tells two classes apart with a margin, and a miss counts by its square.",
    "Hinge": "It tells two classes apart with a margin, and a miss counts by its size.",
    "Huber": "It predicts a number; small misses count by their square, large ones by their size: outliers weigh less.",
    "Absolute": "It predicts a number, the middle of what is likely: a miss counts by its size.",
    "Quantile": "It predicts a number that a given share of the labels lies below.",
    "Poisson": "It predicts how many events to expect: a step of a column multiplies that by a factor.",
    "L1Ball": "The bound on the sum of sizes leaves few columns in use.",
    "L2Ball": "The bound on the length keeps all coefficients small and drops none.",
    "Box": "Every coefficient lies in a fixed range.",
    "NonNegative": "No coefficient is negative: no column lowers the score.",
    "Simplex": "Coefficients are shares: none is negative, and they add up to a fixed sum.",
    "GroupL1Ball": "The bound leaves few groups of columns in use.",
    "Ridge": "The penalty keeps all coefficients small and drops none.",
    "Lasso": "The penalty drops columns that help little.",
    "ElasticNet": "The penalty drops columns that help little, and keeps the others small.",
    "GroupLasso": "The penalty drops whole groups of columns that help little.",
    "NuclearNorm": "The penalty makes the responses share a few directions.",
}


def plain_words(problem: Problem) -> str:
    """What loss, set and penalty mean for the model, for a reader who knows none of the names."""
    parts = (problem.loss, problem.constraint, problem.penalty)
    return " ".join(MEANINGS[name] for part in parts if (name := type(part).__name__) in MEANINGS)


def problem_sentence(problem: Problem) -> str:
    """What was minimised, over what."""
    sentence = f"The model minimises the {value_words(problem.loss)} loss"
    if problem.constraint is not None:
        sentence += f" over coefficients in the {value_words(problem.constraint)}"
    if problem.penalty is not None:
        sentence += f" plus the penalty {value_words(problem.penalty)}"
    return sentence + (", with a free intercept." if problem.intercept else ", without an intercept.")


def value_words(value: Any) -> str:
    """L1Ball(radius=20.0) as "L1 ball (radius 20)"."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(value).__name__)
    words = " ".join(word if word[1:2].isdigit() else word.lower() for word in name.split())
    settings = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else {}
    numbers = {name: number for name, number in settings.items() if isinstance(number, int | float)}
    shown = [f"{LETTERS.get(name, name.replace('_', ' '))} {number:g}" for name, number in numbers.items()]
    return f"{words} ({', '.join(shown)})" if shown else words
