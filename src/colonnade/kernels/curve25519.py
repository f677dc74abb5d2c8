"""Hashes onto Curve25519: 32 uniform bytes to the u-coordinate of a point of the curve, never of its twist.

    v² = u³ + A·u² + u over the integers modulo p = 2²⁵⁵ − 19, with A = 486662

Elligator 2: of r take w = 1 + 2r² and u = −A/w; if u is not on the curve, −A − u is. Since 2 is no square and −1 is
one, w is never 0. The curve's equation at u, times the square w⁴, is −A·w·(w² − A²·w + A²): u is on the curve if this,
or what is the same, its negative is a square. Divisions of many keys are made together, by one inversion.

A bare hash would be on the curve for half of the keys and on the twist for the others. Multiplication keeps a point
where it is, so that everybody who sees a blinded key would learn one bit of what it was made of.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba import uint64 as u64
from numpy.typing import NDArray

P = 2**255 - 19
A = 486662
_SIZE = 32  # bytes of a number


@njit(cache=True, nogil=True)
def _is_square(a0, a1, a2, a3):  # type: ignore[no-untyped-def]  # numba infers the types
    """Whether a number below p, lowest word first, is a square: its Jacobi symbol, by halves and differences."""
    one = u64(1)
    top = u64(63)
    n0 = u64(0xFFFFFFFFFFFFFFED)
    n1 = u64(0xFFFFFFFFFFFFFFFF)
    n2 = u64(0xFFFFFFFFFFFFFFFF)
    n3 = u64(0x7FFFFFFFFFFFFFFF)
    square = True
    while a0 | a1 | a2 | a3:
        while not a0 & one:
            a0 = (a0 >> one) | (a1 << top)
            a1 = (a1 >> one) | (a2 << top)
            a2 = (a2 >> one) | (a3 << top)
            a3 >>= one
            if n0 & u64(7) == u64(3) or n0 & u64(7) == u64(5):
                square = not square
        if a3 < n3 or (a3 == n3 and (a2 < n2 or (a2 == n2 and (a1 < n1 or (a1 == n1 and a0 < n0))))):
            a0, a1, a2, a3, n0, n1, n2, n3 = n0, n1, n2, n3, a0, a1, a2, a3
            if a0 & u64(3) == u64(3) and n0 & u64(3) == u64(3):
                square = not square
        b0 = u64(a0 < n0)
        b1 = u64(a1 < n1 or (a1 == n1 and b0))
        b2 = u64(a2 < n2 or (a2 == n2 and b1))
        a0 = a0 - n0
        a1 = a1 - n1 - b0
        a2 = a2 - n2 - b1
        a3 = a3 - n3 - b2
    return square


@njit(cache=True, nogil=True)
def _are_squares(words, found):  # type: ignore[no-untyped-def]  # numba infers the types
    for i in range(found.size):
        found[i] = _is_square(words[i, 0], words[i, 1], words[i, 2], words[i, 3])


def onto_curve(uniform: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of each row of 32 uniform bytes the u-coordinate of a point of the curve, as X25519 reads it."""
    raw = np.ascontiguousarray(uniform, np.uint8).reshape(-1, _SIZE).tobytes()
    numbers = [int.from_bytes(raw[at : at + _SIZE], "little") for at in range(0, len(raw), _SIZE)]
    w = [(1 + 2 * r * r) % P for r in numbers]
    symbols = b"".join([(A * v * (v * v - A * A * v + A * A) % P).to_bytes(_SIZE, "little") for v in w])
    on_curve = np.empty(len(w), np.bool_)
    _are_squares(np.frombuffer(symbols, "<u8").reshape(-1, 4), on_curve)
    found = [A * v % P for v in _inverses(w)]  # −u
    chosen = [(P - u if there else u - A) % P for u, there in zip(found, on_curve.tolist(), strict=True)]
    return np.frombuffer(b"".join([u.to_bytes(_SIZE, "little") for u in chosen]), np.uint8).reshape(-1, _SIZE)


def _inverses(numbers: list[int]) -> list[int]:
    """1/x of each, modulo p: of the product of all, which then loses one factor after the other."""
    before = []
    product = 1
    for x in numbers:
        before.append(product)
        product = product * x % P
    left = pow(product, -1, P)
    found = []
    for x, rest in zip(reversed(numbers), reversed(before), strict=True):
        found.append(left * rest % P)
        left = left * x % P
    return found[::-1]
