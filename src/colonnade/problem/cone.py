"""The nearest curves that never fall: a quadratic over the cone of monotone blocks.

Solves   min ½(z − x)'H(z − x)  over z whose monotone blocks have increments v = D·z_block of one sign (D regular:
         kernels/curves.py), all other coefficients free.
How      the free ones are minimised out, which leaves their Schur complement S; with z_block = D⁻¹v, v ≥ 0 that is a
         least-squares problem over v ≥ 0, solved exactly by active sets (Lawson and Hanson 1974).
If x minimises a quadratic with Hessian H, z minimises it over the cone: no approximation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.curves import increments

Block = tuple[Indices, int]  # places of t and its hats, and 1 or -1

TINY = 1e-12  # of the mean diagonal: what makes a Hessian of dependent columns regular


def blocks_of(level: Indices, monotone: Indices) -> list[Block]:
    """The blocks of numbers that have a direction: hats stand behind their number."""
    lines = np.flatnonzero(level == 0)
    ends = dict(zip(lines.tolist(), [*lines[1:].tolist(), level.size], strict=False))  # there may be none
    return [(np.arange(start, ends[start]), int(monotone[start])) for start in np.flatnonzero(monotone).tolist()]


def nearest_monotone(x: Floats, hessian: Floats, blocks: Sequence[Block]) -> Floats:
    """x itself where its blocks are monotone; else the nearest in the metric of the Hessian that are."""
    maps = [sign * increments(int(at.size).bit_length() - 1) for at, sign in blocks]
    if all((steps @ x[at] >= 0.0).all() for steps, (at, _) in zip(maps, blocks, strict=True)):
        return x
    bound = np.concatenate([at for at, _ in blocks])
    free = np.setdiff1d(np.arange(x.size), bound)
    whole = hessian + TINY * float(np.trace(hessian)) / x.size * np.eye(x.size)
    across = linalg.solve(whole[np.ix_(free, free)], whole[np.ix_(free, bound)], assume_a="pos")
    metric = whole[np.ix_(bound, bound)] - whole[np.ix_(bound, free)] @ across
    root = linalg.cholesky((metric + metric.T) / 2.0)
    back = linalg.block_diag(*(np.linalg.inv(steps) for steps in maps))
    from scipy.optimize import nnls  # of what a fit needs this alone would load all optimisers

    rises, _ = nnls(root @ back, root @ x[bound])
    z = x.copy()
    z[bound] = back @ rises
    z[free] -= across @ (z[bound] - x[bound])
    return z
