"""Curves by default against `smooth=False`, on tables that are drawn anew for every run: where do curves lose?

Straight truths, thresholds, valleys, heavy tails, irrelevant columns, whole numbers with few values, correlated columns,
columns that go with levels; classes and numbers; 500 to 60,000 rows. Releases are simulated as in benchmarks/gram.py,
models are judged on 10,000 rows of the same truth, and printed is what curves add to AUC or R², with its standard error
over draws. A cell is LOST where curves are more than .003 of AUC or .01 of R² below lines by more than two such errors.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy import sparse

from benchmarks.curves import NUMBERS, PARTIES
from benchmarks.gram import DELTA, PROBLEM, Dataset, Release, _dataset, auc
from colonnade.data.schema.columns import Binary, Categorical, Numeric
from colonnade.data.schema.table import Schema
from colonnade.methods.gram.rule import Gram, GramRule, RowFrame, survival
from colonnade.privacy.accountant import rho_for

EPSILONS = (1.0, 4.0)
JUDGED = 10_000  # rows
MOST = {True: 0.003, False: 0.01}  # AUC, and R², that curves may be below lines

Columns = dict[str, np.ndarray]
Truth = Callable[[np.random.Generator, int], tuple[Columns, np.ndarray]]


@dataclass(frozen=True)
class Kind:
    """A table of the battery: how to draw rows and their scores, and how labels follow from scores."""

    name: str
    rows: int
    draw: Truth
    classes: bool = True
    noise: float = 1.0  # sd of a number's label around its score; scores have sd 1
    wide: bool = True  # bounds far beyond the data, else at the 1st and 99th of 100 values

    def table(self, rng: np.random.Generator) -> tuple[Dataset, float]:
        """Rows to learn from, then JUDGED more; and the bound of labels."""
        columns, score = self.draw(rng, self.rows + JUDGED)
        score = (score - score.mean()) / score.std()
        if self.classes:
            y, bound = np.where(rng.random(score.size) < 1 / (1 + np.exp(-1.5 * score)), 1.0, -1.0), 1.0
        else:
            y, bound = score + self.noise * rng.normal(size=score.size), 4.0 * math.hypot(1.0, self.noise)
            y = np.clip(y, -bound, bound)
        names, schemas, blocks = list(columns), {}, []
        for party, part in zip(PARTIES, np.array_split(rng.permutation(len(names)), len(PARTIES)), strict=True):
            mine = {names[j]: columns[names[j]] for j in sorted(part)}
            schema = Schema(tuple(self.declared(name, x) for name, x in mine.items()))
            schemas[party] = replace(schema, row_norm=schema.row_bound())
            blocks.append(schemas[party].encode(pl.DataFrame(mine)).matrix)
        return _dataset(blocks, y, schemas, {"label": PARTIES[0]}, None), bound

    def declared(self, name: str, x: np.ndarray) -> Binary | Categorical | Numeric:
        if x.dtype.kind == "U":
            return Categorical(name, tuple(sorted(set(x.tolist()))))
        if set(np.unique(x).tolist()) <= {0.0, 1.0}:
            return Binary(name)
        low, high = (x.min(), x.max()) if self.wide else np.quantile(x, (0.01, 0.99))
        room = 0.1 * (high - low) if self.wide else 0.0
        return Numeric(name, float(low - room), float(high + room))


def some(rng: np.random.Generator, rows: int, count: int) -> np.ndarray:
    return rng.normal(size=(rows, count))


def named(X: np.ndarray, first: str = "x") -> Columns:
    return {f"{first}{j}": X[:, j] for j in range(X.shape[1])}


def straight(count: int, says: int, flags: int = 0) -> Truth:
    def draw(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
        X, B = some(rng, rows, count), (rng.random((rows, flags)) < rng.random(flags)).astype(float)
        score = X[:, :says] @ rng.normal(size=says) + B @ rng.normal(size=flags)
        return named(X) | named(B, "flag"), score

    return draw


def thresholds(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = rng.uniform(size=(rows, 10))
    return named(X), (X[:, :4] > rng.uniform(0.2, 0.8, 4)) @ rng.choice([-1.0, 1.0], 4)


def valleys(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = some(rng, rows, 12)
    return named(X), np.square(X[:, :4]) @ rng.uniform(0.3, 1.0, 4) + X[:, 4:8] @ rng.normal(size=4)


def tails(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = np.exp(1.2 * some(rng, rows, 12))
    return named(X), np.log(X[:, :6]) @ rng.normal(size=6)


def straight_tails(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = rng.standard_t(4, size=(rows, 12))
    return named(X), X[:, :8] @ rng.normal(size=8)


def few_values(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = np.column_stack([rng.binomial(m, 0.4, rows) for m in (2, 3, 4, 5, 6, 8, 10, 12)]).astype(float)
    return named(X), X / X.std(axis=0) @ rng.normal(size=8)


def correlated(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X = some(rng, rows, 15) + 2.0 * some(rng, rows, 3).repeat(5, axis=1)
    return named(X), X @ rng.normal(size=15)


def with_levels(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    """Numbers whose means go with a level, and a truth that is straight in numbers and free in levels."""
    level = rng.integers(0, 12, rows)
    X = some(rng, rows, 8) + rng.normal(size=(12, 8))[level]
    return named(X) | {"level": np.array([f"l{k:02}" for k in level])}, X @ rng.normal(size=8) + some(rng, 12, 1)[
        level, 0
    ]


def waves(rng: np.random.Generator, rows: int) -> tuple[Columns, np.ndarray]:
    X, B = rng.uniform(-1, 1, size=(rows, 10)), (rng.random((rows, 20)) < 0.3).astype(float)
    score = np.sin(4 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2:6] @ rng.normal(size=4) + 0.5 * B @ rng.normal(size=20)
    return named(X) | named(B, "flag"), score


BATTERY = (
    Kind("straight", 500, straight(8, 8, 2)),
    Kind("straight, few say", 2_000, straight(15, 3)),
    Kind("thresholds", 2_000, thresholds),
    Kind("few values", 2_000, few_values),
    Kind("valleys", 10_000, valleys),
    Kind("heavy tails", 10_000, tails, wide=False),
    Kind("irrelevant columns", 10_000, straight(60, 6)),
    Kind("correlated", 10_000, correlated, wide=False),
    Kind("with levels", 10_000, with_levels),
    Kind("straight", 60_000, straight(25, 25, 15)),
    Kind("waves", 60_000, waves),
    Kind("straight", 500, straight(6, 6), classes=False),
    Kind("close and straight", 500, straight(6, 6), classes=False, noise=0.2),
    Kind("straight, few say", 2_000, straight(15, 3), classes=False),
    Kind("close and correlated", 2_000, correlated, classes=False, noise=0.3),
    Kind("few values", 2_000, few_values, classes=False, noise=0.5),
    Kind("thresholds", 10_000, thresholds, classes=False),
    Kind("valleys", 10_000, valleys, classes=False, wide=False),
    Kind("irrelevant columns", 10_000, straight(60, 6), classes=False),
    Kind("with levels", 10_000, with_levels, classes=False, noise=0.5),
    Kind("heavy tails, straight", 10_000, straight_tails, classes=False),
    Kind("close, heavy tails", 30_000, straight_tails, classes=False, noise=0.1),
    Kind("heavy tails", 60_000, tails, classes=False),
    Kind("straight", 60_000, straight(25, 25, 15), classes=False, noise=0.5),
    Kind("waves", 60_000, waves, classes=False),
)


class Louder(Release):
    """A release whose Gram has so many times the noise."""

    times = 1.0

    def gram(self, frame: RowFrame, rule: GramRule, rho: float, rng: np.random.Generator) -> Gram:
        return super().gram(frame, rule, rho / self.times**2, rng)


def judged(kind: Kind, data: Dataset, bound: float, epsilon: float, seed: list[int], times: float = 1.0) -> float:
    """AUC or R² of one simulated run; `times` the noise of its Gram."""
    data = data.with_curve_depth(data.depth(kind.rows, epsilon))
    rows = data.matrix[: kind.rows]
    release = Louder(sparse.csr_array(rows), data.y[: kind.rows], data.columns, data.label, bound)
    release.times = times
    _, solved = release.fit(PROBLEM if kind.classes else NUMBERS, epsilon, np.random.default_rng(seed))
    y, scores = data.y[kind.rows :], data.matrix[kind.rows :] @ solved.coefficients + solved.intercept
    return auc(y, scores) if kind.classes else 1.0 - float(np.mean(np.square(y - scores)) / np.var(y))


def cell(kind: Kind, epsilon: float, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """What curves and what lines reach, by draw of table and noise."""
    found = np.zeros((2, draws))
    for draw in range(draws):
        seed = [zlib.crc32(f"{kind.name} {kind.rows} {kind.classes}".encode()), draw]
        data, bound = kind.table(np.random.default_rng(seed))
        flat = replace(data, schemas={party: schema.as_lines() for party, schema in data.schemas.items()})
        found[0, draw] = judged(kind, data, bound, epsilon, [*seed, 1])
        found[1, draw] = judged(kind, flat, bound, epsilon, [*seed, 1])
    return found[0], found[1]


def compare(kind: Kind, draws: int) -> int:
    """Print one table's line; how many of its cells are lost."""
    cells, lost = [], 0
    for epsilon in EPSILONS:
        curves, lines = cell(kind, epsilon, draws)
        apart = curves - lines
        error = float(apart.std(ddof=1)) / math.sqrt(draws)
        worse = apart.mean() < -MOST[kind.classes] - 2.0 * error
        lost += worse
        depth = kind.table(np.random.default_rng(0))[0].depth(kind.rows, epsilon)
        cells.append(
            f"epsilon {epsilon:g}: {lines.mean():.3f} {apart.mean():+.4f} ± {error:.4f}"
            f" (depth {depth}{', LOST' if worse else ''})"
        )
    print(
        f"  {'classes' if kind.classes else 'numbers'} {kind.rows:>6,} {kind.name:<22} {'   '.join(cells)}", flush=True
    )
    return lost


def price(kind: Kind, epsilon: float, draws: int, more: tuple[float, ...] = (0.02, 0.05, 0.15, 0.5)) -> None:
    """Print what lines lose where the noise of the Gram is 1 + h times as large, the same draws of it at every h."""
    found = np.zeros((draws, 1 + len(more)))
    for draw in range(draws):
        seed = [zlib.crc32(f"{kind.name} {kind.rows} {kind.classes}".encode()), draw]
        data, bound = kind.table(np.random.default_rng(seed))
        flat = replace(data, schemas={party: schema.as_lines() for party, schema in data.schemas.items()})
        found[draw] = [judged(kind, flat, bound, epsilon, [*seed, 1], 1.0 + h) for h in (0.0, *more)]
    lost = (found[:, 1:] - found[:, :1]).mean(axis=0)
    lines, survives = data.columns.owner.size, survival(kind.rows, 1, rho_for(epsilon, DELTA))
    told = "  ".join(f"h {h:g}: {x:+.4f}" for h, x in zip(more, lost, strict=True))
    print(f"  {'classes' if kind.classes else 'numbers'} {kind.rows:>6,} {kind.name:<22} epsilon {epsilon:g}", end="")
    print(f": N {survives:.0f}, L {lines}: {found[:, 0].mean():.3f}  {told}", flush=True)


def main(quick: bool = True) -> int:
    # The fewer rows, the more a draw varies and the less it takes.
    chosen = [kind for kind in BATTERY if kind.rows <= 2_000] if quick else BATTERY
    print("AUC or R² of lines, and what curves add; tables drawn anew for each run, releases simulated")
    lost = sum(compare(kind, 20 if quick else max(20, min(200, 400_000 // kind.rows))) for kind in chosen)
    print(f"  lost: {lost} of {len(chosen) * len(EPSILONS)}")
    print("what lines lose with 1 + h times the noise")
    for kind in chosen if not quick else ():
        for epsilon in EPSILONS:
            price(kind, epsilon, max(10, min(40, 100_000 // kind.rows)))
    return 0 if quick else int(lost > 0)


if __name__ == "__main__":
    raise SystemExit(main())
