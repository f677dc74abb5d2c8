"""Claims about the ledger: the plan is reserved before anything is sent, and what was not used returns."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as co
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.events import (
    ABORTED,
    EXACT,
    FINISHED,
    SCORES,
    Audience,
    Charge,
    Ending,
    Event,
    How,
    Mechanism,
    Scope,
    row_rho,
)
from colonnade.privacy.ledger import Ledger, Replaced, Terms
from colonnade.privacy.store import FileLog, MemoryLog
from tests.helpers.contract import TERMS, ledger
from tests.helpers.spending import own_spent

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RHO = 0.01
EVENT = Event(Mechanism.GAUSSIAN, RHO, 1.0)
JOINT = Event(Mechanism.GAUSSIAN, RHO, 1.0, Scope.JOINT)


def plan(count: int, event: Event = EVENT):
    return (Charge(event, count, "sums"),)


def budgeted(rho: float, log=None) -> Ledger:
    """A ledger whose limit is worth about `rho`."""
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
    assert pytest.approx(9 * RHO) == own_spent(book)
    book.take("one", EVENT)
    book.record("one", 0, 0, EVENT, "sums", 0)
    book.close_run("one", FINISHED)
    assert pytest.approx(RHO) == own_spent(book)
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
    book.close_run("one", FINISHED)
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
    free.close_run("one", FINISHED)
    with pytest.raises(co.BudgetExhausted):
        budgeted(5.0, log).open_run("two", TERMS, {"a": plan(1)})


def test_the_same_run_on_other_terms_is_refused():
    book = ledger()
    with pytest.raises(co.ReplayDiverged, match=r"other terms.*original call"):
        book.open_run("run", replace(TERMS, settings="toy(2)"), {})


def test_opening_twice_reserves_once():
    book = budgeted(0.1)
    book.open_run("one", TERMS, {"a": plan(5)})
    book.open_run("one", TERMS, {"a": plan(5)})
    assert pytest.approx(5 * RHO) == own_spent(book)


def test_a_closed_run_is_not_opened_again():
    book = ledger()
    book.close_run("run", FINISHED)
    with pytest.raises(co.ColonnadeError, match=r"over"):
        book.open_run("run", TERMS, {})


def test_closing_twice_is_one_closing():
    book = ledger()
    book.close_run("run", FINISHED)
    book.close_run("run", FINISHED)
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
    book.close_run("one", FINISHED)
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


@settings(max_examples=100)
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


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.booleans()), max_size=12))
def test_the_price_of_a_row_is_every_own_release_and_each_joint_one_once(lines):
    plans: dict[str, tuple] = {}
    for party, count, joint in lines:
        plans[party] = (*plans.get(party, ()), Charge(JOINT if joint else EVENT, count, "sums"))
    own = sum(count for _, count, joint in lines if not joint)
    joint = max(sum(count for party, count, joint in lines if joint and party == name) for name in "abc")
    assert row_rho(plans) == pytest.approx(RHO * (own + joint))


def test_a_line_that_is_made_never_costs_nothing_whatever_it_would_cost():
    assert [Charge(event, 0, "x").rho for event in (EXACT, EVENT)] == [0.0, 0.0]
    assert [Charge(event, 3, "x").rho for event in (EXACT, EVENT)] == [math.inf, 3 * RHO]
    assert row_rho({"a": (Charge(EXACT, 0, "x"), Charge(EVENT, 2, "y"))}) == 2 * RHO


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


# ---------------------------------------------------------------- a plan, line by line


@pytest.mark.parametrize(
    "other",
    [
        replace(EVENT, mechanism=Mechanism.LATTICE),
        replace(EVENT, rho=RHO * (1 + 1e-15)),
        replace(EVENT, scope=Scope.JOINT),
        replace(EVENT, audience=Audience.CONSORTIUM),
    ],
    ids=["mechanism", "price", "scope", "audience"],
)
def test_a_line_pays_for_its_own_kind_of_release_only(other):
    assert Charge(EVENT, 1, "sums").covers(replace(EVENT, sensitivity=7.0))  # settled when it is released
    assert not Charge(EVENT, 1, "sums").covers(other)
    assert not Charge(other, 1, "sums").covers(EVENT)


def test_a_line_is_used_as_often_as_it_says_and_no_more():
    book = budgeted(1.0)
    book.open_run("one", TERMS, {"a": (Charge(EVENT, 2, "sums"), Charge(EXACT, 0, "all"))})
    assert [book.take("one", EVENT) for _ in range(2)] == ["sums", "sums"]
    with pytest.raises(co.LeakError, match="used up"):
        book.take("one", EVENT)


def test_a_resumed_run_has_used_what_is_on_record_and_nothing_else(tmp_path):
    log = FileLog(tmp_path / "a.db")
    for used in range(3):
        book = budgeted(1.0, log)
        book.open_run("one", TERMS, {"a": plan(3)})
        for left in range(3 - used):
            book.take("one", EVENT)
            if not left:
                book.record("one", used, 0, EVENT, "sums", 0)  # one is on record, the others were never sent
        with pytest.raises(co.LeakError):
            book.take("one", EVENT)
    log.close()


@pytest.mark.parametrize("field", [field.name for field in fields(Terms)])
def test_a_run_resumes_on_the_very_terms_that_were_approved(field):
    book = budgeted(1.0)
    book.open_run("one", TERMS, {"a": plan(3)})
    with pytest.raises(co.ReplayDiverged, match="other terms"):
        book.open_run("one", replace(TERMS, **{field: "something else"}), {"a": plan(3)})
    with pytest.raises(co.ReplayDiverged, match="other terms"):
        book.open_run("one", TERMS, {"a": plan(4)})
    book.open_run("one", TERMS, {"a": plan(3)})


def test_nothing_is_recorded_for_a_run_that_another_process_closed(tmp_path):
    log, other = FileLog(tmp_path / "a.db"), FileLog(tmp_path / "a.db")
    book = budgeted(1.0, log)
    book.open_run("one", TERMS, {"a": plan(3)})
    budgeted(1.0, other).close_run("one", ABORTED)
    with pytest.raises(co.ReplayDiverged, match="over"):
        book.record("one", 0, 0, EVENT, "sums", 0)
    assert log.rows("one", "event") == []
    log.close()
    other.close()


# ---------------------------------------------------------------- the figures of a budget


def spend(book: Ledger, run: str, own: int, others: int = 0, joint: int = 0, used: int | None = None, how=FINISHED):
    plans = {"a": (*plan(own), *plan(joint, JOINT)), "b": (*plan(others), *plan(joint, JOINT))}
    book.open_run(run, TERMS, plans)
    for slot in range(own if used is None else used):
        book.record(run, 0, slot, EVENT, "sums", 3)
    for slot in range(joint):
        book.record(run, 1, slot, JOINT, "sums", 3)
    if how:
        book.close_run(run, how)


def test_every_figure_of_a_budget_is_the_sum_of_what_is_on_record():
    book = budgeted(100 * RHO)
    spend(book, "first", own=9, others=4, joint=2, used=5)  # 4 of its own lines return
    assert own_spent(book) == pytest.approx(5 * RHO)
    assert book.row_spent() == pytest.approx((5 + 4 + 2) * RHO)
    spend(book, "second", own=3, others=1, how=None)
    assert own_spent(book) == pytest.approx(8 * RHO)
    assert book.row_spent() == pytest.approx(15 * RHO)
    assert book.open_runs() == {"second"}
    spend(book, "third", own=6, others=6, used=0, how=Ending(How.REFUSED))
    assert book.row_spent() == pytest.approx(15 * RHO)  # it sent nothing anywhere
    figures = book.budget()
    assert (figures.epsilon, figures.delta, figures.period) == (epsilon(100 * RHO, 1e-6), 1e-6, 1)
    assert figures.limit == pytest.approx(100 * RHO, rel=1e-6)
    assert (figures.rho, figures.lifetime_rho) == pytest.approx((15 * RHO, 15 * RHO))
    assert figures.left == pytest.approx(85 * RHO, rel=1e-6)
    assert figures.spent == epsilon(figures.rho, 1e-6)
    book.renew("a new year")
    assert book.budget().period == 2
    assert (book.budget().rho, book.budget().lifetime_rho) == pytest.approx((4 * RHO, 15 * RHO))  # "second" is open
    book.close_run("second", FINISHED)
    spend(book, "fourth", own=2)
    assert book.budget().rho == pytest.approx((3 + 1 + 2) * RHO)


def test_a_budget_holds_up_to_its_limit_and_not_beyond():
    book = budgeted(10 * RHO * (1 + 1e-9))
    spend(book, "one", own=4)
    book.open_run("two", TERMS, {"a": plan(6)})
    book.close_run("two", FINISHED)
    with pytest.raises(co.BudgetExhausted, match="would bring epsilon to"):
        book.open_run("three", TERMS, {"a": plan(7)})
    with pytest.raises(co.BudgetExhausted, match="this run alone costs"):
        book.open_run("four", TERMS, {"a": plan(11)})


@pytest.mark.parametrize("spent", [0.0, 0.5])
def test_a_limit_may_be_reached_and_a_thousand_millionth_over_it_is_refused(spent):
    limit = rho_for(1.0, 1e-6)

    def opened(part: float) -> Ledger:
        book = Ledger(MemoryLog(), "a", co.Policy(epsilon=1.0, delta=1e-6))
        for run, share in (("before", spent), ("run", part - spent)):
            if share:
                book.open_run(run, TERMS, {"a": plan(1, Event(Mechanism.GAUSSIAN, share * limit, 1.0))})
        return book

    assert opened(1.0).row_spent() == pytest.approx(limit)
    for part in (1.0 + 1e-9, 1.0 + 1e-6, 1.0 + 1e-3):
        with pytest.raises(co.BudgetExhausted, match="this run alone costs" if not spent else "this run would bring"):
            opened(part)


def test_a_limit_of_the_owner_counts_in_zcdp_and_the_newest_one_counts():
    """(1, 1e-3) buys more than (1.5, 1e-12): which is tighter is not read off epsilon alone."""
    assert rho_for(1.0, 1e-3) > rho_for(1.5, 1e-12)
    book = Ledger(MemoryLog(), "a", co.Policy(epsilon=1.0, delta=1e-3))
    book.set_budget(1.5, 1e-12)
    assert (book.budget().epsilon, book.budget().delta) == (1.5, 1e-12)
    free = Ledger(MemoryLog(), "a", co.Policy())
    for limit in (1.0, 3.0):
        free.set_budget(limit, 1e-6)
    assert free.budget().epsilon == 3.0


def test_what_left_exactly_is_said_where_it_ends_a_budget():
    log = MemoryLog()
    free = Ledger(log, "a", co.Policy(exact=True))
    free.open_run("one", TERMS, {"a": (Charge(EXACT, 1, "all"),)})
    with pytest.raises(co.BudgetExhausted, match="exact values about these rows have left"):
        budgeted(5.0, log).open_run("two", TERMS, {"a": plan(1)})


def test_an_entry_says_what_was_recorded():
    book = budgeted(1.0)
    spend(book, "one", own=2)
    first, second = book.entries("one")
    assert (first.run, first.tick, first.slot, first.event, first.what, first.round) == ("one", 0, 0, EVENT, "sums", 3)
    assert second.slot == 1
    assert book.entries("two") == []


# ---------------------------------------------------------------- chains and what peers remember


def test_no_run_opens_and_no_limit_changes_on_a_broken_chain(tmp_path):
    log = FileLog(tmp_path / "a.db")
    book = budgeted(1.0, log)
    spend(book, "one", own=2)
    db = sqlite3.connect(log.path)
    with db:
        db.execute("update log set body = x'00' where seq = 2")
    db.close()
    before = log.length()
    for act in (
        lambda: book.open_run("two", TERMS, {"a": plan(1)}),
        lambda: book.renew("x"),
        lambda: book.set_budget(9, 1e-6),
    ):
        with pytest.raises(co.LedgerDamaged, match="does not continue the chain"):
            act()
    assert log.length() == before
    log.close()


def test_the_newest_head_that_was_seen_is_remembered_and_ones_own_is_not():
    book = budgeted(1.0)
    for run, count in (("one", 7), ("two", 9), ("three", 8)):
        book.remember(run, "start", {"b": (count, bytes([count])), "a": (1, b"x")})
    book.remember("two", "start", {"b": (99, b"again")})  # once a run and moment
    assert book.remembered() == {"b": (9, bytes([9]))}


def test_a_ledger_must_still_hold_what_a_peer_saw(tmp_path):
    log = FileLog(tmp_path / "a.db")
    book = budgeted(1.0, log)
    spend(book, "one", own=2)
    count = log.length()
    book.check_head(count, log.head_at(count), "b")
    for seen, head in ((count + 1, bytes(32)), (count, bytes(32)), (count - 1, log.head_at(count))):
        with pytest.raises(co.LedgerDamaged, match="rolled back"):
            book.check_head(seen, head, "b")
    log.close()


def test_a_note_for_the_operator_is_kept_once():
    book = budgeted(1.0)
    for text in ("3 rows", "3 rows", "4 rows"):
        book.tell_operator("one", text)
    assert book.operator_notes() == [("one", "3 rows"), ("one", "4 rows")]


def test_runs_that_reserved_scores_are_counted():
    book = Ledger(MemoryLog(), "a", co.Policy(scores=True))
    book.open_run("one", TERMS, {"a": (Charge(SCORES, 4, "scores"),)})
    book.open_run("two", TERMS, {"a": plan(1)})
    assert book.score_runs() == 1
    assert json.loads(book.log.rows("one", "open")[0].body)["own_rho"] == 0.0


def test_a_new_ledger_counts_the_largest_figure_that_its_owner_says_before_the_first_run():
    """Of what was spent before, once: not the sum of what was said."""
    book = Ledger(MemoryLog(), "a", co.Policy(epsilon=1.0, delta=1e-6))
    said = [book.begin_anew(rho, [(TERMS.unit, TERMS.neighbours)]) for rho in (0.005, 0.008, 0.003)]
    assert len(set(said)) == 1
    assert book.row_spent() == pytest.approx(0.008)
    assert own_spent(book) == 0.0
    book.open_run("one", TERMS, {"a": plan(1)})
    assert book.row_spent() == pytest.approx(0.018)
    with pytest.raises(co.InvalidInput, match="has rows, so it is not new"):
        book.begin_anew(0.02)


@pytest.mark.parametrize("rho", [-0.1, math.nan])
def test_a_new_ledger_begins_with_no_less_than_nothing(rho):
    with pytest.raises(co.InvalidInput, match="a number of at least 0"):
        ledger().begin_anew(rho)


def test_of_two_records_about_one_node_only_a_later_one_is_news():
    """One of the same second may be from before it, and would bring an old ledger back."""
    first, second, third = (f"2031-01-01T00:00:0{second}+00:00" for second in (1, 2, 3))
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.accept_replaced(Replaced("b", second, "m"), (3, bytes(32)), math.inf)
    assert book.knows_replaced(Replaced("b", second, "m"))
    assert book.knows_replaced(Replaced("b", first, "m"))
    assert not book.knows_replaced(Replaced("b", third, "n"))
    assert not book.knows_replaced(Replaced("c", first, "n"))
    for when in (first, second):
        with pytest.raises(co.InvalidInput, match="has taken one of"):
            book.knows_replaced(Replaced("b", when, "n"))


@pytest.mark.parametrize(("part", "taken"), [(1.0, True), (2.0, True), (0.999999, False)])
def test_a_new_ledger_is_taken_if_it_counts_no_less_than_this_one(part, taken):
    book = Ledger(MemoryLog(), "a", co.Policy())
    book.open_run("one", TERMS, {"a": plan(2), "b": plan(3)})
    one = Replaced("b", "2031-01-01T00:00:01+00:00", "m")
    if taken:
        book.accept_replaced(one, (3, b"\1" * 32), part * 5 * RHO)
        assert book.remembered() == {"b": (3, b"\1" * 32)}
    else:
        with pytest.raises(co.InvalidInput, match="it would forget the rest"):
            book.accept_replaced(one, (3, b"\1" * 32), part * 5 * RHO)
        assert book.replaced() == []


@pytest.mark.parametrize("least", [0, -1, True, 1.5, "2"])
def test_the_fewest_rows_that_a_party_takes_part_with_are_one_or_more(least):
    assert co.Policy(least=1).least == 1
    with pytest.raises(co.InvalidInput, match="at least 1"):
        co.Policy(least=least)
