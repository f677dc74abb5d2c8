"""Programs and their messages: a node is a generator, and what it yields is all that leaves it.

There is one rule for star, tree, graph and party-to-party alike. A program yields `Post(to, wait)`: send these
messages, resume me with exactly one message from each node in `wait` (at once if there is none). Edges are
first-in-first-out and reads name their sender, so a result cannot depend on timing: a Kahn network.

Messages are frozen dataclasses in one fixed table, each under its own number.

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

import hashlib
import typing
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from enum import IntEnum
from types import UnionType
from typing import Any, Protocol, TypeVar, dataclass_transform, overload

import numpy as np
from scipy import sparse

from colonnade.errors import PartyLost, PeerFailed, ProtocolError
from colonnade.privacy.values import Packed, Released

NodeId = str
COORDINATOR: NodeId = "coordinator"
T = TypeVar("T")
R = TypeVar("R")
Inbox = Mapping[NodeId, Any]
Note = Mapping[str, Any]  # figures by name; those of a node that holds data are Released


class Fold(Protocol):
    """Something that what comes is added to and then forgotten: neither the program nor the record keeps a message.

    The record keeps what the fold saves, plain values, overwritten at every step and erased when the run closes.
    """

    @property
    def name(self) -> str: ...
    def add(self, inbox: Inbox) -> None: ...
    def save(self) -> tuple[Any, ...]: ...
    def load(self, saved: tuple[Any, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Post:
    """What a program yields: messages by receiver, whom it waits for, and a row for the history (never sent).

    With a `fold` the messages that come go there, and the program is resumed with an inbox of those who are lost.
    """

    to: Mapping[NodeId, Any] = field(default_factory=dict)
    wait: tuple[NodeId, ...] = ()
    note: Note | None = None
    fold: Fold | None = None


Program = Generator[Post, Inbox, T]


def ask(nodes: Iterable[NodeId], message: object, reply: type[R], note: Note | None = None) -> Program[dict[NodeId, R]]:
    """The same message to each of `nodes`; their replies by sender."""
    return (yield from tell(dict.fromkeys(nodes, message), reply, note))


def tell(to: Mapping[NodeId, object], reply: type[R], note: Note | None = None) -> Program[dict[NodeId, R]]:
    """To each node its own message; their replies by sender."""
    inbox = yield Post(to, tuple(to), note)
    return {node: expect(inbox, node, reply) for node in to}


@overload
def ask_one(node: NodeId, message: object, reply: type[R]) -> Program[R]: ...
@overload
def ask_one(node: NodeId, message: object, reply: UnionType) -> Program[Any]: ...
def ask_one(node: NodeId, message: object, reply: Any) -> Program[Any]:
    """One message to one node; its reply."""
    inbox = yield Post({node: message}, (node,))
    return expect(inbox, node, reply)


@overload
def receive(node: NodeId, kind: type[R]) -> Program[R]: ...
@overload
def receive(node: NodeId, kind: UnionType) -> Program[Any]: ...
def receive(node: NodeId, kind: Any) -> Program[Any]:
    """Wait for one message."""
    inbox = yield Post({}, (node,))
    return expect(inbox, node, kind)


def last(to: Mapping[NodeId, object]) -> Program[None]:
    """Send, and wait for nobody."""
    yield Post(to, ())


def expect(inbox: Inbox, node: NodeId, kind: type[R]) -> R:
    """The message of `node`, which must be a `kind` (a class or a union of classes)."""
    received = inbox[node]
    if is_lost(received):
        raise PartyLost(f"{node!r} was silent past its deadline, and this run cannot go on without it.")
    if isinstance(received, Failed):
        code = FailureCode(received.code) if received.code in set(FailureCode) else FailureCode.STOPPED
        raise PeerFailed(f"{node!r} stopped this run ({code.name.lower()}). Its own log says why.")
    if not isinstance(received, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise ProtocolError(f"{node!r} sent {type(received).__name__} where {wanted} was expected")
    return received


def is_lost(received: object) -> bool:
    """Whether a node was given up, in place of the message that was waited for."""
    return isinstance(received, Failed) and received.code == FailureCode.LOST


def public_bytes(run: str, *labels: object) -> bytes:
    """Public randomness: every node derives the same 32 bytes from the run's id and a label."""
    return hashlib.sha256("/".join([run, *map(str, labels)]).encode()).digest()


# ------------------------------------------------------------------------------------------------ messages

Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its name, whether it must be Released, and a test of its value."""

    name: str
    released: bool
    accepts: Check
    declared: str


@dataclass(frozen=True, slots=True)
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
        made = dataclass(frozen=True, slots=True, eq=False)(cls)
        hints = typing.get_type_hints(made, include_extras=True)
        declared = fields_of(made)  # type: ignore[arg-type]  # a dataclass since two lines
        fields = tuple(_field(made.__name__, f.name, hints[f.name]) for f in declared)
        BY_CODE[code] = BY_TYPE[made] = Shape(code, made, fields)
        return made

    return register


def _field(owner: str, name: str, declared: Any) -> Field:
    text = declared.__name__ if isinstance(declared, type) else str(declared).replace("colonnade.privacy.values.", "")
    released = _declares_released(declared)
    try:
        return Field(name, released, _checker(declared), text)
    except TypeError as error:
        raise ProtocolError(f"{owner}.{name}: {error}") from error


def _declares_released(declared: Any) -> bool:
    """Released itself, a tuple of Released, or a choice among these."""
    origin = typing.get_origin(declared)
    args = typing.get_args(declared)
    if origin in (tuple, typing.Union, UnionType):
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
    origin = typing.get_origin(declared)
    args = typing.get_args(declared)
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
    if origin in (typing.Union, UnionType):
        options = tuple(_checker(arg) for arg in args)
        return lambda v: any(option(v) for option in options)
    raise TypeError(f"a message cannot carry {declared}; see runtime/program.py for the types it can")


class FailureCode(IntEnum):
    """Why a node stopped: a fixed list and no text, since text may carry data."""

    STOPPED = 0  # something went wrong at the sender
    REFUSED = 1  # its policy or its budget said no
    PROTOCOL = 2  # it was sent something it cannot accept
    TIMEOUT = 3  # it waited too long
    LOST = 4  # whoever carries its messages says: it was silent past the deadline, and the others may go on


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
