"""A store as it stands now, read without touching it while other processes write: runs, budgets and messages."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from colonnade.errors import ColonnadeError, InvalidInput, StoreError
from colonnade.methods import load_all
from colonnade.privacy.accountant import epsilon, less_taken
from colonnade.privacy.ending import Ending
from colonnade.privacy.events import Event, Policy, kind_of
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog, check_format
from colonnade.privacy.tally import Reserved
from colonnade.runs.budgets import DELTA, Account, account_of, last_policy
from colonnade.runtime.node import LOOK, header_and_length
from colonnade.runtime.program import BY_CODE, COORDINATOR
from colonnade.runtime.run_store import node_name

NEWEST = 50  # runs on the page
TAIL = 40  # messages on the page
PATIENCE = 10.0  # a sum over a ledger is made again after so many times what it took
_RUN_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
_BEGUN = "select run, substr(body, 2) from log where kind = 'begin' order by seq desc limit ?"
_OUT = f"select run, tick, key, substr(body, 1, {1 + LOOK}), length(body) from log where kind = 'out'"  # noqa: S608  a number
_ROUND = (
    "select substr(body, 10, 8) from log where run = ? and kind = 'in' and tick <= ? and substr(body, 1, 1) = x'00' "
    "order by tick desc limit 1"
)


@dataclass(frozen=True)
class Run:
    """One run as the store knows it."""

    name: str
    began: str
    state: str
    method: str = ""
    trust: str = ""
    unit: str = ""
    settings: str = ""
    protocol: str = ""
    epsilon: float | None = None  # None: no ledger here knows the run; infinite: exact values leave
    round: int = 0
    rounds: int | None = None  # at most, where the settings say so
    reported: bool = False


@dataclass(frozen=True)
class Message:
    """What left a data holder once; never what was in it."""

    run: str
    sender: str
    receiver: str
    kind: str
    size: int | None  # None: more than the transcript keeps
    round: int


class ReadingLog(FileLog):
    """A FileLog that is opened for reading only, so that a Ledger can sum it up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._blobs = path.parent / "blobs"
        self._depth = 0
        self._db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0, check_same_thread=False)
        try:
            check_format(path, self.stored_format())
        except BaseException:
            self._db.close()
            raise

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(query, values).fetchall()


class Reader:
    """One store, looked at again and again."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        if not (self.folder / "runs.db").is_file():
            raise InvalidInput(f"{folder} is not a store: it has no runs.db. Name the folder that was given as store=.")
        self._sums: dict[str, tuple[int, float, float, Account]] = {}  # by party: rows, when, how long, what
        load_all()  # messages of any method may be in the store

    # -------------------------------------------------------------------------------- runs

    def runs(self) -> list[Run]:
        """The newest runs, the last one first."""
        with self._looking(self.folder / "runs.db") as journal:
            begun = journal.ask(_BEGUN, NEWEST)
            ended = {
                run: Ending.of(json.loads(row.body)["how"]) for run, _ in begun for row in journal.rows(run, "end")
            }
        with contextlib.ExitStack() as files:
            nodes = {name: files.enter_context(self._looking(path)) for name, path in self._nodes().items()}
            held = _locked_files()
            return [self._run(run, bytes(when).decode(), ended.get(run), held, nodes) for run, when in begun]

    def run(self, name: str) -> Run | None:
        return next((run for run in self.runs() if run.name == name), None)

    def _run(
        self, name: str, began: str, ending: Ending | None, held: set[int] | None, nodes: dict[str, ReadingLog]
    ) -> Run:
        openings = {node: json.loads(row.body) for node, log in nodes.items() for row in log.rows(name, "open")}
        state = ending.words if ending is not None else self._going(name, held)
        if not openings:
            return Run(name, began, state)
        terms = next(iter(openings.values()))["terms"]
        delta = re.search(r"Privacy\(epsilon=[^,]+, delta=([^,)]+)", terms["settings"])
        rounds = re.search(r"\brounds=(\d+)", terms["settings"])
        reserved = [Reserved.of(opened) for opened in openings.values()]
        price = max(one.rho for one in reserved)
        taken = max(one.delta for one in reserved)
        return Run(
            name,
            began,
            state,
            **{fact: terms[fact] for fact in ("method", "trust", "unit", "settings", "protocol")},
            epsilon=epsilon(price, less_taken(float(delta.group(1)) if delta else DELTA, taken)),
            round=max((_round(log, name) for log in nodes.values()), default=0),
            rounds=int(rounds.group(1)) if rounds else None,
            reported=self.fit_file(name) is not None,
        )

    def _going(self, name: str, held: set[int] | None) -> str:
        try:
            driven = held is not None and (self.folder / "locks" / f"{name}.lock").stat().st_ino in held
        except OSError:
            driven = False
        return "running" if driven else "not ended: interrupted, or driven from elsewhere"

    def fit_file(self, name: str) -> Path | None:
        """The saved fit of a run. A name that somebody else chose must not lead out of the folder."""
        path = self.folder / "fits" / f"{name}.json"
        return path if _RUN_ID.fullmatch(name) and path.is_file() else None

    def left(self, name: str) -> list[tuple[str, str, str, int, float, float]]:
        """What left each data holder in a run: how it looked, what it was for, how often, and its price: rho, delta."""
        found: dict[tuple[str, str, str], list[Event]] = {}
        for party, path in self._holders().items():
            with self._looking(path) as log:
                for entry in Ledger(log, party, Policy()).entries(name):
                    found.setdefault((party, kind_of(entry.event), entry.what), []).append(entry.event)
        return [
            (*key, len(events), math.fsum(one.rho for one in events), math.fsum(one.delta for one in events))
            for key, events in found.items()
        ]

    # -------------------------------------------------------------------------------- messages

    def messages(self, run: str | None = None) -> list[Message]:
        """The last messages that left data holders, the newest first: of one run, or of all."""
        found = []
        for party, path in self._holders().items():
            with self._looking(path) as log:
                newest = f"{_OUT} order by seq desc limit ?", TAIL
                own = f"{_OUT} and run = ? order by tick desc limit ?", run, TAIL
                rows = log.ask(*newest) if run is None else log.ask(*own)
                for name, tick, receiver, start, length in rows:
                    kind, size = _kind(bytes(start), length)
                    number = _round(log, name, tick)
                    # Run ids begin with the time, so that their order is the order of runs.
                    found.append(((name, number, tick), Message(name, party, receiver, kind, size, number)))
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [message for _, message in found[:TAIL]]

    # -------------------------------------------------------------------------------- budgets

    def ledgers(self) -> list[Account]:
        """Every data holder's budget. The chains are not checked here: `colonnade budget show` does that."""
        return [self._ledger(party, path) for party, path in self._holders().items()]

    def _ledger(self, party: str, path: Path) -> Account:
        with self._looking(path) as log:
            count = log.length()
            now = time.monotonic()
            known = self._sums.get(party)
            if known and (known[0] == count or now - known[1] < PATIENCE * known[2]):
                return known[3]
            account = account_of(Ledger(log, party, last_policy(log)))
        self._sums[party] = (count, now, time.monotonic() - now, account)
        return account

    # -------------------------------------------------------------------------------- files

    def _nodes(self) -> dict[str, Path]:
        files = sorted((self.folder / "nodes").glob("*.db"))
        return {node_name(path.stem): path for path in files if path.stat().st_size}  # an empty one is just being made

    def _holders(self) -> dict[str, Path]:
        return {node: path for node, path in self._nodes().items() if node != COORDINATOR}

    @contextlib.contextmanager
    def _looking(self, path: Path) -> Iterator[ReadingLog]:
        try:
            with contextlib.closing(ReadingLog(path)) as log:
                yield log
        except (sqlite3.DatabaseError, StoreError, KeyError, ValueError) as error:
            raise NotReadable(f"{path.name} cannot be read now: {type(error).__name__}.") from error


class NotReadable(ColonnadeError):
    """A file of the store is being made, is locked, or is damaged: the next look may find it whole."""


def _round(log: ReadingLog, run: str, tick: int = 1 << 62) -> int:
    """The newest round that a node had been told of by a step."""
    found = log.ask(_ROUND, run, tick)
    return int.from_bytes(bytes(found[0][0]), "little") if found else 0


def _kind(start: bytes, length: int) -> tuple[str, int | None]:
    """Kind and size of a message, from the first bytes of its row: a mark, the wire's version, the kind's number."""
    said = header_and_length(start[1:], length - 1) if start[:1] == b"\0" else None
    if said is None:
        return "large message", None
    head, size = said
    shape = BY_CODE.get(int.from_bytes(head[1:3], "little"))
    return (shape.cls.__name__ if shape else "unknown"), size


def _locked_files() -> set[int] | None:
    """Inodes of locked files; None where the system does not say. To try a lock would take it for a moment, and a run
    that is just being resumed would find it taken."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    places = [place for line in lines if " FLOCK " in line for place in line.split() if place.count(":") == 2]
    return {int(place.rsplit(":", 1)[1]) for place in places}
