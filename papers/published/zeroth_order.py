"""D-ZOA as it was published: ADMM whose inner steps look at values only, and the privacy that is claimed for it.

Solves   min_x Σᵢ fᵢ(x), rows split; each agent can evaluate its fᵢ.
Source   Gratton, thesis, algorithm 4, equations 2.9, 2.10 and 2.19, 2.20; theorems 4.1 and 4.2, equation 4.13.
             Fᵢ(x) = fᵢ(x) + λᵢᵀx + ρ Σⱼ ‖x − (xᵢ + xⱼ)/2‖²                  j over the neighbours
             y ← 0;  T times:  y ← y − α_t g,  α_t = α₁/√t                    α₁ = α₀R / (L √(P log 2P))
             g = mean of J guesses [Fᵢ(y + u₁n₁ + u₂n₂) − Fᵢ(y + u₁n₁)]/u₂ · n₂,   u₁ = u/t, u₂ = u/(P t)² (the journal's)
             xᵢ ← y, share it, λᵢ ← λᵢ + ρ Σⱼ (xᵢ − xⱼ)
         Chapter 3 averages the ends of J descents instead of J guesses in each step (`loops`).
Sends    its estimate to every neighbour, every round: |Vᵢ|·P numbers.
Claims   (ε, δ) without any noise: "intrinsic". Its proof takes an upper bound of the slopes' second moment for their
         variance, and supposes normal, independent errors. An upper bound of noise protects nobody: docs/understand/methods/zeroth-order.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.privacy.conditions import Code, Condition
from colonnade.privacy.statement import Guarantee, PrivacyStatement, Trust
from colonnade.problem import Topology
from papers.published.graph_rounds import adjacency

Values = Callable[[Floats], Floats]  # (agents, points, columns) to (agents, points)
Differences = Callable[
    [Floats, Floats], Floats
]  # points x and moves v, both (agents, points, columns): f(x + v) − f(x)
FIRST = 0.54  # α₀ of chapter 4
SPREAD = 0.5  # c of equation 4.9


def guessed_slopes(
    differences: Differences, y: Floats, t: int, *, draws: int, smoothing: float, rng: np.random.Generator
) -> Floats:
    """Equation 2.19 at the points y of each agent (agents, points, columns), the mean of `draws` guesses at each.

    It needs two values only by their difference, which row_problems.py has in closed form: the same number, in half the
    time and without the digits that two nearly equal values lose.
    """
    agents, points, columns = y.shape
    wide, narrow = smoothing / t, smoothing / (columns * t) ** 2
    first, along = rng.standard_normal((2, agents, points * draws, columns))
    first *= wide
    first.reshape(agents, points, draws, columns)[...] += y[:, :, None]
    rise = differences(first, narrow * along) / (narrow * draws)
    mean = rise.reshape(agents, points, 1, draws) @ along.reshape(agents, points, draws, columns)
    return np.asarray(mean[:, :, 0])


def with_square(differences: Differences, linear: Floats, square: Floats) -> Differences:
    """Of f(x) + <linear, x> + square ‖x‖², for each agent."""

    def augmented(x: Floats, v: Floats) -> Floats:
        slope = square[:, :, None] * (2.0 * x + v)
        slope += linear[:, None]
        return np.asarray(differences(x, v) + np.einsum("njp,njp->nj", slope, v))

    return augmented


@dataclass(frozen=True)
class ZerothADMM:
    """Settings of algorithm 4.

    penalty    ρ.
    step       α₁; what R and L are is not said in the thesis.
    steps      T.    draws   J: guesses averaged in a step.    loops   descents whose ends are averaged.
    smoothing  u.
    """

    penalty: float
    step: float
    steps: int = 100
    draws: int = 1
    loops: int = 1
    smoothing: float = 1.0

    def rounds(
        self, differences: Differences, topology: Topology, columns: int, rng: np.random.Generator
    ) -> Iterator[Floats]:
        """The agents' estimates after each round, for ever: (agents, columns)."""
        links = adjacency(topology)
        degrees = links.sum(axis=1)[:, None]
        x, dual = np.zeros((topology.size, columns)), np.zeros((topology.size, columns))
        while True:
            x = self.descend(differences, dual - self.penalty * (degrees * x + links @ x), self.penalty * degrees, rng)
            dual = dual + self.penalty * (degrees * x - links @ x)
            yield x

    def descend(self, differences: Differences, linear: Floats, square: Floats, rng: np.random.Generator) -> Floats:
        """The inner loop: T steps on f(x) + <linear, x> + square ‖x‖², from 0."""
        augmented = with_square(differences, linear, square)
        y = np.zeros((linear.shape[0], self.loops, linear.shape[1]))
        for t in range(1, self.steps + 1):
            slopes = guessed_slopes(augmented, y, t, draws=self.draws, smoothing=self.smoothing, rng=rng)
            y = y - self.step / math.sqrt(t) * slopes
        return np.asarray(y.mean(axis=1))


@dataclass(frozen=True)
class Intrinsic:
    """The privacy that chapter 4 claims for one agent.

    columns, steps   P and T.        rows, neighbours   M and |V|.        penalty   ρ.        slope_bound   c₁.
    radius           R, of the set in which the inner loop looks.         answer_norm   ‖x‖ at the optimum.
    """

    columns: int
    steps: int
    rows: int
    neighbours: int
    penalty: float
    radius: float
    answer_norm: float
    slope_bound: float = 1.0

    def deviation(self, draws: float) -> float:
        """σ of equation 4.9."""
        times = np.arange(1, self.steps + 1)
        sums = float((1.0 / times).sum()) * (1.0 + math.log(self.columns)) + float((times**-1.5).sum())
        moment = SPREAD * (FIRST * self.radius) ** 2 / math.log(2 * self.columns) * sums
        variance = moment - 4.0 * self.answer_norm**2 / self.steps
        if variance <= 0:
            raise InvalidInput(f"{self.steps} steps are fewer than equation 4.14 wants: raise steps or radius.")
        return math.sqrt(variance / (draws * self.columns))

    def statements(self, draws: float, rounds: int, delta: float) -> tuple[PrivacyStatement, PrivacyStatement]:
        """Theorems 4.1 and 4.2 at this deviation: of one round and of all, both conditional."""
        return conditional(
            deviation=self.deviation(draws),
            slope_bound=self.slope_bound,
            weight=2.0 * self.penalty * self.neighbours,
            rows=self.rows,
            rounds=rounds,
            delta=delta,
        )

    def draws(self, epsilon: float, delta: float) -> int:
        """J: equation 4.13 solved for it and rounded, as chapter 4 does; at least 1."""
        once = self.statements(1, 1, delta)[0].epsilon
        return max(1, round((epsilon / once) ** 2))


def conditional(
    *, deviation: float, slope_bound: float, weight: float, rows: int, rounds: int, delta: float
) -> tuple[PrivacyStatement, PrivacyStatement]:
    """What theorems 4.1 and 4.2 of the thesis would make of random errors: for one round, and for a whole run.

    deviation    standard deviation of every entry of an agent's estimate about the exact one.
    slope_bound  c₁, of the slope of one row's loss.
    weight       κ, as above: 2ρ|Vᵢ| in the letters of the thesis, whose sensitivity c₁/(ρ|Vᵢ|M) is 2c₁/(κM).
    rows         M: the agent's loss is a mean over so many rows.

    Both hold under an assumption that nobody checks, so no budget takes them.
    """
    given = {"deviation": deviation, "slope_bound": slope_bound, "weight": weight, "rows": rows, "rounds": rounds}
    for name, value in given.items():
        if not 0 < value < math.inf:
            raise InvalidInput(f"{name} must be a finite number above 0, got {value}.")
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie between 0 and 1, got {delta}.")
    tail = math.log(1.25 / delta)
    once = 2.0 * slope_bound / (weight * rows) * math.sqrt(2.1 * tail) / deviation  # equation 4.11
    whole = once * math.sqrt(rounds * math.log(1.0 / delta) / (1.05 * tail))  # equation 4.16
    one_round = _conditional(once, delta, "one estimate of one agent", "Gratton, theorem 4.1")
    return one_round, _conditional(whole, delta, f"{rounds} estimates of one agent", "Gratton, theorem 4.2")


RESTS_ON = (
    "the errors of a zeroth-order descent are normal, independent in all entries, of mean 0 and of the stated "
    "deviation whatever the data, every row's loss is steep by at most the stated bound, and epsilon is at most 1"
)


def _conditional(epsilon: float, delta: float, sees: str, source: str) -> PrivacyStatement:
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        unit="one row",
        neighbours="replace one row",
        trust=Trust.NOBODY,
        accountant="the thesis'",
        guarantee=Guarantee.CONDITIONAL,
        derivation=f"{source}; no budget takes it, and docs/understand/methods/zeroth-order.md shows an attack that refutes it",
        sees=sees,
        conditions=(Condition(Code.PAPER, (RESTS_ON,)),),
    )
