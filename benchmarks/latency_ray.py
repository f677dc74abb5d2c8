"""How long a round takes on Ray: every party is asked and every answer is there.

Parties answer with as many bytes as they were sent, which are random. The baseline are bare Ray actors in the same Ray: they
return what they get, and remember nothing. Ours is measured three times: without records, which is what the engine itself
costs; with records in memory (/dev/shm), where a sync is free; and with records on the disk, as every run has them. The
bar is for the first.

    python -m benchmarks latency_ray
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from colonnade.engines.ray import Host, Ray
from colonnade.engines.station import Seat, Station
from colonnade.privacy.events import EXACT, Charge, Policy
from colonnade.privacy.gate import Gate
from colonnade.privacy.ledger import Terms
from colonnade.privacy.released import Released
from colonnade.privacy.store import MemoryLog
from colonnade.runbook import FolderStore, MemoryStore
from colonnade.runtime.messages import message
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, last, receive, tell

SIZES = {"1 KB": 1_000, "64 KB": 64_000, "1 MB": 1_000_000}
BAR = 1.30
WARM = 3  # rounds that are not counted
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


REPLIES = {Ping: Pong, Enough: Good}


def asking(parties: tuple[str, ...], payload: Bytes, rounds: int, times: list[float], _: Gate) -> Program[None]:
    for _round in range(rounds + WARM):
        began = time.perf_counter()
        yield from ask(parties, Ping(payload), Pong)
        times.append(time.perf_counter() - began)
    yield from tell(dict.fromkeys(parties, Enough()), Good)


def answering(gate: Gate) -> Program[None]:
    request = yield from receive(COORDINATOR, Ping | Enough)
    while isinstance(request, Ping):
        request = yield from ask_one(COORDINATOR, Pong(gate.exact(request.payload)), Ping | Enough)
    yield from last({COORDINATOR: Good()})


class Forgetful(Host):
    """A host that records nothing in a run without a store."""

    def sit(self, seat: Seat, run: str, path: str, terms: tuple[Any, ...] | None, passing: bool) -> None:
        if not passing:
            super().sit(seat, run, path, terms, passing)
            return
        self.rise()
        self.station = Station(seat, run, MemoryLog())
        if terms is not None:
            self.station.reserve(*terms)


def ours(engine: Ray, folder: Path | None, count: int, size: int, rounds: int) -> list[float]:
    """Seconds of each round on the engine, with records in `folder`, or without."""
    names, times = tuple(f"party{k}" for k in range(count)), list[float]()
    program = partial(asking, names, np.frombuffer(os.urandom(size), np.uint8), rounds, times)
    allowed = Policy(exact=True)
    seats = {COORDINATOR: Seat(COORDINATOR, program, names, False, REPLIES, allowed)}
    seats |= {name: Seat(name, answering, (COORDINATOR,), True, REPLIES, allowed) for name in names}
    plan = {name: (Charge(EXACT, rounds + WARM, "what was sent"),) for name in names}
    terms = Terms("echo", "echo()", "nobody", "one row", "replace one row", "0")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        books = MemoryStore() if folder is None else FolderStore(place)
        crew = engine.crew("run", seats, books, lambda *_: None, None)
        try:
            crew.ask("reserve", dict.fromkeys(seats, (terms, plan, {})))
            crew.drive()
        finally:
            crew.close()
            books.close()
    return times[WARM:]


class Echo:
    """A bare actor."""

    def echo(self, payload: bytes) -> bytes:
        return payload


def bare(actors: list[Any], size: int, rounds: int) -> list[float]:
    """Seconds of each round with actors that only send back."""
    import ray

    payload, times = os.urandom(size), []
    for _ in range(rounds + WARM):
        began = time.perf_counter()
        answers = ray.get([actor.echo.remote(payload) for actor in actors])
        times.append(time.perf_counter() - began)
        assert {len(answer) for answer in answers} == {size}
    return times[WARM:]


@contextmanager
def echoes(count: int) -> Iterator[list[Any]]:
    import ray

    actors = [ray.remote(num_cpus=0)(Echo).remote() for _ in range(count)]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


def compare(engine: Ray, count: int, size: int, rounds: int, turns: int) -> dict[str, float]:
    """Median seconds of a round; the four take turns, so that a busy moment hits them alike."""
    shared = Path("/dev/shm")
    memory = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as disk:
        ours(engine, memory, count, 10, 1)  # Ray is there, and so are the actors
        with echoes(count) as actors:
            ways: dict[str, Callable[[], list[float]]] = {
                "bare Ray": lambda: bare(actors, size, rounds),
                "unrecorded": lambda: ours(engine, None, count, size, rounds),
                "in memory": lambda: ours(engine, memory, count, size, rounds),
                "on disk": lambda: ours(engine, Path(disk), count, size, rounds),
            }
            times: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(turns):
                for name, way in ways.items():
                    times[name] += way()
    return {name: statistics.median(found) for name, found in times.items()}


def main(quick: bool = True) -> int:
    worst = 0.0
    print(f"a round on a local Ray, same bytes back; median; bar {BAR:.2f}x bare actors, records apart")
    with mock.patch("colonnade.engines.ray.Host", Forgetful), Ray() as engine:
        for count in (4, 16):
            for name, size in SIZES.items():
                rounds = max(5, (20 if quick else 60) * 200_000 // (200_000 + size))
                found = compare(engine, count, size, rounds, turns=3 if quick else 8)
                base = found["bare Ray"]
                worst = max(worst, found["unrecorded"] / base)
                for way, seconds in found.items():
                    line = f"  {count:3} parties  {name:>5}  {way:10} {seconds * 1e3:8.2f} ms  {seconds / base:5.2f}x"
                    print(line, flush=True)
    return int(worst > BAR)
