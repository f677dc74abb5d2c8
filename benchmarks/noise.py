"""Exact noise: our samplers against OpenDP's, same machine, same run, medians, compilation excluded.

    python -m benchmarks noise

What bounds it. A Gaussian number takes 13 to 38 random bytes; the operating system's share, timed beside it, is
printed, and the rest is the kernel's integer arithmetic on one core. A choice passes over its scores a handful of
times, with one integer division a candidate; the draw itself does not depend on their number.
OpenDP is timed as a user calls it, lists in and out; the conversion is shown apart.
"""

from __future__ import annotations

import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from colonnade.privacy.events import Charge, Event, Mechanism, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise, rational_sigma
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.privacy.values import Private

NUMBERS = 10_000
CANDIDATES = 1_000_000


class ReferenceNoise:
    """OpenDP's exact samplers behind the face of ours: slower, written and proved by others."""

    def __init__(self) -> None:
        import opendp.prelude as dp  # 0.3 s

        dp.enable_features("contrib")
        self.dp = dp

    def discrete_gaussian(self, size: int, sigma: float) -> np.ndarray:
        space = self.dp.vector_domain(self.dp.atom_domain(T="i64")), self.dp.l2_distance(T="f64")
        draw = self.dp.m.make_gaussian(*space, scale=float(rational_sigma(sigma)))
        return np.array(draw([0] * size), dtype=np.int64)

    def gumbel_argmax(self, scores: np.ndarray, scale: float) -> int:
        space = self.dp.vector_domain(self.dp.atom_domain(T="f64", nan=False)), self.dp.linf_distance(T="f64")
        pick = self.dp.m.make_noisy_top_k(*space, self.dp.zero_concentrated_divergence(), k=1, scale=scale)
        return int(pick(np.asarray(scores, dtype=np.float64).tolist())[0])


def main(quick: bool = True) -> int:  # noqa: ARG001  one size only
    ours, reference = SystemNoise(), ReferenceNoise()
    started = time.perf_counter()
    ours.discrete_gaussian(1, 1.0)
    print(f"first draw, compiled or read from numba's cache: {time.perf_counter() - started:.2f} s, not counted below")

    print(f"\nGaussian release of {NUMBERS:,} numbers")
    for sigma in (0.3, 1.0, 7.5, 1000.0, 2.0**33):
        taken = bytes_a_draw(sigma)
        fast = median_seconds(partial(ours.discrete_gaussian, NUMBERS, sigma), 25)
        slow = median_seconds(partial(reference.discrete_gaussian, NUMBERS, sigma), 3)
        system = median_seconds(partial(ours.uniform_bytes, round(taken * NUMBERS)), 25)
        print(
            f"  sigma {sigma:<12g} ours {fast * 1e3:6.2f} ms ({fast / NUMBERS * 1e9:4.0f} ns and {taken:4.1f} bytes each; "
            f"the system's bytes are {system / fast:3.0%} of it)   OpenDP {slow * 1e3:6.1f} ms   {slow / fast:6.1f}x"
        )

    print(f"\nchoice among {CANDIDATES:,} candidates")
    rng = np.random.default_rng(0)
    shapes = {
        "all equal": np.zeros(CANDIDATES),
        "normal, 5 scales wide": 5 * rng.standard_normal(CANDIDATES),
        "one far ahead": np.append(np.zeros(CANDIDATES - 1), 40.0),
    }
    convert = median_seconds(shapes["all equal"].tolist, 5)
    for name, scores in shapes.items():
        fast = median_seconds(partial(ours.gumbel_argmax, scores, 1.0), 9)
        slow = median_seconds(partial(reference.gumbel_argmax, scores, 1.0), 3)
        print(
            f"  {name:<22} ours {fast * 1e3:6.1f} ms   OpenDP {slow * 1e3:7.1f} ms "
            f"(list conversion {convert * 1e3:.0f} ms)   {slow / fast:6.1f}x"
        )
    small = np.arange(100.0)
    fast = median_seconds(lambda: ours.gumbel_argmax(small, 10.0), 200)
    slow = median_seconds(lambda: reference.gumbel_argmax(small, 10.0), 50)
    print(
        f"  {'100 candidates only':<22} ours {fast * 1e6:6.0f} us   OpenDP {slow * 1e6:7.0f} us   {slow / fast:6.1f}x"
    )
    through_the_gate(shapes["normal, 5 scales wide"])
    return 0


def through_the_gate(scores: np.ndarray) -> None:
    """The same releases as a party makes them: priced, taken from the plan, recorded; on disk one fsync each."""
    print("\nthe same through a gate: priced, taken from the plan, recorded")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        disk = FileLog(Path(folder) / "party.db")
        for where, log in (("in memory", MemoryLog()), ("on disk, synced", disk)):
            gaussian, chosen = gate_times(log, scores)
            print(
                f"  {where:<16} {NUMBERS:,} numbers {gaussian * 1e3:6.1f} ms (aim 200)   "
                f"signed choice among {CANDIDATES:,} {chosen * 1e3:6.1f} ms (aim 2,000)"
            )
        disk.close()


def gate_times(log: Log, scores: np.ndarray) -> tuple[float, float]:
    ledger = Ledger(log, "party", Policy())
    plan = tuple(Charge(Event(kind, 0.5, math.inf), 100, kind) for kind in (Mechanism.GAUSSIAN, Mechanism.GUMBEL))
    ledger.open_run("run", Terms("benchmark", "", "nobody", "one row", "replace one row", ""), {"party": plan})
    gate, ticks = Gate(ledger, "run", SystemNoise()), itertools.count()
    numbers, choice = Private(np.zeros(NUMBERS), 1.0), Private(scores, 1.0)

    def release(make: Callable[[], object]) -> None:
        gate.begin(next(ticks), 0, None)
        make()
        with log.atomic():
            gate.flush()

    gaussian = median_seconds(lambda: release(lambda: gate.gaussian(numbers, rho=0.5)), 15)
    return gaussian, median_seconds(lambda: release(lambda: gate.noisy_max(choice, rho=0.5)), 5)


def bytes_a_draw(sigma: float) -> float:
    """Random bytes the kernel really uses, from one long stream."""
    from colonnade.privacy.mechanisms import _gaussian_kernel

    exact = rational_sigma(sigma)
    out = np.empty(NUMBERS, dtype=np.int64)
    stream = np.frombuffer(SystemNoise().uniform_bytes(200 * NUMBERS), dtype=np.uint8)
    done, used = _gaussian_kernel(stream, out, exact.numerator, exact.denominator, math.ceil(exact))
    return float(used / done)


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
