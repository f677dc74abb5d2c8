"""What left and what reached each party, added up from a fit's record of the wires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from colonnade.runtime.program import COORDINATOR
from colonnade.views.fit_facts import FitFacts


class Sent(NamedTuple):
    """Messages of one type that left or reached one party."""

    party: str
    type: str
    messages: int
    bytes: int


def left_by_party(fit: FitFacts) -> list[Sent]:
    """By sender: what other nodes were given."""
    return _summed((line[0], *line[2:]) for line in fit.communication.lines)


def reached_by_party(fit: FitFacts) -> list[Sent]:
    """By receiver: what a party was given."""
    return _summed((line[1], *line[2:]) for line in fit.communication.lines)


def left_by_round(fit: FitFacts, party: str) -> dict[int, int]:
    """Bytes that left a party, by round."""
    rounds: Counter[int] = Counter()
    for sender, _, _, number, _, size in fit.communication.lines:
        if sender == party:
            rounds[number] += size
    return dict(sorted(rounds.items()))


def _summed(lines: Iterable[tuple[str, str, int, int, int]]) -> list[Sent]:
    messages: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for party, kind, _, count, size in lines:
        if party != COORDINATOR:
            messages[party, kind] += count
            sizes[party, kind] += size
    return [Sent(*key, messages[key], sizes[key]) for key in sorted(messages)]
