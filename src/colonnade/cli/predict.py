"""`colonnade predict`: scores of new rows by a saved model, in a file of the caller's."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, busy, check_new, explained, lined, write_text

if TYPE_CHECKING:
    import polars as pl

AGAIN = "interrupted; nothing was written. The same command begins again and costs nothing."


def predict(
    saved: options.SavedFit,
    party: Annotated[list[str], typer.Option(help="NAME=FILE: new rows of one party; once for each party.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV file to write.")] = Path("scores.csv"),
    without: Annotated[
        list[str] | None,
        typer.Option(help="A party that has no rows here: the model is solved again without it, for free; may repeat."),
    ] = None,
    overwrite: options.WriteOver = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the scores were written.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write key, score, probability and class of new rows, in the labels' own words.

    Rows are matched by the model's key, in any order, and come out in the order of the first file. It costs no epsilon:
    what is written is about single people, and stays on this machine. A party that is not there is named by --without:
    a private model is then solved again from what was released, and other models leave its part out of every score.

    \bExamples:
      colonnade predict fit.json --party registry=new_registry.csv --party bank=new_bank.csv
      colonnade predict fit.json --party registry=new.csv --party bank=new.csv -o scores.csv --overwrite
    """
    with explained(AGAIN):
        model = co.load(saved)
        files = files_of(party)
        absent = list(without or ())
        check_parties(model, files, absent)
        check_new(output, overwrite, (saved, *files.values()))
        again = bool(absent) and model.released is not None
        with busy("scoring", quiet or as_json):
            found, matched, cut = _scored(model.without(*absent) if again else model, files, [] if again else absent)
            write_text(output, _guarded(found).write_csv())
        facts = {"rows": f"{found.height:,}: {matched}", "columns": ", ".join(found.columns), "scores": str(output)}
        if cut:
            facts["mind"] = "; ".join(cut)
        if absent:
            how = "solved again from the same release, for free" if again else "their part of every score is left out"
            facts["without"] = f"{', '.join(absent)}: {how}"
        plain = {"scores": str(output), "rows": found.height, "columns": found.columns, "without": absent}
        plain |= {"refitted": again, "mind": cut}
        answer(plain, lined(facts), str(output), quiet, as_json)


def _guarded(table: pl.DataFrame) -> pl.DataFrame:
    """The table with no text that a spreadsheet would compute: such a one gets an apostrophe before it."""
    import polars as pl

    text = pl.col(pl.String)
    formula = text.str.contains(r"^[=+\-@\t\r\n\x00]") & text.cast(pl.Float64, strict=False).is_null()
    return table.with_columns(pl.when(formula).then("'" + text).otherwise(text).name.keep())


def files_of(words: list[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for word in words:
        name, mark, path = word.partition("=")
        if not mark or name in files:
            what = "names the party twice" if mark else "does not say whose rows these are"
            raise co.InvalidInput(f"--party {word} {what}: write --party NAME=FILE, once for each party.")
        files[name] = Path(path)
    return files


def check_parties(model: co.Fit, files: dict[str, Path], without: list[str]) -> None:
    """Whether everybody whose columns the model has is there, or is said not to be."""
    if model.coefficients.elsewhere:
        held = ", ".join(model.coefficients.elsewhere)
        remedy = "`colonnade score rows FEDERATION.toml --fit FIT.json` has the parties score their rows"
        raise co.InvalidInput(f"the coefficients of {held} are held there and did not leave: {remedy}.")
    if model.by_rows or any(model.schemas.get(name) is None for name in model.coefficients):
        raise co.InvalidInput("this model was fitted on plain matrices, which name no columns. Predict in Python.")
    known = list(model.coefficients)
    if strange := [name for name in (*files, *without) if name not in (*known, model.label)]:
        raise co.InvalidInput(f"the model knows no party {strange[0]!r}; its parties are {', '.join(known)}.")
    if both := [name for name in without if name in files]:
        raise co.InvalidInput(f"--without {both[0]} and --party {both[0]}=... contradict each other; leave one out.")
    if absent := [name for name in known if name not in files and name not in without]:
        raise co.InvalidInput(
            f"a prediction needs the columns of every party of the model, and {absent[0]!r} is missing. Add --party "
            f"{absent[0]}=FILE. If it cannot take part, --without {absent[0]} {_can_do(model)}."
        )


def _can_do(model: co.Fit) -> str:
    if model.released is not None:
        return "solves the model again without it, from the same release and for free"
    return "leaves its part out of every score; a model that was fitted without it predicts better"


def federation_of(
    model: co.Fit, files: dict[str, Path], label: str | None = None
) -> tuple[co.Federation, pl.DataFrame]:
    """The rows that all parties have, with their labels where the holder's column is named; and the keys of the first
    file, in its order."""
    from colonnade.data.federation import ROW_KEY
    from colonnade.data.sources import table_at

    keyed = model.on not in (None, ROW_KEY)
    on = str(model.on or ROW_KEY)
    wanted = [*model.coefficients, *([] if label is None else [model.label])]
    tables = {name: table_at(path) for name, path in files.items() if name in wanted}
    schemas = {name: model.schemas.get(name) or co.Schema(()) for name in tables}
    if not keyed:
        own = {} if label is None else {model.label: [label]}
        names = {name: [*(c.name for c in schema.columns), *own.get(name, [])] for name, schema in schemas.items()}
        frames = {name: table.frame(names[name], schemas[name]) for name, table in tables.items()}
        tables = {name: table_at(frame.with_row_index(on, offset=1)) for name, frame in frames.items()}
    held = None if label is None else (model.label, label)
    return co.Federation.from_frames(tables, on, held, schemas=schemas), next(iter(tables.values())).frame(
        [on], None, {on}
    )


def _scored(model: co.Fit, files: dict[str, Path], without: list[str]) -> tuple[pl.DataFrame, str, list[str]]:
    """The rows of the first file that all parties have, with what the model says of them; how many matched; and cells
    that were not taken as they are."""
    import polars as pl

    from colonnade.data.classes import in_words

    fed, asked = federation_of(model, files)
    (on,) = asked.columns
    assert fed.keys is not None
    told: dict[str, object] = {on: fed.keys, "score": model.scores(fed, without)}
    if model.problem.loss.classifies:
        with contextlib.suppress(co.InvalidInput):  # of losses whose scores are no probabilities
            told["probability"] = model.predict_proba(fed, without)
        told["class"] = [in_words(name) for name in model.predict(fed, without).tolist()]
    else:
        told["prediction"] = model.predict(fed, without)
    found = asked.cast({on: fed.keys.dtype}).join(pl.DataFrame(told), on=on, how="inner", maintain_order="left")
    return found, str(fed.alignment), cut_cells(fed)


def cut_cells(fed: co.Federation) -> list[str]:
    """Cells of new rows that the model does not take as they are."""
    from colonnade.data.notices import about_new_rows

    return [f"{name}: {said}" for name, p in fed.parties.items() for said in about_new_rows(p.schema, p.block)]
