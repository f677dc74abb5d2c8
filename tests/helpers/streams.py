"""Lines between a hub and parties, real ones and damaged ones."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

grpc = pytest.importorskip("grpc", reason="the network needs the extra colonnade[grpc]")

from colonnade.network import certs  # noqa: E402
from colonnade.network.certs import Tls  # noqa: E402
from colonnade.network.transport import envelope as wire  # noqa: E402
from colonnade.network.transport.hub import Switchboard  # noqa: E402
from colonnade.network.transport.party import serve  # noqa: E402

PATIENCE = 20.0  # seconds until a test gives up; nothing here takes long on an idle machine
SESSION = bytes(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certs")
    certs.init(place)
    for name in ("coordinator", "hospital", "lab"):
        certs.issue(place, name)
    return place


def files(folder: Path, name: str) -> Tls:
    return Tls(folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem", folder / "revoked.pem")


@contextmanager
def switchboard(
    folder: Path, members: dict[str, bytes | None] | None = None, address: str = "127.0.0.1:0", **more: Any
) -> Iterator[Switchboard]:
    hub = Switchboard(address, files(folder, "coordinator"), members or {"hospital": None}, **more)
    hub.start()
    try:
        yield hub
    finally:
        hub.stop()


class Party:
    """`serve` in a thread; what it raised is kept."""

    def __init__(
        self,
        port: int,
        tls: Tls,
        name: str = "hospital",
        answer: Callable[[bytes], bytes] = lambda request: request[::-1],
        **more: Any,
    ) -> None:
        self.stop = threading.Event()
        self.states: list[str] = []
        self.times: list[float] = []
        self.error: BaseException | None = None
        self.arguments = (f"127.0.0.1:{port}", tls, name, answer)
        self.more = more
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            serve(*self.arguments, stop=self.stop, on_state=self._note, **self.more)
        except BaseException as error:
            self.error = error

    def _note(self, state: str) -> None:
        self.times.append(time.monotonic())
        self.states.append(state)

    def ended(self) -> BaseException | None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.error

    def __enter__(self) -> Party:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.ended()


class Raw:
    """A party that says whatever a test wants, over a real gRPC stream with a real certificate."""

    def __init__(self, port: int, tls: Tls, channel: Any = None) -> None:
        mine = certs.load(tls)
        secured = grpc.ssl_channel_credentials(mine.authority, mine.key, mine.chain)
        options = [("grpc.ssl_target_name_override", "coordinator"), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = channel or grpc.secure_channel(f"127.0.0.1:{port}", secured, options=options)
        self.out: SimpleQueue[bytes | None] = SimpleQueue()
        self.call = self.channel.stream_stream(wire.METHOD)(iter(self.out.get, None), timeout=PATIENCE)

    def hello(self, name: str = "hospital", session: bytes = SESSION, attempt: int = 1, **more: int) -> object:
        self.say(wire.PartyHello(name, session, attempt, **more).envelope())
        return self.greeted()

    def say(self, envelope: bytes) -> None:
        self.out.put(envelope)

    def hear(self) -> tuple[wire.Head, memoryview]:
        return wire.parse(next(self.call))

    def greeted(self) -> object:
        return wire.greeting(*self.hear())

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.out.put(None)
        self.call.cancel()
        self.channel.close()


def eventually(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


class Proxy:
    """Carries TCP to the hub, and breaks it: after so many bytes one way, once; or for a while altogether."""

    def __init__(self, target: int, upstream: ssl.SSLContext | None = None) -> None:
        self.target, self.upstream = target, upstream
        self.cut: dict[str, int] = {}  # direction → after how many bytes of one connection
        self.down = threading.Event()
        self.cuts = 0
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.down.is_set():
                    self._reset(near)
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                    far = self.upstream.wrap_socket(far) if self.upstream else far
                except OSError:
                    near.close()
                    continue
                self.pairs.append((near, far))
                for source, sink, way in ((near, far, "up"), (far, near, "down")):
                    threading.Thread(target=self._carry, args=(source, sink, way), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(65536):
                passed += len(data)
                if way in self.cut and passed > self.cut[way]:
                    del self.cut[way]
                    self.cuts += 1
                    self._reset(source, sink)
                    return
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _reset(self, *ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)
            end.close()

    def break_all(self) -> None:
        for pair in self.pairs:
            self._reset(*pair)
        self.pairs.clear()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self.break_all()
