"""Claims about a budget that several processes reach for, and about a clock that goes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import colonnade as co
from colonnade.privacy import ledger as ledgers
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RACERS = """
import json, os, sys, traceback
import numpy as np
import colonnade as co

def race(store, seed, attempts=4):
    X = np.random.default_rng(seed).uniform(-1, 1, (40, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic",
                              policies={"clinic": co.Policy(epsilon=1.0, delta=1e-6)})
    problem, method = co.Problem(co.Logistic(), co.L1Ball(1.0)), co.CentralFrankWolfe(rounds=2)
    granted = 0
    for attempt in range(attempts):
        try:
            co.fit(fed, problem, method, co.Privacy(0.45, 1e-6, feature_bound=1.0), store=store)
            granted += 1
        except co.BudgetExhausted:
            pass
    return granted

race(sys.argv[1] + " before", 0, 1)  # all that is slow to load is there when two others start
racers = []
for seed in (1, 2):
    heard, said = os.pipe()
    racer = os.fork()
    if racer == 0:
        granted = -1
        try:
            granted = race(sys.argv[1], seed)
        except BaseException:
            traceback.print_exc()
        os.write(said, json.dumps(granted).encode())
        os._exit(granted < 0)
    racers.append((racer, heard))
print(json.dumps([(os.waitpid(racer, 0)[1], json.loads(os.read(heard, 99))) for racer, heard in racers]))
"""


def clinic(store: Path) -> Ledger:
    return Ledger(FileLog(store / "nodes" / "clinic.db"), "clinic", co.Policy(epsilon=1.0, delta=1e-6))


def test_two_racing_processes_never_overspend_together(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", RACERS, str(store)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert [status for status, _ in ends] == [0, 0], done.stderr
    granted = sum(granted for _, granted in ends)
    budget = clinic(store).budget()
    assert budget.rho <= budget.limit * (1 + 1e-12)
    runs = clinic(store).log.rows(kind="open")
    assert granted == len(runs)
    one = budget.rho / granted
    assert budget.rho + one > budget.limit  # and nothing that would still have fitted was refused


@pytest.mark.chance(0, "prices, ticks and times of entries: no drawn figure is compared")
def test_a_clock_that_goes_back_changes_neither_order_nor_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (40, 4))
    fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic")
    fed = fed.with_policies({"clinic": co.Policy(epsilon=1.0, delta=1e-6)})
    problem, method = co.Problem(co.Logistic(), co.L1Ball(1.0)), co.CentralFrankWolfe(rounds=2)
    clock = iter(range(2_000_000_000, 0, -1_000_000))
    monkeypatch.setattr(ledgers.time, "time", lambda: next(clock))
    for _ in range(2):
        co.fit(fed, problem, method, co.Privacy(0.6, 1e-6, feature_bound=1.0), store=tmp_path)
    with pytest.raises(co.BudgetExhausted):
        co.fit(fed, problem, method, co.Privacy(0.6, 1e-6, feature_bound=1.0), store=tmp_path)
    entries = clinic(tmp_path).entries()
    assert [entry.tick for entry in entries] == [1, 2, 1, 2]
    assert [entry.when for entry in entries] == sorted((entry.when for entry in entries), reverse=True)
