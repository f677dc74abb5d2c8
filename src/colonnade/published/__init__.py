"""The papers' own versions, for reproduction and attack only: none of them can spend a budget or take part in a fit."""

from __future__ import annotations

from colonnade.published.block_frank_wolfe import PublishedBlockFrankWolfe
from colonnade.published.calibrations import (
    SharingADMM,
    SketchedColumns,
    SparseFrankWolfe,
    SparseLaplace,
    ZerothOrder,
    gaussian_epsilon,
)
from colonnade.published.sharing_admm import FeatureSGD, ParallelSharing

__all__ = [
    "FeatureSGD",
    "ParallelSharing",
    "PublishedBlockFrankWolfe",
    "SharingADMM",
    "SketchedColumns",
    "SparseFrankWolfe",
    "SparseLaplace",
    "ZerothOrder",
    "gaussian_epsilon",
]
