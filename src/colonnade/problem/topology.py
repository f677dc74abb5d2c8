"""Who may talk to whom: a connected graph over the nodes 0 … size − 1, as a frozen value.

`edges` holds each link once, as (i, j) with i < j, in sorted order, so equal graphs are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import index
from random import Random

from colonnade.errors import InvalidInput

Edges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Topology:
    """A connected graph without loops: who may talk to whom.

    Parameters
    ----------
    size
        The number of nodes; they are numbered from 0, in the order of the parties.
    edges
        The links, each as (i, j) with i below j.

    Raises
    ------
    InvalidInput
        The graph falls into separate parts, which could never agree, or a link names an unknown node.

    Examples
    --------
    >>> import colonnade as co
    >>> ring = co.Topology.ring(4)
    >>> ring.neighbours(0), ring.diameter
    ((1, 3), 2)
    """

    size: int
    edges: Edges

    def __post_init__(self) -> None:
        if _whole("size", self.size) < 1:
            raise InvalidInput(f"a topology needs at least one node, got size={self.size}.")
        object.__setattr__(self, "size", index(self.size))
        object.__setattr__(self, "edges", _sorted_edges(self.edges))
        for i, j in self.edges:
            if i == j:
                raise InvalidInput(f"edge ({i}, {j}) links a node to itself: leave it out.")
            if i < 0 or j >= self.size:
                raise InvalidInput(f"edge ({i}, {j}) names an unknown node: nodes are 0 to {self.size - 1}.")
        if len(self._flood(0)) < self.size:
            raise InvalidInput(
                f"the graph of {self.size} nodes and {len(self.edges)} edges falls into separate parts, "
                f"which could never agree: add edges between them."
            )

    @classmethod
    def star(cls, size: int) -> Topology:
        """Node 0 in the centre, linked to every other node.

        Parameters
        ----------
        size
            The number of nodes.
        """
        return cls(size, tuple((0, i) for i in range(1, _whole("size", size))))

    @classmethod
    def line(cls, size: int) -> Topology:
        """The graph 0 — 1 — 2 — and so on.

        Parameters
        ----------
        size
            The number of nodes.
        """
        return cls(size, tuple((i, i + 1) for i in range(_whole("size", size) - 1)))

    @classmethod
    def ring(cls, size: int) -> Topology:
        """A line whose ends are linked; a line of one or two nodes is its own ring.

        Parameters
        ----------
        size
            The number of nodes.
        """
        closing = ((0, size - 1),) if _whole("size", size) > 2 else ()
        return cls(size, cls.line(size).edges + closing)

    @classmethod
    def tree(cls, size: int) -> Topology:
        """The binary tree with root 0 that fills its levels from the left.

        Parameters
        ----------
        size
            The number of nodes.
        """
        return cls(size, tuple(((i - 1) // 2, i) for i in range(1, _whole("size", size))))

    @classmethod
    def complete(cls, size: int) -> Topology:
        """Every node linked to every other.

        Parameters
        ----------
        size
            The number of nodes.
        """
        n = _whole("size", size)
        return cls(size, tuple((i, j) for i in range(n) for j in range(i + 1, n)))

    @classmethod
    def random(cls, size: int, degree: int = 3, seed: int = 0) -> Topology:
        """A random connected graph with `degree` neighbours on average, as far as its size allows.

        A random tree, which makes it connected, then random links until the average is reached.

        Parameters
        ----------
        size
            The number of nodes.
        degree
            Neighbours of a node on average, at least 2. More cost more messages a round, and fewer rounds are needed.
        seed
            Public: nodes with the same seed draw the same graph, whatever their version of Python.
        """
        n = _whole("size", size)
        if _whole("degree", degree) < 2:
            raise InvalidInput(f"degree must be at least 2, got {degree}: or use Topology.tree.", "degree")
        # random() is the one stream that Python promises to keep: nodes with other versions get the same graph.
        draw = Random(_whole("seed", seed)).random  # noqa: S311  # a public graph, not a secret

        def below(k: int) -> int:
            return int(draw() * k)

        order = sorted(range(n), key=lambda _: draw())
        links = {_pair(order[k], order[below(k)]) for k in range(1, n)}
        wanted = min(round(n * degree / 2), n * (n - 1) // 2)
        while len(links) < wanted:
            i, j = below(n), below(n)
            if i != j:
                links.add(_pair(i, j))
        return cls(size, tuple(links))

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[int, int]], size: int | None = None) -> Topology:
        """The graph with these links.

        Parameters
        ----------
        edges
            Pairs of node numbers, such as [(0, 1), (1, 2)], in any order.
        size
            The number of nodes; None: they run up to the largest one named.
        """
        links = _sorted_edges(edges)
        if size is None:
            size = 1 + max((j for _, j in links), default=0)
        return cls(size, links)

    @cached_property
    def _adjacent(self) -> tuple[tuple[int, ...], ...]:
        adjacent: list[list[int]] = [[] for _ in range(self.size)]
        for i, j in self.edges:
            adjacent[i].append(j)
            adjacent[j].append(i)
        return tuple(tuple(sorted(nodes)) for nodes in adjacent)

    def _flood(self, root: int) -> dict[int, tuple[int, int]]:
        """For each node that a flood from the root reaches, in that order: the neighbour it came from, and the hops."""
        flood = {root: (root, 0)}
        reached = [root]
        for node in reached:
            for neighbour in self._adjacent[node]:
                if neighbour not in flood:
                    flood[neighbour] = node, flood[node][1] + 1
                    reached.append(neighbour)
        return flood

    def _farthest(self, node: int) -> int:
        """The hops to the node that is farthest away."""
        return list(self._flood(node).values())[-1][1]

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The nodes linked to this one, in rising order.

        Parameters
        ----------
        node
            Its number, from 0 on.
        """
        if not 0 <= node < self.size:
            raise InvalidInput(f"node {node} is unknown: nodes are 0 to {self.size - 1}.")
        return self._adjacent[node]

    def degree(self, node: int) -> int:
        """How many neighbours a node has.

        Parameters
        ----------
        node
            Its number, from 0 on.
        """
        return len(self.neighbours(node))

    @cached_property
    def diameter(self) -> int:
        """The largest number of hops between two nodes: rounds until a flood has reached everybody."""
        return max(map(self._farthest, range(self.size)))

    @cached_property
    def centre(self) -> int:
        """The node with the fewest hops to its farthest node; the lowest of several."""
        return min(range(self.size), key=self._farthest)

    def parents(self, root: int) -> tuple[int, ...]:
        """The tree of fewest hops from `root`: each node's neighbour on the way there; the root is its own parent.

        Parameters
        ----------
        root
            The number of the node that the tree leads to.
        """
        self.neighbours(root)
        flood = self._flood(root)
        return tuple(flood[node][0] for node in range(self.size))

    def over(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The neighbours of each name, when names[i] is node i.

        Parameters
        ----------
        names
            One for each node, all different.
        """
        if len(names) != self.size or len(set(names)) != len(names):
            raise InvalidInput(f"{len(names)} names for {self.size} nodes: give every node one name of its own.")
        return {name: tuple(names[j] for j in self.neighbours(i)) for i, name in enumerate(names)}


def _pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i <= j else (j, i)


def _sorted_edges(edges: Iterable[tuple[int, int]]) -> Edges:
    try:
        return tuple(sorted({_pair(index(i), index(j)) for i, j in edges}))
    except (TypeError, ValueError) as cause:
        raise InvalidInput("edges must be pairs of node numbers, for example [(0, 1), (1, 2)].", "edges") from cause


def _whole(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError as cause:
        raise InvalidInput(f"{name} must be a whole number, got {value!r}.", name) from cause


@dataclass(frozen=True)
class Changing:
    """A graph whose links come and go in a public pattern that repeats: in round t, those of rounds[t % len(rounds)].

    Parameters
    ----------
    size
        The number of nodes.
    rounds
        The links of each round of a period. All of them together must connect the nodes; a single round need not.
    """

    size: int
    rounds: tuple[Edges, ...]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InvalidInput("a changing graph needs the links of at least one round.")
        object.__setattr__(self, "rounds", tuple(_sorted_edges(edges) for edges in self.rounds))
        _ = self.union  # refused when it is made, like any graph

    @classmethod
    def silent(cls, topology: Topology, silences: Mapping[int, range], period: int) -> Changing:
        """A graph in which some nodes neither speak nor hear for some rounds of each period.

        Parameters
        ----------
        topology
            The links that there are while nobody is silent.
        silences
            By node, the rounds of a period in which it is silent, such as {2: range(3)}.
        period
            After how many rounds the pattern repeats.
        """
        rounds = [
            tuple(edge for edge in topology.edges if not any(t in silences.get(node, ()) for node in edge))
            for t in range(_whole("period", period))
        ]
        return cls(topology.size, tuple(rounds))

    @cached_property
    def union(self) -> Topology:
        """All links that are ever used."""
        return Topology(self.size, tuple({edge for edges in self.rounds for edge in edges}))

    @cached_property
    def longest_rest(self) -> int:
        """The most rounds from one use of a link to its next."""
        period = len(self.rounds)
        rests = []
        for edge in self.union.edges:
            used = [t for t, edges in enumerate(self.rounds) if edge in edges]
            rests += [after - before for before, after in pairwise([*used, used[0] + period])]
        return max(rests, default=1)

    @cached_property
    def first_uses(self) -> int:
        """The rounds after which every link has been used."""
        firsts = [next(t for t, edges in enumerate(self.rounds) if edge in edges) for edge in self.union.edges]
        return 1 + max(firsts, default=-1)

    def active(self, node: int, t: int) -> tuple[int, ...]:
        """The neighbours with which a node exchanges in round t.

        Parameters
        ----------
        node
            Its number, from 0 on.
        t
            The round, from 0 on.
        """
        edges = self.rounds[t % len(self.rounds)]
        return tuple(sorted(j if i == node else i for i, j in edges if node in (i, j)))
