"""The constraint sets: where coefficients may lie, as small frozen values with a linear oracle and a certificate.

Set                            points                              vertices
L1Ball(radius)                 ‖x‖₁ ≤ radius                       ±radius·e_j
Simplex(radius)                x ≥ 0, Σ x = radius                 radius·e_j
GroupL1Ball(radius, groups)    Σ_g ‖x_g‖₂ ≤ radius                 a block of norm radius in one group

Certificate: for convex f over such a set, f(x) − min f ≤ gap(x, ∇f(x)) = <x, ∇f(x)> − support(∇f(x)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.prox import group_norms, project_group_l1, project_l1, project_simplex
from colonnade.problem.checks import Groups, covers, disjoint_groups, group_of_column, positive

RADIUS = "A larger radius allows larger coefficients; for no bound, leave constraint out of the problem."


@runtime_checkable
class Set(Protocol):
    """What every constraint set can say about itself."""

    @property
    def radius(self) -> float: ...

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        """Whether x lies in the set, up to tolerance times the radius."""
        ...

    def vertex(self, gradient: Floats) -> tuple[int, float | Floats]:
        """The vertex s with the least <s, gradient>: where it is not zero, and what it holds there."""
        ...

    def support(self, gradient: Floats) -> float:
        """min <s, gradient> over the set."""
        ...

    def gap(self, x: Floats, gradient: Floats) -> float:
        """Bound on f(x) − min f over the set, when gradient = ∇f(x)."""
        ...

    def project(self, x: Floats) -> Floats:
        """The nearest point of the set."""
        ...

    def start(self, d: int) -> Floats:
        """A point of the set with at most one entry that is not zero; needs no data."""
        ...


def gap_of(constraint: Set, x: Floats, gradient: Floats) -> float:
    """`gap` of any set, by its support."""
    return float(x @ gradient) - constraint.support(gradient)


@dataclass(frozen=True)
class L1Ball:
    """‖x‖₁ ≤ radius."""

    radius: float
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return bool(np.sum(np.abs(x)) <= self.radius * (1.0 + tolerance))

    def vertex(self, gradient: Floats) -> tuple[int, float]:
        """(column, signed weight); ties go to the lowest column, a zero gradient to −radius."""
        column = int(np.argmax(np.abs(gradient)))
        return column, self.radius if _finite(gradient[column]) < 0.0 else -self.radius

    def support(self, gradient: Floats) -> float:
        return -self.radius * _finite(np.max(np.abs(gradient)))

    def project(self, x: Floats) -> Floats:
        return project_l1(x, self.radius)

    def start(self, d: int) -> Floats:
        return np.zeros(d)


@dataclass(frozen=True)
class Simplex:
    """x ≥ 0 and Σ x = radius."""

    radius: float = 1.0
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        room = self.radius * tolerance
        return bool(np.min(x) >= -room and abs(np.sum(x) - self.radius) <= room)

    def vertex(self, gradient: Floats) -> tuple[int, float]:
        """(column, radius); ties go to the lowest column."""
        column = int(np.argmin(gradient))
        _finite(gradient[column])
        return column, self.radius

    def support(self, gradient: Floats) -> float:
        return self.radius * _finite(np.min(gradient))

    def project(self, x: Floats) -> Floats:
        return project_simplex(x, self.radius)

    def start(self, d: int) -> Floats:
        point = np.zeros(d)
        point[0] = self.radius
        return point


@dataclass(frozen=True)
class GroupL1Ball:
    """Σ_g ‖x_g‖₂ ≤ radius over disjoint groups that together name every column."""

    radius: float
    groups: Groups
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))
        object.__setattr__(self, "groups", disjoint_groups(self.groups))

    @cached_property
    def _owner(self) -> Indices:
        return group_of_column(self.groups)

    def _norms(self, x: Floats) -> Floats:
        return group_norms(x, covers(self._owner, x), len(self.groups))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return bool(np.sum(self._norms(x)) <= self.radius * (1.0 + tolerance))

    def vertex(self, gradient: Floats) -> tuple[int, Floats]:
        """(group, its block in the order of the group's columns); ties go to the lowest group."""
        norms = self._norms(gradient)
        number = int(np.argmax(norms))
        columns = gradient[list(self.groups[number])]
        if _finite(norms[number]) == 0.0:  # every vertex is as good: take one without a direction
            columns = np.eye(1, columns.size)[0]
        columns = columns / np.max(np.abs(columns))  # else the squares of a tiny gradient would vanish
        return number, -self.radius * (columns / np.linalg.norm(columns))

    def support(self, gradient: Floats) -> float:
        return -self.radius * _finite(np.max(self._norms(gradient)))

    def project(self, x: Floats) -> Floats:
        return project_group_l1(x, covers(self._owner, x), len(self.groups), self.radius)

    def start(self, d: int) -> Floats:
        point = np.zeros(d)
        covers(self._owner, point)
        return point


def _finite(number: float) -> float:
    """The number, or InvalidInput: argmax and argmin stop at a NaN, so one look at the winner is enough."""
    if not math.isfinite(number):
        raise InvalidInput("the gradient holds NaN or infinity: look for missing values, or scale features down.")
    return float(number)
