"""The command line: one file per command, from `colonnade demo` to `colonnade doctor`.

Imports: every other room. Start with the file of the command; `cli/terminal.py` is what all commands share.

Answers go to standard output, everything else to standard error: --json makes an answer an object for programs, --quiet
a word for scripts. A mistake is one line that says what to do, and the help of every command names the exit codes.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from colonnade.cli import (
    audit,
    budget,
    certs,
    coordinator,
    data,
    demo,
    doctor,
    fit,
    inbox,
    init,
    jobs,
    party,
    predict,
    release,
    runs,
    score,
    serve,
    simulate,
    sparse,
    ui,
)
from colonnade.cli.terminal import EXIT_CODES, AsJson, answer, explained

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A traceback with the values of local variables could show somebody's rows.
    pretty_exceptions_enable=False,
    help="Learn one linear model from columns that several parties may not pool.",
    epilog=f"Begin with: colonnade demo\n\n{EXIT_CODES}",
)
coordinator.app.command()(serve.serve)
for answering in (inbox.inbox, inbox.approve, inbox.refuse):
    party.app.command()(answering)
for group in (
    budget.app,
    data.app,
    runs.app,
    release.app,
    party.app,
    coordinator.app,
    coordinator.federation,
    jobs.app,
    score.app,
    certs.app,
):
    app.add_typer(group)
COMMANDS = (
    demo.demo,
    init.init,
    predict.predict,
    simulate.simulate,
    sparse.sparse,
    audit.audit,
    doctor.doctor,
    fit.report,
    ui.ui,
)
for command in COMMANDS:
    app.command()(command)
app.command(cls=fit.FitCommand)(fit.fit)


def main() -> None:
    """The entry point."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # its own lines stand between ours and show addresses
    app(prog_name="colonnade")


def _version(wanted: bool) -> None:
    if wanted:
        version(quiet=False, as_json=False)
        raise typer.Exit


@app.callback()
def _every(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Options before the command."""


@app.command()
def version(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the number.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the version.

    Example: colonnade version
    """
    with explained():
        from importlib.metadata import version as installed

        number = installed("colonnade")
        answer({"version": number}, f"colonnade {number}", number, quiet, as_json)


def _name_exit_codes(tree: typer.Typer) -> None:
    """In the help of every command, also of those that are still to come."""
    for command in tree.registered_commands:
        command.epilog = EXIT_CODES
    for group in tree.registered_groups:
        assert group.typer_instance is not None
        _name_exit_codes(group.typer_instance)


_name_exit_codes(app)
