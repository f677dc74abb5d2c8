"""One thread for the deadlines of requests and greetings; and the times that both ends know."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

GREETING_SECONDS = 10.0  # for either end to say who it is
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds before a lost connection is dialled again; it doubles in between


class Alarm:
    """Something to do at a time, unless it is turned off before."""

    def __init__(self, when: float, action: Callable[[], None], clock: Clock) -> None:
        self.when, self.action, self._clock = when, action, clock

    def off(self) -> None:
        self._clock.forget(self)


class Clock:
    """One thread that does things at their time: few at once, so it looks through all of them."""

    def __init__(self) -> None:
        self._alarms: set[Alarm] = set()
        self._wakes = math.inf
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="streams-clock", daemon=True)
        self._thread.start()

    def at(self, when: float, action: Callable[[], None]) -> Alarm:
        alarm = Alarm(when, action, self)
        with self._changed:
            self._alarms.add(alarm)
            if when < self._wakes:
                self._changed.notify()
        return alarm

    def forget(self, alarm: Alarm) -> None:
        """An alarm holds a request and its answer: a long deadline must not keep them in memory."""
        with self._changed:
            self._alarms.discard(alarm)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                due = {alarm for alarm in self._alarms if alarm.when <= time.monotonic()}
                self._alarms -= due
                if not due:
                    self._wakes = min((alarm.when for alarm in self._alarms), default=math.inf)
                    self._changed.wait(None if self._wakes == math.inf else self._wakes - time.monotonic())
            for alarm in due:
                alarm.action()
