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
HALF_WAY = "import os, signal\ndef test_five():\n    os.kill(os.getpid(), signal.SIGKILL)\n" + PASSES
TEARDOWN = """
import os, pytest
@pytest.fixture
def deadly():
    yield
    os._exit(3)
def test_six(deadly):
    pass
"""
ORPHAN = """
import os, time
from pathlib import Path
from note import note
def test_seven():
    if not os.fork():
        until = time.monotonic() + 60
        while not (Path(__file__).parent / "ran").exists():
            if time.monotonic() > until:
                note("late")
            time.sleep(0.05)
        os._exit(0)
    os._exit(5)
"""
# The processes named end before their first test.
BROKEN = """
import os, pytest
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if item.config._tmp_path_factory.getbasetemp().name in {dead}:
        os._exit(4)
"""


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


def test_a_process_that_dies_fails_its_test_and_the_rest_of_its_file_is_run(tmp_path):
    done = run(tmp_path, test_a=DIES, test_b=HALF_WAY, test_c=PASSES)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^FAILED .*test_a.py::test_four", done.stdout, re.MULTILINE)
    assert re.search(r"^FAILED .*test_b.py::test_five", done.stdout, re.MULTILINE)
    assert "exit code -9" in done.stdout
    assert sorted((tmp_path / "ran").read_text().split()) == ["one", "one", "two", "two"]
    assert "2 failed, 4 passed" in done.stdout


def test_a_process_that_dies_after_the_call_of_a_test_is_an_error_of_that_test(tmp_path):
    done = run(tmp_path, test_a=TEARDOWN + PASSES)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^ERROR .*test_a.py::test_six", done.stdout, re.MULTILINE)
    assert "3 passed, 1 error" in done.stdout
    assert (tmp_path / "ran").read_text().split() == ["one", "two"]


def test_a_process_that_dies_before_its_first_test_fails_that_test_and_another_runs_the_rest(tmp_path):
    dead = BROKEN.replace("{dead}", "{'process-0'}")
    done = run(tmp_path, conftest=dead, test_a=PASSES, test_b=PASSES)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^FAILED .*test_a.py::test_one", done.stdout, re.MULTILINE)
    assert sorted((tmp_path / "ran").read_text().split()) == ["one", "two", "two"]
    assert "1 failed, 3 passed" in done.stdout


def test_a_process_that_cannot_begin_tells_why(tmp_path):
    """Its own folder is there already: what pytest says stands under the test that it was to run."""
    taken = "def pytest_collection_finish(session):\n"
    taken += "    (session.config._tmp_path_factory.getbasetemp() / 'process-0').mkdir()\n"
    done = run(tmp_path, conftest=taken, test_a=PASSES, test_b=PASSES)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^not run: Traceback", done.stdout, re.MULTILINE)
    assert "FileExistsError" in done.stdout
    assert "1 failed, 3 passed" in done.stdout


def test_when_all_processes_die_every_test_has_failed(tmp_path):
    many = "import pytest\n@pytest.mark.parametrize('k', range(30))\ndef test_many(k):\n    pass\n"
    done = run(tmp_path, conftest=BROKEN.replace("in {dead}", "!= ''"), test_a=many, test_b=PASSES)
    assert done.returncode == 1, done.stderr
    assert "not run: too many processes of the tests died" in done.stdout
    assert re.search(r"^32 failed in", done.stdout, re.MULTILINE)


def test_a_dead_process_is_seen_though_a_child_of_its_own_lives_on(tmp_path):
    """The child holds the pipe open until the rest of the file has begun in another process."""
    done = run(tmp_path, test_a=ORPHAN + PASSES)
    assert "exit code 5" in done.stdout
    assert (tmp_path / "ran").read_text().split() == ["one", "two"]
    assert "1 failed, 2 passed" in done.stdout
