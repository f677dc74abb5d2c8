"""The best point in the hull of the atoms at hand: the corrective step of Frank-Wolfe methods.

Solves   min loss(Mu + b, y)  over u in a ball or a simplex,  M the atoms side by side: as many unknowns as atoms, few.
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
from scipy import linalg, sparse

from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.columns import csc_rmatvec, scatter_rows
from colonnade.problem.losses import LeastSquares, Loss
from colonnade.problem.sets import L1Ball, Simplex

NEWTON_STEPS = 6
SHARE = 1e-4  # of the gap that steps start from
CUT = 30.0  # what a step with an old Hessian must cut the gap by
DENSE = 0.05  # the share of nonzeros above which dense products are faster than sparse ones
BLOCK = 2**16  # numbers in a dense block: it stays in the cache
RIDGE = 1e-12  # of the mean diagonal: it makes faces of collinear atoms solvable
EPSILON = 2.0**-52


Model = tuple[Floats, Floats, float]  # MᵀDM, MᵀD1, 1ᵀD1


class Corrector:
    """Finds the best weights of atoms that are added one by one; with the best intercept, where there is one."""

    def __init__(self, loss: Loss, constraint: L1Ball | Simplex, y: Floats, intercept: bool = False) -> None:
        self.loss, self.constraint, self.y, self.intercept = loss, constraint, y, intercept
        self._atoms = self._nonzeros = 0  # zeros that a dense column stores do not count: both kinds take one way
        self._largest = 0.0  # of all entries
        self._curvature, self._hessian, self._tilt = np.zeros(0), np.zeros((0, 0)), np.zeros(0)  # D, MᵀDM, MᵀD1
        self._place = dict[int, int]()  # the row of each atom in these

    def best_weights(self, atoms: Any, weights: Floats, scores: Floats) -> Floats:
        """Weights of the atoms in use (CSC) that are at least as good as `weights`, and near the best there are."""
        self._count(atoms)
        used = np.flatnonzero(weights)
        u, best = weights[used], np.zeros(weights.size)
        before, enough, fresh = np.inf, 0.0, False
        for _ in range(NEWTON_STEPS if used.size else 0):  # where no atom is in use, zero is the best point already
            rows = self.loss.slope(scores, self.y)
            slope = _products(atoms, rows)[used]
            gap = self.constraint.gap(u, slope)
            enough = enough or SHARE * gap
            if gap <= enough or self._is_rounding(gap, atoms, rows):
                break
            fresh = fresh or CUT * gap > before or not self._place
            curvature = self.loss.curvature(scores, self.y) if fresh else None
            move, shift = self._newton_step(self.hessian(atoms, used, curvature), slope, float(rows.sum()), u)
            best[used] = move
            direction = atoms @ best + shift
            step = self.loss.minimise_along(scores, direction, self.y)
            u, scores, before = u + step * move, scores + step * direction, gap
            if isinstance(self.loss, LeastSquares) or (step == 0.0 and fresh):  # the model is right; nothing is left
                break
        best[used] = into(self.constraint, u)
        return best

    def _newton_step(self, model: Model, slope: Floats, fall: float, u: Floats) -> tuple[Floats, float]:
        """How far the model's best point is, in the weights and in the intercept; fall: the slope in the intercept."""
        hessian, tilt, mass = model
        if not self.intercept or mass == 0.0:
            return quadratic_minimum(hessian, slope - hessian @ u, self.constraint, u) - u, 0.0
        # Whatever the weights do, the best intercept moves by −(fall + tilt·move)/mass: a model of the weights is left.
        hessian, slope = hessian - np.outer(tilt, tilt) / mass, slope - tilt * (fall / mass)
        move = quadratic_minimum(hessian, slope - hessian @ u, self.constraint, u) - u
        return move, -(fall + float(tilt @ move)) / mass

    def _is_rounding(self, gap: float, atoms: Any, rows: Floats) -> bool:
        """Whether the gap may be all rounding: that of a running sum grows like the root of its length."""
        sizes, unit = np.abs(rows), EPSILON * math.sqrt(rows.size) * self.constraint.radius
        if gap > unit * self._largest * float(sizes.sum()):  # more than the sharper bound below
            return False
        terms = np.empty(atoms.shape[1])
        csc_rmatvec(np.abs(atoms.data), atoms.indices, atoms.indptr, sizes, terms)
        return gap <= unit * float(terms.max())

    def hessian(self, atoms: Any, used: Indices, curvature: Floats | None = None) -> Model:
        """MᵀDM, MᵀD1 and the sum of D for the atoms in use, D the curvature given or the last that was."""
        self._count(atoms)
        if curvature is not None and not np.array_equal(curvature, self._curvature):
            dense = self._nonzeros > DENSE * atoms.shape[0] * atoms.shape[1]
            self._hessian = (dense_hessian if dense else sparse_hessian)(atoms, used, curvature)
            self._curvature, self._tilt = curvature, _products(atoms, curvature)[used]
            self._place = {int(atom): row for row, atom in enumerate(used)}
        for atom in used.tolist():
            if atom not in self._place:
                self._place[atom] = len(self._place)
                self._extend_by(atoms, atom)
        rows = [self._place[atom] for atom in used.tolist()]
        return self._hessian[np.ix_(rows, rows)], self._tilt[rows], float(self._curvature.sum())

    def _count(self, atoms: Any) -> None:
        new = atoms.data[atoms.indptr[self._atoms] :]
        self._nonzeros += int(np.count_nonzero(new))
        self._atoms, self._largest = atoms.shape[1], max(self._largest, float(np.abs(new).max(initial=0.0)))

    def _extend_by(self, atoms: Any, atom: int) -> None:
        column = self._curvature * atoms[:, [atom]].toarray()[:, 0]
        products = _products(atoms, column)[list(self._place)]
        old = np.vstack([self._hessian, products[:-1]])
        self._hessian, self._tilt = np.column_stack([old, products]), np.append(self._tilt, column.sum())


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
    rows, height = curvature.size, max(BLOCK // used.size, 64)
    root, cursor, hessian = np.sqrt(curvature), atoms.indptr[used], np.zeros((used.size, used.size))
    for first in range(0, rows, height):
        block = np.zeros((used.size, min(height, rows - first)))
        if not scatter_rows(atoms.data, atoms.indices, atoms.indptr, used, root, first, cursor, block):
            return dense_hessian(atoms.sorted_indices(), used, curvature)
        hessian += block @ block.T
    return hessian


def quadratic_minimum(hessian: Floats, linear: Floats, constraint: L1Ball | Simplex, start: Floats) -> Floats:
    """argmin ½uᵀHu + cᵀu over the set, from a point of it; where H is not positive, a point that is no worse.

    A face is given by the signs of its coordinates and by whether the norm is at the radius. u walks towards the best
    point of its face, until a coordinate comes to 0 or the norm to the radius. Where nothing stops it, the vertex that
    promises most joins, or 0 does: until the gap is rounding.
    """
    ball, radius, u = isinstance(constraint, L1Ball), constraint.radius, start.copy()
    diagonal = np.diag(hessian)
    if float(diagonal.max()) <= 0.0:
        return u
    ridge = RIDGE * np.where(diagonal > 0.0, diagonal, diagonal.max())
    bent, pull = hessian + np.diag(ridge), ridge * u - linear  # the ridge is around u: no bias
    sign, joined, gap = np.sign(u), NORM - 1, np.inf
    inside = ball and float(np.abs(u).sum()) < radius * (1.0 - 1e-12)
    for _ in range(10 * u.size + 100):
        used, goal = np.flatnonzero(sign), np.zeros(u.size)
        try:
            goal[used] = _best_on_face(bent[np.ix_(used, used)], pull[used], sign[used], None if inside else radius)
        except linalg.LinAlgError:
            break
        share, stop = _first_stop(sign * u, sign * goal, radius if inside else np.inf)
        u = u + share * (goal - u)
        if share < 1.0:
            if share == 0.0 and stop == joined:  # it promised no more than rounding
                break
            inside = inside and stop != NORM
            if stop != NORM:
                u[stop] = sign[stop] = 0.0
            continue
        slope, last, pull = hessian @ u + linear, gap, ridge * u - linear
        gap, size = constraint.gap(u, slope), float((np.abs(hessian) @ np.abs(u) + np.abs(linear)).max())
        if gap <= 8.0 * EPSILON * radius * size:
            break
        level = 0.0 if inside else float(sign @ slope) / used.size  # of the slope in every coordinate of the face
        promise = np.where(sign == 0.0, np.abs(slope) if ball else -slope, -np.inf)
        joined = int(np.argmax(promise))
        if ball and level > max(promise[joined], 0.0):
            inside, joined = True, NORM
        elif promise[joined] > -level:
            sign[joined] = -np.sign(slope[joined]) if ball else 1.0
        elif gap > 0.5 * last:  # else the ridge was in the way: once more, around this point
            break
    return into(constraint, u)


NORM = -1  # what stops a walk where no coordinate does


def _best_on_face(hessian: Floats, pull: Floats, sign: Floats, norm: float | None) -> Floats:
    """argmin ½uᵀHu − pull·u, with sign·u = norm where one is given."""
    if not sign.size:
        return pull
    free, push = linalg.cho_solve(linalg.cho_factor(hessian), np.column_stack([pull, sign])).T
    best: Floats = free if norm is None else free - (float(sign @ free) - norm) / float(sign @ push) * push
    return best


def _first_stop(here: Floats, goal: Floats, radius: float) -> tuple[float, int]:
    """How far from here to the goal nothing becomes negative and the sum stays within the radius; what stops it."""
    falling = np.flatnonzero(goal < 0.0)
    shares = here[falling] / (here[falling] - goal[falling])
    first = int(np.argmin(shares)) if falling.size else 0
    share, stop = (float(shares[first]), int(falling[first])) if falling.size else (1.0, NORM)
    growth, room = float(goal.sum() - here.sum()), max(radius - float(here.sum()), 0.0)
    return (room / growth, NORM) if growth * share > room else (share, stop)


def into(constraint: L1Ball | Simplex, u: Floats) -> Floats:
    """u, where rounding may have left the set by a hair, scaled back into it; zeros stay zeros."""
    norm = float(np.abs(u).sum())
    return u * (constraint.radius / norm) if norm > constraint.radius or isinstance(constraint, Simplex) else u
