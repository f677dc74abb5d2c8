"""Fields of files and questions: what each must be, and one line about the first that is not.

A kind of file is a `Table`, or a frozen value that calls `check` when it is made. `must` says in words what a field has
to be and gives an example, beside the bounds that msgspec keeps:

    class Data(Table):
        source: Annotated[str, must("a file or a database", "stays.csv")]
        port: Annotated[int, must("the number of a port", 9464, ge=0, le=65_535)] | None = None

    read({"source": "stays.csv", "port": "9"}, Data, "data")
    Wrong: data.port must be the number of a port, as in port = 9464; got '9'

Nothing is turned into another kind: 1.0 is no whole number, true and "1" are no numbers; nan is within no bounds.
Every room reads files or questions, so this file stands below all of them and knows none.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from difflib import get_close_matches
from enum import EnumType, StrEnum
from functools import cache
from reprlib import Repr
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec.inspect import type_info

from colonnade.errors import InvalidInput

LARGEST_WHOLE = 2**53  # every reader of JSON has it exactly
LARGEST = sys.float_info.max
_PLAIN = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}
_PLAIN |= {tuple: "a list", dict: "a table", bytes: "a text in base64"}
_LOGIN = re.compile(r"(://[^/@\s:\"']*):[^@\s\"']*@")  # user:password@
_OPTION = re.compile(r"((?:password|passfile|sslpassword)=)[^&\s\"']*")
_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of named fields: all that have no default, and no others."""


class Choice(StrEnum):
    """One of a few. It equals its word, and is printed, sent and written as that."""

    def __repr__(self) -> str:
        return repr(self.value)


class Wrong(InvalidInput):
    """A mistake at a place of a file: `place` as table.key.key, and in which table of a list of that name."""

    def __init__(self, place: str, what: str, table: int = 0) -> None:
        super().__init__(f"{place} {what}".strip())
        self.place = place
        self.what = what
        self.table = table


def must(what: str, example: Any = None, *, hidden: bool = False, **bounds: Any) -> msgspec.Meta:
    """What a field must be, an example, and the bounds ge, gt, le, lt, pattern, min_length, max_length. No error shows
    the value of one that is `hidden`."""
    examples = None if example is None else [example]
    extra = {"hidden": True} if hidden else None
    return msgspec.Meta(description=what, examples=examples, extra=extra, **bounds)


# Kinds of field that many files have; a whole number stays one.
Text = Annotated[str, must("a text", min_length=1)]
Name = Annotated[
    str, must("a name: letters, digits and dashes, 64 at most", pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")
]
Flag = Annotated[bool, must("true or false")]
Count = Annotated[int, must("a whole number from 0 on", ge=0, le=LARGEST_WHOLE)]
_Whole = Annotated[int, must("a number", ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
Number = Annotated[float, must("a number")] | _Whole
Finite = Annotated[float, must("a finite number", ge=-LARGEST, le=LARGEST)] | _Whole
Length = Annotated[float, must("a finite number from 0 on", ge=0.0, le=LARGEST)] | Count
Positive = (
    Annotated[float, must("a finite number above 0", gt=0.0, le=LARGEST)]
    | Annotated[int, msgspec.Meta(gt=0, le=LARGEST_WHOLE)]
)


def read(raw: Any, kind: Any, place: str = "") -> Any:
    """The value of a kind that plain data describe; Wrong at the first field that is not what it must be."""
    # Of these msgspec passes over names that they do not have.
    if is_dataclass(kind):
        _read_parts(raw, kind, place)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        _read_parts(raw, kind, place)
        if isinstance(rule := error.__cause__, InvalidInput):  # of several fields together
            raise Wrong(place, str(rule)) from rule
        hidden = any(meta.extra for meta in _metas(kind))
        found = _PLAIN.get(type(raw), "something else") if hidden else _found(raw)
        what = f"{_words(kind)}{_example(kind, place)}; got {found}"
        raise Wrong(place, f"{'' if place else 'it '}must be {what}") from error


def check(value: object) -> None:
    """Refuse a frozen value with a field that is not what its `must` says."""
    made: type = type(value)
    for name, kind in _told(made):
        read(getattr(value, name), kind, name)


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says. One that is none is refused with a ValueError, and so is half a character: JSON can spell
    it and UTF-8 cannot, so it could be neither sent nor logged."""
    raw = json.loads(text)
    json.dumps(raw, ensure_ascii=False).encode()
    return raw


def read_choices(value: object, choices: Mapping[str, type[Choice]]) -> None:
    """Give settings of a frozen value, which is being made, the choices that their words stand for."""
    for name, kind in choices.items():
        if (word := getattr(value, name)) not in tuple(kind):
            known = " or ".join(map(repr, kind))
            raise InvalidInput(f"{name}={word!r} is not known; choose {known}", name)
        object.__setattr__(value, name, kind(word))


def check_names(raw: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Refuse a table with a name that is not among those that are known."""
    there = list(known)
    for name in raw:
        if name not in there:
            near = [f"; the nearest name is {one!r}" for one in get_close_matches(str(name), there, 1)]
            raise Wrong(within(place, name), f"is unknown{''.join(near)}; there are {', '.join(there)}")


def check_version(raw: Mapping[str, Any], version: int) -> None:
    """Refuse a file of a later version, before its fields: they are what differs."""
    if type(found := raw.get("version")) is not int or not 1 <= found <= version:
        reads = f"this Colonnade reads version = {version}. Write that, or install a newer one."
        raise Wrong("version", f"is {shown(found)}; {reads}")


def within(place: str, name: str) -> str:
    """The place of a field of a table."""
    plain = name if re.fullmatch(r"[\w-]{1,60}", name) else json.dumps(name[:60])
    return f"{place}.{plain}" if place else plain


@contextmanager
def inside(place: str) -> Iterator[None]:
    """A mistake inside is one of the table at `place`."""
    try:
        yield
    except Wrong as wrong:
        raise Wrong(f"{place}.{wrong.place}".rstrip("."), wrong.what, wrong.table) from wrong
    except InvalidInput as error:
        raise Wrong(place, f"is not right: {error}") from error


@cache
def fields_of(kind: type) -> dict[str, Any]:
    """The fields of a table or of a frozen value, each with all that is said of it."""
    return get_type_hints(kind, include_extras=True)


@cache
def _told(kind: type) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in fields_of(kind).items() if wanted(one)]


def wanted(kind: Any) -> str:
    """What a field must be, in words; empty where nothing is said of it."""
    return next((meta.description for meta in _metas(kind) if meta.description), "")


# ------------------------------------------------------------------------------------------------ the one line


def _read_parts(raw: Any, kind: Any, place: str) -> None:
    """Wrong at the first part of a table, or of tables in a list or by name, that is not what it must be."""
    for option in _options(kind):
        inner = [one for one in get_args(option) if _is_table(one)]
        if _is_table(option) and isinstance(raw, Mapping):
            _read_fields(raw, option, place)
        elif inner and isinstance(raw, Mapping):
            for name, one in raw.items():
                read(one, inner[0], within(place, name))
        elif inner and isinstance(raw, list):
            for number, one in enumerate(raw):
                read(one, inner[0], f"{place}[{number}]")


def _read_fields(raw: Mapping[str, Any], table: Any, place: str) -> None:
    kinds = fields_of(table)
    known = cast(Any, type_info(table))
    check_names(raw, kinds, place)
    for one in known.fields:
        kind = kinds[one.name]
        if one.name in raw:
            _read_parts(raw[one.name], kind, within(place, one.name))
            read(raw[one.name], kind, within(place, one.name))
        elif one.required:
            raise Wrong(place, f"{'' if place else 'it '}needs {one.name}, {_words(kind)}{_example(kind, one.name)}")


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, Table) or is_dataclass(kind))


def _options(kind: Any) -> Iterator[Any]:
    """The types that a field may have, without what is said of them."""
    if get_origin(kind) is Annotated:
        yield from _options(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _options(one)
    else:
        yield kind


def _metas(kind: Any) -> Iterator[msgspec.Meta]:
    if get_origin(kind) is Annotated:
        yield from (one for one in kind.__metadata__ if isinstance(one, msgspec.Meta))
        yield from _metas(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _metas(one)


def _words(kind: Any) -> str:
    """What it must be, by its type alone where nothing is said of it."""
    if said := wanted(kind):
        return said
    first = next(_options(kind))
    origin = get_origin(first)
    inner = get_args(first)
    if origin is Literal or isinstance(first, EnumType):
        words = inner or tuple(one.value for one in first)
        return f"{'one of ' * (len(words) > 1)}{', '.join(map(repr, words))}"
    each = f", each {wanted(inner[-1])}" if origin in (list, dict) and wanted(inner[-1]) else ""
    return _PLAIN.get(origin or first, "a table") + each


def _found(raw: Any) -> str:
    """What stands there; of figures how many, since those of a model are nobody's business."""
    if isinstance(raw, dict):
        return f"a table of {len(raw):,}"
    plain = not isinstance(raw, list | tuple) or all(isinstance(one, str | bool | int) for one in raw)
    return shown(raw) if plain else f"a list of {len(raw):,}"


def shown(raw: Any) -> str:
    """A value in an error: short, and without a password."""
    if isinstance(raw, list | tuple):
        raw = [without_password(one) if isinstance(one, str) else one for one in raw]
    try:
        return _SHOWN.repr(without_password(raw) if isinstance(raw, str) else raw)
    except ValueError:
        # Python writes no integer of more than 4,300 digits.
        return "a number of thousands of digits"


def without_password(text: str) -> str:
    """Addresses of databases in it as they may be shown."""
    return _OPTION.sub(r"\1", _LOGIN.sub(r"\1@", text))


def _example(kind: Any, place: str) -> str:
    shown = [json.dumps(one, ensure_ascii=False) for meta in _metas(kind) for one in meta.examples or ()]
    return f", as in {place.rpartition('.')[2]} = {shown[0]}" if shown else ""
