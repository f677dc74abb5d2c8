"""`colonnade party`: one organisation's side of a federation."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.terminal import answer, explained

if TYPE_CHECKING:
    from colonnade.between.office import Approve, Request

app = typer.Typer(
    no_args_is_help=True,
    help="Take part in a federation as one organisation: your data, your policy, your ledger, your decision.",
    epilog="Begin with: colonnade party key signing.key; then write party.toml (docs/organisations.md).",
)

File = Annotated[Path, typer.Argument(metavar="PARTY.toml", help="This party's file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]


@app.command()
def run(
    file: File,
    yes: Annotated[bool, typer.Option("--yes", help="Approve every run that the policy and the budget allow.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object a line instead of text.")] = False,
) -> None:
    """Dial the coordinator, and answer until stopped: Ctrl-C or SIGTERM, with exit code 0. Runs go on when the party is
    started again.

    Before anything is reserved, the terms of a run are shown and you are asked, unless the file says approve = "policy"
    or you say --yes. Nothing leaves otherwise.

    Examples:

      colonnade party run party.toml

      colonnade party run party.toml --yes --json 2>> party.log
    """
    with explained("stopped; runs in progress go on when the party is started again."):
        from colonnade.between.settings import PartyFile
        from colonnade.engines.streams import Metrics, page, serve
        from colonnade.logs import to_stderr

        to_stderr(as_json)
        if quiet:
            logging.getLogger("colonnade").setLevel(logging.WARNING)
        log = logging.getLogger("colonnade.party")
        settings = PartyFile.load(file)
        approve = _approval("all" if yes else settings.approve, settings.limits)
        stop, metrics, states = threading.Event(), Metrics(), ["dialling"]

        def hear(state: str) -> None:
            states[:] = [state]  # what it changes, and why, is in the log of the stream

        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        with contextlib.ExitStack() as last:
            lines = last.enter_context(settings.neighbours(metrics))
            office = last.enter_context(contextlib.closing(settings.office(approve, lines)))
            if settings.metrics is not None:
                last.enter_context(page(metrics, lambda: states == ["connected"], settings.metrics))
            log.info("ready", extra={"party": settings.name, "rows": office.holding.rows, "hub": settings.hub})
            line = (settings.hub, settings.tls, settings.name, office.answer)
            serve(*line, stop=stop, metrics=metrics, on_state=hear)
        log.info("stopped", extra={"party": settings.name})


@app.command()
def key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the signing key.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the public half.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make this party's signing key; its public half goes into the federation file.

    Example: colonnade party key signing.key
    """
    with explained():
        from colonnade.between.settings import write_key

        public = write_key(path)
        answer({"key": public, "file": str(path)}, f'key = "{public}"', public, quiet, as_json)


@app.command()
def realign(file: File, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Forget the agreement on common rows, so that the next run makes a new one.

    Each agreement shows the coordinator, or with align = "psi" the label holder, which rows are in it: compare the
    differences with what you want known. A private set intersection that was begun is forgotten, too.

    Example: colonnade party realign party.toml
    """
    with explained():
        from colonnade.between.aligning import forget
        from colonnade.between.settings import PartyFile

        there = forget(PartyFile.load(file).store)
        said = "the next run agrees on rows anew" if there else "there was no agreement on rows"
        answer({"forgotten": there}, said, "", quiet, as_json)


@app.command()
def show(
    file: File,
    run: Annotated[str, typer.Argument(metavar="RUN", help="As `colonnade runs list` shows it.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the coefficients.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the file as it is.")] = False,
) -> None:
    """This party's part of a run's model: it is kept here and nowhere else.

    Example: colonnade party show party.toml 20260101T120000-0123456789ab
    """
    with explained():
        from colonnade.between.settings import PartyFile
        from colonnade.jobfile import read_text

        text = read_text(PartyFile.load(file).store / "fits" / f"{run}.part.json")
        if as_json:
            typer.echo(text)
            return
        part = json.loads(text)
        names = part["features"] or [f"x{place}" for place in range(len(part["coefficients"]))]
        for name, value in zip(names, part["coefficients"], strict=True):
            typer.echo(str(value) if quiet else f"{value!s:>24}  {name}")


def _approval(mode: str, limits: Approve) -> Approve:
    if mode == "policy":
        return limits
    return _ask if mode == "ask" else lambda _: True


def _ask(asked: Request) -> bool:
    """Show the terms of a run to the operator, and have them approved or not."""
    from rich.console import Console
    from rich.table import Table

    from colonnade.algorithms.masked_scores import MaskedScores

    console = Console(stderr=True)
    if not sys.stdin.isatty():
        logging.getLogger("colonnade.party").warning("nobody to ask: say --yes, or approve = 'policy' in the file")
        return False
    console.print(f"\nThe coordinator proposes run {asked.run}", style="bold", markup=False)
    for name, value in {
        "method": asked.terms.method,
        **(
            {"model": f"run {asked.call.method.model}", "before": f"{asked.scored:,} runs of scores of these rows"}
            if isinstance(asked.call.method, MaskedScores)
            else {}
        ),
        "problem": repr(asked.call.problem),
        "privacy": "none: exact values leave" if asked.call.privacy is None else repr(asked.call.privacy),
        "protects": f"{asked.terms.unit}; {asked.terms.neighbours}",
        "rows": f"{asked.rows:,}",
    }.items():
        console.print(f"  {name:10}{value}", highlight=False, markup=False)
    table = Table(title="What would leave you", title_justify="left")
    for column in ("times", "what", "price (rho)"):
        table.add_column(column)
    for charge in asked.own:
        table.add_row(f"{charge.count:,}", charge.what, f"{charge.rho:.4g}")
    console.print(table)
    return typer.confirm("Take part?", default=False, err=True)
