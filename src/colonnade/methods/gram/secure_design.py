"""Private Gram between parties that compute together: settings, and what is known before a run.

Leaves   nothing: budgets, steps and noise follow from public figures (schemas, rows, rho).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.methods.gram.design import (
    Figures,
    audience,
    joint_sensitivity,
    noise_sd,
    plan_sums,
    public_columns,
    sums_sensitivity,
)
from colonnade.methods.gram.noisy_labels import NoisyLabels
from colonnade.methods.gram.rings import MOST_BITS, one_ring
from colonnade.methods.gram.rule import GramRule, PublicColumns, RowFrame, choose, noise_levels
from colonnade.methods.gram.secure_products import Stage, block_rows
from colonnade.methods.method import Job
from colonnade.privacy.events import MASKED, Audience, Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.statement import Trust
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.wire import public_digest

SUMS, JOINT = "noisy class sums of the columns", "the noisy Gram matrix of all columns, constant and labels"
WITHIN = "exact inside the consortium, noisy outside"
SUMS_WITHIN = f"class sums of the columns ({WITHIN})"
JOINT_WITHIN = f"the Gram matrix of all columns, constant and labels ({WITHIN})"
TRUSTS: dict[str, tuple[Trust, ...]] = {
    "secure": (Trust.SECURE, Trust.CONSORTIUM),
    "none": (Trust.NOBODY,),
    "sketch": (Trust.NOBODY,),
}


@dataclass(frozen=True)
class GramSettings:
    """Settings of Private Gram: see `PrivateGram`."""

    cross: str = "secure"
    screen: int | None = None
    sketch_rows: int | None = None
    labels: str = "secure"

    def __post_init__(self) -> None:
        if self.cross not in TRUSTS:
            raise InvalidInput(
                f"cross={self.cross!r} is not known; choose one of {', '.join(map(repr, TRUSTS))}", "cross"
            )
        if self.labels not in ("secure", "released"):
            raise InvalidInput(f"labels={self.labels!r} is not known; choose 'secure' or 'released'", "labels")
        for name in ("screen", "sketch_rows"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                raise InvalidInput(f"{name} must be None or a whole number from 1 on, got {value!r}", name)
        idle = [name for name in ("screen", "sketch_rows") if getattr(self, name) is not None]
        idle += ["labels"] * (self.labels != "secure")
        if idle and self.cross != "secure":
            raise InvalidInput(
                f"{idle[0]}={getattr(self, idle[0])!r} does nothing with cross={self.cross!r}: it is for "
                f"cross='secure'. Leave it out."
            )


class Design:
    """What everybody can work out before anything is sent."""

    def __init__(self, job: Job, settings: GramSettings) -> None:
        self.job, self.settings = job, settings

    @cached_property
    def columns(self) -> PublicColumns:
        return public_columns(self.job)

    @cached_property
    def rule(self) -> GramRule:
        # A person with m rows counts m times in every sensitivity: as if the budget were m² times smaller.
        rho = self.job.rho / self.job.roster.unit.rows**2
        classes = self.job.problem.loss.classifies
        return choose(self.job.roster.rows, self.columns.owner.size, rho, classes=classes, keep=self.settings.screen)

    @cached_property
    def sums(self) -> Figures | None:
        return plan_sums(self.job, self.columns, self.rho("sums"), self.labels is not None) if self.rule.sums else None

    @cached_property
    def labels(self) -> NoisyLabels | None:
        """Labels that are released before the class sums, where that was asked for: half of what the sums may cost."""
        if self.settings.labels == "secure" or not self.rule.sums:
            return None
        return NoisyLabels(self.job, self.job.rho * self.rule.sums / 2.0, 1.0)

    def rho(self, name: str) -> float:
        """What a release may cost."""
        if name == "sums":
            return self.job.rho * self.rule.sums / (1.0 if self.labels is None else 2.0)
        return self.job.rho * (1.0 - self.rule.sums)

    def sensitivity(self, figures: Figures) -> float:
        return (sums_sensitivity if figures.name == "sums" else joint_sensitivity)(self.job, figures)

    @property
    def audience(self) -> Audience:
        return audience(self.job)

    @property
    def shares(self) -> int:
        """How often the noise of a product of two parties was added."""
        return 2 if self.audience is Audience.ALL else 1

    @property
    def stages(self) -> tuple[str, ...]:
        """The releases of a run, in order; each is made once."""
        return ("sums", "joint") if self.rule.sums else ("joint",)

    def stage(self, figures: Figures, digest: bytes, bits: Mapping[str, Integers] | None = None) -> Stage:
        """The exchange of masked columns that a release takes; the rings of joint follow from what left before."""
        rings = one_ring(figures.widths, figures.bits) if bits is None else bits
        return Stage(figures.name, figures.length, rings, figures.pairs(self.job), digest)

    def digest(self, prepare: object) -> bytes:
        """What the parties of a stage must have been told alike: the whole message, and what they approved."""
        job, privacy = self.job, self.job.privacy
        agreed = None if privacy is None else sorted(map(repr, asdict(privacy).items()))  # in any order of parties
        # The whole roster: from what its schemas say of both parties follow units, and so the noise of a product.
        terms = agreed, job.problem, job.roster, self.settings
        return public_digest(prepare, terms)

    def sds(self, figures: Figures, frame: RowFrame) -> Floats:
        """The noise of every entry of the Gram matrix, in the frame's units."""
        g = noise_sd(self.sensitivity(figures), self.rho("joint"), figures.step**2)
        label = self.job.roster.parties.index(self.job.roster.label)
        fixed = fixed_labels(self.job, figures)
        return noise_levels(self.columns.owner[frame.keep], label, g, labels_fixed=fixed, shares=self.shares)

    def plans(self) -> dict[str, Plan]:
        """Every party's releases; the masked rows at the most that they can be."""
        sums, joint = (SUMS, JOINT) if self.audience is Audience.ALL else (SUMS_WITHIN, JOINT_WITHIN)
        releases = [(sums, "sums")] * (self.rule.sums > 0) + [(joint, "joint")]
        noisy = tuple(
            Charge(Event(Mechanism.LATTICE, self.rho(name), math.inf, Scope.JOINT, self.audience), 1, what)
            for what, name in releases
        )
        rest = Charge(Event(Mechanism.CONTINUED, 0.0, math.inf, Scope.JOINT, self.audience), 1, f"more of {joint}")
        widest = max(len(places) for places in self.job.roster.positions.values()) + 2
        blocks = len(releases) * -(-self.job.roster.rows // block_rows(widest * MOST_BITS))
        hidden = Charge(MASKED, blocks, "its columns under one-time masks, to the coordinator only, who has no mask")
        plans: dict[str, Plan] = dict.fromkeys(self.job.roster.parties, (*noisy, rest, hidden))
        if self.labels is not None:
            plans[self.job.roster.label] = (self.labels.charge, *plans[self.job.roster.label])
        if self.audience is Audience.CONSORTIUM:
            outside = [replace(c, event=replace(c.event, audience=Audience.ALL)) for c in (*noisy, rest)]
            plans[COORDINATOR] = tuple(outside)
        return plans


def fixed_labels(job: Job, figures: Figures) -> bool:
    """Whether y'y is public: where every label is ±τ."""
    return job.problem.loss.classifies and not figures.buckets
