"""Hosts of a run that answer as a test says, through one function that takes a name, a question and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from colonnade.runtime.host import Answered, AskedHost, Promise


def hosts(names: Iterable[str], promise: Callable[..., Promise[Any]]) -> dict[str, AskedHost]:
    """Hosts of whom `promise` makes the promises."""
    return {name: AskedHost(partial(promise, name)) for name in names}


def answering(names: Iterable[str], answer: Callable[..., Any]) -> dict[str, AskedHost]:
    """Hosts that answer at once."""
    return hosts(names, lambda *asked: Answered(lambda: answer(*asked)))


def silent(names: Iterable[str]) -> dict[str, AskedHost]:
    """Hosts that answer nothing."""
    return answering(names, lambda *_: None)
