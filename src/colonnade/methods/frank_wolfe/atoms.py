"""What Frank-Wolfe steps towards: a column, a direction in a group of columns, or a decision stump on a column.

Each kind has two faces. Its catalogue is public: the set that the weights of atoms lie in, and the place of an atom in
one order of all of them, by which ties are decided whoever holds what. Its source is one party's own: which of its
atoms is steepest, and the atom itself when it wins.

Kind     problem            an atom's column                    name (index)             travels
columns  L1Ball, Simplex    the column                          its place in the block   once; sparse if stored so
groups   GroupL1Ball        A_g u, u = −∇_g/‖∇_g‖₂, ‖u‖₂ = 1    the group's number       whenever it wins: u is new
stumps   AdaBoost           ±1 a row                            column, cut and sign     once; one bit a row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from colonnade.errors import InvalidInput, ProtocolError
from colonnade.kernels.arrays import Floats
from colonnade.kernels.columns import best_stump, csr_rmatvec
from colonnade.model.job import Job, Roster
from colonnade.privacy.block import Block, Column
from colonnade.privacy.values import Packed
from colonnade.problem import AdaBoost, GroupL1Ball, L1Ball, Problem, Simplex
from colonnade.problem.boosting import Stumps
from colonnade.problem.checks import group_of_column

Hull: TypeAlias = L1Ball | Simplex
FEW = 0.25  # of the entries of a dense block: up to here it is read faster without its zeros


class Source(Protocol):
    """One party's atoms."""

    def steepest(self, slope: Floats) -> tuple[int, float]:
        """Name and score <column, slope> of the party's best atom."""

    def take(self, number: int, index: int) -> Column | Packed:
        """The column of an atom, which all nodes will call by `number` from now on."""

    def coefficients(self, weights: Floats) -> Floats:
        """The party's coefficients, given the weights of all atoms by number."""

    def model(self, weights: Floats) -> Stumps | None:  # noqa: ARG002  most have none
        """What the party predicts with, where coefficients do not say it."""
        return None


def catalogue(job: Job) -> Catalogue:
    """The atoms of this problem, or InvalidInput when Frank-Wolfe cannot walk over its set."""
    problem: Problem | AdaBoost = job.problem
    if isinstance(problem, AdaBoost):
        return StumpAtoms(job.roster)
    if isinstance(problem.constraint, L1Ball | Simplex):
        return ColumnAtoms(job.roster, problem.constraint)
    if isinstance(problem.constraint, GroupL1Ball):
        return GroupAtoms(job.roster, problem.constraint)
    allowed = "an L1Ball, a Simplex or a GroupL1Ball"
    raise InvalidInput(f"Frank-Wolfe minimises over {allowed}: give Problem(loss, constraint=co.L1Ball(radius)).")


# ------------------------------------------------------------------------------------------------ columns


@dataclass(frozen=True)
class ColumnAtoms:
    """Every column is an atom."""

    roster: Roster
    hull: Hull  # where the weights of atoms lie
    lasting: bool = True  # whether a name means the same column in every round, so that it need not be sent again
    leaves: str = "every column that wins a round, in full"  # what a winner gives away, in words

    def place(self, party: str, index: int) -> int:
        """The place of an atom among all parties' atoms; ProtocolError where the party has no such atom."""
        places = self.roster.positions[party]
        if not 0 <= index < len(places):
            raise ProtocolError(f"{party!r} bids with column {index} of its {len(places):,}")
        return places[index]

    def most(self, party: str, rounds: int) -> int:
        """How many atoms a party can give away at most."""
        return min(rounds, len(self.roster.positions[party]))

    def own(self, block: Block) -> Source:
        return _OwnColumns(block, self.hull)


@dataclass
class _OwnColumns(Source):
    block: Block
    hull: Hull
    mine: dict[int, int] = field(default_factory=dict)  # column by number of the atom

    @cached_property
    def _by_row(self) -> tuple[Any, Any, Any] | None:
        """A dense block without its zeros, if it is mostly zeros: all of it is read in every round."""
        matrix = self.block.matrix
        if sparse.issparse(matrix):
            return None
        some = matrix != 0.0
        ends = np.append(0, np.cumsum(np.count_nonzero(some, axis=1)))
        if ends[-1] > FEW * matrix.size:
            return None
        places = np.flatnonzero(some)
        return matrix.ravel()[places], places % matrix.shape[1], ends

    def steepest(self, slope: Floats) -> tuple[int, float]:
        if self._by_row is None:
            scores = self.block.correlations(slope)
        else:
            csr_rmatvec(*self._by_row, slope, scores := np.empty(self.block.columns))  # the same to the bit
        index = int(self.block.by_position[self.hull.vertex(scores[self.block.by_position])[0]])
        return index, float(scores[index])

    def take(self, number: int, index: int) -> Column:
        column = self.block.column(index)
        self.mine[number] = index
        return column

    def coefficients(self, weights: Floats) -> Floats:
        x = np.zeros(self.block.columns)
        for number, index in self.mine.items():
            x[index] = weights[number]
        return x


# ------------------------------------------------------------------------------------------------ groups


@dataclass(frozen=True)
class GroupAtoms:
    """Every unit direction in a group of columns is an atom; a group lives at one party."""

    roster: Roster
    ball: GroupL1Ball
    lasting: bool = False
    leaves: str = "one combination of its columns for every round that a group of it wins"

    @property
    def hull(self) -> L1Ball:
        return L1Ball(self.ball.radius)

    @cached_property
    def holders(self) -> Mapping[int, str]:
        """Who holds each group; InvalidInput where two parties share one, or where a column is in none."""
        owner = group_of_column(self.ball.groups)
        held = sum(map(len, self.roster.positions.values()))
        holders: dict[int, str] = {}
        for party, place in ((party, place) for party, places in self.roster.positions.items() for place in places):
            if place >= owner.size or owner[place] < 0:
                where = f"column {place} of party {party!r}"
                alone = f"a group such as ({place},)"
                raise InvalidInput(f"{where} is in no group: every column needs one; one on its own is {alone}.")
            number = int(owner[place])
            if (other := holders.setdefault(number, party)) != party:
                raise InvalidInput(
                    f"group {number} is split: {other!r} and {party!r} both hold columns of it. A group must live at "
                    "one party: move its columns together, or make one group at each party."
                )
        if len(holders) < len(self.ball.groups) or owner.size > held:
            named = f"groups name columns up to {owner.size - 1}, and the parties hold {held:,}"
            raise InvalidInput(f"{named}: leave out the groups of columns that are not there.")
        return holders

    def place(self, party: str, index: int) -> int:
        if self.holders.get(index) != party:
            raise ProtocolError(f"{party!r} bids with group {index}, which it does not hold")
        return index

    def most(self, party: str, rounds: int) -> int:  # noqa: ARG002  a group may win every round
        return rounds

    def own(self, block: Block) -> Source:
        owner = group_of_column(self.ball.groups)[block.positions]
        return _OwnGroups(block, owner)


@dataclass
class _OwnGroups(Source):
    block: Block
    owner: Any  # the group of each column
    best: int = -1
    direction: Floats = field(default_factory=lambda: np.zeros(0))
    mine: dict[int, Floats] = field(default_factory=dict)  # unit vector over the block by number of the atom

    def steepest(self, slope: Floats) -> tuple[int, float]:
        # One order of summation, whoever holds the group.
        order = self.block.by_position
        scores = self.block.correlations(slope)
        largest = float(np.max(np.abs(scores)))
        if not np.isfinite(largest):
            raise InvalidInput("the gradient holds NaN or infinity: check the features, or scale them down.")
        # A power of two: scaling changes no digit, and no square vanishes.
        scale = 2.0 ** float(np.frexp(largest)[1])
        sums = np.bincount(self.owner[order], weights=np.square(scores[order] / scale))
        groups = np.unique(self.owner)
        self.best = int(groups[np.argmax(sums[groups])])
        norm = float(np.sqrt(sums[self.best]))
        inside = self.owner == self.best
        self.direction = np.where(inside, scores / scale, 0.0) / -norm if norm else _first(inside)
        return self.best, -norm * scale

    def take(self, number: int, index: int) -> Column:
        if index != self.best:
            raise ProtocolError(f"a party was asked for group {index}, which was not its bid")
        self.mine[number] = self.direction
        column = self.block.scores(self.direction)
        if not sparse.issparse(self.block.matrix):
            return column
        rows = np.flatnonzero(column)
        return sparse.csc_array((column[rows], rows, np.array([0, rows.size])), shape=(column.size, 1))

    def coefficients(self, weights: Floats) -> Floats:
        x = np.zeros(self.block.columns)
        for number, direction in self.mine.items():
            x += weights[number] * direction
        return x


def _first(inside: Any) -> Floats:
    """Where the gradient is zero every direction is as good: the first column's."""
    unit = np.zeros(inside.size)
    unit[int(np.argmax(inside))] = 1.0
    return unit


# ------------------------------------------------------------------------------------------------ stumps


@dataclass(frozen=True)
class StumpAtoms:
    """Every decision stump on a column is an atom; its name is (column·n + rows below its threshold)·2 + flipped."""

    roster: Roster
    hull: Hull = AdaBoost.constraint
    lasting: bool = True
    leaves: str = "what every stump that wins a round says of each row"

    @property
    def span(self) -> int:
        return 2 * self.roster.rows

    def place(self, party: str, index: int) -> int:
        places = self.roster.positions[party]
        if not 0 <= index < len(places) * self.span:
            raise ProtocolError(f"{party!r} bids with stump {index} of its {len(places):,} columns")
        return places[index // self.span] * self.span + index % self.span

    def most(self, party: str, rounds: int) -> int:  # noqa: ARG002  there are more stumps than rounds
        return rounds

    def own(self, block: Block) -> Source:
        return _OwnStumps(block)


@dataclass
class _OwnStumps(Source):
    block: Block
    mine: dict[int, int] = field(default_factory=dict)  # index by number of the atom

    def __post_init__(self) -> None:
        held = sparse.csc_array(self.block.matrix, copy=True)
        held.eliminate_zeros()
        for j in range(self.block.columns):
            ends = slice(held.indptr[j], held.indptr[j + 1])
            order = np.argsort(held.data[ends], kind="stable")
            held.data[ends], held.indices[ends] = held.data[ends][order], held.indices[ends][order]
        self._values = held.data
        self._rows = held.indices
        self._ends = held.indptr

    def steepest(self, slope: Floats) -> tuple[int, float]:
        if not np.isfinite(slope).all():
            raise InvalidInput("the weights of the rows hold NaN: raise the temperature.")
        column, cut, edge = best_stump(self._values, self._rows, self._ends, self.block.by_position, slope)
        return (int(column) * self.block.rows + int(cut)) * 2 + int(edge > 0.0), -abs(float(edge))

    def take(self, number: int, index: int) -> Packed:
        column, threshold, sign = self._read(index)
        self.mine[number] = index
        values = self.block.column(column)
        values = values if isinstance(values, np.ndarray) else values.toarray().ravel()
        return Packed(((values > threshold) == (sign > 0)).astype(np.uint64), 1)

    def coefficients(self, weights: Floats) -> Floats:
        """How much each column counts: the weights of its stumps together."""
        x = np.zeros(self.block.columns)
        for number, index in self.mine.items():
            x[self._read(index)[0]] += weights[number]
        return x

    def model(self, weights: Floats) -> Stumps:
        used = [(*self._read(index), weights[number]) for number, index in self.mine.items() if weights[number] != 0.0]
        columns, thresholds, signs, shares = (np.array(part) for part in zip(*used, strict=True)) if used else _NONE
        return Stumps(columns.astype(np.int64), thresholds, signs, shares)

    def _read(self, index: int) -> tuple[int, float, float]:
        """Column, threshold and sign of a stump. The threshold lies in the middle of the gap that the cut names."""
        (column, cut), flipped = divmod(index // 2, self.block.rows), index % 2
        if not 0 <= column < self.block.columns:
            raise ProtocolError(f"a party was asked for a stump on column {column} of its {self.block.columns:,}")
        stored = self._values[self._ends[column] : self._ends[column + 1]]
        zeros = self.block.rows - stored.size
        below = int(np.searchsorted(stored, 0.0))

        def ranked(k: int) -> float:
            """The k-th smallest entry of the column."""
            return 0.0 if below <= k < below + zeros else float(stored[k if k < below else k - zeros])

        if cut == 0:
            return column, -np.inf, -1.0 if flipped else 1.0
        low, high = ranked(cut - 1), ranked(cut)
        middle = low + (high - low) / 2.0
        return column, middle if low <= middle < high else low, -1.0 if flipped else 1.0


Catalogue: TypeAlias = ColumnAtoms | GroupAtoms | StumpAtoms  # what everybody knows of the atoms
_NONE = tuple(np.zeros(0) for _ in range(4))


def as_column(received: Any) -> Column:
    """An atom as it is stored: bits become −1 and +1."""
    return 2.0 * received.values.astype(np.float64) - 1.0 if isinstance(received, Packed) else received
