"""Claims that no test of `make test` draws in silence: whoever draws what no seed fixes says how likely it fails by chance.

A test that draws without a seed carries `@pytest.mark.chance(odds, why)`, else it fails. Three kinds are told apart:

noise    what `SystemNoise` reads, picks included, and generators without a seed. The mark is on the test or its class.
public   randomness that every node derives from the random id of a run: samplings, sketches. The same.
bytes    all else that this project reads from the system: ids, keys, tokens, masks. A mark on the file is enough.

What a fixture draws counts for every test that asks for it. Forked children count, those of tests/helpers/organisations.py too;
programs that a test starts anew (Ray's actors, commands in a process of their own) are not seen, nor are what libraries
draw for themselves (OpenSSL's keys, uuid, names of temporary files), the module `random`, and, in any test but the one
that fills it, what a function keeps in a cache.

`pytest --odds` adds the odds of all tests up, without running them. DRAWS=file notes who draws what, and fails nobody.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import random
import re
import sys
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NOISE, PUBLIC, BYTES = range(3)
KINDS = ("noise", "public", "bytes")
MOST = 1e-7  # of one test
SUM = 1e-3  # of a whole run
STATED = "fails by chance at most once in {:,} runs"

LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
PASSED_ON = {"random", "secrets"}
RUN_ID = re.compile(rb"\d{8}T\d{6}-[0-9a-f]{12}/")

_flags: Any = bytearray(3)  # which kinds were drawn; shared with forked children once a process has begun to run tests
_owner = 0
_of_fixtures: dict[object, bytes] = {}
_urandom = os.urandom


def _noted_urandom(count: int) -> bytes:
    """os.urandom, which notes for whom it reads."""
    frame, unseeded = sys._getframe(1), False
    while frame.f_back and frame.f_globals.get("__name__") in PASSED_ON:
        unseeded = frame.f_code.co_name == "getrandbits"  # NumPy's generators ask for bits, and nobody else does
        frame = frame.f_back
    if not frame.f_code.co_filename.startswith(LIBRARIES):
        _flags[NOISE if unseeded or frame.f_code.co_name == "uniform_bytes" else BYTES] = 1
    return _urandom(count)


def _noted_sha256(content: bytes) -> Any:
    """The hash of `public_bytes`, which notes the id of a run that was drawn."""
    if RUN_ID.match(content):
        _flags[PUBLIC] = 1
    return hashlib.sha256(content)


def install() -> None:
    """Notes draws of this process and of those that it forks, in the file that DRAWN names if there is one."""
    from colonnade.runtime import program

    os.urandom = random._urandom = _noted_urandom  # type: ignore[attr-defined]
    program.hashlib = SimpleNamespace(sha256=_noted_sha256)  # type: ignore[attr-defined,assignment]
    if name := os.environ.get("DRAWN"):
        _share(name)


def _share(name: str) -> None:
    global _flags
    with open(name, "r+b") as file:  # noqa: PTH123
        _flags = mmap.mmap(file.fileno(), 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--odds", action="store_true", help="add up the odds that a test fails by chance; run none")


def pytest_configure() -> None:
    install()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    global _owner
    if _owner != os.getpid():  # a process of tests, with flags of its own
        _owner = os.getpid()
        with tempfile.NamedTemporaryFile(prefix="drawn-", delete=False) as file:
            file.write(bytes(3))
        os.environ["DRAWN"] = file.name
        _share(file.name)
        item.session.config.add_cleanup(lambda: Path(file.name).unlink(missing_ok=True))
    _flags[:] = bytes(3)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[Any]:
    before, _flags[:] = bytes(_flags), bytes(3)
    try:
        return (yield)
    finally:
        _of_fixtures[fixturedef] = drawn = bytes(_flags)
        _flags[:] = bytes(map(max, before, drawn))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    used = [_of_fixtures.get(one, bytes(3)) for one in getattr(item, "_request")._fixture_defs.values()]  # noqa: B009
    drawn = [kind for kind, flags in enumerate(zip(bytes(_flags), *used, strict=True)) if any(flags)]
    if not drawn or any(item.get_closest_marker(mark) for mark in ("slow", "fault", "audit")):  # of no `make test`
        return
    if name := os.environ.get("DRAWS"):
        with open(name, "a") as file:  # noqa: PTH123
            file.write(f"{'+'.join(KINDS[kind] for kind in drawn)} {_marked(item)} {item.nodeid}\n")
    elif _marked(item) < (2 if drawn != [BYTES] else 1):
        what = " and ".join(KINDS[kind] for kind in drawn)
        pytest.fail(f"this test draws without a seed ({what}) and does not say its odds: tests/draws.py", pytrace=False)


def _marked(item: pytest.Item) -> int:
    """2: the test or its class says its odds; 1: its file does; 0: nobody."""
    nodes = [node for node, _ in item.iter_markers_with_node("chance")]
    return 2 if any(isinstance(node, (pytest.Item, pytest.Class)) for node in nodes) else len(nodes[:1])


# ------------------------------------------------------------------------------------------------ the odds of the whole


def odds_of(items: list[pytest.Item]) -> dict[pytest.Item, float]:
    """The odds of each test; a mark that says too much or not why is refused."""
    found = {}
    for item in items:
        if mark := item.get_closest_marker("chance"):
            odds, why = mark.args
            if not (0 <= odds <= MOST and isinstance(why, str) and why):
                raise pytest.UsageError(f"{item.nodeid}: chance({odds}, {why!r}): odds of at most {MOST:g}, and why")
            found[item] = float(odds)
    return found


def stated(total: float) -> str:
    """The sum as CONTRIBUTING says it, to two digits, never better than it is."""
    if not total:
        return "never fails by chance"
    runs = 1.0 / total
    digit = 10 ** max(0, math.floor(math.log10(runs)) - 1)
    return STATED.format(math.floor(runs / digit) * digit)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not session.config.option.odds:
        return None
    odds = odds_of(session.items)
    total, write = math.fsum(odds.values()), session.config.get_terminal_writer().line
    largest: dict[str, float] = defaultdict(float)
    for item, one in odds.items():
        largest[item.nodeid.partition("[")[0]] += one
    write(f"\n{len(session.items)} tests, {len(odds)} of them draw; the sum of their odds is {total:.2g}:")
    write(f"a run {stated(total)}")
    for name, one in sorted(largest.items(), key=lambda pair: pair[1], reverse=True)[:10]:
        write(f"{one:9.2g}  {name}")
    session.testsfailed = int(total > SUM)
    return True
