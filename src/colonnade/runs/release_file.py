"""Files of ours: one line that names kind, version and check-sum, then plain data. What is not whole is refused.

Here is also the release, alone in a file or in that of a fit: numbers as they are, to the bit, beside the public facts;
all of it checked when it is read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict as plain_of
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import asdict

from colonnade.data.text_file import read_bytes
from colonnade.errors import InvalidInput
from colonnade.fields import Count, Finite, Length, Positive, Table, must, read
from colonnade.kernels.arrays import Floats
from colonnade.methods.gram.rule import RuleName
from colonnade.model.job import Solving, Sums
from colonnade.privacy.conditions import Condition
from colonnade.privacy.statement import Guarantee, PrivacyStatement, guarantee_under
from colonnade.privacy.store import write_synced
from colonnade.runs.release import Release, ReleasedColumn

# What reading a file that is damaged, or not ours, may end in.
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError)
LARGEST = 1 << 31  # bytes of a file
# saved fits, and the version that is written
FIT = "colonnade fit"
FIT_FORMAT = 1


def write_sealed(path: Path, kind: str, version: int, body: str) -> None:
    digest = hashlib.sha256(body.encode()).hexdigest()
    text = json.dumps({"format": kind, "version": version, "sha256": digest}) + "\n" + body
    write_synced(path, text.encode())


def read_sealed(path: Path, known: Mapping[str, int], what: str, again: str) -> tuple[str, str]:
    """Kind and body of a file; `known`: the kinds that may be, with the latest version of each."""
    raw = read_bytes(path, LARGEST)
    try:
        head, _, body = raw.decode("utf-8").replace("\r\n", "\n").partition("\n")
        header = json.loads(head)
        kind = header["format"]
        version = header.get("version") if kind in known else None
    except DAMAGED as error:
        raise InvalidInput(f"{path} is not {what}, or it is damaged. {again}") from error
    if type(version) is not int or version < 1:
        raise InvalidInput(f"{path} is not {what}, or it is damaged. {again}")
    if version > known[kind]:
        later = f"{path} is of version {version}, of a later Colonnade; this one reads versions up to {known[kind]}"
        raise InvalidInput(f"{later}. Install that one: pip install --upgrade colonnade.")
    if hashlib.sha256(body.encode()).hexdigest() != header.get("sha256"):
        raise InvalidInput(f"{path} is damaged: its content does not match its check-sum. Restore it from a copy.")
    return kind, body


# ------------------------------------------------------------------------------------------------ a statement


class StatementTable(Table, frozen=True):
    """The statement of a run, in figures and facts."""

    epsilon: Annotated[float, must("a number from 0 on", ge=0.0)] | Count
    delta: (
        Annotated[float, must("a number from 0 on, below 1", ge=0.0, lt=1.0)] | Annotated[int, msgspec.Meta(ge=0, lt=1)]
    )
    unit: str
    neighbours: str
    trust: str
    accountant: str
    guarantee: str
    derivation: str
    sees: str
    conditions: list[dict[str, Any]]
    rho: Length | None = None
    taken: Length = 0.0

    def __post_init__(self) -> None:
        try:
            rests = guarantee_under([Condition.from_plain(one) for one in self.conditions])
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput("has a condition that this version does not know") from error
        if any(one.keys() != {"code", "figures"} for one in self.conditions):
            raise InvalidInput("has a condition with more than its code and figures")
        if self.guarantee in (Guarantee.PROVEN, Guarantee.CONDITIONAL) and self.guarantee != rests:
            raise InvalidInput("has a guarantee that its conditions do not bear out")
        if self.delta == 0.0 and self.epsilon != math.inf:
            raise InvalidInput("has an epsilon, and a delta of 0")
        if self.taken > self.delta:
            raise InvalidInput("has releases that took more than its delta")


# ------------------------------------------------------------------------------------------------ a release


KIND = "colonnade release"
FORMAT = 1
AGAIN = "Save the release again, or restore a copy."


class NoiseTable(Table, frozen=True):
    """The sd of every entry: the few there are, and for each entry which it is."""

    levels: bytes
    codes: bytes


class SumsTable(Table, frozen=True):
    """Class sums; arrays are numbers of eight bytes."""

    positive: bytes
    negative: bytes
    count: Finite
    half_squares: bytes
    noise: bytes
    count_noise: Length
    square_noise: bytes


class SolvingTable(Table, frozen=True):
    """What a release was solved with beside itself."""

    ridge: Length
    doubt: bytes
    sums: SumsTable | None
    choose: bool
    select: bool


class ReleaseTable(Table, frozen=True):
    """A release as it is written."""

    matrix: bytes
    noise: NoiseTable
    rows: Count
    columns: list[dict[str, Any]]
    label: dict[str, Any]
    reach: Positive
    rule: RuleName
    cross: str
    centre: bytes
    scale: bytes
    norms: Annotated[dict[str, Length], must("lengths from 0 on, by party")]
    proven: bool
    step: Positive
    cut: bool
    unit_rows: Count
    penalised: bool
    statement: StatementTable
    run: str
    sums: SumsTable | None
    solving: SolvingTable | None


def write_release(release: Release, path: Path) -> None:
    write_sealed(path, KIND, FORMAT, json.dumps(to_plain(release), indent=1))


def read_release(path: Path) -> Release:
    """The release of a file that `write_release` wrote, or of a saved fit."""
    kind, body = read_sealed(path, {KIND: FORMAT, FIT: FIT_FORMAT}, "a saved release or fit", AGAIN)
    try:
        raw = json.loads(body)
        raw = raw if kind == KIND else raw.get("release")
        if raw is not None:
            return from_plain(raw)
    except DAMAGED as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        raise InvalidInput(f"{path} holds no whole release{why}. {AGAIN}") from error
    raise InvalidInput(f"{path} is a saved fit without a release: fits of co.PrivateGram alone have one.")


def to_plain(release: Release) -> dict[str, Any]:
    """The fields as JSON has them."""
    levels, codes = np.unique(release.noise[_upper(release.noise)], return_inverse=True)
    return {
        **{one.name: getattr(release, one.name) for one in fields(Release)},
        "matrix": _text(release.matrix[_upper(release.matrix)]),
        # Few different sds: each once, and for every entry which it is.
        "noise": {"levels": _text(levels), "codes": _text(codes.astype(np.uint32), "<u4")},
        "columns": [plain_of(column) for column in release.columns],
        "label": plain_of(release.label),
        "centre": _text(release.centre),
        "scale": _text(release.scale),
        "norms": dict(release.norms),
        "statement": release.statement.to_plain(),
        "sums": None if release.sums is None else _plain_sums(release.sums),
        "solving": None if release.solving is None else _plain_solving(release.solving),
    }


def from_plain(raw: Any) -> Release:
    """The inverse of `to_plain`; InvalidInput, or what damaged data end in, where a field is not of its kind."""
    said: ReleaseTable = read(raw, ReleaseTable)
    size = len(said.columns) + 2
    levels = _numbers(said.noise.levels)
    codes = _numbers(said.noise.codes, "<u4").astype(np.int64)
    made = Release(
        **{
            **asdict(said),
            "columns": tuple(read(one, ReleasedColumn, f"columns[{k}]") for k, one in enumerate(said.columns)),
            "label": read(said.label, ReleasedColumn, "label"),
            "matrix": _symmetric(_numbers(said.matrix), size),
            "noise": _symmetric(levels[codes], size),
            "centre": _numbers(said.centre),
            "scale": _numbers(said.scale),
            "statement": PrivacyStatement.from_plain(raw["statement"]),
            "sums": _sums(said.sums, len(said.columns)),
            "solving": _solving(said.solving, len(said.columns)),
        }
    )
    _check(made)
    return made


def _check(release: Release) -> None:
    """Whatever a file holds, what comes of it can be shown and used."""
    size = len(release.columns)
    finite = all(np.isfinite(a).all() for a in (release.matrix, release.noise, release.centre, release.scale))
    wrong = {
        "'matrix', 'noise', 'centre' or 'scale' is not finite": not finite,
        "'noise' is negative": bool((release.noise < 0.0).any()),
        "'scale' is not above 0": bool((release.scale <= 0.0).any()),
        "'centre' or 'scale' has another length than 'columns'": {release.centre.size, release.scale.size} != {size},
        "'rows' and the matrix disagree": not math.isclose(release.matrix[size, size], release.rows, rel_tol=1e-9),
    }
    for what, found in wrong.items():
        if found:
            raise InvalidInput(what)


def _plain_sums(sums: Sums) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, np.ndarray) else value for name, value in vars(sums).items()}


def _sums(said: SumsTable | None, size: int) -> Sums | None:
    if said is None:
        return None
    made = Sums(
        **{name: _numbers(value) if isinstance(value, bytes) else value for name, value in asdict(said).items()}
    )
    arrays = (made.positive, made.negative, made.half_squares, made.noise, made.square_noise)
    if not all(a.shape == (size,) and np.isfinite(a).all() for a in arrays):
        raise InvalidInput("'sums' has another length than 'columns', or is not finite")
    if min(made.noise.min(initial=0.0), made.square_noise.min(initial=0.0)) < 0.0:
        raise InvalidInput("'sums' has noise that is negative")
    return made


def _plain_solving(solving: Solving) -> dict[str, Any]:
    sums = None if solving.sums is None else _plain_sums(solving.sums)
    return {**vars(solving), "doubt": _text(solving.doubt), "sums": sums}


def _solving(said: SolvingTable | None, size: int) -> Solving | None:
    if said is None:
        return None
    made = Solving(**{**asdict(said), "doubt": _numbers(said.doubt), "sums": _sums(said.sums, size)})
    if made.doubt.shape != (size,) or not (made.doubt >= 0.0).all():  # inf: not centred
        raise InvalidInput("'doubt' of 'solving' has another length than 'columns', or is negative")
    return made


def _upper(matrix: Floats) -> Any:
    return np.triu_indices(len(matrix))


def _symmetric(values: Floats, size: int) -> Floats:
    if values.size != size * (size + 1) // 2:
        raise InvalidInput(f"a matrix has {values.size:,} entries for {size - 2:,} columns")
    out = np.zeros((size, size))
    out[np.triu_indices(size)] = values
    return out + np.triu(out, 1).T


def _text(values: Any, kind: str = "<f8") -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _numbers(body: bytes, kind: str = "<f8") -> Any:
    return np.frombuffer(body, dtype=kind).copy()
