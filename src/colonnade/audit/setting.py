"""What one attack is up against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from colonnade.privacy.accountant import rho_for


@dataclass(frozen=True)
class Setting:
    """What one attack is up against: the claim, and the seed its data are made from."""

    epsilon: float
    delta: float
    seed: int

    @cached_property
    def rho(self) -> float:
        """What our accountant sells for the claim."""
        return rho_for(self.epsilon, self.delta)
