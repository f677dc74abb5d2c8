"""Before a run begins: what it would release and cost, and that its result takes no other's place.

The same command goes on with a run that was stopped, and begins a new one, which is paid for, when that run is over.
Whoever repeats a command that had finished is told so instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import colonnade as co
from colonnade.cli.terminal import answers, table_of
from colonnade.privacy.events import shown

if TYPE_CHECKING:
    from colonnade.runs.preview import Preview

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over a finished run's result, or any file.")]
RUN = "go on with a run that was stopped, or else begin a new one,"
NOTHING = "nothing was sent, and nothing was spent"


def check_free(target: Path, overwrite: bool, cost: str, elsewhere: str, again: str = RUN) -> None:
    """Refuse to begin where a result would be written over: say what beginning anew would `cost`, how to name a place
    `elsewhere`, and what the command does `again` when it is told to write over the result."""
    if overwrite or not target.is_file():
        return
    try:
        result = f", the result of run {co.load(target).run}, which is finished"
    except co.InvalidInput:
        result = ""
    raise co.InvalidInput(
        f"{target} is there already{result}. Nothing was begun. {cost} Say --overwrite to {again} and write over "
        f"{target.name}; or keep it, and {elsewhere}."
    )


def cost_of_another(privacy: co.Privacy | None) -> str:
    """What one more run between parties would cost, as far as the job says it."""
    if privacy is None:
        return "Another run would let exact values leave the parties once more."
    return f"Another run would cost epsilon {shown(privacy.epsilon)} (delta {privacy.delta:g}) once more."


def show_preview(found: Preview, quiet: bool, as_json: bool, unknown: Sequence[str] = ()) -> None:
    """What a dry run prints; `unknown` is what only others can say."""
    if as_json:
        more = {"unknown": list(unknown)} if unknown else {}
        typer.echo(json.dumps({**found.plain(), **more}, indent=2))
        return
    size = "not known" if found.size is None else f"about {found.size:,} bytes, by all nodes together"
    lines = [("sent", size, False), ("price", found.price, True)]
    lines += [("for nothing", notice, True) for notice in found.notices]
    lines += [("levels", absent, False) for absent in found.unused]
    lines += [("trust", found.trust, False)] if found.trust is not None else []
    lines += [("note", note, False) for note in found.notes] + [("not known", what, False) for what in unknown]
    if not quiet:
        names = ("party", "what", "times", "price (rho)", "seen by")
        table = table_of(f"What {found.method} would release over {found.rows:,} rows", names, right=names[2:4])
        for line in found.lines:
            price = "exact" if line.rho == float("inf") else f"{line.rho:.4g}"
            table.add_row(Text(line.party), Text(line.what), f"{line.times:,}", price, line.seen_by)
        answers().print(table)
    for name, text, always in lines:
        if always or not quiet:
            typer.echo(f"{name:12} {text}")
    typer.echo(NOTHING, err=True)
