"""The command line: one line for every mistake, exit codes that scripts can use."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli import demo_run as demo

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

PROGRAM = Path(sys.executable).with_name("colonnade")


def call(*words):
    return CliRunner().invoke(app, words, prog_name="colonnade")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    fit = co.fit(co.Federation.split(X, X[:, 0]), problem, co.DistributedFrankWolfe(rounds=3))
    path = tmp_path_factory.mktemp("fits") / "fit.json"
    fit.save(path)
    return path


@pytest.mark.parametrize("words", [("version",), ("--version",)])
def test_the_version_is_that_of_the_package(words):
    answer = call(*words)
    assert (0, f"colonnade {version('colonnade')}\n") == (answer.exit_code, answer.stdout)


def test_the_help_names_every_command_and_where_to_begin():
    answer = call("--help")
    assert answer.exit_code == 0
    for words in ("demo", "report", "version", "colonnade demo"):
        assert words in answer.stdout


@pytest.mark.parametrize("command", ["demo", "report"])
def test_the_help_of_a_command_has_examples(command):
    text = call(command, "--help").stdout
    assert "Examples:" in text
    assert text.count(f"colonnade {command} ") >= 3  # the usage line, and two examples


def test_a_saved_fit_becomes_a_report(saved, tmp_path):
    answer = call("report", str(saved), "--output", str(tmp_path / "out.html"))
    assert (0, f"{tmp_path / 'out.html'}\n") == (answer.exit_code, answer.stdout)
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_damaged_file_is_one_line_on_standard_error_and_exit_code_one(saved, tmp_path):
    damaged = tmp_path / "fit.json"
    damaged.write_text(saved.read_text() + " ")
    done = subprocess.run([PROGRAM, "report", damaged], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Restore it from a copy" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr  # no colours where nobody sees them
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]


def test_a_file_that_is_not_there_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no demo has left its report
    answer = call("report", "nowhere.json")
    assert answer.exit_code == 1
    assert "Check the path" in answer.stderr


@pytest.mark.parametrize(
    "words", [("demo", "--nonsense"), ("demo", "--rows", "0"), ("demo", "--rounds", "few"), ("report",), ("no",)]
)
def test_wrong_usage_is_exit_code_two(words):
    answer = call(*words)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, tmp_path):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    answer = call("demo", "--report", str(tmp_path / "report.html"))
    assert (answer.exit_code, answer.stdout) == (130, "")
    assert answer.stderr.count("\n") == 1
    assert "Traceback" not in answer.stderr


def test_a_report_that_cannot_be_written_is_refused_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "run", lambda **_: pytest.fail("the demo began"))
    answer = call("demo", "--report", str(tmp_path / "missing" / "report.html"))
    assert answer.exit_code == 1
    assert "does not exist" in answer.stderr
