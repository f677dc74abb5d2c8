"""Files of the version before, and of a version to come: model, ledger, transcript, schema.

The files in tests/earlier were written by an earlier commit of Colonnade, not by this test: a run of distributed
Frank-Wolfe over 8 rows of random numbers. The ledger is kept as SQL text; it holds the transcript, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.live.reading import ReadingLog
from colonnade.errors import LedgerDamaged
from colonnade.privacy.events import Policy
from colonnade.privacy.ledger import ADMIN, CLOSING, OPENING, Ledger
from colonnade.privacy.store import FileLog
from colonnade.privacy.tally import OWNER
from colonnade.runs.budgets import account, export_table, spending
from colonnade.runs.fit_file import to_plain
from colonnade.runs.release_file import FIT_FORMAT as FIT_VERSION
from colonnade.runtime.node import Transcript

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

EARLIER = Path(__file__).parents[1] / "earlier"
RUN = "20261116T083340-29efa5b93c29"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The ledger of format 1, in its place in a store."""
    path = tmp_path / "store" / "nodes" / "clinic.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.executescript((EARLIER / "ledger-1.sql").read_text(encoding="utf-8"))
    database.close()
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute("select * from log order by seq").fetchall()
    finally:
        database.close()


def stored_format(path: Path) -> object:
    database = sqlite3.connect(path)
    try:
        return database.execute("select value from meta where name = 'format'").fetchone()[0]
    finally:
        database.close()


def set_format(path: Path, value: object) -> None:
    with sqlite3.connect(path) as database:
        database.execute("update meta set value = ? where name = 'format'", (value,))
    database.close()


# ------------------------------------------------------------------------------------------------ model


def test_a_fit_of_version_1_predicts_as_it_did_and_says_what_it_said(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    shutil.copy(EARLIER / "fit-1.json", path)
    before = path.read_bytes()
    raw = json.loads(before.partition(b"\n")[2])
    fit = co.load(path)
    assert (raw["run"], raw["objective"], raw["gap"]) == (fit.run, fit.objective, fit.gap)
    X = np.random.default_rng(0).normal(size=(5, 4))
    x = np.array([raw["coefficients"]["clinic"]["values"][0], 0.0, 0.0, raw["coefficients"]["laboratory"]["values"][0]])
    fed = co.Federation.split(X, None, parties={"clinic": slice(0, 2), "laboratory": slice(2, 4)})
    np.testing.assert_allclose(X @ x, fit.scores(fed), rtol=1e-12)
    assert fit.privacy.guarantee == "none"
    assert sum(line[5] for line in raw["communication"]) == fit.communication.bytes
    assert path.read_bytes() == before


def test_a_fit_of_version_1_that_is_saved_again_is_of_this_version_and_equal(tmp_path: Path) -> None:
    first = co.load(EARLIER / "fit-1.json")
    first.save(tmp_path / "fit.json")
    header, _, body = (tmp_path / "fit.json").read_text(encoding="utf-8").partition("\n")
    assert json.loads(header)["version"] == FIT_VERSION
    again = co.load(tmp_path / "fit.json")
    assert to_plain(again) == to_plain(first)
    assert json.loads(body)["model"] is None


def test_a_fit_of_version_1_can_be_reported(tmp_path: Path) -> None:
    co.load(EARLIER / "fit-1.json").report(tmp_path / "report.html")
    assert "distributed Frank-Wolfe" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_fit_of_this_version_may_leave_nothing_out(tmp_path: Path) -> None:
    """Only version 1 has defaults: a key that is absent from a newer file was lost."""
    co.load(EARLIER / "fit-1.json").save(tmp_path / "fit.json")
    raw = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8").partition("\n")[2])
    del raw["by_rows"]
    write_fit(tmp_path / "fit.json", raw, FIT_VERSION)
    with pytest.raises(co.InvalidInput, match="not a whole saved fit"):
        co.load(tmp_path / "fit.json")


def test_a_fit_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_fit(tmp_path / "fit.json", {"anything": 1}, FIT_VERSION + 1)
    before = (tmp_path / "fit.json").read_bytes()
    with pytest.raises(co.InvalidInput, match=rf"version {FIT_VERSION + 1}, of a later .* pip install --upgrade"):
        co.load(tmp_path / "fit.json")
    assert (tmp_path / "fit.json").read_bytes() == before


def write_fit(path: Path, raw: object, version: int) -> None:
    body = json.dumps(raw)
    digest = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(json.dumps({"format": "colonnade fit", "version": version, "sha256": digest}) + "\n" + body)


# ------------------------------------------------------------------------------------------------ ledger


def test_a_ledger_of_format_1_is_marked_once_and_none_of_its_rows_changes(ledger: Path) -> None:
    before = rows(ledger)
    log = FileLog(ledger)
    assert log.verify() == len(before) == 32
    log.close()
    assert stored_format(ledger) == 2
    assert rows(ledger) == before
    FileLog(ledger).close()
    assert rows(ledger) == before


def test_what_a_ledger_of_format_1_says_was_spent_still_counts(ledger: Path) -> None:
    found = account(ledger.parents[1], "clinic")
    assert (found.releases, found.exact, found.open_runs) == (5, 5, 0)
    assert math.isinf(found.spent)
    log = FileLog(ledger)
    assert math.isinf(Ledger(log, "clinic", Policy(epsilon=1.0, delta=1e-6)).budget().rho)
    log.close()


def test_owners_commands_read_a_ledger_of_format_1(ledger: Path) -> None:
    store = ledger.parents[1]
    for words in (["show", store], ["verify", store], ["export", store, "clinic"], ["notes", store, "clinic"]):
        done = CliRunner().invoke(app, ["budget", *map(str, words)])
        assert done.exit_code == 0, done.output
    assert [(x["what"], x["round"]) for x in json.loads(export_table(store, "clinic", "json"))] == [
        ("not recorded", 0)
    ] * 5
    assert [("", math.inf)] == spending(store, "clinic")


def test_finite_prices_of_format_1_add_up_as_they_did(tmp_path: Path) -> None:
    """Bodies as that version wrote them: the event alone, and the whole row's price instead of the others' part."""
    path = tmp_path / "nodes" / "clinic.db"
    event = {"mechanism": "gaussian", "rho": 0.1, "sensitivity": 1.0, "scope": "own", "audience": "all"}
    opening = {"own_rho": 0.3, "row_rho": 0.5, "plan": [], "terms": {}, "when": "2026-01-01T00:00:00+00:00"}
    log = FileLog(path)
    for run in ("closed", "open"):
        log.append(run, OPENING, "open", "", json.dumps(opening).encode())
        log.append(run, 1, "event", "0", json.dumps(event).encode())
    log.append("closed", CLOSING, "close", "", json.dumps({"how": "finished", "when": ""}).encode())
    log.close()
    set_format(path, 1)
    log = FileLog(path)
    budget = Ledger(log, "clinic", Policy()).budget()
    # The closed run spent 0.1 of its own 0.3, and the others' 0.2; the open one holds all of its 0.5.
    assert budget.rho == pytest.approx(0.1 + 0.2 + 0.5, rel=1e-12)
    assert [entry.event.rho for entry in Ledger(log, "clinic", Policy()).entries()] == [0.1, 0.1]
    log.close()


def test_a_ledger_of_format_1_goes_on_in_the_same_chain(ledger: Path) -> None:
    log = FileLog(ledger)
    Ledger(log, "clinic", Policy()).set_budget(2.0, 1e-6)
    assert log.verify() == 33
    assert [row.kind for row in log.rows(OWNER)] == ["budget"]
    assert log.rows(OWNER)[0].tick == ADMIN
    log.close()


def test_a_damaged_ledger_of_format_1_is_not_marked(ledger: Path) -> None:
    with sqlite3.connect(ledger) as database:
        database.execute("update log set body = x'007b7d' where seq = 3")
    database.close()
    with pytest.raises(LedgerDamaged, match="row 3 does not continue the chain"):
        FileLog(ledger)
    assert stored_format(ledger) == 1


@pytest.mark.parametrize("opened", [FileLog, ReadingLog], ids=["to write", "to look"])
def test_a_ledger_of_a_later_format_is_refused_and_left_alone(ledger: Path, opened: type[FileLog]) -> None:
    set_format(ledger, 3)
    before = rows(ledger)
    with pytest.raises(LedgerDamaged, match=r"format 3, of a later .* formats up to 2\. Nothing in it was changed"):
        opened(ledger)
    assert (stored_format(ledger), rows(ledger)) == (3, before)


@pytest.mark.parametrize("found", [0, "two", 1.5])
def test_a_format_that_nobody_wrote_is_damage(ledger: Path, found: object) -> None:
    set_format(ledger, found)
    with pytest.raises(LedgerDamaged, match="which no version of Colonnade wrote"):
        FileLog(ledger)


# ------------------------------------------------------------------------------------------------ transcript


def test_a_transcript_of_format_1_reads_back_step_by_step(ledger: Path) -> None:
    log = FileLog(ledger)
    steps = list(Transcript(log, RUN).steps())
    log.close()
    assert [step.tick for step in steps] == list(range(8))
    assert [len(step.releases) for step in steps] == [0, 1, 1, 1, 1, 1, 0, 0]
    assert all(math.isinf(event.rho) for step in steps for event, _ in step.releases.values())
    assert [frame.sequence for step in steps for frame in step.received.values()] == list(range(6))
    assert all(body for step in steps for _, body in step.releases.values())  # the digests a replay compares with


def test_a_transcript_of_a_later_format_is_refused_with_its_ledger(ledger: Path) -> None:
    """It stands in the same file under the same number, so nothing can read one without the other."""
    set_format(ledger, 3)
    with pytest.raises(LedgerDamaged, match="later version"):
        Transcript(FileLog(ledger), RUN)


# ------------------------------------------------------------------------------------------------ schema

SCHEMA_1 = """source = "declared"

[[column]]
type = "numeric"
name = "age"
low = 0.0
high = 120.0
missing = "indicator"
"""


def test_a_schema_of_version_1_means_what_it_meant_and_is_written_as_version_2(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA_1, encoding="utf-8")
    schema = co.Schema.from_toml(path)
    assert schema == co.Schema((co.Numeric("age", 0.0, 120.0, missing="indicator"),))
    assert path.read_text(encoding="utf-8") == SCHEMA_1
    schema.to_toml(tmp_path / "again.toml")
    text = (tmp_path / "again.toml").read_text(encoding="utf-8")
    assert text.startswith("version = 2\n")
    assert co.Schema.from_text(text) == schema


def test_a_schema_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text("version = 3\n" + SCHEMA_1, encoding="utf-8")
    with pytest.raises(co.InvalidInput, match=r"of version 3, .* up to 2\. Install a newer Colonnade"):
        co.Schema.from_toml(path)
    assert path.read_text(encoding="utf-8") == "version = 3\n" + SCHEMA_1
