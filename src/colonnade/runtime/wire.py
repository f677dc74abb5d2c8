"""Messages and letters as bytes, and every byte counted.

A message is: version (1 byte), number in the table (2), then its fields in declared order (privacy/values.py). A letter
is what an edge carries: a message with its place on the edge and its round. Between organisations it travels as a
frame: run, address, place, round and digest, then the message. A letter that comes twice is dropped by its place; the
same place with other bytes is refused.

Messages, codec bytes and numbers are counted by edge, message type and round. Numbers are what papers count: each
integer, float, truth value or array entry is one, an entry of a sparse block two, its place and its value. Texts, keys
and sealed contents are none.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from colonnade.errors import ColonnadeError, InvalidInput, LeakError, WireError
from colonnade.notebook import Grid, shown
from colonnade.privacy.values import Released, append_value, numbers_in, read_value
from colonnade.runtime.program import BY_CODE, BY_TYPE, COORDINATOR, Failed, Sealed, Shape

if TYPE_CHECKING:
    import polars as pl


VERSION = 1
LARGEST = 64 << 20
SEALING = 1 << 10  # at most what sealing adds to a message: a key, two tags, and the form around them
_HEADER = struct.Struct("<BH")
HEADER_SIZE = _HEADER.size
_CHECK = 16  # bytes of a SHA-256, for which today's processors have instructions
LAST_SEQUENCE = 1 << 53  # of an edge: no run gets there, and a record of it fits a column
LAST_ROUND = 1 << 32  # no run gets there; a receiver counts on from the number that a letter carries
LONGEST_NAME = 200


def encode(message: Any, *, guarded: bool) -> bytes:
    """The bytes of a message. A guarded node (one that holds data) may only send fields that passed its gate."""
    shape = BY_TYPE.get(type(message))
    if shape is None:
        raise WireError(f"{type(message).__name__} is not in the table of messages; declare it with @message(number)")
    values = tuple(getattr(message, field.name) for field in shape.fields)
    if guarded and shape.cls is not Failed:
        _check_guard(shape, values)
    _check_fields(shape, values)
    out: list[bytes | memoryview] = [_HEADER.pack(VERSION, shape.code)]
    for value in values:
        append_value(value, out)
    body = b"".join(out)
    if len(body) > _largest(shape.cls):
        raise WireError(f"{shape.cls.__name__} takes {len(body):,} bytes; over {LARGEST:,} must go as row blocks")
    return body


def _check_fields(shape: Shape, values: tuple[Any, ...]) -> None:
    """Every value is what its field declares, and passed a gate where the field says so."""
    for declared, value in zip(shape.fields, values, strict=True):
        if not declared.accepts(value):
            place = f"{shape.cls.__name__}.{declared.name}"
            if declared.released and not _is_released(value):
                raise LeakError(
                    f"{place} holds a bare {type(value).__name__}; pass it through the gate (gate.exact, "
                    "gate.gaussian, ...). Nothing was sent."
                )
            raise WireError(f"{place} is declared {declared.declared} and holds {_kind(value)}")


def _is_released(value: Any) -> bool:
    return type(value) is Released or (type(value) is tuple and all(type(item) is Released for item in value))


def _kind(value: Any) -> str:
    return f"Released[{_kind(value.value)}]" if type(value) is Released else type(value).__name__


def _check_guard(shape: Shape, values: tuple[Any, ...]) -> None:
    for declared, value in zip(shape.fields, values, strict=True):
        items = value if type(value) is tuple else (value,)
        if not all(type(item) is Released for item in items):
            raise LeakError(
                f"{shape.cls.__name__}.{declared.name} holds a bare {type(value).__name__} and its sender holds data; "
                "pass it through the gate and declare the field Released. Nothing was sent."
            )


def public_digest(*said: object) -> bytes:
    """A hash of messages and public figures: what several nodes must have been told alike."""
    parts = [encode(one, guarded=False) if type(one) in BY_TYPE else repr(one).encode() for one in said]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


_recent: deque[tuple[bytes, Any]] = deque(maxlen=4)


def decode(body: bytes) -> Any:
    """The message of `body`. Never executes or imports anything; any bytes at all end in a message or a WireError."""
    # Messages are immutable, so the very same bytes object (a broadcast within one process) is decoded once.
    for known, message in tuple(_recent):
        if known is body:
            return message
    try:
        message = _decode(body)
    except ColonnadeError as error:
        raise error if isinstance(error, WireError) else WireError(f"malformed message: {error}") from error
    except (struct.error, ValueError, IndexError, OverflowError, MemoryError, TypeError) as error:
        raise WireError(f"malformed message: {type(error).__name__}") from error
    # Nothing that could change under the cache.
    if type(body) is bytes:
        _recent.append((body, message))
    return message


def _decode(body: bytes) -> Any:
    view = memoryview(body).toreadonly()
    if len(view) > LARGEST + SEALING:
        raise WireError(f"a message of {len(view):,} bytes; over {LARGEST:,} must come as row blocks")
    if len(view) < _HEADER.size:
        raise WireError(f"a message of {len(view)} bytes is shorter than its header")
    version, code = _HEADER.unpack_from(view)
    if version != VERSION:
        raise WireError(f"wire version {version}, this side speaks {VERSION}; bring both sides to the same release")
    shape = BY_CODE.get(code)
    if shape is None:
        raise WireError(f"unknown message number {code}; bring both sides to the same release")
    if len(view) > _largest(shape.cls):
        raise WireError(f"a message of {len(view):,} bytes; over {LARGEST:,} must come as row blocks")
    at = _HEADER.size
    values = []
    for _ in shape.fields:
        value, at = read_value(view, at)
        values.append(value)
    if at != len(view):
        raise WireError(f"{len(view) - at:,} bytes left over behind {shape.cls.__name__}")
    try:
        _check_fields(shape, tuple(values))
    except LeakError as error:
        raise WireError(f"{shape.cls.__name__}: a field that must be released came unmarked") from error
    return shape.cls(*values)


def _largest(kind: type) -> int:
    """The most bytes of a message: whatever may be sent may also be sent sealed."""
    return LARGEST + SEALING if kind is Sealed else LARGEST


def type_name(body: bytes) -> str:
    """The name of the message type in `body`, without decoding it."""
    if len(body) < _HEADER.size:
        raise WireError(f"a message of {len(body)} bytes is shorter than its header")
    shape = BY_CODE.get(_HEADER.unpack_from(body)[1])
    if shape is None:
        raise WireError("unknown message number")
    return shape.cls.__name__


Address = Annotated[str, Meta(max_length=LONGEST_NAME)]
Check = Annotated[bytes, Meta(min_length=_CHECK, max_length=_CHECK)]


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A letter between two organisations: whose it is and where it stands, then the message."""

    run: Check  # what stands for the run's id
    sender: Address
    receiver: Address
    inside: Address
    sequence: Annotated[int, Meta(ge=0, le=LAST_SEQUENCE)]
    round: Annotated[int, Meta(ge=0, le=LAST_ROUND)]
    check: Check  # what stands for the body
    body: bytes


@dataclass(slots=True, repr=False)  # not frozen: to make one would take as long as to hash a short message
class Letter:
    """One message on its way: from whom to whom, its place on that edge, counted from 0, and its round."""

    sender: str
    receiver: str
    sequence: int
    round: int
    body: bytes
    inside: str = ""  # the kind of message that a sealed one holds: its sender knows, for the count of bytes
    _sha256: bytes = field(default=b"", compare=False)  # empty until it is asked for

    @property
    def sha256(self) -> bytes:
        """The hash of its body, computed once."""
        if not self._sha256:
            self._sha256 = hashlib.sha256(self.body).digest()
        return self._sha256

    @property
    def check(self) -> bytes:
        """16 bytes that stand for its body."""
        return self.sha256[:_CHECK]

    def again(self, receiver: str, sequence: int, inside: str) -> Letter:
        """The same message on another edge: a broadcast is hashed once for all its letters."""
        letter = Letter(self.sender, receiver, sequence, self.round, self.body, inside)
        letter._sha256 = self.sha256
        return letter

    def with_body(self, body: bytes, inside: str) -> Letter:
        """Other bytes at the same place: what it holds sealed, opened or told of."""
        return Letter(self.sender, self.receiver, self.sequence, self.round, body, inside)

    def frame(self, run: str) -> Frame:
        """The letter as it travels between organisations."""
        return Frame(
            run_key(run), self.sender, self.receiver, self.inside, self.sequence, self.round, self.check, self.body
        )

    @classmethod
    def read(cls, frame: Frame, run: str) -> Letter:
        """The letter of a frame, if it is of the run, and its message the one that its digest stands for."""
        if frame.run != run_key(run):
            raise WireError("a frame of another run")
        letter = cls(frame.sender, frame.receiver, frame.sequence, frame.round, frame.body, frame.inside)
        if letter.check != frame.check:
            raise WireError("a frame whose content does not match its digest: damaged on the way")
        return letter


@lru_cache(maxsize=64)
def run_key(run: str) -> bytes:
    """16 bytes that stand for a run's id."""
    return hashlib.sha256(run.encode()).digest()[:_CHECK]


# ------------------------------------------------------------------------------------------------ every byte counted


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
            self._add_line(key, counts)

    def _add_line(self, key: tuple[str, str, str, int], counts: Sequence[int]) -> None:
        mine = self.lines.setdefault(key, [0, 0, 0])
        mine[:] = [a + b for a, b in zip(mine, counts, strict=True)]

    def in_lines(self, most: int) -> Traffic:
        """The same counts in at most so many lines, where there are no more edges and kinds: in a very long run 2, 4, 8
        and so on rounds stand together, under the last of them; what comes before the first stays alone."""
        last = max((line[3] for line in self.lines), default=0)
        found = self
        together = 1
        while len(found.lines) > most and together <= last:
            together *= 2
            found = found._by_rounds(together)
        return found

    def _by_rounds(self, together: int) -> Traffic:
        ends: dict[tuple[str, str, str, int], int] = {}
        for sender, receiver, kind, number in self.lines:
            block = (sender, receiver, kind, -(-number // together))
            ends[block] = max(number, ends.get(block, 0))
        made = Traffic()
        for (sender, receiver, kind, number), counts in self.lines.items():
            end = ends[sender, receiver, kind, -(-number // together)]
            made._add_line((sender, receiver, kind, end), counts)
        return made

    @property
    def table(self) -> dict[TrafficRow, tuple[int, int, int]]:
        """Messages, bytes and numbers of every line."""
        return {TrafficRow(*key): (counts[0], counts[1], counts[2]) for key, counts in self.lines.items()}

    @property
    def messages(self) -> dict[TrafficRow, int]:
        return {line: counts[0] for line, counts in self.table.items()}


@dataclass(frozen=True)
class Communication:
    """Everything that went over the wires, in codec bytes.

    Parameters
    ----------
    lines
        Sender, receiver, type, round, messages and bytes, for each edge, message type and round. Between organisations,
        what a party sent in a very long run stands by several rounds, under the last of them.
    numbers
        How many numbers the messages of each line held; a sparse entry counts two.
    gaps
        Rounds, and the certified gap known by the end of each.
    """

    lines: tuple[tuple[str, str, str, int, int, int], ...]
    numbers: tuple[int, ...] = field(default=(), repr=False)
    gaps: tuple[tuple[int, float], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, traffic: Traffic) -> Communication:
        """What was counted, in order.

        Parameters
        ----------
        traffic
            The counts of a run.
        """
        table = traffic.table
        lines = sorted(table, key=lambda line: (line.round, line.sender, line.receiver, line.type))
        return cls(tuple((*line, *table[line][:2]) for line in lines), tuple(table[line][2] for line in lines))

    def along(self, notes: Sequence[Mapping[str, Any]], gap: float | None) -> Communication:
        """The same, with the gaps of a run's history and of its end.

        Parameters
        ----------
        notes
            One mapping a round, with "round" and "gap".
        gap
            The gap at the end; None: it is not known.
        """
        seen = [(int(note["round"]), float(note["gap"])) for note in notes if note.get("gap") is not None]
        final = [] if gap is None else [(self.rounds, gap)]
        return replace(self, gaps=(*seen, *final))

    def to_reach(self, gap: float) -> Communication:
        """What had been sent by the end of the round whose certified gap is the first one at most `gap`.

        Parameters
        ----------
        gap
            How far from the optimum the objective may be, in its own unit.

        Raises
        ------
        InvalidInput
            The run released no gaps, or none as small.
        """
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
        """Bytes of all messages."""
        return sum(line[5] for line in self.lines)

    @property
    def messages(self) -> int:
        """How many messages were sent."""
        return sum(line[4] for line in self.lines)

    @property
    def rounds(self) -> int:
        """The number of the last round."""
        return max((line[3] for line in self.lines), default=0)

    def _repr_html_(self) -> str:
        sums: dict[tuple[str, str], list[int]] = {}
        for sender, receiver, kind, _, messages, size in self.lines:
            one = sums.setdefault((f"{sender} → {receiver}", kind), [0, 0])
            one[0], one[1] = one[0] + messages, one[1] + size
        rows = [(*edge, f"{messages:,}", f"{size:,}") for edge, (messages, size) in sums.items()]
        facts = {"messages": f"{self.messages:,}", "bytes": f"{self.bytes:,}", "rounds": f"{self.rounds:,}"}
        return shown(
            "What was sent", facts, [Grid("by edge and message", ("edge", "message", "messages", "bytes"), rows, 2)]
        )

    def table(self) -> pl.DataFrame:
        """One row for each edge, message type and round: messages, codec bytes, numbers (a sparse entry counts two)."""
        import polars as pl

        names = ["sender", "receiver", "type", "round", "messages", "bytes"]
        kinds = [pl.String, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int64]
        columns = list(zip(*self.lines, strict=True)) if self.lines else [()] * len(names)
        if len(self.numbers) == len(self.lines):  # a fit from an older file does not say
            names = [*names, "numbers"]
            kinds = [*kinds, pl.Int64]
            columns = [*columns, self.numbers]
        return pl.DataFrame(
            [pl.Series(name, column, dtype=kind) for name, column, kind in zip(names, columns, kinds, strict=True)]
        )

    def by(self, *columns: str) -> pl.DataFrame:
        """Messages, bytes and numbers by `columns`.

        Parameters
        ----------
        *columns
            Of "party", "direction" (up to the coordinator, down from it, across), "sender", "receiver", "type",
            "round".
        """
        import polars as pl

        up = pl.col("receiver") == COORDINATOR
        down = pl.col("sender") == COORDINATOR
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
