"""What a ledger counts, and a second opinion on what Gaussian noise costs: for tests only."""

from __future__ import annotations

import math

from colonnade.privacy.ledger import Ledger, prices_of_runs


def own_spent(ledger: Ledger) -> float:
    """rho of a party's own releases: actual for closed runs, the whole plan for open ones."""
    return math.fsum(price.own for price in prices_of_runs(ledger.log))


def pld_epsilon(sigma: float, sensitivity: float, count: int, delta: float) -> float:
    """Epsilon of `count` continuous Gaussian releases by the privacy loss distribution."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    return float(PLDAccountant().compose(GaussianDpEvent(sigma / sensitivity), count).get_epsilon(delta))
