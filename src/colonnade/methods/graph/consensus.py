"""Consensus over the links of a graph: what every graph method does with its neighbours.

Solves   min Σᵢ fᵢ(x): agent i knows fᵢ only, and talks to its neighbours Vᵢ only.
Source   Gratton, thesis, (2.9)–(2.10), in the form of relaxed ADMM (Bastianello, Carli, Schenato, Todescato,
         "Asynchronous distributed optimization over lossy networks via relaxed ADMM"): agent i keeps w_ij for each link
         and repeats
             x_i ← argmin fᵢ(x) + ρ/2 Σⱼ ‖x − w_ij‖²                       the method's own step
             w_ij ← (1 − θ) w_ij + θ (2 x_j − w_ji)                        θ = ½: the thesis' ADMM; θ < 1: over-relaxed
         Both ends of a link keep both its vectors, so only x_i travels, the same to all neighbours.
ρ        Nobody chooses it. The agents agree, by flooding, on the largest residual of any of them: how far neighbours
         disagree (x_i − x_j) and how far they still move (ρ·Δz, z = (x_i + x_j)/2). ρ is raised where they disagree
         more, lowered where they move more, by everybody in the same round, at most MOST_CHANGES times: after that it
         is constant, and what is proven for a constant ρ holds. The two are compared in the curvature of the sum where
         that is known (`unit`); else each relative to its own size, x and the multipliers ρ (x_i − w_ij).
Stops    when both residuals are at most the tolerance at every agent; everybody knows it in the same round.
Links    may rest in some rounds (`Changing`): their vectors then stay as they are. Proven for links that rest at random
         (the source above); for a fixed pattern it is measured. An agent's residuals are those of all its links, each
         as its last meeting left it, and infinite before its first: nobody agrees on what was never compared. If all
         are 0 then all w_ij are, and the next round finds the same again: the answer is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Array, Floats
from colonnade.kernels.links import exchange
from colonnade.methods.method import network, pattern
from colonnade.model.job import Roster, Status
from colonnade.privacy.gate import Gate
from colonnade.privacy.values import Released
from colonnade.problem import Changing, Topology
from colonnade.runtime.program import Note

RELAXATION = 0.8  # θ: closer to 1 is faster where every fᵢ curves, or its set does; and slower where one is flat
BALANCE = 1.5  # disagreement over movement, each relative, that ρ aims at
UNIT_BALANCE = 3.0  # and in the unit of the sum's curvature; both measured, see docs/understand/methods/graph.md
MOST_CHANGES = 40
# after a change ρ stays for so many rounds at least, and for that part of the rounds so far
PATIENCE = 5
REST = 8

Graph = Topology | Changing


class Links:
    """One agent's side of its links: `pairs` of w_ij and w_ji for each neighbour, and the residuals they leave."""

    FIGURES: ClassVar[int] = 4  # residuals: see kernels/links.py

    def __init__(
        self, neighbours: Sequence[str], shape: tuple[int, ...], penalty: float, relaxation: float = RELAXATION
    ) -> None:
        self.place = {name: k for k, name in enumerate(neighbours)}
        self.shape = shape
        self.penalty = penalty
        self.relaxation = relaxation
        self.pairs = np.zeros((2, len(neighbours), math.prod(shape)))
        self.middle = np.zeros_like(self.pairs[0])
        # Of each link's residuals, when it last met.
        self.squares = np.full((len(neighbours), self.FIGURES), np.inf)

    @property
    def weight(self) -> float:
        """κ = ρ·|Vᵢ|: the agent's step is argmin fᵢ(x) + κ/2 ‖x − centre‖²."""
        return self.penalty * len(self.place)

    @property
    def residuals(self) -> Floats:
        """Of all links together; infinite while one of them has not met."""
        return np.asarray(np.sqrt(self.squares.sum(axis=0)))

    @property
    def centre(self) -> Floats:
        centre: Floats = self.pairs[0].sum(axis=0).reshape(self.shape) / max(len(self.place), 1)
        return centre

    def meet(self, own: Floats, received: Mapping[str, Floats]) -> None:
        """Exchange over the links that did not rest: `own` was sent to the same neighbours."""
        for name, other in received.items():
            if other.shape != self.shape or other.dtype != np.float64:
                raise ProtocolError(f"{name!r} sent an estimate of shape {other.shape} where {self.shape} is due")
            k = self.place[name]
            self.squares[k] = 0.0
            self.exchange(k, own.reshape(-1), other.reshape(-1), self.squares[k])

    def exchange(self, k: int, x: Floats, y: Floats, sums: Floats) -> None:
        """One link: my estimate x, the neighbour's y; squares of residuals are added to `sums`."""
        exchange(x, y, self.penalty, self.relaxation, *self.pairs[:, k], self.middle[k], sums)

    def begin(self, estimate: Floats, multipliers: Mapping[str, Floats]) -> None:
        """At an estimate that all agents share, with these multipliers ρ (x_i − w_ij), and 0 on the other links."""
        self.middle[:] = self.pairs[:] = estimate.reshape(-1)
        for name, multiplier in multipliers.items():
            self.pairs[0, self.place[name]] -= multiplier.reshape(-1) / self.penalty
            self.pairs[1, self.place[name]] += multiplier.reshape(-1) / self.penalty

    def scale(self, factor: float) -> None:
        """ρ ← factor·ρ with the multipliers as they are: w moves towards or away from the middle of its link."""
        self.penalty *= factor
        self.pairs = self.middle - (self.middle - self.pairs) / factor


class PenaltyRule(Protocol):
    """What all agents do with the residuals that they know alike: to their links, in the same round."""

    FIGURES: ClassVar[int]  # flooded: disagreement, estimates' size, movement, multipliers' size; its own

    def judge(self, t: int, flood: Floats, own: Sequence[Any]) -> None:
        """At the end of round t, in which a flood of finite figures ended, with the agent's own links."""


@dataclass
class Balance:
    """ρ is moved until disagreement and movement are alike."""

    FIGURES: ClassVar[int] = Links.FIGURES
    unit: float | None = None  # the curvature of the sum where it is known, shared out over links; else None
    changes: int = 0
    leanings: list[float] = field(default_factory=list)  # log of disagreement over movement, since ρ last changed
    rests_until: int = PATIENCE  # the round before which ρ stays as it is

    def judge(self, t: int, flood: Floats, own: Sequence[Links]) -> None:
        apart, moved = relative(flood, own[0].penalty)
        if 0.0 in (apart, moved):
            return
        lean = apart / moved / BALANCE if self.unit is None else self.unit * flood[0] / flood[2] / UNIT_BALANCE
        self.leanings.append(math.log(lean))
        if t < self.rests_until or self.changes >= MOST_CHANGES:
            return
        most = 10.0 if self.changes < 2 and self.unit is None else 3.0
        factor = float(np.clip(math.exp(0.5 * self._settled()), 1.0 / most, most))
        if not 1.0 / 1.2 < factor < 1.2:
            self.changes += 1
            self.leanings = []
            self.rests_until = t + max(PATIENCE, t // REST)
            for links in own:
                links.scale(factor)

    def _settled(self) -> float:
        """Where residuals fall in waves, disagreement and movement lead in turn: the later half of them is averaged."""
        late = self.leanings[len(self.leanings) // 2 :] if self.unit is not None else self.leanings[-1:]
        return math.fsum(late) / len(late)


class Accord:
    """What all agents know alike, one flood old: the largest residuals of any agent, and whether they are small."""

    def __init__(self, hops: int, tolerance: float, rule: PenaltyRule | None = None) -> None:
        # hops: until a figure is everybody's
        self.hops = hops
        self.tolerance = tolerance
        self.rule = rule or Balance()
        self.flood = np.zeros(self.rule.FIGURES)
        # `due` is the round in which the next flood ends.
        self.round = self.due = 0
        # disagreement and movement, relative
        self.last = (math.inf, math.inf)
        self.agreed = False

    def hear(self, received: Sequence[Floats]) -> None:
        """One more hop of the flood."""
        for other in received:
            if other.shape != self.flood.shape:
                raise ProtocolError(f"a neighbour sent {other.size} residuals where {self.flood.size} are due")
        self.flood = np.maximum.reduce([self.flood, *received])

    def turn(self, own: Sequence[Any]) -> None:
        """The end of a round: judge the flood if it is over, and begin the next with this agent's residuals."""
        self.round += 1
        if self.round < self.due:
            return
        if self.due and np.isfinite(self.flood).all():  # else some link had not met when it began
            self.last = relative(self.flood, own[0].penalty)
            self.agreed = max(self.last) <= self.tolerance and self.tolerance > 0.0
            self.rule.judge(self.round, self.flood, own)
        self.flood = np.maximum.reduce([links.residuals for links in own])
        self.due = self.round + self.hops


def relative(flood: Floats, penalty: float) -> tuple[float, float]:
    """Disagreement and movement, each against its own size."""
    apart, size, moved, pull = flood[:4].tolist()
    # Where the multipliers vanish at the answer, movement is measured against the estimates instead.
    return ratio(apart, size), ratio(moved, max(pull, 1e-3 * penalty * size))


class Network:
    """The graph as one agent sees it: its neighbours, whom it meets in a round, how far the farthest agent is."""

    def __init__(self, topology: Graph | None, roster: Roster, agent: str) -> None:
        self.graph = network(topology, roster)
        self.names = roster.parties
        self.place = roster.parties.index(agent)
        self.neighbours = tuple(self.names[j] for j in self.graph.neighbours(self.place))
        self._changing = pattern(topology, roster) if isinstance(topology, Changing) else None
        self.rests = self._changing is not None  # whether links may
        rest = self._changing.longest_rest if self._changing else 1  # in so many rounds every link is used
        self.hops = max(self.graph.diameter, 1) * rest
        # Where the curvature of the whole is about 1, its share for a link of an agent of mean degree.
        self.penalty = self.graph.size / (2.0 * max(len(self.graph.edges), 1))

    def tree(self, root: str) -> tuple[str | None, tuple[str, ...]]:
        """This agent's parent (None at the root) and children in the tree of fewest hops from `root`."""
        parents = self.graph.parents(self.names.index(root))
        children = tuple(self.names[k] for k, up in enumerate(parents) if up == self.place != k)
        return None if self.names[self.place] == root else self.names[parents[self.place]], children

    def behind(self, root: str) -> dict[str, int]:
        """By neighbour in that tree, how many agents the link parts from the root: on this side +, on that side −."""
        parents = self.graph.parents(self.names.index(root))
        top = self.names.index(root)
        sizes = [0] * self.graph.size
        for node in range(self.graph.size):
            sizes[node] += 1
            while node != top:
                node = parents[node]
                sizes[node] += 1
        parent, children = self.tree(root)
        own = {} if parent is None else {parent: sizes[self.place]}
        return own | {child: -sizes[self.names.index(child)] for child in children}

    def meets(self, t: int) -> tuple[str, ...]:
        """The neighbours with which this agent exchanges in round t."""
        if self._changing is None:
            return self.neighbours
        return tuple(self.names[j] for j in self._changing.active(self.place, t))


def check_meetings(topology: Graph | None, rounds: int) -> None:
    """InvalidInput where a run would end before every link was used: somebody's data would count for nothing."""
    if isinstance(topology, Changing) and rounds < topology.first_uses:
        wanted = f"give at least rounds={topology.first_uses}, and many times that to agree"
        raise InvalidInput(f"in {rounds} rounds some links of this changing graph are never used: {wanted}.", "rounds")


def ratio(part: float, whole: float) -> float:
    """part/whole; nothing of nothing is 0, and something of nothing is infinite."""
    return part / whole if whole > 0.0 else (math.inf if part > 0.0 else 0.0)


def release_share(gate: Gate, estimate: Floats, accord: Accord, reports: bool) -> tuple[Released[Array], Note]:
    """What leaves an agent in a round, its estimate and the flood as one array; the history's row, of who reports."""
    values = np.concatenate((estimate.reshape(-1), accord.flood))
    if not reports:
        return gate.exact(values), {}
    share, apart, moved = gate.exact(values, *accord.last)
    return share, {"disagreement": apart, "movement": moved}


def read_shares(inbox: Mapping[str, Any], shape: tuple[int, ...], figures: int) -> tuple[dict[str, Any], list[Floats]]:
    """The neighbours' estimates by name, and their floods, of messages with one field, `values`."""
    size = math.prod(shape)
    shares = {name: share.values.value for name, share in inbox.items()}
    for name, sent in shares.items():
        if sent.shape != (size + figures,) or sent.dtype != np.float64:
            raise ProtocolError(f"{name!r} sent {sent.size:,} numbers where {size:,} and {figures} residuals are due")
    return {name: sent[:size].reshape(shape) for name, sent in shares.items()}, [s[size:] for s in shares.values()]


def status_of(accord: Accord, tolerance: float) -> Status:
    """Why a run stopped."""
    if tolerance == 0.0:
        return Status.ALL_ROUNDS
    return Status.AGREED if accord.agreed else Status.OUT_OF_ROUNDS
