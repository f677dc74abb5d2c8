"""Files of three parties that know the same clients, as people have them: gaps, codes, dates, semicolons, a text label."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

OLD, NEW = 400, 100


def three_parties(folder: Path) -> None:
    """registry.csv, bank.csv (semicolons, another order, the label) and callcentre.csv; and new_*.csv of other clients."""
    for name, cells in _cells().items():
        (folder / f"{name}.csv").write_bytes(cells)


@cache
def _cells() -> dict[str, bytes]:
    rng, n = np.random.default_rng(0), OLD + NEW
    age, education = rng.integers(18, 90, n), rng.integers(1, 5, n)
    balance, housing = rng.normal(1500, 2000, n).round(2), rng.random(n) < 0.5
    duration, calls = rng.exponential(200, n).round(), rng.poisson(2, n)
    score = (age - 54) / 20 + balance / 2500 - housing + duration / 200 - 1.0 + rng.logistic(size=n)
    days = zip(rng.integers(1, 28, n), rng.integers(1, 13, n), rng.integers(2005, 2020, n), strict=True)
    key = pl.Series("client_id", [f"{i:06}" for i in range(n)])  # text, whose zeros count
    registry = pl.DataFrame(
        {
            "client_id": key,
            "age": age,
            "job": rng.choice(["admin", "worker", "retired", "student"], n),
            "education": education,
            "name": [f"N{i}" for i in range(n)],
        }
    )
    bank = pl.DataFrame(
        {
            "client_id": key,
            "balance": balance,
            "housing": housing,
            "opened": [f"{day:02}.{month:02}.{year}" for day, month, year in days],
            "subscribed": np.where(score > 0, "yes", "no"),
        }
    )
    gaps = pl.Series(rng.random(n) < 0.1)
    callcentre = pl.DataFrame({"client_id": key, "calls": calls, "duration": duration}).with_columns(
        calls=pl.when(gaps).then(None).otherwise("calls")
    )
    old_bank = bank.head(OLD).sample(fraction=1.0, shuffle=True, seed=1)
    return {
        "registry": _csv(registry.head(OLD)),
        "bank": _csv(old_bank, separator=";"),
        "callcentre": _csv(callcentre.head(OLD)),
        "new_registry": _csv(registry.tail(NEW)),
        "new_bank": _csv(bank.tail(NEW).drop("subscribed").reverse()),
        "new_callcentre": _csv(callcentre.tail(NEW)),
    }


def _csv(table: pl.DataFrame, separator: str = ",") -> bytes:
    written = io.BytesIO()
    table.write_csv(written, separator=separator)
    return written.getvalue()
