"""`colonnade reproduce`: figures about the papers, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import explained

app = typer.Typer(no_args_is_help=True, help="Measure again what our documents say about the papers.")


@app.callback()
def _every() -> None:
    """Measure again what our documents say about the papers."""


@app.command()
def findings(
    page: Annotated[Path | None, typer.Option(help="A page with the marks of docs/findings.md to write into.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Ten times the trials of a quick run.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Attack every published calibration, and print the table of docs/findings.md.

    Examples:

      colonnade reproduce findings

      colonnade reproduce findings --full --page docs/findings.md
    """
    with explained():
        from colonnade.findings import main

        main(page, quick=not full, jobs=jobs)
