"""Runs between organisations over a slow network: 100 Mbit/s and 50 ms there and back.

The hub and the parties live in two network namespaces of this machine, joined by a pair of virtual interfaces that `tc netem`
slows down at both ends. Beside the measured time of a whole run stands the ideal: as many round trips as the hub asked its
most asked party questions one after another, and the bytes of the busier direction at the full rate. The difference is what
the parties compute, what the disk takes, and what could be asked in fewer questions.

Namespaces need root, `ip`, `tc` (iproute2) and a kernel with netem. Where something is missing, that is said, and a proxy in
this process stands in for the line: it holds every piece of data back for the time that the line would take. It spares TCP
the round trips of its own acknowledgements, so its times are a lower bound.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue

import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.certs import tls_in
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.network.transport.party import serve
from colonnade.runtime.program import COORDINATOR

RATE, ROUND_TRIP = 100e6, 0.050  # bits and seconds
PORT = 7443
ADDRESSES = {"hub": "10.213.77.1", "parties": "10.213.77.2"}
ROWS, COLUMNS, PARTIES = 4000, 30, 3
RUNS = ("SharingADMM", "PrivateGram")


def job(kind: str) -> tuple[co.Problem, object, co.Privacy | None]:
    if kind == "SharingADMM":
        return co.Problem(co.Logistic(), penalty=co.Lasso(0.01)), co.SharingADMM(rounds=20, tolerance=0.0), None
    privacy = co.Privacy(epsilon=1.0, delta=1e-6, trust="secure", row_norm=4.0)
    return co.Problem(co.Logistic(), penalty=co.Ridge(1e-3), intercept=True), co.PrivateGram(), privacy


def prepare(folder: Path, kind: str) -> None:
    """Certificates, keys, tables and the federation file of a run."""
    certs.init(folder)
    certs.issue(folder, COORDINATOR)
    draw, members = np.random.default_rng(0), {}
    policy = co.Policy(exact=True) if job(kind)[2] is None else co.Policy(epsilon=2.0, delta=1e-6)
    for number in range(PARTIES):
        name = f"party{number}"
        certs.issue(folder, name)
        public, private = new_key()
        (folder / f"{name}.signing").write_bytes(private)
        np.save(folder / f"{name}.npy", draw.normal(size=(ROWS, COLUMNS)) / np.sqrt(COLUMNS))
        members[name] = Member(None, policy, public, columns=COLUMNS)
    first = np.load(folder / "party0.npy")
    np.save(folder / "labels.npy", np.sign(first[:, 0] - first[:, 1] + 0.1 * draw.normal(size=ROWS)))
    pin = certs.keep_signing_key(folder)
    FederationFile(members, None, ("party0", "y"), rows=ROWS, coordinator=pin).save(folder / "federation.toml")


# ------------------------------------------------------------------------------------------------ in the namespaces


def be_hub(folder: Path, kind: str, address: str) -> None:
    """Two runs, of which the first warms up; what the second took goes to standard output."""
    file = FederationFile.load(folder / "federation.toml")
    problem, method, privacy = job(kind)
    options = {} if privacy is None else {"privacy": privacy}
    asked: Counter[str] = Counter()
    with co.Grpc(address, folder, patience=120.0) as hub:
        true = hub.ask

        def counted(party: str, *question: object) -> object:
            asked[party] += 1
            return true(party, *question)  # type: ignore[arg-type]

        hub.ask = counted  # type: ignore[method-assign, assignment]
        for _ in range(2):
            asked.clear()
            counts, began = hub.metrics, time.perf_counter()
            before = (counts.bytes_sent, counts.bytes_received)
            fit = co.fit(co.Federation.elsewhere(file), problem, method, engine=hub, store=folder / "hub", **options)  # type: ignore[arg-type]
            seconds = time.perf_counter() - began
    found = {
        "seconds": seconds,
        "questions": max(asked.values()),
        "sent": counts.bytes_sent - before[0],
        "received": counts.bytes_received - before[1],
        "messages": sum(row["messages"] for row in fit.communication.table().to_dicts()),
    }
    sys.stdout.write(json.dumps(found))


def be_parties(folder: Path, address: str) -> None:
    """All parties as threads, until standard input ends."""
    stop, file = threading.Event(), FederationFile.load(folder / "federation.toml")

    def live(name: str) -> None:
        labels = np.load(folder / "labels.npy") if name == "party0" else None
        party_data = PartyData(file, name, np.load(folder / f"{name}.npy"), labels)
        key = (folder / f"{name}.signing").read_bytes()
        with contextlib.closing(PartyService(party_data, folder / f"store-{name}", key, lambda _: True)) as service:
            serve(address, tls_in(folder, name), name, service.answer, stop=stop)

    threads = [threading.Thread(target=live, args=(name,)) for name in file.members]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()


# ------------------------------------------------------------------------------------------------ outside


class NotPermitted(Exception):
    """This machine lets nobody make network namespaces, or lacks the tools."""


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPermitted(f"`{' '.join(command)}`: {done.stderr.strip() or done.returncode}")


@contextlib.contextmanager
def namespaces() -> Iterator[dict[str, str]]:
    """Two namespaces with a slow line between them, by the names of their inhabitants."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        raise NotPermitted(f"{missing[0]} is not installed (iproute2)")
    tag = secrets.token_hex(3)  # not the process: the system takes its time to let go of a name
    made = {role: f"colonnade-{role}-{tag}" for role in ADDRESSES}
    line = {role: f"cln{role[0]}{tag}" for role in ADDRESSES}
    try:
        for space in made.values():
            _do("ip", "netns", "add", space)
        _do("ip", "link", "add", line["hub"], "type", "veth", "peer", "name", line["parties"])
        for role, space in made.items():
            inside = ("ip", "netns", "exec", space)
            _do("ip", "link", "set", line[role], "netns", space)
            _do(*inside, "ip", "address", "add", f"{ADDRESSES[role]}/24", "dev", line[role])
            _do(*inside, "ip", "link", "set", line[role], "up")
            _do(*inside, "ip", "link", "set", "lo", "up")
            delay = f"{ROUND_TRIP / 2 * 1e3:g}ms"
            limit = ("limit", "10000")
            _do(
                *inside,
                "tc",
                "qdisc",
                "add",
                "dev",
                line[role],
                "root",
                "netem",
                "delay",
                delay,
                "rate",
                "100mbit",
                *limit,
            )
        yield made
    finally:
        for space in made.values():
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)
        subprocess.run(
            ["ip", "link", "delete", line["hub"]], capture_output=True, check=False
        )  # if it is still out here


class Line:
    """A proxy on the loopback interface that is as slow as the line, each direction for all connections together."""

    def __init__(self, target: int) -> None:
        self.target, self.free, self.lock = target, {"up": 0.0, "down": 0.0}, threading.Lock()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.door.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # the hub is not there yet
                    near.close()
                    continue
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink, way in ((near, far, "up"), (far, near, "down")):
                    pipe: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                    threading.Thread(target=self.take, args=(source, pipe, way), daemon=True).start()
                    threading.Thread(target=self.give, args=(pipe, sink), daemon=True).start()

    def take(self, source: socket.socket, pipe: SimpleQueue[tuple[float, bytes]], way: str) -> None:
        data = b"."
        while data:
            try:
                data = source.recv(1 << 14)
            except OSError:
                data = b""
            with self.lock:
                self.free[way] = max(self.free[way], time.monotonic()) + len(data) * 8 / RATE
                pipe.put((self.free[way] + ROUND_TRIP / 2, data))

    def give(self, pipe: SimpleQueue[tuple[float, bytes]], sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (piece := pipe.get())[1]:
                time.sleep(max(0.0, piece[0] - time.monotonic()))
                sink.sendall(piece[1])
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


def measured(kind: str) -> dict[str, float]:
    """One run over the slow line between two namespaces."""
    with namespaces() as spaces:
        inside = {role: ("ip", "netns", "exec", space) for role, space in spaces.items()}
        address = f"{ADDRESSES['hub']}:{PORT}"
        return driven(kind, inside, {"hub": address, "parties": address})


def emulated(kind: str) -> dict[str, float]:
    """One run through the proxy."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    line = Line(port)
    with contextlib.closing(line.door):
        return driven(kind, {}, {"hub": f"127.0.0.1:{port}", "parties": f"127.0.0.1:{line.port}"})


def driven(kind: str, inside: Mapping[str, tuple[str, ...]], address: dict[str, str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place), kind)
        start = {
            role: [*inside.get(role, ()), sys.executable, "-m", "benchmarks.netem", role, place, kind, address[role]]
            for role in ADDRESSES
        }
        with subprocess.Popen(start["parties"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as parties:
            try:
                hub = subprocess.run(start["hub"], capture_output=True, text=True, timeout=600, check=False)
            finally:
                assert parties.stdin is not None
                parties.stdin.close()
                parties.wait()
        if hub.returncode:
            raise RuntimeError(hub.stderr[-2000:])
        found: dict[str, float] = json.loads(hub.stdout)
        return found


def ideal(found: dict[str, float]) -> float:
    """Seconds that the line alone takes."""
    return found["questions"] * ROUND_TRIP + max(found["sent"], found["received"]) * 8 / RATE


def main(quick: bool = True) -> int:  # noqa: ARG001  one size: the line is what takes the time
    print(
        f"{PARTIES} parties, {ROWS:,} rows, {COLUMNS} columns each; 100 Mbit/s, {ROUND_TRIP * 1e3:g} ms there and back"
    )
    for kind in RUNS:
        try:
            found, how = measured(kind), "tc netem"
        except NotPermitted as error:
            if kind == RUNS[0]:
                print(f"  no line between namespaces: {error}")
            found, how = emulated(kind), "a proxy in its place"
        line = ideal(found)
        print(
            f"  {kind:12} {found['seconds']:7.2f} s  ideal {line:7.2f} s  {found['seconds'] / line:5.2f}x  "
            f"({found['questions']:.0f} questions in a row, {found['messages']:.0f} messages, "
            f"{found['sent'] / 1e6:.2f} MB to the parties, {found['received'] / 1e6:.2f} MB from them; {how})",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    if not sys.argv[1:]:
        raise SystemExit(main())
    _, role, place, kind, address = sys.argv
    if role == "hub":
        be_hub(Path(place), kind, address)
    else:
        be_parties(Path(place), address)
