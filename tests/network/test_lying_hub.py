"""Claims about a party whose hub proposes what nobody agreed to: it refuses before anything is reserved, by its own figures."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from dataclasses import replace
from unittest import mock

import pytest

import colonnade as co
from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network.party_service import DIVERGED, OK
from colonnade.network.questions import Parcel
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.events import row_rho
from colonnade.privacy.mechanisms import SeededNoise
from tests.helpers.contract import Case
from tests.helpers.organisations import Organisations
from tests.helpers.silent_parties import PROBLEM, TERMS, Silent
from tests.helpers.silent_parties import federation as federation_of_three
from tests.helpers.stub_hub import (
    BREAKS,
    NOISY,
    REFUSES,
    Straw,
    proposal,
    run_of,
    straw_hub,
    tmp_path,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PRIVATE = co.Policy(exact=False, epsilon=50.0, delta=1e-6)


def told(straw: Straw, case: Case, **changes) -> set[int]:
    """The codes with which all parties answer both questions, and that nothing was written down."""
    before = {name: service.log.length() for name, service in straw.services.items()}
    codes = set()
    for what in ("consider", "reserve"):
        for name in straw.made.names:
            codes.add(straw.raw(name, what, proposal(case, **changes)).head["code"])
    if codes != {OK}:
        assert {name: service.log.length() for name, service in straw.services.items()} == before
        assert all(service.ledger.open_runs() == set() for service in straw.services.values())
        assert all(service.ledger.row_spent() == 0.0 for service in straw.services.values())
    return codes


def with_privacy(**changes) -> Case:
    return replace(NOISY, privacy=replace(NOISY.privacy, **changes))


def test_terms_as_agreed_are_taken(tmp_path):  # noqa: F811
    with straw_hub(NOISY, tmp_path, PRIVATE) as straw:
        assert told(straw, NOISY, seeded=False) == {OK}
        assert all(service.ledger.row_spent() > 0 for service in straw.services.values())


def test_a_delta_at_which_a_row_could_be_published_is_refused(tmp_path):  # noqa: F811
    """1/rows: to publish one row at random satisfies it."""
    with straw_hub(NOISY, tmp_path, PRIVATE) as straw:
        rows = straw.made.file.rows
        for delta in (1.0 / rows, 0.5):
            codes = told(straw, with_privacy(delta=delta), seeded=False)
            assert OK not in codes
        assert told(straw, with_privacy(delta=0.999 / rows), seeded=False) == {OK}


@pytest.mark.parametrize(("share", "taken"), [(1.0, True), (1.01, False), (2.0, False)])
def test_a_price_over_the_epsilon_that_is_named_is_refused(share, taken, tmp_path):  # noqa: F811
    """The party prices by its own code: a plan that costs `share` times what epsilon and delta are worth."""
    worth = rho_for(NOISY.privacy.epsilon, NOISY.privacy.delta)
    price = type(NOISY.method).price

    def dearer(self, job):
        plans = price(self, job)
        times = share * worth / row_rho(plans)

        def dear(charge):
            event = charge.event
            return replace(charge, event=replace(event, rho=event.rho * times))

        return {party: tuple(map(dear, plan)) for party, plan in plans.items()}

    with straw_hub(NOISY, tmp_path, PRIVATE) as straw, mock.patch.object(type(NOISY.method), "price", dearer):
        codes = told(straw, NOISY, seeded=False)
        assert codes == ({OK} if taken else {REFUSES})


@pytest.mark.parametrize(("exact", "taken"), [(False, False), (True, True)])
def test_seeded_noise_is_refused_by_who_lets_no_exact_values_leave(exact, taken, tmp_path):  # noqa: F811
    """Whoever knows the seed subtracts the noise: for a party that allows exact values it costs what they do."""
    policy = co.Policy(exact=True) if exact else PRIVATE
    with straw_hub(NOISY, tmp_path, policy) as straw:
        assert told(straw, NOISY, seeded=True) == ({OK} if taken else {REFUSES})
        if taken:
            assert all(service.ledger.row_spent() == math.inf for service in straw.services.values())


def reserved(straw: Straw) -> dict[str, Parcel]:
    """All three have reserved a private run."""
    call = Call(co.PrivateGram(), PROBLEM, TERMS, SeededNoise(7))
    asked = {
        "run": "run",
        "call": call.to_json(),
        "code": protocol_of(call.method.variant(PROBLEM, TERMS)),
        "session": "",
    }
    said = {name: straw.raw(name, "reserve", asked) for name in straw.made.names}
    assert {answer.head["code"] for answer in said.values()} == {OK}
    return said


@pytest.mark.parametrize(
    ("quorum", "peers", "taken"),
    [
        (2, ["b", "c"], True),
        (2, ["b"], True),
        (2, ["c"], False),  # b holds the labels
        (2, [], False),
        (3, ["b", "c"], True),
        (3, ["b"], False),
        (None, ["b"], False),
        (2, ["b", "a"], False),  # itself
        (2, ["b", "d"], False),  # a stranger
    ],
)
def test_a_party_meets_no_fewer_than_its_own_file_says(quorum, peers, taken, tmp_path):  # noqa: F811
    """Whatever the hub says of who is lost: party a of a, b and c, of whom b holds the labels."""
    with Silent(Organisations.of(federation_of_three(quorum), tmp_path)) as straw:
        reserved(straw)
        said = straw.raw("a", "meet", {"run": "run", "peers": peers})
        assert said.head["code"] == (OK if taken else BREAKS)
        assert straw.services["a"].runs["run"].met is taken
        assert straw.services["a"].ledger.entries() == []


def test_a_chain_that_is_not_whole_is_not_vouched_for(tmp_path):  # noqa: F811
    """Whatever the hub asks first: it may leave out the question whether the chain is whole."""
    with straw_hub(NOISY, tmp_path) as straw:
        run_of(straw, NOISY, tmp_path / "hub")
        heads = straw.raw("party0", "standing").head["heads"]
        assert straw.raw("party1", "vouch", {"heads": {"party0": heads["party1"]}}).head["code"] == OK
        straw.services["party1"].close()
        with contextlib.closing(sqlite3.connect(tmp_path / "party1" / "nodes" / "party1.db")) as db, db:
            db.execute("update log set tick = tick + 1 where seq = 3")
        for what, head in (("vouch", {"heads": {"party0": heads["party1"]}}), ("standing", {}), ("verify", {})):
            straw.services["party1"] = straw.made.service("party1")
            assert straw.raw("party1", what, head).head["code"] == DIVERGED, what
            straw.services["party1"].close()
        straw.services["party1"] = straw.made.service("party1")
        with pytest.raises(co.ColonnadeError, match="cannot go on with this run"):
            run_of(straw, NOISY, tmp_path / "hub", "second")
