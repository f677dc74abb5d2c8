"""Claims about resuming in one process: interruptions, other data, other settings, budgets."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as co
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.hosted_node import HostedNode
from tests.helpers.contract import METHODS, federation
from tests.helpers.noisy import RHO, NoisySums
from tests.helpers.spending import own_spent

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

CASE = next(iter(METHODS.values()))
METHOD = co.DistributedFrankWolfe(rounds=4, tolerance=0.0)


def interrupting(at: int, kind: type[BaseException] = KeyboardInterrupt):
    """An engine whose wires raise at the given letter."""
    seen = []

    def carry(letter):
        seen.append(letter)
        if len(seen) == at:
            raise kind
        return (letter,)

    return co.Faults(co.InProcess(), carry)


def fit(store, method=METHOD, engine=None, fed=None, **options):
    return co.fit(fed or federation(CASE), CASE.problem, method=method, engine=engine, store=store, **options)


def begun(store) -> int:
    log = FileLog(store / "runs.db")
    count = len(log.rows(kind="begin"))
    log.close()
    return count


def entries(store, node="party0"):
    log = FileLog(store / "nodes" / f"{node}.db")
    found = [(e.run, e.tick, e.slot) for e in Ledger(log, node, co.Policy(exact=True)).entries()]
    log.close()
    return found


def bits(made) -> dict[str, bytes]:
    return {party: x.tobytes() for party, x in made.coefficients.items()}


@pytest.mark.thinned("fault")
@pytest.mark.parametrize("at", [1, 2, 9, 20])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, OSError])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, at, kind):
    with pytest.raises(kind):
        fit(tmp_path, engine=interrupting(at, kind))
    again = fit(tmp_path)
    reference = co.fit(federation(CASE), CASE.problem, method=METHOD)
    assert bits(again) == bits(reference)
    assert again.communication == reference.communication
    assert begun(tmp_path) == 1
    assert len(set(entries(tmp_path))) == len(entries(tmp_path))


def test_a_history_after_a_crash_has_every_round_once(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupting(25))
    reference = co.fit(federation(CASE), CASE.problem, method=METHOD)
    assert fit(tmp_path).history.drop("seconds").equals(reference.history.drop("seconds"))


def test_a_finished_call_repeated_is_a_new_run(tmp_path):
    one, two = fit(tmp_path), fit(tmp_path)
    assert one.run != two.run
    assert begun(tmp_path) == 2


def test_other_data_do_not_go_on_with_the_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupting(12))
    rng = np.random.default_rng(99)
    other = co.Federation.split(rng.normal(size=(30, 8)), rng.normal(size=30), parties=3)
    assert bits(fit(tmp_path, fed=other)) == bits(co.fit(other, CASE.problem, method=METHOD))
    assert begun(tmp_path) == 2


@pytest.mark.parametrize(
    "method",
    [
        co.DistributedFrankWolfe(rounds=5, tolerance=0.0),
        co.DistributedFrankWolfe(rounds=4, tolerance=0.0, step=co.OpenLoop()),
    ],
    ids=["rounds", "step"],
)
def test_other_settings_do_not_go_on_with_the_run(tmp_path, method):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupting(12))
    reference = co.fit(federation(CASE), CASE.problem, method=method)
    assert bits(fit(tmp_path, method=method)) == bits(reference)
    assert begun(tmp_path) == 2


def test_data_changed_under_the_same_fingerprint_are_noticed(tmp_path, monkeypatch):
    """Even where the fingerprint of the data is blind, the replay is not."""
    from colonnade.privacy.block import Block

    monkeypatch.setattr(Block, "digest", lambda self: "blind")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupting(12))
    rng = np.random.default_rng(99)
    other = co.Federation.split(rng.normal(size=(30, 8)), rng.normal(size=30), parties=3)
    with pytest.raises(co.ReplayDiverged, match=r"other data, code or settings|other bytes"):
        fit(tmp_path, fed=other)


@pytest.mark.chance(0, "the other ledgers remember the lost one: no bytes of noise are compared")
def test_a_lost_transcript_is_never_silent(tmp_path):
    """The file of a party that has released noise is gone: the run may not draw it again."""
    fed = federation(CASE).with_policies({"party0": co.Policy(epsilon=9.0, delta=1e-6)})
    terms = {"method": NoisySums(2), "fed": fed, "privacy": co.Privacy(epsilon=4.0, delta=1e-6)}
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, engine=interrupting(8), **terms)
    assert entries(tmp_path)
    for path in (tmp_path / "nodes").glob("party0.db*"):
        path.unlink()
    with pytest.raises((co.LedgerDamaged, co.ReplayDiverged, co.ProtocolError)):
        fit(tmp_path, **terms)


# ---------------------------------------------------------------- budgets


def budgeted(epsilon: float) -> co.Federation:
    fed = federation(CASE)
    return fed.with_policies(dict.fromkeys(fed.parties, co.Policy(epsilon=epsilon, delta=1e-6)))


def test_a_plan_beyond_the_budget_is_refused_before_anything_is_sent(tmp_path):
    tap = co.Tap(co.InProcess())
    with pytest.raises(co.BudgetExhausted, match=r"Nothing was sent"):
        fit(tmp_path, NoisySums(30), engine=tap, fed=budgeted(0.5), privacy=co.Privacy(epsilon=50.0, delta=1e-6))
    assert tap.letters == []
    assert entries(tmp_path) == []


@pytest.mark.chance(0, "prices and refusals: nothing that was drawn is compared")
def test_a_budget_is_used_up_over_several_runs(tmp_path):
    fed, asked = budgeted(4.0), co.Privacy(epsilon=3.0, delta=1e-6)
    fit(tmp_path, NoisySums(2), fed=fed, privacy=asked)
    with pytest.raises(co.BudgetExhausted, match=r"is spent or reserved"):
        [fit(tmp_path, NoisySums(2), fed=fed, privacy=asked) for _ in range(10)]
    log = FileLog(tmp_path / "nodes" / "party0.db")
    book = Ledger(log, "party0", co.Policy(epsilon=4.0, delta=1e-6))
    assert book.row_spent() <= book.budget().limit * (1 + 1e-12)
    log.close()


@pytest.mark.chance(0, "reservations: nothing that was drawn is compared")
@pytest.mark.parametrize("sent", [False, True])
def test_what_others_reserved_returns_only_from_a_run_that_sent_nothing(tmp_path, monkeypatch, sent):
    terms = {"method": NoisySums(2), "fed": budgeted(9.0), "privacy": co.Privacy(epsilon=4.0, delta=1e-6)}
    if sent:
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, engine=interrupting(9), **terms)
    reserve = HostedNode.reserve

    def refusing(host, *arguments):
        if host.setup.name == "party2":
            raise co.PolicyRefused("party 'party2' says no")
        return reserve(host, *arguments)

    monkeypatch.setattr(HostedNode, "reserve", refusing)
    with pytest.raises(co.PolicyRefused):
        fit(tmp_path, **terms)
    log = FileLog(tmp_path / "nodes" / "party0.db")
    book = Ledger(log, "party0", co.Policy(epsilon=9.0, delta=1e-6))
    assert not book.open_runs()
    assert book.row_spent() == pytest.approx(own_spent(book) + 2 * 4 * RHO * sent)  # of two others, four releases
    log.close()


@pytest.mark.chance(0, "how many entries there are, and their prices")
def test_a_party_records_what_it_released_and_no_more(tmp_path):
    fit(tmp_path, NoisySums(2), fed=budgeted(9.0), privacy=co.Privacy(epsilon=4.0, delta=1e-6))
    log = FileLog(tmp_path / "nodes" / "party1.db")
    book = Ledger(log, "party1", co.Policy(epsilon=9.0, delta=1e-6))
    assert len(book.entries()) == 4
    assert own_spent(book) == pytest.approx(4 * RHO)
    assert book.row_spent() == pytest.approx(3 * 4 * RHO)
    log.close()


@pytest.mark.chance(0, "a refusal by the plan, and how many entries there are")
def test_a_method_that_releases_more_than_its_price_is_stopped(tmp_path):
    class Greedy(NoisySums):
        """Prices one round and runs several."""

        def price(self, job):
            return NoisySums(1).price(job)

    tap = co.Tap(co.InProcess())
    with pytest.raises(co.LeakError, match=r"not in the plan|used up"):
        fit(tmp_path, Greedy(3), engine=tap, fed=budgeted(9.0), privacy=co.Privacy(epsilon=4.0, delta=1e-6))
    assert len(entries(tmp_path)) == 2
