"""The penalties: what a large coefficient vector costs, as small frozen values.

Penalty                 g(x)                          domain of the conjugate g*
Ridge(a)                a/2 ‖x‖²                      everything
Lasso(a)                a ‖x‖₁                        ‖u‖_∞ ≤ a
ElasticNet(l1, l2)      l1 ‖x‖₁ + l2/2 ‖x‖²           everything
GroupLasso(a, groups)   a Σ √p_g ‖x_g‖₂               ‖u_g‖₂ ≤ a √p_g for each group of p_g columns
NuclearNorm(a, blocks)  a Σ_b ‖X_b‖_* of a matrix      ‖U_b‖₂ ≤ a for each block of rows; one block unless given

Over a set, one party's term is `Within` it, with a penalty or without; where nothing bounds its coefficients, `Free`.

Within     g(x) in the set, ∞ outside. Any set with Ridge or no penalty; Lasso and ElasticNet with L1Ball, L2Ball, Box
           around 0 and NonNegative; GroupLasso with L2Ball.
Prox       for these pairs, the penalty's prox and then the set's projection. Ridge only moves the point that is
           projected. Soft-thresholding comes first wherever the set's multiplier shrinks each entry (L1Ball, L2Ball) or
           cuts it (Box, NonNegative) without turning its sign; the ball of GroupLasso shrinks whole groups alike.
Conjugate  with a squared norm, at its maximiser, the projection of the unbounded one. Without, sup <u, x> − g(x) over
           the set is its support at what the threshold of g leaves of u: signs of u and x agree, and |x| costs a each.
Free       no penalty, over everything or x ≥ 0. The conjugate is 0 or ∞, and no answer of finitely many rounds reaches
           its domain: the bound is taken over coefficients of at most `REACH` times the length of those found, or of
           those that move scores by 1 in the root of the mean square. The gap then says how much better any such
           coefficients could be; those at k times that distance, at most about k times as much, since f is convex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.prox import group_norms, group_soft_threshold, singular_value_threshold, soft_threshold
from colonnade.problem.checks import EDGE, Groups, covers, disjoint_groups, group_of_column, positive
from colonnade.problem.sets import Box, L1Ball, L2Ball, NonNegative, Product, Set

WEIGHT = "It weighs the penalty against the loss; for no penalty, leave penalty out of the problem."


@runtime_checkable
class Penalty(Protocol):
    """What every penalty can say about itself."""

    def value(self, x: Floats) -> float:
        """What these coefficients cost.

        Parameters
        ----------
        x
            The coefficients: one number a column.
        """
        ...

    def prox(self, v: Floats, step: float) -> Floats:
        """The x that minimises value(x) + ‖x − v‖²/(2·step).

        Parameters
        ----------
        v
            The point to stay near: one number a column.
        step
            How much the penalty weighs against staying near, above 0.
        """
        ...

    def conjugate(self, u: Floats) -> float:
        """The largest <u, x> − value(x) over all x; infinite outside its domain.

        Parameters
        ----------
        u
            A dual point: one number a column.
        """
        ...

    def shrink(self, u: Floats) -> float:
        """The largest factor ≤ 1 that brings u into the domain of the conjugate.

        Parameters
        ----------
        u
            A dual point: one number a column.
        """
        ...


@dataclass(frozen=True)
class Ridge:
    """The penalty a/2 ‖x‖².

    Parameters
    ----------
    a
        Its weight against the mean loss of a row, above 0: all coefficients shrink, and none becomes 0.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Ridge(0.5).value([2.0, 0.0])
    1.0
    """

    a: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive("a", self.a, WEIGHT))

    def value(self, x: Floats) -> float:
        return 0.5 * self.a * float(np.sum(np.square(x)))

    def prox(self, v: Floats, step: float) -> Floats:
        return v / (1.0 + step * self.a)

    def conjugate(self, u: Floats) -> float:
        return float(np.sum(np.square(u))) / (2.0 * self.a)

    def shrink(self, u: Floats) -> float:  # noqa: ARG002  # the domain is everything
        return 1.0


@dataclass(frozen=True)
class Lasso:
    """The penalty a ‖x‖₁.

    Parameters
    ----------
    a
        Its weight against the mean loss of a row, above 0. A larger one sets more coefficients to 0.

    Examples
    --------
    >>> import colonnade as co
    >>> co.Lasso(0.5).value([2.0, -1.0])
    1.5
    """

    a: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive("a", self.a, WEIGHT))

    def value(self, x: Floats) -> float:
        return self.a * float(np.sum(np.abs(x)))

    def prox(self, v: Floats, step: float) -> Floats:
        return soft_threshold(v, step * self.a)

    def conjugate(self, u: Floats) -> float:
        return _indicator(float(np.max(np.abs(u), initial=0.0)) <= self.a * (1.0 + EDGE))

    def shrink(self, u: Floats) -> float:
        return _ratio(self.a, float(np.max(np.abs(u), initial=0.0)))


@dataclass(frozen=True)
class ElasticNet:
    """The penalty l1 ‖x‖₁ + l2/2 ‖x‖².

    Parameters
    ----------
    l1
        The weight of the absolute norm, above 0: it sets coefficients to 0. For a squared norm alone, use
        `co.Ridge(l2)`.
    l2
        The weight of the squared norm, above 0: columns that go together share a coefficient.
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "l1", positive("l1", self.l1, "For a squared norm alone, use Ridge(l2)."))
        object.__setattr__(self, "l2", positive("l2", self.l2, "For an absolute norm alone, use Lasso(l1)."))

    def value(self, x: Floats) -> float:
        return self.l1 * float(np.sum(np.abs(x))) + 0.5 * self.l2 * float(np.sum(np.square(x)))

    def prox(self, v: Floats, step: float) -> Floats:
        return soft_threshold(v, step * self.l1) / (1.0 + step * self.l2)

    def conjugate(self, u: Floats) -> float:
        return float(np.sum(np.square(soft_threshold(u, self.l1)))) / (2.0 * self.l2)

    def shrink(self, u: Floats) -> float:  # noqa: ARG002  # the domain is everything
        return 1.0


@dataclass(frozen=True)
class GroupLasso:
    """The penalty a Σ √p_g ‖x_g‖₂ over disjoint groups that together name every column.

    Parameters
    ----------
    a
        Its weight against the mean loss of a row, above 0. A larger one leaves out more groups.
    groups
        Columns by their place in the joint table, such as ((0, 1), (2,)). None: a run makes one of each column of the
        parties' schemas, so that a whole curve, or all levels, are in or out.
    """

    a: float
    groups: Groups | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive("a", self.a, WEIGHT))
        if self.groups is not None:
            object.__setattr__(self, "groups", disjoint_groups(self.groups))

    @cached_property
    def _owner(self) -> Indices:
        return group_of_column(self.named)

    @property
    def named(self) -> Groups:
        """The groups, once they are known."""
        if self.groups is None:
            raise InvalidInput("GroupLasso without groups takes those of the schemas, which a run knows: name groups.")
        return self.groups

    @cached_property
    def _limits(self) -> Floats:
        return self.a * np.sqrt(np.array([len(group) for group in self.named], dtype=np.float64))

    def _norms(self, x: Floats) -> Floats:
        return group_norms(x, covers(self._owner, x), len(self.named))

    def value(self, x: Floats) -> float:
        return float(self._limits @ self._norms(x))

    def prox(self, v: Floats, step: float) -> Floats:
        return group_soft_threshold(v, covers(self._owner, v), step * self._limits)

    def conjugate(self, u: Floats) -> float:
        return _indicator(bool(np.all(self._norms(u) <= self._limits * (1.0 + EDGE))))

    def shrink(self, u: Floats) -> float:
        return _ratio(1.0, float(np.max(self._norms(u) / self._limits)))


@dataclass(frozen=True)
class NuclearNorm:
    """The penalty a ‖X‖_*: the sum of the singular values of a coefficient matrix, small for a low rank.

    Parameters
    ----------
    a
        Its weight against the mean loss of a row, above 0. A larger one gives a lower rank.
    blocks
        Disjoint groups of columns of the table (rows of X) that together name all: then a Σ_b ‖X_b‖_*. None: one block.
    """

    a: float
    blocks: Groups | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive("a", self.a, WEIGHT))
        if self.blocks is not None:
            object.__setattr__(self, "blocks", disjoint_groups(self.blocks))

    def _places(self, x: Floats) -> tuple[Any, ...]:
        """The rows of each block of X."""
        _singular_shape(x)
        if self.blocks is None:
            return (slice(None),)
        covers(group_of_column(self.blocks), x[:, 0])
        return tuple(list(block) for block in self.blocks)

    def value(self, x: Floats) -> float:
        return self.a * sum(float(np.sum(_singular_values(x[at]))) for at in self._places(x))

    def prox(self, v: Floats, step: float) -> Floats:
        out = np.empty_like(v)
        for at in self._places(v):
            out[at] = singular_value_threshold(v[at], step * self.a)
        return out

    def _largest(self, u: Floats) -> float:
        return max(float(np.max(_singular_values(u[at]))) for at in self._places(u))

    def conjugate(self, u: Floats) -> float:
        return _indicator(self._largest(u) <= self.a * (1.0 + EDGE))

    def shrink(self, u: Floats) -> float:
        return _ratio(self.a, self._largest(u))


def _indicator(inside: bool) -> float:
    return 0.0 if inside else math.inf


def _ratio(limit: float, size: float) -> float:
    return min(1.0, limit / size) if size > 0.0 else 1.0


def _singular_shape(x: Floats) -> None:
    if x.ndim != 2 or x.size == 0:
        raise InvalidInput(f"the nuclear norm needs a matrix, got shape {x.shape}: reshape to (columns, responses).")


def _singular_values(x: Floats) -> Floats:
    _singular_shape(x)
    return np.linalg.svd(x, compute_uv=False).astype(np.float64, copy=False)


REACH = 10.0


@dataclass(frozen=True)
class Within:
    """A penalty, or none, over a set."""

    constraint: Set
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        each = self.constraint.each if isinstance(self.constraint, Product) else self.constraint
        known: tuple[type, ...] = (object,)
        match self.penalty:
            case Lasso() | ElasticNet():
                known = (L1Ball, L2Ball, Box, NonNegative)
            case GroupLasso():
                known = () if isinstance(self.constraint, Product) else (L2Ball,)
            case None if isinstance(each, NonNegative):
                known = ()  # that is Free
        hole = isinstance(each, Box) and not each.low <= 0.0 <= each.high
        if not isinstance(each, known) or (hole and isinstance(self.penalty, Lasso | ElasticNet)):
            where = "a box that leaves out 0" if hole else f"a {type(each).__name__}"
            raise InvalidInput(
                f"{type(self.penalty).__name__} over {where} is not offered: use Ridge or no penalty with any set; "
                "Lasso or ElasticNet with L1Ball, L2Ball, NonNegative or a Box around 0; GroupLasso with L2Ball."
            )

    def value(self, x: Floats) -> float:
        return 0.0 if self.penalty is None else self.penalty.value(x)

    def prox(self, v: Floats, step: float) -> Floats:
        return self.constraint.project(v if self.penalty is None else self.penalty.prox(v, step))

    def conjugate(self, u: Floats) -> float:
        match self.penalty:
            case Ridge(a):
                return self._at(u, u / a)
            case ElasticNet(l1, l2):
                return self._at(u, soft_threshold(u, l1) / l2)
            case Lasso(a) if isinstance(self.constraint, NonNegative):
                return 0.0 if float(np.max(u, initial=0.0)) <= a * (1.0 + EDGE) else math.inf
        return -self.constraint.support(-(u if self.penalty is None else self.penalty.prox(u, 1.0)))

    def _at(self, u: Floats, unbounded: Floats) -> float:
        """<u, x> − g(x) at the x of the set nearest to the maximiser over everything."""
        x = self.constraint.project(unbounded)
        return float(u @ x) - self.value(x)

    def shrink(self, u: Floats) -> float:
        if not (isinstance(self.penalty, Lasso) and isinstance(self.constraint, NonNegative)):
            # The set has an end, or the penalty grows faster than u.
            return 1.0
        largest = float(np.max(u, initial=0.0))
        return min(1.0, self.penalty.a / largest) if largest > 0.0 else 1.0


@dataclass(frozen=True)
class Free:
    """No penalty and no end: coefficients of any size, or of any size from 0 on."""

    signed: bool = True

    def value(self, x: Floats) -> float:  # noqa: ARG002
        return 0.0

    def prox(self, v: Floats, step: float) -> Floats:  # noqa: ARG002
        return v if self.signed else np.maximum(v, 0.0)

    def conjugate(self, u: Floats) -> float:
        return 0.0 if self.excess(u) == 0.0 else math.inf

    def shrink(self, u: Floats) -> float:  # noqa: ARG002
        return 1.0

    def excess(self, u: Floats) -> float:
        """How far u is from the domain of the conjugate."""
        return float(np.linalg.norm(u if self.signed else np.maximum(u, 0.0)))


def dual_figures(term: Penalty, matrix: Any, x: Floats, pull: Floats) -> tuple[float, float, float]:
    """What one party adds to a certificate: g(x), the factor for its pull −Aᵀv, and the conjugate there."""
    if isinstance(term, Free):
        size = math.sqrt(float(np.sum(np.square(matrix.data if hasattr(matrix, "indptr") else matrix))))
        unit = math.sqrt(matrix.shape[0]) / size if size > 0.0 else 0.0
        reach = REACH * max(float(np.linalg.norm(x)), unit)
        return 0.0, 1.0, reach * term.excess(pull)
    shrink = term.shrink(pull)
    return term.value(x), shrink, term.conjugate(shrink * pull)
