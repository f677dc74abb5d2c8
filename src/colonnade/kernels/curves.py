"""Curves: a number in [-1, 1] as itself and hats, a block of columns that is never longer than the number alone can be.

Level l = 1, 2, … has 2^(l-1) hats side by side, of half-width 2^-(l-1) and height 2^-((l-1)/2). Sums of
t and of the hats of levels 1 to L are the functions that are linear between the knots -1 + j·2^(1-L).

Claim    F = t² + Σ hats² ≤ 1 at every depth L, with equality at its knots.
Proof    Between two knots of depth L every member of the block is linear, so F is a sum of squares of linear functions:
         convex, and largest at a knot. At knots it is 1, by induction on L. At depth 0 they are ±1, where t² = 1.
         From L - 1 to L, old knots keep their F: new hats are 0 there. A new knot m is the middle of an interval of
         width w = 2^(2-L) between old knots a and b. For a linear f, f(m)² = (f(a)² + f(b)²)/2 - (f(a) - f(b))²/4, so
         that F falls short of 1 there by D/4, D = Σ (f(a) - f(b))². Of each level l < L one hat is not 0 between a
         and b, of slope ±2^((l-1)/2): D = w²·(1 + Σ 2^(l-1)) = w²·2^(L-1) = 2^(3-L). The new hat adds the square of
         its height, 2^-(L-1) = D/4. (F is t² plus twice the variance of a Brownian bridge, built from the middle.)
Integers entries cut toward zero are no longer than they were, so that a block's squares sum to at most those of one
         entry at its bound, whatever the step.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.arrays import Floats, Integers

DEEPEST = 8


def count(depth: int) -> int:
    """Hats of levels 1 to depth."""
    return (1 << depth) - 1


def levels(depth: int) -> Integers:
    """The level of each hat, in the order of `hats`."""
    return np.repeat(np.arange(1, depth + 1), 1 << np.arange(depth))


def heights(depth: int) -> Floats:
    """The height of each hat. A float over the true root would let a block be longer than 1: rounded down."""
    exact = np.exp2(-(levels(depth) - 1.0) / 2.0)
    return np.where(levels(depth) % 2 == 1, exact, np.nextafter(exact, 0.0))


def knots(depth: int) -> Floats:
    """Where the pieces of a curve of this depth meet, the ends included."""
    return np.linspace(-1.0, 1.0, (1 << depth) + 1)


def hats(t: Floats, depth: int) -> Floats:
    """The hats of levels 1 to depth at numbers in [-1, 1], a column each, from left to right within a level."""
    out = np.empty((t.size, count(depth)))
    for j, (level, height) in enumerate(zip(levels(depth).tolist(), heights(depth), strict=True)):
        wide = 2.0 ** (1 - level)
        place = j + 1 - (1 << (level - 1))
        out[:, j] = height * np.maximum(0.0, 1.0 - np.abs(t - (wide * (2 * place + 1) - 1.0)) / wide)
    return out


def increments(depth: int) -> Floats:
    """From the coefficients of a block (t first, then its hats) to how much its curve rises from knot to knot.

    As many as there are coefficients, and regular: a curve is monotone if and only if these are all of one sign.
    """
    at = knots(depth)
    return np.asarray(np.diff(np.column_stack([at, hats(at, depth)]), axis=0))


def values(t: Floats, coefficients: Floats) -> Floats:
    """The curve with these coefficients, of t first and then of its hats, at numbers in [-1, 1]."""
    depth = (coefficients.size).bit_length() - 1
    return np.asarray(coefficients[0] * t + hats(t, depth) @ coefficients[1:])
