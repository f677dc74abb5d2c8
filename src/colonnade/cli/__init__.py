"""The command line: one file per command, from `colonnade demo` to `colonnade doctor`.

Imports: every other room. Start with the file of the command; `cli/terminal.py` is what all commands share.

Answers go to standard output, everything else to standard error: --json makes an answer an object for programs, --quiet
a word for scripts. A mistake is one line that says what to do, and the help of every command names the exit codes.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from colonnade.cli import audit as audit_command
from colonnade.cli import budget, certs, coordinator, party, runs
from colonnade.cli import data as data_command
from colonnade.cli import demo as demo_command
from colonnade.cli import doctor as doctor_command
from colonnade.cli import fit as fit_command
from colonnade.cli import init as init_command
from colonnade.cli import report as report_command
from colonnade.cli import sparse as sparse_command
from colonnade.cli import ui as ui_command
from colonnade.cli.terminal import EXIT_CODES, AsJson, answer, explained

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A traceback with the values of local variables could show somebody's rows.
    pretty_exceptions_enable=False,
    help="Learn one linear model from columns that several parties may not pool.",
    epilog=f"Begin with: colonnade demo\n\n{EXIT_CODES}",
)


app.add_typer(budget.app, name="budget")
app.add_typer(data_command.app, name="data")
app.add_typer(runs.app, name="runs")
app.add_typer(party.app, name="party")
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(coordinator.federation, name="federation")
app.add_typer(certs.app, name="certs")
app.command()(demo_command.demo)
app.command()(audit_command.audit)
app.command(cls=fit_command.FitCommand)(fit_command.fit)
app.command()(sparse_command.sparse)
app.command()(init_command.init)
app.command()(doctor_command.doctor)
app.command()(report_command.report)
app.command()(ui_command.ui)


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
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
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
