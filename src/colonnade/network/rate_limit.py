"""A rate a peer: so many requests at once, and so many a second after that, for each name; bounded in memory.

A bucket of `burst` tokens a name, which fills by `rate` tokens a second (a token bucket). Whoever finds it empty is
refused and told after how many seconds one is there again. Names whose bucket is full again say nothing about anybody
and are forgotten; where `MOST` others are not full, a new name waits as if its bucket were empty.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MOST = 4096  # names that are not full


class RateLimit:
    """`allow(name)` takes a token: 0 if there was one, else the seconds until there is."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._full_at: dict[str, float] = {}  # when the bucket of a name will be full again
        self._lock = threading.Lock()

    def allow(self, name: str) -> float:
        with self._lock:
            now = self._clock()
            if name not in self._full_at and len(self._full_at) >= MOST:
                self._full_at = {one: when for one, when in self._full_at.items() if when > now}
                if len(self._full_at) >= MOST:
                    return min(self._full_at.values()) - now
            full_at = max(self._full_at.get(name, now), now) + 1 / self.rate
            late = full_at - now - self.burst / self.rate
            if late > 1e-9:
                return late
            self._full_at[name] = full_at
            return 0.0
