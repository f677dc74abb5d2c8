"""Private Gram's free half: sensitivities by trial, the solve against scikit-learn, error bars by repetition."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso as SklearnLasso
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

from colonnade.errors import InvalidInput
from colonnade.methods.gram import solve as gram_module
from colonnade.methods.gram.answer import GramSolution
from colonnade.methods.gram.rule import (
    Extended,
    Gram,
    GramRule,
    PublicColumns,
    RowFrame,
    as_they_are,
    choose,
    noise_levels,
    prepare,
)
from colonnade.methods.gram.solve import solve
from colonnade.model.job import Sums
from colonnade.problem import (
    Absolute,
    ElasticNet,
    GroupLasso,
    L1Ball,
    Lasso,
    LeastSquares,
    Logistic,
    Problem,
    Ridge,
    Simplex,
    SquaredHinge,
)
from colonnade.problem.link import COST, class_share, threshold

DATA = Path(os.environ.get("COLONNADE_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
generated = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 10**6)


# ------------------------------------------------------------------------------------------------ a release, simulated


def public(owner: list[int], norm: float, *, binary: bool = False, bound: float = 1.0) -> PublicColumns:
    d = len(owner)
    return PublicColumns(
        *(np.array(owner), np.full(max(owner) + 1, norm), np.full(d, bound), np.full(d, binary), np.full(d, binary)),
        *(np.zeros(d, int), np.ones(d)),
    )


def exact_sums(A: np.ndarray, y: np.ndarray, label_bound: float) -> Sums:
    weight, none = (1.0 + y / label_bound) / 2.0, np.zeros(A.shape[1])
    return Sums(weight @ A, (1.0 - weight) @ A, float(weight.sum()), 0.5 * np.sum(A**2, axis=0), none, 0.0, none)


def noisy_sums(A: np.ndarray, y: np.ndarray, sd: float, rng: np.random.Generator) -> Sums:
    exact, d = exact_sums(A, y, 1.0), A.shape[1]
    return Sums(
        exact.positive + sd * rng.normal(size=d),
        exact.negative + sd * rng.normal(size=d),
        exact.count + sd * rng.normal(),
        exact.half_squares + sd * rng.normal(size=d),
        np.full(d, sd),
        sd,
        np.full(d, sd),
    )


def clipped(A: np.ndarray, frame: RowFrame, columns: PublicColumns) -> np.ndarray:
    """The frame's rows, as parties make them."""
    z = (A[:, frame.keep] - frame.centre) * frame.scale
    owner = columns.owner[frame.keep]
    for k, norm in enumerate(frame.norms):
        part = z[:, owner == k]
        length = np.maximum(np.linalg.norm(part, axis=1), 1e-300)
        z[:, owner == k] = part * np.minimum(1.0, norm / length)[:, None]
    return z


def release(
    z: np.ndarray, y: np.ndarray, extended: Extended, sds: np.ndarray, rng: np.random.Generator | None = None
) -> Gram:
    wide = np.column_stack([z, np.full(len(z), extended.constant), y * extended.label])
    upper = np.triu(np.zeros(sds.shape) if rng is None else rng.normal(size=sds.shape) * sds)
    return Gram.of(extended, wide.T @ wide + upper + np.triu(upper, 1).T, sds)


def exactly(A: np.ndarray, y: np.ndarray, problem: Problem, frame: RowFrame | None = None) -> GramSolution:
    """A solution from a Gram without noise; the rule then adds no ridge."""
    n, d = A.shape
    rule = as_they_are(d, 1e9)
    frame = frame or prepare(rule, public([0] * d, 1e6), n)[1]
    z = (A[:, frame.keep] - frame.centre) * frame.scale
    gram = release(z, y, Extended(1.0, 1.0), np.zeros((frame.keep.size + 2,) * 2))
    return solve(gram, frame, rule, problem, rows=n, columns=d, label_bound=float(np.abs(y).max()))


def regression(seed: int, n: int = 200, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d)) + rng.normal(size=(n, 1)) + rng.normal(size=d)
    return A, A @ rng.normal(size=d) + rng.normal() + rng.normal(size=n)


# ------------------------------------------------------------------------------------------------ sensitivities


@generated
@given(seed=seeds, shares=st.tuples(st.floats(0.01, 2.0), st.floats(0.01, 2.0)), classes=st.booleans())
def test_replacing_a_row_moves_the_extended_gram_by_at_most_its_sensitivity(seed, shares, classes):
    rng = np.random.default_rng(seed)
    extended = Extended(1.7, 3.0, *shares)

    def row() -> np.ndarray:
        a = rng.normal(size=3)
        a *= 1.7 / np.linalg.norm(a)
        y = rng.choice([-3.0, 3.0]) if classes else rng.uniform(-3.0, 3.0)
        return np.concatenate([a, [extended.constant, extended.label * y]])

    old, new = row(), row()
    assert np.linalg.norm(np.outer(old, old) - np.outer(new, new)) <= extended.sensitivity * (1 + 1e-12)


def test_no_smaller_sensitivity_would_do():
    """Two rows of opposite class at the angle where every part of the Gram moves most: the bound is attained."""
    extended = Extended(1.0, 1.0, 0.1, 0.25)
    x = extended.label_share - extended.constant_share
    rows = [
        [1.0, 0.0, extended.constant, extended.label],
        [x, math.sqrt(1 - x * x), extended.constant, -extended.label],
    ]
    old, new = (np.outer(row, row) for row in np.array(rows))
    assert extended.sensitivity == pytest.approx(float(np.linalg.norm(old - new)), rel=1e-12)


@generated
@given(seed=seeds, binary=st.booleans())
def test_replacing_a_row_moves_class_sums_by_at_most_their_sensitivity(seed, binary):
    rng = np.random.default_rng(seed)
    columns = public([0, 0, 0, 1, 1], 1.4, binary=binary)

    def sums() -> np.ndarray:
        a = rng.integers(0, 2, size=5).astype(float) if binary else rng.choice([-1.0, -0.7, 0.2, 1.0], size=5)
        a = clipped(a[None, :], prepare(as_they_are(5, 1.0), columns, 10)[1], columns)[0]
        weight = rng.choice([0.0, 1.0, 0.3])
        squares = np.zeros(5) if binary else a**2 / 2
        return np.concatenate([weight * a, (1 - weight) * a, [weight], squares])

    assert np.linalg.norm(sums() - sums()) <= columns.sums_sensitivity() * (1 + 1e-12)


def test_columns_that_cannot_be_negative_cost_less():
    assert public([0, 1], 2.0, binary=True).sums_sensitivity() == pytest.approx(math.sqrt(1 + 2 * 2 * 4))
    assert public([0, 1], 2.0).sums_sensitivity() == pytest.approx(math.sqrt(1 + 2 * (4 * 4 + 0.5 * 1 * 4)))


def test_products_of_two_parties_carry_the_noise_of_both():
    sds = noise_levels(np.array([0, 0, 1]), 1, 2.0, labels_fixed=True)
    half, both = math.sqrt(2.0), 2.0
    expected = [
        [2.0, half, both, half, both],
        [half, 2.0, both, half, both],
        [both, both, 2.0, half, half],
        [half, half, half, 0.0, half],
        [both, both, half, half, 0.0],
    ]
    assert sds == pytest.approx(np.array(expected))
    assert noise_levels(np.array([0, 0, 1]), 1, 2.0, labels_fixed=False)[-1, -1] == 2.0
    assert noise_levels(np.array([0, 1]), 0, 2.0, labels_fixed=True, shares=1)[0, 1] == pytest.approx(half)


# ------------------------------------------------------------------------------------------------ rules


def test_the_less_survives_the_noise_the_more_is_spent_on_class_sums():
    for classes in (True, False):
        rules = [choose(n, 100, 0.02, classes=classes) for n in (10**6, 10**4, 10**3)]
        assert [rule.name for rule in rules] == ["centred"] * 3
        assert [rule.sums for rule in rules] == [0.02, 0.15, 0.4]
    assert choose(10**6, 100, 0.02, keep=10).keep == 10
    assert choose(10**6, 100, 0.02, keep=200).keep == 100
    with pytest.raises(InvalidInput, match="above 0"):
        choose(100, 5, 0.0)


def test_the_squares_of_numbers_cost_more_where_few_columns_survive_and_never_more_than_below():
    """(155/N)³ times 2 %, N columns survive; classes, of whose scores only the order counts, pay no more."""
    rows = (1_000, 2_000, 4_000, 8_000, 10**6)
    surviving = [(n * math.sqrt(1.7 * 0.2) / 1.77) ** (2 / 3) for n in rows]
    assert min(surviving) >= 2 * 6
    shares = [choose(n, 6, 0.2).sums for n in rows]
    assert shares == pytest.approx([min(max(0.02 * (155 / n) ** 3, 0.02), 0.15) for n in surviving])
    assert len(set(shares)) > 2
    assert {choose(n, 6, 0.2, classes=True).sums for n in rows} == {0.02}


def test_rows_of_numbers_may_be_longer_by_half_an_sd_of_their_squares():
    rng = np.random.default_rng(5)
    A, y = rng.uniform(-1, 1, size=(3000, 6)), rng.uniform(-1, 1, size=3000)
    columns, sums = public([0, 0, 0, 1, 1, 1], 1.7), exact_sums(A, y, 1.0)
    numbers, classes = (replace(choose(3000, 6, 0.1, classes=c), sums=0.02, slack=1.0) for c in (False, True))
    noisy = replace(sums, square_noise=np.full(6, 20.0))
    for known, longer in ((sums, 0.0), (noisy, None)):
        frames = [prepare(rule, columns, 3000, known)[1] for rule in (numbers, classes)]
        squares = [np.square(frame.norms).sum() for frame in frames]
        scale = frames[0].scale
        assert scale == pytest.approx(frames[1].scale)
        # Frames are scaled so that a row's expected square is 1.
        sd = 2.0 * 20.0 / 3000 * math.sqrt(float(np.sum(scale**4)))
        assert squares[0] / squares[1] - 1.0 == pytest.approx(0.5 * sd if longer is None else longer)


def test_rows_of_numbers_are_taken_as_they_are_where_their_noise_is_small_beside_what_every_line_varies():
    """The ridge of rows as they are, √2·(1 + .35)·C²/√(2ρ)·√d, is a 30th of the least sum of squares, or less."""
    rng, d = np.random.default_rng(6), 4
    columns = public([0, 0, 1, 1], math.sqrt(2.0))
    for rho, spread, names in ((40.0, 1.0, ["raw"]), (0.05, 1.0, ["centred"]), (40.0, 0.02, ["centred"])):
        A, y = rng.uniform(-1, 1, size=(4000, d)), rng.uniform(-1, 1, size=4000)
        A[:, 0] *= spread
        rule = choose(4000, d, rho)
        made, frame = prepare(rule, columns, 4000, exact_sums(A, y, 1.0))
        ridge = math.sqrt(2.0) * 1.35 * 4.0 / math.sqrt(2.0 * (1 - rule.sums) * rho) * math.sqrt(d)
        assert [made.name] == names == (["raw"] if 30 * ridge <= 4000 * A.var(axis=0).min() else ["centred"])
        assert bool(frame.centre.any()) == (made.name == "centred")
    classes = choose(4000, d, 40.0, classes=True)
    assert prepare(classes, columns, 4000, exact_sums(A, y, 1.0))[0].name == "centred"


def test_rows_of_classes_are_always_centred_and_may_be_longer_the_more_survives():
    rules = [choose(n, 100, 0.02, classes=True) for n in (10**5, 10**6, 10**7)]
    u = [(n * math.sqrt(1.7 * 0.02) / 1.77) ** (2 / 3) / 100 for n in (10**5, 10**6, 10**7)]
    assert min(u) >= 2.0
    assert [rule.name for rule in rules] == ["centred"] * 3
    assert [rule.slack for rule in rules] == pytest.approx([1.15 * (each / 2) ** 0.25 for each in u])
    assert {(rule.power, rule.ridge) for rule in rules} == {(0.25, 1.5)}


def test_a_rule_that_needs_class_sums_says_so():
    with pytest.raises(InvalidInput, match="release them first"):
        prepare(choose(1000, 100, 0.02), public([0] * 100, 1.0), 1000)


def test_the_units_of_a_column_do_not_matter():
    rng = np.random.default_rng(2)
    A = rng.uniform(-1, 1, size=(3000, 6))
    y = np.sign(A[:, 0] + rng.normal(size=3000))
    units = np.array([1.0, 1000.0, 0.01, 1.0, 5.0, 1.0])
    rule, columns = choose(3000, 6, 0.0001), public([0, 0, 0, 1, 1, 1], 1.5)
    assert rule.name == "centred"
    _, plain = prepare(rule, columns, 3000, exact_sums(A, y, 1.0))
    scaled = replace(columns, bound=units)
    _, other = prepare(rule, scaled, 3000, exact_sums(A * units, y, 1.0))
    assert clipped(A, plain, columns) == pytest.approx(clipped(A * units, other, scaled), abs=1e-12)


def test_the_pull_of_class_sums_is_the_covariance_with_the_label_also_for_real_labels():
    A, y = regression(4)
    bound = float(np.abs(y).max())
    sums = exact_sums(A, y, bound)
    mean, doubt = sums.label_mean(len(y))
    assert float(y.mean() / bound) == pytest.approx(mean)
    assert (y / bound - y.mean() / bound) @ A == pytest.approx(sums.pull(mean, doubt)[0])


def wide(seed: int, strong: int) -> tuple[GramRule, RowFrame]:
    """2,000 rows of 400 columns of zeros and ones, some of which follow the label; what their noisy sums lead to."""
    rng, n, d = np.random.default_rng(seed), 2000, 400
    y = rng.choice([-1.0, 1.0], size=n)
    chance = np.full((n, d), 0.3)
    chance[:, :strong] += 0.25 * y[:, None]
    A = (rng.uniform(size=(n, d)) < chance).astype(float)
    columns, rho = public([0] * d, 11.0, binary=True), 0.05
    rule = choose(n, d, rho)
    sd = columns.sums_sensitivity() / math.sqrt(2 * rule.sums * rho)
    return prepare(rule, columns, n, noisy_sums(A, y, sd, rng))


def test_columns_are_screened_where_some_stand_out():
    """40 of 400 columns stand out by five standard deviations of the noise: nearly all of them are kept, and most
    others
    are not. Of 60 trial runs the worst kept 39 of the 40, or 207 columns; here 30 and 320 would do."""
    for seed in range(5):
        _, frame = wide(seed, 40)
        assert np.count_nonzero(frame.keep < 40) >= 30
        assert frame.keep.size <= 320


def test_columns_are_seldom_screened_where_none_stands_out():
    """Noise alone is taken for a signal in one run of four (15 of 60): that it is in 19 of 30 is a chance below
    1e-4."""
    assert sum(wide(seed, 0)[1].keep.size == 400 for seed in range(30)) >= 12


def narrow(seed: int, strong: int) -> tuple[RowFrame, np.ndarray]:
    """3,000 rows of 60 columns of zeros and ones, some of which follow the label, where all are kept; their true
    means."""
    rng, n, d = np.random.default_rng(seed), 3000, 60
    y = rng.choice([-1.0, 1.0], size=n)
    chance = np.tile(rng.uniform(0.3, 0.5, size=d), (n, 1))
    chance[:, :strong] += 0.25 * y[:, None]
    A = (rng.uniform(size=(n, d)) < chance).astype(float)
    columns, rho = public([0] * d, 6.0, binary=True), 0.0025
    rule = choose(n, d, rho)
    assert (rule.sums, rule.slack) == (0.4, 0.7)  # rows are cut short
    sd = columns.sums_sensitivity() / math.sqrt(2 * rule.sums * rho)
    _, frame = prepare(rule, columns, n, noisy_sums(A, y, sd, rng))
    assert frame.keep.size == d
    return frame, A.mean(axis=0)


def test_columns_that_seem_to_follow_the_label_count_for_more():
    """Of 200 trial runs the mean scale of the 10 was 1.60 times that of the others, with an sd of .34: the average of
    20 is
    below 1.2 by chance in fewer than one of a million."""
    scales = [narrow(seed, 10)[0].scale for seed in range(20)]
    assert np.mean([scale[:10].mean() / scale[10:].mean() for scale in scales]) > 1.2


def test_noisy_means_are_drawn_together():
    """True means lie within .2 of each other, measurements have an sd of .09: drawn together they err less. Of 200
    trial runs
    their squared error was .33 of the measurements', with an sd of .06: ten sds of the average of 20 below .5."""
    runs = [narrow(seed, 0) for seed in range(20)]
    errors = [np.mean(np.square(frame.centre - truth)) / np.mean(np.square(frame.doubt)) for frame, truth in runs]
    assert np.mean(errors) < 0.5


def test_exact_sums_are_taken_as_they_are():
    rng = np.random.default_rng(3)
    A, y = (rng.uniform(size=(500, 40)) < 0.3).astype(float), rng.choice([-1.0, 1.0], size=500)
    _, frame = prepare(choose(500, 40, 0.05), public([0] * 40, 4.0, binary=True), 500, exact_sums(A, y, 1.0))
    assert A.mean(axis=0)[frame.keep] == pytest.approx(frame.centre)


def test_a_screened_frame_gives_a_party_without_columns_no_room():
    rng = np.random.default_rng(0)
    A, y = (rng.uniform(size=(500, 30)) < 0.3).astype(float), rng.choice([-1.0, 1.0], size=500)
    A[:, :12] = (y > 0)[:, None]
    columns = public([0] * 20 + [1] * 10, 3.0, binary=True)
    rule = choose(500, 30, 0.01, keep=12)
    _, frame = prepare(rule, columns, 500, exact_sums(A, y, 1.0))
    assert frame.keep.tolist() == list(range(12))
    assert (frame.norms > 0).tolist() == [True, False]


# ------------------------------------------------------------------------------------------------ the solve


@pytest.mark.parametrize("intercept", [True, False])
@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_without_noise_the_answer_is_that_of_scikit_learn(intercept, seed):
    A, y = regression(seed)
    n = len(y)
    references = {
        None: LinearRegression(fit_intercept=intercept),
        Ridge(0.3): SklearnRidge(alpha=0.3 * n, fit_intercept=intercept),
        Lasso(0.1): SklearnLasso(alpha=0.1, fit_intercept=intercept, tol=1e-12, max_iter=10**6),
        ElasticNet(0.1, 0.3): SklearnElasticNet(
            alpha=0.4, l1_ratio=0.25, fit_intercept=intercept, tol=1e-12, max_iter=10**6
        ),
    }
    for penalty, reference in references.items():
        solved = exactly(A, y, Problem(LeastSquares(), penalty=penalty, intercept=intercept))
        reference.fit(A, y)
        # The objective is strongly convex: a gap bounds the distance. 1e-6 is for scikit-learn's own tolerance.
        bend = np.linalg.eigvalsh(np.cov(A.T, bias=True)).min()
        near = 1e-6 + math.sqrt(2.0 * solved.gap / bend)
        assert reference.coef_ == pytest.approx(solved.coefficients, abs=near)
        assert reference.intercept_ == pytest.approx(solved.intercept, abs=near * (1 + np.abs(A.mean(axis=0)).sum()))


@pytest.mark.parametrize("intercept", [True, False])
def test_centring_and_scaling_change_nothing_when_there_is_no_noise(intercept):
    A, y = regression(7)
    rng = np.random.default_rng(1)
    doubt = np.full(5, np.inf)
    frame = RowFrame(np.arange(5), rng.normal(size=5), rng.uniform(0.2, 5.0, size=5), np.ones(1), doubt)
    for term in (
        {"penalty": Lasso(0.1)},
        {"penalty": Ridge(1.0)},
        {"constraint": L1Ball(0.5)},
        {"constraint": Simplex()},
    ):
        problem = Problem(LeastSquares(), intercept=intercept, **term)
        plain, framed = exactly(A, y, problem), exactly(A, y, problem, frame)
        assert plain.coefficients == pytest.approx(framed.coefficients, abs=1e-7)
        assert plain.intercept == pytest.approx(framed.intercept, abs=1e-7)
        assert plain.errors == pytest.approx(framed.errors, rel=1e-6, abs=1e-12)


def classes(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=n) < 0.3, 1.0, -1.0)
    return rng.normal(size=(n, 4)) + 0.6 * (y > 0)[:, None] * np.array([1.0, -1.0, 0.5, 0.0]) + 1.0, y


def test_logistic_is_solved_by_one_newton_step_from_the_constant():
    A, y = classes(3)
    share = (y > 0).mean()
    wide_rows = np.column_stack([A, np.ones(len(y))])
    hessian = share * (1 - share) * wide_rows.T @ wide_rows
    start = np.append(np.zeros(4), math.log(share / (1 - share)))
    newton = start + np.linalg.solve(hessian, wide_rows.T @ ((y > 0) - share))
    solved = exactly(A, y, Problem(Logistic(), intercept=True))
    assert newton == pytest.approx(np.append(solved.coefficients, solved.intercept), abs=1e-9)
    origin = np.linalg.solve(0.25 * A.T @ A, A.T @ (y / 2))
    assert origin == pytest.approx(exactly(A, y, Problem(Logistic())).coefficients, abs=1e-9)


def test_the_squared_hinge_is_solved_as_least_squares_on_its_labels():
    A, y = classes(3)
    hinge = exactly(A, y, Problem(SquaredHinge(), intercept=True))
    assert exactly(A, y, Problem(LeastSquares(), intercept=True)).coefficients == pytest.approx(hinge.coefficients)


def test_a_loss_that_is_not_square_is_refused():
    A, y = classes(3)
    with pytest.raises(InvalidInput, match="squares only"):
        exactly(A, y, Problem(Absolute()))


def test_a_gram_of_the_wrong_size_is_refused():
    rule, columns = as_they_are(4, 1e9), public([0] * 4, 9.0)
    _, frame = prepare(rule, columns, 400)
    with pytest.raises(InvalidInput, match="6 x 6"):
        solve(Gram(np.eye(4), np.eye(4)), frame, rule, Problem(Logistic()), rows=400, columns=4, label_bound=1.0)


@pytest.mark.parametrize(
    "term",
    [
        {"penalty": Lasso(0.05)},
        {"penalty": Ridge(0.05)},
        {"penalty": ElasticNet(0.05, 0.1)},
        {"penalty": GroupLasso(0.05, ((0, 1), (2, 3, 4)))},
        {"constraint": L1Ball(0.4)},
        {"constraint": Simplex(0.5)},
    ],
    ids=lambda term: type(next(iter(term.values()))).__name__,
)
def test_the_path_passes_through_the_answer_and_starts_at_its_strongest(term):
    A, y = regression(11)
    solved = exactly(A, y, Problem(LeastSquares(), intercept=True, **term))
    assert solved.path is not None
    middle = len(solved.path.weights) // 2
    assert solved.coefficients == pytest.approx(solved.path.coefficients[middle], abs=1e-6)
    sizes = np.abs(solved.path.coefficients).sum(axis=1)
    assert sizes[0] <= sizes[middle] + 1e-9 <= sizes[-1] + 2e-9


def test_columns_that_were_not_kept_have_no_coefficient_and_groups_may_name_them():
    A, y = regression(5)
    frame = RowFrame(np.array([0, 2, 3]), np.zeros(3), np.ones(3), np.ones(1), np.full(3, np.inf))
    for term in ({"penalty": Lasso(0.01)}, {"penalty": GroupLasso(0.01, ((0, 1), (2, 3, 4)))}, {}):
        solved = exactly(A, y, Problem(LeastSquares(), intercept=True, **term), frame)
        assert np.flatnonzero(solved.coefficients).tolist() == [0, 2, 3]
        assert solved.errors[[1, 4]].tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------ under noise


def noisy(seed: int, problem: Problem, truth: np.ndarray, rho: float, ridge: float, n: int = 3000) -> GramSolution:
    """Two parties of two columns each; labels within ±8, which none of them reaches."""
    rng, columns = np.random.default_rng(seed), public([0, 0, 1, 1], 3.0, bound=3.0)
    A = np.clip(0.5 * rng.normal(size=(n, 4)) + 0.4 * rng.normal(size=(n, 1)) + 0.3, -2.0, 2.0)
    y = A @ truth + 0.5 + rng.normal(size=n)
    rule, frame = prepare(as_they_are(4, rho), columns, n)
    assert rule.name == "raw"
    extended = frame.extended(rule, 8.0)
    sds = noise_levels(columns.owner, 0, extended.noise(rho), labels_fixed=False)
    gram = release(clipped(A, frame, columns), y, extended, sds, rng)
    return solve(gram, frame, replace(rule, ridge=ridge), problem, rows=n, columns=4, label_bound=8.0)


TRUTH = np.array([1.0, -0.5, 0.3, 0.0])


def test_95_percent_intervals_hold_the_truth_19_times_in_20():
    """400 repetitions; half of the variance is the privacy noise's. Each of 5 counts is compared with the binomial law
    at
    a level of 1e-5 a side: all together fail by chance once in 10,000 runs."""
    repeats, problem = 400, Problem(LeastSquares(), intercept=True)
    held = np.zeros(5)
    for seed in range(repeats):
        solved = noisy(seed, problem, TRUTH, rho=8.0, ridge=0.0)
        held += np.append(
            np.abs(solved.coefficients - TRUTH) <= 1.96 * solved.errors,
            abs(solved.intercept - 0.5) <= 1.96 * solved.intercept_error,
        )
    share = np.mean(np.square(solved.privacy_errors / solved.errors))
    assert 0.3 < share < 0.7  # else the count above says little about one of the two kinds of error
    low, high = stats.binom.ppf([1e-5, 1 - 1e-5], repeats, 0.95)
    assert (held >= low).all()
    assert (held <= high).all()


def test_with_a_ridge_the_error_bars_describe_the_spread_around_what_ridge_estimates():
    """The same for a ridge penalty: the answer's mean over repetitions takes the truth's place. 1.96 standard errors
    around
    the mean of 250 are as good as around the expectation (it moves by a twentieth of one)."""
    repeats, problem = 250, Problem(LeastSquares(), penalty=Ridge(0.2), intercept=True)
    solved = [noisy(seed, problem, TRUTH, rho=8.0, ridge=1.0) for seed in range(repeats)]
    x, errors = (np.array([getattr(one, name) for one in solved]) for name in ("coefficients", "errors"))
    held = np.sum(np.abs(x - x.mean(axis=0)) <= 1.96 * errors, axis=0)
    low, high = stats.binom.ppf([1e-5, 1 - 1e-5], repeats, 0.95)
    assert (held >= low).all()
    assert (held <= high).all()
    assert np.linalg.norm(x.mean(axis=0)) < 0.9 * np.linalg.norm(TRUTH)  # the bars do not speak of this pull to zero


def test_columns_that_a_lasso_leaves_out_have_no_error_bar():
    solved = noisy(1, Problem(LeastSquares(), penalty=Lasso(0.3), intercept=True), TRUTH, rho=8.0, ridge=1.0)
    out = solved.coefficients == 0.0
    assert out.any()
    assert not solved.errors[out].any()
    assert (solved.errors[~out] > 0.0).all()


def test_the_rule_adds_a_ridge_in_proportion_to_the_noise():
    quiet, loud = (noisy(0, Problem(LeastSquares()), TRUTH, rho, ridge=1.0).ridge for rho in (8.0, 2.0))
    assert 2.0 * quiet == pytest.approx(loud)


def test_the_gap_certifies_the_noisy_quadratic():
    for term in ({"penalty": Lasso(0.1)}, {"constraint": L1Ball(0.3)}, {"penalty": Ridge(1.0)}):
        solved = noisy(2, Problem(LeastSquares(), intercept=True, **term), TRUTH, rho=1.0, ridge=1.0)
        assert 0.0 <= solved.gap <= 1e-8


# ------------------------------------------------------------------------------------------------ probabilities


def test_the_link_is_that_of_two_normal_classes_with_the_scores_own_moments():
    """Of the covariance that fitting d columns to n labels flatters by d/n of their variance, and sampling blurs."""
    A, y = classes(9)
    (n, d), up = A.shape, y > 0
    solved = exactly(A, y, Problem(Logistic(), intercept=True))
    assert solved.link is not None
    scores, share = A @ solved.coefficients + solved.intercept, up.mean()
    r2 = np.corrcoef(scores, y)[0, 1] ** 2
    kept, noise2 = r2 - d / n, r2 / n + d / n**2
    beyond = stats.norm.isf(min(0.05, 2e-4 / (noise2 / r2)))
    kept *= 1 - (beyond**2 * noise2 / kept**2) ** 2
    # Without noise scores are those of least squares, so that one half of the link is its fitted probability, kept
    # nearer to the share.
    line = share + kept / r2 * (LinearRegression().fit(A, up).predict(A) - share)
    assert line == pytest.approx(solved.link.level + solved.link.rise * scores, abs=1e-9)
    # The other half is that of classes whose means are so far apart as the covariance says: cov = 2·share·(1 −
    # share)·apart.
    between = share * (1 - share)
    apart, variance = kept * kept / r2 * 4 * between / (2 * between), (kept / r2) ** 2 * r2 * 4 * between
    odds = math.log(share / (1 - share)) + apart / (variance - between * apart**2) * (
        2 * (line - share) - (0.5 - share) * apart
    )
    assert odds == pytest.approx(solved.link.slope * scores + solved.link.offset, abs=1e-9)
    assert solved.link.weight == pytest.approx(kept / math.sqrt(r2), rel=1e-6)  # √R² of what is kept
    away = max(0.05, 0.6 - kept / math.sqrt(r2))
    assert (solved.link.low, solved.link.high) == pytest.approx((away * share, 1 - away * (1 - share)))


@pytest.mark.parametrize(
    ("columns", "strength"),
    [(12, 0.0), (3, 0.05), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((12, 0.3), (1, 0.0)))],
)
def test_the_covariance_of_scores_and_labels_is_off_by_as_much_as_is_said(columns, strength, monkeypatch):
    """Pulls b + e, e of the release's noise and of sampling: 500 draws. What is said of b'x is right on average and
    so is
    the square of its error, to 4.5 standard errors each (by chance once in 70,000 tests; the seed is fixed); where b =
    0 it exceeds 2.33 standard deviations in 1 of 100 runs at most (a count beyond is a chance of 1e-4)."""
    rng, rows, sd, draws = np.random.default_rng([columns, int(100 * strength)]), 1000, 15.0, 500
    within = np.diag(np.geomspace(1.0, 0.1, columns)) + 0.02
    rule, truth = replace(as_they_are(columns, 1e9), ridge=0.0), strength * np.linspace(1.0, 0.2, columns)
    frame = prepare(rule, public([0] * columns, 1e6), rows)[1]
    sds = np.zeros((columns + 2, columns + 2))
    sds[:columns, -1] = sds[-1, :columns] = sd
    matrix = np.diag(np.full(columns + 2, float(rows)))
    matrix[:columns, :columns] = rows * within
    root = np.linalg.cholesky(
        rows * within + sd**2 * np.eye(columns)
    )  # labels of variance 1: their sampling, and noise
    heard = []
    monkeypatch.setattr(
        gram_module,
        "_score_moments",
        lambda *given, own=gram_module._score_moments: heard.append(own(*given)) or heard[-1],
    )
    off, said = np.zeros(draws), np.zeros(draws)
    for draw in range(draws):
        matrix[:columns, -1] = matrix[-1, :columns] = rows * truth + root @ rng.normal(size=columns)
        problem = Problem(SquaredHinge(), intercept=True)
        solved = solve(Gram(matrix, sds), frame, rule, problem, rows=rows, columns=columns, label_bound=1.0)
        off[draw] = heard[-1].pull - truth @ solved.coefficients
        said[draw] = heard[-1].pull_noise2
    for wrong in (off, off**2 - said):
        assert abs(wrong.mean()) <= 4.5 * wrong.std() / math.sqrt(draws)
    if strength == 0.0:
        alarms = sum(one.signal > stats.norm.isf(0.01) for one in heard)
        assert alarms <= stats.binom(draws, 0.01).isf(1e-4)


@pytest.mark.parametrize("noise2", [1e-6, 1e-3, 0.004, 0.02, 0.13, 1.0, 50.0])
def test_noise_alone_costs_less_than_the_link_allows_it(noise2):
    beyond = threshold(noise2)
    z = np.linspace(beyond, beyond + 12.0, 200_001)
    claimed2 = noise2 * np.square(z * (1.0 - (beyond / z) ** 4))
    assert np.trapezoid(claimed2 / 2.0 * stats.norm.pdf(z), z) < COST
    assert stats.norm.sf(beyond) <= 0.0500001


def test_columns_that_say_nothing_hardly_ever_count_although_labels_are_fitted_without_noise():
    """300 rows, 10 columns, labels of their own: what passes is chance, in about 1 run of 33 (COST over 2/300, the
    variance of
    the correlation's noise). 100 runs; more than the bound has a chance below 1e-4 at 1 in 25; the seed is fixed."""
    rng, counted = np.random.default_rng(3), 0
    for _ in range(100):
        y = np.where(rng.random(300) < 0.4, 1.0, -1.0)
        link = exactly(rng.normal(size=(300, 10)), y, Problem(Logistic(), intercept=True)).link
        assert link is not None
        counted += link.slope != 0.0
    assert counted <= stats.binom(100, 0.04).isf(1e-4)


def test_where_nothing_was_learnt_everybody_has_the_share_of_the_class():
    A = np.tile(np.eye(4), (50, 1))
    y = np.where(np.arange(200) < 80, 1.0, -1.0)  # each column has 20 of 80 and 30 of 120: no covariance at all
    solved = exactly(A, y, Problem(Logistic(), penalty=Ridge(1.0), intercept=True))
    assert solved.link is not None
    assert solved.link(np.array([-3.0, 0.0, 3.0])) == pytest.approx(np.full(3, 0.4))


def test_probabilities_and_labels_agree_to_the_row():
    A, y = classes(9)
    link = exactly(A, y, Problem(Logistic(), intercept=True)).link
    assert link is not None
    scores = np.linspace(-8.0, 8.0, 4001)
    assert (np.diff(link(scores)) >= 0.0).all()
    assert np.array_equal(link.log_odds(scores) >= 0.0, link(scores) >= 0.5)
    assert ((link(scores) > 0.0) & (link(scores) < 1.0)).all()


@pytest.mark.parametrize(
    ("released", "sd"), [(0.3, 0.0), (0.3, 0.01), (0.02, 0.1), (-0.4, 0.3), (1.5, 5.0), (0.1, 1e9)]
)
def test_the_share_is_the_mean_of_a_normal_cut_to_what_a_share_can_be(released, sd):
    want = released if sd == 0.0 else 0.5 if sd > 1e6 else stats.truncnorm(-released / sd, (1 - released) / sd).mean()
    if sd and sd <= 1e6:
        want = released + sd * want
    assert class_share(released, sd) == pytest.approx(want, abs=0.003)


def test_probabilities_of_a_release_that_is_mostly_noise_cost_little_more_than_the_share_alone():
    """2,000 rows at epsilon .1 whose columns say nothing, 40 runs: log loss over the labels' entropy. The share's own
    noise costs
    at most (sd of the share)²/(2·share·(1 − share)·entropy); the link may add as much again and a fiftieth."""
    rows, rho = 2000, 0.0004
    rng = np.random.default_rng(4)
    A = (rng.random((rows, 20)) < 0.5).astype(float)
    y = np.where(rng.random(rows) < 0.3, 1.0, -1.0)
    share = (y > 0).mean()
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    columns = public([0] * 10 + [1] * 10, 2.5, binary=True)
    lost, alone = [], []
    for _ in range(40):
        rule = choose(rows, 20, rho, classes=True)
        sd = math.sqrt(2) * columns.sums_sensitivity() / math.sqrt(2 * rule.sums * rho)
        sums = noisy_sums(A, y, sd, rng)
        left = (1 - rule.sums) * rho
        rule, frame = prepare(rule, columns, rows, sums)
        extended = frame.extended(rule, 1.0)
        sds = noise_levels(columns.owner[frame.keep], 0, extended.noise(left), labels_fixed=True)
        gram = release(clipped(A, frame, columns), y, extended, sds, rng)
        solved = solve(
            gram, frame, rule, Problem(Logistic(), intercept=True), rows=rows, columns=20, label_bound=1.0, sums=sums
        )
        assert solved.link is not None
        p = solved.link(A @ solved.coefficients + solved.intercept)
        lost.append(-np.mean(np.log(np.where(y > 0, p, 1 - p))) / entropy)
        base = 1 / (1 + math.exp(-solved.intercept - float(solved.coefficients @ A.mean(axis=0))))
        alone.append((-share * math.log(base) - (1 - share) * math.log(1 - base)) / entropy)
    assert np.mean(lost) <= 2 * np.mean(alone) - 1 + 0.02


def test_regression_has_no_link():
    assert exactly(*regression(1), Problem(LeastSquares())).link is None


def a9a() -> tuple[np.ndarray, np.ndarray, PublicColumns]:
    folder = DATA / "a9a"
    if not folder.is_dir():
        pytest.skip(f"no data set 'a9a' in {DATA} (set COLONNADE_DATA to its folder)")
    X = sparse.vstack([sparse.load_npz(folder / f"X_{part}.npz") for part in ("train", "test")])
    y = np.concatenate([np.load(folder / f"y_{part}.npy") for part in ("train", "test")])
    columns = public([0] * 41 + [1] * 41 + [2] * 41, 1.0, binary=True)
    return X.toarray(), np.where(y > 0, 1.0, -1.0), replace(columns, norms=np.array([2.45, 2.83, 1.0]))


@pytest.mark.parametrize("rho", [0.0255, 0.0004], ids=["epsilon-1", "epsilon-0.1"])
def test_probabilities_are_calibrated_on_people_who_were_not_seen(rho):
    """Adult incomes, three parties, both regimes: over tenths of the held-out people, predicted and true frequencies
    are
    at most .05 apart on average, and the model says more than the share of the class (its log-loss is .1 lower)."""
    A, y, columns = a9a()
    rng = np.random.default_rng(1)
    order = rng.permutation(len(y))
    train, test = order[:39_073], order[39_073:]
    n, rule = train.size, choose(39_073, 123, rho, classes=True)
    sums = None
    if rule.sums:
        sd = math.sqrt(2) * columns.sums_sensitivity() / math.sqrt(2 * rule.sums * rho)
        sums = noisy_sums(A[train], y[train], sd, rng)
    left = (1 - rule.sums) * rho
    rule, frame = prepare(rule, columns, n, sums)
    extended = frame.extended(rule, 1.0)
    sds = noise_levels(columns.owner[frame.keep], 0, extended.noise(left), labels_fixed=True)
    gram = release(clipped(A[train], frame, columns), y[train], extended, sds, rng)
    solved = solve(
        gram, frame, rule, Problem(Logistic(), intercept=True), rows=n, columns=123, label_bound=1.0, sums=sums
    )
    assert solved.link is not None
    p = solved.link(A[test] @ solved.coefficients + solved.intercept)
    up = y[test] > 0
    tenths = np.array_split(np.argsort(p), 10)
    assert np.mean([abs(p[part].mean() - up[part].mean()) for part in tenths]) < 0.05
    loss = -np.mean(np.log(np.where(up, p, 1 - p)))
    share = up.mean()
    assert loss < -share * math.log(share) - (1 - share) * math.log(1 - share) - 0.1
