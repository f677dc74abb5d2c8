"""Attacks on Private Gram, for `colonnade.audit.run`: all programs of a run behind real gates, and one unknown row.

    "gram"             one release, rows as they are        trust "secure"      "gram-views" by everybody, whole runs
    "class-sums-gram"  class sums, then the Gram matrix     trust "secure"
    "labels-gram"      noisy labels first of all            trust "secure"
    "shared-gram"      one release, noised on the way out   trust "consortium"
    "own-gram"         noisy labels, then each party's own  trust "nobody"
    "bucket-gram"      noisy buckets of each party          trust "nobody"

Method   two parties: "one" with two columns, "two" with a column and the labels. The last row turns orthogonal to what
         it was, beside constant and label and at full length: there the Gram matrix moves as far as it can.
Viewers  coordinator  every message it gets; of two shares the sum: the likelihood ratio
         dealer       the coordinator once more, share by share, with the masks that it dealt
         partner      party "two": its own noise, and even the released matrix, which it never gets
         onlooker     party "two": masked columns of two stages
         reader       the model
Exact    `movement` needs no trials: how far a release moves between the two tables, and how far its party says it can.
Leaves   nothing of anybody's: the tables are made up here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.audit.setting import Setting
from colonnade.kernels.ring import Ring, product
from colonnade.methods.gram.design import HALF, Figures, grid, label_bound
from colonnade.methods.gram.design import OWN as OWN_RING
from colonnade.methods.gram.integer_rows import Buckets, IntegerRows
from colonnade.methods.gram.local import Local, LocalParts
from colonnade.methods.gram.noisy_labels import NoisyLabels
from colonnade.methods.gram.private_gram import PrivateGram
from colonnade.methods.gram.secure_design import Design
from colonnade.methods.gram.secure_parts import Parts, Prepare
from colonnade.methods.gram.secure_products import Deal, Masked
from colonnade.methods.method import Finish, Job, Labels, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.events import Charge, Event, Mechanism, Policy, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import Ledger, Terms
from colonnade.privacy.mechanisms import Noise, SystemNoise, gaussian_sigma
from colonnade.privacy.released import Private
from colonnade.privacy.statement import Privacy
from colonnade.privacy.store import MemoryLog
from colonnade.problem import LeastSquares, Logistic, Problem, Ridge
from colonnade.runtime.program import COORDINATOR, public_bytes

Floats = NDArray[np.float64]
Integers = NDArray[Any]
Parted = dict[str, tuple[Any, ...]]  # parts of a release: of each party, and of both
ONE, TWO, BOTH = "one", "two", "both"
NAMES = (ONE, TWO)
LENGTHS = {ONE: 4.0, TWO: 1.0}
PLACES = {ONE: (0, 1), TWO: (2,)}
RUN = "audit"


# ------------------------------------------------------------------------------------------------ the world


@dataclass(frozen=True)
class World:
    """A method, a trust model, and how many rows; and whether labels are numbers (±1 all the same): of many rows with
    numbers the rule takes one release, of few rows or with classes it asks for class sums first."""

    method: PrivateGram
    trust: str
    rows: int
    numbers: bool = False

    def job(self, setting: Setting) -> Job:
        bounds = {"row_norm": LENGTHS, "feature_bound": LENGTHS[ONE], "label_bound": 1.0 if self.numbers else None}
        privacy = Privacy(setting.epsilon, setting.delta, self.trust, **bounds)  # type: ignore[arg-type]  # by name
        problem = Problem(LeastSquares() if self.numbers else Logistic(), penalty=Ridge(1e-3), intercept=True)
        return Job(problem, Roster(self.rows, PLACES, TWO), privacy)

    def blocks(self, setting: Setting, inside: bool, *, only_one: bool = False) -> dict[str, Block]:
        """Rows of small numbers, and the last one: of full length, turned or not; for a partner only where it is not its own."""
        rng = np.random.default_rng(setting.seed)
        X = rng.uniform(-0.5, 0.5, (self.rows, 3))
        y = np.where(np.arange(self.rows) % 2 == 0, 1.0, -1.0)
        whole = sum(length**2 for length in LENGTHS.values())
        X[-1], y[-1] = [LENGTHS[ONE], 0.0, LENGTHS[TWO]], 1.0
        if not inside:
            # Beside c² = .1 and τ² = .25 of the squared length, the same constant and (if it may) another label.
            other = -1.0 if not only_one else 1.0
            along = -(other * LENGTHS[TWO] ** 2 + 0.1 * whole + other * 0.25 * whole) / LENGTHS[ONE]
            X[-1] = [along, math.sqrt(LENGTHS[ONE] ** 2 - along**2), other * LENGTHS[TWO]]
            y[-1] = other
        labels = y.astype(np.int8)
        return {
            ONE: Block(np.ascontiguousarray(X[:, :2]), np.array(PLACES[ONE])),
            TWO: Block(np.ascontiguousarray(X[:, 2:]), np.array(PLACES[TWO]), labels=labels),
        }


RAW = World(PrivateGram(), "secure", 3_000, numbers=True)
FIRST_SUMS = World(PrivateGram(), "secure", 12)
FIRST_LABELS = World(PrivateGram(labels="released"), "secure", 12)
SHARED = World(PrivateGram(), "consortium", 3_000, numbers=True)
OWN = World(PrivateGram(cross="none"), "nobody", 12)
BUCKETS = World(PrivateGram(cross="sketch"), "nobody", 12)


class Quiet(SystemNoise):
    """The noise of a party that looks on: it knows its own draws, which is as if there were none."""

    def discrete_gaussian(self, size: int, sigma: Any) -> NDArray[np.int64]:  # noqa: ARG002  none
        return np.zeros(size, np.int64)


@dataclass(frozen=True)
class Given:
    """What a gate was asked to release."""

    exact: Private[Any]
    weights: tuple[float, ...]
    rings: tuple[Ring, ...]
    rho: float


@dataclass
class View:
    """Everything that was sent, by whom to whom; and what gates of parties were given."""

    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    given: list[tuple[str, Given]] = field(default_factory=list)
    dealer: Any = None  # the coordinator's gate, which keeps its seeds

    def all(self, sender: str, receiver: str, kind: type) -> list[Any]:
        return [m for a, b, m in self.sent if (a, b) == (sender, receiver) and isinstance(m, kind)]


class Witness(Gate):
    """A gate that remembers what integers it was given: for `movement`, and for drawing the same release often."""

    view: View

    def integers(self, exact: Private[Any], weights: Any, rings: Any, **more: Any) -> Any:
        self.view.given.append((self.node, Given(exact, weights, rings, more["rho"])))
        return super().integers(exact, weights, rings, **more)


def run(world: World, setting: Setting, blocks: Mapping[str, Block], quiet: str | None = None) -> View:
    """One run of all programs, without disk and engine; the messages of parties to each other are not sealed here."""
    job, view = world.job(setting), View()
    plans = world.method.price(job)
    identities = {name: SystemNoise().uniform_bytes(32) for name in NAMES}
    pinned = {name: public_key(identity) for name, identity in identities.items()}
    gates: dict[str, Witness] = {}
    for name in (COORDINATOR, *NAMES):
        policy = Policy(epsilon=setting.epsilon, delta=setting.delta, consortium=world.trust == "consortium")
        ledger = Ledger(MemoryLog(), name, policy)
        ledger.open_run(RUN, _terms(world.trust), plans)
        keyring = None
        if name in identities:
            keyring = Keyring(RUN, name, identities[name], pinned, SystemNoise().uniform_bytes(32))
        noise: Noise = Quiet() if name == quiet else SystemNoise()
        gates[name] = Witness(ledger, RUN, noise, keyring)
        gates[name].view = view
    view.dealer = gates[COORDINATOR]
    programs = {name: world.method.party(job, blocks[name], gates[name]) for name in NAMES}
    _drive({COORDINATOR: world.method.coordinator(job, gates[COORDINATOR]), **programs}, gates, view)
    return view


def _terms(trust: str) -> Terms:
    return Terms("audit", "", trust, "one row", "replace one row", "")


def _drive(programs: Mapping[str, Any], gates: Mapping[str, Gate], view: View) -> None:
    """Whoever has what it waits for goes on, until all have ended."""
    boxes: dict[tuple[str, str], deque[Any]] = {(a, b): deque() for a in programs for b in programs}
    waits: dict[str, tuple[str, ...] | None] = dict.fromkeys(programs, ())
    ticks = dict.fromkeys(programs, 0)
    while any(wait is not None for wait in waits.values()):
        ready = [n for n, wait in waits.items() if wait is not None and all(boxes[a, n] for a in wait)]
        assert ready, "every program waits for another"
        for name in ready:
            wait, tick = waits[name] or (), ticks[name]
            inbox = {sender: boxes[sender, name].popleft() for sender in wait}
            gates[name].begin(tick, tick, None)
            try:
                post = programs[name].send(inbox if tick else None)
            except StopIteration:
                waits[name] = None
                continue
            gates[name].flush()
            waits[name], ticks[name] = post.wait, tick + 1
            for receiver, message in post.to.items():
                boxes[name, receiver].append(message)
                view.sent.append((name, receiver, message))


# ------------------------------------------------------------------------------------------------ what viewers compute


@dataclass(frozen=True)
class Stated:
    """One stage as the coordinator described it, and what either table would put in."""

    figures: Figures
    rho: float
    told: Mapping[str, Prepare]

    def rows(self, job: Job, blocks: Mapping[str, Block], name: str) -> Integers:
        """A party's matrix in whole numbers, label or class weights included where they belong."""
        told = self.told[name]
        made = IntegerRows(blocks[name], grid(job, name, self.figures, told.keep, told.centre, told.scale))
        whole = made.rows(0, job.roster.rows)
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
    made = []
    for one, two in zip(told[ONE], told[TWO], strict=True):
        norm2, widths = ({n: int(v[k]) for k, n in enumerate(NAMES)} for v in (one.norm2, one.widths))
        figures = Figures(one.name, one.step, one.bits, norm2, widths, one.constant, one.label, world.rows, one.buckets)
        made.append(Stated(figures, design.rho(one.name), {ONE: one, TWO: two}))
    return made


def released(stage: Stated, parts: Parted) -> Parted:
    """The noisy numbers: each party's own, and the sum of the two shares, the last of either's parts."""
    ring = stage.figures.ring
    if stage.figures.alone:
        return {name: tuple(map(OWN_RING.signed, parts[name])) for name in NAMES}
    own = {name: tuple(map(OWN_RING.signed, parts[name][:-1])) for name in NAMES}
    return {**own, BOTH: (ring.signed(ring.add(parts[ONE][-1], parts[TWO][-1])),)}


def log_ratio(stage: Stated, got: Parted, first: Parted, second: Parted, sensitivity: float, shares: int) -> Floats:
    """log P(got | first)/P(got | second) of one stage, for one run or a stack of them; `shares`: noises in a product.

    Only parts that `got` has count.
    """
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


# ------------------------------------------------------------------------------------------------ one release, many draws


def _drawn(world: World, setting: Setting, inside: bool, trials: int) -> Floats:
    """What a run's gates were given, through a gate once for every trial: entries get independent noise."""
    job, view = world.job(setting), run(world, setting, world.blocks(setting, inside))
    consortium = world.trust == "consortium"
    given = {name: what for name, what in view.given if (name == COORDINATOR) == consortium}
    drawn = {name: _often(name, what, trials) for name, what in given.items()}
    if consortium:
        own = drawn[COORDINATOR]
        got: Parted = {ONE: own[:3], TWO: own[3:6], BOTH: own[6:]}
    else:
        ring = given[ONE].rings[-1]
        both = ring.signed(ring.add(drawn[ONE][-1], drawn[TWO][-1]))
        got = {**{name: drawn[name][:-1] for name in NAMES}, BOTH: (both,)}
    (stage,) = stages(world, setting, view)
    first, second = (stage.means(job, world.blocks(setting, side)) for side in (True, False))
    sensitivity = next(iter(given.values())).exact.sensitivity
    return log_ratio(stage, got, first, second, sensitivity, 1 if consortium else 2)


def _often(name: str, what: Given, trials: int) -> tuple[NDArray[np.int64], ...]:
    event = Event(Mechanism.LATTICE, what.rho, math.inf, Scope.JOINT)
    ledger = Ledger(MemoryLog(), name, Policy())
    ledger.open_run(RUN, _terms("secure"), {name: (Charge(event, 1, "audited release"),)})
    many = tuple(np.broadcast_to(part, (trials, *part.shape)) for part in what.exact.value)
    exact = Private(many, what.exact.sensitivity)
    sent = Gate(ledger, RUN, SystemNoise()).integers(exact, what.weights, what.rings, rho=what.rho, scope=Scope.JOINT)
    return tuple(ring.signed(part.value.values) for ring, part in zip(what.rings, sent, strict=True))


def movement(world: World, setting: Setting) -> list[tuple[float, float]]:
    """For each release of a run: how far it moves between the two tables, and how far its parties say it can.

    Both tables are asked for the same release, that which the run on the first one prepared.
    """
    job, view = world.job(setting), run(world, setting, world.blocks(setting, True))
    found = []
    for stage, told in zip(stages(world, setting, view), _sensitivities(view), strict=True):
        first, second = (stage.means(job, world.blocks(setting, side)) for side in (True, False))
        total = 0.0
        for name, weights in stage.weights.items():
            for mean1, mean2, weight in zip(first[name], second[name], weights, strict=True):
                total += float(np.square((mean1 - mean2) / weight).sum())
        found.append((math.sqrt(total), told))
    return found


def _sensitivities(view: View) -> list[float]:
    return [what.exact.sensitivity for name, what in view.given if name == ONE]


# ------------------------------------------------------------------------------------------------ whole runs

Score = Callable[[World, Setting, View], float]


def _runs(score: Score, world: World, setting: Setting, inside: bool, trials: int, quiet: str | None = None) -> Floats:
    """A score for each of many runs; `quiet` names a party that looks on, whose own part of the row is the same in both."""
    blocks = world.blocks(setting, inside, only_one=quiet is not None)
    return np.array([score(world, setting, run(world, setting, blocks, quiet)) for _ in range(trials)])


def likelihood(world: World, setting: Setting, view: View, quiet: str | None = None) -> float:
    """The likelihood ratio of all noisy numbers of one run, but for what a party that looks on released itself."""
    job = world.job(setting)
    tables = [world.blocks(setting, side, only_one=quiet is not None) for side in (True, False)]
    got = {name: view.all(name, COORDINATOR, Parts) for name in NAMES}
    total = _labels(Design(job, world.method).labels, view, tables)
    for number, (stage, sensitivity) in enumerate(zip(stages(world, setting, view), _sensitivities(view), strict=True)):
        parts = {name: tuple(part.value.values for part in got[name][number].parts) for name in NAMES}
        noisy = released(stage, parts)
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


def model(world: World, setting: Setting, view: View) -> float:  # noqa: ARG001  the same for all scores
    """The sum of all coefficients: the row pulls them one way or the other."""
    return float(sum(view.all(COORDINATOR, name, Finish)[0].coefficients.sum() for name in NAMES))


# ------------------------------------------------------------------------------------------------ shares and masks


def dealt(world: World, setting: Setting, view: View) -> float:
    """How much nearer the shares lie to what the first table makes of them, given every seed; and so do their differences
    between stages, if the two of them were hidden alike."""
    job = world.job(setting)
    left = []  # by table and stage: what is left of a share when all that the dealer can work out is taken away
    for side in (True, False):
        blocks = world.blocks(setting, side)
        left.append([hidden_part(job, stage, view, k, blocks) for k, stage in enumerate(stages(world, setting, view))])
    return _nearer(*left)


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
    """How much smaller the left-overs are under the first table than under the second, and those of two stages alike."""
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


def compared(world: World, setting: Setting, view: View) -> float:
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
    rows = IntegerRows(
        block, grid(local.job, name, local.figures, every, np.zeros(every.size), np.ones(every.size))
    ).rows(0, block.rows)
    constant, label = local.beside(name)
    if local.sketch:
        columns = [*rows.T, *([block.own_labels().astype(np.int64) * label] if label else [])]
        buckets = Buckets(public_bytes(RUN, "buckets"), block.rows, local.buckets)
        return (np.column_stack([buckets.of_column(column, None) for column in columns]),)
    cut = np.rint(np.clip(labels / local.labels.limit, -1.0, 1.0) * label).astype(np.int64)
    gram = rows.T @ rows
    return np.diag(gram), gram[np.triu_indices(every.size, 1)], constant * rows.sum(axis=0), rows.T @ cut


# ------------------------------------------------------------------------------------------------ the table

_TURNED = "replace one row of full length by one orthogonal to it: features of both parties and the label"
_EVERY = "every message of the parties to it"


@dataclass(frozen=True)
class Viewer:
    """Who attacks: what it sees, what it computes from that, and the attack."""

    sees: str
    statistic: str
    attack: Callable[[Setting, bool, int], Floats]


@dataclass(frozen=True)
class Attacked:
    """A way to run the method, and who looks at it."""

    title: str
    viewers: Mapping[str, Viewer]
    trials: int
    batch: int
    trust: str
    neighbours: str = _TURNED


def _target(title: str, world: World, trials: int, batch: int, **viewers: Viewer) -> Attacked:
    return Attacked(f"{title}: all programs of a run, trust {world.trust!r}", viewers, trials, batch, world.trust)


def _by(sees: str, statistic: str, score: Score, world: World, quiet: str | None = None) -> Viewer:
    return Viewer(sees, statistic, partial(_runs, score, world, quiet=quiet))


def _draws(sees: str, world: World) -> Viewer:
    return Viewer(sees, "the likelihood ratio", partial(_drawn, world))


_PARTNER = partial(likelihood, quiet=TWO)
ATTACKS: Mapping[str, Attacked] = {
    "gram": _target(
        "the Gram matrix of rows as they are, drawn often", RAW, 50_000, 50_000, coordinator=_draws(_EVERY, RAW)
    ),
    "gram-views": _target(
        "the Gram matrix of rows as they are",
        RAW,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio", likelihood, RAW),
        dealer=_by(f"{_EVERY}, and its masks", "which table the shares are nearer to", dealt, RAW),
        partner=_by("its own noise and the released matrix", "the likelihood ratio", _PARTNER, RAW, TWO),
        reader=_by("the model", "the sum of its coefficients", model, RAW),
    ),
    "class-sums-gram": _target(
        "class sums, then the Gram matrix of centred rows",
        FIRST_SUMS,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of both releases", likelihood, FIRST_SUMS),
        dealer=_by(f"{_EVERY}, and its masks", "which table the shares are nearer to", dealt, FIRST_SUMS),
        partner=_by("its own noise and all that was released", "the likelihood ratio", _PARTNER, FIRST_SUMS, TWO),
        onlooker=_by("masked columns of both stages", "their difference", compared, FIRST_SUMS, TWO),
        reader=_by("the model", "the sum of its coefficients", model, FIRST_SUMS),
    ),
    "labels-gram": _target(
        "noisy labels, class sums by them, then the Gram matrix",
        FIRST_LABELS,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of all three releases", likelihood, FIRST_LABELS),
        reader=_by("the model", "the sum of its coefficients", model, FIRST_LABELS),
    ),
    "shared-gram": _target(
        "the Gram matrix, noised on the way out, drawn often",
        SHARED,
        50_000,
        50_000,
        reader=_draws("the published matrix", SHARED),
    ),
    "own-gram": _target(
        "noisy labels, then every party's own Gram matrix",
        OWN,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of all of them", local_likelihood, OWN),
        reader=_by("the model", "the sum of its coefficients", model, OWN),
    ),
    "bucket-gram": _target(
        "noisy buckets of every party's columns",
        BUCKETS,
        300,
        50,
        coordinator=_by(_EVERY, "the likelihood ratio of all of them", local_likelihood, BUCKETS),
        reader=_by("the model", "the sum of its coefficients", model, BUCKETS),
    ),
}
