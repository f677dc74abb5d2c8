"""What stands in a saved fit: a rule for every field, checked as plain JSON before anything is made of it.

A file may have been cut, edited or made by somebody else. Whatever it holds, `co.load` gives a fit that can be shown
and used, or one error that names the field; sizes are bounded by the file's own length, so a small file cannot ask for
memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from colonnade.errors import InvalidInput
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem.link import Link

LARGEST = 1 << 31  # bytes of a file
_DENSE = 256  # numbers that a byte of the file may stand for: coefficients are written sparse
_WHOLE = 2**53


class _Rules:
    """The rules, for a file of so many bytes."""

    def __init__(self, size: int) -> None:
        self.most = _DENSE * size
        self.fields: dict[str, Callable[[Any], bool]] = {
            "coefficients": self.vectors(finite),
            "elsewhere": texts,
            "intercept": finite,
            "objective": maybe(number),
            "gap": maybe(number),
            "status": text,
            "privacy": statement,
            "communication": lines,
            "numbers": listed(whole),
            "problem": table,
            "method": text,
            "run": text,
            "seconds": maybe(finite),
            "label": text,
            "notes": listed(note),
            "features": tabled(texts),
            "schemas": tabled(maybe(text)),
            "on": maybe(text),
            "errors": maybe(self.vectors(number)),
            "path": maybe(path),
            "link": maybe(lambda raw: listed(finite)(raw) and 2 <= len(raw) <= len(Link._fields)),
            "remarks": texts,
            "facts": facts,
            "by_rows": flag,
            "model": maybe(self.model),
        }

    def vectors(self, entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
        return tabled(lambda raw: self.vector(raw, entry))

    def vector(self, raw: Any, entry: Callable[[Any], bool]) -> bool:
        if not (isinstance(raw, dict) and whole(raw.get("size")) and raw["size"] <= self.most):
            return False
        places, values, shape = raw.get("places", ()), raw.get("values", ()), raw.get("shape", [raw["size"]])
        return (
            listed(whole)(places)
            and listed(entry)(values)
            and listed(whole)(shape)
            and len(places) == len(values)
            and math.prod(shape) == raw["size"]
            and all(place < raw["size"] for place in places)
        )

    def model(self, raw: Any) -> bool:
        if not isinstance(raw, dict):
            return False
        if "points" not in raw:
            return tabled(stumps)(raw)
        points, size = raw["points"], raw.get("size", -1)
        return (
            isinstance(points, list)
            and whole(size)
            and size * len(points) <= self.most
            and all(self.vector(row, finite) and row["size"] == size for row in points)
            and flag(raw.get("sparse"))
            and all(listed(finite)(raw.get(name)) and len(raw[name]) == len(points) for name in ("labels", "weights"))
        )


def number(raw: Any) -> bool:
    return type(raw) is float or (type(raw) is int and abs(raw) <= _WHOLE)


def finite(raw: Any) -> bool:
    return number(raw) and math.isfinite(raw)


def whole(raw: Any) -> bool:
    return type(raw) is int and 0 <= raw <= _WHOLE


def text(raw: Any) -> bool:
    return isinstance(raw, str)


def flag(raw: Any) -> bool:
    return isinstance(raw, bool)


def table(raw: Any) -> bool:
    return isinstance(raw, dict)


def maybe(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda raw: raw is None or rule(raw)


def listed(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda raw: isinstance(raw, list | tuple) and all(map(rule, raw))


def tabled(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda raw: isinstance(raw, dict) and all(map(rule, raw.values()))


texts = listed(text)


def note(raw: Any) -> bool:
    """A row of the history: numbers and words; its round counts."""
    plain = tabled(lambda value: value is None or isinstance(value, str | bool) or number(value))
    return plain(raw) and whole(raw.get("round", 0)) and maybe(number)(raw.get("gap"))


def lines(raw: Any) -> bool:
    """Sender, receiver and kind; round, messages and bytes."""
    return listed(
        lambda line: isinstance(line, list) and len(line) == 6 and texts(line[:3]) and listed(whole)(line[3:])
    )(raw)


def path(raw: Any) -> bool:
    """Weights, and by party one row of coefficients for each."""
    if not (isinstance(raw, list) and len(raw) == 2 and listed(finite)(raw[0]) and isinstance(raw[1], dict)):
        return False
    return all(listed(listed(finite))(rows) and _rectangle(rows, len(raw[0])) for rows in raw[1].values())


def _rectangle(rows: list[list[float]], height: int) -> bool:
    return len(rows) == height and len({len(row) for row in rows}) <= 1


def stumps(raw: Any) -> bool:
    if not (isinstance(raw, dict) and listed(whole)(raw.get("columns"))):
        return False
    rest = [raw.get(name) for name in ("thresholds", "signs", "weights")]
    return all(listed(number)(values) and len(values or ()) == len(raw["columns"]) for values in rest)


def facts(raw: Any) -> bool:
    """What everybody knew before the run."""
    rules = {"rows": whole, "brought": tabled(whole), "policies": tabled(text), "settings": text, "fingerprint": text}
    return isinstance(raw, dict) and all(rules.get(name, _plain)(value) for name, value in raw.items())


def _plain(raw: Any) -> bool:
    return (
        raw is None
        or isinstance(raw, str | bool)
        or number(raw)
        or tabled(lambda v: text(v) or number(v))(raw)
        or texts(raw)
    )


def statement(raw: Any) -> bool:
    kinds: dict[str, Callable[[Any], bool]] = {
        "float": number,
        "str": text,
        "bool": flag,
        "int": whole,
        "float | None": lambda v: v is None or (finite(v) and v >= 0.0),
    }
    known = {one.name: kinds.get(str(one.type), _plain) for one in fields(PrivacyStatement)}
    if not (isinstance(raw, dict) and all(name in known and known[name](value) for name, value in raw.items())):
        return False
    epsilon, delta = raw.get("epsilon", -1.0), raw.get("delta", -1.0)
    return bool(0.0 <= delta < 1.0 and (epsilon == math.inf or (epsilon >= 0.0 and delta > 0.0)))


def check(raw: Any, size: int) -> None:
    """Refuse a saved fit, of a file of so many bytes, with a field that is missing or not of its kind."""
    if not isinstance(raw, Mapping):
        raise InvalidInput("it holds no table of fields")
    for name, rule in _Rules(size).fields.items():
        if name not in raw:
            raise InvalidInput(f"{name!r} is missing")
        if not rule(raw[name]):
            raise InvalidInput(f"{name!r} is not of its kind, is not finite, or is too large for the file")
    _check_together(raw)


def _check_together(raw: Mapping[str, Any]) -> None:
    """What several fields say of the same must agree."""
    held, features = raw["coefficients"], raw["features"]
    parties = {*held, *raw["elsewhere"]}
    if (
        parties != features.keys()
        or not raw["schemas"].keys() <= parties
        or len(parties) != len(held) + len(raw["elsewhere"])
    ):
        raise InvalidInput("'coefficients', 'elsewhere', 'features' and 'schemas' name different parties")
    for party, vector in held.items():
        if vector.get("shape", [vector["size"]])[0] != len(features[party]):
            raise InvalidInput(f"'coefficients' and 'features' of {party!r} differ in length")
    errors = {party: [vector["size"]] for party, vector in raw["errors"].items()} if raw["errors"] is not None else None
    path = (
        {party: [len(row) for row in rows] for party, rows in raw["path"][1].items()}
        if raw["path"] is not None
        else None
    )
    for name, found in (("errors", errors), ("path", path)):
        if found is not None and not held.keys() <= found.keys() <= parties:
            raise InvalidInput(f"{name!r} and 'coefficients' name different parties")
        for party, sizes in (found or {}).items():
            if party in held and any(size != held[party]["size"] for size in sizes):
                raise InvalidInput(f"{name!r} and 'coefficients' of {party!r} differ in length")
    if raw["numbers"] and len(raw["numbers"]) != len(raw["communication"]):
        raise InvalidInput("'numbers' and 'communication' differ in length")
    model = raw["model"]
    if model is not None and "points" not in model:
        for party, part in model.items():
            if party not in features or any(column >= len(features[party]) for column in part["columns"]):
                raise InvalidInput(f"'model' names columns that {party!r} does not have")
