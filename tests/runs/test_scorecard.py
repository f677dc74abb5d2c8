"""A scorecard says what its model says, to the rounding it states; what it knows of rows is released or at hand."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import json
import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.isotonic import isotonic_regression
from sklearn.metrics import roc_auc_score

import colonnade as co
from colonnade.model.facts import Coefficients
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.problem.link import Link
from colonnade.runs.effects import MOST, Effect, bounds_of, in_order
from colonnade.runs.evidence import ClassSums, Witness
from colonnade.runs.scorecard import _bin_names, _numbers
from colonnade.views import scorer
from tests.helpers.lending import PROBLEM, SCHEMAS, exact_fit, side_by_side, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn, and noise of private fits is seeded")


@pytest.fixture(scope="module")
def fit() -> co.Fit:
    return exact_fit()


@pytest.fixture(scope="module")
def private(tmp_path_factory) -> co.Fit:
    """One party and a large budget, so that the noise is known and small, and seeded; rows are centred by class sums."""
    frame = pl.concat([tables(3000, seed)["bank"].drop_nulls().with_columns(pl.lit(seed)) for seed in range(4)])
    frame = frame.with_columns(id=pl.int_range(pl.len())).filter(pl.col("region") != "moon")
    schema = co.Schema(
        (co.Numeric("age", 18, 90, smooth=2, monotone=1), co.Categorical("region", ("north", "south", "1.0")))
    )
    fed = co.Federation.from_frames({"bank": frame}, on="id", label=("bank", "default"), schemas={"bank": schema})
    problem = co.Problem(co.Logistic(), intercept=True)
    terms, store = co.Privacy(8.0, 1e-6), tmp_path_factory.mktemp("store")
    fit = co.fit(fed, problem, co.PrivateGram(), terms, noise=SeededNoise(1), store=store)
    return dataclasses.replace(fit, facts={**fit.facts, "frame": frame})


def exact_sums(fit: co.Fit) -> co.Fit:
    """The same fit as if its class sums had come without noise."""
    frame, release = fit.facts["frame"], fit.release
    matrix = fit.schemas["bank"].encode(frame).matrix
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    bad = frame["default"].to_numpy() == 1
    sums = dataclasses.replace(
        release.sums,
        positive=dense[bad].sum(axis=0),
        negative=dense[~bad].sum(axis=0),
        half_squares=(dense**2).sum(axis=0) / 2.0,
        count=float(bad.sum()),
        noise=np.zeros(dense.shape[1]),
        count_noise=0.0,
    )
    return dataclasses.replace(fit, released=dataclasses.replace(release, sums=sums))


# ------------------------------------------------------------------------------------------------ points


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("bins", [None, 1, 4, {"age": [30, 50.5], "income": 3, "since": [731000.0]}])
@pytest.mark.parametrize("good", [-1, 1])
def test_points_are_those_of_the_scores_to_the_rounding_the_card_states(fit, bins, good):
    card = fit.scorecard(bins=bins, good=good)
    frames = tables(2000, seed=5)
    meant = card.points_of_scores(fit.scores(frames))
    assert np.abs(card.points(frames) - meant).max() <= card.rounding
    one = side_by_side(frames)
    assert np.array_equal(card.points(one), card.points(frames))


def test_what_a_line_states_to_be_off_is_reached_and_not_exceeded(fit):
    """Of a number: the largest distance on a grid that holds bounds and knots is the stated one."""
    card = fit.scorecard(bins=3)
    (column,) = [one for one in card.columns if one.title == "age"]
    x, schema = fit.coefficients["bank"], SCHEMAS["bank"]
    values = np.unique(np.concatenate([np.linspace(18, 90, 721), schema.columns[0].knots(), column.edges]))
    below = np.nextafter(np.array(column.edges), -np.inf)
    values = np.unique(np.concatenate([values, below]))
    effect = Effect("bank", schema.columns[0], 0, schema.columns[0].groups()[0], x[:8]).at(values.tolist())
    meant = -card.double / math.log(2.0) * effect
    place = np.searchsorted(column.edges, values, side="right")
    points = np.array([line.points for line in column.lines])[place]
    shift = np.median(meant - points)
    for k, line in enumerate(column.lines):
        spread = np.ptp((meant - points - shift)[place == k])
        assert spread <= 2.0 * line.off + 1e-6
        assert line.off <= spread + 0.5 + 1e-6  # half-way, and half a point of rounding


def test_what_the_base_is_off_by_is_a_distance_up_or_down(fit):
    """Half a point more moves the base from one side of a whole number to the other."""
    off = [fit.scorecard(points=600.0 + k / 8.0).base_off for k in range(8)]
    assert all(0.0 < one < 0.501 for one in off)
    assert [one + other for one, other in zip(off[:4], off[4:], strict=True)] == pytest.approx([0.5] * 4, abs=1e-3)


def test_the_stated_rounding_is_what_some_row_is_off_by(private):
    """Every level with every age at which a line ends, begins or bends: errors of columns add up with their signs."""
    card = private.scorecard()
    (age,) = [column for column in card.columns if column.title == "age"]
    edges = np.array(age.edges)
    ends = [[18.0, 90.0], edges, np.nextafter(edges, -np.inf), private.schemas["bank"].columns[0].knots()]
    rows = pl.DataFrame({"age": np.unique(np.concatenate(ends))}).join(
        pl.DataFrame({"region": ["north", "south", "1.0", "moon"]}), how="cross"
    )
    rows = rows.with_columns(id=pl.int_range(pl.len()))
    off = np.abs(card.points(rows) - card.points_of_scores(private.scores({"bank": rows}))).max()
    assert off <= card.rounding
    assert off == pytest.approx(card.rounding, abs=1e-6)
    apart = card.base_off + sum(max(line.off for line in column.lines) for column in card.columns)
    assert card.rounding < apart + 1e-6


@pytest.mark.parametrize(
    ("column", "first", "last"),
    [
        (co.Numeric("loans", 0, 10), ["up to 0", "1"], "10 and above"),
        (co.Numeric("loans", 0, 10, values=11), ["up to 0", "1"], "10 and above"),
        (co.Numeric("late", 0, 2, values=3), ["up to 0", "1"], "2 and above"),
        (co.Numeric("pay", -2, 8, smooth=3), ["up to -2", "-1"], "8 and above"),
        (co.Numeric("age", 18, 90, values=73), ["up to 21", "22 to 25"], "88 and above"),
        (co.Numeric("ratio", 0, 2), ["below 0.1", "0.1 to below 0.2"], "1.9 and above"),
        (co.Numeric("ratio", 0, 2.5, values=3), ["below 0.15", "0.15 to below 0.3"], "2.4 and above"),
    ],
)
def test_unasked_bins_of_whole_numbers_are_told_in_whole_numbers(column, first, last):
    """Each is straight and worth so much that it has all the bins it may have."""
    effect = _effect(column, [3.0] + [0.0] * (len(column.groups()[0]) - 1))
    bounds = bounds_of(effect, None, 0.05)
    names, low, high, _ = _numbers(effect, bounds)
    assert len(names) <= MOST
    assert [*names[:2], names[-1]] == [*first, last]
    if column.whole:  # of these alone: the effect of a line that is one of them has no width
        assert all(low[k] == high[k] for k, name in enumerate(names) if name.lstrip("-").isdigit())
    places = np.searchsorted(bounds[1:-1], np.arange(column.low, column.high + 1.0), side="right")
    if first[0].startswith("up"):
        for value, place in zip(np.arange(column.low, column.high + 1.0), places, strict=True):
            assert _holds(names[place], int(value))


def _holds(name: str, value: int) -> bool:
    """Whether a line that is told in whole numbers is that of this one."""
    if name.startswith("up to "):
        return value <= int(name.removeprefix("up to "))
    if name.endswith(" and above"):
        return value >= int(name.removesuffix(" and above"))
    low, _, high = name.partition(" to ")
    return int(low) <= value <= int(high or low)


def test_asked_edges_of_declared_whole_numbers_name_those_between_them():
    effect = _effect(co.Numeric("loans", 0, 10, values=11), [1.0])
    edges = bounds_of(effect, [1, 2, 4.5, 6], 0.0)
    assert _numbers(effect, edges)[0] == ["up to 0", "1", "2 to 4", "5", "6 and above"]
    assert _numbers(effect, bounds_of(effect, [1.2, 1.4], 0.0))[0][1] == "1.2 to below 1.4"  # it holds none
    other = _effect(co.Numeric("loans", 0, 10), [1.0])
    assert _numbers(other, edges)[0][1] == "1 to below 2"


def test_a_bin_of_days_is_named_for_the_first_day_in_it():
    """An edge between two days leaves the earlier one below it; one at a day has it above."""
    first = dt.date(2020, 2, 28).toordinal()
    names = ["below 2020-02-29", "2020-02-29 to below 2020-03-02", "2020-03-02 and above"]
    assert _bin_names([first + 0.5, first + 3.0], True, False) == names
    assert _bin_names([], True, False) == ["any value"]


def test_days_never_share_an_edge():
    day = co.Date("since", dt.date(2020, 1, 1), dt.date(2020, 1, 21))
    effect = Effect("bank", day, 0, day.groups()[0], np.array([3.0]))
    names = _numbers(effect, bounds_of(effect, None, 0.05))[0]
    assert len(set(names)) == len(names) <= MOST
    first = dt.date(2020, 1, 5).toordinal()  # a bin between two days begins with the later one
    names = _numbers(effect, bounds_of(effect, [first - 0.5, first + 3], 0.05))[0]
    assert names == ["below 2020-01-05", "2020-01-05 to below 2020-01-08", "2020-01-08 and above"]


def test_the_scale_is_the_one_that_was_asked_for(fit):
    card = fit.scorecard(points=500, odds=20, double=50)
    chance = card.probability(np.array([500.0, 550.0, 600.0, 450.0]))
    assert (1.0 - chance) / chance == pytest.approx([20.0, 40.0, 80.0, 10.0])
    frames = tables(50, seed=2)
    exact = card.points_of_scores(fit.scores(frames))
    assert card.probability(exact) == pytest.approx(fit.predict_proba(frames))


def test_probabilities_are_the_fits_own_where_its_link_bends(fit):
    bent = dataclasses.replace(fit, link=Link(1.3, -0.2, 0.4, 0.3, 0.1, 0.05, 0.9))
    card, frames = bent.scorecard(), tables(80, seed=3)
    exact = card.points_of_scores(bent.scores(frames))
    assert card.probability(exact) == pytest.approx(bent.predict_proba(frames))
    assert "bend away" in str(card)
    other = bent.scorecard(good=1)
    exact = other.points_of_scores(bent.scores(frames))
    assert other.probability(exact) == pytest.approx(1.0 - bent.predict_proba(frames))


def test_bins_follow_the_curves_that_the_fit_shows(fit):
    """Half-way between the least and the largest effect of `fit.curves()` in a bin, less that of another bin."""
    edges = [30.0, 52.0, 71.0]
    (column,) = [one for one in fit.scorecard(bins={"age": edges}).columns if one.title == "age"]
    curve, ends, middles = fit.curves()["age"], [18.0, *edges, 90.0], []
    for low, high in pairwise(ends):
        effects = curve(np.concatenate([[low, high], curve.grid[(curve.grid > low) & (curve.grid < high)]]))
        middles.append((effects.min() + effects.max()) / 2.0)
    meant = -20.0 / math.log(2.0) * np.array(middles)
    assert [line.points for line in column.lines] == np.rint(meant - meant.min()).astype(int).tolist()


def test_points_are_whole_and_the_least_of_every_column_is_none(fit):
    for column in fit.scorecard().columns:
        points = [line.points for line in column.lines]
        assert all(isinstance(one, int) for one in points)
        assert min(points) == 0


@pytest.mark.parametrize("way", [1, -1])
def test_points_that_are_asked_to_be_in_order_are(fit, way):
    card = fit.scorecard(monotone={"age": way, "income": way})
    for column in card.columns:
        if column.title in ("age", "income"):
            inside = [line.points for line in column.lines if line.name != "missing"]
            assert all(way * (b - a) >= 0 for a, b in pairwise(inside))
    frames = tables(500, seed=6)
    assert np.abs(card.points(frames) - card.points_of_scores(fit.scores(frames))).max() <= card.rounding


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 3)), min_size=1, max_size=9), st.sampled_from([1, -1]))
@settings(max_examples=60, deadline=None)
def test_pooled_values_are_the_closest_in_order(pairs, way):
    values, weights = map(np.array, zip(*pairs, strict=True))
    theirs = isotonic_regression(values, sample_weight=weights, increasing=way > 0)
    assert in_order(values, weights, way) == pytest.approx(theirs, abs=1e-9)


def test_a_monotone_curve_gives_points_in_order(private):
    (age,) = [column for column in private.scorecard().columns if column.title == "age"]
    points = [line.points for line in age.lines]
    assert len(points) > 2
    assert points == sorted(points, reverse=True)  # of defaults it never falls, so points never rise


def test_a_private_fit_with_curves_keeps_to_the_stated_rounding(private):
    card, frame = private.scorecard(), private.facts["frame"]
    meant = card.points_of_scores(private.scores({"bank": frame}))
    assert np.abs(card.points(frame) - meant).max() <= card.rounding
    assert card.privacy == str(private.privacy)


# ------------------------------------------------------------------------------------------------ what was released


def test_class_sums_are_kept_with_noise_of_the_size_they_name(private, tmp_path):
    sums, exact = private.release.sums, exact_sums(private).release.sums
    z = np.concatenate([sums.positive - exact.positive, sums.negative - exact.negative]) / np.tile(sums.noise, 2)
    # 14 normal draws, seeded, and rounding to steps far below them: but for one seed in 10^5 within 2 and 52.
    assert 2.0 < np.sum(z**2) < 52.0
    plain = dataclasses.replace(private, facts={})
    plain.save(tmp_path / "fit.json")
    again = co.load(tmp_path / "fit.json").release.sums
    for name, value in vars(sums).items():
        assert np.array_equal(getattr(again, name), value)


def test_woe_and_iv_of_levels_are_those_of_counting(private):
    card, frame = exact_sums(private).scorecard(), private.facts["frame"]
    (region,) = [column for column in card.columns if column.title == "region"]
    counted = frame.group_by("region").agg(bads=pl.col("default").sum(), rows=pl.len()).to_dicts()
    bads, rows = frame["default"].sum(), frame.height
    woe, iv = {}, 0.0
    for one in counted:
        good, bad = (one["rows"] - one["bads"]) / (rows - bads), one["bads"] / bads
        woe[one["region"]] = math.log(good / bad)
        iv += (good - bad) * math.log(good / bad)
    assert {line.name: line.woe for line in region.lines if line.woe is not None} == pytest.approx(woe)
    assert region.iv == pytest.approx(iv)
    assert region.basis == "released counts"
    assert region.lines[-1].share == 0.0  # nobody has any other


def test_a_matrix_of_rows_as_they_are_counts_as_class_sums_do(tmp_path):
    frame = tables(3000)["bank"].drop_nulls().with_columns(id=pl.int_range(pl.len()))
    schema = co.Schema((co.Categorical("region", ("north", "south", "1.0", "moon")),))
    fed = co.Federation.from_frames({"bank": frame}, on="id", label=("bank", "default"), schemas={"bank": schema})
    method = co.PrivateGram(purpose="inference")
    problem, terms = co.Problem(co.Logistic(), intercept=True), co.Privacy(4.0, 1e-6)
    fit = co.fit(fed, problem, method, terms, noise=SeededNoise(1), store=tmp_path)
    matrix = schema.encode(frame).matrix
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    rows = np.column_stack([dense, np.ones(frame.height), 2.0 * frame["default"].to_numpy() - 1.0])
    release = dataclasses.replace(fit.release, matrix=rows.T @ rows, noise=np.zeros((rows.shape[1],) * 2))
    card = dataclasses.replace(fit, released=release).scorecard()
    assert card.columns[0].iv == pytest.approx(card.performance(frame, frame["default"]).iv["region"])


def test_counts_within_their_noise_give_no_woe(private):
    sums = exact_sums(private).release.sums
    loud = dataclasses.replace(sums, noise=np.full(sums.noise.size, sums.count))
    card = dataclasses.replace(private, released=dataclasses.replace(private.release, sums=loud)).scorecard()
    for column in card.columns:
        assert column.iv is None
        assert {line.woe for line in column.lines} == {None}
        assert "noise" in column.why


def _moments(effect, density, log_odds, rows=1e6):
    """Class sums of a number's features by quadrature, and the shares of both classes up to an edge."""
    low, high = effect.knots[0], effect.knots[-1]
    cells = np.linspace(low, high, 200_001)
    v = (cells[1:] + cells[:-1]) / 2.0
    w = density(v)
    w /= w.sum()
    p = 1.0 / (1.0 + np.exp(-log_odds(v)))
    features = np.column_stack(
        [dataclasses.replace(effect, coefficients=row).at_numbers(v) for row in np.eye(len(effect.features))]
    )
    sums = ClassSums(
        positive=rows * (w * p) @ features,
        negative=rows * (w * (1.0 - p)) @ features,
        sd=np.zeros(features.shape[1]),
        squares=rows * w @ features**2,
        count=rows * float(w @ p),
        rows=int(rows),
    )

    def woe(a, b):
        inside = (v >= a) & (v < b)
        good = (w * (1.0 - p))[inside].sum() / (w @ (1.0 - p))
        return math.log(good / ((w * p)[inside].sum() / (w @ p)))

    return sums, woe


def _effect(column, coefficients):
    return Effect("bank", column, 0, column.groups()[0], np.array(coefficients))


@pytest.mark.parametrize(
    ("column", "coefficients", "density"),
    [
        (co.Numeric("age", 18, 90), [0.7], lambda v: ((v - 18) / 72) ** 1.5 * ((90 - v) / 72) ** 3.0),
        (co.Numeric("loans", 0, 20, scale=False), [0.1], lambda v: (v / 20) ** 0.5 * (1 - v / 20) ** 2.0),
        (co.Numeric("age", 18, 90, smooth=2), [0.5, -0.9, 0.4, 0.6], lambda v: np.ones_like(v)),
        (co.Numeric("age", 18, 90), [0.0], lambda v: ((v - 18) / 72) * ((90 - v) / 72)),
    ],
    ids=["line", "own unit", "curve", "unused"],
)
def test_modelled_woe_is_right_where_the_model_is(column, coefficients, density):
    """Beta-distributed lines and evenly spread curves whose log-odds follow the effect: no error but quadrature."""
    effect = _effect(column, coefficients)
    shape = _effect(column, coefficients if any(coefficients) else [0.3])
    sums, woe = _moments(effect, density, lambda v: -1.0 + 1.7 * shape.at_numbers(v))
    low, high = effect.knots[0], effect.knots[-1]
    edges = [low, *(low + (high - low) * np.array([0.2, 0.45, 0.7])), high]
    names = {("bank", one.name): k for k, one in enumerate(effect.features)}
    found = Witness(sums, names, -1).evidence(effect, edges, 4)
    assert found.basis == "modelled"
    wanted = [woe(a, b + (b == high)) for a, b in pairwise(edges)]
    assert [line.woe for line in found.lines] == pytest.approx(wanted, abs=5e-3)


def test_what_is_modelled_is_marked_wherever_it_stands_and_so_is_how_rough_it_is(private, tmp_path):
    card = exact_sums(private).scorecard()
    with card.to_csv(tmp_path / "card.csv").open(newline="") as file:
        rows = {row["column"]: row for row in csv.DictReader(file)}
    assert (rows["age"]["basis"], rows["region"]["basis"]) == ("modelled", "released counts")
    assert "rough where columns go with each other" in rows["age"]["note"]
    assert rows["region"]["note"] == ""
    raw = json.loads(card.to_json(tmp_path / "card.json").read_text())
    assert [column["basis"] for column in raw["columns"]] == ["modelled", "released counts"]
    assert any(note.startswith("Modelled figures") and "a factor of several" in note for note in raw["notes"])
    text, page = str(card), card.to_html(tmp_path / "card.html").read_text()
    age = next(column for column in card.columns if column.title == "age")
    assert f"IV: age {age.iv:.3f}, modelled; region" in text
    assert "Modelled figures come from the fitted effect" in text
    shown = [line for line in text.splitlines() if line.endswith("(modelled)")]
    assert len(shown) == sum(line.woe is not None for line in age.lines)
    assert page.count("<td>modelled</td>") == len(age.lines)
    assert page.count("<td>released counts</td>") >= 3
    assert "modelled, rough where columns go with each other" in page
    assert "Modelled figures come from the fitted effect" in page


def test_what_a_release_lacks_is_said_and_not_guessed(fit, private):
    for column in fit.scorecard().columns:
        assert column.iv is None
        assert "no release" in column.why
    without = dataclasses.replace(private.release, sums=None)
    for release, says in (
        (without, "leave row_norm out"),
        (dataclasses.replace(without, rule="raw", cross="none"), "cross='none' releases no counts"),
        (dataclasses.replace(without, rule="raw", proven=False), "may have been shortened"),
    ):
        card = dataclasses.replace(private, released=release).scorecard()
        assert all(says in column.why for column in card.columns)


# ------------------------------------------------------------------------------------------------ rows at hand


def test_ks_gini_and_iv_are_those_of_others(fit):
    card, frames = fit.scorecard(), tables(900, seed=8)
    bad = frames["bank"]["default"].to_numpy() == 1
    found, points = card.performance(frames, frames["bank"]["default"]), card.points(frames)
    assert found.auc == pytest.approx(roc_auc_score(bad, -points))
    assert found.gini == pytest.approx(2.0 * found.auc - 1.0)
    assert found.ks == pytest.approx(ks_2samp(points[bad], points[~bad]).statistic)
    split = points <= found.ks_at
    assert abs(split[bad].mean() - split[~bad].mean()) == pytest.approx(found.ks)
    assert (found.rows, found.bads) == (900, bad.sum())
    assert sum(t.rows for t in found.tenths) == 900
    assert sum(t.lift * t.rows for t in found.tenths) == pytest.approx(900)
    assert found.tenths[-1].found == 1.0
    assert sum(line.goods + line.bads for line in found.lines) == 900 * len(card.columns)
    assert "not private" in str(found)
    assert "not private" in found._repr_html_()


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("paid", "default"), ("paid", "default")),
        (("not default", "default"), ("late", "default")),
        ((1, 2), (1, 2)),
        ((True, False), (True, False)),
        (("paid", "default"), (0, 1)),
    ],
)
def test_performance_takes_labels_in_their_own_words(fit, classes, words):
    """Those of a class without a name of its own are all that are not of the other."""
    named = dataclasses.replace(fit, facts={**fit.facts, "classes": classes})
    card, frames = named.scorecard(), tables(300, seed=8)
    numbers = frames["bank"]["default"].to_numpy()
    own = pl.Series([words[k] for k in numbers])
    assert card.performance(frames, own) == fit.scorecard().performance(frames, numbers)
    assert str(classes[0]).lower() in str(card).lower()
    with pytest.raises(co.InvalidInput, match=r"300 of 300 are something else"):
        card.performance(frames, np.full(300, 7))


def test_stability_is_nil_against_itself_and_grows_with_the_shift(fit):
    card, frames = fit.scorecard(), tables(900, seed=8)
    same = card.stability(frames, frames)
    assert same.psi == 0.0
    assert set(same.columns.values()) == {0.0}
    older = {**frames, "bank": frames["bank"].with_columns(pl.col("age") + 30.0)}
    moved = card.stability(older, frames)
    assert moved.psi > 0.0
    assert moved.columns["age"] > 0.25
    assert moved.columns["income"] == 0.0
    (age,) = [k for k, column in enumerate(card.columns) if column.title == "age"]
    counts = [np.bincount(card.places(one)[:, age], minlength=len(card.columns[age].lines)) for one in (older, frames)]
    a, e = ((c + 0.5) / (c.sum() + 0.5 * c.size) for c in counts)
    assert moved.columns["age"] == pytest.approx(np.sum((a - e) * np.log(a / e)))
    assert "not private" in str(moved)


def test_stability_against_released_shares_is_told_of_levels_alone(private):
    told = exact_sums(private).scorecard().stability(private.facts["frame"])
    assert told.psi is None
    assert told.columns == {"age": None, "region": pytest.approx(0.0, abs=1e-6)}
    assert told.why == {"age": "its shares were not released"}


def test_noise_of_released_shares_is_never_told_as_a_shift(private):
    card, frame = exact_sums(private).scorecard(), private.facts["frame"]
    (region,) = [column for column in card.columns if column.title == "region"]
    for sd, hides in ((0.005, False), (0.1, True)):
        off = [(line, line.share + side * sd) for line, side in zip(region.lines, (1, -1, 0, 0, 0), strict=False)]
        lines = tuple(dataclasses.replace(line, share=max(share, 0.0), share_sd=sd) for line, share in off)
        told = dataclasses.replace(card, columns=(dataclasses.replace(region, lines=lines),)).stability(frame)
        assert told.columns["region"] == (None if hides else pytest.approx(0.0, abs=1e-6))
        assert ("may hide a PSI" in str(told)) == hides
    moved = frame.with_columns(region=pl.lit(region.lines[0].name))
    assert "moved" in str(dataclasses.replace(card, columns=(region,)).stability(moved))


def test_reasons_are_the_columns_that_lost_most(fit):
    card, frames = fit.scorecard(), tables(40, seed=4)
    rows, places = side_by_side(frames).drop("id", "default"), card.places(frames)
    for k, row in enumerate(rows.to_dicts()):
        lost = {c.title: c.best - c.lines[place].points for c, place in zip(card.columns, places[k], strict=True)}
        reasons = card.reasons(row, most=3)
        assert [one[2] for one in reasons] == sorted((v for v in lost.values() if v > 0), reverse=True)[:3]
        assert all(lost[title] == points for title, _, points in reasons)
    assert card.reasons(rows.head(1)) == card.reasons(rows.to_dicts()[0])


# ------------------------------------------------------------------------------------------------ files


def test_the_exported_scorer_needs_nothing_and_gives_the_same_points(fit, tmp_path):
    card, frames = fit.scorecard(), tables(300, seed=9)
    card.to_python(tmp_path / "scorer.py")
    rows = side_by_side(frames)
    rows.with_columns(pl.col("owner").cast(pl.Boolean)).write_csv(tmp_path / "rows.csv")  # "true" and "false"
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found = list(csv.DictReader(done.stdout.splitlines()))
    assert [int(row["points"]) for row in found] == card.points(rows).tolist()
    chances = [float(row["probability_bad"]) for row in found]
    assert chances == pytest.approx(card.probability(card.points(rows)), abs=1e-6)
    meant = card.points_of_scores(fit.scores(frames))
    assert np.abs(np.array([int(row["points"]) for row in found]) - meant).max() <= card.rounding
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import scorer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert not {"colonnade", "numpy", "polars"} & set(loaded.stdout.split())


@pytest.mark.parametrize(
    ("cell", "place"), [("1", 0), ("1.0", 0), (1.0, 0), ("2.0", 1), ("2", 3), ("1.5", 3), ("x.0", 3)]
)
def test_whole_numbers_among_levels_are_read_with_a_point_too(cell, place):
    column = co.Categorical("zone", ("1", "2.0", "x"))
    levels = {level: k for k, level in enumerate(column.levels)}
    known = {"key": "zone", "kind": "level", "levels": levels, "floats": {"2": 1}, "other": 3, "gap": None}
    assert scorer.places({"zone": cell}, {"columns": [known]}) == [place]
    (found,) = np.flatnonzero([rows.size for rows, _ in column.encode(pl.Series([cell])).columns]).tolist() or [3]
    assert found == place


def test_an_empty_cell_and_nan_are_gaps_of_a_number_in_a_file(fit):
    card, rows = fit.scorecard(), side_by_side(tables(5))
    gaps = card.places(rows.with_columns(income=pl.lit(None)))
    assert np.array_equal(card.places(rows.with_columns(income=pl.lit("NaN"))), gaps)


def test_the_exported_scorer_says_what_is_wrong_without_a_cell(fit, tmp_path):
    fit.scorecard().to_python(tmp_path / "scorer.py")
    rows = side_by_side(tables(3))
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(tmp_path / "rows.csv")]
    for changed, says in (
        (rows.with_columns(age=pl.lit("secret")), "row 1: 'age' holds a value that is no number"),
        (rows.with_columns(age=pl.lit(None)), "'age' is missing, and the model was made for rows without gaps"),
        (rows.with_columns(owner=pl.lit(0.5)), "'owner' holds a value that is neither 0 nor 1"),
        (rows.with_columns(since=pl.lit("secret")), "'since' holds a value that is no day of the form '%Y-%m-%d'"),
        (rows.drop("income"), "the row has no column 'income'"),
    ):
        changed.write_csv(tmp_path / "rows.csv")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert says in done.stderr
        assert "secret" not in done.stderr
    assert subprocess.run(command[:-1], capture_output=True, timeout=60).returncode == 2


def test_csv_json_and_page_hold_the_points_of_the_card(fit, tmp_path):
    card = fit.scorecard()
    lines = [(c.title, line.name, line.points) for c in card.columns for line in c.lines]
    with card.to_csv(tmp_path / "card.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [(one["column"], one["line"], int(one["points"])) for one in found] == [("base", "", card.base), *lines]
    raw = json.loads(card.to_json(tmp_path / "card.json").read_text())
    assert (raw["base"], raw["rounding"]) == (card.base, card.rounding)
    assert [(c["title"], n, p) for c in raw["columns"] for n, p in zip(c["names"], c["points"], strict=True)] == lines
    page = card.to_html(tmp_path / "card.html").read_text()
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    for title, name, points in lines:
        assert title in page
        assert name in page
        assert f">{points}<" in page
    assert [tuple(row) for row in card.table.select("column", "line", "points").rows()] == lines
    with pytest.raises(co.StoreError, match="could not be written"):
        card.to_csv(tmp_path / "nowhere" / "card.csv")


def test_no_cell_of_a_card_begins_a_formula(tmp_path):
    frame = tables(200)["bank"].select("id", pl.col("age").alias("=age"), "default")
    card = co.fit(co.Federation.from_frames({"@bank": frame}, on="id", label=("@bank", "default")), PROBLEM).scorecard()
    with card.to_csv(tmp_path / "card.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["party"], row["column"]) for row in rows} == {("", "base"), ("'@bank", "'=age")}
    card.to_python(tmp_path / "scorer.py")
    frame.write_csv(tmp_path / "rows.csv")
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    reasons = {row["reasons"][:5] for row in csv.DictReader(done.stdout.splitlines())}
    assert reasons <= {"", "'=age"}


def test_names_from_outside_are_escaped_on_the_page(tmp_path):
    frame = tables(200)["bank"].select("id", pl.col("age").alias("<b>age</b>"), "default")
    fed = co.Federation.from_frames({"<i>": frame}, on="id", label=("<i>", "default"))
    page = co.fit(fed, PROBLEM).scorecard().to_html(tmp_path / "card.html").read_text()
    assert "<b>age" not in page
    assert "<i>" not in page
    assert "read off the data" in page


# ------------------------------------------------------------------------------------------------ what is refused


def test_a_name_that_two_parties_have_carries_its_party():
    frames = tables(300)
    frames["bureau"] = (
        frames["bureau"].with_columns(age=100.0 - pl.col("income").fill_null(0.0) / 2000.0).drop("income")
    )
    fed = co.Federation.from_frames(frames, on="id", label=("bank", "default"))
    fit = co.fit(fed, PROBLEM, co.DistributedFrankWolfe(rounds=40))
    card = fit.scorecard(bins={"bank:age": [30.0], "bureau:age": 2})
    assert np.abs(card.points(frames) - card.points_of_scores(fit.scores(frames))).max() <= card.rounding
    both = {"bank:age", "bureau:age"}
    assert both <= {column.key for column in card.columns}
    found = card.performance(frames, frames["bank"]["default"].to_numpy())
    assert both <= set(found.iv) == set(card.stability(frames, frames).columns) == {one.column for one in found.lines}
    with pytest.raises(co.InvalidInput, match="the table has no column 'bank:age'"):
        card.points(frames["bank"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bins": {"nobody": 3}}, "'nobody' is no number of this model"),
        ({"bins": {"region": 3}}, "'region' is no number"),
        ({"bins": {"age": [50, 30]}}, "must rise and lie within its bounds, 18 and 90"),
        ({"bins": {"age": [10]}}, "must rise and lie within its bounds"),
        ({"bins": 0}, "at least one bin"),
        ({"bins": 2.5}, "a whole number of bins, or inner edges"),
        ({"bins": True}, "a whole number of bins, or inner edges"),
        ({"bins": {"age": "12"}}, "a whole number of bins, or inner edges"),
        ({"monotone": 1}, "say it by column"),
        ({"points": "many"}, "points=a str, odds=50.0, double=20.0: give finite numbers"),  # a table would be quoted
        ({"monotone": {"age": 2}}, "write 1, points never fall"),
        ({"odds": 0.0}, "the last two above 0"),
        ({"double": -20}, "the last two above 0"),
        ({"points": math.inf}, "give finite numbers"),
        ({"good": 0}, "which label counts as good"),
    ],
)
def test_what_means_nothing_is_refused(fit, options, says):
    with pytest.raises(co.InvalidInput, match=says):
        fit.scorecard(**options)


def test_models_without_odds_or_bounds_are_refused(fit):
    X = np.random.default_rng(0).normal(size=(40, 3))
    plain = co.Federation.split(X, np.sign(X[:, 0]), parties=1)
    with pytest.raises(co.InvalidInput, match=r"have no schema|has no bounds"):
        co.fit(plain, PROBLEM).scorecard()
    with pytest.raises(co.InvalidInput, match="two classes"):
        co.fit(plain, co.Problem(co.LeastSquares(), co.L1Ball(1.0))).scorecard()
    with pytest.raises(co.InvalidInput, match="no log-odds"):
        co.fit(plain, co.Problem(co.SquaredHinge(), co.L1Ball(1.0))).scorecard()
    with pytest.raises(co.InvalidInput, match="every row has the same odds"):
        dataclasses.replace(fit, link=Link(0.0, -1.0)).scorecard()


def test_a_scorecard_needs_the_coefficients_of_every_party(fit):
    local = {"bank": fit.coefficients["bank"]}
    away = dataclasses.replace(fit, coefficients=Coefficients(local, ["bureau"]))
    with pytest.raises(co.HeldByParty, match="'bureau' are held there"):
        away.scorecard()


def test_rows_that_do_not_fit_the_card_are_refused(fit):
    card, frames = fit.scorecard(), tables(20)
    with pytest.raises(co.InvalidInput, match="the frame of 'bureau' lacks 'income'"):
        card.points({**frames, "bureau": frames["bureau"].drop("income")})
    with pytest.raises(co.InvalidInput, match="no column 'income'"):
        card.points(side_by_side(frames).drop("income"))
    with pytest.raises(co.InvalidInput, match="5 of 20 rows are not in the frame of 'bureau'"):
        card.points({**frames, "bureau": frames["bureau"].head(15)})
    with pytest.raises(co.InvalidInput, match="same key"):
        card.points({**frames, "bureau": pl.concat([frames["bureau"], frames["bureau"].head(1)])})
    with pytest.raises(co.InvalidInput, match="no frame of a party"):
        card.points({})
    with pytest.raises(co.InvalidInput, match="'age' is missing"):
        card.points(side_by_side(frames).with_columns(age=pl.lit(None, pl.Float64)))
    with pytest.raises(co.InvalidInput, match="for one row; this table has 20"):
        card.reasons(side_by_side(frames))
    with pytest.raises(co.InvalidInput, match="give one a row"):
        card.performance(frames, [1, 0])
    with pytest.raises(co.InvalidInput, match="-1 or 0 and 1"):
        card.performance(frames, np.full(20, 2))
    with pytest.raises(co.InvalidInput, match="0 of 20 rows are bad"):
        card.performance(frames, np.zeros(20))
