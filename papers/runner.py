"""Runs figures: cases in worker processes, each case's rows in a Parquet file of its own, then plots and verdicts.

    reproduce([listed, ...], Path("reproduced"), quick=True, jobs=2)

Kept     <results>/<figure>/<case>.parquet, written in one piece by the worker that ran the case, with the case, the CPU seconds it
         took and the code's version inside. A case is named by its parameters, so quick and full runs share what they have in common.
Resumed  a case whose file is there and of this version is not run again: after Ctrl-C or kill -9 the same command goes on.
Version  of the code that a case's rows come from (sources.py): all of the package, and of this folder what the case reaches. Data are
         not part of it: after exchanging data, delete the figure's folder.
Shared   figures with the same `shares` keep their cases in one folder of that name: what one has run, the others take.
Again    with seeds=2 every figure that chance has a part in is run once more with other seeds: a verdict that is then another one is marked as
         unstable. A full run is repeated at the size of a quick one, and in full where a claim says that a quick run is too small to judge it.
         Where cases have no seed (`fresh`), the same cases are run once more.
Failures a case that raises, or whose process dies, is reported with its parameters; the others go on, and the figure is not judged.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import InvalidInput
from colonnade.privacy.store import write_synced
from colonnade.runs.progress import progress_bar
from papers.figure import Case, Claim, Figure, Silent, Verdict
from papers.registry import Listed, in_module
from papers.sources import version

if TYPE_CHECKING:
    import polars as pl

SHOWN = 6  # values of a parameter that are listed one by one
APART = 1_000  # between the seeds of a run and those of the next one


@dataclass(frozen=True)
class Job:
    """One case of one figure, by names that every process understands."""

    module: str
    figure: str
    case: Case
    target: Path
    version: str


@dataclass(frozen=True)
class Failure:
    """A case that gave no rows, and why."""

    case: Case
    reason: str


@dataclass(frozen=True)
class Judged:
    """A claim, and what the rows say of it."""

    claim: Claim
    verdict: Verdict
    quick: bool  # the size of the run
    again: Verdict | None = None  # of the same figure with other seeds

    @property
    def stable(self) -> bool | None:
        """Whether other seeds give the same verdict; None where nobody looked."""
        return None if self.again is None else self.again.held == self.verdict.held

    @property
    def as_stated(self) -> bool:
        """Whether the verdict is the one that the figure's file says."""
        return self.verdict.held == self.claim.expected(self.quick)


@dataclass(frozen=True)
class Outcome:
    """What became of one figure."""

    figure: Figure
    version: str
    quick: bool
    cases: int
    seconds: float  # of CPU, over all cases, those that were kept included
    table: pl.DataFrame | None
    judged: tuple[Judged, ...]
    failures: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()  # data sets
    settings: dict[str, str] = field(default_factory=dict)  # of its cases: sizes, rounds, seeds
    again_table: pl.DataFrame | None = None  # rows of a second run with other seeds
    again_seconds: float = 0.0  # of CPU, of the second run with other seeds
    again_quick: bool = True  # its size
    chance: str = "none"  # what differs from run to run: seeds, fresh (noise of the system, a clock) or none
    printed_seconds: float = 0.0  # of CPU, what the sizes that the paper prints would take

    @property
    def status(self) -> str:
        """as stated, differs, failed or no data."""
        if self.missing:
            return "no data"
        if self.failures:
            return "failed"
        return "as stated" if all(one.as_stated for one in self.judged) else "differs"


def reproduce(
    wanted: Sequence[Listed],
    results: Path,
    *,
    quick: bool = True,
    jobs: int | None = None,
    progress: bool = False,
    seeds: int = 1,
) -> list[Outcome]:
    """Run what is not there yet, judge every claim, and draw; plots are written by page.py from what this returns."""
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"jobs={jobs}: give at least one process.")
    if seeds not in (1, 2):
        raise InvalidInput(f"seeds={seeds}: 1 runs every figure once, 2 once more with other seeds.")
    first = _judged(wanted, results, quick, jobs, progress, turn=0)
    if seeds == 1:
        return first
    drawn = [listed for listed, one in zip(wanted, first, strict=True) if one.chance != "none"]
    large = [listed for listed in drawn if not quick and any(c.quick is not None for c in listed.figure.claims)]
    small = [listed for listed in drawn if listed not in large]
    second = [
        one
        for size, some in ((True, small), (False, large))
        for one in _judged(some, results, size, jobs, progress, turn=1)
    ]
    others = {one.figure.name: one for one in second}
    return [_compared(one, others.get(one.figure.name)) for one in first]


def _compared(one: Outcome, other: Outcome | None) -> Outcome:
    """An outcome whose claims know what the same figure says with other seeds; where chance has no part, the same."""
    if other is None:
        return replace(one, judged=tuple(replace(own, again=own.verdict) for own in one.judged))
    if other.failures:
        return replace(one, failures=(*one.failures, *other.failures))
    said = {own.claim.says: own.verdict for own in other.judged}  # all, but claims of which these rows say nothing
    judged = tuple(replace(own, again=said.get(own.claim.says)) for own in one.judged)
    return replace(one, judged=judged, again_table=other.table, again_seconds=other.seconds, again_quick=other.quick)


def _judged(
    wanted: Sequence[Listed], results: Path, quick: bool, jobs: int | None, progress: bool, turn: int
) -> list[Outcome]:
    plans = {listed.figure.name: [] if listed.missing else plan(listed, results, quick, turn) for listed in wanted}
    each = {
        job.target: job for jobs_of in plans.values() for job in jobs_of
    }  # once, though several figures may share it
    waiting = [job for job in each.values() if kept(job) is None]
    failures: dict[Path, str] = {}
    with progress_bar(progress and bool(waiting), "cases", len(waiting)) as show:
        for done, (job, reason) in enumerate(run_all(waiting, jobs or os.cpu_count() or 1), 1):
            if reason:
                failures[job.target] = reason
            show({"round": done})
    return [_outcome(listed, plans[listed.figure.name], failures, quick, turn) for listed in wanted]


def plan(listed: Listed, results: Path, quick: bool, turn: int = 0) -> list[Job]:
    """The cases of a figure, with the file that each one's rows belong in; turn 1 has other seeds."""
    cases = [_turned(case, turn) for case in listed.figure.cases(quick)]
    folder = results / (listed.figure.shares or listed.figure.name)
    code = version(listed.module, listed.figure.run)
    if turn and chance(listed.figure) == "fresh":
        folder = folder / "again"  # the same cases once more
    jobs = [Job(listed.module, listed.figure.name, case, folder / f"{case_key(case)}.parquet", code) for case in cases]
    if len({job.target for job in jobs}) < len(jobs):
        raise InvalidInput(f"{listed.figure.name} names a case twice: its cases must differ in their parameters.")
    return jobs


def case_key(case: Case) -> str:
    """A short name made of the parameters alone."""
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:16]


def chance(figure: Figure) -> str:
    """What differs from run to run: "seeds", "fresh" or "none"."""
    seeded = any("seed" in case for case in figure.cases(True))
    return "seeds" if seeded else "fresh" if figure.fresh else "none"


def _turned(case: Case, turn: int) -> Case:
    seed = case.get("seed")
    return {**case, "seed": int(seed) + APART * turn} if seed is not None else dict(case)


def settings(cases: Sequence[Case]) -> dict[str, str]:
    """What the cases of a figure are made of: every parameter with its values, a long row of numbers by its ends."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(key for case in cases for key in case):
        several = list(dict.fromkeys(case[name] for case in cases if name in case))
        numbers = [value for value in several if not isinstance(value, str)]
        if len(several) > SHOWN and len(numbers) == len(several):
            found[name] = f"{len(several)} values, {min(numbers):g} to {max(numbers):g}"
        else:
            found[name] = ", ".join(value if isinstance(value, str) else f"{value:g}" for value in several)
    return found


def kept(job: Job) -> tuple[pl.DataFrame, float] | None:
    """Rows and CPU seconds of a case that is there and of this version."""
    import polars as pl

    try:
        said = pl.read_parquet_metadata(job.target)
        if said.get("version") != job.version or json.loads(said.get("case", "null")) != job.case:
            return None
        return pl.read_parquet(job.target), float(said["seconds"])
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError):
        return None  # not there, or cut off by something other than us: run it


# ------------------------------------------------------------------------------------------------ workers


def run_case(job: Job) -> str:
    """Run one case and keep its rows; the reason where it failed, else nothing."""
    import polars as pl
    from threadpoolctl import threadpool_limits

    told = job.target.with_suffix(".failed.txt")
    try:
        figure = next(one.figure for one in in_module(job.module) if one.figure.name == job.figure)
        began = time.process_time()
        with threadpool_limits(limits=1):
            rows = figure.run(**job.case)
        seconds = time.process_time() - began
        if not rows:
            raise InvalidInput("run() returned no rows")
        body = BytesIO()
        said = {"version": job.version, "case": json.dumps(job.case), "seconds": repr(seconds)}
        pl.DataFrame(rows, infer_schema_length=None, strict=False).write_parquet(body, metadata=said)
        job.target.parent.mkdir(parents=True, exist_ok=True)
        write_synced(job.target, body.getvalue())
        told.unlink(missing_ok=True)
    except Exception as error:
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f"{json.dumps(job.case)}\n\n{traceback.format_exc()}", encoding="utf-8")
        return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    return ""


def run_all(waiting: Sequence[Job], jobs: int) -> Iterator[tuple[Job, str]]:
    """Every job as it ends, with the reason where it failed. A process that dies takes its own case with it, no other."""
    queue, busy = deque(waiting), dict[Connection, _Worker]()
    try:
        for _ in range(min(jobs, len(queue))):
            worker = _Worker()
            busy[worker.wire] = worker
            worker.begin(queue.popleft())
        while busy:
            for wire in wait(list(busy)):
                assert isinstance(wire, Connection)
                worker = busy.pop(wire)
                job, reason = worker.job, worker.answer()
                if queue:
                    if not worker.alive:
                        worker = _Worker()
                    busy[worker.wire] = worker
                    worker.begin(queue.popleft())
                else:
                    worker.stop()
                yield job, reason
    finally:  # Ctrl-C, or a caller that stops reading: what runs is given up, what is written stays
        for worker in busy.values():
            worker.stop()


class _Worker:
    """One process that runs cases handed to it, one at a time. It ends with its case when this process is gone."""

    def __init__(self) -> None:
        # Forked by a server that has imported this module and started no threads: a worker is there at once, and all
        # workers run the code that was there when the first one began.
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.wire, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, dict(os.environ)), daemon=True)
        self._process.start()
        there.close()
        self.alive = True
        self.job: Job

    def begin(self, job: Job) -> None:
        self.job = job
        with suppress(ConnectionError):  # a process that died while idle: its answer says so
            self.wire.send(job)

    def answer(self) -> str:
        try:
            return str(self.wire.recv())
        except (EOFError, ConnectionError):
            self.alive = False
            self._process.join()
            return f"its process died (exit code {self._process.exitcode}): killed, or out of memory"

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self.wire.close()


def _serve(wire: Connection, environment: dict[str, str]) -> None:
    import signal

    os.environ.update(environment)  # the server's is that of its start
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C too, and ends this process
    try:
        while True:
            wire.send(run_case(wire.recv()))
    except (EOFError, ConnectionError):  # the parent is gone
        return


# ------------------------------------------------------------------------------------------------ verdicts


def _outcome(listed: Listed, jobs: list[Job], failures: dict[Path, str], quick: bool, turn: int) -> Outcome:
    import polars as pl

    figure, frames, seconds, failed = listed.figure, [], [0.0] * len(jobs), []
    for place, job in enumerate(jobs):
        found = kept(job)
        if found is None:
            reason = failures.get(job.target, "its rows could not be read back")
            failed.append(Failure(job.case, reason))
        else:
            frames.append(found[0])
            seconds[place] = found[1]
    table = pl.concat(frames, how="diagonal_relaxed") if frames and not failed else None
    judged: list[Judged] = []
    for claim in figure.claims if table is not None else ():
        assert table is not None
        try:
            judged.append(Judged(claim, claim.check(table), quick))
        except Silent as error:
            if not turn:
                failed.append(Failure({}, f"the rows say nothing of {claim.says!r}: {error}"))
        except Exception as error:  # a check that cannot read the rows is a fault of the figure, not a verdict
            failed.append(Failure({}, f"the check of {claim.says!r} raised {type(error).__name__}: {error}"))
    code, told = jobs[0].version if jobs else "", settings([job.case for job in jobs])
    common = (figure, code, quick, len(jobs), sum(seconds), table, tuple(judged), tuple(failed), listed.missing)
    larger = printed_sizes(figure, [job.case for job in jobs])
    whole = sum(one * times for one, times in zip(seconds, larger, strict=True))
    return Outcome(*common, settings=told, chance=chance(figure), printed_seconds=whole)


def judged_again(listed: Listed, results: Path) -> Outcome | None:
    """What the rows of an earlier run say now, whatever the code's version: None where the folder has none."""
    import polars as pl

    folder, figure = results / listed.figure.name, listed.figure
    try:
        said = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        table = pl.read_parquet(folder / "rows.parquet")
        other = folder / "again.parquet"
        second = pl.read_parquet(other) if other.is_file() else None
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    if said["chance"] == "none":
        second = table
    judged = tuple(
        Judged(claim, claim.check(table), said["quick"], None if second is None else _checked(claim, second))
        for claim in figure.claims
    )
    return Outcome(
        figure,
        said["version"],
        said["quick"],
        said["cases"],
        said["cpu_seconds"],
        table,
        judged,
        settings=said["settings"],
        again_table=second,
        again_seconds=said["again_seconds"],
        again_quick=said.get("again_quick", True),
        chance=said["chance"],
        printed_seconds=3600 * said.get("printed_hours", 0.0),
    )


def _checked(claim: Claim, table: pl.DataFrame) -> Verdict | None:
    try:
        return claim.check(table)
    except Silent:
        return None


def facts(outcome: Outcome) -> dict[str, Any]:
    """What `--json`, the gallery and the record say of an outcome."""
    figure = outcome.figure
    return {
        "name": figure.name,
        "paper": figure.paper,
        "title": figure.title,
        "setting": figure.setting,
        "privacy": figure.privacy,
        "data": list(figure.data),
        "status": outcome.status,
        "quick": outcome.quick,
        "version": outcome.version,
        "cases": outcome.cases,
        "cpu_seconds": round(outcome.seconds, 2),
        "again_seconds": round(outcome.again_seconds, 2),
        "again_quick": outcome.again_quick,
        "hours": round((outcome.seconds + outcome.again_seconds) / 3600, 4),
        "printed_hours": round(outcome.printed_seconds / 3600, 4),
        "settings": outcome.settings,
        "chance": outcome.chance,
        "less": figure.less,
        "run": run_line(outcome),
        "claims": [
            {
                "says": one.claim.says,
                "held": one.verdict.held,
                "expected": one.claim.expected(outcome.quick),
                "evidence": one.verdict.evidence,
                "confidence": one.claim.confidence,
                "finding": one.claim.finding,
                "changed": one.claim.changed,
                "stable": one.stable,
                "again": one.again.evidence if one.again is not None and outcome.chance != "none" else "",
            }
            for one in outcome.judged
        ],
        "listing": figure.listing(outcome.table) if figure.listing and outcome.table is not None else [],
        "failures": [{"case": _plain(one.case), "reason": one.reason} for one in outcome.failures],
        "missing_data": list(outcome.missing),
    }


def run_line(outcome: Outcome) -> str:
    """What stands on a plot about the size of its run: what is smaller than in the paper, and why."""
    figure = outcome.figure
    if outcome.quick:
        cut, whole = settings(figure.cases(True)), settings(figure.cases(False))
        smaller = [f"{name} {cut[name]} instead of {whole[name]}" for name in cut if cut[name] != whole.get(name)]
        told = f"Quick run, cut to fit in minutes: {'; '.join(smaller)}." if smaller else "Quick run, as the full one."
    else:
        smaller = _smaller_than_printed(figure)
        price = f"all of it would take {outcome.printed_seconds / 3600:.2g} CPU hours, this took {outcome.seconds / 3600:.2g}"
        told = (
            f"Full run; less than the paper has, to save time: {'; '.join(smaller)} ({price})."
            if smaller
            else "Full run."
        )
    return f"{told} {figure.less}".strip()


def repeats(cases: Sequence[Case]) -> dict[str, int]:
    """How many seeds each method has; "" where a case names no method."""
    seeds: dict[str, set[Any]] = {}
    for case in cases:
        seeds.setdefault(str(case.get("method", "")), set()).add(case.get("seed"))
    return {method: len(own) for method, own in seeds.items()}


def _smaller_than_printed(figure: Figure) -> list[str]:
    """Each of the paper's sizes that a full run does not have, beside what it has."""
    cases, found = figure.cases(False), []
    for name, wanted in figure.printed.items():
        if name == "seed":
            counts = repeats(cases)
            for count in sorted({own for own in counts.values() if own < wanted}):
                whose = [method for method, own in counts.items() if own == count]
                of = "" if len(whose) == len(counts) else f" of {', '.join(whose)}"
                found.append(f"{count} {'repeat' if count == 1 else 'repeats'}{of} instead of {wanted:,}")
        elif (most := max(float(case[name]) for case in cases if name in case)) < wanted:
            found.append(f"{name} {most:,g} instead of {wanted:,}")
    return found


def printed_sizes(figure: Figure, cases: Sequence[Case]) -> list[float]:
    """By how much more work the paper's sizes are for each case."""
    counts = repeats(cases)

    def times(case: Case) -> float:
        larger = 1.0
        for name, wanted in figure.printed.items():
            have = counts[str(case.get("method", ""))] if name == "seed" else float(case.get(name, wanted))
            larger *= max(1.0, wanted / have)
        return larger

    return [times(case) for case in cases]


def _plain(case: Case) -> Case:
    """A case as JSON can hold it: an infinite epsilon, which stands for no privacy, becomes a word."""
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in case.items()}
