"""Organisations with a model, new rows and a standing order, in one process or apart: for tests and benchmarks."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import colonnade as co
from colonnade.data import row_order
from colonnade.data.federation_file import FederationFile, Member, new_key
from colonnade.data.schema.columns import Numeric
from colonnade.data.schema.table import Schema
from colonnade.network.party_data import PartyData, part_path, rows_path
from colonnade.network.score_order import LOOPBACK, Approved, Fallback, Order
from colonnade.network.score_parts import Answerer
from colonnade.network.score_service import ScoreService
from colonnade.network.status_page import Answered, Asked
from colonnade.runtime.run_store import RunStore

MODEL, HOLDER = "20260101T000000-model", "bank"
OTHERS = ("lab", "shop")
ROWS, TRAINED = 60, 20  # keys 0 to 59, of which the model was learned from the first 20


@dataclass
class Consortium:
    """Everything that lies on disk: each party's table, part of the model, and store."""

    folder: Path
    file: FederationFile
    keys: dict[str, bytes]
    tables: dict[str, pl.DataFrame]
    coefficients: dict[str, np.ndarray]
    order: Order
    open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def made(
        cls, folder: Path, others: tuple[str, ...] = OTHERS, policy: co.Policy | None = None, **terms: Any
    ) -> Consortium:
        draw = np.random.default_rng(7)
        keys, members, tables, coefficients = {}, {}, {}, {}
        for name in (HOLDER, *others):
            public, keys[name] = new_key()
            columns = (Numeric(f"{name}0", -3.0, 3.0), Numeric(f"{name}1", -3.0, 3.0))
            members[name] = Member(Schema(columns), policy or co.Policy(scores=True, least=3), public)
            cells = {column.name: draw.uniform(-3, 3, ROWS) for column in columns}
            tables[name] = pl.DataFrame({"key": np.arange(ROWS), **cells})
            coefficients[name] = draw.normal(size=2)
        file = FederationFile(members, "key", (HOLDER, "late"))
        given = {"askers": (LOOPBACK,), "rows_a_day": 1000, "until": "2999-12-31", **terms}
        order = Order("20260102T000000-order", file.digest, MODEL, 0, 0.25, **given)
        made = cls(folder, file, keys, tables, coefficients, order)
        for name in file.members:
            made._write_part(name)
        return made

    def _write_part(self, name: str) -> None:
        store = self.folder / name
        (store / "fits").mkdir(parents=True)
        schema = self.file.members[name].schema
        assert schema is not None
        part = {"format": "colonnade part", "version": 1, "run": MODEL, "party": name, "intercept": None}
        part |= {"features": list(schema.features), "coefficients": self.coefficients[name].tolist()}
        part_path(store, MODEL).write_text(json.dumps(part))
        secret = bytes(range(32))
        learned = row_order.digests(pl.Series(np.arange(TRAINED)), secret, "training")
        rows_path(store, MODEL).write_bytes(secret + learned.tobytes())

    def with_fallback(self, *missing: str) -> Consortium:
        left = [name for name in self.file.members if name not in missing]
        one = Fallback(missing, -0.5, {name: tuple((2.0 * self.coefficients[name]).tolist()) for name in left})
        self.order = replace(self.order, fallbacks=(*self.order.fallbacks, one))
        return self

    def expected(self, key: int, missing: tuple[str, ...] = ()) -> float:
        """The score by NumPy, from the tables."""
        total = -0.5 if missing else 0.25
        for name, table in self.tables.items():
            if name not in missing:
                schema = self.file.members[name].schema
                assert schema is not None
                matrix = schema.encode(table).matrix
                total += float(matrix[key] @ self.coefficients[name]) * (2.0 if missing else 1.0)
        return total

    # ------------------------------------------------------------------------ at work

    def data(self, name: str) -> PartyData:
        return PartyData(self.file, name, self.tables[name], models=self.folder / name)

    def approved(self, name: str) -> Approved:
        store = self.open.enter_context(closing(RunStore(self.folder / name)))
        return Approved(self.order, self.file, name, store, self.keys[name])

    def approve_all(self) -> Consortium:
        for name in self.file.members:
            self.order = self.approved(name).approve()
        return self

    def answerer(self, name: str, **more: Any) -> Answerer:
        return self.open.enter_context(closing(Answerer(self.approved(name), self.data(name), **more)))

    def close(self) -> None:
        self.open.close()


class Wired:
    """A service whose parties are in this process: each answers in a thread of its own."""

    def __init__(self, made: Consortium, names: tuple[str, ...] = OTHERS, **more: Any) -> None:
        self.made, self.there = made, set(names)
        self.parties = {name: made.answerer(name, **more) for name in names}
        self.messages: list[tuple[str, bytes, bytes]] = []
        self.queues: dict[str, queue.SimpleQueue[bytes | None]] = {name: queue.SimpleQueue() for name in names}
        self.threads = [threading.Thread(target=self._live, args=(name,), daemon=True) for name in names]
        for thread in self.threads:
            thread.start()
        self.service = ScoreService(made.approved(HOLDER), made.data(HOLDER), self.send, lambda: self.there, **more)

    def send(self, name: str, raw: bytes) -> bool:
        self.queues[name].put(raw)
        return True

    def _live(self, name: str) -> None:
        while (raw := self.queues[name].get()) is not None:
            answer = self.parties[name].answer(raw)
            self.messages.append((name, raw, answer))
            self.service.take(name, answer)

    def ask(self, peer: str = "127.0.0.1", **body: Any) -> tuple[int, dict[str, Any]]:
        found = self.post(json.dumps(body).encode(), peer)
        return found.status, json.loads(found.body)

    def post(self, body: bytes, peer: str = "127.0.0.1") -> Answered:
        return self.service.answer(Asked(peer, body))

    def __enter__(self) -> Wired:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.queues:
            self.queues[name].put(None)
        for thread in self.threads:
            thread.join()
        self.service.close()
        self.made.close()
