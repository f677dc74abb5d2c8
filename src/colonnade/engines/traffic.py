"""Every byte counted: messages, codec bytes and numbers by edge, message type and round.

Numbers are what papers count: each integer, float, truth value or array entry is one, an entry of a sparse block two, its
place and its value. Texts, keys and sealed contents are none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from colonnade.privacy.values import numbers_in
from colonnade.runtime.node import Letter
from colonnade.runtime.wire import HEADER_SIZE, type_name


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
    numbers: Counter[Line] = field(default_factory=Counter)
    _last: tuple[object, int] = field(default=(None, 0), compare=False, repr=False)  # a broadcast is looked at once

    def count(self, letter: Letter) -> None:
        frame = letter.frame
        line = Line(letter.sender, letter.receiver, letter.inside or type_name(frame.body), frame.round)
        self.messages[line] += 1
        self.bytes[line] += len(frame.body)
        if frame.body is not self._last[0]:
            self._last = (frame.body, numbers_in(frame.body, HEADER_SIZE))
        self.numbers[line] += self._last[1]

    def add(self, other: Traffic) -> None:
        """Count what another one counted, too."""
        self.messages.update(other.messages)
        self.bytes.update(other.bytes)
        self.numbers.update(other.numbers)
