"""Claims about a party's page: what is left of the budget is what the ledger says, and no more is read than need be."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as co
from colonnade.network.inbox import Inbox
from colonnade.network.status_page import PartyStatus, StatusPage
from colonnade.privacy.accountant import epsilon, rho_for
from colonnade.privacy.events import ABORTED, Charge, Event, Mechanism
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.runtime.run_store import RunStore
from tests.helpers.contract import TERMS

LIMIT = co.Policy(epsilon=2.0, delta=1e-6)


def samples(page: StatusPage) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in page.metrics().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_the_page_shows_what_is_left_of_the_budget_and_how_large_the_ledger_is(tmp_path: Path) -> None:
    RunStore(tmp_path).close()
    log = FileLog(RunStore.path_in(tmp_path, "lab"))
    ledger = Ledger(log, "lab", LIMIT)
    rho = rho_for(1.0, 1e-6)
    ledger.open_run("run-1", TERMS, {"lab": (Charge(Event(Mechanism.GAUSSIAN, rho, 1.0), 1, "sums"),)})
    box = Inbox(tmp_path)
    page = StatusPage()
    PartyStatus(tmp_path, "lab", LIMIT, box).show_on(page)
    found = samples(page)
    left = epsilon(rho_for(2.0, 1e-6) - rho, 1e-6)
    assert found['colonnade_budget_epsilon_left{party="lab"}'] == pytest.approx(left)
    assert found['colonnade_budget_epsilon_limit{party="lab"}'] == 2.0
    assert found['colonnade_runs_open{party="lab"}'] == 1
    assert found['colonnade_ledger_rows{party="lab"}'] == log.length()
    assert found["colonnade_ledger_bytes"] > 0
    assert found['colonnade_questions{state="open"}'] == 0
    ledger.close_run("run-1", ABORTED)
    again = samples(page)  # read again after some seconds, not whenever somebody asks
    assert again['colonnade_runs_open{party="lab"}'] == 1
    box.close()
    log.close()


def test_without_a_limit_there_is_no_figure_of_what_is_left(tmp_path: Path) -> None:
    RunStore(tmp_path).close()
    FileLog(RunStore.path_in(tmp_path, "lab")).close()
    page = StatusPage()
    PartyStatus(tmp_path, "lab", co.Policy(exact=True)).show_on(page)
    assert not any("epsilon" in name for name in samples(page))
