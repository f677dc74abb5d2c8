"""`colonnade doctor`: is this machine fit for a run?

A check is "ok", "note" (good to know, nothing breaks) or "trouble" (a run here would fail or protect nobody).
Leaves   nothing: versions, free space and times of this machine, printed to whoever runs it.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import resource
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import EXTRAS, answers, busy, explained, table_of
from colonnade.errors import InvalidInput

STYLES = {"ok": "green", "note": "yellow", "trouble": "bold red"}
OK = "ok"
NOTE = "note"
TROUBLE = "trouble"
NEEDED = ("numpy", "scipy", "numba", "scikit-learn", "cryptography", "polars")
LEAST_SPACE = 2**30  # bytes: a private run over a million rows keeps about as much
SLOW_SYNC = 0.05  # seconds; every step of a durable run waits for one
LEAST_FILES = 128  # a service's ledgers, lines and pages; gRPC aborts the process where it can open none
EARLIEST = 1_767_225_600  # 2026-01-01: a clock before it was never set
SYNCS = 5
AGAIN = "pip install --force-reinstall"


def doctor(
    store: Annotated[Path, typer.Option(help="Where runs would be kept; it is not made.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is not in order.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Look at versions, caches, disk, open files, entropy, clock and extras; exits with 1 if a run would not work here.

    \bExamples:
      colonnade doctor
      colonnade doctor --store /srv/runs --json
    """
    with explained():
        with busy("looking at this machine", quiet or as_json):
            checks = examine(store)
        shown = [check for check in checks if not quiet or check.state != OK]
        if as_json:
            typer.echo(json.dumps({"healthy": healthy(checks), "checks": [asdict(check) for check in shown]}, indent=2))
        elif shown:
            from rich.text import Text

            table = table_of(None, ("what", "state", "found", "what to do"))
            for check in shown:
                state = Text(check.state, style=STYLES[check.state])
                table.add_row(check.name, state, Text(check.found), Text(check.advice))
            answers().print(table)
        if not healthy(checks):
            raise typer.Exit(1)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: str
    found: str
    advice: str = ""


def examine(store: Path) -> list[Check]:
    """Every check; `store` is where runs would be kept (it need not exist, and is not made)."""
    looks = (_python(), _packages(), _noise(), _numba_cache(), _disk(store), _open_files(), _entropy(), _clock())
    return [check for look in (*looks, _extras()) for check in look]


def check_service() -> None:
    """Refuse to start a service where this machine would break it off in the middle."""
    for check in _open_files():
        if check.state == TROUBLE:
            raise InvalidInput(f"{check.name}: {check.found}. {check.advice}")


def healthy(checks: list[Check]) -> bool:
    """Whether a run would work here."""
    return all(check.state != TROUBLE for check in checks)


def _python() -> Iterator[Check]:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    yield Check("python", OK, found)


def _packages() -> Iterator[Check]:
    from importlib.metadata import PackageNotFoundError, version

    yield Check("colonnade", OK, version("colonnade"))
    for name in NEEDED:
        try:
            yield Check(name, OK, version(name))
        except PackageNotFoundError:
            yield Check(name, TROUBLE, "not installed", f"Install colonnade again: {AGAIN} colonnade.")


def _noise() -> Iterator[Check]:
    """A draw of the noise that protects releases: what is wrong with its compiled code shows here and not in a run."""
    from colonnade.privacy.mechanisms import SystemNoise

    try:
        drawn = SystemNoise().discrete_gaussian(200, 100.0)
    except Exception as error:
        # Whatever it is, a run could not draw noise.
        found = f"no noise can be drawn: {type(error).__name__}"
        yield Check("noise", TROUBLE, found, f"Install numba and numpy again: {AGAIN} numba numpy.")
        return
    # 200 numbers of sd 100: their mean is off by 50, seven of its sds, less than once in 10^11 runs.
    spread = bool(abs(drawn.mean()) < 50.0 and 50.0 < drawn.std() < 200.0)
    advice = "" if spread else "Do not run anything private here; install colonnade and numba again."
    yield Check("noise", OK if spread else TROUBLE, "drawn from the operating system's generator", advice)


def _numba_cache() -> Iterator[Check]:
    """Compiled kernels are kept beside the code or in NUMBA_CACHE_DIR; else each process compiles them again."""
    import colonnade

    named = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(named) if named else Path(colonnade.__file__).parent / "kernels" / "__pycache__"
    spare = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    if _writable(folder):
        yield Check("numba cache", OK, str(folder))
    elif not named and _writable(spare):
        yield Check("numba cache", OK, f"{spare} (the package's own folder is read-only)")
    else:
        advice = "Every start compiles its kernels again; set NUMBA_CACHE_DIR to a folder of yours."
        yield Check("numba cache", NOTE, f"{folder} cannot be written", advice)


def _disk(store: Path) -> Iterator[Check]:
    folder = next((place for place in (store, *store.absolute().parents) if place.is_dir()), Path("/"))
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free at {folder}"
    advice = "Long runs keep every message: free some space, or keep the store elsewhere."
    yield Check("disk space", OK, found) if free >= LEAST_SPACE else Check("disk space", NOTE, found, advice)
    took = _sync_time(folder)
    if took is None:
        yield Check("disk sync", TROUBLE, f"{folder} cannot be written", "Choose a store in a folder of yours.")
        return
    found = f"{1000 * took:.1f} ms, median of {SYNCS}, at {folder}"
    advice = "Every step of a run with store= waits for the disk: keep the store on a local one."
    yield Check("disk sync", NOTE, found, advice) if took > SLOW_SYNC else Check("disk sync", OK, found)


def _sync_time(folder: Path) -> float | None:
    times = []
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(SYNCS):
                began = time.perf_counter()
                file.write(b"0" * 4096)
                file.flush()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError:
        return None
    return sorted(times)[SYNCS // 2]


def _open_files() -> Iterator[Check]:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most >= LEAST_FILES:
        yield Check("open files", OK, "unlimited" if most == resource.RLIM_INFINITY else f"at most {most:,}")
    else:
        advice = "Allow 1,024: `ulimit -n 1024`, or LimitNOFILE=1024 in a unit of systemd."
        yield Check("open files", TROUBLE, f"at most {most:,}; a service needs {LEAST_FILES}", advice)


def _entropy() -> Iterator[Check]:
    """Noise comes from the operating system: it must answer at once, and never twice alike."""
    drawn = {secrets.token_bytes(32) for _ in range(100)}
    bits = sum(byte.bit_count() for block in drawn for byte in block)
    total = 256 * len(drawn)
    # Chance of a false alarm: below one in 10 million.
    even = abs(bits - total / 2) <= 6 * math.sqrt(total / 4)
    if len(drawn) == 100 and even:
        yield Check("entropy", OK, "the operating system's generator")
    else:
        yield Check("entropy", TROUBLE, "draws repeat or are lopsided", "Do not run anything private on this machine.")


def _clock() -> Iterator[Check]:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    before = time.monotonic()
    wrong = time.time() < EARLIEST or time.monotonic() < before
    advice = "Set the clock: certificates and the ledgers' dates go by it." if wrong else ""
    yield Check("clock", TROUBLE if wrong else OK, now, advice)


def _extras() -> Iterator[Check]:
    for extra, (module, purpose) in EXTRAS.items():
        if importlib.util.find_spec(module) is not None:
            yield Check(f"extra {extra}", OK, f"installed: {purpose}")
        else:
            yield Check(f"extra {extra}", NOTE, f"not installed: {purpose}", f"pip install 'colonnade[{extra}]'")


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
