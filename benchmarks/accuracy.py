"""Accuracy of the sparse estimators on real data, private and not, beside scikit-learn and diffprivlib.

    python -m benchmarks.accuracy                                   quick: two data sets, two splits
    python -m benchmarks.accuracy --full                            six data sets, ten splits
    python -m benchmarks.accuracy --data a9a --epsilon 1 --splits 3 --only Colonnade      a part of it

Held-out rows (80/20), defaults only, delta = 1e-6: the area under the ROC curve, mean and standard error over splits. Rows
of Colonnade see raw values clipped to ±1. Rows of diffprivlib (only where it can be imported, and only for tables that
are small enough to be dense) see rows of norm 1, which is its data_norm. scikit-learn is not private and has its default
ridge penalty.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.timing import data_folder
from colonnade.estimators.sparse import SparseClassifier

EPSILONS = (math.inf, 8.0, 4.0, 1.0, 0.1)
QUICK = ("rcv1", "a9a")
FULL = ("rcv1", "a9a", "dorothea", "gisette-valid", "diabetes130", "news20-bigram")
DENSEST = 30_000_000  # cells that diffprivlib's dense rows may have
FIRST_SEED = 7000


def load(name: str, folder: Path) -> tuple[Any, np.ndarray]:
    """All rows whose label is known, labels -1 and +1."""
    parts = {"a9a": ("train", "test"), "dorothea": ("train", "valid")}.get(name)
    if parts is None:
        X = sparse.load_npz(folder / "X.npz")
        y = np.load(folder / ("y_any.npy" if name == "diabetes130" else "y.npy"))
    else:
        X = sparse.vstack([sparse.load_npz(folder / f"X_{part}.npz") for part in parts])
        y = np.concatenate([np.load(folder / f"y_{part}.npy") for part in parts])
    known = y != 0 if (y < 0).any() else np.ones(y.size, dtype=bool)
    return sparse.csr_array(X, dtype=np.float64)[known], np.where(y[known] > 0, 1, -1)


def models(epsilon: float, X: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, estimator, and the rows that it sees."""
    if math.isinf(epsilon):
        from sklearn.linear_model import LogisticRegression

        yield "Colonnade, certified, radius 200", SparseClassifier(radius=200.0), X
        yield "scikit-learn", LogisticRegression(max_iter=300), X
        return
    private = partial(SparseClassifier, epsilon=epsilon, delta=1e-6, classes=[-1, 1])
    yield "Colonnade", private(), X
    yield "Colonnade, at most 2,000 columns", private(max_features=2000), X
    yield "Colonnade, Frank-Wolfe", private(method="frank-wolfe"), X
    diffprivlib = their_model()
    if diffprivlib is not None and math.prod(X.shape) <= DENSEST:
        yield "diffprivlib (delta = 0)", diffprivlib(epsilon=epsilon, data_norm=1.0), unit_rows(X)


def their_model() -> Any:
    """diffprivlib's logistic regression; None where it is not installed, or not for this version of scikit-learn."""
    try:
        from diffprivlib.models import LogisticRegression
    except ImportError:
        return None
    return LogisticRegression


def unit_rows(X: Any) -> np.ndarray:
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).reshape(-1, 1)
    return np.asarray(X.toarray() / np.where(lengths > 0, lengths, 1.0) * (1.0 - 1e-12))


def splits(rows: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        order = np.random.default_rng(seed).permutation(rows)
        yield order[: int(0.8 * rows)], order[int(0.8 * rows) :]


def table(name: str, folder: Path, epsilons: Sequence[float], count: int, only: str) -> None:
    """Prints one row of Markdown for each model, or for the one of the name `only`."""
    from sklearn.metrics import roc_auc_score

    X, y = load(name, folder)
    print(f"\n{name}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} nonzeros, {(y > 0).mean():.0%} positive")
    print(
        "\n| Data | ε | Model | AUC | Columns used | Seconds a fit | Splits |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for epsilon in epsilons:
        for label, model, rows in models(epsilon, X):
            if only and only != label:
                continue
            found, used, began = [], [], time.perf_counter()
            for train, test in splits(len(y), count):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(rows[train], y[train])
                found.append(roc_auc_score(y[test], model.decision_function(rows[test])))
                used.append(np.count_nonzero(model.coef_))
            error = f" ± {np.std(found, ddof=1) / math.sqrt(count):.4f}" if count > 1 else ""
            seconds = (time.perf_counter() - began) / count
            print(
                f"| {name} | {'∞' if math.isinf(epsilon) else f'{epsilon:g}'} | {label} | {np.mean(found):.4f}{error} | "
                f"{np.mean(used):,.0f} | {seconds:.1f} | {count} |",
                flush=True,
            )


def main(
    quick: bool = True,
    names: Sequence[str] = (),
    epsilons: Sequence[float] = EPSILONS,
    count: int | None = None,
    only: str = "",
) -> int:
    if their_model() is None:
        print("diffprivlib cannot be imported here (it needs scikit-learn below 1.8): its rows are left out")
    for name in names or (QUICK if quick else FULL):
        folder = data_folder(name)
        if folder is not None:
            table(name, folder, epsilons, count or (2 if quick else 10), only)
    return 0


def parsed() -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--full", action="store_true", help="six data sets and ten splits")
    parser.add_argument("--data", nargs="+", default=[], choices=FULL, help="only these data sets")
    parser.add_argument(
        "--epsilon", nargs="+", type=float, default=EPSILONS, help="only these budgets (inf: not private)"
    )
    parser.add_argument("--splits", type=int, help="how many splits")
    parser.add_argument("--only", default="", help="only the model of this name")
    asked = parser.parse_args()
    return {
        "quick": not asked.full,
        "names": asked.data,
        "epsilons": asked.epsilon,
        "count": asked.splits,
        "only": asked.only,
    }


def smoke() -> None:
    """One data set, one split, two budgets."""
    main(names=("a9a",), epsilons=(math.inf, 4.0), count=1)


if __name__ == "__main__":
    raise SystemExit(main(**parsed()))
