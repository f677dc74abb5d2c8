"""A product of sets: every block of coefficients has a ball of its own.

    constraint = co.Product(co.L1Ball(1.0), blocks="columns")      |x_j| ≤ 1 for every column: a box
    constraint = co.Product(co.L1Ball(3.0), blocks="parties")      ‖x_k‖₁ ≤ 3 at every party
    constraint = co.Product(co.Simplex(), blocks=((0, 1), (2, 3)))     groups of columns, by their place in the joint
                                                                       table

Vertices, certificate and projection are those of the blocks, side by side. A product is not an ℓ1 ball: ‖x‖₁ may reach
the sum of the radii.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats
from colonnade.problem.checks import Groups, disjoint_groups
from colonnade.problem.sets import L1Ball, Simplex, gap_of

COLUMNS, PARTIES = "columns", "parties"


@dataclass(frozen=True)
class Product:
    """The same set for every block: "columns", "parties", or groups of columns that together name all of them."""

    each: L1Ball | Simplex
    blocks: str | Groups = COLUMNS
    gap = gap_of

    def __post_init__(self) -> None:
        if not isinstance(self.each, L1Ball | Simplex):
            raise InvalidInput(f"Product({self.each!r}): the set of a block is L1Ball(radius) or Simplex(radius).")
        if isinstance(self.blocks, str):
            if self.blocks not in (COLUMNS, PARTIES):
                raise InvalidInput(f"blocks={self.blocks!r}: give 'columns', 'parties' or groups like ((0, 1), (2,)).")
        else:
            object.__setattr__(self, "blocks", disjoint_groups(self.blocks))

    @property
    def radius(self) -> float:
        return self.each.radius

    def over(self, held: Sequence[Sequence[int]]) -> Product:
        """The same product with its groups written out, for parties that hold these places of the joint table."""
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

    def vertex(self, gradient: Floats) -> tuple[int, Floats]:
        """(0, the whole vertex): every block's own, side by side."""
        point = np.zeros(gradient.size)
        for group in self._groups(gradient.size):
            column, weight = self.each.vertex(gradient[list(group)])
            point[group[column]] = weight
        return 0, point

    def support(self, gradient: Floats) -> float:
        return sum(self.each.support(part) for part in self._parts(gradient))

    def project(self, x: Floats) -> Floats:
        point = np.zeros(x.size)
        for group in self._groups(x.size):
            point[list(group)] = self.each.project(x[list(group)])
        return point

    def start(self, d: int) -> Floats:
        point = np.zeros(d)
        for group in self._groups(d):
            point[list(group)] = self.each.start(len(group))
        return point
