"""The plan of a run of Private Gram: all that settings and public figures imply before anything is sent, made once.

A release is planned by the coordinator from public and released figures, and told to the parties (`Figures`). From it
each party computes its own rows, its own sensitivity and its own masks; nothing here sees a row. Noisy labels, where
they are released, come before both.

    sums    a column's sums over the two classes, the size of one class, half the sum of squares of a column
    joint   the Gram matrix of the rows [a, c·1, τ·y]

Sensitivities (docs/understand/privacy/gram.md, Private Gram): with row k of party k within √norm2[k] steps,

    joint   √2·(Σ norm2 + c² + τ²)                                                          in Frobenius norm
    sums    √(Σ 2·norm2·P² (4 if a column may be negative) + (P/step)² + Σ bound²·norm2·(P·step)²/2)

times the rows that one unit may have. P is the largest weight of a label in class sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from colonnade.errors import InvalidInput
from colonnade.fields import Choice, read_choices
from colonnade.kernels.arrays import Floats
from colonnade.kernels.ring import Ring
from colonnade.methods.gram.rule import (
    Extended,
    GramRule,
    PublicColumns,
    RowFrame,
    as_they_are,
    choose,
    noise_levels,
    public_columns,
    rule_rho,
    whole_frame,
)
from colonnade.methods.method import Labels, numbers
from colonnade.model.job import Job, entry_bounds, hat_levels, norms, rounding_room
from colonnade.privacy.block import Block
from colonnade.privacy.events import Audience, Charge, Event, Mechanism
from colonnade.privacy.exchange import ERROR, GROWTH
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.statement import Privacy, Trust
from colonnade.privacy.values import Private
from colonnade.runtime.program import COORDINATOR


class StageName(Choice):
    """A release of a run."""

    SUMS = "sums"
    JOINT = "joint"


class Cross(Choice):
    """How products of columns of two parties are computed."""

    SECURE = "secure"
    NONE = "none"


class SumsBy(Choice):
    """The labels that class sums go by."""

    SECURE = "secure"
    RELEASED = "released"


class Purpose(Choice):
    """What the release is for."""

    PREDICTION = "prediction"
    INFERENCE = "inference"


class Weight(Choice):
    """The weight of the problem's penalty."""

    ASKED = "asked"
    SELECT = "select"


# steps that the largest entry may take
COARSEST = 32
FINEST = 2048
FAST = 32  # bits in which products take one pass
ROUNDING = 0.25  # of the noise: what rounding to whole steps may add to a sum
OWN = Ring(62)  # of sums that a party computes alone: they travel, but never under masks, so width costs little
MARGIN = 12.0  # standard deviations of noise that must fit beside the products
LABEL_LEVELS = 64  # of a real-valued label in class sums
EXACT_BITS = 60  # of sums of products in an exact run: beside them there is room for what floats of them round
HALF = 0.5**0.5  # as a float it lies above 1/√2, so that noise is never less than priced
TRUSTS: dict[str, tuple[Trust, ...]] = {
    Cross.SECURE: (Trust.SECURE, Trust.PARTIES, Trust.CONSORTIUM),
    Cross.NONE: (Trust.NOBODY,),
}
CHOICES: dict[str, type[Choice]] = {"cross": Cross, "labels": SumsBy, "purpose": Purpose, "penalty": Weight}


@dataclass(frozen=True)
class Figures:
    """One release, in public figures."""

    name: StageName
    step: float  # of a column, in its own units after centring and scaling
    bits: int  # of the ring of class sums; in joint what the finest grid was chosen by, and rings follow from lengths
    norm2: Mapping[str, int]  # by party, in roster order: the most that the squares of a row may sum to, in steps
    widths: Mapping[str, int]  # by party: columns of the matrix that enters products with other parties
    constant: int  # c in steps; 0 in sums
    label: int  # τ·Y in steps; P in sums
    rows: int

    @property
    def alone(self) -> bool:
        """Class sums by labels that were released before: every party computes its own."""
        return self.name == StageName.SUMS and not any(self.widths.values())

    def pairs(self, job: Job) -> tuple[tuple[str, str], ...]:
        """Whose columns are multiplied: in class sums everybody's with the label holder's."""
        parties = [p for p in job.roster.parties if self.widths[p]]
        holder = job.roster.label
        pairs = tuple((k, m) for i, k in enumerate(parties) for m in parties[i + 1 :])
        return tuple(pair for pair in pairs if holder in pair) if self.name == StageName.SUMS else pairs


@dataclass(frozen=True)
class GramSettings:
    """Settings of Private Gram: see `PrivateGram`."""

    cross: str = Cross.SECURE
    screen: int | None = None
    labels: str = SumsBy.SECURE
    purpose: str = Purpose.PREDICTION
    penalty: str = Weight.ASKED

    def __post_init__(self) -> None:
        read_choices(self, CHOICES)
        most: object = self.screen
        if most is not None and not (isinstance(most, int) and not isinstance(most, bool) and most >= 1):
            raise InvalidInput(f"screen must be a positive integer, or left out; got {most!r}", "screen")
        idle = ["screen"] * (self.screen is not None) + ["labels"] * (self.labels != SumsBy.SECURE)
        if self.purpose == Purpose.INFERENCE and (self.cross != Cross.SECURE or idle):
            at = idle[0] if idle else "cross"
            raise InvalidInput(
                f"purpose='inference' releases all products of all columns, once: leave {at}={getattr(self, at)!r} out."
            )
        if idle and self.cross != Cross.SECURE:
            what = f"{idle[0]}={getattr(self, idle[0])!r} does nothing with cross={self.cross!r}"
            raise InvalidInput(f"{what}: it is for cross='secure'. Leave it out.")


# ------------------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class Way:
    """What the way in which two parties compute a product adds to it."""

    shares: float  # how often its noise was added, by its variance
    growth: float = 0.0  # of the sensitivity: what errors add to it
    fast: int = FAST  # bits up to which a finer step costs nothing: under encryption none, as errors grow with entries


WAYS: dict[str | None, Way] = {
    None: Way(2.0),  # not named yet
    Trust.SECURE: Way(2.0),
    Trust.CONSORTIUM: Way(1.0),
    Trust.PARTIES: Way(2.0 + ERROR**2, GROWTH, 0),
    Trust.NOBODY: Way(1.0),  # there are none
}


@dataclass(frozen=True)
class PlannedGram:
    """The Gram matrix that is released, from public figures and released class sums."""

    figures: Figures
    extended: Extended
    frame: RowFrame
    rule: GramRule


@dataclass(frozen=True)
class RunPlan:
    """What everybody can work out before anything is sent: made once a run."""

    approved: Job
    settings: GramSettings
    job: Job  # as it runs: of an exact run with bounds, under encryption with the trust of that

    @classmethod
    def of(cls, job: Job, settings: GramSettings, label: float = 1.0) -> RunPlan:
        """`label`: of an exact run, how far labels lie from 0 at most; its other bounds are those of schemas."""
        bounds = Privacy(1.0, 0.5, trust=Trust.SECURE, label_bound=label, allow_large_delta=True)
        return cls(job, settings, replace(job, privacy=bounds) if job.privacy is None else job)

    @property
    def exact(self) -> bool:
        return self.approved.privacy is None

    @property
    def asks_largest(self) -> bool:
        """Whether it must first be known how far labels lie from 0."""
        return self.exact and not self.job.problem.loss.classifies

    @cached_property
    def audience(self) -> Audience:
        return audience(self.job)

    @property
    def way(self) -> Way:
        return way(self.job)

    @cached_property
    def columns(self) -> PublicColumns:
        return public_columns(self.job)

    @cached_property
    def rule(self) -> GramRule:
        sizes = self.job.roster.rows, self.columns.owner.size, rule_rho(self.job)
        # Rows as they are, and the whole budget on one release of them.
        if self.settings.purpose == Purpose.INFERENCE:
            return as_they_are(*sizes[1:])
        classes = self.job.problem.loss.classifies
        hats = self.columns.hats
        return choose(*sizes, classes=classes, keep=self.settings.screen, hats=hats)

    @cached_property
    def sums(self) -> Figures | None:
        if not self.rule.sums:
            return None
        return plan_sums(self.job, self.columns, self.rho(StageName.SUMS), self.labels is not None)

    @cached_property
    def labels(self) -> NoisyLabels | None:
        """Labels that are released before the class sums, where that was asked for: half of what the sums may cost."""
        if self.settings.labels == SumsBy.SECURE or not self.rule.sums:
            return None
        return NoisyLabels(self.job, self.job.rho * self.rule.sums / 2.0, 1.0)

    def gram(self, rule: GramRule, frame: RowFrame) -> PlannedGram:
        """The Gram matrix of the rows that a frame describes."""
        nearest = self.settings.purpose == Purpose.INFERENCE
        known = self.job, self.columns, frame, rule, self.rho(StageName.JOINT)
        return PlannedGram(*plan_joint(*known, nearest=nearest, exact=self.exact), frame, rule)

    def plain_gram(self) -> PlannedGram:
        """That of rows as they are, which is known before anything is released."""
        return self.gram(as_they_are(self.columns.owner.size, self.rule.rho), whole_frame(self.columns))

    def rho(self, stage: StageName) -> float:
        """What a release may cost."""
        if stage == StageName.SUMS:
            return self.job.rho * self.rule.sums / (1.0 if self.labels is None else 2.0)
        return self.job.rho * (1.0 - self.rule.sums)

    def sensitivity(self, figures: Figures) -> float:
        """Of one unit, with what errors of encryption may add to it."""
        bare = self.bare_sensitivity(figures)
        growth = self.way.growth
        return math.nextafter(bare * (1.0 + growth), math.inf) if growth else bare

    def bare_sensitivity(self, figures: Figures) -> float:
        """Of one unit, in the sums and products alone."""
        return (sums_sensitivity if figures.name == StageName.SUMS else joint_sensitivity)(self.job, figures)

    @property
    def stages(self) -> tuple[StageName, ...]:
        """The releases of a run, in order; each is made once."""
        return (StageName.SUMS, StageName.JOINT) if self.rule.sums else (StageName.JOINT,)

    def sds(self, figures: Figures, frame: RowFrame) -> Floats:
        """The noise of every entry of the Gram matrix, in the frame's units."""
        g = 0.0 if self.exact else noise_sd(self.sensitivity(figures), self.rho(StageName.JOINT), figures.step**2)
        label = self.job.roster.parties.index(self.job.roster.label)
        fixed = self.job.problem.loss.classifies
        return noise_levels(self.columns.owner[frame.keep], label, g, labels_fixed=fixed, shares=self.way.shares)

    @property
    def depends_on_row_order(self) -> bool:
        """Whether what leaves depends on where a row stands: noisy labels, unless only members of a consortium are told
        them. Those do not leave it, and sums by them are the same in every order."""
        return self.settings.cross != Cross.SECURE or (self.audience is Audience.ALL and self.labels is not None)


# ------------------------------------------------------------------------------------------------ steps


def plan_sums(job: Job, columns: PublicColumns, rho: float, alone: bool) -> Figures:
    """Class sums of the columns as they are; `alone`: by labels that were released."""
    top = 1 if job.problem.loss.classifies and not alone else LABEL_LEVELS
    largest = float(np.minimum(columns.bound, columns.norms[columns.owner]).max())
    widths = {party: len(places) for party, places in job.roster.positions.items()}
    widths[job.roster.label] = 2
    if alone:
        widths = dict.fromkeys(widths, 0)

    def figures(step: float, bits: int) -> Figures:
        return Figures(StageName.SUMS, step, bits, _norm2(job, columns.norms, step), widths, 0, top, job.roster.rows)

    def noise(made: Figures) -> float:
        return sums_sensitivity(job, made) / math.sqrt(2.0 * rho)

    # Rounding errors of rows have either sign: their sum grows with √n.
    fast = way(job).fast
    return _fitted(figures, noise, lambda made: top * math.sqrt(made.rows / 12.0), largest, lambda _: top, fast)


def plan_joint(
    job: Job,
    columns: PublicColumns,
    frame: RowFrame,
    rule: GramRule,
    rho: float,
    *,
    nearest: bool = False,
    exact: bool = False,
) -> tuple[Figures, Extended]:
    """The Gram matrix of the rows that the frame describes, beside the constant and the label.

    `nearest`: with room for curves that are rounded to the nearest step instead of cut toward zero. `exact`: without
    noise, so that steps are as fine as sums of their products have room for.
    """
    largest = float(columns.reach(frame).max(initial=0.0)) or 1.0
    owners = columns.owner[frame.keep]
    widths = {party: int((owners == k).sum()) for k, party in enumerate(job.roster.parties)}
    widths[job.roster.label] += 1

    def figures(step: float, bits: int) -> Figures:
        norm2 = _norm2(job, frame.norms, step)
        if nearest:
            norm2 = {party: squares + rounding_room(job, party, step) for party, squares in norm2.items()}
        whole = max(1, sum(norm2.values()))
        constant, label = (max(1, round(math.sqrt(share * whole))) for share in (rule.constant_share, rule.label_share))
        # Labels on a grid of a power of two stay what they are.
        if exact:
            label = 1 << (label.bit_length() - 1)
        return Figures(StageName.JOINT, step, bits, norm2, widths, constant, label, job.roster.rows)

    def noise(made: Figures) -> float:
        return joint_sensitivity(job, made) / math.sqrt(2.0 * rho)

    def beside(made: Figures) -> float:
        return max(largest / made.step + 1.0, made.label)

    # Squares of rounding errors, 1/12 each, add up on the diagonal.
    if exact:
        made = _finest(figures, largest)
    else:
        made = _fitted(figures, noise, lambda f: f.rows / 12.0, largest, beside, way(job).fast)
    whole = max(1, sum(made.norm2.values()))
    extended = Extended(math.sqrt(whole) * made.step, job.label_bound, made.constant**2 / whole, made.label**2 / whole)
    return made, extended


def _fitted(
    figures: Callable[[float, int], Figures],
    noise: Callable[[Figures], float],
    rounding: Callable[[Figures], float],
    largest: float,
    beside: Callable[[Figures], float],
    fast: int,
) -> Figures:
    """A step at which rounding is small against the noise, finer where a ring of `fast` bits has room, and the ring it
    needs."""

    def at(levels: int) -> tuple[Figures, int]:
        # A power of two keeps columns of zeros and ones exact.
        step = 2.0 ** math.ceil(math.log2(largest / levels))
        made = figures(step, OWN.bits)
        spread = MARGIN * 1.5 * noise(made)  # of two shares' noise
        products = made.rows * (largest / step + 1.0) * beside(made) + spread
        return made, max(8, math.ceil(math.log2(products)) + 1)

    levels = COARSEST
    while levels < FINEST and rounding(at(levels)[0]) > ROUNDING * noise(at(levels)[0]):
        levels *= 2
    while levels < FINEST and at(2 * levels)[1] <= fast:  # finer is better where it costs nothing
        levels *= 2
    made, bits = at(levels)
    spread = MARGIN * 1.5 * noise(made)
    own = made.rows * float(sum(made.norm2.values()) + 1)
    if max(bits, math.log2(own + spread * max(1.0, square_weight(made))) + 2) > OWN.bits:
        raise InvalidInput(
            f"sums over {made.rows:,} rows at this noise need more than {OWN.bits} bits: spend a larger epsilon, or "
            "tighten row_norm, which sets the noise."
        )
    return replace(made, bits=bits)


def _finest(figures: Callable[[float, int], Figures], largest: float) -> Figures:
    """The finest step at which products of whole rows, summed, and squares of a row stay within their bits."""

    def at(levels: int) -> tuple[Figures, float]:
        made = figures(2.0 ** math.ceil(math.log2(largest / levels)), OWN.bits)
        whole = sum(made.norm2.values()) + made.constant**2 + made.label**2
        return made, whole * max(float(made.rows), 1.0 + sum(made.widths.values()))

    levels = COARSEST
    while at(2 * levels)[1] <= 2.0**EXACT_BITS:
        levels *= 2
    return at(levels)[0]


def _norm2(job: Job, lengths: Floats, step: float) -> dict[str, int]:
    return {p: squares_within(lengths[k], step) for k, p in enumerate(job.roster.parties)}


def squares_within(length: float, step: float) -> int:
    """The most that the squares of a row of this length sum to, in steps.

    A hair above: a row of ones within √k is at the bound exactly, and must not fall over it by rounding.
    """
    return math.floor((length / step) ** 2 * (1 + 1e-9))


def cut_toward_zero(job: Job, party: str, figures: Figures) -> bool:
    """Whether entries of a party's rows as they are are cut: of curves that have no room to be rounded."""
    curves = bool(hat_levels(job, party).any())
    room = squares_within(norms(job).get(party, 0.0), figures.step) + rounding_room(job, party, figures.step)
    return curves and figures.norm2[party] < room


# ------------------------------------------------------------------------------------------------ what a release costs


def joint_sensitivity(job: Job, figures: Figures) -> float:
    """√2·(Σ norm2 + c² + τ²): how far the Gram matrix moves in Frobenius norm when one unit is replaced."""
    whole = sum(figures.norm2.values()) + figures.constant**2 + figures.label**2
    return _up(math.sqrt(2.0) * whole * job.roster.unit.rows)


def sums_sensitivity(job: Job, figures: Figures) -> float:
    """How far class sums, class size and half squares move, each divided by its weight."""
    total = (figures.label / figures.step) ** 2
    top = float(figures.label)
    for party in job.roster.with_columns:
        bound, binary, nonnegative = entry_bounds(job, party)
        norm2 = figures.norm2[party]
        total += (2.0 if nonnegative.all() else 4.0) * norm2 * top**2
        if not binary.all():
            entry = min(math.ceil(float(bound[~binary].max()) / figures.step), math.isqrt(norm2) + 1)
            total += entry**2 * norm2 * (top * figures.step) ** 2 / 2.0
    return _up(math.sqrt(total) * job.roster.unit.rows)


def square_weight(figures: Figures) -> float:
    """Noise of a sum of squares in steps², relative to that of a class sum: the same in the columns' own units."""
    return 2.0 / (figures.step * figures.label)


def noise_sd(sensitivity: float, rho: float, step: float) -> float:
    """The sd of an entry of weight 1, in the columns' own units."""
    return gaussian_sigma(sensitivity, rho) * step


def way(job: Job) -> Way:
    """How products of two parties are computed."""
    assert job.privacy is not None
    return WAYS[job.privacy.trust]


def audience(job: Job) -> Audience:
    """Who sees what parties send: in a consortium its members, who let out what the coordinator publishes."""
    assert job.privacy is not None
    return Audience.CONSORTIUM if job.privacy.trust == Trust.CONSORTIUM else Audience.ALL


def _up(value: float) -> float:
    # Over the rounding of the sums and roots before.
    return math.nextafter(value * (1 + 2**-44), math.inf)


# ------------------------------------------------------------------------------------------------ noisy labels


@dataclass(frozen=True)
class NoisyLabels:
    """Labels with Gaussian noise, released once for so much rho: what parties may then compute with by themselves.

    Leaves   y + N(0, (2Y)²/(2ρ)), one number a row; a row's label moves by at most 2Y.
    Sees     the parties and the coordinator, which sends them on: in a consortium nobody else, elsewhere everybody.
    Use      whoever uses them cuts them to ±limit again, `cut` times their bound, which is free: sensitivities of what
             is computed with them are then those of labels within ±limit. At limit Y the cut keeps the same share of
             labels ±Y on average, `kept`, so that dividing by it makes sums of classes unbiased. Of numbers between
             them it keeps nearly that share too, since the noise is many times Y.
    """

    job: Job
    rho: float
    cut: float

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.job.label_bound * self.job.roster.unit.rows

    @property
    def sd(self) -> float:
        return self.sensitivity / math.sqrt(2.0 * self.rho)

    @property
    def limit(self) -> float:
        return self.cut * self.job.label_bound

    @property
    def kept(self) -> float:
        """E clip(1 + sd·Z, -1, 1), sd in units of Y: what is left of a label ±Y, on average, after noise and cut."""
        if self.cut != 1.0:
            return 1.0
        sd = self.sd / self.job.label_bound
        density = (1.0 - math.exp(-2.0 / sd**2)) / math.sqrt(2.0 * math.pi)
        return 1.0 - 2.0 * float(ndtr(-2.0 / sd)) - sd * density

    @property
    def charge(self) -> Charge:
        event = Event(Mechanism.GAUSSIAN, self.rho, math.inf, audience=audience(self.job))
        return Charge(event, 1, "the labels, noisy")

    def release(self, block: Block, gate: Gate) -> Labels:
        """The label holder's one release."""
        y = block.bounded_labels(self.job.label_bound)
        return Labels(gate.gaussian(Private(y, self.sensitivity), rho=self.rho, audience=audience(self.job)))

    def cut_to(self, labels: Floats) -> Floats:
        """Released labels as they may be used."""
        return np.clip(numbers(labels, (self.job.roster.rows,), COORDINATOR), -self.limit, self.limit)

    def total(self, labels: Floats) -> float:
        """Their sum as they may be used: the same to the bit in every order of rows."""
        return math.fsum(self.cut_to(labels))
