"""From what a run's programs returned to the Fit, with the statement of what it may claim."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.methods.method import Answer, GraphMethod, Own
from colonnade.methods.node_setup import assumptions, place_of, terms_of
from colonnade.privacy import statement as stating
from colonnade.privacy.events import Policy, row_rho, shown
from colonnade.privacy.statement import BY_SECRET, Guarantee, PrivacyStatement, not_private, remarks_on
from colonnade.problem.kernel import Support
from colonnade.runs.call import released_to_all
from colonnade.runs.driver import RunDriver
from colonnade.runs.result import Fit
from colonnade.runtime.inprocess import Outcome
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.traffic import Communication
from colonnade.views.fit_facts import CoefficientPath, Coefficients


def assemble_fit(run: RunDriver, outcome: Outcome) -> Fit:
    """The Fit of a run whose programs have all returned."""
    answer = _answer_of(run, outcome.results)
    parties, job = run.federation.parties, run.job
    holders = [name for name, party in parties.items() if party.block.columns]
    own = _own_coefficients(outcome.results, answer, holders)
    stumps = {name: part for name in own if (part := getattr(outcome.results[name], "model", None)) is not None}
    by_example = isinstance(answer.model, Support)
    return Fit(
        coefficients=Coefficients(own, [name for name in holders if name not in own]),
        intercept=answer.intercept + _label_middle(run),
        objective=answer.objective,
        gap=answer.gap,
        status=answer.status,
        privacy=replace(_statement(run), replaced=stating.describe_replaced(run.replaced)),
        communication=Communication.of(outcome.traffic).along(run.notes, answer.gap),
        problem=job.problem,
        method=run.method.TITLE,
        run=run.run,
        seconds=None if job.privacy else time.perf_counter() - run.began,
        label=run.federation.label,
        notes=tuple(run.notes),
        features={
            name: run.federation.example_names(name) if by_example else parties[name].features for name in holders
        },
        schemas={name: parties[name].schema for name in holders},
        on=run.federation.on,
        errors=answer.errors,
        path=None if answer.path is None else CoefficientPath(*answer.path),
        link=answer.link,
        remarks=(*answer.remarks, *_remark_on_middle(run), *remarks_on(job.privacy)),
        facts=_facts(run),
        by_rows=job.roster.by_rows,
        model=answer.model if answer.model is not None else stumps or None,
    )


def _answer_of(run: RunDriver, results: Mapping[str, Any]) -> Answer:
    if not isinstance(run.method, GraphMethod):
        answer: Answer = results[COORDINATOR]
        return answer
    own: Own | Answer = results[run.job.roster.label]
    if isinstance(own, Answer):  # of agents elsewhere, who keep what they know
        return own
    assert own.answer is not None, f"{type(run.method).__name__}.peer must return Own(..., answer=Answer(...))"
    return own.answer


def _own_coefficients(results: Mapping[str, Any], answer: Answer, holders: list[str]) -> dict[str, Any]:
    """By party, where they are known here: what it returned itself, else what the answer says of it."""
    returned = {name: results[name].coefficients for name in holders if isinstance(results[name], Own)}
    rest = [name for name in holders if name not in returned and name in answer.coefficients]
    own = returned | {name: answer.coefficients[name] for name in rest}
    return {name: np.array(x) for name, x in own.items()}


def _label_middle(run: RunDriver) -> float:
    """What private labels were measured from."""
    privacy = run.job.privacy
    return 0.0 if privacy is None or run.job.problem.loss.classifies else privacy.label_middle


def _remark_on_middle(run: RunDriver) -> tuple[str, ...]:
    middle = _label_middle(run)
    if not middle or run.job.problem.intercept:
        return ()
    return (f"labels were measured from the middle of their declared range, {middle:g}: that is the intercept",)


def _facts(run: RunDriver) -> dict[str, Any]:
    """What everybody knew before the first message. How many rows each party brought is covered by no price."""
    terms = terms_of(run.job, run.method)
    here = run.federation.away is None
    parties = run.federation.parties if here else {}
    return {
        "rows": run.job.roster.rows,
        "brought": dict(run.federation.alignment.rows) if here and run.job.privacy is None else {},
        "policies": {name: _policy_words(party.policy) for name, party in parties.items()},
        "settings": terms.settings,
        "fingerprint": terms.fingerprint,
    }


def _statement(run: RunDriver) -> PrivacyStatement:
    """What the result may claim."""
    unit, seen = run.job.roster.unit, released_to_all(run.plans)
    if run.job.privacy is None or run.method.DERIVATION is None:
        return not_private("exact values left the parties, so no bound on epsilon holds", unit, seen)
    if run.noise is not None:
        return not_private("the noise was seeded, so whoever knows the seed can subtract it", unit, seen)
    assumed = assumptions(run.job)
    caveat = stating.large_delta(run.job.privacy, *run.job.units)
    terms = (run.job.privacy, row_rho(run.plans), unit, seen, run.method.DERIVATION, assumed, caveat)
    place = place_of(run.job, run.method, keyed=run.federation.on is not None)
    derived = replace(stating.derived_statement(*terms), place=place)
    if place != BY_SECRET:
        return derived
    # Of its two promises the one against outsiders rests on a hash that nobody tells from a random one.
    return replace(derived, guarantee=Guarantee.CONDITIONAL, computational=True)


def _policy_words(policy: Policy) -> str:
    """A party's policy in words."""
    parts = ["exact values may leave" if policy.exact else "noisy values only"]
    if policy.epsilon is not None:
        parts.append(f"epsilon at most {shown(policy.epsilon)} (delta {policy.delta:g})")
    parts += ["exact values inside the consortium"] * policy.consortium + ["its part of scores"] * policy.scores
    return ", ".join(parts)
