"""What a new column kind and a new loss must serve for, in a process of its own: fit, save, load, predict, score, report.

    python -m tests.helpers.with_a_new_value column|loss FOLDER

The process finds a copy of the package to which a recipe of CONTRIBUTING.md was applied, and nothing else.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.data.schema.column import Column
from colonnade.data.schema.table import Schema
from colonnade.runs.config import known_parts, read_job

ROWS = 300
RIDGE = 0.01
ADDED: Any = co  # the copy's package has what a recipe adds; the one that mypy reads has not


def tables(rows: int, seed: int) -> dict[str, pl.DataFrame]:
    """When somebody was seen, at one party; what was measured and what it led to, at another, in another order."""
    rng = np.random.default_rng(seed)
    hour, level = rng.uniform(0.0, 24.0, rows), rng.uniform(-1.0, 1.0, rows)
    y = 1.0 + 2.0 * np.cos(2.0 * np.pi * (hour - 6.0) / 24.0) + level + rng.exponential(0.3, rows)
    key = {"id": np.arange(rows)}
    return {
        "desk": pl.DataFrame({**key, "hour": hour}),
        "laboratory": pl.DataFrame({**key, "level": level, "y": y}).reverse(),
    }


def federation(hour: Column) -> co.Federation:
    schemas = {"desk": co.Schema((hour,)), "laboratory": co.Schema((co.Numeric("level", -1, 1),))}
    return co.Federation.from_frames(tables(ROWS, 1), on="id", label=("laboratory", "y"), schemas=schemas)


def kept(fit: co.Fit, folder: Path, rows: dict[str, pl.DataFrame]) -> co.Fit:
    """The fit from its file; it says the same, of the same problem and schemas."""
    fit.save(folder / "fit.json")
    again = co.load(folder / "fit.json")
    again.save(folder / "again.json")
    assert (folder / "again.json").read_bytes() == (folder / "fit.json").read_bytes()
    assert (again.problem, again.schemas) == (fit.problem, fit.schemas)
    assert again.predict(rows).tolist() == fit.predict(rows).tolist()
    labels = rows["laboratory"].sort("id")["y"].to_numpy()
    again.report(folder / "report.html", evaluation=(rows, labels), evaluation_is="public")
    assert (folder / "report.html").stat().st_size > 0
    return again


def best(features: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted least squares with a ridge on all but the last, the constant, by its normal equations."""
    design = np.column_stack([features, np.ones(len(y))])
    bent = RIDGE * len(y) * np.diag([1.0] * features.shape[1] + [0.0])
    return np.linalg.solve(design.T @ (weight[:, None] * design) + bent, design.T @ (weight * y))


def near(fit: co.Fit, reference: np.ndarray) -> None:
    """Whether coefficients are those of the reference: a gap of g leaves the ridge's objective a distance of √(2g/a)."""
    found = np.concatenate([fit.coefficients["desk"], fit.coefficients["laboratory"]])
    assert fit.gap is not None
    assert np.linalg.norm(found - reference[:-1]) <= math.sqrt(2.0 * max(fit.gap, 1e-15) / RIDGE)


def column(folder: Path) -> None:
    hour = ADDED.Cycle("hour", 24)
    schema = co.Schema((hour,))
    assert Schema.from_text(schema.to_text()) == schema
    assert schema.features == ("hour.cos", "hour.sin")
    with pytest.raises(co.InvalidInput, match="'period' is absent"):
        Schema.from_text('[[column]]\ntype = "cycle"\nname = "hour"\n')

    fed, new = federation(hour), tables(40, 2)
    fit = co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(RIDGE), intercept=True))
    rows = tables(ROWS, 1)
    angle, other = 2.0 * np.pi * rows["desk"]["hour"].to_numpy() / 24.0, rows["laboratory"].sort("id")
    features = np.column_stack([np.cos(angle), np.sin(angle), other["level"].to_numpy()])
    near(fit, best(features, other["y"].to_numpy(), np.ones(ROWS)))
    again = kept(fit, folder, new)
    assert set(again.explain(new).of("desk")) == {"hour"}
    day_later = {**new, "desk": new["desk"].with_columns(pl.col("hour") + 24.0)}
    assert np.allclose(again.scores(day_later), again.scores(new), rtol=0.0, atol=1e-12)

    terms = co.Privacy(epsilon=1.0, delta=1e-6, label_range=(-3, 6))
    private = co.fit(fed, co.Problem(co.LeastSquares(), penalty=co.Ridge(RIDGE)), privacy=terms, store=folder / "runs")
    assert private.privacy.epsilon <= 1.0
    assert np.isfinite(kept(private, folder, new).scores(new)).all()


def loss(folder: Path) -> None:
    q, fed, new = 0.8, federation(co.Numeric("hour", 0, 24)), tables(40, 2)
    problem = co.Problem(ADDED.Expectile(q), penalty=co.Ridge(RIDGE), intercept=True)
    fit = co.fit(fed, problem)
    rows = tables(ROWS, 1)
    other = rows["laboratory"].sort("id")
    features = np.column_stack([rows["desk"]["hour"].to_numpy() / 12.0 - 1.0, other["level"].to_numpy()])
    y, weight = other["y"].to_numpy(), np.ones(ROWS)
    while True:  # least squares with weights by the side on which each row lies, until no row changes sides
        reference = best(features, y, weight)
        sides = np.where(features @ reference[:-1] + reference[-1] < y, q, 1.0 - q)
        if (sides == weight).all():
            break
        weight = sides
    near(fit, reference)
    again = kept(fit, folder, new)
    assert again.predict(new).tolist() == again.scores(new).tolist()

    bounded = co.Problem(ADDED.Expectile(q), co.L1Ball(2.0), intercept=True)
    assert co.fit(fed, bounded, method=co.DistributedFrankWolfe(rounds=20)).gap is not None
    asked = read_job(
        '[problem]\nloss = { type = "Expectile", q = 0.8 }\npenalty = { type = "Ridge", a = 0.01 }\n', "job"
    )
    assert asked.problem.loss == ADDED.Expectile(q)
    assert "Expectile" in known_parts("loss")  # from which docs/generate.py writes what a job file may hold
    terms = co.Privacy(epsilon=1.0, delta=1e-6, label_range=(-3, 6))
    with pytest.raises(co.InvalidInput, match="solves LeastSquares"):
        co.fit(fed, problem, privacy=terms, store=folder / "runs")


if __name__ == "__main__":
    {"column": column, "loss": loss}[sys.argv[1]](Path(sys.argv[2]))
