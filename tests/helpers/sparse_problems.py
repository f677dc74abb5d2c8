"""Sparse problems for the kernel tests, and slow references that share no code with the kernels."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp

from colonnade.kernels.stream import Stream, keyed_stream

Csc = tuple[np.ndarray, np.ndarray, np.ndarray]


def sparse_problem(
    seed: int, rows: int, columns: int, per_row: int, dense: int = 0
) -> tuple[sp.csc_matrix, np.ndarray]:
    """Column popularity falls like a power; `dense` columns are full; labels follow a sparse linear model."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(columns) + 3.0)
    popularity /= popularity.sum()
    picks = rng.choice(columns, size=rows * per_row, p=popularity)
    values = rng.uniform(0.1, 1.0, picks.size) / np.sqrt(per_row)
    X = sp.csr_matrix((values, (np.repeat(np.arange(rows), per_row), picks)), shape=(rows, columns))
    X = X.tolil()
    for k in range(dense):
        X[:, k] = rng.uniform(-1.0, 1.0, (rows, 1))
    X = X.tocsc().astype(np.float32)
    X.data[:] = np.clip(X.data, -1.0, 1.0)
    truth = rng.normal(size=columns) * (rng.random(columns) < 0.2)
    margin = X @ truth
    noise = rng.logistic(size=rows) * 0.3 * (margin.std() + 1e-9)
    y = np.where(margin + noise > np.median(margin), 1.0, -1.0)
    return X, y


def fresh_stream() -> Stream:
    return keyed_stream(os.urandom(32))


def arrays(X: sp.csc_matrix) -> Csc:
    return X.data, X.indices, X.indptr


def slope(loss: str, v: np.ndarray, y: np.ndarray, limit: float = np.inf) -> np.ndarray:
    if loss == "LOGISTIC":
        return np.asarray(0.5 * (np.tanh(v / 2) - y))  # sigmoid(v) - y01, another way
    if loss == "SQUARED":
        return np.asarray(np.clip(v - y, -limit, limit))
    return np.asarray(np.clip(-y * np.maximum(0.0, 1.0 - y * v), -limit, limit))


def value(loss: str, v: np.ndarray, y: np.ndarray) -> float:
    if loss == "LOGISTIC":
        return float(np.logaddexp(0.0, -y * v).sum())
    if loss == "SQUARED":
        return float(0.5 * ((v - y) ** 2).sum())
    return float(0.5 * (np.maximum(0.0, 1.0 - y * v) ** 2).sum())
