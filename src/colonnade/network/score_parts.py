"""One party's side of scores on request: its quota, its rows, and its part of a score under one-time masks.

Solves   part = whole(a_r·x) + Σ± PRF(pair key; number, model, key of the row), modulo 2^64, for the row that is asked
         for. The label holder adds up the parts of all parties of a model, and the masks cancel.
Source   methods/masked_scores.py, whose masks these are, one row at a time.
Once     a request number is answered once. What was answered is kept while this process lives, and a retry gets the
         same bytes; after that the number is below the floor and gets nothing. Another row under the same number has
         another mask: it cancels with nobody's.
Quota    every new number counts, answered or refused, so that refusals cannot be used to try keys without end. Rows are
         reserved in blocks: a row of the ledger's chain, synced before the first of them is answered. What a process
         had not used when it died is lost, and the day's quota is never exceeded, by however many processes.
Leaves   masked parts, or a fixed word why there is none: no such row, a row that a model was learned from in which the
         label holder took part, quota, number, ended. To the label holder alone. A row that was learned from without
         it is no such row: who is in a third party's table is none of its business.

What label holder and party of a standing order remember of each other: a store put back from an old copy is noticed.

Solves   an old copy of a store has forgotten which rows of the day were used since. With every message both say where
         their own ledger stood when it reserved rows last, and where they saw the other's. Each keeps the newest place
         of the other on disk before it uses what came with it. Whoever lacks a row that the other saw was put back: it
         answers, or asks, no more. A process says where it stands only to those of whom it has heard what they saw: a
         place of a store that was put back never takes the place of what it would be known by.
Source   privacy/ledger.py, `remember` and `check_head`, between runs.
Leaves   a place: how many rows a ledger had, and their head under a key of its own.
Not      noticed: copies of one moment of the party and the label holder, where no third party saw the label holder
         since; a block of which nothing was said, such as the first one of a label holder's process until its second
         message. Quotas hold then at all others.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import struct
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from colonnade.data import row_order
from colonnade.errors import ColonnadeError, InvalidInput, LedgerDamaged, StoreError, WireError
from colonnade.kernels.arrays import Floats
from colonnade.methods.masked_scores import MaskedScores, whole
from colonnade.network.party_data import PartyData, Scoring, part_path, read_part, rows_path
from colonnade.network.replaced_ledger import keyed_head
from colonnade.network.score_order import Approved, Order, today
from colonnade.privacy.block import Block
from colonnade.privacy.events import SCORES
from colonnade.privacy.keyring import Keyring
from colonnade.privacy.ledger import ADMIN
from colonnade.privacy.store import FileLog

_PLACES = struct.Struct("<Q32sQ32s")
PLACES = _PLACES.size
NOWHERE = bytes(PLACES)  # of whoever has reserved nothing and seen nobody
_MOST = 2**53  # rows of a ledger


class Place(NamedTuple):
    """Where a ledger stands; at 0 rows, nowhere."""

    rows: int = 0
    head: bytes = bytes(32)


class Witness:
    """Where this party's quota stands, where it saw those of others, and what they saw of it."""

    def __init__(self, approved: Approved, lock: threading.Lock) -> None:
        """lock  of all who write to the ledger in this process."""
        self._log = approved.log
        self._ledger = approved.ledger
        self._lock = lock
        self._note = f"seen in {approved.order.run}"
        try:
            kept = json.loads(self._log.noted(self._note) or b"{}")
            self._seen = {peer: Place(int(count), bytes.fromhex(head)) for peer, (count, head) in kept.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise LedgerDamaged(
                f"what the ledger of {approved.name!r} kept of others under the order {approved.order.id} cannot be "
                "read, so an old copy of theirs would not be noticed. Nothing is released: restore the newest copy of "
                "the file."
            ) from error
        self._own = self._found = Place()
        # Of whom this process has heard what they saw.
        self._met: set[str] = set()

    def stands_at(self, count: int) -> None:
        """Row `count` is the last by which this party reserved rows of a day."""
        self._own = Place(count, keyed_head(self._log, count))

    def places_for(self, peer: str) -> bytes:
        """What a message to a peer says: its first bytes."""
        return _PLACES.pack(*(self._own if peer in self._met else Place()), *self._seen.get(peer, Place()))

    def hear(self, peer: str, raw: bytes) -> None:
        """What a message of a peer says: this ledger must hold what it saw, and where it stands is kept."""
        count, head, seen_count, seen_head = _PLACES.unpack(raw)
        came = Place(count, head)
        seen = Place(seen_count, seen_head)
        if max(count, seen_count) >= _MOST:
            raise WireError("a place in a ledger that no ledger has")
        if self._knows(peer, came, seen):
            # No message waits for a transaction of another process, unless it brings news.
            return
        with self._lock:
            if seen.rows and seen != self._found:
                if keyed_head(self._log, seen.rows) != seen.head:
                    self._ledger.check_head(seen.rows, seen.head, peer)
                self._found = seen
            self._met.add(peer)
            if came.rows > self._seen.get(peer, Place()).rows:
                known = {**self._seen, peer: came}
                plain = {name: [place.rows, place.head.hex()] for name, place in known.items()}
                self._log.note(self._note, json.dumps(plain).encode())
                self._seen = known

    def _knows(self, peer: str, came: Place, seen: Place) -> bool:
        found = not seen.rows or seen == self._found
        return found and peer in self._met and came.rows <= self._seen.get(peer, Place()).rows


WINDOW = 1 << 16  # numbers whose answers are kept; those before them get nothing
FAR = 1 << 40  # numbers that are skipped at a time at most: 2^64 last for ever
DIGEST = 16
_MAGIC = b"csq2"
_REPLY = b"csa2"
_ITEM = struct.Struct(f"<QH{DIGEST}s")
_ANSWER = struct.Struct("<QBQ")
_MASK = struct.Struct("<QH")
_LARGEST = 1 << 63
_COARSE = 2 * 10**9  # nanoseconds


class Why(IntEnum):
    """What came of a request for a part."""

    OK = 0
    NO_ROW = 1
    TRAINING = 2
    QUOTA = 3
    NUMBER = 4
    MODEL = 5
    ENDED = 6
    LATE = 7  # it did not come: in the label holder's trail alone


@dataclass(frozen=True, slots=True)
class Ask:
    """One row: the request's number, by which model, and the row's digest, which label holder and party share."""

    number: int
    model: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """The answer: why, and the masked part if all is well."""

    number: int
    why: Why
    value: int = 0


def pack_asks(order: Order, asks: Sequence[Ask], places: bytes = NOWHERE) -> bytes:
    return _MAGIC + order.digest + places + b"".join(_ITEM.pack(one.number, one.model, one.digest) for one in asks)


def unpack_asks(order: Order, raw: bytes) -> list[Ask]:
    return [Ask(*fields) for fields in _fields(order, raw, _MAGIC, _ITEM)]


def pack_parts(order: Order, parts: Sequence[Part], places: bytes = NOWHERE) -> bytes:
    return _REPLY + order.digest + places + b"".join(_ANSWER.pack(one.number, one.why, one.value) for one in parts)


def unpack_parts(order: Order, raw: bytes) -> list[Part]:
    found = _fields(order, raw, _REPLY, _ANSWER)
    if any(why >= Why.LATE for _, why, _ in found):
        raise WireError("an answer of a kind that this version does not know")
    return [Part(number, Why(why), value) for number, why, value in found]


def _fields(order: Order, raw: bytes, magic: bytes, item: struct.Struct) -> list[tuple[Any, ...]]:
    body = raw[36 + PLACES :]
    if raw[:4] != magic or raw[4:36] != order.digest or len(raw) < 36 + PLACES or len(body) % item.size:
        raise WireError("bytes that are no message of this order")
    return list(item.iter_unpack(body))


def places_in(raw: bytes) -> bytes:
    """What a message of an order says of ledgers."""
    return raw[36 : 36 + PLACES]


def only_process(approved: Approved) -> IO[str]:
    """The lock of an order at a party: numbers that were answered are known to one process alone."""
    held = approved.store.lock(approved.order.run)
    if held is None:
        raise StoreError(f"another process answers for the order {approved.order.id} from this store. Stop it.")
    return held


# ------------------------------------------------------------------------------------ quota


class Quota:
    """Rows of a day, reserved in durable blocks; and request numbers, of which those below `floor` may be used up."""

    def __init__(self, approved: Approved, clock: Callable[[], str] = today) -> None:
        self._log = approved.log
        self._order = approved.order
        self._clock = clock
        self._ledger = None if approved.name == approved.file.label[0] else approved.ledger
        self._size = max(1, approved.order.rows_a_day // 100)
        self._used: Counter[str] = Counter()  # by day, of all processes
        self._blocks = self._read = self._last = self.floor = 0
        self._lock = threading.Lock()
        self.witness = Witness(approved, self._lock)
        self._look()
        if self._last:
            self.witness.stands_at(self._last)
        # Numbers below the first may be used; the second is the next to give.
        self._below = self._next = self.floor
        self._day = ""
        self._left = 0

    def take(self, rows: int, number: int | None = None) -> int | None:
        """Use up `rows` rows: the first of as many numbers, or None if the day has no more.

        number  the number of one row that somebody else has given it; None: the next ones are given here.
        """
        with self._lock:
            day = max(self._clock(), self._day)
            if day != self._day:
                # what is left of a block belongs to its day
                self._day = day
                self._left = 0
            first = self._next if number is None else number
            if (rows > self._left or first + rows > self._below) and not self._reserve(rows, first):
                return None
            self._left -= rows
            self._next = max(self._next, first + rows)
            return first

    def _reserve(self, rows: int, first: int) -> bool:
        wanted = max(0, rows - self._left)
        with self._log.atomic():
            self._look()
            more = min(max(wanted, self._size), self._order.rows_a_day - self._used[self._day]) if wanted else 0
            if more < wanted or max(self._used, default="") > self._day:
                # The day is used up, or the clock went back to one that is over.
                return False
            below = max(first + rows, self._below) + self._size
            # The mark tells this block from one that an old copy of the store, put back, would write in its place.
            body = {"day": self._day, "rows": more, "below": below, "mark": secrets.token_hex(8)}
            self._log.append(self._order.run, ADMIN, "quota", str(self._blocks), json.dumps(body).encode())
            if self._ledger is not None and more:
                words = f"parts of scores, up to {more:,} of {self._day}"
                self._ledger.record(self._order.run, self._blocks, 0, SCORES, words, self._blocks)
            last = self._log.length()
        self.witness.stands_at(last)
        self._left = self._left + more
        self._below = below
        return True

    def _look(self) -> None:
        """Read the blocks that were reserved since the last look, by this process or another."""
        length = self._log.length()
        for row in self._log.rows_between(self._read, length, ("quota",)):
            if row.run == self._order.run:
                body = json.loads(row.body)
                self._used[body["day"]] += body["rows"]
                self.floor, self._blocks, self._last = max(self.floor, body["below"]), self._blocks + 1, row.seq
        self._read = length

    def skip(self, floor: int) -> None:
        """Give no number below `floor`, which another party has used up; one that is far away is not believed."""
        with self._lock:
            if floor < self._next + FAR:
                self._next = max(self._next, floor)

    def left(self) -> int:
        """What the day has left, this block included."""
        with self._lock:
            self._look()
            day = max(self._clock(), self._day)
            return self._order.rows_a_day - self._used[day] + (self._left if day == self._day else 0)


# ------------------------------------------------------------------------------------ rows and models


class Rows:
    """A party's rows by key: encoded once, with its coefficients of every model of the order."""

    def __init__(self, data: PartyData, order: Order, store: Path) -> None:
        if data.file.on is None:
            raise InvalidInput("scores on request are for rows with a key: the federation file has no on = ...")
        self.order = order
        self.keys = row_order.canonical(data.keys)
        if double := len(self.keys) - len(set(self.keys)):
            raise InvalidInput(f"{double:,} rows repeat a key, so it is not known which is meant. Use a finer key.")
        schema = data.member.schema
        assert schema is not None  # with a key there is one
        bent = schema.with_curve_depth(order.depth)
        matrix = bent.encode(data.table).matrix if bent.width else np.zeros((data.rows, 0))
        scoring = Scoring(data, store)
        own = scoring.equip(MaskedScores(order.model, order.intercept, curves=order.depth))
        self.intercepts = [own.intercept, *(one.intercept for one in order.fallbacks)]
        models: list[Floats | None] = [own.coefficients[data.name]]
        for one in order.fallbacks:
            part = np.asarray(one.coefficients.get(data.name, ()), np.float64)
            if data.name not in one.without and part.size != matrix.shape[1]:
                raise InvalidInput(f"a fallback has {part.size:,} coefficients for {data.name!r}, not its columns'.")
            models.append(None if data.name in one.without else part)
        # All parts at once: a table that changes while this process lives changes no answer of its.
        block = Block(matrix, np.arange(matrix.shape[1]))
        self.parts = [None if x is None else whole(block.scores(x)) for x in models]
        self.training = Learned(data, scoring.models, order)


class Learned:
    """Which rows the order's model was learned from, or any other model of which this party keeps the record.

    An exact score of a row by one model voids the promise that was made about it when another learned from it. A run
    that ends while this process lives adds its record, which is then read.
    """

    def __init__(self, data: PartyData, models: Path, order: Order) -> None:
        self._data = data
        self._path = rows_path(models, order.model)
        self._order = order
        self._holder = data.file.members[data.file.label[0]].key
        self._found = np.zeros(data.rows, np.bool_)
        # Of them those that the label holder knows of.
        self._shared = np.zeros(data.rows, np.bool_)
        self._read = set[Path]()
        self._stamp = 0
        if not (order.training_rows or self._path.is_file()):
            raise InvalidInput(
                f"{data.name!r} has no record of the rows that run {order.model} was learned from, so it cannot "
                "refuse them. Learn again with this version, or make an order that lets training rows be scored."
            )
        self._look()

    def __getitem__(self, place: int) -> bool:
        self._look()
        return bool(self._found[place])

    def why(self, place: int) -> Why:
        """What the label holder is told of such a row: that it was learned from, if it took part and knows the rows."""
        return Why.TRAINING if self._shared[place] else Why.NO_ROW

    def _look(self) -> None:
        if self._order.training_rows or (stamp := self._path.parent.stat().st_mtime_ns) == self._stamp:
            return
        for one in sorted(set(self._path.parent.glob("*.rows")) - self._read):
            raw = one.read_bytes()
            if len(raw) % row_order.DIGEST or len(raw) < row_order.SECRET:
                raise InvalidInput(f"{one} is no record of rows that a model was learned from. Put its copy back.")
            known = np.frombuffer(raw[row_order.SECRET :], np.uint8).reshape(-1, row_order.DIGEST)
            mine = row_order.digests(self._data.keys, raw[: row_order.SECRET], "training")
            found = np.isin(row_order.as_words(mine), row_order.as_words(known))
            if self._has_holder(one):
                self._shared |= found
            # Last: another thread asks by it what to say.
            self._found |= found
            self._read.add(one)
        # Last: another thread that comes meanwhile looks, too. A stamp is coarse: a new one may hide a record.
        self._stamp = stamp if time.time_ns() - stamp > _COARSE else 0

    def _has_holder(self, record: Path) -> bool:
        """Whether the label holder took part in the run of a record, as the part of its model says; if it says nothing,
        it did not."""
        if record == self._path:
            return True
        try:
            part = read_part(part_path(record.parent.parent, record.stem), self._data.name)
        except ColonnadeError:
            return False
        return self._holder in part.get("members", ())


def row_digest(pair: bytes, key: bytes) -> bytes:
    """A row as label holder and party call it: who lacks their secret cannot test guesses."""
    return hmac.digest(pair, key, "sha256")[:DIGEST]


class Masks:
    """The masks that one party adds for the others of a model: they cancel if all were asked for the same row."""

    def __init__(self, keyring: Keyring, approved: Approved) -> None:
        me = approved.name
        holder = approved.file.label[0]
        self._pairs: list[list[tuple[bytes, int]]] = []
        for model in range(1 + len(approved.order.fallbacks)):
            parties = [name for name in approved.order.parties(approved.file, model) if name != holder]
            pairs = []
            for other in parties if me in parties else ():
                if other != me:
                    pair = sorted((me, other), key=parties.index)
                    pairs.append((keyring.shared(other, "score masks", *pair), 1 if pair[0] == me else -1))
            self._pairs.append(pairs)

    def total(self, number: int, model: int, key: bytes) -> int:
        """Their sum, modulo 2^64: a function of request, model and row under keys that two parties have."""
        label = _MASK.pack(number, model) + key
        return sum(
            sign * int.from_bytes(hmac.digest(pair, label, "sha256")[:8], "little") for pair, sign in self._pairs[model]
        )


# ------------------------------------------------------------------------------------ answers


class Trail:
    """What was asked and what became of it: a chain of its own, which outlives the process, one row a message."""

    def __init__(self, folder: Path, order: Order, name: str) -> None:
        (folder / "scores").mkdir(exist_ok=True, mode=0o700)
        self.log = FileLog(trail_path(folder, order, name), synced=False)

    def note(self, asker: str, lines: Sequence[tuple[int, int, int, str]]) -> None:
        """Number, model, what became of it, and the row's digest, for every row of a message."""
        place = self.log.length()
        body = json.dumps({"asker": asker, "day": today(), "rows": [list(line) for line in lines]})
        self.log.append("asked", 0, "asked", str(place), body.encode())

    def close(self) -> None:
        self.log.close()


def trail_path(folder: Path, order: Order, name: str) -> Path:
    return folder / "scores" / f"{order.id}.{name.encode().hex()}.db"


def read_trail(folder: Path, order: Order, name: str) -> list[dict[str, Any]]:
    """Every row that was asked for, oldest first, after the chain was walked."""
    path = trail_path(folder, order, name)
    if not path.is_file():
        raise InvalidInput(f"nothing was asked by the order {order.id} here: there is no {path}.")
    lines = []
    with contextlib.closing(FileLog(path, synced=False)) as log:
        log.verify()
        for row in log.rows(kind="asked"):
            body = json.loads(row.body)
            for number, model, why, digest in body["rows"]:
                about = {"number": number, "model": model, "outcome": Why(why).name.lower(), "row": digest}
                lines.append({"day": body["day"], "asker": body["asker"], **about})
    return lines


class Answerer:
    """What a party other than the label holder answers."""

    def __init__(self, approved: Approved, data: PartyData, clock: Callable[[], str] = today) -> None:
        self.order = approved.order
        holder = approved.file.label[0]
        keyring = approved.keyring()
        self._approved = approved
        self._clock = clock
        self.rows = Rows(data, approved.order, approved.store.folder)
        self._masks = Masks(keyring, approved)
        pair = keyring.shared(holder, "score rows")
        self._places = {row_digest(pair, key): place for place, key in enumerate(self.rows.keys)}
        self.lock = only_process(approved)
        self.quota = Quota(approved, clock)
        self._kept: OrderedDict[int, tuple[Ask, Part]] = OrderedDict()
        self._floor = self.quota.floor
        self.trail = Trail(approved.store.folder, approved.order, approved.name)
        self.counts: Counter[str] = Counter()

    def answer(self, raw: bytes) -> bytes:
        """The parts of a message's rows; LedgerDamaged where this party's store was put back."""
        asks = unpack_asks(self.order, raw)
        holder = self._approved.file.label[0]
        self.quota.witness.hear(holder, places_in(raw))
        parts = [self._one(ask) for ask in asks]
        self.counts.update(part.why.name.lower() for part in parts)
        lines = [(p.number, a.model, int(p.why), a.digest.hex()) for a, p in zip(asks, parts, strict=True)]
        self.trail.note(holder, lines)
        return pack_parts(self.order, parts, self.quota.witness.places_for(holder))

    def _one(self, ask: Ask) -> Part:
        kept = self._kept.get(ask.number)
        if kept is not None:
            return kept[1] if kept[0] == ask else Part(ask.number, Why.NUMBER)
        if not self._floor <= ask.number < _LARGEST:
            return Part(ask.number, Why.NUMBER, self._floor)
        if self._clock() > self.order.until or self._approved.log.holds(self.order.run, "close"):
            return Part(ask.number, Why.ENDED)
        if self.quota.take(1, ask.number) is None:
            return Part(ask.number, Why.QUOTA)
        part = self._fresh(ask)
        self._kept[ask.number] = ask, part
        while len(self._kept) > WINDOW:
            self._floor = max(self._floor, self._kept.popitem(last=False)[0] + 1)
        return part

    def _fresh(self, ask: Ask) -> Part:
        parts = self.rows.parts[ask.model] if ask.model < len(self.rows.parts) else None
        if parts is None:
            return Part(ask.number, Why.MODEL)
        place = self._places.get(ask.digest)
        if place is None:
            return Part(ask.number, Why.NO_ROW)
        if self.rows.training[place]:
            return Part(ask.number, self.rows.training.why(place))
        masks = self._masks.total(ask.number, ask.model, self.rows.keys[place])
        return Part(ask.number, Why.OK, (int(parts[place]) + masks) % 2**64)

    def close(self) -> None:
        self.trail.close()
        self.lock.close()
