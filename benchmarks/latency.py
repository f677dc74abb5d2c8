"""How long a round takes over the network: every party is asked and every answer is there.

The hub is this process, the parties are threads of one other process, all on this machine, with mutual TLS over the
loopback interface. Parties answer with as many bytes as they were sent, which are random, so that nothing can be
compressed. The baseline is a bare grpcio stream with the same certificates: no numbers, no deadlines, no checks, no resend.
One function an engine: it gives a context that yields `round(request)`; the same rounds are timed for each, in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

import grpc

from colonnade import certs
from colonnade.engines.streams import Switchboard, Tls, serve

SIZES = {"1 KB": 1_000, "64 KB": 64_000, "1 MB": 1_000_000}
BAR = 1.30
_BARE = "/bare/talk"

Round = Callable[[bytes], None]


def files(folder: Path, name: str) -> Tls:
    return Tls(folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem", folder / "revoked.pem")


@contextmanager
def parties(engine: str, port: int, folder: Path, count: int) -> Iterator[None]:
    """The other process; it ends when its standard input does."""
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
def bare(folder: Path, count: int) -> Iterator[Round]:
    there: SimpleQueue[SimpleQueue[bytes | None]] = SimpleQueue()
    answers: SimpleQueue[bytes] = SimpleQueue()

    def talk(arriving: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        requests: SimpleQueue[bytes | None] = SimpleQueue()
        there.put(requests)
        while (request := requests.get()) is not None:
            yield request
            answers.put(next(arriving))

    class Door(grpc.GenericRpcHandler):
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
        with parties("bare", port, folder, count):
            queues += [there.get(timeout=60.0) for _ in range(count)]
            yield all_parties
    finally:
        for requests in queues:
            requests.put(None)
        server.stop(None).wait()


def bare_party(port: int, folder: Path, name: str, stop: threading.Event) -> None:
    mine = certs.load(files(folder, name))
    secured = grpc.ssl_channel_credentials(mine.authority, mine.key, mine.chain)
    options = [("grpc.ssl_target_name_override", certs.HUB), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"127.0.0.1:{port}", secured, options=options) as channel:
        answers: SimpleQueue[bytes] = SimpleQueue()
        call = channel.stream_stream(_BARE)(iter(answers.get, b""))
        threading.Thread(target=lambda: stop.wait() and call.cancel(), daemon=True).start()
        try:
            for request in call:
                answers.put(request)
        except grpc.RpcError:
            pass
        answers.put(b"")


# ------------------------------------------------------------------------------------------------ measuring

ENGINES = {"bare grpcio": bare, "streams": streams}
PARTIES = {"bare": bare_party, "streams": streams_party}


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
    return int(worst > BAR)


def _be_parties(engine: str, port: str, folder: str, count: str) -> None:
    stop = threading.Event()
    threads = [
        threading.Thread(target=PARTIES[engine], args=(int(port), Path(folder), f"party{i}", stop))
        for i in range(int(count))
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1:]:
        _be_parties(*sys.argv[1:])
        raise SystemExit(0)
    raise SystemExit(main())
