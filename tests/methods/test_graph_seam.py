"""Claims about running a method without a coordinator: who talks, who pays, what the history may hold, split rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse

import colonnade as co
from colonnade.methods.method import GraphMethod, network
from colonnade.model.job import Answer, Own, Roster
from colonnade.privacy.events import EXACT, Charge
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Released
from colonnade.runtime.program import ask, message

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@message(9_001)
class Mean:
    """Agent → neighbour: my estimate of the mean."""

    value: Released[float]


@dataclass(frozen=True)
class Gossip(GraphMethod):
    """Every agent ends with the mean of the agents' column sums, on the complete graph after one round."""

    topology: co.Topology | None = None
    rounds: int = 3
    bare: bool = False
    extra: int = 0  # releases beyond the plan
    TITLE: ClassVar[str] = "gossip"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[Mapping[type | None, type]] = {None: Mean}
    SPLITS: ClassVar[tuple[str, ...]] = ("columns", "rows")

    def check(self, job: Any) -> None:
        """Any job will do."""

    def price(self, job: Any) -> Any:
        return {party: (Charge(EXACT, self.rounds, "its estimate in every round"),) for party in job.roster.parties}

    def peer(self, job: Any, block: Any, gate: Any, neighbours: tuple[str, ...]) -> Any:
        mean = float(block.matrix.sum())
        for _ in range(self.rounds + self.extra):
            own = gate.exact(mean)
            note = {"mean": mean if self.bare else own} if block.labels is not None else {}
            inbox = yield from ask(neighbours, Mean(own), Mean, note)
            mean += sum(share.value.value - mean for share in inbox.values()) / (len(neighbours) + 1)
        x = np.full(block.columns, mean)
        return Own(x, gate.receipt(), answer=Answer({}, 0.0, None, None, co.Status.ALL_ROUNDS))


PROBLEM = co.Problem(co.LeastSquares())


def table(rows: int = 12, columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(rows, columns)), rng.normal(size=rows)


def test_agents_talk_to_their_neighbours_only_and_nobody_coordinates():
    tap = co.Tap(co.InProcess())
    topology = co.Topology.line(4)
    co.fit(co.Federation.split(*table(), parties=3), PROBLEM, Gossip(topology), engine=tap)
    names = ["party0", "party1", "party2", "labels"]
    links = {(names[i], names[j]) for i, j in topology.edges}
    assert links | {(b, a) for a, b in links} == {(letter.sender, letter.receiver) for letter in tap.letters}


def test_every_round_of_a_graph_run_is_counted_as_one():
    fit = co.fit(co.Federation.split(*table(), parties=3), PROBLEM, Gossip(co.Topology.ring(4), rounds=5))
    assert fit.communication.rounds == 5
    assert fit.communication.by("round")["messages"].to_list() == [8] * 5
    assert {"across"} == set(fit.communication.by("direction")["direction"])


def test_the_answer_is_the_agents_own():
    X, y = table()
    fit = co.fit(co.Federation.split(X, y, parties=3, label="party1"), PROBLEM, Gossip(rounds=1))
    for party in ("party0", "party1", "party2"):
        np.testing.assert_allclose(fit.coefficients[party], X.sum() / 3, rtol=1e-12)
    assert fit.objective is None
    assert fit.privacy.guarantee == "none"


def test_the_history_holds_released_figures_only():
    fed = co.Federation.split(*table(), parties=3)
    fit = co.fit(fed, PROBLEM, Gossip(rounds=4))
    assert fit.history["round"].to_list() == [1, 2, 3, 4]
    assert {"labels"} == set(fit.history["party"])
    with pytest.raises(co.LeakError, match=r"note.*Nothing was sent"):
        co.fit(fed, PROBLEM, Gossip(bare=True))


def test_a_release_beyond_the_plan_stops_every_agent():
    with pytest.raises(co.LeakError, match="its exact release with rho=inf is not in the plan"):
        co.fit(co.Federation.split(*table(), parties=3), PROBLEM, Gossip(extra=1))


def test_a_party_that_lets_nothing_exact_leave_stops_a_graph_run_before_the_first_message(tmp_path):
    fed = co.Federation.split(*table(), parties=3, policies={"party2": co.Policy(exact=False)})
    tap = co.Tap(co.InProcess())
    with pytest.raises(co.PolicyRefused, match=r"party 'party2'.*Nothing was sent"):
        co.fit(fed, PROBLEM, Gossip(), engine=tap, store=tmp_path)
    assert tap.letters == []
    for name in fed.parties:
        log = FileLog(tmp_path / "nodes" / f"{name}.db")
        assert len(log.rows(kind="open")) == len(log.rows(kind="close"))
        log.close()


def test_a_graph_run_leaves_a_ledger_at_every_party_and_none_at_a_coordinator(tmp_path):
    fed = co.Federation.split(*table(), parties=3)
    co.fit(fed, PROBLEM, Gossip(), store=tmp_path)
    assert {f"{name}.db" for name in fed.parties} == {path.name for path in (tmp_path / "nodes").glob("*.db")}
    for name in fed.parties:
        log = FileLog(tmp_path / "nodes" / f"{name}.db")
        assert len(log.rows(kind="event")) == 3
        assert len(log.rows(kind="peer")) == 2
        log.close()


@pytest.mark.parametrize("at", [1, 5, 11, 17])
def test_an_interrupted_graph_run_goes_on_where_it_stopped(tmp_path, at):
    fed = co.Federation.split(*table(), parties=3)
    seen = []

    def pull_the_plug(letter):
        seen.append(letter)
        if len(seen) == at:
            raise KeyboardInterrupt
        return (letter,)

    with pytest.raises(KeyboardInterrupt):
        co.fit(fed, PROBLEM, Gossip(), engine=co.Faults(co.InProcess(), pull_the_plug), store=tmp_path)
    resumed, fresh = co.fit(fed, PROBLEM, Gossip(), store=tmp_path), co.fit(fed, PROBLEM, Gossip())
    assert fresh.communication.lines == resumed.communication.lines
    assert fresh.history["mean"].to_list() == resumed.history["mean"].to_list()
    for party in fresh.coefficients:
        np.testing.assert_array_equal(fresh.coefficients[party], resumed.coefficients[party])


# ---------------------------------------------------------------- which graph


def test_a_graph_of_another_size_is_refused_with_the_parties_in_their_order():
    with pytest.raises(co.InvalidInput, match=r"5 nodes for 4 parties \(party0, party1, party2, labels\)"):
        co.fit(co.Federation.split(*table(), parties=3), PROBLEM, Gossip(co.Topology.ring(5)))


def test_a_party_with_nothing_but_labels_may_be_left_out_of_the_graph():
    roster = Roster(5, {"a": (0,), "b": (1,), "c": (2,), "labels": ()}, "labels")
    assert network(co.Topology.line(3), roster).over(roster.parties) == {
        "a": ("b",),
        "b": ("a", "c", "labels"),
        "c": ("b",),
        "labels": ("b",),
    }


@pytest.mark.parametrize("agents", [1, 2, 6, 7, 40])
def test_without_a_graph_every_agent_still_reaches_every_other(agents):
    roster = Roster(5, {f"p{i}": (i,) for i in range(agents)}, "p0")
    graph = network(None, roster)
    assert agents == graph.size
    assert graph.diameter <= 5


def test_something_that_is_no_graph_is_refused():
    with pytest.raises(co.InvalidInput, match=r"co\.Topology\.ring"):
        co.fit(co.Federation.split(*table(), parties=3), PROBLEM, Gossip([(0, 1)]))


# ---------------------------------------------------------------- split rows


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_each_party_holds_all_columns_of_its_rows_and_their_labels(kind):
    X, y = table()
    held = sparse.csc_array(X) if kind == "sparse" else X
    fed = co.Federation.split(held, y, parties={"a": slice(0, 5), "b": [11, 5, 6, 7, 8, 9, 10]}, by="rows")
    block = fed.parties["b"].block
    matrix = block.matrix.toarray() if kind == "sparse" else block.matrix
    np.testing.assert_array_equal(X[[11, 5, 6, 7, 8, 9, 10]], matrix)
    assert fed.roster().held_rows == {"a": 5, "b": 7}
    assert fed.rows == 12
    assert "7 rows" in repr(fed)


def test_a_model_over_split_rows_scores_any_split_of_the_same_table(tmp_path):
    X, y = table()
    fed = co.Federation.split(X, y, parties={"a": [3, 1, 2, 0, 4], "b": slice(5, None)}, by="rows")
    fit = co.fit(fed, PROBLEM, Gossip(rounds=1))
    wanted = X @ fit.coefficients["a"]
    for other in (fed, co.Federation.split(X, None, parties=3), co.Federation.split(X, None, parties=4, by="rows")):
        np.testing.assert_allclose(fit.scores(other), wanted, rtol=1e-12)
    fit.save(tmp_path / "fit.json")
    np.testing.assert_allclose(co.load(tmp_path / "fit.json").scores(fed), wanted, rtol=1e-12)
    with pytest.raises(co.InvalidInput, match="5 columns"):
        fit.scores(co.Federation.split(X[:, :5], None, parties=2, by="rows"))


def test_a_frame_split_by_rows_is_scored_as_it_was_encoded():
    import polars as pl

    frame = pl.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "kind": ["a", "b", "a", "b"]})
    fit = co.fit(co.Federation.split(frame, [1.0, 2.0, 3.0, 4.0], parties=2, by="rows"), PROBLEM, Gossip(rounds=1))
    width = fit.coefficients["party0"].size
    assert 3 == width == len(fit.features["party0"])
    assert fit.scores(frame).size == 4


def test_a_method_over_columns_refuses_split_rows_and_says_what_to_do():
    fed = co.Federation.split(*table(), parties=2, by="rows")
    with pytest.raises(co.InvalidInput, match="by='columns'"):
        co.fit(fed, co.Problem(co.LeastSquares(), co.L1Ball(1.0)), co.DistributedFrankWolfe())


@pytest.mark.parametrize(
    ("parties", "advice"),
    [
        ({"a": slice(0, 5)}, "7 of 12 rows are at no party"),
        ({"a": slice(0, 5), "b": slice(4, 12)}, "1 rows are given twice"),
        ({"a": slice(0, 12), "b": []}, "gets no rows"),
        (13, "1 to the 12 rows"),
    ],
)
def test_rows_that_are_nowhere_or_twice_are_refused(parties, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        co.Federation.split(*table(), parties=parties, by="rows")


def test_rows_or_columns_and_nothing_else():
    with pytest.raises(co.InvalidInput, match="'columns' or by 'rows'"):
        co.Federation.split(*table(), parties=2, by="cells")
