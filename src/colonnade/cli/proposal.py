"""What `colonnade init` proposes for files of rows: one commented configuration whose figures are to be confirmed.

Bounds, levels, kinds and gaps are read off the rows, on this machine, and go into that file alone: each table of them
says source = "data", and a private run refuses it until its owner has confirmed it (runs/declared.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import colonnade as co
from colonnade.data.keyed_tables import common_keys, read_tables
from colonnade.data.party import check_party_names
from colonnade.data.schema.cells import CellKind
from colonnade.data.schema.column import AS_THEY_ARE, ROUNDED, outward, propose
from colonnade.data.schema.infer import FORMATS, Look, days_of, look
from colonnade.data.schema.table import toml_value
from colonnade.data.sources import table_at
from colonnade.privacy.block import ROW

if TYPE_CHECKING:
    from colonnade.data.schema.column import Column

USUAL = {"scale": True, "parts": (), "format": "%Y-%m-%d"}  # settings that need no line
SHOWN = 8  # classes in a message
AT = 41  # where comments begin
HEAD = """\
#
# TO CONFIRM: bounds (rounded outward), levels and kinds below were read off the rows and tell about people. A private
# run refuses each table that says source = "data". If all of them may be known, `colonnade confirm {name}` says so of
# all at once, and so does the privacy statement. Else replace figures by ones that you would print in a data dictionary
# without looking at the rows, and remove that line.
#
# missing = "refuse" stops at a gap, "indicator" gives gaps a column of their own, and a value stands in for them. Take
# out the tables of columns that are not to be used. Numbers may become curves: docs/use/curves.md.

"""


@dataclass(frozen=True)
class Asked:
    """What was asked for, with the files looked at."""

    file: Path
    parties: Mapping[str, Path]
    on: str
    label: tuple[str, str]
    positive: str | None
    looks: Mapping[str, Sequence[Look]]
    rows: int  # in all files

    @property
    def target(self) -> Look:
        """What was seen of the label."""
        return next(seen for seen in self.looks[self.label[0]] if seen.name == self.label[1])

    def features(self, party: str) -> list[Look]:
        beside = {self.on, self.label[1]} if party == self.label[0] else {self.on}
        return [seen for seen in self.looks[party] if seen.name not in beside]


def look_at(file: Path, words: Sequence[str], on: str | None, label: str | None) -> Asked:
    """Read the files that the options of `init` name; a mistake in them is one error."""
    parties = _parties(words)
    if on is None or label is None:
        missing = "--on KEY, the column by which rows are matched" if on is None else "--label PARTY.COLUMN"
        raise co.InvalidInput(
            f"say {missing}. As in: colonnade init --party a.csv --party b.csv --on id --label a.y=yes"
        )
    holder, column, positive = _label(label, parties)
    keyed = read_tables({name: str(path) for name, path in parties.items()}, on, holder, {column}, ROW)
    if column == on:
        raise co.InvalidInput(f"--label {label}: {on!r} is the key, by which rows are matched. Name another column.")
    if column not in keyed[holder].names:
        there = ", ".join(name for name in keyed[holder].names if name != on)
        raise co.InvalidInput(f"--label {label}: {parties[holder].name} has no column {column!r}; it has {there}.")
    looks = {name: look(table_at(path).blocks(None, None, {on})) for name, path in parties.items()}
    return Asked(file, parties, on, (holder, column), positive, looks, common_keys(keyed, on).height)


def _parties(words: Sequence[str]) -> dict[str, Path]:
    parties: dict[str, Path] = {}
    for word in words:
        name, mark, path = word.partition("=")
        if not mark or Path(word).exists():
            name = Path(word).stem
            path = word
        if name in parties:
            raise co.InvalidInput(f"two parties would be called {name!r}; name one of them: --party NAME={path}")
        parties[name] = Path(path)
    check_party_names(parties)
    return parties


def _label(word: str, parties: Mapping[str, Path]) -> tuple[str, str, str | None]:
    holder = next((name for name in parties if word.startswith(f"{name}.")), None)
    if holder is None:
        known = ", ".join(parties)
        raise co.InvalidInput(f"--label {word}: write PARTY.COLUMN or PARTY.COLUMN=CLASS; the parties are {known}.")
    column, mark, positive = word.removeprefix(f"{holder}.").partition("=")
    return holder, column, positive if mark else None


# ------------------------------------------------------------------------------------------------ the file


class Proposed(NamedTuple):
    """What is proposed for one column: what it is taken as, which figures, and where these are from."""

    party: str
    column: str
    taken_as: str
    figures: str
    why: str


def write_study(asked: Asked) -> tuple[str, list[Proposed]]:
    """The text of the configuration, and what it proposes for the label and for every column."""
    label, loss, wanted = _label_lines(asked)
    found = [Proposed(*asked.label, "label", *wanted)]
    lines = [*_head(asked), "", "[data]", _said(f"on = {toml_value(asked.on)}", "rows are matched by it: no feature")]
    lines += ["", "[data.label]", *label]
    for party, path in asked.parties.items():
        where = f"data.parties.{_key(party)}"
        source = Path(os.path.relpath(path.resolve(), asked.file.resolve().parent)).as_posix()
        lines += ["", "", f"[{where}]", f"source = {toml_value(source)}"]
        for seen in asked.features(party):
            column, why = propose(seen)
            if column is None:
                lines += ["", f"# left out: {toml_value(seen.name)} {why}"]
                found.append(Proposed(party, seen.name, "left out", "", why))
                continue
            lines += ["", f"[[{where}.column]]", *_column_lines(seen, column)]
            found.append(Proposed(party, seen.name, *column.words(), why))
    return "\n".join([*lines, *_rest(loss)]) + "\n", found


def _head(asked: Asked) -> list[str]:
    return [
        f"# A run of `colonnade fit {asked.file.name}`, made by `colonnade init` from {len(asked.parties)} files.",
        *HEAD.format(name=asked.file.name).splitlines(),
        _said('store = "runs"', "ledgers and transcripts: keep it, it is the record of what was spent"),
        _said('output = "fit.json"', "the model"),
        _said('report = "report.html"', "a page about the run; leave it out for none"),
    ]


def _label_lines(asked: Asked) -> tuple[list[str], str, tuple[str, str]]:
    """The table [data.label], the loss that goes with it, and in words what is learnt and where that is from."""
    seen, (holder, column) = asked.target, asked.label
    name = f"{holder}.{column}"
    if seen.missing:
        raise co.InvalidInput(f"the label {name} is missing in {seen.missing:,} of {seen.rows:,} rows. Leave them out.")
    lines = [f"party = {toml_value(holder)}", f"column = {toml_value(column)}"]
    classes = _classes(seen)
    if classes is not None and len(classes) < 2:
        raise co.InvalidInput(f"all {seen.rows:,} rows have the same label in {name}: there is nothing to learn.")
    if asked.positive is None and seen.kind in (CellKind.INTEGER, CellKind.REAL) and classes != ["0", "1"]:
        low, high = _range_of(seen)
        lines += [f"low = {toml_value(low)}", f"high = {toml_value(high)}", _mark("low and high")]
        return lines, "LeastSquares", (f"a number, {low:,.12g} to {high:,.12g}", ROUNDED)
    if classes is None:
        raise co.InvalidInput(f"the label {name} holds {seen.dtype}: give texts, whole numbers or true and false.")
    positive = asked.positive or ("1" if classes == ["0", "1"] else "true" if classes == ["false", "true"] else None)
    shown = ", ".join(classes[:SHOWN]) + (f" and {len(classes) - SHOWN:,} more" if len(classes) > SHOWN else "")
    if positive is None or positive not in classes:
        what = "say which class is learnt" if positive is None else f"no row has the class {positive!r}"
        raise co.InvalidInput(f"--label {name}: {what}, as in --label {name}={classes[-1]}; there are: {shown}.")
    others = [one for one in classes if one != positive]
    lines += [_said(f"positive = {toml_value(positive)}", "the class that is learnt")]
    if len(others) == 1:
        lines += [_said(f"negative = {toml_value(others[0])}", "the other one"), _mark("negative")]
    else:
        lines += [
            f"# negative is left out: all {len(others):,} others are one class",
            _mark("that others are one class"),
        ]
    against = "the other class" if len(others) == 1 else f"{len(others):,} others"
    return lines, "Logistic", (f"“{positive}” against {against}", AS_THEY_ARE)


def _range_of(seen: Look) -> tuple[float, float]:
    seen.column()  # or InvalidInput
    return outward(*seen.bounds(), seen.kind is CellKind.INTEGER)


def _classes(seen: Look) -> list[str] | None:
    if seen.kind is CellKind.BOOLEAN:
        return ["false", "true"]
    if seen.kind is CellKind.INTEGER:
        return None if seen.codes is None else [str(code) for code in sorted(seen.codes)]
    return sorted(seen.levels) if seen.kind is CellKind.TEXT else None


def _column_lines(seen: Look, column: Column) -> list[str]:
    entry = {key: value for key, value in column.to_file().items() if USUAL.get(key) != value}
    lines = {key: f"{key} = {toml_value(value)}" for key, value in entry.items()}
    figures = " and ".join(key for key in ("low", "high", "levels") if key in entry) or "type"
    if seen.codes and len(seen.codes) > 2:
        levels = toml_value(tuple(str(code) for code in sorted(seen.codes)))
        lines["type"] = _said(lines["type"], 'if these are codes: type = "categorical", and for low and high')
        lines["low"] = _said(lines["low"], f"levels = {levels}")
    if "format" in entry and (
        others := [form for form in FORMATS if form != entry["format"] and days_of(seen.levels, form)]
    ):
        lines["format"] = _said(lines["format"], f"or {', '.join(others)}: the rows do not tell")
    if seen.missing:
        lines["missing"] = _said(lines["missing"], f"{seen.missing:,} of {seen.rows:,} rows have a gap")
    if "values" in lines:
        lines["values"] = _said(lines["values"], "whole numbers from low to high: as many as there are")
    also = [_said(f"# {line}", comment) for line, comment in column.HINTS.items() if line.split()[0] not in lines]
    return [*lines.values(), *also, _mark(figures)]


def _rest(loss: str) -> list[str]:
    return [
        "",
        "",
        "[problem]",
        f"loss = {toml_value(loss)}",
        'penalty = { type = "Ridge", a = 1e-3 }',
        "intercept = true",
        "",
        _said("[privacy]", "left out: exact values leave the parties, and the result says so"),
        _said("epsilon = 1.0", "or `colonnade fit --epsilon`; smaller protects more"),
        _said("delta = 1e-6", "well below 1 / rows"),
    ]


def _mark(figures: str) -> str:
    return _said('source = "data"', f"TO CONFIRM: {figures}; then remove this line")


def _said(line: str, comment: str) -> str:
    return f"{line:{AT - 1}} # {comment}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)
