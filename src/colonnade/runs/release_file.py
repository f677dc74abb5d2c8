"""Files of ours: one line that names kind, version and check-sum, then plain data. What is not whole is refused.

A rule says whether a piece of plain data is of its kind. Here is also the release, alone in a file or in that of a fit:
numbers as they are, to the bit, beside the public facts; all of it checked when it is read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.data.text_file import read_bytes
from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.model.release import Solving, Sums
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
_WHOLE = 2**53
Rule = Callable[[Any], bool]


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


# ------------------------------------------------------------------------------------------------ rules


def number(raw: Any) -> bool:
    return type(raw) is float or (type(raw) is int and abs(raw) <= _WHOLE)


def finite(raw: Any) -> bool:
    return number(raw) and math.isfinite(raw)


def known(raw: Any) -> bool:
    """A number, maybe without end; no nan, with which every comparison is false."""
    return number(raw) and not math.isnan(raw)


def noise(raw: Any) -> bool:
    """What an sd or a length may be: from 0 on, without end where nothing is known."""
    return known(raw) and raw >= 0.0


def whole(raw: Any) -> bool:
    return type(raw) is int and 0 <= raw <= _WHOLE


def kind(expected: type) -> Rule:
    return lambda raw: isinstance(raw, expected)


def maybe(rule: Rule) -> Rule:
    return lambda raw: raw is None or rule(raw)


def listed(rule: Rule) -> Rule:
    return lambda raw: isinstance(raw, list | tuple) and all(map(rule, raw))


def tabled(rule: Rule) -> Rule:
    return lambda raw: isinstance(raw, dict) and all(map(rule, raw.values()))


text = kind(str)
flag = kind(bool)
table = kind(dict)
texts = listed(text)


def plain(raw: Any) -> bool:
    rules = (text, flag, number, tabled(lambda value: text(value) or number(value)), texts)
    return raw is None or any(rule(raw) for rule in rules)


def condition(raw: Any) -> bool:
    try:
        return isinstance(raw, dict) and raw.keys() == {"code", "figures"} and bool(Condition.from_plain(raw))
    except (ValueError, TypeError):
        return False


def statement(raw: Any) -> bool:
    kinds: dict[str, Rule] = {"float": number, "str": text, "bool": flag, "int": whole}
    kinds["float | None"] = maybe(lambda value: finite(value) and value >= 0.0)
    kinds["tuple[Condition, ...]"] = listed(condition)
    known = {one.name: kinds.get(str(one.type), plain) for one in fields(PrivacyStatement)}
    if not (isinstance(raw, dict) and all(name in known and known[name](value) for name, value in raw.items())):
        return False
    if "conditions" not in raw:
        return False
    rests = guarantee_under(map(Condition.from_plain, raw["conditions"]))
    if raw.get("guarantee") in (Guarantee.PROVEN, Guarantee.CONDITIONAL) and raw["guarantee"] != rests:
        return False
    epsilon = raw.get("epsilon", -1.0)
    delta = raw.get("delta", -1.0)
    return bool(0.0 <= delta < 1.0 and (epsilon == math.inf or (epsilon >= 0.0 and delta > 0.0)))


# ------------------------------------------------------------------------------------------------ a release


KIND = "colonnade release"
FORMAT = 1
AGAIN = "Save the release again, or restore a copy."
KINDS = ("number", "level", "flag", "part", "classes")
RULES = ("raw", "centred", "screened", "weak")


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
    raise InvalidInput(
        f"{path} is a saved fit without a release: fits of co.PrivateGram have one, since version 3 of the file."
    )


def to_plain(release: Release) -> dict[str, Any]:
    """The fields as JSON has them."""
    levels, codes = np.unique(release.noise[_upper(release.noise)], return_inverse=True)
    return {
        **{one.name: getattr(release, one.name) for one in fields(Release)},
        "matrix": _text(release.matrix[_upper(release.matrix)]),
        # Few different sds: each once, and for every entry which it is.
        "noise": {"levels": _text(levels), "codes": _text(codes.astype(np.uint32), "<u4")},
        "columns": [asdict(column) for column in release.columns],
        "label": asdict(release.label),
        "centre": _text(release.centre),
        "scale": _text(release.scale),
        "norms": dict(release.norms),
        "statement": release.statement.to_plain(),
        "sums": None if release.sums is None else _plain_sums(release.sums),
        "solving": None if release.solving is None else _plain_solving(release.solving),
    }


def from_plain(raw: Any) -> Release:
    """The inverse of `to_plain`; InvalidInput, or what damaged data end in, where a field is not of its kind."""
    if not isinstance(raw, Mapping) or set(raw) != {one.name for one in fields(Release)}:
        raise InvalidInput("it does not have the fields of a release")
    if not (statement(raw["statement"]) and tabled(finite)(raw["norms"])):
        raise InvalidInput("'statement' or 'norms' is not of its kind")
    columns = tuple(_column(one) for one in raw["columns"])
    size = len(columns) + 2
    levels = _numbers(raw["noise"]["levels"])
    codes = _numbers(raw["noise"]["codes"], "<u4").astype(np.int64)
    made = Release(
        **{
            **raw,
            "columns": columns,
            "label": _column(raw["label"]),
            "matrix": _symmetric(_numbers(raw["matrix"]), size),
            "noise": _symmetric(levels[codes], size),
            "centre": _numbers(raw["centre"]),
            "scale": _numbers(raw["scale"]),
            "statement": PrivacyStatement.from_plain(raw["statement"]),
            "sums": None if raw["sums"] is None else _sums(raw["sums"], len(columns)),
            "solving": None if raw["solving"] is None else _solving(raw["solving"], len(columns)),
        }
    )
    _check(made)
    return made


def _check(release: Release) -> None:
    """Whatever a file holds, what comes of it can be shown and used."""
    size = len(release.columns)
    finite = all(np.isfinite(a).all() for a in (release.matrix, release.noise, release.centre, release.scale))
    counts = (release.rows, release.buckets, release.unit_rows)
    wrong = {
        "'matrix', 'noise', 'centre' or 'scale' is not finite": not finite,
        "'noise' is negative": bool((release.noise < 0.0).any()),
        "'scale' is not above 0": bool((release.scale <= 0.0).any()),
        "'centre' or 'scale' has another length than 'columns'": {release.centre.size, release.scale.size} != {size},
        "'rows' and the matrix disagree": not math.isclose(release.matrix[size, size], release.rows, rel_tol=1e-9),
        "a count is no whole number": not listed(whole)(counts),
        "'step' or 'reach' is not above 0": not (_positive(release.step) and _positive(release.reach)),
        "'rule' is not known": release.rule not in RULES,
        "a length in 'norms' is negative": min(release.norms.values(), default=0.0) < 0.0,
        "a word or flag is of another kind": not (texts([release.run, release.cross]) and flag(release.proven)),
        "'penalised' or 'cut' is no flag": not (flag(release.penalised) and flag(release.cut)),
    }
    for what, found in wrong.items():
        if found:
            raise InvalidInput(what)


def _plain_sums(sums: Sums) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, np.ndarray) else value for name, value in vars(sums).items()}


def _sums(raw: Mapping[str, Any], size: int) -> Sums:
    made = Sums(**{name: _numbers(value) if isinstance(value, str) else value for name, value in raw.items()})
    arrays = (made.positive, made.negative, made.half_squares, made.noise, made.square_noise)
    if not all(isinstance(a, np.ndarray) and a.shape == (size,) and np.isfinite(a).all() for a in arrays):
        raise InvalidInput("'sums' has another length than 'columns', or is not finite")
    least = min(made.noise.min(initial=0.0), made.square_noise.min(initial=0.0))
    if not (finite(made.count) and finite(made.count_noise)) or min(least, made.count_noise) < 0.0:
        raise InvalidInput("'sums' counts by no finite number, or its noise is negative")
    return made


def _plain_solving(solving: Solving) -> dict[str, Any]:
    sums = None if solving.sums is None else _plain_sums(solving.sums)
    return {**vars(solving), "doubt": _text(solving.doubt), "sums": sums}


def _solving(raw: Mapping[str, Any], size: int) -> Solving:
    sums = None if raw["sums"] is None else _sums(raw["sums"], size)
    made = Solving(**{**raw, "doubt": _numbers(raw["doubt"]), "sums": sums})
    if made.doubt.shape != (size,) or not (made.doubt >= 0.0).all():  # inf: not centred
        raise InvalidInput("'doubt' of 'solving' has another length than 'columns', or is negative")
    if not (finite(made.ridge) and made.ridge >= 0.0 and flag(made.choose) and flag(made.select)):
        raise InvalidInput("'ridge' of 'solving' is no number from 0 on, or 'choose' or 'select' is no flag")
    return made


def _positive(value: Any) -> bool:
    return finite(value) and value > 0.0


def _column(raw: Mapping[str, Any]) -> ReleasedColumn:
    column = ReleasedColumn(**raw)
    words = texts([column.name, column.party, column.source, column.kind])
    if not (words and column.kind in KINDS and type(column.block) is int):
        raise InvalidInput("a column is not of its kind")
    if not (_positive(column.unit) and finite(column.middle)):
        raise InvalidInput(f"column {column.name!r} has no finite unit and middle")
    return column


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


def _numbers(text: str, kind: str = "<f8") -> Any:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).copy()
