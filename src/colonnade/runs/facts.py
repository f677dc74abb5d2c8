"""What a fit keeps about its run for a report: what everybody knew before the first message, the plan included.

Leaves   nothing new: terms, plans and the federation file are public among the parties. How many rows each party
         brought is covered by no price, so a private run does not keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.data.federation import Federation
from colonnade.methods.method import Job
from colonnade.privacy.events import Plan, Policy, kind_of, shown
from colonnade.privacy.ledger import Terms

HERE = "All tables were in one process, whose owner began the run. Policies were checked before the first message."
AWAY = (
    "At each party its operator, or the limits that it wrote down, approved these terms, and its own ledger reserved "
    "the price, before the first message."
)


def facts_of_run(
    federation: Federation, job: Job, terms: Terms, plans: Mapping[str, Plan], absent: Mapping[str, str]
) -> dict[str, Any]:
    """The facts by name, as `views.fit_facts.RunFacts` reads them."""
    private, away = job.privacy is not None, federation.away
    held: Mapping[str, Any] = federation.parties if away is None else away.members
    return {
        "rows": job.roster.rows,
        **({"depth": job.roster.depth} if job.roster.depth else {}),
        **({} if federation.classes is None else {"classes": list(federation.classes)}),
        "brought": dict(federation.alignment.rows) if away is None and not private else {},
        "policies": {name: policy_words(one.policy, private) for name, one in held.items()},
        **({"absent": dict(absent)} if absent else {}),
        "settings": terms.settings,
        "fingerprint": terms.fingerprint,
        "asked": federation.label_column or "",
        "left": [
            [party, kind_of(charge.event), charge.what, charge.count]
            for party, plan in plans.items()
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
