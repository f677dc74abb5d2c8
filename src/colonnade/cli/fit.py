"""`colonnade fit`: one sparse model from one file, private or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli.terminal import explained


def fit(
    data: Annotated[Path, typer.Option("--data", help="svmlight/libsvm, .npz (scipy sparse), CSV or Parquet.")],
    label: Annotated[
        str | None, typer.Option(help="The label's column (CSV, Parquet), or the .npy file of labels (.npz).")
    ] = None,
    task: Annotated[str, typer.Option(help="classify or regress.")] = "classify",
    radius: Annotated[float, typer.Option(help="Bound of the sum of the coefficients' sizes.")] = 50.0,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; by default from the gap or the budget.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Fit with differential privacy at this epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; by default 1e-6.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="The classes, as in -1,1: needed with --epsilon, since finding them is a release."),
    ] = None,
    columns: Annotated[
        int | None, typer.Option(min=1, help="The public number of columns of a svmlight file: needed with --epsilon.")
    ] = None,
    row_norm: Annotated[float, typer.Option(help="Public bound of a row's length; longer rows are clipped.")] = 1.0,
    feature_bound: Annotated[float, typer.Option(help="Public bound of an entry; larger ones are clipped.")] = 1.0,
    label_bound: Annotated[float | None, typer.Option(help="Public bound of a label, for regress.")] = None,
    method: Annotated[str, typer.Option(help="auto, frank-wolfe or gaussian.")] = "auto",
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger of these rows: a file that outlives this fit.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")] = Path("model.json"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Fit one sparse linear model to one file.

    Examples:

      colonnade fit --data train.svm --radius 100

      colonnade fit --data train.svm --epsilon 1 --classes=-1,1 --columns 47236 --ledger train.ledger

      colonnade fit --data table.parquet --label late --json
    """
    with explained():
        from rich.console import Console

        from colonnade.errors import InvalidInput
        from colonnade.estimators import SparseClassifier, SparseRegressor
        from colonnade.privacy.store import write_synced
        from colonnade.readers import fit_file

        if task not in ("classify", "regress"):
            raise InvalidInput(f"--task {task} is not known; choose classify or regress")
        shared: dict[str, Any] = {
            "radius": radius,
            "rounds": rounds,
            "epsilon": epsilon,
            "delta": delta,
            "row_norm": row_norm,
            "feature_bound": feature_bound,
            "method": method,
            "ledger": None if ledger is None else str(ledger),
        }
        if task == "classify":
            named = None if classes is None else _numbers(classes)
            estimator: Any = SparseClassifier(classes=named, **shared)
        else:
            estimator = SparseRegressor(label_bound=label_bound, **shared)
        console = Console(stderr=True)
        with _bar(console.is_terminal and not as_json) as tell:
            fitted = fit_file(data, estimator, label=label, columns=columns, progress=tell)
        text = json.dumps(_model(fitted.estimator), indent=1)
        write_synced(output, text.encode())
        if as_json:
            typer.echo(json.dumps({**fitted.table(), "model": str(output)}, indent=2, default=str))
            return
        for name, value in {**fitted.table(), "model": str(output)}.items():
            typer.echo(f"{name:12} {value}")


def _numbers(words: str) -> list[float]:
    from colonnade.errors import InvalidInput

    try:
        return [float(word) for word in words.split(",")]
    except ValueError:
        raise InvalidInput(f"--classes {words!r} is not a list of numbers; write for example --classes=-1,1") from None


def _model(estimator: Any) -> dict[str, Any]:
    import numpy as np

    coef = np.atleast_2d(estimator.coef_)
    return {
        "format": "colonnade sparse model",
        "version": 1,
        "columns": int(coef.shape[1]),
        "classes": [float(c) for c in getattr(estimator, "classes_", [])],
        "intercept": np.atleast_1d(estimator.intercept_).tolist(),
        "coefficients": [
            {"places": np.flatnonzero(row).tolist(), "values": row[np.flatnonzero(row)].tolist()} for row in coef
        ],
        "privacy": None if estimator.privacy_ is None else json.loads(estimator.privacy_.to_json()),
    }


@contextmanager
def _bar(wanted: bool) -> Iterator[Callable[[float], None]]:
    if not wanted:
        yield lambda _: None
        return
    from colonnade.progress import Bar

    bar = Bar("reading, percent", 100)
    try:
        yield lambda done: bar.show({"round": int(100 * done)})
    finally:
        bar.stop()
