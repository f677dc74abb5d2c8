"""Files of a version to come, and of a version that nobody wrote: refused, and left alone."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

import colonnade as co
from colonnade.cli.live import ReadingLog
from colonnade.errors import LedgerDamaged
from colonnade.privacy.events import Policy
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runs.release_file import FIT_FORMAT

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")
LATER = FIT_FORMAT + 1


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with a limit in it."""
    path = tmp_path / "store" / "nodes" / "clinic.db"
    log = FileLog(path)
    Ledger(log, "clinic", Policy()).set_budget(2.0, 1e-6)
    log.close()
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    try:
        return [*database.execute("select * from log order by seq"), *database.execute("select * from meta")]
    finally:
        database.close()


def set_format(path: Path, value: object) -> None:
    with sqlite3.connect(path) as database:
        database.execute("update meta set value = ? where name = 'format'", (value,))
    database.close()


def test_a_fit_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path, body = tmp_path / "fit.json", json.dumps({"anything": 1})
    header = {"format": "colonnade fit", "version": LATER, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    path.write_text(f"{json.dumps(header)}\n{body}")
    before = path.read_bytes()
    with pytest.raises(co.InvalidInput, match=rf"version {LATER}, of a later .* pip install --upgrade"):
        co.load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("opened", [FileLog, ReadingLog], ids=["to write", "to look"])
def test_a_ledger_of_a_later_format_is_refused_and_left_alone(ledger: Path, opened: type[FileLog]) -> None:
    set_format(ledger, 2)
    before = rows(ledger)
    with pytest.raises(LedgerDamaged, match=r"format 2, of a later .* formats up to 1\. Nothing in it was changed"):
        opened(ledger)
    assert rows(ledger) == before


@pytest.mark.parametrize("found", [0, "two", 1.5])
def test_a_format_that_nobody_wrote_is_damage(ledger: Path, found: object) -> None:
    set_format(ledger, found)
    with pytest.raises(LedgerDamaged, match="which no version of Colonnade wrote"):
        FileLog(ledger)


def test_a_schema_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    text = 'version = 2\n[[column]]\ntype = "binary"\nname = "smoker"\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        co.InvalidInput, match=r"version is 2; this Colonnade reads version = 1\. Write that, or install a newer one"
    ):
        co.Schema.from_toml(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_schema_without_a_version_is_of_this_one(tmp_path: Path) -> None:
    schema = co.Schema((co.Binary("smoker"),))
    schema.to_toml(tmp_path / "schema.toml")
    text = (tmp_path / "schema.toml").read_text(encoding="utf-8")
    assert text.startswith("version = 1\n")
    assert co.Schema.from_text(text.removeprefix("version = 1\n")) == schema
