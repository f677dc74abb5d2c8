"""What private block Frank-Wolfe spends: rounds, sketches and prices, fixed by public figures before the first message.

Leaves   nothing. Prices: docs/understand/privacy/frank-wolfe.md. Rules: `PrivateBlockFrankWolfe.spend`; worse ones
         would cost accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.methods.method import chosen_by_noise
from colonnade.model.job import Job
from colonnade.privacy.block import check_sensible, sum_slack
from colonnade.privacy.events import Audience, Charge, Event, Mechanism, Plan, Scope
from colonnade.problem import L1Ball
from colonnade.runtime.program import COORDINATOR

PRODUCT = 0.5  # τ·max|y|: how much of a column's release goes to its product with the labels
FILL = 0.1  # a usual mean square of an entry over the square of its bound; a guess, so that it needs no data
MOST_ROUNDS = 1000
FEWEST_ROWS = 32  # of a sketch: products of shorter ones stray more than normal ones do
INSIDE = Event(Mechanism.EXACT, 0.0, math.inf, Scope.OWN, Audience.CONSORTIUM)


@dataclass(frozen=True, eq=False)
class Spend:
    """Everything a run fixes before its first message, from public figures alone."""

    bound: float  # B, of an entry
    label_bound: float  # Y; of a residual, inside a consortium
    labels: Floats | None  # where they are public
    rounds: int
    rows: int  # of the sketch
    rho_labels: float
    rho_pick: float
    rho_column: float
    quota: Mapping[str, int] = field(default_factory=dict)  # columns, by party

    @property
    def label_sigma(self) -> float:
        return 2.0 * self.label_bound / math.sqrt(2.0 * self.rho_labels) if self.rho_labels else 0.0

    def remarks(self, job: Job) -> tuple[str, ...]:
        """Where choices are the noise's: that of the labels makes residuals longer, too."""
        columns = sum(map(len, job.roster.positions.values()))
        stretch = 1.0 + self.label_sigma / self.label_bound
        return chosen_by_noise(job.roster.rows, columns, self.rho_pick, job.roster.unit.rows, stretch)

    def sigma(self, unit: int) -> float:
        """Of the noise on a sketch; a little below what the gate adds, which also pays for rounding."""
        return 2.0 * self.bound * unit * math.hypot(1.0, PRODUCT) / math.sqrt(2.0 * self.rho_column)

    def reach(self, t: int, job: Job) -> float:
        """A bound of one row's slope in round t: ‖x‖₁ ≤ radius·(1 − 2/((t + 1)(t + 2))) by then, for all picks."""
        norm = self.bound * ball_of(job).radius * (1.0 - 2.0 / ((t + 1) * (t + 2)))
        return job.problem.loss.steepest(norm, self.label_bound)

    def clip(self, slope: Floats, t: int, job: Job) -> Floats:
        return np.clip(slope, -self.reach(t, job), self.reach(t, job))

    def shared_sensitivity(self, t: int, job: Job) -> float:
        """2·B·reach for one row; the same number at every node."""
        return 2.0 * self.bound * self.reach(t, job) * job.roster.unit.rows * sum_slack(job.roster.rows)


def outside_price(job: Job, spend: Spend) -> dict[str, Plan]:
    plans: dict[str, Plan] = dict.fromkeys(job.roster.parties, ())
    if spend.labels is not None:
        what = "the labels, which are public: neighbours keep them, unprotected"
        labels = Charge(Event(Mechanism.EXACT, 0.0, 0.0), 0, what)
    else:
        labels = Charge(Event(Mechanism.GAUSSIAN, spend.rho_labels, math.inf), 1, "the labels, with noise")
    plans[job.roster.label] = (labels,)
    picks = Charge(Event(Mechanism.GUMBEL, spend.rho_pick, math.inf), spend.rounds, "one column number a round")
    sketch = Event(Mechanism.GAUSSIAN, spend.rho_column, math.inf)
    for party, columns in spend.quota.items():
        sketches = Charge(sketch, columns, "a noisy sketch of each new column, and its product with the labels")
        plans[party] = (*plans[party], picks, sketches)
    return plans


def inside_price(job: Job, spend: Spend) -> dict[str, Plan]:
    what = "one signed column number a round, by one choice over all parties (members see each party's, and its mass)"
    plans: dict[str, Plan] = dict.fromkeys(job.roster.parties, ())
    plans[job.roster.label] = (Charge(INSIDE, 1, "the labels (members of the consortium only)"),)
    part, taken = (
        Charge(Event(Mechanism.GUMBEL, spend.rho_pick, math.inf, Scope.JOINT, audience), spend.rounds, what)
        for audience in (Audience.CONSORTIUM, Audience.ALL)
    )
    for party in job.roster.with_columns:
        most = min(spend.rounds, len(job.roster.positions[party]))
        plans[party] = (*plans[party], part, Charge(INSIDE, most, "picked columns (members of the consortium only)"))
    plans[COORDINATOR] = (taken, Charge(INSIDE, spend.rounds, "slopes (members of the consortium only)"))
    return plans


def balanced_rounds(curvature: float, noise: float, most: int = MOST_ROUNDS) -> int:
    """The T that balances 2Γ/T, the error of T exact steps, with E√T, that of noise shared out over T draws.

    With steps 2/(t + 3) and an oracle worse than the best vertex by at most e, the distance to the optimum obeys
    h' ≤ (1 − γ)h + γe + γ²C/2, C = max(Γ, h₀), so by induction h ≤ 2C/(t + 2) + e. A choice of scale b among N scores
    loses b·log N on average at most: E[u] = b·E[log P] + b·log Z ≥ max u − b·log N.
    """
    return min(max(1, int((4.0 * curvature / noise) ** (2.0 / 3.0) + 0.5)), most)


def best_sketch_rows(n: int, best: float) -> int:
    """The length at which a column's sketch equals its noise, at least FEWEST_ROWS; or all n rows, unsketched."""
    return n if max(best, FEWEST_ROWS) >= n else round(max(best, FEWEST_ROWS) / 4.0) * 4


def step_size(t: int) -> float:
    # From t = 1 on: a first step of 1 would forget that x starts at 0.
    return 2.0 / (t + 3)


def ball_of(job: Job) -> L1Ball:
    if not isinstance(job.problem.constraint, L1Ball):
        raise InvalidInput("private Frank-Wolfe needs an L1Ball: give Problem(loss, constraint=co.L1Ball(radius)).")
    check_sensible(radius=job.problem.constraint.radius)
    return job.problem.constraint
