"""Distributed Frank-Wolfe on a tree or on any connected graph: every party runs the same program, nobody coordinates.

Solves   what distributed.py solves, with the same iterates to the bit, whatever the graph.
Source   Bellet, Liang, Garakani, Balcan, Sha, arXiv:1404.2644, algorithm 3 and section 3.2; "line n" refers to the box.
         How bids and atoms travel: spread.py. The labels are the first thing that travels.
Leaves   the labels, to everybody; from each party one place and one score a round; the winner's COLUMN, to everybody.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance: every party computes it alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.methods.frank_wolfe import distributed as frank_wolfe
from colonnade.methods.frank_wolfe.atoms import Hull, catalogue
from colonnade.methods.frank_wolfe.distributed import Walk, WalkSettings
from colonnade.methods.frank_wolfe.spread import REPLIES, Best, Contribution, Flood, Rank, Tree, route
from colonnade.methods.method import Answer, GraphMethod, Job, Own
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.released import Released
from colonnade.problem import AdaBoost, L1Ball, Problem, Topology
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Note, Program


def peer(job: Job, block: Block, gate: Gate, way: Tree | Flood, settings: WalkSettings) -> Program[Own]:
    atoms, reports = catalogue(job), gate.node == job.roster.label
    own = atoms.own(block) if block.columns else None
    nothing = gate.exact(sparse.csc_array((block.rows, 0)))
    labels = yield from _labels(job, block, gate, way, nothing)
    walk, numbers = Walk(job.problem, atoms.hull, settings, labels), dict[int, int]()
    track = walk.track
    for t in range(settings.rounds + 1):
        index, score = own.steepest(job.problem.loss.slope(track.scores, track.y)) if own else (-1, 0.0)
        bid = Best(*gate.exact(atoms.place(gate.node, index) if own else -1, score))  # line 3

        def wanted(best: Best, t: int = t) -> bool:
            ends = walk.ends(t, best.score.value)
            return not ends and not (atoms.lasting and best.place.value in numbers)

        def column(index: int = index) -> Released[Any]:
            assert own is not None  # who has no atoms wins nothing
            return gate.exact(own.take(len(track.atoms), index))

        def note(t: int = t) -> Note | None:
            if settings.over(t, walk.gap):
                return None
            return dict(zip(("objective", "gap"), gate.exact(walk.objective, walk.gap), strict=True)) if reports else {}

        turn = Contribution(bid, rank(atoms.hull), wanted, column, nothing, note)
        best, new = yield from way.exchange(turn)  # line 4
        place, score = best.place.value, best.score.value
        if walk.ends(t, score):  # line 7
            break
        if new is not None:
            numbers[place] = len(track.atoms)
            track.learn(new)
        if place not in numbers:
            raise ProtocolError("a peer named an atom whose column nobody sent")
        walk.step(t, numbers[place], score)  # line 5
    x, model = (own.coefficients(track.weights), own.model(track.weights)) if own else (np.zeros(0), None)
    answer = Answer({}, track.intercept, walk.objective, walk.gap, settings.status(walk.gap))
    return Own(x, gate.receipt(), answer=answer, model=model)


def _labels(job: Job, block: Block, gate: Gate, way: Tree | Flood, nothing: Released[Any]) -> Program[Floats]:
    """The labels travel like an atom: their holder bids what nobody can beat."""
    holds = gate.node == job.roster.label
    bid = Best(*gate.exact(0 if holds else -1, -math.inf))
    turn = Contribution(bid, lambda s: s, lambda _: True, lambda: gate.exact(block.own_labels()), nothing, lambda: None)
    _, labels = yield from way.exchange(turn)
    if not isinstance(labels, np.ndarray) or labels.shape != (job.roster.rows,):
        raise ProtocolError(f"a peer sent no labels for {job.roster.rows:,} rows")
    return labels


def rank(hull: Hull) -> Rank:
    """Scores in the order of what their vertex promises: large ones on a ball, low ones on a simplex."""
    return (lambda score: -abs(score)) if isinstance(hull, L1Ball) else (lambda score: score)


@dataclass(frozen=True)
class GraphFrankWolfe(WalkSettings, GraphMethod):
    """Distributed Frank-Wolfe without a coordinator; made by co.DistributedFrankWolfe(topology=...)."""

    topology: Topology | None = None
    TITLE: ClassVar[str] = "distributed Frank-Wolfe on a graph"
    REPLIES: ClassVar[Replies] = REPLIES
    SOLVES: ClassVar[tuple[type, ...]] = (Problem, AdaBoost)

    def check(self, job: Job) -> None:
        frank_wolfe.check(job, self.TITLE)

    def price(self, job: Job) -> Mapping[str, Plan]:
        return {party: self._plan(job, party) for party in job.roster.parties}

    def _plan(self, job: Job, party: str) -> Plan:
        empty = Charge(EXACT, 3, "that it has nothing to send")
        bids = Charge(EXACT, self.rounds + 1, "that it has no columns, in every round")
        figures = Charge(EXACT, self.rounds, "objective and gap of every round")
        own = frank_wolfe.plan(job, party, self.rounds)
        without = () if job.roster.positions[party] else (bids,)
        return (*own, *without, empty, *((figures,) if party == job.roster.label else ()))

    def peer(self, job: Job, block: Block, gate: Gate, neighbours: tuple[str, ...]) -> Program[Own]:
        return peer(job, block, gate, route(self.topology, job, gate.node, neighbours), self)
