"""A store: the folder that keeps runs. One file a node, one journal of runs, one saved fit a finished run.

    store/runs.db           which runs were begun and how they ended
    store/nodes/NAME.db     ledger and transcript of a node (with large payloads in store/nodes/blobs)
    store/fits/RUN.json     the fit of a finished run; RUN.look.json: what a look has released
    store/locks/RUN.lock    held while a process drives the run; the system frees it when the process dies

A run is begun under the fingerprint of its call: method, problem, federation, data, protocol. The same call finds a run
that was begun and not ended, and goes on with it, unless another live process is driving it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from colonnade.errors import InvalidInput, LedgerDamaged, StoreError
from colonnade.privacy.events import ABORTED, Ending, Policy, with_delta
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog, Log, MemoryLog, Row
from colonnade.privacy.tally import last_snapshot, sign, trusted

ORDER = "order of rows"  # the name of its secret
JOURNAL = "journal"  # whose snapshot it is
_SIGNING = ("store", "signing key")  # the name of that secret
_FINGERPRINTS = ("store", "fingerprint key")
_LEDGERS = "ledgers"  # the name of a note: whose ledgers were made here
_EVERY = 512  # rows of the journal after which a snapshot is worth a signature
Settle = Callable[[dict[str, Ending]], Mapping[str, Iterable[str] | None]]  # `RunStore.tell` says what it does


class MemoryStore:
    """Runs that need not survive the process."""

    durable = False

    def log(self, node: str) -> Log:  # noqa: ARG002  every node gets a log of its own
        return MemoryLog()

    def log_path(self, node: str) -> Path | None:  # noqa: ARG002
        return None

    @contextlib.contextmanager
    def run(self, fingerprint: str) -> Iterator[str]:  # noqa: ARG002  nothing to find again
        yield new_run_id()

    def fit_path(self, run: str) -> Path | None:  # noqa: ARG002
        return None

    def look_path(self, run: str) -> Path | None:  # noqa: ARG002
        return None

    def finished(self, fingerprint: str) -> list[str]:  # noqa: ARG002  nothing to find again
        return []

    def end(self, run: str, ending: Ending) -> None:
        """Nothing to remember."""

    def how_ended(self, run: str) -> Ending | None:  # noqa: ARG002  nothing is remembered
        return None

    def tell(self, nodes: Iterable[str], settle: Settle) -> None:
        """Nothing is left of earlier runs."""

    def close(self) -> None:
        """Nothing to close."""


class RunStore:
    """Runs in a folder."""

    durable = True

    def __init__(self, folder: str | Path) -> None:
        if not isinstance(folder, str | Path) or not str(folder):
            raise InvalidInput(f"store={folder!r}: name a folder, such as store='runs'")
        self.folder = Path(folder).expanduser()
        self._open: dict[str, FileLog] = {}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part in ("nodes", "fits", "locks"):
                (self.folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            what = "it is a file" if self.folder.is_file() else error.strerror
            raise _unusable_store(self.folder, what) from error
        self._journal = FileLog(self.folder / "runs.db")
        # It must be whole, from its newest snapshot. Chain and snapshot are for accidents here: whoever can write the
        # file can read the key that signs, and could chain all rows anew.
        key = self._journal.kept(*_SIGNING) if self._journal.has_secret(*_SIGNING) else None
        begin = trusted(self._journal, JOURNAL, key)
        self._journal.check(0 if begin is None else begin.count)
        self._own = noted_ledgers(self._journal)

    def log(self, node: str) -> Log:
        if node not in self._open:
            self._open[node] = FileLog(self.path_in(self.folder, node))
            self._note_own(node)
        return self._open[node]

    def _note_own(self, node: str) -> None:
        """Keep whose ledgers are this store's: what its ledgers remember of all others lies elsewhere."""
        if node not in self._own:
            with self._journal.atomic():
                self._own = noted_ledgers(self._journal) | {node, *self.nodes()}
                self._journal.note(_LEDGERS, json.dumps(sorted(self._own)).encode())

    def nodes(self) -> list[str]:
        """Whose ledgers are here."""
        return [node_name(path.stem) for path in sorted((self.folder / "nodes").glob("*.db"))]

    def log_path(self, node: str) -> Path:
        """Where the ledger of a node will be written, which is this store's own from now on."""
        self._note_own(node)
        return self.path_in(self.folder, node)

    @staticmethod
    def path_in(folder: Path, node: str) -> Path:
        """Where a store keeps the ledger of a node."""
        return folder / "nodes" / f"{file_name(node)}.db"

    @contextlib.contextmanager
    def run(self, fingerprint: str) -> Iterator[str]:
        """The run to drive: one begun earlier by the same call and not ended, else a new one."""
        held, run = self._claim(fingerprint)
        try:
            yield run
        finally:
            held.close()

    @contextlib.contextmanager
    def run_once(self, job: str) -> Iterator[str]:
        """The one run of a job, begun at most once, whatever becomes of it: another would be paid again."""
        with self._journal.atomic():
            found = self.run_of(job)
            run = new_run_id() if found is None else found[0]
            if found is not None and found[1] is not None:
                raise InvalidInput(f"the run of this job, {run}, is over: {found[1].words}.")
            if (held := self.lock(run)) is None:
                raise StoreError(f"run {run} is being driven by another process; wait for its end.")
            if found is None:
                self._journal.append(run, 0, "begin", self._keyed_hash(job), _now().encode())
        try:
            yield run
        finally:
            held.close()

    def run_of(self, job: str) -> tuple[str, Ending | None] | None:
        """The run that a job has begun, and how it ended; None before it began."""
        key = self._keyed_hash(job)
        begun = next(iter(self._journal.begun_as(key)), None)
        return None if begun is None else (begun, self.how_ended(begun))

    def order_secret(self, *, kept: bool = True) -> bytes:
        """The secret by which private runs in one process order their rows (row_order.py): one for all runs of a store.

        kept  False writes nothing: a store without a secret has no such run, and any secret does.
        """
        # It lies in runs.db, its owner's alone. In another order an interrupted run would find other rows.
        if not kept and not self._journal.has_secret("store", ORDER):
            return secrets.token_bytes(32)
        return self._journal.secret("store", ORDER, 32)

    def going_on(self, fingerprint: str) -> str | None:
        """The run that the same call would go on with, if there is one; nothing is written."""
        if not self._journal.has_secret(*_FINGERPRINTS):
            return None
        begun = self._journal.begun_as(self._keyed_hash(fingerprint))
        return next((run for run in begun if self.how_ended(run) is None), None)

    def _keyed_hash(self, fingerprint: str) -> str:
        # A plain hash of the data would let a reader of the journal test guesses about a row.
        key = self._journal.secret(*_FINGERPRINTS, 32)
        return hashlib.blake2b(fingerprint.encode(), key=key, digest_size=32).hexdigest()

    def _claim(self, fingerprint: str) -> tuple[IO[str], str]:
        key = self._keyed_hash(fingerprint)
        with self._journal.atomic():
            for run in self._journal.begun_as(key):
                if self.how_ended(run) is None and (held := self.lock(run)) is not None:
                    return held, run
            run = new_run_id()
            held = self.lock(run)
            assert held is not None
            self._journal.append(run, 0, "begin", key, _now().encode())
            return held, run

    def adopt(self, run: str) -> None:
        """Note the beginning of a run whose id somebody else chose."""
        with self._journal.atomic():
            if not self.has_begun(run):
                self._journal.append(run, 0, "begin", "", _now().encode())

    def lock(self, run: str) -> IO[str] | None:
        """The run's lock, held until it is closed; None if another process holds it."""
        try:
            held = (self.folder / "locks" / f"{run}.lock").open("w")
        except OSError as error:
            raise StoreError(f"cannot write to {self.folder}: {error.strerror}. Make room or permit it.") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            return None
        return held

    def fit_path(self, run: str) -> Path | None:
        return self.folder / "fits" / f"{run}.json"

    def look_path(self, run: str) -> Path | None:
        return self.folder / "fits" / f"{run}.look.json"

    def finished(self, fingerprint: str) -> list[str]:
        """The runs of the same call that have finished, the oldest first."""
        begun = self._journal.begun_as(self._keyed_hash(fingerprint))
        return [run for run in begun if (how := self.how_ended(run)) is not None and how.finished]

    def end(self, run: str, ending: Ending) -> None:
        """The one moment from which the run is over."""
        with self._journal.atomic():
            self._journal.append(run, 0, "end", "", json.dumps({"how": ending.code, "when": _now()}).encode())
            last = last_snapshot(self._journal)
            if self._journal.length() - (0 if last is None else last.count) >= _EVERY:
                self._journal.check()
                sign(self._journal, JOURNAL, self._journal.secret(*_SIGNING, 32))
        (self.folder / "locks" / f"{run}.lock").unlink(missing_ok=True)

    def tell(self, nodes: Iterable[str], settle: Settle) -> None:
        """Have nodes hear which runs ended since all of them heard it last, and how: a process may have died before it
        could say so. `settle` tells them, and says who has heard it and which runs are open there still, where known:
        a ledger that was put back from an old copy has forgotten an end that it had heard, and hears it again."""
        length = self._journal.length()
        heard = self._heard()
        after = min((heard.get(node, 0) for node in nodes), default=length)
        over = {row.run: _how(row) for row in self._journal.rows_between(after, length, ("end",))}
        if over:
            told = settle(over)
            left = {run for runs in told.values() for run in runs or ()}
            if again := {run: how for run in sorted(left) if (how := self.how_ended(run)) is not None}:
                settle(again)
            with self._journal.atomic():
                heard = self._heard()
                heard |= {node: max(length, heard.get(node, 0)) for node in told}
                self._journal.note("heard", json.dumps(heard).encode())

    def _heard(self) -> dict[str, int]:
        """By node, of how many rows of the journal it knows the ends; not chained: who hears again loses nothing."""
        try:
            return {str(node): int(count) for node, count in json.loads(self._journal.noted("heard") or b"{}").items()}
        except (ValueError, TypeError, AttributeError):
            return {}

    def has_begun(self, run: str) -> bool:
        return self._journal.holds(run, "begin")

    def how_ended(self, run: str) -> Ending | None:
        """How a run ended; None: it has not."""
        return next(map(_how, self._journal.rows(run, "end")), None)

    def begun(self) -> list[tuple[str, str]]:
        """Every run, and when it began."""
        return [(row.run, row.body.decode()) for row in self._journal.rows(kind="begin")]

    def ended(self) -> dict[str, Ending]:
        """The runs that are over, and how they ended."""
        return {row.run: _how(row) for row in self._journal.rows(kind="end")}

    def close(self) -> None:
        for log in [self._journal, *self._open.values()]:
            log.close()


Store = MemoryStore | RunStore


def noted_ledgers(journal: FileLog) -> set[str]:
    """Whose ledgers were made in a store; empty where the note of it is gone."""
    try:
        return set(map(str, json.loads(journal.noted(_LEDGERS) or b"[]")))
    except (ValueError, TypeError):
        return set()


def finished_elsewhere(journal: FileLog) -> dict[str, str]:
    """The runs of another organisation that finished here, and when: every one was in a ledger of this store."""
    adopted = {row.run for row in journal.rows(kind="begin") if not row.key}
    ends = {row.run: row for row in journal.rows(kind="end") if row.run in adopted and _how(row).finished}
    return {run: str(json.loads(row.body).get("when", "")) for run, row in ends.items()}


def _how(row: Row) -> Ending:
    try:
        return Ending.of(json.loads(row.body)["how"])
    except (ValueError, KeyError, TypeError) as error:
        # Nobody has walked the rows that a snapshot vouches for.
        raise LedgerDamaged(
            f"row {row.seq} of runs.db, the end of run {row.run}, cannot be read: it was changed. Nothing is released: "
            "restore the newest copy of the file."
        ) from error


def _unusable_store(folder: Path, what: object) -> StoreError:
    return StoreError(f"cannot use {folder} as a store: {what}. Name a folder that is writable or still to be made.")


def check_folder(folder: Path) -> None:
    """That a store can be made where there is none, without making it."""
    above = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = f"{above} is a file" if not above.is_dir() else f"{above} is not writable"
        raise _unusable_store(folder, what)


def file_name(node: str) -> str:
    """A file name for any party name: letters, digits and dashes stay, the rest becomes its code."""
    return re.sub(r"[^A-Za-z0-9-]", lambda match: f"_{ord(match.group()):x}_", node)


def node_name(file: str) -> str:
    """The inverse of `file_name`."""
    return re.sub(r"_([0-9a-f]+)_", lambda match: chr(int(match.group(1), 16)), file)


def new_run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(6)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def released(folder: str | Path, run: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What is on record about a run: its terms, and what left each node whose ledger is here."""
    with closing(open_existing(folder)) as store:
        _check_begun(store, run)
        terms: dict[str, str] = {}
        left = []
        for node in store.nodes():
            ledger = Ledger(store.log(node), node, Policy())
            for row in ledger.log.rows(run, "open"):
                terms = json.loads(row.body)["terms"]
            entries = ledger.entries(run)
            for what in dict.fromkeys(entry.what for entry in entries):
                events = [entry.event for entry in entries if entry.what == what]
                price = {"rho": sum(event.rho for event in events)}
                beside = with_delta(delta=sum(event.delta for event in events))
                left.append({"node": node, "what": what, "times": len(events), **price, **beside})
        return terms, left


def abort_run(folder: str | Path, run: str) -> list[str]:
    """End an interrupted run; the nodes whose ledgers were closed."""
    with closing(open_existing(folder)) as store:
        _check_begun(store, run)
        if (ended := store.how_ended(run)) is not None:
            raise InvalidInput(f"run {run} is over already: {ended.words}.")
        return _abort(store, run)


def _check_begun(store: RunStore, run: str) -> None:
    if not store.has_begun(run):
        folder = store.folder
        raise InvalidInput(f"{folder} holds no run {run!r}; `colonnade runs list {folder}` shows those it has.")


def _abort(store: RunStore, run: str) -> list[str]:
    held = store.lock(run)
    if held is None:
        raise StoreError(f"run {run} is being driven by another process; stop that first.")
    with held:
        store.end(run, ABORTED)
    # The store may be a party's, whose key is elsewhere: every row is read, and nothing signed.
    ledgers = [Ledger(store.log(node), node, Policy(), snapshots=False) for node in store.nodes()]
    touched = [ledger.node for ledger in ledgers if run in ledger.open_runs()]
    for ledger in ledgers:
        ledger.close_run(run, ABORTED)
    return touched


def end_open_runs(store: RunStore) -> None:
    """Abort every run that has not ended: without a ledger that was lost none of them can go on."""
    over = store.ended()
    for run in [run for run, _ in store.begun() if run not in over]:
        _abort(store, run)


def begin_new_ledger(folder: str | Path, node: str) -> tuple[str, float, float]:
    """Begin a ledger in the place of a lost one, in a store that holds all: when, and with which rho and delta.

    They are the largest sums of the others' ledgers, which count about the same rows.
    """
    with closing(open_existing(folder)) as store:
        peers = [Ledger(store.log(name), name, Policy()) for name in store.nodes() if name != node]
        if not any(node in peer.remembered() for peer in peers):
            known = ", ".join(store.nodes())
            raise InvalidInput(f"no ledger in {folder} remembers one of {node!r}; there are those of {known}.")
        ledger = Ledger(store.log(node), node, Policy())
        ledger.check_new()
        end_open_runs(store)
        rho = max(peer.row_spent() for peer in peers)
        taken = max(peer.row_taken() for peer in peers)
        one = ledger.begin_anew(rho, dict.fromkeys(unit for peer in peers for unit in peer.counted_units()), taken)
        count = ledger.log.length()
        for peer in peers:
            peer.accept_replaced(one, (count, ledger.log.head_at(count)), rho, taken)
        return one.when, rho, taken


def open_existing(folder: str | Path) -> RunStore:
    if not (Path(folder) / "runs.db").is_file():
        raise InvalidInput(f"{folder} is not a store: it has no runs.db. Name the folder that was given as store=.")
    return RunStore(folder)
