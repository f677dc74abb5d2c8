"""Figures that simulations, previews and evaluations tell, against hand arithmetic, scikit-learn, and the run itself."""

from __future__ import annotations

import datetime as dt
import math
import re

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, roc_auc_score

import colonnade as co
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.runs.evaluation import evaluate_fit
from colonnade.runs.preview import UNIFORM, preview
from colonnade.runs.simulate import ALONE, FIRST_SEED, TOGETHER, Simulation, Trial, simulate

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

# ------------------------------------------------------------------------------------------------ simulations


def trials(name: str, figures: dict[int, list[float]], budget: float = 1.0, **more) -> list[Trial]:
    found = []
    for split, own in figures.items():
        found += [Trial(name, "secure", budget, split, {"AUC": value}, **more) for value in own]
    return found


def test_repeats_are_averaged_within_a_split_and_errors_are_over_splits():
    own = trials("gram", {0: [0.6, 0.8], 1: [0.9, 0.9], 2: [0.5, 0.7]}, bytes=10, rounds=1, seconds=0.5)
    own[0] = Trial("gram", "secure", 1.0, 0, {"AUC": 0.6}, 40, 4, 3.5)
    other = trials("gram", {0: [0.95]}, budget=4.0)
    found = Simulation((*own, *other), measures=("AUC",)).table()
    means = np.array([0.7, 0.9, 0.6])
    assert found["AUC"].to_list() == pytest.approx([means.mean(), 0.95])
    assert found["AUC ±"][0] == pytest.approx(math.sqrt(np.sum((means - means.mean()) ** 2) / 2 / 3))
    assert found["AUC ±"][1] is None  # of one split there is no spread
    assert found["runs"].to_list() == [6, 1]
    assert found["bytes"].to_list() == [15.0, None]
    assert found["rounds"].to_list() == [1.5, None]
    assert found["seconds"].to_list() == [1.0, None]
    assert found["epsilon"].to_list() == [1.0, 4.0]


def test_a_plot_of_a_simulation_has_its_means_and_whole_errors():
    private = [t for e in (1.0, 4.0) for t in trials("gram", {0: [0.5 + e / 10], 1: [0.7 + e / 20]}, e)]
    public = [Trial(n, "", math.inf, k, {"AUC": v}) for n, v in ((TOGETHER, 0.9), (f"a {ALONE}", 0.6)) for k in (0, 1)]
    public += [Trial(f"b {ALONE}", "", math.inf, k, {"AUC": 0.8 - 0.1 * k}) for k in (0, 1)]
    found = Simulation((*private, *public), measures=("AUC",))
    assert found.best_alone == f"b {ALONE}"
    drawn = found.plot()
    (line,) = drawn.data
    assert list(line.x) == [1.0, 4.0]
    assert list(line.y) == pytest.approx([(0.6 + 0.75) / 2, (0.9 + 0.9) / 2])
    assert list(line.error_y.array) == pytest.approx([0.15 / 2, 0.0], abs=1e-12)  # of two: half their distance
    assert sorted(shape.y0 for shape in drawn.layout.shapes) == pytest.approx([0.75, 0.9])


def test_baselines_of_numbers_are_ridge_regressions_on_rows_set_aside():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (200, 4))
    y = X @ [1.0, -0.5, 0.3, 0.0] + 0.3 * rng.normal(size=200) + 2.0
    parties = {"a": [0, 1], "b": [2, 3]}
    method = (co.SharingADMM(rounds=5), co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1), intercept=True))
    found = simulate(X, y, parties, methods=[method], epsilons=[1.0], splits=3, repeats=2)
    table = found.table()
    assert table.filter(pl.col("method") == "sharing ADMM")["runs"].to_list() == [3]  # without noise once a split
    for name, columns in ((TOGETHER, [0, 1, 2, 3]), (f"a {ALONE}", [0, 1]), (f"b {ALONE}", [2, 3])):
        expected = []
        for seed in range(FIRST_SEED, FIRST_SEED + 3):
            order = np.random.default_rng(seed).permutation(200)
            train, test = np.sort(order[:160]), np.sort(order[160:])
            said = Ridge().fit(X[train][:, columns], y[train]).predict(X[test][:, columns])
            expected.append((r2_score(y[test], said), math.sqrt(np.mean((y[test] - said) ** 2))))
        line = table.filter(pl.col("method") == name).row(0, named=True)
        assert (line["R2"], line["RMSE"]) == pytest.approx(tuple(np.mean(expected, axis=0)), abs=1e-9)
        errors = np.std(expected, axis=0, ddof=1) / math.sqrt(3)
        assert (line["R2 ±"], line["RMSE ±"]) == pytest.approx(tuple(errors), abs=1e-9)


def test_counts_are_judged_by_their_rates_and_classes_by_the_larger_name():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (200, 2))
    counts = rng.poisson(np.exp(1.0 + X[:, 0])).astype(float)
    problem = co.Problem(co.Poisson(), penalty=co.Ridge(1e-3), intercept=True)
    line = simulate(X, counts, 2, problem=problem, methods=[co.SharingADMM(rounds=200)], splits=1).table()
    own = line.filter(pl.col("method") == "sharing ADMM").row(0, named=True)
    order = np.random.default_rng(FIRST_SEED).permutation(200)
    train, test = np.sort(order[:160]), np.sort(order[160:])
    parties = {"a": [0], "b": [1]}
    fit = co.fit(co.Federation.split(X[train], counts[train], parties), problem, co.SharingADMM(rounds=200))
    rates = np.exp(X[test] @ np.concatenate(list(fit.coefficients.values())) + fit.intercept)
    assert own["RMSE"] == pytest.approx(math.sqrt(np.mean((rates - counts[test]) ** 2)), rel=1e-6)
    labels = np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0, "yes", "no")
    method = (co.SharingADMM(rounds=50), co.Problem(co.Logistic(), penalty=co.Ridge(0.1)))
    found = simulate(X, labels, parties, methods=[method], splits=1).table()
    expected = roc_auc_score(labels[test] == "yes", X[test][:, 0])
    assert found.filter(pl.col("method") == f"a {ALONE}")["AUC"].to_list() == pytest.approx([expected])


# ------------------------------------------------------------------------------------------------ previews


def federation(rows: int, columns: int = 4) -> co.Federation:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, columns))
    return co.Federation.split(X, np.where(X[:, 0] > 0, 1.0, -1.0), 2)


EXACT = co.Problem(co.Logistic(), co.L1Ball(2.0))


@pytest.mark.parametrize("rounds", [4, 40])
@pytest.mark.parametrize(("rows", "columns"), [(60, 4), (300, 600)])
def test_previewed_bytes_are_those_of_the_run(rows, columns, rounds):
    """Every round sends as many numbers as there are rows, so that a straight line through two smaller runs is the run
    itself: but for the digits of lengths and rounds, less than 2 %."""
    method = co.SharingADMM(rounds=rounds, tolerance=0.0)
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
    told = preview(federation(rows, columns), problem, method)
    sent = co.fit(federation(rows, columns), problem, method).communication.bytes
    assert told.size == pytest.approx(sent, rel=0.02)
    assert (told.rows, told.method) == (rows, "sharing ADMM")


def test_a_preview_without_privacy_has_no_bound_and_says_so():
    told = preview(federation(60), EXACT, co.DistributedFrankWolfe(rounds=4))
    assert (told.epsilon, told.rho) == (math.inf, math.inf)
    assert told.price == "exact values would leave: no epsilon holds"
    plain = told.plain()
    assert (plain["epsilon"], plain["rho"], plain["delta"]) == (None, None, None)
    assert [line["rho"] for line in plain["leaves"]] == [
        line.rho if math.isfinite(line.rho) else None for line in told.lines
    ]
    assert all(line.times > 0 for line in told.lines)


@pytest.mark.chance(0, "prices are looked at; what a made-up run draws for its bytes is thrown away")
@pytest.mark.parametrize(("asked", "delta"), [(1.0, 1e-6), (4.0, 1e-5)])
def test_a_preview_tells_the_price_that_was_asked_for(asked, delta, tmp_path):
    privacy = co.Privacy(asked, delta, row_norm=2.0, feature_bound=1.0)
    told = preview(federation(60), co.Problem(co.Logistic()), None, privacy, store=tmp_path)
    assert told.epsilon <= asked
    assert told.epsilon == pytest.approx(epsilon(told.rho, delta))
    assert told.epsilon == pytest.approx(asked, rel=0.02)  # what the last whole step of noise leaves
    assert told.rho == pytest.approx(rho_for(asked, delta), rel=0.05)
    assert {line.seen_by for line in told.lines} >= {UNIFORM}
    assert told.plain()["epsilon"] == told.epsilon
    assert f"at delta {delta:g}" in told.price


# ------------------------------------------------------------------------------------------------ evaluations


def claims(rows: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, years = rng.uniform(-1, 1, (rows, 3)), rng.uniform(0.2, 3.0, rows)
    return X, np.log(years), rng.poisson(years * np.exp(0.5 + X[:, 0] - 0.5 * X[:, 2])).astype(float)


def test_counts_with_an_offset_are_judged_at_score_plus_offset():
    parties = {"a": [0, 1], "b": [2]}
    X, offset, y = claims()
    problem = co.Problem(co.Poisson(), penalty=co.Ridge(1e-3), intercept=True)
    fit = co.fit(co.Federation.split(X, y, parties, offset=offset), problem, co.SharingADMM(rounds=200))
    new, beside, counts = claims(seed=1)
    found = evaluate_fit(fit, (co.Federation.split(new, None, parties, offset=beside), counts), "public")
    x = np.concatenate([fit.coefficients[party] for party in parties])

    def error(columns):
        rates = np.exp(new[:, columns] @ x[columns] + fit.intercept + beside)
        return rates, math.sqrt(np.mean((rates - counts) ** 2))

    rates, rmse = error([0, 1, 2])
    off = np.abs(rates - counts)
    assert found.figures["RMSE"][0] == pytest.approx(rmse, rel=1e-9)
    assert found.figures["MAE"][:2] == pytest.approx((off.mean(), off.std(ddof=1) / math.sqrt(150)), rel=1e-9)
    assert found.figures["R²"][0] == pytest.approx(r2_score(counts, rates), rel=1e-9)
    assert found.without == pytest.approx({"a": error([2])[1], "b": error([0, 1])[1]}, rel=1e-9)
    order = np.array_split(np.argsort(rates), 10)
    assert [g[:2] for g in found.groups] == [pytest.approx((rates[k].mean(), counts[k].mean())) for k in order]


def test_figures_of_classes_have_errors_of_few_rows_and_ties():
    """Seven rows, two of them alike: DeLong's error by placements, a half for each tie, and n − 1 under each root."""
    fed = co.Federation.split(np.array([[1.0], [-1.0]] * 5), np.array([1.0, -1.0] * 5), {"a": [0]})
    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=2))
    values = np.array([0.1, 0.4, 0.4, 0.9, 0.2, 0.4, -0.3])
    labels = np.array([-1, 1, -1, 1, 1, -1, -1])
    found = evaluate_fit(fit, (co.Federation.split(values[:, None], None, {"a": [0]}), labels), "public").figures
    high, low = values[labels > 0], values[labels < 0]
    wins = (high[:, None] > low) + 0.5 * (high[:, None] == low)
    error = math.sqrt(wins.mean(axis=1).var(ddof=1) / 3 + wins.mean(axis=0).var(ddof=1) / 4)
    assert found["AUC"][:2] == pytest.approx((wins.mean(), error))
    assert found["Gini"][:2] == pytest.approx((2 * wins.mean() - 1, 2 * error))
    assert found["KS"][0] == pytest.approx(0.5)  # up to 0.1: two of four negative, none of three positive
    rate = 3 / 7
    assert found["base rate"][:2] == pytest.approx((rate, math.sqrt(rate * (1 - rate) / 6)))
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert f"guessing the base rate has {entropy:.4g}" in found["log loss"][2]
    x = fit.coefficients["a"][0]
    chance = 1 / (1 + np.exp(-values * x))
    squares = (chance - (labels > 0)) ** 2
    assert found["Brier score"][:2] == pytest.approx((squares.mean(), squares.std(ddof=1) / math.sqrt(7)))
    lost = np.log1p(np.exp(-labels * values * x))
    assert found["log loss"][:2] == pytest.approx((lost.mean(), lost.std(ddof=1) / math.sqrt(7)))
    right = (values >= 0) == (labels > 0)
    assert found["accuracy"][:2] == pytest.approx((right.mean(), right.std(ddof=1) / math.sqrt(7)))


# ------------------------------------------------------------------------------------------------ predictions and points


def test_a_row_at_even_odds_is_called_positive():
    fed = co.Federation.split(np.array([[1.0], [-1.0]] * 5), np.array([1.0, -1.0] * 5), {"a": [0]})
    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=2))
    new = co.Federation.split(np.array([[0.0], [-1e-9], [1e-9]]), None, {"a": [0]})
    assert fit.predict_proba(new)[0] == 0.5
    assert fit.predict(new).tolist() == [1, -1, 1]


def dated(rows: int = 300) -> tuple[pl.DataFrame, co.Fit]:
    """Who came late, and on a Sunday, in March or at a high rate, defaults more."""
    rng = np.random.default_rng(3)
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 731, rows)]
    rate = rng.uniform(0, 10, rows)
    late = np.array([(day - dt.date(2020, 1, 1)).days for day in days]) / 365 - 1
    odd = np.array([day.isoweekday() == 7 for day in days]) + np.array([day.month == 3 for day in days])
    bad = (rng.random(rows) < 1 / (1 + np.exp(-(2 * late + 1.5 * odd + 0.3 * (rate - 5))))).astype(int)
    frame = pl.DataFrame({"id": range(rows), "day": days, "rate": rate, "bad": bad})
    schema = co.Schema(
        (
            co.Date("day", dt.date(2020, 1, 1), dt.date(2022, 1, 1), parts=("month", "weekday")),
            co.Numeric("rate", 0, 10),
        )
    )
    fed = co.Federation.from_frames({"a": frame}, on="id", label=("a", "bad"), schemas={"a": schema})
    problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True)
    return frame, co.fit(fed, problem, co.SharingADMM(rounds=300))


@pytest.mark.parametrize("good", [-1, 1])
def test_points_of_days_months_and_weekdays_are_those_of_the_score(good):
    frame, fit = dated()
    card = fit.scorecard(points=500, odds=20, double=40, good=good)
    x = dict(zip(fit.features["a"], fit.coefficients["a"], strict=True))
    assert x["day"] > 0.5
    scores = fit.scores({"a": frame})
    days = (frame["day"] - dt.date(2020, 1, 1)).dt.total_days().to_numpy() / 365.5 - 1
    own = x["day"] * days + x["rate"] * (frame["rate"].to_numpy() / 5 - 1) + fit.intercept
    own += [x[f"day.month={m}"] for m in frame["day"].dt.month()]
    own += [x[f"day.weekday={k}"] for k in frame["day"].dt.weekday()]
    assert scores == pytest.approx(own, abs=1e-9)
    exact = 500 + (good * own - math.log(20)) * 40 / math.log(2)
    assert card.points_of_scores(scores) == pytest.approx(exact)
    points = card.points(frame)
    assert np.abs(points - exact).max() <= card.rounding
    assert card.rounding < 40  # so that the claim above says something
    chance = 1 / (1 + np.exp((points - 500) * math.log(2) / 40 + math.log(20)))
    assert card.probability(points) == pytest.approx(chance, rel=1e-9)
    assert fit.predict_proba({"a": frame}) == pytest.approx(1 / (1 + np.exp(-own)))


def test_a_coefficient_for_one_day_more_is_over_half_of_all_days(tmp_path):
    _, fit = dated()
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    body = page[page.index("Coefficients, largest first") :]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in body.split("<tr")]
    found = {row[1]: row[-1] for row in rows if len(row) == 4}
    x = dict(zip(fit.features["a"], fit.coefficients["a"], strict=True))
    assert found["day"] == f"{x['day'] / 365.5:.4g}"  # 731 days
    assert found["rate"] == f"{x['rate'] / 5:.4g}"
    assert found["day.weekday=7"] == f"{x['day.weekday=7']:.4g}"
