"""Claims that nobody spends a budget on nothing without a word, and that nobody else hears that word."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import colonnade as co
from colonnade.algorithms.method import Job
from colonnade.between.holding import Holding
from colonnade.between.office import Office
from colonnade.charter import Charter, Member, new_key
from colonnade.notices import about_columns, about_labels, different
from colonnade.privacy.block import Block

ROWS = 80
PRIVATE = co.Privacy(1.0, 1e-6, "secure")
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(1.0))


def table(fbs: str = "1.0", crp: float | None = None) -> pl.DataFrame:
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
    found = said(federation(table(fbs="1.0")), tmp_path / "s")
    assert "party 'lab': column 'fbs': none of its 80 values is one of its 2 declared levels" in found
    assert "Nothing was spent yet" in found


def test_a_column_of_gaps_or_beyond_its_bounds_is_said(tmp_path):
    varied = pl.Series(["0", "1"] * (ROWS // 2))
    beyond = table(crp=7.0).with_columns(varied.alias("fbs"))
    gaps = beyond.with_columns(pl.lit(None, pl.Float64).alias("crp"))
    for frame in (beyond, gaps):
        assert "column 'crp': all 80 values are missing, or the same" in said(federation(frame), tmp_path / "s")


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
    assert about_labels(different([1.0, 2.0, np.nan, 5.0]), job) == ()
    assert about_labels(different([2.0, np.nan, 2.0]), job) != ()
    assert about_labels(different(["a", "b"]), job) == ()


# ------------------------------------------------------------------------------------------------ between organisations


def lab_office(tmp_path, table_: pl.DataFrame, approve) -> tuple[Office, Holding]:
    keys = {name: new_key() for name in ("lab", "clinic")}
    fed = federation(table())
    members = {name: Member(fed.parties[name].schema, co.Policy(least=1), public) for name, (public, _) in keys.items()}
    holding = Holding(Charter(members, "pid", ("clinic", "sick")), "lab", table_)
    return Office(holding, tmp_path / "lab", keys["lab"][1], approve), holding


def test_a_party_hears_of_its_own_columns_and_nobody_else_does(tmp_path, caplog, monkeypatch):
    """The operator's request and log name the column; what the hub is answered is the same as for a table in order."""
    from colonnade.between.parcel import pack
    from colonnade.seats import Call, source_of, variant

    answers, requests = {}, []
    for name, fbs in {"idle": "1.0", "fine": "1"}.items():
        frame = (
            table(fbs=fbs).with_columns(pl.Series(["0", "1"] * (ROWS // 2)).alias("fbs")) if name == "fine" else table()
        )
        office, holding = lab_office(tmp_path / name, frame, lambda asked: requests.append(asked) or False)
        office.agreement = lambda: None  # the rows are not what this is about
        everybody = co.Federation.elsewhere(holding.charter, ROWS)
        monkeypatch.setattr(Holding, "federation", lambda *_, known=everybody: known)
        method = variant(co.PrivateGram(cross="secure"), RIDGE)
        call = Call(method, RIDGE, PRIVATE, None)
        asked = pack({"what": "consider", "run": "run-1", "call": call.to_json(), "code": source_of(method)})
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            answers[name] = office.answer(asked)
            logged = [(record.getMessage(), getattr(record, "what", "")) for record in caplog.records]
        paid = [what for message, what in logged if message == "a private run would pay for nothing"]
        assert bool(paid) == (name == "idle")
        assert bool(requests[-1].notices) == (name == "idle")
        office.close()
    assert answers["idle"] == answers["fine"]


def test_a_table_that_cannot_be_encoded_is_noticed_before_a_run_is_paid(tmp_path):
    broken = table().with_columns(pl.lit("x").alias("crp"))
    office, holding = lab_office(tmp_path, broken, lambda _: True)
    assert "cannot be encoded" in holding.nothing[0]
    office.close()
