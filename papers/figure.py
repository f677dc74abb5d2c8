"""What a figure of a paper is: independent pieces of work, a drawing, and the claims its curves make.

A figure's file says which cases there are and what one case yields; running them in parallel, keeping their rows
and drawing them is the same for all figures (runner.py). A case is named by its parameters alone, so an
interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from papers.plot import Plot

Case = dict[str, int | float | str]
Row = dict[str, int | float | str | None]
EXACT = "none: every value that leaves anybody is exact"


def stated(curves: str, *, epsilon: str, delta: str, unit: str, trust: str, guarantee: str, note: str = "") -> str:
    """The privacy of some of a figure's curves, in words for the plot: nothing that a reader needs can be left out."""
    ending = f" {note}" if note else ""
    return f"{curves}: epsilon {epsilon}, delta {delta}; unit: {unit}; trust model: {trust}; guarantee: {guarantee}.{ending}"


@dataclass(frozen=True)
class Verdict:
    """Whether the rows bear a claim out, and the numbers that say so."""

    held: bool
    evidence: str


class Silent(Exception):
    """The rows have nothing that the claim is about."""


@dataclass(frozen=True)
class Claim:
    """What a published curve is said to show. `reproduces=False` is a finding: the claim is known not to hold.

    A claim and its criterion are written down before its figure runs; one that was changed afterwards says so.
    """

    says: str
    check: Callable[[pl.DataFrame], Verdict]
    confidence: str  # the criterion: what has to be the case, exactly or by which test and level over the repeats
    reproduces: bool = True
    finding: str = ""  # why it does not hold and what holds instead; required where reproduces is False
    changed: str = ""  # what was another claim or criterion before it was seen to run, and why
    quick: bool | None = None  # what a quick run says of it, where it is too small to say what a full one does

    def expected(self, quick: bool) -> bool:
        """The verdict that a run of this size ought to give."""
        return self.reproduces if self.quick is None or not quick else self.quick


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper, with its settings and the repeats that make it."""

    name: str  # "gratton-5.2": what a user types
    paper: str  # "Gratton 2021"
    title: str
    setting: str  # the paper's settings; where ours differ (data that cannot be had, sizes), it says so
    cases: Callable[[bool], Sequence[Case]]  # quick -> what is to be run; each case on its own, in any order
    run: Callable[..., list[Row]]  # run(**case): the rows of one case; seeded by the case alone
    draw: Callable[[pl.DataFrame], Plot]
    claims: tuple[Claim, ...]
    privacy: str  # of what is drawn, printed on the plot: one or more of `stated`, or why there is none, such as EXACT
    data: tuple[str, ...] = ()  # data sets it reads, by name
    less: str = ""  # what else a full run has less of than the paper, and why: it stands on the plot
    printed: Mapping[str, int] = field(
        default_factory=dict
    )  # the paper's sizes by parameter, "seed" for its repeats: where a full run has less, the plot says so
    shares: str = ""  # a name for figures of one `run` that have cases in common: these are run once
    fresh: bool = False  # its cases have no seed and yet chance has a part: noise of the system, or a clock
    listing: Callable[[pl.DataFrame], list[dict[str, str]]] | None = (
        None  # a small table that pages print beside the plot
    )
