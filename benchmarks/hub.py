"""A secure Gram matrix between organisations: peak memory and processor seconds of the hub and of each party.

Every role is a process of its own on this machine, with mutual TLS over the loopback interface; a party makes its own
columns, so that the hub never holds any. Beside each peak stands what the process had before the run: the interpreter
and its libraries. Aim: a hub under 400 MB for 8 parties of 30 columns or 2 of 120, and 100,000 rows.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.certs import Tls
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.network.transport.party import serve

QUICK, FULL = [(20_000, 30, 8)], [(100_000, 30, 8), (100_000, 120, 2)]  # rows, columns a party, parties
AIM = 400.0  # megabytes at full size
SPAWN = multiprocessing.get_context("spawn")  # nothing of this process goes along


def main(quick: bool) -> int:
    return max(_measured(*case) for case in (QUICK if quick else FULL))


def _measured(rows: int, columns: int, parties: int) -> int:
    names = [f"party{number}" for number in range(parties)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        certs.init(folder)
        coordinator, identity = new_key()
        (folder / certs.SIGNING_KEY).write_text(identity.hex())
        members = {}
        for name in (certs.HUB, *names):
            certs.issue(folder, name)
        for name in names:
            public, private = new_key()
            (folder / f"{name}.signing").write_bytes(private)
            members[name] = Member(None, co.Policy(epsilon=10.0, delta=1e-5), public, columns=columns)
        made = FederationFile(members, None, ("party0", "y"), rows=rows, coordinator=coordinator)
        made.save(folder / "federation.toml")
        return _run(folder, rows, columns, names)


def _run(folder: Path, rows: int, columns: int, names: list[str]) -> int:
    mine, its = SPAWN.Pipe()
    hub = SPAWN.Process(target=_hub, args=(str(folder), its), daemon=True)
    hub.start()
    port = mine.recv()
    ends = {name: SPAWN.Pipe() for name in names}
    running = [
        SPAWN.Process(target=_party, args=(str(folder), name, port, columns, ends[name][1]), daemon=True)
        for name in names
    ]
    for process in running:
        process.start()
    try:
        found = {"hub": mine.recv()}
        for process in running:
            process.terminate()
        found |= {name: ends[name][0].recv() for name in names}
    finally:
        for process in (hub, *running):
            process.terminate()
            process.join(20)
    print(f"{rows:,} rows × {columns} columns a party × {len(names)} parties")
    for role in ("hub", *names[:2]):
        before, peak, seconds = found[role]
        print(f"  {role:7} peak {peak:5.0f} MB (before the run {before:.0f}); {seconds:.2f} s of the processor")
    return int(found["hub"][1] > AIM)


def _hub(folder: str, answer: Connection) -> None:
    with co.Grpc("127.0.0.1:0", _files(folder, certs.HUB), patience=300.0) as hub:
        file = FederationFile.load(Path(folder) / "federation.toml")
        answer.send(hub.open(file).port)
        before, began = _peak(), time.process_time()
        problem = co.Problem(co.Logistic(), penalty=co.Ridge(1e-6), intercept=True)
        length = float(np.sqrt(sum(member.columns or 0 for member in file.members.values())))
        terms = co.Privacy(1.0, 1e-6, trust="secure", row_norm=length, feature_bound=1.0)
        store = Path(folder) / "hub"
        co.fit(co.Federation.elsewhere(file), problem, co.PrivateGram(), terms, engine=hub, store=store)
        answer.send((before, _peak(), time.process_time() - began))


def _party(folder: str, name: str, port: int, columns: int, answer: Connection) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    file = FederationFile.load(Path(folder) / "federation.toml")
    rng = np.random.default_rng(int(name.removeprefix("party")))
    table = rng.uniform(-1.0, 1.0, (file.rows or 0, columns))
    labels = np.where(table[:, 0] + rng.normal(size=len(table)) > 0.0, 1.0, -1.0) if name == "party0" else None
    before, began = _peak(), time.process_time()
    key = (Path(folder) / f"{name}.signing").read_bytes()
    service: Any = PartyService(PartyData(file, name, table, labels), Path(folder) / name, key, lambda _: True)
    with contextlib.closing(service):
        serve(f"127.0.0.1:{port}", _files(folder, name), name, service.answer, stop=stop)
    answer.send((before, _peak(), time.process_time() - began))
    os._exit(0)  # gRPC's threads have nothing more to do


def _files(folder: str, name: str) -> Tls:
    place = Path(folder)
    return Tls(place / f"{name}.pem", place / f"{name}.key", place / "authority.pem", place / "revoked.pem")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
