"""`colonnade confirm`: one decision about all figures of a configuration that were read off the rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, explained, lined, table_of, write_text

if TYPE_CHECKING:
    from colonnade.data.schema.column import Column
    from colonnade.runs.config import Declared

SHOWN = 12  # levels in a cell
MARK = re.compile(r"""^(\s*source\s*=\s*)(["'])data\2\s*(#.*)?$""")
HEAD = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
SAID = '"public"                        # read off the rows, and declared public'
MEANING = (
    "Whoever sees the model sees these figures. They were read off the rows, so no epsilon covers them, and the "
    "privacy statement says so."
)


def confirm(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="As `colonnade init` wrote it.")],
    yes: Annotated[bool, typer.Option("--yes", help="All of them may be known: do not ask.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only how many were confirmed.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Declare public, all at once, the figures of a configuration that were read off the rows.

    It shows bounds, levels and classes that are still to be confirmed, and asks one question. With a yes it writes
    source = "public" beside each: a private run takes them, and its statement says that they were read from the data.
    To keep a figure to yourself, change it in the file first, and remove its line source = "data".

    \bExamples:
      colonnade confirm study.toml
      colonnade confirm study.toml --yes
    """
    with explained():
        from colonnade.runs.config import load_declared

        found = load_declared(config)
        if not (count := len(found.marks)):
            answer({"file": str(config), "confirmed": 0}, "nothing is to be confirmed", "0", quiet, as_json)
            return
        if not (quiet or as_json):
            _show(found)
        if not yes and not typer.confirm(f"{MEANING} May all {count:,} be known?", err=True):
            typer.echo("nothing was changed", err=True)
            raise typer.Exit(1)
        for file, text in _declared_public(config, found).items():
            write_text(file, text)
        facts = {
            "confirmed": f"{count:,}, as read off the rows and declared public; {config.name} and the statement say so",
            "next": f"colonnade fit {shlex.quote(str(config))} --epsilon 1",
        }
        answer({"file": str(config), "confirmed": count}, lined(facts), str(count), quiet, as_json)


def _show(found: Declared) -> None:
    table = table_of("To be confirmed", ("party", "column", "taken as", "figures"))
    label = found.label
    places = {(mark.place, mark.table) for mark in found.marks}
    if ("data.label.source", 0) in places:
        ends = None if label.range is None else f"{label.range.low:,.12g} to {label.range.high:,.12g}"
        table.add_row(
            label.party, label.column, "label", ends or f"{label.positive} / {label.negative or 'all others'}"
        )
    for party, schema in found.schemas.items():
        whole = (f"data.parties.{party}.schema", 0) in places
        for place, column in enumerate(schema.columns):
            if whole or (f"data.parties.{party}.column.source", place) in places:
                kind, figures = column.words()
                table.add_row(party, column.name, kind, _levels(column) or figures)
    answers().print(table)


def _levels(column: Column) -> str:
    levels = column.levels_of()
    return ", ".join(levels[:SHOWN]) + (f" and {len(levels) - SHOWN:,} more" if len(levels) > SHOWN else "")


def _declared_public(config: Path, found: Declared) -> dict[Path, str]:
    """The texts of the files whose marks are to be changed, with the marks changed."""
    names = [mark.place.removeprefix("data.parties.").removesuffix(".schema") for mark in found.marks]
    own = {
        config.parent / str(found.parties[name]["schema"]) for name in names if "schema" in found.parties.get(name, {})
    }
    here = sum(not mark.place.endswith(".schema") for mark in found.marks)
    files = {config: _changed(config, ("data.label", ".column")), **{file: _changed(file, ("",)) for file in own}}
    if files[config][1] != here or any(files[file][1] != 1 for file in own):
        raise co.InvalidInput(
            f'not every mark of {config} stands on a line of its own as source = "data". Write source = "public" there '
            "by hand, or say --bounds-are-public when you fit."
        )
    return {file: text for file, (text, count) in files.items() if count}


def _changed(file: Path, tables: tuple[str, ...]) -> tuple[str, int]:
    """The text with every mark in tables of these names made public, and how many that are; "" is above all tables."""
    count = 0
    lines = []
    for head, line in _under(file.read_text(encoding="utf-8")):
        inside = any(head == name or (name and head.endswith(name)) for name in tables)
        if inside and (mark := MARK.match(line)):
            line = f"{mark[1]}{SAID}"
            count = count + 1
        lines.append(line)
    return "\n".join(lines) + "\n", count


def _under(text: str) -> Iterator[tuple[str, str]]:
    """Every line, with the name of the table it stands in."""
    head = ""
    for line in text.splitlines():
        if found := HEAD.match(line):
            head = found[1]
        yield head, line
