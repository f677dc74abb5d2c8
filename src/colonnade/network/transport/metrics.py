"""Counters of a transport, which network/status_page.py shows on the loopback interface.

Counts, sizes and fixed words only: no party's name, no content.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Metric


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

    def families(self) -> list[Metric]:
        """What Prometheus is shown."""
        with self._lock:
            found = [
                family("counter", f"colonnade_stream_{one.name}_total", meaning, getattr(self, one.name))
                for one in fields(self)
                if (meaning := one.metadata.get("meaning"))
            ]
            refused = family(
                "counter", "colonnade_stream_refused_total", "What was refused, by reason.", self.refused, "reason"
            )
        return [*found, refused]


def family(kind: str, name: str, meaning: str, samples: float | Mapping[str, float], label: str = "") -> Metric:
    """One metric, a "gauge" or a "counter", as prometheus_client writes it: one number, or one for each of `label`."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    made = GaugeMetricFamily if kind == "gauge" else CounterMetricFamily
    found: GaugeMetricFamily | CounterMetricFamily = made(name, meaning, labels=[label] if label else None)
    for value, number in sorted(samples.items()) if isinstance(samples, Mapping) else [("", samples)]:
        found.add_metric([value] if label else [], number)
    return found


def exposition(families: Iterable[Metric]) -> str:
    """Metrics in the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry).decode()
