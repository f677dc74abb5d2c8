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
from dataclasses import asdict, dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.errors import LedgerDamaged
from colonnade.privacy.ending import Ending
from colonnade.privacy.events import SCORES, Event, Scope
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

    def value(self) -> float:
        return math.inf if self.infinite else self.units / (1 << _PLACES)

    def plain(self) -> list[str | int]:
        return [hex(self.units), self.infinite]

    @classmethod
    def of(cls, raw: Any) -> Sum:
        return cls(int(raw[0], 16), int(raw[1]))


@dataclass
class OpenRun:
    """A run whose reservation has not returned."""

    opened: int  # the row that opened it
    own: float  # what this party reserved for itself
    rest: float  # what was reserved about the same row at other parties or together
    unit: str
    neighbours: str
    own_left: Sum = field(default_factory=Sum)  # of its own releases so far
    left: Sum = field(default_factory=Sum)  # of all its releases so far

    @property
    def price(self) -> float:
        return self.own + self.rest


@dataclass
class Tally:
    """What the first `count` rows add up to."""

    count: int = 0
    head: bytes = b""
    lifetime: Sum = field(default_factory=Sum)  # of runs that are over
    period: Sum = field(default_factory=Sum)  # of those that ended in this period
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
        begun = self.lifetime if lifetime else self.period
        total = Sum(begun.units, begun.infinite)
        for run in self.runs.values():
            total.add(run.price)
        return total.value()

    def released(self) -> float:
        """rho of what has left in this period; `spent` has what open runs reserved, too."""
        left = Sum()
        for run in self.runs.values():
            left.units, left.infinite = left.units + run.left.units, left.infinite + run.left.infinite
        return self.period.value() + left.value()

    def counted_units(self) -> list[tuple[str, str]]:
        """Unit and neighbours of every run that counts, oldest first."""
        first = dict(self.units)
        for run in self.runs.values():
            if 0.0 < run.price < math.inf:
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
        self.runs[row.run] = OpenRun(row.seq, float(opened["own_rho"]), rest_rho(opened), unit, neighbours)
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
            run.left.add(event.rho)
            if event.scope is Scope.OWN:
                run.own_left.add(event.rho)
        elif event.scope is Scope.OWN:  # of no run that is open: it left all the same
            self._count(event.rho)

    def _close(self, row: Row) -> None:
        run = self.runs.pop(row.run, None)
        if run is None:
            return
        # What this party did not use returns; the others' part stays as planned, unless nothing was sent anywhere.
        rest = 0.0 if Ending.of(json.loads(row.body)["how"]).returns_all else run.rest
        price = run.own_left.value() + rest
        self._count(price)
        if 0.0 < price < math.inf:
            unit = (run.unit, run.neighbours)
            self.units[unit] = min(run.opened, self.units.get(unit, run.opened))

    def _budget(self, body: Mapping[str, Any]) -> None:
        if body["do"] == "renew":
            self.period, self.renewals = Sum(), self.renewals + 1
        else:
            self.limit = float(body["epsilon"]), float(body["delta"])

    def _replaced(self, body: Mapping[str, Any]) -> None:
        self.heads.pop(body["node"], None)
        if "head" in body:
            self._see({body["node"]: body["head"]})
        if "rho" in body:
            self._count(float(body["rho"]))
            if 0.0 < body["rho"] < math.inf:
                self.units_before += [(unit, neighbours) for unit, neighbours in body["units"]]

    def _count(self, rho: float) -> None:
        self.lifetime.add(rho)
        self.period.add(rho)

    def _see(self, seen: Mapping[str, Any]) -> None:
        for peer, (count, head) in seen.items():
            self.heads[peer] = max(self.heads.get(peer, (0, b"")), (count, bytes.fromhex(head)))

    # ------------------------------------------------------------------------ as text

    def plain(self) -> dict[str, Any]:
        """All of it but the place it stands at."""
        runs = {
            name: {**asdict(run), "own_left": run.own_left.plain(), "left": run.left.plain()}
            for name, run in self.runs.items()
        }
        return {
            "lifetime": self.lifetime.plain(),
            "period": self.period.plain(),
            "runs": runs,
            "units": [[*unit, opened] for unit, opened in self.units.items()],
            "units_before": [list(unit) for unit in self.units_before],
            "heads": {peer: [count, head.hex()] for peer, (count, head) in self.heads.items()},
            "limit": None if self.limit is None else list(self.limit),
            **{name: getattr(self, name) for name in _COUNTS},
        }

    @classmethod
    def of(cls, count: int, head: bytes, raw: Mapping[str, Any]) -> Tally:
        sums = {name: Sum.of(raw[name]) for name in ("lifetime", "period")}
        runs = {
            name: OpenRun(**{**run, "own_left": Sum.of(run["own_left"]), "left": Sum.of(run["left"])})
            for name, run in raw["runs"].items()
        }
        counts = {name: int(raw[name]) for name in _COUNTS}
        limit = None if raw["limit"] is None else (float(raw["limit"][0]), float(raw["limit"][1]))
        units = {(unit, neighbours): opened for unit, neighbours, opened in raw["units"]}
        before = [(unit, neighbours) for unit, neighbours in raw["units_before"]]
        heads = {peer: (seen, bytes.fromhex(text)) for peer, (seen, text) in raw["heads"].items()}
        return cls(count, head, sums["lifetime"], sums["period"], runs, units, before, heads, **counts, limit=limit)


def rest_rho(opened: Mapping[str, Any]) -> float:
    """What a run reserved about the same row at other parties or together."""
    return float(opened["rest_rho"])


# ------------------------------------------------------------------------------------ over a log


def tallied(log: Log, begin: Tally | None = None) -> Tally:
    """What all rows of a log add up to: the rows since it was asked last, or since `begin`, are read."""
    tally: Tally | None = log.tally
    if tally is None or log.head_at(tally.count) != tally.head:  # another past: a transaction was undone
        tally = begin or Tally()
    log.tally = None  # a row that cannot be read leaves nothing half added
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
