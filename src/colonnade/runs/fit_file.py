"""A saved fit: its fields as plain JSON, and what each of them must be, checked before anything is made of it.

A file may have been cut, edited or made by somebody else. Whatever it holds, `co.load` gives a fit that can be shown
and used, or one error that names the field; sizes are bounded by the file's own length, so a small file cannot ask for
memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from scipy import sparse

from colonnade import problem as problems
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput
from colonnade.fields import LARGEST_WHOLE, Count, Finite, Length, Number, Table, Wrong, must, read, within
from colonnade.kernels.arrays import Floats
from colonnade.methods.node_setup import known_values
from colonnade.methods.node_setup import to_plain as value_to_plain
from colonnade.model.facts import CoefficientPath, Coefficients, FitFacts, RunFacts
from colonnade.model.job import Status
from colonnade.privacy.statement import PrivacyStatement
from colonnade.problem.boosting import Stumps
from colonnade.problem.kernel import Support
from colonnade.problem.link import Link
from colonnade.runs import release_file
from colonnade.runs.release_file import DAMAGED, FIT, FIT_FORMAT, StatementTable, read_sealed, write_sealed
from colonnade.runtime.wire import Communication

_DENSE = 256  # numbers that a byte of the file may stand for: coefficients are written sparse


# ------------------------------------------------------------------------------------------------ writing and reading


def write_fit(fit: FitFacts, path: Path) -> None:
    for schema in fit.schemas.values():
        if isinstance(schema, Schema):
            schema.check_readable()
    # In the order of the fit: scores are summed party by party.
    write_sealed(path, FIT, FIT_FORMAT, json.dumps(to_plain(fit), indent=1))


def read_fit(path: Path) -> dict[str, Any]:
    """The fields of a fit that `write_fit` wrote, and its release."""
    again = "Save the fit again, or restore a copy."
    _, body = read_sealed(path, {FIT: FIT_FORMAT}, "a saved fit", again)
    try:
        raw = json.loads(body)
        check_fit(raw, path.stat().st_size)
        return _from_plain(raw)
    except DAMAGED as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        raise InvalidInput(f"{path} is not a whole saved fit{why}. {again}") from error


def to_plain(fit: FitFacts) -> dict[str, Any]:
    """The fields as JSON has them; those that are not named here are as they are."""
    held = fit.coefficients.local
    elsewhere = fit.coefficients.elsewhere
    return {
        **{field.name: getattr(fit, field.name) for field in fields(FitFacts)},
        "coefficients": {party: _sparse(x) for party, x in held.items()},
        "elsewhere": list(elsewhere),
        "status": fit.status.name,
        "privacy": fit.privacy.to_plain(),
        "communication": fit.communication.lines,
        "numbers": fit.communication.numbers,
        "problem": value_to_plain(fit.problem),
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


@cache
def _known() -> dict[str, Any]:
    """What a saved problem is made of. Graphs are no part of one, and a small file could ask for a large one."""
    parts = {name: kind for name, kind in known_values().items() if kind.__module__.startswith("colonnade.problem.")}
    return {name: kind for name, kind in parts.items() if name not in ("Topology", "Changing")}


def _from_value(raw: Any) -> Any:
    if isinstance(raw, dict):
        return _known()[raw["type"]](**{name: _from_value(item) for name, item in raw.items() if name != "type"})
    return tuple(_from_value(item) for item in raw) if isinstance(raw, list) else raw


# ------------------------------------------------------------------------------------------------ the fields


class VectorTable(Table, frozen=True):
    """Numbers, of which all that are not 0 are written."""

    size: Count
    places: list[Count]
    values: list[Finite]
    shape: Annotated[list[Count], msgspec.Meta(min_length=1)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        within = all(place < self.size for place in self.places)
        if not (within and len(self.places) == len(self.values)):
            raise InvalidInput("has places or values that do not fit its size")
        if self.shape is not UNSET and math.prod(self.shape) != self.size:
            raise InvalidInput("has a shape that does not fit its size")


class SpreadTable(VectorTable, frozen=True):
    """Standard errors: inf where nothing is known."""

    values: list[Annotated[float, must("a number from 0 on", ge=0.0)] | Count]


class StumpsTable(Table, frozen=True):
    """A party's part of a boosted model."""

    columns: list[Count]
    thresholds: list[Number]
    signs: list[Finite]
    weights: list[Finite]

    def __post_init__(self) -> None:
        if {len(self.thresholds), len(self.signs), len(self.weights)} != {len(self.columns)}:
            raise InvalidInput("has lists of different lengths")
        # -inf: a stump that says the same of every row.
        if any(map(math.isnan, self.thresholds)):
            raise InvalidInput("has a threshold that is nan")


class SupportTable(Table, frozen=True):
    """The rows that a kernel machine keeps, with their labels and weights."""

    points: list[VectorTable]
    size: Count
    sparse: bool
    labels: list[Finite]
    weights: list[Finite]

    def __post_init__(self) -> None:
        if {len(self.labels), len(self.weights)} != {len(self.points)}:
            raise InvalidInput("has lists of different lengths")


class FitTable(Table, frozen=True):
    """A saved fit as it is written."""

    coefficients: dict[str, VectorTable]
    elsewhere: list[str]
    intercept: Finite
    objective: Number | None
    gap: Number | None
    status: str
    privacy: StatementTable
    communication: Annotated[
        list[tuple[str, str, str, Count, Count, Count]],
        must("lists of sender, receiver and kind, round, messages and bytes"),
    ]
    numbers: list[Count]
    problem: dict[str, Any]
    method: str
    run: str
    seconds: Length | None
    label: str
    notes: list[
        dict[str, str | bool | Annotated[int, msgspec.Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)] | float | None]
    ]
    features: dict[str, list[str]]
    schemas: dict[str, str | None]
    on: str | None
    spread: dict[str, SpreadTable] | None
    release: dict[str, Any] | None
    path: (
        Annotated[
            tuple[list[Finite], dict[str, list[list[Finite]]]], must("weights, and by party a row of numbers for each")
        ]
        | None
    )
    link: (
        Annotated[list[Finite], must("a list of 2 to 7 finite numbers", min_length=2, max_length=len(Link._fields))]
        | None
    )
    remarks: list[str]
    facts: dict[str, Any]
    by_rows: bool
    beside: dict[str, str]
    model: dict[str, Any] | None


def check_fit(raw: Any, size: int) -> None:
    """Refuse a saved fit, in a file of so many bytes, with a field that is not what it must be."""
    fit: FitTable = read(raw, FitTable)
    for place, note in enumerate(fit.notes):
        read(note.get("round", 0), Count, f"notes[{place}].round")
        read(note.get("gap"), Number | None, f"notes[{place}].gap")
    for name, figure in (("objective", fit.objective), ("gap", fit.gap)):
        if figure is not None and math.isnan(figure):
            raise Wrong(name, "is nan, with which every comparison is false")
    for name, vectors in (("coefficients", fit.coefficients), ("spread", fit.spread or {})):
        for party, vector in vectors.items():
            _check_size(within(name, party), vector.size, size)
    if fit.path is not None and not all(_fits(rows, len(fit.path[0])) for rows in fit.path[1].values()):
        raise Wrong("path", "has a row too many, too few, or of another length")
    read(fit.facts, RunFacts, "facts")
    if fit.numbers and len(fit.numbers) != len(fit.communication):
        raise InvalidInput("'numbers' and 'communication' differ in length")
    _check_parties(fit)
    if fit.model is not None:
        _check_model(fit.model, fit.features, size)


def _check_size(place: str, entries: int, size: int) -> None:
    if entries > _DENSE * size:
        raise Wrong(place, f"is too large for the file: {entries:,} numbers")


def _fits(rows: list[list[float]], height: int) -> bool:
    """Whether a path has a row for each weight, all of one length."""
    return len(rows) == height and len({len(row) for row in rows}) <= 1


def _check_parties(fit: FitTable) -> None:
    """What several fields say of the same parties must agree."""
    held = fit.coefficients
    features = fit.features
    parties = {*held, *fit.elsewhere}
    twice = len(parties) != len(held) + len(fit.elsewhere)
    if twice or parties != features.keys() or not fit.schemas.keys() <= parties:
        raise InvalidInput("'coefficients', 'elsewhere', 'features' and 'schemas' name different parties")
    for party, vector in held.items():
        if (vector.shape or [vector.size])[0] != len(features[party]):
            raise InvalidInput(f"'coefficients' and 'features' of {party!r} differ in length")
    sizes_of: dict[str, dict[str, list[int]]] = {}
    if fit.spread is not None:
        sizes_of["spread"] = {party: [vector.size] for party, vector in fit.spread.items()}
    if fit.path is not None:
        sizes_of["path"] = {party: [len(row) for row in rows] for party, rows in fit.path[1].items()}
    for name, found in sizes_of.items():
        if not held.keys() <= found.keys() <= parties:
            raise InvalidInput(f"{name!r} and 'coefficients' name different parties")
        for party, sizes in found.items():
            if party in held and any(size != held[party].size for size in sizes):
                raise InvalidInput(f"{name!r} and 'coefficients' of {party!r} differ in length")


def _check_model(raw: Mapping[str, Any], features: Mapping[str, list[str]], size: int) -> None:
    if "points" in raw:
        kept: SupportTable = read(raw, SupportTable, "model")
        _check_size("model", kept.size * max(1, len(kept.points)), size)
        if any(row.size != kept.size for row in kept.points):
            raise Wrong("model", "has rows of different lengths")
        return
    parts: dict[str, StumpsTable] = read(raw, dict[str, StumpsTable], "model")
    for party, part in parts.items():
        if party not in features or any(column >= len(features[party]) for column in part.columns):
            raise InvalidInput(f"'model' names columns that {party!r} does not have")
