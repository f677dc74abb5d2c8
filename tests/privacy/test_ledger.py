"""Claims about the ledger: the plan is reserved before anything is sent, and what was not used returns."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as co
from colonnade.privacy.events import EXACT, Audience, Charge, Event, Mechanism, Scope, row_rho
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog, MemoryLog
from contract import TERMS, ledger

RHO = 0.01
EVENT = Event(Mechanism.GAUSSIAN, RHO, 1.0)
JOINT = Event(Mechanism.GAUSSIAN, RHO, 1.0, Scope.JOINT)


def plan(count: int, event: Event = EVENT):
    return (Charge(event, count, "sums"),)


def budgeted(rho: float, log=None) -> Ledger:
    """A ledger whose limit is worth about `rho`."""
    from colonnade.privacy.accountant import epsilon

    return Ledger(log or MemoryLog(), "a", co.Policy(epsilon=epsilon(rho, 1e-6), delta=1e-6))


def test_a_plan_within_the_budget_is_reserved_and_one_beyond_it_refused():
    book = budgeted(10.5 * RHO)
    book.open_run("one", TERMS, {"a": plan(10)})
    with pytest.raises(co.BudgetExhausted, match=r"over the limit.*Nothing was sent.*fewer rounds"):
        book.open_run("two", TERMS, {"a": plan(1)})


def test_a_refused_run_leaves_the_ledger_unchanged(tmp_path):
    log = FileLog(tmp_path / "a.db")
    book = budgeted(0.1, log)
    with pytest.raises(co.BudgetExhausted):
        book.open_run("one", TERMS, {"a": plan(1000)})
    assert log.rows() == []
    assert book.row_spent() == 0.0
    log.close()


@pytest.mark.parametrize("count", [9, 1000])
def test_checking_a_run_refuses_what_opening_it_refuses_and_reserves_nothing(count, tmp_path):
    log = FileLog(tmp_path / "a.db")
    book, said = budgeted(0.1, log), []
    for ask in (book.check_run, book.open_run):
        try:
            ask("one", TERMS, {"a": plan(count)})
            said.append("")
        except co.BudgetExhausted as error:
            said.append(str(error))
        if ask == book.check_run:
            assert (log.rows(), book.row_spent(), book.open_runs()) == ([], 0.0, set())
    assert said[0] == said[1]
    assert bool(said[0]) == (count == 1000)
    log.close()


def test_what_was_not_used_returns_when_the_run_closes():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {"a": plan(9)})
    assert pytest.approx(9 * RHO) == book.own_spent()
    book.take("one", EVENT)
    book.record("one", 0, 0, EVENT, "sums", 0)
    book.close_run("one", "finished")
    assert pytest.approx(RHO) == book.own_spent()
    assert pytest.approx(RHO) == book.row_spent()


def test_the_limit_applies_to_the_row_and_not_to_the_party():
    """Ten parties that each release about the same row cost ten times as much."""
    book = budgeted(0.1)
    others = {name: plan(2) for name in "abcdefghij"}
    with pytest.raises(co.BudgetExhausted):
        book.open_run("one", TERMS, others)


def test_one_mechanism_of_many_parties_counts_once():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {name: plan(2, JOINT) for name in "abcdefghij"})
    assert pytest.approx(2 * RHO) == book.row_spent()


def test_closing_does_not_return_what_other_parties_may_have_released():
    book = budgeted(1.0)
    book.open_run("one", TERMS, {"a": plan(2), "b": plan(3)})
    book.close_run("one", "finished")
    assert pytest.approx(3 * RHO) == book.row_spent()


def test_an_exact_plan_needs_a_policy_that_allows_it():
    book = Ledger(MemoryLog(), "a", co.Policy())
    with pytest.raises(co.PolicyRefused, match=r"does not let exact values leave.*the salaries.*Nothing was sent"):
        book.open_run("one", TERMS, {"a": (Charge(EXACT, 1, "the salaries"),)})


def test_after_exact_values_left_no_budget_holds_any_more():
    log = MemoryLog()
    free = Ledger(log, "a", co.Policy(exact=True))
    free.open_run("one", TERMS, {"a": (Charge(EXACT, 1, "all"),)})
    free.take("one", EXACT)
    free.record("one", 0, 0, EXACT, "all", 0)
    free.close_run("one", "finished")
    with pytest.raises(co.BudgetExhausted):
        budgeted(5.0, log).open_run("two", TERMS, {"a": plan(1)})


def test_the_same_run_on_other_terms_is_refused():
    from dataclasses import replace

    book = ledger()
    with pytest.raises(co.ReplayDiverged, match=r"other terms.*original call"):
        book.open_run("run", replace(TERMS, settings="toy(2)"), {})


def test_opening_twice_reserves_once():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {"a": plan(5)})
    book.open_run("one", TERMS, {"a": plan(5)})
    assert pytest.approx(5 * RHO) == book.own_spent()


def test_a_closed_run_is_not_opened_again():
    book = ledger()
    book.close_run("run", "finished")
    with pytest.raises(co.ColonnadeError, match=r"over"):
        book.open_run("run", TERMS, {})


def test_closing_twice_is_one_closing():
    book = ledger()
    book.close_run("run", "finished")
    book.close_run("run", "finished")
    assert len(book.log.rows("run", "close")) == 1


def test_a_run_that_is_still_open_counts_in_the_new_period_too():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {"a": plan(9)})
    book.renew("a new year")
    with pytest.raises(co.BudgetExhausted):
        book.open_run("two", TERMS, {"a": plan(9)})


def test_a_new_period_starts_from_zero_and_keeps_the_past():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {"a": plan(9)})
    for slot in range(9):
        book.take("one", EVENT)
        book.record("one", 0, slot, EVENT, "sums", 0)
    book.close_run("one", "finished")
    book.renew("a new year")
    book.open_run("two", TERMS, {"a": plan(9)})
    assert book.budget().period == 2
    assert pytest.approx(18 * RHO) == book.budget().lifetime_rho


def test_the_owners_limit_counts_where_it_is_tighter():
    book = budgeted(0.1)
    book.set_budget(0.01, 1e-6)
    with pytest.raises(co.BudgetExhausted):
        book.open_run("one", TERMS, {"a": plan(5)})


def test_an_owner_cannot_loosen_the_policy():
    book = budgeted(0.02)
    book.set_budget(100.0, 1e-6)
    with pytest.raises(co.BudgetExhausted):
        book.open_run("one", TERMS, {"a": plan(50)})


@given(
    st.sampled_from(Mechanism),
    st.floats(0.0, 1e6) | st.just(math.inf),
    st.floats(0.0, 1e9) | st.just(math.inf),
    st.sampled_from(Scope),
    st.sampled_from(Audience),
)
def test_an_event_comes_back_from_the_ledger_as_it_was(mechanism, rho, sensitivity, scope, audience):
    event = Event(mechanism, rho, sensitivity, scope, audience)
    assert event == Event.from_json(event.to_json())


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"mechanism": "magic", "rho": 1, "sensitivity": 1, "scope": "own", "audience": "all"}'],
)
def test_an_event_of_an_unknown_kind_fails_closed(text):
    with pytest.raises(co.LedgerDamaged, match=r"newest version"):
        Event.from_json(text)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.booleans()), max_size=12))
def test_the_price_of_a_row_is_every_own_release_and_each_joint_one_once(lines):
    plans: dict[str, tuple] = {}
    for party, count, joint in lines:
        plans[party] = (*plans.get(party, ()), Charge(JOINT if joint else EVENT, count, "sums"))
    own = sum(count for _, count, joint in lines if not joint)
    joint = max(sum(count for party, count, joint in lines if joint and party == name) for name in "abc")
    assert row_rho(plans) == pytest.approx(RHO * (own + joint))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: co.Policy(epsilon=1.0), "both epsilon and delta"),
        (lambda: co.Policy(delta=1e-6), "both epsilon and delta"),
        (lambda: co.Policy(epsilon=0.0, delta=1e-6), "epsilon > 0"),
        (lambda: co.Policy(epsilon=math.inf, delta=1e-6), "finite epsilon"),
        (lambda: co.Policy(epsilon=1.0, delta=0.0), "0 < delta < 1"),
        (lambda: co.Policy(epsilon=1.0, delta=1.0), "0 < delta < 1"),
        (lambda: co.Policy(exact=True, epsilon=1.0, delta=1e-6), "drop exact=True or epsilon"),
        (lambda: co.Privacy(epsilon=-1.0, delta=1e-6), "above 0"),
        (lambda: co.Privacy(epsilon=1.0, delta=2.0), "between 0 and 1"),
        (lambda: co.Privacy(epsilon=1.0, delta=1e-6, trust="everybody"), "choose one of"),
        (lambda: co.Privacy(epsilon=1.0, delta=1e-6, row_norm=0.0), "row_norm"),
        (lambda: co.Privacy(epsilon=1.0, delta=1e-6, row_norm={"a": math.nan}), "row_norm"),
        (lambda: co.Privacy(epsilon=1.0, delta=1e-6, label_bound=-1.0), "label_bound"),
        (lambda: Event(Mechanism.GAUSSIAN, -1.0, 1.0), "rho >= 0"),
    ],
)
def test_terms_that_cannot_be_are_refused(make, advice):
    with pytest.raises(co.InvalidInput, match=advice):
        make()
