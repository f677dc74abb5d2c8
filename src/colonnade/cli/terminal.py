"""What all commands share: errors as one line, tables, exit codes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from colonnade.errors import ColonnadeError


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


def _complain(kind: str, text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(kind, style="bold red") + Text(text, style="red"))
