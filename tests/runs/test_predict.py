"""Scores of new rows: in the order they were given, of every row, and the same whichever way they come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as co
from colonnade.privacy.events import Policy
from colonnade.problem.link import Link
from colonnade.runs.evaluation import evaluate_fit

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.Logistic(), co.L1Ball(5.0), intercept=True)


def tables(rows: int = 80) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(3)
    key = [f"P{i:04}" for i in rng.permutation(rows)]
    ward = rng.choice(["A", "B", "C"], rows)
    late = (ward == "A") ^ (rng.random(rows) < 0.2)
    ages = rng.uniform(20, 90, rows)
    clinic = pl.DataFrame({"pid": key, "age": ages, "ward": ward, "ill": late.astype(int)})
    return {"clinic": clinic, "lab": pl.DataFrame({"pid": key, "crp": rng.uniform(0, 9, rows)}).reverse()}


@pytest.fixture(scope="module")
def fit() -> co.Fit:
    return co.fit(co.Federation.from_frames(tables(), "pid", ("clinic", "ill")), PROBLEM)


def test_scores_come_in_the_order_of_the_first_frame(fit: co.Fit) -> None:
    frames = tables()
    one_by_one = [
        fit.scores({name: frame.filter(pl.col("pid") == pid) for name, frame in frames.items()})[0]
        for pid in frames["clinic"]["pid"].head(10)
    ]
    np.testing.assert_allclose(one_by_one, fit.scores(frames)[:10], rtol=1e-12)


def test_shuffling_the_first_frame_shuffles_the_scores(fit: co.Fit) -> None:
    frames = tables()
    order = np.random.default_rng(0).permutation(80)
    shuffled = {"clinic": frames["clinic"][order], "lab": frames["lab"]}
    np.testing.assert_array_equal(fit.scores(frames)[order], fit.scores(shuffled))


def test_pandas_frames_score_like_polars_frames(fit: co.Fit) -> None:
    frames = tables()
    np.testing.assert_array_equal(
        fit.scores(frames), fit.scores({name: pd.DataFrame(frame.to_dict()) for name, frame in frames.items()})
    )


def test_a_row_that_another_party_lacks_is_an_error_and_not_a_gap(fit: co.Fit) -> None:
    frames = tables()
    with pytest.raises(co.InvalidInput, match="3 of the 80 rows of 'clinic' are not at every party"):
        fit.scores({**frames, "lab": frames["lab"].head(77)})


def test_rows_only_another_party_has_are_of_no_interest(fit: co.Fit) -> None:
    frames = tables()
    few = {"clinic": frames["clinic"].head(5), "lab": frames["lab"]}
    np.testing.assert_array_equal(fit.scores(frames)[:5], fit.scores(few))


def test_a_federation_scores_in_the_order_of_its_keys(fit: co.Fit) -> None:
    federation = co.Federation.from_frames(tables(), "pid", ("clinic", "ill"))
    by_key = dict(zip(federation.keys.to_list(), fit.scores(federation), strict=True))
    frames = tables()
    np.testing.assert_array_equal([by_key[pid] for pid in frames["clinic"]["pid"]], fit.scores(frames))


def test_one_frame_of_a_split_is_scored_with_the_levels_of_the_fit() -> None:
    frame = tables()["clinic"].drop("pid")
    parties = {"ages": ["age"], "wards": ["ward"]}
    fit = co.fit(co.Federation.split(frame.drop("ill"), frame["ill"], parties), PROBLEM)
    everything = fit.scores(frame.drop("ill"))
    only_a = frame.filter(pl.col("ward") == "A").drop("ill")
    np.testing.assert_array_equal(everything[(frame["ward"] == "A").to_numpy()], fit.scores(only_a))


def test_new_rows_of_a_matrix_need_no_labels() -> None:
    X = np.random.default_rng(0).normal(size=(50, 6))
    fit = co.fit(co.Federation.split(X, np.sign(X[:, 0]), 2), PROBLEM)
    x = np.concatenate(list(fit.coefficients.values()))
    np.testing.assert_allclose(X[:7] @ x + fit.intercept, fit.scores(co.Federation.split(X[:7], None, 2)), rtol=1e-12)


@pytest.mark.chance(0, "words of the report that every private run has")
def test_the_report_of_a_private_fit_can_be_written(tmp_path: Path) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    federation = co.Federation.split(X, np.sign(X[:, 0]), {"clinic": slice(None)}, label="clinic")
    privacy = co.Privacy(1.0, 1e-6, feature_bound=1.0)
    problem = co.Problem(co.Logistic(), co.L1Ball(1.0))
    fit = co.fit(federation, problem, co.CentralFrankWolfe(rounds=3), privacy, store=tmp_path / "runs")
    text = fit.report(tmp_path / "r.html").read_text()
    assert "differential privacy" in text
    assert "How long it took is not kept: under privacy a duration would tell about the data" in text


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: Policy("no"), "true or false"),
        (lambda: co.Privacy("1", 1e-6), "must be a number"),
        (lambda: co.DistributedFrankWolfe(step=0.1), "co.LineSearch"),
        (lambda: co.DistributedFrankWolfe(step=co.LineSearch), "co.LineSearch"),
        (lambda: co.Federation.from_frames(tables(), "pid", ("clinic", "ill"), unit="patient"), r"\(column, rows\)"),
        (
            lambda: co.Federation.from_frames(tables(), "pid", ("clinic", "ill"), policies=co.Policy()),
            "party: co.Policy",
        ),
        (lambda: co.fit(co.Federation.split(np.eye(3), [0, 1, 1], 1), PROBLEM, store=5), "name a folder"),
        (lambda: co.fit(co.Federation.split(np.eye(3), [0, 1, 1], 1), PROBLEM, store=""), "name a folder"),
        (
            lambda: co.Schema.infer(pl.DataFrame({"mrn": [f"MRN-{i}" for i in range(300)]})),
            "looks like a name or a number of somebody",
        ),
        (lambda: co.Schema.infer(pl.DataFrame({"crp": [1.0, float("inf")]})), "1 infinite values"),
    ],
)
def test_bad_input_is_one_sentence_with_advice(call, advice: str) -> None:
    with pytest.raises(co.InvalidInput, match=advice):
        call()


def test_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    co.fit(
        co.Federation.split(np.eye(3), [0, 1, 1], 1), PROBLEM, co.DistributedFrankWolfe(rounds=2), store=tmp_path / "s"
    )
    for path in [tmp_path / "s", *(tmp_path / "s").rglob("*.db")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_party_that_is_left_out_is_named_in_every_prediction(fit: co.Fit) -> None:
    alone = {"clinic": tables()["clinic"]}
    with pytest.raises(co.InvalidInput, match=r"'lab' is missing.*without="):
        fit.predict(alone)
    scores = fit.scores(alone, without=["lab"])
    np.testing.assert_array_equal(fit.predict(alone, without=["lab"]) > 0.0, scores >= 0.0)
    np.testing.assert_allclose(fit.predict_proba(alone, without=["lab"]), 1.0 / (1.0 + np.exp(-scores)), rtol=1e-12)


def test_a_penalty_without_privacy_needs_no_method() -> None:
    made = co.fit(
        co.Federation.from_frames(tables(), "pid", ("clinic", "ill")), co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
    )
    assert made.method == co.SharingADMM.TITLE


@pytest.mark.chance(0, "classes and probabilities are of the same scores, whatever these are")
@pytest.mark.parametrize(("delta", "said"), [(0.02, True), (1e-6, False)])
def test_private_predictions_agree_with_their_probabilities_and_a_large_delta_is_stated(
    tmp_path: Path, delta: float, said: bool
) -> None:
    schemas = {
        "clinic": co.Schema((co.Numeric("age", 0, 120), co.Categorical("ward", ("A", "B", "C")))),
        "lab": co.Schema((co.Numeric("crp", 0, 10),)),
    }
    made = co.fit(
        co.Federation.from_frames(tables(), "pid", ("clinic", "ill"), schemas=schemas),
        co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True),
        privacy=co.Privacy(epsilon=1.0, delta=delta, trust="secure", allow_large_delta=said),
        store=tmp_path,
    )
    np.testing.assert_array_equal(made.predict(tables()) > 0.0, made.predict_proba(tables()) >= 0.5)
    assert ("not below 1/rows" in str(made.privacy)) is said


@pytest.mark.parametrize("link", [Link(1.0, 1.5), Link(2.0, -3.0), Link(1.0, 1.2, weight=0.6, level=0.9)])
def test_a_row_is_called_positive_exactly_where_its_probability_is_a_half_or_more(fit: co.Fit, link: Link) -> None:
    frames, linked = tables(), replace(fit, link=link)
    chances, scores = linked.predict_proba(frames), linked.scores(frames)
    np.testing.assert_array_equal(linked.predict(frames), (chances >= 0.5).astype(int))
    assert (linked.predict(frames) != (scores >= 0.0)).any()
    if link.weight == 1.0:
        np.testing.assert_allclose(chances, 1 / (1 + np.exp(-(link.slope * scores + link.offset))), rtol=1e-12)


@pytest.mark.parametrize("link", [Link(2.0, -3.0), Link(1.0, 1.2, 0.6, 0.3, 0.1, 0.05, 0.9)])
def test_scores_probabilities_classes_and_the_report_follow_one_link(fit: co.Fit, link: Link) -> None:
    frames, linked = tables(), replace(fit, link=link)
    scores, ill = linked.scores(frames), frames["clinic"]["ill"].to_numpy()
    chances = link(scores)
    np.testing.assert_array_equal(linked.predict_proba(frames), chances)
    np.testing.assert_array_equal(linked.predict(frames) > 0, chances >= 0.5)
    told = evaluate_fit(linked, (frames, ill), "public")
    assert told.figures["Brier score"][0] == pytest.approx(np.mean((chances - ill) ** 2))
    assert told.figures["accuracy"][0] == pytest.approx(np.mean((chances >= 0.5) == ill))
    shares = np.concatenate([[group[0]] * group[2] for group in told.groups])
    assert shares.mean() == pytest.approx(chances.mean())
