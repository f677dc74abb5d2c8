"""`-p tests.forks --forks N`: runs the tests in N processes, forked when all tests are collected.

Each process takes one file after the other, since the tests of a file share what is slow to make. Collecting all tests,
and loading what they need, takes longer than most files: this way it is done once, and not in every process.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import traceback
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

PLACE = 2  # bytes of a file's place in the queue: all of them fit into a pipe


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the files of tests in so many forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if not options.forks or options.collectonly or session.testsfailed:
        return None
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    queue, end = os.pipe()
    os.write(end, b"".join(place.to_bytes(PLACE, "big") for place in range(len(files))))
    os.close(end)
    folder, processes = session.config._tmp_path_factory.getbasetemp(), {}  # type: ignore[attr-defined,var-annotated]
    for number in range(options.forks):
        told, teller = Pipe(duplex=False)
        if not (pid := os.fork()):
            _work(session, number, folder, (files[place] for place in _places(queue)), teller)
        teller.close()
        processes[told] = pid
    try:
        _hear(session, processes)
    except BaseException:
        for pid in processes.values():
            os.kill(pid, signal.SIGTERM)
        raise
    finally:
        for pid in processes.values():
            os.waitpid(pid, 0)
    return True


def _places(queue: int) -> Iterator[int]:
    while place := os.read(queue, PLACE):  # so few bytes are read at once or not at all
        yield int.from_bytes(place, "big")


def _work(
    session: pytest.Session, number: int, folder: Path, files: Iterator[list[pytest.Item]], teller: Connection
) -> None:
    """A forked process: runs files, tells their reports, and ends here."""
    try:
        config = session.config
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(_Teller(config, teller))
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all processes would share
        capture.start_global_capturing()
        config._tmp_path_factory._basetemp = own = folder / f"process-{number}"  # type: ignore[attr-defined]
        own.mkdir(mode=0o700)
        random.seed()
        for items in files:
            for item, following in itertools.zip_longest(items, items[1:]):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        teller.send(("end", None))
    except BaseException:
        teller.send(("broken", traceback.format_exc()))
    finally:
        teller.close()
        sys.stdout.flush()
        os._exit(0)


class _Teller:
    def __init__(self, config: pytest.Config, teller: Connection) -> None:
        self.config, self.teller = config, teller

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.teller.send(("test", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.teller.send(("report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report)))


def _hear(session: pytest.Session, processes: dict[Any, int]) -> None:
    """Hands on what processes report; one that ends before its work fails the test that it was at."""
    hook, config, left, at = session.config.hook, session.config, set(processes), dict.fromkeys(processes, "")
    while left:
        for told in wait(left):
            try:
                kind, what = told.recv()
            except EOFError:
                kind, what = "broken", "the process of this test ended without a word"
            if kind == "test":
                at[told] = what
            elif kind == "report":
                report = hook.pytest_report_from_serializable(config=config, data=what)
                hook.pytest_runtest_logreport(report=report)
            elif kind == "end":
                left.remove(told)
            else:
                left.remove(told)
                where = (at[told].partition("::")[0], None, at[told])
                hook.pytest_runtest_logreport(report=pytest.TestReport(at[told], where, {}, "failed", what, "call"))
            if session.shouldstop or session.shouldfail:
                raise session.Interrupted(str(session.shouldstop or session.shouldfail))
