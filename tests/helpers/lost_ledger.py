"""Organisations one of which loses its ledger."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import colonnade as co
from colonnade.network.certs import tls_in
from colonnade.network.replaced_ledger import Record, accept, sign_as_coordinator, sign_as_party
from colonnade.privacy.ledger import Ledger
from colonnade.runtime.program import COORDINATOR
from colonnade.runtime.run_store import RunStore
from tests.helpers.stub_hub import NOISY, Straw, straw_hub

POLICY = co.Policy(exact=False, epsilon=4.0, delta=1e-6)
ROLLED_BACK = "rolled back|cannot go on with this run"


@contextlib.contextmanager
def ledger_of(store: Path, node: str, policy: co.Policy | None = None) -> Iterator[Ledger]:
    books = RunStore(store)
    try:
        yield Ledger(books.log(node), node, policy or co.Policy())
    finally:
        books.close()


class Federation:
    """Parties with a limit, a hub of straw, and the two commands."""

    def __init__(self, straw: Straw, folder: Path) -> None:
        self.straw, self.folder, self.file = straw, folder, straw.made.file

    @property
    def nodes(self) -> list[str]:
        return [COORDINATOR, *self.straw.made.names]

    def fit(self) -> co.Fit:
        made = self.straw.made.federation
        return co.fit(
            made, NOISY.problem, NOISY.method, NOISY.privacy, engine=self.straw, store=self.folder / COORDINATOR
        )

    def lose(self, node: str) -> None:
        """As when a disk dies; a party's process begins again on an empty one."""
        if node != COORDINATOR:
            self.straw.services[node].close()
        shutil.rmtree(self.folder / node)
        if node != COORDINATOR:
            self.straw.services[node] = self.straw.made.service(node)

    def sign(self, node: str, rho: float = math.inf, key: bytes | None = None) -> Record:
        with ledger_of(self.folder / node, node) as ledger:
            if node == COORDINATOR:
                return sign_as_coordinator(ledger, tls_in(self.folder / "certs", node), self.file)
            return sign_as_party(ledger, key or self.straw.made.keys[node], self.file, rho)

    def take(self, node: str, record: Record) -> None:
        books = RunStore(self.folder / node)
        try:
            accept(books, node, record, self.file, tls_in(self.folder / "certs", node))
        finally:
            books.close()

    def all_take(self, record: Record) -> None:
        for node in self.nodes:
            if node != record.node:
                self.take(node, record)

    def spent(self) -> float:
        return max(service.ledger.row_spent() for service in self.straw.services.values())

    def lengths(self) -> dict[str, int]:
        return {name: service.log.length() for name, service in self.straw.services.items()}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Federation]:
    with straw_hub(NOISY, tmp_path, POLICY) as straw:
        yield Federation(straw, tmp_path)
