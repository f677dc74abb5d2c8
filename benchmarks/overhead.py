"""What driving nodes costs: a message unrecorded, beside the parties' own work; a durable step, beside a bare fsync.

Every party answers 1 KB to 1 KB and computes a product with a small matrix, as a method would. The baseline is the same
products in a plain loop with no nodes, messages or gates at all.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.timing import median_time
from colonnade.kernels.arrays import Array
from colonnade.privacy.events import EXACT, Charge, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import SystemNoise
from colonnade.privacy.store import FileLog, Log, MemoryLog
from colonnade.privacy.values import Released
from colonnade.runtime.hosted_node import InProcess
from colonnade.runtime.node import Node, NodeSetup, Transcript
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, last, message, receive

ROUNDS = 200
AIM = 50.0  # microseconds a message


@message(65000)
class Ping:
    """Coordinator → party: 1 KB."""

    values: Array


@message(65001)
class Pong:
    """Party → coordinator: 1 KB."""

    values: Released[Array]


def coordinator(parties: tuple[str, ...], rounds: int) -> Program[None]:
    values = np.ones(128)
    for _ in range(rounds):
        yield from ask(parties, Ping(values), Pong)


def party(matrix: np.ndarray, gate: Gate, rounds: int) -> Program[None]:
    ping = yield from receive(COORDINATOR, Ping)
    for _ in range(rounds - 1):
        ping = yield from ask_one(COORDINATOR, Pong(gate.exact(matrix @ ping.values)), Ping)
    yield from last({COORDINATOR: Pong(gate.exact(matrix @ ping.values))})


def run(logs: dict[str, Log], matrix: np.ndarray, rounds: int) -> None:
    parties = tuple(name for name in logs if name != COORDINATOR)
    plans = {name: (Charge(EXACT, rounds, "pong"),) for name in parties}
    nodes = {}
    for name, log in logs.items():
        ledger = Ledger(log, name, Policy(exact=True))
        run_id = os.urandom(8).hex()
        ledger.open_run(run_id, Terms("ping", "", "nobody", "one row", "replace one row", ""), plans)
        gate = Gate(ledger, run_id, SystemNoise())
        if name == COORDINATOR:
            setup = NodeSetup(name, lambda _: coordinator(parties, rounds), parties, False, {Ping: Pong}, Policy())
        else:
            setup = NodeSetup(
                name, lambda own: party(matrix, own, rounds), (COORDINATOR,), True, {Ping: Pong}, Policy()
            )
        nodes[name] = Node(setup, gate, Transcript(log, run_id))
    InProcess().run(nodes)


def unrecorded(names: tuple[str, ...], matrix: np.ndarray, rounds: int) -> None:
    run({name: MemoryLog() for name in names}, matrix, rounds)


def products(matrix: np.ndarray, count: int) -> list[np.ndarray]:
    return [matrix @ np.ones(128) for _ in range(count)]


def bare_fsync(folder: Path, size: int = 4096) -> float:
    """Seconds for one write and fsync of a page on the same disk."""
    with (folder / "probe").open("wb") as file:

        def work() -> None:
            file.write(b"x" * size)
            file.flush()
            os.fsync(file.fileno())

        return median_time(work, repeats=101)


def main(quick: bool = True) -> int:
    rounds = ROUNDS if quick else 5 * ROUNDS
    matrix = np.random.default_rng(0).normal(size=(128, 128))
    print(f"driver overhead, 1 KB each way, {rounds} rounds, one process, unrecorded")
    for count in (4, 16):
        names = (COORDINATOR, *(f"p{i}" for i in range(count)))
        driven = median_time(partial(unrecorded, names, matrix, rounds))
        plain = median_time(partial(products, matrix, rounds * count))
        each = (driven - plain) / (2 * rounds * count) * 1e6
        print(
            f"  {count:3} parties  {driven / rounds * 1e3:7.3f} ms a round, own compute {plain / rounds * 1e3:6.3f} ms:"
            f" {driven / plain:5.1f}x the bare loop, {each:5.1f} us a message (aim {AIM:.0f})"
        )
    with tempfile.TemporaryDirectory(dir=".") as folder:
        fsync = bare_fsync(Path(folder))
        names = (COORDINATOR, "p0", "p1", "p2", "p3")
        few = 40
        logs: dict[str, Log] = {n: FileLog(Path(folder) / f"{n}.db") for n in names}
        began = time.perf_counter()
        run(logs, matrix, few)
        step = (time.perf_counter() - began) / (few * len(names))
        print(
            f"durable step (4 parties, {few} rounds, synchronous=FULL): {step * 1e3:.2f} ms a step,"
            f" {step / fsync:.2f}x a bare 4 KB write and fsync on this disk ({fsync * 1e3:.2f} ms)"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
