"""The whole model in scikit-learn's own parts says what the fit says, to the last digits; and so does its ONNX file."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as co
from colonnade.model.facts import Coefficients
from colonnade.problem.link import Link
from tests.helpers.lending import tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

COLUMNS = {
    "bank": (
        co.Numeric("age", 18, 90, smooth=3),
        co.Categorical("region", ("north", "south", "1.0"), missing="indicator"),
    ),
    "bureau": (
        co.Numeric("income", 0, 200_000, smooth=1, missing="indicator"),
        co.Numeric("loans", 0, 20, scale=False, missing=2.0),
        co.Binary("owner", missing="indicator"),
    ),
}
ROWS = 400


def federation(label: str = "default") -> co.Federation:
    frames = tables(ROWS)
    frames["bank"] = frames["bank"].with_columns(cost=pl.col("age") * 0.1)
    schemas = {party: co.Schema(columns) for party, columns in COLUMNS.items()}
    return co.Federation.from_frames(frames, on="id", label=("bank", label), schemas=schemas)


@pytest.fixture(scope="module")
def fit() -> co.Fit:
    problem = co.Problem(co.Logistic(), co.L1Ball(20.0), intercept=True)
    return co.fit(federation(), problem, co.DistributedFrankWolfe(rounds=60))


def rows(count: int = 300, seed: int = 7) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """New rows, by party and side by side."""
    frames = tables(count, seed)
    whole = frames["bank"].join(frames["bureau"], on="id", maintain_order="left")
    return frames, whole.select("age", "region", "income", "loans", "owner")


def test_the_pipeline_gives_the_scores_classes_and_probabilities_of_the_fit(fit):
    frames, whole = rows()
    model = fit.pipeline()
    scores = fit.scores(frames)
    as_pandas = pd.DataFrame({name: whole[name].to_list() for name in whole.columns})
    for table in (whole, as_pandas):
        np.testing.assert_allclose(model.decision_function(table), scores, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(table)[:, 1], fit.predict_proba(frames), rtol=1e-9)
        assert np.array_equal(model.predict(table), fit.predict(frames))


def test_a_link_of_its_own_gives_the_log_odds_of_its_straight_part(fit):
    bent = replace(fit, link=Link(1.3, -0.2, 0.4, 0.3, 0.1, 0.05, 0.9))
    frames, whole = rows()
    np.testing.assert_allclose(bent.pipeline().decision_function(whole), 1.3 * fit.scores(frames) - 0.2, rtol=1e-9)


def test_a_model_of_numbers_predicts_what_the_fit_predicts():
    fit = co.fit(federation("cost"), co.Problem(co.LeastSquares(), co.L1Ball(20.0), intercept=True))
    frames, whole = rows()
    np.testing.assert_allclose(fit.pipeline().predict(whole), fit.predict(frames), rtol=1e-9)


def test_a_model_of_counts_predicts_counts():
    problem = co.Problem(co.Poisson(), co.L1Ball(2.0), intercept=True)
    fit = co.fit(federation(), problem, co.DistributedFrankWolfe(rounds=5))
    frames, whole = rows()
    np.testing.assert_allclose(fit.pipeline().predict(whole), fit.predict(frames), rtol=1e-9)


@pytest.mark.parametrize("missing", ["indicator", "1"])
def test_levels_that_are_whole_numbers_may_come_as_texts_or_as_numbers(fit, missing):
    schema = co.Schema((co.Categorical("zone", (2, 1, -30, "moon"), missing=missing),))
    x = {"zone": np.array([3.0, -1.0, 0.5, 7.0, 2.0][: schema.width])}
    held = {"coefficients": Coefficients(x, []), "schemas": {"zone": schema}, "features": {"zone": schema.features}}
    numbers = replace(fit, on=None, **held)
    model = numbers.pipeline()
    for cells in (
        [1, 2, 9, -30],
        [1, 2, None],
        [1.0, 0.5, None, 2.0],
        ["1", "2", "moon", None, "sun"],
        ["1.0", "-30.0", "2.5"],
    ):
        table = pl.Series("zone", cells).to_frame()
        for given in (table, table.to_pandas(), pd.DataFrame({"zone": pd.array(cells)})):
            np.testing.assert_allclose(model.decision_function(given), numbers.scores(table), rtol=1e-9)


def test_a_gap_that_the_schema_refuses_is_refused(fit):
    _, whole = rows(5)
    with pytest.raises(ValueError, match="NaN"):
        fit.pipeline().predict(whole.with_columns(age=pl.lit(None, pl.Float64)))


def test_columns_without_a_standard_part_are_refused():
    frames = tables(60)
    fed = co.Federation.from_frames(frames, on="id", label=("bank", "default"))
    problem = co.Problem(co.Logistic(), co.L1Ball(2.0))
    with pytest.raises(co.InvalidInput, match="'since' is a date"):
        co.fit(fed, problem).pipeline()
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(co.InvalidInput, match=r"have no schema|without bounds"):
        co.fit(co.Federation.split(X, np.sign(X[:, 0]), parties=1), problem).pipeline()
    twice = {
        "bank": frames["bank"].drop("since"),
        "bureau": frames["bureau"].with_columns(age=pl.lit(1.0) * pl.arange(60)),
    }
    fed = co.Federation.from_frames(twice, on="id", label=("bank", "default"))
    with pytest.raises(co.InvalidInput, match="'age' is a column of two parties"):
        co.fit(fed, problem).pipeline()
    with pytest.raises(co.InvalidInput, match="no log-odds"):
        co.fit(federation(), co.Problem(co.SquaredHinge(), co.L1Ball(2.0))).pipeline()


def test_the_onnx_file_gives_the_same_classes_and_probabilities(fit, tmp_path):
    pytest.importorskip("skl2onnx", reason="the extra onnx is not installed: pip install 'colonnade[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skl2onnx's own calls
        path = fit.to_onnx(tmp_path / "model.onnx")
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    frames, whole = rows()
    inputs = {
        name: whole[name].cast(pl.Float32).to_numpy().reshape(-1, 1) for name in whole.columns if name != "region"
    }
    inputs["region"] = np.array(whole["region"].fill_null("").to_list(), dtype=object).reshape(-1, 1)
    classes, chances = session.run(None, inputs)
    wanted = fit.predict_proba(frames)
    np.testing.assert_allclose(chances[:, 1], wanted, atol=2e-5)  # 32-bit floats, 20 columns of effects below 10
    clear = np.abs(wanted - 0.5) > 1e-4
    assert np.array_equal(
        classes[clear] > 0, fit.predict(frames)[clear] == fit.classes[1]
    )  # -1 and 1, as an ONNX file has them
