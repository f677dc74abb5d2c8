"""The live view of a store, while it is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.cli.live import Server


@contextmanager
def serving(store: str | Path) -> Iterator[Server]:
    server = Server(store)
    with server.http:
        yield server
