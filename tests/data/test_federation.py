"""Claims about federations: rows are matched whatever their order, and what cannot be matched is refused with advice."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LEAST = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
BRIEF = co.DistributedFrankWolfe(rounds=5, tolerance=0.0)


def frames(rows: int = 20, seed: int = 0) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    keys = [f"k{i:03d}" for i in range(rows)]
    left = pl.DataFrame({"key": keys, "a": rng.normal(size=rows), "b": rng.choice(["u", "v", "w"], rows)})
    right = pl.DataFrame({"key": keys, "c": rng.normal(size=rows), "y": rng.normal(size=rows)})
    return {"left": left, "right": right}


def made(tables, **options):
    return co.Federation.from_frames(tables, on="key", label=("right", "y"), **options)


def model(fed) -> dict[str, bytes]:
    fit = co.fit(fed, LEAST, method=BRIEF)
    return {party: x.tobytes() for party, x in fit.coefficients.items()}


# ---------------------------------------------------------------- matching rows


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_the_order_of_rows_changes_nothing(one, two):
    tables = frames()
    shuffled = {
        name: table.sample(fraction=1.0, shuffle=True, seed=seed)
        for (name, table), seed in zip(tables.items(), (one, two), strict=True)
    }
    assert model(made(tables)) == model(made(shuffled))


@settings(max_examples=15)
@given(st.sets(st.integers(0, 19), max_size=8), st.sets(st.integers(0, 19), max_size=8))
def test_rows_that_are_not_everywhere_are_counted_and_left_out(left, right):
    tables = frames()
    holey = {
        "left": tables["left"].filter(~pl.Series(range(20)).is_in(list(left))),
        "right": tables["right"].filter(~pl.Series(range(20)).is_in(list(right))),
    }
    fed = made(holey)
    assert 20 - len(left | right) == fed.rows == fed.alignment.matched
    assert {"left": len(right - left), "right": len(left - right)} == fed.alignment.left_out
    both = {name: table.filter(~pl.Series(range(20)).is_in(list(left | right))) for name, table in tables.items()}
    assert made(both).labels.tobytes() == fed.labels.tobytes()
    for name in tables:
        ours, theirs = (
            np.asarray(f.parties[name].block.matrix @ np.eye(f.parties[name].block.columns)) for f in (fed, made(both))
        )
        if fed.parties[name].features == made(both).parties[name].features:
            assert np.array_equal(ours, theirs)


def test_a_party_with_nothing_but_labels_takes_part():
    tables = frames()
    fed = co.Federation.from_frames(
        {"left": tables["left"], "right": tables["right"].select("key", "y")}, on="key", label=("right", "y")
    )
    assert fed.parties["right"].block.columns == 0
    assert list(co.fit(fed, LEAST, method=BRIEF).coefficients) == ["left"]


def test_pandas_and_polars_frames_make_the_same_model():
    tables = frames()
    assert model(made(tables)) == model(made({name: table.to_pandas() for name, table in tables.items()}))


def test_split_by_number_and_by_name_agree():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    by_number = co.Federation.split(X, y, parties=2)
    by_name = co.Federation.split(X, y, parties={"party0": slice(0, 3), "party1": [3, 4]})
    assert model(by_number) == model(by_name)


@pytest.mark.parametrize(
    "columns", [[0, 1], (0, 1), range(2), slice(0, 2), np.array([0, 1]), np.array([True, True, False])], ids=repr
)
def test_columns_may_be_chosen_in_every_usual_way(columns):
    fed = co.Federation.split(np.eye(3), np.arange(3.0), parties={"a": columns, "b": [2]})
    assert fed.parties["a"].block.positions.tolist() == [0, 1]


def test_labels_go_to_the_party_that_is_named():
    fed = co.Federation.split(np.eye(3), np.arange(3.0), parties=2, label="party1")
    assert (fed.label, list(fed.parties)) == ("party1", ["party0", "party1"])


def test_labels_go_to_a_party_of_their_own_by_default():
    fed = co.Federation.split(np.eye(3), np.arange(3.0), parties=2)
    assert fed.label == "labels"
    assert fed.parties["labels"].block.columns == 0


def test_changing_the_table_after_the_split_changes_nothing():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(20, 4)), sparse.csc_array(rng.normal(size=(20, 4)))):
        y = rng.normal(size=20)
        fed = co.Federation.split(X, y, parties={"all": slice(0, 4)})
        before = model(fed)
        (X.data if sparse.issparse(X) else X)[:] = 0.0
        assert before == model(fed)


def test_a_representation_shows_sizes_and_no_values():
    tables = frames()
    tables["left"] = tables["left"].with_columns(a=pl.lit(123.456))
    text = repr(made(tables))
    assert "left: 4 columns" in text
    assert "123" not in text


# ---------------------------------------------------------------- bad input

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0.0, 1.0, 2.0, 3.0])
T = frames()
split, joined = co.Federation.split, co.Federation.from_frames


def with_value(value: float) -> np.ndarray:
    table = X.copy()
    table[1, 1] = value
    return table


def with_left(table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {**T, "left": table}


SCHEMA = co.Schema((co.Numeric("a", -1.0, 1.0),))
BAD = {
    # one table
    "X with NaN": (lambda: split(with_value(math.nan), Y), "1 values that are NaN or infinite.*fill them in"),
    "X with infinity": (lambda: split(with_value(math.inf), Y), "NaN or infinite"),
    "sparse X with NaN": (lambda: split(sparse.csr_array(with_value(math.nan)), Y), "NaN or infinite"),
    "X of one dimension": (lambda: split(X[0], Y), "two dimensions"),
    "X of three dimensions": (lambda: split(np.zeros((2, 2, 2)), Y), "two dimensions"),
    "X without rows": (lambda: split(np.zeros((0, 3)), []), "at least one of each"),
    "X without columns": (lambda: split(np.zeros((3, 0)), np.zeros(3)), "at least one of each"),
    "X of text": (lambda: split([["a", "b"]], [1.0]), "not a table of numbers.*data frame"),
    "X of ragged rows": (lambda: split([[1.0], [1.0, 2.0]], [1.0, 2.0]), "not a table of numbers"),
    "X is nothing": (lambda: split(None, Y), "pass an array|two dimensions"),
    "a frame without rows": (lambda: split(pl.DataFrame({"a": []}), []), "at least one"),
    "too few labels": (lambda: split(X, Y[:3]), "4 rows.*one label a row"),
    "labels in a table": (lambda: co.fit(split(X, np.zeros((4, 2))), LEAST), "one label a row"),
    "no parties": (lambda: split(X, Y, parties=0), "from 1 to the 3 columns"),
    "negative parties": (lambda: split(X, Y, parties=-1), "from 1 to the 3 columns"),
    "more parties than columns": (lambda: split(X, Y, parties=4), "from 1 to the 3 columns"),
    "half a party": (lambda: split(X, Y, parties=1.5), "whole number"),
    "parties by a list": (lambda: split(X, Y, parties=[[0], [1]]), "or a dict"),
    "nobody": (lambda: split(X, Y, parties={}), "at least one party"),
    "a column given twice": (lambda: split(X, Y, parties={"a": [0, 1], "b": [1]}), "given twice.*one party"),
    "a column twice in a party": (lambda: split(X, Y, parties={"a": [0, -3]}), "given twice"),
    "an unknown column": (lambda: split(X, Y, parties={"a": [9]}), "no column 9.*3 columns"),
    "an unknown name": (lambda: split(X, Y, parties={"a": ["age"]}), "no column 'age'"),
    "one number for columns": (lambda: split(X, Y, parties={"a": 2}), "columns"),
    "half a column": (lambda: split(X, Y, parties={"a": [0.5]}), "no column 0.5"),
    "a party without columns": (lambda: split(X, Y, parties={"a": [], "b": [0]}), "leave it out"),
    "a mask of another length": (lambda: split(X, Y, parties={"a": np.array([True])}), "mask|column"),
    "the coordinator's name": (lambda: split(X, Y, parties={"coordinator": [0]}), "give the party another"),
    "a name with a slash": (lambda: split(X, Y, parties={"a/b": [0]}), "without slashes"),
    "a name with spaces around": (lambda: split(X, Y, parties={" a": [0]}), "outer spaces"),
    "an empty name": (lambda: split(X, Y, parties={"": [0]}), "cannot name a party"),
    "a number for a name": (lambda: split(X, Y, parties={1: [0]}), "cannot name a party"),
    "labels at an unknown party": (lambda: split(X, Y, label="c"), "not a party; there are 'party0'"),
    "labels at nobody": (lambda: split(X, Y, label=""), "not a party"),
    "a policy for an unknown party": (lambda: split(X, Y, policies={"c": co.Policy()}), "policies names 'c'"),
    "a policy that is none": (lambda: split(X, Y, policies={"party0": "strict"}), "Policy"),
    # labels that the loss refuses
    "labels with NaN": (lambda: co.fit(split(X, [0.0, math.nan, 1.0, 2.0]), LEAST), "NaN or infinite"),
    "labels of text": (lambda: co.fit(split(X, ["a", "b", "c", "d"]), LEAST), "not real numbers"),
    "labels of one class": (
        lambda: co.fit(split(X, np.ones(4)), co.Problem(co.Logistic(), co.L1Ball(1.0))),
        "same class.*other class",
    ),
    "labels of three classes": (lambda: co.fit(split(X, Y), co.Problem(co.Logistic(), co.L1Ball(1.0))), "map the two"),
    # one frame a party
    "no frames": (lambda: joined({}, on="key"), "no frames.*one frame a party"),
    "a list of frames": (lambda: joined([T["left"]], on="key"), "party"),
    "a frame that is none": (lambda: joined({"a": 3}, on="key"), "DataFrame"),
    "no key column": (lambda: joined(with_left(T["left"].drop("key")), on="key"), "no key column 'key'.*'a', 'b'"),
    "no rows": (lambda: joined(with_left(T["left"].head(0)), on="key"), "'left' has no rows"),
    "a missing key": (
        lambda: joined(with_left(T["left"].with_columns(key=pl.lit(None, pl.String))), on="key"),
        "20 rows have no key.*fill it in",
    ),
    "a repeated key": (
        lambda: joined(with_left(pl.concat([T["left"], T["left"].head(2)])), on="key"),
        "2 rows repeat a key.*finer key",
    ),
    "keys of another type": (
        lambda: joined(with_left(T["left"].with_columns(key=pl.int_range(20))), on="key"),
        "different types.*left: Int64.*same type",
    ),
    "no common key": (
        lambda: joined(with_left(T["left"].with_columns(key=pl.col("key") + "x")), on="key"),
        "no key of 'key' is in all",
    ),
    "the label at an unknown party": (lambda: joined(T, on="key", label=("middle", "y")), "label names 'middle'"),
    "an unknown label": (lambda: joined(T, on="key", label=("right", "z")), "no column 'z'.*'c', 'y'"),
    "the key for a label": (lambda: joined(T, on="key", label=("right", "key")), "to use as label"),
    "a label without its party": (lambda: joined(T, on="key", label="y"), "label"),
    "a label with gaps": (
        lambda: joined(
            {**T, "right": T["right"].with_columns(y=pl.lit(None, pl.Float64))}, on="key", label=("right", "y")
        ),
        "missing in 20 rows",
    ),
    "a schema for an unknown party": (lambda: joined(T, on="key", schemas={"c": SCHEMA}), "schemas names 'c'"),
    "a schema of another table": (
        lambda: joined(T, on="key", schemas={"right": co.Schema((co.Numeric("z", 0.0, 1.0),))}),
        "party 'right'.*'z'",
    ),
    "a policy for an unknown frame": (lambda: joined(T, on="key", policies={"c": co.Policy()}), "policies names 'c'"),
    "the coordinator's name for a frame": (
        lambda: joined({"coordinator": T["left"]}, on="key"),
        "give the party another",
    ),
    "no label at all": (lambda: co.fit(joined(T, on="key"), LEAST), r"label=\(party, column\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_advice(name):
    call, advice = BAD[name]
    with pytest.raises(co.InvalidInput, match=advice):
        call()
