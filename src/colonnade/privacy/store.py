"""One file a node: an append-only, hash-chained log in SQLite, shared by its ledger and its transcript.

A row is (run, tick, kind, key, body); its head is SHA-256 over the head before it and all its fields, so a row cannot
be changed, removed from the middle or put in another order unnoticed. A change of state is one transaction, synced to
disk before anything that depends on it leaves the node. Bodies over 1 MiB are files beside the database, named by their
hash and synced before the row that names them. Secrets are the one thing kept outside the chain: they must be erasable.

`MemoryLog` has the same face and no disk: for runs of one owner that need not survive the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from colonnade.errors import LedgerDamaged, StoreError
from colonnade.privacy.database import disk, explain, open_database

LARGE = 1 << 20
_FORMAT = 1
_START = bytes(32)
_SIZE = struct.Struct("<Q").pack
_SCHEMA = """
create table if not exists log(
    seq integer primary key, run text not null, tick integer not null, kind text not null, key text not null,
    body blob not null, head blob not null, unique(run, kind, tick, key));
create index if not exists begun on log(key) where kind = 'begin';
create table if not exists secret(run text not null, name text not null, value blob not null, primary key(run, name));
create table if not exists meta(name text primary key, value blob not null) without rowid;
"""
_INLINE = b"\0"
_FILE = b"\1"
_NAME = re.compile(r"[0-9a-f]{64}")  # of a file, by its hash
_FILES = "select body from log where run = ? and length(body) = 65 and hex(substr(body, 1, 1)) = '01'"
_INSERT = "insert into log(run, tick, kind, key, body, head) values (?, ?, ?, ?, ?, ?)"
_ANY = "select 1 from log where run = ? and kind = ? limit 1"
_ONE = "select tick, kind, key, body from log where seq = ?"
_SOME = "select seq, run, tick, kind, key, body from log where seq > ? and seq <= ?"
_CHAIN = "select seq, run, tick, kind, key, body, head from log where seq > ? order by seq"
_LAST = "select head from log order by seq desc limit 1"
_BEGUN = "select run from log where kind = 'begin' and key = ? order by seq"  # by its index, which is the journal's
_KEPT = "select value from secret where run = ? and name = ?"
_OTHER_FILES = _FILES.replace("run = ?", "run != ? and run in (select run from secret)")  # of runs not erased yet


@dataclass(frozen=True, slots=True)
class Row:
    """One durable fact."""

    seq: int
    run: str
    tick: int
    kind: str
    key: str
    body: bytes


class MemoryLog:
    """A log that lives as long as the process."""

    durable = False
    checked = True  # nothing is chained in memory
    tally: Any = None  # what privacy/tally.py has added up of these rows

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._secrets: dict[tuple[str, str], bytes] = {}

    def atomic(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def append(self, run: str, tick: int, kind: str, key: str, body: bytes) -> None:
        self._rows.append(Row(len(self._rows) + 1, run, tick, kind, key, body))

    def rows(self, run: str | None = None, kind: str | None = None) -> list[Row]:
        return [r for r in self._rows if run in (None, r.run) and kind in (None, r.kind)]

    def rows_between(self, after: int, last: int, kinds: tuple[str, ...]) -> list[Row]:
        return [r for r in self._rows[after:last] if r.kind in kinds]

    def holds(self, run: str, kind: str) -> bool:
        return any(r.run == run and r.kind == kind for r in self._rows)

    def walk(self, run: str) -> Iterator[Row]:
        return iter(self.rows(run))

    def secret(self, run: str, name: str, size: int) -> bytes:
        return self._secrets.setdefault((run, name), secrets.token_bytes(size))

    def keep(self, run: str, name: str, value: bytes) -> None:
        self._secrets[run, name] = value

    def kept(self, run: str, name: str) -> bytes:
        return self._secrets[run, name]

    def erase(self, run: str) -> None:
        self._secrets = {key: value for key, value in self._secrets.items() if key[0] != run}

    def unerased(self) -> set[str]:
        return {run for run, _ in self._secrets}

    def verify(self) -> int:
        return len(self._rows)

    def check(self, count: int = 0) -> None:
        """As `checked` says."""

    def note(self, name: str, value: bytes) -> None:
        """Nothing outlives the process."""

    def noted(self, name: str) -> bytes | None:  # noqa: ARG002
        return None

    def has_secret(self, run: str, name: str) -> bool:
        return (run, name) in self._secrets

    def head_at(self, count: int) -> bytes:  # noqa: ARG002  nothing is chained in memory
        return _START

    def length(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Nothing to close."""


class FileLog:
    """The log of one node in one SQLite file, with large bodies beside it."""

    durable = True
    tally: Any = None  # what privacy/tally.py has added up of these rows
    _changes = 0  # rows that transactions of this connection have written
    _whole_at: int | None = None  # the version of the file, as SQLite counts them, at which its chain was found whole

    def __init__(self, path: str | os.PathLike[str], *, synced: bool = True) -> None:
        """synced  as in `open_database`."""
        self.path = Path(path)
        self._blobs = self.path.parent / "blobs"
        self._depth = 0
        self._head = _START
        self._has_tables = False
        with disk(self.path):
            self._db = open_database(self.path, synced=synced)
        try:
            self._settle_format()
        except BaseException:
            self._db.close()
            raise

    def _settle_format(self) -> None:
        with self.atomic():
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            found = self.stored_format()
            if found is None:
                self._db.execute("insert into meta values ('format', ?)", (_FORMAT,))
            else:
                check_format(self.path, found)
        self._has_tables = True

    def stored_format(self) -> object:
        """What the file says about its own format; None: nothing yet."""
        with disk(self.path):
            found = self._db.execute("select value from meta where name = 'format'").fetchone()
        return None if found is None else found[0]

    def atomic(self) -> contextlib.AbstractContextManager[None]:
        """One transaction, taken before reading so that two processes cannot decide on the same past; nests."""
        return _Transaction(self)

    def _begin(self) -> None:
        if self._depth == 0:
            # Something in this process wrote past `append`.
            if self._db.total_changes != self._changes:
                self._whole_at = None if self._whole_at is None else -1
                self.tally = None
            with disk(self.path):
                self._db.execute("begin immediate")
                try:
                    last = self._db.execute(_LAST).fetchone() if self._has_tables else None
                    self._head = self._blob(last[0]) if last else _START
                except BaseException:
                    self._db.execute("rollback")
                    raise
        self._depth += 1

    def _end(self, error: BaseException | None) -> None:
        self._depth -= 1
        if self._depth:
            return
        with disk(self.path):
            try:
                if error is None:
                    self._db.execute("commit")
            finally:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                self._changes = self._db.total_changes

    def append(self, run: str, tick: int, kind: str, key: str, body: bytes) -> None:
        with self.atomic():
            try:
                stored = self._put(body)
                head = chain(self._head, run, tick, kind, key, stored)
                self._db.execute(_INSERT, (run, tick, kind, key, stored, head))
            except sqlite3.IntegrityError as error:
                raise LedgerDamaged(
                    f"{self.path}: {kind} {key!r} of run {run} at tick {tick} is recorded already. Nothing was "
                    "recorded or sent twice; is another process driving the same run?"
                ) from error
            self._head = head

    def rows(self, run: str | None = None, kind: str | None = None) -> list[Row]:
        wanted = {"run": run, "kind": kind}
        clause = " and ".join(f"{name} = :{name}" for name, value in wanted.items() if value is not None) or "true"
        query = f"select seq, run, tick, kind, key, body from log where {clause} order by seq"  # noqa: S608  fixed
        return self._found(query, wanted)

    def rows_between(self, after: int, last: int, kinds: tuple[str, ...]) -> list[Row]:
        """The rows of some kinds behind row `after`, up to row `last`."""
        query = f"{_SOME} and kind in ({', '.join('?' * len(kinds))}) order by seq"
        return self._found(query, (after, last, *kinds))

    def _found(self, query: str, wanted: Any) -> list[Row]:
        with disk(self.path):
            found = self._db.execute(query, wanted).fetchall()
        return [Row(seq, r, tick, k, key, self._get(self._blob(body))) for seq, r, tick, k, key, body in found]

    def holds(self, run: str, kind: str) -> bool:
        """Whether a run has a row of a kind."""
        with disk(self.path):
            return self._db.execute(_ANY, (run, kind)).fetchone() is not None

    def begun_as(self, key: str) -> list[str]:
        """The runs that were begun under a key, oldest first."""
        with disk(self.path):
            return [run for (run,) in self._db.execute(_BEGUN, (key,))]

    def walk(self, run: str) -> Iterator[Row]:
        """The rows of a run in order, each read when it is reached: large bodies are never in memory together."""
        with disk(self.path):
            places = self._db.execute("select seq from log where run = ? order by seq", (run,)).fetchall()
            for (seq,) in places:
                tick, kind, key, body = self._db.execute(_ONE, (seq,)).fetchone()
                yield Row(seq, run, tick, kind, key, self._get(self._blob(body)))

    def verify(self) -> int:
        """Walk the whole chain; the number of rows, or LedgerDamaged where it breaks."""
        return self._walk_chain(0, _START)

    def check(self, count: int = 0) -> None:
        """The chain must be whole. Nothing is walked twice while this connection alone writes to the file; when it was
        just opened the walk begins behind `count` rows that a snapshot vouches for."""
        with self.atomic():
            with disk(self.path):
                (version,) = self._db.execute("pragma data_version").fetchone()
                (rows,) = self._db.execute("select count(*) from log").fetchone() if count else (0,)
            if self._whole_at is None and count and rows == self.length():
                self._walk_chain(count, self.head_at(count))
            elif self._whole_at != version:
                self.verify()
            self._whole_at = version

    @property
    def checked(self) -> bool:  # whether it was found whole once since it was opened
        return self._whole_at is not None

    def _walk_chain(self, count: int, head: bytes) -> int:
        with disk(self.path):
            for seq, run, tick, kind, key, body, stored in self._db.execute(_CHAIN, (count,)):
                head = chain(head, run, tick, kind, key, self._blob(body))
                count = count + 1
                if head != stored or seq != count:
                    raise LedgerDamaged(
                        f"{self.path}: row {seq} does not continue the chain of rows before it, so rows were changed, "
                        "removed or reordered. Restore the newest copy of this file and its `blobs` folder; "
                        "until then nothing is released."
                    )
        return count

    def _blob(self, value: object) -> bytes:
        if not isinstance(value, bytes):
            raise LedgerDamaged(
                f"{self.path}: a row holds {type(value).__name__} where bytes were written, so it does not continue "
                "the chain of rows before it. Restore the newest copy of this file; until then nothing is released."
            )
        return value

    def note(self, name: str, value: bytes) -> None:
        """What can be had again from the rows: outside the chain, the last value only."""
        with self.atomic():
            self._db.execute("insert or replace into meta values (?, ?)", (name, value))

    def noted(self, name: str) -> bytes | None:
        with disk(self.path):
            row = self._db.execute("select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else self._blob(row[0])

    def secret(self, run: str, name: str, size: int) -> bytes:
        with self.atomic():
            row = self._db.execute(_KEPT, (run, name)).fetchone()
            if row is None:
                row = (secrets.token_bytes(size),)
                self._db.execute("insert into secret values (?, ?, ?)", (run, name, row[0]))
        return self._blob(row[0])

    def keep(self, run: str, name: str, value: bytes) -> None:
        """A secret that changes: the last value only is kept, outside the chain."""
        with self.atomic():
            self._db.execute("insert or replace into secret values (?, ?, ?)", (run, name, value))

    def kept(self, run: str, name: str) -> bytes:
        with disk(self.path):
            row = self._db.execute(_KEPT, (run, name)).fetchone()
        if row is None:
            raise LedgerDamaged(f"{self.path}: what run {run} has added up so far is gone. The run cannot go on.")
        return self._blob(row[0])

    def has_secret(self, run: str, name: str) -> bool:
        """Whether `secret` would find one; nothing is written."""
        with disk(self.path):
            return self._db.execute(_KEPT, (run, name)).fetchone() is not None

    def erase(self, run: str) -> None:
        """Forget a run's secrets and the files of its large bodies: the chain keeps their hashes."""
        with self.atomic():
            files = {bytes(body) for (body,) in self._db.execute(_FILES, (run,))}
            for stored in files - {bytes(body) for (body,) in self._db.execute(_OTHER_FILES, (run,))}:
                (self._blobs / stored[1:].decode()).unlink(missing_ok=True)
            # Last: it marks a run that is not erased yet.
            self._db.execute("delete from secret where run = ?", (run,))
        if not self._depth:
            with disk(self.path):
                # The log beside the file keeps no copy either.
                self._db.execute("pragma wal_checkpoint(truncate)")

    def unerased(self) -> set[str]:
        """The runs that still have secrets."""
        with disk(self.path):
            return {run for (run,) in self._db.execute("select distinct run from secret")}

    def head_at(self, count: int) -> bytes:
        """The head after so many rows; empty if there are not so many."""
        with disk(self.path):
            row = self._db.execute("select head from log where seq = ?", (count,)).fetchone()
        return self._blob(row[0]) if row else b""

    def length(self) -> int:
        with disk(self.path):
            return int(self._db.execute("select coalesce(max(seq), 0) from log").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    def _put(self, body: bytes) -> bytes:
        if len(body) < LARGE:
            return _INLINE + body
        name = hashlib.sha256(body).hexdigest()
        target = self._blobs / name
        if not target.exists():
            self._blobs.mkdir(exist_ok=True)
            write_synced(target, body, private=True)
        return _FILE + name.encode()

    def _get(self, stored: bytes) -> bytes:
        if stored[:1] == _INLINE:
            return stored[1:]
        name = stored[1:].decode("ascii", "replace")
        if not _NAME.fullmatch(name):
            raise LedgerDamaged(f"{self.path}: a row names no file of a body. Restore the newest copy of this file.")
        try:
            body = (self._blobs / name).read_bytes()
        except OSError as error:
            raise LedgerDamaged(
                f"{self._blobs / name} is missing or unreadable, and {self.path} refers to it. Put the file back "
                "from a copy of the store; until then the run cannot go on and nothing is released."
            ) from error
        if hashlib.sha256(body).hexdigest() != name:
            raise LedgerDamaged(f"{self._blobs / name} is not what was recorded. Restore it from a copy of the store.")
        return body


Log = MemoryLog | FileLog


def check_format(path: Path, found: object) -> None:
    """Refuse a file that this version cannot read."""
    if isinstance(found, int) and found > _FORMAT:
        raise LedgerDamaged(
            f"{path} has format {found}, of a later version of Colonnade; this one reads formats up to {_FORMAT}. "
            "Nothing in it was changed, and nothing is released. Install that version: pip install --upgrade colonnade."
        )
    if not isinstance(found, int) or found < 1:
        raise LedgerDamaged(
            f"{path} says that its format is {found!r}, which no version of Colonnade wrote. Nothing is released. "
            "Restore the newest copy of this file and its `blobs` folder."
        )


class _Transaction:
    """A transaction of a `FileLog` as a context; a plain class, since every step of every node takes one."""

    __slots__ = ("_log",)

    def __init__(self, log: FileLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._log._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._log._end(error)
        if isinstance(error, sqlite3.DatabaseError | OSError):
            raise explain(self._log.path, error) from error


def chain(head: bytes, run: str, tick: int, kind: str, key: str, stored: bytes) -> bytes:
    """The head after one more row: every field is framed by its length, so no two rows hash alike."""
    number = str(tick).encode()
    fields = (_frame(run), _SIZE(len(number)), number, _frame(kind), _frame(key), _SIZE(len(stored)))
    digest = hashlib.sha256(head + b"".join(fields))
    # Apart, since it may be large and a copy costs.
    digest.update(stored)
    return digest.digest()


@lru_cache(maxsize=1024)
def _frame(text: str) -> bytes:  # a run's rows name the same few things over and over
    raw = text.encode()
    return _SIZE(len(raw)) + raw


def write_synced(target: Path, body: bytes, *, private: bool = False) -> None:
    """All of `body` at `target`, or nothing: written aside, synced, renamed, and the folder synced."""
    # A private file is its owner's alone, whatever the umask says.
    if not target.name:
        raise StoreError(f"cannot write to {target}: name a file in it.")
    aside = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        _write_aside(aside, target, body, 0o600 if private else 0o666)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror or error}. Nothing was written; create its folder, make it "
            "writable or free space, and try again."
        ) from error


def _write_aside(aside: Path, target: Path, body: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
