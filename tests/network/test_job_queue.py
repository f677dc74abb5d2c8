"""Claims about the queue of a coordinator: a name is one job, owners take turns, nothing grows without bound."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import colonnade as co
from colonnade.errors import InvalidInput, StoreError
from colonnade.network import job_queue
from colonnade.network.job_queue import JobQueue
from colonnade.privacy.events import Ending, How
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

TEXT = '[problem]\nloss = "Logistic"\n'


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[JobQueue]:
    made = JobQueue(tmp_path / "hub")
    yield made
    made.close()


def names(queue: JobQueue, count: int) -> list[str]:
    """Whom the service takes next, so many times."""
    found = [queue.take() for _ in range(count)]
    return [taken[0].name for taken in found if taken is not None]


def test_the_same_name_and_file_are_the_same_job(queue: JobQueue) -> None:
    first = queue.submit("a", TEXT, "lab")
    assert queue.submit("a", TEXT, "somebody-else") == first
    assert len(queue.jobs()) == 1
    queue.take()
    queue.end("a", "finished", "")
    assert queue.submit("a", TEXT, "lab").state == "finished"  # also when it is over: it is run once
    assert queue.take() is None


def test_another_file_under_a_name_is_refused_with_both_digests(queue: JobQueue) -> None:
    known = queue.submit("a", TEXT, "lab").digest
    with pytest.raises(InvalidInput, match="another file") as refused:
        queue.submit("a", TEXT + "\n", "lab")
    assert known[:16] in str(refused.value)
    assert len({word for word in str(refused.value).replace(",", "").split() if len(word.strip(".")) == 16}) == 2


def test_owners_take_turns_and_within_one_the_oldest_comes_first(queue: JobQueue) -> None:
    for name in ("a1", "a2", "a3"):
        queue.submit(name, TEXT, "airline")
    queue.submit("b1", TEXT, "bank")
    assert names(queue, 2) == ["a1", "b1"]  # the bank had none running
    queue.end("a1", "finished", "")
    assert names(queue, 3) == ["a2", "a3"]


def test_a_job_that_is_put_back_waits_and_one_that_has_begun_comes_first(queue: JobQueue) -> None:
    for name in ("a", "b"):
        queue.submit(name, TEXT, "lab")
    assert names(queue, 1) == ["a"]
    queue.again("a", "waiting", 1000.0, "the operator has not decided")
    assert names(queue, 2) == ["b"]
    queue.progress("b", "run-of-b", 3, 100)
    queue.again("b", "queued", 0.0, "killed", trouble=True)
    queue.again("a", "waiting", 0.0, "")
    (taken, text) = queue.take() or pytest.fail("nothing to take")
    assert (taken.name, taken.troubles, taken.attempts, taken.round, text) == ("b", 1, 2, 3, TEXT)


def test_an_owner_without_a_running_job_comes_before_a_begun_one_of_who_has_some(queue: JobQueue) -> None:
    for name, owner in (("a1", "airline"), ("a2", "airline"), ("b1", "bank")):
        queue.submit(name, TEXT, owner)
    assert names(queue, 1) == ["a1"]
    queue.progress("a2", "run-of-a2", 1, 10)  # it had begun, and was put back
    assert names(queue, 2) == ["b1", "a2"]


def test_jobs_that_ran_when_a_service_died_wait_for_the_next_one(tmp_path: Path, queue: JobQueue) -> None:
    queue.submit("a", TEXT, "lab")
    queue.take()
    other = JobQueue(tmp_path / "hub")
    assert (other.take(), other.reclaim()) == (None, 1)
    assert names(other, 1) == ["a"]
    other.close()


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_by_the_service(queue: JobQueue) -> None:
    for name in ("a", "b", "c"):
        queue.submit(name, TEXT, "lab")
    queue.take()
    assert queue.cancel("b").state == "cancelled"
    assert (queue.cancel("a").state, [job.name for job in queue.cancelling()]) == ("running", ["a"])
    queue.end("a", "cancelled", "")
    queue.take()
    queue.progress("c", "run-of-c", 0, 0)
    queue.again("c", "waiting", 0.0, "undecided")
    queue.cancel("c")  # its run was begun, and must be closed
    assert ([job.name for job in queue.cancelling()], queue.take()) == (["c"], None)
    queue.end("c", "cancelled", "")
    assert queue.cancel("c").state == "cancelled"
    assert queue.counts() == {"queued": 0, "waiting": 0, "running": 0, "finished": 0, "failed": 0, "cancelled": 3}


def test_the_file_is_its_owners_alone_and_forgets_what_was_asked_once_it_is_over(queue: JobQueue) -> None:
    queue.submit("a", TEXT, "lab")
    queue.cancel("a")
    assert queue.path.stat().st_mode & 0o077 == 0
    with sqlite3.connect(queue.path) as file:
        assert file.execute("select text from job").fetchall() == [("",)]
    file.close()


def test_names_files_and_numbers_are_bounded(queue: JobQueue) -> None:
    for name in ("", "-a", "a b", "a/b", "ä", "a" * 65):
        with pytest.raises(InvalidInput, match="letters, digits"):
            queue.submit(name, TEXT, "lab")
    with pytest.raises(InvalidInput, match="owner"):
        queue.submit("a", TEXT, "the lab")
    with pytest.raises(InvalidInput, match="over the"):
        queue.submit("a", "#" * (job_queue.LARGEST + 1), "lab")
    with mock.patch.object(job_queue, "MOST", 2):
        queue.submit("a", TEXT, "lab")
        queue.submit("b", TEXT, "lab")
        with pytest.raises(InvalidInput, match="2 jobs are waiting"):
            queue.submit("c", TEXT, "lab")
        queue.cancel("a")
        queue.submit("c", TEXT, "lab")
    queue.again("c", "queued", 0.0, "x" * 10_000)
    assert len(queue.job("c").why) == job_queue.LONGEST_WHY


def test_a_queue_of_another_version_is_left_alone(tmp_path: Path) -> None:
    JobQueue(tmp_path).close()
    with sqlite3.connect(tmp_path / "jobs.db") as file:
        file.execute("pragma user_version = 2")
    file.close()
    with pytest.raises(StoreError, match="another Colonnade"):
        JobQueue(tmp_path)


def test_a_mistake_in_a_job_file_is_told_when_it_is_submitted(tmp_path: Path) -> None:
    wrong = tmp_path / "job.toml"
    wrong.write_text('[problem]\nloss = "Logistc"\n')
    with pytest.raises(InvalidInput, match="coordinator serve"):
        co.Jobs(tmp_path)
    JobQueue(tmp_path).close()
    with co.Jobs(tmp_path) as jobs:
        with pytest.raises(InvalidInput, match=r"job\.toml.*Logistic"):
            jobs.submit("a", wrong)
        assert jobs.list() == []
        with pytest.raises(InvalidInput, match="no job 'a'"):
            jobs.cancel("a")


def test_a_job_has_one_run_whatever_becomes_of_it(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.run_of("job a") is None
    with store.run_once("job a") as run:
        assert store.run_of("job a") == (run, None)
        with pytest.raises(StoreError, match="driven by another"), store.run_once("job a"):
            pass
    with store.run_once("job a") as again, store.run_once("job b") as other:
        assert (again, other != run) == (run, True)
    store.end(run, Ending(How.FAILED, "PeerSilent"))
    with pytest.raises(InvalidInput, match="is over: failed: a party did not answer"), store.run_once("job a"):
        pass
    assert store.run_of("job a") == (run, Ending(How.FAILED, "PeerSilent"))
    store.close()
