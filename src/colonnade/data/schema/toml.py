"""The file a schema lives in.

    version = 2                     # files without it are of version 1, which knew no dates; they mean what they meant
    source = "declared"             # "data": proposed from rows; a private run refuses it
    row_norm = 2.0                  # optional
    label = { type = "numeric", name = "log_income", low = 2.0, high = 6.0 }  # optional: the range of numeric labels

    [[column]]
    type = "numeric"                # or binary, categorical, plain, date
    name = "age"
    low = 0.0
    high = 120.0

A mistake is reported with its line and key.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from colonnade.data.schema.columns import Binary, Categorical, Column, Date, Numeric, Plain
from colonnade.errors import InvalidInput

VERSION = 2
KINDS: dict[str, type[Column]] = {kind.__name__.lower(): kind for kind in (Numeric, Binary, Categorical, Plain, Date)}
SINCE = {"date": 2}  # kinds that came after version 1


def column_entry(column: Column) -> dict[str, Any]:
    """A column as text, numbers, days and lists: what the file and the digest are made from."""
    return {"type": type(column).__name__.lower(), **asdict(column)}


def schema_text(top: Mapping[str, Any], columns: list[dict[str, Any]]) -> str:
    """The text of a file."""
    lines = toml_lines({"version": VERSION, **top})
    for column in columns:
        lines += ["", "[[column]]", *toml_lines(column)]
    return "\n".join(lines) + "\n"


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """Keys and values, one a line."""
    return [f"{key} = {toml_value(value)}" for key, value in entries.items()]


def toml_value(value: str | bool | float | dt.date | tuple[str, ...] | dict[str, Any]) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dt.date():
            return value.isoformat()
        case str():
            return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda m: f"\\u{ord(m[0]):04x}", value) + '"'
        case _:
            return "[" + ", ".join(toml_value(item) for item in value) + "]"


def parse_schema(text: str) -> tuple[tuple[Column, ...], dict[str, Any]]:
    """The columns of a file, and what it says beside them (source, row_norm)."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"not TOML: {error}. Correct it there.") from error
    tables = table.pop("column", [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise InvalidInput("the key 'column' is not a list of tables. Open each column with [[column]].")
    version = _version(table.pop("version", 1))
    for key in table:
        if key not in ("source", "row_norm", "label"):
            raise InvalidInput(f"unknown key {key!r}. Known here: version, source, row_norm, label, [[column]].")
    if "label" in table:
        table["label"] = _label(table["label"], version)
    lines = [number for number, line in enumerate(text.split("\n"), 1) if line.strip().startswith("[[column]]")]
    columns = []
    for position, item in enumerate(tables):
        try:
            columns.append(_column(item, version))
        except InvalidInput as error:
            # A header inside a multi-line string would shift the count: then name the position only.
            line = f"line {lines[position]}, " if len(lines) == len(tables) else ""
            raise InvalidInput(f"{line}[[column]] number {position + 1}: {error}") from error
    return tuple(columns), table


def _label(item: object, version: int) -> Column:
    if not isinstance(item, dict):
        raise InvalidInput('label is no table. Write label = { name = "log_income", low = 2.0, high = 6.0 }.')
    try:
        return _column({"type": "numeric", **item}, version)
    except InvalidInput as error:
        raise InvalidInput(f"label: {error}") from error


def _version(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidInput(f"version is {version!r}. Write version = {VERSION}.")
    if version > VERSION:
        advice = "Install a newer Colonnade, or write the schema again."
        raise InvalidInput(f"the schema is of version {version}, and this Colonnade reads up to {VERSION}. {advice}")
    return version


def _column(item: dict[str, Any], version: int) -> Column:
    values = dict(item)
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"type is {kind!r}. Write one of {', '.join(KINDS)}.")
    if version < SINCE.get(kind, 1):
        raise InvalidInput(
            f"type {kind!r} needs version = {SINCE[kind]} at the top of the file; there it is {version}."
        )
    known = {f.name: f for f in fields(KINDS[kind])}
    for key in values:
        if key not in known:
            raise InvalidInput(f"unknown key {key!r}. Known for type {kind!r}: {', '.join(known)}.")
    for key in ("name", "low", "high", "levels"):
        if key in known and key not in values:
            raise InvalidInput(f"key {key!r} is absent. A column of type {kind!r} needs it.")
    return KINDS[kind](**values)
