"""What label holder and party of a standing order remember of each other: a store put back from an old copy is noticed.

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

import json
import struct
import threading
from typing import NamedTuple

from colonnade.errors import LedgerDamaged, WireError
from colonnade.network.replaced_ledger import keyed_head
from colonnade.network.score_order import Approved

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
        self._met: set[str] = set()  # of whom this process has heard what they saw

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
            return  # no message waits for a transaction of another process, unless it brings news
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
