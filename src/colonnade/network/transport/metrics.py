"""Counters of a transport, which network/status_page.py shows on the loopback interface.

Counts, sizes and fixed words only: no party's name, no content.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, fields


def _counter(meaning: str) -> int:
    counter: int = field(default=0, metadata={"meaning": meaning})
    return counter


@dataclass
class Metrics:
    """What a transport has done so far."""

    messages_sent: int = _counter("Messages sent, each once for every time it went out.")
    messages_received: int = _counter("Messages received.")
    bytes_sent: int = _counter("Bytes of messages sent.")
    bytes_received: int = _counter("Bytes of messages received.")
    reconnects: int = _counter("Streams that took the place of an earlier one of the same process.")
    letters_direct: int = _counter("Letters between two parties that went over a line of their own.")
    letters_relayed: int = _counter("Letters between two parties that went through the hub.")
    refused: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def sent(self, size: int) -> None:
        self._add(messages_sent=1, bytes_sent=size)

    def received(self, size: int) -> None:
        self._add(messages_received=1, bytes_received=size)

    def reconnected(self) -> None:
        self._add(reconnects=1)

    def letter(self, *, direct: bool) -> None:
        self._add(letters_direct=direct, letters_relayed=not direct)

    def _add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def refuse(self, reason: str) -> None:
        with self._lock:
            self.refused[reason] += 1

    def text(self) -> str:
        """In the exposition format of Prometheus."""
        with self._lock:
            lines = []
            for one in fields(self):
                if meaning := one.metadata.get("meaning"):
                    lines += [*_head(one.name, meaning), f"colonnade_stream_{one.name}_total {getattr(self, one.name)}"]
            lines += _head("refused", "What was refused, by reason.")
            for reason, count in sorted(self.refused.items()):
                lines.append(f'colonnade_stream_refused_total{{reason="{reason}"}} {count}')
        return "\n".join(lines) + "\n"


def _head(name: str, meaning: str) -> list[str]:
    return [f"# HELP colonnade_stream_{name}_total {meaning}", f"# TYPE colonnade_stream_{name}_total counter"]
