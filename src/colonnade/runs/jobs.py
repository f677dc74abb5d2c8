"""Jobs for a coordinator that lives long: what its clients do, and what the process of one run does.

    jobs = co.Jobs("hub-store")
    jobs.submit("ward-7-lasso", "job.toml")
    for job in jobs.watch("ward-7-lasso"):
        print(job.state, job.round)
    fit = jobs.fit("ward-7-lasso")

A client works on the store's folder, on the coordinator's machine: whoever may write to it may submit. The service
(`colonnade coordinator serve`) takes jobs from there (network/job_queue.py).
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.data.text_file import read_text
from colonnade.errors import ColonnadeError, InvalidInput, ProtocolError
from colonnade.network.certs import Tls
from colonnade.network.coordinator_service import job_key
from colonnade.network.job_queue import JobQueue, QueuedJob
from colonnade.network.refusals import PeerUndecided
from colonnade.network.run_line import LastWord, LinedHub, PipeLog
from colonnade.privacy.events import Ending
from colonnade.runs.config import read_job
from colonnade.runs.fit import fit_as
from colonnade.runs.result import Fit, load
from colonnade.runtime.hosted_node import FINAL
from colonnade.runtime.run_store import RunStore, abort_run

GLANCE = 0.2  # seconds between two looks at a job

log = logging.getLogger("colonnade.runs.jobs")


class Jobs:
    """The queue of a coordinator's store: submit, list, cancel, watch.

    Parameters
    ----------
    store
        The store of `colonnade coordinator serve`, which must have been started once.
    """

    def __init__(self, store: str | Path) -> None:
        self.store = Path(store).expanduser()
        # A queue that nobody serves would be made by a slip of the pen.
        if not (self.store / "jobs.db").is_file():
            raise InvalidInput(
                f"{self.store} has no queue of jobs. Name the store of `colonnade coordinator serve`, or start that "
                "first."
            )
        self._queue = JobQueue(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the queue's file go."""
        self._queue.close()

    def submit(self, name: str, job: str | Path, *, owner: str | None = None) -> QueuedJob:
        """Add the job file at a path; the same name and file again give the job that is there.

        Parameters
        ----------
        name
            What to call the job.
        job
            The path of a job file (docs/use/files.md); a mistake in it is told now.
        owner
            Who submits it; None: the user of this process.
        """
        text = read_text(job)
        # A mistake is told now, and not when its turn comes.
        read_job(text, job)
        return self._queue.submit(name, text, owner or getpass.getuser())

    def list(self) -> list[QueuedJob]:
        """All jobs, in the order in which they were submitted."""
        return self._queue.jobs()

    def job(self, name: str) -> QueuedJob:
        """The job of this name, as it stands.

        Parameters
        ----------
        name
            As it was submitted.
        """
        return self._queue.job(name)

    def cancel(self, name: str) -> QueuedJob:
        """End a job; what its run reserved and did not release returns to the budgets.

        Parameters
        ----------
        name
            As it was submitted.
        """
        return self._queue.cancel(name)

    def watch(self, name: str, timeout: float | None = None) -> Iterator[QueuedJob]:
        """The job now and whenever something changed, until it is over, or for so many seconds.

        Parameters
        ----------
        name
            As it was submitted.
        timeout
            Seconds; None: until the job is over.

        Yields
        ------
        QueuedJob
            The job as it stands.
        """
        until = None if timeout is None else time.monotonic() + timeout
        seen: QueuedJob | None = None
        while seen is None or not seen.over:
            if (found := self.job(name)) != seen:
                yield found
            seen = found
            if found.over or (until is not None and time.monotonic() > until):
                return
            time.sleep(GLANCE)

    def fit(self, name: str) -> Fit:
        """The fit of a finished job.

        Parameters
        ----------
        name
            As it was submitted.
        """
        found = self.job(name)
        if not found.finished:
            why = f" ({found.why})" if found.why else ""
            raise InvalidInput(f"job {name!r} is {found.state}{why}, so it has no fit.")
        return load(self.store / "fits" / f"{found.run}.json")


# ------------------------------------------------------------------------------------------------ one run's process


@dataclass(frozen=True)
class Surroundings:
    """Where the process of a run finds what it needs."""

    file: FederationFile
    tls: Tls
    store: Path
    patience: float
    level: int = logging.INFO


def drive_job(pipe: Connection, job: QueuedJob, text: str, around: Surroundings) -> None:
    """Drive the run of one job to its end, or as far as it goes; the service hears how."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Meant for the service, which decides what becomes of its runs.
        signal.signal(number, signal.SIG_IGN)
    fed = Federation.elsewhere(around.file)
    hub = LinedHub(pipe, around.file, around.tls, around.patience, around.store)
    root = logging.getLogger("colonnade")
    root.handlers = [PipeLog(hub.line)]
    root.propagate = False
    root.setLevel(around.level)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: log.warning("mind", extra={"job": job.name, "what": message})
        hub.line.over(*_drive(job, text, fed, hub, around.store))


def _drive(job: QueuedJob, text: str, fed: Federation, hub: LinedHub, store: Path) -> tuple[LastWord, str, str]:
    """How it ended, why, and the run."""
    if (ended := _ended(job, store)) is not None:
        return ended
    try:
        asked = read_job(text, job.name)
        fit_as(job_key(job), fed, asked.problem, asked.method, asked.privacy, hub, store)
    except PeerUndecided as undecided:
        return LastWord.UNDECIDED, _one_line(undecided), _run(job, store)
    except tuple(FINAL) as error:
        if isinstance(error, ProtocolError) and not _run(job, store):
            # Somebody was away when all met, and nothing was begun.
            return LastWord.AGAIN, _one_line(error), ""
        _close(job, store)
        return LastWord.FAILED, _one_line(error), _run(job, store)
    except ColonnadeError as error:
        return LastWord.AGAIN, _one_line(error), _run(job, store)
    except Exception as error:
        # The text of a foreign error may carry what a party sent.
        log.error("broken", extra={"job": job.name, "error": type(error).__name__})
        return LastWord.AGAIN, f"its process failed: {type(error).__name__}", _run(job, store)
    return LastWord.FINISHED, "", _run(job, store)


def _found(job: QueuedJob, store: Path) -> tuple[str, Ending | None] | None:
    with contextlib.closing(RunStore(store)) as kept:
        return kept.run_of(job_key(job))


def _run(job: QueuedJob, store: Path) -> str:
    found = _found(job, store)
    return "" if found is None else found[0]


def _ended(job: QueuedJob, store: Path) -> tuple[LastWord, str, str] | None:
    """How a job ended whose run was over when its process died."""
    found = _found(job, store)
    if found is None or (ending := found[1]) is None:
        return None
    run = found[0]
    return (LastWord.FINISHED, "", run) if ending.finished else (LastWord.FAILED, ending.words, run)


def _close(job: QueuedJob, store: Path) -> None:
    """A run that was refused before it could end itself holds nothing; it is over all the same."""
    found = _found(job, store)
    if found is not None and found[1] is None:
        abort_run(store, found[0])


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
