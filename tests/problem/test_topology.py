"""Topologies against networkx, and what they refuse."""

from __future__ import annotations

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import InvalidInput
from colonnade.problem import Topology

sizes = st.integers(1, 24)


def edges(graph: networkx.Graph) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((min(e), max(e)) for e in graph.edges))


@settings(deadline=None)
@given(n=sizes)
def test_the_named_graphs_are_the_ones_everybody_means(n):
    assert Topology.star(n).edges == edges(networkx.star_graph(n - 1))
    assert Topology.line(n).edges == edges(networkx.path_graph(n))
    assert Topology.complete(n).edges == edges(networkx.complete_graph(n))
    assert Topology.tree(n).edges == edges(networkx.full_rary_tree(2, n))
    if n > 2:
        assert Topology.ring(n).edges == edges(networkx.cycle_graph(n))


@pytest.mark.parametrize("n", [1, 2])
def test_a_ring_of_one_or_two_nodes_is_a_line(n):
    assert Topology.ring(n) == Topology.line(n)


@settings(deadline=None)
@given(n=sizes, degree=st.integers(2, 6), seed=st.integers(0, 10**9))
def test_a_random_graph_is_connected_and_has_the_degree_asked_for(n, degree, seed):
    made = Topology.random(n, degree=degree, seed=seed)
    assert n == 1 or networkx.is_connected(networkx.Graph(made.edges))
    assert len(made.edges) == max(n - 1, min(round(n * degree / 2), n * (n - 1) // 2))
    assert made == Topology.random(n, degree=degree, seed=seed)


def test_a_random_graph_is_the_same_everywhere_and_for_ever():
    """Every node builds the graph from its seed: another graph at one of them would stop the run."""
    assert Topology.random(6).edges == (
        (0, 1),
        (1, 2),
        (1, 3),
        (1, 5),
        (2, 3),
        (2, 4),
        (3, 4),
        (3, 5),
        (4, 5),
    )


def test_other_seeds_give_other_graphs():
    assert len({Topology.random(20, seed=seed) for seed in range(10)}) == 10


@settings(deadline=None)
@given(n=sizes, seed=st.integers(0, 99))
def test_distances_and_centres_are_those_of_networkx(n, seed):
    made = Topology.random(n, seed=seed)
    graph = networkx.Graph(made.edges)
    graph.add_nodes_from(range(n))
    hops = dict(networkx.all_pairs_shortest_path_length(graph))
    farthest = {i: max(hops[i].values()) for i in range(n)}
    assert made.diameter == max(farthest.values())
    assert made.centre == min(range(n), key=lambda i: (farthest[i], i))
    for i in range(n):
        assert made.neighbours(i) == tuple(sorted(graph.neighbors(i)))
        assert made.degree(i) == graph.degree(i)


def test_the_centre_of_a_star_is_found_wherever_it_is():
    assert Topology.star(5).centre == 0
    assert Topology.from_edges([(2, 0), (2, 1), (3, 2)]).centre == 2


def test_the_order_and_direction_of_links_do_not_matter():
    made = Topology.from_edges([(2, 1), (0, 1), (1, 2)])
    assert made == Topology.line(3)
    assert hash(made) == hash(Topology.line(3))
    assert made.edges == ((0, 1), (1, 2))


def test_names_are_given_to_nodes_in_order():
    assert Topology.line(3).over(["lab", "bank", "shop"]) == {
        "lab": ("bank",),
        "bank": ("lab", "shop"),
        "shop": ("bank",),
    }


@pytest.mark.parametrize(
    ("broken", "advice"),
    [
        (lambda: Topology.from_edges([(0, 1), (2, 3)]), "add edges"),
        (lambda: Topology.from_edges([(0, 1)], size=3), "add edges"),
        (lambda: Topology.from_edges([], size=2), "add edges"),
        (lambda: Topology.from_edges([(0, 0), (0, 1)]), "to itself"),
        (lambda: Topology.from_edges([(0, 5)], size=3), "nodes are 0 to 2"),
        (lambda: Topology.from_edges([(-1, 0)]), "unknown node"),
        (lambda: Topology.from_edges([(0, 1, 2)]), "pairs of node numbers"),
        (lambda: Topology.from_edges([(0, "lab")]), "pairs of node numbers"),
        (lambda: Topology.star(0), "at least one node"),
        (lambda: Topology.random(0), "at least one node"),
        (lambda: Topology.ring(-3), "at least one node"),
        (lambda: Topology.complete(2.5), "whole number"),
        (lambda: Topology.random(5, degree=1), "Topology.tree"),
        (lambda: Topology.line(3).neighbours(3), "nodes are 0 to 2"),
        (lambda: Topology.line(3).neighbours(-1), "nodes are 0 to 2"),
        (lambda: Topology.line(3).over(["a", "b"]), "one name of its own"),
        (lambda: Topology.line(3).over(["a", "b", "a"]), "one name of its own"),
    ],
)
def test_a_graph_that_cannot_work_is_refused_with_advice(broken, advice):
    with pytest.raises(InvalidInput, match=advice):
        broken()
