"""`python -m papers`: its help, its exit codes, one figure from end to end, and pages whose links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from papers.commands import app
from papers.page import foot
from papers.plot import from_values, to_svg
from papers.registry import discover

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands
PAGES = sorted((ROOT / "papers").glob("*.md"))
SMALL = "finding-sketch-noise"


def test_the_module_runs_from_the_projects_root():
    done = subprocess.run([sys.executable, "-m", "papers", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "Usage: python -m papers" in done.stdout
    assert all(name in done.stdout for name in ("list", "run", "all", "findings", "comparison", "publish", "pages"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_that_can_be_copied(name):
    done = CliRunner().invoke(app, [name, "--help"], prog_name="python -m papers")
    assert done.exit_code == 0
    assert f"python -m papers {name}" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_does_not_exist_is_wrong_usage(name):
    done = CliRunner().invoke(app, [name, "--no-such-option"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_run_of_nothing_is_wrong_usage():
    assert CliRunner().invoke(app, ["run"]).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["run", "no-such-figure"],
        ["publish", "--results", "{absent}", "--pages", "{absent}"],
        ["pages", "--pages", "{absent}"],
        ["comparison", "--page", "{absent}"],
    ],
)
def test_what_is_refused_is_one_line_and_code_1(words, tmp_path):
    absent = tmp_path / "absent"
    done = CliRunner().invoke(app, [word.format(absent=absent) for word in words])
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert not absent.exists()


def test_the_list_names_every_figure(tmp_path):
    done = CliRunner().invoke(app, ["list", "--results", str(tmp_path), "--quiet"])
    assert (done.exit_code, done.stdout.split()) == (0, list(discover()))


def test_a_figure_runs_from_end_to_end_and_is_drawn(tmp_path):
    done = CliRunner().invoke(app, ["run", SMALL, "--results", str(tmp_path), "--jobs", "1", "--json"])
    assert done.exit_code == 0, done.output
    (said,) = json.loads(done.stdout)
    assert said["status"] == "as stated"
    svg = (tmp_path / SMALL / "figure.svg").read_text()
    kept = json.loads((tmp_path / SMALL / "plot.json").read_text())
    assert svg == to_svg(from_values(kept), foot(said["run"], said["privacy"]))  # as `draw` makes it of the record
    drawn = ET.fromstring(svg)
    told = " ".join(element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text"))
    assert f"Privacy: {said['privacy']}" in told
    assert f"{SMALL}/figure.svg" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page):
    text = page.read_text(encoding="utf-8")
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert targets
    assert {target for target in targets if target and not (page.parent / target).is_file()} == set()
