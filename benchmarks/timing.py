"""What the benchmarks share: repeats, data, tables."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("COLONNADE_DATA", ROOT.parent / "shared" / "data"))


def median_time(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of one call, after one call that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def data_folder(name: str) -> Path | None:
    """A real data set's folder; None, with a line that says so, where it is not on this machine."""
    folder = DATA / name
    if folder.is_dir():
        return folder
    print(f"skipped: no data set {name!r} in {DATA} (set COLONNADE_DATA to its folder)")
    return None
