"""A data holder's ledger: what left, in which run, and what it may still spend.

Before a run's first message its whole plan is reserved here, durably; each release then takes its line of the plan
before any noise is drawn, and its row is written in the same transaction as the step that sends it. So a crash can
waste a reservation, never hide a release. What a run did not use returns when it closes. Whether something is refused
depends on past events and on the plan, never on data, and never on the clock: order is the order of rows.

A ledger has one unit (a row, a patient with at most 5 rows, a feature column): prices about different neighbours do not
add up. The first run with a finite price that counts fixes it; a run about another unit is refused.

It fails closed. A file whose chain of hashes is broken releases nothing; neither does one that lacks a row which a peer
remembers (a copy from an old backup), until its owner says how to go on.

Kinds of rows: `open` (terms and plan of a run), `event` (one release), `release` (its bytes or their digest),
`close` (how the run ended), `budget` (a limit set by the owner, or a new period), `peer` (heads of other ledgers),
`replaced` (this ledger took the place of a lost one, or another one did),
`operator` (what the node's own operator may know about its data).
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from colonnade.errors import BudgetExhausted, InvalidInput, LeakError, LedgerDamaged, ReplayDiverged
from colonnade.fields import Choice
from colonnade.privacy.accountant import Budget, check_budget
from colonnade.privacy.events import (
    DELTA,
    RHO,
    Charge,
    Ending,
    Event,
    Plan,
    Policy,
    Scope,
    check_policy,
    joint_sum,
    own_sum,
    row_delta,
    row_rho,
    with_delta,
)
from colonnade.privacy.store import Log, Row
from colonnade.privacy.tally import (
    EVERY,
    OWNER,
    Reserved,
    Snapshot,
    Tally,
    counts,
    last_snapshot,
    sign,
    tallied,
    trusted,
)

# ticks of the rows that are not a step of a program
OPENING = -1
CLOSING = -2
ADMIN = -3


class When(Choice):
    """When a run has its ledgers remember each other."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run is about, as its parties approved it."""

    method: str
    settings: str
    trust: str
    unit: str
    neighbours: str
    protocol: str  # release of colonnade and protocol of the method: a resumed run must find the same


@dataclass(frozen=True, slots=True)
class Entry:
    """One release, as people read it."""

    run: str
    tick: int
    slot: int
    event: Event
    what: str
    round: int
    when: str


class Replaced(NamedTuple):
    """A ledger that took the place of a lost one."""

    node: str
    when: str
    mark: str  # random: tells two replacements apart, whenever they were


class Ledger:
    """The ledger of one node over one log."""

    def __init__(
        self,
        log: Log,
        node: str,
        policy: Policy,
        *,
        holds_data: bool = True,
        identity: bytes | None = None,
        snapshots: bool = True,
    ) -> None:
        """identity   the owner's signing key, for snapshots; None: the one that lies in the file, if there is one.
        snapshots  False: reads every row, trusts no snapshot and signs none: for whoever does not know the owner's key,
                   where one that somebody put into the file must not count, nor the owner's own be written over.
        """
        self.log = log
        self.node = node
        self.policy = policy
        self.holds_data = holds_data
        self._own_key = identity
        self._snapshots = snapshots
        self._left: dict[str, list[tuple[Charge, int]]] = {}

    # -------------------------------------------------------------------------------- runs

    def open_run(self, run: str, terms: Terms, plans: Mapping[str, Plan], distance: float = 0.0) -> None:
        """Reserve the whole plan of a run, or find it reserved already on the same terms (`distance`: check_budget)."""
        with self.log.atomic():
            found = self.check_run(run, terms, plans, distance)
            if not found:
                self.log.append(run, OPENING, "open", "", opening(terms, self.node, plans, self.policy, _now()))
        self._left[run] = [(charge, charge.count) for charge in plans.get(self.node, ())]
        for row in found[1:]:
            self.take(run, Event.from_json(row.body))

    def check_run(self, run: str, terms: Terms, plans: Mapping[str, Plan], distance: float = 0.0) -> list[Row]:
        """Refuse what `open_run` refuses, and write nothing; the rows of a run opened before on the same terms."""
        plan = plans.get(self.node, ())
        with self.log.atomic():
            self.check()
            if self.log.rows(run, "close"):
                raise ReplayDiverged(f"run {run} is over at {self.node!r}; it releases nothing more. Start a new run.")
            found = [*self.log.rows(run, "open"), *self.log.rows(run, "event")]
            if not found:
                self.check_unit(terms, plans)
                check_policy(self.node, self.policy, plan)
                price = total_price(plans)
                for budget in self._budgets():
                    check_budget(self.node, budget, price.rho.row, distance, price.delta.row)
                return []
        opened = json.loads(found[0].body)
        if opened["terms"] != asdict(terms) or opened["plan"] != plan_lines(plan):
            raise ReplayDiverged(
                f"run {run} was opened at {self.node!r} on other terms (release, settings, trust or unit). "
                "Repeat the original call to resume it."
            )
        return found

    def close_run(self, run: str, ending: Ending) -> None:
        """Return what was not used. Closing twice is one closing; closing what was never opened is nothing."""
        with self.log.atomic():
            if self.log.rows(run, "open") and not self.log.rows(run, "close"):
                self.log.append(run, CLOSING, "close", "", json.dumps({"how": ending.code, "when": _now()}).encode())
                self._snapshot()
        self.log.erase(run)
        self._left.pop(run, None)

    def open_runs(self) -> set[str]:
        """Runs whose reservation has not been returned."""
        return set(self.tally().runs)

    def score_runs(self) -> int:
        """How many runs reserved a part of scores of these rows, whatever became of them: no price adds them up."""
        found = self.tally()
        if found.unread_plans:
            raise LedgerDamaged(
                f"the ledger of {self.node!r} holds a run whose plan cannot be read. Nothing is released: restore the "
                "newest copy of the file and its `blobs` folder."
            )
        return found.score_runs

    def units(self) -> tuple[str, ...]:
        """What the runs that count were about: one unit, or none yet."""
        return tuple(dict.fromkeys(unit for unit, _ in self.counted_units()))

    def counted_units(self) -> list[tuple[str, str]]:
        """Unit and neighbours of every run with a finite price that is not all paid back; an exact run has none."""
        return self.tally().counted_units()

    def check_unit(self, terms: Terms, plans: Mapping[str, Plan]) -> None:
        """Refuse a run whose price would be added to that of runs about another unit; exact and free ones add none."""
        price = total_price(plans)
        if not (self.holds_data and counts(price.rho.row, price.delta.row)):
            return
        units = self.counted_units()
        if not units or units == [(terms.unit, terms.neighbours)]:
            return
        counted = " and ".join(unit for unit, _ in units)
        instead = f"Ask for the unit {counted}, or keep" if len(units) == 1 else "Keep"
        raise BudgetExhausted(
            f"party {self.node!r}: its ledger counts for {counted}, and this run is about {terms.unit}. Prices about "
            f"different neighbours do not add up to a promise. Nothing was sent. {instead} runs about {terms.unit} in "
            "a store of their own; its owner sets that limit with both in mind."
        )

    # -------------------------------------------------------------------------------- releases

    def take(self, run: str, event: Event) -> str:
        """Use up one line of the run's plan and say what it is for, or refuse: called before noise is drawn."""
        left = self._left.get(run, [])
        covering = [i for i, (charge, count) in enumerate(left) if count and charge.covers(event)]
        if covering:
            charge, count = left[covering[0]]
            left[covering[0]] = (charge, count - 1)
            return " or ".join(dict.fromkeys(left[i][0].what for i in covering))
        raise LeakError(
            f"party {self.node!r}: its {event.mechanism} release with rho={event.rho:g} is not in the plan of this "
            "run, or the plan's count for it is used up. Nothing was sent. The method's price() must list every "
            "release."
        )

    def record(self, run: str, tick: int, slot: int, event: Event, what: str, number: int) -> None:
        """Write the row of one release; the caller's transaction also records what leaves."""
        # A run may have been closed by another process since it was opened here (`colonnade runs abort`).
        if self.log.durable and self.log.holds(run, "close"):
            raise ReplayDiverged(f"run {run} is over at {self.node!r}; it releases nothing more. Start a new run.")
        text = f'{{"event": {event.to_json()}, "round": {number}, "what": {_quote(what)}, "when": "{_now()}"}}'
        self.log.append(run, tick, "event", str(slot), text.encode())

    # -------------------------------------------------------------------------------- the owner's hand

    def set_budget(self, limit: float, delta: float) -> None:
        """Set the limit for everything that is spent from now on in this period."""
        Policy(epsilon=limit, delta=delta)  # the same checks
        self._admin("budget", {"do": "set", "epsilon": limit, "delta": delta, "when": _now()})

    def renew(self, reason: str) -> None:
        """Open a new period: what was spent stays on record, and no longer counts against the limit."""
        self._admin("budget", {"do": "renew", "reason": reason, "when": _now()})

    def _admin(self, kind: str, body: Mapping[str, object]) -> None:
        with self.log.atomic():
            self.log.verify()
            number = len(self.log.rows(OWNER, kind))
            self.log.append(OWNER, ADMIN, kind, str(number), json.dumps(body, sort_keys=True).encode())

    def tell_operator(self, run: str, text: str) -> None:
        """Keep a line about the data for whoever runs this node; nothing ever reads it but `colonnade budget notes`."""
        with self.log.atomic():
            if not any(row.body == text.encode() for row in self.log.rows(run, "operator")):
                self.log.append(run, ADMIN, "operator", str(len(self.log.rows(run, "operator"))), text.encode())

    def operator_notes(self) -> list[tuple[str, str]]:
        """Those lines, oldest first: run and text."""
        return [(row.run, row.body.decode()) for row in self.log.rows(kind="operator")]

    # -------------------------------------------------------------------------------- what was spent

    def entries(self, run: str | None = None) -> list[Entry]:
        """Every release, oldest first."""
        entries = []
        for row in self.log.rows(run, "event"):
            raw = json.loads(row.body)
            event = Event.from_json(row.body)
            entries.append(Entry(row.run, row.tick, int(row.key), event, raw["what"], raw["round"], raw["when"]))
        return entries

    def budget(self) -> Budget:
        """The limit in force and what counts against it: own limit and policy, whichever is tighter."""
        return self._budgets()[0]

    def _budgets(self) -> list[Budget]:
        """Both limits, the tighter one first: of a run that takes much of a delta the other one may afford less."""
        found = self.tally()
        limits = [(self.policy.epsilon, self.policy.delta)]
        if found.limit is not None:
            limits = [found.limit] if self.policy.epsilon is None else [*limits, found.limit]
        spent = found.spent(), found.spent(lifetime=True), found.taken(), found.taken(lifetime=True)
        return sorted((Budget(*limit, 1 + found.renewals, *spent) for limit in limits), key=lambda one: one.limit)

    def row_spent(self) -> float:
        """rho of one row, the other parties' reserved releases about it included: what the limit applies to."""
        return self.tally().spent(lifetime=True)

    def row_taken(self) -> float:
        """What releases took of a delta for themselves beside that rho."""
        return self.tally().taken(lifetime=True)

    # -------------------------------------------------------------------------------- adding up, and snapshots of it

    def tally(self) -> Tally:
        """What all rows add up to: every run, and what was spent before this ledger took the place of a lost one."""
        begin = None if self.log.tally is not None else self._trusted()
        return tallied(self.log, None if begin is None else begin.tally())

    def check(self) -> None:
        """The chain must be whole, from the newest snapshot that this ledger's owner signed."""
        begin = None if self.log.checked else self._trusted()
        self.log.check(0 if begin is None else begin.count)

    def _trusted(self) -> Snapshot | None:
        return trusted(self.log, self.node, self._identity()) if self._snapshots and self.log.durable else None

    def _identity(self) -> bytes | None:
        if self._own_key is None and self.log.has_secret("node", "signing key"):
            return self.log.kept("node", "signing key")
        return self._own_key

    def _snapshot(self) -> None:
        """Sign what all rows add up to, if there are many since it was signed last."""
        if not (self._snapshots and self.log.durable):
            return
        last = last_snapshot(self.log)
        if self.log.length() - (0 if last is None else last.count) >= EVERY:
            self.check()
            sign(self.log, self.node, self._identity() or self.log.secret("node", "signing key", 32))

    # -------------------------------------------------------------------------------- what peers remember

    def remember(self, run: str, when: When, heads: Mapping[str, tuple[int, bytes]]) -> None:
        """Keep the heads of other ledgers, so that a copy from an old backup is noticed later."""
        # At the end of a run once; at its start, and again when it is taken up after it went on.
        with self.log.atomic():
            kept = {peer: [count, head.hex()] for peer, (count, head) in heads.items() if peer != self.node}
            before = [row for row in self.log.rows(run, "peer") if row.key.split()[0] == when]
            steps = self.log.rows(run, "step")[-1:] if before and when == When.START else []
            went_on = any(row.seq > before[-1].seq for row in steps)
            if not before or went_on:
                key = f"{when} {len(before) + 1}" if before else when
                self.log.append(run, ADMIN, "peer", key, json.dumps(kept, sort_keys=True).encode())

    def remembered(self) -> dict[str, tuple[int, bytes]]:
        """The newest head this ledger has seen of every other; of one that was replaced, none from before."""
        return dict(self.tally().heads)

    def check_new(self) -> None:
        """Refuse to begin anew in a ledger that holds more than what it knows of replaced ones."""
        if self.log.length() != len(self.log.rows(OWNER, "replaced")):
            raise InvalidInput(
                f"the ledger of {self.node!r} has rows, so it is not new. Nothing was changed. Move its file away if "
                "it is lost, or restore the newest copy."
            )

    def begin_anew(self, rho: float, units: Iterable[tuple[str, str]] = (), taken: float = 0.0) -> Replaced:
        """Begin in the place of a lost ledger, with what may have been spent, about which units and neighbours.

        taken  what releases may have taken of a delta for themselves beside that rho.
        """
        # Until the first run the owner may say a larger figure; that is the same replacement.
        if not rho >= 0.0:
            raise InvalidInput(
                f"rho={rho}: what was spent before is a number of at least 0. Give inf if it is not known."
            )
        if not 0.0 <= taken < math.inf:
            raise InvalidInput(f"delta={taken}: what releases took of it before is a finite number of at least 0.")
        with self.log.atomic():
            self.check_new()
            own = [body for body in self._replaced_rows() if body["node"] == self.node]
            known = math.fsum(body["rho"] for body in own)
            known_taken = math.fsum(body.get("delta", 0.0) for body in own)
            one = _read_replaced(own[0]) if own else Replaced(self.node, _now(), secrets.token_hex(8))
            if not own or rho > known or taken > known_taken:
                more = rho - known if rho > known else 0.0
                beside = with_delta(delta=taken - known_taken if taken > known_taken else 0.0)
                self._admin("replaced", {**one._asdict(), "rho": more, "units": list(units), **beside})
        return one

    def knows_replaced(self, one: Replaced) -> bool:
        """Whether this record was taken before. An older one is refused: it would bring an old ledger back."""
        taken = [found for found in self.replaced() if found.node == one.node]
        if any(found.mark == one.mark for found in taken):
            return True
        if taken and one.when <= (last := max(found.when for found in taken)):
            raise InvalidInput(
                f"the record about {one.node!r} is of {one.when}, and the ledger of {self.node!r} has taken one of "
                f"{last}. Nothing was changed. Ask its owner for the newest record."
            )
        return False

    def accept_replaced(self, one: Replaced, head: tuple[int, bytes], rho: float, taken: float = 0.0) -> None:
        """Take the head of a new ledger of another node, unless it counts less than this one does."""
        with self.log.atomic():
            if self.knows_replaced(one):
                return
            spent = self.row_spent()
            if rho < spent * (1.0 - 1e-9):
                raise InvalidInput(
                    f"the new ledger of {one.node!r} begins with rho = {rho!r}, and the one of {self.node!r} counts "
                    f"{spent!r} about the same rows: it would forget the rest. The record was not taken. Let its "
                    f"owner sign again with --rho {spent!r} or more."
                )
            before = self.row_taken()
            if taken < before * (1.0 - 1e-9) and math.isfinite(rho):
                raise InvalidInput(
                    f"in the new ledger of {one.node!r} releases took {taken!r} of a delta for themselves, and in the "
                    f"one of {self.node!r} {before!r}: it would forget the rest. The record was not taken. Let its "
                    f"owner sign again with --delta {before!r} or more."
                )
            self._admin("replaced", {**one._asdict(), "head": [head[0], head[1].hex()]})

    def _replaced_rows(self) -> list[dict[str, Any]]:
        return [json.loads(row.body) for row in self.log.rows(OWNER, "replaced")]

    def replaced(self) -> list[Replaced]:
        """The ledgers that were replaced, as far as this one knows."""
        return list(dict.fromkeys(map(_read_replaced, self._replaced_rows())))

    def check_head(self, count: int, head: bytes, witness: str) -> None:
        """This ledger must still hold the row that a peer saw as its last."""
        if self.log.head_at(count) != head:
            raise LedgerDamaged(
                f"the ledger of {self.node!r} lacks row {count}, which {witness!r} saw before: it was "
                "rolled back, for example by restoring an old copy, and would forget what was spent. Nothing is "
                "released. Restore the newest copy; if it is lost, let the owner begin a new ledger, and all others "
                "take its record: `colonnade runs replaced`."
            )


def _read_replaced(body: Mapping[str, Any]) -> Replaced:
    return Replaced(str(body["node"]), str(body["when"]), str(body["mark"]))


@lru_cache(maxsize=256)
def _quote(text: str) -> str:
    return json.dumps(text)


def _now() -> str:
    return _instant(int(time.time()))


@lru_cache(maxsize=1)
def _instant(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()


# ------------------------------------------------------------------------------------ what runs cost


class RunPrice(NamedTuple):
    """What one run counts for."""

    closed_at: float  # the number of the row that closed it; infinite: it is open
    own: float  # rho of this party's own releases
    row: float  # rho of one row, the other parties' part included
    own_delta: float = 0.0  # what the releases took of a delta for themselves: this party's own
    row_delta: float = 0.0  # and all of them, about one row


def prices_of_runs(log: Log) -> list[RunPrice]:
    """The price of every run, in the order in which they were opened."""
    closed = {row.run: row for row in log.rows(kind="close")}
    actual: dict[str, list[Event]] = {}
    for row in log.rows(kind="event"):
        event = Event.from_json(row.body)
        if event.scope is Scope.OWN:
            actual.setdefault(row.run, []).append(event)
    prices = []
    for row in log.rows(kind="open"):
        reserved = Reserved.of(json.loads(row.body))
        own = reserved.own
        own_delta = reserved.own_delta
        end = math.inf
        # What this party did not use returns; the others' part stays as planned.
        if row.run in closed:
            left = actual.get(row.run, [])
            own = math.fsum(event.rho for event in left)
            own_delta = math.fsum(event.delta for event in left)
            end = closed[row.run].seq
            if Ending.of(json.loads(closed[row.run].body)["how"]).returns_all:
                reserved = Reserved()
        prices.append(RunPrice(end, own, own + reserved.rest, own_delta, own_delta + reserved.rest_delta))
    return prices


def opening(terms: Terms, node: str, plans: Mapping[str, Plan], policy: Policy, when: str) -> bytes:
    """The body of the row with which a run is opened."""
    price = total_price(plans)
    body = {
        "terms": asdict(terms),
        "plan": plan_lines(plans.get(node, ())),
        "own_rho": price.rho.own.get(node, 0.0),
        "rest_rho": price.rho.rest(node),
        **with_delta(own_delta=price.delta.own.get(node, 0.0), rest_delta=price.delta.rest(node)),
        "limit": None if policy.epsilon is None else [policy.epsilon, policy.delta],
        "when": when,
    }
    return json.dumps(body, sort_keys=True).encode()


def plan_lines(plan: Plan) -> list[dict[str, object]]:
    """A plan as an opening names it."""
    return [{"event": json.loads(c.event.to_json()), "count": c.count, "what": c.what} for c in plan]


class Planned(NamedTuple):
    """One figure of all plans of a run: rho, or the delta beside it."""

    own: dict[str, float]  # by party
    joint: float
    row: float

    def rest(self, node: str) -> float:
        """Of the same row, at other parties or together."""
        others = list(self.own.values())
        if node in self.own:
            others.remove(self.own[node])
        return math.fsum(others) + self.joint


class PlannedPrice(NamedTuple):
    """What all plans of a run cost."""

    rho: Planned
    delta: Planned


_priced: deque[tuple[Mapping[str, Plan], PlannedPrice]] = deque(maxlen=2)


def total_price(plans: Mapping[str, Plan]) -> PlannedPrice:
    """What all plans of a run cost, added up once for the ledgers of its thousand parties."""
    for known, price in tuple(_priced):
        if known is plans:
            return price
    rho = {name: own_sum(RHO, plan) for name, plan in plans.items()}
    delta = {name: own_sum(DELTA, plan) for name, plan in plans.items()}
    price = PlannedPrice(
        Planned(rho, joint_sum(RHO, plans), row_rho(plans)),
        Planned(delta, joint_sum(DELTA, plans), row_delta(plans)),
    )
    _priced.append((plans, price))
    return price
