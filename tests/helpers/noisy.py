"""A toy method for the crash tests: every party releases two noisy figures a round, and the coordinator adds them up.

Solves   nothing: its model is what the parties' noise happened to be, so that a second draw would show.
Leaves   one noisy array and one noisy choice from every party in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from colonnade.kernels.arrays import Array
from colonnade.methods.method import Done, Finish, Method
from colonnade.model.job import Answer, Job, Own, Roster, Status
from colonnade.privacy.block import Block
from colonnade.privacy.events import Charge, Event, Mechanism, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Private, Released
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Program, ask, ask_one, last, message, receive, tell

RHO = 0.01
GAUSSIAN = Event(Mechanism.GAUSSIAN, RHO, 1.0)
GUMBEL = Event(Mechanism.GUMBEL, RHO, 1.0)


@message(900)
class Again:
    """Coordinator → party: release once more."""

    total: float


@message(901)
class Noisy:
    """Party → coordinator: column sums with noise, and a noisy choice."""

    sums: Released[Array]
    index: Released[int]
    sign: Released[int]


def coordinator(roster: Roster, rounds: int) -> Program[Answer]:
    total = 0.0
    for t in range(rounds):
        inbox = yield from ask(roster.with_columns, Again(total), Noisy, {"round": t + 1})
        total += sum(float(n.sums.value.sum()) + n.index.value * n.sign.value for n in inbox.values())
    coefficients = {p: np.full(len(roster.positions[p]), total) for p in roster.with_columns}
    yield from tell({p: Finish(coefficients.get(p, np.zeros(0)), 0.0) for p in roster.parties}, Done)
    return Answer(coefficients, 0.0, None, None, Status.OUT_OF_ROUNDS)


def party(block: Block, gate: Gate) -> Program[Own]:
    request = yield from receive(COORDINATOR, Again | Finish)
    while not isinstance(request, Finish):
        exact = Private(block.correlations(np.full(block.rows, 1.0 + request.total)), 1.0)
        noisy = Noisy(gate.gaussian(exact, rho=RHO), *gate.noisy_max(exact, rho=RHO))
        request = yield from ask_one(COORDINATOR, noisy, Again | Finish)
    yield from last({COORDINATOR: Done()})
    return Own(request.coefficients, gate.receipt())


@dataclass(frozen=True)
class NoisySums(Method):
    """Settings: how many rounds."""

    rounds: int = 3
    TITLE: ClassVar[str] = "noisy sums"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = {Again: Noisy, Finish: Done}
    DERIVATION: ClassVar[str] = "a toy"

    def check(self, job: Job) -> None:
        """Solves nothing, so any job will do."""

    def price(self, job: Job) -> dict[str, Plan]:
        plan = (Charge(GAUSSIAN, self.rounds, "noisy sums"), Charge(GUMBEL, self.rounds, "a noisy choice"))
        return {p: plan if places else () for p, places in job.roster.positions.items()}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        return coordinator(job.roster, self.rounds)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(block, gate)
