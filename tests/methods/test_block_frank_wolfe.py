"""Claims about block Frank-Wolfe: its theorems on random problems, its certificate, and what it refuses.

The theorems speak about expectations. Where a sampling is random, a mean over independent runs is compared, and
Hoeffding's inequality says how far it may lie above the expectation: a true theorem fails a test less than once in
1,000,000 runs.
"""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.methods.frank_wolfe.block import BlockFrankWolfe, block_owners
from colonnade.problem.sampling import (
    Elementary,
    Independent,
    Nice,
    PerParty,
    Serial,
    least_probability,
    universal_step,
)
from colonnade.problem.sets import Product
from colonnade.runtime.program import public_bytes
from tests.helpers.curvature import (
    block_products,
    convergence_bound,
    exact_curvature,
    expected_curvature,
    in_pairs,
    inexactness,
    nice_curvature,
    per_party_curvature,
    separable_curvature,
)
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CHANCE = 1e-6
N, D, RADIUS, PARTIES = 20, 6, 1.0, 3
OWNERS = np.repeat(np.arange(PARTIES), D // PARTIES)


class Odd:
    """A user's own sampling: all even blocks, or all odd ones."""

    def draw(self, owners, rng):
        return np.arange(owners.size)[rng.integers(0, 2) :: 2]

    def probabilities(self, owners):
        return np.full(owners.size, 0.5)

    def pairs(self, owners):
        place = np.arange(owners.size)
        return 0.5 * (place[:, None] % 2 == place[None, :] % 2)


SAMPLINGS = {
    "elementary": Elementary(),
    "serial": Serial(),
    "nice": Nice(2),
    "per party": PerParty(1),
    "independent": Independent(0.4),
    "importance": Independent((0.9, 0.5, 0.5, 0.3, 0.3, 0.3)),
    "user's own": Odd(),
}
LOSSES = {"least squares": co.LeastSquares(), "logistic": co.Logistic(), "squared hinge": co.SquaredHinge()}
every_sampling = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def table(loss, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N, D))
    y = A @ rng.choice([-1.0, 1.0], D) + 0.5 * rng.normal(size=N)
    return A, np.sign(y) if loss.classifies else y


def optimum(loss, A, y, constraint) -> float:
    """By an independent solver, over a product written out."""
    x = cp.Variable(A.shape[1])
    scores = A @ x
    fit = {
        co.LeastSquares: lambda: cp.sum_squares(scores - y) / 2,
        co.Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, scores))),
        co.SquaredHinge: lambda: cp.sum_squares(cp.pos(1 - cp.multiply(y, scores))) / 2,
    }[type(loss)]()
    limits = []
    for group in constraint.blocks:
        part = x[list(group)]
        ball = [cp.norm1(part) <= constraint.radius]
        limits += ball if isinstance(constraint.each, co.L1Ball) else [part >= 0, cp.sum(part) == constraint.radius]
    return confident(cp.Problem(cp.Minimize(fit / len(y)), limits))


def written_out(constraint, federation):
    roster = federation.roster()
    return constraint.over([roster.positions[p] for p in roster.with_columns])


def solved(loss, method, constraint, parties=PARTIES, seed=0):
    A, y = table(loss, seed)
    federation = co.Federation.split(A, y, parties=parties)
    fit = co.fit(federation, co.Problem(loss, constraint), method)
    return fit, A, y, written_out(constraint, federation)


def joint(fit, parties=PARTIES) -> np.ndarray:
    return np.concatenate([fit.coefficients[f"party{k}"] for k in range(parties)])


# ---------------------------------------------------------------- the program is the algorithm


@pytest.mark.chance(1e-9, "the same draws twice; 150 gradients, one within 1e-14 of 0 could change its sign")
@every_sampling
def test_the_programs_compute_what_algorithm_1_says_line_by_line(sampling):
    loss = co.LeastSquares()
    fit, A, y, box = solved(loss, BlockFrankWolfe(sampling, rounds=25, tolerance=0.0), Product(co.L1Ball(RADIUS)))
    x, least = np.zeros(D), least_probability(sampling, OWNERS)
    for t in range(25):
        rng = np.random.default_rng(int.from_bytes(public_bytes(fit.run, "blocks", t), "little"))
        vertex = np.where(A.T @ loss.slope(A @ x, y) < 0.0, RADIUS, -RADIUS)
        for i in sampling.draw(OWNERS, rng):
            x[i] += 2 / (least * t + 2) * (vertex[i] - x[i])
    np.testing.assert_allclose(joint(fit), x, rtol=0, atol=1e-12)
    assert fit.objective == pytest.approx(loss.value(A @ x, y), rel=1e-9)
    assert fit.gap == pytest.approx(box.gap(x, A.T @ loss.slope(A @ x, y)), rel=1e-9)


# ---------------------------------------------------------------- theorem 1 and theorem 2


def runs(loss, A, y, sampling, rounds, count, seed, gradient_error=0.0, oracle_error=0.0) -> np.ndarray:
    """f(x_t) of many runs side by side, over the box |x_j| ≤ 1: (count, rounds + 1)."""
    rng = np.random.default_rng(seed)
    x, least = np.zeros((count, D)), least_probability(sampling, OWNERS)
    values = np.empty((count, rounds + 1))
    for t in range(rounds + 1):
        scores = x @ A.T
        values[:, t] = [loss.value(s, y) for s in scores]
        gradient = np.stack([loss.slope(s, y) for s in scores]) @ A
        step = universal_step(t, least)
        seen = gradient + gradient_error * step * rng.choice([-1.0, 1.0], gradient.shape)
        vertex = np.where(seen < 0, RADIUS, -RADIUS)
        vertex[2 * RADIUS * np.abs(seen) <= oracle_error * step] *= -1  # the other one, where that is allowed
        chosen = np.zeros((count, D), bool)
        for run in range(count):
            chosen[run, sampling.draw(OWNERS, rng)] = True
        x += np.where(chosen, step * (vertex - x), 0.0)
    return values


def largest_value(loss, A, y) -> float:
    """A convex function is largest at a vertex of the box."""
    return max(loss.value(A @ (RADIUS * np.array(s)), y) for s in itertools.product([-1, 1], repeat=D))


def curvature_of(loss, A, sampling) -> float:
    products = block_products(loss, A, tuple((j,) for j in range(D)), np.full(D, RADIUS))
    return expected_curvature(products, in_pairs(sampling, OWNERS))


@pytest.mark.thinned("slow")
@every_sampling
@every_loss
def test_theorem_1_holds_for_every_sampling(loss, sampling):
    count, rounds = 40, 100
    A, y = table(loss)
    best = optimum(loss, A, y, Product(co.L1Ball(RADIUS)).over([range(D)]))
    excess = runs(loss, A, y, sampling, rounds, count, seed=1) - best
    above = (largest_value(loss, A, y) - best) * math.sqrt(math.log(1 / CHANCE) / (2 * count))
    curvature, least = curvature_of(loss, A, sampling), least_probability(sampling, OWNERS)
    for t in (1, 10, 40, rounds):
        bound = convergence_bound(t, excess[0, 0], curvature, least)
        assert excess[:, t].mean() <= bound + above + 1e-7
    assert excess[:, rounds].mean() < 0.5 * excess[0, 0]  # and it does go down


@pytest.mark.chance(0, "all blocks come in every round: nothing that is drawn counts")
@every_loss
def test_theorem_1_holds_in_every_round_where_nothing_is_random(loss):
    """With all blocks in every round the bound holds for the run itself, so there is no room for luck."""
    fit, A, y, box = solved(loss, BlockFrankWolfe(Elementary(), rounds=150, tolerance=0.0), Product(co.L1Ball(RADIUS)))
    best, curvature = optimum(loss, A, y, box), curvature_of(loss, A, Elementary())
    excess = fit.history["objective"].to_numpy() - best
    bounds = [convergence_bound(t, excess[0], curvature, 1.0) for t in range(excess.size)]
    assert bounds[-1] < 0.5 * excess[0] or not isinstance(loss, co.LeastSquares)  # it is no empty bound
    assert (excess <= np.array(bounds) + 1e-7).all()


@pytest.mark.chance(1e-9, "the bound holds for any signs; 33 of 600 vertices are changed on average, sd 3.6, not none")
@pytest.mark.parametrize(("gradient_error", "oracle_error"), [(0.3, 0.0), (0.0, 0.5), (0.3, 0.5)])
def test_theorem_2_holds_in_every_round_with_errors_of_the_stated_size(gradient_error, oracle_error):
    loss = co.LeastSquares()
    method = BlockFrankWolfe(Elementary(), 100, 0.0, gradient_error, oracle_error)
    fit, A, y, box = solved(loss, method, Product(co.L1Ball(RADIUS)))
    exact = solved(loss, BlockFrankWolfe(Elementary(), 100, 0.0), Product(co.L1Ball(RADIUS)))[0]
    best, curvature = optimum(loss, A, y, box), curvature_of(loss, A, Elementary())
    excess = fit.history["objective"].to_numpy() - best
    room = inexactness(D, 2 * RADIUS, gradient_error, oracle_error, curvature)
    bounds = [convergence_bound(t, excess[0], curvature, 1.0, room) for t in range(excess.size)]
    assert (excess <= np.array(bounds) + 1e-7).all()
    assert fit.objective != exact.objective  # the errors were made


@every_sampling
def test_theorem_2_holds_on_average_for_every_sampling(sampling):
    loss, count, rounds, gradient_error, oracle_error = co.LeastSquares(), 40, 100, 0.3, 0.5
    A, y = table(loss)
    best = optimum(loss, A, y, Product(co.L1Ball(RADIUS)).over([range(D)]))
    excess = runs(loss, A, y, sampling, rounds, count, 2, gradient_error, oracle_error) - best
    above = (largest_value(loss, A, y) - best) * math.sqrt(math.log(1 / CHANCE) / (2 * count))
    curvature, chances = curvature_of(loss, A, sampling), sampling.probabilities(OWNERS)
    room = inexactness(chances.sum(), 2 * RADIUS, gradient_error, oracle_error, curvature)
    for t in (1, 10, 40, rounds):
        bound = convergence_bound(t, excess[0, 0], curvature, chances.min(), room)
        assert excess[:, t].mean() <= bound + above + 1e-7


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_the_expected_curvature_bounds_what_it_bounds(seed, data):
    """For least squares E(2/γ²)(…) is E‖A·δ_T‖²/n = δ'(P∘A'A)δ/n, whatever γ: compared at random pairs of points."""
    rng, sampling = np.random.default_rng(seed), data.draw(st.sampled_from(list(SAMPLINGS.values())))
    A, groups, radii = rng.normal(size=(7, D)), tuple((j,) for j in range(D)), rng.uniform(0.1, 2.0, D)
    products, pairs = block_products(co.LeastSquares(), A, groups, radii), in_pairs(sampling, OWNERS)
    for _ in range(20):
        delta = rng.choice([-2.0, 2.0, rng.uniform(-2, 2)], D) * radii
        assert delta @ (pairs * (A.T @ A)) @ delta / 7 <= expected_curvature(products, pairs) * (1 + 1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_proposition_1_bounds_the_expected_curvature_of_least_squares(seed, data):
    rng, sampling = np.random.default_rng(seed), data.draw(st.sampled_from(list(SAMPLINGS.values())))
    A, radii, pairs = rng.normal(size=(7, D)), rng.uniform(0.1, 2.0, D), in_pairs(sampling, OWNERS)
    assert exact_curvature(A, radii, pairs) <= separable_curvature(A, radii, pairs) * (1 + 1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), tau=st.integers(1, D))
def test_proposition_2_compares_the_expected_curvature_with_those_of_three_samplings(seed, tau):
    """Global curvature, product curvature and expected set curvature, of least squares: each by its own definition."""
    rng = np.random.default_rng(seed)
    A, radii = rng.normal(size=(7, D)), rng.uniform(0.1, 2.0, D)

    def of_blocks(chosen):
        """The largest ‖A δ‖²/n where only the chosen blocks move."""
        corners = itertools.product([-2.0, 2.0], repeat=len(chosen))
        return max(np.sum((A[:, chosen] @ (radii[chosen] * corner)) ** 2) for corner in corners) / 7

    def expected(sampling):
        return exact_curvature(A, radii, in_pairs(sampling, OWNERS))

    sets = [list(chosen) for chosen in itertools.combinations(range(D), tau)]
    assert expected(Elementary()) == pytest.approx(of_blocks(list(range(D))), rel=1e-12)
    assert expected(Serial()) <= sum(of_blocks([i]) for i in range(D)) / D * (1 + 1e-12)
    assert expected(Nice(tau)) <= np.mean([of_blocks(chosen) for chosen in sets]) * (1 + 1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), tau=st.integers(1, 3))
def test_propositions_3_and_4_bound_the_expected_curvature(seed, tau):
    A, owners = np.random.default_rng(seed).normal(size=(7, D)), np.repeat([0, 1], 3)
    products = block_products(co.Logistic(), A, tuple((j,) for j in range(D)), np.ones(D))
    nice, party = Nice(tau), PerParty(tau)
    assert expected_curvature(products, in_pairs(nice, owners)) <= nice_curvature(products, tau) * (1 + 1e-12)
    assert expected_curvature(products, in_pairs(party, owners)) <= per_party_curvature(products, owners, tau) * (
        1 + 1e-12
    )


def test_products_of_groups_are_bounded_over_their_balls():
    rng = np.random.default_rng(4)
    A, groups, radii = rng.normal(size=(9, 5)), ((0, 3), (1, 2, 4)), np.array([0.7, 1.3])
    products = block_products(co.LeastSquares(), A, groups, radii)
    for _ in range(300):
        ends = []
        for group, radius in zip(groups, radii, strict=True):
            delta = np.zeros(5)
            delta[list(group)] = 2 * radius * rng.dirichlet(np.full(len(group), 0.3)) * rng.choice([-1, 1], len(group))
            ends.append(A @ delta)
        for i, j in itertools.product(range(2), repeat=2):
            assert abs(ends[i] @ ends[j]) / 9 <= products[i, j] * (1 + 1e-12)


# ---------------------------------------------------------------- samplings


@every_sampling
def test_blocks_come_as_often_as_a_sampling_says_alone_and_in_pairs(sampling):
    """4,000 draws; each of 36 frequencies within 5.5 standard errors: wrong by chance less than once in 500,000
    times."""
    rng, draws = np.random.default_rng(11), 4_000
    seen = np.zeros((D, D))
    for _ in range(draws):
        chosen = np.zeros(D)
        chosen[sampling.draw(OWNERS, rng)] = 1
        seen += np.outer(chosen, chosen)
    stated = in_pairs(sampling, OWNERS)
    assert stated.diagonal().tolist() == pytest.approx(sampling.probabilities(OWNERS).tolist())
    assert (np.abs(seen / draws - stated) <= 5.5 * np.sqrt(stated * (1 - stated) / draws) + 1e-12).all()


def test_the_least_probability_is_taken_from_the_sampling_and_not_from_a_table():
    """The published table says (K·tau)²/d² for K parties that draw tau each; by definition it is tau over the largest
    party."""
    assert least_probability(PerParty(2), np.array([0] * 3 + [1] * 8)) == 2 / 8
    assert least_probability(PerParty(4), np.array([0] * 3 + [1] * 8)) == 4 / 8
    assert least_probability(PerParty(2), OWNERS) == 1.0
    assert least_probability(Nice(2), OWNERS) == 2 / 6
    assert least_probability(Serial(), OWNERS) == 1 / 6
    assert least_probability(Independent((0.5, 0.1, 1.0)), np.zeros(3, int)) == 0.1
    assert universal_step(0, 0.1) == 1.0


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Nice(0), "whole number"),
        (lambda: Nice(1.5), "whole number"),
        (lambda: PerParty(-1), "whole number"),
        (lambda: Independent(0.0), "above 0"),
        (lambda: Independent((0.5, 1.5)), "above 0"),
        (lambda: Independent("often"), "above 0"),
        (lambda: Nice(7).probabilities(OWNERS), "at most 6"),
        (lambda: Independent((0.5, 0.5)).probabilities(OWNERS), "one each"),
        (lambda: BlockFrankWolfe(Nice), "draw and probabilities"),
        (lambda: BlockFrankWolfe("nice"), "draw and probabilities"),
        (lambda: BlockFrankWolfe(rounds=0), "positive integer"),
        (lambda: BlockFrankWolfe(oracle_error=-1.0), "positive"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(make, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        make()


class Never(Odd):
    def probabilities(self, owners):
        return np.where(np.arange(owners.size) == 2, 0.0, 1.0)


class Outside(Odd):
    def draw(self, owners, rng):
        return np.array([owners.size])


@pytest.mark.chance(0, "refused by its probabilities, or for whatever it draws")
@pytest.mark.parametrize(("sampling", "advice"), [(Never(), "above 0"), (Outside(), "outside 0 to 5")])
def test_an_improper_sampling_is_refused(sampling, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        solved(co.LeastSquares(), BlockFrankWolfe(sampling, rounds=3), Product(co.L1Ball(1.0)))


# ---------------------------------------------------------------- products of sets, and the certificate

PRODUCTS = {
    "columns": Product(co.L1Ball(0.4)),
    "parties": Product(co.L1Ball(1.2), blocks="parties"),
    "groups": Product(co.L1Ball(0.8), blocks=((1,), (0,), (3, 2), (4, 5))),
    "simplices": Product(co.Simplex(0.7), blocks="parties"),
}


@pytest.mark.chance(0, "gap and optimum bound each other at every point that draws could lead to")
@pytest.mark.thinned("slow")
@every_loss
@pytest.mark.parametrize("constraint", PRODUCTS.values(), ids=PRODUCTS)
def test_the_gap_bounds_the_distance_to_the_optimum_over_a_product(loss, constraint):
    fit, A, y, product = solved(loss, BlockFrankWolfe(PerParty(1), rounds=80, tolerance=0.0), constraint)
    excess = fit.objective - optimum(loss, A, y, product)
    assert -1e-7 <= excess <= fit.gap + 1e-7
    assert product.contains(joint(fit), 1e-12)
    assert fit.objective == pytest.approx(loss.value(A @ joint(fit), y), rel=1e-9)


@pytest.mark.chance(0, "all blocks come in every round: nothing that is drawn counts")
def test_a_run_that_reaches_its_tolerance_says_so_and_its_model_has_that_gap():
    loss = co.Logistic()
    fit, A, y, box = solved(loss, BlockFrankWolfe(Elementary(), 2000, 0.05), Product(co.L1Ball(RADIUS)))
    assert fit.status is co.Status.CERTIFIED
    assert len(fit.notes) < 2000
    assert box.gap(joint(fit), A.T @ loss.slope(A @ joint(fit), y)) == pytest.approx(fit.gap, rel=1e-9)
    assert fit.gap <= 0.05


@pytest.mark.chance(0, "all blocks come in every round: nothing that is drawn counts")
def test_the_split_of_columns_changes_nothing_but_who_holds_what():
    loss, method = co.LeastSquares(), BlockFrankWolfe(Elementary(), 40, 0.0)
    one = solved(loss, method, Product(co.L1Ball(0.4)), parties=1)[0]
    six = solved(loss, method, Product(co.L1Ball(0.4)), parties=6)[0]
    np.testing.assert_allclose(joint(one, 1), joint(six, 6), rtol=0, atol=1e-12)


@pytest.mark.chance(0, "all blocks come in every round: nothing that is drawn counts")
def test_equal_columns_and_columns_of_zeros_do_no_harm():
    rng = np.random.default_rng(3)
    a = rng.normal(size=(20, 2))
    A, y = np.hstack([a, a, np.zeros((20, 2))]), a[:, 0] - 0.2 * a[:, 1]
    product, loss = Product(co.L1Ball(0.4)).over([range(6)]), co.LeastSquares()
    method = BlockFrankWolfe(Elementary(), 300, 0.0)
    fit = co.fit(co.Federation.split(A, y, parties=3), co.Problem(loss, Product(co.L1Ball(0.4))), method)
    assert -1e-9 <= fit.objective - optimum(loss, A, y, product) <= fit.gap + 1e-7
    assert product.contains(joint(fit), 1e-12)


@pytest.mark.chance(0, "one block a round, whichever it is")
def test_a_party_without_a_block_in_the_round_sends_no_change():
    fit, *_ = solved(co.LeastSquares(), BlockFrankWolfe(Serial(), 20, 0.0), Product(co.L1Ball(0.4)))
    changes = fit.communication.by("type", "party", "round")
    long = changes.filter((changes["type"] == "Change") & (changes["bytes"] > 8 * N))
    assert long.height <= 20  # one a round, of three parties that answer


@pytest.mark.parametrize(
    ("constraint", "advice"),
    [
        (co.L1Ball(1.0), "product of sets"),
        (Product(co.L1Ball(1.0), blocks=((0, 5), (1, 2, 3, 4))), "several parties"),
        (Product(co.L1Ball(1.0), blocks=((0, 1), (2, 3))), "every column needs one block"),
    ],
)
def test_a_set_that_is_no_product_over_the_parties_is_refused(constraint, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        solved(co.LeastSquares(), BlockFrankWolfe(rounds=2), constraint)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Product(3.0), "L1Ball"),
        (lambda: Product(co.L1Ball(1.0), blocks="rows"), "'columns', 'parties'"),
        (lambda: Product(co.L1Ball(1.0), blocks=((0, 1), (1,))), "overlap"),
        (lambda: Product(co.L1Ball(1.0), blocks="parties").project(np.zeros(3)), "without parties"),
    ],
)
def test_a_product_that_means_nothing_is_refused(make, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        make()


@given(seed=st.integers(0, 10_000))
def test_a_product_projects_and_supports_block_by_block(seed):
    rng, product = np.random.default_rng(seed), Product(co.L1Ball(0.8), blocks=((1,), (0, 4), (3, 2)))
    x, gradient = rng.normal(size=5), rng.normal(size=5)
    near = product.project(x)
    assert product.contains(near)
    for group in product.blocks:
        np.testing.assert_array_equal(near[list(group)], co.L1Ball(0.8).project(x[list(group)]))
    of_blocks = sum(co.L1Ball(0.8).support(gradient[list(group)]) for group in product.blocks)
    assert product.support(gradient) == pytest.approx(of_blocks, rel=1e-12)


def test_owners_are_numbered_among_parties_with_columns():
    federation = co.Federation.split(np.eye(4), [1.0, 2.0, 3.0, 4.0], parties={"b": [2, 0], "a": [1, 3]})
    product = written_out(Product(co.L1Ball(1.0)), federation)
    assert block_owners(product, federation.roster()).tolist() == [0, 1, 0, 1]
