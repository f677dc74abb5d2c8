"""Receipts: what a node has heard, written down before anything of it is read.

A step of a receiver is recorded when its program has read what came, so a process that dies in between has seen
messages of which its record says nothing. If a sender's file is then an old copy, it draws its noise anew, for the same
charge, and whoever has seen both subtracts. So where noise is drawn a receiver first writes down place and digest of
every letter, and when the run is taken up again nobody may have heard more, or something else, than its sender
remembers.

Kind of row: `got` (tick: the letter's place on its edge; key: sender and receiver).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from colonnade.errors import LedgerDamaged
from colonnade.privacy.store import Log
from colonnade.runtime.messages import Failed
from colonnade.runtime.wire import HEADER_SIZE, Letter, encode

Edge = tuple[str, str]  # sender and receiver
_FAREWELL = encode(Failed(0), guarded=False)[:HEADER_SIZE]


class Receipts:
    """Which letters came in one run, by edge and place."""

    def __init__(self, log: Log, run: str, *, kept: bool) -> None:
        """kept  False where messages follow from what was heard: an old copy says the same again."""
        self._log, self._run = log, run
        self._kept = kept and log.durable
        self._known: dict[Edge, dict[int, bytes]] | None = None

    def note(self, came: Iterable[Letter]) -> None:
        """Write down what is new; other bytes for a place that is known mean that its sender's record is an old copy.

        A farewell is in no record of its sender's, and says nothing of data.
        """
        if not self._kept:
            return
        new: dict[tuple[Edge, int], bytes] = {}
        for letter in came:
            edge, place = (letter.sender, letter.receiver), letter.sequence
            known = self._heard()[edge].get(place)
            if known not in (None, letter.check):
                raise old_copy(*edge, place + 1, place)
            if known is None and not letter.body.startswith(_FAREWELL):
                new[edge, place] = letter.check
        if not new:
            return
        with self._log.atomic():
            for (edge, place), check in new.items():
                self._log.append(self._run, place, "got", json.dumps(edge), check)
        for (edge, place), check in new.items():
            self._heard()[edge][place] = check

    def counts(self) -> dict[Edge, int]:
        """How many letters have come on each edge, in all lives of this node."""
        return {edge: len(places) for edge, places in self._heard().items()} if self._kept else {}

    def _heard(self) -> dict[Edge, dict[int, bytes]]:
        if self._known is None:
            self._known = defaultdict(dict)
            for row in self._log.rows(self._run, "got"):
                sender, receiver = json.loads(row.key)
                self._known[sender, receiver][row.tick] = row.body
        return self._known


def old_copy(sender: str, receiver: str, heard: int, recorded: int) -> LedgerDamaged:
    """The sender of a message does not remember it as its receiver does."""
    return LedgerDamaged(
        f"{receiver!r} received {heard:,} messages from {sender!r}, whose record holds {recorded:,} of them: "
        f"the record of {sender!r} is an old copy, and would draw its noise anew. Nothing was sent; restore "
        "the newest copy of its store."
    )
