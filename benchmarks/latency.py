"""How long a round takes over the network: every party is asked and every answer is there.

The hub is this process, every party a process of its own, all on this machine, with mutual TLS over the loopback
interface. Parties answer with as many bytes as they were sent. The
baseline is a bare grpcio stream with the same certificates: no numbers, no deadlines, no checks, no resend. One function an
engine: it gives a context that yields `round(request)`; the same rounds are timed for each, in turns.

A second table is about a round of the whole engine, with ledgers and transcripts: a toy method whose coordinator sends some
bytes to all parties and gets as many back from each. Every step is a transaction that is on the disk before anything is
sent, so its baseline is the bare stream with the same transactions: the same rows, made durable at the same moments. The two
take turns round by round: while one is timed, the other waits. Beside the time stands the processor time of this process.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count as counting
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import grpc  # type: ignore[import-untyped]  # grpcio carries no types
import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.methods.method import Done, Finish, Method
from colonnade.methods.node_setup import known_values
from colonnade.model.job import Answer, Own, Status
from colonnade.network import certs
from colonnade.network.certs import Tls
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.network.transport.hub import Switchboard
from colonnade.network.transport.party import serve
from colonnade.privacy.events import EXACT, Charge
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Released
from colonnade.runtime.node import LOOK, SHORT
from colonnade.runtime.program import COORDINATOR, ask, ask_one, last, message, receive, tell

SIZES = {"1 KB": 1_000, "64 KB": 64_000, "1 MB": 1_000_000}
BAR = 1.30
_BARE = "/bare/talk"

WARM = 3  # rounds that are not counted: the first tells of no round before it

Round = Callable[[bytes], None]


class Spent(NamedTuple):
    """Seconds that passed, and seconds for which this process had a processor."""

    wall: float
    cpu: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall - other.wall, self.cpu - other.cpu)


def now() -> Spent:
    return Spent(time.perf_counter(), time.process_time())


def median(spent: list[Spent]) -> Spent:
    return Spent(statistics.median(s.wall for s in spent), statistics.median(s.cpu for s in spent))


def files(folder: Path, name: str) -> Tls:
    return Tls(folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem", folder / "revoked.pem")


@contextmanager
def parties(engine: str, port: int, folder: Path, count: int) -> Iterator[None]:
    """The other processes; they end when their standard input does."""
    command = [sys.executable, "-m", "benchmarks.latency", engine, str(port), str(folder), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            yield
        finally:
            assert child.stdin is not None
            child.stdin.close()
            child.wait()


# ------------------------------------------------------------------------------------------------ streams


@contextmanager
def streams(folder: Path, count: int) -> Iterator[Round]:
    names = [f"party{i}" for i in range(count)]
    hub = Switchboard("127.0.0.1:0", files(folder, certs.HUB), dict.fromkeys(names))
    hub.start()

    def all_parties(request: bytes) -> None:
        for future in [hub.ask(name, request, timeout=60.0) for name in names]:
            assert len(future.result()) == len(request)

    try:
        with parties("streams", hub.port, folder, count):
            hub.wait_for(names, timeout=60.0)
            yield all_parties
    finally:
        hub.stop()


def streams_party(port: int, folder: Path, name: str, stop: threading.Event) -> None:
    serve(f"127.0.0.1:{port}", files(folder, name), name, lambda request: request, stop=stop)


# ------------------------------------------------------------------------------------------------ bare grpcio


@contextmanager
def bare(folder: Path, count: int, kind: str = "bare") -> Iterator[Round]:
    there: SimpleQueue[SimpleQueue[bytes | None]] = SimpleQueue()
    answers: SimpleQueue[bytes] = SimpleQueue()

    def talk(arriving: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        requests: SimpleQueue[bytes | None] = SimpleQueue()
        there.put(requests)
        while (request := requests.get()) is not None:
            yield request
            answers.put(next(arriving))

    class Door(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio carries no types
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            return grpc.stream_stream_rpc_method_handler(talk) if details.method == _BARE else None

    mine = certs.load(files(folder, certs.HUB))
    server = grpc.server(ThreadPoolExecutor(count), handlers=[Door()])
    secured = grpc.ssl_server_credentials([(mine.key, mine.chain)], mine.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", secured)
    server.start()
    queues: list[SimpleQueue[bytes | None]] = []

    def all_parties(request: bytes) -> None:
        for requests in queues:
            requests.put(request)
        for _ in queues:
            assert len(answers.get()) == len(request)

    try:
        with parties(kind, port, folder, count):
            queues += [there.get(timeout=60.0) for _ in range(count)]
            yield all_parties
    finally:
        for requests in queues:
            requests.put(None)
        server.stop(None).wait()


def bare_party(
    port: int, folder: Path, name: str, stop: threading.Event, before: Callable[[bytes], None] = lambda _: None
) -> None:
    mine = certs.load(files(folder, name))
    secured = grpc.ssl_channel_credentials(mine.authority, mine.key, mine.chain)
    options = [("grpc.ssl_target_name_override", certs.HUB), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"127.0.0.1:{port}", secured, options=options) as channel:
        answers: SimpleQueue[bytes] = SimpleQueue()
        call = channel.stream_stream(_BARE)(iter(answers.get, b""))
        threading.Thread(target=lambda: stop.wait() and call.cancel(), daemon=True).start()
        try:
            for request in call:
                before(request)
                answers.put(request)
        except grpc.RpcError:
            pass
        answers.put(b"")


# ------------------------------------------------------------------------------------------------ and the same transactions


class RunLog:
    """A log that takes a step as a node does: one transaction."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log, self.ticks = FileLog(folder / f"{name}-{time.monotonic_ns()}.db"), counting()

    def party(self, request: bytes) -> None:
        """A letter came; something was released; a letter goes."""
        tick = next(self.ticks)
        with self.log.atomic():
            self.log.append("run", tick, "event", "0", b"x" * 200)
            self.log.append("run", tick, "release", "0", b"x" * 16)
            self.log.append("run", tick, "in", COORDINATOR, request)
            self.log.append("run", tick, "out", COORDINATOR, _sent(request))
            self.log.append("run", tick, "step", "", b"[]")

    def hub(self, request: bytes, count: int) -> None:
        """A letter of every party came; one goes to each."""
        tick = next(self.ticks)
        with self.log.atomic():
            for number in range(count):
                self.log.append("run", tick, "in", f"party{number}", request)
                self.log.append("run", tick, "out", f"party{number}", _sent(request))
            self.log.append("run", tick, "step", "", b"[]")


def _sent(request: bytes) -> bytes:
    """As much as a transcript keeps of a message that was sent; whose hash costs nothing here."""
    return request if len(request) < SHORT else b"x" * (LOOK + 32)


@contextmanager
def bare_durable(folder: Path, count: int) -> Iterator[Round]:
    run_log = RunLog(folder / "run_logs", "hub")
    with bare(folder, count, "durable") as ask_all:

        def all_parties(request: bytes) -> None:
            ask_all(request)
            run_log.hub(request, count)

        yield all_parties


def durable_party(port: int, folder: Path, name: str, stop: threading.Event) -> None:
    bare_party(port, folder, name, stop, RunLog(folder / "run_logs", name).party)


# ------------------------------------------------------------------------------------------------ the whole engine


@message(910)
class Ball:
    """Coordinator → party: bytes."""

    body: bytes


@message(911)
class Back:
    """Party → coordinator: as many bytes."""

    body: Released[bytes]


@dataclass(frozen=True)
class Catch(Method):
    """A toy: so many rounds of so many bytes to and fro."""

    rounds: int = 1
    length: int = 0
    TITLE: ClassVar[str] = "to and fro"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[dict[type | None, type]] = {Ball: Back, Finish: Done}

    def check(self, job: Any) -> None:
        """Any job will do."""

    def price(self, job: Any) -> dict[str, Any]:
        return dict.fromkeys(job.roster.parties, (Charge(EXACT, self.rounds, "bytes"),))

    def coordinator(self, job: Any, gate: Any) -> Any:  # noqa: ARG002  it holds no data
        ball, names = Ball(os.urandom(self.length)), job.roster.parties
        for number in range(self.rounds):
            yield from ask(names, ball, Back, {"round": number + 1})
        nothing = {name: np.zeros(len(job.roster.positions[name])) for name in names}
        yield from tell({name: Finish(x, 0.0) for name, x in nothing.items()}, Done)
        return Answer(nothing, 0.0, None, None, Status.OUT_OF_ROUNDS)

    def party(self, job: Any, block: Any, gate: Any) -> Any:  # noqa: ARG002  it sends back what came
        request = yield from receive(COORDINATOR, Ball | Finish)
        while not isinstance(request, Finish):
            request = yield from ask_one(COORDINATOR, Back(gate.exact(request.body)), Ball | Finish)
        yield from last({COORDINATOR: Done()})
        return Own(request.coefficients, gate.receipt())


known_values()["Catch"] = Catch  # a toy may travel here, and nowhere else


def federation_file(folder: Path, count: int) -> FederationFile:
    """A federation of parties with one column each; their keys are in the folder."""
    members = {}
    for number in range(count):
        public, private = new_key()
        (folder / f"party{number}.signing").write_bytes(private)
        members[f"party{number}"] = Member(None, co.Policy(exact=True), public, columns=1)
    made = FederationFile(members, None, ("party0", "y"), rows=4)
    made.save(folder / f"federation{count}.toml")
    return made


def whole(folder: Path, count: int, size: int, rounds: int, between: Callable[[], None]) -> list[Spent]:
    """What each round took, from one note of the coordinator to the next; `between` runs when all parties wait."""
    spent: list[Spent] = []
    with co.Grpc("127.0.0.1:0", files(folder, certs.HUB), patience=120.0) as hub:
        made = federation_file(folder, count)
        board = hub.open(made)
        with parties(f"whole{count}", board.port, folder, count), tempfile.TemporaryDirectory(dir=folder) as store:
            hosted_nodes, began = hub.hosted_nodes, [now()]

            def noted(*_: Any) -> None:
                spent.append(now() - began[0])
                between()
                began[0] = now()

            def listening(run: str, setups: Any, books: Any, _: Any, call: Any) -> Any:
                return hosted_nodes(run, setups, books, noted, call)

            problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
            method = Catch(rounds + WARM, size)
            with mock.patch.object(hub, "hosted_nodes", listening):
                co.fit(co.Federation.elsewhere(made), problem, method, engine=hub, store=store)
    return spent[WARM:]


def whole_party(port: int, folder: Path, name: str, stop: threading.Event, count: int = 0) -> None:
    labels = np.zeros(4) if name == "party0" else None
    party_data = PartyData(FederationFile.load(folder / f"federation{count}.toml"), name, np.ones((4, 1)), labels)
    key = (folder / f"{name}.signing").read_bytes()
    with contextlib.closing(
        PartyService(party_data, folder / f"store-{count}-{port}-{name}", key, lambda _: True)
    ) as service:
        serve(f"127.0.0.1:{port}", files(folder, name), name, service.answer, stop=stop)


# ------------------------------------------------------------------------------------------------ measuring

ENGINES = {"bare grpcio": bare, "streams": streams}
PARTIES = {"bare": bare_party, "streams": streams_party, "durable": durable_party}
PARTIES |= {f"whole{count}": partial(whole_party, count=count) for count in (4, 16)}


def compare(folder: Path, count: int, rounds: int, turns: int) -> dict[str, dict[str, float]]:
    """Median seconds of a round, by engine and size; engines take turns, so that a busy moment hits them alike."""
    times: dict[str, dict[str, list[float]]] = {name: {size: [] for size in SIZES} for name in ENGINES}
    with ExitStack() as stack:
        running = {name: stack.enter_context(engine(folder, count)) for name, engine in ENGINES.items()}
        for size, length in SIZES.items():
            request = os.urandom(length)
            few = max(1, rounds * 4_000 // (4_000 + length))
            for turn in range(turns + 1):
                for name, ask in running.items():
                    for _ in range(few):
                        began = time.perf_counter()
                        ask(request)
                        if turn:  # the first turn warms up
                            times[name][size].append(time.perf_counter() - began)
    return {name: {size: statistics.median(all_) for size, all_ in sizes.items()} for name, sizes in times.items()}


def main(quick: bool = True) -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        certs.init(folder)
        for name in (certs.HUB, *(f"party{i}" for i in range(16))):
            certs.issue(folder, name)
        print(f"a round over loopback with mutual TLS, same bytes back; median, bar {BAR:.2f}x bare grpcio")
        for count in (4, 16):
            found = compare(folder, count, rounds=8 if quick else 16, turns=30 if quick else 100)
            for size in SIZES:
                base = found["bare grpcio"][size]
                for name in ENGINES:
                    ratio = found[name][size] / base
                    worst = max(worst, ratio)
                    print(f"  {count:3} parties  {size:>5}  {name:12} {found[name][size] * 1e3:8.2f} ms  {ratio:5.2f}x")
    return max(int(worst > BAR), whole_rounds(quick))


def whole_rounds(quick: bool, counts: tuple[int, ...] = (4, 16), sizes: Iterable[str] = SIZES) -> int:
    """The table of whole rounds; 1 if one is over the bar."""
    worst = 0.0
    print(
        f"a round of the whole engine, every step on disk first; bar {BAR:.2f}x bare grpcio with the same transactions"
    )
    for count in counts:
        for size in sizes:
            rounds = max(10, (60 if quick else 300) * 120_000 // (120_000 + SIZES[size] * count // 4))
            ours, base = (median(spent) for spent in in_turns(count, SIZES[size], rounds))
            ratio = ours.wall / base.wall
            worst = max(worst, ratio)
            print(
                f"  {count:3} parties  {size:>5}  bare and durable {base.wall * 1e3:8.2f} ms  whole {ours.wall * 1e3:8.2f} ms  "
                f"{ratio:5.2f}x  (hub's processor {base.cpu * 1e3:6.2f} and {ours.cpu * 1e3:6.2f} ms; {rounds} rounds)",
                flush=True,
            )
    return int(worst > BAR)


def in_turns(count: int, length: int, rounds: int) -> tuple[list[Spent], list[Spent]]:
    """What each round took of the whole engine and of the bare stream, one of each by turns."""
    bare_spent: list[Spent] = []
    request = os.urandom(length)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        certs.init(folder)
        for name in (certs.HUB, *(f"party{i}" for i in range(count))):
            certs.issue(folder, name)
        with bare_durable(folder, count) as once:

            def bare_round() -> None:
                began = now()
                once(request)
                bare_spent.append(now() - began)

            ours = whole(folder, count, length, rounds, bare_round)
    return ours, bare_spent[WARM:]


def _be_parties(engine: str, port: str, folder: str, count: str) -> None:
    """One process a party: made from this one, so that sixteen do not each load the library."""
    children = []
    for number in range(int(count)):
        child = os.fork()  # nothing of gRPC has begun in this process
        if not child:
            _be_party(PARTIES[engine], int(port), Path(folder), f"party{number}")
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _be_party(party: Callable[..., None], port: int, folder: Path, name: str) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=party, args=(port, folder, name, stop))
    thread.start()
    sys.stdin.read()
    stop.set()
    thread.join()


if __name__ == "__main__":
    if sys.argv[1:]:
        _be_parties(*sys.argv[1:])
        raise SystemExit(0)
    raise SystemExit(main())
