"""A scorecard for people and machines: its table as text, HTML, CSV and JSON, and as one Python file that scores; and
how it does on rows at hand, as figures, text and HTML.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from colonnade.data.labels import in_words
from colonnade.data.schema.cells import CardKind
from colonnade.data.text_file import safe_cell
from colonnade.views import parts as html
from colonnade.views.chart import bar, party_colours
from colonnade.views.parts import cards, joined, paragraph, table, wide

NOT_PRIVATE = (
    "Computed here, on the rows that were given, and not private: whoever publishes these figures releases something "
    "about those rows, which no budget counted."
)
# bases of figures, as runs/evidence.py writes them
MODELLED = "modelled"
RELEASED = "released counts"
ROUGH = "rough where columns go with each other"
FROM = (
    "from the fitted effect and released moments, not from counts in bins, which nobody released. Where columns go "
    "with each other, an IV may be wrong by a factor of several"
)
HEADS = ("party", "column", "line", "points", "off by at most", "share of rows", "WOE", "basis")
EMPTY = 'CARD: dict[str, Any] = json.loads("{}")\n'  # of views/scorer.py: where the card goes


@dataclass(frozen=True)
class CardLine:
    """One line: a bin, a level, or what counts as neither."""

    name: str
    points: int
    off: float  # by how much the points of a row on this line can differ from those of the model, in points
    share: float | None = None  # of all rows
    woe: float | None = None
    woe_sd: float | None = None  # by noise alone
    share_sd: float | None = None  # by noise alone; None where the share is modelled


@dataclass(frozen=True)
class CardColumn:
    """One column with its lines, and what a scorer needs to find a row's line."""

    party: str
    key: str  # its name in a row
    title: str
    kind: str  # "number", "day", "flag", "level", "month" or "weekday"
    lines: tuple[CardLine, ...]
    edges: tuple[float, ...] = ()  # of bins, without the bounds: a value at an edge falls above it
    whole: bool = False  # whether `off` is of whole numbers only, which are declared
    nearest: bool = False  # whether lines name whole numbers, and other values count as the nearest
    levels: Mapping[str, int] = field(default_factory=dict)  # which line a text falls on
    floats: Mapping[str, int] = field(default_factory=dict)  # the same for numbers that are written with a point
    other: int | None = None  # the line of texts that are no level
    gap: int | tuple[Any] | None = None  # the line of gaps, what stands in for them, or None: there are none
    format: str = ""  # of days as texts
    iv: float | None = None
    basis: str = ""  # of WOE and IV: "released counts" or "modelled"
    why: str = ""  # why they are missing

    @property
    def best(self) -> int:
        """The most points of a bin or level: neither a gap nor an unknown level is the best."""
        apart = (self.other, self.gap)
        return max(line.points for place, line in enumerate(self.lines) if place not in apart)


@dataclass(frozen=True)
class CardFacts:
    """A scorecard: so many points to begin with, and more by column."""

    scale: float  # so many points mean good : bad = odds : 1 ...
    odds: float
    double: float  # ... and so many more, twice the odds
    good: int  # the label that counts as good
    base: int
    base_off: float  # of its own rounding
    rounding: float  # by how much a row's points can differ from those that its score means, at most
    columns: tuple[CardColumn, ...]
    link: tuple[float, ...]  # from scores to probabilities: slope and offset of the log-odds first
    run: str
    privacy: str  # the statement of the run
    remarks: tuple[str, ...] = ()
    classes: tuple[Any, Any] | None = None  # what the labels -1 and +1 are called; None: nobody said


def plain(card: CardFacts) -> dict[str, Any]:
    """The card as JSON has it, with what views/scorer.py reads."""
    columns = []
    for column in card.columns:
        known = asdict(column) | {"names": [one.name for one in column.lines]}
        columns.append(known | {"points": [one.points for one in column.lines], "best": column.best})
    return asdict(card) | {"kind": "colonnade scorecard", "notes": [*about(card), *notes(card)], "columns": columns}


def as_json(card: CardFacts) -> str:
    return json.dumps(plain(card), indent=1, ensure_ascii=False) + "\n"


def as_python(card: CardFacts) -> str:
    """One file that needs nothing but Python: the scorer with the card in it."""
    source = (files("colonnade.views") / "scorer.py").read_text(encoding="utf-8")
    before, after = source.split(EMPTY)
    lines = json.dumps(plain(card), indent=1, ensure_ascii=True)
    return f"{before}CARD: dict[str, Any] = json.loads({lines!r})\n{after}"


def as_csv(card: CardFacts) -> str:
    """One line for every line of the card, the base first."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*HEADS, "IV of the column", "note"])
    writer.writerow(["", "base", "", card.base, f"{card.base_off:.3f}", "", "", "", "", ""])
    for column in card.columns:
        for line in column.lines:
            known = ["" if value is None else f"{value:.4f}" for value in (line.share, line.woe)]
            iv = "" if column.iv is None else f"{column.iv:.4f}"
            figures = (line.points, f"{line.off:.3f}", *known, column.basis, iv, ROUGH if is_modelled(column) else "")
            writer.writerow([*map(safe_cell, (column.party, column.title, line.name)), *figures])
    return out.getvalue()


def is_modelled(column: CardColumn) -> bool:
    """Whether its shares, WOE and IV are a model's."""
    return column.basis == MODELLED and column.iv is not None


def notes(card: CardFacts) -> list[str]:
    """What must be said where shares, WOE and IV stand."""
    return [f"{MODELLED.capitalize()} figures come {FROM}."] if any(map(is_modelled, card.columns)) else []


def about(card: CardFacts) -> list[str]:
    """What must be said beside the table."""
    good = "label -1" if card.good < 0 else "label +1"
    if card.classes is not None:
        good = f"{in_words(card.classes[int(card.good > 0)])}, {good}"
    whole = [column.title for column in card.columns if column.whole and column.kind == CardKind.NUMBER]
    row = f"whatever the row, if {', '.join(whole)} are whole numbers as declared" if whole else "whatever the row"
    said = [
        f"{card.scale:g} points mean that good ({good}) is to bad as {card.odds:g} to 1; {card.double:g} more points "
        "mean twice the odds.",
        f"A row's points are within {card.rounding:.1f} of what its score means, {row}.",
    ]
    if nearest := [column.title for column in card.columns if column.nearest]:
        said.append(f"Values of {', '.join(nearest)} between whole numbers count as the nearest of them.")
    return said + [f"{remark}." for remark in card.remarks]


def as_text(card: CardFacts) -> str:
    """The card as plain text."""
    cells = [("column", "line", "points", "WOE"), ("base", "", f"{card.base:d}", "")]
    for column in card.columns:
        mark = f" ({MODELLED})" if column.basis == MODELLED else ""
        for place, line in enumerate(column.lines):
            woe = "" if line.woe is None else f"{line.woe:+.2f}{mark}"
            cells.append((column.title if place == 0 else "", line.name, f"{line.points:d}", woe))
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    rows = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in cells]
    ranked = [
        f"{column.title} {column.iv:.3f}, {column.basis}" for column in by_information(card) if column.iv is not None
    ]
    told = [f"IV: {'; '.join(ranked)}."] if ranked else []
    return "\n".join([*rows, "", *about(card), *told, *notes(card)])


def as_html(card: CardFacts) -> Markup:
    """The card for a notebook: a table with a bar for every line."""
    colours = party_colours(list(dict.fromkeys(column.party for column in card.columns)))
    most = max((line.points for column in card.columns for line in column.lines), default=1) or 1
    rows: list[Sequence[str]] = [("base", "", "", "", "", f"{card.base:d}", "")]
    for column in card.columns:
        for place, line in enumerate(column.lines):
            share = "" if line.share is None else f"{line.share:.1%}"
            woe = "" if line.woe is None else f"{line.woe:+.2f}"
            drawn = bar(float(line.points), 0.0, (0.0, float(most)), colours[column.party])
            name = _whose(column) if place == 0 else ""
            basis = column.basis if share else ""
            rows.append((name, line.name, basis, share, woe, f"{line.points:d}", drawn))
    heads = ("column", "line", "share and WOE from", "share", "WOE", "points", wide("beside each other"))
    shown = table("Points by column and line", heads, rows, numbers=3, bars=True)
    return joined(map(paragraph, about(card))) + shown + _information(card)


def _whose(column: CardColumn) -> str:
    """Its party and name; a name that several parties have carries the party already."""
    return f"{column.party}: {column.title.removeprefix(f'{column.party}:')}"


def by_information(card: CardFacts) -> list[CardColumn]:
    """The columns, those of the largest IV first."""
    return sorted(card.columns, key=lambda column: -1.0 if column.iv is None else column.iv, reverse=True)


def _information(card: CardFacts) -> Markup:
    """IV by column, the largest first, or why it is missing."""
    rows = [
        (
            _whose(column),
            "" if column.iv is None else f"{column.iv:.3f}",
            column.why if column.iv is None else f"{column.basis}, {ROUGH}" if is_modelled(column) else column.basis,
        )
        for column in by_information(card)
    ]
    told = ["WOE and IV of levels come from released counts, noise and all.", *notes(card)]
    note = paragraph(" ".join(told), "soft")
    return table("Information value by column", ("column", "IV", "from"), rows) + note


def as_page(card: CardFacts) -> str:
    """A self-contained page."""
    sections = [("card", "The scorecard", as_html(card)), ("privacy", "Privacy", paragraph(card.privacy))]
    return html.filed_page("scorecard.html", "Scorecard", sections, run=card.run)


# the usual bounds of a PSI
STABLE = 0.1
MOVED = 0.25


class Tenth(NamedTuple):
    """About a tenth of the rows, those with the fewest points first."""

    low: int
    high: int
    rows: int
    bads: int
    rate: float  # of bads
    lift: float  # that rate over the rate of all rows
    found: float  # share of all bads in this tenth and those below


class LineCount(NamedTuple):
    """Rows at hand that fall on a line of the card."""

    column: str
    line: str
    goods: int
    bads: int
    woe: float | None


@dataclass(frozen=True)
class Performance:
    """How well points tell goods from bads, on rows at hand."""

    rows: int
    bads: int
    ks: float
    ks_at: int  # at and below so many points
    gini: float
    auc: float
    tenths: tuple[Tenth, ...]
    lines: tuple[LineCount, ...]
    iv: Mapping[str, float]  # by column
    note: str = NOT_PRIVATE

    def __str__(self) -> str:
        first = f"{self.rows:,} rows, {self.bads:,} bad: KS {self.ks:.3f} at {self.ks_at} points"
        head = f"{first}, Gini {self.gini:.3f}, AUC {self.auc:.3f}"
        body = [
            f"{t.low:>5} to {t.high:<5} {t.rows:>7,} rows {t.rate:7.2%} bad, lift {t.lift:.2f}, {t.found:.1%} found"
            for t in self.tenths
        ]
        return "\n".join([head, *body, self.note])

    def _repr_html_(self) -> str:
        shown = {"KS": f"{self.ks:.3f}", "Gini": f"{self.gini:.3f}", "AUC": f"{self.auc:.3f}"}
        heads = ("points", "rows", "bads", "rate", "lift", "bads found so far")
        rows = [
            (f"{t.low} to {t.high}", f"{t.rows:,}", f"{t.bads:,}", f"{t.rate:.2%}", f"{t.lift:.2f}", f"{t.found:.1%}")
            for t in self.tenths
        ]
        lifts = table("Lift by tenth, fewest points first", heads, rows, numbers=5)
        return cards(shown) + lifts + paragraph(self.note)


@dataclass(frozen=True)
class Stability:
    """How far rows at hand have moved: the population stability index of points, and of every column."""

    rows: int
    psi: float | None  # of points; None where only released shares are known
    columns: Mapping[str, float | None]  # None: `why` says why
    basis: str
    note: str = NOT_PRIVATE
    why: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        whole = "" if self.psi is None else f"points: PSI {self.psi:.4f}, {_words(self.psi)}\n"
        body = [f"{name}: {self._shown(name, value)}" for name, value in self.columns.items()]
        return "\n".join([f"{self.rows:,} rows against {self.basis}", whole + "\n".join(body), self.note])

    def _repr_html_(self) -> str:
        every = ({} if self.psi is None else {"points": self.psi}) | dict(self.columns)
        rows = [(name, self._shown(name, value)) for name, value in every.items()]
        told = table(f"Stability against {self.basis}", ("of", "PSI"), rows)
        return told + paragraph(self.note)

    def _shown(self, name: str, value: float | None) -> str:
        return self.why[name] if value is None else f"PSI {value:.4f}, {_words(value)}"


def _words(psi: float) -> str:
    return "stable" if psi < STABLE else "moved somewhat" if psi < MOVED else "moved"
