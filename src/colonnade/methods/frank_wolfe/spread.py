"""How the agents of a graph agree on the steepest atom of a round and pass it on, without a coordinator.

Source   Bellet et al., arXiv:1404.2644, section 3.2: rooted tree, and general graph in the fully distributed setting.
Tree     every node sends its parent the best bid of its subtree; the root's answer comes back down, and the winner's
         column crosses every edge once: N − 1 bids, N − 1 columns, and one request an edge between root and winner.
Graph    everybody sends its neighbours the best bid it knows, as often as the graph is wide: 2M·D bids, D the diameter.
         The hop at which a neighbour first sent the winning bid is its distance from the winner, so every node knows
         from whom the column will come and who still lacks it: no spanning tree, and an edge carries the column once or
         not at all.
Order    bids are ranked by score, then by place: nothing depends on who heard what first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from scipy import sparse

from colonnade.errors import ProtocolError
from colonnade.kernels.arrays import Array
from colonnade.methods.method import Job, Roster, network
from colonnade.privacy.released import Released
from colonnade.privacy.values import Packed
from colonnade.problem import Topology
from colonnade.runtime.messages import message
from colonnade.runtime.node import Replies
from colonnade.runtime.program import Note, Post, Program, ask, ask_one, expect, last


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
        place, score = bid.place.value, bid.score.value
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
            fetch = isinstance(answer, Best)  # sent back to me: the winner is in my subtree, and its column is wanted
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
        return Best(wave.place, wave.score), _there(wave)


@dataclass(frozen=True)
class Flood:
    """A general graph, seen from one of its nodes: its neighbours, and how many hops reach everybody."""

    neighbours: tuple[str, ...]
    diameter: int

    def exchange(self, turn: Contribution) -> Program[tuple[Best, Any]]:
        """The winner of the round, and its column where it travelled."""
        best, mine = turn.bid, 0  # hops from whoever made this bid to me
        heard: dict[str, tuple[int, int]] = {}  # by neighbour: the place it sent last, and the hop it first did
        for hop in range(1, self.diameter + 1):
            inbox = yield from ask(self.neighbours, best, Best)
            for name, bid in inbox.items():
                if heard.get(name, (-2, 0))[0] != bid.place.value:
                    heard[name] = (bid.place.value, hop)
            top = turn.best([best, *inbox.values()])
            if top.place.value != best.place.value:
                best, mine = top, hop
        travels, note = turn.wanted(best), turn.note()
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
        return best, _there(wave)


def _there(wave: Wave) -> Any:
    """The column of a wave, or None where it carries none."""
    column: Any = wave.column.value
    return None if sparse.issparse(column) and column.shape[1] == 0 else column


def route(topology: Topology | None, job: Job, node: str, neighbours: tuple[str, ...]) -> Tree | Flood:
    """How this node talks: along a tree whose root is the party that reports, or by flooding where there are cycles."""
    roster = job.roster
    graph = _graph(topology, roster.parties, frozenset(roster.with_columns), roster.label)
    if len(graph.edges) > graph.size - 1:
        return Flood(neighbours, graph.diameter)
    parent = _parents(graph, roster.parties, roster.label)[node]
    return Tree(parent, tuple(name for name in neighbours if name != parent))


@lru_cache(maxsize=8)
def _graph(topology: Topology | None, parties: tuple[str, ...], holding: frozenset[str], label: str) -> Topology:
    """The same graph for a thousand nodes, made once."""
    return network(topology, Roster(0, {party: (0,) if party in holding else () for party in parties}, label))


@lru_cache(maxsize=8)
def _parents(graph: Topology, parties: tuple[str, ...], root: str) -> Mapping[str, str | None]:
    links, parents, reached = graph.over(parties), dict[str, str | None]({root: None}), [root]
    for node in reached:
        for name in links[node]:
            if name not in parents:
                parents[name] = node
                reached.append(name)
    return parents
