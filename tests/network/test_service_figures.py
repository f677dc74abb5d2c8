"""Claims about what becomes of a job when its run's process has ended, without processes: how often it is tried again, when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from colonnade.errors import PeerFailed
from colonnade.network import coordinator_service
from colonnade.network.coordinator_service import CoordinatorService, _Driven
from colonnade.network.questions import Question, unpack
from colonnade.network.status_page import StatusPage
from colonnade.privacy.events import ABORTED, FINISHED, Ending, How
from colonnade.runtime.run_store import RunStore

pytestmark = pytest.mark.chance(0, "ids and keys alone are drawn: no claim depends on them")

WHY = ("given up after 21 troubles; the last: why",)


def service(**more: Any) -> CoordinatorService:
    made = CoordinatorService.__new__(CoordinatorService)
    made.queue, made.driven, made.draining, made.most, made._told = mock.Mock(), {}, False, 2, 0.0
    made.board = mock.Mock(connected=lambda: {"a", "b"})
    made.file = SimpleNamespace(members={"a": None, "b": None})  # type: ignore[assignment]
    vars(made).update(more)
    return made


def driven(made: CoordinatorService, name: str = "job", **more: Any) -> _Driven:
    about = {"name": name, "digest": "0", "owner": "lab", "troubles": 0, "attempts": 1, **more}
    desk = SimpleNamespace(run="run", round=3, bytes=5000, ending=("again", "why"))
    made.driven[name] = _Driven(SimpleNamespace(**about), mock.Mock(), desk, 0)  # type: ignore[arg-type]
    return made.driven[name]


@pytest.mark.parametrize(
    ("state", "tried", "told"),
    [
        ("again", {"troubles": 0}, ("again", "queued", 1.0, True)),
        ("again", {"troubles": 2}, ("again", "queued", 2.25, True)),
        ("again", {"troubles": 19}, ("again", "queued", 60.0, True)),  # 1.5^19 is 2,217
        ("again", {"troubles": 20}, ("end", "failed", *WHY)),
        ("undecided", {"attempts": 3}, ("again", "waiting", 3.375, False)),
        ("undecided", {"attempts": 30, "troubles": 20}, ("again", "waiting", 120.0, False)),
        ("finished", {"troubles": 20}, ("end", "finished", "why")),
        ("failed", {}, ("end", "failed", "why")),
        (None, {}, ("again", "queued", 1.0, True)),
    ],
)
def test_a_job_is_tried_again_twenty_times_after_pauses_that_grow_and_waits_for_an_operator_without_end(
    state, tried, told
):
    made = service(_abort=lambda job, how, why: (how, why))
    one = driven(made, **tried)
    one.desk.ending = None if state is None else (state, "why")
    made._settle(one)
    if told[0] == "end":
        assert made.queue.end.call_args.args == ("job", *told[1:])
        assert not made.queue.again.called
    else:
        (name, waits, pause, why), more = made.queue.again.call_args
        assert (name, waits, pause, more.get("trouble", False)) == ("job", *told[1:])
        assert why == ("why" if state else "the process of its run ended before it was over (exit code 0)")
        assert not made.queue.end.called
    assert made.driven == {}


@pytest.mark.parametrize(
    ("here", "draining", "begun"),
    [({"a", "b"}, False, 1), ({"a", "b", "c"}, False, 1), ({"a"}, False, 0), ({"a", "b"}, True, 0)],
)
def test_jobs_begin_where_there_is_a_place_and_every_party_is_here(here, draining, begun):
    made = service(draining=draining, board=mock.Mock(connected=lambda: here))
    driven(made, "under way").code = None
    made.queue.cancelling.return_value = ()
    made.queue.take.side_effect = lambda: (SimpleNamespace(name=f"job {made.queue.take.call_count}"), "text")
    made._start = lambda job, text: made.driven.update({job.name: mock.Mock(code=None)})  # type: ignore
    made._note_progress = lambda: None  # type: ignore[method-assign]
    made.tick()
    assert len(made.driven) == 1 + begun


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (FINISHED, ("finished", "")),
        (ABORTED, ("failed", "aborted")),
        (Ending(How.FAILED, "PeerSilent"), ("failed", "failed: a party did not answer in time")),
    ],
)
def test_a_job_whose_run_was_over_ends_as_the_run_did(how, told, tmp_path):
    made, job = service(store=tmp_path), SimpleNamespace(name="job", digest="0")
    assert made._abort(job, "cancelled", "why") == ("cancelled", "why")  # type: ignore[arg-type]  # it began none
    store = RunStore(tmp_path)
    with store.run_once(coordinator_service.job_key(job)) as run:  # type: ignore[arg-type]
        store.end(run, how)
    store.close()
    assert made._abort(job, "cancelled", "why") == told  # type: ignore[arg-type]
    assert not made.board.ask.called


def test_of_a_run_that_is_aborted_every_party_on_the_line_hears_though_one_cannot(tmp_path):
    made, job = service(store=tmp_path), SimpleNamespace(name="job", digest="0")
    made.board.ask.side_effect = PeerFailed("no")
    store = RunStore(tmp_path)
    with store.run_once(coordinator_service.job_key(job)) as run:  # type: ignore[arg-type]
        pass
    assert made._abort(job, "cancelled", "why") == ("cancelled", "why")  # type: ignore[arg-type]
    assert store.how_ended(run) == ABORTED
    store.close()
    asked = {call.args[0]: unpack(call.args[1]).head for call in made.board.ask.call_args_list}
    assert asked == {name: {"what": Question.SETTLE, "run": run, "over": {run: "aborted"}} for name in "ab"}


def test_the_page_shows_each_run_and_every_party_and_progress_is_noted_when_there_is_some(tmp_path):
    made, page = service(store=tmp_path, board=mock.Mock(connected=lambda: {"b", "c"})), StatusPage()
    one = driven(made)
    made.queue.counts = lambda: {"running": 1}
    made.show_on(page)
    shown = page.metrics()
    for line in (
        'run_round{job="job"} 3.0',
        'run_bytes{job="job"} 5000.0',
        'party_connected{party="a"} 0.0',
        'party_connected{party="b"} 1.0',
        "runs_most 2.0",
    ):
        assert f"colonnade_{line}\n" in shown
    assert 'party="c"' not in shown
    assert page.unmet() == ["not every party is connected"]
    made.draining = True
    assert page.unmet() == ["not every party is connected", "draining"]
    for _ in range(2):
        made._note(one)
    one.desk.round = 4
    made._note(one)
    assert [call.args for call in made.queue.progress.call_args_list] == [
        ("job", "run", 3, 5000),
        ("job", "run", 4, 5000),
    ]
