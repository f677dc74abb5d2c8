"""Any convex loss with any penalty, over split columns on any connected graph, without a coordinator.

Solves   min loss(Ax + b, y) + g(x),   A = [A₁ … A_p]; agent i holds Aᵢ, one y; g = Σ gᵢ, a penalty over a set, one of
         both or neither (admm/sharing.py); b = 0 unless intercept.
Source   Gratton, thesis, chapters on non-smooth regularisers and on general losses, over their dual: with w = n·slope,
             min_w  n·loss*(w/n) + Σᵢ n·gᵢ*(−Aᵢᵀw/n)                           (Σ w = 0 with b)
         a sum over agents, who agree on w (anchored.py). By Moreau's identity no conjugate is ever formed:
             columns   x = argmin n·gᵢ(x) + ‖Aᵢx + κv‖²/(2κ),  w = v + Aᵢx/κ   v the centre, κ the weight of links
             labels    s = argmin n·loss(s) + ‖s − κv‖²/(2κ),  w = v − s/κ     the prox of the loss
         The thesis gives every agent the labels and 1/N of the loss, and alternates two inner steps, which stall where
         the loss has kinks. Here the loss is one more agent, at whoever holds the labels, linked to that party's
         columns (if it has any) inside the party: every step is exact, and the labels are not sent.
Leaves   each agent's estimate of w, every round: at the end the slope of the loss in every row, which everybody learns
         (for two classes its sign IS the label); once, and at a warm start, the scores of each subtree (dual.py).
         Offsets and weights stay with the label holder, but for what that slope, c·φ'(s + o, y), tells of them.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when no agent disagrees or moves by more than the tolerance, relative; then the gap is certified.
Several  responses, y of shape (n, q): x and w are matrices; the penalty is of all entries, or nuclear over blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.admm.sharing import balanced, free_intercept, local_penalty, local_term, slope_at
from colonnade.methods.graph.anchored import AnchoredLinks, Restarts
from colonnade.methods.graph.consensus import Accord, Network, read_shares, release_share, status_of
from colonnade.methods.graph.dual import CERTIFICATE, DualGraphMethod, DualPoint, Start, certify, resume
from colonnade.methods.method import adjusted
from colonnade.model.job import Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem import GroupLasso, NuclearNorm, Penalty, Problem
from colonnade.problem.nearest import nearest, nearest_matrix
from colonnade.problem.penalties import Free
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program, ask, message

INSIDE = "(the same party)"  # the other end of the link between a party's columns and its labels


@message(70)
class DualShare:
    """Agent → neighbour: my estimate of the dual vector, and behind it the largest residuals I have heard of."""

    values: Released[Array]


class ColumnsTerm:
    """The term of a party's columns: n·gᵢ*(−Aᵢᵀw/n)."""

    def __init__(self, block: Block, penalty: Penalty, responses: int) -> None:
        self.matrix = block.matrix
        self.rows = block.rows
        self.solve = nearest_matrix(self.matrix, penalty, responses) if responses else nearest(self.matrix, penalty)
        self.x = np.zeros((block.columns, *((responses,) if responses else ())))

    def near(self, v: Floats, weight: float) -> Floats:
        self.x = self.solve(-weight * v, 1.0 / (weight * self.rows))
        return np.asarray(v + (self.matrix @ self.x) / weight)


class LabelsTerm:
    """The term of the labels: n·loss*(w/n), over Σ w = 0 where the problem has an intercept."""

    def __init__(self, problem: Problem, y: Floats) -> None:
        self.problem = problem
        self.y = y
        self.intercept = 0.0

    def near(self, v: Floats, weight: float) -> Floats:
        prox = partial(self.problem.loss.prox, y=self.y, step=weight * len(self.y))
        point = weight * v
        if not self.problem.intercept:
            return (point - prox(point)) / weight
        self.intercept = free_intercept(prox, point, self.intercept)
        return balanced((point + self.intercept - prox(point + self.intercept)) / weight)


def _begin_warm(
    job: Job, gate: Gate, net: Network, scores: Floats, labels: Floats, links: Mapping[str, AnchoredLinks], outer: str
) -> Program[None]:
    """Begin at an earlier answer, where minus the slope of a columns' term is their scores."""
    dual_at = partial(slope_at, job.problem, labels=labels)
    first, total, flows = yield from resume(DualShare, gate, net, job.roster.label, scores, dual_at)
    inner = dict.fromkeys((INSIDE,) if len(links) > 1 else (), total)
    links[outer].begin(len(scores) * first, flows | inner)
    if inner:
        links["labels"].begin(len(scores) * first, {INSIDE: -total})


def peer(job: Job, block: Block, gate: Gate, settings: GraphADMM) -> Program[Own]:
    rows = block.rows
    responses = job.roster.responses
    holds_labels = gate.node == job.roster.label
    # Offsets and weights become a part of its own loss, and nobody else's.
    if holds_labels:
        problem, labels = adjusted(job, block.own_labels())
        job = replace(job, problem=problem)
        block = replace(block, labels=labels)
    problem = job.problem
    penalty = own_term(job, block.positions)
    net = Network(settings.topology, job.roster, gate.node)
    inner = (INSIDE,) if holds_labels and block.columns else ()
    accord = Accord(net.hops, settings.tolerance, Restarts(rests=net.rests))
    terms: dict[str, ColumnsTerm | LabelsTerm] = {}
    if block.columns or not holds_labels:
        terms["columns"] = ColumnsTerm(block, penalty, responses)
    labels = block.own_labels() if holds_labels else np.zeros(0)
    if holds_labels:
        terms["labels"] = LabelsTerm(problem, labels)
    outer = next(iter(terms))  # the term that the neighbours meet
    shape = (rows, responses) if responses else (rows,)
    ends = {name: (*net.neighbours, *inner) if name == outer else inner for name in terms}
    links = {name: AnchoredLinks(ends[name], shape, net.penalty) for name in terms}
    if (start := Start.of(settings.start)) is not None:
        scores = np.asarray(block.matrix @ start.own(gate.node, (block.columns, *shape[1:])))
        yield from _begin_warm(job, gate, net, scores, labels, links, outer)
    for t in range(settings.rounds):
        w = {name: term.near(links[name].centre, links[name].weight) for name, term in terms.items()}
        own, note = release_share(gate, w[outer], accord, reports=holds_labels)
        inbox = yield from ask(net.meets(t), DualShare(own), DualShare, note)
        received, floods = read_shares(inbox, shape, accord.flood.size)
        if inner:
            received[INSIDE] = w["labels"]
            links["labels"].meet(w["labels"], {INSIDE: w["columns"]})
        links[outer].meet(w[outer], received)
        accord.hear(floods)
        accord.turn(list(links.values()))
        if accord.agreed:
            break
    x = columns.x if isinstance(columns := terms[outer], ColumnsTerm) else np.zeros((0, *shape[1:]))
    dual = w["labels"] / rows if holds_labels else np.zeros(shape)
    answer = yield from certify(job, block, gate, net, penalty, x, dual, status_of(accord, settings.tolerance))
    return Own(x, gate.receipt(), answer=answer)


REPLIES: Replies = {None: DualShare, DualShare: DualPoint, **CERTIFICATE}


@dataclass(frozen=True, repr=False)
class GraphADMM(DualGraphMethod):
    """Any convex loss with any penalty, over split columns on any connected graph, without a coordinator.

    Exact values leave. With a budget it becomes one noisy release on the same graph, where that is all a problem needs.

    Parameters
    ----------
    topology
        Who may talk to whom; None: all to all for few parties, else a random graph of degree 4.
    rounds
        The most rounds.
    tolerance
        Stop when the residuals are at most this; 0: use all rounds. At 1e-7, coefficients of smooth losses are within
        about 1e-6, relatively.
    start
        An earlier Fit, or coefficients by party: begin there.
    """

    tolerance: float = 1e-7
    TITLE: ClassVar[str] = "ADMM on a graph"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES
    SEVERAL_RESPONSES: ClassVar[bool] = True
    ADJUSTS: ClassVar[bool] = True
    BOUNDS_AND_PENALISES: ClassVar[bool] = True

    def check(self, job: Job) -> None:
        penalty = job.problem.penalty
        responses = job.roster.responses
        if isinstance(penalty, NuclearNorm) and not responses:
            raise InvalidInput("a nuclear norm needs several responses: give y of shape (rows, responses).")
        if isinstance(penalty, NuclearNorm) and penalty.blocks is None and len(job.roster.with_columns) > 1:
            advice = "give NuclearNorm(a, blocks=...) with the columns of each block at one party"
            raise InvalidInput(f"the nuclear norm of the whole matrix ties all parties' columns together: {advice}.")
        alone = job.problem.constraint is None and not isinstance(penalty, GroupLasso | None)
        if responses and (not alone or job.problem.intercept):
            known = "Ridge, Lasso, ElasticNet or NuclearNorm as the penalty, no constraint"
            raise InvalidInput(f"with several responses, use {known}, and no intercept (centre columns and labels).")
        for places in job.roster.positions.values():
            own_term(job, np.asarray(places, np.int64))
        super().check(job)

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:  # noqa: ARG002
        return peer(job, block, gate, self)


def own_term(job: Job, positions: Array) -> Penalty:
    """The term of one party's columns; of a party without columns, whatever it is, it is 0."""
    problem = job.problem
    penalty = job.problem.penalty
    if not positions.size:
        return Free() if penalty is None else penalty
    if not isinstance(penalty, NuclearNorm) or penalty.blocks is None:
        return local_term(job, positions)
    groups = GroupLasso(1.0, penalty.blocks)  # cut along the parties as groups are
    own = local_penalty(Problem(problem.loss, penalty=groups), positions)
    assert isinstance(own, GroupLasso)
    return NuclearNorm(penalty.a, own.groups)
