"""Private Gram along a path: the same release solved for lighter and heavier penalties, or smaller and larger sets.

Leaves   nothing: whatever is solved here is solved from what was released and paid for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.methods.gram.curves import Curves
from colonnade.problem import quadratic
from colonnade.problem.cone import nearest_monotone
from colonnade.problem.penalties import ElasticNet, GroupLasso, Lasso, Penalty, Ridge
from colonnade.problem.problem import Problem
from colonnade.problem.sets import GroupL1Ball, L1Ball, Set, Simplex

FACTORS = np.logspace(2.0, -2.0, 17)  # of the asked weight or radius, along a path


@dataclass(frozen=True)
class Path:
    """The same release solved along a grid of the penalty's weight (or the radius), the strongest first."""

    weights: Floats  # (m,) of ElasticNet, l1; l2 goes along in proportion
    coefficients: Floats  # (m, d)


def along(problem: Problem) -> list[Problem]:
    """The problem with each penalty of its path; its own is one of them."""
    assert problem.penalty is not None
    scaled = [_scale_term(problem.penalty, float(factor))[0] for factor in FACTORS]
    return [replace(problem, penalty=term) for term in scaled if isinstance(term, Penalty)]


def path(hessian: Floats, linear: Floats, term: Penalty | Set, keep: Indices, columns: int, curves: Curves) -> Path:
    # A larger radius is a weaker bound, a larger weight a stronger penalty: the strongest comes first in both.
    factors = FACTORS[::-1] if isinstance(term, Set) else FACTORS
    terms = [_scale_term(term, float(factor)) for factor in factors]
    found = quadratic.path(*spread_out(hessian, linear, term, keep, columns), [one for one, _ in terms])
    x = [one.x if one.x.size == columns else widen(one.x, keep, columns) for one in found]
    if blocks := curves.blocks():
        own = [
            nearest_monotone(one[keep], bent_by(hessian, term), blocks) for one, (term, _) in zip(x, terms, strict=True)
        ]
        x = [widen(one, keep, columns) for one in own]
    return Path(np.array([weight for _, weight in terms]), np.array(x))


def bent_by(hessian: Floats, term: Penalty | Set | None) -> Floats:
    """The Hessian of what was minimised, as far as it has one."""
    bend = term.a if isinstance(term, Ridge) else term.l2 if isinstance(term, ElasticNet) else 0.0
    return np.asarray(hessian + bend * np.eye(len(hessian)))


def spread_out(
    hessian: Floats, linear: Floats, term: Penalty | Set | None, keep: Indices, columns: int
) -> tuple[Floats, Floats]:
    """Groups name every column, so those that were not kept come back as columns without a say."""
    if not isinstance(term, GroupLasso | GroupL1Ball) or keep.size == columns:
        return hessian, linear
    whole = np.zeros((columns, columns))
    whole[np.ix_(keep, keep)] = hessian
    return whole, widen(linear, keep, columns)


def _scale_term(term: Penalty | Set, factor: float) -> tuple[Penalty | Set, float]:
    match term:
        case Ridge() | Lasso() | GroupLasso():
            return replace(term, a=term.a * factor), term.a * factor
        case ElasticNet():
            return replace(term, l1=term.l1 * factor, l2=term.l2 * factor), term.l1 * factor
        case L1Ball() | Simplex() | GroupL1Ball():
            return replace(term, radius=term.radius * factor), term.radius * factor
    raise InvalidInput(f"{type(term).__name__} is not solved from a Gram matrix.")


def widen(values: Floats, keep: Indices, columns: int) -> Floats:
    wide = np.zeros(columns)
    wide[keep] = values
    return wide
