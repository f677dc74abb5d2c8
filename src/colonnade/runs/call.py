"""Checking a call before anything is written or sent: what would run, on which rows, and what it would release.

`checked_call` makes every check that needs no store; `co.fit` makes them before a run, a dry run instead of one. What
follows from public figures is checked by the gatekeeper of all calls, methods/gatekeeper.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from colonnade.data.federation import Federation
from colonnade.data.labels import read_classes
from colonnade.data.notices import about_columns, about_labels, about_levels, count_labels
from colonnade.data.row_order import key_kind
from colonnade.data.schema.table import Source
from colonnade.errors import InvalidInput
from colonnade.methods.admm.sharing import SharingADMM
from colonnade.methods.frank_wolfe.distributed import DistributedFrankWolfe
from colonnade.methods.gatekeeper import check_call, check_kinds
from colonnade.methods.gram.plan import Cross
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.method import GraphMethod, Method
from colonnade.methods.node_setup import code_digest, protocol_of, to_plain, usable_labels
from colonnade.model.job import Job
from colonnade.privacy.block import Block
from colonnade.privacy.events import Plan, Policy, kind_of, shown
from colonnade.privacy.ledger import Terms
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.statement import Privacy, Trust, with_trust
from colonnade.problem import AdaBoost, GroupL1Ball, KernelSVM, L1Ball, Problem, Simplex
from colonnade.runtime.run_store import RunStore, Store


@dataclass(frozen=True, eq=False)
class CheckedCall:
    """A call that no check of public figures refuses: what would run, on what, and what it would release."""

    asked: Method | GraphMethod
    method: Method | GraphMethod
    job: Job
    blocks: Mapping[str, Block]
    plans: Mapping[str, Plan]
    federation: Federation  # with the curves that the method chose for columns that leave it to it


def checked_call(
    federation: Federation,
    problem: Problem | KernelSVM | AdaBoost,
    method: Method | GraphMethod | None,
    privacy: Privacy | None,
    noise: SeededNoise | None = None,
) -> CheckedCall:
    """Every check of a call that needs no store."""
    asked = method if method is not None else default_method(privacy, problem)
    _check_kinds(federation, problem, asked)
    method = asked.variant(problem, privacy)
    privacy = with_trust(privacy, method.trusts)
    check_kinds(federation, problem, method)
    federation = _with_names(federation, problem, privacy)
    privacy = with_label_range(privacy, federation, cast(Problem, problem), method)
    federation, job, plans = check_call(federation, problem, method, privacy, seeded=noise is not None)
    blocks = blocks_with_labels(federation, job)
    if _takes_secret_order(federation, method, privacy):
        # Of a sort that has an order; refused before anything is written.
        key_kind(cast(Any, federation.keys))
    return CheckedCall(asked, method, job, blocks, plans, federation)


def _with_names(federation: Federation, problem: object, privacy: Privacy | None) -> Federation:
    """Classes that have names: those that were declared, or what the labels call themselves."""
    classifies = getattr(getattr(problem, "loss", None), "classifies", False)
    if not classifies or federation.away is not None or federation.classes is not None or not federation.labelled:
        return federation
    classes = read_classes(federation.targets, private=privacy is not None)
    return federation if classes is None else federation.with_names(classes)


def ordered_call(call: CheckedCall, store: Store, *, kept: bool = True) -> CheckedCall:
    """The call with its rows in the order of the store's secret, where a run is private and has keys."""
    federation = call.federation
    if not (isinstance(store, RunStore) and _takes_secret_order(federation, call.method, call.job.privacy)):
        return call
    return replace(call, blocks=blocks_with_labels(federation.ordered(store.order_secret(kept=kept)), call.job))


def default_method(privacy: Privacy | None, problem: object) -> Method | GraphMethod:
    if privacy is None:
        whole = not isinstance(problem, Problem) or isinstance(problem.constraint, L1Ball | Simplex | GroupL1Ball)
        return DistributedFrankWolfe() if whole else SharingADMM()
    return PrivateGram(cross=Cross.NONE if privacy.trust == Trust.NOBODY else Cross.SECURE)


def _check_kinds(federation: object, problem: object, method: object) -> None:
    if not isinstance(federation, Federation):
        kind = type(federation).__name__
        raise InvalidInput(f"fit wants a Federation first, got {kind}; make one with Federation.split or from_frames.")
    if not isinstance(problem, Problem | KernelSVM | AdaBoost):
        example = "co.Problem(co.Logistic(), co.L1Ball(10.0))"
        raise InvalidInput(f"fit wants a Problem second, got {type(problem).__name__}; give one such as {example}.")
    if not isinstance(method, Method | GraphMethod):
        raise InvalidInput(f"method={method!r} is not a method: give a value such as co.DistributedFrankWolfe().")


def with_label_range(
    privacy: Privacy | None, federation: Federation, problem: Problem, method: Method | GraphMethod
) -> Privacy | None:
    """The terms with the range of labels that the label holder's schema declares, unless they name one themselves."""
    if privacy is None or method.labels_public or federation.label not in federation.parties:
        # Without labels the job is refused further on, with advice.
        return privacy
    schema = federation.parties[federation.label].schema
    declared = schema.label if schema is not None and schema.source != Source.DATA else None
    loss = getattr(problem, "loss", None)
    if loss is None or loss.classifies:
        if privacy.label_range is not None:
            what = f"label_range={privacy.label_range} is for numbers, and {type(loss).__name__} is for classes"
            raise InvalidInput(f"{what}: leave it out, or take co.LeastSquares().")
        return privacy
    if declared is None or privacy.label_reach is not None:
        return privacy
    if federation.label_column not in (None, declared.name):
        labels = f"the label {declared.name!r}, and the labels are its column {federation.label_column!r}"
        remedy = "Declare that one, or give privacy=co.Privacy(..., label_range=(low, high))."
        raise InvalidInput(f"the schema of {federation.label!r} declares {labels}. {remedy}")
    return replace(privacy, label_range=(declared.low, declared.high))


def check_store(call: CheckedCall, federation: Federation, privacy: Privacy | None, store: str | Path | None) -> None:
    """Whether a run needs a folder, or cannot be kept in one."""
    problem = call.job.problem
    method = call.method
    if store is not None and not method.savable:
        what = "these functions cannot be told from others after a restart, so a run in store= could not go on"
        raise InvalidInput(f"{what}: give functions_version='a name', changed whenever they change, or no store.")
    if store is not None and not getattr(problem, "savable", True):
        raise InvalidInput("a kernel function of yours cannot be kept in store=: use co.RBF, or leave store out.")
    if store is not None:
        # The store keeps the fit in a file: refused now, not when it is paid for.
        to_plain(problem)
        for party in federation.parties.values():
            if party.schema is not None:
                party.schema.check_readable()
        return
    if privacy is not None:
        raise InvalidInput("a run with a privacy budget needs store='a folder', where its ledgers outlive the process.")
    if limited := [name for name, party in federation.parties.items() if party.policy.epsilon is not None]:
        what = f"the policy of {limited[0]!r} limits what all runs may spend, so what this one spends must be kept"
        raise InvalidInput(f"{what}: give store='a folder', and a private method, as exact values exceed any limit.")


def _takes_secret_order(federation: Federation, method: Method | GraphMethod, privacy: Privacy | None) -> bool:
    """Whether a run takes its rows in the order of the store's secret: a private one of rows that have keys. Public
    labels name rows by their place, so their order is public, too."""
    return privacy is not None and federation.keys is not None and not method.labels_public


def blocks_with_labels(federation: Federation, job: Job) -> dict[str, Block]:
    """The parties' blocks; the label holder's with the labels as the loss wants them."""
    if federation.away is not None:
        return {name: party.block for name, party in federation.parties.items()}
    labels = usable_labels(federation.targets, job, federation.beside.values)
    blocks = {name: party.block for name, party in federation.parties.items()}
    if federation.by_rows:
        return {name: replace(block, labels=labels[federation.places[name]]) for name, block in blocks.items()}
    return {**blocks, federation.label: replace(blocks[federation.label], labels=labels)}


# ------------------------------------------------------------------------------------------------ what all know of it


HERE = "All tables were in one process, whose owner began the run. Policies were checked before the first message."
AWAY = (
    "At each party its operator, or the limits that it wrote down, approved these terms, and its own ledger reserved "
    "the price, before the first message."
)


def with_looks(federation: Federation, plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """What a run releases, behind what looks at its columns have."""
    return {party: (*federation.looks.get(party, ()), *plan) for party, plan in plans.items()}


def facts_of_run(
    federation: Federation, job: Job, terms: Terms, plans: Mapping[str, Plan], absent: Mapping[str, str]
) -> dict[str, Any]:
    """What a fit keeps about its run for a report, as `model.facts.RunFacts` reads it: what everybody knew before
    the first message, the plan included. How many rows each party brought is covered by no price, so a private run does
    not keep it."""
    private = job.privacy is not None
    away = federation.away
    held: Mapping[str, Any] = federation.parties if away is None else away.members
    return {
        "rows": job.roster.rows,
        **({"depth": job.roster.depth} if job.roster.depth else {}),
        **({} if federation.classes is None else {"classes": list(federation.classes)}),
        "brought": dict(federation.alignment.rows) if away is None and not private else {},
        "policies": {name: policy_words(one.policy, private) for name, one in held.items()},
        **({"absent": dict(absent)} if absent else {}),
        "settings": terms.settings,
        "protocol": terms.protocol,
        "code": code_digest(),
        "asked": federation.label_column or "",
        "left": [
            [party, kind_of(charge.event), charge.what, charge.count]
            for party, plan in with_looks(federation, plans).items()
            for charge in plan
            if charge.count
        ],
        "approved": HERE if away is None else AWAY,
        **({} if away is None else {"federation": away.digest, "keys": {n: m.key for n, m in away.members.items()}}),
    }


def policy_words(policy: Policy, private: bool) -> str:
    """A party's policy in words. That exact values might leave in another run is nothing to say of a private one."""
    parts = ["exact values may leave"] if policy.exact and not private else []
    parts += ["noisy values only"] if not policy.exact else []
    if policy.epsilon is not None:
        parts.append(f"epsilon at most {shown(policy.epsilon)} (delta {policy.delta:g})")
    parts += ["exact values inside the consortium"] * policy.consortium + ["its part of scores"] * policy.scores
    parts += [] if policy.quorum is None else [f"goes on with {policy.quorum} parties when others are lost"]
    return ", ".join(parts) or "no limit of its own"


def call_fingerprint(call: CheckedCall, noise: SeededNoise | None = None) -> str:
    """What makes two calls the same call, so that the second goes on with the run of the first."""
    return run_fingerprint(call.federation, call.job, call.method, call.blocks, noise)


def run_fingerprint(
    federation: Federation, job: Job, method: Any, blocks: Mapping[str, Block], noise: SeededNoise | None
) -> str:
    """What makes two calls the same call: method, problem, terms, who holds what, the data, the code."""
    data = [(name, block.digest()) for name, block in blocks.items()]
    data += [] if federation.away is None else [(federation.session, federation.away.digest)]
    policies = [(name, repr(party.policy)) for name, party in federation.parties.items()]
    roster = job.roster
    asked = (method, job.problem, job.privacy, noise, roster.label, roster.unit, roster.known, *roster.beside)
    parts = (*asked, data, policies, protocol_of(method))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def notices(federation: Federation, job: Job, blocks: Mapping[str, Block]) -> tuple[list[str], list[str]]:
    """What a private run in this process would pay for nothing, for the caller, who holds all tables; and for
    information, since a table may be in order, declared levels that no row has."""
    nothing = list[str]()
    unused = list[str]()
    if job.privacy is None or federation.away is not None:
        return nothing, unused
    if job.privacy.looked is not None:  # figures that a look has found fit as they may: nothing was declared wrongly
        return nothing, unused
    for name, block in blocks.items():
        schema = federation.parties[name].schema
        nothing += [f"party {name!r}: {what}" for what in about_columns(schema, block)]
        unused += [f"party {name!r}: {what}" for what in about_levels(schema, block)]
    about = about_labels(count_labels(federation.targets), job)
    return nothing + [f"party {federation.label!r}: {what}" for what in about], unused
