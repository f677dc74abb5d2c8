"""`-p tests.forks --forks N`: runs the tests in N processes, forked when all tests are collected.

Each process takes one file after the other, since the tests of a file share what is slow to make. Collecting all tests,
and loading what they need, takes longer than most files: this way it is done once, and not in every process.
Every collected test is in the last line. A process that dies fails the test that it was at, and a new process runs the
rest of the file; when too many have died, each test that is left fails as "not run".
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import sys
import traceback
from collections import deque
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the files of tests in so many forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if not options.forks or options.collectonly or session.testsfailed:
        return None
    parent = _Parent(session)
    try:
        parent.run(options.forks)
    except BaseException:
        for worker in parent.workers:
            os.kill(worker.pid, signal.SIGTERM)
            os.waitpid(worker.pid, 0)
        raise
    return True


class _Worker:
    """What is known of a process: what it has still to begin, the test that it is at, and whether that one was called."""

    def __init__(self, pid: int, pipe: Connection, places: deque[int]) -> None:
        self.pid, self.pipe, self.end = pid, pipe, os.pidfd_open(pid)  # a child of its own may keep the pipe open
        self.left, self.at, self.called, self.word = places, -1, False, ""


class _Parent:
    def __init__(self, session: pytest.Session) -> None:
        self.session, self.config, self.number = session, session.config, itertools.count()
        files = itertools.groupby(enumerate(session.items), key=lambda placed: placed[1].path)
        self.queue = deque(deque(place for place, _ in items) for _, items in files)
        self.workers: list[_Worker] = []

    def run(self, forks: int) -> None:
        spare = 4 * forks  # deaths; after so many no process is started in a dead one's place
        while self.workers or (self.queue and spare > 0):
            while self.queue and spare > 0 and len(self.workers) < forks:
                self.fork(next(self.number))
            ready = wait([end for worker in self.workers for end in (worker.pipe, worker.end)])
            for worker in [one for one in self.workers if one.pipe in ready or one.end in ready]:
                with contextlib.suppress(OSError, EOFError):  # it is about to end
                    while worker.pipe.poll():
                        self.hear(worker, *worker.pipe.recv())
                if worker.end in ready:  # since before its last words were heard
                    spare -= self.bury(worker)
        for place in itertools.chain(*self.queue):
            self.fail(self.session.items[place], "call", "not run: too many processes of the tests died")

    def fork(self, number: int) -> None:
        pipe, own = Pipe()
        if not (pid := os.fork()):
            for one in (pipe, *(worker.pipe for worker in self.workers)):
                one.close()
            _work(self.session, number, own)
        own.close()
        self.workers.append(_Worker(pid, pipe, self.queue.popleft()))
        pipe.send(list(self.workers[-1].left))

    def hear(self, worker: _Worker, kind: str, what: Any) -> None:
        if kind == "test":
            worker.at, worker.called = worker.left.popleft(), False
        elif kind == "report":
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=what)
            worker.called = report.when != "setup" or not report.passed
            self.tell(report)
        elif kind == "next":
            worker.at, worker.left = -1, self.queue.popleft() if self.queue else deque()
            worker.pipe.send(list(worker.left))
        else:
            worker.word = what

    def bury(self, worker: _Worker) -> bool:
        """Whether a process that ended left work: the test that it was at, or was to begin, has failed then."""
        self.workers.remove(worker)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        os.close(worker.end)
        what = worker.word or f"the process of this test ended without a word: exit code {code}"
        if worker.at < 0 and worker.left:
            worker.at, what = worker.left.popleft(), f"not run: {what}"
        if worker.left:
            self.queue.appendleft(worker.left)
        if worker.at >= 0:
            self.fail(self.session.items[worker.at], "teardown" if worker.called else "call", what)
        return worker.at >= 0

    def fail(self, item: pytest.Item, when: Any, what: str) -> None:
        self.tell(pytest.TestReport(item.nodeid, item.location, {}, "failed", what, when))

    def tell(self, report: pytest.TestReport) -> None:
        self.config.hook.pytest_runtest_logreport(report=report)
        if stop := self.session.shouldstop or self.session.shouldfail:
            raise self.session.Interrupted(str(stop))


def _work(session: pytest.Session, number: int, pipe: Connection) -> None:
    """A forked process: runs what it is told, tells the reports, and ends here."""
    config = session.config

    def tell(report: pytest.TestReport) -> None:
        pipe.send(("report", config.hook.pytest_report_to_serializable(config=config, report=report)))

    try:
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(SimpleNamespace(pytest_runtest_logreport=tell))
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all processes would share
        capture.start_global_capturing()
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"process-{number}"
        factory._basetemp.mkdir(mode=0o700)
        random.seed()
        while places := pipe.recv():
            items = [session.items[place] for place in places]
            for item, following in itertools.zip_longest(items, items[1:]):
                pipe.send(("test", None))
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.stdout.flush()
            pipe.send(("next", None))
    except BaseException:
        pipe.send(("broken", traceback.format_exc()))
    finally:
        os._exit(0)
