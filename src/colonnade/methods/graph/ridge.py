"""Ridge regression over split columns on any connected graph, without a coordinator.

Solves   min 1/(2n) ‖Ax + b − y‖² + a/2 ‖x‖²,   A = [A₁ … A_p]; agent i holds Aᵢ, one of them y; b = 0 unless intercept.
Source   Gratton, thesis, D-Ridge. Its dual, times n, is a sum that each agent knows one term of:
             min_w Σᵢ  1/(2N) ‖w‖² + [i holds y] <w, y> + 1/(2an) ‖Aᵢᵀw‖²,      xᵢ = −Aᵢᵀw / (an),
         so the agents agree on w (consensus.py), a vector of n, and keep their coefficients. With b, Σ w = 0.
Leaves   each agent's estimate of w, every round: at the end the residuals Ax + b − y, which everybody learns; once, and
         once more at a warm start (dual.py), the scores of each subtree (dual.py). Coefficients stay.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when no agent disagrees or moves by more than the tolerance, relative; then the gap is certified.
Cost     one eigendecomposition of the smaller of AᵢᵀAᵢ and AᵢAᵢᵀ; then two products with Aᵢ a round, for any ρ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.admm.sharing import slope_at
from colonnade.methods.graph.consensus import Accord, Balance, Links, Network, read_shares, release_share, status_of
from colonnade.methods.graph.dual import CERTIFICATE, DualGraphMethod, DualPoint, Start, certify, resume
from colonnade.methods.method import GraphMethod, Method
from colonnade.model.job import Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.gate import Gate
from colonnade.privacy.statement import Privacy
from colonnade.privacy.values import Released
from colonnade.problem import LeastSquares, Problem, Ridge
from colonnade.problem.nearest import dense
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Program, ask, message


@message(60)
class RidgeShare:
    """Agent → neighbour: my estimate of the dual vector, and behind it the largest residuals I have heard of."""

    values: Released[Array]


class Term:
    """One agent's term of the dual: a quadratic that is minimised near any point for any weight."""

    def __init__(self, job: Job, block: Block, penalty: Ridge, holds_labels: bool) -> None:
        self.matrix = block.matrix
        self.scale = penalty.a * block.rows
        self.share = 1.0 / len(job.roster.parties)
        self.linear = block.own_labels().astype(np.float64) if holds_labels else np.zeros(block.rows)
        self.balanced = holds_labels and job.problem.intercept
        self.tall = block.columns < block.rows
        gram = dense(self.matrix.T @ self.matrix if self.tall else self.matrix @ self.matrix.T)
        self.values, self.vectors = np.linalg.eigh(gram)

    def near(self, centre: Floats, weight: float) -> Floats:
        """argmin of the term + weight/2 ‖w − centre‖²."""
        w = self._solve(weight * centre - self.linear, self.share + weight)
        if self.balanced:  # Σ w = 0
            ones = self._solve(np.ones_like(w), self.share + weight)
            w -= w.sum() / ones.sum() * ones
        return w

    def _solve(self, b: Floats, k: float) -> Floats:
        """(k + AAᵀ/(an))⁻¹ b; by Woodbury where A has fewer columns than rows."""
        c = self.scale * k
        if not self.tall:
            return np.asarray(self.vectors @ ((self.vectors.T @ b) * self.scale / (c + self.values)))
        inner = self.vectors @ ((self.vectors.T @ (self.matrix.T @ b)) / (c + self.values))
        return np.asarray((b - self.matrix @ inner) / k)

    def coefficients(self, w: Floats) -> Floats:
        return np.asarray(-(self.matrix.T @ w) / self.scale)


def peer(job: Job, block: Block, gate: Gate, settings: GraphRidge) -> Program[Own]:
    penalty = settings.penalty_of(job.problem)
    holds_labels = gate.node == job.roster.label
    net = Network(settings.topology, job.roster, gate.node)
    links = Links(net.neighbours, (block.rows,), net.penalty)
    accord = Accord(net.hops, settings.tolerance, Balance(unit=net.penalty))  # 1/(2N) ‖w‖² adds up to a curvature of 1
    term = Term(job, block, penalty, holds_labels)
    w = np.zeros(block.rows)
    if (start := Start.of(settings.start)) is not None:
        scores = block.scores(start.own(gate.node, (block.columns,)))
        root = job.roster.label
        dual_at = partial(slope_at, job.problem, labels=term.linear)
        first, _, flows = yield from resume(RidgeShare, gate, net, root, scores, dual_at)
        # Minus the slope of a term at an answer: the agent's scores, less w/N (and y, at the root).
        parts = {name: part / net.graph.size for name, part in net.behind(root).items()}
        links.begin(block.rows * first, {name: flow - parts[name] * block.rows * first for name, flow in flows.items()})
    for t in range(settings.rounds):
        w = term.near(links.centre, links.weight)
        own, note = release_share(gate, w, accord, reports=holds_labels)
        inbox = yield from ask(net.meets(t), RidgeShare(own), RidgeShare, note)
        others, floods = read_shares(inbox, w.shape, accord.flood.size)
        links.meet(w, others)
        accord.hear(floods)
        accord.turn([links])
        if accord.agreed:
            break
    x = term.coefficients(w)
    status = status_of(accord, settings.tolerance)
    answer = yield from certify(job, block, gate, net, penalty, x, w / block.rows, status)
    return Own(x, gate.receipt(), answer=answer)


REPLIES: Replies = {None: RidgeShare, RidgeShare: DualPoint, **CERTIFICATE}


@dataclass(frozen=True, repr=False)
class GraphRidge(DualGraphMethod):
    """Ridge regression over split columns on any connected graph, without a coordinator.

    Exact values leave. With a budget it becomes one noisy release on the same graph.

    Parameters
    ----------
    topology
        Who may talk to whom; None: all to all for few parties, else a random graph of degree 4.
    rounds
        The most rounds.
    tolerance
        Stop when the residuals are at most this; 0: use all rounds.
    start
        An earlier Fit, or coefficients by party: begin there.
    """

    TITLE: ClassVar[str] = "ridge on a graph"
    LOSSES: ClassVar[tuple[type, ...]] = (LeastSquares,)
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Replies] = REPLIES

    def variant(self, problem: object, privacy: Privacy | None = None) -> Method | GraphMethod:
        if privacy is not None and isinstance(problem, Problem):
            self.penalty_of(problem)
        return super().variant(problem, privacy)

    def penalty_of(self, problem: Problem) -> Ridge:
        """The problem's ridge, or InvalidInput where it is another problem.

        Parameters
        ----------
        problem
            What is solved.
        """
        if not isinstance(problem.loss, self.LOSSES) or not isinstance(problem.penalty, Ridge):
            only = "co.Problem(co.LeastSquares(), penalty=co.Ridge(a))"
            raise InvalidInput(f"{self.TITLE} solves {only} alone; co.GraphADMM takes every loss and penalty.")
        return problem.penalty

    def check(self, job: Job) -> None:
        self.penalty_of(job.problem)
        super().check(job)

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:  # noqa: ARG002
        return peer(job, block, gate, self)
