"""The best point in the hull of the atoms at hand: the corrective step of Frank-Wolfe methods.

Solves   min loss(Mu + b, y)  over u in a ball or a simplex,  M the atoms side by side: as many unknowns as atoms, few.
Serves   where atoms come one by one and any smooth loss is minimised: its quadratics are `newton_model`'s.
How      Newton steps in u: a quadratic model, minimised over the set by walking from face to face, then an exact line
         search towards its minimiser, so that the objective never rises. They end when the gap over the hull is a
         `SHARE` of what it was, or rounding.
Cost     MᵀDM, D the curvature of the rows, is most of it. It is kept, a new atom adds its row and column, and it is
         built again only where D has changed (least squares: never) and a step with the old one has cut the gap by
         less than `CUT`: sparse, or by dense blocks of rows where over 5 % are not zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.columns import csc_rmatvec, scatter_rows
from colonnade.kernels.newton_model import EPSILON, back_within, newton_move
from colonnade.problem.loss import Loss
from colonnade.problem.sets import L1Ball, Simplex

NEWTON_STEPS = 6
SHARE = 1e-4  # of the gap that steps start from
CUT = 30.0  # what a step with an old Hessian must cut the gap by
DENSE = 0.05  # the share of nonzeros above which dense products are faster than sparse ones
BLOCK = 2**16  # numbers in a dense block: it stays in the cache


class Corrector:
    """Finds the best weights of atoms that are added one by one; with the best intercept, where there is one."""

    def __init__(self, loss: Loss, constraint: L1Ball | Simplex, y: Floats, intercept: bool = False) -> None:
        self.loss = loss
        self.constraint = constraint
        self.y = y
        self.intercept = intercept
        self._signed = isinstance(constraint, L1Ball)
        # Zeros that a dense column stores do not count: both kinds take one way.
        self._atoms = self._nonzeros = 0
        self._largest = 0.0  # of all entries
        self._curvature = np.zeros(0)
        self._hessian = np.zeros((0, 0))
        # The row of each atom in it; row 0 is the intercept's.
        self._place = dict[int, int]()

    def best_weights(self, atoms: Any, weights: Floats, scores: Floats) -> Floats:
        """Weights of the atoms in use (CSC) that are at least as good as `weights`, and near the best there are."""
        self._count(atoms)
        used = np.flatnonzero(weights)
        u = weights[used]
        best = np.zeros(weights.size)
        before = np.inf
        enough = 0.0
        fresh = False
        # Where no atom is in use, zero is the best point already.
        for _ in range(NEWTON_STEPS if used.size else 0):
            rows = self.loss.slope(scores, self.y)
            slope = _products(atoms, rows)[used]
            gap = self.constraint.gap(u, slope)
            enough = enough or SHARE * gap
            if gap <= enough or self._is_rounding(gap, atoms, rows):
                break
            fresh = fresh or CUT * gap > before or not self._place
            curvature = self.loss.curvature(scores, self.y) if fresh else None
            slopes = np.append(slope, rows.sum()) if self.intercept else slope
            hessian = self.hessian(atoms, used, curvature)
            move = newton_move(hessian, slopes, u, self.constraint.radius, signed=self._signed)
            best[used] = move[: u.size]
            direction = atoms @ best + (move[-1] if self.intercept else 0.0)
            step = self.loss.minimise_along(scores, direction, self.y)
            u = u + step * best[used]
            scores = scores + step * direction
            before = gap
            if self.loss.quadratic or (step == 0.0 and fresh):  # the model is right; nothing is left
                break
        best[used] = back_within(u, self.constraint.radius, self._signed)
        return best

    def _is_rounding(self, gap: float, atoms: Any, rows: Floats) -> bool:
        """Whether the gap may be all rounding: that of a running sum grows like the root of its length."""
        sizes = np.abs(rows)
        unit = EPSILON * math.sqrt(rows.size) * self.constraint.radius
        if gap > unit * self._largest * float(sizes.sum()):  # more than the sharper bound below
            return False
        terms = np.empty(atoms.shape[1])
        csc_rmatvec(np.abs(atoms.data), atoms.indices, atoms.indptr, sizes, terms)
        return gap <= unit * float(terms.max())

    def hessian(self, atoms: Any, used: Indices, curvature: Floats | None = None) -> Floats:
        """MᵀDM of the atoms in use and, last, the intercept, if any; D is the curvature given, or the last that was."""
        self._count(atoms)
        if curvature is not None and not np.array_equal(curvature, self._curvature):
            dense = self._nonzeros > DENSE * atoms.shape[0] * atoms.shape[1]
            square = (dense_hessian if dense else sparse_hessian)(atoms, used, curvature)
            tilt = _products(atoms, curvature)[used]
            self._hessian = np.block([[np.array([[curvature.sum()]]), tilt[None, :]], [tilt[:, None], square]])
            self._curvature = curvature
            self._place = {int(atom): row for row, atom in enumerate(used, 1)}
        for atom in used.tolist():
            if atom not in self._place:
                self._extend_by(atoms, atom)
        rows = [self._place[atom] for atom in used.tolist()] + [0] * self.intercept
        return self._hessian[np.ix_(rows, rows)]

    def _count(self, atoms: Any) -> None:
        new = atoms.data[atoms.indptr[self._atoms] :]
        self._nonzeros += int(np.count_nonzero(new))
        self._atoms, self._largest = atoms.shape[1], max(self._largest, float(np.abs(new).max(initial=0.0)))

    def _extend_by(self, atoms: Any, atom: int) -> None:
        self._place[atom] = len(self._hessian)
        column = self._curvature * atoms[:, [atom]].toarray()[:, 0]
        products = np.append(column.sum(), _products(atoms, column)[list(self._place)])
        self._hessian = np.column_stack([np.vstack([self._hessian, products[:-1]]), products])


def _products(atoms: Any, rows: Floats) -> Floats:
    """<atom, rows> of every atom."""
    out = np.empty(atoms.shape[1])
    csc_rmatvec(atoms.data, atoms.indices, atoms.indptr, rows, out)
    return out


def sparse_hessian(atoms: Any, used: Indices, curvature: Floats) -> Floats:
    """MᵀDM as a product of sparse matrices."""
    chosen = atoms[:, used]
    hessian: Floats = (chosen.T @ (sparse.diags_array(curvature) @ chosen)).toarray()
    return hessian


def dense_hessian(atoms: Any, used: Indices, curvature: Floats) -> Floats:
    """MᵀDM as a sum over dense blocks of rows of √D·M."""
    rows = curvature.size
    height = max(BLOCK // used.size, 64)
    root = np.sqrt(curvature)
    cursor = atoms.indptr[used]
    hessian = np.zeros((used.size, used.size))
    for first in range(0, rows, height):
        block = np.zeros((used.size, min(height, rows - first)))
        if not scatter_rows(atoms.data, atoms.indices, atoms.indptr, used, root, first, cursor, block):
            return dense_hessian(atoms.sorted_indices(), used, curvature)
        hessian += block @ block.T
    return hessian
