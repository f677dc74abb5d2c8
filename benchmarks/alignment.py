"""Rows matched between two organisations: seconds, processor seconds and peak memory, by private set intersection.

Hub and parties are processes of this machine, with mutual TLS over the loopback interface. The baseline is the same
two tables matched by keyed digests, which is what a coordinator that nobody shares anything with would be trusted with.
Aim: a million keys a party in at most 5 minutes on two cores.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

import colonnade as co
from benchmarks.hub import SPAWN, _files, _peak
from colonnade.data.federation_file import AlignBy, FederationFile, Member, new_key
from colonnade.network import certs
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService
from colonnade.network.transport.party import serve

QUICK, FULL = 20_000, 1_000_000  # keys a party
AIM = 300.0  # seconds at full size
NAMES = ("bank", "clinic")


def main(quick: bool) -> int:
    rows = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as place:
        base, seconds = _timed(Path(place) / "digests", "digests", rows), _timed(Path(place) / "psi", "psi", rows)
    print(f"  ratio to keyed digests: {seconds / base:.1f} times the seconds")
    return int(not quick and seconds > AIM)


def _timed(folder: Path, align: Literal["digests", "psi"], rows: int) -> float:
    """Match two tables that have half of their keys in common; the seconds it took."""
    certs.init(folder)
    members = {}
    for name in (certs.HUB, *NAMES):
        certs.issue(folder, name)
    for name in NAMES:
        public, private = new_key()
        (folder / f"{name}.signing").write_bytes(private)
        schema = co.Schema((co.Numeric(f"x of {name}", 0.0, 1.0),))
        most = rows if align == "psi" else None
        members[name] = Member(schema, co.Policy(exact=True, least=1), public, most=most)
    FederationFile(members, "key", (NAMES[0], "y"), align=AlignBy(align)).save(folder / "federation.toml")
    mine, its = SPAWN.Pipe()
    hub = SPAWN.Process(target=_hub, args=(str(folder), its), daemon=True)
    hub.start()
    port = mine.recv()
    ends = {name: SPAWN.Pipe() for name in NAMES}
    running = [SPAWN.Process(target=_party, args=(str(folder), n, port, rows, ends[n][1]), daemon=True) for n in NAMES]
    for process in running:
        process.start()
    try:
        common, seconds, *of_hub = mine.recv()
        for process in running:
            process.terminate()
        found = {"hub": of_hub} | {name: ends[name][0].recv() for name in NAMES}
    finally:
        for process in (hub, *running):
            process.terminate()
            process.join(20)
    assert common == rows - rows // 2
    print(f"{align}: {rows:,} keys a party, {common:,} in common, in {seconds:.1f} s")
    for role, (before, peak, spent) in found.items():
        print(f"  {role:7} peak {peak:5.0f} MB (before {before:.0f}); {spent:.1f} s of the processor")
    return float(seconds)


def _hub(folder: str, answer: Connection) -> None:
    with co.Grpc("127.0.0.1:0", _files(folder, certs.HUB), patience=600.0) as hub:
        file = FederationFile.load(Path(folder) / "federation.toml")
        answer.send(hub.open(file).port)
        hub.hello(file)
        before, spent, began = _peak(), time.process_time(), time.perf_counter()
        met = hub.meet(co.Federation.elsewhere(file))
        answer.send((met.rows, time.perf_counter() - began, before, _peak(), time.process_time() - spent))


def _party(folder: str, name: str, port: int, rows: int, answer: Connection) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    file = FederationFile.load(Path(folder) / "federation.toml")
    first, rng = NAMES.index(name) * (rows // 2), np.random.default_rng(0)
    columns = {"key": rng.permutation(np.arange(first, first + rows)), f"x of {name}": rng.uniform(size=rows)}
    table = pl.DataFrame(columns | ({"y": rng.uniform(size=rows)} if name == NAMES[0] else {}))
    data = PartyData(file, name, table)
    key = (Path(folder) / f"{name}.signing").read_bytes()
    before, began = _peak(), time.process_time()
    with contextlib.closing(PartyService(data, Path(folder) / name, key, lambda _: True)) as service:
        serve(f"127.0.0.1:{port}", _files(folder, name), name, service.answer, stop=stop)
    answer.send((before, _peak(), time.process_time() - began))
    os._exit(0)  # gRPC's threads have nothing more to do
