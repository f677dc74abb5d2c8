"""What the exit code of `colonnade jobs` says: 0 where a job finished, 1 where one that was waited for did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.network.job_queue import OVER, JobQueue

JOB = '[problem]\nloss = "Logistic"\n'
CODES = {"finished": 0, "failed": 1, "cancelled": 1}  # what a party refused has failed


def call(*words: object) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["jobs", *map(str, words)])
    return ended.exit_code, ended.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A queue with a job in every state that is an end, and one that still waits."""
    queue = JobQueue(tmp_path)
    for state in (*OVER, "queued"):
        queue.submit(state, JOB, "lab")
        if state in OVER:
            queue.end(state, state, f"it is {state}")
    queue.close()
    return tmp_path


def test_every_way_to_end_has_its_code() -> None:
    assert set(CODES) == set(OVER)


@pytest.mark.parametrize("state", OVER)
@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)])
def test_watching_a_job_ends_with_0_only_if_it_finished(store: Path, state: str, form: tuple[str, ...]) -> None:
    code, said = call("watch", state, "--store", store, *form)
    assert code == CODES[state]
    assert (json.loads(said)["state"] if "--json" in form else said.split()[0 if form else -1]).startswith(state)


def test_a_job_that_is_not_over_when_the_time_is_up_is_no_success(store: Path) -> None:
    assert call("watch", "queued", "--store", store, "--timeout", 0, "--quiet") == (1, "queued\n")


def test_a_job_that_nobody_submitted_is_refused(store: Path) -> None:
    assert call("watch", "nobody", "--store", store)[0] == 1
    assert call("cancel", "nobody", "--store", store)[0] == 1


def test_a_list_of_finished_and_failed_jobs_was_listed_and_says_which_is_which(store: Path) -> None:
    code, said = call("list", "--store", store, "--json")
    assert code == 0
    assert {job["name"]: job["state"] for job in json.loads(said)} == {one: one for one in (*OVER, "queued")}
    assert call("list", "--store", store, "--open", "--quiet") == (0, "queued\n")


def test_submitting_and_cancelling_end_with_0_when_they_are_done(store: Path) -> None:
    job = store / "job.toml"
    job.write_text(JOB + 'penalty = { type = "Ridge", a = 1e-3 }\n[method]\ntype = "SharingADMM"\n')
    assert call("submit", "new", "--job", job, "--store", store, "--quiet") == (0, "queued\n")
    assert call("cancel", "new", "--store", store, "--quiet") == (0, "cancelled\n")
    assert call("watch", "new", "--store", store)[0] == 1
