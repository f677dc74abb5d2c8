"""Every command ends with the code that its help promises: 0 done, 1 refused or failed, 2 wrong usage, 130 Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from colonnade.cli import app

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def leaves(command: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command that does something, by its words."""
    if not hasattr(command, "commands"):
        return {" ".join(words): command}
    return {k: v for name, one in command.commands.items() for k, v in leaves(one, (*words, name)).items()}


COMMANDS = leaves(typer.main.get_command(app))
# Of commands that refuse nothing when their files are absent: what they do refuse. None: they refuse nothing.
REFUSED: dict[str, list[str] | None] = {
    "audit": ["audit", "no-such-target"],
    "init": ["init", "{there}"],
    "doctor": None,  # below
    "demo": ["demo", "--report", "{absent}/report.html"],
    "version": None,
    "data inspect": ["data", "inspect"],
    "data list": None,
    "party key": ["party", "key", "{absent}/key"],
    "federation example": ["federation", "example", "{folder}"],
    "budget set": ["budget", "set", "{absent}", "clinic", "--epsilon", "-1"],
    "certs init": ["certs", "init", "{full}"],
}


def invoked(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, str]:
    tmp_path: Path = tmp_path_factory.mktemp("places")
    (tmp_path / "there").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    invoked("certs", "init", str(tmp_path / "full"))
    return {name: str(tmp_path / name) for name in ("there", "folder", "full", "absent")}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_does_not_exist_is_wrong_usage(name):
    done = invoked(*name.split(), "--no-such-option")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if any(p.required for p in one.params)])
def test_an_argument_that_is_missing_is_wrong_usage(name):
    assert invoked(*name.split()).exit_code == 2


@pytest.mark.parametrize("name", [name for name in COMMANDS if REFUSED.get(name, []) is not None])
def test_what_is_refused_is_one_line_and_code_1(name, places):
    words = REFUSED.get(name)
    if words is None:
        words = name.split()
        for parameter in COMMANDS[name].params:
            if parameter.param_type_name == "argument" and parameter.required:
                words = [*words, "{absent}"]
            elif parameter.required:
                words = [*words, parameter.opts[0], "1"]
    done = invoked(*(word.format(**places) for word in words))
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert not Path(places["absent"]).exists()


@pytest.mark.parametrize("words", [["version"], ["data", "list"], ["audit", "--list"]])
def test_what_only_tells_something_ends_with_0(words):
    done = invoked(*words)
    assert (done.exit_code, bool(done.stdout)) == (0, True)


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("note", 0), ("trouble", 1)])
def test_the_doctor_fails_where_a_run_would_and_not_where_it_has_a_note(state, code, monkeypatch):
    from colonnade.cli import doctor

    monkeypatch.setattr(doctor, "examine", lambda _: [doctor.Check("disk", state, "found", "do this")])
    for flags in ([], ["--json"], ["--quiet"]):
        assert invoked("doctor", *flags).exit_code == code


@pytest.mark.parametrize(("violated", "code"), [(True, 1), (False, 0)])
def test_an_audit_fails_where_a_claim_is_refuted_and_only_there(violated, code, monkeypatch):
    from importlib import import_module

    target, attacks = "gaussian", import_module("colonnade.attacks.run")
    found = SimpleNamespace(target=target, verdict=SimpleNamespace(violated=violated))
    line = {"target": target, "verdict": "violated" if violated else "consistent"}
    monkeypatch.setattr(attacks, "sweep", lambda *_, **__: [found])
    monkeypatch.setattr(attacks, "rows", lambda _: [line])
    for flags in ([], ["--json"], ["--quiet"]):
        done = invoked("audit", target, *flags)
        assert done.exit_code == code
        assert (target in done.stdout) == (violated or flags != ["--quiet"])


def test_without_privacy_an_interrupted_command_ends_with_130(monkeypatch, places):
    from colonnade.runs import budgets as budget

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(budget, "verify_ledgers", pressed)
    done = invoked("budget", "verify", places["folder"])
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.startswith("stopped: ")
