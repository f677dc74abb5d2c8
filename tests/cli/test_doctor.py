"""`colonnade doctor`: what it looks at, and what an exit code means."""

from __future__ import annotations

import itertools
import json
import os
import resource
import secrets
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.cli import doctor as examination
from colonnade.cli.doctor import NOTE, OK, TROUBLE, Check, doctor, examine, healthy
from colonnade.privacy.mechanisms import SystemNoise

pytestmark = pytest.mark.chance(0, "bytes alone are drawn: no claim depends on them")

tool = typer.Typer()
tool.command()(doctor)


def found(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def measured(monkeypatch, cache: Path, *, free: int = 2**30, sync: float = 0.05, files: int = 128) -> None:
    """What is measured of a machine, whichever machine the tests run on; as it is here it is just in order."""
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(examination, "_sync_time", lambda _: sync)
    monkeypatch.setattr(examination.resource, "getrlimit", lambda _: (files, files))
    monkeypatch.setattr(examination, "EXTRAS", {})
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))


@pytest.mark.chance(2.1e-9, "a healthy machine: bits within 6 sds, 2.0e-9, and a mean within 7 sds, 1.6e-12")
def test_a_machine_that_runs_the_tests_is_healthy_and_the_store_is_not_made(tmp_path: Path) -> None:
    checks = examine(tmp_path / "new" / "runs")
    assert healthy(checks)
    names = {
        "open files",
        "python",
        "colonnade",
        "numpy",
        "noise",
        "numba cache",
        "disk space",
        "disk sync",
        "entropy",
        "clock",
    }
    assert names <= {check.name for check in checks}
    assert not (tmp_path / "new").exists()
    assert " ms" in found(checks, "disk sync").found


@pytest.mark.chance(0, "advice goes with the state, whichever the draws lead to")
def test_every_check_that_is_not_in_order_says_what_to_do(tmp_path: Path) -> None:
    assert all(bool(check.advice) == (check.state != OK) for check in examine(tmp_path))


def fail(*_: object, **__: object) -> object:
    raise OSError("no")


# How a machine may be broken; the check that must notice it, its state, and words of its advice.
BROKEN = [
    ((secrets, "token_bytes", lambda size: b"\0" * size), "entropy", TROUBLE, "anything private"),
    ((examination.resource, "getrlimit", lambda _: (14, 14)), "open files", TROUBLE, "ulimit -n 1024"),
    ((time, "time", lambda: 1_000_000.0), "clock", TROUBLE, "Set the clock"),
    ((SystemNoise, "uniform_bytes", fail), "noise", TROUBLE, "Install numba"),
    ((examination.tempfile, "TemporaryFile", fail), "disk sync", TROUBLE, "folder of yours"),
    ((examination.tempfile, "TemporaryFile", fail), "numba cache", NOTE, "NUMBA_CACHE_DIR"),
    ((examination.importlib.util, "find_spec", lambda _: None), "extra grpc", NOTE, "colonnade[grpc]"),
    ((examination, "LEAST_SPACE", 2**80), "disk space", NOTE, "free some space"),
    ((examination, "SLOW_SYNC", -1.0), "disk sync", NOTE, "keep the store on a local one"),
    ((examination, "NEEDED", ("no-such-package",)), "no-such-package", TROUBLE, "Install colonnade again"),
]


def took(*seconds: float):
    """A clock on which so long passes between every second look and the one before."""
    return iter([at for passed in seconds for at in (100.0, 100.0 + passed)]).__next__


# What a machine has on either side of a bound; the check that goes by it, its state, and words of what was found.
BOUNDS = [
    ((examination.resource, "getrlimit", lambda _: (128, 128)), "open files", OK, "at most 128"),
    (
        (examination.resource, "getrlimit", lambda _: (127, 4096)),
        "open files",
        TROUBLE,
        "at most 127; a service needs 128",
    ),
    ((examination.resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2), "open files", OK, "unlimited"),
    ((examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30)), "disk space", OK, "1.0 GiB free"),
    ((examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30 - 1)), "disk space", NOTE, "1.0 GiB free"),
    ((examination.time, "perf_counter", took(0.05, 0.01, 1.0, 0.02, 0.03)), "disk sync", OK, "30.0 ms, median of 5"),
    ((examination.time, "perf_counter", took(0.0625, 0.01, 1.0, 2.0, 0.02)), "disk sync", NOTE, "62.5 ms"),
    ((time, "time", lambda: 1_767_225_599.0), "clock", TROUBLE, "UTC"),
    ((time, "time", lambda: 1_767_225_600.0), "clock", OK, "UTC"),
    # Never twice alike, and of 256 bits 7 at most are ones.
    ((secrets, "token_bytes", lambda size: next(NUMBERS).to_bytes(size)), "entropy", TROUBLE, "lopsided"),
]
NUMBERS = itertools.count(1)


@pytest.mark.chance(0, "a check of what is given, whatever the others draw")
@pytest.mark.parametrize(("given", "name", "state", "words"), BOUNDS, ids=[f"{b[1]}: {b[3]} {b[2]}" for b in BOUNDS])
def test_what_is_just_enough_is_enough(monkeypatch, tmp_path: Path, given, name: str, state: str, words: str) -> None:
    monkeypatch.setattr(*given)
    check = found(examine(tmp_path), name)
    monkeypatch.undo()
    assert (check.state, words in check.found) == (state, True)


@pytest.mark.chance(0, "what was broken fails its own check whatever is drawn; no other has to pass")
@pytest.mark.parametrize(("broken", "name", "state", "advice"), BROKEN, ids=[f"{b[1]}: {b[3][:20]}" for b in BROKEN])
def test_what_is_wrong_is_noticed(monkeypatch, tmp_path: Path, broken, name: str, state: str, advice: str) -> None:
    monkeypatch.setattr(*broken)
    checks = examine(tmp_path)
    check = found(checks, name)
    monkeypatch.undo()
    assert (state, True) == (check.state, advice in check.advice)
    assert state == NOTE or not healthy(checks)


@pytest.mark.chance(2.1e-9, "a healthy machine: bits within 6 sds, 2.0e-9, and a mean within 7 sds, 1.6e-12")
def test_the_exit_code_tells_a_script(monkeypatch, tmp_path: Path) -> None:
    measured(monkeypatch, tmp_path)
    assert CliRunner().invoke(tool, ["--store", str(tmp_path), "--json"]).exit_code == 0
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    broken = CliRunner().invoke(tool, ["--store", str(tmp_path), "--json"])
    monkeypatch.undo()
    assert broken.exit_code == 1
    said = json.loads(broken.stdout)
    assert said["healthy"] is False
    assert {"name", "state", "found", "advice"} == set(said["checks"][0])


@pytest.mark.chance(2.1e-9, "a healthy machine: bits within 6 sds, 2.0e-9, and a mean within 7 sds, 1.6e-12")
def test_quiet_shows_only_what_is_not_in_order(monkeypatch, tmp_path: Path) -> None:
    asked = ["--store", str(tmp_path), "--quiet"]
    measured(monkeypatch, tmp_path)
    assert CliRunner().invoke(tool, asked).stdout == ""
    for wrong, name in (({"free": 2**30 - 1}, "disk space"), ({"sync": 0.051}, "disk sync"), ({"files": 127}, "open")):
        measured(monkeypatch, tmp_path, **wrong)
        told = CliRunner().invoke(tool, asked).stdout
        assert name in told
        assert not any(other in told for other in {"python", "disk space", "disk sync", "open"} - {name})


def test_a_disk_is_as_slow_as_the_middle_one_of_five_syncs(monkeypatch, tmp_path: Path) -> None:
    moments = iter([0.0, 0.2, 1.0, 1.001, 2.0, 2.003, 3.0, 3.1, 4.0, 4.002])  # 200, 1, 3, 100 and 2 ms
    monkeypatch.setattr(examination, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    assert examination._sync_time(tmp_path) == pytest.approx(0.003)


@pytest.mark.chance(0, "free space is looked at, and nothing that was drawn")
def test_it_names_no_file_but_those_it_was_given(tmp_path: Path) -> None:
    assert os.environ.get("HOME", "/nowhere") not in str(found(examine(tmp_path), "disk space").found)


SERVICES = [
    "party run party.toml",
    "coordinator run federation.toml --job job.toml",
    "coordinator serve federation.toml --store queue",
    "federation check federation.toml",
    "score rows federation.toml --fit fit.json",
    "score serve order.json party.toml --listen 127.0.0.1:0",
    "score part order.json party.toml --holder localhost:7445",
]
FEW = "open files: at most 14; a service needs 128. Allow 1,024: `ulimit -n 1024`"


@pytest.fixture
def named_files(tmp_path: Path) -> Path:
    for name in ("party.toml", "federation.toml", "job.toml", "order.json", "fit.json"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("words", SERVICES)
def test_a_service_that_may_open_too_few_files_says_so_in_one_line(named_files: Path, monkeypatch, words: str) -> None:
    monkeypatch.chdir(named_files)
    monkeypatch.setattr(examination.resource, "getrlimit", lambda _: (14, 14))
    ended = CliRunner().invoke(app, words.split())
    assert ended.exit_code == 1
    assert FEW in " ".join(ended.stderr.split())


def test_a_party_under_a_shells_limit_of_14_files_is_not_aborted_by_its_libraries(named_files: Path) -> None:
    tool = f"{sys.executable} -c 'from colonnade.cli import main; main()'"
    run = ["bash", "-c", f"ulimit -n 14; exec {tool} {SERVICES[0]}"]
    done = subprocess.run(run, cwd=named_files, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (1, 1)
    assert FEW in done.stderr
