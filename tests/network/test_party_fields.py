"""Claims about the fields of federation and party files and what they name: a run is refused before anybody reserves it, or it
gives a model. There is nothing in between, in which a budget is spent for no model.

One party's files vary, the other's are in order; a hub of straw (test_party_service.py) runs what they say.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.errors import ColonnadeError, InvalidInput
from colonnade.model.job import Known, Roster
from colonnade.network import party_run
from colonnade.network.party_data import PartyData, read_part
from colonnade.network.party_file import PartyFile
from tests.helpers.organisations import COORDINATOR_KEY, Organisations
from tests.helpers.stub_hub import (
    Straw,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 12
X = np.random.default_rng(3).uniform(-1.0, 1.0, (2, ROWS, 3))
Y = np.where(X[0] @ [1.0, -1.0, 0.5] > 0, 1.0, 0.0)
NAMES = ("u", "v", "w")
LINE = "".join(f'[[column]]\ntype = "numeric"\nname = "{n}"\nlow = -1.0\nhigh = 1.0\nsmooth = false\n' for n in NAMES)
SCHEMAS = {
    "line": LINE,
    "open": LINE.replace("smooth = false\n", ""),  # the method may bend them
    "curve": LINE.replace("smooth = false", "smooth = 2", 1),
    "levels": LINE.replace('type = "numeric"', 'type = "categorical"', 1).replace(
        "low = -1.0\nhigh = 1.0\nsmooth = false", 'levels = ["p", "q"]', 1
    ),
    "dates": LINE.replace('type = "numeric"', 'type = "date"', 1).replace(
        "low = -1.0\nhigh = 1.0\nsmooth = false", "low = 2020-01-01\nhigh = 2021-01-01", 1
    ),
}
FORMS = {"key": 'on = "key"', "rows": f"rows = {ROWS}", "split": 'by = "rows"'}
MEMBERS = [*SCHEMAS, "columns = 3", "columns = 4", "columns = 0"]
PRIVACY = co.Privacy(1.0, 1e-6, trust="secure")
METHODS = {
    "gram": (co.Problem(co.Logistic(), penalty=co.Ridge(1.0)), co.PrivateGram(), PRIVACY),
    "inference": (co.Problem(co.Logistic()), co.PrivateGram(purpose="inference"), PRIVACY),
    "exact": (co.Problem(co.Logistic(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=3), None),
    "kernel": (co.KernelSVM(co.RBF(0.5)), co.DistributedFrankWolfe(rounds=3), None),
}
LABELS = {
    "none": None,
    "right": Y,
    "column": Y[:, None],
    "short": Y[:-1],
    "texts": np.where(Y > 0, "yes", "no"),
    "one": np.array(1.0),
}
WORDS = {"numbers": "", "class": 'positive = "yes"', "unnamed": ""}


def frame(words: str) -> pl.DataFrame:
    label = Y if words == "numbers" else np.where(Y > 0, "yes", "no")
    cells = {name: X[0][:, place] for place, name in enumerate(NAMES)}
    return pl.DataFrame({"key": [f"k{row}" for row in range(ROWS)], **cells, "y": label})


def sqlite(table: pl.DataFrame, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute(f"create table t ({', '.join(table.columns)})")
        base.executemany(f"insert into t values ({', '.join('?' * table.width)})", table.rows())
        base.commit()


SOURCES = {
    "x.npy": lambda path, _: np.save(path, X[0]),
    "flat.npy": lambda path, _: np.save(path, X[0].ravel()),
    "texts.npy": lambda path, _: np.save(path, X[0].astype(str)),
    "x.npz": lambda path, _: sparse.save_npz(path, sparse.csc_array(X[0])),
    "x.svm": lambda path, _: path.write_text(
        "\n".join(f"{int(y)} " + " ".join(f"{j}:{v}" for j, v in enumerate(x, 1)) for x, y in zip(X[0], Y, strict=True))
    ),
    "x.csv": lambda path, words: frame(words).write_csv(path),
    "x.parquet": lambda path, words: frame(words).write_parquet(path),
    "texts.parquet": lambda path, words: frame(words).with_columns(pl.col("v").cast(pl.String)).write_parquet(path),
    "lists.parquet": lambda path, words: frame(words).with_columns(pl.col("u").reshape((-1, 1))).write_parquet(path),
    "gaps.parquet": lambda path, words: (
        frame(words).with_columns(pl.when(pl.col("key") != "k7").then("w").alias("w")).write_parquet(path)
    ),
    "x.arrow": lambda path, words: frame(words).write_ipc(path),
    "x.db": lambda path, words: sqlite(frame(words), path),
}


class Filed(Organisations):
    """Two organisations with files of their own: `a` as the case says, `b` as the form wants it."""

    @classmethod
    def at(cls, folder: Path, form: str, member: str, source: str, labels: str, words: str) -> Filed:
        (folder / "a.schema.toml").write_text(SCHEMAS.get(member, ""))
        (folder / "b.schema.toml").write_text(SCHEMAS["line"])
        keys, lines = {}, [f'version = 1\n{FORMS[form]}\nlabel = ["a", "y"]\n{WORDS[words] if form == "key" else ""}']
        lines.append(f'coordinator = "{COORDINATOR_KEY}"\nhub = "localhost:1"')
        other = 'schema = "b.schema.toml"' if form == "key" else "columns = 3"
        for name, held in (("a", 'schema = "a.schema.toml"' if member in SCHEMAS else member), ("b", other)):
            public, keys[name] = new_key()
            (folder / f"{name}.key").write_text(keys[name].hex())
            rows = f"rows = {ROWS}\n" if form == "split" else ""
            lines.append(f'[parties.{name}]\n{held}\n{rows}exact = true\nleast = 1\nkey = "{public}"')
        (folder / "federation.toml").write_text("\n".join(lines))
        SOURCES[source](folder / source, words)
        if labels != "none":
            np.save(folder / "labels.npy", LABELS[labels])
        np.save(folder / "b.npy", X[1])
        np.save(folder / "y.npy", Y)
        frame(words).with_columns(**{n: X[1][:, j] for j, n in enumerate(NAMES)}).write_csv(folder / "b.csv")
        said = "" if labels == "none" else 'labels = "labels.npy"'
        said += '\nquery = "select * from t"' if source == "x.db" else ""
        given = f"sqlite:///{folder}/x.db" if source == "x.db" else source
        mine = {"a": (given, said)}
        mine["b"] = ("b.csv" if form == "key" else "b.npy", 'labels = "y.npy"' if form == "split" else "")
        for name, (table, more) in mine.items():
            (folder / f"{name}.toml").write_text(
                f'version = 1\nname = "{name}"\nfederation = "federation.toml"\nstore = "{name}"\nkey = "{name}.key"\n'
                f'certs = "certs"\napprove = "all"\n[data]\nsource = "{table}"\n{more}\n'
            )
        return cls(folder, FederationFile.load(folder / "federation.toml"), keys, {}, {})

    def service(self, name, approve=lambda _: True, neighbours=None):
        return PartyFile.load(self.folder / f"{name}.toml").service(approve, neighbours)


def outcome(folder: Path, how: str, *case: str) -> co.Fit | str:
    """The model, or why it was refused before anybody reserved anything."""
    problem, method, privacy = METHODS[how]
    noise = {} if privacy is None else {"noise": co.SeededNoise(1)}
    reserved, found = [], ""
    try:
        with Straw(Filed.at(folder, *case)) as straw:
            try:
                found = co.fit(
                    straw.made.federation, problem, method, privacy, engine=straw, store=folder / "hub", **noise
                )
            finally:
                reserved = [name for name, one in straw.services.items() if one.run_store.begun()]
    except ColonnadeError as error:
        found = str(error)
    assert isinstance(found, co.Fit) or not reserved, f"{case}, {how}: reserved by {reserved}, and no model: {found}"
    return found


# Beside a matrix, and in a table with a key.
LABELLED = [*((labels, "numbers") for labels in LABELS), ("none", "class"), ("none", "unnamed"), ("right", "class")]


@pytest.mark.thinned(pytest.mark.slow)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_refused_before_anybody_reserves_or_gives_a_model(tmp_path, form, member, source, how):  # noqa: F811
    for place, (labels, words) in enumerate(LABELLED):
        (folder := tmp_path / str(place)).mkdir()
        found = outcome(folder, how, form, member, source, labels, words)
        assert isinstance(found, co.Fit) or len(found) > 20  # a line of words


GOOD = [
    ("key", "line", "x.csv", "none", "class", "gram"),
    ("key", "open", "x.parquet", "none", "numbers", "gram"),
    ("key", "curve", "x.arrow", "none", "numbers", "gram"),
    ("key", "line", "x.db", "none", "numbers", "inference"),
    ("rows", "columns = 3", "x.npy", "right", "numbers", "exact"),
    ("rows", "columns = 3", "x.npz", "right", "numbers", "exact"),
    ("rows", "columns = 3", "x.svm", "none", "numbers", "exact"),
    ("split", "columns = 3", "x.npy", "right", "numbers", "kernel"),
]


@pytest.mark.parametrize(("form", "member", "source", "labels", "words", "how"), GOOD)
def test_every_form_gives_a_model_where_its_files_fit_together(tmp_path, form, member, source, labels, words, how):  # noqa: F811
    """Or the claim above would hold of a program that refuses everything."""
    found = outcome(tmp_path, how, form, member, source, labels, words)
    assert isinstance(found, co.Fit), found


REFUSED = [  # and what to do
    ("rows", "open", "x.npy", "right", "numbers", "say columns = ... of a plain matrix"),
    ("rows", "line", "x.npy", "right", "numbers", "say columns = ... of a plain matrix"),
    ("split", "curve", "x.npy", "right", "numbers", "say columns = ... of a plain matrix"),
    ("key", "columns = 3", "x.csv", "none", "numbers", "name its schema = ... instead"),
    ("rows", "columns = 3", "x.csv", "right", "numbers", r"save a plain matrix of numbers \(numpy.save\)"),
    ("rows", "columns = 3", "x.parquet", "right", "numbers", r"save a plain matrix of numbers \(numpy.save\)"),
    ("key", "line", "x.npy", "none", "numbers", "name a table that has this column"),
    ("key", "line", "x.csv", "right", "numbers", "Leave labels out"),
    ("key", "line", "x.csv", "none", "unnamed", "name the class that is learnt"),
    ("key", "line", "texts.parquet", "none", "numbers", "the schema expects numbers. Convert it"),
    ("key", "levels", "lists.parquet", "none", "numbers", "the schema expects levels. Convert it"),
    ("key", "dates", "x.parquet", "none", "numbers", "the schema expects dates. Convert it"),
    ("key", "dates", "x.csv", "none", "numbers", "12 of 12 texts are no dates"),
    ("key", "line", "gaps.parquet", "none", "numbers", "1 values are missing"),
    ("rows", "columns = 4", "x.npy", "right", "numbers", "12 rows and 4 columns, not 12 x 3"),
    ("rows", "columns = 3", "flat.npy", "right", "numbers", "12 rows and 3 columns, not 36"),
    ("rows", "columns = 3", "texts.npy", "right", "numbers", "save floats, integers or Booleans"),
    ("rows", "columns = 3", "x.npy", "column", "numbers", "12 x 1 were given"),
    ("rows", "columns = 3", "x.npy", "short", "numbers", "11 were given"),
    ("rows", "columns = 3", "x.npy", "one", "numbers", "one were given"),
    ("rows", "columns = 3", "x.npy", "none", "numbers", "none were given"),
    ("rows", "columns = 3", "x.npy", "texts", "numbers", "save numbers, 1 for the class"),
    ("split", "columns = 4", "x.npy", "right", "numbers", "Write the same number everywhere"),
]


@pytest.mark.parametrize(("form", "member", "source", "labels", "words", "why"), REFUSED)
def test_what_does_not_fit_together_is_refused_by_the_files_alone_and_the_remedy_is_said(
    tmp_path,  # noqa: F811
    form,
    member,
    source,
    labels,
    words,
    why,
):
    """Before there is a service: no hub has heard of this party then."""
    with pytest.raises(InvalidInput, match=why):
        Filed.at(tmp_path, form, member, source, labels, words).service("a")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("query = 3", "must be a text"),
        ("labels = 3", "must be a text"),
        ('sources = "x.npy"', "is unknown; the nearest name is 'source'; there are source, query, labels"),
    ],
)
def test_an_entry_of_data_that_is_not_known_or_no_text_is_refused(tmp_path, line, why):  # noqa: F811
    made = Filed.at(tmp_path, "rows", "columns = 3", "x.npy", "none", "numbers")
    with (tmp_path / "a.toml").open("a") as file:
        file.write(line)
    with pytest.raises(InvalidInput, match=why):
        made.service("a")


@pytest.mark.parametrize("port", ['"9464"', "-1", "65536", "true", "1.5"])
def test_a_port_for_metrics_that_is_none_is_refused(tmp_path, port):  # noqa: F811
    made = Filed.at(tmp_path, "rows", "columns = 3", "x.npy", "right", "numbers")
    text = (tmp_path / "a.toml").read_text()
    (tmp_path / "a.toml").write_text(text.replace("[data]", f"metrics = {port}\n[data]"))
    with pytest.raises(InvalidInput, match="must be the number of a port"):
        made.service("a")


def test_a_table_of_another_width_than_the_run_counts_on_is_refused_before_it_is_priced(tmp_path):  # noqa: F811
    """Whatever made them differ: at the party, from the roster alone."""
    made = Filed.at(tmp_path, "rows", "columns = 3", "x.npy", "right", "numbers")
    with contextlib.closing(made.service("b")) as service:
        member = replace(made.file.members["b"], columns=4)
        wider = replace(made.file, members={**made.file.members, "b": member})
        problem, method, _ = METHODS["exact"]
        call = party_run.Call(method, problem, None, None)
        with pytest.raises(InvalidInput, match="'b' holds 3 encoded columns, and the run counts on 4"):
            party_run.price(call, co.Federation.elsewhere(wider), service.data, service.scoring)


@pytest.mark.parametrize(
    "known",
    [
        Known((1.0,), (False, False), (False, False), 1.0),
        Known((1.0, 1.0), (False,), (False, False), 1.0),
        Known((1.0, 1.0), (False, False), (False,) * 3, 1.0),
        Known((1.0, 1.0), (False, False), (False, False), 1.0, level=(0, 1, 1)),
        Known((1.0, 1.0), (False, False), (False, False), 1.0, monotone=(1,)),
        Known((), (), (), 1.0),
    ],
)
def test_a_roster_whose_schema_and_places_disagree_is_refused_at_every_node(known):
    with pytest.raises(InvalidInput, match="encoded columns, and it has 2 places"):
        Roster(5, {"a": (0, 1)}, "a", known={"a": known})


def test_labels_as_words_need_their_type_named_but_new_rows_need_no_labels(tmp_path):  # noqa: F811
    """A table that is only scored has no labels to be looked at."""
    schema = co.Schema((co.Numeric("u", -1.0, 1.0),))
    members = {name: Member(schema, co.Policy(), new_key()[0]) for name in ("a", "b")}
    file = FederationFile(members, "key", ("a", "y"))
    with pytest.raises(InvalidInput, match="must be a number"):
        PartyData(file, "a", frame("unnamed"))
    assert PartyData(file, "a", frame("unnamed"), models=tmp_path).scoring
    assert PartyData(file, "b", frame("unnamed")).rows == ROWS


@pytest.mark.parametrize(
    "change",
    [
        {"party": "b"},
        {"version": 2},
        {"format": "colonnade fit"},
        {"coefficients": [1.0, float("nan")]},
        {"coefficients": [[1.0, 2.0]]},
        {"coefficients": ["x", "y"]},
        {"coefficients": [1.0]},
        {"intercept": float("nan")},
        {"intercept": "much"},
        {"features": ["u"]},
        {"features": ["u", 3]},
    ],
)
def test_a_part_of_a_model_that_is_anothers_or_damaged_is_refused(change, tmp_path):  # noqa: F811
    part = {"format": "colonnade part", "version": 1, "party": "a", "features": ["u", "v"]}
    part |= {"coefficients": [1.0, 2.0], "intercept": None}
    (tmp_path / "part.json").write_text(json.dumps(part))
    assert read_part(tmp_path / "part.json", "a") == part
    (tmp_path / "part.json").write_text(json.dumps(part | change))
    with pytest.raises(InvalidInput, match="not this party's part of a model, or it is damaged"):
        read_part(tmp_path / "part.json", "a")


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "1e9", '"72"', "true"])
def test_a_question_that_would_stay_open_for_no_time_or_for_ever_is_refused(hours, tmp_path):  # noqa: F811
    made = Filed.at(tmp_path, "rows", "columns = 3", "x.npy", "right", "numbers")
    text = (tmp_path / "a.toml").read_text()
    (tmp_path / "a.toml").write_text(text.replace("[data]", f"open_hours = {hours}\n[data]"))
    with pytest.raises(InvalidInput, match="must be a number of hours above 0"):
        made.service("a")
