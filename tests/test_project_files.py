"""The files around the code: what they name is there, and what they pin is what is tested."""

from __future__ import annotations

import ast
import os
import platform
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colonnade.cli import app

yaml = pytest.importorskip("yaml", reason="no reader of YAML is installed: pip install pyyaml")

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FILES = [
    ".github",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "CITATION.cff",
    ".pre-commit-config.yaml",
    "examples",
    "pyproject.toml",
]
LOCKED = ROOT / "examples" / "locked-linux-x86_64.txt"
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: --hash=sha256:([0-9a-f]{64}))?")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_no_file_of_tests_imports_from_another():
    """What several share is in tests/helpers: a file of tests can be changed or removed by itself."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not any(part.startswith("test_") for part in (node.module or "").split(".")), path


def loaded(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def pins(path: Path) -> dict[str, tuple[str, str | None]]:
    found = [PIN.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found)
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): (pin[2], pin[3]) for pin in found if pin}


def texts() -> list[Path]:
    places = [ROOT / name for name in FILES]
    found = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_hosted_checks_run_the_same_commands_on_every_python_and_system_that_is_supported() -> None:
    job = loaded(".github/workflows/check.yml")["jobs"]["check"]
    classifiers = [name.rpartition(" :: ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert job["strategy"]["matrix"] == {"system": ["ubuntu-latest", "macos-latest"], "python": classifiers}
    assert classifiers == ["3.11", "3.12", "3.13", "3.14"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["make check", "make test"]
    assert {command.split()[1] for command in commands} <= TARGETS


def test_the_hooks_before_a_commit_are_the_lines_of_make_check() -> None:
    hooks = [hook["entry"] for repo in loaded(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    lines = [line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in recipe[1].splitlines()]
    assert hooks == lines


def test_the_citation_and_the_package_name_the_same_version_licence_and_authors() -> None:
    cited = loaded("CITATION.cff")
    assert (str(cited["version"]), cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["authors"] == PROJECT["authors"] == [{"name": "The Colonnade authors"}]
    series = PROJECT["version"].rpartition(".")[0]
    assert f"| {series}, and" in (ROOT / "SECURITY.md").read_text()


def test_no_file_around_the_code_has_an_address_or_a_link_to_a_host() -> None:
    for path in texts():
        assert not re.search(r"https?://|[\w.]+@[\w-]+\.\w", path.read_text()), path


def test_every_form_asks_for_something_and_says_where_faults_in_a_guarantee_go() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert len(forms) == 2
    for form in forms:
        asked = loaded(str(form.relative_to(ROOT)))
        assert {"name", "description", "body"} <= set(asked)
        assert any(part.get("validations", {}).get("required") for part in asked["body"])
        names = [part["id"] for part in asked["body"] if part["type"] != "markdown"]
        assert len(names) == len(set(names))
    assert "private form" in forms[0].read_text()


# ------------------------------------------------------------------------------------------------ examples


def steps() -> list[list[str]]:
    lines = [
        line for line in (ROOT / "examples" / "Containerfile").read_text().splitlines() if not line.startswith("#")
    ]
    return [line.split(" ", 1) for line in lines]


def test_the_container_installs_what_is_tested_with_hashes_and_runs_as_nobody_special() -> None:
    locked, tested = pins(LOCKED), pins(ROOT / "constraints.txt")
    assert {name: version for name, (version, _) in locked.items()} == {name: tested[name][0] for name in locked}
    assert all(digest for _, digest in locked.values())
    direct = {re.split(r"[<>=]", need)[0] for need in PROJECT["dependencies"]} | {"grpcio", "hatchling"}
    assert direct <= set(locked)
    last = [argument for word, argument in steps() if word == "USER"][-1]
    assert int(last) >= 1000
    installs = [argument for word, argument in steps() if word == "RUN" and "pip install" in argument]
    assert ["--require-hashes" in line or "--no-deps" in line for line in installs] == [True, True]


@pytest.mark.parametrize("name", ["Containerfile", "colonnade-party.service"])
def test_what_an_example_starts_is_a_command_with_these_options(name: str) -> None:
    text = (ROOT / "examples" / name).read_text()
    if name == "Containerfile":
        (found,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
        words = yaml.safe_load(found)
    else:
        (found,) = re.findall(r"^ExecStart=\S*/colonnade (.*)$", text, re.MULTILINE)
        words = shlex.split(found)
    assert words == ["party", "run", "party.toml", "--json"]
    shown = CliRunner().invoke(app, ["party", "run", "nowhere.toml", "--json"])
    assert shown.exit_code == 1  # the options are known; the file is not there
    assert "nowhere.toml" in shown.output


@pytest.mark.slow
@pytest.mark.skipif(
    (platform.system(), platform.machine(), sys.version_info[:2]) != ("Linux", "x86_64", (3, 11)),
    reason="the container's list is for Linux on x86-64 with Python 3.11",
)
def test_the_steps_of_the_container_build_a_party(tmp_path: Path) -> None:
    """Minutes: the lines of the container file in a fresh environment, without its rights of root."""
    venv.create(tmp_path / "fresh", with_pip=True)
    path = f"{tmp_path / 'fresh' / 'bin'}:{os.environ['PATH']}"
    lines = [argument for word, argument in steps() if word == "RUN" and "pip install" in argument]
    for line in lines:
        command = line.replace("/src", str(ROOT)).partition(" && ")[0]
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=1200, env=os.environ | {"PATH": path}
        )
        if "--require-hashes" in line and done.returncode and "No matching distribution" in done.stderr:
            pytest.skip("the package registry cannot be reached, so nothing can be installed")
        assert done.returncode == 0, done.stderr[-3000:]
    tool = tmp_path / "fresh" / "bin" / "colonnade"
    shown = subprocess.run([tool, "party", "run", "--help"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert shown.returncode == 0
    assert "--json" in shown.stdout
