"""Standard errors of a private fit: given where intervals of them hold the truth, and nowhere else."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import colonnade as co
from colonnade.methods.gram.rule import Gram, PublicColumns, as_they_are, noise_levels, prepare
from colonnade.methods.gram.solve import solve
from colonnade.privacy.mechanisms import SeededNoise

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

NUMBERS = co.Problem(co.LeastSquares(), intercept=True)
MISSED = 1.0 - (stats.norm.cdf(1.96 - 0.25) - stats.norm.cdf(-1.96 - 0.25))  # .057, off by a quarter of an error
BOUND, LABELS, LEVEL = 3.0, 5.0, 0.3


class Population:
    """Normal columns of variance 1, correlated, of two parties; labels of variance 1, of which r2 is explained.

    The Gram of n rows is drawn as such (Wishart's law), so that millions of rows cost nothing. Noise is what a secure run
    brings, written here by hand: g = √2·C²·1.35/√(2ρ) on the diagonal, g/√2 off it, √2 times that between parties.
    """

    def __init__(self, d, r2, seed, one=False):
        rng = np.random.default_rng(seed)
        mixed = 0.3 * rng.normal(size=(d, d)) / np.sqrt(d) + 0.7 * np.eye(d)
        within = mixed @ mixed.T / np.mean(np.sum(mixed**2, axis=1))
        weights = np.eye(d)[0] if one else rng.normal(size=d)
        self.truth = weights * np.sqrt(r2 / (weights @ within @ weights))
        self.covariance = np.zeros((d + 1, d + 1))
        self.covariance[:d, :d] = within
        self.covariance[:d, d] = self.covariance[d, :d] = within @ self.truth
        self.covariance[d, d] = 1.0
        mean = rng.uniform(-0.5, 0.5, d)
        self.mean, self.rng, self.d = np.append(mean, mean @ self.truth + LEVEL), rng, d
        owner = np.repeat([0, 1], [d - d // 2, d // 2])
        lengths = BOUND * np.sqrt(np.bincount(owner, minlength=2))
        self.columns = PublicColumns(
            *(owner, lengths, np.full(d, BOUND), np.zeros(d, bool), np.zeros(d, bool), np.zeros(d, int), np.ones(d))
        )

    def fit(self, rows, rho):
        d, wide = self.d, np.zeros((self.d + 2, self.d + 2))
        mean = self.mean + np.linalg.cholesky(self.covariance) @ self.rng.normal(size=d + 1) / np.sqrt(rows)
        sums = stats.wishart.rvs(rows - 1, self.covariance, random_state=self.rng) + rows * np.outer(mean, mean)
        places = [*range(d), d + 1]
        wide[np.ix_(places, places)] = sums
        wide[d, places] = wide[places, d] = rows * mean
        wide[d, d] = rows
        rule, frame = prepare(as_they_are(d, rho), self.columns, rows)
        length2 = BOUND**2 * d
        weights = np.append(np.ones(d), [np.sqrt(0.1 * length2), np.sqrt(0.25 * length2) / LABELS])
        g = np.sqrt(2.0) * 1.35 * length2 / np.sqrt(2.0 * rho)
        sds = noise_levels(self.columns.owner, 0, g, labels_fixed=False)
        noise = np.triu(self.rng.normal(size=sds.shape))
        noise = (noise + np.triu(noise, 1).T) * sds
        gram = Gram.of(frame.extended(rule, LABELS), wide * np.outer(weights, weights) + noise, sds)
        return solve(gram, frame, rule, NUMBERS, rows=rows, columns=d, label_bound=LABELS)


def missed(population, rows, rho, repeats):
    """How often errors were given, and by coefficient how often they were given and missed the truth."""
    given, wrong = 0, np.zeros(population.d)
    for _ in range(repeats):
        solved = population.fit(rows, rho)
        if solved.uncovered is None:
            given += 1
            wrong += np.abs(solved.coefficients - population.truth) > 1.96 * solved.errors
    return given, wrong


# d, rows, rho, r2, whether only one column counts: half of the variance from noise, little of it, and coefficients at the edge
CELLS = [
    (1, 50_000, 0.3, 0.5, True),
    (3, 50_000, 0.02, 0.03, True),
    (3, 50_000, 2.0, 0.1, False),
    (3, 500_000, 2.0, 0.5, True),
    (6, 50_000, 2.0, 0.03, True),
    (6, 500_000, 0.02, 0.0, True),
]
MORE = [
    (d, rows, rho, r2, True)
    for d in (1, 3, 8, 20)
    for rows in (5_000, 50_000, 500_000, 5_000_000)
    for rho in (0.02, 0.3, 2.0)
    for r2 in (0.0, 0.01, 0.1, 0.5)
]


def over(cells, repeats):
    """Cells in which a coefficient was missed more often than chance explains, and how many gave errors at all.

    Counts are held against the binomial law at MISSED, all of them together at a level of 1e-5.
    """
    tests = sum(d for d, *_ in cells)
    most = stats.binom.isf(1e-5 / tests, repeats, MISSED)
    found = [missed(Population(d, r2, n, one), rows, rho, repeats) for n, (d, rows, rho, r2, one) in enumerate(cells)]
    worse = [cell for cell, (_, wrong) in zip(cells, found, strict=True) if wrong.max() > most]
    return worse, [given for given, _ in found]


def test_where_errors_are_given_95_percent_intervals_of_them_hold_the_truth():
    worse, given = over(CELLS, 300)
    assert not worse
    assert all(given)


@pytest.mark.audit
def test_where_errors_are_given_intervals_hold_the_truth_over_a_wide_grid():
    worse, given = over(MORE, 200)
    assert not worse
    assert np.count_nonzero(given) > 40


@pytest.mark.parametrize(
    ("d", "rows", "rho", "r2"), [(6, 5_000, 0.02, 0.5), (12, 50_000, 0.02, 0.5), (6, 5_000, 2.0, 0.5)]
)
def test_where_intervals_would_miss_no_errors_are_given(d, rows, rho, r2):
    """At these sizes the strongest coefficient is missed far more often than 1 time in 20, which is checked here too."""
    population = Population(d, r2, 1, one=True)
    fits = [population.fit(rows, rho) for _ in range(60)]
    wrong = sum(abs(fit.coefficients[0] - population.truth[0]) > 1.96 * fit.errors[0] for fit in fits)
    assert wrong > stats.binom.isf(1e-5, 60, MISSED)
    assert all(fit.uncovered for fit in fits)


# ---------------------------------------------------------------------------------------- whole runs


def table(rows=20_000, schema_norm=None, alike=0.0):
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (rows, 2))
    x[:, 1] = alike * x[:, 0] + (1.0 - alike) * x[:, 1]
    y = np.clip(0.3 * x[:, 0] + rng.normal(0, 1, rows), -4, 4)
    frames = {
        "a": pl.DataFrame({"id": np.arange(rows), "u": x[:, 0], "y": y}),
        "b": pl.DataFrame({"id": np.arange(rows), "v": x[:, 1]}),
    }
    schemas = {
        "a": co.Schema((co.Numeric("u", -1, 1, smooth=False),), row_norm=schema_norm),
        "b": co.Schema((co.Numeric("v", -1, 1, smooth=False),)),
    }
    return co.Federation.from_frames(frames, on="id", label=("a", "y"), schemas=schemas)


def run(store, fed=None, problem=NUMBERS, method=None, epsilon=8.0, trust="secure", **terms):
    labels = {} if problem.loss.classifies else {"label_range": (-4.0, 4.0)}
    asked = co.Privacy(epsilon, 1e-6, trust=trust, **labels, **terms)
    return co.fit(fed or table(), problem, method or co.PrivateGram(), asked, store=store, noise=SeededNoise(5))


@pytest.mark.parametrize("trust", ["secure", "consortium"])
def test_a_run_gives_errors_where_everything_proves_them(trust, tmp_path):
    fit = run(tmp_path, trust=trust)
    assert fit.spread is not None
    assert list(fit.spread) == ["a", "b"]
    assert any("residuals spread alike" in remark for remark in fit.remarks)
    again = co.load(next((tmp_path / "fits").glob("*.json")))
    assert all(np.array_equal(again.spread[party], fit.spread[party]) for party in fit.spread)


CLASSES = co.Problem(co.Logistic(), intercept=True)
LASSO = co.Problem(co.LeastSquares(), penalty=co.Lasso(0.01), intercept=True)
PENALTY = co.Problem(co.LeastSquares(), penalty=co.Ridge(1.0), intercept=True)


@pytest.mark.chance(0, "noise is seeded, and masks alone are drawn")
@pytest.mark.parametrize(
    ("why", "asked"),
    [
        ("labels are classes", {"problem": CLASSES}),
        ("chooses among the columns", {"problem": LASSO}),
        ("moves a coefficient", {"problem": PENALTY}),
        ("prove that rows", {"row_norm": 1.0}),
        ("prove that rows", {"feature_bound": 0.5}),
        ("prove that rows", {"schema_norm": 0.5}),
        ("noise is too large", {"epsilon": 2.0, "alike": 0.9}),
        ("centred", {"epsilon": 0.01}),
        ("left out", {"method": co.PrivateGram(cross="none"), "trust": "nobody"}),
        ("centred", {"method": co.PrivateGram(screen=1)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.filterwarnings("ignore::colonnade.MostlyNoise", "ignore::colonnade.NothingToLearn")
def test_a_run_gives_no_errors_that_are_not_known_to_cover_and_says_why(why, asked, tmp_path):
    made = {name: asked[name] for name in ("schema_norm", "alike") if name in asked}
    terms = {name: value for name, value in asked.items() if name not in made}
    fit = run(tmp_path, table(4_096 if "method" in asked else 20_000, **made), **terms)
    assert fit.spread is None
    said = [remark for remark in fit.remarks if remark.startswith("no standard errors: ")]
    assert len(said) == 1
    assert why in said[0]
    assert co.load(next((tmp_path / "fits").glob("*.json"))).spread is None


def test_a_matrix_without_a_schema_has_no_errors(tmp_path):
    rng = np.random.default_rng(4)
    fed = co.Federation.split(
        rng.uniform(-1, 1, (20_000, 2)), rng.uniform(-1, 1, 20_000), parties={"a": [0], "b": [1]}, label="a"
    )
    assert run(tmp_path, fed, row_norm=2.0, feature_bound=1.0).spread is None
