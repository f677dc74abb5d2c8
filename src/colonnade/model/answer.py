"""What programs return: the model as far as a node may know it, why the run stopped, what a party keeps, and what
is made of a release beside its model: a Gram matrix as it left, class sums, and what it was solved with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from colonnade.kernels.arrays import Floats, Indices
from colonnade.privacy.gate import Receipt
from colonnade.problem.link import Link

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
