"""Runs the comparison: one case a model and table, kept and resumed like a figure's (papers/runner.py).

found = compare(Path("reproduced"), quick=True, rivals=None)       a record: every line of the table, with where it comes from
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import InvalidInput
from papers.comparison import tables
from papers.comparison.models import DIFFPRIVLIB, EPSILONS, SKGLM, Split, models
from papers.comparison.record import record
from papers.comparison.rivals import Rivals
from papers.figure import Case, Figure, Row, stated
from papers.page import write_pages
from papers.plot import Panel, Plot, check_drawing
from papers.registry import Listed
from papers.runner import reproduce

if TYPE_CHECKING:
    import polars as pl

SPLITS = {True: 2, False: 5}  # quick or not


def compare(
    results: Path, *, quick: bool, rivals: Rivals | None, jobs: int | None = None, progress: bool = False
) -> dict[str, Any]:
    """Run what is not there yet, and gather everything into one record."""
    there = tables.present()
    names = there[:1] if quick else there
    if not names:
        wanted = ", ".join((*tables.SPLIT_COLUMNS, *tables.WHOLE))
        raise InvalidInput(
            f"none of {wanted} is there: `colonnade data fetch a9a` brings one of them; set COLONNADE_DATA to its folder."
        )
    check_drawing()
    figure = replace(FIGURE, cases=lambda few: cases(names, SPLITS[few], rivals))
    outcome = reproduce([Listed(figure, __name__)], results, quick=quick, jobs=jobs, progress=progress)[0]
    if outcome.failures or outcome.table is None:
        first = outcome.failures[0]
        raise InvalidInput(
            f"{len(outcome.failures)} of {outcome.cases} models failed; the first, {first.case['model']} on {first.case['data']}: "
            f"{first.reason} Its traceback is in {results / figure.name}; the others are kept."
        )
    write_pages([outcome], results)
    reason = "a quick run takes one table" if quick else "not in the folder of data"
    left_out = [
        *(f"{name}: {reason}" for name in tables.SPLIT_COLUMNS + tables.WHOLE if name not in names),
        *([f"{SKGLM}, {DIFFPRIVLIB}: no environment was given (--rivals)"] if rivals is None else []),
    ]
    return record(outcome.table, outcome.version, quick, rivals, left_out)


def cases(names: list[str], splits: int, rivals: Rivals | None) -> list[Case]:
    found: list[Case] = []
    for name in names:
        for model in models(tables.parties(name), rivals):
            found.append({"data": name, "model": model.key, "splits": splits})
            if rivals is not None and model.by in (SKGLM, DIFFPRIVLIB):
                found[-1]["python"] = str(rivals.python)
    return found


def run(data: str, model: str, splits: int, python: str = "") -> list[Row]:
    """The rows of one model on one table."""
    table = tables.load(data)
    rivals = Rivals(Path(python)) if python else None
    chosen = next(one for one in models(tuple(table.schemas), rivals) if one.key == model)
    divided = [Split(table, number, *rows) for number, rows in enumerate(table.splits(splits))]
    said: Row = {
        "data": data,
        "rows": int(table.y.size),
        "columns": int(table.X.shape[1]),
        "parties": len(table.schemas),
        "model": chosen.name,
        "by": chosen.by,
        "place": chosen.place,
        "problem": chosen.problem,
    }
    return [{**said, **row} for row in chosen.run(divided)]


def draw(table: pl.DataFrame) -> Plot:
    """Mean area under the curve against epsilon, a panel a table; what is not private is left to the page."""
    import polars as pl

    panels = {name: Panel(name, x="epsilon", y="AUC", log="x") for name in table["data"].unique(maintain_order=True)}
    private = table.filter(pl.col("epsilon").is_not_null() & ~pl.col("model").str.contains(" alone"))
    for (name, by, model), own in private.group_by("data", "by", "model", maintain_order=True):
        line = own.group_by("epsilon", maintain_order=True).agg(pl.col("auc").mean()).sort("epsilon")
        panels[name].line(line["epsilon"], line["auc"], f"{by} {model}, {name}")
    title = "Area under the ROC curve against epsilon, a panel a table"
    return Plot(title, list(panels.values()), height=3.6 * len(panels))


FIGURE = Figure(
    name="comparison",
    paper="this library",
    title="Our methods beside each other and beside scikit-learn, skglm and diffprivlib",
    setting="real tables, four fifths of the rows to train on; area under the ROC curve on the others",
    cases=lambda quick: cases(tables.present(), SPLITS[quick], None),
    run=run,
    draw=draw,
    claims=(),
    privacy=stated(
        "every curve",
        epsilon=f"as drawn ({', '.join(f'{e:g}' for e in EPSILONS)})",
        delta="1e-6 (diffprivlib: 0)",
        unit="one row",
        trust="by model; in one place, one holder has everything",
        guarantee="proven; conditional under secure and consortium (diffprivlib: its authors')",
    ),
)
