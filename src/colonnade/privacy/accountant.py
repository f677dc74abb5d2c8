"""What a total of zCDP means as (epsilon, delta), how much zCDP a budget buys, and what a party still affords.

Claim    a run whose events sum to ρ is (epsilon(ρ, δ), δ)-differentially private; the figure is an upper bound.
Source   ρ-zCDP is D_α ≤ αρ for every α > 1, converted over the orders below by
         δ = exp((α-1)(αρ - ε)) (1 - 1/α)^α / (α - 1)   (Canonne, Kamath and Steinke 2020, proposition 12), and by
         δ = √(1 - exp(-KL)) at ε = 0, KL ≤ D_α          (Bretagnolle and Huber 1978).
Deltas   releases may take a part of delta for themselves, beside ρ: what they took is subtracted before ρ is converted
         (docs/understand/privacy/accounting.md, "A delta beside rho").
Orders   any set of orders gives a valid bound; 50 a decade lose less than 0.1 % of epsilon. Tests compare every figure
         with Google's dp-accounting over the same orders.
Not      the privacy loss distribution is tight for continuous Gaussian noise, and does not bound what leaves a party,
         which is discrete: a cross-check in the tests, never the figure of a statement.
Refusal  by past events and the plan, never by data: it tells nothing about a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from colonnade.errors import BudgetExhausted, InvalidInput
from colonnade.privacy.events import shown

ORDERS = 1 + np.logspace(-3, 6, 451)
LEAST = float(ORDERS[0])
STABLE = ORDERS[ORDERS > 1.01]  # nearer to 1 the conversion loses digits, and bounds nothing better
MARGIN = 1e-12  # far above the rounding of the conversion's few double-precision terms
ROUNDING = 1e-12  # by so much, relatively, a sum of prices may miss the limit that it was computed from


def epsilon(rho: float, delta: float) -> float:
    """The epsilon that a total of `rho` costs at this delta; inf for an exact release."""
    _check(rho=rho, delta=delta)
    if rho == 0:
        return 0.0
    if rho == math.inf or delta == 0:
        return math.inf
    if delta**2 + math.expm1(-LEAST * rho) > 0:
        return 0.0
    # At large orders, which are not the least then.
    with np.errstate(over="ignore"):
        bound = float(np.min(STABLE * rho + np.log1p(-1 / STABLE) - np.log(delta * STABLE) / (STABLE - 1)))
    return bound + MARGIN * (1 + bound) if bound > 0 else 0.0


@cache
def rho_for(epsilon: float, delta: float) -> float:
    """The largest total of zCDP whose reported epsilon at this delta does not exceed `epsilon`."""
    _check(epsilon=epsilon, delta=delta)
    if epsilon == math.inf:
        return math.inf
    if delta == 0:
        return 0.0
    orders = STABLE
    bound = (epsilon - MARGIN) / (1 + MARGIN)
    line = (bound - np.log1p(-1 / orders) + np.log(delta * orders) / (orders - 1)) / orders
    # Where Bretagnolle and Huber give epsilon 0.
    small = -math.log1p(-(delta**2)) / LEAST
    rho = max(float(line.max()), small)
    cut = 1e-15
    # The last digits: double the cut until the report agrees.
    while _epsilon(rho, delta) > epsilon:
        rho = rho * (1 - cut)
        cut = 2 * cut
    return rho


def delta_left(delta: float, epsilon: float, distance: float) -> float:
    """The delta that is left when a sampler's distance from its ideal law has been paid for."""
    return delta - (1.0 + math.exp(min(epsilon, 700.0))) * distance


def less_taken(delta: float, taken: float) -> float:
    """What is left of a delta to convert rho by, when releases have taken so much of it for themselves."""
    return max(0.0, delta - taken)


def affords(epsilon: float, delta: float, rho: float, taken: float = 0.0) -> bool:
    """Whether (epsilon, delta) covers releases of `rho` that take so much of the delta for themselves."""
    if taken and taken >= delta:
        return False
    return rho <= rho_for(epsilon, less_taken(delta, taken)) * (1 + ROUNDING)


_epsilon = epsilon  # `rho_for` has an argument of that name


def _check(*, rho: float = 0.0, epsilon: float = 0.0, delta: float = 0.0) -> None:
    if not (rho >= 0 and epsilon >= 0 and 0 <= delta < 1):  # also refuses nan
        raise InvalidInput(
            f"rho={rho:g} and epsilon={epsilon:g} must not be negative, and delta={delta:g} must lie in [0, 1); keep "
            "delta far below 1/rows."
        )


# ---------------------------------------------------------------------------------------------------- budgets


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit in force, and what has been spent of it in this period."""

    epsilon: float | None
    delta: float | None
    period: int
    rho: float  # spent or reserved in this period, about one unit, all parties' parts
    lifetime_rho: float
    taken: float = 0.0  # of the delta, by releases of this period beside their rho, all parties' parts
    lifetime_taken: float = 0.0

    @property
    def limit(self) -> float:
        """The limit in zCDP, at what is left of its delta; infinite where none is set."""
        if self.epsilon is None or self.delta is None:
            return math.inf
        return rho_for(self.epsilon, less_taken(self.delta, self.taken))

    @property
    def spent(self) -> float:
        """The epsilon spent or reserved in this period, at the budget's delta, of which releases took their part."""
        return epsilon(self.rho, less_taken(self.delta, self.taken)) if self.delta is not None else math.nan

    @property
    def left(self) -> float:
        """The rho that is left to releases that take nothing of the delta."""
        return max(0.0, self.limit - self.rho)

    @property
    def share(self) -> float:
        """What is left of the limit, as a share of what it was before anything was spent or taken."""
        whole = replace(self, taken=0.0).limit
        return self.left / whole

    def affords(self, rho: float, taken: float = 0.0) -> bool:
        """Whether a run of this price still fits; without a limit every run does."""
        if self.epsilon is None or self.delta is None:
            return True
        return affords(self.epsilon, self.delta, self.rho + rho, self.taken + taken)


def check_budget(node: str, budget: Budget, rho: float, distance: float = 0.0, taken: float = 0.0) -> None:
    """Refuse a run of price `rho` that the limit does not afford.

    distance  of the samplers of this run and of all that count from their ideal laws: paid for out of the delta.
    taken     what the run's releases take of the delta for themselves.
    """
    if budget.epsilon is None or budget.delta is None or not (rho or taken):
        return
    if math.isinf(budget.rho):
        raise BudgetExhausted(
            f"party {node!r}: exact values about these rows have left in this period, so no epsilon holds for them "
            "any more. Nothing was sent. Use rows that no exact run has seen, or let the owner decide with "
            "`colonnade budget renew`."
        )
    delta = max(0.0, delta_left(budget.delta, budget.epsilon, distance))
    rounding = f" The rounding of samplers takes {budget.delta - delta:.2g} off that delta." if distance else ""
    total = budget.taken + taken
    if total and total >= delta:
        raise BudgetExhausted(
            f"party {node!r}: the limit has delta={budget.delta:g}; releases of this period took {shown(budget.taken)} "
            f"of it for themselves, and those of this run would take {shown(taken)}, which leaves none to the noise."
            f"{rounding} Nothing was sent. Ask for a smaller delta, or let the owner raise that of the limit or open a "
            "new period with `colonnade budget renew`."
        )
    if not affords(budget.epsilon, delta, rho, taken):  # also of a new period
        raise BudgetExhausted(
            f"party {node!r}: this run alone costs epsilon {_reached(rho, delta, taken)}, over the limit "
            f"{shown(budget.epsilon)} (delta={budget.delta:g}) of a whole period.{rounding}{_for_themselves(taken)} "
            "Nothing was sent. Ask for a smaller epsilon or fewer rounds, or let the owner raise the limit: in the "
            "party's policy, or, if that allows more, with `colonnade budget set`."
        )
    if not affords(budget.epsilon, delta, budget.rho + rho, total):
        raise BudgetExhausted(
            f"party {node!r}: this run would bring epsilon to {_reached(budget.rho + rho, delta, total)}, over the "
            f"limit {shown(budget.epsilon)} (delta={budget.delta:g}); {shown(budget.spent)} is spent or reserved in "
            f"this period.{rounding}{_for_themselves(total)} Nothing was sent. Ask for a smaller epsilon or fewer "
            "rounds, close runs that will not go on, or let the owner open a new period with `colonnade budget renew`."
        )


def _reached(rho: float, delta: float, taken: float) -> str:
    return shown(epsilon(rho, less_taken(delta, taken)))


def _for_themselves(taken: float) -> str:
    return f" Releases take {shown(taken)} of that delta for themselves." if taken else ""
