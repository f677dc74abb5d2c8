"""A run in a process of its own, and the service that has the streams: what they say to each other.

One process holds the port and all streams (coordinator_service.py). Each run has a process of its own, so that its
memory is its own and goes when it ends, and that one which dies takes no other with it. It reaches the parties by a
pipe to the service, as msgpack (questions.py): nothing is unpickled on either side.

    run      ask      a question for a party, its bytes, how far the run has come   service   answered, or why not
             lines    who is connected, and by which process                                  lines
             note     a record for the log
             over     how it ended, and why

If the service dies, the pipe ends and the run's process with it, at once: whoever starts next takes the run up from
its store, and two never drive one run.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from colonnade.data.federation import Federation
from colonnade.data.federation_file import FederationFile
from colonnade.errors import ColonnadeError, InvalidInput, PeerFailed, ProtocolError, WireError
from colonnade.fields import Choice
from colonnade.network.certs import Tls
from colonnade.network.hub import Board, Grpc
from colonnade.network.hub_run import HubRun
from colonnade.network.questions import Parcel, pack, unpack
from colonnade.network.refusals import PeerUndecided
from colonnade.network.transport.envelope import LIMIT, PartyRestarted, PeerTimeout
from colonnade.runtime.host import NodeLogs
from colonnade.runtime.node import Listener, NodeSetup
from colonnade.runtime.program import NodeId

LARGEST = LIMIT + (1 << 20)
GLANCE = 0.2  # seconds between two looks at who is connected
# How a question fails, by the word for it on the pipe; the first that fits.
_FAILURES: dict[str, type[ColonnadeError]] = {
    "restarted": PartyRestarted,
    "timeout": PeerTimeout,
    "failed": PeerFailed,
    "stopped": ProtocolError,
}
_USUAL = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class LastWord(Choice):
    """How a run's process ended, as its service hears it."""

    FINISHED = "finished"
    FAILED = "failed"
    UNDECIDED = "undecided"  # an operator thinks; the run is proposed again
    AGAIN = "again"  # for a reason that may pass


class RunLine:
    """The run's end of the pipe, with the face of a Switchboard: `Grpc` asks its questions through it."""

    def __init__(self, pipe: Connection, progress: Callable[[], tuple[str, int]]) -> None:
        """progress  the run's name and its round, as far as they are known."""
        self._pipe = pipe
        self._progress = progress
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Parcel]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="run-line", daemon=True).start()

    def ask(self, party: str, request: bytes, *, timeout: float | None = None) -> Future[bytes]:
        run, round_ = self._progress()
        head = {"party": party, "timeout": timeout, "run": run, "round": round_}
        asked = self._send("ask", head, (request,))
        answered = Future[bytes]()

        def settle(found: Future[Parcel]) -> None:
            parcel = found.result()
            if word := parcel.head.get("failure"):
                answered.set_exception(_FAILURES.get(str(word), ProtocolError)(str(parcel.head.get("why"))))
            else:
                answered.set_result(parcel.blobs[0])

        asked.add_done_callback(settle)
        return answered

    @property
    def port(self) -> int:
        return 0  # the service listens

    def stop(self) -> None:
        """The streams are the service's."""

    def session(self, party: str) -> str | None:
        found: str | None = self._lines().get(party, (False, None))[1]
        return found

    def connected(self) -> set[str]:
        return {party for party, (here, _) in self._lines().items() if here}

    def wait_for(self, names: Collection[str], timeout: float) -> None:
        until = time.monotonic() + timeout
        while missing := sorted(set(names) - self.connected()):
            if time.monotonic() > until:
                who = ", ".join(map(repr, missing))
                raise PeerTimeout(f"after {timeout:g} s these parties have not connected: {who}. Their logs say why.")
            time.sleep(GLANCE)

    def note(self, record: Mapping[str, Any]) -> None:
        self._send("note", {"record": dict(record)}, answered=False)

    def over(self, word: LastWord, why: str, run: str) -> None:
        """The last word: how the job ended, or why it must be tried again. Waits until the service has it."""
        self._send("over", {"state": word, "why": in_utf8(why), "run": run}).result()

    def _lines(self) -> Mapping[str, tuple[bool, str | None]]:
        found: Mapping[str, tuple[bool, str | None]] = self._send("lines", {}).result().head["lines"]
        return found

    def _send(
        self, what: str, head: Mapping[str, Any], blobs: tuple[bytes, ...] = (), *, answered: bool = True
    ) -> Future[Parcel]:
        found = Future[Parcel]()
        with self._lock:
            number = next(self._numbers)
            if answered:
                self._waiting[number] = found
            # The service is gone, and so is this process in a moment.
            with contextlib.suppress(OSError):
                self._pipe.send_bytes(pack({"what": what, "number": number, **head}, blobs))
        return found

    def _read(self) -> None:
        try:
            while True:
                parcel = unpack(self._pipe.recv_bytes(LARGEST))
                with self._lock:
                    waiting = self._waiting.pop(int(parcel.head["number"]))
                waiting.set_result(parcel)
        except (EOFError, OSError, WireError, KeyError):
            # The service is gone: nothing of this run may go on beside its next process.
            os._exit(1)


class LinedHub(Grpc):
    """The engine of a run in a process of its own: its questions go by the streams of the service."""

    def __init__(self, pipe: Connection, file: FederationFile, tls: Tls, patience: float, store: Path) -> None:
        super().__init__("", tls, patience=patience)
        self.line = RunLine(pipe, self._progress)
        self._board = self.line
        self._file = file
        self._store = store
        self._run: HubRun | None = None

    def _progress(self) -> tuple[str, int]:
        return ("", 0) if self._run is None else (self._run.run, self._run.run_log.round)

    def open(self, file: FederationFile) -> Board:
        assert self._file is not None
        if file.digest != self._file.digest:
            raise InvalidInput("the service was started with another federation file. Start it again with this one.")
        return self.line

    def meet(self, federation: Federation, store: str | Path | None = None) -> Federation:
        # Rows are agreed on once, whoever comes first.
        with self.alone():
            return super().meet(federation, store)

    def hosted_nodes(
        self, run: str, setups: Mapping[NodeId, NodeSetup], logs: NodeLogs, listener: Listener, call: Any
    ) -> HubRun:
        self._run = super().hosted_nodes(run, setups, logs, listener, call)
        return self._run

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with (self._store / "locks" / "reserving.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def await_decision(self, undecided: PeerUndecided, began: float) -> None:  # noqa: ARG002
        """Leave the run open and end: others may have the place while an operator thinks."""
        raise undecided


class PipeLog(logging.Handler):
    """Lets a run's records appear in the log of the service, which alone writes to its file."""

    def __init__(self, line: RunLine) -> None:
        super().__init__()
        self.line = line

    def emit(self, record: logging.LogRecord) -> None:
        own = {name: value for name, value in vars(record).items() if name not in _USUAL}
        figures = {name: v if isinstance(v, int | float | None) else in_utf8(str(v)) for name, v in own.items()}
        usual = {"name": record.name, "levelno": record.levelno, "levelname": record.levelname}
        self.line.note({**figures, **usual, "msg": in_utf8(record.getMessage())})


def in_utf8(text: str) -> str:
    """What people read, as msgpack takes it: a path may have bytes that are no letters, and errors quote paths."""
    return text.encode(errors="backslashreplace").decode()


class RunProcess:
    """The service's end of one pipe: two threads that carry questions to the streams, and answers back."""

    def __init__(self, pipe: Connection, board: Board, members: Collection[str]) -> None:
        self.pipe = pipe
        self.board = board
        self.members = tuple(members)
        self.run = ""
        self.round = 0
        self.bytes = 0
        # The last word of the run's process, and why.
        self.ending: tuple[LastWord, str] | None = None
        self._out: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("run-reader", self._read), ("run-writer", self._write))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Hang up: the run's process ends if it has not."""
        self._out.put(None)
        for thread in self._threads:
            # A reader may wait for room on a line; it ends with that.
            thread.join(5.0)
        self.pipe.close()

    def _read(self) -> None:
        handlers = {"ask": self._ask, "lines": self._lines, "note": self._note, "over": self._over}
        with contextlib.suppress(EOFError, OSError, WireError, KeyError):
            while True:
                asked = unpack(self.pipe.recv_bytes(LARGEST))
                handlers[asked.head["what"]](asked)
        self._out.put(None)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (raw := self._out.get()) is not None:
                self.pipe.send_bytes(raw)

    def _ask(self, asked: Parcel) -> None:
        head, (request,) = asked.head, asked.blobs
        self.run, self.round = head["run"] or self.run, max(self.round, head["round"])
        self.bytes += len(request)
        try:
            self.board.ask(head["party"], request, timeout=head["timeout"]).add_done_callback(
                lambda found: self._answer(head["number"], found)
            )
        except ColonnadeError as error:
            self._fail(head["number"], error)

    def _answer(self, number: int, found: Future[bytes]) -> None:
        if (error := found.exception()) is not None:
            self._fail(number, error)
            return
        self.bytes += len(found.result())
        self._out.put(pack({"number": number}, (found.result(),)))

    def _fail(self, number: int, error: BaseException) -> None:
        word = next((word for word, kind in _FAILURES.items() if isinstance(error, kind)), "stopped")
        self._out.put(pack({"number": number, "failure": word, "why": in_utf8(str(error))}))

    def _lines(self, asked: Parcel) -> None:
        here = self.board.connected()
        lines = {name: (name in here, self.board.session(name)) for name in self.members}
        self._out.put(pack({"number": asked.head["number"], "lines": lines}))

    def _note(self, asked: Parcel) -> None:
        record = logging.makeLogRecord(dict(asked.head["record"]))
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)

    def _over(self, asked: Parcel) -> None:
        self.run = asked.head["run"] or self.run
        self.ending = LastWord(asked.head["state"]), asked.head["why"]
        self._out.put(pack({"number": asked.head["number"]}))
