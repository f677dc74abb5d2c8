"""`colonnade evaluate` and `colonnade scorecard`: how good a saved model is on rows at hand, and its points."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, answers, busy, check_new, explained, finite, lined, table_of

if TYPE_CHECKING:
    from colonnade.views.verdict import Evaluation

AGAIN = "interrupted; nothing was kept. The same command begins again and costs nothing."
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
    with explained(AGAIN):
        from colonnade.cli.predict import check_parties, cut_cells, federation_of, files_of
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
    with explained(AGAIN):
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
    from colonnade.data.classes import in_words

    names = [in_words(name) for name in (model.classes or (-1, 1))]
    if good is None or good == names[0]:
        return -1
    if good != names[1]:
        raise co.InvalidInput(f"--good {good}: the model's classes are {names[0]} and {names[1]}. Name one of them.")
    return 1
