"""The corrective step: its Hessian, beside the one that is built afresh by plain products, and its best points, beside
those of CVXPY's solvers."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as co
from colonnade.kernels.newton_model import EPSILON, quadratic_minimum
from colonnade.problem import hull
from tests.helpers.reference import confident

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROWS, ATOMS = 300, 9


@pytest.fixture(params=[0.02, 0.3, 1.0], ids=lambda share: f"{share:g} of the entries")
def table(request) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    M = rng.normal(size=(ROWS, ATOMS)) * (rng.random((ROWS, ATOMS)) < request.param)
    M[:ATOMS] += np.eye(ATOMS)
    return M, np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal up to the rounding of sums of ROWS products."""
    return bool(np.allclose(one, other, rtol=0.0, atol=ROWS * 2.0**-52 * np.abs(other).max()))


def stored(M: np.ndarray, zeros: bool) -> sparse.csc_array:
    """In CSC form, with the zeros of a dense column or without."""
    if not zeros:
        return sparse.csc_array(M)
    rows, columns = M.shape
    places = np.tile(np.arange(rows), columns)
    return sparse.csc_array((M.ravel(order="F"), places, rows * np.arange(columns + 1)), shape=M.shape)


@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic(), co.SquaredHinge()], ids=lambda v: type(v).__name__)
def test_a_hessian_extended_atom_by_atom_is_the_rebuilt_one(table, loss):
    M, y = table
    corrector, rng = hull.Corrector(loss, co.L1Ball(1.0), y, True), np.random.default_rng(5)
    for count in range(1, ATOMS + 1):
        used = np.flatnonzero(rng.random(count) < 0.7)
        used = used if used.size else np.arange(count)
        curvature = loss.curvature(rng.normal(size=ROWS), y)
        chosen = np.column_stack([M[:, used], np.ones(ROWS)])
        expected = chosen.T @ (curvature[:, None] * chosen)
        hessian = corrector.hessian(sparse.csc_array(M[:, :count]), used, curvature)
        assert close(hessian, expected)


def test_a_constant_curvature_rebuilds_nothing(table, monkeypatch):
    M, y = table
    corrector, curvature = hull.Corrector(co.LeastSquares(), co.L1Ball(1.0), y), np.full(ROWS, 1.0 / ROWS)
    corrector.hessian(sparse.csc_array(M[:, :1]), np.arange(1), curvature)
    monkeypatch.setattr(hull, "sparse_hessian", None)
    monkeypatch.setattr(hull, "dense_hessian", None)
    for count in range(2, ATOMS + 1):
        hessian = corrector.hessian(sparse.csc_array(M[:, :count]), np.arange(count), curvature)
        assert close(hessian, M[:, :count].T @ M[:, :count] / ROWS)


def test_an_old_curvature_serves_new_atoms_until_another_is_given(table):
    M, y = table
    corrector, old = hull.Corrector(co.Logistic(), co.L1Ball(1.0), y), np.linspace(0.1, 0.2, ROWS)
    corrector.hessian(sparse.csc_array(M[:, :4]), np.arange(4), old)
    assert close(corrector.hessian(sparse.csc_array(M), np.arange(ATOMS)), M.T @ (old[:, None] * M))


@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic()], ids=lambda v: type(v).__name__)
def test_zeros_that_a_dense_column_stores_change_no_bit(table, loss):
    M, y = table
    weights = np.where(np.arange(ATOMS) % 3, 0.1, 0.0)
    one, other = (
        hull.Corrector(loss, co.L1Ball(1.0), y).best_weights(stored(M, zeros), weights, M @ weights)
        for zeros in (False, True)
    )
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("loss", [co.LeastSquares(), co.Logistic()], ids=lambda v: type(v).__name__)
def test_where_no_atom_is_in_use_nothing_is_corrected(table, loss):
    M, y = table
    corrector = hull.Corrector(loss, co.L1Ball(1.0), y)
    weights = corrector.best_weights(sparse.csc_array(M), np.zeros(ATOMS), np.zeros(ROWS))
    assert np.array_equal(weights, np.zeros(ATOMS))
    one = corrector.best_weights(sparse.csc_array(M), np.eye(ATOMS)[0] / 2, M[:, 0] / 2)  # and the next step is as ever
    fresh = hull.Corrector(loss, co.L1Ball(1.0), y).best_weights(sparse.csc_array(M), np.eye(ATOMS)[0] / 2, M[:, 0] / 2)
    assert one.tobytes() == fresh.tobytes()


def test_labels_of_zero_are_fitted_by_zero(table):
    """The first line search stays where it is: an atom is known, and none is in use."""
    M, _ = table
    fed = co.Federation.split(M, np.zeros(ROWS), parties=2)
    method = co.DistributedFrankWolfe(rounds=3, tolerance=0.0)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.5)), method=method)
    assert fit.objective == fit.gap == 0.0
    assert fit.status is co.Status.ALL_ROUNDS  # though the gap is within the tolerance of 0


def test_a_gap_is_rounding_up_to_the_root_of_the_rows_times_the_largest_product():
    """√100·2⁻⁵²·radius times Σ|entry·row|, of the atom with the most: 3·100, of another party's 1/10."""
    corrector = hull.Corrector(co.LeastSquares(), co.L1Ball(2.0), np.ones(100))
    atoms, rows = sparse.csc_array(np.column_stack([np.full(100, 3.0), np.full(100, 0.1)])), np.ones(100)
    corrector.hessian(atoms[:, [0]], np.arange(1), rows)
    corrector.hessian(atoms, np.arange(2), rows)
    unit = EPSILON * 10.0 * 2.0 * 300.0
    assert corrector._is_rounding(0.9 * unit, atoms, rows)
    assert not corrector._is_rounding(1.1 * unit, atoms, rows)


def test_a_hessian_of_rows_that_bent_otherwise_is_built_again():
    """It is that of scores of 0; on the way to others, where the logistic loss hardly bends, it would be far too large."""
    rng, loss, constraint = np.random.default_rng(1), co.Logistic(), co.L1Ball(3.0)
    M, weights = 4.0 * rng.normal(size=(200, 6)), np.full(6, 1e-3)
    y = np.where(M @ np.linspace(-1.0, 1.0, 6) / 4.0 + rng.normal(size=200) > 0, 1.0, -1.0)
    corrector, atoms = hull.Corrector(loss, constraint, y), sparse.csc_array(M)
    corrector.hessian(atoms, np.arange(6), loss.curvature(np.zeros(200), y))
    start = constraint.gap(weights, M.T @ loss.slope(M @ weights, y))
    found = corrector.best_weights(atoms, weights, M @ weights)
    assert constraint.gap(found, M.T @ loss.slope(M @ found, y)) <= hull.SHARE * start


def test_rows_out_of_order_are_put_in_order(monkeypatch):
    rng = np.random.default_rng(2)
    M = rng.normal(size=(ROWS, ATOMS))
    monkeypatch.setattr(hull, "BLOCK", 64)  # several blocks
    straight, order = sparse.csc_array(M), np.concatenate([k * ROWS + rng.permutation(ROWS) for k in range(ATOMS)])
    mixed = sparse.csc_array((straight.data[order], straight.indices[order], straight.indptr), shape=M.shape)
    curvature = rng.random(ROWS)
    assert close(hull.dense_hessian(mixed, np.arange(ATOMS), curvature), M.T @ (curvature[:, None] * M))


SETS = st.sampled_from([co.L1Ball, co.Simplex])


@settings(max_examples=30, deadline=None)
@given(SETS, st.integers(1, 12), st.integers(1, 14), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 2**20))
def test_a_quadratic_is_minimised_over_the_set_as_cvxpy_does_it(kind, size, rank, radius, seed):
    """Singular where the rank is below the size; scales of columns differ, and one column may be there twice."""
    rng, constraint = np.random.default_rng(seed), kind(radius)
    A = rng.normal(size=(rank, size)) * 10.0 ** rng.uniform(-2.0, 2.0, size)
    A[:, -1] = A[:, 0] if seed % 3 == 0 else A[:, -1]
    H, c, start = A.T @ A, A.T @ rng.normal(size=rank) * 10.0, constraint.start(size)
    u = quadratic_minimum(H, c, constraint.radius, start, signed=kind is co.L1Ball)
    assert constraint.contains(u, 1e-12)
    gap = constraint.gap(u, H @ u + c)
    assert gap <= 1e-9 * radius * np.abs(c).max()
    x = cp.Variable(size)
    within = [cp.norm1(x) <= radius] if kind is co.L1Ball else [x >= 0, cp.sum(x) == radius]
    lowest = confident(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x) + c @ x), within))
    value = 0.5 * float(np.sum((A @ u) ** 2)) + float(c @ u)
    assert value == pytest.approx(lowest, rel=1e-6, abs=1e-6 * radius * np.abs(c).max())


@settings(max_examples=30, deadline=None)
@given(SETS, st.integers(2, 12), st.integers(0, 2**20))
def test_where_a_quadratic_is_not_convex_the_answer_is_no_worse_than_the_start(kind, size, seed):
    rng, constraint = np.random.default_rng(seed), kind(2.0)
    H = rng.normal(size=(size, size))
    H, c, start = H + H.T, rng.normal(size=size), constraint.project(rng.normal(size=size))
    u = quadratic_minimum(H, c, constraint.radius, start, signed=kind is co.L1Ball)
    assert constraint.contains(u, 1e-12)

    def value(point):
        return 0.5 * point @ H @ point + c @ point

    assert value(u) <= value(start) + 1e-12


LOSSES = {
    co.Logistic(): lambda margins: cp.logistic(-margins),
    co.SquaredHinge(): lambda margins: 0.5 * cp.square(cp.pos(1 - margins)),
    co.LeastSquares(): lambda margins: 0.5 * cp.square(1 - margins),  # (y − s)² = (1 − ys)² where y = ±1
}


@settings(max_examples=25, deadline=None)
@given(SETS, st.sampled_from([*LOSSES]), st.booleans(), st.integers(1, 8), st.integers(0, 2**20))
def test_the_corrected_weights_are_the_best_in_the_hull(kind, loss, intercept, atoms, seed):
    rng, constraint = np.random.default_rng(seed), kind(3.0)
    M = rng.normal(size=(60, atoms)) + (rng.random(atoms) < 0.3)  # some point along the intercept
    y = np.where(M @ np.linspace(-1.0, 1.0, atoms) + rng.normal(size=60) > 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = np.full(atoms, constraint.radius / atoms)
    corrector, b = hull.Corrector(loss, constraint, y, intercept), 0.0
    for _ in range(2):  # a call takes the gap to a ten-thousandth, and may start far away
        weights = corrector.best_weights(sparse.csc_array(M), weights, M @ weights + b)
        b = loss.best_intercept(M @ weights, y) if intercept else 0.0
        if not weights.all():
            break
    x, shift = cp.Variable(atoms), cp.Variable() if intercept else 0.0
    within = [cp.norm1(x) <= 3.0] if kind is co.L1Ball else [x >= 0, cp.sum(x) == 3.0]
    lowest = confident(cp.Problem(cp.Minimize(cp.sum(LOSSES[loss](cp.multiply(y, M @ x + shift))) / y.size), within))
    assert constraint.contains(weights, 1e-12)
    assert loss.value(M @ weights + b, y) <= lowest + 1e-5
