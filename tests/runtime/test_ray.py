"""Claims about Ray: the same model, bytes and ledger rows as in one process, wherever the parties are put."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest

import colonnade as co
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.ray import Ray
from tests.helpers.contract import EVERY_METHOD, METHODS, OF_EACH_KIND, fitted

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'colonnade[ray]'")

SHAPES = (co.Topology.line, co.Topology.ring, co.Topology.tree)
WHOLE_GROUPS = {  # no group of the grouped case may be split
    2: {"party0": [0, 1, 2, 5], "party1": [3, 4, 6, 7]},
    4: {"party0": [0, 1], "party1": [2, 5], "party2": [3, 4], "party3": [6, 7]},
}


@pytest.fixture(scope="module")
def engine():
    """One Ray for all tests here: to start it and its actors takes longer than all the runs."""
    with Ray() as running:
        yield running


def with_parties(case, count: int):
    """The same case over so many actors; the first one holds the labels."""
    if isinstance(case.parties, dict):  # one data holder, by nature
        return case
    method, parties = case.method, count
    if (topology := getattr(method, "topology", None)) is not None:
        shape = next(shape for shape in SHAPES if shape(topology.size) == topology)
        method = replace(method, topology=shape(count))
    if isinstance(getattr(case.problem, "constraint", None), co.GroupL1Ball):
        parties = WHOLE_GROUPS[count]
    return replace(case, method=method, parties=parties, label="party0")


TWO = with_parties(METHODS["frank-wolfe, least squares"], 2)  # to start an actor takes longest


def bits(made) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in made.coefficients.items()}


def ledgers(store) -> dict[str, list]:
    """Every row of every ledger, but for the time of day."""
    found = {}
    for path in sorted((store / "nodes").glob("*.db")):
        log = FileLog(path)
        log.verify()
        entries = Ledger(log, path.stem, co.Policy(exact=True)).entries()
        found[path.stem] = [(e.run, e.tick, e.slot, e.event, e.what, e.round) for e in entries]
        log.close()
    return found


@pytest.mark.parametrize(
    ("actors", "names"),
    [
        pytest.param(2, OF_EACH_KIND, id="one of each kind"),
        *(pytest.param(count, tuple(EVERY_METHOD), id=f"all-{count}", marks=pytest.mark.fault) for count in (2, 4)),
    ],
)
def test_every_method_gives_the_same_model_bytes_and_ledger_rows_as_in_one_process(engine, tmp_path, actors, names):
    """Exact methods as they are, private ones under seeded noise; all in one test, so that Ray starts once a worker."""
    different = []
    for number, (name, case) in enumerate((name, EVERY_METHOD[name]) for name in names):
        case, here, there = with_parties(case, actors), tmp_path / f"here{number}", tmp_path / f"there{number}"
        one, two = fitted(case, store=here), fitted(case, engine, store=there)
        same = bits(one) == bits(two) and one.communication == two.communication and one.objective == two.objective
        if not (same and ledgers(here) == ledgers(there)):
            different.append(name)
    assert different == []


def test_a_run_without_a_store_leaves_no_file_behind(engine, tmp_path):
    case = TWO
    with mock.patch("tempfile.tempdir", str(tmp_path)):
        fit = fitted(case, engine)
    assert bits(fit) == bits(fitted(case))
    assert list(tmp_path.iterdir()) == []


def test_a_history_is_the_same_as_in_one_process(engine):
    case = TWO
    one, two = fitted(case), fitted(case, engine)
    assert one.history.drop("seconds").equals(two.history.drop("seconds"))


def test_masked_scores_are_the_same_as_in_one_process(engine):
    case = TWO
    fed = co.Federation.split([[1.0, 2.0], [3.0, 4.0], [0.5, 0.1]], [1.0, 2.0, 3.0], parties=2)
    fit = co.fit(fed, case.problem, method=case.method, engine=engine)
    assert co.score(fit, fed, engine=engine).tolist() == co.score(fit, fed).tolist()


def test_a_refusal_at_an_actor_is_told_in_its_own_words(engine, tmp_path):
    case = TWO
    fed = co.Federation.split([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0], parties=2, policies={"party1": co.Policy()})
    with pytest.raises(co.PolicyRefused, match=r"'party1' does not let exact values leave.*Nothing was sent"):
        co.fit(fed, case.problem, method=case.method, engine=engine, store=tmp_path)


# ------------------------------------------------------------------------------------------------ where parties are put


@pytest.mark.fault
def test_a_party_is_placed_on_the_machine_that_was_named_and_a_connection_that_was_there_stays(engine):
    case = TWO
    fitted(case, engine)  # now there is a Ray, and the next engine did not start it
    here = ray.util.get_node_ip_address()
    with Ray(placement={"party0": here}) as placed:
        assert bits(fitted(case, placed)) == bits(fitted(case))
        assert [len(placed._idle[machine]) for machine in (here, None)] == [1, 1]
        where = placed._idle[here][0].__ray_call__.remote(lambda _: ray.util.get_node_ip_address())
        assert ray.get(where) == here
    assert ray.is_initialized()


@pytest.mark.parametrize(
    ("placement", "advice"),
    [
        ({"party9": "127.0.0.1"}, r"'party9', which is not a party; there are party0"),
        ({"party0": "192.0.2.77"}, r"'party0' on '192.0.2.77', which is no machine of this cluster; there are "),
    ],
)
def test_a_placement_that_cannot_be_is_refused_before_anything_runs(engine, placement, advice):
    case = TWO
    fitted(case, engine)
    with pytest.raises(co.InvalidInput, match=advice):
        fitted(case, Ray(placement=placement))


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "192.0.2.77:6379", "127.0.0.1:none"])
def test_a_cluster_that_does_not_answer_is_an_error_within_seconds(address):
    """192.0.2.77 is reserved for documentation: no machine has it. Ray itself, which would try for minutes, is not asked."""
    with (
        mock.patch("colonnade.runtime.ray.ANSWER", 0.2),
        mock.patch("ray.is_initialized", return_value=False),
        mock.patch("ray.init", side_effect=AssertionError),
        pytest.raises(co.InvalidInput, match=r"no Ray cluster answers at '.*ray start"),
    ):
        fitted(TWO, Ray(address))


def test_the_address_in_the_environment_is_a_cluster_that_must_answer(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with (
        mock.patch("ray.is_initialized", return_value=False),
        mock.patch("ray.init", side_effect=AssertionError),
        pytest.raises(co.InvalidInput, match=r"no Ray cluster answers at '127.0.0.1:9'"),
    ):
        fitted(TWO, Ray())


@pytest.mark.fault
def test_a_ray_that_does_not_start_is_tried_again_and_leaves_no_process():
    """In a process of its own, since this one may have a Ray: no start is fast enough for a patience of no seconds."""
    done = subprocess.run(
        [sys.executable, "-c", STARTING],
        env={**os.environ, "RAY_gcs_server_port_wait_time_s": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Ray did not start here, 2 times" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


STARTING = """
import ray, psutil  # the second comes with the first
import colonnade as co
from colonnade.runtime.ray import Ray

try:
    Ray()._start()
except co.ColonnadeError as error:
    print(error)
print([child.name() for child in psutil.Process().children()])
"""


def test_a_ray_that_came_up_and_could_not_be_connected_to_is_ended_before_the_next_start():
    """Ray keeps such a node for `shutdown`, and forgets it when another is started."""
    calls: list[str] = []

    def init(*_, **__):
        calls.append("init")
        if calls == ["init"]:
            raise RuntimeError("slow")

    ray = SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: calls.append("shutdown"))
    with mock.patch("colonnade.runtime.ray._ray", return_value=ray):
        Ray()._start()
    assert calls == ["init", "shutdown", "init"]


def test_without_ray_the_error_says_how_to_install_it():
    absent = mock.Mock(import_module=mock.Mock(side_effect=ModuleNotFoundError("ray")))
    with (
        mock.patch("colonnade.runtime.ray.importlib", absent),
        pytest.raises(co.InvalidInput, match=r"pip install 'colonnade\[ray\]'"),
    ):
        fitted(TWO, Ray())
