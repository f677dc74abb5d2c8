"""Private Gram's error bars, path and link by hand: against least squares and against derivatives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from colonnade.methods.gram import solve as grams
from colonnade.methods.gram.answer import Curves, GramSolution
from colonnade.methods.gram.rule import Gram, GramRule, RowFrame, as_they_are
from colonnade.methods.gram.solve import solve
from colonnade.problem import ElasticNet, GroupLasso, L1Ball, Lasso, LeastSquares, Logistic, Problem, Ridge, Simplex
from colonnade.problem.link import class_share, constant, mixed

BOUND = 4.0


def table(n: int = 40, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1)) + np.linspace(-1.0, 1.0, d)
    return A, np.clip(A @ np.linspace(1.0, -0.5, d) + 0.3 + 0.5 * rng.normal(size=n), -BOUND, BOUND)


def framed(d: int, centre: float = 0.0, scale: float = 1.0) -> RowFrame:
    return RowFrame(np.arange(d), np.full(d, centre), np.full(d, scale), np.ones(1), np.full(d, np.inf))


def products(A: np.ndarray, y: np.ndarray, frame: RowFrame) -> np.ndarray:
    wide = np.column_stack([(A - frame.centre) * frame.scale, np.ones(len(y)), y])
    return wide.T @ wide


def solved(matrix: np.ndarray, noise: Any, frame: RowFrame, problem: Problem, rows: int, **rule: Any) -> GramSolution:
    """A solution from a Gram in natural units; the rule adds no ridge unless it is told to."""
    sds = np.broadcast_to(np.asarray(noise, float), matrix.shape)
    d = frame.keep.size
    made: GramRule = replace(as_they_are(d, 1.0), **{"ridge": 0.0, **rule})
    return solve(Gram(matrix, sds), frame, made, problem, rows=rows, columns=d, label_bound=BOUND)


def ordinary(A: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Standard errors of ordinary least squares with an intercept, as any textbook has them."""
    wide = np.column_stack([A, np.ones(len(y))])
    left = y - wide @ np.linalg.lstsq(wide, y, rcond=None)[0]
    return np.sqrt(left @ left / (len(y) - wide.shape[1]) * np.diag(np.linalg.inv(wide.T @ wide)))


@pytest.mark.parametrize("rows", [8, 40])
def test_without_noise_errors_are_those_of_ordinary_least_squares(rows):
    A, y = table(rows)
    frame = framed(3)
    found = solved(products(A, y, frame), 0.0, frame, Problem(LeastSquares(), intercept=True), rows)
    assert ordinary(A, y) == pytest.approx([*found.errors, found.intercept_error], rel=1e-7)
    assert not found.privacy_errors.any()


def test_errors_of_a_logistic_model_are_on_the_scale_of_its_coefficients():
    """One Newton step from the constant is least squares on ±1, over 2·share·(1 − share)."""
    A, y = table()
    y, frame = np.where(y > 0.5, 1.0, -1.0), framed(3)
    share = (y > 0).mean()
    factor = 1.0 / (2.0 * share * (1.0 - share))
    made = replace(as_they_are(3, 1.0), ridge=0.0)
    gram = Gram(products(A, y, frame), np.zeros((5, 5)))
    problem = Problem(Logistic(), intercept=True)
    found = solve(gram, frame, made, problem, rows=40, columns=3, label_bound=1.0)
    assert factor * ordinary(A, y)[:3] == pytest.approx(found.errors, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [None, Ridge(0.2)])
@pytest.mark.parametrize("frame", [framed(3), framed(3, centre=0.4, scale=0.5)], ids=["raw", "centred"])
def test_the_noise_in_an_error_is_that_of_every_entry_through_the_derivative_of_the_answer(frame, penalty, intercept):
    """The delta method, entry by entry: the answer's derivative is taken by moving one entry of the Gram at a time."""
    A, y = table()
    problem, matrix = Problem(LeastSquares(), penalty=penalty, intercept=intercept), products(A, y, frame)
    sds = 1e-4 * np.random.default_rng(1).uniform(1.0, 2.0, matrix.shape)  # so small that second orders do not count
    sds = np.triu(sds) + np.triu(sds, 1).T
    sds[3, 3] = 0.0  # the number of rows is public

    def answer(moved: np.ndarray) -> np.ndarray:
        found = solved(moved, 0.0, frame, problem, 40)
        return np.append(found.coefficients, found.intercept)

    total, tiny = np.zeros(4), 1e-4
    for i, j in zip(*np.triu_indices(5), strict=True):
        step = np.zeros((5, 5))
        step[i, j] = step[j, i] = tiny * (sds[i, j] > 0)
        total += np.square((answer(matrix + step) - answer(matrix - step)) / (2.0 * tiny) * sds[i, j])
    found = solved(matrix, sds, frame, problem, 40)
    assert np.sqrt(total[:3]) == pytest.approx(found.privacy_errors, rel=1e-3)
    without = solved(matrix, 0.0, frame, problem, 40)
    for k, (whole, sampling) in enumerate(zip(both(found), both(without), strict=True)):
        assert total[k] == pytest.approx(whole**2 - sampling**2, rel=0.02, abs=1e-18)  # the two kinds of error add up


def both(found: GramSolution) -> list[float]:
    return [*found.errors, found.intercept_error]


@pytest.mark.parametrize(("columns", "k"), [(2, 1.0), (4, 1.0), (4, 1.5)])
def test_negative_eigenvalues_are_cut_and_the_ridge_is_k_times_the_noise_times_the_root_of_the_columns(columns, k):
    """The sd of a typical entry is g/√2, and the ridge k·g·√s."""
    rows, frame = 50, framed(columns)
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(columns + 2,) * 2) * 10.0
    matrix = matrix + matrix.T
    matrix[columns, :] = matrix[:, columns] = 0.0  # columns and labels of mean 0
    matrix[columns, columns], matrix[-1, -1] = rows, 30.0
    own = matrix[:columns, :columns]
    values, vectors = np.linalg.eigh(own)
    assert values.min() < -1.0
    ridge = k * (math.sqrt(2.0) * 0.7) * math.sqrt(columns)
    want = vectors @ (vectors.T @ matrix[:columns, -1] / (np.maximum(values, 0.0) + ridge))
    noise = np.full(matrix.shape, 0.7)
    noise[columns, :] = noise[:, columns] = 0.0
    found = solved(matrix, noise, frame, Problem(LeastSquares()), rows, ridge=k)
    assert found.ridge == pytest.approx(ridge)
    assert want == pytest.approx(found.coefficients, rel=1e-9)


# ------------------------------------------------------------------------------------------------ where errors do not
# cover


@pytest.mark.parametrize("name", ["centred", "screened", "weak"])
def test_errors_of_rows_that_were_changed_by_a_release_are_not_said_to_cover(name):
    A, y = table()
    matrix, problem = products(A, y, framed(3)), Problem(LeastSquares(), intercept=True)
    assert solved(matrix, 0.0, framed(3), problem, 40).uncovered is None
    assert "released first" in (solved(matrix, 0.0, framed(3), problem, 40, name=name).uncovered or "")


@pytest.mark.parametrize(("part", "covers"), [(0.99, True), (1.01, False)])
def test_errors_cover_up_to_a_fifth_of_the_least_eigenvalue_of_noise(part, covers):
    """Two columns at right angles whose squares sum to 100: a noise of norm 2·√(2·sd²) may be a fifth of that."""
    matrix = np.diag([100.0, 100.0, 400.0, 900.0])
    matrix[0, 3] = matrix[3, 0] = 1.0
    noise = np.zeros((4, 4))
    noise[:2, :2] = part * 0.2 * 100.0 / (2.0 * math.sqrt(2.0))
    found = solved(matrix, noise, framed(2), Problem(LeastSquares(), intercept=True), 400)
    assert ("noise is too large" not in (found.uncovered or "")) is covers


def test_errors_cover_up_to_a_drift_of_a_quarter_of_themselves():
    """Without noise a ridge penalty a moves the answer by a·(moments + a)⁻¹x, which is worked out here."""
    A, y = table(400)
    matrix, wide = products(A, y, framed(3)), np.column_stack([A, np.ones(400)])
    sides = set[int]()
    for a in np.geomspace(1e-3, 0.1, 60):
        found = solved(matrix, 0.0, framed(3), Problem(LeastSquares(), penalty=Ridge(a), intercept=True), 400)
        weights = np.diag([a, a, a, 0.0])
        drift = np.linalg.solve(wide.T @ wide / 400 + weights, weights @ np.append(found.coefficients, 0.0))[:3]
        part = float((np.abs(drift) / found.errors).max())
        assert (found.uncovered is None) is (part <= 0.25)
        sides.add(math.floor(20 * part))
    assert sides >= {4, 5}  # both sides were tried, near the line


# ------------------------------------------------------------------------------------------------ the path


TERMS = {
    "ridge": ({"penalty": Ridge(0.05)}, lambda f: ({"penalty": Ridge(0.05 * f)}, 0.05 * f)),
    "lasso": ({"penalty": Lasso(0.05)}, lambda f: ({"penalty": Lasso(0.05 * f)}, 0.05 * f)),
    "elastic": ({"penalty": ElasticNet(0.05, 0.2)}, lambda f: ({"penalty": ElasticNet(0.05 * f, 0.2 * f)}, 0.05 * f)),
    "groups": (
        {"penalty": GroupLasso(0.05, ((0, 1), (2,)))},
        lambda f: ({"penalty": GroupLasso(0.05 * f, ((0, 1), (2,)))}, 0.05 * f),
    ),
    "ball": ({"constraint": L1Ball(0.4)}, lambda f: ({"constraint": L1Ball(0.4 / f)}, 0.4 / f)),
    "simplex": ({"constraint": Simplex(0.4)}, lambda f: ({"constraint": Simplex(0.4 / f)}, 0.4 / f)),
}


@pytest.mark.parametrize("kind", TERMS)
def test_every_point_of_a_path_is_the_answer_at_its_weight_from_a_hundred_times_stronger_to_weaker(kind):
    A, y = table()
    matrix, (term, at) = products(A, y, framed(3)), TERMS[kind]
    path = solved(matrix, 0.0, framed(3), Problem(LeastSquares(), intercept=True, **term), 40).path
    assert path is not None
    assert len(path.weights) == len(path.coefficients) == 17
    for place, factor in ((0, 100.0), (4, 10.0), (8, 1.0), (12, 0.1), (16, 0.01)):
        there, weight = at(factor)
        alone = solved(matrix, 0.0, framed(3), Problem(LeastSquares(), intercept=True, **there), 40)
        assert weight == pytest.approx(path.weights[place], rel=1e-9)
        assert alone.coefficients == pytest.approx(path.coefficients[place], abs=1e-5)


# ------------------------------------------------------------------------------------------------ labels and trust


def test_a_noisy_mean_of_labels_is_drawn_to_the_middle_by_its_share_of_the_variance():
    assert grams.expected_label_mean(0.5, 0.3, False) == pytest.approx(0.5 * 0.1 / (0.1 + 0.09))
    assert grams.expected_label_mean(-3.0, 0.0, False) == -1.0
    assert grams.expected_label_mean(0.2, 0.3, True) == pytest.approx(2.0 * class_share(0.6, 0.15) - 1.0)


def test_of_two_measurements_each_counts_by_the_inverse_of_its_variance():
    assert grams._trust(1.0, 3.0) == pytest.approx(0.75)
    assert grams._trust(3.0, 1.0) == pytest.approx(0.25)
    assert grams._trust(np.array([2.0, 0.0]), np.array([np.inf, 0.0])).tolist() == [1.0, 1.0]


def test_noise_does_not_take_the_labels_variance_beyond_what_their_bound_allows():
    A, y = table()
    found = []
    for squares in (40 * BOUND**2, 10 * 40 * BOUND**2):
        matrix = products(A, y, framed(3))
        matrix[-1, -1] = squares
        found.append(solved(matrix, 0.0, framed(3), Problem(LeastSquares(), intercept=True), 40).errors)
    assert found[0] == pytest.approx(found[1])
    assert (found[0] > solved(products(A, y, framed(3)), 0.0, framed(3), Problem(LeastSquares()), 40).errors).all()


# ------------------------------------------------------------------------------------------------ what scores say


def test_a_score_is_heard_less_what_it_has_learnt_of_the_noise_of_its_pulls():
    """E[(c + e)'H⁻¹(c + e)] is c'H⁻¹c and tr(H⁻¹V): the second part says nothing about new rows. V is that of the noise
    and,
    for labels of variance v, v·A'A/n² of sampling. Of e'x the variance is x'Vx and tr((H⁻¹V)²)."""
    A, y = table()
    y = y - y.mean()
    A = A - A.mean(axis=0)
    matrix, noise, sd = products(A, y, framed(3)), np.zeros((5, 5)), np.array([1.0, 2.0, 3.0])
    noise[:3, 4] = noise[4, :3] = sd
    found = solved(matrix, noise, framed(3), Problem(LeastSquares(), intercept=True), 40)
    inverse, pulls = np.linalg.inv(A.T @ A / 40), A.T @ y / 40
    x, V = inverse @ pulls, np.diag(np.square(sd / 40)) + np.mean(y**2) * A.T @ A / 40**2
    want = (pulls @ x - np.trace(inverse @ V)) / math.sqrt(x @ V @ x + np.trace(inverse @ V @ inverse @ V))
    assert want == pytest.approx(found.signal, rel=1e-6)


def test_a_score_spreads_more_than_a_matrix_says_whose_noise_it_has_learnt():
    """x = (H + E)⁻¹c leans to where E is below 0: E[x'Ex] = −2·E[x'E·H⁻¹·E·x], here for noise between two columns."""
    A, y = table(d=2)
    frame, moments = framed(2), []
    for sd in (0.0, 2.0):
        noise = np.zeros((4, 4))
        noise[0, 1] = noise[1, 0] = sd
        made = replace(as_they_are(2, 1.0), ridge=0.0)
        moments.append(grams._moments(Gram(products(A, y, frame), noise), frame, made, 40, BOUND, None, False))
    x, response = np.array([0.7, -0.4]), np.array([[2.0, 0.5], [0.5, 3.0]])
    model = grams._Model(np.eye(2), np.ones(2), 0.3, 0.5)
    plain, heard = (grams._score_moments(m, model, x, response, 40) for m in moments)
    v = (2.0 / 40) ** 2
    learnt = v * (x[0] ** 2 * response[1, 1] + x[1] ** 2 * response[0, 0] + 2.0 * x[0] * x[1] * response[0, 1])
    assert heard.spread - plain.spread == pytest.approx(2.0 * 0.3 * learnt)
    assert heard.spread_noise2 == pytest.approx(4.0 * v * (x[0] * x[1]) ** 2)
    assert plain.spread_noise2 == 0.0


def test_scores_within_their_threshold_say_nothing_and_beyond_count_by_a_fourth_power():
    """Noise passes with a chance of .0002 over the variance of the correlation's noise, or .05: of .3·.84 here."""
    for z in (20.0, 6.0, 4.0, 2.5):
        beyond = norm.isf(min(0.05, 2e-4 * 0.3 * 0.84 * (z / 0.2) ** 2))
        part = 1.0 - (beyond / z) ** 4
        assert mixed(0.3, 0.1, 0.2, 0.3, (0.2 / z) ** 2, 0.0) == pytest.approx(
            mixed(0.3, 0.1, 0.2 * part, 0.3, 0.0, 0.0)
        )
    for z in (2.4, 2.0):
        assert mixed(0.3, 0.1, 0.2, 0.3, (0.2 / z) ** 2, 0.0) == constant(0.3)


def test_noise_in_the_spread_of_scores_makes_a_link_flatter_by_its_standard_deviation():
    found = mixed(0.3, 0.1, 0.2, 0.3, 0.0, 0.01)
    assert found == pytest.approx(mixed(0.3, 0.1, 0.2, 0.4, 0.0, 0.0))
    assert found.slope < mixed(0.3, 0.1, 0.2, 0.3, 0.0, 0.0).slope


def test_a_link_keeps_to_its_limits():
    """A factor of at most 1.5; an R² of at most .9; at most .85 of normal scores, whose log-odds are by hand."""
    share, between = 0.3, 0.21
    found = mixed(share, 0.1, 0.9, 0.3, 0.0, 0.0)  # least squares would make the score three times as long
    variance = 1.5**2 * 0.3
    covariance = min(1.5 * 0.9, math.sqrt(0.9 * variance * 4.0 * between))
    apart = covariance / (2.0 * between)
    slope = apart / max(variance - between * apart**2, 0.05 * variance)
    assert found.slope == pytest.approx(1.5 * slope)
    assert found.offset == pytest.approx(math.log(3.0 / 7.0) - slope * (0.15 + 0.2 * apart))
    assert found.weight == 0.85
    assert found[3:] == pytest.approx((0.3 - 0.075, 0.75, 0.05 * 0.3, 1.0 - 0.05 * 0.7))


# ------------------------------------------------------------------------------------------------ scores of numbers


def drawn(A: np.ndarray, y: np.ndarray, sd: float, seed: int, choose: bool = True) -> GramSolution:
    """The solution of a release of centred rows with this noise, as a run for prediction has it."""
    frame, rows = framed(A.shape[1]), len(y)
    noise = np.triu(np.random.default_rng(seed).normal(size=(A.shape[1] + 2,) * 2)) * sd
    noisy = products(A, y, frame) + noise + np.triu(noise, 1).T
    rule, curves = (
        replace(as_they_are(A.shape[1], 1.0), name="centred"),
        Curves(np.zeros(A.shape[1], int), None, choose),
    )
    known = Gram(noisy, np.full(noisy.shape, sd)), frame, rule, Problem(LeastSquares(), intercept=True)
    return solve(*known, rows=rows, columns=A.shape[1], label_bound=BOUND, curves=curves)


def test_scores_of_numbers_are_drawn_to_the_mean_by_what_they_owe_to_noise_and_clear_ones_stay_to_the_bit():
    """By hand: the mean of a normal of .3 and .5, given a factor of known noise; nothing is taken beyond 3 sds."""
    A, y = table(2000, 8)
    unrelated = np.random.default_rng(3).permutation(y)
    noisy = [drawn(A, unrelated, 150.0, seed) for seed in range(20)]
    plain = [drawn(A, unrelated, 150.0, seed, choose=False) for seed in range(20)]
    assert sum(found.kept < 0.7 for found in noisy) >= 15
    for found, whole in zip(noisy, plain, strict=True):
        assert found.coefficients == pytest.approx(found.kept * whole.coefficients)
        assert found.intercept == pytest.approx(
            whole.intercept + (1.0 - found.kept) * float(A.mean(axis=0) @ whole.coefficients), abs=0.5
        )
    clear, plain = drawn(A, y, 15.0, 0), drawn(A, y, 15.0, 0, choose=False)
    assert clear.signal > 3.0
    assert clear.kept == plain.kept == 1.0
    assert np.array_equal(clear.coefficients, plain.coefficients)
    assert clear.intercept == plain.intercept


@pytest.mark.parametrize(("pull", "spread"), [(0.02, 0.1), (-0.5, 0.1), (0.4, 0.2), (0.1, 0.0)])
def test_the_part_of_scores_that_is_kept_is_a_posterior_mean(pull, spread):
    sd, numbers = 0.15, Problem(LeastSquares(), intercept=True)
    moments = grams._ScoreMoments(pull, spread, sd**2, 0.0)
    grid = np.linspace(-8.0, 8.0, 160_001)
    weights = norm.pdf(grid, 0.3, 0.5) * norm.pdf(pull, grid * spread, sd) if spread else norm.pdf(grid, 0.3, 0.5)
    wanted = float(np.clip(grid @ weights / weights.sum(), 0.0, 1.0))
    assert grams._kept(numbers, moments) == pytest.approx(wanted, abs=1e-6)
    assert grams._kept(numbers, replace(moments, pull=3.01 * sd)) == 1.0
    assert grams._kept(replace(numbers, intercept=False), moments) == 1.0
    assert grams._kept(Problem(LeastSquares(), Simplex(1.0), intercept=True), moments) == 1.0
    assert grams._kept(Problem(Logistic(), intercept=True), moments) == 1.0
