"""The drill of docs/operate/service.md: a copy of a live store, a disk that dies, the copy put back, `replaced`, and on it goes."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

import colonnade as co
from colonnade.privacy.conditions import Code
from tests.helpers.lost_ledger import (
    ROLLED_BACK,
    Federation,
    made,  # noqa: F401
)
from tests.helpers.stub_hub import tmp_path  # noqa: F401

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def back_up(store: Path, to: Path) -> None:
    """As `sqlite3 FILE ".backup COPY"` for every database, while the party's process has them open; then the rest."""
    shutil.copytree(store, to, ignore=shutil.ignore_patterns("*.db", "*.db-wal", "*.db-shm"))
    for file in store.rglob("*.db"):
        with (
            contextlib.closing(sqlite3.connect(file)) as source,
            contextlib.closing(sqlite3.connect(to / file.relative_to(store))) as copy,
        ):
            source.backup(copy)


def put_back(made: Federation, party: str, copy: Path) -> None:  # noqa: F811
    made.straw.services[party].close()
    shutil.rmtree(made.folder / party)
    shutil.copytree(copy, made.folder / party)
    made.straw.services[party] = made.straw.made.service(party)


@pytest.mark.chance(0, "what was spent and a statement: no released figure is looked at")
def test_the_newest_copy_of_a_live_store_goes_on_as_if_nothing_had_happened(made, tmp_path):  # noqa: F811
    made.fit()
    back_up(made.folder / "party0", tmp_path / "copy")
    before = made.spent()
    put_back(made, "party0", tmp_path / "copy")
    assert made.spent() == before
    assert not made.fit().privacy.has(Code.LEDGERS_REPLACED)
    assert made.spent() > before


@pytest.mark.chance(0, "what was spent, refusals and a statement: no released figure is looked at")
def test_an_older_copy_is_refused_and_a_replaced_ledger_goes_on_with_what_was_spent(made, tmp_path):  # noqa: F811
    made.fit()
    back_up(made.folder / "party0", tmp_path / "copy")
    made.fit()  # since then the store has moved on, and others have seen it
    spent = made.spent()
    put_back(made, "party0", tmp_path / "copy")
    with pytest.raises(co.ColonnadeError, match=ROLLED_BACK):
        made.fit()
    assert made.spent() == spent  # nothing was spent by trying
    made.lose("party0")
    record = made.sign("party0", spent)
    made.all_take(record)
    fitted = made.fit()
    assert "1 ledger was replaced after it was lost: that of party0" in fitted.privacy.sentence
    assert made.spent() > spent  # the new ledger is no new budget
