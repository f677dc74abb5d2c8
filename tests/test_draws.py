"""Claims about tests/draws.py: a test that draws without a seed and says no odds fails; and about the odds of the whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import draws

ROOT = Path(__file__).parents[1]
DRAWS = """
import os, secrets
import numpy as np, pytest
from colonnade.privacy.mechanisms import SeededNoise, SystemNoise
from colonnade.runtime.program import public_bytes
from colonnade.runtime.run_store import new_run_id

def noise():
    SystemNoise().discrete_gaussian(3, 2.0)

def forked():
    if not (child := os.fork()):
        noise()
        os._exit(0)
    os.waitpid(child, 0)

def seeded():
    SeededNoise(1).discrete_gaussian(3, 2.0)
    np.random.default_rng(1).normal()
    public_bytes("run", "blocks")

HOW = {
    "noise": noise, "child": forked, "generator": np.random.default_rng, "token": lambda: secrets.token_hex(4),
    "system": lambda: os.urandom(4), "public": lambda: public_bytes(new_run_id(), "blocks"), "seeded": seeded,
}

@pytest.mark.parametrize("how", HOW)
def test_nobody_says(how):
    HOW[how]()

@pytest.mark.chance(1e-9, "a bound")
@pytest.mark.parametrize("how", HOW)
def test_itself_says(how):
    HOW[how]()

@pytest.fixture(scope="module")
def drawn():
    noise()

def test_first_of_fixture(drawn):
    pass

def test_second_of_fixture(drawn):
    pass

def test_after():
    pass
"""
ALWAYS = {"noise", "child", "generator", "public"}


def run(folder: Path, text: str, *words: str) -> str:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = chance: odds\n")
    command = [sys.executable, "-m", "pytest", "-rf", "--tb=short", "-p", "tests.draws", *words, str(folder)]
    environment = {name: value for name, value in os.environ.items() if name not in ("DRAWN", "DRAWS")}
    return subprocess.run(
        command, cwd=ROOT, env={**environment, "COLUMNS": "300"}, capture_output=True, text=True, timeout=120
    ).stdout


def failed(told: str) -> set[str]:
    names = re.findall(r"^FAILED \S*::test_(\S+)", told, re.MULTILINE)
    assert len(re.findall("^this test draws without a seed", told, re.MULTILINE)) == len(names)
    return set(names)


def test_a_test_that_draws_and_does_not_say_its_odds_fails(tmp_path):
    told = run(tmp_path, DRAWS)
    fixture = {"first_of_fixture", "second_of_fixture"}
    assert failed(told) == {f"nobody_says[{how}]" for how in (*ALWAYS, "token", "system")} | fixture
    assert "8 failed, 9 passed" in told


def test_a_mark_on_the_file_is_enough_for_bytes_and_for_nothing_else(tmp_path):
    told = run(tmp_path, DRAWS + "\npytestmark = pytest.mark.chance(0, 'ids')\n")
    assert failed(told) == {f"nobody_says[{how}]" for how in ALWAYS} | {"first_of_fixture", "second_of_fixture"}


def test_the_odds_are_added_up_over_all_cases(tmp_path):
    told = run(tmp_path, DRAWS, "--odds")
    assert "17 tests, 7 of them draw; the sum of their odds is 7e-09" in told
    assert "a run fails by chance at most once in 140,000,000 runs" in told  # 1 / 7e-9 = 142,857,142.8
    assert "passed" not in told


@pytest.mark.parametrize("mark", ["2e-7, 'why'", "0, ''", "-1e-9, 'why'"])
def test_a_mark_without_a_reason_or_with_large_odds_is_refused(tmp_path, mark):
    told = run(tmp_path, f"import pytest\n@pytest.mark.chance({mark})\ndef test_it():\n    pass\n", "--odds")
    assert "sum of their odds" not in told


def test_the_odds_of_a_whole_run_are_small_and_stated(request):
    """Of the tests that this run has collected; whoever runs some of them has a smaller sum."""
    config = request.config
    total = sum(draws.odds_of(request.session.items).values())
    assert total <= draws.SUM
    if config.args_source is config.ArgsSource.TESTPATHS and not config.option.keyword:
        assert f"A run of `make test` {draws.stated(total)}" in " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
