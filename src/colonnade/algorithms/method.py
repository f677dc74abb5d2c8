"""What a method is, and the messages that methods share.

A method is a frozen value that holds its settings, and a file of node programs that read like the paper. It names its
programs, what it asks and answers (`REPLIES`), and its price before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW, Block, Unit
from colonnade.privacy.events import Plan
from colonnade.privacy.gate import Gate, Receipt
from colonnade.privacy.released import Released
from colonnade.privacy.statement import Privacy
from colonnade.problem import Problem
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program

Floats = NDArray[np.float64]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Roster:
    """What everybody knows before a run: who takes part, which places its columns have, who holds the labels."""

    rows: int
    positions: Mapping[str, tuple[int, ...]]  # by party, in the order of the party's columns
    label: str
    unit: Unit = ROW

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.positions)

    @property
    def with_columns(self) -> tuple[str, ...]:
        return tuple(party for party, places in self.positions.items() if places)


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done, as everybody approved it: the problem, who takes part, and what it may cost."""

    problem: Problem
    roster: Roster
    privacy: Privacy | None = None

    @property
    def rho(self) -> float:
        """The whole price of the run that its privacy terms allow, in zCDP."""
        if self.privacy is None:
            raise InvalidInput(
                "this method needs privacy=co.Privacy(epsilon, delta, ...): its noise is set by the budget."
            )
        return rho_for(self.privacy.epsilon, self.privacy.delta)


class Status(Enum):
    """Why a run stopped."""

    CERTIFIED = "gap below tolerance"
    OUT_OF_ROUNDS = "rounds used up before the gap closed"
    FIXED_ROUNDS = "all rounds done; their number was fixed before, since stopping on the data would be a release"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the coordinator's program returns: the model as far as the coordinator may know it."""

    coefficients: Mapping[str, Floats]
    intercept: float
    objective: float | None
    gap: float | None
    status: Status


@dataclass(frozen=True, slots=True)
class Own:
    """What a party's program returns; it stays with the party."""

    coefficients: Floats
    receipt: Receipt = field(default_factory=lambda: Receipt(()))


class Method(Protocol):
    """A method over split columns on a star."""

    REPLIES: ClassVar[Replies]
    TITLE: ClassVar[str]

    DERIVATION: ClassVar[str | None]  # where docs/privacy.md proves what it costs; None where it releases exact values

    def check(self, job: Job) -> None:
        """InvalidInput if this method cannot do the job."""
        ...

    def price(self, job: Job) -> Mapping[str, Plan]:
        """Everything each party would release, before anything is."""
        ...

    def coordinator(self, job: Job) -> Program[Answer]: ...

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]: ...


@message(10)
class SendLabels:
    """Coordinator → label holder: release the labels."""


@message(11)
class Labels:
    """Label holder → coordinator: the labels."""

    values: Released[Array]


@message(12)
class Finish:
    """Coordinator → party: the run is over; these coefficients are yours."""

    coefficients: Array
    intercept: float


@message(13)
class Done:
    """Party → coordinator: finished."""
