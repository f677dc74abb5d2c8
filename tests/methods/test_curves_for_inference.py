"""Claims about intervals from releases with curves: rows are rounded, not cut, and every column keeps its unit."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import colonnade as co
from colonnade.errors import InvalidInput
from colonnade.kernels import curves
from colonnade.model.job import Job, rounding_room
from tests.helpers.gram_runs import silent_run

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROBLEM = co.Problem(co.LeastSquares(), intercept=True)


def tables(rows=120_000):
    rng, key = np.random.default_rng(5), np.arange(rows)
    age, dose, z = rng.uniform(20, 80, rows), rng.uniform(0, 1, rows), rng.uniform(-1, 1, rows)
    t = (age - 50) / 30
    cost = 5 + 0.5 * t - 0.4 * np.maximum(0, 1 - np.abs(t)) + 0.6 * dose + 0.2 * z + 0.02 * rng.normal(size=rows)
    age[rng.random(rows) < 0.1] = np.nan
    return {
        "a": pl.DataFrame({"key": key, "age": age, "dose": dose}),
        "b": pl.DataFrame({"key": key, "z": z, "cost": np.clip(cost, 3, 7)}),
    }


def schemas(depth):
    age = co.Numeric("age", 20, 80, missing="indicator", smooth=depth)
    return {
        "a": co.Schema((age, co.Numeric("dose", 0, 1, smooth=False))),
        "b": co.Schema((co.Numeric("z", -1, 1, smooth=False),), label=co.Numeric("cost", 3, 7)),
    }


def federation(depth, frames=None):
    return co.Federation.from_frames(frames or tables(), "key", ("b", "cost"), schemas=schemas(depth))


def encoded(depth, frames):
    parts = [schema.encode(frames[name]).matrix for name, schema in schemas(depth).items()]
    return np.column_stack([part.toarray() if hasattr(part, "toarray") else part for part in parts])


def without_noise(depth, purpose, monkeypatch):
    """The release of a run without noise, beside the sds that it states."""
    privacy = co.Privacy(16.0, 1e-6, trust="secure", label_range=(3, 7))
    seen = silent_run(
        federation(depth), co.PrivateGram(purpose=purpose), privacy, monkeypatch, loss=co.LeastSquares(), intercept=True
    )
    return seen.fit.release


@pytest.mark.parametrize("depth", [1, 3])
def test_a_release_for_inference_moves_no_slope_by_rounding_as_far_as_its_error(depth, monkeypatch):
    """Cut toward zero, columns are shorter than they were and slopes larger, here by up to three standard errors."""
    A, y = encoded(depth, tables()), tables()["b"]["cost"].to_numpy()
    truth = np.linalg.lstsq(np.column_stack([A, np.ones(len(y))]), y - 5.0, rcond=None)[0]
    off = {}
    for purpose in ("inference", "prediction"):
        release = without_noise(depth, purpose, monkeypatch)
        assert (release.rule, release.proven) == ("raw", True)
        found = np.linalg.solve(release.matrix[:-1, :-1], release.matrix[:-1, -1])
        stated = list(dataclasses.replace(release, cut=False).regress(drop=None, units="encoded").errors.values())
        off[purpose] = np.abs((found - truth) / np.array(list(stated))).max()
    assert off["inference"] < 0.1
    assert off["prediction"] > 1.5


def test_no_intervals_come_from_curves_that_were_cut(monkeypatch):
    release = without_noise(2, "prediction", monkeypatch)
    with pytest.raises(InvalidInput, match=r"cut toward zero.*purpose='inference'"):
        release.regress()
    assert without_noise(2, "inference", monkeypatch).refusal is None
    assert without_noise(False, "prediction", monkeypatch).refusal is None  # lines were rounded all along


@pytest.mark.parametrize("depth", range(1, curves.DEEPEST + 1))
def test_there_is_room_for_rounding_a_curve_whatever_its_depth_and_the_step(depth):
    job = Job(PROBLEM, federation(depth, tables(60)).roster(), co.Privacy(8.0, 1e-6, label_range=(3, 7)))
    for steps in (1, 2, 32, 128, 2048):
        t = np.concatenate([curves.knots(depth), np.linspace(-1, 1, 16 * steps + 1)])
        block = np.rint(np.column_stack([t, curves.hats(t, depth)]) * steps)
        assert np.square(block).sum(axis=1).max() <= steps**2 + rounding_room(job, "a", 1 / steps)
    assert rounding_room(job, "b", 1 / 128) == 0  # lines need none


def noise_free(frames, depth, release):
    rows = np.column_stack([encoded(depth, frames), np.ones(frames["a"].height), frames["b"]["cost"].to_numpy() - 5.0])
    return dataclasses.replace(release, matrix=rows.T @ rows, noise=np.zeros((rows.shape[1],) * 2), rows=len(rows))


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    method, terms = co.PrivateGram(purpose="inference"), co.Privacy(50.0, 1e-6)
    return co.fit(federation(2, tables(3000)), PROBLEM, method, terms, store=tmp_path_factory.mktemp("store")).release


def in_years(frames):
    """The declared column `age` with its hats and its indicator; where it is missing, it counts as the middle."""
    age, gaps = frames["a"]["age"].to_numpy(), np.isnan(frames["a"]["age"].to_numpy())
    hats = encoded(2, frames)[:, 1:4]
    return np.column_stack([np.where(gaps, 50.0, age), hats, gaps])


@pytest.mark.chance(0, "of the release only public figures are left: its matrix and noise are replaced")
def test_a_curve_is_explained_and_explains_in_the_unit_of_its_number(release):
    frames = tables(3000)
    ours, ones = noise_free(frames, 2, release), np.ones((3000, 1))
    dose, cost = frames["a"]["dose"].to_numpy(), frames["b"]["cost"].to_numpy()
    theirs = sm.OLS(in_years(frames)[:, 0], np.column_stack([dose, cost, ones])).fit()  # in years
    assert list(ours.regress("age", ["dose", "cost"]).coefficients.values()) == pytest.approx(theirs.params, rel=1e-7)
    theirs = sm.OLS(cost, np.column_stack([in_years(frames), dose, ones])).fit()
    assert list(
        ours.regress(on=[*(f"age{x}" for x in ("", "~1", "~2", "~3", "=missing")), "dose"]).coefficients.values()
    ) == pytest.approx(theirs.params, rel=1e-7)


@pytest.mark.chance(0, "of the release only public figures are left: its noise is replaced")
def test_the_units_of_a_label_do_not_hide_that_noise_is_under_a_step(release):
    noise = np.full(release.noise.shape, release.step**2)
    noise[-1] = noise[:, -1] = 1e9  # a label in cents
    assert "squared steps" in dataclasses.replace(release, noise=noise).refusal


@pytest.mark.chance(1e-20, "ends are 0.888 with sd 0.004 over 0.5, centres a twelfth of a band off: over 80 sds")
def test_curves_of_a_fit_for_inference_have_bands_around_the_effects(tmp_path):
    """Those of the model of all columns, at the curve's own knots, in the label's unit; others have none."""
    fed, privacy = federation(2), co.Privacy(4.0, 1e-6, trust="secure", label_range=(3, 7))
    fit = co.fit(fed, PROBLEM, co.PrivateGram(purpose="inference"), privacy, store=tmp_path)
    found = fit.curves(level=0.99)
    for name, party in (("age", "a"), ("dose", "a"), ("z", "b")):
        curve, band = found[name], fit.inference(level=0.99).curve(f"{party}:{name}")
        assert curve.grid == pytest.approx(band["value"].to_numpy())
        assert curve.low == pytest.approx(band["low"].to_numpy())
        assert curve.high == pytest.approx(band["high"].to_numpy())
        assert np.abs(curve.effect - band["effect"].to_numpy()).max() < (curve.high - curve.low).max()
    assert found["age"].low[-1] > 0.5  # 0.9 above the middle in truth: half a unit of t, and the valley's depth
    table = found.table()
    assert table.columns == ["party", "column", "value", "effect", "low", "high"]
    assert table["low"].null_count() == 0
    guessed = co.fit(fed, PROBLEM, co.PrivateGram(), privacy, store=tmp_path)
    assert guessed.curves()["age"].low is None  # cut toward zero: no interval would hold
    assert guessed.curves().table()["low"].null_count() == guessed.curves().table().height


@pytest.mark.chance(1e-20, "0.0018 by the steps of shares over 0.33, 80 sds away; effects have 50 sds of room")
def test_bands_of_classes_are_those_of_the_probability_model_on_the_scale_of_scores(tmp_path):
    """Where a probability differs by 1, scores of the quadratic model at the share π differ by 1/(π(1 − π))."""
    frames, one = tables(3000), schemas(2)
    frames["b"] = frames["b"].with_columns(pl.col("cost") > 5.2)
    declared = {"a": one["a"], "b": co.Schema(one["b"].columns)}
    fed = co.Federation.from_frames(frames, "key", ("b", "cost"), schemas=declared)
    method, problem = co.PrivateGram(purpose="inference"), co.Problem(co.Logistic(), intercept=True)
    fit = co.fit(fed, problem, method, co.Privacy(50.0, 1e-6), store=tmp_path)
    share = (1.0 + fit.release.matrix[-2, -1] / fit.release.rows) / 2.0
    for name, party in (("age", "a"), ("z", "b")):
        curve, band = fit.curves()[name], fit.inference().curve(f"{party}:{name}")
        for end in ("low", "high"):
            assert getattr(curve, end) == pytest.approx(
                band[end].to_numpy() / (share * (1.0 - share)), rel=2e-3
            )  # of the noisy share, as solved
        assert (curve.low - 1e-9 <= curve.effect).all()  # of nearly the same model, in the middle of its band
        assert (curve.effect <= curve.high + 1e-9).all()
