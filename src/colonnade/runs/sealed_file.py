"""Files of ours: one line that names kind, version and check-sum, then plain data. What is not whole is refused.

A rule says whether a piece of plain data is of its kind.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput
from colonnade.privacy.statement import PrivacyStatement
from colonnade.privacy.store import write_synced

# What reading a file that is damaged, or not ours, may end in.
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError)
LARGEST = 1 << 31  # bytes of a file
FIT, FIT_FORMAT = "colonnade fit", 4  # saved fits, and the version that is written
_WHOLE = 2**53
Rule = Callable[[Any], bool]


def write_sealed(path: Path, kind: str, version: int, body: str) -> None:
    digest = hashlib.sha256(body.encode()).hexdigest()
    text = json.dumps({"format": kind, "version": version, "sha256": digest}) + "\n" + body
    write_synced(path, text.encode())


def read_sealed(path: Path, known: Mapping[str, int], what: str, again: str) -> tuple[str, int, str]:
    """Kind, version and body of a file; `known`: the kinds that may be, with the latest version of each."""
    try:
        small = path.stat().st_size <= LARGEST
        head, _, body = path.read_text(encoding="utf-8").partition("\n") if small else ("", "", "")
        header = json.loads(head)
        kind = header["format"]
        version = header.get("version") if kind in known else None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}. Check the path.") from error
    except DAMAGED as error:
        raise InvalidInput(f"{path} is not {what}, or it is damaged. {again}") from error
    if type(version) is not int or version < 1:
        raise InvalidInput(f"{path} is not {what}, or it is damaged. {again}")
    if version > known[kind]:
        later = f"{path} is of version {version}, of a later Colonnade; this one reads versions up to {known[kind]}"
        raise InvalidInput(f"{later}. Install that one: pip install --upgrade colonnade.")
    if hashlib.sha256(body.encode()).hexdigest() != header.get("sha256"):
        raise InvalidInput(f"{path} is damaged: its content does not match its check-sum. Restore it from a copy.")
    return kind, version, body


# ------------------------------------------------------------------------------------------------ rules


def number(raw: Any) -> bool:
    return type(raw) is float or (type(raw) is int and abs(raw) <= _WHOLE)


def finite(raw: Any) -> bool:
    return number(raw) and math.isfinite(raw)


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


text, flag, table = kind(str), kind(bool), kind(dict)
texts = listed(text)


def plain(raw: Any) -> bool:
    rules = (text, flag, number, tabled(lambda value: text(value) or number(value)), texts)
    return raw is None or any(rule(raw) for rule in rules)


def statement(raw: Any) -> bool:
    kinds: dict[str, Rule] = {"float": number, "str": text, "bool": flag, "int": whole}
    kinds["float | None"] = maybe(lambda value: finite(value) and value >= 0.0)
    known = {one.name: kinds.get(str(one.type), plain) for one in fields(PrivacyStatement)}
    if not (isinstance(raw, dict) and all(name in known and known[name](value) for name, value in raw.items())):
        return False
    epsilon, delta = raw.get("epsilon", -1.0), raw.get("delta", -1.0)
    return bool(0.0 <= delta < 1.0 and (epsilon == math.inf or (epsilon >= 0.0 and delta > 0.0)))
