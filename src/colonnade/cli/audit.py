"""`colonnade audit`: attack our mechanisms and our methods."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from colonnade.cli.terminal import answer, answers, explained, lined, on_screen, table_of


def audit(
    targets: Annotated[list[str] | None, typer.Argument(metavar="[TARGET]...", help="By default everything.")] = None,
    effort: Annotated[float, typer.Option(help="Multiplies the trials of a quick audit; 10 is a full one.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Makes the data; the noise is the mechanism's own.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    listing: Annotated[bool, typer.Option("--list", help="Show what can be attacked.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names of what is violated.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Bound epsilon from below by attack, and compare with what is claimed.

    A release is drawn many times from two neighbouring data sets; a test chosen on one half of the trials is judged on
    the other. "violated" is wrong with probability at most one in a million; "consistent" proves nothing more. The exit
    code is 1 if one of our own claims is violated.

    \bExamples:
      colonnade audit --list
      colonnade audit gaussian frank-wolfe
      colonnade audit gram --effort 10
    """
    with explained():
        from colonnade.attacks import run as attacks

        if listing:
            known = {name: f"{target.title} ({target.guarantee})" for name, target in attacks.TARGETS.items()}
            answer(known, lined(known, 24), "\n".join(known), quiet, as_json)
            return
        watched = on_screen(quiet or as_json)
        results = attacks.sweep(targets, effort=effort, seed=seed, progress=watched, jobs=jobs)
        lines = attacks.rows(results)
        if as_json:
            typer.echo(json.dumps(lines, indent=2))
        elif quiet:
            for line in (line for line in lines if line["verdict"] == "violated"):
                typer.echo(line["target"])
        else:
            figures = [name for name in lines[0] if name not in ("target", "adversary", "verdict")]
            table = table_of("Lower bounds on epsilon by attack", list(lines[0]), right=figures)
            for line in lines:
                table.add_row(*line.values(), style="red" if line["verdict"] == "violated" else "")
            answers().print(table)
        if any(result.verdict.violated for result in results):
            raise typer.Exit(1)
