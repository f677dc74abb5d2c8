"""`colonnade reproduce`: the papers' figures and our findings about them, measured again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.terminal import answers, explained

if TYPE_CHECKING:
    from colonnade.reproduce.registry import Listed
    from colonnade.reproduce.runner import Outcome

app = typer.Typer(no_args_is_help=True, help="Run the papers' figures again, and our findings about them.")
START, END = "<!-- listed by colonnade reproduce list -->", "<!-- end of the list -->"

Full = Annotated[
    bool, typer.Option("--full/--quick", help="The paper's repeats, or few of them with the same settings.")
]
Results = Annotated[Path, typer.Option(help="Where rows, plots and the gallery are kept.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
KEPT = "what was finished is kept; the same command goes on from there."


@app.callback()
def _every() -> None:
    """Run the papers' figures again, and our findings about them.

    A figure is a plot or a table of a paper with the claims it makes. Running it draws it anew and says of every claim whether it
    holds; a claim that is known not to hold is a finding, with its reason.
    """


@app.command("list")
def list_figures(
    results: Results = Path("reproduced"),
    page: Annotated[Path | None, typer.Option(help="A page with the marks of docs/reproduce.md to write into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Name the figures, the data they read, and what a quick run of each took, if one is in the results folder.

    Examples:

      colonnade reproduce list

      colonnade reproduce list --page docs/reproduce.md
    """
    with explained():
        from colonnade.reproduce.registry import discover

        lines = [_line(listed, results) for listed in discover().values()]
        if page is not None:
            _write(page, lines)
        elif as_json:
            typer.echo(json.dumps(lines, indent=2))
        else:
            from rich.table import Table

            table = Table()
            for name in lines[0] if lines else ():
                table.add_column(name, overflow="fold")
            for line in lines:
                table.add_row(*line.values())
            answers().print(table)


@app.command()
def run(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Figures; 'lou*' stands for all that begin so.")
    ],
    full: Full = False,
    results: Results = Path("reproduced"),
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Run some figures and judge their claims.

    Finished cases are kept in the results folder, so an interrupted run goes on where it stopped; a change of the code runs
    everything again. Real data are read from the folder that COLONNADE_DATA names; a figure without its data is left out and said so.
    The exit code is 1 if a case failed, or if a claim's verdict is not the one that its figure's file says.

    Examples:

      colonnade reproduce run lou-2

      colonnade reproduce run "raff*" --full --jobs 2
    """
    with explained(KEPT):
        from colonnade.reproduce.registry import chosen, discover

        _reproduce(chosen(names, discover()), full, results, jobs, as_json)


@app.command("all")
def run_all(
    full: Full = False, results: Results = Path("reproduced"), jobs: Jobs = None, as_json: AsJson = False
) -> None:
    """Run every figure; see `colonnade reproduce run`.

    Examples:

      colonnade reproduce all --quick

      COLONNADE_DATA=data colonnade reproduce all --full
    """
    with explained(KEPT):
        from colonnade.reproduce.registry import discover

        _reproduce(list(discover().values()), full, results, jobs, as_json)


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


def _reproduce(wanted: Sequence[Listed], full: bool, results: Path, jobs: int | None, as_json: bool) -> None:
    from rich.console import Console

    from colonnade.reproduce.page import write_pages
    from colonnade.reproduce.runner import facts, reproduce

    outcomes = reproduce(wanted, results, quick=not full, jobs=jobs, progress=Console(stderr=True).is_terminal)
    gallery, outcomes = write_pages(outcomes, results)
    if as_json:
        typer.echo(json.dumps([facts(outcome) for outcome in outcomes], indent=2))
    else:
        for outcome in outcomes:
            _tell(outcome)
        typer.echo(f"plots: {gallery}")
    if any(outcome.status in ("failed", "differs") for outcome in outcomes):
        raise typer.Exit(1)


def _tell(outcome: Outcome) -> None:
    from rich.console import Console
    from rich.text import Text

    from colonnade.reproduce.page import WORDS

    console, figure = Console(soft_wrap=True), outcome.figure
    console.print(Text(f"{figure.name}: {figure.title}", style="bold"))
    if outcome.missing:
        console.print(
            f"  not run: it reads {', '.join(outcome.missing)}; set COLONNADE_DATA to the folder that has them"
        )
    for one in outcome.judged:
        verdict = WORDS[one.verdict.held, one.claim.reproduces]
        console.print(Text(f"  {verdict}", style="" if one.as_stated else "bold red") + Text(f": {one.claim.says}"))
        console.print(Text(f"      {one.verdict.evidence} ({one.claim.confidence})"))
        if one.claim.finding:
            console.print(Text(f"      {one.claim.finding}"))
    for failure in outcome.failures:
        console.print(Text(f"  failed: {json.dumps(failure.case)}: {failure.reason}", style="red"))


def _line(listed: Listed, results: Path) -> dict[str, str]:
    figure, took = listed.figure, "not run"
    try:
        said = json.loads((results / figure.name / "outcome.json").read_text(encoding="utf-8"))
        if said["quick"] and said["status"] in ("as stated", "differs"):
            took = f"{said['cpu_seconds']:.0f} s"
    except (OSError, ValueError, KeyError):
        pass  # nothing there, or nothing of ours
    claims = sum(claim.reproduces for claim in figure.claims)
    return {
        "name": figure.name,
        "paper": figure.paper,
        "title": figure.title,
        "data": ", ".join(figure.data) or "made up",
        "claims that hold": f"{claims} of {len(figure.claims)}",
        "quick, CPU": took,
    }


def _write(page: Path, lines: Sequence[dict[str, str]]) -> None:
    from colonnade.errors import InvalidInput, StoreError

    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot read {page}: {error.strerror}. Name an existing page, or none to print.") from error
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end and lines):
        raise InvalidInput(f"{page} does not hold the lines {START!r} and {END!r}: add them where the table belongs.")
    rows = [list(lines[0]), ["---"] * len(lines[0]), *(list(line.values()) for line in lines)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    page.write_text(f"{before}{START}\n{table}\n{END}{after}", encoding="utf-8")
