"""What a declared column adds to a score at a value: of a line, of a curve, of levels alike, since its schema encodes.

Whatever a column becomes, its effect is continuous and linear between `knots`; values beyond its bounds are clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.data.schema.column import Bins, Column, Feature, spans_of
from colonnade.data.schema.table import Schema
from colonnade.kernels.arrays import Floats
from colonnade.model.facts import FitFacts


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
        part = self.column.part(self.group)
        return f"{self.column.name}.{part}" if part else self.column.name

    def at(self, values: Sequence[Any]) -> Floats:
        """By value: a number, a level's text, a date, or None for a gap where the column allows one."""
        import polars as pl

        cells = pl.Series(self.column.name, list(values), dtype=self.column.cell_type())
        encoded = self.column.encode(cells).columns
        first = sum(len(group) for group in self.column.groups()[: self.group])
        total = np.zeros(len(values))
        for (rows, entries), x in zip(encoded[first : first + len(self.features)], self.coefficients, strict=True):
            total[rows] += entries * x
        return total

    @property
    def bins(self) -> Bins:
        """Of a number or a day: what bins of it must know."""
        found = self.column.bins()
        assert found is not None, "a column of levels has none"
        return found

    @property
    def knots(self) -> Floats:
        """Of a number or a day (by its ordinal): where the effect may bend, the bounds included."""
        return self.bins.knots

    def at_numbers(self, values: Floats) -> Floats:
        """Of a number, or of a day by its ordinal, also between two days: from the knots."""
        if not self.bins.day:
            return self.at(values.tolist())
        return np.interp(values, self.knots, self.at(list(self.bins.bounds)))


def effects_of(fit: FitFacts, party: str, schema: Schema) -> list[Effect]:
    """The effects of one party's columns; HeldByParty where its coefficients are not here."""
    x = fit.coefficients[party]
    found = []
    for column, own in spans_of(schema.columns):
        at = own.start
        for number, group in enumerate(column.groups()):
            found.append(Effect(party, column, number, group, np.asarray(x[at : at + len(group)])))
            at += len(group)
    return found


def is_number(effect: Effect) -> bool:
    """Whether it has bins: a number with bounds, or a day."""
    return effect.group == 0 and effect.column.bins() is not None
