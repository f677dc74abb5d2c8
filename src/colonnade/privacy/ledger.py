"""A data holder's ledger: what left, in which run, and what it may still spend.

Before a run's first message its whole plan is reserved here, durably; each release then takes its line of the plan before
any noise is drawn, and its row is written in the same transaction as the step that sends it. So a crash can waste a
reservation, never hide a release. What a run did not use returns when it closes. Whether something is refused depends
on past events and on the plan, never on data.

Kinds of rows: `open` (terms and plan of a run), `event` (one release), `release` (its bytes or their digest),
`close` (how the run ended).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from colonnade.errors import BudgetExhausted, LeakError, PolicyRefused, ReplayDiverged
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.events import Charge, Event, Plan, Policy, Scope, plan_rho, row_rho
from colonnade.privacy.store import Log

OPENING, CLOSING = -1, -2  # ticks of the rows that are not a step of the program


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run is about, as its parties approved it."""

    method: str
    settings: str
    trust: str
    unit: str
    neighbours: str
    fingerprint: str  # of code, settings and public schemas: a resumed run must find the same


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger, as people read it."""

    run: str
    tick: int
    slot: int
    event: Event


class Ledger:
    """The ledger of one node over one log."""

    def __init__(self, log: Log, node: str, policy: Policy) -> None:
        self.log, self.node, self.policy = log, node, policy
        self._left: dict[str, list[tuple[Charge, int]]] = {}

    # -------------------------------------------------------------------------------- runs

    def open_run(self, run: str, terms: Terms, plans: Mapping[str, Plan]) -> None:
        """Reserve the whole plan of a run, or find it reserved already on the same terms."""
        plan = plans.get(self.node, ())
        with self.log.atomic():
            found = [row for row in self.log.rows(run) if row.kind in ("open", "event")]
            if found:
                opened = json.loads(found[0].body)
                if opened["terms"] != asdict(terms):
                    raise ReplayDiverged(
                        f"run {run} was opened at {self.node!r} on other terms (code, settings, trust or schema). "
                        "Repeat the original call to resume it, or name another store to start anew."
                    )
            else:
                self._approve(plan, row_rho(plans))
                self.log.append(run, OPENING, "open", "", _opening(terms, plan, row_rho(plans)))
        used = [Event.from_json(row.body.decode()) for row in found if row.kind == "event"]
        self._left[run] = [(charge, charge.count) for charge in plan]
        for event in used:
            self.take(run, event)

    def close_run(self, run: str, how: str) -> None:
        """Return what was not used. Closing twice is one closing."""
        with self.log.atomic():
            if not self.log.rows(run, "close"):
                self.log.append(run, CLOSING, "close", "", json.dumps({"how": how, "when": _now()}).encode())
                self.log.erase_secrets(run)

    def _approve(self, plan: Plan, row: float) -> None:
        exact = [charge.what for charge in plan if math.isinf(charge.event.rho) and charge.count]
        if exact and not self.policy.exact:
            raise PolicyRefused(
                f"party {self.node!r} does not let exact values leave, and this method would release "
                f"{'; '.join(exact)}. Nothing was sent. Choose a private method (privacy=...), or, if the "
                f"party agrees, set Policy(exact=True) for it."
            )
        if self.policy.epsilon is None or self.policy.delta is None:
            return
        limit, spent = rho_for(self.policy.epsilon, self.policy.delta), self.row_spent()
        if spent + row > limit * (1 + 1e-12):
            after = epsilon(spent + row, self.policy.delta)
            raise BudgetExhausted(
                f"party {self.node!r}: this run would bring epsilon to {after:.3g}, over the limit "
                f"{self.policy.epsilon:.3g} (delta={self.policy.delta:g}); {epsilon(spent, self.policy.delta):.3g} "
                "is spent. Nothing was sent. Ask for a smaller epsilon or fewer rounds, or raise the party's budget."
            )

    # -------------------------------------------------------------------------------- releases

    def take(self, run: str, event: Event) -> None:
        """Use up one line of the run's plan, or refuse: called before noise is drawn."""
        left = self._left[run]
        for i, (charge, count) in enumerate(left):
            if count and charge.covers(event):
                left[i] = (charge, count - 1)
                return
        raise LeakError(
            f"party {self.node!r}: a {event.mechanism} release with rho={event.rho:g} is not in the plan of this run, "
            "or the plan's count for it is used up. Nothing was sent. The method's price() must list every release."
        )

    def record(self, run: str, tick: int, slot: int, event: Event) -> None:
        """Write the row of one release; the caller's transaction also records what leaves."""
        self.log.append(run, tick, "event", str(slot), event.to_json().encode())

    # -------------------------------------------------------------------------------- what was spent

    def entries(self, run: str | None = None) -> list[Entry]:
        """Every release, oldest first."""
        return [
            Entry(row.run, row.tick, int(row.key), Event.from_json(row.body.decode()))
            for row in self.log.rows(run, "event")
        ]

    def own_spent(self) -> float:
        """rho of this party's own releases: actual for closed runs, the whole plan for open ones."""
        return math.fsum(own for own, _ in self._by_run())

    def row_spent(self) -> float:
        """rho of one row, the other parties' reserved releases about it included: what the limit applies to."""
        return math.fsum(row for _, row in self._by_run())

    def _by_run(self) -> list[tuple[float, float]]:
        closed = {row.run for row in self.log.rows(kind="close")}
        actual: dict[str, list[float]] = {}
        for entry in self.entries():
            if entry.event.scope is Scope.OWN:
                actual.setdefault(entry.run, []).append(entry.event.rho)
        totals = []
        for row in self.log.rows(kind="open"):
            opened = json.loads(row.body)
            own, whole = float(opened["own_rho"]), float(opened["row_rho"])
            if row.run in closed and math.isfinite(own):
                used = math.fsum(actual.get(row.run, []))
                own, whole = used, whole - (own - used)
            totals.append((own, whole))
        return totals


def _opening(terms: Terms, plan: Plan, row: float) -> bytes:
    own = plan_rho(c for c in plan if c.event.scope is Scope.OWN)
    lines = [{"event": json.loads(c.event.to_json()), "count": c.count, "what": c.what} for c in plan]
    return json.dumps(
        {"terms": asdict(terms), "plan": lines, "own_rho": own, "row_rho": row, "when": _now()},
        sort_keys=True,
    ).encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
