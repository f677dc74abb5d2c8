"""Counters of a transport, and a page on the loopback interface that shows them.

Counts, sizes and fixed words only: no party's name, no content. The page is for the operator of this machine and its
monitoring; nothing else can reach it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MEANING = {
    "messages_sent": "Messages sent, each once for every time it went out.",
    "messages_received": "Messages received.",
    "bytes_sent_raw": "Bytes of messages sent, before compression.",
    "bytes_sent_wire": "Bytes of messages sent, as they travelled.",
    "bytes_received_raw": "Bytes of messages received, after decompression.",
    "bytes_received_wire": "Bytes of messages received, as they travelled.",
    "reconnects": "Streams that took the place of an earlier one of the same process.",
    "letters_direct": "Letters between two parties that went over a line of their own.",
    "letters_relayed": "Letters between two parties that went through the hub.",
}


@dataclass
class Metrics:
    """What a transport has done so far."""

    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent_raw: int = 0
    bytes_sent_wire: int = 0
    bytes_received_raw: int = 0
    bytes_received_wire: int = 0
    reconnects: int = 0
    letters_direct: int = 0
    letters_relayed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def sent(self, raw: int, wire: int) -> None:
        with self._lock:
            self.messages_sent += 1
            self.bytes_sent_raw += raw
            self.bytes_sent_wire += wire

    def received(self, raw: int, wire: int) -> None:
        with self._lock:
            self.messages_received += 1
            self.bytes_received_raw += raw
            self.bytes_received_wire += wire

    def reconnected(self) -> None:
        with self._lock:
            self.reconnects += 1

    def letter(self, *, direct: bool) -> None:
        with self._lock:
            self.letters_direct += direct
            self.letters_relayed += not direct

    def refuse(self, reason: str) -> None:
        with self._lock:
            self.refused[reason] += 1

    def text(self) -> str:
        """In the exposition format of Prometheus."""
        with self._lock:
            lines = []
            for name, meaning in _MEANING.items():
                lines += _head(name, meaning)
                lines.append(f"colonnade_stream_{name}_total {getattr(self, name)}")
            lines += _head("refused", "What was refused, by reason.")
            lines += [
                f'colonnade_stream_refused_total{{reason="{reason}"}} {count}'
                for reason, count in sorted(self.refused.items())
            ]
        return "\n".join(lines) + "\n"


def _head(name: str, meaning: str) -> list[str]:
    return [f"# HELP colonnade_stream_{name}_total {meaning}", f"# TYPE colonnade_stream_{name}_total counter"]


@contextmanager
def page(metrics: Metrics, ready: Callable[[], bool], port: int = 0) -> Iterator[int]:
    """Serve `/metrics`, `/health` and `/ready` on 127.0.0.1 for as long as the context lasts; gives the port.

    A process that waits for the others is alive and not ready: restarting it would help nobody.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._say(200, metrics.text(), "text/plain; version=0.0.4; charset=utf-8")
            elif self.path == "/health":
                self._say(200, "alive\n", "text/plain; charset=utf-8")
            elif self.path == "/ready":
                there = ready()
                self._say(200 if there else 503, "ready\n" if there else "not connected\n", "text/plain; charset=utf-8")
            else:
                self._say(404, "there are /metrics, /health and /ready\n", "text/plain; charset=utf-8")

        def _say(self, status: int, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Asking for the page is no event."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
