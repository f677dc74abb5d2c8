"""Claims about the processes that run the tests: every test runs once, and no failure is lost, not even a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the tests run in processes of pytest-xdist")

ROOT = Path(__file__).parents[1]
NOTE = "from pathlib import Path\ndef note(name):\n    (Path(__file__).parent / 'ran').open('a').write(name + ' ')\n"
PASSES = "from note import note\ndef test_one():\n    note('one')\ndef test_two():\n    note('two')\n"
FAILS = "from note import note\ndef test_three():\n    note('three')\n    assert 1 + 1 == 3\n"
DIES = "import os\ndef test_four():\n    os._exit(0)\n"


def run(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"note": NOTE, **files}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forks", "--forks", "2", str(folder)]
    return subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{folder}"}, capture_output=True, text=True, timeout=120
    )


def test_every_test_runs_once_and_a_failure_is_told_as_in_one_process(tmp_path):
    done = run(tmp_path, test_a=PASSES, test_b=FAILS, test_c=PASSES)
    assert done.returncode == 1, done.stderr
    assert sorted((tmp_path / "ran").read_text().split()) == ["one", "one", "three", "two", "two"]
    assert re.search(r"^E +assert \(1 \+ 1\) == 3$", done.stdout, re.MULTILINE)
    assert "1 failed, 4 passed" in done.stdout


def test_a_process_that_dies_ends_the_run_with_the_name_of_its_test(tmp_path):
    done = run(tmp_path, test_a=DIES, test_b=PASSES)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^FAILED .*test_a.py::test_four", done.stdout, re.MULTILINE)
    assert "1 failed, 2 passed" in done.stdout
