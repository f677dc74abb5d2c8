"""Private Frank-Wolfe over columns held by different parties: a picked column leaves as a noisy sketch.

Solves   min loss(Ax, y)  subject to  ‖x‖₁ ≤ radius; under trust "nobody" the loss is its quadratic at zero.
Source   Lou and Cheung, "An uplink communication-efficient approach to featurewise distributed sparse optimization with
         differential privacy", algorithm 2; comments "line n" refer to its box. Mended: the calibration
         (docs/understand/privacy/frank-wolfe.md, "private block Frank-Wolfe"); line 12, which leaves the ball: weights
         are solved for on the ball over all sketches so far, which is free (below); a sparse sketch,
         hashed from the run's id; a column is sent and paid for once, its product with the labels beside it: the
         sketched labels tell that far worse.
Leaves   trust "nobody": the labels with noise, unless they are public; from each party one column number a round, and
         for each new one a noisy sketch and a noisy product. Trust "consortium": one signed column number a round, by
         one choice over all parties' columns; labels, slopes and picked columns travel inside.
Price    "nobody": label_share of rho for the labels; of the rest w/(K·T) a pick and (1 − w)/S a column, S the most
         columns there can be. "consortium": rho/T a round, once for all parties.

Weights  from what has left: noisy sketches of columns, noisy products with labels.
         min F(x) = ½·bend·xᵀGx − pull·pᵀx  on ‖x‖₁ ≤ radius, where G = AᵀA and p = Aᵀy are known with errors only. Of
         the least points of the estimate of F on balls of ever larger radius, and 0, the one with the least *upper
         bound* U ≥ F is chosen. So F(x) ≤ U(x) ≤ U(0) = F(0), and U falls to F as the budget grows; bounds:
         docs/understand/methods/frank-wolfe.md. A point of the estimate's own on the whole ball may be many times worse
         than 0. Nothing leaves by it, and it costs nothing: all is a function of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import gammaincinv, ndtri

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.kernels.prox import soft_threshold
from colonnade.kernels.sketch import sketch_key, sparse_lift, sparse_sketch
from colonnade.methods.frank_wolfe.private_spend import (
    FILL,
    MOST_ROUNDS,
    PRODUCT,
    Spend,
    balanced_rounds,
    ball_of,
    best_sketch_rows,
    inside_price,
    outside_price,
    step_size,
)
from colonnade.methods.method import Done, Finish, Labels, Method, SendLabels, ask_labels, finish_party, numbers
from colonnade.model.job import Answer, Job, Own, Status
from colonnade.privacy.block import Block, sum_slack
from colonnade.privacy.events import Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Private, Released
from colonnade.problem import LeastSquares, Logistic, SquaredHinge
from colonnade.problem.problem import PublicLabels
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, message, public_bytes, receive, tell


@message(110)
class Slope:
    """Coordinator → party: the labels that everybody may know, and the slope, one number a row; pick a column."""

    labels: Array  # empty but for the first time
    slope: Array


@message(111)
class Pick:
    """Party → coordinator: a steep column, by the exponential mechanism; if it is new, its noisy sketch and product."""

    index: Released[int]
    column: tuple[Released[Array], ...]  # J·a, then τ·a·y, with noise; nothing where the column has left before


@message(112)
class InsideTurn:
    """Coordinator → party, inside: the slope, one number a row; draw your part of the choice."""

    slope: Released[Array]


@message(113)
class InsideOffer:
    """Party → coordinator, inside: one of my signed columns by its own law, and the mass of all of them."""

    index: Released[int]
    sign: Released[int]
    mass: Released[int]


@message(114)
class SendColumn:
    """Coordinator → winner, inside: send the column you offered."""

    index: Released[int]


@message(115)
class InsideColumn:
    """Winner → coordinator, inside: the column, clipped, every entry: its length must not tell how many are zero."""

    values: Released[Array]


REPLIES: Replies = {SendLabels: Labels, Slope: Pick, InsideTurn: InsideOffer, SendColumn: InsideColumn, Finish: Done}


# ------------------------------------------------------------------------------------------------ trust "nobody"


def coordinator(job: Job, spend: Spend, run: str) -> Program[Answer]:
    roster = job.roster
    parties = job.roster.with_columns
    model = Quadratic.at_zero(job)
    y = spend.labels
    if y is None:
        y = clipped_labels(numbers((yield from ask_labels(roster)), (roster.rows,), roster.label), spend)
    sketch = HashedSketch(run, spend.rows, roster.rows)
    kept = dict[tuple[str, int], Floats]()
    x = np.zeros(0)
    first = y
    for t in range(spend.rounds):
        q = sum((w * column[:-1] for w, column in zip(x, kept.values(), strict=True)), np.zeros(spend.rows))  # line 14
        slope = model.slope(sketch.lift(q), y)
        note: Note = {"round": t + 1, "columns": len(kept)}
        picks = yield from ask(parties, Slope(first, slope), Pick, note)  # line 15, then lines 5 to 9
        first = np.zeros(0)
        for party, pick in picks.items():  # line 11
            place = party, pick.index.value
            if place not in kept:
                kept[place] = _read_column(pick, spend.rows, len(roster.positions[party]))
        x = best_on_ball(np.stack(list(kept.values()), axis=1), spend, model, largest(y), job)
    coefficients = {p: np.zeros(len(roster.positions[p])) for p in parties}
    for (party, index), weight in zip(kept, x, strict=True):
        coefficients[party][index] = weight
    yield from tell({p: Finish(coefficients.get(p, np.zeros(0)), 0.0) for p in roster.parties}, Done)
    remarks = spend.remarks(job)
    return Answer(coefficients, 0.0, objective=None, gap=None, status=Status.FIXED_ROUNDS, remarks=remarks)


def party(job: Job, block: Block, gate: Gate, spend: Spend) -> Program[Own]:
    bound = spend.bound
    k = job.roster.unit.rows * sum_slack(block.rows)
    block, sketch = block.clipped(bound), HashedSketch(gate.run, spend.rows, block.rows)
    y = np.zeros(0)
    sent = set[int]()
    request = yield from receive(COORDINATOR, Outside)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                exact = block.bounded_labels(spend.label_bound)
                move = 2.0 * spend.label_bound * job.roster.unit.rows
                answer: object = Labels(gate.gaussian(Private(exact, move), rho=spend.rho_labels))
            case Slope(labels, slope):
                y = _unit(numbers(labels, (block.rows,), COORDINATOR)) if labels.size else y
                # The slope is public, and so is its largest entry, by which it is divided: what is sent may be of any
                # size. One row moves a score by at most its entry times its slope: 2·B.
                steep = _unit(numbers(slope, (block.rows,), COORDINATOR))
                scores = Private(block.correlations(steep), 2.0 * bound * k)
                index, _ = gate.noisy_max(scores, rho=spend.rho_pick)  # lines 6 to 8
                answer = Pick(index, ())
                if (j := index.value) not in sent:
                    sent.add(j)
                    # One row moves J·a by 2·B, the columns of J having norm 1, and a·y, with y public within ±1, too.
                    product = np.array([PRODUCT * float(block.correlations(y)[j])])
                    both = Private(sketch.of(block, j), 2.0 * bound * k), Private(product, 2.0 * bound * PRODUCT * k)
                    answer = Pick(index, gate.gaussian(*both, rho=spend.rho_column))  # line 9
        request = yield from ask_one(COORDINATOR, answer, Outside)
    return (yield from finish_party(block, gate, request))


Outside = SendLabels | Slope | Finish


class HashedSketch:
    """J, hashed from the run's id: sparse, every column of norm exactly 1. As long as the table it is the identity."""

    def __init__(self, run: str, size: int, rows: int) -> None:
        self.key = sketch_key(public_bytes(run, "sketch"))
        self.size = size
        self.rows = rows
        self.entries = 4 if size % 4 == 0 else 1

    def of(self, block: Block, j: int) -> Floats:
        """J·a of one column."""
        column = block.column(j)
        out = np.empty(self.size)
        dense = isinstance(column, np.ndarray)
        if self.size == self.rows:
            return np.asarray(column if dense else column.toarray().ravel(), np.float64)
        rows, values = (np.arange(self.rows), column) if dense else (column.indices.astype(np.int64), column.data)
        sparse_sketch(self.key, self.entries, rows, values, out)
        return out

    def lift(self, q: Floats) -> Floats:
        """Jᵀ·q."""
        if self.size == self.rows:
            return q
        out = np.empty(self.rows)
        sparse_lift(self.key, self.entries, q, out)
        return out


def clipped_labels(noisy: Floats, spend: Spend) -> Floats:
    """The released labels within one standard deviation beyond their bound, put back to scale: both free."""
    sigma = spend.label_sigma
    limit = spend.label_bound + sigma
    return np.clip(noisy, -limit, limit) / math.erf(limit / sigma / math.sqrt(2.0))


def _read_column(pick: Pick, rows: int, columns: int) -> Floats:
    parts = [part.value for part in pick.column]
    if [part.shape for part in parts] != [(rows,), (1,)] or not 0 <= pick.index.value < columns:
        raise ProtocolError(f"a party picked a new column and sent {len(parts)} arrays about it where 2 were due")
    return np.concatenate(parts)


def _unit(values: Floats) -> Floats:
    """The values over the largest of them: within ±1, whatever they are."""
    return values / largest(values)


# ------------------------------------------------------------------------------------------------ trust "consortium"


def inside_coordinator(job: Job, gate: Gate, spend: Spend) -> Program[Answer]:
    roster = job.roster
    parties = job.roster.with_columns
    radius = ball_of(job).radius
    y = numbers((yield from ask_labels(roster)), (roster.rows,), roster.label)
    x = {p: np.zeros(len(roster.positions[p])) for p in parties}
    prediction = np.zeros(roster.rows)
    columns = dict[tuple[str, int], Floats]()
    for t in range(spend.rounds):
        slope = gate.inside(spend.clip(job.problem.loss.slope(prediction, y) * roster.rows, t, job))
        note: Note = {"round": t + 1, "step": step_size(t)}
        offers = yield from ask(parties, InsideTurn(slope), InsideOffer, note)
        masses = Private(tuple(offers[p].mass.value for p in parties), spend.shared_sensitivity(t, job))
        who = parties[gate.publish(masses, rho=spend.rho_pick).value]
        index = offers[who].index.value
        sign = offers[who].sign.value
        if (who, index) not in columns:
            if not 0 <= index < x[who].size:
                raise ProtocolError(f"{who!r} offered column {index} of its {x[who].size:,}")
            sent = yield from ask_one(who, SendColumn(offers[who].index), InsideColumn)
            columns[who, index] = numbers(sent.values.value, (roster.rows,), who)
        for own in (*x.values(), prediction):
            own *= 1.0 - step_size(t)
        # The sign drawn is that of the slope; the vertex is its opposite.
        x[who][index] -= step_size(t) * radius * sign
        prediction -= step_size(t) * radius * sign * columns[who, index]
    yield from tell({p: Finish(x.get(p, np.zeros(0)), 0.0) for p in roster.parties}, Done)
    return Answer(x, 0.0, objective=None, gap=None, status=Status.FIXED_ROUNDS, remarks=spend.remarks(job))


def inside_party(job: Job, block: Block, gate: Gate, spend: Spend) -> Program[Own]:
    block = block.clipped(spend.bound)
    t = 0
    request = yield from receive(COORDINATOR, Inside)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = Labels(gate.inside(block.bounded_labels(spend.label_bound)))
            case InsideTurn(slope):
                # The bound of a slope is this party's own: whatever the coordinator sends is clipped to it.
                scores = block.correlations(spend.clip(numbers(slope.value, (block.rows,), COORDINATOR), t, job))
                exact = Private(scores, spend.shared_sensitivity(t, job))
                answer = InsideOffer(*gate.entrust(exact, rho=spend.rho_pick))
                t += 1
            case SendColumn(index):
                column = block.column(index.value)
                dense = column.toarray().ravel() if sparse.issparse(column) else column
                answer = InsideColumn(gate.inside(dense))
        request = yield from ask_one(COORDINATOR, answer, Inside)
    return (yield from finish_party(block, gate, request))


Inside = SendLabels | InsideTurn | SendColumn | Finish


# ------------------------------------------------------------------------------------------------ what it costs


@dataclass(frozen=True)
class PrivateBlockFrankWolfe(Method):
    """Private Frank-Wolfe over columns held by different parties: a picked column leaves as a noisy sketch.

    Parameters
    ----------
    rounds
        How many, fixed before the first; None: from the budget and public figures.
    sketch_rows
        Rows of the sketch, at most the rows of the table; None: from the budget and public figures.
    label_share
        Of the budget, for the labels, where a party holds them and nobody is trusted; between 0 and 1.
    labels
        `co.PublicLabels(y)` where the labels are no secret; nothing is then spent on them.
    """

    rounds: int | None = None
    sketch_rows: int | None = None
    label_share: float = 0.3
    labels: PublicLabels | None = None
    TITLE: ClassVar[str] = "private block Frank-Wolfe"
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares, Logistic, SquaredHinge)
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/frank-wolfe.md, private block Frank-Wolfe"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("sketch_rows")
        if not 0.0 < self.label_share < 1.0:
            raise InvalidInput(f"label_share must lie between 0 and 1, got {self.label_share!r}", "label_share")
        if self.labels is not None and not isinstance(self.labels, PublicLabels):
            raise InvalidInput("labels must be None (a party holds them) or PublicLabels(y)", "labels")

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return (Trust.NOBODY, Trust.CONSORTIUM)

    @property
    def labels_public(self) -> bool:
        return self.labels is not None

    def check(self, job: Job) -> None:
        n = job.roster.rows
        loss = job.problem.loss
        if not isinstance(loss, self.LOSSES):
            raise InvalidInput(f"{self.TITLE} knows LeastSquares, Logistic and SquaredHinge, not {loss!r}.")
        self.check_trust(job)
        self.spend(job)
        if job.problem.intercept:
            raise InvalidInput(f"{self.TITLE} fits no intercept: add a column of ones, whose bound is public.")
        if self.sketch_rows is not None and self.sketch_rows > n:
            asked = f"sketch_rows={self.sketch_rows:,} is more than the {n:,} rows of the table"
            raise InvalidInput(f"{asked}: a sketch is shorter than that. Choose at most {n:,}, or None.")
        if self.labels is not None and (self._inside(job) or self.labels.values.size != n):
            given = f"{self.labels.values.size:,} public labels were given for {n:,} rows"
            raise InvalidInput(f"{given}: give one a row, and none where a consortium keeps the labels inside.")
        if self.labels is not None and loss.classifies and not (np.abs(self.labels.values) == 1.0).all():
            raise InvalidInput("public labels of a two-class problem must be -1 or +1: map the classes to these.")

    def price(self, job: Job) -> Mapping[str, Plan]:
        spend = self.spend(job)
        return inside_price(job, spend) if self._inside(job) else outside_price(job, spend)

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:
        spend = self.spend(job)
        return inside_coordinator(job, gate, spend) if self._inside(job) else coordinator(job, spend, gate.run)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return (inside_party if self._inside(job) else party)(job, block, gate, self.spend(job))

    def depends_on_row_order(self, job: Job) -> bool:
        """Whether what leaves depends on where a row stands: labels, or sketches."""
        return not self._inside(job)

    def _inside(self, job: Job) -> bool:
        return job.privacy is not None and job.privacy.trust == Trust.CONSORTIUM

    def spend(self, job: Job) -> Spend:
        """Rounds, sketch and prices, by public figures.

        Parameters
        ----------
        job
            What was asked for: problem, parties and terms.
        """
        bound = job.feature_bound
        label_bound = self._label_bound(job)
        n = job.roster.rows
        parties = len(job.roster.with_columns)
        unit = job.roster.unit.rows
        d = sum(map(len, job.roster.positions.values()))
        curvature = 4.0 * job.problem.loss.smoothness * (ball_of(job).radius * bound) ** 2
        if self._inside(job):
            spread = 4.0 * ball_of(job).radius * bound * label_bound * unit * math.log(2 * d)
            noise = spread / (n * math.sqrt(2.0 * job.rho))
            rounds = self.rounds or balanced_rounds(curvature, noise)
            return Spend(bound, label_bound, None, rounds, 0, 0.0, job.rho / rounds, 0.0)
        rho_labels = 0.0 if self.labels is not None else self.label_share * job.rho
        rho = job.rho - rho_labels
        # With w the share of picks, these err by Y·√(KT/wρ)·log(2d/K), sketches by radius·‖a‖·√(2S·log(2d)/((1 − w)ρ)),
        # ‖a‖² a usual n·B²·FILL: w/(1 − w) is the ratio of the two, without w and 1 − w, to the power 2/3.
        picks = 2.0 * label_bound * math.log(2 * d / parties + 1)
        sketches = ball_of(job).radius * bound * math.sqrt(2.0 * n * FILL * math.log(2 * d))
        share = min(max(1.0 / (1.0 + (sketches / picks) ** (2.0 / 3.0)), 0.1), 0.9)
        # With `reach` columns each would be as long as its noise in a sketch of as many rows: nothing could be told
        # apart. With C = L·(radius·B)²·FILL, k = KT columns err by 4C·k/reach, and k steps by 4C/(k + 2): the sum is
        # least at k + 2 = √reach (docs/understand/methods/frank-wolfe.md, "Rounds").
        reach = math.sqrt(n * FILL * (1.0 - share) * rho / (2.0 * (1.0 + PRODUCT**2) * unit**2))
        rounds = self.rounds or min(max(1, round((math.sqrt(reach) - 2.0) / parties)), MOST_ROUNDS)
        quota = {p: min(rounds, len(job.roster.positions[p])) for p in job.roster.with_columns}
        rho_pick = share * rho / (parties * rounds)
        rho_column = (1.0 - share) * rho / sum(quota.values())
        public = None if self.labels is None else np.asarray(self.labels.values)
        spend = Spend(bound, label_bound, public, rounds, 0, rho_labels, rho_pick, rho_column, quota)
        return replace(spend, rows=self.sketch_rows or best_sketch_rows(n, FILL * n * (bound / spend.sigma(unit)) ** 2))

    def _label_bound(self, job: Job) -> float:
        """Y, of the labels or, where they are public, of these."""
        if self.labels is None or job.problem.loss.classifies:
            return job.label_bound
        if job.privacy is not None and job.privacy.label_range is not None:
            raise InvalidInput("public labels are used as they are: leave label_range out.")
        return largest(np.asarray(self.labels.values))


CHANCE = 0.2  # that one of all bounds fails, at most: by counting each one's chance
RADII = 0.5 ** (np.arange(24, -1, -1) / 3)  # of the ball's, down to 1/256


@dataclass(frozen=True)
class Quadratic:
    """φ(s, y) ≈ φ(0) − pull·y·s + ½·bend·s²: the loss itself for least squares, its quadratic at zero for the others.

    The published version puts the lifted sketch Jᵀq̂ through the sigmoid or the hinge: noise of standard deviation far
    above 1, so that nothing is left of the curve. In the quadratic the noise averages out.
    """

    pull: float
    bend: float

    @classmethod
    def at_zero(cls, job: Job) -> Quadratic:
        one = np.ones(1)
        zero = np.zeros(1)
        return cls(-float(job.problem.loss.slope(zero, one)[0]), float(job.problem.loss.curvature(zero, one)[0]))

    def slope(self, scores: Floats, y: Floats) -> Floats:
        """By row; clipped to twice its size at zero, so that wild entries of the lift do not raise the sensitivity."""
        limit = 2.0 * self.pull * largest(y)
        return np.clip(self.bend * scores - self.pull * y, -limit, limit)


class Estimates:
    """Products of columns with each other and with the labels, and by how much they may be off.

    `columns` are sketches, one a column, each with its product below it; `label` is the largest label.
    """

    def __init__(self, columns: Floats, spend: Spend, label: float, job: Job) -> None:
        sketches = columns[:-1]
        self.products = columns[-1] * label / PRODUCT
        self.rows, self.count = sketches.shape
        sigma = spend.sigma(job.roster.unit.rows)
        chance = CHANCE / 3.0
        # What it adds to the square of a sketch's length, on average.
        self.noise = self.rows * sigma**2
        self.hashed = self.rows < job.roster.rows
        self.moments = sketches.T @ sketches
        # ‖Ĵa‖² is (‖a‖² + noise)·χ²/rows; a column of n entries within ±B is no longer than B√n.
        low = 2.0 * float(gammaincinv(self.rows / 2.0, chance / self.count)) / self.rows
        squares = np.clip(np.diag(self.moments) / low - self.noise, 0.0, job.roster.rows * spend.bound**2)
        # Variances of products of sketches, times their rows: of hashing, and of noise.
        hashing = np.outer(squares, squares) if self.hashed else 0.0
        self.spread = np.sqrt(hashing + self.noise * (np.add.outer(squares, squares) + self.noise))
        self.doubts = np.hypot(sigma * label / PRODUCT, spend.label_sigma * np.sqrt(squares))
        self.most = float(ndtri(1.0 - chance / (self.count * (self.count + 1))))  # deviations, of all products
        self.most_of_labels = float(ndtri(1.0 - chance / (2 * self.count)))
        self.least_singular = 1.0 - (math.sqrt(self.count) + math.sqrt(-2.0 * math.log(chance))) / math.sqrt(self.rows)

    @property
    def gram(self) -> Floats:
        """Without what the noise adds on average; negative eigenvalues cut, and a ridge of the usual error's size."""
        values, vectors = np.linalg.eigh(self.moments - self.noise * np.eye(self.count))
        ridge = math.sqrt(self.count / self.rows) * np.diag(self.spread)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(ridge))

    def upper(self, x: Floats, model: Quadratic) -> float:
        """U(x) ≥ F(x) for all x at once, but for CHANCE."""
        size = np.abs(x)
        square = float(x @ self.moments @ x)
        bent = max(square - self.noise * float(x @ x), 0.0)
        bent += self.most / math.sqrt(self.rows) * float(size @ self.spread @ size)
        if self.hashed and self.least_singular > 0.0:
            bent = min(bent, square / self.least_singular**2 - self.noise * float(x @ x))
        doubt = self.most_of_labels * float(self.doubts @ size)
        return float(0.5 * model.bend * bent - model.pull * (float(self.products @ x) - doubt))


def best_on_ball(columns: Floats, spend: Spend, model: Quadratic, label: float, job: Job) -> Floats:
    """The weights of all columns so far on ‖x‖₁ ≤ radius: of a path from 0, the point with the least upper bound."""
    known = Estimates(columns, spend, label, job)
    ball = ball_of(job)
    hessian = model.bend * known.gram
    pull = model.pull * soft_threshold(known.products, known.doubts)
    x = best = np.zeros(known.count)
    least = 0.0  # U(0)
    for part in RADII:
        x = quadratic_minimum(hessian, -pull, part * ball.radius, x)
        if (bound := known.upper(x, model)) < least:
            best = x
            least = bound
    return ball.project(best)


def largest(values: Floats) -> float:
    """max |value|, and 1 where all are zero: a sensitivity must be positive."""
    return float(np.abs(values).max(initial=0.0)) or 1.0
