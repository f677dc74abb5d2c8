"""A progress bar on standard error for runs that take longer than two seconds; nothing where nobody looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from colonnade.runtime.program import Note

PATIENCE = 2.0  # seconds before a bar appears


class Progress(Protocol):
    """Is told about each round."""

    def show(self, note: Note) -> None: ...


class Silent:
    """Shows nothing."""

    def show(self, note: Note) -> None:
        """Nobody looks."""


class Bar:
    """One line: rounds done, gap, time. Appears once the run has lasted longer than a moment."""

    def __init__(self, title: str, rounds: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        words, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
        columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), figures)
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(title, total=rounds, figures="")
        self._began, self._visible = time.monotonic(), False

    def show(self, note: Note) -> None:
        if not self._visible and time.monotonic() - self._began > PATIENCE:
            self._bar.start()
            self._visible = True
        gap, done = note.get("gap"), note.get("round")
        self._bar.update(self._task, completed=float(done or 0), figures="" if gap is None else f"gap {gap:.2e}")

    def stop(self) -> None:
        if self._visible:
            self._bar.stop()


@contextlib.contextmanager
def progress_bar(wanted: bool, title: str, rounds: int | None) -> Iterator[Progress]:
    """A bar while the work lasts, if one is wanted."""
    if not wanted:
        yield Silent()
        return
    bar = Bar(title, rounds)
    try:
        yield bar
    finally:
        bar.stop()
