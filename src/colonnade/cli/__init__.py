"""The command line: one word a job, from `colonnade demo` to `colonnade doctor`.

Answers go to standard output, everything else to standard error: --json makes an answer an object for programs, --quiet a
word for scripts. A mistake is one line that says what to do, and the help of every command names the exit codes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import audit as audit_command
from colonnade.cli import budget, certs, coordinator, party, reproduce, runs
from colonnade.cli import data as data_command
from colonnade.cli import doctor as doctor_command
from colonnade.cli import fit as fit_command
from colonnade.cli import init as init_command
from colonnade.cli import report as report_command
from colonnade.cli import ui as ui_command
from colonnade.cli.terminal import EXIT_CODES, answer, answers, explained

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
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(party.app, name="party")
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(coordinator.federation, name="federation")
app.add_typer(certs.app, name="certs")
app.command()(audit_command.audit)
app.command()(fit_command.fit)
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
def demo(
    rows: Annotated[int | None, typer.Option(min=1, help="Use so many flights instead of all 327,346.")] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="So many rounds for each model without privacy, instead of stopping at a gap."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the private model; smaller is stricter.")] = 1.0,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path of the report.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Three organisations learn together, in private, which flights arrive late.

    An airline (which knows who was late), a weather service and an aircraft registry hold different columns about the
    flights that left New York in 2013. The demo trains one private model over all of them, beside it the same without
    privacy and one for each party alone, shows what left each party, and writes a report. It takes about a minute.

    Examples:

      colonnade demo

      colonnade demo --epsilon 0.1

      colonnade demo --rows 20000 --report /tmp/flights.html

      colonnade demo --json | python -m json.tool
    """
    with explained():
        from rich.console import Console

        from colonnade import demo as job
        from colonnade.report import check_target

        silent = quiet or as_json
        told = Console(stderr=True, quiet=silent)
        check_target(report)
        found = job.run(
            rows=rows,
            rounds=rounds,
            epsilon=epsilon,
            progress=told.is_terminal and not silent,
            tell=lambda line: told.print(line, style="dim", highlight=False),
        )
        path = job.report(found, report)
        if as_json:
            typer.echo(json.dumps(job.plain(found, path), indent=2, allow_nan=False))
        elif quiet:
            typer.echo(str(path))
        else:
            job.show(found, path, answers())


@app.command()
def version(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the number.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
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
