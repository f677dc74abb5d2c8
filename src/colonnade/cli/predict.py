"""`colonnade predict`, `evaluate` and `scorecard`: a saved model on rows at hand.

Scores of new rows, in a file of the caller's; how good the model is; and its points.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, busy, check_new, explained, finite, lined, table_of, write_text

if TYPE_CHECKING:
    import polars as pl

    from colonnade.views.verdict import Evaluation

PREDICT_AGAIN = "interrupted; nothing was written. The same command begins again and costs nothing."


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
    with explained(PREDICT_AGAIN):
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

    from colonnade.data.labels import in_words

    fed, asked = federation_of(model, files)
    (on,) = asked.columns
    assert fed.keys is not None
    told: dict[str, object] = {on: fed.keys, "score": model.scores(fed, without)}
    if model.problem.loss.classifies:
        # Of losses whose scores are no probabilities.
        with contextlib.suppress(co.InvalidInput):
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


EVALUATE_AGAIN = "interrupted; nothing was kept. The same command begins again and costs nothing."
NOT_PRIVATE = (
    "exact figures of these rows, which no epsilon covers: to show them to somebody is a release about the rows"
)


class Basis(StrEnum):
    """Why figures about rows may stand in a report."""

    PUBLIC = "public"
    PAID_FOR = "paid for"


def evaluate(
    saved: options.SavedFit,
    party: Annotated[list[str], typer.Option(help="NAME=FILE: rows of one party, the label among them; once a party.")],
    label: Annotated[
        str | None, typer.Option(help="The label's column, if it has another name than when the model was fitted.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with these figures here; say what the rows are with --rows-are.")
    ] = None,
    rows_are: Annotated[
        Basis | None, typer.Option(help="With --report: why figures about these rows may be shown.")
    ] = None,
    overwrite: options.WriteOver = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only names and figures.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Say how good a model is on rows whose labels are known: AUC, KS, Gini, log loss, calibration; or R² and errors.

    Take rows that the model was not fitted on. They are matched by the model's key; the label is read from its holder's
    file, in its own words. Nothing is spent, and nothing leaves this machine. The figures are exact, and tell about
    these rows: they go into a report (--report) only if the rows are public, or the figures are paid for elsewhere.

    \bExamples:
      colonnade evaluate fit.json --party registry=test_registry.csv --party bank=test_bank.csv
      colonnade evaluate fit.json --party clinic=c.csv --party lab=l.csv --report good.html --rows-are public
    """
    with explained(EVALUATE_AGAIN):
        from colonnade.runs.evaluation import evaluation_of

        model = co.load(saved)
        files = files_of(party)
        check_parties(model, files, [])
        column = label or _label_of(model, files)
        if (report is None) != (rows_are is None):
            raise co.InvalidInput("--report and --rows-are go together: say both, or neither.")
        if report is not None:
            check_new(report, overwrite, (saved, *files.values()))
        with busy("scoring", quiet or as_json):
            rows, _ = federation_of(model, files, column)
            found = evaluation_of(model, rows, rows.targets, "" if rows_are is None else rows_are.value)
            if report is not None:
                model.report(report, evaluation=(rows, rows.targets), evaluation_is=str(rows_are))
        cut = cut_cells(rows)
        plain = {
            "rows": found.rows,
            "figures": {name: {"value": finite(v), "error": e} for name, (v, e, _) in found.figures.items()},
            "calibration": [{"predicted": p, "found": f, "rows": n} for p, f, n in found.groups],
            "without": dict(found.without),
            "mind": [NOT_PRIVATE, *cut],
            **({} if report is None else {"report": str(report)}),
        }
        if quiet or as_json:
            brief = "\n".join(f"{name} {value:.6g}" for name, (value, _, _) in found.figures.items())
            answer(plain, "", brief, quiet, as_json)
            return
        _show(found)
        facts = {"rows": str(rows.alignment), "mind": "; ".join([NOT_PRIVATE, *cut])}
        typer.echo(lined(facts | ({} if report is None else {"report": str(report)})))


def _label_of(model: co.Fit, files: dict[str, Path]) -> str:
    """The column that the model learnt, which the file of its holder has to have."""
    column = str(model.facts.get("asked", ""))
    if not column:
        raise co.InvalidInput("this model does not know the name of its label: say --label COLUMN.")
    if model.label not in files:
        raise co.InvalidInput(f"the label is with {model.label!r}: add --party {model.label}=FILE, with its labels.")
    return column


def _show(found: Evaluation) -> None:
    from colonnade.views.parts import with_error

    table = table_of(f"On {found.rows:,} rows", ("figure", "value", "what it is"), right=("value",))
    for name, (value, error, meaning) in found.figures.items():
        table.add_row(name, with_error(value, error), meaning)
    answers().print(table)
    if found.groups:
        names = ("predicted", "found", "rows")
        table = table_of("Calibration: ten groups of rows, by prediction", names, right=names)
        for predicted, outcome, rows in found.groups:
            table.add_row(f"{predicted:.4g}", f"{outcome:.4g}", f"{rows:,}")
        answers().print(table)
    if found.without:
        table = table_of(f"{found.measure} without one party", ("without", found.measure), right=(found.measure,))
        for name, value in found.without.items():
            table.add_row(name, f"{value:.4g}")
        answers().print(table)


# ------------------------------------------------------------------------------------------------ points


def scorecard(
    saved: options.SavedFit,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write: .html a page, .csv, .json, or .py a scorer.")
    ] = Path("card.html"),
    points: Annotated[float, typer.Option(help="So many points mean good : bad = --odds : 1.")] = 600.0,
    odds: Annotated[float, typer.Option(help="Of good to bad, at --points.")] = 50.0,
    double: Annotated[float, typer.Option(help="So many more points mean twice the odds.")] = 20.0,
    bins: Annotated[
        int | None, typer.Option(min=1, help="Bins of a number at most; else few, within double/8.")
    ] = None,
    good: Annotated[
        str | None, typer.Option(help="The class that is good, in the label's own words; else the one not learnt.")
    ] = None,
    overwrite: options.WriteOver = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the card was written.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a model of two classes as a scorecard: whole points that add up, for each bin of a number and each level.

    It costs nothing: points follow from the model. The ending of --output says what is written; a .py file scores rows
    with nothing but Python (`python card.py rows.csv`). docs/use/scorecard.md says how far points are from the model.

    \bExamples:
      colonnade scorecard fit.json
      colonnade scorecard fit.json -o card.py --points 500 --odds 20 --double 40 --good yes
    """
    with explained(EVALUATE_AGAIN):
        model = co.load(saved)
        card = model.scorecard(points, odds, double, bins, good=_sign_of(model, good))
        writers = {".html": card.to_html, ".csv": card.to_csv, ".json": card.to_json, ".py": card.to_python}
        if output.suffix not in writers:
            raise co.InvalidInput(f"{output}: end the name with {', '.join(writers)}; the ending says what is written.")
        check_new(output, overwrite, (saved,))
        writers[output.suffix](output)
        facts = {"card": str(output), "columns": len(card.columns), "base": card.base}
        text = f"{card}\n{lined({'card': output})}"
        answer(facts, text, str(output), quiet, as_json)


def _sign_of(model: co.Fit, good: str | None) -> int:
    from colonnade.data.labels import in_words

    names = [in_words(name) for name in (model.classes or (-1, 1))]
    if good is None or good == names[0]:
        return -1
    if good != names[1]:
        raise co.InvalidInput(f"--good {good}: the model's classes are {names[0]} and {names[1]}. Name one of them.")
    return 1
