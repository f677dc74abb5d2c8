"""Claims about the journal of runs: opened from its snapshot, and told to nodes once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import colonnade as co
from colonnade.privacy.events import ABORTED, Ending, How
from colonnade.privacy.store import FileLog
from colonnade.privacy.tally import last_snapshot
from colonnade.runs.budgets import make_ledger, verify_ledgers
from colonnade.runtime import run_store
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RUNS = 7  # with a snapshot after every fourth row: at row 4, 8 and 12 of 14


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_store, "_EVERY", 4)
    make_ledger(tmp_path, "a")
    with closing(RunStore(tmp_path)) as books:
        for number in range(RUNS):
            with books.run_once(f"job {number}") as run:
                books.end(run, Ending(How.FAILED, f"E{number}"))
        assert last_snapshot(books._journal).count == 12
    return tmp_path


def edit(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store / "runs.db")) as db, db:
        db.execute(statement)


def test_a_journal_opens_from_its_snapshot(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    walk = FileLog._walk_chain
    monkeypatch.setattr(FileLog, "_walk_chain", lambda log, *at: walked.append(at[0]) or walk(log, *at))
    with closing(RunStore(store)) as books:
        assert walked == [12]
        assert [books.run_of(f"job {number}")[1] for number in range(RUNS)] == [
            Ending(How.FAILED, f"E{n}") for n in range(RUNS)
        ]
        assert len(books.begun()) == len(books.ended()) == RUNS


@pytest.mark.parametrize(
    "statement",
    [
        "update log set run = 'another' where seq = 13",
        "update log set body = x'00' where seq = 14",
        "delete from log where seq = 3",
        "update log set head = zeroblob(32) where seq = 12",
        "update log set body = x'00' where seq = 2; update meta set value = x'00' where name = 'snapshot'",
        "update log set body = x'00' where seq = 2; update secret set value = zeroblob(32) where name = 'signing key'",
    ],
)
def test_a_change_behind_the_snapshot_or_of_it_is_noticed_when_a_store_opens(store: Path, statement: str) -> None:
    for one in statement.split(";"):
        edit(store, one)
    with pytest.raises(co.LedgerDamaged, match=r"does not continue the chain"):
        RunStore(store)


def test_a_change_before_the_snapshot_is_noticed_by_verify(store: Path) -> None:
    verify_ledgers(store)
    edit(store, "update log set body = x'00' where seq = 2")
    RunStore(store).close()
    with pytest.raises(co.LedgerDamaged, match=r"row 2 does not continue the chain"):
        verify_ledgers(store)


def test_nodes_hear_of_an_end_until_all_have_heard_it(store: Path) -> None:
    with closing(RunStore(store)) as books:
        ends = [Ending(How.FAILED, f"E{number}") for number in range(RUNS)]
        said: list[list[str]] = []

        def settle(*heard: str):
            return lambda over: said.append(list(over.values())) or dict.fromkeys(heard)

        books.tell(["a", "b"], settle("a"))  # b is lost to this run
        books.tell(["a", "b"], settle("a", "b"))
        books.tell(["a", "b"], settle("a", "b"))  # nothing new
        books.tell(["a", "c"], settle("a", "c"))  # c comes from another federation
        with books.run_once("one more") as run:
            books.end(run, ABORTED)
        books.tell(["b", "a"], settle("a", "b"))
        assert said == [ends, ends, ends, [ABORTED]]


def test_who_cannot_be_told_is_told_again(store: Path) -> None:
    def fails(over: dict[str, str]) -> dict[str, None]:
        raise co.StoreError("nobody answers")

    said = []
    with closing(RunStore(store)) as books:
        with pytest.raises(co.StoreError):
            books.tell(["a"], fails)
        books._journal.note("heard", b"no record")
        books.tell(["a"], lambda over: said.extend(over) or {"a": None})
        assert len(said) == RUNS


def test_a_ledger_that_was_put_back_from_an_old_copy_hears_again_of_an_end(store: Path) -> None:
    said: list[list[str]] = []
    with closing(RunStore(store)) as books:
        books.tell(["a", "b"], lambda over: dict.fromkeys("ab"))
        with books.run_once("one more") as run:
            books.end(run, ABORTED)
        with books.run_once("going on") as open_still:
            left = {books.run_of("job 1")[0], open_still, "node"}  # of an old copy, of another process, a secret's name
            books.tell(["a", "b"], lambda over: said.append(list(over.values())) or {"a": left, "b": None})
    assert said == [[ABORTED], [Ending(How.FAILED, "E1")]]


def test_an_end_that_cannot_be_read_behind_a_snapshot_is_damage(store: Path) -> None:
    edit(store, "update log set body = x'00' where seq = 2")
    with closing(RunStore(store)) as books, pytest.raises(co.LedgerDamaged, match=r"row 2 of runs\.db, the end of run"):
        books.run_of("job 0")
