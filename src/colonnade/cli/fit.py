"""`colonnade fit`: a whole run from one configuration file, or one sparse model from one file of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli.preview import show
from colonnade.cli.targets import Overwrite, check_free, cost_of_another
from colonnade.cli.terminal import answer, busy, explained, lined
from colonnade.privacy.figures import shown

STOPPED = "interrupted; with the same store, the same command goes on where this one stopped."


def fit(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Data, problem, method, privacy (docs/config.md).")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Instead: one holder's svmlight/libsvm, .npz (scipy sparse), CSV or Parquet."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The label's column (CSV, Parquet), or the .npy file of labels (.npz).")
    ] = None,
    task: Annotated[str, typer.Option(help="classify or regress.")] = "classify",
    radius: Annotated[float, typer.Option(help="Bound of the sum of the coefficients' sizes.")] = 50.0,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; by default from the gap or the budget.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Fit with differential privacy at this epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; by default 1e-6.")] = None,
    allow_large_delta: Annotated[
        bool, typer.Option("--allow-large-delta", help="Fit though delta is not below 1/rows; the statement says so.")
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(help="The classes, as in -1,1: needed with --epsilon, since finding them is a release."),
    ] = None,
    columns: Annotated[
        int | None, typer.Option(min=1, help="The public number of columns of a svmlight file: needed with --epsilon.")
    ] = None,
    row_norm: Annotated[float, typer.Option(help="Public bound of a row's length; longer rows are clipped.")] = 1.0,
    feature_bound: Annotated[float, typer.Option(help="Public bound of an entry; larger ones are clipped.")] = 1.0,
    label_range: Annotated[
        str | None, typer.Option(help="Public lowest and highest label, for regress, as in 2,6.")
    ] = None,
    label_bound: Annotated[float | None, typer.Option(help="B instead of --label-range=-B,B.")] = None,
    method: Annotated[str, typer.Option(help="auto, frank-wolfe or gaussian.")] = "auto",
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger of these rows: a file that outlives this fit.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the model; by default model.json.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what CONFIG.toml would release and cost; spend and send nothing.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the model was written.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Run a configuration file, or fit one sparse linear model to one file of rows.

    The options from --label to --output are for --data; a configuration file says everything itself. A result that is there
    is not written over, and no other run is begun and paid, without --overwrite.

    Examples:

      colonnade fit study.toml --dry-run

      colonnade fit study.toml

      colonnade fit --data train.svm --radius 100

      colonnade fit --data train.svm --epsilon 1 --classes=-1,1 --columns 47236 --ledger train.ledger

      colonnade fit --data table.parquet --label late --json
    """
    with explained(STOPPED):
        from rich.console import Console

        from colonnade.errors import InvalidInput
        from colonnade.views import check_target

        if (config is None) == (data is None):
            raise InvalidInput("give one of the two: a CONFIG.toml (`colonnade init` writes one), or --data FILE.")
        seen = Console(stderr=True).is_terminal and not (as_json or quiet)
        if config is not None:
            given = {"label": label, "epsilon": epsilon, "delta": delta, "classes": classes, "output": output}
            given["allow-large-delta"] = allow_large_delta or None
            if extra := [name for name, value in given.items() if value is not None]:
                raise InvalidInput(f"--{extra[0]} is for --data; write it into {config} instead.")
            _configured(config, dry_run, overwrite, seen, quiet, as_json)
            return
        assert data is not None
        if dry_run:
            raise InvalidInput(
                "--dry-run is for a CONFIG.toml: `colonnade init --kind holder` writes one for a table of one holder."
            )
        if task not in ("classify", "regress"):
            raise InvalidInput(f"--task {task} is not known; choose classify or regress")
        target = check_target(output or Path("model.json"))
        cost = "" if epsilon is None else f"Another fit would cost epsilon {shown(epsilon)} once more."
        check_free(target, overwrite, cost, "name another file with --output", "fit again")
        shared: dict[str, Any] = {
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
        ends = None if label_range is None else tuple(_numbers(label_range))
        labels = {"label_bound": label_bound, "label_range": ends}
        model = _one_file(
            data, task, label, columns, None if classes is None else _numbers(classes), labels, shared, seen
        )
        _write(target, model.estimator)
        told = {**model.table(), "model": str(target)}
        answer(told, lined(told), str(target), quiet, as_json)


def _one_file(
    data: Path,
    task: str,
    label: str | None,
    columns: int | None,
    classes: list[float] | None,
    labels: dict[str, Any],
    shared: dict[str, Any],
    seen: bool,
) -> Any:
    from colonnade.data.readers import fit_file
    from colonnade.estimators import SparseClassifier, SparseRegressor

    if task == "classify":
        estimator: Any = SparseClassifier(classes=classes, **shared)
    else:
        estimator = SparseRegressor(**labels, **shared)
    with _bar(seen) as tell:
        return fit_file(data, estimator, label=label, columns=columns, progress=tell)


def _configured(config: Path, dry_run: bool, overwrite: bool, seen: bool, quiet: bool, as_json: bool) -> None:
    from colonnade.runs.config import load_config
    from colonnade.views import check_target

    asked = load_config(config)
    check_target(asked.output)
    check_free(asked.output, overwrite, cost_of_another(asked.job.privacy), f"name another output in {config}")
    if dry_run:
        with busy("making every check that the run would make", not seen):
            found = asked.preview()
        show(found, quiet, as_json)
        return
    made = asked.run(progress=seen)
    told = {
        "run": made.run,
        "method": made.method,
        "status": made.status.value,
        "privacy": made.privacy.sentence,
        "sent": f"{made.communication.bytes:,} bytes in {made.communication.messages:,} messages",
        "rows": f"{asked.federation.alignment}",
        **({"remarks": "; ".join(made.remarks)} if made.remarks else {}),
        **({} if asked.report is None else {"report": str(asked.report)}),
        **({} if asked.store is None else {"store": str(asked.store)}),
        "fit": str(asked.output),
    }
    answer(told, lined(told), str(asked.output), quiet, as_json)


def _write(target: Path, estimator: Any) -> None:
    from colonnade.privacy.store import write_synced

    write_synced(target, json.dumps(_model(estimator), indent=1).encode())


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
    from colonnade.runs.progress import Bar

    bar = Bar("reading, percent", 100)
    try:
        yield lambda done: bar.show({"round": int(100 * done)})
    finally:
        bar.stop()
