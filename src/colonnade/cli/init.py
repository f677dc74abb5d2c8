"""`colonnade init`: a configuration file to start from, for files of rows or to be filled in."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, busy, explained, lined, table_of, write_text


class DataKind(StrEnum):
    """Who holds the data."""

    FEDERATION = "federation"
    HOLDER = "holder"


HEAD = """\
# A run of `colonnade fit`. Change the names; `colonnade fit {name} --dry-run` says what would leave whom.
# Paths are relative to this file.

store = "runs"             # ledgers and transcripts: keep it, it is the record of what was spent
output = "fit.json"        # the model
report = "report.html"     # a page about the run; leave it out for none

"""

DATA = {
    DataKind.FEDERATION: """\
[data]
on = "pid"                               # the key by which rows are matched; it is no feature
label = ["clinic", "readmitted"]         # who holds the label, and its column: 1 for the positive class, else 0
# unit = ["patient", 5]                  # protect people instead of rows: this column, and the most rows one may keep

[data.parties.clinic]
source = "clinic.csv"                    # CSV, Parquet, Arrow
schema = "clinic.schema.toml"            # `colonnade data inspect clinic.csv` proposes one; its figures must be public

[data.parties.laboratory]
source = "laboratory.csv"
# source = "postgresql://reader@db.lab/results"
# query = "select pid, crp from results"
schema = "laboratory.schema.toml"
# epsilon = 4.0                          # the most that private runs may spend on this party's rows, with
# delta = 1e-6                           # a delta: docs/understand/concepts.md
""",
    DataKind.HOLDER: """\
[data]
source = "stays.csv"                     # CSV, Parquet, Arrow; or a database's address, with query = "select ..."
label = ["hospital", "readmitted"]       # the holder, and the label's column: 1 for the positive class, else 0

[data.parties.hospital]
columns = ["age", "ward", "crp"]         # the features
schema = "stays.schema.toml"             # `colonnade data inspect stays.csv` proposes one; its figures must be public
""",
}

REST = {
    DataKind.FEDERATION: """
[problem]
loss = "Logistic"                        # LeastSquares for numbers; with label_range = [low, high] in [privacy]
penalty = { type = "Ridge", a = 1e-3 }
intercept = true

# [method]                               # left out: the default for the privacy asked for, here private Gram
# type = "PrivateGram"
# cross = "secure"

[privacy]                                # left out: exact values leave the parties, and the result says so
epsilon = 1.0
delta = 1e-6                             # well below 1 / rows
# trust = "secure"                       # or "nobody", "parties", "consortium":
                                         # docs/understand/concepts.md. Left out: secure, or the strictest
                                         # that the method has
""",
    DataKind.HOLDER: """
[problem]
loss = "Logistic"
constraint = { type = "L1Ball", radius = 5.0 }

[method]
type = "CentralFrankWolfe"               # for one holder of all columns and the labels

[privacy]                                # left out, with [method]: exact values go into the model
epsilon = 1.0
delta = 1e-6                             # well below 1 / rows
feature_bound = 1.0                      # of an encoded column; numbers are mapped to -1 ... 1 by their schema
""",
}


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("study.toml"),
    party: Annotated[list[str] | None, typer.Option(help="A party's file, or NAME=FILE; once a party.")] = None,
    on: Annotated[str | None, typer.Option(help="With --party: the key by which rows are matched.")] = None,
    label: Annotated[str | None, typer.Option(help="With --party: PARTY.COLUMN, or PARTY.COLUMN=CLASS.")] = None,
    kind: Annotated[DataKind, typer.Option(help="Several parties, or one owner of all.")] = DataKind.FEDERATION,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    quiet: options.Silent = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a commented configuration that `colonnade fit` runs.

    With --party it is for these files: their columns, with levels and rounded bounds that were read off the rows, and
    that you confirm before a private run, all at once (`colonnade confirm`) or one by one. All of it stays on this
    machine. Without --party, it is one to fill in.

    \bExamples:
      colonnade init --party registry.csv --party bank.csv --on client_id --label bank.subscribed=yes
      colonnade init --party doctor=/srv/visits.parquet --party lab=results.csv --on pid --label doctor.days
      colonnade init
      colonnade init study.toml --kind holder
    """
    with explained():
        if file.exists() and not force:
            raise co.InvalidInput(f"{file} already exists. Name another file, or write over it with --force.")
        if not file.parent.is_dir():
            raise co.InvalidInput(f"{file.parent} is not a folder. Make it first, or name another place.")
        if party:
            _propose(file, party, on, label, quiet, as_json)
            return
        if on is not None or label is not None:
            raise co.InvalidInput("--on and --label are for files of rows: name one a party with --party FILE.")
        write_text(file, template(kind, file.name))
        answer({"file": str(file), "kind": kind.value}, str(file), "", quiet, as_json)


def _propose(file: Path, parties: list[str], on: str | None, label: str | None, quiet: bool, as_json: bool) -> None:
    from colonnade.cli.proposal import look_at, write_study

    with busy("reading the files", quiet or as_json):
        asked = look_at(file, parties, on, label)
        text, proposed = write_study(asked)
    write_text(file, text)
    marks = sum(one.taken_as != "left out" for one in proposed)
    if quiet or as_json:
        plain = {"file": str(file), "parties": list(asked.parties), "rows": asked.rows, "to_confirm": marks}
        answer(plain | {"columns": [one._asdict() for one in proposed]}, "", str(file), quiet, as_json)
        return
    table = table_of("What you are asked to confirm", ("party", "column", "taken as", "public figures", "from"))
    for one in proposed:
        table.add_row(*one)
    answers().print(table)
    name = shlex.quote(str(file))
    facts = {
        "file": f"{file}: it has the levels, too, and is as confidential as the rows. Nothing left this machine",
        "rows": f"{asked.rows:,} in " + (f"all {len(asked.parties)} files" if len(asked.parties) > 1 else "the file"),
        "to confirm": f"may all of this be known? Then colonnade confirm {name}. If not, change {file.name} first",
        "next": f"colonnade fit {name} --epsilon 1, with --dry-run to see before what would leave",
    }
    typer.echo(lined(facts))


def template(kind: DataKind, name: str = "study.toml") -> str:
    """The text of a configuration."""
    return HEAD.format(name=name) + DATA[kind] + REST[kind]
