"""What an audit attacks: the claim, the target that makes it, and who looks at what the target releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from colonnade.kernels.arrays import Floats
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.statement import OF_TRUST, Guarantee, Trust, guarantee_under

CLAIMS = (0.1, 1.0, 4.0)
LABEL_FLIPPED = "replace one row of 21: the same features, the opposite label"
LIKELIHOOD = "the likelihood ratio"
LIKELIHOOD_OF_ALL = "the likelihood ratio of all of them"


@dataclass(frozen=True)
class Setting:
    """The claim of one attack, and the seed its data are made from."""

    epsilon: float
    delta: float
    seed: int

    @cached_property
    def rho(self) -> float:
        """What our accountant sells for the claim."""
        return rho_for(self.epsilon, self.delta)


@dataclass(frozen=True)
class Adversary:
    """What somebody sees of a release, and the score computed from it: `attack(setting, inside, trials)`."""

    sees: str
    statistic: str
    attack: Callable[[Setting, bool, int], Floats]


@dataclass(frozen=True)
class Target:
    """Something that claims privacy, a pair of neighbouring data sets, and who attacks it."""

    title: str
    neighbours: str
    adversaries: Mapping[str, Adversary]  # the first is the usual one
    trials: int = 1_000  # per side, for a quick audit: enough to break what is broken
    batch: int = 100  # trials in one call
    trust: str = Trust.NOBODY
    claimed: bool = False  # by a paper, not by us
    claims: tuple[float, ...] = CLAIMS
    delta: float = 1e-5

    @property
    def guarantee(self) -> Guarantee:
        """What stands behind the claim: of ours, what a statement under this trust model says."""
        return Guarantee.CLAIMED if self.claimed else guarantee_under(OF_TRUST.get(self.trust, ()))
