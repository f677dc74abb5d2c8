"""Distributed Frank-Wolfe over columns held by different parties.

Solves   min loss(Ax + b, y)  subject to  x in an ℓ1 ball or a simplex,   A = [A₁ … A_p], party i holds Aᵢ.
Source   Bellet, Liang, Garakani, Balcan, Sha, "A distributed Frank-Wolfe algorithm for communication-efficient sparse
         learning", arXiv:1404.2644, algorithm 3; comments "line n" refer to its box. The winner's atom is broadcast once:
         later rounds name it by its number. Σ S_i is <prediction, slope> for a linear model, so no partial sums travel.
         By default the coordinator also re-solves over the atoms it has, which costs nothing on the wire but weights.
         b, where the problem asks for it, is the exact minimiser at every x: the gap then certifies the problem in x.
Leaves   the labels; from each party one index and one score a round; the winner's COLUMN, in full, once.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from colonnade.algorithms.method import (
    Answer,
    Array,
    Done,
    Finish,
    Floats,
    Job,
    Labels,
    Own,
    Roster,
    SendLabels,
    Status,
)
from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.columns import add_scaled, csc_matvec
from colonnade.privacy.block import Block, Column
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.problem import L1Ball, Loss, Problem, Simplex
from colonnade.problem.hull import best_weights
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, last, receive, tell


@message(20)
class Begin:
    """Coordinator → party: these are the labels; all coefficients are zero."""

    labels: Array
    intercept: float


@message(21)
class Bid:
    """Party → coordinator: my steepest column for the state you described."""

    index: Released[int]  # position inside the sender's block; never a feature name
    score: Released[float]  # <column, slope>, signed


@message(22)
class SendAtom:
    """Coordinator → winner: send me that column; it becomes the next atom."""

    index: int


@message(23)
class Atom:
    """Winner → coordinator: the column, sparse if it is stored so."""

    column: Released[Array] | Released[sparse.csc_array]


@message(24)
class Move:
    """Coordinator → party: step towards one atom."""

    new: Array | sparse.csc_array  # the atom that joins; a block of no columns where the receiver has it
    atom: int
    step: float
    weight: float
    intercept: float


@message(25)
class Place:
    """Coordinator → party: these are the weights of all atoms now."""

    new: Array | sparse.csc_array  # as in Move
    weights: sparse.csc_array
    intercept: float


Request = SendLabels | Begin | SendAtom | Move | Place | Finish


@dataclass(frozen=True)
class LineSearch:
    """The step that lowers the objective most: closed form for least squares, safeguarded Newton otherwise."""

    def size(self, t: int, loss: Loss, scores: Floats, direction: Floats, y: Floats) -> float:  # noqa: ARG002
        return loss.minimise_along(scores, direction, y)


@dataclass(frozen=True)
class OpenLoop:
    """2 / (t + 2), whatever the data."""

    def size(self, t: int, loss: Loss, scores: Floats, direction: Floats, y: Floats) -> float:  # noqa: ARG002
        return 2.0 / (t + 2)


@dataclass(frozen=True)
class Corrective:
    """After a line search, the best weights of all atoms seen so far: free, since they are here, and far fewer rounds."""

    def size(self, t: int, loss: Loss, scores: Floats, direction: Floats, y: Floats) -> float:  # noqa: ARG002
        return loss.minimise_along(scores, direction, y)


Step = LineSearch | OpenLoop | Corrective


class Atoms:
    """Columns side by side in one growing CSC block, so that their products are one pass."""

    def __init__(self, rows: int) -> None:
        self._rows, self._count = rows, 0
        self._data, self._indices, self._ends = np.zeros(1024), np.zeros(1024, np.int32), np.zeros(64, np.int64)

    def __len__(self) -> int:
        return self._count

    def append(self, column: Column) -> None:
        dense = isinstance(column, np.ndarray)
        values, places = (column, np.arange(self._rows)) if dense else (column.data, column.indices)
        end = int(self._ends[self._count]) + values.size
        self._data, self._indices = _room(self._data, end), _room(self._indices, end)
        self._ends = _room(self._ends, self._count + 2)
        self._data[end - values.size : end], self._indices[end - values.size : end] = values, places
        self._count += 1
        self._ends[self._count] = end

    def block(self) -> Any:
        end = int(self._ends[self._count])
        parts = self._data[:end], self._indices[:end], self._ends[: self._count + 1]
        return sparse.csc_array(parts, shape=(self._rows, self._count))

    def add(self, atom: int, weight: float, out: Floats) -> None:
        """out += weight·atom."""
        ends = slice(self._ends[atom], self._ends[atom + 1])
        add_scaled(self._indices[ends], self._data[ends], weight, out)

    def combine(self, weights: Floats, out: Floats) -> None:
        """out = the atoms with these weights."""
        csc_matvec(self._data, self._indices, self._ends[: self._count + 1], weights, out)


def _room(array: Array, size: int) -> Array:
    return array if size <= array.size else np.concatenate([array, np.zeros(max(size, array.size), array.dtype)])


class Track:
    """The state that coordinator and parties keep alike: labels, atoms seen so far and their weights, intercept."""

    def __init__(self, labels: Array, intercept: float = 0.0) -> None:
        self.y = labels.astype(np.float64)
        self.prediction = np.zeros(self.y.size)
        self.intercept = intercept
        self.atoms = Atoms(self.y.size)
        self.weights = np.zeros(0)

    @property
    def scores(self) -> Floats:
        return self.prediction + self.intercept

    def learn(self, column: Column) -> None:
        """Keep an atom, unless there is none in the block."""
        # The kernels look at no bounds: a column of other rows, from a peer, would be written past the prediction.
        shape = column.shape if sparse.issparse(column) else (*column.shape, 1)
        if len(shape) != 2 or shape[0] != self.y.size or shape[1] > 1:
            raise ProtocolError(f"a peer sent a block of shape {column.shape} for one column of {self.y.size:,} rows")
        if column.ndim == 1 or column.shape[1]:
            self.atoms.append(column)
            self.weights = np.append(self.weights, 0.0)

    def direction(self, atom: int, weight: float) -> Floats:
        """Vertex minus prediction."""
        away = -self.prediction
        self.atoms.add(atom, weight, away)
        return away

    def move(self, atom: int, step: float, weight: float) -> None:
        """prediction ← (1 − step)·prediction + step·weight·atom   (line 5)."""
        if not 0 <= atom < len(self.atoms):
            raise ProtocolError(f"a peer named atom {atom} where {len(self.atoms):,} are known")
        self.weights *= 1.0 - step
        self.weights[atom] += step * weight
        self.prediction *= 1.0 - step
        self.atoms.add(atom, step * weight, self.prediction)

    def place(self, weights: Floats) -> None:
        """prediction ← the atoms with these weights."""
        if weights.shape != (len(self.atoms),):
            raise ProtocolError(f"a peer sent weights of shape {weights.shape} for {len(self.atoms):,} atoms")
        self.weights = weights
        self.atoms.combine(weights, self.prediction)


def coordinator(job: Job, settings: DistributedFrankWolfe) -> Program[Answer]:
    problem, roster, constraint = job.problem, job.roster, ball_or_simplex(job.problem)
    parties, loss = roster.with_columns, problem.loss
    labels = (yield from ask_one(roster.label, SendLabels(), Labels)).values.value
    if labels.shape != (roster.rows,):
        raise ProtocolError(f"{roster.label!r} sent labels of shape {labels.shape} for {roster.rows:,} rows")
    track, numbers = Track(labels), dict[tuple[str, int], int]()
    track.intercept = _intercept(problem, track)
    feasible = constraint.contains(np.zeros(1))  # a simplex does not hold zero: the first step goes all the way
    bids = yield from ask(parties, Begin(labels, track.intercept), Bid)  # line 3
    for t in range(settings.rounds + 1):
        who, index, score = _steepest(bids, roster, constraint)  # line 4
        objective = loss.value(track.scores, track.y)
        gap = _gap(track, loss, constraint, score) if feasible else math.inf
        if 0.0 < settings.tolerance >= gap or t == settings.rounds:  # a tolerance of 0 asks for all rounds
            break
        new = nothing = sparse.csc_array((roster.rows, 0))
        if (who, index) not in numbers:
            new = (yield from ask_one(who, SendAtom(index), Atom)).column.value  # line 4; each atom travels once
            numbers[who, index] = len(track.atoms)
            track.learn(new)
        atom, weight = numbers[who, index], _weight(constraint, score)
        direction = track.direction(atom, weight)
        step = settings.step.size(t, loss, track.scores, direction, track.y) if feasible else 1.0
        track.move(atom, step, weight)  # line 5
        if isinstance(settings.step, Corrective):
            track.place(best_weights(loss, constraint, track.atoms.block(), track.weights, track.intercept, track.y))
        track.intercept, feasible = _intercept(problem, track), True
        known, fresh = (_news(block, track, settings.step, atom, step, weight) for block in (nothing, new))
        note: Note = {"round": t + 1, "objective": objective, "gap": gap, "step": step, "party": who}
        bids = yield from tell({p: known if p == who else fresh for p in parties}, Bid, note)  # line 3
    x = _coefficients(roster, numbers, track.weights)
    yield from tell({p: Finish(x.get(p, np.zeros(0)), track.intercept) for p in roster.parties}, Done)
    status = Status.CERTIFIED if gap <= settings.tolerance else Status.OUT_OF_ROUNDS
    return Answer(x, track.intercept, objective, gap, status)


def party(job: Job, block: Block, gate: Gate) -> Program[Own]:
    track, constraint = Track(np.zeros(block.rows)), ball_or_simplex(job.problem)

    def bid() -> Bid:
        scores = block.correlations(job.problem.loss.slope(track.scores, track.y))
        index = block.by_position[constraint.vertex(scores[block.by_position])[0]]
        return Bid(*gate.exact(int(index), float(scores[index])))  # infinite price

    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = Labels(gate.exact(block.own_labels()))
            case SendAtom(index):
                track.learn(block.column(index))
                answer = Atom(gate.exact(block.column(index)))
            case Begin(labels, intercept):
                track = Track(labels, intercept)
                answer = bid()
            case Move(new, atom, step, weight, intercept):
                track.learn(new)
                track.move(atom, step, weight)
                track.intercept = intercept
                answer = bid()
            case Place(new, weights, intercept):
                track.learn(new)
                track.place(_dense(weights))
                track.intercept = intercept
                answer = bid()
        request = yield from ask_one(COORDINATOR, answer, Request)
    if request.coefficients.shape != (block.columns,):
        raise ProtocolError(f"a peer sent {request.coefficients.size:,} coefficients for {block.columns:,} columns")
    yield from last({COORDINATOR: Done()})
    return Own(request.coefficients, gate.receipt())


REPLIES: Replies = {SendLabels: Labels, Begin: Bid, SendAtom: Atom, Move: Bid, Place: Bid, Finish: Done}


@dataclass(frozen=True)
class DistributedFrankWolfe:
    """Settings: at most `rounds` steps, until the certified gap is at most `tolerance` (0: use all rounds)."""

    rounds: int = 1000
    tolerance: float = 1e-4
    step: Step = field(default_factory=Corrective)
    TITLE: ClassVar[str] = "distributed Frank-Wolfe"
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if not (isinstance(self.rounds, int) and self.rounds >= 1):
            raise InvalidInput(f"rounds must be a whole number of at least 1, got {self.rounds!r}")
        if not isinstance(self.step, Step):
            raise InvalidInput(f"step={self.step!r}: give co.Corrective(), co.LineSearch() or co.OpenLoop()")
        if not (self.tolerance >= 0 and math.isfinite(self.tolerance)):
            raise InvalidInput(f"tolerance must be 0 (use all rounds) or a positive number, got {self.tolerance!r}")

    def check(self, job: Job) -> None:
        ball_or_simplex(job.problem)
        if not job.problem.loss.smooth:
            raise InvalidInput(
                f"{self.TITLE} needs a smooth loss, and {type(job.problem.loss).__name__} has kinks. "
                "Use LeastSquares, Logistic, SquaredHinge or Huber."
            )

    def price(self, job: Job) -> Mapping[str, Plan]:
        columns = {party: len(places) for party, places in job.roster.positions.items()}
        return {p: _plan(width, p == job.roster.label, self.rounds) for p, width in columns.items()}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate)


def _plan(columns: int, holds_labels: bool, rounds: int) -> Plan:
    labels = (Charge(EXACT, 1, "the labels"),) if holds_labels else ()
    if columns == 0:
        return labels
    bids = Charge(EXACT, rounds + 1, "index and score of its steepest column in every round")
    return (*labels, bids, Charge(EXACT, min(rounds, columns), "every column that wins a round, in full"))


def ball_or_simplex(problem: Problem) -> L1Ball | Simplex:
    """The constraint, which must be one that Frank-Wolfe can walk over."""
    if not isinstance(problem.constraint, L1Ball | Simplex):
        raise InvalidInput(
            "Frank-Wolfe minimises over an L1Ball or a Simplex: "
            "give Problem(loss, constraint=co.L1Ball(radius)) instead of a penalty."
        )
    return problem.constraint


def _weight(constraint: L1Ball | Simplex, score: float) -> float:
    return constraint.vertex(np.array([score]))[1]


def _steepest(bids: Mapping[str, Bid], roster: Roster, constraint: L1Ball | Simplex) -> tuple[str, int, float]:
    """The bid whose vertex promises most; ties go to the first column of the joint table, whoever holds it."""

    def place(party: str) -> int:
        index, places = bids[party].index.value, roster.positions[party]
        if not 0 <= index < len(places):
            raise ProtocolError(f"{party!r} bids with column {index} of its {len(places):,}")
        return places[index]

    # The same rule on the same scores as inside one party. (Times the radius, two different scores may round to one.)
    order = sorted(bids, key=place)
    who = order[constraint.vertex(np.array([bids[party].score.value for party in order]))[0]]
    return who, bids[who].index.value, bids[who].score.value


def _gap(track: Track, loss: Loss, constraint: L1Ball | Simplex, score: float) -> float:
    slope = loss.slope(track.scores, track.y)
    return float(track.prediction @ slope) - constraint.support(np.array([score]))


def _dense(column: Column) -> Floats:
    out = np.zeros(column.shape[0])
    out[column.indices] = column.data
    return out


def _news(new: Column, track: Track, rule: Step, atom: int, step: float, weight: float) -> Move | Place:
    if isinstance(rule, Corrective):
        return Place(new, sparse.csc_array(track.weights[:, None]), track.intercept)
    return Move(new, atom, step, weight, track.intercept)


def _coefficients(roster: Roster, numbers: Mapping[tuple[str, int], int], weights: Floats) -> dict[str, Floats]:
    x = {party: np.zeros(len(roster.positions[party])) for party in roster.with_columns}
    for (party, index), atom in numbers.items():
        x[party][index] = weights[atom]
    return x


def _intercept(problem: Problem, track: Track) -> float:
    return problem.loss.best_intercept(track.prediction, track.y) if problem.intercept else 0.0
