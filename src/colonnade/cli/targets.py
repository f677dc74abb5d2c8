"""Where a result goes: a file that is there already is kept, unless the user says otherwise.

The same command goes on with a run that was stopped, and begins a new one, which is paid for, when that run is over.
Whoever repeats a command that had finished is told so instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.errors import InvalidInput
from colonnade.privacy.figures import shown

if TYPE_CHECKING:
    from colonnade.privacy.statement import Privacy

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write over a result that is there: a finished run's, or any file.")
]
RUN = "go on with a run that was stopped, or else begin a new one,"


def check_free(target: Path, overwrite: bool, cost: str, elsewhere: str, again: str = RUN) -> None:
    """Refuse to begin where a result would be written over.

    cost       what beginning anew would cost
    elsewhere  how to name another place
    again      what the command does when it is told to write over the result
    """
    if overwrite or not target.is_file():
        return
    raise InvalidInput(
        f"{target} is there already{_result_of(target)}. Nothing was begun. {cost} Say --overwrite to "
        f"{again} and write over {target.name}; or keep it, and {elsewhere}."
    )


def cost_of_another(privacy: Privacy | None) -> str:
    """What one more run between parties would cost, as far as the job says it."""
    if privacy is None:
        return "Another run would let exact values leave the parties once more."
    return f"Another run would cost epsilon {shown(privacy.epsilon)} (delta {privacy.delta:g}) once more."


def _result_of(target: Path) -> str:
    from colonnade.runs.result import load

    try:
        made = load(target)
    except InvalidInput:
        return ""
    return f", the result of run {made.run}, which is finished"
