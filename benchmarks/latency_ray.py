"""How long a round takes on Ray: every party is asked and every answer is there.

Parties answer with as many bytes as they were sent, which are random. The baseline are bare Ray actors in the same Ray, which
return what they get. Both are measured twice: without records, which is what the engine itself costs, and with records on
the disk, as every run has them. Then the bare actors, and the driver, write the same rows in one transaction a round, synced
before they answer. The bar is for the second.

    python -m benchmarks latency_ray
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.latency import RunLog, Spent, median, now
from colonnade.privacy.events import EXACT, Charge, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Terms
from colonnade.privacy.store import MemoryLog
from colonnade.privacy.values import Released
from colonnade.runtime.hosted_node import HostedNode
from colonnade.runtime.node import NodeSetup
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, last, message, receive, tell
from colonnade.runtime.ray import Host, Ray
from colonnade.runtime.run_store import MemoryStore, RunStore

SIZES = {"1 KB": 1_000, "64 KB": 64_000, "1 MB": 1_000_000}
BAR = 1.30
WARM = 3  # rounds that are not counted
BARE, UNRECORDED, WRITING, RECORDED = "bare actors", "ours, unrecorded", "bare and durable", "ours"
Bytes = NDArray[np.uint8]


@message(980)
class Ping:
    """Coordinator → party: send this back."""

    payload: Bytes


@message(981)
class Pong:
    """Party → coordinator: here it is."""

    payload: Released[Bytes]


@message(982)
class Enough:
    """Coordinator → party: that was all."""


@message(983)
class Good:
    """Party → coordinator: understood."""


REPLIES: dict[type | None, type] = {Ping: Pong, Enough: Good}


def asking(parties: tuple[str, ...], payload: Bytes, rounds: int, times: list[Spent], _: Gate) -> Program[None]:
    for _round in range(rounds + WARM):
        began = now()
        yield from ask(parties, Ping(payload), Pong)
        times.append(now() - began)
    yield from tell(dict.fromkeys(parties, Enough()), Good)


def answering(gate: Gate) -> Program[None]:
    request = yield from receive(COORDINATOR, Ping | Enough)
    while isinstance(request, Ping):
        request = yield from ask_one(COORDINATOR, Pong(gate.exact(request.payload)), Ping | Enough)
    yield from last({COORDINATOR: Good()})


class Forgetful(Host):
    """A host that records nothing in a run without a store."""

    def sit(self, setup: NodeSetup, run: str, path: str, terms: tuple[Any, ...] | None, passing: bool) -> None:
        if not passing:
            super().sit(setup, run, path, terms, passing)
            return
        self.rise()
        self.host = HostedNode(setup, run, MemoryLog())
        if terms is not None:
            self.host.reserve(*terms)


def ours(engine: Ray, folder: Path | None, count: int, size: int, rounds: int) -> list[Spent]:
    """What each round took on the engine, with records in `folder`, or without."""
    names, times = tuple(f"party{k}" for k in range(count)), list[Spent]()
    program = partial(asking, names, np.frombuffer(os.urandom(size), np.uint8), rounds, times)
    allowed = Policy(exact=True)
    setups = {COORDINATOR: NodeSetup(COORDINATOR, program, names, False, REPLIES, allowed)}
    setups |= {name: NodeSetup(name, answering, (COORDINATOR,), True, REPLIES, allowed) for name in names}
    plan = {name: (Charge(EXACT, rounds + WARM, "what was sent"),) for name in names}
    terms = Terms("echo", "echo()", "nobody", "one row", "replace one row", "0")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        books = MemoryStore() if folder is None else RunStore(place)
        hosted_nodes = engine.hosted_nodes("run", setups, books, lambda *_: None, None)
        try:
            hosted_nodes.reserve(terms, plan, {})
            hosted_nodes.drive()
        finally:
            hosted_nodes.leave()
            books.close()
    return times[WARM:]


class Echo:
    """A bare actor; with a path it writes what came and what goes into a log, one transaction, before it answers."""

    def __init__(self, folder: str | None) -> None:
        self.run_log = None if folder is None else RunLog(Path(folder), f"party{os.getpid()}")

    def echo(self, payload: bytes) -> bytes:
        if self.run_log is not None:
            self.run_log.party(payload)
        return payload


def bare(actors: list[Any], size: int, rounds: int, run_log: RunLog | None = None) -> list[Spent]:
    """What each round took with actors that only send back; with a run_log the driver keeps one, too."""
    import ray

    payload, times = os.urandom(size), []
    for _ in range(rounds + WARM):
        began = now()
        answers = ray.get([actor.echo.remote(payload) for actor in actors])
        if run_log is not None:
            run_log.hub(payload, len(actors))
        times.append(now() - began)
        assert {len(answer) for answer in answers} == {size}
    return times[WARM:]


@contextmanager
def echoes(count: int, folder: str | None) -> Iterator[list[Any]]:
    import ray

    actors: list[Any] = [ray.remote(num_cpus=0)(Echo).remote(folder) for _ in range(count)]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


def compare(engine: Ray, count: int, size: int, rounds: int, turns: int) -> dict[str, Spent]:
    """The median of what a round took; the four take turns, so that a busy moment hits them alike."""
    with tempfile.TemporaryDirectory() as disk:
        ours(engine, Path(disk), count, 10, 1)  # Ray is there, and so are the actors
        with echoes(count, None) as actors, echoes(count, disk) as writing:
            run_log = RunLog(Path(disk), "driver")
            ways: dict[str, Callable[[], list[Spent]]] = {
                BARE: lambda: bare(actors, size, rounds),
                UNRECORDED: lambda: ours(engine, None, count, size, rounds),
                WRITING: lambda: bare(writing, size, rounds, run_log),
                RECORDED: lambda: ours(engine, Path(disk), count, size, rounds),
            }
            times: dict[str, list[Spent]] = {name: [] for name in ways}
            for _ in range(turns):
                for name, way in ways.items():
                    times[name] += way()
    return {name: median(found) for name, found in times.items()}


def measure(counts: tuple[int, ...], sizes: dict[str, int], rounds: int, turns: int) -> float:
    """Prints a line for every count, size and baseline; the worst ratio with records."""
    worst = 0.0
    print(f"a round on a local Ray, same bytes back; median; bar {BAR:.2f}x bare actors that write as much to disk")
    with mock.patch("colonnade.runtime.ray.Host", Forgetful), Ray() as engine:
        for count in counts:
            for name, size in sizes.items():
                found = compare(engine, count, size, max(5, rounds * 200_000 // (200_000 + size)), turns)
                worst = max(worst, found[RECORDED].wall / found[WRITING].wall)
                for base, way in ((BARE, UNRECORDED), (WRITING, RECORDED)):
                    one, other = found[base], found[way]
                    print(
                        f"  {count:3} parties  {name:>5}  {base:16} {one.wall * 1e3:8.2f} ms  {way:16} {other.wall * 1e3:8.2f} ms"
                        f"  {other.wall / one.wall:5.2f}x  (driver's processor {one.cpu * 1e3:6.2f} and {other.cpu * 1e3:6.2f} ms)",
                        flush=True,
                    )
    return worst


def main(quick: bool = True) -> int:
    rounds, turns = (20, 4) if quick else (60, 10)
    return int(measure((4, 16), SIZES, rounds, turns) > BAR)


def smoke() -> None:
    """Every run starts its actors anew, which takes seconds each: one size, two of them."""
    measure((2,), {"1 KB": 1_000}, 5, 1)
