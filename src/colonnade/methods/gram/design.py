"""The two releases of Private Gram in whole numbers: steps, rings, weights of constant and label, and what they cost.

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
from typing import Literal

import numpy as np
from scipy.special import ndtr

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.ring import Ring
from colonnade.methods.gram.integer_rows import Grid, entry_bounds, hat_levels, norms
from colonnade.methods.gram.rule import Extended, GramRule, PublicColumns, RowFrame, survival, weigh
from colonnade.methods.method import Labels, numbers
from colonnade.model.job import Job
from colonnade.privacy.block import Block
from colonnade.privacy.events import Audience, Charge, Event, Mechanism
from colonnade.privacy.gate import Gate
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.statement import Privacy, Trust
from colonnade.privacy.values import Private
from colonnade.runtime.program import COORDINATOR

Name = Literal["sums", "joint"]

COARSEST, FINEST = 32, 2048  # steps that the largest entry may take
FAST = 32  # bits in which products take one pass
ROUNDING = 0.25  # of the noise: what rounding to whole steps may add to a sum
OWN = Ring(62)  # of sums that a party computes alone: they travel, but never under masks, so width costs little
MARGIN = 12.0  # standard deviations of noise that must fit beside the products
LABEL_LEVELS = 64  # of a real-valued label in class sums
EXACT_BITS = 60  # of sums of products in an exact run: beside them there is room for what floats of them round
HALF = 0.5**0.5  # as a float it lies above 1/√2, so that noise is never less than priced


@dataclass(frozen=True)
class Figures:
    """One release, in public figures."""

    name: Name
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
        return self.name == "sums" and not any(self.widths.values())

    def pairs(self, job: Job) -> tuple[tuple[str, str], ...]:
        """Whose columns are multiplied: in class sums everybody's with the label holder's."""
        parties, holder = [p for p in job.roster.parties if self.widths[p]], job.roster.label
        pairs = tuple((k, m) for i, k in enumerate(parties) for m in parties[i + 1 :])
        return tuple(pair for pair in pairs if holder in pair) if self.name == "sums" else pairs


# ------------------------------------------------------------------------------------------------ planning


def public_columns(job: Job) -> PublicColumns:
    """What the schemas say in public about all columns, in roster order."""
    parties, lengths = job.roster.parties, norms(job)
    known = {party: entry_bounds(job, party) for party in job.roster.with_columns}
    widths = [len(job.roster.positions[party]) for party in parties]
    level = np.concatenate([hat_levels(job, party) for party in parties])
    return PublicColumns(
        owner=np.repeat(np.arange(len(parties)), widths),
        norms=np.array([lengths.get(party, 0.0) for party in parties]),
        bound=np.concatenate([known[party][0] for party in parties if party in known]),
        binary=np.concatenate([known[party][1] for party in parties if party in known]),
        nonnegative=np.concatenate([known[party][2] for party in parties if party in known]),
        level=level,
        weight=weigh(survival(job.roster.rows, 1, rule_rho(job)), level, job.problem.loss.classifies),
    )


def rule_rho(job: Job) -> float:
    """The budget that rules go by: a person with m rows counts m times, as if it were m² times smaller."""
    return job.rho / job.roster.unit.rows**2


def plan_sums(job: Job, columns: PublicColumns, rho: float, alone: bool) -> Figures:
    """Class sums of the columns as they are; `alone`: by labels that were released."""
    top = 1 if job.problem.loss.classifies and not alone else LABEL_LEVELS
    largest = float(np.minimum(columns.bound, columns.norms[columns.owner]).max())
    widths = {party: len(places) for party, places in job.roster.positions.items()}
    widths[job.roster.label] = 2
    if alone:
        widths = dict.fromkeys(widths, 0)

    def figures(step: float, bits: int) -> Figures:
        return Figures("sums", step, bits, _norm2(job, columns.norms, step), widths, 0, top, job.roster.rows)

    def noise(made: Figures) -> float:
        return sums_sensitivity(job, made) / math.sqrt(2.0 * rho)

    # Rounding errors of rows have either sign: their sum grows with √n.
    fast = _fast_bits(job)
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
    largest = float(_reach(columns, frame).max(initial=0.0)) or 1.0
    owners = columns.owner[frame.keep]
    widths = {party: int((owners == k).sum()) for k, party in enumerate(job.roster.parties)}
    widths[job.roster.label] += 1

    def figures(step: float, bits: int) -> Figures:
        norm2 = _norm2(job, frame.norms, step)
        if nearest:
            norm2 = {party: squares + rounding_room(job, party, step) for party, squares in norm2.items()}
        whole = max(1, sum(norm2.values()))
        constant, label = (max(1, round(math.sqrt(share * whole))) for share in (rule.constant_share, rule.label_share))
        if exact:  # labels on a grid of a power of two stay what they are
            label = 1 << (label.bit_length() - 1)
        return Figures("joint", step, bits, norm2, widths, constant, label, job.roster.rows)

    def noise(made: Figures) -> float:
        return joint_sensitivity(job, made) / math.sqrt(2.0 * rho)

    def beside(made: Figures) -> float:
        return max(largest / made.step + 1.0, made.label)

    # Squares of rounding errors, 1/12 each, add up on the diagonal.
    if exact:
        made = _finest(figures, largest)
    else:
        made = _fitted(figures, noise, lambda f: f.rows / 12.0, largest, beside, _fast_bits(job))
    whole = max(1, sum(made.norm2.values()))
    extended = Extended(math.sqrt(whole) * made.step, label_bound(job), made.constant**2 / whole, made.label**2 / whole)
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
        step = 2.0 ** math.ceil(math.log2(largest / levels))  # a power of two keeps columns of zeros and ones exact
        made = figures(step, OWN.bits)
        products = made.rows * (largest / step + 1.0) * beside(made) + MARGIN * 1.5 * noise(
            made
        )  # of two shares' noise
        return made, max(8, math.ceil(math.log2(products)) + 1)

    levels = COARSEST
    while levels < FINEST and rounding(at(levels)[0]) > ROUNDING * noise(at(levels)[0]):
        levels *= 2
    while levels < FINEST and at(2 * levels)[1] <= fast:  # finer is better where it costs nothing
        levels *= 2
    made, bits = at(levels)
    spread, own = MARGIN * 1.5 * noise(made), made.rows * float(sum(made.norm2.values()) + 1)
    if max(bits, math.log2(own + spread * max(1.0, square_weight(made))) + 2) > OWN.bits:
        raise InvalidInput(
            f"sums over {made.rows:,} rows at this noise need more than {OWN.bits} bits: spend a larger epsilon, or "
            f"tighten "
            "row_norm, which sets the noise."
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


def _fast_bits(job: Job) -> int:
    """Bits up to which a finer step costs nothing: under encryption none, as errors grow with a receiver's entries."""
    assert job.privacy is not None
    return 0 if job.privacy.trust == Trust.PARTIES else FAST


def _norm2(job: Job, lengths: Floats, step: float) -> dict[str, int]:
    return {p: squares_within(lengths[k], step) for k, p in enumerate(job.roster.parties)}


def squares_within(length: float, step: float) -> int:
    """The most that the squares of a row of this length sum to, in steps.

    A hair above: a row of ones within √k is at the bound exactly, and must not fall over it by rounding.
    """
    return math.floor((length / step) ** 2 * (1 + 1e-9))


def rounding_room(job: Job, party: str, step: float) -> int:
    """What rounding to the nearest step may add to the squares of a party's curves, in steps.

    Of a curve of depth L at most L + 1 entries v are not 0, and their squares sum to at most 1/step². Those of entries
    that are longer by ½ sum to Σ v + (L + 1)/4 more, and Σ v ≤ √(L + 1)/step.
    """
    levels = hat_levels(job, party)
    depths = range(1, int(levels.max(initial=0)) + 1)
    room = [0.0, *(math.sqrt(k + 1) / step + (k + 1) / 4.0 for k in depths)]  # of a curve of each depth
    reaching = (np.count_nonzero(levels == k) >> (k - 1) for k in depths)  # curves of this depth or more
    return math.ceil(sum(count * (room[k] - room[k - 1]) for k, count in zip(depths, reaching, strict=True)))


def cut_toward_zero(job: Job, party: str, figures: Figures) -> bool:
    """Whether entries of a party's rows as they are are cut: of curves that have no room to be rounded."""
    curves = bool(hat_levels(job, party).any())
    room = squares_within(norms(job).get(party, 0.0), figures.step) + rounding_room(job, party, figures.step)
    return curves and figures.norm2[party] < room


def _reach(columns: PublicColumns, frame: RowFrame) -> Floats:
    """How far an entry of each kept column can be from zero after centring and scaling."""
    low = np.where(columns.nonnegative[frame.keep], 0.0, -columns.bound[frame.keep])
    ends = np.maximum(np.abs(low - frame.centre), np.abs(columns.bound[frame.keep] - frame.centre))
    return np.minimum(ends * frame.scale, frame.norms[columns.owner[frame.keep]])


# ------------------------------------------------------------------------------------------------ a party's side


def grid(
    job: Job, party: str, figures: Figures, keep: Indices, centre: Floats, scale: Floats, unit: Indices, *, whole: bool
) -> Grid:
    """How a party makes its rows: entries within what its schema says, rows within √norm2.

    `whole`: no row may be shortened, so entries stay within their bounds also after rounding.
    """
    bound, binary, nonnegative = entry_bounds(job, party)
    low, bound = np.where(nonnegative, 0.0, -bound)[keep], bound[keep]
    reach = math.isqrt(figures.norm2[party])  # no entry is longer than its row; and a number that large fits an integer
    ends = [(end - centre) * scale / figures.step / unit for end in (low, bound)]
    low, high = (np.trunc(end * (1 + 1e-12)) if whole else np.rint(end) for end in ends)
    low, high = (np.clip(end, -reach, reach).astype(np.int64) for end in (low, high))
    # A block of a curve is no longer than its number alone, and stays so if its entries are cut toward zero.
    plain = not centre.any() and bool((scale == 1.0).all())
    toward = np.full(keep.size, plain and cut_toward_zero(job, party, figures)) & ~binary[keep]
    return Grid(keep, centre, scale, low, high, figures.norm2[party], figures.step, unit, toward)


def joint_sensitivity(job: Job, figures: Figures) -> float:
    """√2·(Σ norm2 + c² + τ²): how far the Gram matrix moves in Frobenius norm when one unit is replaced."""
    whole = sum(figures.norm2.values()) + figures.constant**2 + figures.label**2
    return _up(math.sqrt(2.0) * whole * job.roster.unit.rows)


def sums_sensitivity(job: Job, figures: Figures) -> float:
    """How far class sums, class size and half squares move, each divided by its weight."""
    total, top = (figures.label / figures.step) ** 2, float(figures.label)
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


def own_count(job: Job, figures: Figures, party: str) -> int:
    """How many parts a party computes alone: triangle and sums; or squares, class sums, class size."""
    if figures.alone or figures.name == "joint":
        return 2
    return 3 if party == job.roster.label else 1


def sums_weights(figures: Figures, count: int) -> tuple[float, ...]:
    """Noise of squares, class sums and class size."""
    return (square_weight(figures), 1.0, figures.step)[:count]


def label_bound(job: Job) -> float:
    """Y: labels of classes are ±1, others are within half of their declared range of its middle."""
    assert job.privacy is not None
    return 1.0 if job.problem.loss.classifies else float(job.privacy.label_reach or 0.0)


def exact_terms(job: Job, label: float) -> Job:
    """The job of an exact run as planning reads it: bounds are those of schemas, of labels the largest; no budget."""
    return replace(job, privacy=Privacy(1.0, 0.5, trust=Trust.SECURE, label_bound=label, allow_large_delta=True))


def audience(job: Job) -> Audience:
    """Who sees what parties send: in a consortium its members, who let out what the coordinator publishes."""
    assert job.privacy is not None
    return Audience.CONSORTIUM if job.privacy.trust == Trust.CONSORTIUM else Audience.ALL


def _up(value: float) -> float:
    return math.nextafter(value * (1 + 2**-44), math.inf)  # over the rounding of the sums and roots before


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
        return 2.0 * label_bound(self.job) * self.job.roster.unit.rows

    @property
    def sd(self) -> float:
        return self.sensitivity / math.sqrt(2.0 * self.rho)

    @property
    def limit(self) -> float:
        return self.cut * label_bound(self.job)

    @property
    def kept(self) -> float:
        """E clip(1 + sd·Z, -1, 1), sd in units of Y: what is left of a label ±Y, on average, after noise and cut."""
        if self.cut != 1.0:
            return 1.0
        sd = self.sd / label_bound(self.job)
        density = (1.0 - math.exp(-2.0 / sd**2)) / math.sqrt(2.0 * math.pi)
        return 1.0 - 2.0 * float(ndtr(-2.0 / sd)) - sd * density

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
