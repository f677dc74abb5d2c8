"""Pieces of a page that the report and the live view share: tables, figures, folded parts, the frame around them; and
figures and values of the problem, written for people.

HTML stands in templates/ alone, which Jinja2 renders. Whatever comes from outside (names of parties, columns, runs) is
escaped there, once: what is no `Markup` is text, and a piece that was put together without `joined` shows its tags.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from colonnade.problem import Problem
from colonnade.runtime.program import BY_TYPE

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")


@cache
def _templates() -> Environment:
    """The templates of this package; imported here, since most programs show no page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("colonnade.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["breakable"] = breakable
    return made


def render(template: str, **facts: Any) -> str:
    """A whole page from its template."""
    return _templates().get_template(template).render(facts)


def piece(macro: str, *facts: Any, of: str = "parts.html") -> Markup:
    """A piece of a page, by a macro of a template."""
    return Markup(getattr(_templates().get_template(of).module, macro)(*facts))  # noqa: S704  the template escaped it


def joined(parts: Iterable[str]) -> Markup:
    """Pieces one after the other; text among them that is no piece is escaped."""
    return Markup("").join(parts)


def breakable(cell: str) -> Markup:
    """Text as HTML, in which names of many letters may break after their marks."""
    if isinstance(cell, Markup):
        return cell
    text = re.sub(r"[\w.:/=~-]{25,}", lambda long: re.sub(r"(?<=[_.:/=-])(?=\w)", "<wbr>", long[0]), str(escape(cell)))
    return Markup(text)  # noqa: S704  escaped above


class Cell(NamedTuple):
    """One cell as the template writes it."""

    tag: str
    scope: str
    is_figure: bool
    text: str


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

    def line(cells: Sequence[str], scope: str) -> list[Cell]:
        made = []
        for place, cell in enumerate(cells):
            names = place == 0 or scope == "col"  # a cell that names its row or its column
            is_figure = 0 < len(cells) - bars - place <= numbers
            made.append(Cell("th" if names else "td", scope if names else "", is_figure, cell))
        return made

    kind = "scroll" + " bars" * bars + " folds" * folds + " facts" * (not head)
    lines = [line(row, "row") for row in rows]
    return piece("table", caption, kind, line(head, "col"), lines, line(total or (), "row"))


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
    return piece("cards", values)


def paragraph(text: str, kind: str = "") -> Markup:
    return piece("paragraph", text, kind)


def heading(text: str) -> Markup:
    """The head of a part of a section."""
    return piece("heading", text)


def wide(text: str) -> Markup:
    """The head of a column of bars."""
    return piece("wide", text)


def folded_part(summary: str, inside: str) -> Markup:
    return piece("folded_part", summary, inside)


def side_by_side(parts: Iterable[str]) -> Markup:
    """Figures beside each other where the screen is wide enough."""
    return piece("side_by_side", list(parts))


def figure(chart: str, caption: str, data: str) -> Markup:
    """A chart with its caption, and the same figures as a table for whoever cannot see it."""
    return piece("figure", chart, caption, data)


Section = tuple[str, str, str]  # key, title, body


def filed_page(template: str, title: str, sections: Sequence[Section], **facts: str) -> str:
    """A page that is one file."""
    return render(template, title=title, sections=sections, policy=POLICY, style=style(), **facts)


def style() -> Markup:
    """The style sheet of all pages."""
    text = (files("colonnade.views") / "style.css").read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704  a file of this package


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
MEANINGS = {  # of sets and penalties
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
    terms = [MEANINGS.get(type(term).__name__, "") for term in (problem.constraint, problem.penalty)]
    return " ".join(filter(None, [problem.loss.words, *terms]))


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
