"""What is to be done, as everybody approved it: the problem, who takes part, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.errors import InvalidInput
from colonnade.privacy.accountant import rho_for
from colonnade.privacy.block import ROW, FeatureColumn, Unit
from colonnade.privacy.statement import Privacy
from colonnade.problem import Problem


@dataclass(frozen=True, slots=True)
class Known:
    """What a party's schema says in public about its encoded columns."""

    bounds: tuple[float, ...]  # of the absolute value of an entry
    binary: tuple[bool, ...]
    nonnegative: tuple[bool, ...]
    norm: float  # of a row: proven by the columns, or declared where that is less
    proven: bool = False  # whether no row can be longer than that
    level: tuple[int, ...] = ()  # of a curve's hat, 1, 2, …; 0 for other columns; empty: there are no curves
    monotone: tuple[int, ...] = ()  # 1 or -1 of a number that never falls or rises, its hats behind it; empty: none


@dataclass(frozen=True, slots=True)
class Roster:
    """What everybody knows before a run: who takes part, which places its columns have, who holds the labels."""

    rows: int
    positions: Mapping[str, tuple[int, ...]]  # by party, in the order of the party's columns
    label: str  # who holds the labels; where rows are split, everybody does, and this is who reports
    unit: Unit = ROW
    held_rows: Mapping[str, int] = field(default_factory=dict)  # by party, where rows are split; else empty
    known: Mapping[str, Known] = field(default_factory=dict)  # of the parties with a declared schema
    responses: int = 0  # numbers in a row's label, where it is a vector; 0 where it is one number
    left_open: tuple[int, ...] = ()  # how many columns the method may bend, to depth 1, 2 and so on
    depth: int = 0  # to which it bent those that were left open
    beside: tuple[str, ...] = ()  # what stands beside every label, at its holder: of "offset" and "weight"
    quorum: int = 0  # parties that must be left for a run to go on when others are lost; 0: it ends then

    def __post_init__(self) -> None:
        """Every node makes its own before a run is priced: what disagrees here has cost nobody anything."""
        for party, known in self.known.items():
            due = len(self.positions.get(party, ()))
            figures = (known.bounds, known.binary, known.nonnegative, known.level, known.monotone)
            if wrong := [len(one) for place, one in enumerate(figures) if len(one) != due and (one or place < 3)]:
                raise InvalidInput(
                    f"the schema of {party!r} describes {wrong[0]:,} encoded columns, and it has {due:,} places in the "
                    "joint table. Nothing was sent. Give every party the same file, and the same version of Colonnade."
                )

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Of the labels as they travel: with a column for all that stands beside them."""
        return (self.rows, 1 + len(self.beside)) if self.beside else (self.rows,)

    @property
    def by_rows(self) -> bool:
        """Whether each party holds all columns of its own rows."""
        return bool(self.held_rows)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.positions)

    @property
    def with_columns(self) -> tuple[str, ...]:
        return tuple(party for party, places in self.positions.items() if places)


def curves_in_words(roster: Roster) -> str:
    """How deep the curves are that were asked for or chosen, and how many columns; empty: there are none."""
    depths, hats = list[int](), 0
    for known in roster.known.values():
        for level in filter(None, known.level):  # those of a curve rise from 1 on
            hats += 1
            depths[len(depths) - (level > 1) :] = [level]
    if not depths:
        return ""
    deep = "" if min(depths) == max(depths) else f"{min(depths)} to "
    columns = sum(len(places) for places in roster.positions.values())
    said = f"curves of depth {deep}{max(depths)}, {len(depths):,} in all"
    return f"{said}: {columns:,} columns instead of {columns - hats:,}"


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done, as everybody approved it: the problem, who takes part, and what it may cost."""

    problem: Problem
    roster: Roster
    privacy: Privacy | None = None

    @property
    def rho(self) -> float:
        """The whole price of the run that its privacy terms allow, in zCDP."""
        if self.privacy is None:
            raise InvalidInput("this method needs privacy=co.Privacy(epsilon, delta, ...), which sets its noise.")
        return rho_for(self.privacy.epsilon, self.privacy.delta)

    @property
    def feature_bound(self) -> float:
        """B: the public bound of an entry."""
        if self.privacy is None or self.privacy.feature_bound is None:
            raise InvalidInput("this method needs co.Privacy(..., feature_bound=B), a public bound of |entries|.")
        return self.privacy.feature_bound

    @property
    def label_bound(self) -> float:
        """Y: the public bound of a label, or of a residual; 1 for classes."""
        if self.problem.loss.classifies:
            return 1.0
        if self.privacy is None or self.privacy.label_reach is None:
            raise InvalidInput("this method needs co.Privacy(..., label_range=(low, high)), to which it clips labels.")
        return self.privacy.label_reach

    @property
    def units(self) -> tuple[int, str]:
        """How many units there are at most, and of what: both public, rows once the parties have agreed on them."""
        if isinstance(self.roster.unit, FeatureColumn):
            return sum(len(places) for places in self.roster.positions.values()), "columns"
        return self.roster.rows, "rows"
