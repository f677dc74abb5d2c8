"""One thread for the deadlines of requests and greetings; and the times that both ends know."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

GREETING_SECONDS = 10.0  # for either end to say who it is
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds before a lost connection is dialled again; it doubles in between


class Alarm:
    """Something to do at a time, unless it is turned off before."""

    def __init__(self, when: float, action: Callable[[], None], clock: Clock) -> None:
        self.when, self.action, self._clock = when, action, clock

    def __lt__(self, other: Alarm) -> bool:
        return self.when < other.when

    def off(self) -> None:
        self._clock.forget(self)


class Clock:
    """One thread that does things at their time."""

    def __init__(self) -> None:
        self._due: list[Alarm] = []
        self._off = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="streams-clock", daemon=True)
        self._thread.start()

    def at(self, when: float, action: Callable[[], None]) -> Alarm:
        alarm = Alarm(when, action, self)
        with self._lock:
            heapq.heappush(self._due, alarm)
            if self._due[0] is alarm:
                self._changed.notify()
        return alarm

    def forget(self, alarm: Alarm) -> None:
        """An alarm holds a request and its answer: a long deadline must not keep them in memory."""
        with self._lock:
            if alarm.action is _nothing:
                return
            alarm.action = _nothing
            self._off += 1
            if self._off > 64 + len(self._due) // 2:
                self._due = [kept for kept in self._due if kept.action is not _nothing]
                heapq.heapify(self._due)
                self._off = 0

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (not self._due or self._due[0].when > time.monotonic()):
                    self._changed.wait(self._due[0].when - time.monotonic() if self._due else None)
                if self._stopped:
                    return
                action = heapq.heappop(self._due).action
            action()


def _nothing() -> None:
    """What an alarm does that was turned off."""
