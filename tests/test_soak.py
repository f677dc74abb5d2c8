"""Claims about `make soak`: a line a run says what the run said, and the summary counts what failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import soak

TOLD = """
FAILED tests/a.py::test_one - assert 1 == 2
ERROR tests/b.py::test_two
2 failed, 7 passed, 3 skipped, 1 error in 12.00s
"""


def test_a_line_says_what_pytest_said():
    words = soak.line(TOLD, 1, 12.4, True, "abc+").split("  ")
    assert words[1:] == [
        "abc+",
        "failed",
        "7 passed",
        "3 failed",
        "12 s",
        "busy",
        "tests/a.py::test_one",
        "tests/b.py::test_two",
    ]
    assert soak.line("8 passed in 3s\n", 0, 3.0, False, "abc").split("  ")[2:] == [
        "passed",
        "8 passed",
        "0 failed",
        "3 s",
        "quiet",
    ]


@pytest.mark.parametrize(("told", "code"), [("", 0), ("make: *** error", 2), ("8 passed in 3s", 2)])
def test_a_run_that_says_nothing_or_ends_with_a_code_has_failed(told, code):
    assert soak.line(told, code, 1.0, False, "abc").split("  ")[2] == "failed"


def test_the_summary_counts_runs_and_what_failed_in_them():
    lines = [
        soak.line(TOLD, 1, 30.0, True, "a"),
        soak.line("8 passed in 3s", 0, 10.0, False, "a"),
        soak.line(TOLD, 1, 20.0, True, "b"),
    ]
    told = soak.summary(lines).splitlines()
    assert told[0] == "3 runs, 2 failed; 10 to 30 seconds, half of them within 20"
    assert told[1:] == ["   2  tests/a.py::test_one", "   2  tests/b.py::test_two"]


def test_runs_are_repeated_stopped_by_ctrl_c_and_gone_on_with(tmp_path):
    """`make` is a script of two passing runs and then one that lasts."""
    fake = tmp_path / "make"
    fake.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/calls\n[ $(wc -l < {tmp_path}/calls) -gt 3 ] && sleep 60\necho 8 passed in 3s\n"
    )
    fake.chmod(0o755)
    code = f"import soak; from pathlib import Path; soak.FILE = Path({str(tmp_path / 'soak.txt')!r}); raise SystemExit(soak.main())"
    where = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(soak.ROOT / "tests")}
    words = [sys.executable, "-c", code]
    first = subprocess.run([*words, "--runs", "2"], env=where, capture_output=True, text=True, timeout=60)
    assert first.returncode == 0, first.stderr
    assert "2 runs, 0 failed" in first.stdout
    second = subprocess.Popen(words, env=where, stdout=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 60
    while (tmp_path / "calls").read_text().count("x") < 4 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(second.pid, signal.SIGINT)
    assert "3 runs, 0 failed" in second.communicate(timeout=60)[0]
    assert second.returncode == 0
    assert len((tmp_path / "soak.txt").read_text().splitlines()) == 3
