"""Runs of Private Gram for its attacks, and what adversaries compute from them.

Runs     two small tables, and all programs of a run behind real gates. Party "one" has two columns, "two" a column and
         the labels. The last row turns orthogonal to what it was, beside constant and label and at full length: there
         the Gram matrix moves as far as it can.
Scores   likelihood ratios, left-overs of masks, the model. `Stated` is one stage as the coordinator described it, with
         what either table would put in; every score asks how well the first table explains what was seen, against the
         second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks.setting import RUN, Setting, drive, ledger_of
from colonnade.data.party import public_bounds
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.kernels.arrays import Floats, Integers
from colonnade.kernels.bits import unpack_rows
from colonnade.kernels.curves import hats
from colonnade.kernels.ring import Ring
from colonnade.kernels.ring_products import cross
from colonnade.methods.gram.local import Local, LocalParts
from colonnade.methods.gram.masks import Stage, Totals
from colonnade.methods.gram.plan import HALF, Figures, NoisyLabels, RunPlan, StageName, noise_sd
from colonnade.methods.gram.plan import OWN as OWN_RING
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.gram.products import (
    Diagonal,
    Masked,
    Parts,
    Prepare,
    Widths,
    check_prepare,
    own_count,
    sums_weights,
)
from colonnade.methods.gram.rows import IntegerRows, Prepared, Rings, grid
from colonnade.methods.method import Finish, Labels
from colonnade.model.job import Job, Known, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.mechanisms import Noise, SystemNoise, gaussian_sigma
from colonnade.privacy.statement import Privacy, Trust
from colonnade.privacy.values import Private
from colonnade.problem import LeastSquares, Logistic, Problem, Ridge
from colonnade.runtime.program import COORDINATOR

ONE = "one"
TWO = "two"
NAMES = (ONE, TWO)
LENGTHS = {ONE: 4.0, TWO: 1.0}
PLACES = {ONE: (0, 1), TWO: (2,)}


@dataclass(frozen=True)
class World:
    """A method, a trust model, and how many rows; and whether labels are numbers (±1 all the same). For inference there
    is one release, of rows as they are; for prediction class sums come first."""

    method: PrivateGram
    trust: Trust
    rows: int
    numbers: bool = False

    def job(self, setting: Setting) -> Job:
        bounds = {"row_norm": LENGTHS, "feature_bound": LENGTHS[ONE], "label_bound": 1.0 if self.numbers else None}
        privacy = Privacy(setting.epsilon, setting.delta, self.trust, **bounds)  # type: ignore[arg-type]  # by name
        problem = Problem(LeastSquares() if self.numbers else Logistic(), penalty=Ridge(1e-3), intercept=True)
        return Job(problem, Roster(self.rows, PLACES, TWO), privacy)

    def blocks(self, setting: Setting, inside: bool, *, only_one: bool = False) -> dict[str, Block]:
        """Rows of small numbers, and a last one of full length, turned or not (`only_one`: at party one alone)."""
        rng = np.random.default_rng(setting.seed)
        X = rng.uniform(-0.5, 0.5, (self.rows, 3))
        y = np.where(np.arange(self.rows) % 2 == 0, 1.0, -1.0)
        whole = sum(length**2 for length in LENGTHS.values())
        X[-1] = [LENGTHS[ONE], 0.0, LENGTHS[TWO]]
        y[-1] = 1.0
        if not inside:
            # Beside c² = .1 and τ² = .25 of the squared length, the same constant and (if it may) another label.
            other = -1.0 if not only_one else 1.0
            along = -(other * LENGTHS[TWO] ** 2 + 0.1 * whole + other * 0.25 * whole) / LENGTHS[ONE]
            X[-1] = [along, math.sqrt(LENGTHS[ONE] ** 2 - along**2), other * LENGTHS[TWO]]
            y[-1] = other
        one = np.ascontiguousarray(X[:, :2])
        two = np.ascontiguousarray(X[:, 2:])
        labelled = Block(two, np.array(PLACES[TWO]), labels=y.astype(np.int8))
        return {ONE: Block(one, np.array(PLACES[ONE])), TWO: labelled}


@dataclass(frozen=True)
class Bent(World):
    """Numbers as labels, and party one's two columns are a number that is a curve of depth 1. At its end and at its
    middle the curve has full length and points another way: two such rows, of opposite labels, are orthogonal."""

    numbers: bool = True

    def job(self, setting: Setting) -> Job:
        # Beside c² = .1 and τ² = .25 of the squared length the labels' part, −.25, is made up for by party two.
        privacy = Privacy(setting.epsilon, setting.delta, self.trust, row_norm={TWO: self.two}, label_bound=1.0)
        known = {ONE: public_bounds(Schema((Numeric("t", -1.0, 1.0, smooth=1),)))}
        known[TWO] = Known((self.two,), (False,), (False,), self.two, True)
        problem = Problem(LeastSquares(), penalty=Ridge(1e-3), intercept=True)
        return Job(problem, Roster(self.rows, PLACES, TWO, known=known), privacy)

    @property
    def two(self) -> float:
        """The length of party two's part: its square is .15 of the whole."""
        return math.sqrt(0.15 / 0.85)

    def blocks(self, setting: Setting, inside: bool, *, only_one: bool = False) -> dict[str, Block]:
        rng = np.random.default_rng(setting.seed)
        t = rng.uniform(-0.5, 0.5, self.rows)
        y = np.where(np.arange(self.rows) % 2 == 0, 1.0, -1.0)
        t[-1], y[-1] = (1.0, 1.0) if inside else (0.0, 1.0 if only_one else -1.0)
        one = np.column_stack([t, hats(t, 1)])
        two = np.append(rng.uniform(-self.two / 2, self.two / 2, self.rows - 1), self.two)[:, None]
        labelled = Block(two, np.array(PLACES[TWO]), labels=y.astype(np.int8))
        return {ONE: Block(one, np.array(PLACES[ONE])), TWO: labelled}


RAW = World(PrivateGram(purpose="inference"), Trust.SECURE, 3_000, numbers=True)
CURVE = Bent(PrivateGram(purpose="inference"), Trust.SECURE, 3_000)
FIRST_SUMS = World(PrivateGram(), Trust.SECURE, 12)
FIRST_LABELS = World(PrivateGram(labels="released"), Trust.SECURE, 12)
SHARED = World(PrivateGram(purpose="inference"), Trust.CONSORTIUM, 3_000, numbers=True)
OWN = World(PrivateGram(cross="none"), Trust.NOBODY, 12)


class Quiet(SystemNoise):
    """The noise of a party that looks on: it knows its own draws, which is as if there were none."""

    def discrete_gaussian(self, size: int, sigma: Any) -> NDArray[np.int64]:  # noqa: ARG002  none
        return np.zeros(size, np.int64)


@dataclass(frozen=True)
class Given:
    """What a gate was asked to release, in one call or, as one mechanism, in two."""

    parts: tuple[Any, ...]
    weights: tuple[Any, ...]
    masks: tuple[Any, ...]
    sensitivity: float
    rho: float


@dataclass
class View:
    """Everything that was sent, by whom to whom; what gates of parties were given; the stages, once they were read."""

    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    given: list[tuple[str, Given]] = field(default_factory=list)
    stages: list[Stated] = field(default_factory=list)

    def all(self, sender: str, receiver: str, kind: type) -> list[Any]:
        return [m for a, b, m in self.sent if (a, b) == (sender, receiver) and isinstance(m, kind)]


class IntegerRecorder(Gate):
    """A gate that remembers what integers it was given: for drawing the same release often."""

    view: View

    def integers(self, exact: Private[Any], weights: Any, masks: Any, **more: Any) -> Any:
        self.view.given.append((self.node, Given(exact.value, weights, masks, exact.sensitivity, more["rho"])))
        return super().integers(exact, weights, masks, **more)

    def the_rest(self, exact: Private[Any], weights: Any, masks: Any) -> Any:
        place = max(k for k, (name, _) in enumerate(self.view.given) if name == self.node)
        one = self.view.given[place][1]
        both = one.parts + exact.value, one.weights + weights, one.masks + masks
        self.view.given[place] = (self.node, Given(*both, one.sensitivity, one.rho))
        return super().the_rest(exact, weights, masks)


def run(world: World, setting: Setting, blocks: Mapping[str, Block], quiet: str | None = None) -> View:
    """One run of all programs, without disk and engine; no message is sealed here."""
    job = world.job(setting)
    view = View()
    plans = world.method.price(job)
    identities = {name: SystemNoise().uniform_bytes(32) for name in (COORDINATOR, *NAMES)}
    pinned = {name: public_key(identity) for name, identity in identities.items()}
    gates: dict[str, IntegerRecorder] = {}
    for name in (COORDINATOR, *NAMES):
        keyring = Keyring(RUN, name, identities[name], pinned, SystemNoise().uniform_bytes(32))
        noise: Noise = Quiet() if name == quiet else SystemNoise()
        gates[name] = IntegerRecorder(ledger_of(name, setting, plans, world.trust), RUN, noise, keyring)
        gates[name].view = view
    programs = {name: world.method.party(job, blocks[name], gates[name]) for name in NAMES}
    view.sent = drive({COORDINATOR: world.method.coordinator(job, gates[COORDINATOR]), **programs}, gates)
    return view


Parted = dict[str, tuple[Any, ...]]  # parts of a release: of each party, and of both
BOTH = "both"


@dataclass(frozen=True)
class Stated:
    """One stage as the coordinator described it, and what either table would put in; matrices are in units."""

    design: RunPlan
    prepared: Prepared
    told: Prepare
    view: View

    @property
    def job(self) -> Job:
        return self.design.job

    @property
    def figures(self) -> Figures:
        return self.prepared.figures

    @property
    def rho(self) -> float:
        return self.design.rho(self.figures.name)

    @property
    def sensitivity(self) -> float:
        return self.design.sensitivity(self.figures)

    def rows(self, blocks: Mapping[str, Block], name: str) -> Integers:
        """A party's matrix in whole numbers, the label included where it belongs."""
        whole = self.prepared.rows(blocks[name], name).rows(0, self.job.roster.rows).astype(np.int64)
        if name != TWO or self.figures.name == StageName.SUMS:
            return whole
        unit = int(self.prepared.layout.units[self.prepared.layout.label])
        return np.column_stack([whole, blocks[TWO].own_labels().astype(np.int64) * (self.figures.label // unit)])

    def multiplied(self, blocks: Mapping[str, Block], name: str) -> Integers:
        """The matrix that a party multiplies with its partner's."""
        return _classes(blocks) if self.figures.name == StageName.SUMS and name == TWO else self.rows(blocks, name)

    def means(self, blocks: Mapping[str, Block]) -> Parted:
        """Own parts of each party, and the product of both: what noise is added to."""
        one, two = (self.rows(blocks, name) for name in NAMES)
        if self.figures.alone:
            weights = self.by_labels()
            return {name: ((a**2).sum(axis=0), a.T @ weights) for name, a in ((ONE, one), (TWO, two))}
        if self.figures.name == StageName.SUMS:
            up = _classes(blocks)
            own = {ONE: ((one**2).sum(axis=0),), TWO: ((two**2).sum(axis=0), two.T @ up, up[:, :1].sum(axis=0))}
            return {**own, BOTH: (one.T @ up,)}
        gram1 = one.T @ one
        gram2 = two.T @ two
        c = self.figures.constant
        return {
            ONE: (np.diag(gram1), gram1[np.triu_indices(2, 1)], c * one.sum(axis=0)),
            TWO: (np.diag(gram2)[: self.squares], gram2[np.triu_indices(2, 1)], c * two.sum(axis=0)),
            BOTH: (one.T @ two,),
        }

    @property
    def squares(self) -> int:
        """How many squared lengths party two sends: y'y is public where labels are ±τ."""
        return 1 if self.job.problem.loss.classifies else 2

    def by_labels(self) -> Integers:
        """Weights of rows in the classes, by the noisy labels that everybody was told."""
        top = self.figures.label
        labels = np.clip(self.told.labels / self.job.label_bound, -1.0, 1.0)
        up = np.rint((1.0 + labels) / 2.0 * top).astype(np.int64)
        return np.column_stack([up, top - up])

    @property
    def weights(self) -> dict[str, tuple[Any, ...]]:
        """Noise of each part in units of σ, of one share."""
        layout = self.prepared.layout
        figures = self.figures
        if figures.name == StageName.JOINT:
            diagonal, *rest = layout.weights(TWO)
            return {
                ONE: layout.weights(ONE),
                TWO: (diagonal[: self.squares], *rest),
                BOTH: (layout.cross_weights(NAMES),),
            }
        own = {name: sums_weights(figures, own_count(self.job, figures, name)) for name in NAMES}
        return own if figures.alone else {**own, BOTH: (1.0,)}

    # ------------------------------------------------------------------------ what was sent

    @cached_property
    def stage(self) -> Stage:
        """The exchange of this stage, in the rings that were told."""
        if self.figures.name == StageName.SUMS:
            return Stage.of(self.design, self.figures, self.prepared.digest)
        bits = self.view.all(COORDINATOR, ONE, Widths)[0].bits
        return Stage.of(self.design, self.figures, self.prepared.digest, self.prepared.layout.by_party(bits))

    @cached_property
    def rings(self) -> Rings:
        """How the coordinator reads products of the joint stage."""
        layout = self.prepared.layout
        lengths = np.zeros(self.prepared.layout.owner.size)
        for name in NAMES:
            values = OWN_RING.signed(self.view.all(name, COORDINATOR, Diagonal)[0].squares.value.values)
            lengths[layout.mine(name)[: values.size]] = values
        return layout.fit(lengths, noise_sd(self.sensitivity, self.rho, 1.0))

    def decode(self, product: Integers) -> Integers:
        """Products of both parties' columns from what they are in their rings."""
        if self.figures.name == StageName.SUMS:
            return Ring(self.figures.bits).signed(product)
        return self.rings.lift(product, *(self.prepared.layout.mine(name) for name in NAMES))

    def came(self, name: str, kind: type) -> list[Any]:
        """What a party sent the coordinator in this stage."""
        sent = self.view.all(name, COORDINATOR, kind)
        if kind is Masked:
            first = len(self.design.stages) == 2 and self.figures.name == StageName.JOINT
            skip = len(Stage.of(self.design, self.design.sums, b"").blocks()) if first and self.design.sums else 0
            return sent[skip:][: len(self.stage.blocks())]
        return [sent[self.design.stages.index(self.figures.name)]]

    def noisy(self) -> Parted:
        """The noisy numbers as the coordinator gets them: each party's own, and the product of both."""
        totals = Totals(self.stage, {name: own_count(self.job, self.figures, name) for name in NAMES})
        for blocks in zip(*(self.came(name, Masked) for name in self.stage.uploading), strict=True):
            totals.add(dict(zip(self.stage.uploading, blocks, strict=True)))
        totals.add({name: self.came(name, Parts)[0] for name in NAMES})
        own = {name: tuple(map(OWN_RING.signed, parts)) for name, parts in totals.parts.items()}
        if self.figures.name == StageName.JOINT:
            squares = {name: self.view.all(name, COORDINATOR, Diagonal)[0].squares.value.values for name in NAMES}
            own = {name: (OWN_RING.signed(squares[name]), *own[name]) for name in NAMES}
        return {**own, **({} if self.figures.alone else {BOTH: (self.decode(totals.products()[NAMES]),)})}


def _classes(blocks: Mapping[str, Block]) -> Integers:
    up = (blocks[TWO].own_labels() > 0).astype(np.int64)
    return np.column_stack([up, 1 - up])


def stages(world: World, setting: Setting, view: View) -> list[Stated]:
    """The releases of a run as every party was told them."""
    if not view.stages:  # every score asks for them
        design = RunPlan.of(world.job(setting), world.method)
        told = view.all(COORDINATOR, ONE, Prepare)
        view.stages = [Stated(design, check_prepare(design, one.name, one), one, view) for one in told]
    return view.stages


def log_ratio(stage: Stated, got: Parted, first: Parted, second: Parted, shares: int) -> Floats:
    """log P(got | first)/P(got | second) of one stage, for one run or a stack of them; `shares`: noises in a product.

    Only parts that `got` has count.
    """
    sigma = gaussian_sigma(stage.sensitivity, stage.rho)
    total = np.zeros(())
    for name, parts in got.items():
        for part, mean1, mean2, weight in zip(parts, first[name], second[name], stage.weights[name], strict=True):
            total = total + _ratio(part, mean1, mean2, weight * sigma * (shares**0.5 if name == BOTH else 1.0))
    return np.asarray(total)


def _ratio(seen: Integers, mean1: Integers, mean2: Integers, sd: Any) -> Floats:
    """The log-ratio of numbers with Gaussian noise, summed over the axes of a mean."""
    shift = np.asarray(mean1, float) - mean2
    middle = (np.asarray(mean1, float) + mean2) / 2.0
    return np.asarray(((seen - middle) * shift / np.square(sd)).sum(axis=tuple(range(-shift.ndim, 0))))


def likelihood(world: World, setting: Setting, view: View, quiet: str | None = None) -> float:
    """The likelihood ratio of all noisy numbers of one run, but for what a party that looks on released itself."""
    tables = [world.blocks(setting, side, only_one=quiet is not None) for side in (True, False)]
    total = _labels(RunPlan.of(world.job(setting), world.method).labels, view, tables)
    for stage in stages(world, setting, view):
        noisy = stage.noisy()
        if quiet is not None:
            del noisy[quiet]
        first, second = (stage.means(table) for table in tables)
        total += float(log_ratio(stage, noisy, first, second, 2 if quiet is None else 1))
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


# ------------------------------------------------------------------------------------------------ masks and corrections


def corrections_score(world: World, setting: Setting, view: View) -> float:
    """How much nearer the corrections lie to what the first table makes of them, given every masked row; and so do
    their differences between stages, if the two of them were hidden alike."""
    # By table and stage: what is left of a correction when all that the table explains is taken away.
    left = []
    for side in (True, False):
        blocks = world.blocks(setting, side)
        left.append([hidden_part(stage, blocks) for stage in stages(world, setting, view)])
    return _nearer(*left)


def hidden_part(stage: Stated, blocks: Mapping[str, Block]) -> tuple[Integers, int]:
    """Both corrections of a stage, less what masked rows and tables say they are: R, and noise. With the fewest bits.

    Whoever believes a table knows every mask: what is masked, less the table.
    """
    exchange = stage.stage
    left = dict[str, Integers].fromkeys(NAMES, np.zeros((), np.uint64))
    start = 0
    for number, packed in enumerate(zip(*(stage.came(name, Masked) for name in NAMES), strict=True)):
        count = exchange.blocks()[number][1]
        masked = [unpack_rows(m.rows.value, count, exchange.bits[n]) for m, n in zip(packed, NAMES, strict=True)]
        rows = [stage.multiplied(blocks, name)[start : start + count].astype(np.uint64) for name in NAMES]
        mask = [e - x for e, x in zip(masked, rows, strict=True)]
        even = number % 2 == 0
        bits = [exchange.bits[name] for name in NAMES]
        left[ONE] = left[ONE] + cross(masked[0] if even else rows[0], mask[1], *bits)
        left[TWO] = left[TWO] + cross(mask[0], rows[1] if even else masked[1], *bits)
        start += count
    sent = {name: stage.came(name, Parts)[0].parts[-1].value.values for name in NAMES}
    return np.stack([left[name] + sent[name] for name in NAMES]), int(
        min(bits.min() for bits in exchange.bits.values())
    )


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
    return math.log(float(np.abs(Ring(max(8, bits)).signed(values)).mean()) + 1.0)


def masks_score(world: World, setting: Setting, view: View) -> float:
    """The coordinator compares the masked rows of two stages: they tell nothing unless both wear one mask."""
    both = stages(world, setting, view)
    total = 0.0
    bits = min(int(stage.stage.bits[ONE].min()) for stage in both)
    seen = [unpack_rows(stage.came(ONE, Masked)[0].rows.value, world.rows, stage.stage.bits[ONE]) for stage in both]
    for sign, side in ((-1.0, True), (1.0, False)):
        rows = [stage.rows(world.blocks(setting, side, only_one=True), ONE) for stage in both]
        masks = [e - whole.astype(np.uint64) for e, whole in zip(seen, rows, strict=True)]
        total += sign * _size((masks[0] - masks[1])[-1:], bits)
    return total


# ------------------------------------------------------------------------------------------------ trust "nobody"


def local_likelihood(world: World, setting: Setting, view: View) -> float:
    """The likelihood ratio of all that left the parties, labels first."""
    local = Local(RunPlan.of(world.job(setting), world.method))
    tables = [world.blocks(setting, side) for side in (True, False)]
    total = _labels(local.labels, view, tables)
    labels = view.all(TWO, COORDINATOR, Labels)[0].values.value
    for name in NAMES:
        parts = [part.value.values for part in view.all(name, COORDINATOR, LocalParts)[0].parts]
        sigma = gaussian_sigma(local.sensitivity(name), local.rho(name))
        means = [local_means(local, table[name], name, labels) for table in tables]
        for part, mean1, mean2, weight in zip(parts, *means, (1.0, HALF, HALF, HALF), strict=True):
            total += float(_ratio(OWN_RING.signed(part), mean1, mean2, weight * sigma))
    return total


def local_means(local: Local, block: Block, name: str, labels: Floats) -> tuple[Integers, ...]:
    """What one party's release is the noisy version of."""
    every = np.arange(block.columns)
    plain = every, np.zeros(every.size), np.ones(every.size), np.ones(every.size, np.int64)
    rows = IntegerRows(block, grid(local.job, name, local.figures, *plain, whole=False)).rows(0, block.rows)
    rows = rows.astype(np.int64)
    constant, label = local.beside(name)
    cut = np.rint(np.clip(labels / local.labels.limit, -1.0, 1.0) * label).astype(np.int64)
    gram = rows.T @ rows
    return np.diag(gram), gram[np.triu_indices(every.size, 1)], constant * rows.sum(axis=0), rows.T @ cut
