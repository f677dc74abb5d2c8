"""What programs return: the model as far as a node may know it, why the run stopped, and what a party keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from colonnade.kernels.arrays import Floats
from colonnade.model.release import ReleasedGram
from colonnade.privacy.gate import Receipt
from colonnade.problem.link import Link


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
