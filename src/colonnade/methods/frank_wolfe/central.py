"""Private Frank-Wolfe where one party holds all columns and the labels: the central reference.

Solves   min loss(Ax, y)  subject to  ‖x‖₁ ≤ radius, for the logistic loss and for least squares with clipped residuals.
Source   Talwar, Thakurta, Zhang, "Nearly optimal private LASSO", 2015, with the calibration derived in docs/privacy.md:
         the exponential mechanism over the 2d signed columns, the sign drawn together with the column.
Leaves   one signed column number a round; the model is a function of these.
Price    rho/T a round, T rounds fixed before the first: rho in all, the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.methods.method import Answer, Done, Finish, Job, Method, Own, Status, chosen_by_noise, finish_party
from colonnade.privacy.block import LARGEST, Block, check_sensible
from colonnade.privacy.events import Charge, Event, Mechanism, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Private, Released
from colonnade.privacy.statement import Trust
from colonnade.problem import L1Ball, LeastSquares, Logistic
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Post, Program, ask_one, expect, receive


@message(30)
class Choose:
    """Coordinator → holder: release the next signed column."""


@message(31)
class Choice:
    """Holder → coordinator: a column with a large slope, and the slope's sign; drawn by the exponential mechanism."""

    index: Released[int]
    sign: Released[int]


def coordinator(job: Job, rounds: int) -> Program[Answer]:
    (holder,) = job.roster.with_columns
    x = np.zeros(len(job.roster.positions[holder]))
    for t in range(rounds):
        note: Note = {"round": t + 1, "step": _step(t)}
        choice = expect((yield Post({holder: Choose()}, (holder,), note)), holder, Choice)
        _move(x, choice.index.value, choice.sign.value, job, t)
    yield from ask_one(holder, Finish(x, 0.0), Done)
    remarks = chosen_by_noise(job.roster.rows, x.size, job.rho / rounds, job.roster.unit.rows)
    return Answer({holder: x}, 0.0, objective=None, gap=None, status=Status.FIXED_ROUNDS, remarks=remarks)


def party(job: Job, block: Block, gate: Gate, rounds: int) -> Program[Own]:
    bounds, x = _bounds(job), np.zeros(block.columns)
    block = block.clipped(bounds.feature)
    y = block.bounded_labels(1.0 if job.problem.loss.classifies else LARGEST)  # residuals are clipped, not these
    request = yield from receive(COORDINATOR, Choose | Finish)
    t = 0
    while not isinstance(request, Finish):
        pull, reach = _slopes(job, bounds, block.scores(x), y, float(np.abs(x).sum()))
        # One row moves a score by at most 2·B·reach: B bounds its entry, reach its slope. A person has several rows.
        delta = 2.0 * bounds.feature * reach * block.unit.rows * block.correlations_slack()
        scores = Private(block.correlations(pull), delta)
        index, sign = gate.noisy_max(scores, rho=job.rho / rounds)
        _move(x, index.value, sign.value, job, t)
        request = yield from ask_one(COORDINATOR, Choice(index, sign), Choose | Finish)
        t += 1
    return (yield from finish_party(block, gate, request))


REPLIES: Replies = {Choose: Choice, Finish: Done}


@dataclass(frozen=True)
class Bounds:
    """Public bounds: entries of A, and for least squares the residuals."""

    feature: float
    residual: float


@dataclass(frozen=True)
class CentralFrankWolfe(Method):
    """Settings: the number of rounds, or None to take it from the budget and the public figures."""

    rounds: int | None = None
    TITLE: ClassVar[str] = "central private Frank-Wolfe"
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = "docs/privacy.md, central Frank-Wolfe"

    def __post_init__(self) -> None:
        if self.rounds is not None and not (isinstance(self.rounds, int) and self.rounds >= 1):
            raise InvalidInput(
                f"rounds must be None (from the budget) or a whole number from 1 on, got {self.rounds!r}",
                "rounds",
            )

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return (Trust.NOBODY,)

    def check(self, job: Job) -> None:
        _bounds(job)
        if job.privacy is not None and job.privacy.trust not in self.trusts:
            raise InvalidInput(f"{self.TITLE} knows one trust model, 'nobody'; got {job.privacy.trust!r}.")
        if len(job.roster.with_columns) != 1 or job.roster.with_columns[0] != job.roster.label:
            raise InvalidInput(
                f"{self.TITLE} needs one party with all columns and the labels: "
                "Federation.split(X, y, parties={'holder': slice(None)}, label='holder')."
            )
        if not isinstance(job.problem.loss, LeastSquares | Logistic) or job.problem.intercept:
            raise InvalidInput(f"{self.TITLE} solves LeastSquares() and Logistic() without an intercept.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        rounds = self._rounds(job)
        event = Event(Mechanism.GUMBEL, job.rho / rounds, math.inf)  # the sensitivity is settled at release
        return {job.roster.label: (Charge(event, rounds, "one signed column number a round"),)}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self._rounds(job))

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate, self._rounds(job))

    def _rounds(self, job: Job) -> int:
        """The T that balances 2Γ/T, the error of T exact steps, with E√T, that of noise shared out over T draws."""
        if self.rounds is not None:
            return self.rounds
        bounds, radius = _bounds(job), _radius(job)
        smoothness, reach = job.problem.loss.smoothness, bounds.residual
        curvature = 4.0 * smoothness * (radius * bounds.feature) ** 2
        columns = len(job.roster.positions[job.roster.label])
        sensitivity = 2.0 * bounds.feature * reach * job.roster.unit.rows
        noise = 2.0 * radius * sensitivity * math.log(2 * columns) / (job.roster.rows * math.sqrt(2.0 * job.rho))
        return min(max(1, int((4.0 * curvature / noise) ** (2.0 / 3.0) + 0.5)), 10_000)


def _step(t: int) -> float:
    return 2.0 / (t + 3)  # from t = 1 on: a first step of 1 would forget that x starts at 0


def _move(x: Floats, index: int, sign: int, job: Job, t: int) -> None:
    """The sign drawn is that of the slope; the vertex is its opposite."""
    x *= 1.0 - _step(t)
    x[index] -= _step(t) * sign * _radius(job)


def _slopes(job: Job, bounds: Bounds, scores: Floats, y: Floats, norm: float) -> tuple[Floats, float]:
    """Each row's slope of the summed loss, and a bound of its size that holds for every row."""
    if isinstance(job.problem.loss, Logistic):
        return -y * expit(-y * scores), float(expit(bounds.feature * norm))
    return np.clip(scores - y, -bounds.residual, bounds.residual), bounds.residual


def _radius(job: Job) -> float:
    if not isinstance(job.problem.constraint, L1Ball):
        raise InvalidInput(
            "private Frank-Wolfe minimises over an L1Ball: give Problem(loss, constraint=co.L1Ball(radius))."
        )
    check_sensible(radius=job.problem.constraint.radius)
    return job.problem.constraint.radius


def _bounds(job: Job) -> Bounds:
    _radius(job)
    if job.privacy is None or job.privacy.feature_bound is None:
        raise InvalidInput(
            "private Frank-Wolfe needs privacy=co.Privacy(..., feature_bound=B), a public bound of |entries|."
        )
    if isinstance(job.problem.loss, Logistic):
        return Bounds(job.privacy.feature_bound, 1.0)
    if job.privacy.label_reach is None:
        raise InvalidInput(
            "least squares under privacy needs Privacy(..., label_range=(low, high)): residuals are clipped to it."
        )
    return Bounds(job.privacy.feature_bound, job.privacy.label_reach)
