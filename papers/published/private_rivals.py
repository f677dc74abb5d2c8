"""Four methods over split rows that add noise, with which D-ZOA was compared: each with its paper's calibration.

Solves   min_x Σᵢ fᵢ(x); the papers suppose means over M rows whose losses are steep by at most c₁.
Source   PrimalPerturbation  PVP: Zhang and Zhu, "Dynamic differential privacy for ADMM-based distributed classification
                             learning", 2017, with Gaussian noise as in Gratton's algorithm 2 and equation 4.15.
                             x ← argmin Fᵢ (zeroth_order.py), x̃ = x + N(0, σ²);  σ = c₁ √(2.1 log(1.25/δ)) / (ρ|V|M ε)
         DualPerturbation    DVP: the same paper. λ̃ = λ + N(0, σ²), x ← argmin Fᵢ with λ̃;  σ = 2c₁ √(2.1 log(1.25/δ)) / (M ε)
         LinearisedADMM      DP-ADMM: Huang, Hu, Guo, Chan-Tin, Gong, 2020; with a server in the middle.
                             xᵢ ← (x̃ᵢ/η + ρ x − gᵢ(x̃ᵢ) + γᵢ) / (ρ + 1/η), η = step/√k, x̃ᵢ = xᵢ + N(0, σ²)
                             σ = 2c₁ √(2 log(1.25/δ)) / (M ε (ρ + 1/η));  x ← mean of x̃ᵢ − γᵢ/ρ;  γᵢ ← γᵢ − ρ(x̃ᵢ − x)
         NoisySubgradient    DPSGD: D-SG (subgradient.py) whose agents share x̃ = x + N(0, σ²), as Gratton customises it.
                             σ = (step/√k) 2c₁ √(2 log(1.25/δ)) / (M ε): what a row moves in one step.
Sends    the noisy estimate to every neighbour, |Vᵢ|·P numbers a round; DualPerturbation the exact argmin; LinearisedADMM
         P numbers up and P down.
Claims   (ε, δ) for one round of one agent and one row, over K rounds √K times as much (equation 4.16). The squared loss of
         the figures has no c₁: with 1, as there, nothing is proven. Noise is floating point from a generator handed in.
         There is no gate and no ledger here: nothing in this file can spend a budget or take part in a fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from colonnade.kernels.arrays import Floats
from colonnade.privacy.conditions import Code, Condition
from colonnade.privacy.statement import Guarantee, PrivacyStatement, Trust
from colonnade.problem import Topology
from papers.published.calibrations import check
from papers.published.graph_rounds import adjacency, metropolis

Near = Callable[[Floats, Floats], Floats]  # centres (agents, columns), weights (agents,): argmin fᵢ + wᵢ/2 ‖x − vᵢ‖²
Slopes = Callable[[Floats], Floats]  # (agents, columns) to (agents, columns)


@dataclass(frozen=True)
class PerRound:
    """What each of the four is asked for: (epsilon, delta) a round, `rows` an agent, rows as steep as `slope_bound`."""

    epsilon: float
    delta: float
    rows: int
    slope_bound: float = 1.0

    def __post_init__(self) -> None:
        check(self.epsilon, self.delta, rows=self.rows, slope_bound=self.slope_bound)

    def deviation(self, sensitivity: float, factor: float = 2.0) -> float:
        """Of Gaussian noise; `factor` is 2 in one paper and 2.1 in the others."""
        return sensitivity * math.sqrt(factor * math.log(1.25 / self.delta)) / self.epsilon

    @property
    def moved(self) -> float:
        """By how much one row moves the slope of the mean."""
        return 2.0 * self.slope_bound / self.rows

    @property
    def statement(self) -> PrivacyStatement:
        return PrivacyStatement(
            epsilon=self.epsilon,
            delta=self.delta,
            unit="one row",
            neighbours="replace one row",
            trust=Trust.NOBODY,
            accountant="the paper's",
            guarantee=Guarantee.CLAIMED,
            derivation="by its paper, for one round",
            sees="what one agent sends in one round",
            conditions=(
                Condition(
                    Code.PAPER,
                    (
                        f"no row's loss is steeper than {self.slope_bound:g}, and an agent's loss is a mean over its rows",
                    ),
                ),
            ),
        )


@dataclass(frozen=True)
class _Links:
    """The two sums over neighbours of which consensus ADMM is made."""

    topology: Topology
    penalty: float

    @property
    def weights(self) -> Floats:
        """2ρ|Vᵢ|"""
        return np.asarray(2.0 * self.penalty * adjacency(self.topology).sum(axis=1))

    def centres(self, x: Floats, dual: Floats) -> Floats:
        """Where Fᵢ − fᵢ is least."""
        links = adjacency(self.topology)
        degrees = links.sum(axis=1)[:, None]
        return np.asarray((degrees * x + links @ x - dual / self.penalty) / (2.0 * degrees))

    def apart(self, x: Floats) -> Floats:
        links = adjacency(self.topology)
        return np.asarray(self.penalty * (links.sum(axis=1)[:, None] * x - links @ x))


@dataclass(frozen=True)
class PrimalPerturbation:
    """PVP."""

    asked: PerRound
    penalty: float

    def deviations(self, topology: Topology) -> Floats:
        """σ of each agent."""
        return self.asked.deviation(self.asked.moved, 2.1) / _Links(topology, self.penalty).weights

    def rounds(self, near: Near, topology: Topology, columns: int, rng: np.random.Generator) -> Iterator[Floats]:
        """The agents' estimates as they are sent, for ever: (agents, columns)."""
        links, sigma = _Links(topology, self.penalty), self.deviations(topology)[:, None]
        x, dual = np.zeros((topology.size, columns)), np.zeros((topology.size, columns))
        while True:
            x = near(links.centres(x, dual), links.weights) + sigma * rng.standard_normal(x.shape)
            dual = dual + links.apart(x)
            yield x


@dataclass(frozen=True)
class DualPerturbation:
    """DVP."""

    asked: PerRound
    penalty: float

    def rounds(self, near: Near, topology: Topology, columns: int, rng: np.random.Generator) -> Iterator[Floats]:
        """The agents' estimates as they are sent, for ever: (agents, columns)."""
        links, sigma = _Links(topology, self.penalty), self.asked.deviation(self.asked.moved, 2.1)
        x, dual = np.zeros((topology.size, columns)), np.zeros((topology.size, columns))
        while True:
            x = near(links.centres(x, dual + sigma * rng.standard_normal(x.shape)), links.weights)
            dual = dual + links.apart(x)
            yield x


@dataclass(frozen=True)
class LinearisedADMM:
    """DP-ADMM; `step` is η in the first round."""

    asked: PerRound
    penalty: float
    step: float

    def rounds(self, slopes: Slopes, agents: int, columns: int, rng: np.random.Generator) -> Iterator[Floats]:
        """The server's estimate, which every agent is sent, for ever: (agents, columns)."""
        own, duals, shared, k = np.zeros((agents, columns)), np.zeros((agents, columns)), np.zeros(columns), 0
        while True:
            k += 1
            stiff = math.sqrt(k) / self.step
            exact = (stiff * own + self.penalty * shared - slopes(own) + duals) / (self.penalty + stiff)
            sigma = self.asked.deviation(self.asked.moved / (self.penalty + stiff))
            own = exact + sigma * rng.standard_normal(own.shape)
            shared = (own - duals / self.penalty).mean(axis=0)
            duals = duals - self.penalty * (own - shared)
            yield np.repeat(shared[None], agents, axis=0)


@dataclass(frozen=True)
class NoisySubgradient:
    """DPSGD; `step` is that of the first round."""

    asked: PerRound
    step: float

    def rounds(self, slopes: Slopes, topology: Topology, columns: int, rng: np.random.Generator) -> Iterator[Floats]:
        """The agents' estimates as they are sent, for ever: (agents, columns)."""
        W, x, k = metropolis(topology), np.zeros((topology.size, columns)), 0
        while True:
            k += 1
            rate = self.step / math.sqrt(k)
            sigma = rate * self.asked.deviation(self.asked.moved)
            x = W @ x - rate * slopes(x) + sigma * rng.standard_normal(x.shape)
            yield x
