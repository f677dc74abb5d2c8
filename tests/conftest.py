"""Shared by all tests: generated examples have no deadline, since the machine may be busy and numba compiles once.

Also what makes many tests quick: no claim depends on any of it.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
import typer.testing
from hypothesis import settings

from colonnade.cli.logs import _Lines
from colonnade.privacy.store import FileLog

sys.path.append(str(Path(__file__).parent / "faults"))  # the toy method of the crash tests is used elsewhere too

# Whoever runs tests in the background of a shell has Ctrl-C ignored, and processes inherit that. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("colonnade", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True
)  # the same examples every time: a gate must not flicker
settings.load_profile("ci" if os.environ.get("CI") else "colonnade")

# To build the tree of all commands takes longer than most commands of tests; typer's runner builds it at every call.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# No test cuts the power, and thousands of commits would each wait for the disk; whoever asks for `power_cuts` has them.
OPTIONS = FileLog.__init__.__kwdefaults__
SYNCED = OPTIONS["synced"]
OPTIONS["synced"] = False


@pytest.fixture
def power_cuts(monkeypatch):
    """Logs are synced as a user's are."""
    monkeypatch.setitem(OPTIONS, "synced", SYNCED)


def pytest_collection_finish() -> None:
    """What is there by now stays: garbage is sought among what tests make, not among all modules again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def caplog(caplog):
    """With the named figures of every record in `text`, as an operator sees them: what must not stand there is looked for there."""
    before = caplog.handler.formatter
    caplog.handler.setFormatter(_Lines(as_json=False))
    yield caplog
    caplog.handler.setFormatter(before)
