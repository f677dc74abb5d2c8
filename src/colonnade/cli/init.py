"""`colonnade init`: a configuration file to start from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import colonnade as co
from colonnade.cli.terminal import AsJson, answer, explained, write_text


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
# delta = 1e-6                           # a delta: docs/concepts.md
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
# trust = "secure"                       # or "nobody", "consortium": docs/private-gram.md. Left out: secure, or the
                                         # strictest that the method has
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
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("colonnade.toml"),
    kind: Annotated[DataKind, typer.Option(help="Several parties, or one owner of all.")] = DataKind.FEDERATION,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented configuration that `colonnade fit` runs once its names are yours.

    \bExamples:
      colonnade init
      colonnade init study.toml --kind holder
    """
    with explained():
        if file.exists() and not force:
            raise co.InvalidInput(f"{file} is there already. Name another file, or write over it with --force.")
        if not file.parent.is_dir():
            raise co.InvalidInput(f"{file.parent} is not a folder. Make it first, or name another place.")
        write_text(file, template(kind, file.name))
        answer({"file": str(file), "kind": kind.value}, str(file), "", quiet, as_json)


def template(kind: DataKind, name: str = "colonnade.toml") -> str:
    """The text of a configuration."""
    return HEAD.format(name=name) + DATA[kind] + REST[kind]
