"""Every byte counted: messages and codec bytes by edge, message type and round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from colonnade.runtime.node import Letter
from colonnade.runtime.wire import type_name


class Line(NamedTuple):
    """One kind of message on one edge in one round."""

    sender: str
    receiver: str
    type: str
    round: int


@dataclass
class Traffic:
    """Counts of what was sent; a letter sent again after a crash is counted once, as the first time."""

    messages: Counter[Line] = field(default_factory=Counter)
    bytes: Counter[Line] = field(default_factory=Counter)

    def count(self, letter: Letter) -> None:
        frame = letter.frame
        line = Line(letter.sender, letter.receiver, type_name(frame.body), frame.round)
        self.messages[line] += 1
        self.bytes[line] += len(frame.body)
