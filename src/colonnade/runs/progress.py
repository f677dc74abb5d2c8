"""A progress bar on standard error for runs that take longer than two seconds; nothing where nobody looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from colonnade.runtime.program import Note

PATIENCE = 2.0  # seconds before a bar appears
Show = Callable[[Note], None]  # is told about each round


@contextlib.contextmanager
def progress_bar(wanted: bool, title: str, rounds: int | None) -> Iterator[Show]:
    """While the work lasts, one line: rounds done, gap, time. It appears once that has taken longer than a moment."""
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    words, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), figures)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, began = bar.add_task(title, total=rounds, figures=""), time.monotonic()

    def show(note: Note) -> None:
        if not bar.live.is_started and time.monotonic() - began > PATIENCE:
            bar.start()
        gap, done = note.get("gap"), note.get("round")
        bar.update(task, completed=float(done or 0), figures="" if gap is None else f"gap {gap:.2e}")

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
