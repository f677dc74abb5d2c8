"""The papers' own versions, for reproduction and attack only: none of them can spend a budget or take part in a fit."""

from __future__ import annotations

from colonnade.published.block_frank_wolfe import PublishedBlockFrankWolfe
from colonnade.published.broadcast import broadcast_admm
from colonnade.published.calibrations import (
    SharingADMM,
    SketchedColumns,
    SparseFrankWolfe,
    SparseLaplace,
    ZerothOrder,
    gaussian_epsilon,
)
from colonnade.published.consensus_ridge import d_ridge
from colonnade.published.diffusion import diffusion_ridge
from colonnade.published.dual_consensus import dc_admm
from colonnade.published.nested_admm import feature_admm
from colonnade.published.sharing_admm import FeatureSGD, ParallelSharing
from colonnade.published.tls import d_tls, da_tls, ipi_d_tls

__all__ = [
    "FeatureSGD",
    "ParallelSharing",
    "PublishedBlockFrankWolfe",
    "SharingADMM",
    "SketchedColumns",
    "SparseFrankWolfe",
    "SparseLaplace",
    "ZerothOrder",
    "broadcast_admm",
    "d_ridge",
    "d_tls",
    "da_tls",
    "dc_admm",
    "diffusion_ridge",
    "feature_admm",
    "gaussian_epsilon",
    "ipi_d_tls",
]
