"""Claims about curves: a block is never longer than its number alone, in reals and in whole steps, at every depth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels import curves
from colonnade.kernels.ring import whole_rows

DEPTHS = range(curves.DEEPEST + 1)


def squares_exactly(t: Fraction, depth: int) -> Fraction:
    """t² + Σ hats², by the definition and in fractions: squared heights are powers of two."""
    total = t * t
    for level in range(1, depth + 1):
        wide = Fraction(1, 2 ** (level - 1))
        under = math.floor((t + 1) / (2 * wide))  # all hats of a level but the one that t is under are 0 there
        for place in {under - 1, under, under + 1} & set(range(2 ** (level - 1))):
            centre = -1 + wide * (2 * place + 1)
            total += wide * max(Fraction(0), 1 - abs(t - centre) / wide) ** 2
    return total


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_block_is_never_longer_than_its_number_at_the_bound_and_as_long_at_its_knots(depth):
    knots = [Fraction(j, 2**depth) * 2 - 1 for j in range(2**depth + 1)]
    assert all(squares_exactly(t, depth) == 1 for t in knots)
    # Between two knots a sum of squares of lines is convex and so largest at an end: three points, also of the finest.
    # The hats of -t are those of t in another order.
    between = [Fraction(2 * j + 1, 3 * 2**8) for j in range(384)]
    assert all(squares_exactly(t, depth) <= 1 for t in between)


@given(st.fractions(-1, 1), st.integers(0, curves.DEEPEST))
def test_floats_follow_the_definition_and_their_squares_are_not_over_one(t, depth):
    found = curves.hats(np.array([float(t)]), depth)[0]
    exact = squares_exactly(Fraction(float(t)), depth)
    total = sum((Fraction(x) ** 2 for x in (float(t), *found.tolist())), Fraction(0))
    assert abs(total - exact) <= 1e-13
    assert total <= 1 + Fraction(1, 2**50)  # what adding and multiplying in floats brings, and heights are rounded down


@pytest.mark.thinned("slow")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("steps", [32, 100, 128, 1000, 2048])
def test_cut_to_whole_steps_a_block_is_no_longer_than_the_bound_and_no_row_is_shortened(depth, steps):
    rng = np.random.default_rng(depth)
    t = np.concatenate([curves.knots(depth), rng.uniform(-1, 1, 4000), np.nextafter(curves.knots(depth), 0)])
    block = np.column_stack([t, curves.hats(t, depth)])
    width = block.shape[1]
    ends, one = np.full(width, steps), np.ones(width, np.int64)
    out = np.empty(block.shape, np.int64)
    rules = np.arange(width), np.zeros(width), np.full(width, float(steps)), -ends, ends, one, ends
    shortened = whole_rows(block, *rules, np.ones(width, bool), 1e100, steps**2, out)
    assert shortened == 0
    assert (out**2).sum(axis=1).max() <= steps**2
    assert (np.abs(out) <= np.abs(block) * steps).all()
    assert (np.abs(block * steps - out) < 1).all()


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_every_curve_that_is_linear_between_the_knots_is_a_sum_of_the_block(depth):
    rng = np.random.default_rng(7)
    knots = curves.knots(depth)
    heights = rng.normal(size=knots.size)
    block = np.column_stack([knots, curves.hats(knots, depth), np.ones(knots.size)])
    assert np.linalg.matrix_rank(block) == knots.size  # as many knots as members, the constant included
    x = np.linalg.solve(block, heights)
    t = rng.uniform(-1, 1, 500)
    assert curves.values(t, x[:-1]) + x[-1] == pytest.approx(np.interp(t, knots, heights), abs=1e-10)


def test_levels_and_heights_go_with_the_hats():
    assert curves.levels(3).tolist() == [1, 2, 2, 3, 3, 3, 3]
    assert curves.count(3) == 7
    assert curves.hats(np.array([0.0, -0.5, 0.5]), 2).tolist() == [
        [1.0, 0.0, 0.0],
        [0.5, math.nextafter(0.5**0.5, 0), 0.0],
        [0.5, 0.0, math.nextafter(0.5**0.5, 0)],
    ]
