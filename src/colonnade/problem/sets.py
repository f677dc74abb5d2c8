"""The constraint sets: where coefficients may lie, as small frozen values with a projection and a certificate.

Set                            points                              vertices
L1Ball(radius)                 ‖x‖₁ ≤ radius                       ±radius·e_j
L2Ball(radius)                 ‖x‖₂ ≤ radius                       its surface
Box(low, high)                 low ≤ x_j ≤ high                    its corners
NonNegative()                  x ≥ 0                               none: it has no end
Simplex(radius)                x ≥ 0, Σ x = radius                 radius·e_j
GroupL1Ball(radius, groups)    Σ_g ‖x_g‖₂ ≤ radius                 a block of norm radius in one group
Product(set, blocks)           each block of x in its own set      one of each block's, side by side

Certificate: for convex f over such a set, f(x) − min f ≤ gap(x, ∇f(x)) = <x, ∇f(x)> − support(∇f(x)).
Product: certificate and projection are those of the blocks, side by side. It is not an ℓ1 ball: ‖x‖₁ may reach the sum
of the radii.

    constraint = co.Product(co.L1Ball(1.0), blocks="columns")      |x_j| ≤ 1 for every column: Box(-1, 1) by its corners
    constraint = co.Product(co.L1Ball(3.0), blocks="parties")      ‖x_k‖₁ ≤ 3 at every party
    constraint = co.Product(co.Simplex(), blocks=((0, 1), (2, 3)))     columns by their place in the joint table
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices
from colonnade.kernels.prox import group_norms, project_group_l1, project_l1, project_l2, project_simplex
from colonnade.problem.checks import Groups, covers, disjoint_groups, group_of_column, positive

RADIUS = "A larger radius allows larger coefficients; for no bound, leave constraint out of the problem."

COLUMNS = "columns"
PARTIES = "parties"


@runtime_checkable
class Set(Protocol):
    """What every constraint set can say about itself."""

    @property
    def radius(self) -> float:
        """How large a point of the set can be, in the set's own norm; infinite for a cone."""
        ...

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        """Whether x lies in the set, up to tolerance times the radius.

        Parameters
        ----------
        x
            The point: one number a column.
        tolerance
            Room for rounding, as a share of the radius.
        """
        ...

    def support(self, gradient: Floats) -> float:
        """The least <s, gradient> over the points s of the set.

        Parameters
        ----------
        gradient
            The direction: one finite number a column.
        """
        ...

    def gap(self, x: Floats, gradient: Floats) -> float:
        """Bound on f(x) − min f over the set, when gradient = ∇f(x).

        Parameters
        ----------
        x
            A point of the set: one number a column.
        gradient
            The gradient of a convex f there.
        """
        ...

    def project(self, x: Floats) -> Floats:
        """The nearest point of the set.

        Parameters
        ----------
        x
            The point to move: one number a column.
        """
        ...


def gap_of(constraint: Set, x: Floats, gradient: Floats) -> float:
    """The gap of any set, by its support: a bound on f(x) − min f over the set, when gradient = ∇f(x).

    Parameters
    ----------
    constraint
        The set.
    x
        A point of the set: one number a column.
    gradient
        The gradient of a convex f there.
    """
    return float(x @ gradient) - constraint.support(gradient)


@dataclass(frozen=True)
class L1Ball:
    """‖x‖₁ ≤ radius.

    Its corners have one coefficient each, so Frank-Wolfe over it finds sparse models, at most one new column a round.

    Parameters
    ----------
    radius
        The most that absolute coefficients may add up to, above 0. A smaller one gives fewer columns and smaller
        weights.

    Examples
    --------
    >>> import colonnade as co
    >>> import numpy as np
    >>> co.L1Ball(2.0).project(np.array([3.0, 0.5]))
    array([2., 0.])
    """

    radius: float
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return bool(np.sum(np.abs(x)) <= self.radius * (1.0 + tolerance))

    def vertex(self, gradient: Floats) -> tuple[int, float]:
        """The vertex s with the least <s, gradient>: its column and signed weight.

        Ties go to the lowest column, a zero gradient to −radius.

        Parameters
        ----------
        gradient
            One finite number a column.
        """
        column = int(np.argmax(np.abs(gradient)))
        return column, self.radius if _finite(gradient[column]) < 0.0 else -self.radius

    def support(self, gradient: Floats) -> float:
        return -self.radius * _finite(np.max(np.abs(gradient)))

    def project(self, x: Floats) -> Floats:
        return project_l1(x, self.radius)

    def start(self, d: int) -> Floats:
        """No coefficients: a solver starts there.

        Parameters
        ----------
        d
            The number of columns.
        """
        return np.zeros(d)


@dataclass(frozen=True)
class L2Ball:
    """‖x‖₂ ≤ radius.

    Parameters
    ----------
    radius
        The longest that the vector of coefficients may be, above 0.
    """

    radius: float
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return bool(np.linalg.norm(x) <= self.radius * (1.0 + tolerance))

    def support(self, gradient: Floats) -> float:
        return -self.radius * _finite(float(np.linalg.norm(gradient)))

    def project(self, x: Floats) -> Floats:
        return project_l2(x, self.radius)


@dataclass(frozen=True)
class Box:
    """The box low ≤ x_j ≤ high, for every column.

    Parameters
    ----------
    low
        The least value of a coefficient.
    high
        The largest, above `low`. For x ≥ 0 alone, use `co.NonNegative()`.
    """

    low: float
    high: float
    gap = gap_of

    def __post_init__(self) -> None:
        low = float(self.low)
        high = float(self.high)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            advice = "give two finite numbers, the smaller one first; for x ≥ 0 alone, use NonNegative()"
            raise InvalidInput(f"Box({self.low!r}, {self.high!r}) is no range: {advice}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def radius(self) -> float:
        """The larger of |low| and |high|."""
        return max(abs(self.low), abs(self.high))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        room = self.radius * tolerance
        return bool(np.all(x >= self.low - room) and np.all(x <= self.high + room))

    def support(self, gradient: Floats) -> float:
        return _finite(float(np.sum(np.minimum(self.low * gradient, self.high * gradient))))

    def project(self, x: Floats) -> Floats:
        return np.clip(x, self.low, self.high)


@dataclass(frozen=True)
class NonNegative:
    """The cone x ≥ 0."""

    radius: ClassVar[float] = math.inf
    gap = gap_of

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return bool(np.min(x, initial=0.0) >= -tolerance)

    def support(self, gradient: Floats) -> float:
        return 0.0 if float(np.min(gradient, initial=0.0)) >= 0.0 else -math.inf

    def project(self, x: Floats) -> Floats:
        return np.maximum(x, 0.0)


@dataclass(frozen=True)
class Simplex:
    """The simplex x ≥ 0, Σ x = radius.

    Parameters
    ----------
    radius
        What the coefficients add up to, above 0; 1: they are shares.
    """

    radius: float = 1.0
    gap = gap_of

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, RADIUS))

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        room = self.radius * tolerance
        return bool(np.min(x) >= -room and abs(np.sum(x) - self.radius) <= room)

    def vertex(self, gradient: Floats) -> tuple[int, float]:
        """The vertex s with the least <s, gradient>: its column and weight. Ties go to the lowest column.

        Parameters
        ----------
        gradient
            One finite number a column.
        """
        column = int(np.argmin(gradient))
        _finite(gradient[column])
        return column, self.radius

    def support(self, gradient: Floats) -> float:
        return self.radius * _finite(np.min(gradient))

    def project(self, x: Floats) -> Floats:
        return project_simplex(x, self.radius)

    def start(self, d: int) -> Floats:
        """The first corner: a solver starts there.

        Parameters
        ----------
        d
            The number of columns.
        """
        point = np.zeros(d)
        point[0] = self.radius
        return point


@dataclass(frozen=True)
class GroupL1Ball:
    """Σ_g ‖x_g‖₂ ≤ radius over disjoint groups that together name every column.

    Parameters
    ----------
    radius
        The most that the lengths of all groups may add up to, above 0.
    groups
        Columns by their place in the joint table, such as ((0, 1), (2,)): a group is in the model as a whole or not at
        all.
    """

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

    def support(self, gradient: Floats) -> float:
        return -self.radius * _finite(np.max(self._norms(gradient)))

    def project(self, x: Floats) -> Floats:
        return project_group_l1(x, covers(self._owner, x), len(self.groups), self.radius)

    def start(self, d: int) -> Floats:
        """No coefficients: a solver starts there, once the groups name every column.

        Parameters
        ----------
        d
            The number of columns.
        """
        point = np.zeros(d)
        covers(self._owner, point)
        return point


@dataclass(frozen=True)
class Product:
    """The same set for every block: "columns", "parties", or groups of columns that together name all of them.

    Parameters
    ----------
    each
        The set that each block of coefficients lies in.
    blocks
        "columns": every column is a block; "parties": what a party holds is one; or groups of columns by their place in
        the joint table, each at one party, such as ((0, 1), (2,)).
    """

    each: L1Ball | L2Ball | Simplex
    blocks: str | Groups = COLUMNS
    gap = gap_of

    def __post_init__(self) -> None:
        if not isinstance(self.each, L1Ball | L2Ball | Simplex):
            raise InvalidInput(
                f"Product({self.each!r}): the set of a block is L1Ball(radius), L2Ball(radius) or Simplex(radius); Box "
                "and NonNegative hold for each column, and need no Product."
            )
        if isinstance(self.blocks, str):
            if self.blocks not in (COLUMNS, PARTIES):
                raise InvalidInput(f"blocks={self.blocks!r}: give 'columns', 'parties' or groups like ((0, 1), (2,)).")
        else:
            object.__setattr__(self, "blocks", disjoint_groups(self.blocks))

    @property
    def radius(self) -> float:
        """The radius of one block's set."""
        return self.each.radius

    def over(self, held: Sequence[Sequence[int]]) -> Product:
        """The same product with its groups written out, for parties that hold these places of the joint table.

        Parameters
        ----------
        held
            For each party, the places of its columns.
        """
        if self.blocks == COLUMNS:
            places = sorted(place for own in held for place in own)
            return replace(self, blocks=tuple((place,) for place in places))
        if self.blocks == PARTIES:
            return replace(self, blocks=tuple(tuple(own) for own in held if own))
        groups = self._groups(sum(len(own) for own in held))
        party_of = {place: number for number, own in enumerate(held) for place in own}
        for group in groups:
            if len({party_of.get(place) for place in group}) > 1 or group[0] not in party_of:
                raise InvalidInput(
                    f"a block of {len(group)} columns lies at several parties: a block must live at one. Regroup the "
                    "columns, or give blocks='columns' or blocks='parties'."
                )
        return replace(self, blocks=groups)

    def _groups(self, d: int) -> Groups:
        if self.blocks == COLUMNS:
            return tuple((j,) for j in range(d))
        if isinstance(self.blocks, str):
            raise InvalidInput("blocks='parties' has no meaning without parties: use Product.over(who holds what).")
        if (named := sum(map(len, self.blocks))) != d:
            raise InvalidInput(f"the blocks name {named:,} columns and there are {d:,}: every column needs one block.")
        return self.blocks

    def _parts(self, x: Floats) -> list[Floats]:
        return [x[list(group)] for group in self._groups(x.size)]

    def contains(self, x: Floats, tolerance: float = 1e-9) -> bool:
        return all(self.each.contains(part, tolerance) for part in self._parts(x))

    def support(self, gradient: Floats) -> float:
        return sum(self.each.support(part) for part in self._parts(gradient))

    def project(self, x: Floats) -> Floats:
        point = np.zeros(x.size)
        for group in self._groups(x.size):
            point[list(group)] = self.each.project(x[list(group)])
        return point


def _finite(number: float) -> float:
    """The number, or InvalidInput: argmax and argmin stop at a NaN, so one look at the winner is enough."""
    if not math.isfinite(number):
        raise InvalidInput("the gradient holds NaN or infinity: look for missing values, or scale features down.")
    return float(number)
