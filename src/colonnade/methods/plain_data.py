"""Frozen values as plain data and back: for parties elsewhere, files of settings, and kept fits.

    {"type": "ElasticNet", "l1": 0.1, "l2": 1.0}   <->   co.ElasticNet(l1=0.1, l2=1.0)

Only types that Colonnade itself exports are made, by their public names; nothing is imported or executed. A function
cannot travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from colonnade import problem
from colonnade.errors import InvalidInput
from colonnade.methods.method import MethodBase
from colonnade.privacy.statement import Privacy


@lru_cache(maxsize=1)
def known_values() -> dict[str, type]:
    """Every frozen value that may be part of a job, by its name: of `problem`, and what `methods` has in public."""
    package = import_module("colonnade")  # its table of public names; the package loads this file when it is asked to
    public = [getattr(package, name) for name, home in package.HOMES.items() if home.startswith("colonnade.methods.")]
    named = [*(getattr(problem, name) for name in problem.__all__), *public, Privacy]
    return {kind.__name__: kind for kind in named if isinstance(kind, type) and is_dataclass(kind)}


def known_methods() -> dict[str, type[MethodBase]]:
    """Every public method, by its name."""
    return {name: kind for name, kind in known_values().items() if issubclass(kind, MethodBase)}


def to_plain(value: Any) -> Any:
    """A frozen value as numbers, texts, lists and tables."""
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if known_values().get(name) is not type(value):
            raise InvalidInput(f"a {name} cannot be sent or saved: it is not among the public names of colonnade.")
        return {"type": name, **{f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.init}}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {"type": "table", "entries": {str(key): to_plain(item) for key, item in value.items()}}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    wrong = f"a {type(value).__name__} cannot be sent or saved as part of a job"
    raise InvalidInput(f"{wrong}: use numbers, texts and the values of colonnade.")


class InvalidValue(InvalidInput):
    """A value that cannot be made, where it stands in the plain data: `place`, as in problem.loss."""

    def __init__(self, place: str, what: str, setting: str = "") -> None:
        super().__init__(f"{place}: {what}", setting)
        self.place = place
        self.what = what


def from_plain(raw: Any, where: str = "value") -> Any:
    """The value that `to_plain` wrote, or InvalidValue, which names the place."""
    if isinstance(raw, list):
        return tuple(from_plain(item, f"{where}[{place}]") for place, item in enumerate(raw))
    if not isinstance(raw, Mapping):
        return raw
    name = raw.get("type")
    if name == "table":
        return {key: from_plain(item, f"{where}.{key}") for key, item in raw.get("entries", {}).items()}
    kind = known_values().get(str(name))
    if kind is None:
        near = [f"; the nearest name is {found!r}" for found in get_close_matches(str(name), known_values(), 1)]
        wrong = f"{name!r} is not a value of colonnade{''.join(near)}"
        raise InvalidValue(where, f"{wrong}. docs/reference.md lists all, under Public names.")
    given = {str(key): from_plain(item, f"{where}.{key}") for key, item in raw.items() if key != "type"}
    allowed = [f.name for f in fields(kind) if f.init]
    if unknown := sorted(set(given) - set(allowed)):
        has = ", ".join(allowed) or "no settings"
        raise InvalidValue(where, f"{name} has no {unknown[0]!r}; it has {has}.", unknown[0])
    try:
        return kind(**given)
    except TypeError as error:
        raise InvalidValue(where, f"{name} cannot be made from {', '.join(given) or 'nothing'} ({error}).") from error
    except InvalidInput as error:
        raise InvalidValue(where, str(error), error.setting) from error
