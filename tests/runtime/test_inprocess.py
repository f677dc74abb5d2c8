"""Claims about engines: no schedule changes a result, and graphs run like stars."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.privacy.values import Released
from colonnade.runtime.program import ask, message
from tests.helpers.contract import ENGINES, EVERY_METHOD, Toy, fitted, nodes

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


class Shuffled(co.InProcess):
    """Resumes whoever it likes among those who can go on."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def pick(self, ready):
        ready.rotate(self.draw.randrange(len(ready)))
        return ready.popleft()


@message(930)
class Share:
    """Peer → neighbour: my present value."""

    value: Released[float]


def peer(start: float, neighbours: tuple[str, ...], rounds: int):
    """Gossip: move towards the neighbours' mean by weights that keep the sum."""

    def program(gate):
        x = start
        for _ in range(rounds):
            inbox = yield from ask(neighbours, Share(gate.exact(x)), Share)
            x += sum(share.value.value - x for share in inbox.values()) / (1 + MOST)
        return x

    return program


MOST = 9  # more neighbours than any node below has


def gossip(topology: co.Topology, rounds: int) -> dict[str, Toy]:
    names = [f"n{i}" for i in range(topology.size)]
    return {
        name: Toy(peer(float(i), around, rounds), around, guarded=True, replies={None: Share})
        for i, (name, around) in enumerate(topology.over(names).items())
    }


graphs = st.one_of(
    st.integers(2, 7).map(co.Topology.ring),
    st.integers(2, 7).map(co.Topology.line),
    st.integers(2, 7).map(co.Topology.star),
    st.builds(lambda n, seed: co.Topology.random(n, degree=3, seed=seed), st.integers(4, 8), st.integers(0, 99)),
)


@settings(max_examples=40)
@given(graphs, st.integers(1, 6), st.integers(0, 999))
def test_any_schedule_gives_the_same_values_and_the_same_bytes_on_every_graph(topology, rounds, seed):
    plain, shuffled = (co.Tap(engine) for engine in (co.InProcess(), Shuffled(seed)))
    one = plain.run(nodes(gossip(topology, rounds)))
    two = shuffled.run(nodes(gossip(topology, rounds)))
    assert one.results == two.results
    assert one.traffic == two.traffic
    assert by_edge(plain.letters) == by_edge(shuffled.letters)


def by_edge(letters) -> dict:
    found: dict = {}
    for letter in letters:
        found.setdefault((letter.sender, letter.receiver), []).append(letter)
    return found


@settings(max_examples=20)
@given(graphs)
def test_gossip_keeps_the_mean_and_approaches_it(topology):
    outcome = co.InProcess().run(nodes(gossip(topology, 40)))
    values = np.array(list(outcome.results.values()))
    start = np.arange(topology.size)
    assert values.mean() == pytest.approx(start.mean())
    assert values.std() < start.std()


@given(graphs, st.integers(1, 5))
def test_every_edge_of_a_graph_is_counted_in_both_directions(topology, rounds):
    outcome = co.InProcess().run(nodes(gossip(topology, rounds)))
    per_edge = Counter()
    for line, count in outcome.traffic.messages.items():
        per_edge[line.sender, line.receiver] += count
    wanted = {(f"n{i}", f"n{j}"): rounds for i, j in topology.edges}
    assert per_edge == {**wanted, **{(b, a): rounds for a, b in wanted}}


def test_a_peer_that_talks_past_its_graph_is_refused():
    toys = gossip(co.Topology.line(3), 2)
    toys["n0"].program = peer(0.0, ("n1", "n2"), 2)
    with pytest.raises(co.ProtocolError, match=r"'n0' is not connected to 'n2'"):
        co.InProcess().run(nodes(toys))


def test_one_failing_peer_ends_the_run_of_all():
    def broken(gate):
        yield from ask(("n1",), Share(gate.exact(0.0)), Share)
        raise co.InvalidInput("enough")

    toys = gossip(co.Topology.ring(5), 50)
    toys["n0"] = Toy(broken, ("n1", "n4"), guarded=True, replies={None: Share})
    made = nodes(toys)
    with pytest.raises(co.InvalidInput, match=r"enough"):
        co.InProcess().run(made)
    assert all(node.finished for node in made.values())


@cache
def calm(name: str) -> tuple[co.Tap, co.Fit]:
    """The run that others are compared with, once a method."""
    tap = co.Tap(co.InProcess())
    return tap, fitted(EVERY_METHOD[name], tap)


def bits(fit: co.Fit) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in fit.coefficients.items()}


@pytest.mark.thinned("fault")
@pytest.mark.parametrize("name", EVERY_METHOD)
@pytest.mark.parametrize("seed", range(3))
def test_no_schedule_changes_a_fit(name, seed):
    (tap, one), shuffled = calm(name), co.Tap(Shuffled(seed))
    two = fitted(EVERY_METHOD[name], shuffled)
    assert bits(one) == bits(two)
    assert one.communication == two.communication
    fresh = name == "private gram, ring" or any(letter.inside for letter in tap.letters)
    if not fresh:  # else keys and masks are drawn anew in every run
        assert by_edge(tap.letters) == by_edge(shuffled.letters)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("name", EVERY_METHOD)
def test_repeating_every_letter_changes_nothing(name, engine):
    _, plain = calm(name)
    twice = co.Faults(engine(), lambda letter: (letter, letter))
    fit = fitted(EVERY_METHOD[name], twice)
    assert bits(plain) == bits(fit)
    assert plain.communication == fit.communication


@pytest.mark.thinned("fault")
@pytest.mark.parametrize("name", EVERY_METHOD)
@pytest.mark.parametrize("lost", [0, 1, 5, -1])
def test_losing_a_letter_ends_the_run_with_a_protocol_error(name, lost):
    missing = calm(name)[0].letters[lost]
    place = (missing.sender, missing.receiver, missing.sequence)

    def fault(letter):
        return () if (letter.sender, letter.receiver, letter.sequence) == place else (letter,)

    with pytest.raises(co.ProtocolError):
        fitted(EVERY_METHOD[name], co.Faults(co.InProcess(), fault))


@pytest.mark.parametrize(
    "around",
    [co.Tap, lambda inner: co.Faults(inner, lambda letter: (letter,)), lambda inner: co.Dropouts(inner, {"a": 1})],
)
@pytest.mark.parametrize("inner", [co.Ray(), co.InProcess, None], ids=["ray", "a class", "none"])
def test_letters_that_pass_elsewhere_cannot_be_kept_or_lost_and_that_is_said_before_a_run(around, inner):
    with pytest.raises(co.InvalidInput, match=r"such as co.InProcess\(\).*Nothing was begun"):
        around(inner)
