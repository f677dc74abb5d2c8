"""Total least squares on any connected graph, without a coordinator: rows split over the agents, or columns.

Solves   min ‖[E r]‖_F  with  (A + E) x = y + r,   that is  min ‖Ax − y‖² / (1 + ‖x‖²): errors in the features too. The
         answer is v/v_last for the last right singular vector v of Z = [A −y], which no agent has.
Rows     Gratton, thesis, DA-TLS, with Cᵢ = ZᵢᵀZᵢ. Its problem lacks a normalisation, and it needs an outer loop; with
         trace X = 1 the ratio is linear and one loop does it:   min <Σ Cᵢ, X>  over X ⪰ 0, trace X = 1,  whose optimum
         is vvᵀ. The agents agree on X (consensus.py); their step is Π(V − Cᵢ/κ), Π the projection onto that set:
         eigenvalues onto the simplex. The Cᵢ are scaled by the largest of their norms, found by a flood.
Columns  (left open in the thesis) Agents hold columns Zᵢ of Z and rows Vᵢ of a growing orthonormal basis V; Y = ZV = Σ
         ZᵢVᵢ, n × k, is known to all, summed along a tree, one column a round. The smallest singular vector c of Y
         gives the best v = Vc in the space, and its residual Zᵀ(Yc) − σ²v, of which each agent has its rows, joins the
         basis. That space is the Krylov space of ZᵀZ from the labels on: after at most P + 1 rounds it holds v,
         exactly. Where features depend on each other it never leaves the part of the table that the labels reach (the
         core problem of Paige and Strakoš): the answer is the one of least norm; over split rows there is none.
Leaves   rows: every agent's estimate of X in every round. Columns: sums of Zᵢ times a vector over each subtree, and
         sums of squares. The answer x of split rows is everybody's; over split columns each agent keeps its own.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    rows: when no agent disagrees or moves by more than the tolerance. Columns: when the residual is at most the
         tolerance times σ²max. A small gap between the two smallest singular values makes both slow: `rank_one` in the
         history is the largest eigenvalue of X, 1 at the answer. So does a long graph: on a line of twenty agents the
         error shrinks by 3 % a round, whatever ρ is kept, against 12 % on a random graph.
Gap      none: nothing that is sent bounds how far the answer is from the best. `objective` is that of the label
         holder's answer, so it is never below the least there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.prox import project_simplex
from colonnade.methods.graph import consensus
from colonnade.methods.graph.consensus import Accord, Graph, Links, Network, check_meetings, status_of
from colonnade.methods.method import GraphMethod
from colonnade.model.job import Answer, Job, Own, Status
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem import LeastSquares
from colonnade.problem.nearest import dense
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Post, Program, ask, ask_one, expect, message

RELAXATION = 0.95  # θ of consensus.py: the set's edge curves at the answer, so nearly whole reflections pay
ROUNDING = 1e-14  # of σ²max: a residual below it is noise, and would not be orthogonal to the basis
VERTICAL = 1e-8  # a last entry of v below it: the best fit needs an infinite x


@message(80)
class TlsShare:
    """Agent → neighbour: my estimate of X and the largest residuals known; or child → parent: my subtree's sum."""

    estimate: Released[Array]
    residuals: Released[Array]


@message(81)
class TlsTotal:
    """Parent → child: the sum over all agents."""

    values: Released[Array]


def sum_over_tree(gate: Gate, net: Network, root: str, values: Floats) -> Program[Floats]:
    """The sum of all agents' vectors, known to all: up the tree of fewest hops to `root`, and down again."""
    parent, children = net.tree(root)
    inbox = yield Post({}, children)
    parts = [expect(inbox, child, TlsShare).estimate.value for child in children]
    total = gate.exact(sum(parts, values))
    if parent is not None:
        own = TlsShare(total, gate.exact(np.zeros(0)))
        total = (yield from ask_one(parent, own, TlsTotal)).values
    yield Post(dict.fromkeys(children, TlsTotal(total)), (), {})
    return total.value


# ------------------------------------------------------------------------------------------------ split rows


def row_peer(job: Job, block: Block, gate: Gate, settings: GraphTLS) -> Program[Own]:
    reports = gate.node == job.roster.label
    net = Network(settings.topology, job.roster, gate.node)
    Z = table(block, with_labels=True)
    C = Z.T @ Z
    size = np.array([float(np.linalg.norm(Z, 2)) ** 2])
    for t in range(net.hops):
        inbox = yield from ask(net.meets(t), TlsShare(*gate.exact(size, np.zeros(0))), TlsShare, {})
        size = np.maximum.reduce([size, *(share.estimate.value for share in inbox.values())])
    C = C / max(float(size[0]), np.finfo(np.float64).tiny)
    # Where links rest, nearly whole reflections go round in circles: on 8 links, one a round, for ever.
    relaxation = consensus.RELAXATION if net.rests else RELAXATION
    links = Links(net.neighbours, C.shape, net.penalty, relaxation)
    accord = Accord(net.hops, settings.tolerance)
    X = np.zeros_like(C)
    pure = 0.0
    for t in range(settings.rounds):
        X, pure = spectrahedron(links.centre - C / links.weight if net.neighbours else -C * 1e12)
        estimate, residuals, apart, moved, rank_one = gate.exact(X, accord.flood, *accord.last, pure)
        note = {"disagreement": apart, "movement": moved, "rank_one": rank_one} if reports else {}
        inbox = yield from ask(net.meets(t), TlsShare(estimate, residuals), TlsShare, note)
        links.meet(X, {name: share.estimate.value for name, share in inbox.items()})
        accord.hear([share.residuals.value for share in inbox.values()])
        accord.turn([links])
        if accord.agreed:
            break
    v = np.linalg.eigh(X)[1][:, -1]
    x = finite(v[:-1], float(v[-1]))
    # Of one answer: each agent's error at its own would add up to less than the least there is, while they disagree.
    root = job.roster.label
    same = yield from sum_over_tree(gate, net, root, v if gate.node == root else np.zeros_like(v))
    error = yield from sum_over_tree(gate, net, root, np.array([float(np.sum(np.square(Z @ same)))]))
    answer = Answer({}, 0.0, float(error[0]) / (2 * job.roster.rows), None, status_of(accord, settings.tolerance))
    return Own(x, gate.receipt(), answer=answer)


def spectrahedron(M: Floats) -> tuple[Floats, float]:
    """The nearest X ⪰ 0 of trace 1 to a symmetric matrix, and its largest eigenvalue."""
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    values = project_simplex(values, 1.0)
    return np.asarray((vectors * values) @ vectors.T), float(values[-1])


# ------------------------------------------------------------------------------------------------ split columns


def column_peer(job: Job, block: Block, gate: Gate, settings: GraphTLS) -> Program[Own]:
    root = job.roster.label
    holds_labels = gate.node == job.roster.label
    net = Network(settings.topology, job.roster, gate.node)
    Z = table(block, with_labels=holds_labels)
    n = block.rows
    V = np.zeros((Z.shape[1], 0))
    Y = np.zeros((block.rows, 0))
    v = r = np.zeros(Z.shape[1])
    if holds_labels:
        r[-1] = 1.0  # the first direction: the labels
    width = sum(map(len, job.roster.positions.values())) + 1
    sigma = np.inf
    size = 0.0
    norm = np.inf
    for k in range(min(settings.rounds, width)):
        total = yield from sum_over_tree(gate, net, root, np.concatenate([Z @ r, V.T @ r, [r @ r]]))
        image = total[:n]
        overlap = total[n:-1]
        square = total[-1]
        norm = float(np.sqrt(max(square - overlap @ overlap, 0.0)))
        if k and norm <= max(settings.tolerance, ROUNDING) * size**2:
            break
        V = np.column_stack([V, (r - V @ overlap) / norm])
        Y = np.column_stack([Y, (image - Y @ overlap) / norm])
        left, sigmas, right = np.linalg.svd(Y, full_matrices=False)
        size = float(sigmas[0])
        sigma = float(sigmas[-1])
        c = right[-1]
        v = V @ c
        r = Z.T @ (sigma * left[:, -1]) - sigma**2 * v
    last_entry = (yield from sum_over_tree(gate, net, root, v[-1:] if holds_labels else np.zeros(1)))[0]
    x = finite(v[:-1] if holds_labels else v, float(last_entry))
    done = V.shape[1] == width or norm <= max(settings.tolerance, ROUNDING) * size**2
    answer = Answer({}, 0.0, sigma**2 / (2 * n), None, Status.AGREED if done else Status.OUT_OF_ROUNDS)
    return Own(x, gate.receipt(), answer=answer)


# ------------------------------------------------------------------------------------------------ both


def table(block: Block, with_labels: bool) -> Floats:
    """The agent's part of Z = [A −y]."""
    A = dense(block.matrix)
    return np.column_stack([A, -block.own_labels().astype(np.float64)]) if with_labels else A


def finite(v: Floats, last_entry: float) -> Floats:
    if abs(last_entry) < VERTICAL:
        why = "the features are linearly dependent, or nearly so, and the labels do not change that"
        raise InvalidInput(f"total least squares has no finite answer: {why}. Drop columns, or use co.GraphRidge.")
    return v / last_entry


REPLIES: Replies = {None: TlsShare, TlsShare: TlsTotal}


@dataclass(frozen=True)
class GraphTLS(GraphMethod):
    """Total least squares on any connected graph, without a coordinator: rows split over the agents, or columns.

    Exact values leave: it is not private.

    Parameters
    ----------
    topology
        Who may talk to whom; None: all to all for few parties, else a random graph of degree 4.
    rounds
        The most rounds.
    tolerance
        Stop when the residuals are at most this; 0: use all rounds.
    """

    topology: Graph | None = None
    rounds: int = 1000
    tolerance: float = 1e-14
    TITLE: ClassVar[str] = "total least squares on a graph"
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares,)
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SPLITS: ClassVar[tuple[str, ...]] = ("columns", "rows")

    def check(self, job: Job) -> None:
        problem = job.problem
        # Over split columns sums go along a tree, whose links never rest.
        if job.roster.by_rows:
            check_meetings(self.topology, self.rounds)
        plain = problem.penalty is None and problem.constraint is None and not problem.intercept
        if not isinstance(problem.loss, self.LOSSES) or not plain:
            bare = "co.Problem(co.LeastSquares()) without penalty, constraint or intercept"
            raise InvalidInput(f"{self.TITLE} takes {bare} (centre the columns and the labels instead).")
        roster = job.roster
        columns = len({place for places in roster.positions.values() for place in places})
        if roster.rows <= columns:
            raise InvalidInput(
                f"{self.TITLE} needs more rows than columns, and has {roster.rows:,} rows for {columns:,} columns: "
                "errors in the features then explain every label, in many ways. Drop columns, or use co.GraphRidge."
            )

    def price(self, job: Job) -> Mapping[str, Plan]:
        net = Network(self.topology, job.roster, job.roster.parties[0])
        if job.roster.by_rows:
            plan: Plan = (
                Charge(EXACT, net.hops, "the largest size of a table that it has heard of"),
                Charge(EXACT, self.rounds, "its estimate of X, and residuals, in every round"),
                Charge(EXACT, 4, "at the end one agent's answer, and the squared errors of its subtree at that one"),
            )
        else:
            steps = min(self.rounds, sum(map(len, job.roster.positions.values())) + 1) + 1
            plan = (Charge(EXACT, 2 * steps, "sums over its subtree of its columns times a vector, in every round"),)
        return dict.fromkeys(job.roster.parties, plan)

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:  # noqa: ARG002
        return row_peer(job, block, gate, self) if job.roster.by_rows else column_peer(job, block, gate, self)
