"""With seeded noise, what users read of a release is its definition, entry by entry of the noisy matrix."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.multitest import multipletests

import colonnade as co
from tests.helpers.exact_fits import CLASSES, ROWS, SCHEMAS, column, fitted, noisy, tables

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

SD = 1.5  # of seeded noise: small beside what columns hold, large beside rounding


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> co.Fit:
    return fitted(tmp_path_factory.mktemp("store"), CLASSES)


class Noisy:
    """A model from its definition: every entry of the noisy matrix is looked at for itself."""

    def __init__(self, release: co.Release, target: str, names: list[str]) -> None:
        places = [*(release.names.index(one) for one in names), len(release.columns)]
        aim = release.names.index(target)
        places.append(aim if aim < len(release.columns) else aim + 1)
        self.A, self.sd = release.matrix[np.ix_(places, places)], release.noise[np.ix_(places, places)]
        self.p = len(places) - 1
        self.pairs = [(i, j) for i in range(self.p + 1) for j in range(i, self.p + 1)]
        M = self.A[:-1, :-1]
        R = np.zeros_like(M)
        for _ in range(400):  # R = E[E·G·E], G = (M + R)⁻¹
            R = 0.5 * R + 0.5 * self.mixed(np.linalg.inv(M + R))
        self.G, self.R = np.linalg.inv(M + R), R
        self.beta = self.G @ self.A[:-1, -1]
        own = sum(self.sd[i, -1] ** 2 * self.G[i, i] for i in range(self.p))
        self.rss = self.A[-1, -1] - self.A[:-1, -1] @ self.beta + own
        self.tss = self.A[-1, -1] - (self.A[-2, -1] ** 2 - self.sd[-2, -1] ** 2) / ROWS
        self.s2 = self.rss / (ROWS - self.p)
        self.sampling = self.s2 * (M + R)

    def entries(self, i, j):
        """What an error of 1 in an entry moves: both places of it."""
        E = np.zeros_like(self.A)
        E[i, j] = E[j, i] = 1.0
        return E

    def mixed(self, Y):
        out = np.zeros_like(Y)
        for i, j in self.pairs:
            E = self.entries(i, j)[:-1, :-1]
            out += self.sd[i, j] ** 2 * E @ Y @ E
        return out

    def score_noise(self, beta):
        """The covariance of E·(β, −1), without its last entry."""
        moved = [self.sd[i, j] * (self.entries(i, j) @ np.append(beta, -1.0))[:-1] for i, j in self.pairs]
        return sum(np.outer(one, one) for one in moved)

    def form_variance(self, H):
        return sum((self.sd[i, j] * np.sum(self.entries(i, j) * H)) ** 2 for i, j in self.pairs)

    def covariance(self, beta):
        return self.G @ (self.score_noise(beta) + self.sampling) @ self.G

    def test(self, k, value):
        """(estimate − value)², its variance under that value, and the degrees of freedom of the latter."""
        C = self.covariance(self.beta)
        moved = self.beta + C[:, k] / C[k, k] * (value - self.beta[k])
        share = (self.G @ self.sampling @ self.G)[k, k] / C[k, k]
        gamma = np.append(self.beta, -1.0)
        doubt = 2 / (ROWS - self.p) + self.form_variance(np.outer(gamma, gamma)) / self.rss**2
        return (self.beta[k] - value) ** 2, self.covariance(moved)[k, k], 2 / doubt / share**2, share

    def pvalue(self, k, value=0.0):
        square, variance, df, _ = self.test(k, value)
        return 2 * stats.t.sf(math.sqrt(square / variance), df)

    def interval(self, k, level):
        far = 40 * math.sqrt(self.covariance(self.beta)[k, k])
        middle = self.beta[k]
        return tuple(
            brentq(lambda v: self.pvalue(k, v) - (1 - level), *sorted((middle, middle + s * far))) for s in (-1, 1)
        )

    def r_squared(self, level):
        z2 = stats.norm.ppf(0.5 + level / 2) ** 2
        gamma = np.append(self.beta, -1.0)
        around = np.append(np.zeros(self.p - 1), [-self.A[-2, -1] / ROWS, 1.0])
        learnt = self.G @ self.score_noise(self.beta)
        estimate = 1 - self.rss / self.tss

        def beyond(rho):
            H = np.outer(gamma, gamma) - (1 - rho) * np.outer(around, around)
            spread = self.form_variance(H) + 2 * np.trace(learnt @ learnt)
            spread += self.tss**2 * 4 * rho * (1 - rho) ** 2 / ROWS
            return (self.rss - (1 - rho) * self.tss) ** 2 - z2 * spread

        return estimate, brentq(beyond, 0, estimate) if beyond(0) > 0 else 0.0, brentq(beyond, estimate, 1)


NOISY = [("c:y", ["a:x0", "a:flag", "b:x1"]), ("b:x1", ["a:x0", "c:x2"]), ("c:y", ["b:x1"])]


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("target", "names"), NOISY)
def test_with_noise_every_figure_is_that_of_its_definition(fit, target, names, level):
    release = noisy(fit.release, SD, seed=3)
    ours = release.regress(target, names, level=level, drop=None, units="encoded", adjust=None)
    every = release.regress(target, names, level=level, drop=None, units="encoded", simultaneous=True)
    theirs = Noisy(release, target, names)
    assert list(ours.coefficients.values()) == pytest.approx(theirs.beta, rel=1e-7)
    C = theirs.covariance(theirs.beta)
    assert list(ours.errors.values()) == pytest.approx(np.sqrt(np.diag(C)), rel=1e-7)
    for k, name in enumerate(ours.coefficients):
        assert ours.sampling_share[name] == pytest.approx(theirs.test(k, 0.0)[3], rel=1e-7)
        assert ours.pvalues[name] == pytest.approx(theirs.pvalue(k), rel=1e-5, abs=1e-250)
        assert ours.intervals[name] == pytest.approx(theirs.interval(k, level), rel=1e-6)
        joint = 1 - (1 - level) / len(names)
        assert every.intervals[name] == pytest.approx(theirs.interval(k, joint), rel=1e-6)
    holm = multipletests([theirs.pvalue(k) for k in range(len(names))], method="holm")[1]
    assert list(every.pvalues.values())[:-1] == pytest.approx(holm, rel=1e-5, abs=1e-250)
    assert ours.r_squared == pytest.approx(theirs.r_squared(level), rel=1e-6)
    halves = {"a:x0": (4.0, 0.0), "a:flag": (1.0, 0.0), "b:x1": (8.0, 8.0), "c:x2": (4.0, 2.0), "c:y": (1.0, 0.0)}
    data = release.regress(target, names, level=level, drop=None)
    for k, name in enumerate(names):
        per = halves[target][0] / halves[name][0]
        assert data.coefficients[name] == pytest.approx(theirs.beta[k] * per, rel=1e-7)
        assert data.intervals[name] == pytest.approx(tuple(per * end for end in ours.intervals[name]), rel=1e-7)


@pytest.mark.parametrize("names", [["a:x0", "b:x1", "c:x2"], ["b:x1", "a:flag"]])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_components_of_a_noisy_matrix_are_less_by_what_noise_adds_to_them(fit, names, level):
    """Second order of an eigenvalue: Σ (w_j'·E·w_k)²/(λ_k − λ_j) on average; loadings turn by its first order."""
    release = noisy(fit.release, 0.1, seed=5)
    places = [*(release.names.index(name) for name in names), len(release.columns)]
    A, sd = release.matrix[np.ix_(places, places)], release.noise[np.ix_(places, places)]
    s, z = len(names), stats.norm.ppf(0.5 + level / 2)
    mean = A[:-1, -1] / ROWS
    S = A[:-1, :-1] - ROWS * np.outer(mean, mean)
    values, vectors = np.linalg.eigh(S)
    W = np.vstack([vectors, -mean @ vectors])
    moved = []  # by entry, what an error of one sd does to every product of two directions
    for i in range(s + 1):
        for j in range(i, s + 1):
            E = np.zeros_like(A)
            E[i, j] = E[j, i] = sd[i, j]
            moved.append(W.T @ E @ W)
    found = release.pca(names, level=level)
    assert found.height == s * s
    for place, k in enumerate(reversed(range(s))):
        own = found.filter(found["component"] == place + 1)
        rest = [j for j in range(s) if j != k]
        shift = sum(one[j, k] ** 2 / (values[k] - values[j]) for one in moved for j in rest)
        assert abs(shift) > 1e-8 * values[k]
        size = values[k] - shift
        spread = math.sqrt(sum(one[k, k] ** 2 for one in moved) + 2 * values[k] ** 2 / ROWS)
        assert own["variance"][0] * ROWS == pytest.approx(size, rel=1e-9)
        assert own["low"][0] * ROWS == pytest.approx(size - z * spread, rel=1e-7)
        assert own["high"][0] * ROWS == pytest.approx(size + z * spread, rel=1e-7)
        assert own["share"][0] == pytest.approx(size / np.trace(S), rel=1e-9)
        turns = [sum(vectors[:, j] * one[j, k] / (values[k] - values[j]) for j in rest) for one in moved]
        assert own["error"].to_list() == pytest.approx(np.sqrt(np.sum(np.square(turns), axis=0)), rel=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_correlations_of_a_noisy_matrix_count_the_noise_of_every_entry(fit, level):
    """Ends solve (S_ij − r·√(S_ii·S_jj))² = z²·its variance, to first order in the released entries."""
    release = noisy(fit.release, 2.0, seed=6)
    names, z2 = ["a:x0", "b:x1", "c:y"], stats.norm.ppf(0.5 + level / 2) ** 2
    size = len(release.columns)
    for a, b, r, low, high in release.correlation(names, level=level).iter_rows():
        i, j = (release.names.index(one) + (one == "c:y") for one in (a, b))
        entries = [(i, j), (i, i), (j, j), (i, size), (j, size)]
        x, sd = (np.array([m[e] for e in entries]) for m in (release.matrix, release.noise))

        def own(x):
            return x[0] - x[3] * x[4] / ROWS, x[1] - x[3] ** 2 / ROWS, x[2] - x[4] ** 2 / ROWS

        def away(x, rho):
            both, first, second = own(x)
            return both - rho * math.sqrt(first * second)

        both, first, second = own(x)
        assert r == pytest.approx(both / math.sqrt(first * second), rel=1e-9)
        for end in (low, high):
            moved = [(away(x + h, end) - away(x - h, end)) / 2e-4 for h in 1e-4 * np.eye(5)]
            spread = np.sum(np.square(moved * sd)) + first * second * (1 - end**2) ** 2 / ROWS
            assert away(x, end) ** 2 == pytest.approx(z2 * spread, rel=1e-4)
        assert low < r < high


@pytest.mark.parametrize("criterion", ["cp", "bic"])
def test_a_criterion_counts_what_is_learnt_of_the_noise(fit, criterion):
    """RSS + 2·tr(K·V) + price·s²·tr(K·(M + R)), and the noise of its distance to the best."""
    release, names = noisy(fit.release, SD, seed=7), ["a:x0", "a:flag", "b:x1"]
    model = Noisy(release, "c:y", names)
    sets = [["x0"], ["x0", "flag"], ["x0", "flag", "x1"]]
    found = release.select("y", ["x0", "flag", "x1"], candidates=sets, criterion=criterion)
    price, wanted, gammas = 2.0 if criterion == "cp" else math.log(ROWS), [], []
    for count in (1, 2, 3):
        used = [*range(count), 3]
        K = np.zeros((4, 4))
        K[np.ix_(used, used)] = np.linalg.inv((model.A[:-1, :-1] + model.R)[np.ix_(used, used)])
        gammas.append(gamma := np.append(K @ model.A[:-1, -1], -1.0))
        learnt = 2 * np.trace(K @ model.score_noise(gamma[:-1]))
        wanted.append((gamma @ model.A @ gamma + learnt + price * model.s2 * (count + 1)) / ROWS)
    assert found.table[criterion].to_list() == pytest.approx(wanted, rel=1e-7)
    best = gammas[int(np.argmin(wanted))]
    doubt = [math.sqrt(model.form_variance(np.outer(g, g) - np.outer(best, best))) / ROWS for g in gammas]
    assert found.table["noise_of_that"].to_list() == pytest.approx(doubt, rel=1e-7)
    above = np.array(wanted) - min(wanted)
    assert found.table["may_be_best"].to_list() == (above <= 2 * np.array(doubt)).tolist()


def test_with_noise_the_overall_test_is_that_of_all_slopes_at_0(fit):
    """Scores of centred columns, their noise and the mean square of the target around its mean."""
    release, names = noisy(fit.release, SD, seed=8), ["a:x0", "b:x1"]
    model = Noisy(release, "c:y", names)
    test = release.regress("y", names, drop=None).overall
    b, M = model.A[:-1, -1], model.A[:-1, :-1]
    beta = np.array([0.0, 0.0, b[-1] / M[-1, -1]])
    u = b - M @ beta
    rss = model.A[-1, -1] - 2 * b @ beta + beta @ M @ beta
    Omega = model.score_noise(beta) + rss / ROWS * (M + model.R)
    T = np.column_stack([np.eye(2), -M[:-1, -1] / M[-1, -1]])
    wanted = (T @ u) @ np.linalg.solve(T @ Omega @ T.T, T @ u)
    assert (test.df, test.statistic) == (2, pytest.approx(wanted, rel=1e-7))
    assert test.pvalue == pytest.approx(stats.chi2.sf(wanted, 2), rel=1e-6, abs=1e-300)


def test_with_noise_a_joint_test_has_the_noise_of_what_it_tests(fit):
    """e'·D⁻¹·e with the covariance at the β nearest by it that keeps the equations, found three times."""
    release, names = noisy(fit.release, 6.0, seed=8), ["a:x0", "a:flag", "b:x1"]
    model, L, value = Noisy(release, "c:y", names), np.eye(4)[[0, 1]], 2.5
    e = model.beta[:2] - value
    C = model.covariance(model.beta)
    for _ in range(3):
        C = model.covariance(model.beta - C @ L.T @ np.linalg.solve(L @ C @ L.T, e))
    D = L @ C @ L.T
    test = release.regress("y", names, drop=None, units="encoded").test(["x0", "flag"], value)
    assert (test.df, test.statistic) == (2, pytest.approx(e @ np.linalg.solve(D, e), rel=1e-7))
    share = np.trace(np.linalg.solve(D, (model.G @ model.sampling @ model.G)[:2, :2])) / 2
    gamma = np.append(model.beta, -1.0)
    doubt = 2 / (ROWS - 4) + model.form_variance(np.outer(gamma, gamma)) / model.rss**2
    assert test.pvalue == pytest.approx(stats.f.sf(test.statistic / 2, 2, 2 / doubt / share**2), rel=1e-6)


# ------------------------------------------------------------------------------------------------ weights of evidence


@pytest.mark.parametrize("good", [-1, 1])
def test_weights_of_evidence_are_those_of_counting(classes, good):
    frames = tables()
    won = column(frames, "won") == good
    card = classes.scorecard(good=good)
    for title, names in (("level", ["level=a", "level=b", "level=c"]), ("flag", ["", "flag"])):
        own = next(one for one in card.columns if one.title == title)
        flags = [column(frames, name) == 1 if name else column(frames, "flag") == 0 for name in names]
        shares = [((has & won).sum() / won.sum(), (has & ~won).sum() / (~won).sum()) for has in flags]
        lines = own.lines[: len(names)]
        assert [line.share for line in lines] == pytest.approx([has.mean() for has in flags], rel=1e-9)
        assert [line.woe for line in lines] == pytest.approx([math.log(g / b) for g, b in shares], rel=1e-9)
        assert own.iv == pytest.approx(sum((g - b) * math.log(g / b) for g, b in shares), rel=1e-9)
        assert [line.woe_sd for line in lines] == [0.0] * len(lines)


@pytest.mark.parametrize("good", [-1, 1])
@pytest.mark.parametrize("sd", [0.5, 2.0])
def test_weights_of_evidence_from_noisy_counts_say_how_noisy_they_are(classes, good, sd):
    release = noisy(classes.release, sd, seed=9)
    size, at = len(release.columns), [release.names.index(f"b:level={one}") for one in "abc"]
    ones, pulls = release.matrix[at, size], release.matrix[at, size + 1]
    positives = (ROWS + release.matrix[size, size + 1]) / 2
    totals = np.array([positives, ROWS - positives])
    counts = np.column_stack([(ones + pulls) / 2, (ones - pulls) / 2])
    noise = sd / 2  # (E₁ ± E₂)/2, each of sd/√2
    shares = counts / totals
    woe = np.log(shares[:, 0] / shares[:, 1]) * good
    own = next(one for one in replace(classes, released=release).scorecard(good=good).columns if one.title == "level")
    lines = own.lines[:3]
    assert [line.share for line in lines] == pytest.approx(counts.sum(axis=1) / ROWS, rel=1e-9)
    assert [line.share_sd for line in lines] == pytest.approx([noise * 2**0.5 / ROWS] * 3, rel=1e-9)
    assert [line.woe for line in lines] == pytest.approx(woe, rel=1e-9)
    assert [line.woe_sd for line in lines] == pytest.approx(np.hypot(*(noise / counts.T)), rel=1e-9)
    terms = (shares[:, 0] - shares[:, 1]) * woe * good
    added = np.sum((noise / totals) ** 2) / shares.mean(axis=1)
    assert own.iv == pytest.approx(max(float(np.sum(terms - added)), 0.0), rel=1e-9)


# ------------------------------------------------------------------------------------------------ classes


def test_bands_of_classes_are_by_the_share_that_the_noise_leaves(classes):
    """The mean of a normal around the released share, cut to [0, 1]: on a grid of 400 to a thousandth of itself."""
    release = classes.release
    sums = release.noise.copy()
    sums[-2, -1] = sums[-1, -2] = 0.4 * ROWS  # of n·(2p − 1): an sd of 0.2 in p
    matrix = release.matrix.copy()
    matrix[-2, -1] = matrix[-1, -2] = -0.7 * ROWS  # a share of 0.15
    share = stats.truncnorm(-0.15 / 0.2, 0.85 / 0.2, 0.15, 0.2).mean()
    loud = replace(classes, released=replace(release, matrix=matrix, noise=sums))
    assert loud._per_probability() == pytest.approx(1 / (share * (1 - share)), rel=2e-3)


def test_a_class_and_a_flag_of_the_same_rows_have_the_same_errors(tmp_path):
    """Labels −1 and 1 in halves, a flag in ones: the same differences in probability, spreading alike."""
    schemas = SCHEMAS | {"a": co.Schema((*SCHEMAS["a"].columns, co.Binary("same")))}
    frames = tables()
    frames["a"] = frames["a"].with_columns(same=(frames["c"]["won"] == 1).cast(int))
    release = noisy(fitted(tmp_path, CLASSES, frames, schemas).release, 1e-3)
    names = ["x0", "flag", "level", "x2"]
    own, other = (release.regress(target, names, drop=None) for target in ("won", "a:same"))
    assert list(own.coefficients.values()) == pytest.approx(list(other.coefficients.values()), rel=1e-3, abs=1e-5)
    assert list(own.errors.values()) == pytest.approx(list(other.errors.values()), rel=1e-3)
    alike = fitted(tmp_path / "plain", CLASSES).inference(names)  # without noise: the classical errors
    assert own.errors["a:flag"] > 1.0001 * alike.errors["a:flag"]
