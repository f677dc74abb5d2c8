"""A release: any linear model from what is already paid for, in the data's own units, with all that must be said."""

from __future__ import annotations

import base64
import dataclasses
import json
import re

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

import colonnade as co
from colonnade.model.job import Solving, Sums
from colonnade.runs.release import _some
from colonnade.runs.release_file import from_plain, to_plain

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS = 4000
NUMBERS = co.Problem(co.LeastSquares(), intercept=True)
SCHEMAS = {
    "clinic": co.Schema(
        (co.Numeric("age", 20, 80), co.Binary("smoker"), co.Categorical("region", ("north", "south", "east")))
    ),
    "lab": co.Schema((co.Numeric("bp", 60, 180), co.Numeric("ldl", 1, 7)), label=co.Numeric("cost", 0, 8)),
}


def tables(rows: int = ROWS, seed: int = 1) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    age, smoker = rng.uniform(20, 80, rows), rng.integers(0, 2, rows)
    region = rng.choice(["north", "south", "east"], rows, p=[0.2, 0.5, 0.3])
    bp, ldl = np.clip(80 + 0.6 * age + 12 * rng.normal(size=rows), 60, 180), rng.uniform(1, 7, rows)
    cost = 0.03 * age + 0.6 * smoker + 0.3 * (region == "east") + 0.2 * ldl + 0.8 * rng.normal(size=rows)
    key = np.arange(rows)
    return {
        "clinic": pl.DataFrame({"id": key, "age": age, "smoker": smoker, "region": region}),
        "lab": pl.DataFrame({"id": key, "bp": bp, "ldl": ldl, "cost": np.clip(cost, 0, 8)}),
    }


def federation(frames=None, label=("lab", "cost"), schemas=None) -> co.Federation:
    return co.Federation.from_frames(frames or tables(), on="id", label=label, schemas=schemas or SCHEMAS)


def run(store, fed=None, problem=NUMBERS, method=None, privacy=None, **options):
    method = method or co.PrivateGram(purpose="inference")
    privacy = privacy or co.Privacy(epsilon=4.0, delta=1e-6)
    return co.fit(fed or federation(), problem, method, privacy, store=store, **options)


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    """Under the same noise every time: at this budget some rare other one would hide a column."""
    return run(tmp_path_factory.mktemp("store"), noise=co.SeededNoise(1))


def design(frames, *names):
    """Columns of the tables in their own units, levels as zeros and ones, and a constant."""
    joined = frames["clinic"].join(frames["lab"], on="id")
    columns = []
    for name in names:
        base, _, level = name.partition("=")
        columns.append((joined[base] == level).to_numpy() if level else joined[base].to_numpy())
    return np.column_stack([*columns, np.ones(len(joined))]).astype(float), joined


def told(found) -> str:
    """The summary in one line: words may stand on either side of a break."""
    return " ".join(found.summary().split())


def noise_free(fit, frames=None):
    """The same release without its noise: what the tables themselves say, encoded by their schemas."""
    frames = frames or tables()
    encoded = [
        np.asarray(getattr(m, "toarray", lambda m=m: m)())
        for m in (SCHEMAS[p].encode(frames[p]).matrix for p in SCHEMAS)
    ]
    y = frames["lab"]["cost"].to_numpy() - 4.0
    rows = np.column_stack([*encoded, np.ones(len(y)), y])
    return dataclasses.replace(fit.release, matrix=rows.T @ rows, noise=np.zeros((rows.shape[1],) * 2), rows=len(y))


# ------------------------------------------------------------------------------------------------ against least squares


def test_without_noise_every_figure_is_that_of_least_squares_in_the_datas_units(fit):
    names = ["age", "smoker", "region=north", "region=east", "bp", "ldl"]
    X, joined = design(tables(), *names)
    theirs = sm.OLS(joined["cost"].to_numpy(), X).fit()
    ours = noise_free(fit).regress(adjust=None)
    assert [name.partition(":")[2] for name in ours.names] == names
    assert ours.references == {"clinic:region": "clinic:region=south"}  # the most frequent
    assert list(ours.coefficients.values()) == pytest.approx(theirs.params, rel=1e-8)
    assert np.array(list(ours.intervals.values())) == pytest.approx(theirs.conf_int(), rel=1e-7)
    assert list(ours.pvalues.values()) == pytest.approx(theirs.pvalues, rel=1e-6, abs=1e-300)
    assert ours.r_squared.estimate == pytest.approx(theirs.rsquared, rel=1e-8)
    assert ours.overall.statistic / 6 == pytest.approx(theirs.fvalue, rel=1e-8)


def test_any_column_is_explained_by_any_others_at_no_price(fit):
    X, joined = design(tables(), "age", "smoker")
    theirs = sm.OLS(joined["bp"].to_numpy(), X).fit()
    ours = noise_free(fit).regress("bp", ["age", "clinic:smoker"])
    assert list(ours.coefficients.values()) == pytest.approx(theirs.params, rel=1e-8)
    lpm = noise_free(fit).regress("region=east", ["lab:ldl", "cost"])  # a level, explained by the label too
    X, joined = design(tables(), "ldl", "cost")
    assert list(lpm.coefficients.values()) == pytest.approx(
        sm.OLS((joined["region"] == "east").to_numpy().astype(float), X).fit().params, rel=1e-8
    )


def test_tests_contrasts_and_combinations_speak_the_datas_units(fit):
    X, joined = design(tables(), "age", "smoker", "region=north", "region=east", "bp", "ldl")
    theirs = sm.OLS(joined["cost"].to_numpy(), X).fit()
    ours = noise_free(fit).regress()
    levels = theirs.f_test(np.eye(7)[[2, 3]])
    assert ours.test(["region"]).pvalue == pytest.approx(float(levels.pvalue), rel=1e-6)
    same = theirs.f_test(([1.0, 0, 0, 0, -1.0, 0, 0], 0.01))
    assert ours.contrast({"age": 1, "bp": -1}, 0.01).pvalue == pytest.approx(float(same.pvalue), rel=1e-6)
    at = theirs.t_test([50.0, 1, 0, 0, 120.0, 3.0, 1.0])
    estimate, low, high = ours.combination({"age": 50, "smoker": 1, "bp": 120, "ldl": 3, "(constant)": 1})
    assert (estimate, low, high) == pytest.approx((float(at.effect[0]), *at.conf_int()[0]), rel=1e-7)
    truth = dict(zip(ours.names, theirs.params, strict=False))
    assert ours.anderson_rubin(truth, float(theirs.params[-1])).statistic == pytest.approx(0.0, abs=1e-6)
    assert ours.anderson_rubin(truth).pvalue == pytest.approx(1.0)


def test_encoded_units_are_those_of_the_fits_coefficients(fit):
    released = noise_free(fit)
    data, encoded = released.regress(), released.regress(units="encoded")
    assert encoded.coefficients["clinic:age"] == pytest.approx(30 * data.coefficients["clinic:age"])
    assert encoded.errors["clinic:age"] == pytest.approx(30 * data.errors["clinic:age"])
    assert encoded.coefficients["clinic:smoker"] == pytest.approx(data.coefficients["clinic:smoker"])


# ------------------------------------------------------------------------------------------------ with noise


def test_a_run_for_inference_covers_what_least_squares_finds(fit):
    """Six slopes at ε = 4: of 10^5 seeds one would miss, by intervals that hold for all at once."""
    X, joined = design(tables(), "age", "smoker", "region=north", "region=east", "bp", "ldl")
    truth = np.linalg.lstsq(X, joined["cost"].to_numpy(), rcond=None)[0]
    found = fit.inference(level=1 - 1e-5, simultaneous=True, references={"region": "region=south"})
    assert (found.state, len(found.names)) == ("determined", 6)
    for (low, high), value in zip(found.intervals.values(), truth, strict=True):
        assert low <= value <= high
    assert 0.0 < found.xi < 0.2
    assert all(0.0 < share < 1.0 for share in found.sampling_share.values())


def louder(fit, factor, seed=0):
    """The release as a smaller budget would make it, with noise that is the same in every run of the test."""
    exact, noise = noise_free(fit), factor * fit.release.noise
    upper = np.triu(np.random.default_rng(seed).normal(size=noise.shape) * noise)
    return dataclasses.replace(exact, matrix=exact.matrix + upper + np.triu(upper, 1).T, noise=noise)


def test_columns_are_left_out_by_the_columns_alone_and_named(fit):
    release = louder(fit, 15.0)
    found = release.regress()
    out = [release.names[k] for k in found.left_out]
    assert out
    assert found.names
    assert all(name in told(found) for name in out)
    assert "shorter one" in told(found)
    assert found.table.filter(pl.col("state") == "left out")["column"].to_list() == out
    other = dataclasses.replace(release, matrix=release.matrix.copy())
    other.matrix[:, -1] *= -3.0
    other.matrix[-1, :] *= -3.0
    assert other.regress().left_out == found.left_out  # whatever the label is
    assert out[0] in release.regress(protect=[out[0]]).names
    with pytest.raises(co.InvalidInput, match="left out as not determined"):
        found.test([out[0]])


def test_where_nothing_is_determined_no_number_is_shown(fit):
    whole = louder(fit, 200.0).regress(drop=None)
    assert whole.state == "not determined"
    assert "not determined at this budget" in told(whole)
    assert np.isnan(list(whole.coefficients.values())).all()
    assert "R² not determined" in told(whole)
    with pytest.raises(co.InvalidInput, match="R² is not determined"):
        _ = whole.r_squared
    assert 0.0 <= whole.anderson_rubin({}).pvalue <= 1.0
    assert "No column is determined" in told(louder(fit, 200.0).regress())


@pytest.mark.chance(0, "files before and after: no drawn figure is compared")
def test_twenty_models_from_one_release_spend_nothing(tmp_path):
    fit = run(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for k in range(20):
        fit.release.regress(fit.release.names[k % 2], ["bp", "ldl"]).summary()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.chance(1e-10, "the noise has a quarter of an error for its sd at most, and an interval 4.4 errors")
def test_classes_are_told_as_differences_in_probability(tmp_path):
    frames = tables()
    frames["lab"] = frames["lab"].with_columns(dear=pl.when(pl.col("cost") > 3).then(1).otherwise(-1))
    fed = federation(frames, ("lab", "dear"), SCHEMAS | {"lab": co.Schema(SCHEMAS["lab"].columns)})
    fit = run(tmp_path, fed, co.Problem(co.Logistic(), intercept=True), privacy=co.Privacy(40.0, 1e-6))
    found = fit.inference(level=1 - 1e-5, references={"region": "region=south"})
    assert "differences in probability, not odds ratios" in told(found)
    X, joined = design(frames, "age", "smoker", "region=north", "region=east", "bp", "ldl")
    truth = np.linalg.lstsq(X, (joined["dear"] == 1).to_numpy().astype(float), rcond=None)[0]
    for (low, high), value in zip(found.intervals.values(), truth, strict=True):
        assert low <= value <= high


# ------------------------------------------------------------------------------------------------ what is said


@pytest.mark.chance(1e-10, "all six columns are determined, with a margin of over 9 sds of the noise")
def test_the_summary_says_what_must_be_said(tmp_path):
    fit = run(tmp_path, privacy=co.Privacy(8.0, 1e-6))
    text = told(fit.inference())
    for words in (
        "4,000 rows",
        "ε 8, δ 1e-06 (already spent; this page costs nothing)",
        "capped to [0, 8.00]",
        "rows shortened: none (schema)",
        "spread alike in all rows",
        "Determined: 6 of 6 columns",
        "Compared with: clinic:region=south",
        "95 % interval",
        "p (Holm)",
        "sampling / noise",
        "R² ",
        "all slopes zero: χ²(6)",
    ):
        assert words in text, words
    html = fit.inference()._repr_html_()
    assert html.count("<svg") == 6  # one a slope
    assert "clinic:age" in html


@pytest.mark.chance(1e-10, "a share of 0.96 with an sd of 0.001 against 0.25")
def test_unequal_variances_are_warned_of_where_sampling_counts(tmp_path):
    fit = run(tmp_path, privacy=co.Privacy(40.0, 1e-6))
    loud = fit.inference()
    assert max(list(loud.sampling_share.values())[:-1]) > 0.25
    assert "robust=1.5" in told(loud)
    wide = fit.inference(robust=2.0)
    assert "robust=1.5" not in told(wide)
    assert wide.errors["clinic:age"] > loud.errors["clinic:age"]


@pytest.mark.chance(0, "a sentence that goes by the problem alone")
@pytest.mark.parametrize("term", [{"penalty": co.Lasso(0.1)}, {"constraint": co.L1Ball(1.0)}, {}], ids=str)
def test_a_penalty_is_said_not_to_count(term, tmp_path):
    fit = run(tmp_path, problem=co.Problem(co.LeastSquares(), intercept=True, **term))
    assert fit.release.penalised == bool(term)
    assert ("without it" in told(fit.inference())) == bool(term)


@pytest.mark.parametrize(("count", "rest"), [(8, ""), (9, " and 1 more"), (1009, " and 1,001 more")])
def test_of_many_columns_eight_are_named(count, rest):
    assert _some([f"c{k}" for k in range(count)]) == ", ".join(f"'c{k}'" for k in range(8)) + rest


@pytest.mark.chance(1e-10, "raw is chosen with a margin of 28 sds, and the bound of the share has 300")
def test_shortened_rows_are_bounded_and_warned_of(tmp_path):
    method = co.PrivateGram()
    lines = federation(schemas={name: schema.as_lines() for name, schema in SCHEMAS.items()})
    fit = run(tmp_path, lines, method=method, privacy=co.Privacy(64.0, 1e-6, row_norm={"clinic": 1.0, "lab": 0.5}))
    assert fit.release.rule == "raw"
    encoded = SCHEMAS["lab"].encode(tables()["lab"]).matrix
    share = (np.linalg.norm(np.asarray(encoded), axis=1) > 0.5).mean()
    assert share <= fit.release.shortened <= 1.0
    assert "unknown, at most" in told(fit.inference())
    assert "by their released squares (no count was paid for)" in told(fit.inference())
    assert "coefficients of shortened rows" in told(fit.inference())


def test_the_report_shows_intervals_or_says_why_there_are_none(fit, tmp_path):
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Intervals and tests" in page
    assert "rows shortened: none (schema)" in page
    bent = dataclasses.replace(fit, released=dataclasses.replace(fit.release, rule="centred"))
    assert "centred, scaled and shortened" in bent.report(tmp_path / "bent.html").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ other tables


def test_without_noise_correlations_inflation_and_components_are_those_of_the_table(fit):
    released, frames = noise_free(fit), tables()
    X, joined = design(frames, "age", "bp", "ldl")
    found = released.correlation(["age", "bp", "cost"])
    assert found["correlation"].to_list() == pytest.approx(
        [np.corrcoef(joined[a], joined[b])[0, 1] for a, b in (("age", "bp"), ("age", "cost"), ("bp", "cost"))]
    )
    factors = released.vif(["age", "bp", "ldl"])
    assert factors["vif"].to_list() == pytest.approx([variance_inflation_factor(X, k) for k in range(3)], rel=1e-8)
    assert ((factors["low"] <= factors["vif"]) & (factors["vif"] <= factors["high"])).all()
    assert released.vif(["age"])["vif"].to_list() == [1.0]
    parts = released.pca(["age", "bp", "ldl"])
    encoded = X[:, :3] / [30, 60, 3]
    assert parts.filter(pl.col("column") == "lab:bp")["variance"].to_list() == pytest.approx(
        np.linalg.eigvalsh(np.cov(encoded.T, bias=True))[::-1], rel=1e-8
    )


def test_what_the_noise_hides_is_null_or_refused(fit):
    release = louder(fit, 200.0)
    assert release.correlation()["correlation"].null_count() > 0
    with pytest.raises(co.InvalidInput, match="turns the directions"):
        release.pca()
    with pytest.raises(co.InvalidInput, match="nothing to choose among"):
        release.select()
    with pytest.raises(co.InvalidInput, match="odds are of classes"):
        release.crude_odds()


def test_a_model_is_chosen_by_its_expected_error(fit):
    found = fit.release.select(candidates=[["ldl"], ["age", "smoker", "ldl"], co.Ridge(5.0)])
    assert found.best == ["age", "smoker", "ldl"]
    assert found.table["may_be_best"].to_list() == [False, True, False]
    assert set(found.coefficients) >= {"clinic:age", "(constant)"}
    assert fit.release.select().table.height == 20
    sizes = [fit.release.select(criterion=c).table.sort(c)["coefficients"][0] for c in ("cp", "bic")]
    assert sizes[1] <= sizes[0]
    for wrong in ({"criterion": "aic"}, {"candidates": []}, {"candidates": ["age"]}, {"candidates": [["weight"]]}):
        with pytest.raises(co.InvalidInput):
            fit.release.select(**wrong)


@pytest.mark.chance(1e-10, "the noise is small beside sampling: a margin of 11 of its sds, from draws 12 times as loud")
def test_crude_odds_cover_those_of_the_table(tmp_path):
    frames = tables(20_000)
    frames["lab"] = frames["lab"].with_columns(dear=pl.when(pl.col("cost") > 3).then(1).otherwise(-1))
    fed = federation(frames, ("lab", "dear"), SCHEMAS | {"lab": co.Schema(SCHEMAS["lab"].columns)})
    release = run(tmp_path, fed, co.Problem(co.Logistic(), intercept=True)).release
    found = release.crude_odds(level=1 - 1e-5)
    assert found["column"].to_list() == ["clinic:smoker", *(f"clinic:region={r}" for r in ("north", "south", "east"))]
    X, joined = design(frames, "smoker", "region=north", "region=south", "region=east")
    positive = (joined["dear"] == 1).to_numpy()
    for k, (_, ratio, low, high) in enumerate(found.iter_rows()):
        has = X[:, k] == 1
        table = [[np.sum(a & b) for b in (positive, ~positive)] for a in (has, ~has)]
        assert ratio is not None
        assert low <= sm.stats.Table2x2(table).oddsratio <= high
    with pytest.raises(co.InvalidInput, match="no yes-or-no column"):
        release.crude_odds(["age"])


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.chance(0, "the rule for classes goes by rows, columns and budget")
def test_a_release_for_prediction_that_bends_rows_is_refused(tmp_path):
    labels = tables()
    labels["lab"] = labels["lab"].with_columns(dear=pl.when(pl.col("cost") > 3).then(1).otherwise(-1))
    fed = federation(labels, ("lab", "dear"), SCHEMAS | {"lab": co.Schema(SCHEMAS["lab"].columns)})
    fit = run(tmp_path, fed, co.Problem(co.Logistic()), co.PrivateGram())
    assert fit.release.rule == "centred"
    with pytest.raises(co.InvalidInput, match=r"centred, scaled and shortened.*purpose='inference'"):
        fit.inference()


@pytest.mark.chance(0, "a refusal by the settings alone")
def test_products_that_are_missing_are_refused(tmp_path):
    privacy = co.Privacy(4.0, 1e-6, trust="nobody")
    fit = run(tmp_path, method=co.PrivateGram(cross="none"), privacy=privacy)
    with pytest.raises(co.InvalidInput, match="missing"):
        fit.inference()


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"unit_rows": 3}, "may have 3 rows"), ({"step": 1e3}, "rounding to steps"), ({"rows": 7}, "from 7 rows")],
)
def test_what_does_not_hold_is_refused_with_advice(changed, says, fit):
    with pytest.raises(co.InvalidInput, match=says):
        dataclasses.replace(fit.release, **changed).regress().summary()


def test_a_run_that_might_shorten_rows_is_refused_before_anything_is_sent(tmp_path):
    with pytest.raises(co.InvalidInput, match=r"'clinic' stay within 1\. Nothing was sent.*schema proves"):
        run(tmp_path, privacy=co.Privacy(4.0, 1e-6, row_norm={"clinic": 1.0}))
    X = np.random.default_rng(0).uniform(-1, 1, (500, 4))
    fed = co.Federation.split(X, X[:, 0], parties=2)
    with pytest.raises(co.InvalidInput, match=r"row_norm of at least B·√columns"):
        run(tmp_path, fed, privacy=co.Privacy(4.0, 1e-6, row_norm=1.0, feature_bound=1.0, label_bound=1.0))
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.mark.chance(1e-8, "5 intervals, each of which misses once in 4e9")
def test_a_plain_matrix_is_taken_where_its_bounds_prove_its_rows(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 4))
    fed = co.Federation.split(X, X @ [0.5, 0.2, 0.0, -0.3], parties=2)
    fit = run(tmp_path, fed, privacy=co.Privacy(4.0, 1e-6, row_norm=2.0, feature_bound=1.0, label_bound=1.0))
    assert fit.release.proven
    found = fit.inference(level=1 - 1e-9, simultaneous=True)
    for (low, high), value in zip(found.intervals.values(), [0.5, 0.2, 0.0, -0.3, 0.0], strict=True):
        assert low <= value <= high


def test_people_with_several_rows_are_refused(tmp_path):
    frames = tables(600)
    frames = {name: frame.with_columns(person=pl.col("id") // 3) for name, frame in frames.items()}
    fed = co.Federation.from_frames(frames, on="id", label=("lab", "cost"), schemas=SCHEMAS, unit=("person", 3))
    with pytest.raises(co.InvalidInput, match="a person has up to 3 here"):
        run(tmp_path, fed)


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"cross": "none"}, "cross='none'"), ({"screen": 3}, "screen=3")],
)
def test_inference_takes_no_other_release(settings, says):
    with pytest.raises(co.InvalidInput, match=says):
        co.PrivateGram(purpose="inference", **settings)


def test_an_unknown_purpose_is_refused():
    with pytest.raises(co.InvalidInput, match="'prediction' or 'inference'"):
        co.PrivateGram(purpose="causality")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("weight",), "no column of this release"),
        (("region",), "several columns"),
        (("bp", ["bp"]), "cannot explain itself"),
        (("region=east", ["region=south"]), "cannot explain itself"),
        ((None, []), "no column is left"),
    ],
)
def test_names_that_mean_nothing_are_refused(arguments, says, fit):
    with pytest.raises(co.InvalidInput, match=says):
        fit.release.regress(*arguments)


def test_options_that_mean_nothing_are_refused(fit):
    for options in ({"drop": "all"}, {"adjust": "tukey"}, {"units": "metric"}, {"references": {"region": "age"}}):
        with pytest.raises(co.InvalidInput, match=r"is not known|references= names"):
            fit.release.regress(**options)


@pytest.mark.chance(0, "a refusal by names")
def test_a_name_two_parties_have_must_name_its_party(tmp_path):
    frames, schemas = tables(), dict(SCHEMAS)
    frames["clinic"] = frames["clinic"].with_columns(ldl=1 + pl.col("age") / 20)
    schemas["clinic"] = co.Schema((*SCHEMAS["clinic"].columns, co.Numeric("ldl", 1, 7)))
    release = run(tmp_path, federation(frames, schemas=schemas)).release
    with pytest.raises(co.InvalidInput, match="ambiguous"):
        release.regress("ldl")


# ------------------------------------------------------------------------------------------------ keeping it


def test_a_release_is_kept_with_its_fit_and_alone_to_the_bit(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    fit.release.save(tmp_path / "release.json")
    for again in (
        co.load(tmp_path / "fit.json").release,
        *(co.Release.load(tmp_path / f"{name}.json") for name in ("fit", "release")),
    ):
        assert np.array_equal(again.matrix, fit.release.matrix)
        assert np.array_equal(again.noise, fit.release.noise)
        assert to_plain(again) == to_plain(fit.release)
        assert again.regress().summary() == fit.inference().summary()


def test_a_fit_without_a_release_says_so(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    fit = co.fit(co.Federation.split(X, X[:, 0], parties=2), co.Problem(co.LeastSquares(), co.L1Ball(1.0)))
    with pytest.raises(co.InvalidInput, match=r"no release: distributed Frank-Wolfe releases no Gram"):
        fit.inference()
    fit.save(tmp_path / "fit.json")
    with pytest.raises(co.InvalidInput, match="without a release"):
        co.Release.load(tmp_path / "fit.json")


def test_a_release_file_that_was_changed_is_refused(fit):
    plain = json.loads(json.dumps(to_plain(fit.release)))
    for name, bad in {
        "matrix": "AAAA",
        "rows": -3,
        "rule": "bent",
        "norms": {"clinic": "long"},
        "columns": [{"name": "age"}],
        "step": 0.0,
        "statement": {"epsilon": "small"},
        "label": {**plain["label"], "unit": 0.0},
    }.items():
        with pytest.raises((co.InvalidInput, TypeError, ValueError)):
            from_plain({**plain, name: bad})
    del plain["run"]
    with pytest.raises(co.InvalidInput, match="it needs run, a text"):
        from_plain(plain)


@pytest.mark.parametrize(
    ("field", "bad", "says"),
    [
        ("noise", -1.0, "'noise' is negative"),
        ("noise", float("nan"), "is not finite"),
        ("scale", -1.0, "'scale' is not above 0"),
        ("scale", 0.0, "'scale' is not above 0"),
        ("centre", float("nan"), "is not finite"),
        ("sums.noise", -1.0, "'sums' has noise that is negative"),
        ("sums.square_noise", -1.0, "'sums' has noise that is negative"),
        ("sums.square_noise", float("nan"), "is not finite"),
        ("sums.count_noise", -1.0, "sums.count_noise must be a finite number from 0 on; got -1.0"),
        ("sums.count", float("nan"), "sums.count must be a finite number; got nan"),
    ],
)
def test_noise_below_zero_and_figures_that_are_nan_are_refused(field, bad, says, fit):
    """An sd below zero would make intervals that end before they begin."""
    size = len(fit.release.columns)
    ones = np.ones(size)
    release = dataclasses.replace(fit.release, sums=Sums(ones, ones, 2.0, ones, ones.copy(), 1.0, ones.copy()))
    assert from_plain(json.loads(json.dumps(to_plain(release)))).sums.count == 2.0
    name = field.removeprefix("sums.")
    owner = release if name == field else release.sums
    value = getattr(owner, name)
    changed = dataclasses.replace(owner, **{name: np.full_like(value, bad) if isinstance(value, np.ndarray) else bad})
    made = changed if name == field else dataclasses.replace(release, sums=changed)
    with pytest.raises(co.InvalidInput, match=says):
        from_plain(json.loads(json.dumps(to_plain(made))))


ONE_OFF = [
    ({"norms": {"clinic": 1.0, "lab": -1.0}}, "norms must be lengths from 0 on, by party"),
    ({"unit_rows": -1}, "unit_rows must be a whole number from 0 on; got -1"),
    ({"unit_rows": 1.0}, "unit_rows must be a whole number from 0 on; got 1.0"),
    ({"reach": 0.0}, "reach must be a finite number above 0; got 0.0"),
    ({"step": -1.0}, "step must be a finite number above 0; got -1.0"),
    ({"run": 3}, "run must be a text; got 3"),
    ({"proven": 1}, "proven must be true or false; got 1"),
    ({"penalised": 0}, "penalised must be true or false; got 0"),
    ({"cut": 0}, "cut must be true or false; got 0"),
    ({"rule": "bent"}, "rule must be one of 'raw', 'centred', 'screened', 'weak'; got 'bent'"),
    ({"statement.delta": 1.0}, "statement.delta must be a number from 0 on, below 1; got 1.0"),
    ({"statement.delta": 0.0, "statement.epsilon": 1.0}, "statement has an epsilon, and a delta of 0"),
    ({"statement.epsilon": -1.0}, "statement.epsilon must be a number from 0 on; got -1.0"),
    ({"solving.doubt": -1e-9}, "'doubt' of 'solving' has another length than 'columns', or is negative"),
    ({"solving.ridge": -1.0}, "solving.ridge must be a finite number from 0 on; got -1.0"),
    ({"solving.select": 1}, "solving.select must be true or false; got 1"),
    ({"matrix": 1.0 + 1e-6}, "'rows' and the matrix disagree"),
    ({"centre": "longer"}, "'centre' or 'scale' has another length than 'columns'"),
    ({"columns.block": 1.5}, "].block must be a whole number; got 1.5"),
    ({"columns.unit": 0.0}, "].unit must be a finite number above 0; got 0.0"),
    ({"columns.middle": float("inf")}, "].middle must be a finite number; got inf"),
]


@pytest.mark.parametrize(("changes", "says"), ONE_OFF, ids=[", ".join(changes) for changes, _ in ONE_OFF])
def test_a_field_of_a_release_that_is_one_off_is_named(changes, says, fit):
    """Bounds of each field: what lies on the wrong side, next to it or far away."""
    size = len(fit.release.columns)
    solving = Solving(0.0, np.full(size, np.inf), None, False, False)
    release = dataclasses.replace(fit.release, solving=solving)
    plain = json.loads(json.dumps(to_plain(release)))
    assert from_plain(plain).solving.ridge == 0.0
    for name, bad in changes.items():
        table, _, field = name.partition(".")
        if name == "matrix":  # of [columns, 1, label], the upper half by rows: the count is the third from the end
            values = np.frombuffer(base64.b64decode(plain["matrix"])).copy()
            values[-3] *= bad
            plain["matrix"] = base64.b64encode(values.tobytes()).decode()
        elif name == "centre":
            plain["centre"] = base64.b64encode(np.zeros(size + 1).tobytes()).decode()
        elif field == "doubt":
            plain["solving"]["doubt"] = base64.b64encode(np.full(size, bad).tobytes()).decode()
        elif table == "columns":
            plain["columns"][-1][field] = bad
        elif field:
            plain[table][field] = bad
        else:
            plain[name] = bad
    with pytest.raises(co.InvalidInput, match=re.escape(says)):
        from_plain(plain)


# ------------------------------------------------------------------------------------------------ what is in it


@pytest.mark.chance(1e-8, "chi-square of 308 degrees: 1e-9; one of 14 entries is 0 seven times: 14 * 0.047**7")
@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_a_release_holds_noise_of_the_size_it_names_and_nothing_exact(trust, tmp_path):
    """All entries but the number of rows differ from the exact ones, by about one of their sds, over seven releases."""
    policies = {name: co.Policy(consortium=True) for name in SCHEMAS} if trust == "consortium" else None
    fed = co.Federation.from_frames(tables(), on="id", label=("lab", "cost"), schemas=SCHEMAS, policies=policies)
    squares, unmoved = 0.0, []
    for k in range(7):
        fit = run(tmp_path / str(k), fed, privacy=co.Privacy(4.0, 1e-6, trust=trust))
        exact, released = noise_free(fit), fit.release
        at = np.triu_indices(len(released.matrix))
        sds, moved = released.noise[at], (released.matrix - exact.matrix)[at]
        assert (sds == 0.0).sum() == 1
        z = moved[sds > 0.0] / sds[sds > 0.0]
        squares += np.sum(np.square(z))
        unmoved.append(np.abs(z) < 0.01)
    # 7·44 normal draws, whose rounding is far below their noise.
    assert 180.0 < squares < 480.0
    # Noise of the 14 products of yes-or-no columns is in whole numbers of sd 8.5 or more, and may be 0 now and then.
    assert not np.all(unmoved, axis=0).any()


def test_a_curve_is_its_number_in_the_datas_units_and_hats_beside_it(tmp_path):
    bent = co.Schema((co.Numeric("age", 20, 80, smooth=2), *SCHEMAS["clinic"].columns[1:]))
    release = run(tmp_path, federation(schemas=SCHEMAS | {"clinic": bent}), noise=co.SeededNoise(1)).release
    assert [(c.name, c.source, c.block, c.kind, c.unit) for c in release.columns[:4]] == [
        ("age", "age", 0, "number", 30.0),
        *((f"age~{k}", "age", 0, "part", 1.0) for k in (1, 2, 3)),
    ]
    whole = ("clinic:age", *(f"clinic:age~{k}" for k in (1, 2, 3)))
    assert release.regress("cost", ["age"], drop=None).names == whole  # the number's name is the whole curve's
    assert release.regress("cost", ["age~2"], drop=None).names == ("clinic:age~2",)
    found = release.regress("cost", ["age"], drop=None)
    assert found.test("age") == found.test(whole)
    assert found.test("age").df == 4


@pytest.mark.chance(1e-10, "the line stays determined, which draws of 5 times the noise never changed in 200")
def test_a_band_is_that_of_the_curve_at_its_values(tmp_path):
    bent = SCHEMAS | {"clinic": co.Schema((co.Numeric("age", 20, 80, smooth=2),))}
    frames = tables()
    release = run(tmp_path, federation(schemas=bent)).release
    encoded = bent["clinic"].encode(frames["clinic"]).matrix
    rows = np.column_stack([np.asarray(encoded.todense() if hasattr(encoded, "todense") else encoded), np.ones(ROWS)])
    y = frames["lab"]["cost"].to_numpy()
    Z = np.column_stack([rows, y - 4.0])
    part = [*range(4), len(release.columns), len(release.columns) + 1]
    exact = dataclasses.replace(release, matrix=release.matrix.copy(), noise=np.zeros_like(release.noise))
    exact.matrix[np.ix_(part, part)] = Z.T @ Z
    theirs = sm.OLS(y, rows).fit()
    found = exact.regress("cost", ["age", "age~1", "age~2", "age~3"], drop=None)
    band = found.curve("age", [30.0, 65.0])
    at = bent["clinic"].encode(pl.DataFrame({"id": [0, 1, 2], "age": [30.0, 65.0, 50.0]})).matrix
    at = np.asarray(at.todense() if hasattr(at, "todense") else at)
    expected = theirs.t_test(np.column_stack([at[:2] - at[2], np.zeros(2)]))
    assert band["effect"].to_numpy() == pytest.approx(expected.effect, rel=1e-7)
    assert band.select("low", "high").to_numpy() == pytest.approx(expected.conf_int(), rel=1e-6)
    assert found.curve("age")["value"].to_list() == [20.0, 35.0, 50.0, 65.0, 80.0]
    assert exact.regress("cost", ["age"], drop=None).coefficients == found.coefficients
    for name in ("ldl", "cost"):
        with pytest.raises(co.InvalidInput, match="no number of this model"):
            found.curve(name)
    line = run(tmp_path / "line", federation()).release.regress("cost", ["age"], drop=None)
    assert line.curve("age", [60.0])["effect"][0] == pytest.approx(10 * line.coefficients["clinic:age"])


def test_the_columns_carry_where_they_come_from(fit):
    columns = fit.release.columns
    assert [(c.source, c.kind) for c in columns[2:5]] == [("region", "level")] * 3
    assert len({c.block for c in columns[2:5]}) == 1
    assert (columns[0].middle, columns[0].unit) == (50.0, 30.0)
    assert set(fit.release.counts()) == {"clinic:smoker", *(f"clinic:region={r}" for r in ("north", "south", "east"))}


def release_by(rule, store):
    """A release of rows made by each rule, with as little noise as the rule is chosen at."""
    frames = tables(400 if rule == "weak" else ROWS)
    if rule == "raw":
        return run(store, federation(frames), method=co.PrivateGram(), privacy=co.Privacy(1e6, 1e-6)).release, frames
    frames["lab"] = frames["lab"].with_columns(dear=pl.when(pl.col("cost") > 3).then(1).otherwise(-1))
    fed = federation(frames, ("lab", "dear"), SCHEMAS | {"lab": co.Schema(SCHEMAS["lab"].columns)})
    method = co.PrivateGram(screen=4) if rule == "screened" else co.PrivateGram()
    privacy = co.Privacy(0.05 if rule == "weak" else 1e6, 1e-6)
    return run(store, fed, co.Problem(co.Logistic(), intercept=True), method, privacy).release, frames


@pytest.mark.chance(1e-10, "4 counts within 7 sds: 4 * 2.6e-12; raw is chosen with 500 times what it takes")
@pytest.mark.parametrize("rule", ["raw", "centred", "screened", "weak"])
def test_counts_are_those_of_the_table_however_rows_were_made(rule, tmp_path):
    release, frames = release_by(rule, tmp_path)
    assert release.rule == rule
    found = release.counts()
    names = [name.partition(":")[2] for name in found]
    assert names
    X, _ = design(frames, *names)
    sds = release.noise[:, len(release.columns)] if release.sums is None else 2**0.5 * release.sums.noise
    at = [release.names.index(name) for name in found]
    assert np.abs(X[:, :-1].sum(axis=0) - np.array(list(found.values()))) == pytest.approx(0.0, abs=7.0 * sds[at].max())
    assert rule == "weak" or sds[at].max() < 0.5


@pytest.mark.chance(1e-10, "raw is chosen with a margin of 57 sds of what class sums say; else public figures")
def test_counts_of_shortened_rows_are_refused(tmp_path):
    norms = {"clinic": 1.0, "lab": 0.5}  # at a budget at which class sums surely advise rows as they are
    short = run(tmp_path, method=co.PrivateGram(), privacy=co.Privacy(1000.0, 1e-6, row_norm=norms))
    with pytest.raises(co.InvalidInput, match="may have been shortened"):
        short.release.counts()
    alone = run(tmp_path, method=co.PrivateGram(cross="none"), privacy=co.Privacy(4.0, 1e-6, trust="nobody"))
    with pytest.raises(co.InvalidInput, match="no counts"):
        alone.release.counts()
    with pytest.raises(co.InvalidInput, match="rows were centred"):
        dataclasses.replace(release_by("centred", tmp_path)[0], sums=None).counts()


def test_intervals_are_drawn_for_a_move_over_each_columns_range(fit):
    """A slope a year over 60 years, a flag over 1; the constant is not drawn."""
    for units in ("data", "encoded"):
        rows = fit.inference(units=units).facts().rows
        far = {row.name: row.across * row.estimate for row in rows}
        line = noise_free(fit).regress(units=units).facts().rows
        assert [row.across for row in rows] == [row.across for row in line]
        assert far["(constant)"] == 0.0
        if units == "data":
            moved = far
            assert {row.name: row.across for row in rows}["clinic:age"] == 60.0
        else:
            assert far == pytest.approx(moved)


@pytest.mark.chance(0, "a refusal, which goes by a flag")
def test_slopes_of_cut_curves_are_refused(tmp_path):
    bent = co.Schema((co.Numeric("age", 20, 80, smooth=2), *SCHEMAS["clinic"].columns[1:]))
    release = run(tmp_path, federation(schemas=SCHEMAS | {"clinic": bent})).release
    with pytest.raises(co.InvalidInput, match="cut toward zero"):
        dataclasses.replace(release, cut=True).regress()
    with pytest.raises(co.InvalidInput, match="cut toward zero"):
        from_plain(json.loads(json.dumps(to_plain(dataclasses.replace(release, cut=True))))).regress()
