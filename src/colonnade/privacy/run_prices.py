"""What runs cost by the rows of a ledger: reserved while a run is open, what was released once it is closed.

Files of format 1 are read too: there an event is the whole row, and an opening names the price of a row in one sum.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from colonnade.privacy.events import Event, Plan, Policy, Scope, joint_rho, plan_rho, row_rho
from colonnade.privacy.store import Log

if TYPE_CHECKING:
    from colonnade.privacy.ledger import Terms

REFUSED = "refused"  # how a run ended that was never begun


class RunPrice(NamedTuple):
    """What one run counts for."""

    closed_at: float  # the number of the row that closed it; infinite: it is open
    own: float  # rho of this party's own releases
    row: float  # rho of one row, the other parties' part included


def prices_of_runs(log: Log) -> list[RunPrice]:
    """The price of every run, in the order in which they were opened."""
    closed = {row.run: row for row in log.rows(kind="close")}
    actual: dict[str, list[float]] = {}
    for row in log.rows(kind="event"):
        event = recorded_event(row.body)
        if event.scope is Scope.OWN:
            actual.setdefault(row.run, []).append(event.rho)
    prices = []
    for row in log.rows(kind="open"):
        opened = json.loads(row.body)
        own, rest, end = float(opened["own_rho"]), rest_rho(opened), math.inf
        if row.run in closed:  # what this party did not use returns; the others' part stays as planned
            own, end = math.fsum(actual.get(row.run, [])), closed[row.run].seq
            rest = 0.0 if json.loads(closed[row.run].body)["how"].startswith(REFUSED) else rest
        prices.append(RunPrice(end, own, own + rest))
    return prices


def recorded_event(body: bytes) -> Event:
    """The event of an `event` row."""
    raw = json.loads(body)
    return Event.from_json(json.dumps(raw.get("event", raw)))


def rest_rho(opened: Mapping[str, Any]) -> float:
    """What a run reserved about the same row at other parties or together."""
    if "rest_rho" in opened:
        return float(opened["rest_rho"])
    whole = float(opened["row_rho"])
    return whole if math.isinf(whole) else whole - float(opened["own_rho"])


def opening(terms: Terms, node: str, plans: Mapping[str, Plan], policy: Policy, when: str) -> bytes:
    """The body of the row with which a run is opened."""
    totals = total_price(plans)
    others = list(totals.own.values())
    if node in totals.own:
        others.remove(totals.own[node])
    body = {
        "terms": asdict(terms),
        "plan": plan_lines(plans.get(node, ())),
        "own_rho": totals.own.get(node, 0.0),
        "rest_rho": math.fsum(others) + totals.joint,  # about the same row, at other parties or together
        "limit": None if policy.epsilon is None else [policy.epsilon, policy.delta],
        "when": when,
    }
    return json.dumps(body, sort_keys=True).encode()


def plan_lines(plan: Plan) -> list[dict[str, object]]:
    """A plan as an opening names it."""
    return [{"event": json.loads(c.event.to_json()), "count": c.count, "what": c.what} for c in plan]


class PlannedPrice(NamedTuple):
    """What all plans of a run cost."""

    own: dict[str, float]  # by party
    joint: float
    row: float


_priced: deque[tuple[Mapping[str, Plan], PlannedPrice]] = deque(maxlen=2)


def total_price(plans: Mapping[str, Plan]) -> PlannedPrice:
    """What all plans of a run cost, added up once for the ledgers of its thousand parties."""
    for known, price in tuple(_priced):
        if known is plans:
            return price
    own = {name: plan_rho(c for c in plan if c.event.scope is Scope.OWN) for name, plan in plans.items()}
    price = PlannedPrice(own, joint_rho(plans), row_rho(plans))
    _priced.append((plans, price))
    return price
