"""The SQLite files of a store, and those beside it that a service and its operator's commands write to (`SharedFile`:
the inbox, the job queue): its owner's alone, readers beside one writer, by several processes at once.

A new file is turned to write-ahead logging by whoever opens it first. Two that open it at the same moment both read it,
and each waits for the other to stop reading: SQLite tells one of them at once that the file is locked, however long its
timeout is. That one tries again.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from colonnade.errors import ColonnadeError, LedgerDamaged, StoreError

WAIT = 60.0  # seconds for another process to be done with the file
_OTHER_KINDS = (TypeError, ValueError, OverflowError, AttributeError)  # a text where a number was written, and so on
_PAUSE = 0.01  # seconds, at most, before another try


def open_database(path: Path, *, synced: bool = True) -> sqlite3.Connection:
    """The file at `path`, made where there is none.

    synced  False for records that need not outlive the machine: a process may die, and they are still there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)  # a ledger is its owner's alone
    db = sqlite3.connect(path, isolation_level=None, timeout=WAIT, check_same_thread=False)
    try:
        _log_ahead(db)
        db.execute(f"pragma synchronous = {'full' if synced else 'off'}")
        db.execute("pragma secure_delete = on")
    except BaseException:
        db.close()
        raise
    return db


def _log_ahead(db: sqlite3.Connection) -> None:
    end = time.monotonic() + WAIT
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.0, _PAUSE))  # noqa: S311  so that two do not try together again


def is_busy(error: BaseException) -> bool:
    """Whether SQLite says that another process has the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class disk:  # noqa: N801  read as a function, and a class since every step of every node passes here
    """Turn what SQLite and the system say about the disk into what the user can do."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, sqlite3.DatabaseError | OSError):
            raise explain(self._path, error) from error
        if isinstance(error, _OTHER_KINDS) and not isinstance(error, ColonnadeError):
            raise LedgerDamaged(
                f"{self._path} holds a value of another kind than was written there ({type(error).__name__}). Nothing "
                "will be released from it: restore the newest copy of the file and its `blobs` folder."
            ) from error


def explain(path: Path, error: sqlite3.DatabaseError | OSError) -> Exception:
    """What is damaged, locked or full, and what to do."""
    # The kind, without its detail; an OSError has none.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerDamaged(
            f"{path} is damaged ({error}). Nothing will be released from it: restore the newest copy of the file and "
            "its `blobs` folder."
        )
    if is_busy(error):
        return StoreError(f"{path} has been locked by another process for a minute. Wait for its end and try again.")
    said = error.strerror or error if isinstance(error, OSError) else error
    return StoreError(
        f"cannot write {path}: {said}. Nothing was sent that is not recorded; free space or make the folder "
        "writable, then repeat the same call to go on where the run stopped."
    )


_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "None": type(None)}
_LARGEST = 1e11  # of counts and times: within what calendars know


class SharedFile:
    """One such file: its connection, its transactions, and what to do when the disk says no."""

    def __init__(self, path: Path, schema: str, number: int, advice: str) -> None:
        """number  the format, which the file keeps
        advice  what to do if it cannot be written.
        """
        self.path = path
        self._advice = advice
        with self.explained():
            self.db = open_database(path)
        try:
            self._settle(schema, number)
        except BaseException:
            self.db.close()
            raise

    def _settle(self, schema: str, number: int) -> None:
        if self._format() == number:
            return
        with self.atomic():
            # Again: another process may have been here first.
            found = self._format()
            if found not in (0, number):
                raise StoreError(f"{self.path} was written by another Colonnade (format {found}). Install that one.")
            if found != number:
                for statement in schema.split(";"):
                    self.db.execute(statement)
                self.db.execute(f"pragma user_version = {number}")

    def _format(self) -> int:
        with self.explained():
            return int(self.db.execute("pragma user_version").fetchone()[0])

    def close(self) -> None:
        self.db.close()

    @contextlib.contextmanager
    def atomic(self, *keeping: type[Exception]) -> Iterator[None]:
        """One transaction, taken before reading; what was written stays also after errors of the types `keeping`."""
        with self.explained():
            self.db.execute("begin immediate")
            try:
                yield
                self.db.execute("commit")
            except keeping:
                self.db.execute("commit")
                raise
            finally:
                if self.db.in_transaction:
                    self.db.execute("rollback")

    def check_kinds(self, row: Sequence[object], kinds: Sequence[str]) -> None:
        """StoreError where a value of a row is of another kind than was written: "str", "int", "float | None"."""
        for value, kind in zip(row, kinds, strict=True):
            wanted = tuple(_KINDS[one] for one in kind.split(" | "))
            whole = isinstance(value, int) and "float" in kind
            sensible = not isinstance(value, int | float) or abs(value) <= _LARGEST
            if not ((isinstance(value, wanted) or whole) and sensible):
                raise StoreError(
                    f"{self.path} is damaged: it holds {type(value).__name__} where {kind} was written. Restore a copy "
                    "of it, or remove the file to begin another."
                )

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what SQLite and the system say about the disk into what the user can do."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if is_busy(error):
                why = f"another process has had it for {WAIT:g} seconds. Wait for its end and try again."
            else:
                why = f"{error}. {self._advice}"
            raise StoreError(f"cannot use {self.path}: {why}") from error
