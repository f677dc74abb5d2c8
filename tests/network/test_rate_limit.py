"""Claims about the pace of whoever asks: so many at once, then so many a second, by name, and never many names."""

from __future__ import annotations

import pytest

from colonnade.network import bounds
from colonnade.network.bounds import RateLimit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_the_rate_and_each_name_for_itself() -> None:
    """Two a second, three at once: the fourth waits half a second, and half a second buys one."""
    clock = Clock()
    pace = RateLimit(2.0, 3, clock)
    assert [pace.allow("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert [pace.allow("a"), pace.allow("a")] == pytest.approx([0.5, 0.5])  # who is put off pays nothing
    assert pace.allow("b") == 0.0
    clock.now += 0.5
    assert pace.allow("a") == 0.0
    assert pace.allow("a") == pytest.approx(0.5)
    clock.now += 1000.0  # never more than a burst is saved up
    assert [pace.allow("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert pace.allow("a") == pytest.approx(0.5)


def test_a_crowd_of_names_is_put_off_until_the_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_NAMES", 2)
    clock = Clock()
    pace = RateLimit(2.0, 3, clock)
    assert [pace.allow("a"), pace.allow("a"), pace.allow("b")] == [0.0, 0.0, 0.0]
    assert pace.allow("c") == pytest.approx(0.5)  # b is full again in half a second, a in a whole one
    assert pace.allow("a") == 0.0  # known names have their own pace
    clock.now += 0.6
    assert pace.allow("c") == 0.0
