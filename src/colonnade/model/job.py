"""What is to be done, as everybody approved it: the problem, who takes part, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Integers
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
    auto_curve_counts: tuple[int, ...] = ()  # how many columns the method may bend, to depth 1, 2 and so on
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
    depths = list[int]()
    hats = 0
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


# ---------------------------------------------------------------------------------- what is public about rows


def norms(job: Job) -> dict[str, float]:
    """The public length to which each party clips its part of a row.

    A number for the whole row is shared out in proportion to what the schemas prove, or to the numbers of columns.
    """
    roster = job.roster
    privacy = job.privacy
    assert privacy is not None
    given = privacy.row_norm
    holders = roster.with_columns
    proven = {party: roster.known[party].norm for party in holders if party in roster.known}
    if isinstance(given, Mapping):
        if unknown := set(given) - set(holders):
            raise InvalidInput(f"row_norm names {sorted(unknown)[0]!r}, which is not a party with columns.")
        if missing := [party for party in holders if party not in given and party not in proven]:
            raise InvalidInput(
                f"row_norm says nothing about party {missing[0]!r}, and no declared schema bounds its rows: "
                f"give Privacy(row_norm={{..., {missing[0]!r}: 1.0}})."
            )
        return {party: min(given.get(party, math.inf), proven.get(party, math.inf)) for party in holders}
    if given is None:
        if missing := [party for party in holders if party not in proven]:
            raise InvalidInput(
                f"nothing public bounds the rows of party {missing[0]!r}: declare its schema "
                "(from_frames(..., schemas={party: co.Schema(...)}); in its file, replace what was read off the data "
                "and then "
                'remove the line source = "data"), or give Privacy(row_norm=...), a length beyond which a row is '
                "shortened. "
                "A bound read off the data would tell about single rows."
            )
        return proven
    if len(proven) == len(holders):
        whole = math.hypot(*proven.values())
        return {party: bound * min(1.0, given / whole) for party, bound in proven.items()}
    columns = {party: len(roster.positions[party]) for party in holders}
    total = sum(columns.values())
    shares = {party: given * math.sqrt(count / total) for party, count in columns.items()}
    return {party: min(share, proven.get(party, math.inf)) for party, share in shares.items()}


def uncut(job: Job) -> bool:
    """Whether the schemas prove that no row is shortened and no entry cut."""
    lengths = norms(job)
    known = job.roster.known
    return all(
        party in known
        and known[party].proven
        and lengths[party] >= known[party].norm
        and (entry_bounds(job, party)[0] >= known[party].bounds).all()
        for party in job.roster.with_columns
    )


def hat_levels(job: Job, party: str) -> Integers:
    """Of each column of a party its level among the hats of a curve, 0 for all others."""
    known = job.roster.known.get(party)
    return np.array(known.level if known and known.level else [0] * len(job.roster.positions[party]), np.int64)


def rounding_room(job: Job, party: str, step: float) -> int:
    """What rounding to the nearest step may add to the squares of a party's curves, in steps.

    Of a curve of depth L at most L + 1 entries v are not 0, and their squares sum to at most 1/step². Those of entries
    that are longer by ½ sum to Σ v + (L + 1)/4 more, and Σ v ≤ √(L + 1)/step.
    """
    levels = hat_levels(job, party)
    depths = range(1, int(levels.max(initial=0)) + 1)
    room = [0.0, *(math.sqrt(k + 1) / step + (k + 1) / 4.0 for k in depths)]  # of a curve of each depth
    reaching = (np.count_nonzero(levels == k) >> (k - 1) for k in depths)  # curves of this depth or more
    return math.ceil(sum(count * (room[k] - room[k - 1]) for k, count in zip(depths, reaching, strict=True)))


def directions(job: Job) -> Integers:
    """Of all columns, in roster order: 1 or -1 where a number never falls or rises, 0 elsewhere."""
    known = {party: job.roster.known.get(party) for party in job.roster.parties}
    own = {p: k.monotone if k and k.monotone else [0] * len(job.roster.positions[p]) for p, k in known.items()}
    return np.concatenate([np.array(part, np.int64) for part in own.values()])


def entry_bounds(job: Job, party: str) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each column of a party, in public: the bound of an entry, whether it is 0 or 1, whether it is at least 0."""
    roster = job.roster
    privacy = job.privacy
    assert privacy is not None
    width = len(roster.positions[party])
    limit = math.inf if privacy.feature_bound is None else privacy.feature_bound
    if party in roster.known:
        known = roster.known[party]
        return np.minimum(known.bounds, limit), np.array(known.binary, bool), np.array(known.nonnegative, bool)
    # No entry is larger than its row, which is clipped.
    return np.full(width, min(limit, norms(job).get(party, 0.0))), np.zeros(width, bool), np.zeros(width, bool)
