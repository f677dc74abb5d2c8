"""An exact Gram matrix among parties who may show exact values: least squares with its classical errors."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import colonnade as co

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 600
METHOD = co.PrivateGram(purpose="inference")
NUMBERS = co.Problem(co.LeastSquares(), intercept=True)


def tables(rows=ROWS, seed=1, grid=2.0**-12, shift=0.0):
    """Three parties; numbers lie on a grid of their range, 0: anywhere."""
    rng = np.random.default_rng(seed)

    def number(values):
        values = np.clip(values, -4.0, 4.0)
        return np.rint(values / grid) * grid if grid else values

    x = [number(rng.normal(size=rows)) for _ in range(3)]
    level, flag = rng.choice(["a", "b", "c"], rows), rng.integers(0, 2, rows)
    y = number(0.5 * x[0] - 0.2 * x[1] + 0.3 * flag + 0.4 * (level == "c") + rng.normal(size=rows)) + shift
    key = {"id": np.arange(rows)}
    return {
        "a": pl.DataFrame({**key, "x0": x[0], "flag": flag}),
        "b": pl.DataFrame({**key, "x1": x[1], "level": level}),
        "c": pl.DataFrame({**key, "x2": x[2], "y": y}),
    }


SCHEMAS = {
    "a": co.Schema((co.Numeric("x0", -4, 4), co.Binary("flag"))),
    "b": co.Schema((co.Numeric("x1", -4, 4), co.Categorical("level", ("a", "b", "c")))),
    "c": co.Schema((co.Numeric("x2", -4, 4),)),
}


def fitted(store, frames, problem=NUMBERS, policies=None, schemas=SCHEMAS):
    fed = co.Federation.from_frames(frames, on="id", label=("c", "y"), schemas=schemas, policies=policies)
    return co.fit(fed, problem, METHOD, store=store)


def least_squares(frames, classes=False):
    """With the level that the fit compares with left out."""
    a, b, c = (frames[name] for name in "abc")
    levels = [(b["level"] == one).to_numpy() for one in "abc"]
    most = max(range(3), key=lambda k: levels[k].sum())
    rest = [one for k, one in enumerate(levels) if k != most]
    X = np.column_stack([a["x0"], a["flag"], b["x1"], *rest, c["x2"], np.ones(len(a))]).astype(float)
    y = c["y"].to_numpy()
    return sm.OLS((y > 0).astype(float) if classes else y, X).fit()


@pytest.mark.parametrize("shift", [0.0, 64.0])
def test_errors_intervals_and_tests_are_the_classical_ones(shift, tmp_path):
    """Numbers on a grid that steps hold: nothing is rounded on the way."""
    frames = tables(shift=shift)
    theirs, fit = least_squares(frames), fitted(tmp_path, frames)
    ours = fit.inference(adjust=None)
    assert list(ours.coefficients.values()) == pytest.approx(theirs.params, rel=1e-8, abs=1e-10)
    assert list(ours.errors.values()) == pytest.approx(theirs.bse, rel=1e-8)
    assert np.array(list(ours.intervals.values())) == pytest.approx(theirs.conf_int(), rel=1e-8, abs=1e-9)
    assert list(ours.pvalues.values()) == pytest.approx(theirs.pvalues, rel=1e-6, abs=1e-12)
    assert ours.r_squared.estimate == pytest.approx(theirs.rsquared, rel=1e-8)
    assert ours.overall.statistic / ours.overall.df == pytest.approx(theirs.fvalue, rel=1e-8)
    assert list(ours.sampling_share.values()) == pytest.approx([1.0] * 7)
    encoded = fit.inference(units="encoded", references={"level": ours.references["b:level"]}).coefficients
    assert encoded["a:x0"] == pytest.approx(4 * ours.coefficients["a:x0"])


def test_of_any_numbers_rounding_is_a_millionth_of_a_standard_error(tmp_path):
    frames = tables(grid=0.0, seed=3)
    theirs = least_squares(frames)
    ours = fitted(tmp_path, frames).inference(adjust=None)
    away = (np.array(list(ours.coefficients.values())) - theirs.params) / theirs.bse
    assert np.abs(away).max() < 1e-6
    assert list(ours.errors.values()) == pytest.approx(theirs.bse, rel=1e-6)


def test_classes_are_those_of_the_linear_probability_model(tmp_path):
    frames = tables(seed=5)
    frames["c"] = frames["c"].with_columns(y=pl.when(pl.col("y") > 0).then(1).otherwise(-1))
    theirs = least_squares(frames, classes=True)
    ours = fitted(tmp_path, frames, co.Problem(co.Logistic(), intercept=True)).inference(adjust=None)
    assert list(ours.coefficients.values()) == pytest.approx(theirs.params, rel=1e-8, abs=1e-10)
    assert list(ours.errors.values()) == pytest.approx(theirs.bse, rel=1e-8)


def test_a_column_that_two_parties_hold_is_one_in_their_product(tmp_path):
    """As large as a product can be: it must not fall out of its ring."""
    frames = tables(seed=6)
    frames["b"] = frames["b"].with_columns(x1=frames["a"]["x0"])
    release = fitted(tmp_path, frames).release
    at = [release.names.index(name) for name in ("a:x0", "b:x1")]
    block = release.matrix[np.ix_(at, at)]
    assert (block == block[0, 0]).all()
    assert block[0, 0] == pytest.approx(np.sum(np.square(frames["a"]["x0"].to_numpy() / 4)), rel=1e-12)
    with pytest.raises(co.InvalidInput, match="depend on each other exactly"):
        release.regress().summary()


def test_labels_of_nothing_but_zeros_are_fitted(tmp_path):
    frames = tables()
    frames["c"] = frames["c"].with_columns(y=pl.lit(0.0))
    assert fitted(tmp_path, frames).release.matrix[-1, -1] == 0.0


def test_the_page_says_that_it_is_exact_and_not_private(tmp_path):
    fit = fitted(tmp_path, tables())
    text = " ".join(fit.inference().summary().split())
    assert "from an exact release" in text
    assert "no bound on ε" in text
    assert "all slopes zero: F(6, 593)" in text
    assert "capped to" not in text
    assert fit.privacy.sentence.startswith("Not private")
    assert "the exact Gram matrix" in fit.privacy.sentence
    fit.save(tmp_path / "fit.json")
    assert co.load(tmp_path / "fit.json").inference().summary() == fit.inference().summary()


def test_a_party_that_shows_no_exact_values_refuses(tmp_path):
    policies = {name: co.Policy(exact=name != "b") for name in "abc"}
    with pytest.raises(co.PolicyRefused, match="'b'"):
        fitted(tmp_path, tables(), policies=policies)


def test_without_privacy_nothing_else_is_solved(tmp_path):
    fed = co.Federation.from_frames(tables(), on="id", label=("c", "y"), schemas=SCHEMAS)
    with pytest.raises(co.InvalidInput, match=r"Without privacy only purpose='inference'"):
        co.fit(fed, NUMBERS, co.PrivateGram(), store=tmp_path)
    plain = co.Federation.split(np.eye(8), np.arange(8.0), parties=2)
    with pytest.raises(co.InvalidInput, match="declare its schema"):
        co.fit(plain, NUMBERS, METHOD, store=tmp_path)
