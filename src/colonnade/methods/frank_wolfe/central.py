"""Private Frank-Wolfe where one party holds all columns and the labels: the central reference.

Solves   min loss(Ax, y)  subject to  ‖x‖₁ ≤ radius, for the logistic loss and for least squares with clipped residuals.
Source   Talwar, Thakurta, Zhang, "Nearly optimal private LASSO", 2015, with the calibration derived in
         docs/understand/privacy/frank-wolfe.md: the exponential mechanism over the 2d signed columns, the sign drawn
         together with the column.
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
from colonnade.methods.frank_wolfe.private_spend import balanced_rounds, ball_of, step_size
from colonnade.methods.method import Done, Finish, Method, chosen_by_noise, finish_party
from colonnade.model.job import Answer, Job, Own, Status
from colonnade.privacy.block import LARGEST, Block, sum_slack
from colonnade.privacy.events import Charge, Event, Mechanism, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Private, Released
from colonnade.problem import LeastSquares, Logistic
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Post, Program, ask_one, expect, message, receive


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
        note: Note = {"round": t + 1, "step": step_size(t)}
        choice = expect((yield Post({holder: Choose()}, (holder,), note)), holder, Choice)
        _move(x, choice.index.value, choice.sign.value, job, t)
    yield from ask_one(holder, Finish(x, 0.0), Done)
    remarks = chosen_by_noise(job.roster.rows, x.size, job.rho / rounds, job.roster.unit.rows)
    return Answer({holder: x}, 0.0, objective=None, gap=None, status=Status.FIXED_ROUNDS, remarks=remarks)


def party(job: Job, block: Block, gate: Gate, rounds: int) -> Program[Own]:
    bound = job.feature_bound
    residual = job.label_bound
    x = np.zeros(block.columns)
    block = block.clipped(bound)
    y = block.bounded_labels(1.0 if job.problem.loss.classifies else LARGEST)  # residuals are clipped, not these
    request = yield from receive(COORDINATOR, Choose | Finish)
    t = 0
    while not isinstance(request, Finish):
        if job.problem.loss.classifies:
            pull = -y * expit(-y * block.scores(x))
            reach = float(expit(bound * float(np.abs(x).sum())))
        else:
            pull = np.clip(block.scores(x) - y, -residual, residual)
            reach = residual
        # One row moves a score by at most 2·B·reach: B bounds its entry, reach its slope. A person has several rows.
        delta = 2.0 * bound * reach * block.unit.rows * sum_slack(block.rows)
        scores = Private(block.correlations(pull), delta)
        index, sign = gate.noisy_max(scores, rho=job.rho / rounds)
        _move(x, index.value, sign.value, job, t)
        request = yield from ask_one(COORDINATOR, Choice(index, sign), Choose | Finish)
        t += 1
    return (yield from finish_party(block, gate, request))


REPLIES: Replies = {Choose: Choice, Finish: Done}


@dataclass(frozen=True)
class CentralFrankWolfe(Method):
    """Private Frank-Wolfe where one party holds all columns and the labels: the central reference.

    Parameters
    ----------
    rounds
        How many picks of a column, fixed before the first: each has the same share of the budget. None: from the budget
        and the public figures.

    Examples
    --------
    >>> import colonnade as co
    >>> [str(trust) for trust in co.CentralFrankWolfe(rounds=20).trusts]
    ['nobody']
    """

    rounds: int | None = None
    TITLE: ClassVar[str] = "central private Frank-Wolfe"
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares, Logistic)
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/frank-wolfe.md, central Frank-Wolfe"

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return (Trust.NOBODY,)

    def check(self, job: Job) -> None:
        _ = ball_of(job), job.feature_bound, job.label_bound  # or InvalidInput
        self.check_trust(job)
        if len(job.roster.with_columns) != 1 or job.roster.with_columns[0] != job.roster.label:
            advice = "Federation.split(X, y, parties={'holder': slice(None)}, label='holder')"
            raise InvalidInput(f"{self.TITLE} needs one party with all columns and the labels: {advice}.")
        if not isinstance(job.problem.loss, self.LOSSES) or job.problem.intercept:
            raise InvalidInput(f"{self.TITLE} solves LeastSquares() and Logistic() without an intercept.")

    def depends_on_row_order(self, job: Job) -> bool:  # noqa: ARG002  sums over all rows alone leave
        return False

    def price(self, job: Job) -> Mapping[str, Plan]:
        rounds = self._rounds(job)
        event = Event(Mechanism.GUMBEL, job.rho / rounds, math.inf)  # the sensitivity is settled at release
        return {job.roster.label: (Charge(event, rounds, "one signed column number a round"),)}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self._rounds(job))

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate, self._rounds(job))

    def _rounds(self, job: Job) -> int:
        if self.rounds is not None:
            return self.rounds
        bound = job.feature_bound
        radius = ball_of(job).radius
        curvature = 4.0 * job.problem.loss.smoothness * (radius * bound) ** 2
        columns = len(job.roster.positions[job.roster.label])
        sensitivity = 2.0 * bound * job.label_bound * job.roster.unit.rows
        # Twice what choices lose on average, in the mean loss: radius·b·log(2d)/n with b = Δ·√(T/2ρ).
        noise = 2.0 * radius * sensitivity * math.log(2 * columns) / (job.roster.rows * math.sqrt(2.0 * job.rho))
        return balanced_rounds(curvature, noise, most=10_000)


def _move(x: Floats, index: int, sign: int, job: Job, t: int) -> None:
    """The sign drawn is that of the slope; the vertex is its opposite."""
    x *= 1.0 - step_size(t)
    x[index] -= step_size(t) * sign * ball_of(job).radius
