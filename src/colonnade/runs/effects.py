"""What a declared column adds to a score at a value: of a line, of a curve, of levels alike, since its schema encodes.

Whatever a column becomes, its effect is continuous and linear between `knots`; values beyond its bounds are clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.data.schema.columns import Categorical, Column, Date, Feature, Numeric
from colonnade.data.schema.table import Schema
from colonnade.kernels.arrays import Floats
from colonnade.model.facts import FitFacts

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Effect:
    """One group of a declared column's features: a number with its hats, levels, or a part of a date."""

    party: str
    column: Column
    group: int  # of a date: 0 the day, from 1 on its parts
    features: tuple[Feature, ...]
    coefficients: Floats  # of these features

    @property
    def title(self) -> str:
        """The column's name, with that of the part."""
        part = self.column.parts[self.group - 1] if isinstance(self.column, Date) and self.group else ""
        return f"{self.column.name}.{part}" if part else self.column.name

    def at(self, values: Sequence[Any]) -> Floats:
        """By value: a number, a level's text, a date, or None for a gap where the column allows one."""
        encoded = self.column.encode(_series(self.column, values)).columns
        first = sum(len(group) for group in self.column.groups()[: self.group])
        total = np.zeros(len(values))
        for (rows, entries), x in zip(encoded[first : first + len(self.features)], self.coefficients, strict=True):
            total[rows] += entries * x
        return total

    @property
    def knots(self) -> Floats:
        """Of a number or a day (by its ordinal): where the effect may bend, the bounds included."""
        if isinstance(self.column, Date):
            return np.array([self.column.low.toordinal(), self.column.high.toordinal()], np.float64)
        assert isinstance(self.column, Numeric)
        return self.column.knots()

    def at_numbers(self, values: Floats) -> Floats:
        """Of a number, or of a day by its ordinal, also between two days: from the knots."""
        if not isinstance(self.column, Date):
            return self.at(values.tolist())
        return np.interp(values, self.knots, self.at([self.column.low, self.column.high]))


def _series(column: Column, values: Sequence[Any]) -> pl.Series:
    import polars as pl

    kind = pl.String() if isinstance(column, Categorical) else pl.Date() if isinstance(column, Date) else pl.Float64()
    return pl.Series(column.name, list(values), dtype=kind)


def places_of(schema: Schema) -> list[tuple[Column, int, int]]:
    """Each declared column, with the first of its encoded columns and the place after its last."""
    found = []
    at = 0
    for column in schema.columns:
        width = sum(len(group) for group in column.groups())
        found.append((column, at, at + width))
        at += width
    return found


def effects_of(fit: FitFacts, party: str, schema: Schema) -> list[Effect]:
    """The effects of one party's columns; HeldByParty where its coefficients are not here."""
    x = fit.coefficients[party]
    found = []
    for column, first, _ in places_of(schema):
        at = first
        for number, group in enumerate(column.groups()):
            found.append(Effect(party, column, number, group, np.asarray(x[at : at + len(group)])))
            at += len(group)
    return found


def is_number(effect: Effect) -> bool:
    """Whether it has bins: a number with bounds, or a day."""
    return effect.group == 0 and isinstance(effect.column, Numeric | Date)
