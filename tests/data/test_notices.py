"""Claims that nobody spends a budget on nothing without a word, and that nobody else hears that word."""

from __future__ import annotations

import datetime as dt
import logging
import re
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.notices import about_columns, about_labels, about_levels, count_labels
from colonnade.model.job import Job
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.privacy.block import Block
from colonnade.runs.call import notices

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 80
PRIVATE = co.Privacy(1.0, 1e-6, "secure")
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1.0))


def table(fbs: str = "high", crp: float | None = None) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "pid": [str(i) for i in range(ROWS)],
            "fbs": [fbs] * ROWS,
            "crp": rng.random(ROWS) if crp is None else [crp] * ROWS,
            "age": rng.random(ROWS),
            "sick": rng.integers(0, 2, ROWS),
        }
    )


def federation(lab: pl.DataFrame, sick: pl.Series | None = None) -> co.Federation:
    clinic = table().select("pid", "age", "sick")
    clinic = clinic if sick is None else clinic.with_columns(sick.alias("sick"))
    schemas = {
        "lab": co.Schema((co.Categorical("fbs", ("0", "1")), co.Numeric("crp", 0, 1, missing=0))),
        "clinic": co.Schema((co.Numeric("age", 0, 1),)),
    }
    frames = {"lab": lab.select("pid", "fbs", "crp"), "clinic": clinic}
    return co.Federation.from_frames(frames, "pid", ("clinic", "sick"), schemas=schemas)


def said(fed: co.Federation, store, problem: co.Problem = RIDGE) -> str:
    """The one warning of a run that is turned into an error by it; the ledgers stay untouched."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.NothingToLearn)
        with pytest.raises(co.NothingToLearn) as caught:
            co.fit(fed, problem, privacy=PRIVATE, store=store)
    assert not store.exists()
    return str(caught.value)


def test_levels_that_no_cell_has_are_said_before_anything_is_spent(tmp_path):
    found = said(federation(table(fbs="high")), tmp_path / "s")
    assert "party 'lab': column 'fbs': none of its 80 values is one of its 2 declared levels" in found
    assert "Nothing more is spent before this is said" in found


def test_a_column_of_gaps_or_beyond_its_bounds_is_said(tmp_path):
    varied = pl.Series(["0", "1"] * (ROWS // 2))
    beyond = table(crp=7.0).with_columns(varied.alias("fbs"))
    gaps = beyond.with_columns(pl.lit(None, pl.Float64).alias("crp"))
    for frame in (beyond, gaps):
        assert "column 'crp': all 80 values are missing, or the same" in said(federation(frame), tmp_path / "s")


def frames_about(cells: list) -> dict[str, pl.DataFrame]:
    """One party's column of cells beside another party's that is in order."""
    keys = [str(i) for i in range(len(cells))]
    lab = pl.DataFrame({"pid": keys, "cells": cells})
    clinic = pl.DataFrame(
        {"pid": keys, "age": np.linspace(0, 1, len(cells)), "sick": [i % 2 for i in range(len(cells))]}
    )
    return {"lab": lab, "clinic": clinic}


COUNTED = [
    (co.Categorical("cells", tuple("abcde")), [*"abab"] * 2, ("3 of its 5 declared levels are in no row",)),
    (co.Categorical("cells", tuple("abcd")), [*"abab"] * 2, ()),  # half of them, and every cell has its level
    (
        co.Categorical("cells", ("a", "b"), missing="indicator"),
        [*"abxyy", None, None, "a"],
        ("3 of its 8 values are none of its 2 declared levels",),
    ),
    (
        co.Categorical("cells", ("a", "b", "A")),
        [*"abcabcab"],
        ("1 of its 3 declared levels are in no row", "2 of its 8 values are none of its 3 declared levels"),
    ),
    (co.Categorical("cells", ("a", "b"), missing="indicator"), ["a", "b", None, *"aabab"], ()),
    (co.Categorical("cells", ("a", "b"), missing="b"), ["a", None] * 4, ()),
    (co.Numeric("cells", 0, 1), [0.0, 1.0] * 4, ()),  # at the bounds, and none beyond them
    (co.Numeric("cells", 0, 1), [-3.0, 1.0] * 4, ("4 of its 8 values lie outside the declared bounds",)),
    (co.Numeric("cells", 0, 1), [-3.0, 1.0] * 3 + [0.5] * 2, ()),
    (co.Numeric("cells", 0, 1), [-3.0, 7.0] * 3 + [0.5] * 2, ("6 of its 8 values lie outside the declared bounds",)),
    (co.Numeric("cells", 0, 1, missing="indicator"), [-3.0, 1.0, None, None] * 2, ("2 of its 8 values lie outside",)),
    (co.Numeric("cells", 0, 60, scale=False), [0.0, 60.0, 61.0, 0.0] * 2, ("2 of its 8 values lie outside",)),
    (co.Numeric("cells", 0, 60, scale=False), [1.0, 60.0, 61.0, 0.0] * 2, ()),
    (
        co.Date("cells", dt.date(2020, 1, 1), dt.date(2020, 12, 31), parts=("month",)),
        [dt.date(1999, 3, 1), dt.date(2021, 3, 1)] * 4,
        ("8 of its 8 values lie outside the declared bounds and count as the nearer one, and none between them",),
    ),
]


@pytest.mark.parametrize(("column", "cells", "found"), COUNTED)
def test_levels_and_cells_that_a_schema_leaves_unused_are_counted(column, cells, found):
    """To the caller in process and to the party's own operator, in the same words."""
    schemas = {"lab": co.Schema((column,)), "clinic": co.Schema((co.Numeric("age", 0, 1),))}
    frames = frames_about(cells)
    fed = co.Federation.from_frames(frames, "pid", ("clinic", "sick"), schemas=schemas)
    told = about_columns(schemas["lab"], fed.parties["lab"].block)
    members = {name: Member(schema, co.Policy(least=1), new_key()[0]) for name, schema in schemas.items()}
    party_data = PartyData(FederationFile(members, "pid", ("clinic", "sick")), "lab", frames["lab"])
    assert party_data.seen.nothing == told
    assert len(told) == len(found)
    for notice, words in zip(told, found, strict=True):
        assert notice.startswith(f"column 'cells': {words}")
    assert notices(fed, Job(RIDGE, fed.roster(), PRIVATE), {"lab": fed.parties["lab"].block})[0] == [
        f"party 'lab': {notice}" for notice in told
    ]


UNUSED = [
    (("a", "b", "c"), None, [*"abab"], "1 of 3"),
    (("a", "b", "c", "d"), None, [*"abab"], "2 of 4"),
    (("a", "b", "c"), "indicator", ["a", "b", None, "a"], "1 of 3"),
    (("a", "b"), None, [*"abab"], ""),  # every level has its row
    (("a", "b", "c"), None, [*"abax"], ""),  # beside a cell that no level covers: a warning says it
    (("a", "b", "c"), None, [*"aaaa"], ""),  # one value: likewise
    (("a", "b", "c", "d", "e"), None, [*"abab"], ""),  # more than half of the levels: likewise
]


@pytest.mark.parametrize(("levels", "missing", "cells", "found"), UNUSED)
def test_a_declared_level_that_no_row_has_is_always_said_once(levels, missing, cells, found):
    """By information or by a warning, never by both: to the caller in process and to the party's operator, and to nobody else."""
    column = co.Categorical("cells", levels) if missing is None else co.Categorical("cells", levels, missing=missing)
    schemas = {"lab": co.Schema((column,)), "clinic": co.Schema((co.Numeric("age", 0, 1),))}
    frames = frames_about(cells)
    fed = co.Federation.from_frames(frames, "pid", ("clinic", "sick"), schemas=schemas)
    wanted = [f"declared levels that no row has: column 'cells' ({found})"] if found else []
    job = Job(RIDGE, fed.roster(), PRIVATE)
    assert notices(fed, job, {"lab": fed.parties["lab"].block})[1] == [f"party 'lab': {line}" for line in wanted]
    members = {name: Member(schema, co.Policy(least=1), new_key()[0]) for name, schema in schemas.items()}
    party_data = PartyData(FederationFile(members, "pid", ("clinic", "sick")), "lab", frames["lab"])
    assert [*party_data.seen.unused] == wanted
    warned = " ".join(party_data.seen.nothing)
    assert bool(warned) == (not found and set(cells) != set(levels))
    away = replace(fed, away=party_data.file)
    assert notices(away, job, {"lab": fed.parties["lab"].block}) == ([], [])
    assert notices(fed, replace(job, privacy=None), {"lab": fed.parties["lab"].block}) == ([], [])


@pytest.mark.chance(0, "what is said of a table before anything is drawn")
def test_levels_that_no_row_has_are_one_line_a_party_and_no_error_to_whoever_forbids_waste(tmp_path):
    columns = tuple(co.Categorical(f"c{j}", tuple("abc")) for j in range(8))
    schema = co.Schema((*columns, co.Categorical("full", ("a", "b"))))
    encoded = schema.encode(pl.DataFrame({name: ["a", "b"] * 4 for name in [c.name for c in schema.columns]}))
    (line,) = about_levels(schema, Block(encoded.matrix, np.arange(schema.width)))
    assert line.endswith(
        "column 'c0' (1 of 3), 'c1' (1 of 3), 'c2' (1 of 3), 'c3' (1 of 3), 'c4' (1 of 3), 'c5' (1 of 3) and 2 more"
    )
    frames = frames_about([*"ab"] * 20)
    schemas = {
        "lab": co.Schema((co.Categorical("cells", tuple("abc")),)),
        "clinic": co.Schema((co.Numeric("age", 0, 1),)),
    }
    fed = co.Federation.from_frames(frames, "pid", ("clinic", "sick"), schemas=schemas)
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.NothingToLearn)
        with pytest.warns(co.UnusedLevels, match=r"party 'lab': declared levels .* \(1 of 3\). A run pays for them"):
            co.fit(fed, RIDGE, privacy=PRIVATE, store=tmp_path / "s")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", co.UnusedLevels
        )  # whoever wants none of them is stopped before anything is spent
        with pytest.raises(co.UnusedLevels):
            co.fit(fed, RIDGE, privacy=PRIVATE, store=tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_wide_table_names_a_few_columns_and_counts_the_rest():
    columns = tuple(co.Categorical(f"c{j}", tuple("abcde")) for j in range(10))
    table_ = pl.DataFrame({column.name: ["a", "b"] * 4 for column in columns})
    schema = co.Schema((*columns, co.Numeric("flat", 0, 1)))
    encoded = schema.encode(table_.with_columns(flat=pl.lit(0.5)))
    told = about_columns(schema, Block(encoded.matrix, np.arange(schema.width)))
    assert "'flat': all 8 values" in told[0]  # what carries nothing at all is named first
    assert [notice.split(":")[0] for notice in told[1:7]] == [f"column 'c{j}'" for j in range(6)]
    assert told[7:] == ("and 4 more like these",)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (pl.Series([i % 3 for i in range(ROWS)]), "the 3 different labels become two classes: 2 of them are above 0"),
        (pl.Series([1 + i % 2 for i in range(ROWS)]), "all 2 different labels are above 0"),
        (pl.Series([1] * ROWS), "labels of all rows are the same"),
    ],
)
def test_labels_that_a_private_run_merges_are_said(labels, found, tmp_path):
    good = table().with_columns(pl.Series(["0", "1"] * (ROWS // 2)).alias("fbs"))
    assert found in said(federation(good, labels), tmp_path / "s")


@pytest.mark.chance(0, "what is said of a table before anything is drawn; that noise swamps a model is no error here")
def test_a_run_that_has_something_to_learn_says_nothing(tmp_path):
    good = federation(table().with_columns(pl.Series(["0", "1"] * (ROWS // 2)).alias("fbs")))
    co.fit(good, RIDGE, privacy=PRIVATE, store=tmp_path / "s")  # a warning is an error here
    idle = federation(table())
    co.fit(idle, RIDGE)  # exact: nothing is spent


def test_matrices_of_one_value_are_noticed_dense_and_sparse():
    one, two = np.ones((5, 2)), np.array([[0.0, 3.0]] * 4 + [[1.0, 3.0]])
    for made in (np.ascontiguousarray, sparse.csc_array):
        places = np.arange(2)
        assert about_columns(None, Block(made(one), places)) == ("all 2 columns hold one value in all 5 rows",)
        assert about_columns(None, Block(made(two), places)) == ()
    assert about_columns(None, Block(sparse.csc_array((5, 3)), np.arange(3))) != ()


def test_labels_of_a_regression_are_noticed_only_where_all_are_the_same():
    job = Job(co.Problem(co.LeastSquares()), co.Federation.split(np.eye(4), np.arange(4.0)).roster(), PRIVATE)
    assert about_labels(count_labels([1.0, 2.0, np.nan, 5.0]), job) == ()
    assert about_labels(count_labels([2.0, np.nan, 2.0]), job) != ()
    assert about_labels(count_labels(["a", "b"]), job) == ()


def test_labels_that_their_range_clips_are_noticed_once_they_are_more_than_half():
    ranged = replace(PRIVATE, label_range=(0.0, 10.0))
    job = Job(co.Problem(co.LeastSquares()), co.Federation.split(np.eye(4), np.arange(4.0)).roster(), ranged)
    assert about_labels(count_labels([0.0, 10.0, 12.0, -1.0]), job) == ()  # half of them; the ends are inside
    (found,) = about_labels(count_labels([np.inf, 10.0, 12.0, -1.0]), job)
    assert "3 of 4 labels lie outside their declared range" in found
    assert about_labels(count_labels([11.0, 12.0, 10.0, 11.0]), job)[-1].startswith(
        "the labels of all rows are the same"
    )
    assert "6 of 8 labels are no numbers" in about_labels(count_labels([1.0, 2.0, *[np.nan] * 6]), job)[0]


def test_a_table_that_cannot_be_looked_at_changes_no_answer_to_the_hub(monkeypatch):
    """Whatever is raised by a row, also by one that no run would read."""

    def breaks(*_args):
        raise OverflowError("cell 17 is secret")

    schema = co.Schema((co.Numeric("age", 0, 1),))
    file = FederationFile({"a": Member(schema, co.Policy(), new_key()[0])}, "pid", ("a", "sick"))
    party_data = PartyData(file, "a", table().select("pid", "age", "sick"))
    monkeypatch.setattr(co.Schema, "encode", breaks)
    monkeypatch.setattr("colonnade.network.party_data.count_labels", breaks)
    job = Job(RIDGE, co.Federation.split(np.eye(4), np.ones(4)).roster(), PRIVATE)
    (found,) = party_data.notices(job)
    assert "could not be looked at (OverflowError)" in found
    assert "secret" not in found


def test_labels_are_counted_when_a_party_starts_and_not_when_a_run_is_proposed(monkeypatch):
    """How long counting takes depends on them, and others can time the answer to a proposal."""
    file = FederationFile(
        {"a": Member(co.Schema((co.Numeric("age", 0, 1),)), co.Policy(), new_key()[0])}, "pid", ("a", "sick")
    )
    party_data = PartyData(file, "a", table().select("pid", "age").with_columns(sick=pl.Series(np.arange(ROWS) % 3)))
    assert party_data.seen.nothing == ()  # what `colonnade party run` looks at before it dials
    monkeypatch.delattr("colonnade.network.party_data.count_labels")
    job = Job(RIDGE, co.Federation.split(np.eye(4), np.ones(4)).roster(), PRIVATE)
    assert "3 different labels become two classes" in party_data.notices(job)[0]


# ------------------------------------------------------------------------------------------------ estimators


ROWS_OF_X = np.linspace(-1.0, 1.0, 2 * 40).reshape(40, 2)
HALVES = np.arange(40) % 2


@pytest.mark.parametrize(
    ("model", "X", "y", "found"),
    [
        (
            co.SparseClassifier(classes=[0, 1, 2]),
            ROWS_OF_X,
            HALVES,
            "no row has a label of 1 of the 3 declared classes",
        ),
        (
            co.SparseClassifier(classes=[0, 1]),
            ROWS_OF_X,
            np.arange(40) % 4,
            "20 of 40 labels, 2 different ones, are not in classes= and count as the first of the two",
        ),
        (
            co.SparseClassifier(classes=["a", "b", "c"]),
            ROWS_OF_X,
            list("abcd") * 10,
            "10 of 40 labels, 1 different ones, are not in classes= and count as none of them",
        ),
        (co.SparseClassifier(classes=[0, 1]), 40.0 + ROWS_OF_X, HALVES, "all 40 rows are the same"),
        (co.SparseClassifier(classes=[0, 1]), sparse.csr_array((40, 3)), HALVES, "all 40 rows are the same"),
        (
            co.SparseRegressor(label_bound=1.0),
            np.where(ROWS_OF_X > 0, np.nan, 0.0),
            HALVES * 1.0,
            "all 40 rows are the same",
        ),
        (
            co.SparseRegressor(label_range=(0.0, 20.0)),
            ROWS_OF_X,
            np.arange(40.0) + 5.0,
            "24 of 40 labels lie outside their declared range",
        ),
        (co.SparseRegressor(label_bound=1.0), ROWS_OF_X, np.arange(40.0) + 2.0, "the labels of all rows are the same"),
    ],
)
def test_an_estimator_says_what_it_would_pay_for_nothing_before_its_ledger_is_opened(model, X, y, found, tmp_path):
    private = clone(model).set_params(epsilon=1.0, ledger=tmp_path / "ledger.db")
    with warnings.catch_warnings():
        warnings.simplefilter("error", co.NothingToLearn)
        with pytest.raises(co.NothingToLearn, match=re.escape(found)):
            private.fit(X, y)
    assert not list(tmp_path.iterdir())
    assert not hasattr(private, "coef_")


@pytest.mark.chance(0, "all that it may warn of follows from public figures and rows")
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (co.SparseClassifier(epsilon=1.0, classes=[0, 1]), HALVES),
        (co.SparseClassifier(epsilon=1.0, classes=["0", "1"]), list(HALVES.astype(str))),
        (co.SparseRegressor(epsilon=1.0, label_range=(0.0, 1.0)), HALVES * 1.0),  # at the ends, and not beyond them
        (co.SparseRegressor(epsilon=1.0, label_bound=20.0), np.arange(40.0) - 5.0),
    ],
)
def test_an_estimator_that_has_something_to_learn_says_nothing(model, y):
    clone(model).fit(ROWS_OF_X, y)  # a warning is an error here


def test_labels_that_no_declared_class_has_are_said_by_an_estimator_over_parties(tmp_path):
    model = co.FederatedClassifier(epsilon=1.0, classes=[0, 1], store=tmp_path / "s")
    with pytest.raises(co.NothingToLearn, match="10 of 40 labels, 1 different ones"):
        model.fit(ROWS_OF_X, np.where(np.arange(40) % 4, HALVES, 7))
    assert not (tmp_path / "s").exists()


# ------------------------------------------------------------------------------------------------ between organisations


def lab_service(tmp_path, table_: pl.DataFrame, approve) -> tuple[PartyService, PartyData]:
    keys = {name: new_key() for name in ("lab", "clinic")}
    fed = federation(table())
    members = {name: Member(fed.parties[name].schema, co.Policy(least=1), public) for name, (public, _) in keys.items()}
    file = FederationFile(members, "pid", ("clinic", "sick"), coordinator=new_key()[0])
    party_data = PartyData(file, "lab", table_)
    return PartyService(party_data, tmp_path / "lab", keys["lab"][1], approve), party_data


def test_a_party_hears_of_its_own_columns_and_nobody_else_does(tmp_path, caplog, monkeypatch):
    """The operator's request and log name the column; what the hub is answered is the same as for a table in order."""
    from colonnade.methods.node_setup import Call, protocol_of
    from colonnade.network.questions import pack

    answers, requests = {}, []
    for name, fbs in {"idle": "high", "fine": "1"}.items():
        frame = (
            table(fbs=fbs).with_columns(pl.Series(["0", "1"] * (ROWS // 2)).alias("fbs")) if name == "fine" else table()
        )
        service, party_data = lab_service(tmp_path / name, frame, lambda asked: requests.append(asked) or False)
        service.agreement = lambda: None  # the rows are not what this is about
        everybody = co.Federation.elsewhere(party_data.file, ROWS)
        monkeypatch.setattr(PartyData, "federation", lambda *_, known=everybody: known)
        method = co.PrivateGram(cross="secure").variant(RIDGE)
        call = Call(method, RIDGE, PRIVATE, None)
        asked = pack({"what": "consider", "run": "run-1", "call": call.to_json(), "code": protocol_of(method)})
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            answers[name] = service.answer(asked)
            logged = [(record.getMessage(), getattr(record, "what", "")) for record in caplog.records]
        paid = [what for message, what in logged if message == "a private run would pay for nothing"]
        assert bool(paid) == (name == "idle")
        assert bool(requests[-1].notices) == (name == "idle")
        service.close()
    assert answers["idle"] == answers["fine"]


def test_a_table_that_cannot_be_encoded_is_noticed_before_a_run_is_paid(tmp_path):
    broken = table().with_columns(pl.lit(None, pl.String).alias("fbs"))  # of the right type, and nothing says how
    service, party_data = lab_service(tmp_path, broken, lambda _: True)
    assert "cannot be encoded" in party_data.seen.nothing[0]
    service.close()
