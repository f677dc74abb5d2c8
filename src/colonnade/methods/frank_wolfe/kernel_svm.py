"""Distributed Frank-Wolfe for kernel machines: atoms are examples, and different nodes hold them.

Solves   min αᵀK̃α over the unit simplex,  K̃_ij = y_i y_j (k(x_i, x_j) + 1) + δ_ij / C: dual of the L2-loss SVM.
Source   Bellet, Liang, Garakani, Balcan, Sha, arXiv:1404.2644, algorithm 3 and section 5.2; "line n" refers to the box.
         Instead of an atom, which may have infinitely many entries, the example itself travels.
Memory   a node keeps its half gradient K̃α, one number an example of its own, and the examples chosen so far. A step
         towards one example changes it by one column of kernel values, made when the example comes and not kept; where
         all weights change, at most KEPT kernel values are.
Leaves   one place and one score a round from each node; the winner's EXAMPLE with its label, in full, once.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap 2(αᵀK̃α − min_j (K̃α)_j), which bounds objective − optimum, is at most the tolerance.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels import columns
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.newton_model import quadratic_minimum
from colonnade.methods.frank_wolfe.distributed import Bid, Corrective, OpenLoop, WalkSettings
from colonnade.methods.frank_wolfe.graph import REPLIES as PEER_REPLIES
from colonnade.methods.frank_wolfe.graph import Best, Contribution, Flood, Tree, route
from colonnade.methods.method import Done, Finish, GraphMethod, Method
from colonnade.model.job import Answer, Job, Own, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem import RBF, KernelSVM, Topology
from colonnade.problem.kernel import Support, check_positive, check_table, kernel_values, not_positive
from colonnade.runtime.node import Replies
from colonnade.runtime.program import COORDINATOR, Note, Program, ask, ask_one, last, message, receive, tell

KEPT = 1 << 20  # kernel values, 8 MB, that a node keeps of chosen examples where their weights change every round


@message(132)
class KernelBegin:
    """Coordinator → node: no example is chosen yet; bid."""


@message(133)
class SendExample:
    """Coordinator → winner: send me that example; it is the next atom."""

    index: int


@message(134)
class Example:
    """Winner → coordinator: an example, its features and then its label, sparse if it is stored so."""

    values: Released[Array] | Released[sparse.csc_array]


@message(135)
class Towards:
    """Coordinator → node: step towards one example."""

    new: Array | sparse.csc_array  # the example that joins; a block of no columns where the receiver has it
    atom: int
    step: float


@message(136)
class Weigh:
    """Coordinator → node: these are the weights of all examples chosen so far."""

    new: Array | sparse.csc_array  # as in Towards
    weights: Array


Request = KernelBegin | SendExample | Towards | Weigh | Finish


class Chosen:
    """The examples chosen so far, in the order of their numbers: what every node knows alike."""

    def __init__(self, features: int) -> None:
        self._features = features
        # As they came: features, then the label; dense, or a CSC column.
        self._examples: list[Any] = []
        self.labels: list[float] = []

    def __len__(self) -> int:
        return len(self._examples)

    def learn(self, example: Any) -> None:
        """Keep an example, unless there is none in the block."""
        if example.shape == (self._features + 1, 0):
            return
        self.labels.append(_read(example, self._features).label)
        self._examples.append(example)

    def point(self, number: int) -> Point:
        """One example, zeros and all."""
        return _read(self._examples[number], self._features)

    def row(self, number: int) -> Any:
        """One example as a table of one row, for a kernel: stored as it came."""
        row = self.point(number).features[None, :]
        return row if isinstance(self._examples[number], np.ndarray) else sparse.csr_array(row)

    def table(self, numbers: Sequence[int]) -> Any:
        """Some examples as a table, for a kernel."""
        rows = [self.row(number) for number in numbers]
        return sparse.csr_array(sparse.vstack(rows)) if sparse.issparse(rows[0]) else np.vstack(rows)


class Point(NamedTuple):
    """An example that travelled, zeros and all."""

    features: Floats
    square: float  # of its norm
    label: float


# A broadcast within one process is one object: all nodes read the very same example one after the other, and it is
# spread out once. Two, since the winner has its own copy of what the others were sent.
_recent: deque[tuple[Any, Point]] = deque(maxlen=2)


def _read(example: Any, features: int) -> Point:
    """The example in a block that a peer sent, or ProtocolError."""
    for known, point in tuple(_recent):
        if known is example and point.features.size == features:
            return point
    dense = isinstance(example, np.ndarray)
    if example.shape != ((features + 1,) if dense else (features + 1, 1)):
        raise ProtocolError(f"a peer sent a block of shape {example.shape} for an example of {features:,} features")
    last = dense or (example.indices.size > 0 and example.indices[-1] == features)  # the label is never zero
    label = float((example if dense else example.data)[-1]) if last else 0.0
    if label not in (-1.0, 1.0):
        raise ProtocolError("a peer sent an example whose label is neither -1 nor +1")
    values = np.zeros(features)
    if dense:
        values[:] = example[:-1]
    else:
        values[example.indices[:-1]] = example.data[:-1]
    point = Point(values, float(columns.squared_norm(values)), label)
    _recent.append((example, point))
    return point


class DualWalk:
    """Where the walk stands, and the step of whoever decides: the coordinator of a star, every agent of a graph."""

    def __init__(self, problem: KernelSVM, settings: WalkSettings, features: int) -> None:
        self.problem = problem
        self.settings = settings
        self.chosen = Chosen(features)
        self.weights = np.zeros(0)
        self.objective = math.inf
        self.gap = math.inf
        # K̃ between the chosen examples, where weights are re-solved.
        self.squares = np.zeros((0, 0))

    def ends(self, t: int, score: float) -> bool:
        """Look at the gap, given the lowest entry of K̃α; whether this is the end   (line 7)."""
        self.gap = 2.0 * (self.objective - score) if self.weights.size else math.inf
        return self.settings.over(t, self.gap)

    def step(self, t: int, atom: int, score: float) -> float:
        """Step towards an example, and return the step's size   (line 5)."""
        new = np.append(self.weights, np.zeros(len(self.chosen) - self.weights.size))
        own = self._own(atom)
        if not self.weights.size:
            size = 1.0
            self.objective = own
        else:
            bend = self.objective - 2.0 * score + own  # of the objective along the step, halved
            if bend < -1e-9 * abs(own):
                raise not_positive()
            best = (self.objective - score) / bend if bend > 0.0 else 1.0
            size = 2.0 / (t + 2) if isinstance(self.settings.step, OpenLoop) else min(max(best, 0.0), 1.0)
            rest = 1.0 - size
            self.objective = rest * rest * self.objective + 2.0 * rest * size * score + size * size * own
        new *= 1.0 - size
        new[atom] += size
        self.weights = new
        if isinstance(self.settings.step, Corrective):
            self._correct()
        return size

    def support(self) -> Support:
        """What predicts: the examples with weight. A kernel that is not positive on them is found out here at last."""
        used = np.flatnonzero(self.weights)
        points = self.chosen.table(used.tolist())
        kernel = self.problem.kernel
        if not isinstance(kernel, RBF):
            check_table(kernel_values(kernel, points, points))
        return Support(points, np.array(self.chosen.labels)[used], self.weights[used])

    def _own(self, atom: int) -> float:
        """K̃_jj."""
        if isinstance(self.problem.kernel, RBF):
            value = 1.0
        else:
            row = self.chosen.row(atom)
            value = float(kernel_values(self.problem.kernel, row, row)[0, 0])
        if value < 0.0:
            raise not_positive()
        return value + 1.0 + 1.0 / self.problem.C

    def _correct(self) -> None:
        """The best weights of the examples chosen so far."""
        for number in range(len(self.squares), len(self.chosen)):
            row = self.chosen.row(number)
            label = self.chosen.labels[number]
            before = np.zeros(0)
            if number:
                before = kernel_values(self.problem.kernel, row, self.chosen.table(range(number)))[0]
            line = label * np.array(self.chosen.labels[:number]) * (before + 1.0)
            self.squares = np.block([[self.squares, line[:, None]], [line[None, :], np.array([[self._own(number)]])]])
        best = quadratic_minimum(2.0 * self.squares, np.zeros(self.weights.size), 1.0, self.weights, signed=False)
        value = float(best @ (self.squares @ best))
        if value < 0.0:
            raise not_positive()
        before_value = float(self.weights @ (self.squares @ self.weights))
        # Rounding, or a solve cut short, must not raise the objective.
        if value <= before_value:
            self.weights = best
        self.objective = min(value, before_value)


class Examples:
    """One node's own examples and their entries of K̃α."""

    def __init__(self, problem: KernelSVM, block: Block) -> None:
        self.problem = problem
        self.block = block
        self.y = block.own_labels().astype(np.float64)
        self.gradient = np.zeros(block.rows)
        self.mine: dict[int, int] = {}  # row by number of the atom
        self._column = np.empty(block.rows)
        # k + 1 of the first chosen examples, as rows
        self._table = np.empty((0, block.rows))
        self._kept = 0

    def lowest(self) -> tuple[int, float]:
        """The first of the lowest entries."""
        index = int(self.gradient.argmin())
        return index, float(self.gradient[index])

    def take(self, number: int, index: int) -> Any:
        """An example with its label behind; all nodes will call it by `number` from now on."""
        if not 0 <= index < self.block.rows:
            raise ProtocolError(f"a node was asked for example {index} of its {self.block.rows:,}")
        self.mine[number] = index
        row = self.block.matrix[[index], :]
        if not sparse.issparse(row):
            return np.append(row.ravel(), self.y[index])
        row = sparse.csr_array(row)
        row.sort_indices()
        parts = np.append(row.data, self.y[index]), np.append(row.indices, self.block.columns), [0, row.nnz + 1]
        return sparse.csc_array(parts, shape=(self.block.columns + 1, 1))

    def towards(self, chosen: Chosen, atom: int, step: float) -> None:
        """K̃α ← (1 − step)·K̃α + step·K̃e_atom."""
        if not 0 <= atom < len(chosen):
            raise ProtocolError(f"a peer named example {atom} where {len(chosen):,} are known")
        columns.step_towards(self.gradient, self._values(chosen, atom), self.y, chosen.labels[atom], step)
        if atom in self.mine:
            self.gradient[self.mine[atom]] += step / self.problem.C

    def weigh(self, chosen: Chosen, weights: Floats) -> None:
        """K̃α anew. Kernel values of the first examples are kept, up to KEPT of them, those of the others made again."""
        if weights.shape != (len(chosen),):
            raise ProtocolError(f"a peer sent weights of shape {weights.shape} for {len(chosen):,} examples")
        known = min(len(chosen), KEPT // max(1, self.block.rows))
        signed = weights * np.array(chosen.labels)
        for atom in range(self._kept, known):
            if atom == len(self._table):
                self._table = np.concatenate([self._table, np.empty((max(16, atom), self.block.rows))])
            self._table[atom] = self._values(chosen, atom) + 1.0
        self._kept = known
        columns.dense_rmatvec(self._table[:known], signed[:known], self.gradient)
        for atom in (known + np.flatnonzero(weights[known:])).tolist():
            self.gradient += float(signed[atom]) * (self._values(chosen, atom) + 1.0)
        self.gradient *= self.y
        for atom, row in self.mine.items():
            self.gradient[row] += float(weights[atom]) / self.problem.C if atom < weights.size else 0.0

    def shares(self, weights: Floats) -> Floats:
        """The weights of the node's own examples."""
        alpha = np.zeros(self.block.rows)
        for number, index in self.mine.items():
            alpha[index] = weights[number]
        return alpha

    def _values(self, chosen: Chosen, atom: int) -> Floats:
        """k(x_i, z) for the node's examples x_i and a chosen z."""
        kernel = self.problem.kernel
        if not isinstance(kernel, RBF):
            row = chosen.row(atom)
            values = kernel_values(kernel, self.block.matrix, row)[:, 0]
            check_positive(values, self._diagonal, float(kernel_values(kernel, row, row)[0, 0]))
            return values
        z = chosen.point(atom)
        columns.rbf_column(self.block.scores(z.features), self._norms, z.square, kernel.gamma, self._column)
        return self._column

    @cached_property
    def _norms(self) -> Floats:
        out = np.empty(self.block.rows)
        matrix = self.block.matrix
        if sparse.issparse(matrix):
            columns.csc_squared_norms(matrix.data, matrix.indices, matrix.indptr, out)
        else:
            columns.dense_squared_norms(matrix, out)
        return out

    @cached_property
    def _diagonal(self) -> Floats:
        """k(x_i, x_i), one row at a time: a table of all pairs would not fit."""
        matrix = sparse.csr_array(self.block.matrix) if sparse.issparse(self.block.matrix) else self.block.matrix
        rows = (matrix[[i]] for i in range(self.block.rows))
        return np.array([kernel_values(self.problem.kernel, row, row)[0, 0] for row in rows])


# ------------------------------------------------------------------------------------------------ on a star


def coordinator(job: Job, settings: WalkSettings) -> Program[Answer]:
    roster = job.roster
    first = _firsts(job.roster)
    dual = DualWalk(_problem(job), settings, _features(roster))
    numbers = dict[tuple[str, int], int]()
    bids = yield from ask(roster.parties, KernelBegin(), Bid)  # line 3
    for t in range(settings.rounds + 1):
        who, index, score = _lowest(bids, first, roster)  # line 4
        if dual.ends(t, score):  # line 7
            break
        new = nothing = sparse.csc_array((_features(roster) + 1, 0))
        objective = dual.objective
        if (who, index) not in numbers:
            new = (yield from ask_one(who, SendExample(index), Example)).values.value  # line 4; each travels once
            numbers[who, index] = len(dual.chosen)
            dual.chosen.learn(new)
        atom = numbers[who, index]
        step = dual.step(t, atom, score)  # line 5
        corrects = isinstance(settings.step, Corrective)
        known, fresh = (Weigh(n, dual.weights) if corrects else Towards(n, atom, step) for n in (nothing, new))
        note: Note = {"round": t + 1, "objective": objective, "gap": dual.gap, "step": step, "party": who}
        bids = yield from tell({p: known if p == who else fresh for p in roster.parties}, Bid, note)  # line 3
    model = dual.support()
    shares = {party: _own_weights(party, numbers, dual.weights) for party in roster.parties}
    yield from tell({party: Finish(shares[party], 0.0) for party in roster.parties}, Done)
    return Answer({}, 0.0, dual.objective, dual.gap, settings.status(dual.gap), model=model)


def party(job: Job, block: Block, gate: Gate) -> Program[Own]:
    own = Examples(_problem(job), block)
    chosen = Chosen(block.columns)
    request = yield from receive(COORDINATOR, Request)
    while not isinstance(request, Finish):
        match request:
            case SendExample(index):
                example = own.take(len(chosen), index)
                chosen.learn(example)
                answer: object = Example(gate.exact(example))
            case Towards(new, atom, step):
                chosen.learn(new)
                own.towards(chosen, atom, step)
                answer = Bid(*gate.exact(*own.lowest()))  # infinite price
            case Weigh(new, weights):
                chosen.learn(new)
                own.weigh(chosen, weights)
                answer = Bid(*gate.exact(*own.lowest()))
            case KernelBegin():
                answer = Bid(*gate.exact(*own.lowest()))
        request = yield from ask_one(COORDINATOR, answer, Request)
    if request.coefficients.shape != (len(own.mine),):
        raise ProtocolError(f"a peer sent {request.coefficients.size:,} weights for {len(own.mine):,} examples")
    yield from last({COORDINATOR: Done()})
    alpha = np.zeros(block.rows)
    alpha[list(own.mine.values())] = request.coefficients
    return Own(alpha, gate.receipt())


REPLIES: Replies = {KernelBegin: Bid, SendExample: Example, Towards: Bid, Weigh: Bid, Finish: Done}


# ------------------------------------------------------------------------------------------------ on a graph


def peer(job: Job, block: Block, gate: Gate, way: Tree | Flood, settings: WalkSettings) -> Program[Own]:
    problem = _problem(job)
    first = _firsts(job.roster)[gate.node]
    reports = gate.node == job.roster.label
    own = Examples(problem, block)
    dual = DualWalk(problem, settings, block.columns)
    numbers = dict[int, int]()
    nothing = gate.exact(sparse.csc_array((block.columns + 1, 0)))
    for t in range(settings.rounds + 1):
        index, score = own.lowest()
        bid = Best(*gate.exact(first + index, score))  # line 3

        def wanted(best: Best, t: int = t) -> bool:
            return not dual.ends(t, best.score.value) and best.place.value not in numbers

        def example(index: int = index) -> Released[Any]:
            return gate.exact(own.take(len(dual.chosen), index))

        def note(t: int = t) -> Note | None:
            if settings.over(t, dual.gap):
                return None
            return dict(zip(("objective", "gap"), gate.exact(dual.objective, dual.gap), strict=True)) if reports else {}

        best, new = yield from way.exchange(Contribution(bid, lambda s: s, wanted, example, nothing, note))  # line 4
        place = best.place.value
        score = best.score.value
        if dual.ends(t, score):  # line 7
            break
        if new is not None:
            numbers[place] = len(dual.chosen)
            dual.chosen.learn(new)
        if place not in numbers:
            raise ProtocolError("a peer named an example that nobody sent")
        step = dual.step(t, numbers[place], score)  # line 5
        if isinstance(settings.step, Corrective):
            own.weigh(dual.chosen, dual.weights)
        else:
            own.towards(dual.chosen, numbers[place], step)
    model = dual.support() if reports else None
    answer = Answer({}, 0.0, dual.objective, dual.gap, settings.status(dual.gap), model=model)
    return Own(own.shares(dual.weights), gate.receipt(), answer=answer)


# ------------------------------------------------------------------------------------------------ settings


@dataclass(frozen=True)
class KernelFrankWolfe(WalkSettings, Method):
    """Distributed Frank-Wolfe for a kernel machine on a star; made by co.DistributedFrankWolfe()."""

    TITLE: ClassVar[str] = "distributed Frank-Wolfe for a kernel machine"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SPLITS: ClassVar[tuple[str, ...]] = ("rows",)
    SOLVES: ClassVar[tuple[type, ...]] = (KernelSVM,)

    def check(self, job: Job) -> None:
        _problem(job)

    def price(self, job: Job) -> Mapping[str, Plan]:
        return {party: _plan(self.rounds, held) for party, held in job.roster.held_rows.items()}

    def coordinator(self, job: Job, gate: Gate) -> Program[Answer]:  # noqa: ARG002  it draws nothing
        return coordinator(job, self)

    def party(self, job: Job, block: Block, gate: Gate) -> Program[Own]:
        return party(job, block, gate)


@dataclass(frozen=True)
class GraphKernelFrankWolfe(WalkSettings, GraphMethod):
    """Distributed Frank-Wolfe for a kernel machine on a graph; made by co.DistributedFrankWolfe(topology=...)."""

    topology: Topology | None = None
    TITLE: ClassVar[str] = "distributed Frank-Wolfe for a kernel machine, on a graph"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = PEER_REPLIES
    SPLITS: ClassVar[tuple[str, ...]] = ("rows",)
    SOLVES: ClassVar[tuple[type, ...]] = (KernelSVM,)

    def check(self, job: Job) -> None:
        _problem(job)

    def price(self, job: Job) -> Mapping[str, Plan]:
        empty = Charge(EXACT, 1, "that it has nothing to send")
        plans = {party: (*_plan(self.rounds, held), empty) for party, held in job.roster.held_rows.items()}
        plans[job.roster.label] += (Charge(EXACT, self.rounds, "objective and gap of every round"),)
        return plans

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:
        return peer(job, block, gate, route(self.topology, job, gate.node, neighbours), self)


def _plan(rounds: int, held: int) -> Plan:
    bids = Charge(EXACT, rounds + 1, "number and score of its steepest example in every round")
    return (bids, Charge(EXACT, min(rounds, held), "every example that wins a round, with its label, in full"))


def _problem(job: Job) -> KernelSVM:
    problem: object = job.problem
    assert isinstance(problem, KernelSVM)  # co.fit looks at SOLVES
    return problem


def _features(roster: Roster) -> int:
    return len(next(iter(roster.positions.values())))


def _firsts(roster: Roster) -> dict[str, int]:
    """The number of each party's first example, when all are counted in the order of the parties."""
    ends = np.cumsum(list(roster.held_rows.values())).tolist()
    return {party: end - held for (party, held), end in zip(roster.held_rows.items(), ends, strict=True)}


def _lowest(bids: Mapping[str, Bid], first: Mapping[str, int], roster: Roster) -> tuple[str, int, float]:
    """The lowest score; ties go to the first example."""
    for party, bid in bids.items():
        if not (0 <= bid.index.value < roster.held_rows[party] and math.isfinite(bid.score.value)):
            held = roster.held_rows[party]
            raise ProtocolError(f"{party!r} bids with example {bid.index.value} of its {held:,}, or no number")
    who = min(bids, key=lambda p: (bids[p].score.value, first[p] + bids[p].index.value))
    return who, bids[who].index.value, bids[who].score.value


def _own_weights(party: str, numbers: Mapping[tuple[str, int], int], weights: Floats) -> Floats:
    return np.array([weights[number] for (who, _), number in numbers.items() if who == party], dtype=np.float64)
