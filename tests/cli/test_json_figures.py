"""Every figure that a command prints as JSON, worked out again: from the data, the coefficients, and the letters on the wires.

Nothing is read back from the fit but its coefficients and intercept. Losses, gaps, counts and the price are written by hand.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.cli.init import DataKind
from tests.helpers.run_folder import (
    CLINIC,
    LAB,
    config,
    folder,  # noqa: F401
)

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

RADIUS = 5.0


def printed(*words: object) -> dict:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def epsilon_of(rho: float, delta: float) -> float:
    """The least over orders a of aρ + ln(1/(aδ))/(a − 1) + ln(1 − 1/a)."""

    def at(log: float) -> float:
        a = 1.0 + np.exp(log)
        return a * rho - np.log(a * delta) / (a - 1.0) + np.log1p(-1.0 / a)

    return float(minimize_scalar(at, bounds=(-8.0, 12.0), method="bounded", options={"xatol": 1e-9}).fun)


def priced(epsilon: float, rho: float, delta: float) -> bool:
    """Never less than what rho costs, and hardly more: the accountant takes the best of finitely many orders."""
    least = epsilon_of(rho, delta)
    return least * (1 - 1e-9) <= epsilon <= least * (1 + 1e-4)


# ---------------------------------------------------------------- colonnade sparse


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = np.where(rng.random((120, 9)) < 0.4, rng.uniform(0.1, 0.9, (120, 9)), 0.0).round(3)
    X[0, 8] = 0.5  # the last column is in the file
    y = np.where(X[:, 2] - X[:, 5] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    lines = [
        f"{int(b)} " + " ".join(f"{j + 1}:{a}" for j, a in enumerate(row) if a) for row, b in zip(X, y, strict=True)
    ]
    (tmp_path / "train.svm").write_text("\n".join(lines) + "\n")
    return tmp_path / "train.svm", X, y


def read_model(path: Path, columns: int) -> tuple[np.ndarray, float]:
    model = json.loads(path.read_text())
    x = np.zeros(columns)
    x[model["coefficients"][0]["places"]] = model["coefficients"][0]["values"]
    return x, float(model["intercept"][0])


@pytest.mark.slow
def test_a_fit_of_a_file_prints_the_figures_of_its_file_and_its_model(table, tmp_path):
    path, X, y = table
    told = printed("sparse", path, "--radius", RADIUS, "--rounds", 30, "--output", tmp_path / "m.json")
    x, b = read_model(tmp_path / "m.json", 9)
    scores = X @ x + b
    gradient = X.T @ (-y / (1.0 + np.exp(y * scores)) / 120)
    assert told == {
        "rows": 120,
        "columns": 9,
        "stored entries": np.count_nonzero(X),
        "objective": pytest.approx(np.mean(np.log1p(np.exp(-y * scores))), rel=1e-9),
        "gap": pytest.approx(x @ gradient + RADIUS * np.abs(gradient).max(), rel=1e-6),
        "columns used": np.count_nonzero(x),
        "model": str(tmp_path / "m.json"),
    }


@pytest.mark.chance(0, "prices, shapes, and the count of the columns that the written model has")
def test_a_private_fit_of_a_file_prints_nothing_that_was_not_released(table, tmp_path):
    path, *_ = table
    private = ["--epsilon", 0.7, "--delta", 1e-5, "--classes=-1,1", "--columns", 9, "--ledger", tmp_path / "l"]
    told = printed("sparse", path, *private, "--output", tmp_path / "m.json")
    x, _ = read_model(tmp_path / "m.json", 9)
    assert set(told) == {"rows", "columns", "privacy", "columns used", "model"}
    assert (told["rows"], told["columns"], told["columns used"]) == (120, 9, np.count_nonzero(x))
    assert told["privacy"].startswith("(0.7, 1e-05)-differential privacy for one row")
    (rho,) = re.findall(r"has 1 fit, rho (\S+) in all, epsilon 0.7 at delta 1e-05", told["privacy"])
    assert epsilon_of(float(rho), 1e-5) == pytest.approx(0.7, rel=1e-3)  # printed to four digits
    exact = json.loads((tmp_path / "m.json").read_text())["privacy"]["rho"]
    assert priced(0.7, exact, 1e-5)
    assert f"{exact:.4g}" == rho


# ---------------------------------------------------------------- colonnade fit CONFIG.toml


@pytest.mark.chance(1e-30, "a ring is off by two bits where a noisy length is off by 20 sds; it has a floor of 8 sds")
def test_a_configured_fit_prints_what_went_over_the_wires_and_its_plan_foretold_it(folder, monkeypatch):  # noqa: F811
    taps: list[co.Tap] = []

    def tapped() -> co.Tap:
        taps.append(co.Tap(co.InProcess()))
        return taps[-1]

    path = config(folder, DataKind.FEDERATION)
    plan = printed("fit", path, "--dry-run")
    monkeypatch.setattr(importlib.import_module("colonnade.runs.fit"), "InProcess", tapped)
    told = printed("fit", path)
    letters = taps[-1].letters
    size = sum(len(letter.body) for letter in letters)
    assert told["sent"] == f"{size:,} bytes in {len(letters):,} messages"
    assert told["rows"].startswith("300 ")
    # The rings of the second exchange follow from noisy sums: a column may take a bit more or less than it was foretold.
    bit, columns = -(-plan["rows"] // 8), CLINIC.width + LAB.width + 1
    assert plan["rows"] == 300
    assert abs(plan["bytes"] - size) <= columns * bit
    joint = {line["what"]: line["rho"] for line in plan["leaves"] if line["rho"]}  # one mechanism of all parties each
    assert plan["rho"] == pytest.approx(sum(joint.values()), rel=1e-12)
    assert priced(plan["epsilon"], plan["rho"], plan["delta"])
    assert (plan["epsilon"], plan["delta"]) == (pytest.approx(1.0, rel=1e-6), 1e-6)
