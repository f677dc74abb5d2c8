"""Typical mistakes of people who have files and a configuration, each stopped before anything is spent.

A message is one line. It names the place and says what to do, in the words of the command line and of the file: no
Python, no traceback, no cell. No ledger is opened and nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from tests.helpers.study_files import three_parties

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

FILES = ("--party", "registry.csv", "--party", "bank.csv", "--party", "callcentre.csv")
ON, LABEL = ("--on", "client_id"), ("--label", "bank.subscribed=yes")
NEW = (
    "--party",
    "registry=new_registry.csv",
    "--party",
    "bank=new_bank.csv",
    "--party",
    "callcentre=new_callcentre.csv",
)
INIT, FIT, PREDICT = ("init", *FILES, *ON, *LABEL), ("fit", "study.toml"), ("predict", "fit.json", *NEW)
PYTHON = re.compile(
    r"\bco\.|from_frames|Traceback|\b(None|True|False|self)\b|__|\w+\(\w*\)|\b\w+=\w+\(|Error\b|\bdtype|kwarg"
)


class Mistake(NamedTuple):
    """What somebody did, what they typed then, and what the answer must have: the place, and the remedy."""

    done: Callable[[], object]
    typed: tuple[str, ...]
    place: str
    remedy: str


def nothing() -> None:
    pass


MADE: dict[tuple[object, ...], bytes] = {}


def made(name: str, command: tuple[str, ...]) -> None:
    """The file that a command writes; if it was given before to the very same files, the one that it wrote then."""
    files = sorted(path for path in Path().iterdir() if path.is_file())
    key = (command, *((path.name, path.read_bytes()) for path in files))
    if key not in MADE:
        assert CliRunner().invoke(app, list(command)).exit_code == 0
        MADE[key] = Path(name).read_bytes()
    Path(name).write_bytes(MADE[key])


def study(*changes: tuple[str, str], confirmed: bool = True) -> Callable[[], None]:
    """A configuration that `init` wrote, with some of its lines changed."""

    def write() -> None:
        made("study.toml", INIT)
        text = Path("study.toml").read_text()
        text = re.sub(r'(?m)^source = "data".*\n', "", text) if confirmed else text
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        Path("study.toml").write_text(text)

    return write


def cells(name: str, separator: str = ",", **columns: pl.Expr) -> None:
    """Other cells in a file."""
    table = pl.read_csv(name, separator=separator, infer_schema=False)
    table.with_columns(**columns).write_csv(name, separator=separator)


def first(*steps: Callable[[], object]) -> Callable[[], None]:
    def all_of_them() -> None:
        for step in steps:
            step()

    return all_of_them


def fitted() -> None:
    """A model, not private, so that it is quick."""
    study(confirmed=False)()
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(
        text[: text.index("[privacy]")].replace('report = "report.html"', "").replace('store = "runs"', "")
    )
    made("fit.json", FIT)


def spent() -> None:
    """A budget that an earlier run has used up."""
    study(('source = "bank.csv"', 'source = "bank.csv"\nepsilon = 1.2\ndelta = 1e-6'))()
    assert CliRunner().invoke(app, list(FIT)).exit_code == 0
    Path("fit.json").unlink()


def later_version() -> None:
    fitted()
    text = Path("fit.json").read_text()
    Path("fit.json").write_text(
        re.sub(r'("version": )(\d+)', lambda found: f"{found[1]}{int(found[2]) + 90}", text, count=1)
    )


def numbers_as_keys() -> None:
    """Whole numbers at one party, texts with zeros at the others."""
    table = pl.read_csv("registry.csv")
    table.with_columns(pl.col("client_id").cast(pl.Int64)).write_parquet("registry.parquet")


AGE = 'name = "age"\nlow = 0.0\nhigh = 120.0'
JOBS = 'levels = ["admin", "retired", "student", "worker"]'
ZERO = pl.lit("0")
MISTAKES = {
    # the files, at init
    "a column that is not there": Mistake(
        nothing, ("init", *FILES, *ON, "--label", "bank.subscribd=yes"), "'subscribd'", "it has balance"
    ),
    "a key that is not there": Mistake(
        nothing,
        ("init", *FILES, "--on", "clientid", *LABEL),
        "party 'registry' has no key column 'clientid'",
        "its columns are 'client_id'",
    ),
    "a label that is the key": Mistake(
        nothing,
        ("init", *FILES, *ON, "--label", "bank.client_id=000001"),
        "'client_id' is the key",
        "Name another column",
    ),
    "a file without a header": Mistake(
        lambda: Path("registry.csv").write_text(Path("registry.csv").read_text().split("\n", 1)[1]),
        INIT,
        "party 'registry' has no key column 'client_id'",
        "in the first line of each file",
    ),
    "a line of too few cells": Mistake(
        lambda: Path("registry.csv").write_text(Path("registry.csv").read_text() + "000999,5\n"),
        INIT,
        "2 cells in line 402",
        "as many cells",
    ),
    "a class that is not there": Mistake(
        nothing,
        ("init", *FILES, *ON, "--label", "bank.subscribed=Yes"),
        "no row has the class 'Yes'",
        "there are: no, yes",
    ),
    "no class": Mistake(
        nothing,
        ("init", *FILES, *ON, "--label", "bank.subscribed"),
        "--label bank.subscribed",
        "--label bank.subscribed=yes",
    ),
    "a label without its party": Mistake(
        nothing,
        ("init", *FILES, *ON, "--label", "subscribed=yes"),
        "--label subscribed=yes",
        "the parties are registry, bank, callcentre",
    ),
    "no key": Mistake(nothing, ("init", *FILES, *LABEL), "--on KEY", "--on id"),
    "a path that leads nowhere": Mistake(
        nothing,
        ("init", "--party", "registri.csv", *FILES[2:], *ON, *LABEL),
        "registri.csv is not a file",
        "Give the path",
    ),
    "a folder": Mistake(
        lambda: Path("bank").mkdir(),
        ("init", "--party", "bank", *FILES[:2], *ON, *LABEL),
        "bank is not a file",
        "Give the path",
    ),
    "two files of one name": Mistake(
        nothing,
        ("init", *FILES, "--party", "registry.csv", *ON, *LABEL),
        "called 'registry'",
        "--party NAME=registry.csv",
    ),
    "a place where nobody may write": Mistake(
        nothing, ("init", "/proc/study.toml", *FILES, *ON, *LABEL), "/proc/study.toml", "make it writable"
    ),
    "a folder that is not there": Mistake(
        nothing, ("init", "no/study.toml", *FILES, *ON, *LABEL), "no is not a folder", "Make it first"
    ),
    "a file that exists": Mistake(study(), INIT, "study.toml already exists", "--force"),
    "keys twice": Mistake(
        lambda: cells("registry.csv", client_id=ZERO),
        INIT,
        "party 'registry': 399 rows repeat a key",
        "Aggregate the rows",
    ),
    "a key that is empty": Mistake(
        lambda: cells("registry.csv", client_id=pl.lit("")), INIT, "400 rows have no key", "fill it in"
    ),
    "no client in common": Mistake(
        lambda: cells("registry.csv", client_id="N" + pl.col("client_id")),
        INIT,
        "no key of 'client_id' is in all of",
        "written the same way",
    ),
    "keys of another type": Mistake(
        numbers_as_keys,
        ("init", "--party", "registry.parquet", *FILES[2:], *ON, *LABEL),
        "'client_id' has different types",
        "mind leading zeros",
    ),
    "one class": Mistake(
        lambda: cells("bank.csv", ";", subscribed=pl.lit("yes")),
        INIT,
        "all 400 rows have the same label in bank.subscribed",
        "nothing to learn",
    ),
    "a label with gaps": Mistake(
        lambda: cells("bank.csv", ";", subscribed=pl.when(pl.col("housing") == "true").then(pl.lit("yes"))),
        INIT,
        "bank.subscribed is missing in",
        "Leave them out",
    ),
    "an empty file": Mistake(
        lambda: Path("bank.csv").write_text(""), INIT, "bank.csv is empty: 0 bytes", "Give a file with rows"
    ),
    "a header only": Mistake(
        lambda: Path("bank.csv").write_text("client_id,subscribed\n"), INIT, "party 'bank' has no rows", "Give a table"
    ),
    "another alphabet": Mistake(
        lambda: Path("bank.csv").write_bytes(b"client_id,caf\xe9\n1,2\n"),
        INIT,
        "bank.csv is not UTF-8",
        "iconv -f latin1",
    ),
    "a table that a spreadsheet keeps": Mistake(
        lambda: Path("bank.xlsx").write_bytes(b"PK"),
        ("init", "--party", "bank.xlsx", *FILES[:2], *ON, *LABEL),
        "no reader for .xlsx",
        ".csv",
    ),
    # the file, at fit
    "bounds that nobody confirmed": Mistake(study(confirmed=False), FIT, "study.toml, line ", "--bounds-are-public"),
    "a table instead of a configuration": Mistake(
        nothing,
        ("fit", "registry.csv", "--epsilon", "1"),
        "registry.csv is a table",
        "colonnade init --party registry.csv",
    ),
    "a loss in small letters": Mistake(
        study(('"Logistic"', '"logistic"')), FIT, "problem.loss", 'write loss = "Logistic"'
    ),
    "a penalty of another name": Mistake(
        study(('{ type = "Ridge", a = 1e-3 }', '"L2"')), FIT, "problem.penalty", "there are "
    ),
    "a column that the table lacks": Mistake(
        study(('name = "age"', 'name = "agee"')), FIT, "registry.csv lacks 1 of", "Correct the name"
    ),
    "one bound": Mistake(
        study((AGE, 'name = "age"\nlow = 18.0')), FIT, "one bound without the other", "Write low and high, or neither"
    ),
    "no bounds": Mistake(study((AGE, 'name = "age"')), FIT, "too few for a look", "Declare bounds (low and high)"),
    "bounds in the wrong order": Mistake(
        study((AGE, 'name = "age"\nlow = 89.0\nhigh = 18.0')), FIT, "low = 89 is not below high = 18", "low < high"
    ),
    "bounds that cut most cells": Mistake(
        study((AGE, 'name = "age"\nlow = 18.0\nhigh = 30.0')), FIT, "party 'registry': column 'age'", "--anyway"
    ),
    "levels that no cell has": Mistake(
        study((JOBS, 'levels = ["a", "b", "c", "admin"]')),
        FIT,
        "column 'job': 3 of its 4 declared levels are in no row",
        "--anyway",
    ),
    "cells that no level has": Mistake(
        study((JOBS, 'levels = ["admin", "other"]')), FIT, "are none of its 2 declared levels", "--anyway"
    ),
    "numbers in a column of texts": Mistake(
        first(study(), lambda: cells("registry.csv", job=ZERO)),
        FIT,
        "none of its 400 values is one of its 4 declared levels",
        "written as the schema writes them",
    ),
    "a word in a column of numbers": Mistake(
        first(study(), lambda: cells("registry.csv", age=pl.lit("old"))),
        FIT,
        "column 'age' has a cell in line 2 that is not a number",
        "Correct the cell",
    ),
    "commas for decimal points": Mistake(
        first(study(), lambda: cells("callcentre.csv", duration=pl.lit("1,5"))),
        FIT,
        "column 'duration' has a cell in line 2",
        "1.5, not 1,5",
    ),
    "a gap that nothing is declared for": Mistake(
        first(study(), lambda: cells("registry.csv", age=pl.lit(""))),
        FIT,
        "column 'age': 400 values are missing",
        'missing = "indicator"',
    ),
    "text labels without a class": Mistake(
        study(('positive = "yes"', ""), ('negative = "no"', "")), FIT, "subscribed", 'positive = "yes"'
    ),
    "a third class": Mistake(
        first(
            study(),
            lambda: cells(
                "bank.csv",
                ";",
                subscribed=pl.when(pl.col("housing") == "true").then(pl.lit("maybe")).otherwise("subscribed"),
            ),
        ),
        FIT,
        "are neither 'yes' nor 'no'",
        "Leave those rows out",
    ),
    "a class that no row has": Mistake(
        study(('positive = "yes"', 'positive = "YES"'), ('negative = "no"', "")),
        FIT,
        "none of 400 labels is 'YES'",
        "as the table writes it",
    ),
    "labels of one class": Mistake(
        first(study(('negative = "no"', "")), lambda: cells("bank.csv", ";", subscribed=pl.lit("yes"))),
        FIT,
        "labels of all rows are the same",
        "--anyway",
    ),
    "a label with gaps, later": Mistake(
        first(study(), lambda: cells("bank.csv", ";", subscribed=pl.lit(""))),
        FIT,
        "the label 'subscribed' is missing in 400 rows",
        "leave them out",
    ),
    "epsilon 0": Mistake(
        study(), (*FIT, "--epsilon", "0"), "epsilon must be a finite number above 0", "1.0 is a common choice"
    ),
    "epsilon 1000": Mistake(study(), (*FIT, "--epsilon", "1000"), "epsilon=1000 is over 20", "--anyway"),
    "delta 0": Mistake(study(), (*FIT, "--delta", "0"), "delta must lie between 0 and 1", "1e-6"),
    "delta 0.5": Mistake(study(), (*FIT, "--delta", "0.5"), "delta=0.5 is not below 1/rows", "delta=0.0001 or less"),
    "an epsilon in words": Mistake(
        study(("epsilon = 1.0", 'epsilon = "small"')), FIT, "epsilon must be a number", "study.toml, line "
    ),
    "no epsilon": Mistake(study(("epsilon = 1.0", "")), FIT, "Privacy needs epsilon", "[privacy]"),
    "no store": Mistake(study(('store = "runs"', "")), FIT, "names no store", 'store = "runs"'),
    "no budget left": Mistake(spent, FIT, "party 'bank'", "colonnade budget"),
    "an exact method with a budget": Mistake(
        study(("[privacy]", '[method]\ntype = "SharingADMM"\n\n[privacy]')),
        FIT,
        "releases exact values",
        "choose a private method",
    ),
    "a trust that the method lacks": Mistake(
        study(
            ("delta = 1e-6", 'delta = 1e-6\ntrust = "nobody"'),
            ("[privacy]", '[method]\ntype = "PrivateGram"\n\n[privacy]'),
        ),
        FIT,
        "nobody",
        "cross",
    ),
    "a trust that nobody knows": Mistake(
        study(("delta = 1e-6", 'delta = 1e-6\ntrust = "everybody"')),
        FIT,
        "privacy.trust",
        "nobody, secure, parties, consortium",
    ),
    "a result that is there": Mistake(
        first(study(), lambda: Path("fit.json").write_text("mine")), FIT, "fit.json already exists", "--overwrite"
    ),
    "an intercept in words": Mistake(
        study(("intercept = true", 'intercept = "yes"')), FIT, "problem.intercept", "true or false"
    ),
    "a bound in words": Mistake(
        study(("delta = 1e-6", 'delta = 1e-6\nfeature_bound = "one"')), FIT, "privacy.feature_bound", "above 0"
    ),
    "an epsilon that is true": Mistake(study(("epsilon = 1.0", "epsilon = true")), FIT, "epsilon", "must be a number"),
    "a number for a set": Mistake(
        study(("intercept = true", "constraint = 10")), FIT, "problem.constraint", 'type = "L1Ball"'
    ),
    "columns that are no list": Mistake(
        study(('source = "bank.csv"', 'source = "bank.csv"\ncolumns = 4')), FIT, "bank.columns", "a list of names"
    ),
    "a policy in words": Mistake(
        study(('source = "bank.csv"', 'source = "bank.csv"\nexact = "no"')), FIT, "exact", "true or false"
    ),
    "no type": Mistake(study(('type = "numeric"', "")), FIT, "type is absent", "one of numeric"),
    "a method of half a name": Mistake(
        study(("[privacy]", '[method]\ntype = "Gram"\n\n[privacy]')), FIT, "method", "'PrivateGram'"
    ),
    "days in another form": Mistake(
        first(study(), lambda: cells("bank.csv", ";", opened=pl.lit("2010-01-31"))),
        FIT,
        "column 'opened': 400 of 400 texts",
        'as in format = "%Y-%m-%d"',
    ),
    "model and report in one file": Mistake(
        study(('report = "report.html"', 'report = "fit.json"')), FIT, "report would be written to fit.json", "another"
    ),
    "a report over a table": Mistake(
        study(('report = "report.html"', 'report = "bank.csv"')), FIT, "the table of party 'bank'", "Name another place"
    ),
    "a model over a table": Mistake(
        study(('output = "fit.json"', 'output = "bank.csv"')),
        (*FIT, "--overwrite"),
        "the table of party 'bank'",
        "another",
    ),
    "a model over the configuration": Mistake(
        study(), (*FIT, "--output", "study.toml", "--overwrite"), "this file itself", "Name another place"
    ),
    "a fit instead of a configuration": Mistake(fitted, ("fit", "fit.json"), "fit.json is no configuration", ".toml"),
    "a table to confirm": Mistake(
        nothing, ("confirm", "bank.csv", "--yes"), "bank.csv is a table", "colonnade init --party bank.csv"
    ),
    "a configuration that is none": Mistake(
        lambda: Path("study.toml").write_text("[data\n"), FIT, "study.toml is not a TOML file", "line 1"
    ),
    # new rows, at predict
    "a party missing": Mistake(fitted, PREDICT[:-2], "'callcentre' is missing", "--party callcentre=FILE"),
    "a party of another name": Mistake(
        fitted,
        (*PREDICT, "--party", "bureau=bank.csv"),
        "no party 'bureau'",
        "its parties are registry, bank, callcentre",
    ),
    "rows of nobody": Mistake(
        fitted, ("predict", "fit.json", "--party", "new_bank.csv"), "--party new_bank.csv", "--party NAME=FILE"
    ),
    "a column missing": Mistake(
        first(
            fitted, lambda: pl.read_csv("new_bank.csv", infer_schema=False).drop("balance").write_csv("new_bank.csv")
        ),
        PREDICT,
        "party 'bank': new_bank.csv lacks 1 of",
        "'balance'",
    ),
    "rows without their key": Mistake(
        first(
            fitted, lambda: pl.read_csv("new_bank.csv", infer_schema=False).drop("client_id").write_csv("new_bank.csv")
        ),
        PREDICT,
        "party 'bank' has no key column 'client_id'",
        "its columns are",
    ),
    "scores that are there": Mistake(
        first(fitted, lambda: Path("scores.csv").write_text("mine")),
        PREDICT,
        "scores.csv already exists",
        "--overwrite",
    ),
    "scores over the rows": Mistake(
        fitted, (*PREDICT, "-o", "new_bank.csv", "--overwrite"), "new_bank.csv is what this command reads", "--output"
    ),
    "a report over the model": Mistake(
        fitted,
        ("report", "fit.json", "-o", "fit.json", "--overwrite"),
        "fit.json is what this command reads",
        "--output",
    ),
    "days in another form, later": Mistake(
        first(fitted, lambda: cells("new_bank.csv", opened=pl.lit("2010-01-31"))),
        PREDICT,
        "column 'opened': 100 of 100 texts",
        "Correct them",
    ),
    "files of one another": Mistake(
        fitted,
        (*PREDICT[:2], "--party", "registry=new_bank.csv", "--party", "bank=new_registry.csv", *NEW[4:]),
        "new_bank.csv lacks 3 of the 4",
        "Correct the name",
    ),
    "a fit of a later version": Mistake(later_version, PREDICT, "fit.json", "pip install --upgrade colonnade"),
    "no fit": Mistake(nothing, PREDICT, "fit.json", "path"),
    "a table instead of a fit": Mistake(nothing, ("predict", "bank.csv", *NEW), "bank.csv", "Save the fit again"),
}


def state(folder: Path) -> tuple[dict[str, str], str]:
    """All files but those of a store, and what `colonnade budget show` says of it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "runs" not in path.parts]
    books = CliRunner().invoke(app, ["budget", "show", "runs", "--json"]).stdout if (folder / "runs").exists() else ""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}, books


@pytest.mark.chance(0, "words of refusals, and that nothing changed: no noise is compared")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_stopped_before_anything_is_spent_and_says_place_and_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_parties(tmp_path)
    monkeypatch.chdir(tmp_path)
    done, typed, place, remedy = MISTAKES[name]
    done()
    before = state(tmp_path)
    result = CliRunner().invoke(app, list(typed))
    assert result.exit_code == 1, result.output
    (said,) = result.stderr.splitlines()
    assert said.startswith("error: ")
    assert place in said
    assert remedy in said
    assert PYTHON.search(said) is None, said
    assert result.stdout == ""
    assert state(tmp_path) == before


@pytest.mark.chance(0, "exit codes, words and a price: no noise is compared")
def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_parties(tmp_path)
    monkeypatch.chdir(tmp_path)
    study()()

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("colonnade.runs.fit.assemble_fit", stop)
        result = CliRunner().invoke(app, list(FIT))
    assert result.exit_code == 130
    assert "with the same store, the same command goes on" in result.stderr
    result = CliRunner().invoke(app, [*FIT, "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(CliRunner().invoke(app, ["runs", "list", "runs", "--json"]).stdout)
    assert len(shown) == 1  # the run that was stopped, and no other one was paid
    assert co.load("fit.json").privacy.epsilon <= 1.0


def test_what_is_no_mistake_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Semicolons, UTF-16 and rows in another order are how files are."""
    three_parties(tmp_path)
    monkeypatch.chdir(tmp_path)
    fitted()
    for name in ("registry.csv", "new_registry.csv"):
        Path(name).write_text(Path(name).read_text(), encoding="utf-16")
    again = CliRunner().invoke(app, ["init", "again.toml", *INIT[1:]])
    assert again.exit_code == 0, again.output
    declared = [
        Path(name).read_text().partition("[data]")[2].partition("[problem]")[0] for name in ("study.toml", "again.toml")
    ]
    assert declared[0] == declared[1] != ""
    assert CliRunner().invoke(app, list(PREDICT)).exit_code == 0
