"""The coordinator as a service: one port, one queue of jobs, several runs at a time, each in a process of its own.

It holds the streams of all parties (transport/hub.py) and no run. Each run's process asks through it (run_line.py), so
a run that needs much memory, hangs or dies is alone with that. A job is tied to one run (`RunStore.run_once`): whatever
dies and whenever, the next process takes up the same run, or finds that it is over. So a job is paid for once.

A run that stops for a reason that may pass (a full disk, a process that was killed) is tried again after a pause, up to
`TROUBLES` times; then its run is aborted, and the job fails with the last reason. Jobs wait while a party is missing.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from colonnade.data.federation_file import FederationFile
from colonnade.errors import ColonnadeError, StoreError
from colonnade.network.hub import Board
from colonnade.network.job_queue import JobQueue, JobState, QueuedJob
from colonnade.network.questions import Question, pack
from colonnade.network.run_line import LastWord, RunProcess
from colonnade.network.status_page import StatusPage, size_of
from colonnade.privacy.events import ABORTED
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import RunStore, abort_run

TROUBLES = 20
# seconds before a job is tried again
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
ASKED_AGAIN = 120.0  # seconds at most before a job that an operator has not decided on is proposed again
# seconds between two looks at everything, and between two notes of how far runs have come
TICK = 0.1
TELL = 1.0
FAREWELL = 10.0

_FRESH = multiprocessing.get_context("forkserver")  # a process that has imported everything, and holds no stream

log = logging.getLogger("colonnade.network.coordinator_service")


def job_key(job: QueuedJob) -> str:
    """Under which a job's run stands in the journal."""
    return f"job {job.name} {job.digest}"


@dataclass(eq=False)
class _Driven:
    """A job whose run has a process."""

    job: QueuedJob
    process: ForkServerProcess
    desk: RunProcess
    code: int | None = None  # with which its process ended, once that was seen
    told: tuple[str, int, int] = ("", 0, 0)


class CoordinatorService:
    """Takes jobs from the queue of a store and has them driven, `most` at a time, until it is stopped.

    work  what a run's process does: it gets its end of the pipe, a job, its text, and `given`.
    """

    def __init__(
        self, board: Board, file: FederationFile, store: Path, work: Callable[..., None], *given: Any, most: int = 4
    ) -> None:
        self.board = board
        self.file = file
        self.store = store
        self.work = work
        self.given = given
        self.most = most
        # Makes the folder, and refuses one that is damaged.
        with contextlib.closing(RunStore(store)) as runs:
            held = runs.lock("service")
        # Two services over one store would each take the other's runs for dead.
        if held is None:
            raise StoreError(f"another service works on {store}. Stop that one, or give this one a store of its own.")
        self._lock = held
        self.queue = JobQueue(store)
        self.driven: dict[str, _Driven] = {}
        self.draining = False
        self._told = 0.0
        _FRESH.set_forkserver_preload([work.__module__])

    def close(self) -> None:
        """End every run's process; the runs are taken up by the next service."""
        for one in [one for one in self.driven.values() if one.code is None]:
            one.process.kill()
            self._let_go(one)
        self.driven.clear()
        self.queue.reclaim()
        self.queue.close()
        self._lock.close()

    def serve(self, stop: threading.Event, at_once: threading.Event, drain: float) -> None:
        """Until `stop`: then no job is begun, and those that run have `drain` seconds, or until `at_once`."""
        if found := self.queue.reclaim():
            log.info("going on", extra={"jobs": found})
        while not stop.is_set():
            self.tick()
            stop.wait(TICK)
        self.draining = True
        log.info("draining", extra={"runs": len(self.driven), "seconds": drain})
        until = time.monotonic() + drain
        while self.driven and time.monotonic() < until and not at_once.is_set():
            self.tick()
            at_once.wait(TICK)
        log.info("drained", extra={"left to be resumed": len(self.driven)})

    def tick(self) -> None:
        """Look at everything once. A store that cannot be written to just now is looked at again later."""
        try:
            for one in [one for one in self.driven.values() if one.code is not None or not one.process.is_alive()]:
                self._settle(one)
            for job in self.queue.cancelling():
                self._cancel(job)
            self._note_progress()
            while not self.draining and len(self.driven) < self.most and self.all_here():
                if (taken := self.queue.take()) is None:
                    break
                self._start(*taken)
        except StoreError as error:
            log.error("unavailable", extra={"why": str(error)})
            time.sleep(FIRST_PAUSE)

    def all_here(self) -> bool:
        return self.board.connected() >= set(self.file.members)

    def _start(self, job: QueuedJob, text: str) -> None:
        ours, theirs = _FRESH.Pipe()
        with theirs:
            process = _FRESH.Process(target=self.work, args=(theirs, job, text, *self.given), daemon=True)
            process.start()
        self.driven[job.name] = _Driven(job, process, RunProcess(ours, self.board, self.file.members))
        log.info("started", extra={"job": job.name, "owner": job.owner, "attempt": job.attempts})

    def _let_go(self, one: _Driven) -> None:
        one.process.join()
        one.desk.close()
        one.process.close()

    def _settle(self, one: _Driven) -> None:
        """The process of a run has ended: what becomes of its job. If the store fails it is come to again."""
        job = one.job
        if one.code is None:
            one.code = one.process.exitcode
            self._let_go(one)
        self._note(one)
        died = f"the process of its run ended before it was over (exit code {one.code})"
        word, why = one.desk.ending or (LastWord.AGAIN, died)
        tries = job.troubles + 1
        if word == LastWord.UNDECIDED:
            pause = min(FIRST_PAUSE * 1.5**job.attempts, ASKED_AGAIN)
            self.queue.again(job.name, JobState.WAITING, pause, why)
            log.info("undecided", extra={"job": job.name, "seconds": round(pause)})
        elif word == LastWord.AGAIN and tries <= TROUBLES:
            pause = min(FIRST_PAUSE * 1.5**job.troubles, LONGEST_PAUSE)
            self.queue.again(job.name, JobState.QUEUED, pause, why, trouble=True)
            log.warning("again", extra={"job": job.name, "trouble": tries, "seconds": round(pause), "why": why})
        else:
            if word == LastWord.AGAIN:
                state, why = self._abort(job, JobState.FAILED, f"given up after {tries} troubles; the last: {why}")
            else:
                state = JobState(word)
            self.queue.end(job.name, state, why)
            log.info("over", extra={"job": job.name, "state": state, "why": why})
        del self.driven[job.name]

    def _cancel(self, job: QueuedJob) -> None:
        one = self.driven.pop(job.name, None)
        if one is not None and one.code is None:
            one.process.kill()
            self._let_go(one)
        state, why = self._abort(job, JobState.CANCELLED, "cancelled while it was under way")
        self.queue.end(job.name, state, why)
        log.info("over", extra={"job": job.name, "state": state, "why": why})

    def _abort(self, job: QueuedJob, state: JobState, why: str) -> tuple[JobState, str]:
        """End a job's run, if it has begun one; how the job ended, which may be otherwise if the run was over."""
        with contextlib.closing(RunStore(self.store)) as store:
            found = store.run_of(job_key(job))
        if found is None:
            return state, why
        run, ending = found
        if ending is not None:
            return (JobState.FINISHED, "") if ending.finished else (JobState.FAILED, ending.words)
        abort_run(self.store, run)
        # Those that are away hear of it before the next run.
        for party in self.board.connected():
            with contextlib.suppress(ColonnadeError):
                asked = pack({"what": Question.SETTLE, "run": run, "over": {run: ABORTED.code}})
                self.board.ask(party, asked, timeout=FAREWELL)
        return state, why

    def _note_progress(self) -> None:
        if time.monotonic() - self._told >= TELL:
            self._told = time.monotonic()
            for one in self.driven.values():
                self._note(one)

    def _note(self, one: _Driven) -> None:
        now = (one.desk.run, one.desk.round, one.desk.bytes)
        if now != one.told:
            self.queue.progress(one.job.name, *now)
            one.told = now

    # ------------------------------------------------------------------------ its page

    def show_on(self, page: StatusPage) -> None:
        """What the operator of this machine may see: states, rounds, sizes; names of jobs and parties, no figures."""
        page.gauge("colonnade_jobs", "Jobs, by state.", self.queue.counts, label="state")
        page.gauge("colonnade_runs_most", "Runs at a time at most.", lambda: self.most)
        page.gauge("colonnade_run_round", "Round of a job's run.", lambda: self._by_job("round"), label="job")
        page.gauge("colonnade_run_bytes", "Bytes of its questions and answers.", lambda: self._by_job("bytes"), "job")
        page.gauge("colonnade_party_connected", "Whether a party has a stream.", self._present, label="party")
        ledger = RunStore.path_in(self.store, COORDINATOR)
        page.gauge(
            "colonnade_ledger_bytes", "Size of the coordinator's ledger and transcripts.", lambda: size_of(ledger)
        )
        page.needs("not every party is connected", self.all_here)
        page.needs("draining", lambda: not self.draining)

    def _by_job(self, what: str) -> dict[str, float]:
        return {one.job.name: float(getattr(one.desk, what)) for one in list(self.driven.values())}

    def _present(self) -> dict[str, float]:
        here = self.board.connected()
        return {name: float(name in here) for name in self.file.members}
