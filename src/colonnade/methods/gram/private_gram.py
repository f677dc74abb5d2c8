"""Private Gram: one exchange, one noisy Gram matrix of all columns, and everything else for free.

Solves   least squares, or classification through least squares on labels ±1, with ridge, lasso, elastic net, group lasso
         or over an l1 ball: the whole path, error bars and calibrated probabilities come from the same release.
Source   ours. A product of columns of two parties costs an error of order √n where each party must protect its own
         messages; inside a light secure protocol (secure_products.py) it costs what it costs one data holder, or twice the variance.
Cross    secure  every product, noised in full by both of its parties                      trust "secure"
                 the same, exact inside and noised once on the way out                     trust "consortium"
         none    products within parties only, after one noisy release of the labels       trust "nobody"
         sketch  products of noisy sketches of all columns                                 trust "nobody"
Leaves   integers: noisy sums of products of rows clipped to public bounds; and, between parties, masked columns.
Price    rho in all: docs/privacy.md, Private Gram. Which columns are centred, scaled or kept follows from what was
         released before, and costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.ring import gram as own_products
from colonnade.methods.gram.design import (
    OWN,
    Figures,
    Name,
    audience,
    cross_weight,
    grid,
    joint_sensitivity,
    label_bound,
    noise_sd,
    own_count,
    own_weights,
    plan_joint,
    plan_sums,
    public_columns,
    sums_sensitivity,
    whole_frame,
)
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows, entry_bounds, uncut
from colonnade.methods.gram.local import (
    Local,
    LocalParts,
    Products,
    Sketch,
    from_products,
    from_sketches,
    own_products_release,
    sketch_release,
)
from colonnade.methods.gram.noisy_labels import NoisyLabels
from colonnade.methods.gram.secure_products import (
    Deal,
    Hello,
    Introduce,
    Masked,
    Rows,
    Stage,
    block_rows,
    deals,
    introduce,
    meet,
    multiply,
)
from colonnade.methods.gram.solve import (
    Columns,
    Frame,
    Gram,
    Rule,
    Solution,
    Sums,
    choose,
    noise_levels,
    prepare,
    solve,
)
from colonnade.methods.method import (
    Answer,
    Done,
    Finish,
    Floats,
    Job,
    Labels,
    Own,
    SendLabels,
    Status,
    numbers,
    swamped,
)
from colonnade.privacy.block import LARGEST, Block, clean_cells
from colonnade.privacy.events import MASKED, Audience, Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Private, Released
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Packed
from colonnade.problem import LeastSquares, Logistic
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Post, Program, ask, ask_one, last, public_bytes, receive, tell

Integers = NDArray[Any]
SUMS, JOINT = "noisy class sums of the columns", "the noisy Gram matrix of all columns, constant and labels"
WITHIN = "exact inside the consortium, noisy outside"
SUMS_WITHIN = f"class sums of the columns ({WITHIN})"
JOINT_WITHIN = f"the Gram matrix of all columns, constant and labels ({WITHIN})"
SURROGATE = "solved as least squares on labels ±1, which the Gram matrix suffices for, not as the loss that was asked"
CODING = "labels above 0 count as the positive class and all others as the negative one; a private run cannot look"
COVER = (
    "standard errors hold sampling and noise, for labels within their range whose residuals spread alike in all rows"
)
WEAK = "at this size and budget the noise is about as large as what the columns can tell: expect little of the model"
CLEAR = 2.33  # sds of its noise that the covariance of scores and labels must exceed: noise alone does in 1 run of 100
APART = "products between columns of different parties were left out; trust='secure' computes them on masked numbers"


@message(125)
class Prepare:
    """Coordinator → party: how to make your rows of the next release; follows from public and released numbers."""

    name: str
    step: float
    bits: int
    norm2: Integers  # by party, in roster order
    widths: Integers
    constant: int
    label: int
    buckets: int
    keep: Integers  # places among the receiver's columns
    centre: Integers
    scale: Integers
    labels: Integers  # noisy ones, where class sums go by them; else none


@message(126)
class Parts:
    """Party → coordinator: its parts of the sums, noisy (inside a consortium exact), and shares of those that it computed with others."""

    parts: tuple[Released[Packed], ...]


@dataclass(frozen=True)
class Collected:
    """What came of one release: each party's own parts, and the products of each pair."""

    own: Mapping[str, tuple[Integers, ...]]
    cross: Mapping[tuple[str, str], Integers]


# ------------------------------------------------------------------------------------------------ programs


def coordinator(job: Job, gate: Gate, settings: PrivateGram) -> Program[Answer]:
    design, sums = Design(job, settings), None
    keys = yield from introduce(job.roster.parties)
    if design.sums is not None:
        labels = np.zeros(0)
        if design.labels is not None:
            labels = (yield from ask_one(job.roster.label, SendLabels(), Labels)).values.value
        got = yield from _release(design, gate, keys, design.sums, whole_frame(design.columns), labels)
        sums = _sums(design, got, labels)
    rule, frame = prepare(design.rule, design.columns, job.roster.rows, sums)
    joint, extended = plan_joint(job, design.columns, frame, rule, design.rho("joint"), settings.sketch_rows or 0)
    got = yield from _release(design, gate, keys, joint, frame)
    gram = Gram.of(extended, _matrix(job, joint, got) * joint.step**2, design.sds(joint, frame))
    every, bound = design.columns.owner.size, label_bound(job)
    solved = solve(gram, frame, rule, job.problem, rows=job.roster.rows, columns=every, label_bound=bound, sums=sums)
    doubt = "rows were added into buckets" if settings.sketch_rows else _cut_short(job)
    answer = _answer(job, solved, frame, (WEAK,) if rule.name == "weak" else (), doubt)
    yield from tell(_finish(job, answer), Done)
    return answer


def party(job: Job, block: Block, gate: Gate, settings: PrivateGram) -> Program[Own]:
    design, shortened = Design(job, settings), 0
    yield from meet(job.roster.parties, gate)
    request = yield from receive(COORDINATOR, SecureRequest)
    while not isinstance(request, Finish):
        if isinstance(request, SendLabels):
            if design.labels is None:
                raise ProtocolError(f"{COORDINATOR!r} asked for labels, which was not agreed")
            request = yield from ask_one(COORDINATOR, design.labels.release(block, gate), SecureRequest)
            continue
        figures = _checked(design, gate.node, request)
        rows = IntegerRows(block, grid(job, gate.node, figures, request.keep, request.centre, request.scale))
        deal = yield from receive(COORDINATOR, Deal)
        if figures.name == "sums":
            own, shares = yield from _own_sums(design, block, gate, figures, deal, rows, request.labels)
        else:
            own, shares = yield from _own_gram(job, block, gate, figures, deal, rows)
        exact = Private((*own, *shares), design.sensitivity(figures))
        weights = (*own_weights(figures, len(own)), *(cross_weight(figures) for _ in shares))
        rings = (*(OWN for _ in own), *(figures.ring for _ in shares))
        parts = gate.integers(
            exact, weights, rings, rho=design.rho(figures.name), scope=Scope.JOINT, audience=design.audience
        )
        if (
            figures.name == "sums" or design.sums is None
        ):  # later ones are cut to what class sums say, not to their bound
            shortened = rows.shortened
        request = yield from ask_one(COORDINATOR, Parts(parts), SecureRequest)
    return (yield from _finished(block, gate, request, shortened))


def local_coordinator(local: Local, gate: Gate) -> Program[Answer]:
    job, releasing = local.job, local.releasing
    if local.sketch:
        parts = yield from ask(releasing, Sketch(local.buckets), LocalParts)
        gram = from_sketches(local, gate.run, parts)
    else:
        labels = (yield from ask_one(job.roster.label, SendLabels(), Labels)).values.value
        gram = from_products(local, labels, (yield from ask(releasing, Products(labels), LocalParts)))
    bound, every = label_bound(job), local.columns.owner.size
    solved = solve(
        gram, local.frame, local.rule, job.problem, rows=job.roster.rows, columns=every, label_bound=bound, sums=None
    )
    doubt = f"products between parties {'come from sketches' if local.sketch else 'were left out'}"
    answer = _answer(job, solved, local.frame, () if local.sketch else (APART,), doubt)
    yield from tell(_finish(job, answer), Done)
    return answer


def local_party(local: Local, block: Block, gate: Gate) -> Program[Own]:
    shortened, request = 0, (yield from receive(COORDINATOR, LocalRequest))
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = local.labels.release(block, gate)
            case Products(labels) if not local.sketch:
                answer, shortened = own_products_release(local, block, gate, labels)
            case Sketch(buckets) if local.sketch:
                answer, shortened = sketch_release(local, block, gate, buckets)
            case _:  # what is asked for decides the sensitivity, so only what was agreed is answered
                raise ProtocolError(f"{COORDINATOR!r} asked for {type(request).__name__}, which was not agreed")
        request = yield from ask_one(COORDINATOR, answer, LocalRequest)
    return (yield from _finished(block, gate, request, shortened))


def _finish(job: Job, answer: Answer) -> dict[str, Finish]:
    nothing = np.zeros(0)
    return {p: Finish(answer.coefficients.get(p, nothing), answer.intercept) for p in job.roster.parties}


def _finished(block: Block, gate: Gate, told: Finish, shortened: int) -> Program[Own]:
    coefficients = numbers(told.coefficients, (block.columns,), COORDINATOR)
    yield from last({COORDINATOR: Done()})
    return Own(coefficients, gate.receipt(), shortened=shortened)


SecureRequest = SendLabels | Prepare | Finish
LocalRequest = SendLabels | Products | Sketch | Finish
REPLIES: Replies = {
    Introduce: Hello,
    Deal: Parts,
    None: Masked,
    SendLabels: Labels,
    Products: LocalParts,
    Sketch: LocalParts,
    Finish: Done,
}


def _release(
    design: Design,
    gate: Gate,
    keys: Mapping[str, bytes],
    figures: Figures,
    frame: Frame,
    labels: Floats | None = None,
) -> Program[Collected]:
    """Tell the parties how, deal the masks, and add up their parts."""
    roster, stage = design.job.roster, design.stage(figures)
    norm2, widths = (np.array([by[p] for p in roster.parties]) for by in (figures.norm2, figures.widths))
    told = {}
    for k, name in enumerate(roster.parties):
        mine, start = design.columns.owner[frame.keep] == k, np.searchsorted(design.columns.owner, k)
        how = frame.keep[mine] - start, frame.centre[mine], frame.scale[mine]
        head = figures.name, figures.step, figures.bits, norm2, widths
        shown = np.zeros(0) if labels is None else labels
        told[name] = Prepare(*head, figures.constant, figures.label, figures.buckets, *how, shown)
    yield Post(told, (), {"round": 1 if figures.name == "sums" else 2, "stage": figures.name})
    got = yield from tell(deals(stage, gate, keys), Parts)
    counts = {name: own_count(design.job, figures, name) for name in roster.parties}
    parts = {name: [part.value.values for part in got[name].parts] for name in got}
    for name in parts:
        _check_parts(name, parts[name], counts[name], stage)
    own = {name: tuple(parts[name][: counts[name]]) for name in parts}
    shares = {
        (name, partner): parts[name][counts[name] + i]
        for name in parts
        for i, partner in enumerate(stage.partners(name))
    }
    cross = {(k, m): stage.ring.add(shares[k, m], shares[m, k]) for k, m in stage.pairs}
    collected = Collected(own, cross)
    return collected if design.audience is Audience.ALL else _published(design, gate, figures, collected)


def _published(design: Design, gate: Gate, figures: Figures, exact: Collected) -> Collected:
    """Inside a consortium the sums came exact: noise is added here, once, before anything else is done with them."""
    flat = [(name, own_weights(figures, len(parts)), parts) for name, parts in exact.own.items()]
    values = [part for _, _, parts in flat for part in parts] + list(exact.cross.values())
    weights = [w for _, ws, _ in flat for w in ws] + [cross_weight(figures)] * len(exact.cross)
    noisy = iter(
        gate.integers(
            Private(tuple(values), design.sensitivity(figures)),
            tuple(weights),
            tuple([OWN] * (len(values) - len(exact.cross)) + [figures.ring] * len(exact.cross)),
            rho=design.rho(figures.name),
            scope=Scope.JOINT,
        )
    )
    own = {name: tuple(next(noisy).value.values for _ in parts) for name, _, parts in flat}
    return Collected(own, {pair: next(noisy).value.values for pair in exact.cross})


# ------------------------------------------------------------------------------------------------ what a party computes

Computed = tuple[list[Integers], list[Integers]]  # its own parts, and a share with each partner


def _own_gram(job: Job, block: Block, gate: Gate, figures: Figures, deal: Deal, rows: IntegerRows) -> Program[Computed]:
    """Diagonal, upper triangle and column sums of its own rows [a, τ·y]; its share with each partner."""
    holder = gate.node == job.roster.label
    constant, bound = np.full(job.roster.rows, figures.constant), _entry(rows, figures, holder)
    labels = [_label_steps(job, block.own_labels(), figures.label)] if holder else []
    read: Rows = rows.rows
    if figures.buckets:
        buckets = Buckets(public_bytes(gate.run, "buckets"), job.roster.rows, figures.buckets)
        read = buckets.of(rows, figures.bucketed(rows.grid.norm2))
        constant = buckets.of_column(constant, figures.bucketed(figures.constant**2))
        labels = [buckets.of_column(y, figures.bucketed(figures.label**2)) for y in labels]
        bound = math.isqrt(figures.bucketed(max(rows.grid.norm2, figures.label**2 if holder else 1)))
    width = rows.columns + holder
    own, sums = np.zeros((width, width), np.int64), np.zeros(width, np.int64)

    def matrix(first: int, count: int) -> Integers:
        z = np.column_stack([read(first, count), *(y[first : first + count] for y in labels)])
        own[:] += own_products(z, bound=bound)
        sums[:] += z.T @ constant[first : first + count]
        return z

    shares = yield from multiply(figures.stage(job), gate, deal, matrix, bound)
    last_one = width - (holder and fixed_labels(job, figures))  # y'y = n·τ²: public, not sent
    return [np.diag(own)[:last_one], own[np.triu_indices(width, 1)], sums], shares


def _own_sums(
    design: Design, block: Block, gate: Gate, figures: Figures, deal: Deal, rows: IntegerRows, labels: Floats
) -> Program[Computed]:
    """Squares of its columns that are not binary; class sums, by itself or in shares; the label holder the class size."""
    job, holder, squared = design.job, gate.node == design.job.roster.label, _squared(design.job, gate.node)
    squares, sums = np.zeros(int(squared.sum()), np.int64), np.zeros((rows.columns, 2), np.int64)
    count, bound = np.zeros(1, np.int64), _entry(rows, figures, holder)
    classes = None
    if design.labels is not None:
        classes = _class_weights(job, design.labels.cut_to(labels), figures.label)  # cut again, here
    elif holder:
        classes = _class_weights(job, block.own_labels(), figures.label)

    def matrix(first: int, number: int) -> Integers:
        # Where nothing is masked the zeros of a sparse table need not be looked at.
        read = rows.sparse_rows if figures.alone and rows.stay_sparse else rows.rows
        a = read(first, number)
        squares[:] += np.asarray((a[:, squared] ** 2).sum(axis=0)).ravel()
        if classes is None:
            return a
        weights = classes[first : first + number]
        sums[:] += np.asarray(a.T @ weights)
        count[:] += weights[:, 0].sum()
        return weights

    shares = yield from multiply(figures.stage(job), gate, deal, matrix, bound)
    return [
        squares,
        *([sums] if classes is not None else []),
        *([count] if holder and not figures.alone else []),
    ], shares


def fixed_labels(job: Job, figures: Figures) -> bool:
    """Whether y'y is public: where every label is ±τ."""
    return job.problem.loss.classifies and not figures.buckets


def _label_steps(job: Job, labels: Integers, size: int) -> Integers:
    """Labels in whole steps: ±size for classes, the nearest step within ±size otherwise."""
    return np.rint(_cut(job, labels) * size).astype(np.int64)


def _class_weights(job: Job, labels: Integers, top: int) -> Integers:
    """For each row its weight in either class, together `top`: (top, 0) or (0, top) for classes."""
    up = np.rint((1.0 + _cut(job, labels)) / 2.0 * top).astype(np.int64)
    return np.column_stack([up, top - up])


def _cut(job: Job, labels: Integers) -> Floats:
    """Labels relative to their bound, within ±1 whatever they are."""
    return clean_cells(labels, label_bound(job)) / label_bound(job)


def _squared(job: Job, name: str) -> NDArray[np.bool_]:
    """Which columns of a party have a sum of squares of their own: those that are not zeros and ones."""
    return ~entry_bounds(job, name)[1] if job.roster.positions[name] else np.zeros(0, bool)


def _entry(rows: IntegerRows, figures: Figures, holder: bool) -> int:
    """The public bound of an entry of its matrix, in steps."""
    ends = np.concatenate([np.abs(rows.grid.low), np.abs(rows.grid.high), [1]])
    return max(int(ends.max()), figures.label if holder else 1)


def _checked(design: Design, me: str, told: Prepare) -> Figures:
    """The figures as a party was told them, or an error: what is wrong here would be wrong in its release."""
    job = design.job
    parties, n = job.roster.parties, len(job.roster.parties)
    names: dict[str, Name] = {"sums": "sums", "joint": "joint"}
    if told.name not in names or not (told.norm2.shape == told.widths.shape == (n,)):
        raise ProtocolError(f"{COORDINATOR!r} described a release that this method does not have")
    if not (
        8 <= told.bits <= 64
        and 1.0 / LARGEST <= told.step <= LARGEST
        and (told.norm2 >= 0).all()
        and min(told.constant, told.label) >= 0
    ):
        raise ProtocolError(f"{COORDINATOR!r} described a release with figures out of range")
    if not told.keep.shape == told.centre.shape == told.scale.shape:
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by {told.keep.size} places and {told.scale.size} scales"
        )
    if not ((np.abs(told.centre) <= LARGEST).all() and ((told.scale > 0) & (told.scale <= LARGEST)).all()):
        raise ProtocolError(
            f"{COORDINATOR!r} described columns by centres or scales that are no numbers of a usual size"
        )
    width = len(job.roster.positions[me])
    if not (
        told.keep.dtype.kind == "i" and np.isin(told.keep, np.arange(width)).all() and (np.diff(told.keep) > 0).all()
    ):
        raise ProtocolError(f"{COORDINATOR!r} described columns that are not places among {width:,}")
    norm2, widths = (dict(zip(parties, map(int, values), strict=True)) for values in (told.norm2, told.widths))
    head = names[told.name], told.step, told.bits, norm2, widths, told.constant, told.label, job.roster.rows
    figures = Figures(*head, told.buckets)
    if figures.name == "sums":  # all of it is public: every party works it out for itself
        agreed = figures == design.sums and told.keep.size == width
        agreed = agreed and not told.centre.any() and bool((told.scale == 1).all())
    else:
        agreed = told.buckets == (design.settings.sketch_rows or 0) and min(told.constant, told.label) >= 1
        agreed = agreed and widths[me] == told.keep.size + (me == job.roster.label)
    if not agreed:
        raise ProtocolError(f"{COORDINATOR!r} described another release than the one that was agreed")
    return figures


# ------------------------------------------------------------------------------------------------ what the coordinator makes of it


def _matrix(job: Job, figures: Figures, got: Collected) -> Floats:
    """The noisy Gram matrix of [a, c·1, τ·y] in steps²."""
    roster, ring = job.roster, figures.ring
    s = sum(figures.widths.values()) - 1
    matrix = np.zeros((s + 2, s + 2))
    matrix[s, s], matrix[s + 1, s + 1] = roster.rows * figures.constant**2, roster.rows * figures.label**2
    start, places = 0, {}
    for name in roster.parties:
        width = figures.widths[name] - (name == roster.label)
        at = places[name] = np.array([*range(start, start + width), *([s + 1] if name == roster.label else [])], int)
        start += width
        diagonal, upper, sums = map(OWN.signed, got.own[name])
        matrix[at[: diagonal.size], at[: diagonal.size]] = diagonal
        i, j = np.triu_indices(at.size, 1)
        matrix[at[i], at[j]] = matrix[at[j], at[i]] = upper
        matrix[at, s] = matrix[s, at] = sums
    for (k, m), both in got.cross.items():
        matrix[np.ix_(places[k], places[m])] = ring.signed(both)
        matrix[np.ix_(places[m], places[k])] = ring.signed(both).T
    return matrix


def _sums(design: Design, got: Collected, labels: Floats) -> Sums:
    """Class sums in the columns' own units."""
    job, figures, owner = design.job, design.sums, design.columns.owner
    assert figures is not None
    ring, label, unit = figures.ring, job.roster.label, figures.step / figures.label
    sd = noise_sd(design.sensitivity(figures), design.rho("sums"), unit)
    both, squares, noise = np.zeros((owner.size, 2)), np.zeros(owner.size), np.full(owner.size, sd)
    for k, name in enumerate(job.roster.parties):
        at = np.flatnonzero(owner == k)
        squares[at[_squared(job, name)]] = OWN.signed(got.own[name][0]) * figures.step**2 / 2.0
        if name == label or figures.alone:
            both[at] = OWN.signed(got.own[name][1]) * unit
        elif at.size:
            first = (name, label) in got.cross
            both[at] = ring.signed(got.cross[name, label] if first else got.cross[label, name].T) * unit
            noise[at] = sd * design.shares**0.5
    square_noise = np.full(owner.size, sd)
    if design.labels is None:
        count = float(OWN.signed(got.own[label][2])[0]) / figures.label
        return Sums(both[:, 0], both[:, 1], count, squares, noise, sd, square_noise)
    # By noisy labels: half the sum and half the difference, the latter made whole again; and the labels' own noise.
    kept, bound = design.labels.kept, label_bound(job)
    half, apart = (both[:, 0] + both[:, 1]) / 2.0, (both[:, 0] - both[:, 1]) / (2.0 * kept)
    size = np.where(design.columns.binary, np.abs(2.0 * half), 2.0 * np.abs(squares))
    spread = np.hypot(noise * math.sqrt((1.0 + kept**-2) / 2.0), np.sqrt(size) / (2.0 * kept))
    count = (job.roster.rows + design.labels.total(labels) / (kept * bound)) / 2.0
    around = math.sqrt(job.roster.rows) / (2.0 * kept)
    return Sums(half + apart, half - apart, count, squares, spread, around, square_noise)


def _check_parts(name: str, parts: list[Integers], own: int, stage: Stage) -> None:
    partners = stage.partners(name)
    if len(parts) != own + len(partners):
        raise ProtocolError(f"{name!r} sent {len(parts)} parts where {own + len(partners)} were due")
    for partner, share in zip(partners, parts[own:], strict=True):
        first, second = (name, partner) if (name, partner) in stage.pairs else (partner, name)
        if share.shape != (stage.widths[first], stage.widths[second]):
            raise ProtocolError(f"{name!r} sent a share of shape {share.shape} for its product with {partner!r}")


def _cut_short(job: Job) -> str | None:
    return None if uncut(job) else "no declared schemas prove that rows and entries stay as they are"


def _answer(job: Job, solved: Solution, frame: Frame, remarks: tuple[str, ...], doubt: str | None) -> Answer:
    """`doubt`: why standard errors would not cover, whatever was released; None: as far as is known, they may."""
    every = solved.coefficients.size
    if frame.keep.size < every:
        remarks = (*remarks, f"{frame.keep.size:,} of {every:,} columns were kept; of the others nothing is known")
    doubt = doubt or solved.uncovered
    if solved.signal < CLEAR or (solved.link is not None and solved.link.slope == 0.0):
        remarks = (
            swamped("what scores say of the labels lies within what noise alone would make of it"),
            *remarks,
        )
    about = (SURROGATE, CODING) if job.problem.loss.classifies else ()
    splits = np.cumsum([len(places) for places in job.roster.positions.values()])[:-1]

    def by_party(values: Floats) -> dict[str, Floats]:
        parts = zip(job.roster.parties, np.split(values, splits, axis=-1), strict=True)
        return {name: part for name, part in parts if name in job.roster.with_columns}

    return Answer(
        by_party(solved.coefficients),
        solved.intercept,
        objective=None,  # the data's own objective was not paid for
        gap=None,
        status=Status.ONE_EXCHANGE,
        errors=by_party(solved.errors) if doubt is None else None,
        path=None if solved.path is None else (solved.path.weights, by_party(solved.path.coefficients)),
        link=solved.link,
        remarks=(*about, *remarks, COVER if doubt is None else f"no standard errors: {doubt}"),
    )


# ------------------------------------------------------------------------------------------------ the method


class Design:
    """What everybody can work out before anything is sent."""

    def __init__(self, job: Job, settings: PrivateGram) -> None:
        self.job, self.settings = job, settings

    @cached_property
    def columns(self) -> Columns:
        return public_columns(self.job)

    @cached_property
    def rule(self) -> Rule:
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

    def stage(self, figures: Figures) -> Stage:
        return figures.stage(self.job)

    def sds(self, figures: Figures, frame: Frame) -> Floats:
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
        widest = max(len(places) for places in self.job.roster.positions.values()) + 2
        blocks = len(releases) * -(-self.job.roster.rows // block_rows(widest, 64))
        hidden = Charge(MASKED, blocks, "its columns under one-time masks, to the other parties only")
        plans: dict[str, Plan] = dict.fromkeys(self.job.roster.parties, (*noisy, hidden))
        if self.labels is not None:
            plans[self.job.roster.label] = (self.labels.charge, *plans[self.job.roster.label])
        if self.audience is Audience.CONSORTIUM:
            plans[COORDINATOR] = tuple(replace(c, event=replace(c.event, audience=Audience.ALL)) for c in noisy)
        return plans


@dataclass(frozen=True)
class PrivateGram:
    """Settings.

    cross        how products of columns of two parties are computed: "secure", "none" or "sketch" (see above).
    screen       keep at most so many columns, chosen by their noisy class sums; None: from the budget and the sizes.
    sketch_rows  add the rows into so many buckets before they are multiplied: fewer bytes, more noise; None: no.
    labels       what class sums go by: "secure", the labels themselves, in products with every column; or "released",
                 noisy labels, with which every party sums by itself: far fewer bytes with thousands of columns.
    """

    cross: str = "secure"
    screen: int | None = None
    sketch_rows: int | None = None
    labels: str = "secure"
    TITLE: ClassVar[str] = "private Gram"
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = "docs/privacy.md, Private Gram"

    def __post_init__(self) -> None:
        if self.cross not in TRUSTS:
            raise InvalidInput(f"cross={self.cross!r} is not known; choose one of {', '.join(map(repr, TRUSTS))}")
        if self.labels not in ("secure", "released"):
            raise InvalidInput(f"labels={self.labels!r} is not known; choose 'secure' or 'released'")
        for name in ("screen", "sketch_rows"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                raise InvalidInput(f"{name} must be None or a whole number from 1 on, got {value!r}")
        idle = [name for name in ("screen", "sketch_rows") if getattr(self, name) is not None]
        idle += ["labels"] * (self.labels != "secure")
        if idle and self.cross != "secure":
            raise InvalidInput(
                f"{idle[0]}={getattr(self, idle[0])!r} does nothing with cross={self.cross!r}: it is for cross='secure'. Leave it out."
            )

    @property
    def trusts(self) -> tuple[str, ...]:
        return TRUSTS[self.cross]

    def check(self, job: Job) -> None:
        if job.privacy is None:
            raise InvalidInput(
                "private Gram needs privacy=co.Privacy(epsilon, delta, trust='secure', ...): its noise is set by the budget."
            )
        if job.privacy.trust not in self.trusts:
            fitting = " or ".join(repr(c) for c, trusts in TRUSTS.items() if job.privacy.trust in trusts)
            raise InvalidInput(
                f"cross={self.cross!r} protects under trust {' or '.join(repr(str(trust)) for trust in TRUSTS[self.cross])}, and privacy= "
                f"asks for trust={str(job.privacy.trust)!r}. Take cross={fitting}, or another trust model."
            )
        if not isinstance(job.problem.loss, LeastSquares | Logistic):
            raise InvalidInput(
                f"{self.TITLE} solves LeastSquares() and, through it, Logistic(); got {job.problem.loss!r}."
            )
        if isinstance(job.problem.loss, LeastSquares) and job.privacy.label_reach is None:
            raise InvalidInput(
                "least squares under privacy needs Privacy(..., label_range=(low, high)): labels are clipped to it."
            )
        if len(job.roster.parties) > MOST_PARTIES:
            raise InvalidInput(
                f"{self.TITLE} runs between at most {MOST_PARTIES} parties; there are {len(job.roster.parties)}."
            )
        if self.sketch_rows is not None and self.sketch_rows > job.roster.rows:
            raise InvalidInput(f"sketch_rows={self.sketch_rows} is more than the {job.roster.rows:,} rows.")
        public_columns(job)  # every bound must be there
        if self.labels != "secure" and Design(job, self).labels is None:
            raise InvalidInput(
                f"labels={self.labels!r} does nothing here: class sums go by them, and with numbers as labels, {job.roster.rows:,} rows "
                f"and this budget there are none, so that no labels are released. Nothing was sent. Leave it out, or set screen=."
            )

    def price(self, job: Job) -> Mapping[str, Plan]:
        return Design(job, self).plans() if self.cross == "secure" else Local(job, self.cross == "sketch").plans()

    def by_place(self, job: Job) -> bool:
        """Whether what leaves depends on where a row stands: noisy labels, or sums of buckets.

        Labels that members of a consortium alone are told do not leave it, and sums by them are the same in every order.
        """
        if self.cross != "secure" or self.sketch_rows is not None:
            return True
        return audience(job) is Audience.ALL and Design(job, self).labels is not None

    def relays(self, job: Job) -> bool:  # noqa: ARG002  in every job alike
        """Whether parties talk to each other, sealed."""
        return self.cross == "secure"

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        if self.cross == "secure":
            return coordinator(job, gate, self)
        return local_coordinator(Local(job, self.cross == "sketch"), gate)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        if self.cross == "secure":
            return party(job, block, gate, self)
        return local_party(Local(job, self.cross == "sketch"), block, gate)


MOST_PARTIES = 32
TRUSTS: dict[str, tuple[str, ...]] = {
    "secure": (Trust.SECURE, Trust.CONSORTIUM),
    "none": (Trust.NOBODY,),
    "sketch": (Trust.NOBODY,),
}
