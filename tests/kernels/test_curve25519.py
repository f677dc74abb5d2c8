"""Claims about hashes onto Curve25519: they follow Elligator 2, and every point is on the curve."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels.curve25519 import A, P, onto_curve

ENDS = [0, 1, 2, P - 1, P, P + 1, 2**255 - 1, 2**256 - 1, A, P - A]


def is_square(x: int) -> bool:
    """Euler's criterion."""
    return pow(x, (P - 1) // 2, P) in (0, 1)


def by_definition(r: int) -> int:
    u = -A * pow(1 + 2 * r * r, -1, P) % P
    return u if is_square(u**3 + A * u * u + u) else (-A - u) % P


def mapped(numbers: list[int]) -> list[int]:
    raw = b"".join(r.to_bytes(32, "little") for r in numbers)
    return [int.from_bytes(u.tobytes(), "little") for u in onto_curve(np.frombuffer(raw, np.uint8).reshape(-1, 32))]


@given(st.lists(st.integers(0, 2**256 - 1) | st.sampled_from(ENDS), min_size=1, max_size=20))
def test_many_keys_at_once_follow_the_definition(numbers):
    assert mapped(numbers) == [by_definition(r) for r in numbers]


def test_the_map_is_that_of_rfc_9380():
    """Appendix J.4.2 (curve25519_XMD:SHA-512_ELL2_NU_), the empty message: u[0] and the x-coordinate of Q."""
    u = 0x608D892B641F0328523802A6603427C26E55E6F27E71A91A478148D45B5093CD
    assert mapped([u]) == [0x51125222DA5E763D97F3C10FCC92EA6860B9CCBBD2EB1285728F566721C1E65B]


def test_every_point_is_on_the_curve_and_on_the_twist_is_none():
    rng = np.random.default_rng(0)
    found = mapped([int.from_bytes(rng.bytes(32), "little") for _ in range(500)])
    assert all(is_square(u**3 + A * u * u + u) for u in found)
    bare = [int.from_bytes(rng.bytes(32), "little") % P for _ in range(500)]  # a bare hash is on the curve by chance
    assert 150 < sum(is_square(u**3 + A * u * u + u) for u in bare) < 350  # of 500 halves; outside once in 10^17 runs


def test_no_keys_are_no_points():
    assert onto_curve(np.empty((0, 32), np.uint8)).shape == (0, 32)
