"""Private Gram between parties that compute together: settings, what is known before a run, and rings that fit.

Units    a column of zeros and ones, one of class labels too, is a whole number of steps long or nothing: it enters as 0
         and 1 (labels as ±1), and its length in steps f, the unit, is kept aside. Noise shrinks with it: an entry of
         columns i and j in units has sd g/(fᵢfⱼ) where one in steps has g. Only where the schema proves that no row is
         over its bound, and rows are neither centred nor scaled: a row of ones that is shortened has no ones left.
Rings    column i is masked modulo 2^wᵢ, and a product of two columns is known modulo the lesser of both. |xᵢᵀxⱼ| is at
         most √(dᵢdⱼ), d the squared lengths, which leave with their noise before the rest; where xᵢ is zeros and ones
         also dᵢ times the largest entry of xⱼ; and eight sds of noise. A product that does not fit is wrong, and tells
         no more: noise modulo 2^w hides what noise hides.
Leaves   nothing: budgets, steps, noise and rings follow from public figures (schemas, rows, rho) and what left before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
from colonnade.methods.gram.design import (
    HALF,
    Figures,
    NoisyLabels,
    audience,
    exact_terms,
    joint_sensitivity,
    noise_sd,
    plan_joint,
    plan_sums,
    public_columns,
    rule_rho,
    squares_within,
    sums_sensitivity,
)
from colonnade.methods.gram.integer_rows import entry_bounds, norms
from colonnade.methods.gram.lwe_design import ERROR, GROWTH, secrets_of
from colonnade.methods.gram.lwe_products import block_rows as encrypted_rows
from colonnade.methods.gram.rule import (
    Extended,
    GramRule,
    PublicColumns,
    RowFrame,
    as_they_are,
    choose,
    noise_levels,
    whole_frame,
)
from colonnade.methods.gram.secure_products import Stage, block_rows
from colonnade.model.job import Job
from colonnade.privacy.events import EXACT, HIDDEN, MASKED, Audience, Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.lattice import TABLE
from colonnade.privacy.statement import Trust
from colonnade.runtime.program import COORDINATOR

SUMS, JOINT = "noisy class sums of the columns", "the noisy Gram matrix of all columns, constant and labels"
JOINT_EXACT = "the exact Gram matrix of all columns, constant and labels"
WITHIN = "exact inside the consortium, noisy outside"
SUMS_WITHIN = f"class sums of the columns ({WITHIN})"
JOINT_WITHIN = f"the Gram matrix of all columns, constant and labels ({WITHIN})"
TRUSTS: dict[str, tuple[Trust, ...]] = {
    "secure": (Trust.SECURE, Trust.PARTIES, Trust.CONSORTIUM),
    "none": (Trust.NOBODY,),
}


@dataclass(frozen=True)
class GramSettings:
    """Settings of Private Gram: see `PrivateGram`."""

    cross: str = "secure"
    screen: int | None = None
    labels: str = "secure"
    purpose: str = "prediction"
    penalty: str = "asked"

    def __post_init__(self) -> None:
        if self.cross not in TRUSTS:
            raise InvalidInput(
                f"cross={self.cross!r} is not known; choose one of {', '.join(map(repr, TRUSTS))}", "cross"
            )
        if self.labels not in ("secure", "released"):
            raise InvalidInput(f"labels={self.labels!r} is not known; choose 'secure' or 'released'", "labels")
        if self.purpose not in ("prediction", "inference"):
            raise InvalidInput(f"purpose={self.purpose!r} is not known; choose 'prediction' or 'inference'", "purpose")
        if self.penalty not in ("asked", "select"):
            raise InvalidInput(f"penalty={self.penalty!r} is not known; choose 'asked' or 'select'", "penalty")
        value = self.screen
        if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            raise InvalidInput(f"screen must be a whole number from 1 on, or left out; got {value!r}", "screen")
        idle = ["screen"] * (self.screen is not None) + ["labels"] * (self.labels != "secure")
        if self.purpose == "inference" and (self.cross != "secure" or idle):
            at = idle[0] if idle else "cross"
            raise InvalidInput(
                f"purpose='inference' releases all products of all columns, once: leave {at}={getattr(self, at)!r} out."
            )
        if idle and self.cross != "secure":
            raise InvalidInput(
                f"{idle[0]}={getattr(self, idle[0])!r} does nothing with cross={self.cross!r}: it is for "
                f"cross='secure'. Leave it out."
            )


@dataclass(frozen=True)
class PlannedGram:
    """The Gram matrix that is released, from public figures and released class sums."""

    figures: Figures
    extended: Extended
    frame: RowFrame
    rule: GramRule


class Design:
    """What everybody can work out before anything is sent."""

    def __init__(self, job: Job, settings: GramSettings, label: float = 1.0) -> None:
        """`label`: of an exact run, how far labels lie from 0 at most, to whom it concerns."""
        self.approved, self.settings, self.exact = job, settings, job.privacy is None
        self.job = exact_terms(job, label) if self.exact else under_encryption(job, settings)
        self.audience = audience(self.job)

    @cached_property
    def columns(self) -> PublicColumns:
        return public_columns(self.job)

    @cached_property
    def rule(self) -> GramRule:
        sizes = self.job.roster.rows, self.columns.owner.size, rule_rho(self.job)
        if self.settings.purpose == "inference":  # rows as they are, and the whole budget on one release of them
            return as_they_are(*sizes[1:])
        classes, hats = self.job.problem.loss.classifies, self.columns.hats
        return choose(*sizes, classes=classes, keep=self.settings.screen, hats=hats)

    @cached_property
    def sums(self) -> Figures | None:
        return plan_sums(self.job, self.columns, self.rho("sums"), self.labels is not None) if self.rule.sums else None

    @cached_property
    def labels(self) -> NoisyLabels | None:
        """Labels that are released before the class sums, where that was asked for: half of what the sums may cost."""
        if self.settings.labels == "secure" or not self.rule.sums:
            return None
        return NoisyLabels(self.job, self.job.rho * self.rule.sums / 2.0, 1.0)

    def plan(self, rule: GramRule, frame: RowFrame) -> PlannedGram:
        """The Gram matrix of the rows that a frame describes."""
        nearest = self.settings.purpose == "inference"
        known = self.job, self.columns, frame, rule, self.rho("joint")
        return PlannedGram(*plan_joint(*known, nearest=nearest, exact=self.exact), frame, rule)

    def plan_as_they_are(self) -> PlannedGram:
        """That of rows as they are, which is known before anything is released."""
        return self.plan(as_they_are(self.columns.owner.size, self.rule.rho), whole_frame(self.columns))

    def rho(self, name: str) -> float:
        """What a release may cost."""
        if name == "sums":
            return self.job.rho * self.rule.sums / (1.0 if self.labels is None else 2.0)
        return self.job.rho * (1.0 - self.rule.sums)

    @property
    def lattice(self) -> bool:
        """Whether products are computed by two parties alone."""
        return self.job.privacy is not None and self.job.privacy.trust == Trust.PARTIES

    @property
    def switched(self) -> bool:
        """Whether that is so though trust "secure" was asked for."""
        asked = self.approved.privacy
        return asked is not None and self.lattice and asked.trust != Trust.PARTIES

    @cached_property
    def secrets(self) -> int:
        """Of all its releases, where products are computed under encryption: at most so many."""
        first = 0 if self.sums is None else secrets_of(self.sums.widths, self.sums.pairs(self.job))
        return first + secrets_of(*exchanged(self.job, "joint"))

    def sensitivity(self, figures: Figures) -> float:
        """Of one unit, with what errors of encryption may add to it."""
        bare = self.bare_sensitivity(figures)
        return math.nextafter(bare * (1.0 + GROWTH), math.inf) if self.lattice else bare

    def bare_sensitivity(self, figures: Figures) -> float:
        """Of one unit, in the sums and products alone."""
        return (sums_sensitivity if figures.name == "sums" else joint_sensitivity)(self.job, figures)

    @property
    def shares(self) -> float:
        """How often the noise of a product of two parties was added, by its variance."""
        if self.lattice:
            return 2.0 + ERROR**2
        return 2.0 if self.audience is Audience.ALL else 1.0

    @property
    def stages(self) -> tuple[str, ...]:
        """The releases of a run, in order; each is made once."""
        return ("sums", "joint") if self.rule.sums else ("joint",)

    def stage(self, figures: Figures, digest: bytes, bits: Mapping[str, Integers] | None = None) -> Stage:
        """The exchange of masked columns that a release takes; the rings of joint follow from what left before, those
        of a release before which no lengths have left are all the same."""
        if bits is None:
            bits = {party: np.full(width, figures.bits, np.int64) for party, width in figures.widths.items()}
        return Stage(figures.name, figures.rows, bits, figures.pairs(self.job), digest)

    def sds(self, figures: Figures, frame: RowFrame) -> Floats:
        """The noise of every entry of the Gram matrix, in the frame's units."""
        g = 0.0 if self.exact else noise_sd(self.sensitivity(figures), self.rho("joint"), figures.step**2)
        label = self.job.roster.parties.index(self.job.roster.label)
        fixed = self.job.problem.loss.classifies
        return noise_levels(self.columns.owner[frame.keep], label, g, labels_fixed=fixed, shares=self.shares)

    def plans(self) -> dict[str, Plan]:
        """Every party's releases; the masked rows at the most that they can be."""
        if self.exact:
            return self._exact_plans()
        sums, joint = (SUMS, JOINT) if self.audience is Audience.ALL else (SUMS_WITHIN, JOINT_WITHIN)
        releases = [(sums, self.rho("sums"))] * (self.rule.sums > 0) + [(joint, self.rho("joint"))]
        hidden, more = self._hidden(len(releases)), len(releases) if self.lattice else 1
        noisy = tuple(
            Charge(Event(Mechanism.LATTICE, rho, math.inf, Scope.JOINT, self.audience), 1, what)
            for what, rho in releases
        )
        rest = Charge(Event(Mechanism.CONTINUED, 0.0, math.inf, Scope.JOINT, self.audience), more, f"more of {joint}")
        plans: dict[str, Plan] = dict.fromkeys(self.job.roster.parties, (*noisy, rest, hidden))
        if self.labels is not None:
            plans[self.job.roster.label] = (self.labels.charge, *plans[self.job.roster.label])
        if self.audience is Audience.CONSORTIUM:
            outside = [replace(c, event=replace(c.event, audience=Audience.ALL)) for c in (*noisy, rest)]
            plans[COORDINATOR] = tuple(outside)
        return plans

    def _hidden(self, releases: int) -> Charge:
        if self.lattice:
            return self._encrypted(releases)
        widths = sum(len(places) + 2 for places in self.job.roster.positions.values())
        blocks = releases * -(-self.job.roster.rows // block_rows(widths * MOST_BITS))
        return Charge(MASKED, blocks, "its columns under one-time masks, to the coordinator only, who has no mask")

    def _encrypted(self, releases: int) -> Charge:
        widths, rows = [len(places) + 2 for places in self.job.roster.positions.values()], self.job.roster.rows
        size = encrypted_rows(TABLE[-1].bits * sum(widths), max(widths))
        what = "its columns under lattice encryption, or what it answers to another party's"
        return Charge(HIDDEN, releases * (2 - (-rows // size)), what)

    def _exact_plans(self) -> dict[str, Plan]:
        plan: Plan = (Charge(EXACT, 2, JOINT_EXACT), self._hidden(1))
        plans = dict.fromkeys(self.job.roster.parties, plan)
        if not self.job.problem.loss.classifies:
            holder = self.job.roster.label
            plans[holder] = (Charge(EXACT, 1, "a power of two above all labels"), *plans[holder])
        return plans


# ------------------------------------------------------------------------------------------------ masks or encryption


SENT_BITS = {"sums": 32, "joint": 20}  # of a masked entry, about: what rings that fit come to
HIDDEN_BITS = 27  # of an encrypted one, about
FEWER = 8.0  # times fewer bytes: what makes up for its processor time, and for one more assumption
WORTH = 1e8  # bytes that masked columns take, from which any of it matters


def exchanged(job: Job, name: str) -> tuple[dict[str, int], tuple[tuple[str, str], ...]]:
    """Columns of each party's matrix before any is dropped, and whose are multiplied with whose."""
    roster = job.roster
    widths = {party: len(places) for party, places in roster.positions.items()}
    widths[roster.label] = 2 if name == "sums" else widths[roster.label] + 1
    parties = [party for party, width in widths.items() if width]
    pairs = tuple((k, m) for i, k in enumerate(parties) for m in parties[i + 1 :])
    return widths, tuple(pair for pair in pairs if name == "joint" or roster.label in pair)


def bytes_sent(job: Job, stages: tuple[str, ...]) -> tuple[float, float]:
    """About how many bytes of columns a run sends: under masks, once up; and under encryption, up and down again."""
    masked, hidden = 0.0, 0.0
    for name in stages:
        widths, pairs = exchanged(job, name)
        uploading = {party for pair in pairs for party in pair}
        masked += SENT_BITS[name] * sum(widths[party] for party in uploading)
        hidden += 2 * HIDDEN_BITS * sum(min(widths[k], widths[m]) for k, m in pairs)
    return masked * job.roster.rows / 8, hidden * job.roster.rows / 8


def narrow_remark(design: Design) -> str:
    """What a fit says where encryption took the place of masks."""
    masked, hidden = bytes_sent(design.job, design.stages)
    return (
        "products were computed under lattice encryption, as with trust='parties', since every partner is narrow: "
        f"masked columns would have taken about {masked / hidden:.0f} times the bytes"
    )


def under_encryption(job: Job, settings: GramSettings) -> Job:
    """The job as it runs: with trust "secure" products go under encryption, as with trust "parties", where that sends
    far fewer bytes: every partner is narrow. By public figures alone, so that all parties say the same."""
    assert job.privacy is not None
    plain = settings.cross == "secure" and settings.labels == "secure"
    if job.privacy.trust != Trust.SECURE or not plain:
        return job
    masked, hidden = bytes_sent(job, ("joint",) if settings.purpose == "inference" else ("sums", "joint"))
    if masked < WORTH or masked < FEWER * hidden:
        return job
    from colonnade.methods.gram.lwe_release import fits_encrypted  # it builds on this file

    encrypted = replace(job, privacy=replace(job.privacy, trust=Trust.PARTIES.value))
    return encrypted if fits_encrypted(Design(encrypted, settings)) else job


# ------------------------------------------------------------------------------------------------ rings that fit


SDS = 8.0  # of noise that fit beside a product on either side: it wraps once in 10^15 entries
MOST_BITS = 62  # of a column


@dataclass(frozen=True)
class Layout:
    """The matrices that the parties multiply, one after another: the kept columns of each, and the label's with its
    holder."""

    job: Job
    figures: Figures
    frame: RowFrame  # of all columns

    @cached_property
    def owner(self) -> Integers:
        """Of each column of all matrices: the number of its party."""
        widths = [self.figures.widths[party] for party in self.job.roster.parties]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def label(self) -> int:
        """The place of the label's column: behind those of its holder."""
        holder = self.job.roster.parties.index(self.job.roster.label)
        return int(np.flatnonzero(self.owner == holder)[-1])

    def mine(self, party: str) -> Integers:
        """The places of a party's columns, among them the label's."""
        return np.flatnonzero(self.owner == self.job.roster.parties.index(party))

    @cached_property
    def kept(self) -> dict[str, Integers]:
        """By party: which columns of the frame are its."""
        ends = np.cumsum([len(places) for places in self.job.roster.positions.values()])
        number = np.searchsorted(ends, self.frame.keep, side="right")
        return {party: np.flatnonzero(number == k) for k, party in enumerate(self.job.roster.parties)}

    def places(self, party: str) -> Integers:
        """The kept columns of a party as places among its own."""
        roster = self.job.roster
        before = sum(len(roster.positions[name]) for name in roster.parties[: roster.parties.index(party)])
        return self.frame.keep[self.kept[party]] - before

    def whole(self, party: str) -> bool:
        """Whether columns of zeros and ones enter as they are: rows are as the schema has them, and within bounds.

        Without a schema: whether no row within the declared bound of entries is shortened.
        """
        roster, here = self.job.roster, self.kept[party]
        plain = not self.frame.centre[here].any() and bool((self.frame.scale[here] == 1.0).all())
        if not here.size or not plain:
            return False
        bound, binary, _ = entry_bounds(self.job, party)
        step, norm2 = self.figures.step, self.figures.norm2[party]
        if party not in roster.known:
            most = np.trunc(bound[self.places(party)] / step * (1 + 1e-12))  # in steps, as `grid` has it
            return float(np.square(most).sum()) <= norm2
        known = roster.known[party]
        uncut = known.proven and norms(self.job)[party] >= known.norm and bool((bound >= known.bounds).all())
        ones = step <= 1.0 or not binary.any()  # a 1 is at least a step
        return uncut and ones and squares_within(known.norm, step) <= norm2

    @cached_property
    def units(self) -> Integers:
        """f: the steps that a 1 in each column stands for."""
        units = np.ones(self.owner.size, np.int64)
        for party in self.job.roster.with_columns:
            if self.whole(party):
                here = self.mine(party)[: self.kept[party].size]
                units[here[self._of_columns(party, 1)]] = round(1.0 / self.figures.step)
        if self.job.problem.loss.classifies:
            units[self.label] = self.figures.label
        return units

    def _of_columns(self, party: str, which: int) -> NDArray[np.bool_]:
        """Of the kept columns: whether they are binary (1), or not negative (2)."""
        return np.asarray(entry_bounds(self.job, party)[which][self.places(party)], bool)

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which columns are zeros and ones, and which have no entry below zero."""
        binary, nonnegative = np.zeros(self.owner.size, bool), np.zeros(self.owner.size, bool)
        for party in self.job.roster.with_columns:
            here = self.mine(party)[: self.kept[party].size]
            nonnegative[here] = self._of_columns(party, 2) & (self.frame.centre[self.kept[party]] <= 0.0)
            binary[here] = self._of_columns(party, 1) & (self.units[here] > 1)
        return binary, nonnegative

    @property
    def nonnegative(self) -> NDArray[np.bool_]:
        """Which columns have no entry below zero."""
        return self._kinds[1]

    @cached_property
    def entries(self) -> Floats:
        """How far an entry of each column can be from zero, in units."""
        most = np.full(self.owner.size, float(self.figures.label))
        for party in self.job.roster.with_columns:
            here, places = self.kept[party], self.mine(party)
            bound = entry_bounds(self.job, party)[0][self.places(party)]
            ends = (np.where(self._of_columns(party, 2), 0.0, -bound), bound)
            far = np.maximum(*(np.abs((end - self.frame.centre[here]) * self.frame.scale[here]) for end in ends))
            most[places[: here.size]] = np.minimum(far / self.figures.step + 1.0, self.figures.norm2[party] ** 0.5)
        return np.asarray(most / self.units)

    # ------------------------------------------------------------------------ noise

    def weights(self, party: str) -> tuple[Floats, Floats, Floats]:
        """Of the noise of a party's diagonal, of its upper triangle, of its sums."""
        unit = self.units[self.mine(party)].astype(float)
        i, j = np.triu_indices(unit.size, 1)
        return _up(1.0 / unit**2), _up(HALF / (unit[i] * unit[j])), _up(HALF / unit)

    def cross_weights(self, pair: tuple[str, str]) -> Floats:
        """Of the noise that either party of a pair adds to their product."""
        one, other = (self.units[self.mine(party)].astype(float) for party in pair)
        return _up(HALF / np.outer(one, other))

    # ------------------------------------------------------------------------ rings

    def fit(self, diagonal: Floats, g: float) -> Rings:
        """The ring of every column, from the noisy squared lengths of all of them and the noise g."""
        units = self.units.astype(float)
        lengths = np.maximum(diagonal, 0.0) + SDS * g / units**2 + 1.0
        if self.units[self.label] > 1:
            lengths[self.label] = self.job.roster.rows
        binary, nonnegative = self._kinds
        most = np.sqrt(np.outer(lengths, lengths))
        # As many as there are ones, times the largest entry beside them: 0 where a party's rows are under a step.
        ones = np.where(binary[:, None], np.outer(lengths, self.entries), np.inf)
        most = np.minimum(most, np.minimum(ones, ones.T))
        spread = SDS * g / np.outer(units, units)
        low = np.floor(np.where(np.outer(nonnegative, nonnegative), 0.0, -most) - spread)
        apart = self.owner[:, None] != self.owner
        needed = np.ceil(np.log2(np.ceil(most + spread) - low + 1.0))
        bits = np.where(apart, needed, 1.0).max(axis=1, initial=1.0)
        return Rings(np.minimum(bits, MOST_BITS).astype(np.int64), low.astype(np.int64))

    def by_party(self, bits: Integers) -> dict[str, Integers]:
        return {party: bits[self.mine(party)] for party in self.job.roster.parties}


@dataclass(frozen=True)
class Rings:
    """The bits of each column, and the least that a product of two of them, with its noise, can be."""

    bits: Integers
    low: Integers

    def lift(self, product: Integers, rows: Integers, columns: Integers) -> Integers:
        """The products of some columns, from what they are in their rings."""
        low = self.low[np.ix_(rows, columns)]
        ring = np.minimum.outer(self.bits[rows], self.bits[columns]).astype(np.uint64)
        mask = np.uint64(2**64 - 1) >> (np.uint64(64) - ring)
        return np.asarray(low + ((product.astype(np.uint64) - low.astype(np.uint64)) & mask).astype(np.int64))


def _up(weights: Floats) -> Floats:
    return np.nextafter(weights * (1.0 + 2.0**-50), np.inf)  # noise is never less than priced
