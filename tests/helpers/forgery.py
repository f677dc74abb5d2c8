"""Nodes whose letters are cut, stopped or forged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import colonnade as co
from colonnade.runtime.hosted_node import Carry, InProcess, Outcome, deliver_once
from colonnade.runtime.node import Node
from colonnade.runtime.wire import Letter, decode, encode


def forging(kind: type, to: str, forge: Callable[[Any], object]) -> co.Faults:
    """An engine whose wires change the messages of a kind on their way to a node."""

    def fault(letter: Letter) -> list[Letter]:
        message = decode(letter.body)
        if letter.receiver != to or not isinstance(message, kind) or (forged := forge(message)) is None:
            return [letter]
        body = encode(forged, guarded=False)
        return [Letter(letter.sender, to, letter.sequence, letter.round, body)]

    return co.Faults(InProcess(), fault)


class Cut(BaseException):
    """The power goes."""


class Until:
    """An engine whose power goes after so many letters; it keeps those that were sent."""

    def __init__(self, letters: int) -> None:
        self.left = letters
        self.sent: list[Letter] = []

    def run(self, nodes: Mapping[str, Node], carry: Carry = deliver_once) -> Outcome:
        def watched(letter: Letter) -> Iterable[Letter]:
            if not self.left:
                raise Cut
            self.left -= 1
            self.sent.append(letter)
            return carry(letter)

        return InProcess().run(nodes, watched)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda m: m.constant + 1,
    "label": lambda m: m.label + 1,
    "step": lambda m: m.step * 2,
    "norm2": lambda m: m.norm2 * np.array([1, 0, 0]),  # to each party, as if the others' rows were nothing
    "keep": lambda m: m.keep[:0],
    "centre": lambda m: m.centre + 0.5,
    "scale": lambda m: m.scale * 2,
    "labels": lambda m: np.ones(3),
}
