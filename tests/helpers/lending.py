"""A lender's tables of two parties with columns of every kind, gaps and strange values among them; and models of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl

import colonnade as co

SCHEMAS = {
    "bank": co.Schema(
        (
            co.Numeric("age", 18, 90, smooth=3),
            co.Categorical("region", ("north", "south", "1.0"), missing="indicator"),
            co.Date("since", dt.date(2000, 1, 1), dt.date(2020, 1, 1), parts=("month",), missing="indicator"),
        )
    ),
    "bureau": co.Schema(
        (
            co.Numeric("income", 0, 200_000, missing="indicator"),
            co.Numeric("loans", 0, 20, scale=False, missing=2.0),
            co.Binary("owner", missing="indicator"),
        )
    ),
}
PROBLEM = co.Problem(co.Logistic(), co.L1Ball(20.0), intercept=True)


def tables(rows: int = 600, seed: int = 0) -> dict[str, pl.DataFrame]:
    """With gaps, values beyond the bounds and unknown levels."""
    rng = np.random.default_rng(seed)
    age, income = rng.uniform(10, 100, rows), rng.gamma(2.0, 20_000, rows)
    region = rng.choice(["north", "south", "1.0", "moon"], rows)
    owner, loans = rng.integers(0, 2, rows).astype(float), rng.integers(0, 25, rows).astype(float)
    days = [dt.date(1999, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 8500, rows)]
    s = 0.03 * (age - 60) + 0.9 * (region == "north") - 0.8 * owner - income / 50_000 + 0.05 * loans
    default = (rng.random(rows) < 1.0 / (1.0 + np.exp(-s))).astype(int)
    gap = {name: rng.random(rows) < 0.1 for name in ("region", "since", "income", "loans", "owner")}
    key = [f"k{k}" for k in rng.permutation(rows)]

    def holed(name: str, values: Any) -> list[Any]:
        return [None if hole else value for hole, value in zip(gap[name], list(values), strict=True)]

    bank = {"id": key, "age": age, "region": holed("region", region.tolist()), "since": holed("since", days)}
    bureau = {"id": key, "income": holed("income", income.tolist()), "loans": holed("loans", loans.tolist())}
    return {
        "bank": pl.DataFrame(bank | {"default": default}),
        "bureau": pl.DataFrame(bureau | {"owner": holed("owner", owner.tolist())}).sample(
            fraction=1.0, shuffle=True, seed=1
        ),
    }


def exact_fit(rows: int = 600) -> co.Fit:
    """Without noise: many rounds, so that every column has its say."""
    fed = co.Federation.from_frames(tables(rows), on="id", label=("bank", "default"), schemas=SCHEMAS)
    return co.fit(fed, PROBLEM, co.DistributedFrankWolfe(rounds=60))


def side_by_side(frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return frames["bank"].join(frames["bureau"], on="id", maintain_order="left")
