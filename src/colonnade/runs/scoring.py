"""Masked scores of rows by a model: a run of its own, which only the label holder learns the result of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.data.federation import Federation
from colonnade.errors import InvalidInput
from colonnade.methods.masked_scores import MaskedScores
from colonnade.methods.node_setup import Call
from colonnade.model.job import Job
from colonnade.runs.call import run_fingerprint
from colonnade.runs.fit import RunDriver, meet_parties
from colonnade.runs.result import Fit, KeptScores
from colonnade.runtime.host import Distributed
from colonnade.runtime.hosted_node import Engine, InProcess
from colonnade.runtime.run_store import MemoryStore, RunStore, Store


def score(
    fitted: Fit,
    federation: Federation,
    *,
    without: Sequence[str] = (),
    engine: Engine | Distributed | None = None,
    store: str | Path | None = None,
) -> NDArray[np.float64] | KeptScores:
    """Linear scores of a federation's rows, as the label holder learns them: the sum, and nobody's part of it.

    Parties send masked parts to the label holder; the coordinator carries them sealed.

    Parameters
    ----------
    fitted
        The model.
    federation
        The rows, new ones or not, at the model's parties; they need no labels.
    without
        Parties that are not there: their parts are left out, which the caller says, never a missing party.
    engine
        Where the programs run; None: in this process. Where the parties run elsewhere (`co.Grpc(...)`) they approve it
        as a run of its own, and the label holder keeps the scores: what comes back says where.
    store
        A folder for ledgers and transcripts, as in `co.fit`.

    Returns
    -------
    array or KeptScores
        One score a row, or where the label holder keeps them.

    Raises
    ------
    PolicyRefused
        A party's policy does not let its part of scores leave.

    Examples
    --------
    >>> import colonnade as co
    >>> fed = co.Federation.split([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [2.0, 1.0, 3.0], parties=2)
    >>> fit = co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(3.0)), co.DistributedFrankWolfe())
    >>> [round(float(s), 3) for s in co.score(fit, fed)]
    [2.0, 1.0, 3.0]
    """
    if not isinstance(fitted, Fit) or not isinstance(federation, Federation):
        raise InvalidInput("score wants a Fit and a Federation: co.score(fit, Federation.from_frames(...)).")
    if fitted.model is not None:
        raise InvalidInput(f"masked scores are for linear models, and this is a {type(fitted.problem).__name__}.")
    if federation.away is not None:
        _check_elsewhere(fitted, federation, without)
        there = meet_parties(federation, engine, store)
        there = there.with_curve_depth(fitted.depth)
        method = MaskedScores(fitted.run, fitted.intercept, curves=fitted.depth)
    else:
        federation = federation.with_curve_depth(fitted.depth)
        blocks = fitted.blocks(federation, without)
        kept = {name: party for name, party in federation.parties.items() if name in blocks or name == fitted.label}
        there = replace(federation, parties=kept, label=fitted.label)
        method = MaskedScores(fitted.run, fitted.intercept, {name: fitted.coefficients[name] for name in blocks})
    job = Job(fitted.problem, there.roster())
    method.check(job)
    run_store: Store = MemoryStore() if store is None else RunStore(store)
    held = {name: party.block for name, party in there.parties.items()}
    call = Call(method, fitted.problem, None)
    try:
        with run_store.run(run_fingerprint(there, job, method, held, None)) as run:
            one = RunDriver(run, there, job, method, method.price(job), held, run_store, None, None, call)
            with one.hosted(engine or InProcess()):
                scores = one.run_programs().results[fitted.label]
                one.finish()
            return np.asarray(scores) if there.away is None else KeptScores(run, fitted.label, there.rows)
    finally:
        run_store.close()


def _check_elsewhere(fitted: Fit, federation: Federation, without: Sequence[str]) -> None:
    """Whether the parties of a federation file are those of a model: their coefficients are with them."""
    if fitted.by_rows or fitted.label != federation.label:
        what = f"scores go to {fitted.label!r}, who held the labels of a model over different columns"
        raise InvalidInput(f"{what}; the federation file names {federation.label!r}.")
    if lost := [name for name in fitted.absent if name in federation.parties]:
        what = f"{lost[0]!r} was lost to the run of this model, which has none of its columns"
        raise InvalidInput(f"{what}. Write a federation file of those that take part.")
    missing = [name for name in fitted.features if name not in federation.parties]
    if set(missing) != set(without):
        absent, named = (", ".join(names) or "none" for names in (missing, without))
        what = f"parties of the model that are not in the federation file: {absent}; without= names {named}"
        raise InvalidInput(f"{what}. Write a file of those that take part, and name the others in without=.")
    for name, features in fitted.features.items():
        bent = federation.with_curve_depth(fitted.depth).parties
        columns = bent[name].block.columns if name in bent else len(features)
        if columns != len(features):
            fewer = f"party {name!r} brings {columns:,} columns"
            raise InvalidInput(f"{fewer}; the model was fitted on {len(features):,}.")
