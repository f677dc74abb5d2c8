"""Claims about runs between organisations: the same models to the bit, and nobody is asked for more than it approved."""

from __future__ import annotations

import contextlib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import colonnade as co
from colonnade.errors import PeerFailed
from colonnade.methods.node_setup import Call, terms_of
from colonnade.model.job import Job
from colonnade.network.party_service import DIVERGED, OK
from colonnade.network.questions import pack, unpack
from colonnade.privacy.mechanisms import SeededNoise

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from tests.helpers.contract import EVERY_METHOD, OF_EACH_KIND, Case, federation, fitted
from tests.helpers.organisations import Organisations, same_arrays

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

LASSO = EVERY_METHOD["frank-wolfe, least squares"]


def over_the_network(case: Case, fed: co.Federation, folder: Path) -> tuple[co.Fit, Organisations]:
    made = Organisations.of(fed, folder)
    options = {} if case.privacy is None else {"privacy": case.privacy, "noise": SeededNoise(1)}
    with (
        made.hub() as hub,
        made.at_work(hub.port),
        mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"),
    ):
        fit = co.fit(made.federation, case.problem, case.method, engine=hub, store=folder / "hub", **options)
    return fit, made


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in OF_EACH_KIND else pytest.mark.fault)
        for name, case in EVERY_METHOD.items()
    ],
)
def test_processes_on_a_network_find_the_model_that_one_process_finds(case, tmp_path):
    here = fitted(case)
    there, made = over_the_network(case, federation(case), tmp_path)
    assert here.status == there.status
    order = ["round", "sender", "receiver", "type"]
    assert here.communication.table().sort(order).equals(there.communication.table().sort(order))
    for party, x in here.coefficients.items():
        assert same_arrays(x, made.part(party)["coefficients"])
        if party in there.coefficients.local:
            assert same_arrays(x, there.coefficients[party])


@pytest.mark.slow
def test_eight_organisations_find_it_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 16))
    fed = co.Federation.split(X, X[:, 0] - X[:, 9] + rng.normal(size=40), parties=7)
    with mock.patch("colonnade.runtime.run_store.new_run_id", return_value="run"):
        here = co.fit(fed, LASSO.problem, LASSO.method)
    there, made = over_the_network(LASSO, fed, tmp_path)
    assert len(made.names) == 8
    assert all(same_arrays(x, there.coefficients[party]) for party, x in here.coefficients.items())


def test_a_run_id_that_was_used_is_refused(tmp_path):
    """Public randomness and keys follow from the id: nobody may be talked into using one twice."""
    fit, made = over_the_network(LASSO, federation(LASSO), tmp_path)
    job = Job(LASSO.problem, made.federation.roster())
    code = terms_of(job, LASSO.method).protocol
    asked = {"what": "reserve", "call": Call(LASSO.method, LASSO.problem, None).to_json(), "code": code}
    with contextlib.closing(made.service(made.names[0])) as service:
        assert unpack(service.answer(pack({**asked, "run": "another"}))).head["code"] == OK
        assert unpack(service.answer(pack({**asked, "run": fit.run}))).head["code"] == DIVERGED


def test_another_hub_with_empty_books_is_noticed(tmp_path):
    """The parties remember where the coordinator's ledger stood."""
    _, made = over_the_network(LASSO, federation(LASSO), tmp_path)
    with made.hub() as hub, made.at_work(hub.port), pytest.raises(co.LedgerDamaged, match="rolled back"):
        co.fit(made.federation, LASSO.problem, LASSO.method, engine=hub, store=tmp_path / "another hub")


def test_nothing_starts_without_approval(tmp_path):
    made = Organisations.of(federation(LASSO), tmp_path, co.Policy())  # nobody lets exact values leave
    with made.hub() as hub, made.at_work(hub.port), pytest.raises(PeerFailed, match="refused 'consider'"):
        co.fit(made.federation, LASSO.problem, LASSO.method, engine=hub, store=tmp_path / "hub")
    for name in made.names:
        assert not (tmp_path / name / "fits").exists() or not list((tmp_path / name / "fits").iterdir())
