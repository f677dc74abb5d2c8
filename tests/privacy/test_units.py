"""A ledger has one unit: prices about different neighbours are never added up."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import colonnade as co
from colonnade.methods.frank_wolfe import central
from colonnade.methods.gram.local import Local
from colonnade.methods.gram.plan import NoisyLabels, RunPlan, joint_sensitivity, sums_sensitivity
from colonnade.methods.gram.rule import rule_rho
from colonnade.model.job import Job
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import COLUMN, ROW, Unit
from colonnade.privacy.events import EXACT, Charge, Ending, Event, How, Mechanism
from colonnade.privacy.ledger import OPENING, Ledger, Terms, opening
from colonnade.privacy.mechanisms import SeededNoise
from colonnade.privacy.store import FileLog, MemoryLog
from colonnade.runs.budgets import account
from colonnade.runtime.hosted_node import HostedNode

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

UNITS = [
    ROW,
    Unit("patient"),
    Unit("patient", 3),
    Unit("patient", 5),
    Unit("doctor", 3),
    COLUMN,
    Unit("feature column"),
]
PLAN = {"a": (Charge(Event(Mechanism.GAUSSIAN, 0.01, 1.0), 1, "sums"),)}
RIDGE = co.Problem(co.Logistic(), penalty=co.Ridge(0.1))
X = np.random.default_rng(0).uniform(-1, 1, (60, 4))
Y = np.where(X[:, 0] > 0, 1, -1)
PEOPLE = np.repeat(np.arange(20), 3)


def terms(unit: Unit) -> Terms:
    return Terms("m", "s", "nobody", str(unit), unit.neighbours, "f")


def book() -> Ledger:
    return Ledger(MemoryLog(), "a", co.Policy())


def rows(ledger: Ledger) -> int:
    return len(ledger.log.rows())


@pytest.mark.parametrize("first", UNITS, ids=str)
@pytest.mark.parametrize("second", UNITS, ids=str)
def test_a_run_about_another_unit_is_refused_and_leaves_the_ledger_unchanged(first, second):
    ledger = book()
    ledger.open_run("one", terms(first), PLAN)
    before = rows(ledger)
    if first is second:
        ledger.open_run("two", terms(second), PLAN)
        assert ledger.row_spent() == 0.02
        return
    with pytest.raises(co.BudgetExhausted, match="Nothing was sent"):
        ledger.check_run("two", terms(second), PLAN)
    with pytest.raises(co.BudgetExhausted, match="in a store of their own"):
        ledger.open_run("two", terms(second), PLAN)
    assert rows(ledger) == before
    assert ledger.row_spent() == 0.01


def test_an_exact_run_has_no_finite_price_of_any_unit_and_neither_fixes_nor_minds_it():
    ledger, exact = Ledger(MemoryLog(), "a", co.Policy(exact=True)), {"a": (Charge(EXACT, 1, "rows"),)}
    ledger.open_run("exact", terms(ROW), exact)
    assert ledger.units() == ()
    ledger.open_run("one", terms(Unit("patient", 3)), PLAN)
    assert ledger.units() == ("one patient (at most 3 rows)",)
    ledger.open_run("again", terms(ROW), exact)
    assert math.isinf(ledger.row_spent())


def test_a_run_that_gave_all_back_fixes_no_unit():
    ledger = book()
    ledger.open_run("one", terms(ROW), PLAN)
    ledger.close_run("one", Ending(How.REFUSED, "PolicyRefused"))
    assert ledger.units() == ()
    ledger.open_run("two", terms(Unit("patient", 3)), PLAN)


def test_a_new_period_does_not_change_the_unit():
    ledger = book()
    ledger.open_run("one", terms(ROW), PLAN)
    ledger.renew("another year")
    with pytest.raises(co.BudgetExhausted, match="its ledger counts for one row"):
        ledger.open_run("two", terms(Unit("patient", 3)), PLAN)


def test_a_node_without_data_counts_for_nobody():
    ledger = Ledger(MemoryLog(), "coordinator", co.Policy(), holds_data=False)
    for number, unit in enumerate(UNITS):
        ledger.open_run(str(number), terms(unit), PLAN)


def test_an_earlier_ledger_of_two_units_opens_and_takes_no_further_price():
    ledger = book()
    for number, unit in enumerate((ROW, Unit("patient", 3))):  # as versions before wrote them
        ledger.log.append(str(number), OPENING, "open", "", opening(terms(unit), "a", PLAN, co.Policy(), "2026-01-01"))
    assert ledger.units() == ("one row", "one patient (at most 3 rows)")
    for unit in (ROW, Unit("patient", 3)):
        with pytest.raises(co.BudgetExhausted, match=r"counts for one row and one patient \(at most 3 rows\)"):
            ledger.open_run("new", terms(unit), PLAN)


def fitted(store: Path, unit: Any, **more: Any) -> co.Fit:
    federation = co.Federation.split(X, Y, parties={"a": [0, 1], "b": [2, 3]}, label="b", unit=unit, **more)
    privacy = co.Privacy(1.0, 1e-6, trust="secure", row_norm=1.0, feature_bound=1.0)
    return co.fit(federation, RIDGE, co.PrivateGram(), privacy, store=store)


@pytest.mark.chance(0, "prices and refusals, which go by the plan alone")
def test_what_a_store_says_was_spent_is_true_of_its_unit(tmp_path):
    fitted(tmp_path, (PEOPLE, 3))
    with pytest.raises(co.BudgetExhausted, match="its ledger counts for one person"):
        fitted(tmp_path, None)
    with pytest.raises(co.BudgetExhausted, match="its ledger counts for one person"):
        fitted(tmp_path, (PEOPLE, 2))
    for party in "ab":
        found = account(tmp_path, party)
        assert found.unit == "one person (at most 3 rows)"
        assert found.budget.rho == pytest.approx(rho_for(1.0, 1e-6), rel=1e-9)
        assert found.open_runs == 0


@pytest.mark.chance(0, "units, refusals and empty ledgers: no drawn figure is compared")
def test_one_partys_other_unit_is_found_before_anybody_reserves(tmp_path):
    """b's ledger alone counts for rows: a, which is asked first, holds no row of the refused run."""
    alone = co.Federation.split(X, Y, parties={"b": slice(None)}, label="b")
    ball = co.Problem(co.Logistic(), co.L1Ball(1.0))
    co.fit(alone, ball, co.CentralFrankWolfe(rounds=2), co.Privacy(1.0, 1e-6, feature_bound=1.0), store=tmp_path)
    with pytest.raises(co.BudgetExhausted, match="party 'b': its ledger counts for one row"):
        fitted(tmp_path, (PEOPLE, 3))
    assert account(tmp_path, "b").unit == "one row"
    log = FileLog(tmp_path / "nodes" / "a.db")
    try:
        assert log.rows(kind="open") == []
    finally:
        log.close()


@pytest.mark.chance(0, "the words of the unit: no drawn figure is compared")
def test_the_budget_command_shows_the_unit(tmp_path):
    from typer.testing import CliRunner

    from colonnade.cli import app

    fitted(tmp_path, (PEOPLE, 3))
    told = CliRunner().invoke(app, ["budget", "show", str(tmp_path), "--json"])
    assert '"unit": "one person (at most 3 rows)"' in told.output
    assert "one person (at most 3 rows)" in CliRunner().invoke(app, ["budget", "show", str(tmp_path)]).output


def test_terms_differ_by_neighbours_even_where_the_words_of_the_unit_agree():
    ledger, column = book(), terms(COLUMN)
    ledger.open_run("one", column, PLAN)
    with pytest.raises(co.BudgetExhausted):
        ledger.open_run("two", replace(column, neighbours="replace the rows of one feature column"), PLAN)


def test_a_run_that_goes_on_is_not_asked_for_its_unit_again():
    """A record of a lost ledger may bring a second unit while a run is open. What it released stays counted only if it goes on."""
    ledger = book()
    ledger.open_run("open", terms(ROW), PLAN)
    lost = {
        "node": "b",
        "when": "2031-01-01",
        "mark": "00",
        "rho": 0.5,
        "units": [["one patient", "replace one patient"]],
    }
    ledger._admin("replaced", lost)
    asked = terms(ROW), PLAN
    HostedNode.same_unit(SimpleNamespace(ledger=ledger, run="open"), *asked)
    with pytest.raises(co.BudgetExhausted, match="counts for one patient and one row"):
        HostedNode.same_unit(SimpleNamespace(ledger=ledger, run="new"), *asked)


# ------------------------------------------------------------------------------------------------ persons of 2, 3 and 4 rows
# At 2 rows 2m = m²: what is right there may be wrong at 3 and 4.


def job_about(rows: int, problem: co.Problem = RIDGE, **terms: float) -> Job:
    roster = co.Federation.split(X, Y, parties={"a": [0, 1], "b": [2, 3]}, label="b").roster()
    privacy = co.Privacy(1.0, 1e-6, **{"feature_bound": 1.0, "label_bound": 1.0, "row_norm": 1.0, **terms})
    return Job(problem, replace(roster, unit=Unit("person", rows) if rows > 1 else ROW), privacy)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_all_sensitivities_are_m_times_those_of_one_row(rows):
    """m rows replaced one after the other: the way is at most m times as long."""
    one, many = job_about(1), job_about(rows)
    assert rule_rho(many) * rows * rows == pytest.approx(rule_rho(one), rel=1e-12)
    local = Local(RunPlan.of(many, co.PrivateGram(cross="none")))
    for of in (joint_sensitivity, sums_sensitivity):
        assert of(many, local.figures) == pytest.approx(rows * of(one, local.figures), rel=1e-9)
    constant, label = local.beside("a")
    whole = local.figures.norm2["a"] + constant**2 + label**2
    assert local.sensitivity("a") == pytest.approx(rows * math.sqrt(2.0) * whole, rel=1e-9)
    assert NoisyLabels(many, 0.1, 1.0).sensitivity == rows * NoisyLabels(one, 0.1, 1.0).sensitivity == 2.0 * rows
    ball = co.Problem(co.Logistic(), co.L1Ball(1.0))
    spends = [co.PrivateBlockFrankWolfe(rounds=3).spend(job_about(m, ball)) for m in (1, rows)]
    for t in (0, 2):
        small, large = (s.shared_sensitivity(t, job_about(m, ball)) for s, m in zip(spends, (1, rows), strict=True))
        assert large == pytest.approx(rows * small, rel=1e-9)
    assert spends[0].sigma(rows) == pytest.approx(rows * spends[0].sigma(1), rel=1e-12)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_choice_is_charged_for_all_rows_of_a_person(rows, tmp_path, monkeypatch):
    """At x = 0 a row's slope is at most 1/2, and its entry 1: one row moves a score by 2·1·(1/2) = 1."""
    seen = []
    made = central.Private
    monkeypatch.setattr(central, "Private", lambda value, delta: seen.append(delta) or made(value, delta))
    people = (np.arange(60) // rows, rows)
    fed = co.Federation.split(X, Y, parties={"a": slice(None)}, label="a", unit=people)
    ball, terms = co.Problem(co.Logistic(), co.L1Ball(1.0)), co.Privacy(1.0, 1e-6, feature_bound=1.0)
    co.fit(fed, ball, co.CentralFrankWolfe(rounds=1), terms, store=tmp_path, noise=SeededNoise(1))
    assert seen == [pytest.approx(rows, rel=1e-9)]
