"""One data holder, one fit: a run in a ledger without a conversation.

The plan is reserved before anything is computed, every release takes its line before noise is drawn, and the rows of
all releases are written in one transaction before the caller sees a model. A run that is interrupted is closed with
what it had drawn; if even that cannot be written, its whole reservation stays spent. So a ledger may say too much,
never too little.

The ledger is a file, or memory that lives with its owner. Nothing here can be resumed: a fit that failed is made again
and paid for again. So the file keeps the events and not the bytes that were released.

Besides rho a run may have a distance: by how much, in total variation, its sampler's law may differ from the ideal one
that rho was computed for: 0 for exact samplers, as ours are. Distances add up over runs, and cost (1 + e^epsilon) times
their sum in delta (docs/understand/privacy/one-holder.md). They stand in the terms of a run; the limit and the total
count them.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from colonnade.errors import BudgetExhausted
from colonnade.privacy.accountant import check_budget, delta_left, less_taken
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.events import FINISHED, Ending, How, Mechanism, Plan, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import Noise
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.privacy.tally import OWNER

HOLDER = "holder"


class EventLog(FileLog):
    """A ledger's file that keeps what was paid for and not what was released."""

    durable = False


@dataclass(frozen=True)
class Total:
    """What a ledger has seen: the price of everything, the number of runs, and their samplers' distances together."""

    rho: float
    runs: int
    distance: float = 0.0
    taken: float = 0.0  # of a delta, by releases for themselves

    def epsilon(self, delta: float) -> float:
        """The epsilon of all runs together at this delta, all prices counted; inf if the others alone use it up."""
        delta = less_taken(delta, self.taken)
        found = epsilon_of(self.rho, delta)
        while math.isfinite(found) and (left := delta_left(delta, found, self.distance)) > 0.0:
            if (needed := epsilon_of(self.rho, left)) <= found:
                return found
            # Past the fixed point, so that the comparison above can hold.
            found = needed * (1.0 + 1e-9)
        return math.inf


@dataclass
class LocalLedger:
    """The ledger of one data holder: a file if there is a path, else memory that lives as long as this object."""

    path: str | PathLike[str] | None = None
    memory: MemoryLog = field(default_factory=MemoryLog)

    @contextmanager
    def run(self, terms: Terms, plan: Plan, noise: Noise, distance: float = 0.0) -> Iterator[Gate]:
        """A gate for one fit that may release what the plan lists; BudgetExhausted before any noise.

        distance  by how much the laws of the plan's picks may differ from the ideal ones, in total variation.
        """
        settings = {"settings": terms.settings, "distance": distance}
        terms = replace(terms, settings=json.dumps(settings, sort_keys=True))
        with self._ledger() as ledger:
            log = ledger.log
            run = secrets.token_hex(16)
            with log.atomic():
                ledger.open_run(run, terms, {HOLDER: plan}, distance + _counted_distance(ledger))
            gate = Gate(ledger, run, noise)
            gate.begin(0, 1, None)
            ending = Ending(How.INTERRUPTED)
            try:
                yield gate
                ending = FINISHED
            finally:
                with log.atomic():
                    gate.flush()
                    ledger.close_run(run, ending)

    def total(self) -> Total:
        """All runs of the ledger so far; runs that never closed count with their whole plan."""
        with self._ledger() as ledger:
            runs = len(ledger.log.rows(kind="open"))
            return Total(ledger.row_spent(), runs, _distance(ledger.log), ledger.row_taken())

    def mechanisms(self) -> set[Mechanism]:
        """By which all its runs planned to release."""
        with self._ledger() as ledger:
            plans = [json.loads(row.body)["plan"] for row in ledger.log.rows(kind="open")]
        return {Mechanism(line["event"]["mechanism"]) for plan in plans for line in plan}

    def short_of(self, rho: float, distance: float) -> str:
        """Why there is no room for as much; empty if a limit was set and leaves it."""
        with self._ledger() as ledger:
            budget = ledger.budget()
            if budget.epsilon is None:
                return "its ledger has no limit, so nobody has said that it may cost as much"
            try:
                check_budget(HOLDER, budget, rho, distance + _counted_distance(ledger))
            except BudgetExhausted:
                return f"its ledger has rho {budget.left:.3g} left of {budget.limit:.3g}"
            return ""

    def set_limit(self, epsilon: float, delta: float) -> None:
        """The owner's limit for everything that this ledger records."""
        with self._ledger() as ledger:
            ledger.set_budget(epsilon, delta)

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        with closing(self.memory if self.path is None else EventLog(self.path)) as log:
            yield Ledger(log, HOLDER, Policy())


def _counted_distance(ledger: Ledger) -> float:
    """The distances of the runs that count in this period."""
    renewals = [row.seq for row in ledger.log.rows(OWNER, "budget") if json.loads(row.body)["do"] == "renew"]
    return _distance(ledger.log, max(renewals, default=0))


def _distance(log: Log, since: int = 0) -> float:
    """The distances of all runs that closed after row `since`, or not yet: of what was planned, used or not."""
    closed = {row.run: row.seq for row in log.rows(kind="close")}
    opened = [json.loads(row.body) for row in log.rows(kind="open") if closed.get(row.run, math.inf) > since]
    return math.fsum(_distance_of(run) for run in opened)


def _distance_of(opened: Mapping[str, Any]) -> float:
    """The distance that `LocalLedger.run` wrote beside the settings."""
    # A run of picks that does not say how far its sampler was from the ideal one is as far as can be.
    try:
        return float(json.loads(opened["terms"]["settings"])["distance"])
    except (ValueError, TypeError, KeyError):
        return 1.0 if any(line["event"]["mechanism"] == Mechanism.PICKS for line in opened["plan"]) else 0.0
