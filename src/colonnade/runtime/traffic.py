"""Every byte counted: messages, codec bytes and numbers by edge, message type and round.

Numbers are what papers count: each integer, float, truth value or array entry is one, an entry of a sparse block two,
its place and its value. Texts, keys and sealed contents are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from colonnade.errors import InvalidInput
from colonnade.privacy.values import numbers_in
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import HEADER_SIZE, Letter, type_name

if TYPE_CHECKING:
    import polars as pl


class TrafficRow(NamedTuple):
    """One kind of message on one edge in one round."""

    sender: str
    receiver: str
    type: str
    round: int


@dataclass
class Traffic:
    """Counts of what was sent; a letter sent again after a crash is counted once, as the first time."""

    # Messages, bytes and numbers by sender, receiver, kind and round.
    lines: dict[tuple[str, str, str, int], list[int]] = field(default_factory=dict)
    _last: tuple[object, str, int, int] = field(default=(None, "", 0, 0), compare=False, repr=False)

    def count(self, letter: Letter) -> None:
        body = letter.body
        if body is not self._last[0]:  # a broadcast is looked at once
            self._last = (body, letter.inside or type_name(body), len(body), numbers_in(body, HEADER_SIZE))
        _, kind, size, numbers = self._last
        key = (letter.sender, letter.receiver, kind, letter.round)
        counts = self.lines.setdefault(key, [0, 0, 0])
        counts[0] += 1
        counts[1] += size
        counts[2] += numbers

    def add(self, other: Traffic) -> None:
        """Count what another one counted, too."""
        for key, counts in other.lines.items():
            mine = self.lines.setdefault(key, [0, 0, 0])
            mine[:] = [a + b for a, b in zip(mine, counts, strict=True)]

    @property
    def table(self) -> dict[TrafficRow, tuple[int, int, int]]:
        """Messages, bytes and numbers of every line."""
        return {TrafficRow(*key): (counts[0], counts[1], counts[2]) for key, counts in self.lines.items()}

    @property
    def messages(self) -> dict[TrafficRow, int]:
        return {line: counts[0] for line, counts in self.table.items()}


@dataclass(frozen=True)
class Communication:
    """Everything that went over the wires, in codec bytes."""

    lines: tuple[tuple[str, str, str, int, int, int], ...]  # sender, receiver, type, round, messages, bytes
    numbers: tuple[int, ...] = field(default=(), repr=False)  # in each line's messages; a sparse entry counts two
    gaps: tuple[tuple[int, float], ...] = field(default=(), repr=False)  # round, and the certified gap known by its end

    @classmethod
    def of(cls, traffic: Traffic) -> Communication:
        table = traffic.table
        lines = sorted(table, key=lambda line: (line.round, line.sender, line.receiver, line.type))
        return cls(tuple((*line, *table[line][:2]) for line in lines), tuple(table[line][2] for line in lines))

    def along(self, notes: Sequence[Mapping[str, Any]], gap: float | None) -> Communication:
        """The same, with the gaps of a run's history and of its end."""
        seen = [(int(note["round"]), float(note["gap"])) for note in notes if note.get("gap") is not None]
        final = [] if gap is None else [(self.rounds, gap)]
        return replace(self, gaps=(*seen, *final))

    def to_reach(self, gap: float) -> Communication:
        """What had been sent by the end of the round whose certified gap is the first one at most `gap`."""
        if not self.gaps:
            raise InvalidInput("this run released no gaps; fit.communication.by('round') has what each round sent.")
        reached = next((number for number, found in self.gaps if found <= gap), None)
        if reached is None:
            least = min(found for _, found in self.gaps)
            raise InvalidInput(f"the gap never fell to {gap:g}; its least was {least:g}. Allow more rounds.")
        kept = [place for place, line in enumerate(self.lines) if line[3] <= reached]
        numbers = tuple(self.numbers[place] for place in kept) if self.numbers else ()
        before = tuple(pair for pair in self.gaps if pair[0] <= reached)
        return Communication(tuple(self.lines[place] for place in kept), numbers, before)

    @property
    def bytes(self) -> int:
        return sum(line[5] for line in self.lines)

    @property
    def messages(self) -> int:
        return sum(line[4] for line in self.lines)

    @property
    def rounds(self) -> int:
        return max((line[3] for line in self.lines), default=0)

    def table(self) -> pl.DataFrame:
        """One row for each edge, message type and round: messages, codec bytes, numbers (a sparse entry counts two)."""
        import polars as pl

        names = ["sender", "receiver", "type", "round", "messages", "bytes"]
        kinds = [pl.String, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int64]
        columns = list(zip(*self.lines, strict=True)) if self.lines else [()] * len(names)
        if len(self.numbers) == len(self.lines):  # a fit from an older file does not say
            names, kinds, columns = [*names, "numbers"], [*kinds, pl.Int64], [*columns, self.numbers]
        return pl.DataFrame(
            [pl.Series(name, column, dtype=kind) for name, column, kind in zip(names, columns, kinds, strict=True)]
        )

    def by(self, *columns: str) -> pl.DataFrame:
        """Messages, bytes and numbers by `columns`: "party", "direction", "type", "round", ..."""
        import polars as pl

        up, down = pl.col("receiver") == COORDINATOR, pl.col("sender") == COORDINATOR
        table = self.table().with_columns(
            direction=pl.when(up).then(pl.lit("up")).when(down).then(pl.lit("down")).otherwise(pl.lit("across")),
            party=pl.when(up).then(pl.col("sender")).otherwise(pl.col("receiver")),
        )
        if unknown := [column for column in columns if column not in table.columns]:
            raise InvalidInput(f"cannot sum by {unknown[0]!r}; choose among {', '.join(table.columns)}")
        sums = [name for name in ("messages", "bytes", "numbers") if name in table.columns]
        return table.group_by(columns, maintain_order=True).agg(pl.col(sums).sum())

    def __repr__(self) -> str:
        return f"Communication({self.messages:,} messages, {self.bytes:,} bytes, {self.rounds:,} rounds)"
