"""What a declared column adds to a score at a value: of a line, of a curve, of levels alike, since its schema encodes;
and the bins of a number in a scorecard: where they end, and how far a row in a bin is from its effect.

Whatever a column becomes, its effect is continuous and linear between `knots`; values beyond its bounds are clipped. So
in a bin it lies between its least and its largest value at the bin's ends and at the knots inside; half-way between the
two no row is further off than half their distance. Of a column that holds whole numbers alone, and of days, only those
count.

Numbers between whole bounds that are LEAST to STEPS apart, counts most often, are binned by the nearest whole number:
edges lie half-way between two, so that the middle of a bin is that of its whole numbers and of all between its edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from colonnade.data.schema.column import Bins, Column, Feature, spans_of
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput
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


MOST = 20  # bins, where nobody says how many: skewed columns have most rows in few of them
STEPS = 64  # about so many round values are candidates for an edge
LEAST = 4.0  # whole bounds that are closer than that may be those of ratios; values= says that they are not
WIDER = 1.1  # by which the tolerance grows until there are few enough bins


def holds_whole(effect: Effect) -> bool:
    """Whether it is declared that there are whole numbers only; days are."""
    return effect.bins.whole


def in_whole_numbers(effect: Effect, edges: Sequence[float]) -> bool:
    """Whether bins between these inner edges are told by the whole numbers in them."""
    if effect.bins.day or not edges:
        return False
    firsts = [math.ceil(edge) for edge in edges]
    apart = all(a < b for a, b in pairwise(firsts)) and firsts[-1] <= effect.knots[-1] and firsts[0] > effect.knots[0]
    halves = all(edge + 0.5 == first for edge, first in zip(edges, firsts, strict=True))
    return apart and (holds_whole(effect) or (_by_whole_numbers(effect) and halves))


def _by_whole_numbers(effect: Effect) -> bool:
    """Whether unasked bins have edges half-way between whole numbers."""
    apart = effect.bins.apart
    if apart is None:
        return False
    return apart <= STEPS and (apart >= LEAST or effect.bins.whole)


def ranges(effect: Effect, bounds: Sequence[float]) -> Floats:
    """The least and the largest effect in every bin between these bounds, a row for each."""
    knots = effect.knots
    found = []
    whole = holds_whole(effect)
    for place, (low, high) in enumerate(pairwise(bounds), 2):
        inside = np.concatenate([[low], knots[(knots > low) & (knots < high)], [high]])
        # A value at an edge falls above it, but for the last.
        if whole:
            first = math.ceil(low)
            last = math.ceil(high) - (place < len(bounds))
            near = np.clip(np.concatenate([np.floor(inside), np.ceil(inside)]), first, max(first, last))
            inside = np.unique(near) if first <= last else inside
        values = effect.at_numbers(inside)
        found.append((values.min(), values.max()))
    return np.array(found)


def bounds_of(effect: Effect, asked: int | Sequence[float] | None, tolerance: float) -> list[float]:
    """Where bins begin and end, the column's bounds first and last."""
    low = float(effect.knots[0])
    high = float(effect.knots[-1])
    if asked is not None and (isinstance(asked, bool) or not isinstance(asked, Integral)):
        return [low, *_checked(effect, _edges(effect, asked), low, high), high]
    most = MOST if asked is None else int(asked)
    if most < 1:
        raise InvalidInput(f"bins={most} for {effect.title!r}: a number has at least one bin.")
    values = ranges(effect, [low, high])[0]
    if values[0] == values[1]:
        return [low, high]
    if asked is not None:
        tolerance = float(values[1] - values[0]) / (2.0 * most)
    if _by_whole_numbers(effect):
        inner = [low + k + 0.5 for k in range(int(high - low))]
    else:
        inner = _round_values(low, high, 1.0 if holds_whole(effect) else 0.0)
    while len(found := _greedy(effect, [low, *inner, high], tolerance)) > most + 1:
        tolerance *= WIDER
    return found


def _edges(effect: Effect, asked: Any) -> list[float]:
    try:
        if isinstance(asked, str):
            raise TypeError
        return [float(edge) for edge in asked]
    except (TypeError, ValueError):
        example = "bins={'age': [25, 35, 50]}"
        what = f"bins={asked!r} for {effect.title!r}"
        raise InvalidInput(f"{what}: give a whole number of bins, or inner edges as in {example}.") from None


def _checked(effect: Effect, edges: list[float], low: float, high: float) -> list[float]:
    if any(not low < edge < high for edge in edges) or any(b <= a for a, b in pairwise(edges)):
        what = f"the edges of {effect.title!r} must rise and lie within its bounds, {low:g} and {high:g}"
        raise InvalidInput(f"{what}: give inner edges only, as in bins={{'age': [25, 35, 50]}}.")
    return edges


def _round_values(low: float, high: float, least: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, and of `least` or more, between the bounds."""
    raw = max((high - low) / STEPS, least)
    places = math.floor(math.log10(raw))
    power = 10.0**places
    digits = max(12, 3 - places)
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1.0 - 1e-12))
    first = math.floor(low / step) + 1
    last = math.ceil(high / step) - 1
    return [value for k in range(first, last + 1) if low < (value := round(k * step, digits)) < high]


def _greedy(effect: Effect, candidates: Sequence[float], tolerance: float) -> list[float]:
    """As few bins as keep every row within the tolerance, from the left; a step that alone exceeds it is a bin."""
    pieces = ranges(effect, candidates)
    found = [candidates[0]]
    least = math.inf
    largest = -math.inf
    for k, (low, high) in enumerate(pieces):
        least = min(least, low)
        largest = max(largest, high)
        if (largest - least) / 2.0 > tolerance and candidates[k] > found[-1]:
            found.append(candidates[k])
            least = low
            largest = high
    return [*found, candidates[-1]]


def in_order(values: Floats, weights: Floats, direction: int) -> Floats:
    """The closest values that never fall (1) or never rise (-1), by weighted squares: neighbours pooled."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(direction * values, weights, strict=True):
        pools.append((float(value), float(weight), 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, v, m), (b, w, n) = pools[-2:]
            pools[-2:] = [((a * v + b * w) / (v + w), v + w, m + n)]
    return direction * np.concatenate([np.full(n, a) for a, _, n in pools])
