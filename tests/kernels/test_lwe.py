"""Products under learning with errors: exact in integers, whatever the modulus; rounding without a bias."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from colonnade.kernels.lwe import (
    Lattice,
    hidden_size,
    hide,
    inner,
    open_answer,
    pack_hidden,
    times_public,
    times_secret,
    top_bits,
    unpack_hidden,
)

KEY = bytes(range(32))
SMALL = [Lattice(32, 24), Lattice(40, 24), Lattice(48, 24)]


def entries(lattice, first, count):
    """A in Python's integers, from the bytes of the stream."""
    length, more = lattice.dimension, lattice.bits // 8 - 4
    found = np.empty((count, length), dtype=object)
    for i, row in enumerate(lattice.public(KEY, first, count)):
        low, above = row[: 4 * length].tobytes(), row[4 * length :].tobytes()
        for j in range(length):
            whole = low[4 * j : 4 * j + 4] + above[more * j : more * j + more]
            found[i, j] = int.from_bytes(whole, "little")
    return found


def draws(rng, shape):
    return np.rint(rng.normal(0.0, 6.4, shape)).astype(np.int64)


@pytest.mark.parametrize("lattice", SMALL, ids=str)
def test_rows_of_the_public_matrix_are_the_same_in_any_blocks(lattice):
    whole = lattice.public(KEY, 0, 50)
    assert np.array_equal(np.vstack([lattice.public(KEY, 0, 7), lattice.public(KEY, 7, 43)]), whole)
    assert not np.array_equal(lattice.public(bytes(32), 0, 50), whole)


@pytest.mark.parametrize("lattice", SMALL, ids=str)
@pytest.mark.parametrize("bound", [1, 33, 2**11, 2**20])
def test_products_with_the_public_matrix_are_those_of_integers(lattice, bound):
    rng, q = np.random.default_rng(0), 1 << lattice.bits
    rows = rng.integers(-bound, bound + 1, (600, 3))
    rows[:300] = bound  # sums as large as they can be
    public = entries(lattice, 5, 600)
    got = times_public(rows, lattice.public(KEY, 5, 600), bound, lattice)
    assert ((got.astype(object) - public.T @ rows.astype(object)) % q == 0).all()
    secret = draws(rng, (lattice.dimension, 4))
    got = times_secret(lattice.public(KEY, 5, 600), secret, lattice)
    assert ((got.astype(object) - public @ secret.astype(object)) % q == 0).all()


@pytest.mark.parametrize("lattice", SMALL, ids=str)
def test_sums_as_large_as_they_can_be_stay_exact(lattice):
    """All entries of A the largest, which is odd, and as many rows at the bound as are multiplied at a time."""
    top, width = (1 << (lattice.bits - 1)) - 1, lattice.bits // 8
    whole = top.to_bytes(width, "little")
    row = np.frombuffer(whole[:4] * 24 + whole[4:] * 24, np.uint8)
    public = np.repeat(row[None], 600, 0)
    for bound in (1, 63, 64, 65, 2**13 - 1, 2**20 - 1):
        got = times_public(np.full((600, 2), bound), public, bound, lattice)
        assert (got.astype(object) == 600 * bound * top % 2**64).all()
    for columns in (2, 9):  # in machine words, and in floats
        got = times_secret(public, np.full((24, columns), 5), lattice)
        assert (got.astype(object) == 120 * top % 2**64).all()


@pytest.mark.parametrize("dimension", [1408, 2176])
def test_products_with_a_secret_stay_exact_at_its_full_length(dimension):
    """Sums of two thousand products of 47 bits and 5 would round in one float64 product."""
    lattice = Lattice(48, dimension)
    secret = np.full((dimension, 1), 31)
    public = entries(lattice, 0, 3)
    got = times_secret(lattice.public(KEY, 0, 3), secret, lattice)
    assert ((got.astype(object) - public @ secret.astype(object)) % (1 << 48) == 0).all()


@pytest.mark.parametrize("lattice", SMALL, ids=str)
@pytest.mark.parametrize("cut", [0, 1, 6, 14])
def test_an_opened_answer_is_the_scaled_product_and_its_errors_to_the_last_bit(lattice, cut):
    rng, n, q = np.random.default_rng(cut), 300, 1 << lattice.bits
    X, Y, scales = rng.integers(-3, 4, (n, 3)), rng.integers(-9, 10, (n, 5)), np.array([1, 1001, 2**12])
    S, e0, e = draws(rng, (24, 3)), draws(rng, (24, 3)), draws(rng, (n, 3))
    r, e2 = draws(rng, (24, 5)), draws(rng, (24, 5))
    first = hide(lattice.public(KEY, 0, 24), S, e0, None, lattice)
    exact = hide(lattice.public(KEY, 24, n), S, e, X * scales, lattice)
    packed = pack_hidden(exact, cut, lattice)
    assert len(packed) == hidden_size(n * 3, cut, lattice)
    came = unpack_hidden(packed, 3, cut, lattice, n)
    d = lattice.ring.signed((came - exact) & np.uint64(q - 1))  # what rounding moved
    assert np.abs(d).max() <= (1 << cut) // 2
    W = times_public(r, lattice.public(KEY, 0, 24), 127, lattice)
    W = W + times_public(Y, lattice.public(KEY, 24, n), 9, lattice) + e2.astype(np.uint64)
    B = inner(r, first, 127, lattice) + inner(Y, came, 9, lattice)
    opened = open_answer(S, W, B, lattice)
    expected = scales[:, None] * (X.T @ Y) + (e + d).T @ Y + e0.T @ r - S.T @ e2
    assert np.array_equal(opened, expected)


@pytest.mark.parametrize("lattice", SMALL, ids=str)
@pytest.mark.parametrize("cut", [1, 3, 12])
def test_rounding_is_to_the_nearest_and_ties_go_to_even(lattice, cut):
    rng, q = np.random.default_rng(1), 1 << lattice.bits
    values = np.concatenate([rng.integers(0, q, 2_000), q - 1 - np.arange(9), (1 << (cut - 1)) * np.arange(9)])
    values = values.astype(np.uint64)
    expected = [round(Fraction(int(v), 1 << cut)) % (q >> cut) for v in values]  # Python's round: ties to even
    assert top_bits(values, cut, lattice).tolist() == expected


def test_rounding_has_no_bias_and_its_variance_is_that_of_the_law():
    """Over all low bits with an even and an odd top: the mean is 0, where ties that go up would leave a half."""
    lattice, cut = Lattice(32, 24), 6
    values = np.arange(4 << cut, dtype=np.uint64) + np.uint64(1 << 20)
    moved = (top_bits(values, cut, lattice) << np.uint64(cut)).astype(np.int64) - values.astype(np.int64)
    assert moved.sum() == 0
    assert (moved**2).mean() == (4**cut + 2) / 12
    up = ((values + np.uint64(32)) >> np.uint64(6) << np.uint64(6)).astype(np.int64) - values.astype(np.int64)
    assert up.mean() == 0.5
