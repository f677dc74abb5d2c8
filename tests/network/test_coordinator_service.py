"""Claims about the coordinator as a service: runs side by side give the models of one process, and a job has one run
whatever dies; it is cancelled, refused, left and taken up again, always with a reason.

Parties answer in threads of this process, so that a test can hold a run at a question; every run has its own process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from colonnade.errors import InvalidInput, StoreError
from colonnade.network import coordinator_service
from colonnade.network.coordinator_service import CoordinatorService
from colonnade.network.inbox import Inbox
from colonnade.network.party_run import Request, Undecided
from colonnade.network.status_page import StatusPage
from colonnade.runs.jobs import drive_job
from colonnade.runtime.run_store import RunStore
from tests.helpers.coordinator_world import World

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with contextlib.ExitStack() as last:
        yield World(tmp_path_factory.mktemp("service"), last)


def begun(world: World) -> int:
    with contextlib.closing(RunStore(world.store)) as store:
        return len(store.begun())


def test_runs_side_by_side_give_the_model_of_one_process(world: World) -> None:
    together: list[int] = []
    world.before = lambda party, what: together.append(len(service.driven))
    with world.service(most=3) as service:
        for name in ("a", "b", "c", "d"):
            world.jobs.submit(name, world.job, owner="lab")
        found = world.over(service, "a", "b", "c", "d")
        page = StatusPage()
        service.show_on(page)
        shown = page.metrics()
    assert [(job.state, job.why) for job in found] == [("finished", "")] * 4
    assert (max(together), len({job.run for job in found})) == (3, 4)
    assert all(job.round >= 6 and job.bytes > 1000 for job in found)
    assert 'colonnade_jobs{state="finished"} 4' in shown
    assert not world.open_runs()
    for name in ("a", "d"):
        world.check(name)


def test_a_run_whose_process_is_killed_goes_on_as_the_same_run(world: World) -> None:
    before = begun(world)
    with world.service() as service:
        go_on = world.held(service, "killed", "turn")
        os.kill(service.driven["killed"].process.pid or 0, signal.SIGKILL)
        go_on.set()
        (job,) = world.over(service, "killed")
    assert (job.state, job.troubles, begun(world)) == ("finished", 1, before + 1)
    world.check("killed")


@pytest.mark.slow  # a process more
def test_a_job_whose_run_was_over_when_its_process_died_is_not_run_again(world: World) -> None:
    before = begun(world)
    with world.service() as service:
        go_on = world.held(service, "told-late", "over")  # the journal has its end, the queue does not
        os.kill(service.driven["told-late"].process.pid or 0, signal.SIGKILL)
        go_on.set()
        (job,) = world.over(service, "told-late")
    assert (job.state, begun(world)) == ("finished", before + 1)
    world.check("told-late")


def test_what_a_service_leaves_the_next_one_finishes(world: World) -> None:
    before = begun(world)
    with world.service() as service:
        go_on = world.held(service, "left", "turn")
        with pytest.raises(StoreError, match="another service works"), world.service():
            pass
    go_on.set()
    assert world.jobs.job("left").state == "queued"
    with world.service() as service:
        (job,) = world.over(service, "left")
    assert (job.state, job.troubles, begun(world)) == ("finished", 0, before + 1)
    world.check("left")


@pytest.mark.slow  # a process more
def test_draining_begins_nothing_and_waits_for_what_runs(world: World) -> None:
    with world.service() as service:
        go_on = world.held(service, "last", "turn")
        world.jobs.submit("never-begun", world.job)
        stop, at_once = threading.Event(), threading.Event()
        stop.set()
        threading.Timer(0.3, go_on.set).start()
        service.serve(stop, at_once, drain=60.0)
        assert service.draining
    assert (world.jobs.job("last").state, world.jobs.job("never-begun").state) == ("finished", "queued")
    world.jobs.cancel("never-begun")


@pytest.mark.slow  # a process more
def test_a_cancelled_run_ends_at_every_party(world: World) -> None:
    with world.service() as service:
        go_on = world.held(service, "unwanted", "turn")
        assert world.jobs.cancel("unwanted").state == "running"
        world.until(service, lambda: world.jobs.job("unwanted").over)
        go_on.set()
        world.until(service, lambda: not world.open_runs())
    assert (world.jobs.job("unwanted").state, world.jobs.job("unwanted").why) == (
        "cancelled",
        "cancelled while it was under way",
    )
    with pytest.raises(InvalidInput, match="is cancelled"):
        world.jobs.fit("unwanted")


def test_a_refusal_ends_the_job_with_its_reason_and_an_open_question_only_puts_it_off(world: World) -> None:
    world.before = lambda party, what: None
    asked: list[str] = []

    def approve(request: Request) -> bool:
        if request.party != world.made.names[1]:
            return True
        asked.append(request.run)
        if len(asked) < 3:
            raise Undecided
        return False

    with world.service() as service, mock.patch.object(coordinator_service, "FIRST_PAUSE", 0.01):
        world.approve = approve
        world.jobs.submit("refused", world.job)
        (job,) = world.over(service, "refused")
        world.approve = lambda _: True
    assert (job.state, job.attempts, job.troubles) == ("failed", 3, 0)
    assert (len(asked), len(set(asked))) == (3, 1)  # put off, and always the same run
    assert "did not approve the terms" in job.why
    assert not world.open_runs()


def test_a_job_that_stops_again_and_again_fails_with_the_last_reason(world: World) -> None:
    patched = mock.patch.multiple(coordinator_service, TROUBLES=1, FIRST_PAUSE=0.01)
    with world.service() as service, patched, mock.patch.object(service, "work", os._exit):
        world.jobs.submit("hopeless", world.job)
        (job,) = world.over(service, "hopeless")
    assert (job.state, job.troubles) == ("failed", 1)
    assert "given up after 2 troubles; the last: the process of its run ended" in job.why


def test_a_store_that_fails_when_a_run_ends_is_come_to_again(tmp_path: Path) -> None:
    board = mock.Mock(connected=set)
    file = mock.Mock(members={"a": None})
    service = CoordinatorService(board, file, tmp_path, drive_job)
    service.queue.submit("job", "text", "me")
    taken = service.queue.take()
    assert taken is not None
    process = coordinator_service._FRESH.Process(target=int)  # a fork of this process may hold gRPC's threads
    process.start()
    process.join()
    desk = mock.Mock(ending=("failed", "refused"), run="run", round=1, bytes=1)
    service.driven["job"] = coordinator_service._Driven(taken[0], process, desk)
    with (
        mock.patch.object(coordinator_service, "FIRST_PAUSE", 0.0),
        mock.patch.object(service.queue, "end", side_effect=[StoreError("the disk is full"), StoreError("still")]),
    ):
        for _ in range(2):
            service.tick()
            assert service.queue.job("job").state == "running"
    service.tick()
    assert (service.queue.job("job").state, service.driven) == ("failed", {})
    service.close()


def test_jobs_wait_while_a_party_is_missing(world: World) -> None:
    with world.service() as service, mock.patch.object(service, "all_here", return_value=False):
        world.jobs.submit("patient", world.job)
        service.tick()
        assert world.jobs.cancel("patient").state == "cancelled"


def test_a_job_waits_for_an_operator_while_others_run_and_goes_on_with_the_answer(world: World, tmp_path: Path) -> None:
    party = world.made.names[1]
    box = Inbox(tmp_path)
    world.services[party].withdraw = box.withdraw
    world.before = lambda party, what: None
    world.approve = lambda asked: asked.party != party or box(asked)
    with world.service(most=1) as service, mock.patch.object(coordinator_service, "FIRST_PAUSE", 0.01):
        world.jobs.submit("asked", world.job)
        world.jobs.submit("asked-too", world.job)  # gets the one place while the first waits
        both = ("asked", "asked-too")
        world.until(service, lambda: len(box.questions()) == 2 and all(world.jobs.job(name).run for name in both))
        first, second = box.questions()
        box.answer(first.name, True)
        world.jobs.cancel(next(job.name for job in world.jobs.list() if job.run == second.run))
        world.over(service, *both)
        world.until(service, lambda: not box.questions(every=True))  # one begun, one withdrawn
        world.approve = lambda _: True
    assert {world.jobs.job(name).state for name in both} == {"finished", "cancelled"}
    box.close()
