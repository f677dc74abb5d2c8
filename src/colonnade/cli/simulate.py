"""`colonnade simulate`: what epsilon would cost on one's own tables, before anything is spent."""

from __future__ import annotations

import json
import logging
import math
import warnings
from pathlib import Path
from typing import Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answers, complain, explained, finite, on_screen, table_of

AGAIN = "interrupted; nothing was kept, and nothing was spent. The same command begins again."
USUAL = "0.1,0.3,1,3"
OWN_ROWS = (
    "these are the study's own rows: an epsilon that is chosen by them tells about them, and no statement covers it. "
    "Choose it on others, public or made-up: --party NAME=FILE for every party."
)


def simulate(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="As for `colonnade fit` (docs/use/files.md).")],
    epsilons: Annotated[str, typer.Option(help="Budgets to compare, as in 0.5,1,2.")] = USUAL,
    splits: Annotated[int, typer.Option(min=2, help="Splits of the rows; standard errors are over them.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Private runs on each split, which are averaged.")] = 1,
    party: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: other rows of one party, for those of the study; of all or none."),
    ] = None,
    bounds_are_public: options.BoundsArePublic = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the figures.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare budgets on rows that are set aside, beside each party alone and all together without privacy.

    It spends nothing and keeps nothing. But its figures are computed from the rows, and nobody paid for them: choose
    epsilon on rows that no private release will be about, public, older or made-up ones with the same columns, which
    --party names. Without it the study's own rows are looked at: then no epsilon covers what follows from the figures.

    \bExamples:
      colonnade simulate study.toml --party registry=old_registry.csv --party bank=old_bank.csv
      colonnade simulate study.toml --party a=made_up_a.csv --party b=made_up_b.csv --epsilons 0.5,1,2,4 --splits 10
    """
    with explained(AGAIN):
        from colonnade.cli.predict import files_of
        from colonnade.runs.config import load_config
        from colonnade.runs.simulate import simulate_study

        budgets = _budgets(epsilons)
        files = files_of(party or [])
        asked = load_config(config, epsilon=budgets[0], public=bounds_are_public, rows=files)
        assert asked.job.privacy is not None
        shown = on_screen(quiet or as_json)
        # Single runs that noise swamps are what is compared here, and no news.
        logging.getLogger("colonnade").addHandler(logging.NullHandler())
        warnings.simplefilter("ignore", co.MostlyNoise)
        job = asked.job
        found = simulate_study(
            asked.federation, job.problem, job.method, asked.job.privacy, budgets, splits, repeats, shown
        )
        lines = list(found.table().iter_rows(named=True))
        if as_json:
            plain = [{name: finite(value) for name, value in line.items()} for line in lines]
            typer.echo(json.dumps({"models": plain, "note": found.note, "refused": list(found.refused)}, indent=2))
            return
        _show(lines, found.measures, f"{splits} splits of {asked.federation.rows:,} rows, each 80 % training rows")
        if not quiet:
            for note in (found.note, *(() if files else (OWN_ROWS,)), *found.refused):
                complain("note: ", note)


def _budgets(words: str) -> list[float]:
    try:
        return [float(word) for word in words.split(",")]
    except ValueError:
        raise co.InvalidInput(
            f"--epsilons {words!r} is not a list of numbers; write as in --epsilons 0.5,1,2"
        ) from None


def _show(lines: list[dict[str, object]], measures: tuple[str, ...], title: str) -> None:
    names = ("model", "epsilon", *measures)
    table = table_of(title, names, right=names[1:])
    for line in lines:
        budget = float(str(line["epsilon"]))
        cells = [f"{line[name]:.3f} ± {line[f'{name} ±']:.3f}" for name in measures]
        table.add_row(str(line["method"]), f"{budget:g}" if math.isfinite(budget) else "none", *cells)
    answers().print(table)
