"""Scores in whole grid steps: one number however it is computed, and how it moves when predictions shrink."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.kernels.column_scores import (
    BLOCK,
    all_slopes,
    grid_of,
    is_full,
    score,
    score_and_trend,
    score_from_slopes,
    sizes,
)
from colonnade.kernels.sparse_fw import LossCode
from tests.helpers.sparse_problems import slope

COLUMNS = st.tuples(
    st.integers(0, 10_000),  # seed
    st.sampled_from([1, 3, BLOCK - 1, BLOCK, BLOCK + 1, 500]),  # nonzeros
    st.integers(0, 700),  # rows beyond them
    st.floats(0.01, 5.0),  # the bound
    st.floats(1e-3, 1e3),  # m
)


def column(seed, nnz, more, bound):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(size=nnz + more) * 3.0, rng.choice([-1.0, 1.0], nnz + more)])
    data = (rng.normal(size=nnz) * bound).astype(np.float32)
    return data, rng.permutation(nnz + more)[:nnz].astype(np.int32), rows


@pytest.mark.parametrize("loss", list(LossCode))
@settings(max_examples=20, deadline=None)
@given(given_=COLUMNS)
def test_a_score_is_the_same_integer_however_it_is_computed(loss, given_):
    seed, nnz, more, bound, m = given_
    data, indices, rows = column(seed, nnz, more, bound)
    n = rows.shape[0]
    steps = 1.0 / grid_of(n, bound)
    v, q, lean = np.empty(n), np.empty(n), np.empty(n)
    all_slopes(loss, 1.0, rows[:, 1].copy(), rows, m, v, q, lean)
    plain = score(data, indices, 0, nnz, rows, m, loss, 1.0, bound, steps)
    in_blocks = score_and_trend(data, indices, 0, nnz, rows, m, loss, 1.0, bound, steps, np.empty((4, BLOCK)))
    by_slopes = score_from_slopes(data, indices, 0, nnz, False, q, lean, bound, steps)
    expected = sum(int(p) for p in np.clip(data.astype(float), -bound, bound) * q[indices] * steps)
    assert expected == plain == in_blocks[0] == by_slopes[0]
    assert by_slopes[1] == pytest.approx(in_blocks[1], abs=1e-8 * float(np.abs(data).sum()))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 300), bound=st.floats(0.01, 5.0))
def test_a_full_column_needs_no_row_numbers(seed, n, bound):
    data, _, rows = column(seed, n, 0, bound)
    indices = np.arange(n, dtype=np.int32)
    steps = 1.0 / grid_of(n, bound)
    v, q, lean = np.empty(n), np.empty(n), np.empty(n)
    all_slopes(LossCode.LOGISTIC, 1.0, rows[:, 1].copy(), rows, 0.5, v, q, lean)
    assert is_full(indices, 0, n, n)
    full = score_from_slopes(data, indices, 0, n, True, q, lean, bound, steps)
    gathered = score_from_slopes(data, indices, 0, n, False, q, lean, bound, steps)
    assert gathered[0] == full[0]
    assert gathered[1] == pytest.approx(full[1], abs=1e-8 * float(np.abs(data).sum()))


def test_a_column_whose_rows_are_out_of_order_or_missing_is_not_full():
    assert not is_full(np.array([1, 0, 2], dtype=np.int32), 0, 3, 3)
    assert not is_full(np.array([0, 1], dtype=np.int32), 0, 2, 3)


@settings(max_examples=60, deadline=None)
@given(given_=COLUMNS, r=st.floats(0.05, 1.0))
def test_trend_and_bend_bound_the_score_of_predictions_that_shrink(given_, r):
    seed, nnz, more, bound, m = given_
    data, indices, rows = column(seed, nnz, more, bound)
    steps = 1.0 / grid_of(rows.shape[0], bound)
    _, trend, bend = score_and_trend(
        data, indices, 0, nnz, rows, m, LossCode.LOGISTIC, 1.0, bound, steps, np.empty((4, BLOCK))
    )
    x, v, y = np.clip(data.astype(float), -bound, bound), m * rows[indices, 0], rows[indices, 1]
    moved = float(x @ slope("LOGISTIC", r * v, y) - x @ slope("LOGISTIC", v, y))
    room = 1e-8 * float(np.abs(x).sum())  # what the card allows for sums in any order
    assert abs(moved - (r - 1.0) * trend) <= 0.5 * ((1.0 - r) / r) ** 2 * bend + room


def test_the_bend_is_needed():
    """Planted: without it the line alone is broken by far more than rounding."""
    data, indices, rows = column(1, 500, 0, 1.0)
    _, trend, bend = score_and_trend(
        data, indices, 0, 500, rows, 1.0, LossCode.LOGISTIC, 1.0, 1.0, 2.0**40, np.empty((4, BLOCK))
    )
    x, v, y = np.clip(data.astype(float), -1.0, 1.0), rows[indices, 0], rows[indices, 1]
    moved = float(x @ slope("LOGISTIC", 0.5 * v, y) - x @ slope("LOGISTIC", v, y))
    assert abs(moved + 0.5 * trend) > 1e-3 * bend


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), nnz=st.integers(0, 300), bound=st.floats(0.01, 5.0))
def test_sizes_are_those_of_the_clipped_column(seed, nnz, bound):
    data = (np.random.default_rng(seed).normal(size=nnz) * bound).astype(np.float32)
    x = np.abs(np.clip(data.astype(float), -bound, bound))
    norm, top, square = sizes(data, 0, nnz, bound)
    assert (norm, square) == pytest.approx((x.sum(), (x**2).sum()), rel=1e-12)
    assert top == x.max(initial=0.0)


@pytest.mark.parametrize("n", [1, 2, 700, 1_024, 5_000, 2**25])
def test_neither_a_product_nor_a_sum_of_n_products_can_overflow(n):
    largest = 0.7
    product = largest / grid_of(n, largest)
    assert product <= 2**51
    assert n * product <= 2**61
