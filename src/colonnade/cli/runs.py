"""`colonnade runs`: the runs of a store, and what to do about one that will not go on."""

from __future__ import annotations

import json
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
def show(
    store: Store,
    run: Annotated[str, typer.Argument(metavar="RUN", help="As `colonnade runs list` shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """One run: its terms, and everything that left the nodes whose ledgers are in this store.

    Example: colonnade runs show runs 20260101T120000-0123456789ab
    """
    with explained():
        from rich.console import Console
        from rich.table import Table

        from colonnade.runbook import released

        found = released(store, run)
        if as_json:
            typer.echo(json.dumps(found, indent=2))
            return
        typer.echo(f"run       {run}\nbegan     {found['began']}\nstate     {found['state']}")
        for name, value in found["terms"].items():
            typer.echo(f"{name:10}{value}")
        table = Table(title="What left", title_justify="left")
        for name in ("node", "what", "times", "price (rho)"):
            table.add_column(name, overflow="fold")
        for line in found["left"]:
            table.add_row(line["node"], line["what"], f"{line['times']:,}", f"{line['rho']:.4g}")
        Console().print(table)


@app.command()
def resume(store: Store) -> None:
    """Go on with the command of `colonnade coordinator run` that was stopped: Ctrl-C, SIGTERM, a crash.

    Example: colonnade runs resume hub-store
    """
    with explained():
        from colonnade.cli.coordinator import Pending

        Pending(store).repeat()


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
