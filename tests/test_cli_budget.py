"""`colonnade budget` and `colonnade runs`, as an owner uses them."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.budget import Account
from colonnade.cli import app
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.ledger import Budget

PRIVACY = co.Privacy(1.0, 1e-6, feature_bound=1.0)


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())


def fit(store: Path, **more: object) -> co.Fit:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 4))
    federation = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic")
    problem = co.Problem(co.Logistic(), co.L1Ball(2.0))
    return co.fit(federation, problem, co.CentralFrankWolfe(rounds=3), PRIVACY, store=store, **more)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fit(tmp_path / "runs")
    return tmp_path / "runs"


def test_show_says_what_was_spent(store: Path) -> None:
    account = json.loads(call("budget", "show", store, "--json"))[0]
    assert account["party"] == "clinic"
    assert account["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)
    assert account["releases"] == 3
    assert "clinic" in call("budget", "show", store)


def test_a_limit_set_here_stops_the_next_run(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 1.2)
    with pytest.raises(co.BudgetExhausted, match="budget renew"):
        fit(store)
    call("budget", "renew", store, "clinic", "--reason", "other patients", "--yes")
    fit(store)
    account = json.loads(call("budget", "show", store, "--json"))[0]
    assert account["period"] == 2
    assert account["epsilon_lifetime"] > account["epsilon_spent"]


def test_plan_tells_whether_a_run_fits(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 1.2)
    assert "fits       no" in call("budget", "plan", store, "clinic", "--epsilon", 1)
    assert "fits       yes" in call("budget", "plan", store, "clinic", "--epsilon", 0.1, "--rounds", 10)


def test_renew_asks_first(store: Path) -> None:
    result = CliRunner().invoke(app, ["budget", "renew", str(store), "clinic", "--reason", "x"], input="n\n")
    assert result.exit_code == 1
    assert json.loads(call("budget", "show", store, "--json"))[0]["period"] == 1


def test_export_lists_every_release(store: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call("budget", "export", store, "clinic"))))
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert {row["mechanism"] for row in rows} == {"gumbel"}
    call("budget", "export", store, "clinic", "--format", "json", "--output", tmp_path / "out.json")
    assert len(json.loads((tmp_path / "out.json").read_text())) == 3


def test_verify_notices_a_changed_row(store: Path) -> None:
    assert "whole" in call("budget", "verify", store)
    database = sqlite3.connect(store / "nodes" / "clinic.db")
    database.execute("update log set body = replace(body, 'gumbel', 'exact') where kind = 'event'")
    database.commit()
    database.close()
    assert "does not continue the chain" in refused("budget", "verify", store)
    assert "does not continue the chain" in refused("budget", "show", store)


def test_the_plot_of_spending_needs_no_network(store: Path, tmp_path: Path) -> None:
    call("budget", "show", store, "--plot", tmp_path / "plot.html")
    text = (tmp_path / "plot.html").read_text()
    assert "clinic" in text
    assert "cdn.plot.ly" not in text.split("</script>")[-2]


def test_runs_lists_and_aborts(store: Path) -> None:
    class Stop(Exception):
        pass

    def stop(_: object) -> object:
        raise Stop

    with pytest.raises(Stop):
        fit(store, engine=co.Faults(co.InProcess(), stop))
    listed = call("runs", "list", store)
    assert "finished" in listed
    assert "interrupted" in listed
    run = next(line.split("│")[1].strip() for line in listed.splitlines() if "interrupted" in line)
    before = json.loads(call("budget", "show", store, "--json"))[0]
    assert "clinic" in call("runs", "abort", store, run)
    after = json.loads(call("budget", "show", store, "--json"))[0]
    assert after["open_runs"] == before["open_runs"] - 1
    assert after["rho_spent"] < before["rho_spent"]
    assert "over already" in refused("runs", "abort", store, run)


@pytest.mark.parametrize("words", [["budget", "show"], ["budget", "verify"], ["runs", "list"]])
def test_a_folder_that_is_no_store_is_named(words: list[str], tmp_path: Path) -> None:
    assert "store=" in refused(*words, tmp_path)


def test_an_unknown_party_is_named_with_those_there_are(store: Path) -> None:
    assert "there are clinic" in refused("budget", "plan", store, "bank", "--epsilon", 1)


def test_what_is_left_is_the_epsilon_of_a_run_that_fits() -> None:
    """Prices add up in rho: after epsilon 1 of 1.5, more than a half is left."""
    account = Account("clinic", Budget(1.5, 1e-6, 1, rho_for(1.0, 1e-6), rho_for(1.0, 1e-6)), 1, 0, 0)
    assert 1.0 < account.left < 1.5
    total = account.budget.rho + rho_for(account.left, 1e-6)
    assert total == pytest.approx(account.budget.limit, rel=1e-9)
    assert Account("clinic", Budget(1.5, 1e-6, 1, 1.0, 1.0), 1, 0, 0).left == 0.0
