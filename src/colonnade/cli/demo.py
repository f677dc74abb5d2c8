"""`colonnade demo`: one private model of three organisations' flights, beside what each party finds alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import answers, explained


def demo(
    rows: Annotated[int | None, typer.Option(min=1, help="Use so many flights instead of all 327,346.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of each model without privacy.")] = None,
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the private model; smaller is stricter.")] = 1.0,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path of the report.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Three organisations learn together, in private, which flights arrive late.

    An airline (which knows who was late), a weather service and an aircraft registry hold different columns about the
    flights that left New York in 2013. The demo trains one private model over all of them, beside it the same without
    privacy and one for each party alone, shows what left each party, and writes a report. It takes about a minute.

    \bExamples:
      colonnade demo
      colonnade demo --epsilon 0.1
      colonnade demo --rows 20000 --report /tmp/flights.html
      colonnade demo --json | python -m json.tool
    """
    with explained():
        from rich.console import Console

        from colonnade.cli import demo_run as job
        from colonnade.views.page import check_target

        silent = quiet or as_json
        told = Console(stderr=True, quiet=silent)
        check_target(report)
        watched = told.is_terminal and not silent
        tell = partial(told.print, style="dim", highlight=False)
        found = job.run(rows=rows, rounds=rounds, epsilon=epsilon, progress=watched, tell=tell)
        path = job.report(found, report)
        if as_json:
            typer.echo(json.dumps(job.plain(found, path), indent=2, allow_nan=False))
        elif quiet:
            typer.echo(str(path))
        else:
            job.show(found, path, answers())
