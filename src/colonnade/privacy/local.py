"""One data holder, one fit: a run in a ledger without a conversation.

The plan is reserved before anything is computed, every release takes its line before noise is drawn, and the rows of all
releases are written in one transaction before the caller sees a model. A run that is interrupted is closed with what it
had drawn; if even that cannot be written, its whole reservation stays spent. So a ledger may say too much, never too little.

The ledger is a file, or memory that lives with its owner. Nothing here can be resumed: a fit that failed is made again
and paid for again. So the file keeps the events and not the bytes that were released.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from os import PathLike

from colonnade.privacy.events import Plan, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import Noise
from colonnade.privacy.store import FileLog, Log, MemoryLog

HOLDER = "holder"


class EventLog(FileLog):
    """A ledger's file that keeps what was paid for and not what was released."""

    durable = False


@dataclass(frozen=True)
class Total:
    """What a ledger has seen: the price of everything, and the number of runs."""

    rho: float
    runs: int


@dataclass
class LocalLedger:
    """The ledger of one data holder: a file if there is a path, else memory that lives as long as this object."""

    path: str | PathLike[str] | None = None
    memory: MemoryLog = field(default_factory=MemoryLog)

    @contextmanager
    def run(self, terms: Terms, plan: Plan, noise: Noise) -> Iterator[Gate]:
        """A gate for one fit that may release what the plan lists; BudgetExhausted before any noise."""
        with self._log() as log:
            ledger, run = Ledger(log, HOLDER, Policy()), secrets.token_hex(16)
            ledger.open_run(run, terms, {HOLDER: plan})
            gate = Gate(ledger, run, noise)
            gate.begin(0, 1, None)
            how = "interrupted"
            try:
                yield gate
                how = "done"
            finally:
                with log.atomic():
                    gate.flush()
                    ledger.close_run(run, how)

    def total(self) -> Total:
        """All runs of the ledger so far; runs that never closed count with their whole plan."""
        with self._log() as log:
            ledger = Ledger(log, HOLDER, Policy())
            return Total(ledger.budget().lifetime_rho, len(log.rows(kind="open")))

    def set_limit(self, epsilon: float, delta: float) -> None:
        """The owner's limit for everything that this ledger records."""
        with self._log() as log:
            Ledger(log, HOLDER, Policy()).set_budget(epsilon, delta)

    @contextmanager
    def _log(self) -> Iterator[Log]:
        if self.path is None:
            yield self.memory
        else:
            with closing(EventLog(self.path)) as log:
                yield log
