"""A look as a run: what `co.fit` does first where columns have no declared figures, and what one buys for many runs.

It is a run of its own, priced and kept like any other. A store keeps what it released, and the same look at the same
rows takes that again: nothing is drawn or paid twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from colonnade import notebook
from colonnade.data.federation import Federation
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.methods.gatekeeper import Passed, check_call, released_to_all
from colonnade.methods.look import ColumnLook, Counts, Look, LookPlan, PartyLook, found_by
from colonnade.methods.node_setup import Call, conditions_of
from colonnade.model.job import Job
from colonnade.privacy.events import Plan, row_delta, row_rho
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import (
    SEEDED,
    Privacy,
    PrivacyStatement,
    derived_statement,
    not_private,
    with_trust,
)
from colonnade.problem import LeastSquares, Problem
from colonnade.runs.call import CheckedCall, check_store, checked_call, run_fingerprint
from colonnade.runs.fit import RunDriver, meet_parties
from colonnade.runs.preview import check_ledgers
from colonnade.runs.release_file import DAMAGED, read_sealed, write_sealed
from colonnade.runtime.host import Distributed
from colonnade.runtime.hosted_node import Engine, InProcess
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import MemoryStore, RunStore, Store

KIND = "colonnade look"
FORMAT = 1
NO_MODEL = Problem(LeastSquares())  # a look learns none


@dataclass(frozen=True, eq=False)
class Looked:
    """What a look has found: a federation whose columns have figures, and what that cost.

    Parameters
    ----------
    federation
        The same rows, encoded with the figures that were found. `co.fit` takes it as it takes any other.
    privacy
        The terms that were given, less what the look has taken of them: for a run that is to cost no more in all.
    parties
        By party, what was found there: its schema, the noisy counts of each column, and what was too faint to see.
    statement
        What the look alone may claim.
    run
        Its id.
    """

    federation: Federation
    privacy: Privacy
    parties: Mapping[str, PartyLook]
    statement: PrivacyStatement
    run: str

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """By party, its schema with figures: what another federation of the same columns may declare."""
        return {name: one.schema for name, one in self.parties.items()}

    @property
    def left_out(self) -> Mapping[str, tuple[str, ...]]:
        """By party, the columns that were too faint to see: they take no part."""
        return {name: one.left_out for name, one in self.parties.items() if one.left_out}

    @cached_property
    def columns(self) -> Mapping[str, tuple[ColumnLook, ...]]:
        """By party, the noisy counts of each column."""
        return {name: one.columns for name, one in self.parties.items()}

    def __repr__(self) -> str:
        count = sum(len(one.columns) for one in self.parties.values())
        left = sum(map(len, self.left_out.values()))
        faint = f", {left:,} of them too faint to see" if left else ""
        price = self.statement.summary.splitlines()[0]
        return f"Looked({count:,} columns at {len(self.parties):,} parties{faint}; {price})"

    def _repr_html_(self) -> str:
        rows = [
            (party, column.name, *(column.words() if column is not None else ("too faint to see", "left out")))
            for party, found in self.parties.items()
            for column in found.schema.columns
        ]
        rows += [
            (party, name, "too faint to see", "left out") for party, names in self.left_out.items() for name in names
        ]
        facts = {"price": self.statement.summary.splitlines()[0], "run": self.run}
        return notebook.shown("Look", facts, [notebook.Grid("", ("party", "column", "kind", "figures"), rows, 0)])


def look(
    federation: Federation,
    privacy: Privacy,
    *,
    engine: Engine | Distributed | None = None,
    store: str | Path | None = None,
) -> Looked:
    """Look, at a price, at the columns whose bounds or levels nobody declared: once, for many runs.

    Every party releases noisy counts of its own columns; bounds, quantiles and levels follow from these. `co.fit` does
    the same by itself where columns have no figures.

    Parameters
    ----------
    federation
        Who holds what; columns such as co.Numeric("income"), co.Categorical("job") or co.Unknown("x") are looked at.
    privacy
        The terms of the run that follows; the look takes `privacy.look` of them.
    engine
        Where the programs run; None: in this process.
    store
        A folder for ledgers and transcripts, as in `co.fit`, which a look needs. What was found is kept there, and
        taken again by the same call.

    Returns
    -------
    Looked
        The federation with figures, terms for what is left of the budget, and the counts.

    Raises
    ------
    InvalidInput
        There is nothing to look at, or there are too few rows to see anything; nothing was sent.
    BudgetExhausted
        A party's ledger has less left than the look would cost; nothing was sent.

    Examples
    --------
    >>> import tempfile
    >>> import colonnade as co
    >>> import numpy as np
    >>> import polars as pl
    >>> frame = pl.DataFrame({"id": range(20_000), "x": np.linspace(0.0, 90.0, 20_000), "y": [0.0, 1.0] * 10_000})
    >>> schema = co.Schema((co.Numeric("x"),))
    >>> fed = co.Federation.from_frames({"a": frame}, on="id", label=("a", "y"), schemas={"a": schema})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = co.look(fed, co.Privacy(epsilon=1.0, delta=1e-6), store=folder)
    >>> 85.0 < found.federation.parties["a"].schema.columns[0].high < 91.0
    True
    """
    if not isinstance(federation, Federation) or not isinstance(privacy, Privacy):
        raise InvalidInput("look wants a Federation and terms: co.look(federation, co.Privacy(epsilon, delta)).")
    if federation.away is not None:
        federation = meet_parties(federation, engine, store)
    if store is None:
        _checked(federation, privacy, None)
        raise InvalidInput("a look spends a budget and needs store='a folder', where its ledgers outlive the process.")
    run_store = RunStore(store)
    try:
        return look_in(run_store, federation, privacy, engine)
    finally:
        run_store.close()


def looked_for(
    federation: Federation,
    problem: Any,
    method: Any,
    privacy: Privacy | None,
    engine: Engine | Distributed | None,
    store: str | Path | None,
    noise: SeededNoise | None,
) -> tuple[Federation, Privacy | None]:
    """The figures that a call lacks, and the terms that are left: looked for under privacy, read off the rows without.

    What can be refused before the look, is: a look that no run follows would be paid for nothing.
    """
    if privacy is None:
        return federation.read_off(), None
    federation = without_need(federation, problem, privacy)
    if federation.declared:
        return federation, privacy
    call = stand_in_call(federation, problem, method, privacy, noise)
    check_store(call, federation, privacy, store)
    check_ledgers(call, call.federation, store)
    run_store: Store = MemoryStore() if store is None else RunStore(store)
    try:
        found = look_in(run_store, federation, privacy, engine, noise)
    finally:
        run_store.close()
    return found.federation, found.privacy


def stand_in_call(
    federation: Federation, problem: Any, method: Any, privacy: Privacy, noise: SeededNoise | None = None
) -> CheckedCall:
    """A look and the run that follows as one call, as far as public figures say: with figures that nobody has found."""
    _, job, plans = _checked(federation, privacy, noise)
    terms = _less_look(privacy, job)
    if any(one.label for own in job.roster.sought.values() for one in own):
        terms = replace(terms, label_range=(-1.0, 1.0))
    call = checked_call(federation.stand_in(), problem, method, terms, noise)
    return replace(call, plans={name: (*plans.get(name, ()), *plan) for name, plan in call.plans.items()})


def without_need(federation: Federation, problem: Any, privacy: Privacy) -> Federation:
    """The same where a range of labels need not be looked for: it is known, or they are classes."""
    known = privacy.label_reach is not None or getattr(getattr(problem, "loss", None), "classifies", True)
    return federation.without_label_range() if known else federation


def _checked(federation: Federation, privacy: Privacy, noise: SeededNoise | None) -> Passed:
    _check_label(federation)
    schemas = {name: party.schema for name, party in federation.parties.items() if party.schema is not None}
    method = Look(schemas)
    return check_call(federation, NO_MODEL, method, with_trust(privacy, method.trusts), seeded=noise is not None)


def _taken(job: Job) -> tuple[float, float]:
    """rho and delta of a look; of one with seeded noise, what it would have cost."""
    plans = Look().price(job)
    return row_rho(plans), row_delta(plans)


def _check_label(federation: Federation) -> None:
    """Refuse a range of labels that is looked for where they are not: a look would be paid before that is seen."""
    for name, party in federation.parties.items():
        label = None if party.schema is None else party.schema.label
        if label is None or label.declared:
            continue
        if name != federation.label or federation.label_column not in (None, label.name):
            there = f"column {federation.label_column!r} of {federation.label!r}"
            raise InvalidInput(
                f"the schema of {name!r} wants the range of labels {label.name!r} looked for, and labels are {there}. "
                "Name those, or leave label= out of the schema. Nothing was sent."
            )


def _numbers(federation: Federation) -> Floats:
    """The labels, whose range is looked for."""
    if federation.targets.dtype.kind not in "biuf":
        what = f"the labels are {federation.targets.dtype}, and a look for their range takes numbers"
        raise InvalidInput(f"{what}: convert them, or leave label= out of the schema. Nothing was sent.")
    return np.asarray(federation.targets, np.float64)


def _less_look(privacy: Privacy, job: Job) -> Privacy:
    """The terms less what a look takes, beside what earlier looks took."""
    before = privacy.looked or (0.0, 0.0)
    rho, delta = _taken(job)
    return replace(privacy, looked=(before[0] + rho, before[1] + delta))


def look_in(
    store: Store,
    federation: Federation,
    privacy: Privacy,
    engine: Engine | Distributed | None = None,
    noise: SeededNoise | None = None,
) -> Looked:
    """`look` with an open store."""
    federation, job, plans = _checked(federation, privacy, noise)
    method = Look({name: party.schema for name, party in federation.parties.items() if party.schema is not None})
    if isinstance(store, RunStore) and federation.keys is not None:
        federation = federation.ordered(store.order_secret())
    blocks = {name: party.block for name, party in federation.parties.items()}
    holder = federation.label
    if any(one.label for one in job.roster.sought.get(holder, ())):
        blocks[holder] = replace(blocks[holder], labels=_numbers(federation))
    fingerprint = run_fingerprint(federation, job, method, blocks, noise)
    if (kept := _kept(store, fingerprint, LookPlan(job), method)) is not None:
        return _looked(federation, job, plans, method, privacy, noise, *kept)
    with store.run(fingerprint) as run:
        call = Call(method, NO_MODEL, job.privacy, noise)
        one = RunDriver(run, federation, job, method, plans, blocks, store, None, noise, call)
        with one.hosted(engine or InProcess()):
            found = one.run_programs().results[COORDINATOR]
            if (path := store.look_path(run)) is not None:
                write_sealed(path, KIND, FORMAT, json.dumps({name: one.to_plain() for name, one in found.items()}))
            one.finish()
    return _looked(federation, job, plans, method, privacy, noise, run, found)


def _looked(
    federation: Federation,
    job: Job,
    plans: Mapping[str, Plan],
    method: Look,
    asked: Privacy,
    noise: SeededNoise | None,
    run: str,
    counts: Mapping[str, Counts],
) -> Looked:
    plan = LookPlan(job)
    found = {name: found_by(plan, name, method.schemas[name], one) for name, one in counts.items()}
    there = federation.looked({name: one.schema for name, one in found.items()})
    if not any(party.block.columns for party in there.parties.values()):
        raise InvalidInput(
            "the look saw none of the columns: all were too faint, and there is no other to learn from. It is paid, "
            "and another will see no more. Declare bounds and levels, or leave out what names single rows."
        )
    statement = _statement(federation, job, plans, method, noise)
    released = {party: (*federation.looks.get(party, ()), *own) for party, own in Look().price(job).items()}
    there = replace(there, looks=released)
    return Looked(there, _less_look(asked, job), found, statement, run)


def _statement(
    federation: Federation, job: Job, plans: Mapping[str, Plan], method: Look, noise: SeededNoise | None
) -> PrivacyStatement:
    """What a look alone may claim."""
    assert job.privacy is not None
    assert method.DERIVATION is not None
    unit = job.roster.unit
    sees = released_to_all(plans)
    if noise is not None:
        return not_private(SEEDED, unit, sees)
    rho, taken = _taken(job)
    conditions = conditions_of(job, method, keyed=federation.on is not None)
    return derived_statement(job.privacy, rho, unit, sees, method.DERIVATION, conditions, taken)


# ------------------------------------------------------------------------------------------------ what a store keeps


def _kept(store: Store, fingerprint: str, plan: LookPlan, method: Look) -> tuple[str, dict[str, Counts]] | None:
    """The same look of before, if it was finished: its run, and what the parties released."""
    for run in store.finished(fingerprint):
        path = store.look_path(run)
        if path is None or not path.exists():
            continue
        _, body = read_sealed(path, {KIND: FORMAT}, "a look", "Remove it; the same call then looks again, at a price.")
        try:
            raw = json.loads(body)
            counts = {name: Counts.from_plain(raw[name]) for name in plan.job.roster.parties}
            for name, one in counts.items():
                found_by(plan, name, method.schemas[name], one)
        except (*DAMAGED, ProtocolError) as error:
            raise InvalidInput(f"{path} is not a whole look. Remove it; the same call then looks again.") from error
        return run, counts
    return None
