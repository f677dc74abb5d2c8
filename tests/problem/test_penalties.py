"""Every penalty: its prox against optimality and a solver, its conjugate against Fenchel-Young."""

from __future__ import annotations

import math
import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import InvalidInput
from colonnade.problem import ElasticNet, GroupLasso, Lasso, NuclearNorm, Penalty, Ridge

GROUPS = ((0, 3), (1,), (5, 2, 4))
PENALTIES = [Ridge(0.4), Lasso(0.5), ElasticNet(0.3, 0.7), GroupLasso(0.5, GROUPS), NuclearNorm(0.8)]
BOUNDED = [Lasso(0.5), GroupLasso(0.5, GROUPS), NuclearNorm(0.8)]

every_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
every_bounded = pytest.mark.parametrize("penalty", BOUNDED, ids=lambda p: type(p).__name__)
points = st.lists(st.floats(-5, 5), min_size=6, max_size=6).map(np.array)
generated = settings(deadline=None, max_examples=60)


def shaped(penalty: Penalty, x: np.ndarray) -> np.ndarray:
    return x.reshape(3, 2) if isinstance(penalty, NuclearNorm) else x


def cvxpy_value(penalty: Penalty, x: cp.Variable) -> cp.Expression:
    match penalty:
        case Ridge(a):
            return a / 2 * cp.sum_squares(x)
        case Lasso(a):
            return a * cp.norm1(x)
        case ElasticNet(l1, l2):
            return l1 * cp.norm1(x) + l2 / 2 * cp.sum_squares(x)
        case GroupLasso(a, groups):
            return a * sum(math.sqrt(len(g)) * cp.norm2(x[list(g)]) for g in groups)
        case NuclearNorm(a):
            return a * cp.normNuc(x)
    raise AssertionError(penalty)


@every_penalty
@pytest.mark.parametrize("step", [0.2, 1.0, 4.0])
def test_no_solver_finds_a_better_prox(penalty, step):
    v = shaped(penalty, np.array([1.5, -0.2, 0.4, 2.0, -3.0, 0.1]))
    x = cp.Variable(v.shape)
    solved = cp.Problem(cp.Minimize(cvxpy_value(penalty, x) + cp.sum_squares(x - v) / (2 * step)))
    solved.solve(solver=cp.SCS if isinstance(penalty, NuclearNorm) else cp.CLARABEL)

    def objective(point: np.ndarray) -> float:
        return penalty.value(point) + float(np.sum((point - v) ** 2)) / (2 * step)

    ours = penalty.prox(v, step)
    assert objective(ours) <= objective(x.value) + 1e-13
    # The solver's own accuracy; it also pins the definition, weights of the groups included.
    assert objective(ours) == pytest.approx(solved.value, abs=1e-3 if isinstance(penalty, NuclearNorm) else 1e-6)


@every_penalty
@generated
@given(v=points, step=st.floats(0.1, 10))
def test_what_the_prox_takes_away_is_a_subgradient_where_it_lands(penalty, v, step):
    v = shaped(penalty, v)
    x = penalty.prox(v, step)
    u = (v - x) / step
    inside = penalty.shrink(u) * u  # u itself may be a rounding outside the conjugate's domain
    assert inside == pytest.approx(u, rel=1e-9, abs=1e-12)
    assert float(np.sum(inside * x)) == pytest.approx(penalty.value(x) + penalty.conjugate(inside), rel=1e-9, abs=1e-9)


@every_penalty
@generated
@given(x=points, u=points)
def test_value_plus_conjugate_is_never_below_the_product(penalty, x, u):
    x, u = shaped(penalty, x), shaped(penalty, u)
    u = penalty.shrink(u) * u
    total = penalty.value(x) + penalty.conjugate(u)
    assert math.isfinite(total)
    assert float(np.sum(x * u)) <= total + 1e-12 * (1.0 + total)


@every_bounded
@generated
@given(u=points)
def test_scaling_into_the_domain_goes_as_far_as_needed_and_no_further(penalty, u):
    u = shaped(penalty, u)
    factor = penalty.shrink(u)
    assert 0.0 < factor <= 1.0
    assert penalty.conjugate(factor * u) == 0.0
    if factor < 1.0:
        assert penalty.conjugate((1.0 + 1e-9) * factor * u) == math.inf


@pytest.mark.parametrize("penalty", [Ridge(0.4), ElasticNet(0.3, 0.7)], ids=str)
def test_a_conjugate_that_is_finite_everywhere_needs_no_scaling(penalty):
    u = np.array([1e6, -3.0, 0.0])
    assert penalty.shrink(u) == 1.0
    assert math.isfinite(penalty.conjugate(u))


@every_penalty
def test_zero_costs_nothing_and_stays_where_it_is(penalty):
    zero = shaped(penalty, np.zeros(6))
    assert penalty.value(zero) == 0.0
    assert np.array_equal(zero, penalty.prox(zero, 2.0))
    assert penalty.conjugate(zero) == 0.0
    assert penalty.shrink(zero) == 1.0


def test_group_weights_are_the_roots_of_the_group_sizes():
    x = np.array([3.0, 7.0, 0.0, 4.0, 0.0, 0.0])
    assert GroupLasso(2.0, GROUPS).value(x) == pytest.approx(2.0 * (math.sqrt(2) * 5.0 + 7.0))


@pytest.mark.parametrize("a", [0.0, -1.0, math.nan, math.inf, "much", None])
@pytest.mark.parametrize("kind", [Ridge, Lasso, NuclearNorm, lambda a: GroupLasso(a, GROUPS)])
def test_a_weight_that_is_no_positive_number_is_refused_with_advice(kind, a):
    with pytest.raises(InvalidInput, match="leave penalty out"):
        kind(a)


def test_an_elastic_net_without_one_half_names_the_simpler_penalty():
    with pytest.raises(InvalidInput, match="Ridge"):
        ElasticNet(0.0, 1.0)
    with pytest.raises(InvalidInput, match="Lasso"):
        ElasticNet(1.0, 0.0)


@pytest.mark.parametrize(
    ("groups", "advice"),
    [
        (((0, 1), (1, 2)), "may not overlap"),
        (((0, -1),), "count from 0"),
        (((0,), ()), "leave empty groups out"),
        ((), "leave empty groups out"),
        ((0, 1), "sequences of column numbers"),
        (((0.5,),), "sequences of column numbers"),
    ],
    ids=str,
)
def test_groups_that_are_no_groups_are_refused_with_advice(groups, advice):
    with pytest.raises(InvalidInput, match=advice):
        GroupLasso(1.0, groups)


@pytest.mark.parametrize("columns", [5, 7])
def test_groups_that_do_not_fit_the_vector_are_refused_at_use(columns):
    penalty = GroupLasso(1.0, GROUPS)
    for use in (penalty.value, penalty.conjugate, penalty.shrink, lambda x: penalty.prox(x, 1.0)):
        with pytest.raises(InvalidInput, match="every column needs one group"):
            use(np.ones(columns))


def test_a_column_left_out_of_all_groups_is_refused_at_use():
    with pytest.raises(InvalidInput, match="every column needs one group"):
        GroupLasso(1.0, ((0,), (2,))).value(np.ones(3))
    blocks = NuclearNorm(1.0, ((0,), (2,)))
    for use in (blocks.value, blocks.conjugate, blocks.shrink, lambda x: blocks.prox(x, 1.0)):
        for rows in (3, 4):
            with pytest.raises(InvalidInput, match="every column needs one group"):
                use(np.ones((rows, 2)))


def test_lists_of_columns_make_the_same_value_as_tuples():
    made = GroupLasso(1.0, [np.array([0, 3]), [1], range(2, 3)])
    assert made == GroupLasso(1.0, ((0, 3), (1,), (2,)))
    assert hash(made) == hash(GroupLasso(1.0, ((0, 3), (1,), (2,))))


def test_the_nuclear_norm_asks_for_a_matrix():
    for use in (NuclearNorm(1.0).value, NuclearNorm(1.0).conjugate, lambda x: NuclearNorm(1.0).prox(x, 1.0)):
        with pytest.raises(InvalidInput, match="reshape"):
            use(np.ones(4))


@every_penalty
def test_a_used_penalty_is_still_the_same_value_after_pickling(penalty):
    penalty.value(shaped(penalty, np.ones(6)))
    assert penalty == pickle.loads(pickle.dumps(penalty))
