"""Several runs about the same rows as one job: what is finished, and paid for, is not done again.

    store/classes/runs.db         which jobs were begun, and how they ended
    store/classes/fits/JOB.json   the ids of a job's finished runs, in order; their fits are in store/fits

After Ctrl-C or a crash the same call finds its job, takes the finished fits from the store, goes on with the run that
was stopped and does the rest. Once a job has ended, the same call is a new one, and is charged as one.

Leaves   nothing. The job is found by a keyed hash of the call, as runs are: nobody can test a guess about a row with
         it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.data.federation import Federation
from colonnade.errors import MostlyNoise
from colonnade.privacy.store import write_synced
from colonnade.runs.fit import SavedFit
from colonnade.runs.result import Fit, load
from colonnade.runtime.run_store import RunStore


def same_call(federations: Sequence[Federation], *settings: Any) -> str:
    """What makes two jobs the same job: the settings, who holds what, the rows and every run's labels."""
    first = federations[0]
    held = [(name, party.block.digest(), repr(party.policy)) for name, party in first.parties.items()]
    labels = [hashlib.sha256(np.ascontiguousarray(each.labels).data).hexdigest() for each in federations]
    surplus = [each.surplus_digest for each in federations]
    parts = (settings, first.label, first.unit, first.roster().known, held, labels, surplus)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def resume_runs(call: str, runs: Sequence[Callable[[], Fit]], store: str | PathLike[str]) -> list[Fit]:
    """The fits of all runs, in order; those that an interrupted call with this store finished are read from it."""
    folder = Path(store).expanduser()
    jobs = RunStore(folder / "classes")
    try:
        with jobs.run(call) as job:
            book = folder / "classes" / "fits" / f"{job}.json"
            done: list[str] = json.loads(book.read_text()) if book.exists() else []
            fits = [load(folder / "fits" / f"{run}.json") for run in done]

            def note(run: str) -> None:
                done.append(run)
                write_synced(book, json.dumps(done).encode())

            for run in runs[len(done) :]:
                try:
                    fits.append(run())
                except (KeyboardInterrupt, MostlyNoise) as stopped:  # the second: where somebody made it an error
                    for said in getattr(stopped, "__notes__", ()):
                        if isinstance(said, SavedFit) and said.path is not None:
                            note(said.path.stem)
                    raise
                note(fits[-1].run)
            jobs.end(job, "finished")
        return fits
    finally:
        jobs.close()
