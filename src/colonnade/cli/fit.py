"""`colonnade fit`: a whole run from one configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from colonnade.cli.preview import show
from colonnade.cli.targets import Overwrite, check_free, cost_of_another
from colonnade.cli.terminal import AsJson, answer, busy, complain, explained, lined, on_screen

STOPPED = "interrupted; with the same store, the same command goes on where this one stopped."
MOVED = "`colonnade fit` runs a CONFIG.toml. For one file of rows: colonnade sparse FILE, with the same options."


class FitCommand(TyperCommand):
    """Names the command that took over --data, whatever other options stand beside it.

    The context is typer's own or click's, by the version of typer.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(word.partition("=")[0] == "--data" for word in args):
            complain("error: ", MOVED)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def fit(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="Data, problem, method, privacy (docs/config.md).")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what CONFIG.toml would release and cost; spend and send nothing.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the fit was written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a configuration file; `colonnade init` writes one.

    A result that is there is not written over, and no other run is begun and paid, without --overwrite.

    Examples:

      colonnade fit study.toml --dry-run

      colonnade fit study.toml
    """
    with explained(STOPPED):
        from colonnade.runs.config import load_config
        from colonnade.views import check_target

        asked = load_config(config)
        check_target(asked.output)
        check_free(asked.output, overwrite, cost_of_another(asked.job.privacy), f"name another output in {config}")
        if dry_run:
            with busy("making every check that the run would make", quiet or as_json):
                found = asked.preview()
            show(found, quiet, as_json)
            return
        made = asked.run(progress=on_screen(quiet or as_json))
        told = {
            "run": made.run,
            "method": made.method,
            "status": made.status.value,
            "privacy": made.privacy.sentence,
            "sent": f"{made.communication.bytes:,} bytes in {made.communication.messages:,} messages",
            "rows": f"{asked.federation.alignment}",
            **({"remarks": "; ".join(made.remarks)} if made.remarks else {}),
            **({} if asked.report is None else {"report": str(asked.report)}),
            **({} if asked.store is None else {"store": str(asked.store)}),
            "fit": str(asked.output),
        }
        answer(told, lined(told), str(asked.output), quiet, as_json)
