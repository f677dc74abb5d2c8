"""What all commands share: errors as one line, tables, exit codes.

Exit codes: 0 done; 1 an error of ours, explained in one line, or a check that failed; 2 wrong usage; 130 Ctrl-C.
Colour: only on a terminal, and never where NO_COLOR is set. A table that goes into a pipe or a file is not cut to a width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from colonnade.errors import ColonnadeError

if TYPE_CHECKING:
    from rich.console import Console

UNCUT = 10_000  # columns: tables are as wide as their cells where nobody's screen ends


@contextlib.contextmanager
def explained(interrupted: str = "interrupted before the end; nothing was lost.") -> Iterator[None]:
    """Errors of ours as one line on standard error, without a traceback."""
    try:
        yield
    except ColonnadeError as error:
        _complain("error: ", " ".join(str(error).split()))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _complain("stopped: ", interrupted)
        raise typer.Exit(130) from None


def answers() -> Console:
    """Standard output for tables: as wide as the screen, or as the table where there is no screen."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=UNCUT)


def _complain(kind: str, text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(kind, style="bold red") + Text(text, style="red"))
