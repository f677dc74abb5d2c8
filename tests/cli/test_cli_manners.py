"""How commands behave in a terminal, a pipe and a script."""

from __future__ import annotations

import ast
import fcntl
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.table import Table
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import COMMANDS as LISTED
from colonnade.cli import app
from colonnade.cli.terminal import AGAIN, EXIT_CODES, answers, busy, explained
from colonnade.privacy.accountant import epsilon as epsilon_of
from colonnade.privacy.accountant import rho_for

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

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


@pytest.mark.chance(0, "states, prices and names of runs: nothing that was drawn is compared")
def test_a_list_of_runs_tells_method_epsilon_and_what_was_interrupted(store: Path) -> None:
    lines = json.loads(call("runs", "list", store, "--json"))
    assert [line["state"] for line in lines] == ["finished", "interrupted"]
    assert {(1.0, 1e-6, "central private Frank-Wolfe")} == {(x["epsilon"], x["delta"], x["method"]) for x in lines}
    shown = call("runs", "list", store)
    assert "central private Frank-Wolfe" in shown
    assert "1 (delta 1e-06)" in shown
    assert [line["run"] for line in lines] == call("runs", "list", store, "--quiet").split()


@pytest.mark.chance(0, "states of runs: nothing that was drawn is compared")
def test_a_run_whose_lock_is_held_is_running(store: Path) -> None:
    run = json.loads(call("runs", "list", store, "--json"))[1]["run"]
    with (store / "locks" / f"{run}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert json.loads(call("runs", "list", store, "--json"))[1]["state"] == "running"
        assert json.loads(call("runs", "show", store, run, "--json"))["state"] == "running"
    assert json.loads(call("runs", "list", store, "--json"))[1]["state"] == "interrupted"


@pytest.mark.chance(0, "one id is compared with itself")
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


@pytest.mark.chance(0, "prices alone are compared")
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


@pytest.mark.chance(0, "prices of the releases before the third letter, whatever was chosen")
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


@pytest.mark.chance(0, "prices alone are compared")
def test_a_new_period_begins_with_nothing_spent(tmp_path: Path) -> None:
    fit(tmp_path)
    call("budget", "renew", tmp_path, "clinic", "--reason", "other patients", "--yes")
    account = json.loads(call("budget", "show", tmp_path, "--json"))[0]
    assert (account["epsilon_released"], account["epsilon_reserved"]) == (0.0, 0.0)
    assert account["epsilon_lifetime"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.chance(0, "whether answers are JSON: prices and states are in them, no noise")
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


@pytest.mark.chance(0, "whether ledgers are whole, whatever was drawn")
def test_a_quiet_check_says_nothing_where_all_is_in_order(store: Path) -> None:
    assert call("budget", "verify", store, "--quiet") == ""


# ------------------------------------------------------------------------------------------------ pipes and colours


def run_program(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")}
    command = [str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**clean, **environment})


@pytest.mark.chance(0, "words of a table and exit codes: nothing that was drawn is shown")
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


@pytest.mark.chance(0, "exit codes alone")
def test_exit_codes_are_those_that_are_documented(store: Path) -> None:
    assert CliRunner().invoke(app, ["runs", "list", str(store)]).exit_code == 0
    assert CliRunner().invoke(app, ["runs", "list", str(store / "absent")]).exit_code == 1
    assert CliRunner().invoke(app, ["runs", "list"]).exit_code == 2
    assert CliRunner().invoke(app, ["runs", "list", str(store), "--colour"]).exit_code == 2


def test_ctrl_c_is_130_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, explained("the same command goes on."):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "stopped: the same command goes on.\n"


# ------------------------------------------------------------------------------------------------ every command


def commands() -> dict[str, Any]:
    """Every command by its words, walked from the program itself: a new one cannot be forgotten."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*words, name))
        if not hasattr(command, "commands"):
            yield " ".join(words), command

    return dict(walk(typer.main.get_command(app), ()))


COMMANDS = commands()


def test_the_list_of_commands_has_the_first_words_of_their_own_help() -> None:
    whole = typer.main.get_command(app)
    own = {name: " ".join(inspect.cleandoc(one.help).split("\n\n")[0].split()) for name, one in whole.commands.items()}
    assert own == {name: listed.line for name, listed in LISTED.items()}


def test_a_list_of_commands_loads_no_command(tmp_path: Path) -> None:
    code = (
        "import sys; from colonnade.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print([n for n in sys.modules if n.startswith('colonnade.cli.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "['colonnade.cli.options', 'colonnade.cli.terminal']"


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_answers_scripts_and_programs(words: str) -> None:
    options = {option for parameter in COMMANDS[words].params for option in parameter.opts}
    assert {"--json", "--quiet", "-q"} <= options


@pytest.mark.parametrize("words", COMMANDS)
def test_every_help_has_an_example_and_the_exit_codes_and_no_colours_in_a_pipe(words: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), "--help"], prog_name="colonnade")
    text = " ".join(done.stdout.split())
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert EXIT_CODES in text
    assert re.search(rf"Examples?: ([A-Z_]+=\S+ )?colonnade {words}\b", text)


@pytest.mark.parametrize("words", COMMANDS)
def test_nothing_that_a_command_does_is_outside_of_what_explains_errors_and_ctrl_c(words: str) -> None:
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(COMMANDS[words].callback)))
    body = ast.parse(source).body[0].body[1:]  # after the docstring
    assert len(body) == 1
    assert isinstance(body[0], ast.With)
    assert ast.unparse(body[0].items[0].context_expr).startswith("explained(")


def test_what_ctrl_c_says_tells_how_to_go_on() -> None:
    for path in (Path(co.__file__).parent / "cli").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "explained" and call.args:
                module = importlib.import_module(f"colonnade.cli.{path.stem}")
                given = call.args[0]
                said = given.value if isinstance(given, ast.Constant) else getattr(module, given.id)
                assert re.search(r"same command|goes? on|again", said), (path.name, said)
    assert "same command" in AGAIN


@pytest.mark.chance(0, "exit codes and words: nothing that was drawn is compared")
def test_ctrl_c_at_a_question_changes_nothing_and_is_130(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object, **__: object) -> bool:
        raise typer.Abort

    monkeypatch.setattr(typer, "confirm", pressed)
    words = ["budget", "renew", str(store), "clinic", "--reason", "x"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr.count("\n")) == (130, 1)
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: False)
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "nothing was changed\n")
    assert json.loads(call("budget", "show", store, "--json"))[0]["period"] == 1


def test_a_process_that_is_interrupted_leaves_one_line_and_130() -> None:
    """A real process and a real signal, sent once the work has begun."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("whether the work has begun is read from /proc, which this system has not")
    words = ["audit", "gaussian", "--effort", "1000", "--jobs", "1"]
    with subprocess.Popen([str(PROGRAM), *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            maps = Path(f"/proc/{process.pid}/maps")
            while process.poll() is None and "llvmlite" not in maps.read_text(encoding="utf-8"):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, f"stopped: {AGAIN}\n")


def test_ctrl_c_is_heard_where_python_ignores_what_a_callback_raises() -> None:
    """As the callbacks of locks of imports do, of which a command has thousands."""
    program = """
import signal, sys, time, weakref
import colonnade.cli as cli

def work(**_):
    class Lock:
        pass

    lock = Lock()
    watched = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGINT))
    del lock
    print("went on", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("heard")

cli.app = work
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\nheard\n", "")


def test_what_else_a_callback_raises_is_shown_as_ever() -> None:
    program = """
import weakref
import colonnade.cli as cli

def work(**_):
    class Lock:
        pass

    lock = Lock()
    watched = weakref.ref(lock, lambda _: 1 / 0)
    del lock

cli.app = work
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, "ZeroDivisionError" in done.stderr) == (0, True)


# Commands whose work may take longer than two seconds, and what shows that it goes on.
LONG = {
    "audit": "watched = on_screen(quiet or as_json)",
    "budget show": "busy(",
    "budget verify": "busy(",
    "coordinator run": "on_screen(quiet or as_json)",
    "demo": "watched = told.is_terminal and not silent",
    "doctor": "busy(",
    "federation check": "busy(",
    "federation example": "busy(",
    "federation new": "busy(",
    "fit": "progress=on_screen(",
    "report": "busy(",
    "sparse": "progress_bar(on_screen(",
}


@pytest.mark.parametrize("words", LONG)
def test_long_work_shows_that_it_goes_on(words: str) -> None:
    module = inspect.getmodule(COMMANDS[words].callback)
    assert module is not None
    assert LONG[words] in inspect.getsource(module)


def test_a_sign_of_life_is_for_terminals_that_did_not_ask_for_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    import rich.console

    out, console = io.StringIO(), rich.console.Console
    for terminal, silent, seen in ((True, False, True), (True, True, False), (False, False, False)):
        out.truncate(out.seek(0))
        monkeypatch.setattr(
            rich.console, "Console", lambda terminal=terminal, **_: console(file=out, force_terminal=terminal, width=80)
        )
        with busy("waiting for 3 parties", silent):
            pass
        assert ("waiting for 3 parties" in out.getvalue()) is seen


@pytest.mark.chance(0, "words, prices and forms of keys: nothing that was drawn is compared")
def test_quiet_answers_are_words_and_json_answers_are_objects(store: Path, tmp_path: Path) -> None:
    run = call("runs", "list", store, "-q").split()[0]
    party_key = call("party", "key", tmp_path / "a.key", "-q").strip()
    assert call("runs", "show", store, run, "-q") == "finished\n"
    assert call("budget", "show", store, "-q") == "clinic\tno limit on record\n"
    assert call("budget", "plan", store, "clinic", "--epsilon", 1, "-q") == "yes\n"
    assert call("budget", "notes", store, "clinic", "-q") == "0\n"
    assert call("budget", "set", store, "clinic", "--epsilon", 9, "-q") == ""
    assert re.fullmatch(r"clinic\t\d\.\d+\n", call("budget", "show", store, "-q"))
    assert call("init", tmp_path / "c.toml", "-q") == ""
    assert {"file": str(tmp_path / "d.toml"), "kind": "federation"} == json.loads(
        call("init", tmp_path / "d.toml", "--json")
    )
    assert call("budget", "export", store, "clinic", "--json") == call(
        "budget", "export", store, "clinic", "--format", "json"
    )
    assert re.fullmatch(r"ed25519:[0-9a-f]{64}", party_key)
    assert call("certs", "init", tmp_path / "ca", "-q").strip().endswith("authority.pem")
    issued = json.loads(call("certs", "issue", tmp_path / "ca", "coordinator", "--json"))
    assert issued["fingerprint"] in call("certs", "show", tmp_path / "ca", "-q").split()
    assert {
        name: value
        for name, value in json.loads(call("certs", "revoke", tmp_path / "ca", "coordinator", "--json")).items()
        if name != "list"
    } == {"name": "coordinator", "revoked": 1}


@pytest.mark.chance(0, "where a report is, not what it says")
def test_a_report_is_told_as_json_or_not_at_all(store: Path, tmp_path: Path) -> None:
    run = call("runs", "list", store, "-q").split()[0]
    words = ("report", store / "fits" / f"{run}.json", "--output", tmp_path / "r.html")
    assert call(*words, "--quiet") == ""
    assert {"report": str(tmp_path / "r.html")} == json.loads(call(*words, "--overwrite", "--json"))


@pytest.mark.chance(0, "words and budgets on a screen: nothing that was drawn is shown")
def test_a_narrow_screen_cuts_neither_names_nor_figures(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    from colonnade.cli import budget

    monkeypatch.setattr(budget, "answers", lambda: Console(width=80))
    call("budget", "set", store, "clinic", "--epsilon", 9)
    budget.show(store)
    text = capsys.readouterr().out
    assert "…" not in text
    for name in ("clinic", "left of the limit", "in all periods", "ε 9 (δ 1e-06)"):
        assert name in text


@pytest.mark.chance(0, "prices are plotted, and nothing that was drawn")
def test_a_plot_beside_json_does_not_disturb_it(store: Path, tmp_path: Path) -> None:
    json.loads(call("budget", "show", store, "--json", "--plot", tmp_path / "plot.html"))
    assert (tmp_path / "plot.html").is_file()


def test_a_command_whose_extra_is_absent_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, explained():
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
    assert left.value.exit_code == 1
    assert capsys.readouterr().err == "error: this command needs grpc. Try: pip install 'colonnade[grpc]'\n"
    with pytest.raises(ModuleNotFoundError), explained():
        raise ModuleNotFoundError("No module named 'typo'", name="typo")
