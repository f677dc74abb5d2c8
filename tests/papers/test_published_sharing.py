"""ADMM sharing and feature-wise SGD as published: they are what the paper prints, they cannot spend, and where they converge."""

from __future__ import annotations

import ast
from itertools import islice
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import colonnade as co
from papers.published import sharing_admm as published_admm
from papers.published.sharing_admm import FeatureSGD, ParallelSharing
from tests.helpers.reference import confident

pytestmark = pytest.mark.slow


def table(loss: Any, rows: int, columns: int, shared: float) -> tuple[Any, Any]:
    """Columns with a common factor; labels that the loss accepts."""
    rng = np.random.default_rng(0)
    X = np.sqrt(1 - shared) * rng.normal(size=(rows, columns)) + np.sqrt(shared) * rng.normal(size=(rows, 1))
    y = X @ (rng.normal(size=columns) * (rng.random(columns) < 0.6)) / np.sqrt(columns) + 0.3 * rng.normal(size=rows)
    return X, np.where(y > 0.1, 1.0, -1.0) if loss.classifies else y + 0.5


def test_nothing_published_knows_a_gate_or_a_ledger() -> None:
    tree = ast.parse(Path(published_admm.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in imported if module and module.startswith("colonnade")}
    assert ours == {"colonnade.errors", "colonnade.problem", "colonnade.problem.nearest"}


@pytest.mark.parametrize("value", [ParallelSharing(0.1, 1.0), FeatureSGD(0.1, 1.0)])
def test_a_fit_refuses_a_published_form(value: Any, tmp_path: Path) -> None:
    X, y = table(co.Logistic(), 60, 6, shared=0.5)
    privacy = co.Privacy(1.0, 1e-6, row_norm=2.0, label_bound=1.0)
    with pytest.raises(co.InvalidInput, match="is not a method"):
        co.fit(
            co.Federation.split(X, y, parties=3),
            co.Problem(co.Logistic(), penalty=co.Ridge(0.1)),
            value,
            privacy,
            store=tmp_path,
        )
    assert list(tmp_path.rglob("*.db")) == []


def test_the_published_epoch_is_equations_6_to_9() -> None:
    rng = np.random.default_rng(0)
    blocks, y = [rng.normal(size=(7, 2)), rng.normal(size=(7, 3))], rng.normal(size=7)
    lam, rho = 0.3, 0.7
    steps = ParallelSharing(lam, rho).epochs(blocks, y, co.LeastSquares(), rng)
    x, dual, z = [np.zeros(2), np.zeros(3)], np.zeros(7), np.zeros(7)
    for found in islice(steps, 4):
        total = sum(D @ own for D, own in zip(blocks, x, strict=True))
        new = []
        for D, own in zip(blocks, x, strict=True):
            others = total - D @ own - z
            new.append(np.linalg.solve(lam * np.eye(own.size) + rho * D.T @ D, -D.T @ (dual + rho * others)))
        x = new
        total = sum(D @ own for D, own in zip(blocks, x, strict=True))
        z = (y / 7 + dual + rho * total) / (1 / 7 + rho)
        dual = dual + rho * (total - z)
        for ours, theirs in zip(found, x, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_published_noise_is_added_to_the_coefficients() -> None:
    """20,000 numbers: their standard deviation is known to 0.5 %, and 2.5 % is five such errors."""
    blocks, y = [np.zeros((3, 20_000))], np.ones(3)
    value = ParallelSharing(0.1, 1.0, sigma=2.0)
    (x,) = next(value.epochs(blocks, y, co.LeastSquares(), np.random.default_rng(0)))
    assert np.std(x) == pytest.approx(2.0, rel=0.025)


@pytest.mark.parametrize("coupling", [0.1, 1.0])
def test_the_published_form_diverges_where_this_one_converges(coupling: float) -> None:
    X, y = table(co.LeastSquares(), 80, 40, shared=0.9)
    blocks = np.split(X, 10, axis=1)
    steps = ParallelSharing(0.1, coupling / 80).epochs(blocks, y, co.LeastSquares(), np.random.default_rng(0))
    problem = co.Problem(co.LeastSquares(), penalty=co.Ridge(0.1))
    x = np.concatenate(next(islice(steps, 60, None)))
    assert problem.objective(X @ x, x, y) > 1e6 * problem.objective(np.zeros(80), np.zeros(40), y)


def test_the_published_form_and_gradient_steps_agree_with_ours_where_they_converge() -> None:
    loss, ridge = co.Logistic(), 0.1
    X, y = table(loss, 60, 6, shared=0.1)
    problem = co.Problem(loss, penalty=co.Ridge(ridge))
    variable = cp.Variable(6)
    rows = cp.sum(cp.logistic(-cp.multiply(y, X @ variable))) / 60
    best = confident(cp.Problem(cp.Minimize(rows + ridge / 2 * cp.sum_squares(variable))))
    blocks = np.split(X, 2, axis=1)
    methods = ParallelSharing(ridge, 0.5 / 60), FeatureSGD(ridge, rate=0.2, batch=60)
    for method in methods:
        x = np.concatenate(next(islice(method.epochs(blocks, y, loss, np.random.default_rng(0)), 400, None)))
        assert problem.objective(X @ x, x, y) - best <= 1e-6 * best
