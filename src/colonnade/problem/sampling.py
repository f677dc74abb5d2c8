"""Samplings: which blocks of coefficients a round updates, as small values.

Sampling          blocks of a round                                 P(block in the round)
Elementary()      all of them                                       1
Serial()          one, uniformly                                    1/B
Nice(tau)         tau of them, uniformly                            tau/B
PerParty(tau)     every party draws tau of its own                  tau/B_k at party k, at most 1
Independent(p)    each by a coin of its own; p a number or a tuple  p_i

Blocks are numbered 0 … B − 1; owners[i] is the number of the party that holds block i, B_k the blocks of party k. Any
object with `draw` and `probabilities` is a sampling; it must be proper: every block has a chance, and rounds are
independent. Everything that theory needs of it is p_min, the least of the probabilities.

The published table gives (K·tau)²/B² for PerParty; by the definition of p_min it is tau/max_k B_k, which is used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices


@runtime_checkable
class Sampling(Protocol):
    """A random set of blocks."""

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:
        """The blocks of one round, each at most once.

        Parameters
        ----------
        owners
            For each block, the number of the party that holds it.
        rng
            Public randomness that all nodes share.
        """
        ...

    def probabilities(self, owners: Indices) -> Floats:
        """For each block, the probability that a round has it.

        Parameters
        ----------
        owners
            For each block, the number of the party that holds it.
        """
        ...


@dataclass(frozen=True)
class Elementary:
    """All blocks in every round: Frank-Wolfe over a product of sets."""

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:  # noqa: ARG002
        return np.arange(owners.size)

    def probabilities(self, owners: Indices) -> Floats:
        return np.ones(owners.size)


@dataclass(frozen=True)
class Serial:
    """One block, uniformly."""

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:
        return rng.integers(owners.size, size=1)

    def probabilities(self, owners: Indices) -> Floats:
        return np.full(owners.size, 1.0 / owners.size)


@dataclass(frozen=True)
class Nice:
    """Exactly `tau` blocks, every set of that size alike.

    Parameters
    ----------
    tau
        The number of blocks a round, from 1 to all there are. More cost more messages, and fewer rounds are needed.
    """

    tau: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _count("tau", self.tau))

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:
        return np.sort(rng.choice(owners.size, size=self._fits(owners.size), replace=False))

    def probabilities(self, owners: Indices) -> Floats:
        return np.full(owners.size, self._fits(owners.size) / owners.size)

    def _fits(self, blocks: int) -> int:
        if self.tau > blocks:
            raise InvalidInput(f"Nice({self.tau}) cannot draw from {blocks} blocks: choose tau of at most {blocks}.")
        return self.tau


@dataclass(frozen=True)
class PerParty:
    """Every party draws `tau` of its own blocks, all of them if it has fewer: no party waits for another.

    Parameters
    ----------
    tau
        The number of blocks of each party in a round, at least 1.
    """

    tau: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _count("tau", self.tau))

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:
        parts = [np.flatnonzero(owners == party) for party in np.unique(owners)]
        return np.sort(np.concatenate([rng.choice(own, min(self.tau, own.size), replace=False) for own in parts]))

    def probabilities(self, owners: Indices) -> Floats:
        _, inverse, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        return np.minimum(1.0, self.tau / sizes)[inverse]


@dataclass(frozen=True)
class Independent:
    """Each block by a coin of its own; some rounds may have no block at all.

    Parameters
    ----------
    p
        The probability that a round has a block, above 0 and at most 1: one for all, or one a block.
    """

    p: float | tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            chances = tuple(map(float, self.p)) if np.ndim(self.p) else (float(self.p),)  # type: ignore[arg-type]  # one of the two
        except (TypeError, ValueError):
            chances = ()
        if not chances or not all(0.0 < chance <= 1.0 for chance in chances):
            raise InvalidInput("Independent(p) needs probabilities above 0 and at most 1.")
        object.__setattr__(self, "p", chances if np.ndim(self.p) else chances[0])

    def draw(self, owners: Indices, rng: np.random.Generator) -> Indices:
        return np.flatnonzero(rng.random(owners.size) < self.probabilities(owners))

    def probabilities(self, owners: Indices) -> Floats:
        if isinstance(self.p, float):
            return np.full(owners.size, self.p)
        if len(self.p) != owners.size:
            raise InvalidInput(f"Independent(p) has {len(self.p)} probabilities for {owners.size} blocks: one each.")
        return np.array(self.p)


def least_probability(sampling: Sampling, owners: Indices) -> float:
    """p_min by its definition; InvalidInput where some block is never drawn."""
    chances = np.asarray(sampling.probabilities(owners), dtype=np.float64)
    if chances.shape != (owners.size,) or not np.all((chances > 0.0) & (chances <= 1.0)):
        raise InvalidInput(
            f"{type(sampling).__name__}.probabilities must give each of the {owners.size} blocks a number above 0 and "
            "at most 1: the step size and every guarantee rest on the least of them."
        )
    return float(chances.min())


def universal_step(t: int, least: float) -> float:
    """2/(p_min·t + 2), for every proper sampling."""
    return 2.0 / (least * t + 2.0)


def _count(name: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InvalidInput(f"{name} must be a whole number of at least 1, got {value!r}.", name)
    return number
