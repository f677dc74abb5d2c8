"""A model answers in the labels' own values, whatever they are, however its rows come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.Logistic(), penalty=co.Ridge(1e-2), intercept=True)
SCHEMAS = {
    "clinic": co.Schema((co.Numeric("age", 0, 100), co.Categorical("ward", ("A", "B")))),
    "lab": co.Schema((co.Numeric("crp", 0, 10),)),
}
PRIVACY = co.Privacy(epsilon=8.0, delta=1e-6)


def tables(names: tuple[Any, Any], rows: int = 400) -> dict[str, pl.DataFrame]:
    """Two tables in different orders; the first of the names is for label 0."""
    rng = np.random.default_rng(5)
    key = [f"{i:04}" for i in rng.permutation(rows)]  # a key whose zeros must stay
    age, crp = rng.uniform(18, 95, rows), rng.uniform(0, 9, rows)
    back = (age / 95 + crp / 9 + rng.normal(0, 0.3, rows) > 1.1).astype(int)
    labels = [names[k] for k in back]
    clinic = pl.DataFrame({"pid": key, "age": age, "ward": rng.choice(["A", "B"], rows), "back": labels})
    return {"clinic": clinic, "lab": pl.DataFrame({"pid": key, "crp": crp}).reverse()}


def federation(names: tuple[Any, Any], **options: Any) -> co.Federation:
    return co.Federation.from_frames(tables(names), "pid", ("clinic", "back"), schemas=SCHEMAS, **options)


CLASSES = [("no", "yes"), (False, True), (0, 1), (-1, 1), (0.0, 1.0)]


@pytest.mark.parametrize("names", CLASSES, ids=str)
def test_predictions_are_values_that_the_labels_have(names: tuple[Any, Any], tmp_path: Path) -> None:
    fed, frames = federation(names), tables(names)
    fit = co.fit(fed, PROBLEM)
    assert fit.classes == names
    assert [type(name) for name in fit.classes] == [type(name) for name in names]
    found = fit.predict(frames)
    np.testing.assert_array_equal(found == names[1], fit.predict_proba(frames) >= 0.5)
    assert (found == frames["clinic"]["back"].to_numpy()).mean() > 0.8  # compared as they are
    assert (fit.predict(fed) == fed.labels).mean() > 0.8
    fit.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json")
    assert again.classes == names
    np.testing.assert_array_equal(again.predict(frames), found)


@pytest.mark.parametrize("names", CLASSES, ids=str)
def test_names_change_nothing_of_the_model(names: tuple[Any, Any]) -> None:
    plain, named = co.fit(federation((0, 1)), PROBLEM), co.fit(federation(names), PROBLEM)
    assert plain.intercept == named.intercept
    for party, x in plain.coefficients.items():
        np.testing.assert_array_equal(x, named.coefficients[party])


@pytest.mark.chance(1e-10, "both are predicted: largest and least log-odds 21 sds from even over 140 runs")
@pytest.mark.parametrize("names", CLASSES, ids=str)
def test_a_private_fit_answers_in_the_names_that_were_declared(names: tuple[Any, Any], tmp_path: Path) -> None:
    fit = co.fit(federation(names, classes=names), PROBLEM, privacy=PRIVACY, store=tmp_path)
    assert fit.classes == names
    assert set(fit.predict(tables(names)).tolist()) == set(names)


@pytest.mark.chance(1e-10, "both are predicted: largest and least log-odds 21 sds from even over 140 runs")
def test_a_private_fit_reads_no_names_off_the_labels(tmp_path: Path) -> None:
    with pytest.raises(co.InvalidInput, match=r"texts, and a private run does not look .* classes=\('no', 'yes'\)"):
        co.fit(federation(("no", "yes")), PROBLEM, privacy=PRIVACY, store=tmp_path / "texts")
    numbers = co.fit(federation((0, 1)), PROBLEM, privacy=PRIVACY, store=tmp_path / "numbers")
    assert numbers.classes is None
    assert set(numbers.predict(tables((0, 1))).tolist()) == {-1.0, 1.0}
    one = co.Federation.split(np.eye(4), [True] * 4, 2)
    with pytest.warns(co.NothingToLearn):  # a warning to the caller, who holds the table, and no refusal
        kept = co.fit(
            one,
            PROBLEM,
            privacy=co.Privacy(1.0, 1e-6, row_norm=1.0, feature_bound=1.0),
            store=tmp_path / "one",
        )
    assert kept.classes == (False, True)  # the type of a column is public


def test_the_class_that_is_learnt_may_be_either() -> None:
    one = co.fit(federation(("no", "yes")), PROBLEM)  # the last in the order of texts
    other = co.fit(federation(("no", "yes"), classes=("yes", "no")), PROBLEM)
    assert (one.classes, other.classes) == (("no", "yes"), ("yes", "no"))
    frames = tables(("no", "yes"))
    np.testing.assert_array_equal(one.predict(frames), other.predict(frames))
    np.testing.assert_allclose(one.predict_proba(frames), 1.0 - other.predict_proba(frames), atol=1e-3)


def test_one_table_split_by_columns_has_names_too() -> None:
    frames = tables(("no", "yes"))
    whole = frames["clinic"].join(frames["lab"], on="pid").drop("pid")
    X, y = whole.drop("back"), whole["back"].to_numpy()
    for options in ({}, {"classes": ("no", "yes")}):
        fit = co.fit(co.Federation.split(X, y, {"clinic": ["age", "ward"], "lab": ["crp"]}, **options), PROBLEM)
        assert set(fit.predict(X).tolist()) == {"no", "yes"}
        np.testing.assert_array_equal(fit.predict(X), fit.predict(X.to_pandas()))


def test_a_pipeline_answers_as_the_fit_does() -> None:
    fit, frames = (
        co.fit(federation(("stays", "leaves"), classes=("stays", "leaves")), PROBLEM),
        tables(("stays", "leaves")),
    )
    whole = frames["clinic"].join(frames["lab"], on="pid", maintain_order="left").drop("pid", "back")
    np.testing.assert_array_equal(fit.pipeline().predict(whole), fit.predict(frames))


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (["a", "b", "c", "a"], "3 different texts, and two classes are learnt"),
        (["a", "a", "a", "a"], "1 different texts.*check the label column"),
        (["a", None, "b", "a"], "1 of 4 labels are missing"),
    ],
)
def test_labels_that_are_not_two_classes_are_refused_with_counts(labels: list[Any], advice: str) -> None:
    with pytest.raises(co.InvalidInput, match=advice):
        co.fit(co.Federation.split(np.eye(4), np.array(labels, dtype=object), 2), PROBLEM)


@pytest.mark.parametrize("classes", ["no", ("no",), ("no", "no"), (1, 1.0), (True, "true"), ("no", None), 3])
def test_classes_are_two_different_names(classes: Any) -> None:
    with pytest.raises(co.InvalidInput, match="the class that is learnt last"):
        federation(("no", "yes"), classes=classes)


# ------------------------------------------------------------------------------------------------ rows, however they come


@pytest.fixture(scope="module")
def fit() -> co.Fit:
    return co.fit(federation(("no", "yes")), PROBLEM)


def ways(folder: Path) -> dict[str, Any]:
    """The same rows: frames, files of every kind, one table."""
    frames = tables(("no", "yes"))
    for name, frame in frames.items():
        frame.write_csv(folder / f"{name}.csv")
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_ipc(folder / f"{name}.arrow")
    whole = frames["clinic"].join(frames["lab"], on="pid", maintain_order="left")
    whole.write_csv(folder / "whole.csv")
    suffixes = {"csv": ".csv", "parquet": ".parquet", "arrow": ".arrow"}
    paths = {kind: {n: folder / f"{n}{suffix}" for n in frames} for kind, suffix in suffixes.items()}
    texts = {name: str(folder / f"{name}.csv") for name in frames}
    mixed = {"clinic": frames["clinic"], "lab": folder / "lab.csv"}
    pandas = {name: pd.DataFrame(frame.to_dict(as_series=False)) for name, frame in frames.items()}
    one = {"one frame": whole, "one file": folder / "whole.csv"}
    return {"frames": frames, "pandas": pandas, **paths, "texts": texts, "mixed": mixed, **one}


def test_paths_stand_for_frames_and_rows_are_matched_by_key(fit: co.Fit, tmp_path: Path) -> None:
    given = ways(tmp_path)
    for ask in (fit.scores, fit.predict_proba, fit.predict):
        wanted = ask(given["frames"])
        for way, data in given.items():
            np.testing.assert_array_equal(ask(data), wanted, err_msg=way)
    fit.save(tmp_path / "fit.json")
    np.testing.assert_array_equal(co.load(tmp_path / "fit.json").predict(given["csv"]), fit.predict(given["frames"]))


def test_a_file_without_the_models_columns_is_refused_by_name(fit: co.Fit, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        co.InvalidInput, match=r"other.csv has no column of the model's clinic. Its first columns are a, b"
    ):
        fit.predict({"clinic": tmp_path / "other.csv", "lab": tmp_path / "other.csv"})
    with pytest.raises(co.InvalidInput, match=r"none\.csv"):
        fit.predict({"clinic": tmp_path / "none.csv", "lab": tmp_path / "none.csv"})


def test_figures_of_quality_take_labels_in_their_own_words(fit: co.Fit) -> None:
    from colonnade.runs.evaluation import evaluate_fit

    frames = tables(("no", "yes"))
    labels = frames["clinic"]["back"].to_numpy()
    found = evaluate_fit(fit, (frames, labels), "public")
    assert found.figures["accuracy"][0] == (fit.predict(frames) == labels).mean()
    signs = evaluate_fit(fit, (frames, np.where(labels == "yes", 1, -1)), "public")
    assert signs.figures == found.figures
    with pytest.raises(co.InvalidInput, match="2 of 400 labels of evaluation= are neither 'no' nor 'yes'"):
        evaluate_fit(fit, (frames, ["maybe", "?", *labels[2:]]), "public")


def test_estimators_over_a_federation_answer_in_its_words() -> None:
    fed = federation(("no", "yes"), classes=("no", "yes"))
    model = co.FederatedClassifier().fit(fed)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(fed) > 0.8
