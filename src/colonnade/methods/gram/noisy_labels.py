"""Labels with Gaussian noise, released once: what parties may then compute with by themselves.

Leaves   y + N(0, (2Y)²/(2ρ)), one number a row; a row's label moves by at most 2Y.
Sees     the parties and the coordinator, which sends them on: in a consortium nobody else, elsewhere everybody.
Use      whoever uses them cuts them to ±limit again, which is free: sensitivities of what is computed with them are
         then those of labels within ±limit. For classes and limit Y the cut keeps the same share of every label on
         average, `kept`, so that dividing by it makes sums unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from colonnade.kernels.arrays import Floats
from colonnade.methods.gram.design import audience, label_bound
from colonnade.methods.method import Job, Labels, numbers
from colonnade.privacy.block import Block
from colonnade.privacy.events import Charge, Event, Mechanism
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Private
from colonnade.runtime.program import COORDINATOR


@dataclass(frozen=True)
class NoisyLabels:
    """The release of a job's labels for so much rho, cut to `cut` times their bound afterwards."""

    job: Job
    rho: float
    cut: float

    @property
    def sensitivity(self) -> float:
        return 2.0 * label_bound(self.job) * self.job.roster.unit.rows

    @property
    def sd(self) -> float:
        return self.sensitivity / math.sqrt(2.0 * self.rho)

    @property
    def limit(self) -> float:
        return self.cut * label_bound(self.job)

    @property
    def kept(self) -> float:
        """E clip(1 + sd·Z, -1, 1): how much of a label ±1 is left, on average, after noise and cut."""
        if not (self.job.problem.loss.classifies and self.cut == 1.0):
            return 1.0
        density = (1.0 - math.exp(-2.0 / self.sd**2)) / math.sqrt(2.0 * math.pi)
        return 1.0 - 2.0 * float(ndtr(-2.0 / self.sd)) - self.sd * density

    @property
    def charge(self) -> Charge:
        event = Event(Mechanism.GAUSSIAN, self.rho, math.inf, audience=audience(self.job))
        return Charge(event, 1, "the labels, noisy")

    def release(self, block: Block, gate: Gate) -> Labels:
        """The label holder's one release."""
        y = block.bounded_labels(label_bound(self.job))
        return Labels(gate.gaussian(Private(y, self.sensitivity), rho=self.rho, audience=audience(self.job)))

    def cut_to(self, labels: Floats) -> Floats:
        """Released labels as they may be used."""
        return np.clip(numbers(labels, (self.job.roster.rows,), COORDINATOR), -self.limit, self.limit)

    def total(self, labels: Floats) -> float:
        """Their sum as they may be used: the same to the bit in every order of rows."""
        return math.fsum(self.cut_to(labels))
