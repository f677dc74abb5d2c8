"""Exact fits whose every figure has a closed form: three parties with numbers, levels and flags on a grid of whole steps.

Nothing is rounded on the way, so that what a release says is what statsmodels says of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import colonnade as co

ROWS = 400
METHOD = co.PrivateGram(purpose="inference")
NUMBERS = co.Problem(co.LeastSquares(), intercept=True)
CLASSES = co.Problem(co.Logistic(), intercept=True)
Frames = Mapping[str, pl.DataFrame]
SCHEMAS = {
    "a": co.Schema((co.Numeric("x0", -4, 4), co.Binary("flag"))),
    "b": co.Schema((co.Numeric("x1", 0, 16), co.Categorical("level", ("a", "b", "c")))),
    "c": co.Schema((co.Numeric("x2", -2, 6),)),
}


def tables(rows: int = ROWS, seed: int = 1) -> dict[str, pl.DataFrame]:
    """Columns that go with each other, and `y` by all but x2; `won` is whether y is above 1."""
    rng = np.random.default_rng(seed)

    def number(values: np.ndarray, low: float, high: float) -> np.ndarray:
        return np.asarray(np.rint(np.clip(values, low, high) * 2.0**10) / 2.0**10)

    x0 = number(rng.normal(size=rows), -4, 4)
    x1 = number(8 + 2 * x0 + 2 * rng.normal(size=rows), 0, 16)
    x2 = number(2 + rng.normal(size=rows), -2, 6)
    level, flag = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2]), (rng.random(rows) < 0.3).astype(int)
    y = number(0.5 * x0 + 0.1 * x1 + 0.6 * flag + 0.4 * (level == "c") + rng.normal(size=rows), -8, 8)
    key = {"id": np.arange(rows)}
    return {
        "a": pl.DataFrame({**key, "x0": x0, "flag": flag}),
        "b": pl.DataFrame({**key, "x1": x1, "level": level}),
        "c": pl.DataFrame({**key, "x2": x2, "y": y, "won": np.where(y > 1, 1, -1)}),
    }


def fitted(
    store: Path,
    problem: co.Problem = NUMBERS,
    frames: Frames | None = None,
    schemas: Mapping[str, co.Schema] | None = None,
) -> co.Fit:
    label = "won" if problem.loss.classifies else "y"
    frames = {name: frame.drop({"y", "won"} - {label}, strict=False) for name, frame in (frames or tables()).items()}
    fed = co.Federation.from_frames(frames, on="id", label=("c", label), schemas=schemas or SCHEMAS)
    return co.fit(fed, problem, METHOD, store=store)


def column(frames: Frames, name: str) -> np.ndarray:
    """A column of the tables, or whether it has a level: "x0", "level=b"."""
    base, _, level = name.rpartition(":")[2].partition("=")
    found = next(frame[base] for frame in frames.values() if base in frame.columns)
    return np.asarray(((found == level) if level else found).to_numpy(), float)


def design(frames: Frames, names: Iterable[str]) -> np.ndarray:
    """Columns in their own units, the constant last."""
    return np.column_stack([*(column(frames, name) for name in names), np.ones(len(frames["a"]))])


def noisy(release: co.Release, sd: float, seed: int = 0) -> co.Release:
    """The same with seeded noise: `sd` on the diagonal, less by a root of two beside it, none on the count of rows."""
    size = len(release.matrix)
    sds = np.full((size, size), sd / np.sqrt(2.0))
    np.fill_diagonal(sds, sd)
    sds[-2, -2] = 0.0
    upper = np.triu(np.random.default_rng(seed).normal(size=sds.shape) * sds)
    return replace(release, matrix=release.matrix + upper + np.triu(upper, 1).T, noise=sds)
