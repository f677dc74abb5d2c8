"""A gap means the same however rows come: by split, from_frames or an estimator, as polars, pandas or a file.

Without a schema a column with gaps gets a column that says where they are, and holds 0 there. A schema decides itself:
an error, that column, or a value instead. A matrix has no names for such columns, and NaN in it is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS, GAPS = 60, (3, 7)
PARTIES = {"a": ["num", "txt"], "b": ["flag", "day", "full"]}
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(0.1), intercept=True)
Y = np.random.default_rng(1).integers(0, 2, ROWS)
COLUMNS = ("num", "txt", "flag", "day")


def frame(*gaps: str) -> pl.DataFrame:
    """A table of every kind of column, two cells of the named ones missing."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "num": rng.uniform(0, 1, ROWS),
            "txt": rng.choice(["a", "b"], ROWS),
            "flag": rng.choice([True, False], ROWS),
            "day": [f"2024-01-{1 + k % 28:02}" for k in range(ROWS)],
            "full": rng.uniform(0, 1, ROWS),
        }
    ).with_columns(pl.col("day").str.to_date())
    row = pl.int_range(pl.len())
    return table.with_columns(pl.when(row.is_in(GAPS)).then(None).otherwise(pl.col(name)).alias(name) for name in gaps)


def split(table: Any, _: Path) -> co.Fit:
    return co.fit(co.Federation.split(table, Y, PARTIES), RIDGE)


def from_frames(table: pl.DataFrame, folder: Path, files: bool = False) -> co.Fit:
    whole = table.with_row_index("id")
    frames: dict[str, Any] = {name: whole.select("id", *columns) for name, columns in PARTIES.items()}
    frames["b"] = frames["b"].with_columns(y=pl.Series(Y))
    if files:
        for name, own in frames.items():
            own.write_csv(folder / f"{name}.csv")
            frames[name] = folder / f"{name}.csv"
    return co.fit(co.Federation.from_frames(frames, "id", ("b", "y")), RIDGE)


def estimator(table: Any, _: Path) -> co.Fit:
    return co.FederatedClassifier(parties=PARTIES, penalty=co.Ridge(0.1)).fit(table, Y).fit_


WAYS: dict[str, Callable[[pl.DataFrame, Path], co.Fit]] = {
    "split": split,
    "split, pandas": lambda table, folder: split(table.to_pandas(), folder),
    "from_frames": from_frames,
    "from_frames, files": lambda table, folder: from_frames(table, folder, files=True),
    "estimator": estimator,
    "estimator, pandas": lambda table, folder: estimator(table.to_pandas(), folder),
}


def features(fit: co.Fit) -> list[str]:
    return [name for party in PARTIES for name in fit.features[party]]


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_with_gaps_gets_one_that_says_where_they_are(name: str, way: str, tmp_path: Path) -> None:
    full, gaps = (features(WAYS[way](table, tmp_path)) for table in (frame(), frame(name)))
    assert [one for one in gaps if one not in full] == [f"{name}=missing"]
    assert [one for one in gaps if one != f"{name}=missing"] == full
    assert features(split(frame(name), tmp_path)) == gaps  # in the same order, too


@pytest.mark.parametrize("way", ["split", "from_frames"])
@pytest.mark.parametrize("name", COLUMNS)
def test_where_a_cell_is_missing_its_column_is_zero_and_the_other_one(name: str, way: str) -> None:
    whole = frame(name).with_row_index("id")
    if way == "split":
        fed = co.Federation.split(frame(name), Y, PARTIES)
    else:
        frames = {party: whole.select("id", *columns) for party, columns in PARTIES.items()}
        frames["b"] = frames["b"].with_columns(y=pl.Series(Y))
        fed = co.Federation.from_frames(frames, "id", ("b", "y"))
    holder = fed.parties["a" if name in PARTIES["a"] else "b"]
    matrix = holder.block.matrix
    matrix = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
    names = list(holder.features)
    told = matrix[:, names.index(f"{name}=missing")]
    assert np.flatnonzero(told).tolist() == list(GAPS)
    own = [
        k for k, one in enumerate(names) if one == name or (one.startswith(f"{name}=") and not one.endswith("=missing"))
    ]
    assert not matrix[np.ix_(list(GAPS), own)].any()


@pytest.mark.parametrize("way", WAYS)
def test_nan_and_null_are_the_same_gap(way: str, tmp_path: Path) -> None:
    nan = frame().with_columns(pl.when(pl.int_range(pl.len()).is_in(GAPS)).then(np.nan).otherwise("num").alias("num"))
    one, other = WAYS[way](frame("num"), tmp_path), WAYS[way](nan, tmp_path)
    for party, x in one.coefficients.items():
        np.testing.assert_array_equal(other.coefficients[party], x)


def test_rows_to_predict_have_gaps_where_the_model_knows_them_and_an_error_elsewhere(tmp_path: Path) -> None:
    for way in ("split", "from_frames"):
        fit = WAYS[way](frame("num"), tmp_path)
        new = frame("num").with_row_index("id")
        rows = new if way == "split" else {name: new.select("id", *columns) for name, columns in PARTIES.items()}
        assert np.isfinite(fit.scores(rows)).all()
        gap = frame("full").with_row_index("id")
        rows = gap if way == "split" else {name: gap.select("id", *columns) for name, columns in PARTIES.items()}
        with pytest.raises(co.InvalidInput, match="column 'full': 2 values are missing"):
            fit.scores(rows)


@pytest.mark.parametrize("make", [lambda X: co.Federation.split(X, Y, 2), lambda X: co.FederatedClassifier().fit(X, Y)])
def test_a_matrix_has_no_gaps(make: Callable[[Any], Any]) -> None:
    X = np.random.default_rng(0).normal(size=(ROWS, 2))
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        make(X)


@pytest.mark.parametrize(
    ("missing", "expected"), [("refuse", None), ("indicator", ["num", "num=missing"]), (0.25, ["num"])], ids=str
)
@pytest.mark.parametrize("way", ["from_frames", "estimator"])
def test_a_schema_decides_alike_for_frames_and_estimators(missing: Any, expected: Any, way: str) -> None:
    schemas = {"a": co.Schema((co.Numeric("num", 0, 1, missing=missing),))}
    table = frame("num").select("num")

    def features_of() -> list[str]:
        if way == "estimator":
            return list(co.FederatedClassifier(schemas=schemas).fit(table, Y).fit_.features["a"])
        own = table.with_row_index("id").with_columns(y=pl.Series(Y))
        return list(co.Federation.from_frames({"a": own}, "id", ("a", "y"), schemas=schemas).parties["a"].features)

    if expected is None:
        with pytest.raises(co.InvalidInput, match="2 values are missing"):
            features_of()
    else:
        assert features_of() == expected
