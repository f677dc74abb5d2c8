"""The checks of a call before anything is written or sent: what would run, on which rows, and what it would release.

One gatekeeper for all who ask: `co.fit` in one process, a hub before it proposes a run, every party that hears of one,
and previews, rehearsals and dry runs of each, which are the same question asked earlier. All follows from public
figures, so whether a call is refused tells nothing about a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from colonnade.data.federation import Federation
from colonnade.data.schema.table import Source
from colonnade.errors import InvalidInput, PolicyRefused
from colonnade.methods.method import GraphMethod, MethodBase, check_declared, network
from colonnade.methods.node_setup import AnyMethod
from colonnade.model.job import Job
from colonnade.privacy.accountant import affords, epsilon, less_taken
from colonnade.privacy.block import FeatureColumn
from colonnade.privacy.events import MASKED, Audience, Plan, row_delta, row_rho, shown, unprotected
from colonnade.privacy.statement import Privacy, check_delta
from colonnade.problem import GroupLasso, Problem


class NotCovered(InvalidInput):
    """What would leave is not covered by the price that the terms allow."""


class Passed(NamedTuple):
    """A call that was let through."""

    federation: Federation  # with the curves that the method chose for columns that leave it to it
    job: Job
    plans: Mapping[str, Plan]


def check_call(
    federation: Federation,
    problem: Any,
    method: AnyMethod,
    privacy: Privacy | None,
    *,
    seeded: bool = False,
) -> Passed:
    """Let a call through, or refuse it with advice; `method` is the variant that would run."""
    check_kinds(federation, problem, method)
    federation, job = job_over(federation, problem, privacy, method)
    if isinstance(federation.unit, FeatureColumn) and not method.PROTECTS_COLUMNS:
        raise InvalidInput(f"{method.TITLE} protects rows or people, and this federation's unit is one feature column.")
    method.check(job)
    if isinstance(method, GraphMethod):
        network(method.topology, job.roster)
    plans = method.price(job)
    _check_price(method, plans, job)
    _check_schemas(federation, privacy)
    if seeded:
        _check_seeded(federation)
        plans = {party: unprotected(plan) for party, plan in plans.items()}
    return Passed(federation, job, plans)


def job_over(
    federation: Federation, problem: Problem, privacy: Privacy | None, method: MethodBase
) -> tuple[Federation, Job]:
    """The job of a method, and the rows that it is about: with its curves where schemas leave them to it, and groups.

    From public figures alone, and the same wherever it is worked out.
    """
    named = [
        column.name
        for party in federation.parties.values()
        for column in (party.schema.columns if party.schema is not None else ())
        if column.monotone is not None
    ]
    if named and not method.KEEPS_MONOTONE:
        what = f"the schema says monotone of column {named[0]!r}, and {method.TITLE} does not keep to that"
        raise InvalidInput(f"{what}: take co.PrivateGram(), or leave monotone out. Nothing was sent.")
    asked = Job(problem, federation.roster(), privacy)
    method.check_rows(asked)
    federation = federation.with_curve_depth(method.depth(asked))
    penalty = getattr(problem, "penalty", None)
    if isinstance(penalty, GroupLasso) and penalty.groups is None:
        problem = replace(problem, penalty=replace(penalty, groups=federation.column_groups()))
    return federation, Job(problem, federation.roster(), privacy)


def check_kinds(federation: Federation, problem: Any, method: AnyMethod) -> None:
    """Whether a method solves such a problem, over what these parties hold."""
    check_declared(type(method))
    if not isinstance(problem, method.SOLVES):
        kind = type(problem).__name__
        raise InvalidInput(f"{method.TITLE} does not solve a {kind}: use co.DistributedFrankWolfe(), which does.")
    if federation.roster().responses and not method.SEVERAL_RESPONSES:
        raise InvalidInput(f"{method.TITLE} takes one label a row; with several, use co.GraphADMM, or fit each alone.")
    if federation.away is not None and federation.on is not None and method.labels_public:
        what = "public labels go by a row's place, and only the parties know the order of rows matched by keys"
        raise InvalidInput(f"{what}: let a party hold the labels, or match rows in one process with from_frames.")
    split = "rows" if federation.by_rows else "columns"
    if split not in (splits := method.SPLITS):
        what = f"{method.TITLE} works on split {' or '.join(splits)}, and these parties hold different {split}"
        raise InvalidInput(f"{what}: take Federation.split(..., by={splits[0]!r}), or another method.")


def released_to_all(plans: Mapping[str, Plan]) -> str:
    """What leaves for everybody to see, in words."""
    charges = [charge for plan in plans.values() for charge in plan]
    inside = any(charge.event.audience is Audience.CONSORTIUM for charge in charges)  # masks go between members then
    seen = [c for c in charges if c.event.audience is Audience.ALL and not (inside and c.event == MASKED)]
    return "; ".join(dict.fromkeys(charge.what for charge in seen))


def _check_price(method: AnyMethod, plans: Mapping[str, Plan], job: Job) -> None:
    privacy = job.privacy
    if privacy is None:
        return
    spent, lost = privacy.looked or (0.0, 0.0)  # of the same budget, before
    price = row_rho(plans) + spent
    if math.isinf(price):
        what = f"{method.TITLE} releases exact values ({released_to_all(plans)}), so no finite epsilon can hold"
        raise NotCovered(f"{what}. Leave privacy out, or choose a private method.")
    taken = row_delta(plans) + lost
    if taken and taken >= privacy.delta:
        what = f"releases of {method.TITLE} would take {shown(taken)} of a delta for themselves"
        raise NotCovered(
            f"{what}, and privacy= has delta={privacy.delta:g} in all. Nothing was sent. Ask for a larger delta."
        )
    if not affords(privacy.epsilon, privacy.delta, price, taken):
        cost = shown(epsilon(price, less_taken(privacy.delta, taken)))
        limit = f"{shown(privacy.epsilon)} (delta={privacy.delta:g})"
        what = f"{method.TITLE} would cost epsilon {cost}, and privacy= allows {limit}"
        raise NotCovered(f"{what}. Nothing was sent. Lower rounds or raise epsilon.")
    check_delta(privacy, *job.units)


def _check_schemas(federation: Federation, privacy: Privacy | None) -> None:
    schemas = {name: party.schema for name, party in federation.parties.items() if party.schema}
    read_off = [name for name, schema in schemas.items() if schema.source == Source.DATA]
    if privacy is not None and read_off:
        what = (
            f"the schema of {read_off[0]!r} was read off its data: its bounds and levels would tell about single rows"
        )
        remedy = "from_frames(..., schemas={party: co.Schema(...)}), or pass a plain matrix and public bounds"
        raise NotCovered(f"{what}. Declare it: {remedy}.")


def _check_seeded(federation: Federation) -> None:
    strict = [name for name, party in federation.parties.items() if not party.policy.exact]
    if strict:
        what = f"seeded noise protects nobody, and party {strict[0]!r} does not let exact values leave"
        remedy = "Leave noise= out; for a test or a figure, set Policy(exact=True) on data that may be shown."
        raise PolicyRefused(f"{what}. Nothing was sent. {remedy}")
