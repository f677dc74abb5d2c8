"""The command line: one file per command, from `colonnade demo` to `colonnade doctor`.

Imports: every other room. Start with the file of the command; `options.py` and `terminal.py` are what commands share.

Answers go to standard output, everything else to standard error: --json makes an answer an object for programs, --quiet
a word for scripts. A mistake is one line that says what to do, and the help of every command names the exit codes.

`COMMANDS` has the line of each command in `colonnade --help`: only the file of the one that is called is read.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from colonnade.cli import options
from colonnade.cli.terminal import EXIT_CODES, answer, explained, last_resort

FILES = "From files to answers"
BETWEEN = "Between organisations"
KEPT = "What was spent, what ran"
ABOUT = "About"


class Listed(NamedTuple):
    """A command or a group of commands: its place in the list, where it is, as file:name, and its line in the list."""

    panel: str
    where: str
    line: str


COMMANDS = {
    "init": Listed(FILES, "init:init", "Write a commented configuration that `colonnade fit` runs."),
    "confirm": Listed(
        FILES,
        "confirm:confirm",
        "Declare public, all at once, the figures of a configuration that were read off the rows.",
    ),
    "simulate": Listed(
        FILES,
        "simulate:simulate",
        "Compare budgets on rows that are set aside, beside each party alone and all together without privacy.",
    ),
    "fit": Listed(FILES, "fit:fit", "Run a configuration file; `colonnade init` writes one."),
    "predict": Listed(
        FILES, "predict:predict", "Write key, score, probability and class of new rows, in the labels' own words."
    ),
    "evaluate": Listed(
        FILES,
        "predict:evaluate",
        "Say how good a model is on rows whose labels are known: AUC, KS, Gini, log loss, calibration; or R² and "
        "errors.",
    ),
    "scorecard": Listed(
        FILES,
        "predict:scorecard",
        "Write a model of two classes as a scorecard: whole points that add up, for each bin of a number and each "
        "level.",
    ),
    "report": Listed(
        FILES,
        "fit:report",
        "Write the report of a saved fit, or the data-protection officer's page: one HTML file that needs no network.",
    ),
    "release": Listed(
        FILES, "release:app", "A release: what it holds, and any linear model from it, at no further price."
    ),
    "sparse": Listed(FILES, "sparse:sparse", "Fit one sparse linear model to one file of rows."),
    "federation": Listed(BETWEEN, "coordinator:federation", "Between organisations: is everybody ready?"),
    "party": Listed(
        BETWEEN,
        "party:app",
        "Take part in a federation as one organisation: your data, your policy, your ledger, your decision.",
    ),
    "coordinator": Listed(BETWEEN, "coordinator:app", "Run a job between organisations: hold no data."),
    "jobs": Listed(
        BETWEEN, "jobs:app", "The queue of `colonnade coordinator serve`: submit a job, list, watch or cancel it."
    ),
    "score": Listed(
        BETWEEN,
        "score:app",
        "Score rows between organisations: all at once (rows), or as they are asked for under a standing order.",
    ),
    "certs": Listed(
        BETWEEN,
        "certs:app",
        "Who is who between organisations: an authority, and a certificate for the coordinator and every party.",
    ),
    "budget": Listed(
        KEPT, "budget:app", "What was spent on each party's rows, what is left, and what a run would cost."
    ),
    "runs": Listed(KEPT, "runs:app", "The runs of a store: finished, failed, or interrupted."),
    "ui": Listed(
        KEPT,
        "ui:ui",
        "Show a store in the browser: runs, budgets, messages as they leave, reports. It changes nothing; Ctrl-C stops "
        "it.",
    ),
    "demo": Listed(ABOUT, "demo:demo", "Three organisations learn together, in private, which flights arrive late."),
    "data": Listed(ABOUT, "data:app", "Look at a table and propose its schema; fetch public data sets."),
    "audit": Listed(ABOUT, "audit:audit", "Bound epsilon from below by attack, and compare with what is claimed."),
    "doctor": Listed(
        ABOUT,
        "doctor:doctor",
        "Look at versions, caches, disk, open files, entropy, clock and extras; exits with 1 if a run would not work "
        "here.",
    ),
    "version": Listed(ABOUT, ":version", "Show the version."),
}


def _at(where: str) -> Any:
    file, _, name = where.partition(":")
    return getattr(import_module(f"colonnade.cli.{file}".rstrip(".")), name)


@cache
def _load(name: str) -> Any:
    """The command of this name, from its file."""
    listed = COMMANDS[name]
    found = _at(listed.where)
    tree = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        for command in found.registered_commands:
            command.epilog = EXIT_CODES
        tree.add_typer(found, name=name, help=listed.line, no_args_is_help=True)
    else:
        tree.command(name, epilog=EXIT_CODES)(found)
    return get_group(tree).commands[name]


class _Commands(MutableMapping[str, Any]):
    """All commands by name, each loaded when it is asked for."""

    def __init__(self) -> None:
        self._own: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._own[name] if name in self._own or name not in COMMANDS else _load(name)

    def __setitem__(self, name: str, command: Any) -> None:
        self._own[name] = command

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**COMMANDS, **self._own})

    def __len__(self) -> int:
        return len({**COMMANDS, **self._own})


class Lazy(TyperGroup):
    """Loads the command that is called, and for the list of commands none. What no command foresaw ends here."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()

    def invoke(self, ctx: Any) -> Any:
        with last_resort():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        whole = self.commands
        self.commands = {
            name: TyperCommand(name, help=one.line, rich_help_panel=one.panel) for name, one in COMMANDS.items()
        }
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = whole


app = typer.Typer(
    cls=Lazy,
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A traceback with the values of local variables could show somebody's rows.
    pretty_exceptions_enable=False,
    help="Learn one linear model from columns that several parties may not pool.",
    epilog=f"Begin with: colonnade demo\n\n{EXIT_CODES}",
)


def main() -> None:
    """The entry point."""
    # Its own lines stand between ours and show addresses.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.unraisablehook = _press_again
    app(prog_name="colonnade")


def _press_again(ignored: sys.UnraisableHookArgs) -> None:
    """Ctrl-C that comes while Python calls back, as it does at every import, is ignored: it is sent once more."""
    if issubclass(ignored.exc_type, KeyboardInterrupt) and not sys.is_finalizing():
        main_thread = threading.main_thread().ident
        # At once, it would come in here and be ignored too.
        again = threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(ignored)


def _version(wanted: bool) -> None:
    if wanted:
        version(quiet=False, as_json=False)
        raise typer.Exit


@app.callback()
def _every(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Options before the command."""


def version(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the number.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the version.

    Example: colonnade version
    """
    with explained():
        from importlib.metadata import version as installed

        number = installed("colonnade")
        answer({"version": number}, f"colonnade {number}", number, quiet, as_json)
