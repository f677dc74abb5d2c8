"""A job in a file: problem, method and privacy as a user writes them down (docs/organisations.md).

    [problem]
    loss = "Logistic"                                       # a value of colonnade by its name
    penalty = { type = "ElasticNet", l1 = 0.01, l2 = 0.1 }  # one with settings

[method] names a type and its settings; left out, it is the default for the privacy asked for. Without [privacy] exact
values leave the parties. A mistake is answered with the line it is on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.data.text_file import at_line, read_text
from colonnade.errors import InvalidInput
from colonnade.methods.method import MethodBase
from colonnade.methods.plain_data import InvalidValue, from_plain, known_methods, known_values
from colonnade.privacy.statement import Privacy
from colonnade.problem import AdaBoost, KernelSVM, Problem

TABLES = ("problem", "method", "privacy")
_PROBLEMS = (Problem, KernelSVM, AdaBoost)


@dataclass(frozen=True)
class JobFile:
    """What a job file says."""

    problem: Any
    method: Any | None
    privacy: Privacy | None
    rest: Mapping[str, Any]  # tables that others read: data, output


def load_job(path: str | Path, *, others: tuple[str, ...] = ()) -> JobFile:
    """Read a job file; `others` are further tables that it may hold."""
    text = read_text(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}. Correct it there.") from error
    if unknown := [name for name in raw if name not in (*TABLES, *others)]:
        what = f"unknown; a job has {', '.join((*TABLES, *others))}. Correct the name, or take it out."
        raise at_line(path, text, unknown[0], what)
    if "problem" not in raw:
        raise InvalidInput(f'{path} has no [problem]; write at least: [problem] and loss = "Logistic".')
    try:
        problem = _read_table(raw, "problem", "Problem")
        method, privacy = _read_table(raw, "method"), _read_table(raw, "privacy", "Privacy")
        _check_kinds(problem, method, privacy)
    except InvalidValue as error:
        place = f"{error.place}.{error.setting}" if error.setting else error.place
        raise at_line(path, text, place, error.what, mark=":") from error
    return JobFile(problem, method, privacy, {name: raw[name] for name in others if name in raw})


def accepted() -> dict[str, tuple[type, ...]]:
    """What each table may hold."""
    return {"problem": _PROBLEMS, "method": tuple(known_methods().values()), "privacy": (Privacy,)}


def _check_kinds(problem: object, method: object, privacy: object) -> None:
    """Each table must hold what its name says: a Ridge is a value of colonnade, and no method."""
    kinds = {
        "problem": (problem, _PROBLEMS, "is no problem; leave type out, or write KernelSVM or AdaBoost"),
        "method": (method, (MethodBase, type(None)), 'is no method; write for example type = "PrivateGram"'),
        "privacy": (privacy, (Privacy, type(None)), "says nothing about privacy; leave type out of [privacy]"),
    }
    for where, (value, wanted, what) in kinds.items():
        if not isinstance(value, wanted):
            raise InvalidValue(where, f"{type(value).__name__} {what}")


def _read_table(tables: Mapping[str, Any], where: str, kind: str | None = None) -> Any:
    """The value that a table describes; None without the table."""
    if where not in tables:
        return None
    raw = tables[where]
    if not isinstance(raw, dict):
        raise InvalidValue(where, f"must be a table, as in [{where}]")
    if kind is None and "type" not in raw:
        raise InvalidValue(where, 'needs type = "...", such as type = "PrivateGram"')
    return from_plain(_with_types({**({} if kind is None else {"type": kind}), **raw}), where)


def _with_types(raw: Any) -> Any:
    """Names of values for values without settings, and tables without a type for tables."""
    if isinstance(raw, dict):
        inside = {key: _with_types(item) if key != "type" else item for key, item in raw.items()}
        return inside if "type" in raw else {"type": "table", "entries": inside}
    if isinstance(raw, list):
        return [_with_types(item) for item in raw]
    return {"type": raw} if isinstance(raw, str) and raw in known_values() else raw
