"""Noise by the column, and what a sampler may make of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.kernels.sparse_fw import LossCode, Picks
from tests.helpers.sparse_problems import slope

SHAPES = {
    "wide": {"rows": 300, "columns": 3_000, "per_row": 20},
    "tall": {"rows": 3_000, "columns": 400, "per_row": 15},
    "dense columns": {"rows": 800, "columns": 1_500, "per_row": 10, "dense": 6},
}

NOISE = {
    "drowned": 0.005,
    "middling": 0.3,
    "faint": 5.0,
    "hardly any": 60.0,
}  # c: from uniform picks to the largest score


def transform(
    X: Any,
    y: np.ndarray,
    picks: Picks,
    *,
    loss: LossCode,
    radius: float,
    c: float,
    limit: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Randomised probability integral transform of each (coordinate, sign) under the dense law, given the picks before.

    Outcomes are ordered by probability, so that mass given to the wrong columns shows as a trend.
    """
    v = np.zeros(y.size)
    out = np.empty(picks.columns.size)
    XT = X.T.tocsr().astype(float)
    for t, (k, s) in enumerate(zip(picks.columns, picks.signs, strict=True), start=1):
        alpha = XT @ slope(loss.name, v, y, limit)
        logit = c * np.concatenate([alpha, -alpha])
        p = np.exp(logit - logit.max())
        p /= p.sum()
        mine = p[k if s > 0 else k + alpha.size]
        out[t - 1] = p[p < mine].sum() + rng.random() * p[p == mine].sum()
        eta = 2.0 / (t + 2.0)
        v = (1.0 - eta) * v - eta * radius * s * np.asarray(X[:, [k]].todense(), dtype=float).ravel()
    return out
