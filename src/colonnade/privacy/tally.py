"""What the rows of a ledger add up to, kept as they come, and snapshots by which a long ledger opens in a moment.

A `Tally` is a fold: each row changes it once, and what it was before is not read again. Its sums are exact integers, so
that a sum that was kept and a sum that is added up anew are the same number to the last bit.

A snapshot is a tally with the row it stands at, signed by the owner of the ledger: in a federation with the key that
the federation file pins, in one owner's store with the key that lies in the same file. It is written in the transaction
of the row that ends a run, and replaces the one before. Opening takes its word for the rows before it and walks the
chain from there; a snapshot that does not carry that signature, or stands at another head, is as good as none, and
every row is read. `colonnade budget verify` walks every row and adds all of them up again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.errors import LedgerDamaged
from colonnade.privacy.events import SCORES, Ending, Event, Scope, with_delta
from colonnade.privacy.keyring import public_key
from colonnade.privacy.store import Log, Row

OWNER = "owner"  # the run of rows that the owner writes, not a program
EVERY = 4096  # rows after which a snapshot is worth a signature

_KINDS = ("open", "event", "close", "budget", "peer", "replaced")
_FORMAT = "colonnade ledger snapshot 1"
_COUNTS = ("score_runs", "unread_plans", "releases", "exact", "renewals")
_PLACES = 1074  # every float is a whole number of 2**-1074


@dataclass
class Sum:
    """A sum of prices that does not depend on their order, nor on where it was interrupted."""

    units: int = 0  # of 2**-1074
    infinite: int = 0

    def add(self, rho: float) -> None:
        if math.isinf(rho):
            self.infinite += 1
        else:
            over, under = rho.as_integer_ratio()
            self.units += over << (_PLACES + 1 - under.bit_length())

    def join(self, other: Sum) -> None:
        self.units += other.units
        self.infinite += other.infinite

    def value(self) -> float:
        return math.inf if self.infinite else self.units / (1 << _PLACES)

    def plain(self) -> list[str | int]:
        return [hex(self.units), self.infinite]

    @classmethod
    def of(cls, raw: Any) -> Sum:
        return cls(int(raw[0], 16), int(raw[1]))


@dataclass
class Prices:
    """A sum of prices: of rho, and of what releases took of a delta beside it."""

    rho: Sum = field(default_factory=Sum)
    delta: Sum = field(default_factory=Sum)

    def add(self, rho: float, delta: float) -> None:
        self.rho.add(rho)
        if delta:
            self.delta.add(delta)

    def join(self, other: Prices) -> None:
        self.rho.join(other.rho)
        self.delta.join(other.delta)

    def copy(self) -> Prices:
        return Prices(replace(self.rho), replace(self.delta))

    def plain(self) -> list[str | int]:
        return self.rho.plain() + (self.delta.plain() if self.delta.units else [])

    @classmethod
    def of(cls, raw: Any) -> Prices:
        return cls(Sum.of(raw), Sum.of(raw[2:]) if raw[2:] else Sum())


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a run reserved, as the row that opened it says."""

    own: float = 0.0  # rho that this party reserved for itself
    rest: float = 0.0  # rho that was reserved about the same row at other parties or together
    own_delta: float = 0.0  # what the releases take of a delta for themselves, likewise
    rest_delta: float = 0.0

    @classmethod
    def of(cls, opened: Mapping[str, Any]) -> Reserved:
        deltas = (float(opened.get(name, 0.0)) for name in ("own_delta", "rest_delta"))
        return cls(float(opened["own_rho"]), float(opened["rest_rho"]), *deltas)

    @property
    def rho(self) -> float:
        return self.own + self.rest

    @property
    def delta(self) -> float:
        return self.own_delta + self.rest_delta


def counts(rho: float, delta: float) -> bool:
    """Whether a price is one that adds up to a promise: neither nothing nor without a bound."""
    return math.isfinite(rho) and (rho > 0.0 or delta > 0.0)


@dataclass
class OpenRun:
    """A run whose reservation has not returned."""

    opened: int  # the row that opened it
    reserved: Reserved
    unit: str
    neighbours: str
    own_left: Prices = field(default_factory=Prices)  # of its own releases so far
    left: Prices = field(default_factory=Prices)  # of all its releases so far

    def plain(self) -> dict[str, Any]:
        said = self.reserved
        return {
            "opened": self.opened,
            "own": said.own,
            "rest": said.rest,
            **with_delta(own_delta=said.own_delta, rest_delta=said.rest_delta),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "own_left": self.own_left.plain(),
            "left": self.left.plain(),
        }

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> OpenRun:
        deltas = (raw.get(name, 0.0) for name in ("own_delta", "rest_delta"))
        reserved = Reserved(raw["own"], raw["rest"], *deltas)
        left = Prices.of(raw["own_left"]), Prices.of(raw["left"])
        return cls(raw["opened"], reserved, raw["unit"], raw["neighbours"], *left)


@dataclass
class Tally:
    """What the first `count` rows add up to."""

    count: int = 0
    head: bytes = b""
    lifetime: Prices = field(default_factory=Prices)  # of runs that are over
    period: Prices = field(default_factory=Prices)  # of those that ended in this period
    runs: dict[str, OpenRun] = field(default_factory=dict)
    units: dict[tuple[str, str], int] = field(default_factory=dict)  # of runs that are over, by their first opening
    units_before: list[tuple[str, str]] = field(default_factory=list)  # of a ledger that this one replaced
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    score_runs: int = 0
    unread_plans: int = 0
    releases: int = 0
    exact: int = 0
    renewals: int = 0
    limit: tuple[float, float] | None = None  # epsilon and delta that the owner set last

    # ------------------------------------------------------------------------ reading

    def spent(self, *, lifetime: bool = False) -> float:
        """rho of one row: of runs that are over in this period (or ever), and of those that are open."""
        return self._counted(lifetime).rho.value()

    def taken(self, *, lifetime: bool = False) -> float:
        """What releases about the same row took of a delta for themselves, or may take while their runs are open."""
        return self._counted(lifetime).delta.value()

    def _counted(self, lifetime: bool) -> Prices:
        total = (self.lifetime if lifetime else self.period).copy()
        for run in self.runs.values():
            total.add(run.reserved.rho, run.reserved.delta)
        return total

    def released(self) -> float:
        """rho of what has left in this period; `spent` has what open runs reserved, too."""
        return self.period.rho.value() + self._left().rho.value()

    def released_delta(self) -> float:
        """What that took of a delta; `taken` has what open runs reserved, too."""
        return self.period.delta.value() + self._left().delta.value()

    def _left(self) -> Prices:
        left = Prices()
        for run in self.runs.values():
            left.join(run.left)
        return left

    def counted_units(self) -> list[tuple[str, str]]:
        """Unit and neighbours of every run that counts, oldest first."""
        first = dict(self.units)
        for run in self.runs.values():
            if counts(run.reserved.rho, run.reserved.delta):
                unit = (run.unit, run.neighbours)
                first[unit] = min(run.opened, first.get(unit, run.opened))
        return list(dict.fromkeys([*self.units_before, *sorted(first, key=first.__getitem__)]))

    # ------------------------------------------------------------------------ one more row

    def add(self, row: Row) -> None:
        if row.kind == "event":
            self._event(row)
        elif row.kind == "open":
            self._open(row)
        elif row.kind == "close":
            self._close(row)
        elif row.kind == "peer":
            self._see(json.loads(row.body))
        elif row.run == OWNER and row.kind == "budget":
            self._budget(json.loads(row.body))
        elif row.run == OWNER and row.kind == "replaced":
            self._replaced(json.loads(row.body))

    def _open(self, row: Row) -> None:
        opened = json.loads(row.body)
        unit, neighbours = (str(opened["terms"].get(name, "")) for name in ("unit", "neighbours"))
        self.runs[row.run] = OpenRun(row.seq, Reserved.of(opened), unit, neighbours)
        try:
            self.score_runs += any(line["event"]["mechanism"] == SCORES.mechanism for line in opened["plan"])
        except (KeyError, TypeError):
            self.unread_plans += 1

    def _event(self, row: Row) -> None:
        event = Event.from_json(row.body)
        self.releases += 1
        self.exact += math.isinf(event.rho)
        run = self.runs.get(row.run)
        if run is not None:
            run.left.add(event.rho, event.delta)
            if event.scope is Scope.OWN:
                run.own_left.add(event.rho, event.delta)
        elif event.scope is Scope.OWN:
            # Of no run that is open: it left all the same.
            self._count(event.rho, event.delta)

    def _close(self, row: Row) -> None:
        run = self.runs.pop(row.run, None)
        if run is None:
            return
        # What this party did not use returns; the others' part stays as planned, unless nothing was sent anywhere.
        reserved = Reserved() if Ending.of(json.loads(row.body)["how"]).returns_all else run.reserved
        rho = run.own_left.rho.value() + reserved.rest
        delta = run.own_left.delta.value() + reserved.rest_delta
        self._count(rho, delta)
        if counts(rho, delta):
            unit = (run.unit, run.neighbours)
            self.units[unit] = min(run.opened, self.units.get(unit, run.opened))

    def _budget(self, body: Mapping[str, Any]) -> None:
        if body["do"] == "renew":
            self.period, self.renewals = Prices(), self.renewals + 1
        else:
            self.limit = float(body["epsilon"]), float(body["delta"])

    def _replaced(self, body: Mapping[str, Any]) -> None:
        self.heads.pop(body["node"], None)
        if "head" in body:
            self._see({body["node"]: body["head"]})
        if "rho" in body:
            price = float(body["rho"]), float(body.get("delta", 0.0))
            self._count(*price)
            if counts(*price):
                self.units_before += [(unit, neighbours) for unit, neighbours in body["units"]]

    def _count(self, rho: float, delta: float) -> None:
        self.lifetime.add(rho, delta)
        self.period.add(rho, delta)

    def _see(self, seen: Mapping[str, Any]) -> None:
        for peer, (count, head) in seen.items():
            self.heads[peer] = max(self.heads.get(peer, (0, b"")), (count, bytes.fromhex(head)))

    # ------------------------------------------------------------------------ as text

    def plain(self) -> dict[str, Any]:
        """All of it but the place it stands at."""
        return {
            "lifetime": self.lifetime.plain(),
            "period": self.period.plain(),
            "runs": {name: run.plain() for name, run in self.runs.items()},
            "units": [[*unit, opened] for unit, opened in self.units.items()],
            "units_before": [list(unit) for unit in self.units_before],
            "heads": {peer: [count, head.hex()] for peer, (count, head) in self.heads.items()},
            "limit": None if self.limit is None else list(self.limit),
            **{name: getattr(self, name) for name in _COUNTS},
        }

    @classmethod
    def of(cls, count: int, head: bytes, raw: Mapping[str, Any]) -> Tally:
        sums = {name: Prices.of(raw[name]) for name in ("lifetime", "period")}
        runs = {name: OpenRun.of(run) for name, run in raw["runs"].items()}
        counts = {name: int(raw[name]) for name in _COUNTS}
        limit = None if raw["limit"] is None else (float(raw["limit"][0]), float(raw["limit"][1]))
        units = {(unit, neighbours): opened for unit, neighbours, opened in raw["units"]}
        before = [(unit, neighbours) for unit, neighbours in raw["units_before"]]
        heads = {peer: (seen, bytes.fromhex(text)) for peer, (seen, text) in raw["heads"].items()}
        return cls(count, head, sums["lifetime"], sums["period"], runs, units, before, heads, **counts, limit=limit)


# ------------------------------------------------------------------------------------ over a log


def tallied(log: Log, begin: Tally | None = None) -> Tally:
    """What all rows of a log add up to: the rows since it was asked last, or since `begin`, are read."""
    tally: Tally | None = log.tally
    if tally is None or log.head_at(tally.count) != tally.head:  # another past: a transaction was undone
        tally = begin or Tally()
    # A row that cannot be read leaves nothing half added.
    log.tally = None
    length = log.length()
    for row in log.rows_between(tally.count, length, _KINDS):
        try:
            tally.add(row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerDamaged(
                f"row {row.seq} of a ledger, of kind {row.kind!r}, cannot be read, so what was spent is not known. "
                "Nothing is released: restore the newest copy of the file and its `blobs` folder."
            ) from error
    tally.count = length
    tally.head = log.head_at(length)
    log.tally = tally
    return tally


@dataclass(frozen=True)
class Snapshot:
    """A tally as it was signed."""

    node: str
    count: int
    head: str
    state: Mapping[str, Any]
    signature: str = ""

    @property
    def statement(self) -> bytes:
        """What is signed."""
        return json.dumps([_FORMAT, self.node, self.count, self.head, self.state], sort_keys=True).encode()

    def is_signed_by(self, public: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(self.signature), self.statement)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True

    def tally(self) -> Tally:
        return Tally.of(self.count, bytes.fromhex(self.head), self.state)


def sign(log: Log, node: str, identity: bytes) -> None:
    """Write the newest snapshot, in the caller's transaction. All rows must have been checked."""
    tally = tallied(log)
    made = Snapshot(node, tally.count, tally.head.hex(), tally.plain())
    signature = Ed25519PrivateKey.from_private_bytes(identity).sign(made.statement)
    log.note("snapshot", json.dumps({**vars(made), "signature": signature.hex()}).encode())


def last_snapshot(log: Log) -> Snapshot | None:
    """The newest snapshot, as it is written; None: there is none that can be read."""
    try:
        made = Snapshot(**json.loads(log.noted("snapshot") or b""))
        return made if type(made.count) is int else None
    except (ValueError, TypeError):
        return None


def trusted(log: Log, node: str, identity: bytes | None) -> Snapshot | None:
    """The newest snapshot, if the owner of this ledger signed it and the log holds the row it stands at."""
    made = last_snapshot(log)
    if made is None or identity is None or made.node != node or not made.is_signed_by(public_key(identity)):
        return None
    return made if log.head_at(made.count).hex() == made.head else None


def check_snapshot(log: Log, node: str) -> int:
    """Add up the rows that the newest snapshot vouches for, and compare; the number of these rows."""
    made = last_snapshot(log)
    if made is None:
        return 0
    tally = Tally()
    for row in log.rows_between(0, made.count, _KINDS):
        tally.add(row)
    same = made.node == node and log.head_at(made.count).hex() == made.head
    if not same or json.dumps(tally.plain(), sort_keys=True) != json.dumps(made.state, sort_keys=True):
        raise LedgerDamaged(
            f"the snapshot in the ledger of {node!r} says other sums than its first {made.count:,} rows, which are "
            "whole: it was changed, or is of another ledger. Nothing is released. Restore the newest copy of the file."
        )
    return made.count
