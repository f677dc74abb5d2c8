"""One protocol for products of columns of two parties, and its three forms: masks.py, lattice.py and local.py.

Plan     a form prices a run before anything is sent, from the plan that everybody makes for himself (plan.py).
Release  a party's part: what it is told, what it checks, and what it computes and lets out of its own rows.
Collect  the coordinator's part: what has come, made into a noisy Gram matrix of all columns.
Stages   masks and lattice release class sums first, where the rule says so, and then the Gram matrix. Before either the
         coordinator says how rows are made (`Prepare`), and parties go on once all of them were told the same. Which
         columns are centred, scaled or kept follows from what was released before, and costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats, Integers
from colonnade.methods.gram.plan import (
    OWN,
    Figures,
    PlannedGram,
    RunPlan,
    StageName,
    cut_toward_zero,
    noise_sd,
    square_weight,
)
from colonnade.methods.gram.rows import MOST_BITS, Layout, OwnMatrix, Prepared, SumsOfRows, squared_columns
from colonnade.methods.gram.rule import Gram, GramRule, RowFrame, RuleName, prepare, whole_frame
from colonnade.methods.meeting import Losses, exchange_seeds, introduce_itself, meet_coordinator
from colonnade.methods.method import Finish, Labels, SendLabels, numbers
from colonnade.model.job import Job, Sums, uncut
from colonnade.privacy.block import LARGEST, Block
from colonnade.privacy.events import Audience, Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Packed, Released
from colonnade.runtime.program import COORDINATOR, Post, Program, ask_one, message, receive
from colonnade.runtime.wire import public_digest

SUMS = "noisy class sums of the columns"
JOINT = "the noisy Gram matrix of all columns, constant and labels"
WITHIN = "exact inside the consortium, noisy outside"
SUMS_WITHIN = f"class sums of the columns ({WITHIN})"
JOINT_WITHIN = f"the Gram matrix of all columns, constant and labels ({WITHIN})"
STAGES = {StageName.SUMS: "while class sums were computed", StageName.JOINT: "while the Gram matrix was computed"}
WEAK = "at this size and budget the noise is about as large as what the columns can tell: expect little of the model"


@message(142)
class Next:
    """Coordinator → party: send your next rows under their mask."""


@message(143)
class Masked:
    """Party → coordinator, sealed: the next rows of my columns under a one-time mask, each column in its own ring."""

    rows: Released[bytes]


@message(144)
class SendParts:
    """Coordinator → party: send what you computed, without what concerns those who are lost, by place in the roster."""

    lost: tuple[int, ...]


@message(126)
class Parts:
    """Party → coordinator, sealed: its parts of the sums, noisy (inside a consortium exact), and its corrections of the
    products with each partner."""

    parts: tuple[Released[Packed], ...]


@message(145)
class SendDiagonal:
    """Coordinator → party: send the squared lengths of your columns."""


@message(146)
class Diagonal:
    """Party → coordinator, sealed: the squared lengths of its columns, noisy (inside a consortium exact)."""

    squares: Released[Packed]


@message(147)
class Widths:
    """Coordinator → party: the bits of the ring of each column, all parties' in roster order."""

    bits: Integers


@message(148)
class Prepare:
    """Coordinator → all parties, the same to each: how rows of the next release are made, from public figures."""

    name: str
    step: float
    bits: int
    norm2: Integers  # by party, in roster order
    constant: int
    label: int
    keep: Integers  # places among all columns, in roster order
    centre: Floats
    scale: Floats
    labels: Floats  # noisy ones, where class sums go by them; else none


# ------------------------------------------------------------------------------------------------ the protocol


@dataclass(frozen=True)
class Outcome:
    """What a run has released, and what must be said of it."""

    plan: RunPlan  # of an exact run with the bound of labels that it found
    gram: Gram
    frame: RowFrame
    rule: GramRule
    figures: Figures
    sums: Sums | None = None  # released before
    counted: bool = False  # whether these count rows: none were shortened for them
    proven: bool = False  # whether public bounds prove that no row was shortened
    cut: bool = False  # whether entries of curves were cut toward zero
    doubt: str | None = None  # why standard errors would not cover, whatever was released; None: they may
    first: tuple[str, ...] = ()  # remarks
    last: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)  # who was lost, and when


class Form(Protocol):
    """How products of columns of two parties come about."""

    spares: ClassVar[bool]  # whether the programs can go on without a party

    @property
    def plan(self) -> RunPlan: ...

    def check(self) -> None:
        """InvalidInput where a run could not end, before any release is paid for."""
        ...

    def price(self) -> dict[str, Plan]:
        """Every party's releases."""
        ...

    def release(self, block: Block, gate: Gate) -> Program[tuple[Finish, int]]:
        """A party's part, until it is sent the model; and how many of its rows were shortened."""
        ...

    def collect(self, gate: Gate) -> Program[Outcome]:
        """The coordinator's part, until the last release has come."""
        ...


class Staged(Form, Protocol):
    """Masks and lattice: how one stage is released."""

    @property
    def remarks(self) -> tuple[str, ...]: ...

    def with_plan(self, plan: RunPlan) -> Staged: ...

    def fits(self, planned: PlannedGram) -> bool:
        """Whether products of such rows can be computed at all."""
        ...

    def partners(self, told: Prepared, me: str) -> tuple[str, ...]:
        """Who is told the seed of a party's mask."""
        ...

    def release_stage(
        self, told: Prepared, own: SumsOfRows | OwnMatrix, seeds: Mapping[str, bytes], losses: Losses
    ) -> Program[Parts]: ...

    def collect_stage(self, told: Prepared, gate: Gate, losses: Losses) -> Program[Collected]: ...


@dataclass(frozen=True)
class Collected:
    """What came of one release, of those who were not lost: each party's own parts, and the products of each pair."""

    own: Mapping[str, tuple[Integers, ...]]
    cross: Mapping[tuple[str, str], Any]  # numbers


def charges(plan: RunPlan, hidden: Charge, more: int = 1) -> dict[str, Plan]:
    """Every party's releases: class sums and Gram matrix, what leaves in parts of either, and `hidden` rows."""
    sums, joint = (SUMS, JOINT) if plan.audience is Audience.ALL else (SUMS_WITHIN, JOINT_WITHIN)
    words = {StageName.SUMS: sums, StageName.JOINT: joint}
    noisy = tuple(
        Charge(Event(Mechanism.LATTICE, plan.rho(stage), math.inf, Scope.JOINT, plan.audience), 1, words[stage])
        for stage in plan.stages
    )
    rest = Charge(Event(Mechanism.CONTINUED, 0.0, math.inf, Scope.JOINT, plan.audience), more, f"more of {joint}")
    plans: dict[str, Plan] = dict.fromkeys(plan.job.roster.parties, (*noisy, rest, hidden))
    if plan.labels is not None:
        plans[plan.job.roster.label] = (plan.labels.charge, *plans[plan.job.roster.label])
    if plan.audience is Audience.CONSORTIUM:
        outside = [replace(c, event=replace(c.event, audience=Audience.ALL)) for c in (*noisy, rest)]
        plans[COORDINATOR] = tuple(outside)
    return plans


# ------------------------------------------------------------------------------------------------ what is told


def _power(largest: float) -> float:
    """The next power of two: a bound of labels that tells less of them; 1 where all of them are zeros."""
    return float(2.0 ** math.ceil(math.log2(largest))) if 1.0 / LARGEST <= largest <= LARGEST else 1.0


def _with_largest(form: Staged, largest: float) -> tuple[Staged, RunPlan]:
    """An exact run's form and plan, once it is known how far labels lie from 0."""
    plan = RunPlan.of(form.plan.approved, form.plan.settings, _power(largest))
    return form.with_plan(plan), plan


def describe(plan: RunPlan, figures: Figures, frame: RowFrame, labels: Floats) -> Prepare:
    """How rows of a release are made, in words for all parties."""
    return Prepare(
        name=figures.name.value,
        step=figures.step,
        bits=figures.bits,
        norm2=np.array([figures.norm2[p] for p in plan.job.roster.parties]),
        constant=figures.constant,
        label=figures.label,
        keep=frame.keep,
        centre=frame.centre,
        scale=frame.scale,
        labels=labels,
    )


def _tell_how(plan: RunPlan, figures: Figures, frame: RowFrame, labels: Floats, losses: Losses) -> Program[Prepared]:
    """Tell all parties the same."""
    told = describe(plan, figures, frame, labels)
    note = {"round": 1 if figures.name == StageName.SUMS else 2, "stage": figures.name.value}
    yield Post(dict.fromkeys(losses.rest(plan.job.roster.parties), told), (), note)
    return check_prepare(plan, figures.name, told)


def check_prepare(plan: RunPlan, stage: StageName, told: Prepare) -> Prepared:
    """The release as it was told, or an error: what is wrong here would be wrong in what a party releases."""
    job = plan.job
    parties = plan.job.roster.parties
    if told.name != stage or told.norm2.shape != (len(parties),):
        raise ProtocolError(f"{COORDINATOR!r} described a release that is not the next one of this method")
    figures_fit = 8 <= told.bits <= 64 and 1.0 / LARGEST <= told.step <= LARGEST
    if not (figures_fit and (told.norm2 >= 0).all() and min(told.constant, told.label) >= 0):
        raise ProtocolError(f"{COORDINATOR!r} described a release with figures out of range")
    if not told.keep.shape == told.centre.shape == told.scale.shape == (told.keep.size,):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by {told.keep.size} places and {told.scale.size} scales"
        )
    if not ((np.abs(told.centre) <= LARGEST).all() and ((told.scale > 0) & (told.scale <= LARGEST)).all()):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by centres or scales that are no numbers of a usual size"
        )
    every = plan.columns.owner.size
    rising = told.keep.dtype.kind == "i" and (np.diff(told.keep) > 0).all()
    if not (rising and np.isin(told.keep, np.arange(every)).all()):
        raise ProtocolError(f"{COORDINATOR!r} described columns that are not places among {every:,}")
    sums = stage == StageName.SUMS
    widths = {p: int((plan.columns.owner[told.keep] == k).sum()) for k, p in enumerate(parties)}
    if sums:
        widths = {} if plan.sums is None else dict(plan.sums.widths)
    else:
        widths[job.roster.label] += 1
    norm2 = dict(zip(parties, map(int, told.norm2), strict=True))
    figures = Figures(stage, told.step, told.bits, norm2, widths, told.constant, told.label, job.roster.rows)
    # All of it is public: every party works it out for itself.
    if sums:
        agreed = figures == plan.sums and told.keep.size == every
        agreed = agreed and not told.centre.any() and bool((told.scale == 1).all())
    else:
        agreed = min(told.constant, told.label) >= 1
    if not agreed:
        raise ProtocolError(f"{COORDINATOR!r} described another release than the one that was agreed")
    frame = RowFrame(told.keep, told.centre, told.scale, np.zeros(len(parties)), np.zeros(told.keep.size))
    return Prepared(figures, Layout(job, figures, frame), _digest(plan, told))


def check_widths(layout: Layout, told: Widths) -> Integers:
    """The rings as they were told. Whatever they are, noise in them hides what it hides."""
    fits = told.bits.dtype.kind == "i" and told.bits.shape == layout.owner.shape
    if not (fits and ((told.bits >= 1) & (told.bits <= MOST_BITS)).all()):
        raise ProtocolError(f"{COORDINATOR!r} described rings that columns cannot have")
    return told.bits


def _digest(plan: RunPlan, told: Prepare) -> bytes:
    """What the parties of a stage must have been told alike: the whole message, and what they approved."""
    job = plan.approved
    privacy = plan.approved.privacy
    agreed = None if privacy is None else sorted(map(repr, asdict(privacy).items()))  # in any order of parties
    # The whole roster: from what its schemas say of both parties follow units, and so the noise of a product.
    return public_digest(told, (agreed, job.problem, job.roster, plan.settings))


# ------------------------------------------------------------------------------------------------ the coordinator


def collect_in_stages(form: Staged, gate: Gate) -> Program[Outcome]:
    """The coordinator's part of all stages."""
    plan = form.plan
    roster = plan.job.roster
    sums = None
    whole = False
    losses = Losses(plan.job.roster, tolerates_dropout=form.spares)
    yield from introduce_itself(gate, losses)
    if plan.asks_largest:
        came = (yield from ask_one(roster.label, SendLabels(), Labels)).values.value
        (largest,) = numbers(came, (1,), roster.label)
        form, plan = _with_largest(form, float(largest))
    if plan.sums is not None:
        labels = np.zeros(0)
        if plan.labels is not None:
            labels = (yield from ask_one(roster.label, SendLabels(), Labels)).values.value
        told = yield from _tell_how(plan, plan.sums, whole_frame(plan.columns), labels, losses)
        whole = all(map(told.layout.whole, roster.with_columns))
        sums = class_sums(plan, (yield from form.collect_stage(told, gate, losses)), labels)
    planned = plan_gram(form, sums, losses)
    told = yield from _tell_how(plan, planned.figures, planned.frame, np.zeros(0), losses)
    steps = gram_matrix(told.layout, (yield from form.collect_stage(told, gate, losses)))
    return outcome_of(form, planned, told, steps, sums, losses, whole=whole)


def plan_gram(form: Staged, sums: Sums | None, losses: Losses) -> PlannedGram:
    """Rows as the rule has them; where the form has no room for those, rows as they are.

    For those who are not lost: of the others no column is kept.
    """
    plan = form.plan
    lost = [place in losses.places for place in range(len(plan.job.roster.parties))]
    here = np.flatnonzero(~np.array(lost)[plan.columns.owner])
    columns = plan.columns.of(here, np.where(lost, 0.0, plan.columns.norms))
    rule = replace(plan.rule, keep=min(plan.rule.keep, here.size))
    rule, frame = prepare(rule, columns, plan.job.roster.rows, None if sums is None else sums.of(here))
    planned = plan.gram(rule, replace(frame, keep=here[frame.keep]))
    return planned if sums is None or form.fits(planned) else plan.plain_gram()


def outcome_of(
    form: Staged,
    planned: PlannedGram,
    told: Prepared,
    steps: Floats,
    sums: Sums | None,
    losses: Losses,
    *,
    whole: bool,
) -> Outcome:
    """From the noisy Gram matrix in steps²; `whole`: rows of class sums were not shortened."""
    plan = form.plan
    job = form.plan.job
    joint = planned.figures
    present = losses.rest(job.roster.with_columns)
    here = ~np.isin(plan.columns.owner[planned.frame.keep], losses.places)  # the others' rows and columns go
    frame = planned.frame.of(np.flatnonzero(here), losses.places)
    there = np.flatnonzero(np.append(here, [True, True]))
    steps = steps[np.ix_(there, there)]
    return Outcome(
        plan,
        Gram.of(planned.extended, steps * joint.step**2, plan.sds(joint, frame)),
        frame,
        planned.rule,
        joint,
        sums=sums,
        counted=whole,
        proven=all(map(told.layout.whole, present)),
        cut=any(cut_toward_zero(job, name, joint) for name in present),
        doubt=None if uncut(job) else "no declared schemas prove that rows and entries stay as they are",
        first=(WEAK,) if planned.rule.name == RuleName.WEAK else (),
        last=form.remarks,
        absent=losses.in_words(),
    )


# ------------------------------------------------------------------------------------------------ a party


def release_in_stages(form: Staged, block: Block, gate: Gate) -> Program[tuple[Finish, int]]:
    """A party's part of all stages."""
    plan = form.plan
    shortened = 0
    losses = Losses(form.plan.job.roster, tolerates_dropout=form.spares)
    yield from meet_coordinator(gate, losses)
    request = yield from receive(COORDINATOR, SendLabels | Prepare)
    if plan.asks_largest and gate.node == plan.job.roster.label:
        if not isinstance(request, SendLabels):
            raise ProtocolError(f"{COORDINATOR!r} described a release before it asked how large labels are")
        largest = _power(float(np.abs(block.bounded_labels(LARGEST)).max(initial=0.0)))
        form, plan = _with_largest(form, largest)
        request = yield from ask_one(COORDINATOR, Labels(gate.exact(np.array([largest]))), Prepare)
    elif isinstance(request, SendLabels):
        if plan.labels is None:
            raise ProtocolError(f"{COORDINATOR!r} asked for labels, which was not agreed")
        request = yield from ask_one(COORDINATOR, plan.labels.release(block, gate), Prepare)
    for stage in plan.stages:
        if not isinstance(request, Prepare):
            raise ProtocolError(f"{COORDINATOR!r} ended the run before all releases that were agreed")
        told = check_prepare(plan, stage, request)
        seeds = yield from exchange_seeds(told.digest, form.partners(told, gate.node), gate, losses, STAGES[stage])
        own = own_rows(plan, told, block, gate, request.labels)
        parts = yield from form.release_stage(told, own, seeds, losses)
        # Later ones are cut to what class sums say, not to their bound.
        if stage == plan.stages[0]:
            shortened = own.rows.shortened
        request = yield from ask_one(COORDINATOR, parts, Prepare | Finish)
    if not isinstance(request, Finish):
        raise ProtocolError(f"{COORDINATOR!r} described one more release than was agreed")
    return request, shortened


def own_rows(plan: RunPlan, told: Prepared, block: Block, gate: Gate, labels: Floats) -> SumsOfRows | OwnMatrix:
    """What a party adds up in a stage; `labels`: noisy ones, where class sums go by them."""
    if told.figures.name == StageName.SUMS:
        return SumsOfRows(plan, told, block, gate, told.rows(block, gate.node), labels)
    return OwnMatrix(plan, told, block, gate)


# ------------------------------------------------------------------------------------------------ what has come


def own_count(job: Job, figures: Figures, party: str) -> int:
    """How many parts a party computes alone: triangle and sums; or squares, class sums, class size."""
    if figures.alone or figures.name == StageName.JOINT:
        return 2
    return 3 if party == job.roster.label else 1


def sums_weights(figures: Figures, count: int) -> tuple[float, ...]:
    """Noise of squares, class sums and class size."""
    return (square_weight(figures), 1.0, figures.step)[:count]


def gram_matrix(layout: Layout, got: Collected) -> Floats:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps², from parts in units."""
    roster = layout.job.roster
    figures = layout.figures
    units = layout.units.astype(float)
    s = layout.owner.size - 1
    # Columns of all parties first, then the constant, then the label, which stands with its holder's columns.
    order = np.cumsum(np.arange(s + 1) != layout.label) - 1
    order[layout.label] = s + 1
    matrix = np.zeros((s + 2, s + 2))
    matrix[s, s] = roster.rows * figures.constant**2
    if layout.job.problem.loss.classifies:
        matrix[s + 1, s + 1] = roster.rows * figures.label**2
    for name, parts in got.own.items():
        at = order[layout.mine(name)]
        unit = units[layout.mine(name)]
        squares, upper, sums = map(OWN.signed, parts)
        matrix[at[: squares.size], at[: squares.size]] = squares * unit[: squares.size] ** 2
        i, j = np.triu_indices(at.size, 1)
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper * unit[i] * unit[j]
        matrix[at, s] = matrix[s, at] = sums * unit
    for (k, m), product in got.cross.items():
        rows = layout.mine(k)
        columns = layout.mine(m)
        whole = product * np.outer(units[rows], units[columns])
        matrix[np.ix_(order[rows], order[columns])] = whole
        matrix[np.ix_(order[columns], order[rows])] = whole.T
    return matrix


def class_sums(plan: RunPlan, got: Collected, labels: Floats) -> Sums:
    """Class sums in the columns' own units; zeros for those who are lost."""
    job = plan.job
    figures = plan.sums
    owner = plan.columns.owner
    assert figures is not None
    label = job.roster.label
    unit = figures.step / figures.label
    sd = noise_sd(plan.sensitivity(figures), plan.rho(StageName.SUMS), unit)
    both = np.zeros((owner.size, 2))
    squares = np.zeros(owner.size)
    noise = np.full(owner.size, sd)
    for k, name in enumerate(job.roster.parties):
        if name not in got.own:
            continue
        at = np.flatnonzero(owner == k)
        squares[at[squared_columns(job, name)]] = OWN.signed(got.own[name][0]) * figures.step**2 / 2.0
        if name == label or figures.alone:
            both[at] = OWN.signed(got.own[name][1]) * unit
        elif at.size:
            first = (name, label) in got.cross
            both[at] = (got.cross[name, label] if first else got.cross[label, name].T) * unit
            noise[at] = sd * plan.way.shares**0.5
    square_noise = np.full(owner.size, sd)
    if plan.labels is None:
        count = float(OWN.signed(got.own[label][2])[0]) / figures.label
        return Sums(both[:, 0], both[:, 1], count, squares, noise, sd, square_noise)
    # By noisy labels: half the sum and half the difference, the latter made whole again; and the labels' own noise.
    kept = plan.labels.kept
    bound = job.label_bound
    half = (both[:, 0] + both[:, 1]) / 2.0
    apart = (both[:, 0] - both[:, 1]) / (2.0 * kept)
    size = np.where(plan.columns.binary, np.abs(2.0 * half), 2.0 * np.abs(squares))
    spread = np.hypot(noise * math.sqrt((1.0 + kept**-2) / 2.0), np.sqrt(size) / (2.0 * kept))
    count = (job.roster.rows + plan.labels.total(labels) / (kept * bound)) / 2.0
    around = math.sqrt(job.roster.rows) / (2.0 * kept)
    return Sums(half + apart, half - apart, count, squares, spread, around, square_noise)
