"""Running a method: from a federation and a problem to a Fit.

    fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(10.0)), method=co.DistributedFrankWolfe())

The order is fixed. What the run would release is priced; every party's ledger reserves its whole plan or refuses; only
then is the first message sent. With `store=` every step is durable, and the same call goes on where a run stopped.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from colonnade.data.federation import Federation
from colonnade.data.notices import KEEP, UNSPENT
from colonnade.errors import FinishedInterrupt, InvalidInput, MostlyNoise, NothingToLearn, UnusedLevels
from colonnade.methods.method import GraphMethod, Method, Swamped
from colonnade.methods.node_setup import Call
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, remarks_on
from colonnade.problem import AdaBoost, KernelSVM, Problem
from colonnade.runs.assembly import assemble_fit
from colonnade.runs.call import CheckedCall, call_fingerprint, check_store, checked_call, notices, ordered_call
from colonnade.runs.driver import RunDriver, meet_parties
from colonnade.runs.progress import progress_bar
from colonnade.runs.result import Fit
from colonnade.runtime.inprocess import Engine, InProcess
from colonnade.runtime.run_store import MemoryStore, RunStore, Store
from colonnade.runtime.turns import Distributed

log = logging.getLogger("colonnade.runs.fit")


def fit(
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None = None,
    privacy: Privacy | None = None,
    *,
    engine: Engine | Distributed | None = None,
    store: str | Path | None = None,
    progress: bool = False,
    noise: SeededNoise | None = None,
) -> Fit:
    """Fit one linear model to the columns of all parties.

    federation  who holds what: Federation.split or Federation.from_frames.
    problem     loss, with a constraint set or a penalty; a kernel machine or boosting.
    method      how to solve it; by default private Gram where privacy is asked for, else sharing ADMM for a penalty and
                distributed Frank-Wolfe for a constraint set, which release exact values.
    privacy     the budget, the trust model and the public bounds; a method that releases exact values refuses it.
    engine      where the programs run; by default in this process.
    store       a folder for ledgers and transcripts: with it, the same call resumes a run that was interrupted. A
                private run takes rows that have keys in an order that follows from a secret of the store.
    progress    show a progress bar.
    noise       for tests and published figures only: repeatable noise, which protects nobody, and the Fit says so.
    """
    if privacy is not None and not isinstance(privacy, Privacy):
        raise InvalidInput(f"privacy={privacy!r}: give co.Privacy(epsilon, delta, trust='secure'), or leave it out.")
    runs = hasattr(engine, "run") or hasattr(engine, "hosted_nodes")
    if engine is not None and (isinstance(engine, type) or not runs):
        raise InvalidInput(f"engine={engine!r} is not an engine: give a value such as co.InProcess() or co.Ray().")
    if isinstance(federation, Federation) and federation.away is not None:
        federation = meet_parties(federation, engine)
    passed = checked_call(federation, problem, method, privacy, noise)
    check_store(passed, federation, privacy, store)
    for remark, category in _warnings_before(federation, passed):
        warnings.warn(remark, category, stacklevel=2)
    run_store: Store = MemoryStore() if store is None else RunStore(store)
    try:
        passed = ordered_call(passed, federation, run_store)
        job, method = passed.job, passed.method
        watch = progress_bar(progress, method.TITLE, method.rounds)
        with run_store.run(call_fingerprint(federation, passed, noise)) as run, watch as bar:
            call = Call(passed.asked, problem, job.privacy, noise)
            one = RunDriver(run, federation, job, method, passed.plans, passed.blocks, run_store, bar, noise, call)
            with one.hosted(engine or InProcess()):
                fitted = drive_and_save(one)
    except FinishedInterrupt:
        raise
    except KeyboardInterrupt as stopped:
        if store is not None:
            stopped.add_note(f"The run was stopped; repeat the call with the same store={str(store)!r} to go on.")
        raise
    finally:
        run_store.close()
    for remark in fitted.remarks:
        if isinstance(remark, Swamped):
            log.warning(remark.WORDS, extra={"run": fitted.run})
            try:
                warnings.warn(f"{remark}.", MostlyNoise, stacklevel=2)
            except MostlyNoise as raised:  # somebody made it an error, and the run is paid for
                raised.add_note(SavedFit(run_store.fit_path(fitted.run)))
                raise
    return fitted


def drive_and_save(run: RunDriver) -> Fit:
    """The Fit of a run, on disk before the run is over where the store has one."""
    fitted = assemble_fit(run, run.run_programs())
    path = run.store.fit_path(run.run)
    if path is None:
        run.finish()
        return fitted
    with _undisturbed(SavedFit(path)):
        fitted.save(path)
        run.finish()
    return fitted


def _warnings_before(federation: Federation, call: CheckedCall) -> Iterator[tuple[str, type[UserWarning]]]:
    for remark in remarks_on(call.job.privacy):
        yield remark, UserWarning
    nothing, absent = notices(federation, call.job, call.blocks)
    if nothing:
        yield f"{'; '.join(nothing)}. {UNSPENT}", NothingToLearn
    if absent:
        yield f"{'; '.join(absent)}. {KEEP}", UnusedLevels


class SavedFit(str):
    """The note on an error that stopped a call after its run had ended: the fit is saved."""

    __slots__ = ("path",)
    path: Path | None

    def __new__(cls, path: Path | None) -> Self:
        where = f"The run had finished; its fit is saved: co.load({str(path)!r})."
        note = super().__new__(cls, f"{where} To repeat the call would begin another.")
        note.path = path
        return note


@contextlib.contextmanager
def _undisturbed(note: str) -> Iterator[None]:
    """Let Ctrl-C wait until the block is done: a run that ended half would be begun, and paid for, again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        interrupt = FinishedInterrupt()
        interrupt.add_note(note)
        raise interrupt
