"""What a party says to a plan before anything is computed: its policy first, then its budget.

Both look at the plan and at past events, never at data, so a refusal tells nothing about a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from colonnade.errors import BudgetExhausted, PolicyRefused
from colonnade.privacy.accountant import delta_left, epsilon, rho_for
from colonnade.privacy.events import SCORES, Audience, Mechanism, Plan, Policy
from colonnade.privacy.figures import shown

ROUNDING = 1e-12  # by so much, relatively, a sum of prices may miss the limit that it was computed from


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit in force, and what has been spent of it in this period."""

    epsilon: float | None
    delta: float | None
    period: int
    rho: float  # spent or reserved in this period, about one unit, all parties' parts
    lifetime_rho: float

    @property
    def limit(self) -> float:
        """The limit in zCDP; infinite where none is set."""
        return math.inf if self.epsilon is None or self.delta is None else rho_for(self.epsilon, self.delta)

    @property
    def spent(self) -> float:
        """The epsilon spent or reserved in this period, at the budget's delta."""
        return epsilon(self.rho, self.delta) if self.delta is not None else math.nan

    @property
    def left(self) -> float:
        """The rho that is left."""
        return max(0.0, self.limit - self.rho)


def check_policy(node: str, policy: Policy, plan: Plan) -> None:
    """Refuse a plan that releases what the party's policy does not allow, whatever it costs."""
    exact = [charge.what for charge in plan if math.isinf(charge.event.rho) and charge.count]
    if exact and not policy.exact:
        raise PolicyRefused(
            f"party {node!r} does not let exact values leave, and this method would release {'; '.join(exact)}. "
            "Nothing was sent. Choose a private method (privacy=...), or, if the party agrees, set "
            "Policy(exact=True) for it."
        )
    members = [charge for charge in plan if charge.event.audience is Audience.CONSORTIUM and charge.count]
    inside = [charge.what for charge in members if charge.event.mechanism is not Mechanism.GAUSSIAN]  # that adds noise
    if inside and not (policy.exact or policy.consortium):
        raise PolicyRefused(
            f"party {node!r} does not show exact values to the other parties, and in a consortium this method would: "
            f"{'; '.join(inside)}. Nothing was sent. Ask for trust='secure', or, if the party trusts the others and "
            "their coordinator, set Policy(consortium=True) for it."
        )
    if not (policy.exact or policy.scores) and any(charge.event == SCORES for charge in plan):
        raise PolicyRefused(
            f"party {node!r} does not let its part of scores leave. Nothing was sent. If the party agrees that the "
            "label holder learns the scores of these rows, set Policy(scores=True) for it."
        )


def check_budget(node: str, budget: Budget, rho: float, distance: float = 0.0) -> None:
    """Refuse a run of price `rho` that the limit does not afford.

    distance  of the samplers of this run and of all that count from their ideal laws: paid for out of the delta.
    """
    if budget.epsilon is None or budget.delta is None or not rho:
        return
    if math.isinf(budget.rho):
        raise BudgetExhausted(
            f"party {node!r}: exact values about these rows have left in this period, so no epsilon holds for them "
            "any more. Nothing was sent. Use rows that no exact run has seen, or let the owner decide with "
            "`colonnade budget renew`."
        )
    delta = max(0.0, delta_left(budget.delta, budget.epsilon, distance))
    limit = rho_for(budget.epsilon, delta) * (1 + ROUNDING)
    rounding = f" The rounding of samplers takes {budget.delta - delta:.2g} off that delta." if distance else ""
    if rho > limit:  # also of a new period
        raise BudgetExhausted(
            f"party {node!r}: this run alone costs epsilon {shown(epsilon(rho, delta))}, over the limit "
            f"{shown(budget.epsilon)} (delta={budget.delta:g}) of a whole period.{rounding} Nothing was sent. Ask for "
            "a smaller epsilon or fewer rounds, or let the owner raise the limit: in the party's policy, or, if that "
            "allows more, with `colonnade budget set`."
        )
    if budget.rho + rho > limit:
        raise BudgetExhausted(
            f"party {node!r}: this run would bring epsilon to {shown(epsilon(budget.rho + rho, delta))}, over the "
            f"limit {shown(budget.epsilon)} (delta={budget.delta:g}); {shown(budget.spent)} is spent or reserved in "
            f"this period.{rounding} Nothing was sent. Ask for a smaller epsilon or fewer rounds, close runs that will "
            "not go on, or let the owner open a new period with `colonnade budget renew`."
        )
