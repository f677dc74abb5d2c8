"""The best point in the hull of the atoms at hand: the corrective step of Frank-Wolfe methods.

Solves   min loss(Mu + b, y)  over u in the set,  M the atoms side by side: as many unknowns as atoms, few.
How      Newton steps in u: a quadratic model, minimised over the set by projected gradients with momentum, then an
         exact line search towards its minimiser, so that the objective never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from colonnade.kernels.arrays import Floats
from colonnade.problem.losses import Loss
from colonnade.problem.sets import Set

NEWTON_STEPS = 2
INNER_STEPS = 300


def best_weights(loss: Loss, constraint: Set, atoms: Any, weights: Floats, intercept: float, y: Floats) -> Floats:
    """Weights of the atoms in use that are at least as good as `weights`, and near the best there are."""
    used = np.flatnonzero(weights)
    best = np.zeros(weights.size)
    best[used] = _refined(loss, constraint, atoms[:, used], weights[used], intercept, y)
    return best


def _refined(loss: Loss, constraint: Set, atoms: Any, u: Floats, intercept: float, y: Floats) -> Floats:
    scores = np.asarray(atoms @ u) + intercept
    for _ in range(NEWTON_STEPS if loss.smoothness != 1.0 or loss.classifies else 1):
        slope = np.asarray(atoms.T @ loss.slope(scores, y))
        curvature = loss.curvature(scores, y)
        scaled = sparse.diags_array(curvature) @ atoms if sparse.issparse(atoms) else curvature[:, None] * atoms
        hessian = atoms.T @ scaled
        hessian = hessian.toarray() if sparse.issparse(hessian) else hessian
        target = quadratic_minimum(hessian, slope - hessian @ u, constraint, u)
        move = target - u
        direction = np.asarray(atoms @ move)
        step = loss.minimise_along(scores, direction, y)
        u, scores = u + step * move, scores + step * direction
    return constraint.project(u)  # rounding may have left the set by a hair


def quadratic_minimum(hessian: Floats, linear: Floats, constraint: Set, start: Floats) -> Floats:
    """argmin ½uᵀHu + cᵀu over the set, by projected gradients with momentum, restarted when they turn back."""
    bound = _largest_eigenvalue(hessian)
    if bound == 0.0:
        return start
    u, ahead, momentum = start, start, 1.0
    for _ in range(INNER_STEPS):
        new = constraint.project(ahead - (hessian @ ahead + linear) / bound)
        change = new - u
        if float(np.abs(change).max(initial=0.0)) <= 1e-14 * constraint.radius:
            return new
        if float((ahead - new) @ change) > 0.0:
            momentum = 1.0
        grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        ahead = new + (momentum - 1.0) / grown * change
        u, momentum = new, grown
    return u


def _largest_eigenvalue(hessian: Floats) -> float:
    """By power steps, a little above: too small a figure costs progress, which the line search outside notices."""
    vector = np.ones(len(hessian))
    for _ in range(30):
        image = hessian @ vector
        size = float(np.linalg.norm(image))
        if size == 0.0:
            return float(np.trace(hessian))
        vector = image / size
    return 1.05 * float(vector @ (hessian @ vector))
