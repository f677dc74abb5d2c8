"""Claims about sketches: column norms, unbiased products, and that a sketch is a function of its seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels.sketch import sketch_key, sparse_lift, sparse_sketch
from papers.published.dense_sketch import gaussian_sketch, largest_column_norm, rademacher_sketch

SEEDS = st.binary(min_size=32, max_size=32)


def sketched(seed: bytes, m: int, entries: int, column: np.ndarray) -> np.ndarray:
    out = np.empty(m)
    sparse_sketch(sketch_key(seed), entries, np.arange(column.size), column, out)
    return out


def written_out(seed: bytes, m: int, entries: int, n: int) -> np.ndarray:
    """J as a dense matrix, column by column."""
    return np.stack([sketched(seed, m, entries, row) for row in np.eye(n)], axis=1)


@given(seed=SEEDS, strata=st.integers(1, 9), n=st.integers(1, 40), entries=st.sampled_from([1, 4, 16]))
def test_every_column_of_the_sparse_sketch_has_norm_exactly_one(seed, strata, n, entries):
    """Exactly: a sensitivity is computed from it, and 1/√entries is a power of two."""
    J = written_out(seed, strata * entries, entries, n)
    assert (np.square(J).sum(axis=0) == 1.0).all()
    assert (np.count_nonzero(J, axis=0) == entries).all()
    for stratum in np.split(J, entries):
        assert (np.count_nonzero(stratum, axis=0) == 1).all()


@given(seed=SEEDS, n=st.integers(1, 30), data=st.data())
def test_sketch_and_lift_are_a_matrix_and_its_transpose(seed, n, data):
    numbers = st.floats(-10, 10)
    a = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    q = np.array(data.draw(st.lists(numbers, min_size=8, max_size=8)))
    J, lifted = written_out(seed, 8, 4, n), np.empty(n)
    sparse_lift(sketch_key(seed), 4, q, lifted)
    np.testing.assert_allclose(sketched(seed, 8, 4, a), J @ a, rtol=0, atol=1e-12 * (1 + np.abs(a).sum()))
    np.testing.assert_allclose(lifted, J.T @ q, rtol=0, atol=1e-12 * (1 + np.abs(q).sum()))


def test_a_sparse_column_has_the_sketch_of_the_same_column_written_out():
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(500, 20, replace=False))
    dense = np.zeros(500)
    dense[rows] = rng.normal(size=20)
    out = np.empty(40)
    sparse_sketch(sketch_key(b"s" * 32), 4, rows, dense[rows], out)
    assert out.tobytes() == sketched(b"s" * 32, 40, 4, dense).tobytes()


def test_one_seed_gives_one_sketch_and_another_seed_another():
    a = np.random.default_rng(1).normal(size=100)
    assert sketched(b"a" * 32, 16, 4, a).tolist() == sketched(b"a" * 32, 16, 4, a).tolist()
    assert sketched(b"a" * 32, 16, 4, a).tolist() != sketched(b"b" * 32, 16, 4, a).tolist()
    assert gaussian_sketch(b"a" * 32, 4, 9).tolist() == gaussian_sketch(b"a" * 32, 4, 9).tolist()
    assert rademacher_sketch(b"a" * 32, 4, 9).tolist() != rademacher_sketch(b"b" * 32, 4, 9).tolist()


def test_the_largest_column_norm_is_what_one_entry_moves_a_sketch_by():
    J = gaussian_sketch(b"g" * 32, 20, 50)
    moved = [np.linalg.norm(J @ unit) for unit in np.eye(50)]
    assert largest_column_norm(J) == pytest.approx(max(moved), rel=1e-12)
    assert largest_column_norm(J) > 1.05  # a Gaussian sketch needs more noise than its columns' usual norm says
    assert largest_column_norm(rademacher_sketch(b"g" * 32, 20, 50)) == pytest.approx(1.0, rel=1e-12)


def products(kind: str, a: np.ndarray, b: np.ndarray, m: int, count: int) -> np.ndarray:
    seeds = [i.to_bytes(32, "big") for i in np.random.default_rng(7).integers(0, 2**63, count).tolist()]
    seeds = [seed[::-1] for seed in seeds]
    if kind == "sparse":
        return np.array([sketched(seed, m, 4, a) @ sketched(seed, m, 4, b) for seed in seeds])
    dense = {"gaussian": gaussian_sketch, "rademacher": rademacher_sketch}[kind]
    return np.array([(J @ a) @ (J @ b) for J in (dense(seed, m, a.size) for seed in seeds)])


@pytest.mark.parametrize("kind", ["sparse", "gaussian", "rademacher"])
def test_products_are_preserved_on_average_with_the_stated_spread(kind):
    """2,000 fixed seeds. A mean off by 5 standard errors, or a spread off by a fifth, happens less than once in 10,000 times."""
    rng = np.random.default_rng(3)
    a, m, count = rng.normal(size=60), 24, 2000
    b = 0.5 * a + rng.normal(size=60)
    found = products(kind, a, b, m, count)
    spread = math.sqrt((a @ a * (b @ b) + (a @ b) ** 2) / m)
    assert abs(found.mean() - a @ b) <= 5 * spread / math.sqrt(count)
    assert found.std() == pytest.approx(spread, rel=0.2)
