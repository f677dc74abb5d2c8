"""What is to be done, as everybody approved it, and what comes of it.

Job      the problem, who takes part, and what it may cost.
Answer   what programs return: the model as far as a node may know it, why the run stopped, what a party keeps.
Release  what is made of one beside its model: a Gram matrix as it left, class sums, and what it was solved with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.kernels.arrays import Floats, Indices, Integers
from colonnade.privacy.block import ROW, FeatureColumn, Unit
from colonnade.privacy.gate import Receipt
from colonnade.privacy.statement import Privacy
from colonnade.problem import Problem
from colonnade.problem.link import Link


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


class Sought(NamedTuple):
    """A column without declared figures, as everybody knows it before a look."""

    name: str
    kind: str  # "numeric", "date", "categorical"; or "unknown"
    label: bool = False


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
    sought: Mapping[str, tuple[Sought, ...]] = field(default_factory=dict)  # by party, where a look comes first

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
        return self.privacy.rho

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


LEAST_SHARE = 0.02  # a class's share is never believed to be smaller


@dataclass(frozen=True)
class Sums:
    """Released class sums. A row's weight in `positive` is (1 + y/Y)/2, in `negative` the rest: 1 and 0 for classes."""

    positive: Floats  # (d,)
    negative: Floats  # (d,)
    count: float  # n+: sum of the weights
    half_squares: Floats  # (d,) sum of a²/2; ignored for binary columns
    noise: Floats  # (d,) sd of positive and of negative, independent
    count_noise: float
    square_noise: Floats  # (d,) sd of half_squares

    def of(self, columns: Indices) -> Sums:
        """Those of some columns."""
        names = ("positive", "negative", "half_squares", "noise", "square_noise")
        return replace(self, **{name: getattr(self, name)[columns] for name in names})

    def label_mean(self, rows: int) -> tuple[float, float]:
        """The mean of y/Y and its sd; no class is believed to be rarer than LEAST_SHARE."""
        most = 1.0 - 2.0 * LEAST_SHARE
        return float(np.clip(2.0 * self.count / rows - 1.0, -most, most)), 2.0 * self.count_noise / rows

    def pull(self, label_mean: float, label_doubt: float) -> tuple[Floats, Floats]:
        """Σ (y/Y − its mean)·a for each column, and its sd, given the mean of y/Y and the sd of that."""
        whole = self.positive + self.negative
        pull = self.positive - self.negative - label_mean * whole
        own = (np.square(1.0 - label_mean) + np.square(1.0 + label_mean)) * np.square(self.noise)
        return pull, np.sqrt(own + np.square(label_doubt * whole))


@dataclass(frozen=True)
class Solving:
    """What a released Gram was solved with beside itself: the same is needed to solve it again for fewer columns."""

    ridge: float  # k in k·g·√s
    doubt: Floats  # (s,) sd of each centre; inf where rows were not centred
    sums: Sums | None  # class sums of these columns, of rows that may have been shortened
    choose: bool  # whether only as much is made of curves as the release bears out
    select: bool  # whether the weight of the penalty is chosen along its path

    def of(self, places: Indices) -> Solving:
        """That of some columns."""
        return replace(self, doubt=self.doubt[places], sums=None if self.sums is None else self.sums.of(places))


@dataclass(frozen=True, slots=True)
class ReleasedGram:
    """A Gram matrix of [columns, 1, label] as it was released, and how its rows were made."""

    matrix: Floats  # (s + 2, s + 2)
    noise: Floats  # sd of every entry; 0 where it is public
    keep: Indices  # (s,) places among all columns
    centre: Floats  # (s,) what was taken off a column, and what it was multiplied by
    scale: Floats
    norms: Mapping[str, float]  # by party: rows that were longer were shortened to it
    proven: bool  # whether public bounds prove that none was
    rule: str
    cross: str
    step: float
    sums: Sums | None = None  # by class, of these columns: where they were released first and no row was shortened
    cut: bool = False  # whether entries of curves were cut toward zero instead of rounded to the nearest step
    solving: Solving | None = None  # what it was solved with beside itself


class Status(Enum):
    """Why a run stopped."""

    CERTIFIED = "gap below tolerance"
    AGREED = "all agents agree and stand still within the tolerance"
    OUT_OF_ROUNDS = "rounds used up before the tolerance was reached"
    ONE_EXCHANGE = "one exchange, and everything else from what it released"
    ALL_ROUNDS = "all rounds done, as many as were asked for: the tolerance was 0"
    # Of private runs alone: an exact run has released everything that stopping could tell.
    FIXED_ROUNDS = "all rounds done; their number was fixed before, since stopping on the data would be a release"


@dataclass(frozen=True, slots=True)
class Answer:
    """The model as far as one node may know it: the coordinator, or the agents of a graph."""

    coefficients: Mapping[str, Floats]
    intercept: float
    objective: float | None
    gap: float | None
    status: Status
    spread: Mapping[str, Floats] | None = None  # standard errors, privacy noise included
    path: tuple[Floats, Mapping[str, Floats]] | None = None  # weights of the penalty, and coefficients at each of them
    link: Link | None = None  # from a score to a probability
    remarks: tuple[str, ...] = ()  # what a reader must know about how the answer was found
    model: Any = None  # what predicts, where coefficients alone do not: the examples of a kernel machine
    release: ReleasedGram | None = None  # what the model was made of, where that is a Gram matrix
    absent: Mapping[str, str] = field(default_factory=dict)  # parties that were lost on the way, and when


@dataclass(frozen=True, slots=True)
class Own:
    """What a party's program returns; it stays with the party."""

    coefficients: Floats
    receipt: Receipt = field(default_factory=lambda: Receipt(()))
    shortened: int = 0  # rows that were over their public bound: for the party's operator only
    answer: Answer | None = None  # on a graph: what this agent knows of the whole; the Fit takes the label holder's
    model: Any = None  # the party's part of what predicts, where coefficients alone do not: its stumps


class Swamped(str):
    """A remark that noise rules, which a fit also warns of and logs; from public and released figures alone."""

    WORDS = "the noise swamps the model"


def swamped(why: str) -> Swamped:
    return Swamped(f"{Swamped.WORDS}: {why}. A larger epsilon, more rows or tighter public bounds would help")
