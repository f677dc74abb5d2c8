"""Programs: a node is a generator, and what it yields is all that leaves it.

There is one rule for star, tree, graph and party-to-party alike. A program yields `Post(to, wait)`: send these
messages, resume me with exactly one message from each node in `wait` (at once if there is none). Edges are
first-in-first-out and reads name their sender, so a result cannot depend on timing: a Kahn network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Protocol, TypeVar, overload

from colonnade.errors import PeerFailed, ProtocolError
from colonnade.runtime.messages import Failed, FailureCode

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

    With a `fold` the messages that come go there, and the program is resumed with an empty inbox.
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
    if isinstance(received, Failed):
        code = FailureCode(received.code) if received.code in set(FailureCode) else FailureCode.STOPPED
        raise PeerFailed(f"{node!r} stopped this run ({code.name.lower()}). Its own log says why.")
    if not isinstance(received, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise ProtocolError(f"{node!r} sent {type(received).__name__} where {wanted} was expected")
    return received


def public_bytes(run: str, *labels: object) -> bytes:
    """Public randomness: every node derives the same 32 bytes from the run's id and a label."""
    return hashlib.sha256("/".join([run, *map(str, labels)]).encode()).digest()
