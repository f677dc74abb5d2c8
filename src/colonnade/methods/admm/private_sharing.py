"""Private sharing ADMM over columns held by different parties: least squares or logistic loss with a ridge.

Solves   min loss(Σ A_m x_m + b, y) + a/2 Σ ‖x_m‖², by a few rounds of the sharing form (sharing.py) on noisy values.
Source   Boyd et al., 2011, 7.3, with the calibration derived in docs/understand/privacy/admm.md. (Hu et al.,
         NeurIPS 2020, print another one, which does not hold: papers/findings.md.)
         The label holder releases noisy labels ŷ once. Round t: z̄ and u come from published values; party m minimises
         a/2 ‖x‖² + rho/2 ‖A_m x + r‖² **over** ‖x‖ ≤ radius, r = clip(ā − z̄ + u − p̃_m), p̃_m its own last *published*
         prediction, and releases p̃_m = A_m x + noise; in the last round x + noise instead.
Leaves   noisy labels once; from each party noisy predictions in all rounds but the last, then noisy coefficients.
Price    rho in all, the whole budget: LABELS of it for ŷ, MODEL for the coefficients, the rest for the predictions.
Unit     one row (or person). For a federation whose unit is COLUMN: one feature column, where parties' prices are
         counted once, since a column lives at one party; neither rows nor the label vector are protected then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.prox import project_l2
from colonnade.methods.method import Done, Finish, Method, finish_party, numbers
from colonnade.model.job import Answer, Job, Own, Status, swamped
from colonnade.privacy.block import Block, FeatureColumn, check_sensible, sum_slack
from colonnade.privacy.events import Charge, Event, Mechanism, Plan, Scope
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Trust
from colonnade.privacy.values import Private, Released
from colonnade.problem import LeastSquares, Logistic, Ridge
from colonnade.problem.nearest import NearestInBall
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, message, receive, tell

# shares of the budget; what is left buys predictions, or a better model where none are sent
LABELS = 0.4
MODEL = 0.3
CLIP = 2.0  # residuals are clipped to so many label bounds
MOST = 20  # rounds that the budget may ask for
# For the rounding of the x-update beside that of long sums: docs/understand/privacy/admm.md.
SLACK = 1.0 + 1e-6
SHARE = 0.96  # the most that a mean of labels ±1 is believed to be; noise may bring it anywhere


@message(50)
class SendNoisyLabels:
    """Coordinator → label holder: release the labels with noise."""


@message(51)
class NoisyLabelsSent:
    """Label holder → coordinator: the labels with noise."""

    values: Released[Array]


@message(52)
class Couple:
    """Coordinator → party: ā − z̄ + u, made of what was published; answer with your next prediction."""

    values: Array


@message(53)
class NoisyPart:
    """Party → coordinator: my prediction with noise."""

    prediction: Released[Array]


@message(54)
class SendNoisyModel:
    """Coordinator → party: ā − z̄ + u for the last time; answer with your coefficients."""

    values: Array


@message(55)
class NoisyModel:
    """Party → coordinator: my coefficients with noise."""

    coefficients: Released[Array]


Request = SendNoisyLabels | Couple | SendNoisyModel | Finish


def coordinator(job: Job, terms: _Terms) -> Program[Answer]:
    roster = job.roster
    parties = job.roster.with_columns
    rows = job.roster.rows
    labels = (yield from ask_one(roster.label, SendNoisyLabels(), NoisyLabelsSent)).values.value
    y = numbers(labels, (rows,), roster.label)
    step = len(parties) / terms.rho
    prox = partial(noisy_prox, job, y, step)
    mean = np.zeros(rows)
    u = np.zeros(rows)
    intercept = 0.0
    for t in range(terms.rounds):
        point = len(parties) * (mean + u)
        # Means over all rows, whose noise is small.
        if job.problem.intercept:
            intercept = level(job, y) - len(parties) * float(np.mean(mean))
        z = (prox(point + intercept) - intercept) / len(parties)
        u = u + mean - z
        note: Note = {"round": t + 1}
        if t + 1 < terms.rounds:
            parts = yield from ask(parties, Couple(mean - z + u), NoisyPart, note)
            predictions = [numbers(parts[p].prediction.value, (rows,), p) for p in parties]
            mean = np.asarray(sum(predictions)) / len(parties)
    models = yield from ask(parties, SendNoisyModel(mean - z + u), NoisyModel, note)
    x = {p: numbers(models[p].coefficients.value, (len(roster.positions[p]),), p) for p in parties}
    remarks = _worse_than_nothing(job, terms, x, mean - z + u)
    x = {p: project_l2(part, terms.radius) for p, part in x.items()}  # what was minimised over; free
    yield from tell({p: Finish(x.get(p, np.zeros(0)), intercept) for p in roster.parties}, Done)
    return Answer(x, intercept, objective=None, gap=None, status=Status.FIXED_ROUNDS, remarks=remarks)


def _worse_than_nothing(job: Job, terms: _Terms, x: Mapping[str, Floats], common: Floats) -> tuple[str, ...]:
    """The remark where x = 0 is expected to be nearer to the answer than the released coefficients.

    Their squares are on average those of the answer plus those of the noise, which are known: below twice the noise's,
    the noise is the larger part. Residuals are at most what a party's own prediction leaves, cut to the public bound.
    """
    squares = noise = 0.0
    for party, part in x.items():
        moves = terms.moves(common if terms.columns else np.clip(common, -terms.clip, terms.clip), terms.norms[party])
        sd = moves.model * job.roster.unit.rows / math.sqrt(2.0 * terms.model_rho)
        squares = squares + float(part @ part)
        noise = noise + part.size * sd**2
    if squares >= 2.0 * noise:
        return ()
    return (swamped("coefficients of zero are expected to be nearer to the answer than those that were released"),)


def party(block: Block, gate: Gate, terms: _Terms, norm: float) -> Program[Own]:
    published = np.zeros(block.rows)
    if block.columns:
        matrix = terms.bounded(block, norm)
        closest = NearestInBall(matrix, terms.ridge, terms.radius)
    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendNoisyLabels():
                exact = Private(block.bounded_labels(terms.label), 2.0 * terms.label * math.sqrt(block.unit.rows))
                answer: object = NoisyLabelsSent(gate.gaussian(exact, rho=terms.label_rho))
            case Couple(values) | SendNoisyModel(values):
                common = numbers(values, (block.rows,), COORDINATOR)
                with np.errstate(over="ignore"):  # what overflows is clipped
                    residual = np.clip(common - published, -terms.clip, terms.clip)
                x = closest(-residual, terms.rho)
                moves = terms.sensitivity(residual, norm, block)
                if isinstance(request, SendNoisyModel):
                    coefficients = gate.gaussian(Private(x, moves.model), rho=terms.model_rho, scope=terms.scope)
                    answer = NoisyModel(coefficients)
                else:
                    exact = Private(np.asarray(matrix @ x), moves.prediction)
                    released = gate.gaussian(exact, rho=terms.prediction_rho, scope=terms.scope)
                    published = released.value
                    answer = NoisyPart(released)
        request = yield from ask_one(COORDINATOR, answer, Request)
    return (yield from finish_party(block, gate, request))


REPLIES: Replies = {SendNoisyLabels: NoisyLabelsSent, Couple: NoisyPart, SendNoisyModel: NoisyModel, Finish: Done}


@dataclass(frozen=True)
class PrivateSharingADMM(Method):
    """Private sharing ADMM over columns held by different parties: least squares or logistic loss with a ridge.

    Parameters
    ----------
    rounds
        How many, fixed before the first: each has a share of the budget. None: as many as the budget carries.
    radius
        A public bound of the length of each party's coefficients, above 0: a larger one needs more noise.
    """

    rounds: int | None = None
    radius: float = 1.0
    TITLE: ClassVar[str] = "private sharing ADMM"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    PROTECTS_COLUMNS: ClassVar[bool] = True
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares, Logistic)
    DERIVATION: ClassVar[str | None] = "docs/understand/privacy/admm.md, private sharing ADMM"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sensible(radius=self.radius)

    @property
    def trusts(self) -> tuple[Trust, ...]:
        return (Trust.NOBODY,)

    def check(self, job: Job) -> None:
        self.check_trust(job)
        if not isinstance(job.problem.loss, self.LOSSES) or not isinstance(job.problem.penalty, Ridge):
            why = "its calibration needs the ridge's curvature, and a loss that takes noisy labels"
            raise InvalidInput(f"{self.TITLE} solves LeastSquares() or Logistic() with penalty=co.Ridge(a): {why}.")
        check_sensible(ridge=job.problem.penalty.a)
        _terms(job, self)

    def price(self, job: Job) -> Mapping[str, Plan]:
        terms = _terms(job, self)

        def charge(rho: float, count: int, what: str, scope: Scope = terms.scope) -> Plan:
            # sensitivities are settled at release
            return (Charge(Event(Mechanism.GAUSSIAN, rho, math.inf, scope), count, what),) if count else ()

        labels = charge(terms.label_rho, 1, "noisy labels", Scope.OWN)
        what = "a noisy prediction for every row, in all rounds but one"
        parts = charge(terms.prediction_rho, terms.rounds - 1, what)
        parts += charge(terms.model_rho, 1, "noisy coefficients")
        holds = job.roster.with_columns
        return {p: labels * (p == job.roster.label) + parts * (p in holds) for p in job.roster.parties}

    def depends_on_row_order(self, job: Job) -> bool:
        """Whether what leaves depends on where a row stands, and rows are protected."""
        return not isinstance(job.roster.unit, FeatureColumn)

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, _terms(job, self))

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        terms = _terms(job, self)
        places = tuple(block.positions.tolist())
        norms = [terms.norms[p] for p in job.roster.with_columns if job.roster.positions[p] == places]
        return party(block, gate, terms, norms[0] if norms else math.nan)  # nan: it has labels only


@dataclass(frozen=True)
class Moves:
    """How far one unit can move what a party computes in one round, in L2."""

    prediction: float
    model: float


def row_moves(rho: float, ridge: float, radius: float, norm: float, reach: float) -> Moves:
    """One row of norm ≤ norm is replaced; |residuals| ≤ reach, ‖x‖ ≤ radius (docs/understand/privacy/admm.md)."""
    # The most that one row adds to the gradient.
    push = rho * norm * (norm * radius + reach)
    return Moves(math.hypot(2.0 * norm * radius, push / math.sqrt(ridge * rho)), min(2.0 * radius, 2.0 * push / ridge))


def column_moves(rho: float, ridge: float, norm: float, length: float) -> Moves:
    """One column of norm ≤ norm is replaced; ‖residual‖ = length, x not bounded: docs/understand/privacy/admm.md."""
    pull = rho * length
    return Moves(pull * norm**2 / (ridge + rho * norm**2), pull / math.sqrt(ridge * rho))


@dataclass(frozen=True)
class _Terms:
    """Everything public that a run is fixed by."""

    rounds: int
    rho: float  # of the augmented Lagrangian
    ridge: float
    radius: float
    label: float  # bound of |labels|
    norms: Mapping[str, float]  # of each party's part of a row, or of its columns
    columns: bool  # the unit is a column
    label_rho: float
    prediction_rho: float  # of one prediction
    model_rho: float

    @property
    def clip(self) -> float:
        return CLIP * self.label

    @property
    def scope(self) -> Scope:
        # A column lives at one party, a row at all.
        return Scope.JOINT if self.columns else Scope.OWN

    def bounded(self, block: Block, norm: float) -> Any:
        """The block with rows clipped to their norm, or entries to what bounds a column's; stored as it was."""
        if self.columns:
            return block.clipped(norm / math.sqrt(block.rows)).matrix
        matrix = block.clipped().matrix
        if sparse.issparse(matrix):
            matrix.data = _clip_rows(block.rows, norm, matrix.indices, matrix.data)
            return matrix
        rows = np.repeat(np.arange(block.rows), block.columns)
        return _clip_rows(block.rows, norm, rows, matrix.ravel()).reshape(matrix.shape)

    def moves(self, residual: Floats, norm: float) -> Moves:
        """How far one unit moves a party whose part of a row, or whose columns, have at most this norm."""
        if self.columns:
            return column_moves(self.rho, self.ridge, norm, float(np.linalg.norm(residual)))
        return row_moves(self.rho, self.ridge, self.radius, norm, float(np.max(np.abs(residual))))

    def sensitivity(self, residual: Floats, norm: float, block: Block) -> Moves:
        """From the party's own bounds and the residual, which is made of published values."""
        moves = self.moves(residual, norm)
        factor = SLACK * sum_slack(block.rows) * block.unit.rows
        return Moves(max(factor * moves.prediction, TINY), max(factor * moves.model, TINY))


TINY = 2.0**-100  # a residual of zeros moves nothing, and noise needs a scale


def _terms(job: Job, settings: PrivateSharingADMM) -> _Terms:
    assert isinstance(job.problem.penalty, Ridge)
    columns = isinstance(job.roster.unit, FeatureColumn)
    parties = job.roster.with_columns
    ridge = job.problem.penalty.a
    rho = 1.0 / job.roster.rows
    count = 1 if columns else len(parties)
    norms = _norms(job, columns)
    budget = job.rho
    rounds = settings.rounds
    if rounds is None:
        # T − 1 noisy predictions pay while their noise moves the coefficients by less than a quarter of the radius.
        noise = 32.0 * count * (max(norms.values()) ** 2 / ridge) ** 2 / ((1.0 - LABELS - MODEL) * budget)
        rounds = 1 if columns else min(1 + int(job.roster.rows / noise), MOST)
    model = MODEL if rounds > 1 else 1.0 - LABELS
    return _Terms(
        rounds=rounds,
        rho=rho,
        ridge=ridge,
        radius=math.inf if columns else settings.radius,
        label=job.label_bound,
        norms=norms,
        columns=columns,
        label_rho=LABELS * budget,
        prediction_rho=(1.0 - LABELS - model) * budget / (count * max(rounds - 1, 1)),
        model_rho=model * budget / count,
    )


def _norms(job: Job, columns: bool) -> dict[str, float]:
    """Public bounds by party: of its part of a row, or of each of its columns."""
    privacy = job.privacy
    widths = {p: len(job.roster.positions[p]) for p in job.roster.with_columns}
    if columns:
        return dict.fromkeys(widths, job.feature_bound * math.sqrt(job.roster.rows))
    if privacy is None or privacy.row_norm is None:
        given = "row_norm=C), a public bound of a row's length, or row_norm={party: C_m} of each party's part of it"
        raise InvalidInput(f"private sharing ADMM needs privacy=co.Privacy(..., {given}.")
    if isinstance(privacy.row_norm, Mapping):
        if missing := [party for party in widths if party not in privacy.row_norm]:
            raise InvalidInput(f"row_norm names no bound for party {missing[0]!r}; give one for each with columns.")
        return {party: float(privacy.row_norm[party]) for party in widths}
    total = sum(widths.values())
    return {party: privacy.row_norm * math.sqrt(width / total) for party, width in widths.items()}


def noisy_prox(job: Job, y: Floats, step: float, v: Floats) -> Floats:
    """The prox of the loss at v, for labels that are any real numbers."""
    if not job.problem.loss.classifies:
        return job.problem.loss.prox(v, y, step)
    # log(1 + exp(−y·s)) = log(2cosh(s/2)) − y·s/2 for y = ±1, and the right side is linear in y: another label moves
    # the point at which the prox is taken, and noise of mean 0 leaves the mean of the loss as it is.
    shift = (step / y.size) * (y - 1.0) / 2.0
    return job.problem.loss.prox(v + shift, np.ones(y.size), step)


def level(job: Job, y: Floats) -> float:
    """The best intercept where all other scores are zero, from noisy labels."""
    mean = float(np.mean(y))
    if not job.problem.loss.classifies:
        return mean
    share = min(max(mean, -SHARE), SHARE)
    return math.log((1.0 + share) / (1.0 - share))


def _clip_rows(count: int, norm: float, rows: NDArray[np.int64], values: Floats) -> Floats:
    largest = np.zeros(count)
    np.maximum.at(largest, rows, np.abs(values))
    # Squares of it neither over- nor underflow.
    shape = values / np.where(largest > 0.0, largest, 1.0)[rows]
    size = np.sqrt(np.bincount(rows, np.square(shape), minlength=count))
    return np.asarray(shape * np.minimum(largest, norm / np.maximum(size, 1.0))[rows])
