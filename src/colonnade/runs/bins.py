"""Bins of a number for a scorecard: where they end, how far a row in a bin is from its effect, and bins in order.

An effect is linear between its knots, so in a bin it lies between its least and its largest value at the bin's ends and
at the knots inside; half-way between the two no row is further off than half their distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.runs.effects import Effect

MOST = 20  # bins, where nobody says how many: skewed columns have most rows in few of them
STEPS = 64  # about so many round values are candidates for an edge
WIDER = 1.1  # by which the tolerance grows until there are few enough bins


def ranges(effect: Effect, bounds: Sequence[float]) -> Floats:
    """The least and the largest effect in every bin between these bounds, a row for each."""
    knots, found = effect.knots, []
    for low, high in pairwise(bounds):
        inside = np.concatenate([[low], knots[(knots > low) & (knots < high)], [high]])
        values = effect.at_numbers(inside)
        found.append((values.min(), values.max()))
    return np.array(found)


def bounds_of(effect: Effect, asked: int | Sequence[float] | None, tolerance: float) -> list[float]:
    """Where bins begin and end, the column's bounds first and last."""
    low, high = float(effect.knots[0]), float(effect.knots[-1])
    if asked is not None and not isinstance(asked, int):
        return [low, *_checked(effect, [float(edge) for edge in asked], low, high), high]
    most = MOST if asked is None else asked
    if most < 1:
        raise InvalidInput(f"bins={most} for {effect.title!r}: a number has at least one bin.")
    values = ranges(effect, [low, high])[0]
    if values[0] == values[1]:
        return [low, high]
    if asked is not None:
        tolerance = float(values[1] - values[0]) / (2.0 * most)
    candidates = [low, *_round_values(low, high), high]
    while len(found := _greedy(effect, candidates, tolerance)) > most + 1:
        tolerance *= WIDER
    return found


def _checked(effect: Effect, edges: list[float], low: float, high: float) -> list[float]:
    if any(not low < edge < high for edge in edges) or any(b <= a for a, b in pairwise(edges)):
        what = f"the edges of {effect.title!r} must rise and lie within its bounds, {low:g} and {high:g}"
        raise InvalidInput(f"{what}: give inner edges only, as in bins={{'age': [25, 35, 50]}}.")
    return edges


def _round_values(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between the bounds."""
    raw = (high - low) / STEPS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1.0 - 1e-12))
    first, last = math.floor(low / step) + 1, math.ceil(high / step) - 1
    return [value for k in range(first, last + 1) if low < (value := round(k * step, 12)) < high]


def _greedy(effect: Effect, candidates: Sequence[float], tolerance: float) -> list[float]:
    """As few bins as keep every row within the tolerance, from the left; a step that alone exceeds it is a bin."""
    pieces = ranges(effect, candidates)
    found, least, largest = [candidates[0]], math.inf, -math.inf
    for k, (low, high) in enumerate(pieces):
        least, largest = min(least, low), max(largest, high)
        if (largest - least) / 2.0 > tolerance and candidates[k] > found[-1]:
            found.append(candidates[k])
            least, largest = low, high
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
