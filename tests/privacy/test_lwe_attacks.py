"""Attacks on products by learning with errors: what each rule of the protocol keeps out, and that without it rows are
read or told apart. Small lattices: no attack here solves learning with errors.

Of 40 trials a guess is right 36 times or more once in 10^6 runs; `told` counts them.
"""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.kernels.lwe import Lattice, hide, inner, times_secret, unpack_hidden
from colonnade.privacy.lattice import Blinding, Hiding, KeyedNoise, public_product

TRIALS, SURE = 40, 36
LATTICE, CUT, SCALE = Lattice(40, 64), 12, 1 << 20
NOISE = 200.0  # sd of one party's noise, in units
ROWS, SENDER, RECEIVER = 120, 3, 4


def keys(seed, count):
    return [np.random.default_rng([seed, k]).bytes(32) for k in range(count)]


def noise(key, shape, sd):
    return KeyedNoise(key).discrete_gaussian(int(np.prod(shape)), sd).reshape(shape)


class Exchange:
    """One product, with what a planted bug leaves out."""

    def __init__(self, seed, X, Y, lattice=LATTICE, cut=CUT, blind=True, grid_t=1, grid_s=1, sd=NOISE):
        self.X, self.Y, self.lattice, self.cut = X, Y, lattice, cut
        secret, blinding, one, other, self.public = keys(seed, 5)
        s, t = X.shape[1], Y.shape[1]
        self.hiding = Hiding(secret, self.public, lattice, np.full(s, SCALE), cut)
        self.blinding = Blinding(blinding, self.public, lattice, t)
        first = unpack_hidden(self.hiding.first_rows(), s, 0, lattice, lattice.dimension)
        self.came = unpack_hidden(self.hiding.rows(0, X), s, cut, lattice, len(X))
        product = public_product(Y, 0, 9, self.public, lattice)
        mask = np.uint64(lattice.ring.mask)
        self.W = self.blinding.blind(product) if blind else product
        answer = inner(Y, self.came, 9, lattice) + (self.blinding.mix(first) if blind else 0)
        self.N_T = grid_t * noise(one, (s, t), sd * SCALE / grid_t) if sd else np.zeros((s, t), np.int64)
        self.B = (answer + self.N_T.astype(np.uint64)) & mask
        self.M = self.hiding.reveal(self.W, self.B)
        self.out = self.M + grid_s * noise(other, (s, t), NOISE * SCALE / grid_s)

    def errors(self):
        """e + d of a sender: it knows both."""
        place = self.lattice.dimension
        error = self.hiding._error(place, len(self.X))
        public = self.lattice.public(self.public, place, len(self.X))
        exact = hide(public, self.hiding.secret, error, self.X * SCALE, self.lattice)
        return error + self.lattice.ring.signed((self.came - exact) & np.uint64(self.lattice.ring.mask))


def worlds(seed):
    """A sender's rows, and two tables of a receiver that differ in one row."""
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(0, 2, (ROWS, SENDER)), rng.integers(0, 2, (ROWS, RECEIVER))
    other = Y.copy()
    other[5] = 1 - other[5]
    return X, (Y, other), int(rng.integers(2))


def told(guess, **bug):
    """How often a guess of the receiver's table is right."""
    right = 0
    for seed in range(TRIALS):
        X, tables, truth = worlds(seed)
        right += guess(Exchange(seed, X, tables[truth], **bug), tables) == truth
    return right


def by_blind(view, tables):
    """Nobody's secret: whether W is near AᵀY."""
    signed = view.lattice.ring.signed
    mask = np.uint64(view.lattice.ring.mask)
    far = [np.abs(signed((view.W - public_product(Y, 0, 9, view.public, view.lattice)) & mask)).sum() for Y in tables]
    return int(far[1] < far[0])


def test_an_answer_that_is_not_blinded_tells_the_receivers_rows_to_everybody():
    assert told(by_blind, blind=False) == TRIALS
    assert told(by_blind) < SURE


def by_residue(view, tables):
    """The sender: what is left of its opened answer modulo Δ, less its own errors times either table."""
    left = [(view.M - view.errors().T @ Y + SCALE // 2) % SCALE - SCALE // 2 for Y in tables]
    sizes = [float((part.astype(float) ** 2).sum()) for part in left]
    return int(sizes[1] < sizes[0])


def test_noise_of_a_receiver_on_the_grid_of_the_plaintext_tells_its_rows_to_the_sender():
    """Modulo Δ such noise is nothing, and errors times rows stand there bare."""
    assert told(by_residue, grid_t=SCALE) >= SURE
    assert told(by_residue) < SURE


def by_product(view, tables):
    """The sender: which table is nearer to what it opened."""
    known = SCALE * view.X + view.errors()
    far = [np.abs(view.M - known.T @ Y).sum() for Y in tables]
    return int(far[1] < far[0])


def test_a_receiver_that_adds_no_noise_tells_its_rows_to_the_sender():
    assert told(by_product, sd=0.0) == TRIALS
    assert told(by_product) < SURE


def solve_mod(matrix, right, bits):
    """x with matrix·x = right modulo 2^bits, of more equations than unknowns; None where they are singular."""
    rows, q = [[*map(int, a), *map(int, b)] for a, b in zip(matrix, right, strict=True)], 1 << bits
    size = matrix.shape[1]
    for k in range(size):
        odd = next((i for i in range(k, len(rows)) if rows[i][k] % 2), None)
        if odd is None:
            return None
        rows[k], rows[odd] = rows[odd], rows[k]
        inverse = pow(rows[k][k], -1, q)
        rows[k] = [v * inverse % q for v in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [(v - factor * w) % q for v, w in zip(rows[i], rows[k], strict=True)]
    return np.array([row[size:] for row in rows[:size]], dtype=object)


def rows_read(view, bits=20):
    """A receiver with as many columns as a secret is long: what was published modulo Δ are equations for S.

    SᵀW = B - M modulo q, and modulo Δ it knows M, if the sender's noise is nothing there.
    """
    q = 1 << bits
    equations = solve_mod(view.W.T.astype(object) % q, (view.B.astype(np.int64) - view.out).T % q, bits)
    if equations is None:
        return False
    secret = np.where(equations >= q // 2, equations - q, equations).astype(np.int64)
    if np.abs(secret).max() > 100:
        return False
    public = view.lattice.public(view.public, view.lattice.dimension, len(view.X))
    mixed = times_secret(public, secret, view.lattice)
    left = view.lattice.ring.signed((view.came - mixed) & np.uint64(view.lattice.ring.mask))
    return bool(np.array_equal(np.rint(left / SCALE), view.X))


@pytest.mark.parametrize("grid", [SCALE, 1])
def test_noise_of_a_sender_on_the_grid_of_the_plaintext_lets_its_rows_be_read(grid):
    lattice, read = Lattice(40, 12), 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, Y = rng.integers(0, 2, (40, 2)), rng.integers(-9, 10, (40, 20))
        read += rows_read(Exchange(seed, X, Y, lattice, cut=0, grid_s=grid))
    assert read == (10 if grid == SCALE else 0)


def test_a_secret_that_hides_two_tables_shows_their_difference():
    """What `Gate.hidden` rules out by counting rows: in a second table they have other errors, in a second stage another
    secret."""
    X, other = np.random.default_rng(0).integers(0, 2, (2, ROWS, SENDER))
    hiding = Hiding(bytes(32), bytes(32), LATTICE, np.full(SENDER, SCALE), 0)
    one, two = (unpack_hidden(hiding.rows(0, x), SENDER, 0, LATTICE, ROWS) for x in (X, other))
    apart = LATTICE.ring.signed((two - one) & np.uint64(LATTICE.ring.mask))
    assert np.array_equal(apart, SCALE * (other - X))
    later = unpack_hidden(hiding.rows(ROWS, other), SENDER, 0, LATTICE, ROWS)
    fresh = Hiding(bytes(32), bytes([1] * 32), LATTICE, np.full(SENDER, SCALE), 0)
    stage = unpack_hidden(fresh.rows(0, other), SENDER, 0, LATTICE, ROWS)
    for hidden in (later, stage):
        apart = LATTICE.ring.signed((hidden - one) & np.uint64(LATTICE.ring.mask))
        assert np.abs(np.rint(apart / SCALE) - (other - X)).max() > 1


def by_second_answer(view, tables):
    """Everybody: the difference of two answers under one blinding, the second one of the first table."""
    mask = np.uint64(view.lattice.ring.mask)
    second = view.blinding.blind(public_product(tables[0], 0, 9, view.public, view.lattice))
    return int(((view.W - second) & mask).any())


def by_fresh_answer(view, tables):
    """The same where the second answer has a blinding of its own."""
    mask = np.uint64(view.lattice.ring.mask)
    other = Blinding(view.public, view.public, view.lattice, RECEIVER)
    second = other.blind(public_product(tables[0], 0, 9, view.public, view.lattice))
    signed = view.lattice.ring.signed((view.W - second) & mask)
    return int(np.abs(signed).mean() > 2.0 ** (view.lattice.bits - 2))


def test_a_second_answer_under_the_same_blinding_tells_what_has_changed():
    assert told(by_second_answer) == TRIALS
    assert told(by_fresh_answer) < SURE


def test_noise_drawn_twice_for_one_answer_is_averaged():
    """A second answer of the same rows with other noise: a thousand of them leave a thirtieth of it."""
    X, (Y, _), _ = worlds(0)
    view = Exchange(0, X, Y)
    sums = np.zeros(view.M.shape)
    for k in range(1_000):
        sums += view.M - view.N_T + noise(bytes([k % 256, k // 256] * 16), view.M.shape, NOISE * SCALE)
    mean = sums / 1_000 / SCALE
    assert np.abs(mean - X.T @ Y).max() < NOISE / 5
    assert np.abs(view.M / SCALE - X.T @ Y).max() > NOISE / 5


@pytest.mark.parametrize("which", ["W", "B", "b"])
def test_what_travels_looks_uniform_to_those_who_lack_the_secrets(which):
    """Of 4,000 numbers or more in 16 bins, a chi square of 15 degrees: over 50 once in 10^5."""
    values = []
    for seed in range(30):
        X, tables, truth = worlds(seed)
        view = Exchange(seed, X, tables[truth])
        values.append({"W": view.W, "B": view.B, "b": view.came}[which].ravel())
    bins = np.bincount((np.concatenate(values) >> np.uint64(36)).astype(np.int64), minlength=16)
    assert ((bins - bins.mean()) ** 2 / bins.mean()).sum() < 50
