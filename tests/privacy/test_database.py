"""Claims about files that several processes make at once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from colonnade.privacy import database


class Refusing:
    """A connection that refuses what it is told, by one error after another."""

    def __init__(self, *errors: sqlite3.Error) -> None:
        self.errors, self.told = list(errors), []

    def execute(self, text: str) -> None:
        self.told.append(text)
        if self.errors:
            raise self.errors.pop()


def refused(path: Path, text: str) -> sqlite3.OperationalError:
    """What SQLite says of a file that another connection has for itself."""
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0.0)) as second:
        first.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError) as said:
            second.execute(text)
    return said.value


def test_of_two_that_make_a_file_at_once_none_is_told_that_it_is_locked(tmp_path):
    """SQLite tells one of them so, whatever its timeout is: both read the file, and each waits for the other."""
    locked = refused(tmp_path / "a.db", "pragma journal_mode = wal")
    assert "locked" in str(locked)
    db = Refusing(locked, locked)
    database._log_ahead(db)
    assert db.told == 3 * ["pragma journal_mode = wal"]


def test_what_a_disk_says_of_a_new_file_is_said_at_once(tmp_path):
    broken = refused(tmp_path / "a.db", "no statement")
    assert "locked" not in str(broken)
    with pytest.raises(sqlite3.OperationalError):
        database._log_ahead(Refusing(broken))
