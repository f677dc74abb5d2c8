"""`colonnade doctor`: is this machine fit for a run?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import answers, busy, explained, table_of

STYLES = {"ok": "green", "note": "yellow", "trouble": "bold red"}


def doctor(
    store: Annotated[Path, typer.Option(help="Where runs would be kept; it need not exist and is not made.")] = Path(
        "runs"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is not in order.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Look at versions, caches, disk, entropy, clock and extras; the exit code is 1 if a run would not work here.

    Examples:

      colonnade doctor

      colonnade doctor --store /srv/runs --json
    """
    with explained():
        from colonnade.cli.machine import OK, examine, healthy

        with busy("looking at this machine", quiet or as_json):
            checks = examine(store)
        shown = [check for check in checks if not quiet or check.state != OK]
        if as_json:
            typer.echo(json.dumps({"healthy": healthy(checks), "checks": [asdict(check) for check in shown]}, indent=2))
        elif shown:
            from rich.text import Text

            table = table_of(None, ("what", "state", "found", "what to do"))
            for check in shown:
                state = Text(check.state, style=STYLES[check.state])
                table.add_row(check.name, state, Text(check.found), Text(check.advice))
            answers().print(table)
        if not healthy(checks):
            raise typer.Exit(1)
