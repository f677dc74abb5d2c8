"""The best point in the hull of the atoms at hand: the corrective step of Frank-Wolfe methods.

Solves   min loss(Mu + b, y)  over u in the set,  M the atoms side by side: as many unknowns as atoms, few.
How      Newton steps in u: a quadratic model, minimised over the set by projected gradients with momentum, then an
         exact line search towards its minimiser, so that the objective never rises.
Cost     MᵀDM, D the curvature of the rows, is most of it. While D stays what it was (least squares), a new atom adds
         its row and column. Else it is built again: sparse, or by dense blocks of rows where over 5 % are not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.columns import scatter_rows
from colonnade.problem.losses import Loss
from colonnade.problem.sets import Set

NEWTON_STEPS = 2
INNER_STEPS = 300
DENSE = 0.05  # the share of nonzeros above which dense products are faster than sparse ones
BLOCK = 2**16  # numbers in a dense block: it stays in the cache


class Corrector:
    """Finds the best weights of atoms that are added one by one."""

    def __init__(self, loss: Loss, constraint: Set, y: Floats) -> None:
        self.loss, self.constraint, self.y = loss, constraint, y
        self._atoms = self._nonzeros = 0  # zeros that a dense column stores do not count: both kinds take one way
        self._curvature = np.zeros(0)
        self._hessian, self._place = np.zeros((0, 0)), dict[int, int]()  # the row of each atom in it

    def best_weights(self, atoms: Any, weights: Floats, scores: Floats) -> Floats:
        """Weights of the atoms in use (CSC) that are at least as good as `weights`, and near the best there are."""
        used = np.flatnonzero(weights)
        u, best = weights[used], np.zeros(weights.size)
        if not used.size:  # zero is the best point already, and no atom is in use
            return best
        for _ in range(NEWTON_STEPS if self.loss.smoothness != 1.0 or self.loss.classifies else 1):
            slope = (atoms.T @ self.loss.slope(scores, self.y))[used]
            hessian = self.hessian(atoms, used, self.loss.curvature(scores, self.y))
            move = quadratic_minimum(hessian, slope - hessian @ u, self.constraint, u) - u
            best[used] = move
            direction = atoms @ best
            step = self.loss.minimise_along(scores, direction, self.y)
            u, scores = u + step * move, scores + step * direction
        best[used] = self.constraint.project(u)  # rounding may have left the set by a hair
        return best

    def hessian(self, atoms: Any, used: Indices, curvature: Floats) -> Floats:
        """MᵀDM of the atoms in use."""
        self._nonzeros += int(np.count_nonzero(atoms.data[atoms.indptr[self._atoms] :]))
        self._atoms = atoms.shape[1]
        if not np.array_equal(curvature, self._curvature):
            dense = self._nonzeros > DENSE * atoms.shape[0] * atoms.shape[1]
            self._hessian = (dense_hessian if dense else sparse_hessian)(atoms, used, curvature)
            self._curvature, self._place = curvature, {int(atom): row for row, atom in enumerate(used)}
            return self._hessian
        for atom in used.tolist():
            if atom not in self._place:
                self._place[atom] = len(self._place)
                self._hessian = self._extend_by(atoms, atom)
        rows = [self._place[atom] for atom in used.tolist()]
        return self._hessian[np.ix_(rows, rows)]

    def _extend_by(self, atoms: Any, atom: int) -> Floats:
        products = (atoms.T @ (self._curvature * atoms[:, [atom]].toarray()[:, 0]))[list(self._place)]
        old = np.vstack([self._hessian, products[:-1]])
        return np.column_stack([old, products])


def sparse_hessian(atoms: Any, used: Indices, curvature: Floats) -> Floats:
    """MᵀDM as a product of sparse matrices."""
    chosen = atoms[:, used]
    hessian: Floats = (chosen.T @ (sparse.diags_array(curvature) @ chosen)).toarray()
    return hessian


def dense_hessian(atoms: Any, used: Indices, curvature: Floats) -> Floats:
    """MᵀDM as a sum over dense blocks of rows of √D·M."""
    rows, height = curvature.size, max(BLOCK // used.size, 64)
    root, cursor, hessian = np.sqrt(curvature), atoms.indptr[used], np.zeros((used.size, used.size))
    for first in range(0, rows, height):
        block = np.zeros((used.size, min(height, rows - first)))
        if not scatter_rows(atoms.data, atoms.indices, atoms.indptr, used, root, first, cursor, block):
            return dense_hessian(atoms.sorted_indices(), used, curvature)
        hessian += block @ block.T
    return hessian


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
