"""What a party's page shows beside its streams: runs, what is left of its budget, its ledger, questions that wait.

For the operator of this machine, on the loopback interface: what is left of a budget tells of past runs, and is no
secret of a row, but it is nobody's business outside. Counts and sums of the ledger only, and no figure of the table.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from colonnade.network.inbox import Inbox
from colonnade.network.status_page import StatusPage
from colonnade.privacy.accountant import epsilon
from colonnade.privacy.events import Policy
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.run_store import RunStore

FRESH = 5.0  # seconds for which what was read of a ledger is shown


class PartyStatus:
    """Reads the ledger of a party over a connection of its own, so that its answers are not held up."""

    def __init__(
        self, store: Path, name: str, policy: Policy, inbox: Inbox | None = None, identity: bytes | None = None
    ) -> None:
        """identity  the party's signing key: by its snapshot a long ledger is read in a moment."""
        self.path = RunStore.path_in(store, name)
        self.name = name
        self.policy = policy
        self.inbox = inbox
        self._identity = identity
        self._read: tuple[float, dict[str, float]] = (-FRESH, {})

    def show_on(self, page: StatusPage) -> None:
        for figure, meaning in (
            (
                "budget_epsilon_limit",
                "The most that runs may spend on a row in this period; left out where none is set.",
            ),
            ("budget_epsilon_left", "What is left of it, at its delta."),
            ("ledger_rows", "Rows of the ledger and its transcripts."),
            ("runs_open", "Runs that have reserved and are not over."),
        ):
            page.gauge(f"colonnade_{figure}", meaning, self._figure(figure), label="party")
        page.gauge("colonnade_ledger_bytes", "Size of the ledger and its transcripts.", lambda: size_of(self.path))
        if self.inbox is not None:
            page.gauge("colonnade_questions", "Questions to the operator.", self.inbox.counts, label="state")

    def _figure(self, figure: str) -> Callable[[], dict[str, float]]:
        return lambda: {self.name: found[figure]} if figure in (found := self.figures()) else {}

    def figures(self) -> dict[str, float]:
        """Read again only after some seconds: whoever asks for the page often must not keep the disk busy."""
        when, found = self._read
        if time.monotonic() - when < FRESH:
            return found
        with contextlib.closing(FileLog(self.path)) as log:
            ledger = Ledger(log, self.name, self.policy, identity=self._identity)
            budget = ledger.budget()
            found = {"ledger_rows": float(log.length()), "runs_open": float(len(ledger.open_runs()))}
        if budget.epsilon is not None and budget.delta is not None:
            left = epsilon(budget.left, budget.delta)
            found |= {"budget_epsilon_limit": budget.epsilon, "budget_epsilon_left": left}
        self._read = (time.monotonic(), found)
        return found


def size_of(database: Path) -> float:
    """Bytes of a SQLite file and of what it has not folded into it yet."""
    parts = (database, database.with_name(f"{database.name}-wal"))
    return float(sum(part.stat().st_size for part in parts if part.exists()))
