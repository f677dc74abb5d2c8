"""Jobs that wait for a coordinator that lives long: one SQLite file beside its run store, `store/jobs.db`.

A job is a name, an owner and the text of a job file (problem, method, privacy). It is the same job as long as name and
text are the same: to submit it again tells how it is and begins nothing. Another text under the same name is refused.
Once a job is over its text is erased and its digest kept, so the name stays taken: a job is run, and paid, once.

    queued    waits for its turn, or for parties that are not connected
    waiting   a party's operator has not decided yet; it is proposed again later
    running   a process drives its run
    finished, failed, cancelled   over, with the reason

Who can write the file can submit: it belongs to the user that runs the coordinator, as the store does.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from colonnade.errors import InvalidInput, StoreError
from colonnade.fields import Choice
from colonnade.privacy.database import SharedFile

MOST = 1000  # jobs that are not over
LARGEST = 1 << 20  # bytes of a job file
LONGEST_WHY = 2000


class JobState(Choice):
    """How far a job has come."""

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (JobState.QUEUED, JobState.WAITING, JobState.RUNNING)
OVER = (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORMAT = 1
_SCHEMA = f"""
create table if not exists job(
    seq integer primary key, name text not null unique, owner text not null, digest text not null, text text not null,
    state text not null, why text not null default '', run text not null default '', round integer not null default 0,
    bytes integer not null default 0, attempts integer not null default 0,
    troubles integer not null default 0, not_before real not null default 0,
    cancel integer not null default 0, submitted real not null, began real, ended real);
create index if not exists open_jobs on job(state) where state in {OPEN!r};
"""
_ADVICE = "Free space or make it writable, and repeat the command; a job that was taken is taken once."


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as the queue knows it; times are seconds since 1970, by the clock of whoever wrote them."""

    seq: int
    name: str
    owner: str
    digest: str
    state: JobState
    why: str
    run: str
    round: int
    bytes: int
    attempts: int
    troubles: int  # how often its process died, or stopped for a reason that may pass
    cancel: int  # 1: its owner wants it to end
    submitted: float
    began: float | None
    ended: float | None

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def finished(self) -> bool:
        return self.state is JobState.FINISHED


_KINDS = ["str" if one.name == "state" else str(one.type) for one in fields(QueuedJob)]
_COLUMNS = ", ".join(one.name for one in fields(QueuedJob))


class JobQueue:
    """The queue of one store. Any number of processes may open it; one of them, the service, takes jobs from it."""

    def __init__(self, store: str | Path) -> None:
        self.path = Path(store).expanduser() / "jobs.db"
        self._file = SharedFile(self.path, _SCHEMA, _FORMAT, _ADVICE)
        self._db, self._atomic, self._explained = self._file.db, self._file.atomic, self._file.explained

    def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------------ what clients do

    def submit(self, name: str, text: str, owner: str) -> QueuedJob:
        """Add a job; the same name and text again give the job that is there."""
        for what, value in (("name", name), ("owner", owner)):
            if not _NAME.fullmatch(value):
                raise InvalidInput(
                    f"{what} {value!r}: 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or "
                    "a digit."
                )
        raw = text.encode()
        if len(raw) > LARGEST:
            raise InvalidInput(f"a job file of {len(raw):,} bytes is over the {LARGEST:,} that a queue takes.")
        digest = hashlib.sha256(raw).hexdigest()
        with self._atomic():
            known = self._find("name = ?", name)
            if known and known[0].digest != digest:
                raise InvalidInput(
                    f"there is a job {name!r} already, submitted with another file: that one's SHA-256 begins with "
                    f"{known[0].digest[:16]}, this one's with {digest[:16]}. Nothing was changed. A name is used for "
                    "one job: take another name."
                )
            if known:
                return known[0]
            waiting = sum(self.counts().get(state, 0) for state in OPEN)
            if waiting >= MOST:
                raise InvalidInput(f"{waiting:,} jobs are waiting, and a queue takes {MOST:,}. Submit it again later.")
            self._db.execute(
                "insert into job(name, owner, digest, text, state, submitted) values (?, ?, ?, ?, 'queued', ?)",
                (name, owner, digest, text, time.time()),
            )
            return self._find("name = ?", name)[0]

    def job(self, name: str) -> QueuedJob:
        with self._explained():
            found = self._find("name = ?", name)
        if not found:
            raise InvalidInput(f"{self.path.parent} has no job {name!r}; `colonnade jobs list` shows those it has.")
        return found[0]

    def jobs(self) -> list[QueuedJob]:
        """All of them, in the order in which they were submitted."""
        with self._explained():
            return self._find("true")

    def counts(self) -> Mapping[str, int]:
        """How many jobs there are, by state."""
        with self._explained():
            found = dict(self._db.execute("select state, count(*) from job group by state").fetchall())
        return {state: found.get(state, 0) for state in (*OPEN, *OVER)}

    def cancel(self, name: str) -> QueuedJob:
        """End a job: at once if it does not run, else by the service. One that is over stays as it is."""
        with self._atomic():
            known = self.job(name)
            # Its run must be closed, which is the service's to do.
            if known.state is JobState.RUNNING or known.run:
                self._db.execute("update job set cancel = 1 where name = ? and ended is null", (name,))
            elif not known.over:
                self._end(name, JobState.CANCELLED, "cancelled before it began")
            return self.job(name)

    # ------------------------------------------------------------------------ what the service does

    def reclaim(self) -> int:
        """Jobs that ran when an earlier service died wait for their turn again; how many."""
        with self._atomic():
            return self._db.execute("update job set state = 'queued' where state = 'running'").rowcount

    def take(self) -> tuple[QueuedJob, str] | None:
        """The job to run now, and its text: the oldest of whoever has the fewest running."""
        with self._atomic():
            there = self._find("state in ('queued', 'waiting') and cancel = 0 and not_before <= ?", time.time())
            if not there:
                return None
            busy = Counter(job.owner for job in self._find("state = 'running'"))
            # Jobs whose run has begun come first: what they have reserved is tied up until they end.
            job = min(there, key=lambda one: (busy[one.owner], not one.run, one.seq))
            began = job.began or time.time()
            self._db.execute(
                "update job set state = 'running', attempts = attempts + 1, began = ? where name = ?", (began, job.name)
            )
            (text,) = self._db.execute("select text from job where name = ?", (job.name,)).fetchone()
            return self.job(job.name), text

    def progress(self, name: str, run: str, round_: int, size: int) -> None:
        """How far a job's run has come: its name, its round, and the bytes that went to and from parties."""
        with self._explained():
            told = (run, round_, size, name)
            self._db.execute("update job set run = ?, round = ?, bytes = ? where name = ? and ended is null", told)

    def again(self, name: str, state: JobState, seconds: float, why: str, *, trouble: bool = False) -> None:
        """Put a job back: it is tried again after so many seconds."""
        told = (state, time.time() + seconds, why[:LONGEST_WHY], int(trouble), name)
        changed = "state = ?, not_before = ?, why = ?, troubles = troubles + ?"
        with self._explained():
            self._db.execute(f"update job set {changed} where name = ? and ended is null", told)  # noqa: S608  fixed

    def end(self, name: str, state: JobState, why: str) -> None:
        """A job is over."""
        with self._explained():
            self._end(name, state, why)

    def cancelling(self) -> list[QueuedJob]:
        """Jobs that their owners want to end, and that the service has to."""
        with self._explained():
            return self._find("cancel = 1 and ended is null")

    def _end(self, name: str, state: JobState, why: str) -> None:
        self._db.execute(
            "update job set state = ?, why = ?, ended = ?, text = '' where name = ? and ended is null",
            (state, why[:LONGEST_WHY], time.time(), name),
        )

    # ------------------------------------------------------------------------ the file

    def _find(self, clause: str, *values: Any) -> list[QueuedJob]:
        query = f"select {_COLUMNS} from job where {clause} order by seq"  # noqa: S608  clauses are fixed, above
        found = self._db.execute(query, values).fetchall()
        for row in found:
            self._file.check_kinds(row, _KINDS)
            if row[4] not in (*OPEN, *OVER):
                raise StoreError(f"{self.path} is damaged: a job has no state that is known. Restore a copy of it.")
        return [replace(job, state=JobState(job.state)) for job in (QueuedJob(*row) for row in found)]
