"""A coordinator that serves jobs, and its parties."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import colonnade as co
from colonnade.network.certs import tls_in
from colonnade.network.coordinator_service import CoordinatorService
from colonnade.network.job_queue import JobQueue, QueuedJob
from colonnade.network.party_run import Request
from colonnade.network.questions import unpack
from colonnade.runs.jobs import Surroundings, drive_job
from tests.helpers.contract import METHODS, federation, fitted
from tests.helpers.organisations import Organisations, same_arrays

CASE = METHODS["frank-wolfe, least squares"]
JOB = """[problem]
loss = "LeastSquares"
constraint = { type = "L1Ball", radius = 2.0 }

[method]
type = "DistributedFrankWolfe"
rounds = 6
tolerance = 0.0
"""


class World:
    """Parties in threads of this process, a hub, and services over one store, one after another."""

    def __init__(self, folder: Path, last: contextlib.ExitStack) -> None:
        from colonnade.network.transport.party import serve

        self.made = Organisations.of(federation(CASE), folder)
        self.job = folder / "job.toml"
        self.job.write_text(JOB)
        self.store = folder / "hub"
        self.hub = last.enter_context(self.made.hub())
        self.board = self.hub.open(self.made.file)
        JobQueue(self.store).close()
        self.jobs = last.enter_context(co.Jobs(self.store))
        self.before: Callable[[str, str], None] = lambda party, what: None  # called before a question is answered
        self.approve: Callable[[Request], bool] = lambda _: True
        self.services = {}
        stop = threading.Event()
        for name in self.made.names:
            service = self.services[name] = self.made.service(name, lambda asked: self.approve(asked))
            line = (f"localhost:{self.hub.port}", tls_in(folder / "certs", name), name, self._answer(name))
            thread = threading.Thread(target=serve, args=line, kwargs={"stop": stop}, daemon=True)
            thread.start()
            last.callback(service.close)
            last.callback(thread.join)
        last.callback(stop.set)
        self.board.wait_for(self.made.names, 60)

    def _answer(self, name: str) -> Callable[[bytes], bytes]:
        def answer(raw: bytes) -> bytes:
            self.before(name, unpack(raw).head["what"])
            return self.services[name].answer(raw)

        return answer

    @contextlib.contextmanager
    def service(self, most: int = 3) -> Iterator[CoordinatorService]:
        around = Surroundings(self.made.file, self.hub.tls, self.store, 60.0)
        made = CoordinatorService(self.board, self.made.file, self.store, drive_job, around, most=most)
        try:
            yield made
        finally:
            made.close()

    def until(self, service: CoordinatorService, reached: Callable[[], bool]) -> None:
        """Let the service work until something is so."""
        for _ in range(6000):
            service.tick()
            if reached():
                return
            time.sleep(0.01)
        pytest.fail(f"not reached: {self.jobs.list()}")

    def over(self, service: CoordinatorService, *names: str) -> list[QueuedJob]:
        self.until(service, lambda: all(self.jobs.job(name).over for name in names))
        return [self.jobs.job(name) for name in names]

    def held(self, service: CoordinatorService, name: str, what: str) -> threading.Event:
        """Start a job and hold it at the first question of a kind, until the event is set."""
        reached, go_on, party = threading.Event(), threading.Event(), self.made.names[0]

        def before(asked: str, question: str) -> None:
            if (asked, question) == (party, what) and not reached.is_set():
                reached.set()
                assert go_on.wait(60)

        self.before = before
        self.jobs.submit(name, self.job)
        self.until(service, reached.is_set)
        return go_on

    def open_runs(self) -> set[str]:
        return {run for service in self.services.values() for run in service.ledger.open_runs()}

    def check(self, name: str) -> None:
        """The job's model is that of one process, to the bit, and its run is the only one it began."""
        found, reference = self.jobs.fit(name), fitted(CASE)
        assert found.run == self.jobs.job(name).run
        for party, x in reference.coefficients.items():
            assert same_arrays(x, found.coefficients[party])
