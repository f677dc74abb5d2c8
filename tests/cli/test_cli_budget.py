"""`colonnade budget` and `colonnade runs`, as an owner uses them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.data.text_file import safe_cell
from colonnade.privacy import ledger as ledgers
from colonnade.privacy.accountant import Budget, epsilon, rho_for
from colonnade.privacy.events import shown
from colonnade.privacy.ledger import Replaced
from colonnade.runs.budgets import Account, accounts, export_table, forecast, open_ledger, spending

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PRIVACY = co.Privacy(1.0, 1e-6, feature_bound=1.0)


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())


def fit(store: Path, policy: co.Policy | None = None, **more: object) -> co.Fit:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 4))
    policies = {} if policy is None else {"policies": {"clinic": policy}}
    federation = co.Federation.split(X, np.sign(X[:, 0]), {"clinic": slice(None)}, label="clinic", **policies)
    problem = co.Problem(co.Logistic(), co.L1Ball(2.0))
    return co.fit(federation, problem, co.CentralFrankWolfe(rounds=3), PRIVACY, store=store, **more)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fit(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.chance(0, "prices and counts, which the plan fixes whatever is picked")
def test_show_says_what_was_spent(store: Path) -> None:
    account = json.loads(call("budget", "show", store, "--json"))[0]
    assert account["party"] == "clinic"
    assert account["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)
    assert account["releases"] == 3
    assert "clinic" in call("budget", "show", store)


@pytest.mark.chance(0, "limits and prices, which the plan fixes whatever is picked")
def test_a_limit_set_here_stops_the_next_run(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 1.2)
    with pytest.raises(co.BudgetExhausted, match="budget renew"):
        fit(store)
    call("budget", "renew", store, "clinic", "--reason", "other patients", "--yes")
    fit(store)
    account = json.loads(call("budget", "show", store, "--json"))[0]
    assert account["period"] == 2
    assert account["epsilon_lifetime"] > account["epsilon_spent"]


@pytest.mark.chance(0, "a forecast from limits and prices")
def test_plan_tells_whether_a_run_fits(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 1.2)
    assert "fits       no" in call("budget", "plan", store, "clinic", "--epsilon", 1)
    assert "fits       yes" in call("budget", "plan", store, "clinic", "--epsilon", 0.1, "--rounds", 10)


@pytest.mark.chance(0, "an exit code and the number of a period")
def test_renew_asks_first(store: Path) -> None:
    result = CliRunner().invoke(app, ["budget", "renew", str(store), "clinic", "--reason", "x"], input="n\n")
    assert result.exit_code == 1
    assert json.loads(call("budget", "show", store, "--json"))[0]["period"] == 1


@pytest.mark.chance(0, "rounds, mechanisms and counts, not what was picked")
def test_export_lists_every_release(store: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call("budget", "export", store, "clinic"))))
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert {row["mechanism"] for row in rows} == {"gumbel"}
    call("budget", "export", store, "clinic", "--format", "json", "--output", tmp_path / "out.json")
    assert len(json.loads((tmp_path / "out.json").read_text())) == 3


@pytest.mark.chance(0, "prices, dates and texts of the owner, not what was picked")
def test_export_lists_runs_and_what_the_owner_set(store: Path) -> None:
    (run,) = csv.DictReader(io.StringIO(call("budget", "export", store, "clinic", "--table", "runs")))
    releases = list(csv.DictReader(io.StringIO(call("budget", "export", store, "clinic"))))
    assert (run["method"], run["row"], run["closed"] > run["opened"][:10]) == ("central private Frank-Wolfe", "1", True)
    assert float(run["counted_rho"]) == pytest.approx(sum(float(row["rho"]) for row in releases))
    call("budget", "set", store, "clinic", "--epsilon", 9)
    call("budget", "renew", store, "clinic", "--reason", "=HYPERLINK(1)", "--yes")
    lines = list(csv.DictReader(io.StringIO(call("budget", "export", store, "clinic", "--table", "owner"))))
    assert [(line["do"], line["epsilon"], line["reason"]) for line in lines] == [
        ("set", "9.0", ""),
        ("renew", "", "'=HYPERLINK(1)"),
    ]
    kept = json.loads(call("budget", "export", store, "clinic", "--table", "owner", "--json"))
    assert kept[1]["reason"] == "=HYPERLINK(1)"
    assert "choose releases, runs, owner" in refused("budget", "export", store, "clinic", "--table", "rows")


@pytest.mark.parametrize("start", list("=+-@\t\r\n\0"))
def test_no_cell_of_an_export_begins_a_formula(start: str) -> None:
    assert safe_cell(f"{start}1") == f"'{start}1"
    assert safe_cell(f"1{start}") == f"1{start}"
    assert safe_cell(-1.0) == -1.0


@pytest.mark.chance(0, "a chain of hashes is whole or not, whatever was picked")
def test_verify_notices_a_changed_row(store: Path) -> None:
    assert "whole" in call("budget", "verify", store)
    database = sqlite3.connect(store / "nodes" / "clinic.db")
    database.execute("update log set body = replace(body, 'gumbel', 'exact') where kind = 'event'")
    database.commit()
    database.close()
    assert "does not continue the chain" in refused("budget", "verify", store)
    assert "does not continue the chain" in refused("budget", "show", store)


@pytest.mark.chance(0, "names and addresses on a page")
def test_the_plot_of_spending_needs_no_network(store: Path, tmp_path: Path) -> None:
    call("budget", "show", store, "--plot", tmp_path / "plot.html")
    text = (tmp_path / "plot.html").read_text()
    assert "clinic" in text
    assert "cdn.plot.ly" not in text.split("</script>")[-2]


@pytest.mark.chance(0, "states of runs and prices, which the plan fixes")
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


@pytest.mark.chance(0, "the words of a refusal")
def test_an_unknown_party_is_named_with_those_there_are(store: Path) -> None:
    assert "there are clinic" in refused("budget", "plan", store, "bank", "--epsilon", 1)


def test_what_is_left_is_the_epsilon_of_a_run_that_fits() -> None:
    """Prices add up in rho: after epsilon 1 of 1.5, more than a half is left."""
    account = Account("clinic", Budget(1.5, 1e-6, 1, rho_for(1.0, 1e-6), rho_for(1.0, 1e-6)), 1, 0, 0)
    assert 1.0 < account.left < 1.5
    total = account.budget.rho + rho_for(account.left, 1e-6)
    assert total == pytest.approx(account.budget.limit, rel=1e-9)
    assert Account("clinic", Budget(1.5, 1e-6, 1, 1.0, 1.0), 1, 0, 0).left == 0.0


def test_every_cell_of_an_account_is_worked_out_from_its_figures() -> None:
    """Prices add up in rho: of a limit of rho(4) a fourth is spent or reserved, and an eighth has left."""
    limit, delta = rho_for(4.0, 1e-5), 1e-5
    budget = Budget(4.0, delta, 3, limit / 4, 2 * limit)
    account = Account("clinic", budget, 1234, 7, 2, "one row and one patient", epsilon(limit / 8, delta))
    reserved = epsilon(limit / 4, delta) - epsilon(limit / 8, delta)
    assert account.cells() == {
        "party": "clinic",
        "limit": "ε 4 (δ 1e-05)",
        "spent": f"ε {shown(epsilon(limit / 8, delta))}",
        "left of the limit": f"75%: ε {epsilon(0.75 * limit, delta):.4g}",
        "reserved": f"ε {shown(reserved)}",
        "unit": "one row and one patient",
        "period": "3",
        "in all periods": f"ε {shown(epsilon(2 * limit, delta))}",
        "releases": "1,234, 7 exact",
        "open runs": "2",
    }
    free = Account("clinic", Budget(None, None, 1, math.inf, math.inf), 5, 0, 0, released=math.inf).cells()
    assert (free["limit"], free["left of the limit"], free["reserved"]) == ("none on record", "no limit", "nothing")
    assert (free["spent"], free["in all periods"], free["releases"]) == ("unbounded", "unbounded", "5")


@pytest.mark.chance(0, "limits and prices, which the plan fixes whatever is picked")
def test_the_limit_of_the_newest_run_is_in_force_at_its_delta(tmp_path: Path) -> None:
    """The owner has set none. What has left is told at the delta of that limit, as what is spent is."""
    for limit, delta in ((2.0, 1e-6), (3.0, 1e-7)):
        fit(tmp_path, policy=co.Policy(epsilon=limit, delta=delta))
    (account,) = accounts(tmp_path)
    assert (account.budget.epsilon, account.budget.delta) == (3.0, 1e-7)
    prices = recorded(tmp_path)
    assert len(prices) == 6
    assert account.released == pytest.approx(epsilon(math.fsum(prices), 1e-7), rel=1e-9)
    assert account.spent == pytest.approx(account.released, rel=1e-9)
    assert spending(tmp_path, "clinic")[-1][1] == pytest.approx(account.released, rel=1e-9)


@pytest.mark.chance(0, "prices, dates and states of runs, not what was picked")
def test_the_table_of_runs_tells_an_open_one_from_one_that_ended(store: Path) -> None:
    def stop(_: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(store, engine=co.Faults(co.InProcess(), stop))
    done, going = json.loads(export_table(store, "clinic", "json", "runs"))
    assert (done["ended"], going["ended"], going["closed"]) == ("finished", "open", "")
    assert going["counted_own_rho"] == going["reserved_own_rho"]  # until it ends
    assert (done["reserved_other_rho"], going["reserved_other_rho"]) == (0.0, 0.0)  # nobody else has rows
    assert going["reserved_own_rho"] == pytest.approx(rho_for(1.0, 1e-6), rel=1e-6)
    assert accounts(store)[0].cells()["reserved"] == f"ε {shown(accounts(store)[0].reserved)}"


@pytest.mark.chance(0, "what the owner wrote, in its order")
def test_the_owners_table_is_in_the_order_in_which_it_was_written(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 9)
    with open_ledger(store, "clinic") as ledger:
        ledger.accept_replaced(Replaced("lab", "2026-01-01T00:00:00+00:00", "1" * 16), (0, b""), 1.0)
    call("budget", "set", store, "clinic", "--epsilon", 8)
    lines = json.loads(export_table(store, "clinic", "json", "owner"))
    assert [(line["kind"], line["epsilon"]) for line in lines] == [("budget", 9.0), ("replaced", ""), ("budget", 8.0)]
    assert [line["row"] for line in lines] == sorted(line["row"] for line in lines)


# ---------------------------------------------------------------- every figure, from the rows on record


def recorded(store: Path, party: str = "clinic") -> list[float]:
    """The prices of all releases, read past the library."""
    rows = sqlite3.connect(store / "nodes" / f"{party}.db").execute("select body from log where kind = 'event'")
    return [json.loads(body[1:])["event"]["rho"] for (body,) in rows]


@pytest.mark.chance(0, "prices on record against prices shown: none depends on a pick")
def test_every_figure_of_an_account_is_that_of_the_rows_on_record(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 3, "--delta", 1e-7)
    call("budget", "renew", store, "clinic", "--reason", "other patients", "--yes")
    fit(store)
    fit(store)
    prices = recorded(store)
    assert len(prices) == 9
    (account,) = json.loads(call("budget", "show", store, "--json"))
    spent = epsilon(math.fsum(prices[3:]), 1e-7)
    assert account == {
        "party": "clinic",
        "unit": "one row",
        "period": 2,
        "epsilon_limit": 3.0,
        "delta": 1e-7,
        "epsilon_spent": pytest.approx(spent, rel=1e-9),
        "epsilon_released": pytest.approx(spent, rel=1e-9),
        "epsilon_reserved": pytest.approx(0.0, abs=1e-9),
        "epsilon_lifetime": pytest.approx(epsilon(math.fsum(prices), 1e-7), rel=1e-9),
        "rho_spent": pytest.approx(math.fsum(prices[3:]), rel=1e-9),
        "releases": 9,
        "exact_releases": 0,
        "open_runs": 0,
    }
    left = epsilon(rho_for(3.0, 1e-7) - math.fsum(prices[3:]), 1e-7)
    assert call("budget", "show", store, "--quiet") == f"clinic\t{left:.4g}\n"
    line = next(line for line in call("budget", "show", store).splitlines() if "clinic" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    share = 1 - math.fsum(prices[3:]) / rho_for(3.0, 1e-7)
    assert (cells[:2], cells[4:7]) == (["clinic", "ε 3 (δ 1e-07)"], ["nothing", "one row", "2"])
    for cell, figure in ((cells[2], spent), (cells[7], account["epsilon_lifetime"])):  # prices are rounded up
        assert figure * (1 - 1e-9) <= float(cell.removeprefix("ε ")) <= figure * 1.001
    assert cells[3].endswith(f"{share:.0%}: ε {left:.4g}")
    assert cells[3].count("█") == round(5 * share)
    assert cells[8:] == ["9", "0"]


@pytest.mark.chance(0, "prices on record against a forecast: none depends on a pick")
def test_every_figure_of_a_forecast_is_worked_out_from_the_limit(store: Path) -> None:
    call("budget", "set", store, "clinic", "--epsilon", 2)
    spent, rho, limit = math.fsum(recorded(store)), rho_for(0.5, 1e-6), rho_for(2.0, 1e-6)
    cast = json.loads(call("budget", "plan", store, "clinic", "--epsilon", 0.5, "--rounds", 8, "--json"))
    assert cast == {
        "party": "clinic",
        "rho": pytest.approx(rho, rel=1e-9),
        "fits": True,
        "after": pytest.approx(epsilon(spent + rho, 1e-6), rel=1e-9),
        "runs_left": math.floor((limit - spent) / rho),
        "sigma": pytest.approx(math.sqrt(8 / (2 * rho)), rel=1e-9),
        "scale": pytest.approx(math.sqrt(8 / (2 * rho)), rel=1e-6),
    }
    whole = epsilon(limit - spent, 1e-6)  # what is left, as one run
    assert forecast(store, "clinic", whole * (1 - 1e-6), 1e-6, 1).fits
    assert not forecast(store, "clinic", whole * (1 + 1e-6), 1e-6, 1).fits
    assert call("budget", "plan", store, "clinic", "--epsilon", 1.9, "--quiet") == "no\n"
    assert forecast(store, "clinic", 1.9, 1e-6, 1).runs_left == 0


@pytest.mark.chance(0, "prices on record and times of a clock that is given")
def test_spending_over_time_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1_700_000_000, 60)
    monkeypatch.setattr(ledgers.time, "time", lambda: next(clock))
    fit(tmp_path)
    fit(tmp_path)
    prices, curve = recorded(tmp_path), spending(tmp_path, "clinic")
    assert len(prices) == len(curve) == 6
    assert [spent for _, spent in curve] == pytest.approx([epsilon(math.fsum(prices[: k + 1]), 1e-6) for k in range(6)])
    assert [when for when, _ in curve] == sorted({when for when, _ in curve})


def test_an_exact_release_is_counted_as_one_and_leaves_no_epsilon(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    co.fit(
        co.Federation.split(X, X[:, 0], 2), problem, co.DistributedFrankWolfe(rounds=2, tolerance=0.0), store=tmp_path
    )
    accounts = {account["party"]: account for account in json.loads(call("budget", "show", tmp_path, "--json"))}
    assert set(accounts) == {"party0", "party1", "labels"}  # the coordinator holds no data
    for party, account in accounts.items():
        prices = recorded(tmp_path, party)
        assert (account["releases"], account["exact_releases"]) == (len(prices), len(prices))
        assert (account["epsilon_spent"], account["rho_spent"], account["epsilon_limit"]) == (None, None, None)
        assert set(prices) == {math.inf}


def test_verify_compares_every_ledger_with_what_the_others_remember(tmp_path: Path) -> None:
    """A file put back from an older copy has a whole chain; only the other nodes know that it was longer."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    problem, method = co.Problem(co.LeastSquares(), co.L1Ball(1.0)), co.DistributedFrankWolfe(rounds=2, tolerance=0.0)
    fed = co.Federation.split(X, X[:, 0], 2)
    co.fit(fed, problem, method, store=tmp_path)
    before = (tmp_path / "nodes" / "party1.db").read_bytes()
    counts = json.loads(call("budget", "verify", tmp_path, "--json"))
    rows = sqlite3.connect(tmp_path / "nodes" / "party1.db").execute("select count(*) from log").fetchone()[0]
    assert counts["party1"] == {"rows": rows, "whole": True}
    co.fit(fed, problem, method, store=tmp_path)
    (tmp_path / "nodes" / "party1.db").write_bytes(before)
    assert "'party1' lacks row" in refused("budget", "verify", tmp_path)
    (tmp_path / "nodes" / "party1.db").unlink()
    assert "'party1' is gone" in refused("budget", "verify", tmp_path)


@pytest.mark.chance(0, "counts and prices, which the plan fixes")
def test_a_run_shows_what_left_every_node_and_at_which_price(store: Path) -> None:
    run = json.loads(call("runs", "list", store, "--json"))[0]["run"]
    found = json.loads(call("runs", "show", store, run, "--json"))
    lines = [line for line in found["left"] if line["node"] == "clinic"]
    assert sum(line["times"] for line in lines) == 3
    assert math.fsum(line["rho"] for line in lines) == pytest.approx(math.fsum(recorded(store)), rel=1e-9)
