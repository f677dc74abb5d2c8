"""Claims about `colonnade budget verify`: an undisturbed store passes, whoever owns it, and a disturbed one does not.

A party's store, and a hub's, remember ledgers that lie elsewhere; the store of one process holds all that it remembers.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.privacy.ledger import Ledger
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import RunStore
from tests.helpers.contract import federation
from tests.helpers.stub_hub import (
    GRAPH,
    STAR,
    run_of,
    straw_hub,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def verify(store: Path) -> tuple[int, str]:
    said = CliRunner().invoke(app, ["budget", "verify", str(store)])
    return said.exit_code, " ".join(said.output.split())


def change(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def forget_owner(store: Path) -> None:
    """The note of whose ledgers are here is outside the chain."""
    change(store / "runs.db", "delete from meta where name = 'ledgers'")


@pytest.fixture
def between(tmp_path: Path) -> Path:  # noqa: F811
    """The stores of a hub and of its parties after two runs, and a party's ledger of before the second."""
    with straw_hub(STAR, tmp_path) as straw:
        run_of(straw, STAR, tmp_path / "hub", "first")
        straw.close()
        shutil.copy(tmp_path / "party1" / "nodes" / "party1.db", tmp_path / "party1.old")
        straw.services = {name: straw.made.service(name) for name in straw.made.names}
        run_of(straw, STAR, tmp_path / "hub", "second")
    return tmp_path


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "the note is gone"])
def test_undisturbed_stores_between_organisations_pass(noted, between):
    for name in ("hub", "party0", "party1", "labels"):
        with contextlib.closing(RunStore(between / name)) as books:
            (owner,) = books.nodes()
            remembered = Ledger(books.log(owner), owner, co.Policy()).remembered()
            rows = books.log(owner).length()
        assert remembered  # of others, whose ledgers are not here
        assert owner == (COORDINATOR if name == "hub" else name)
        if not noted:
            forget_owner(between / name)
        assert verify(between / name) == (0, f"{owner}: {rows:,} rows, whole")


def test_the_hub_of_a_graph_has_a_journal_and_no_ledger(tmp_path):  # noqa: F811
    with straw_hub(GRAPH, tmp_path) as straw:
        run_of(straw, GRAPH, tmp_path / "hub")
    assert verify(tmp_path / "hub") == (0, "no ledger here; the journal of runs is whole")
    change(tmp_path / "hub" / "runs.db", "update log set body = x'00' where seq = 1")
    assert verify(tmp_path / "hub")[0] == 1


@pytest.mark.parametrize("name", ["hub", "party1"])
def test_a_store_between_organisations_whose_ledger_was_touched_does_not_pass(name, between):
    owner = COORDINATOR if name == "hub" else name
    ledger = between / name / "nodes" / f"{owner}.db"
    kept = ledger.read_bytes()
    change(ledger, "update log set body = x'00' where seq = 3")
    code, said = verify(between / name)
    assert code == 1
    assert "row 3 does not continue the chain" in said
    ledger.write_bytes(kept)
    assert verify(between / name)[0] == 0
    ledger.unlink()
    code, said = verify(between / name)
    assert code == 1
    assert f"the ledger of '{owner}' is gone: it was made in this store" in said


def test_a_party_ledger_put_back_from_before_a_run_is_noticed_by_its_own_journal(between):
    shutil.copy(between / "party1.old", between / "party1" / "nodes" / "party1.db")
    code, said = verify(between / "party1")
    assert code == 1
    assert "lacks run second, which the journal says has finished: it was rolled back" in said


def test_a_party_ledger_begun_anew_knows_nothing_of_runs_before(between):
    (between / "party1" / "nodes" / "party1.db").unlink()
    with contextlib.closing(RunStore(between / "party1")) as books:
        Ledger(books.log("party1"), "party1", co.Policy()).begin_anew(1.0)
    assert verify(between / "party1") == (0, "party1: 1 rows, whole")


# ------------------------------------------------------------------------------------------------ one process


def one_process(store: Path, witnesses: str) -> None:
    """Ledgers of a, b and c; those of some remember two rows of c."""
    with contextlib.closing(RunStore(store)) as books:
        ledgers = {name: Ledger(books.log(name), name, co.Policy()) for name in "abc"}
        for limit in (1.0, 2.0):
            ledgers["c"].set_budget(limit, 1e-6)
        for name in witnesses:
            log = ledgers["c"].log
            ledgers[name].remember("run", "end", {"c": (2, log.head_at(2))})


@pytest.mark.parametrize("witnesses", ["a", "b", "ab"], ids=["the first", "the second", "both"])
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "the note is gone"])
def test_a_store_of_one_process_holds_what_any_of_its_ledgers_remembers(witnesses, noted, tmp_path):  # noqa: F811
    one_process(tmp_path, witnesses)
    if not noted:
        forget_owner(tmp_path)
    assert verify(tmp_path) == (
        0,
        f"a: {int('a' in witnesses)} rows, whole b: {int('b' in witnesses)} rows, whole c: 2 rows, whole",
    )
    change(tmp_path / "nodes" / "c.db", "delete from log where seq = 2")  # a whole chain of one row
    code, said = verify(tmp_path)
    assert code == 1
    assert f"the ledger of 'c' lacks row 2, which '{witnesses[0]}' saw before" in said
    (tmp_path / "nodes" / "c.db").unlink()
    code, said = verify(tmp_path)
    assert code == 1
    assert "the ledger of 'c' is gone" in said


def test_a_ledger_that_nobody_remembers_yet_is_missed_in_its_own_store(tmp_path):  # noqa: F811
    one_process(tmp_path, "")
    (tmp_path / "nodes" / "b.db").unlink()
    assert verify(tmp_path)[0] == 1


def test_a_store_of_one_process_passes_after_a_fit(tmp_path):  # noqa: F811
    co.fit(federation(STAR), STAR.problem, STAR.method, store=tmp_path)
    assert verify(tmp_path)[0] == 0
