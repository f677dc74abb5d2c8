"""A folder with two parties' tables and a run's configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as co
from colonnade.cli.init import DataKind, template

CLINIC = co.Schema((co.Numeric("age", 0, 120), co.Categorical("ward", ("surgery", "medicine"))))
LAB = co.Schema((co.Numeric("crp", 0, 300),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tables and schemas that the files of `colonnade init` name."""
    rng, n = np.random.default_rng(0), 300
    pid = [f"P{i:04}" for i in range(n)]
    age, crp = rng.uniform(18, 95, n), rng.exponential(20, n)
    ward = rng.choice(["surgery", "medicine"], n)
    back = (age / 95 + crp / 60 + rng.normal(0, 0.4, n) > 1.0).astype(int)
    stays = pl.DataFrame({"pid": pid, "age": age, "ward": ward, "crp": crp, "readmitted": back})
    stays.write_csv(tmp_path / "stays.csv")
    stays.drop("crp").write_csv(tmp_path / "clinic.csv")
    stays.select("pid", "crp").sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "laboratory.csv")
    CLINIC.to_toml(tmp_path / "clinic.schema.toml")
    LAB.to_toml(tmp_path / "laboratory.schema.toml")
    co.Schema(CLINIC.columns + LAB.columns).to_toml(tmp_path / "stays.schema.toml")
    return tmp_path


def config(folder: Path, kind: DataKind = DataKind.FEDERATION, *changes: tuple[str, str]) -> Path:
    """The file of `colonnade init` with some of its lines changed; without a report, which is tested elsewhere."""
    text = template(kind).replace('report = "report.html"', "")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path
