"""A small SQLite file beside a store that a service and its operator's commands write to: the inbox, the job queue."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from colonnade.errors import StoreError
from colonnade.privacy.database import WAIT, is_busy, open_database

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
            found = self._format()  # again: another process may have been here first
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
