"""The corrective step: its Hessian, extended or by blocks, beside the one that is built afresh by plain products."""

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.problem import hull

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
    corrector, rng = hull.Corrector(loss, co.L1Ball(1.0), y), np.random.default_rng(5)
    for count in range(1, ATOMS + 1):
        used = np.flatnonzero(rng.random(count) < 0.7)
        used = used if used.size else np.arange(count)
        curvature = loss.curvature(rng.normal(size=ROWS), y)
        chosen = M[:, used]
        expected = chosen.T @ (curvature[:, None] * chosen)
        assert close(corrector.hessian(sparse.csc_array(M[:, :count]), used, curvature), expected)


def test_a_constant_curvature_rebuilds_nothing(table, monkeypatch):
    M, y = table
    corrector, curvature = hull.Corrector(co.LeastSquares(), co.L1Ball(1.0), y), np.full(ROWS, 1.0 / ROWS)
    corrector.hessian(sparse.csc_array(M[:, :1]), np.arange(1), curvature)
    monkeypatch.setattr(hull, "sparse_hessian", None)
    monkeypatch.setattr(hull, "dense_hessian", None)
    for count in range(2, ATOMS + 1):
        assert close(
            corrector.hessian(sparse.csc_array(M[:, :count]), np.arange(count), curvature),
            M[:, :count].T @ M[:, :count] / ROWS,
        )


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


def test_rows_out_of_order_are_put_in_order(monkeypatch):
    rng = np.random.default_rng(2)
    M = rng.normal(size=(ROWS, ATOMS))
    monkeypatch.setattr(hull, "BLOCK", 64)  # several blocks
    straight, order = sparse.csc_array(M), np.concatenate([k * ROWS + rng.permutation(ROWS) for k in range(ATOMS)])
    mixed = sparse.csc_array((straight.data[order], straight.indices[order], straight.indptr), shape=M.shape)
    curvature = rng.random(ROWS)
    assert close(hull.dense_hessian(mixed, np.arange(ATOMS), curvature), M.T @ (curvature[:, None] * M))
