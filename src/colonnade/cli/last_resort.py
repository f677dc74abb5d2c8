"""What nobody foresaw, as one line: every command passes here, and where it went wrong is in a file.

The file is the command's own log where it has one, else `colonnade/errors.log` in the user's folder for state
(`XDG_STATE_HOME`, or `~/.local/state`): its owner's alone, of bounded size. It holds the lines of the program that were
under way and the kind of the error, and nothing of what was computed with: the message of an error may quote a cell.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
import traceback
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

import typer

from colonnade.cli.terminal import complain
from colonnade.errors import ColonnadeError

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
    except BaseException as error:  # what native libraries raise when they give up is no Exception
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
