"""The penalties: what a large coefficient vector costs, as small frozen values.

Penalty                 g(x)                          domain of the conjugate g*
Ridge(a)                a/2 ‖x‖²                      everything
Lasso(a)                a ‖x‖₁                        ‖u‖_∞ ≤ a
ElasticNet(l1, l2)      l1 ‖x‖₁ + l2/2 ‖x‖²           everything
GroupLasso(a, groups)   a Σ √p_g ‖x_g‖₂               ‖u_g‖₂ ≤ a √p_g for each group of p_g columns
NuclearNorm(a, blocks)  a Σ_b ‖X_b‖_* of a matrix      ‖U_b‖₂ ≤ a for each block of rows; one block unless given
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
