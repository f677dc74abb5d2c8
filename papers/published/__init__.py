"""The papers' own versions, for reproduction and attack only: none of them can spend a budget or take part in a fit."""

from __future__ import annotations

from papers.published.block_frank_wolfe import PublishedBlockFrankWolfe
from papers.published.boyd_sharing import boyd_sharing
from papers.published.broadcast import broadcast_admm
from papers.published.calibrations import (
    SharingADMM,
    SketchedColumns,
    SparseFrankWolfe,
    SparseLaplace,
    ZerothOrder,
    gaussian_epsilon,
)
from papers.published.consensus_ridge import d_ridge
from papers.published.diffusion import diffusion_ridge
from papers.published.dual_consensus import dc_admm
from papers.published.nested_admm import feature_admm
from papers.published.sharing_admm import FeatureSGD, ParallelSharing
from papers.published.sparse_heap import heap_picks
from papers.published.sparse_kernel import published_big_step_little_step, published_noisy_max
from papers.published.tls import d_tls, da_tls, ipi_d_tls

__all__ = [
    "FeatureSGD",
    "ParallelSharing",
    "PublishedBlockFrankWolfe",
    "SharingADMM",
    "SketchedColumns",
    "SparseFrankWolfe",
    "SparseLaplace",
    "ZerothOrder",
    "boyd_sharing",
    "broadcast_admm",
    "d_ridge",
    "d_tls",
    "da_tls",
    "dc_admm",
    "diffusion_ridge",
    "feature_admm",
    "gaussian_epsilon",
    "heap_picks",
    "ipi_d_tls",
    "published_big_step_little_step",
    "published_noisy_max",
]
