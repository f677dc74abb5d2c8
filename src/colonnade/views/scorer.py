"""A scorecard that needs nothing but Python: points, probability and reasons for one row, or for a CSV file.

    python scorer.py applicants.csv > scored.csv

Or from Python: `points({"age": 41, "region": "north"})`. A row has a value for every column by its name; None, nan and,
in a CSV file, an empty cell are gaps. No cell is repeated in an error.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import sys
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

CARD: dict[str, Any] = json.loads("{}")


def places(row: Mapping[str, Any], card: Mapping[str, Any] = CARD) -> list[int]:
    """For every column of the card, which of its lines a row falls on."""
    return [_place(column, row) for column in card["columns"]]


def points(row: Mapping[str, Any], card: Mapping[str, Any] = CARD) -> int:
    """The points of a row, all columns and the base together."""
    found = zip(card["columns"], places(row, card))  # noqa: B905  older Pythons have no strict=
    return int(card["base"]) + sum(int(column["points"][place]) for column, place in found)


def log_odds(total: float, card: Mapping[str, Any] = CARD) -> float:
    """Of good to bad at so many points: what the scale says."""
    return math.log(float(card["odds"])) + (total - float(card["scale"])) * math.log(2.0) / float(card["double"])


def probability(total: float, card: Mapping[str, Any] = CARD) -> float:
    """That a row of so many points is bad, as the model has it: the scale's odds, or the model's own curve of them."""
    slope, offset, weight, level, rise, low, high = map(float, card["link"])
    line = log_odds(total, card) * (-1.0 if card["good"] < 0 else 1.0)  # of label +1
    normal = 1.0 / (1.0 + math.exp(-line)) if line >= 0.0 else math.exp(line) / (1.0 + math.exp(line))
    straight = min(max(level + rise * (line - offset) / slope, low), high)
    chance = weight * normal + (1.0 - weight) * straight
    return chance if card["good"] < 0 else 1.0 - chance


def reasons(row: Mapping[str, Any], most: int = 4, card: Mapping[str, Any] = CARD) -> list[tuple[str, str, int]]:
    """Column, line of the card, and points lost to the column's best: the most first, ties in the card's order.

    Neither a gap nor an unknown level is anybody's best.
    """
    lost = []
    for column, place in zip(card["columns"], places(row, card)):  # noqa: B905
        lost.append((column["title"], column["names"][place], column["best"] - column["points"][place]))
    return sorted((one for one in lost if one[2] > 0), key=lambda one: -one[2])[:most]


# ------------------------------------------------------------------------------------------------ one cell


def _place(column: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    key = column["key"]
    if key not in row:
        raise ValueError(f"the row has no column {key!r}")
    value = row[key] if column["kind"] in ("number", "flag") else _day(column, row[key])
    if column["kind"] == "number" and isinstance(value, str):
        value = _number(column, value)  # "nan" is a gap, too
    if value is None or value != value:  # nan differs from itself
        if column["gap"] is None:
            raise ValueError(f"{key!r} is missing, and the model was made for rows without gaps in it")
        if isinstance(column["gap"], int):
            return column["gap"]
        value = column["gap"][0]  # what stands in for gaps
        value = dt.date.fromisoformat(value) if column["kind"] in ("day", "month", "weekday") else value
    match_of = {"number": _bin, "day": _bin, "flag": _flag}
    return match_of.get(column["kind"], _level)(column, value)


def _bin(column: Mapping[str, Any], value: Any) -> int:
    number = value.toordinal() if isinstance(value, dt.date) else _number(column, value)
    return bisect_right(column["edges"], number)


def _flag(column: Mapping[str, Any], value: Any) -> int:
    words = {"true": 1.0, "false": 0.0}
    number = words[value.lower()] if isinstance(value, str) and value.lower() in words else _number(column, value)
    if number not in (0.0, 1.0):
        raise ValueError(f"{column['key']!r} holds a value that is neither 0 nor 1")
    return int(number)


def _level(column: Mapping[str, Any], value: Any) -> int:
    if isinstance(value, dt.date) and column["kind"] != "level":
        return (value.month if column["kind"] == "month" else value.isoweekday()) - 1
    levels = column["levels"]
    floats = column["floats"]
    # 1.0 is written "1": the level that means it.
    if isinstance(value, float):
        text = str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)
        place = levels.get(text, floats.get(text))
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        whole = text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdecimal() else text  # 1.0 in a file
        place = levels.get(text, levels.get(whole))
    return int(column["other"] if place is None else place)


def _number(column: Mapping[str, Any], value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{column['key']!r} holds a value that is no number") from None


def _day(column: Mapping[str, Any], value: Any) -> Any:
    """A day of a date, a time or a text; levels stay as they are."""
    if column["kind"] == "level" or value is None:
        return value
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    try:
        return dt.datetime.strptime(value, column["format"]).date()
    except (TypeError, ValueError):
        raise ValueError(f"{column['key']!r} holds a value that is no day of the form {column['format']!r}") from None


# ------------------------------------------------------------------------------------------------ a file


def main(paths: list[str]) -> int:
    if len(paths) != 1:
        sys.stderr.write("usage: python scorer.py rows.csv > scored.csv\n")
        return 2
    out = csv.writer(sys.stdout, lineterminator="\n")
    with open(paths[0], newline="", encoding="utf-8-sig") as file:  # noqa: PTH123
        for number, row in enumerate(csv.DictReader(file), 1):
            if number == 1:
                out.writerow([*row, "points", "probability_bad", "reasons"])
            cells = {name: cell if cell != "" else None for name, cell in row.items()}
            try:
                total = points(cells)
                why = reasons(cells)
            except ValueError as error:
                sys.stderr.write(f"row {number}: {error}\n")
                return 1
            said = "; ".join(f"{column}: {line} (-{lost})" for column, line, lost in why)
            said = "'" + said if said[:1] in ("=", "+", "-", "@", "\t", "\r") else said  # no formula in a spreadsheet
            out.writerow([*row.values(), total, f"{probability(total):.6f}", said])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
