"""`colonnade data`: a schema proposed from a table, and public data sets to try things out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, busy, explained, table_of, write_text

if TYPE_CHECKING:
    from colonnade.data.schema.column import Column
    from colonnade.data.schema.infer import Look

app = typer.Typer(epilog="Nothing that these commands print or write is public: it is for the data's owner.")

WARNING = (
    "These bounds and levels were read off the rows: they tell about single people, and a private run refuses them. "
    "Replace each by a figure that you would print in a data dictionary without looking at the data, or pay for it "
    'with a private release; then remove the line source = "data".'
)
SHOWN_LEVELS = 4
NAMES = ("column", "kind", "proposed", "missing")


@app.command()
def inspect(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="CSV, Parquet or Arrow, or --sql.")] = None,
    sql: Annotated[str | None, typer.Option(help="A database; give its password in PGPASSWORD or ~/.pgpass.")] = None,
    query: Annotated[str | None, typer.Option(help="What to ask that database.")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="Key, label or another column; may be repeated.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the proposal as a schema file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path of the schema file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Propose a schema for a table: each column's kind, bounds or levels, and how many values are missing.

    The table is read in blocks, so it may be larger than memory. Nothing leaves this machine.

    \bExamples:
      colonnade data inspect stays.parquet
      colonnade data inspect stays.csv --leave-out pid --leave-out readmitted -o clinic.schema.toml
      colonnade data inspect --sql postgresql://reader@db.hospital/ward --query "select * from stays"
    """
    with explained():
        from rich.console import Console
        from rich.text import Text

        from colonnade.data.schema.infer import look
        from colonnade.data.sources import table_at

        if (file is None) == (sql is None):
            raise co.InvalidInput("give one table: a FILE, or --sql with --query.")
        if output is not None and output.exists():
            raise co.InvalidInput(f"{output} already exists, perhaps edited. Choose another name, or remove it.")
        source = table_at(sql or str(file), query=query)
        left_out = set(leave_out or ())
        with busy(f"reading {source.shown}", quiet or as_json):
            looks = look(source.blocks(None))
        _check_names(left_out, looks)
        proposals = [(seen, *seen.proposal()) for seen in looks if seen.name not in left_out]
        lines = [
            dict(zip(NAMES, (seen.name, *_described(column, reason), seen.missing), strict=True))
            for seen, column, reason in proposals
        ]
        if not quiet and not as_json:
            table = table_of(f"{source.shown}: {looks[0].rows:,} rows", NAMES, right=("missing",))
            for line in lines:
                cells = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line.values())
                table.add_row(*map(Text, cells))  # a column may be called [red]
            answers().print(table)
        if not quiet:
            Console(stderr=True, soft_wrap=True).print(WARNING, style="yellow", highlight=False, markup=False)
        if output is not None:
            _write(output, [column for _, column, _ in proposals if column is not None])
        written = "" if output is None else str(output)
        answer({"columns": lines, "schema": written or None}, written, written, quiet, as_json)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `colonnade data list`.")],
    folder: Annotated[Path, typer.Option(help="Where to keep it, in a folder of its own.")] = Path("data"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing; the exit code tells.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fetch a public data set into FOLDER/NAME and check it against its known checksum.

    A download that was interrupted goes on where it stopped; a file with another checksum is removed. Figures,
    benchmarks and tests find the set if COLONNADE_DATA names the folder.

    \bExamples:
      colonnade data fetch flights
      colonnade data fetch a9a --folder /srv/data
    """
    with explained("interrupted; the same command goes on where it stopped."):
        from colonnade.data import fetch as job

        with _bar(quiet or as_json) as progress:
            paths = [str(path) for path in job.fetch(name, folder, progress=progress)]
        answer({"name": name, "files": paths}, "\n".join(paths), "", quiet, as_json)


@app.command(name="list")
def list_data_sets(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """The data sets that can be fetched, with size, licence and address.

    Example: colonnade data list
    """
    with explained():
        from colonnade.data.fetch import DATA_SETS

        table = table_of("Public data sets", ("name", "what it is", "bytes", "licence", "from"), right=("bytes",))
        sets = []
        for name, data in DATA_SETS.items():
            places = [file.address for file in data.files]
            table.add_row(name, data.about, f"{data.size:,}", data.licence, "\n".join(places))
            about = {"name": name, "bytes": data.size, "about": data.about, "licence": data.licence}
            sets.append(about | {"from": places})
        answer(sets, table, "\n".join(DATA_SETS), quiet, as_json)


def _check_names(left_out: set[str], looks: list[Look]) -> None:
    absent = sorted(left_out - {seen.name for seen in looks})
    if absent:
        names = ", ".join(seen.name for seen in looks[:8])
        raise co.InvalidInput(f"--leave-out {absent[0]}: the table has no such column; it has {len(looks):,}: {names}.")


def _described(column: Column | None, reason: str) -> tuple[str, str]:
    if column is None:
        return "left out", reason
    levels = column.levels_of()
    more = f" and {len(levels) - SHOWN_LEVELS:,} more" if len(levels) > SHOWN_LEVELS else ""
    return column.kind(), ", ".join(levels[:SHOWN_LEVELS]) + more if levels else column.words()[1]


def _write(output: Path, columns: list[Column]) -> None:
    head = "\n".join(f"# {line}" for line in textwrap.wrap(WARNING, 110))
    write_text(output, f"{head}\n\n{co.Schema(tuple(columns), source='data').to_text()}")


@contextmanager
def _bar(silent: bool) -> Iterator[Callable[[int, int], None] | None]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("fetching", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
