"""Claims about what curves say: effects in a column's own unit, which add up to scores, in figures and in words."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.errors import InvalidInput

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SCHEMAS = {
    "bank": co.Schema((co.Numeric("age", 18, 90, smooth=2, missing="indicator"), co.Categorical("ward", ("a", "b")))),
    "shop": co.Schema((co.Numeric("visits", 0, 50), co.Numeric("cost", 10, 20, scale=False), co.Binary("new"))),
}


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, 400)
    age[::9] = np.nan
    key = np.arange(400)
    bank = pl.DataFrame({"key": key, "age": age, "ward": rng.choice(["a", "b"], 400)})
    shop = pl.DataFrame({"key": key, "visits": rng.uniform(0, 50, 400), "cost": rng.uniform(10, 20, 400)})
    y = np.abs(np.nan_to_num(age, nan=54.0) - 54) / 10 + shop["visits"].to_numpy() / 25 + rng.normal(size=400)
    return {"bank": bank.with_columns(y=pl.Series(y)), "shop": shop.with_columns(new=pl.Series(key % 2))}


@pytest.fixture(scope="module")
def fit(tables):
    fed = co.Federation.from_frames(tables, "key", ("bank", "y"), schemas=SCHEMAS)
    return co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(1e-3), intercept=True), co.SharingADMM())


def test_differences_of_effects_are_differences_of_scores(fit, tables):
    """For two rows that differ in one column: the model is additive, and effects are in the column's own unit."""
    curves = fit.curves()
    assert set(curves) == {"age", "visits", "cost"}
    one = tables["bank"].join(tables["shop"], on="key").head(1)
    for name, low, high in (("age", 25.0, 61.3), ("visits", 3.0, 48.0), ("cost", 11.0, 19.5)):
        rows = pl.concat([one.with_columns(pl.lit(value).alias(name)) for value in (low, high)])
        before, after = fit.scores(rows)
        assert after - before == pytest.approx(float(np.diff(curves[name]([low, high]))[0]), abs=1e-9)
    rows = pl.concat([one.with_columns(pl.lit(value, pl.Float64).alias("age")) for value in (None, 54.0)])
    gap, middle = fit.scores(rows)
    assert curves["age"].missing == pytest.approx(gap - middle, abs=1e-9)


def test_effects_are_zero_at_the_middle_and_lines_have_a_slope(fit):
    curves = fit.curves()
    assert curves["age"].grid.tolist() == [18, 36, 54, 72, 90]
    for name, middle in (("age", 54.0), ("visits", 25.0), ("cost", 15.0)):
        assert curves[name](middle) == pytest.approx(0.0, abs=1e-12)
    assert curves["age"].slope is None
    coefficient = fit.coefficients["shop"]
    assert curves["visits"].slope == pytest.approx(coefficient[0] / 25)
    assert curves["cost"].slope == pytest.approx(coefficient[1])
    assert curves["age"](18) > 1 < curves["age"](90)  # what the rows were made with: a valley


def test_tables_and_words_say_the_same(fit):
    curves = fit.curves()
    table = curves.table()
    assert table.columns == ["party", "column", "value", "effect", "low", "high"]
    assert table["low"].null_count() == table.height  # an exact fit has no bands
    assert table.filter(pl.col("column") == "age")["effect"].to_list() == curves["age"].effect.tolist()
    assert repr(curves) == "EffectCurves(3 columns, 1 of them bent)"
    with pytest.raises(InvalidInput, match="no number 'ward' among the columns known here: age, visits, cost"):
        curves["ward"]


def test_names_that_two_parties_share_are_told_apart(fit):
    from dataclasses import replace

    curves = fit.curves()
    both = replace(curves, curves=(*curves.curves, replace(curves["age"], party="shop")))
    assert [name for name in both if "age" in name] == ["bank.age", "shop.age"]


def test_report_and_notebook_draw_them_and_name_no_half_of_a_range(fit, tmp_path):
    page = fit.report(tmp_path / "report.html").read_text()
    for said in ("What numbers say", "bank: age", "shop: visits", "for one unit more"):
        assert said in page
    assert "half of" not in page.lower().split("<h2")[3]
    shown = fit.curves()._repr_html_()
    assert shown.count("<figure>") == 3


def test_plotly_draws_one_line_a_column(fit):
    pytest.importorskip("plotly")
    drawn = fit.curves().plot()
    assert [trace.name for trace in drawn.data] == ["age", "visits", "cost"]
