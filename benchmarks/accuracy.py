"""Accuracy of the sparse estimators on real data, private and not, beside scikit-learn and diffprivlib.

Held-out rows (80/20), defaults only, delta = 1e-6: the area under the ROC curve, mean and standard error over splits. Rows
of Colonnade see raw values clipped to ±1, and rows of diffprivlib (only where it is installed, and only up to 20,000 columns)
see rows of norm 1, which is its data_norm; scikit-learn is not private and has its default ridge penalty.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.timing import data_folder
from colonnade.estimators import SparseClassifier

EPSILONS = (math.inf, 8.0, 1.0, 0.1)
QUICK = ("rcv1", "a9a")
FULL = ("rcv1", "a9a", "dorothea", "diabetes130", "gisette-valid", "news20-bigram")
DENSEST = 20_000  # columns that diffprivlib's dense rows may have


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

        yield "colonnade, certified", SparseClassifier(radius=200.0), X
        yield "scikit-learn", LogisticRegression(max_iter=300), X
        return
    yield "colonnade", SparseClassifier(epsilon=epsilon, delta=1e-6, classes=[-1, 1]), X
    private = {"epsilon": epsilon, "delta": 1e-6, "classes": [-1, 1]}
    yield "colonnade, 2,000 columns", SparseClassifier(**private, max_features=2000), X
    yield "colonnade, Frank-Wolfe", SparseClassifier(**private, method="frank-wolfe"), X
    try:
        from diffprivlib.models import LogisticRegression as Diffprivlib
    except ImportError:
        return
    if X.shape[1] <= DENSEST:
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).reshape(-1, 1)
        unit = X.toarray() / np.where(lengths > 0, lengths, 1.0)
        yield "diffprivlib (delta = 0)", Diffprivlib(epsilon=epsilon, data_norm=1.0), unit


def splits(rows: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed in range(count):
        order = np.random.default_rng(1000 + seed).permutation(rows)
        yield order[: int(0.8 * rows)], order[int(0.8 * rows) :]


def table(name: str, folder: Path, count: int) -> None:
    from sklearn.metrics import roc_auc_score

    X, y = load(name, folder)
    print(f"{name}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} nonzeros, {(y > 0).mean():.0%} positive, {count} splits")
    for epsilon in EPSILONS:
        for label, model, rows in models(epsilon, X):
            found, used, began = [], [], time.perf_counter()
            for train, test in splits(len(y), count):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(rows[train], y[train])
                found.append(roc_auc_score(y[test], model.decision_function(rows[test])))
                used.append(np.count_nonzero(model.coef_))
            error = np.std(found, ddof=1) / math.sqrt(count)
            seconds = (time.perf_counter() - began) / count
            print(
                f"  epsilon {epsilon:>4g}  {label:28} AUC {np.mean(found):.4f} ± {error:.4f}  "
                f"{np.mean(used):>9,.0f} columns  {seconds:6.1f} s a fit",
                flush=True,
            )


def main(quick: bool = True) -> int:
    for name in QUICK if quick else FULL:
        folder = data_folder(name)
        if folder is not None:
            table(name, folder, 2 if quick else 10)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
