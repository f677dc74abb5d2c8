"""`colonnade fit CONFIG.toml` and `colonnade init`: one file for a whole run, and a preview that spends nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.init import DataKind, init, template
from colonnade.cli.runs import list_runs
from colonnade.errors import InvalidInput, StoreError
from colonnade.privacy.accountant import rho_for
from colonnade.runs import config as files
from colonnade.runs.call import call_fingerprint, checked_call, ordered_call
from colonnade.runs.config import load_config
from colonnade.runs.preview import preview
from colonnade.runtime.run_store import RunStore
from tests.helpers import run_folder
from tests.helpers.run_folder import CLINIC, LAB, config

folder = run_folder.folder

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

tool = typer.Typer()
tool.command()(init)


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["fit", *map(str, words)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def digests(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


# ------------------------------------------------------------------------------------------------ init, and running it


@pytest.mark.chance(0, "a price, names of parties and files")
@pytest.mark.parametrize("kind", DataKind)
def test_what_init_writes_runs_as_it_is(folder: Path, kind: DataKind) -> None:
    done = CliRunner().invoke(tool, [str(folder / "study.toml"), "--kind", kind.value])
    assert done.exit_code == 0, done.output
    path = config(folder, kind)  # the same text but for the report
    code, out, error = call(path, "--json")
    assert code == 0, error
    told = json.loads(out)
    assert re.match(r"\(1, 1e-06\)-(computational )?differential privacy for one row", told["privacy"])
    made = co.load(folder / "fit.json")
    assert made.run == told["run"]
    assert ({"clinic", "laboratory"} if kind == DataKind.FEDERATION else {"hospital"}) == set(made.coefficients)
    assert (folder / "runs" / "runs.db").is_file()


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_finished_run_is_not_begun_and_paid_again_by_repeating_the_command(folder: Path) -> None:
    path = config(folder, DataKind.HOLDER)
    assert call(path)[0] == 0
    before = digests(folder)
    (run,) = [line["run"] for line in list_runs(folder / "runs")]
    code, out, error = call(path)
    assert (code, out, before) == (1, "", digests(folder))
    assert (
        f"{folder / 'fit.json'} already exists, the result of run {run}, which is finished. Nothing was begun." in error
    )
    assert "Another run would cost epsilon 1 (delta 1e-06) once more. Say --overwrite" in error
    assert "name another file with --output" in error
    code, _, error = call(path, "--dry-run")
    assert (code, before) == (0, digests(folder))
    assert f"note: {folder / 'fit.json'} already exists: the run needs --overwrite, or --output." in error
    assert call(path, "--overwrite")[0] == 0
    assert [run, co.load(folder / "fit.json").run] == [line["run"] for line in list_runs(folder / "runs")]


@pytest.mark.chance(0, "exit codes, files, a price, and a hint that is always printed")
def test_another_budget_may_be_tried_beside_a_fit_that_is_there(folder: Path) -> None:
    path = config(folder, DataKind.HOLDER)
    assert call(path)[0] == 0
    before = (folder / "fit.json").read_bytes()
    code, out, _ = call(path, "--epsilon", 0.5, "--output", folder / "half.json")
    assert code == 0
    assert f"colonnade predict {folder / 'half.json'} --party " in out
    assert (folder / "fit.json").read_bytes() == before
    assert co.load(folder / "half.json").privacy.epsilon == pytest.approx(0.5, rel=1e-6)


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_run_that_was_stopped_goes_on_by_the_same_command_also_over_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(folder, DataKind.HOLDER)
    (folder / "fit.json").write_text("somebody's")
    assert "fit.json already exists. Nothing was begun." in call(path)[2]
    with monkeypatch.context() as broken:
        broken.setattr(co.Fit, "save", mock.Mock(side_effect=KeyboardInterrupt))
        assert call(path, "--overwrite")[0] == 130
    (stopped,) = list_runs(folder / "runs")
    assert stopped["state"] == "interrupted"
    assert call(path, "--overwrite")[0] == 0
    assert [(stopped["run"], "finished")] == [(line["run"], line["state"]) for line in list_runs(folder / "runs")]


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_ctrl_c_when_a_run_has_just_finished_says_where_its_fit_is_and_not_to_repeat_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, end = config(folder, DataKind.HOLDER), RunStore.end
    monkeypatch.setattr(RunStore, "end", lambda *run: (os.kill(os.getpid(), signal.SIGINT), end(*run)))
    code, _, error = call(path)
    (line,) = list_runs(folder / "runs")
    assert (code, line["state"]) == (130, "finished")
    assert "would begin another" in error
    assert "goes on" not in error
    assert co.load(re.search(r"co\.load\('(.+)'\)", error)[1]).run == line["run"]


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_finished_run_whose_file_cannot_be_written_is_not_paid_again(folder: Path) -> None:
    path = config(folder, DataKind.HOLDER)
    asked = replace(load_config(path), output=folder / ("n" * 250))  # too long with what is added aside
    with pytest.raises(StoreError, match=r"File name too long.*Do not repeat the command") as told:
        asked.run()
    (run,) = [line["run"] for line in list_runs(folder / "runs")]
    kept = folder / "runs" / "fits" / f"{run}.json"
    assert f"copy {kept} to" in str(told.value)
    assert co.load(kept).run == run


def test_init_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("mine")
    done = CliRunner().invoke(tool, [str(tmp_path / "a.toml")])
    assert (done.exit_code, (tmp_path / "a.toml").read_text()) == (1, "mine")
    assert "--force" in done.stderr
    assert CliRunner().invoke(tool, [str(tmp_path / "a.toml"), "--force"]).exit_code == 0
    assert "[data]" in (tmp_path / "a.toml").read_text()
    assert "not a folder" in CliRunner().invoke(tool, [str(tmp_path / "b" / "c.toml")]).stderr


def test_one_table_shared_out_by_columns_is_the_federation_of_its_parts(folder: Path) -> None:
    whole = load_config(config(folder)).federation
    parted = load_config(
        config(
            folder,
            DataKind.FEDERATION,
            ('on = "pid"', 'on = "pid"\nsource = "stays.csv"'),
            ('source = "clinic.csv"', 'columns = ["age", "ward"]'),
            ('source = "laboratory.csv"', 'columns = ["crp"]'),
        )
    ).federation
    assert whole.roster() == parted.roster()
    for name, party in whole.parties.items():
        assert party.block.digest() == parted.parties[name].block.digest()
    assert np.array_equal(whole.labels, parted.labels)


def test_a_database_is_a_source_like_a_file(folder: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite", reason="databases need the extra sql")
    with sqlite3.connect(folder / "lab.db") as db:
        db.execute("create table results (pid text, crp real)")
        db.executemany("insert into results values (?, ?)", pl.read_csv(folder / "laboratory.csv").rows())
    db.close()
    address = f'source = "sqlite:///{folder / "lab.db"}"\nquery = "select pid, crp from results"'
    asked = load_config(config(folder, DataKind.FEDERATION, ('source = "laboratory.csv"', address)))
    assert asked.federation.rows == 300


def test_a_table_of_a_party_is_read_in_blocks_where_it_lies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = {name: pl.read_csv(folder / f"{name}.csv") for name in ("clinic", "laboratory")}
    schemas = {"clinic": CLINIC, "laboratory": LAB}
    whole = co.Federation.from_frames(frames, "pid", ("clinic", "readmitted"), schemas=schemas)

    def held(*_: object) -> None:
        raise AssertionError("a table was read whole")

    monkeypatch.setattr("colonnade.data.sources.files.Csv.frame", held)
    read = load_config(config(folder)).federation
    for name, party in whole.parties.items():
        np.testing.assert_array_equal(_dense(read.parties[name].block.matrix), _dense(party.block.matrix))


def _dense(matrix: object) -> np.ndarray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def test_a_limit_in_the_file_is_the_partys_policy(folder: Path) -> None:
    limit = ('schema = "laboratory.schema.toml"', 'schema = "laboratory.schema.toml"\nepsilon = 0.5\ndelta = 1e-6')
    code, _, error = call(config(folder, DataKind.FEDERATION, limit))
    assert code == 1
    assert "over the limit 0.5" in error


def test_the_same_command_without_privacy_says_that_exact_values_left(folder: Path) -> None:
    text = config(folder).read_text().partition("\n[privacy]")[0] + '\n[method]\ntype = "SharingADMM"\n'
    (folder / "open.toml").write_text(text.replace('store = "runs"', ""))
    code, out, error = call(folder / "open.toml")
    assert code == 0, error
    assert "not private: exact values left the parties" in out
    assert not (folder / "runs").exists()


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_quiet_prints_where_the_model_is_and_nothing_else(folder: Path) -> None:
    code, out, _ = call(config(folder), "--quiet")
    assert (0, f"{folder / 'fit.json'}\n") == (code, out)


# ------------------------------------------------------------------------------------------------ preview


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_dry_run_makes_no_store_and_writes_nothing(folder: Path) -> None:
    path = config(folder)
    before = digests(folder)
    code, out, error = call(path, "--dry-run")
    assert code == 0, error
    assert "epsilon 1 at delta 1e-06" in out
    assert before == digests(folder)


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_dry_run_leaves_the_ledgers_of_an_earlier_run_as_they_are(folder: Path) -> None:
    path = config(folder)
    assert call(path)[0] == 0
    before = digests(folder)
    assert call(path, "--dry-run", "--json", "--overwrite")[0] == 0
    assert before == digests(folder)


@pytest.mark.chance(0, "exit codes, files and texts: nothing that was drawn is compared")
def test_a_private_dry_run_writes_no_secret_into_a_store_that_has_none(folder: Path) -> None:
    """Neither into one that is new, nor into one whose runs were begun by somebody else, as a party's are."""
    path = config(folder)
    for adopted in ((), ("20260101T000000-0123456789ab",)):
        books = RunStore(folder / "runs")
        for run in adopted:
            books.adopt(run)
        books.close()
        before = digests(folder)
        assert call(path, "--dry-run")[0] == 0
        assert before == digests(folder)
        with closing(sqlite3.connect(folder / "runs" / "runs.db")) as journal:
            assert journal.execute("select count(*) from secret").fetchone() == (0,)


def test_a_dry_run_finds_the_run_that_the_call_would_go_on_with(folder: Path) -> None:
    """By the secret that the store has: with another the rows would stand in another order, and be another call."""
    asked = load_config(config(folder))
    fed, job = asked.federation, asked.job
    call_ = checked_call(fed, job.problem, job.method, job.privacy)
    with closing(RunStore(folder / "runs")) as books:
        with books.run(call_fingerprint(ordered_call(call_, books))) as begun:
            pass
        assert books.going_on(call_fingerprint(ordered_call(call_, books, kept=False))) == begun


@pytest.mark.chance(1e-15, "all noises 10 sds off move four columns by a bit: 1 % of the bytes")
@pytest.mark.parametrize("kind", DataKind)
def test_a_dry_run_says_what_the_run_then_releases_and_sends(folder: Path, kind: DataKind) -> None:
    path = config(folder, kind)
    said = json.loads(call(path, "--dry-run", "--json")[1])
    assert said["rho"] == pytest.approx(rho_for(1.0, 1e-6), rel=1e-6)
    assert said["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert call(path)[0] == 0
    left = {}
    for name in {line["party"] for line in said["leaves"]}:
        rows = json.loads(
            CliRunner().invoke(app, ["budget", "export", str(folder / "runs"), name, "--format", "json"]).stdout
        )
        left[name] = len(rows)
    assert left == {name: sum(w["times"] for w in said["leaves"] if w["party"] == name) for name in left}
    sent = co.load(folder / "fit.json").communication.bytes
    assert said["bytes"] == pytest.approx(sent, rel=0.05)  # lengths of a few numbers on the wire differ


def test_bytes_of_long_runs_over_many_rows_are_drawn_on_in_a_straight_line() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(70_000, 8))
    fed = co.Federation.split(X, np.sign(X[:, 0] + rng.normal(size=70_000)), parties=2)
    problem, method = co.Problem(co.Logistic(), penalty=co.Ridge(0.1)), co.SharingADMM(rounds=12, tolerance=0.0)
    said = preview(fed, problem, method)
    assert said.size == pytest.approx(co.fit(fed, problem, method).communication.bytes, rel=0.05)
    assert "exact values would leave" in said.price


def test_a_preview_refuses_what_the_run_would_refuse(folder: Path) -> None:
    path = config(folder, DataKind.FEDERATION, ("# [method]", '[method]\ntype = "SharingADMM"\n#'))
    for words in ((path, "--dry-run"), (path,)):
        code, _, error = call(*words)
        assert code == 1
        assert "releases exact values" in error
    bare = config(folder, DataKind.FEDERATION, ('schema = "laboratory.schema.toml"', ""))
    assert "nothing public bounds the rows of party 'laboratory'" in call(bare, "--dry-run")[2]
    storeless = config(folder, DataKind.FEDERATION, ('store = "runs"', ""))
    assert 'add store = "runs"' in call(storeless, "--dry-run")[2]


def spent(folder: Path) -> None:
    """A ledger of the laboratory that has no room for another run."""
    assert call(config(folder))[0] == 0
    (folder / "fit.json").unlink()
    words = ["budget", "set", str(folder / "runs"), "laboratory", "--epsilon", "1.2", "--delta", "1e-6"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def damaged(folder: Path) -> None:
    """A ledger of the coordinator, who holds no data, with a row that somebody changed."""
    assert call(config(folder))[0] == 0
    (folder / "fit.json").unlink()
    ledger = folder / "runs" / "nodes" / "coordinator.db"
    raw = ledger.read_bytes()
    assert b"private Gram" in raw
    ledger.write_bytes(raw.replace(b"private Gram", b"private Grim"))


def a_file(name: str):
    return lambda folder: (folder / name).write_text("somebody's")


EXACT = ("# [method]", '[method]\ntype = "SharingADMM"\n#')
LABEL = 'label = ["clinic", "readmitted"]'
REFUSED = {
    "exact values under privacy": ((EXACT,), None),
    "no schema": ((('schema = "laboratory.schema.toml"', ""),), None),
    "no store": ((('store = "runs"', ""),), None),
    "a store that is a file": ((), a_file("runs")),
    "a store below a file": ((('store = "runs"', 'store = "f/runs"'),), a_file("f")),
    "an output without a folder": ((('output = "fit.json"', 'output = "no/fit.json"'),), None),
    "a report without a folder": ((('store = "runs"', 'store = "runs"\nreport = "no/r.html"'),), None),
    "a ledger without room": ((), spent),
    "a damaged ledger of the coordinator": ((), damaged),
    "a policy that limits less": (
        (('schema = "laboratory.schema.toml"', 'schema = "laboratory.schema.toml"\nepsilon = 0.1\ndelta = 1e-6'),),
        None,
    ),
    "labels of one class": (
        (("[privacy]", "# [privacy]"), ("epsilon = 1.0", ""), ("delta = 1e-6", ""), ('trust = "secure"', "")),
        lambda folder: pl.read_csv(folder / "clinic.csv").with_columns(readmitted=1).write_csv(folder / "clinic.csv"),
    ),
    "a problem that the method does not solve": ((('loss = "Logistic"', 'loss = "Huber"'),), None),
}


@pytest.mark.chance(0, "refusals by prices, files and settings")
@pytest.mark.parametrize("case", REFUSED)
def test_a_dry_run_refuses_exactly_what_the_run_refuses(case: str, folder: Path) -> None:
    changes, before = REFUSED[case]
    if before is not None:
        before(folder)
    path = config(folder, DataKind.FEDERATION, *changes)
    files = digests(folder)
    code, _, error = call(path, "--dry-run")
    assert (code, digests(folder)) == (1, files), (case, error)
    assert call(path)[0] == 1
    assert (
        call(path)[2] == error or "cannot use" in error
    )  # a folder that cannot be made: the system's own word differs


# ------------------------------------------------------------------------------------------------ bad input

FED = DataKind.FEDERATION
LABELLED = 'label = ["clinic", "readmitted"]'
MESSAGES = [
    ([('on = "pid"', "")], "data needs on = "),
    ([(LABELLED, "")], "data has no label; say who holds it"),
    ([(LABELLED, 'label = "readmitted"')], "data.label must be a pair, as in label = "),
    ([(LABELLED, 'label = ["clinic", "gone"]')], "party 'clinic' has no column 'gone' to use as label"),
    ([(LABELLED, 'label = ["nobody", "readmitted"]')], "label names 'nobody', which is not a party"),
    ([(LABELLED, LABELLED + '\nunit = ["patient", "5"]')], "data.unit must be a pair, as in unit = "),
    ([(LABELLED, LABELLED + "\nrows = 3")], "data.rows is unknown; there are source, query, on"),
    ([(LABELLED, LABELLED + '\nquery = "select 1"')], "data.query belongs to a source"),
    ([('source = "clinic.csv"', "")], "data.parties.clinic has no source"),
    ([('source = "clinic.csv"', 'source = "clinc.csv"')], "clinc.csv is not a file"),
    ([('source = "clinic.csv"', 'source = "clinic.csv"\ncolour = 1')], "data.parties.clinic.colour is unknown"),
    ([('source = "clinic.csv"', 'source = "clinic.csv"\ncolumns = ["agge"]')], "names 'agge'; the source has"),
    ([('schema = "clinic.schema.toml"', 'schema = "gone.toml"')], "gone.toml could not be read"),
    ([('store = "runs"', "store = 3")], "store must be a text that names a place"),
    ([('output = "fit.json"', 'output = "no/where.json"')], "does not exist; create it, or name another"),
    ([('source = "clinic.csv"', 'source = "clinic.csv"\nepsilon = 2.0')], "a budget needs both epsilon and delta"),
    ([('output = "fit.json"', 'output = "clinic.schema.toml"')], "which is the schema of party 'clinic'. Name another"),
    ([('output = "fit.json"', 'output = "./x/../laboratory.csv"')], "which is the table of party 'laboratory'"),
    ([('output = "fit.json"', 'output = "f"\nreport = "./f"')], "which is the output, too. Name another place"),
]


@pytest.mark.parametrize(("changes", "words"), MESSAGES, ids=[words[:44] for _, words in MESSAGES])
def test_every_mistake_is_one_line_that_says_what_to_do(
    folder: Path, changes: list[tuple[str, str]], words: str
) -> None:
    path = config(folder, FED, *changes)
    code, out, error = call(path)
    assert (code, out) == (1, "")
    assert words in error
    assert "Traceback" not in error
    assert not (folder / "runs").exists()


def test_a_mistake_in_the_data_points_to_its_line(folder: Path) -> None:
    path = config(folder, FED, ('source = "laboratory.csv"', 'source = "lab.csv"'))
    line = 1 + path.read_text().splitlines().index('source = "lab.csv"')
    with pytest.raises(InvalidInput, match=rf"study\.toml, line {line} \("):
        load_config(path)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ((), "Missing argument 'CONFIG.toml'"),
        (("study.toml", "--radius", "1"), "No such option: --radius"),
    ],
)
def test_words_that_fit_does_not_take_are_wrong_usage(words: tuple[str, ...], advice: str) -> None:
    code, _, error = call(*words)
    assert code == 2
    assert advice in error


def test_a_file_that_is_absent_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = call("absent.toml")
    assert code == 1
    assert "cannot read absent.toml" in error


def test_a_table_shared_out_names_the_column_it_lacks(folder: Path) -> None:
    path = config(folder, DataKind.HOLDER, ('columns = ["age", "ward", "crp"]', 'columns = ["age", "crq"]'))
    assert "names 'crq', which stays.csv does not have; it has pid, age" in call(path)[2]
    path = config(folder, DataKind.HOLDER, ('label = ["hospital", "readmitted"]', 'label = ["clinic", "readmitted"]'))
    assert "names 'clinic', which is not a party; there are hospital" in call(path)[2]
    path = config(folder, DataKind.HOLDER, ('columns = ["age", "ward", "crp"]', 'source = "stays.csv"'))
    assert "shares the table of [data]" in call(path)[2]


def test_one_table_for_all_is_not_written_over(folder: Path) -> None:
    path = config(folder, DataKind.HOLDER, ('output = "fit.json"', 'output = "stays.csv"'))
    assert "which is the table of [data]" in call(path)[2]


@pytest.mark.parametrize(
    ("told", "epsilon", "delta", "found"),
    [
        (None, None, None, None),
        (None, 2.0, None, (2.0, 1e-6)),
        (None, 2.0, 1e-8, (2.0, 1e-8)),
        ((1.0, 1e-5), None, None, (1.0, 1e-5)),
        ((1.0, 1e-5), 2.0, None, (2.0, 1e-5)),
        ((1.0, 1e-5), None, 1e-8, (1.0, 1e-8)),
        ((1.0, 1e-5), 2.0, 1e-8, (2.0, 1e-8)),
    ],
)
def test_a_budget_of_the_command_line_goes_before_the_files(told, epsilon, delta, found) -> None:
    terms = files._with_budget(None if told is None else co.Privacy(*told), epsilon, delta)
    assert (terms and (terms.epsilon, terms.delta)) == found


def test_a_partys_columns_are_those_it_names_and_what_the_run_needs_of_it(tmp_path: Path) -> None:
    """Its key, and at the label holder the label, what stands beside it, and whom a row is about; no text is a number."""
    names = ["zip", "age", "pid", "cost", "years", "weight", "who"]
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(",".join(names) + "\n" + "\n".join(["007,1,01,2,3,4,08"] * 2))
    data = {"on": "pid", "label": ("a", "cost"), "offset": ["a", "years"], "weight": ["b", "weight"]}
    assert files._texts_of({**data, "unit": ["who", 2]}) == {"pid", "who"}
    assert [files._beside_names(data, name) for name in "abc"] == [["years"], ["weight"], []]
    parties = {name: {"source": f"{name}.csv", "columns": ["age"]} for name in "ab"}
    frames, on = files._own_tables(tmp_path, {**data, "unit": ["who", 2]}, parties, {})
    assert on == "pid"
    assert frames["a"].columns == ["age", "cost", "pid", "who", "years"]
    assert frames["b"].columns == ["age", "cost", "pid", "weight", "who"]  # it may have columns of these names, too
    assert frames["a"]["who"].to_list() == ["08"] * 2
    assert frames["a"]["pid"].to_list() == ["01"] * 2
    shared, on = files._share_table(
        tmp_path,
        {"source": "a.csv", **data, "unit": ["who", 2]},
        {name: {"columns": ["age", "zip"][place : place + 1]} for place, name in enumerate("ab")},
        {},
    )
    assert [shared[name].columns for name in "ab"] == [["pid", "age", "cost", "years", "who"], ["pid", "zip"]]
    none = {name: value for name, value in data.items() if name != "on"}
    shared, on = files._share_table(tmp_path, {"source": "a.csv", **none}, {"a": {"columns": ["age"]}}, {})
    assert shared["a"].columns == [on, "age", "cost", "years"]
    assert shared["a"][on].to_list() == [0, 1]


def test_of_many_names_eight_are_shown() -> None:
    names = [f"c{k}" for k in range(10)]
    assert files._some(names[:8]) == ", ".join(names[:8])
    assert files._some(names[:9]) == ", ".join(names[:8]) + " and 1 more"


def test_the_page_about_the_file_shows_what_init_writes() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/use/files.md").read_text()
    assert f"```toml\n{template(DataKind.FEDERATION)}```" in page
    holder = template(DataKind.HOLDER)
    data = holder[holder.index("[data]") : holder.index("\n[problem]")].rstrip()
    assert f"```toml\n{data}\n```" in page


def test_without_an_output_the_fit_is_written_beside_the_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(folder, DataKind.FEDERATION)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("output")]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert load_config(path).output == folder / "fit.json"
