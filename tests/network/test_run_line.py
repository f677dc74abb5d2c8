"""Claims about the pipe between a run's process and the service that has the streams (network/run_line.py)."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed, ProtocolError
from colonnade.network import run_line
from colonnade.network.refusals import PeerUndecided
from colonnade.network.run_line import LinedHub, PipeLog, RunLine, RunProcess
from colonnade.network.transport.envelope import PartyRestarted, PeerTimeout


class Board:
    """Streams of nobody: every question is answered as the test says."""

    def __init__(self) -> None:
        self.here, self.processes = {"a", "b"}, {"a": "1", "b": "2"}
        self.asked: list[tuple[str, bytes, float | None]] = []
        self.answers: dict[str, bytes | ColonnadeError] = {}

    def connected(self) -> set[str]:
        return self.here

    def session(self, party: str) -> str | None:
        return self.processes.get(party)

    def ask(self, party: str, request: bytes, *, timeout: float | None = None) -> Future[bytes]:
        self.asked.append((party, request, timeout))
        if party == "nobody":
            raise InvalidInput("there is no such party")
        found, answer = Future[bytes](), self.answers[party]
        if isinstance(answer, bytes):
            found.set_result(answer)
        else:
            found.set_exception(answer)
        return found


class Ends:
    """Both ends of one pipe, in one process."""

    def __init__(self, board: Board) -> None:
        ours, theirs = Pipe()
        self.board, self.progress = board, ("", 0)
        self.desk = RunProcess(ours, board, ["a", "b", "c"])  # type: ignore[arg-type]
        self.line = RunLine(theirs, lambda: self.progress)
        self.pipe = theirs


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    gone = threading.Event()
    exits: list[int] = []

    def leave(code: int) -> None:
        exits.append(code)
        gone.set()

    monkeypatch.setattr(run_line, "os", SimpleNamespace(_exit=leave))
    made = Ends(Board())
    yield made
    with socket.socket(fileno=os.dup(made.pipe.fileno())) as both:  # a pipe of two directions is a pair of sockets
        both.shutdown(socket.SHUT_RDWR)
    assert gone.wait(20)  # a run whose service is gone ends at once
    made.desk.close()
    assert exits == [1]
    made.pipe.close()


def test_questions_go_to_their_party_and_what_goes_over_the_lines_is_counted(ends: Ends) -> None:
    ends.board.answers = {"a": b"four", "b": b"seven!!"}
    for party, request, timeout, progress in (
        ("a", b"12345", 3.0, ("", 0)),
        ("b", b"12", None, ("run", 5)),
        ("a", b"", 1.0, ("", 2)),
    ):
        ends.progress = progress
        assert ends.line.ask(party, request, timeout=timeout).result(20) == ends.board.answers[party]
    assert ends.board.asked == [("a", b"12345", 3.0), ("b", b"12", None), ("a", b"", 1.0)]
    assert (ends.desk.run, ends.desk.round, ends.desk.bytes) == ("run", 5, 5 + 4 + 2 + 7 + 0 + 4)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PartyRestarted("anew"), PartyRestarted),
        (PeerTimeout("late"), PeerTimeout),
        (PeerFailed("broke"), PeerFailed),
        (ProtocolError("stopped"), ProtocolError),
    ],
)
def test_an_error_of_a_question_is_the_same_error_on_the_other_side(ends: Ends, error, kind) -> None:
    ends.board.answers = {"a": error}
    found = ends.line.ask("a", b"?").exception(20)
    assert (type(found), str(found)) == (kind, str(error))
    refused = ends.line.ask("nobody", b"?").exception(20)
    assert (type(refused), str(refused)) == (ProtocolError, "there is no such party")


def test_who_is_here_and_by_which_process_is_said_of_every_member(ends: Ends) -> None:
    ends.board.here, ends.board.processes = {"a", "stranger"}, {"a": "1", "b": "2", "stranger": "3"}
    assert ends.line.connected() == {"a"}
    assert [ends.line.session(name) for name in ("a", "b", "c", "stranger")] == ["1", "2", None, None]


def test_a_run_waits_for_those_it_needs_and_for_nobody_else(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    ends.line.wait_for(["a", "b"], timeout=0.0)
    monkeypatch.setattr(run_line, "GLANCE", 0.0)
    with pytest.raises(PeerTimeout, match=r"after 0 s these parties have not connected: 'c', 'd'\."):
        ends.line.wait_for(["d", "a", "c"], timeout=0.0)
    looks = iter([set(), {"a"}, {"a", "c"}])
    ends.board.connected = lambda: next(looks)  # type: ignore[method-assign]
    ends.line.wait_for(["a", "c"], timeout=60.0)
    assert next(looks, None) is None


def test_the_last_word_of_a_run_is_kept_and_its_name_too(ends: Ends) -> None:
    ends.line.over("again", "a full disk", "run")
    assert (ends.desk.ending, ends.desk.run) == (("again", "a full disk"), "run")
    ends.line.over("finished", "", "")
    assert (ends.desk.ending, ends.desk.run) == (("finished", ""), "run")


def test_records_of_a_run_appear_in_the_services_log_as_they_were(ends: Ends, caplog) -> None:
    sent, silent = PipeLog(ends.line), logging.getLogger("colonnade.test.silent")
    silent.setLevel(logging.ERROR)
    with caplog.at_level(logging.INFO, "colonnade.test"):
        for level, name in (
            (logging.WARNING, "colonnade.test.run"),
            (logging.WARNING, "colonnade.test.silent"),
            (logging.INFO, "colonnade.test.run"),
        ):
            record = logging.makeLogRecord(
                {"name": name, "levelno": level, "levelname": logging.getLevelName(level), "msg": "%s left"}
            )
            record.args, record.rows, record.where = (3,), 7, {"a"}  # type: ignore[attr-defined]
            sent.emit(record)
        ends.line.over("finished", "", "")  # comes behind them
    found = [(one.name, one.levelno, one.levelname, one.getMessage(), one.rows, one.where) for one in caplog.records]
    levels = ((logging.WARNING, "WARNING"), (logging.INFO, "INFO"))
    assert found == [("colonnade.test.run", *level, "3 left", 7, "{'a'}") for level in levels]


def test_what_quotes_a_path_whose_bytes_are_no_letters_is_told_all_the_same(ends: Ends, caplog) -> None:
    """Python reads such a byte as half a character, which no message can carry: a run could not say how it ended."""
    path = os.fsdecode(b"/hub-\xff/runs")
    ends.board.answers = {"a": PeerFailed(f"cannot write to {path}")}
    assert str(ends.line.ask("a", b"?").exception(20)) == r"cannot write to /hub-\udcff/runs"
    with caplog.at_level(logging.INFO, "colonnade.test"):
        record = logging.makeLogRecord({"name": "colonnade.test.run", "levelno": logging.INFO, "levelname": "INFO"})
        record.msg, record.where, record.place = f"left {path}", path, SimpleNamespace(path=path)  # type: ignore[attr-defined]
        PipeLog(ends.line).emit(record)
        ends.line.over("again", f"cannot write to {path}; Überlauf", "run")
    assert ends.desk.ending == ("again", r"cannot write to /hub-\udcff/runs; Überlauf")
    (told,) = caplog.records
    assert (told.getMessage(), told.where) == (r"left /hub-\udcff/runs", r"/hub-\udcff/runs")


def test_a_run_in_a_process_of_its_own_has_the_services_file_and_gives_up_its_place_to_wait(tmp_path) -> None:
    (tmp_path / "locks").mkdir()
    pipe, theirs = Pipe()
    with contextlib.closing(pipe), contextlib.closing(theirs):
        file = SimpleNamespace(digest="this")
        made = [LinedHub.__new__(LinedHub) for _ in range(2)]
        for one in made:
            one._file, one._store, one.line = file, tmp_path, "line"  # type: ignore[assignment]
        assert made[0].open(SimpleNamespace(digest="this")) == "line"  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="another federation file"):
            made[0].open(SimpleNamespace(digest="other"))  # type: ignore[arg-type]
        with pytest.raises(PeerUndecided):
            made[0].await_decision(PeerUndecided("a"), 0.0)
        lock = tmp_path / "locks" / "reserving.lock"
        # flock: of one process two opens are two holders
        with made[0].alone(), lock.open("w") as other, pytest.raises(BlockingIOError):
            run_line.fcntl.flock(other, run_line.fcntl.LOCK_SH | run_line.fcntl.LOCK_NB)
