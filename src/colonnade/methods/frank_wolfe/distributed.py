"""Distributed Frank-Wolfe over columns held by different parties.

Solves   min loss(Ax + b, y)  subject to  x in an ℓ1 ball, a simplex or a ball of groups,   A = [A₁ … A_p], party i
         holds Aᵢ; AdaBoost over the decision stumps of the columns. What an atom is, by problem: atoms.py. Here a star;
         topology= runs graph.py, and a kernel machine kernel_svm.py.
Source   Bellet, Liang, Garakani, Balcan, Sha, "A distributed Frank-Wolfe algorithm for communication-efficient sparse
         learning", arXiv:1404.2644, algorithm 3; comments "line n" refer to its box. The winner's atom is broadcast
         once: later rounds name it by its number. Σ S_i is <prediction, slope> for a linear model, so no partial sums
         travel. By default the coordinator also re-solves over the atoms it has, which sends nothing but weights. b,
         where the problem asks for it, is the exact minimiser at every x: the gap then certifies the problem in x.
Leaves   the labels, and beside them offsets and weights of rows that have them, to every party, since each computes the
         slope of the loss itself; from each party one index and one score a round; the winner's COLUMN, in full, once
         (a combination of its columns where groups win, one bit a row where stumps do).
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.columns import add_scaled, csc_matvec
from colonnade.methods.frank_wolfe.atoms import Catalogue, ColumnAtoms, GroupAtoms, Hull, as_column, catalogue
from colonnade.methods.method import (
    Done,
    Finish,
    GraphMethod,
    Labels,
    Method,
    MethodBase,
    SendLabels,
    adjusted,
    ask_labels,
    label_charge,
)
from colonnade.model.job import Answer, Job, Own, Roster
from colonnade.privacy.block import Block, Column
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Privacy
from colonnade.privacy.values import Packed, Released
from colonnade.problem import AdaBoost, KernelSVM, Problem, Topology
from colonnade.problem.hull import Corrector
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, last, message, receive, tell


@message(20)
class Begin:
    """Coordinator → party: these are the labels; all coefficients are zero."""

    labels: Array
    intercept: float


@message(21)
class Bid:
    """Party → coordinator: my steepest column for the state you described."""

    index: Released[int]  # which atom of the sender's: a position inside its block, never a feature name
    score: Released[float]  # <column, slope>, signed


@message(22)
class SendAtom:
    """Coordinator → winner: send me that column; it becomes the next atom."""

    index: int


@message(23)
class Atom:
    """Winner → coordinator: the column, sparse if it is stored so, in bits if it is a stump."""

    column: Released[Array] | Released[sparse.csc_array] | Released[Packed]


@message(24)
class Move:
    """Coordinator → party: step towards one atom."""

    new: Array | sparse.csc_array | Packed  # the atom that joins; a block of no columns where the receiver has it
    atom: int
    step: float
    weight: float
    intercept: float


@message(25)
class Place:
    """Coordinator → party: these are the weights of all atoms now."""

    new: Array | sparse.csc_array | Packed  # as in Move
    weights: sparse.csc_array
    intercept: float


Request = SendLabels | Begin | SendAtom | Move | Place | Finish


@dataclass(frozen=True)
class LineSearch:
    """The step that lowers the objective most: closed form for least squares, safeguarded Newton otherwise."""


@dataclass(frozen=True)
class OpenLoop:
    """The step 2 / (t + 2), whatever the data."""


@dataclass(frozen=True)
class Corrective:
    """After a line search, the best weights of all atoms so far: free, since they are here, and far fewer rounds."""


Step = LineSearch | OpenLoop | Corrective


class Atoms:
    """Columns side by side in one growing CSC block, so that their products are one pass."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._count = 0
        self._data = np.zeros(1024)
        self._indices = np.zeros(1024, np.int32)
        self._ends = np.zeros(64, np.int64)

    def __len__(self) -> int:
        return self._count

    def append(self, column: Column) -> None:
        if isinstance(column, np.ndarray):
            places = np.flatnonzero(column != 0.0)
            values = column[places]
        else:
            values = column.data
            places = column.indices
        end = int(self._ends[self._count]) + values.size
        self._data, self._indices = _room(self._data, end), _room(self._indices, end)
        self._ends = _room(self._ends, self._count + 2)
        self._data[end - values.size : end] = values
        self._indices[end - values.size : end] = places
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

    def __init__(self, labels: Floats, intercept: float = 0.0) -> None:
        self.y = labels
        self.prediction = np.zeros(self.y.size)
        self.intercept = intercept
        self.atoms = Atoms(self.y.size)
        self.weights = np.zeros(0)

    @property
    def scores(self) -> Floats:
        return self.prediction + self.intercept

    def learn(self, column: Column) -> None:
        """Keep an atom, unless there is none in the block."""
        column = as_column(column)
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


class Walk:
    """Where the walk stands, and the step of whoever decides: the coordinator of a star, every agent of a graph."""

    def __init__(self, job: Job, hull: Hull, settings: WalkSettings, labels: Array) -> None:
        self.problem, y = adjusted(job, labels)
        self.hull = hull
        self.settings = settings
        self.track = Track(y)
        self.corrector = Corrector(self.problem.loss, hull, y, self.problem.intercept)
        # A simplex does not hold zero: the first step goes all the way.
        self.feasible = hull.contains(np.zeros(1))
        self.track.intercept = self._intercept()
        self.objective = math.inf
        self.gap = math.inf

    def ends(self, t: int, score: float) -> bool:
        """Look at objective and gap, given the steepest score; whether this is the end   (line 7)."""
        track = self.track
        loss = self.problem.loss
        self.objective = loss.value(track.scores, track.y)
        if self.feasible:
            slope = loss.slope(track.scores, track.y)
            self.gap = float(track.prediction @ slope) - self.hull.support(np.array([score]))
        return self.settings.over(t, self.gap)

    def step(self, t: int, atom: int, score: float) -> tuple[float, float]:
        """Step towards the atom; the size of the step and the weight of the vertex   (line 5)."""
        track = self.track
        loss = self.problem.loss
        weight = self.hull.vertex(np.array([score]))[1]
        if not self.feasible:
            step = 1.0
        elif isinstance(self.settings.step, OpenLoop):
            step = 2.0 / (t + 2)
        else:
            step = loss.minimise_along(track.scores, track.direction(atom, weight), track.y)
        track.move(atom, step, weight)
        if isinstance(self.settings.step, Corrective):
            track.place(self.corrector.best_weights(track.atoms.block(), track.weights, track.scores))
        track.intercept = self._intercept()
        self.feasible = True
        return step, weight

    def _intercept(self) -> float:
        """The best one, looked for around the last: it has moved little."""
        if not self.problem.intercept:
            return 0.0
        return self.track.intercept + self.problem.loss.best_intercept(self.track.scores, self.track.y)


def coordinator(job: Job, settings: WalkSettings) -> Program[Answer]:
    roster = job.roster
    atoms = catalogue(job)
    parties = roster.with_columns
    labels = yield from ask_labels(roster)
    walk = Walk(job, atoms.hull, settings, labels)
    numbers = dict[tuple[str, int], int]()
    track = walk.track
    bids = yield from ask(parties, Begin(labels, track.intercept), Bid)  # line 3
    for t in range(settings.rounds + 1):
        who, index, score = _steepest(bids, atoms)  # line 4
        if walk.ends(t, score):  # line 7
            break
        new = nothing = sparse.csc_array((roster.rows, 0))
        if not atoms.lasting or (who, index) not in numbers:
            new = (yield from ask_one(who, SendAtom(index), Atom)).column.value  # line 4; each atom travels once
            numbers[who, index] = len(track.atoms)
            track.learn(new)
        atom = numbers[who, index]
        step, weight = walk.step(t, atom, score)  # line 5
        known = _news(nothing, track, settings.step, atom, step, weight)
        fresh = replace(known, new=new)
        note: Note = {"round": t + 1, "objective": walk.objective, "gap": walk.gap, "step": step, "party": who}
        bids = yield from tell({p: known if p == who else fresh for p in parties}, Bid, note)  # line 3
    x = _coefficients(roster, numbers, track.weights) if isinstance(atoms, ColumnAtoms) else {}
    yield from tell({p: Finish(x.get(p, np.zeros(0)), track.intercept) for p in roster.parties}, Done)
    return Answer(x, track.intercept, walk.objective, walk.gap, settings.status(walk.gap))


def party(job: Job, block: Block, gate: Gate) -> Program[Own]:
    track = Track(np.zeros(block.rows))
    own = catalogue(job).own(block)
    loss = job.problem.loss

    def bid() -> Bid:
        return Bid(*gate.exact(*own.steepest(loss.slope(track.scores, track.y))))  # infinite price

    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendLabels():
                answer: object = Labels(gate.exact(block.own_labels()))
            case SendAtom(index):
                column = own.take(len(track.atoms), index)
                track.learn(column)
                answer = Atom(gate.exact(column))
            case Begin(labels, intercept):
                problem, y = adjusted(job, labels)
                loss = problem.loss
                track = Track(y, intercept)
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
    if request.coefficients.shape not in ((block.columns,), (0,)):  # none where only the party knows them
        raise ProtocolError(f"a peer sent {request.coefficients.size:,} coefficients for {block.columns:,} columns")
    yield from last({COORDINATOR: Done()})
    return Own(own.coefficients(track.weights), gate.receipt(), model=own.model(track.weights))


REPLIES: Replies = {SendLabels: Labels, Begin: Bid, SendAtom: Atom, Move: Bid, Place: Bid, Finish: Done}


@dataclass(frozen=True)
class WalkSettings(MethodBase):
    """What every form of the method is told."""

    ADJUSTS: ClassVar[bool] = True
    rounds: int = 1000
    tolerance: float = 1e-4
    step: Step = field(default_factory=Corrective)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.step, Step):
            raise InvalidInput(f"step={self.step!r}: give co.Corrective(), co.LineSearch() or co.OpenLoop()", "step")


@dataclass(frozen=True)
class DistributedFrankWolfe(WalkSettings, Method):
    """Distributed Frank-Wolfe over columns held by different parties.

    Exact values leave: it is not private.

    Parameters
    ----------
    rounds
        The most steps; each brings at most one new column into the model.
    tolerance
        Stop when the certified gap is at most this, in units of the objective; 0: use all rounds.
    step
        How far a round moves: `co.Corrective()`, `co.LineSearch()` or `co.OpenLoop()`.
    topology
        None: a star, with a coordinator. A `co.Topology`: no coordinator, every party talks to its neighbours only.

    Examples
    --------
    >>> import colonnade as co
    >>> co.DistributedFrankWolfe(rounds=50).step
    Corrective()
    """

    topology: Topology | None = None
    TITLE: ClassVar[str] = "distributed Frank-Wolfe"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SOLVES: ClassVar[tuple[type, ...]] = (Problem, AdaBoost)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.topology
        if not (given is None or isinstance(given, Topology)):
            raise InvalidInput(f"topology={given!r} is not a graph: give one such as co.Topology.ring(4).", "topology")

    def variant(self, problem: object, privacy: Privacy | None = None) -> Method | GraphMethod:  # noqa: ARG002
        """The form of the method that solves this problem on this topology."""
        from colonnade.methods.frank_wolfe import graph, kernel_svm  # they build on this file

        told = self.rounds, self.tolerance, self.step
        if isinstance(problem, KernelSVM):
            if self.topology is None:
                return kernel_svm.KernelFrankWolfe(*told)
            return kernel_svm.GraphKernelFrankWolfe(*told, self.topology)
        return self if self.topology is None else graph.GraphFrankWolfe(*told, self.topology)

    def check(self, job: Job) -> None:
        check(job, self.TITLE)

    def price(self, job: Job) -> Mapping[str, Plan]:
        return {party: plan(job, party, self.rounds) for party in job.roster.parties}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate)


def check(job: Job, title: str) -> None:
    """InvalidInput if Frank-Wolfe cannot do the job: its set, a group in two places, a loss with kinks."""
    atoms = catalogue(job)
    if isinstance(atoms, GroupAtoms):
        assert atoms.holders  # looks at every group
    if not job.problem.loss.smooth:
        wrong = f"{title} needs a smooth loss, and {type(job.problem.loss).__name__} has kinks"
        raise InvalidInput(f"{wrong}. Use a smooth one, such as LeastSquares, Logistic or Huber.")


def plan(job: Job, party: str, rounds: int) -> Plan:
    """What a party releases: labels, bids, atoms."""
    atoms = catalogue(job)
    labels = (label_charge(job.roster),) if party == job.roster.label else ()
    if not job.roster.positions[party]:
        return labels
    bids = Charge(EXACT, rounds + 1, "index and score of its steepest column in every round")
    return (*labels, bids, Charge(EXACT, atoms.most(party, rounds), atoms.leaves))


def _steepest(bids: Mapping[str, Bid], atoms: Catalogue) -> tuple[str, int, float]:
    """The bid whose vertex promises most; ties go to the first atom of the joint table, whoever holds it."""
    # The same rule on the same scores as inside one party. (Times the radius, two different scores may round to one.)
    order = sorted(bids, key=lambda party: atoms.place(party, bids[party].index.value))
    who = order[atoms.hull.vertex(np.array([bids[party].score.value for party in order]))[0]]
    return who, bids[who].index.value, bids[who].score.value


def _dense(column: Column) -> Floats:
    out = np.zeros(column.shape[0])
    out[column.indices] = column.data
    return out


def _news(new: Any, track: Track, rule: Step, atom: int, step: float, weight: float) -> Move | Place:
    if isinstance(rule, Corrective):
        return Place(new, sparse.csc_array(track.weights[:, None]), track.intercept)
    return Move(new, atom, step, weight, track.intercept)


def _coefficients(roster: Roster, numbers: Mapping[tuple[str, int], int], weights: Floats) -> dict[str, Floats]:
    x = {party: np.zeros(len(roster.positions[party])) for party in roster.with_columns}
    for (party, index), atom in numbers.items():
        x[party][index] = weights[atom]
    return x
