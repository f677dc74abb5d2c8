"""The live view of a store, served from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.cli.live.server import Server


@contextmanager
def serving(store: str | Path) -> Iterator[Server]:
    server = Server(store)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
