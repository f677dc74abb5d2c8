"""Messages: frozen dataclasses in one fixed table, each under its own number.

    @message(21)
    class Bid:
        \"""Party → coordinator: my steepest column.\"""

        index: Released[int]
        score: Released[float]

A field's declared type is checked when a message is encoded and when it is decoded. Allowed: int, float, bool, str,
bytes, NumPy arrays, CSC columns, Packed integers, tuples of these, unions of these, and each of them `Released`. A
field declared Released cannot be filled with anything that did not pass a gate, whoever sends it. The sender is the
edge a message came on, never a field.

Numbers: 1–9 runtime, 10–19 messages shared by methods, from 20 on ten for each method. A number is never reused.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from scipy import sparse

from colonnade.errors import LeakError, ProtocolError, WireError
from colonnade.privacy.values import Packed, Released

T = TypeVar("T")
Check = Callable[[Any], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its name, whether it must be Released, and a test of its value."""

    name: str
    released: bool
    accepts: Check
    declared: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What the codec knows of a message type."""

    code: int
    cls: type
    fields: tuple[Field, ...]


BY_CODE: dict[int, Shape] = {}
BY_TYPE: dict[type, Shape] = {}


@dataclass_transform(frozen_default=True)
def message(code: int) -> Callable[[type[T]], type[T]]:
    """Register a frozen dataclass under `code` in the table of messages."""

    def register(cls: type[T]) -> type[T]:
        if code in BY_CODE:
            owner = BY_CODE[code].cls.__name__
            raise ProtocolError(f"message number {code} belongs to {owner}; {cls.__name__} needs another")
        if not cls.__doc__:
            raise ProtocolError(f"{cls.__name__} needs a docstring that says who sends it to whom, and what it means")
        made = dataclasses.dataclass(frozen=True, slots=True, eq=False)(cls)
        hints = typing.get_type_hints(made, include_extras=True)
        declared = dataclasses.fields(made)  # type: ignore[arg-type]  # a dataclass since two lines
        fields = tuple(_field(made.__name__, f.name, hints[f.name]) for f in declared)
        BY_CODE[code] = BY_TYPE[made] = Shape(code, made, fields)
        return made

    return register


def check_fields(shape: Shape, values: tuple[Any, ...]) -> None:
    """Every value is what its field declares, and passed a gate where the field says so."""
    for field, value in zip(shape.fields, values, strict=True):
        if not field.accepts(value):
            place = f"{shape.cls.__name__}.{field.name}"
            if field.released and not _is_released(value):
                raise LeakError(
                    f"{place} holds a bare {type(value).__name__}; pass it through the gate (gate.exact, "
                    "gate.gaussian, ...). Nothing was sent."
                )
            raise WireError(f"{place} is declared {field.declared} and holds {_kind(value)}")


def _is_released(value: Any) -> bool:
    return type(value) is Released or (type(value) is tuple and all(type(item) is Released for item in value))


def _kind(value: Any) -> str:
    return f"Released[{_kind(value.value)}]" if type(value) is Released else type(value).__name__


def _field(owner: str, name: str, declared: Any) -> Field:
    text = declared.__name__ if isinstance(declared, type) else str(declared).replace("colonnade.privacy.", "")
    released = _declares_released(declared)
    try:
        return Field(name, released, _checker(declared), text)
    except TypeError as error:
        raise ProtocolError(f"{owner}.{name}: {error}") from error


def _declares_released(declared: Any) -> bool:
    """Released itself, a tuple of Released, or a choice among these."""
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin in (tuple, typing.Union, types.UnionType):
        return all(_declares_released(arg) for arg in args if arg is not Ellipsis)
    return origin is Released


_PLAIN: dict[Any, Check] = {
    int: lambda v: (type(v) is int or isinstance(v, np.integer)) and type(v) is not bool,
    float: lambda v: type(v) is float or isinstance(v, np.floating),
    bool: lambda v: type(v) is bool or type(v) is np.bool_,
    str: lambda v: type(v) is str,
    bytes: lambda v: type(v) is bytes,
    np.ndarray: lambda v: type(v) is np.ndarray,
    Packed: lambda v: type(v) is Packed,
    sparse.csc_array: lambda v: sparse.issparse(v) and v.format == "csc",
}


def _checker(declared: Any) -> Check:
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if declared in _PLAIN:
        return _PLAIN[declared]
    if origin is np.ndarray:
        return _PLAIN[np.ndarray]
    if origin is Released:
        inside = _checker(args[0])
        return lambda v: type(v) is Released and inside(v.value)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        item = _checker(args[0])
        return lambda v: type(v) is tuple and all(map(item, v))
    if origin in (typing.Union, types.UnionType):
        options = tuple(_checker(arg) for arg in args)
        return lambda v: any(option(v) for option in options)
    raise TypeError(f"a message cannot carry {declared}; see runtime/messages.py for the types it can")


class FailureCode(IntEnum):
    """Why a node stopped: a fixed list and no text, since text may carry data."""

    STOPPED = 0  # something went wrong at the sender
    REFUSED = 1  # its policy or its budget said no
    PROTOCOL = 2  # it was sent something it cannot accept
    TIMEOUT = 3  # it waited too long


@message(2)
class Sealed:
    """Any node → a node that it reaches through a third one: a message that only the receiver can read."""

    key: bytes  # of the content, wrapped for the receiver
    content: bytes


@message(3)
class Direct:
    """Any node → its neighbour, through a third one: the sealed message of this place came over the line between us."""

    digest: bytes  # of the sealed message, as in a frame


@message(1)
class Failed:
    """Any node → its neighbours: I stop, and this run is over."""

    code: int
