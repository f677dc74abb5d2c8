"""What a total of zCDP means as (epsilon, delta), and how much zCDP a budget buys.

Claim    a run whose events sum to ρ is (epsilon(ρ, δ), δ)-differentially private; the figure is an upper bound.
Source   RDP of ZCDpEvent(ρ), D_α ≤ αρ, in Google's dp-accounting, over the orders below; converted by
         δ = exp((α-1)(αρ - ε)) (1 - 1/α)^α / (α - 1)   (Canonne, Kamath and Steinke 2020, proposition 12).
Orders   any set of orders gives a valid bound; 50 a decade lose less than 0.1 % of epsilon.
Not      the privacy loss distribution is tight for continuous Gaussian noise, and does not bound what leaves a party,
         which is discrete: a cross-check in the tests, never the figure of a statement.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import InvalidInput

if TYPE_CHECKING:
    from dp_accounting.rdp import RdpAccountant

ORDERS = 1 + np.logspace(-3, 6, 451)
MARGIN = 1e-12  # far above the rounding of the conversion's few double-precision terms


def epsilon(rho: float, delta: float) -> float:
    """The epsilon that a total of `rho` costs at this delta; inf for an exact release."""
    _check(rho=rho, delta=delta)
    if rho == 0:
        return 0.0
    if rho == math.inf or delta == 0:
        return math.inf
    bound = float(_compose(rho).get_epsilon(delta))
    return bound + MARGIN * (1 + bound) if bound > 0 else 0.0


def delta(rho: float, epsilon: float) -> float:
    """The delta that a total of `rho` costs at this epsilon; 1 for an exact release."""
    _check(rho=rho, epsilon=epsilon)
    if rho == 0:
        return 0.0
    if rho == math.inf:
        return 1.0
    if epsilon == math.inf:
        return 0.0
    # The bound is exp(t) with |t| below 750, or it is not a float any more: t's rounding is below 1e-9. For a small
    # ρ dp-accounting also loses digits in 1 - exp(-ρ), and fails where it loses all: below 1e-12, 1e-12 is charged.
    charged = max(rho, 1e-12)
    bound = float(_compose(charged).get_delta(epsilon)) * (1 + 1e-9 + 1e-15 / charged)
    return min(1.0, max(bound, sys.float_info.min))


@cache
def rho_for(epsilon: float, delta: float) -> float:
    """The largest total of zCDP whose reported epsilon at this delta does not exceed `epsilon`."""
    _check(epsilon=epsilon, delta=delta)
    if epsilon == math.inf:
        return math.inf
    if delta == 0:
        return 0.0
    orders = ORDERS[ORDERS > 1.01]  # the accountant converts no order nearer to 1
    bound = (epsilon - MARGIN) / (1 + MARGIN)
    line = (bound - np.log1p(-1 / orders) + np.log(delta * orders) / (orders - 1)) / orders
    small = -math.log1p(-(delta**2)) / float(ORDERS[0])  # where Bretagnolle and Huber give epsilon 0
    rho = max(float(line.max()), small)
    cut = 1e-15
    while _epsilon(rho, delta) > epsilon:  # the last digits: double the cut until the report agrees
        rho, cut = rho * (1 - cut), 2 * cut
    return rho


def delta_left(delta: float, epsilon: float, distance: float) -> float:
    """The delta that is left when a sampler's distance from its ideal law has been paid for."""
    return delta - (1.0 + math.exp(min(epsilon, 700.0))) * distance


_epsilon = epsilon  # `rho_for` has an argument of that name


def _compose(rho: float) -> RdpAccountant:
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(orders=ORDERS).compose(ZCDpEvent(rho))


def _check(*, rho: float = 0.0, epsilon: float = 0.0, delta: float = 0.0) -> None:
    if not (rho >= 0 and epsilon >= 0 and 0 <= delta < 1):  # also refuses nan
        raise InvalidInput(
            f"rho={rho:g} and epsilon={epsilon:g} must not be negative, and delta={delta:g} must lie in [0, 1); keep "
            "delta far below 1/rows."
        )
