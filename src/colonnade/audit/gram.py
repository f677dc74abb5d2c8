"""Attacks on Private Gram: all programs of a run behind real gates, and one unknown row; `ATTACKS` lists them.

Method   two parties and one unknown row (gram_runs.py), scored by what each viewer can compute: how well the first
         table explains what was seen, against the second.
Viewers  coordinator  every message it gets; of two shares the sum: the likelihood ratio
         dealer       the coordinator once more, share by share, with the masks that it dealt
         partner      party "two": its own noise, and even the released matrix, which it never gets
         onlooker     party "two": masked columns of two stages
         reader       the model
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.audit import gram_runs
from colonnade.audit.gram_runs import NAMES, ONE, RAW, TWO, Given, View, World, run
from colonnade.audit.setting import LIKELIHOOD, LIKELIHOOD_OF_ALL, RUN, Adversary, Setting, Target, gate_for
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.ring import Ring, product
from colonnade.methods.gram.design import HALF, Figures, grid, label_bound
from colonnade.methods.gram.design import OWN as OWN_RING
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows
from colonnade.methods.gram.local import Local, LocalParts
from colonnade.methods.gram.noisy_labels import NoisyLabels
from colonnade.methods.gram.secure_design import Design
from colonnade.methods.gram.secure_parts import Parts, Prepare
from colonnade.methods.gram.secure_products import Deal, Masked
from colonnade.methods.method import Finish, Job, Labels
from colonnade.privacy.block import Block
from colonnade.privacy.events import Event, Mechanism, Scope
from colonnade.privacy.mechanisms import gaussian_sigma
from colonnade.privacy.released import Private
from colonnade.privacy.statement import Trust
from colonnade.runtime.program import COORDINATOR, public_bytes

Score = Callable[[World, Setting, View], float]
Parted = dict[str, tuple[Any, ...]]  # parts of a release: of each party, and of both
BOTH = "both"


@dataclass(frozen=True)
class Stated:
    """One stage as the coordinator described it, and what either table would put in."""

    figures: Figures
    rho: float
    told: Mapping[str, Prepare]

    def rows(self, job: Job, blocks: Mapping[str, Block], name: str) -> Integers:
        """A party's matrix in whole numbers, label or class weights included where they belong."""
        told = self.told[name]
        step = grid(job, name, self.figures, told.keep, told.centre, told.scale)
        whole = IntegerRows(blocks[name], step).rows(0, job.roster.rows)
        if name != TWO or self.figures.name == "sums":
            return whole
        return np.column_stack([whole, blocks[TWO].own_labels().astype(np.int64) * self.figures.label])

    def multiplied(self, job: Job, blocks: Mapping[str, Block], name: str) -> Integers:
        """The matrix that a party multiplies with its partner's."""
        if self.figures.name == "sums" and name == TWO:
            return _classes(blocks)
        return self.rows(job, blocks, name)

    def means(self, job: Job, blocks: Mapping[str, Block]) -> Parted:
        """Own parts of each party, and the product of both: what noise is added to."""
        one, two = (self.rows(job, blocks, name) for name in NAMES)
        if self.figures.alone:
            weights = self.by_labels(job)
            return {name: ((a**2).sum(axis=0), a.T @ weights) for name, a in ((ONE, one), (TWO, two))}
        if self.figures.name == "sums":
            up = _classes(blocks)
            own = {ONE: ((one**2).sum(axis=0),), TWO: ((two**2).sum(axis=0), two.T @ up, up[:, :1].sum(axis=0))}
            return {**own, BOTH: (one.T @ up,)}
        gram1, gram2 = one.T @ one, two.T @ two
        c, squares = self.figures.constant, 1 if job.problem.loss.classifies else 2  # y'y is public where labels are ±τ
        return {
            ONE: (np.diag(gram1), gram1[np.triu_indices(2, 1)], c * one.sum(axis=0)),
            TWO: (np.diag(gram2)[:squares], gram2[np.triu_indices(2, 1)], c * two.sum(axis=0)),
            BOTH: (one.T @ two,),
        }

    def by_labels(self, job: Job) -> Integers:
        """Weights of rows in the classes, by the noisy labels that everybody was told."""
        top, labels = self.figures.label, np.clip(self.told[ONE].labels / label_bound(job), -1.0, 1.0)
        up = np.rint((1.0 + labels) / 2.0 * top).astype(np.int64)
        return np.column_stack([up, top - up])

    @property
    def weights(self) -> dict[str, tuple[float, ...]]:
        """Noise of each part in units of σ, of one share."""
        if self.figures.name == "joint":
            return {ONE: (1.0, HALF, HALF), TWO: (1.0, HALF, HALF), BOTH: (HALF,)}
        squares = 2.0 / (self.figures.step * self.figures.label)
        if self.figures.alone:
            return {ONE: (squares, 1.0), TWO: (squares, 1.0)}
        return {ONE: (squares,), TWO: (squares, 1.0, self.figures.step), BOTH: (1.0,)}


def _classes(blocks: Mapping[str, Block]) -> Integers:
    up = (blocks[TWO].own_labels() > 0).astype(np.int64)
    return np.column_stack([up, 1 - up])


def stages(world: World, setting: Setting, view: View) -> list[Stated]:
    """The releases of a run as every party was told them."""
    design = Design(world.job(setting), world.method)
    told = {name: view.all(COORDINATOR, name, Prepare) for name in NAMES}
    stated = []
    for one, two in zip(told[ONE], told[TWO], strict=True):
        norm2, widths = ({n: int(v[k]) for k, n in enumerate(NAMES)} for v in (one.norm2, one.widths))
        figures = Figures(one.name, one.step, one.bits, norm2, widths, one.constant, one.label, world.rows, one.buckets)
        stated.append(Stated(figures, design.rho(one.name), {ONE: one, TWO: two}))
    return stated


def noisy_parts(stage: Stated, parts: Parted) -> Parted:
    """The noisy numbers: each party's own, and the sum of the two shares, the last of either's parts."""
    ring = stage.figures.ring
    if stage.figures.alone:
        return {name: tuple(map(OWN_RING.signed, parts[name])) for name in NAMES}
    own = {name: tuple(map(OWN_RING.signed, parts[name][:-1])) for name in NAMES}
    return {**own, BOTH: (ring.signed(ring.add(parts[ONE][-1], parts[TWO][-1])),)}


def log_ratio(stage: Stated, got: Parted, first: Parted, second: Parted, sensitivity: float, shares: int) -> Floats:
    """log P(got | first)/P(got | second) of the parts that `got` has, for one run or a stack of them; `shares`: noises
    in a product."""
    sigma, total = gaussian_sigma(sensitivity, stage.rho), np.zeros(())
    for name, parts in got.items():
        for part, mean1, mean2, weight in zip(parts, first[name], second[name], stage.weights[name], strict=True):
            total = total + _ratio(part, mean1, mean2, weight * sigma * (shares**0.5 if name == BOTH else 1.0))
    return np.asarray(total)


def _ratio(seen: Integers, mean1: Integers, mean2: Integers, sd: float) -> Floats:
    """The log-ratio of numbers with Gaussian noise, summed over the axes of a mean."""
    shift = np.asarray(mean1, float) - mean2
    middle = (np.asarray(mean1, float) + mean2) / 2.0
    return np.asarray(((seen - middle) * shift).sum(axis=tuple(range(-shift.ndim, 0))) / sd**2)


def sensitivities(view: View) -> list[float]:
    return [what.exact.sensitivity for name, what in view.given if name == ONE]


def likelihood(world: World, setting: Setting, view: View, quiet: str | None = None) -> float:
    """The likelihood ratio of all noisy numbers of one run, but for what a party that looks on released itself."""
    job = world.job(setting)
    tables = [world.blocks(setting, side, only_one=quiet is not None) for side in (True, False)]
    got = {name: view.all(name, COORDINATOR, Parts) for name in NAMES}
    total = _labels(Design(job, world.method).labels, view, tables)
    for number, (stage, sensitivity) in enumerate(zip(stages(world, setting, view), sensitivities(view), strict=True)):
        parts = {name: tuple(part.value.values for part in got[name][number].parts) for name in NAMES}
        noisy = noisy_parts(stage, parts)
        if quiet is not None:
            del noisy[quiet]
        first, second = (stage.means(job, table) for table in tables)
        total += float(log_ratio(stage, noisy, first, second, sensitivity, 2 if quiet is None else 1))
    return total


def _labels(agreed: NoisyLabels | None, view: View, tables: Sequence[Mapping[str, Block]]) -> float:
    """The likelihood ratio of noisy labels, where they were released."""
    if agreed is None:
        return 0.0
    seen = view.all(TWO, COORDINATOR, Labels)[0].values.value
    first, second = (table[TWO].own_labels().astype(np.int64) for table in tables)
    return float(_ratio(seen, first, second, agreed.sd))


def model_score(world: World, setting: Setting, view: View) -> float:  # noqa: ARG001  the same for all scores
    """The sum of all coefficients: the row pulls them one way or the other."""
    return float(sum(view.all(COORDINATOR, name, Finish)[0].coefficients.sum() for name in NAMES))


# ------------------------------------------------------------------------------------------------ shares and masks


def dealer_score(world: World, setting: Setting, view: View) -> float:
    """How much nearer the shares lie to what the first table makes of them, given every seed; and so do their
    differences between stages, if the two of them were hidden alike."""
    job = world.job(setting)
    known = list(enumerate(stages(world, setting, view)))
    tables = [world.blocks(setting, side) for side in (True, False)]
    # By table and stage: what is left of a share when all that the dealer can work out is taken away.
    return _nearer(*([hidden_part(job, stage, view, k, blocks) for k, stage in known] for blocks in tables))


def hidden_part(job: Job, stage: Stated, view: View, number: int, blocks: Mapping[str, Block]) -> tuple[Integers, int]:
    """Both shares of a stage, less what dealer and tables say they are: R, and noise. With the ring's bits."""
    ring, exchange = stage.figures.ring, stage.figures.stage(job)
    seed = {name: view.dealer.secret(f"mask {stage.figures.name} {name}") for name in NAMES}
    share = {name: view.all(name, COORDINATOR, Parts)[number].parts[-1].value.values for name in NAMES}
    one, two = (ring.reduce(stage.multiplied(job, blocks, name)) for name in NAMES)
    mask = {name: exchange.mask(name, seed[name], RUN).rows(0, len(one)) for name in NAMES}
    grown = exchange.share(NAMES, seed[ONE], RUN)
    (dealt,) = view.all(COORDINATOR, TWO, Deal)[number].shares
    of_one = ring.add(product(one, ring.subtract(two, mask[TWO]), ring), grown)
    of_two = ring.add(product(ring.subtract(one, mask[ONE]), mask[TWO], ring), ring.reduce(dealt.values))
    left = ring.subtract(ring.reduce(share[ONE]), of_one), ring.subtract(ring.reduce(share[TWO]), of_two)
    return np.stack(left), ring.bits


def _nearer(first: list[tuple[Integers, int]], second: list[tuple[Integers, int]]) -> float:
    """How much smaller the left-overs are under the first table than under the second; so for two stages alike."""
    total = 0.0
    for sign, left in ((-1.0, first), (1.0, second)):
        for values, bits in left:
            total += sign * _size(values, bits)
        if len(left) == 2 and left[0][0].shape == left[1][0].shape:
            fewest = min(bits for _, bits in left)
            total += sign * _size(left[0][0].astype(np.uint64) - left[1][0].astype(np.uint64), fewest)
    return total


def _size(values: Integers, bits: int) -> float:
    """Logarithm of the mean distance from zero, in the ring: of small numbers far below that of uniform ones."""
    return math.log(float(np.abs(Ring(bits).signed(values)).mean()) + 1.0)


def masks_score(world: World, setting: Setting, view: View) -> float:
    """Party two compares the masked columns of two stages: they tell nothing unless both wear one mask."""
    job = world.job(setting)
    seen = [masked.rows.value for masked in view.all(ONE, TWO, Masked)]
    both, bits = stages(world, setting, view), min(packed.bits for packed in seen)
    total = 0.0
    for sign, side in ((-1.0, True), (1.0, False)):
        rows = [stage.rows(job, world.blocks(setting, side, only_one=True), ONE) for stage in both]
        masks = [packed.values - whole.astype(np.uint64) for packed, whole in zip(seen, rows, strict=True)]
        total += sign * _size((masks[0] - masks[1])[-1:], bits)
    return total


# ------------------------------------------------------------------------------------------------ trust "nobody"


def local_likelihood(world: World, setting: Setting, view: View) -> float:
    """The likelihood ratio of all that left the parties, labels first."""
    local = Local(world.job(setting), world.method.cross == "sketch")
    tables = [world.blocks(setting, side) for side in (True, False)]
    total = _labels(None if local.sketch else local.labels, view, tables)
    labels = np.zeros(0) if local.sketch else view.all(TWO, COORDINATOR, Labels)[0].values.value
    for name in NAMES:
        parts = [part.value.values for part in view.all(name, COORDINATOR, LocalParts)[0].parts]
        sigma = gaussian_sigma(local.sensitivity(name), local.rho(name))
        means = [local_means(local, table[name], name, labels) for table in tables]
        weights = (1.0,) if local.sketch else (1.0, HALF, HALF, HALF)
        for part, mean1, mean2, weight in zip(parts, *means, weights, strict=True):
            total += float(_ratio(OWN_RING.signed(part), mean1, mean2, weight * sigma))
    return total


def local_means(local: Local, block: Block, name: str, labels: Floats) -> tuple[Integers, ...]:
    """What one party's release is the noisy version of."""
    every = np.arange(block.columns)
    step = grid(local.job, name, local.figures, every, np.zeros(every.size), np.ones(every.size))
    rows = IntegerRows(block, step).rows(0, block.rows)
    constant, label = local.beside(name)
    if local.sketch:
        columns = [*rows.T, *([block.own_labels().astype(np.int64) * label] if label else [])]
        buckets = Buckets(public_bytes(RUN, "buckets"), block.rows, local.buckets)
        return (np.column_stack([buckets.of_column(column, None) for column in columns]),)
    cut = np.rint(np.clip(labels / local.labels.limit, -1.0, 1.0) * label).astype(np.int64)
    gram = rows.T @ rows
    return np.diag(gram), gram[np.triu_indices(every.size, 1)], constant * rows.sum(axis=0), rows.T @ cut


# ------------------------------------------------------------------------------------------------ trials


def _draw_scores(world: World, setting: Setting, inside: bool, trials: int) -> Floats:
    """What a run's gates were given, through a gate once for every trial: entries get independent noise."""
    job, view = world.job(setting), run(world, setting, world.blocks(setting, inside))
    consortium = world.trust == "consortium"
    given = {name: what for name, what in view.given if (name == COORDINATOR) == consortium}
    drawn = {name: _draw_often(name, what, trials) for name, what in given.items()}
    if consortium:
        own = drawn[COORDINATOR]
        noisy: Parted = {ONE: own[:3], TWO: own[3:6], BOTH: own[6:]}
    else:
        ring = given[ONE].rings[-1]
        both = ring.signed(ring.add(drawn[ONE][-1], drawn[TWO][-1]))
        noisy = {**{name: drawn[name][:-1] for name in NAMES}, BOTH: (both,)}
    (stage,) = stages(world, setting, view)
    first, second = (stage.means(job, world.blocks(setting, side)) for side in (True, False))
    sensitivity = next(iter(given.values())).exact.sensitivity
    return log_ratio(stage, noisy, first, second, sensitivity, 1 if consortium else 2)


def _draw_often(name: str, what: Given, trials: int) -> tuple[NDArray[np.int64], ...]:
    gate = gate_for(Event(Mechanism.LATTICE, what.rho, math.inf, Scope.JOINT), name=name, trust=Trust.SECURE)
    many = tuple(np.broadcast_to(part, (trials, *part.shape)) for part in what.exact.value)
    exact = Private(many, what.exact.sensitivity)
    sent = gate.integers(exact, what.weights, what.rings, rho=what.rho, scope=Scope.JOINT)
    return tuple(ring.signed(part.value.values) for ring, part in zip(what.rings, sent, strict=True))


def _run_scores(
    score: Score, world: World, setting: Setting, inside: bool, trials: int, quiet: str | None = None
) -> Floats:
    """A score per run; `quiet` names a party that looks on: its own part of the row is the same in both tables."""
    blocks = world.blocks(setting, inside, only_one=quiet is not None)
    return np.array([score(world, setting, run(world, setting, blocks, quiet)) for _ in range(trials)])


# ------------------------------------------------------------------------------------------------ the table

_TURNED = "replace one row of full length by one orthogonal to it: features of both parties and the label"
_EVERY = "every message of the parties to it"
Seen = tuple[str, str, Score]  # what somebody sees, the statistic, the score
_READER = ("the model", "the sum of its coefficients", model_score)
_DEALER = (f"{_EVERY}, and its masks", "which table the shares are nearer to", dealer_score)
_ALL_LOCAL = (_EVERY, LIKELIHOOD_OF_ALL, local_likelihood)


def _target(title: str, world: World, **viewers: Seen) -> Target:
    """Whole runs; a partner or onlooker is party "two", which knows its own noise."""
    adversaries = {}
    for name, (sees, statistic, score) in viewers.items():
        quiet = TWO if name in ("partner", "onlooker") else None
        adversaries[name] = Adversary(sees, statistic, partial(_run_scores, score, world, quiet=quiet))
    return Target(_titled(title, world), _TURNED, adversaries, trials=300, batch=50, trust=world.trust)


def _drawn(title: str, world: World, viewer: str, sees: str) -> Target:
    """One run, what its gates were given drawn often."""
    adversaries = {viewer: Adversary(sees, LIKELIHOOD, partial(_draw_scores, world))}
    return Target(_titled(title, world), _TURNED, adversaries, trials=50_000, batch=50_000, trust=world.trust)


def _titled(title: str, world: World) -> str:
    return f"{title}: all programs of a run, trust {world.trust!r}"


_PARTNER = partial(likelihood, quiet=TWO)
ATTACKS: Mapping[str, Target] = {
    "gram": _drawn("the Gram matrix of rows as they are, drawn often", RAW, "coordinator", _EVERY),
    "gram-views": _target(
        "the Gram matrix of rows as they are",
        RAW,
        coordinator=(_EVERY, LIKELIHOOD, likelihood),
        dealer=_DEALER,
        partner=("its own noise and the released matrix", LIKELIHOOD, _PARTNER),
        reader=_READER,
    ),
    "class-sums-gram": _target(
        "class sums, then the Gram matrix of centred rows",
        gram_runs.FIRST_SUMS,
        coordinator=(_EVERY, "the likelihood ratio of both releases", likelihood),
        dealer=_DEALER,
        partner=("its own noise and all that was released", LIKELIHOOD, _PARTNER),
        onlooker=("masked columns of both stages", "their difference", masks_score),
        reader=_READER,
    ),
    "labels-gram": _target(
        "noisy labels, class sums by them, then the Gram matrix",
        gram_runs.FIRST_LABELS,
        coordinator=(_EVERY, "the likelihood ratio of all three releases", likelihood),
        reader=_READER,
    ),
    "shared-gram": _drawn(
        "the Gram matrix, noised on the way out, drawn often", gram_runs.SHARED, "reader", "the published matrix"
    ),
    "own-gram": _target(
        "noisy labels, then every party's own Gram matrix", gram_runs.OWN, coordinator=_ALL_LOCAL, reader=_READER
    ),
    "bucket-gram": _target(
        "noisy buckets of every party's columns", gram_runs.BUCKETS, coordinator=_ALL_LOCAL, reader=_READER
    ),
}
