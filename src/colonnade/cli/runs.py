"""`colonnade runs`: the runs of a store, and what to do about one that will not go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import explained

app = typer.Typer(
    no_args_is_help=True,
    help="The runs of a store: finished, failed, or interrupted.",
    epilog="An interrupted run goes on when the same call of fit is repeated with the same store.",
)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="The folder given as store= to fit.")]


@app.command(name="list")
def listing(store: Store) -> None:
    """Every run: when it began and how it ended.

    Example: colonnade runs list runs
    """
    with explained():
        from rich.console import Console
        from rich.table import Table

        from colonnade.runbook import history

        table = Table(title=f"Runs in {store}", title_justify="left")
        for name in ("run", "began", "state"):
            table.add_column(name, no_wrap=name == "run", overflow="fold")
        for run, began, state in history(store):
            table.add_row(run, began, state)
        Console().print(table)


@app.command()
def abort(
    store: Store,
    run: Annotated[str, typer.Argument(metavar="RUN", help="As `colonnade runs list` shows it.")],
) -> None:
    """End an interrupted run for good: what it reserved and did not release returns to the budgets.

    Example: colonnade runs abort runs 20260101T120000-0123456789ab
    """
    with explained():
        from colonnade.runbook import aborted

        closed = aborted(store, run)
        typer.echo(f"{run} is over; closed in the ledgers of {', '.join(closed) or 'nobody'}")
