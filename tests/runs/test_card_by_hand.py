"""Figures of a scorecard, of what was released and of rows at hand, are those of counting rows by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import colonnade as co
from tests.helpers.exact_fits import CLASSES, ROWS, SCHEMAS, column, fitted, noisy, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"), CLASSES)


def side_by_side(frames) -> pl.DataFrame:
    return frames["a"].join(frames["b"], on="id").join(frames["c"], on="id")


@pytest.mark.parametrize("good", [-1, 1])
def test_lift_shares_found_weights_and_information_are_counted(fit, good):
    card, rows = fit.scorecard(good=good), side_by_side(tables(230, seed=7))
    bad = rows["won"].to_numpy() != good
    found, points = card.performance(rows, rows["won"].to_numpy()), card.points(rows)
    order = np.argsort(points, kind="stable")
    so_far = 0
    for tenth, part in zip(found.tenths, np.array_split(order, 10), strict=True):
        so_far += bad[part].sum()
        assert (tenth.low, tenth.high) == (points[part].min(), points[part].max())
        assert (tenth.rows, tenth.bads) == (23, bad[part].sum())
        assert tenth.rate == pytest.approx(bad[part].mean())
        assert tenth.lift == pytest.approx(bad[part].mean() / bad.mean())
        assert tenth.found == pytest.approx(so_far / bad.sum())
        assert f"lift {tenth.lift:.2f}, {tenth.found:.1%} found" in str(found)
        cells = [f"{tenth.rate:.2%}", f"{tenth.lift:.2f}", f"{tenth.found:.1%}"]
        assert "".join(f">{cell}<" in found._repr_html_() and "." for cell in cells) == "..."
    flags = {"0": rows["flag"].to_numpy() == 0, "1": rows["flag"].to_numpy() == 1}
    total = 0.0
    for line in [one for one in found.lines if one.column == "flag"]:
        has = flags[line.line]
        goods, bads = (has & ~bad).sum(), (has & bad).sum()
        g, b = goods / (~bad).sum(), bads / bad.sum()
        assert (line.goods, line.bads, line.woe) == (goods, bads, pytest.approx(math.log(g / b)))
        total += (g - b) * math.log(g / b)
    assert found.iv["flag"] == pytest.approx(total)


def test_a_shift_is_the_psi_of_shares_with_half_a_row_more(fit):
    card = fit.scorecard()
    now, then = side_by_side(tables(150, seed=8)), side_by_side(tables(310, seed=9))
    now = now.with_columns(flag=pl.when(pl.col("id") % 3 > 0).then(1).otherwise(pl.col("flag")))
    found = card.stability(now, then)

    def psi(a, e):
        a, e = ((x + 0.5) / (x.sum() + 0.5 * x.size) for x in (np.array(a), np.array(e)))
        return float(np.sum((a - e) * np.log(a / e)))

    counts = [[(rows["flag"] == value).sum() for value in (0, 1)] for rows in (now, then)]
    assert found.columns["flag"] == pytest.approx(psi(*counts))
    assert found.columns["flag"] > 0.25
    before = np.sort(card.points(then))
    edges = sorted({int(before[math.ceil(k / 10 * 310) - 1]) for k in range(1, 10)})
    groups = [
        [int(np.sum((p > low) & (p <= high))) for low, high in zip([-1e9, *edges], [*edges, 1e9], strict=True)]
        for p in (card.points(now), card.points(then))
    ]
    assert found.psi == pytest.approx(psi(*groups))
    for name, value in found.columns.items():
        words = "stable" if value < 0.1 else "moved somewhat" if value < 0.25 else "moved"
        assert f"{name}: PSI {value:.4f}, {words}\n" in str(found)


def test_points_against_their_order_are_pooled_by_the_rows_of_each_bin(fit):
    """All bins become one, at the mean of their effects, each as often as it is; the base takes it up."""
    way = 1 if fit.scorecard(double=1e6).columns[0].lines[0].points else -1
    plain, pooled = (fit.scorecard(double=1e6, bins=6, monotone=asked) for asked in ({}, {"x0": way}))
    own, other = (next(one for one in card.columns if one.title == "x0") for card in (plain, pooled))
    shares = np.array([line.share for line in own.lines])
    points = np.array([line.points for line in own.lines])
    assert np.ptp(shares) > 0.1
    assert {line.points for line in other.lines} == {0}
    assert pooled.base - plain.base == pytest.approx(shares @ points / shares.sum(), rel=1e-4)


@pytest.mark.parametrize("sd", [10.0, 25.0, 40.0, 60.0])
def test_a_weight_needs_both_of_its_counts_beyond_two_deviations(fit, sd):
    """A count has half of the noise of two sums, sd/2 in all: two of these are sd."""
    release = replace(fit.release, noise=noisy(fit.release, sd).noise)
    frames = tables()
    won = column(frames, "won") == 1
    card = replace(fit, released=release).scorecard()
    told = {}
    for title, names in (("level", ["level=a", "level=b", "level=c"]), ("flag", ["", "flag"])):
        own = next(one for one in card.columns if one.title == title)
        for name, line in zip(names, own.lines, strict=False):
            has = column(frames, name or "flag") == bool(name)
            counts = (has & won).sum(), (has & ~won).sum()
            clear = sd * (math.sqrt(3) if title == "level" and not name else 1.0)
            told[title, line.name] = line.woe is not None
            assert (line.woe is not None) == (min(counts) > clear)
    assert any(told.values()) or sd == 60.0


def test_rows_of_no_level_are_what_is_left_of_all(tmp_path):
    frames = tables()
    strange = pl.when(pl.col("id") < 20).then(pl.lit("zzz")).otherwise(pl.col("level"))
    frames["b"] = frames["b"].with_columns(level=strange)
    found = fitted(tmp_path, CLASSES, frames)
    for sd, share in ((0.0, 20 / ROWS), (4.0, 20 / ROWS), (9.0, 0.0)):  # 2·√6·sd/2 of noise: 9.8 and 22 rows
        release = found.release if not sd else replace(found.release, noise=noisy(found.release, sd).noise)
        card = replace(found, released=release).scorecard()
        own = next(one for one in card.columns if one.title == "level")
        assert own.lines[-1].name == "any other"
        assert own.lines[-1].share == pytest.approx(share)


def test_information_is_the_sum_over_all_lines_the_gap_included(tmp_path):
    frames = tables()
    hole = pl.when((pl.col("won") > 0) & (pl.col("id") % 4 > 0)).then(None).otherwise(pl.col("x2"))
    frames["c"] = frames["c"].with_columns(x2=pl.when(pl.col("id") % 7 == 0).then(None).otherwise(hole))
    schemas = SCHEMAS | {"c": co.Schema((co.Numeric("x2", -2, 6, missing="indicator"),))}
    found = fitted(tmp_path, CLASSES, frames, schemas)
    own = next(one for one in found.scorecard().columns if one.title == "x2")
    good = float((column(frames, "won") < 0).mean())
    total = 0.0
    for line in own.lines:
        bads = line.share / (good * math.exp(line.woe) + 1 - good)  # of line.share = good·g + (1 − good)·b, g = b·e^woe
        total += bads * (math.exp(line.woe) - 1) * line.woe
    gap = frames["c"]["x2"].is_null().to_numpy()
    won = column(frames, "won") > 0
    weight = math.log((gap & ~won).sum() / (~won).sum() / ((gap & won).sum() / won.sum()))
    assert own.lines[-1].woe == pytest.approx(weight)
    assert own.lines[-1].share == pytest.approx(gap.mean())
    assert own.iv == pytest.approx(total, rel=1e-6)
    assert own.iv > 0.5


def test_the_file_of_a_card_has_its_figures_under_their_names(fit, tmp_path):
    card = fit.scorecard()
    rows = pl.read_csv(card.to_csv(tmp_path / "card.csv"), infer_schema=False).to_dicts()[1:]
    lines = [(one, line) for one in card.columns for line in one.lines]
    assert len(rows) == len(lines)
    for row, (one, line) in zip(rows, lines, strict=True):
        assert (row["party"], row["column"], row["points"]) == (one.party, one.title, str(line.points))
        assert row["share of rows"] == (None if line.share is None else f"{line.share:.4f}")
        assert row["WOE"] == (None if line.woe is None else f"{line.woe:.4f}")
        assert row["IV of the column"] == (None if one.iv is None else f"{one.iv:.4f}")
        assert row["off by at most"] == f"{line.off:.3f}"
