"""Every figure that an exact release tells, as users ask for it, is that of statsmodels or of its closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.optimize import brentq, minimize_scalar
from statsmodels.stats.multitest import multipletests

import colonnade as co
from colonnade.problem.inference import LinearModel, Share
from tests.helpers.exact_fits import CLASSES, ROWS, column, design, fitted, noisy, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ALL = ["x0", "flag", "x1", "level=b", "level=c", "x2"]
CASES = [(None, ALL), ("x1", ["x0", "flag", "x2"]), ("flag", ["x0", "x2", "y"]), ("x2", ["x1"])]


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"), CLASSES)


def least_squares(target, names):
    frames = tables()
    return sm.OLS(column(frames, target or "y"), design(frames, names)).fit()


# ------------------------------------------------------------------------------------------------ exact: least squares


@pytest.mark.parametrize(("target", "names"), CASES)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_p_values_and_simultaneous_intervals_are_those_of_least_squares(fit, target, names, level):
    theirs, count = least_squares(target, names), len(names)
    alone = fit.release.regress(target, names, level=level, adjust=None)
    every = fit.release.regress(target, names, level=level, simultaneous=True)
    assert list(alone.pvalues.values()) == pytest.approx(theirs.pvalues, rel=1e-6, abs=1e-250)
    assert np.array(list(alone.intervals.values())) == pytest.approx(theirs.conf_int(1 - level), rel=1e-7, abs=1e-9)
    bonferroni = theirs.conf_int((1 - level) / count)
    assert np.array(list(every.intervals.values())) == pytest.approx(bonferroni, rel=1e-7, abs=1e-9)
    holm = multipletests(theirs.pvalues[:-1], method="holm")[1]
    assert list(every.pvalues.values()) == pytest.approx([*holm, theirs.pvalues[-1]], rel=1e-6, abs=1e-250)
    table = every.table
    assert table["p"].to_list() == pytest.approx(theirs.pvalues, rel=1e-6, abs=1e-250)
    assert table["p_adjusted"].to_list() == pytest.approx(list(every.pvalues.values()))
    assert table.select("low", "high").to_numpy() == pytest.approx(bonferroni, rel=1e-7, abs=1e-9)
    assert table["estimate"].to_list() == pytest.approx(theirs.params, rel=1e-8, abs=1e-10)
    assert table["error"].to_list() == pytest.approx(theirs.bse, rel=1e-8)


@pytest.mark.parametrize(("target", "names"), CASES)
@pytest.mark.parametrize("robust", [1.0, 2.25])
def test_robust_errors_are_wider_by_its_root(fit, target, names, robust):
    theirs = least_squares(target, names)
    ours = fit.release.regress(target, names, robust=robust, adjust=None)
    assert list(ours.errors.values()) == pytest.approx(math.sqrt(robust) * theirs.bse, rel=1e-8)
    p = 2 * stats.t.sf(np.abs(theirs.tvalues) / math.sqrt(robust), theirs.df_resid)
    assert list(ours.pvalues.values()) == pytest.approx(p, rel=1e-6, abs=1e-250)


@pytest.mark.parametrize(("target", "names"), CASES)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_r_squared_holds_what_its_spread_of_normal_rows_keeps(fit, target, names, level):
    """|R̂² − ρ| = z·√(4ρ(1 − ρ)²/n) at both ends, solved by another way; an end that is never reached is 0 or 1."""
    theirs, z = least_squares(target, names).rsquared, stats.norm.ppf(0.5 + level / 2)
    found = fit.release.regress(target, names, level=level).r_squared

    def beyond(rho):
        return (theirs - rho) ** 2 - z**2 * 4 * rho * (1 - rho) ** 2 / ROWS

    low = brentq(beyond, 0.0, theirs) if beyond(0.0) > 0 else 0.0
    assert found.estimate == pytest.approx(theirs, rel=1e-8)
    assert found.low == pytest.approx(low, rel=1e-6)
    assert found.high == pytest.approx(brentq(beyond, theirs, 1 - 1e-6), rel=1e-6)


def test_the_closing_line_holds_fishers_f_and_r_squared(fit):
    theirs, found = least_squares("x1", ["x0", "flag", "x2"]), fit.release.regress("x1", ["x0", "flag", "x2"])
    share = found.r_squared
    text = found.summary()
    assert f"R² {theirs.rsquared:.2f} [{share.low:.2f}, {share.high:.2f}]" in text
    assert f"F(3, {ROWS - 4}) = {theirs.fvalue:,.0f}" in text
    other = fit.release.regress("x2", ["x1"])
    assert f"p = {least_squares('x2', ['x1']).f_pvalue:.3f}".replace("0.", ".") in other.summary()


def test_joint_tests_are_fishers_with_any_value(fit):
    theirs, found = least_squares(None, ALL), fit.inference()
    for names, value in ((["x0", "x1"], 0.0), (["level"], 0.2), (["flag"], 0.5), (["x0", "(constant)"], 0.1)):
        places = [k for k, name in enumerate([*ALL, "(constant)"]) if name in names or name.split("=")[0] in names]
        wanted = theirs.f_test((np.eye(7)[places], np.full(len(places), value)))
        test = found.test(names, value)
        assert test.df == len(places)
        assert test.statistic / test.df == pytest.approx(float(wanted.fvalue), rel=1e-7)
        assert test.pvalue == pytest.approx(float(wanted.pvalue), rel=1e-6, abs=1e-250)
    other, own = least_squares("x1", ["x0", "x2"]), fit.release.regress("x1", ["x0", "x2"])  # 8 is its middle
    wanted = other.f_test((np.eye(3)[[0, 2]], [2.0, 7.9]))
    test = own.contrast([{"x0": 1.0}, {"(constant)": 1.0}], [2.0, 7.9])
    assert (test.statistic / 2, test.pvalue) == pytest.approx((float(wanted.fvalue), float(wanted.pvalue)), rel=1e-6)
    at = other.t_test([1.5, -1.0, 1.0])
    found_at = own.combination({"x0": 1.5, "x2": -1.0, "(constant)": 1.0})
    assert found_at == pytest.approx((float(at.effect[0]), *at.conf_int()[0]), rel=1e-7)
    both = [{"x0": 1.0, "x1": -4.0}, {"level=b": 1.0, "level=c": 1.0}]
    wanted = theirs.f_test((np.array([[1, 0, -4, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0]]), [0.1, 0.5]))
    assert found.contrast(both, [0.1, 0.5]).pvalue == pytest.approx(float(wanted.pvalue), rel=1e-6)


@pytest.mark.parametrize("units", ["data", "encoded"])
def test_anderson_and_rubins_test_is_that_of_the_scores(fit, units):
    """u'(σ²M)⁻¹u of the residuals' products with centred columns, σ² their mean square: as in a score test."""
    frames = tables()
    X, y = design(frames, ["x0", "flag", "x1"])[:, :-1], frames["c"]["y"].to_numpy()
    slopes = {"x0": 0.4, "flag": 0.5}
    half = {"x0": 4.0, "flag": 1.0} if units == "encoded" else {"x0": 1.0, "flag": 1.0}
    found = fit.inference(["x0", "flag", "x1"], units=units)
    rest = y - X @ [0.4, 0.5, 0.0]
    centred, own = X - X.mean(axis=0), rest - rest.mean()
    wanted = own @ centred @ np.linalg.solve(centred.T @ centred * own.var(), centred.T @ own)
    test = found.anderson_rubin({name: value * half[name] for name, value in slopes.items()})
    assert (test.df, test.statistic) == (3, pytest.approx(wanted, rel=1e-7))
    assert test.pvalue == pytest.approx(stats.chi2.sf(wanted, 3), rel=1e-6)
    if units == "data":
        whole, rest = np.column_stack([X, np.ones(ROWS)]), rest - 0.3
        wanted = rest @ whole @ np.linalg.solve(whole.T @ whole * np.mean(rest**2), whole.T @ rest)
        test = found.anderson_rubin(slopes, 0.3)
        assert (test.df, test.statistic) == (4, pytest.approx(wanted, rel=1e-7))


@pytest.mark.parametrize(("simultaneous", "values"), [(False, [1.0, 5.5]), (True, [1.0, 5.5]), (True, [0.0, 3.0, 9.0])])
def test_the_band_of_a_line_is_the_slopes_interval_from_the_middle(fit, simultaneous, values):
    """Of x2, from −2 to 6: values beyond its bounds count as these."""
    theirs = least_squares(None, ALL)
    level = 1 - 0.1 / (len(values) if simultaneous else 1)
    low, high = theirs.conf_int(1 - level)[5]
    far = np.clip(values, -2, 6) - 2.0
    band = fit.inference(level=0.9, simultaneous=simultaneous).curve("x2", values)
    assert band["effect"].to_numpy() == pytest.approx(far * theirs.params[5], rel=1e-7)
    assert band["low"].to_numpy() == pytest.approx(np.minimum(far * low, far * high), rel=1e-6)
    assert band["high"].to_numpy() == pytest.approx(np.maximum(far * low, far * high), rel=1e-6)


# ------------------------------------------------------------------------------------------------ exact: other tables


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_correlations_have_the_interval_of_normal_rows(fit, level):
    """r̂ − r = ∓z·(1 − r²)/√n at its ends."""
    frames, z = tables(), stats.norm.ppf(0.5 + level / 2)
    names = ["x0", "x1", "flag", "y"]
    found = fit.release.correlation(names, level=level)
    assert found.height == 6
    for (a, b), (_, _, r, low, high) in zip(combinations(names, 2), found.iter_rows(), strict=True):
        theirs = float(np.corrcoef(column(frames, a), column(frames, b))[0, 1])
        width = z / ROWS**0.5
        ends = [brentq(lambda e, r=theirs, w=w: r - e - w * (1 - e * e), -0.999, 0.999) for w in (width, -width)]
        assert (r, low, high) == pytest.approx((theirs, *ends), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_inflation_is_that_of_r_squared_at_both_ends(fit, level):
    names = ["x0", "x1", "x2"]
    for name, (_, factor, low, high) in zip(names, fit.release.vif(names, level=level).iter_rows(), strict=True):
        others = [one for one in names if one != name]
        share = fit.release.regress(name, others, level=level).r_squared
        assert factor == pytest.approx(1 / (1 - least_squares(name, others).rsquared), rel=1e-7)
        assert (low, high) == pytest.approx((1 / (1 - share.low), 1 / (1 - share.high)), rel=1e-7)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("names", [["x0", "x1", "x2"], ["x1", "flag"], ["x0"]])
def test_components_have_their_variance_share_interval_and_loadings(fit, names, level):
    """Of columns as they are encoded, half a range as 1; the interval is z·λ·√(2/n) of normal rows."""
    halves = {"x0": 4.0, "x1": 8.0, "x2": 4.0, "flag": 1.0}
    X = np.column_stack([column(tables(), name) / halves[name] for name in names])
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(X.T, bias=True)))
    found, z = fit.release.pca(names, level=level), stats.norm.ppf(0.5 + level / 2)
    assert found["component"].to_list() == [k + 1 for k in range(len(names)) for _ in names]
    for k, (value, vector) in enumerate(zip(values[::-1], vectors.T[::-1], strict=True)):
        own = found.filter(found["component"] == k + 1)
        assert own["variance"].to_list() == pytest.approx([value] * len(names), rel=1e-7)
        spread = z * value * math.sqrt(2 / ROWS)
        assert own["low"][0] == pytest.approx(value - spread, rel=1e-7)
        assert own["high"][0] == pytest.approx(value + spread, rel=1e-7)
        assert own["share"][0] == pytest.approx(value / values.sum(), rel=1e-7)
        assert np.abs(own["loading"].to_numpy() @ vector) == pytest.approx(1.0, rel=1e-7)
        assert own["error"].to_list() == pytest.approx([0.0] * len(names), abs=1e-12)


def odds_distance(counts, covariance, rows, log_odds):
    """The least of (t₁, t₀)·Cov⁻¹·(t₁, t₀) over the share without the first: noise, and binomial sampling."""
    first, both, second = counts

    def at(logit):
        r0, r1 = stats.logistic.cdf(logit), stats.logistic.cdf(logit + log_odds)
        weights = np.array([[-r1, 1.0, 0.0], [r0, -1.0, 1.0]])
        t = np.array([both - r1 * first, second - both - r0 * (rows - first)])
        spread = weights @ covariance @ weights.T
        return t @ np.linalg.solve(spread + np.diag([first * r1 * (1 - r1), (rows - first) * r0 * (1 - r0)]), t)

    about = float(np.log((second - both) / (rows - first - second + both)))
    return float(minimize_scalar(at, bounds=(about - 3, about + 3), method="bounded", options={"xatol": 1e-10}).fun)


def beyond_odds(log_odds, most, *given):
    return odds_distance(*given, log_odds) - most


@pytest.mark.parametrize("sd", [0.0, 4.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_crude_odds_are_those_of_the_table_with_their_score_interval(classes, sd, level):
    """Of labels −1 and 1: rows of both are half of the sum of a column and of its product with the label."""
    release = noisy(classes.release, sd) if sd else classes.release
    frames = tables()
    found = release.crude_odds(level=level)
    assert found["column"].to_list() == ["a:flag", "b:level=a", "b:level=b", "b:level=c"]
    size, most = len(release.columns), stats.norm.ppf(0.5 + level / 2) ** 2
    T = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 0.5]])
    for name, ratio, low, high in found.iter_rows():
        at = release.names.index(name)
        sums = np.array([release.matrix[at, size], release.matrix[at, size + 1], release.matrix[size, size + 1]])
        counts = T @ sums + [0, 0, ROWS / 2]
        if not sd:
            has, won = column(frames, name) == 1, column(frames, "won") == 1
            assert counts == pytest.approx([has.sum(), (has & won).sum(), won.sum()])
            table = sm.stats.Table2x2([[np.sum(i & j) for j in (won, ~won)] for i in (has, ~has)])
            assert ratio == pytest.approx(table.oddsratio, rel=1e-3)
        covariance = T @ np.diag([sd**2 / 2] * 3) @ T.T
        given = (most, counts, covariance, ROWS)
        best = np.log(ratio)
        ends = [brentq(beyond_odds, *sorted((best, end)), given) for end in (best - 4, best + 4)]
        assert (low, high) == pytest.approx(tuple(np.exp(ends)), rel=2e-3)
        assert odds_distance(counts, covariance, ROWS, np.log(ratio)) == pytest.approx(0.0, abs=1e-4)


# ------------------------------------------------------------------------------------------------ exact: which model


def trace_of(X, used, l2):
    """Of the hat matrix of these columns and a constant that no penalty holds."""
    Z = np.column_stack([X[:, used], np.ones(len(X))])
    held = np.diag([ROWS * l2] * len(used) + [0.0])
    return np.trace(np.linalg.solve(Z.T @ Z + held, Z.T @ Z))


@pytest.mark.parametrize("criterion", ["cp", "bic"])
@pytest.mark.parametrize(("target", "names"), [(None, ALL), ("x1", ["x0", "flag", "x2"])])
def test_a_criterion_is_the_residuals_and_a_price_by_coefficient(fit, criterion, target, names):
    """(RSS + price·s²·k)/n: 2 for Cp, log n for BIC; k is the trace of what maps labels to fitted ones. A target that is
    encoded counts half its range as 1."""
    halves = {"x0": 4.0, "x1": 8.0, "x2": 4.0}
    scale = halves.get(target, 1.0)
    whole, y = least_squares(target, names), column(tables(), target or "y")
    price = (2.0 if criterion == "cp" else math.log(ROWS)) * whole.mse_resid
    sets = [names[:1], names[1:], names]
    found = fit.release.select(target, names, candidates=sets, criterion=criterion)
    wanted = []
    for own in sets:
        alone = least_squares(target, own)
        wanted.append((alone.ssr + price * (len(own) + 1)) / ROWS / scale**2)
    assert found.table[criterion].to_list() == pytest.approx(wanted, rel=1e-7)
    assert found.table["coefficients"].to_list() == pytest.approx([len(own) + 1 for own in sets])
    best = int(np.argmin(wanted))
    assert found.best == sets[best]
    assert found.table["above_best"].to_list() == pytest.approx(np.array(wanted) - wanted[best], abs=1e-9)
    assert found.table["may_be_best"].to_list() == [k == best for k in range(3)]
    assert found.table["noise_of_that"].to_list() == [0.0] * 3
    assert found.table["candidate"].to_list() == [", ".join(own) for own in sets]
    X = np.column_stack([column(tables(), name) / halves.get(name, 1.0) for name in names])
    X -= np.array([1.0 if name == "x1" else 0.5 if name == "x2" else 0.0 for name in names])  # middles, in halves
    penalties = [co.Ridge(0.02), co.Ridge(0.5), co.Lasso(0.03), co.ElasticNet(0.02, 0.1)]
    found = fit.release.select(target, names, candidates=penalties, criterion=criterion)
    for k, term in enumerate(penalties):
        one = fit.release.select(target, names, candidates=[term], criterion=criterion)
        beta = np.array(list(one.coefficients.values()))
        l1, l2 = (0.0, term.a) if isinstance(term, co.Ridge) else (getattr(term, "l1", None), getattr(term, "l2", 0.0))
        l1 = term.a if l1 is None else l1
        t = (y - {"x1": 8.0}.get(target, 0.0)) / scale
        slope = X.T @ (X @ beta[:-1] + beta[-1] - t) / ROWS + l2 * beta[:-1]
        assert (np.abs(slope) <= l1 + 1e-8).all()
        used = np.flatnonzero(beta[:-1])
        assert slope[used] == pytest.approx(-l1 * np.sign(beta[used]), abs=1e-8)
        size = trace_of(X, used, l2)
        rss = np.sum((t - X @ beta[:-1] - beta[-1]) ** 2)
        assert found.table["coefficients"][k] == pytest.approx(size, rel=1e-7)
        assert found.table[criterion][k] == pytest.approx((rss + price / scale**2 * size) / ROWS, rel=1e-7)


def test_unasked_candidates_are_a_path_from_the_weight_that_lets_no_column_in(fit):
    frames = tables()
    X = np.column_stack([column(frames, "x0") / 4, column(frames, "x2") / 4])
    pulls = (X - X.mean(axis=0)).T @ frames["c"]["y"].to_numpy() / ROWS
    found = fit.release.select(on=["x0", "x2"])
    weights = np.geomspace(np.abs(pulls).max(), np.abs(pulls).max() / 1000, 20)
    assert found.table.height == 20
    for text, weight in zip(found.table["candidate"], weights, strict=True):
        assert float(text.partition("a=")[2].rstrip(")")) == pytest.approx(weight, rel=1e-9)
    assert found.table["coefficients"][0] == pytest.approx(1.0)
    assert found.table["coefficients"][1] == pytest.approx(2.0)


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_people_of_more_than_one_row_have_no_errors_of_independent_rows(fit, rows):
    release = replace(fit.release, unit_rows=rows)
    if rows == 1:
        assert release.refusal is None
    else:
        assert f"may have {rows} rows" in str(release.refusal)
        with pytest.raises(co.InvalidInput, match=f"may have {rows} rows"):
            release.correlation()


def test_the_state_follows_from_the_index_of_weakness(fit):
    """Up to 0.2 determined, up to 0.5 weak: said in words, in the table and by what is refused."""
    seen = set()
    for sd in (1.5, 9.0, 40.0, 70.0, 200.0):
        found = noisy(fit.release, sd, seed=1).regress("y", ["x0", "x2", "flag"], drop=None, level=0.1)
        state = "determined" if found.xi <= 0.2 else "weak" if found.xi <= 0.5 else "not determined"
        assert found.state == state
        assert set(found.table["state"]) <= {state, "not determined"}
        assert ("Weak: intervals hold" in found.summary()) == (state == "weak")
        seen.add(state)
        if state == "not determined":
            assert set(found.intervals.values()) == {(-math.inf, math.inf)}
            with pytest.raises(co.InvalidInput, match="does not determine"):
                found.test("x0")
        else:
            assert found.test("x0").df == 1
    assert seen == {"determined", "weak", "not determined"}


def test_the_most_frequent_level_is_compared_with_unless_another_is_named(fit):
    frames = tables()
    found = fit.inference(references={"level": "level=c"})
    theirs = sm.OLS(column(frames, "y"), design(frames, ["x0", "flag", "x1", "level=a", "level=b", "x2"])).fit()
    assert found.references == {"b:level": "b:level=c"}
    assert list(found.coefficients.values()) == pytest.approx(theirs.params, rel=1e-7)
    assert fit.inference().references == {"b:level": "b:level=a"}
    assert list(fit.release.counts().values()) == pytest.approx(
        [column(frames, name).sum() for name in ("flag", "level=a", "level=b", "level=c")]
    )


def test_a_warning_names_the_largest_share_of_sampling_unless_robust_was_asked_for(fit):
    release = noisy(fit.release, 1.5, seed=1)
    found = release.regress("y", ["x0", "x2"], drop=None)
    most = max(found.sampling_share[name] for name in found.names)
    assert most > 0.25
    assert f"sampling has up to {most:.0%} of a variance" in found.summary()
    assert "sampling has up to" not in release.regress("y", ["x0", "x2"], drop=None, robust=1.5).summary()
    assert "sampling has up to" not in fit.inference().summary()
    loud = noisy(fit.release, 30.0, seed=1).regress("y", ["x0", "x2"], drop=None)
    assert max(loud.sampling_share.values()) < 0.25
    assert "sampling has up to" not in loud.summary()


def test_the_summary_writes_the_figures_of_the_table(fit):
    """Three digits that count, p to three places, shares of sampling and noise in whole percents."""
    found = noisy(fit.release, 1.5, seed=2).regress("y", ["x0", "x2", "flag"], drop=None, level=0.9)
    lines = {line.split()[0]: line.split() for line in found.summary().splitlines() if ":" in line.split("  ")[0]}
    assert "90 % interval" in found.summary()
    for name, p in found.pvalues.items():
        if name == "(constant)":
            continue
        cells = lines[name]
        low, high = found.intervals[name]
        assert float(cells[1]) == pytest.approx(found.coefficients[name], rel=0.005)
        assert [float(cells[2].strip("[,")), float(cells[3].strip("]"))] == pytest.approx([low, high], rel=0.005)
        assert cells[4:-3] == (["<", ".001"] if p < 0.0005 else [f"{p:.3f}".lstrip("0")])
        share = found.sampling_share[name]
        assert cells[-3:] == [f"{share:.0%}", "/", f"{1 - share:.0%}"]


def test_what_is_not_determined_is_null_in_the_table(fit):
    found = noisy(fit.release, 200.0, seed=1).regress("y", ["x0", "x2", "flag"], drop=None).table
    assert found["estimate"].null_count() == found.height
    assert found["p"].null_count() == found.height
    assert found["low"].to_list() == [-math.inf] * found.height


# ------------------------------------------------------------------------------------------------ columns and targets


@pytest.mark.parametrize(
    ("target", "names", "flags", "lists"),
    [
        ("flag", ["x0", "level=b", "level=c", "x2"], [False, True, True, False], [-1, 0, 0, -1]),
        ("level=b", ["flag", "x1"], [True, False], [-1, -1]),
    ],
)
def test_of_a_target_of_zeros_and_ones_flags_and_levels_are_known_as_such(fit, target, names, flags, lists):
    two = noisy(fit.release, 1.5, seed=1).regress(target, names, drop=None).model.two
    assert (two.low, two.high) == (0.0, 1.0)
    assert two.flags.tolist() == flags
    assert two.lists.tolist() == lists


def test_a_number_has_no_two_values_and_classes_run_from_minus_one(fit, classes):
    assert noisy(fit.release, 1.5, seed=1).regress("x1", ["x0", "flag"], drop=None).model.two is None
    assert fit.release.regress("flag", ["x0"]).model.two is None  # errors without noise are the classical ones
    two = noisy(classes.release, 1.5, seed=1).regress(None, ["x0", "flag"], drop=None).model.two
    assert (two.low, two.high, two.flags.tolist()) == (-1.0, 1.0, [False, True])


def test_the_table_has_a_state_for_each_coefficient_of_its_own(fit):
    """One that is not determined says so, whatever the others are."""
    found = noisy(fit.release, 1.5, seed=1).regress("y", ["x0", "x2", "flag"], drop=None)
    whole = found._found
    some = np.array([True, False, True, True])
    assert whole.determined.all()
    found.__dict__["_found"] = whole._replace(low=np.where(some, whole.low, -math.inf))
    assert found._found.determined.tolist() == some.tolist()
    assert found.table["state"].to_list() == [found.state, "not determined", found.state, found.state]
    assert found.table["estimate"].is_null().to_list() == [False, True, False, False]


def test_a_column_that_is_named_twice_is_taken_once(fit):
    assert fit.release.find(["level=b", "level", "b:level=b"]) == fit.release.find(["level=b", "level=a", "level=c"])
    assert fit.release.find(["x1", "x1"]) == fit.release.find("x1")


def test_inflation_is_at_least_one_and_finite_at_the_ends_of_an_interval(fit, monkeypatch):
    """R² below 0 counts as 0, and R² of 1 as a billionth less."""
    monkeypatch.setattr(LinearModel, "r_squared", lambda self, level: Share(0.5, -0.2, 1.0))
    for _, factor, low, high in fit.release.vif(["x0", "x1"]).iter_rows():
        assert (factor, low) == (2.0, 1.0)
        assert high == pytest.approx(1e9, rel=1e-6)
