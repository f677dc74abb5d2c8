"""`colonnade report`: the report of a saved fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.terminal import AsJson, answer, busy, explained


def report(
    saved: Annotated[Path, typer.Argument(metavar="FIT.json", help="A fit saved with fit.save(path).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the report.")] = Path("report.html"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of a saved fit: one HTML file that needs no network.

    Figures of quality need rows that are public or paid for: fit.report(path, evaluation=..., evaluation_is=...) in
    Python.

    Examples:

      colonnade report fit.json

      colonnade report runs/fits/20260101T120000-0123456789ab.json --output model.html
    """
    with explained():
        from colonnade.runs.result import load
        from colonnade.views import write_report

        with busy("writing the report", quiet or as_json):
            path = str(write_report(load(saved), output))
        answer({"report": path}, path, "", quiet, as_json)
