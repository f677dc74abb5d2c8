"""How a scorecard does on rows at hand: figures, and their faces as text and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from colonnade.views.parts import cards, paragraph, table
from colonnade.views.scorecard import NOT_PRIVATE

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
