"""Every command that a document shows is one that this version has, and those of the benchmarks and papers run.

Collected are lines of shell and spans in README.md, CONTRIBUTING.md, docs/, papers/README.md and examples/. What a
command means here is in `meaning`: commands, options and names are looked up in the program itself. A command of another program stands in
`ELSEWHERE`, with the reason why no test runs it; a new one without either fails.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import benchmarks
import papers.commands
from benchmarks.__main__ import HELPERS
from colonnade.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "papers" / "README.md",
    *sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".ipynb", ".yaml", ".service")),
]
BENCHMARKS = sorted(one.name for one in pkgutil.iter_modules(benchmarks.__path__) if one.name not in HELPERS)
CHEAP = ("ledger",)  # a second: in every run
FENCED = ("sh", "bash", "console", "shell", "text")
PROGRAMS = (
    "colonnade", "make", "python", "python3", "pip", "pre-commit", "kubectl", "docker", "podman", "systemctl", "curl",
    "sqlite3", "git", "openssl", "psql", "jupyter",
)  # fmt: skip
# Of other programs, and why no test runs them; of our own, where more than their options cannot be tried.
ELSEWHERE = {
    r"pip install .*": "installs; tests/test_packaging.py does, in an environment of its own",
    r"pre-commit install": "changes the hooks of a clone; tests/test_project_files.py reads its file",
    r"kubectl (create|apply|exec) .*": "needs a cluster; tests/test_deployment.py does what they do",
    r"(docker|podman) .*": "needs a container engine; tests/test_deployment.py reads the files",
    r"systemctl .*": "needs systemd; tests/test_deployment.py reads the files",
    r"curl -s localhost:8440/score .*": "tests/network/test_score_service.py sends the same bodies",
    r"sqlite3 .*": "tests/test_docs.py runs the queries of the page, and tests/network/test_backup_drill.py the copies",
    r"python -m pytest .*": "a test runs no tests",
    r"python docs/picture.py": "writes README's picture; a slow test of tests/test_docs.py runs what it draws",
    r"python examples/run.py": "writes the notebooks; tests/test_examples.py runs them",
}
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z_]+(\.\w+)?|\[.*|.*\]|.*\|.*")  # FILE, ..., [TARGET], show|regress


def spans(text: str) -> Iterator[str]:
    """What could be a command: spans of code, lines of fenced blocks, comments of configuration files."""
    language = None
    lines = text.replace("\\\n", " ").splitlines()
    for line in lines:
        if fence := re.match(r"\s*```(\w*)", line):
            language = None if language is not None else fence[1]
        elif language in FENCED:
            yield re.split(r"\s+#\s|\s{3,}", line.strip())[0]
        elif language is None:
            yield from re.findall(r"`([^`\n]+)`", line)
            if line.startswith("#   "):
                yield line.removeprefix("#   ")


def commands() -> dict[str, set[str]]:
    """Every command, and the pages that show it."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = text.replace("\\n", "\n").replace('\\"', '"')
        for span in spans(text):
            span = re.sub(r"^([A-Z_]+=\S+ )+", "", span.removeprefix("$ ")).replace(".venv/bin/", "")
            if span.split(" ")[0] in PROGRAMS:
                found.setdefault(span, set()).add(page.name)
    return found


COMMANDS = commands()


# ------------------------------------------------------------------------------------------------ what a command means


def check_click(group: Any, words: list[str]) -> None:
    """The subcommand is there, and has every option that is named, with as many words as it takes."""
    while hasattr(group, "commands") and words and not PLACEHOLDER.fullmatch(words[0]):
        assert words[0] in group.commands, f"there is no {words[0]!r}; there are {sorted(group.commands)}"
        group = group.commands[words.pop(0)]
    known = {name: one for one in group.params for name in (*one.opts, *one.secondary_opts)} | {"--help": None}
    at_once, left = [], list(words)
    while left:
        word = left.pop(0)
        if word.startswith("-") and not re.fullmatch(r"-\d.*", word):
            name, _, value = word.partition("=")
            assert name in known, f"there is no option {name}; there are {sorted(known)}"
            option = known[name]
            if option is not None and not getattr(option, "is_flag", False) and not value and left:
                left.pop(0)
        elif not PLACEHOLDER.fullmatch(word):
            at_once.append(word)
    arguments = [one for one in group.params if one.param_type_name == "argument"]
    assert len(at_once) <= len(arguments) or any(one.nargs == -1 for one in arguments), f"too many words: {at_once}"


def check_colonnade(words: list[str]) -> None:
    check_click(typer.main.get_command(app), words)


@cache
def figures() -> tuple[str, ...]:
    from papers.registry import discover

    return tuple(discover())


def check_papers(words: list[str]) -> None:
    check_click(typer.main.get_command(papers.commands.app), list(words))
    if words[:1] == ["run"]:
        for name in (word for word in words[1:] if not word.startswith("-")):
            assert any(fnmatch(figure, name) for figure in figures()), f"no figure {name!r}"


def check_benchmarks(words: list[str]) -> None:
    assert {word for word in words if word.startswith("-")} <= {"--full", "--smoke"}
    assert {word for word in words if not word.startswith("-")} <= set(BENCHMARKS)


def check_one_benchmark(name: str, words: list[str]) -> None:
    """A benchmark that reads options of its own: all that are named stand in its file."""
    assert name in BENCHMARKS
    text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    for word in words:
        assert not word.startswith("--") or f'"{word}"' in text, f"benchmarks.{name} has no option {word}"


def check_program(code: str) -> None:
    """It compiles, and what it imports is there."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, one.name) for one in node.names)


def check_make(words: list[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word for word in words if "=" not in word} <= targets


def meaning(command: str) -> Callable[[], None] | None:
    """What checks a command; None where nothing does."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    match words:
        case ["colonnade", *rest]:
            return lambda: check_colonnade(rest)
        case ["make", *rest]:
            return lambda: check_make(rest)
        case ["python", "-c", code]:
            return lambda: check_program(code)
        case ["python", "-m", "benchmarks", *rest]:
            return lambda: check_benchmarks(rest)
        case ["python", "-m", module, *rest] if module.startswith("benchmarks."):
            return lambda: check_one_benchmark(module.partition(".")[2], rest)
        case ["python", "-m", "papers", *rest]:
            return lambda: check_papers(rest)
        case ["python", "docs/generate.py", *rest] if set(rest) <= {"--check"}:
            return lambda: None  # tests/test_docs.py runs it
    if any(re.fullmatch(one, command, re.DOTALL) for one in ELSEWHERE):
        return lambda: None
    return None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_documented_command_is_one_that_this_version_has(command: str) -> None:
    check = meaning(command)
    assert check is not None, f"{sorted(COMMANDS[command])}: say in `meaning` or in ELSEWHERE how `{command}` is tried"
    check()


def test_commands_are_found_and_wrong_ones_are_seen() -> None:
    assert len(COMMANDS) > 150
    assert {"colonnade fit study.toml --epsilon 1", "python -m benchmarks coverage", "make slow"} <= set(COMMANDS)
    for wrong in (
        "colonnade fitt study.toml",
        "colonnade fit study.toml --epsilom 1",
        "colonnade jobs list one two",
        "python -m benchmarks coverag",
        "python -m papers run no-such-figure",
        "python -m benchmarks.accuracy --ful",
        "make everything",
        'python -c "from benchmarks.admm import rhoo"',
    ):
        check = meaning(wrong)
        assert check is not None
        with pytest.raises((AssertionError, ImportError)):
            check()
    assert meaning("curl example.org") is None


def test_every_reason_not_to_run_a_command_is_for_one_that_is_shown() -> None:
    unused = [one for one in ELSEWHERE if not any(re.fullmatch(one, command, re.DOTALL) for command in COMMANDS)]
    assert unused == []


# ------------------------------------------------------------------------------------------------ those that run


def run(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=around, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.slow) for name in BENCHMARKS]
)
def test_a_benchmark_runs_at_its_smoke_size(name: str, tmp_path: Path) -> None:
    done = run("-m", "benchmarks", "--smoke", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"== {name} smoke" in done.stdout


def test_the_coverage_of_inference_is_measured_by_the_function_that_the_library_has() -> None:
    """One cell of it, as the whole takes longer than every run should: the source of a table in docs/use/inference.md."""
    from benchmarks.coverage import NUMBERS, Cell, measure, simulated

    found = measure(Cell(*simulated("gauss", 5, seed=5), NUMBERS, 2_000, 4.0), 2, seed=1)
    assert 0.0 <= found.mean <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("pages", "--check"),
        ("run", "lou-2", "--results", "{folder}"),
        ("comparison", "--help"),
        ("findings", "--help"),
    ],
)
def test_the_commands_of_the_papers_run(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run("-m", "papers", *(word.format(folder=tmp_path) for word in words))
    assert done.returncode == 0, done.stderr[-2000:]
