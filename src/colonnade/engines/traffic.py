"""Every byte counted: messages, codec bytes and numbers by edge, message type and round.

Numbers are what papers count: each integer, float, truth value or array entry is one, an entry of a sparse block two, its
place and its value. Texts, keys and sealed contents are none.
"""

from __future__ import annotations

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

    lines: dict[tuple[str, str, str, int], list[int]] = field(
        default_factory=dict
    )  # messages, bytes, numbers of a Line
    _last: tuple[object, str, int, int] = field(default=(None, "", 0, 0), compare=False, repr=False)

    def count(self, letter: Letter) -> None:
        frame = letter.frame
        body = frame.body
        if body is not self._last[0]:  # a broadcast is looked at once
            self._last = (body, letter.inside or type_name(body), len(body), numbers_in(body, HEADER_SIZE))
        _, kind, size, numbers = self._last
        key = (letter.sender, letter.receiver, kind, frame.round)
        found = self.lines.get(key)
        if found is None:
            self.lines[key] = [1, size, numbers]
        else:
            found[0] += 1
            found[1] += size
            found[2] += numbers

    def add(self, other: Traffic) -> None:
        """Count what another one counted, too."""
        for key, counts in other.lines.items():
            mine = self.lines.setdefault(key, [0, 0, 0])
            mine[:] = [a + b for a, b in zip(mine, counts, strict=True)]

    @property
    def table(self) -> dict[Line, tuple[int, int, int]]:
        """Messages, bytes and numbers of every line."""
        return {Line(*key): (counts[0], counts[1], counts[2]) for key, counts in self.lines.items()}

    @property
    def messages(self) -> dict[Line, int]:
        return {line: counts[0] for line, counts in self.table.items()}
