"""`colonnade sparse`: one sparse linear model from one file of rows, for one data holder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import colonnade as co
from colonnade.cli import options
from colonnade.cli.terminal import answer, check_free, explained, lined, on_screen, write_text
from colonnade.fields import Choice
from colonnade.privacy.events import shown

STOPPED = "interrupted; no model was written. The same command begins again; what a ledger was charged stays charged."


class Task(Choice):
    """What is learnt of a label."""

    CLASSIFY = "classify"
    REGRESS = "regress"


def sparse(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="Svmlight/libsvm, .npz (scipy sparse), CSV or Parquet.")],
    label: Annotated[str | None, typer.Option(help="The label's column, or the .npy file of labels (.npz).")] = None,
    task: Annotated[str, typer.Option(help="classify or regress.")] = Task.CLASSIFY.value,
    radius: Annotated[float, typer.Option(help="Bound of the sum of the coefficients' sizes.")] = 50.0,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; by default from the gap or the budget.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Fit with differential privacy at this epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; by default 1e-6.")] = None,
    allow_large_delta: Annotated[
        bool, typer.Option("--allow-large-delta", help="1/rows and more; it is stated.")
    ] = False,
    classes: Annotated[str | None, typer.Option(help="The classes, as in -1,1; needed with --epsilon.")] = None,
    columns: Annotated[int | None, typer.Option(min=1, help="Of a svmlight file; needed with --epsilon.")] = None,
    row_norm: Annotated[float, typer.Option(help="Public bound of a row's length; longer rows are clipped.")] = 1.0,
    feature_bound: Annotated[float, typer.Option(help="Public bound of an entry; larger ones are clipped.")] = 1.0,
    label_range: Annotated[str | None, typer.Option(help="Public lowest and highest label, as in 2,6.")] = None,
    label_bound: Annotated[float | None, typer.Option(help="B instead of --label-range=-B,B.")] = None,
    method: Annotated[str, typer.Option(help="auto, frank-wolfe or gaussian.")] = "auto",
    ledger: Annotated[Path | None, typer.Option(help="The ledger of these rows; it outlives this fit.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")] = Path("model.json"),
    overwrite: options.Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the model was written.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit one sparse linear model to one file of rows.

    A model that is there is not written over without --overwrite: with --epsilon another fit is another price.

    \bExamples:
      colonnade sparse train.svm --radius 100
      colonnade sparse train.svm --epsilon 1 --classes=-1,1 --columns 47236 --ledger train.ledger
      colonnade sparse table.parquet --label late --json
    """
    with explained(STOPPED):
        from colonnade.data.readers import fit_file
        from colonnade.runs.progress import progress_bar
        from colonnade.views.page import check_target

        if task not in tuple(Task):
            raise co.InvalidInput(f"--task {task} is not known; choose classify or regress")
        target = check_target(output)
        cost = "" if epsilon is None else f"Another fit would cost epsilon {shown(epsilon)} once more."
        check_free(target, overwrite, cost, "name another file with --output", "fit again")
        settings: dict[str, Any] = {
            "radius": radius,
            "rounds": rounds,
            "epsilon": epsilon,
            "delta": delta,
            "allow_large_delta": allow_large_delta,
            "row_norm": row_norm,
            "feature_bound": feature_bound,
            "method": method,
            "ledger": None if ledger is None else str(ledger),
        }
        known_classes = None if classes is None else _numbers(classes)
        ends: Any = None if label_range is None else tuple(_numbers(label_range))
        estimator: Any = co.SparseClassifier(classes=known_classes, **settings)
        if task == Task.REGRESS:
            estimator = co.SparseRegressor(label_bound=label_bound, label_range=ends, **settings)
        with progress_bar(on_screen(quiet or as_json), "reading, percent", 100) as show:

            def tell(done: float) -> None:
                show({"round": int(100 * done)})

            try:
                model = fit_file(data, estimator, label=label, columns=columns, progress=tell)
            except co.InvalidInput:
                raise
            except ValueError:
                # Of scikit-learn, and its message may quote a cell.
                raise co.InvalidInput(
                    f"rows or labels of {data} do not suit --task {task}: classify needs two or more classes, and all "
                    "numbers must be finite. Correct the file, or choose the other task."
                ) from None
        _write(target, model.estimator)
        facts = {**model.table(), "model": str(target)}
        answer(facts, lined(facts), str(target), quiet, as_json)


def _numbers(words: str) -> list[float]:
    try:
        return [float(word) for word in words.split(",")]
    except ValueError:
        raise co.InvalidInput(f"--classes {words!r} is not a list of numbers; write as in --classes=-1,1") from None


def _write(target: Path, estimator: Any) -> None:
    import numpy as np

    coef = np.atleast_2d(estimator.coef_)
    places = [np.flatnonzero(row) for row in coef]
    plain = {
        "format": "colonnade sparse model",
        "version": 1,
        "columns": int(coef.shape[1]),
        "classes": [float(c) for c in getattr(estimator, "classes_", [])],
        "intercept": np.atleast_1d(estimator.intercept_).tolist(),
        "coefficients": [
            {"places": used.tolist(), "values": row[used].tolist()} for row, used in zip(coef, places, strict=True)
        ],
        "privacy": None if estimator.privacy_ is None else json.loads(estimator.privacy_.to_json()),
    }
    write_text(target, json.dumps(plain, indent=1))
