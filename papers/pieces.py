"""What a full run costs before it has been run: from the quick one on record, by what its cases have more of.

An estimate, and called one: a case's work is taken as its rounds (or trials, or epochs), the cost of a unit of work as in the quick run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import StoreError
from papers.figure import Case, Figure
from papers.record import Record, load, waiting
from papers.registry import Listed
from papers.runner import settings

WORK = ("rounds", "count", "trials", "exchanges")  # the parameters that a case's work grows with


def hours(figure: Figure, said: Mapping[str, Any] | None) -> float | None:
    """CPU hours of a full run with one set of seeds: measured where there is one, else estimated; None where nothing is known."""
    if said is None:
        return None
    seconds = float(said["cpu_seconds"])
    if not said["quick"]:
        return seconds / 3600
    return seconds * sum(map(work, figure.cases(False))) / sum(map(work, figure.cases(True))) / 3600


def work(case: Case) -> float:
    return next((float(case[name]) for name in WORK if name in case), 1.0)


def on_record(figure: Figure, said: Mapping[str, Any] | None) -> bool:
    """Whether a full run of the figure's present sizes and claims is on record."""
    if said is None or said["quick"] or waiting([figure], {figure.name: dict(said)}):
        return False
    return bool(said["settings"] == settings(figure.cases(False)))


def cheapest_first(wanted: Sequence[Listed], pages: Path, anew: bool = False) -> list[Listed]:
    """What has no full run on record (with `anew`, all), by the estimate; what nothing is known of comes last."""
    try:
        record: Record = load(pages)
    except StoreError:
        record = {}

    def price(listed: Listed) -> float:
        found = hours(listed.figure, record.get(listed.figure.name))
        return float("inf") if found is None else found

    left = [one for one in wanted if anew or not on_record(one.figure, record.get(one.figure.name))]
    return sorted(left, key=price)
