"""Gram matrices of small tables, with the noise of a release."""

from __future__ import annotations

import math

import numpy as np


def gram(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows = np.column_stack([X, np.ones(len(X)), y])
    return np.asarray(rows.T @ rows)


def noise_of(rng: np.random.Generator, sds: np.ndarray) -> np.ndarray:
    upper = np.triu(rng.normal(size=sds.shape) * sds)
    return np.asarray(upper + np.triu(upper, 1).T)


def even_noise(size: int, sd: float) -> np.ndarray:
    """As releases have it: the diagonal √2 louder, the number of rows exact."""
    sds = np.full((size, size), sd / math.sqrt(2.0))
    np.fill_diagonal(sds, sd)
    sds[-2, -2] = 0.0
    return sds


def table(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-1.0, 1.0, (rows, columns))
    X[:, 0] += 0.5 * X[:, -1]
    return X, X @ np.linspace(0.5, -0.3, columns) + 0.2 + rng.normal(size=rows)
