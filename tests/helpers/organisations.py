"""Organisations for tests: their folders, and one process each, on this machine.

Processes come from a fork server that has imported what they need, so that a party starts in a moment. They are stopped
by their process id.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import colonnade as co
from colonnade.data.federation_file import FederationFile, Member, SplitBy, new_key
from colonnade.network import certs
from colonnade.network.certs import tls_in
from colonnade.network.hub import Grpc
from colonnade.network.neighbours import Neighbours
from colonnade.network.party_data import PartyData
from colonnade.network.party_service import PartyService

COORDINATOR_KEY, COORDINATOR_IDENTITY = new_key()
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["colonnade.network.transport.party", "tests.helpers.organisations", "tests.helpers.warm"]
)


@dataclass
class Organisations:
    """Everything on disk: one folder a party, one authority."""

    folder: Path
    file: FederationFile
    keys: dict[str, bytes]
    tables: dict[str, Any]
    labels: dict[str, Any]
    running: dict[str, Any] = field(default_factory=dict)
    block_bytes: int | None = None  # of masked rows in one message, for a run of many short ones

    @classmethod
    def of(
        cls, fed: co.Federation, folder: Path, policy: co.Policy | None = None, listening: tuple[str, ...] = ()
    ) -> Organisations:
        """The parties of a federation of plain matrices, moved out of this process; some with a port of their own."""
        authority = folder / "certs"
        certs.init(authority)
        (authority / certs.SIGNING_KEY).write_text(COORDINATOR_IDENTITY.hex())
        certs.issue(authority, "coordinator", hosts=["localhost"])
        members, keys = {}, {}
        for name, party in fed.parties.items():
            certs.issue(authority, name, hosts=["localhost"] if name in listening else ())
            public, keys[name] = new_key()
            rows = party.block.rows if fed.by_rows else None
            address = f"127.0.0.1:{free_port()}" if name in listening else None
            terms = (None, policy or party.policy, public, party.block.columns, rows)
            members[name] = Member(*terms, address=address)
        by = SplitBy.ROWS if fed.by_rows else SplitBy.COLUMNS
        rows = None if fed.by_rows else fed.rows
        file = FederationFile(members, None, (fed.label, "y"), rows=rows, by=by, coordinator=COORDINATOR_KEY)
        tables = {name: party.block.matrix for name, party in fed.parties.items()}
        labels = {fed.label: fed.labels}
        if fed.by_rows:
            labels = {name: fed.labels[fed.places[name]] for name in fed.parties}
        return cls(folder, file, keys, tables, labels)

    @property
    def names(self) -> list[str]:
        return list(self.file.members)

    @property
    def federation(self) -> co.Federation:
        return co.Federation.elsewhere(self.file)

    def hub(self, port: int = 0, patience: float = 120.0) -> Grpc:
        made = Grpc(f"127.0.0.1:{port}", self.folder / "certs", patience=patience)
        made.open(self.file)
        return made

    def service(
        self, name: str, approve: Callable[[Any], bool] = lambda _: True, neighbours: Neighbours | None = None
    ) -> PartyService:
        party_data = PartyData(self.file, name, self.tables[name], self.labels.get(name))
        return PartyService(party_data, self.folder / name, self.keys[name], approve, neighbours)

    def neighbours(self, name: str, **options: Any) -> Neighbours:
        """The lines of a party; it listens where the federation file says."""
        options = {"listen": self.file.members[name].address, **options}
        return Neighbours(self.file, name, tls_in(self.folder / "certs", name), **options)

    def part(self, name: str, run: str = "run") -> dict[str, Any]:
        """A party's own part of a model, as it kept it."""
        kept: dict[str, Any] = json.loads((self.folder / name / "fits" / f"{run}.part.json").read_text())
        return kept

    def start(self, name: str, port: int) -> None:
        """One party in a process of its own."""
        _start_server()
        made = SERVER.Process(target=_live, args=(self.without_processes(), name, port), daemon=True)
        made.start()
        self.running[name] = made

    def without_processes(self) -> Organisations:
        return replace(self, running={})

    def blocks(self) -> contextlib.AbstractContextManager[Any]:
        """Masked rows in messages of the size that is wanted: the same in every process of a run."""
        if self.block_bytes is None:
            return contextlib.nullcontext()
        return mock.patch("colonnade.methods.gram.masks.BLOCK_BYTES", self.block_bytes)

    def kill(self, name: str) -> None:
        """As a power cut does."""
        os.kill(self.running[name].pid, signal.SIGKILL)
        self.running.pop(name).join()

    @contextlib.contextmanager
    def at_work(self, port: int) -> Iterator[None]:
        """All parties dialling a hub, until the end of the block."""
        for name in self.names:
            self.start(name, port)
        try:
            yield
        finally:
            for made in self.running.values():
                made.terminate()
            for made in self.running.values():
                made.join(20)
            self.running.clear()


def _start_server() -> None:
    """Once: it takes no path from this process but by the environment, and is silent about what it cannot import."""
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)):
        forkserver.ensure_running()


def _live(organisations: Organisations, name: str, port: int) -> None:
    from colonnade.network.transport.party import serve

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with (
        organisations.blocks(),
        organisations.neighbours(name) as neighbours,
        contextlib.closing(organisations.service(name, neighbours=neighbours)) as service,
    ):
        tls = tls_in(organisations.folder / "certs", name)
        serve(f"localhost:{port}", tls, name, service.answer, stop=stop)


def entered(line: str, folder: Path, **said: Path) -> multiprocessing.process.BaseProcess:
    """A command as somebody types it in a folder, in a process of its own; `stdout` and `stderr` are files."""
    _start_server()
    made = SERVER.Process(target=_enter, args=(line.split(), folder, said), daemon=True)
    made.start()
    return made


def _enter(words: list[str], folder: Path, said: dict[str, Path]) -> None:
    from colonnade.cli import main

    os.chdir(folder)
    for stream, path in said.items():
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), getattr(sys, stream).fileno())
    sys.argv = words
    main()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def same_arrays(left: Any, right: Any) -> bool:
    return np.array_equal(np.asarray(left), np.asarray(right))
