"""What a dry run prints: what would leave, at what price, and what it cannot know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from colonnade.cli.terminal import answers, table_of

if TYPE_CHECKING:
    from colonnade.runs.preview import Preview

NOTHING = "nothing was sent, and nothing was spent"


def show(found: Preview, quiet: bool, as_json: bool, unknown: Sequence[str] = ()) -> None:
    """A preview as an answer; `unknown` is what only others can say."""
    if as_json:
        more = {"unknown": list(unknown)} if unknown else {}
        typer.echo(json.dumps({**found.plain(), **more}, indent=2))
        return
    if not quiet:
        names = ("party", "what", "times", "price (rho)", "seen by")
        table = table_of(f"What {found.method} would release over {found.rows:,} rows", names, right=names[2:4])
        for line in found.lines:
            price = "exact" if line.rho == float("inf") else f"{line.rho:.4g}"
            table.add_row(Text(line.party), Text(line.what), f"{line.times:,}", price, line.seen_by)
        answers().print(table)
        size = "not known" if found.size is None else f"about {found.size:,} bytes, by all nodes together"
        typer.echo(f"{'sent':12} {size}")
    typer.echo(f"{'price':12} {found.price}")
    for notice in found.notices:
        typer.echo(f"{'for nothing':12} {notice}")
    for absent in () if quiet else found.unused:
        typer.echo(f"{'levels':12} {absent}")
    if not quiet and found.trust is not None:
        typer.echo(f"{'trust':12} {found.trust}")
    for note in () if quiet else found.notes:
        typer.echo(f"{'note':12} {note}")
    for what in () if quiet else unknown:
        typer.echo(f"{'not known':12} {what}")
    typer.echo(NOTHING, err=True)
