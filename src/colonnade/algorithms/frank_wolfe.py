"""Distributed Frank-Wolfe over columns held by different parties.

Solves   min loss(Ax + b, y)  subject to  x in an ℓ1 ball or a simplex,   A = [A₁ … A_p], party i holds Aᵢ.
Source   Bellet, Liang, Garakani, Balcan, Sha, "A distributed Frank-Wolfe algorithm for communication-efficient sparse
         learning", arXiv:1404.2644, algorithm 3; comments "line n" refer to its box. The winner's atom is broadcast once:
         later rounds name it by its number. Σ S_i is <prediction, slope> for a linear model, so no partial sums travel.
         b, where the problem asks for it, is the exact minimiser at every x: the gap then certifies the problem in x.
Leaves   the labels; from each party one index and one score a round; the winner's COLUMN, in full, once.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

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
from colonnade.errors import InvalidInput
from colonnade.kernels.columns import add_scaled
from colonnade.privacy.block import Block, Column
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.problem import L1Ball, Loss, Problem, Simplex
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
    """Coordinator → party: step towards an atom you have."""

    atom: int
    step: float
    weight: float
    intercept: float


@message(25)
class MoveToNew:
    """Coordinator → party: here is the next atom; step towards it."""

    column: Array | sparse.csc_array
    step: float
    weight: float
    intercept: float


Request = SendLabels | Begin | SendAtom | Move | MoveToNew | Finish


class Step(Protocol):
    """How far to go towards the chosen vertex."""

    def size(self, t: int, loss: Loss, scores: Floats, direction: Floats, y: Floats) -> float: ...


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


class Track:
    """The state that coordinator and parties keep alike: labels, linear prediction, intercept, atoms seen so far."""

    def __init__(self, labels: Array, intercept: float = 0.0) -> None:
        self.y = labels.astype(np.float64)
        self.prediction = np.zeros(self.y.size)
        self.intercept = intercept
        self.atoms: list[Column] = []

    @property
    def scores(self) -> Floats:
        return self.prediction + self.intercept

    def learn(self, column: Column) -> int:
        """Keep an atom; its number."""
        self.atoms.append(column)
        return len(self.atoms) - 1

    def direction(self, atom: int, weight: float) -> Floats:
        """Vertex minus prediction."""
        away = -self.prediction
        _add(self.atoms[atom], weight, away)
        return away

    def move(self, atom: int, step: float, weight: float, intercept: float = 0.0) -> None:
        """prediction ← (1 − step)·prediction + step·weight·atom   (line 5)."""
        self.prediction *= 1.0 - step
        _add(self.atoms[atom], step * weight, self.prediction)
        self.intercept = intercept


def _add(column: Column, weight: float, out: Floats) -> None:
    if isinstance(column, np.ndarray):
        out += weight * column
    else:
        add_scaled(column.indices, column.data, weight, out)


class Model:
    """The coordinator's side: coefficients by party, and the number of the atom of each column that won."""

    def __init__(self, roster: Roster) -> None:
        self.x = {party: np.zeros(len(roster.positions[party])) for party in roster.with_columns}
        self.numbers: dict[tuple[str, int], int] = {}

    def move(self, who: str, index: int, step: float, weight: float) -> None:
        for coefficients in self.x.values():
            coefficients *= 1.0 - step
        self.x[who][index] += step * weight


def coordinator(job: Job, settings: DistributedFrankWolfe) -> Program[Answer]:
    problem, roster, constraint = job.problem, job.roster, ball_or_simplex(job.problem)
    parties, loss = roster.with_columns, problem.loss
    labels = (yield from ask_one(roster.label, SendLabels(), Labels)).values.value
    track, model = Track(labels), Model(roster)
    track.intercept = _intercept(problem, track)
    feasible = constraint.contains(np.zeros(1))  # a simplex does not hold zero: the first step goes all the way
    bids = yield from ask(parties, Begin(labels, track.intercept), Bid)  # line 3
    for t in range(settings.rounds + 1):
        who, index, score = _steepest(bids, roster, constraint)  # line 4
        objective = loss.value(track.scores, track.y)
        gap = _gap(track, loss, constraint, score) if feasible else math.inf
        if gap <= settings.tolerance or t == settings.rounds:
            break
        new = (who, index) not in model.numbers
        if new:
            atom = yield from ask_one(who, SendAtom(index), Atom)  # line 4; each atom travels once
            model.numbers[who, index] = track.learn(atom.column.value)
        number, weight = model.numbers[who, index], _weight(constraint, score)
        direction = track.direction(number, weight)
        step = settings.step.size(t, loss, track.scores, direction, track.y) if feasible else 1.0
        track.move(number, step, weight)  # line 5
        model.move(who, index, step, weight)
        track.intercept, feasible = _intercept(problem, track), True
        known: Move | MoveToNew = Move(number, step, weight, track.intercept)
        fresh = MoveToNew(track.atoms[number], step, weight, track.intercept) if new else known
        note: Note = {"round": t + 1, "objective": objective, "gap": gap, "step": step, "party": who}
        bids = yield from tell({p: known if p == who else fresh for p in parties}, Bid, note)  # line 3
    yield from tell({p: Finish(model.x.get(p, np.zeros(0)), track.intercept) for p in roster.parties}, Done)
    status = Status.CERTIFIED if gap <= settings.tolerance else Status.OUT_OF_ROUNDS
    return Answer(model.x, track.intercept, objective, gap, status)


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
            case Move(atom, step, weight, intercept):
                track.move(atom, step, weight, intercept)
                answer = bid()
            case MoveToNew(column, step, weight, intercept):
                track.move(track.learn(column), step, weight, intercept)
                answer = bid()
        request = yield from ask_one(COORDINATOR, answer, Request)
    yield from last({COORDINATOR: Done()})
    return Own(request.coefficients, gate.receipt())


REPLIES: Replies = {SendLabels: Labels, Begin: Bid, SendAtom: Atom, Move: Bid, MoveToNew: Bid, Finish: Done}


@dataclass(frozen=True)
class DistributedFrankWolfe:
    """Settings: at most `rounds` steps, until the certified gap is at most `tolerance` (0: use all rounds)."""

    rounds: int = 1000
    tolerance: float = 1e-4
    step: Step = field(default_factory=LineSearch)
    TITLE: ClassVar[str] = "distributed Frank-Wolfe"
    REPLIES: ClassVar[Replies] = REPLIES
    DERIVATION: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if not (isinstance(self.rounds, int) and self.rounds >= 1):
            raise InvalidInput(f"rounds must be a whole number of at least 1, got {self.rounds!r}")
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

    def coordinator(self, job: Job) -> Program[Answer]:
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

    def promise(party: str) -> tuple[float, int]:
        bid = bids[party]
        return constraint.support(np.array([bid.score.value])), roster.positions[party][bid.index.value]

    who = min(bids, key=promise)
    return who, bids[who].index.value, bids[who].score.value


def _gap(track: Track, loss: Loss, constraint: L1Ball | Simplex, score: float) -> float:
    slope = loss.slope(track.scores, track.y)
    return float(track.prediction @ slope) - constraint.support(np.array([score]))


def _intercept(problem: Problem, track: Track) -> float:
    return problem.loss.best_intercept(track.prediction, track.y) if problem.intercept else 0.0
