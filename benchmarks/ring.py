"""Masks and ring products of the secure Gram protocol against the plain float64 product, on one thread.

    python -m benchmarks ring           800,000 rows, 150 x 150 columns, rings of 32 and 48 bits
    python -m benchmarks ring --full    also 40 and 64 bits

The parts are timed as a run does them, block of rows by block of rows, in CPU seconds, compilation excluded:
    dealer   grows both masks and multiplies them
    first    grows its mask, masks and packs its rows, unpacks the other's and multiplies its own rows by them
    second   does the same, but multiplies the rows it received by its mask
The baseline is a.T @ b of the same two blocks as float64, nothing masked, conversion not counted. The two shares and the
dealt one must add up to the exact cross product, or the benchmark fails, as it does past a limit.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from threadpoolctl import threadpool_limits

from colonnade.kernels.bits import pack, unpack
from colonnade.kernels.ring import Ring, uniform
from colonnade.kernels.ring_products import cross, gram

ROWS, LEFT, RIGHT = 800_000, 150, 150
BUDGET = 1 << 25
LIMITS = {32: 3.0, 40: 8.0, 48: 8.0, 64: 8.0}  # any part, in plain products


def main(quick: bool = True) -> int:
    with threadpool_limits(limits=1):
        run(Ring(32), 2_000)  # compiles, or reads numba's cache
        run(Ring(48), 2_000)
        print(f"{ROWS:,} rows, {LEFT} x {RIGHT} columns, blocks of {BUDGET >> 20} MiB, one thread, CPU seconds")
        passed = [table(Ring(bits)) for bits in ((32, 48) if quick else LIMITS)]
        own_block()
    return 0 if all(passed) else 1


def table(ring: Ring) -> bool:
    seconds, bound, right = run(ring, ROWS)
    plain = seconds["plain"]
    print(f"\n{ring.bits} bits, entries up to {bound}; plain float64 product {plain:.2f} s")
    totals = {part: sum(t for name, t in seconds.items() if name.startswith(part)) for part in PARTS}
    for part, total in totals.items():
        steps = ", ".join(f"{name.split()[1]} {t:.2f}" for name, t in seconds.items() if name.startswith(part))
        print(f"  {part:<7} {total:6.2f} s   {total / plain:4.1f}x plain (limit {LIMITS[ring.bits]:g}x)   {steps}")
    size = ROWS * (LEFT + RIGHT) * ring.bits / 8e9
    packing, unpacking = (sum(seconds[f"{part} {step}"] for part in PARTS[1:]) for step in ("pack", "unpack"))
    print(f"  packed at {size / packing:.1f} GB/s, unpacked at {size / unpacking:.1f} GB/s")
    print(f"  shares add up to the exact cross product: {right}")
    return right and max(totals.values()) <= LIMITS[ring.bits] * plain


PARTS = ("dealer", "first", "second")


def run(ring: Ring, rows: int) -> tuple[dict[str, float], int, bool]:
    """CPU seconds by part and step, the entry bound, and whether the shares gave the exact cross product."""
    seconds: dict[str, float] = defaultdict(float)
    bound = min(4096, int((2 ** (ring.bits - 1) / rows) ** 0.5))
    rng, key = np.random.default_rng(ring.bits), os.urandom(32)
    dealt, share_first, share_second = (np.zeros((LEFT, RIGHT), ring.dtype) for _ in range(3))
    exact = np.zeros((LEFT, RIGHT))

    @contextmanager
    def clock(step: str) -> Iterator[None]:
        began = time.process_time()
        yield
        seconds[step] += time.process_time() - began

    def mask(name: str, part: slice, columns: int) -> np.ndarray:
        return uniform(key, name.encode(), part.start, part.stop - part.start, columns, ring)

    def sent(who: str, to: str, masked: np.ndarray) -> np.ndarray:
        with clock(f"{who} pack"):
            packed = pack(masked.ravel(), ring.bits)
        with clock(f"{to} unpack"):
            return unpack(packed, masked.size, ring.bits).astype(ring.dtype, copy=False).reshape(masked.shape)

    at_once = BUDGET // (8 * (LEFT + RIGHT))
    for start in range(0, rows, at_once):
        part = slice(start, min(start + at_once, rows))
        size = part.stop - part.start
        a = rng.integers(-bound, bound, (size, LEFT), dtype=np.int16, endpoint=True)
        b = rng.integers(-bound, bound, (size, RIGHT), dtype=np.int16, endpoint=True)
        a_float, b_float = a.astype(np.float64), b.astype(np.float64)
        with clock("plain"):
            exact += a_float.T @ b_float  # whole numbers below 2^53
        with clock("dealer masks"):
            u, v = mask("u", part, LEFT), mask("v", part, RIGHT)
        with clock("dealer product"):
            dealt = ring.add(dealt, product(u, v, ring))
        with clock("first mask"):
            a_masked = ring.subtract(a, mask("u", part, LEFT))
        with clock("second mask"):
            own_mask = mask("v", part, RIGHT)
            b_masked = ring.subtract(b, own_mask)
        a_masked, b_masked = sent("first", "second", a_masked), sent("second", "first", b_masked)
        with clock("first product"):
            share_first = ring.add(share_first, product(a, b_masked, ring, bound_a=bound))
        with clock("second product"):
            share_second = ring.add(share_second, product(a_masked, own_mask, ring))
    total = ring.signed(ring.add(ring.add(share_first, share_second), dealt))
    return seconds, bound, bool((total == exact).all())


def product(a: np.ndarray, b: np.ndarray, ring: Ring, bound_a: int | None = None) -> np.ndarray:
    """aᵀb as a run multiplies it: every column in the same ring."""
    rings = (np.full(side.shape[1], ring.bits) for side in (a, b))
    return cross(a, b, *rings, bound_a=bound_a)


def own_block() -> None:
    """A party's own Gram matrix, exact, beside the float64 product of the same rows."""
    a = np.random.default_rng(0).integers(-4096, 4096, (ROWS // 8, LEFT), dtype=np.int16, endpoint=True)
    as_float = a.astype(np.float64)
    times = []
    for work in (lambda: as_float.T @ as_float, lambda: gram(a, bound=4096)):
        work()
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    print(f"\nexact Gram matrix of {ROWS // 8:,} x {LEFT}: {times[1]:.3f} s, {times[1] / times[0]:.1f}x float64's")


if __name__ == "__main__":
    raise SystemExit(main())
