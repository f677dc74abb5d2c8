"""A progress bar for runs that take longer than two seconds: on standard error, or in the cell of a notebook; nothing
where nobody looks."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from colonnade.notebook import bar as drawn_bar
from colonnade.runtime.program import Note

PATIENCE = 2.0  # seconds before a bar appears
Show = Callable[[Note], None]  # is told about each round


class Bar(Protocol):
    """Where progress is shown; `start` is called once, before the first `update`."""

    def start(self) -> None: ...
    def update(self, done: float, figures: str) -> None: ...
    def stop(self) -> None: ...


@contextlib.contextmanager
def progress_bar(wanted: bool, title: str, rounds: int | None) -> Iterator[Show]:
    """While the work lasts, one line: rounds done, gap, time. It appears once that has taken longer than a moment."""
    if not wanted:
        yield lambda _: None
        return
    shell = _notebook_shell()
    bar: Bar = TerminalBar(title, rounds) if shell is None else NotebookBar(shell, title, rounds)
    began = time.monotonic()
    started = False

    def show(note: Note) -> None:
        nonlocal started
        if not started and time.monotonic() - began > PATIENCE:
            started = True
            bar.start()
        if started:
            gap = note.get("gap")
            bar.update(float(note.get("round") or 0), "" if gap is None else f"gap {gap:.2e}")

    try:
        yield show
    finally:
        if started:
            bar.stop()


class TerminalBar:
    """A line on standard error that goes when the work is done."""

    def __init__(self, title: str, rounds: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        words = TextColumn("{task.description}")
        figures = TextColumn("{task.fields[figures]}")
        columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), figures)
        console = Console(stderr=True, force_jupyter=False)
        self.bar = Progress(*columns, console=console, transient=True)
        self.task = self.bar.add_task(title, total=rounds, figures="")

    def start(self) -> None:
        self.bar.start()

    def update(self, done: float, figures: str) -> None:
        self.bar.update(self.task, completed=done, figures=figures)

    def stop(self) -> None:
        self.bar.stop()


class NotebookBar:
    """A bar in the output of a cell, written over in place; it needs no widgets."""

    EVERY = 0.1  # seconds between two pictures: a page that is told of every round falls behind

    def __init__(self, display: Any, title: str, rounds: int | None) -> None:
        self.display = display
        self.title = title
        self.rounds = rounds
        self.handle: Any = None
        self.began = self.drawn = time.monotonic()

    def start(self) -> None:
        self.handle = self.display.display(self._picture(0.0, ""), display_id=True)

    def update(self, done: float, figures: str) -> None:
        now = time.monotonic()
        if now - self.drawn >= self.EVERY or (self.rounds is not None and done >= self.rounds):
            self.drawn = now
            self.handle.update(self._picture(done, figures))

    def stop(self) -> None:
        self.handle.update(self.display.HTML(""))

    def _picture(self, done: float, figures: str) -> Any:
        passed = f"{time.monotonic() - self.began:.0f} s"
        return self.display.HTML(drawn_bar(self.title, done, self.rounds, " ".join(filter(None, (passed, figures)))))


def _notebook_shell() -> Any:
    """IPython's module of displays where a kernel runs this process; None elsewhere, and nothing is imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display")
