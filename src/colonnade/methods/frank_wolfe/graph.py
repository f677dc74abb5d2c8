"""Distributed Frank-Wolfe on a tree or on any connected graph: every party runs the same program, nobody coordinates.

Solves   what distributed.py solves, with the same iterates to the bit, whatever the graph.
Source   Bellet, Liang, Garakani, Balcan, Sha, arXiv:1404.2644, algorithm 3 and section 3.2; "line n" refers to the box.
Tree     every node sends its parent the best bid of its subtree; the root's answer comes back down, and the winner's
         column crosses every edge once: N − 1 bids, N − 1 columns, and one request an edge between root and winner.
Graph    everybody sends its neighbours the best bid it knows, as often as the graph is wide: 2M·D bids, D the diameter.
         The hop at which a neighbour first sent the winning bid is its distance from the winner, so every node knows
         from whom the column will come and who still lacks it: no spanning tree, and an edge carries it at most once.
Order    bids are ranked by score, then by place: nothing depends on who heard what first. The labels travel first.
Leaves   the labels, and beside them offsets and weights of rows that have them, to everybody; from each party one place
         and one score a round; the winner's COLUMN, to everybody.
Price    exact releases: every event is infinite; a finite budget refuses this method.
Stops    when the gap, which bounds objective − optimum, is at most the tolerance: every party computes it alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.methods.frank_wolfe import distributed as frank_wolfe
from colonnade.methods.frank_wolfe.atoms import Hull, catalogue
from colonnade.methods.frank_wolfe.distributed import Walk, WalkSettings
from colonnade.methods.method import GraphMethod, network
from colonnade.model.job import Answer, Job, Own, Roster
from colonnade.privacy.block import Block
from colonnade.privacy.events import EXACT, Charge, Plan
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Packed, Released
from colonnade.problem import AdaBoost, L1Ball, Problem, Topology
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Note, Post, Program, ask, ask_one, expect, last, message


@message(130)
class Best:
    """Agent → neighbour: the steepest atom that I know of."""

    place: Released[int]  # among all agents' atoms; −1: none
    score: Released[float]


@message(131)
class Wave:
    """Agent → neighbour: the winner of the round, and its column where that must travel."""

    place: Released[int]
    score: Released[float]
    column: Released[Array] | Released[sparse.csc_array] | Released[Packed]  # a block of no columns: it stays away


REPLIES: Replies = {None: Best, Best: Wave}

Rank: TypeAlias = Callable[[float], float]  # the lower, the better


@dataclass(frozen=True)
class Contribution:
    """What one agent brings to a round."""

    bid: Best
    rank: Rank
    wanted: Callable[[Best], bool]  # must the column of this winner travel?
    column: Callable[[], Released[Any]]  # mine, if I win and it must
    nothing: Released[Any]  # a block of no columns
    note: Callable[[], Note | None]  # once the winner is known and the round goes on

    def best(self, bids: Iterable[Best]) -> Best:
        """The bid that wins; an agent without atoms never does."""
        return min(bids, key=self._key)

    def _key(self, bid: Best) -> tuple[bool, float, int]:
        place = bid.place.value
        score = bid.score.value
        if math.isnan(score):
            raise ProtocolError("a peer bids with a score that is no number")
        return place < 0, self.rank(score), place


@dataclass(frozen=True)
class Tree:
    """A rooted tree, seen from one of its nodes."""

    parent: str | None
    children: tuple[str, ...]

    def exchange(self, turn: Contribution) -> Program[tuple[Best, Any]]:
        """The winner of the round, and its column where it travelled."""
        bids = {}
        if self.children:
            inbox = yield Post({}, self.children)
            bids = {child: expect(inbox, child, Best) for child in self.children}
        top = turn.best([turn.bid, *bids.values()])
        below = next((child for child, bid in bids.items() if bid is top), None)
        answer: Best | Wave = top if self.parent is None else (yield from ask_one(self.parent, top, Best | Wave))
        note = None
        if self.parent is None:
            fetch = turn.wanted(top)
            note = turn.note()
        else:
            # Sent back to me: the winner is in my subtree, and its column is wanted.
            fetch = isinstance(answer, Best)
        if isinstance(answer, Wave):
            wave = answer
        elif not fetch:
            wave = Wave(top.place, top.score, turn.nothing)
        elif below is None:
            wave = Wave(top.place, top.score, turn.column())
        else:
            wave = expect((yield Post({below: top}, (below,), note)), below, Wave)
            note = None
        lacking = [child for child in self.children if not (fetch and child == below)]
        up = [self.parent] if self.parent is not None and fetch else []
        yield Post(dict.fromkeys([*up, *lacking], wave), (), note)
        return Best(wave.place, wave.score), _column_of(wave)


@dataclass(frozen=True)
class Flood:
    """A general graph, seen from one of its nodes: its neighbours, and how many hops reach everybody."""

    neighbours: tuple[str, ...]
    diameter: int

    def exchange(self, turn: Contribution) -> Program[tuple[Best, Any]]:
        """The winner of the round, and its column where it travelled."""
        # hops from whoever made this bid to me
        best = turn.bid
        mine = 0
        # By neighbour: the place it sent last, and the hop it first did.
        heard: dict[str, tuple[int, int]] = {}
        for hop in range(1, self.diameter + 1):
            inbox = yield from ask(self.neighbours, best, Best)
            for name, bid in inbox.items():
                if heard.get(name, (-2, 0))[0] != bid.place.value:
                    heard[name] = (bid.place.value, hop)
            top = turn.best([best, *inbox.values()])
            if top.place.value != best.place.value:
                best = top
                mine = hop
        travels = turn.wanted(best)
        note = turn.note()
        if not travels:
            if note is not None:
                yield Post({}, (), note)
            return best, None
        # A neighbour that has not sent the winning bid by now is as far from the winner as can be.
        far = {n: hop - 1 if place == best.place.value else self.diameter for n, (place, hop) in heard.items()}
        before = tuple(name for name in self.neighbours if far[name] < mine)
        behind = tuple(name for name in self.neighbours if far[name] > mine)
        if mine == 0:
            wave = Wave(best.place, best.score, turn.column())
            yield Post(dict.fromkeys(behind, wave), (), note)
        else:
            brought = yield Post({}, before, note)
            waves = [expect(brought, name, Wave) for name in before]
            wave = waves[0]
            if any(other.column != wave.column for other in waves):
                raise ProtocolError("neighbours passed on different columns for the same atom")
            yield from last(dict.fromkeys(behind, wave))
        return best, _column_of(wave)


def _column_of(wave: Wave) -> Any:
    """The column of a wave, or None where it carries none."""
    column: Any = wave.column.value
    return None if sparse.issparse(column) and column.shape[1] == 0 else column


def route(topology: Topology | None, job: Job, node: str, neighbours: tuple[str, ...]) -> Tree | Flood:
    """How this node talks: along a tree whose root is the party that reports, or by flooding where there are cycles."""
    roster = job.roster
    graph = _graph(topology, roster.parties, frozenset(roster.with_columns), roster.label)
    if len(graph.edges) > graph.size - 1:
        return Flood(neighbours, graph.diameter)
    parents = graph.parents(roster.parties.index(roster.label))
    parent = None if node == roster.label else roster.parties[parents[roster.parties.index(node)]]
    return Tree(parent, tuple(name for name in neighbours if name != parent))


@lru_cache(maxsize=8)
def _graph(topology: Topology | None, parties: tuple[str, ...], holding: frozenset[str], label: str) -> Topology:
    """The same graph for a thousand nodes, made once."""
    return network(topology, Roster(0, {party: (0,) if party in holding else () for party in parties}, label))


# ------------------------------------------------------------------------------------------------ the program


def peer(job: Job, block: Block, gate: Gate, way: Tree | Flood, settings: WalkSettings) -> Program[Own]:
    atoms = catalogue(job)
    reports = gate.node == job.roster.label
    own = atoms.own(block) if block.columns else None
    nothing = gate.exact(sparse.csc_array((block.rows, 0)))
    labels = yield from _labels(job, block, gate, way, nothing)
    walk = Walk(job, atoms.hull, settings, labels)
    numbers = dict[int, int]()
    track = walk.track
    loss = walk.problem.loss
    for t in range(settings.rounds + 1):
        index, score = own.steepest(loss.slope(track.scores, track.y)) if own else (-1, 0.0)
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
        place = best.place.value
        score = best.score.value
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
    if not isinstance(labels, np.ndarray) or labels.shape != job.roster.label_shape:
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
    PROTOCOL: ClassVar[int] = 1
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
