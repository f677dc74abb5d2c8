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

RACER = """
import json, sys
import numpy as np
import colonnade as co
X = np.random.default_rng(int(sys.argv[2])).uniform(-1, 1, (40, 4))
fed = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic",
                          policies={"clinic": co.Policy(epsilon=1.0, delta=1e-6)})
problem, method = co.Problem(co.Logistic(), co.L1Ball(1.0)), co.CentralFrankWolfe(rounds=2)
granted = 0
print("ready", flush=True)
sys.stdin.readline()
for attempt in range(4):
    try:
        co.fit(fed, problem, method, co.Privacy(0.45, 1e-6, feature_bound=1.0), store=sys.argv[1])
        granted += 1
    except co.BudgetExhausted:
        pass
print(json.dumps(granted))
"""


def clinic(store: Path) -> Ledger:
    return Ledger(FileLog(store / "nodes" / "clinic.db"), "clinic", co.Policy(epsilon=1.0, delta=1e-6))


def test_two_racing_processes_never_overspend_together(tmp_path: Path) -> None:
    store = tmp_path / "store"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(store), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    ends = [racer.communicate("go\n", timeout=300) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], ends
    granted = sum(json.loads(out) for out, _ in ends)
    budget = clinic(store).budget()
    assert budget.rho <= budget.limit * (1 + 1e-12)
    runs = clinic(store).log.rows(kind="open")
    assert granted == len(runs)
    one = budget.rho / granted
    assert budget.rho + one > budget.limit  # and nothing that would still have fitted was refused


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
