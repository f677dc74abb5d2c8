"""Curves against lines in Private Gram, on tables that nobody holds: straight ones, bent ones, skewed ones, rare classes.

Every table is made by a generator of scikit-learn or of this file, or comes with scikit-learn; it is split between three
parties, bounds are its range and a little more, or two standard deviations. Releases are simulated as in benchmarks/gram.py.
What is printed is the area under the ROC curve for classes and R² for numbers, of lines, and by how much curves are
better or worse, with the standard error of that difference over splits and draws of noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn import datasets

from benchmarks.gram import PROBLEM, Dataset, Release, _dataset, auc, splits
from colonnade.data.schema.columns import Binary, Numeric
from colonnade.data.schema.table import Schema
from colonnade.problem import LeastSquares, Problem

EPSILONS = (0.1, 1.0, 4.0)
NUMBERS = Problem(LeastSquares(), intercept=True)
PARTIES = ("first", "second", "third")


@dataclass(frozen=True)
class Table:
    """A data set, and the bound of its labels; None: they are classes."""

    data: Dataset
    bound: float | None = None

    def lines(self) -> Table:
        schemas = {party: schema.as_lines() for party, schema in self.data.schemas.items()}
        return replace(self, data=replace(self.data, schemas=schemas))


def made(X: np.ndarray, y: np.ndarray, *, wide: bool = True, numbers: bool = False) -> Table:
    """A table between parties; bounds are its range and a tenth (`wide`), or two standard deviations."""
    X = np.asarray(X, float)[:, np.random.default_rng(0).permutation(X.shape[1])]
    parts, schemas, blocks = np.array_split(np.arange(X.shape[1]), min(len(PARTIES), X.shape[1])), {}, []
    for party, places in zip(PARTIES, parts, strict=False):
        columns = []
        for j in places:
            x, name = X[:, j], f"x{j}"
            low, high = float(x.min()), float(x.max())
            room = 0.05 * (high - low) or 1.0
            if not wide:
                low, high, room = float(x.mean() - 2 * x.std()), float(x.mean() + 2 * x.std()), float(x.std() == 0)
            columns.append(Binary(name) if set(np.unique(x)) <= {0.0, 1.0} else Numeric(name, low - room, high + room))
        schemas[party] = Schema(tuple(columns))
        schemas[party] = replace(schemas[party], row_norm=schemas[party].row_bound())
        import polars as pl

        blocks.append(schemas[party].encode(pl.DataFrame({f"x{j}": X[:, j] for j in places})).matrix)
    told = {"label": PARTIES[0]}
    if not numbers:
        return Table(_dataset(blocks, np.where(y > 0, 1.0, -1.0), schemas, told, None))
    low, high = float(np.min(y)), float(np.max(y))
    bound = 0.6 * (high - low)
    return Table(_dataset(blocks, np.asarray(y, float) - (low + high) / 2, schemas, told, None), bound)


def logit(
    rows: int, numbers: int, flags: int, bent: bool, seed: int, rare: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Classes by a logistic model that is straight in all numbers, or has waves and valleys in some."""
    rng = np.random.default_rng(seed)
    X, B = rng.normal(size=(rows, numbers)), (rng.random((rows, flags)) < rng.random(flags)).astype(float)
    score = X @ rng.normal(size=numbers) / math.sqrt(numbers)
    if bent:
        waves = sum(np.sin(2 * X[:, j]) + (X[:, j] ** 2 - 1) / 2 for j in range(1, min(numbers, 8), 2))
        score = score / 2 + waves / 3
    score = 1.5 * score + B @ rng.normal(size=flags) / math.sqrt(max(flags, 1)) - rare
    return np.hstack([X, B]), rng.random(rows) < 1 / (1 + np.exp(-score))


def classes() -> Iterator[tuple[str, Table]]:
    yield (
        "clusters, 20,000",
        made(*datasets.make_classification(20_000, 20, n_informative=8, class_sep=0.7, random_state=1)),
    )
    small = datasets.make_classification(1_500, 15, n_informative=6, class_sep=0.7, flip_y=0.1, random_state=2)
    yield "clusters, 1,500", made(*small, wide=False)
    yield (
        "shells, 5,000",
        made(*datasets.make_gaussian_quantiles(n_samples=5_000, n_features=10, n_classes=2), wide=False),
    )
    yield "shells, 12,000", made(*datasets.make_hastie_10_2(12_000, random_state=0))
    yield "moons, 2,000", made(*datasets.make_moons(2_000, noise=0.3, random_state=0))
    yield "breast cancer, 569", made(*datasets.load_breast_cancer(return_X_y=True))
    digits, which = datasets.load_digits(return_X_y=True)
    yield "odd digits, 1,797", made(digits, which % 2)
    yield "straight, 60,000", made(*logit(60_000, 30, 20, False, 1))
    yield "straight, 8,000", made(*logit(8_000, 25, 0, False, 3))
    yield "straight, 2,000", made(*logit(2_000, 12, 4, False, 2), wide=False)
    yield "bent, 40,000", made(*logit(40_000, 16, 10, True, 6), wide=False)
    yield "bent, 4,000", made(*logit(4_000, 10, 10, True, 5))
    yield "bent and rare, 30,000", made(*logit(30_000, 12, 8, True, 4, rare=3.5))
    rng = np.random.default_rng(8)
    X = rng.gamma(1.0, size=(30_000, 10))
    score = 2 * np.log1p(X[:, 0]) + 2 * np.minimum(X[:, 2], 1) - X[:, 3] / 2 - 2
    yield "skewed, 30,000", made(X, rng.random(30_000) < 1 / (1 + np.exp(-score)))


def numbers() -> Iterator[tuple[str, Table]]:
    yield "Friedman 1, 10,000", made(*datasets.make_friedman1(10_000, 10, noise=1.0, random_state=0), numbers=True)
    yield "Friedman 2, 5,000", made(*datasets.make_friedman2(5_000, noise=50.0, random_state=0), numbers=True)
    yield "Friedman 3, 3,000", made(*datasets.make_friedman3(3_000, noise=0.1, random_state=0), numbers=True)
    yield "diabetes, 442", made(*datasets.load_diabetes(return_X_y=True), numbers=True)
    straight = datasets.make_regression(20_000, 30, n_informative=10, noise=80.0, random_state=0)
    yield "straight, 20,000", made(*straight, numbers=True)
    close = datasets.make_regression(20_000, 12, n_informative=8, noise=20.0, random_state=3)
    yield "straight and close, 20,000", made(*close, wide=False, numbers=True)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50_000, 12))
    bent = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2] + 2 * np.exp(-(X[:, 3] ** 2)) + 0.5 * rng.normal(size=50_000)
    yield "bent, 50,000", made(X, bent, wide=False, numbers=True)
    X = rng.gamma(1.0, size=(30_000, 10))
    skewed = (
        2 * np.log1p(X[:, 0]) + 0.3 * X[:, 1] + 2 * np.minimum(X[:, 2], 1) + X[:, 3] + 0.7 * rng.normal(size=30_000)
    )
    yield "skewed, 30,000", made(X, skewed, numbers=True)


def held_out(table: Table, train: np.ndarray, test: np.ndarray, epsilon: float, each: int, seed: int) -> list[float]:
    """AUC or R² on rows that simulated runs have not seen."""
    data = table.data.with_curve_depth(table.data.depth(train.size, epsilon))
    label, found = table.bound or 1.0, []
    release = Release(sparse.csr_array(data.matrix[train]), data.y[train], data.columns, data.label, label)
    for draw in range(each):
        rng = np.random.default_rng([seed, draw])
        _, solved = release.fit(PROBLEM if table.bound is None else NUMBERS, epsilon, rng)
        y, scores = data.y[test], data.matrix[test] @ solved.coefficients + solved.intercept
        found.append(auc(y, scores) if table.bound is None else 1 - float(np.mean((y - scores) ** 2) / np.var(y)))
    return found


def compare(name: str, table: Table, count: int, each: int) -> None:
    cells, flat = [], table.lines()
    for epsilon in EPSILONS:
        curves, lines = [], []
        for seed, (train, test) in enumerate(splits(table.data, count)):
            curves += held_out(table, train, test, epsilon, each, seed)
            lines += held_out(flat, train, test, epsilon, each, seed)
        depth = table.data.depth(int(0.8 * table.data.y.size), epsilon)
        apart = np.array(curves) - np.array(lines)
        error = apart.std(ddof=1) / math.sqrt(apart.size)
        cells.append(f"epsilon {epsilon:g}: {np.mean(lines):.3f} {apart.mean():+.4f} ± {error:.4f} (depth {depth})")
    print(f"  {name:<28}{'   '.join(cells)}", flush=True)


def main(quick: bool = True) -> int:
    count, each = (2, 2) if quick else (5, 8)
    for kind, tables, of in (("classes", classes(), "AUC"), ("numbers", numbers(), "R²")):
        print(f"{kind}: {of} of lines, and what curves add; {count} splits, {each} runs each, simulated")
        for name, table in tables:
            if not quick or table.data.y.size <= 12_000:
                compare(name, table, count, each)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
