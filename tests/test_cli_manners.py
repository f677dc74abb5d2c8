"""How commands behave in a terminal, a pipe and a script."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.terminal import answers, explained
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for

PRIVACY = co.Privacy(1.0, 1e-6, feature_bound=1.0)
PROGRAM = Path(sys.executable).with_name("colonnade")


class Stop(Exception):
    """Stands for a crash."""


def stop(_: object) -> object:
    raise Stop


def fit(store: Path, rounds: int = 3, **more: object) -> co.Fit:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 4))
    federation = co.Federation.split(X, np.sign(X[:, 0]), parties={"clinic": slice(None)}, label="clinic")
    problem = co.Problem(co.Logistic(), co.L1Ball(2.0))
    return co.fit(federation, problem, co.CentralFrankWolfe(rounds=rounds), PRIVACY, store=store, **more)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One run that finished, and one that a crash interrupted."""
    fit(tmp_path / "runs")
    with pytest.raises(Stop):
        fit(tmp_path / "runs", rounds=4, engine=co.Faults(co.InProcess(), stop))
    return tmp_path / "runs"


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


# ------------------------------------------------------------------------------------------------ runs and budgets


def test_a_list_of_runs_tells_method_epsilon_and_what_was_interrupted(store: Path) -> None:
    lines = json.loads(call("runs", "list", store, "--json"))
    assert [line["state"] for line in lines] == ["finished", "interrupted"]
    assert {(1.0, 1e-6, "central private Frank-Wolfe")} == {(x["epsilon"], x["delta"], x["method"]) for x in lines}
    shown = call("runs", "list", store)
    assert "central private Frank-Wolfe" in shown
    assert "1 (delta 1e-06)" in shown
    assert [line["run"] for line in lines] == call("runs", "list", store, "--quiet").split()


def test_a_run_whose_lock_is_held_is_running(store: Path) -> None:
    run = json.loads(call("runs", "list", store, "--json"))[1]["run"]
    with (store / "locks" / f"{run}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert json.loads(call("runs", "list", store, "--json"))[1]["state"] == "running"
        assert json.loads(call("runs", "show", store, run, "--json"))["state"] == "running"
    assert json.loads(call("runs", "list", store, "--json"))[1]["state"] == "interrupted"


def test_looking_at_a_run_does_not_keep_it_from_going_on(store: Path) -> None:
    run = json.loads(call("runs", "list", store, "--json"))[1]["run"]
    assert fit(store, rounds=4).run == run


def test_a_run_without_privacy_says_so(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    fitted = co.fit(co.Federation.split(X, X[:, 0]), problem, co.DistributedFrankWolfe(rounds=2), store=tmp_path)
    assert "not private" in call("runs", "list", tmp_path)
    line = json.loads(call("runs", "show", tmp_path, fitted.run, "--json"))["left"][0]
    assert line["rho"] is None  # JSON has no infinity


def test_what_is_reserved_is_shown_beside_what_is_spent(store: Path) -> None:
    account = json.loads(call("budget", "show", store, "--json"))[0]
    rho = rho_for(1.0, 1e-6)
    assert account["epsilon_released"] == pytest.approx(1.0, rel=1e-6)
    assert account["epsilon_spent"] == pytest.approx(epsilon_of(2 * rho, 1e-6), rel=1e-6)
    assert account["epsilon_reserved"] == pytest.approx(account["epsilon_spent"] - account["epsilon_released"])
    table = call("budget", "show", store)
    assert "reserved" in table
    assert "ε 1 " in table
    run = json.loads(call("runs", "list", store, "--json"))[1]["run"]
    ended = json.loads(call("runs", "abort", store, run, "--json"))
    assert (run, "aborted", True) == (ended["run"], ended["state"], "clinic" in ended["closed_at"])
    account = json.loads(call("budget", "show", store, "--json"))[0]
    assert account["epsilon_reserved"] == 0.0
    assert account["epsilon_spent"] == account["epsilon_released"]
    assert "nothing" in call("budget", "show", store)


def test_what_an_open_run_has_released_is_spent_and_no_longer_reserved(tmp_path: Path) -> None:
    class Third:
        seen = 0

        def __call__(self, letter: object) -> object:
            self.seen += 1
            if self.seen == 3:
                raise Stop
            return [letter]

    with pytest.raises(Stop):
        fit(tmp_path, rounds=8, engine=co.Faults(co.InProcess(), Third()))
    account = json.loads(call("budget", "show", tmp_path, "--json"))[0]
    released = sum(row["rho"] for row in json.loads(call("budget", "export", tmp_path, "clinic", "--format", "json")))
    assert 0.0 < released < rho_for(1.0, 1e-6)
    assert account["epsilon_released"] == pytest.approx(epsilon_of(released, 1e-6))
    assert account["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)


def test_a_new_period_begins_with_nothing_spent(tmp_path: Path) -> None:
    fit(tmp_path)
    call("budget", "renew", tmp_path, "clinic", "--reason", "other patients", "--yes")
    account = json.loads(call("budget", "show", tmp_path, "--json"))[0]
    assert (account["epsilon_released"], account["epsilon_reserved"]) == (0.0, 0.0)
    assert account["epsilon_lifetime"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list"),
        ("budget", "show"),
        ("budget", "verify"),
        ("budget", "plan", "--epsilon", "1"),
        ("budget", "notes"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_question_has_an_answer_for_programs(store: Path, words: tuple[str, ...]) -> None:
    party = ["clinic"] if words[1] in ("plan", "notes") else []
    json.loads(call(*words[:2], store, *party, *words[2:], "--json"), parse_constant=pytest.fail)


def test_a_quiet_check_says_nothing_where_all_is_in_order(store: Path) -> None:
    assert call("budget", "verify", store, "--quiet") == ""


# ------------------------------------------------------------------------------------------------ pipes and colours


def run_program(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")}
    command = [str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**clean, **environment})


def test_a_table_in_a_pipe_is_neither_cut_nor_coloured(store: Path) -> None:
    run = json.loads(call("runs", "list", store, "--json"))[1]["run"]
    done = run_program("runs", "list", store, COLUMNS="40", TERM="xterm-256color")
    line = next(line for line in done.stdout.splitlines() if run in line)
    assert "interrupted" in line
    assert "central private Frank-Wolfe" in line
    assert "\x1b" not in done.stdout
    wrong = run_program("runs", "list", store / "absent")
    assert wrong.returncode == 1
    assert "\x1b" not in wrong.stderr
    assert wrong.stderr.startswith("error: ")
    assert len(wrong.stderr.splitlines()) == 1


def shown(columns: int = 60) -> str:
    import io

    from rich.console import Console

    out = io.StringIO()
    Console(file=out, force_terminal=True, width=columns).print("[bold red]x[/bold red]")
    return out.getvalue()


def test_colour_on_a_terminal_yields_to_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in shown()


def test_without_a_screen_a_table_is_as_wide_as_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column("wide")
    table.add_row("x" * 500)
    answers().print(table)
    assert "x" * 500 in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ exit codes


def test_exit_codes_are_those_that_are_documented(store: Path) -> None:
    assert CliRunner().invoke(app, ["runs", "list", str(store)]).exit_code == 0
    assert CliRunner().invoke(app, ["runs", "list", str(store / "absent")]).exit_code == 1
    assert CliRunner().invoke(app, ["runs", "list"]).exit_code == 2
    assert CliRunner().invoke(app, ["runs", "list", str(store), "--colour"]).exit_code == 2


def test_ctrl_c_is_130_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    with pytest.raises(typer.Exit) as left, explained("the same command goes on."):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "stopped: the same command goes on.\n"
