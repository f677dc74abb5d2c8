"""`colonnade release`: what a release holds, and models and correlations from it. None of it costs anything."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, explained, finite, lined, table_of

app = typer.Typer(
    epilog="FILE is a release that was saved with fit.release.save(...), or a saved fit of co.PrivateGram.",
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="A saved release, or a saved fit.")]
Level = Annotated[float, typer.Option("--level", help="Of the intervals.")]


@app.command()
def show(
    file: File,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names of columns.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """What it holds: columns, rows, budget, and whether intervals and tests may be read off it.

    Example: colonnade release show fit.json
    """
    with explained():
        from colonnade.views.verdict import privacy_in_short

        release = co.Release.load(file)
        columns: list[dict[str, Any]] = [
            {"column": str(one), "declared": one.source, "kind": one.kind, "unit": one.unit}
            for one in (*release.columns, release.label)
        ]
        facts = {
            "run": release.run,
            "rows": release.rows,
            "rule": release.rule,
            "shortened": release.shortened,
            "refusal": release.refusal,
            "statement": release.statement.sentence,
        }
        if as_json or quiet:
            answer({**facts, "columns": columns}, "", "\n".join(release.names), quiet, as_json)
            return
        table = table_of(f"Release of run {release.run}", ("column", "declared", "kind"))
        for line in columns:
            table.add_row(line["column"], line["declared"], line["kind"])
        answers().print(table)
        told = {
            "rows": f"{release.rows:,}",
            "intervals": "may be read off it, and tests" if release.refusal is None else f"none: {release.refusal}",
            **privacy_in_short(release.statement),
            "statement": f"colonnade release show {shlex.quote(str(file))} --json",
        }
        typer.echo(lined(told))


@app.command()
def regress(
    file: File,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to explain; default: the label.")] = None,
    on: Annotated[list[str] | None, typer.Option("--on", "-x", help="A column that explains; default: all.")] = None,
    protect: Annotated[list[str] | None, typer.Option("--protect", help="A column that stays in any case.")] = None,
    level: Level = 0.95,
    robust: Annotated[float, typer.Option("--robust", help="Multiplies the sampling variance.")] = 1.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only names and estimates.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """A linear model of any column by any others, with intervals and tests.

    \bExamples:
      colonnade release regress fit.json
      colonnade release regress fit.json --target bp --on age --on smoker
    """
    with explained():
        found = co.Release.load(file).regress(target, on, level=level, protect=protect or (), robust=robust)
        if not (as_json or quiet):
            typer.echo(found.summary())
            return
        facts = found.facts()
        rows: list[dict[str, Any]] = [
            {
                "column": row.name,
                "estimate": row.estimate if row.determined else None,
                "low": finite(row.low),
                "high": finite(row.high),
                "p": None if row.pvalue != row.pvalue else row.pvalue,
                "sampling_share": row.sampling,
            }
            for row in facts.rows
        ]
        said = {"about": facts.about, "whole": facts.closing, "warnings": facts.warnings, "xi": found.xi}
        words = "\n".join(f"{row['column']} {row['estimate']}" for row in rows)
        answer({"title": facts.title, "coefficients": rows, **said}, "", words, quiet, as_json)


@app.command()
def correlate(
    file: File,
    column: Annotated[list[str] | None, typer.Option("--column", "-c", help="Take only these; default: all.")] = None,
    level: Level = 0.95,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only names and correlations.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Correlations of all pairs of columns, with intervals.

    Example: colonnade release correlate fit.json -c age -c bp
    """
    with explained():
        found = co.Release.load(file).correlation(column, level=level)
        table = table_of("Correlations", ("column", "with", "correlation", f"{100 * level:.3g} % interval"))
        for one, other, r, low, high in found.iter_rows():
            known = ("not determined", "") if r is None else (f"{r:.3f}", f"[{low:.3f}, {high:.3f}]")
            table.add_row(one, other, *known)
        words = "\n".join(f"{one} {other} {r}" for one, other, r, *_ in found.iter_rows())
        answer(found.to_dicts(), table, words, quiet, as_json)
