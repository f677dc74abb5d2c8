"""Shared by all tests: generated examples have no deadline, since the machine may be busy and numba compiles once.

Also what makes many tests quick: no claim depends on any of it.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections import Counter

import pytest
import typer.testing
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from colonnade.cli.terminal import _Lines
from colonnade.privacy.store import FileLog

pytest_plugins = ["tests.draws"]
pytest.register_assert_rewrite("tests.helpers")  # a claim that fails there says with which values

# Whoever runs tests in the background of a shell has Ctrl-C ignored, and processes inherit that. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A third of the usual examples; tests/privacy asks for all of them, and whoever needs more says so. The same ones every
# time: a gate must not flicker. EXPLORE=1 draws others, and keeps those that fail.
settings.register_profile("colonnade", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=30)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "colonnade")

# Hypothesis reads the constants of all modules that are loaded, to draw them too: ten seconds in every process, and other
# examples with every order of files.
providers._get_local_constants = lambda: providers._local_constants

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


@pytest.hookimpl(tryfirst=True)  # before `-m` is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a `thinned` test as many cases stay in every run as show every value of every parameter once.

    What is expected to fail tells in one line how it did.
    """
    cases: dict[object, list[pytest.Function]] = {}
    for item in items:
        marked = item.get_closest_marker("thinned")
        if marked and not any(item.get_closest_marker(mark) for mark in ("slow", "fault", "audit")):
            cases.setdefault((item.parent, item.originalname), []).append(item)
        if expected := item.get_closest_marker("xfail"):
            item.repr_failure = lambda failure: failure.exconly()  # nobody reads how, and to print it takes longest
            if expected.kwargs.get("strict") is False:  # it may pass or fail: a run would say nothing
                item.own_markers.insert(0, pytest.mark.xfail(reason=expected.kwargs["reason"], run=False).mark)
    for left in cases.values():
        shown: Counter[tuple[str, object]] = Counter()
        while any(not shown[value] for item in left for value in _values(item)):  # the most new ones, else the rarest
            chosen = max(left, key=lambda item: (sum(not shown[v] for v in _values(item)), -_often(shown, item)))
            left.remove(chosen)
            shown.update(_values(chosen))
        for item in left:
            item.add_marker(*item.get_closest_marker("thinned").args)


def _often(shown: Counter[tuple[str, object]], item: pytest.Function) -> int:
    return sum(shown[value] for value in _values(item))


def _values(item: pytest.Function) -> set[tuple[str, object]]:
    plain = str, int, float, bool, type(None)
    return {(name, value if isinstance(value, plain) else id(value)) for name, value in item.callspec.params.items()}


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
