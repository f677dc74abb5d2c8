"""Claims about parties elsewhere that fall silent: the hub gives them up once, the others go on, and it stays so."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")


import colonnade as co
from colonnade.data.federation_file import FederationFile
from colonnade.errors import PeerFailed
from colonnade.network.hub_run import LostParties
from colonnade.network.questions import Question
from colonnade.network.refusals import PeerSilent, silence
from colonnade.network.transport.envelope import PeerTimeout
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import FileLog
from colonnade.runtime.host import Turns
from colonnade.runtime.hosted_node import Joined, Turn
from colonnade.runtime.node import LOST
from colonnade.runtime.wire import Letter, Traffic
from tests.helpers.hosts import answering
from tests.helpers.organisations import Organisations
from tests.helpers.silent_parties import PARTIES, PROBLEM, TERMS, Power, Silent, federation

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture
def memory():
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


def run(straw, store, method=None, terms=TERMS):
    given = (straw.made.federation, PROBLEM, method or co.PrivateGram(), terms)
    return co.fit(*given, engine=straw, store=store / "hub", noise=SeededNoise(7))


def spent(straw, party):
    service = straw.services[party]
    service.log.verify()
    found = [entry.event.mechanism for entry in service.ledger.entries()]
    return found, service.ledger.open_runs()


@pytest.fixture(scope="module")
def in_process(tmp_path_factory):
    """Models of the same noise in one process: all parties, and by how many letters of c had come."""
    given = (federation(), PROBLEM, co.PrivateGram(), TERMS)
    folder = tmp_path_factory.mktemp("in process")
    models = [co.fit(*given, store=folder / "all", noise=SeededNoise(7))]
    for after in (0, 2, 3, 4, 5, 7, 8, 9):  # as letters leave a party: two seeds at once
        engine = co.Dropouts(co.InProcess(), {"c": after})
        models.append(co.fit(*given, store=folder / str(after), noise=SeededNoise(7), engine=engine))
    return [numbers(model) for model in models]


def numbers(fit):
    return {party: x.tobytes() for party, x in fit.coefficients.items()}


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(1, 10))
def test_a_party_that_does_not_answer_a_turn_is_given_up_and_the_others_model_is_one_of_those_in_process(
    turn, memory, in_process
):
    with Silent(Organisations.of(federation(), memory), {"c": turn}) as straw:
        fit = run(straw, memory)
        model = numbers(fit)
        assert model in in_process
        assert (list(fit.absent) == ["c"]) == ("c" not in model)
        for party in ("a", "b"):
            found, still_open = spent(straw, party)
            assert found.count("lattice") == 2
            assert still_open == set()
        found, still_open = spent(straw, "c")
        assert found.count("lattice") <= 2


def test_a_party_that_comes_back_after_the_run_closes_its_ledger_before_the_next_one(memory):
    with Silent(Organisations.of(federation(), memory), {"c": 4}) as straw:
        fit = run(straw, memory)
        assert list(fit.absent) == ["c"]
        assert spent(straw, "c")[1] == {fit.run}  # it has not heard
        straw.silent.clear()
        terms = replace(TERMS, epsilon=1.0)
        assert run(straw, memory, terms=terms).absent == {}
        assert spent(straw, "c")[1] == set()


@pytest.mark.parametrize(
    ("how", "power"),
    [
        ("away", 36),
        ("back", 44),
        *(pytest.param(how, power, marks=pytest.mark.slow) for how in ("back", "away") for power in (24, 40, 52)),
    ],
)
def test_whoever_was_given_up_stays_out_when_the_coordinator_is_started_again(how, power, memory):
    """Back on the line, or still away; and the others have forgotten all but their stores."""
    made = Organisations.of(federation(), memory)
    with Silent(made, {"c": 3}, power) as straw, pytest.raises(Power):
        run(straw, memory)
    log = FileLog(memory / "hub" / "nodes" / "coordinator.db")
    given_up = [row.key for row in log.rows(kind="lost")]
    log.close()
    assert given_up == (["c"] if power > 41 else [])
    with Silent(made) as straw:
        straw.missing = ("c",) if how == "away" else ()
        fit = run(straw, memory)
        assert list(fit.absent) == (["c"] if given_up or how == "away" else [])
        found, still_open = spent(straw, "a")
        assert found.count("lattice") == 2
        assert still_open == set()


def test_a_run_does_not_begin_without_a_party_that_is_not_there(memory):
    with Silent(Organisations.of(federation(), memory)) as straw:
        straw.missing = ("c",)
        with pytest.raises(PeerTimeout, match="have not connected"):
            run(straw, memory)
        for party in PARTIES:
            assert spent(straw, party) == ([], set())


@pytest.mark.parametrize(("silent", "quorum"), [({"b": 3}, 2), ({"c": 3}, 3), ({"c": 3}, None)])
def test_without_labels_or_quorum_silence_ends_the_run(silent, quorum, memory):
    with Silent(Organisations.of(federation(quorum), memory), silent) as straw:
        with pytest.raises(PeerSilent, match="did not answer 'turn'"):
            run(straw, memory)
        for party in PARTIES.keys() - silent.keys():
            assert spent(straw, party)[1] == set()


@pytest.mark.slow
@pytest.mark.parametrize("topology", [None, co.Topology.ring(3)])
def test_under_encryption_silence_ends_the_run(topology, memory):
    with Silent(Organisations.of(federation(), memory), {"c": 2}) as straw, pytest.raises(PeerFailed):
        run(straw, memory, co.PrivateGram(topology=topology), replace(TERMS, trust="parties"))


def test_the_log_says_that_a_party_is_late_and_what_will_happen(memory, caplog):
    made = Organisations.of(federation(), memory)
    made.file = replace(made.file, deadline=120)
    with Silent(made) as straw, caplog.at_level(logging.WARNING, "colonnade"):
        look_at, hosted = [], straw.hosted_nodes

        def late(*given):
            made_run = hosted(*given)
            sparing = made_run.sparing
            for party in ("b", "c"):
                sparing.asked[party] = -61.0 + time.monotonic()
            sparing.look(["b", "c"])
            sparing.look(["b", "c"])
            look_at.append(made_run.patience)
            return made_run

        straw.hosted_nodes = late
        run(straw, memory)
    said = [record.getMessage() for record in caplog.records if "has not answered" in record.getMessage()]
    assert look_at == [120]
    assert said == [
        "party 'b' has not answered for 61 s; at 120 s the run stops",
        "party 'c' has not answered for 61 s; at 120 s the run goes on without it",
    ]


def test_of_several_who_are_not_there_none_is_given_up_where_the_run_does_not_go_on(tmp_path):
    """One was lost before and has come back; two others are away, and without both too few are left."""
    log, away = FileLog(tmp_path / "coordinator.db"), PeerTimeout("nobody came")
    log.append("run", 0, "lost", "d", b"")
    hub = SimpleNamespace(absent={"c": away, "e": away}, label="a")
    begun = SimpleNamespace(run="run", parties=list("abcde"), hub=hub, local=SimpleNamespace(log=log), reserving=True)
    with pytest.raises(PeerTimeout, match="nobody came"):
        LostParties(begun, 3)
    assert [row.key for row in log.rows("run", "lost")] == ["d"]
    for _ in range(2):  # who is known to be lost is not lost again
        assert LostParties(begun, 2).lost == ["d", "c", "e"]
    log.close()


def test_letters_of_a_lost_host_that_are_here_still_arrive_and_behind_them_that_it_is_lost():
    """Whoever was given two of them before, gets the third and then the word."""
    given: dict[str, list[Letter]] = {"a": []}
    letters = tuple(Letter("c", "a", place, 0, b"\1\0\0") for place in range(3))

    class Giving:
        def __init__(self):
            self.lost = []

        def give_up(self, error):
            self.lost.append("c")
            return True

        def look(self, busy):
            """Nothing."""

    turns = {"c": [Turn(letters, False, ("a",))], "a": [Turn((Letter("a", "c", 0, 0, b"\1\0\0"),), False, ("c",))]}

    def answer(name, what, *arguments):
        if what == "join":
            return Joined({"c": 0} if name == "a" else {"a": 0}, {})
        if what == "resend":
            return ()
        if what == "outcome":
            return None, Traffic()
        if name == "a":
            given["a"] += arguments[0]
        if turns[name]:
            return turns[name].pop(0)
        if name == "c":
            raise silence("c", Question.TURN, 1.0)
        return Turn((), LOST in [x.body for x in given["a"]], ("c",))

    sparing = Giving()
    driven = Turns(answering("ca", answer), lambda *_: None, sparing)
    outcome = driven.run()
    assert outcome.results == {"a": None, "c": None}
    assert [x.sequence for x in given["a"] if x.body != LOST][:3] == [0, 1, 2]
    assert given["a"][-1].body == LOST


def test_a_federation_file_keeps_its_deadline_and_quorums(tmp_path):
    made = Organisations.of(federation(), tmp_path / "made").file
    made.save(tmp_path / "federation.toml")
    plain = FederationFile.load(tmp_path / "federation.toml")
    assert plain == made
    text = (tmp_path / "federation.toml").read_text().replace("quorum = 2\n", "")
    top = text.replace("version = 1", "version = 1\nquorum = 2\ndeadline = 90")
    read = FederationFile.load_text(
        top.replace('[parties."c"]', '[parties."c"]\nquorum = 3'), tmp_path / "federation.toml"
    )
    assert read.deadline == 90
    assert [member.policy.quorum for member in read.members.values()] == [2, 2, 3]
    assert read.digest != plain.digest
    read.save(tmp_path / "again.toml")
    assert FederationFile.load(tmp_path / "again.toml") == read
    for wrong, why in [("deadline = 0", "deadline"), ("quorum = 1", "quorum"), ("quorum = 4", "more than the 3")]:
        with pytest.raises(co.InvalidInput, match=why):
            FederationFile.load_text(text.replace("version = 1", f"version = 1\n{wrong}"), tmp_path / "f.toml")
