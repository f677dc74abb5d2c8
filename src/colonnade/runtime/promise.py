"""Answers that will come: of a process elsewhere, of one that is at work, or of this one, at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from colonnade.runtime.program import NodeId

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Promise(Protocol[T_co]):
    """An answer that will come: a Future, or what is made of one."""

    def result(self) -> T_co:
        """The answer, or its error; waits for it."""
        ...

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        """Let somebody know when it is there."""
        ...


class Computed(Generic[T]):
    """What becomes of an answer once it is there: made once, by the thread that asks for it first.

    Not a Future: every message of every round makes a promise, and a Future costs as much as reading the message.
    """

    __slots__ = ("_compute", "_error", "_promised", "_value")

    def __init__(self, promised: Promise[S], compute: Callable[[Promise[S]], T]) -> None:
        self._promised: Promise[Any] | None = promised
        self._compute: Callable[[Promise[Any]], T] = compute
        self._value: Any = None
        self._error: BaseException | None = None

    def result(self) -> T:
        # what it was made of is not kept: answers are large
        promised = self._promised
        self._promised = None
        if promised is not None:
            try:
                self._value = self._compute(promised)
            except BaseException as error:
                self._error = error
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        if self._promised is None:
            tell(self)
        else:
            self._promised.add_done_callback(lambda _: tell(self))


class Answered(Generic[T]):
    """A promise that is kept at once."""

    __slots__ = ("_answer",)

    def __init__(self, compute: Callable[[], T]) -> None:
        self._answer: Computed[T] = Computed(self, lambda _: compute())
        with contextlib.suppress(Exception):  # Ctrl-C ends the asking at once
            self._answer.result()

    def result(self) -> T:
        return self._answer.result()

    def add_done_callback(self, tell: Callable[[Any], object], /) -> None:
        tell(self)


def wait_for_all(promised: Iterable[Promise[object]]) -> None:
    """Wait until nobody is at work any more, whatever came of it."""
    for promise in promised:
        with contextlib.suppress(Exception):
            promise.result()


def gather_answers(promised: Mapping[NodeId, Promise[T]]) -> dict[NodeId, T]:
    """All answers, or the first error once nobody is at work any more."""
    wait_for_all(promised.values())
    return {name: promise.result() for name, promise in promised.items()}
