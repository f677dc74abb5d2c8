"""A saved fit: its fields as plain JSON, and a rule for each of them, checked before anything is made of it.

A file may have been cut, edited or made by somebody else. Whatever it holds, `co.load` gives a fit that can be shown
and used, or one error that names the field; sizes are bounded by the file's own length, so a small file cannot ask for
memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from colonnade import problem as problems
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.model.answer import Status
from colonnade.model.coefficients import CoefficientPath, Coefficients
from colonnade.model.facts import FitFacts
from colonnade.privacy.events import KINDS
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem.boosting import Stumps
from colonnade.problem.kernel import Support
from colonnade.problem.link import Link
from colonnade.runs import release_file
from colonnade.runs.release_file import (
    DAMAGED,
    FIT,
    FIT_FORMAT,
    Rule,
    finite,
    flag,
    known,
    listed,
    maybe,
    noise,
    number,
    plain,
    read_sealed,
    statement,
    table,
    tabled,
    text,
    texts,
    whole,
    write_sealed,
)
from colonnade.runtime.wire import Communication

_DENSE = 256  # numbers that a byte of the file may stand for: coefficients are written sparse
# Graphs are no part of a problem, and a small file could ask for a large one.
_PARTS = {name: getattr(problems, name) for name in problems.__all__ if name not in ("Topology", "Changing")}
_VALUES: dict[str, Any] = {name: value for name, value in _PARTS.items() if is_dataclass(value)}


# ------------------------------------------------------------------------------------------------ writing and reading


def write_fit(fit: FitFacts, path: Path) -> None:
    # In the order of the fit: scores are summed party by party.
    write_sealed(path, FIT, FIT_FORMAT, json.dumps(to_plain(fit), indent=1))


def read_fit(path: Path) -> dict[str, Any]:
    """The fields of a fit that `write_fit` wrote, and its release."""
    again = "Save the fit again, or restore a copy."
    _, body = read_sealed(path, {FIT: FIT_FORMAT}, "a saved fit", again)
    try:
        raw = json.loads(body)
        _check(raw, path.stat().st_size)
        return _from_plain(raw)
    except DAMAGED as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        raise InvalidInput(f"{path} is not a whole saved fit{why}. {again}") from error


def to_plain(fit: FitFacts) -> dict[str, Any]:
    """The fields as JSON has them; those that are not named here are as they are."""
    known = fit.coefficients.local
    elsewhere = fit.coefficients.elsewhere
    return {
        **{field.name: getattr(fit, field.name) for field in fields(FitFacts)},
        "coefficients": {party: _sparse(x) for party, x in known.items()},
        "elsewhere": list(elsewhere),
        "status": fit.status.name,
        "privacy": fit.privacy.to_plain(),
        "communication": fit.communication.lines,
        "numbers": fit.communication.numbers,
        "problem": _value(fit.problem),
        "notes": list(fit.notes),
        "features": {party: list(names) for party, names in fit.features.items()},
        "schemas": {party: schema and schema.to_text() for party, schema in fit.schemas.items()},
        "spread": fit.spread and {party: _sparse(x) for party, x in fit.spread.items()},
        "path": fit.path and [fit.path.weights.tolist(), _lists(fit.path.coefficients)],
        "facts": dict(fit.facts),
        "beside": dict(fit.beside),
        "model": _model(fit.model),
        "release": None if (release := getattr(fit, "released", None)) is None else release_file.to_plain(release),
    }


def _from_plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    sent = Communication(tuple(map(tuple, raw["communication"])), tuple(raw["numbers"]))
    return {
        **{field.name: raw[field.name] for field in fields(FitFacts)},
        "coefficients": Coefficients(
            {party: _dense(x) for party, x in raw["coefficients"].items()}, raw["elsewhere"], raw["features"]
        ),
        "status": Status[raw["status"]],
        "privacy": PrivacyStatement.from_plain(raw["privacy"]),
        "communication": sent.along(raw["notes"], raw["gap"]),
        "problem": _problem(raw["problem"]),
        "notes": tuple(raw["notes"]),
        "schemas": {party: text and Schema.from_text(text) for party, text in raw["schemas"].items()},
        "spread": raw["spread"] and {party: _dense(x) for party, x in raw["spread"].items()},
        "path": raw["path"] and CoefficientPath(np.array(raw["path"][0]), _arrays(raw["path"][1])),
        "link": raw["link"] and Link(*raw["link"]),
        "remarks": tuple(raw["remarks"]),
        "model": _from_model(raw["model"]),
        "released": None if raw["release"] is None else release_file.from_plain(raw["release"]),
    }


def _problem(raw: Mapping[str, Any]) -> Any:
    problem = _from_value(raw)
    loss = getattr(problem, "loss", None)
    if not isinstance(problem, problems.Problem | problems.KernelSVM | problems.AdaBoost) or not hasattr(
        loss, "classifies"
    ):
        raise InvalidInput("'problem' is none that this version knows")
    return problem


def _model(model: Support | Mapping[str, Stumps] | None) -> Any:
    if model is None:
        return None
    if isinstance(model, Support):
        rows = model.points.toarray() if sparse.issparse(model.points) else model.points
        return {
            "points": [_sparse(row) for row in rows],
            "size": rows.shape[1],
            "sparse": sparse.issparse(model.points),
            **_lists({"labels": model.labels, "weights": model.weights}),
        }
    return {party: _lists(vars(stumps)) for party, stumps in model.items()}


def _from_model(raw: Any) -> Support | dict[str, Stumps] | None:
    if raw is None:
        return None
    if "points" in raw:
        rows = np.array([_dense(row) for row in raw["points"]]).reshape(-1, raw["size"])
        points = sparse.csr_array(rows) if raw["sparse"] else rows
        return Support(points, np.array(raw["labels"]), np.array(raw["weights"]))
    rest = ("thresholds", "signs", "weights")
    return {p: Stumps(np.array(s["columns"], np.int64), *(np.array(s[k]) for k in rest)) for p, s in raw.items()}


def _sparse(x: Floats) -> dict[str, Any]:
    places = np.flatnonzero(x)
    shape = {"shape": list(x.shape)} if x.ndim > 1 else {}
    return {"size": x.size, "places": places.tolist(), "values": x.reshape(-1)[places].tolist(), **shape}


def _lists(arrays: Mapping[str, Floats]) -> dict[str, Any]:
    return {party: array.tolist() for party, array in arrays.items()}


def _arrays(lists: Mapping[str, Any]) -> dict[str, Floats]:
    return {party: np.array(values) for party, values in lists.items()}


def _dense(raw: Mapping[str, Any]) -> Floats:
    x = np.zeros(raw["size"])
    x[raw["places"]] = raw["values"]
    return x.reshape(raw.get("shape", [raw["size"]]))


def _value(value: Any) -> Any:
    """A frozen value of problem/ as plain data; its type must be one that `_from_value` knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **{f.name: _value(getattr(value, f.name)) for f in fields(value)}}
    return [_value(item) for item in value] if isinstance(value, tuple) else value


def _from_value(raw: Any) -> Any:
    if isinstance(raw, dict):
        return _VALUES[raw["type"]](**{name: _from_value(item) for name, item in raw.items() if name != "type"})
    return tuple(_from_value(item) for item in raw) if isinstance(raw, list) else raw


# ------------------------------------------------------------------------------------------------ the rules


class _Rules:
    """The rules, for a file of so many bytes."""

    def __init__(self, size: int) -> None:
        self.most = _DENSE * size
        self.fields: dict[str, Rule] = {
            "coefficients": self.vectors(finite),
            "elsewhere": texts,
            "intercept": finite,
            "objective": maybe(known),
            "gap": maybe(known),
            "status": text,
            "privacy": statement,
            "communication": listed(line),
            "numbers": listed(whole),
            "problem": table,
            "method": text,
            "run": text,
            "seconds": maybe(lambda raw: finite(raw) and raw >= 0.0),
            "label": text,
            "notes": listed(note),
            "features": tabled(texts),
            "schemas": tabled(maybe(text)),
            "on": maybe(text),
            "spread": maybe(self.vectors(noise)),
            "release": maybe(table),
            "path": maybe(path),
            "link": maybe(lambda raw: listed(finite)(raw) and 2 <= len(raw) <= len(Link._fields)),
            "remarks": texts,
            "facts": facts,
            "by_rows": flag,
            "beside": tabled(text),
            "model": maybe(self.model),
        }

    def vectors(self, entry: Rule) -> Rule:
        return tabled(lambda raw: self.vector(raw, entry))

    def vector(self, raw: Any, entry: Rule) -> bool:
        if not (isinstance(raw, dict) and whole(raw.get("size")) and raw["size"] <= self.most):
            return False
        places = raw.get("places", ())
        values = raw.get("values", ())
        shape = raw.get("shape", [raw["size"]])
        if not (listed(whole)(places) and listed(entry)(values) and listed(whole)(shape)):
            return False
        within = all(place < raw["size"] for place in places)
        return within and len(places) == len(values) and math.prod(shape) == raw["size"]

    def model(self, raw: Any) -> bool:
        if not isinstance(raw, dict):
            return False
        if "points" not in raw:
            return tabled(stumps)(raw)
        points = raw["points"]
        size = raw.get("size", -1)
        return (
            isinstance(points, list)
            and whole(size)
            and size * len(points) <= self.most
            and all(self.vector(row, finite) and row["size"] == size for row in points)
            and flag(raw.get("sparse"))
            and all(listed(finite)(raw.get(name)) and len(raw[name]) == len(points) for name in ("labels", "weights"))
        )


def note(raw: Any) -> bool:
    """A row of the history: numbers and words; its round counts."""
    plain = tabled(lambda value: value is None or isinstance(value, str | bool) or number(value))
    return plain(raw) and whole(raw.get("round", 0)) and maybe(number)(raw.get("gap"))


def line(raw: Any) -> bool:
    """Sender, receiver and kind; round, messages and bytes."""
    return isinstance(raw, list) and len(raw) == 6 and texts(raw[:3]) and listed(whole)(raw[3:])


def path(raw: Any) -> bool:
    """Weights, and by party one row of coefficients for each."""
    if not (isinstance(raw, list) and len(raw) == 2 and listed(finite)(raw[0]) and isinstance(raw[1], dict)):
        return False
    by_weight = listed(listed(finite))
    height = len(raw[0])
    return all(by_weight(m) and len(m) == height and len({len(row) for row in m}) <= 1 for m in raw[1].values())


def stumps(raw: Any) -> bool:
    if not (isinstance(raw, dict) and listed(whole)(raw.get("columns"))):
        return False
    rules = {"thresholds": known, "signs": finite, "weights": finite}
    return all(listed(rule)(raw.get(name)) and len(raw[name]) == len(raw["columns"]) for name, rule in rules.items())


def left(raw: Any) -> bool:
    """One line of what a plan let leave: by whom, how it looked, what it was, how often at most."""
    kinds = isinstance(raw, list) and len(raw) == 4 and raw[1] in KINDS
    return kinds and text(raw[0]) and text(raw[2]) and whole(raw[3])


def facts(raw: Any) -> bool:
    """What everybody knew before the run."""
    name: Rule = lambda raw: text(raw) or flag(raw) or finite(raw)  # noqa: E731
    pair: Rule = lambda raw: listed(name)(raw) and len(raw) == 2  # noqa: E731
    rules = {
        "rows": whole,
        "brought": tabled(whole),
        "policies": tabled(text),
        "settings": text,
        "code": text,
        "protocol": text,
    }
    rules |= {"classes": pair, "asked": text, "left": listed(left), "approved": text}
    rules |= {"code": text, "federation": text, "keys": tabled(text), "absent": tabled(text)}
    return isinstance(raw, dict) and all(rules.get(name, plain)(value) for name, value in raw.items())


def _check(raw: Any, size: int) -> None:
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
    held = raw["coefficients"]
    features = raw["features"]
    parties = {*held, *raw["elsewhere"]}
    twice = len(parties) != len(held) + len(raw["elsewhere"])
    if twice or parties != features.keys() or not raw["schemas"].keys() <= parties:
        raise InvalidInput("'coefficients', 'elsewhere', 'features' and 'schemas' name different parties")
    for party, vector in held.items():
        if vector.get("shape", [vector["size"]])[0] != len(features[party]):
            raise InvalidInput(f"'coefficients' and 'features' of {party!r} differ in length")
    sizes_of: dict[str, dict[str, list[int]]] = {}
    if raw["spread"] is not None:
        sizes_of["spread"] = {party: [vector["size"]] for party, vector in raw["spread"].items()}
    if raw["path"] is not None:
        sizes_of["path"] = {party: [len(row) for row in rows] for party, rows in raw["path"][1].items()}
    for name, found in sizes_of.items():
        if not held.keys() <= found.keys() <= parties:
            raise InvalidInput(f"{name!r} and 'coefficients' name different parties")
        for party, sizes in found.items():
            if party in held and any(size != held[party]["size"] for size in sizes):
                raise InvalidInput(f"{name!r} and 'coefficients' of {party!r} differ in length")
    if raw["numbers"] and len(raw["numbers"]) != len(raw["communication"]):
        raise InvalidInput("'numbers' and 'communication' differ in length")
    stumps = raw["model"] if raw["model"] is not None and "points" not in raw["model"] else {}
    for party, part in stumps.items():
        if party not in features or any(column >= len(features[party]) for column in part["columns"]):
            raise InvalidInput(f"'model' names columns that {party!r} does not have")
