"""Claims about logs in files: JSON lines, of bounded size, for their owner alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from colonnade.cli import terminal
from colonnade.errors import InvalidInput


@pytest.fixture
def root():
    found = logging.getLogger("colonnade")
    before = found.handlers, found.propagate, found.level
    yield found
    for handler in found.handlers:
        handler.close()
    found.handlers, found.propagate = before[:2]
    found.setLevel(before[2])


def test_a_log_file_is_rotated_and_holds_json_lines_whatever_the_terminal_shows(root, tmp_path: Path, capsys) -> None:
    path = tmp_path / "service.log"
    terminal.to_stderr(quiet=True)
    terminal.to_file(path, 1, 2)
    for place in range(30):
        root.info("reserved", extra={"run": f"run-{place}", "filler": "x" * 100_000})
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["service.log", "service.log.1", "service.log.2"]
    assert all(file.stat().st_size <= 10**6 for file in files)
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["event"], last["run"], last["level"]) == ("reserved", "run-29", "info")
    assert not any(file.stat().st_mode & 0o077 for file in files)
    assert capsys.readouterr().err == ""  # --quiet still holds for the terminal


def test_a_log_file_that_cannot_be_written_is_named(root, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot log to"):
        terminal.to_file(tmp_path / "nowhere" / "service.log", 1, 1)
