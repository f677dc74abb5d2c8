"""What the coordinator's log says of a run: proposed, reserved, how far it has come now and then, how it ended.

Counts, and whole seconds: that is what whoever runs the coordinator sees anyway, and what the clock of every line of
the log tells. A log is not covered by what a private run promises, since how long a step takes may depend on data; keep
it as the coordinator's store is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import ending_in_words
from colonnade.runtime.traffic import Communication, Traffic
from colonnade.runtime.wire import Letter

PAUSE = 10.0  # seconds at least between two lines about how far a run has come

log = logging.getLogger("colonnade.network.hub")


class RunLog:
    """One run, as the coordinator's log tells it."""

    def __init__(self, run: str, *, alone: bool) -> None:
        self.run, self.alone = run, alone  # alone: the parties of a graph, without a coordinator
        self.round = 0
        self.traffic: Traffic | None = None
        self.began = self.told = time.monotonic()
        self.ended = False

    def proposed(self, method: str, parties: int) -> None:
        log.info("proposed", extra={"run": self.run, "method": method, "parties": parties})

    def reserved(self) -> None:
        """All parties have approved and reserved, now or before it was interrupted: from here on things leave them."""
        self.told = time.monotonic()
        log.info("reserved by all", extra={"run": self.run, "seconds": self._seconds})

    def carried(self, letters: Iterable[Letter]) -> None:
        """Letters on their way to a party: the coordinator's own count of rounds is taken, where there is one."""
        counted = [letter.round for letter in letters if self.alone or letter.sender == COORDINATOR]
        self.round = max([self.round, *counted])
        if time.monotonic() - self.told >= PAUSE:
            self.told = time.monotonic()
            log.info("under way", extra={"run": self.run, "round": self.round, "seconds": self._seconds})

    def over(self, how: str) -> None:
        self.ended = True
        sent = {}
        if self.traffic is not None:
            found = Communication.of(self.traffic)
            sent = {"rounds": found.rounds, "messages": found.messages, "bytes": found.bytes}
        log.info("over", extra={"run": self.run, "how": ending_in_words(how), **sent, "seconds": self._seconds})

    def left(self) -> None:
        """The coordinator lets go of the run; one that is not over can be taken up again."""
        if not self.ended:
            log.info("not over", extra={"run": self.run, "round": self.round, "seconds": self._seconds})

    @property
    def _seconds(self) -> int:
        return round(time.monotonic() - self.began)
