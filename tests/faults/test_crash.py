"""Claims about crashes: a run killed at any moment goes on as if nothing had happened, and pays nothing twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("child.py")
TRIALS = 6
ALONE = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(CHILD), *map(str, arguments)]


def answer_of(*arguments: object) -> dict:
    done = subprocess.run(command(*arguments), env=ALONE, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def memory():
    """A folder in memory where there is one: SIGKILL loses no page that was written, so a disk would only be slower."""
    shared = Path("/dev/shm")
    where = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield where
    shutil.rmtree(where)


def killed(memory: Path, kind: str, seed: int, trials: int) -> dict:
    folder = memory / f"{kind}{seed}"
    folder.mkdir()
    return answer_of("series", folder, kind, seed, trials)


@pytest.fixture(scope="module")
def short(memory):
    """Made once for all tests that look at it; `make faults` makes longer ones."""
    folder = memory / "short"
    folder.mkdir()
    return answer_of("short", folder, TRIALS)


@pytest.fixture(scope="module", params=["exact", "noisy"])
def series(request, short):
    return short[request.param]


def check_series(series: dict) -> None:
    """Every claim about a series of crashes."""
    for trial in series["trials"]:
        assert trial["kills"]
        once_on_the_wire(trial)
        no_row_twice(trial)
        same_communication(trial, series["reference"])


def once_on_the_wire(trial: dict) -> None:
    seen: dict[str, str] = {}
    for line in trial["wire"]:
        edge, sequence, digest = line.split(" ")
        assert seen.setdefault(f"{edge} {sequence}", digest) == digest, trial["kills"]


def no_row_twice(trial: dict) -> None:
    for node, rows in trial["rows"].items():
        places = Counter((run, tick, slot) for run, tick, slot, _ in rows)
        assert set(places.values()) <= {1}, (node, trial["kills"])
        assert {run for run, *_ in rows} <= {trial["run"]}, (node, trial["kills"])


def same_communication(trial: dict, reference: dict) -> None:
    assert trial["communication"] == reference["communication"], trial["kills"]


def test_a_resumed_exact_run_gives_the_same_model_to_the_bit(short):
    series = short["exact"]
    assert all(trial["kills"] for trial in series["trials"])
    assert [t["model"] for t in series["trials"]] == [series["reference"]["model"]] * TRIALS


def test_no_letter_ever_has_two_contents(series):
    for trial in series["trials"]:
        assert trial["wire"]
        once_on_the_wire(trial)


def test_no_release_is_recorded_twice_and_none_in_another_run(series):
    for trial in series["trials"]:
        no_row_twice(trial)
        assert {n: len(rows) for n, rows in trial["rows"].items()} == {
            n: len(rows) for n, rows in series["reference"]["rows"].items()
        }


def test_a_resumed_run_reports_the_communication_of_an_undisturbed_one(series):
    for trial in series["trials"]:
        same_communication(trial, series["reference"])


def test_no_crash_leaves_a_reservation_or_a_secret_behind(series):
    """A run that died between its end and the closing of its ledgers is closed by whoever uses the store next."""
    for trial in series["trials"]:
        assert trial["open"] == [], trial["kills"]
        assert trial["secrets"] == 0, trial["kills"]


def test_noise_is_never_drawn_again_for_what_may_have_left(short):
    """Two runs of the same call have different noise; two lives of one run do not, letter by letter."""
    series = short["noisy"]
    models = [json.dumps(trial["model"]) for trial in [series["reference"], *series["trials"]]]
    assert len(models) == len(set(models))
    for trial in series["trials"]:
        once_on_the_wire(trial)


@pytest.mark.parametrize("kind", ["exact", "noisy"])
@pytest.mark.fault
def test_a_kill_by_the_clock_is_no_different(memory, kind):
    folder = memory / f"clock {kind}"
    folder.mkdir()
    draw = random.Random(7)
    for _ in range(2):
        child = subprocess.Popen(
            command("once", folder, kind), env=ALONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 60
        while not (folder / "store").exists() and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.12))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if child.returncode == 0:
            break
    found = answer_of("once", folder, kind)
    wire: dict[str, set[str]] = {}
    for line in (folder / "wire").read_text().splitlines():
        edge, sequence, digest = line.split(" ")
        wire.setdefault(f"{edge} {sequence}", set()).add(digest)
    if kind == "exact" or len({run for rows in found["rows"].values() for run, *_ in rows}) == 1:
        assert all(len(contents) == 1 for contents in wire.values())
    for rows in found["rows"].values():
        assert len({tuple(row) for row in rows}) == len(rows)


def test_two_processes_with_the_same_call_and_store_both_finish_in_runs_of_their_own(short):
    answers = short["together"]
    assert answers[0]["run"] != answers[1]["run"]
    last = max(answers, key=lambda a: sum(map(len, a["rows"].values())))
    for rows in last["rows"].values():
        assert len({tuple(row) for row in rows}) == len(rows)


@pytest.mark.fault
@pytest.mark.parametrize("kind", ["exact", "noisy"])
def test_a_hundred_more_kills_change_nothing(memory, kind):
    series = killed(memory, kind, 11, 50)
    assert sum(len(trial["kills"]) for trial in series["trials"]) >= 50
    check_series(series)
    if kind == "exact":
        assert {json.dumps(t["model"]) for t in series["trials"]} == {json.dumps(series["reference"]["model"])}
    assert [run for trial in series["trials"] for run in trial["open"]] == []


@pytest.mark.fault
def test_four_hundred_and_fifty_kills_of_a_party_that_spends_change_nothing(memory):
    """With those of the other series, five hundred moments: never a release without its row, never a row lost."""
    check_series(killed(memory, "noisy", 3, 450))
